//! What a kernel's driver does to an IOMMU that maps each buffer before a transfer and unmaps it after: invalidations, and who waits for them.
//!
//! In strict mode each unmap has its translation invalidated, and the core waits until that is done. The IOMMU does one
//! after the other, whoever asks. In lazy mode unmapped addresses wait in a queue of their core, and are given out again
//! after an invalidation of everything: once a queue is full, or some time after its first entry. Either way an address that
//! is mapped anew was never asked for since: its first use misses. Source: Linux, `drivers/iommu/dma-iommu.c` (`iova_fq`,
//! 256 entries and 10 ms), `drivers/iommu/intel/dmar.c` (`qi_submit_sync`).
//!
//! An unmapped page is known by its place here, where a kernel has an address for each mapping. So two buffers in one page
//! share its translation. Page tables stay where they are, and those above the last level are left alone by an unmap, as
//! the kernel's hint says (IH) when it frees none of them. Left out: the entry that mapping writes, and its line.

use serde::{Deserialize, Serialize};
use units::Ps;

/// What becomes of the translations of a buffer that is unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invalidated {
    /// They are gone.
    Its,
    /// They stay, and nobody asks for them.
    Later,
    /// All that there are are gone.
    All,
}

/// The unmapping side of an IOMMU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Unmaps {
    /// Of a core, how many wait at most until all is invalidated, and for how long; [`None`] where each is at once.
    queue: Option<(u32, Ps)>,
    /// What an invalidation takes.
    takes: Ps,
    /// Of each core, what it has unmapped since all was invalidated, and when the first of it was.
    queued: Vec<(u32, Ps)>,
    /// When the IOMMU has done what it was asked to invalidate.
    invalidated: Ps,
    /// Instructions of a mapping, and of an unmapping.
    instructions: (u32, u32),
}

impl Unmaps {
    /// See the fields.
    pub(super) fn new(queue: Option<(u32, Ps)>, takes: Ps, instructions: (u32, u32)) -> Unmaps {
        Unmaps { queue, takes, queued: Vec::new(), invalidated: Ps::ZERO, instructions }
    }

    /// Instructions of a mapping, and of an unmapping.
    pub(super) fn instructions(&self) -> (u32, u32) {
        self.instructions
    }

    /// Core `core` unmaps a buffer at `now`.
    pub(super) fn unmap(&mut self, core: usize, now: Ps) -> Invalidated {
        let Some((most, longest)) = self.queue else { return Invalidated::Its };
        if self.queued.len() <= core {
            self.queued.resize(core + 1, (0, Ps::ZERO));
        }
        let (count, since) = &mut self.queued[core];
        if *count == 0 {
            *since = now;
        }
        *count += 1;
        if *count < most && now - *since < longest {
            return Invalidated::Later;
        }
        self.queued.fill((0, Ps::ZERO));
        Invalidated::All
    }

    /// An invalidation is asked for at `now`: it is done after those before it.
    pub(super) fn invalidate(&mut self, now: Ps) {
        self.invalidated = self.invalidated.max(now) + self.takes;
    }

    /// When all that were asked for are done.
    pub(super) fn invalidated(&self) -> Ps {
        self.invalidated
    }
}

#[cfg(test)]
mod tests {
    use super::super::twin_tests::spec as memory_spec;
    use super::super::{Hierarchy, Inclusion, IommuCounters, IommuMode, IommuSpec};
    use units::{Addr, Line, Ps, Size, Span};

    const PAGE_LINES: u64 = 64;

    fn machine(spec: &IommuSpec) -> Hierarchy {
        let mut memory = memory_spec(Inclusion::NonInclusive, 0b1100, 2);
        memory.copy_table = None;
        let mut memory = Hierarchy::new(&memory, 2, "machine").unwrap();
        memory.translate_devices(spec, Addr(1 << 30), "machine.iommu").unwrap();
        memory
    }

    fn spec(mode: IommuMode) -> IommuSpec {
        let invalidation = (mode != IommuMode::On).then_some(Span::from_ns(500.0));
        IommuSpec { mode, invalidation, iotlb_entries: 64, ..IommuSpec::default() }
    }

