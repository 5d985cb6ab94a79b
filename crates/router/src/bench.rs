//! Delay against throughput, for every way to route that this machine has.
//!
//! Packets are laid into packet memory beforehand, as a NIC would have; what is measured is what comes after: waiting for a
//! batch, posting, the function, the commit. Arrivals are open loop, one every 1/rate; a packet's delay runs from its arrival
//! to the moment egress sees its commit. The clock starts with the first arrival. A first run without arrivals finds what a mode carries at most at a batch; the curve
//! follows at shares of it. Every packet's verdict is compared with that of the scalar function.
//!
//! Left out: writing packets to a sink, and the NIC's own part.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use functions::classify::RuleSearch;
use functions::inspect::Method;
use functions::lookup::Structure;
use functions::{ChecksumCheck, PacketFunction, Verdict};
use packet::Packet;
use probe::Null;
use serde::{Deserialize, Serialize};
use traffic::{Blueprint, Load, SourceSpec};
use units::{PacketId, PacketRate, Ps};

use crate::backend::{Backend, Commit, Committed, CpuThreads};
use crate::cuda::{BatchMode, Gpu, GpuSpec, KernelBatch, PacketPlacement};
use crate::delay::Delays;
use crate::persistent::{KernelSetup, Persistent};
use crate::program::Methods;
use crate::setup::{FunctionName, FunctionNames, ProgramSources, program, table, workers};
use crate::{RouterError, RouterProgram};

/// Bytes of a frame that a slot holds: the headers that forwarding reads, in two lines with its margin.
const FRAME_BYTES: usize = 94;
/// A load is sustained if packets come out at this share of its rate.
const SUSTAINED: f64 = 0.99;
/// From when a backend is made to the first arrival.
const SETTLING: Duration = Duration::from_millis(2);
/// Graphs are made for each batch of the ring.
const MOST_GRAPHS: u64 = 1024;

/// What is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BenchSpec {
    /// What is done with each packet.
    pub function: FunctionNames,
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
    /// Batches.
    pub batches: Vec<u32>,
    /// Shares of what a mode carries at most.
    pub shares: Vec<f64>,
    /// Packets a point, a power of two.
    pub packets: u64,
    /// Numbers of workers of the CPU.
    pub threads: Vec<u32>,
    /// Whether the GPU is left out.
    pub cpu_only: bool,
    /// The GPU driver's library.
    pub driver: Option<String>,
    /// Seconds after which a backend that does not answer is given up.
    pub deadline_s: f64,
    /// Seed of what is made.
    pub seed: u64,
}

impl Default for BenchSpec {
    fn default() -> BenchSpec {
        BenchSpec {
            function: FunctionNames::default(),
            search: None,
            method: Method::default(),
            structure: None,
            mtu: None,
            rules: None,
            patterns: None,
            table: None,
            capture: None,
            batches: (5..=13).map(|bits| 1 << bits).collect(),
            shares: vec![0.2, 0.5, 0.8, 0.95],
            packets: 1 << 19,
            threads: vec![workers()],
            cpu_only: false,
            driver: None,
            deadline_s: 5.0,
            seed: 0,
        }
    }
}

/// A way to route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Way {
    Cpu(u32),
    ZeroCopy,
    Resident,
    Batch,
    Streams,
    Graph,
}

impl Way {
    /// Its name, and how many workers of the CPU it has.
    fn named(self) -> (&'static str, u32) {
        match self {
            Way::Cpu(threads) => ("cpu", threads),
            Way::ZeroCopy => ("zero_copy", 0),
            Way::Resident => ("resident", 0),
            Way::Batch => ("batch", 0),
            Way::Streams => ("streams", 0),
            Way::Graph => ("graph", 0),
        }
    }
}

/// A point of a curve.
#[derive(Clone, Debug, Serialize)]
pub struct BenchPoint {
    /// cpu, zero_copy, resident, batch, streams or graph.
    pub mode: &'static str,
    /// Workers of the CPU; 0 on a GPU.
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
}

