//! Where traffic, functions and a machine meet: a scenario in, tables out.

pub mod measure;
pub mod run;
pub mod scenario;
pub mod server;

pub use run::{Progress, RunResult, run};
pub use scenario::{Overrides, Scenario, ScenarioError, Search};
