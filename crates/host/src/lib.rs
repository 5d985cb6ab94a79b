//! The real machine as types: what sets the ways of its last-level cache, and what counts what happens there.
//!
//! - [`Resctrl`] is the kernel's resctrl: groups, schemata, monitoring, I/O allocation.
//! - [`IoRegister`] is Intel's register of the ways that device writes may fill (MSR 0xC8B).
//! - [`perf`], [`Telemetry`], [`schedstat`], [`json`] and [`prometheus`] read counters: uncore and core events, DPDK, the
//!   scheduler, Intel PCM's sensor server, and what programs tell Prometheus.
//! - [`vpp`], [`ethtool`] and [`xdp`] count packets: VPP's statistics segment, drivers' statistics, XDP programs' maps.
//! - [`HostMachine`] joins them into a [`control::Actuator`], and [`survey()`] tells which of them are here.
//!
//! All of them reach the machine through a [`Tree`]: a root folder, or a machine in memory that tests make. Time is an
//! argument everywhere. Left out: L2 allocation beyond reading it, pseudo-locking (a group that is locked is read and
//! never written), and the assignment of monitoring counters (`mbm_assign_mode`). Calls of the kernel without a safe library are
//! in one file (`calls.rs`).

#![deny(unsafe_code)]

mod calls;
mod cpu;
mod error;
pub mod ethtool;
mod http;
mod io_ways;
pub mod json;
mod machine;
pub mod perf;
pub mod prometheus;
pub mod resctrl;
pub mod schedstat;
mod survey;
mod telemetry;
mod tree;
pub mod vpp;
pub mod xdp;

pub use cpu::{CpuIdentity, CpuList, l3_of};
pub use error::HostError;
pub use io_ways::{GENERATIONS, Generation, IO_WAYS_MSR, IoRegister, IoWaysRegister, generation};
pub use machine::{
    ClassTotals, CoreEvents, CounterClaim, CounterSource, DomainWays, DriverCounters, FromBandwidth, FromEthtool,
    FromJson, FromKernel, FromMetrics, FromPerf, FromTelemetry, FromVpp, FromXdp, HostMachine, HostTotals, IoBackend,
    JsonPaths, KernelCounters, MapCounters, Metering, MetricNames, PerfEvents, Placement, ServiceClass, TotalKind,
    counted_twice, within,
};
pub use resctrl::{CbmRule, GroupMode, MonitorReading, Resctrl, Schemata};
pub use survey::{PCM_URL, Support, Survey, SurveyFinding, survey};
pub use telemetry::{PortTotals, Telemetry, core_cycles};
pub use tree::{Files, Tree};
