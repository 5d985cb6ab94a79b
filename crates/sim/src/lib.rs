//! Where traffic, functions and a machine meet: a scenario in, tables out.

pub mod compare;
pub mod measure;
pub mod run;
pub mod scenario;
pub mod server;
pub mod summary;
pub mod tables;
pub mod verdict;

pub use compare::compare;
pub use run::{Progress, RunResult, run};
pub use scenario::{Overrides, Scenario, ScenarioError, Search};
pub use summary::{run_id, summary};
pub use tables::{TABLES, Tables};
pub use verdict::{Verdict, verdict};
