//! `wirespeedd --simulate`: the whole loop as a process, without FUSE, without root.

use std::process::{Command, Output, Stdio};

use crate::process::text;

fn simulate(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("wirespeedd.toml");
    // No endpoint: tests run beside each other.
    let own = "listen = \"\"\n[policy]\nio_ways = 8\n[[classes]]\nname = \"rx\"\nrole = \"receive\"\ncpus = \"1\"\n";
    std::fs::write(&config, own).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirespeedd"));
    command.args(arguments).arg("--config").arg(&config).stdin(Stdio::null()).output().unwrap()
}

/// Per cent of packets lost, by interval.
fn lost(output: &Output) -> Vec<f64> {
    let rows = text(&output.stdout);
    let column = |row: &str| row.split_whitespace().nth(4).and_then(|cell| cell.parse().ok());
    rows.lines().skip(1).filter_map(column).collect()
}

#[test]
fn loss_is_gone_within_thirty_intervals_where_cores_have_too_few_ways() {
    let output = simulate(&["--simulate", "skylake", "--no-wait", "run", "--apply", "--intervals", "40"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lost = lost(&output);
    assert_eq!(lost.len(), 39, "the first interval has nothing to compare with: {}", text(&output.stdout));
    assert!(lost.iter().any(|share| *share > 5.0), "it begins where packets are lost: {lost:?}");
    assert!(lost[29..].iter().all(|share| *share == 0.0), "{lost:?}");
    let log = text(&output.stderr);
    assert!(log.contains("group wirespeed-rx is removed"), "all is put back: {log}");
}

#[test]
fn a_dry_run_of_it_sets_nothing() {
    let output = simulate(&["--simulate", "skylake", "--no-wait", "run", "--intervals", "12"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).lines().skip(1).all(|row| row.contains(" 2 (600) ")), "{}", text(&output.stdout));
}

#[test]
fn the_plan_is_that_of_the_made_machine() {
    let output = simulate(&["--simulate", "amd", "plan"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("io_alloc"), "{}", text(&output.stdout));
}

#[test]
fn what_cannot_be_is_said() {
    for (arguments, said) in [
        (&["--simulate", "pentium"][..], "possible values: skylake, no-effect, amd"),
        (&["--simulate", "skylake", "--offer", "9"], "allowed are 0.1 to 8"),
        (&["--simulate", "skylake", "--offer", "none"], "allowed are 0.1 to 8"),
        (&["--no-wait", "check"], "--simulate <MACHINE>"),
        (&[], "check, plan, run or restore, or --simulate"),
    ] {
        let output = simulate(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_configuration_without_a_class_that_receives_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("none.toml");
    std::fs::write(&config, "listen = \"\"\n[[classes]]\nname = \"w\"\nrole = \"work\"\ncpus = \"2\"\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirespeedd"));
    let output = command.args(["--simulate", "skylake", "--config"]).arg(&config).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("role = \"receive\""), "{}", text(&output.stderr));
}
