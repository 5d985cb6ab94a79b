//! Delay against throughput, for every way to route that this machine has.
//!
//! Packets are laid into packet memory beforehand, as a NIC would have; what is measured is what comes after: waiting for a
//! batch, posting, the function, the commit. Arrivals are open loop, one every 1/rate; a packet's delay runs from its arrival
//! to the moment egress sees its commit. The clock starts with the first arrival. A first run without arrivals finds what a mode
//! carries at most at a batch; the curve is at shares of it. Every packet's verdict is compared with that of the scalar function.
//!
//! What tells most is measured first: [`BenchSpec::seconds`] may end it early.
//!
//! Left out: writing packets to a sink, and the NIC's own part.

mod changes;
mod completion;
mod plan;
mod repeat;
mod run;
mod shares;
mod watch;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use functions::classify::RuleSearch;
use functions::inspect::Method;
use functions::lookup::Structure;
use serde::{Deserialize, Serialize};
use traffic::Table;

pub use changes::{ChangesPoint, ChangesSpec, PORTS as CHANGES_PORTS, bench_changes, changing};
pub use completion::{PlainLoopPoint, PlainLoopSpec, bench_loop, usual_cores};
pub use plan::BenchMode;
pub use repeat::{COLUMNS as REPEAT_COLUMNS, RepeatSpec, bench_repeats};
pub use shares::{SharesPoint, SharesSpec, bench_shares};
pub use watch::{BenchTimes, measure};

use crate::RouterError;
use crate::backend::Commit;
use crate::cuda::GpuContext;
use crate::persistent::RoundTasks;
use crate::setup::{FunctionNames, table, workers};
use plan::{BenchStep, BenchWay, steps};
use run::{BenchBed, BenchSubject};

/// Failures of a way one after the other after which it is left alone.
const MOST_FAILURES: u32 = 2;

/// What is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BenchSpec {
    /// What is done with each packet.
    pub function: FunctionNames,
    /// And what is measured after that.
    pub further: Vec<FunctionNames>,
    /// How rules are searched; linear if left out.
    pub search: Option<RuleSearch>,
    /// How payloads are searched.
    pub method: Method,
    /// By what routes are looked up; DIR-24-8 if left out.
    pub structure: Option<Structure>,
    /// Bytes of the largest IP packet that the next links carry; 1500 if left out.
    pub mtu: Option<u32>,
    /// Rules for classification; made ones if left out.
    pub rules: Option<PathBuf>,
    /// Strings for inspection; made ones if left out.
    pub patterns: Option<PathBuf>,
    /// A prefix table; a made one if left out.
    pub table: Option<PathBuf>,
    /// A capture whose packets are used, again and again; made ones if left out.
    pub capture: Option<PathBuf>,
    /// Ways to route.
    pub modes: Vec<BenchMode>,
    /// How a kernel that stays commits; threads as the first says.
    pub commits: Vec<Commit>,
    /// Warps a shader core of a kernel that stays (MCW); none is as many as fit.
    pub warps_per_core: Vec<Option<u32>>,
    /// Tasks a round of the dispatcher of a kernel that stays; [`bench`] takes the first.
    #[serde(skip)]
    pub rounds: Vec<RoundTasks>,
    /// Batches.
    pub batches: Vec<u32>,
    /// Shares of what a mode carries at most.
    pub shares: Vec<f64>,
    /// Further loads in millions of packets a second, where that is less than what a mode carries.
    pub loads: Vec<f64>,
    /// Packets a point, a power of two.
    pub packets: u64,
    /// Numbers of workers of the CPU.
    pub threads: Vec<u32>,
    /// Threads that gather for overlapped batches, of which each has one on its way.
    pub gatherers: Vec<u32>,
    /// Whether the GPU is left out.
    pub cpu_only: bool,
    /// The GPU driver's library.
    pub driver: Option<String>,
    /// Seconds after which a backend that does not answer is given up.
    pub deadline_s: f64,
    /// Seconds in which it ends; without, all is measured.
    pub seconds: Option<f64>,
    /// Seed of what is made.
    pub seed: u64,
}

impl Default for BenchSpec {
    fn default() -> BenchSpec {
        BenchSpec {
            function: FunctionNames::default(),
            further: Vec::new(),
            search: None,
            method: Method::default(),
            structure: None,
            mtu: None,
            rules: None,
            patterns: None,
            table: None,
            capture: None,
            modes: BenchMode::ALL.iter().map(|&(_, mode)| mode).collect(),
            commits: vec![Commit::default()],
            warps_per_core: vec![None],
            rounds: vec![RoundTasks::default()],
            batches: (5..=13).map(|bits| 1 << bits).collect(),
            shares: vec![0.2, 0.5, 0.8, 0.95],
            loads: Vec::new(),
            packets: 1 << 19,
            threads: vec![workers()],
            gatherers: vec![3],
            cpu_only: false,
            driver: None,
            deadline_s: 5.0,
            seconds: None,
            seed: 0,
        }
    }
}

