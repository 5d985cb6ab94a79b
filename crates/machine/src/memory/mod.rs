//! The memory system that cores and devices share: private L1 and L2 of each core, a shared LLC
//! with way masks and I/O ways, and DRAM.
//!
//! A request is answered in two steps. [`Memory::lookup`] changes the core's private caches in
//! program order and touches nothing shared, so a core may run ahead of the others as long as it
//! hits. [`Memory::fetch`] does the shared part and is called in order of time over all cores
//! and devices.
//!
//! Coherence: MESI among the private caches. A directory names the cores that may have a line, or, with
//! [`Coherence::Snoop`], all are asked (`snooping`). A write takes the line from the
//! others; a read leaves it shared and brings the LLC up to date; a device's write invalidates all
//! private copies (Intel 64 SDM vol. 3, 18.19; DDIO: Farshin et al., USENIX ATC 2020, "Reexamining
//! Direct Cache Access"). A request for a line that is on its way from DRAM waits for it. A copy table
//! beside the LLC ([`CopyTableSpec`]) makes copies of lines by pointers, its rivals are [`CopyEngineSpec`]. Left out: transient states; the
//! translation of addresses of such copies; requests enter a slice's queue in the order in which they are
//! made, whatever the wires in between.

mod agents;
#[cfg(test)]
mod agents_tests;
mod applications;
#[cfg(test)]
mod applications_tests;
mod behind;
mod copies;
#[cfg(test)]
mod copies_tests;
mod copy_queue;
mod directory;
mod engines;
#[cfg(test)]
mod engines_tests;
mod exclusions;
mod extent;
mod fabric;
mod home;
mod homes;
mod in_flight;
#[cfg(test)]
mod inclusive_tests;
mod iommu;
mod latest;
#[cfg(test)]
mod links_tests;
mod llc;
mod mix;
mod nic_window;
mod pending;
mod placement;
mod protocol;
mod received;
mod records;
#[cfg(test)]
mod rows_tests;
mod snooping;
#[cfg(test)]
mod snooping_tests;
mod socket_spec;
mod sockets;
#[cfg(test)]
mod sockets_tests;
mod tables_in_stack;
mod tails;
mod take_over;
#[cfg(test)]
mod take_over_tests;
mod targets;
mod tenants;
#[cfg(test)]
mod tenants_tests;
mod tlb;
#[cfg(test)]
mod together_tests;
#[cfg(test)]
mod twin_tests;
mod unmaps;
mod warm;
#[cfg(test)]
mod warm_tests;
mod ways;
mod wires;

pub use agents::{AgentAccess, AgentMemory};
pub use applications::{ApplicationCounters, ApplicationSpec, ApplicationState};
pub use copies::{CopyCounters, CopyInstructionSpec, CopyTableSpec};
pub use engines::{CopyEngineSpec, EngineCounters, EngineNotice};
pub use exclusions::{EXCLUSIONS, ExcludedSetting, Exclusion, ExclusionKind, check_together};
pub use extent::Extent;
pub use fabric::{LinkCounters, SocketCounters};
pub use iommu::{IommuCounters, IommuMode, IommuSpec};
pub use latest::PrivateLevels;
pub(crate) use llc::Hash;
pub use llc::{Coherence, Inclusion, Interconnect, LlcSpec, SliceCounters, SliceHash};
pub use pending::{MemoryReply, Transaction};
pub use records::FetchRecord;
pub use snooping::{MesiState, SnoopCounters, Supplied};
pub use socket_spec::{HomeSocket, SocketsSpec};
pub use tables_in_stack::{StackedCounters, StackedTablesSpec};
pub use tails::{MOST_CACHED, TailCounters};
pub use targets::{Consumer, DeadLines, DmaTarget, TargetsSpec};
pub use tlb::{PageSizeSpec, TlbSpec, Translation, Walk};
pub use warm::Warming;
pub use ways::Ways;
pub use wires::WireTopology;

use std::collections::VecDeque;

use probe::Request;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Path, Reason};
use units::{Addr, Cbm, Clos, CoreId, LINE_BYTES, Line, Ps, Ticket};

use applications::Applications;
use behind::{Behind, Fill};
use copies::Copies;
use directory::Directory;
use engines::CopyEngine;
use fabric::Fabric;
use iommu::Iommu;
use latest::Latest;
use llc::{FillRule, Llc, Requester, SliceArrival, Spot};
use pending::Asked;
use protocol::Protocol;
use received::UntouchedLines;
use tlb::Tlb;

use crate::cache::{
    self, CacheSpec, NoWay, ObservedAccess, Prefetcher, PrefetcherSpec, TagArray, Victim, WriteOutcome,
};
use crate::dram::{Dram, DramSpec};
use crate::{MachineError, Memory, PrivateLookup, Reply, Response, Served};

/// The most cores: a directory entry is a word.
pub const MAX_CORES: u32 = 64;

const ALL_WAYS: Cbm = Cbm(u32::MAX);

/// The memory system of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemorySpec {
    /// First-level data cache of each core.
    pub l1: CacheSpec,
    /// Second-level cache of each core.
    pub l2: CacheSpec,
    /// Address translation of each core; free when left out.
    pub tlb: Option<TlbSpec>,
    /// What each core's L2 asks for before it is wanted; nothing when left out.
    pub prefetcher: Option<PrefetcherSpec>,
    /// Lines that a prefetcher has asked for and that wait for their core to send them out, at most.
    pub waiting_prefetches: u32,
    /// The shared last-level cache.
    pub llc: LlcSpec,
    /// DRAM.
    pub dram: DramSpec,
    /// A copy table beside the LLC; copies are loads and stores when left out.
    pub copy_table: Option<CopyTableSpec>,
    /// Who else makes copies; not with a copy table.
    pub copy_engine: Option<CopyEngineSpec>,
}

/// Hits and misses of one level.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    derive_more::Sub,
    derive_more::AddAssign,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub struct LevelCounters {
    /// Lookups that found what they looked for.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
}

impl LevelCounters {
    /// All of them.
    pub fn lookups(&self) -> u64 {
        self.hits + self.misses
    }
}

/// What a hierarchy has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Sub, Serialize, Deserialize)]
pub struct MemoryCounters {
    /// L1 of all cores.
    pub l1: LevelCounters,
    /// L2 of all cores.
    pub l2: LevelCounters,
    /// Lookups of the LLC by cores.
    pub llc: LevelCounters,
    /// Device writes: of lines that a cache has, of whichever socket, or of others (misses).
    pub dma_write: LevelCounters,
    /// Device reads: from a cache, or from DRAM (misses).
    pub dma_read: LevelCounters,
    /// Lines of packets that devices have written and that a core's load or store was the first to come for, beyond private caches: a cache
    /// had the line still, or it had to come from memory (misses).
    pub first_touch: LevelCounters,
    /// The same, of lines that a prefetch was the first to come for: a core's own hint or one of its prefetcher. The load that follows is no
    /// first touch.
    pub first_prefetch: LevelCounters,
    /// Translations by the first-level TLBs.
    pub tlb: LevelCounters,
    /// Page walks, for want of a translation in any TLB.
    pub page_walks: u64,
    /// Lines that the prefetchers have asked the LLC for.
    pub prefetches: u64,
    /// Lines taken from another core's private cache.
    pub snoops: u64,
    /// Lines taken over for writing that were there already.
    pub upgrades: u64,
    /// Copies that other cores gave up to a core that writes, one of L1 and L2 together.
    pub invalidations: u64,
    /// Dirty lines that the LLC wrote to DRAM.
    pub writebacks: u64,
}

impl MemoryCounters {
    /// Lines of packets that devices have written and that a core, or a prefetch of its, has come for: whoever came first.
    pub fn first_come(&self) -> LevelCounters {
        let mut both = self.first_touch;
        both += self.first_prefetch;
        both
    }
}

