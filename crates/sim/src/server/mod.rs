//! A server that forwards packets: ports, NIC, rings, cores, memory. Cores run to completion, or some receive and
//! the others work (`pipeline`).
//!
//! A packet's last bit arrives; the NIC takes a descriptor of the queue that RSS names and writes
//! packet and descriptor through PCIe into the memory system; the core polls, takes a burst, runs
//! the function, and hands what leaves to the transmit queues; the NIC reads it back and sends it.
//!
//! The function runs at the start of its burst in zero simulated time; its references are replayed
//! by the core. Everything that touches the shared part of memory happens in order of time.
//!
//! Sojourn is from the last bit in to the first bit out (RFC 1242, store-and-forward devices).

pub(crate) mod clos;
pub mod control_plane;
mod elastic;
mod functional;
pub mod gpu;
mod intake;
pub mod lives;
mod mappings;
pub mod neighbours;
mod nic_memory;
mod output;
pub(crate) mod owners;
mod pending;
pub mod placing;
mod rings;
mod saved;
mod spread;
mod stalls;
pub(crate) mod take_over;

use std::collections::VecDeque;

use control::Allocation;
use engine::{Engine, Seed};
use functions::upf::FlowCounters;
use functions::{Function, MemberTotals, PacketFunction, Verdict};
use machine::MachineError;
use machine::buffer::{BufferCounters, BufferSpec, PacketBuffer};
use machine::cores::{BurstPacket, Core, CoreSpec, CoreStep};
use machine::memory::{DmaTarget, Hierarchy, TargetsSpec};
use machine::nic::{
    Credits, Doorbells, DriverSpec, Mempool, PACKET_BUFFER, PcieLink, PipelineSpec, RSS_KEY, RX_COMPLETIONS, RX_RING,
    Received, RxQueues, ServerLayout, SoftQueue, TX_RING, Toeplitz, TxQueue, choose_worker,
};
use packet::{Packet, layers};
use probe::{RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::Serialize;
use stats::{Attribution, Reason};
use traffic::Source;
use units::{Addr, Clos, CoreId, LINE_BYTES, Line, PacketId, PortId, Ps, Rate, Span};

use crate::scenario::clos::{RX_CLASS, WORK_CLASS, of_core};
use crate::scenario::neighbours as others;
use crate::scenario::{Scenario, ScenarioError};
use crate::server::control_plane::{ControlTables, count_burst};
use crate::server::elastic::Elastic;
use crate::server::functional::{CoarseClock, Device};
use crate::server::gpu::{BackFromGpu, CommitOrder, GpuCounters, GpuPacket, GpuTask, GpuTurn, ServerGpu, WayOfBurst};
use crate::server::intake::Intake;
use crate::server::lives::{LifeStage, LifeWriter};
use crate::server::neighbours::{Neighbour, NeighbourCounters};
use crate::server::nic_memory::NicMemory;
use crate::server::output::NicOutput;
use crate::server::pending::PendingIo;
use crate::server::placing::{DeadPackets, PacketStarts, PlacingCounters};
use crate::server::rings::{CommonRings, TakenBuffer};
use crate::server::stalls::SystemStalls;

pub use saved::belonging;

/// What becomes of an offered packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum PacketFate {
    /// It left by this port.
    Sent(PortId),
    /// The function rejected it.
    Rejected(functions::DropReason),
    /// It was lost for want of a resource.
    Lost(Loss),
}

/// For want of what a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Loss {
    /// All receive descriptors of its queue were used.
    NoRxDescriptor,
    /// Receive descriptors of its queue were without mbufs, since the pool was empty.
    NoMbuf,
    /// The NIC's packet memory was full.
    NicFifoFull,
    /// The software queue of its worker was full.
    QueueFull,
    /// The transmit queue was full.
    NoTxDescriptor,
    /// The packet buffer had no room, or its frontier not yet.
    NoBuffer,
}

impl Loss {
    /// All of them.
    pub const ALL: [Loss; 6] =
        [Loss::NoRxDescriptor, Loss::NoMbuf, Loss::NicFifoFull, Loss::QueueFull, Loss::NoTxDescriptor, Loss::NoBuffer];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Loss::NoRxDescriptor => "no_rx_descriptor",
            Loss::NoMbuf => "no_mbuf",
            Loss::NicFifoFull => "nic_fifo_full",
            Loss::QueueFull => "queue_full",
            Loss::NoTxDescriptor => "no_tx_descriptor",
            Loss::NoBuffer => "no_buffer",
        }
    }
}

/// A packet's end.
#[derive(Clone, Copy, Debug)]
pub struct Departure<'a> {
    /// Which.
    pub packet: PacketId,
    /// When its last bit arrived.
    pub arrival: Ps,
    /// Bytes of its frame without FCS, as it arrived.
    pub frame_bytes: u32,
    /// The core that had it; of a lost packet the one it was meant for.
    pub core: CoreId,
    /// What became of it.
    pub fate: PacketFate,
    /// Of a sent packet: last bit in to first bit out.
    pub sojourn: Ps,
    /// Of a sent packet: what the sojourn was spent on. Sums to it if the server was in detail all the while.
    pub attribution: &'a Attribution,
}

/// Sees every packet's end.
pub trait DepartureObserver {
    /// A packet has left, was rejected or lost.
    fn departure(&mut self, departure: &Departure);

    /// The NIC writes (or reads, to send) `lines` lines of a packet from `first` on. Its own references, before any cache;
    /// those of cores are not told.
    #[inline]
    fn packet_lines(&mut self, first: Line, lines: u64, write: bool) {
        let _ = (first, lines, write);
    }
}

/// Where [`Server::advance`] returns.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    /// When so many packets have been offered.
    pub offered: u64,
    /// At the first arrival at or after this time.
    pub at: Ps,
}

/// Counters of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, derive_more::Sub, Serialize, JsonSchema)]
pub struct CoreCounters {
    /// Packets it took from its ring.
    pub packets: u64,
    /// Bursts.
    #[serde(skip)]
    pub bursts: u64,
    /// Time in bursts.
    #[serde(skip)]
    pub busy: Ps,
    /// What that was spent on, in bursts that are over and were in detail.
    #[serde(skip)]
    pub spent: Attribution,
    /// Packets of each burst, squared and summed.
    #[serde(skip)]
    pub burst_squares: u64,
    /// Packets of each burst times its time in picoseconds, summed.
    #[serde(skip)]
    pub burst_time: u64,
    /// Instructions, polling in vain not counted.
    #[serde(skip)]
    pub instructions: u64,
    /// Doorbells that its driver rang: writes of the tail register of its receive queue, for a refill, or of a transmit queue,
    /// for what a burst sends there.
    pub doorbells: u64,
    /// Mbufs that its driver wanted and the pool did not have, counted at each try (`rx_nombuf` of
    /// `rte_eth_stats`).
    #[serde(skip)]
    pub rx_nombuf: u64,
}

state::state!(CoreCounters {
    values: [packets, bursts, busy, spent, burst_squares, burst_time, instructions, doorbells, rx_nombuf],
    arrays: [],
    parts: [],
    built: [],
});

/// Where the mbufs of a pool are; the sum is the pool's size (equation 2 of 5GC2ache, which counts what is sent as
/// queued).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MbufStates {
    /// In receive descriptors: for packets to come, and with packets that no core has taken.
    pub descriptors: u64,
    /// In software queues between receiving and working cores, and with a GPU.
    pub queued: u64,
    /// In bursts, and in transmit rings until the driver has given them back.
    pub sending: u64,
    /// In the pool and its per-core caches.
    pub free: u64,
}

/// The server. See the module header. A clone goes on from where this stands, apart from it; both share the packet
/// function's tables that nothing changes.
#[derive(Clone)]
pub struct Server {
    engine: Engine<ServerEvent>,
    source: Source,
    /// When its time began.
    source_from: Ps,
    /// Of its time, what passed while packets were left out.
    left_out: Ps,
    next: Packet,
    more: bool,
    offer: u64,
    offered: u64,
    wire: Rate,
    wire_free: Ps,

    rss: Toeplitz,
    pipeline: Option<WorkerDispatch>,
    /// Cores that poll a queue of the NIC, the first ones.
    receiving: usize,
    queues_per_core: usize,
    up: PcieLink,
    credits: Credits,
    down: PcieLink,
    fifo_bytes: u64,
    /// Packets that cross PCIe, in order.
    crossing: VecDeque<Crossing>,
    /// How many of them, the oldest, wait for credits only, and their bytes, which the NIC holds.
    stalled: usize,
    stalled_bytes: u64,

    memory: Hierarchy,
    /// What waits for memory that answers later.
    pending: Option<Box<PendingIo>>,
    /// What the NIC sends, where queues take turns.
    output: Option<Box<NicOutput>>,
    layout: ServerLayout,
    pool: Mempool,
    /// Its size.
    mbufs: u64,
    /// Rings of empty buffers, where not each queue takes from its own alone.
    common: Option<Box<CommonRings>>,
    /// Where what the NIC receives goes, if not the usual way.
    targets: Option<TargetsSpec>,
    /// Packets whose lines are given up once they are dead.
    dead: Option<Box<DeadPackets>>,
    placing: PlacingCounters,
    /// Packets that wait in the NIC's memory for want of descriptors.
    elastic: Option<Box<Elastic>>,
    /// Payload that stays in the NIC.
    nic_memory: Option<Box<NicMemory>>,
    /// Where packets begin in their mbufs.
    starts: Option<Box<PacketStarts>>,
    /// What gives packets their memory in place of their mbufs.
    scattered: Option<Box<Scattered>>,
    cores: Vec<ServerCore>,
    function: Function,
    poll: Ps,
    core_spec: CoreSpec,
    driver: DriverSpec,
    /// See [`Scenario::instruction_parts`].
    instruction_parts: Option<u64>,
    /// Packets that the NIC has not taken in yet, where it takes its time for each.
    intake: Option<Box<Intake>>,
    /// When the NIC may have the next packet to send.
    next_read: Ps,
    packet_interval: Ps,
    /// Whether the last advance ended at its pause.
    paused: bool,
    rx_pipeline: Ps,
    tx_pipeline: Ps,
    burst: usize,
    /// When each port is free to send.
    port_free: Vec<Ps>,
    batches: Vec<Option<TxBurst>>,
    free_batches: Vec<usize>,
    /// Emptied packets, for their memory.
    spare: Vec<Packet>,
    received: Vec<Received>,
    verdicts: Vec<Verdict>,
    /// Mbufs of packets that end in their burst.
    freed: Vec<u32>,
    /// Mbufs that the NIC has sent and the driver gives back in a burst.
    gone: Vec<u32>,
    /// Packets on their way to their worker.
    handed: Vec<(usize, Handed)>,
    /// Of the descriptors that the NIC reads.
    lines: Vec<Line>,
    locks: Locks,
    neighbours: Vec<Neighbour>,
    /// Where packets go that cores do not work on themselves.
    gpu: Option<Box<ServerGpu>>,
    /// Lines of counters that each packet core writes a burst, where somebody reads them.
    statistics: Option<u32>,
    coarse: CoarseClock,
    /// Packets that were offered and have not ended.
    inside: u64,
    last_departure: Ps,
    /// Packets lost for want of anything.
    lost: u64,
    /// What is written down of packets one by one, where somebody wants to see it.
    lives: Option<Box<LifeWriter>>,
}

