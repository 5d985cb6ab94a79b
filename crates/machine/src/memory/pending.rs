//! What waits for DRAM whose controllers answer later: fills of cores, with all who want the same line meanwhile, and
//! transactions of devices.
//!
//! A request goes from LLC to controller and back in half of `dram.overhead` each. Whoever asks for a line that is on
//! its way waits for it (a merge in the LLC's MSHRs), whether the tags have it already or have lost it again. Writes
//! are posted: a device's write is done once its channel has fewer than [`POSTED`] before it, and before the write-backs of
//! what it has put out of the LLC.
//!
//! A DMA engine's copy is a transaction, too. Until it is answered the lines of its target are on their way: whoever wants one waits for
//! the copy's end.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use stats::{Path, Reason};
use units::{CoreId, Line, Ps, Ticket};

use super::Hierarchy;
use crate::dram::{
    self, CommandReport, Commanded, ControllerSetting, DramCounters, DramSpec, EnergyEvents, FinishedRead,
};
use crate::{MachineError, Reply, Response, Served};

/// Writes that wait at the LLC for a channel before a device's write is held up.
const POSTED: u64 = dram::POSTED as u64;

/// In place of a socket for what no LLC has asked for.
const NO_LLC: usize = usize::MAX;

/// A device's request of several lines that is answered later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Transaction(pub u32);

/// An answer that has become known, ahead of its time or at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryReply {
    /// To a core's request.
    Core(CoreId, Ticket, Response),
    /// To a device's transaction, which is done at this time.
    Device(Transaction, Ps),
}

/// See the module header.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PendingMemory {
    dram: Commanded,
    /// One way to the controllers, and back.
    there: Ps,
    back: Ps,
    /// What no request takes less than from now on until it comes in.
    ahead: Ps,
    fills: Vec<PendingFill>,
    free: Vec<u32>,
    #[serde(serialize_with = "units::arrays::in_order")]
    by_line: FxHashMap<u64, u32>,
    tickets: u64,
    transactions: Transactions,
    /// The one that the present request of a device is part of.
    open: Option<u32>,
    /// The present request of a device reads a packet to send it.
    pub(super) output: bool,
    /// Of each channel.
    posted: Vec<Posted>,
    held_up: usize,
    finished: Vec<FinishedRead>,
    accepted: Vec<(u32, Ps)>,
    /// Lines whose data come at a time that has become known.
    coming: Vec<(Line, Ps)>,
    copies: Vec<PendingCopy>,
    /// Rows are opened, and no request is made: see [`super::warm`].
    #[serde(skip)]
    pub(super) untimed: bool,
}

/// A line on its way from DRAM.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct PendingFill {
    line: Line,
    /// When an LLC asked for it.
    asked: Ps,
    /// The socket of that LLC.
    by: usize,
    first: Option<Waiter>,
    others: Vec<Waiter>,
}

/// Who wants it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Waiter {
    Core {
        core: CoreId,
        ticket: Ticket,
        served: Served,
        /// The line is on its way because of it.
        asked: bool,
        /// Without DRAM.
        path: Path,
        /// Not before this.
        ready: Ps,
        /// From the LLC.
        distance: Ps,
        /// A copy engine's time at the end.
        copy: Ps,
    },
    Device(u32),
    /// A core that looks for the end of its copy once in each period from a time on. Its path so far.
    Copier {
        core: CoreId,
        ticket: Ticket,
        from: Ps,
        period: Ps,
        path: Path,
    },
    /// A line that gets these data: its home, the way there, and when caches have given it up.
    Target {
        line: Line,
        home: usize,
        way: Ps,
        clear: Ps,
    },
}

/// A copy whose end is not known.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PendingCopy {
    transaction: Transaction,
    /// What stands for its target.
    fill: u32,
    copy: LaterCopy,
}

/// A copy by an engine, beyond what the transaction of its reads and writes says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LaterCopy {
    /// The target: its first line, and lines.
    pub to: (Line, u64),
    /// It ends so long after its transaction, and not before a time.
    pub more: Ps,
    pub least: Ps,
    /// What the word of its end takes that cores wait for.
    pub word: Ps,
}

