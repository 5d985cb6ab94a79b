//! LLC slices over stacked DRAM: points in as JSON, outcomes back as they finish.

use pyo3::prelude::*;
use sim::slices::{Point, SlicesError, SlicesSpec};

use super::{InputError, json_of, pool};

fn error(place: usize, of: usize, e: &SlicesError) -> PyErr {
    InputError::new_err(if of > 1 { format!("points[{place}]: {e}") } else { e.to_string() })
}

/// The default setting as JSON, or the given text (TOML or JSON) with everything filled in and checked.
#[pyfunction]
#[pyo3(signature = (text=None))]
pub(crate) fn slices_spec(text: Option<&str>) -> PyResult<String> {
    let spec = match text {
        None => SlicesSpec::default(),
        Some(text) => SlicesSpec::read(text).map_err(|e| error(0, 1, &e))?,
    };
    json_of(&spec)
}

/// Simulates points (JSON: spec, seed, runs) on `threads` threads. `done` is called with place and outcome (JSON) of each as
/// it finishes, in any order. All are judged before any is run.
#[pyfunction]
#[pyo3(signature = (points, done, threads=None))]
pub(crate) fn run_slices(py: Python<'_>, points: Vec<String>, done: Py<PyAny>, threads: Option<usize>) -> PyResult<()> {
    let read = |(place, text): (usize, &String)| Point::read(text).map_err(|e| error(place, points.len(), &e));
    let parsed: Vec<Point> = points.iter().enumerate().map(read).collect::<PyResult<_>>()?;
    let run = |point: &Point, go_on: &mut dyn FnMut() -> bool| {
        let outcome = point.run(&[], &mut || go_on())?;
        Ok(outcome.and_then(|outcome| serde_json::to_string(&outcome).ok()))
    };
    pool::each(py, &parsed, &done, threads, run, error)
}
