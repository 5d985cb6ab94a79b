//! Which lines of packets no core has asked for since a device wrote them, and who had them when one did.
//!
//! DDIO's own counter says whether a line was in the LLC when the device wrote it. Whether it is still there when a core comes for
//! it is another question, which no counter of lookups answers: those are of tables and descriptors, too, and of lines that a core
//! has had before.
//!
//! Whoever comes first, a load, a store or a prefetch, is counted once for a line, by what it is: a prefetch finds what the device has left
//! as a load would have, and the load behind it finds what the prefetch has brought.

use std::ops::Range;

use probe::{Access, Request};
use serde::{Deserialize, Serialize};
use units::Line;

use super::Hierarchy;
use crate::Served;

/// Lines of packets, a bit each: whether a device has written it and no core has asked for it since.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct UntouchedLines {
    first: u64,
    lines: u64,
    untouched: Vec<u64>,
}

impl UntouchedLines {
    /// Of lines `of`.
    fn new(of: Range<u64>) -> UntouchedLines {
        let lines = of.end.saturating_sub(of.start);
        UntouchedLines { first: of.start, lines, untouched: vec![0; lines.div_ceil(64) as usize] }
    }

    /// A device has written `count` lines from `line` on, `beyond` cores' own caches or into one.
    #[inline]
    fn written(&mut self, line: Line, count: u64, beyond: bool) {
        let within = |line: u64| line.saturating_sub(self.first).min(self.lines);
        let (mut at, end) = (within(line.0), within(line.0 + count));
        while at < end {
            let n = (64 - at % 64).min(end - at);
            let (word, bits) = (&mut self.untouched[(at / 64) as usize], u64::MAX >> (64 - n) << (at % 64));
            *word = if beyond { *word | bits } else { *word & !bits };
            at += n;
        }
    }

    /// Whether a core asks for `line` for the first time since.
    #[inline(always)]
    pub(super) fn touch(&mut self, line: Line) -> bool {
        let at = line.0.wrapping_sub(self.first);
        if at >= self.lines {
            return false;
        }
        let (word, bit) = (&mut self.untouched[(at / 64) as usize], 1 << (at % 64));
        let first = *word & bit != 0;
        *word &= !bit;
        first
    }
}

impl Hierarchy {
    /// Packets lie in `lines` from now on: first accesses to what devices write there are counted
    /// ([`super::MemoryCounters::first_touch`], [`super::MemoryCounters::first_prefetch`]).
    pub fn watch_packets(&mut self, lines: Range<u64>) {
        self.received = UntouchedLines::new(lines);
    }

    /// A device writes `count` lines from `first` on, `beyond` cores' own caches or into one: what lies there already is not asked for.
    #[inline(always)]
    pub(super) fn note_received(&mut self, first: Line, count: u64, beyond: bool) {
        self.received.written(first, count, beyond);
    }

    /// A core's `request` has gone beyond its own caches, and `served` had the line.
    #[inline(always)]
    pub(super) fn note_touch(&mut self, request: &Request, served: Served) {
        if self.received.touch(request.addr.line()) {
            let counters = &mut self.counters;
            let is_prefetch = request.access == Access::Prefetch;
            let of = if is_prefetch { &mut counters.first_prefetch } else { &mut counters.first_touch };
            of.count(served != Served::Dram);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use units::{Addr, Clos, CoreId, Ps};

    use super::super::tenants_tests::spec;
    use super::super::{Consumer, DmaTarget, Inclusion, LevelCounters, LlcSpec, MemorySpec, Ways};
    use super::*;
    use crate::Memory;
    use crate::cache::PrefetcherSpec;

    proptest! {
        #[test]
        fn as_a_set_of_lines(
            of in (0u64..200, 0u64..300),
            steps in prop::collection::vec((0u8..4, 0u64..520, 1u64..140), 1..80),
        ) {
            let (first, end) = (of.0, of.0 + of.1);
            let (mut received, mut set) = (UntouchedLines::new(first..end), BTreeSet::new());
            for (step, line, count) in steps {
                match step {
                    0 | 1 => {
                        received.written(Line(line), count, step == 0);
                        for line in (line..line + count).filter(|line| (first..end).contains(line)) {
                            if step == 0 { set.insert(line) } else { set.remove(&line) };
                        }
                    }
                    _ => prop_assert_eq!(received.touch(Line(line)), set.remove(&line)),
                }
            }
        }

        /// Few sets and ways, so that lines leave before a core comes for them. Who prefetches, a core or its prefetcher, makes no difference.
        #[test]
        fn who_comes_first_for_a_line_is_counted_as_what_it_is_and_hits_unless_memory_serves_it(
            inclusion in prop::sample::select(vec![Inclusion::NonInclusive, Inclusion::Inclusive, Inclusion::Victim]),
            io_ways in 0u32..5,
            prefetcher in prop::sample::select(vec![None, Some(PrefetcherSpec::NextLine { degree: 1 })]),
            steps in prop::collection::vec((0u8..6, 0u16..2, 0u64..60, 1u64..6), 1..200),
        ) {
            let of = spec(32, 2, inclusion, 1.0);
            let llc = LlcSpec { tenants: None, io_ways: Ways::Count(io_ways), ..of.llc };
            let mut memory = Hierarchy::new(&MemorySpec { llc, prefetcher, ..of }, 2, "machine").unwrap();
            memory.watch_packets(10..50);
            let (mut untouched, mut now) = (BTreeSet::new(), Ps::ZERO);
            let (mut touched, mut prefetched) = (LevelCounters::default(), LevelCounters::default());
            for (step, core, line, count) in steps {
                now += Ps::from_ns(500);
                let written = (line..line + count).filter(|line| (10..50).contains(line));
                let consumer = Consumer { core: CoreId(core), clos: Clos(0) };
                match step {
                    0 => {
                        memory.dma_write(Line(line), count, now);
                        untouched.extend(written);
                    }
                    1 => {
                        memory.dma_write_to(DmaTarget::L2, consumer, Line(line), count, now);
                        written.for_each(|line| { untouched.remove(&line); });
                    }
                    _ => {
                        let access = [Access::Store, Access::Prefetch, Access::Load, Access::Load][usize::from(step) - 2];
                        let (addr, core) = (Addr(line * 64), CoreId(core));
                        let request = Request { addr, bytes: 8, site: 0, access, clos: Clos(0), core, mapping: 0 };
                        let served = memory.access(&request, now).served;
                        let mut came = vec![(line, access, served)];
                        while let Some((request, lookup)) = memory.next_prefetch(core) {
                            prop_assert_eq!(request.access, Access::Prefetch);
                            came.push((request.addr.line().0, request.access, memory.fetch(&request, &lookup, now).served()));
                        }
                        for (line, access, served) in came {
                            if untouched.remove(&line) {
                                prop_assert!(!matches!(served, Served::L1 | Served::L2), "{served:?}: a core had it");
                                let of = if access == Access::Prefetch { &mut prefetched } else { &mut touched };
                                *(if served == Served::Dram { &mut of.misses } else { &mut of.hits }) += 1;
                            }
                        }
                    }
                }
            }
            let counters = memory.counters();
            prop_assert_eq!((counters.first_touch, counters.first_prefetch), (touched, prefetched));
        }
    }
}
