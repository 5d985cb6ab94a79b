//! The scenario's machine with one burst at a time on it: nothing waits for what somebody else does.
//!
//! The caches, DRAM rows and rings are those of a run, and so are the cores; only the time between one burst and
//! the next is made so long that all is at rest.

use engine::Seed;
use functions::{Function, PacketFunction, Verdict};
use machine::cores::{BurstPacket, Core, CoreStep};
use machine::dram::DramCounters;
use machine::memory::Hierarchy;
use machine::nic::{
    Mempool, NicSpec, RSS_KEY, RX_COMPLETIONS, RX_RING, Received, RxQueues, RxRings, ServerLayout, TX_RING, Toeplitz,
    TxQueue,
};
use packet::{Packet, layers};
use stats::{Attribution, Reason};
use traffic::Source;
use units::{Addr, CoreId, LINE_BYTES, PacketId, PortId, Ps, Span};

use crate::load::Loaded;
use crate::scenario::clos::{RX_CLASS, held, of_core};
use crate::scenario::{Scenario, ScenarioError};
use crate::server::lines;

/// Between one thing that happens and the next: writes to DRAM have ended by then. Prime to refresh intervals, so
/// that refreshes are met as often as at random.
const APART: Ps = Ps(2_000_003);

/// Sums over packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    packets: f64,
    rejected: f64,
    instructions: f64,
    references: f64,
    l1_misses: f64,
    l2_misses: f64,
    dram_reads: f64,
    dram_lines: f64,
    service: f64,
    service_squared: f64,
    link: [f64; 2],
    dma: f64,
    attribution: Attribution,
}

/// What a packet takes, in the mean.
#[derive(Clone, Copy, Debug)]
pub(super) struct PerPacket {
    /// How many were counted.
    pub packets: f64,
    /// Share that the function rejects.
    pub rejected: f64,
    pub instructions: f64,
    pub references: f64,
    pub l1_misses: f64,
    pub l2_misses: f64,
    /// Lines read from DRAM by cores.
    pub dram_reads: f64,
    /// All lines over the DRAM buses.
    pub dram_lines: f64,
    /// Seconds at the core, and the mean square.
    pub service: f64,
    pub service_squared: f64,
    /// Seconds of a packet and its descriptor on a PCIe link, and the mean square.
    pub link: [f64; 2],
    /// Seconds of the device's writes and reads in memory.
    pub dma: f64,
    /// What the cores' time went to, summed over all packets.
    pub attribution: Attribution,
}

impl Sums {
    fn count_lines(&mut self, dram: DramCounters) {
        self.dram_lines += (dram.reads + dram.writes) as f64;
    }

    /// [`None`] without packets.
    pub(super) fn per_packet(&self) -> Option<PerPacket> {
        let n = self.packets;
        (n > 0.0).then(|| PerPacket {
            packets: n,
            rejected: self.rejected / n,
            instructions: self.instructions / n,
            references: self.references / n,
            l1_misses: self.l1_misses / n,
            l2_misses: self.l2_misses / n,
            dram_reads: self.dram_reads / n,
            dram_lines: self.dram_lines / n,
            service: self.service / n,
            service_squared: self.service_squared / n,
            link: self.link.map(|part| part / n),
            dma: self.dma / n,
            attribution: self.attribution,
        })
    }
}

struct ProfiledCore {
    core: Core,
    rx: RxQueues,
    tx: Vec<TxQueue>,
    /// In the receive ring.
    waiting: u32,
    /// All packets so far.
    arrived: u64,
}

/// See the module header.
pub(super) struct Idle<'a> {
    scenario: &'a Scenario,
    source: Source,
    function: Function,
    memory: Hierarchy,
    layout: ServerLayout,
    pool: Mempool,
    rss: Toeplitz,
    workers: Vec<ProfiledCore>,
    now: Ps,
    offered: u64,
}

