//! Counts instructions under valgrind: the null probe costs none, and what the function reports
//! with `work` is what it executes. Where valgrind or x86-64 is missing the tests say so and pass.
//!
//! A program of its own: cargo builds while it runs, and takes every core.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// What a function is made of.
const CRATES: [&str; 5] =
    ["wirespeed-functions", "wirespeed-packet", "wirespeed-probe", "wirespeed-state", "wirespeed-units"];

/// The examples. What a function is made of is built as released; all libraries beside are those that the tests have.
fn programs() -> &'static PathBuf {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        // target/<profile>/deps/<this test>
        let test = std::env::current_exe().expect("a test knows its path");
        let target = test.ancestors().nth(3).expect("cargo's target folder");
        let released = CRATES.iter().flat_map(|name| {
            ["opt-level=3", "codegen-units=16", "debug-assertions=false", "overflow-checks=false"]
                .map(|setting| format!("--config=profile.dev.package.{name}.{setting}"))
        });
        let built = Command::new(env!("CARGO"))
            // Libraries have their features from all of the workspace.
            .args(["build", "--workspace", "--offline", "--quiet"])
            .args(["--example", "forward_instructions", "--example", "upf_instructions"])
            .args(["--example", "application_instructions", "--target-dir"])
            .arg(target)
            .args(released)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_remove("RUSTFLAGS")
            // It keeps small functions apart.
            .env("CARGO_INCREMENTAL", "0")
            .output()
            .expect("cargo runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        target.join("debug/examples")
    })
}

/// The example that runs a function.
fn program(function: &str) -> PathBuf {
    programs().join(format!("{}_instructions", function.split('_').next().expect("a name")))
}

fn valgrind_is_missing() -> bool {
    let there = cfg!(target_arch = "x86_64")
        && Command::new("valgrind").arg("--version").output().is_ok_and(|o| o.status.success());
    if !there {
        println!("skipped: needs x86-64 and valgrind (Debian: apt install valgrind)");
    }
    !there
}

/// The two numbers the example prints.
fn printed(output: &[u8]) -> (f64, String) {
    let text = String::from_utf8_lossy(output);
    let mut words = text.split_whitespace();
    let packets = words.next().and_then(|w| w.parse().ok()).expect("the number of packets");
    (packets, words.next().expect("a second number").to_owned())
}

/// Instructions per packet within `function`, and the digest of what it did.
fn executed(mode: &str, function: &str, workload: &str) -> (f64, String) {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect={function}"))
        .arg(program(function))
        .args([mode, workload])
        .output()
        .expect("valgrind runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let collected = log.lines().find_map(|line| line.split("Collected :").nth(1));
    let instructions: f64 = collected.and_then(|n| n.trim().parse().ok()).expect("callgrind says what it collected");
    let (packets, digest) = printed(&output.stdout);
    assert!(instructions > packets, "{function} was not met");
    (instructions / packets, digest)
}

#[test]
fn the_null_probe_costs_no_instruction() {
    assert_eq!(size_of::<probe::Null>(), 0);
    if valgrind_is_missing() {
        return;
    }
    for workload in ["v4", "v4_long", "v6", "no_route", "mixed"] {
        let (null, digest) = executed("null", "forward_null", workload);
        let (hand, same) = executed("hand", "forward_by_hand", workload);
        println!("{workload}: {null:.1} instructions a packet with the null probe, {hand:.1} without any");
        assert_eq!(digest, same, "{workload}: the copy by hand does something else");
        assert!(null <= hand + 0.5, "{workload}: {null:.2} with the null probe, {hand:.2} without any");
        assert!(null >= hand * 0.9, "{workload}: {null:.2}, but {hand:.2} by hand: the copy is stale");
    }
}

#[test]
fn reported_work_is_what_is_executed_within_a_tenth() {
    if valgrind_is_missing() {
        return;
    }
    let workloads = [
        "v4",
        "v4_long",
        "v6",
        "v6_short",
        "arp",
        "no_route",
        "ttl",
        "mixed",
        "v4+software",
        "v4+no_prefetch",
        "mixed+single",
    ];
    reported_is_executed("forward_null", &workloads, 0.1);
}

#[test]
fn the_work_that_the_upf_reports_is_what_is_executed_within_a_tenth() {
    if valgrind_is_missing() {
        return;
    }
    let workloads = [
        "uplink_1",
        "uplink",
        "downlink_1",
        "downlink",
        "metered",
        "downlink_metered",
        "downlink_buffered",
        "drop",
        "unknown",
        "arp",
        "mixed",
        "uplink+single",
        "mixed+no_prefetch",
        "uplink+flows",
        "downlink_5+flows",
        "metered+flows",
        "uplink_5+new_flows",
        "downlink_1+new_flows",
        "mixed+flows",
    ];
    reported_is_executed("upf_null", &workloads, 0.1);
}

#[test]
fn the_work_that_the_applications_report_is_what_is_executed_within_a_fifth() {
    if valgrind_is_missing() {
        return;
    }
    let workloads = [
        "check+v4",
        "check+options",
        "ttl+mixed",
        "dir24+v4_long",
        "dir24+v6",
        "poptrie+v4",
        "poptrie+v6_long",
        "linear+mixed",
        "tuples+v4",
        "fragment+v4",
        "fragment+large",
        "automaton+words",
        "automaton+noise",
        "automaton+numbers",
        "bloom+noise",
        "nat+flows",
        "few+flows",
        "list+v4",
        "compiled+v4",
        "wide+v4",
        "chain+mixed",
    ];
    // How much is inlined here hangs on what else the crate has, and on the compiler: by up to a seventh so far.
    reported_is_executed("application_null", &workloads, 0.2);
}

fn reported_is_executed(function: &str, workloads: &[&str], tolerance: f64) {
    for workload in workloads {
        let (executed, _) = executed("null", function, workload);
        let output = Command::new(program(function)).args(["report", workload]).output().expect("the example runs");
        let (packets, instructions) = printed(&output.stdout);
        let reported = instructions.parse::<f64>().expect("a number of instructions") / packets;
        println!("{workload}: {executed:.1} instructions a packet executed, {reported:.1} reported");
        assert!(
            (reported / executed - 1.0).abs() < tolerance,
            "{workload}: {reported:.1} reported, {executed:.1} executed"
        );
    }
}
