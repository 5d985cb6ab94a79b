//! A control plane beside the data plane: it reads counters and writes routes, and packets go where they went.

use std::collections::BTreeMap;

use functions::RoutePlace;
use functions::lookup::{Dir24_8, Dir24Spec, NextHop};
use probe::RegionId;
use serde_json::Value;
use sim::{Overrides, RunOptions, RunResult, Scenario, run, summary};

const QUICK: [&str; 11] = [
    "run.packets=8000",
    "run.warmup=8000",
    "mempool.size=2048",
    "mempool.cache=32",
    "nic.rx_descriptors=128",
    "nic.tx_descriptors=128",
    "machine.cores=2",
    "machine.llc.size=5.5 MiB",
    "machine.llc.slices=4",
    "function.forward.prefixes=200",
    "traffic.load=0.1",
];

fn read(set: &[&str]) -> Result<Scenario, String> {
    let set = QUICK.iter().chain(set).map(|s| s.to_string()).collect();
    Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).map_err(|error| error.to_string())
}

fn result(set: &[&str]) -> RunResult {
    run(&read(set).unwrap(), RunOptions { threads: 1, ..RunOptions::default() }, &mut |_| true).unwrap()
}

/// A control plane that writes so many routes a second, and reads counters each 20 us.
fn beside(routes: &str) -> String {
    format!("neighbours=[{{kind=\"control\", statistics_interval=\"20 us\", routes={routes}}}]")
}

/// Of its counters.
fn did(result: &RunResult, name: &str) -> f64 {
    summary(result, "test")["neighbours"][0]["control"][name].as_f64().unwrap()
}

/// Lookups that packet cores take beyond their own caches.
fn misses(result: &RunResult) -> u64 {
    result.measured.counts.memory.l2.misses
}

#[test]
fn packets_go_where_they_went_and_none_is_forgotten() {
    let (alone, with) = (result(&[]), result(&[&beside("2e6")]));
    for run in [&alone, &with] {
        let m = &run.measured.measure;
        let ended: u64 = m.lost.values().chain(m.rejected.values()).sum();
        assert_eq!(m.offered.packets, m.carried.packets + ended);
        assert_eq!(m.unattributed, 0);
    }
    // By packet: when each leaves is another matter.
    let ports = |run: &RunResult| -> BTreeMap<_, _> {
        run.measured.measure.sample.iter().map(|row| (row.packet, (row.port, row.verdict))).collect()
    };
    assert_eq!(ports(&alone), ports(&with));
    assert_eq!(summary(&alone, "test")["neighbours"], Value::Array(Vec::new()));
    assert!(did(&with, "updates") > 100.0 && did(&with, "readings") > 10.0);
}

#[test]
fn an_update_writes_the_entries_of_its_prefix() {
    let hop = NextHop::new(3).unwrap();
    let routes = [(0x0a00_0000, 8, hop), (0x0a01_0000, 16, hop), (0x0a01_0200, 24, hop), (0x0a01_0240, 26, hop)];
    let table = Dir24_8::<u16>::new(routes, Dir24Spec::default()).unwrap();
    let places: Vec<RoutePlace> = table.route_places(RegionId(40)).collect();
    let entries: Vec<u32> = places.iter().map(|place| place.bytes / 2).collect();
    // A quarter of a group of 256 for the /26.
    assert_eq!(entries, [1 << 16, 256, 1, 64]);
    let first: Vec<(u16, u64)> = places.iter().map(|place| (place.region.0, place.offset / 2)).collect();
    assert_eq!(first[..3], [(40, 0x0a_0000), (40, 0x0a_0100), (40, 0x0a_0102)]);
    assert_eq!((first[3].0, first[3].1 % 256), (41, 64));
}

