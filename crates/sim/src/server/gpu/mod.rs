//! A GPU beside the cores: packets go to it in batches, by flow, and come back to the core that has handed them over.
//!
//! 1. A core's burst runs the function on each packet, in zero simulated time, as for itself; what the function touches becomes a
//!    lane. The core writes an entry into the ring of tasks.
//! 2. At the burst's end its packets join the batch that fills. The batch goes when it is full, or its first packet has waited for
//!    `timeout` and no other batch waits for the GPU. Launching takes `call` of the core.
//! 3. Discrete: the copy engine reads frames from the server's memory, one after the other at the link's rate, as a device does.
//!    Integrated: nothing is copied. Where it is not coherent, the core that launches a batch flushes from all caches what the kernel is
//!    to use of its packets and of the ring; a kernel's end empties the GPU's L2.
//! 4. The kernel runs on the shader cores, a warp for 32 packets; kernels run one after the other. Its L2 asks memory of its own,
//!    or the server's, in order of time with cores, NIC and neighbours. Where that answers later, the kernel goes on with answers.
//! 5. Discrete: frames or verdicts are written back. The core finds the packets, reads their verdicts and sends them.
//!
//! Batches keep their order, and so do packets of a core within them: packets of a flow leave in order.
//!
//! So it is with batches. Where kernels stay ([`persistent`]), a task is one warp's packets, and nothing is launched.
//!
//! **Left out**: the IOMMU of an integrated GPU's requests, TLBs, page faults, the driver's memory traffic.

mod launched;
mod persistent;

use std::collections::VecDeque;

use functions::{Function, PacketFunction, Verdict};
use machine::memory::{Hierarchy, LevelCounters};
use machine::nic::{RSS_KEY, Received, ServerLayout, Toeplitz};
use machine::simt::batch::Results;
use machine::simt::{
    Code, Kernel, LaneOp, LaneRecorder, Lanes, Merger, OpKind, Shaders, SimtMemoryCounters, WarpPlacement,
};
use packet::{Packet, layers};
use probe::{Probe, Record, Ref, RegionId, RegionSpec, Sharing};
use stats::{Attribution, Reason};
use units::{CoreId, LINE_BYTES, Line, PacketId, Ps, Ticket};

use self::persistent::PersistentTasks;
use super::scattered::Scattered;
use super::{DepartureObserver, PRIORITY_NIC, Server, ServerEvent, lines};
use crate::scenario::gpus::{GpuMemory, GpuPosting, SLOT, ServerGpuSpec, TASK_BYTES, VERDICT_BYTES, l2_of, under};
use crate::scenario::{Scenario, ScenarioError};

/// Lines of a packet's slot.
const SLOT_LINES: u32 = (SLOT / LINE_BYTES) as u32;
/// Instructions of a core for the ring's ends, and for each packet in it: assumed, as of a software queue.
const CALL_INSTRUCTIONS: u32 = 30;
const PACKET_INSTRUCTIONS: u32 = 4;
const SITE_HAND_OVER: u16 = 50_060;
const SITE_TAKE_BACK: u16 = 50_070;
/// Behind all that a function does.
const SITE_LAST: u16 = u16::MAX;

/// What a GPU has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Sub, serde::Serialize, serde::Deserialize)]
pub struct GpuCounters {
    /// Packets that came back.
    pub packets: u64,
    /// Batches that were launched, and their packets.
    pub batches: u64,
    /// See `batches`.
    pub launched: u64,
    /// Of them, those that went before they were full.
    pub late: u64,
    /// What their packets took in all: until the batch was full, for the GPU, in copies, in kernels.
    pub fill: Ps,
    /// See `fill`.
    pub queue: Ps,
    /// See `fill`.
    pub copy: Ps,
    /// See `fill`.
    pub kernel: Ps,
    /// How long kernels ran, their launches counted; where they stay, for how long the slots of warps were taken, over how many
    /// there are. And copies to and from the GPU.
    pub busy: Ps,
    /// See `busy`.
    pub copying_in: Ps,
    /// See `busy`.
    pub copying_back: Ps,
    /// Of kernels that stay: what a dispatcher that is never idle takes for as many tasks; and for how long the FIFO's entries were
    /// taken, over how many it has.
    pub dispatching: Ps,
    /// See `dispatching`.
    pub posted: Ps,
    /// Warp instructions, and their lanes.
    pub instructions: u64,
    /// See `instructions`.
    pub lanes: u64,
    /// Sectors, and where they were found.
    pub memory: SimtMemoryCounters,
    /// Lookups of the server's LLC.
    pub llc: LevelCounters,
    /// Lines that cores have flushed for one that is not coherent.
    pub flushed: u64,
    /// Lines that its own DRAM read and wrote.
    pub dram_lines: u64,
}

