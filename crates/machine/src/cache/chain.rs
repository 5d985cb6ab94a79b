//! A chain of caches without time: any number of levels in front of memory, one core or device
//! after another.
//!
//! Level 0 is nearest to the core. A load that misses goes down until a level has the line, and the
//! line fills the levels on its way back up, the lowest first; each fill's victim is dealt with before
//! the next level is filled. What a level does with stores and victims is its [`LevelSpec`]'s. Terms:
//! Hennessy and Patterson, 6th ed., appendix B; what a store miss does: Jouppi, ISCA 1993, "Cache write
//! policies and performance"; DDIO: Farshin et al., USENIX ATC 2020, "Reexamining Direct Cache Access".
//!
//! Left out: coherence between the private caches of several cores, which the timed hierarchy
//! ([`crate::memory`]) has, and sectors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Cbm, Clos, Line};

use super::prefetcher::{ObservedAccess, Prefetcher, PrefetcherSpec};
use super::replacement::{AnyPolicy, OLDEST, Replacement};
use super::{Slot, TagArray, Victim};
use crate::MachineError;
use crate::memory::{Hash, Inclusion, SliceHash};

/// Lines of a chain are below this: 128 GiB less a line.
pub const MAX_LINES: u64 = (1 << 31) - 1;

/// What a store does to a level that has the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteHitPolicy {
    /// It makes the line dirty, which is written down when it is evicted.
    #[default]
    Back,
    /// It goes on to the next level as well.
    Through,
}

/// What a store, or a dirty line from above, does to a level that has not the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteMiss {
    /// The line is read from below and filled (write-allocate).
    #[default]
    Fetch,
    /// The line is filled without reading it.
    Validate,
    /// Nothing is filled; the write goes on to the next level (no write-allocate).
    Around,
}

/// What a class of service, or a device, may do at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LevelClassSpec {
    /// The ways it may fill, as a bit mask.
    pub ways: u32,
    /// The age, 0 to 3, at which its lines come in under [`Replacement::Age`].
    #[serde(default = "usual_age")]
    pub age: u8,
}

fn usual_age() -> u8 {
    OLDEST - 1
}

fn yes() -> bool {
    true
}

/// A level of a [`CacheChain`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LevelSpec {
    /// Sets of all slices, below [`MAX_LINES`]. Without slices a line's set is its number modulo this.
    pub sets: u64,
    /// Ways of a set, 1 to 32.
    pub ways: u32,
    /// Slices, 1 to 64, each with as many of the sets.
    #[serde(default = "one")]
    pub slices: u32,
    /// Which slice has a line.
    #[serde(default)]
    pub hash: SliceHash,
    /// Which line of a set has to go.
    #[serde(default)]
    pub replacement: Replacement,
    /// What a store does that hits.
    #[serde(default)]
    pub write: WriteHitPolicy,
    /// What a store does that misses.
    #[serde(default)]
    pub write_miss: WriteMiss,
    /// What a dirty line from the level above does that misses. It is whole, so nothing need be read.
    #[serde(default = "validate")]
    pub writeback_miss: WriteMiss,
    /// How it relates to the levels above. [`Inclusion::Victim`] is filled by what the level above
    /// evicts, and a hit moves the line up.
    #[serde(default)]
    pub inclusion: Inclusion,
    /// Of a victim cache: a hit leaves the line here, too.
    #[serde(default)]
    pub keep_on_hit: bool,
    /// Of a victim cache: a clean line comes in again although it is here already, and so takes two
    /// ways. No hardware does this; pycachesim 0.3.1 does.
    #[serde(default)]
    pub admit_copies: bool,
    /// Whether stores and write-backs that hit count as uses of the line.
    #[serde(default = "yes")]
    pub use_on_store: bool,
    /// What asks for lines before they are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetcher: Option<PrefetcherSpec>,
    /// By class of service. A class that is not here has class 0's; class 0 has all ways when there
    /// is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<LevelClassSpec>,
    /// Of the last level: what device writes may fill; no ways turn DDIO off, and left out it is on
    /// in all ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<LevelClassSpec>,
}

fn one() -> u32 {
    1
}

fn validate() -> WriteMiss {
    WriteMiss::Validate
}

impl LevelSpec {
    /// An LRU, write-back, write-allocate, non-inclusive level.
    pub fn new(sets: u64, ways: u32) -> LevelSpec {
        LevelSpec {
            sets,
            ways,
            slices: 1,
            hash: SliceHash::default(),
            replacement: Replacement::Lru,
            write: WriteHitPolicy::Back,
            write_miss: WriteMiss::Fetch,
            writeback_miss: WriteMiss::Validate,
            inclusion: Inclusion::NonInclusive,
            keep_on_hit: false,
            admit_copies: false,
            use_on_store: true,
            prefetcher: None,
            classes: Vec::new(),
            io: None,
        }
    }
}

/// How often something was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HitCounts {
    /// There.
    pub hits: u64,
    /// Not there.
    pub misses: u64,
}

impl HitCounts {
    pub(super) fn count(&mut self, hit: bool) {
        self.hits += u64::from(hit);
        self.misses += u64::from(!hit);
    }
}

/// What a level has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCounts {
    /// Loads that arrived: of the core, of levels above that missed, of store misses that read.
    pub loads: HitCounts,
    /// Stores that arrived: of the core, or through or around the level above.
    pub stores: HitCounts,
    /// Dirty lines that arrived from above.
    pub writebacks_in: HitCounts,
    /// Prefetches of levels above that arrived.
    pub prefetches_in: HitCounts,
    /// Lines that had to go for another one.
    pub evictions: u64,
    /// Dirty lines sent down.
    pub writebacks: u64,
    /// Stores, and write-backs from above, handed on to the next level.
    pub passed_on: u64,
    /// Lines taken out by an eviction of an inclusive level below, or by a device's write.
    pub invalidations: u64,
    /// Lines asked for by this level's prefetcher that were not here.
    pub prefetches: u64,
    /// Prefetched lines that were used before they went.
    pub useful_prefetches: u64,
}

/// What a chain has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainCounts {
    /// By level, the nearest to the core first.
    pub levels: Vec<LevelCounts>,
    /// Lines read from memory.
    pub memory_reads: u64,
    /// Lines and stores written to memory.
    pub memory_writes: u64,
    /// Device writes: in place, or not there (misses).
    pub dma_writes: HitCounts,
    /// Device reads: from a cache, or from memory (misses).
    pub dma_reads: HitCounts,
    /// Of a trace that names them, by class of service: loads and stores at each level that its accesses led to.
    pub classes: Vec<Vec<HitCounts>>,
    /// Of a trace, by level and slice: loads and stores of cores and devices; none of a level without slices.
    pub slices: Vec<Vec<HitCounts>>,
}

