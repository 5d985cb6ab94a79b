//! The memory system that shader cores share: a port a core, L1 where there is one, L2 banks, DRAM channels.
//!
//! A request reserves its core's port, the L2 bank of its line and the DRAM in the order in which it is made. A warp
//! instruction's sectors leave its core one a clock. A line of 64 bytes is fetched once: who asks for it while it
//! comes waits until it is there. Stores are posted; the L2 takes them without fetching the line and writes it back
//! when it has to go. DRAM answers in order of issue, or is behind [controllers](super::controllers) that reorder. Lines are spread over banks and channels by an exclusive or of address bits, as GPUs do. Devices read and write DRAM, and take a line out of the L2 when they write it.
//!
//! An integrated GPU has no DRAM of its own: its L2 is a cache of the server's memory system ([`SimtBacking`]), which is asked
//! at the clock at which the instruction is issued, so that all who share it ask in order of time. What the request takes to
//! come there (port, network, bank, the L2's lookup) is added to the answer, which may itself come later. Loads hide it and stores do not wait, so it moves
//! requests of all shader cores by as much.

use serde::{Deserialize, Serialize};
use units::{Line, Ps, Ticket};

use super::backing::{Coming, SharedAnswer, SimtBacking, spread};
use super::controllers::OwnControllers;
use super::later::{LaterLines, WaitingWarp, WarpPlace, is_later};
use super::merge::{Inst, WarpOperation, WarpPlacement, both};
use super::spec::{CacheLevelSpec, MemoryOrder, SimtSpec};
use crate::MachineError;
use crate::cache::{CacheSpec, Lru, TagArray, WriteOutcome};
use crate::divisor::Divisor;
use crate::dram::{Dram, DramCounters, later};

/// Sectors of a warp instruction, and where its packets lie.
#[derive(Clone, Copy, Debug)]
pub struct Sectors<'a> {
    /// The lines with those of their sectors that are touched, as [`super::Code::words`] has them.
    pub words: &'a [u32],
    /// Of its packets.
    pub at: &'a WarpPlacement,
}

/// Lines that are worked out together.
const GROUP: usize = 64;

/// What the memory system has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Sub, Serialize, Deserialize)]
pub struct SimtMemoryCounters {
    /// Sectors that cores asked for or wrote.
    pub sectors: u64,
    /// Of them, found in an L1.
    pub l1_hits: u64,
    /// Loads that reached the L2.
    pub l2_loads: u64,
    /// Of them, found there, or on their way.
    pub l2_hits: u64,
    /// Lines that devices wrote or read.
    pub device_lines: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct SectorCache {
    tags: TagArray<Lru>,
    /// When the line of each way is there, clocks.
    ready: Vec<u64>,
    latency: u64,
}

impl SectorCache {
    fn new(spec: &CacheLevelSpec, path: &str) -> Result<SectorCache, MachineError> {
        let cache = CacheSpec { size: spec.size, ways: spec.ways, latency: units::Span::from_ns(0.0) };
        let sets = cache.sets(path)?;
        Ok(SectorCache {
            tags: TagArray::new(sets, spec.ways),
            ready: vec![0; sets as usize * spec.ways as usize],
            latency: u64::from(spec.latency),
        })
    }

    /// The place of a line that is there, or on its way.
    #[inline]
    fn hit(&mut self, line: Line) -> Option<usize> {
        let slot = self.tags.use_line(line)?;
        Some(slot.set() * self.tags.ways() as usize + slot.way() as usize)
    }

    /// Puts in a line that is not there and comes at `ready`: its place.
    fn fill(&mut self, line: Line, ready: u64) -> usize {
        let (at, _) = self.tags.place(line, false);
        self.ready[at] = ready;
        at
    }

    /// Where a line is from now on: the place of its [`SectorCache::ready`], whether it is there already, and the dirty line that
    /// has to go for it.
    #[inline(always)]
    fn place(&mut self, line: Line, dirty: bool) -> (usize, bool, Option<Line>) {
        let (at, written) = self.tags.place(line, dirty);
        match written {
            WriteOutcome::InPlace => (at, true, None),
            WriteOutcome::Filled(out) => (at, false, out.ok().flatten().filter(|out| out.dirty).map(|out| out.line)),
        }
    }
}

/// When each bank of the L2 is free.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Banks {
    free: Vec<u64>,
    count: Divisor,
}