impl<'a> Idle<'a> {
    /// # Errors
    /// A machine or a load that cannot be.
    pub(super) fn new(scenario: &'a Scenario, loaded: &Loaded) -> Result<Idle<'a>, ScenarioError> {
        let (m, nic) =
            (&scenario.machine, &NicSpec { rings: RxRings::Private, deliveries: None, ..scenario.nic.clone() });
        let seed = Seed(scenario.run.seed);
        let load = scenario.traffic.offered(nic.rate);
        let source = loaded.blueprint.source(rand::Rng::next_u64(&mut seed.stream("traffic")), &load)?;
        let function = loaded.function.clone();
        let mut pool = Mempool::new(&scenario.mempool, m.cores);
        if scenario.mempool.shuffled {
            let mut order = seed.stream("mempool.order");
            pool.shuffle(|n| rand::RngExt::random_range(&mut order, 0..n));
        }
        let mut memory = Hierarchy::new(&m.memory_at_once(), m.cores, "machine")?;
        let layout = ServerLayout::new(
            m.cores,
            (scenario.mempool.size, scenario.mempool.stride()),
            pool.ring_bytes(),
            nic,
            &function.regions(),
            |group, name| m.page_of(group, name),
        )?;
        let mut workers = Vec::new();
        for i in 0..m.cores as u16 {
            let Some(rx) = RxQueues::new(nic, scenario.mempool.stride(), CoreId(i), &mut pool) else {
                return Err(scenario.pool_too_small());
            };
            let tx = (0..nic.ports).map(|port| TxQueue::new(nic, port)).collect();
            let clos = of_core(&m.clos, i.into()).unwrap_or(RX_CLASS);
            let core = Core::new(&held(&m.clos, clos, &m.core), CoreId(i), "machine.core")?;
            workers.push(ProfiledCore { core, rx, tx, waiting: 0, arrived: 0 });
        }
        m.place(&mut memory, &layout)?;
        Ok(Idle {
            scenario,
            source,
            function,
            memory,
            layout,
            pool,
            rss: Toeplitz::new(&RSS_KEY, (m.cores * nic.queues_per_core) as u16),
            workers,
            now: APART,
            offered: 0,
        })
    }

    /// The share of packets that each core gets.
    pub(super) fn shares(&self) -> Vec<f64> {
        let all = self.workers.iter().map(|w| w.arrived).sum::<u64>().max(1) as f64;
        self.workers.iter().map(|w| w.arrived as f64 / all).collect()
    }

    /// Takes `packets` packets in bursts of `burst`, fewer if the traffic ends.
    pub(super) fn take(&mut self, burst: u32, packets: u64) -> Sums {
        let mut sums = Sums::default();
        let end = self.offered + packets;
        let mut packet = Packet::default();
        while self.offered < end && self.source.next(&mut packet) {
            packet.id = PacketId(self.offered);
            packet.moved = 0;
            self.offered += 1;
            let queues = self.scenario.nic.queues_per_core as usize;
            let queue = match self.workers.len() * queues {
                1 => 0,
                _ => self.rss.queue(layers(&packet.data).ok().map(|l| l.hashed()).as_ref()),
            };
            let to = queue / queues;
            let waiting = self.receive(to, queue % queues, &packet, &mut sums);
            if waiting >= burst {
                self.work(to, burst, &mut sums);
            }
        }
        // What is left in the rings is for the next call.
        sums
    }

    /// The NIC writes a packet and its descriptor; how many wait in the ring then.
    fn receive(&mut self, to: usize, queue: usize, packet: &Packet, sums: &mut Sums) -> u32 {
        self.now += APART;
        let dram = self.memory.dram().counters();
        let worker = &mut self.workers[to];
        worker.arrived += 1;
        let Some((descriptor, mbuf)) = worker.rx.take_descriptor(queue) else { return worker.waiting };
        let ring = self.layout.address(RX_RING, worker.rx.queue(queue).offset(descriptor), to as u16);
        if ring.0.is_multiple_of(LINE_BYTES) {
            self.memory.dma_read(ring.line(), 1, self.now);
        }
        let told = match worker.rx.queue(queue).completion_offset(descriptor) {
            Some(offset) => self.layout.address(RX_COMPLETIONS, offset, to as u16),
            None => ring,
        };
        let (first, count) = lines(self.layout.data(mbuf), u64::from(packet.frame_bytes));
        let written =
            self.memory.dma_write(first, count, self.now).max(self.memory.dma_write(told.line(), 1, self.now));
        sums.dma += (written - self.now).as_secs();
        sums.count_lines(self.memory.dram().counters() - dram);
        let queue = queue as u16;
        worker.rx.complete(Received {
            packet: packet.clone(),
            mbuf,
            visible: self.now,
            dma_memory: Ps::ZERO,
            in_nic: Ps::ZERO,
            translated: Ps::ZERO,
            crossing: Ps::ZERO,
            queue,
            slot: 0,
        });
        worker.waiting += 1;
        worker.waiting
    }

    /// A core takes a burst, and the NIC what leaves.
    fn work(&mut self, i: usize, burst: u32, sums: &mut Sums) {
        self.now += APART;
        let (memory, dram) = (self.memory.counters(), self.memory.dram().counters());
        let now = self.now;
        let worker = &mut self.workers[i];
        let id = worker.core.id();
        let (mut received, mut verdicts, mut freed) = (Vec::new(), Vec::new(), Vec::new());
        let script = worker.core.script();
        script.clear();
        worker.rx.receive(now, burst as usize, &mut received, script);
        worker.waiting -= received.len() as u32;
        let mut packets: Vec<Packet> = received.iter().map(|r| r.packet.clone()).collect();
        self.function.process_burst(now, &mut packets, script, &mut verdicts);
        let mut leaving = Vec::new();
        for ((packet, verdict), received) in packets.iter().zip(&verdicts).zip(&received) {
            let sent = match *verdict {
                Verdict::Forward { port: PortId(port) } => {
                    let port = usize::from(port) % worker.tx.len();
                    let tx = &mut worker.tx[port];
                    tx.reclaim(now, id, &mut self.pool, self.layout.mbuf_stride(), &mut Vec::new(), script);
                    let sent = tx.send(packet.id, packet.frame_bytes, received.mbuf, script);
                    if sent {
                        leaving.push((port, packet, received.mbuf));
                    }
                    sent
                }
                Verdict::Drop(_) => {
                    sums.rejected += 1.0;
                    false
                }
            };
            if !sent {
                freed.push(received.mbuf);
            }
        }
        if !freed.is_empty() {
            self.pool.put_bulk(id, &freed, script);
        }
        worker.rx.refill(id, &mut self.pool, None, script);
        if let Some(parts) = self.scenario.instruction_parts() {
            script.scale(parts);
        }
        let ports = leaving.iter().fold(0u64, |ports, (port, ..)| ports | 1 << port).count_ones();
        let sent = self.function.runs(leaving.iter().map(|(_, packet, _)| *packet)).unwrap_or(ports);
        let doorbells = u64::from(worker.rx.rings()) + u64::from(sent);
        let ringing = self.scenario.nic.doorbell.map_or(Ps::ZERO, Span::ps) * doorbells;
        let stalls = self.scenario.machine.core.stalls(received.len());
        let layout = &self.layout;
        let places = received.iter().map(|r| BurstPacket {
            id: r.packet.id,
            mbuf: layout.mbuf(r.mbuf),
            data: layout.data(r.mbuf),
            cells: 0,
        });
        let instructions = worker.core.instructions();
        worker.core.start(places, now);
        let end = loop {
            match worker.core.step(&mut self.memory, &self.layout, now, Ps::MAX) {
                CoreStep::Done(at) => break at,
                CoreStep::Lock(_, at) => worker.core.grant(at),
                // Nobody else wants it, and nothing is later than the horizon.
                CoreStep::Unlock(..) | CoreStep::At(_) | CoreStep::Wait => {}
            }
        };
        let end = end + ringing + stalls;
        worker.rx.doorbell(None);
        let n = received.len() as f64;
        let time = (end - now).as_secs();
        self.now = end + APART;
        sums.packets += n;
        sums.service += time;
        sums.service_squared += time * time / n.max(1.0);
        sums.instructions += (worker.core.instructions() - instructions) as f64;
        sums.attribution += &worker.core.burst_attribution();
        sums.attribution.charge(Reason::Doorbell, ringing);
        sums.attribution.charge(Reason::Stall, stalls);
        let by_core = self.memory.counters() - memory;
        sums.references += (by_core.l1.hits + by_core.l1.misses) as f64;
        sums.l1_misses += by_core.l1.misses as f64;
        sums.l2_misses += by_core.l2.misses as f64;
        sums.dram_reads += by_core.llc.misses as f64;
        self.nic_reads(i, &leaving, sums);
        // A program that hands on each run of packets by itself rings for each, whatever its bursts.
        let by_run = self.function.runs(packets.iter()).map(|_| doorbells as f64 / n.max(1.0));
        for packet in &packets {
            let on_link = self.on_link(packet.frame_bytes, by_run);
            sums.link[0] += on_link;
            sums.link[1] += on_link * on_link;
        }
        sums.count_lines(self.memory.dram().counters() - dram);
    }

    /// The NIC reads descriptors and packets of what leaves core `i`: by port, packet and mbuf.
    fn nic_reads(&mut self, i: usize, leaving: &[(usize, &Packet, u32)], sums: &mut Sums) {
        let now = self.now;
        self.workers[i].tx.iter_mut().for_each(TxQueue::rung);
        let mut seen = None;
        for &(port, packet, mbuf) in leaving {
            let tx = &mut self.workers[i].tx[port];
            let ring = self.layout.address(TX_RING, tx.fetch(), i as u16).line();
            // A line holds four descriptors.
            let fetched = if seen == Some(ring) { now } else { self.memory.dma_read(ring, 1, now) };
            seen = Some(ring);
            let start = Addr(self.layout.data(mbuf).0.saturating_add_signed(packet.moved.into()));
            let (first, count) = lines(start, u64::from(packet.frame_bytes));
            let read = if tx.is_copied(packet.frame_bytes) { now } else { self.memory.dma_read(first, count, now) };
            if let Some((region, offset)) = tx.read() {
                let (first, count) =
                    lines(self.layout.address(region, offset, i as u16), self.scenario.nic.driver.tx_completion.into());
                self.memory.dma_write(first, count, now);
                tx.told(now);
            }
            sums.dma += (fetched - now).as_secs() + (read - now).as_secs();
        }
    }

    /// Seconds of a packet on PCIe's fuller way.
    fn on_link(&self, frame_bytes: u32, doorbells: Option<f64>) -> f64 {
        let nic = &self.scenario.nic;
        let doorbells = doorbells.unwrap_or_else(|| nic.doorbells());
        let [to, from] = nic.link_bytes(frame_bytes.into(), frame_bytes.into(), doorbells);
        to.max(from) * 8.0 / (self.scenario.nic.pcie.rate.gbps() * 1e9)
    }
}