state::state!(Server {
    values: [
        engine,
        source_from,
        left_out,
        next,
        more,
        offer,
        offered,
        wire_free,
        credits,
        crossing,
        stalled,
        stalled_bytes,
        pool,
        common,
        dead,
        placing,
        elastic,
        nic_memory,
        starts,
        batches,
        free_batches,
        locks,
        coarse,
        inside,
        last_departure,
        lost,
        intake,
        next_read
    ],
    arrays: [port_free],
    parts: [source, up, down, pending, output, scattered, cores, function, neighbours, gpu],
    described: [memory],
    // What is as the scenario has it, and what is empty between two events.
    built: [
        wire,
        rss,
        pipeline,
        receiving,
        queues_per_core,
        fifo_bytes,
        layout,
        mbufs,
        targets,
        poll,
        burst,
        spare,
        received,
        verdicts,
        freed,
        gone,
        handed,
        statistics,
        lines,
        core_spec,
        driver,
        instruction_parts,
        packet_interval,
        rx_pipeline,
        tx_pipeline,
        paused,
        lives
    ],
});

#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Crossing {
    received: Received,
    buffer: TakenBuffer,
    core: usize,
    /// What is written: the packet, and its descriptor or completion.
    bytes: u64,
}

#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
enum ServerEvent {
    /// The last bit of the next packet is in.
    Arrival,
    /// The NIC takes in the next packet that waits for it.
    Intake,
    /// The next crossing packet reaches the memory system.
    DmaWrite,
    /// A packet of this queue, of all, has come out of the NIC's memory.
    Fetched(usize),
    /// Credits for the oldest packet that waits for them are back.
    Credits,
    /// A core polls, goes on, or completes its burst.
    Core(usize),
    /// The NIC reads the descriptors of a batch that a core has handed over.
    ReadDescriptors(usize),
    /// The NIC reads the packets of a batch.
    ReadPackets(usize),
    /// The NIC reads a block of a packet.
    Output,
    /// A neighbour goes on.
    Neighbour(usize),
    /// The GPU's next step.
    Gpu(GpuTurn),
    /// Memory that answers later has its turn.
    Memory,
    /// A core over such memory goes on with its replay, if this version of its turn is still wanted.
    Replay(usize, u32),
}

/// The region of an allocator's packets.
const BUFFER: &str = "packet buffer";

/// Events at the same time: memory gets packets before cores look for them.
const PRIORITY_NIC: u8 = 0;
const PRIORITY_CORE: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum CoreState {
    /// Polls since this time; an event is scheduled only if a packet is there.
    Polling(Ps),
    /// A poll that will find a packet is scheduled.
    Waking,
    /// No packet is there, and none can come: a poll that looks for mbufs is scheduled.
    Starving,
    Running,
    /// The burst is replayed and its end is scheduled.
    Finishing,
}

/// How received packets find their worker.
#[derive(Clone)]
struct WorkerDispatch {
    spec: PipelineSpec,
    /// Over the workers, by the hash of what decides.
    workers: Toeplitz,
}

/// Where a core takes packets from.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
enum CoreInput {
    Nic(RxQueues),
    /// What a receiving core has handed over, and its queue.
    Queue(SoftQueue, VecDeque<Handed>),
}

/// A packet that a receiving core has handed over at `visible`.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Handed {
    received: Received,
    /// What the time from its arrival until it was handed over was spent on.
    before: Box<Attribution>,
}

impl CoreInput {
    /// When the oldest packet became visible.
    fn oldest(&self) -> Option<Ps> {
        match self {
            CoreInput::Nic(rx) => rx.oldest(),
            CoreInput::Queue(_, handed) => handed.front().map(|h| h.received.visible),
        }
    }

    fn waiting(&self) -> usize {
        match self {
            CoreInput::Nic(rx) => rx.waiting(),
            CoreInput::Queue(_, handed) => handed.len(),
        }
    }
}

#[derive(Clone)]
struct ServerCore {
    core: Core,
    input: CoreInput,
    /// A transmit queue a port.
    tx: Vec<TxQueue>,
    state: CoreState,
    /// The latest time at which a packet became visible: descriptors complete in order.
    latest_visible: Ps,
    started: Ps,
    in_burst: Vec<InBurst>,
    packets: Vec<Packet>,
    /// Packets that the GPU has worked on, in order.
    returned: VecDeque<BackFromGpu>,
    /// Those that leave in order, where some are not back.
    commit: CommitOrder,
    /// Until when it launches batches.
    busy_until: Ps,
    /// Batches whose time was up while it worked on its burst.
    to_launch: u32,
    /// Of its burst's time, what it launched batches in, which is counted where they are launched.
    launching: Ps,
    /// When the NIC began to read the packets of its latest batch.
    read_from: Ps,
    /// Mbufs that its burst gives up, each with its packet.
    dead: Vec<(u32, u64)>,
    /// Its doorbells, and those of its burst: see [`ServerCore::doorbells`].
    bells: Doorbells,
    to_ring: (bool, u32),
    /// What they take, and the stalls of its burst; what it waits for buffers to be unmapped is in it, too.
    ringing: Ps,
    /// What it waits for buffers to be unmapped.
    unmapping: Ps,
    /// What the system takes from it.
    system: Option<Box<SystemStalls>>,
    /// Its burst was replayed the functional way.
    at_once: bool,
    /// Its burst has been in detail since it began.
    in_detail: bool,
    /// Instructions before its burst.
    before: u64,
    counters: CoreCounters,
}

impl ServerCore {
    /// When the oldest packet became visible that it has to take.
    fn oldest(&self) -> Option<Ps> {
        let back = self.returned.front().map(|back| back.received.visible);
        self.input.oldest().into_iter().chain(back).min()
    }

    /// Whether its burst rings a doorbell for its receive queue, since it was refilled, and how many it rings for what it sends: one
    /// of each port that something goes to.
    fn doorbells(&self) -> (bool, u32) {
        let refilled = matches!(&self.input, CoreInput::Nic(rx) if rx.rings());
        let ports = self.in_burst.iter().fold(0u64, |ports, entry| match entry.next {
            NextStop::Ends(PacketFate::Sent(PortId(port))) => ports | 1 << port,
            _ => ports,
        });
        (refilled, ports.count_ones())
    }
}

impl ServerCore {
    /// Its burst begins at `now` and stalls it so long, once it has launched what it launches.
    fn begin_at(&mut self, now: Ps, stalls: Ps) {
        self.launching = self.busy_until.since(now);
        self.ringing = stalls + self.launching;
    }

    /// Its burst is replayed at `at`; when its doorbells are rung and its stalls are over. That of the receive queue is rung
    /// in the middle of the burst, which that is taken to be, and those of what it sends at the end.
    fn rung(&mut self, at: Ps) -> Ps {
        let (refilled, sent) = std::mem::take(&mut self.to_ring);
        let mut end = at + self.ringing + self.unmapping;
        if refilled {
            let middle = self.started + Ps((end - self.started).0 / 2);
            end += self.bells.ring(middle) - middle;
        }
        for _ in 0..sent {
            end = self.bells.ring(end);
        }
        self.ringing = end - at;
        end
    }
}

state::state!(ServerCore {
    values: [
        input,
        tx,
        state,
        latest_visible,
        started,
        in_burst,
        packets,
        returned,
        commit,
        busy_until,
        to_launch,
        launching,
        read_from,
        dead,
        bells,
        to_ring,
        ringing,
        unmapping,
        system,
        at_once,
        in_detail,
        before
    ],
    arrays: [],
    parts: [core, counters],
    built: [],
});

/// A packet of the burst that a core works on.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct InBurst {
    arrival: Ps,
    frame_bytes: u32,
    dma_memory: Ps,
    in_nic: Ps,
    translated: Ps,
    visible: Ps,
    /// What became of a packet before this core had it.
    before: Option<Box<Attribution>>,
    next: NextStop,
    mbuf: u32,
    /// What goes to the GPU with it.
    task: Option<Box<GpuTask>>,
}

impl InBurst {
    /// What its time up to the end of its burst was spent on; `replayed` is that of the burst, which began at `started`.
    fn spent(&self, replayed: Attribution, started: Ps) -> Attribution {
        let mut attribution = replayed;
        let waited = started - self.visible;
        match &self.before {
            Some(before) => {
                attribution += before;
                attribution.charge(Reason::Queue, waited);
            }
            None => {
                let elsewhere = self.in_nic + self.dma_memory + self.translated;
                attribution.charge(Reason::Nic, self.in_nic);
                attribution.charge(Reason::Pcie, self.visible - self.arrival - elsewhere);
                attribution.charge(Reason::DmaMemory, self.dma_memory);
                attribution.charge(Reason::Iommu, self.translated);
                attribution.charge(Reason::Ring, waited);
            }
        }
        attribution
    }
}

/// Where a packet goes from its burst.
#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
enum NextStop {
    Ends(PacketFate),
    /// To this core.
    Worker(usize),
    /// To the GPU.
    Gpu,
    /// Nowhere before earlier packets that the GPU has; then as this says.
    Held(Verdict),
}

/// What a core hands to the NIC at the end of a burst.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct TxBurst {
    core: usize,
    at: Ps,
    /// What reading the descriptors waited for memory, and of that for its translation.
    in_memory: Ps,
    translated: Ps,
    packets: Vec<Leaving>,
}

