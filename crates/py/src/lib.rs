//! The compiled half of the Python package: scenarios are judged, traffic is read and machines run
//! here. Text in, JSON and Arrow out.

mod host;
mod host_loops;
mod leakage;
mod memory;
mod models;
mod netproc;
mod papers;
mod pool;
mod recording;
mod router;
mod simt;
mod slices;
mod warm_folder;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyError, PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use sim::scenario::{KINDS, find, known};
use sim::{Overrides, Progress, RateSearch, RunOptions, RunResult, RunTables, ScenarioError, TABLES};

use crate::warm_folder::WarmFolder;

create_exception!(_wirespeed, InputError, PyValueError, "Input that cannot be used: what came, what is allowed.");

/// Between two calls of a progress callback.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// The commit of this build.
const COMMIT: &str = match option_env!("WIRESPEED_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

fn error(e: ScenarioError) -> PyErr {
    match e {
        ScenarioError::Output { .. } => PyOSError::new_err(e.to_string()),
        ScenarioError::Stopped { .. } => PyKeyboardInterrupt::new_err(e.to_string()),
        _ => InputError::new_err(e.to_string()),
    }
}

/// A panic is a bug here, never the input's fault: it is told as such, and Python goes on.
fn bug(panic: Box<dyn Any + Send>) -> PyErr {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    PyRuntimeError::new_err(format!("a bug in wirespeed {}: {text}", sim::answer::summary::VERSION))
}

/// The version of the package.
#[pyfunction]
fn version() -> &'static str {
    sim::answer::summary::VERSION
}

/// What the time of packets is charged to, in the order in which a packet meets it, with what of the machine that is.
#[pyfunction]
fn reasons() -> Vec<(&'static str, &'static str)> {
    sim::answer::summary::reasons()
}

/// The commit of this build, or "unknown".
#[pyfunction]
fn commit() -> &'static str {
    COMMIT
}

/// What cannot be on one machine, as JSON: pairs of settings, each with its reason.
#[pyfunction]
fn exclusions() -> String {
    sim::Scenario::exclusions()
}

/// The JSON Schema of a scenario.
#[pyfunction]
fn schema() -> String {
    sim::Scenario::schema()
}

/// The JSON Schema of a run's summary.
#[pyfunction]
fn summary_schema() -> String {
    sim::answer::summary::schema()
}

/// Mbufs of a pool of which no driver ever finds it empty, a power of two. `receiving` are those of the `cores` that have a
/// receive ring, or one for all with `rings=1`, and `queue` is what a software queue of each of the others holds.
///
/// # Errors
/// InputError: more mbufs than there are numbers.
#[pyfunction]
#[pyo3(signature = (*, cores, receiving, ports, rx_descriptors, tx_descriptors, burst, cache, queue, rings=None, arrivals=0, offloaded=0))]
#[allow(clippy::too_many_arguments, reason = "Python gives each by its name")]
fn pool_of(
    cores: u32,
    receiving: u32,
    ports: u32,
    rx_descriptors: u32,
    tx_descriptors: u32,
    burst: u32,
    cache: u32,
    queue: u32,
    rings: Option<u32>,
    arrivals: u32,
    offloaded: u32,
) -> PyResult<u64> {
    let rings = rings.unwrap_or(receiving);
    let holders = sim::scenario::Holders {
        cores,
        receiving,
        rings,
        ports,
        rx_descriptors,
        arrivals,
        tx_descriptors,
        burst,
        cache,
        queue,
        offloaded,
    };
    let too_many =
        || InputError::new_err("mempool.size: more mbufs than there are numbers (have fewer or shorter rings)");
    holders.pool().ok_or_else(too_many)
}

/// Paths of the settings of a scenario that may name files.
#[pyfunction]
fn file_settings() -> Vec<&'static str> {
    sim::scenario::files::FILES.iter().map(|setting| setting.path).collect()
}

/// Refuses a mask of ways that is written as a number in `text`, which is TOML.
///
/// # Errors
/// InputError: the first such setting.
#[pyfunction]
fn refuse_counted_masks(text: &str, origin: &str) -> PyResult<()> {
    sim::scenario::refuse_counted_masks(text, origin).map_err(|e| InputError::new_err(e.to_string()))
}

/// Shipped files of traffic: name and text.
fn traffic_presets() -> impl Iterator<Item = (&'static str, &'static str)> {
    traffic::SHIPPED_PROFILES.iter().copied()
}

