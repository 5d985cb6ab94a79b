//! The packet buffer's SDRAM and the controller on its data path.
//!
//! Models banks with a row latch each, a data bus of one word a clock, and a controller that looks one
//! request ahead: when a transfer starts to move data it chooses the next, and what it can do meanwhile for the
//! next one's bank it does. Two queues (by direction, or by odd and even banks), an optional third for output
//! with priority, batches, eager or lazy precharge, and row prefetch are independent switches.
//!
//! A batch ends where the next request of its queue would miss a row, after so many requests, or where its queue is
//! empty; then the other queue has its turn, if it has anything. With prefetch a row of another bank is no miss: the
//! controller opens it during the current transfer, and the batch goes on. A row of the bank in use cannot be opened
//! then, and ends the batch (section 4.4, cases 1 to 3).
//!
//! Timing: a transfer of `w` words takes `w` clocks. A row hit follows at once; a row miss costs `t_rcd` clocks
//! more on a precharged bank, and `t_rp` more where another row is latched. In another bank than the current
//! one, precharge is hidden behind the current transfer as far as it goes, and with prefetch the row activation,
//! too; in the same bank both are exposed.
//!
//! This is its own controller and not one of `machine::dram`'s: those issue each command under all constraints
//! of a standard (tRAS, tRC, CAS latency, refresh), which the paper's timing does not have. What it adds is the
//! decision at the start of a transfer, which the paper's three cases of prefetch need. `machine::dram` runs the
//! same allocators on standards of today.
//!
//! Left out: CAS latency (it shifts all data alike), refresh, tRAS.
//!
//! **Source**: Hasan, Chandra, Vijaykumar, ISCA 2003, sections 4.2 (batching), 4.4 (precharge and prefetch), 6.2
//! (odd and even queues, priority, mapping).

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Size;

use crate::MachineError;
use crate::divisor::Divisor;

/// How requests are queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SdramQueueing {
    /// Reads and writes.
    #[default]
    Direction,
    /// Odd and even banks.
    BankParity,
}

/// When a bank is precharged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Precharge {
    /// When another of its rows is wanted.
    #[default]
    Lazy,
    /// At the end of a transfer, unless the next one, already chosen, is to the latched row.
    Eager,
}

/// Which bank a row lies in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RowMap {
    /// Row by row over all banks.
    #[default]
    RoundRobin,
    /// The first half of the rows over the even banks, the second over the odd ones.
    Halves,
}

/// SDRAM and its controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SdramSpec {
    /// Engine ticks of a clock: 4 for 100 MHz beside 400 MHz.
    pub ticks_per_clock: u32,
    /// Bytes a clock.
    pub width: u32,
    /// Bytes of a row.
    pub row: Size,
    /// Internal banks: 1, or an even number.
    pub banks: u32,
    /// Precharge, in clocks.
    pub t_rp: u32,
    /// Activation of a row, in clocks.
    pub t_rcd: u32,
    /// How requests are queued.
    pub queues: SdramQueueing,
    /// Whether reads (output) have a queue that goes first.
    pub output_first: bool,
    /// Requests of a queue that may be served in a row while they hit; 1 alternates.
    pub batch: u32,
    /// When banks are precharged.
    pub precharge: Precharge,
    /// Whether the next request's row is activated during the current transfer.
    pub prefetch: bool,
    /// Which bank a row lies in.
    pub map: RowMap,
    /// Every access is a row hit: the ideal of sections 6.1 and 6.5.
    pub all_hits: bool,
}

impl Default for SdramSpec {
    fn default() -> SdramSpec {
        SdramSpec {
            ticks_per_clock: 4,
            width: 8,
            row: Size::from_bytes(4096),
            banks: 4,
            t_rp: 2,
            t_rcd: 4,
            queues: SdramQueueing::Direction,
            output_first: false,
            batch: 1,
            precharge: Precharge::Lazy,
            prefetch: false,
            map: RowMap::RoundRobin,
            all_hits: false,
        }
    }
}

/// A reference to the packet buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The row, over the whole memory.
    pub row: u32,
    /// Words of the bus.
    pub words: u16,
    /// Whose it is.
    pub owner: u16,
    /// Input side.
    pub write: bool,
}