impl BenchPoint {
    /// The columns of the CSV.
    pub const COLUMNS: &str =
        "mode,threads,batch,offered_mpps,carried_mpps,sustained,mean_us,p50_us,p99_us,iqr_us,packets,wrong";

    /// A line of it, without its end.
    pub fn csv(&self) -> String {
        let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
        let delays = [self.mean_us, self.p50_us, self.p99_us, self.iqr_us].map(number).join(",");
        let (offered, carried) = (number(self.offered_mpps), self.carried_mpps);
        let BenchPoint { mode, threads, batch, sustained, packets, wrong, .. } = self;
        format!("{mode},{threads},{batch},{offered},{carried:.4},{sustained},{delays},{packets},{wrong}")
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
pub fn bench(spec: &BenchSpec, mut each: impl FnMut(&BenchPoint) -> bool) -> Result<Benched, RouterError> {
    let mut done = Benched::default();
    if !spec.packets.is_power_of_two() || !(1 << 10..=1 << 24).contains(&spec.packets) {
        let allowed = "must be a power of two from 2^10 to 2^24";
        return Err(RouterError::Setting { what: "packets", came: spec.packets.to_string(), allowed });
    }
    for &batch in &spec.batches {
        if !batch.is_power_of_two() || u64::from(batch) * 4 > spec.packets {
            let allowed = "must be powers of two, up to a quarter of the packets";
            return Err(RouterError::Setting { what: "batches", came: batch.to_string(), allowed });
        }
    }
    if let Some(share) = spec.shares.iter().find(|share| !(share.is_finite() && **share > 0.0 && **share <= 2.0)) {
        let allowed = "must be numbers above 0, up to 2";
        return Err(RouterError::Setting { what: "shares", came: share.to_string(), allowed });
    }
    let table = table(spec.table.as_ref(), spec.seed, spec.capture.is_some(), &mut done.notes)?;
    let sources = ProgramSources {
        functions: &spec.function,
        methods: Methods { search: spec.search, method: spec.method, structure: spec.structure, mtu: spec.mtu },
        rules: spec.rules.as_ref(),
        patterns: spec.patterns.as_ref(),
        ports: 4,
        checksum: ChecksumCheck::Nic,
        seed: spec.seed,
    };
    let (program, _) = program(&sources, &table, &mut done.notes)?;
    let packets = packets(spec, &table)?;
    let expected = verdicts(&program, &packets);
    let mut ways: Vec<Way> = spec.threads.iter().map(|&threads| Way::Cpu(threads)).collect();
    if spec.cpu_only {
        done.notes.push("the GPU was left out as asked".into());
    } else {
        match Gpu::open(&GpuSpec { library: spec.driver.clone(), ..GpuSpec::default() }) {
            Ok(gpu) => {
                done.gpu = Some(gpu.offer().name.clone());
                ways.extend([Way::ZeroCopy, Way::Resident, Way::Batch, Way::Streams, Way::Graph]);
            }
            Err(reason) if reason.is_no_gpu() => done.notes.push(format!("no GPU part: {reason}")),
            Err(reason) => return Err(reason),
        }
    }
    // What a slot holds: of payloads all that there is of the longest.
    let longest = packets.iter().map(|packet| packet.data.len()).max().unwrap_or(0);
    let frame_bytes = if program.reads_payloads() { longest.max(FRAME_BYTES) } else { FRAME_BYTES };
    let bench = RouterBench { spec, program: &program, packets: &packets, expected: &expected, frame_bytes };
    for way in ways {
        for &batch in &spec.batches {
            let most = bench.point(way, batch, None)?;
            done.points += 1;
            if !each(&most) {
                return Ok(done);
            }
            for share in &spec.shares {
                let point = bench.point(way, batch, Some(share * most.carried_mpps))?;
                done.points += 1;
                if !each(&point) {
                    return Ok(done);
                }
            }
        }
    }
    Ok(done)
}

fn packets(spec: &BenchSpec, table: &traffic::Table) -> Result<Vec<Packet>, RouterError> {
    let traffic = SourceSpec { capture: spec.capture.clone(), ..SourceSpec::default() };
    let load = Load::Packets(PacketRate::from_mpps(1.0));
    let mut source = Blueprint::new(&traffic, Some(table))?.source(spec.seed, &load)?;
    let (mut packets, mut packet) = (Vec::with_capacity(spec.packets as usize), Packet::default());
    // Threads copy the payloads that they cut.
    let payloads = spec.function.has(FunctionName::Inspect) || spec.function.has(FunctionName::Fragment);
    while (packets.len() as u64) < spec.packets && source.next(&mut packet) {
        if !payloads {
            packet.data.truncate(FRAME_BYTES);
        }
        packets.push(packet.clone());
    }
    Ok(packets)
}

/// What is to become of each packet, and how many fragments it is to have beside the first.
fn verdicts(program: &RouterProgram, packets: &[Packet]) -> Vec<(Verdict, usize)> {
    let (mut function, mut expected) = (program.function().clone(), Vec::with_capacity(packets.len()));
    for burst in packets.chunks(1024) {
        let (mut burst, mut verdicts, first) = (burst.to_vec(), Vec::new(), expected.len());
        (0..).zip(&mut burst).for_each(|(i, packet)| packet.id = PacketId(i));
        function.process_burst(Ps::ZERO, &mut burst, &mut Null, &mut verdicts);
        expected.extend(verdicts.into_iter().map(|verdict| (verdict, 0)));
        for fragment in function.fragments() {
            expected[first + fragment.id.0 as usize].1 += 1;
        }
    }
    expected
}

struct RouterBench<'a> {
    spec: &'a BenchSpec,
    program: &'a RouterProgram,
    packets: &'a [Packet],
    expected: &'a [(Verdict, usize)],
    frame_bytes: usize,
}

impl RouterBench<'_> {
    fn backend(&self, way: Way, batch: u32, slots: u64) -> Result<Box<dyn Backend>, RouterError> {
        let deadline = Duration::try_from_secs_f64(self.spec.deadline_s).unwrap_or(Duration::from_secs(5));
        let frame_bytes = self.frame_bytes;
        let setup = KernelSetup { slots, frame_bytes, commit: Commit::Device, deadline, base: 0 };
        let gpu = |placement| GpuSpec { library: self.spec.driver.clone(), placement, ..GpuSpec::default() };
        let persistent = |placement| Persistent::new(Gpu::open(&gpu(placement))?, self.program, setup);
        let batches = |mode| {
            KernelBatch::new(&gpu(PacketPlacement::Resident), self.program, mode, batch, slots, frame_bytes, deadline)
        };
        Ok(match way {
            Way::Cpu(threads) => {
                Box::new(CpuThreads::new(self.program, threads as usize, slots, setup.commit, deadline)?)
            }
            Way::ZeroCopy => Box::new(persistent(PacketPlacement::ZeroCopy)?),
            Way::Resident => Box::new(persistent(PacketPlacement::Resident)?),
            Way::Batch => Box::new(batches(BatchMode::Serial)?),
            Way::Streams => Box::new(batches(BatchMode::Streams)?),
            Way::Graph => Box::new(batches(BatchMode::Graph)?),
        })
    }

