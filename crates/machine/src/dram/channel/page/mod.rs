//! Where an idle row is closed: the page policies, a file each.
//!
//! A row that no waiting request wants may be closed. A scheduler ([`super::order`]) says which banks have nothing to do;
//! the policy, when their rows close. To add one: an arm of [`Page`], what it does in a file beside these, and an arm of `policy!`.

mod adaptive;
mod closed;
mod open;

use self::adaptive::AdaptivePage;
use self::closed::ClosedPage;
use self::open::OpenPage;
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

/// What a policy does with the row of a bank; the usual one learns nothing from how long rows are used.
trait IdlePolicy {
    /// Whether idle rows are closed.
    const CLOSES: bool;
    /// Whether as soon as nobody waits for them.
    const AT_ONCE: bool = false;

    /// From which clock on an idle row may be closed, as far as the policy goes.
    #[inline(always)]
    fn not_before(_: &Idle) -> u32 {
        0
    }
    #[inline(always)]
    fn used(_: &mut Idle, _now: u32) {}
    #[inline(always)]
    fn opened(_: &mut Idle, _row: u32, _now: u32) {}
    /// A row is closed for another one.
    #[inline(always)]
    fn conflicted(_: &mut Idle) {}
    /// An idle row is closed.
    #[inline(always)]
    fn closed(_: &mut Idle, _row: u32) {}
}

/// What a policy says or does.
macro_rules! policy {
    ($page:expr, $($does:tt)+) => {
        match $page {
            Page::Open => OpenPage::$($does)+,
            Page::Closed => ClosedPage::$($does)+,
            Page::Adaptive { .. } => AdaptivePage::$($does)+,
        }
    };
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
        policy!(self.policy, CLOSES)
    }

    /// Whether a row is closed as soon as nobody waits for it.
    pub fn closes_at_once(&self) -> bool {
        policy!(self.policy, AT_ONCE)
    }

    /// From which clock on a bank's idle row may be closed, as far as the policy goes.
    #[inline(always)]
    fn from(&self, bank: usize) -> u32 {
        policy!(self.policy, not_before(&self.bank[bank]))
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
        policy!(self.policy, used(&mut self.bank[bank], now));
    }

    /// A row is opened.
    #[inline(always)]
    pub fn opened(&mut self, bank: usize, row: u32, now: u32) {
        policy!(self.policy, opened(&mut self.bank[bank], row, now));
    }

    /// A row is closed for another one.
    #[inline(always)]
    pub fn conflicted(&mut self, bank: usize) {
        policy!(self.policy, conflicted(&mut self.bank[bank]));
    }

    /// An idle row is closed.
    #[inline(always)]
    pub fn closed(&mut self, bank: usize, row: u32) {
        policy!(self.policy, closed(&mut self.bank[bank], row));
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