/// A point of a curve.
#[derive(Clone, Debug, Serialize)]
pub struct BenchPoint {
    /// What was done with each packet.
    pub function: String,
    /// As [`BenchMode::ALL`] names it.
    pub mode: &'static str,
    /// How tasks were committed, but for batches.
    pub commit: Option<Commit>,
    /// Warps a shader core, of a kernel that stays.
    pub warps_per_core: Option<u32>,
    /// Workers of the CPU, or threads that gather; 0 for other ways on a GPU.
    pub threads: u32,
    /// Packets that are waited for.
    pub batch: u32,
    /// Millions a second; none where all packets were there at once.
    pub offered_mpps: Option<f64>,
    /// Millions a second, from the first arrival to the last commit.
    pub carried_mpps: f64,
    /// Whether packets came out as fast as they were offered.
    pub sustained: bool,
    /// Mean delay; none where all packets were there at once. The same below.
    pub mean_us: Option<f64>,
    /// Median.
    pub p50_us: Option<f64>,
    /// 99 %.
    pub p99_us: Option<f64>,
    /// Interquartile range.
    pub iqr_us: Option<f64>,
    /// Packets.
    pub packets: u64,
    /// Verdicts, or numbers of fragments, that differ from the scalar function's: 0, or there is a bug.
    pub wrong: u64,
    /// The GPU's name, or the processor's.
    pub device: String,
    /// The GPU's driver, and the CUDA that it has.
    pub driver: Option<String>,
}

impl BenchPoint {
    /// The columns of the CSV.
    pub const COLUMNS: &str = "function,mode,commit,warps_per_core,threads,batch,offered_mpps,carried_mpps,sustained,\
                               mean_us,p50_us,p99_us,iqr_us,packets,wrong,device,driver";

    /// A line of it, without its end.
    pub fn csv(&self) -> String {
        let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
        let named = |commit| Commit::ALL.into_iter().find(|&(_, own)| own == commit).map_or("", |(name, _)| name);
        let cells = [
            self.function.replace(',', "+"),
            self.mode.into(),
            self.commit.map_or("", named).into(),
            self.warps_per_core.map_or(String::new(), |warps| warps.to_string()),
            self.threads.to_string(),
            self.batch.to_string(),
            number(self.offered_mpps),
            number(Some(self.carried_mpps)),
            self.sustained.to_string(),
            number(self.mean_us),
            number(self.p50_us),
            number(self.p99_us),
            number(self.iqr_us),
            self.packets.to_string(),
            self.wrong.to_string(),
            self.device.replace(',', " "),
            self.driver.clone().unwrap_or_default(),
        ];
        cells.join(",")
    }
}

/// What was measured, beside the points.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Benched {
    /// The GPU's name, if there is one.
    pub gpu: Option<String>,
    /// What was assumed, or left out.
    pub notes: Vec<String>,
    /// How many points.
    pub points: usize,
}

/// Measures, and gives each point as soon as it is there; ends early where `each` says false.
///
/// # Errors
/// Settings, files, traffic or tables that cannot be used; a backend that fails, but for a GPU that is not there.
pub fn bench(spec: &BenchSpec, each: impl FnMut(&BenchPoint) -> bool) -> Result<Benched, RouterError> {
    bench_past(spec, each, |_, error| Err(error))
}

/// As [`bench`]; `failed` is told which point a backend failed at, and why, and may let the others be measured.
///
/// # Errors
/// As [`bench`], but for what `failed` lets pass.
pub fn bench_past(
    spec: &BenchSpec,
    each: impl FnMut(&BenchPoint) -> bool,
    failed: impl FnMut(&str, RouterError) -> Result<(), RouterError>,
) -> Result<Benched, RouterError> {
    let begun = Instant::now();
    spec.check()?;
    let mut done = Benched::default();
    let table = table(spec.table.as_ref(), spec.seed, spec.capture.is_some(), &mut done.notes)?;
    let mut gpu = None;
    if spec.cpu_only {
        done.notes.push("the GPU was left out as asked".into());
    } else if spec.modes.iter().any(|&mode| mode != BenchMode::Cpu) {
        match GpuContext::open(spec.driver.as_deref(), 0) {
            Ok(opened) => {
                done.gpu = Some(opened.offer().name.clone());
                gpu = Some(opened);
            }
            Err(reason) if reason.is_no_gpu() => done.notes.push(format!("no GPU part: {reason}")),
            Err(reason) => return Err(reason),
        }
    }
    let seconds = spec.seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let mut course = BenchCourse {
        bed: BenchBed::new(spec, gpu),
        table,
        subjects: HashMap::new(),
        most: HashMap::new(),
        failures: HashMap::new(),
        longest: HashMap::new(),
        end: seconds.map(|seconds| begun + seconds),
        done,
        each,
        failed,
    };
    let all = steps(spec, course.bed.gpu.is_some());
    let planned =
        all.iter().map(|step| if step.loads { spec.shares.len() + spec.loads.len() } else { 1 }).sum::<usize>();
    for step in all {
        if !course.step(step)? {
            break;
        }
    }
    let mut done = course.done;
    if done.points < planned {
        done.notes.push(format!("{} of {planned} points were measured", done.points));
    }
    Ok(done)
}

