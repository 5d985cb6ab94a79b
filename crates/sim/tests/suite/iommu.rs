//! Addresses of the NIC that an IOMMU translates: who waits, for what, and who does not.

use serde_json::Value;

use super::documents::{self, number};

const QUICK: [&str; 8] = [
    "run.packets=6000",
    "run.warmup=6000",
    "mempool.size=4096",
    "mempool.cache=32",
    "nic.rx_descriptors=256",
    "nic.tx_descriptors=256",
    "traffic.load=0.1",
    "function.forward.prefixes=2000",
];

fn document(set: &[&str]) -> Value {
    documents::document(&[&QUICK, set])
}

/// What differs between two runs with the same settings, or says which they were.
fn without_settings(mut document: Value) -> Value {
    for field in ["run_id", "name", "machine", "wall_s", "load_s", "packets_per_wall_s"] {
        document.as_object_mut().unwrap().remove(field);
    }
    document
}

#[test]
fn off_and_passthrough_are_as_if_there_were_none() {
    let none = without_settings(document(&[]));
    assert_eq!(none["iommu"], Value::Null);
    for mode in ["off", "passthrough"] {
        assert!(without_settings(document(&[&format!("machine.iommu.mode={mode}")])) == none, "{mode}");
    }
}

#[test]
fn small_pages_miss_and_large_ones_do_not() {
    let none = document(&[]);
    // Nine MiB of mbufs against 64 pages of 4 KiB: a page has two of them at most.
    let small = document(&["machine.iommu.iotlb_entries=64"]);
    assert!(number(&small, "/iommu/misses") > 4500.0, "{}", small["iommu"]);
    let (waits, walk) = (number(&small, "/attribution_ns/iommu"), number(&small, "/iommu/walk_ns"));
    assert!(walk > 250.0 && walk < 400.0, "{walk}");
    // To be written each waits for a walk; what is read back soon after is still known.
    assert!(waits > walk * 0.7 && waits < walk * 2.0, "{waits} and {walk}");
    let longer = number(&small, "/sojourn_ns/mean") - number(&none, "/sojourn_ns/mean");
    assert!((longer - waits).abs() < 0.25 * waits, "{longer} and {waits}");
    let large = document(&["machine.iommu.iotlb_entries=64", "machine.iommu.page=1 GiB"]);
    assert_eq!(number(&large, "/iommu/misses"), 0.0);
    assert_eq!(number(&large, "/attribution_ns/iommu"), 0.0);
    assert_eq!(large["sojourn_ns"], none["sojourn_ns"]);
}

#[test]
fn walks_are_read_by_controllers_and_waited_for_by_credits() {
    let set = ["machine.dram.standard=ddr4-2400u", "machine.dram.controller={}", "nic.pcie.credits=4 KiB"];
    let none = document(&set);
    let set: Vec<&str> = set.into_iter().chain(["machine.iommu.iotlb_entries=64"]).collect();
    let some = document(&set);
    let references = number(&some, "/iommu/references");
    let more = number(&some, "/dram/reads") - number(&none, "/dram/reads");
    assert!(references > 4500.0 && (more - references).abs() < 0.2 * references, "{more} and {references}");
    let (waits, walk) = (number(&some, "/attribution_ns/iommu"), number(&some, "/iommu/walk_ns"));
    assert!(waits > walk * 0.7 && waits < walk * 2.0, "{waits} and {walk}");
}

#[test]
fn one_walk_at_a_time_bounds_the_rate() {
    // At half of the line rate packets come sooner than a walk is done.
    let set = [
        "machine.iommu.iotlb_entries=64",
        "traffic.load=0.5",
        // Rings that hold little of what is offered.
        "nic.rx_descriptors=64",
        "nic.tx_descriptors=64",
        "run.packets=30000",
    ];
    let walks = |n: u32| document(&[&set[..], &[&format!("machine.iommu.walks={n}")]].concat());
    let (one, many) = (walks(1), walks(16));
    // Walks of packets that are lost before their DMA are none.
    let (ended, carried) = (number(&one, "/packets") - number(&one, "/lost"), number(&one, "/carried_mpps"));
    let most = 1e3 / number(&one, "/iommu/walk_ns") / (number(&one, "/iommu/misses") / ended);
    assert!((carried / most - 1.0).abs() < 0.1, "{carried} and {most}");
    assert!(number(&many, "/carried_mpps") > 1.5 * carried, "{} and {carried}", many["carried_mpps"]);
}

/// A page a buffer, and an IO-TLB that has room for all of them.
const A_PAGE_EACH: [&str; 3] =
    ["mempool.element=4096 B", "machine.iommu.iotlb_entries=16384", "machine.iommu.iotlb_ways=4"];

fn in_mode(mode: &str, set: &[&str]) -> Value {
    let mode = format!("machine.iommu.mode={mode}");
    document(&[&A_PAGE_EACH[..], &[&mode], set].concat())
}