    fn page(page: u64) -> (Line, u64) {
        (Line(page * PAGE_LINES), PAGE_LINES)
    }

    fn nth(i: u64) -> Ps {
        Ps::from_ns(10_000) * (i + 1)
    }

    /// `rounds` times each of eight buffers, a page each, is written by a device and unmapped.
    fn counted(spec: &IommuSpec, rounds: u64) -> IommuCounters {
        let mut memory = machine(spec);
        for i in 0..8 * rounds {
            memory.dma_write(page(i % 8).0, 1, nth(i));
            memory.unmap_for_device(0, [page(i % 8)].into_iter(), nth(i));
        }
        memory.iommu_counters().unwrap()
    }

    #[test]
    fn what_is_unmapped_is_walked_for_again_and_waited_for_at_once_or_together() {
        let counts = [IommuMode::On, IommuMode::Strict, IommuMode::Lazy].map(|mode| counted(&spec(mode), 64));
        // Eight pages fit; unmapped ones are another address when they come again.
        assert_eq!(counts.map(|c| c.misses), [8, 512, 512]);
        // The upper levels are read once, and again after the first invalidation of everything; the second one ends it.
        assert_eq!(counts.map(|c| c.references), [8 + 3, 512 + 3, 512 + 3 * 2]);
        assert_eq!(counts.map(|c| c.unmapped), [0, 512, 512]);
        assert_eq!(counts.map(|c| c.invalidations), [0, 512, 2]);
        assert_eq!(counts.map(|c| c.invalidating), [0, 512, 2].map(|n| Ps::from_ns(500) * n));
    }

    #[test]
    fn an_unmapped_page_gives_its_entry_up_in_strict_mode_and_keeps_it_in_lazy_mode() {
        // Of eight entries four are for pages that stay mapped, and two other buffers come in turn.
        for (mode, misses) in [(IommuMode::Strict, 0), (IommuMode::Lazy, 4 * 8)] {
            let mut memory = machine(&IommuSpec { iotlb_entries: 8, ..spec(mode) });
            let read_kept = |memory: &mut Hierarchy, at: Ps| {
                (0..4).for_each(|kept| _ = memory.dma_read(page(kept).0, 1, at));
            };
            read_kept(&mut memory, nth(0));
            let before = memory.iommu_counters().unwrap().misses;
            for round in 0..8 {
                for i in 0..6 {
                    let at = nth(1 + round * 6 + i);
                    memory.dma_write(page(8 + i % 2).0, 1, at);
                    memory.unmap_for_device(0, [page(8 + i % 2)].into_iter(), at);
                }
                read_kept(&mut memory, nth(1 + round * 6 + 5));
            }
            assert_eq!(memory.iommu_counters().unwrap().misses - before, 48 + misses, "{mode:?}");
        }
    }

    #[test]
    fn invalidations_are_done_one_after_the_other_whoever_asks() {
        let mut memory = machine(&spec(IommuMode::Strict));
        let buffers = |n: u64| (0..n).map(page);
        assert_eq!(memory.unmap_for_device(0, buffers(3), nth(0)), Ps::from_ns(1500));
        assert_eq!(memory.unmap_for_device(1, buffers(2), nth(0) + Ps::from_ns(100)), Ps::from_ns(2400));
        assert_eq!(memory.unmap_for_device(1, buffers(1), nth(1)), Ps::from_ns(500));
        assert_eq!(memory.unmap_for_device(1, buffers(0), nth(1)), Ps::ZERO);
        assert_eq!(memory.iommu_counters().unwrap().invalidating, Ps::from_ns(4400));
        // Without time nobody waits, and what was invalidated is gone all the same.
        memory.dma_read(page(0).0, 1, nth(2));
        memory.set_untimed(true);
        assert_eq!(memory.unmap_for_device(0, buffers(1), nth(2)), Ps::ZERO);
        memory.set_untimed(false);
        let misses = memory.iommu_counters().unwrap().misses;
        memory.dma_read(page(0).0, 1, nth(3));
        assert_eq!(memory.iommu_counters().unwrap().misses, misses + 1);
    }