impl BenchSpec {
    /// Checks the ranges.
    ///
    /// # Errors
    /// A number of packets, a batch, a share or a time that cannot be measured with.
    pub fn check(&self) -> Result<(), RouterError> {
        if !self.packets.is_power_of_two() || !(1 << 10..=1 << 24).contains(&self.packets) {
            let allowed = "must be a power of two from 2^10 to 2^24";
            return Err(RouterError::Setting { what: "packets", came: self.packets.to_string(), allowed });
        }
        for &batch in &self.batches {
            if !batch.is_power_of_two() || u64::from(batch) * 4 > self.packets {
                let allowed = "must be powers of two, up to a quarter of the packets";
                return Err(RouterError::Setting { what: "batches", came: batch.to_string(), allowed });
            }
        }
        if let Some(share) = self.shares.iter().find(|share| !(share.is_finite() && **share > 0.0 && **share <= 2.0)) {
            let allowed = "must be numbers above 0, up to 2";
            return Err(RouterError::Setting { what: "shares", came: share.to_string(), allowed });
        }
        if let Some(load) = self.loads.iter().find(|load| !(load.is_finite() && **load > 0.0)) {
            let allowed = "must be numbers above 0";
            return Err(RouterError::Setting { what: "loads", came: load.to_string(), allowed });
        }
        if let Some(seconds) = self.seconds.filter(|seconds| !(seconds.is_finite() && *seconds > 0.0)) {
            let allowed = "must be a number above 0";
            return Err(RouterError::Setting { what: "seconds", came: seconds.to_string(), allowed });
        }
        Ok(())
    }
}

/// A benchmark on its way.
struct BenchCourse<'a, E, F> {
    bed: BenchBed<'a>,
    table: Table,
    /// By function, made when it is first measured.
    subjects: HashMap<usize, BenchSubject>,
    /// What a way carries at most at a batch.
    most: HashMap<(usize, BenchWay, u32), f64>,
    /// By function and way, since it last gave a point.
    failures: HashMap<(usize, BenchWay), u32>,
    /// By function, what a point took.
    longest: HashMap<usize, Duration>,
    end: Option<Instant>,
    done: Benched,
    each: E,
    failed: F,
}

impl<E, F> BenchCourse<'_, E, F>
where
    E: FnMut(&BenchPoint) -> bool,
    F: FnMut(&str, RouterError) -> Result<(), RouterError>,
{
    /// Whether to go on.
    fn step(&mut self, step: BenchStep) -> Result<bool, RouterError> {
        let BenchStep { function, way, batch, loads } = step;
        let place = (function, way, batch);
        let rates = match self.most.get(&place) {
            _ if !loads => vec![None],
            Some(most) => {
                let BenchSpec { shares, loads, .. } = self.bed.spec;
                let shares = shares.iter().map(|share| share * most);
                shares.chain(loads.iter().copied().filter(|load| load < most)).map(Some).collect()
            }
            // It failed.
            None => Vec::new(),
        };
        for mpps in rates {
            if self.failures.get(&(function, way)).is_some_and(|&failures| failures >= MOST_FAILURES) {
                break;
            }
            let expected = self.longest.get(&function).copied().unwrap_or_default();
            if self.end.is_some_and(|end| Instant::now() + expected > end) {
                return Ok(false);
            }
            let spec = self.bed.spec;
            let subject = match self.subjects.entry(function) {
                std::collections::hash_map::Entry::Occupied(made) => made.into_mut(),
                std::collections::hash_map::Entry::Vacant(place) => {
                    let name = function.checked_sub(1).map_or(&spec.function, |further| &spec.further[further]);
                    place.insert(BenchSubject::new(spec, name, &self.table, &mut self.done.notes)?)
                }
            };
            let begun = Instant::now();
            let point = match self.bed.point(subject, way, batch, mpps) {
                Ok(point) => point,
                Err(error) => {
                    *self.failures.entry((function, way)).or_default() += 1;
                    (self.failed)(&format!("function {function}, {way:?}, batch {batch}, {mpps:?} Mpps"), error)?;
                    continue;
                }
            };
            self.failures.remove(&(function, way));
            let longest = self.longest.entry(function).or_default();
            *longest = begun.elapsed().max(*longest);
            self.done.points += 1;
            if mpps.is_none() {
                self.most.insert(place, point.carried_mpps);
            }
            if !(self.each)(&point) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
