//! The router's loop: packets in, tasks posted, commits seen, packets out.
//!
//! One thread does ingress and egress, one clock measures. Where packets arrive by a schedule, the delay of a packet is from
//! its scheduled arrival to the moment egress sees its commit: a router that falls behind is charged for it, since a late
//! ingress does not move the arrival. Where packets are taken as fast as they go there is no arrival, and no delay is told.
//!
//! A task is posted when a batch is full or when its oldest packet has waited for the timeout. The paper posts after two warp
//! arrival times at the latest; so does [`BatchTimeout::Adaptive`], with an estimate of the arrival rate, which the paper names as
//! what should be done. Of a network interface the gap between two packets counts without the time for which the router held the
//! one back: who sends only once it is answered would else be held twice as long each time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use functions::{DropReason, Verdict};
use packet::Packet;
use serde::Serialize;
use units::PortId;

use crate::RouterError;
use crate::backend::{Backend, Committed, CommittedSlots, without_verdict};
use crate::delay::{DelaySummary, Delays};
use crate::layout::WARP_LANES;
use crate::program::MemberWork;
use crate::sink::FrameSink;
use crate::source::{FrameSource, NextFrame};
use crate::split::BackendShare;

/// The weight of the latest gap in the estimate of the mean gap: 1/64.
const GAP_SHIFT: u32 = 6;

/// When packets are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// As fast as the router takes them.
    #[default]
    AsFast,
    /// When they arrive.
    Arrival,
}

/// How long a batch may wait to be full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchTimeout {
    /// So long.
    After(Duration),
    /// Two batch arrival times, as the estimated rate has it.
    #[default]
    Adaptive,
}

/// How a router is run.
#[derive(Clone, Copy, Debug)]
pub struct RouteOptions {
    /// Packets that are waited for before tasks are posted.
    pub batch: u32,
    /// And how long.
    pub timeout: BatchTimeout,
    /// When packets are taken.
    pub pace: Pace,
    /// Packets after which to end; none is as many as there are.
    pub packets: Option<u64>,
    /// Time after which to end.
    pub time: Option<Duration>,
}

impl Default for RouteOptions {
    fn default() -> RouteOptions {
        RouteOptions { batch: 32, timeout: BatchTimeout::Adaptive, pace: Pace::AsFast, packets: None, time: None }
    }
}

/// What was routed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RouteReport {
    /// The backend.
    pub backend: &'static str,
    /// Packets taken, all of them committed.
    pub packets: u64,
    /// Packets that left.
    pub forwarded: u64,
    /// Packets that were cut, and frames that left beside the first one of each.
    pub fragmented: u64,
    /// Those frames.
    pub fragments: u64,
    /// Packets that were dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Packets that left, by port.
    pub ports: BTreeMap<u16, u64>,
    /// Of a chain, what each member has done, and how long all threads of all queues together took for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<MemberWork>,
    /// Packets of which only a part was inspected: a GPU's slot has room for jumbo frames, and not for more.
    pub cut: u64,
    /// Packets that were lost with a backend that failed, where others went on.
    pub lost: u64,
    /// Of several backends, what each was given, and why one gets nothing any more. Shares are of all packets, of all queues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub split: Vec<BackendShare>,
    /// Packets that the source could not hold, where it knows.
    pub missed: Option<u64>,
    /// Packets that were to leave and that the sink had no room for, or that it never heard were sent.
    pub unsent: u64,
    /// Packets that were committed after one that came later.
    pub reordered: u64,
    /// Tasks.
    pub tasks: u64,
    /// Tasks of fewer packets than the backend takes at once.
    pub partial_tasks: u64,
    /// How often a task had to wait since as many were uncommitted as there may be.
    pub refusals: u64,
    /// Seconds from the first packet's arrival to the last commit.
    pub wall_s: f64,
    /// Million packets a second.
    pub mpps: f64,
    /// Billion bits a second of frames with their check sequence (L2).
    pub gbps: f64,
    /// Seconds from the start of the run to its end, with what lies before the first packet and after the last.
    pub run_s: f64,
    /// Seconds of a CPU that all threads of the process had in that time.
    pub cpu_s: f64,
    /// Whether it was ended from outside before its source or its limits ended it.
    pub stopped: bool,
    /// From scheduled arrival to commit; none where packets had no schedule.
    pub delay: Option<DelaySummary>,
    /// What `delay`, `wall_s` and `gbps` are made of: all delays, first arrival and last commit, bytes of frames (L2).
    #[serde(skip)]
    pub(crate) parts: ReportParts,
}