/// What a packet is for the GPU, until its batch is launched.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct GpuTask {
    verdict: Verdict,
    lanes: Lanes,
}

/// A packet that the GPU has.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct GpuPacket {
    pub(super) received: Received,
    /// As it arrived.
    pub(super) frame_bytes: u32,
    /// The core that has handed it over, and when.
    core: usize,
    handed: Ps,
    /// What the time from its arrival until then was spent on.
    before: Box<Attribution>,
    task: Box<GpuTask>,
    /// Its place in the GPU's memory, and in the ring.
    slot: u32,
}

/// A packet that has come back, or was held until others had.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct BackFromGpu {
    /// It is visible from when it came back.
    pub(super) received: Received,
    pub(super) frame_bytes: u32,
    pub(super) before: Box<Attribution>,
    pub(super) verdict: Verdict,
    /// None of one that was held.
    pub(super) slot: Option<u32>,
}

/// Packets of a core that leave in order, those that the GPU has among them.
pub(super) type CommitOrder = VecDeque<Option<BackFromGpu>>;

/// Who works on the packets of a burst whose flows go to the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WayOfBurst {
    /// The GPU.
    Gpu,
    /// The core, and they leave at once.
    Core,
    /// The core, and they wait for earlier ones that the GPU has.
    Held,
}

/// Packets that go together.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
struct GpuBatch {
    number: u64,
    packets: Vec<GpuPacket>,
    filled: Ps,
    started: Ps,
    copied: Ps,
    begun: Ps,
    finished: Ps,
    /// When it began to come back.
    back_from: Ps,
    /// Packets that have been copied, and when the last of these is there, of those of which that is known.
    at: usize,
    until: Ps,
    /// Copies that memory answers later, and whether nothing is left but to wait for them.
    awaited: u32,
    stalled: bool,
    /// What caches had of it has been flushed, and memory has it; the GPU's L2 has given it up.
    flushed: bool,
    clean: Ps,
    emptied: bool,
}

/// Which way a copy engine copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum CopyWay {
    /// To the GPU.
    In,
    /// From it.
    Back,
    /// To the warp of the task with this number, and from it.
    Fetch(u64),
    /// See `Fetch`.
    Write(u64),
    /// Of the ring, for which nobody waits.
    Ring,
}

/// What happens next.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(super) enum GpuTurn {
    /// The time of the batch with this number is up.
    Deadline(u64),
    /// A batch is launched: the next one in order.
    Launched,
    /// The copy engine takes the next packet to the GPU.
    CopyIn,
    /// The kernel goes on.
    Kernel,
    /// The kernel is over.
    KernelDone,
    /// The copy engine takes the next packet back.
    CopyBack,
    /// The batch that was copied back is there.
    Back,
    /// The dispatcher looks for tasks.
    Poll,
    /// Warps have seen the tasks before the one with this number.
    Seen(u64),
    /// The loads of the packets of the task with this number are at the server's memory; what they load is there.
    Fetch(u64),
    /// See `Fetch`.
    Fetched(u64),
    /// Warps are complete.
    Complete,
    /// The stores of the task with this number are at the server's memory; they are done.
    Write(u64),
    /// See `Write`.
    Written(u64),
}

/// See the module header.
#[derive(Clone)]
pub(super) struct ServerGpu {
    spec: ServerGpuSpec,
    results: Results,
    /// The number of its first function in the chain, and whether it chooses ports.
    first: usize,
    routes: bool,
    /// Packets of flows whose hash is below it.
    below: u64,
    flows: Toeplitz,
    period: Ps,
    ring: RegionId,
    /// Its number among the cores, of an integrated one.
    agent: CoreId,
    record: Record,
    recorder: LaneRecorder,
    merger: Merger,
    /// Where tables lie: the first line of each for the GPU, and in the server's memory.
    tables: Vec<(u32, u64)>,
    block: u32,

