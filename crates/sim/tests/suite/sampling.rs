//! Runs of which windows are timed, beside the same runs timed whole.

use sim::{Overrides, RunOptions, RunResult, Scenario, run, summary};
use stats::Estimate;
use units::Ps;

use super::run::{SLOW, scenario};

const WINDOWS: &str = "run.sampling={windows=64, packets=1000, warmup=500}";

fn result(set: &[&str]) -> RunResult {
    run(&scenario(&[&SLOW[..], &["run.packets=240000"], set].concat(), None), RunOptions::default(), &mut |_| true)
        .unwrap()
}

/// What runs are compared by: mean sojourn, packets a second, and by packet busy time and DRAM reads.
fn found(result: &RunResult) -> (Estimate, f64, [f64; 2]) {
    let (m, counts) = (&result.measured.measure, &result.measured.counts);
    let busy: Ps = Ps(counts.cores.iter().map(|core| core.busy.0).sum());
    let packets = m.offered.packets as f64;
    (
        m.sojourn.mean(),
        summary(result, "test")["offered_mpps"].as_f64().unwrap(),
        [busy.as_ns() / packets, counts.dram.reads as f64 / packets],
    )
}

#[test]
fn windows_stand_for_the_run_that_they_are_of() {
    let controller = ["machine.dram.standard=ddr4-2666v", "machine.dram.controller={}"];
    for set in [&[][..], &controller, &["traffic.load=0.6", "traffic.arrivals=poisson"]] {
        let (whole, sampled) = (result(set), result(&[set, &[WINDOWS]].concat()));
        let sampling = sampled.measured.sampling.as_ref().unwrap();
        assert_eq!((sampling.windows, &sampling.timed_in_full), (64, &None), "{set:?}");
        assert!(sampling.in_detail >= 64 * 1500 && sampling.in_detail < 180_000, "{sampling:?}");
        let measure = &sampled.measured.measure;
        assert_eq!((measure.offered.packets, measure.unattributed), (64_000, 0), "{set:?}");
        let ((a, rate_a, each_a), (b, rate_b, each_b)) = (found(&whole), found(&sampled));
        let (off, allowed) = ((a.value - b.value).abs(), 1.5 * (a.half_width + b.half_width));
        assert!(off <= allowed.max(a.value * 0.002), "{set:?}: {a:?} and {b:?}");
        assert!((rate_a / rate_b - 1.0).abs() < 0.002, "{set:?}: {rate_a} and {rate_b} Mpps");
        for (name, a, b) in [("busy", each_a[0], each_b[0]), ("DRAM reads", each_a[1], each_b[1])] {
            assert!((a / b - 1.0).abs() < 0.05, "{set:?}: {name}: {a} and {b}");
        }
        let quantile = |result: &RunResult| result.measured.measure.sojourn.histogram().quantile(0.99).unwrap().as_ns();
        assert!((quantile(&whole) / quantile(&sampled) - 1.0).abs() < 0.05, "{set:?}");
        if let (Some(a), Some(b)) = (&whole.measured.controllers, &sampled.measured.controllers) {
            assert!((a.report.bytes_per_s / b.report.bytes_per_s - 1.0).abs() < 0.1, "{:?}\n{:?}", a.report, b.report);
            let (idle_a, idle_b) = (a.report.shares.idle, b.report.shares.idle);
            assert!((idle_a - idle_b).abs() < 0.02, "{idle_a} and {idle_b}");
            for shares in [&a.report.shares, &b.report.shares] {
                let shares = serde_json::to_value(shares).unwrap();
                let sum: f64 = shares.as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
                assert!((sum - 1.0).abs() < 0.01, "{shares}");
            }
        }
    }
}

/// Of 3,750 packets from window to window the machine sees 2,100 at most.
const FEW: &str = "run.sampling={windows=64, packets=1000, warmup=500, untimed=600}";

#[test]
fn windows_stand_for_packets_that_were_left_out() {
    // The last two have bursts and phases, whose times pass with what is left out.
    for set in [
        &[][..],
        &["traffic.load=0.6", "traffic.arrivals=poisson"],
        &["traffic.load=0.15", "traffic.arrivals={on_off={on=\"1 us\", off=\"2 us\"}}"],
        &["traffic.load=0.2", "traffic.phases=[{time=\"200 us\"}, {time=\"300 us\", rate=2.0}]"],
    ] {
        let (whole, few) = (result(set), result(&[set, &[FEW]].concat()));
        let sampling = few.measured.sampling.as_ref().unwrap();
        assert_eq!((sampling.windows, &sampling.timed_in_full, sampling.of), (64, &None, 240_000), "{set:?}");
        let behind = |result: &RunResult| result.measured.simulated - result.measured.warmup.packets;
        let simulated = behind(&whole) - behind(&few);
        assert!(sampling.left_out > 60_000 && simulated.abs_diff(sampling.left_out) < 3_750, "{sampling:?}");
        let ((a, rate_a, each_a), (b, rate_b, each_b)) = (found(&whole), found(&few));
        let (off, allowed) = ((a.value - b.value).abs(), 1.5 * (a.half_width + b.half_width));
        assert!(off <= allowed.max(a.value * 0.002), "{set:?}: {a:?} and {b:?}");
        assert!((rate_a / rate_b - 1.0).abs() < 0.01, "{set:?}: {rate_a} and {rate_b} Mpps");
        for (name, a, b) in [("busy", each_a[0], each_b[0]), ("DRAM reads", each_a[1], each_b[1])] {
            assert!((a / b - 1.0).abs() < 0.05, "{set:?}: {name}: {a} and {b}");
        }
        assert!(summary(&few, "test")["verdict"]["reasons"].to_string().contains("were left out"), "{set:?}");
    }
}

