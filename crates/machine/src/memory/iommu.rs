//! Address translation of devices: an IOMMU with its IO-TLB, paging-structure caches, and walks that read page tables.
//!
//! Every DMA of the NIC, and of a DMA engine that makes copies, passes it: one lookup for each page that a request
//! touches. A miss is a walk, of which so many are under way at a time; it reads the entries of the levels that are not
//! cached, each from the memory where it lies, and fills the IO-TLB. Who asks for a page that is being walked for waits
//! for that walk. A request has waited for the slowest of its translations before memory is asked for its data. Source of
//! the mechanism: Intel Virtualization Technology for Directed I/O, Architecture Specification, 3.7 (second-level
//! translation) and 6.2 (IOTLB, paging-structure caches).
//!
//! Buffers stay mapped, as DPDK has them, or are mapped and unmapped by a kernel's driver ([`super::unmaps`]).
//!
//! Left out: what a hit takes (none is seen in pcie-bench's data: 521.7 ns with IOMMU, 522.1 without); the context cache;
//! interrupt remapping; address translation services of a
//! device; page tables in caches, since nobody who walks fills any. The loads of a walk are asked for together at the
//! time of the DMA and their times are added, waits for each other among them, so that none is reserved ahead of its
//! turn. With controllers (`machine.dram.controller`) their reads are real, and the walk takes what they take on an idle
//! channel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Addr, LINE_BYTES, Line, Ps, Size, Span};

use super::Hierarchy;
use super::llc::Requester;
use super::unmaps::{Invalidated, Unmaps};
use crate::MachineError;

/// How addresses of devices are translated. Nothing that is left out is known of a processor: numbers are assumed but
/// where they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IommuSpec {
    /// Whether addresses of devices are translated, and whether buffers stay mapped: `on`, `strict`, `lazy`, `off`, or
    /// `passthrough`.
    pub mode: IommuMode,
    /// The page size of everything that devices see: 4 KiB, 2 MiB or 1 GiB.
    pub page: Size,
    /// Entries of the IO-TLB, 1 to 65,536. 128 when left out: pcie-bench's sweep of a Haswell-EP is met by 119.
    pub iotlb_entries: u32,
    /// Its ways, which divide the entries; any entry holds any page when left out (assumed).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iotlb_ways: Option<u32>,
    /// Entries of the paging-structure cache of each level above the last, 0 to 1024, any of which holds any. 32 when left
    /// out: that host has no second cliff up to 64 MiB.
    pub walk_cache: u32,
    /// What a walk takes beside the loads of its entries. 190 ns when left out, so that a walk of one load takes the 270 ns
    /// of a Haswell-EP in pcie-bench's data.
    pub walk_latency: Span,
    /// Walks under way at a time, 1 to 64. 6 when left out (assumed).
    pub walks: u32,
    /// With `strict` or `lazy`: what an invalidation takes, for which the core waits that unmaps. 800 ns when left out, what
    /// Akaros's authors saw (commit 81b6433).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalidation: Option<Span>,
    /// With `strict` or `lazy`: instructions of a core that maps a buffer, 0 to 100,000. 250 when left out (assumed).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map_instructions: Option<u32>,
    /// With `strict` or `lazy`: instructions of a core that unmaps a buffer, 0 to 100,000. 250 when left out (assumed).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmap_instructions: Option<u32>,
    /// With `lazy`: buffers that a core unmaps until all is invalidated, 1 to 65,536. 256 when left out, as in Linux
    /// (`IOVA_DEFAULT_FQ_SIZE`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush_unmaps: Option<u32>,
    /// With `lazy`: time from the first of them until all is, up to 1 s. 10 ms when left out, as in Linux
    /// (`IOVA_DEFAULT_FQ_TIMEOUT`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush_every: Option<Span>,
}

impl Default for IommuSpec {
    fn default() -> IommuSpec {
        IommuSpec {
            mode: IommuMode::On,
            page: Size::from_bytes(4096),
            iotlb_entries: 128,
            iotlb_ways: None,
            walk_cache: 32,
            walk_latency: Span::from_ns(190.0),
            walks: 6,
            invalidation: None,
            map_instructions: None,
            unmap_instructions: None,
            flush_unmaps: None,
            flush_every: None,
        }
    }
}

