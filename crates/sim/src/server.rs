//! A server that forwards packets: ports, NIC, rings, cores that run to completion, memory.
//!
//! A packet's last bit arrives; the NIC takes a descriptor of the queue that RSS names and writes
//! packet and descriptor through PCIe into the memory system; the core polls, takes a burst, runs
//! the function, and hands what leaves to the transmit queues; the NIC reads it back and sends it.
//!
//! The function runs at the start of its burst in zero simulated time; its references are replayed
//! by the core. Everything that touches the shared part of memory happens in order of time.
//!
//! Sojourn is from the last bit in to the first bit out (RFC 1242, store-and-forward devices).

use std::collections::VecDeque;
use std::ops::Sub;

use engine::{Engine, Seed};
use functions::{Function, PacketFunction, Verdict};
use machine::cores::{BurstPacket, Core, Step};
use machine::memory::Hierarchy;
use machine::nic::{
    Credits, Link, Mempool, RSS_KEY, RX_RING, Received, RxQueue, ServerLayout, TX_RING, Toeplitz, TxQueue,
};
use packet::{Packet, RX_DESCRIPTOR_BYTES, TX_DESCRIPTOR_BYTES, layers};
use stats::{Attribution, Reason};
use traffic::Source;
use units::{Addr, CoreId, LINE_BYTES, Line, PacketId, PortId, Ps, Rate};

use crate::scenario::{Scenario, ScenarioError};

/// What becomes of an offered packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It left by this port.
    Sent(PortId),
    /// The function rejected it.
    Rejected(functions::DropReason),
    /// It was lost for want of a resource.
    Lost(Loss),
}

/// For want of what a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// All receive descriptors of its queue were used.
    NoRxDescriptor,
    /// The NIC's packet memory was full.
    NicFifoFull,
    /// The transmit queue was full.
    NoTxDescriptor,
}

impl Loss {
    /// All of them.
    pub const ALL: [Loss; 3] = [Loss::NoRxDescriptor, Loss::NicFifoFull, Loss::NoTxDescriptor];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Loss::NoRxDescriptor => "no_rx_descriptor",
            Loss::NicFifoFull => "nic_fifo_full",
            Loss::NoTxDescriptor => "no_tx_descriptor",
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
    /// Bytes of its frame without FCS.
    pub frame_bytes: u32,
    /// The core that had it; of a lost packet the one it was meant for.
    pub core: CoreId,
    /// What became of it.
    pub fate: Fate,
    /// Of a sent packet: last bit in to first bit out.
    pub sojourn: Ps,
    /// Of a sent packet: what the sojourn was spent on. Sums to it.
    pub attribution: &'a Attribution,
}

/// Sees every packet's end.
pub trait Observer {
    /// A packet has left, was rejected or lost.
    fn departure(&mut self, departure: &Departure);
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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreCounters {
    /// Packets it took from its ring.
    pub packets: u64,
    /// Bursts.
    pub bursts: u64,
    /// Time in bursts.
    pub busy: Ps,
    /// Instructions, polling in vain not counted.
    pub instructions: u64,
}

impl Sub for CoreCounters {
    type Output = CoreCounters;
    /// What was counted since `rhs`, an earlier state of the same counters.
    fn sub(self, rhs: CoreCounters) -> CoreCounters {
        CoreCounters {
            packets: self.packets - rhs.packets,
            bursts: self.bursts - rhs.bursts,
            busy: self.busy - rhs.busy,
            instructions: self.instructions - rhs.instructions,
        }
    }
}

/// The server. See the module header.
pub struct Server {
    engine: Engine<Event>,
    source: Source,
    next: Packet,
    more: bool,
    offer: u64,
    offered: u64,
    wire: Rate,
    wire_free: Ps,

    rss: Toeplitz,
    up: Link,
    credits: Credits,
    down: Link,
    fifo_bytes: u64,
    /// Packets that cross PCIe, in order.
    crossing: VecDeque<Crossing>,
    /// How many of them, the oldest, wait for credits only, and their bytes, which the NIC holds.
    stalled: usize,
    stalled_bytes: u64,