    filling: GpuBatch,
    /// Its time is up, and it goes on filling since others wait before it.
    overdue: bool,
    /// Those that were launched, in order; the first `ready` of them may start.
    waiting: VecDeque<GpuBatch>,
    ready: usize,
    copying: Option<GpuBatch>,
    copied: VecDeque<GpuBatch>,
    running: Option<GpuBatch>,
    /// When the kernel goes on; [`Ps::MAX`] if that waits for memory, or there is none.
    turn: Ps,
    executed: VecDeque<GpuBatch>,
    returning: Option<GpuBatch>,
    returned: Option<GpuBatch>,
    /// Packets that cores have handed over, and those that it has.
    handed: u64,
    held: u32,
    next_slot: u32,
    lanes: Lanes,
    code: Code,
    kernel: Kernel,
    persistent: Option<PersistentTasks>,
    shaders: Shaders,
    /// Of each line of each slot where it is in the server's memory, of an integrated one.
    places: Vec<u32>,
    counters: GpuCounters,
}

state::state!(ServerGpu {
    values: [
        filling, overdue, waiting, ready, copying, copied, running, turn, executed, returning, returned, handed, held,
        next_slot, lanes, code, kernel, persistent, shaders, places, counters
    ],
    arrays: [],
    parts: [],
    built: [spec, results, first, routes, below, flows, period, ring, agent, record, recorder, merger, tables, block],
});

/// The ring of tasks and verdicts, behind the function's `regions`.
pub(super) fn region(scenario: &Scenario, regions: &[RegionSpec]) -> Option<RegionSpec> {
    let gpu = scenario.machine.gpu.as_ref()?;
    let last = regions.iter().map(|region| region.id.0).max().unwrap_or(0);
    let id = RegionId((last + 1).max(RegionId::FIRST_TABLE.0));
    Some(RegionSpec { id, name: "GPU tasks".into(), bytes: gpu.ring_bytes(), sharing: Sharing::Shared })
}

/// Makes the last core of `memory` an integrated GPU's L2.
///
/// # Errors
/// A cache that cannot be.
pub(super) fn join(scenario: &Scenario, memory: &mut Hierarchy, cores: u32) -> Result<(), ScenarioError> {
    if let Some(gpu) = scenario.machine.gpu.as_ref().filter(|_| scenario.agents() > 0) {
        memory.make_agent(CoreId(cores as u16), &l2_of(gpu), "machine.gpu.shaders.l2")?;
    }
    Ok(())
}

