//! A scenario's answer in closed form: throughput, waiting and finite cache penalty without simulating time.
//!
//! The packet function and the driver run over a few thousand packets and leave their references. Those
//! go through tag arrays, which know hits and misses but no time: L1 and L2 of each core, a shared LLC
//! that device writes fill too. Instructions and misses make service times: references retire in order, each
//! after what its address came from, within a reorder buffer. DRAM answers as an M/D/1 queue a channel, each
//! core as an M/G/1 queue, and each direction of PCIe as one.
//!
//! Left out: bursts of arrivals, uneven cores, slices' queues, refresh, coherence between cores, limits
//! of write buffers and DMA credits, prefetchers, TLBs, and losses below saturation.
//! `docs/guide/predictions.md` says how far the answers are from simulation.

use std::sync::Arc;

use std::collections::VecDeque;

use engine::Seed;
use functions::{PacketFunction, Verdict};
use machine::cache::TagArray;
use machine::cores::CoreModel;
use machine::nic::{Mempool, Received, RxQueue, ServerLayout, TxQueue};
use packet::{Packet, RX_DESCRIPTOR_BYTES};
use probe::{Access, Event, Layout, Placed, Record, Ref, Requests};
use serde_json::{Value, json};
use traffic::Source;
use units::{Cbm, Clos, CoreId, LINE_BYTES, Line, PortId, Ps};

use crate::load::Loaded;
use crate::scenario::{Scenario, ScenarioError};

/// Packets of the pass, of which the second half counts.
const PACKETS: u64 = 8_192;
/// Packets that fill the caches before, at most: as many as there are mbufs.
const MOST_WARM_UP: u64 = 200_000;

/// Loads what `scenario` needs.
///
/// # Errors
/// Input that cannot be read, a function that cannot be built.
pub fn load_one(scenario: &Scenario) -> Result<Loaded, ScenarioError> {
    let mut loaded = crate::load::load(std::slice::from_ref(scenario), &Arc::default(), &mut |_| true)?;
    loaded.pop().ok_or_else(|| ScenarioError::Stopped { during: "scenario".into() })
}

/// What a pass at one burst size has found, per packet.
#[derive(Clone, Copy, Debug, Default)]
struct PerPacket {
    packets: f64,
    instructions: f64,
    references: f64,
    l1_misses: f64,
    l2_misses: f64,
    /// Lines read from DRAM by cores.
    dram_reads: f64,
    /// All lines over the DRAM buses.
    dram_lines: f64,
    /// Stall by where its time is spent: at L2, at the LLC, at DRAM.
    stall: [f64; 3],
    /// Mean time of a packet and its descriptor on a PCIe link, and mean square.
    link: [f64; 2],
    /// Time of a packet at its core, and square, for its variation.
    service: f64,
    service_squared: f64,
}