    memory: Hierarchy,
    layout: ServerLayout,
    pool: Mempool,
    cores: Vec<Worker>,
    function: Function,
    poll: Ps,
    burst: usize,
    /// When each port is free to send.
    port_free: Vec<Ps>,
    batches: Vec<Option<Batch>>,
    free_batches: Vec<usize>,
    /// Emptied packets, for their memory.
    spare: Vec<Packet>,
    received: Vec<Received>,
    verdicts: Vec<Verdict>,
    /// Of the descriptors that the NIC reads.
    lines: Vec<Line>,
    locks: Locks,
    last_departure: Ps,
}

struct Crossing {
    received: Received,
    descriptor: u64,
    core: usize,
}

impl Crossing {
    /// What is written: the packet and its descriptor.
    fn bytes(&self) -> u64 {
        u64::from(self.received.packet.frame_bytes) + RX_DESCRIPTOR_BYTES
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The last bit of the next packet is in.
    Arrival,
    /// The next crossing packet reaches the memory system.
    DmaWrite,
    /// Credits for the oldest packet that waits for them are back.
    Credits,
    /// A core polls, goes on, or completes its burst.
    Core(usize),
    /// The NIC reads the descriptors of a batch that a core has handed over.
    ReadDescriptors(usize),
    /// The NIC reads the packets of a batch.
    ReadPackets(usize),
}

/// Events at the same time: memory gets packets before cores look for them.
const PRIORITY_NIC: u8 = 0;
const PRIORITY_CORE: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Polls since this time; an event is scheduled only if a packet is there.
    Polling(Ps),
    /// A poll that will find a packet is scheduled.
    Waking,
    Running,
    /// The burst is replayed and its end is scheduled.
    Finishing,
}

struct Worker {
    core: Core,
    rx: RxQueue,
    /// A transmit queue a port.
    tx: Vec<TxQueue>,
    state: State,
    /// The latest time at which a packet became visible: descriptors complete in order.
    latest_visible: Ps,
    started: Ps,
    in_burst: Vec<InBurst>,
    packets: Vec<Packet>,
    counters: CoreCounters,
}

/// A packet of the burst that a core works on.
struct InBurst {
    arrival: Ps,
    frame_bytes: u32,
    dma_memory: Ps,
    visible: Ps,
    fate: Fate,
    mbuf: u32,
}

/// What a core hands to the NIC at the end of a burst.
struct Batch {
    core: usize,
    at: Ps,
    /// What reading the descriptors waited for memory.
    in_memory: Ps,
    packets: Vec<Leaving>,
}

struct Leaving {
    id: PacketId,
    arrival: Ps,
    frame_bytes: u32,
    port: PortId,
    mbuf: u32,
    attribution: Attribution,
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
        let m = &scenario.machine;
        let nic = &scenario.nic;
        let mut memory = Hierarchy::new(&m.memory(), m.cores, "machine")?;
        let mut pool = Mempool::new(&scenario.mempool, m.cores);
        if scenario.mempool.shuffled {
            let mut order = seed.stream("mempool.order");
            pool.shuffle(|n| rand::RngExt::random_range(&mut order, 0..n));
        }
        let layout = ServerLayout::new(
            m.cores,
            scenario.mempool.size,
            pool.ring_bytes(),
            nic.rx_descriptors,
            nic.tx_descriptors,
            nic.ports,
            &function.regions(),
        )?;
        memory.tables_at(Addr(layout.bytes()));
        // Polls of different cores are not in step.
        let poll = Ps(m.core.period().0 * u64::from(m.core.poll_cycles));
        let mut phases = seed.stream("machine.core.poll_phase");
        let mut cores = Vec::with_capacity(m.cores as usize);
        for i in 0..m.cores as u16 {
            let core = Core::new(&m.core, CoreId(i), "machine.core")?;
            // Scenario::check has held the inequality that makes this possible.
            let Some(rx) = RxQueue::new(nic.rx_descriptors, CoreId(i), &mut pool) else {
                scenario.mempool.check("mempool", m.cores, nic.rx_descriptors, nic.burst)?;
                continue;
            };
            let phase = Ps(rand::RngExt::random_range(&mut phases, 0..poll.0.max(1)));
            cores.push(Worker {
                core,
                rx,
                tx: (0..nic.ports).map(|port| TxQueue::new(nic.tx_descriptors, port)).collect(),
                state: State::Polling(phase),
                latest_visible: Ps::ZERO,
                started: Ps::ZERO,
                in_burst: Vec::new(),
                packets: Vec::new(),
                counters: CoreCounters::default(),
            });
        }
        let mut server = Server {
            engine: Engine::new(),
            source,
            next: Packet::default(),
            more: true,
            offer,
            offered: 0,
            wire: nic.rate,
            wire_free: Ps::ZERO,
            rss: Toeplitz::new(&RSS_KEY, m.cores as u16),
            up: Link::new(&nic.pcie),
            credits: Credits::new(&nic.pcie),
            down: Link::new(&nic.pcie),
            fifo_bytes: nic.fifo.bytes(),
            crossing: VecDeque::new(),
            stalled: 0,
            stalled_bytes: 0,
            memory,
            layout,
            pool,
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
            lines: Vec::new(),
            locks: Locks::default(),
            last_departure: Ps::ZERO,
        };
        server.draw_arrival();
        Ok(server)
    }