#[test]
fn a_kernel_that_unmaps_walks_for_each_packet_and_waits_more_the_stricter_it_is() {
    let [on, strict, lazy] = ["on", "strict", "lazy"].map(|mode| in_mode(mode, &["traffic.load=0.01"]));
    assert_eq!(on.pointer("/iommu/unmapped"), None, "hidden where nothing is unmapped");
    // A buffer is received into and sent from, each time by an address that was never asked for.
    let mappings = 2.0 * number(&strict, "/packets");
    // Of those that stay mapped some are used for the first time.
    assert!(number(&on, "/iommu/misses") < 0.1 * mappings, "{}", on["iommu"]);
    for (mode, found) in [("strict", &strict), ("lazy", &lazy)] {
        let (misses, unmapped) = (number(found, "/iommu/misses"), number(found, "/iommu/unmapped"));
        assert!((misses / mappings - 1.0).abs() < 0.05, "{mode}: {misses} of {mappings}");
        assert!((unmapped / mappings - 1.0).abs() < 0.1, "{mode}: {unmapped} of {mappings}");
    }
    let invalidations = |of: &Value| number(of, "/iommu/invalidations");
    assert_eq!(invalidations(&strict), number(&strict, "/iommu/unmapped"));
    let most = number(&lazy, "/iommu/unmapped") / 256.0 + 1.0;
    assert!((1.0..=most).contains(&invalidations(&lazy)), "{} of {most}", invalidations(&lazy));
    for at in ["/iommu/invalidating_ns", "/attribution_ns/iommu", "/sojourn_ns/mean"] {
        let [on, lazy, strict] = [&on, &lazy, &strict].map(|of| of.pointer(at).and_then(Value::as_f64).unwrap_or(0.0));
        assert!(on < lazy && lazy < strict, "{at}: {on}, {lazy}, {strict}");
    }
}

/// Bursts of one packet that one core takes: each waits for two invalidations, that of its packet and that of the one
/// whose buffer is given back.
#[test]
fn a_packet_of_its_own_waits_for_two_invalidations_and_the_instructions_of_two_mappings() {
    let alone = [
        "machine.cores=1",
        "nic.burst=1",
        "nic.driver.tx_bulk=1",
        "nic.driver.tx_completion_every=1",
        "nic.driver.reclaim=done",
        "traffic.load=0.002",
        "machine.core.cpi=0.5",
        "machine.core.frequency=2 GHz",
    ];
    let with = |invalidation: &str, instructions: u32| {
        let invalidation = format!("machine.iommu.invalidation={invalidation}");
        let (map, unmap) = ("machine.iommu.map_instructions", "machine.iommu.unmap_instructions");
        let (map, unmap) = (format!("{map}={instructions}"), format!("{unmap}={}", 2 * instructions));
        in_mode("strict", &[&alone[..], &[&invalidation, &map, &unmap]].concat())
    };
    let (short, long, busy) = (with("100 ns", 0), with("600 ns", 0), with("100 ns", 200));
    let more = |at: &str, of: &Value| number(of, at) - number(&short, at);
    let waits = 2.0 * (100.0 + number(&short, "/iommu/walk_ns"));
    assert!((number(&short, "/attribution_ns/iommu") - waits).abs() < 0.01 * waits, "{}", short["attribution_ns"]);
    assert!((more("/attribution_ns/iommu", &long) - 1000.0).abs() < 20.0, "{}", more("/attribution_ns/iommu", &long));
    // A packet that comes meanwhile waits in the ring.
    assert!((more("/sojourn_ns/mean", &long) - 1000.0).abs() < 60.0, "{}", more("/sojourn_ns/mean", &long));
    // Two mappings of 200 and two unmappings of 400, at a quarter of a nanosecond each.
    assert!((more("/sojourn_ns/mean", &busy) - 300.0).abs() < 20.0, "{}", more("/sojourn_ns/mean", &busy));
    // One core never waits for another.
    for (found, each) in [(&short, 100.0), (&long, 600.0)] {
        let (waited, done) = (number(found, "/iommu/invalidating_ns"), number(found, "/iommu/invalidations"));
        assert!((waited - each * done).abs() < 1e-3 * waited, "{waited} and {done}");
    }
}

#[test]
fn one_invalidation_at_a_time_bounds_the_rate_of_all_cores() {
    let strict = in_mode("strict", &["machine.iommu.invalidation=500 ns", "run.packets=12000"]);
    let (carried, most) = (number(&strict, "/carried_mpps"), 1e3 / (2.0 * 500.0));
    assert!((carried / most - 1.0).abs() < 0.05, "{carried} and {most}");
}

#[test]
fn cells_of_a_packet_buffer_stay_mapped() {
    let set = ["machine.iommu.mode=strict", "buffer.allocation=cells", "buffer.size=8 MiB"];
    let error = documents::read(&[&set]).unwrap_err().to_string();
    assert!(error.contains("with buffer: allowed is one of them: cells of a packet buffer stay mapped"), "{error}");
}