/// By direction (reads, writes): what was served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionCounters {
    /// Transfers.
    pub transfers: u64,
    /// Words moved.
    pub words: u64,
    /// Transfers that found their row latched.
    pub row_hits: u64,
    /// Batches: a batch ends at a row miss, after so many transfers, or where its queue is empty.
    pub runs: u64,
}

/// What an SDRAM has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SdramCounters {
    /// Output side.
    pub reads: DirectionCounters,
    /// Input side.
    pub writes: DirectionCounters,
    /// Clocks of exposed precharge and activation.
    pub exposed: u64,
    /// Clocks without a request.
    pub idle: u64,
}

const CLOSED: u32 = u32::MAX;

/// A transfer with its bank.
#[derive(Clone, Copy, Debug)]
struct SdramRequest {
    transfer: Transfer,
    bank: u16,
    /// It is the first of a batch.
    begins: bool,
}

#[derive(Clone, Copy, Debug)]
struct SdramBank {
    row: u32,
    /// Its precharge is over.
    precharged: u64,
}

/// The memory. Time is in its own clocks; whoever drives it calls [`Sdram::step`] at the clock that the last
/// call named, and after a submission to an idle memory.
#[derive(Clone, Debug)]
pub struct Sdram {
    spec: SdramSpec,
    banks: Vec<SdramBank>,
    bank_of: BankOf,
    queues: [VecDeque<SdramRequest>; 2],
    first: VecDeque<SdramRequest>,
    /// The queue served last, and how many of it in a row.
    last: usize,
    in_a_row: u32,
    state: SdramState,
    current: SdramRequest,
    from: u64,
    until: u64,
    /// What was chosen when the data of the current transfer started.
    next: Option<SdramRequest>,
    free_since: u64,
    counters: SdramCounters,
}

#[derive(Clone, Copy, Debug)]
enum BankOf {
    RoundRobin {
        banks: Divisor,
    },
    /// Rows before the second half, and half the banks.
    Halves {
        half: u32,
        banks: Divisor,
    },
}

impl BankOf {
    #[inline]
    fn bank(self, row: u32) -> u32 {
        match self {
            BankOf::RoundRobin { banks } => banks.remainder(row),
            BankOf::Halves { half, banks } => 2 * banks.remainder(row) + u32::from(row >= half),
        }
    }
}

/// What the memory is at, with [`Sdram::current`] in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SdramState {
    Idle,
    /// The row is being opened; data from [`Sdram::from`] on.
    Opening,
    /// Data from [`Sdram::from`] to [`Sdram::until`].
    Moving,
}

impl Sdram {
    /// Builds a memory of `rows` rows.
    ///
    /// # Errors
    /// Numbers that are 0, or an odd number of banks.
    pub fn new(spec: &SdramSpec, path: &str, rows: u32) -> Result<Sdram, MachineError> {
        let error = |field: &str, came: String, allowed: &str, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        let halved = spec.queues == SdramQueueing::BankParity || spec.map == RowMap::Halves;
        if spec.banks == 1 && halved {
            return error("banks", "1".into(), "2 or more where odd and even banks are told apart", "have 2");
        }
        if spec.banks != 1 && (spec.banks == 0 || !spec.banks.is_multiple_of(2) || spec.banks > 1024) {
            return error("banks", spec.banks.to_string(), "1 or an even number up to 1024", "2 or 4 are usual");
        }
        if !(1..=64).contains(&spec.width) || !spec.width.is_power_of_two() {
            return error("width", spec.width.to_string(), "a power of two up to 64 bytes", "8 for 64 bits");
        }
        if spec.ticks_per_clock == 0 || spec.ticks_per_clock > 1000 {
            return error("ticks_per_clock", spec.ticks_per_clock.to_string(), "1 to 1000", "engine over DRAM clock");
        }
        if spec.batch == 0 {
            return error("batch", "0".into(), "1 or more", "1 alternates");
        }
        if spec.t_rp > 1000 || spec.t_rcd > 1000 {
            let came = format!("{} and {}", spec.t_rp, spec.t_rcd);
            return error("t_rp, t_rcd", came, "up to 1000 clocks", "give clocks, not nanoseconds");
        }
        let bank_of = match spec.map {
            RowMap::RoundRobin => BankOf::RoundRobin { banks: Divisor::new(spec.banks) },
            RowMap::Halves => BankOf::Halves { half: rows.div_ceil(2), banks: Divisor::new((spec.banks / 2).max(1)) },
        };
        Ok(Sdram {
            banks: vec![SdramBank { row: CLOSED, precharged: 0 }; spec.banks as usize],
            bank_of,
            queues: Default::default(),
            first: VecDeque::new(),
            last: 0,
            in_a_row: 0,
            state: SdramState::Idle,
            current: SdramRequest {
                transfer: Transfer { row: 0, words: 0, owner: 0, write: false },
                bank: 0,
                begins: false,
            },
            from: 0,
            until: 0,
            next: None,
            free_since: 0,
            counters: SdramCounters::default(),
            spec: spec.clone(),
        })
    }

