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

mod bursts;
pub(crate) mod clos;
pub mod control_plane;
mod cores;
mod egress;
mod elastic;
mod functional;
pub mod gpu;
mod ingress;
mod intake;
pub mod lives;
mod mappings;
pub mod neighbours;
mod nic;
mod nic_memory;
mod output;
pub(crate) mod owners;
mod pending;
pub mod placing;
mod rings;
mod saved;
mod scattered;
mod spread;
mod stalls;
pub mod storage;
pub(crate) mod take_over;

use control::Allocation;
use engine::{Engine, Seed};
use functions::upf::FlowCounters;
use functions::{Function, MemberTotals, PacketFunction, Verdict};
use machine::buffer::BufferCounters;
use machine::cores::CoreSpec;
use machine::memory::Hierarchy;
use machine::nic::{Mempool, PACKET_BUFFER, PipelineSpec, RSS_KEY, Received, ServerLayout, Toeplitz};
use packet::Packet;
use probe::{RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::Serialize;
use stats::Attribution;
use traffic::Source;
use units::{Addr, Clos, CoreId, Line, PacketId, PortId, Ps, Rate};

use crate::scenario::clos::{RX_CLASS, WORK_CLASS};
use crate::scenario::neighbours as others;
use crate::scenario::{Scenario, ScenarioError};
use crate::server::bursts::Locks;
use crate::server::control_plane::ControlTables;
use crate::server::cores::{CoreInput, Handed, ServerCore};
use crate::server::functional::CoarseClock;
use crate::server::gpu::{GpuCounters, GpuTurn, ServerGpu};
use crate::server::lives::LifeWriter;
use crate::server::neighbours::{Neighbour, NeighbourCounters};
use crate::server::nic::ServerNic;
use crate::server::nic_memory::NicMemory;
use crate::server::pending::PendingIo;
use crate::server::placing::PlacingCounters;
use crate::server::scattered::Scattered;
use crate::server::storage::StorageDevice;

pub use saved::{STATE_VERSION, belonging};

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
    /// All receive descriptors of its queue were used, or all credits of its flow.
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
    /// Packets that came for its receive rings, or for its software queue, those that were lost among them.
    pub offered: u64,
    /// Of those, packets lost before it had them: for want of a descriptor, an mbuf or room.
    pub lost: u64,
    /// What packets waited in its rings or queue, summed: of those that it took, and so far of those that wait.
    #[serde(skip)]
    pub waited: Ps,
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
    values: [
        packets,
        offered,
        lost,
        waited,
        bursts,
        busy,
        spent,
        burst_squares,
        burst_time,
        instructions,
        doorbells,
        rx_nombuf
    ],
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
    pipeline: Option<WorkerDispatch>,
    /// Cores that poll a queue of the NIC, the first ones.
    receiving: usize,
    nic: ServerNic,
    memory: Hierarchy,
    /// What waits for memory that answers later.
    pending: Option<Box<PendingIo>>,
    layout: ServerLayout,
    pool: Mempool,
    /// Its size.
    mbufs: u64,
    /// What gives packets their memory in place of their mbufs.
    scattered: Option<Box<Scattered>>,
    cores: Vec<ServerCore>,
    function: Function,
    poll: Ps,
    core_spec: CoreSpec,
    /// See [`Scenario::instruction_parts`].
    instruction_parts: Option<u64>,
    /// Whether the last advance ended at its pause.
    paused: bool,
    burst: usize,
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
    locks: Locks,
    neighbours: Vec<Neighbour>,
    storage: Vec<StorageDevice>,
    /// Where packets go that cores do not work on themselves.
    gpu: Option<Box<ServerGpu>>,
    /// Lines of counters that each packet core writes a burst, where somebody reads them.
    statistics: Option<u32>,
    coarse: CoarseClock,
    /// Packets that were offered and have not ended.
    inside: u64,
    last_departure: Ps,
    /// Packets sent.
    sent: u64,
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
        pool,
        locks,
        coarse,
        inside,
        last_departure,
        sent,
        lost
    ],
    arrays: [],
    parts: [source, pending, scattered, cores, function, neighbours, storage, gpu, nic],
    described: [memory],
    // What is as the scenario has it, and what is empty between two events.
    built: [
        wire,
        pipeline,
        receiving,
        layout,
        mbufs,
        poll,
        burst,
        spare,
        received,
        verdicts,
        freed,
        gone,
        handed,
        statistics,
        core_spec,
        instruction_parts,
        paused,
        lives
    ],
});

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
    /// A storage device writes.
    Storage(usize),
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

