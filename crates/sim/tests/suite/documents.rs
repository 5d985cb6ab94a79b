//! The document of a whole run, for tests that ask what a setting does to it. A run is its scenario's alone, so that the machine
//! that several tests compare others with is run once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value;
use sim::{Overrides, RunOptions, Scenario, ScenarioError, run, summary};

/// The default scenario with these settings, one list behind the other.
pub(super) fn read(set: &[&[&str]]) -> Result<Scenario, ScenarioError> {
    let set = set.concat().iter().map(ToString::to_string).collect();
    Scenario::read("", "test", &Overrides { set, ..Overrides::default() })
}

/// The document; packets are conserved and the sojourn is accounted for.
pub(super) fn document(set: &[&[&str]]) -> Value {
    static DOCUMENTS: Mutex<BTreeMap<String, Arc<OnceLock<Value>>>> = Mutex::new(BTreeMap::new());
    let key = set.concat().join("\n");
    let slot = DOCUMENTS.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
    slot.get_or_init(|| found(set)).clone()
}

fn found(set: &[&[&str]]) -> Value {
    let result = run(&read(set).unwrap(), RunOptions { threads: 1, ..RunOptions::default() }, &mut |_| true).unwrap();
    let measure = &result.measured.measure;
    let ended: u64 = measure.lost.values().chain(measure.rejected.values()).sum();
    assert_eq!(measure.offered.packets, measure.carried.packets + ended, "{set:?}");
    let document = summary(&result, "test");
    let parts: f64 = document["attribution_ns"].as_object().unwrap().values().filter_map(Value::as_f64).sum();
    let sojourn = number(&document, "/sojourn_ns/mean");
    assert!((parts - sojourn).abs() < 1e-6 * sojourn, "{set:?}: {parts} and {sojourn}");
    document
}

/// The number at a JSON pointer, which has to be there.
pub(super) fn number(of: &Value, at: &str) -> f64 {
    of.pointer(at).and_then(Value::as_f64).unwrap_or_else(|| panic!("{at} of {of}"))
}
