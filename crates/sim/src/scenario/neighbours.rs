//! Other programs on the machine, as a scenario names them.

use std::ops::Range;

use machine::nic::NEIGHBOURS;
use probe::{RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{LINE_BYTES, Ps, Size, Span};

/// A program beside the packet functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NeighbourSpec {
    /// A name for people.
    #[serde(default = "control_plane")]
    pub name: String,
    /// Cores that it keeps busy, beside `machine.cores`.
    #[serde(default = "one")]
    pub cores: u32,
    /// Bytes that each of its cores works on, apart from each other.
    pub working_set: Size,
    /// From one reference of a core to its next; 0 for as fast as memory lets it.
    #[serde(default)]
    pub every: Span,
    /// The share of references that are stores, 0 to 1.
    #[serde(default = "fifth")]
    pub stores: f64,
    /// The share of references that wait for the one before, 0 to 1.
    #[serde(default = "half")]
    pub chained: f64,
    /// It works for a stretch of each period and sleeps for the rest; 0 for always.
    #[serde(default)]
    pub period: Span,
    /// That stretch, as a share of the period.
    #[serde(default = "whole")]
    pub busy: f64,
}

fn control_plane() -> String {
    "control plane".into()
}

fn one() -> u32 {
    1
}

fn fifth() -> f64 {
    0.2
}

fn half() -> f64 {
    0.5
}

fn whole() -> f64 {
    1.0
}

impl NeighbourSpec {
    /// Checks the ranges; the message begins with the field.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        if !(1..=64).contains(&self.cores) {
            return Err(("cores", format!("{}: allowed are 1 to 64", self.cores)));
        }
        if !(4096..=1 << 34).contains(&self.working_set.bytes()) {
            return Err(("working_set", format!("{}: allowed are 4 KiB to 16 GiB", self.working_set)));
        }
        for (field, share) in [("stores", self.stores), ("chained", self.chained)] {
            if !(0.0..=1.0).contains(&share) {
                return Err((field, format!("{share}: allowed is a share of 0 to 1")));
            }
        }
        if !(self.busy > 0.0 && self.busy <= 1.0) {
            return Err(("busy", format!("{}: allowed is a share above 0, up to 1", self.busy)));
        }
        for (field, span) in [("every", self.every), ("period", self.period)] {
            if span.ps() > Ps::from_ns(1_000_000_000) {
                return Err((field, format!("{span}: allowed are 0 to 1 s")));
            }
        }
        Ok(())
    }
}

/// Cores that `neighbours` take in all.
pub fn cores(neighbours: &[NeighbourSpec]) -> u32 {
    neighbours.iter().map(|n| n.cores).sum()
}

/// The memory that they work on.
pub fn region(neighbours: &[NeighbourSpec]) -> Option<RegionSpec> {
    let bytes = neighbours.iter().map(|n| u64::from(n.cores) * lines(n) * LINE_BYTES).sum();
    (bytes > 0).then(|| RegionSpec { id: NEIGHBOURS, name: "neighbours".into(), bytes, sharing: Sharing::Shared })
}

/// The lines of each in that memory, from its first on.
pub(crate) fn lines_of_all(neighbours: &[NeighbourSpec]) -> Vec<Range<u64>> {
    let mut first = 0;
    let each = neighbours.iter().map(|spec| {
        let from = first;
        first += u64::from(spec.cores) * lines(spec);
        from..first
    });
    each.collect()
}

pub(crate) fn lines(spec: &NeighbourSpec) -> u64 {
    spec.working_set.bytes().div_ceil(LINE_BYTES)
}