impl ServerGpu {
    /// That of `scenario`, for `function`, whose tables lie as `layout` says.
    ///
    /// # Errors
    /// Shader cores that cannot be; tables without room in its memory.
    pub(super) fn of(
        scenario: &Scenario,
        function: &Function,
        layout: &ServerLayout,
        cores: u32,
    ) -> Result<Option<ServerGpu>, ScenarioError> {
        let Some(spec) = &scenario.machine.gpu else { return Ok(None) };
        let Some(ring) = region(scenario, &function.regions()) else { return Ok(None) };
        let first = match function {
            // Cores copy, and it forwards.
            Function::Vhost(_) => 1,
            _ => spec.first_function(&scenario.function),
        };
        let regions = function.regions_from(first);
        let of_tables: u64 = regions.iter().map(|region| region.bytes).sum();
        spec.check_room(of_tables)?;
        let all: Vec<RegionSpec> = regions.iter().chain([&ring]).cloned().collect();
        let Some(recorder) = LaneRecorder::new(&all) else {
            let message = format!(
                "tables of {}: allowed are 32 GiB for a GPU (take smaller tables)",
                units::Size::from_bytes(of_tables)
            );
            return Err(ScenarioError::Value { origin: "scenario".into(), path: "machine.gpu".into(), message });
        };
        // Of two that begin at one sector, all but the last are empty.
        let mut tables: Vec<(u32, u64)> = all
            .iter()
            .map(|region| (recorder.sector(region.id, 0) / 2, layout.address(region.id, 0, 0).0 / LINE_BYTES))
            .collect();
        tables.sort_unstable();
        let resident = spec.shaders.resident(&spec.kernel_of(&scenario.function)).map_err(under)?;
        let slots = spec.most_packets();
        let shaders = Shaders::new(&spec.shaders, resident).map_err(under)?;
        let integrated = spec.attached == GpuMemory::Integrated;
        Ok(Some(ServerGpu {
            results: spec.results_of(&scenario.function),
            first,
            routes: first == 0 || function.routes_from(first),
            below: (spec.share * 2f64.powi(32)) as u64,
            flows: Toeplitz::new(&RSS_KEY, 1),
            period: spec.shaders.frequency.period(),
            ring: ring.id,
            agent: CoreId(cores as u16),
            record: Record::new(),
            recorder,
            merger: Merger::new(),
            tables,
            block: spec.block.min(resident),
            filling: GpuBatch::default(),
            overdue: false,
            waiting: VecDeque::new(),
            ready: 0,
            copying: None,
            copied: VecDeque::new(),
            running: None,
            turn: Ps::MAX,
            executed: VecDeque::new(),
            returning: None,
            returned: None,
            handed: 0,
            held: 0,
            next_slot: 0,
            lanes: Lanes::default(),
            code: Code::new(),
            kernel: Kernel::default(),
            persistent: (spec.posting == GpuPosting::Persistent)
                .then(|| PersistentTasks::new(scenario, spec, &shaders)),
            shaders,
            places: if integrated { vec![0; slots as usize * SLOT_LINES as usize] } else { Vec::new() },
            counters: GpuCounters::default(),
            spec: spec.clone(),
        }))
    }

    /// What it has done up to `now`, the time so far of what is under way among it.
    pub(super) fn counters(&self, now: Ps) -> GpuCounters {
        let dram = self.shaders.memory().dram();
        let memory = self.shaders.memory().counters();
        let since = |batch: &Option<GpuBatch>, from: fn(&GpuBatch) -> Ps| {
            batch.as_ref().map_or(Ps::ZERO, |batch| now.since(from(batch)))
        };
        let back = |batch| since(batch, |batch| batch.back_from);
        let counters = GpuCounters { memory, dram_lines: dram.reads + dram.writes, ..self.counters };
        if let Some(own) = &self.persistent {
            return own.counters(counters, now);
        }
        GpuCounters {
            busy: self.counters.busy + since(&self.running, |batch| batch.begun),
            copying_in: self.counters.copying_in + since(&self.copying, |batch| batch.started),
            copying_back: self.counters.copying_back + back(&self.returning) + back(&self.returned),
            ..counters
        }
    }

    /// Packets that it has.
    pub(super) fn held(&self) -> u64 {
        self.held.into()
    }

    /// Whether a packet's flow goes to it.
    pub(super) fn wants(&self, packet: &Packet) -> bool {
        if self.below >> 32 > 0 {
            return true;
        }
        // Another part of the hash than that which names the queue.
        let hash = layers(&packet.data).map_or(0, |l| self.flows.hash(&l.hashed()));
        u64::from(hash.wrapping_mul(0x9e37_79b1).rotate_left(16)) < self.below
    }

    /// Who works on the burst of a core for which `waiting` packets wait, while some of its earlier ones are `away` or not.
    pub(super) fn way(&self, waiting: usize, away: bool) -> WayOfBurst {
        match self.spec.above {
            Some(above) if waiting < above as usize => {
                if away {
                    WayOfBurst::Held
                } else {
                    WayOfBurst::Core
                }
            }
            _ => WayOfBurst::Gpu,
        }
    }

    /// Whether one packet more finds room.
    pub(super) fn has_room(&self) -> bool {
        self.held < self.spec.most_packets()
    }

