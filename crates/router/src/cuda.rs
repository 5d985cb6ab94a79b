//! Kernels on a GPU.
//!
//! - [`Gpu`] is a [`KernelMachine`](crate::KernelMachine): the persistent kernel on packets in pinned host memory (zero copy), or in the
//!   GPU's own memory (resident), which is what an integrated chip or a NIC that writes to the GPU would give.
//! - [`KernelBatch`] is the baseline: a kernel a batch, copied there and back; one batch at a time, three streams, or a graph.
//! - [`GatheredBatch`] is the same with copies of only what the function reads.
//!
//! The driver is loaded at run time ([`LIBRARY`]); the kernels are shipped as PTX, which it compiles for the GPU it finds.
//! Before a kernel stays everything is allocated and loaded: later calls could wait for it for ever.
//!
//! Run on an H100 by `make bench-gpu`; tests go as far as a made driver that runs the kernels of this host
//! (`tests/suite/cuda.rs`).

mod batch;
mod driver;
mod gather;
mod gpu;
mod link;

pub use batch::{BatchMode, KernelBatch};
pub use driver::{LIBRARY, NEEDED};
pub use gather::GatheredBatch;
pub use gpu::{Gpu, GpuContext, GpuSpec, Offer, PacketPlacement, probe};
pub use link::{LinkTimes, measure_link};

/// The kernels as PTX, made by `nvcc` of CUDA 13.0 from `kernels/router.cu` and told to be of ISA 8.0: see `tests/house/kernels.py`.
pub const PTX: &str = include_str!("../kernels/router.ptx");
