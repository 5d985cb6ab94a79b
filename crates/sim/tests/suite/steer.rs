//! A policy in the loop of a whole run: what it may never do, and that it does something.

use sim::run::steer::ControlInterval;
use sim::scenario::{SCENARIOS, find};
use sim::{Overrides, RunOptions, Scenario, ScenarioError};

fn scenario(set: &[&str]) -> Result<Scenario, ScenarioError> {
    let base = [
        "function.forward.prefixes=2000",
        "traffic.flows.count=500",
        "machine.cores=4",
        "pipeline.rx_cores=1",
        "nic.rx_descriptors=2048",
        "mempool.size=16384",
        "mempool.shuffled=true",
        "machine.llc.size=\"5.5 MiB\"",
        "machine.llc.slices=4",
        "traffic.load=0.8",
        "run.packets=40000",
        "run.warmup=10000",
        "run.curve=[]",
        "policy.interval=\"50 us\"",
    ];
    let set = base.iter().chain(set).map(|s| s.to_string()).collect();
    let preset = find(SCENARIOS, "forwarding").expect("a shipped scenario");
    Scenario::read(preset.text, preset.name, &Overrides { set, ..Overrides::default() })
}

fn control(set: &[&str]) -> (Vec<ControlInterval>, String) {
    let result =
        sim::run(&scenario(set).unwrap(), RunOptions { threads: 1, ..RunOptions::default() }, &mut |_| true).unwrap();
    let summary = sim::summary(&result, "test").to_string();
    assert_eq!(result.measured.measure.unattributed, 0);
    (result.measured.control, summary)
}

#[test]
fn the_allocator_keeps_its_floors_and_a_run_says_what_it_did() {
    let good: &[&str] = &["policy.kind=allocator"];
    let bad: &[&str] = &["policy.kind=allocator", "policy.noise=0.02", "policy.lag=1", "policy.missing=0.1"];
    for set in [good, bad] {
        let (intervals, summary) = control(set);
        assert!(intervals.len() > 20, "{}", intervals.len());
        assert!(intervals.windows(2).all(|w| w[0].at_ns < w[1].at_ns));
        // What is decided at the end of an interval is in force in the next.
        let in_force = |w: &[ControlInterval]| w[0].decided_io_ways.unwrap_or(w[0].io_ways) == w[1].io_ways;
        assert!(intervals.windows(2).all(in_force));
        // One way is the others', two at least the cores', one at least the devices'.
        assert!(intervals[2..].iter().all(|i| i.io_ways >= 1 && i.core_ways >= 2 && i.io_ways + i.core_ways == 10));
        let moves = intervals.iter().filter(|i| i.decided_io_ways.is_some_and(|w| w != i.io_ways)).count();
        assert!(moves >= 2, "a ring of 2048 leaks: it has to try");
        assert!(summary.contains(&format!("\"changes\":{moves}")), "the summary tells");
        let llc = 5.5 * f64::from(1 << 20);
        let last = intervals.last().unwrap();
        assert!(last.llc_bytes[0] > 0 && last.llc_bytes.iter().sum::<u64>() as f64 <= llc, "{last:?}");
    }
}

/// Rings that drain behind the last arrival are no load to decide by.
#[test]
fn a_policy_ends_with_the_last_arrival() {
    let set =
        ["policy.kind=allocator", "traffic.profile=min64", "traffic.load=0.2", "run.warmup=0", "run.packets=20000"];
    let scenario = scenario(&set).unwrap();
    let result = sim::run(&scenario, RunOptions { threads: 1, ..RunOptions::default() }, &mut |_| true).unwrap();
    let (window, control) = (result.measured.measure.window().as_ns(), &result.measured.control);
    let last = control.last().unwrap().at_ns;
    assert!(last <= window && last > window - 100e3, "{last} ns of {window}");
    let longest = result.measured.measure.sojourn.histogram().quantile(0.999).unwrap().as_ns();
    assert!(longest > 50e3, "{longest} ns: an interval behind the last arrival");
}

#[test]
fn an_interval_tells_what_was_done_and_in_which_state() {
    let (intervals, _) = control(&["policy.kind=allocator", "policy.noise=0.5"]);
    assert!(intervals.iter().all(|i| i.state.is_some()));
    assert!(intervals.windows(2).any(|w| w[0].state != w[1].state), "it has to leave its first state");
    assert!(intervals[1..].iter().all(|i| i.busy > 0.0 && i.busy <= 1.0), "noise is of what is read alone");
    // 40,000 are measured after 10,000, and what is lost is not received.
    let received: u64 = intervals.iter().map(|i| i.received).sum();
    assert!((20_000..=50_000).contains(&received), "{received}");
    let (others, _) = control(&["policy.kind=iat"]);
    assert!(others.iter().all(|i| i.state.is_none()));
}

#[test]
fn traffic_in_phases_arrives_in_phases() {
    let phases = "traffic.phases=[{time=\"1 ms\", rate=3, sizes={fixed=64}}, {time=\"1 ms\", sizes={fixed=1500}}]";
    let set = ["policy.kind=isolated", "traffic.load=0.1", "run.warmup=0", "run.packets=12500", phases];
    let (intervals, _) = control(&set);
    // 20 intervals of 50 us a phase: three times as many packets in every other one, but where it begins.
    let mean = |phase: usize| {
        let of = &intervals[phase * 20 + 2..phase * 20 + 19];
        of.iter().map(|i| i.received as f64).sum::<f64>() / of.len() as f64
    };
    for phase in [0, 2] {
        let ratio = mean(phase) / mean(phase + 1);
        assert!((2.6..3.4).contains(&ratio), "{phase}: {ratio}");
    }
}

#[test]
fn counters_are_missing_as_often_as_asked() {
    let (intervals, _) = control(&["policy.kind=isolated", "policy.missing=0.5"]);
    let missing = intervals.iter().filter(|i| i.received_pps.is_none()).count() as f64 / intervals.len() as f64;
    assert!((0.2..0.8).contains(&missing), "{missing}");
    let (all_missing, _) = control(&["policy.kind=allocator", "policy.missing=1"]);
    assert!(all_missing[1..].iter().all(|i| i.received_pps.is_none() && i.decided_io_ways.is_none()));
}

#[test]
fn isolation_gives_devices_their_ways_and_no_others() {
    let (intervals, _) = control(&["policy.kind=isolated", "policy.io_ways=5"]);
    assert!(intervals[1..].iter().all(|i| (i.io_ways, i.core_ways, i.decided_io_ways) == (5, 5, None)));
    // Devices have brought in no more than their ways hold.
    let most = 5.5 * f64::from(1 << 20) * 5.0 / 11.0;
    assert!(intervals.iter().all(|i| i.llc_bytes[0] as f64 <= most));
    let (shared, _) = control(&["policy.kind=shared"]);
    assert!(shared[1..].iter().all(|i| (i.io_ways, i.core_ways) == (2, 11)));
}

#[test]
fn policies_that_cannot_be_are_refused_with_the_numbers() {
    let error = |set: &str| scenario(&[set]).unwrap_err().to_string();
    assert!(error("policy.io_ways=9").contains("policy.io_ways: 9: allowed are 1 to 8 of 11 ways"));
    assert!(error("policy.core_floor=10").contains("policy.core_floor"));
    assert!(error("policy.interval=\"10 ns\"").contains("policy.interval: 10 ns: allowed are 1 us to 10 s"));
    assert!(error("policy.noise=2").contains("policy.noise: 2: allowed is a share of 0 to 1"));
    assert!(error("pipeline.rx_cores=4").contains("1 <= rx_cores < machine.cores, here 4"));
}