/// What a batch's packets have in common: its core, when it was handed over, and what its descriptors waited for memory,
/// and of that for their translation.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct HandedOver {
    core: usize,
    at: Ps,
    in_memory: Ps,
    translated: Ps,
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Leaving {
    id: PacketId,
    arrival: Ps,
    frame_bytes: u32,
    /// As it leaves.
    sent_bytes: u32,
    /// See [`Packet::moved`].
    moved: i32,
    port: PortId,
    mbuf: u32,
    attribution: Attribution,
    /// What its addresses took to be translated when it was read.
    translated: Ps,
}

/// The pool of a scenario, its mbufs in the order in which they are given first.
fn pool_of(scenario: &Scenario, seed: Seed) -> Mempool {
    let mut pool = Mempool::new(&scenario.mempool, scenario.machine.cores);
    if scenario.mempool.shuffled {
        let mut order = seed.stream("mempool.order");
        pool.shuffle(|n| rand::RngExt::random_range(&mut order, 0..n));
    }
    pool
}

/// The memory system of `scenario`, and where in it everything lies.
fn placed(
    scenario: &Scenario,
    function: &Function,
    pool: &Mempool,
    seed: Seed,
) -> Result<(Hierarchy, ServerLayout), ScenarioError> {
    let (m, nic) = (&scenario.machine, &scenario.nic);
    let all_cores = m.cores + others::cores(&scenario.neighbours);
    let mut memory = Hierarchy::new(&m.memory(), all_cores + scenario.agents(), "machine")?;
    gpu::join(scenario, &mut memory, all_cores)?;
    let mut regions = function.regions();
    let tables = regions.len();
    regions.extend(gpu::region(scenario, &regions));
    regions.extend(scenario.pipeline.as_ref().map(|p| p.region(m.cores)));
    regions.extend(scenario.buffer.as_ref().map(|buffer| RegionSpec {
        id: PACKET_BUFFER,
        name: BUFFER.into(),
        bytes: buffer.size.bytes(),
        sharing: Sharing::Shared,
    }));
    regions.extend(nic.payload_memory.as_ref().map(|_| NicMemory::region(scenario.mempool.size)));
    regions.extend(others::region(&scenario.neighbours));
    regions.extend(others::statistics(&scenario.neighbours, m.cores));
    let layout = ServerLayout::new(
        m.cores,
        (scenario.mempool.size, scenario.mempool.stride()),
        pool.ring_bytes(),
        nic,
        &regions,
        |group, name| match name {
            BUFFER => m.buffer_alignment(group, name),
            _ => m.page_of(group, name),
        },
    )?;
    m.place(&mut memory, &layout)?;
    if let Some(spec) = &nic.payload_memory {
        let window = NicMemory::region(scenario.mempool.size);
        let (first, count) = lines(layout.address(window.id, 0, 0), window.bytes);
        memory.put_into_nic(first.0..first.0 + count, spec.read.ps());
    }
    clos::apply(&m.clos, &mut memory)?;
    owners::tell(&mut memory, scenario, &layout, &regions[..tables], seed)?;
    memory.hold_tails(nic.cache_cells, scenario.receiving_cores(), "nic.cache_cells")?;
    Ok((memory, layout))
}

/// What control planes work on.
fn control_tables(scenario: &Scenario, function: &Function) -> Result<ControlTables, ScenarioError> {
    let stride = others::statistics_lines(&scenario.neighbours).unwrap_or(0);
    let writes = scenario.neighbours.iter().position(|neighbour| neighbour.routes.is_some());
    let routes = if writes.is_some() { function.route_places() } else { Vec::new() };
    match writes.filter(|_| routes.is_empty()) {
        Some(i) => Err(ScenarioError::Value {
            origin: "scenario".into(),
            path: format!("neighbours[{i}].routes"),
            message: "the table has no route: allowed with at least one (function.forward.table or prefixes)".into(),
        }),
        None => Ok(ControlTables { routes: routes.into(), cores: scenario.machine.cores, stride }),
    }
}

impl ServerCore {
    /// Those of `scenario`; receive queues take their mbufs from `pool`.
    fn of_all(scenario: &Scenario, pool: &mut Mempool, poll: Ps, seed: Seed) -> Result<Vec<ServerCore>, ScenarioError> {
        let (m, nic) = (&scenario.machine, &scenario.nic);
        // Polls of different cores are not in step.
        let mut phases = seed.stream("machine.core.poll_phase");
        let mut all = Vec::with_capacity(m.cores as usize);
        for i in 0..m.cores as u16 {
            let mut core = Core::new(&m.core, CoreId(i), "machine.core")?;
            let input = match &scenario.pipeline {
                Some(pipeline) if u32::from(i) >= pipeline.rx_cores => {
                    CoreInput::Queue(SoftQueue::new(pipeline, u32::from(i)), VecDeque::new())
                }
                _ => {
                    let Some(rx) = RxQueues::new(nic, scenario.mempool.stride(), CoreId(i), pool) else {
                        return Err(scenario.pool_too_small());
                    };
                    CoreInput::Nic(rx)
                }
            };
            core.set_clos(of_core(&m.clos, i.into()).unwrap_or(match input {
                CoreInput::Nic(_) => RX_CLASS,
                CoreInput::Queue(..) => WORK_CLASS,
            }));
            let phase = Ps(rand::RngExt::random_range(&mut phases, 0..poll.0.max(1)));
            all.push(ServerCore {
                core,
                input,
                tx: (0..nic.ports).map(|port| TxQueue::new(nic, port)).collect(),
                state: CoreState::Polling(phase),
                latest_visible: Ps::ZERO,
                started: Ps::ZERO,
                in_burst: Vec::new(),
                packets: Vec::new(),
                returned: VecDeque::new(),
                commit: VecDeque::new(),
                busy_until: Ps::ZERO,
                to_launch: 0,
                launching: Ps::ZERO,
                read_from: Ps::ZERO,
                dead: Vec::new(),
                bells: Doorbells::new(nic),
                to_ring: (false, 0),
                ringing: Ps::ZERO,
                unmapping: Ps::ZERO,
                system: m.core.stalls.as_ref().map(|stalls| {
                    Box::new(SystemStalls::new(stalls, seed.stream(&format!("machine.core.stalls.{i}"))))
                }),
                at_once: false,
                in_detail: true,
                before: 0,
                counters: CoreCounters::default(),
            });
        }
        Ok(all)
    }
}

impl Server {
    /// Builds the server of `scenario` around a function and a traffic source that gives `offer`
    /// packets.
    ///
    /// # Errors
    /// A machine that cannot be built.
    pub fn new(
        scenario: &Scenario,
        function: Function,
        source: Source,
        offer: u64,
        seed: Seed,
    ) -> Result<Server, ScenarioError> {
        let (m, nic, ports) = (&scenario.machine, &scenario.nic, usize::from(scenario.nic.ports));
        let mut pool = pool_of(scenario, seed);
        let (memory, layout) = placed(scenario, &function, &pool, seed)?;
        let all_cores = m.cores + others::cores(&scenario.neighbours);
        let gpu = ServerGpu::of(scenario, &function, &layout, all_cores)?.map(Box::new);
        let poll = Ps(m.core.period().0 * u64::from(m.core.poll_cycles));
        let scattered = Scattered::of(scenario, &layout, seed)?.map(Box::new);
        let common = CommonRings::of(scenario, &mut pool)?;
        let cores = ServerCore::of_all(scenario, &mut pool, poll, seed)?;
        let tables = control_tables(scenario, &function)?;
        let mut server = Server {
            engine: Engine::new(),
            source,
            source_from: Ps::ZERO,
            left_out: Ps::ZERO,
            next: Packet::default(),
            more: true,
            offer,
            offered: 0,
            wire: nic.rate,
            wire_free: Ps::ZERO,
            rss: Toeplitz::new(&RSS_KEY, (scenario.receiving_cores() * nic.queues_per_core) as u16),
            pipeline: scenario.pipeline.clone().map(|spec| WorkerDispatch {
                workers: Toeplitz::new(&RSS_KEY, (m.cores - spec.rx_cores) as u16),
                spec,
            }),
            receiving: scenario.receiving_cores() as usize,
            queues_per_core: nic.queues_per_core as usize,
            core_spec: m.core.clone(),
            driver: nic.driver.clone(),
            instruction_parts: scenario.instruction_parts(),
            intake: Intake::of(nic, scenario.receiving_cores() * nic.queues_per_core).map(Box::new),
            next_read: Ps::ZERO,
            packet_interval: nic.packet_interval.map_or(Ps::ZERO, Span::ps),
            paused: false,
            rx_pipeline: nic.rx_pipeline.map_or(Ps::ZERO, Span::ps),
            tx_pipeline: nic.tx_pipeline.map_or(Ps::ZERO, Span::ps),
            up: PcieLink::new(&nic.pcie),
            credits: Credits::new(&nic.pcie),
            down: PcieLink::new(&nic.pcie),
            fifo_bytes: nic.fifo.bytes(),
            crossing: VecDeque::new(),
            stalled: 0,
            stalled_bytes: 0,
            pending: memory.has_controllers().then(|| Box::new(PendingIo::new(m.cores as usize, ports))),
            output: nic.output_block.map(|n| Box::new(NicOutput::new(n, nic.cache_cells, m.cores as usize, ports))),
            memory,
            nic_memory: NicMemory::of(scenario, &layout),
            layout,
            pool,
            mbufs: scenario.mempool.size.into(),
            common,
            targets: nic.targets.clone(),
            dead: DeadPackets::of(scenario),
            placing: PlacingCounters::default(),
            elastic: Elastic::of(scenario),
            starts: PacketStarts::of(scenario),
            scattered,
            cores,
            function,
            poll,
            burst: nic.burst as usize,
            port_free: vec![Ps::ZERO; usize::from(nic.ports)],
            batches: Vec::new(),
            free_batches: Vec::new(),
            spare: Vec::new(),
            received: Vec::new(),
            verdicts: Vec::new(),
            freed: Vec::new(),
            gone: Vec::new(),
            handed: Vec::new(),
            lines: Vec::new(),
            locks: Locks::default(),
            coarse: CoarseClock::new(m.cores as usize, others::cores(&scenario.neighbours) as usize),
            gpu,
            statistics: others::statistics_lines(&scenario.neighbours),
            neighbours: Neighbour::of_all(&scenario.neighbours, &m.clos, &m.core, &tables, |i| {
                seed.stream(&format!("neighbours.{i}"))
            })?,
            inside: 0,
            last_departure: Ps::ZERO,
            lost: 0,
            lives: None,
        };
        server.draw_arrival();
        for (i, neighbour) in server.neighbours.iter_mut().enumerate() {
            server.engine.schedule(neighbour.begin(), PRIORITY_CORE, ServerEvent::Neighbour(i));
        }
        Ok(server)
    }

