//! A functional twin of the memory system: whose data a reader gets, whatever the machine has.

use std::collections::BTreeMap;
use std::ops::Range;

use probe::{Access, Request};
use proptest::prelude::*;
use units::{Cbm, Clos, CoreId, Line, Ps, Size, Span};

use super::{
    AgentAccess, Consumer, CopyEngineSpec, CopyTableSpec, DmaTarget, FetchRecord, Hierarchy, Inclusion, LevelCounters,
    LlcSpec, MemorySpec, Ways,
};
use crate::cache::CacheSpec;
use crate::copy_table::Move;
use crate::dram::DramSpec;
use crate::simt::Coming;
use crate::{Memory, Served};

pub(super) const CORES: u16 = 3;
pub(super) const LINES: u64 = 24;

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
            inclusive_ways: None,
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
        copy_table: Some(CopyTableSpec { entries: Some(entries), ways: 2, latency: ns(1.0), instruction: None }),
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
    /// For a core.
    DeviceWriteTo(DmaTarget, u16, u64),
    /// Nobody reads it again before it is written.
    GiveUp(u16, u64),
    /// A core unmaps a buffer of one line.
    Unmap(u16, u64),
}

/// What every machine does.
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

/// The content of a line that nobody wants: a device has sent it out of a tail, or it was given up.
pub(super) const NOBODYS: u64 = u64::MAX - 1;

pub(super) fn request(core: u16, line: u64, access: Access) -> Request {
    Request { addr: Line(line).addr(), bytes: 64, site: 0, access, clos: Clos(0), core: CoreId(core), mapping: 0 }
}

/// A device writes `line` for `core`.
pub(super) fn write_to(memory: &mut Hierarchy, target: DmaTarget, core: u16, line: u64, now: Ps) -> Ps {
    memory.dma_write_to(target, Consumer { core: CoreId(core), clos: Clos(0) }, Line(line), 1, now)
}

/// The agent `core` uses `line`: who serves it, and what was written down of a request that went to the LLC.
pub(super) fn use_by_agent(
    memory: &mut Hierarchy,
    core: u16,
    line: u64,
    write: bool,
    now: Ps,
) -> (Served, Option<FetchRecord>) {
    let by = AgentAccess { core: CoreId(core), clos: Clos(0), line: Line(line), write };
    memory.keep_records(true);
    let (counters, mut llc) = (memory.counters(), LevelCounters::default());
    let answer = memory.use_by_agent(by, now, &mut llc);
    let mut records = Vec::new();
    memory.take_records(&mut records);
    memory.keep_records(false);
    let after = memory.counters();
    assert_eq!((after.l1, after.l2, after.llc), (counters.l1, counters.l2, counters.llc), "it counts for no core");
    assert!(records.len() <= 1, "a request is one");
    let record = records.pop();
    let answered = record.as_ref().map(|record| record.answer.as_ref().expect("an agent is answered at once"));
    assert_eq!(answer.comes, answered.map_or(Coming::There, |answer| Coming::At(answer.0)));
    (answered.map_or(Served::L2, |answer| answer.1), record)
}

/// Versions instead of bytes: each write makes a new one.
#[derive(Clone)]
pub(super) struct Twin {
    pub memory: Hierarchy,
    /// The core that is an agent.
    pub agent: Option<u16>,
    /// Lines of the NIC's memory.
    pub window: Range<u64>,
    /// What flat memory has.
    flat: [u64; LINES as usize],
    /// What private caches have, where they have the line: they are coherent, so all the same.
    cached: BTreeMap<u64, u64>,
    /// What the LLC of each socket has got of a line, if it still has it: less than a private cache that has it modified.
    llcs: Vec<BTreeMap<u64, u64>>,
    /// What DRAM has, or whatever else stands behind the caches.
    dram: [u64; LINES as usize],
    /// What tails of receive queues have.
    tails: BTreeMap<u64, u64>,
    writes: u64,
    now: Ps,
    /// Reads that the table served.
    pub by_table: u64,
    done: Done,
}

/// What was asked of the memory system: requests of cores but for the agent, how many of them went beyond its private caches,
/// and lines that devices wrote and read.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    accesses: u64,
    fetches: u64,
    written: u64,
    read: u64,
    unmapped: u64,
}