/// What a class of service has done, and has, at the LLC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Its lookups.
    pub llc: LevelCounters,
    /// Lines present that it has brought in, as Intel's CMT and AMD's QoS monitoring count them: a line that
    /// someone else uses stays the first one's.
    pub lines: u64,
}

impl LevelCounters {
    #[inline(always)]
    fn count(&mut self, hit: bool) {
        self.hits += u64::from(hit);
        self.misses += u64::from(!hit);
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Private {
    l1: TagArray,
    l2: TagArray,
    latest: Latest,
    tlb: Option<Tlb>,
    prefetching: Option<Prefetching>,
}

/// What the private caches of other cores had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Snooped {
    Nothing,
    /// What memory or the LLC has, too.
    Clean,
    /// The only current copy.
    Dirty,
}

/// Room for what happens to the lines of a row.
#[derive(Clone, Debug)]
struct Scratch {
    /// When slices answer.
    answers: [Ps; llc::LONGEST_ROW],
    /// Lines that go to DRAM, and when.
    victims: [(Line, Ps); llc::LONGEST_ROW],
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch { answers: [Ps::ZERO; llc::LONGEST_ROW], victims: [(Line(0), Ps::ZERO); llc::LONGEST_ROW] }
    }
}

/// A prefetcher and what it has asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Prefetching {
    prefetcher: Prefetcher,
    /// Not yet looked for, as what asked for them: those asked for last come first.
    wanted: VecDeque<Request>,
    /// So many of them may wait, or as many as were asked for last.
    waiting: usize,
    /// Kept so that none is made for each request.
    asked: Vec<Line>,
    /// The last that were fetched and not yet used, in a ring: as long as streams run ahead.
    #[serde(with = "units::arrays")]
    unused: [u32; 64],
    next: usize,
}

/// The memory system. See the module header.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hierarchy {
    cores: Vec<Private>,
    directory: Directory,
    llc: Llc,
    inclusion: Inclusion,
    /// The ways each class of service may fill; class 0 has some, a class that was never set has
    /// class 0's.
    class_ways: Vec<Option<Cbm>>,
    /// Lookups of the LLC by class.
    class_llc: Vec<LevelCounters>,
    /// Masks may have gaps.
    gaps: bool,
    io_ways: Cbm,
    /// Where lines of devices go that cores read; they stay, or go along, when left out.
    inclusive_ways: Option<Cbm>,
    core_age: u8,
    io_age: u8,
    l1_latency: Ps,
    l2_latency: Ps,
    /// Who answers for lines that no cache has.
    behind: Behind,
    copies: Option<Box<Copies>>,
    engine: Option<Box<CopyEngine>>,
    protocol: Protocol,
    /// The LLCs of several sockets; that of the one that asked last is `llc`, and its place here is empty.
    others: Vec<Option<Llc>>,
    /// Whose lines the LLC tells apart; nobody's when left out.
    applications: Option<Box<Applications>>,
    /// Translates addresses of devices, if anyone does.
    iommu: Option<Box<Iommu>>,
    /// Lines of packets that no core has asked for yet.
    received: UntouchedLines,
    #[serde(skip)]
    scratch: Option<Box<Scratch>>,
    /// References beyond the private caches, where somebody wants to see them.
    #[serde(skip)]
    records: Option<Vec<FetchRecord>>,
    counters: MemoryCounters,
    /// Lines that went to DRAM, for tests.
    #[cfg(test)]
    #[serde(skip)]
    log: crate::copy_table::Moves,
}

/// A time of a memory system, at most: what packets wait for it has to fit into simulated time.
const LONGEST: Ps = Ps(1_000_000_000);
/// Between two refreshes, at most.
const LONGEST_REFRESH: Ps = Ps(1_000_000_000_000);

impl MemorySpec {
    /// That no time is longer than a millisecond.
    ///
    /// # Errors
    /// The first that is.
    pub fn check_times(&self, path: &str) -> Result<(), MachineError> {
        let (llc, dram) = (&self.llc, &self.dram);
        for (field, span) in [
            ("l1.latency", self.l1.latency),
            ("l2.latency", self.l2.latency),
            ("llc.latency", llc.latency),
            ("llc.interval", llc.interval),
            ("llc.snoop", llc.snoop),
            ("dram.t_cl", dram.t_cl),
            ("dram.t_rcd", dram.t_rcd),
            ("dram.t_rp", dram.t_rp),
            ("dram.t_ras", dram.t_ras),
            ("dram.t_burst", dram.t_burst),
            ("dram.t_rfc", dram.t_rfc),
            ("dram.overhead", dram.overhead),
        ] {
            if span.ps() > LONGEST {
                let remedy = "a unit may be missing: a bare number is in ns".into();
                return Err(MachineError::new(format!("{path}.{field}"), span.to_string(), "at most 1 ms", remedy));
            }
        }
        if dram.t_refi.ps() > LONGEST_REFRESH {
            let remedy = "a DRAM that is never refreshed forgets".into();
            return Err(MachineError::new(
                format!("{path}.dram.t_refi"),
                dram.t_refi.to_string(),
                "at most 1 s",
                remedy,
            ));
        }
        Ok(())
    }
}

impl Hierarchy {
    /// Builds the memory system of `cores` cores. `path` is where the specification stands in the
    /// scenario.
    ///
    /// # Errors
    /// Sizes, masks and times that contradict each other; see [`MachineError`].
    pub fn new(spec: &MemorySpec, cores: u32, path: &str) -> Result<Hierarchy, MachineError> {
        spec.check_times(path)?;
        check_together(spec, path)?;
        if !(1..=MAX_CORES).contains(&cores) {
            return Err(MachineError::new(
                format!("{path}.cores"),
                cores.to_string(),
                format!("1 to {MAX_CORES}"),
                if cores == 0 { "give at least one" } else { "use fewer cores" }.into(),
            ));
        }
        let l1 = TagArray::new(spec.l1.sets(&format!("{path}.l1"))?, spec.l1.ways);
        let tlb = spec.tlb.as_ref().map(|tlb| Tlb::new(tlb, &format!("{path}.tlb"))).transpose()?;
        let prefetching = match &spec.prefetcher {
            Some(prefetcher) => {
                prefetcher.check(&format!("{path}.prefetcher"))?;
                Some(Prefetching::new(*prefetcher, spec.waiting_prefetches))
            }
            None => None,
        };
        let llc = Llc::new(&spec.llc, cores, &format!("{path}.llc"))?;
        let llc_latency = llc.latency();
        let together = vec![0; cores as usize];
        let protocol = Protocol::new(&spec.llc, &together, 1, spec.l2.latency.ps(), &format!("{path}.llc"))?;
        let l2 = TagArray::new(spec.l2.sets(&format!("{path}.l2"))?, spec.l2.ways);
        if spec.l1.latency.ps() > spec.l2.latency.ps() || spec.l2.latency.ps() > spec.llc.latency.ps() {
            return Err(MachineError::new(
                format!("{path}.llc.latency"),
                format!(
                    "{} with l2.latency = {} and l1.latency = {}",
                    spec.llc.latency, spec.l2.latency, spec.l1.latency
                ),
                "latencies that grow from L1 to LLC",
                "each is load-to-use from the core".into(),
            ));
        }
        let core_ways = spec.llc.core_ways.unwrap_or(Ways::Count(spec.llc.ways));
        let core_ways = core_ways.lowest(&format!("{path}.llc.core_ways"), spec.llc.ways)?;
        let io_ways = spec.llc.io_ways.highest(&format!("{path}.llc.io_ways"), spec.llc.ways)?;
        let of_both = |ways: Ways| ways.lowest(&format!("{path}.llc.inclusive_ways"), spec.llc.ways);
        let inclusive_ways = spec.llc.inclusive_ways.map(of_both).transpose()?;
        Ok(Hierarchy {
            cores: vec![Private { latest: Latest::new(l1.sets()), l1, l2, tlb, prefetching }; cores as usize],
            directory: Directory::new(cores),
            llc,
            inclusion: spec.llc.inclusion,
            class_ways: vec![Some(core_ways)],
            class_llc: vec![LevelCounters::default(); 16],
            gaps: false,
            io_ways,
            inclusive_ways,
            core_age: spec.llc.core_age,
            io_age: spec.llc.io_age,
            l1_latency: spec.l1.latency.ps(),
            l2_latency: spec.l2.latency.ps(),
            behind: Behind::new(spec, cores, Fabric::default(), llc_latency, path)?,
            copies: match &spec.copy_table {
                Some(table) => Some(Box::new(Copies::new(table, spec, &format!("{path}.copy_table"))?)),
                None => None,
            },
            engine: match &spec.copy_engine {
                Some(engine) => Some(Box::new(CopyEngine::new(engine, &format!("{path}.copy_engine"))?)),
                None => None,
            },
            protocol,
            others: Vec::new(),
            applications: None,
            iommu: None,
            received: UntouchedLines::default(),
            scratch: None,
            records: None,
            counters: MemoryCounters::default(),
            #[cfg(test)]
            log: Vec::new(),
        })
    }

