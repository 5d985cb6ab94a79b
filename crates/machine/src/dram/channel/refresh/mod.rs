//! Where refresh is decided: when one falls due, what it stops, and the commands that lead to it.
//!
//! A refresh takes a unit: a rank, the bank whose turn it is, or the bank whose turn it is in each bank group of a rank.
//! From the clock in which it falls due nothing else goes to the unit; rows that are open are closed, then it goes out. To
//! add a policy: an arm of [`Refresh`], its units in a file beside these, and an arm of `units!`.

mod all_bank;
mod off;
mod per_bank;
mod same_bank;

use self::all_bank::AllBank;
use self::off::Off;
use self::per_bank::PerBank;
use self::same_bank::SameBank;
use super::clocks::{CommandClocks, NEVER, ORIGIN, back};
use super::rows::{Opened, Rows};
use super::timing::{TimingTable, kind_of};
use super::{ACT, BANKS, ChannelController, NO_ROW, PRE, RD, WR, banks_of};
use crate::MachineError;
use crate::dram::policy::Refresh;
use crate::dram::standard::{DramCommand, Standard, TimingScope};
use serde::{Deserialize, Serialize};

/// Ranks that a channel can have.
const UNITS: usize = 8;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Refreshes {
    /// When the next one falls due.
    pub due: u32,
    /// Units whose refresh is due.
    pub pending: u8,
    /// Their banks, to which nothing else goes.
    pub blocked: u64,
    policy: Refresh,
    /// Between two refreshes of a unit.
    interval: u32,
    /// By unit.
    dues: [u32; UNITS],
    /// By unit, of banks that take turns, the next one.
    turns: [u8; UNITS],
}

/// What an idle channel does over and over.
pub(super) struct Round {
    pub clocks: u64,
    pub refreshes: u64,
    /// Of these, of one bank.
    pub of_banks: u64,
    /// Of these, of the same bank in every bank group.
    pub of_same_banks: u64,
}

impl Round {
    fn of(clocks: u64, refreshes: u64) -> Round {
        Round { clocks, refreshes, of_banks: 0, of_same_banks: 0 }
    }
}

/// What a policy says of its units.
trait Units {
    /// What closes the rows of a unit, and what refreshes it.
    const COMMANDS: (DramCommand, DramCommand);

    /// How many have refreshes.
    fn count<const G: usize>(timing: &TimingTable<G>) -> usize;
    /// Banks of a unit of which bank `turn` has its turn.
    fn banks<const G: usize>(timing: &TimingTable<G>, unit: usize, turn: usize) -> u64;
    fn unit_of<const G: usize>(timing: &TimingTable<G>, bank: usize) -> usize;
    /// Refreshes until each bank of a unit has had one.
    fn turns<const G: usize>(timing: &TimingTable<G>) -> usize;
    fn round<const G: usize>(timing: &TimingTable<G>, interval: u64) -> Round;
}

/// What the units of a policy say.
macro_rules! units {
    ($policy:expr, $($says:tt)+) => {
        match $policy {
            Refresh::Off => Off::$($says)+,
            Refresh::AllBank => AllBank::$($says)+,
            Refresh::PerBank => PerBank::$($says)+,
            Refresh::SameBank => SameBank::$($says)+,
        }
    };
}

impl Refreshes {
    /// # Errors
    /// A standard that lacks the interval of its refreshes.
    pub fn new<const G: usize>(
        policy: Refresh,
        standard: &Standard,
        timing: &TimingTable<G>,
    ) -> Result<Refreshes, MachineError> {
        let interval = (standard.timing(policy.interval_name())? / policy.turns(standard)).max(1);
        let mut dues = [NEVER; UNITS];
        let units = units!(policy, count(timing));
        for (unit, due) in dues.iter_mut().take(units).enumerate() {
            // Ranks take turns.
            *due = ORIGIN + (u64::from(interval) * (unit as u64 + 1) / units as u64) as u32;
        }
        let turns = [0; UNITS];
        let mut refreshes = Refreshes { due: NEVER, pending: 0, blocked: 0, policy, interval, dues, turns };
        refreshes.look_for_due();
        Ok(refreshes)
    }

    /// Banks of a unit.
    fn banks<const G: usize>(&self, timing: &TimingTable<G>, unit: usize) -> u64 {
        units!(self.policy, banks(timing, unit, usize::from(self.turns[unit])))
    }

    fn unit_of<const G: usize>(&self, timing: &TimingTable<G>, bank: usize) -> usize {
        units!(self.policy, unit_of(timing, bank))
    }

    pub fn round<const G: usize>(&self, timing: &TimingTable<G>) -> Round {
        units!(self.policy, round(timing, self.interval.into()))
    }

    /// Whether an idle channel, which closes no rows on its own, keeps them open for ever.
    pub fn keeps_rows(&self) -> bool {
        self.policy == Refresh::Off
    }

    fn is_pending(&self, unit: usize) -> bool {
        self.pending >> unit & 1 == 1
    }

    fn look_for_due(&mut self) {
        self.due = (0..UNITS).filter(|&unit| !self.is_pending(unit)).map(|unit| self.dues[unit]).min().unwrap_or(NEVER);
    }

