//! The paper's systems by name, and runs of them over seeds.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::Seed;
use machine::buffer::BufferAllocation;
use machine::microengines::{MicroenginesSpec, NetprocOutcome, NetprocWorkload, NetworkProcessor};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use stats::student_quantile;
use units::Size;

use super::traffic::{PacketTrace, wrong};
use super::work::{NetprocApplication, workload};
use sim::ScenarioError;

/// A column of the paper's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PaperColumn {
    /// Odd and even queues, output first, eager precharge, shuffled 2-KiB buffers.
    RefBase,
    /// The same, all row hits.
    RefIdeal,
    /// Read and write queues in turns, lazy precharge, shuffled 2-KiB buffers.
    OurBase,
    /// As `RefBase` with a stack of shuffled cells.
    FAlloc,
    /// As `OurBase` with a linear frontier.
    LAlloc,
    /// As `OurBase` with a piece-wise linear frontier.
    PAlloc,
    /// `PAlloc` with batches of 4.
    Batch,
    /// `Batch` with blocks of 4 cells on the output side.
    Block,
    /// `Block`, all row hits.
    IdealPlus,
    /// `Block` with row prefetch.
    AllPf,
    /// `Batch` with row prefetch.
    PrevPf,
    /// Prefix and suffix caches of 4 cells.
    Adapt,
    /// `Adapt` with row prefetch.
    AdaptPf,
}

/// Numbers that the paper does not give, which are fitted; each is named in the paper's room with what it was
/// fitted on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Nanoseconds for which a cell holds its slot of the transmit FIFO.
    pub drain_ns: u32,
    /// Packets.
    pub in_flight: u32,
    /// Writes of a thread under way.
    pub receive_slots: u32,
}

/// A run that is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetprocRunSpec {
    /// What is measured.
    pub system: PaperColumn,
    /// Internal banks.
    pub banks: u32,
    /// What packets go through.
    #[serde(default)]
    pub application: NetprocApplication,
    /// `edge`, `packmime`, `fixed=64`, a profile, a capture.
    #[serde(default = "edge")]
    pub traffic: String,
    /// The engines' clock.
    #[serde(default = "mhz")]
    pub mhz: u32,
    /// Another batch size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// Another block size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
    /// Another allocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<BufferAllocation>,
    /// The packet buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Size>,
    /// The longest packet the buffer is built for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<Size>,
    /// Other than the application's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<u32>,
}

fn edge() -> String {
    "edge".into()
}

fn mhz() -> u32 {
    400
}

/// Runs over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudySpec {
    /// Fitted numbers.
    pub calibration: Calibration,
    /// The runs.
    pub runs: Vec<NetprocRunSpec>,
    /// Packets of a trace, which is repeated as often as needed.
    #[serde(default = "trace_packets")]
    pub trace_packets: usize,
    /// Packets that leave before anything is measured.
    #[serde(default = "warm_up")]
    pub warm_up: u64,
    /// Packets that are measured.
    #[serde(default = "packets")]
    pub packets: u64,
    /// Runs of each, with seeds of their own.
    #[serde(default = "seeds")]
    pub seeds: u64,
    /// The first seed.
    #[serde(default)]
    pub seed: u64,
    /// References of the window in which rows are counted.
    #[serde(default = "window")]
    pub window: usize,
}

fn trace_packets() -> usize {
    20_000
}
fn warm_up() -> u64 {
    10_000
}
fn packets() -> u64 {
    30_000
}
fn seeds() -> u64 {
    5
}
fn window() -> usize {
    16
}

impl NetprocRunSpec {
    fn ports(&self) -> u32 {
        self.ports.unwrap_or(self.application.ports())
    }

    /// The processor that it stands for.
    pub fn processor(&self, calibration: &Calibration) -> MicroenginesSpec {
        let mut spec = MicroenginesSpec::ixp1200(self.ports()).at(self.mhz);
        spec.sdram.banks = self.banks;
        spec.transmit.drain_ns = calibration.drain_ns;
        spec.in_flight = calibration.in_flight;
        spec.receive_slots = calibration.receive_slots;
        use BufferAllocation::{Cells, Fixed, Linear, Piecewise};
        use PaperColumn::{
            Adapt, AdaptPf, AllPf, Batch, Block, FAlloc, IdealPlus, LAlloc, OurBase, PrevPf, RefBase, RefIdeal,
        };
        let system = self.system;
        spec = match system {
            RefBase | RefIdeal | FAlloc => spec.reference(),
            OurBase => spec.row_aware(Fixed),
            LAlloc => spec.row_aware(Linear),
            _ => spec.row_aware(Piecewise),
        };
        if system == FAlloc {
            spec.buffer.allocation = Cells;
        }
        spec.sdram.all_hits = matches!(system, RefIdeal | IdealPlus);
        spec.sdram.prefetch = matches!(system, AllPf | PrevPf | AdaptPf);
        if matches!(system, Batch | Block | IdealPlus | AllPf | PrevPf) {
            spec.sdram.batch = 4;
        }
        if matches!(system, Block | IdealPlus | AllPf) {
            spec.transmit.block = 4;
        }
        if matches!(system, Adapt | AdaptPf) {
            spec.cache_cells = 4;
        }
        spec.sdram.batch = self.batch.unwrap_or(spec.sdram.batch);
        spec.transmit.block = self.block.unwrap_or(spec.transmit.block);
        if let Some(allocation) = self.allocation {
            spec.buffer.allocation = allocation;
            spec.buffer.shuffled = matches!(allocation, Fixed | Cells);
        }
        spec.buffer.size = self.buffer.unwrap_or(spec.buffer.size);
        spec.buffer.longest = self.longest.unwrap_or(spec.buffer.longest);
        spec
    }
}

