//! Packets on a GPU: points in as JSON, outcomes back as they finish.

use pyo3::prelude::*;
use sim::ScenarioError;
use studies::simt::point::Workloads;
use studies::simt::{HermesPreset, SimtPoint};

use super::{InputError, error, json_of, pool};

/// A shipped GPU with how Hermes and batches feed it, as JSON.
#[pyfunction]
pub(crate) fn gpu_preset(name: &str) -> PyResult<String> {
    json_of(&HermesPreset::named(name).map_err(error)?)
}

/// Simulates points (JSON: workload, gpu, system, load, arrivals, packets, runs, seed) on `threads` threads. `done` is called with
/// place and outcome (JSON: measures with value and half-width) of each as it finishes, in any order. All are judged before any
/// is run; points with the same workload and seed share it.
#[pyfunction]
#[pyo3(signature = (points, done, threads=None))]
pub(crate) fn run_simt(py: Python<'_>, points: Vec<String>, done: Py<PyAny>, threads: Option<usize>) -> PyResult<()> {
    let at = |place: usize, of: usize, e: &ScenarioError| {
        InputError::new_err(if of > 1 { format!("points[{place}]: {e}") } else { e.to_string() })
    };
    let read = |(place, text): (usize, &String)| SimtPoint::read(text).map_err(|e| at(place, points.len(), &e));
    let parsed: Vec<SimtPoint> = points.iter().enumerate().map(read).collect::<PyResult<_>>()?;
    let shared = Workloads::default();
    let run = |point: &SimtPoint, go_on: &mut dyn FnMut() -> bool| {
        Ok(point.run(&shared, go_on)?.map(|outcome| outcome.to_string()))
    };
    pool::each(py, &parsed, &done, threads, run, at)
}