    /// The refresh of a unit has gone out.
    fn done<const G: usize>(&mut self, timing: &TimingTable<G>, unit: usize, banks: u64) {
        self.pending &= !(1 << unit);
        self.blocked &= !banks;
        self.dues[unit] += self.interval;
        let turns = units!(self.policy, turns(timing));
        self.turns[unit] = ((usize::from(self.turns[unit]) + 1) % turns) as u8;
        self.look_for_due();
    }

    /// The next command towards a refresh that is due: clock, command, bank.
    #[inline(never)]
    pub fn next<const G: usize>(
        &self,
        timing: &TimingTable<G>,
        clocks: &CommandClocks,
        rows: &Rows,
    ) -> (u32, (DramCommand, usize)) {
        let mut best = (NEVER, (DramCommand::Ref, 0));
        let (close, refresh) = units!(self.policy, COMMANDS);
        for unit in (0..UNITS).filter(|&unit| self.is_pending(unit)) {
            let target = self.banks(timing, unit);
            let mut at = clocks.now.max(clocks.bus_free[0]);
            let is_open = rows.open & target != 0;
            // Where rows are open for ever a refresh waits for what a precharge would wait for.
            if is_open || rows.all_hits {
                at = banks_of(target).map(|b| clocks.may(timing, PRE, b)).fold(at, u32::max);
            }
            if !is_open {
                at = at.max(refresh_from(timing, clocks, refresh, target));
            }
            if at < best.0 {
                best = (at, (if is_open { close } else { refresh }, target.trailing_zeros() as usize));
            }
        }
        best
    }

    pub fn rebase(&mut self, by: u32) {
        self.dues.iter_mut().filter(|due| **due != NEVER).for_each(|due| back(due, by));
        self.look_for_due();
    }
}

/// From which clock on what went before allows the refresh of these banks.
fn refresh_from<const G: usize>(
    timing: &TimingTable<G>,
    clocks: &CommandClocks,
    refresh: DramCommand,
    target: u64,
) -> u32 {
    let from = timing.rules.iter().filter(|rule| rule.next == refresh).map(|rule| {
        banks_of(timing.near(rule.level, target))
            .map(|b| clocks.last[rule.prev as usize * BANKS + b])
            .max()
            .unwrap_or(0)
            + rule.clocks
    });
    from.max().unwrap_or(0)
}

impl<const G: usize> ChannelController<G> {
    /// Stops everything else in the banks whose refresh has fallen due.
    #[cold]
    #[inline(never)]
    pub(super) fn fall_due(&mut self) {
        for unit in 0..UNITS {
            if self.refreshes.dues[unit] <= self.clocks.now && !self.refreshes.is_pending(unit) {
                let banks = self.refreshes.banks(&self.timing, unit);
                self.refreshes.pending |= 1 << unit;
                self.refreshes.blocked |= banks;
                self.bus.refresh_due(banks, self.clocks.now);
                self.look_at_all(banks);
            }
        }
        self.refreshes.look_for_due();
    }

    #[cold]
    #[inline(never)]
    pub(super) fn issue_refresh(&mut self, command: DramCommand, bank: usize) {
        let unit = self.refreshes.unit_of(&self.timing, bank);
        let target = self.refreshes.banks(&self.timing, unit);
        self.note(command, bank, 0);
        self.clocks.take_row_bus(&self.timing);
        if command.in_rows() == DramCommand::Pre {
            return self.close_all(target);
        }
        banks_of(target).for_each(|b| self.rows.bank[b].opened = Opened::Miss);
        self.keep_refresh_apart(command, target);
        self.candidates.renew(&self.clocks);
        self.account.counters.refreshes += 1;
        self.account.counters.bank_refreshes += u64::from(command == DramCommand::RefBank);
        self.account.counters.same_bank_refreshes += u64::from(command == DramCommand::RefSame);
        self.bus.refreshed(target, self.clocks.now + self.timing.refreshed_after(command));
        if command == DramCommand::RefSame {
            let others = self.timing.near(TimingScope::Rank, target) & !target;
            self.bus.held(others, self.clocks.now + self.timing.held);
        }
        self.refreshes.done(&self.timing, unit, target);
        self.look_at_all(target);
    }

    /// Closes rows for a refresh: their banks stay blocked.
    fn close_all(&mut self, target: u64) {
        self.account.counters.precharges += u64::from((self.rows.open & target).count_ones());
        for b in banks_of(target) {
            self.keep_apart(PRE, b);
            self.rows.bank[b].open = NO_ROW;
            self.rows.bank[b].opened = Opened::Miss;
        }
        self.shut(target);
        self.look_at_all(target);
    }

    /// Raises the clocks of all commands of requests that a refresh keeps away.
    fn keep_refresh_apart(&mut self, refresh: DramCommand, target: u64) {
        let clocks = &mut self.clocks;
        banks_of(target).for_each(|b| clocks.last[refresh as usize * BANKS + b] = clocks.now);
        for rule in self.timing.rules.iter().filter(|rule| rule.prev == refresh) {
            let Some(next) = kind_of(rule.next) else { continue };
            let clock = clocks.now + rule.clocks;
            for b in banks_of(self.timing.near(rule.level, target)) {
                let own = &mut clocks.own[b];
                own[next] = own[next].max(clock);
                if self.rows.all_hits && next == ACT && target >> b & 1 != 0 {
                    // No row has to be opened after it, but its own banks are taken as long.
                    for column in [RD, WR] {
                        own[column] = own[column].max(clock);
                    }
                }
            }
        }
    }
}