    /// Places the page tables behind `end`, the end of the memory that is mapped.
    pub fn tables_at(&mut self, end: Addr) {
        self.cores.iter_mut().filter_map(|c| c.tlb.as_mut()).for_each(|tlb| tlb.tables_at(end));
    }

    /// What it has done so far.
    pub fn counters(&self) -> MemoryCounters {
        self.counters
    }

    /// Puts `counters` in place of what was counted, which is given: for references that are not to count.
    pub fn set_counters(&mut self, counters: MemoryCounters) -> MemoryCounters {
        std::mem::replace(&mut self.counters, counters)
    }

    /// Puts `counters` in place of what snooping was counted to do, as [`Hierarchy::set_counters`]; nothing where a directory
    /// knows.
    pub fn set_snoop_counters(&mut self, counters: Option<SnoopCounters>) {
        self.protocol.set_counters(counters);
    }

    /// The DRAM behind the LLC, where it has no controllers that answer later.
    pub fn dram(&self) -> &Dram {
        &self.behind.drams[0]
    }

    /// What each slice of the LLC has done.
    pub fn slices(&self) -> Vec<SliceCounters> {
        self.llcs().flat_map(Llc::counters).collect()
    }

    /// Lines in the LLC.
    pub fn llc_occupancy(&self) -> u64 {
        self.llcs().map(Llc::occupancy).sum()
    }

    /// What class `clos` has done and has; zeros of a class that nobody is in.
    pub fn class(&self, clos: Clos) -> ClassCounters {
        let llc = self.class_llc.get(usize::from(clos.0)).copied().unwrap_or_default();
        ClassCounters { llc, lines: self.owned(clos.0) }
    }

    /// Lines in the LLC that device writes have brought in.
    pub fn io_lines(&self) -> u64 {
        self.owned(llc::DEVICES)
    }

    fn owned(&self, owner: u8) -> u64 {
        self.llcs().map(|llc| llc.owned(owner)).sum()
    }

    /// Ways of the LLC.
    pub fn llc_ways(&self) -> u32 {
        self.llc.ways()
    }

    /// The ways that device writes may fill.
    pub fn io_ways(&self) -> Cbm {
        self.io_ways
    }

    /// The ways that class `clos` may fill.
    pub fn class_ways(&self, clos: Clos) -> Cbm {
        self.share_of(clos).ways
    }

    /// Whether [`Hierarchy::set_io_ways`] and [`Hierarchy::set_class_ways`] would take these.
    ///
    /// # Errors
    /// As theirs.
    pub fn check_allocation(&self, io: Option<Cbm>, classes: &[(Clos, Cbm)]) -> Result<(), MachineError> {
        if let Some(ways) = io {
            self.check_mask("machine.llc.io_ways", ways, true)?;
        }
        classes.iter().try_for_each(|&(clos, ways)| self.check_mask(&format!("machine.clos.{clos}.ways"), ways, false))
    }

    /// Takes masks with gaps from now on, as AMD's processors do, and Intel's that tell `sparse_masks`.
    pub fn accept_gaps(&mut self) {
        self.gaps = true;
    }

    fn check_mask(&self, path: &str, mask: Cbm, may_be_empty: bool) -> Result<(), MachineError> {
        match self.gaps {
            true => cache::check_ways(path, mask.0, self.llc.ways(), may_be_empty),
            false => check_ways(path, mask, self.llc.ways(), may_be_empty),
        }
    }

    /// Sets the ways that device writes may fill from now on; nothing moves. No way turns DDIO off.
    ///
    /// # Errors
    /// Ways that the LLC does not have, or a mask that is not contiguous ([`Hierarchy::accept_gaps`]); nothing has changed
    /// then.
    pub fn set_io_ways(&mut self, ways: Cbm) -> Result<(), MachineError> {
        self.check_mask("machine.llc.io_ways", ways, true)?;
        self.io_ways = ways;
        Ok(())
    }

    /// Sets the ways that class `clos` may fill from now on; nothing moves. A class never set has
    /// class 0's ways.
    ///
    /// # Errors
    /// Ways that the LLC does not have, none at all, or a mask that is not contiguous; nothing has
    /// changed then.
    pub fn set_class_ways(&mut self, clos: Clos, ways: Cbm) -> Result<(), MachineError> {
        self.check_mask(&format!("machine.clos.{clos}.ways"), ways, false)?;
        let at = usize::from(clos.0);
        if self.class_ways.len() <= at {
            self.class_ways.resize(at + 1, None);
        }
        self.class_ways[at] = Some(ways);
        Ok(())
    }

    /// A device writes `count` lines of a packet from `first` on at `now`, one after the other: when the last write is
    /// done, as far as that is known (see [`Hierarchy::open`]), and translation apart (see [`Hierarchy::translated`]). A write
    /// that puts a dirty line out of the LLC is done once memory has taken that in: until then it has no place to go.
    pub fn dma_write(&mut self, first: Line, count: u64, now: Ps) -> Ps {
        self.note_received(first, count, true);
        self.translate_for_device(first, count, now);
        if self.is_plain() && self.io_ways.0 != 0 && self.inclusion != Inclusion::Inclusive {
            return self.write_rows(first, count, now);
        }
        self.enter(Requester::Device);
        let io = FillRule { ways: self.io_ways, age: self.io_age, owner: llc::DEVICES };
        self.for_each_line(first, count, |memory, line, spot| memory.write_from_device(line, spot, io, now))
    }

    /// A device reads `count` lines of a packet from `first` on at `now`, one after the other: when all data are there.
    /// Nothing is allocated and nothing moves.
    pub fn dma_read(&mut self, first: Line, count: u64, now: Ps) -> Ps {
        self.translate_for_device(first, count, now);
        if self.is_plain() {
            return self.read_rows(first, count, now);
        }
        self.set_output(true);
        self.enter(Requester::Device);
        let at = self.for_each_line(first, count, |memory, line, spot| memory.read_by_device(line, spot, now));
        self.set_output(false);
        at
    }

    /// Says whether devices read packets from now on, to send them, or anything else.
    fn set_output(&mut self, output: bool) {
        if let Some(pending) = &mut self.behind.pending {
            pending.output = output;
        }
    }

    /// A device writes a line of descriptors, as [`Hierarchy::dma_write`].
    pub fn write_descriptors(&mut self, line: Line, now: Ps) -> Ps {
        self.dma_write(line, 1, now)
    }

    /// A device reads a line of descriptors, as [`Hierarchy::dma_read`].
    pub fn read_descriptors(&mut self, line: Line, now: Ps) -> Ps {
        self.translate_for_device(line, 1, now);
        if self.is_plain() {
            return self.read_rows(line, 1, now);
        }
        self.enter(Requester::Device);
        self.for_each_line(line, 1, |memory, line, spot| memory.read_by_device(line, spot, now))
    }

