//! A machine for tests: the kernel's resctrl with its rules, errors and texts, the register of device ways, and a plant below
//! them whose occupancy and bandwidth move when masks move.
//!
//! - [`FakeHost`] is the machine. Its parts are [`host::Tree`]s, so the daemon's code runs on it in memory, without a
//!   system call.
//! - `Mounted` (feature `fuse`) shows the same trees to other programs: `wirespeedd` as a process, or Intel's `pqos`.
//! - [`TelemetryServer`] and [`CounterServer`] answer as a DPDK program and Intel PCM's sensor server do.
//! - What runs on it is a [`Plant`]: [`Simulated`], the server of `sim`, or [`MeanField`], a cache in mean field for tests by the
//!   thousand.
//! - [`Faults`] break it: errors of the system, foreign writers, domains that vanish, counters that stick.
//!
//! Left out: L2, code and data prioritisation (CDP), the software controller of bandwidth, the delay of a pseudo-lock, and
//! assignable monitoring counters. Time is an argument: [`FakeHost::advance`].

#![forbid(unsafe_code)]

mod files;
#[cfg(feature = "fuse")]
mod fuse;
mod plant;
mod resctrl;
mod servers;
mod spec;

pub use files::{FakeHost, Faults, FileRoot, FileWrite};
#[cfg(feature = "fuse")]
pub use fuse::Mounted;
pub use plant::{
    HostProgram, MeanField, MeanFieldSpec, MeanFieldWorkload, Plant, PlantError, Simulated, SimulatedSpec, Tenant,
};
pub use resctrl::{FakeResctrl, GroupState, ResctrlSettings};
pub use servers::{CounterServer, TelemetryServer};
pub use spec::{Register, Spec};