    /// Handles up to `events` events, and no more after the packet that reaches `pause` has arrived; `false` once
    /// all is done.
    pub fn advance(&mut self, events: usize, pause: Pause, observer: &mut impl DepartureObserver) -> bool {
        self.paused = false;
        for _ in 0..events {
            let Some(event) = self.engine.pop() else { return false };
            match event {
                ServerEvent::Arrival => {
                    self.arrival(observer);
                    if self.offered >= pause.offered || self.engine.now() >= pause.at {
                        self.paused = true;
                        return true;
                    }
                }
                ServerEvent::Intake => self.intake_turn(observer),
                ServerEvent::DmaWrite => {
                    if let Some(next) = self.crossing.get(self.stalled) {
                        self.stalled_bytes += next.bytes;
                        self.stalled += 1;
                    }
                    // With others before it it has to wait in any case.
                    if self.stalled == 1 {
                        self.dma_writes(observer);
                    }
                }
                ServerEvent::Fetched(queue) => self.fetched(queue),
                ServerEvent::Credits => self.dma_writes(observer),
                ServerEvent::Core(i) => self.core(i, observer),
                ServerEvent::ReadDescriptors(batch) => self.read_descriptors(batch),
                ServerEvent::ReadPackets(batch) => self.read_packets(batch, observer),
                ServerEvent::Output => self.output_turn(observer),
                ServerEvent::Neighbour(i) => self.neighbour(i),
                ServerEvent::Gpu(turn) => self.gpu_turn(turn, observer),
                ServerEvent::Memory => self.memory_turn(observer),
                ServerEvent::Replay(i, version) => self.replay_turn(i, version),
            }
            self.call_memory();
        }
        true
    }

    /// Whether the last advance ended with what it was to pause for. Where its events ran out it did not, whatever the time is.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Offers `packets` in all and no more: what is inside then goes on to its end.
    pub fn offer_in_all(&mut self, packets: u64) {
        self.offer = packets.max(self.offered);
    }

    /// Leaves out the packets that would follow the one that is on its way, as [`Source::leave_out`]: those behind them follow it
    /// in their place. Returns how many there were.
    pub fn leave_out(&mut self, packets: u64) -> u64 {
        let (left_out, last) = self.source.leave_out(if self.more { packets } else { 0 });
        self.left_out += last.map_or(Ps::ZERO, |last| last.since(self.next.arrival));
        left_out
    }

    /// The packets behind the one that is on its way come so much later.
    pub fn delay_arrivals(&mut self, by: Ps) {
        self.source_from += by;
    }

    /// Packets of a full burst of each core.
    pub fn in_full_bursts(&self) -> usize {
        self.cores.len() * self.burst
    }

    /// The time in which packets that were left out would have come.
    pub fn time_left_out(&self) -> Ps {
        self.left_out
    }

    /// Whether any of its packets is as likely as any other at any time.
    pub fn is_steady(&self) -> bool {
        self.source.is_steady()
    }

    /// Reports of DRAM controllers count from now on.
    pub fn mark_dram(&mut self) {
        self.memory.mark_dram(self.engine.now());
    }

    /// What DRAM controllers do from now on is in no report, or again in reports.
    pub fn pause_dram_reports(&mut self, pause: bool) {
        self.memory.pause_dram_reports(pause, self.engine.now());
    }

    /// Simulated time.
    pub fn now(&self) -> Ps {
        self.engine.now()
    }

    /// Packets offered so far.
    pub fn offered(&self) -> u64 {
        self.offered
    }

    /// The memory system, for its counters.
    pub fn memory(&self) -> &Hierarchy {
        &self.memory
    }

    /// What the packet buffer has done so far; none where packets lie in their mbufs.
    pub fn buffer(&self) -> Option<BufferCounters> {
        self.scattered.as_ref().map(|scattered| scattered.buffer.counters())
    }

    /// Cells of the packet buffer that packets have.
    pub fn buffer_held(&self) -> u64 {
        self.scattered.as_ref().map_or(0, |scattered| scattered.buffer.cells_held())
    }

    /// What became of received packets beside the LLC's I/O ways; none where nothing of it is on.
    pub fn placing(&self) -> Option<PlacingCounters> {
        let is_on = self.common.is_some()
            || self.targets.is_some()
            || self.dead.is_some()
            || self.elastic.is_some()
            || self.nic_memory.is_some();
        is_on.then_some(self.placing)
    }

    /// What each member of a chain has done so far; none of a function alone.
    pub fn members(&self) -> Vec<MemberTotals> {
        match &self.function {
            Function::Chain(chain) => chain.shares(),
            _ => Vec::new(),
        }
    }

    /// What the user plane's flow tables have done so far; none without them.
    pub fn flow_tables(&self) -> Option<FlowCounters> {
        self.function.flow_counters()
    }

    /// Counters of each core; of a burst under way the time so far is among `busy`.
    pub fn cores(&self) -> Vec<CoreCounters> {
        let of = |w: &ServerCore| {
            let under_way = matches!(w.state, CoreState::Running | CoreState::Finishing);
            let burst = if under_way { self.engine.now().since(w.started) } else { Ps::ZERO };
            CoreCounters { instructions: w.core.instructions(), busy: w.counters.busy + burst, ..w.counters }
        };
        self.cores.iter().map(of).collect()
    }

    /// Packets waiting in the rings and software queues of all cores.
    pub fn ring_occupancy(&self) -> usize {
        self.cores.iter().map(|w| w.input.waiting()).sum()
    }

    /// Where the pool's mbufs are.
    pub fn mbufs(&self) -> MbufStates {
        let mut states = MbufStates { free: self.pool.free(), ..MbufStates::default() };
        for worker in &self.cores {
            match &worker.input {
                CoreInput::Nic(rx) => states.descriptors += rx.held(),
                CoreInput::Queue(_, handed) => states.queued += handed.len() as u64,
            }
        }
        states.queued += self.gpu.as_ref().map_or(0, |gpu| gpu.held());
        let back = |worker: &ServerCore| worker.returned.len() + worker.commit.iter().flatten().count();
        states.queued += self.cores.iter().map(|worker| back(worker) as u64).sum::<u64>();
        states.descriptors += self.common.as_ref().and_then(|c| c.shared()).map_or(0, |ring| ring.posted() as u64);
        states.sending = self.mbufs.saturating_sub(states.free + states.descriptors + states.queued);
        states
    }

    /// What each of the scenario's neighbours has done so far.
    pub fn neighbours(&self) -> Vec<NeighbourCounters> {
        let count = self.neighbours.last().map_or(0, |last| last.of + 1);
        let mut all = vec![NeighbourCounters::default(); count];
        for neighbour in &self.neighbours {
            all[neighbour.of] += neighbour.counters();
        }
        all
    }

    /// What the GPU has done; none without one.
    pub fn gpu(&self) -> Option<GpuCounters> {
        self.gpu.as_ref().map(|gpu| gpu.counters())
    }

    /// Lines of the LLC that devices, receiving cores, working cores and others have brought in.
    pub fn llc_lines(&self) -> [u64; 4] {
        let of = |clos| self.memory.class(clos).lines;
        [self.memory.io_lines(), of(RX_CLASS), of(WORK_CLASS), of(Clos(0))]
    }

    /// Payload bytes that crossed PCIe so far: to the host, from the host.
    pub fn pcie_bytes(&self) -> (u64, u64) {
        (self.up.bytes(), self.down.bytes())
    }

    /// As [`Server::pcie_bytes`], with framing and headers.
    pub fn pcie_carried(&self) -> (u64, u64) {
        (self.up.carried(), self.down.carried())
    }

    /// Packets lost so far, for want of anything.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Cores that poll a queue of the NIC: the first so many of [`Server::cores`].
    pub fn receiving_cores(&self) -> usize {
        self.receiving
    }

    /// Sets the ways that devices and classes may fill from now on: all that `allocation` says, or nothing.
    ///
    /// # Errors
    /// A mask that the LLC refuses.
    pub fn set_ways(&mut self, allocation: &Allocation) -> Result<(), machine::MachineError> {
        self.memory.check_allocation(allocation.io_ways, &allocation.classes)?;
        if let Some(ways) = allocation.io_ways {
            self.memory.set_io_ways(ways)?;
        }
        allocation.classes.iter().try_for_each(|&(clos, ways)| self.memory.set_class_ways(clos, ways))
    }

    /// Takes masks with gaps from now on, as AMD's processors do.
    pub fn accept_gaps(&mut self) {
        self.memory.accept_gaps();
    }

    /// Puts a core into a class of service from its next request on: packet cores come first, then those of
    /// neighbours. Lines that it has in the LLC stay those of its class before. `false` where there is no such core.
    pub fn set_clos(&mut self, core: usize, clos: Clos) -> bool {
        if let Some(worker) = self.cores.get_mut(core) {
            worker.core.set_clos(clos);
        } else if let Some(neighbour) = self.neighbours.get_mut(core - self.cores.len()) {
            neighbour.set_clos(clos);
        } else {
            return false;
        }
        true
    }

    /// The packets of `source` follow the one that is on its way.
    pub fn replace_source(&mut self, source: Source) {
        self.source = source;
        (self.source_from, self.left_out) = (self.engine.now(), Ps::ZERO);
    }

    /// The packets of the source follow the one that is on its way as they would, at the load of `source`: one of the same
    /// blueprint and seed.
    pub fn change_load(&mut self, mut source: Source) {
        source.go_on_with(&self.source);
        self.replace_source(source);
    }

    /// When the last packet left.
    pub fn last_departure(&self) -> Ps {
        self.last_departure
    }

    /// Draws the next packet and schedules the arrival of its last bit. The line carries one packet
    /// at a time.
    fn draw_arrival(&mut self) {
        self.more = self.offered < self.offer && self.source.next(&mut self.next);
        if self.more {
            let first_bit = (self.source_from + self.next.arrival.since(self.left_out)).max(self.wire_free);
            self.wire_free = first_bit + self.wire.time_for(self.next.wire_bytes());
            self.engine.schedule(self.wire_free, PRIORITY_NIC, ServerEvent::Arrival);
        } else {
            // What an emptied packet had in it is no part of the state.
            self.next = Packet::default();
        }
    }