    /// Whether nothing but caches and DRAM that answers at once sees what devices do, so that it may be done row by row.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.behind.is_plain()
            && self.copies.is_none()
            && self.applications.is_none()
            && !self.protocol.asks_all()
            && self.engine.as_ref().is_none_or(|engine| engine.under_way.is_empty())
            && self.llc.has_rows()
    }

    /// What [`Hierarchy::write_from_device`] does to each of `count` lines from `first` on, where all is plain and there
    /// are ways for devices.
    fn write_rows(&mut self, first: Line, count: u64, now: Ps) -> Ps {
        let io = FillRule { ways: self.io_ways, age: self.io_age, owner: llc::DEVICES };
        let mut scratch = self.scratch.take().unwrap_or_default();
        let Scratch { answers, victims } = &mut *scratch;
        let (mut hits, mut latest) = (0, Ps::ZERO);
        let (mut line, end) = (first.0, first.0 + count);
        while line < end {
            let row = self.llc.rest_of_row(Line(line)).min(end - line) as u32;
            let spot = self.llc.spot(Line(line));
            self.llc.prefetch_row(spot, row);
            latest = latest.max(self.llc.answer_row(spot, row, now, answers));
            let (mut held, mut shared) = (0u64, self.directory.shared(Line(line), row));
            while shared != 0 {
                let i = shared.trailing_zeros();
                shared &= shared - 1;
                held |= u64::from(self.invalidate_private(Line(line + u64::from(i))).is_some()) << i;
            }
            let mut gone = 0;
            let found = self.llc.write_row(spot, row, io, |i, victim| {
                victims[gone] = (victim, answers[i as usize % llc::LONGEST_ROW]);
                gone += 1;
            });
            hits += u64::from((found | held).count_ones());
            latest = latest.max(self.write_back_all(&victims[..gone]));
            line += u64::from(row);
        }
        self.scratch = Some(scratch);
        self.counters.dma_write.hits += hits;
        self.counters.dma_write.misses += count - hits;
        latest
    }

    /// [`Hierarchy::write_back`] of lines, each at its time, where DRAM answers at once: when that has taken them in.
    #[inline(always)]
    fn write_back_all(&mut self, lines: &[(Line, Ps)]) -> Ps {
        #[cfg(test)]
        self.log.extend(lines.iter().map(|&(line, _)| crate::copy_table::Move::WriteBack(line)));
        self.counters.writebacks += lines.len() as u64;
        self.behind.drams[0].write_all(lines)
    }

    /// What [`Hierarchy::read_by_device`] does to each of `count` lines from `first` on, where all is plain.
    fn read_rows(&mut self, first: Line, count: u64, now: Ps) -> Ps {
        let mut scratch = self.scratch.take().unwrap_or_default();
        let answers = &mut scratch.answers;
        let (mut misses, mut latest) = (0, Ps::ZERO);
        let (mut line, end) = (first.0, first.0 + count);
        while line < end {
            let row = self.llc.rest_of_row(Line(line)).min(end - line) as u32;
            let spot = self.llc.spot(Line(line));
            self.llc.prefetch_row(spot, row);
            latest = latest.max(self.llc.answer_row(spot, row, now, answers));
            let mut missed = !self.llc.find_row(spot, row) & u64::MAX >> (64 - row);
            while missed != 0 {
                let i = missed.trailing_zeros();
                missed &= missed - 1;
                let line = Line(line + u64::from(i));
                if !self.private_has(line, self.directory.get(line)) {
                    misses += 1;
                    latest = latest.max(self.behind.drams[0].post(line, false, answers[i as usize]));
                }
            }
            line += u64::from(row);
        }
        self.scratch = Some(scratch);
        self.counters.dma_read.hits += count - misses;
        self.counters.dma_read.misses += misses;
        latest
    }

    /// A device is to overwrite all of `line`: when its request has been answered, nobody else has the line then but the LLC; and
    /// whether another socket or a core had it.
    #[inline(always)]
    fn claim_for_device(&mut self, line: Line, spot: Spot, now: Ps) -> (Ps, bool) {
        self.meet_tenants(spot, now);
        let mut at = self.reach_llc(spot, true, true, now);
        if self.protocol.asks_all() {
            self.looked_up_for_device(self.directory.get(line), line, true);
        }
        if self.copies.is_some() {
            self.before_write(line, at);
        }
        let mut held = false;
        if self.has_sockets() {
            held = self.others_have(line);
            at += self.claim(line, at);
        }
        self.behind.overwritten(line);
        if self.behind.tails.is_some() {
            self.behind.supersede(line);
        }
        held |= self.invalidate_private(line).is_some();
        (at, held)
    }

    /// When the write of `line`, which may come in as `io` says, is done.
    #[inline(always)]
    fn write_from_device(&mut self, line: Line, spot: Spot, io: FillRule, now: Ps) -> Ps {
        let (at, held) = self.claim_for_device(line, spot, now);
        // Skylake's counter of PCIe writes that hit counts those of which a core has the only copy:
        // with 128 descriptors and 512 B it reads 100.00 %, and cores read a line of each packet.
        // Who skips the LLC does not look there for what a device has written.
        let io = if self.applications.is_some() && io.ways.0 != 0 { self.admitted(line, io) } else { Some(io) };
        let Some(io) = io.filter(|io| io.ways.0 != 0) else {
            let found = self.llc.remove(spot).is_some();
            self.counters.dma_write.count(found || held);
            let there = if self.behind.tails.is_some() { self.hold(line, at) } else { None };
            return there.unwrap_or_else(|| self.behind.write(line, at).1);
        };
        let (found, at) = self.fill_or_write(line, spot, io, at);
        self.counters.dma_write.count(found || held);
        at
    }

    /// A device's `line` is in the LLC, in place or as `io` says; whether it was there, and when it has its place.
    #[inline(always)]
    fn fill_or_write(&mut self, line: Line, spot: Spot, io: FillRule, at: Ps) -> (bool, Ps) {
        match self.llc.write_or_fill(spot, io) {
            WriteOutcome::InPlace => (true, at),
            WriteOutcome::Filled(victim) => {
                self.behind.accepted = Ps::ZERO;
                self.evict_from_llc(line, true, victim, at);
                (false, at.max(self.behind.accepted))
            }
        }
    }

    /// When the data of `line` are there.
    #[inline(always)]
    fn read_by_device(&mut self, line: Line, spot: Spot, now: Ps) -> Ps {
        self.meet_tenants(spot, now);
        let sharers = self.directory.get(line);
        let from_core = self.protocol.asks_all() && self.core_sends_device(line, spot, sharers);
        let at = self.reach_llc(spot, false, !from_core, now);
        let near = self.llc.has(spot) || self.private_has(line, sharers & self.behind.fabric.cores_here());
        let found = near || self.private_has(line, sharers);
        // The LLC of another socket answers as DRAM does, and sooner.
        self.counters.dma_read.count(found || self.has_sockets() && self.others_have(line));
        let there = if found {
            if self.behind.tails.is_some() {
                self.is_sent(line);
            }
            self.behind.join_for_device(line);
            if from_core {
                self.looked_up_for_device(sharers, line, false);
                self.supplied(Requester::Device, now).map_or(at, |(at, _)| at)
            } else {
                at + if near { Ps::ZERO } else { self.supplied_to_device(sharers, at) }
            }
        } else {
            if self.copies.is_some() {
                self.before_device_read(line, at);
            }
            self.read_for_device(line, at)
        };
        self.after_copy_for_device(line, now, there)
    }

    /// The latest of what `access` gives for each of `count` lines.
    #[inline(always)]
    fn for_each_line(
        &mut self,
        first: Line,
        count: u64,
        mut access: impl FnMut(&mut Hierarchy, Line, Spot) -> Ps,
    ) -> Ps {
        /// So many at a time, to have the host bring their sets before they are needed.
        const GROUP: u64 = 8;
        let mut spots = [Spot::default(); GROUP as usize];
        let (mut line, end) = (first.0, first.0 + count);
        let mut latest = Ps::ZERO;
        while line < end {
            let group = (end - line).min(GROUP) as usize;
            for (i, spot) in spots[..group].iter_mut().enumerate() {
                *spot = self.llc.spot(Line(line + i as u64));
                self.llc.prefetch(*spot);
            }
            for (i, &spot) in spots[..group].iter().enumerate() {
                latest = latest.max(access(self, Line(line + i as u64), spot));
            }
            line += group as u64;
        }
        latest
    }

    #[inline]
    fn share_of(&self, clos: Clos) -> FillRule {
        let own = self.class_ways.get(usize::from(clos.0)).copied().flatten();
        FillRule { ways: own.or(self.class_ways[0]).unwrap_or(ALL_WAYS), age: self.core_age, owner: clos.0 }
    }

    #[inline]
    fn class_llc(&mut self, clos: Clos) -> &mut LevelCounters {
        let at = usize::from(clos.0);
        if at >= self.class_llc.len() {
            self.class_llc.resize(at + 1, LevelCounters::default());
        }
        &mut self.class_llc[at]
    }

    /// The part of [`Memory::lookup`] for a line that L1 does not have.
    #[inline(never)]
    fn lookup_beyond_l1(&mut self, request: &Request) -> PrivateLookup {
        let line = request.addr.line();
        let write = request.access.writes();
        let Private { l1, l2, latest, prefetching, .. } = &mut self.cores[usize::from(request.core.0)];
        latest.set(line, false);
        self.counters.l1.misses += 1;
        let mut victims = [None; 2];
        let (found, exclusive) = match l2.use_line(line) {
            Some(slot) => (true, l2.is_exclusive(slot)),
            None => (false, false),
        };
        let prefetches = prefetching.as_mut().is_some_and(|p| p.observe(request, found));
        if found {
            self.counters.l2.hits += 1;
            if self.applications.is_some() {
                l2.find(line).into_iter().for_each(|slot| l2.set_owner(slot, applications::REUSED));
            }
        } else {
            self.counters.l2.misses += 1;
            victims[0] = l2.fill(line, ALL_WAYS, false, false).unwrap_or(None);
        }
        let evicted = l1.fill(line, ALL_WAYS, write, exclusive).unwrap_or(None);
        if let Some(Victim { line, dirty: true, .. }) = evicted {
            // A dirty line goes down to L2, which need not have it.
            if l2.write_line(line) {
                l2.set_exclusive(line, true);
            } else {
                victims[1] = l2.fill(line, ALL_WAYS, true, true).unwrap_or(None);
            }
        }
        let upgrade = found && write && !exclusive;
        let hit = (found && !upgrade).then_some(Served::L2);
        PrivateLookup { hit, upgrade, victims, prefetches }
    }

    /// When a device's request made at `now` has been answered by the LLC; `is_carried` if the line goes to or from its
    /// slice.
    #[inline]
    fn reach_llc(&mut self, spot: Spot, write: bool, is_carried: bool, now: Ps) -> Ps {
        let cast = self.cast(spot, Requester::Device, now);
        let SliceArrival { at, distance, .. } = self.llc.take_in(spot, Requester::Device, now + cast.waited);
        let at = at + cast.answered.since(at + self.llc.latency());
        let waited = if is_carried { self.llc.carry(spot, Requester::Device, write, at) } else { Ps::ZERO };
        at + self.llc.latency() + distance + waited
    }

    /// Whether the LLC sends a line, with snooping, and not a core, or nobody.
    #[inline(never)]
    fn llc_sends(&self, snooped: Snooped, upgrade: bool, spot: Spot) -> bool {
        !upgrade && (snooped == Snooped::Nothing || snooped == Snooped::Clean && self.llc.has(spot))
    }

    /// Whether a private cache sends a device `line`, which `sharers` may have, with snooping, and not the LLC.
    #[inline(never)]
    fn core_sends_device(&self, line: Line, spot: Spot, sharers: u64) -> bool {
        if self.llc.has(spot) { self.is_modified(line, sharers) } else { self.private_has(line, sharers) }
    }

    /// Asks the private caches of `others` for `line`: whether one of them supplies it, and whether
    /// one still has it afterwards.
    fn snoop(&mut self, line: Line, others: u64, write: bool, by: Requester, share: FillRule, now: Ps) -> Snooped {
        let (mut found, mut dirty) = (false, false);
        let mut left = others;
        while left != 0 {
            let core = left.trailing_zeros() as usize;
            left &= left - 1;
            self.looked_up(core, line, write, by);
            let Private { l1, l2, latest, .. } = &mut self.cores[core];
            latest.forget(line);
            let mut here = false;
            for array in [l1, l2] {
                if write {
                    if let Some(was_dirty) = array.remove(line) {
                        here = true;
                        dirty |= was_dirty;
                    }
                } else if let Some(slot) = array.set_exclusive(line, false) {
                    here = true;
                    dirty |= array.is_dirty(slot);
                    array.set_dirty(slot, false);
                }
            }
            found |= here;
            self.counters.invalidations += u64::from(here && write && matches!(by, Requester::Core(_)));
            if write || !here {
                self.directory.remove(line, CoreId(core as u16));
            }
        }
        if found && dirty && !write {
            // The line is clean and shared from now on: the LLC holds what memory does not. That of who had it modified may
            // have an older copy, which must not be read any more.
            self.take_into_llc(line, true, share, now);
            self.drop_older(line);
        }
        match (found, dirty) {
            (false, _) => Snooped::Nothing,
            (true, false) => Snooped::Clean,
            (true, true) => Snooped::Dirty,
        }
    }

    /// `victim` has left the L2 of `core`: it goes where its application has its lines go, or to the LLC.
    #[inline]
    fn settle_victim(&mut self, victim: &Victim, core: CoreId, share: FillRule, now: Ps) {
        if self.applications.is_some() && self.settle_apart(victim, core, share, now) {
            return;
        }
        if victim.dirty || self.inclusion == Inclusion::Victim {
            self.llc.carry(self.llc.spot(victim.line), Requester::Core(core), true, now);
        }
        self.take_into_llc(victim.line, victim.dirty, share, now);
    }

    /// Where a line goes that has left the private caches of a core, or been cleaned there: nowhere if it is clean, but for an
    /// LLC that is a victim cache.
    fn take_into_llc(&mut self, line: Line, dirty: bool, share: FillRule, now: Ps) {
        if !dirty && self.inclusion != Inclusion::Victim {
            return;
        }
        if let Some(copies) = &mut self.copies {
            if dirty {
                self.before_write_back(line, now);
            } else if copies.represents(line) {
                return;
            }
        }
        let spot = self.llc.spot(line);
        self.meet_tenants(spot, now);
        if self.applications.is_some() {
            let found = if dirty { self.llc.write_line(spot) } else { self.llc.use_line(spot) };
            if !found {
                self.fill_llc(line, spot, dirty, share, now);
            }
            return;
        }
        if let WriteOutcome::Filled(victim) = self.llc.put(spot, share, dirty) {
            self.evict_from_llc(line, dirty, victim, now);
        }
    }

    #[inline]
    fn fill_llc(&mut self, line: Line, spot: Spot, dirty: bool, share: FillRule, now: Ps) {
        let mut share = share;
        if self.applications.is_some() {
            match self.admitted(line, share) {
                Some(admitted) => share = admitted,
                None => return self.evict_from_llc(line, dirty, Err(NoWay), now),
            }
        }
        let victim = self.llc.fill(spot, share, dirty);
        self.evict_from_llc(line, dirty, victim, now);
    }

    /// Tenants have done to the set at `spot` by `now` what they do. Comes before what anybody else does to it.
    #[inline(always)]
    fn meet_tenants(&mut self, spot: Spot, now: Ps) {
        if self.llc.has_tenants() {
            self.let_tenants_in(spot, now);
        }
    }

    #[inline(never)]
    fn let_tenants_in(&mut self, spot: Spot, now: Ps) {
        let (ways, age) = (self.class_ways[0].unwrap_or(ALL_WAYS), self.core_age);
        for _ in 0..self.llc.brought(spot, now) {
            if let Ok(Some(victim)) = self.llc.fill_for_tenant(spot, ways, age) {
                self.evict_from_llc(victim.line, false, Ok(Some(victim)), now);
            }
        }
    }

    /// `line` has come into the LLC, or found no way there, and `victim` has to go.
    #[inline]
    fn evict_from_llc(&mut self, line: Line, dirty: bool, victim: Result<Option<Victim>, NoWay>, now: Ps) {
        match victim {
            Ok(None) => {}
            Ok(Some(mut victim)) => {
                if self.inclusion == Inclusion::Inclusive {
                    victim.dirty |= self.invalidate_here(victim.line).unwrap_or(false);
                }
                if self.copies.is_some() {
                    self.after_eviction(victim.line, now);
                }
                if victim.dirty {
                    self.write_back(victim.line, now);
                }
            }
            Err(NoWay) => {
                if dirty {
                    self.write_back(line, now);
                }
            }
        }
    }

    /// Writes `line`, which is dirty, to memory: when that has it.
    fn write_back(&mut self, line: Line, now: Ps) -> Ps {
        #[cfg(test)]
        self.log.push(crate::copy_table::Move::WriteBack(line));
        self.counters.writebacks += 1;
        self.post_victim(line, now)
    }

    /// Uses `line` of the LLC for `core`, which takes it along if the LLC is a victim cache and no
    /// other core shares the line; says whether it is there.
    #[inline]
    fn take_from_llc(&mut self, line: Line, spot: Spot, core: CoreId, shared: bool, share: FillRule, now: Ps) -> bool {
        if self.inclusion != Inclusion::Victim || shared {
            return self.llc.use_line(spot);
        }
        let Some(dirty) = self.llc.remove(spot) else { return false };
        if dirty && !self.cores[usize::from(core.0)].l2.write_line(line) {
            // It has left L2 since it was looked up.
            self.fill_llc(line, spot, true, share, now);
        }
        true
    }

    /// Whether the line at `spot` is a device's that the LLC keeps beside the copy of who reads it: it is in an inclusive way then.
    ///
    /// Park et al., ISCA 2025 ("A4: microarchitecture-aware LLC management for datacenter servers with emerging I/O devices"), find that
    /// of lines in I/O ways. Left out: L2 copies that go with a line of an inclusive way, and lines of cores that a device has
    /// written in place.
    #[inline(never)]
    fn moves_to_inclusive(&mut self, request: &Request, spot: Spot, now: Ps) -> bool {
        let Some(inclusive) = self.inclusive_ways.filter(|_| !request.access.writes()) else { return false };
        let Some((way, llc::DEVICES)) = self.llc.way_and_owner(spot) else { return false };
        let is_in = |ways: Cbm| ways.0 >> way & 1 == 1;
        if is_in(inclusive) {
            return self.llc.use_line(spot);
        }
        if !is_in(self.io_ways) {
            return false;
        }
        let victim = self.llc.move_to(spot, inclusive, self.core_age);
        self.evict_from_llc(request.addr.line(), false, victim, now);
        true
    }

    /// Puts `line`, which `core` wants (to write, if `write`), back into its L2 if it was taken away since it was looked up, with
    /// what has to go for it; says whether it was still there.
    fn keep_or_bring_in(&mut self, core: CoreId, line: Line, write: bool, share: FillRule, now: Ps) -> bool {
        let Private { l1, l2, .. } = &mut self.cores[usize::from(core.0)];
        if l1.find(line).is_some() || l2.find(line).is_some() {
            return true;
        }
        if let Ok(Some(victim)) = l2.fill(line, ALL_WAYS, write, write) {
            self.settle_victim(&victim, core, share, now);
        }
        false
    }

    /// Takes `line` from all private caches; says whether one of them had it dirty, [`None`] if none
    /// had it.
    #[inline]
    fn invalidate_private(&mut self, line: Line) -> Option<bool> {
        let sharers = self.directory.take(line);
        self.invalidate_of(line, sharers)
    }

    /// As [`Hierarchy::invalidate_private`], of the cores that share the LLC.
    #[inline]
    fn invalidate_here(&mut self, line: Line) -> Option<bool> {
        if !self.has_sockets() {
            return self.invalidate_private(line);
        }
        let sharers = self.directory.get(line) & self.behind.fabric.cores_here();
        for core in 0..self.cores.len() as u16 {
            if sharers >> core & 1 == 1 {
                self.directory.remove(line, CoreId(core));
            }
        }
        self.invalidate_of(line, sharers)
    }

    #[inline(always)]
    fn invalidate_of(&mut self, line: Line, mut sharers: u64) -> Option<bool> {
        let mut dirty = None;
        while sharers != 0 {
            let Private { l1, l2, latest, .. } = &mut self.cores[sharers.trailing_zeros() as usize];
            latest.forget(line);
            for was_dirty in [l1.remove(line), l2.remove(line)].into_iter().flatten() {
                dirty = Some(dirty.unwrap_or(false) | was_dirty);
            }
            sharers &= sharers - 1;
        }
        dirty
    }

    fn private_has(&self, line: Line, mut sharers: u64) -> bool {
        while sharers != 0 {
            let core = &self.cores[sharers.trailing_zeros() as usize];
            if core.l1.find(line).is_some() || core.l2.find(line).is_some() {
                return true;
            }
            sharers &= sharers - 1;
        }
        false
    }
}