/// Whether addresses of devices are translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IommuMode {
    /// Nothing is.
    Off,
    /// It is there, and devices use physical addresses (`iommu=pt`): nothing is looked up.
    Passthrough,
    /// All are, and what devices see stays mapped: DPDK, a kernel's page pool.
    On,
    /// All are. A kernel's driver maps each buffer and unmaps it, and waits until its translation is invalidated
    /// (`iommu.strict=1`).
    Strict,
    /// The same, but invalidations are put off and done together (`iommu.strict=0`).
    Lazy,
}

impl IommuMode {
    /// As it is written.
    const fn word(self) -> &'static str {
        match self {
            IommuMode::Off => "off",
            IommuMode::Passthrough => "passthrough",
            IommuMode::On => "on",
            IommuMode::Strict => "strict",
            IommuMode::Lazy => "lazy",
        }
    }
}

/// Levels of a page table, each with 512 entries of 8 bytes.
const LEVELS: usize = 4;
const ENTRY_BYTES: u64 = 8;
const PAGE_BITS: u32 = 12;
const LEVEL_BITS: u32 = 9;
/// Of a walk beside its loads, and of an invalidation, at most.
const LONGEST: Ps = Ps::from_ns(1_000_000);
/// From an unmap to its invalidation, at most.
const LATEST_FLUSH: Ps = Ps::from_ns(1_000_000_000);
const MOST_INSTRUCTIONS: u32 = 100_000;
/// Page tables of cores lie before those of devices: room for so many of them, an address space each.
const TABLES_OF_CORES: u64 = 64;

impl IommuSpec {
    /// Whether devices wait for translations.
    pub fn translates(&self) -> bool {
        !matches!(self.mode, IommuMode::Off | IommuMode::Passthrough)
    }

    /// Whether buffers are mapped and unmapped one by one.
    pub fn unmaps(&self) -> bool {
        matches!(self.mode, IommuMode::Strict | IommuMode::Lazy)
    }

    /// What unmapping takes; [`None`] where buffers stay mapped.
    fn unmapping(&self) -> Option<Unmaps> {
        let (most, longest) = (self.flush_unmaps.unwrap_or(256), self.flush_every.unwrap_or(Span::from_ns(1e7)));
        let takes = self.invalidation.unwrap_or(Span::from_ns(800.0)).ps();
        let instructions = (self.map_instructions.unwrap_or(250), self.unmap_instructions.unwrap_or(250));
        let queue = (self.mode == IommuMode::Lazy).then_some((most, longest.ps()));
        self.unmaps().then(|| Unmaps::new(queue, takes, instructions))
    }

    /// Checks the ranges. `path` is where the specification stands in the scenario.
    ///
    /// # Errors
    /// A page size that there is not, ways that do not divide the entries, a value outside its range, or one that its mode
    /// has no use for.
    pub fn check(&self, path: &str) -> Result<(), MachineError> {
        let error = |field: &str, came: String, allowed: &str, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        if self.levels().is_none() {
            return error("page", self.page.to_string(), "4 KiB, 2 MiB or 1 GiB", "page tables have no other");
        }
        if !(1..=1 << 16).contains(&self.iotlb_entries) {
            let remedy = "mode = \"off\" is without an IOMMU";
            return error("iotlb_entries", self.iotlb_entries.to_string(), "1 to 65536", remedy);
        }
        if let Some(ways) = self.iotlb_ways
            && (ways == 0 || !self.iotlb_entries.is_multiple_of(ways))
        {
            let came = format!("{ways} with {} entries", self.iotlb_entries);
            return error("iotlb_ways", came, "ways that divide the entries", "leave it out for any page in any entry");
        }
        if self.walk_cache > 1024 {
            return error(
                "walk_cache",
                self.walk_cache.to_string(),
                "0 to 1024 entries a level",
                "processors have few",
            );
        }
        if self.walk_latency.ps() > LONGEST {
            let remedy = "a unit may be missing: a bare number is in ns";
            return error("walk_latency", self.walk_latency.to_string(), "at most 1 ms", remedy);
        }
        if !(1..=64).contains(&self.walks) {
            return error("walks", self.walks.to_string(), "1 to 64", "give how many walks are under way at a time");
        }
        self.check_unmaps(path)
    }

