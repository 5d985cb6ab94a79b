//! Time: now, and from when on each kind of command may go to each bank.
//!
//! Clocks are kept in 32 bits and taken back now and then ([`CommandClocks::rebase`]). A bank has clocks of its own; what keeps
//! commands apart beyond a bank is folded into clocks by bank group. A command may go out from the later of the two.

use super::timing::TimingTable;
use super::{ACT, BANKS, GROUPS};
use crate::dram::standard::DramCommand;
use serde::{Deserialize, Serialize};

/// Internal clocks start here, so that "never" is far enough in the past of every constraint.
pub(super) const ORIGIN: u32 = 1 << 21;
/// Clocks are taken back to this after they have passed [`REBASE`].
const KEEP: u32 = 1 << 22;
const REBASE: u32 = 1 << 30;
pub(super) const NEVER: u32 = u32::MAX;
const COMMANDS: usize = DramCommand::ALL.len();

#[derive(Clone, Debug, Serialize, Deserialize)]
// What is not by bank begins a line of the host's cache.
#[repr(align(64))]
pub(super) struct CommandClocks {
    /// What internal clocks count from.
    base: u64,
    pub now: u32,
    /// By bus: row commands, column commands.
    pub bus_free: [u32; 2],
    /// By bank and kind of command.
    #[serde(with = "units::arrays")]
    pub own: [[u32; 4]; BANKS],
    /// By kind of command and bank group.
    #[serde(with = "units::arrays")]
    pub shared: [u32; 4 * GROUPS],
    /// By command and bank, when it went there last.
    #[serde(with = "units::arrays")]
    pub last: [u32; COMMANDS * BANKS],
    /// By rank, the latest four activates and which of them is the oldest.
    acts: Vec<([u32; 4], usize)>,
}

impl CommandClocks {
    pub fn new(ranks: usize) -> CommandClocks {
        CommandClocks {
            base: 0u64.wrapping_sub(u64::from(ORIGIN)),
            now: ORIGIN,
            bus_free: [0; 2],
            own: [[0; 4]; BANKS],
            shared: [0; 4 * GROUPS],
            last: [0; COMMANDS * BANKS],
            acts: vec![([0; 4], 0); ranks],
        }
    }

    /// An internal clock as others count it.
    #[inline(always)]
    pub fn outside(&self, clock: u32) -> u64 {
        self.base.wrapping_add(u64::from(clock))
    }

    /// The clock up to which everything has happened, as others count it.
    #[inline(always)]
    pub fn clock(&self) -> u64 {
        self.outside(self.now)
    }

    /// Skips time in which nothing happens: no internal clock changes.
    pub fn skip(&mut self, by: u64) {
        self.base = self.base.wrapping_add(by);
    }

    /// By how much to take all clocks back, where they have grown too large.
    #[inline(always)]
    pub fn overdue(&self) -> Option<u32> {
        (self.now >= REBASE).then(|| self.now - KEEP)
    }

    pub fn rebase(&mut self, by: u32) {
        self.base = self.base.wrapping_add(u64::from(by));
        let back = |clock: &mut u32| back(clock, by);
        self.own.iter_mut().flatten().for_each(back);
        self.last.iter_mut().chain(&mut self.shared).for_each(back);
        self.acts.iter_mut().flat_map(|(clocks, _)| clocks).for_each(back);
        self.bus_free.iter_mut().chain([&mut self.now]).for_each(back);
    }

    /// From which clock a bank may take a command, the bus apart.
    pub fn may<const G: usize>(&self, timing: &TimingTable<G>, kind: usize, bank: usize) -> u32 {
        self.own[bank][kind].max(self.shared[kind * GROUPS + usize::from(timing.group_of[bank])])
    }

    #[inline(always)]
    pub fn take_bus<const G: usize>(&mut self, timing: &TimingTable<G>, kind: usize) {
        let until = self.now + timing.on_bus[kind];
        if timing.split {
            self.bus_free[kind / 2] = until;
        } else {
            self.bus_free = [until; 2];
        }
    }

    /// Takes the bus of row commands for a clock.
    pub fn take_row_bus<const G: usize>(&mut self, timing: &TimingTable<G>) {
        self.bus_free[0] = self.now + 1;
        if !timing.split {
            self.bus_free[1] = self.now + 1;
        }
    }

    /// Raises the clocks of all commands that `kind` to `bank` keeps away; `beyond` hears of those that go to other banks.
    #[inline(always)]
    pub fn keep_apart<const G: usize>(
        &mut self,
        timing: &TimingTable<G>,
        kind: usize,
        bank: usize,
        mut beyond: impl FnMut(usize),
    ) {
        let now = self.now;
        let group = usize::from(timing.group_of[bank]);
        for &(next, offset) in &timing.wide[kind] {
            beyond(next & 3);
            let lanes = &timing.lanes[offset + group].0;
            let first = (next & 3) * GROUPS;
            let shared = &mut self.shared[first..first + G];
            for g in 0..G {
                shared[g] = shared[g].max(now + lanes[g]);
            }
        }
        let own = &mut self.own[bank];
        for (own, apart) in own.iter_mut().zip(&timing.same_bank[kind]) {
            *own = (*own).max(now + apart);
        }
        self.last[kind * BANKS + bank] = now;
    }

    /// After an activate: the fourth one after it that its rank may take waits for the window (tFAW).
    #[inline(always)]
    pub fn keep_four_apart<const G: usize>(&mut self, timing: &TimingTable<G>, bank: usize) {
        if timing.faw == 0 {
            return;
        }
        let rank = timing.rank_of[bank];
        let (clocks, at) = &mut self.acts[usize::from(rank)];
        clocks[*at & 3] = self.now;
        *at = (*at + 1) & 3;
        let next = clocks[*at] + timing.faw;
        for g in 0..G {
            if timing.rank_of_group[g] == rank {
                let shared = &mut self.shared[ACT * GROUPS + g];
                *shared = (*shared).max(next);
            }
        }
    }
}

/// Takes a clock back; what is long past stays in the past.
pub(super) fn back(clock: &mut u32, by: u32) {
    *clock = clock.saturating_sub(by);
}