    /// The number of its first function in the chain: cores do those before.
    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// A core hands `packet` over, of which its own functions have said `so_far`: the others run on it, and the core's part of that
    /// goes into `script`.
    pub(super) fn hand_over(
        &mut self,
        function: &mut Function,
        now: Ps,
        packet: &mut Packet,
        so_far: Verdict,
        script: &mut impl Probe,
    ) -> Box<GpuTask> {
        self.held += 1;
        let entry = self.handed % u64::from(self.spec.most_packets()) * TASK_BYTES;
        self.handed += 1;
        script.begin(packet.id);
        script.touch(Ref::store(self.ring, entry, TASK_BYTES as u16, SITE_HAND_OVER));
        script.work(SITE_HAND_OVER + 1, PACKET_INSTRUCTIONS);
        script.end(packet.id);
        self.record.clear();
        let (one, mut said) = (std::slice::from_mut(packet), Vec::with_capacity(1));
        function.process_part(self.first..usize::MAX, now, one, &mut self.record, &mut said);
        self.record.replay(&mut self.recorder);
        self.recorder.end_lane();
        let verdict = match said.pop() {
            Some(Verdict::Forward { .. }) if !self.routes => so_far,
            Some(verdict) => verdict,
            None => so_far,
        };
        Box::new(GpuTask { verdict, lanes: self.recorder.take_lanes() })
    }

    /// What a core does for the ring's ends, once a burst.
    pub(super) fn call(script: &mut impl Probe) {
        script.work(SITE_HAND_OVER + 2, CALL_INSTRUCTIONS);
    }

    /// A core takes back packet `id`, which was in `slot`, or was held.
    pub(super) fn take_back(&self, id: PacketId, slot: Option<u32>, script: &mut impl Probe) {
        script.begin(id);
        if let Some(slot) = slot {
            let offset = u64::from(self.spec.most_packets()) * TASK_BYTES + u64::from(slot) * VERDICT_BYTES;
            script.touch(Ref::load(self.ring, offset, VERDICT_BYTES as u16, SITE_TAKE_BACK));
        }
        script.work(SITE_TAKE_BACK + 1, PACKET_INSTRUCTIONS);
        script.end(id);
    }

    /// Whether it sees what caches have, and they what it writes; one with memory of its own has nothing to do with them.
    fn is_coherent(&self) -> bool {
        self.spec.coherent || self.spec.attached == GpuMemory::Discrete
    }

    fn clock(&self, at: Ps) -> u64 {
        at.0.div_ceil(self.period.0)
    }

    fn time(&self, clock: u64) -> Ps {
        Ps(clock.saturating_mul(self.period.0))
    }

    /// Merges the lanes of `packets`, a warp at most, into a program: its number, and where they lie. Where they are
    /// `in_registers` it loads and stores nothing of them.
    fn merge(&mut self, packets: &[GpuPacket], in_registers: bool) -> (u32, WarpPlacement) {
        self.lanes.clear();
        let op = |word, site, kind| LaneOp { word, site, sectors: 1, kind, depends: false };
        let verdicts = u64::from(self.spec.most_packets()) * TASK_BYTES;
        for packet in packets {
            let slot = u64::from(packet.slot);
            let task = self.recorder.sector(self.ring, slot * TASK_BYTES);
            let verdict = self.recorder.sector(self.ring, verdicts + slot * VERDICT_BYTES);
            let (first, last) = (op(task, 0, OpKind::Load), op(verdict, SITE_LAST, OpKind::Store));
            if in_registers {
                self.lanes.append_in_registers(first, &packet.task.lanes, last);
            } else {
                self.lanes.append(first, &packet.task.lanes, last);
            }
        }
        let wanted: Vec<u32> = (0..packets.len() as u32).collect();
        // Functions that have a form for a warp take no locks.
        let Ok(program) = self.merger.merge(&self.lanes, &wanted, &mut self.code) else {
            unreachable!("lanes that wait for each other");
        };
        let of = self.code.program(program);
        self.counters.instructions += of.issued;
        self.counters.lanes += of.lanes;
        let base = self.recorder.table_sectors().div_ceil(2);
        let first = packets.first().map_or(0, |packet| packet.slot);
        (program, WarpPlacement { base, stride: SLOT_LINES, slots: self.spec.most_packets(), first })
    }

    /// Where the lines of `packets` are in the server's memory, for an integrated one.
    fn place(&mut self, packets: &[GpuPacket], layout: &ServerLayout, scattered: Option<&Scattered>) {
        for packet in packets {
            let at = (packet.slot * SLOT_LINES) as usize;
            let places = &mut self.places[at..at + SLOT_LINES as usize];
            match scattered {
                None => {
                    let line = layout.data(packet.received.mbuf).0 / LINE_BYTES;
                    places.iter_mut().zip(line..).for_each(|(place, line)| *place = line as u32);
                }
                Some(scattered) => {
                    let lines = scattered.lines_of(packet.received.mbuf);
                    let last = lines.last().copied().unwrap_or_default();
                    let all = lines.iter().copied().chain(std::iter::repeat(last));
                    places.iter_mut().zip(all).for_each(|(place, at)| *place = at.line().0 as u32);
                }
            }
        }
    }