/// Predicts `scenario`, for which `loaded` was loaded.
///
/// # Errors
/// A machine or a load that cannot be.
pub fn predict(scenario: &Scenario, loaded: &Loaded) -> Result<Value, ScenarioError> {
    let m = &scenario.machine;
    let load = scenario.traffic.offered(scenario.nic.rate);
    let offered = loaded.blueprint.packets_per_second(&load)?;
    let cores = f64::from(m.cores);
    let period = m.core.period().as_secs();
    // Packets taken one by one, and in full bursts: a service time is a + c / burst.
    let one = pass(scenario, loaded, 1)?;
    let full = pass(scenario, loaded, scenario.nic.burst.max(1))?;
    let burst = f64::from(scenario.nic.burst.max(2));
    let fixed = ((one.service - full.service) / (1.0 - 1.0 / burst)).max(0.0);
    let each = (full.service - fixed / burst).max(f64::MIN_POSITIVE);
    // DRAM's wait lengthens the service, and saturation keeps its rate below what the channels carry.
    let channels = f64::from(m.dram.channels);
    let line_s = m.dram.t_burst.ps().as_secs();
    let by_dram = channels / line_s / full.dram_lines.max(1e-12);
    let by_cores = cores / full.service;
    let wire = offered;
    let capacity = by_cores.min(by_dram);
    let carried = wire.min(capacity);
    // At utilisation rho a core finds about 1 / (1 - rho) packets waiting when it looks: rho (1 + c x) = x (a + c),
    // with x the rate of a core.
    let rate = carried / cores;
    let rho = (rate * (each + fixed) / (1.0 + rate * fixed)).min(1.0);
    let seen = (1.0 / (1.0 - rho).max(1.0 / burst)).clamp(1.0, burst);
    let mut service = each + fixed / seen;
    let dram_rho = carried * full.dram_lines * line_s / channels;
    let dram_wait = if full.dram_lines > 0.0 && carried > 0.0 {
        queueing::md1((carried * full.dram_lines / channels).max(1e-9), 1.0 / line_s).map_or(None, |q| Some(q.w_q))
    } else {
        Some(0.0)
    };
    let queueing_at_dram = dram_wait.unwrap_or(f64::INFINITY) * full.dram_reads;
    if queueing_at_dram.is_finite() {
        service += queueing_at_dram;
    }
    let scv = (full.service_squared / (full.service * full.service) - 1.0).max(0.0);
    let saturated = wire >= capacity;
    let w_q = if saturated { None } else { queueing::mg1(rate, 1.0 / service, scv).ok().map(|q| q.w_q) };
    // In: packet and descriptor. Out: doorbell, fetch of the descriptor, fetch of the packet, each with its answer.
    let pcie = &scenario.nic.pcie;
    let latency = pcie.latency.ps().as_secs();
    let link = |moments: [f64; 2]| -> Option<f64> {
        let [mean, square] = moments;
        let scv = (square / (mean * mean) - 1.0).max(0.0);
        let queue = queueing::mg1(carried.max(1.0), 1.0 / mean, scv).ok()?;
        Some(queue.w)
    };
    let memory = (1.0 + 2.0) * m.llc.latency.ps().as_secs();
    // Arrivals are spaced by the port's line: where PCIe is faster, nothing waits on its way in.
    let way_in = if pcie.rate.gbps() >= scenario.nic.rate.gbps() { Some(full.link[0]) } else { link(full.link) };
    let pcie_s = link(full.link).zip(way_in).map(|(out, way_in)| 6.0 * latency + way_in + out);
    let poll = 0.5 * period * f64::from(m.core.poll_cycles);
    let sojourn = w_q.zip(pcie_s).map(|(w_q, pcie)| w_q + service * seen + pcie + memory + poll);
    let cycles = |seconds: f64| seconds / period;
    let per_burst = (one.instructions - full.instructions) / (1.0 - 1.0 / burst);
    let instructions = (full.instructions - per_burst / burst + per_burst / seen).max(1.0);
    let per_instruction = |x: f64| x / instructions;
    let cpi_inf = m.core.cpi;
    let cpi = per_instruction(cycles(service));
    let fcp = cpi - cpi_inf;
    let ns = |s: f64| s * 1e9;
    Ok(json!({
        "offered_mpps": offered / 1e6,
        "carried_mpps": carried / 1e6,
        "capacity_mpps": capacity / 1e6,
        "bound": if !saturated { "offered load" } else if by_cores <= by_dram { "cores" } else { "DRAM" },
        "service_ns": ns(service),
        "service_scv": scv,
        "utilisation": rho,
        "waiting_ns": w_q.map(ns),
        "sojourn_ns": sojourn.map(ns),
        "pcie_ns": pcie_s.map(ns),
        "burst": seen,
        "instructions": instructions,
        "references": full.references,
        "cpi_inf": cpi_inf,
        "fcp": fcp,
        "cpi": cpi,
        "mr1": per_instruction(full.l1_misses),
        "mr2": per_instruction(full.l2_misses),
        "mr_llc": per_instruction(full.dram_reads),
        "stall_ns": { "l2": ns(full.stall[0]), "llc": ns(full.stall[1]), "dram": ns(full.stall[2]), "dram_queue": dram_wait.map(|w| ns(w * full.dram_reads)) },
        "dram_utilisation": dram_rho,
        "dram_wait_ns": dram_wait.map(ns),
    }))
}

