//! Any setting with any value gives a scenario or an error that says where, never a panic; what is judged sound reads
//! back equal.

use proptest::prelude::*;
use sim::scenario::{MACHINES, SCENARIOS};
use sim::{Overrides, Scenario};

/// Paths of all settings that a scenario with everything filled in has, and of some that are left out there.
fn paths() -> Vec<String> {
    fn leaves(prefix: &str, table: &toml::Table, found: &mut Vec<String>) {
        for (key, value) in table {
            let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            found.push(path.clone());
            if let toml::Value::Table(inner) = value {
                leaves(&path, inner, found);
            }
        }
    }
    let mut found: Vec<String> = [
        "traffic.capture",
        "traffic.profile",
        "traffic.rate",
        "traffic.packet_rate",
        "traffic.arrivals",
        "function.kind",
        "function.chain",
        "machine.dram.standard",
        "machine.dram.controller",
        "machine.dram.controller.order",
        "machine.applications.tables",
        "machine.stacked",
        "machine.sockets",
        "machine.copy_table",
        "machine.copy_engine",
        "machine.tlb.pages",
        "buffer.size",
        "buffer.allocation",
        "pipeline.rx_cores",
        "policy",
        "neighbours",
        "no.such.setting",
    ]
    .map(String::from)
    .to_vec();
    for scenario in SCENARIOS {
        let scenario = Scenario::read(scenario.text, scenario.name, &Overrides::default()).unwrap();
        leaves("", &toml::from_str(&scenario.to_toml()).unwrap(), &mut found);
    }
    found.sort();
    found.dedup();
    found
}

/// Values that settings take, and such as none does.
const VALUES: [&str; 34] = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "8",
    "64",
    "1000",
    "-1",
    "4294967296",
    "9223372036854775807",
    "1e6",
    "0.5",
    "-0.5",
    "1e300",
    "nan",
    "inf",
    "true",
    "\"\"",
    "\"1 KiB\"",
    "\"0 B\"",
    "\"16 EiB\"",
    "\"10 ns\"",
    "\"-1 ns\"",
    "\"100 Gbps\"",
    "\"lru\"",
    "\"fr-fcfs\"",
    "\"nat\"",
    "[]",
    "[0]",
    "[\"nat\", \"forward\"]",
    "{}",
    "{ a = 1 }",
    "[[{",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_settings_are_read_or_refused(
        base in 0..SCENARIOS.len() + MACHINES.len(),
        set in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4),
    ) {
        thread_local!(static PATHS: Vec<String> = paths());
        let set: Vec<String> = PATHS.with(|paths| {
            set.iter().map(|(path, value)| format!("{}={}", path.get(paths), value.get(&VALUES))).collect()
        });
        let text = match base.checked_sub(SCENARIOS.len()) {
            None => SCENARIOS[base].text.to_string(),
            Some(machine) => format!("[machine]\npreset = {:?}", MACHINES[machine].name),
        };
        match Scenario::read(&text, "own.toml", &Overrides { set: set.clone(), ..Overrides::default() }) {
            Ok(scenario) => {
                let again = Scenario::read(&scenario.to_toml(), "again.toml", &Overrides::default());
                prop_assert!(again.is_ok(), "{set:?}: {}", again.unwrap_err());
                prop_assert_eq!(again.unwrap().to_toml(), scenario.to_toml());
            }
            Err(error) => {
                let error = error.to_string();
                prop_assert!(error.contains(':') && error.len() > 20, "{set:?}: {error}");
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-z\\[\\]\\.=\"0-9 \n]{0,200}") {
        if let Err(error) = Scenario::read(&text, "own.toml", &Overrides::default()) {
            prop_assert!(error.to_string().contains("own.toml"), "{error}");
        }
    }
}