/// What is shipped: kind, name and title.
#[pyfunction]
fn presets() -> Vec<(&'static str, &'static str, String)> {
    let title = |text: &'static str| text.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']).to_string();
    let of_a_scenario =
        KINDS.iter().flat_map(|(kind, list)| list.iter().map(|p| (*kind, p.name, p.title().to_string())));
    let traffic = traffic_presets().map(|(name, text)| ("traffic", name, title(text)));
    let dram = studies::memory::standards().map(|(name, standard)| ("dram", name, standard.source));
    let cube = "HMC specification 2.1: a cube of 8 GiB, links and crossbar before the vaults of hmc-2.1-vault";
    let dram = dram.chain([("dram", studies::memory::CUBE, cube.to_string())]);
    let gpus = studies::simt::PRESETS.iter().map(|p| ("gpu", p.name, title(p.text)));
    let processors = studies::netproc::processor::PRESETS.iter().map(|p| ("microengines", p.name, title(p.text)));
    of_a_scenario.chain(traffic).chain(dram).chain(gpus).chain(processors).collect()
}

/// The TOML text of a shipped file.
#[pyfunction]
fn preset(kind: &str, name: &str) -> PyResult<String> {
    if kind == "dram" && name == studies::memory::CUBE {
        let cube = studies::memory::shipped_cube();
        return toml::to_string(&cube).map_err(|e| PyRuntimeError::new_err(e.to_string()));
    }
    if kind == "dram" {
        let standard = studies::memory::standard(name, None).map_err(error)?;
        return toml::to_string(&standard).map_err(|e| PyRuntimeError::new_err(e.to_string()));
    }
    let shipped = |list: &'static [sim::scenario::Preset]| {
        let names: Vec<&str> = list.iter().map(|p| p.name).collect();
        (find(list, name).map(|p| p.text), names)
    };
    let (text, names) = match kind {
        "gpu" => shipped(studies::simt::PRESETS),
        "microengines" => shipped(studies::netproc::processor::PRESETS),
        "traffic" => (
            traffic_presets().find(|(n, _)| *n == name).map(|(_, text)| text),
            traffic_presets().map(|(name, _)| name).collect(),
        ),
        _ => match KINDS.iter().find(|(known, _)| *known == kind) {
            Some((_, list)) => shipped(list),
            None => {
                let kinds = KINDS.map(|(kind, _)| kind).join(", ");
                return Err(InputError::new_err(format!(
                    "kind {kind:?}: allowed are {kinds}, traffic, dram, gpu and microengines"
                )));
            }
        },
    };
    text.map(str::to_string)
        .ok_or_else(|| InputError::new_err(format!("{kind} {name:?}: no such preset: {}", known(&names, name))))
}

/// Reads a scenario. Files in it become absolute, so that what is written runs anywhere.
fn read(text: &str, origin: &str, overrides: Overrides) -> PyResult<sim::Scenario> {
    let mut scenario = sim::Scenario::read(text, origin, &overrides).map_err(error)?;
    scenario.rename_files(|_, path| std::path::absolute(path).ok());
    Ok(scenario)
}

fn search_of(name: Option<&str>) -> PyResult<Option<RateSearch>> {
    match name {
        None => Ok(None),
        Some("ndr") => Ok(Some(RateSearch::Ndr)),
        Some("pdr") => Ok(Some(RateSearch::Pdr)),
        Some(other) => Err(InputError::new_err(format!("search = {other:?}: allowed are ndr and pdr"))),
    }
}

/// A scenario that was found to be sound: its text with the machine's preset, the overrides and the defaults.
#[pyclass(name = "Scenario", frozen, module = "wirespeed._wirespeed")]
struct PyScenario {
    resolved: sim::Scenario,
}

#[pymethods]
impl PyScenario {
    #[new]
    #[pyo3(signature = (text, origin, overrides, *, capture=None, table=None, seed=None, search=None))]
    fn new(
        text: &str,
        origin: &str,
        overrides: Vec<String>,
        capture: Option<PathBuf>,
        table: Option<PathBuf>,
        seed: Option<u64>,
        search: Option<&str>,
    ) -> PyResult<PyScenario> {
        let overrides = Overrides { set: overrides, capture, table, seed, search: search_of(search)? };
        Ok(PyScenario { resolved: read(text, origin, overrides)? })
    }

