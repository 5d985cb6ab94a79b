//! The functional way through the memory system: the same state as in time, without time.
//!
//! A warm machine is one whose caches, directories, rows and tables hold what they hold after long use. To bring them there no
//! queue has to be waited in, so a reference is looked up, fetched and settled by the code that does it in time, and what keeps
//! time (slices, wires, links, banks, buses, controllers, copy engines) answers at once and is left as it was. Where the order
//! of references is the same both ways leave the same state; a test draws machines and holds them to it.
//!
//! Time still goes on, in steps as coarse as the caller likes: refreshes close rows and tenants bring lines by it. A prefetcher's
//! lines come as soon as they are asked for, where in time they wait for a free entry. With controllers the row of a channel is
//! opened only where no request waits for it. What was under way before is answered in its time, and whoever joins it waits with it.

use probe::{Access, Request};
use units::{CoreId, Line, Ps};

use super::tlb::Translation;
use super::{Hierarchy, PrivateLevels};
use crate::{Memory, Served};

/// A memory system whose time stands still while this is held. See the module header.
pub struct Warming<'a> {
    memory: &'a mut Hierarchy,
    /// Whether it stood still before.
    before: bool,
}

impl Hierarchy {
    /// References go the functional way until the result is dropped.
    pub fn warm(&mut self) -> Warming<'_> {
        let before = self.behind.fabric.untimed;
        self.set_untimed(true);
        Warming { memory: self, before }
    }

    /// References go the functional way from now on, or in time again. What was under way goes on.
    pub fn set_untimed(&mut self, untimed: bool) {
        if self.behind.fabric.untimed == untimed {
            return;
        }
        self.llcs_mut().for_each(|llc| llc.set_untimed(untimed));
        self.behind.set_untimed(untimed);
        if let Some(engine) = &mut self.engine {
            engine.untimed = untimed;
        }
        if let Some(copies) = &mut self.copies {
            copies.set_untimed(untimed);
        }
        self.protocol.set_untimed(untimed);
        self.set_iommu_untimed(untimed);
    }
}

impl Drop for Warming<'_> {
    fn drop(&mut self) {
        self.memory.set_untimed(self.before);
    }
}

impl Warming<'_> {
    /// A core makes a request at about `now`, with the loads of its page walk and the lines that its prefetcher asks for: who
    /// serves it.
    pub fn access(&mut self, request: &Request, now: Ps) -> Served {
        if let Translation::Walk(walk) = self.memory.translate(request) {
            for &addr in walk.entries() {
                self.look_up(&Request { addr, bytes: 8, access: Access::Load, ..*request }, now);
            }
        }
        let served = self.look_up(request, now);
        self.prefetch(request.core, now);
        served
    }

    pub(super) fn cores(&self) -> usize {
        self.memory.cores.len()
    }

    /// As [`Warming::access`], of a line that the core is to have, whatever its TLB and prefetcher know.
    pub(super) fn bring(&mut self, request: &Request) {
        self.look_up(request, Ps::ZERO);
    }

    fn look_up(&mut self, request: &Request, now: Ps) -> Served {
        let lookup = self.memory.lookup(request);
        if let Some(served) = lookup.hit {
            if lookup.has_victims() {
                self.memory.settle(&lookup, request, now);
            }
            return served;
        }
        self.memory.fetch(request, &lookup, now).served()
    }

    fn prefetch(&mut self, core: CoreId, now: Ps) {
        while let Some((request, lookup)) = self.memory.next_prefetch(core) {
            self.memory.fetch(&request, &lookup, now);
        }
    }

    /// As [`Memory::private_levels`].
    #[inline(always)]
    pub(crate) fn private_levels(&mut self, core: CoreId) -> Option<PrivateLevels<'_>> {
        self.memory.private_levels(core)
    }

    /// As [`Memory::count_private_hits`].
    #[inline(always)]
    pub(crate) fn count_private_hits(&mut self, l1: u64, l2: u64) {
        self.memory.count_private_hits(l1, l2);
    }

    /// As [`Memory::takes_whole_copies`].
    #[inline]
    pub(crate) fn takes_whole_copies(&self) -> bool {
        self.memory.takes_whole_copies()
    }

    /// As [`Memory::takes_copy`].
    #[inline]
    pub(crate) fn takes_copy(&mut self, src: &Request, dst: &Request) -> bool {
        self.memory.takes_copy(src, dst)
    }

    /// The memory system copies what `src` reads to where `dst` writes, if it takes that ([`Memory::takes_copy`]).
    pub fn copy(&mut self, src: &Request, dst: &Request, now: Ps) -> Served {
        self.memory.copy(src, dst, now).served()
    }

    /// As [`Hierarchy::dma_write_packet`].
    pub fn write_packet(&mut self, queue: usize, first: Line, count: u64, now: Ps) {
        self.memory.dma_write_packet(queue, first, count, now);
    }

    /// As [`Hierarchy::dma_write`].
    pub fn dma_write(&mut self, first: Line, count: u64, now: Ps) {
        self.memory.dma_write(first, count, now);
    }

    /// As [`Hierarchy::dma_read`].
    pub fn dma_read(&mut self, first: Line, count: u64, now: Ps) {
        self.memory.dma_read(first, count, now);
    }

    /// As [`Hierarchy::write_descriptors`].
    pub fn write_descriptors(&mut self, line: Line, now: Ps) {
        self.memory.write_descriptors(line, now);
    }

    /// As [`Hierarchy::read_descriptors`].
    pub fn read_descriptors(&mut self, line: Line, now: Ps) {
        self.memory.read_descriptors(line, now);
    }
}
