//! Queues of a run: a thread each that receives and sends, with a source, workers and a sink of its own.
//!
//! Where there is one, and nothing is pinned, it is the caller's thread. Several have a queue (AF_XDP) or a socket or ring each,
//! between which the kernel shares frames by flow: packets of a flow stay in order in one of them, and nothing is shared but the
//! tables. Their reports are added up.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use packet::Packet;
use traffic::{Blueprint, Capture, Load, SourceSpec, Table};
use units::PacketRate;

use super::{Choice, GpuMode, MADE_PACKETS, RouterSpec, seconds, workers};
use crate::backend::{Backend, Commit, CpuThreads, WorkerSetup};
use crate::completion::RunToCompletion;
use crate::cuda::{BatchMode, Gpu, GpuSpec, KernelBatch, PacketPlacement};
use crate::layout::{RING_ENTRIES, WARP_LANES};
use crate::machine::Twin;
use crate::persistent::{KernelSetup, Persistent};
use crate::route::{BatchTimeout, Pace, RouteOptions, RouteReport, cpu_time, route_until};
use crate::sink::{FrameSink, Nowhere, PcapSink};
use crate::source::{FrameSource, NextFrame, one_by_one};
use crate::split::{SplitBackend, SplitPolicy};
use crate::{RouterError, RouterProgram};

/// MiB of a queue's memory by AF_XDP where nobody says how many.
#[cfg(target_os = "linux")]
const XDP_MIB: u32 = 16;

/// What all queues have in common.
struct Common<'a> {
    spec: &'a RouterSpec,
    program: &'a RouterProgram,
    table: &'a Table,
    stop: &'a AtomicBool,
    /// Packets of all of them, after which each ends; and whether one has failed.
    budget: Budget,
    #[cfg(target_os = "linux")]
    interface: Shared,
    notes: Mutex<Vec<String>>,
}

/// What sockets of one interface share.
#[cfg(target_os = "linux")]
#[derive(Default)]
struct Shared {
    xdp: Option<crate::source::XdpInterface>,
    group: Option<crate::source::FanoutGroup>,
}

/// How many packets all queues may still take, if that is bounded, and whether they are to end.
#[derive(Clone, Default)]
struct Budget {
    most: Option<u64>,
    taken: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

/// A source whose packets count against all queues' budget.
struct Bounded<'a>(&'a mut dyn FrameSource, Budget);

impl FrameSource for Bounded<'_> {
    fn next(&mut self, packet: &mut Packet) -> Result<NextFrame, RouterError> {
        let Bounded(source, budget) = self;
        let over = |taken: u64| budget.most.is_some_and(|most| taken >= most);
        if budget.ended.load(Ordering::Relaxed) || over(budget.taken.load(Ordering::Relaxed)) {
            return Ok(NextFrame::End);
        }
        let next = source.next(packet)?;
        // Nobody counts where nothing is bounded.
        if next == NextFrame::Packet && budget.most.is_some() && over(budget.taken.fetch_add(1, Ordering::Relaxed)) {
            // Another queue had the last one at the same time: this one came after the end.
            return Ok(NextFrame::End);
        }
        Ok(next)
    }

    fn fill(&mut self, packets: &mut [Packet]) -> Result<(usize, NextFrame), RouterError> {
        let Bounded(source, budget) = self;
        if budget.most.is_none() {
            return if budget.ended.load(Ordering::Relaxed) { Ok((0, NextFrame::End)) } else { source.fill(packets) };
        }
        one_by_one(self, packets)
    }

    fn is_live(&self) -> bool {
        self.0.is_live()
    }

    fn arrived(&self) -> Option<Instant> {
        self.0.arrived()
    }

    fn epoch(&self) -> Option<Duration> {
        self.0.epoch()
    }

    fn missed(&mut self) -> Option<u64> {
        self.0.missed()
    }
}

