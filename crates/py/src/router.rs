//! The router that runs: a specification in, JSON out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};

use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use router::RouterError;
use router::bench::{BenchPoint, BenchSpec};
use router::setup::RouterSpec;

use super::{InputError, PROGRESS_EVERY, bug, interruptible, json_of};

/// What cannot be used is the caller's to change; what breaks while it runs is the machine's, and a bug is ours.
fn error(e: RouterError) -> PyErr {
    let text = e.to_string();
    match e {
        RouterError::File { .. } | RouterError::Interface { .. } | RouterError::QueueThread { .. } => {
            PyOSError::new_err(text)
        }
        RouterError::Protocol { .. } | RouterError::Panicked { .. } | RouterError::QueuePanicked { .. } => {
            PyRuntimeError::new_err(text)
        }
        _ => InputError::new_err(text),
    }
}

/// Routes; JSON in and out. Ctrl-C ends it with what was routed by then; the second one abandons it.
#[pyfunction]
pub fn route(py: Python<'_>, spec: &str) -> PyResult<String> {
    let spec: RouterSpec = serde_json::from_str(spec).map_err(|e| InputError::new_err(e.to_string()))?;
    let stop = Arc::new(AtomicBool::new(false));
    let asked = stop.clone();
    json_of(&until_stopped(py, &stop, move || router::setup::run_until(&spec, &asked))?.map_err(error)?)
}

/// As [`interruptible`], but the first Ctrl-C sets `stop` and is waited for.
fn until_stopped<T: Send + 'static>(
    py: Python<'_>,
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (give, take) = channel();
    std::thread::spawn(move || {
        // Nobody takes it if the user has left.
        let _ = give.send(catch_unwind(AssertUnwindSafe(work)));
    });
    let take = Mutex::new(take);
    loop {
        let got = py.detach(|| match take.lock() {
            Ok(take) => take.recv_timeout(PROGRESS_EVERY),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        });
        match got {
            Ok(done) => return done.map_err(bug),
            Err(RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("the router ended early")),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(e) = py.check_signals()
                    && (stop.swap(true, Ordering::Relaxed) || !e.is_instance_of::<PyKeyboardInterrupt>(py))
                {
                    return Err(e);
                }
            }
        }
    }
}

/// What this machine's GPU offers, under `gpu`, or under `reason` why there is none to be used; JSON.
#[pyfunction]
#[pyo3(signature = (driver=None))]
pub fn probe_gpu(py: Python<'_>, driver: Option<String>) -> PyResult<String> {
    match interruptible(py, None, move || router::cuda::probe(driver.as_deref()))? {
        Ok(offer) => json_of(&serde_json::json!({ "gpu": offer })),
        Err(reason) if reason.is_no_gpu() => json_of(&serde_json::json!({ "gpu": null, "reason": reason.to_string() })),
        Err(e) => Err(error(e)),
    }
}

/// Delay against throughput; JSON in and out. `each` is given each point as JSON as soon as it is there, and ends it by false.
#[pyfunction]
pub fn bench_router(py: Python<'_>, spec: &str, each: Py<PyAny>) -> PyResult<String> {
    let spec: BenchSpec = serde_json::from_str(spec).map_err(|e| InputError::new_err(e.to_string()))?;
    let tell = move |point: &BenchPoint| {
        Python::attach(|py| {
            let told = json_of(point).and_then(|point| each.call1(py, (point,)));
            told.and_then(|go_on| go_on.extract::<bool>(py)).unwrap_or(false)
        })
    };
    json_of(&interruptible(py, None, move || router::bench::bench(&spec, tell))?.map_err(error)?)
}

/// The columns of a benchmark's CSV.
#[pyfunction]
pub fn bench_columns() -> &'static str {
    BenchPoint::COLUMNS
}
