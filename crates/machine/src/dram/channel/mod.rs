//! One channel's controller and devices: the engine.
//!
//! Each bank has at most one candidate command. It may go out from the later of two clocks, the bank's
//! own and that of its bank group, into which the constraints of rank and channel are folded. The next
//! command is the least of one packed key a bank (clock, class, age, bank), and time jumps to it.
//! Issuing a command raises the clocks of what the standard keeps apart from it.
//!
//! In a clock: a refresh falls due; the request in the ingress register moves into the queue if there
//! is room; on each free command bus one command goes out, refresh before column before row before
//! closing an idle row; then a request is accepted if the register is empty.

mod account;
mod bus;
mod candidates;
mod clocks;
mod page;
mod queues;
mod rows;
mod timing;
mod waits;

use self::account::Account;
use self::bus::DataBus;
use self::candidates::Candidates;
use self::clocks::{Clocks, NEVER, ORIGIN, back};
use self::page::IdleRows;
pub(super) use self::queues::Class;
use self::queues::{Entry, Queues};
use self::rows::{Opened, Rows};
use self::timing::{Timing, kind_of};
pub(super) use self::waits::Waits;
use self::waits::{Seen, Watch};
use super::checker::Issued;
use super::counters::{Counters, Gap};
use super::map::Place;
use super::policy::{BatchBy, ControllerSpec, Order, Refresh};
use super::standard::{Command, Standard};
use crate::MachineError;

/// The furthest that one call of the loop goes; then idle time may be skipped.
const STEP: u32 = 1 << 23;
/// Reads of output, where they have a queue of their own.
const OUTPUT: usize = 2;
/// Room in whichever queue.
const ANY: usize = 3;
const NO_ROW: u32 = u32::MAX;
const NIL: u8 = u8::MAX;

const ACT: usize = 0;
const PRE: usize = 1;
const RD: usize = 2;
const WR: usize = 3;
/// No candidate: the row of masks that nothing reads.
const NONE: usize = 4;
const KINDS: [Command; 4] = [Command::Act, Command::Pre, Command::Rd, Command::Wr];

const BANK_BITS: u32 = 6;
/// Banks a channel can have, and bank groups over its ranks.
const BANKS: usize = 1 << BANK_BITS;
pub(super) const GROUPS: usize = 16;

/// How far a channel is driven.
#[derive(Clone, Copy, Debug)]
pub(super) enum Goal {
    /// Up to this clock.
    Until(u64),
    /// Up to this clock, and on until the ingress register is empty.
    Offer(u64),
    /// Up to this clock at most, and no further than to where the ingress register has become empty or a queue has got
    /// room.
    Room(u64),
    /// Until nothing is left to serve.
    Empty,
}

/// Where finished requests go.
pub(super) trait Sink {
    /// Request `id`, accepted in clock `accepted`, has its last data in the clock before `finished`.
    fn done(&mut self, id: u64, accepted: u64, finished: u64, class: Class);

    /// What the data bus did while request `id` was there, before its own data; told before [`Sink::done`] by a channel
    /// that [watches](Channel::watch).
    fn waited(&mut self, id: u64, waits: Waits) {
        let _ = (id, waits);
    }
}

/// One channel. `G` is its number of bank groups over all ranks, or a little more: 4, 8 or 16.
#[derive(Clone, Debug)]
pub(super) struct Channel<const G: usize> {
    timing: Timing<G>,
    // Policy.
    order: Order,
    ordered: bool,
    page: IdleRows,
    refresh: Refresh,
    refi: u32,

    clocks: Clocks,
    candidates: Candidates,

    // Requests.
    rows: Rows,
    queues: Queues,

    // Ordered service.
    window: u64,
    chosen: u8,
    active: usize,
    served: u32,

    // Refresh.
    due: u32,
    dues: [u32; 8],
    pending: u8,
    turn_bank: usize,
    blocked: u64,

    // What happened.
    bus: DataBus,
    watch: Watch,
    pub account: Account,
}