    #[test]
    fn a_queue_is_flushed_when_it_is_full_or_old_and_with_it_those_of_others() {
        let lazy = IommuSpec { flush_unmaps: Some(4), flush_every: Some(Span::from_ns(1e6)), ..spec(IommuMode::Lazy) };
        let mut memory = machine(&lazy);
        let mut unmap = |core: usize, at: Ps| memory.unmap_for_device(core, [page(1)].into_iter(), at) > Ps::ZERO;
        // The fourth of a core; what the other one has queued is done with it.
        let told: Vec<bool> = [0, 1, 1, 1, 0, 0, 0].map(|core| unmap(core, nth(0))).into();
        assert_eq!(told, [false, false, false, false, false, false, true]);
        let told: Vec<bool> = [1, 1, 1].map(|core| unmap(core, nth(1))).into();
        assert_eq!(told, [false; 3]);
        // A millisecond after the first.
        assert!(!unmap(0, nth(2)));
        assert!(unmap(1, nth(101)));
        assert!(!unmap(0, nth(201)), "done with the other one's");
    }

    #[test]
    fn two_buffers_in_a_page_share_its_translation() {
        let mut memory = machine(&spec(IommuMode::Strict));
        memory.dma_write(Line(0), 1, nth(0));
        memory.unmap_for_device(0, [(Line(32), 16)].into_iter(), nth(0));
        memory.dma_write(Line(0), 1, nth(1));
        // One across two pages has both invalidated by one invalidation.
        memory.dma_write(Line(60), 8, nth(2));
        memory.unmap_for_device(0, [(Line(60), 8)].into_iter(), nth(2));
        memory.dma_write(Line(60), 8, nth(3));
        let counters = memory.iommu_counters().unwrap();
        assert_eq!((counters.misses, counters.invalidations), (2 + 1 + 2, 2));
    }

    #[test]
    fn settings_of_modes_that_have_no_use_for_them_are_refused() {
        let refused = |spec: IommuSpec| spec.check("machine.iommu").unwrap_err().to_string();
        let (on, strict, lazy) = (spec(IommuMode::On), spec(IommuMode::Strict), spec(IommuMode::Lazy));
        let unused = refused(IommuSpec { map_instructions: Some(100), ..on });
        assert_eq!(
            unused,
            "machine.iommu.map_instructions = 100 with mode = \"on\": allowed is mode = \"strict\" or \"lazy\" (otherwise nothing is mapped or unmapped)"
        );
        let unused = refused(IommuSpec { flush_unmaps: Some(4), ..strict.clone() });
        assert!(
            unused.starts_with("machine.iommu.flush_unmaps = 4 with mode = \"strict\": allowed is mode = \"lazy\"")
        );
        let large = refused(IommuSpec { page: Size::from_bytes(2 << 20), ..strict.clone() });
        assert!(large.starts_with("machine.iommu.page = 2 MiB with mode = \"strict\": allowed is 4 KiB"), "{large}");
        let none = refused(IommuSpec { flush_unmaps: Some(0), ..lazy.clone() });
        assert!(none.starts_with("machine.iommu.flush_unmaps = 0: allowed is 1 to 65536"), "{none}");
        let long = refused(IommuSpec { invalidation: Some(Span::from_ns(1e7)), ..strict.clone() });
        assert!(long.starts_with("machine.iommu.invalidation = 10 ms: allowed is at most 1 ms"), "{long}");
        let late = refused(IommuSpec { flush_every: Some(Span::from_ns(2e9)), ..lazy });
        assert!(late.starts_with("machine.iommu.flush_every = 2 s: allowed is at most 1 s"), "{late}");
        let many = refused(IommuSpec { unmap_instructions: Some(200_000), ..strict });
        assert!(many.starts_with("machine.iommu.unmap_instructions = 200000: allowed is 0 to 100000"), "{many}");
    }
}