/// A copy that has ended: its target, and when cores and devices may have it.
pub(super) type EndedCopy = (u64, u64, [Ps; 2]);

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct OpenTransaction {
    left: u32,
    closed: bool,
    at: Ps,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Posted {
    posted: u64,
    accepted: u64,
    /// Transactions that wait until so many were accepted.
    waiting: VecDeque<(u64, u32)>,
}

/// What a core's request that is answered later has behind it.
pub(super) struct Asked {
    pub core: CoreId,
    pub path: Path,
    /// With the core's data at the LLC, as far as the LLC is concerned.
    pub ready: Ps,
    pub distance: Ps,
    pub served: Served,
    pub copy: Ps,
}

impl PendingMemory {
    /// # Errors
    /// As [`Commanded::of_homes`].
    pub(super) fn new(
        spec: &DramSpec,
        setting: &ControllerSetting,
        homes: u32,
        llc_latency: Ps,
        path: &str,
    ) -> Result<PendingMemory, MachineError> {
        let dram = Commanded::of_homes(spec, setting, homes, path)?;
        let overhead = spec.overhead.ps();
        let there = Ps(overhead.0 / 2);
        Ok(PendingMemory {
            posted: vec![Posted::default(); dram.channels()],
            dram,
            there,
            back: overhead - there,
            ahead: llc_latency + there,
            fills: Vec::new(),
            free: Vec::new(),
            by_line: FxHashMap::default(),
            tickets: 0,
            transactions: Transactions::default(),
            open: None,
            output: false,
            held_up: 0,
            finished: Vec::new(),
            accepted: Vec::new(),
            coming: Vec::new(),
            copies: Vec::new(),
            untimed: false,
        })
    }

    pub(super) fn counters(&self) -> DramCounters {
        self.dram.counters()
    }

    pub(super) fn work(&self, now: Ps) -> EnergyEvents {
        self.dram.work(now)
    }

    pub(super) fn peak_bytes_per_s(&self) -> f64 {
        self.dram.peak_bytes_per_s()
    }

    /// Whether `line` is on its way.
    #[inline]
    fn under_way(&self, line: Line) -> Option<u32> {
        self.by_line.get(&line.0).copied()
    }

    /// No request takes less than `ahead` from now on until it comes to its controller, the way there apart.
    pub(super) fn look_less_ahead(&mut self, ahead: Ps) {
        self.ahead = self.ahead.min(ahead + self.there);
    }

    /// Whether the LLC of `socket` has asked for `line`, which is on its way.
    pub(super) fn is_coming_to(&self, socket: usize, line: Line) -> bool {
        self.under_way(line).is_some_and(|fill| self.fills[fill as usize].by == socket)
    }

    /// The fill of `line`, asked for by `by` at `at` if it is not on its way already.
    fn fill(&mut self, by: usize, home: usize, line: Line, output: bool, at: Ps) -> u32 {
        if let Some(fill) = self.under_way(line) {
            return fill;
        }
        let fill = self.new_fill();
        let entry = &mut self.fills[fill as usize];
        (entry.line, entry.asked, entry.by, entry.first) = (line, at, by, None);
        self.by_line.insert(line.0, fill);
        self.dram.hand_in(fill.into(), home, line, false, output, at + self.there);
        fill
    }

    fn new_fill(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.fills.push(PendingFill::default());
            self.fills.len() as u32 - 1
        })
    }

    /// `copy` ends with `transaction`: its lines are on their way until then. What stands for them.
    fn copy(&mut self, transaction: Transaction, copy: LaterCopy) -> u32 {
        let fill = self.stand_for(copy.to);
        self.copies.push(PendingCopy { transaction, fill, copy });
        fill
    }

    /// The target of a copy is on its way from now on: what stands for its lines.
    pub(super) fn stand_for(&mut self, (first, count): (Line, u64)) -> u32 {
        let fill = self.new_fill();
        let entry = &mut self.fills[fill as usize];
        (entry.line, entry.by, entry.first) = (first, NO_LLC, None);
        self.by_line.extend((first.0..first.0 + count).map(|line| (line, fill)));
        fill
    }

    /// A transaction that is not the present one.
    pub(super) fn open_apart(&mut self) -> u32 {
        self.transactions.open()
    }

    /// What is asked for until it is closed is part of `transaction`.
    pub(super) fn go_on_with(&mut self, transaction: u32) {
        self.open = Some(transaction);
    }

    /// Whether a copy under way writes `line`: its end is then a part of `transaction`.
    pub(super) fn join_copy(&mut self, line: Line, transaction: u32) -> bool {
        let Some(fill) = self.under_way(line).filter(|&fill| self.fills[fill as usize].by == NO_LLC) else {
            return false;
        };
        self.transactions.await_part(transaction);
        self.wait(fill, Waiter::Device(transaction));
        true
    }

    /// `core` looks for the end of the copy that `fill` stands for once in `period` from `from` on, and has come there by `path`.
    pub(super) fn wait_for_copy(&mut self, fill: u32, core: CoreId, from: Ps, period: Ps, path: Path) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.wait(fill, Waiter::Copier { core, ticket, from, period, path });
        ticket
    }

    /// Reads `line` at `home` for the present transaction from `at` on, whatever else is under way.
    pub(super) fn read_alone(&mut self, home: usize, line: Line, at: Ps) {
        let fill = self.new_fill();
        let entry = &mut self.fills[fill as usize];
        (entry.line, entry.asked, entry.by, entry.first) = (line, at, NO_LLC, None);
        self.dram.hand_in(fill.into(), home, line, false, false, at + self.there);
        self.device(fill);
    }

    /// `line` gets the data of `source`, which is on its way, once they are there and caches have given `line` up by `clear`: it is
    /// `way` from there at `home`.
    pub(super) fn write_after(&mut self, source: Line, line: Line, (home, way): (usize, Ps), clear: Ps) -> bool {
        let Some(fill) = self.under_way(source).filter(|_| !self.untimed) else { return false };
        self.wait(fill, Waiter::Target { line, home, way, clear });
        true
    }

    fn wait(&mut self, fill: u32, waiter: Waiter) {
        let fill = &mut self.fills[fill as usize];
        match fill.first {
            None => fill.first = Some(waiter),
            Some(_) => fill.others.push(waiter),
        }
    }

    fn core(&mut self, fill: u32, by: &Asked, asked: bool) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let Asked { core, path, ready, distance, served, copy } = *by;
        self.wait(fill, Waiter::Core { core, ticket, served, asked, path, ready, distance, copy });
        ticket
    }

    /// A device wants `line`, which a cache has: it may be on its way.
    pub(super) fn join_for_device(&mut self, line: Line) {
        if self.open.is_some()
            && let Some(fill) = self.under_way(line)
        {
            self.device(fill);
        }
    }

    /// A device has written all of `line`: who asks for it from now on does not wait for DRAM.
    pub(super) fn overwritten(&mut self, line: Line) {
        self.by_line.remove(&line.0);
    }

    /// A core has found `line`: what it waits under where that is still on its way.
    #[inline]
    pub(super) fn join(&mut self, line: Line, asked: &Asked) -> Option<Ticket> {
        let fill = self.under_way(line).filter(|_| !self.untimed)?;
        Some(self.core(fill, asked, false))
    }

    /// The present transaction of a device, if there is one, waits for `fill`.
    fn device(&mut self, fill: u32) {
        if let Some(open) = self.open {
            self.transactions.await_part(open);
            self.wait(fill, Waiter::Device(open));
        }
    }

    /// Reads `line` at `home` for a core of socket `by`, from `at` on.
    pub(super) fn read(&mut self, by: usize, home: usize, line: Line, at: Ps, asked: &Asked) -> Ticket {
        let is_new = self.under_way(line).is_none();
        let fill = self.fill(by, home, line, false, at);
        self.core(fill, asked, is_new)
    }

    /// Reads `line` at `home` for an agent past all caches, from `at` on: nobody else waits for it, whoever asks meanwhile.
    pub(super) fn read_apart(&mut self, home: usize, line: Line, at: Ps, asked: &Asked) -> Ticket {
        let fill = self.new_fill();
        let entry = &mut self.fills[fill as usize];
        (entry.line, entry.asked, entry.by, entry.first) = (line, at, NO_LLC, None);
        self.dram.hand_in(fill.into(), home, line, false, false, at + self.there);
        self.core(fill, asked, true)
    }

    /// Reads `line` at `home` for the present transaction of a device at socket `by`, from `at` on.
    pub(super) fn read_for_device(&mut self, by: usize, home: usize, line: Line, at: Ps) {
        let fill = self.fill(by, home, line, self.output, at);
        self.device(fill);
    }

    /// Reads `line` at `home`, for which nobody waits, from `at` on: what that takes on an idle channel.
    pub(super) fn read_for_walk(&mut self, by: usize, home: usize, line: Line, at: Ps) -> Ps {
        self.fill(by, home, line, false, at);
        self.dram.unloaded_miss() + self.there + self.back
    }

    /// Has the row of `line` at `home` open at `now`, where nothing waits for its channel: what a read takes if nothing is in the way.
    pub(super) fn touch(&mut self, home: usize, line: Line, now: Ps) -> Ps {
        self.dram.touch(home, line, now) + self.there + self.back
    }

    /// Writes `line`, which is on its way to `home` from `at` on: when it has left.
    pub(super) fn write(&mut self, home: usize, line: Line, at: Ps) -> Ps {
        if self.untimed {
            self.touch(home, line, at);
            return at + self.there;
        }
        let channel = self.dram.hand_in(0, home, line, true, false, at + self.there);
        let posted = &mut self.posted[channel];
        posted.posted += 1;
        if let Some(open) = self.open
            && posted.posted - posted.accepted > POSTED
        {
            posted.waiting.push_back((posted.posted - POSTED, open));
            self.transactions.await_part(open);
            self.held_up += 1;
        }
        at + self.there
    }

    fn next(&self) -> Option<Ps> {
        let answer = self.dram.earliest(false).map(|at| at + self.back);
        match self.held_up {
            0 => answer,
            _ => [answer, self.dram.earliest(true)].into_iter().flatten().min(),
        }
    }

    fn advance(&mut self, now: Ps, answers: &mut Vec<MemoryReply>) {
        let (mut finished, mut accepted) = (std::mem::take(&mut self.finished), std::mem::take(&mut self.accepted));
        let mut targets = Vec::new();
        self.dram.drive(now + self.ahead, &mut finished, &mut accepted);
        for (channel, at) in accepted.drain(..) {
            let posted = &mut self.posted[channel as usize];
            posted.accepted += 1;
            while let Some(&(from, transaction)) = posted.waiting.front()
                && posted.accepted >= from
            {
                posted.waiting.pop_front();
                self.held_up -= 1;
                self.transactions.part_done(transaction, at, answers);
            }
        }
        for done in finished.drain(..) {
            let index = done.id as u32;
            let fill = &mut self.fills[index as usize];
            if self.by_line.get(&fill.line.0) == Some(&index) {
                self.by_line.remove(&fill.line.0);
            }
            let at = done.at + self.back;
            if fill.by != NO_LLC {
                self.coming.push((fill.line, at));
            }
            let queue = (at - fill.asked).since(done.service);
            let others = std::mem::take(&mut fill.others);
            for waiter in fill.first.take().iter().chain(&others) {
                match *waiter {
                    Waiter::Device(transaction) => self.transactions.part_done(transaction, at, answers),
                    Waiter::Target { line, home, way, clear } => targets.push((home, line, at.max(clear) + way)),
                    // It waits for a copy, which is no line from DRAM.
                    Waiter::Copier { .. } => {}
                    Waiter::Core { core, ticket, served, asked, mut path, ready, distance, copy } => {
                        let mut here = at + distance;
                        if asked {
                            charge(&mut path, self.there + self.back, queue, &done);
                        } else {
                            path.push(Reason::Mshr, here.since(ready));
                            here = here.max(ready);
                        }
                        path.push(Reason::Copy, copy);
                        let response = Response { at: here + copy, served, path };
                        answers.push(MemoryReply::Core(core, ticket, response));
                    }
                }
            }
            let fill = &mut self.fills[index as usize];
            fill.others = others;
            fill.others.clear();
            self.free.push(index);
        }
        (self.finished, self.accepted) = (finished, accepted);
        for (home, line, at) in targets {
            self.write(home, line, at);
        }
    }

    /// Copies whose transaction is among `answers` have ended: who waited is answered. Those copies, and how many accesses waited.
    fn end_copies(&mut self, answers: &mut Vec<MemoryReply>) -> (Vec<EndedCopy>, u64) {
        let (mut ended, mut waits, mut n) = (Vec::new(), 0, 0);
        while let Some(&answer) = answers.get(n) {
            let MemoryReply::Device(transaction, at) = answer else {
                n += 1;
                continue;
            };
            let Some(place) = self.copies.iter().position(|copy| copy.transaction == transaction) else {
                n += 1;
                continue;
            };
            answers.remove(n);
            let PendingCopy { fill, copy, .. } = self.copies.remove(place);
            let ((first, count), done) = (copy.to, copy.least.max(at + copy.more));
            waits += self.end_stand_in(fill, copy.to, done, copy.word, answers);
            ended.push((first.0, count, [done + copy.word, done]));
        }
        (ended, waits)
    }

    /// The copy that `fill` stands for has ended at `done`, of which cores hear a `word` later: who waited is answered. How many
    /// accesses did.
    pub(super) fn end_stand_in(
        &mut self,
        fill: u32,
        (first, count): (Line, u64),
        done: Ps,
        word: Ps,
        answers: &mut Vec<MemoryReply>,
    ) -> u64 {
        for line in first.0..first.0 + count {
            if self.by_line.get(&line) == Some(&fill) {
                self.by_line.remove(&line);
            }
        }
        let entry = &mut self.fills[fill as usize];
        let others = std::mem::take(&mut entry.others);
        let mut waits = 0;
        for waiter in entry.first.take().iter().chain(&others) {
            waits += u64::from(self.end_wait(waiter, done, word, answers));
        }
        self.free.push(fill);
        waits
    }

    /// `waiter` has what it waits for at `done`, a core `word` later: whether it was an access, and waited.
    fn end_wait(&mut self, waiter: &Waiter, done: Ps, word: Ps, answers: &mut Vec<MemoryReply>) -> bool {
        match *waiter {
            Waiter::Device(transaction) => {
                self.transactions.part_done(transaction, done, answers);
                true
            }
            Waiter::Core { core, ticket, served, mut path, ready, .. } => {
                let at = ready.max(done + word);
                path.push(Reason::Copy, at - ready);
                answers.push(MemoryReply::Core(core, ticket, Response { at, served, path }));
                at > ready
            }
            Waiter::Copier { core, ticket, from, period, mut path } => {
                let at = from + Ps(done.since(from).0.div_ceil(period.0).max(1) * period.0);
                path.push(Reason::Copy, at - from);
                answers.push(MemoryReply::Core(core, ticket, Response { at, served: Served::Engine, path }));
                false
            }
            Waiter::Target { line, home, way, clear } => {
                self.write(home, line, done.max(clear) + way);
                false
            }
        }
    }
}

