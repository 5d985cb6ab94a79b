//! A functional twin of the memory system: whose data a reader gets, with a copy table and whatever is beside it.

use std::collections::BTreeMap;

use probe::{Access, Request};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use units::{Cbm, Clos, CoreId, Line, Ps, Size, Span};

use super::{CopyTableSpec, Hierarchy, Inclusion, LlcSpec, MemorySpec, Ways};
use crate::cache::CacheSpec;
use crate::copy_table::{Fault, IndexTable, Move};
use crate::dram::DramSpec;
use crate::{Memory, Served};

pub(super) const CORES: u16 = 3;
pub(super) const LINES: u64 = 24;

fn hierarchy(inclusion: Inclusion, io_ways: u32, entries: u32) -> Hierarchy {
    Hierarchy::new(&spec(inclusion, io_ways, entries), u32::from(CORES), "machine").unwrap()
}

pub(super) fn spec(inclusion: Inclusion, io_ways: u32, entries: u32) -> MemorySpec {
    let ns = Span::from_ns;
    let cache =
        |lines: u64, ways: u32, latency| CacheSpec { size: Size::from_bytes(lines * 64), ways, latency: ns(latency) };
    MemorySpec {
        l1: cache(2, 1, 1.0),
        l2: cache(4, 2, 4.0),
        tlb: None,
        prefetcher: None,
        waiting_prefetches: 0,
        llc: LlcSpec {
            size: Size::from_bytes(8 * 64),
            ways: 4,
            latency: ns(20.0),
            slices: 1,
            hash: Default::default(),
            interval: ns(1.0),
            interconnect: None,
            inclusion,
            replacement: Default::default(),
            core_age: 2,
            io_age: 3,
            core_ways: None,
            io_ways: Ways::Mask(Cbm(io_ways)),
            snoop: ns(10.0),
            coherence: Default::default(),
            tenants: None,
        },
        dram: DramSpec {
            standard: None,
            currents: None,
            page: crate::dram::PagePolicy::Open,
            channels: 1,
            banks: 8,
            row: Size::from_bytes(2048),
            t_cl: ns(14.0),
            t_rcd: ns(14.0),
            t_rp: ns(14.0),
            t_ras: ns(32.0),
            t_burst: ns(3.0),
            t_refi: ns(7800.0),
            t_rfc: ns(350.0),
            overhead: ns(20.0),
            all_hits: false,
            controller: None,
        },
        copy_table: Some(CopyTableSpec { entries: Some(entries), ways: 2, latency: ns(1.0) }),
        copy_engine: None,
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Read(u16, u64),
    Write(u16, u64),
    Copy(u16, u64, u64),
    DeviceWrite(u64),
    DeviceRead(u64),
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let (core, line) = (0..CORES, 0..LINES);
    prop_oneof![
        6 => (core.clone(), line.clone()).prop_map(|(c, l)| Op::Read(c, l)),
        3 => (core.clone(), line.clone()).prop_map(|(c, l)| Op::Write(c, l)),
        4 => (core, line.clone(), line.clone()).prop_map(|(c, a, b)| Op::Copy(c, a, b)),
        2 => line.clone().prop_map(Op::DeviceWrite),
        2 => line.prop_map(Op::DeviceRead),
    ]
}

/// The content of a line that a device has sent out of a tail.
pub(super) const SENT: u64 = u64::MAX - 1;

pub(super) fn request(core: u16, line: u64, access: Access) -> Request {
    Request { addr: Line(line).addr(), bytes: 64, site: 0, access, clos: Clos(0), core: CoreId(core), mapping: 0 }
}

/// Versions instead of bytes: each write makes a new one.
#[derive(Clone)]
pub(super) struct Twin {
    pub memory: Hierarchy,
    /// What flat memory has.
    flat: [u64; LINES as usize],
    /// What private caches have, where they have the line: they are coherent, so all the same.
    cached: BTreeMap<u64, u64>,
    /// What the LLC of each socket has got of a line, if it still has it: less than a private cache that has it modified.
    llcs: Vec<BTreeMap<u64, u64>>,
    /// What DRAM has.
    dram: [u64; LINES as usize],
    /// What tails of receive queues have.
    tails: BTreeMap<u64, u64>,
    writes: u64,
    now: Ps,
    /// Reads that the table served.
    by_table: u64,
}

impl Twin {
    pub fn new(memory: Hierarchy) -> Twin {
        let first = std::array::from_fn(|line| line as u64);
        let (cached, tails) = (BTreeMap::new(), BTreeMap::new());
        let llcs = vec![BTreeMap::new(); memory.behind.fabric.sockets()];
        Twin { memory, flat: first, cached, llcs, dram: first, tails, writes: LINES, now: Ps::ZERO, by_table: 0 }
    }

    fn in_llc(&self, line: u64) -> bool {
        self.memory.llcs().any(|llc| llc.has(llc.spot(Line(line))))
    }

    /// What the LLC of `socket` would give of `line`, [`None`] if it has not got it.
    fn llc_has(&self, socket: usize, line: u64) -> Option<u64> {
        let llc = self.memory.llcs().nth(socket)?;
        llc.has(llc.spot(Line(line))).then(|| self.llcs[socket].get(&line).copied().unwrap_or(u64::MAX))
    }

    /// As [`Twin::llc_has`], of the sockets that are not `here`.
    fn others_have(&self, here: usize, line: u64) -> Option<u64> {
        (0..self.llcs.len()).filter(|&socket| socket != here).find_map(|socket| self.llc_has(socket, line))
    }

    /// LLCs have got the data that private caches and devices have now.
    fn apply_llcs(&mut self) {
        let cached = &self.cached;
        for (llc, has) in self.memory.llcs_mut().zip(&mut self.llcs) {
            has.extend(llc.took.drain(..).map(|line| (line.0, cached.get(&line.0).copied().unwrap_or(u64::MAX))));
        }
    }

    /// What tails have given up since they had `before`: together to DRAM, or for good.
    fn apply_tails(&mut self, before: u64) {
        let gathered = self.memory.tails().map_or(0, |tails| tails.gathered) > before;
        let memory = &self.memory;
        let gone: Vec<(u64, u64)> = self.tails.extract_if(.., |line, _| !memory.behind.tail_has(Line(*line))).collect();
        for (line, version) in gone.into_iter().filter(|_| gathered) {
            self.dram[line as usize] = version;
        }
    }

    fn source(&self, line: u64) -> Option<u64> {
        self.memory.copies.as_ref().and_then(|c| c.table.source(Line(line))).map(|(src, _)| src.0)
    }

    fn in_cache(&self, line: u64) -> u64 {
        self.cached.get(&line).copied().unwrap_or(u64::MAX)
    }

    /// Brings DRAM up to date with what the memory system says it has written.
    fn apply_writes(&mut self) {
        for moved in std::mem::take(&mut self.memory.log) {
            match moved {
                Move::WriteBack(line) => self.dram[line.0 as usize] = self.in_cache(line.0),
                Move::Settle { src, dst } => self.dram[dst.0 as usize] = self.in_cache(src.0),
                _ => {}
            }
        }
    }

    /// What a core gets of `line`, by who has served it.
    fn access(&mut self, core: u16, line: u64, access: Access) -> u64 {
        let (source, in_tail) = (self.source(line), self.tails.get(&line).copied());
        let here = self.memory.behind.fabric.socket_of(CoreId(core));
        let (own, other) = (self.llc_has(here, line), self.others_have(here, line));
        let of_source = source.and_then(|src| self.llc_has(here, src).or(self.others_have(here, src)));
        let response = self.memory.access(&request(core, line, access), self.now);
        assert_eq!(response.path.total(), response.at - self.now, "the parts sum to the time: {response:?}");
        let served = response.served;
        self.apply_writes();
        self.apply_tails(u64::MAX);
        let got = match (served, source) {
            // Another socket's LLC is what is behind this one's.
            (Served::Dram, _) => other.or(in_tail).unwrap_or(self.dram[line as usize]),
            (Served::Engine, Some(_)) => of_source.unwrap_or(u64::MAX),
            (Served::Llc, _) => own.unwrap_or(u64::MAX),
            _ => self.in_cache(line),
        };
        self.by_table += u64::from(served == Served::Engine);
        self.cached.insert(line, got);
        self.apply_llcs();
        got
    }

    fn new_version(&mut self, line: u64) -> u64 {
        self.writes += 1;
        self.flat[line as usize] = self.writes;
        self.writes
    }

    /// Says what was read, and what flat memory has.
    pub fn apply(&mut self, op: Op) -> Option<(u64, u64)> {
        self.now += Ps::from_ns(500);
        match op {
            Op::Read(core, line) => Some((self.access(core, line, Access::Load), self.flat[line as usize])),
            Op::Write(core, line) => {
                // Of a part of the line: the rest has to be right.
                let read = (self.access(core, line, Access::Store), self.flat[line as usize]);
                let version = self.new_version(line);
                self.cached.insert(line, version);
                Some(read)
            }
            Op::Copy(core, src, dst) => {
                let original = self.source(src).unwrap_or(src);
                let load = request(core, src, Access::Load);
                let store = request(core, dst, Access::Store);
                assert!(self.memory.takes_copy(&load, &store));
                let in_tail = self.tails.get(&original).copied();
                let here = self.memory.behind.fabric.socket_of(CoreId(core));
                let (own, other) = (self.llc_has(here, original), self.others_have(here, original));
                let cores_have = self.memory.private_has(Line(original), self.memory.directory.get(Line(original)));
                let reply = self.memory.copy(&load, &store, self.now);
                let response = self.memory.answered(reply, self.now);
                assert_eq!(response.path.total(), response.at - self.now, "the parts sum to the time: {response:?}");
                // Read before anything that makes room for it is written.
                match response.served {
                    Served::Dram => {
                        let behind = other.or(in_tail).unwrap_or(self.dram[original as usize]);
                        self.cached.insert(original, behind);
                    }
                    _ if !cores_have => {
                        own.map(|version| self.cached.insert(original, version));
                    }
                    _ => {}
                }
                self.apply_llcs();
                self.apply_writes();
                self.apply_tails(u64::MAX);
                self.flat[dst as usize] = self.flat[src as usize];
                None
            }
            Op::DeviceWrite(line) => {
                let gathered = self.memory.tails().map_or(0, |tails| tails.gathered);
                self.memory.dma_write_packet((line % 2) as usize, Line(line), 1, self.now);
                self.apply_writes();
                let version = self.new_version(line);
                if self.in_llc(line) {
                    self.cached.insert(line, version);
                    self.apply_llcs();
                } else if self.memory.behind.tails.is_some() {
                    self.tails.insert(line, version);
                } else {
                    self.dram[line as usize] = version;
                }
                self.apply_tails(gathered);
                None
            }
            Op::DeviceRead(line) => {
                let m = &self.memory;
                let held = m.private_has(Line(line), m.directory.get(Line(line)));
                let here = m.behind.fabric.socket_of_nic();
                let in_llc = self.llc_has(here, line).or(self.others_have(here, line));
                let in_tail = self.tails.get(&line).copied();
                self.memory.dma_read(Line(line), 1, self.now);
                self.apply_writes();
                let behind = || in_llc.or(in_tail).unwrap_or(self.dram[line as usize]);
                let got = if held { self.in_cache(line) } else { behind() };
                self.apply_llcs();
                let read = (got, self.flat[line as usize]);
                self.apply_tails(u64::MAX);
                if in_tail.is_some() && !self.tails.contains_key(&line) {
                    // It is sent, and nobody wants it any more: what memory has of it is of no interest.
                    self.flat[line as usize] = SENT;
                }
                Some(read)
            }
        }
    }

    /// Sources are in the LLC, targets are not, and no private cache may write either unseen.
    pub fn is_consistent(&self) -> bool {
        let m = &self.memory;
        let in_llc = |line: Line| self.in_llc(line.0);
        let shared = |line: Line| {
            m.cores
                .iter()
                .flat_map(|c| [&c.l1, &c.l2])
                .all(|array| array.find(line).is_none_or(|slot| !array.is_exclusive(slot) && !array.is_dirty(slot)))
        };
        let Some(copies) = &m.copies else { return true };
        let mut pointers = copies.table.pointers();
        pointers.all(|(dst, src)| in_llc(src) && !in_llc(dst) && shared(src) && shared(dst))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn with_a_copy_table_every_reader_gets_what_flat_memory_has(
        ops in prop::collection::vec(op(), 1..400),
        inclusion in prop::sample::select(vec![Inclusion::NonInclusive, Inclusion::Inclusive, Inclusion::Victim]),
        io_ways in prop::sample::select(vec![0u32, 0b1100]),
        entries in prop::sample::select(vec![2u32, 8, 32]),
    ) {
        let mut twin = Twin::new(hierarchy(inclusion, io_ways, entries));
        for (i, &op) in ops.iter().enumerate() {
            if let Some((got, wanted)) = twin.apply(op) {
                prop_assert_eq!(got, wanted, "{} {:?}", i, op);
            }
            prop_assert!(twin.is_consistent(), "{} {:?}", i, op);
        }
    }
}

#[test]
fn a_copy_is_read_from_its_source_and_settled_before_either_is_written() {
    for inclusion in [Inclusion::NonInclusive, Inclusion::Inclusive, Inclusion::Victim] {
        let mut twin = Twin::new(hierarchy(inclusion, 0b1100, 32));
        twin.apply(Op::Read(0, 1));
        twin.apply(Op::Copy(0, 1, 2));
        assert_eq!((twin.source(2), twin.memory.copy_counters().fills), (Some(1), 1));
        assert_eq!(twin.apply(Op::Read(1, 2)), Some((1, 1)));
        assert_eq!((twin.by_table, twin.memory.copy_counters().hits), (1, 1));
        twin.apply(Op::Write(0, 1));
        assert_eq!((twin.source(2), twin.memory.copy_counters().settled), (None, 1));
        assert_eq!(twin.apply(Op::Read(2, 2)), Some((1, 1)));
    }
}

/// A table that leaves out a rule is noticed, so the property above can fail.
#[test]
fn the_twin_notices_each_rule_of_the_table_that_is_left_out() {
    let faults = [
        Fault::KeepOnSourceWrite,
        Fault::KeepOnTargetWrite,
        Fault::ForgetOnTargetWrite,
        Fault::ForgetOnEviction,
        Fault::KeepOnCopyOntoSource,
        Fault::KeepTargetEntry,
        Fault::PointAtCopy,
        Fault::ForgetOldest,
        Fault::DeviceReadMissesTable,
    ];
    let mut runner = TestRunner::deterministic();
    for fault in faults {
        let noticed = (0..200).any(|_| {
            let mut twin = Twin::new(hierarchy(Inclusion::Victim, 0b1100, 8));
            if let Some(copies) = &mut twin.memory.copies {
                copies.table = std::mem::replace(&mut copies.table, IndexTable::new(1, 1)).with_fault(fault);
            }
            let ops = prop::collection::vec(op(), 200).new_tree(&mut runner).unwrap().current();
            ops.into_iter().any(|op| twin.apply(op).is_some_and(|(got, wanted)| got != wanted) || !twin.is_consistent())
        });
        assert!(noticed, "{fault:?}");
    }
}