    /// With everything filled in, as TOML.
    #[getter]
    fn resolved(&self) -> String {
        self.resolved.to_toml()
    }
}

/// What runs loaded, for later ones. With `near` all their machines begin near that of a scenario, which warms up once: once for
/// all processes that give the same folder `kept`.
#[pyclass(name = "Stock", frozen, module = "wirespeed._wirespeed")]
struct PyStock {
    kept: Arc<sim::Stock>,
    near: Option<Arc<sim::Near>>,
    folder: Option<Arc<WarmFolder>>,
}

#[pymethods]
impl PyStock {
    #[new]
    #[pyo3(signature = (near=None, kept=None))]
    fn new(near: Option<PyRef<'_, PyScenario>>, kept: Option<PathBuf>) -> PyStock {
        PyStock::of(Arc::new(sim::Stock::new()), near, kept)
    }

    /// The same inputs, and machines that begin near that of `scenario`.
    #[pyo3(signature = (scenario, kept=None))]
    fn near(&self, scenario: PyRef<'_, PyScenario>, kept: Option<PathBuf>) -> PyStock {
        PyStock::of(self.kept.clone(), Some(scenario), kept)
    }

    /// Files of warm machines that were not used since this was asked last, each with the reason.
    fn refused(&self) -> Vec<String> {
        self.folder.as_ref().map(|folder| folder.refused()).unwrap_or_default()
    }
}

impl PyStock {
    fn of(kept: Arc<sim::Stock>, near: Option<PyRef<'_, PyScenario>>, folder: Option<PathBuf>) -> PyStock {
        // Builds that nothing tells apart would open each other's.
        let folder = folder.filter(|_| !COMMIT.starts_with("unknown"));
        let folder = folder.map(|path| Arc::new(WarmFolder::new(path)));
        let near = near.map(|scenario| sim::Near::new(scenario.resolved.clone()));
        let near = near.map(|near| match folder.clone() {
            Some(folder) => near.kept_in(folder),
            None => near,
        });
        PyStock { kept, near: near.map(Arc::new), folder }
    }
}

/// Runs scenarios, on `threads` threads (as many as there are cores if left out); what they share is loaded once, and
/// what is in `stock` not at all. Ctrl-C ends them early: their results are marked partial then; while loading it is raised. With `same_packets`
/// all are measured from the same packet on. With `lower_loads` runs that lose packets go on at lower loads, for the eye.
#[pyfunction]
#[pyo3(signature = (scenarios, *, threads=None, same_packets=false, lower_loads=false, progress=None, stock=None))]
fn run(
    py: Python<'_>,
    scenarios: Vec<PyRef<'_, PyScenario>>,
    threads: Option<usize>,
    same_packets: bool,
    lower_loads: bool,
    progress: Option<Py<PyAny>>,
    stock: Option<PyRef<'_, PyStock>>,
) -> PyResult<Vec<PyRun>> {
    if threads == Some(0) {
        return Err(InputError::new_err("threads = 0: allowed are 1 and more"));
    }
    let threads = threads.unwrap_or_else(|| RunOptions::default().threads);
    let options = RunOptions { threads, same_packets, lower_loads };
    let scenarios: Vec<sim::Scenario> = scenarios.iter().map(|s| s.resolved.clone()).collect();
    let mut reporter = Reporter { callback: progress, last: None, phase: String::new(), stopped: false, failed: None };
    let (stock, near) = stock.map_or_else(Default::default, |s| (s.kept.clone(), s.near.clone()));
    let finished = py.detach(|| {
        let mut tell = |p: &Progress| reporter.report(p);
        catch_unwind(AssertUnwindSafe(|| sim::run_from(&stock, near.as_deref(), &scenarios, options, &mut tell)))
    });
    if let Some(failed) = reporter.failed {
        return Err(failed);
    }
    let results = finished.map_err(bug)?.map_err(error)?;
    py.detach(|| catch_unwind(AssertUnwindSafe(|| results.into_iter().map(PyRun::new).collect()))).map_err(bug)
}

/// Tells Python where a run is, and the run when to stop.
struct Reporter {
    callback: Option<Py<PyAny>>,
    last: Option<Instant>,
    phase: String,
    stopped: bool,
    /// What the callback raised, if not KeyboardInterrupt.
    failed: Option<PyErr>,
}