/// Who accesses a chain, and from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The class of service.
    pub class: Clos,
    /// The static place of the reference, for stride prefetchers.
    pub site: u16,
}

#[derive(Clone, Debug)]
struct ChainLevel {
    spec: LevelSpec,
    array: TagArray<AnyPolicy>,
    /// The hash, and the sets of a slice, where there are several.
    sliced: Option<(Hash, u64)>,
    /// Loads and stores by slice, where there are several.
    by_slice: Vec<HitCounts>,
    prefetcher: Option<Prefetcher>,
    /// Of a level with a prefetcher: a bit for each way of each set, set until the line is used.
    prefetched: Vec<u32>,
}

/// A chain of caches. See the module header.
#[derive(Clone, Debug)]
pub struct CacheChain {
    levels: Vec<ChainLevel>,
    counts: ChainCounts,
    asked: Vec<Line>,
}

/// What arrives at a level to be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WrittenPart {
    /// Part of a line.
    Store,
    /// A whole line that the level above evicted.
    Whole,
}

/// On whose behalf a line comes in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Demand,
    Prefetch,
}

impl CacheChain {
    /// An empty chain of `levels`, the nearest to the core first. `path` is where they stand in the
    /// scenario; `seed` is for random replacement.
    ///
    /// # Errors
    /// No level, sizes out of range, masks that the ways do not have, or policies that contradict each
    /// other; see [`MachineError`].
    pub fn new(levels: &[LevelSpec], seed: u64, path: &str) -> Result<CacheChain, MachineError> {
        check(levels, path)?;
        let levels: Vec<ChainLevel> = levels
            .iter()
            .enumerate()
            .map(|(i, spec)| ChainLevel {
                array: TagArray::with_replacement(
                    spec.sets,
                    spec.ways,
                    spec.replacement,
                    seed.wrapping_add((i as u64) << 32),
                ),
                sliced: Hash::of(spec.hash, spec.slices)
                    .filter(|_| spec.slices > 1)
                    .map(|hash| (hash, spec.sets / u64::from(spec.slices))),
                by_slice: vec![HitCounts::default(); if spec.slices > 1 { spec.slices as usize } else { 0 }],
                prefetcher: spec.prefetcher.map(Prefetcher::new),
                prefetched: vec![0; if spec.prefetcher.is_some() { spec.sets as usize } else { 0 }],
                spec: spec.clone(),
            })
            .collect();
        let counts = ChainCounts { levels: vec![LevelCounts::default(); levels.len()], ..ChainCounts::default() };
        Ok(CacheChain { levels, counts, asked: Vec::new() })
    }

    /// What it has done so far.
    pub fn counts(&self) -> &ChainCounts {
        &self.counts
    }

    /// Counts from 0 again; the caches stay as they are.
    pub fn reset_counts(&mut self) {
        self.counts = ChainCounts { levels: vec![LevelCounts::default(); self.levels.len()], ..ChainCounts::default() };
    }

    /// Whether `level` has `line`. Counts nothing.
    pub fn has(&self, level: usize, line: Line) -> bool {
        self.levels.get(level).is_some_and(|l| l.find(line).is_some())
    }

    /// Loads and stores of cores and devices by slice of `level`; none where it has none.
    pub fn slices(&self, level: usize) -> &[HitCounts] {
        self.levels.get(level).map_or(&[], |l| &l.by_slice)
    }

    /// Lines in `level`.
    pub fn occupancy(&self, level: usize) -> u64 {
        self.levels.get(level).map_or(0, |l| l.array.occupancy())
    }

    /// Sets the ways that class `class` may fill at `level` from now on; nothing moves.
    ///
    /// # Errors
    /// A level that is not there, ways that it does not have, or none; nothing has changed then.
    pub fn set_class_ways(&mut self, level: usize, class: Clos, ways: Cbm) -> Result<(), MachineError> {
        let path = format!("levels[{level}].classes[{class}].ways");
        let spec = self.spec_mut(level, &path)?;
        check_ways(&path, ways.0, spec.ways, false)?;
        let usual = spec.class(Clos(0));
        let at = usize::from(class.0);
        if spec.classes.len() <= at {
            spec.classes.resize(at + 1, usual);
        }
        spec.classes[at].ways = ways.0;
        Ok(())
    }

    /// Sets the ways that device writes may fill from now on; nothing moves. No way turns DDIO off.
    ///
    /// # Errors
    /// Ways that the last level does not have; nothing has changed then.
    pub fn set_io_ways(&mut self, ways: Cbm) -> Result<(), MachineError> {
        let last = self.levels.len() - 1;
        let path = format!("levels[{last}].io.ways");
        let spec = self.spec_mut(last, &path)?;
        check_ways(&path, ways.0, spec.ways, true)?;
        spec.io = Some(LevelClassSpec { ways: ways.0, age: spec.io().age });
        Ok(())
    }

    fn spec_mut(&mut self, level: usize, path: &str) -> Result<&mut LevelSpec, MachineError> {
        let levels = self.levels.len();
        let found = self.levels.get_mut(level).map(|l| &mut l.spec);
        found.ok_or_else(|| {
            MachineError::new(
                path,
                format!("a setting of level {level}"),
                format!("0 to {}", levels - 1),
                "name a level of the chain".into(),
            )
        })
    }

    /// The core loads from `line`, which must be below [`MAX_LINES`].
    pub fn load(&mut self, line: Line, origin: Origin) {
        self.read(0, line, origin, Want::Demand);
    }

    /// The core stores to `line`, which must be below [`MAX_LINES`].
    pub fn store(&mut self, line: Line, origin: Origin) {
        self.write(0, line, origin, WrittenPart::Store);
    }

