//! An agent beside the cores that has a cache of its own: an integrated GPU, whose L2 asks the LLC for what it misses.
//!
//! To directory, snoops, devices and victims it is one core more, with its L2 in place of that core's: whoever writes a line
//! takes it from the agent, a line that it has written comes from it, and what it reads may come from where DDIO has put it. A
//! store of a line that it does not own asks for the line, as a core's does. Its requests are not translated by the IOMMU.

use probe::{Access, Request};
use units::{Clos, CoreId, LINE_BYTES, Line, Ps};

use super::{Hierarchy, Latest, LevelCounters, Private};
use crate::cache::{CacheSpec, TagArray};
use crate::simt::{Coming, SharedAnswer, SimtBacking};
use crate::{MachineError, Memory, Reply};

/// An agent that uses a line, and how.
#[derive(Clone, Copy, Debug)]
pub struct AgentAccess {
    /// Its number among the cores.
    pub core: CoreId,
    /// Its class of service.
    pub clos: Clos,
    /// What it uses.
    pub line: Line,
    /// Whether it writes.
    pub write: bool,
}

impl Hierarchy {
    /// Core `core` is an agent from now on, with `l2` in place of its caches. Nothing may have been done yet.
    ///
    /// # Errors
    /// A cache that cannot be.
    pub fn make_agent(&mut self, core: CoreId, l2: &CacheSpec, path: &str) -> Result<(), MachineError> {
        let l2 = TagArray::new(l2.sets(path)?, l2.ways);
        let Some(private) = self.cores.get_mut(usize::from(core.0)) else { return Ok(()) };
        // Its own L1s are beyond what others see: one line stands for them.
        *private = Private { l1: TagArray::new(1, 1), l2, latest: Latest::new(1), tlb: None, prefetching: None };
        Ok(())
    }

    /// An agent uses a line at `now`, in order of time over all who ask. What is counted of cores is left as it was; lookups of the
    /// LLC are added to `llc`.
    pub fn use_by_agent(&mut self, by: AgentAccess, now: Ps, llc: &mut LevelCounters) -> SharedAnswer {
        let access = if by.write { Access::Store } else { Access::Load };
        let addr = by.line.addr();
        let bytes = LINE_BYTES as u16;
        let request = Request { addr, bytes, site: 0, access, clos: by.clos, core: by.core, mapping: 0 };
        let (l1, l2) = (self.counters.l1, self.counters.l2);
        let lookup = self.lookup(&request);
        let comes = if lookup.hit.is_some() {
            if lookup.has_victims() {
                self.settle(&lookup, &request, now);
            }
            Coming::There
        } else {
            let before = self.counters;
            let reply = self.fetch(&request, &lookup, now);
            let after = std::mem::replace(&mut self.counters, before);
            llc.hits += after.llc.hits - before.llc.hits;
            llc.misses += after.llc.misses - before.llc.misses;
            // What leaves the LLC for it goes to DRAM all the same.
            self.counters.writebacks = after.writebacks;
            match reply {
                Reply::Done(response) => Coming::At(response.at),
                Reply::Pending(ticket) => Coming::Later(ticket),
            }
        };
        (self.counters.l1, self.counters.l2) = (l1, l2);
        let l2 = &self.cores[usize::from(by.core.0)].l2;
        let slot = l2.find(by.line).map(|slot| slot.set() * l2.ways() as usize + slot.way() as usize);
        SharedAnswer { slot, comes }
    }
}

/// The server's memory as an integrated GPU's shader cores see it: their programs number lines of tables from 0 on, one table behind
/// the other, and then those of packets, slot by slot.
#[derive(Debug)]
pub struct AgentMemory<'a> {
    /// What it shares.
    pub memory: &'a mut Hierarchy,
    /// Its number among the cores.
    pub core: CoreId,
    /// Its class of service.
    pub clos: Clos,
    /// The first line of each table in programs, in order, and where it lies.
    pub tables: &'a [(u32, u64)],
    /// The first line of packets in programs.
    pub packets: u32,
    /// Where each line of each slot lies.
    pub places: &'a [u32],
    /// Its lookups of the LLC.
    pub llc: &'a mut LevelCounters,
    /// The least time of an answer to what it has asked for so far; [`Ps::MAX`] at first.
    pub next_answer: Ps,
}

