//! LLC slices over stacked DRAM: points in as JSON, outcomes back as they finish.

use std::path::PathBuf;

use pyo3::prelude::*;
use studies::slices::{Lookups, SlicesError, SlicesPoint, SlicesSpec, left_out, preview};

use super::{InputError, PyScenario, error as scenario_error, interruptible, json_of, pool};

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

/// What a scenario's packet function looks up in its tables.
#[pyclass(frozen, module = "wirespeed._wirespeed")]
pub(crate) struct RecordedLookups {
    recording: studies::lookups::LookupRecording,
    /// Names of the files that it was recorded from.
    files: Vec<(&'static str, PathBuf)>,
}

#[pymethods]
impl RecordedLookups {
    /// Records `packets` packets of `scenario`, or as many as there are, in lines of `line_bytes`.
    #[new]
    #[pyo3(signature = (scenario, packets, line_bytes=64))]
    fn new(py: Python<'_>, scenario: &PyScenario, packets: u64, line_bytes: u32) -> PyResult<RecordedLookups> {
        let scenario = scenario.resolved.clone();
        let done = interruptible(py, None, move || {
            let loaded = sim::run::predict::load_one(&scenario)?;
            let files = loaded.inputs.iter().map(|file| (file.kind, PathBuf::from(&file.name))).collect();
            let recording = studies::lookups::record(&scenario, &loaded, packets, line_bytes, &mut || true)?;
            Ok(recording.map(|recording| RecordedLookups { recording, files }))
        })?;
        let recorded = done.map_err(scenario_error)?;
        recorded.ok_or_else(|| pyo3::exceptions::PyKeyboardInterrupt::new_err("stopped"))
    }

    /// What was found, as JSON: packets, lookups of a packet, bytes of a line, lines of the tables, stores, regions, files.
    fn facts(&self) -> PyResult<String> {
        let found = &self.recording;
        json_of(&serde_json::json!({
            "packets": found.packets,
            "without": found.without,
            "per_packet": found.lookups.per_packet(),
            "line_bytes": found.line_bytes,
            "lines": found.lookups.lines(),
            "touched": found.lookups.touched(),
            "stores": found.stores,
            "regions": found.regions.iter().map(|(name, lines)| serde_json::json!({"name": name, "lines": lines})).collect::<Vec<_>>(),
            "files": self.files.iter().map(|(kind, name)| serde_json::json!({"kind": kind, "name": name})).collect::<Vec<_>>(),
        }))
    }
}

fn recorded(lookups: Option<&Py<RecordedLookups>>) -> Option<Lookups> {
    lookups.map(|lookups| lookups.get().recording.lookups.clone())
}

/// Simulates points (JSON: spec, seed, runs) on `threads` threads. `done` is called with place and outcome (JSON) of each as
/// it finishes, in any order. All are judged before any is run. `lookups` replace the first application's table.
#[pyfunction]
#[pyo3(signature = (points, done, threads=None, lookups=None))]
pub(crate) fn run_slices(
    py: Python<'_>,
    points: Vec<String>,
    done: Py<PyAny>,
    threads: Option<usize>,
    lookups: Option<Py<RecordedLookups>>,
) -> PyResult<()> {
    let read = |(place, text): (usize, &String)| SlicesPoint::read(text).map_err(|e| error(place, points.len(), &e));
    let parsed: Vec<SlicesPoint> = points.iter().enumerate().map(read).collect::<PyResult<_>>()?;
    let tables = [recorded(lookups.as_ref())];
    let run = |point: &SlicesPoint, go_on: &mut dyn FnMut() -> bool| {
        let outcome = point.run(&tables, &mut || go_on())?;
        Ok(outcome.and_then(|outcome| serde_json::to_string(&outcome).ok()))
    };
    pool::each(py, &parsed, &done, threads, run, error)
}

/// What closed forms say of a setting (JSON), without simulating it, as JSON: `found`, null of several applications or several
/// packets a core, `left_out`, what they do not know of, and `notes` on the setting.
#[pyfunction]
#[pyo3(signature = (spec, lookups=None))]
pub(crate) fn preview_slices(py: Python<'_>, spec: &str, lookups: Option<Py<RecordedLookups>>) -> PyResult<String> {
    let spec = SlicesSpec::read(spec).map_err(|e| error(0, 1, &e))?;
    let lookups = recorded(lookups.as_ref());
    let is_covered = spec.applications.len() == 1 && spec.outstanding == 1;
    let found = py.detach(|| is_covered.then(|| preview(&spec, lookups.as_ref())).transpose());
    json_of(&serde_json::json!({
        "found": found.map_err(|e| error(0, 1, &e))?,
        "left_out": left_out(&spec, lookups.is_some()),
        "notes": spec.notes(),
    }))
}
