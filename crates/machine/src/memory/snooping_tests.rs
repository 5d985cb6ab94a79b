//! MESI against a naive twin that moves data, and snooping's times against formulas.

use std::collections::{BTreeMap, HashMap};

use probe::{Access, Request};
use proptest::prelude::*;
use stats::Reason;
use units::{Addr, Cbm, Clos, CoreId, Line, Ps, Rate, Size, Span};

use super::{
    ApplicationSpec, Coherence, Hierarchy, HomeSocket, Inclusion, Interconnect, LlcSpec, MemorySpec, MesiState,
    SliceHash, SnoopCounters, SocketsSpec, Supplied, Ways,
};
use crate::cache::CacheSpec;
use crate::dram::DramSpec;
use crate::{Memory, Reply, Response, Served};

const CORES: u16 = 4;

fn ring() -> Option<Interconnect> {
    Some(Interconnect::Ring { hop: Span::from_ns(1.0), interval: None, device: 0 })
}

fn spec(coherence: Coherence, inclusion: Inclusion, wires: Option<Interconnect>, lines: [u64; 3]) -> MemorySpec {
    let ns = Span::from_ns;
    let cache = |lines: u64, latency| CacheSpec { size: Size::from_bytes(lines * 64), ways: 2, latency: ns(latency) };
    MemorySpec {
        l1: cache(lines[0], 1.0),
        l2: cache(lines[1], 4.0),
        tlb: None,
        prefetcher: None,
        waiting_prefetches: 0,
        llc: LlcSpec {
            size: Size::from_bytes(lines[2] * 64),
            ways: 4,
            latency: ns(30.0),
            slices: 4,
            hash: SliceHash::Modulo,
            interval: ns(1.0),
            interconnect: wires,
            inclusion,
            replacement: Default::default(),
            core_age: 2,
            io_age: 3,
            core_ways: None,
            io_ways: Ways::Mask(Cbm(0b1111)),
            inclusive_ways: None,
            snoop: ns(10.0),
            coherence,
            tenants: None,
        },
        dram: DramSpec::of_standard("ddr4-2400u", ns(30.0)).unwrap(),
        copy_table: None,
        copy_engine: None,
    }
}

fn hierarchy(coherence: Coherence, inclusion: Inclusion, lines: [u64; 3]) -> Hierarchy {
    Hierarchy::new(&spec(coherence, inclusion, ring(), lines), CORES.into(), "machine").unwrap()
}

fn access(memory: &mut Hierarchy, core: u16, line: u64, access: Access, now: Ps) -> Response {
    let addr = Addr(line * 64);
    memory.access(&Request { addr, bytes: 8, site: 0, access, clos: Clos(0), core: CoreId(core), mapping: 0 }, now)
}

/// A line somewhere, with what was written to it.
#[derive(Clone, Copy, Debug)]
struct Held {
    line: u64,
    value: u64,
    state: MesiState,
}

/// Sets in lists, the line used last in front.
#[derive(Clone)]
struct Naive {
    sets: Vec<Vec<Held>>,
    ways: usize,
}

impl Naive {
    fn new(lines: u64, ways: usize) -> Naive {
        Naive { sets: vec![Vec::new(); lines as usize / ways], ways }
    }

    fn set(&mut self, line: u64) -> &mut Vec<Held> {
        let sets = self.sets.len() as u64;
        &mut self.sets[(line % sets) as usize]
    }

    fn get(&mut self, line: u64) -> Option<&mut Held> {
        self.set(line).iter_mut().find(|held| held.line == line)
    }

    fn touch(&mut self, line: u64) -> Option<&mut Held> {
        let set = self.set(line);
        let at = set.iter().position(|held| held.line == line)?;
        set[..=at].rotate_right(1);
        set.first_mut()
    }

    fn remove(&mut self, line: u64) -> Option<Held> {
        let set = self.set(line);
        let at = set.iter().position(|held| held.line == line)?;
        Some(set.remove(at))
    }

    fn put(&mut self, held: Held) -> Option<Held> {
        let ways = self.ways;
        let set = self.set(held.line);
        set.insert(0, held);
        if set.len() > ways { set.pop() } else { None }
    }
}