impl<const G: usize> Channel<G> {
    pub fn new(standard: &Standard, spec: &ControllerSpec, request_bytes: u32) -> Result<Channel<G>, MachineError> {
        standard.check()?;
        spec.check(standard)?;
        let timing = Timing::new(standard, request_bytes)?;
        let (banks, ranks, refi) = (timing.banks, timing.ranks, timing.refi);
        let mut channel = Channel {
            timing,
            order: spec.order,
            ordered: !matches!(spec.order, Order::FrFcfs { .. }),
            page: IdleRows::new(spec.page),
            refresh: spec.refresh,
            refi: if spec.refresh == Refresh::PerBank { (refi / banks as u32).max(1) } else { refi },
            clocks: Clocks::new(ranks),
            candidates: Candidates::new(),
            rows: Rows::new(),
            queues: Queues::new(spec),
            window: 0,
            chosen: NIL,
            active: 0,
            served: 0,
            due: NEVER,
            dues: [NEVER; 8],
            pending: 0,
            turn_bank: 0,
            blocked: 0,
            bus: DataBus::new(),
            watch: Watch::default(),
            account: Account::new(banks),
        };
        match spec.refresh {
            Refresh::Off => {}
            Refresh::AllBank => {
                for r in 0..ranks {
                    channel.dues[r] = ORIGIN + (u64::from(refi) * (r as u64 + 1) / ranks as u64) as u32;
                }
            }
            Refresh::PerBank => channel.dues[0] = ORIGIN + channel.refi,
        }
        channel.due = channel.next_due();
        Ok(channel)
    }

    /// Has every request find its row open: no row is ever opened or closed. Places must have the same row then.
    pub fn set_all_hits(&mut self) {
        self.rows.set_all_hits();
        self.page.keep_open();
    }

    /// Gives [output](Channel::accept_output) a queue of so many entries, which is served before the others: of what may
    /// go in a clock first, and of each bank.
    ///
    /// # Errors
    /// More entries in all than there are.
    pub fn set_output_first(&mut self, entries: u32) -> Result<(), MachineError> {
        self.queues.add_output(entries)
    }

    /// The clock up to which everything has happened.
    pub fn clock(&self) -> u64 {
        self.clocks.clock()
    }

    /// End of the latest data.
    pub fn end(&self) -> u64 {
        self.bus.end
    }

    pub fn counters(&self) -> Counters {
        let mut counters = self.account.counters;
        if self.rows.open != 0 {
            counters.open_clocks += self.bus.end.saturating_sub(self.clocks.outside(self.rows.open_since));
        }
        counters
    }

    /// From now on says what requests wait for. Their numbers should be small.
    pub fn watch(&mut self) {
        self.watch.start();
    }

    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    pub fn can_accept(&self) -> bool {
        self.queues.ingress.is_none()
    }

    /// Takes a request into the empty ingress register, now.
    #[inline(always)]
    pub fn accept(&mut self, id: u64, place: Place, write: bool) {
        debug_assert!(self.queues.ingress.is_none());
        let accepted = self.clocks.now;
        if self.queues.none_queued() {
            self.bus.pending_from = accepted + 1;
        }
        self.queues.ingress = Some(Entry { id, place, write, output: false, accepted });
        if self.watch.is_on() {
            self.watch.came(id as usize, self.seen(self.bus.data_end));
        }
    }

    /// Whether the queue of output has room.
    pub fn can_accept_output(&self) -> bool {
        self.queues.has_room(OUTPUT)
    }

    /// Takes a read of output into its queue, now.
    pub fn accept_output(&mut self, id: u64, place: Place, sink: &mut impl Sink) {
        debug_assert!(self.can_accept_output());
        if self.is_empty() {
            self.bus.pending_from = self.clocks.now;
        }
        if self.watch.is_on() {
            self.watch.came(id as usize, self.seen(self.bus.data_end));
        }
        self.enqueue(Entry { id, place, write: false, output: true, accepted: self.clocks.now }, OUTPUT, sink);
    }

