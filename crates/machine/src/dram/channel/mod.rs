//! One channel's controller and devices: the engine.
//!
//! A channel is its stages, each with its fields in a file of its own; what concerns several is a method of [`ChannelController`]
//! in the file of the stage that decides.
//!
//! | question | file |
//! |---|---|
//! | What does the standard say? | `timing` |
//! | Where does a request wait? | `queues` |
//! | Which request goes first? | `order` |
//! | From when on may a command go out? | `clocks` |
//! | Where is the next command chosen? | `candidates` |
//! | What does a command change? | `commands` |
//! | Which rows are open? | `rows` |
//! | Where is an idle row closed? | `page` |
//! | Where is refresh decided? | `refresh` |
//! | What is the data bus's time charged to? | `bus` |
//! | What is counted, and what do requests wait for? | `account`, `waits` |
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
mod commands;
mod order;
mod page;
mod queues;
mod refresh;
mod rows;
mod timing;
mod waits;

use self::account::BusAccount;
use self::bus::DataBus;
use self::candidates::Candidates;
use self::clocks::{CommandClocks, ORIGIN};
use self::order::Turns;
use self::page::IdleRows;
pub(super) use self::queues::RowOutcome;
use self::queues::{QueuedRequest, Queues};
use self::refresh::Refreshes;
use self::rows::Rows;
use self::timing::TimingTable;
pub(super) use self::waits::BusWaits;
use self::waits::BusWatch;
use super::counters::{Counters, Gap};
use super::map::DramLocation;
use super::policy::{ControllerSpec, Order};
use super::standard::{DramCommand, Standard};
use crate::MachineError;
use serde::{Deserialize, Serialize};

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
const KINDS: [DramCommand; 4] = [DramCommand::Act, DramCommand::Pre, DramCommand::Rd, DramCommand::Wr];

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
pub(super) trait FinishedSink {
    /// Request `id`, accepted in clock `accepted`, has its last data in the clock before `finished`.
    fn done(&mut self, id: u64, accepted: u64, finished: u64, class: RowOutcome);

    /// What the data bus did while request `id` was there, before its own data; told before [`FinishedSink::done`] by a channel
    /// that [watches](ChannelController::watch).
    fn waited(&mut self, id: u64, waits: BusWaits) {
        let _ = (id, waits);
    }
}

/// One channel: its stages. `G` is its number of bank groups over all ranks, or a little more: 4, 8 or 16.
#[derive(Clone, Debug, Serialize, Deserialize)]
// In this order, what is not by bank lies in few lines of the host's cache: stages end or begin with it.
#[repr(C)]
pub(super) struct ChannelController<const G: usize> {
    clocks: CommandClocks,
    candidates: Candidates,
    queues: Queues,
    rows: Rows,
    refreshes: Refreshes,
    page: IdleRows,
    bus: DataBus,
    order: Order,
    /// What service in order remembers.
    turns: Turns,
    watch: BusWatch,
    pub account: BusAccount,
    timing: TimingTable<G>,
}

impl<const G: usize> ChannelController<G> {
    pub fn new(
        standard: &Standard,
        spec: &ControllerSpec,
        request_bytes: u32,
    ) -> Result<ChannelController<G>, MachineError> {
        standard.check()?;
        spec.check(standard)?;
        let timing = TimingTable::new(standard, request_bytes)?;
        Ok(ChannelController {
            clocks: CommandClocks::new(timing.ranks),
            candidates: Candidates::new(),
            queues: Queues::new(spec),
            rows: Rows::new(),
            order: spec.order,
            turns: Turns::new(),
            page: IdleRows::new(spec.page),
            refreshes: Refreshes::new(spec.refresh, standard, &timing)?,
            bus: DataBus::new(),
            watch: BusWatch::default(),
            account: BusAccount::new(timing.banks),
            timing,
        })
    }

    /// Has every request find its row open: no row is ever opened or closed. Places must have the same row then.
    pub fn set_all_hits(&mut self) {
        self.rows.set_all_hits();
        self.page.keep_open();
    }