impl Banks {
    fn new(banks: u32) -> Banks {
        Banks { free: vec![0; banks as usize], count: Divisor::new(banks) }
    }

    /// When the bank of a line has dealt with a sector that comes to it at `now`; `more` of the same line follow it.
    #[inline(always)]
    fn through(&mut self, line: Line, now: u64, more: u64) -> u64 {
        let free = &mut self.free[self.count.divide(line.0 as u32).1 as usize];
        let through = later(*free, now) + 1;
        *free = through + more;
        through
    }
}

/// A clock, and how to divide by it: each line of DRAM does, and a division takes as long as all else of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Period {
    ps: u64,
    /// 2^64 / `ps`, rounded up where it is no power of two.
    inverse: u64,
    /// Times below it are divided by multiplying: of a number the product is too large by less than that times `ps`, so that
    /// the quotient is exact while this is below 2^64.
    quick: u64,
}

impl Period {
    fn new(ps: u64) -> Period {
        let ps = ps.max(1);
        let quick = if (2..1 << 20).contains(&ps) { 1 << 44 } else { 0 };
        Period { ps, inverse: (u64::MAX / ps).wrapping_add(1), quick }
    }

    /// Clocks that `time` picoseconds take, the last one whole.
    #[inline(always)]
    fn clocks(self, time: u64) -> u64 {
        if time < self.quick {
            return ((u128::from(time + self.ps - 1) * u128::from(self.inverse)) >> 64) as u64;
        }
        time.div_ceil(self.ps)
    }
}

/// What shader cores share. Times are core clocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SimtMemory {
    l1: Vec<SectorCache>,
    /// The L1 of each core: issue ports of one core share it.
    l1_of: Vec<u32>,
    /// When each core's port is free.
    ports: Vec<u64>,
    l2: SectorCache,
    banks: Banks,
    dram: Dram,
    interconnect: u64,
    period: Period,
    counters: SimtMemoryCounters,
    later: LaterLines,
    /// In place of `dram` and the L2's tags; lent to who steps the shader cores.
    controllers: Option<Box<OwnControllers>>,
}

impl SimtMemory {
    /// An empty memory system.
    ///
    /// # Errors
    /// Caches or DRAM that cannot be.
    pub fn new(spec: &SimtSpec) -> Result<SimtMemory, MachineError> {
        let l1 = match &spec.l1 {
            Some(level) => vec![SectorCache::new(level, "gpu.l1")?; spec.cores.div_ceil(spec.issue_ports) as usize],
            None => Vec::new(),
        };
        let mut l2 = SectorCache::new(&spec.l2, "gpu.l2")?;
        let mut controllers = None;
        if spec.memory.controller != MemoryOrder::InOrder {
            let tags = std::mem::replace(&mut l2.tags, TagArray::new(1, 1));
            controllers = OwnControllers::new(spec, tags)?.map(Box::new);
        }
        Ok(SimtMemory {
            l1,
            l1_of: (0..spec.cores).map(|core| core / spec.issue_ports).collect(),
            ports: vec![0; spec.cores as usize],
            l2,
            banks: Banks::new(spec.l2.banks),
            dram: Dram::new(&spec.memory.dram()?, "gpu.memory")?,
            interconnect: u64::from(spec.interconnect),
            period: Period::new(spec.frequency.period().0),
            counters: SimtMemoryCounters::default(),
            later: LaterLines::default(),
            controllers,
        })
    }

    /// What it has done.
    pub fn counters(&self) -> SimtMemoryCounters {
        self.counters
    }

    /// What the DRAM has done.
    pub fn dram(&self) -> DramCounters {
        self.controllers.as_ref().map_or_else(|| self.dram.counters(), |own| own.counters())
    }