    /// A device writes the whole of `line`: in place where the last level has it, in any way; else into
    /// the I/O ways. Copies above go.
    pub fn dma_write(&mut self, line: Line) {
        let last = self.levels.len() - 1;
        self.invalidate_above(last, line);
        let io = self.levels[last].spec.io();
        let write = self.levels[last].spec.write;
        let found = self.levels[last].locate(line);
        self.levels[last].count_slice(line, found.is_some());
        self.counts.dma_writes.count(found.is_some());
        match found {
            Some(_) if io.ways == 0 => {
                self.levels[last].remove(line);
                self.counts.memory_writes += 1;
            }
            Some(slot) => {
                let level = &mut self.levels[last];
                level.array.use_slot(slot);
                level.array.set_dirty(slot, write == WriteHitPolicy::Back);
                self.counts.memory_writes += u64::from(write == WriteHitPolicy::Through);
            }
            None => {
                let back = write == WriteHitPolicy::Back && io.ways != 0;
                self.counts.memory_writes += u64::from(!back);
                if io.ways != 0 {
                    self.fill_as(last, line, back, io, Origin::default());
                }
            }
        }
    }

    /// A device reads `line`: from the caches if one has it. Nothing is filled and nothing moves.
    pub fn dma_read(&mut self, line: Line) {
        let found = self.levels.iter().any(|l| l.find(line).is_some());
        let last = self.levels.len() - 1;
        let there = self.levels[last].find(line).is_some();
        self.levels[last].count_slice(line, there);
        self.counts.dma_reads.count(found);
        self.counts.memory_reads += u64::from(!found);
    }

    /// Level `at` is asked for `line`; whether the line that goes up is dirty.
    fn read(&mut self, at: usize, line: Line, origin: Origin, want: Want) -> bool {
        let Some(level) = self.levels.get_mut(at) else {
            self.counts.memory_reads += 1;
            return false;
        };
        let counts = &mut self.counts.levels[at];
        let found = level.locate(line);
        match want {
            Want::Demand => {
                counts.loads.count(found.is_some());
                level.count_slice(line, found.is_some());
            }
            Want::Prefetch => counts.prefetches_in.count(found.is_some()),
        }
        let mut dirty = false;
        let mut first_use = false;
        match found {
            Some(slot) if level.spec.moves_up() => {
                dirty = level.array.is_dirty(slot);
                level.remove(line);
            }
            Some(slot) => {
                level.array.use_slot(slot);
                first_use = want == Want::Demand && level.take_prefetched(slot);
                counts.useful_prefetches += u64::from(first_use);
            }
            None => {
                dirty = self.read(at + 1, line, origin, want);
                if self.levels[at].spec.inclusion != Inclusion::Victim {
                    self.fill(at, line, dirty, origin);
                    dirty = false;
                }
            }
        }
        if want == Want::Demand {
            self.prefetch(at, ObservedAccess { line, site: origin.site, hit: found.is_some(), first_use }, origin);
        }
        dirty
    }

    /// `line` is written at level `at`.
    fn write(&mut self, at: usize, line: Line, origin: Origin, written: WrittenPart) {
        let Some(level) = self.levels.get_mut(at) else {
            self.counts.memory_writes += 1;
            return;
        };
        let counts = &mut self.counts.levels[at];
        let found = level.locate(line);
        let miss = match written {
            WrittenPart::Store => {
                counts.stores.count(found.is_some());
                level.count_slice(line, found.is_some());
                // Only evictions fill a victim cache.
                if level.spec.inclusion == Inclusion::Victim { WriteMiss::Around } else { level.spec.write_miss }
            }
            WrittenPart::Whole => {
                counts.writebacks_in.count(found.is_some());
                level.spec.writeback_miss
            }
        };
        let back = level.spec.write == WriteHitPolicy::Back;
        let mut first_use = false;
        let here = match found {
            Some(slot) => {
                if level.spec.use_on_store {
                    level.array.use_slot(slot);
                }
                if back {
                    level.array.set_dirty(slot, true);
                }
                if written == WrittenPart::Store {
                    first_use = level.take_prefetched(slot);
                    counts.useful_prefetches += u64::from(first_use);
                }
                true
            }
            None => {
                let dirty = match miss {
                    WriteMiss::Fetch => self.read(at + 1, line, origin, Want::Demand),
                    WriteMiss::Validate | WriteMiss::Around => false,
                };
                if miss != WriteMiss::Around {
                    self.fill(at, line, back || dirty, origin);
                }
                miss != WriteMiss::Around
            }
        };
        if !(here && back) {
            self.counts.levels[at].passed_on += 1;
            self.write(at + 1, line, origin, written);
        }
        if written == WrittenPart::Store {
            self.prefetch(at, ObservedAccess { line, site: origin.site, hit: found.is_some(), first_use }, origin);
        }
    }

    fn prefetch(&mut self, at: usize, seen: ObservedAccess, origin: Origin) {
        let Some(prefetcher) = &mut self.levels[at].prefetcher else { return };
        let mut asked = std::mem::take(&mut self.asked);
        asked.clear();
        prefetcher.observe(seen, &mut asked);
        for &line in &asked {
            if self.levels[at].find(line).is_some() {
                continue;
            }
            self.counts.levels[at].prefetches += 1;
            let dirty = self.read(at + 1, line, origin, Want::Prefetch);
            self.fill(at, line, dirty, origin);
            let level = &mut self.levels[at];
            if let Some(slot) = level.find(line) {
                level.prefetched[slot.set()] |= 1 << slot.way();
            }
        }
        self.asked = asked;
    }

    fn fill(&mut self, at: usize, line: Line, dirty: bool, origin: Origin) {
        let class = self.levels[at].spec.class(origin.class);
        self.fill_as(at, line, dirty, class, origin);
    }

    fn fill_as(&mut self, at: usize, line: Line, dirty: bool, class: LevelClassSpec, origin: Origin) {
        let level = &mut self.levels[at];
        // Masks have been checked to allow some way.
        let ways = Cbm(class.ways);
        let victim = match level.set_of(line) {
            None => level.array.fill_aged(line, ways, dirty, class.age),
            Some(set) => level.array.fill_owned_at(set, line, ways, dirty, class.age, 0),
        };
        let victim = victim.unwrap_or(None);
        if !level.prefetched.is_empty()
            && let Some(slot) = level.find(line)
        {
            level.take_prefetched(slot);
        }
        if let Some(victim) = victim {
            self.evict(at, victim, origin);
        }
    }

    fn evict(&mut self, at: usize, victim: Victim, origin: Origin) {
        let Victim { line, mut dirty, .. } = victim;
        self.counts.levels[at].evictions += 1;
        if self.levels[at].spec.inclusion == Inclusion::Inclusive {
            dirty |= self.invalidate_above(at, line);
        }
        self.counts.levels[at].writebacks += u64::from(dirty);
        if dirty {
            self.write(at + 1, line, origin, WrittenPart::Whole);
            return;
        }
        let Some(below) = self.levels.get_mut(at + 1) else { return };
        if below.spec.inclusion != Inclusion::Victim {
            return;
        }
        match below.locate(line) {
            Some(slot) if !below.spec.admit_copies => below.array.use_slot(slot),
            _ => self.fill(at + 1, line, false, origin),
        }
    }