/// Private caches with a textbook's states, an LLC and memory, all with data; every cache is looked up for everything.
struct Twin {
    l1: Vec<Naive>,
    l2: Vec<Naive>,
    /// Its lines are modified or, as in memory, shared. Slices go round, so sets are as if there were one.
    llc: Naive,
    memory: HashMap<u64, u64>,
    inclusion: Inclusion,
    /// What snooping is to count; it waits for nothing here.
    counts: SnoopCounters,
}

impl Twin {
    fn new(inclusion: Inclusion, lines: [u64; 3]) -> Twin {
        Twin {
            l1: vec![Naive::new(lines[0], 2); CORES.into()],
            l2: vec![Naive::new(lines[1], 2); CORES.into()],
            llc: Naive::new(lines[2], 4),
            memory: HashMap::new(),
            inclusion,
            counts: SnoopCounters::default(),
        }
    }

    fn state(&mut self, core: usize, line: u64) -> MesiState {
        let of = |held: Option<&mut Held>| held.map_or(MesiState::Invalid, |held| held.state);
        of(self.l1[core].get(line)).max(of(self.l2[core].get(line)))
    }

    /// What `core` would send, if it has `line`.
    fn data(&mut self, core: usize, line: u64) -> Option<u64> {
        let l2 = self.l2[core].get(line).map(|held| held.value);
        self.l1[core].get(line).map(|held| held.value).or(l2)
    }

    /// `caches` are looked up for a request.
    fn broadcast(&mut self, caches: u16) {
        self.counts.broadcasts += 1;
        self.counts.lookups += u64::from(caches);
    }

    /// A core that has a line in `state` supplies it.
    fn supply(&mut self, state: MesiState) {
        match state {
            MesiState::Modified => self.counts.supplied.modified += 1,
            MesiState::Exclusive => self.counts.supplied.exclusive += 1,
            MesiState::Shared => self.counts.supplied.shared += 1,
            MesiState::Invalid => panic!("nothing to supply"),
        }
    }

    fn fill_llc(&mut self, line: u64, value: u64, modified: bool) {
        if let Some(held) = self.llc.touch(line) {
            if modified {
                (held.value, held.state) = (value, MesiState::Modified);
            }
            return;
        }
        let state = if modified { MesiState::Modified } else { MesiState::Shared };
        let Some(mut gone) = self.llc.put(Held { line, value, state }) else { return };
        if self.inclusion == Inclusion::Inclusive {
            for core in 0..CORES.into() {
                if self.state(core, gone.line) == MesiState::Modified {
                    (gone.value, gone.state) = (self.data(core, gone.line).unwrap(), MesiState::Modified);
                }
                self.l1[core].remove(gone.line);
                self.l2[core].remove(gone.line);
            }
        }
        if gone.state == MesiState::Modified {
            self.memory.insert(gone.line, gone.value);
        }
    }

    fn leaves_l2(&mut self, gone: Option<Held>) {
        let Some(gone) = gone else { return };
        let modified = gone.state == MesiState::Modified;
        if modified || self.inclusion == Inclusion::Victim {
            self.fill_llc(gone.line, gone.value, modified);
        }
    }