    /// Handles up to `events` events, and no more after the packet that reaches `pause` has arrived; `false` once
    /// all is done.
    pub fn advance(&mut self, events: usize, pause: Pause, observer: &mut impl Observer) -> bool {
        for _ in 0..events {
            let Some(event) = self.engine.pop() else { return false };
            match event {
                Event::Arrival => {
                    self.arrival(observer);
                    if self.offered >= pause.offered || self.engine.now() >= pause.at {
                        return true;
                    }
                }
                Event::DmaWrite => {
                    if let Some(next) = self.crossing.get(self.stalled) {
                        self.stalled_bytes += next.bytes();
                        self.stalled += 1;
                    }
                    // With others before it it has to wait in any case.
                    if self.stalled == 1 {
                        self.dma_writes();
                    }
                }
                Event::Credits => self.dma_writes(),
                Event::Core(i) => self.core(i, observer),
                Event::ReadDescriptors(batch) => self.read_descriptors(batch),
                Event::ReadPackets(batch) => self.read_packets(batch, observer),
            }
        }
        true
    }

    /// Offers `packets` in all and no more: what is inside then goes on to its end.
    pub fn offer_in_all(&mut self, packets: u64) {
        self.offer = packets.max(self.offered);
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

    /// Counters of each core; of a burst under way the time so far is among `busy`.
    pub fn cores(&self) -> Vec<CoreCounters> {
        let of = |w: &Worker| {
            let under_way = matches!(w.state, State::Running | State::Finishing);
            let burst = if under_way { self.engine.now().since(w.started) } else { Ps::ZERO };
            CoreCounters { instructions: w.core.instructions(), busy: w.counters.busy + burst, ..w.counters }
        };
        self.cores.iter().map(of).collect()
    }

    /// Packets waiting in the rings of all cores.
    pub fn ring_occupancy(&self) -> usize {
        self.cores.iter().map(|w| w.rx.waiting()).sum()
    }

    /// Payload bytes that crossed PCIe so far: to the host, from the host.
    pub fn pcie_bytes(&self) -> (u64, u64) {
        (self.up.bytes(), self.down.bytes())
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
            let first_bit = self.next.arrival.max(self.wire_free);
            self.wire_free = first_bit + self.wire.time_for(self.next.wire_bytes());
            self.engine.schedule(self.wire_free, PRIORITY_NIC, Event::Arrival);
        }
    }