    /// The DRAM's peak, bytes a second.
    pub fn peak_bytes_per_s(&self) -> f64 {
        self.controllers.as_ref().map_or_else(|| self.dram.peak_bytes_per_s(), |own| own.peak_bytes_per_s())
    }

    /// When the data of a load that finds nothing and meets nobody are there, clocks after it is issued.
    pub fn unloaded_miss(&self) -> u64 {
        let own = self.controllers.as_ref().map(|own| own.unloaded_miss());
        let dram = self.period.clocks(own.unwrap_or_else(|| self.dram.unloaded_miss()).0);
        // The sector takes a clock at the port and one at the bank.
        2 + 2 * self.interconnect + self.l2.latency + dram
    }

    /// When the same load finds its line in the L2.
    pub fn unloaded_hit(&self) -> u64 {
        2 + 2 * self.interconnect + self.l2.latency
    }

    /// The sectors of an instruction of core `core` that is issued at `now`: when the last of them is there, where memory answers in
    /// order of issue.
    #[cfg(test)]
    pub(super) fn access(&mut self, core: usize, inst: &Inst, sectors: &Sectors<'_>, now: u64) -> u64 {
        let warp = WarpPlace { core: core as u32, slot: 0 };
        self.access_over(warp, inst, sectors, now, &mut super::backing::OwnMemory).0
    }

    /// As [`SimtMemory::access`], where `shared` is behind the cores; and for how many lines `warp` waits whose time is not known.
    #[inline]
    pub(super) fn access_over<S: SimtBacking>(
        &mut self,
        warp: WarpPlace,
        inst: &Inst,
        sectors: &Sectors<'_>,
        now: u64,
        shared: &mut S,
    ) -> (u64, u32) {
        let (core, mut unknown) = (warp.core as usize, 0);
        let from = self.ports[core].max(now);
        let (mut port, mut latest) = (from, from);
        let mut lines = [0; GROUP];
        for words in sectors.words.chunks(GROUP) {
            for (line, &word) in lines.iter_mut().zip(words) {
                let of_program = sectors.at.line(word);
                *line = if S::IS_SHARED { shared.place(of_program).0 as u32 } else { spread(of_program) };
            }
            let lines = lines[..words.len()].iter().map(|&line| Line(line.into()));
            if S::IS_SHARED {
                shared.prefetch(lines.clone());
            } else {
                self.l2.tags.prefetch_sets(lines.clone());
            }
            let group = words.iter().copied().zip(lines);
            let (left, there) = if inst.kind == WarpOperation::Store {
                self.stores(core, group, port, now, shared)
            } else {
                self.loads(warp, group, (port, now), &mut unknown, shared)
            };
            (port, latest) = (left, latest.max(there));
        }
        self.counters.sectors += port - from;
        self.ports[core] = port;
        (latest, unknown)
    }