    /// Gives [output](ChannelController::accept_output) a queue of so many entries, which is served before the others: of what may
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
    pub fn accept(&mut self, id: u64, place: DramLocation, write: bool) {
        debug_assert!(self.queues.ingress.is_none());
        let accepted = self.clocks.now;
        if self.queues.none_queued() {
            self.bus.pending_from = accepted + 1;
        }
        self.queues.ingress = Some(QueuedRequest { id, place, write, output: false, accepted });
        self.see(id);
    }

    /// The row of `place` is open as if a request had used it before anything that waits now; where requests or a refresh wait
    /// it stays as it is. No command is issued, and nothing is counted but the time for which the row is open.
    pub fn touch(&mut self, place: DramLocation) {
        if !self.is_empty() || self.refreshes.pending != 0 || self.page.closes_at_once() {
            return;
        }
        let (bank, now) = (place.bank as usize, self.clocks.now);
        if self.rows.bank[bank].open != place.row && !self.rows.all_hits {
            self.page.opened(bank, place.row, now);
            self.rows.activate(bank, place.row, now);
        }
        self.rows.bank[bank].fresh = false;
        self.page.used(bank, now);
        self.look_at(bank);
    }

    /// Whether the queue of output has room.
    pub fn can_accept_output(&self) -> bool {
        self.queues.has_room(OUTPUT)
    }

    /// Takes a read of output into its queue, now.
    pub fn accept_output(&mut self, id: u64, place: DramLocation, sink: &mut impl FinishedSink) {
        debug_assert!(self.can_accept_output());
        if self.is_empty() {
            self.bus.pending_from = self.clocks.now;
        }
        self.see(id);
        self.enqueue(QueuedRequest { id, place, write: false, output: true, accepted: self.clocks.now }, OUTPUT, sink);
    }

    /// Puts a request into `queue`, or answers it from that of writes.
    #[inline(always)]
    fn enqueue(&mut self, entry: QueuedRequest, queue: usize, sink: &mut impl FinishedSink) {
        if !entry.write && self.queues.drains() && self.queues.holds(entry.place) {
            // The write queue has the line.
            let end = self.clocks.now + 1;
            self.account.counters.forwarded += 1;
            self.account.finished(false, end - entry.accepted);
            sink.done(entry.id, self.clocks.outside(entry.accepted), self.clocks.outside(end), RowOutcome::Hit);
            return;
        }
        if self.queues.is_numbered_out() {
            self.renumber();
        }
        let index = self.queues.take_in(entry, queue, self.timing.bursts);
        let (which, bank) = self.list_of(&entry, queue);
        let first = self.queues.push(index, which, bank);
        self.has_come(&entry, queue, first);
    }

    /// Remembers the data bus as a request comes.
    #[inline(always)]
    fn see(&mut self, id: u64) {
        if self.watch.is_on() {
            let promised = self.clocks.outside(self.bus.data_end);
            self.watch.came(id as usize, &self.account.counters.gaps, promised);
        }
    }

    /// Does what the clocks before `goal` hold.
    #[inline(always)]
    pub fn drive(&mut self, goal: Goal, sink: &mut impl FinishedSink) {
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
        let quiet = self.rows.open == 0 || (self.refreshes.keeps_rows() && self.page.closing == 0);
        if !self.is_empty() || !quiet || self.refreshes.pending != 0 || self.account.log.is_some() {
            return;
        }
        let round = self.refreshes.round(&self.timing);
        let rounds = (until - self.clock() - u64::from(4 * ORIGIN)) / round.clocks;
        let by = rounds * round.clocks;
        self.clocks.skip(by);
        self.account.counters.refreshes += rounds * round.refreshes;
        self.account.counters.bank_refreshes += rounds * round.of_banks;
        self.account.counters.same_bank_refreshes += rounds * round.of_same_banks;
        self.account.counters.gaps[Gap::Idle as usize] += self.bus.rebase(by);
        if self.rows.open != 0 {
            self.account.counters.open_clocks += by;
        }
    }

