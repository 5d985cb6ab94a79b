//! Snooping in place of a directory, on the server.

use serde_json::Value;
use sim::{RunOptions, run};

use super::documents::{self, number};

const QUICK: [&str; 10] = [
    "run.packets=4000",
    "run.warmup=4000",
    "mempool.size=2048",
    "mempool.cache=32",
    "nic.rx_descriptors=128",
    "nic.tx_descriptors=128",
    "machine.llc.size=5.5 MiB",
    "machine.llc.slices=8",
    "machine.cores=4",
    "function.forward.prefixes=200000",
];
const RING: &str = "machine.llc.interconnect={topology=\"ring\", hop=\"0.5 ns\"}";
const SNOOP: &str = "machine.llc.coherence=snoop";

fn document(set: &[&str]) -> Value {
    documents::document(&[&QUICK, set])
}

#[test]
fn all_misses_and_device_lines_are_broadcast_and_cost_time() {
    let (directory, snoop) = (document(&[RING]), document(&[RING, SNOOP]));
    assert!(directory["snooping"].is_null());
    let (broadcasts, lookups) = (number(&snoop, "/snooping/broadcasts"), number(&snoop, "/snooping/lookups"));
    // A packet's lines written and read by the NIC, at the least; three other cores answer a core, four a device.
    assert!(broadcasts > 4.0 * 4000.0, "{broadcasts}");
    assert!((3.0..=4.0).contains(&(lookups / broadcasts)), "{lookups} for {broadcasts}");
    assert!(number(&snoop, "/snooping/invalidations") > 100.0);
    let snooped = |document: &Value| number(document, "/attribution_ns/snoop");
    assert!(snooped(&snoop) > snooped(&directory) + 1.0, "{} and {}", snooped(&snoop), snooped(&directory));
}

#[test]
fn what_neighbours_broadcast_is_none_of_the_packets() {
    // As fast as memory lets them, and they find little in their caches: some times what packets need.
    let neighbours = "neighbours=[{working_set=\"64 MiB\", cores=2}]";
    let (alone, beside) = (document(&[RING, SNOOP]), document(&[RING, SNOOP, neighbours]));
    let broadcasts = |document: &Value| number(document, "/snooping/broadcasts");
    let ratio = broadcasts(&beside) / broadcasts(&alone);
    // Packets miss somewhat more beside them.
    assert!((0.9..1.5).contains(&ratio), "{ratio}");
}

#[test]
fn a_slow_bus_is_what_limits_a_machine_that_snoops() {
    let on_bus = |hop: &str| {
        let bus = format!("machine.llc.interconnect={{topology=\"bus\", hop=\"{hop}\"}}");
        document(&["machine.llc.latency=40 ns", &bus, SNOOP])
    };
    let (fast, slow) = (on_bus("0.5 ns"), on_bus("15 ns"));
    let waited = |document: &Value| number(document, "/snooping/waited_ns") / number(document, "/snooping/broadcasts");
    assert!(waited(&slow) > 10.0 * waited(&fast) && waited(&slow) > 15.0, "{} and {}", waited(&slow), waited(&fast));
    assert!(number(&slow, "/sojourn_ns/mean") > number(&fast, "/sojourn_ns/mean"));
}

#[test]
fn it_goes_with_controllers_applications_prefetchers_sockets_and_policies_and_says_with_what_not() {
    for with in [
        &["machine.dram.standard=ddr4-3200aa", "machine.dram.controller={}"][..],
        &["machine.applications.tables.llc=false"],
        &["machine.prefetcher={kind=\"next_line\", degree=1}", "machine.llc.inclusion=inclusive"],
        &["machine.stacked.memory.channels=8", "nic.cache_cells=32"],
        &["machine.sockets={count=2, hop=\"50 ns\", rate=\"100 Gbps\"}"],
    ] {
        let found = document(&[&[RING, SNOOP], with].concat());
        assert!(number(&found, "/snooping/broadcasts") > 1000.0, "{with:?}");
    }
    let refused = |set: &[&str]| match documents::read(&[&QUICK, set]) {
        Err(error) => error.to_string(),
        Ok(scenario) => match run(&scenario, RunOptions { threads: 1, ..RunOptions::default() }, &mut |_| true) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{set:?} was taken"),
        },
    };
    for (set, expected) in [
        (&[SNOOP][..], "machine.llc.coherence = snoop without interconnect: allowed is snoop with wires"),
        (
            &[RING, SNOOP, "machine.copy_table={}"],
            "machine.copy_table: given with machine.llc.coherence = snoop: allowed is one of them",
        ),
    ] {
        let got = refused(set);
        assert!(got.contains(expected), "{got}");
    }
}