    fn arrival(&mut self, observer: &mut impl Observer) {
        if self.offered >= self.offer {
            return;
        }
        let now = self.engine.now();
        let mut packet = self.spare.pop().unwrap_or_default();
        std::mem::swap(&mut packet, &mut self.next);
        packet.id = PacketId(self.offered);
        packet.arrival = now;
        self.offered += 1;
        let core = match self.cores.len() {
            1 => 0,
            _ => self.rss.queue(layers(&packet.data).ok().map(|l| l.five_tuple).as_ref()),
        };
        let held = self.up.backlog(now) + self.stalled_bytes;
        let lost = if held + u64::from(packet.frame_bytes) > self.fifo_bytes {
            Some(Loss::NicFifoFull)
        } else if let Some((descriptor, mbuf)) = self.cores[core].rx.take_descriptor() {
            let bytes = u64::from(packet.frame_bytes) + RX_DESCRIPTOR_BYTES;
            let at = self.up.transfer(now, bytes);
            let received = Received { packet, mbuf, visible: at, dma_memory: Ps::ZERO };
            self.crossing.push_back(Crossing { received, descriptor, core });
            self.engine.schedule(at, PRIORITY_NIC, Event::DmaWrite);
            self.draw_arrival();
            return;
        } else {
            Some(Loss::NoRxDescriptor)
        };
        if let Some(loss) = lost {
            observer.departure(&Departure {
                packet: packet.id,
                arrival: now,
                frame_bytes: packet.frame_bytes,
                core: CoreId(core as u16),
                fate: Fate::Lost(loss),
                sojourn: Ps::ZERO,
                attribution: &Attribution::default(),
            });
            self.spare.push(packet);
        }
        self.draw_arrival();
    }

    /// Writes the packets that have crossed PCIe while there are credits for them.
    fn dma_writes(&mut self) {
        while self.stalled > 0
            && let Some(bytes) = self.crossing.front().map(Crossing::bytes)
        {
            if let Err(at) = self.credits.take(self.engine.now(), bytes) {
                self.engine.schedule(at, PRIORITY_NIC, Event::Credits);
                return;
            }
            self.stalled -= 1;
            self.stalled_bytes -= bytes;
            let Some(crossing) = self.crossing.pop_front() else { return };
            let visible = self.dma_write(crossing);
            self.credits.give_back(bytes, visible);
        }
    }

    /// Writes a packet and its descriptor; when both are in memory.
    fn dma_write(&mut self, crossing: Crossing) -> Ps {
        let Crossing { mut received, descriptor, core } = crossing;
        let now = self.engine.now();
        let worker = &mut self.cores[core];
        let ring = self.layout.address(RX_RING, worker.rx.offset(descriptor), core as u16);
        // The NIC has fetched descriptors ahead, a line at a time.
        if ring.0.is_multiple_of(LINE_BYTES) {
            self.memory.dma_read(ring.line(), 1, now);
        }
        let (first, count) = lines(self.layout.data(received.mbuf), u64::from(received.packet.frame_bytes));
        let written = self.memory.dma_write(first, count, now).max(self.memory.dma_write(ring.line(), 1, now));
        let visible = written.max(worker.latest_visible);
        worker.latest_visible = visible;
        received.dma_memory = visible - now;
        received.visible = visible;
        worker.rx.complete(received);
        if let State::Polling(since) = worker.state {
            worker.state = State::Waking;
            let at = next_poll(since, self.poll, visible);
            self.engine.schedule(at, PRIORITY_CORE, Event::Core(core));
        }
        visible
    }

    fn core(&mut self, i: usize, observer: &mut impl Observer) {
        match self.cores[i].state {
            State::Waking | State::Polling(_) => self.start_burst(i),
            State::Finishing => {
                self.finish_burst(i, observer);
                return;
            }
            State::Running => {}
        }
        self.step(i);
    }