    /// One run; without a rate all packets are there at once.
    fn point(&self, way: Way, batch: u32, mpps: Option<f64>) -> Result<BenchPoint, RouterError> {
        let mut count = self.packets.len() as u64;
        if way == Way::Graph {
            count = count.min(MOST_GRAPHS * u64::from(batch));
        }
        let slots = count.next_power_of_two();
        let mut backend = self.backend(way, batch, slots)?;
        for (number, packet) in (0..count).zip(self.packets) {
            backend.put(number, &mut packet.clone());
        }
        backend.prepare(count)?;
        let measured = measure(&mut *backend, count, batch, mpps)?;
        backend.stop()?;
        backend.settle(count)?;
        let (mut wrong, mut packet) = (0, Packet::default());
        for (number, expected) in (0..count).zip(self.expected) {
            let verdict = backend.take(number, &mut packet)?;
            wrong += u64::from((verdict, backend.fragments().len()) != *expected);
        }
        let delay = measured.delays.summary();
        let (mode, threads) = way.named();
        Ok(BenchPoint {
            mode,
            threads,
            batch,
            offered_mpps: mpps,
            carried_mpps: measured.carried_mpps(),
            sustained: measured.sustained,
            mean_us: delay.map(|d| d.mean_us),
            p50_us: delay.map(|d| d.p50_us),
            p99_us: delay.map(|d| d.p99_us),
            iqr_us: delay.map(|d| d.iqr_us),
            packets: count,
            wrong,
        })
    }
}

