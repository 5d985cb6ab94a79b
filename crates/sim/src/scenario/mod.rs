//! What is simulated: a scenario in TOML, its presets, overrides and errors.

mod check;
pub mod clos;
mod cycles;
mod error;
mod exclusions;
pub mod files;
mod functions;
mod gpu_checks;
mod gpu_names;
pub mod gpus;
mod idle;
pub mod neighbours;
mod overlay;
mod own_files;
mod own_machine;
mod own_part;
mod parts;
mod policy;
mod presets;
mod read;
mod resolve;
mod spec;
mod words;

pub(crate) use check::LEAST_PACKETS;
pub use clos::ClosSpec;
pub use error::ScenarioError;
pub use functions::{
    CheckSpec, ClassificationSpec, FilterSpec, ForwardingSpec, FunctionKind, FunctionSpec, InspectionSpec, LookupSpec,
    TraceSpec, UserPlaneSpec,
};
pub use gpus::{GpuMemory, GpuPosting, ServerGpuSpec};
pub use machine::nic::Holders;
pub use neighbours::{NeighbourKind, NeighbourSpec};
pub use overlay::{apply, get_mut, refuse_counted_masks};
pub use policy::{PolicyKind, PolicySpec};
pub use presets::{GPUS, KINDS, MACHINES, Preset, SCENARIOS, ShippedCore, core_of, find, known, nic_intervals};
pub use read::Overrides;
pub use spec::{LifeSpec, MachineSpec, RateSearch, RunSpec, SamplingSpec, Scenario, TrafficSpec};
pub use words::with_nearest;

#[cfg(test)]
mod tests;