    /// Takes a burst, runs the function, and begins to replay what was done.
    fn start_burst(&mut self, i: usize) {
        let now = self.engine.now();
        let worker = &mut self.cores[i];
        let id = worker.core.id();
        let script = worker.core.script();
        script.clear();
        self.received.clear();
        worker.rx.receive(now, self.burst, &mut self.received, script);
        worker.packets.clear();
        worker.in_burst.clear();
        for received in self.received.drain(..) {
            worker.in_burst.push(InBurst {
                arrival: received.packet.arrival,
                frame_bytes: received.packet.frame_bytes,
                dma_memory: received.dma_memory,
                visible: received.visible,
                fate: Fate::Lost(Loss::NoTxDescriptor),
                mbuf: received.mbuf,
            });
            worker.packets.push(received.packet);
        }
        self.verdicts.clear();
        self.function.process_burst(now, &mut worker.packets, script, &mut self.verdicts);
        let stride = self.layout.mbuf_stride();
        let mut freed = Vec::new();
        for ((packet, verdict), entry) in worker.packets.iter().zip(&self.verdicts).zip(&mut worker.in_burst) {
            entry.fate = match *verdict {
                Verdict::Forward { port } => {
                    let port = PortId(port.0 % worker.tx.len() as u16);
                    let tx = &mut worker.tx[usize::from(port.0)];
                    tx.reclaim(now, id, &mut self.pool, stride, script);
                    match tx.send(packet.id, entry.mbuf, script) {
                        true => Fate::Sent(port),
                        false => Fate::Lost(Loss::NoTxDescriptor),
                    }
                }
                Verdict::Drop(reason) => Fate::Rejected(reason),
            };
            if !matches!(entry.fate, Fate::Sent(_)) {
                freed.push(entry.mbuf);
            }
        }
        if !freed.is_empty() {
            self.pool.put_bulk(id, &freed, script);
        }
        worker.rx.refill(id, &mut self.pool, script);
        worker.counters.packets += worker.packets.len() as u64;
        worker.counters.bursts += 1;
        worker.started = now;
        let layout = &self.layout;
        let places = worker.packets.iter().zip(&worker.in_burst).map(|(packet, entry)| BurstPacket {
            id: packet.id,
            mbuf: layout.mbuf(entry.mbuf),
            data: layout.data(entry.mbuf),
        });
        worker.core.start(places, now);
        worker.state = State::Running;
    }

    /// Replays until the burst is complete or something else comes first.
    fn step(&mut self, i: usize) {
        loop {
            let now = self.engine.now();
            let horizon = self.engine.peek().unwrap_or(Ps::MAX);
            match self.cores[i].core.step(&mut self.memory, &self.layout, now, horizon) {
                Step::Done(at) => {
                    self.cores[i].state = State::Finishing;
                    self.engine.schedule(at.max(now), PRIORITY_CORE, Event::Core(i));
                    return;
                }
                Step::At(at) => {
                    self.engine.schedule(at.max(now), PRIORITY_CORE, Event::Core(i));
                    return;
                }
                Step::Lock(lock, at) => match self.locks.take(lock.0, i, at) {
                    Some(granted) => self.cores[i].core.grant(granted),
                    None => return,
                },
                Step::Unlock(lock, at) => {
                    if let Some(next) = self.locks.give(lock.0) {
                        self.cores[next].core.grant(at);
                        self.engine.schedule(at.max(now), PRIORITY_CORE, Event::Core(next));
                    }
                }
                // This memory system answers at once.
                Step::Wait => unreachable!("no controller in this machine"),
            }
        }
    }

    fn finish_burst(&mut self, i: usize, observer: &mut impl Observer) {
        let now = self.engine.now();
        let worker = &mut self.cores[i];
        worker.rx.doorbell();
        worker.counters.busy += now - worker.started;
        let mut leaving = Vec::new();
        for (index, (entry, packet)) in worker.in_burst.drain(..).zip(worker.packets.drain(..)).enumerate() {
            if let Fate::Sent(port) = entry.fate {
                let mut attribution = worker.core.attribution(index);
                attribution.charge(Reason::Pcie, entry.visible - entry.arrival - entry.dma_memory);
                attribution.charge(Reason::DmaMemory, entry.dma_memory);
                attribution.charge(Reason::Ring, worker.started - entry.visible);
                leaving.push(Leaving {
                    id: packet.id,
                    arrival: entry.arrival,
                    frame_bytes: entry.frame_bytes,
                    port,
                    mbuf: entry.mbuf,
                    attribution,
                });
            } else {
                observer.departure(&Departure {
                    packet: packet.id,
                    arrival: entry.arrival,
                    frame_bytes: entry.frame_bytes,
                    core: CoreId(i as u16),
                    fate: entry.fate,
                    sojourn: Ps::ZERO,
                    attribution: &Attribution::default(),
                });
            }
            self.spare.push(packet);
        }
        if !leaving.is_empty() {
            let batch = Batch { core: i, at: now, in_memory: Ps::ZERO, packets: leaving };
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
            self.engine.schedule(now + self.down.latency() * 2, PRIORITY_NIC, Event::ReadDescriptors(slot));
        }
        match worker.rx.oldest() {
            Some(visible) if visible <= now => {
                worker.state = State::Waking;
                self.start_burst(i);
                self.step(i);
            }
            Some(visible) => {
                worker.state = State::Waking;
                self.engine.schedule(next_poll(now, self.poll, visible), PRIORITY_CORE, Event::Core(i));
            }
            None => worker.state = State::Polling(now),
        }
    }

