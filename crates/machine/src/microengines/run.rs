//! A network processor at work: its parts, who goes next, and what all threads share. Input threads, output, and caches
//! are files of their own.

mod caches;
mod receive;
mod transmit;

use std::collections::VecDeque;

use super::sdram::{Sdram, SdramCounters, SdramSpec, Transfer};
use super::wheel::{ENTITIES, Wheel};
use super::{MOST_ENGINES, MOST_INPUTS, MOST_OUTPUTS, MOST_SLOTS, MOST_THREADS, MicroenginesSpec, NetprocWorkload};
use crate::MachineError;
use crate::buffer::{BufferCounters, NotHeld, PacketBuffer, RowWindow};

/// Who wants to see the references to the packet buffer, in the order in which they are issued.
pub trait Watched {
    /// A reference of `bytes` at `addr`.
    fn reference(&mut self, tick: u64, addr: u64, bytes: u32, write: bool);
    /// A packet of the workload is the next one that its port sends: slots of a port drain in the order in which
    /// they were taken.
    fn leaves(&mut self, work: u32) {
        let _ = work;
    }
}

impl Watched for () {
    #[inline]
    fn reference(&mut self, _: u64, _: u64, _: u32, _: bool) {}
}

/// What a run measured, after its warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetprocOutcome {
    /// Packets that left.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that software discarded.
    pub discarded: u64,
    /// Simulated time in seconds.
    pub seconds: f64,
    /// Throughput in Gbps of packet bytes.
    pub gbps: f64,
    /// Share of the data bus' clocks that moved a word.
    pub sdram_utilization: f64,
    /// Share of its clocks in which the SDRAM had nothing to do.
    pub sdram_idle: f64,
    /// Mean share of time in which an engine's threads all waited: input engines, output engines.
    pub engine_idle: [f64; 2],
    /// What the SDRAM did.
    pub sdram: SdramCounters,
    /// What the allocator did.
    pub buffer: BufferCounters,
    /// Rows touched in a window of references: input, output.
    pub rows: [f64; 2],
    /// Mean bytes of a turn of the controller to reads, and to writes.
    pub run_bytes: [f64; 2],
    /// Mean bytes of a transfer.
    pub transfer_bytes: f64,
    /// Mean packets in flight, seen by packets that leave.
    pub in_flight: f64,
    /// Times that an input thread had to wait: packets in flight, memory.
    pub stalls: [u64; 2],
}

const NOBODY: u16 = u16::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadPhase {
    /// Input: runs the packet's steps.
    Software,
    /// Input: waits for room.
    Allocate,
    /// Input: a write goes out when it is woken.
    Issue,
    /// Input: waits for a write to end.
    Blocked,
    /// Input: a piece has reached the prefix cache.
    Cached,
    /// Input: references to put the packet into its queue.
    Enqueue,
    /// Input: an earlier packet of its flow goes first.
    Behind,
    /// Output: has nothing to do.
    Idle,
    /// Output: references to choose and to take a packet out.
    Select,
    /// Output: reads go out when it is woken.
    Post,
    /// Output: waits for reads.
    Reading,
    /// Output: waits for the suffix cache.
    Suffix,
    /// Output: hands the block over.
    Handshake,
    /// Output: gives the packet's memory back.
    Release,
    /// A slot of the transmit FIFO.
    Lane,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    engine: u16,
    phase: ThreadPhase,
    /// References to SRAM that the phase still takes.
    left: u32,
    /// The packet in hand.
    slot: u16,
    /// Its next step, the next byte to write, or the first byte of the block in hand.
    at: u32,
    /// Transfers under way.
    outstanding: u16,
    lane: u16,
    /// Bytes of the block in hand.
    block: u32,
}

/// All engines, and a power of two.
const ENGINES: usize = 2 * MOST_ENGINES as usize;
const _: () = assert!(((MOST_INPUTS + MOST_OUTPUTS + MOST_SLOTS) as usize) < ENTITIES && ENGINES.is_power_of_two());

#[derive(Clone, Copy, Debug)]
struct Microengine {
    /// The tick after the last that is taken.
    free: u64,
    busy: u64,
    polls: Polls,
}

/// When threads that poll look again: a ring, the next one first. Threads of an engine look in turns.
#[derive(Clone, Copy, Debug)]
struct Polls {
    at: [u64; MOST_THREADS],
    first: u8,
    count: u8,
}