/// What reports of several queues are made one report of.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportParts {
    delays: Delays,
    span: Option<(Instant, Instant)>,
    bytes: u64,
}

impl RouteReport {
    /// Adds what another queue has routed at the same time.
    pub(crate) fn add(&mut self, other: RouteReport) {
        self.packets += other.packets;
        self.forwarded += other.forwarded;
        self.fragmented += other.fragmented;
        self.fragments += other.fragments;
        other.dropped.iter().for_each(|(reason, n)| *self.dropped.entry(reason).or_default() += n);
        other.ports.iter().for_each(|(port, n)| *self.ports.entry(*port).or_default() += n);
        match self.chain.is_empty() {
            true => self.chain = other.chain,
            false => self.chain.iter_mut().zip(&other.chain).for_each(|(sum, share)| sum.add(share)),
        }
        BackendShare::add_all(&mut self.split, other.split);
        self.cut += other.cut;
        self.lost += other.lost;
        self.missed = self.missed.zip(other.missed).map(|(sum, n)| sum + n);
        self.unsent += other.unsent;
        self.reordered += other.reordered;
        self.tasks += other.tasks;
        self.partial_tasks += other.partial_tasks;
        self.refusals += other.refusals;
        self.stopped |= other.stopped;
        self.run_s = self.run_s.max(other.run_s);
        let own = &mut self.parts;
        own.span = match (own.span, other.parts.span) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (one, another) => one.or(another),
        };
        own.bytes += other.parts.bytes;
        own.delays.add_all(&other.parts.delays);
        let timed = self.delay.is_some() || other.delay.is_some();
        self.rate(timed);
    }

    fn rate(&mut self, timed: bool) {
        let (first, last) = self.parts.span.unzip();
        self.wall_s = last.zip(first).map_or(0.0, |(last, first)| last.saturating_duration_since(first).as_secs_f64());
        if self.wall_s > 0.0 {
            self.mpps = self.packets as f64 / self.wall_s / 1e6;
            self.gbps = self.parts.bytes as f64 * 8.0 / self.wall_s / 1e9;
        }
        self.delay = if timed { self.parts.delays.summary() } else { None };
    }
}

/// Routes all packets of `source` through `backend` to `sink`, and ends the backend.
///
/// # Errors
/// Any of the three fails. What was sent by then is sent.
pub fn route(
    source: &mut dyn FrameSource,
    backend: &mut dyn Backend,
    sink: &mut dyn FrameSink,
    options: &RouteOptions,
) -> Result<RouteReport, RouterError> {
    route_until(source, backend, sink, options, &AtomicBool::new(false))
}

/// As [`route`], and takes nothing more once `stop` is set: what was taken leaves, and the sink is finished.
///
/// # Errors
/// As [`route`].
pub fn route_until(
    source: &mut dyn FrameSource,
    backend: &mut dyn Backend,
    sink: &mut dyn FrameSink,
    options: &RouteOptions,
    stop: &AtomicBool,
) -> Result<RouteReport, RouterError> {
    if options.batch == 0 || u64::from(options.batch) > backend.slots() / 2 {
        let allowed = "allowed are 1 and more, up to half the slots";
        return Err(RouterError::Setting { what: "batch", came: options.batch.to_string(), allowed });
    }
    let cpu = cpu_time();
    let mut run = RouterRun::new(backend, sink, options);
    let mut packet = Packet::default();
    let (mut waiting, mut ended, mut stopped) = (false, false, false);
    let live = source.is_live();
    loop {
        if !ended && stop.load(Ordering::Relaxed) {
            (ended, stopped) = (true, true);
        }
        run.turn();
        if !ended && options.pace == Pace::AsFast && !live {
            ended = run.receive(source, options)?;
        }
        // A turn of ingress takes at most a batch, so that egress has its turn as well.
        while !ended && run.put < run.end_of_turn && !run.is_full() {
            if run.is_over(options) {
                ended = true;
                break;
            }
            if !waiting {
                match source.next(&mut packet)? {
                    NextFrame::Packet => waiting = true,
                    NextFrame::NotYet => break,
                    NextFrame::End => {
                        ended = true;
                        break;
                    }
                }
            }
            if !live && options.pace == Pace::Arrival && !run.is_due(&packet) {
                break;
            }
            let arrived = if live { source.arrived() } else { None };
            run.take_in(&mut packet, live, arrived);
            waiting = false;
        }
        run.post(ended)?;
        run.commit()?;
        if ended && run.committed == run.put {
            break;
        }
    }
    if run.committed > 0 && !run.timed {
        run.last_commit = run.now();
    }
    run.backend.stop()?;
    run.sink.finish()?;
    let (chain, cut, split) = (run.backend.shares(), run.backend.cut(), run.backend.split());
    let (unsent, run_s) = (run.sink.refused(), run.start.elapsed().as_secs_f64());
    let mut report = run.report(options);
    (report.unsent, report.stopped) = (unsent, stopped);
    (report.run_s, report.cpu_s) = (run_s, cpu_time().saturating_sub(cpu).as_secs_f64());
    (report.chain, report.cut, report.split) = (chain, cut, split);
    report.missed = source.missed();
    Ok(report)
}

