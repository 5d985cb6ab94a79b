//! An agent beside the cores that has a cache of its own: an integrated GPU, whose L2 asks the LLC for what it misses.
//!
//! To directory, snoops, devices and victims it is one core more, with its L2 in place of that core's: whoever writes a line
//! takes it from the agent, a line that it has written comes from it, and what it reads may come from where DDIO has put it. A
//! store of a line that it does not own asks for the line, as a core's does. Its requests are not translated by the IOMMU.
//!
//! Or it is not coherent: its L2 asks memory past all caches, and nobody hears of what that has. Software keeps them apart: it
//! [flushes](Hierarchy::flush) what caches have of a line before the agent uses it, and [empties](Hierarchy::empty_agent) the agent's
//! L2 before others do. Without that each has what the other had, as on such a machine.

use probe::{Access, Request};
use units::{Clos, CoreId, LINE_BYTES, Line, Ps};

use stats::Path;

use super::behind::Fill;
use super::llc::{Requester, SliceArrival};
use super::pending::Asked;
use super::{ALL_WAYS, Hierarchy, Inclusion, Latest, LevelCounters, Private, Snooped};
use crate::cache::{CacheSpec, Slot, TagArray};
use crate::simt::{Coming, SharedAnswer, SimtBacking};
use crate::{MachineError, Memory, Reply, Served};

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
    #[inline]
    pub fn use_by_agent(&mut self, by: AgentAccess, now: Ps, llc: &mut LevelCounters) -> SharedAnswer {
        match self.is_short_for(by.core) {
            true => self.use_shortly(by, now, llc),
            false => self.use_at_length(by, now, llc),
        }
    }

    /// [`Hierarchy::use_by_agent`], whatever takes part.
    #[inline(never)]
    pub(super) fn use_at_length(&mut self, by: AgentAccess, now: Ps, llc: &mut LevelCounters) -> SharedAnswer {
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
        SharedAnswer { slot: self.slot_of_agent(by), comes }
    }

    /// Whether nothing but the agents' caches, those of cores, an LLC that lets their copies be, its directory and DRAM that answers at
    /// once takes part in what `agent` does: [`Hierarchy::use_shortly`] is for that.
    #[inline(always)]
    pub(super) fn is_short_for(&self, agent: CoreId) -> bool {
        self.behind.is_plain()
            && self.copies.is_none()
            && self.engine.is_none()
            && self.applications.is_none()
            && self.records.is_none()
            && self.inclusive_ways.is_none()
            && self.inclusion != Inclusion::Inclusive
            && !self.protocol.asks_all()
            && !self.llc.has_tenants()
            && self.cores[usize::from(agent.0)].prefetching.is_none()
    }

    /// As [`Hierarchy::use_by_agent`], to the bit: what [`Memory::lookup`] and [`Memory::fetch`] do where
    /// [`Hierarchy::is_short_for`] holds, without the parts of an answer that an agent does not ask for.
    #[inline(always)]
    fn use_shortly(&mut self, by: AgentAccess, now: Ps, llc: &mut LevelCounters) -> SharedAnswer {
        let AgentAccess { core, clos, line, write } = by;
        let Private { l1, l2, latest, .. } = &mut self.cores[usize::from(core.0)];
        if let Some(is_all) = l1.use_own(line, write) {
            if !is_all {
                // It is to be written, and others may have it.
                l1.write_line(line);
            }
            latest.set(line, write && is_all);
            let comes = if is_all { Coming::There } else { self.fetch_shortly(by, true, None, now, llc) };
            return SharedAnswer { slot: self.slot_of_agent(by), comes };
        }
        latest.set(line, false);
        let (slot, found) = l2.find_or_place(line);
        let (exclusive, victim) = match found {
            Ok(exclusive) => (exclusive, None),
            Err(victim) => (false, victim),
        };
        let (mut place, mut second) = (Some(slot), None);
        l1.fill_if(line, write, exclusive, |below| {
            if !l2.take_over(below) {
                second = l2.fill(below, ALL_WAYS, true, true).unwrap_or(None);
                place = l2.find(line);
            }
            true
        });
        let number = place.map(|slot| l2.number_of(slot));
        if victim.is_some() || second.is_some() {
            let share = self.share_of(clos);
            for victim in [victim, second].iter().flatten() {
                self.settle_victim(victim, core, share, now);
            }
        }
        let upgrade = found.is_ok() && write && !exclusive;
        if found.is_ok() && !upgrade {
            return SharedAnswer { slot: number, comes: Coming::There };
        }
        let comes = self.fetch_shortly(by, upgrade, place, now, llc);
        SharedAnswer { slot: if upgrade { self.slot_of_agent(by) } else { number }, comes }
    }

    /// [`Memory::fetch`] for [`Hierarchy::use_shortly`], once victims have settled; the line is at `place` of the agent's L2 where that
    /// is known.
    #[inline(never)]
    fn fetch_shortly(
        &mut self,
        by: AgentAccess,
        upgrade: bool,
        place: Option<Slot>,
        now: Ps,
        llc: &mut LevelCounters,
    ) -> Coming {
        let AgentAccess { core, clos, line, write } = by;
        let (from, share, spot) = (Requester::Core(core), self.share_of(clos), self.llc.spot(line));
        let SliceArrival { at, distance, .. } = self.llc.take_in(spot, from, now);
        let others = self.directory.get(line) & !(1 << core.0);
        let mut snooped = Snooped::Nothing;
        if others != 0 {
            let invalidations = self.counters.invalidations;
            snooped = self.snoop(line, others, write, from, share, at);
            self.counters.invalidations = invalidations;
        }
        let back = distance + self.llc.carry(spot, from, false, at);
        let shared = snooped != Snooped::Nothing && !write;
        let looked_up = at + self.llc.latency();
        let mut ready = looked_up + back;
        let mut from_memory = false;
        if upgrade && self.keep_or_bring_in(core, line, true, share, at) {
        } else if snooped != Snooped::Dirty && self.take_from_llc(line, spot, core, shared, share, at) {
            llc.hits += 1;
            self.class_llc(clos).hits += 1;
        } else if snooped != Snooped::Nothing {
            ready += self.protocol.answer();
        } else {
            llc.misses += 1;
            self.class_llc(clos).misses += 1;
            from_memory = true;
            ready = self.behind.drams[0].post(line, false, looked_up) + back;
            self.behind.in_flight.insert(line, ready);
            if self.inclusion != Inclusion::Victim {
                self.fill_llc(line, spot, false, share, at);
            }
        }
        self.received.touch(line);
        if !from_memory && let Some(until) = self.behind.in_flight.get(line, ready) {
            ready = until;
        }
        self.directory.insert(line, core);
        if !shared {
            let Private { l1, l2, .. } = &mut self.cores[usize::from(core.0)];
            l1.set_exclusive(line, true);
            match place {
                Some(slot) => l2.make_exclusive(slot),
                None => drop(l2.set_exclusive(line, true)),
            }
        }
        Coming::At(ready)
    }

    /// The host is asked to bring what an agent's use of `line` meets; nothing is changed.
    #[inline(always)]
    pub(super) fn prefetch_for_agent(&self, agent: CoreId, line: Line) {
        let Ok(victim) = self.cores[usize::from(agent.0)].l2.goes_for(line) else { return };
        self.llc.prefetch(self.llc.spot(line));
        self.directory.prefetch(line);
        if let Some(victim) = victim {
            self.llc.prefetch(self.llc.spot(victim));
        }
    }

    /// The slot of its L2 that has the line, if one has.
    fn slot_of_agent(&self, by: AgentAccess) -> Option<usize> {
        let l2 = &self.cores[usize::from(by.core.0)].l2;
        l2.find(by.line).map(|slot| l2.number_of(slot))
    }

    /// An agent that is not coherent uses a line at `now`: from its own L2, or from memory, whatever caches have of it.
    pub fn use_past_caches(&mut self, by: AgentAccess, now: Ps) -> SharedAnswer {
        let l2 = &mut self.cores[usize::from(by.core.0)].l2;
        if let Some(slot) = l2.use_line(by.line) {
            if by.write {
                l2.set_dirty(slot, true);
            }
            return SharedAnswer { slot: self.slot_of_agent(by), comes: Coming::There };
        }
        let victim = l2.fill(by.line, ALL_WAYS, by.write, true);
        self.enter(Requester::Core(by.core));
        if let Ok(Some(victim)) = victim
            && victim.dirty
        {
            self.behind.write(victim.line, now);
        }
        let mut asked = Asked {
            core: by.core,
            path: Path::default(),
            ready: now,
            distance: Ps::ZERO,
            served: Served::Dram,
            copy: Ps::ZERO,
        };
        let comes = match self.behind.read_apart(by.line, now, &mut asked) {
            Fill::At(at) => Coming::At(at),
            Fill::Later(ticket) => Coming::Later(ticket),
        };
        SharedAnswer { slot: self.slot_of_agent(by), comes }
    }

    /// Core `core` takes `count` lines from `first` on out of all caches at `now`, and memory gets what they have modified (`clflushopt`):
    /// when the LLC has answered and memory has taken in all, and copies onto them have ended. Controllers by command take in at once.
    pub fn flush(&mut self, core: CoreId, first: Line, count: u64, now: Ps) -> Ps {
        self.enter(Requester::Core(core));
        let mut latest = if count > 0 { now + self.llc.latency() } else { now };
        for line in (first.0..first.0 + count).map(Line) {
            if self.copies.is_some() {
                self.before_write(line, now);
            }
            self.behind.accepted = Ps::ZERO;
            let clear = self.take_from_caches(line, false, Requester::Core(core), now).max(self.behind.accepted);
            latest = latest.max(self.after_copy_for_device(line, now, clear));
        }
        latest
    }

    /// The L2 of the agent `core`, which is not coherent, gives up all lines at `now`, and memory gets those that it has modified: when
    /// it has them.
    pub fn empty_agent(&mut self, core: CoreId, now: Ps) -> Ps {
        self.enter(Requester::Core(core));
        let mut modified = Vec::new();
        self.cores[usize::from(core.0)]
            .l2
            .drain(|_, _| true, |_, victim| modified.extend(victim.dirty.then_some(victim.line)));
        modified.into_iter().fold(now, |latest, line| latest.max(self.behind.write(line, now).1))
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
    /// Whether it sees what caches have, and they what it writes.
    pub coherent: bool,
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
            // Slots come round, and a division takes as long as all else of a hit.
            let at = (line - self.packets) as usize;
            return Line(self.places[if at < self.places.len() { at } else { at % self.places.len() }].into());
        }
        let known = self.tables.iter().rev().find(|&&(first, _)| first <= line);
        let &(first, there) = known.unwrap_or(&self.tables[0]);
        Line(there + u64::from(line.saturating_sub(first)))
    }

    #[inline(always)]
    fn prefetch(&self, lines: impl Iterator<Item = Line>) {
        if self.coherent {
            lines.for_each(|line| self.memory.prefetch_for_agent(self.core, line));
        }
    }

    #[inline]
    fn use_line(&mut self, line: Line, write: bool, now: Ps) -> SharedAnswer {
        let by = AgentAccess { core: self.core, clos: self.clos, line, write };
        let answer = match self.coherent {
            true => self.memory.use_by_agent(by, now, self.llc),
            false => self.memory.use_past_caches(by, now),
        };
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

    fn past_caches(memory: &mut Hierarchy, line: u64, write: bool, ns: f64) -> SharedAnswer {
        let by = AgentAccess { core: AGENT, clos: Clos(0), line: Line(line), write };
        memory.use_past_caches(by, Ps::from_ns_f64(ns))
    }

    #[test]
    fn an_agent_that_is_not_coherent_has_what_memory_has_until_caches_are_flushed() {
        let mut memory = memory();
        core(&mut memory, 9, Access::Store, 0.0);
        memory.dma_write(Line(5), 1, Ps::from_ns(500));
        let before = (memory.counters(), memory.dram_counters());
        for line in [9, 5] {
            assert!(
                matches!(past_caches(&mut memory, line, false, 1_000.0).comes, Coming::At(at) if at > Ps::from_ns(1_020))
            );
        }
        // Nobody has heard of it: two reads of DRAM, and the core and the LLC have what they had.
        let reads = memory.dram_counters().reads - before.1.reads;
        assert_eq!((memory.counters(), reads, memory.dram_counters().writes), (before.0, 2, before.1.writes));
        assert_eq!(core(&mut memory, 9, Access::Store, 1_500.0).served, crate::Served::L1);
        assert_eq!(past_caches(&mut memory, 9, false, 2_000.0).comes, Coming::There, "it is its own L2's");
        // Memory gets both modified lines, and caches have neither.
        memory.flush(CoreId(0), Line(5), 1, Ps::from_ns(3_000));
        memory.flush(CoreId(0), Line(9), 1, Ps::from_ns(3_000));
        assert_eq!(memory.dram_counters().writes - before.1.writes, 2);
        assert_eq!(memory.flush(CoreId(0), Line(9), 1, Ps::from_ns(4_000)), Ps::from_ns(4_020), "nobody has it");
        assert_eq!(core(&mut memory, 9, Access::Load, 5_000.0).served, crate::Served::Dram);
    }

    #[test]
    fn who_flushes_more_than_memory_takes_in_at_once_waits_for_it() {
        let size = Size::from_bytes(4096 * 64);
        let base = MemorySpec { copy_table: None, ..spec(Inclusion::NonInclusive, 0b1100, 2) };
        let caches = CacheSpec { size, ways: 4, latency: base.l2.latency };
        let mut memory = Hierarchy::new(&MemorySpec { l2: caches, ..base }, 2, "machine").unwrap();
        for line in 0..600 {
            core(&mut memory, line, Access::Store, 100.0 * line as f64);
        }
        let now = Ps::from_ns(1_000_000);
        let few = memory.flush(CoreId(0), Line(0), 8, now) - now;
        let many = memory.flush(CoreId(0), Line(8), 592, Ps::from_ns(2_000_000)) - Ps::from_ns(2_000_000);
        assert!(few == Ps::from_ns(20) && many > few, "{few:?} and {many:?}");
    }

    #[test]
    fn an_agent_that_is_not_coherent_gives_up_its_lines_and_memory_gets_what_it_has_written() {
        let mut memory = memory();
        past_caches(&mut memory, 3, true, 0.0);
        past_caches(&mut memory, 4, false, 0.0);
        let before = memory.dram_counters();
        // A core that reads meanwhile has what memory has.
        assert_eq!(core(&mut memory, 3, Access::Load, 500.0).served, crate::Served::Dram);
        assert!(memory.empty_agent(AGENT, Ps::from_ns(1_000)) > Ps::from_ns(1_000));
        assert_eq!(memory.dram_counters().writes - before.writes, 1);
        assert_eq!(memory.empty_agent(AGENT, Ps::from_ns(2_000)), Ps::from_ns(2_000));
        assert_ne!(past_caches(&mut memory, 4, false, 3_000.0).comes, Coming::There);
        // Eight lines in two sets: a ninth puts a modified one out.
        for line in 0..9 {
            past_caches(&mut memory, 2 * line, true, 4_000.0);
        }
        assert!(memory.dram_counters().writes > before.writes + 1);
    }

    proptest::proptest! {
        /// What an agent does past the caches changes nothing that cores, devices and the LLC find; and once its lines are flushed
        /// and its L2 is empty, no cache has them.
        #[test]
        fn nobody_hears_of_what_is_done_past_the_caches(
            steps in proptest::collection::vec((0u8..4, 0u64..24, proptest::bool::ANY), 1..120),
        ) {
            let (mut with, mut without) = (memory(), memory());
            for (n, &(who, line, write)) in steps.iter().enumerate() {
                let ns = 1_000.0 * n as f64;
                let access = if write { Access::Store } else { Access::Load };
                match who {
                    0 => {
                        past_caches(&mut with, line, write, ns);
                    }
                    1 => {
                        for memory in [&mut with, &mut without] {
                            memory.dma_write(Line(line), 1, Ps::from_ns_f64(ns));
                        }
                    }
                    2 => {
                        for memory in [&mut with, &mut without] {
                            memory.flush(CoreId(0), Line(line), 1, Ps::from_ns_f64(ns));
                            proptest::prop_assert!(!memory.llc.has(memory.llc.spot(Line(line))));
                            proptest::prop_assert_eq!(memory.directory.get(Line(line)), 0);
                        }
                    }
                    _ => {
                        let served = core(&mut with, line, access, ns).served;
                        proptest::prop_assert_eq!(served, core(&mut without, line, access, ns).served);
                    }
                }
                proptest::prop_assert_eq!(with.counters(), without.counters());
            }
            with.empty_agent(AGENT, Ps::from_ns(10_000_000));
            proptest::prop_assert_eq!(with.cores[1].l2.occupancy(), 0);
        }
    }

    #[test]
    fn lines_of_programs_lie_where_their_tables_and_slots_do() {
        let (mut memory, mut llc) = (memory(), LevelCounters::default());
        let places: Vec<u32> = (0..64).map(|n| 10_000 + n * 3).collect();
        let (memory, llc) = (&mut memory, &mut llc);
        let tables = &[(0, 100), (8, 500)];
        let (core, clos, next_answer) = (AGENT, Clos(0), Ps::MAX);
        let coherent = true;
        let shared =
            AgentMemory { memory, core, clos, coherent, tables, packets: 16, places: &places, llc, next_answer };
        let at: Vec<u64> = [0, 7, 8, 15, 16, 17, 79, 80].map(|line| shared.place(line).0).into();
        assert_eq!(at, [100, 107, 500, 507, 10_000, 10_003, 10_189, 10_000]);
    }
}
