//! Run to completion: the thread that receives and sends does the work itself, between the two. No hand-over, no other core.
//!
//! It is what DPDK's l3fwd and VPP's workers do: a core a queue, of which each takes a burst, works on it, and sends it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use functions::Verdict;
use packet::Packet;

use crate::backend::{Backend, Committed, CommittedSlots, slots_in_turn, without_verdict};
use crate::layout::{RING_ENTRIES, WARP_LANES};
use crate::program::MemberWork;
use crate::worker::TaskWorker;
use crate::{RouterError, RouterProgram};

/// A task is done when it is posted, by the thread that posts it.
pub struct RunToCompletion {
    worker: TaskWorker,
    /// By slot.
    packets: Box<[Packet]>,
    verdicts: Box<[Option<Verdict>]>,
    /// By slot, where packets may become several.
    fragments: Box<[Vec<Packet>]>,
    /// Not yet told.
    done: Vec<Committed>,
    burst: Vec<Verdict>,
    /// Of the packet that was taken last.
    latest: Vec<Packet>,
}

impl RunToCompletion {
    /// Room for `slots` packets, a power of two.
    ///
    /// # Errors
    /// No slots, or no power of two.
    pub fn new(program: &RouterProgram, slots: u64) -> Result<RunToCompletion, RouterError> {
        if !slots.is_power_of_two() || slots > 1 << 31 {
            let allowed = "must be a power of two, up to 2^31";
            return Err(RouterError::Setting { what: "slots", came: slots.to_string(), allowed });
        }
        let cuts = program.mtu().is_some();
        Ok(RunToCompletion {
            worker: TaskWorker::new(program.function().clone(), cuts),
            packets: (0..slots).map(|_| Packet::default()).collect(),
            verdicts: vec![None; slots as usize].into(),
            fragments: vec![Vec::new(); if cuts { slots as usize } else { 0 }].into(),
            done: Vec::new(),
            burst: Vec::with_capacity(256),
            latest: Vec::new(),
        })
    }

    /// Slots for batches of `batch` packets: as few as will do, so that packets stay in the core's nearest cache.
    pub fn slots_for(batch: u32) -> u64 {
        2 * u64::from(batch.max(WARP_LANES)).next_power_of_two()
    }

    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & (self.packets.len() - 1)
    }
}

impl Backend for RunToCompletion {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn slots(&self) -> u64 {
        self.packets.len() as u64
    }

    fn put(&mut self, number: u64, packet: &mut Packet) {
        let place = self.place(number);
        std::mem::swap(&mut self.packets[place], packet);
    }

    unsafe fn slots_from(&mut self, number: u64, most: usize) -> Option<&mut [Packet]> {
        let range = slots_in_turn(number, most, self.packets.len());
        Some(&mut self.packets[range])
    }

    fn post(&mut self, first: u64, count: u32) -> Result<bool, RouterError> {
        let (place, n) = (self.place(first), count as usize);
        let before_the_end = n.min(self.packets.len() - place);
        // A task over the end of the slots is done in two parts.
        for (from, n) in [(place, before_the_end), (0, n - before_the_end)] {
            if n == 0 {
                continue;
            }
            self.burst.clear();
            let fragments = &mut self.fragments;
            let (worker, burst, packets) = (&mut self.worker, &mut self.burst, &mut self.packets[from..from + n]);
            // As where a worker panics: an error, after which nothing of this is used, and what was sent is whole.
            let done = catch_unwind(AssertUnwindSafe(|| {
                worker.process(packets, burst, |place, fragment| fragments[from + place].push(fragment));
            }));
            done.map_err(|_| RouterError::Panicked { backend: "cpu" })?;
            for (verdict, &found) in self.verdicts[from..from + n].iter_mut().zip(&self.burst) {
                *verdict = Some(found);
            }
        }
        self.done.push(Committed { first, count });
        Ok(true)
    }

    fn room(&self) -> u64 {
        RING_ENTRIES
    }

    fn poll(&mut self, out: &mut Vec<Committed>) -> Result<(), RouterError> {
        out.append(&mut self.done);
        Ok(())
    }

    fn take(&mut self, number: u64, packet: &mut Packet) -> Result<Verdict, RouterError> {
        let place = self.place(number);
        std::mem::swap(&mut self.packets[place], packet);
        if let Some(fragments) = self.fragments.get_mut(place) {
            self.latest.clear();
            self.latest.append(fragments);
        }
        self.verdicts[place].take().ok_or_else(|| without_verdict("cpu", number))
    }

    unsafe fn committed_slots(&mut self, first: u64, count: u32) -> Option<CommittedSlots<'_>> {
        let range = slots_in_turn(first, count as usize, self.packets.len());
        Some(CommittedSlots {
            packets: &self.packets[range.clone()],
            verdicts: &mut self.verdicts[range.clone()],
            fragments: self.fragments.get_mut(range).unwrap_or_default(),
        })
    }

    fn fragments(&self) -> &[Packet] {
        &self.latest
    }

    fn shares(&self) -> Vec<MemberWork> {
        self.worker.shares()
    }

    fn stop(&mut self) -> Result<(), RouterError> {
        Ok(())
    }
}