/// How long all threads of this process have had a CPU.
pub(crate) fn cpu_time() -> Duration {
    // SAFETY: all zero is a value of it.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: it writes to what outlives the call. Where there is no such clock it leaves zero.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

struct RouterRun<'a> {
    backend: &'a mut dyn Backend,
    sink: &'a mut dyn FrameSink,
    batch: u64,
    timeout: BatchTimeout,
    most: u64,
    slots: u64,
    name: &'static str,
    /// Packets laid into slots, posted, committed. Slots are free again once all packets before are committed.
    put: u64,
    posted: u64,
    committed: u64,
    oldest: u64,
    /// By slot: whether the packet there is committed and one before it is not, and when it arrived. How many are so.
    done: Vec<bool>,
    early: u64,
    arrivals: Vec<u64>,
    timed: bool,
    start: Instant,
    first: Option<u64>,
    last_commit: u64,
    /// When this turn of ingress began, or the latest of which that is known; whether it is asked for in each.
    turn: u64,
    clocked: bool,
    /// Packets after which this turn of ingress is over.
    end_of_turn: u64,
    left: LeavingPackets,
    /// The mean gap between arrivals, times 2^[`GAP_SHIFT`].
    gap: u64,
    latest: u64,
    /// How long nobody came while the batch that was posted last waited for its timeout, since when nobody has come.
    held: u64,
    bytes: u64,
    highest: u64,
    out: Vec<Committed>,
    spare: Packet,
    delays: Delays,
    report: RouteReport,
}

/// What has become of packets.
struct LeavingPackets {
    /// By port, in four parts: a count in memory waits for the one before, which is often of the same port.
    ports: Vec<[u64; 4]>,
    /// By reason.
    dropped: [u64; DropReason::ALL.len()],
    /// Packets that were cut, and frames that left beside the first one of each.
    fragmented: u64,
    fragments: u64,
}

impl Default for LeavingPackets {
    fn default() -> LeavingPackets {
        LeavingPackets { ports: Vec::new(), dropped: [0; DropReason::ALL.len()], fragmented: 0, fragments: 0 }
    }
}

impl LeavingPackets {
    /// A packet leaves by a port, in one of the parts of its count.
    #[inline]
    fn count(&mut self, port: PortId, part: usize) {
        let place = usize::from(port.0);
        if place >= self.ports.len() {
            self.ports.resize(place + 1, [0; 4]);
        }
        self.ports[place][part % 4] += 1;
    }

    /// Sends a packet, and its fragments behind it, or drops it.
    fn leave(
        &mut self,
        sink: &mut dyn FrameSink,
        packet: &Packet,
        verdict: Verdict,
        fragments: &[Packet],
    ) -> Result<(), RouterError> {
        match verdict {
            Verdict::Forward { port } => {
                self.count(port, 0);
                sink.send(packet, port)?;
                if !fragments.is_empty() {
                    // The others leave behind the first, and nothing between them.
                    self.fragmented += 1;
                    self.fragments += fragments.len() as u64;
                    fragments.iter().try_for_each(|fragment| sink.send(fragment, port))?;
                }
            }
            Verdict::Drop(reason) => self.dropped[reason as usize] += 1,
        }
        Ok(())
    }