/// Runs all queues. What they routed, the workers of all of them, and how many they are.
pub(super) fn run(
    spec: &RouterSpec,
    program: &RouterProgram,
    table: &Table,
    stop: &AtomicBool,
    notes: &mut Vec<String>,
) -> Result<(RouteReport, Option<u32>, u32), RouterError> {
    let queues = spec.queues.unwrap_or(1);
    let budget = Budget { most: spec.packets.filter(|_| queues > 1), ..Budget::default() };
    let common = Common {
        spec,
        program,
        table,
        stop,
        budget,
        #[cfg(target_os = "linux")]
        interface: shared(spec, queues, notes)?,
        notes: Mutex::default(),
    };
    let threads = spec.threads.unwrap_or_else(|| (workers() + 1).saturating_sub(queues).max(queues));
    // As even as can be.
    let of_queue = |queue: u32| threads / queues + u32::from(queue < threads % queues);
    let all = (0..queues).map(|queue| beside(spec.backend, of_queue(queue)) + 1).sum::<u32>();
    let placed = places(spec, all as usize, notes)?;
    let mut rest = &placed[..];
    let of_queues: Vec<(u32, &[usize])> = (0..queues)
        .map(|queue| {
            let own = (beside(spec.backend, of_queue(queue)) + 1) as usize;
            let (cpus, others) = rest.split_at(own.min(rest.len()));
            rest = others;
            (of_queue(queue), cpus)
        })
        .collect();
    let begun = cpu_time();
    let done = if queues == 1 && placed.is_empty() {
        common.queue(0, threads, &[])
    } else {
        let one = |queue: u32| {
            let (workers, cpus) = of_queues[queue as usize];
            common.queue(queue, workers, cpus)
        };
        each_queue(queues, &common.budget.ended, one).map(sum)
    };
    notes.extend(common.notes.into_inner().unwrap_or_default());
    let (mut report, workers) = done?;
    report.cpu_s = cpu_time().saturating_sub(begun).as_secs_f64();
    Ok((report, workers, queues))
}

/// Sets what ends all queues, but where its own has ended well. A panic does that, too.
struct EndOfAll<'a> {
    ended: &'a AtomicBool,
    well: bool,
}