impl Polls {
    #[inline]
    fn place(&self, k: u8) -> usize {
        usize::from(self.first.wrapping_add(k)) % MOST_THREADS
    }
}

impl Microengine {
    const IDLE: Microengine =
        Microengine { free: 0, busy: 0, polls: Polls { at: [0; MOST_THREADS], first: 0, count: 0 } };

    /// Lets threads that poll look, each for `cost` ticks and then again after `pause`, until none is due at `now`.
    #[inline]
    fn poll(&mut self, now: u64, cost: u64, pause: u64) {
        if self.polls.count > 0 && self.polls.at[self.polls.place(0)] <= now {
            self.poll_until(now, cost, pause);
        }
    }

    fn poll_until(&mut self, now: u64, cost: u64, pause: u64) {
        let count = self.polls.count;
        for _ in 0..count {
            if !self.look(now, cost, pause) {
                return;
            }
        }
        // Once each has looked, they go on in turns of the same length: whole ones are behind at once.
        let turn = (u64::from(count) * cost).max(cost + pause);
        let turns = now.saturating_sub(self.polls.at[self.polls.place(0)]) / turn;
        (0..count).for_each(|k| self.polls.at[self.polls.place(k)] += turns * turn);
        self.free += turns * turn;
        self.busy += turns * u64::from(count) * cost;
        while self.look(now, cost, pause) {}
    }

    /// The next look, if it is due at `now`.
    #[inline]
    fn look(&mut self, now: u64, cost: u64, pause: u64) -> bool {
        let at = self.polls.at[self.polls.place(0)];
        if at > now {
            return false;
        }
        self.free = self.free.max(at) + cost;
        self.busy += cost;
        let last = self.polls.place(self.polls.count);
        self.polls.at[last] = self.free + pause;
        self.polls.first = self.polls.first.wrapping_add(1);
        true
    }
}

/// Where a thread or slot of the transmit FIFO lies: a number within the bounds that the host need not check.
#[inline]
fn place(number: u16) -> usize {
    usize::from(number) % ENTITIES
}

/// A packet in flight.
#[derive(Clone, Debug, Default)]
struct PacketSlot {
    work: u32,
    bytes: u32,
    queue: u16,
    cells: Vec<u32>,
    next: u16,
    /// Bytes of blocks that have not been handed over.
    pending: u32,
}

#[derive(Clone, Copy, Debug)]
struct Fifo {
    head: u16,
    tail: u16,
}

/// A port, with the packet that it sends: all its slots take blocks of that one in turn.
#[derive(Clone, Copy, Debug)]
struct OutputPort {
    slot: u16,
    /// Bytes that output threads have in hand or behind them.
    taken: u32,
    /// Packets queued.
    backlog: u32,
    /// The class after the one that was served last.
    next_class: u32,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    held: bool,
    waiting: VecDeque<u16>,
}

/// Prefix and suffix cache of a queue, in words.
#[derive(Clone, Debug, Default)]
struct PrefixCache {
    prefix: u32,
    suffix: u32,
    /// Units in DRAM: from, to, as places in the queue's region.
    from: u64,
    to: u64,
    /// Cells of a unit that are still to be written, and to be read.
    writing: u32,
    reading: u32,
    /// Input threads that wait for the prefix, output threads for the suffix.
    blocked: VecDeque<u16>,
    starved: VecDeque<u16>,
}

/// A network processor at work.
pub struct NetworkProcessor<'w, W: Watched = ()> {
    spec: MicroenginesSpec,
    workload: &'w NetprocWorkload,
    wheel: Wheel,
    /// Threads; behind them slots of the transmit FIFO, which have events and nothing but a phase.
    threads: Box<[Thread; ENTITIES]>,
    inputs: u16,
    /// The first number behind the threads: of a slot of the transmit FIFO where events are meant, of a queue with
    /// caches where owners of transfers are.
    others: u16,
    /// Of input threads, the flow of the packet in hand, and in which order packets were taken in.
    flows: Vec<u32>,
    sequences: Vec<u64>,
    /// Threads in [`ThreadPhase::Behind`].
    behind: u32,
    engines: Box<[Microengine; ENGINES]>,
    /// Ticks of a look of a thread that polls, and until its next one.
    polling: (u64, u64),
    sram_free: u64,
    locks: Vec<Lock>,
    sdram: Sdram,
    sdram_awake: bool,
    /// The clock of its next step, while it is awake.
    sdram_clock: u64,
    buffer: PacketBuffer,
    row_shift: u32,
    /// Bytes of a cell, a power of two, and its logarithm.
    cell: u32,
    cell_shift: u32,
    width_shift: u32,
    slots: Vec<PacketSlot>,
    free_slots: Vec<u16>,
    waiting: VecDeque<u16>,
    queues: Vec<Fifo>,
    ports: Vec<OutputPort>,
    /// By slot of the transmit FIFO, its port; by port, its slots as bits.
    lanes: Vec<u16>,
    port_lanes: Vec<u64>,
    /// Bits by slot: it is empty; its port has something to send.
    lanes_free: u64,
    lanes_wanted: u64,
    next_lane: u32,
    idle: u64,
    caches: Vec<PrefixCache>,
    unit_words: u32,
    region: u64,
    drain: u64,
    taken: u64,
    sent: u64,
    sent_bytes: u64,
    discarded: u64,
    in_flight_sum: u64,
    stalls: [u64; 2],
    rows: [RowWindow; 2],
    watched: W,
}