    fn arrival(&mut self, observer: &mut impl DepartureObserver) {
        if self.offered >= self.offer {
            self.more = false;
            return;
        }
        let now = self.engine.now();
        let mut packet = self.spare.pop().unwrap_or_default();
        std::mem::swap(&mut packet, &mut self.next);
        packet.id = PacketId(self.offered);
        packet.arrival = now;
        packet.moved = 0;
        self.offered += 1;
        self.inside += 1;
        let queue = match self.receiving * self.queues_per_core {
            1 => 0,
            _ => self.rss.queue(layers(&packet.data).ok().map(|l| l.five_tuple).as_ref()),
        };
        if let Some(lives) = &mut self.lives {
            let wire = self.wire.time_for(packet.wire_bytes());
            lives.arrives(packet.id, packet.frame_bytes, queue / self.queues_per_core, now, wire);
        }
        let held = self.up.backlog(now) + self.stalled_bytes + self.intake.as_ref().map_or(0, |intake| intake.bytes());
        if held + u64::from(packet.frame_bytes) > self.fifo_bytes {
            self.lose(packet, queue / self.queues_per_core, Loss::NicFifoFull, observer);
        } else if let Some(intake) = &mut self.intake {
            if let Some(at) = intake.push(packet, queue, now) {
                self.engine.schedule(at, PRIORITY_NIC, ServerEvent::Intake);
            }
        } else {
            self.take_in(packet, queue, observer);
        }
        self.draw_arrival();
    }

    /// The NIC takes in a packet that has waited, if it is time.
    fn intake_turn(&mut self, observer: &mut impl DepartureObserver) {
        let now = self.engine.now();
        let Some(intake) = &mut self.intake else { return };
        let (taken, next) = intake.pop(now);
        if let Some(at) = next {
            self.engine.schedule(at, PRIORITY_NIC, ServerEvent::Intake);
        }
        if let Some((packet, queue)) = taken {
            self.take_in(packet, queue, observer);
        }
    }

    /// The NIC takes a descriptor of queue `queue` for `packet` and sends both over PCIe, or loses it.
    fn take_in(&mut self, packet: Packet, of_all: usize, observer: &mut impl DepartureObserver) {
        let (core, queue) = (of_all / self.queues_per_core, of_all % self.queues_per_core);
        if self.elastic.as_ref().is_some_and(|elastic| elastic.waits(of_all)) {
            return self.hold_or_lose(packet, of_all, Loss::NoRxDescriptor, observer);
        }
        if self.scattered.as_mut().is_some_and(|s| !s.allocate(packet.frame_bytes)) {
            return self.lose(packet, core, Loss::NoBuffer, observer);
        }
        match self.take_buffer(core, queue) {
            Ok(buffer) => self.cross(packet, core, queue, buffer),
            Err(loss) => self.hold_or_lose(packet, of_all, loss, observer),
        }
    }

    /// `packet` of queue `queue` of core `core` crosses PCIe into `buffer`.
    fn cross(&mut self, packet: Packet, core: usize, queue: usize, buffer: TakenBuffer) {
        let now = self.engine.now();
        let mbuf = buffer.mbuf;
        self.choose_start(core, mbuf);
        if let Some(scattered) = &mut self.scattered {
            scattered.give(mbuf);
        }
        let bytes = u64::from(packet.frame_bytes - self.keep_payload(mbuf, packet.frame_bytes)) + self.driver.written();
        let at = self.up.transfer(now, bytes) + self.rx_pipeline;
        let in_nic = now - packet.arrival + self.rx_pipeline;
        if let Some(lives) = &mut self.lives {
            lives.goes_on(packet.id, LifeStage::NicIn, now);
            lives.goes_on(packet.id, LifeStage::PcieIn, at);
        }
        let (queue, slot) = (queue as u16, buffer.slot);
        let received = Received { packet, mbuf, visible: at, in_nic, queue, slot, ..Received::default() };
        self.crossing.push_back(Crossing { received, buffer, core, bytes });
        self.engine.schedule(at, PRIORITY_NIC, ServerEvent::DmaWrite);
    }

    /// `packet` is lost before a core has it.
    fn lose(&mut self, packet: Packet, core: usize, loss: Loss, observer: &mut impl DepartureObserver) {
        self.lost += 1;
        self.inside -= 1;
        if let Some(scattered) = &mut self.scattered {
            scattered.take_back();
        }
        let ended = (packet.id, packet.arrival, packet.frame_bytes, PacketFate::Lost(loss));
        unsent(ended, core, self.engine.now(), &mut self.lives, observer);
        self.spare.push(packet);
    }

    /// Writes the packets that have crossed PCIe while there are credits for them.
    fn dma_writes(&mut self, observer: &mut impl DepartureObserver) {
        while self.stalled > 0
            && let Some(bytes) = self.crossing.front().map(|crossing| crossing.bytes)
        {
            if let Err(at) = self.credits.take(self.engine.now(), bytes) {
                self.wait_for_credits(at);
                return;
            }
            self.stalled -= 1;
            self.stalled_bytes -= bytes;
            let Some(crossing) = self.crossing.pop_front() else { return };
            match self.dma_write(crossing, observer) {
                Some(visible) => self.credits.give_back(bytes, visible),
                None => self.credits.keep(bytes),
            }
        }
    }

    /// Writes a packet and its descriptor; when both are in memory, if that is known now.
    fn dma_write(&mut self, crossing: Crossing, observer: &mut impl DepartureObserver) -> Option<Ps> {
        let Crossing { mut received, buffer, core, bytes } = crossing;
        let now = self.engine.now();
        let CoreInput::Nic(rx) = &self.cores[core].input else { return Some(now) };
        let rx = rx.queue(received.queue.into());
        let offset = buffer.slot * u64::from(self.driver.rx_descriptor);
        let ring = self.layout.address(RX_RING, offset, buffer.ring);
        // The NIC has fetched descriptors ahead, a line at a time.
        if ring.0.is_multiple_of(LINE_BYTES) {
            self.memory.read_descriptors(ring.line(), now);
            self.memory.translated();
        }
        let told = match rx.completion_offset(buffer.number) {
            Some(offset) => self.layout.address(RX_COMPLETIONS, offset, core as u16),
            None => ring,
        };
        self.note_written(received.mbuf, received.packet.id.0, received.packet.frame_bytes);
        self.memory.open();
        let start = self.data(received.mbuf);
        let host = self.host_lines(received.mbuf, start, received.packet.frame_bytes.into());
        let mut before = 0;
        let consumer = self.cores[core].consumer();
        let (memory, placing) = (&mut self.memory, &mut self.placing);
        let mut write = |first: Line, count| {
            observer.packet_lines(first, count, true);
            let Some(targets) = &self.targets else { return memory.dma_write_packet(core, first, count, now) };
            let part = (before, first, count);
            before += count;
            placing::write_packet(memory, targets, consumer, placing, part, now)
        };
        let written = match &self.scattered {
            None => write(host.0, host.1),
            Some(scattered) => {
                let runs = scattered.runs(received.mbuf, 0, u64::from(received.packet.frame_bytes));
                runs.map(|(first, count)| write(first, count)).max().unwrap_or(now)
            }
        };
        let of_descriptors = self.targets.as_ref().map_or(DmaTarget::Llc, |targets| targets.descriptors);
        let told = placing::write(&mut self.memory, of_descriptors, consumer, &mut self.placing, (told.line(), 1), now);
        let written = written.max(told);
        let written = self.memory.close(written);
        received.translated = self.memory.translated();
        self.written(core, received, bytes, written)
    }

    /// A packet is visible to core `i` at `visible`: if it polls in vain it will find it.
    fn wake(&mut self, i: usize, visible: Ps) {
        let worker = &mut self.cores[i];
        if let CoreState::Polling(since) = worker.state {
            worker.state = CoreState::Waking;
            self.engine.schedule(next_poll(since, self.poll, visible), PRIORITY_CORE, ServerEvent::Core(i));
        }
    }

    fn core(&mut self, i: usize, observer: &mut impl DepartureObserver) {
        match self.cores[i].state {
            CoreState::Waking | CoreState::Polling(_) => self.start_burst(i),
            CoreState::Starving if self.can_refill(i) || !self.cores[i].returned.is_empty() => self.start_burst(i),
            CoreState::Starving => self.rest(i),
            CoreState::Finishing => self.finish_burst(i, observer),
            CoreState::Running => self.step(i),
        }
    }

    /// Takes a burst, does what is to be done with it, and begins to replay that.
    fn start_burst(&mut self, i: usize) {
        let now = self.engine.now();
        let worker = &mut self.cores[i];
        if let Some(until) = worker.system.as_mut().and_then(|system| system.until(now)) {
            worker.state = CoreState::Waking;
            self.engine.schedule(until, PRIORITY_CORE, ServerEvent::Core(i));
            return;
        }
        worker.core.script().clear();
        worker.packets.clear();
        worker.in_burst.clear();
        let in_burst = |received: &Received, before| InBurst {
            arrival: received.packet.arrival,
            frame_bytes: received.packet.frame_bytes,
            dma_memory: received.dma_memory,
            in_nic: received.in_nic,
            translated: received.translated,
            visible: received.visible,
            before,
            next: NextStop::Ends(PacketFate::Lost(Loss::NoTxDescriptor)),
            mbuf: received.mbuf,
            task: None,
        };
        let back = worker.returned.iter().take(self.burst).take_while(|back| back.received.visible <= now).count();
        self.verdicts.clear();
        match &mut worker.input {
            _ if back > 0 => {
                ServerGpu::call(worker.core.script());
                for back in worker.returned.drain(..back) {
                    let BackFromGpu { received, frame_bytes, before, verdict, slot } = back;
                    if let Some(gpu) = &self.gpu {
                        gpu.take_back(received.packet.id, slot, worker.core.script());
                    }
                    worker.in_burst.push(InBurst { frame_bytes, ..in_burst(&received, Some(before)) });
                    worker.packets.push(received.packet);
                    self.verdicts.push(verdict);
                }
            }
            CoreInput::Nic(rx) => {
                rx.receive(now, self.burst, &mut self.received, worker.core.script());
                for received in self.received.drain(..) {
                    worker.in_burst.push(in_burst(&received, None));
                    worker.packets.push(received.packet);
                }
            }
            CoreInput::Queue(queue, handed) => {
                let n = handed.iter().take(self.burst).take_while(|h| h.received.visible <= now).count();
                queue.take(n, worker.core.script());
                for Handed { received, before } in handed.drain(..n) {
                    worker.in_burst.push(in_burst(&received, Some(before)));
                    worker.packets.push(received.packet);
                }
            }
        }
        let mut freed = std::mem::take(&mut self.freed);
        match self.pipeline {
            _ if back > 0 => self.conclude(i, now, &mut freed),
            Some(_) if i < self.receiving => self.hand_over(i, &mut freed),
            _ => self.process(i, now, &mut freed),
        }
        let worker = &mut self.cores[i];
        let id = worker.core.id();
        let script = worker.core.script();
        if !freed.is_empty() {
            self.pool.put_bulk(id, &freed, script);
        }
        self.drop_dead(i, &freed, now);
        freed.clear();
        self.freed = freed;
        let unmapping = self.map_buffers(i, now);
        let worker = &mut self.cores[i];
        worker.unmapping = unmapping;
        let script = worker.core.script();
        if let CoreInput::Nic(rx) = &mut worker.input {
            let shared = self.common.as_mut().and_then(|common| common.shared_mut());
            worker.counters.rx_nombuf += rx.refill(id, &mut self.pool, shared, script) as u64;
        }
        if let Some(parts) = self.instruction_parts {
            script.scale(parts);
        }
        if let Some(lines) = self.statistics.filter(|_| !worker.packets.is_empty()) {
            count_burst(i, lines, script);
        }
        worker.counters.packets += if back > 0 { 0 } else { worker.packets.len() as u64 };
        worker.counters.bursts += u64::from(back == 0);
        let (refilled, sent) = worker.doorbells();
        worker.counters.doorbells += u64::from(refilled) + u64::from(sent);
        worker.to_ring = (refilled, sent);
        worker.begin_at(now, self.core_spec.stalls(worker.packets.len()));
        worker.started = now;
        worker.before = worker.core.instructions();
        worker.in_detail = !self.coarse.on;
        self.lay_out(i, now);
        if self.coarse.on {
            self.replay_at_once(i);
        } else {
            self.cores[i].state = CoreState::Running;
            self.step(i);
        }
    }

