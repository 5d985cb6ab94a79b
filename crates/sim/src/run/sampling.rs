//! What a run with sampled sets says about itself: that it did, and how far its hit rates may be off.
//!
//! There are two rates of each level. That of the followed lines alone has a half-width by its parts. That among the
//! levels of the run counts all lines, of which most got what others had lately: it lags where caches still fill. How far
//! the two are apart is known, and is added to the half-width of the second.

use machine::memory::{LevelCounters, Sampled};
use serde_json::{Value, json};

use crate::run::simulate::Measured;
use crate::scenario::Scenario;

const LEVELS: [(&str, &str, Sampled); 4] = [
    ("L2", "L2", Sampled::L2),
    ("LLC", "the LLC", Sampled::Llc),
    ("DDIO", "device writes", Sampled::DmaWrite),
    ("DMA read", "device reads", Sampled::DmaRead),
];

/// A level of which lines were followed.
struct Followed {
    name: &'static str,
    words: &'static str,
    lines: u64,
    /// Of the followed lines, and its half-width.
    hit_rate: f64,
    half_width: f64,
    /// Of the rate that counts all lines.
    levels_half_width: f64,
}

fn rates(scenario: &Scenario, measured: &Measured) -> Vec<Followed> {
    let Some(sample) = &measured.sample else { return Vec::new() };
    let of = |&(name, words, of): &(&'static str, &'static str, Sampled)| {
        let (hit_rate, half_width) = sample.hit_rate(of, scenario.machine.sampling)?;
        let all = match of {
            Sampled::L2 => measured.memory.l2,
            Sampled::Llc => measured.memory.llc,
            Sampled::DmaWrite => measured.memory.dma_write,
            Sampled::DmaRead => measured.memory.dma_read,
        };
        let LevelCounters { hits, misses } = all;
        let apart = if hits + misses == 0 { 0.0 } else { (hits as f64 / (hits + misses) as f64 - hit_rate).abs() };
        let levels_half_width = half_width + apart;
        Some(Followed { name, words, lines: sample.lines(of), hit_rate, half_width, levels_half_width })
    };
    LEVELS.iter().filter_map(of).collect()
}

/// For the summary: null where all sets were followed.
pub(crate) fn summary(scenario: &Scenario, measured: &Measured) -> Value {
    if measured.sample.is_none() {
        return Value::Null;
    }
    let level = |of: &Followed| {
        json!({
            "name": of.name,
            "lines": of.lines,
            "hit_rate": of.hit_rate,
            "half_width": of.half_width,
            "levels_half_width": of.levels_half_width,
        })
    };
    let levels: Vec<Value> = rates(scenario, measured).iter().map(level).collect();
    json!({ "one_in": scenario.machine.sampling, "levels": levels })
}

/// The same in words; [`None`] where all sets were followed.
pub(crate) fn note(scenario: &Scenario, measured: &Measured) -> Option<String> {
    measured.sample?;
    let level = |of: &Followed| format!("{:.1} ± {:.1} % of {}", of.hit_rate * 100.0, of.half_width * 100.0, of.words);
    let levels: Vec<String> = rates(scenario, measured).iter().map(level).collect();
    Some(format!(
        "one in {} sets of the LLC was followed (machine.sampling); hits, with 95 % half-widths of the sample: {}. \
         Half-widths of times and losses are of chance alone, without what sampling adds: `wirespeed sampling` compares with all sets",
        scenario.machine.sampling,
        if levels.is_empty() { "none seen".to_string() } else { levels.join(", ") },
    ))
}
