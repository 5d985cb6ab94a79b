//! Hermes: packets become warps as they arrive, and warps commit in order.
//!
//! The NIC writes a packet into a slot of the shared memory. The CPU counts arrivals; when a warp's worth is there, or when
//! the oldest has waited for as long as two warps take to arrive, it posts their number in the task FIFO. The GPU takes up to
//! 32 packets from it as soon as a core has room and the DCQ an entry, a warp a clock, cores in turn. With a DCQ a warp
//! commits when all before it have; without one, when it is complete. A packet's slot is free once it is committed; a
//! packet that finds none is lost.
//!
//! Where the FIFO is software's ([`dispatcher`](super::dispatcher)), a warp polls the host's memory for tasks, and the host sees a commit later.
//!
//! **Left out**: the CPU's time, the descriptors' traffic, interrupts: posting takes no time, as in the paper.
//!
//! **Source**: Zhu, Deng, Chen, DAC 2011, sections 3.1 and 3.2.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{LINE_BYTES, Size};

use super::core::{FinishedWarp, Shaders};
use super::dcq::{DcqSpec, DelayCommitQueue};
use super::dispatcher::{Dispatcher, DispatcherSpec};
use super::lane::{Lanes, SECTOR_BYTES};
use super::merge::{WARP, WarpPlacement};
use super::outcome::{PacketArrival, Programs, SimtError, SimtOutcome, WarpRecord, lanes_of};
use super::spec::{KernelSpec, SimtSpec};
use crate::MachineError;

/// How long the oldest packet waits for company.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WarpTimeout {
    /// In times that a warp takes to arrive; the paper has 2.
    pub warps: f64,
    /// Whether that time is estimated from arrivals (an exponentially weighted mean of their distances), or is that
    /// of the nominal rate.
    pub estimated: bool,
    /// The weight of the latest distance in the estimate.
    #[serde(default = "weight")]
    pub weight: f64,
}

fn weight() -> f64 {
    1.0 / 64.0
}

/// Where packets are kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketBufferSpec {
    /// Bytes of all slots.
    pub size: Size,
    /// Bytes of a slot, which a packet takes whatever its length.
    pub slot: Size,
    /// Whether the NIC's writes and reads of packets take their share of the DRAM.
    pub nic: bool,
}

impl PacketBufferSpec {
    /// Slots, and the placement of slot 0 behind `tables` sectors.
    pub(super) fn layout(&self, tables: u32) -> Result<WarpPlacement, MachineError> {
        let slot = self.slot.bytes();
        if slot == 0 || !slot.is_multiple_of(LINE_BYTES) || slot > 1 << 16 {
            let remedy = format!("2 KiB holds a frame of {} B", packet::USUAL_FRAME_BYTES);
            return Err(MachineError::new(
                "buffer.slot",
                self.slot.to_string(),
                "a multiple of 64 B to 64 KiB",
                remedy,
            ));
        }
        let (slots, stride) = (self.size.bytes() / slot, (slot / LINE_BYTES) as u32);
        let base = (u64::from(tables) * SECTOR_BYTES).div_ceil(LINE_BYTES) as u32;
        let end = u64::from(base) + slots * u64::from(stride);
        if slots < WARP as u64 || end >= 1 << 30 {
            let allowed = format!("{} and, with the tables, less than 64 GiB", Size::from_bytes(slot * WARP as u64));
            let remedy = "a warp's packets must have room";
            return Err(MachineError::new("buffer.size", self.size.to_string(), &allowed, remedy.into()));
        }
        Ok(WarpPlacement { base, stride, slots: slots as u32, first: 0 })
    }
}

/// Hermes around shader cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HermesSpec {
    /// Entries of the task FIFO.
    pub fifo: u32,
    /// Packets wait for a warp's worth no longer than this.
    pub timeout: WarpTimeout,
    /// The FIFO in the host's memory, polled over a bus; left out: on the chip, as in the paper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatcher: Option<DispatcherSpec>,
    /// In-order commit; left out: warps commit as they finish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dcq: Option<DcqSpec>,
    /// The shared memory's part for packets.
    pub buffer: PacketBufferSpec,
}