/// Appends what DRAM took to `path`: of `queue` the `way` there and back and, divided by what for, waiting; then the service.
fn charge(path: &mut Path, way: Ps, mut queue: Ps, done: &FinishedRead) {
    let mut waits = done.waits;
    // Waits too many for a path stay the queue's, the shortest first.
    while path.len() + waits.iter().filter(|wait| wait.0 > 0).count() + 3 > Path::MAX
        && let Some(shortest) = waits.iter_mut().filter(|wait| wait.0 > 0).min()
    {
        *shortest = Ps::ZERO;
    }
    let way = way.min(queue);
    queue -= way;
    path.push(Reason::DramPath, way);
    for wait in &mut waits {
        *wait = queue.min(*wait);
        queue -= *wait;
    }
    path.push(Reason::DramQueue, queue);
    for (reason, wait) in FinishedRead::WAITS.into_iter().zip(waits) {
        path.push(reason, wait);
    }
    path.push(done.reason, done.service);
}

/// The transactions of devices, by number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Transactions {
    all: Vec<OpenTransaction>,
    free: Vec<u32>,
}

impl Transactions {
    fn open(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.all[slot as usize] = OpenTransaction::default();
            return slot;
        }
        self.all.push(OpenTransaction::default());
        self.all.len() as u32 - 1
    }

    /// One part more has to be answered.
    fn await_part(&mut self, transaction: u32) {
        self.all[transaction as usize].left += 1;
    }

    /// A part is done at `at`.
    fn part_done(&mut self, transaction: u32, at: Ps, answers: &mut Vec<MemoryReply>) {
        let open = &mut self.all[transaction as usize];
        open.left -= 1;
        open.at = open.at.max(at);
        if open.left == 0 && open.closed {
            answers.push(MemoryReply::Device(Transaction(transaction), open.at));
            self.free.push(transaction);
        }
    }

    /// No part comes in any more, and those that were answered at once are done at `at`.
    fn close(&mut self, transaction: u32, at: Ps) -> Result<Ps, Transaction> {
        let open = &mut self.all[transaction as usize];
        open.at = open.at.max(at);
        if open.left == 0 {
            self.free.push(transaction);
            return Ok(open.at);
        }
        open.closed = true;
        Err(Transaction(transaction))
    }
}