    /// A core loads `line`, or stores `store` to it: who served that and, of a load, what it got.
    fn access(&mut self, core: usize, line: u64, store: Option<u64>) -> (Served, Option<u64>) {
        use MesiState::*;
        let mut gone = [None; 2];
        let mut near = None;
        let state = self.state(core, line);
        if let Some(held) = self.l1[core].touch(line) {
            near = Some(Served::L1);
            if let Some(store) = store {
                (held.value, held.state) = (store, Modified);
            }
        } else {
            let mut value = 0;
            if let Some(held) = self.l2[core].touch(line) {
                near = Some(Served::L2);
                value = held.value;
            } else {
                gone[0] = self.l2[core].put(Held { line, value, state: Shared });
            }
            let new = match store {
                Some(store) => Held { line, value: store, state: Modified },
                // What L2 alone has to write back stays there.
                None => Held { line, value, state: if state >= Exclusive { Exclusive } else { Shared } },
            };
            if let Some(old) = self.l1[core].put(new).filter(|old| old.state == Modified) {
                match self.l2[core].touch(old.line) {
                    Some(held) => *held = old,
                    None => gone[1] = self.l2[core].put(old),
                }
            }
        }
        if let Some(near) = near.filter(|_| store.is_none() || state >= Exclusive) {
            gone.into_iter().for_each(|gone| self.leaves_l2(gone));
            return (near, self.data(core, line));
        }
        gone.into_iter().for_each(|gone| self.leaves_l2(gone));
        let (others, dirty, best) = self.ask_others(core, line, store.is_some());
        let shares = others.is_some() && store.is_none();
        let there = self.l1[core].get(line).is_some() || self.l2[core].get(line).is_some();
        if near.is_some() && there {
            self.alone(core, line);
            return (Served::Snoop, None);
        }
        if near.is_some() {
            // The LLC has taken it away meanwhile.
            let gone = self.l2[core].put(Held { line, value: store.unwrap(), state: Modified });
            self.leaves_l2(gone);
        }
        let in_llc = if dirty { None } else { self.llc.touch(line).copied() };
        let (served, value) = match (in_llc, others) {
            (Some(held), _) => {
                if self.inclusion == Inclusion::Victim && !shares {
                    self.llc.remove(line);
                    if held.state == Modified {
                        match self.l2[core].touch(line) {
                            Some(own) => *own = held,
                            None => self.fill_llc(line, held.value, true),
                        }
                    }
                }
                (Served::Llc, held.value)
            }
            (None, Some(value)) => {
                self.supply(best);
                (Served::Snoop, value)
            }
            _ => {
                let value = self.memory.get(&line).copied().unwrap_or(0);
                if self.inclusion != Inclusion::Victim {
                    self.fill_llc(line, value, false);
                }
                (Served::Dram, value)
            }
        };
        if let Some(held) = self.l2[core].get(line).filter(|_| near.is_none()) {
            held.value = value;
        }
        if let Some(held) = self.l1[core].get(line).filter(|_| store.is_none()) {
            held.value = value;
        }
        if !shares {
            self.alone(core, line);
        }
        (served, Some(value))
    }

    /// Everyone but `core` is asked for a line: what they have of it, whether that is to be written back, and the best state.
    fn ask_others(&mut self, core: usize, line: u64, to_store: bool) -> (Option<u64>, bool, MesiState) {
        use MesiState::*;
        let (mut others, mut dirty, mut best) = (None, false, Invalid);
        self.broadcast(CORES - 1);
        for other in (0..CORES.into()).filter(|&other| other != core) {
            let theirs = self.state(other, line);
            let Some(value) = self.data(other, line) else { continue };
            others = Some(value);
            dirty |= theirs == Modified;
            best = best.max(theirs);
            self.counts.invalidations += u64::from(to_store);
            for cache in [&mut self.l1[other], &mut self.l2[other]] {
                if to_store {
                    cache.remove(line);
                } else if let Some(held) = cache.get(line) {
                    (held.value, held.state) = (value, Shared);
                }
            }
            if !to_store && theirs == Modified {
                self.fill_llc(line, value, true);
            }
        }
        (others, dirty, best)
    }

    /// Nobody else has what `core` has.
    fn alone(&mut self, core: usize, line: u64) {
        for cache in [&mut self.l1[core], &mut self.l2[core]] {
            if let Some(held) = cache.get(line).filter(|held| held.state == MesiState::Shared) {
                held.state = MesiState::Exclusive;
            }
        }
    }

    fn dma_write(&mut self, line: u64, value: u64) {
        self.broadcast(CORES);
        for core in 0..CORES.into() {
            self.counts.invalidations += u64::from(self.state(core, line) != MesiState::Invalid);
            self.l1[core].remove(line);
            self.l2[core].remove(line);
        }
        self.fill_llc(line, value, true);
    }

