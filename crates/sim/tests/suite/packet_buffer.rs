//! Packet buffers of a scenario: what a run tells of them, what it refuses, and which DRAM rows packets touch.

use serde_json::Value;
use sim::{Overrides, RunOptions, Scenario, ScenarioError};

fn scenario(set: &[&str]) -> Scenario {
    let quick = ["function.forward.prefixes=2000", "run.packets=3000", "run.curve=[]", "mempool.size=8192"];
    let set = quick.iter().chain(set).map(ToString::to_string).collect();
    Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).unwrap()
}

fn run(set: &[&str]) -> Result<Value, ScenarioError> {
    sim::run(&scenario(set), RunOptions::default(), &mut |_| true).map(|result| sim::summary(&result, ""))
}

fn words(summary: &Value) -> String {
    format!("{} {}", summary["verdict"]["reasons"], summary["verdict"]["advice"])
}

fn rows(set: &[&str], window: usize) -> Value {
    let scenario = scenario(set);
    let loaded = sim::run::predict::load_one(&scenario).unwrap();
    sim::run::rows::rows(&scenario, &loaded, window, 2000, &mut || true).unwrap().unwrap()
}

fn of<'a>(found: &'a Value, name: &str) -> &'a Value {
    let all = found["allocations"].as_array().unwrap();
    all.iter().find(|each| each["allocation"] == name).unwrap_or(&Value::Null)
}

#[test]
fn a_run_tells_what_the_packet_buffer_did() {
    assert_eq!(run(&[]).unwrap()["packet_buffer"], Value::Null);
    let small = run(&["buffer.allocation=fixed", "buffer.size=32 KiB", "traffic.load=0.9"]).unwrap();
    let buffer = &small["packet_buffer"];
    assert_eq!(buffer["stalls"], small["drops"]["no_buffer"]);
    assert!(buffer["stalls"].as_u64().unwrap() > 0);
    assert_eq!(buffer["too_long"], 0);
    // Frames of an ISP's mean size in 2 KiB each.
    let unused = buffer["fragmentation"].as_f64().unwrap();
    assert!(unused > 0.4 && unused < 0.9, "{unused}");
    let packets = buffer["packets"].as_u64().unwrap() + buffer["stalls"].as_u64().unwrap();
    assert_eq!(packets, small["packets"].as_u64().unwrap());
    assert!(
        words(&small).contains("found no room in the packet buffer of 32 KiB (fixed, with cells free"),
        "{}",
        words(&small)
    );
    let cells = run(&["buffer.allocation=cells", "buffer.size=8 MiB"]).unwrap();
    assert!(cells["packet_buffer"]["fragmentation"].as_f64().unwrap() < unused / 2.0);
}

#[test]
fn frames_that_are_known_to_be_too_long_are_refused_with_both_numbers() {
    for (allocation, page) in [("piecewise", " and buffer.page=\"16 KiB\""), ("cells", "")] {
        let allocation = format!("buffer.allocation={allocation}");
        let error = run(&["traffic.sizes.fixed=9000", &allocation]).unwrap_err().to_string();
        let wanted = format!(
            "buffer.longest: 1518 bytes, the traffic has frames of 8996 bytes without check sequence: allowed are 8996 bytes or more (--set buffer.longest=\"8996 B\"{page},"
        );
        assert!(error.contains(&wanted), "{error}");
    }
    // A page that is large enough already is left alone.
    let roomy = ["traffic.sizes.fixed=9000", "buffer.allocation=piecewise", "buffer.page=32 KiB"];
    let error = run(&roomy).unwrap_err().to_string();
    assert!(error.contains("(--set buffer.longest=\"8996 B\", or shorter frames)"), "{error}");
    // What is advised works.
    let mended =
        ["traffic.sizes.fixed=9000", "buffer.allocation=piecewise", "buffer.longest=8996 B", "buffer.page=16 KiB"];
    assert_eq!(run(&mended).unwrap()["drops"]["no_buffer"], Value::Null);
    assert!(run(&["traffic.sizes.fixed=1518", "buffer.size=8 MiB"]).is_ok());
}

#[test]
fn device_writes_that_miss_are_laid_to_the_buffer_that_packets_lie_in() {
    let set = ["traffic.load=0.9", "run.packets=20000"];
    let in_mbufs = words(&run(&set).unwrap());
    assert!(in_mbufs.contains("the 8,192 packet buffers span"), "{in_mbufs}");
    let apart = words(&run(&[&set[..], &["buffer.size=24 MiB"]].concat()).unwrap());
    assert!(apart.contains("packets lie in a buffer of 24 MiB"), "{apart}");
    assert!(!apart.contains("packet buffers span") && !apart.contains("mempool.kind"), "{apart}");
}

#[test]
fn rows_are_those_of_the_scenarios_own_buffer_and_dram() {
    let found = rows(&[], 16);
    let touched = |found: &Value, name: &str| of(found, name)["rows_both"].as_f64().unwrap();
    // In mbufs as in a buffer; frontiers lay packets behind each other.
    assert_eq!(of(&found, "mbufs")["own"], true);
    for frontier in ["linear", "piecewise"] {
        for stack in ["mbufs", "fixed", "cells"] {
            assert!(touched(&found, frontier) < touched(&found, stack), "{frontier} {stack} {found}");
        }
    }
    // Another traffic, another machine, other sizes of the buffer: other rows.
    let others = [
        &["traffic.sizes.fixed=1400"][..],
        &["machine.dram.channels=1"],
        &["machine.dram.row=1 KiB"],
        &["machine.dram.standard=ddr5-6400b", "machine.dram.controller.order=fr-fcfs"],
        &["machine.dram.standard=ddr4-3200aa", "machine.dram.controller.map=row rank bank group column channel"],
    ];
    for other in others {
        let other_rows = rows(other, 16);
        assert!(touched(&other_rows, "cells") != touched(&found, "cells"), "{other:?}");
    }
    let own = rows(&["buffer.allocation=linear", "buffer.size=1 MiB"], 16);
    assert_eq!((&own["buffer_bytes"], &of(&own, "linear")["own"]), (&Value::from(1 << 20), &Value::from(true)));
    assert_eq!(of(&own, "mbufs")["own"], false);
    let long = rows(&["traffic.sizes.fixed=9000"], 16);
    assert_eq!(of(&long, "piecewise")["stalls"], 0);
}

#[test]
fn windows_of_one_reference_touch_one_row_and_one_wide_row_is_all_there_is() {
    let found = rows(&[], 1);
    assert!(found["allocations"].as_array().unwrap().iter().all(|each| each["rows_both"] == 1.0));
    // A channel and rows as large as the buffer: two rows at most, since it need not begin where a row does.
    let wide = rows(
        &["machine.dram.channels=1", "machine.dram.row=1 MiB", "buffer.size=1 MiB", "buffer.allocation=cells"],
        64,
    );
    assert!(of(&wide, "cells")["rows_both"].as_f64().unwrap() <= 2.0);
    let mbufs = of(&found, "mbufs");
    let ended = mbufs["sent"].as_u64().unwrap() + mbufs["lost"].as_u64().unwrap();
    assert!((2000..3000).contains(&ended), "those offered, and those that were inside before: {ended}");
}
