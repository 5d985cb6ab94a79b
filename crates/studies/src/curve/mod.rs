//! Bandwidth against latency of a machine's memory: what a dependent load takes on one core while the others stream.
//!
//! One core chases pointers, a load of a random line after the other, each address out of the one before. The other cores
//! read and write lines of their own in order, with a delay behind each line; the shorter it is, the more bandwidth they
//! take. All of them are the machine's own cores over its own [`Hierarchy`], in exact order of time. So measure Mess
//! (Esmaili-Dokht et al., MICRO 2024, "A Mess of Memory System Benchmarking, Simulation and Application Profiling") and
//! Intel's Memory Latency Checker with loaded latency.
//!
//! A share of reads is that of the lines that memory moves, as Mess counts it: a store that misses reads its line and later
//! writes it back. All stores are 50 % reads, and less is not possible without stores past the caches.
//!
//! A latency is measured at three places: at the core, the whole round trip; behind the LLC, without what interconnect, LLC
//! and its queues take; at the controllers, without `machine.dram.overhead` either.
//!
//! Left out: translation (both tools use huge pages), other sockets, devices, stores past the caches.

mod bench;
mod load;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use machine::memory::{Hierarchy, MAX_CORES, MemorySpec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use units::LINE_BYTES;

use bench::{CurveBench, CurveReading};
use load::StreamMix;
use sim::scenario::{MachineSpec, ScenarioError};

/// What is measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CurveSpec {
    /// Cores that stream, 1 to 63; left out, all but one of a core a slice of the LLC, or of `machine.cores` where those
    /// are more.
    pub streams: Option<u32>,
    /// Shares of reads in percent, 50 to 100, each a curve.
    pub reads: Vec<f64>,
    /// Points of a curve, 3 to 100, from idle to the most bandwidth.
    pub points: u32,
    /// Dependent loads measured at a point, 256 to 1,000,000.
    pub accesses: u64,
    /// DRAM answers at once, whatever the machine says.
    pub at_once: bool,
    /// Every random draw follows from it.
    pub seed: u64,
    /// So many points at a time; as many as there are cores when left out. No result depends on it.
    pub threads: Option<usize>,
}

impl Default for CurveSpec {
    fn default() -> CurveSpec {
        CurveSpec {
            streams: None,
            reads: vec![100.0, 50.0],
            points: 12,
            accesses: 2048,
            at_once: false,
            seed: 1,
            threads: None,
        }
    }
}

/// So many times as many loads are measured on an idle machine, where they cost little: refreshes come seldom.
const IDLE: u64 = 16;

/// Runs `spec`, JSON, on `machine`: the documented object.
///
/// # Errors
/// A text that is no such thing, settings out of their ranges, a machine that cannot be.
pub fn run_json(machine: &MachineSpec, spec: &str) -> Result<Value, ScenarioError> {
    let read = &mut serde_json::Deserializer::from_str(spec);
    let spec: CurveSpec =
        serde_path_to_error::deserialize(read).map_err(|e| value(&e.path().to_string(), e.inner().to_string()))?;
    run(machine, &spec)
}

/// As [`run_json`], of settings.
///
/// # Errors
/// Settings out of their ranges, a machine that cannot be.
pub fn run(machine: &MachineSpec, spec: &CurveSpec) -> Result<Value, ScenarioError> {
    check(spec)?;
    let study = CurveStudy::new(machine, spec)?;
    let mixes: Vec<StreamMix> = spec.reads.iter().map(|&percent| StreamMix::of_reads(percent)).collect();
    let threads = spec.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let warm = side_by_side(threads, mixes.len(), |i| study.warm(mixes[i]))?;
    let idle = study.idle()?;
    let most = side_by_side(threads, mixes.len(), |i| study.loaded(&warm[i], None))?;
    let between = spec.points as usize - 2;
    let others = side_by_side(threads, mixes.len() * between, |k| {
        let (i, step) = (k / between, k % between + 1);
        let wanted = most[i].bytes_per_s() * step as f64 / (spec.points - 1) as f64;
        study.loaded(&warm[i], Some(wanted))
    })?;
    let curves = mixes.iter().enumerate().map(|(i, mix)| {
        let between = &others[i * between..(i + 1) * between];
        let points: Vec<&CurveReading> = std::iter::once(&idle).chain(between).chain([&most[i]]).collect();
        study.curve(spec.reads[i], mix, &points)
    });
    Ok(study.document(curves.collect()))
}

