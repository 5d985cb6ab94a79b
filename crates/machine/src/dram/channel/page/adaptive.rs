//! A row is closed when no waiting request has wanted it for a while, which doubles when that was too early, and halves when the row
//! stayed open in vain.

use super::{Idle, IdlePolicy};
use crate::dram::channel::NO_ROW;
use crate::dram::policy::Page;

pub(super) struct AdaptivePage;

impl IdlePolicy for AdaptivePage {
    const CLOSES: bool = true;

    #[inline(always)]
    fn not_before(idle: &Idle) -> u32 {
        idle.last_use + idle.timeout
    }

    #[inline(always)]
    fn used(idle: &mut Idle, now: u32) {
        idle.last_use = now;
    }

    #[inline(always)]
    fn opened(idle: &mut Idle, row: u32, now: u32) {
        if idle.closed_row == row {
            // It was closed too early.
            idle.timeout = (idle.timeout * 2).min(Page::GREATEST_TIMEOUT);
        }
        idle.closed_row = NO_ROW;
        idle.last_use = now;
    }

    #[inline(always)]
    fn conflicted(idle: &mut Idle) {
        // It stayed open in vain.
        idle.timeout = (idle.timeout / 2).max(Page::LEAST_TIMEOUT);
    }

    #[inline(always)]
    fn closed(idle: &mut Idle, row: u32) {
        idle.closed_row = row;
    }
}