    /// Lines of the ring that the tasks (or the verdicts) of `batch` are in: the first one and how many.
    fn ring_lines(&self, batch: &GpuBatch, layout: &ServerLayout, verdicts: bool) -> Vec<(Line, u64)> {
        let most = u64::from(self.spec.most_packets());
        let (base, each) = if verdicts { (most * TASK_BYTES, VERDICT_BYTES) } else { (0, TASK_BYTES) };
        let first = batch.packets.first().map_or(0, |packet| u64::from(packet.slot));
        let count = batch.packets.len() as u64;
        // Behind the ring's end is its beginning.
        let before = count.min(most - first);
        [(first, before), (0, count - before)]
            .into_iter()
            .filter(|&(_, count)| count > 0)
            .map(|(first, count)| lines(layout.address(self.ring, base + first * each, 0), count * each))
            .collect()
    }
}

/// Adds where `bytes` bytes of the packet in `mbuf` lie, `from` its frame's start on, as runs of lines.
fn part_of_packet(
    found: &mut Vec<(Line, u64)>,
    layout: &ServerLayout,
    scattered: Option<&Scattered>,
    mbuf: u32,
    (from, bytes): (u64, u64),
) {
    match scattered {
        None => {
            let mut at = layout.data(mbuf);
            at.0 += from;
            found.push(lines(at, bytes));
        }
        Some(scattered) => found.extend(scattered.runs(mbuf, from, bytes)),
    }
}

/// The runs of those of the first 32 lines of a packet's frame that have a bit: bytes from its start, and how many.
fn runs_of(mut bits: u32) -> impl Iterator<Item = (u64, u64)> {
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let first = bits.trailing_zeros();
        let count = (bits >> first).trailing_ones();
        bits &= u32::MAX.checked_shl(first + count).unwrap_or(0);
        Some((u64::from(first) * LINE_BYTES, u64::from(count) * LINE_BYTES))
    })
}

impl Server {
    /// Packets of a burst of core `i` that the GPU is to have join the batch that fills.
    pub(super) fn gather(&mut self, i: usize, mut packets: Vec<GpuPacket>) {
        let now = self.engine.now();
        let mut launches = 0;
        let Some(gpu) = &mut self.gpu else { return };
        for mut packet in packets.drain(..) {
            packet.core = i;
            packet.handed = now;
            packet.slot = gpu.next_slot;
            gpu.next_slot = (gpu.next_slot + 1) % gpu.spec.most_packets();
            if gpu.filling.packets.is_empty() {
                let deadline = now + gpu.spec.timeout.ps();
                let turn = GpuTurn::Deadline(gpu.filling.number);
                self.engine.schedule(deadline, PRIORITY_NIC, ServerEvent::Gpu(turn));
            }
            if gpu.spec.above.is_some() {
                self.cores[i].commit.push_back(None);
            }
            gpu.filling.packets.push(packet);
            if gpu.filling.packets.len() == gpu.spec.batch as usize {
                gpu.close(now, false);
                launches += 1;
            }
        }
        self.launch(i, launches);
    }