    fn dma_read(&mut self, line: u64) -> u64 {
        let cores = || 0..usize::from(CORES);
        let modified = cores().find(|&core| self.state(core, line) == MesiState::Modified);
        let in_llc = self.llc.get(line).map(|held| held.value);
        let any = cores().find_map(|core| self.data(core, line));
        self.broadcast(CORES);
        if modified.is_some() || in_llc.is_none() && any.is_some() {
            let best = cores().map(|core| self.state(core, line)).max();
            self.supply(best.unwrap_or(MesiState::Invalid));
        }
        match modified {
            Some(core) => self.data(core, line).unwrap(),
            None => in_llc.or(any).unwrap_or_else(|| self.memory.get(&line).copied().unwrap_or(0)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn mesi_matches_a_naive_twin_in_which_every_read_gets_the_last_write(
        ops in prop::collection::vec((0u8..12, 0u16..CORES, 0u64..48), 1..400),
        inclusion in prop::sample::select(vec![Inclusion::Victim, Inclusion::NonInclusive, Inclusion::Inclusive]),
        few in any::<bool>(),
    ) {
        // So small that lines leave every cache, or so that few do.
        let lines = if few { [4, 8, 32] } else { [16, 32, 64] };
        let mut twin = Twin::new(inclusion, lines);
        let mut memories =
            [Coherence::Directory, Coherence::Snoop].map(|coherence| hierarchy(coherence, inclusion, lines));
        let mut last: HashMap<u64, u64> = HashMap::new();
        let mut now = Ps::ZERO;
        for (at, (kind, core, line)) in ops.into_iter().enumerate() {
            now += Ps(10_000_000);
            let written = at as u64 + 1;
            let latest = last.get(&line).copied().unwrap_or(0);
            match kind {
                0..=8 => {
                    let store = (kind > 4).then_some(written);
                    let (served, value) = twin.access(core.into(), line, store);
                    if store.is_some() {
                        last.insert(line, written);
                    } else {
                        prop_assert_eq!(value, Some(latest));
                    }
                    for memory in &mut memories {
                        let kind = if store.is_some() { Access::Store } else { Access::Load };
                        let response = access(memory, core, line, kind, now);
                        prop_assert_eq!(response.served, served);
                        prop_assert_eq!(response.path.total(), response.at - now);
                    }
                }
                9..=10 => {
                    twin.dma_write(line, written);
                    last.insert(line, written);
                    for memory in &mut memories {
                        memory.dma_write(Line(line), 1, now);
                    }
                }
                _ => {
                    prop_assert_eq!(twin.dma_read(line), latest);
                    for memory in &mut memories {
                        memory.dma_read(Line(line), 1, now);
                    }
                }
            }
            for line in 0..48 {
                let states: Vec<MesiState> = (0..CORES.into()).map(|core| twin.state(core, line)).collect();
                for memory in &memories {
                    let found: Vec<MesiState> = (0..CORES).map(|core| memory.state(CoreId(core), Line(line))).collect();
                    prop_assert_eq!(&found, &states, "line {}", line);
                }
                // One writer, or many readers.
                let holders = states.iter().filter(|state| **state != MesiState::Invalid).count();
                prop_assert!(holders <= 1 || states.iter().all(|state| *state <= MesiState::Shared), "{:?}", states);
            }
            prop_assert_eq!(memories[0].counters(), memories[1].counters());
            prop_assert_eq!(memories[0].dram_counters().writes, memories[1].dram_counters().writes);
            prop_assert_eq!(memories[1].snoop_counters(), Some(twin.counts));
        }
        prop_assert_eq!(memories[0].snoop_counters(), None);
    }
}

const LARGE: [u64; 3] = [64, 128, 1024];
/// Stops from each other on the ring of four, in ns.
const APART: [u64; 4] = [0, 1, 2, 1];

fn ns(ns: u64) -> Ps {
    Ps(ns * 1000)
}

/// What the last of the other cores' answers to core 0 takes to the slice of line `line`: own miss and answer, and wires.
fn last_answer(line: u64) -> Ps {
    (1..4).map(|core| ns(APART[core] + 4 + 10 + APART[(core + 4 - line as usize % 4) % 4])).max().unwrap()
}

#[test]
fn a_modified_line_comes_from_its_owner_by_the_distance_between_them() {
    for (owner, far) in [(1, 1), (2, 2), (3, 1)] {
        let mut memory = hierarchy(Coherence::Snoop, Inclusion::Victim, LARGE);
        access(&mut memory, owner, 5, Access::Store, Ps::ZERO);
        assert_eq!(memory.state(CoreId(owner), Line(5)), MesiState::Modified);
        let now = ns(100_000);
        let read = access(&mut memory, 0, 5, Access::Load, now);
        // Own caches, there, the answer, and back.
        assert_eq!((read.at - now, read.served), (ns(4 + far + 10 + far), Served::Snoop));
        assert_eq!([0, owner].map(|core| memory.state(CoreId(core), Line(5))), [MesiState::Shared; 2]);
        let counters = memory.snoop_counters().unwrap();
        assert_eq!(
            (counters.broadcasts, counters.lookups, counters.supplied.modified, counters.invalidations),
            (2, 6, 1, 0)
        );
        // The LLC is up to date.
        let third = (1..4).find(|&core| core != owner).unwrap();
        assert_eq!(access(&mut memory, third, 5, Access::Load, now * 2).served, Served::Llc);
    }
}

#[test]
fn an_exclusive_line_is_supplied_and_shared_and_a_store_to_it_asks_nobody() {
    let mut memory = hierarchy(Coherence::Snoop, Inclusion::Victim, LARGE);
    access(&mut memory, 1, 5, Access::Load, Ps::ZERO);
    assert_eq!(memory.state(CoreId(1), Line(5)), MesiState::Exclusive);
    let read = access(&mut memory, 2, 5, Access::Load, ns(100_000));
    assert_eq!((read.at, read.served), (ns(100_000 + 4 + 1 + 10 + 1), Served::Snoop));
    // Both have it shared, and the nearer one to core 0 answers; of two as near the first.
    let read = access(&mut memory, 0, 5, Access::Load, ns(200_000));
    assert_eq!(read.at, ns(200_000 + 4 + 1 + 10 + 1));
    let found = memory.snoop_counters().unwrap();
    assert_eq!((found.supplied.exclusive, found.supplied.shared, found.broadcasts), (1, 1, 3));
    access(&mut memory, 3, 9, Access::Load, ns(300_000));
    let before = memory.snoop_counters().unwrap();
    let store = access(&mut memory, 3, 9, Access::Store, ns(400_000));
    assert_eq!((store.served, memory.state(CoreId(3), Line(9))), (Served::L1, MesiState::Modified));
    assert_eq!(memory.snoop_counters().unwrap(), before);
}

#[test]
fn an_upgrade_invalidates_and_waits_for_the_last_answer_at_the_slice() {
    for line in [4, 5, 6, 7] {
        let mut memory = hierarchy(Coherence::Snoop, Inclusion::Victim, LARGE);
        for (i, core) in [0, 1, 2].into_iter().enumerate() {
            access(&mut memory, core, line, Access::Load, ns(100_000 * i as u64));
        }
        let now = ns(1_000_000);
        let store = access(&mut memory, 0, line, Access::Store, now);
        let to_slice = ns(APART[line as usize % 4]);
        // 30 ns on average with the wires there and back: 1 ns each way.
        let by_llc = to_slice + ns(28);
        assert_eq!(store.at - now, by_llc.max(last_answer(line)) + to_slice);
        assert_eq!(memory.counters().upgrades, 1);
        assert_eq!(memory.snoop_counters().unwrap().invalidations, 2);
        assert_eq!(
            [0, 1, 2].map(|core| memory.state(CoreId(core), Line(line))),
            [MesiState::Modified, MesiState::Invalid, MesiState::Invalid]
        );
    }
}

#[test]
fn memory_is_read_when_everyone_has_answered() {
    // A private cache that takes longer to answer than the LLC: it is what memory waits for.
    for snoop in [10u64, 60] {
        let took = [Coherence::Directory, Coherence::Snoop].map(|coherence| {
            let mut spec = spec(coherence, Inclusion::Victim, ring(), LARGE);
            spec.llc.snoop = Span::from_ns(snoop as f64);
            let mut memory = Hierarchy::new(&spec, CORES.into(), "machine").unwrap();
            let now = ns(1_000);
            (access(&mut memory, 0, 6, Access::Load, now).at - now, memory.dma_write(Line(40), 1, now * 2) - now * 2)
        });
        let answers = last_answer(6) + ns(snoop - 10);
        assert_eq!(took[1].0 - took[0].0, answers.since(ns(APART[2] + 28)));
        // A device at stop 0, of which no caches miss first: core 0 is asked too.
        let answers = (0..4).map(|core| ns(APART[core] * 2 + snoop)).max().unwrap();
        assert_eq!(took[1].1 - took[0].1, answers.since(ns(28)));
    }
}

#[test]
fn a_bus_takes_one_request_after_the_other() {
    let bus = Some(Interconnect::Bus { hop: Span::from_ns(3.0), interval: Some(Span::from_ns(5.0)) });
    let mut memory =
        Hierarchy::new(&spec(Coherence::Snoop, Inclusion::Victim, bus, LARGE), CORES.into(), "machine").unwrap();
    for core in 1..CORES {
        access(&mut memory, core, core.into(), Access::Store, ns(10_000));
    }
    let before = memory.snoop_counters().unwrap();
    assert_eq!(before.waited, ns(3 + 6));
    // Three lines for core 0: asked for 3 ns after each other, and their data 5 ns.
    let read = [1, 2, 3].map(|line| access(&mut memory, 0, line, Access::Load, ns(20_000)).at - ns(20_000));
    // The LLC hears what goes to core 0, and needs no transfer of its own.
    assert_eq!(read, [ns(4 + 3 + 10 + 3), ns(4 + 3 + 10 + 3 + 5), ns(4 + 3 + 10 + 3 + 10)]);
    let counters = memory.snoop_counters().unwrap() - before;
    let supplied = Supplied { modified: 3, ..Supplied::default() };
    let expected = SnoopCounters { broadcasts: 3, lookups: 9, supplied, waited: ns(3 + 6), ..SnoopCounters::default() };
    assert_eq!(counters, expected);
}

fn on(wires: Interconnect) -> Hierarchy {
    Hierarchy::new(&spec(Coherence::Snoop, Inclusion::Victim, Some(wires), LARGE), CORES.into(), "machine").unwrap()
}

fn busy_bus() -> Interconnect {
    Interconnect::Bus { hop: Span::from_ns(3.0), interval: Some(Span::from_ns(20.0)) }
}

#[test]
fn a_modified_line_is_sent_to_its_reader_first_and_then_to_the_llc() {
    let mut memory = on(Interconnect::Ring { hop: Span::from_ns(1.0), interval: Some(Span::from_ns(5.0)), device: 0 });
    // Of slice 3, which lies between core 2 and core 0.
    for line in [7, 11] {
        access(&mut memory, 2, line, Access::Store, ns(line * 1_000));
    }
    let now = ns(100_000);
    let read = [7, 11].map(|line| access(&mut memory, 0, line, Access::Load, now).at - now);
    // The second leaves 1 ns later, since its broadcast waits so long, behind the first and its copy.
    assert_eq!(read, [ns(4 + 2 + 10 + 2), ns(4 + 2 + 10 + 2 + 5 + 5)]);
}

#[test]
fn what_a_core_sends_to_a_device_is_one_transfer_and_what_the_llc_sends_another() {
    let mut memory = on(busy_bus());
    access(&mut memory, 2, 7, Access::Store, ns(1_000));
    memory.dma_write(Line(8), 2, ns(2_000));
    let now = ns(10_000);
    // Nothing comes from the LLC before it.
    assert_eq!(memory.dma_read(Line(7), 1, now) - now, ns(3 + 10 + 3));
    let read = [8, 9].map(|line| memory.dma_read(Line(line), 1, now * 2));
    assert_eq!(read[1] - read[0], ns(20));
}

#[test]
fn a_line_lost_before_it_is_upgraded_is_sent_again() {
    let mut memory = on(busy_bus());
    for core in [0, 1] {
        access(&mut memory, core, 5, Access::Load, ns(1_000 * u64::from(core)));
    }
    memory.dma_write(Line(6), 1, ns(3_000));
    let store = Request {
        addr: Addr(5 * 64),
        bytes: 8,
        site: 0,
        access: Access::Store,
        clos: Clos(0),
        core: CoreId(0),
        mapping: 0,
    };
    let lookup = memory.lookup(&store);
    assert!(lookup.upgrade);
    memory.dma_write(Line(5), 1, ns(4_000));
    let now = ns(10_000);
    let Reply::Done(first) = memory.fetch(&store, &lookup, now) else { panic!("DRAM answers at once") };
    let second = access(&mut memory, 1, 6, Access::Load, now);
    assert_eq!((first.served, second.served), (Served::Llc, Served::Llc));
    assert_eq!(second.at - first.at, ns(20));
}

#[test]
fn what_another_core_has_of_an_application_without_an_llc_comes_from_there() {
    let mut memory = hierarchy(Coherence::Snoop, Inclusion::Victim, LARGE);
    let none = ApplicationSpec { llc: false, ..ApplicationSpec::default() };
    memory.tell_apart(&[("tables", &none)], &[std::iter::once(0..100).collect()], "machine.applications").unwrap();
    let first = access(&mut memory, 1, 5, Access::Load, Ps::ZERO);
    assert_eq!(first.served, Served::Dram);
    let now = ns(100_000);
    let read = access(&mut memory, 0, 5, Access::Load, now);
    assert_eq!((read.at - now, read.served), (ns(4 + 1 + 10 + 1), Served::Snoop));
    assert_eq!([0, 1].map(|core| memory.state(CoreId(core), Line(5))), [MesiState::Shared; 2]);
    // Cores 0 and 3 have answered to core 2 at slice 1 after 17 ns, which is a hop from there.
    let write = access(&mut memory, 2, 5, Access::Store, now * 2);
    assert_eq!((write.at - now * 2, write.served, write.path.total()), (ns(17 + 1), Served::Snoop, ns(17 + 1)));
    assert_eq!(
        [0, 1, 2].map(|core| memory.state(CoreId(core), Line(5))),
        [MesiState::Invalid, MesiState::Invalid, MesiState::Modified]
    );
    assert_eq!(memory.dram_counters().reads, 1);
    let counters = memory.snoop_counters().unwrap();
    assert_eq!((counters.supplied.exclusive, counters.supplied.shared, counters.invalidations), (1, 1, 2));
    // Not before the other one has it.
    let slow = access(&mut memory, 1, 9, Access::Load, now * 3);
    let early = access(&mut memory, 0, 9, Access::Load, now * 3 + ns(1));
    assert_eq!((early.at, early.served, early.path.total()), (slow.at, Served::Snoop, slow.at - now * 3 - ns(1)));
}

#[test]
fn every_line_of_a_device_is_asked_for_and_comes_from_who_has_modified_it() {
    let mut memory = hierarchy(Coherence::Snoop, Inclusion::Victim, LARGE);
    memory.dma_write(Line(0), 24, Ps::ZERO);
    assert_eq!((memory.snoop_counters().unwrap().broadcasts, memory.snoop_counters().unwrap().lookups), (24, 96));
    access(&mut memory, 2, 7, Access::Store, ns(10_000));
    let before = memory.snoop_counters().unwrap();
    let now = ns(20_000);
    // At stop 0; nothing of its own misses first.
    assert_eq!(memory.dma_read(Line(7), 1, now) - now, ns(2 + 10 + 2));
    assert_eq!(memory.state(CoreId(2), Line(7)), MesiState::Modified);
    memory.dma_write(Line(7), 1, now * 2);
    assert_eq!(memory.state(CoreId(2), Line(7)), MesiState::Invalid);
    let counters = memory.snoop_counters().unwrap() - before;
    assert_eq!((counters.broadcasts, counters.supplied.modified, counters.invalidations), (2, 1, 1));
}

/// Two cores on each of two sockets, the NIC at the first; links take 40.8 ns for a message and 44 for a line.
fn on_two(coherence: Coherence, inclusion: Inclusion, lines: [u64; 3]) -> Hierarchy {
    let spec = spec(coherence, inclusion, ring(), lines);
    let sockets = SocketsSpec {
        count: 2,
        cores: Vec::new(),
        nic: 0,
        hop: Span::from_ns(40.0),
        rate: Rate::from_gbps(160.0),
        memory: HomeSocket::Socket(0),
        regions: BTreeMap::new(),
    };
    let mut memory = Hierarchy::new(&spec, CORES.into(), "machine").unwrap();
    memory.on_sockets(&sockets, &spec, &[], "machine").unwrap();
    memory
}

const MESSAGE: Ps = Ps(40_800);
const DATA: Ps = Ps(44_000);

/// What the last answer of the other socket takes to the slice of line `line`: cores 2 and 3 are where links come in, and a stop from
/// there.
fn answer_from_afar(line: u64, takes: u64) -> Ps {
    MESSAGE + ns(1 + takes + 1) + MESSAGE + ns(APART[line as usize % 4])
}

#[test]
fn a_line_that_another_socket_has_modified_comes_over_the_link_once() {
    let mut memory = on_two(Coherence::Snoop, Inclusion::Victim, LARGE);
    access(&mut memory, 3, 5, Access::Store, Ps::ZERO);
    let (now, before) = (ns(100_000), memory.socket_counters().unwrap());
    let read = access(&mut memory, 0, 5, Access::Load, now);
    // Its data follow the answer, which takes the link for 0.8 ns.
    assert_eq!((read.at - now, read.served), (MESSAGE + ns(1 + 4 + 10 + 1) + Ps(800) + DATA, Served::Snoop));
    let parts: Vec<_> = read.path.iter().filter(|(_, time)| time.0 > 0).collect();
    assert_eq!(
        parts,
        [(Reason::Interconnect, ns(2)), (Reason::SocketLink, MESSAGE + Ps(800) + DATA), (Reason::Snoop, ns(14))]
    );
    let counters = memory.socket_counters().unwrap() - before;
    // The request, its answer and the data.
    assert_eq!(counters.links.iter().map(|(.., link)| link.bytes).collect::<Vec<_>>(), [16, 16 + 80]);
    assert_eq!(counters.remote_snoops, 1);
    assert_eq!([0, 3].map(|core| memory.state(CoreId(core), Line(5))), [MesiState::Shared; 2]);
    assert_eq!(access(&mut memory, 1, 5, Access::Load, now * 2).served, Served::Llc, "it is up to date");
    // The NIC asks, and nothing of its own misses first.
    access(&mut memory, 3, 7, Access::Store, now * 3);
    assert_eq!(memory.dma_read(Line(7), 1, now * 4) - now * 4, MESSAGE + ns(1 + 10 + 1) + Ps(800) + DATA);
}

#[test]
fn memory_is_read_and_a_line_is_given_up_when_the_other_socket_has_answered() {
    for line in [4, 5, 6, 7] {
        let (to_slice, answers) = (ns(APART[line as usize % 4]), answer_from_afar(line, 14));
        let took = [Coherence::Directory, Coherence::Snoop].map(|coherence| {
            let mut memory = on_two(coherence, Inclusion::Victim, LARGE);
            access(&mut memory, 0, line, Access::Load, ns(1_000)).at - ns(1_000)
        });
        assert_eq!(took[1] - took[0], answers - (to_slice + ns(28)), "line {line}");
        let mut memory = on_two(Coherence::Snoop, Inclusion::Victim, LARGE);
        for (n, core) in [(1, 0), (2, 3)] {
            access(&mut memory, core, line, Access::Load, ns(100_000 * n));
        }
        let now = ns(1_000_000);
        let store = access(&mut memory, 0, line, Access::Store, now);
        assert_eq!(store.at - now, answers + to_slice, "line {line}");
        assert_eq!(
            [0, 3].map(|core| memory.state(CoreId(core), Line(line))),
            [MesiState::Modified, MesiState::Invalid]
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn on_two_sockets_who_has_what_is_as_with_a_directory(
        ops in prop::collection::vec((0u8..12, 0u16..CORES, 0u64..48), 1..400),
        inclusion in prop::sample::select(vec![Inclusion::Victim, Inclusion::NonInclusive, Inclusion::Inclusive]),
        few in any::<bool>(),
    ) {
        let lines = if few { [4, 8, 32] } else { [16, 32, 64] };
        let mut memories =
            [Coherence::Directory, Coherence::Snoop].map(|coherence| on_two(coherence, inclusion, lines));
        let mut now = Ps::ZERO;
        for (kind, core, line) in ops {
            now += Ps(10_000_000);
            let mut served = [None; 2];
            for (memory, served) in memories.iter_mut().zip(&mut served) {
                match kind {
                    0..=8 => {
                        let kind = if kind > 4 { Access::Store } else { Access::Load };
                        let response = access(memory, core, line, kind, now);
                        prop_assert_eq!(response.path.total(), response.at - now);
                        *served = Some(response.served);
                    }
                    9..=10 => drop(memory.dma_write(Line(line), 1, now)),
                    _ => drop(memory.dma_read(Line(line), 1, now)),
                }
            }
            prop_assert_eq!(served[0], served[1]);
            for line in 0..48 {
                let [directory, snoop] =
                    [0, 1].map(|n: usize| [0, 1, 2, 3].map(|core| memories[n].state(CoreId(core), Line(line))));
                prop_assert_eq!(directory, snoop, "line {}", line);
            }
            prop_assert_eq!(memories[0].counters(), memories[1].counters());
        }
    }
}

#[test]
fn what_snooping_does_not_go_with_is_refused() {
    let refused = |change: fn(&mut MemorySpec)| {
        let mut spec = spec(Coherence::Snoop, Inclusion::Victim, ring(), LARGE);
        change(&mut spec);
        Hierarchy::new(&spec, 2, "machine").unwrap_err().to_string()
    };
    assert_eq!(
        refused(|spec| spec.llc.interconnect = None),
        "machine.llc.coherence = snoop without interconnect: allowed is snoop with wires to broadcast over \
         (set machine.llc.interconnect = {topology = \"ring\", hop = \"0.5 ns\"}, or mesh, or bus)"
    );
    assert!(
        refused(|spec| spec.copy_table = Some(Default::default()))
            .starts_with("machine.copy_table = given with machine.llc.coherence = snoop: ")
    );
}