    /// The data bus now; its data end in `data_end`.
    fn seen(&self, data_end: u32) -> Seen {
        Seen { gaps: self.account.counters.gaps, data_end: self.clocks.outside(data_end) }
    }

    /// Does what the clocks before `goal` hold.
    #[inline(always)]
    pub fn drive(&mut self, goal: Goal, sink: &mut impl Sink) {
        let until = match goal {
            Goal::Until(clock) | Goal::Offer(clock) | Goal::Room(clock) => clock,
            Goal::Empty => 0,
        };
        loop {
            self.settle(until);
            let left = until.saturating_sub(self.clock()).min(u64::from(STEP)) as u32;
            let (mut limit, mut room) = (self.clocks.now + left, None);
            if let Some(entry) = self.queues.ingress {
                let kind = self.queues.queue_of(entry.write);
                let full = !self.queues.has_room(kind);
                if !full && self.clocks.now > entry.accepted {
                    self.queues.ingress = None;
                    self.enqueue(entry, kind, sink);
                    if let Goal::Room(_) = goal {
                        return;
                    }
                    continue;
                }
                let most = if let Goal::Until(_) | Goal::Room(_) = goal { limit } else { self.clocks.now + STEP };
                (limit, room) = if full { (most, Some(kind)) } else { (most.min(entry.accepted + 1), None) };
            } else if let Goal::Empty = goal {
                if self.queues.none_queued() {
                    return;
                }
                (limit, room) = (self.clocks.now + STEP, Some(ANY));
            }
            if self.clocks.now >= limit {
                return;
            }
            if let Goal::Room(_) = goal {
                self.run(limit, Some(ANY), sink);
                return;
            }
            self.run(limit, room, sink);
        }
    }

    /// Keeps internal clocks small, and skips idle time that is like what came before.
    #[inline(always)]
    fn settle(&mut self, until: u64) {
        if let Some(by) = self.clocks.overdue() {
            self.rebase(by);
        }
        if until.saturating_sub(self.clock()) > u64::from(16 * ORIGIN) {
            self.skip(until);
        }
    }

    /// Skips whole refresh intervals of an idle channel, all but a few before `until`.
    ///
    /// After one interval all rows are closed and after two every constraint has passed, so each
    /// further one is like the last.
    #[cold]
    #[inline(never)]
    fn skip(&mut self, until: u64) {
        let quiet = self.rows.open == 0 || (self.refresh == Refresh::Off && self.page.closing == 0);
        if !self.is_empty() || !quiet || self.pending != 0 || self.account.log.is_some() {
            return;
        }
        let (interval, refreshes) = match self.refresh {
            Refresh::Off => (1, 0),
            Refresh::AllBank => (u64::from(self.refi), self.timing.ranks as u64),
            Refresh::PerBank => (u64::from(self.refi) * self.timing.banks as u64, self.timing.banks as u64),
        };
        let skipped = (until - self.clock() - u64::from(4 * ORIGIN)) / interval;
        let by = skipped * interval;
        self.clocks.skip(by);
        self.account.counters.refreshes += skipped * refreshes;
        if self.refresh == Refresh::PerBank {
            self.account.counters.bank_refreshes += skipped * refreshes;
        }
        self.account.counters.gaps[Gap::Idle as usize] += self.bus.rebase(by);
    }