impl HermesSpec {
    fn check(&self) -> Result<(), MachineError> {
        if !(1..=1 << 20).contains(&self.fifo) {
            let remedy = "the paper has 1024".into();
            return Err(MachineError::new("hermes.fifo", self.fifo.to_string(), "1 to 1048576 entries", remedy));
        }
        if let Some(dispatcher) = &self.dispatcher {
            dispatcher.check()?;
        }
        let WarpTimeout { warps, weight, .. } = self.timeout;
        if !(warps > 0.0 && warps <= 1e6) {
            let remedy = "the paper has 2".into();
            return Err(MachineError::new("hermes.timeout.warps", warps.to_string(), "above 0, to 1e6", remedy));
        }
        if !(weight > 0.0 && weight <= 1.0) {
            let remedy = "1/64 averages over two warps".into();
            return Err(MachineError::new("hermes.timeout.weight", weight.to_string(), "above 0, to 1", remedy));
        }
        Ok(())
    }
}

/// Packets that are there and not yet posted.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    count: u32,
    /// When the oldest must be posted.
    deadline: u64,
}

/// A run of Hermes.
struct HermesRun<'a> {
    arrivals: &'a [PacketArrival],
    spec: &'a HermesSpec,
    layout: WarpPlacement,
    shaders: Shaders,
    programs: Programs,
    dcq: Option<DelayCommitQueue>,
    /// Between the host and the FIFO, where that is software's.
    dispatcher: Option<Dispatcher>,
    /// Entries: packets, and when they were posted.
    fifo: VecDeque<(u32, u64)>,
    /// Packets in the FIFO.
    posted: u32,
    waiting: Waiting,
    next_arrival: usize,
    /// Mean distance of arrivals, clocks.
    gap: f64,
    latest: Option<u64>,
    /// The next packet to be issued, in the order of acceptance.
    next_packet: u32,
    buffered: u32,
    /// Warps that are issued, by tag.
    warps: Vec<WarpRecord>,
    turn: usize,
    lanes: Vec<u32>,
    outcome: SimtOutcome,
}