/// Checks a mask against a cache's ways, by the rules that resctrl has.
fn check_ways(path: &str, mask: Cbm, ways: u32, may_be_empty: bool) -> Result<(), MachineError> {
    cache::check_ways(path, mask.0, ways, may_be_empty)?;
    if mask.0 != 0 && !mask.is_contiguous() {
        let instead = Cbm::span(mask.0.trailing_zeros().min(ways - mask.ways()), mask.ways());
        return Err(MachineError::new(
            path,
            mask.to_string(),
            "set bits that are contiguous",
            format!("try {instead}"),
        ));
    }
    Ok(())
}

impl Prefetching {
    fn new(spec: PrefetcherSpec, waiting: u32) -> Prefetching {
        let prefetcher = Prefetcher::new(spec);
        let (wanted, waiting, asked) = (VecDeque::new(), waiting as usize, Vec::new());
        Prefetching { prefetcher, wanted, waiting, asked, unused: [u32::MAX; 64], next: 0 }
    }

    /// Sees a request that reaches L2; says whether lines are wanted.
    fn observe(&mut self, request: &Request, hit: bool) -> bool {
        let line = request.addr.line();
        let prefetched = self.unused.iter().position(|&l| l == line.0 as u32);
        if let Some(at) = prefetched {
            self.unused[at] = u32::MAX;
        }
        let seen = ObservedAccess { line, site: request.site, hit, first_use: hit && prefetched.is_some() };
        self.wanted.truncate(self.waiting);
        self.asked.clear();
        self.prefetcher.observe(seen, &mut self.asked);
        for line in self.asked.iter().rev() {
            let access = probe::Access::Prefetch;
            self.wanted.push_front(Request { addr: line.addr(), bytes: 1, access, ..*request });
        }
        self.wanted.truncate(self.waiting.max(self.asked.len()));
        !self.wanted.is_empty()
    }
}