impl Hierarchy {
    /// Whether its DRAM has controllers that answer later.
    pub fn has_controllers(&self) -> bool {
        self.behind.pending.is_some()
    }

    /// Before this no answer comes that [`Hierarchy::advance`] has not given; [`None`] if nothing is under way.
    pub fn next(&self) -> Option<Ps> {
        self.behind.pending.as_ref()?.next()
    }

    /// Goes on to `now` and appends the answers that have become known. Of nothing that happens at `now` or later any
    /// request may have been made before this in time.
    pub fn advance(&mut self, now: Ps, answers: &mut Vec<MemoryReply>) {
        if let Some(pending) = &mut self.behind.pending {
            pending.advance(now, answers);
            if !pending.copies.is_empty() {
                let (ended, waits) = pending.end_copies(answers);
                if let Some(engine) = &mut self.engine {
                    engine.end_later(ended, waits);
                }
            }
            if !self.behind.copies.is_idle() {
                self.go_on_copying(answers);
            }
        }
        if let Some(pending) = &mut self.behind.pending {
            for (line, at) in pending.coming.drain(..) {
                // Who asks from now on knows how long to wait.
                self.behind.in_flight.insert(line, at);
            }
        }
    }

    /// What a device asks for until [`Hierarchy::close`] is one transaction.
    pub fn open(&mut self) {
        let Some(pending) = &mut self.behind.pending else { return };
        let slot = pending.transactions.open();
        pending.open = Some(slot);
    }