    /// Core `i` begins its burst with its packets where they lie.
    fn lay_out(&mut self, i: usize, now: Ps) {
        let worker = &mut self.cores[i];
        let (layout, starts) = (&self.layout, self.starts.as_deref());
        let scattered = self.scattered.as_deref();
        let cells = worker.core.cells();
        cells.clear();
        if let Some(scattered) = scattered {
            worker.in_burst.iter().for_each(|entry| cells.extend(scattered.lines_of(entry.mbuf)));
        }
        let nic_memory = self.nic_memory.as_deref();
        if let Some(memory) = nic_memory {
            for entry in &worker.in_burst {
                memory.cells(entry.mbuf, placing::data(layout, starts, entry.mbuf), cells);
            }
        }
        let places = worker.packets.iter().zip(&worker.in_burst).map(|(packet, entry)| BurstPacket {
            id: packet.id,
            mbuf: layout.mbuf(entry.mbuf),
            data: placing::data(layout, starts, entry.mbuf),
            cells: match (scattered, nic_memory) {
                (Some(scattered), _) => scattered.lines_of(entry.mbuf).len() as u32,
                (None, Some(memory)) => memory.count(entry.mbuf),
                (None, None) => 0,
            },
        });
        worker.core.start(places, now);
    }

    /// Runs the function on the burst of core `i` and sends what leaves. `freed` gets the mbufs of what does not.
    fn process(&mut self, i: usize, now: Ps, freed: &mut Vec<u32>) {
        let (own, is_held) = if self.gpu.is_some() { self.offload(i, now) } else { (usize::MAX, false) };
        let worker = &mut self.cores[i];
        let id = worker.core.id();
        let script = worker.core.script();
        self.verdicts.clear();
        self.function.on_core(usize::from(id.0));
        let own = own.min(worker.packets.len());
        let held = if is_held { worker.packets.len() - own } else { 0 };
        self.function.process_burst(now, &mut worker.packets[..own + held], script, &mut self.verdicts);
        lengthen(&self.function, &mut worker.packets);
        for (entry, verdict) in worker.in_burst[own..].iter_mut().zip(self.verdicts.drain(own..)) {
            entry.next = NextStop::Held(verdict);
        }
        self.conclude(i, now, freed);
    }

    /// Puts the packets of the burst of core `i` whose flows go to the GPU behind the others, and hands them over: how many are left
    /// for the core, and whether it is to work on those behind as well and to hold them.
    fn offload(&mut self, i: usize, now: Ps) -> (usize, bool) {
        let Some(gpu) = &mut self.gpu else { return (usize::MAX, false) };
        let worker = &mut self.cores[i];
        let waiting = worker.input.waiting() + worker.packets.len();
        let way = gpu.way(waiting, !worker.commit.is_empty());
        if way == WayOfBurst::Core {
            return (usize::MAX, false);
        }
        let (packets, entries) = (std::mem::take(&mut worker.packets), std::mem::take(&mut worker.in_burst));
        let (theirs, own): (Vec<_>, Vec<_>) =
            packets.into_iter().zip(entries).partition(|(packet, _)| gpu.wants(packet));
        let count = own.len();
        (worker.packets, worker.in_burst) = own.into_iter().chain(theirs).unzip();
        if way == WayOfBurst::Held {
            return (count, true);
        }
        let script = worker.core.script();
        if count < worker.packets.len() {
            ServerGpu::call(script);
        }
        // What cores do of it, and what that says.
        let theirs = &mut worker.packets[count..];
        let so_far = &mut self.verdicts;
        so_far.clear();
        match gpu.first() {
            0 => so_far.resize(theirs.len(), Verdict::Forward { port: PortId(0) }),
            first => {
                self.function.on_core(i);
                self.function.process_part(0..first, now, theirs, script, so_far);
            }
        }
        let entries = &mut worker.in_burst[count..];
        for ((packet, entry), so_far) in theirs.iter_mut().zip(entries).zip(so_far.drain(..)) {
            if let Verdict::Drop(reason) = so_far {
                entry.next = NextStop::Ends(PacketFate::Rejected(reason));
            } else if gpu.has_room() {
                entry.task = Some(gpu.hand_over(&mut self.function, now, packet, so_far, script));
                entry.next = NextStop::Gpu;
                lengthen(&self.function, std::slice::from_mut(packet));
            } else {
                entry.next = NextStop::Ends(PacketFate::Lost(Loss::QueueFull));
            }
        }
        (count, false)
    }

    /// What leaves of the burst of core `i` is handed to its transmit queues, as verdicts say; what they are of are its first packets.
    fn conclude(&mut self, i: usize, now: Ps, freed: &mut Vec<u32>) {
        let worker = &mut self.cores[i];
        let id = worker.core.id();
        let script = worker.core.script();
        let lost = worker.in_burst[self.verdicts.len()..].iter();
        freed.extend(lost.filter(|entry| matches!(entry.next, NextStop::Ends(_))).map(|entry| entry.mbuf));
        let stride = self.layout.mbuf_stride();
        for ((packet, verdict), entry) in worker.packets.iter().zip(&self.verdicts).zip(&mut worker.in_burst) {
            let fate = match *verdict {
                Verdict::Forward { port } => {
                    let port = PortId(port.0 % worker.tx.len() as u16);
                    let tx = &mut worker.tx[usize::from(port.0)];
                    tx.reclaim(now, id, &mut self.pool, stride, &mut self.gone, script);
                    match tx.send(packet.id, packet.frame_bytes, entry.mbuf, script) {
                        true => PacketFate::Sent(port),
                        false => PacketFate::Lost(Loss::NoTxDescriptor),
                    }
                }
                Verdict::Drop(reason) => PacketFate::Rejected(reason),
            };
            if !matches!(fate, PacketFate::Sent(_)) {
                freed.push(entry.mbuf);
            }
            entry.next = NextStop::Ends(fate);
        }
    }

    /// Chooses a worker for each packet of the burst of receiving core `i` and puts it into that one's queue.
    /// `freed` gets the mbufs of those that find it full.
    fn hand_over(&mut self, i: usize, freed: &mut Vec<u32>) {
        let Some(pipeline) = &self.pipeline else { return };
        let (receiving, working) = self.cores.split_at_mut(self.receiving);
        let ServerCore { core, packets, in_burst, .. } = &mut receiving[i];
        let script = core.script();
        let mut counts = vec![0; working.len()];
        for (packet, entry) in packets.iter().zip(in_burst) {
            choose_worker(&pipeline.spec, packet.id, packet.frame_bytes, script);
            let to = match working.len() {
                1 => 0,
                _ => pipeline.workers.queue(spread::key(pipeline.spec.spread, &packet.data).as_ref()),
            };
            let CoreInput::Queue(queue, _) = &working[to].input else { continue };
            if counts[to] < queue.room() {
                counts[to] += 1;
                entry.next = NextStop::Worker(self.receiving + to);
            } else {
                entry.next = NextStop::Ends(PacketFate::Lost(Loss::QueueFull));
                freed.push(entry.mbuf);
            }
        }
        for (worker, n) in working.iter_mut().zip(counts) {
            if let CoreInput::Queue(queue, _) = &mut worker.input
                && n > 0
            {
                queue.put(n, script);
            }
        }
    }

    /// Replays until the burst is complete or something else comes first.
    fn step(&mut self, i: usize) {
        loop {
            let now = self.engine.now();
            self.call_memory();
            let horizon = self.engine.peek().unwrap_or(Ps::MAX);
            let step = self.cores[i].core.step(&mut self.memory, &self.layout, now, horizon);
            if self.waits(i, step) {
                return;
            }
            match step {
                CoreStep::Done(at) => {
                    let worker = &mut self.cores[i];
                    worker.state = CoreState::Finishing;
                    let end = worker.rung(at.max(now));
                    self.engine.schedule(end, PRIORITY_CORE, ServerEvent::Core(i));
                    return;
                }
                CoreStep::At(at) => {
                    self.engine.schedule(at.max(now), PRIORITY_CORE, ServerEvent::Core(i));
                    return;
                }
                CoreStep::Lock(lock, at) => match self.locks.take(lock.0, i, at) {
                    Some(granted) => self.cores[i].core.grant(granted),
                    None => return,
                },
                CoreStep::Unlock(lock, at) => {
                    if let Some(next) = self.locks.give(lock.0) {
                        self.cores[next].core.grant(at);
                        self.engine.schedule(at.max(now), PRIORITY_CORE, ServerEvent::Core(next));
                    }
                }
                // Without controllers memory answers at once.
                CoreStep::Wait => unreachable!("no controller in this machine"),
            }
        }
    }

