//! First ready, first come first served: row hits first, then the oldest (Rixner et al., ISCA 2000).
//!
//! A list a bank and queue. Each bank is looked at on its own; which bank goes first is decided by keys.

use crate::dram::channel::queues::QueuedRequest;
use crate::dram::channel::{ACT, ChannelController, NIL, NO_ROW, NONE, OUTPUT, PRE, RD, WR};

impl<const G: usize> ChannelController<G> {
    #[inline(always)]
    pub(super) fn first_ready_has_come(&mut self, entry: &QueuedRequest, queue: usize, first: bool, cap: u32) {
        let bank = entry.bank();
        if entry.output {
            return self.look_first_ready(bank, cap);
        }
        if self.switch(cap) || queue != self.queues.writing {
            return;
        }
        // An older hit keeps its place; so does an activate. A precharge may turn into a hit.
        if first || (self.candidates.of(bank).kind() == PRE && self.rows.bank[bank].open == entry.place.row) {
            self.look_first_ready(bank, cap);
        }
    }

    #[inline(always)]
    pub(super) fn first_ready_was_served(&mut self, bank: usize, cap: u32) {
        if !self.switch(cap) {
            self.look_first_ready(bank, cap);
        }
    }

    /// Starts or ends a write drain; whether it did.
    #[inline(always)]
    fn switch(&mut self, cap: u32) -> bool {
        if !self.queues.switch() {
            return false;
        }
        self.account.counters.switches += 1;
        for bank in 0..self.timing.banks {
            self.look_first_ready(bank, cap);
        }
        true
    }

    /// Looks for a bank's candidate: the oldest hit, else what the oldest request needs. At most `cap` hits pass that one; 0
    /// is no cap.
    #[inline(always)]
    pub(super) fn look_first_ready(&mut self, bank: usize, cap: u32) {
        let output = self.queues.head(OUTPUT, bank);
        let head = if output == NIL { self.queues.head(self.queues.writing & 1, bank) } else { output };
        let (open, passed) = (self.rows.bank[bank].open, self.rows.bank[bank].passed);
        if self.refreshes.blocked >> bank & 1 == 1 {
            return self.want(bank, NONE, NIL, 0);
        }
        if head == NIL {
            self.want(bank, NONE, NIL, 0);
            if open != NO_ROW {
                self.page.idles(bank);
            }
            return;
        }
        let oldest = self.queues.slot(head);
        let behind = if output == NIL { self.queues.behind } else { 0 };
        let age = oldest.seq | behind;
        if open == NO_ROW {
            return self.want(bank, ACT, head, age);
        }
        if oldest.entry.place.row == open {
            let kind = if oldest.entry.write { WR } else { RD };
            return self.want(bank, kind, head, age);
        }
        if cap == 0 || passed < cap {
            let mut at = oldest.next;
            while at != NIL {
                let slot = self.queues.slot(at);
                if slot.entry.place.row == open {
                    let (kind, age) = (if slot.entry.write { WR } else { RD }, slot.seq | behind);
                    return self.want(bank, kind, at, age);
                }
                at = slot.next;
            }
        }
        self.want(bank, PRE, head, age);
    }
}
