use sim::{Overrides, Scenario};

use super::*;

/// Small caches and few cores, so that little fills them; DDR4-2666 on two channels.
const SMALL: [&str; 6] = [
    "machine.cores=5",
    "machine.llc.size=1.375 MiB",
    "machine.llc.slices=1",
    "machine.l2.size=128 KiB",
    "machine.dram.channels=2",
    "machine.dram.t_burst=3 ns",
];
const COMMANDS: [&str; 7] = [
    "machine.cores=5",
    "machine.llc.size=1.375 MiB",
    "machine.llc.slices=1",
    "machine.l2.size=128 KiB",
    "machine.dram.standard=ddr4-2666v",
    "machine.dram.channels=2",
    "machine.dram.controller.queue=32",
];

fn machine(set: &[&str]) -> MachineSpec {
    let set = set.iter().map(|s| s.to_string()).collect();
    Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).unwrap().machine
}

fn few() -> CurveSpec {
    CurveSpec { points: 5, accesses: 512, threads: Some(2), ..CurveSpec::default() }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn points(document: &Value, curve: usize) -> Vec<(f64, f64, f64)> {
    let points = document["curves"][curve]["points"].as_array().unwrap();
    let triple = |p: &Value| {
        (number(&p["bandwidth_gb_per_s"]), number(&p["latency_ns"]), p["half_width_ns"].as_f64().unwrap_or(0.0))
    };
    points.iter().map(triple).collect()
}

#[test]
fn an_idle_load_takes_the_sum_of_its_parts() {
    // A chase of random lines finds rows closed by refresh, or another row open: what refreshes leave is between both.
    for set in [&SMALL[..], &COMMANDS[..]] {
        let machine = machine(set);
        let document = run(&machine, &CurveSpec { reads: vec![100.0], ..few() }).unwrap();
        let closed = number(&document["unloaded_ns"]["sum"]);
        let other = closed + machine.dram.t_rp.ps().as_ns();
        let idle = points(&document, 0)[0].1;
        // By commands a request waits for its clock, and now and then for a refresh: 350 of 7800 ns.
        assert!(idle > closed - 0.5 && idle < other + 12.0, "{idle} ns, of {closed} to {other}");
        let point = &document["curves"][0]["points"][0];
        let parts: f64 = point["parts_ns"].as_object().unwrap().values().map(number).sum();
        assert!((parts - idle).abs() < 1e-6 * idle, "{parts} in parts, {idle} in all");
        let (behind, controller) = (number(&point["behind_llc_ns"]), number(&point["controller_ns"]));
        assert!((idle - behind - machine.llc.latency.ps().as_ns()).abs() < 1.0, "{idle} {behind}");
        assert!((behind - controller - machine.dram.overhead.ps().as_ns()).abs() < 1e-6);
    }
}

#[test]
fn with_rows_that_are_always_open_idle_is_exact() {
    let set = [&SMALL[..], &["machine.dram.all_hits=true", "machine.dram.t_rfc=1 ns"]].concat();
    let document = run(&machine(&set), &CurveSpec { reads: vec![100.0], ..few() }).unwrap();
    let idle = points(&document, 0)[0].1;
    assert!((idle - number(&document["unloaded_ns"]["sum"])).abs() < 0.1, "{idle}");
}

#[test]
fn reads_alone_come_near_the_pins_by_commands_and_never_beyond() {
    let set = [&COMMANDS[..], &["machine.core.outstanding=24"]].concat();
    let document = run(&machine(&set), &few()).unwrap();
    let peak = number(&document["dram"]["peak_gb_per_s"]);
    for curve in 0..2 {
        assert!(points(&document, curve).iter().all(|p| p.0 < peak));
    }
    let most = number(&document["curves"][0]["most_gb_per_s"]);
    assert!(most > 0.8 * peak, "{most} of {peak}");
    assert_eq!(document["dram"]["model"], "commands");
}

#[test]
fn latency_grows_with_load_but_for_noise_and_the_load_is_what_was_asked_for() {
    // Not so of DRAM at once: streams that meet in a bank go on in step, since nobody reorders.
    // A core that takes less for its own instructions overshoots by 7 % halfway.
    let set = [&COMMANDS[..], &["machine.core.cpi=0.4"]].concat();
    let document = run(&machine(&set), &few()).unwrap();
    for curve in 0..2 {
        let points = points(&document, curve);
        for (a, b) in points.iter().zip(&points[1..]) {
            assert!(b.0 > a.0, "{points:?}");
            assert!(b.1 > a.1 - a.2 - b.2 - 1.0, "{points:?}");
        }
        let most = points[points.len() - 1].0;
        for (step, point) in points.iter().enumerate().skip(1) {
            let wanted = most * step as f64 / (points.len() - 1) as f64;
            // The chase moves lines, too.
            assert!((point.0 - wanted).abs() < 0.05 * most + 1.0, "{point:?}, asked for {wanted}");
        }
    }
}

#[test]
fn shares_of_reads_are_those_of_the_lines_that_memory_moves() {
    let spec = CurveSpec { reads: vec![100.0, 75.0, 50.0], ..few() };
    let document = run(&machine(&SMALL), &spec).unwrap();
    for (curve, wanted) in [100.0, 75.0, 50.0].into_iter().enumerate() {
        let points = document["curves"][curve]["points"].as_array().unwrap();
        let found = number(&points[points.len() - 1]["read_percent"]);
        assert!((found - wanted).abs() < 2.0, "{found} of {wanted}");
    }
}

#[test]
fn a_seed_gives_the_same_bits_on_any_number_of_threads() {
    let machine = machine(&COMMANDS);
    let of = |threads, seed| {
        run(&machine, &CurveSpec { points: 3, accesses: 256, threads: Some(threads), seed, ..few() })
            .unwrap()
            .to_string()
    };
    assert_eq!(of(1, 1), of(3, 1));
    assert_ne!(of(1, 1), of(1, 2));
}

#[test]
fn settings_that_cannot_be_say_why() {
    let said = |text: &str| run_json(&machine(&SMALL), text).unwrap_err().to_string();
    assert!(said(r#"{"reads": [40]}"#).contains("allowed are 50 to 100 percent"));
    assert!(said(r#"{"reads": []}"#).contains("as in 100,50"));
    assert!(said(r#"{"points": 2}"#).contains("allowed are 3 to 100"));
    assert!(said(r#"{"streams": 64}"#).contains("allowed are 1 to 63"));
    assert!(said(r#"{"accesses": 1}"#).contains("allowed are 256"));
    assert!(said(r#"{"threads": 0}"#).contains("1 and more"));
    assert!(said(r#"{"read": [50]}"#).contains("unknown field"));
}

#[test]
fn what_of_the_machine_is_not_measured_is_said() {
    let document =
        run(&machine(&["machine.preset=2x-xeon-gold-6140"]), &CurveSpec { points: 3, streams: Some(1), ..few() });
    let notes = document.unwrap()["notes"].to_string();
    assert!(notes.contains("one socket of 2"), "{notes}");
}
