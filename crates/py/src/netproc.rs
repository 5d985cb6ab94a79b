//! The network processor of 2003 and DRAM of today: a specification in, JSON out.

use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use sim::ScenarioError;
use studies::netproc::work::NetprocApplication;
use studies::netproc::{processor, rows, study, today};
use units::Size;

use super::{InputError, PyScenario, error, interruptible};

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

/// Rows that the packets of a scenario's server touch, in mbufs and by allocation; JSON.
#[pyfunction]
pub fn rows_of_scenario(py: Python<'_>, scenario: &PyScenario, window: usize, packets: u64) -> PyResult<String> {
    let scenario = scenario.resolved.clone();
    let found = interruptible(py, None, move || {
        let loaded = sim::run::predict::load_one(&scenario)?;
        sim::run::rows::rows(&scenario, &loaded, window, packets, &mut || true)
    })?;
    let found = found.map_err(error)?;
    found.map(|found| found.to_string()).ok_or_else(|| pyo3::exceptions::PyKeyboardInterrupt::new_err("stopped"))
}

/// Runs a network processor: a preset's name or a text with its origin, settings over it, and what goes through it (JSON).
#[pyfunction]
#[pyo3(signature = (origin, text, settings, load))]
pub fn run_microengines(
    py: Python<'_>,
    origin: &str,
    text: Option<&str>,
    settings: Vec<String>,
    load: &str,
) -> PyResult<String> {
    let load: processor::LoadSpec = read(load)?;
    let spec = processor::read(text, origin, &settings, load.application).map_err(error)?;
    done(interruptible(py, None, move || processor::run(&spec, &load, |_, _| true))?)
}

/// A network processor with everything filled in for an application, as TOML.
#[pyfunction]
#[pyo3(signature = (origin, text, settings, application))]
pub fn microengines_spec(
    origin: &str,
    text: Option<&str>,
    settings: Vec<String>,
    application: &str,
) -> PyResult<String> {
    let application: NetprocApplication = read(&serde_json::Value::from(application).to_string())?;
    let spec = processor::read(text, origin, &settings, application).map_err(error)?;
    toml::to_string(&spec).map_err(|e| InputError::new_err(e.to_string()))
}

fn read<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|e| InputError::new_err(e.to_string()))
}

fn done(result: Result<serde_json::Value, ScenarioError>) -> PyResult<String> {
    Ok(result.map_err(error)?.to_string())
}
