//! The data bus: until when it is promised, and what the time is charged to in which it carries nothing.

use super::clocks::{ORIGIN, back};
use super::rows::{CommandBank, Opened};
use super::timing::TimingTable;
use crate::dram::counters::{GAPS, Gap};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
// A line of the host's cache.
#[repr(align(64))]
pub(super) struct DataBus {
    /// End of the latest data, internal, and as others count it.
    pub data_end: u32,
    pub end: u64,
    /// The latest column command.
    last_column: u32,
    last_group: u8,
    last_write: bool,
    /// How the latest row was opened.
    pub last_opened: Opened,
    /// Since when there has been something to do.
    pub pending_from: u32,
    /// The latest refresh, from falling due to its end, and the banks it took.
    refresh_from: u32,
    refresh_until: u32,
    refreshing: u64,
    /// Banks that the latest refresh does not take but keeps from opening rows, and until when their data wait for that.
    held: u64,
    held_until: u32,
}

impl DataBus {
    pub fn new() -> DataBus {
        DataBus {
            data_end: ORIGIN,
            end: 0,
            last_column: 0,
            last_group: 0,
            last_write: false,
            last_opened: Opened::Miss,
            pending_from: ORIGIN,
            refresh_from: 0,
            refresh_until: 0,
            refreshing: 0,
            held: 0,
            held_until: 0,
        }
    }

    /// A refresh of these banks has fallen due.
    pub fn refresh_due(&mut self, banks: u64, now: u32) {
        if self.refresh_until <= now {
            self.refresh_from = now;
        }
        self.refresh_until = u32::MAX;
        self.refreshing = banks;
    }

    /// It takes until then.
    pub fn refreshed(&mut self, banks: u64, until: u32) {
        self.refresh_until = until;
        self.refreshing = banks;
    }

    /// No column of a row that these banks open goes out until then.
    pub fn held(&mut self, banks: u64, until: u32) {
        self.held_until = until;
        self.held = banks;
    }

    /// Charges the time since the last data, as a column command goes to `bank`.
    #[inline(always)]
    pub fn charge<const G: usize>(
        &mut self,
        timing: &TimingTable<G>,
        now: u32,
        (bank, row): (usize, &CommandBank),
        write: bool,
        gaps: &mut [u64; GAPS],
    ) {
        let start = now + timing.delay[usize::from(write)];
        let gap = start.saturating_sub(self.data_end);
        let group = timing.group_of[bank];
        if gap > 0 {
            let from = now - gap;
            // Before there was anything to do, since the last data.
            let idle = self.pending_from.saturating_sub(from).min(gap);
            let mut left = gap - idle;
            let begin = from + idle;
            let mut refresh = 0;
            if self.refreshing >> bank & 1 == 1 {
                refresh = self.refresh_until.min(now).saturating_sub(self.refresh_from.max(begin)).min(left);
            } else if row.fresh && self.held >> bank & 1 == 1 {
                refresh = self.held_until.min(now).saturating_sub(self.refresh_from.max(begin)).min(left);
            }
            left -= refresh;
            let mut turnaround = 0;
            if self.last_write != write && self.last_column > 0 {
                let free = self.last_column + timing.turn[usize::from(self.last_write)];
                turnaround = free.saturating_sub(begin).min(left);
                left -= turnaround;
            }
            let mut same_group = 0;
            if !row.fresh && self.last_group == group && self.last_write == write {
                same_group = (self.last_column + timing.column_gap).saturating_sub(begin).min(left);
                left -= same_group;
            }
            let opened = if row.fresh { row.opened } else { self.last_opened };
            gaps[Gap::Idle as usize] += u64::from(idle);
            gaps[Gap::Refresh as usize] += u64::from(refresh);
            gaps[Gap::Turnaround as usize] += u64::from(turnaround);
            gaps[Gap::BankGroup as usize] += u64::from(same_group);
            gaps[if opened == Opened::Miss { Gap::RowMiss } else { Gap::BankConflict } as usize] += u64::from(left);
        }
        self.last_column = now;
        self.last_group = group;
        self.last_write = write;
    }

    /// Takes clocks back by `by`: how much of that no internal clock reaches, which was idle.
    pub fn rebase(&mut self, by: u64) -> u64 {
        let reach = by.min(u64::from(self.data_end - ORIGIN / 2));
        self.data_end -= reach as u32;
        let most = by.min(u64::from(u32::MAX)) as u32;
        for clock in [
            &mut self.last_column,
            &mut self.pending_from,
            &mut self.refresh_from,
            &mut self.refresh_until,
            &mut self.held_until,
        ] {
            back(clock, most);
        }
        by - reach
    }
}