/// What one run took.
#[derive(Clone, Debug)]
pub struct BenchTimes {
    /// Packets.
    pub packets: u64,
    /// From the first packet's arrival to the last commit.
    pub wall: Duration,
    /// Whether batches came out as fast as they came in; true where all packets were there at once.
    pub sustained: bool,
    /// From arrival to commit; empty where all packets were there at once.
    pub delays: Delays,
}

impl BenchTimes {
    /// Millions of packets a second of wall time.
    pub fn carried_mpps(&self) -> f64 {
        self.packets as f64 / self.wall.as_secs_f64().max(1e-9) / 1e6
    }
}

/// Posts packets 0 to `count`, which lie in their slots already, and sees all of them committed.
///
/// With a rate packet `n` arrives `n` gaps after the first, and whole batches are posted; without one all are posted as
/// fast as the backend takes them. The clock starts with the first arrival.
///
/// # Errors
/// The backend fails.
pub fn measure(
    backend: &mut dyn Backend,
    count: u64,
    batch: u32,
    mpps: Option<f64>,
) -> Result<BenchTimes, RouterError> {
    // Whoever starts threads has them by then; before the clock starts, since no packet waits for it.
    std::thread::sleep(SETTLING);
    let start = Instant::now();
    let gap = mpps.map(|mpps| 1e3 / mpps);
    let mut watch = CommitWatch { batch: u64::from(batch).min(count), gap, ..CommitWatch::default() };
    let (mut ready, mut posted, mut out) = (0, 0, Vec::new());
    while watch.committed < count {
        let now = start.elapsed().as_nanos() as f64;
        let arrived = gap.map_or(count, |gap| ((now / gap) as u64 + 1).min(count));
        // Whole batches; the last packets, fewer than one, wait for nothing that will come.
        ready = if arrived == count { count } else { ready + (arrived - ready) / u64::from(batch) * u64::from(batch) };
        while posted < ready {
            let task = backend.fit(posted, ready - posted);
            if !backend.post(posted, task as u32)? {
                break;
            }
            posted += task;
        }
        backend.poll(&mut out)?;
        if out.is_empty() {
            std::thread::yield_now();
            continue;
        }
        let now = start.elapsed();
        out.drain(..).for_each(|done| watch.see(done, now));
    }
    Ok(BenchTimes { packets: count, wall: watch.last, sustained: watch.sustained(), delays: watch.delays })
}

/// Sees packets committed.
#[derive(Default)]
struct CommitWatch {
    batch: u64,
    /// Nanoseconds between arrivals.
    gap: Option<f64>,
    committed: u64,
    /// When as many packets were committed as a batch has, and how many were by then.
    first_batch: Option<(Duration, u64)>,
    last: Duration,
    delays: Delays,
}

impl CommitWatch {
    fn see(&mut self, done: Committed, now: Duration) {
        self.committed += u64::from(done.count);
        self.last = now;
        if self.committed >= self.batch {
            self.first_batch.get_or_insert((now, self.committed));
        }
        let Some(gap) = self.gap else { return };
        for number in done.first..done.first + u64::from(done.count) {
            self.delays.add((now.as_nanos() as f64 - number as f64 * gap).max(0.0) as u64);
        }
    }

    /// Whether the batches after the first came out in the time in which they came in. The first one's own time is in
    /// neither: a large batch that is waited for is no slack.
    fn sustained(&self) -> bool {
        let (Some(gap), Some((first, by_then))) = (self.gap, self.first_batch) else { return true };
        let due = (self.committed - by_then) as f64 * gap;
        (self.last - first).as_nanos() as f64 * SUSTAINED <= due
    }
}
