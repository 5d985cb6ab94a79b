//! Closed forms, predictions and workloads of copies: JSON in, JSON out.

use pyo3::prelude::*;
use queueing::{BusSystem, EquationReading, MemoryModel, PriorityClass, QueueError, ServiceVariability, Station};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{InputError, PyScenario, error, interruptible};

/// A closed form and its parameters.
#[derive(Deserialize)]
#[serde(tag = "model", rename_all = "lowercase", deny_unknown_fields)]
enum Question {
    Mm1 { lambda: f64, mu: f64 },
    Md1 { lambda: f64, mu: f64 },
    Mg1 { lambda: f64, mu: f64, scv: f64 },
    Mmc { lambda: f64, mu: f64, servers: u32 },
    Mmck { lambda: f64, mu: f64, servers: u32, capacity: u32 },
    Priority { classes: Vec<(f64, f64, f64)>, preemptive: bool },
    Mmcpriority { lambdas: Vec<f64>, mu: f64, servers: u32 },
    Mva { stations: Vec<(f64, u32)>, customers: u32, approximate: bool },
    Memory(MemoryQuestion),
}

/// The memory model: table 6 of the paper with what is given in its place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryQuestion {
    reading: String,
    multi: bool,
    exponential: bool,
    #[serde(default)]
    parameters: std::collections::BTreeMap<String, f64>,
}

/// Solves a closed form; JSON to JSON.
#[pyfunction]
pub(crate) fn queueing_model(question: &str) -> PyResult<String> {
    let question: Question = serde_json::from_str(question).map_err(|e| InputError::new_err(e.to_string()))?;
    if let Question::Memory(asked) = &question {
        asked.check().map_err(InputError::new_err)?;
    }
    Ok(answer(question).map_err(|e| InputError::new_err(e.to_string()))?.to_string())
}

fn answer(question: Question) -> Result<Value, QueueError> {
    let open = |q: queueing::OpenQueue| json!({"rho": q.rho, "w_q": q.w_q, "w": q.w, "l_q": q.l_q, "l": q.l});
    let waits =
        |all: Vec<queueing::PriorityWaits>| all.iter().map(|w| json!({"w_q": w.w_q, "w": w.w, "l": w.l})).collect();
    Ok(match question {
        Question::Mm1 { lambda, mu } => open(queueing::mm1(lambda, mu)?),
        Question::Md1 { lambda, mu } => open(queueing::md1(lambda, mu)?),
        Question::Mg1 { lambda, mu, scv } => open(queueing::mg1(lambda, mu, scv)?),
        Question::Mmc { lambda, mu, servers } => open(queueing::mmc(lambda, mu, servers)?),
        Question::Mmck { lambda, mu, servers, capacity } => {
            let q = queueing::mmck(lambda, mu, servers, capacity)?;
            json!({"rho": q.rho, "blocking": q.blocking, "w_q": q.w_q, "w": q.w, "l": q.l})
        }
        Question::Priority { classes, preemptive } => {
            let classes: Vec<PriorityClass> =
                classes.into_iter().map(|(lambda, mu, scv)| PriorityClass { lambda, mu, scv }).collect();
            let solve = if preemptive { queueing::mg1_preemptive } else { queueing::mg1_priority };
            waits(solve(&classes)?)
        }
        Question::Mmcpriority { lambdas, mu, servers } => waits(queueing::mmc_priority(&lambdas, mu, servers)?),
        Question::Mva { stations, customers, approximate } => {
            let stations: Vec<Station> =
                stations.into_iter().map(|(demand, servers)| Station { demand, servers }).collect();
            let closed = if approximate {
                queueing::mva_approximate(&stations, customers.into())?
            } else {
                queueing::mva(&stations, customers)?
            };
            json!({"throughput": closed.throughput, "cycle": closed.cycle, "residence": closed.residence,
                   "l": closed.l, "rho": closed.rho})
        }
        Question::Memory(asked) => memory(&asked)?,
    })
}