    /// Counts the burst of core `i` that ends; whether it was worked on at once.
    fn close_burst(&mut self, i: usize, now: Ps) -> bool {
        let worker = &mut self.cores[i];
        let took = now - worker.started;
        worker.counters.busy += took.since(worker.launching);
        let packets = worker.packets.len() as u64;
        worker.counters.burst_squares += packets * packets;
        worker.counters.burst_time += packets * took.0;
        let at_once = std::mem::take(&mut worker.at_once);
        if worker.in_detail {
            let work = worker.core.time_of(worker.core.instructions() - worker.before);
            self.coarse.burst(i, worker.packets.len(), took, work);
            worker.counters.spent += &worker.core.burst_attribution();
            worker.counters.spent.charge(Reason::Core, worker.ringing);
        }
        at_once
    }

    /// The burst of core `i` is complete: its packets go where they go from there, and the core looks for more.
    fn finish_burst(&mut self, i: usize, observer: &mut impl DepartureObserver) {
        let now = self.engine.now();
        self.drop_ended(i, now);
        let worker = &mut self.cores[i];
        if let CoreInput::Nic(rx) = &mut worker.input {
            rx.doorbell(self.common.as_mut().and_then(|common| common.shared_mut()));
        }
        self.fetch_held();
        let worker = &mut self.cores[i];
        if let Some(system) = &mut worker.system {
            system.rest(now);
        }
        self.write_burst(i, now);
        let at_once = self.close_burst(i, now);
        let launches = std::mem::take(&mut self.cores[i].to_launch);
        self.launch(i, launches);
        let worker = &mut self.cores[i];
        let (mut leaving, mut to_gpu, mut held) = (Vec::new(), Vec::new(), Vec::new());
        let mut ended = Vec::new();
        let mut handed = std::mem::take(&mut self.handed);
        for (index, (entry, packet)) in worker.in_burst.drain(..).zip(worker.packets.drain(..)).enumerate() {
            let spent = || {
                if at_once {
                    return Attribution::default();
                }
                let mut on_core = worker.core.attribution(index);
                on_core.charge(Reason::Core, worker.ringing - worker.unmapping);
                on_core.charge(Reason::Iommu, worker.unmapping);
                entry.spent(on_core, worker.started)
            };
            let fate = match entry.next {
                NextStop::Ends(fate) => {
                    self.lost += u64::from(matches!(fate, PacketFate::Lost(_)));
                    fate
                }
                NextStop::Worker(to) => {
                    let before = Box::new(spent());
                    let received = Received { packet, mbuf: entry.mbuf, visible: now, ..Received::default() };
                    handed.push((to, Handed { received, before }));
                    continue;
                }
                NextStop::Gpu => {
                    let before = Box::new(spent());
                    let received = Received { packet, mbuf: entry.mbuf, ..Received::default() };
                    let Some(task) = entry.task else { continue };
                    to_gpu.push(GpuPacket::new(received, entry.frame_bytes, before, task));
                    continue;
                }
                NextStop::Held(verdict) => {
                    let before = Box::new(spent());
                    let received = Received { packet, mbuf: entry.mbuf, visible: now, ..Received::default() };
                    let frame_bytes = entry.frame_bytes;
                    held.push(BackFromGpu { received, frame_bytes, before, verdict, slot: None });
                    continue;
                }
            };
            if let PacketFate::Sent(port) = fate {
                leaving.push(Leaving {
                    id: packet.id,
                    arrival: entry.arrival,
                    frame_bytes: entry.frame_bytes,
                    sent_bytes: packet.frame_bytes,
                    moved: packet.moved,
                    port,
                    mbuf: entry.mbuf,
                    attribution: spent(),
                    translated: Ps::ZERO,
                });
            } else {
                if let Some(scattered) = &mut self.scattered {
                    scattered.free(entry.mbuf);
                }
                ended.push(entry.mbuf);
                self.inside -= 1;
                let ended = (packet.id, entry.arrival, entry.frame_bytes, fate);
                unsent(ended, i, now, &mut self.lives, observer);
            }
            self.spare.push(packet);
        }
        ended.into_iter().for_each(|mbuf| self.release_payload(mbuf));
        self.hand_to_nic(i, leaving);
        for (to, packet) in handed.drain(..) {
            if let CoreInput::Queue(_, queue) = &mut self.cores[to].input {
                queue.push_back(packet);
            }
            self.wake(to, now);
        }
        self.handed = handed;
        self.gather(i, to_gpu);
        self.cores[i].commit.extend(held.into_iter().map(Some));
        self.commit(i);
        self.look_for_more(i);
    }

    /// Core `i` hands `packets` to the NIC, which comes for them.
    fn hand_to_nic(&mut self, i: usize, packets: Vec<Leaving>) {
        if packets.is_empty() {
            return;
        }
        let now = self.engine.now();
        let batch = TxBurst { core: i, at: now, in_memory: Ps::ZERO, translated: Ps::ZERO, packets };
        let slot = match self.free_batches.pop() {
            Some(slot) => {
                self.batches[slot] = Some(batch);
                slot
            }
            None => {
                self.batches.push(Some(batch));
                self.batches.len() - 1
            }
        };
        // The doorbell crosses, then the read request.
        self.engine.schedule(now + self.down.latency() * 2, PRIORITY_NIC, ServerEvent::ReadDescriptors(slot));
    }

    /// Core `i` has nothing in hand: it begins its next burst, or polls for one.
    fn look_for_more(&mut self, i: usize) {
        let now = self.engine.now();
        let worker = &mut self.cores[i];
        match worker.oldest() {
            Some(visible) if visible <= now => {
                worker.state = CoreState::Waking;
                self.start_burst(i);
            }
            Some(visible) => {
                worker.state = CoreState::Waking;
                self.engine.schedule(next_poll(now, self.poll, visible), PRIORITY_CORE, ServerEvent::Core(i));
            }
            None => self.rest(i),
        }
    }

    /// Core `i` polls in vain from now on. One whose descriptors are all without mbufs looks for some at each poll,
    /// as long as packets come.
    fn rest(&mut self, i: usize) {
        let now = self.engine.now();
        let worker = &mut self.cores[i];
        let shared = self.common.as_ref().and_then(|common| common.shared());
        let more = self.more || self.elastic.as_ref().is_some_and(|elastic| elastic.holds());
        worker.state = match &worker.input {
            CoreInput::Nic(rx) if rx.is_dry(shared) && more => {
                self.engine.schedule(now + self.poll.max(Ps(1)), PRIORITY_CORE, ServerEvent::Core(i));
                CoreState::Starving
            }
            _ => CoreState::Polling(now),
        };
    }

    fn can_refill(&self, i: usize) -> bool {
        let worker = &self.cores[i];
        matches!(&worker.input, CoreInput::Nic(rx) if rx.can_refill(worker.core.id(), &self.pool))
    }

    /// A neighbour goes on, as long as there is somebody whose neighbour it is.
    fn neighbour(&mut self, i: usize) {
        if !self.more && self.inside == 0 {
            return;
        }
        let (now, horizon) = (self.engine.now(), self.engine.peek().unwrap_or(Ps::MAX));
        let neighbour = &mut self.neighbours[i];
        let at = if self.coarse.on && !neighbour.is_under_way() {
            Some(neighbour.warm(&mut self.memory, &self.layout, now, self.coarse.stint_of(i)))
        } else {
            neighbour.step(&mut self.memory, &self.layout, now, horizon)
        };
        if let Some(took) = neighbour.took() {
            self.coarse.stint(i, took);
        }
        if let Some(at) = at {
            self.engine.schedule(at, PRIORITY_CORE, ServerEvent::Neighbour(i));
        }
    }

    /// The NIC reads descriptors; the answer lets it ask for the packets.
    fn read_descriptors(&mut self, slot: usize) {
        let Some(batch) = &mut self.batches[slot] else { return };
        let now = self.engine.now();
        let core = batch.core as u16;
        let (count, descriptor) = (batch.packets.len() as u64, u64::from(self.driver.tx_descriptor));
        self.lines.clear();
        for packet in &batch.packets {
            let offset = self.cores[batch.core].tx[usize::from(packet.port.0)].fetch();
            let (first, count) = lines(self.layout.address(TX_RING, offset, core), descriptor);
            self.lines.extend((0..count).map(|k| Line(first.0 + k)));
        }
        // A line holds several.
        self.lines.sort_unstable();
        self.lines.dedup();
        self.memory.open();
        let mut read = now;
        for &line in &self.lines {
            read = read.max(self.memory.read_descriptors(line, now));
        }
        let read = self.memory.close(read);
        batch.translated = self.memory.translated();
        let crossed = self.down.transfer(now, count * descriptor);
        self.descriptors_read(slot, crossed, read);
    }

    /// The NIC reads packets and sends them in order.
    fn read_packets(&mut self, slot: usize, observer: &mut impl DepartureObserver) {
        let Some(batch) = self.batches[slot].take() else { return };
        self.free_batches.push(slot);
        let now = self.engine.now();
        let TxBurst { core, at, in_memory, translated, packets } = batch;
        let handed = HandedOver { core, at, in_memory, translated };
        for mut packet in packets {
            if let Some(lives) = &mut self.lives {
                lives.goes_on(packet.id, LifeStage::TxRing, now);
            }
            let bytes = u64::from(packet.sent_bytes);
            // It came with its descriptor: nothing is read for it.
            let copied = self.cores[core].tx[usize::from(packet.port.0)].is_copied(packet.sent_bytes);
            let start = Addr(self.data(packet.mbuf).0.saturating_add_signed(packet.moved.into()));
            let bytes = bytes.saturating_sub(self.kept(packet.mbuf).into());
            let (first, count) = lines(start, bytes);
            if self.output.is_some() {
                let runs = match &self.scattered {
                    _ if copied => Vec::new(),
                    None => vec![(first, count, true)],
                    Some(scattered) => scattered.to_send(packet.mbuf, packet.moved, start, bytes),
                };
                self.read_in_blocks(packet, handed, bytes, runs.into_iter());
                continue;
            }
            self.memory.open();
            let at = match &self.scattered {
                _ if copied => now,
                None => {
                    observer.packet_lines(first, count, false);
                    self.memory.dma_read(first, count, now)
                }
                Some(scattered) => {
                    // What was put before the packet is in the mbuf's headroom.
                    let (before, after) = (packet.moved.min(0).unsigned_abs(), packet.moved.max(0) as u64);
                    let mut at = now;
                    if before > 0 {
                        let (first, count) = lines(start, before.into());
                        at = self.memory.dma_read(first, count, now);
                    }
                    for (first, count) in scattered.runs(packet.mbuf, after, bytes - u64::from(before).min(bytes)) {
                        observer.packet_lines(first, count, false);
                        at = at.max(self.memory.dma_read(first, count, now));
                    }
                    at
                }
            };
            let at = self.memory.close(at);
            packet.translated = self.memory.translated();
            let crossed = if copied { now } else { self.down.transfer(now, bytes) };
            self.read(packet, handed, crossed, at, observer);
        }
    }

