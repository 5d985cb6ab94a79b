//! Points on several threads: outcomes are told as they finish, and Ctrl-C ends all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use super::{PROGRESS_EVERY, bug};

/// Runs every point on `threads` threads (as many as there are cores if [`None`]) and calls `done` with the place and outcome
/// (JSON) of each as it finishes, in any order. `run` gives [`None`] where it was told to stop; `error` gets the place of the
/// point, and how many there are.
pub(super) fn each<P: Sync, E: Send>(
    py: Python<'_>,
    points: &[P],
    done: &Py<PyAny>,
    threads: Option<usize>,
    run: impl Fn(&P, &mut dyn FnMut() -> bool) -> Result<Option<String>, E> + Sync,
    error: impl Fn(usize, usize, &E) -> PyErr,
) -> PyResult<()> {
    let threads = threads.unwrap_or_else(|| sim::RunOptions::default().threads).clamp(1, points.len().max(1));
    let (stop, next) = (AtomicBool::new(false), AtomicUsize::new(0));
    let work = |give: std::sync::mpsc::Sender<_>| {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(point) = points.get(place) else { return };
            let mut go_on = || !stop.load(Ordering::Relaxed);
            let found = catch_unwind(AssertUnwindSafe(|| run(point, &mut go_on)));
            // Nobody takes it once the run was stopped.
            if give.send((place, found)).is_err() || stop.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    let tell = |place: usize, found: std::thread::Result<Result<Option<String>, E>>| -> PyResult<()> {
        let outcome = found.map_err(bug)?.map_err(|e| error(place, points.len(), &e))?;
        let outcome = outcome.ok_or_else(|| PyKeyboardInterrupt::new_err("stopped"))?;
        done.call1(py, (place, outcome))?;
        Ok(())
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
                Ok((place, found)) => tell(place, found),
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