    /// Checks what only `strict` and `lazy` have a use for.
    fn check_unmaps(&self, path: &str) -> Result<(), MachineError> {
        let error = |field: &str, came: String, allowed: &str, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        let with_mode = |value: String| format!("{value} with mode = \"{}\"", self.mode.word());
        let number = |value: Option<u32>| value.map(|n| n.to_string());
        let time = |value: Option<Span>| value.map(|time| time.to_string());
        let lazy = self.mode == IommuMode::Lazy;
        for (field, value, used, modes) in [
            ("invalidation", time(self.invalidation), self.unmaps(), "mode = \"strict\" or \"lazy\""),
            ("map_instructions", number(self.map_instructions), self.unmaps(), "mode = \"strict\" or \"lazy\""),
            ("unmap_instructions", number(self.unmap_instructions), self.unmaps(), "mode = \"strict\" or \"lazy\""),
            ("flush_unmaps", number(self.flush_unmaps), lazy, "mode = \"lazy\""),
            ("flush_every", time(self.flush_every), lazy, "mode = \"lazy\""),
        ] {
            if let Some(value) = value.filter(|_| !used) {
                let remedy =
                    if self.unmaps() { "strict puts nothing off" } else { "otherwise nothing is mapped or unmapped" };
                return error(field, with_mode(value), modes, remedy);
            }
        }
        if self.unmaps() && self.levels() != Some(LEVELS) {
            let remedy = "a kernel maps each buffer by itself, in pages of that size";
            return error("page", with_mode(self.page.to_string()), "4 KiB", remedy);
        }
        let remedy = "a unit may be missing: a bare number is in ns";
        for (field, value, most, allowed) in [
            ("invalidation", self.invalidation, LONGEST, "at most 1 ms"),
            ("flush_every", self.flush_every, LATEST_FLUSH, "at most 1 s"),
        ] {
            if let Some(value) = value.filter(|value| value.ps() > most) {
                return error(field, value.to_string(), allowed, remedy);
            }
        }
        for (field, value) in
            [("map_instructions", self.map_instructions), ("unmap_instructions", self.unmap_instructions)]
        {
            if let Some(value) = value.filter(|value| *value > MOST_INSTRUCTIONS) {
                return error(field, value.to_string(), "0 to 100000", "give those of one buffer");
            }
        }
        match self.flush_unmaps {
            Some(n) if !(1..=1 << 16).contains(&n) => {
                error("flush_unmaps", n.to_string(), "1 to 65536", "Linux has 256 a core, or 32768 in one queue")
            }
            _ => Ok(()),
        }
    }

    /// Levels that a walk passes.
    fn levels(&self) -> Option<usize> {
        match self.page.bytes() {
            0x1000 => Some(4),
            0x20_0000 => Some(3),
            0x4000_0000 => Some(2),
            _ => None,
        }
    }
}

/// What an IOMMU has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Sub, Serialize, Deserialize, JsonSchema)]
pub struct IommuCounters {
    /// Lookups that the IO-TLB has answered: one for each page of a request.
    pub hits: u64,
    /// Lookups that it has not: as many walks.
    pub misses: u64,
    /// Entries of page tables that walks have read from memory.
    pub references: u64,
    /// Hits that waited for a walk that was under way for their page.
    pub joined: u64,
    /// What walks took, without time for a walk to begin. Nothing is added where time stands still.
    #[serde(rename = "walked_ns", with = "units::as_ns")]
    #[schemars(with = "f64")]
    pub walked: Ps,
    /// What requests waited for their translations.
    #[serde(rename = "waited_ns", with = "units::as_ns")]
    #[schemars(with = "f64")]
    pub waited: Ps,
    /// Buffers that cores have unmapped; none where they stay mapped.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unmapped: u64,
    /// Invalidations: as many, or one of everything for many of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub invalidations: u64,
    /// What cores waited for them.
    #[serde(rename = "invalidating_ns", default, with = "units::as_ns", skip_serializing_if = "is_no_time")]
    #[schemars(with = "f64")]
    pub invalidating: Ps,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn is_no_time(time: &Ps) -> bool {
    *time == Ps::ZERO
}

/// The IOMMU of the root complex that the devices are at.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Iommu {
    page_bits: u32,
    levels: usize,
    iotlb: PageCache,
    /// Of the levels above the last, the topmost first; none where nothing is cached.
    walk_caches: Vec<PageCache>,
    /// Where the table of each level begins, the topmost first.
    tables: [Addr; LEVELS],
    walk_latency: Ps,
    /// When each can begin a walk.
    walkers: Vec<Ps>,
    /// Pages that are walked for, and until when.
    walking: Vec<(u64, Ps)>,
    /// What the requests since the last [`Hierarchy::translated`] wait for their translations.
    wait: Ps,
    /// Whether it answers at once: see [`super::warm`].
    #[serde(skip)]
    untimed: bool,
    #[serde(with = "whole")]
    counters: IommuCounters,
    /// Where buffers do not stay mapped.
    unmaps: Option<Unmaps>,
}