impl Twin {
    pub fn new(memory: Hierarchy) -> Twin {
        let first = std::array::from_fn(|line| line as u64);
        let llcs = vec![BTreeMap::new(); memory.behind.fabric.sockets()];
        Twin {
            memory,
            agent: None,
            window: 0..0,
            flat: first,
            cached: BTreeMap::new(),
            llcs,
            dram: first,
            tails: BTreeMap::new(),
            writes: LINES,
            now: Ps::ZERO,
            by_table: 0,
            done: Done::default(),
        }
    }

    fn in_llc(&self, line: u64) -> bool {
        self.memory.llcs().any(|llc| llc.has(llc.spot(Line(line))))
    }

    fn in_private(&self, line: u64) -> bool {
        self.memory.private_has(Line(line), self.memory.directory.get(Line(line)))
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

    /// What tails have given up: together to DRAM, or for good.
    fn apply_tails(&mut self) {
        let Some(tails) = &mut self.memory.behind.tails else { return };
        for line in std::mem::take(&mut tails.log) {
            self.dram[line.0 as usize] = self.tails[&line.0];
        }
        let memory = &self.memory;
        self.tails.retain(|line, _| memory.behind.tail_has(Line(*line)));
    }

    pub fn source(&self, line: u64) -> Option<u64> {
        self.memory.copies.as_ref().and_then(|c| c.table.source(Line(line))).map(|(src, _)| src.0)
    }

    fn in_cache(&self, line: u64) -> u64 {
        self.cached.get(&line).copied().unwrap_or(u64::MAX)
    }

    /// Brings DRAM up to date with what the memory system says it has written: of the line of `new`, that version, which came
    /// after copies of what was there.
    fn apply_writes(&mut self, new: Option<(u64, u64)>) {
        for moved in std::mem::take(&mut self.memory.log) {
            match moved {
                Move::WriteBack(line) => {
                    let version = new.filter(|new| new.0 == line.0).map_or_else(|| self.in_cache(line.0), |new| new.1);
                    self.dram[line.0 as usize] = version;
                }
                Move::Settle { src, dst } => self.dram[dst.0 as usize] = self.in_cache(src.0),
                _ => {}
            }
        }
    }

    /// Has a core, or the agent, use `line`: who serves it.
    fn served(&mut self, core: u16, line: u64, access: Access) -> Served {
        if self.agent == Some(core) {
            let (served, record) = use_by_agent(&mut self.memory, core, line, access.writes(), self.now);
            if let Some(FetchRecord { at: asked, answer: Ok((at, _, path)), .. }) = &record {
                assert_eq!(path.total(), *at - *asked, "the parts sum to the time: {record:?}");
            }
            return served;
        }
        let response = self.memory.access(&request(core, line, access), self.now);
        assert_eq!(response.path.total(), response.at - self.now, "the parts sum to the time: {response:?}");
        self.done.accesses += 1;
        self.done.fetches += u64::from(!matches!(response.served, Served::L1 | Served::L2));
        response.served
    }

    /// What a core gets of `line`, by who has served it.
    fn access(&mut self, core: u16, line: u64, access: Access) -> u64 {
        let (source, in_tail) = (self.source(line), self.tails.get(&line).copied());
        let here = self.memory.behind.fabric.socket_of(CoreId(core));
        let (own, other) = (self.llc_has(here, line), self.others_have(here, line));
        let of_source = source.and_then(|src| self.llc_has(here, src).or(self.others_have(here, src)));
        let served = self.served(core, line, access);
        self.apply_writes(None);
        self.apply_tails();
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

    /// What a device gets of `line` from a cache or a tail; else it is what DRAM has by then.
    fn device_sees(&self, line: u64) -> Option<u64> {
        if self.in_private(line) {
            return Some(self.in_cache(line));
        }
        let here = self.memory.behind.fabric.socket_of_nic();
        let in_llc = self.llc_has(here, line).or(self.others_have(here, line));
        in_llc.or(self.tails.get(&line).copied())
    }

    /// A device has written `version` of `line`: it is in caches, in a tail, or behind them.
    fn device_wrote(&mut self, line: u64, version: u64) {
        self.apply_writes(Some((line, version)));
        if self.in_llc(line) || self.in_private(line) {
            self.cached.insert(line, version);
        } else {
            let tails = self.memory.behind.tails.as_ref();
            if tails.is_some_and(|tails| tails.has(Line(line)) || tails.log.contains(&Line(line))) {
                self.tails.insert(line, version);
            } else {
                self.dram[line as usize] = version;
            }
        }
        self.apply_llcs();
        self.apply_tails();
    }

    /// What was read, and what flat memory has of it.
    fn read(&self, got: u64, line: u64) -> Option<(u64, u64)> {
        Some((got, self.flat[line as usize]))
    }

    /// Says what was read, and what flat memory has.
    pub fn apply(&mut self, op: Op) -> Option<(u64, u64)> {
        self.now += Ps::from_ns(500);
        match op {
            Op::Read(core, line) => {
                let got = self.access(core, line, Access::Load);
                self.read(got, line)
            }
            Op::Write(core, line) => {
                // Of a part of the line: the rest has to be right.
                let got = self.access(core, line, Access::Store);
                let read = self.read(got, line);
                let version = self.new_version(line);
                self.cached.insert(line, version);
                read
            }
            Op::Copy(core, src, dst) => match self.memory.engine.as_ref().map(|engine| engine.spec().clone()) {
                Some(engine) => self.copy_by_engine(&engine, core, src, dst),
                None => self.copy_by_table(core, src, dst),
            },
            Op::DeviceWrite(line) | Op::DeviceWriteTo(.., line) if self.window.contains(&line) => {
                // The NIC has another packet there.
                self.memory.forget(Line(line), 1, self.now);
                self.apply_writes(None);
                self.apply_llcs();
                self.dram[line as usize] = self.new_version(line);
                None
            }
            Op::DeviceWrite(line) => {
                self.done.written += 1;
                let version = self.new_version(line);
                self.memory.dma_write_packet((line % 2) as usize, Line(line), 1, self.now);
                self.device_wrote(line, version);
                None
            }
            Op::DeviceWriteTo(target, core, line) => {
                self.done.written += 1;
                let version = self.new_version(line);
                write_to(&mut self.memory, target, core, line, self.now);
                self.device_wrote(line, version);
                None
            }
            Op::DeviceRead(line) => self.device_read(line),
            Op::GiveUp(core, line) => {
                self.memory.give_up(CoreId(core), Line(line), 1, self.now);
                self.apply_writes(None);
                self.apply_llcs();
                self.apply_tails();
                assert!(!self.in_llc(line) && !self.in_private(line), "{line} is dead");
                self.flat[line as usize] = NOBODYS;
                None
            }
            Op::Unmap(core, line) => {
                self.done.unmapped += 1;
                self.memory.unmap_for_device(core.into(), [(Line(line), 1)].into_iter(), self.now);
                None
            }
        }
    }

    fn copy_by_table(&mut self, core: u16, src: u64, dst: u64) -> Option<(u64, u64)> {
        let original = self.source(src).unwrap_or(src);
        let (load, store) = (request(core, src, Access::Load), request(core, dst, Access::Store));
        assert!(self.memory.takes_copy(&load, &store));
        let in_tail = self.tails.get(&original).copied();
        let here = self.memory.behind.fabric.socket_of(CoreId(core));
        let (own, other) = (self.llc_has(here, original), self.others_have(here, original));
        let cores_have = self.in_private(original);
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
        self.apply_writes(None);
        self.apply_tails();
        self.flat[dst as usize] = self.flat[src as usize];
        None
    }

    fn copy_by_engine(&mut self, engine: &CopyEngineSpec, core: u16, src: u64, dst: u64) -> Option<(u64, u64)> {
        let (load, store) = (request(core, src, Access::Load), request(core, dst, Access::Store));
        assert!(self.memory.takes_copy(&load, &store));
        let before = match engine {
            // Its load, once more than the engine makes it: that hits.
            CopyEngineSpec::NonTemporal => self.access(core, src, Access::Load),
            _ => self.device_sees(src).unwrap_or(self.dram[src as usize]),
        };
        let reply = self.memory.copy(&load, &store, self.now);
        let response = self.memory.answered(reply, self.now);
        assert_eq!(response.path.total(), response.at - self.now, "the parts sum to the time: {response:?}");
        let wanted = self.flat[src as usize];
        self.flat[dst as usize] = wanted;
        if matches!(engine, CopyEngineSpec::Dma { .. }) {
            (self.done.read, self.done.written) = (self.done.read + 1, self.done.written + 1);
            self.device_wrote(dst, before);
            return Some((before, wanted));
        }
        self.done.accesses += u64::from(*engine == CopyEngineSpec::NonTemporal);
        self.apply_writes(None);
        self.apply_llcs();
        self.apply_tails();
        let is_left = self.in_llc(dst) || self.in_private(dst) || self.tails.contains_key(&dst);
        assert!(!is_left, "{dst} is written past all caches");
        // An engine in the controllers reads memory itself.
        let got = if *engine == CopyEngineSpec::NonTemporal { before } else { self.dram[src as usize] };
        self.dram[dst as usize] = got;
        Some((got, wanted))
    }

    fn device_read(&mut self, line: u64) -> Option<(u64, u64)> {
        self.done.read += 1;
        let (near, in_tail) = (self.device_sees(line), self.tails.contains_key(&line));
        self.memory.dma_read(Line(line), 1, self.now);
        self.apply_writes(None);
        let got = near.unwrap_or(self.dram[line as usize]);
        self.apply_llcs();
        let read = self.read(got, line);
        self.apply_tails();
        if in_tail && !self.tails.contains_key(&line) {
            // It is sent, and nobody wants it any more: what memory has of it is of no interest.
            self.flat[line as usize] = NOBODYS;
        }
        read
    }

    /// Sources are in the LLC, targets are not, and no private cache may write either unseen; an inclusive LLC has what
    /// private caches have.
    pub fn is_consistent(&self) -> bool {
        let m = &self.memory;
        let in_llc = |line: Line| self.in_llc(line.0);
        let shared = |line: Line| {
            m.cores
                .iter()
                .flat_map(|c| [&c.l1, &c.l2])
                .all(|array| array.find(line).is_none_or(|slot| !array.is_exclusive(slot) && !array.is_dirty(slot)))
        };
        let is_private = |line: Line| m.cores.iter().any(|c| c.l1.find(line).is_some() || c.l2.find(line).is_some());
        // What a pointer represents is beside the LLC, and what another socket's core supplied in the LLC there.
        let includes = m.inclusion == Inclusion::Inclusive && m.copies.is_none() && !m.has_sockets();
        if includes && (0..LINES).map(Line).any(|line| is_private(line) && !in_llc(line)) {
            return false;
        }
        let Some(copies) = &m.copies else { return true };
        let mut pointers = copies.table.pointers();
        pointers.all(|(dst, src)| in_llc(src) && !in_llc(dst) && shared(src) && shared(dst))
    }

    /// That each request was answered once: whatever was asked of the memory system is in its counters, and nothing is under way.
    pub fn check_conserved(&mut self) {
        self.memory.advance(self.now + Ps::from_ns(1_000_000), &mut Vec::new());
        assert_eq!(self.memory.next_answer(), Ps::MAX, "a request is under way");
        let (counters, done) = (self.memory.counters(), self.done);
        let counted =
            (counters.l1.lookups(), counters.l1.misses, counters.dma_write.lookups(), counters.dma_read.lookups());
        assert_eq!(counted, (done.accesses, counters.l2.lookups(), done.written, done.read), "{done:?} {counters:?}");
        if self.memory.applications.is_none() {
            let served = counters.llc.lookups() + counters.snoops + counters.upgrades;
            assert_eq!(served, done.fetches, "{done:?} {counters:?}");
        }
        if let Some(iommu) = self.memory.iommu_counters() {
            assert_eq!(
                (iommu.hits + iommu.misses, iommu.unmapped),
                (done.written + done.read, done.unmapped),
                "{iommu:?}"
            );
        }
        if let Some(tails) = self.memory.tails() {
            let left = self.memory.tail_lines();
            assert_eq!(tails.written, tails.gathered + tails.bypassed + tails.replaced + left, "{tails:?}");
        }
    }
}