impl Reporter {
    /// Whether to go on.
    fn report(&mut self, p: &Progress) -> bool {
        if self.stopped {
            return false;
        }
        if p.phase == self.phase && self.last.is_some_and(|last| last.elapsed() < PROGRESS_EVERY) {
            return true;
        }
        self.phase.clone_from(&p.phase);
        let told: PyResult<()> = Python::attach(|py| {
            py.check_signals()?;
            if let Some(callback) = &self.callback {
                callback.call1(py, (p.phase.as_str(), p.done.min(p.total), p.total, p.note.as_str()))?;
            }
            Ok(())
        });
        self.last = Some(Instant::now());
        if let Err(raised) = told {
            self.stopped = true;
            if !Python::attach(|py| raised.is_instance_of::<PyKeyboardInterrupt>(py)) {
                self.failed = Some(raised);
            }
        }
        !self.stopped
    }
}

/// A run's result.
#[pyclass(name = "Run", frozen, module = "wirespeed._wirespeed")]
struct PyRun {
    summary: serde_json::Value,
    resolved: String,
    partial: bool,
    lower_loads: serde_json::Value,
    tables: RunTables,
    lives: Option<sim::server::lives::Lives>,
}

impl PyRun {
    fn new(mut result: RunResult) -> PyRun {
        let lives = result.measured.lives.take();
        let summary = sim::summary(&result, COMMIT);
        let tables = RunTables::new(&result, &summary);
        let (resolved, lower_loads) = (result.scenario.to_toml(), sim::points(&result.lower_loads));
        PyRun { summary, resolved, partial: result.partial, lower_loads, tables, lives }
    }
}

#[pymethods]
impl PyRun {
    /// The documented summary, as JSON.
    #[getter]
    fn summary_json(&self) -> String {
        self.summary.to_string()
    }

    /// The scenario with everything filled in, as TOML.
    #[getter]
    fn resolved(&self) -> &str {
        &self.resolved
    }

    /// The hash of the resolved scenario, the content of its files, and the version.
    #[getter]
    fn run_id(&self) -> &str {
        self.summary["run_id"].as_str().unwrap_or_default()
    }

    /// Whether the run was stopped before its end.
    #[getter]
    fn partial(&self) -> bool {
        self.partial
    }

    /// What it carries at lower loads as JSON, as points of `curve`; none where nobody asked, and where nothing was lost.
    #[getter]
    fn lower_loads_json(&self) -> String {
        self.lower_loads.to_string()
    }

    /// Lives of packets as JSON, where `run.trace` asks for them; times in picoseconds.
    #[getter]
    fn trace_json(&self) -> PyResult<Option<String>> {
        let told = self.lives.as_ref().map(serde_json::to_string).transpose();
        told.map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }

    /// The table of that name: runs, counters, packets or series.
    fn table(&self, name: &str) -> PyResult<PyTable> {
        let batch = self.tables.get(name);
        let batch =
            batch.ok_or_else(|| PyKeyError::new_err(format!("table {name:?}: there are {}", TABLES.join(", "))))?;
        Ok(PyTable { batch: batch.clone() })
    }

    /// Writes tables, summary and scenario into a folder; returns the files.
    fn write(&self, py: Python<'_>, dir: PathBuf) -> PyResult<Vec<PathBuf>> {
        py.detach(|| self.tables.write(&dir, &self.summary, &self.resolved)).map_err(error)
    }
}

/// A table, read through the Arrow C stream interface.
#[pyclass(name = "Table", frozen, module = "wirespeed._wirespeed")]
struct PyTable {
    batch: RecordBatch,
}

#[pymethods]
impl PyTable {
    /// A stream of one batch; a requested schema is not needed to be met, and is not.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }
}

/// A run, or the folder of one.
#[derive(FromPyObject)]
enum Operand<'py> {
    Run(Bound<'py, PyRun>),
    Folder(PathBuf),
}

impl Operand<'_> {
    fn summary(&self) -> PyResult<serde_json::Value> {
        match self {
            Operand::Run(run) => Ok(run.get().summary.clone()),
            Operand::Folder(folder) => {
                let path = folder.join("summary.json");
                let unusable = |e: &dyn std::fmt::Display| InputError::new_err(format!("{}: {e}", path.display()));
                let text = std::fs::read_to_string(&path).map_err(|e| unusable(&e))?;
                serde_json::from_str(&text).map_err(|e| unusable(&e))
            }
        }
    }
}