    /// Ends the transaction, whose parts that were answered at once are done at `at`.
    ///
    /// # Errors
    /// Under which name the answer will come if not all parts were answered.
    pub fn close(&mut self, at: Ps) -> Result<Ps, Transaction> {
        let Some(pending) = &mut self.behind.pending else { return Ok(at) };
        let Some(slot) = pending.open.take() else { return Ok(at) };
        pending.transactions.close(slot, at)
    }

    /// An engine's `copy`, which is the present transaction, ends with that; a core looks for its end, if it does so, once in `period`
    /// from `from` on: what the core waits under, and [`None`] if it does not, or the time of the transaction, whose parts that were
    /// answered at once are done at `at`, where it is known.
    pub(super) fn close_copy(
        &mut self,
        copy: LaterCopy,
        at: Ps,
        looks: Option<(CoreId, Ps, Ps, Path)>,
    ) -> Result<Ps, Option<Ticket>> {
        let transaction = match self.close(at) {
            Ok(at) => return Ok(at),
            Err(transaction) => transaction,
        };
        let Some(pending) = &mut self.behind.pending else { return Ok(at) };
        let fill = pending.copy(transaction, copy);
        Err(looks.map(|(core, from, period, path)| pending.wait_for_copy(fill, core, from, period, path)))
    }