    /// Sectors of an instruction leave the core one a clock from `port` on: when the last has left it, and when the last is there of
    /// those whose time is known. The others are counted in `unknown`.
    fn loads<S: SimtBacking>(
        &mut self,
        warp: WarpPlace,
        group: impl Iterator<Item = (u32, Line)>,
        (mut port, issued): (u64, u64),
        unknown: &mut u32,
        shared: &mut S,
    ) -> (u64, u64) {
        let of_core = self.l1_of[warp.core as usize];
        let core = of_core as usize;
        let (mut latest, mut asked, mut missed) = (port, 0, 0);
        for (word, line) in group {
            let (now, mut more) = (port + 1, u64::from(both(word)));
            port = now + more;
            if let Some(l1) = self.l1.get_mut(core) {
                // The second sector finds there what the first brings.
                let place = l1.hit(line);
                let there = place.map(|place| l1.ready[place]);
                let hits = u64::from(there.is_some()) + std::mem::take(&mut more);
                self.counters.l1_hits += hits;
                latest = latest.max(if hits > 0 { port + l1.latency } else { 0 });
                if S::IS_SHARED
                    && let (Some(place), Some(mark)) = (place, there)
                    && is_later(mark)
                {
                    let from = self.later.in_l1_from(mark, of_core, place);
                    self.later.wait(mark, WaitingWarp { warp, of_core, from, l1: None });
                    *unknown += 1;
                    continue;
                }
                if let Some(there) = there {
                    latest = latest.max(there);
                    continue;
                }
            }
            asked += 1 + more;
            let found = self.through::<S>(line, now, more) + self.l2.latency;
            if S::IS_SHARED {
                let (ready, there) = self.ask(line, false, issued, found, shared);
                missed += u64::from(!there);
                if is_later(ready) {
                    let l1 = self.l1.get_mut(core).map(|l1| l1.fill(line, ready));
                    self.later.wait(ready, WaitingWarp { warp, of_core, from: found + more + self.interconnect, l1 });
                    *unknown += 1;
                    continue;
                }
                let back = later(found + more, ready) + self.interconnect;
                if let Some(l1) = self.l1.get_mut(core) {
                    l1.fill(line, back);
                }
                latest = later(latest, back);
                continue;
            }
            let (at, there, out) = self.l2.place(line, false);
            let mut back = found + more;
            if there {
                back = later(back, self.l2.ready[at]);
            } else {
                missed += 1;
                let ready = self.dram_line(line, false, found);
                let ready = self.period.clocks(ready.0);
                if let Some(out) = out {
                    self.dram_line(out, true, found);
                }
                self.l2.ready[at] = ready;
                back = later(back, ready);
            }
            back += self.interconnect;
            if let Some(l1) = self.l1.get_mut(core) {
                l1.fill(line, back);
            }
            latest = later(latest, back);
        }
        self.counters.l2_loads += asked;
        self.counters.l2_hits += asked - missed;
        (port, latest)
    }

    /// As [`SimtMemory::loads`]: when the L2 has taken the last.
    fn stores<S: SimtBacking>(
        &mut self,
        core: usize,
        group: impl Iterator<Item = (u32, Line)>,
        mut port: u64,
        issued: u64,
        shared: &mut S,
    ) -> (u64, u64) {
        let (mut latest, core) = (port, self.l1_of[core] as usize);
        for (word, line) in group {
            let (now, more) = (port + 1, u64::from(both(word)));
            port = now + more;
            // Other cores' copies are theirs to drop: lanes of different packets do not share what they write.
            let _ = self.l1.get_mut(core).map(|l1| l1.tags.remove(line));
            let taken = self.through::<S>(line, now, more);
            if S::IS_SHARED {
                self.ask(line, true, issued, taken, shared);
                latest = later(latest, taken + more);
                continue;
            }
            let (at, there, out) = self.l2.place(line, true);
            if !there {
                self.l2.ready[at] = taken;
            }
            if let Some(out) = out {
                self.dram_line(out, true, taken);
            }
            latest = later(latest, taken + more);
        }
        (port, latest)
    }

    /// When the bank of a line has dealt with a sector that leaves its core at `now`.
    #[inline(always)]
    fn through<S: SimtBacking>(&mut self, line: Line, now: u64, more: u64) -> u64 {
        // A second spread would undo the first: packets would all begin in one bank.
        let line = if S::IS_SPREAD { line } else { Line(spread(line.0 as u32).into()) };
        self.banks.through(line, now + self.interconnect, more)
    }

    /// The L2, which is asked at `found`, uses a line of `shared` for an instruction that was issued at `issued`: when it is there,
    /// or its mark, and whether it was.
    #[inline(always)]
    fn ask<S: SimtBacking>(&mut self, line: Line, write: bool, issued: u64, found: u64, shared: &mut S) -> (u64, bool) {
        let asked = if S::IN_ORDER_OF_TIME { issued } else { found };
        let now = Ps(asked * self.period.ps);
        let SharedAnswer { slot, comes } = shared.use_line(line, write, now);
        let ready = match comes {
            Coming::There => None,
            Coming::At(at) => Some(found + self.period.clocks(at.since(now).0)),
            Coming::Later(ticket) => Some(self.later.begin(ticket, slot, now, found)),
        };
        let coming = slot.and_then(|slot| self.l2.ready.get_mut(slot));
        match (coming, ready) {
            (Some(coming), Some(ready)) => *coming = ready,
            (Some(coming), None) => return (*coming, true),
            _ => {}
        }
        (ready.unwrap_or(found), comes == Coming::There)
    }