/// Compares two runs; JSON.
#[pyfunction]
fn compare(a: Operand, b: Operand) -> PyResult<String> {
    Ok(sim::compare(&a.summary()?, &b.summary()?).map_err(error)?.to_string())
}

/// Works on a thread of its own, so that Ctrl-C is heard meanwhile.
fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (give, take) = channel();
    std::thread::spawn(move || {
        // Nobody takes it if the user has left.
        let _ = give.send(catch_unwind(AssertUnwindSafe(work)));
    });
    let take = Mutex::new(take);
    loop {
        if let Some(progress) = &progress {
            progress.call1(py, ("inspect", 0, 0, ""))?;
        }
        let got = py.detach(|| match take.lock() {
            Ok(take) => take.recv_timeout(PROGRESS_EVERY),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        });
        match got {
            Ok(done) => return done.map_err(bug),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("the reader ended early")),
        }
    }
}

fn json_of(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// Statistics of a capture; JSON.
#[pyfunction]
#[pyo3(signature = (path, progress=None))]
fn inspect(py: Python<'_>, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let file = path.clone();
    let found = interruptible(py, progress, move || traffic::inspect_file(file))?;
    let found = found.map_err(|e| InputError::new_err(e.to_string()))?;
    nothing_usable(&path, found.packets == 0, "packet", &found.damage)?;
    json_of(&found)
}

/// Statistics of a prefix table; JSON.
#[pyfunction]
fn inspect_table(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let file = path.clone();
    let table = interruptible(py, None, move || traffic::Table::open(file))?;
    let table = table.map_err(|e| InputError::new_err(e.to_string()))?;
    nothing_usable(&path, table.routes.is_empty(), "prefix", &table.damage)?;
    let counts = table.counts();
    let lengths = |by_len: &[u64]| -> serde_json::Value {
        let used = by_len.iter().enumerate().filter(|(_, n)| **n > 0);
        used.map(|(len, n)| serde_json::json!({ "length": len, "prefixes": n })).collect()
    };
    let mut value = serde_json::json!({
        "name": path.to_string_lossy(),
        "ipv4": counts.ipv4,
        "ipv6": counts.ipv6,
        "next_hops": counts.next_hops,
        "duplicates": counts.duplicates,
        "ipv4_by_length": lengths(&counts.ipv4_by_len),
        "ipv6_by_length": lengths(&counts.ipv6_by_len),
    });
    for (name, part) in [
        ("format", serde_json::to_value(table.format)),
        ("compression", serde_json::to_value(table.compression)),
        ("damage", serde_json::to_value(&table.damage)),
    ] {
        value[name] = part.map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    }
    Ok(value.to_string())
}

fn nothing_usable(path: &Path, nothing: bool, what: &str, damage: &traffic::Damage) -> PyResult<()> {
    if nothing {
        let message = format!("{}: not a single {what} in it could be used: {damage}", path.display());
        return Err(InputError::new_err(message));
    }
    Ok(())
}

/// The module.
#[pymodule]
mod _wirespeed {
    #[pymodule_export]
    use super::host::survey;
    #[pymodule_export]
    use super::host_loops::{cores, measure_loop, run_loops};
    #[pymodule_export]
    use super::leakage::{balls_into_bins, cyclic_leakage, resq_descriptors};
    #[pymodule_export]
    use super::memory::{PyTrace, dma_reads, memory_curve, simulate_cache, simulate_dram};
    #[pymodule_export]
    use super::models::{PyProfile, queueing_model, run_copies};
    #[pymodule_export]
    use super::netproc::{
        microengines_spec, rows_of_scenario, rows_touched, run_microengines, study_network_processor,
        study_packet_buffers,
    };
    #[pymodule_export]
    use super::papers::{paper_file, paper_files};
    #[pymodule_export]
    use super::recording::describe_recording;
    #[pymodule_export]
    use super::router::{bench_columns, bench_router, probe_gpu, route};
    #[pymodule_export]
    use super::simt::{gpu_preset, run_simt};
    #[pymodule_export]
    use super::slices::{RecordedLookups, preview_slices, run_slices, slices_spec};
    #[pymodule_export]
    use super::{
        InputError, PyRun, PyScenario, PyStock, PyTable, commit, compare, exclusions, file_settings, inspect,
        inspect_table, pool_of, preset, presets, reasons, refuse_counted_masks, run, schema, summary_schema, version,
    };
}