/// What `work` gives for each of `count` pieces, on up to `threads` threads.
fn side_by_side<T: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> Result<T, ScenarioError> + Sync,
) -> Result<Vec<T>, ScenarioError> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new((0..count).map(|_| None).collect::<Vec<_>>());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= count {
                        break;
                    }
                    let result = work(i);
                    if let Ok(mut found) = found.lock() {
                        found[i] = Some(result);
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.into_iter().flatten().collect()
}

fn value(path: &str, message: String) -> ScenarioError {
    ScenarioError::Value { origin: "curve".into(), path: path.into(), message }
}

fn check(spec: &CurveSpec) -> Result<(), ScenarioError> {
    if let Some(streams) = spec.streams.filter(|n| !(1..MAX_CORES).contains(n)) {
        return Err(value("cores", format!("{streams}: allowed are 1 to {} cores that stream", MAX_CORES - 1)));
    }
    if spec.reads.is_empty() {
        return Err(value("reads", "none: allowed are shares of reads in percent, 50 to 100, as in 100,50".into()));
    }
    if let Some(percent) = spec.reads.iter().find(|percent| !(50.0..=100.0).contains(*percent)) {
        let allowed = "allowed are 50 to 100 percent (a store reads its line before it is written back)";
        return Err(value("reads", format!("{percent}: {allowed}")));
    }
    if !(3..=100).contains(&spec.points) {
        return Err(value("points", format!("{}: allowed are 3 to 100 points of a curve", spec.points)));
    }
    if !(256..=1_000_000).contains(&spec.accesses) {
        return Err(value("accesses", format!("{}: allowed are 256 to 1000000 loads a point", spec.accesses)));
    }
    if spec.threads == Some(0) {
        return Err(value("threads", "0: allowed are 1 and more".into()));
    }
    Ok(())
}

/// The machine that is measured, and how.
struct CurveStudy<'a> {
    machine: &'a MachineSpec,
    spec: &'a CurveSpec,
    memory: MemorySpec,
    streams: u32,
    why: String,
}

/// Of a mix of reads and writes: the machine with full caches, and where its streams are.
struct WarmMachine {
    mix: StreamMix,
    memory: Hierarchy,
    load: load::MemoryLoad,
}