impl Drop for EndOfAll<'_> {
    fn drop(&mut self) {
        if !self.well {
            self.ended.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs `one` for each queue, on a thread each. Where one fails or panics `ended` is set, by which the others end, and the error is
/// that of the first such queue.
fn each_queue<T: Send>(
    queues: u32,
    ended: &AtomicBool,
    one: impl Fn(u32) -> Result<T, RouterError> + Sync,
) -> Result<Vec<T>, RouterError> {
    std::thread::scope(|scope| {
        let one = &one;
        let start = |queue: u32| {
            let run = move || {
                let mut end = EndOfAll { ended, well: false };
                let done = one(queue);
                end.well = done.is_ok();
                done
            };
            let started = std::thread::Builder::new().name(format!("queue {queue}")).spawn_scoped(scope, run);
            started.map_err(|source| {
                ended.store(true, Ordering::Relaxed);
                RouterError::QueueThread { queue, source }
            })
        };
        let all: Vec<_> = (0..queues).map(start).collect();
        // All are waited for, whichever of them fails.
        let join = |(queue, thread): (u32, Result<std::thread::ScopedJoinHandle<'_, _>, RouterError>)| {
            thread?.join().unwrap_or(Err(RouterError::QueuePanicked { queue }))
        };
        let done: Vec<Result<T, RouterError>> = (0..).zip(all).map(join).collect();
        done.into_iter().collect()
    })
}

/// What all queues have routed, and the workers of all of them.
fn sum(all: Vec<(RouteReport, Option<u32>)>) -> (RouteReport, Option<u32>) {
    let mut all = all.into_iter();
    let (mut report, mut workers) = all.next().unwrap_or_default();
    for (other, more) in all {
        report.add(other);
        workers = workers.zip(more).map(|(a, b)| a + b);
    }
    (report, workers)
}

/// Threads of this host beside the one that receives and sends, for so many workers.
fn beside(backend: Choice, workers: u32) -> u32 {
    match backend {
        Choice::Cpu | Choice::Auto | Choice::CpuCuda => workers,
        // What a driver starts is its own.
        Choice::Cuda => 0,
        // One dispatches.
        Choice::Twin => workers + 1,
        Choice::CpuTwin => 2 * workers + 1,
    }
}

/// The CPU of each thread, queue after queue: who receives, its workers, and those of the twin, the dispatcher first. None where nothing is pinned.
fn places(spec: &RouterSpec, threads: usize, notes: &mut Vec<String>) -> Result<Vec<usize>, RouterError> {
    if !spec.pin {
        return Ok(Vec::new());
    }
    #[cfg(target_os = "linux")]
    {
        let (cpus, note) = crate::affinity::plan(threads, spec.interface.as_deref());
        notes.extend(note);
        match cpus.is_empty() {
            true => Err(RouterError::Setting {
                what: "pin",
                came: "true".into(),
                allowed: "this process may use no CPU that it knows of: leave it out",
            }),
            false => Ok(cpus),
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (threads, notes);
        let allowed = "threads are pinned on Linux only";
        Err(RouterError::Setting { what: "pin", came: "true".into(), allowed })
    }
}

#[cfg(target_os = "linux")]
fn shared(spec: &RouterSpec, queues: u32, notes: &mut Vec<String>) -> Result<Shared, RouterError> {
    use crate::source::{XdpInterface, XdpMode, XdpSocketSpec};
    let Some(name) = &spec.interface else { return Ok(Shared::default()) };
    let Some(mode) = spec.xdp else {
        return Ok(Shared { xdp: None, group: (queues > 1).then(Default::default) });
    };
    let mib = spec.ring_mib.unwrap_or(XDP_MIB);
    let xdp = XdpInterface::open(name, &XdpSocketSpec { queues, mib, mode, copy: spec.xdp_copy })?;
    if mode == XdpMode::Auto && !xdp.is_native() {
        notes.push(format!("the driver of {name} has no XDP: the program runs behind it, and the kernel copies"));
    }
    if let Some(all) = xdp.receive_queues().filter(|&all| all > queues) {
        notes.push(format!(
            "{name} has {all} receive queues, of which this run has {queues}: frames of the others go to the kernel, not through the \
             router; --queues {all} takes all, or ethtool -L {name} gives it fewer"
        ));
    }
    Ok(Shared { xdp: Some(xdp), group: None })
}

impl Common<'_> {
    fn say(&self, what: impl IntoIterator<Item = String>) {
        if let Ok(mut notes) = self.notes.lock() {
            // Queues that are alike have the same to say.
            for note in what {
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
    }

    /// Routes one queue, whose thread and workers are on `cpus`, wherever that is empty.
    fn queue(&self, queue: u32, threads: u32, cpus: &[usize]) -> Result<(RouteReport, Option<u32>), RouterError> {
        let (spec, mut notes) = (self.spec, Vec::new());
        #[cfg(target_os = "linux")]
        if let Some(&cpu) = cpus.first() {
            // Each is tried here, where it can be said; the worker goes there itself.
            cpus.iter().rev().try_for_each(|&cpu| crate::affinity::pin(cpu))?;
            crate::affinity::pin(cpu)?;
        }
        // A kernel that stays wants to hear of its host: what takes long comes before it. A file is written last, when all
        // else is there.
        let PacketInput { mut source, sender, pace, epoch } = self.source(queue, &mut notes)?;
        let workers = cpus.get(1..).unwrap_or_default();
        let (mut backend, threads) = backend(spec, self.program, threads, workers, &mut notes)?;
        let mut sink: Box<dyn FrameSink> = match (sender, &spec.out) {
            (Some(sender), _) => sender,
            (None, Some(path)) => Box::new(PcapSink::create(path, epoch)?),
            (None, None) => Box::new(Nowhere),
        };
        let time = spec.seconds.map(|s| seconds("seconds", s)).transpose()?;
        let mut packets = spec.packets.filter(|_| self.budget.most.is_none());
        if spec.capture.is_none() && spec.interface.is_none() && packets.is_none() && time.is_none() {
            packets = Some(MADE_PACKETS);
            notes.push(format!("{MADE_PACKETS} packets of made traffic: --packets or --seconds says how many"));
        }
        let timeout = match spec.timeout_us {
            Some(us) => BatchTimeout::After(seconds("timeout_us", us * 1e-6)?),
            None => BatchTimeout::Adaptive,
        };
        self.say(notes);
        let options = RouteOptions { batch: spec.batch.unwrap_or(WARP_LANES), timeout, pace, packets, time };
        let mut source = Bounded(&mut *source, self.budget.clone());
        let report = route_until(&mut source, &mut *backend, &mut *sink, &options, self.stop)?;
        Ok((report, threads))
    }
}

type Chosen = (Box<dyn Backend>, Option<u32>);

fn backend(
    spec: &RouterSpec,
    program: &RouterProgram,
    threads: u32,
    cpus: &[usize],
    notes: &mut Vec<String>,
) -> Result<Chosen, RouterError> {
    let deadline = seconds("deadline_s", spec.deadline_s.unwrap_or(5.0))?;
    let split = spec.backend.is_split();
    // Of two backends the host keeps the order.
    let commit = if spec.ordered && !split { spec.commit.unwrap_or_default() } else { Commit::Unordered };
    let batch = spec.batch.unwrap_or(WARP_LANES);
    // Slots for payloads are long ones: fewer take the same memory.
    let least = RING_ENTRIES * u64::from(WARP_LANES) / if program.reads_payloads() { 4 } else { 1 };
    let slots = least.max(u64::from(batch).next_power_of_two() * 4);
    let setup = KernelSetup { slots, frame_bytes: program.frame_bytes(), commit, deadline, ..KernelSetup::default() };
    let cpu = |commit| -> Result<Chosen, RouterError> {
        if threads == 0 {
            return Ok((Box::new(RunToCompletion::new(program, RunToCompletion::slots_for(batch))?), Some(0)));
        }
        let threads = threads as usize;
        let cpus = cpus.get(..threads).unwrap_or(cpus).to_vec();
        let setup = WorkerSetup { threads, slots, commit, deadline, base: 0, hook: None, cpus };
        Ok((Box::new(CpuThreads::with_setup(program, setup)?), Some(threads as u32)))
    };
    let gpu = || -> Result<Chosen, RouterError> {
        let placement =
            if spec.mode == GpuMode::Resident { PacketPlacement::Resident } else { PacketPlacement::ZeroCopy };
        let (library, warps_per_core) = (spec.driver.clone(), spec.warps_per_core);
        let gpu = GpuSpec { library, device: spec.device, placement, warps_per_core };
        let mode = match spec.mode {
            GpuMode::ZeroCopy | GpuMode::Resident => {
                return Ok((Box::new(Persistent::new(Gpu::open(&gpu)?, program, setup)?), None));
            }
            GpuMode::Batch => BatchMode::Serial,
            GpuMode::Streams => BatchMode::Streams,
            GpuMode::Graph => BatchMode::Graph,
        };
        Ok((
            Box::new(KernelBatch::new(Gpu::open(&gpu)?, program, mode, batch, slots, setup.frame_bytes, deadline)?),
            None,
        ))
    };
    let twin = || -> Result<Chosen, RouterError> {
        let before = if split { threads as usize } else { 0 };
        let twin = Twin::new(threads).on(cpus.get(before..).unwrap_or_default().to_vec());
        Ok((Box::new(Persistent::new(twin, program, setup)?), Some(threads)))
    };
    let both = |name, kernel: Chosen| -> Result<Chosen, RouterError> {
        let (policy, (kernel, more), (cpu, threads)) =
            (spec.share.map_or(SplitPolicy::Adaptive, SplitPolicy::Share), kernel, cpu(commit)?);
        let split = SplitBackend::new(name, vec![cpu, kernel], policy, slots, batch, spec.ordered)?;
        Ok((Box::new(split), threads.map(|threads| threads + more.unwrap_or(0))))
    };
    match spec.backend {
        Choice::Cpu => cpu(commit),
        Choice::Cuda => gpu(),
        Choice::Twin => twin(),
        Choice::CpuCuda => both("cpu+cuda", gpu()?),
        Choice::CpuTwin => both("cpu+twin", twin()?),
        Choice::Auto => match gpu() {
            Err(reason) if reason.is_no_gpu() => {
                notes.push(format!("backend auto: {reason}; cpu is used in its place"));
                cpu(commit)
            }
            found => found,
        },
    }
}

struct PacketInput {
    source: Box<dyn FrameSource>,
    /// Where to send them, if that is where they come from.
    sender: Option<Box<dyn FrameSink>>,
    /// When they are taken.
    pace: Pace,
    /// Since 1970 the time that arrival 0 stands for; zero where there is none.
    epoch: Duration,
}

impl Common<'_> {
    #[cfg(target_os = "linux")]
    fn interface(&self, queue: u32, name: &str) -> Result<PacketInput, RouterError> {
        use crate::source::{PacketRing, RawSocket, RingSpec};
        let (spec, stop, group) = (self.spec, Arc::new(AtomicBool::new(false)), self.interface.group.as_ref());
        let (source, sender): (Box<dyn FrameSource>, Box<dyn FrameSink>) = match (&self.interface.xdp, spec.ring_mib) {
            (Some(xdp), _) => {
                let (source, sender) = xdp.socket(queue, stop)?;
                (Box::new(source), Box::new(sender))
            }
            (None, Some(mib)) => {
                let ring = PacketRing::open_in(name, &RingSpec::new(mib), stop, group)?;
                let sender = ring.sender();
                (Box::new(ring), Box::new(sender))
            }
            (None, None) => {
                let socket = RawSocket::open_in(name, stop, group)?;
                let sender = socket.sender();
                (Box::new(socket), Box::new(sender))
            }
        };
        let epoch = source.epoch().unwrap_or_default();
        Ok(PacketInput { source, sender: spec.reflect.then_some(sender), pace: Pace::Arrival, epoch })
    }

    #[cfg(not(target_os = "linux"))]
    fn interface(&self, _: u32, name: &str) -> Result<PacketInput, RouterError> {
        let allowed = "network interfaces are read on Linux only";
        Err(RouterError::Setting { what: "interface", came: name.into(), allowed })
    }

    fn source(&self, queue: u32, notes: &mut Vec<String>) -> Result<PacketInput, RouterError> {
        match &self.spec.interface {
            Some(name) => self.interface(queue, name),
            None => traffic(self.spec, self.table, notes),
        }
    }
}

fn traffic(spec: &RouterSpec, table: &Table, notes: &mut Vec<String>) -> Result<PacketInput, RouterError> {
    if let (Some(path), None, None) = (&spec.capture, spec.mpps, spec.speed) {
        let source = Box::new(Capture::open(path)?);
        let epoch = source.epoch().unwrap_or_default();
        return Ok(PacketInput { source, sender: None, pace: Pace::AsFast, epoch });
    }
    // Packets of another schedule than the capture's begin when it begins.
    let epoch = match &spec.capture {
        Some(path) => Capture::open(path)?.begun().unwrap_or_default(),
        None => Duration::ZERO,
    };
    let traffic = SourceSpec {
        capture: spec.capture.clone(),
        profile: spec.profile.clone(),
        rounds: spec.capture.as_ref().map(|_| 1),
        ..SourceSpec::default()
    };
    let blueprint = Blueprint::new(&traffic, Some(table))?;
    notes.extend(blueprint.notes().iter().cloned());
    let rate = |mpps: f64| {
        let allowed = "must be a number above 0, up to 10000";
        let sound = mpps.is_finite() && mpps > 0.0 && mpps <= 1e4;
        let bad = || RouterError::Setting { what: "mpps", came: mpps.to_string(), allowed };
        sound.then(|| Load::Packets(PacketRate::from_mpps(mpps))).ok_or_else(bad)
    };
    let (load, pace) = match (spec.mpps, spec.speed) {
        (_, Some(speed)) => (Load::Timestamps(speed), Pace::Arrival),
        (Some(mpps), None) => (rate(mpps)?, Pace::Arrival),
        (None, None) => (rate(1.0)?, Pace::AsFast),
    };
    Ok(PacketInput { source: Box::new(blueprint.source(spec.seed, &load)?), sender: None, pace, epoch })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes on until all are to end.
    fn until(ended: &AtomicBool) -> Result<u32, RouterError> {
        let begun = Instant::now();
        while !ended.load(Ordering::Relaxed) {
            assert!(begun.elapsed() < Duration::from_secs(20), "it was never ended");
            std::thread::yield_now();
        }
        Ok(0)
    }

    #[test]
    fn a_queue_that_panics_ends_the_others_and_is_named() {
        let ended = AtomicBool::new(false);
        let done = each_queue(4, &ended, |queue| if queue == 2 { panic!("a test's own") } else { until(&ended) });
        let text = "the thread of queue 2 panicked, and the run was ended; this is a bug";
        assert_eq!(done.unwrap_err().to_string(), text);
    }

    #[test]
    fn a_queue_that_fails_ends_the_others_and_one_that_ends_well_does_not() {
        let ended = AtomicBool::new(false);
        assert_eq!(each_queue(3, &ended, Ok).unwrap(), [0, 1, 2]);
        assert!(!ended.load(Ordering::Relaxed));
        let failed = |queue| if queue == 0 { Err(RouterError::Panicked { backend: "cpu" }) } else { until(&ended) };
        assert!(matches!(each_queue(3, &ended, failed), Err(RouterError::Panicked { backend: "cpu" })));
    }
}
