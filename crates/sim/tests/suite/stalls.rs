//! Stalls of the system that are placed by arithmetic, beside simulations that have many.

use serde_json::Value;
use sim::run::stalls::{PlacedStalls, flows};
use sim::{RateSearch, RunOptions, RunResult, run, summary};

use crate::run::scenario;

fn result(set: &[&str], search: Option<RateSearch>) -> RunResult {
    run(&scenario(set, search), RunOptions { threads: 1, ..RunOptions::default() }, &mut |_| true).unwrap()
}

/// Of a run that sees its stalls, and as they are reckoned from one that has none.
struct Pair {
    simulated: RunResult,
    placed: PlacedStalls,
    quiet: RunResult,
}

impl Pair {
    fn of(set: &[&str], stalls: &str) -> Pair {
        let set: Vec<&str> = set.iter().copied().chain(["machine.cores=1", "traffic.arrivals=poisson"]).collect();
        let simulated = result(&[&set[..], &[stalls]].concat(), None);
        assert_eq!(simulated.stalls, None, "they come often enough to be simulated");
        let placed = PlacedStalls::of(&simulated.scenario, 0.0).unwrap();
        Pair { simulated, placed, quiet: result(&set, None) }
    }

    /// A quantile in nanoseconds, simulated and reckoned.
    fn quantile(&self, q: f64) -> (f64, f64) {
        let delays = self.placed.delays(&flows(&self.quiet.scenario, &self.quiet.measured)).unwrap();
        let reckoned = delays.quantile(self.quiet.measured.measure.sojourn.histogram(), q).unwrap();
        (self.simulated.measured.measure.sojourn.histogram().quantile(q).unwrap().as_ns(), reckoned / 1e3)
    }
}

#[test]
fn quantiles_with_stalls_are_those_of_a_run_that_has_many() {
    // As measured on a testbed, but two thousand times as often.
    let stalls = "machine.core.stalls={every=\"500 us\", lengths=\"csit-skx\"}";
    for rate in ["traffic.packet_rate=2 Mpps", "traffic.packet_rate=8 Mpps"] {
        let pair = Pair::of(&[rate, "nic.rx_descriptors=1024", "run.packets=300000"], stalls);
        let quiet = pair.quiet.measured.measure.sojourn.histogram().quantile(0.999).unwrap().as_ns();
        for q in [0.998, 0.999] {
            let (simulated, reckoned) = pair.quantile(q);
            assert!((reckoned / simulated - 1.0).abs() < 0.08, "{rate}, {q}: {simulated} and {reckoned}");
            assert!(reckoned > 2.0 * quiet, "{rate}: stalls make it, {quiet} without");
        }
        let (simulated, reckoned) = pair.quantile(0.5);
        assert!((reckoned / simulated - 1.0).abs() < 0.01, "{rate}: {simulated} and {reckoned}");
    }
}

#[test]
fn loss_by_stalls_is_that_of_a_run_that_has_many() {
    let stalls = "machine.core.stalls={every=\"400 us\", lengths=[\"20 us\"]}";
    let pair = Pair::of(&["traffic.packet_rate=8 Mpps", "run.packets=400000"], stalls);
    let m = &pair.simulated.measured.measure;
    let simulated = m.lost.values().sum::<u64>() as f64 / m.offered.packets as f64;
    let flow = flows(&pair.quiet.scenario, &pair.quiet.measured)[0][0];
    let reckoned = pair.placed.lost(&flow) / flow.rate;
    // 125 stalls, whose number alone is known to within 9 %.
    assert!((reckoned / simulated - 1.0).abs() < 0.25, "{simulated} and {reckoned}");
}

#[test]
fn a_run_that_is_too_short_for_stalls_has_none_by_chance() {
    let document = |set: &[&str]| {
        let mut document = summary(&result(&[&["machine.cores=2", "traffic.load=0.05"], set].concat(), None), "test");
        let stalls = document["stalls"].take();
        // What says that stalls are set, and what the host took.
        document["machine"]["name"].take();
        for field in ["name", "stalls", "verdict", "run_id", "wall_s", "load_s", "packets_per_wall_s"] {
            document[field] = Value::Null;
        }
        (document, stalls)
    };
    let (quiet, none) = document(&[]);
    let (placed, stalls) = document(&["machine.core.stalls={every=\"1 s\", lengths=\"csit-hsw\"}"]);
    assert_eq!(none, Value::Null);
    assert_eq!(quiet, placed, "packet by packet");
    assert_eq!(stalls["every_s"], 1.0);
    let (with, without) = (stalls["p999_ns"].as_f64().unwrap(), placed["sojourn_ns"]["p999"].as_f64().unwrap());
    assert!(with >= without * 0.999 && stalls["delayed"].as_f64().unwrap() > 0.0, "{with} and {without}");
}

