//! Where traffic, functions and a machine meet: a scenario in, tables out.

pub mod applications;
pub mod compare;
pub mod copies;
mod load;
pub mod loops;
pub mod measure;
pub mod memory;
pub mod netproc;
mod own_machine;
pub mod predict;
pub mod recorded;
pub mod run;
pub mod scenario;
mod schedule;
mod search;
pub mod server;
pub mod simt;
mod simulate;
pub mod slices;
mod spread;
pub mod steer;
pub mod summary;
pub mod tables;
mod user_plane;
pub mod verdict;

pub use compare::compare;
pub use load::{InputFile, Routing, Stock};
pub use run::{Options, Progress, RunResult, run, run_all, run_from};
pub use scenario::{Overrides, Scenario, ScenarioError, Search};
pub use schedule::Watch;
pub use simulate::{Measured, Setup, WarmUp, WarmUpEnd};
pub use summary::{run_id, summary};
pub use tables::{TABLES, Tables};
pub use verdict::{Verdict, verdict};
