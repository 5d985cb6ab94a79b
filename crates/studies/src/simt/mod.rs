//! Packets on a GPU: traffic goes through packet functions, a packet a lane, and the lanes through [`machine::simt`].
//!
//! Functional first: each packet of a trace runs once through its function with a probe that keeps its stream
//! ([`workload`]). Packets of a run arrive as the traffic's arrival process has it and take the streams of the trace in turn;
//! [`point`] runs them on Hermes or over PCIe and says what came of it. [`preset`] holds the machines that are shipped.
//!
//! **Source**: Zhu, Deng, Chen, "Hermes: an integrated CPU/GPU microarchitecture for IP routing", DAC 2011.

pub mod payload;
pub mod point;
pub mod preset;
pub mod rules;
pub mod workload;

pub use point::{SimtPoint, SimtSystem};
pub use preset::{HermesPreset, PRESETS};
pub use workload::{SimtApplication, SimtWorkload, WorkloadSpec};

use sim::ScenarioError;

fn wrong(path: &str, came: impl std::fmt::Display, allowed: &str) -> ScenarioError {
    ScenarioError::Value { origin: "simt".into(), path: path.into(), message: format!("{came}: allowed is {allowed}") }
}
