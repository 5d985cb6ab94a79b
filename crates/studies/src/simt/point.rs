//! A point of a figure: one workload, one machine, one load, over seeds; what came of it.

use std::sync::{Arc, Mutex};

use ::traffic::{ArrivalSpec, Blueprint, Load, SourceSpec};
use engine::Seed;
use machine::simt::lane::SECTOR_BYTES;
use machine::simt::outcome::SimtError;
use machine::simt::{
    BatchSpec, DelayPart, HermesSpec, MemberShare, PacketArrival, SimtOutcome, SimtSpec, batch, hermes,
};
use packet::Packet;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::workload::{SimtWorkload, WorkloadSpec};
use super::wrong;
use crate::netproc::study::interval;
use sim::ScenarioError;

/// Who processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SimtSystem {
    /// As packets arrive.
    Hermes(HermesSpec),
    /// In batches over PCIe.
    Batch(BatchSpec),
}

/// What is simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimtPoint {
    /// Functions and packets.
    pub workload: WorkloadSpec,
    /// The GPU.
    pub gpu: SimtSpec,
    /// How it is fed.
    pub system: SimtSystem,
    /// How much arrives.
    pub load: Load,
    /// When.
    pub arrivals: ArrivalSpec,
    /// Packets of a run.
    pub packets: usize,
    /// Runs, each with packets and arrivals of its own.
    pub runs: u64,
    /// The first run's seed comes from this one.
    #[serde(default)]
    pub seed: u64,
}

/// Packets of a run, at most.
const MOST: usize = 1 << 24;

/// What points have in common is recorded once.
#[derive(Debug, Default)]
pub struct Workloads(Mutex<Vec<RecordedPoints>>);

/// What was recorded, by its specification and seed.
type RecordedPoints = ((WorkloadSpec, u64), Arc<SimtWorkload>);

impl Workloads {
    /// Recorded workloads that are kept: those of 1 GiB take as much as all others.
    const KEPT: usize = 64;

    fn get(&self, spec: &WorkloadSpec, seed: u64) -> Result<Arc<SimtWorkload>, ScenarioError> {
        let key = (spec.clone(), seed);
        // Two threads may record the same; who has waited finds it.
        let mut kept = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, found)) = kept.iter().find(|(of, _)| *of == key) {
            return Ok(found.clone());
        }
        let made = Arc::new(SimtWorkload::new(spec, seed)?);
        if kept.len() == Workloads::KEPT {
            kept.remove(0);
        }
        kept.push((key, made.clone()));
        Ok(made)
    }
}