impl<'w> NetworkProcessor<'w> {
    /// Builds a processor that works on `workload`; `draw(n)` gives a number below `n` for what is shuffled, and
    /// rows are counted in windows of `window` references.
    ///
    /// # Errors
    /// A specification that contradicts itself; a workload without packets, with packets that the buffer cannot
    /// hold, with ports that there are not, or that never sends anything.
    pub fn new(
        spec: &MicroenginesSpec,
        workload: &'w NetprocWorkload,
        window: usize,
        draw: impl FnMut(usize) -> usize,
    ) -> Result<NetworkProcessor<'w>, MachineError> {
        NetworkProcessor::watched(spec, workload, window, draw, ())
    }
}

impl<'w, W: Watched> NetworkProcessor<'w, W> {
    /// As [`NetworkProcessor::new`], with somebody who sees the references.
    ///
    /// # Errors
    /// As [`NetworkProcessor::new`].
    pub fn watched(
        spec: &MicroenginesSpec,
        workload: &'w NetprocWorkload,
        window: usize,
        draw: impl FnMut(usize) -> usize,
        watched: W,
    ) -> Result<NetworkProcessor<'w, W>, MachineError> {
        let path = "microengines";
        spec.check(path)?;
        check(spec, workload)?;
        let buffer = PacketBuffer::new(&spec.buffer, "microengines.buffer", draw)?;
        let (cell, row) = (spec.buffer.cell.bytes(), spec.sdram.row.bytes());
        let rows = spec.buffer.size.bytes().div_ceil(row) as u32;
        // A unit of the caches is as many transfers, which follow one another.
        let batch = spec.sdram.batch.max(spec.cache_cells);
        let sdram = Sdram::new(&SdramSpec { batch, ..spec.sdram.clone() }, "microengines.sdram", rows)?;
        let inputs = spec.input_engines * spec.threads;
        let outputs = spec.output_engines * spec.threads;
        let idle_thread = Thread {
            engine: 0,
            phase: ThreadPhase::Idle,
            left: 0,
            slot: NOBODY,
            at: 0,
            outstanding: 0,
            lane: 0,
            block: 0,
        };
        let mut threads = Box::new([idle_thread; ENTITIES]);
        for (i, thread) in threads.iter_mut().take((inputs + outputs) as usize).enumerate() {
            thread.engine = (i as u32 / spec.threads) as u16;
        }
        let lanes_per_port = spec.transmit.slots / spec.ports;
        let lane_count = (lanes_per_port * spec.ports) as usize;
        let lanes: Vec<u16> = (0..lane_count).map(|i| (i as u32 % spec.ports) as u16).collect();
        threads[(inputs + outputs) as usize..].fill(Thread { phase: ThreadPhase::Lane, ..idle_thread });
        let mut port_lanes = vec![0; spec.ports as usize];
        for (i, &port) in lanes.iter().enumerate() {
            port_lanes[usize::from(port)] |= 1u64 << i;
        }
        let unit = u64::from(spec.cache_cells) * cell;
        let region = spec.buffer.size.bytes() / u64::from(spec.queues) / unit.max(1);
        let cache = if spec.cache_cells > 0 { spec.queues as usize } else { 0 };
        let mut processor = NetworkProcessor {
            wheel: Wheel::new((inputs + outputs) as usize + lane_count),
            inputs: inputs as u16,
            others: (inputs + outputs) as u16,
            flows: vec![0; inputs as usize],
            sequences: vec![u64::MAX; inputs as usize],
            behind: 0,
            engines: Box::new([Microengine::IDLE; ENGINES]),
            polling: (u64::from(spec.software.poll), u64::from(spec.sram.latency)),
            sram_free: 0,
            locks: vec![Lock::default(); spec.sram.locks as usize],
            sdram,
            sdram_awake: false,
            sdram_clock: 0,
            buffer,
            row_shift: row.trailing_zeros(),
            cell: cell as u32,
            cell_shift: cell.trailing_zeros(),
            width_shift: spec.sdram.width.trailing_zeros(),
            slots: vec![PacketSlot::default(); spec.in_flight as usize],
            free_slots: (0..spec.in_flight as u16).rev().collect(),
            waiting: VecDeque::new(),
            queues: vec![Fifo { head: NOBODY, tail: NOBODY }; spec.queues as usize],
            ports: vec![OutputPort { slot: NOBODY, taken: 0, backlog: 0, next_class: 0 }; spec.ports as usize],
            lanes_free: u64::MAX >> (64 - lane_count),
            lanes_wanted: 0,
            next_lane: 0,
            idle: 0,
            lanes,
            port_lanes,
            caches: vec![PrefixCache::default(); cache],
            unit_words: (unit / u64::from(spec.sdram.width)) as u32,
            region,
            drain: spec.ticks(spec.transmit.drain_ns),
            taken: 0,
            sent: 0,
            sent_bytes: 0,
            discarded: 0,
            in_flight_sum: 0,
            stalls: [0; 2],
            rows: [RowWindow::new(window)?, RowWindow::new(window)?],
            watched,
            spec: spec.clone(),
            workload,
            threads,
        };
        for thread in 0..inputs as u16 {
            processor.take(thread);
        }
        for thread in 0..outputs {
            processor.idle |= 1 << thread;
            processor.start_polling(inputs as u16 + thread as u16);
        }
        Ok(processor)
    }

    /// Runs until `warm_up` packets have left and then `packets` more, which are measured.
    ///
    /// # Errors
    /// Cells given back that nobody has: the processor's books are wrong.
    pub fn run(&mut self, warm_up: u64, packets: u64) -> Result<NetprocOutcome, NotHeld> {
        self.until(warm_up)?;
        self.poll_all();
        let start = self.wheel.now();
        self.sdram.reset_counters();
        self.buffer.reset_counters();
        self.rows.iter_mut().for_each(RowWindow::reset);
        self.engines.iter_mut().for_each(|engine| engine.busy = 0);
        (self.sent, self.sent_bytes, self.discarded, self.in_flight_sum, self.stalls) = (0, 0, 0, 0, [0; 2]);
        self.until(packets)?;
        self.poll_all();
        Ok(self.outcome(self.wheel.now() - start))
    }

    /// Polls up to now are behind.
    fn poll_all(&mut self) {
        let ((poll, pause), now) = (self.polling, self.wheel.now());
        self.engines.iter_mut().for_each(|engine| engine.poll(now, poll, pause));
    }

    /// Who has seen the references.
    pub fn into_watched(self) -> W {
        self.watched
    }

    fn until(&mut self, packets: u64) -> Result<(), NotHeld> {
        while self.sent < packets {
            if self.wheel.apart_is_next() {
                self.step_sdram();
                continue;
            }
            // Input always has a packet, so something is always ahead.
            let Some(entity) = self.wheel.pop() else { break };
            // Phases of everybody in one: the host sees one jump that is hard to foresee, not three.
            match self.threads[place(entity)].phase {
                ThreadPhase::Lane => self.drained(entity - self.others),
                ThreadPhase::Software => self.software(entity),
                ThreadPhase::Allocate => self.allocate(entity),
                ThreadPhase::Issue => self.issue(entity),
                ThreadPhase::Cached => self.cached(entity),
                ThreadPhase::Enqueue => self.enqueue(entity),
                ThreadPhase::Select => self.chosen(entity),
                ThreadPhase::Post => self.post(entity),
                ThreadPhase::Suffix => self.refill(entity),
                ThreadPhase::Handshake => self.handed_over(entity),
                ThreadPhase::Release => self.release(entity)?,
                ThreadPhase::Blocked | ThreadPhase::Behind | ThreadPhase::Idle | ThreadPhase::Reading => {}
            }
        }
        Ok(())
    }

    fn outcome(&self, ticks: u64) -> NetprocOutcome {
        let sdram = self.sdram.counters();
        let ticks = ticks.max(1) as f64;
        let clocks = ticks / f64::from(self.spec.sdram.ticks_per_clock);
        let seconds = ticks / (f64::from(self.spec.mhz) * 1e6);
        let width = f64::from(self.spec.sdram.width);
        let (inputs, outputs) = (self.spec.input_engines as usize, self.spec.output_engines as usize);
        let idle = |engines: &[Microengine]| {
            1.0 - engines.iter().map(|engine| engine.busy).sum::<u64>() as f64 / (engines.len() as f64 * ticks)
        };
        let run = |words: u64, runs: u64| words as f64 * width / runs.max(1) as f64;
        let (words, transfers) =
            (sdram.reads.words + sdram.writes.words, sdram.reads.transfers + sdram.writes.transfers);
        NetprocOutcome {
            packets: self.sent,
            bytes: self.sent_bytes,
            discarded: self.discarded,
            seconds,
            gbps: self.sent_bytes as f64 * 8e-9 / seconds,
            sdram_utilization: words as f64 / clocks,
            sdram_idle: sdram.idle as f64 / clocks,
            engine_idle: [idle(&self.engines[..inputs]), idle(&self.engines[inputs..inputs + outputs])],
            sdram,
            buffer: self.buffer.counters(),
            rows: [self.rows[0].mean().unwrap_or(0.0), self.rows[1].mean().unwrap_or(0.0)],
            run_bytes: [run(sdram.reads.words, sdram.reads.runs), run(sdram.writes.words, sdram.writes.runs)],
            transfer_bytes: run(words, transfers),
            in_flight: self.in_flight_sum as f64 / self.sent.max(1) as f64,
            stalls: self.stalls,
        }
    }

    /// Runs `ticks` of `thread` as soon as its engine is free; the tick after the last.
    #[inline]
    fn compute(&mut self, thread: u16, ticks: u32) -> u64 {
        let (poll, pause) = self.polling;
        let engine = &mut self.engines[usize::from(self.threads[place(thread)].engine) % ENGINES];
        engine.poll(self.wheel.now(), poll, pause);
        engine.free = self.wheel.now().max(engine.free) + u64::from(ticks);
        engine.busy += u64::from(ticks);
        engine.free
    }

    /// `thread` has found nothing to do, and polls.
    fn start_polling(&mut self, thread: u16) {
        let (poll, pause) = self.polling;
        if poll == 0 {
            return;
        }
        let engine = &mut self.engines[usize::from(self.threads[place(thread)].engine) % ENGINES];
        engine.poll(self.wheel.now(), poll, pause);
        let at = engine.polls.place(engine.polls.count);
        engine.polls.at[at] = self.wheel.now().max(engine.free) + pause;
        engine.polls.count += 1;
    }

    /// There is something for `thread`, which polled; when it has seen that.
    fn stop_polling(&mut self, thread: u16) -> u64 {
        let (poll, pause) = self.polling;
        let now = self.wheel.now();
        if poll == 0 {
            return now;
        }
        let engine = &mut self.engines[usize::from(self.threads[place(thread)].engine) % ENGINES];
        engine.poll(now, poll, pause);
        // Threads that poll are alike: the one that looks next sees it.
        let at = engine.polls.at[engine.polls.place(0)];
        engine.polls.first = engine.polls.first.wrapping_add(1);
        engine.polls.count -= 1;
        at.max(now)
    }

    /// A reference to SRAM at `issued`; when its answer is there.
    #[inline]
    fn sram(&mut self, issued: u64) -> u64 {
        let at = issued.max(self.sram_free);
        self.sram_free = at + u64::from(self.spec.sram.occupancy);
        at + u64::from(self.spec.sram.latency)
    }

    /// `thread` computes for `ticks` and then waits for a reference to SRAM.
    #[inline]
    fn reference(&mut self, thread: u16, ticks: u32) {
        let issued = self.compute(thread, ticks);
        let at = self.sram(issued);
        self.wheel.schedule(at, thread);
    }

    #[inline]
    fn addr(&self, slot: &PacketSlot, at: u32) -> u64 {
        self.buffer.addr(slot.cells[(at >> self.cell_shift) as usize]).0 + u64::from(at & (self.cell - 1))
    }

    #[inline]
    fn submit(&mut self, owner: u16, addr: u64, bytes: u32, write: bool) {
        let row = (addr >> self.row_shift) as u32;
        self.rows[usize::from(!write)].touch(row);
        self.watched.reference(self.wheel.now(), addr, bytes, write);
        let words = self.words(bytes) as u16;
        self.sdram.submit(Transfer { row, words, owner, write });
        if self.sdram.is_idle() && !self.sdram_awake {
            // Requests are seen at the edge of a clock.
            let per_clock = u64::from(self.spec.sdram.ticks_per_clock);
            self.sdram_clock = self.wheel.now().div_ceil(per_clock);
            self.sdram_awake = true;
            self.wheel.schedule_apart(self.sdram_clock * per_clock);
        }
    }

    /// Words of the data bus that `bytes` take.
    #[inline]
    fn words(&self, bytes: u32) -> u32 {
        (bytes + self.spec.sdram.width - 1) >> self.width_shift
    }

    fn step_sdram(&mut self) {
        let per_clock = u64::from(self.spec.sdram.ticks_per_clock);
        self.wheel.take_apart();
        self.sdram_awake = false;
        let (done, next) = self.sdram.step(self.sdram_clock);
        if let Some(next) = next {
            self.sdram_awake = true;
            self.sdram_clock = next;
            self.wheel.schedule_apart(next * per_clock);
        }
        let Some(done) = done else { return };
        if done.owner >= self.others {
            self.cell_moved(usize::from(done.owner - self.others), done.write);
            return;
        }
        let state = &mut self.threads[place(done.owner)];
        state.outstanding -= 1;
        match state.phase {
            ThreadPhase::Blocked => self.next_write(done.owner),
            ThreadPhase::Reading if state.outstanding == 0 => self.hand_over(done.owner),
            _ => {}
        }
    }
}