/// A workload with a line of what it is made of.
type Made = Arc<(NetprocWorkload, String)>;

/// Runs a study; one object a run, with means over the seeds and half-widths of 95 %.
///
/// # Errors
/// A specification that cannot be, traffic that cannot be read.
pub fn run(spec: &StudySpec, mut progress: impl FnMut(usize, usize) -> bool) -> Result<Value, ScenarioError> {
    if spec.seeds == 0 || spec.packets == 0 {
        return Err(wrong("seeds, packets", &format!("{}, {}", spec.seeds, spec.packets), "1 or more"));
    }
    let mut made: BTreeMap<(String, NetprocApplication, u32, u64), Made> = BTreeMap::new();
    let mut found = Vec::with_capacity(spec.runs.len());
    let total = spec.runs.len() * spec.seeds as usize;
    for (number, run) in spec.runs.iter().enumerate() {
        let mut outcomes = Vec::with_capacity(spec.seeds as usize);
        let mut note = String::new();
        for k in 0..spec.seeds {
            let seed = Seed(spec.seed).child(k).0;
            let key = (run.traffic.clone(), run.application, run.ports(), k);
            let work = match made.get(&key) {
                Some(work) => work.clone(),
                None => {
                    let packets = PacketTrace::parse(&run.traffic)?.packets(spec.trace_packets, seed)?;
                    let work = Arc::new(workload(run.application, run.ports(), &packets)?);
                    made.insert(key, work.clone());
                    work
                }
            };
            note.clone_from(&work.1);
            let mut order = Seed(seed).stream("netproc.buffer");
            let draw = |n: usize| order.random_range(0..n);
            let processor = run.processor(&spec.calibration);
            let mut machine = NetworkProcessor::new(&processor, &work.0, spec.window, draw)?;
            let outcome = machine
                .run(spec.warm_up, spec.packets)
                .map_err(|broken| wrong("microengines.buffer", &broken.to_string(), "cells that somebody has"))?;
            outcomes.push(outcome);
            if !progress(number * spec.seeds as usize + k as usize + 1, total) {
                return Err(ScenarioError::Stopped { during: "study of the network processor".into() });
            }
        }
        let mut all = summary(&run.processor(&spec.calibration), &outcomes, &note);
        all.insert("run".into(), json!(run));
        found.push(all);
    }
    Ok(json!({ "runs": found }))
}

/// What runs of `spec` over seeds measured: means and half-widths of 95 %.
pub(super) fn summary(spec: &MicroenginesSpec, outcomes: &[NetprocOutcome], note: &str) -> Map<String, Value> {
    let of = |value: &dyn Fn(&NetprocOutcome) -> f64| {
        let values: Vec<f64> = outcomes.iter().map(value).collect();
        let (mean, half_width) = interval(&values);
        json!({ "mean": mean, "half_width": half_width })
    };
    let (ins, outs) = (f64::from(spec.input_engines), f64::from(spec.output_engines));
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| all.insert(name.into(), value);
    put("traffic", json!(note));
    put("gbps", of(&|o| o.gbps));
    put("sdram_utilization", of(&|o| o.sdram_utilization));
    put("sdram_idle", of(&|o| o.sdram_idle));
    put("engine_idle", of(&|o| (o.engine_idle[0] * ins + o.engine_idle[1] * outs) / (ins + outs)));
    put("rows_input", of(&|o| o.rows[0]));
    put("rows_output", of(&|o| o.rows[1]));
    put("batch_reads", of(&|o| o.run_bytes[0] / o.transfer_bytes));
    put("batch_writes", of(&|o| o.run_bytes[1] / o.transfer_bytes));
    put(
        "row_hit_rate",
        of(&|o| {
            let hits = o.sdram.reads.row_hits + o.sdram.writes.row_hits;
            hits as f64 / (o.sdram.reads.transfers + o.sdram.writes.transfers).max(1) as f64
        }),
    );
    put("in_flight", of(&|o| o.in_flight));
    put("fragmentation", of(&|o| o.buffer.fragmentation()));
    put("stalls_in_flight", of(&|o| o.stalls[0] as f64));
    put("stalls_memory", of(&|o| o.stalls[1] as f64));
    put("packets", json!(outcomes.iter().map(|o| o.packets).sum::<u64>()));
    all
}

/// The mean, and the half-width of its 95 % interval; none of one value.
pub(crate) fn interval(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (mean, None);
    }
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
    (mean, Some(student_quantile(0.975, n - 1.0) * (variance / n).sqrt()))
}