impl<'a> CurveStudy<'a> {
    fn new(machine: &'a MachineSpec, spec: &'a CurveSpec) -> Result<CurveStudy<'a>, ScenarioError> {
        machine.core.check("machine.core")?;
        let mut memory = machine.memory_of_streams();
        if spec.at_once {
            memory.dram.controller = None;
        }
        memory.tlb = None;
        let sockets = machine.sockets.as_ref().map_or(1, |sockets| sockets.count.max(1));
        let here = machine.cores.div_ceil(sockets);
        let slices = machine.llc.slices;
        let (streams, why) = match spec.streams {
            Some(streams) => (streams, "as asked for".to_string()),
            None if slices > here => (
                (slices - 1).clamp(1, MAX_CORES - 1),
                format!("all but one of a core a slice of the LLC (machine.llc.slices = {slices})"),
            ),
            None => ((here - 1).clamp(1, MAX_CORES - 1), format!("all but one of {here} cores a socket")),
        };
        Ok(CurveStudy { machine, spec, memory, streams, why })
    }

    fn bench(&self, memory: Hierarchy, load: load::MemoryLoad) -> Result<CurveBench, ScenarioError> {
        Ok(CurveBench::new(&self.machine.core, memory, load)?)
    }

    fn fresh(&self) -> Result<Hierarchy, ScenarioError> {
        Ok(Hierarchy::new(&self.memory, self.streams + 1, "machine")?)
    }

    fn load(&self, mix: StreamMix, streams: u32) -> load::MemoryLoad {
        let caches = self.memory.llc.size.bytes() + self.memory.l2.size.bytes() * u64::from(self.streams + 1);
        load::MemoryLoad::new(mix, streams, caches, engine::Seed(self.spec.seed))
    }

    /// Nobody streams.
    fn idle(&self) -> Result<CurveReading, ScenarioError> {
        let mut bench = self.bench(self.fresh()?, self.load(StreamMix::of_reads(100.0), 0))?;
        Ok(bench.measure(None, self.spec.accesses * IDLE))
    }

    /// Caches full of what the streams of `mix` leave in them.
    fn warm(&self, mix: StreamMix) -> Result<WarmMachine, ScenarioError> {
        let mut bench = self.bench(self.fresh()?, self.load(mix, self.streams))?;
        bench.warm();
        let (memory, load) = bench.into_parts();
        Ok(WarmMachine { mix, memory, load })
    }

    /// Under a load that moves about `wanted` bytes a second, or as many as it can.
    fn loaded(&self, warm: &WarmMachine, wanted: Option<f64>) -> Result<CurveReading, ScenarioError> {
        let pace = wanted.map(|wanted| {
            let bytes = LINE_BYTES as f64 * (1.0 + warm.mix.stores());
            f64::from(self.streams) * bytes / wanted
        });
        let mut bench = self.bench(warm.memory.clone(), warm.load.clone())?;
        Ok(bench.measure(pace, self.spec.accesses))
    }

    fn curve(&self, percent: f64, mix: &StreamMix, points: &[&CurveReading]) -> Value {
        let most = points.iter().map(|point| point.bytes_per_s()).fold(0.0, f64::max);
        json!({
            "read_percent": percent,
            "stores": mix.stores(),
            "idle_ns": points.first().map_or(0.0, |idle| idle.latency_ns),
            "most_gb_per_s": most / 1e9,
            "points": points.iter().map(|point| self.point(point)).collect::<Value>(),
        })
    }

    fn point(&self, point: &CurveReading) -> Value {
        let overhead = self.memory.dram.overhead.ps().as_ns();
        let parts = point.parts_ns.iter().filter(|(_, ns)| *ns > 0.0);
        json!({
            "delay_ns": point.delay_ns,
            "bandwidth_gb_per_s": point.bytes_per_s() / 1e9,
            "read_percent": point.read_share() * 100.0,
            "latency_ns": point.latency_ns,
            "half_width_ns": Some(point.half_width_ns).filter(|width| width.is_finite()),
            "behind_llc_ns": point.behind_llc_ns(),
            "controller_ns": point.behind_llc_ns() - overhead,
            "all_reads_ns": point.all_reads_ns,
            "row_hit_rate": point.row_hit_rate,
            "accesses": point.accesses,
            "parts_ns": parts.map(|(reason, ns)| (reason.name().to_string(), json!(ns))).collect::<serde_json::Map<_, _>>(),
        })
    }

    fn document(&self, curves: Vec<Value>) -> Value {
        let (machine, dram) = (self.machine, &self.memory.dram);
        let standard = dram.standard.as_ref().map(|part| part.name().to_string());
        let controller = dram.controller.as_ref().map(|setting| setting.spec(dram.page));
        let peak = f64::from(dram.channels) * LINE_BYTES as f64 / dram.t_burst.ps().as_secs() / 1e9;
        json!({
            "schema": "wirespeed.memory_curve/1",
            "machine": machine.name,
            "frequency_ghz": machine.core.frequency.ghz(),
            "dram": {
                "model": if controller.is_some() { "commands" } else { "at-once" },
                "standard": standard.filter(|_| controller.is_some()),
                "channels": dram.channels,
                "peak_gb_per_s": peak,
                "overhead_ns": dram.overhead.ps().as_ns(),
                "controller": controller,
            },
            "streams": self.streams,
            "streams_are": self.why,
            "seed": self.spec.seed,
            "accesses": self.spec.accesses,
            "unloaded_ns": self.unloaded(),
            "curves": curves,
            "notes": self.notes(),
        })
    }

    /// What a load of a line in a closed row takes on an idle machine, by parts.
    fn unloaded(&self) -> Value {
        let dram = &self.memory.dram;
        let ns = |span: units::Span| span.ps().as_ns();
        let open = if dram.all_hits { 0.0 } else { ns(dram.t_rcd) };
        let parts = [
            ("llc", ns(self.memory.llc.latency)),
            ("overhead", ns(dram.overhead)),
            ("t_rcd", open),
            ("t_cl", ns(dram.t_cl)),
            ("t_burst", ns(dram.t_burst)),
        ];
        let sum: f64 = parts.iter().map(|part| part.1).sum();
        let mut object: serde_json::Map<_, _> = parts.iter().map(|(name, ns)| (name.to_string(), json!(ns))).collect();
        object.insert("sum".into(), json!(sum));
        Value::Object(object)
    }

    /// What of the machine is not in the curve.
    fn notes(&self) -> Vec<String> {
        let machine = self.machine;
        let mut notes = Vec::new();
        if let Some(sockets) = &machine.sockets {
            notes.push(format!("one socket of {}, with its own memory", sockets.count));
        }
        let beside = [
            (machine.tlb.is_some(), "machine.tlb", "translation is free, as with huge pages"),
            (machine.stacked.is_some(), "machine.stacked", "all memory is DRAM"),
            (!machine.applications.is_empty(), "machine.applications", "nobody has ways or slices of their own"),
            (!machine.clos.is_empty(), "machine.clos", "all cores may fill all ways"),
        ];
        let beside = beside.iter().filter(|(is_set, ..)| *is_set);
        notes.extend(beside.map(|(_, path, words)| format!("{path} is not used: {words}")));
        notes
    }
}

#[cfg(test)]
mod tests;