fn check(spec: &MicroenginesSpec, workload: &NetprocWorkload) -> Result<(), MachineError> {
    let error = |field: String, came: String, allowed: String, remedy: &str| {
        Err(MachineError::new(format!("workload.{field}"), came, allowed, remedy.into()))
    };
    let longest = spec.buffer.longest.bytes();
    for (i, work) in workload.works.iter().enumerate() {
        if u64::from(work.bytes) > longest || work.bytes == 0 {
            let allowed = format!("1 to {longest} bytes, microengines.buffer.longest");
            let came = format!("{} bytes", work.bytes);
            return error(format!("packet[{i}]"), came, allowed, "raise it, or drop longer packets");
        }
        if work.port.is_some_and(|port| u32::from(port) >= spec.ports) {
            let came = format!("port {}", work.port.unwrap_or(0));
            return error(format!("packet[{i}]"), came, format!("below {} ports", spec.ports), "map ports");
        }
        if work.steps.0 > work.steps.1 || work.steps.1 as usize > workload.steps.len() {
            let came = format!("steps {} to {}", work.steps.0, work.steps.1);
            return error(format!("packet[{i}]"), came, format!("within {} steps", workload.steps.len()), "");
        }
    }
    if workload.works.iter().all(|work| work.port.is_none()) {
        let came = format!("{} packets, none of which leaves", workload.works.len());
        return error("packets".into(), came, "a packet or more that is forwarded".into(), "check routes and rules");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_turns_of_polls_are_the_same_as_one_look_after_the_other() {
        for (count, cost, pause) in [(1, 10, 22), (2, 10, 22), (4, 10, 22), (4, 10, 100), (3, 1, 1), (16, 7, 50)] {
            let mut engine = Microengine { free: 35, ..Microengine::IDLE };
            for k in 0..count {
                engine.polls.at[usize::from(k)] = 35 + (u64::from(k) + 1) * pause / u64::from(count);
            }
            engine.polls.count = count;
            let mut naive = engine;
            let mut now = 0;
            for step in [20, 40, 3, 700, 1, 10_000, 33, 5] {
                now += step;
                engine.poll(now, cost, pause);
                while naive.look(now, cost, pause) {}
                let next = |engine: &Microengine| -> Vec<u64> {
                    (0..count).map(|k| engine.polls.at[engine.polls.place(k)]).collect()
                };
                assert_eq!((engine.busy, engine.free), (naive.busy, naive.free), "{count} {cost} {pause} at {now}");
                assert_eq!(next(&engine), next(&naive), "{count} {cost} {pause} at {now}");
            }
        }
    }
}
