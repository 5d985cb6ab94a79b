//! Where traffic, functions and a machine meet: a scenario in, tables out.
//!
//! Rooms along the road; each sees those before it: a scenario is read ([`scenario`]), what it names is loaded ([`load`]), a
//! server is built of it ([`server`]), simulated ([`run`]) and answers ([`answer`]).

#![forbid(unsafe_code)]

pub mod answer;
pub mod load;
pub mod run;
pub mod scenario;
pub mod server;

pub use answer::compare::compare;
pub use answer::summary::{points, run_id, summary};
#[cfg(not(target_family = "wasm"))]
pub use answer::tables::{RunTables, TABLES};
pub use answer::verdict::{RunVerdict, verdict};
pub use load::{InputFile, Loaded, Routing, Stock};
pub use run::kept::{BaseClaim, BaseStore};
pub use run::near::Near;
pub use run::schedule::ProgressWatch;
pub use run::simulate::{Measured, SimulationSetup};
pub use run::warm::{WarmUp, WarmUpEnd, WarmthMeasure};
pub use run::{Progress, RunOptions, RunResult, run, run_all, run_from, run_heard};
pub use scenario::{Overrides, RateSearch, Scenario, ScenarioError};
pub use server::owners::ApplicationFound;