/// Runs driver and function over packets in bursts of `burst` on every core in turn, and their references
/// through the caches.
fn pass(scenario: &Scenario, loaded: &Loaded, burst: u32) -> Result<PerPacket, ScenarioError> {
    let m = &scenario.machine;
    let nic = &scenario.nic;
    let load = scenario.traffic.offered(nic.rate);
    let seed = Seed(scenario.run.seed);
    let mut source = loaded.blueprint.source(rand::Rng::next_u64(&mut seed.stream("traffic")), &load)?;
    let mut function = loaded.function.clone();
    let mut pool = Mempool::new(&scenario.mempool, m.cores);
    let ring = pool.ring_bytes();
    let size = scenario.mempool.size;
    let (rx, tx, ports) = (nic.rx_descriptors, nic.tx_descriptors, nic.ports);
    let layout = ServerLayout::new(m.cores, size, ring, rx, tx, ports, &function.regions())?;
    let mut workers = Vec::new();
    for core in 0..m.cores as u16 {
        let id = CoreId(core);
        let Some(rx) = RxQueue::new(rx, id, &mut pool) else {
            scenario.mempool.check("mempool", m.cores, rx, nic.burst)?;
            continue;
        };
        let queues = (0..ports).map(|port| TxQueue::new(tx, port)).collect();
        workers.push(Worker { id, rx, tx: queues, l1: array(&m.l1, "machine.l1")?, l2: array(&m.l2, "machine.l2")? });
    }
    let llc_spec = machine::cache::CacheSpec { size: m.llc.size, ways: m.llc.ways, latency: m.llc.latency };
    let mut shared = Shared {
        llc: array(&llc_spec, "machine.llc")?,
        core_ways: Cbm(m.llc.core_ways.unwrap_or(u32::MAX)),
        io_ways: Cbm(m.llc.io_ways),
        dram_lines: 0,
    };
    let dram = m.llc.latency.ps() + m.dram.t_rcd.ps() + m.dram.t_cl.ps() + m.dram.t_burst.ps() + m.dram.overhead.ps();
    let clock = m.core.period().as_secs() * m.core.cpi;
    let timing = Timing {
        latency: [m.l2.latency.ps().as_secs(), m.llc.latency.ps().as_secs(), dram.as_secs()],
        instruction: clock,
        l1: m.l1.latency.ps().as_secs(),
        window: if m.core.model == CoreModel::Window { u64::from(m.core.rob) } else { 0 },
        outstanding: m.core.outstanding.max(1) as usize,
    };
    let warm_up = u64::from(size).clamp(PACKETS, MOST_WARM_UP);
    let (mut total, mut done, mut record) = (PerPacket::default(), 0, Record::new());
    let mut verdicts = Vec::new();
    while done < warm_up + PACKETS {
        let counts = done >= warm_up;
        let before = done;
        for worker in &mut workers {
            let dram_before = shared.dram_lines;
            let taken = worker.receive(burst, &mut source, &layout, &mut shared, &mut record);
            if taken.is_empty() {
                continue;
            }
            done += taken.len() as u64;
            let mut packets: Vec<Packet> = taken.iter().map(|r| r.packet.clone()).collect();
            verdicts.clear();
            function.process_burst(Ps::ZERO, &mut packets, &mut record, &mut verdicts);
            worker.send(&taken, &packets, &verdicts, &layout, &mut pool, &mut record);
            let found = worker.replay(&record, &taken, &layout, &timing, &mut shared);
            if counts {
                total.add(&found, taken.len() as f64, (shared.dram_lines - dram_before) as f64);
                for packet in &packets {
                    let bytes = u64::from(packet.frame_bytes);
                    let tlps = bytes.div_ceil(u64::from(nic.pcie.max_payload)).max(1) + 1;
                    let on_link = bytes + RX_DESCRIPTOR_BYTES + tlps * u64::from(nic.pcie.overhead);
                    let time = on_link as f64 * 8.0 / (nic.pcie.rate.gbps() * 1e9);
                    total.link[0] += time;
                    total.link[1] += time * time;
                }
            }
        }
        if done == before {
            // A capture that is not repeated has ended.
            break;
        }
    }
    Ok(total.per_packet())
}

