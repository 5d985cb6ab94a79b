//! Addresses of the NIC that an IOMMU translates: who waits, for what, and who does not.

use serde_json::Value;
use sim::{Overrides, RunOptions, Scenario, run, summary};

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

/// The document; packets are conserved and the sojourn is accounted for.
fn document(set: &[&str]) -> Value {
    let set = QUICK.iter().chain(set).map(|s| s.to_string()).collect();
    let scenario = Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).unwrap();
    let result = run(&scenario, RunOptions { threads: 1, same_packets: false }, &mut |_| true).unwrap();
    let measure = &result.measured.measure;
    let ended: u64 = measure.lost.values().chain(measure.rejected.values()).sum();
    assert_eq!(measure.offered.packets, measure.carried.packets + ended);
    let document = summary(&result, "test");
    let parts: f64 = document["attribution_ns"].as_object().unwrap().values().filter_map(Value::as_f64).sum();
    let sojourn = number(&document, "/sojourn_ns/mean");
    assert!((parts - sojourn).abs() < 1e-6 * sojourn, "{parts} and {sojourn}");
    document
}

fn number(of: &Value, at: &str) -> f64 {
    of.pointer(at).and_then(Value::as_f64).unwrap_or_else(|| panic!("{at} of {of}"))
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