    /// The GPU's next step.
    pub(super) fn gpu_turn(&mut self, turn: GpuTurn, observer: &mut impl DepartureObserver) {
        let now = self.engine.now();
        let Some(gpu) = &mut self.gpu else { return };
        match turn {
            GpuTurn::Deadline(number) if gpu.filling.number == number && !gpu.filling.packets.is_empty() => {
                if !gpu.waiting.is_empty() || gpu.persistent.as_ref().is_some_and(PersistentTasks::is_full) {
                    gpu.overdue = true;
                    return;
                }
                self.close_late();
            }
            GpuTurn::Deadline(_) => {}
            GpuTurn::Launched => gpu.ready += 1,
            GpuTurn::CopyIn => self.copy_in(observer),
            // It was told to go on sooner.
            GpuTurn::Kernel if now != gpu.turn => return,
            GpuTurn::Kernel if gpu.persistent.is_some() => self.run_warps(),
            GpuTurn::Kernel => self.run_kernel(),
            GpuTurn::KernelDone => {
                if self.empties_l2() {
                    return;
                }
                let Some(gpu) = &mut self.gpu else { return };
                if let Some(mut batch) = gpu.running.take() {
                    batch.finished = now;
                    gpu.counters.busy += now - batch.begun;
                    gpu.executed.push_back(batch);
                }
            }
            GpuTurn::CopyBack => self.copy_back(observer),
            GpuTurn::Back => {
                if let Some(batch) = gpu.returned.take() {
                    gpu.counters.copying_back += now - batch.back_from;
                    self.hand_back(batch);
                }
            }
            GpuTurn::Poll
            | GpuTurn::Seen(_)
            | GpuTurn::Fetch(_)
            | GpuTurn::Fetched(_)
            | GpuTurn::Complete
            | GpuTurn::Write(_)
            | GpuTurn::Written(_) => return self.task_turn(turn, observer),
        }
        self.move_batches();
    }

    /// The batch that fills goes, since its time is up.
    fn close_late(&mut self) {
        let now = self.engine.now();
        let Some(gpu) = &mut self.gpu else { return };
        let core = gpu.filling.packets[0].core;
        gpu.close(now, true);
        // A core has posted what it had of a burst at that burst's end.
        let at_once = gpu.persistent.is_some() && gpu.spec.timeout.ps() == Ps::ZERO;
        if !at_once && self.cores[core].is_in_burst() {
            // It looks at the time when its burst is done.
            self.cores[core].to_launch += 1;
        } else {
            self.launch(core, 1);
        }
    }

    /// Memory has answered what the copy engine has asked for: it is done at `at`.
    pub(super) fn copied(&mut self, way: CopyWay, at: Ps) {
        let now = self.engine.now();
        let Some(gpu) = &mut self.gpu else { return };
        let batch = match way {
            CopyWay::In => &mut gpu.copying,
            CopyWay::Back if gpu.returning.is_some() => &mut gpu.returning,
            CopyWay::Back => &mut gpu.returned,
            CopyWay::Fetch(_) | CopyWay::Write(_) | CopyWay::Ring => return self.task_copied(way, at),
        };
        let Some(batch) = batch else { return };
        batch.awaited -= 1;
        batch.until = batch.until.max(at);
        if !batch.stalled || batch.awaited > 0 {
            return;
        }
        batch.stalled = false;
        let until = batch.until.max(now);
        match way {
            CopyWay::In => self.engine.schedule(until, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::CopyIn)),
            _ => self.come_back(until),
        }
    }

    /// Memory has answered what an integrated GPU has asked for under `ticket`, which comes at `at`.
    pub(super) fn answer_gpu(&mut self, ticket: Ticket, at: Ps) {
        let now = self.engine.now();
        let Some(gpu) = &mut self.gpu else { return };
        gpu.shaders.answered(ticket, at, now.0 / gpu.period.0, &gpu.code);
        if gpu.persistent.is_some() {
            return self.resume_warps();
        }
        // Nobody has something to do: a store was answered, or other loads are not.
        if gpu.running.is_none() || gpu.shaders.next() == u64::MAX {
            return;
        }
        let clock = gpu.kernel.told(&gpu.shaders);
        let turn = gpu.time(clock).max(now);
        if turn < gpu.turn {
            gpu.turn = turn;
            self.engine.schedule(turn, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::Kernel));
        }
    }

    /// A batch is back: its packets wait for the cores that have handed them over.
    fn hand_back(&mut self, batch: GpuBatch) {
        let now = self.engine.now();
        let Some(gpu) = &mut self.gpu else { return };
        let GpuBatch { packets, filled, started, copied, begun, finished, back_from, .. } = batch;
        let queued = (started - filled) + (begun - copied) + (back_from - finished);
        let copy = (copied - started) + (now - back_from);
        let count = packets.len() as u64;
        let counters = &mut gpu.counters;
        counters.packets += count;
        counters.queue += Ps(queued.0 * count);
        counters.copy += Ps(copy.0 * count);
        counters.kernel += Ps((finished - begun).0 * count);
        let mut woken: Vec<usize> = Vec::new();
        for packet in packets {
            let GpuPacket { mut received, frame_bytes, core, handed, mut before, task, slot } = packet;
            gpu.held -= 1;
            gpu.counters.fill += filled - handed;
            if !self.coarse.on {
                before.charge(Reason::GpuFill, filled - handed);
                before.charge(Reason::GpuQueue, queued);
                before.charge(Reason::GpuCopy, copy);
                before.charge(Reason::Gpu, finished - begun);
            }
            received.visible = now;
            let back = BackFromGpu { received, frame_bytes, before, verdict: task.verdict, slot: Some(slot) };
            let worker = &mut self.cores[core];
            // It is the first of its core that the GPU has.
            match worker.commit.iter_mut().find(|held| held.is_none()) {
                Some(place) => *place = Some(back),
                None => worker.returned.push_back(back),
            }
            if !woken.contains(&core) {
                woken.push(core);
            }
        }
        for core in woken {
            self.commit(core);
            self.wake(core, now);
        }
    }

    /// Packets of core `i` that wait for no earlier one are handed back.
    pub(super) fn commit(&mut self, i: usize) {
        let now = self.engine.now();
        let worker = &mut self.cores[i];
        while let Some(front) = worker.commit.front_mut()
            && let Some(mut back) = front.take()
        {
            worker.commit.pop_front();
            if !self.coarse.on {
                back.before.charge(Reason::Commit, now - back.received.visible);
            }
            back.received.visible = now;
            worker.returned.push_back(back);
        }
    }
}

