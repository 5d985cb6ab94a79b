//! Where requests wait: one in the ingress register, the others in slots, chained into lists.
//!
//! There is one queue, or one of reads and one of writes (a write drain), and one of output where that goes first. Which
//! lists there are is the scheduler's affair ([`super::order`]): one a bank and queue, or a few for all banks.

use super::candidates::LAST_AGE;
use super::clocks::back;
use super::{BANKS, NIL, OUTPUT};
use crate::MachineError;
use crate::dram::map::DramLocation;
use crate::dram::policy::{ControllerSpec, MOST_ENTRIES, Writes};
use serde::{Deserialize, Serialize};

/// How a request found its bank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(in crate::dram) enum RowOutcome {
    /// With its row open.
    #[default]
    Hit,
    /// Closed.
    Miss,
    /// With another row open.
    Conflict,
}

/// A request in the controller.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct QueuedRequest {
    pub id: u64,
    pub place: DramLocation,
    pub write: bool,
    /// It waits in the queue that goes first.
    pub output: bool,
    /// Clock of acceptance, internal.
    pub accepted: u32,
}

impl QueuedRequest {
    #[inline(always)]
    pub fn bank(&self) -> usize {
        self.place.bank as usize & (BANKS - 1)
    }
}

/// A request that waits, and its neighbours in its list.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct QueueSlot {
    pub entry: QueuedRequest,
    pub seq: u32,
    /// Column commands that it still needs.
    pub left: u8,
    pub begun: bool,
    pub class: RowOutcome,
    pub next: u8,
    prev: u8,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct List {
    head: u8,
    tail: u8,
}

/// A write queue is drained from `high` entries down to `low`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Drain {
    high: u32,
    low: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
// What is not by bank begins a line of the host's cache.
#[repr(align(64))]
pub(super) struct Queues {
    #[serde(with = "units::arrays")]
    slots: [QueueSlot; MOST_ENTRIES as usize],
    /// By bank and queue, or what the scheduler tells apart.
    #[serde(with = "units::arrays")]
    list: [[List; 3]; BANKS],
    /// Entries of each queue, and how many it can have.
    len: [u32; 3],
    capacity: [u32; 3],
    /// The first free slot.
    free: u8,
    /// The next sequence number, and the last one there is.
    seq: u32,
    last_seq: u32,
    /// What the ages of all but output begin with, where that goes first.
    pub behind: u32,
    /// Where writes have a queue of their own.
    drain: Option<Drain>,
    /// Which of the two queues is served.
    pub writing: usize,
    pub ingress: Option<QueuedRequest>,
}

impl Queues {
    pub fn new(spec: &ControllerSpec) -> Queues {
        let (drain, writes) = match spec.writes {
            Writes::Mixed => (None, 0),
            Writes::Drain { queue, high, low } => (Some(Drain { high, low }), queue),
        };
        let mut queues = Queues {
            slots: [QueueSlot::default(); MOST_ENTRIES as usize],
            list: [[List { head: NIL, tail: NIL }; 3]; BANKS],
            len: [0; 3],
            capacity: [spec.queue, writes, 0],
            free: 0,
            seq: 0,
            last_seq: LAST_AGE,
            behind: 0,
            drain,
            writing: 0,
            ingress: None,
        };
        queues.link_slots();
        queues
    }

    /// Gives output a queue of so many entries. See [`super::ChannelController::set_output_first`].
    pub fn add_output(&mut self, entries: u32) -> Result<(), MachineError> {
        let [queue, writes, _] = self.capacity;
        if queue + writes + entries > MOST_ENTRIES || entries == 0 {
            return Err(MachineError::new(
                "dram.controller.output_first",
                format!("{entries} entries for output, with {queue} and {writes} for writes"),
                format!("up to {MOST_ENTRIES} together"),
                "make controller.queue smaller: output has a queue as long".into(),
            ));
        }
        self.capacity[OUTPUT] = entries;
        self.last_seq = LAST_AGE >> 1;
        self.behind = self.last_seq + 1;
        self.link_slots();
        Ok(())
    }

    /// Chains the slots of all queues, which are empty.
    fn link_slots(&mut self) {
        let slots: u32 = self.capacity.iter().sum();
        for (i, slot) in (0..slots as u8).zip(&mut self.slots) {
            slot.next = if u32::from(i) + 1 == slots { NIL } else { i + 1 };
        }
    }

    /// Whether nothing waits, the ingress register apart.
    #[inline(always)]
    pub fn none_queued(&self) -> bool {
        // Compared as an array they would be read two at once, for which the host waits where one was just written.
        self.len[0] | self.len[1] | self.len[2] == 0
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.none_queued() && self.ingress.is_none()
    }