crate::whole!(whole: IommuCounters {
    hits,
    misses,
    references,
    joined,
    walked,
    waited,
    unmapped,
    invalidations,
    invalidating,
});

/// Entries by set, those of a set in the order in which they were used, the last one first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PageCache {
    entries: Vec<u64>,
    ways: usize,
}

/// No page has this number.
const EMPTY: u64 = u64::MAX;
/// Of the entry of an address that is not given out any more.
const OUTDATED: u64 = 1 << 63;

impl PageCache {
    fn new(entries: u32, ways: u32) -> PageCache {
        PageCache { entries: vec![EMPTY; entries as usize], ways: ways as usize }
    }

    /// Whether `page` is there; it is from now on, in place of the one of its set that was not used for the longest time.
    fn use_or_fill(&mut self, page: u64) -> bool {
        let last = self.ways - 1;
        let set = self.set(page);
        let found = set.iter().position(|&held| held == page);
        set[..=found.unwrap_or(last)].rotate_right(1);
        set[0] = page;
        found.is_some()
    }

    /// The entries that may hold `page`.
    fn set(&mut self, page: u64) -> &mut [u64] {
        let sets = self.entries.len() / self.ways;
        let from = (page % sets as u64) as usize * self.ways;
        &mut self.entries[from..from + self.ways]
    }

    /// `page` is not there any more: its entry is the next one of its set to be filled.
    fn forget(&mut self, page: u64) {
        let set = self.set(page);
        if let Some(at) = set.iter().position(|&held| held == page) {
            set[at] = EMPTY;
            set[at..].rotate_left(1);
        }
    }

    /// `page` will have another address: its entry stays, and nobody asks for it.
    fn outdate(&mut self, page: u64) {
        if let Some(held) = self.set(page).iter_mut().find(|held| **held == page) {
            *held |= OUTDATED;
        }
    }

    /// Nothing is there any more.
    fn clear(&mut self) {
        self.entries.fill(EMPTY);
    }
}

impl Iommu {
    fn new(spec: &IommuSpec, end: Addr, path: &str) -> Result<Iommu, MachineError> {
        spec.check(path)?;
        let levels = spec.levels().unwrap_or(LEVELS);
        let cached = if spec.walk_cache > 0 { levels - 1 } else { 0 };
        Ok(Iommu {
            page_bits: spec.page.bytes().trailing_zeros(),
            levels,
            iotlb: PageCache::new(spec.iotlb_entries, spec.iotlb_ways.unwrap_or(spec.iotlb_entries)),
            walk_caches: vec![PageCache::new(spec.walk_cache, spec.walk_cache); cached],
            tables: tables_behind(end),
            walk_latency: spec.walk_latency.ps(),
            walkers: vec![Ps::ZERO; spec.walks as usize],
            walking: Vec::new(),
            wait: Ps::ZERO,
            untimed: false,
            counters: IommuCounters::default(),
            unmaps: spec.unmapping(),
        })
    }

    /// Core `core` unmaps `pages` of a buffer at `now`; whether something was invalidated.
    fn unmap(&mut self, core: usize, pages: impl Iterator<Item = u64>, now: Ps) -> bool {
        let Some(unmaps) = &mut self.unmaps else { return false };
        self.counters.unmapped += 1;
        let invalidated = unmaps.unmap(core, now);
        match invalidated {
            Invalidated::Its => pages.for_each(|page| self.iotlb.forget(page)),
            Invalidated::Later => pages.for_each(|page| self.iotlb.outdate(page)),
            Invalidated::All => {
                self.iotlb.clear();
                self.walk_caches.iter_mut().for_each(PageCache::clear);
            }
        }
        if invalidated == Invalidated::Later {
            return false;
        }
        self.counters.invalidations += 1;
        if !self.untimed {
            unmaps.invalidate(now);
        }
        true
    }

    /// Bits of a line's number that do not tell its page.
    fn line_bits(&self) -> u32 {
        self.page_bits - LINE_BYTES.trailing_zeros()
    }

