//! The network processor of 2003 and DRAM of today: a specification in, JSON out.

use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use sim::ScenarioError;
use sim::netproc::{rows, study, today};
use units::Size;

use super::{InputError, error, interruptible};

/// Runs of the network processor; JSON in and out.
#[pyfunction]
pub fn study_network_processor(py: Python<'_>, spec: &str) -> PyResult<String> {
    let spec: study::StudySpec = read(spec)?;
    done(interruptible(py, None, move || study::run(&spec, |_, _| true))?)
}

/// Allocators and controllers on DRAM of today; JSON in and out.
#[pyfunction]
pub fn study_packet_buffers(py: Python<'_>, spec: &str) -> PyResult<String> {
    let spec: today::TodaySpec = read(spec)?;
    done(interruptible(py, None, move || today::run(&spec, |_, _| true))?)
}

/// Rows that packets' references touch, by allocation; JSON.
#[pyfunction]
#[pyo3(signature = (traffic, window, packets, row, buffer, seed=0))]
pub fn rows_touched(
    py: Python<'_>,
    traffic: String,
    window: usize,
    packets: u64,
    row: u64,
    buffer: u64,
    seed: u64,
) -> PyResult<String> {
    let (row, buffer) = (Size::from_bytes(row), Size::from_bytes(buffer));
    done(interruptible(py, None, move || rows::rows(&traffic, window, packets, row, buffer, seed))?)
}

fn read<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|e| InputError::new_err(e.to_string()))
}

fn done(result: Result<serde_json::Value, ScenarioError>) -> PyResult<String> {
    Ok(result.map_err(error)?.to_string())
}