    /// What `shared` was to answer under `ticket` comes at `at`: `told` gets each warp that waits, and when it has the line.
    pub(super) fn answered(&mut self, ticket: Ticket, at: Ps, told: &mut Vec<(WarpPlace, u64)>) {
        let Some((mark, line)) = self.later.end(ticket) else { return };
        let ready = line.found + self.period.clocks(at.since(line.asked).0);
        // Another line may be there by now.
        if let Some(coming) = line.place.and_then(|place| self.l2.ready.get_mut(place)).filter(|ready| **ready == mark)
        {
            *coming = ready;
        }
        for WaitingWarp { warp, of_core, from, l1 } in line.waiting {
            let there = from.max(ready + self.interconnect);
            if let (Some(place), Some(l1)) = (l1, self.l1.get_mut(of_core as usize))
                && l1.ready[place] == mark
            {
                l1.ready[place] = there;
            }
            told.push((warp, there));
        }
    }

    /// The time of a clock.
    #[inline]
    pub(super) fn time(&self, clock: u64) -> Ps {
        Ps(clock.saturating_mul(self.period.ps))
    }

    /// Lines of the L1s are of a kernel that is over: its successor may find others' writes in their place.
    pub fn forget_l1(&mut self) {
        for l1 in &mut self.l1 {
            l1.tags.drain(|_, _| true, |_, _| {});
        }
    }

    /// A warp of `core` has acquired what others have written: lines of its L1 are of before.
    pub fn forget_l1_of(&mut self, core: usize) {
        if let Some(l1) = self.l1.get_mut(self.l1_of[core] as usize) {
            l1.tags.drain(|_, _| true, |_, _| {});
        }
    }

    /// A device writes or reads `lines` lines from `first` on: the NIC, in DRAM.
    pub fn device(&mut self, first: u32, lines: u32, write: bool, now: u64) {
        if let Some(own) = &mut self.controllers {
            let lines = (0..lines).map(|n| Line(spread(first + n).into()));
            self.counters.device_lines += lines.map(|line| u64::from(own.device(line, write, now))).sum::<u64>();
            return;
        }
        for n in 0..lines {
            let line = Line(spread(first + n).into());
            if write {
                self.l2.tags.remove(line);
            } else if self.l2.tags.find(line).is_some() {
                continue;
            }
            self.dram_line(line, write, now);
            self.counters.device_lines += 1;
        }
    }

    /// The controllers of its own DRAM, if it has some, for who steps the shader cores and [gives them
    /// back](SimtMemory::give_back).
    #[inline]
    pub(super) fn lend_controllers(&mut self) -> Option<Box<OwnControllers>> {
        self.controllers.take()
    }

    /// See [`SimtMemory::lend_controllers`].
    #[inline]
    pub(super) fn give_back(&mut self, controllers: Box<OwnControllers>) {
        self.controllers = Some(controllers);
    }

    /// All that was asked for up to `now` has come to its DRAM, where no warp waits for a line.
    pub fn settle(&mut self, now: u64) {
        if let Some(own) = &mut self.controllers {
            own.settle(now);
        }
    }

