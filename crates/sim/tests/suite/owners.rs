//! Slices and ways of applications, skipping, bypass, and tables in stacked DRAM, on the server.

use serde_json::Value;
use sim::{RunOptions, run};

use super::documents::{self, number};

const QUICK: [&str; 9] = [
    "run.packets=6000",
    "run.warmup=6000",
    "mempool.size=2048",
    "mempool.cache=32",
    "nic.rx_descriptors=128",
    "nic.tx_descriptors=128",
    "machine.llc.size=5.5 MiB",
    "machine.llc.slices=8",
    "function.forward.prefixes=200000",
];
/// Caches that misses fill within the warm-up, so that the skip logic judges what comes after it.
const SMALL: [&str; 3] = ["machine.l2.size=64 KiB", "machine.llc.size=352 KiB", "run.warmup=30000"];
const TENANT: &str = "neighbours=[{name=\"tenant\", working_set=\"4 MiB\", stores=0.3}]";

fn document(set: &[&str]) -> Value {
    documents::document(&[&QUICK, set])
}

#[test]
fn all_of_it_on_the_default_machine_alone_and_together() {
    let plain = document(&[]);
    assert_eq!((&plain["applications"], &plain["stacked"]), (&serde_json::json!([]), &Value::Null));
    let skips = "machine.applications.tables.skip={threshold=0.05, window=500, retry=100000}";
    let skip = document(&[&SMALL[..], &[skips]].concat());
    assert_eq!(skip["applications"][0]["skips"], true);
    assert!(number(&skip, "/applications/0/skipped_share") > 0.9);
    let never = document(&["machine.applications.tables.llc=false"]);
    assert_eq!(number(&never, "/applications/0/llc_lookups"), 0.0);
    let bypass = document(&["machine.l2.size=64 KiB", "machine.applications.tables.bypass=true"]);
    assert!(number(&bypass, "/applications/0/bypassed") > 100.0);
    let owned = document(&[TENANT, "machine.applications.tables.slices=3", "machine.applications.tenant.slices=2"]);
    assert_eq!((&owned["applications"][0]["slices"], &owned["applications"][1]["slices"]), (&3.into(), &2.into()));
    let stacked = document(&["machine.stacked.memory.channels=8"]);
    assert!(
        number(&stacked, "/stacked/reads") > 100.0 && number(&plain, "/dram/reads") > number(&stacked, "/dram/reads")
    );
    let all = document(&[
        SMALL[0],
        SMALL[1],
        SMALL[2],
        TENANT,
        "machine.cores=2",
        "machine.applications.tables={slices=3, skip={threshold=0.2, window=500, retry=2000}}",
        "machine.applications.tenant={slices=2, ways=\"0b11\", bypass=true, skip={threshold=0.9, window=1000}}",
        "machine.stacked={holds=[\"tables\", \"tenant\"], memory={channels=16, link_ns=20.0}}",
        "machine.dram.standard=ddr4-2400u",
        "machine.dram.controller={}",
    ]);
    assert!(number(&all, "/stacked/writes") > 0.0 && number(&all, "/applications/0/skipped_share") > 0.0);
}

/// Released slices help who gets them: the tenant misses less while the tables are out of the LLC.
#[test]
fn a_neighbour_gains_from_slices_that_a_skipping_application_has_released() {
    let of = |skip: &str| {
        let tables = format!("machine.applications.tables={{slices=5{skip}}}");
        let tenant = "neighbours=[{name=\"tenant\", working_set=\"512 KiB\"}]";
        let owned = "machine.applications.tenant.slices=2";
        let sizes = ["machine.l2.size=64 KiB", "machine.llc.size=704 KiB", "run.warmup=60000"];
        let found = document(&[&[tenant, &tables, owned][..], &sizes].concat());
        assert_eq!(found["applications"][1]["slices"], if skip.is_empty() { 2 } else { 7 });
        number(&found, "/applications/1/llc_miss_rate")
    };
    let (kept, released) = (of(""), of(", skip={threshold=0.0, hysteresis=0.0, window=200, retry=100000000}"));
    assert!(released < kept - 0.1, "{released} for {kept}");
}

/// The tables miss in a tenth of their lookups once they are in the LLC. While it fills they miss in most, and nothing follows
/// from that: the 405,504 lines of the usual LLC are not full after this run.
#[test]
fn tables_that_a_cold_llc_misses_are_not_skipped() {
    let set = ["machine.applications.tables.skip.threshold=0.5", "machine.llc.size=24.75 MiB", "machine.llc.slices=18"];
    let found = document(&[&set[..], &["run.packets=40000", "run.warmup=0"]].concat());
    assert!(number(&found, "/applications/0/llc_miss_rate") > 0.5, "the LLC is cold");
    assert_eq!(number(&found, "/applications/0/skipped_share"), 0.0);
}

#[test]
fn memory_that_nobody_has_is_refused_with_what_there_is() {
    let refused = |set: &[&str]| {
        let found = documents::read(&[&QUICK, set])
            .and_then(|s| run(&s, RunOptions { threads: 1, ..RunOptions::default() }, &mut |_| true));
        found.map(|_| ()).unwrap_err().to_string()
    };
    let said = refused(&["machine.applications.table.bypass=true"]);
    assert!(said.contains("machine.applications: \"table\": no such memory: did you mean tables?"), "{said}");
    let said = refused(&["machine.stacked.holds=[\"tenant\"]"]);
    assert!(said.contains("machine.stacked.holds[0]: \"tenant\": no such memory: there are tables, tbl24"), "{said}");
    let said = refused(&["machine.stacked.memory.channels=99"]);
    assert!(said.contains("machine.stacked.memory.channels = 99: allowed is 1 to 64"), "{said}");
    let said = refused(&["machine.applications.tables.slices=8"]);
    assert!(said.contains("machine.applications.tables.slices = 8: allowed is 1 to 7 of 8 slices"), "{said}");
    let said = refused(&["machine.applications.tables.skips=true"]);
    assert!(said.contains("skip"), "{said}");
}