impl GpuBatch {
    /// The batch that fills is whole at `now`, and the next one fills.
    fn close(&mut self, now: Ps) -> GpuBatch {
        let next = GpuBatch { number: self.number + 1, ..GpuBatch::default() };
        GpuBatch { filled: now, ..std::mem::replace(self, next) }
    }
}

impl GpuCounters {
    /// `batch` is whole, or its time is up.
    fn close(&mut self, batch: &GpuBatch, is_late: bool) {
        self.batches += 1;
        self.late += u64::from(is_late);
        self.launched += batch.packets.len() as u64;
    }
}

impl ServerGpu {
    /// The batch that fills is whole at `now`, or its time is up, and wants to be launched.
    fn close(&mut self, now: Ps, is_late: bool) {
        self.overdue = false;
        let batch = self.filling.close(now);
        self.counters.close(&batch, is_late);
        self.waiting.push_back(batch);
    }
}

impl GpuPacket {
    /// A packet that a core hands over with `task`, at the end of its burst.
    pub(super) fn new(received: Received, frame_bytes: u32, before: Box<Attribution>, task: Box<GpuTask>) -> GpuPacket {
        GpuPacket { received, frame_bytes, core: 0, handed: Ps::ZERO, before, task, slot: 0 }
    }
}

/// A copy engine reads lines: when it has them, their translation counted; of those that memory answers later, no sooner. The longest
/// translation is in `translated`.
fn read(memory: &mut Hierarchy, (first, count): (Line, u64), now: Ps, translated: &mut Ps) -> Ps {
    let at = memory.dma_read(first, count, now);
    *translated = (*translated).max(memory.translated());
    at + memory.translated()
}

/// A copy engine writes lines, as [`read`].
fn write(memory: &mut Hierarchy, (first, count): (Line, u64), now: Ps, translated: &mut Ps) -> Ps {
    let at = memory.dma_write(first, count, now);
    *translated = (*translated).max(memory.translated());
    at + memory.translated()
}

#[cfg(test)]
mod tests {
    use super::runs_of;

    #[test]
    fn runs_are_those_of_the_bits() {
        let of = |bits| runs_of(bits).collect::<Vec<_>>();
        assert_eq!(of(0), []);
        assert_eq!(of(0b1), [(0, 64)]);
        assert_eq!(of(0b1101_1000), [(3 * 64, 2 * 64), (6 * 64, 2 * 64)]);
        assert_eq!(of(u32::MAX), [(0, 32 * 64)]);
        assert_eq!(of(1 << 31 | 1), [(0, 64), (31 * 64, 64)]);
    }
}