    /// When the DRAM has a line, or has taken it.
    #[inline(always)]
    fn dram_line(&mut self, line: Line, write: bool, now: u64) -> Ps {
        self.dram.post(line, write, Ps(now * self.period.ps))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::lane::OF_PACKET;
    use super::super::merge::{LANE_SHIFT, words_of};
    use super::super::spec::paper;
    use super::*;

    fn load(mask: u32) -> Inst {
        Inst { mask, word: 0, count: 0, site: 0, kind: WarpOperation::Load, waits: false, enters: false }
    }

    fn touch(
        memory: &mut SimtMemory,
        core: usize,
        kind: WarpOperation,
        sectors: &[u32],
        at: &WarpPlacement,
        now: u64,
    ) -> u64 {
        let (inst, mut words) = (Inst { kind, ..load(1) }, Vec::new());
        words_of(sectors, &mut words);
        memory.access(core, &inst, &Sectors { words: &words, at }, now)
    }

    fn at(memory: &mut SimtMemory, core: usize, sectors: &[u32], now: u64) -> u64 {
        touch(memory, core, WarpOperation::Load, sectors, &WarpPlacement::default(), now)
    }

    fn l1() -> CacheLevelSpec {
        CacheLevelSpec { size: units::Size::from_bytes(16 << 10), ways: 4, latency: 4, banks: 1 }
    }

    proptest! {
        /// An instruction's sectors take as long together as one after the other, each with an instruction of its own. The L2 is
        /// small, so that lines go; an L1 may take longer than what is behind it.
        #[test]
        fn lines_match_their_sectors(
            (has_l1, l1_latency, banks) in (any::<bool>(), prop_oneof![Just(4u32), Just(200)], prop_oneof![Just(8u32), Just(5)]),
            touched in prop::collection::vec(
                (0usize..2, any::<bool>(), prop::collection::btree_set((any::<bool>(), 0u32..32, 0u32..60), 1..150), 0u64..500),
                1..40
            ),
        ) {
            let mut spec = SimtSpec { l1: has_l1.then(|| CacheLevelSpec { latency: l1_latency, ..l1() }), ..paper() };
            spec.l2 = CacheLevelSpec { size: units::Size::from_bytes(16 << 10), banks, ..spec.l2 };
            let (mut together, mut apart) = (SimtMemory::new(&spec).unwrap(), SimtMemory::new(&spec).unwrap());
            let at = WarpPlacement { base: 960, stride: 32, slots: 40, first: 20 };
            let mut now = 0;
            for (core, store, sectors, later) in touched {
                now += later;
                let kind = if store { WarpOperation::Store } else { WarpOperation::Load };
                let sector = |&(packet, lane, n): &_| if packet { OF_PACKET | lane << LANE_SHIFT | n } else { lane * 60 + n };
                let mut sectors: Vec<u32> = sectors.iter().map(sector).collect();
                sectors.sort_unstable();
                let found = touch(&mut together, core, kind, &sectors, &at, now);
                let alone = sectors.chunks(1).map(|one| touch(&mut apart, core, kind, one, &at, now)).max();
                prop_assert_eq!(Some(found), alone);
                prop_assert_eq!(together.counters(), apart.counters());
                prop_assert_eq!(together.dram(), apart.dram());
            }
        }
    }

    #[test]
    fn an_idle_memory_takes_its_closed_form() {
        let mut memory = SimtMemory::new(&paper()).unwrap();
        let (miss, hit) = (memory.unloaded_miss(), memory.unloaded_hit());
        // 20 back and forth, 20 in the L2, 20 ns overhead, tRCD 12, CL 12, 2 bursts of a clock of 0.5 ns each.
        assert_eq!((hit, miss), (62, 62 + 20 + 12 + 12 + 2));
        assert_eq!(at(&mut memory, 0, &[100], 1000), 1000 + miss);
        assert_eq!(at(&mut memory, 1, &[100], 2000), 2000 + hit);
    }

    #[test]
    fn who_asks_for_a_line_that_comes_waits_for_it() {
        let mut memory = SimtMemory::new(&paper()).unwrap();
        let miss = memory.unloaded_miss();
        assert_eq!(at(&mut memory, 0, &[100], 1000), 1000 + miss);
        assert_eq!(at(&mut memory, 1, &[101], 1010), 1000 + miss);
        assert_eq!(memory.counters().l2_hits, 1);
        assert_eq!(memory.dram().reads, 1);
    }

    #[test]
    fn sectors_leave_a_core_one_a_clock() {
        let mut memory = SimtMemory::new(&paper()).unwrap();
        let words: Vec<u32> = (0..32).map(|n| n * 2).collect();
        at(&mut memory, 0, &words, 0);
        let hit = memory.unloaded_hit();
        assert_eq!(at(&mut memory, 0, &words, 10_000), 10_000 + hit + 31);
    }

    #[test]
    fn clocks_match_a_division() {
        for ps in [1, 2, 3, 7, 500, 567, 1000, 1024, (1 << 20) - 1, 1 << 20] {
            let period = Period::new(ps);
            let edges = [0, 1, ps - 1, ps, ps + 1, (1 << 44) - 1, 1 << 44, u64::MAX / 2];
            let near = (0..2000u64).flat_map(|n| {
                let multiple = ((n * 0x9e37_79b9_7f4a) & ((1 << 44) - 1)) / ps * ps;
                [multiple.saturating_sub(1), multiple, multiple + 1]
            });
            for time in edges.into_iter().chain(near) {
                assert_eq!(period.clocks(time), time.div_ceil(ps), "{time} by {ps}");
            }
        }
    }

    #[test]
    fn lines_are_spread_and_none_is_lost() {
        let mut places: Vec<_> = (0..1 << 16).map(spread).collect();
        // Starts of 32 slots of 2 KiB are in all channels alike.
        let channels = (0..32).fold([0; 8], |mut n, slot| {
            n[spread(slot * 32) as usize % 8] += 1;
            n
        });
        assert_eq!(channels, [4; 8]);
        places.sort_unstable();
        assert!(places.into_iter().eq(0..1 << 16));
    }

    #[test]
    fn a_stream_of_misses_saturates_the_dram() {
        let spec = paper();
        let mut memory = SimtMemory::new(&spec).unwrap();
        let (mut now, lines) = (0, 40_000u32);
        for n in 0..lines {
            now = now.max(at(&mut memory, (n % 8) as usize, &[n * 2], 0));
        }
        let bytes_per_s = f64::from(lines) * 64.0 / (now as f64 * 1e-9);
        let share = bytes_per_s / memory.peak_bytes_per_s();
        assert!((0.85..=1.0).contains(&share), "{share}");
    }

    #[test]
    fn an_l1_keeps_loads_and_lets_stores_through() {
        let mut spec = paper();
        spec.l1 = Some(l1());
        let mut memory = SimtMemory::new(&spec).unwrap();
        at(&mut memory, 0, &[8], 0);
        assert_eq!(at(&mut memory, 0, &[8], 1000), 1000 + 1 + 4);
        assert_eq!(at(&mut memory, 1, &[8], 2000), 2000 + memory.unloaded_hit());
        touch(&mut memory, 0, WarpOperation::Store, &[8], &WarpPlacement::default(), 3000);
        assert_eq!(at(&mut memory, 0, &[8], 4000), 4000 + memory.unloaded_hit());
    }

    #[test]
    fn issue_ports_of_a_core_share_its_l1() {
        let spec = SimtSpec { l1: Some(l1()), issue_ports: 4, ..paper() };
        let mut memory = SimtMemory::new(&spec).unwrap();
        at(&mut memory, 0, &[8], 0);
        // Ports 0 to 3 are of one core, 4 is of the next; each has a way of its own to memory.
        assert_eq!(at(&mut memory, 3, &[8], 1000), 1000 + 1 + 4);
        assert_eq!(at(&mut memory, 4, &[8], 2000), 2000 + memory.unloaded_hit());
        touch(&mut memory, 2, WarpOperation::Store, &[8], &WarpPlacement::default(), 3000);
        assert_eq!(at(&mut memory, 0, &[8], 4000), 4000 + memory.unloaded_hit());
        memory.forget_l1_of(1);
        assert_eq!(at(&mut memory, 0, &[8], 5000), 5000 + memory.unloaded_hit());
        assert_eq!(at(&mut memory, 5, &[8], 6000), 6000 + 1 + 4);
    }

    #[test]
    fn a_device_write_takes_the_line_out_of_the_l2() {
        let mut memory = SimtMemory::new(&paper()).unwrap();
        at(&mut memory, 0, &[8], 0);
        memory.device(4, 1, true, 1000);
        at(&mut memory, 0, &[8], 2000);
        assert_eq!((memory.counters().l2_hits, memory.dram().writes), (0, 1));
    }
}
