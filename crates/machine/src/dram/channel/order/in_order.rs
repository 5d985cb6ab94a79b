//! Service in order: of arrival, or of two lists in turn by batches (Hasan, Chandra, Vijaykumar, ISCA 2003).
//!
//! A list or two for all banks. One request is chosen, whose data go over the bus next; rows of those behind it are opened
//! ahead (row prefetch).

use crate::dram::channel::queues::QueuedRequest;
use crate::dram::channel::{ACT, ChannelController, NIL, NO_ROW, NONE, OUTPUT, PRE, RD, WR, banks_of};
use crate::dram::policy::Order;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::dram::channel) struct Turns {
    /// Banks that want something.
    window: u64,
    /// The request that is served next.
    chosen: u8,
    /// The list whose batch it is, and how many of the batch have been chosen.
    active: usize,
    served: u32,
}

impl Turns {
    pub fn new() -> Turns {
        Turns { window: 0, chosen: NIL, active: 0, served: 0 }
    }
}

impl<const G: usize> ChannelController<G> {
    /// The one that was chosen is gone.
    pub(super) fn next_in_order(&mut self) {
        self.turns.chosen = NIL;
        self.look_in_order();
    }

    /// Looks for candidates: the request that is served next, and those whose rows are opened ahead.
    pub(super) fn look_in_order(&mut self) {
        banks_of(self.turns.window).for_each(|bank| self.want(bank, NONE, NIL, 0));
        self.turns.window = 0;
        let ahead = match self.order {
            Order::FrFcfs { .. } => return,
            Order::Fcfs { prefetch } | Order::Batch { prefetch, .. } => prefetch,
        };
        let mut heads = [self.queues.head(0, 0), self.queues.head(1, 0)];
        let mut output = self.queues.head(OUTPUT, 0);
        if self.turns.chosen == NIL {
            if output != NIL {
                self.turns.chosen = output;
            } else if let Some((which, count)) = self.choose(heads, self.turns.active, self.turns.served) {
                (self.turns.active, self.turns.served, self.turns.chosen) = (which, count, heads[which]);
            }
        }
        let (mut active, mut served, mut index) = (self.turns.active, self.turns.served, self.turns.chosen);
        let mut claimed = 0u64;
        for age in 0..ahead.max(1) {
            if index == NIL {
                break;
            }
            for head in heads.iter_mut().chain([&mut output]) {
                if *head == index {
                    *head = self.queues.slot(index).next;
                }
            }
            let bank = self.queues.slot(index).entry.bank();
            if claimed >> bank & 1 == 0 {
                claimed |= 1 << bank;
                self.claim(bank, index, age, ahead);
            }
            index = match self.choose(heads, active, served) {
                _ if output != NIL => output,
                Some((which, count)) => {
                    (active, served) = (which, count);
                    heads[which]
                }
                None => NIL,
            };
        }
        self.page.only_idle(self.rows.open & !claimed & !self.refreshes.blocked);
    }

    /// The first request of a bank says what that wants: data only if it is served next, at age 0.
    #[inline(always)]
    fn claim(&mut self, bank: usize, index: u8, age: u32, ahead: u32) {
        if self.refreshes.blocked >> bank & 1 == 1 {
            return;
        }
        let QueuedRequest { place, write, .. } = self.queues.slot(index).entry;
        let kind = match self.rows.bank[bank].open {
            NO_ROW => ACT,
            row if row != place.row => PRE,
            _ if age > 0 => return,
            _ if write => WR,
            _ => RD,
        };
        self.want(bank, kind, index, age);
        self.turns.window |= 1 << bank;
        if kind == ACT && ahead == 0 {
            // Without prefetch a row is opened when the data before have passed.
            self.candidates.open_from(bank, self.bus.data_end);
        }
    }

    /// Which of two lists is served next, and how many of its batch that makes.
    fn choose(&self, heads: [u8; 2], active: usize, served: u32) -> Option<(usize, u32)> {
        let size = match self.order {
            Order::Batch { size, .. } => size,
            _ => u32::MAX,
        };
        let other = 1 - active;
        if heads[active] == NIL {
            return (heads[other] != NIL).then_some((other, 1));
        }
        let entry = &self.queues.slot(heads[active]).entry;
        let hit = self.rows.bank[entry.bank()].open == entry.place.row;
        let stays = heads[other] == NIL || (served < size && (hit || served == 0));
        Some(if stays { (active, (served + 1).min(size)) } else { (other, 1) })
    }
}
