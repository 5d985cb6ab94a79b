//! Caches and DRAM on their own: arrays or a file in, JSON and arrays out.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::time::{ClockId, clock_gettime};
use sim::ScenarioError;
use studies::memory::{ADDRESSES, CheckedDram, DramSettings, levels};
use traffic::{MOST_REQUESTS, RequestFormat, RequestTrace};
use units::{CLASSES, DEVICE};

use super::{InputError, PyScenario, error, interruptible};

/// A trace of memory requests.
#[pyclass(name = "Trace", frozen, module = "wirespeed._wirespeed")]
pub struct PyTrace {
    requests: Arc<RequestTrace>,
    /// The file that it was read from.
    path: Option<PathBuf>,
}

#[pymethods]
impl PyTrace {
    /// Of arrays, which are copied, so that nobody changes them meanwhile.
    #[new]
    #[pyo3(signature = (addresses, writes=None, clocks=None, io=None, classes=None))]
    fn new(
        py: Python<'_>,
        addresses: &Bound<'_, PyAny>,
        writes: Option<&Bound<'_, PyAny>>,
        clocks: Option<&Bound<'_, PyAny>>,
        io: Option<&Bound<'_, PyAny>>,
        classes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyTrace> {
        let addresses = integers(py, "addresses", addresses)?;
        if addresses.len() > MOST_REQUESTS {
            let came = addresses.len();
            return Err(InputError::new_err(format!("addresses: {came} values: allowed are up to {MOST_REQUESTS}")));
        }
        let small = |name: &str, array: Option<&Bound<'_, PyAny>>| match array {
            None => Ok(Vec::new()),
            Some(array) => {
                let wrong = || InputError::new_err(format!("{name}: must be an array of a byte an address"));
                PyBuffer::<u8>::get(array).map_err(|_| wrong())?.to_vec(py)
            }
        };
        let writes: Vec<bool> = small("writes", writes)?.into_iter().map(|flag| flag != 0).collect();
        let (io, classes) = (small("io", io)?, small("classes", classes)?);
        let clocks = clocks.map_or(Ok(Vec::new()), |clocks| integers(py, "clocks", clocks))?;
        let lengths =
            [("writes", writes.len()), ("clocks", clocks.len()), ("io", io.len()), ("classes", classes.len())];
        for (name, length) in lengths {
            if length != 0 && length != addresses.len() {
                let n = addresses.len();
                return Err(InputError::new_err(format!(
                    "{name}: {length} values for {n} addresses: give one for each"
                )));
            }
        }
        if let Some((i, class)) = classes.iter().enumerate().find(|(_, class)| **class >= CLASSES) {
            let allowed = format!("allowed are 0 to {}, the classes of service (io says what devices do)", CLASSES - 1);
            return Err(InputError::new_err(format!("classes[{i}]: {class}: {allowed}")));
        }
        let mut requests = RequestTrace::new(addresses, writes, clocks);
        requests.origins = classes;
        if !io.is_empty() {
            requests.origins.resize(io.len(), 0);
            requests.origins.iter_mut().zip(io).filter(|(_, io)| *io != 0).for_each(|(by, _)| *by = DEVICE);
        }
        Ok(PyTrace { requests: Arc::new(requests), path: None })
    }

    /// Of a file, in the format of that name, or else in the one that its first line tells.
    #[staticmethod]
    #[pyo3(signature = (path, format=None))]
    fn read(py: Python<'_>, path: PathBuf, format: Option<&str>) -> PyResult<PyTrace> {
        let format = match format {
            None => None,
            Some(name) => Some(RequestFormat::named(name).ok_or_else(|| {
                let names: Vec<&str> = RequestFormat::ALL.iter().map(|f| f.name()).collect();
                InputError::new_err(format!("format = {name:?}: allowed are {}", names.join(", ")))
            })?),
        };
        let file = path.clone();
        let read = interruptible(py, None, move || RequestTrace::open(file, format))?;
        let requests = read.map_err(|e| InputError::new_err(e.to_string()))?;
        Ok(PyTrace { requests: Arc::new(requests), path: Some(path) })
    }

    /// How many requests.
    fn __len__(&self) -> usize {
        self.requests.addresses.len()
    }

    /// The name of the format that it was read in; "binary" of arrays.
    #[getter]
    fn format(&self) -> &'static str {
        self.requests.format.name()
    }

    /// How it was compressed.
    #[getter]
    fn compression(&self) -> &'static str {
        self.requests.compression.name()
    }

    /// Byte addresses, 8 bytes each.
    fn addresses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        bytes(py, &self.requests.addresses)
    }

    /// A byte each, 1 for a store; empty where none is.
    fn writes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let flags: Vec<u8> = self.requests.writes.iter().map(|&write| u8::from(write)).collect();
        PyBytes::new(py, &flags)
    }

    /// When they arrive, 8 bytes each; empty where the trace does not say.
    fn clocks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        bytes(py, &self.requests.clocks)
    }

    /// A byte each: the class of service, or 255 of a device; empty where the trace does not say.
    fn origins<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.requests.origins)
    }

    /// Writes the binary form.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let requests = self.requests.clone();
        let file = path.clone();
        let written = interruptible(py, None, move || {
            let mut out = BufWriter::new(File::create(file)?);
            requests.to_binary(&mut out)?;
            out.flush()
        })?;
        written.map_err(|e| PyOSError::new_err(format!("{}: {e}", path.display())))
    }
}