#[test]
fn packets_are_left_out_by_themselves_only_where_any_is_as_likely_at_any_time() {
    const LONG: &str = "run.sampling={windows=30, packets=200, warmup=100}";
    let left_out = |set: &[&str]| result(&[set, &[LONG]].concat()).measured.sampling.unwrap();
    let steady = left_out(&[]);
    assert!(steady.left_out > 0 && steady.untimed < steady.every, "{steady:?}");
    for set in [
        "traffic.arrivals={on_off={on=\"1 us\", off=\"2 us\"}}",
        "traffic.phases=[{time=\"200 us\"}, {time=\"300 us\", rate=2.0}]",
        "policy={ kind = \"allocator\", interval = \"20 us\" }",
    ] {
        let sampling = left_out(&["traffic.load=0.3", set]);
        assert_eq!((sampling.left_out, sampling.untimed), (0, sampling.every), "{set}");
    }
}

#[test]
fn the_series_of_a_sampled_run_is_that_of_its_windows() {
    let sampled = result(&[WINDOWS]);
    let measured = &sampled.measured;
    let mut sum = sim::run::measure::Activity::default();
    measured.measure.intervals.iter().for_each(|i| sum += i.activity);
    assert_eq!(sum.span, measured.counts.span);
    assert_eq!(sum.llc_hits, measured.counts.memory.llc.hits);
    assert_eq!(measured.measure.intervals.iter().map(|i| i.offered).sum::<u64>(), 64_000);
    // What is kept of packets is spread over all windows.
    let rows = &measured.measure.sample;
    let last = rows.iter().map(|row| row.packet.0).max().unwrap() - rows.iter().map(|row| row.packet.0).min().unwrap();
    let left_out = measured.sampling.as_ref().unwrap().left_out;
    assert!(last + left_out > 230_000 && rows.len() > 5_000, "{last} {left_out} {}", rows.len());
    let document = summary(&sampled, "test");
    assert_eq!(document["sampling"]["windows"], 64);
    assert!(
        document["verdict"]["reasons"].to_string().contains("Sampled: 64 windows of 1,000 packets stand for 240,000")
    );
}

#[test]
fn where_windows_do_not_stand_for_the_run_all_of_it_is_timed() {
    // With one warm-up: that of windows is a tenth of what they measure.
    let whole = result(&["run.warmup=60000"]);
    let sampled = result(&["run.warmup=60000", "run.sampling={windows=64, packets=1000, warmup=500, error=0.00001}"]);
    let why = sampled.measured.sampling.as_ref().unwrap().timed_in_full.clone().unwrap();
    assert!(why.contains("as a share, and run.sampling.error is 0.00001"), "{why}");
    let (a, b) = (&whole.measured, &sampled.measured);
    assert_eq!((a.measure.sojourn.mean(), a.measure.window()), (b.measure.sojourn.mean(), b.measure.window()));
    assert_eq!((a.counts.memory, &a.counts.cores, a.simulated), (b.counts.memory, &b.counts.cores, b.simulated));
    let document = summary(&sampled, "test");
    assert!(document["verdict"]["reasons"].to_string().contains("All of the run was timed, not windows of it"));
}

#[test]
fn windows_that_run_into_each_other_give_way() {
    // Saturated, with thousands of packets inside: those of a window leave after the next one was to begin.
    let set = ["traffic.load=1.0", "nic.rx_descriptors=4096", "mempool.size=32768", "run.packets=100000"];
    let close = "run.sampling={windows=60, packets=1000, warmup=200, error=1.0}";
    let sampled = result(&[&set[..], &[close]].concat());
    let sampling = sampled.measured.sampling.as_ref().unwrap();
    match &sampling.timed_in_full {
        None => assert!(sampling.windows >= 30 && sampling.in_detail > 60_000, "{sampling:?}"),
        Some(why) => assert!(why.contains("windows run into each other") && sampling.windows < 30, "{sampling:?}"),
    }
    let all = sampled.measured.measure.offered.packets;
    assert!(all == u64::from(sampling.windows) * 1000 || all == 100_000, "{all} {sampling:?}");
}

#[test]
fn plans_without_room_are_refused_with_both_numbers() {
    for (set, message) in [
        ("{windows=20}", "run.sampling.windows: 20: allowed are 30 or more"),
        (
            "{windows=40, packets=2000}",
            "run.sampling.windows: 40 windows of 1000 + 2000 packets are 120000, and run.packets is 100000: allowed are up to 33 \
             (lower windows, packets or warmup, or raise run.packets)",
        ),
        (
            "{windows=40, packets=9000}",
            "(raise run.packets to 300000 or more, or lower run.sampling.packets and warmup)",
        ),
        ("{packets=0, error=2}", "run.sampling.packets: 0: allowed are 1 or more"),
        ("{error=2}", "run.sampling.error: 2: allowed is a share above 0 up to 1"),
    ] {
        let set = vec!["run.packets=100000".to_string(), format!("run.sampling={set}")];
        let error = Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_sampled_run_that_is_stopped_does_not_say_that_it_was_timed_in_full() {
    let scenario = scenario(&[&SLOW[..], &["run.packets=400000", WINDOWS]].concat(), None);
    let stopped = run(&scenario, RunOptions::default(), &mut |p| !(p.phase == "run" && p.done > 0)).unwrap();
    let sampling = stopped.measured.sampling.as_ref().unwrap();
    assert!(stopped.partial && sampling.windows < 64 && sampling.of < 400_000, "{sampling:?}");
    assert_eq!(sampling.timed_in_full, None);
    assert!(!summary(&stopped, "test")["verdict"]["reasons"].to_string().contains("NaN"));
}