    /// The clock until which to drive for something to happen next, if there is anything to do.
    pub fn next(&mut self) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let mut at = self.candidates.earliest(&self.timing, &self.clocks).clock().min(self.due);
        if self.page.closing != 0 {
            at = at.min(self.page.next(&self.timing, &self.clocks).0);
        }
        if self.pending != 0 {
            at = at.min(self.next_refresh().0);
        }
        at = at.max(self.clocks.now).saturating_add(1);
        if let Some(entry) = self.queues.ingress {
            let kind = self.queues.queue_of(entry.write);
            if self.queues.has_room(kind) {
                // The register is taken in before the commands of a clock.
                at = at.min(entry.accepted + 1);
            }
        }
        Some(self.clocks.outside(at.max(self.clocks.now)))
    }

    // --- time -------------------------------------------------------------------------------------------------------

    /// Issues commands in clocks before `limit`; with `room` only until that queue has room, which
    /// counts from the clock after.
    #[inline(always)]
    fn run(&mut self, mut limit: u32, mut room: Option<usize>, sink: &mut impl Sink) {
        loop {
            let key = self.candidates.earliest(&self.timing, &self.clocks);
            let mut at = key.clock();
            let (mut closing, mut refresh) = (None, None);
            if self.page.closing | u64::from(self.pending) != 0 {
                if self.page.closing != 0 {
                    let (clock, bank) = self.page.next(&self.timing, &self.clocks);
                    if clock < at {
                        (closing, at) = (Some(bank), clock);
                    }
                }
                if self.pending != 0 {
                    let (clock, command) = self.next_refresh();
                    if clock <= at {
                        (refresh, closing, at) = (Some(command), None, clock);
                    }
                }
            }
            if self.due <= at && self.due < limit {
                self.clocks.now = self.due.max(self.clocks.now);
                self.fall_due();
                continue;
            }
            if at >= limit {
                self.clocks.now = limit.max(self.clocks.now);
                return;
            }
            self.clocks.now = at;
            if let Some((command, bank)) = refresh {
                self.issue_refresh(command, bank);
            } else if let Some(bank) = closing {
                self.close(bank);
            } else if key.is_column() {
                let freed = self.issue_column(key.bank(), sink);
                if let Some(kind) = room
                    && freed
                    && (kind == ANY || self.queues.has_room(kind))
                {
                    // The row bus of a split pair has its turn in this clock too.
                    (limit, room) = (at + 1, None);
                }
            } else {
                self.issue_row(key.bank());
            }
        }
    }

    /// Takes all clocks back by `by`.
    fn rebase(&mut self, by: u32) {
        self.clocks.rebase(by);
        self.candidates.rebase(by);
        self.account.counters.gaps[Gap::Idle as usize] += self.bus.rebase(u64::from(by));
        self.queues.rebase(by);
        self.page.rebase(by);
        back(&mut self.rows.open_since, by);
        for due in &mut self.dues {
            if *due != NEVER {
                back(due, by);
            }
        }
        self.due = self.next_due();
    }

    // --- commands ---------------------------------------------------------------------------------------------------

    /// Whether a request was finished.
    #[inline(always)]
    fn issue_column(&mut self, bank: usize, sink: &mut impl Sink) -> bool {
        let want = self.candidates.of(bank);
        let (kind, index) = (want.kind(), want.slot);
        let write = kind == WR;
        self.note(KINDS[kind & 3], bank, self.rows.bank[bank].open);
        self.account(bank, write, index);
        self.clocks.take_bus(&self.timing, kind & 3);
        self.clocks.keep_apart(&self.timing, &mut self.candidates, kind & 3, bank);
        let end = self.clocks.now + self.timing.delay[usize::from(write)] + self.timing.burst;
        self.bus.data_end = end;
        self.bus.end = self.clocks.outside(end);
        self.page.used(bank, self.clocks.now);
        let slot = self.queues.slot_mut(index);
        slot.left -= 1;
        if slot.left > 0 {
            self.candidates.again(&self.clocks, bank, kind & 3);
            return false;
        }
        let (entry, class) = (slot.entry, slot.class);
        self.account.finished(write, end - entry.accepted);
        if self.watch.is_on() {
            let now = self.seen(end - self.timing.burst);
            let waits = self.watch.waits(entry.id as usize, self.clocks.outside(entry.accepted), now);
            sink.waited(entry.id, waits);
        }
        sink.done(entry.id, self.clocks.outside(entry.accepted), self.clocks.outside(end), class);
        self.remove(index, bank);
        true
    }

    #[inline(always)]
    fn issue_row(&mut self, bank: usize) {
        let want = self.candidates.of(bank);
        if want.kind() == ACT {
            let row = self.queues.slot(want.slot).entry.place.row;
            self.activate(bank, row);
        } else {
            self.rows.bank[bank].opened = Opened::Conflict;
            self.page.conflicted(bank);
            self.precharge(bank);
        }
        if self.ordered {
            self.reselect();
        } else {
            self.update(bank);
        }
    }

    #[inline(always)]
    fn activate(&mut self, bank: usize, row: u32) {
        self.note(Command::Act, bank, row);
        self.clocks.take_bus(&self.timing, ACT);
        self.clocks.keep_apart(&self.timing, &mut self.candidates, ACT, bank);
        self.candidates.forget_least(ACT);
        self.clocks.keep_four_apart(&self.timing, bank);
        self.page.opened(bank, row, self.clocks.now);
        self.bus.last_opened = self.rows.activate(bank, row, self.clocks.now);
        self.account.counters.activates += 1;
    }

    #[inline(always)]
    fn precharge(&mut self, bank: usize) {
        self.note(Command::Pre, bank, 0);
        self.clocks.take_bus(&self.timing, PRE);
        self.clocks.keep_apart(&self.timing, &mut self.candidates, PRE, bank);
        self.rows.bank[bank].open = NO_ROW;
        self.shut(1 << bank);
        self.account.counters.precharges += 1;
    }

    #[inline(always)]
    fn shut(&mut self, banks: u64) {
        self.account.counters.open_clocks += u64::from(self.rows.shut(banks, self.clocks.now));
    }

    /// Closes an idle row.
    fn close(&mut self, bank: usize) {
        self.page.closed(bank, self.rows.bank[bank].open);
        self.rows.bank[bank].opened = Opened::Miss;
        self.precharge(bank);
        self.page.stays(bank);
        self.look_again(1 << bank);
    }

    #[inline(always)]
    fn note(&mut self, command: Command, bank: usize, row: u32) {
        if let Some(log) = &mut self.account.log {
            let clock = self.clocks.clock();
            log.push(Issued { clock, command, bank: bank as u32, row });
        }
    }

    // --- refresh ----------------------------------------------------------------------------------------------------

    fn next_due(&self) -> u32 {
        (0..8).filter(|&i| self.pending >> i & 1 == 0).map(|i| self.dues[i]).min().unwrap_or(NEVER)
    }

    /// Stops everything else in the banks whose refresh has fallen due.
    #[cold]
    #[inline(never)]
    fn fall_due(&mut self) {
        for i in 0..8 {
            if self.dues[i] <= self.clocks.now && self.pending >> i & 1 == 0 {
                self.pending |= 1 << i;
                let target = self.refresh_target(i);
                self.blocked |= target;
                self.bus.refresh_due(target, self.clocks.now);
                self.look_again(target);
            }
        }
        self.due = self.next_due();
    }

    /// Banks that refresh `i` takes.
    fn refresh_target(&self, i: usize) -> u64 {
        match self.refresh {
            Refresh::PerBank => 1 << self.turn_bank,
            _ => self.timing.those(|b| usize::from(self.timing.rank_of[b]) == i),
        }
    }

    /// Looks for the candidates of these banks.
    fn look_again(&mut self, target: u64) {
        if self.ordered {
            self.reselect();
        } else {
            self.each(target, |channel, bank| channel.update(bank));
        }
    }

    #[inline(always)]
    fn each(&mut self, mut banks: u64, mut act: impl FnMut(&mut Self, usize)) {
        while banks != 0 {
            let bank = banks.trailing_zeros() as usize;
            banks &= banks - 1;
            act(self, bank);
        }
    }

    /// The next command towards a refresh that is due: clock, command, bank.
    fn next_refresh(&self) -> (u32, (Command, usize)) {
        let mut best = (NEVER, (Command::Ref, 0));
        for i in 0..8 {
            if self.pending >> i & 1 == 0 {
                continue;
            }
            let target = self.refresh_target(i);
            let first = target.trailing_zeros() as usize;
            let mut at = self.clocks.now.max(self.clocks.bus_free[0]);
            let banks = (0..self.timing.banks).filter(|&b| target >> b & 1 == 1);
            let single = self.refresh == Refresh::PerBank;
            if self.rows.all_hits {
                // What a precharge would wait for, a refresh of open rows waits for.
                at = banks.clone().map(|b| self.clocks.may(&self.timing, PRE, b)).fold(at, u32::max);
            }
            let command = if self.rows.open & target != 0 {
                at = banks.map(|b| self.clocks.may(&self.timing, PRE, b)).fold(at, u32::max);
                if single { Command::Pre } else { Command::PreAll }
            } else {
                let command = if single { Command::RefBank } else { Command::Ref };
                for rule in self.timing.rules.iter().filter(|rule| rule.next == command) {
                    let last = &self.clocks.last[rule.prev as usize];
                    let near = self.timing.near(rule.level, target);
                    let since = (0..self.timing.banks).filter(|&o| near >> o & 1 == 1).map(|o| last[o]).max();
                    at = at.max(since.unwrap_or(0) + rule.clocks);
                }
                command
            };
            if at < best.0 {
                best = (at, (command, first));
            }
        }
        best
    }

    fn issue_refresh(&mut self, command: Command, bank: usize) {
        let i = if self.refresh == Refresh::PerBank { 0 } else { usize::from(self.timing.rank_of[bank]) };
        let target = self.refresh_target(i);
        self.note(command, bank, 0);
        self.clocks.bus_free[0] = self.clocks.now + 1;
        if !self.timing.split {
            self.clocks.bus_free[1] = self.clocks.now + 1;
        }
        if let Command::Pre | Command::PreAll = command {
            self.account.counters.precharges += u64::from((self.rows.open & target).count_ones());
            self.each(target, |channel, b| {
                channel.clocks.keep_apart(&channel.timing, &mut channel.candidates, PRE, b);
                channel.rows.bank[b].open = NO_ROW;
                channel.rows.bank[b].opened = Opened::Miss;
            });
            self.shut(target);
            if self.ordered {
                self.reselect();
            }
            return;
        }
        self.each(target, |channel, b| {
            channel.clocks.last[command as usize][b] = channel.clocks.now;
            channel.rows.bank[b].opened = Opened::Miss;
        });
        for rule in 0..self.timing.rules.len() {
            let rule = self.timing.rules[rule];
            let Some(next) = kind_of(rule.next) else { continue };
            if rule.prev != command {
                continue;
            }
            let clock = self.clocks.now + rule.clocks;
            self.each(self.timing.near(rule.level, target), |channel, b| {
                channel.clocks.own[b][next] = channel.clocks.own[b][next].max(clock);
                if channel.rows.all_hits && next == ACT && target >> b & 1 != 0 {
                    // No row has to be opened after it, but its own banks are taken as long.
                    for column in [RD, WR] {
                        channel.clocks.own[b][column] = channel.clocks.own[b][column].max(clock);
                    }
                }
            });
        }
        self.candidates.renew(&self.clocks);
        self.account.counters.refreshes += 1;
        self.bus.refreshed(target, self.clocks.now + self.timing.rfc);
        self.pending &= !(1 << i);
        self.blocked &= !target;
        self.dues[i] += self.refi;
        if self.refresh == Refresh::PerBank {
            self.account.counters.bank_refreshes += 1;
            self.turn_bank = (self.turn_bank + 1) % self.timing.banks;
        }
        self.due = self.next_due();
        self.look_again(target);
    }

    // --- requests ---------------------------------------------------------------------------------------------------

    #[inline(always)]
    fn enqueue(&mut self, entry: Entry, kind: usize, sink: &mut impl Sink) {
        if !entry.write && self.queues.drains() && self.queues.holds(entry.place) {
            // The write queue has the line.
            let end = self.clocks.now + 1;
            self.account.counters.forwarded += 1;
            self.account.finished(false, end - entry.accepted);
            sink.done(entry.id, self.clocks.outside(entry.accepted), self.clocks.outside(end), Class::Hit);
            return;
        }
        let bank = entry.bank();
        if self.queues.is_numbered_out() {
            self.relabel();
        }
        let index = self.queues.take_in(entry, kind, self.timing.bursts);
        match self.order {
            Order::FrFcfs { .. } => {
                let first = self.queues.push(index, kind, bank);
                if entry.output {
                    return self.update(bank);
                }
                if self.switch() {
                    return;
                }
                if kind != self.queues.writing {
                    return;
                }
                let state = self.rows.bank[bank];
                // An older hit keeps its place; so does an activate. A precharge may turn into a hit.
                if first || (self.candidates.of(bank).kind() == PRE && state.open == entry.place.row) {
                    self.update(bank);
                }
            }
            Order::Fcfs { .. } => {
                self.queues.push(index, kind, 0);
                self.reselect();
            }
            Order::Batch { by, .. } => {
                let key = match by {
                    _ if entry.output => OUTPUT,
                    BatchBy::Direction => usize::from(entry.write),
                    BatchBy::BankParity => bank & 1,
                };
                self.queues.push(index, key, 0);
                self.reselect();
            }
        }
    }

    /// Takes a served request out and looks for the bank's next candidate.
    #[inline(always)]
    fn remove(&mut self, index: u8, bank: usize) {
        let Entry { write, output, .. } = self.queues.slot(index).entry;
        let kind = if output { OUTPUT } else { self.queues.queue_of(write) };
        let (which, at) = match self.order {
            Order::FrFcfs { .. } => (kind, bank),
            _ if output => (OUTPUT, 0),
            Order::Fcfs { .. } => (0, 0),
            Order::Batch { by: BatchBy::Direction, .. } => (usize::from(write), 0),
            Order::Batch { by: BatchBy::BankParity, .. } => (bank & 1, 0),
        };
        if self.queues.take_out(index, kind, which, at) {
            self.rows.bank[bank].passed += 1;
        }
        if self.ordered {
            self.chosen = NIL;
            self.reselect();
        } else if !self.switch() {
            self.update(bank);
        }
        if self.queues.none_queued()
            && let Some(entry) = self.queues.ingress
        {
            self.bus.pending_from = entry.accepted + 1;
        }
    }

    /// Sets a bank's candidate.
    #[inline(always)]
    fn want(&mut self, bank: usize, kind: usize, slot: u8, age: u32) {
        self.candidates.set(&self.timing, &self.clocks, bank, kind, slot, age);
        self.page.stays(bank);
    }

    /// Looks for a bank's candidate: the oldest hit, else what the oldest request needs.
    #[inline(always)]
    fn update(&mut self, bank: usize) {
        let Order::FrFcfs { cap } = self.order else { return self.reselect() };
        let output = self.queues.head(OUTPUT, bank);
        let head = if output == NIL { self.queues.head(self.queues.writing & 1, bank) } else { output };
        let (open, passed) = (self.rows.bank[bank].open, self.rows.bank[bank].passed);
        if self.blocked >> bank & 1 == 1 {
            return self.want(bank, NONE, NIL, 0);
        }
        if head == NIL {
            self.want(bank, NONE, NIL, 0);
            if open != NO_ROW {
                self.page.idles(bank);
            }
            return;
        }
        let oldest = self.queues.slot(head);
        let behind = if output == NIL { self.queues.behind } else { 0 };
        let seq = oldest.seq | behind;
        if open == NO_ROW {
            return self.want(bank, ACT, head, seq);
        }
        if oldest.entry.place.row == open {
            let kind = if oldest.entry.write { WR } else { RD };
            return self.want(bank, kind, head, seq);
        }
        if cap == 0 || passed < cap {
            let mut at = oldest.next;
            while at != NIL {
                let slot = self.queues.slot(at);
                if slot.entry.place.row == open {
                    let (kind, seq) = (if slot.entry.write { WR } else { RD }, slot.seq | behind);
                    return self.want(bank, kind, at, seq);
                }
                at = slot.next;
            }
        }
        self.want(bank, PRE, head, seq);
    }

    /// Starts or ends a write drain; whether it did.
    #[inline(always)]
    fn switch(&mut self) -> bool {
        if !self.queues.switch() {
            return false;
        }
        self.account.counters.switches += 1;
        for bank in 0..self.timing.banks {
            self.update(bank);
        }
        true
    }

    /// Looks for the candidates of ordered service: the request that is served next, and those whose
    /// rows are opened ahead.
    fn reselect(&mut self) {
        self.each(self.window, |channel, bank| channel.want(bank, NONE, NIL, 0));
        self.window = 0;
        let ahead = match self.order {
            Order::FrFcfs { .. } => return,
            Order::Fcfs { prefetch } | Order::Batch { prefetch, .. } => prefetch,
        };
        let mut heads = [self.queues.head(0, 0), self.queues.head(1, 0)];
        let mut first = self.queues.head(OUTPUT, 0);
        if self.chosen == NIL {
            if first != NIL {
                self.chosen = first;
            } else if let Some((which, count)) = self.choose(heads, self.active, self.served) {
                (self.active, self.served, self.chosen) = (which, count, heads[which]);
            }
        }
        let (mut active, mut served, mut index) = (self.active, self.served, self.chosen);
        let mut claimed = 0u64;
        for age in 0..ahead.max(1) {
            if index == NIL {
                break;
            }
            for head in heads.iter_mut().chain([&mut first]) {
                if *head == index {
                    *head = self.queues.slot(index).next;
                }
            }
            let entry = self.queues.slot(index).entry;
            let bank = entry.place.bank as usize & (BANKS - 1);
            let open = self.rows.bank[bank].open;
            if claimed >> bank & 1 == 0 {
                claimed |= 1 << bank;
                if self.blocked >> bank & 1 == 0 {
                    let kind = match open {
                        NO_ROW => ACT,
                        row if row != entry.place.row => PRE,
                        _ if age > 0 => NONE,
                        _ if entry.write => WR,
                        _ => RD,
                    };
                    if kind != NONE {
                        self.want(bank, kind, index, age);
                        self.window |= 1 << bank;
                        if kind == ACT && ahead == 0 {
                            // Without prefetch a row is opened when the data before have passed.
                            self.candidates.open_from(bank, self.bus.data_end);
                        }
                    }
                }
            }
            index = match self.choose(heads, active, served) {
                _ if first != NIL => first,
                Some((which, count)) => {
                    (active, served) = (which, count);
                    heads[which]
                }
                None => NIL,
            };
        }
        self.page.only_idle(self.rows.open & !claimed & !self.blocked);
    }

    /// Which of two lists is served next, and how many of its batch that makes.
    fn choose(&self, heads: [u8; 2], active: usize, served: u32) -> Option<(usize, u32)> {
        let size = match self.order {
            Order::Batch { size, .. } => size,
            _ => u32::MAX,
        };
        let other = 1 - active;
        if heads[active] == NIL {
            return (heads[other] != NIL).then_some((other, 1));
        }
        let entry = self.queues.slot(heads[active]).entry;
        let hit = self.rows.bank[entry.place.bank as usize & (BANKS - 1)].open == entry.place.row;
        let stays = heads[other] == NIL || (served < size && (hit || served == 0));
        Some(if stays { (active, (served + 1).min(size)) } else { (other, 1) })
    }

    /// Gives the requests small numbers again, in their order.
    #[cold]
    #[inline(never)]
    fn relabel(&mut self) {
        self.queues.renumber();
        for bank in 0..self.timing.banks {
            self.update(bank);
        }
    }

    // --- accounts ---------------------------------------------------------------------------------------------------

    /// Charges the data bus's time since its last data, and counts the request.
    #[inline(always)]
    fn account(&mut self, bank: usize, write: bool, index: u8) {
        let row = &mut self.rows.bank[bank];
        let slot = self.queues.slot_mut(index);
        if !slot.begun {
            slot.begun = true;
            slot.class = row.found();
            self.account.begun(bank, slot.class, write);
        }
        let counters = &mut self.account.counters;
        counters.columns[usize::from(write)] += 1;
        self.bus.charge(&self.timing, self.clocks.now, (bank, row), write, &mut counters.gaps);
        row.fresh = false;
    }
}
