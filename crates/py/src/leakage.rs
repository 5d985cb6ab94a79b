//! DMA leakage for papers: numbers in, numbers out.

use policy::baseline::Isolated;
use pyo3::prelude::*;
use queueing::{CyclicBuffers, DdioWays};

use crate::InputError;

/// DMA leakage, a share of 0 to 1, by equation 1 of 5GC2ache.
#[pyfunction]
pub fn balls_into_bins(descriptors: f64, packet_bytes: f64, io_bytes: f64) -> PyResult<f64> {
    queueing::balls_into_bins(descriptors, packet_bytes, io_bytes).map_err(|e| InputError::new_err(e.to_string()))
}

/// DMA leakage, a share of 0 to 1, of buffers that come round in a circle through the I/O ways of sets.
#[pyfunction]
pub fn cyclic_leakage(buffers: f64, lines: f64, touched: f64, sets: f64, ways: u32) -> PyResult<f64> {
    let (of, cache) = (CyclicBuffers { buffers, lines, touched }, DdioWays { sets, ways });
    queueing::cyclic_leakage(&of, &cache).map_err(|e| InputError::new_err(e.to_string()))
}

/// The descriptors that ResQ leaves a ring.
#[pyfunction]
pub fn resq_descriptors(io_bytes: u64, packet_bytes: u64) -> u64 {
    Isolated::resq_descriptors(io_bytes, packet_bytes)
}
