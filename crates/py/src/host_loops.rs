//! Loops on one core: measured on this machine, and simulated on a scenario's. JSON in, JSON out.

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

use super::{InputError, PyScenario, error, interruptible};

/// Cores that this process may run on.
#[pyfunction]
pub(crate) fn cores() -> Vec<usize> {
    calibrate::cores()
}

/// Measures a loop on this machine; JSON to JSON.
#[pyfunction]
pub(crate) fn measure_loop(py: Python<'_>, spec: &str) -> PyResult<String> {
    let spec: calibrate::LoopMeasurement =
        serde_json::from_str(spec).map_err(|e| InputError::new_err(e.to_string()))?;
    let found = interruptible(py, None, move || calibrate::measure(&spec))?;
    match found {
        Ok(timing) => serde_json::to_string(&timing).map_err(|e| PyRuntimeError::new_err(e.to_string())),
        Err(e @ calibrate::CalibrateError::Memory { .. }) => Err(PyOSError::new_err(e.to_string())),
        Err(e) => Err(InputError::new_err(e.to_string())),
    }
}

/// Runs loops, a JSON array, on one core of a scenario's machine; a JSON array of what they took.
#[pyfunction]
#[pyo3(signature = (scenario, loops, *, seed=1))]
pub(crate) fn run_loops(py: Python<'_>, scenario: &PyScenario, loops: String, seed: u64) -> PyResult<String> {
    let machine = scenario.resolved.machine.clone();
    let found = interruptible(py, None, move || studies::loops::run_json(&machine, &loops, seed))?;
    Ok(found.map_err(error)?.to_string())
}
