//! LLC slices over stacked DRAM: points in as JSON, outcomes back as they finish.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use sim::slices::{Outcome, Point, SlicesError, SlicesSpec};

use super::{InputError, PROGRESS_EVERY, bug, json_of};

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
    let threads = threads.unwrap_or_else(|| sim::Options::default().threads).clamp(1, parsed.len().max(1));
    let (stop, next) = (AtomicBool::new(false), AtomicUsize::new(0));
    let work = |give: std::sync::mpsc::Sender<_>| {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(point) = parsed.get(place) else { return };
            let mut go_on = || !stop.load(Ordering::Relaxed);
            let found = catch_unwind(AssertUnwindSafe(|| point.run(&[], &mut go_on)));
            // Nobody takes it once the run was stopped.
            if give.send((place, found)).is_err() || stop.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        let (give, take) = channel();
        for _ in 0..threads {
            let (give, work) = (give.clone(), &work);
            scope.spawn(move || work(give));
        }
        drop(give);
        let take = std::sync::Mutex::new(take);
        let finished = loop {
            let got = py.detach(|| match take.lock() {
                Ok(take) => take.recv_timeout(PROGRESS_EVERY),
                Err(_) => Err(RecvTimeoutError::Disconnected),
            });
            let told = match got {
                Ok((place, found)) => tell(py, &done, place, parsed.len(), found),
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
            };
            if let Err(raised) = told.and_then(|()| py.check_signals()) {
                break Err(raised);
            }
        };
        stop.store(true, Ordering::Relaxed);
        finished
    })
}

type Found = std::thread::Result<Result<Option<Outcome>, SlicesError>>;

fn tell(py: Python<'_>, done: &Py<PyAny>, place: usize, of: usize, found: Found) -> PyResult<()> {
    let outcome = found.map_err(bug)?.map_err(|e| error(place, of, &e))?;
    let outcome = outcome.ok_or_else(|| PyKeyboardInterrupt::new_err("stopped"))?;
    done.call1(py, (place, json_of(&outcome)?))?;
    Ok(())
}
