//! Which request is served next: what a scheduler says each bank wants.
//!
//! Every scheduler of [`Order`] has an arm in each `match` here: the list a request waits in, and what to look at when one
//! has come, when one was served, and when rows were opened or closed. It tells [`ChannelController::want`] the command that a bank
//! wants and for which request, with an age that counts among those of one clock, and the page policy which open rows
//! nobody wants. It never sees clocks: when the command goes out follows from its key ([`super::candidates`]).
//!
//! To add one: an arm of [`Order`], what it remembers and how it looks in a file beside these, and an arm here.

mod first_ready;
mod in_order;

pub(super) use self::in_order::Turns;
use super::queues::QueuedRequest;
use super::{ChannelController, OUTPUT, banks_of};
use crate::dram::policy::{BatchBy, Order};

impl<const G: usize> ChannelController<G> {
    /// Which list a request of `queue` waits in, and of which bank.
    #[inline(always)]
    pub(super) fn list_of(&self, entry: &QueuedRequest, queue: usize) -> (usize, usize) {
        match self.order {
            Order::FrFcfs { .. } => (queue, entry.bank()),
            _ if entry.output => (OUTPUT, 0),
            Order::Fcfs { .. } => (0, 0),
            Order::Batch { by: BatchBy::Direction, .. } => (usize::from(entry.write), 0),
            Order::Batch { by: BatchBy::BankParity, .. } => (entry.bank() & 1, 0),
        }
    }

    /// A request of `queue` waits in its list; as the `first` of it.
    #[inline(always)]
    pub(super) fn has_come(&mut self, entry: &QueuedRequest, queue: usize, first: bool) {
        match self.order {
            Order::FrFcfs { cap } => self.first_ready_has_come(entry, queue, first, cap),
            Order::Fcfs { .. } | Order::Batch { .. } => self.look_in_order(),
        }
    }

    /// A request of `bank` was served, and is gone.
    #[inline(always)]
    pub(super) fn was_served(&mut self, bank: usize) {
        match self.order {
            Order::FrFcfs { cap } => self.first_ready_was_served(bank, cap),
            Order::Fcfs { .. } | Order::Batch { .. } => self.next_in_order(),
        }
    }

    /// A bank's row was opened or closed.
    #[inline(always)]
    pub(super) fn look_at(&mut self, bank: usize) {
        match self.order {
            Order::FrFcfs { cap } => self.look_first_ready(bank, cap),
            Order::Fcfs { .. } | Order::Batch { .. } => self.look_in_order(),
        }
    }

    /// Rows of these banks were closed, or a refresh of theirs falls due or is over.
    pub(super) fn look_at_all(&mut self, banks: u64) {
        match self.order {
            Order::FrFcfs { cap } => banks_of(banks).for_each(|bank| self.look_first_ready(bank, cap)),
            Order::Fcfs { .. } | Order::Batch { .. } => self.look_in_order(),
        }
    }

    /// Sets a bank's candidate.
    #[inline(always)]
    fn want(&mut self, bank: usize, kind: usize, slot: u8, age: u32) {
        self.candidates.set(&self.timing, &self.clocks, bank, kind, slot, age);
        self.page.stays(bank);
    }

    /// Gives the requests small numbers again, in their order.
    #[cold]
    #[inline(never)]
    pub(super) fn renumber(&mut self) {
        self.queues.renumber();
        self.look_at_all(self.timing.those(|_| true));
    }
}