/// How received packets find their worker.
#[derive(Clone)]
struct WorkerDispatch {
    spec: PipelineSpec,
    /// Over the workers, by the hash of what decides.
    workers: Toeplitz,
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
    let of_packets = if scenario.buffer.is_some() { BUFFER } else { "mbufs" };
    // Another socket's LLC, and a tail in the NIC, answer as memory does: what they have would be told as gone.
    let tells = m.sockets.is_none() && nic.cache_cells == 0;
    if let Some(extent) = layout.extents().iter().find(|extent| tells && extent.name == of_packets) {
        let (first, count) = lines(Addr(extent.bytes.start), extent.bytes.end - extent.bytes.start);
        memory.watch_packets(first.0..first.0 + count);
    }
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
        let device = ServerNic::of(scenario, &layout, &mut pool)?;
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
            pipeline: scenario.pipeline.clone().map(|spec| WorkerDispatch {
                workers: Toeplitz::new(&RSS_KEY, (m.cores - spec.rx_cores) as u16),
                spec,
            }),
            receiving: scenario.receiving_cores() as usize,
            core_spec: m.core.clone(),
            instruction_parts: scenario.instruction_parts(),
            paused: false,
            pending: memory.has_controllers().then(|| Box::new(PendingIo::new(m.cores as usize, ports))),
            nic: device,
            memory,
            layout,
            pool,
            mbufs: scenario.mempool.size.into(),
            scattered,
            cores,
            function,
            poll,
            burst: nic.burst as usize,
            spare: Vec::new(),
            received: Vec::new(),
            verdicts: Vec::new(),
            freed: Vec::new(),
            gone: Vec::new(),
            handed: Vec::new(),
            locks: Locks::default(),
            coarse: CoarseClock::new(m.cores as usize, others::cores(&scenario.neighbours) as usize),
            gpu,
            statistics: others::statistics_lines(&scenario.neighbours),
            neighbours: Neighbour::of_all(&scenario.neighbours, &m.clos, &m.core, &tables, |i| {
                seed.stream(&format!("neighbours.{i}"))
            })?,
            storage: StorageDevice::of_all(&scenario.neighbours),
            inside: 0,
            last_departure: Ps::ZERO,
            sent: 0,
            lost: 0,
            lives: None,
        };
        server.draw_arrival();
        for (i, neighbour) in server.neighbours.iter_mut().enumerate() {
            server.engine.schedule(neighbour.begin(), PRIORITY_CORE, ServerEvent::Neighbour(i));
        }
        for k in 0..server.storage.len() {
            server.engine.schedule(Ps::ZERO, PRIORITY_NIC, ServerEvent::Storage(k));
        }
        Ok(server)
    }

    /// Handles up to `events` events, and no more after the packet that reaches `pause` has arrived, or the last one; `false`
    /// once all is done.
    pub fn advance(&mut self, events: usize, pause: Pause, observer: &mut impl DepartureObserver) -> bool {
        self.paused = false;
        for _ in 0..events {
            let Some(event) = self.engine.pop() else { return false };
            match event {
                ServerEvent::Arrival => {
                    self.arrival(observer);
                    if self.offered >= pause.offered || self.engine.now() >= pause.at || !self.more {
                        self.paused = true;
                        return true;
                    }
                }
                ServerEvent::Intake => self.intake_turn(observer),
                ServerEvent::DmaWrite => {
                    if let Some(next) = self.nic.crossing.get(self.nic.stalled) {
                        self.nic.stalled_bytes += next.held;
                        self.nic.stalled += 1;
                    }
                    // With others before it it has to wait in any case.
                    if self.nic.stalled == 1 {
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
                ServerEvent::Storage(k) => self.storage_turn(k),
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

    /// Whether no packet follows those that were offered.
    pub fn has_seen_all(&self) -> bool {
        !self.more
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

    /// Whether the system takes time from its cores.
    pub fn has_stalls(&self) -> bool {
        self.cores.iter().any(|core| core.system.is_some())
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
        let is_on = self.nic.common.is_some()
            || self.nic.targets.is_some()
            || self.nic.dead.is_some()
            || self.nic.elastic.is_some()
            || self.nic.memory.is_some();
        is_on.then_some(self.nic.placing)
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
            let under_way = w.is_in_burst();
            let burst = if under_way { self.engine.now().since(w.started) } else { Ps::ZERO };
            CoreCounters {
                instructions: w.core.instructions(),
                busy: w.counters.busy + burst,
                waited: w.counters.waited + w.input.waited(self.engine.now()),
                ..w.counters
            }
        };
        self.cores.iter().map(of).collect()
    }

    /// Packets waiting in the rings and software queues of all cores.
    pub fn ring_occupancy(&self) -> usize {
        self.waiting().map(|packets| packets as usize).sum()
    }

    /// Of each core, packets that wait in its ring or software queue.
    pub fn waiting(&self) -> impl Iterator<Item = u64> + '_ {
        self.cores.iter().map(|w| w.input.waiting() as u64)
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
        states.descriptors += self.nic.common.as_ref().and_then(|c| c.shared()).map_or(0, |ring| ring.posted() as u64);
        states.sending = self.mbufs.saturating_sub(states.free + states.descriptors + states.queued);
        states
    }

    /// What each of the scenario's neighbours has done so far.
    pub fn neighbours(&self) -> Vec<NeighbourCounters> {
        let all = self.neighbours.iter().map(|core| core.of).chain(self.storage.iter().map(|device| device.of));
        let count = all.max().map_or(0, |last| last + 1);
        let mut all = vec![NeighbourCounters::default(); count];
        for neighbour in &self.neighbours {
            all[neighbour.of] += neighbour.counters();
        }
        for device in &self.storage {
            all[device.of].storage += device.counters();
        }
        all
    }

    /// Packets sent so far, whenever they arrived.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// What the GPU has done; none without one. Of what is under way the time so far is among it.
    pub fn gpu(&self) -> Option<GpuCounters> {
        self.gpu.as_ref().map(|gpu| gpu.counters(self.engine.now()))
    }

    /// Lines of the LLC that devices, receiving cores, working cores and others have brought in.
    pub fn llc_lines(&self) -> [u64; 4] {
        let of = |clos| self.memory.class(clos).lines;
        [self.memory.io_lines(), of(RX_CLASS), of(WORK_CLASS), of(Clos(0))]
    }

    /// Payload bytes of PCIe so far: those that have crossed to the host, and those that were asked for from it.
    pub fn pcie_bytes(&self) -> (u64, u64) {
        (self.nic.up.bytes() - self.nic.still_there(self.engine.now()), self.nic.down.bytes())
    }

    /// As [`Server::pcie_bytes`], with framing and headers.
    pub fn pcie_carried(&self) -> (u64, u64) {
        let now = self.engine.now();
        (self.nic.up.carried(now), self.nic.down.carried(now))
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

    /// A neighbour goes on, as long as there is somebody whose neighbour it is.
    fn neighbour(&mut self, i: usize) {
        if !self.more && self.inside == 0 {
            return;
        }
        if self.neighbours[i].wants_block() && !self.next_block(i) {
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

/// The first of the lines that `bytes` bytes from `start` on lie in, and how many they are.
pub(crate) fn lines(start: Addr, bytes: u64) -> (Line, u64) {
    let (first, last) = (start.line().0, Addr(start.0 + bytes.max(1) - 1).line().0);
    (Line(first), last - first + 1)
}