    /// What it has done.
    pub fn counters(&self) -> SdramCounters {
        self.counters
    }

    /// Forgets what it has done.
    pub fn reset_counters(&mut self) {
        self.counters = SdramCounters::default();
    }

    /// Whether nothing is in hand, so that a submission has to be followed by a step.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.state == SdramState::Idle
    }

    /// Puts a transfer into its queue.
    #[inline]
    pub fn submit(&mut self, transfer: Transfer) {
        let bank = self.bank_of.bank(transfer.row) as u16;
        let request = SdramRequest { transfer, bank, begins: true };
        if self.spec.output_first && !transfer.write {
            self.first.push_back(request);
            return;
        }
        let queue = match self.spec.queues {
            SdramQueueing::Direction => usize::from(!transfer.write),
            SdramQueueing::BankParity => usize::from(bank & 1),
        };
        self.queues[queue].push_back(request);
    }

    /// Does what is due at clock `now`. Gives the transfer that ended now, if one did, and the clock of the
    /// next step; without one the memory is idle.
    #[inline]
    pub fn step(&mut self, now: u64) -> (Option<Transfer>, Option<u64>) {
        match self.state {
            SdramState::Idle => {
                let Some(current) = self.choose() else { return (None, None) };
                self.counters.idle += now - self.free_since;
                let at = self.open(current, now, None);
                (None, Some(self.start(current, now, at)))
            }
            SdramState::Opening => (None, Some(self.move_data())),
            SdramState::Moving => {
                let (done, until) = (self.current.transfer, self.until);
                let bank = usize::from(self.current.bank);
                if self.spec.precharge == Precharge::Eager && self.next.is_none_or(|next| next.transfer.row != done.row)
                {
                    self.banks[bank] = SdramBank { row: CLOSED, precharged: until + u64::from(self.spec.t_rp) };
                }
                // A transfer that came during the last one is seen when that has ended.
                let (next, behind) = match self.next {
                    Some(next) => (next, Some((self.from, bank))),
                    None => match self.choose() {
                        Some(next) => (next, None),
                        None => {
                            self.state = SdramState::Idle;
                            self.free_since = until;
                            return (Some(done), None);
                        }
                    },
                };
                let at = self.open(next, until, behind);
                (Some(done), Some(self.start(next, until, at)))
            }
        }
    }

    /// Opens the row of `transfer`, which may use the bus from `free` on; gives the clock of its first data.
    /// `behind`: it was chosen at this clock, when the data of a transfer in this bank started.
    #[inline]
    fn open(
        &mut self,
        SdramRequest { transfer, bank, begins }: SdramRequest,
        free: u64,
        behind: Option<(u64, usize)>,
    ) -> u64 {
        let bank = usize::from(bank);
        let hit = self.banks[bank].row == transfer.row || self.spec.all_hits;
        let direction = if transfer.write { &mut self.counters.writes } else { &mut self.counters.reads };
        direction.transfers += 1;
        direction.words += u64::from(transfer.words);
        direction.row_hits += u64::from(hit);
        direction.runs += u64::from(begins);
        if hit {
            return free;
        }
        let (rp, rcd) = (u64::from(self.spec.t_rp), u64::from(self.spec.t_rcd));
        let state = self.banks[bank];
        let known = match behind {
            Some((chosen, current)) if current != bank => chosen,
            _ => free,
        };
        let precharged = if state.row == CLOSED { state.precharged } else { known + rp };
        let activate = if self.spec.prefetch { precharged.max(known) } else { precharged.max(free) };
        self.banks[bank].row = transfer.row;
        (activate + rcd).max(free)
    }

    #[inline]
    fn start(&mut self, current: SdramRequest, free: u64, at: u64) -> u64 {
        self.counters.exposed += at - free;
        (self.current, self.from) = (current, at);
        if at > free {
            self.state = SdramState::Opening;
            return at;
        }
        self.move_data()
    }

    #[inline]
    fn move_data(&mut self) -> u64 {
        self.next = self.choose();
        self.until = self.from + u64::from(self.current.transfer.words);
        self.state = SdramState::Moving;
        self.until
    }

    /// The next transfer to serve, which leaves its queue.
    #[inline]
    fn choose(&mut self) -> Option<SdramRequest> {
        if let Some(first) = self.first.pop_front() {
            return Some(first);
        }
        let (same, other) = (self.last, 1 - self.last);
        let stays = self.in_a_row < self.spec.batch && self.queues[same].front().is_some_and(|head| self.goes_on(head));
        let queue = if stays || self.queues[other].is_empty() { same } else { other };
        let mut chosen = self.queues[queue].pop_front()?;
        // A batch that has ended is followed by another one, of the same queue where the other one is empty.
        chosen.begins = !stays;
        self.in_a_row = if stays { self.in_a_row + 1 } else { 1 };
        self.last = queue;
        Some(chosen)
    }

    /// Whether a batch goes on with `head`: it hits, or prefetch opens its row during the current transfer, which it can
    /// in any other bank (section 4.4, cases 1 and 2; case 3 turns to the other queue).
    #[inline]
    fn goes_on(&self, head: &SdramRequest) -> bool {
        self.hits(head) || self.spec.prefetch && head.bank != self.current.bank
    }

    #[inline]
    fn hits(&self, request: &SdramRequest) -> bool {
        self.spec.all_hits || self.banks[usize::from(request.bank)].row == request.transfer.row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clocks from one end of a transfer to the next, when all are there from the start.
    fn ends(spec: &SdramSpec, transfers: &[(u32, bool)]) -> Vec<u64> {
        let mut sdram = Sdram::new(spec, "sdram", 1024).unwrap();
        for &(row, write) in transfers {
            sdram.submit(Transfer { row, words: 8, owner: 0, write });
        }
        let (mut now, mut ends) = (0, Vec::new());
        loop {
            let (done, next) = sdram.step(now);
            ends.extend(done.map(|_| now));
            match next {
                Some(next) => now = next,
                None => return ends,
            }
        }
    }

    #[test]
    fn hits_follow_at_once_and_misses_cost_their_closed_forms() {
        let spec = SdramSpec { banks: 2, ..SdramSpec::default() };
        // A closed bank: tRCD. Then a hit, another bank that is closed, the same bank with another row.
        assert_eq!(ends(&spec, &[(0, true), (0, true), (1, true), (3, true)]), [12, 20, 32, 46]);
        let latched = [(0, true), (1, true), (2, true)];
        // Another bank, another row latched: precharge is hidden, activation is not; with prefetch neither is seen.
        assert_eq!(ends(&spec, &latched), [12, 24, 36]);
        assert_eq!(ends(&SdramSpec { prefetch: true, ..spec.clone() }, &latched), [12, 20, 28]);
        assert_eq!(ends(&SdramSpec { all_hits: true, ..spec }, &latched), [8, 16, 24]);
    }

    #[test]
    fn eager_precharge_forgets_the_row_unless_the_next_one_is_known_to_want_it() {
        let spec = SdramSpec { banks: 2, precharge: Precharge::Eager, ..SdramSpec::default() };
        assert_eq!(ends(&spec, &[(0, true), (0, true)]), [12, 20]);
        // Back after another bank: lazy precharge has a hit, eager has activation.
        assert_eq!(ends(&spec, &[(0, true), (1, true), (0, true)]), [12, 24, 36]);
        let lazy = SdramSpec { precharge: Precharge::Lazy, ..spec };
        assert_eq!(ends(&lazy, &[(0, true), (1, true), (0, true)]), [12, 24, 32]);
    }

    #[test]
    fn batches_stay_on_a_queue_while_it_hits_and_not_longer() {
        let spec = SdramSpec { banks: 2, ..SdramSpec::default() };
        let mixed = [(0, true), (0, true), (1, false), (1, false), (0, true), (1, false)];
        // Rows in both latches: order makes no difference in time, but in turns.
        let turns = |batch| {
            let mut sdram = Sdram::new(&SdramSpec { batch, ..spec.clone() }, "sdram", 1024).unwrap();
            mixed.iter().for_each(|&(row, write)| sdram.submit(Transfer { row, words: 8, owner: 0, write }));
            let mut now = 0;
            while let (_, Some(next)) = sdram.step(now) {
                now = next;
            }
            sdram.counters().reads.runs + sdram.counters().writes.runs
        };
        assert_eq!([turns(1), turns(2), turns(3)], [6, 4, 2]);
    }

    /// Owners in the order in which they are served.
    fn order(spec: &SdramSpec, transfers: &[(u32, bool)]) -> (Vec<u16>, SdramCounters) {
        let mut sdram = Sdram::new(spec, "sdram", 1024).unwrap();
        for (owner, &(row, write)) in transfers.iter().enumerate() {
            sdram.submit(Transfer { row, words: 8, owner: owner as u16, write });
        }
        let (mut now, mut order) = (0, Vec::new());
        loop {
            let (done, next) = sdram.step(now);
            order.extend(done.map(|done| done.owner));
            let Some(next) = next else { return (order, sdram.counters()) };
            now = next;
        }
    }

    #[test]
    fn a_batch_ends_at_a_miss_where_the_other_queue_is_empty_too() {
        let spec = SdramSpec { banks: 2, batch: 4, ..SdramSpec::default() };
        let (_, counters) = order(&spec, &[(0, true), (0, true), (2, true), (2, true), (2, true)]);
        assert_eq!((counters.writes.runs, counters.writes.transfers), (2, 5));
        let (_, counters) = order(&spec, &[(0, true); 9]);
        assert_eq!(counters.writes.runs, 3);
    }

    #[test]
    fn with_prefetch_a_batch_goes_on_in_another_bank_and_ends_in_the_one_in_use() {
        let spec = SdramSpec { banks: 2, batch: 4, ..SdramSpec::default() };
        // Reads of rows 0, 1, 3 and a write of row 2: banks 0, 1, 1 and 0.
        let mixed = [(0, false), (1, false), (3, false), (2, true)];
        assert_eq!(order(&spec, &mixed).0, [0, 3, 1, 2]);
        assert_eq!(order(&SdramSpec { prefetch: true, ..spec }, &mixed).0, [0, 1, 3, 2]);
    }

    #[test]
    fn one_bank_has_nothing_to_open_ahead_and_no_odd_and_even_banks() {
        let spec = SdramSpec { banks: 1, ..SdramSpec::default() };
        let misses = [(0, true), (1, true), (2, true)];
        assert_eq!(ends(&spec, &misses), [12, 26, 40]);
        assert_eq!(ends(&SdramSpec { prefetch: true, ..spec.clone() }, &misses), [12, 26, 40]);
        let parity = SdramSpec { queues: SdramQueueing::BankParity, ..spec };
        let error = Sdram::new(&parity, "sdram", 1024).err().unwrap().to_string();
        assert!(error.contains("sdram.banks = 1: allowed is 2 or more"), "{error}");
    }

    #[test]
    fn output_goes_first_where_it_has_priority() {
        let spec = SdramSpec { output_first: true, banks: 2, ..SdramSpec::default() };
        let mut sdram = Sdram::new(&spec, "sdram", 1024).unwrap();
        for owner in 0..4 {
            sdram.submit(Transfer { row: 0, words: 8, owner, write: owner < 2 });
        }
        let (mut now, mut order) = (0, Vec::new());
        loop {
            let (done, next) = sdram.step(now);
            order.extend(done.map(|done| done.owner));
            let Some(next) = next else { break };
            now = next;
        }
        assert_eq!(order, [2, 3, 0, 1]);
    }

    #[test]
    fn odd_and_even_queues_alternate() {
        let spec = SdramSpec { queues: SdramQueueing::BankParity, banks: 2, ..SdramSpec::default() };
        let mut sdram = Sdram::new(&spec, "sdram", 1024).unwrap();
        for (owner, row) in [0, 2, 4, 1, 3].into_iter().enumerate() {
            sdram.submit(Transfer { row, words: 8, owner: owner as u16, write: true });
        }
        let (mut now, mut order) = (0, Vec::new());
        loop {
            let (done, next) = sdram.step(now);
            order.extend(done.map(|done| done.row % 2));
            let Some(next) = next else { break };
            now = next;
        }
        assert_eq!(order, [1, 0, 1, 0, 0]);
    }
}
