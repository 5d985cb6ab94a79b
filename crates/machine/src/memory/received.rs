//! Which lines of packets no core has asked for since a device wrote them, and who had them when one did.
//!
//! DDIO's own counter says whether a line was in the LLC when the device wrote it. Whether it is still there when a core comes for
//! it is another question, which no counter of lookups answers: those are of tables and descriptors, too, and of lines that a core
//! has had before.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use units::Line;

use super::{Hierarchy, LevelCounters};
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
    fn touch(&mut self, line: Line) -> bool {
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
    /// ([`super::MemoryCounters::first_touch`]).
    pub fn watch_packets(&mut self, lines: Range<u64>) {
        self.received = UntouchedLines::new(lines);
    }

    /// A device writes `count` lines from `first` on, `beyond` cores' own caches or into one: what lies there already is not asked for.
    #[inline(always)]
    pub(super) fn note_received(&mut self, first: Line, count: u64, beyond: bool) {
        self.received.written(first, count, beyond);
    }

    /// A core has asked for `line` beyond its own caches, and `served` had it.
    #[inline(always)]
    pub(super) fn note_touch(&mut self, line: Line, served: Served) {
        if self.received.touch(line) {
            let LevelCounters { hits, misses } = &mut self.counters.first_touch;
            *(if served == Served::Dram { misses } else { hits }) += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use probe::{Access, Request};
    use proptest::prelude::*;
    use units::{Addr, Clos, CoreId, Ps};

    use super::super::tenants_tests::spec;
    use super::super::{Consumer, DmaTarget, Inclusion, LlcSpec, MemorySpec, Ways};
    use super::*;

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

        /// Few sets and ways, so that lines leave before a core comes for them.
        #[test]
        fn first_touches_are_of_lines_that_no_core_had_since_and_hit_unless_memory_serves_them(
            inclusion in prop::sample::select(vec![Inclusion::NonInclusive, Inclusion::Inclusive, Inclusion::Victim]),
            io_ways in 0u32..5,
            steps in prop::collection::vec((0u8..5, 0u16..2, 0u64..60, 1u64..6), 1..200),
        ) {
            let of = spec(32, 2, inclusion, 1.0);
            let llc = LlcSpec { tenants: None, io_ways: Ways::Count(io_ways), ..of.llc };
            let mut memory = Hierarchy::new(&MemorySpec { llc, ..of }, 2, "machine").unwrap();
            memory.watch_packets(10..50);
            let (mut untouched, mut expected, mut now) = (BTreeSet::new(), LevelCounters::default(), Ps::ZERO);
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
                        let (addr, access) = (Addr(line * 64), if step == 2 { Access::Store } else { Access::Load });
                        let request = Request { addr, bytes: 8, site: 0, access, clos: Clos(0), core: CoreId(core), mapping: 0 };
                        let served = memory.access(&request, now).served;
                        if untouched.remove(&line) {
                            prop_assert!(!matches!(served, Served::L1 | Served::L2), "{served:?}: a core had it");
                            *(if served == Served::Dram { &mut expected.misses } else { &mut expected.hits }) += 1;
                        }
                    }
                }
            }
            prop_assert_eq!(memory.counters().first_touch, expected);
        }
    }
}