struct Worker {
    id: CoreId,
    rx: RxQueue,
    tx: Vec<TxQueue>,
    l1: TagArray,
    l2: TagArray,
}

struct Shared {
    llc: TagArray,
    core_ways: Cbm,
    io_ways: Cbm,
    dram_lines: u64,
}

struct Timing {
    /// To L2, LLC and DRAM, in seconds.
    latency: [f64; 3],
    l1: f64,
    instruction: f64,
    /// Instructions that may be under way; 0 in order.
    window: u64,
    outstanding: usize,
}

fn array(spec: &machine::cache::CacheSpec, path: &str) -> Result<TagArray, ScenarioError> {
    Ok(TagArray::new(spec.sets(path)?, spec.ways))
}

impl PerPacket {
    /// `found` is of a burst of `n` packets.
    fn add(&mut self, found: &PerPacket, n: f64, dram_lines: f64) {
        self.packets += n;
        self.instructions += found.instructions;
        self.references += found.references;
        self.l1_misses += found.l1_misses;
        self.l2_misses += found.l2_misses;
        self.dram_reads += found.dram_reads;
        self.dram_lines += dram_lines;
        for (all, part) in self.stall.iter_mut().zip(found.stall) {
            *all += part;
        }
        self.service += found.service;
        self.service_squared += found.service * found.service / n;
    }

    fn per_packet(mut self) -> PerPacket {
        let n = self.packets.max(1.0);
        self.link = self.link.map(|part| part / n);
        for value in [
            &mut self.instructions,
            &mut self.references,
            &mut self.l1_misses,
            &mut self.l2_misses,
            &mut self.dram_reads,
            &mut self.dram_lines,
            &mut self.service,
            &mut self.service_squared,
        ] {
            *value /= n;
        }
        self.stall.iter_mut().for_each(|part| *part /= n);
        self
    }
}

impl Shared {
    /// A line that no private cache has; says whether the LLC has it.
    fn read(&mut self, line: Line, write: bool) -> bool {
        if self.llc.use_line(line).is_some() {
            if write {
                self.llc.write_line(line);
            }
            return true;
        }
        self.dram_lines += 1;
        self.fill(line, self.core_ways, write);
        false
    }

    fn fill(&mut self, line: Line, ways: Cbm, dirty: bool) {
        match self.llc.fill(line, ways, dirty, false) {
            Ok(Some(victim)) if victim.dirty => self.dram_lines += 1,
            // No way may be filled: the line goes to memory.
            Err(_) if dirty => self.dram_lines += 1,
            _ => {}
        }
    }

    /// A dirty line from a private cache.
    fn take(&mut self, line: Line) {
        if !self.llc.write_line(line) {
            self.fill(line, self.core_ways, true);
        }
    }

    fn device_write(&mut self, line: Line) {
        if !self.llc.write_line(line) {
            self.fill(line, self.io_ways, true);
        }
    }

    fn device_read(&mut self, line: Line) {
        if self.llc.find(line).is_none() {
            self.dram_lines += 1;
        }
    }
}