    /// Takes `line` out of the levels above `below`; whether it was dirty there.
    fn invalidate_above(&mut self, below: usize, line: Line) -> bool {
        let mut dirty = false;
        for (level, counts) in self.levels[..below].iter_mut().zip(&mut self.counts.levels) {
            if let Some(was_dirty) = level.remove(line) {
                counts.invalidations += 1;
                dirty |= was_dirty;
            }
        }
        dirty
    }
}

impl ChainLevel {
    fn locate(&self, line: Line) -> Option<Slot> {
        if self.spec.admit_copies { self.array.find_first_of_copies(line) } else { self.find(line) }
    }

    /// The slice of `line` and its set in the array, where there are several.
    #[inline(always)]
    fn place(&self, line: Line) -> Option<(usize, usize)> {
        let (hash, sets) = self.sliced?;
        let (slice, within) = hash.split(line);
        Some((slice, slice * sets as usize + (within.0 % sets) as usize))
    }

    #[inline(always)]
    fn set_of(&self, line: Line) -> Option<usize> {
        self.place(line).map(|(_, set)| set)
    }

    #[inline(always)]
    fn find(&self, line: Line) -> Option<Slot> {
        match self.set_of(line) {
            None => self.array.find(line),
            Some(set) => self.array.find_at(set, line),
        }
    }

    /// Takes `line` out; says whether it was dirty, [`None`] if it was not there.
    #[inline(always)]
    fn remove(&mut self, line: Line) -> Option<bool> {
        match self.set_of(line) {
            None => self.array.remove(line),
            Some(set) => self.array.take_at(set, line).map(|victim| victim.dirty),
        }
    }

    #[inline(always)]
    fn count_slice(&mut self, line: Line, hit: bool) {
        if let Some((slice, _)) = self.place(line) {
            self.by_slice[slice].count(hit);
        }
    }

    /// Whether the line at `slot` was prefetched and not used since; it counts as used from now on.
    fn take_prefetched(&mut self, slot: Slot) -> bool {
        let Some(set) = self.prefetched.get_mut(slot.set()) else { return false };
        let was = *set >> slot.way() & 1 == 1;
        *set &= !(1 << slot.way());
        was
    }
}

impl LevelSpec {
    fn class(&self, class: Clos) -> LevelClassSpec {
        let own = self.classes.get(usize::from(class.0)).or(self.classes.first());
        own.copied().unwrap_or(LevelClassSpec { ways: Cbm::low(self.ways).0, age: usual_age() })
    }

    fn io(&self) -> LevelClassSpec {
        self.io.unwrap_or(LevelClassSpec { ways: Cbm::low(self.ways).0, age: usual_age() })
    }

    fn moves_up(&self) -> bool {
        self.inclusion == Inclusion::Victim && !self.keep_on_hit
    }
}

/// Judges `levels`, which stand at `path`.
pub(super) fn check(levels: &[LevelSpec], path: &str) -> Result<(), MachineError> {
    if levels.is_empty() {
        return Err(MachineError::new(path, "no level", "1 or more", "add a level".into()));
    }
    for (i, spec) in levels.iter().enumerate() {
        let at = |field: &str| format!("{path}[{i}].{field}");
        if !(1..=MAX_LINES).contains(&spec.sets) {
            let remedy = format!("choose {}", spec.sets.clamp(1, MAX_LINES));
            return Err(MachineError::new(at("sets"), spec.sets.to_string(), format!("1 to {MAX_LINES}"), remedy));
        }
        if !(1..=32).contains(&spec.ways) {
            let remedy = "choose a number of ways in that range".into();
            return Err(MachineError::new(at("ways"), spec.ways.to_string(), "1 to 32 ways", remedy));
        }
        if !(1..=64).contains(&spec.slices) {
            let remedy = "servers have a slice a core".into();
            return Err(MachineError::new(at("slices"), spec.slices.to_string(), "1 to 64", remedy));
        }
        if !spec.sets.is_multiple_of(u64::from(spec.slices)) {
            let (came, allowed) = (format!("{} with {} sets", spec.slices, spec.sets), "a divisor of the sets");
            let remedy = "change the slices, the size or the ways".into();
            return Err(MachineError::new(at("slices"), came, allowed, remedy));
        }
        if Hash::of(spec.hash, spec.slices).is_none() {
            let allowed = "2, 4 or 8 slices with the intel hash";
            let remedy = "the others are not published as XORs: use xor_fold".into();
            return Err(MachineError::new(at("slices"), spec.slices.to_string(), allowed, remedy));
        }
        if spec.slices > 1 && spec.admit_copies {
            let remedy = "leave out admit_copies".into();
            return Err(MachineError::new(at("slices"), "several with admit_copies", "one of them", remedy));
        }
        for (class, mask) in spec.classes.iter().enumerate() {
            check_ways(&at(&format!("classes[{class}].ways")), mask.ways, spec.ways, false)?;
            check_age(&at(&format!("classes[{class}].age")), mask.age)?;
        }
        if let Some(io) = spec.io {
            if i + 1 < levels.len() {
                let remedy = format!("move it to {path}[{}]", levels.len() - 1);
                return Err(MachineError::new(at("io"), "a setting", "the last level only", remedy));
            }
            check_ways(&at("io.ways"), io.ways, spec.ways, true)?;
            check_age(&at("io.age"), io.age)?;
        }
        if let Some(prefetcher) = &spec.prefetcher {
            prefetcher.check(&at("prefetcher"))?;
        }
        if spec.inclusion == Inclusion::Victim {
            check_victim(levels, i, &at)?;
        } else if spec.keep_on_hit || spec.admit_copies {
            let field = if spec.keep_on_hit { "keep_on_hit" } else { "admit_copies" };
            let remedy = "set inclusion = \"victim\", or leave it out".into();
            return Err(MachineError::new(at(field), "true", "victim caches only", remedy));
        }
        // A line that comes in above without a read would not be here.
        let bypass = levels[..i].iter().position(|l| l.write_miss == WriteMiss::Validate);
        if let (Inclusion::Inclusive, Some(above)) = (spec.inclusion, bypass) {
            return Err(MachineError::new(
                at("inclusion"),
                format!("inclusive, with {path}[{above}].write_miss = validate"),
                "an inclusive level below levels that read what they fill",
                format!("set {path}[{above}].write_miss to fetch or around"),
            ));
        }
    }
    Ok(())
}

