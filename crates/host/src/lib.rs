//! The real machine as types: what sets the ways of its last-level cache, and what counts what happens there.
//!
//! - [`Resctrl`] is the kernel's resctrl: groups, schemata, monitoring, I/O allocation.
//! - [`IoRegister`] is Intel's register of the ways that device writes may fill (MSR 0xC8B).
//! - [`perf`], [`Telemetry`], [`schedstat`] and [`json`] read counters: uncore and core events, DPDK, the scheduler, and
//!   Intel PCM's sensor server.
//! - [`Machine`] joins them into a [`control::Actuator`], and [`survey()`] tells which of them are here.
//!
//! All of them reach the machine through a [`Tree`]: a root folder, or a machine in memory that tests make. Time is an
//! argument everywhere. Left out: L2 allocation beyond reading it, pseudo-locking (a group that is locked is read and
//! never written), and the assignment of monitoring counters (`mbm_assign_mode`).

#![forbid(unsafe_code)]

mod cpu;
mod error;
mod io_ways;
pub mod json;
mod machine;
pub mod perf;
pub mod resctrl;
pub mod schedstat;
mod survey;
mod telemetry;
mod tree;

pub use cpu::{Cpu, CpuList};
pub use error::HostError;
pub use io_ways::{GENERATIONS, Generation, IO_WAYS_MSR, IoRegister, IoWays, generation};
pub use machine::{
    Class, ClassTotals, CoreEvents, FromJson, FromPerf, FromTelemetry, IoBackend, JsonPaths, Machine, Metering,
    PerfEvents, Source, Totals,
};
pub use resctrl::{CbmRule, Mode, Reading, Resctrl, Schemata};
pub use survey::{Finding, PCM_URL, State, Survey, survey};
pub use telemetry::{Port, Telemetry};
pub use tree::{Files, Tree};