/// A core whose ring holds 96 packets while it is away for up to 20 us, once a second: up to 4.8 Mpps.
fn searched(kind: RateSearch, limit: &str, stalls: &[&str]) -> (Value, Value) {
    let set = [
        "machine.cores=1",
        "nic.rx_descriptors=128",
        "traffic.packet_rate=1 Mpps",
        "run.search_packets=40000",
        "run.packets=40000",
        "run.search_resolution=0.005",
        limit,
    ];
    let document = summary(&result(&[&set[..], stalls].concat(), Some(kind)), "test");
    (document["search"].clone(), document["verdict"].clone())
}

const SECOND: &[&str] = &["machine.core.stalls={every=\"1 s\", lengths=[\"5 us\", \"20 us\"]}"];

#[test]
fn no_rate_is_without_loss_at_which_stalls_overflow_the_ring() {
    let (plain, _) = searched(RateSearch::Ndr, "run.loss_limit=0", &[]);
    let (found, verdict) = searched(RateSearch::Ndr, "run.loss_limit=0", SECOND);
    assert_eq!(plain["without_stalls"], Value::Null);
    assert!(plain["trials"].as_array().unwrap().iter().all(|trial| trial["stall_loss"] == Value::Null));
    let without = &found["without_stalls"];
    assert_eq!((&without["load"], &without["mpps"]), (&plain["load"], &plain["mpps"]));
    assert_eq!((&without["bound"], &without["trial_s"]), (&Value::Bool(true), &60.0.into()));
    // The grid of the search is 0.58 Mpps wide.
    let mpps = found["mpps"].as_f64().unwrap();
    assert!((4.2..=4.8).contains(&mpps) && plain["mpps"].as_f64().unwrap() > 2.0 * mpps, "{mpps}");
    for trial in found["trials"].as_array().unwrap() {
        let (offered, lost) = (trial["offered_mpps"].as_f64().unwrap(), trial["stall_loss"].as_f64().unwrap());
        // Each length is as likely; a packet in a minute is none.
        let beyond = |us: f64| (offered * us - 96.0).max(0.0) / 2.0;
        let expected = (beyond(5.0) + beyond(20.0)) / (offered * 1e6 * 1.000_012_5);
        assert!((lost - expected).abs() < 1e-9, "{trial}: {expected}");
        let passes = trial["lost"] == 0 && lost * offered * 1e6 * 60.0 < 1.0;
        assert_eq!(trial["pass"].as_bool(), Some(passes), "{trial}");
    }
    let reasons = verdict["reasons"].to_string();
    assert!(reasons.contains("NDR without stalls") && reasons.contains("bound by the ring"), "{reasons}");
    assert!(verdict["advice"].to_string().contains("--set nic.rx_descriptors=512"), "{}", verdict["advice"]);
}

#[test]
fn a_rate_with_little_loss_has_that_by_stalls_among_it() {
    let (plain, _) = searched(RateSearch::Pdr, "run.loss_limit=0.001", &[]);
    let (found, verdict) = searched(RateSearch::Pdr, "run.loss_limit=0.001", SECOND);
    assert_eq!((&found["load"], &found["without_stalls"]["bound"]), (&plain["load"], &Value::Bool(false)));
    assert_eq!(found["without_stalls"]["trials"], 0, "the same trials");
    assert!(verdict["reasons"].to_string().contains("what they lose is within the limit"), "{}", verdict["reasons"]);
    let (strict, _) = searched(RateSearch::Pdr, "run.loss_limit=0.000001", SECOND);
    let load = strict["load"].as_f64().unwrap();
    assert!(load < plain["load"].as_f64().unwrap(), "{load}");
    let lost = strict["trials"].as_array().unwrap().iter().find(|trial| trial["load"] == load).unwrap();
    let lost = lost["stall_loss"].as_f64().unwrap();
    assert!(lost > 0.0 && lost <= 1e-6, "{lost}");
}