impl PyTrace {
    /// An error about an address of a file, with the line that it is on.
    fn where_it_is(&self, error: &ScenarioError) -> Option<PyErr> {
        let (ScenarioError::Machine(wrong), Some(path)) = (error, &self.path) else { return None };
        if wrong.path != ADDRESSES {
            return None;
        }
        let (index, address) = wrong.came.strip_prefix('[')?.split_once("] = ")?;
        let format = self.requests.format;
        let line = RequestTrace::line_of(path, format, index.parse().ok()?)?;
        let (path, allowed, remedy) = (path.display(), &wrong.allowed, &wrong.remedy);
        Some(InputError::new_err(format!("{path}:{line}: address {address}: allowed is {allowed} ({remedy})")))
    }
}

/// Runs a trace through a DRAM; JSON, and by request the clock after its last data and the clock in
/// which it was accepted, both as 8 bytes each and empty unless wanted.
#[pyfunction]
#[pyo3(signature = (trace, preset, *, standard=None, map=None, map_file=None, offered=None, queue=None, order=None,
                    writes=None, page=None, refresh=None, channels=None, speed=None, record=false))]
#[expect(clippy::too_many_arguments, reason = "one for each setting of the command line")]
pub fn simulate_dram<'py>(
    py: Python<'py>,
    trace: PyRef<'_, PyTrace>,
    preset: &str,
    standard: Option<&str>,
    map: Option<&str>,
    map_file: Option<&str>,
    offered: Option<&str>,
    queue: Option<u32>,
    order: Option<&str>,
    writes: Option<&str>,
    page: Option<&str>,
    refresh: Option<&str>,
    channels: Option<u32>,
    speed: Option<u32>,
    record: bool,
) -> PyResult<(String, Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let settings =
        DramSettings { preset, standard, map, map_file, offered, queue, order, writes, page, refresh, channels, speed };
    let dram = CheckedDram::new(&settings).map_err(error)?;
    let requests = trace.requests.clone();
    let (done, cpu_s) = interruptible(py, None, move || timed(|| dram.simulate(&requests, record)))?;
    let mut result = done.map_err(|e| trace.where_it_is(&e).unwrap_or_else(|| error(e)))?;
    result.document["cpu_s"] = cpu_s.into();
    let completions = if record { &result.completions[..] } else { &[] };
    Ok((result.document.to_string(), bytes(py, completions)?, bytes(py, &result.accepted)?))
}

/// Runs a trace through a chain of caches; JSON.
#[pyfunction]
#[pyo3(signature = (trace, levels, seed=0, sample=None))]
pub fn simulate_cache(
    py: Python<'_>,
    trace: PyRef<'_, PyTrace>,
    levels: &str,
    seed: u64,
    sample: Option<u64>,
) -> PyResult<String> {
    let chain = self::levels(levels).map_err(|e| error(ScenarioError::Machine(e)))?;
    let requests = trace.requests.clone();
    let simulate = move || match sample {
        Some(one_in) => studies::memory::sample_cache(&chain, &requests, one_in, seed),
        None => studies::memory::simulate_cache(&chain, &requests, seed),
    };
    let (done, cpu_s) = interruptible(py, None, move || timed(simulate))?;
    let mut document = done.map_err(|e| error(ScenarioError::Machine(e)))?;
    document["cpu_s"] = cpu_s.into();
    Ok(document.to_string())
}

/// Bandwidth against latency of a scenario's machine; JSON to JSON.
#[pyfunction]
pub(crate) fn memory_curve(py: Python<'_>, scenario: &PyScenario, spec: String) -> PyResult<String> {
    let machine = scenario.resolved.machine.clone();
    let found = interruptible(py, None, move || studies::curve::run_json(&machine, &spec))?;
    Ok(found.map_err(error)?.to_string())
}

/// What DMA reads take on a scenario's machine; JSON to JSON.
#[pyfunction]
pub(crate) fn dma_reads(py: Python<'_>, scenario: &PyScenario, spec: String) -> PyResult<String> {
    let scenario = scenario.resolved.clone();
    let found = interruptible(py, None, move || studies::dma::run_json(&scenario, &spec))?;
    Ok(found.map_err(error)?.to_string())
}

/// What `work` gives, and the seconds that this thread worked for it.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let before = now();
    let done = work();
    (done, now() - before)
}

/// A copy of an array of integers of 8 bytes.
fn integers(py: Python<'_>, name: &str, array: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    if let Ok(buffer) = PyBuffer::<u64>::get(array) {
        return buffer.to_vec(py);
    }
    let wrong = || InputError::new_err(format!("{name}: must be an array of integers of 8 bytes, such as uint64"));
    let signed = PyBuffer::<i64>::get(array).map_err(|_| wrong())?.to_vec(py)?;
    if let Some(i) = signed.iter().position(|&value| value < 0) {
        return Err(InputError::new_err(format!("{name}[{i}] = {}: allowed are 0 and more", signed[i])));
    }
    Ok(signed.into_iter().map(|value| value as u64).collect())
}

fn bytes<'py>(py: Python<'py>, values: &[u64]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, values.len() * 8, |out| {
        for (out, value) in out.chunks_exact_mut(8).zip(values) {
            out.copy_from_slice(&value.to_ne_bytes());
        }
        Ok(())
    })
}
