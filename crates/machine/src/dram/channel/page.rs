//! Where an idle row is closed: the page policies, an arm each.
//!
//! A row that no waiting request wants may be closed. A scheduler ([`super::order`]) says which banks have nothing to do;
//! the policy, when their rows close. To add one: an arm of [`Page`], and one in each `match` here.

use super::clocks::{CommandClocks, NEVER, back};
use super::timing::TimingTable;
use super::{BANKS, NO_ROW, PRE};
use crate::dram::policy::Page;
use serde::{Deserialize, Serialize};

/// What the policy remembers of a bank.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Idle {
    /// The last row it closed, to see whether that was too early.
    closed_row: u32,
    last_use: u32,
    timeout: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
// The mask beside the refreshes before it, see `ChannelController`.
#[repr(C)]
pub(super) struct IdleRows {
    /// Banks whose row is to be closed.
    pub closing: u64,
    policy: Page,
    #[serde(with = "units::arrays")]
    bank: [Idle; BANKS],
}

impl IdleRows {
    pub fn new(policy: Page) -> IdleRows {
        let idle = Idle { closed_row: NO_ROW, last_use: 0, timeout: policy.timeout() };
        IdleRows { policy, closing: 0, bank: [idle; BANKS] }
    }

    /// Never closes a row.
    pub fn keep_open(&mut self) {
        self.policy = Page::Open;
    }

    fn closes(&self) -> bool {
        match self.policy {
            Page::Open => false,
            Page::Closed | Page::Adaptive { .. } => true,
        }
    }

    /// Whether a row is closed as soon as nobody waits for it.
    pub fn closes_at_once(&self) -> bool {
        match self.policy {
            Page::Closed => true,
            Page::Open | Page::Adaptive { .. } => false,
        }
    }

    /// Whether it learns from how long rows are used.
    #[inline(always)]
    fn adapts(&self) -> bool {
        match self.policy {
            Page::Open | Page::Closed => false,
            Page::Adaptive { .. } => true,
        }
    }

    /// From which clock on a bank's idle row may be closed, as far as the policy goes.
    #[inline(always)]
    fn from(&self, bank: usize) -> u32 {
        match self.policy {
            Page::Open | Page::Closed => 0,
            Page::Adaptive { .. } => self.bank[bank].last_use + self.bank[bank].timeout,
        }
    }

    /// A bank has its row open for nobody.
    #[inline(always)]
    pub fn idles(&mut self, bank: usize) {
        if self.closes() {
            self.closing |= 1 << bank;
        }
    }

    /// These banks have, and no others.
    #[inline(always)]
    pub fn only_idle(&mut self, banks: u64) {
        self.closing = if self.closes() { banks } else { 0 };
    }

    /// A bank's row is wanted, or closed.
    #[inline(always)]
    pub fn stays(&mut self, bank: usize) {
        self.closing &= !(1 << bank);
    }

    #[inline(always)]
    pub fn used(&mut self, bank: usize, now: u32) {
        if self.adapts() {
            self.bank[bank].last_use = now;
        }
    }

    /// A row is opened.
    #[inline(always)]
    pub fn opened(&mut self, bank: usize, row: u32, now: u32) {
        if self.adapts() {
            let idle = &mut self.bank[bank];
            if idle.closed_row == row {
                // It was closed too early.
                idle.timeout = (idle.timeout * 2).min(Page::GREATEST_TIMEOUT);
            }
            idle.closed_row = NO_ROW;
            idle.last_use = now;
        }
    }

    /// A row is closed for another one.
    #[inline(always)]
    pub fn conflicted(&mut self, bank: usize) {
        if self.adapts() {
            // It stayed open in vain.
            let idle = &mut self.bank[bank];
            idle.timeout = (idle.timeout / 2).max(Page::LEAST_TIMEOUT);
        }
    }

    /// An idle row is closed.
    #[inline(always)]
    pub fn closed(&mut self, bank: usize, row: u32) {
        if self.adapts() {
            self.bank[bank].closed_row = row;
        }
    }

    /// When the next idle row may be closed, and its bank.
    pub fn next<const G: usize>(&self, timing: &TimingTable<G>, clocks: &CommandClocks) -> (u32, usize) {
        let (mut best, mut left) = ((NEVER, 0), self.closing);
        while left != 0 {
            let bank = left.trailing_zeros() as usize;
            left &= left - 1;
            let at = clocks.may(timing, PRE, bank).max(clocks.bus_free[0]).max(clocks.now).max(self.from(bank));
            if at < best.0 {
                best = (at, bank);
            }
        }
        best
    }

    pub fn rebase(&mut self, by: u32) {
        self.bank.iter_mut().for_each(|idle| back(&mut idle.last_use, by));
    }
}