fn check_victim(levels: &[LevelSpec], i: usize, at: &dyn Fn(&str) -> String) -> Result<(), MachineError> {
    if i == 0 {
        let remedy = "put a level above it, or choose another inclusion".into();
        return Err(MachineError::new(at("inclusion"), "victim", "levels below another", remedy));
    }
    if levels[i].prefetcher.is_some() {
        let remedy = "put the prefetcher at the level above".into();
        return Err(MachineError::new(at("prefetcher"), "a prefetcher", "levels that misses fill", remedy));
    }
    if levels[i].moves_up() && levels[..i].iter().any(|above| above.write == WriteHitPolicy::Through) {
        return Err(MachineError::new(
            at("inclusion"),
            "victim, below a write-through level",
            "a victim cache that moves lines up only to where they can be dirty",
            "make the levels above write-back, or set keep_on_hit".into(),
        ));
    }
    Ok(())
}

fn check_age(path: &str, age: u8) -> Result<(), MachineError> {
    if age <= OLDEST {
        return Ok(());
    }
    Err(MachineError::new(path, age.to_string(), "0 to 3", "choose an age in that range".into()))
}

/// Checks a way mask against a cache's ways.
pub(crate) fn check_ways(path: &str, mask: u32, ways: u32, may_be_empty: bool) -> Result<(), MachineError> {
    let all = Cbm::low(ways).0;
    if mask & !all != 0 {
        let remedy = format!("there are {ways} ways: try {}", Cbm(if mask & all == 0 { all } else { mask & all }));
        return Err(MachineError::new(path, Cbm(mask).to_string(), format!("bits of {}", Cbm(all)), remedy));
    }
    if mask == 0 && !may_be_empty {
        let remedy = format!("try {}", Cbm(all));
        return Err(MachineError::new(path, Cbm(mask).to_string(), "at least one way", remedy));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy)]
    struct Entry {
        line: u64,
        dirty: bool,
        prefetched: bool,
        filled: i64,
        used: i64,
    }

    /// A way holds a line, or was emptied at a time; the way emptied last is filled first.
    type Way = Result<Entry, i64>;

    /// Ways in lists, searched from end to end; LRU and FIFO by the times of events.
    struct NaiveLevel {
        spec: LevelSpec,
        sets: Vec<Vec<Way>>,
        prefetcher: Option<Prefetcher>,
    }

    /// The set of `line`, with the hashes by their definitions: slices lie behind each other.
    fn set_of(spec: &LevelSpec, line: u64) -> usize {
        let slices = u64::from(spec.slices);
        let sets = spec.sets / slices;
        // Maurice et al., RAID 2015, table 3: the address bits of each bit of the slice, up to bit 19.
        const BITS: [&[u32]; 3] = [&[6, 10, 12, 14, 16, 17, 18], &[7, 11, 13, 15, 17, 19], &[8, 12, 13, 16, 19]];
        let (slice, within) = match spec.hash {
            _ if slices == 1 => (0, line),
            SliceHash::Modulo => (line % slices, line / slices),
            SliceHash::XorFold => {
                let within = line / slices;
                ((line + ((within ^ within >> 8 ^ within >> 16) & 0xff)) % slices, within)
            }
            _ => {
                let bit = |bits: &&[u32]| bits.iter().map(|bit| (line << 6) >> bit & 1).sum::<u64>() % 2;
                let parities = BITS.iter().map(bit).take(slices.ilog2() as usize);
                (parities.enumerate().map(|(i, parity)| parity << i).sum(), line)
            }
        };
        (slice * sets + within % sets) as usize
    }

    struct Naive {
        levels: Vec<NaiveLevel>,
        counts: ChainCounts,
        now: i64,
    }

    impl Naive {
        fn new(specs: &[LevelSpec]) -> Naive {
            let level = |spec: &LevelSpec| NaiveLevel {
                spec: spec.clone(),
                sets: vec![(0..i64::from(spec.ways)).map(|w| Err(w - 100)).collect(); spec.sets as usize],
                prefetcher: spec.prefetcher.map(Prefetcher::new),
            };
            let counts = ChainCounts { levels: vec![LevelCounts::default(); specs.len()], ..ChainCounts::default() };
            Naive { levels: specs.iter().map(level).collect(), counts, now: 0 }
        }

        fn entry(&mut self, level: usize, line: u64) -> Option<&mut Entry> {
            self.now += 1;
            let level = &mut self.levels[level];
            let set = set_of(&level.spec, line);
            let mut there: Vec<&mut Entry> = level.sets[set].iter_mut().flatten().filter(|e| e.line == line).collect();
            let fifo = level.spec.replacement == Replacement::Fifo;
            there.sort_by_key(|e| if fifo { e.filled } else { e.used });
            there.pop()
        }

        fn touch(&mut self, level: usize, line: u64) {
            let now = self.now;
            if let Some(entry) = self.entry(level, line) {
                entry.used = now + 1;
            }
        }

        fn remove(&mut self, level: usize, line: u64) -> Option<bool> {
            self.now += 1;
            let of = set_of(&self.levels[level].spec, line);
            for way in &mut self.levels[level].sets[of] {
                if let Ok(entry) = *way
                    && entry.line == line
                {
                    *way = Err(self.now);
                    return Some(entry.dirty);
                }
            }
            None
        }

        fn load(&mut self, level: usize, line: u64, origin: Origin, demand: bool) -> bool {
            if level == self.levels.len() {
                self.counts.memory_reads += 1;
                return false;
            }
            let spec = self.levels[level].spec.clone();
            let hit = self.entry(level, line).is_some();
            let counts = &mut self.counts.levels[level];
            *(match (demand, hit) {
                (true, true) => &mut counts.loads.hits,
                (true, false) => &mut counts.loads.misses,
                (false, true) => &mut counts.prefetches_in.hits,
                (false, false) => &mut counts.prefetches_in.misses,
            }) += 1;
            let victim_cache = spec.inclusion == Inclusion::Victim;
            let mut goes_up_dirty = false;
            let mut first_use = false;
            if hit && victim_cache && !spec.keep_on_hit {
                goes_up_dirty = self.remove(level, line).unwrap();
            } else if hit {
                self.touch(level, line);
                if demand {
                    first_use = std::mem::take(&mut self.entry(level, line).unwrap().prefetched);
                    self.counts.levels[level].useful_prefetches += u64::from(first_use);
                }
            } else {
                goes_up_dirty = self.load(level + 1, line, origin, demand);
                if !victim_cache {
                    self.fill(level, line, std::mem::take(&mut goes_up_dirty), spec.class(origin.class), origin);
                }
            }
            if demand {
                self.prefetch(level, ObservedAccess { line: Line(line), site: origin.site, hit, first_use }, origin);
            }
            goes_up_dirty
        }

        fn store(&mut self, level: usize, line: u64, origin: Origin, whole: bool) {
            if level == self.levels.len() {
                self.counts.memory_writes += 1;
                return;
            }
            let spec = self.levels[level].spec.clone();
            let hit = self.entry(level, line).is_some();
            let counts = &mut self.counts.levels[level];
            if whole {
                counts.writebacks_in.count(hit)
            } else {
                counts.stores.count(hit)
            }
            let back = spec.write == WriteHitPolicy::Back;
            let rule = match (whole, spec.inclusion) {
                (true, _) => spec.writeback_miss,
                (false, Inclusion::Victim) => WriteMiss::Around,
                (false, _) => spec.write_miss,
            };
            let mut first_use = false;
            if hit {
                if spec.use_on_store {
                    self.touch(level, line);
                }
                let entry = self.entry(level, line).unwrap();
                entry.dirty |= back;
                if !whole {
                    first_use = std::mem::take(&mut entry.prefetched);
                    self.counts.levels[level].useful_prefetches += u64::from(first_use);
                }
            } else if rule == WriteMiss::Fetch {
                let dirty = self.load(level + 1, line, origin, true);
                self.fill(level, line, dirty || back, spec.class(origin.class), origin);
            } else if rule == WriteMiss::Validate {
                self.fill(level, line, back, spec.class(origin.class), origin);
            }
            if !back || !hit && rule == WriteMiss::Around {
                self.counts.levels[level].passed_on += 1;
                self.store(level + 1, line, origin, whole);
            }
            if !whole {
                self.prefetch(level, ObservedAccess { line: Line(line), site: origin.site, hit, first_use }, origin);
            }
        }

        fn prefetch(&mut self, level: usize, seen: ObservedAccess, origin: Origin) {
            let mut lines = Vec::new();
            if let Some(prefetcher) = &mut self.levels[level].prefetcher {
                prefetcher.observe(seen, &mut lines);
            }
            for Line(line) in lines {
                if self.entry(level, line).is_none() {
                    self.counts.levels[level].prefetches += 1;
                    let dirty = self.load(level + 1, line, origin, false);
                    let class = self.levels[level].spec.class(origin.class);
                    self.fill(level, line, dirty, class, origin);
                    if let Some(entry) = self.entry(level, line) {
                        entry.prefetched = true;
                    }
                }
            }
        }

        fn fill(&mut self, level: usize, line: u64, dirty: bool, class: LevelClassSpec, origin: Origin) {
            self.now += 1;
            let fifo = self.levels[level].spec.replacement == Replacement::Fifo;
            let of = set_of(&self.levels[level].spec, line);
            let set = &mut self.levels[level].sets[of];
            let allowed = (0..set.len()).filter(|way| class.ways >> way & 1 == 1);
            // Empty ways before full ones; of those the one emptied last, of these the oldest.
            let way = allowed
                .min_by_key(|&way| match set[way] {
                    Err(emptied) => (0, -emptied),
                    Ok(entry) => (1, if fifo { entry.filled } else { entry.used }),
                })
                .unwrap();
            let new = Entry { line, dirty, prefetched: false, filled: self.now, used: self.now };
            let Ok(old) = std::mem::replace(&mut set[way], Ok(new)) else { return };
            self.counts.levels[level].evictions += 1;
            let mut dirty = old.dirty;
            if self.levels[level].spec.inclusion == Inclusion::Inclusive {
                dirty |= self.take_from_above(level, old.line);
            }
            if dirty {
                self.counts.levels[level].writebacks += 1;
                self.store(level + 1, old.line, origin, true);
            } else if level + 1 < self.levels.len() && self.levels[level + 1].spec.inclusion == Inclusion::Victim {
                let below = self.levels[level + 1].spec.clone();
                if self.entry(level + 1, old.line).is_none() || below.admit_copies {
                    self.fill(level + 1, old.line, false, below.class(origin.class), origin);
                } else {
                    self.touch(level + 1, old.line);
                }
            }
        }

        fn take_from_above(&mut self, level: usize, line: u64) -> bool {
            let mut dirty = false;
            for above in 0..level {
                if let Some(was) = self.remove(above, line) {
                    dirty |= was;
                    self.counts.levels[above].invalidations += 1;
                }
            }
            dirty
        }

        fn dma_write(&mut self, line: u64) {
            let last = self.levels.len() - 1;
            self.take_from_above(last, line);
            let spec = self.levels[last].spec.clone();
            let io = spec.io();
            let hit = self.entry(last, line).is_some();
            self.counts.dma_writes.count(hit);
            let back = spec.write == WriteHitPolicy::Back;
            if io.ways == 0 {
                self.remove(last, line);
            } else if hit {
                self.touch(last, line);
                self.entry(last, line).unwrap().dirty = back;
            } else {
                self.fill(last, line, back, io, Origin::default());
            }
            self.counts.memory_writes += u64::from(io.ways == 0 || !back);
        }

        fn dma_read(&mut self, line: u64) {
            let hit = (0..self.levels.len()).any(|level| self.entry(level, line).is_some());
            self.counts.dma_reads.count(hit);
            self.counts.memory_reads += u64::from(!hit);
        }
    }

    fn write_miss() -> impl Strategy<Value = WriteMiss> {
        prop_oneof![Just(WriteMiss::Fetch), Just(WriteMiss::Validate), Just(WriteMiss::Around)]
    }

    fn prefetcher() -> impl Strategy<Value = Option<PrefetcherSpec>> {
        let spec = prop_oneof![
            (1u32..4).prop_map(|degree| PrefetcherSpec::NextLine { degree }),
            (1u32..4).prop_map(|degree| PrefetcherSpec::Stride { degree, entries: 4 }),
            (1u32..4, 1u32..8).prop_map(|(degree, distance)| PrefetcherSpec::Stream { degree, distance, streams: 2 }),
        ];
        prop::option::of(spec)
    }

    fn level() -> impl Strategy<Value = LevelSpec> {
        let masks = (1u32..256, 1u32..256, prop::option::of(0u32..256), any::<bool>());
        let flags = (any::<bool>(), any::<bool>(), any::<bool>(), 0usize..3, any::<bool>());
        let hashes = vec![
            (1, SliceHash::XorFold),
            (1, SliceHash::Modulo),
            (3, SliceHash::Modulo),
            (5, SliceHash::XorFold),
            (2, SliceHash::Intel),
            (4, SliceHash::Intel),
            (8, SliceHash::Intel),
        ];
        let slices = prop::sample::select(hashes);
        (1u64..9, 1u32..9, flags, write_miss(), write_miss(), prefetcher(), masks, slices).prop_map(
            |(sets, ways, flags, write_miss, writeback_miss, prefetcher, masks, (slices, hash))| {
                let (fifo, through, use_on_store, inclusion, keep_on_hit) = flags;
                let of = |mask: u32| LevelClassSpec { ways: (mask & Cbm::low(ways).0).max(1), age: 2 };
                LevelSpec {
                    replacement: if fifo { Replacement::Fifo } else { Replacement::Lru },
                    write: if through { WriteHitPolicy::Through } else { WriteHitPolicy::Back },
                    write_miss,
                    writeback_miss,
                    inclusion: [Inclusion::NonInclusive, Inclusion::Inclusive, Inclusion::Victim][inclusion],
                    keep_on_hit,
                    use_on_store,
                    prefetcher,
                    classes: if masks.3 { vec![of(masks.0), of(masks.1)] } else { Vec::new() },
                    io: masks.2.map(|ways_of_io| LevelClassSpec { ways: ways_of_io & Cbm::low(ways).0, age: 2 }),
                    slices,
                    hash,
                    ..LevelSpec::new(sets * u64::from(slices), ways)
                }
            },
        )
    }

    /// Takes out of `levels` what [`check`] would refuse.
    fn made_valid(mut levels: Vec<LevelSpec>, copies: bool) -> Vec<LevelSpec> {
        let last = levels.len() - 1;
        for i in 0..=last {
            let through = levels[..i].iter().any(|l| l.write == WriteHitPolicy::Through);
            let unread = levels[..i].iter().any(|l| l.write_miss == WriteMiss::Validate);
            let level = &mut levels[i];
            if i == 0 || level.inclusion == Inclusion::Inclusive && unread {
                level.inclusion = Inclusion::NonInclusive;
            }
            if level.inclusion == Inclusion::Victim {
                level.prefetcher = None;
                level.keep_on_hit |= through;
                level.admit_copies = copies && level.keep_on_hit && level.slices == 1;
            } else {
                level.keep_on_hit = false;
            }
            if i < last {
                level.io = None;
            }
        }
        levels
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn chain_matches_naive(
            levels in prop::collection::vec(level(), 1..5),
            copies in any::<bool>(),
            ops in prop::collection::vec((0u8..16, 0u64..120, 0u8..3, 0u16..5), 1..500),
        ) {
            let mut levels = made_valid(levels, copies);
            let mut chain = CacheChain::new(&levels, 0, "levels").unwrap();
            let mut naive = Naive::new(&levels);
            for (op, line, class, site) in ops {
                let origin = Origin { class: Clos(class), site };
                match op {
                    0..=6 => {
                        chain.load(Line(line), origin);
                        naive.load(0, line, origin, true);
                    }
                    7..=10 => {
                        chain.store(Line(line), origin);
                        naive.store(0, line, origin, false);
                    }
                    // Copies of one line and devices do not mix: which copy a device finds is not said.
                    11..=14 if levels.iter().any(|l| l.admit_copies) => {}
                    11..=12 => {
                        chain.dma_write(Line(line));
                        naive.dma_write(line);
                    }
                    13..=14 => {
                        chain.dma_read(Line(line));
                        naive.dma_read(line);
                    }
                    _ => {
                        let at = line as usize % levels.len();
                        let mask = Cbm((line as u32 ^ (u32::from(site) * 37)) & Cbm::low(levels[at].ways).0);
                        let set = chain.set_class_ways(at, Clos(class), mask);
                        prop_assert_eq!(set.is_err(), mask.0 == 0);
                        if set.is_ok() {
                            let usual = levels[at].class(Clos(0));
                            let n = levels[at].classes.len().max(usize::from(class) + 1);
                            levels[at].classes.resize(n, usual);
                            levels[at].classes[usize::from(class)].ways = mask.0;
                            naive.levels[at].spec.classes = levels[at].classes.clone();
                        }
                        let last = levels.len() - 1;
                        let io = Cbm(u32::from(site) & Cbm::low(levels[last].ways).0);
                        chain.set_io_ways(io).unwrap();
                        naive.levels[last].spec.io = Some(LevelClassSpec { ways: io.0, age: 2 });
                    }
                }
                prop_assert_eq!(chain.counts(), &naive.counts);
            }
            for (level, spec) in levels.iter().enumerate() {
                let by_slice = chain.slices(level);
                prop_assert_eq!(by_slice.len(), if spec.slices == 1 { 0 } else { spec.slices as usize });
                let c = &chain.counts().levels[level];
                let mut all = c.loads.hits + c.loads.misses + c.stores.hits + c.stores.misses;
                if level + 1 == levels.len() {
                    let (writes, reads) = (chain.counts().dma_writes, chain.counts().dma_reads);
                    all += writes.hits + writes.misses + reads.hits + reads.misses;
                }
                let sum: u64 = by_slice.iter().map(|slice| slice.hits + slice.misses).sum();
                prop_assert_eq!(sum, if spec.slices == 1 { 0 } else { all });
                for line in 0..120 {
                    prop_assert_eq!(chain.has(level, Line(line)), naive.entry(level, line).is_some());
                }
            }
        }

        #[test]
        fn an_inclusive_level_has_what_levels_above_have(
            levels in prop::collection::vec(level(), 2..4),
            ops in prop::collection::vec((0u8..4, 0u64..120), 1..300),
        ) {
            let mut levels = made_valid(levels, false);
            let last = levels.len() - 1;
            // A prefetch between the levels may push out the line that is on its way up.
            levels.iter_mut().for_each(|l| (l.write_miss, l.prefetcher) = (WriteMiss::Fetch, None));
            levels[last] = LevelSpec { inclusion: Inclusion::Inclusive, ..LevelSpec::new(4, 4) };
            let mut chain = CacheChain::new(&levels, 0, "levels").unwrap();
            for (op, line) in ops {
                match op {
                    0..=1 => chain.load(Line(line), Origin::default()),
                    2 => chain.store(Line(line), Origin::default()),
                    _ => chain.dma_write(Line(line)),
                }
                for line in (0..200).map(Line) {
                    let above = (0..last).any(|level| chain.has(level, line));
                    prop_assert!(!above || chain.has(last, line));
                }
            }
        }

        #[test]
        fn an_exclusive_level_has_nothing_the_level_above_has(
            ops in prop::collection::vec((any::<bool>(), 0u64..60), 1..300),
        ) {
            let victim = LevelSpec { inclusion: Inclusion::Victim, ..LevelSpec::new(2, 4) };
            let mut chain = CacheChain::new(&[LevelSpec::new(2, 2), victim], 0, "levels").unwrap();
            for (store, line) in ops {
                let line = Line(line);
                if store { chain.store(line, Origin::default()) } else { chain.load(line, Origin::default()) }
                for line in (0..60).map(Line) {
                    prop_assert!(!(chain.has(0, line) && chain.has(1, line)));
                }
            }
        }
    }

    #[test]
    fn a_device_write_allocates_in_the_io_ways_only_and_hits_anywhere() {
        let io = Some(LevelClassSpec { ways: 0b0011, age: 2 });
        let mut chain = CacheChain::new(&[LevelSpec { io, ..LevelSpec::new(1, 4) }], 0, "levels").unwrap();
        (0..4).for_each(|line| chain.load(Line(line), Origin::default()));
        (10..20).for_each(|line| chain.dma_write(Line(line)));
        // Two of the core's lines have gone for twenty device writes; a write to one left is in place.
        let left: Vec<u64> = (0..4).filter(|&line| chain.has(0, Line(line))).collect();
        assert_eq!(left.len(), 2);
        chain.dma_write(Line(left[0]));
        chain.dma_read(Line(99));
        assert!(!chain.has(0, Line(99)));
        assert_eq!(chain.counts().dma_writes, HitCounts { hits: 1, misses: 10 });
        assert_eq!(chain.counts().dma_reads, HitCounts { hits: 0, misses: 1 });
        assert_eq!(chain.counts().memory_writes, 8);
    }

    #[test]
    fn a_slice_has_its_lines_and_its_counts() {
        // Four slices of two sets: lines 0, 4, 8.. are of the first, and of these 0, 8, 16.. in one set.
        let sliced = LevelSpec { slices: 4, hash: SliceHash::Modulo, ..LevelSpec::new(8, 2) };
        let mut chain = CacheChain::new(&[sliced], 0, "levels").unwrap();
        [0, 8, 0, 8, 4, 1].into_iter().for_each(|line| chain.load(Line(line), Origin::default()));
        chain.dma_write(Line(1));
        let found = |hits, misses| HitCounts { hits, misses };
        assert_eq!(chain.slices(0), [found(2, 3), found(1, 1), found(0, 0), found(0, 0)]);
        // A third line of the set.
        chain.load(Line(16), Origin::default());
        assert_eq!([0, 8, 4, 16].map(|line| chain.has(0, Line(line))), [false, true, true, true]);
    }

    #[test]
    fn ages_protect_the_class_that_comes_in_young() {
        let young = LevelClassSpec { ways: 0b1111, age: 0 };
        let old = LevelClassSpec { ways: 0b1111, age: 3 };
        let spec = LevelSpec { replacement: Replacement::Age, classes: vec![young, old], ..LevelSpec::new(1, 4) };
        let mut chain = CacheChain::new(&[spec], 0, "levels").unwrap();
        (0..3).for_each(|line| chain.load(Line(line), Origin { class: Clos(0), site: 0 }));
        (10..30).for_each(|line| chain.load(Line(line), Origin { class: Clos(1), site: 0 }));
        assert!((0..3).all(|line| chain.has(0, Line(line))));
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_a_remedy() {
        let refused = |levels: &[LevelSpec]| CacheChain::new(levels, 0, "levels").unwrap_err().to_string();
        let sound = LevelSpec::new(64, 8);
        let victim = LevelSpec { inclusion: Inclusion::Victim, ..sound.clone() };
        assert_eq!(refused(&[]), "levels = no level: allowed is 1 or more (add a level)");
        assert_eq!(
            refused(&[LevelSpec { ways: 33, ..sound.clone() }]),
            "levels[0].ways = 33: allowed is 1 to 32 ways (choose a number of ways in that range)"
        );
        assert_eq!(
            refused(&[LevelSpec { sets: 0, ..sound.clone() }]),
            "levels[0].sets = 0: allowed is 1 to 2147483647 (choose 1)"
        );
        assert_eq!(
            refused(&[LevelSpec { classes: vec![LevelClassSpec { ways: 0x1ff, age: 2 }], ..sound.clone() }]),
            "levels[0].classes[0].ways = 0b111111111: allowed is bits of 0b11111111 \
             (there are 8 ways: try 0b11111111)"
        );
        assert_eq!(
            refused(std::slice::from_ref(&victim)),
            "levels[0].inclusion = victim: allowed is levels below another \
             (put a level above it, or choose another inclusion)"
        );
        assert_eq!(
            refused(&[LevelSpec { write: WriteHitPolicy::Through, ..sound.clone() }, victim]),
            "levels[1].inclusion = victim, below a write-through level: allowed is a victim cache that moves lines \
             up only to where they can be dirty (make the levels above write-back, or set keep_on_hit)"
        );
        assert_eq!(
            refused(&[LevelSpec { slices: 3, ..sound.clone() }]),
            "levels[0].slices = 3 with 64 sets: allowed is a divisor of the sets (change the slices, the size or the ways)"
        );
        assert_eq!(
            refused(&[LevelSpec { slices: 16, hash: SliceHash::Intel, ..sound.clone() }]),
            "levels[0].slices = 16: allowed is 2, 4 or 8 slices with the intel hash \
             (the others are not published as XORs: use xor_fold)"
        );
        assert!(
            refused(&[LevelSpec { slices: 0, ..sound.clone() }])
                .starts_with("levels[0].slices = 0: allowed is 1 to 64")
        );
        let prefetcher = Some(PrefetcherSpec::Stride { degree: 1, entries: 48 });
        assert_eq!(
            refused(&[LevelSpec { prefetcher, ..sound }]),
            "levels[0].prefetcher.entries = 48: allowed is a power of two up to 65536 (choose 64)"
        );
    }
}
