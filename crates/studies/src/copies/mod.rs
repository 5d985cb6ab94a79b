//! Workloads of copies on a machine with and without a copy table: an experiment in, one JSON document out.
//!
//! | workload | what is copied |
//! |---|---|
//! | [`stream`] | the same array onto the same array, as STREAM does |
//! | [`receive`] | packets from the NIC's buffer to the socket's, and on to the application |
//! | [`vhost`] | packets between a switch's buffers and a guest's, on two CPUs |
//! | [`messages`] | messages between CPUs: send to a shared buffer, receive to one's own |
//!
//! A CPU executes an instruction a clock and waits for each of its loads, as in the paper's simulator. What
//! software does besides copying is given in instructions and in loads and stores of a small working
//! set. Left out: out-of-order execution, branch misses, instruction fetch, and the operating system.
//!
//! Source: Duarte and Wong, IEEE TC 2010, section 5.1.

mod cpu;
mod messages;
mod receive;
mod stream;
mod vhost;

use machine::copy_table::{CopyCosts, CopyCounts, CopyLevel, CopyMethod, CopySystemSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use units::Frequency;

use sim::scenario::ScenarioError;

pub use messages::MessagesSpec;
pub use receive::{NicData, PacketSizes, ReceiveSpec, TcpSegment, segments};
pub use stream::StreamSpec;
pub use vhost::VhostSpec;

/// A machine, who copies, and what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Caches, CPUs, table.
    #[serde(default)]
    pub machine: CopySystemSpec,
    /// What they cost.
    #[serde(default)]
    pub costs: CopyCosts,
    /// Who copies.
    pub method: CopyMethod,
    /// What.
    pub workload: CopyWorkload,
}

/// What is copied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CopyWorkload {
    /// The STREAM copy kernel.
    Stream(StreamSpec),
    /// The receiver's side of TCP/IP.
    Receive(ReceiveSpec),
    /// A virtual switch and a guest.
    Vhost(VhostSpec),
    /// Send and receive between CPUs.
    Messages(MessagesSpec),
}

/// What an experiment took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CopyMeasurement {
    /// Rounds, packets or messages.
    pub items: u64,
    /// CPU clocks from the first to the last.
    pub clocks: u64,
    /// Clocks an item.
    pub clocks_per_item: f64,
    /// Instructions of all CPUs.
    pub instructions: u64,
    /// Copies.
    pub copies: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// Million bytes copied a second.
    pub copied_mb_s: f64,
    /// Share of loads that hit L1.
    pub read_hit: f64,
    /// Share of stores that hit L1.
    pub write_hit: f64,
    /// Memory accesses simulated: loads, stores and lines by the table.
    pub accesses: u64,
    /// What happened in the caches.
    pub counts: CopyCounts,
}

impl CopyMeasurement {
    fn of(cpus: &cpu::Cpus, items: u64) -> CopyMeasurement {
        let counts = *cpus.counts();
        let clocks = cpus.clocks();
        let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
        let seconds = clocks as f64 * cpus.period_s();
        CopyMeasurement {
            items,
            clocks,
            clocks_per_item: share(clocks, items),
            instructions: cpus.instructions,
            copies: cpus.copies,
            bytes: cpus.bytes,
            copied_mb_s: if seconds > 0.0 { cpus.bytes as f64 / seconds / 1e6 } else { 0.0 },
            read_hit: share(counts.load_hits, counts.loads),
            write_hit: share(counts.store_hits, counts.stores),
            accesses: counts.loads + counts.stores + counts.lines_by_table,
            counts,
        }
    }
}

/// Runs an experiment.
///
/// # Errors
/// What is wrong in its machine, and a workload that its machine has too few CPUs for.
///
/// ```
/// use studies::copies::{Experiment, run};
/// let text = r#"{"method": {"by": "table"}, "workload": {"kind": "stream", "rounds": 100}}"#;
/// let experiment: Experiment = serde_json::from_str(text).unwrap();
/// assert_eq!(run(&experiment)?.copies, 100);
/// # Ok::<(), sim::ScenarioError>(())
/// ```
pub fn run(experiment: &Experiment) -> Result<CopyMeasurement, ScenarioError> {
    let level = CopyLevel::new(&experiment.machine, &experiment.costs)?;
    let clock: Frequency = experiment.costs.clock;
    let needs = match &experiment.workload {
        CopyWorkload::Vhost(_) => 2,
        CopyWorkload::Messages(_) => 2,
        _ => 1,
    };
    if experiment.machine.cpus < needs {
        return Err(value("machine.cpus", format!("{}: this workload needs {needs} or more", experiment.machine.cpus)));
    }
    let mut cpus = cpu::Cpus::new(level, experiment.method, clock, experiment.machine.cpus);
    let items = match &experiment.workload {
        CopyWorkload::Stream(spec) => stream::run(spec, &mut cpus)?,
        CopyWorkload::Receive(spec) => receive::run(spec, &mut cpus)?,
        CopyWorkload::Vhost(spec) => vhost::run(spec, &mut cpus)?,
        CopyWorkload::Messages(spec) => messages::run(spec, &mut cpus)?,
    };
    Ok(CopyMeasurement::of(&cpus, items))
}

/// Runs an experiment given as JSON.
///
/// # Errors
/// A text that is no [`Experiment`], with the path of what is wrong; and as [`run`].
pub fn run_json(text: &str) -> Result<Value, ScenarioError> {
    let read = &mut serde_json::Deserializer::from_str(text);
    let experiment: Experiment =
        serde_path_to_error::deserialize(read).map_err(|e| value(&e.path().to_string(), e.inner().to_string()))?;
    serde_json::to_value(run(&experiment)?).map_err(|e| value("result", e.to_string()))
}

fn value(path: &str, message: String) -> ScenarioError {
    ScenarioError::Value { origin: "copies".into(), path: path.into(), message }
}

/// A number of packets or bytes that must not be 0.
fn at_least_one(path: &str, n: u64) -> Result<u64, ScenarioError> {
    if n == 0 { Err(value(path, "0: allowed is 1 or more".into())) } else { Ok(n) }
}
