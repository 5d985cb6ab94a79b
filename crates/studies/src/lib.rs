//! Simulators that never see the server: caches and DRAM on their own, sliced LLCs, network processors, copies, loops of a
//! program, memory under load, and GPUs.

#![forbid(unsafe_code)]

pub mod copies;
pub mod curve;
pub mod dma;
pub mod lookups;
pub mod loops;
pub mod memory;
pub mod netproc;
pub mod simt;
pub mod slices;