    /// Looks `page` up: [`None`] on a hit, else the entries that its walk loads, as many as are told, in order.
    fn look_up(&mut self, page: u64) -> Option<([Addr; LEVELS], usize)> {
        if self.iotlb.use_or_fill(page) {
            self.counters.hits += 1;
            return None;
        }
        self.counters.misses += 1;
        let number = |level: usize| (page << self.page_bits) >> (PAGE_BITS + LEVEL_BITS * (LEVELS - 1 - level) as u32);
        // The lowest level that is cached: the walk begins below it. Those above are used in any case.
        let mut first = 0;
        for (level, cache) in self.walk_caches.iter_mut().enumerate() {
            if cache.use_or_fill(number(level)) {
                first = level + 1;
            }
        }
        let mut entries = [Addr(0); LEVELS];
        for (entry, level) in entries.iter_mut().zip(first..self.levels) {
            *entry = Addr(self.tables[level].0 + number(level) * ENTRY_BYTES);
        }
        Some((entries, self.levels - first))
    }

    /// What the walk for `page`, asked for at `now`, waits and takes: its loads take `loads`.
    fn walk(&mut self, page: u64, loads: Ps, now: Ps) -> Ps {
        if self.untimed {
            return Ps::ZERO;
        }
        let took = loads + self.walk_latency;
        let Some(walker) = self.walkers.iter_mut().min() else { return took };
        let done = now.max(*walker) + took;
        *walker = done;
        self.walking.retain(|&(_, until)| until > now);
        self.walking.push((page, done));
        self.counters.walked += took;
        done - now
    }

    /// What a hit of `page` at `now` waits for a walk that is under way for it.
    fn join(&mut self, page: u64, now: Ps) -> Ps {
        if self.untimed {
            return Ps::ZERO;
        }
        let walk = self.walking.iter().find(|&&(walked, until)| walked == page && until > now);
        let wait = walk.map_or(Ps::ZERO, |&(_, until)| until - now);
        self.counters.joined += u64::from(wait > Ps::ZERO);
        wait
    }
}

/// Where the tables of each level begin, the topmost first, behind those of cores. The last level needs 1/512 of what is
/// mapped, and so on.
fn tables_behind(end: Addr) -> [Addr; LEVELS] {
    let bytes_of = |level: usize| {
        let numbers = end.0 >> (PAGE_BITS + LEVEL_BITS * (LEVELS - 1 - level) as u32);
        (numbers + 1).next_multiple_of(512) * ENTRY_BYTES
    };
    let of_cores: u64 = (0..LEVELS).map(bytes_of).sum();
    let mut at = (end.0 + TABLES_OF_CORES * of_cores).next_multiple_of(LINE_BYTES);
    let mut tables = [Addr(0); LEVELS];
    for (level, table) in tables.iter_mut().enumerate().rev() {
        *table = Addr(at);
        at += bytes_of(level);
    }
    tables
}

impl Hierarchy {
    /// Has addresses of devices translated as `spec` says, if it says so. `end` is that of the memory that is mapped, and
    /// `path` is where `spec` stands in the scenario.
    ///
    /// # Errors
    /// As [`IommuSpec::check`].
    pub fn translate_devices(&mut self, spec: &IommuSpec, end: Addr, path: &str) -> Result<(), MachineError> {
        let iommu = Iommu::new(spec, end, path)?;
        self.iommu = spec.translates().then(|| Box::new(iommu));
        Ok(())
    }

    /// What its IOMMU has done so far; [`None`] without one.
    pub fn iommu_counters(&self) -> Option<IommuCounters> {
        self.iommu.as_ref().map(|iommu| iommu.counters)
    }

    /// Puts `counters` in place of what the IOMMU was counted to do, as [`Hierarchy::set_counters`]; nothing without one.
    pub fn set_iommu_counters(&mut self, counters: Option<IommuCounters>) {
        if let (Some(iommu), Some(counters)) = (&mut self.iommu, counters) {
            iommu.counters = counters;
        }
    }

    /// What the DMA since this was asked last wait for their translations, beside what memory takes: the longest of them.
    #[inline]
    pub fn translated(&mut self) -> Ps {
        self.iommu.as_mut().map_or(Ps::ZERO, |iommu| std::mem::take(&mut iommu.wait))
    }

    /// A device asks for `count` lines from `first` on at `now`: their pages are looked up.
    #[inline(always)]
    pub(super) fn translate_for_device(&mut self, first: Line, count: u64, now: Ps) {
        if self.iommu.is_some() && count > 0 {
            self.look_up_pages(first, count, now);
        }
    }

    /// Instructions of mapping a buffer for a device, and of unmapping it; [`None`] where buffers stay mapped.
    pub fn mapping_instructions(&self) -> Option<(u32, u32)> {
        self.iommu.as_ref()?.unmaps.as_ref().map(Unmaps::instructions)
    }

