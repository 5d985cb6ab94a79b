//! `wirespeedd`: observes a machine, decides with the policy that was simulated, and sets the ways of its last-level cache.
//!
//! - [`DaemonConfig`] is read and judged before anything is touched; [`Parts`] are the roots of the machine.
//! - [`plan`] tells which writes would be made. [`Daemon`] is the loop; dry unless told otherwise.
//! - [`Journal`] has the values from before the first write, on the disk before that write; [`restore()`] puts them back.
//! - [`MadeMachine`] stands in place of a machine, where there is none (`--simulate`).
//! - [`Verified`] finds out whether a change of the ways of device writes has an effect.
//!
//! Only groups whose names begin with the prefix are made, set or removed. The root's group is set if the configuration says
//! so. This room may look at the clock; everything but `main` and [`watchdog`] takes it as an argument.

#![forbid(unsafe_code)]

mod check;
mod config;
mod endpoint;
mod error;
mod journal;
mod metrics;
mod placement;
mod plan;
mod restore;
mod run;
mod setup;
#[cfg_attr(not(feature = "simulate"), path = "not_simulated.rs")]
mod simulate;
mod undecided;
mod verify;
pub mod watchdog;

pub use config::{CoreGroupSpec, DaemonConfig, DaemonPolicyKind, IoWaysBackend, Role};
pub use endpoint::serve;
pub use error::DaemonError;
pub use journal::{Journal, JournalEntry, StateFolder};
pub use metrics::{Circumstances, Metrics};
pub use plan::{WritePlan, plan};
pub use restore::{RestoreReport, restore};
pub use run::{Daemon, Guarded, IntervalStep, LoopEnd};
pub use setup::{DaemonSetup, Parts, sources};
pub use simulate::{MadeMachine, SimulateArguments};
pub use undecided::Undecided;
pub use verify::{Effect, Stopped, Verified, VerifySpec};