/// Runs Hermes on `arrivals`, which are in order of time, until all are committed. Their lanes are in `lanes`,
/// `tables` sectors are taken by tables, and `gap` is the mean distance of packets at the nominal rate, clocks.
/// `go_on` is asked now and then.
///
/// # Errors
/// Specifications that cannot be, lanes or warps that wait for each other, a run that is to stop.
#[allow(clippy::too_many_arguments)]
pub fn run(
    gpu: &SimtSpec,
    spec: &HermesSpec,
    kernel: &KernelSpec,
    lanes: &Lanes,
    tables: u32,
    arrivals: &[PacketArrival],
    gap: f64,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<SimtOutcome, SimtError> {
    spec.check()?;
    let resident = gpu.resident(kernel)?;
    let dcq = match &spec.dcq {
        Some(dcq) => Some(DelayCommitQueue::new(dcq, gpu.cores as usize, resident as usize)?),
        None => None,
    };
    let run = HermesRun {
        arrivals,
        spec,
        layout: spec.buffer.layout(tables)?,
        shaders: Shaders::new(gpu, resident)?,
        programs: Programs::default(),
        dcq,
        dispatcher: spec.dispatcher.as_ref().map(|own| Dispatcher::new(own, gpu.frequency)),
        fifo: VecDeque::new(),
        posted: 0,
        waiting: Waiting::default(),
        next_arrival: 0,
        gap,
        latest: None,
        next_packet: 0,
        buffered: 0,
        warps: Vec::new(),
        turn: 0,
        lanes: Vec::with_capacity(WARP),
        outcome: SimtOutcome { resident, ..SimtOutcome::default() },
    };
    run.finish(lanes, go_on)
}

impl HermesRun<'_> {
    fn finish(mut self, lanes: &Lanes, go_on: &mut dyn FnMut() -> bool) -> Result<SimtOutcome, SimtError> {
        let mut done = Vec::new();
        let mut now = self.arrivals.first().map_or(0, |a| a.at);
        let mut rounds = 0u32;
        // When the front of the machine has something to do; cores are asked for their own.
        let mut front = now;
        loop {
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(1 << 18) && !go_on() {
                return Err(SimtError::Stopped);
            }
            if self.shaders.next() <= now {
                self.shaders.step(now, &self.programs.code, &mut done)?;
                if !done.is_empty() {
                    for finished in done.drain(..) {
                        self.finished(finished, now);
                    }
                    front = now;
                }
            }
            if front <= now {
                self.commit(now);
                self.hear(now);
                self.arrive(now);
                self.post(now);
                self.dispatch(now);
                let issued = self.issue(lanes, now)?;
                front = self.front(now, issued);
            }
            let before = now;
            now = front.min(self.shaders.next());
            if self.warps.len() > self.outcome.warps.len() {
                self.outcome.busy_clocks += now.min(u64::MAX - 1).saturating_sub(before);
            }
            if now == u64::MAX {
                break;
            }
        }
        let mut outcome = self.outcome;
        outcome.warp_clocks = self.shaders.warp_clocks(outcome.end);
        for (member, &clocks) in outcome.members.iter_mut().zip(self.shaders.member_clocks()) {
            member.warp_clocks = clocks;
        }
        outcome.issued = self.shaders.issued();
        outcome.memory = self.shaders.memory().counters();
        self.shaders.memory_mut().settle(outcome.end);
        outcome.dram = self.shaders.memory().dram();
        outcome.most_uncommitted = self.dcq.map_or(0, |dcq| dcq.most() as u32);
        Ok(outcome)
    }

    /// When the front can do something again: a packet arrives, time is up, a warp can be issued or committed.
    fn front(&self, now: u64, issued: bool) -> u64 {
        let mut next = self.arrivals.get(self.next_arrival).map_or(u64::MAX, |a| a.at);
        if let Some(dispatcher) = &self.dispatcher {
            next = next.min(dispatcher.next().max(now + 1));
        }
        if self.waiting.count > 0 && self.has_room() {
            next = next.min(self.waiting.deadline.max(now + 1));
        }
        if (issued && self.posted > 0) || self.dcq.as_ref().is_some_and(DelayCommitQueue::is_due) {
            next = next.min(now + 1);
        }
        next
    }

    /// Whether another entry can be posted.
    fn has_room(&self) -> bool {
        self.fifo.len() + self.dispatcher.as_ref().map_or(0, Dispatcher::waiting) < self.spec.fifo as usize
    }

    fn arrive(&mut self, now: u64) {
        while let Some(packet) = self.arrivals.get(self.next_arrival).filter(|a| a.at <= now) {
            let number = self.next_arrival as u32;
            self.next_arrival += 1;
            if let Some(latest) = self.latest.replace(packet.at)
                && self.spec.timeout.estimated
            {
                self.gap += self.spec.timeout.weight * ((packet.at - latest) as f64 - self.gap);
            }
            if self.buffered >= self.layout.slots {
                self.outcome.lost.push(number);
                continue;
            }
            self.outcome.accepted.push(number);
            self.buffered += 1;
            self.outcome.most_buffered = self.outcome.most_buffered.max(self.buffered);
            if self.waiting.count == 0 {
                let patience = self.spec.timeout.warps * WARP as f64 * self.gap;
                self.waiting.deadline = packet.at + (patience as u64).max(1);
            }
            self.waiting.count += 1;
            if self.spec.buffer.nic {
                let slot = (self.outcome.accepted.len() - 1) as u32 % self.layout.slots;
                self.device(slot, packet.bytes, true, now);
            }
        }
    }

    fn device(&mut self, slot: u32, bytes: u32, write: bool, now: u64) {
        let first = self.layout.base + slot * self.layout.stride;
        let lines = bytes.div_ceil(LINE_BYTES as u32).min(self.layout.stride);
        self.shaders.memory_mut().device(first, lines, write, now);
    }

    /// Full warps are posted at once, the rest when time is up.
    fn post(&mut self, now: u64) {
        if !self.has_room() || self.waiting.count == 0 {
            return;
        }
        let late = now >= self.waiting.deadline;
        let full = self.waiting.count - self.waiting.count % WARP as u32;
        let mut count = if late { self.waiting.count } else { full };
        if let Some(dispatcher) = &self.dispatcher {
            // An entry a task, and a task of the host is a warp at most.
            let free = self.spec.fifo as usize - self.fifo.len() - dispatcher.waiting();
            count = count.min(free as u32 * WARP as u32);
        }
        if count == 0 {
            return;
        }
        match &mut self.dispatcher {
            Some(dispatcher) => {
                let mut left = count;
                while left > 0 {
                    dispatcher.post(left.min(WARP as u32), now);
                    left -= left.min(WARP as u32);
                }
            }
            None => {
                self.fifo.push_back((count, now));
                self.posted += count;
            }
        }
        let waiting = self.fifo.len() + self.dispatcher.as_ref().map_or(0, Dispatcher::waiting);
        self.outcome.most_posted = self.outcome.most_posted.max(waiting as u32);
        self.waiting.count -= count;
        if self.waiting.count > 0 {
            // Those that are left are the latest; the oldest of them waits from its arrival on.
            let oldest = self.outcome.accepted.len() - self.waiting.count as usize;
            let at = self.arrivals[self.outcome.accepted[oldest] as usize].at;
            let patience = self.spec.timeout.warps * WARP as f64 * self.gap;
            self.waiting.deadline = at + (patience as u64).max(1);
        }
    }

    /// What the dispatcher has published is in the FIFO, and the host sees what is committed.
    fn dispatch(&mut self, now: u64) {
        let Some(dispatcher) = &mut self.dispatcher else { return };
        dispatcher.advance(now);
        while let Some(task) = dispatcher.published(now) {
            self.posted += task.0;
            self.fifo.push_back(task);
        }
    }

    /// The host hears of what was committed: slots are free for what arrives now.
    fn hear(&mut self, now: u64) {
        while let Some(tag) = self.dispatcher.as_mut().and_then(|own| own.told(now)) {
            self.hand_on(tag, now);
        }
    }

    /// A warp is committed on the GPU.
    fn committed(&mut self, tag: u32, now: u64) {
        match &mut self.dispatcher {
            Some(dispatcher) => dispatcher.tell(tag, now),
            None => self.hand_on(tag, now),
        }
    }

    /// Issues a warp if a core has room for it; says whether it did.
    fn issue(&mut self, lanes: &Lanes, now: u64) -> Result<bool, SimtError> {
        if self.posted == 0 || self.dcq.as_ref().is_some_and(DelayCommitQueue::is_full) {
            return Ok(false);
        }
        let Some(core) = self.shaders.with_room(self.turn) else { return Ok(false) };
        let (mut count, mut filled) = (0, 0);
        while count < WARP as u32 {
            let Some((left, at)) = self.fifo.front_mut() else { break };
            let taken = (*left).min(WARP as u32 - count);
            (count, filled) = (count + taken, *at);
            *left -= taken;
            if *left == 0 {
                self.fifo.pop_front();
            }
        }
        self.posted -= count;
        self.outcome.partial += u64::from(count < WARP as u32);
        let first = self.next_packet;
        self.next_packet += count;
        lanes_of(self.arrivals, &self.outcome.accepted[first as usize..self.next_packet as usize], &mut self.lanes);
        let program = self.programs.of(lanes, &self.lanes)?;
        let tag = self.warps.len() as u32;
        let placement = WarpPlacement { first: first % self.layout.slots, ..self.layout };
        let Some(slot) = self.shaders.launch(core, program, placement, tag, &self.programs.code, now) else {
            return Ok(false);
        };
        if let Some(dcq) = &mut self.dcq {
            dcq.allocate(tag, core as u32, slot);
        }
        self.programs.count(program, &mut self.outcome);
        let record = WarpRecord { first, count, filled, started: now, copied: now, finished: 0, committed: 0 };
        self.warps.push(record);
        self.turn = if core + 1 == self.shaders.cores() { 0 } else { core + 1 };
        Ok(true)
    }

    fn finished(&mut self, finished: FinishedWarp, now: u64) {
        let FinishedWarp { core, slot, tag } = finished;
        self.shaders.release(core, slot, now);
        self.warps[tag as usize].finished = now;
        match &mut self.dcq {
            Some(dcq) => {
                dcq.finish(core, slot);
            }
            None => self.committed(tag, now),
        }
    }

    fn commit(&mut self, now: u64) {
        let Some(commits) = self.spec.dcq.as_ref().map(|dcq| dcq.commits) else { return };
        for _ in 0..commits {
            let Some(tag) = self.dcq.as_mut().and_then(DelayCommitQueue::commit) else { return };
            self.committed(tag, now);
        }
    }

    fn hand_on(&mut self, tag: u32, now: u64) {
        let record = &mut self.warps[tag as usize];
        record.committed = now;
        let record = *record;
        self.outcome.warps.push(record);
        self.outcome.end = self.outcome.end.max(now);
        self.buffered -= record.count;
        if self.spec.buffer.nic {
            for n in record.first..record.first + record.count {
                let bytes = self.arrivals[self.outcome.accepted[n as usize] as usize].bytes;
                self.device(n % self.layout.slots, bytes, false, now);
            }
        }
    }
}

#[cfg(test)]
#[path = "hermes_tests.rs"]
mod tests;