    /// The same with all of `slots`, whose first packet is number `first`.
    fn leave_slots(
        &mut self,
        sink: &mut dyn FrameSink,
        slots: CommittedSlots<'_>,
        backend: &'static str,
        first: u64,
    ) -> Result<(), RouterError> {
        let CommittedSlots { packets, verdicts, fragments } = slots;
        if !fragments.is_empty() {
            for (place, (packet, verdict)) in packets.iter().zip(verdicts).enumerate() {
                let verdict = verdict.take().ok_or_else(|| without_verdict(backend, first + place as u64))?;
                self.leave(sink, packet, verdict, &fragments[place])?;
            }
            fragments.iter_mut().for_each(Vec::clear);
            return Ok(());
        }
        for (place, verdict) in verdicts.iter().enumerate() {
            match verdict {
                Some(Verdict::Forward { port }) => self.count(*port, place),
                Some(Verdict::Drop(reason)) => self.dropped[*reason as usize] += 1,
                None => return Err(without_verdict(backend, first + place as u64)),
            }
        }
        sink.send_burst(packets, verdicts)?;
        verdicts.fill(None);
        Ok(())
    }

    fn tell(self, report: &mut RouteReport) {
        let LeavingPackets { ports, dropped, fragmented, fragments } = self;
        let of_port = |parts: [u64; 4]| parts.iter().sum::<u64>();
        report.ports = (0..=u16::MAX).zip(ports.into_iter().map(of_port)).filter(|&(_, packets)| packets > 0).collect();
        report.forwarded = report.ports.values().sum();
        let by_reason = DropReason::ALL.iter().map(|reason| reason.name()).zip(dropped);
        report.dropped = by_reason.filter(|&(_, packets)| packets > 0).collect();
        (report.fragmented, report.fragments) = (fragmented, fragments);
    }
}

impl<'a> RouterRun<'a> {
    fn new(backend: &'a mut dyn Backend, sink: &'a mut dyn FrameSink, options: &RouteOptions) -> RouterRun<'a> {
        let (slots, most, name) = (backend.slots(), u64::from(backend.most()), backend.name());
        RouterRun {
            backend,
            sink,
            batch: u64::from(options.batch),
            timeout: options.timeout,
            most,
            slots,
            name,
            put: 0,
            posted: 0,
            committed: 0,
            oldest: 0,
            done: vec![false; slots as usize],
            early: 0,
            arrivals: vec![0; slots as usize],
            timed: options.pace == Pace::Arrival,
            start: Instant::now(),
            first: None,
            last_commit: 0,
            turn: 0,
            clocked: true,
            end_of_turn: 0,
            left: LeavingPackets::default(),
            gap: 0,
            latest: 0,
            held: 0,
            bytes: 0,
            highest: 0,
            out: Vec::new(),
            spare: Packet::default(),
            delays: Delays::default(),
            report: RouteReport { backend: name, ..RouteReport::default() },
        }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// A turn of ingress begins.
    fn turn(&mut self) {
        if self.clocked {
            self.turn = self.now();
        }
        self.end_of_turn = self.put + self.batch.max(u64::from(WARP_LANES));
    }

    /// Whether nothing more is to be taken: there were as many packets as asked for, or it is late.
    fn is_over(&self, options: &RouteOptions) -> bool {
        options.packets.is_some_and(|most| self.put >= most)
            || options.time.is_some_and(|time| u128::from(self.turn) >= time.as_nanos())
    }

    /// Receives this turn's packets into their slots, where that can be done; whether they were the last.
    fn receive(&mut self, source: &mut dyn FrameSource, options: &RouteOptions) -> Result<bool, RouterError> {
        while self.put < self.end_of_turn && !self.is_full() {
            if self.is_over(options) {
                return Ok(true);
            }
            let free = self.slots - (self.put - self.oldest);
            let wanted = (self.end_of_turn - self.put).min(free);
            let most = options.packets.map_or(wanted, |most| wanted.min(most - self.put));
            // SAFETY: packets before `oldest` have left, so the slots of the next `free` are nobody's.
            let slots = unsafe { self.backend.slots_from(self.put, most as usize) };
            let Some(slots) = slots else { return Ok(false) };
            let (count, next) = source.fill(slots)?;
            self.bytes += slots[..count].iter().map(Packet::l2_bytes).sum::<u64>();
            // As long as there is always a packet nobody waits, and a clock takes as long as a packet.
            let was_clocked = self.clocked;
            self.clocked = options.time.is_some() || next != NextFrame::Packet;
            if self.clocked && !was_clocked {
                self.turn = self.now();
            }
            // All of a turn arrive at once: of a rate, by which batches are waited for, that says nothing.
            let place = (self.put & (self.slots - 1)) as usize;
            self.arrivals[place..place + count].fill(self.turn);
            self.put += count as u64;
            if count > 0 {
                self.first.get_or_insert(self.turn);
            }
            if next != NextFrame::Packet {
                return Ok(next == NextFrame::End);
            }
        }
        Ok(false)
    }

