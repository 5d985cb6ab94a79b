//! A storage device beside a NIC, and ways of the LLC for what L2s have, too: what A4 (Park et al., ISCA 2025) finds of both. Directions are
//! asserted, and sizes are printed (`benches/record/2026-11.md` has them).

use serde_json::Value;

use super::documents::{document, number, read};

/// Two cores that forward packets of 1518 B at 80 Gbps, behind a victim LLC of 11 ways of which two are of devices, as Skylake has it.
const NIC: [&str; 14] = [
    "machine.cores=2",
    "machine.l2.size=\"256 KiB\"",
    "machine.llc.size=\"5.5 MiB\"",
    "machine.llc.ways=11",
    "machine.llc.slices=4",
    "machine.llc.inclusion=victim",
    "machine.llc.io_ways=0x600",
    "nic.rate=\"100 Gbps\"",
    "traffic.load=0.8",
    "traffic.sizes={fixed=\"1518 B\"}",
    "traffic.flows.count=500",
    "function.forward.prefixes=500",
    "run.packets=15000",
    "run.warmup=15000",
];
/// Rings whose packets fit the I/O ways, if nobody else has them.
const SHORT: [&str; 4] = ["nic.rx_descriptors=64", "nic.tx_descriptors=64", "mempool.size=512", "mempool.cache=32"];

/// Of the NIC's writes, in place.
fn nic_hits(of: &Value) -> f64 {
    let ddio = of["levels"].as_array().unwrap().iter().find(|level| level["name"] == "DDIO").unwrap();
    number(ddio, "/hit_rate")
}

fn drive(rate: &str, more: &str) -> String {
    format!("neighbours=[{{name=\"nvme\", kind=\"storage\", rate=\"{rate}\"{more}}}]")
}

fn stored(of: &Value, what: &str) -> f64 {
    number(of, &format!("/neighbours/0/storage/{what}"))
}

#[test]
fn a_device_writes_at_its_rate_and_cores_read_what_it_has_written() {
    let idle = ["traffic.load=0.05", "run.packets=3000", "run.warmup=3000", "machine.dram.channels=4"];
    for controllers in [&[][..], &["machine.dram.standard=ddr4-2400u", "machine.dram.controller={}"]] {
        let found = |more: &str| document(&[&NIC, &SHORT, &idle, controllers, &[&drive("4 GB/s", more)]]);
        // In whole blocks, of which one is under way at both ends.
        let (alone, read) = (found(", cores=0"), found(", block=\"4 KiB\""));
        for document in [&alone, &read] {
            assert!((stored(document, "written_gbps") / 32.0 - 1.0).abs() < 0.02, "{}", document["neighbours"]);
        }
        assert_eq!(stored(&alone, "blocks_read_per_s"), 0.0);
        let read_gbps = stored(&read, "blocks_read_per_s") * 4096.0 * 8e-9;
        assert!((read_gbps / 32.0 - 1.0).abs() < 0.05, "{read_gbps} Gbps are read");
        // A line is loaded once for 64 B.
        let references = number(&read, "/neighbours/0/references_per_s") * 64.0 * 8e-9;
        assert!((references / read_gbps - 1.0).abs() < 0.05, "{references} of {read_gbps}");
        // One request waits for its reader.
        let one = found(", block=\"4 KiB\", queue_depth=1");
        assert!(stored(&one, "written_gbps") < 0.95 * 32.0, "{}", one["neighbours"]);
        assert!(stored(&one, "write_hit_rate") > 0.9, "its buffer stays in the caches");
    }
}

/// C2: a drive at full rate fills the I/O ways and gains little. Off for it alone, the NIC's writes find their lines again, and where DRAM
/// is short packets wait less; the drive loses nothing.
#[test]
fn without_direct_cache_access_a_drive_leaves_the_nic_its_ways() {
    let more = ", block=\"128 KiB\", queue_depth=64, cores=2";
    let (on, off) = (drive("12 GB/s", more), drive("12 GB/s", &format!("{more}, dca=false")));
    for channels in ["machine.dram.channels=2", "machine.dram.channels=1"] {
        let found = |neighbour: &[&str]| document(&[&NIC, &SHORT, &[channels], neighbour]);
        let (alone, on, off) = (found(&[]), found(&[&on]), found(&[&off]));
        for document in [&alone, &on, &off] {
            let [mean, p99] = ["mean", "p99"].map(|what| number(document, &format!("/sojourn_ns/{what}")));
            let storage = &document["neighbours"][0]["storage"];
            println!("{channels}: {:.4} in place, {mean:.0} ns, p99 {p99:.0}, {storage}", nic_hits(document));
        }
        assert!(nic_hits(&alone) > 0.95 && nic_hits(&on) < 0.8 && nic_hits(&off) > 0.95);
        for what in ["written_gbps", "blocks_read_per_s"] {
            assert!(stored(&off, what) > 0.97 * stored(&on, what), "{what} {}", off["neighbours"]);
        }
        let [with, without] = [&on, &off].map(|document| number(document, "/sojourn_ns/mean"));
        match channels {
            "machine.dram.channels=1" => assert!(with > 1.2 * without, "{with} and {without}"),
            _ => assert!((with / without - 1.0).abs() < 0.02, "{with} and {without}"),
        }
    }
}