#[test]
fn misses_of_packet_cores_grow_with_the_rate_of_routes() {
    let none = result(&["neighbours=[{kind=\"control\", statistics_interval=\"20 us\"}]"]);
    let (some, many) = (result(&[&beside("3e5")]), result(&[&beside("3e6")]));
    assert_eq!((did(&none, "updates"), did(&none, "lines")), (0.0, 0.0));
    assert!(did(&many, "updates") > 5.0 * did(&some, "updates"));
    let rate = did(&some, "updates_per_s");
    assert!((2e5..4e5).contains(&rate), "{rate}");
    let [none, some, many] = [&none, &some, &many].map(|run| (misses(run), did(run, "invalidated")));
    assert!(none.0 < some.0 && some.0 < many.0, "{none:?}, {some:?}, {many:?}");
    assert!(none.1 < some.1 && some.1 < many.1, "{none:?}, {some:?}, {many:?}");
    // A copy that was given up is missed once at the most.
    assert!(((many.0 - none.0) as f64) < 1.2 * (many.1 - none.1) + 200.0, "{none:?}, {many:?}");
}

#[test]
fn counters_that_are_read_go_to_and_fro() {
    let alone = result(&[]);
    let slow = result(&["neighbours=[{kind=\"control\", statistics_interval=\"200 us\", statistics_lines=4}]"]);
    let fast = result(&["neighbours=[{kind=\"control\", statistics_interval=\"2 us\", statistics_lines=4}]"]);
    assert!(did(&fast, "readings") > 50.0 * did(&slow, "readings"));
    assert!(did(&fast, "taken") > 10.0 * did(&slow, "taken"));
    // Who counts still has what was read, and has to own it again.
    let owned = |run: &RunResult| run.measured.counts.memory.upgrades as f64;
    assert!(owned(&fast) - owned(&alone) > 0.5 * did(&fast, "taken"), "{} and {}", owned(&fast), owned(&alone));
    let (span, with) = (alone.measured.counts.span.as_ns(), fast.measured.counts.span.as_ns());
    assert!((with / span - 1.0).abs() < 0.01, "time ends with packets: {span} and {with}");
    // One that is due long after the run does not make it longer.
    let rare = result(&["neighbours=[{kind=\"control\", statistics_interval=\"10 s\"}]"]);
    assert!((rare.measured.counts.span.as_ns() / span - 1.0).abs() < 0.01);
}

#[test]
fn the_functional_way_writes_as_many_lines() {
    let set = [&beside("2e6")[..], "run.sampling={windows=30, packets=500}", "run.packets=60000"];
    let (sampled, whole) = (result(&set), result(&[set[0], set[2]]));
    let share = |run: &RunResult| did(run, "lines") / did(run, "updates");
    assert!((share(&sampled) / share(&whole) - 1.0).abs() < 0.2, "{} and {}", share(&sampled), share(&whole));
    let each = |run: &RunResult| did(run, "updates_per_s");
    assert!((each(&sampled) / each(&whole) - 1.0).abs() < 0.2, "{} and {}", each(&sampled), each(&whole));
}

#[test]
fn what_cannot_be_is_told_with_what_is_allowed() {
    for (set, expected) in [
        ("{kind=\"control\"}", "neighbours[0].kind: control: with neither statistics_interval nor routes"),
        ("{kind=\"control\", routes=0}", "neighbours[0].routes: 0: allowed are more than 0"),
        ("{kind=\"control\", routes=10, cores=2}", "neighbours[0].cores: 2: allowed is 1"),
        ("{kind=\"control\", routes=10, working_set=\"1 MiB\"}", "neighbours[0].working_set: 1 MiB: allowed is none"),
        ("{kind=\"control\", statistics_interval=\"1 ns\"}", "statistics_interval: 1 ns: allowed are 1 us to 1000 s"),
        ("{kind=\"control\", routes=1, statistics_lines=3}", "statistics_lines: 3: allowed with statistics_interval"),
        ("{routes=10, working_set=\"1 MiB\"}", "routes: with kind = \"program\": allowed with kind = \"control\""),
        ("{name=\"tenant\"}", "neighbours[0].working_set: 0 B: allowed are 4 KiB to 16 GiB"),
    ] {
        let error = read(&[&format!("neighbours=[{set}]")]).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let other = read(&["function.kind=nat", "neighbours=[{kind=\"control\", routes=10}]"]).unwrap_err();
    assert!(other.contains("neighbours[0].routes: this function has no routes in DIR-24-8"), "{other}");
}