    /// When the NIC has a packet that is read at `read`: as its packet rate allows.
    fn paced(&mut self, read: Ps) -> Ps {
        if self.packet_interval == Ps::ZERO {
            return read;
        }
        let at = self.next_read.max(read);
        self.next_read = at + self.packet_interval;
        at
    }

    /// Sends a packet that crossed PCIe at `crossed`, what it waited for memory apart.
    fn send(
        &mut self,
        packet: Leaving,
        batch: HandedOver,
        crossed: Ps,
        memory: Ps,
        observer: &mut impl DepartureObserver,
    ) {
        if let Some(scattered) = &mut self.scattered {
            scattered.free(packet.mbuf);
        }
        self.release_payload(packet.mbuf);
        let memory = self.coarse.device(Device::Read, memory + packet.translated);
        let read = self.paced(crossed + memory);
        let port = usize::from(packet.port.0);
        let first_bit = (read + self.tx_pipeline).max(self.port_free[port]);
        let wire = u64::from(packet.sent_bytes) + packet::ETHERNET_FCS_BYTES;
        let wire = wire.max(packet::MIN_FRAME_BYTES) + packet::ETHERNET_OVERHEAD_BYTES;
        self.port_free[port] = first_bit + self.wire.time_for(wire);
        self.cores[batch.core].tx[port].read(read);
        let mut attribution = packet.attribution;
        let in_memory = memory + batch.in_memory;
        let translated = in_memory.min(packet.translated + batch.translated);
        attribution.charge(Reason::DmaMemory, in_memory - translated);
        attribution.charge(Reason::Iommu, translated);
        let ready = read + self.tx_pipeline;
        let in_nic = ready - crossed - memory;
        attribution.charge(Reason::Nic, in_nic);
        attribution.charge(Reason::Pcie, ready - batch.at - in_memory - in_nic);
        attribution.charge(Reason::TxQueue, first_bit - ready);
        self.last_departure = self.last_departure.max(first_bit);
        self.inside -= 1;
        if let Some(lives) = &mut self.lives {
            let gone = self.port_free[port];
            let stages = [(LifeStage::PcieOut, read), (LifeStage::NicOut, ready), (LifeStage::TxQueue, first_bit)];
            stages.into_iter().chain([(LifeStage::WireOut, gone)]).for_each(|(s, to)| lives.goes_on(packet.id, s, to));
            lives.ends(packet.id, PacketFate::Sent(packet.port), first_bit - packet.arrival, first_bit);
        }
        observer.departure(&Departure {
            packet: packet.id,
            arrival: packet.arrival,
            frame_bytes: packet.frame_bytes,
            core: CoreId(batch.core as u16),
            fate: PacketFate::Sent(packet.port),
            sojourn: first_bit - packet.arrival,
            attribution: &attribution,
        });
    }
}

/// A packet that is not sent has ended with core `core`: its arrival, bytes and fate.
fn unsent(
    (packet, arrival, frame_bytes, fate): (PacketId, Ps, u32, PacketFate),
    core: usize,
    now: Ps,
    lives: &mut Option<Box<LifeWriter>>,
    observer: &mut impl DepartureObserver,
) {
    if let Some(lives) = lives {
        lives.ends(packet, fate, Ps::ZERO, now);
    }
    observer.departure(&Departure {
        packet,
        arrival,
        frame_bytes,
        core: CoreId(core as u16),
        fate,
        sojourn: Ps::ZERO,
        attribution: &Attribution::default(),
    });
}

/// Where packets lie that an allocator places: the driver's mbufs keep their headers and headroom.
#[derive(Clone)]
struct Scattered {
    buffer: PacketBuffer,
    base: Addr,
    /// Of the packet that asks at present.
    asked: (u32, Vec<u32>),
    /// By mbuf: bytes and cells of its packet.
    held: Vec<(u32, Vec<u32>)>,
    /// By mbuf: the lines of its packet.
    lines: Vec<Vec<Addr>>,
}

state::state!(Scattered { values: [asked, held, lines], arrays: [], parts: [buffer], built: [base] });

impl Scattered {
    /// What `scenario` has of it.
    fn of(scenario: &Scenario, layout: &ServerLayout, seed: Seed) -> Result<Option<Scattered>, MachineError> {
        let Some(spec) = &scenario.buffer else { return Ok(None) };
        let mut order = seed.stream("buffer.order");
        let draw = |n| rand::RngExt::random_range(&mut order, 0..n);
        let base = layout.address(PACKET_BUFFER, 0, 0);
        Scattered::new(spec, scenario.mempool.size, base, draw).map(Some)
    }

    fn new(
        spec: &BufferSpec,
        mbufs: u32,
        base: Addr,
        draw: impl FnMut(usize) -> usize,
    ) -> Result<Scattered, MachineError> {
        let buffer = PacketBuffer::new(spec, "buffer", draw)?;
        let mbufs = mbufs as usize;
        Ok(Scattered {
            buffer,
            base,
            asked: Default::default(),
            held: vec![Default::default(); mbufs],
            lines: vec![Vec::new(); mbufs],
        })
    }

    /// Gets cells for a packet of `bytes`; says whether there are.
    fn allocate(&mut self, bytes: u32) -> bool {
        self.asked.1.clear();
        self.asked.0 = bytes;
        self.buffer.allocate(bytes, &mut self.asked.1)
    }

    /// The packet that has asked is in `mbuf`.
    fn give(&mut self, mbuf: u32) {
        let at = mbuf as usize;
        std::mem::swap(&mut self.held[at], &mut self.asked);
        self.asked.1.clear();
        let (bytes, cells) = &self.held[at];
        let per_cell = u64::from(self.buffer.cell_bytes()) / LINE_BYTES;
        let lines = u64::from(*bytes).div_ceil(LINE_BYTES).max(1);
        let (base, buffer) = (self.base.0, &self.buffer);
        let of_cells = cells.iter().flat_map(|&cell| {
            let start = base + buffer.addr(cell).0;
            (0..per_cell).map(move |k| Addr(start + k * LINE_BYTES))
        });
        self.lines[at].clear();
        self.lines[at].extend(of_cells.take(lines as usize));
    }

    /// The packet that has asked is lost.
    fn take_back(&mut self) {
        let (bytes, cells) = &mut self.asked;
        let freed = self.buffer.free(*bytes, cells);
        debug_assert!(freed.is_ok());
        cells.clear();
    }

    /// The packet in `mbuf` is done with.
    fn free(&mut self, mbuf: u32) {
        let (bytes, cells) = &mut self.held[mbuf as usize];
        let freed = self.buffer.free(*bytes, cells);
        debug_assert!(freed.is_ok());
        cells.clear();
        self.lines[mbuf as usize].clear();
    }

    /// The lines of the packet in `mbuf`.
    fn lines_of(&self, mbuf: u32) -> &[Addr] {
        &self.lines[mbuf as usize]
    }

    /// What is read of the packet in `mbuf` to send `bytes` bytes of it that begin at `start` in the mbuf, `moved` from
    /// where it began: stretches of lines, and whether they are of the packet as it came.
    fn to_send(&self, mbuf: u32, moved: i32, start: Addr, bytes: u64) -> Vec<(Line, u64, bool)> {
        // What was put before the packet is in the mbuf's headroom.
        let (before, after) = (u64::from(moved.min(0).unsigned_abs()), moved.max(0) as u64);
        let headroom = (before > 0).then(|| lines(start, before)).map(|(first, count)| (first, count, false));
        let came = self.runs(mbuf, after, bytes - before.min(bytes)).map(|(first, count)| (first, count, true));
        headroom.into_iter().chain(came).collect()
    }

    /// The lines of `bytes` bytes of it from byte `from` on, as runs of lines one after the other: the first one and
    /// how many.
    fn runs(&self, mbuf: u32, from: u64, bytes: u64) -> impl Iterator<Item = (Line, u64)> {
        let lines = self.lines_of(mbuf);
        let end = (from + bytes).div_ceil(LINE_BYTES).min(lines.len() as u64) as usize;
        let mut at = ((from / LINE_BYTES) as usize).min(end);
        std::iter::from_fn(move || {
            let first = lines[..end].get(at)?.line();
            let mut count = 1;
            while lines[..end].get(at + count).is_some_and(|next| next.line().0 == first.0 + count as u64) {
                count += 1;
            }
            at += count;
            Some((first, count as u64))
        })
    }
}

/// Fragments leave behind the first one of their packet, and take as long on the wire as they all do.
fn lengthen(function: &Function, packets: &mut [Packet]) {
    for fragment in function.fragments() {
        if let Some(first) = packets.iter_mut().find(|packet| packet.id == fragment.id) {
            first.frame_bytes += (fragment.wire_bytes()) as u32;
        }
    }
}

/// The first poll at or after `visible` of a core that polls every `period` from `since` on.
fn next_poll(since: Ps, period: Ps, visible: Ps) -> Ps {
    since + period * visible.since(since).0.div_ceil(period.0.max(1))
}

/// The first of the lines that `bytes` bytes from `start` on lie in, and how many they are.
pub(crate) fn lines(start: Addr, bytes: u64) -> (Line, u64) {
    let (first, last) = (start.line().0, Addr(start.0 + bytes.max(1) - 1).line().0);
    (Line(first), last - first + 1)
}

/// Locks of functions: who holds each, and who waits, first come first served.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
struct Locks {
    held: std::collections::BTreeMap<u32, VecDeque<usize>>,
}

impl Locks {
    /// The time from which core `core` has the lock; [`None`] if it has to wait.
    fn take(&mut self, lock: u32, core: usize, at: Ps) -> Option<Ps> {
        match self.held.get_mut(&lock) {
            Some(waiting) => {
                waiting.push_back(core);
                None
            }
            None => {
                self.held.insert(lock, VecDeque::new());
                Some(at)
            }
        }
    }

    /// The core that has the lock next.
    fn give(&mut self, lock: u32) -> Option<usize> {
        let next = self.held.get_mut(&lock)?.pop_front();
        if next.is_none() {
            self.held.remove(&lock);
        }
        next
    }
}