    #[inline(always)]
    pub fn has_room(&self, queue: usize) -> bool {
        self.len[queue] < self.capacity[queue]
    }

    /// The queue of what is no output.
    #[inline(always)]
    pub fn queue_of(&self, write: bool) -> usize {
        usize::from(write && self.drain.is_some())
    }

    #[inline(always)]
    pub fn drains(&self) -> bool {
        self.drain.is_some()
    }

    /// The oldest request of a list.
    #[inline(always)]
    pub fn head(&self, which: usize, bank: usize) -> u8 {
        self.list[bank][which].head
    }

    #[inline(always)]
    pub fn slot(&self, index: u8) -> &QueueSlot {
        &self.slots[place_of(index)]
    }

    #[inline(always)]
    pub fn slot_mut(&mut self, index: u8) -> &mut QueueSlot {
        &mut self.slots[place_of(index)]
    }

    /// Whether sequence numbers have come to an end.
    #[inline(always)]
    pub fn is_numbered_out(&self) -> bool {
        self.seq == self.last_seq
    }

    /// Gives a request a slot of its queue; the scheduler puts it into a list.
    #[inline(always)]
    pub fn take_in(&mut self, entry: QueuedRequest, queue: usize, bursts: u8) -> u8 {
        let index = self.free;
        let slot = &mut self.slots[place_of(index)];
        self.free = slot.next;
        *slot = QueueSlot {
            entry,
            seq: self.seq,
            left: bursts,
            begun: false,
            class: RowOutcome::Hit,
            next: NIL,
            prev: NIL,
        };
        self.seq += 1;
        self.len[queue] += 1;
        index
    }

    /// Appends to a list; whether it was empty.
    #[inline(always)]
    pub fn push(&mut self, index: u8, which: usize, bank: usize) -> bool {
        let list = &mut self.list[bank][which % 3];
        let tail = list.tail;
        list.tail = index;
        if tail == NIL {
            list.head = index;
            true
        } else {
            self.slots[place_of(tail)].next = index;
            self.slots[place_of(index)].prev = tail;
            false
        }
    }

    /// Takes a request out of its list and its queue; whether an older one stays.
    #[inline(always)]
    pub fn take_out(&mut self, index: u8, queue: usize, which: usize, bank: usize) -> bool {
        let slot = self.slots[place_of(index)];
        let list = &mut self.list[bank][which % 3];
        if slot.prev == NIL {
            list.head = slot.next;
        } else {
            self.slots[place_of(slot.prev)].next = slot.next;
        }
        if slot.next == NIL {
            list.tail = slot.prev;
        } else {
            self.slots[place_of(slot.next)].prev = slot.prev;
        }
        self.slots[place_of(index)].next = self.free;
        self.free = index;
        self.len[queue] -= 1;
        slot.prev != NIL
    }

    /// Whether the write queue has the line.
    pub fn holds(&self, place: DramLocation) -> bool {
        let mut at = self.list[place.bank as usize & (BANKS - 1)][1].head;
        while at != NIL {
            let slot = &self.slots[place_of(at)];
            if (slot.entry.place.row, slot.entry.place.column) == (place.row, place.column) {
                return true;
            }
            at = slot.next;
        }
        false
    }

    /// Starts or ends a write drain; whether it did.
    #[inline(always)]
    pub fn switch(&mut self) -> bool {
        let Some(Drain { high, low }) = self.drain else { return false };
        let [reads, writes, _] = self.len;
        let writing = if self.writing == 0 {
            writes >= high || (reads == 0 && writes > 0)
        } else {
            writes > 0 && (reads == 0 || writes > low)
        };
        if usize::from(writing) == self.writing {
            return false;
        }
        self.writing = usize::from(writing);
        true
    }

    /// Gives the requests small numbers again, in their order.
    pub fn renumber(&mut self) {
        let mut waiting: Vec<u8> = Vec::new();
        for list in self.list.iter().flatten() {
            let mut at = list.head;
            while at != NIL {
                waiting.push(at);
                at = self.slots[place_of(at)].next;
            }
        }
        waiting.sort_by_key(|&i| self.slots[place_of(i)].seq);
        for (seq, &i) in waiting.iter().enumerate() {
            self.slots[place_of(i)].seq = seq as u32;
        }
        self.seq = waiting.len() as u32;
    }

    pub fn rebase(&mut self, by: u32) {
        let waiting = self.slots.iter_mut().map(|slot| &mut slot.entry).chain(&mut self.ingress);
        waiting.for_each(|entry| back(&mut entry.accepted, by));
    }
}

/// Where a slot stands; no check is needed, as their number is a power of two.
#[inline(always)]
fn place_of(slot: u8) -> usize {
    usize::from(slot) & (MOST_ENTRIES as usize - 1)
}