impl Worker {
    /// The NIC writes a burst, and the driver takes it.
    fn receive(
        &mut self,
        burst: u32,
        source: &mut Source,
        layout: &ServerLayout,
        shared: &mut Shared,
        record: &mut Record,
    ) -> Vec<Received> {
        for _ in 0..burst {
            let mut packet = Packet::default();
            let Some((descriptor, mbuf)) = self.rx.take_descriptor() else { break };
            if !source.next(&mut packet) {
                break;
            }
            let ring = layout.address(machine::nic::RX_RING, self.rx.offset(descriptor), self.id.0);
            let data = layout.data(mbuf);
            let lines = (data.0 / LINE_BYTES)..(data.0 + u64::from(packet.frame_bytes.max(1))).div_ceil(LINE_BYTES);
            for line in lines.map(Line).chain([ring.line()]) {
                for private in [&mut self.l1, &mut self.l2] {
                    private.remove(line);
                }
                shared.device_write(line);
            }
            self.rx.complete(Received { packet, mbuf, visible: Ps::ZERO, dma_memory: Ps::ZERO });
        }
        record.clear();
        let mut taken = Vec::new();
        self.rx.receive(Ps::ZERO, burst as usize, &mut taken, record);
        taken
    }

    fn send(
        &mut self,
        taken: &[Received],
        packets: &[Packet],
        verdicts: &[Verdict],
        layout: &ServerLayout,
        pool: &mut Mempool,
        record: &mut Record,
    ) {
        let mut freed = Vec::new();
        for ((received, packet), verdict) in taken.iter().zip(packets).zip(verdicts) {
            match *verdict {
                Verdict::Forward { port: PortId(port) } => {
                    let at = usize::from(port) % self.tx.len();
                    let queue = &mut self.tx[at];
                    queue.reclaim(Ps::ZERO, self.id, pool, layout.mbuf_stride(), record);
                    if queue.send(packet.id, received.mbuf, record) {
                        queue.read(Ps::ZERO);
                    } else {
                        freed.push(received.mbuf);
                    }
                }
                Verdict::Drop(_) => freed.push(received.mbuf),
            }
        }
        if !freed.is_empty() {
            pool.put_bulk(self.id, &freed, record);
        }
        self.rx.refill(self.id, pool, record);
        self.rx.doorbell();
    }

    /// The references of a burst through the caches, and what they cost.
    fn replay(
        &mut self,
        record: &Record,
        taken: &[Received],
        layout: &ServerLayout,
        timing: &Timing,
        shared: &mut Shared,
    ) -> PerPacket {
        let mut found = PerPacket::default();
        let mut window = Window::new(timing);
        let mut place = 0;
        let mut requests = Requests::new();
        // Prefetched lines: when they come, and from which level.
        let mut coming: Vec<(Line, f64, usize)> = Vec::new();
        for event in record.iter() {
            let refs: &[Ref] = match event {
                Event::Touch(r) => &[r],
                Event::Copy { src, dst } => &[src, dst],
                Event::Work { instructions, .. } => {
                    found.instructions += f64::from(instructions);
                    window.work(instructions);
                    continue;
                }
                Event::Begin(id) => {
                    place = taken.iter().position(|r| r.packet.id == id).unwrap_or(place);
                    continue;
                }
                _ => continue,
            };
            for r in refs {
                let Some(received) = taken.get(place) else { continue };
                let (mbuf, data) = (layout.mbuf(received.mbuf), layout.data(received.mbuf));
                let placed =
                    Placed { packet: received.packet.id, core: self.id, clos: Clos(0), mbuf, data, cells: &[] };
                requests.clear();
                layout.place(r, &placed, &mut requests);
                found.references += 1.0;
                let (mut worst, mut awaited) = (None, None);
                for request in &requests {
                    let line = request.addr.line();
                    let level = self.access(line, request.access, shared);
                    match level {
                        Some(level) if request.access == Access::Prefetch => {
                            coming.push((line, window.now() + timing.latency[level], level));
                        }
                        None => awaited = coming.iter().find(|c| c.0 == line).map(|c| (c.1, c.2)).or(awaited),
                        Some(_) => {}
                    }
                    found.l1_misses += f64::from(level >= Some(0));
                    found.l2_misses += f64::from(level >= Some(1));
                    found.dram_reads += f64::from(level >= Some(2));
                    worst = worst.max(level);
                }
                window.reference(r, worst, awaited);
            }
        }
        found.stall = window.stall;
        found.service = window.end();
        // The NIC reads what is sent.
        for received in taken {
            let data = layout.data(received.mbuf);
            let end = data.0 + u64::from(received.packet.frame_bytes.max(1));
            for line in (data.0 / LINE_BYTES..end.div_ceil(LINE_BYTES)).map(Line) {
                if self.l1.find(line).is_none() && self.l2.find(line).is_none() {
                    shared.device_read(line);
                }
            }
        }
        found
    }