/// A core's request at the LLC.
struct AtLlc {
    spot: Spot,
    share: FillRule,
    /// When the LLC looks it up.
    at: Ps,
    /// The other cores that may have the line, and what they had.
    others: u64,
    snooped: Snooped,
    /// Somebody else keeps the line.
    shared: bool,
    in_tail: bool,
    /// Who serves it, when the answer is with the core, and on what its time is spent.
    answer: Asked,
    /// What the answer will come under, if it is not known yet.
    ticket: Option<Ticket>,
}

/// The parts of [`Memory::fetch`], in order.
impl Hierarchy {
    /// What the core's own caches have given up for the line goes where it belongs.
    #[inline(always)]
    fn make_room(&mut self, request: &Request, lookup: &PrivateLookup, now: Ps) {
        self.enter(Requester::Core(request.core));
        self.settle(lookup, request, now);
        // What its victims push out of an inclusive LLC may be the line itself, with all copies of it.
        if self.inclusion == Inclusion::Inclusive && lookup.has_victims() && !lookup.upgrade {
            let share = self.share_of(request.clos);
            self.keep_or_bring_in(request.core, request.addr.line(), request.access.writes(), share, now);
        }
    }

    /// The answer of who is asked before the LLC: memory, for an application that skips it, and the copy table.
    #[inline(always)]
    fn fetch_beside_llc(&mut self, request: &Request, lookup: &PrivateLookup, now: Ps) -> Option<Reply> {
        let line = request.addr.line();
        if self.applications.is_some()
            && let Some(reply) = self.fetch_past_llc(request, lookup, now)
        {
            return Some(self.reply_after_copy(line, now, reply));
        }
        self.meet_tenants(self.llc.spot(line), now);
        if self.copies.is_some() {
            if request.access.writes() {
                self.before_write(line, now);
            } else {
                return self.read_by_table(request, now);
            }
        }
        None
    }