/// A column: its name, and its value of a run.
type Columns = Vec<(&'static str, f64)>;

impl SimtPoint {
    /// Reads a point.
    ///
    /// # Errors
    /// What cannot be, with its path.
    pub fn read(text: &str) -> Result<SimtPoint, ScenarioError> {
        let mut json = serde_json::Deserializer::from_str(text);
        let point: SimtPoint = serde_path_to_error::deserialize(&mut json).map_err(|e| {
            let path = e.path().to_string();
            ScenarioError::Value { origin: "simt".into(), path, message: e.into_inner().to_string() }
        })?;
        point.gpu.check()?;
        point.gpu.resident(&point.workload.kernel)?;
        if !(1..=MOST).contains(&point.packets) {
            return Err(wrong("packets", point.packets, &format!("1 to {MOST}")));
        }
        if !(1..=1000).contains(&point.runs) {
            return Err(wrong("runs", point.runs, "1 to 1000"));
        }
        Ok(point)
    }

    /// Runs it: each measure's mean over the runs and its half-width of 95 %. [`None`] if it was told to stop.
    ///
    /// # Errors
    /// Traffic, functions or machines that cannot be.
    pub fn run(&self, shared: &Workloads, go_on: &mut dyn FnMut() -> bool) -> Result<Option<Value>, ScenarioError> {
        let mut of_runs: Vec<Columns> = Vec::with_capacity(self.runs as usize);
        let mut members: Vec<(&'static str, Vec<Columns>)> = Vec::new();
        let mut notes = Vec::new();
        for run in 0..self.runs {
            let seed = Seed(self.seed).child(run).0;
            let workload = shared.get(&self.workload, seed)?;
            if run == 0 {
                notes.clone_from(&workload.notes);
            }
            let (arrivals, gap) = self.arrivals(&workload, seed)?;
            let outcome = match self.simulate(&workload, &arrivals, gap, go_on) {
                Err(SimtError::Stopped) => return Ok(None),
                Err(SimtError::Machine(e)) => return Err(e.into()),
                Err(e) => return Err(wrong("workload", e, "lanes and warps that do not wait for each other")),
                Ok(outcome) => outcome,
            };
            of_runs.push(self.measures(&workload, &arrivals, &outcome));
            for (number, (name, columns)) in shares(&workload, &outcome).into_iter().enumerate() {
                if members.len() == number {
                    members.push((name, Vec::with_capacity(self.runs as usize)));
                }
                members[number].1.push(columns);
            }
        }
        let mut out = means(&of_runs);
        if !members.is_empty() {
            let member = |(name, columns): &(&'static str, Vec<Columns>)| {
                let mut of = means(columns);
                of.insert("name".into(), json!(name));
                Value::Object(of)
            };
            out.insert("members".into(), members.iter().map(member).collect());
        }
        out.insert("notes".into(), json!(notes));
        Ok(Some(Value::Object(out)))
    }

    fn simulate(
        &self,
        workload: &SimtWorkload,
        arrivals: &[PacketArrival],
        gap: f64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<SimtOutcome, SimtError> {
        let (gpu, kernel, lanes) = (&self.gpu, &self.workload.kernel, &workload.lanes);
        match &self.system {
            SimtSystem::Hermes(spec) => {
                hermes::run(gpu, spec, kernel, lanes, workload.table_sectors, arrivals, gap, go_on)
            }
            SimtSystem::Batch(spec) => batch::run(gpu, spec, kernel, lanes, workload.table_sectors, arrivals, go_on),
        }
    }

    /// Packets as they arrive, and their mean distance at the nominal rate; clocks.
    fn arrivals(&self, workload: &SimtWorkload, seed: u64) -> Result<(Vec<PacketArrival>, f64), ScenarioError> {
        let mean = workload.bytes.iter().map(|&b| f64::from(b)).sum::<f64>() / workload.bytes.len() as f64;
        // Times alone: the frames are the workload's, and so is their mean size, on which a rate in bits depends.
        let of = |bits: f64, bytes: f64| Load::Packets(units::PacketRate::from_mpps(bits * 1e3 / (bytes * 8.0)));
        let load = match self.load {
            Load::L2(rate) => of(rate.gbps(), mean + FCS),
            Load::L1(rate) => of(rate.gbps(), mean + FCS + PREAMBLE_AND_GAP),
            Load::LineShare { share, line } => of(share * line.gbps(), mean + FCS + PREAMBLE_AND_GAP),
            other => other,
        };
        let spec = SourceSpec {
            profile: Some("min64".into()),
            arrivals: Some(self.arrivals.clone()),
            ..SourceSpec::default()
        };
        let own = matches!(load, Load::Timestamps(_)) || self.arrivals == ArrivalSpec::Capture;
        let spec = if own { self.workload.traffic.clone() } else { spec };
        let blueprint = Blueprint::new(&spec, None)?;
        let pps = blueprint.packets_per_second(&load)?;
        let mut source = blueprint.source(Seed(seed).child(1).0, &load)?;
        let period = self.gpu.frequency.period().0;
        let (mut arrivals, mut packet) = (Vec::with_capacity(self.packets), Packet::default());
        while arrivals.len() < self.packets && source.next(&mut packet) {
            let lane = arrivals.len() % workload.bytes.len();
            let (at, bytes) = (packet.arrival.0.div_ceil(period), workload.bytes[lane]);
            arrivals.push(PacketArrival { at, bytes, lane: lane as u32 });
        }
        Ok((arrivals, 1e12 / pps / period as f64))
    }

    fn measures(&self, workload: &SimtWorkload, arrivals: &[PacketArrival], outcome: &SimtOutcome) -> Columns {
        let ns = self.gpu.frequency.period().as_ns();
        let first = arrivals.first().map_or(0, |a| a.at);
        let last = arrivals.last().map_or(0, |a| a.at);
        let bits = |at: &[u32]| at.iter().map(|&n| f64::from(arrivals[n as usize].bytes)).sum::<f64>() * 8.0;
        let all: f64 = arrivals.iter().map(|a| f64::from(a.bytes)).sum::<f64>() * 8.0;
        let carried = bits(&outcome.accepted);
        let span = (outcome.end.saturating_sub(first)) as f64 * ns;
        let offered_span = (last - first) as f64 * ns * arrivals.len() as f64 / (arrivals.len() as f64 - 1.0).max(1.0);
        let (mut delays, mut parts) = (Vec::with_capacity(outcome.accepted.len()), [0u64; 5]);
        // Of each warp or batch what its first packet waits until enough are there.
        let mut first_waits = 0;
        for warp in &outcome.warps {
            first_waits += warp.filled - arrivals[outcome.accepted[warp.first as usize] as usize].at;
            for &n in &outcome.accepted[warp.first as usize..(warp.first + warp.count) as usize] {
                let at = arrivals[n as usize].at;
                delays.push(warp.committed - at);
                parts.iter_mut().zip(warp.parts(at)).for_each(|(sum, part)| *sum += part);
            }
        }
        delays.sort_unstable();
        let count = delays.len().max(1) as f64;
        let mean = delays.iter().sum::<u64>() as f64 / count * ns;
        let quantile = |q: f64| delays.get(((delays.len() as f64 * q) as usize).min(delays.len().saturating_sub(1)));
        let quantile = |q: f64| quantile(q).map_or(f64::NAN, |&d| d as f64 * ns);
        let cores = f64::from(self.gpu.cores);
        let share = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
        let busy = outcome.busy_clocks as f64;
        let l2_sectors = outcome.memory.sectors - outcome.memory.l1_hits;
        let dram_time = busy * ns;
        let mut columns: Columns = vec![
            ("offered_gbps", share(all, offered_span)),
            ("throughput_gbps", share(carried, span)),
            ("throughput_mpps", share(outcome.accepted.len() as f64 * 1e3, span)),
            ("delay_ns", mean),
            ("delay_p50_ns", quantile(0.5)),
            ("delay_p99_ns", quantile(0.99)),
            ("delay_iqr_ns", quantile(0.75) - quantile(0.25)),
            ("first_wait_ns", share(first_waits as f64 * ns, outcome.warps.len() as f64)),
            ("simd_efficiency", outcome.efficiency()),
            ("occupancy", share(outcome.warp_clocks as f64, busy * cores * f64::from(outcome.resident))),
            ("mcw", f64::from(outcome.resident)),
            ("issue_utilization", share(outcome.issued as f64, busy * cores)),
            ("instructions", outcome.instructions as f64),
            ("instructions_per_warp", share(outcome.instructions as f64, outcome.accepted.len() as f64 / 32.0)),
            ("loss_buffer_full", share(outcome.lost.len() as f64, arrivals.len() as f64)),
            ("dropped_by_function", share(workload.dropped as f64, workload.bytes.len() as f64)),
            ("partial_warps", outcome.partial as f64),
            ("most_buffered", f64::from(outcome.most_buffered)),
            ("most_posted", f64::from(outcome.most_posted)),
            ("most_uncommitted", f64::from(outcome.most_uncommitted)),
            ("l2_hit_rate", share(outcome.memory.l2_hits as f64, outcome.memory.l2_loads as f64)),
            ("sectors_per_warp", share(outcome.memory.sectors as f64, outcome.accepted.len() as f64 / 32.0)),
            ("l2_sectors_per_warp", share(l2_sectors as f64, outcome.accepted.len() as f64 / 32.0)),
            ("table_bytes", f64::from(workload.table_sectors) * SECTOR_BYTES as f64),
            ("dram_utilization", share(outcome.dram.bus_busy.as_ns() / dram_channels(&self.gpu), dram_time)),
        ];
        columns.extend(
            DelayPart::ALL.iter().zip(parts).map(|(part, sum)| (PARTS[*part as usize], sum as f64 / count * ns)),
        );
        columns
    }
}

/// The mean of each column over runs, with its half-width.
fn means(of_runs: &[Columns]) -> Map<String, Value> {
    let mut out = Map::new();
    for (place, (name, _)) in of_runs.first().into_iter().flatten().enumerate() {
        let values: Vec<f64> = of_runs.iter().map(|columns| columns[place].1).collect();
        let (mean, half_width) = interval(&values);
        out.insert((*name).into(), json!({ "value": mean, "half_width": half_width }));
    }
    out
}

/// Of a chain what each member takes: its share of the warps' time, and for each 32 packets that were accepted its clocks,
/// instructions, loads and stores, and sectors; and of the packets that came to it. Sums over members are those of the whole.
fn shares(workload: &SimtWorkload, outcome: &SimtOutcome) -> Vec<(&'static str, Columns)> {
    let warps = outcome.accepted.len() as f64 / 32.0;
    let per = |part: u64, of: f64| if of > 0.0 { part as f64 / of } else { 0.0 };
    let nothing = MemberShare::default();
    let member = |(number, &(name, packets, dropped)): (usize, &(&'static str, u64, u64))| {
        // A member to which no packet came has no instruction.
        let of = outcome.members.get(number).unwrap_or(&nothing);
        let columns = vec![
            ("time_share", per(of.warp_clocks, outcome.warp_clocks as f64)),
            ("clocks_per_warp", per(of.warp_clocks, warps)),
            ("instructions_per_warp", per(of.instructions, warps)),
            ("references_per_warp", per(of.references, warps)),
            ("sectors_per_warp", per(of.sectors, warps)),
            ("simd_efficiency", of.efficiency()),
            ("packets_share", per(packets, workload.bytes.len() as f64)),
            ("dropped_share", per(dropped, packets as f64)),
        ];
        (name, columns)
    };
    workload.members.iter().enumerate().map(member).collect()
}

const FCS: f64 = packet::ETHERNET_FCS_BYTES as f64;
/// Preamble and start of frame 8, gap 12 bytes (IEEE 802.3).
const PREAMBLE_AND_GAP: f64 = 20.0;
/// The parts of a delay, in the order of [`DelayPart::ALL`].
const PARTS: [&str; 5] = ["fill_ns", "queue_ns", "copy_in_ns", "execute_ns", "commit_ns"];

fn dram_channels(gpu: &SimtSpec) -> f64 {
    gpu.memory.dram().map_or(1.0, |dram| f64::from(dram.channels))
}