    /// DRAM counters over all time.
    pub fn dram_counters(&self) -> DramCounters {
        self.behind.dram_counters()
    }

    /// What DRAM has done up to `now` that takes energy.
    pub fn dram_work(&self, now: Ps) -> EnergyEvents {
        self.behind.dram_work(now)
    }

    /// The DRAM's peak in bytes a second.
    pub fn dram_peak_bytes_per_s(&self) -> f64 {
        self.behind.peak_bytes_per_s()
    }

    /// Reports of the controllers count from now on.
    pub fn mark_dram(&mut self, now: Ps) {
        if let Some(pending) = &mut self.behind.pending {
            pending.dram.mark(now);
        }
    }

    /// What controllers do from now on is in no report, or again in reports.
    pub fn pause_dram_reports(&mut self, pause: bool, now: Ps) {
        match &mut self.behind.pending {
            Some(pending) if pause => pending.dram.pause_reports(now),
            Some(pending) => pending.dram.go_on_reporting(now),
            None => {}
        }
    }

    /// What the controllers have done since [`Hierarchy::mark_dram`]; [`None`] without them.
    pub fn dram_report(&self, now: Ps) -> Option<CommandReport> {
        self.behind.pending.as_ref().map(|p| p.dram.report(now))
    }

    /// The controllers behind the LLC.
    pub fn controllers(&self) -> Option<&Commanded> {
        self.behind.pending.as_ref().map(|p| &p.dram)
    }

    /// Waits for the answer to `ticket`, where one requester is served at a time.
    pub(super) fn wait_for(&mut self, ticket: Ticket) -> Option<Response> {
        let mut answers = Vec::new();
        while let Some(at) = self.next() {
            self.advance(at, &mut answers);
            let found = answers.drain(..).find_map(|answer| match answer {
                MemoryReply::Core(_, answered, response) if answered == ticket => Some(response),
                _ => None,
            });
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// As [`Hierarchy::wait_for`], of a reply.
    pub(super) fn answered(&mut self, reply: Reply, now: Ps) -> Response {
        match reply {
            Reply::Done(response) => response,
            Reply::Pending(ticket) => {
                self.wait_for(ticket).unwrap_or(Response { at: now, served: Served::Dram, path: Path::default() })
            }
        }
    }
}
