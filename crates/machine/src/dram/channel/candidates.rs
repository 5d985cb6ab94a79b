//! Where the next command is chosen: each bank's candidate, and the least of their packed keys.
//!
//! A scheduler ([`super::order`]) says what a bank wants; whose turn it is follows from clocks alone.

use super::clocks::{CommandClocks, back};
use super::timing::TimingTable;
use super::{ACT, BANK_BITS, BANKS, GROUPS, NIL, NONE, RD, banks_of};
use serde::{Deserialize, Serialize};

/// Orders what may go out: clock, then columns before rows, the oldest, the bank.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct CandidateKey(u64);

/// A key's lower half, from the top: 1 for row commands, age, bank.
const ROW_CLASS: u32 = 1 << 31;
/// The greatest age.
pub(super) const LAST_AGE: u32 = (ROW_CLASS >> BANK_BITS) - 1;

impl CandidateKey {
    /// It has to be looked for: less than any key.
    const STALE: CandidateKey = CandidateKey(0);
    /// There is none.
    const NOTHING: CandidateKey = CandidateKey(u64::MAX);

    #[inline(always)]
    fn new(clock: u32, low: u32) -> CandidateKey {
        CandidateKey(u64::from(clock) << 32 | u64::from(low))
    }

    #[inline(always)]
    fn min(self, other: CandidateKey) -> CandidateKey {
        CandidateKey(self.0.min(other.0))
    }

    #[inline(always)]
    pub fn clock(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    pub fn is_column(self) -> bool {
        self.0 as u32 & ROW_CLASS == 0
    }

    #[inline(always)]
    pub fn bank(self) -> usize {
        self.0 as usize & (BANKS - 1)
    }
}

/// A bank's candidate.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Candidate {
    /// The bank's own clock for it.
    ready: u32,
    /// The key's lower half.
    low: u32,
}

/// What a bank wants, and for which request.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Want {
    kind: u8,
    pub slot: u8,
}

impl Want {
    #[inline(always)]
    pub fn kind(self) -> usize {
        usize::from(self.kind)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
// What is not by bank begins a line of the host's cache.
#[repr(align(64))]
pub(super) struct Candidates {
    #[serde(with = "units::arrays")]
    candidate: [Candidate; BANKS],
    #[serde(with = "units::arrays")]
    want: [Want; BANKS],
    /// By kind of command, the banks whose candidate it is.
    wanted: [u64; 4],
    /// By kind of command, the least key, or [`CandidateKey::STALE`]. A key whose clock has passed is stale too: of those that are
    /// ready by now an older one may have to go first.
    keys: [CandidateKey; 4],
}

impl Candidates {
    pub fn new() -> Candidates {
        Candidates {
            candidate: [Candidate::default(); BANKS],
            want: [Want { kind: NONE as u8, slot: NIL }; BANKS],
            wanted: [0; 4],
            keys: [CandidateKey::NOTHING; 4],
        }
    }

    #[inline(always)]
    pub fn of(&self, bank: usize) -> Want {
        self.want[bank]
    }

    /// Sets a bank's candidate.
    #[inline(always)]
    pub fn set<const G: usize>(
        &mut self,
        timing: &TimingTable<G>,
        clocks: &CommandClocks,
        bank: usize,
        kind: usize,
        slot: u8,
        age: u32,
    ) {
        let was = self.want[bank].kind();
        self.want[bank] = Want { kind: kind as u8, slot };
        if was != NONE {
            self.wanted[was & 3] &= !(1 << bank);
            if self.keys[was & 3].bank() == bank {
                self.keys[was & 3] = CandidateKey::STALE;
            }
        }
        if kind != NONE {
            let class = if kind >= RD { 0 } else { ROW_CLASS };
            let candidate =
                Candidate { ready: clocks.own[bank][kind & 3], low: class | age << BANK_BITS | bank as u32 };
            self.candidate[bank] = candidate;
            self.wanted[kind & 3] |= 1 << bank;
            let clock = candidate.ready.max(clocks.shared[(kind & 3) * GROUPS + usize::from(timing.group_of[bank])]);
            let clock = clock.max(clocks.bus_free[(kind / 2) & 1]).max(clocks.now);
            self.keys[kind & 3] = self.keys[kind & 3].min(CandidateKey::new(clock, candidate.low));
        }
    }

    /// The same command once more, as soon as the bank may take it.
    #[inline(always)]
    pub fn again(&mut self, clocks: &CommandClocks, bank: usize, kind: usize) {
        self.candidate[bank].ready = clocks.own[bank][kind];
        self.forget_least(kind);
    }

    /// A bank's row is not opened before `clock`.
    pub fn open_from(&mut self, bank: usize, clock: u32) {
        self.candidate[bank].ready = self.candidate[bank].ready.max(clock);
        self.forget_least(ACT);
    }

    /// The clocks that candidates of this kind wait for have changed.
    #[inline(always)]
    pub fn forget_least(&mut self, kind: usize) {
        self.keys[kind] = CandidateKey::STALE;
    }

    /// Clocks of banks have changed.
    pub fn renew(&mut self, clocks: &CommandClocks) {
        for kind in 0..4 {
            for bank in banks_of(self.wanted[kind]) {
                self.candidate[bank].ready = clocks.own[bank][kind];
            }
        }
        self.keys = [CandidateKey::STALE; 4];
    }

    pub fn rebase(&mut self, by: u32) {
        self.keys = [CandidateKey::STALE; 4];
        self.candidate.iter_mut().for_each(|candidate| back(&mut candidate.ready, by));
    }

    /// The least key of all candidates.
    #[inline(always)]
    pub fn earliest<const G: usize>(&mut self, timing: &TimingTable<G>, clocks: &CommandClocks) -> CandidateKey {
        let free = [clocks.bus_free[0].max(clocks.now), clocks.bus_free[1].max(clocks.now)];
        let mut best = CandidateKey::NOTHING;
        for kind in 0..4 {
            if self.keys[kind].0 < CandidateKey::new(free[kind / 2], 0).0 {
                self.keys[kind] = self.earliest_of(timing, clocks, kind, free[kind / 2]);
            }
            best = best.min(self.keys[kind]);
        }
        best
    }

    /// The least key of the candidates of one kind, where the bus is free from `free`.
    #[inline(always)]
    fn earliest_of<const G: usize>(
        &self,
        timing: &TimingTable<G>,
        clocks: &CommandClocks,
        kind: usize,
        free: u32,
    ) -> CandidateKey {
        let (mut best, mut left) = (CandidateKey::NOTHING, self.wanted[kind]);
        let shared = &clocks.shared[kind * GROUPS..(kind + 1) * GROUPS];
        while left != 0 {
            let bank = left.trailing_zeros() as usize & (BANKS - 1);
            left &= left - 1;
            let candidate = self.candidate[bank];
            let clock = candidate.ready.max(shared[usize::from(timing.group_of[bank]) & (GROUPS - 1)]).max(free);
            best = best.min(CandidateKey::new(clock, candidate.low));
        }
        best
    }
}