    fn is_full(&self) -> bool {
        self.put - self.oldest >= self.slots
    }

    fn is_due(&self, packet: &Packet) -> bool {
        packet.arrival.0 / 1000 <= self.now()
    }

    fn take_in(&mut self, packet: &mut Packet, live: bool, arrived: Option<Instant>) {
        let arrival = match arrived {
            // What came before the run waits since its start.
            Some(arrived) => arrived.saturating_duration_since(self.start).as_nanos() as u64,
            None if live => self.now(),
            None if self.timed => packet.arrival.0 / 1000,
            // Packets that are there as fast as they are taken arrive with their turn.
            None => self.turn,
        };
        self.timed |= live;
        let held = if live { std::mem::take(&mut self.held) } else { 0 };
        self.bytes += packet.l2_bytes();
        self.backend.put(self.put, packet);
        self.arrive(arrival, held);
    }

    /// Packet `put` is in its slot.
    #[inline]
    fn arrive(&mut self, arrival: u64, held: u64) {
        self.arrivals[(self.put & (self.slots - 1)) as usize] = arrival;
        // Before the first there is no gap: how long nobody came at the start says nothing of the rate.
        if self.first.is_some() {
            let gap = arrival.saturating_sub(self.latest).saturating_sub(held);
            self.gap = self.gap - (self.gap >> GAP_SHIFT) + gap;
        }
        self.latest = arrival;
        self.first.get_or_insert(arrival);
        self.put += 1;
    }

