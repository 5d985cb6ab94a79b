//! A router that runs: packets from a source through packet functions to a sink, on CPU threads or on a GPU.
//!
//! - A [`Backend`] takes tasks of up to 32 packets and commits them: [`CpuThreads`] with the packet functions of `functions`, a
//!   [`Persistent`] kernel on a [`KernelMachine`], or a kernel a batch ([`cuda::KernelBatch`]).
//! - A [`KernelMachine`] is a place where the kernels of `kernels/` run: a GPU ([`cuda::Gpu`]), or threads of this host
//!   ([`Twin`]), compiled from the same source.
//! - A [`SplitBackend`] is several backends, and gives batches to the one that is expected to be done sooner.
//! - [`protocol`] is how tasks reach workers and come back in order: the task FIFO and the delay commit queue of Hermes.
//! - [`updates`] is how routes change while packets go through a kernel; [`CpuThreads::replace`] is for threads.
//! - [`route()`] connects a [`FrameSource`](source::FrameSource), a backend and a [`FrameSink`](sink::FrameSink), and measures.
//!
//! Left out: IP options beyond their checksum, ICMP errors.
//!
//! **Source**: Y. Zhu, Y. Deng, Y. Chen, "Hermes: An Integrated CPU/GPU Microarchitecture for IP Routing", DAC 2011. What it
//! proposed as hardware, a task FIFO, warps of 32 packets and in-order commit, is built here on a kernel that stays.

#[cfg(target_os = "linux")]
mod affinity;
pub mod backend;
pub mod bench;
pub mod completion;
pub mod cuda;
pub mod delay;
mod error;
#[cfg(target_os = "linux")]
mod interface;
pub mod layout;
pub mod lowering;
pub mod machine;
pub mod memory;
pub mod persistent;
pub mod program;
pub mod protocol;
pub mod route;
pub mod setup;
pub mod sink;
pub mod source;
pub mod split;
pub mod updates;
mod worker;
#[cfg(target_os = "linux")]
mod xdp;

pub use backend::{Backend, Commit, Committed, CpuThreads};
pub use completion::RunToCompletion;
pub use error::RouterError;
pub use lowering::Lowering;
pub use machine::{KernelMachine, Twin};
pub use persistent::{Persistent, RoundTasks};
pub use program::RouterProgram;
pub use route::{RouteOptions, RouteReport, route};
pub use split::SplitBackend;
