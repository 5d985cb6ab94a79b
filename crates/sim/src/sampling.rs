//! What a run with sampled sets says about itself: that it did, and how far its hit rates may be off.

use machine::memory::Sampled;
use serde_json::{Value, json};

use crate::scenario::Scenario;
use crate::simulate::Measured;

const LEVELS: [(&str, &str, Sampled); 4] = [
    ("L2", "L2", Sampled::L2),
    ("LLC", "the LLC", Sampled::Llc),
    ("DDIO", "device writes", Sampled::DmaWrite),
    ("DMA read", "device reads", Sampled::DmaRead),
];

/// Hit rates of the followed lines with their half-widths, by level: name, words for it, rate, half-width and lines.
fn rates(scenario: &Scenario, measured: &Measured) -> Vec<(&'static str, &'static str, f64, f64, u64)> {
    let Some(sample) = &measured.sample else { return Vec::new() };
    let of = |&(name, words, of): &(&'static str, &'static str, Sampled)| {
        let (rate, half_width) = sample.hit_rate(of, scenario.machine.sampling)?;
        Some((name, words, rate, half_width, sample.lines(of)))
    };
    LEVELS.iter().filter_map(of).collect()
}

/// For the summary: null where all sets were followed.
pub(crate) fn summary(scenario: &Scenario, measured: &Measured) -> Value {
    if measured.sample.is_none() {
        return Value::Null;
    }
    let level = |(name, _, rate, half_width, lines): (&str, &str, f64, f64, u64)| json!({ "name": name, "lines": lines, "hit_rate": rate, "half_width": half_width });
    let levels: Vec<Value> = rates(scenario, measured).into_iter().map(level).collect();
    json!({ "one_in": scenario.machine.sampling, "levels": levels })
}

/// The same in words; [`None`] where all sets were followed.
pub(crate) fn note(scenario: &Scenario, measured: &Measured) -> Option<String> {
    measured.sample?;
    let level = |(_, words, rate, half_width, _): (&str, &str, f64, f64, u64)| {
        format!("{:.1} ± {:.1} % of {words}", rate * 100.0, half_width * 100.0)
    };
    let levels: Vec<String> = rates(scenario, measured).into_iter().map(level).collect();
    Some(format!(
        "one in {} sets of the LLC was followed (machine.sampling); hits, with 95 % half-widths of the sample: {}. \
         `wirespeed sampling` compares with all sets",
        scenario.machine.sampling,
        if levels.is_empty() { "none seen".to_string() } else { levels.join(", ") },
    ))
}