    fn post(&mut self, ended: bool) -> Result<(), RouterError> {
        let waiting = self.put - self.posted;
        if waiting == 0 {
            return Ok(());
        }
        let oldest = self.arrivals[(self.posted & (self.slots - 1)) as usize];
        let timeout = match self.timeout {
            BatchTimeout::After(time) => time.as_nanos() as u64,
            BatchTimeout::Adaptive => 2 * self.batch * (self.gap >> GAP_SHIFT),
        };
        let full = waiting >= self.batch;
        let mut flush = ended || self.is_full();
        if !full {
            let now = self.now();
            flush |= now.saturating_sub(oldest) >= timeout;
            if !flush {
                return Ok(());
            }
            self.held = now.saturating_sub(self.latest);
        }
        // Whole batches, and the rest only if it waits no longer.
        let until = if flush { self.put } else { self.posted + waiting / self.batch * self.batch };
        while self.posted < until {
            let count = self.backend.fit(self.posted, until - self.posted);
            if !self.backend.post(self.posted, count as u32)? {
                self.report.refusals += 1;
                break;
            }
            self.report.tasks += 1;
            self.report.partial_tasks += u64::from(count < self.most);
            self.posted += count;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), RouterError> {
        let mut out = std::mem::take(&mut self.out);
        self.backend.poll(&mut out)?;
        if out.is_empty() && (self.posted > self.oldest || self.put == self.posted) {
            // Workers may need this core.
            std::thread::yield_now();
        }
        if !out.is_empty() {
            // Where no delay is told nobody asks for the time but once, at the end.
            let now = if self.timed { self.now() } else { self.turn };
            for Committed { first, count } in out.drain(..) {
                self.note(first, count)?;
                self.take_out(first, count, now)?;
            }
            self.last_commit = now;
        }
        self.sink.flush()?;
        self.out = out;
        Ok(())
    }

    /// So many packets from `first` on are committed, wherever that is in their order.
    fn note(&mut self, first: u64, count: u32) -> Result<(), RouterError> {
        let end = first + u64::from(count);
        self.committed += u64::from(count);
        // In order, and nothing before it was early: nobody has to remember which are done.
        if first == self.oldest && end <= self.posted && self.early == 0 {
            (self.oldest, self.highest) = (end, end.saturating_sub(1).max(self.highest));
            return Ok(());
        }
        for number in first..end {
            let place = (number & (self.slots - 1)) as usize;
            if number < self.oldest || number >= self.posted || std::mem::replace(&mut self.done[place], true) {
                let what = format!("packet {number} was committed, which was not to be");
                return Err(RouterError::Protocol { backend: self.backend.name(), what });
            }
            self.early += 1;
            self.report.reordered += u64::from(number < self.highest);
            self.highest = self.highest.max(number);
            while self.oldest < self.posted {
                if !std::mem::take(&mut self.done[(self.oldest & (self.slots - 1)) as usize]) {
                    break;
                }
                (self.oldest, self.early) = (self.oldest + 1, self.early - 1);
            }
        }
        Ok(())
    }

    fn take_out(&mut self, first: u64, count: u32, now: u64) -> Result<(), RouterError> {
        let end = first + u64::from(count);
        if self.timed {
            for number in first..end {
                self.delays.add(now.saturating_sub(self.arrivals[(number & (self.slots - 1)) as usize]));
            }
        }
        let (sink, left, mut next) = (&mut *self.sink, &mut self.left, first);
        while next < end {
            // In their slots, as many as lie one after the other, or one by one.
            // SAFETY: they were committed now, and nothing is received into their slots before all of them have left.
            if let Some(slots) = unsafe { self.backend.committed_slots(next, (end - next) as u32) } {
                let count = slots.packets.len() as u64;
                left.leave_slots(sink, slots, self.name, next)?;
                next += count;
                continue;
            }
            if self.backend.lost(next) {
                self.report.lost += 1;
            } else {
                let verdict = self.backend.take(next, &mut self.spare)?;
                left.leave(sink, &self.spare, verdict, self.backend.fragments())?;
            }
            next += 1;
        }
        Ok(())
    }

    fn report(self, options: &RouteOptions) -> RouteReport {
        let mut report = self.report;
        report.packets = self.committed;
        self.left.tell(&mut report);
        let at = |ns| self.start + Duration::from_nanos(ns);
        let span = self.first.map(|first| (at(first), at(self.last_commit.max(first))));
        report.parts = ReportParts { delays: self.delays, span, bytes: self.bytes };
        report.rate(self.timed || options.pace == Pace::Arrival);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::SplitShare;

    /// A queue that had `packets` packets on two backends, and whose workers took `time` ns for two functions.
    fn of_queue(packets: [u64; 2], time: [u64; 2]) -> RouteReport {
        let work = |(name, time)| MemberWork { name, packets: 10, dropped: 1, time_ns: Some(time) };
        let given = |(backend, packets): (&'static str, u64)| {
            let share = packets as f64 / 400.0;
            let share =
                SplitShare { batches: 2, packets, share, explored: 1, s_per_packet: Some(packets as f64 * 1e-9) };
            BackendShare { backend, share, redone: 3, lost: 0, failed: None }
        };
        RouteReport {
            packets: packets.iter().sum(),
            chain: ["check", "ttl"].into_iter().zip(time).map(work).collect(),
            split: ["cpu", "twin"].into_iter().zip(packets).map(given).collect(),
            ..RouteReport::default()
        }
    }

    #[test]
    fn shares_of_several_queues_are_of_all_their_packets_and_of_all_their_time() {
        let mut sum = of_queue([100, 300], [5, 15]);
        sum.add(of_queue([300, 100], [25, 15]));
        sum.add(of_queue([200, 200], [10, 10]));
        let shares: Vec<_> = sum.split.iter().map(|own| (own.backend, own.share.packets, own.share.share)).collect();
        assert_eq!(shares, [("cpu", 600, 0.5), ("twin", 600, 0.5)]);
        assert!((sum.split.iter().map(|own| own.share.share).sum::<f64>() - 1.0).abs() < 1e-12);
        // Each packet of each queue has the weight of one: (100 x 100 + 300 x 300 + 200 x 200) / 600 ns.
        assert!((sum.split[0].share.s_per_packet.unwrap() - 140_000.0 / 600.0 * 1e-9).abs() < 1e-15);
        assert_eq!((sum.split[0].share.batches, sum.split[1].share.explored, sum.split[1].redone), (6, 3, 9));
        let times: Vec<_> = sum.chain.iter().map(|work| work.time_ns.unwrap()).collect();
        assert_eq!((times, sum.chain[0].packets, sum.packets), (vec![40, 40], 30, 1200));
    }
}