    /// How far a line is: [`None`] in L1, 0 in L2, 1 in the LLC, 2 in DRAM.
    fn access(&mut self, line: Line, access: Access, shared: &mut Shared) -> Option<usize> {
        let write = access.writes();
        let hit = if write { self.l1.write_line(line) } else { self.l1.use_line(line).is_some() };
        if hit {
            return None;
        }
        let all = Cbm(u32::MAX);
        let level = if self.l2.use_line(line).is_some() {
            0
        } else {
            let level = if shared.read(line, false) { 1 } else { 2 };
            if let Ok(Some(victim)) = self.l2.fill(line, all, false, false)
                && victim.dirty
            {
                shared.take(victim.line);
            }
            level
        };
        if let Ok(Some(victim)) = self.l1.fill(line, all, write, false)
            && victim.dirty
            && !self.l2.write_line(victim.line)
        {
            shared.take(victim.line);
        }
        Some(level)
    }
}

/// When references retire: in order, each after what its address came from, no further ahead than a
/// reorder buffer, with so many misses at a time.
struct Window<'a> {
    timing: &'a Timing,
    /// Instructions so far.
    instructions: u64,
    /// When the latest reference has retired.
    retired: f64,
    /// By how much dispatch is late.
    late: f64,
    /// When each of the latest references has its data.
    data: [f64; 256],
    references: usize,
    /// Instruction and retirement of references in the reorder buffer.
    buffer: VecDeque<(u64, f64)>,
    /// When the misses under way end.
    misses: VecDeque<f64>,
    /// Time waited for L2, LLC and DRAM.
    stall: [f64; 3],
}

impl Window<'_> {
    fn new(timing: &Timing) -> Window<'_> {
        Window {
            timing,
            instructions: 0,
            retired: 0.0,
            late: 0.0,
            data: [0.0; 256],
            references: 0,
            buffer: VecDeque::new(),
            misses: VecDeque::new(),
            stall: [0.0; 3],
        }
    }

    fn work(&mut self, instructions: u32) {
        self.instructions += u64::from(instructions);
    }

    fn now(&self) -> f64 {
        self.instructions as f64 * self.timing.instruction + self.late
    }

    fn reference(&mut self, r: &Ref, level: Option<usize>, awaited: Option<(f64, usize)>) {
        while let Some(&(at, retired)) = self.buffer.front() {
            if at + self.timing.window > self.instructions {
                break;
            }
            self.late += (retired - self.now()).max(0.0);
            self.buffer.pop_front();
        }
        let mut start = self.now();
        if r.dep > 0 {
            start = start.max(self.data[self.references.wrapping_sub(usize::from(r.dep)) % 256]);
        }
        let (mut end, mut waits_for) = (start, level);
        if matches!(r.access, Access::Load | Access::Atomic) {
            if let Some(level) = level {
                if self.misses.len() >= self.timing.outstanding
                    && let Some(free) = self.misses.pop_front()
                {
                    start = start.max(free);
                }
                end = start + self.timing.latency[level];
                self.misses.push_back(end);
            } else {
                end = start + self.timing.l1;
            }
            if let Some((comes, from)) = awaited
                && level.is_none()
                && comes > end
            {
                end = comes;
                waits_for = Some(from);
            }
        }
        let before = self.retired.max(self.now());
        self.retired = before.max(end);
        if let Some(level) = waits_for {
            self.stall[level] += self.retired - before;
        }
        self.data[self.references % 256] = end;
        self.references += 1;
        self.buffer.push_back((self.instructions, self.retired));
    }

    /// When all is done.
    fn end(&self) -> f64 {
        self.retired.max(self.now())
    }
}