    /// Core `core` unmaps `buffers`, stretches of lines, from `now` on: what it waits until what has to be invalidated is.
    pub fn unmap_for_device(&mut self, core: usize, buffers: impl Iterator<Item = (Line, u64)>, now: Ps) -> Ps {
        let Some(iommu) = &mut self.iommu else { return Ps::ZERO };
        let line_bits = iommu.line_bits();
        let mut invalidates = false;
        for (first, count) in buffers {
            let pages = first.0 >> line_bits..=(first.0 + count.max(1) - 1) >> line_bits;
            invalidates |= iommu.unmap(core, pages, now);
        }
        if !invalidates || iommu.untimed {
            return Ps::ZERO;
        }
        let wait = iommu.unmaps.as_ref().map_or(now, Unmaps::invalidated).max(now) - now;
        iommu.counters.invalidating += wait;
        wait
    }

    #[inline(never)]
    fn look_up_pages(&mut self, first: Line, count: u64, now: Ps) {
        let Some(mut iommu) = self.iommu.take() else { return };
        self.enter(Requester::Device);
        let line_bits = iommu.line_bits();
        let mut longest = Ps::ZERO;
        for page in first.0 >> line_bits..=(first.0 + count - 1) >> line_bits {
            let wait = match iommu.look_up(page) {
                None => iommu.join(page, now),
                Some((entries, loads)) => {
                    let took = entries[..loads].iter().map(|&entry| self.load_for_walk(entry.line(), now) - now);
                    let took = took.fold(Ps::ZERO, |sum, load| sum + load);
                    iommu.counters.references += loads as u64;
                    iommu.walk(page, took, now)
                }
            };
            longest = longest.max(wait);
        }
        iommu.counters.waited += longest;
        iommu.wait = iommu.wait.max(longest);
        self.iommu = Some(iommu);
    }

    /// When an entry of a page table in `line`, asked for at `now`, is there.
    fn load_for_walk(&mut self, line: Line, now: Ps) -> Ps {
        let spot = self.llc.spot(line);
        let at = self.reach_llc(spot, false, true, now);
        self.behind.read_for_walk(line, at)
    }

