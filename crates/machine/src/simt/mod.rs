//! A GPU whose warps process packets, beside a CPU on the same memory: Hermes, and the system of batches that it
//! is compared with.
//!
//! Recorded streams of packet functions, one a lane, become programs of a warp ([`merge`]): lanes that stand at
//! the same place go together, the others wait. Shader cores ([`core`]) issue the instructions of their resident
//! warps in turn over one memory system ([`memory`]). [`hermes`] feeds them: packets, task FIFO, adaptive issue of
//! warps, delay commit queue ([`dcq`]), packet buffer. [`batch`] feeds them over PCIe, a batch at a time.
//!
//! **Left out**: instruction fetch, constant and texture caches, bank conflicts of shared memory, the topology of
//! the interconnection network (a latency and a port a core stand for it), limits of outstanding misses, the CPU's
//! own work.
//!
//! **Source**: Zhu, Deng, Chen, "Hermes: an integrated CPU/GPU microarchitecture for IP routing", DAC 2011; pipeline
//! and memory system after Bakhoda, Yuan, Fung, Wong, Aamodt, "Analyzing CUDA workloads using a detailed GPU
//! simulator", ISPASS 2009, which the paper was simulated on.

mod backing;
pub mod batch;
mod controllers;
pub mod core;
pub mod dcq;
pub mod dispatcher;
pub mod hermes;
pub mod kernel;
pub mod lane;
mod later;
pub mod memory;
pub mod merge;
pub mod outcome;
mod persistent;
mod spec;

pub use self::core::{Deadlock, FinishedWarp, Shaders};
pub use backing::{Coming, OwnMemory, SharedAnswer, SimtBacking};
pub use batch::{BatchSpec, Overlap};
pub use dcq::{DcqSpec, DelayCommitQueue};
pub use dispatcher::{Dispatcher, DispatcherSpec};
pub use hermes::{HermesSpec, WarpTimeout};
pub use kernel::{Kernel, KernelStep};
pub use lane::{LaneOp, LaneRecorder, Lanes, OpKind};
pub use memory::{Sectors, SimtMemory, SimtMemoryCounters};
pub use merge::{Code, Inst, MEMBERS, MergeError, Merger, SITES_A_MEMBER, WARP, WarpOperation, WarpPlacement};
pub use outcome::{DelayPart, MemberShare, PacketArrival, SimtOutcome, WarpRecord};
pub use persistent::PersistentKernel;
pub use spec::{CacheLevelSpec, KernelSpec, MemoryOrder, Scheduler, SimtMemorySpec, SimtSpec};