    /// [`Memory::fetch`].
    #[inline(always)]
    fn fetch_line(&mut self, request: &Request, lookup: &PrivateLookup, now: Ps) -> Reply {
        self.make_room(request, lookup, now);
        if let Some(reply) = self.fetch_beside_llc(request, lookup, now) {
            self.note_touch(request, reply.served());
            return reply;
        }
        let mut at_llc = self.ask_llc(request, lookup, now);
        self.serve(request, lookup, &mut at_llc, now);
        self.note_touch(request, at_llc.answer.served);
        self.reach_requester(request, lookup, &mut at_llc, now);
        self.remember_holder(request, &at_llc);
        let AtLlc { answer: Asked { ready, served, path, .. }, ticket, .. } = at_llc;
        match ticket {
            Some(ticket) => Reply::Pending(ticket),
            None => Reply::Done(Response { at: ready, served, path }),
        }
    }

    /// The request comes to its slice, and other cores are asked: by when, and who has the line.
    #[inline(always)]
    fn ask_llc(&mut self, request: &Request, lookup: &PrivateLookup, now: Ps) -> AtLlc {
        let (line, core, write) = (request.addr.line(), request.core, request.access.writes());
        let (by, share, spot) = (Requester::Core(core), self.share_of(request.clos), self.llc.spot(line));
        // A copy points at it.
        let pinned = self.copies.is_some() && !write && self.is_source(line);
        let cast = self.cast(spot, by, now);
        let SliceArrival { at, waited, distance } = self.llc.take_in(spot, by, now + cast.waited);
        // What the LLC waits for other cores to answer, if they have to.
        let held = cast.answered.since(at + self.llc.latency());
        let at = at + held;
        let others = self.directory.get(line) & !(1 << core.0);
        let snooped = if others == 0 { Snooped::Nothing } else { self.snoop(line, others, write, by, share, at) };
        // The answer may meet others on its way.
        let is_sent = !self.protocol.asks_all()
            || self.llc_sends(snooped, lookup.upgrade && self.private_has(line, 1 << core.0), spot);
        let back = distance + if is_sent { self.llc.carry(spot, by, false, at) } else { Ps::ZERO };
        let mut path = Path::of(Reason::SliceQueue, waited);
        path.push(Reason::Interconnect, cast.waited + distance + back);
        path.push(Reason::Llc, self.llc.latency());
        path.push(Reason::Snoop, held);
        // A write has taken the copies away.
        let elsewhere = self.has_sockets() && self.others_have(line);
        // Who loads a line of a tail has to ask before a store; who stores takes it over.
        let in_tail = self.behind.tail_has(line);
        let others_too = snooped != Snooped::Nothing || elsewhere || in_tail;
        let shared = others_too && !write || pinned;
        // An answer of the LLC itself.
        let ready = at + self.llc.latency() + back;
        let answer = Asked { core, path, ready, distance: back, served: Served::Llc, copy: Ps::ZERO };
        AtLlc { spot, share, at, others, snooped, shared, in_tail, answer, ticket: None }
    }

    /// Who has the line serves it: the core itself that only has to own it, the LLC, another core, or what is behind.
    #[inline(always)]
    fn serve(&mut self, request: &Request, lookup: &PrivateLookup, at_llc: &mut AtLlc, now: Ps) {
        let (line, core) = (request.addr.line(), request.core);
        let AtLlc { spot, share, at, snooped, shared, .. } = *at_llc;
        if lookup.upgrade && self.keep_or_bring_in(core, line, true, share, at) {
            self.counters.upgrades += 1;
            at_llc.answer.served = Served::Snoop;
        } else if snooped != Snooped::Dirty
            && (self.inclusive_ways.is_some() && self.moves_to_inclusive(request, spot, at)
                || self.take_from_llc(line, spot, core, shared, share, at))
        {
            self.counters.llc.hits += 1;
            self.class_llc(request.clos).hits += 1;
        } else if snooped != Snooped::Nothing {
            self.counters.snoops += 1;
            self.take_from_core(request, at_llc, now);
        } else {
            self.counters.llc.misses += 1;
            self.class_llc(request.clos).misses += 1;
            self.take_from_behind(request, at_llc);
        }
    }

    /// Another core supplies the line.
    #[inline(always)]
    fn take_from_core(&mut self, request: &Request, at_llc: &mut AtLlc, now: Ps) {
        let (write, answer) = (request.access.writes(), &mut at_llc.answer);
        answer.served = Served::Snoop;
        if let Some((supplied, way)) = self.supplied(Requester::Core(request.core), now) {
            let dirty = at_llc.snooped == Snooped::Dirty;
            // Who writes what several have shared hears from the slice that all have given it up.
            if supplied > answer.ready || !write || dirty {
                (answer.ready, answer.path) = (supplied, way);
            }
            if dirty && !write {
                self.brings_llc_up_to_date(at_llc.spot);
            }
        } else {
            answer.path.push(Reason::Snoop, self.protocol.answer());
            answer.ready += self.protocol.answer();
        }
    }

    /// The line comes from what is behind, to the core and into the LLC, which takes in what cores miss unless it is a victim
    /// cache.
    #[inline(always)]
    fn take_from_behind(&mut self, request: &Request, at_llc: &mut AtLlc) {
        let (line, write) = (request.addr.line(), request.access.writes());
        let AtLlc { spot, share, at, .. } = *at_llc;
        let answer = &mut at_llc.answer;
        answer.served = Served::Dram;
        match self.read_behind(line, write, at + self.llc.latency(), answer) {
            Fill::At(filled) => {
                answer.ready = filled + answer.distance;
                self.behind.in_flight.insert(line, answer.ready);
            }
            Fill::Later(given) => at_llc.ticket = Some(given),
        }
        if self.inclusion != Inclusion::Victim && !(self.applications.is_some() && self.stays_out(line)) {
            self.fill_llc(line, spot, false, share, at);
        }
    }