    /// The clock until which to drive for something to happen next, if there is anything to do.
    pub fn next(&mut self) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let mut at = self.candidates.earliest(&self.timing, &self.clocks).clock().min(self.refreshes.due);
        if self.page.closing != 0 {
            at = at.min(self.page.next(&self.timing, &self.clocks).0);
        }
        if self.refreshes.pending != 0 {
            at = at.min(self.refreshes.next(&self.timing, &self.clocks, &self.rows).0);
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

    /// Issues commands in clocks before `limit`; with `room` only until that queue has room, which
    /// counts from the clock after.
    #[inline(always)]
    fn run(&mut self, mut limit: u32, mut room: Option<usize>, sink: &mut impl FinishedSink) {
        loop {
            let key = self.candidates.earliest(&self.timing, &self.clocks);
            let mut at = key.clock();
            let (mut closing, mut refresh) = (None, None);
            if self.page.closing | u64::from(self.refreshes.pending) != 0 {
                if self.page.closing != 0 {
                    let (clock, bank) = self.page.next(&self.timing, &self.clocks);
                    if clock < at {
                        (closing, at) = (Some(bank), clock);
                    }
                }
                if self.refreshes.pending != 0 {
                    let (clock, command) = self.refreshes.next(&self.timing, &self.clocks, &self.rows);
                    if clock <= at {
                        (refresh, closing, at) = (Some(command), None, clock);
                    }
                }
            }
            if self.refreshes.due <= at && self.refreshes.due < limit {
                self.clocks.now = self.refreshes.due.max(self.clocks.now);
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
    #[cold]
    #[inline(never)]
    fn rebase(&mut self, by: u32) {
        self.clocks.rebase(by);
        self.candidates.rebase(by);
        self.account.counters.gaps[Gap::Idle as usize] += self.bus.rebase(u64::from(by));
        self.queues.rebase(by);
        self.page.rebase(by);
        self.account.counters.open_clocks += u64::from(self.rows.rebase(by));
        self.refreshes.rebase(by);
    }
}

/// The banks of a mask, in order.
#[inline(always)]
fn banks_of(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bank = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(bank)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dram::policy::{BatchBy, Page, Refresh, Writes};
    use crate::dram::presets;

    #[derive(Default)]
    struct Found(Vec<(u64, u64, u64, RowOutcome, BusWaits)>, BusWaits);

    impl FinishedSink for Found {
        fn done(&mut self, id: u64, accepted: u64, finished: u64, class: RowOutcome) {
            self.0.push((id, accepted, finished, class, self.1));
        }

        fn waited(&mut self, _: u64, waits: BusWaits) {
            self.1 = waits;
        }
    }

    fn controllers() -> Vec<(&'static str, ControllerSpec)> {
        let usual = ControllerSpec::default();
        let drain = Writes::Drain { queue: 16, high: 12, low: 4 };
        let page = Page::Adaptive { timeout: 64 };
        let batch = Order::Batch { by: BatchBy::BankParity, size: 4, prefetch: 3 };
        vec![
            ("ddr4-2400u", ControllerSpec { order: Order::FrFcfs { cap: 2 }, writes: drain, page, ..usual }),
            ("hbm2-2000", ControllerSpec { page: Page::Closed, refresh: Refresh::PerBank, ..usual }),
            ("ddr5-4800b", ControllerSpec { order: batch, page, ..usual }),
            ("ddr5-5600b", ControllerSpec { page: Page::Closed, refresh: Refresh::SameBank, ..usual }),
        ]
    }

    /// Offers requests `from` on, spread over banks and few rows.
    fn drive(channel: &mut ChannelController<16>, numbers: std::ops::Range<u64>, banks: u64, found: &mut Found) {
        for id in numbers {
            let drawn = (id + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let (bank, row, column) = ((drawn % banks) as u32, (drawn >> 8 & 3) as u32, (drawn >> 10 & 15) as u32);
            channel.drive(Goal::Offer(id * 7), found);
            channel.accept(id, DramLocation { bank, row, column, ..DramLocation::default() }, drawn >> 14 & 1 == 1);
        }
    }

    #[test]
    fn a_channel_that_is_written_down_in_the_middle_goes_on_as_it_would() {
        for (name, spec) in controllers() {
            let standard = presets::preset(name).unwrap();
            let banks = u64::from(standard.banks_per_channel());
            let mut channel = ChannelController::<16>::new(&standard, &spec, 64).unwrap();
            channel.watch();
            channel.account.log = Some(Vec::new());
            let mut before = Found::default();
            drive(&mut channel, 0..3000, banks, &mut before);
            assert!(!channel.is_empty(), "{name}");
            let text = serde_json::to_string(&channel).unwrap();
            let mut again: ChannelController<16> = serde_json::from_str(&text).unwrap();
            let (mut went_on, mut read) = (Found(Vec::new(), before.1), Found(Vec::new(), before.1));
            for (channel, found) in [(&mut channel, &mut went_on), (&mut again, &mut read)] {
                drive(channel, 3000..6000, banks, found);
                channel.drive(Goal::Empty, found);
            }
            assert_eq!(went_on.0, read.0, "{name}");
            assert_eq!(channel.account.log, again.account.log, "{name}");
            assert_eq!(serde_json::to_string(&channel).unwrap(), serde_json::to_string(&again).unwrap(), "{name}");
        }
    }

    #[test]
    fn a_row_that_stays_open_is_so_for_all_clocks_that_go_by() {
        let usual = ControllerSpec { refresh: Refresh::Off, page: Page::Open, ..ControllerSpec::default() };
        // Once over time that is skipped, and in steps over clocks that are taken back.
        for (step, steps) in [(1u64 << 40, 1), (1 << 21, 4096)] {
            let mut channel = ChannelController::<16>::new(&presets::ddr4_2400u(), &usual, 64).unwrap();
            let mut found = Found::default();
            channel.drive(Goal::Offer(0), &mut found);
            channel.accept(0, DramLocation::default(), false);
            channel.drive(Goal::Empty, &mut found);
            let opened = channel.end() - channel.counters().open_clocks;
            (1..=steps).for_each(|n| channel.drive(Goal::Until(n * step), &mut found));
            channel.accept(1, DramLocation::default(), false);
            channel.drive(Goal::Empty, &mut found);
            assert!(channel.end() > steps * step);
            assert_eq!(channel.counters().open_clocks, channel.end() - opened, "in steps of {step}");
        }
    }

    #[test]
    fn a_row_that_was_touched_is_found_as_one_that_was_used() {
        let place = |bank, row| DramLocation { bank, row, ..DramLocation::default() };
        for (page, found) in [
            (Page::Open, [RowOutcome::Hit, RowOutcome::Conflict, RowOutcome::Miss]),
            (Page::Adaptive { timeout: 4096 }, [RowOutcome::Hit, RowOutcome::Conflict, RowOutcome::Miss]),
            (Page::Closed, [RowOutcome::Miss; 3]),
        ] {
            let spec = ControllerSpec { refresh: Refresh::Off, page, ..ControllerSpec::default() };
            for touched in [true, false] {
                let mut channel = ChannelController::<16>::new(&presets::ddr4_2400u(), &spec, 64).unwrap();
                let mut found_as = Found::default();
                for (id, used) in [place(0, 1), place(1, 1), place(0, 5)].into_iter().enumerate() {
                    channel.drive(Goal::Offer(id as u64 * 1000), &mut found_as);
                    if touched {
                        channel.touch(used);
                    } else {
                        channel.accept(id as u64, used, false);
                        channel.drive(Goal::Empty, &mut found_as);
                    }
                }
                found_as.0.clear();
                // The row that came last, another one, and a bank where nobody was.
                for (id, at) in [place(0, 5), place(1, 2), place(2, 0)].into_iter().enumerate() {
                    channel.drive(Goal::Offer(4000 + id as u64 * 1000), &mut found_as);
                    channel.accept(id as u64, at, false);
                    channel.drive(Goal::Empty, &mut found_as);
                }
                let classes: Vec<RowOutcome> = found_as.0.iter().map(|done| done.3).collect();
                assert_eq!(classes, found, "{page:?}, touched: {touched}");
            }
        }
    }

    #[test]
    fn a_channel_that_lacks_a_bank_is_not_read() {
        let channel = ChannelController::<16>::new(&presets::ddr4_2400u(), &ControllerSpec::default(), 64).unwrap();
        let mut value = serde_json::to_value(&channel).unwrap();
        value["rows"]["bank"].as_array_mut().unwrap().pop();
        let error = serde_json::from_value::<ChannelController<16>>(value).unwrap_err().to_string();
        assert!(error.contains("63 elements in place of 64"), "{error}");
    }
}