    pub(super) fn set_iommu_untimed(&mut self, untimed: bool) {
        if let Some(iommu) = &mut self.iommu {
            iommu.untimed = untimed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::twin_tests::spec as memory_spec;
    use super::super::{Inclusion, MemorySpec};
    use super::*;

    const PAGE_LINES: u64 = 64;

    fn spec(entries: u32) -> IommuSpec {
        IommuSpec { iotlb_entries: entries, walk_latency: Span::from_ns(200.0), ..IommuSpec::default() }
    }

    /// Without a copy table; DRAM in which no row stays open, so that each read takes the same.
    fn plain() -> MemorySpec {
        let mut memory = memory_spec(Inclusion::NonInclusive, 0b1100, 2);
        memory.copy_table = None;
        memory.dram.page = crate::dram::PagePolicy::Closed;
        memory
    }

    fn machine(iommu: &IommuSpec) -> Hierarchy {
        let mut memory = Hierarchy::new(&plain(), 1, "machine").unwrap();
        memory.translate_devices(iommu, Addr(1 << 30), "machine.iommu").unwrap();
        memory
    }

    /// Reads the first line of `page` at `now`, far from all that came before: what it waits for its translation.
    fn waits(memory: &mut Hierarchy, page: u64, now: Ps) -> Ps {
        memory.dma_read(Line(page * PAGE_LINES), 1, now);
        memory.translated()
    }

    fn nth(i: u64) -> Ps {
        Ps::from_ns(10_000) * (i + 1)
    }

    #[test]
    fn a_walk_takes_its_loads_and_what_it_takes_beside_them() {
        let mut memory = machine(&spec(4));
        let llc = plain().llc.latency.ps();
        let load = llc + memory.dram().unloaded_miss();
        // All four levels, which are asked for together and wait for each other's bursts; then the last alone.
        let cold = waits(&mut memory, 0, nth(0));
        let (walk, bursts) = (load * 4 + Ps::from_ns(200), Ps(plain().dram.t_burst.ps().0 + 1000) * 6);
        assert!(cold >= walk && cold <= walk + bursts, "{cold:?} and {walk:?}");
        assert_eq!(waits(&mut memory, 1, nth(1)), load + Ps::from_ns(200));
        assert_eq!(waits(&mut memory, 1, nth(2)), Ps::ZERO);
        let counters = memory.iommu_counters().unwrap();
        assert_eq!((counters.hits, counters.misses, counters.references), (1, 2, 5));
        assert_eq!(counters.walked, cold + load + Ps::from_ns(200));
        assert_eq!(memory.dram_counters().reads, 5 + 3);
    }

    #[test]
    fn larger_pages_are_walked_for_on_fewer_levels() {
        for (page, levels) in [(1 << 12, 4), (1 << 21, 3), (1 << 30, 2)] {
            let mut memory = machine(&IommuSpec { page: Size::from_bytes(page), ..spec(4) });
            memory.dma_read(Line(0), 1, nth(0));
            memory.dma_read(Line(page / 64 - 1), 1, nth(1));
            let counters = memory.iommu_counters().unwrap();
            assert_eq!((counters.misses, counters.hits, counters.references), (1, 1, levels), "{page}");
            // Without paging-structure caches each walk reads all levels.
            let mut bare = machine(&IommuSpec { page: Size::from_bytes(page), walk_cache: 0, ..spec(4) });
            (0..3).for_each(|i| _ = bare.dma_read(Line(i * page / 64), 1, nth(i)));
            assert_eq!(bare.iommu_counters().unwrap().references, 3 * levels, "{page}");
        }
    }

    /// Pages in turn: as many as there are entries always hit, one more never does, and of random ones those that fit.
    #[test]
    fn the_cliff_is_at_the_pages_that_the_io_tlb_holds() {
        for entries in [16, 64] {
            for (pages, misses) in [(entries, 0), (entries + 1, 4 * (entries + 1))] {
                let mut memory = machine(&spec(entries as u32));
                let read = |memory: &mut Hierarchy, rounds: u64| {
                    (0..rounds * pages).for_each(|i| _ = memory.dma_read(Line(i % pages * PAGE_LINES), 1, nth(i)));
                };
                read(&mut memory, 1);
                memory.set_iommu_counters(Some(IommuCounters::default()));
                read(&mut memory, 4);
                assert_eq!(memory.iommu_counters().unwrap().misses, misses, "{entries} entries, {pages} pages");
            }
            // Of four times as many pages, drawn at random, a quarter is there.
            let (mut memory, mut draw) = (machine(&spec(entries as u32)), 1u64);
            for i in 0..20_000 {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                memory.dma_read(Line((draw >> 33) % (4 * entries) * PAGE_LINES), 1, nth(i));
            }
            let counters = memory.iommu_counters().unwrap();
            assert!((counters.hits as f64 / 20_000.0 - 0.25).abs() < 0.015, "{counters:?}");
        }
    }

    #[test]
    fn walks_wait_for_a_walker_and_who_wants_the_same_page_waits_for_its_walk() {
        let mut memory = machine(&IommuSpec { walks: 2, ..spec(16) });
        waits(&mut memory, 0, nth(0));
        let now = nth(1);
        let walks: Vec<Ps> = (1..5).map(|page| waits(&mut memory, page, now)).collect();
        // Two at a time; loads of one line of the table wait for the bank, so the second is no sooner than the first.
        assert!(walks[1] >= walks[0] && walks[2] >= walks[0] * 2 && walks[3] >= walks[1] * 2, "{walks:?}");
        // Half of its time later another request for the first page waits for the other half.
        let half = Ps(walks[0].0 / 2);
        assert_eq!(waits(&mut memory, 1, now + half), walks[0] - half);
        assert_eq!(waits(&mut memory, 1, now + walks[0]), Ps::ZERO);
        assert_eq!(memory.iommu_counters().unwrap().joined, 1);
        // A request of two pages waits for the slower one; six would all be walked for at once.
        let mut wide = machine(&spec(16));
        waits(&mut wide, 0, nth(0));
        wide.dma_write(Line(2 * PAGE_LINES - 1), 2, nth(1));
        assert!(wide.translated() < Ps(walks[0].0 * 3 / 2));
        assert_eq!(wide.iommu_counters().unwrap().misses, 3);
    }

    #[test]
    fn off_and_passthrough_are_as_without_it_and_hits_and_misses_of_caches_are_in_any_case() {
        let (mut with, mut without) = (machine(&spec(2)), Hierarchy::new(&plain(), 1, "machine").unwrap());
        let modes = [IommuMode::Off, IommuMode::Passthrough];
        let mut others = modes.map(|mode| machine(&IommuSpec { mode, ..spec(2) }));
        for i in 0..400u64 {
            let (line, now) = (Line(i * 37 % 512), nth(i));
            let each = |memory: &mut Hierarchy| match i % 3 {
                0 => memory.dma_write(line, 2, now),
                1 => memory.read_descriptors(line, now),
                _ => memory.dma_read(line, 3, now),
            };
            let plain = each(&mut without);
            others.iter_mut().for_each(|memory| assert_eq!((each(memory), memory.translated()), (plain, Ps::ZERO)));
            each(&mut with);
        }
        for memory in &others {
            assert_eq!(memory.counters(), without.counters());
            assert_eq!(memory.iommu_counters(), None);
        }
        assert_eq!(with.counters(), without.counters());
        assert!(with.iommu_counters().unwrap().misses > 50);
    }

    #[test]
    fn without_time_it_comes_to_the_same_state_and_nobody_waits() {
        let (mut timed, mut warmed) = (machine(&spec(8)), machine(&spec(8)));
        for i in 0..2000u64 {
            let (line, now) = (Line(i * 1009 % (32 * PAGE_LINES)), nth(i));
            timed.dma_write(line, 2, now);
            warmed.warm().dma_write(line, 2, now);
            assert_eq!(warmed.translated(), Ps::ZERO);
        }
        let (a, b) = (timed.iommu.as_ref().unwrap(), warmed.iommu.as_ref().unwrap());
        assert_eq!((&a.iotlb, &a.walk_caches), (&b.iotlb, &b.walk_caches));
        let counted = |c: IommuCounters| (c.hits, c.misses, c.references);
        assert_eq!(counted(a.counters), counted(b.counters));
        assert_eq!((b.counters.walked, b.counters.waited), (Ps::ZERO, Ps::ZERO));
        // What had been under way in time holds nobody up without it.
        timed.dma_read(Line(4000 * PAGE_LINES), 1, nth(2000));
        assert!(timed.translated() > Ps::ZERO);
        timed.warm().dma_read(Line(4000 * PAGE_LINES), 1, nth(2000));
        assert_eq!(timed.translated(), Ps::ZERO);
    }

    /// A list of pages with the time at which each was used last.
    #[derive(Default)]
    struct NaiveIoTlb {
        used: Vec<(u64, u64)>,
    }

    impl NaiveIoTlb {
        fn use_or_fill(&mut self, page: u64, sets: u64, ways: usize, now: u64) -> bool {
            if let Some(entry) = self.used.iter_mut().find(|entry| entry.0 == page) {
                entry.1 = now;
                return true;
            }
            let set: Vec<(u64, u64)> = self.used.iter().copied().filter(|e| e.0 % sets == page % sets).collect();
            if set.len() == ways {
                let oldest = set.iter().min_by_key(|entry| entry.1).unwrap().0;
                self.used.retain(|entry| entry.0 != oldest);
            }
            self.used.push((page, now));
            false
        }
    }

    #[test]
    fn the_io_tlb_matches_naive() {
        for (entries, ways) in [(1, 1), (8, 1), (16, 4), (24, 8), (119, 119)] {
            let (mut fast, mut naive) = (PageCache::new(entries, ways), NaiveIoTlb::default());
            let mut draw = u64::from(entries);
            for now in 0..20_000 {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let span = if draw >> 63 == 0 { entries / 2 + 1 } else { entries * 3 };
                let page = (draw >> 20) % u64::from(span);
                let expected = naive.use_or_fill(page, u64::from(entries / ways), ways as usize, now);
                assert_eq!(fast.use_or_fill(page), expected, "{entries} entries, {ways} ways, at {now}");
            }
        }
    }

    #[test]
    fn contradictions_are_named() {
        let refused = |change: fn(&mut IommuSpec)| {
            let mut spec = spec(64);
            change(&mut spec);
            spec.check("machine.iommu").unwrap_err().to_string()
        };
        let ways = refused(|s| s.iotlb_ways = Some(24));
        assert!(
            ways.starts_with("machine.iommu.iotlb_ways = 24 with 64 entries: allowed is ways that divide"),
            "{ways}"
        );
        assert!(
            refused(|s| s.page = Size::from_bytes(8192)).starts_with("machine.iommu.page = 8 KiB: allowed is 4 KiB")
        );
        assert!(refused(|s| s.iotlb_entries = 0).starts_with("machine.iommu.iotlb_entries = 0: allowed is 1 to 65536"));
        assert!(refused(|s| s.walk_cache = 2000).starts_with("machine.iommu.walk_cache = 2000"));
        assert!(refused(|s| s.walks = 0).starts_with("machine.iommu.walks = 0: allowed is 1 to 64"));
        assert!(refused(|s| s.walk_latency = Span::from_ns(1e7)).starts_with("machine.iommu.walk_latency = 10 ms"));
    }
}