    /// What else an answer waits for: other sockets that give the line up, its data on their way, and a copy onto it.
    #[inline(always)]
    fn reach_requester(&mut self, request: &Request, lookup: &PrivateLookup, at_llc: &mut AtLlc, now: Ps) {
        let (line, write) = (request.addr.line(), request.access.writes());
        let AtLlc { others, snooped, in_tail, at, .. } = *at_llc;
        let answer = &mut at_llc.answer;
        let served = answer.served;
        if in_tail && write {
            self.behind.supersede(line);
        }
        if self.has_sockets() && served != Served::Dram {
            let supplied = served == Served::Snoop && !lookup.upgrade;
            let others = if snooped == Snooped::Nothing { 0 } else { others };
            let link = self.across_sockets(line, others, supplied, write, at);
            answer.path.push(Reason::SocketLink, link);
            answer.ready += link;
        }
        if served != Served::Dram
            && let Some(until) = self.behind.in_flight.get(line, answer.ready)
        {
            // Another core has asked DRAM for it, and the data are still on their way.
            answer.path.push(Reason::Mshr, until - answer.ready);
            answer.ready = until;
        }
        if self.engine.is_some() {
            answer.ready = self.after_copy(line, now, answer.ready, &mut answer.path);
        }
        if served != Served::Dram {
            at_llc.ticket = self.behind.join(line, answer);
        }
    }

    /// The directory, the core's caches and the logic that skips the LLC know of the answer.
    #[inline(always)]
    fn remember_holder(&mut self, request: &Request, at_llc: &AtLlc) {
        let (line, core) = (request.addr.line(), request.core);
        if self.applications.is_some() {
            self.looked_in_llc(request, at_llc.answer.served, at_llc.at);
        }
        self.directory.insert(line, core);
        if !at_llc.shared {
            let Private { l1, l2, .. } = &mut self.cores[usize::from(core.0)];
            for array in [l1, l2] {
                array.set_exclusive(line, true);
            }
        }
    }
}

impl Memory for Hierarchy {
    fn next_prefetch(&mut self, core: CoreId) -> Option<(Request, PrivateLookup)> {
        let Private { l2, prefetching, .. } = &mut self.cores[usize::from(core.0)];
        let prefetching = prefetching.as_mut()?;
        while let Some(request) = prefetching.wanted.pop_front() {
            let line = request.addr.line();
            if l2.find(line).is_some() {
                continue;
            }
            self.counters.prefetches += 1;
            prefetching.unused[prefetching.next] = line.0 as u32;
            prefetching.next = (prefetching.next + 1) % prefetching.unused.len();
            let victim = l2.fill(line, ALL_WAYS, false, false).unwrap_or(None);
            return Some((request, PrivateLookup { victims: [victim, None], ..PrivateLookup::default() }));
        }
        None
    }

    #[inline(always)]
    fn translate(&mut self, request: &Request) -> Translation {
        let Some(tlb) = &mut self.cores[usize::from(request.core.0)].tlb else { return Translation::Free };
        let translation = tlb.translate(request.addr, request.mapping);
        let free = translation == Translation::Free;
        self.counters.tlb.hits += u64::from(free);
        self.counters.tlb.misses += u64::from(!free);
        self.counters.page_walks += u64::from(matches!(translation, Translation::Walk(_)));
        translation
    }

    #[inline(always)]
    fn repeat(&mut self, core: CoreId, line: Line, write: bool) -> bool {
        let private = &mut self.cores[usize::from(core.0)];
        // With a TLB each use counts for what it keeps.
        if private.tlb.is_some() {
            return false;
        }
        let again = private.latest.has(line, write);
        self.counters.l1.hits += u64::from(again);
        again
    }

    #[inline(always)]
    fn private_levels(&mut self, core: CoreId) -> Option<PrivateLevels<'_>> {
        let Private { l1, l2, latest, tlb, prefetching } = &mut self.cores[usize::from(core.0)];
        // With a TLB each use counts for what it keeps.
        if tlb.is_some() {
            return None;
        }
        // What applications bypass follows from the uses of lines in L2.
        let is_plain = prefetching.is_none() && self.applications.is_none();
        let l2 = is_plain.then_some(l2);
        Some(PrivateLevels { l1, latest, l2 })
    }

    #[inline(always)]
    fn count_private_hits(&mut self, l1: u64, l2: u64) {
        self.counters.l1.hits += l1;
        self.counters.l1.misses += l2;
        self.counters.l2.hits += l2;
    }

    #[inline(always)]
    fn lookup(&mut self, request: &Request) -> PrivateLookup {
        let line = request.addr.line();
        let Private { l1, latest, .. } = &mut self.cores[usize::from(request.core.0)];
        let Some(slot) = l1.use_line(line) else { return self.lookup_beyond_l1(request) };
        self.counters.l1.hits += 1;
        let write = request.access.writes();
        let mut upgrade = false;
        if write {
            upgrade = !l1.is_exclusive(slot);
            l1.set_dirty(slot, true);
        }
        latest.set(line, write && !upgrade);
        PrivateLookup { hit: (!upgrade).then_some(Served::L1), upgrade, ..PrivateLookup::default() }
    }

    fn fetch(&mut self, request: &Request, lookup: &PrivateLookup, now: Ps) -> Reply {
        let reply = self.fetch_line(request, lookup, now);
        if self.records.is_some() {
            self.record(request, &reply, now);
        }
        reply
    }

    #[inline]
    fn next_answer(&self) -> Ps {
        self.next().unwrap_or(Ps::MAX)
    }

    #[inline]
    fn takes_copy(&mut self, src: &Request, dst: &Request) -> bool {
        if self.engine.is_some() {
            return true;
        }
        let whole_lines = [src, dst].iter().all(|r| u64::from(r.bytes) == LINE_BYTES);
        self.copies.as_mut().is_some_and(|copies| copies.takes(whole_lines))
    }

    fn copy(&mut self, src: &Request, dst: &Request, now: Ps) -> Reply {
        if self.engine.is_some() {
            return self.copy_by(src, dst, now);
        }
        self.copy_line(src, dst.addr.line(), now)
    }

    #[inline]
    fn takes_whole_copies(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.is_apart())
    }

    #[inline]
    fn copies_hold(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.holds())
            || self.copies.as_ref().is_some_and(|copies| copies.holds())
    }

    #[inline]
    fn copy_saves(&self, bytes: u32) -> u32 {
        let each = match &self.engine {
            Some(engine) => engine.saves(),
            None => self.copies.as_ref().map_or(0, |copies| copies.saves()),
        };
        each * bytes.div_ceil(LINE_BYTES as u32)
    }

    #[inline]
    fn settle(&mut self, lookup: &PrivateLookup, request: &Request, now: Ps) {
        self.enter(Requester::Core(request.core));
        let share = self.share_of(request.clos);
        for victim in lookup.victims.iter().flatten() {
            self.settle_victim(victim, request.core, share, now);
        }
    }

    #[inline]
    fn private_latency(&self, served: Served) -> (Reason, Ps) {
        match served {
            Served::L1 => (Reason::L1, self.l1_latency),
            _ => (Reason::L2, self.l2_latency),
        }
    }
}

impl Hierarchy {
    /// Both steps at once, for one requester at a time; device requests go to the DMA paths.
    pub fn access(&mut self, request: &Request, now: Ps) -> Response {
        match request.access {
            probe::Access::DmaWrite | probe::Access::DmaRead => {
                let line = request.addr.line();
                let write = request.access == probe::Access::DmaWrite;
                let at = if write { self.dma_write(line, 1, now) } else { self.dma_read(line, 1, now) };
                let at = at + self.translated();
                return Response { at, served: Served::Llc, path: Path::of(Reason::DmaMemory, at - now) };
            }
            _ => {}
        }
        let reply = self.load(request, now);
        self.answered(reply, now)
    }

    /// Both steps at once, of a core.
    fn load(&mut self, request: &Request, now: Ps) -> Reply {
        let lookup = self.lookup(request);
        if let Some(served) = lookup.hit {
            self.settle(&lookup, request, now);
            let (reason, latency) = self.private_latency(served);
            let mut path = Path::default();
            path.push(reason, latency);
            return Reply::Done(Response { at: now + latency, served, path });
        }
        self.fetch(request, &lookup, now)
    }
}