    /// The NIC reads descriptors; the answer lets it ask for the packets.
    fn read_descriptors(&mut self, slot: usize) {
        let Some(batch) = &mut self.batches[slot] else { return };
        let now = self.engine.now();
        let core = batch.core as u16;
        let count = batch.packets.len() as u64;
        self.lines.clear();
        for packet in &batch.packets {
            let offset = self.cores[batch.core].tx[usize::from(packet.port.0)].fetch();
            self.lines.push(self.layout.address(TX_RING, offset, core).line());
        }
        // A line holds four.
        self.lines.sort_unstable();
        self.lines.dedup();
        for &line in &self.lines {
            batch.in_memory = batch.in_memory.max(self.memory.dma_read(line, 1, now) - now);
        }
        let there = self.down.transfer(now, count * TX_DESCRIPTOR_BYTES) + batch.in_memory;
        self.engine.schedule(there + self.down.latency(), PRIORITY_NIC, Event::ReadPackets(slot));
    }

    /// The NIC reads packets and sends them in order.
    fn read_packets(&mut self, slot: usize, observer: &mut impl Observer) {
        let Some(batch) = self.batches[slot].take() else { return };
        self.free_batches.push(slot);
        let now = self.engine.now();
        let core = batch.core as u16;
        for packet in batch.packets {
            let (first, count) = lines(self.layout.data(packet.mbuf), u64::from(packet.frame_bytes));
            let memory = self.memory.dma_read(first, count, now) - now;
            let read = self.down.transfer(now, u64::from(packet.frame_bytes)) + memory;
            let port = usize::from(packet.port.0);
            let first_bit = read.max(self.port_free[port]);
            let wire = u64::from(packet.frame_bytes) + packet::ETHERNET_FCS_BYTES;
            let wire = wire.max(packet::MIN_FRAME_BYTES) + packet::ETHERNET_OVERHEAD_BYTES;
            self.port_free[port] = first_bit + self.wire.time_for(wire);
            self.cores[batch.core].tx[port].read(read);
            let mut attribution = packet.attribution;
            let in_memory = memory + batch.in_memory;
            attribution.charge(Reason::DmaMemory, in_memory);
            attribution.charge(Reason::Pcie, read - batch.at - in_memory);
            attribution.charge(Reason::TxQueue, first_bit - read);
            self.last_departure = self.last_departure.max(first_bit);
            observer.departure(&Departure {
                packet: packet.id,
                arrival: packet.arrival,
                frame_bytes: packet.frame_bytes,
                core: CoreId(core),
                fate: Fate::Sent(packet.port),
                sojourn: first_bit - packet.arrival,
                attribution: &attribution,
            });
        }
    }
}

/// The first poll at or after `visible` of a core that polls every `period` from `since` on.
fn next_poll(since: Ps, period: Ps, visible: Ps) -> Ps {
    since + period * visible.since(since).0.div_ceil(period.0.max(1))
}

/// The first of the lines that `bytes` bytes from `start` on lie in, and how many they are.
fn lines(start: Addr, bytes: u64) -> (Line, u64) {
    let (first, last) = (start.line().0, Addr(start.0 + bytes.max(1) - 1).line().0);
    (Line(first), last - first + 1)
}

/// Locks of functions: who holds each, and who waits, first come first served.
#[derive(Default)]
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