/// C1: what cores read of packets moves to the inclusive ways, whoever has them by its mask. A co-runner there slows although masks are
/// disjoint, and one that is moved over does not.
#[test]
fn a_co_runner_on_the_inclusive_ways_slows_though_masks_are_disjoint() {
    let base = ["function.copy={}", "traffic.load=0.3", "nic.rx_descriptors=1024", "mempool.size=8192"];
    let tenant = "neighbours=[{name=\"tenant\", working_set=\"900 KiB\", every=\"10 ns\"}]";
    let found = |inclusive: &[&str], ways: &str| {
        let own = format!("machine.clos.3={{ways=\"{ways}\", neighbours=[\"tenant\"]}}");
        let others = "machine.clos.1={ways=\"0x1f0\"}";
        document(&[&NIC, &base, &[tenant, &own, others], inclusive])
    };
    let with = &["machine.llc.inclusive_ways=2"][..];
    let (there, without, over) = (found(with, "0x3"), found(&[], "0x3"), found(with, "0xc"));
    let half = found(with, "0x6");
    for document in [&there, &half, &over, &without] {
        println!(
            "{} {} {:.4} {}",
            document["neighbours"],
            document["llc_bytes"],
            nic_hits(document),
            document["sojourn_ns"]["mean"]
        );
    }
    let misses = |of: &Value| number(of, "/neighbours/0/llc_miss_rate");
    let pace = |of: &Value| number(of, "/neighbours/0/references_per_s");
    assert!(misses(&there) > 0.3 && misses(&without) < 0.1 && misses(&over) < 0.1);
    assert!(misses(&there) > misses(&half) && misses(&half) > misses(&over));
    assert!(pace(&there) < 0.9 * pace(&over) && (pace(&without) / pace(&over) - 1.0).abs() < 0.02);
}

#[test]
fn what_a_storage_device_cannot_be_is_refused_with_its_reason() {
    let refused =
        |neighbour: &str| read(&[&[&format!("neighbours=[{{{neighbour}}}]")]]).map(|_| ()).unwrap_err().to_string();
    for (neighbour, said) in [
        ("kind=\"storage\"", "neighbours[0].rate: none: kind = \"storage\" needs it"),
        ("kind=\"storage\", rate=\"0 Gbps\"", "neighbours[0].rate: 0 Gbps: allowed are 1 Mbps to 512 GB/s"),
        (
            "kind=\"storage\", rate=\"1 GB/s\", block=\"700 B\"",
            "neighbours[0].block: 700 B: allowed are 512 B to 16 MiB",
        ),
        ("kind=\"storage\", rate=\"1 GB/s\", queue_depth=0", "neighbours[0].queue_depth: 0: allowed are 1 to 65536"),
        (
            "kind=\"storage\", rate=\"1 GB/s\", working_set=\"1 MiB\"",
            "neighbours[0].working_set: 1 MiB: allowed is none of it with kind = \"storage\"",
        ),
        (
            "kind=\"storage\", rate=\"1 GB/s\", routes=1.0",
            "neighbours[0].routes: with kind = \"storage\": allowed with kind = \"control\"",
        ),
        (
            "working_set=\"1 MiB\", dca=false",
            "neighbours[0].dca: with kind = \"program\": allowed with kind = \"storage\"",
        ),
        ("working_set=\"1 MiB\", cores=0", "neighbours[0].cores: 0: allowed are 1 to 64"),
    ] {
        assert!(refused(neighbour).contains(said), "{}", refused(neighbour));
    }
    let refused = read(&[&["machine.llc.inclusive_ways=2", "machine.llc.inclusion=inclusive"]])
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("machine.llc.inclusive_ways: given with machine.llc.inclusion = inclusive"), "{refused}");
}
