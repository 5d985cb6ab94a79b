//! Which rows are open, and how they came to be.

use super::clocks::back;
use super::queues::RowOutcome;
use super::{BANKS, NO_ROW};
use serde::{Deserialize, Serialize};

/// How a bank's row came to be open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Opened {
    /// The bank was closed.
    #[default]
    Miss,
    /// Another row had to be closed.
    Conflict,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct CommandBank {
    /// The open row.
    pub open: u32,
    /// How it was opened, or the next one will be.
    pub opened: Opened,
    /// No request was served since the activate.
    pub fresh: bool,
    /// Younger hits served before the oldest request, since the activate.
    pub passed: u32,
}

impl CommandBank {
    /// How a request that is served now found it.
    #[inline(always)]
    pub fn found(&self) -> RowOutcome {
        match (self.fresh, self.opened) {
            (false, _) => RowOutcome::Hit,
            (true, Opened::Miss) => RowOutcome::Miss,
            (true, Opened::Conflict) => RowOutcome::Conflict,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Rows {
    #[serde(with = "units::arrays")]
    pub bank: [CommandBank; BANKS],
    /// Banks with a row open.
    pub open: u64,
    /// Since when there has been one.
    pub open_since: u32,
    /// Every bank's row is open, whatever happens.
    pub all_hits: bool,
}

impl Rows {
    pub fn new() -> Rows {
        let closed = CommandBank { open: NO_ROW, opened: Opened::Miss, fresh: false, passed: 0 };
        Rows { bank: [closed; BANKS], open: 0, open_since: 0, all_hits: false }
    }

    pub fn set_all_hits(&mut self) {
        self.all_hits = true;
        self.bank.iter_mut().for_each(|bank| bank.open = 0);
    }

    /// A row is opened: how.
    #[inline(always)]
    pub fn activate(&mut self, bank: usize, row: u32, now: u32) -> Opened {
        let state = &mut self.bank[bank];
        state.open = row;
        state.fresh = true;
        state.passed = 0;
        if self.open == 0 {
            self.open_since = now;
        }
        self.open |= 1 << bank;
        state.opened
    }

    /// Rows are closed: for how long there was one, if these were the last.
    #[inline(always)]
    pub fn shut(&mut self, banks: u64, now: u32) -> u32 {
        let last = self.open != 0 && self.open & !banks == 0;
        self.open &= !banks;
        if last { now - self.open_since } else { 0 }
    }

    /// All clocks go back by `by`: for how long a row has been open before the first clock that is left.
    pub fn rebase(&mut self, by: u32) -> u32 {
        let before = if self.open == 0 { 0 } else { by.saturating_sub(self.open_since) };
        back(&mut self.open_since, by);
        before
    }
}