const READINGS: [&str; 2] = ["as-printed", "fitted"];
const PARAMETERS: [&str; 14] =
    ["cpi_inf", "t_cpu", "mr1", "mr2", "s_2", "s_main", "hro1", "fe", "co", "te", "cpus", "l1_line", "l2_line", "cpi"];

impl MemoryQuestion {
    fn check(&self) -> Result<(), String> {
        if !READINGS.contains(&self.reading.as_str()) {
            return Err(format!("memory: reading `{}`: allowed are {}", self.reading, READINGS.join(" and ")));
        }
        match self.parameters.keys().find(|name| !PARAMETERS.contains(&name.as_str())) {
            Some(name) => Err(format!("memory: no parameter `{name}`: allowed are {}", PARAMETERS.join(", "))),
            None => Ok(()),
        }
    }
}

fn memory(asked: &MemoryQuestion) -> Result<Value, QueueError> {
    let mut model = match asked.reading.as_str() {
        "fitted" => MemoryModel::fitted(),
        _ => MemoryModel::as_printed(),
    };
    let mut cpi = None;
    for (name, &value) in &asked.parameters {
        let place = match name.as_str() {
            "cpi_inf" => &mut model.cpi_inf,
            "t_cpu" => &mut model.t_cpu,
            "mr1" => &mut model.mr1,
            "mr2" => &mut model.mr2,
            "s_2" => &mut model.s_2,
            "s_main" => &mut model.s_main,
            "hro1" => &mut model.hro1,
            "fe" => &mut model.fe,
            "co" => &mut model.co,
            "te" => &mut model.te,
            "cpus" => &mut model.cpus,
            "l1_line" => &mut model.l1_line,
            "l2_line" => &mut model.l2_line,
            // Other names were an error before.
            _ => cpi.insert(0.0),
        };
        *place = value;
    }
    let system = if asked.multi { BusSystem::Multi } else { BusSystem::Single };
    let service = if asked.exponential { ServiceVariability::Exponential } else { ServiceVariability::Fixed };
    let found = match cpi {
        Some(cpi) => model.at(system, service, cpi)?,
        None => model.solve(system, service)?,
    };
    let servers: Vec<Value> =
        found.servers.iter().map(|s| json!({"name": s.name, "u": s.u, "t": s.t, "q": s.q})).collect();
    let reading = if model.reading == EquationReading::Fitted { "fitted" } else { "as-printed" };
    Ok(json!({"reading": reading, "cpi": found.cpi, "fcp": found.fcp, "t_total": found.t_total,
              "evaluations": found.evaluations, "servers": servers}))
}

/// Runs a workload of copies; JSON to JSON.
#[pyfunction]
pub(crate) fn run_copies(py: Python<'_>, experiment: String) -> PyResult<String> {
    let found = interruptible(py, None, move || studies::copies::run_json(&experiment))?;
    Ok(found.map_err(error)?.to_string())
}

/// What packets take on a scenario's machine: measured once, for predictions under any load.
#[pyclass(name = "Profile", frozen, module = "wirespeed._wirespeed")]
pub(crate) struct PyProfile {
    measured: sim::run::predict::Profile,
}

#[pymethods]
impl PyProfile {
    #[new]
    fn new(py: Python<'_>, scenario: &PyScenario) -> PyResult<PyProfile> {
        let scenario = scenario.resolved.clone();
        let measured = interruptible(py, None, move || {
            let loaded = sim::run::predict::load_one(&scenario)?;
            sim::run::predict::Profile::new(&scenario, &loaded)
        })?;
        Ok(PyProfile { measured: measured.map_err(error)? })
    }

    /// Predicts under the scenario's load, or under a share of the line rate; JSON.
    #[pyo3(signature = (load=None))]
    fn predict(&self, load: Option<f64>) -> PyResult<String> {
        Ok(self.measured.predict(load).map_err(error)?.to_string())
    }
}
