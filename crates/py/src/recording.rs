//! Recorded programs: what a recording holds, as JSON.

use std::path::PathBuf;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use traffic::Stop;

use crate::InputError;

/// What the recording of a program at `path` holds, as JSON.
#[pyfunction]
pub(crate) fn describe_recording(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let found = py.detach(|| sim::load::recorded::describe(&path, &Stop::new()));
    let found = found.map_err(|e| InputError::new_err(e.to_string()))?;
    serde_json::to_string(&found).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}