impl SimtBacking for AgentMemory<'_> {
    const IS_SHARED: bool = true;

    #[inline]
    fn place(&self, line: u32) -> Line {
        if line >= self.packets {
            return Line(self.places[(line - self.packets) as usize % self.places.len()].into());
        }
        let at = self.tables.partition_point(|&(first, _)| first <= line);
        let (first, there) = self.tables[at.saturating_sub(1)];
        Line(there + u64::from(line.saturating_sub(first)))
    }

    #[inline]
    fn use_line(&mut self, line: Line, write: bool, now: Ps) -> SharedAnswer {
        let by = AgentAccess { core: self.core, clos: self.clos, line, write };
        let answer = self.memory.use_by_agent(by, now, self.llc);
        if matches!(answer.comes, Coming::Later(_)) {
            self.next_answer = self.memory.next().unwrap_or(Ps::MAX);
        }
        answer
    }

    #[inline]
    fn next_answer(&self) -> Ps {
        self.next_answer
    }
}

#[cfg(test)]
mod tests {
    use units::{Size, Span};

    use super::super::twin_tests::spec;
    use super::super::{Inclusion, MemorySpec};
    use super::*;

    const AGENT: CoreId = CoreId(1);

    fn memory() -> Hierarchy {
        let spec = MemorySpec { copy_table: None, ..spec(Inclusion::NonInclusive, 0b1100, 2) };
        let mut memory = Hierarchy::new(&spec, 2, "machine").unwrap();
        let l2 = CacheSpec { size: Size::from_bytes(8 * 64), ways: 4, latency: Span::from_ns(0.0) };
        memory.make_agent(AGENT, &l2, "machine.gpu").unwrap();
        memory
    }

    fn agent(memory: &mut Hierarchy, line: u64, write: bool, ns: f64) -> (SharedAnswer, LevelCounters) {
        let mut llc = LevelCounters::default();
        let by = AgentAccess { core: AGENT, clos: Clos(0), line: Line(line), write };
        (memory.use_by_agent(by, Ps::from_ns_f64(ns), &mut llc), llc)
    }

    fn core(memory: &mut Hierarchy, line: u64, access: Access, ns: f64) -> crate::Response {
        let addr = Line(line).addr();
        let request = Request { addr, bytes: 8, site: 0, access, clos: Clos(1), core: CoreId(0), mapping: 0 };
        memory.access(&request, Ps::from_ns_f64(ns))
    }

    #[test]
    fn an_agent_finds_what_a_device_has_put_into_the_llc_and_nothing_once_that_is_written_anew() {
        let mut memory = memory();
        memory.dma_write(Line(5), 1, Ps::ZERO);
        let before = memory.counters();
        let (answer, llc) = agent(&mut memory, 5, false, 1_000.0);
        // The LLC alone: 20 ns.
        assert_eq!(answer.comes, Coming::At(Ps::from_ns(1_020)));
        assert_eq!((llc.hits, llc.misses), (1, 0));
        // It counts for no core.
        assert_eq!(memory.counters(), before);
        assert_eq!(agent(&mut memory, 5, false, 2_000.0).0.comes, Coming::There);
        memory.dma_write(Line(5), 1, Ps::from_ns(3_000));
        assert_ne!(agent(&mut memory, 5, false, 4_000.0).0.comes, Coming::There);
    }

    #[test]
    fn an_agent_and_a_core_take_lines_from_each_other() {
        let mut memory = memory();
        core(&mut memory, 9, Access::Store, 0.0);
        let (answer, llc) = agent(&mut memory, 9, false, 1_000.0);
        // From the core: neither the LLC nor DRAM has it.
        assert_eq!(answer.comes, Coming::At(Ps::from_ns(1_030)));
        assert_eq!(llc, LevelCounters::default());
        assert_ne!(
            agent(&mut memory, 9, true, 2_000.0).0.comes,
            Coming::There,
            "it is shared, and has to be asked for"
        );
        assert_eq!(agent(&mut memory, 9, true, 3_000.0).0.comes, Coming::There, "it is its own now");
        let found = core(&mut memory, 9, Access::Load, 4_000.0);
        assert_eq!(found.served, crate::Served::Snoop);
    }

    #[test]
    fn lines_of_programs_lie_where_their_tables_and_slots_do() {
        let (mut memory, mut llc) = (memory(), LevelCounters::default());
        let places: Vec<u32> = (0..64).map(|n| 10_000 + n * 3).collect();
        let (memory, llc) = (&mut memory, &mut llc);
        let tables = &[(0, 100), (8, 500)];
        let (core, clos, next_answer) = (AGENT, Clos(0), Ps::MAX);
        let shared = AgentMemory { memory, core, clos, tables, packets: 16, places: &places, llc, next_answer };
        let at: Vec<u64> = [0, 7, 8, 15, 16, 17, 79, 80].map(|line| shared.place(line).0).into();
        assert_eq!(at, [100, 107, 500, 507, 10_000, 10_003, 10_189, 10_000]);
    }
}
