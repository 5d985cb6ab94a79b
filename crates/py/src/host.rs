//! The machine that this runs on: what it offers, as JSON.

use std::path::Path;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// What the machine below `root` offers for setting and reading its caches, as JSON.
#[pyfunction]
pub(crate) fn survey(py: Python<'_>, root: &str) -> PyResult<String> {
    let found = py.detach(|| ::host::survey(Path::new(root)));
    serde_json::to_string(&found).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}
