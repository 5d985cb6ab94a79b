//! The last-level cache: slices with queues, ways and ages, and the wires between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Cbm, CoreId, LINE_BYTES, Line, Ps, Rate, Size, Span};

use super::mix::mix;
use super::placement::SlicePlacement;
use super::tenants::{Tenants, is_of_tenants};
use crate::MachineError;
use crate::cache::{
    AnyPolicy, CacheSpec, NoWay, OLDEST, Replacement, Resident, RowOfSets, TagArray, Victim, WriteOutcome,
};
use crate::divisor::Divisor;

use super::ways::Ways;
use super::wires::{WireTopology, Wires};

/// How the LLC relates to the private caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Inclusion {
    /// A miss fills the LLC too; an LLC eviction leaves private copies alone.
    #[default]
    NonInclusive,
    /// A miss fills the LLC too; an LLC eviction takes the line from the private caches
    /// (Broadwell and before).
    Inclusive,
    /// Filled by what L2 evicts; a hit moves the line up (Skylake-SP and after, AMD Zen).
    Victim,
}

/// Which slice of an LLC has a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SliceHash {
    /// The line number modulo the slices.
    Modulo,
    /// The line number modulo the slices, turned by the XOR of the quotient's bytes: strides spread.
    #[default]
    XorFold,
    /// What Intel processors from Sandy Bridge to Skylake do with 2, 4 or 8 slices: each bit of the
    /// slice is the parity of some address bits (Maurice et al., RAID 2015, "Reverse engineering
    /// Intel last-level cache complex addressing using performance counters").
    Intel,
    /// Any slice with the same probability, drawn from all bits of the line number; the set within
    /// it is the line number's low bits. Stands for Intel's hashes over other numbers of slices,
    /// which are tables: lines that follow each other fill sets unevenly, as there, where `xor_fold`
    /// spreads them without a gap (McCalpin, TR-2021-03, "Mapping addresses to L3/CHA slices in
    /// Intel processors").
    Mixed,
    /// As `xor_fold`, with the sets of each 2048 rows of all slices in an order of their own: lines that follow each other
    /// spread without a gap, and those farther apart share a set by chance alone. A Gold 6140 keeps what devices write as
    /// evenly as that, which `mixed` does not (validation/ddio).
    Even,
}

impl SliceHash {
    /// All of them.
    pub const ALL: [SliceHash; 5] =
        [SliceHash::XorFold, SliceHash::Modulo, SliceHash::Intel, SliceHash::Mixed, SliceHash::Even];

    /// As it is written on a command line; a scenario has an underscore in place of the dash.
    pub const fn word(self) -> &'static str {
        match self {
            SliceHash::Modulo => "modulo",
            SliceHash::XorFold => "xor-fold",
            SliceHash::Intel => "intel",
            SliceHash::Mixed => "mixed",
            SliceHash::Even => "even",
        }
    }
}

/// How cores, slices and devices are wired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, tag = "topology", rename_all = "snake_case")]
pub enum Interconnect {
    /// A ring that is passed the shorter way round; core i and slice i share stop i.
    Ring {
        /// From one stop to the next.
        hop: Span,
        /// What a line takes on a link, one direction after the other; links are never busy when left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interval: Option<Span>,
        /// The stop where devices come in.
        #[serde(default)]
        device: u32,
    },
    /// A mesh, rows first and then columns; core i and slice i share tile i, counted row by row.
    Mesh {
        /// Tiles of a row.
        columns: u32,
        /// From one tile to the next.
        hop: Span,
        /// What a line takes on a link in one direction; links are never busy when left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interval: Option<Span>,
        /// The tile where devices come in.
        #[serde(default)]
        device: u32,
    },
    /// A bus that cores, slices and devices share.
    Bus {
        /// From anyone to anyone else; with snooping also what a request takes of the bus.
        hop: Span,
        /// What a line takes of the bus; it is never busy with lines when left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interval: Option<Span>,
    },
}

/// Who finds out which private caches have a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Coherence {
    /// A directory beside the LLC, in no time: only caches that may have the line are asked.
    #[default]
    Directory,
    /// Nobody: what misses an L2, an upgrade and a device's access are broadcast over the interconnect, all private caches
    /// answer, and nothing is given out before the last of them has.
    Snoop,
}

impl Coherence {
    fn is_usual(&self) -> bool {
        *self == Coherence::Directory
    }
}

/// The last-level cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LlcSpec {
    /// Capacity over all slices.
    pub size: Size,
    /// Ways of a set, 1 to 32: what the cache is made of. In place of a preset's, and without a size, they take the size with them:
    /// the sets stay. To hold cores to some ways, as Intel's CAT does,
    /// set `core_ways`.
    pub ways: u32,
    /// Load-to-use latency of a hit, from the core's request, interconnect included: the mean over
    /// cores and slices.
    pub latency: Span,
    /// Slices, each with a queue of its own; 1 to 64.
    #[serde(default = "one")]
    pub slices: u32,
    /// Which slice has a line.
    #[serde(default)]
    pub hash: SliceHash,
    /// Between two accesses that a slice takes in.
    pub interval: Span,
    /// The wires; all slices are equally far when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interconnect: Option<Interconnect>,
    /// How it relates to the private caches.
    #[serde(default)]
    pub inclusion: Inclusion,
    /// Which line of a set has to go.
    #[serde(default)]
    pub replacement: Replacement,
    /// With `replacement = "age"`: the age, 0 to 3, at which lines of cores come in.
    #[serde(default = "young")]
    pub core_age: u8,
    /// With `replacement = "age"`: the age, 0 to 3, at which lines of devices come in.
    #[serde(default = "oldest")]
    pub io_age: u8,
    /// Ways that cores may fill, as Intel's CAT holds them: how many (8), from the lowest on, or which, as text ("0xff0"); all when
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_ways: Option<Ways>,
    /// Ways that device writes may fill: how many (2), from the highest on, or which, as text ("0x600"); 0 turns DDIO off.
    pub io_ways: Ways,
    /// Ways to which a line that a device has brought into an I/O way moves when a core reads it, and where the LLC keeps it beside the
    /// core's copy: how many (2), from the lowest on, or which, as text ("0x3"). A read leaves the line where it is, or takes it
    /// along from a victim cache, when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inclusive_ways: Option<Ways>,
    /// What a transfer from another core's private cache takes beyond an LLC hit; with `coherence = "snoop"` what a private
    /// cache takes to answer, without the wires.
    pub snoop: Span,
    /// Who finds out which private caches have a line.
    #[serde(default, skip_serializing_if = "Coherence::is_usual")]
    pub coherence: Coherence,
    /// How fast programs outside the scenario bring lines into this cache, such as those of other guests on a host: by
    /// chance, into the ways of class of service 0. What a program keeps depends on how fast it comes back to its lines.
    /// Nobody does when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Rate>,
}

impl LlcSpec {
    /// `core_age` and `io_age` where nobody sets them.
    pub const USUAL_AGES: (u8, u8) = (OLDEST - 1, OLDEST);
}

fn one() -> u32 {
    1
}

fn young() -> u8 {
    LlcSpec::USUAL_AGES.0
}

fn oldest() -> u8 {
    LlcSpec::USUAL_AGES.1
}

/// What a slice has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceCounters {
    /// Requests taken in, those of devices included.
    pub requests: u64,
    /// Time that requests waited for others to be taken in.
    pub waited: Ps,
}

/// What a class of service, or a device, may fill, and at what age its lines come in.
#[derive(Clone, Copy, Debug)]
pub(super) struct FillRule {
    pub ways: Cbm,
    pub age: u8,
    /// Whose lines they are: a class of service, or [`DEVICES`].
    pub owner: u8,
}

/// The most lines of a row: there are 64 slices at most.
pub(super) const LONGEST_ROW: usize = 64;

/// The owner of lines that devices have brought in.
pub(super) const DEVICES: u8 = u8::MAX;
/// The owner of lines that [tenants](super::tenants) have brought in.
pub(super) const TENANTS: u8 = u8::MAX - 1;

/// Who asks the LLC.
#[derive(Clone, Copy, Debug)]
pub(super) enum Requester {
    Core(CoreId),
    Device,
}

/// Where a line is: its slice, its set there, and the number under which the slice knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spot {
    slice: u32,
    set: u32,
    within: u32,
}

impl Spot {
    /// The slice.
    #[inline(always)]
    pub(super) fn slice(self) -> usize {
        self.slice as usize
    }

    /// The number under which the slice knows the line; of all lines of a row it is the same.
    #[inline(always)]
    pub(super) fn within(self) -> Line {
        Line(u64::from(self.within))
    }
}

/// A request at its slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct SliceArrival {
    /// When the slice takes it in.
    pub at: Ps,
    /// What it waited for that.
    pub waited: Ps,
    /// One way between requester and slice.
    pub distance: Ps,
}

/// The slices of a last-level cache: tags, a queue each, and how far each is from whom.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Llc {
    slices: Vec<Slice>,
    tags: SliceTags,
    /// Sets of a slice.
    sets: Divisor,
    hash: Hash,
    interval: Ps,
    /// Of a hit, without distance.
    latency: Ps,
    /// One way, a row a core and a last one for devices; empty if all are equally far.
    distances: Vec<Ps>,
    cores: usize,
    /// The stop of each core, and of devices behind them.
    stops: Vec<u32>,
    wires: Option<Box<Wires>>,
    /// Lines present by owner.
    #[serde(with = "units::arrays::boxed")]
    owned: Box<[u64; 256]>,
    /// Applications with slices of their own; the hash decides when left out.
    placement: Option<Box<SlicePlacement>>,
    tenants: Option<Box<Tenants>>,
    /// Nothing waits, and nothing takes a slice: see [`super::warm`].
    #[serde(skip)]
    untimed: bool,
    /// Lines whose data have come in or been written, for tests.
    #[cfg(test)]
    #[serde(skip)]
    pub(super) took: Vec<Line>,
}

/// The queue of a slice.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Slice {
    /// When the latest request came.
    latest: Ps,
    free: Ps,
    counters: SliceCounters,
}

/// How lines are spread over slices.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Hash {
    One,
    Modulo(Divisor),
    XorFold(Divisor),
    /// Among so many slices.
    Mixed(u32),
    Even(Divisor),
    /// Of line bits; the parity of each gives a bit of the slice.
    Parity([u32; 3]),
}

/// The tags of all slices. Most runs have LRU, which is faster when the compiler knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum SliceTags {
    /// Sets of the same number lie side by side, slice by slice: what the host reads for a row of lines is in one piece.
    Lru(TagArray),
    /// An array a slice, each with draws of its own.
    Any(Vec<TagArray<AnyPolicy>>),
}

/// `$body` with the array that `$spot` lies in and the number of its set there.
macro_rules! with_tags {
    ($tags:expr, $slices:expr, $spot:expr, $name:ident, $set:ident => $body:expr) => {
        match $tags {
            SliceTags::Lru($name) => {
                let $set = $spot.set as usize * $slices + $spot.slice as usize;
                $body
            }
            SliceTags::Any(slices) => {
                let ($name, $set) = (&mut slices[$spot.slice as usize], $spot.set as usize);
                $body
            }
        }
    };
}

/// Address bits 6 to 37 as line bits 0 to 31: Maurice et al., table 3.
const INTEL: [u32; 3] =
    [(0x1b_5f57_5440u64 >> 6) as u32, (0x2e_b5fa_a880u64 >> 6) as u32, (0x3c_ccc9_3100u64 >> 6) as u32];

impl Hash {
    /// `hash` over `slices`; [`None`] where it is not known for so many.
    pub(crate) fn of(hash: SliceHash, slices: u32) -> Option<Hash> {
        Some(match (hash, slices) {
            (_, 1) => Hash::One,
            (SliceHash::Modulo, n) => Hash::Modulo(Divisor::new(n)),
            (SliceHash::XorFold, n) => Hash::XorFold(Divisor::new(n)),
            (SliceHash::Mixed, n) => Hash::Mixed(n),
            (SliceHash::Even, n) => Hash::Even(Divisor::new(n)),
            (SliceHash::Intel, n @ (2 | 4 | 8)) => {
                Hash::Parity(std::array::from_fn(|bit| if 1 << bit < n { INTEL[bit] } else { 0 }))
            }
            (SliceHash::Intel, _) => return None,
        })
    }

    /// The slice that has `line`, and the number under which it knows it.
    #[inline(always)]
    pub(crate) fn split(self, line: Line) -> (usize, Line) {
        let low = line.0 as u32;
        match self {
            Hash::One => (0, line),
            Hash::Modulo(slices) => {
                // Consecutive numbers within a slice, so that all sets are used.
                let (within, slice) = slices.divide(low);
                (slice as usize, Line(u64::from(within)))
            }
            Hash::XorFold(slices) => {
                let (within, slice) = slices.divide(low);
                (slices.remainder(slice + fold(within)) as usize, Line(u64::from(within)))
            }
            Hash::Even(slices) => {
                let (row, slice) = slices.divide(low);
                (slices.remainder(slice + fold(row)) as usize, Line(u64::from(reordered(row))))
            }
            Hash::Mixed(slices) => (((u64::from(mix(low)) * u64::from(slices)) >> 32) as usize, line),
            Hash::Parity(masks) => {
                let parity = |mask: u32| ((low & mask).count_ones() & 1) as usize;
                (parity(masks[0]) | parity(masks[1]) << 1 | parity(masks[2]) << 2, line)
            }
        }
    }

    /// The line that `slice` knows as `within`.
    #[inline(always)]
    fn join(self, slice: usize, within: Line) -> Line {
        match self {
            Hash::Modulo(slices) => Line(within.0 * u64::from(slices.divisor()) + slice as u64),
            Hash::XorFold(slices) => {
                let n = slices.divisor();
                let turned = slices.remainder(fold(within.0 as u32));
                Line(within.0 * u64::from(n) + u64::from(slices.remainder(slice as u32 + n - turned)))
            }
            Hash::Even(slices) => {
                let (row, n) = (reordered(within.0 as u32), slices.divisor());
                let turned = slices.remainder(fold(row));
                Line(u64::from(row) * u64::from(n) + u64::from(slices.remainder(slice as u32 + n - turned)))
            }
            Hash::One | Hash::Mixed(_) | Hash::Parity(_) => within,
        }
    }
}

/// Rows among which those of [`SliceHash::Even`] change places: the sets of a slice of Intel's servers from Haswell on.
const REORDERED: u32 = 2048;

/// Where a row lies among those beside it, and which row lies there: the same.
#[inline(always)]
fn reordered(row: u32) -> u32 {
    row ^ (mix(row / REORDERED) % REORDERED)
}

#[inline(always)]
fn fold(within: u32) -> u32 {
    (within ^ within >> 8 ^ within >> 16) & 0xff
}

impl Llc {
    /// # Errors
    /// Sizes and counts that contradict each other.
    pub(super) fn new(spec: &LlcSpec, cores: u32, path: &str) -> Result<Llc, MachineError> {
        let error = |field: &str, came: String, allowed: String, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        let n = spec.slices;
        if !(1..=64).contains(&n) {
            return error("slices", n.to_string(), "1 to 64".into(), "servers have a slice a core");
        }
        let least = u64::from(n) * u64::from(spec.ways) * LINE_BYTES;
        if n > 1 && least > 0 && !spec.size.bytes().is_multiple_of(least) {
            let came = format!("{} with {n} slices of {} ways", spec.size, spec.ways);
            let near = crate::cache::nearest_size(spec.size.bytes(), least);
            let least = Size::from_bytes(least);
            let allowed = format!("a multiple of slices x ways x 64 B, here {least}");
            return error("size", came, allowed, &format!("{near}; or change the slices or the ways"));
        }
        let size = Size::from_bytes(spec.size.bytes() / u64::from(n));
        let sets = CacheSpec { size, ways: spec.ways, latency: spec.latency }.sets(path)?;
        let Some(hash) = Hash::of(spec.hash, n) else {
            let allowed = "2, 4 or 8 slices with hash = \"intel\"".into();
            return error("slices", n.to_string(), allowed, "the others are not published as XORs: use xor_fold");
        };
        let stops = Stops::of(spec, cores, path)?;
        let distances = stops.as_ref().map(|stops| stops.distances(cores, n)).unwrap_or_default();
        let of_cores = &distances[..distances.len().saturating_sub(n as usize)];
        let there_and_back = Ps(2 * of_cores.iter().map(|d| d.0).sum::<u64>() / of_cores.len().max(1) as u64);
        let Some(latency) = spec.latency.ps().0.checked_sub(there_and_back.0) else {
            let came = format!("{} with {:.1} ns on the wires there and back", spec.latency, there_and_back.as_ns());
            return error("latency", came, "more than the wires take".into(), "it is the mean with the interconnect");
        };
        for (field, age) in [("core_age", spec.core_age), ("io_age", spec.io_age)] {
            if age > OLDEST {
                return error(field, age.to_string(), format!("0 to {OLDEST}"), "ages have two bits");
            }
        }
        let device = stops.as_ref().map_or(0, |stops| stops.device);
        let wires =
            stops.and_then(|s| s.interval.map(|interval| Box::new(Wires::new(s.shape, s.count, s.hop, interval))));
        let tags = match spec.replacement {
            Replacement::Lru => SliceTags::Lru(TagArray::new(sets * u64::from(n), spec.ways)),
            other => {
                let array = |seed| TagArray::with_replacement(sets, spec.ways, other, seed);
                SliceTags::Any((0..u64::from(n)).map(array).collect())
            }
        };
        let slice = Slice { latest: Ps::ZERO, free: Ps::ZERO, counters: SliceCounters::default() };
        Ok(Llc {
            slices: vec![slice; n as usize],
            tags,
            sets: Divisor::new(sets as u32),
            hash,
            interval: spec.interval.ps(),
            latency: Ps(latency),
            distances,
            cores: cores as usize,
            stops: (0..cores).chain([device]).collect(),
            wires,
            owned: Box::new([0; 256]),
            placement: None,
            tenants: spec.tenants.and_then(|rate| Tenants::new(rate, sets * u64::from(n), spec.ways)).map(Box::new),
            untimed: false,
            #[cfg(test)]
            took: Vec::new(),
        })
    }

    /// Seats each core at a stop, of those that it was made for.
    pub(super) fn seat(&mut self, stops: &[usize]) {
        let slices = self.slices.len();
        self.stops = stops.iter().chain([&self.cores]).map(|&stop| self.stops[stop]).collect();
        if !self.distances.is_empty() {
            let device = self.cores;
            let rows = stops.iter().chain([&device]);
            self.distances =
                rows.flat_map(|&stop| self.distances[stop * slices..(stop + 1) * slices].iter().copied()).collect();
        }
        self.cores = stops.len();
    }

    /// Whether nothing waits from now on, and nothing takes slices and wires.
    pub(super) fn set_untimed(&mut self, untimed: bool) {
        self.untimed = untimed;
        if let Some(wires) = &mut self.wires {
            wires.untimed = untimed;
        }
    }

    pub(super) fn slice_count(&self) -> u32 {
        self.slices.len() as u32
    }

    /// Lines are placed by `placement` from now on, in an empty cache.
    pub(super) fn place_by(&mut self, placement: SlicePlacement) {
        self.placement = Some(Box::new(placement));
    }

    pub(super) fn placement_mut(&mut self) -> Option<&mut SlicePlacement> {
        self.placement.as_deref_mut()
    }

    /// Takes out what `goes` names and what does not lie where it belongs any more; appends it.
    pub(super) fn drain(&mut self, goes: impl Fn(Line) -> bool, out: &mut Vec<Victim>) {
        let (hash, placement, slices) = (self.hash, self.placement.as_deref(), self.slices.len());
        let name = |slice, within| SlicePlacement::name(placement, within).unwrap_or_else(|| hash.join(slice, within));
        let wants = |slice, within| {
            if is_of_tenants(within) {
                return false;
            }
            let line = name(slice, within);
            goes(line) || placement.is_some_and(|placement| placement.home(line).0 != slice)
        };
        let owned = &mut self.owned;
        let mut gone = |slice, victim: Victim| {
            owned[usize::from(victim.owner)] -= 1;
            out.push(Victim { line: name(slice, victim.line), ..victim });
        };
        match &mut self.tags {
            SliceTags::Lru(tags) => {
                tags.drain(|set, line| wants(set % slices, line), |set, victim| gone(set % slices, victim));
            }
            SliceTags::Any(arrays) => {
                for (slice, tags) in arrays.iter_mut().enumerate() {
                    tags.drain(|_, line| wants(slice, line), |_, victim| gone(slice, victim));
                }
            }
        }
    }

    /// The lines that are there but for those of tenants, as [`TagArray::residents`] has them.
    pub(super) fn residents(&self) -> Vec<Resident> {
        let placement = self.placement.as_deref();
        let mut all = Vec::with_capacity(self.occupancy() as usize);
        let mut seen = |slice, resident: Resident| {
            if resident.owner != TENANTS {
                let named = SlicePlacement::name(placement, resident.line);
                all.push(Resident { line: named.unwrap_or_else(|| self.hash.join(slice, resident.line)), ..resident });
            }
        };
        match &self.tags {
            SliceTags::Lru(tags) => tags.residents(|set, resident| seen(set % self.slices.len(), resident)),
            SliceTags::Any(arrays) => {
                for (slice, tags) in arrays.iter().enumerate() {
                    tags.residents(|_, resident| seen(slice, resident));
                }
            }
        }
        all
    }

    /// A line that another LLC had comes in as by [`Llc::fill`], into the way that it had there if that is allowed and empty; whether
    /// it found room.
    pub(super) fn keep(&mut self, spot: Spot, share: FillRule, resident: &Resident) -> bool {
        let way = Cbm(1u32.checked_shl(resident.way).unwrap_or(0) & share.ways.0);
        let slices = self.slices.len();
        let is_free =
            way.0 != 0 && with_tags!(&mut self.tags, slices, spot, tags, set => tags.is_empty_at(set, resident.way));
        let ways = if is_free { way } else { share.ways };
        self.fill(spot, FillRule { ways, ..share }, resident.dirty).is_ok()
    }

    /// Of a hit, without distance.
    #[inline(always)]
    pub(super) fn latency(&self) -> Ps {
        self.latency
    }

    pub(super) fn ways(&self) -> u32 {
        match &self.tags {
            SliceTags::Lru(tags) => tags.ways(),
            SliceTags::Any(slices) => slices[0].ways(),
        }
    }

    /// Sets of a slice.
    pub(super) fn sets(&self) -> u64 {
        u64::from(self.sets.divisor())
    }

    /// Lines present, of all owners.
    pub(super) fn occupancy(&self) -> u64 {
        self.owned.iter().sum()
    }

    /// Lines present that `owner` has brought in.
    pub(super) fn owned(&self, owner: u8) -> u64 {
        self.owned[usize::from(owner)]
    }

    pub(super) fn counters(&self) -> Vec<SliceCounters> {
        self.slices.iter().map(|s| s.counters).collect()
    }

    /// Where `line` is, if it is.
    #[inline(always)]
    pub(super) fn spot(&self, line: Line) -> Spot {
        let (slice, within) = match &self.placement {
            None => self.hash.split(line),
            Some(placement) => placement.home(line),
        };
        let within = within.0 as u32;
        Spot { slice: slice as u32, set: self.sets.remainder(within), within }
    }

    /// Where the line after one at `spot` is, if they are of the same row ([`Llc::rest_of_row`]).
    #[inline(always)]
    pub(super) fn next_of_row(&self, spot: Spot) -> Spot {
        let next = spot.slice + 1;
        Spot { slice: if next == self.slices.len() as u32 { 0 } else { next }, ..spot }
    }

    /// Which of `choices` lines from `first` on is in the slice nearest to `core`, the first of several; 0 where all are equally far.
    pub(super) fn nearest(&self, core: CoreId, first: Line, choices: u64) -> u64 {
        let row = usize::from(core.0) * self.slices.len();
        let distance = |k: &u64| self.distances[row + self.spot(Line(first.0 + k)).slice()];
        if self.distances.is_empty() { 0 } else { (0..choices).min_by_key(distance).unwrap_or(0) }
    }

    /// The slice takes in a request made at `now`, after those made before.
    #[inline]
    pub(super) fn take_in(&mut self, spot: Spot, from: Requester, now: Ps) -> SliceArrival {
        let distance = if self.distances.is_empty() {
            Ps::ZERO
        } else {
            let row = match from {
                Requester::Core(core) => usize::from(core.0),
                Requester::Device => self.cores,
            };
            self.distances[row * self.slices.len() + spot.slice as usize]
        };
        if self.untimed {
            return SliceArrival { at: now + distance, waited: Ps::ZERO, distance };
        }
        let slice = &mut self.slices[spot.slice as usize];
        let there = now + distance;
        // A request out of turn waits as if it came with the latest.
        slice.latest = slice.latest.max(there);
        let at = slice.latest.max(slice.free);
        slice.free = at + self.interval;
        let waited = at - slice.latest;
        slice.counters.requests += 1;
        slice.counters.waited += waited;
        SliceArrival { at: there + waited, waited, distance }
    }

    /// What a line waits on the wires between slice and requester, `to_slice` or from it, that leaves at `now`.
    #[inline(always)]
    pub(super) fn carry(&mut self, spot: Spot, with: Requester, to_slice: bool, now: Ps) -> Ps {
        if self.wires.is_none() { Ps::ZERO } else { self.carry_on_wires(spot, with, to_slice, now) }
    }

    #[inline(never)]
    fn carry_on_wires(&mut self, spot: Spot, with: Requester, to_slice: bool, now: Ps) -> Ps {
        let Some(wires) = &mut self.wires else { return Ps::ZERO };
        let slice = spot.slice;
        let other = self.stops[match with {
            Requester::Core(core) => usize::from(core.0),
            Requester::Device => self.cores,
        }];
        if to_slice { wires.carry(other, slice, now) } else { wires.carry(slice, other, now) }
    }

    /// What a line waits on the wires from stop to stop, that leaves at `now`.
    pub(super) fn carry_between(&mut self, from: u32, to: u32, now: Ps) -> Ps {
        self.wires.as_mut().map_or(Ps::ZERO, |wires| wires.carry(from, to, now))
    }

    /// Lines from `line` on that lie in the same set, each in the slice after that of the one before it.
    #[inline(always)]
    pub(super) fn rest_of_row(&self, line: Line) -> u64 {
        match self.hash {
            Hash::Modulo(slices) | Hash::XorFold(slices) | Hash::Even(slices) => {
                u64::from(slices.divisor() - slices.remainder(line.0 as u32))
            }
            Hash::One | Hash::Mixed(_) | Hash::Parity(_) => 1,
        }
    }

    #[inline(always)]
    pub(super) fn has(&self, spot: Spot) -> bool {
        let line = spot.within();
        match &self.tags {
            SliceTags::Lru(tags) => {
                tags.find_at(spot.set as usize * self.slices.len() + spot.slice as usize, line).is_some()
            }
            SliceTags::Any(slices) => slices[spot.slice as usize].find_at(spot.set as usize, line).is_some(),
        }
    }

    /// In which way the line is, and who has brought it, if it is there.
    pub(super) fn way_and_owner(&self, spot: Spot) -> Option<(u32, u8)> {
        let line = spot.within();
        match &self.tags {
            SliceTags::Lru(tags) => {
                let slot = tags.find_at(spot.set as usize * self.slices.len() + spot.slice as usize, line)?;
                Some((slot.way(), tags.owner(slot)))
            }
            SliceTags::Any(slices) => {
                let tags = &slices[spot.slice as usize];
                let slot = tags.find_at(spot.set as usize, line)?;
                Some((slot.way(), tags.owner(slot)))
            }
        }
    }

    /// The line, which is there, moves into one of `ways` as what was used last; who has to go for it there.
    pub(super) fn move_to(&mut self, spot: Spot, ways: Cbm, age: u8) -> Result<Option<Victim>, NoWay> {
        let (line, slices) = (spot.within(), self.slices.len());
        let moved = with_tags!(&mut self.tags, slices, spot, tags, set => tags.take_at(set, line));
        let Some(Victim { dirty, owner, .. }) = moved else { return Ok(None) };
        self.owned[usize::from(owner)] -= 1;
        let victim = with_tags!(&mut self.tags, slices, spot, tags, set => {
            tags.fill_owned_at(set, line, ways, dirty, age, owner)
        });
        self.filled(spot, owner, victim)
    }

    /// Whether the line is there and dirty.
    pub(super) fn has_dirty(&self, spot: Spot) -> bool {
        let line = spot.within();
        match &self.tags {
            SliceTags::Lru(tags) => {
                let found = tags.find_at(spot.set as usize * self.slices.len() + spot.slice as usize, line);
                found.is_some_and(|slot| tags.is_dirty(slot))
            }
            SliceTags::Any(slices) => {
                let tags = &slices[spot.slice as usize];
                tags.find_at(spot.set as usize, line).is_some_and(|slot| tags.is_dirty(slot))
            }
        }
    }

    /// Uses the line; says whether it is there.
    #[inline(always)]
    pub(super) fn use_line(&mut self, spot: Spot) -> bool {
        with_tags!(&mut self.tags, self.slices.len(), spot, tags, set => tags.use_line_at(set, spot.within())).is_some()
    }

    /// Uses the line and marks it dirty; says whether it is there.
    #[inline(always)]
    pub(super) fn write_line(&mut self, spot: Spot) -> bool {
        let is_there =
            with_tags!(&mut self.tags, self.slices.len(), spot, tags, set => tags.write_line_at(set, spot.within()));
        if is_there {
            self.takes(spot);
        }
        is_there
    }

    /// The data of the line at `spot` have come in, or been written.
    #[inline(always)]
    fn takes(&mut self, _spot: Spot) {
        #[cfg(test)]
        if !is_of_tenants(_spot.within()) {
            let name = SlicePlacement::name(self.placement.as_deref(), _spot.within());
            self.took.push(name.unwrap_or_else(|| self.hash.join(_spot.slice as usize, _spot.within())));
        }
    }

    /// Takes the line out; says whether it was dirty, [`None`] if it was not there.
    #[inline(always)]
    pub(super) fn remove(&mut self, spot: Spot) -> Option<bool> {
        let victim =
            with_tags!(&mut self.tags, self.slices.len(), spot, tags, set => tags.take_at(set, spot.within()))?;
        self.owned[usize::from(victim.owner)] -= 1;
        Some(victim.dirty)
    }

    /// As [`TagArray::write_or_fill`].
    #[inline(always)]
    pub(super) fn write_or_fill(&mut self, spot: Spot, share: FillRule) -> WriteOutcome {
        let FillRule { ways, age, owner } = share;
        self.takes(spot);
        let written = with_tags!(&mut self.tags, self.slices.len(), spot, tags, set => {
            tags.write_or_fill_at(set, spot.within(), ways, age, owner)
        });
        match written {
            WriteOutcome::Filled(victim) => WriteOutcome::Filled(self.filled(spot, owner, victim)),
            WriteOutcome::InPlace => WriteOutcome::InPlace,
        }
    }

    /// Counts what a fill has changed, and names the victim as the memory system does.
    #[inline(always)]
    fn filled(
        &mut self,
        spot: Spot,
        owner: u8,
        victim: Result<Option<Victim>, NoWay>,
    ) -> Result<Option<Victim>, NoWay> {
        let victim = victim?;
        self.owned[usize::from(owner)] += 1;
        Ok(victim.and_then(|v| {
            self.owned[usize::from(v.owner)] -= 1;
            if v.owner == TENANTS {
                // Nobody here knows of it.
                return None;
            }
            let named = SlicePlacement::name(self.placement.as_deref(), v.line);
            Some(Victim { line: named.unwrap_or_else(|| self.hash.join(spot.slice as usize, v.line)), ..v })
        }))
    }

    /// As [`TagArray::fill_owned`].
    #[inline(always)]
    pub(super) fn fill(&mut self, spot: Spot, share: FillRule, dirty: bool) -> Result<Option<Victim>, NoWay> {
        let FillRule { ways, age, owner } = share;
        self.takes(spot);
        let victim = with_tags!(&mut self.tags, self.slices.len(), spot, tags, set => {
            tags.fill_owned_at(set, spot.within(), ways, dirty, age, owner)
        });
        self.filled(spot, owner, victim)
    }

    /// Whether sets of a row lie side by side and lines come and go by no wires, as [`Llc::write_row`] and [`Llc::find_row`] want it.
    #[inline(always)]
    pub(super) fn has_rows(&self) -> bool {
        matches!(self.tags, SliceTags::Lru(_))
            && self.wires.is_none()
            && self.placement.is_none()
            && self.tenants.is_none()
    }

    #[inline(always)]
    pub(super) fn has_tenants(&self) -> bool {
        self.tenants.is_some()
    }

    /// How many lines tenants have brought into the set at `spot` by `now`, which are to come in by [`Llc::fill_for_tenant`].
    pub(super) fn brought(&mut self, spot: Spot, now: Ps) -> u32 {
        let set = spot.set as usize * self.slices.len() + spot.slice as usize;
        self.tenants.as_mut().map_or(0, |tenants| tenants.bring(set, now))
    }

    /// A tenant's line comes into the set at `spot`; who has to go for it.
    pub(super) fn fill_for_tenant(&mut self, spot: Spot, ways: Cbm, age: u8) -> Result<Option<Victim>, NoWay> {
        let Some(tenants) = &mut self.tenants else { return Ok(None) };
        let within = tenants.number();
        self.fill(Spot { within, ..spot }, FillRule { ways, age, owner: TENANTS }, false)
    }

    #[inline(always)]
    fn row_at(&self, spot: Spot, count: u32) -> RowOfSets {
        let round = self.slices.len() as u32;
        RowOfSets { base: spot.set as usize * round as usize, round, first: spot.slice, count }
    }

    /// When slices answer a device's requests for `count` lines of a row, made at `now`, the first of them at `spot`; the
    /// latest of these.
    #[inline(always)]
    pub(super) fn answer_row(&mut self, mut spot: Spot, count: u32, now: Ps, answers: &mut [Ps; LONGEST_ROW]) -> Ps {
        let mut latest = Ps::ZERO;
        if self.distances.is_empty() && self.untimed {
            let at = now + self.latency;
            answers[..count as usize].fill(at);
            return at;
        }
        if self.distances.is_empty() {
            // As `take_in`, with nothing looked up slice by slice.
            let (interval, latency) = (self.interval, self.latency);
            let from = spot.slice as usize;
            let (before, after) = self.slices.split_at_mut(from);
            for (slice, answer) in after.iter_mut().chain(before).zip(&mut answers[..count as usize]) {
                slice.latest = slice.latest.max(now);
                let at = slice.latest.max(slice.free);
                slice.free = at + interval;
                let waited = at - slice.latest;
                slice.counters.requests += 1;
                slice.counters.waited += waited;
                *answer = now + waited + latency;
                latest = latest.max(*answer);
            }
            return latest;
        }
        for answer in &mut answers[..count as usize] {
            let SliceArrival { at, distance, .. } = self.take_in(spot, Requester::Device, now);
            *answer = at + self.latency + distance;
            latest = latest.max(*answer);
            spot = self.next_of_row(spot);
        }
        latest
    }

    /// As [`Llc::write_or_fill`], of `count` lines of a row, the first of them at `spot`: a bit for each that was there.
    /// `gone` gets how many came before, and the dirty line that has to go.
    #[inline(always)]
    pub(super) fn write_row(
        &mut self,
        spot: Spot,
        count: u32,
        share: FillRule,
        mut gone: impl FnMut(u32, Line),
    ) -> u64 {
        let row = self.row_at(spot, count);
        #[cfg(test)]
        std::iter::successors(Some(spot), |&spot| Some(self.next_of_row(spot)))
            .take(count as usize)
            .collect::<Vec<Spot>>()
            .into_iter()
            .for_each(|spot| self.takes(spot));
        let SliceTags::Lru(tags) = &mut self.tags else { return 0 };
        let (hash, owned) = (self.hash, &mut self.owned);
        let (mut found, mut filled) = (0, 0);
        tags.write_or_fill_row(spot.within(), row, share.ways, share.age, share.owner, |i, written| {
            let slice = spot.slice + i;
            let slice = if slice >= row.round { slice - row.round } else { slice };
            match written {
                WriteOutcome::InPlace => found |= 1 << i,
                WriteOutcome::Filled(Ok(victim)) => {
                    filled += 1;
                    if let Some(victim) = victim {
                        owned[usize::from(victim.owner)] -= 1;
                        if victim.dirty {
                            gone(i, hash.join(slice as usize, victim.line));
                        }
                    }
                }
                // There is no way for it.
                WriteOutcome::Filled(Err(NoWay)) => gone(i, hash.join(slice as usize, spot.within())),
            }
        });
        self.owned[usize::from(share.owner)] += filled;
        found
    }

    /// As [`Llc::has`], of `count` lines of a row, the first of them at `spot`: a bit for each that is there.
    #[inline(always)]
    pub(super) fn find_row(&self, spot: Spot, count: u32) -> u64 {
        let SliceTags::Lru(tags) = &self.tags else { return 0 };
        let mut found = 0;
        tags.find_row(spot.within(), self.row_at(spot, count), |i, is_there| found |= u64::from(is_there) << i);
        found
    }

    /// Makes the line count as used, and dirty if it is `dirty`; if it is not there it comes in as by [`Llc::fill`].
    #[inline(always)]
    pub(super) fn put(&mut self, spot: Spot, share: FillRule, dirty: bool) -> WriteOutcome {
        let FillRule { ways, age, owner } = share;
        let written = with_tags!(&mut self.tags, self.slices.len(), spot, tags, set => {
            tags.use_or_fill_at(set, spot.within(), ways, dirty, age, owner)
        });
        if dirty || written != WriteOutcome::InPlace {
            self.takes(spot);
        }
        match written {
            WriteOutcome::Filled(victim) => WriteOutcome::Filled(self.filled(spot, owner, victim)),
            WriteOutcome::InPlace => WriteOutcome::InPlace,
        }
    }

    /// As [`Llc::prefetch`], of `count` lines of a row, the first of them at `spot`.
    #[inline(always)]
    pub(super) fn prefetch_row(&self, mut spot: Spot, count: u32) {
        for _ in 0..count {
            self.prefetch(spot);
            spot = self.next_of_row(spot);
        }
    }

    /// Asks the host to bring the set of the line into its own cache.
    #[inline(always)]
    pub(super) fn prefetch(&self, spot: Spot) {
        match &self.tags {
            SliceTags::Lru(tags) => tags.prefetch_at(spot.set as usize * self.slices.len() + spot.slice as usize),
            SliceTags::Any(slices) => slices[spot.slice as usize].prefetch_at(spot.set as usize),
        }
    }
}

/// How an LLC's stops are wired, what a hop takes, and the stop of devices.
pub(super) struct Stops {
    pub shape: WireTopology,
    pub count: u32,
    pub hop: Ps,
    pub device: u32,
    interval: Option<Ps>,
}

impl Stops {
    /// [`None`] where all slices are equally far.
    ///
    /// # Errors
    /// A device's stop that there is not, a mesh without columns.
    pub(super) fn of(spec: &LlcSpec, cores: u32, path: &str) -> Result<Option<Stops>, MachineError> {
        let Some(interconnect) = &spec.interconnect else { return Ok(None) };
        let (shape, hop, interval, device) = match *interconnect {
            Interconnect::Ring { hop, interval, device } => (WireTopology::Ring, hop, interval, device),
            Interconnect::Mesh { columns, hop, interval, device } => {
                (WireTopology::Mesh { columns }, hop, interval, device)
            }
            Interconnect::Bus { hop, interval } => (WireTopology::Bus, hop, interval, 0),
        };
        let stops = cores.max(spec.slices);
        if device >= stops {
            return Err(MachineError::new(
                format!("{path}.interconnect.device"),
                device.to_string(),
                format!("0 to {}, the last stop", stops - 1),
                "there are as many stops as cores or slices, whichever are more".into(),
            ));
        }
        let (shape, count) = match shape {
            WireTopology::Mesh { columns: 0 } => {
                return Err(MachineError::new(
                    format!("{path}.interconnect.columns"),
                    "0",
                    "at least 1",
                    "give the tiles of a row".into(),
                ));
            }
            WireTopology::Mesh { columns } => {
                // More columns than stops are one row; a mesh's last row is whole, so that every way leads over stops.
                let columns = columns.min(stops);
                (WireTopology::Mesh { columns }, stops.next_multiple_of(columns))
            }
            other => (other, stops),
        };
        Ok(Some(Stops { shape, count, hop: hop.ps(), device, interval: interval.map(Span::ps) }))
    }

    /// One way from each of `cores`, and last from a device, to each of `slices`.
    fn distances(&self, cores: u32, slices: u32) -> Vec<Ps> {
        let requesters = (0..cores).chain([self.device]);
        let pairs = requesters.flat_map(|from| (0..slices).map(move |to| (from, to)));
        pairs.map(|(a, b)| self.hop * u64::from(self.shape.hops(self.count, a, b))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec(slices: u32, hash: SliceHash) -> LlcSpec {
        let ns = Span::from_ns;
        LlcSpec {
            size: Size::from_bytes(u64::from(slices) * 4 * 64 * 64),
            ways: 4,
            latency: ns(20.0),
            slices,
            hash,
            interval: ns(2.0),
            interconnect: None,
            inclusion: Inclusion::Victim,
            replacement: Replacement::Lru,
            core_age: 2,
            io_age: 3,
            core_ways: None,
            io_ways: Ways::Mask(Cbm(0b11)),
            inclusive_ways: None,
            snoop: ns(10.0),
            coherence: Default::default(),
            tenants: None,
        }
    }

    #[test]
    fn every_hash_fills_the_whole_cache_with_consecutive_lines() {
        use SliceHash::*;
        for (slices, hash) in
            [(1, XorFold), (18, Modulo), (18, XorFold), (16, XorFold), (18, Even), (2, Intel), (4, Intel), (8, Intel)]
        {
            let mut llc = Llc::new(&spec(slices, hash), 4, "llc").unwrap();
            let lines = u64::from(slices) * 256;
            // A few sets of a hashed cache get a line more than they have ways.
            let start = 1 << 20;
            (start..start + lines).for_each(|line| {
                let _ = llc.fill(llc.spot(Line(line)), FillRule { ways: Cbm::low(4), age: 0, owner: 1 }, false);
            });
            let kept = (start..start + lines).filter(|&line| llc.has(llc.spot(Line(line)))).count() as u64;
            assert!(kept * 100 >= lines * 88, "{hash:?} over {slices}: {kept} of {lines}");
            assert_eq!((llc.occupancy(), llc.owned(1)), (kept, kept));
        }
    }

    #[test]
    fn the_intel_hash_of_eight_slices() {
        // Worked out by hand from table 3 of Maurice et al.: address bits 6, 7 and 8 are in the
        // first, second and third parity alone; bit 17 is in the first and bit 19 in the second and
        // third.
        let hash = Hash::Parity(INTEL);
        let slice = |address: u64| hash.split(Line(address >> 6)).0;
        assert_eq!([0, 1 << 6, 1 << 7, 1 << 8, 1 << 17, 1 << 19].map(slice), [0, 1, 2, 4, 3, 6]);
    }

    #[test]
    fn the_mixed_hash_puts_as_many_lines_into_sets_as_chance_does() {
        // Lines a set: Poisson with mean 2, of which four at most stay.
        let mut llc = Llc::new(&spec(18, SliceHash::Mixed), 1, "llc").unwrap();
        let lines = 18 * 64 * 2;
        (0..lines).for_each(|line| {
            let _ = llc.fill(llc.spot(Line(line)), FillRule { ways: Cbm::low(4), age: 0, owner: 1 }, false);
        });
        // E[min(X, 4)] / 2 for X Poisson with mean 2: 0.9624.
        let kept = llc.occupancy() as f64 / lines as f64;
        assert!((kept - 0.9624).abs() < 0.015, "{kept}");
        let mut counts = [0; 18];
        (0..180_000).for_each(|line| counts[llc.spot(Line(line)).slice as usize] += 1);
        // Five standard deviations of a binomial.
        assert!(counts.iter().all(|&n| 10_000u32.abs_diff(n) < 490), "{counts:?}");
    }

    /// Of all sets of 18 slices how many have 0, 1, 2 and more of `lines`.
    fn sets_by_lines(hash: SliceHash, lines: impl Iterator<Item = u64>) -> [usize; 4] {
        let hash = Hash::of(hash, 18).unwrap();
        let mut sets = vec![0usize; 18 * REORDERED as usize];
        for line in lines {
            let (slice, within) = hash.split(Line(line));
            sets[slice * REORDERED as usize + (within.0 % u64::from(REORDERED)) as usize] += 1;
        }
        std::array::from_fn(|n| sets.iter().filter(|&&has| if n == 3 { has > 2 } else { has == n }).count())
    }

    #[test]
    fn the_even_hash_leaves_no_gap_and_places_what_lies_farther_apart_by_chance() {
        let all = 18 * u64::from(REORDERED);
        // From the beginning of a row on: each set has one line of each so many.
        assert_eq!(sets_by_lines(SliceHash::Even, 5 * all..6 * all), [0, all as usize, 0, 0]);
        // Frames of 1500 B in mbufs that follow each other, 24 of each 37 lines, over three times as many lines as sets: a
        // set has each of its three with that chance.
        let mbufs = |hash| sets_by_lines(hash, (0..3 * all).filter(|line| line % 37 < 24));
        let taken: f64 = 24.0 / 37.0;
        for (n, ways) in [(0, 1.0), (1, 3.0), (2, 3.0), (3, 1.0)] {
            let expected = ways * taken.powi(n) * (1.0 - taken).powi(3 - n) * all as f64;
            let came = mbufs(SliceHash::Even)[n as usize] as f64;
            assert!((came / expected - 1.0).abs() < 0.05, "{n} of 3: {came} sets of {expected}");
        }
        // Without an order of their own the three lie beside each other: next to no set is left out.
        assert!(mbufs(SliceHash::XorFold)[0] * 4 < mbufs(SliceHash::Even)[0]);
    }

    #[test]
    fn a_busy_slice_holds_up_its_own_requests_only() {
        let mut llc = Llc::new(&spec(2, SliceHash::Modulo), 1, "llc").unwrap();
        let mut at = |line, now| llc.take_in(llc.spot(Line(line)), Requester::Device, Ps(now)).at;
        assert_eq!([at(0, 0), at(2, 0), at(1, 0), at(4, 1000)], [Ps(0), Ps(2000), Ps(0), Ps(4000)]);
        assert_eq!(llc.counters()[0], SliceCounters { requests: 3, waited: Ps(5000) });
    }

    #[test]
    fn the_mean_latency_is_kept_whatever_the_wires() {
        let mut mesh = spec(18, SliceHash::Modulo);
        mesh.interconnect = Some(Interconnect::Mesh { columns: 6, hop: Span::from_ns(0.5), interval: None, device: 5 });
        let mut llc = Llc::new(&mesh, 18, "llc").unwrap();
        let mut total = Ps::ZERO;
        for core in 0..18 {
            for slice in 0..18 {
                let arrival = llc.take_in(llc.spot(Line(slice)), Requester::Core(CoreId(core)), Ps(1 << 40));
                total += arrival.distance * 2 + llc.latency();
            }
        }
        assert!((total.as_ns() / 324.0 - 20.0).abs() < 0.01);
        // Tile 5 is the last of the first row: tile 12, the first of the third, is 5 + 2 hops away.
        assert_eq!(llc.take_in(llc.spot(Line(12)), Requester::Device, Ps(1 << 41)).distance, Ps(3500));
        mesh.interconnect = Some(Interconnect::Ring { hop: Span::from_ns(0.5), interval: None, device: 17 });
        let mut ring = Llc::new(&mesh, 18, "llc").unwrap();
        assert_eq!(ring.take_in(ring.spot(Line(1)), Requester::Device, Ps::ZERO).distance, Ps(1000));
    }

    #[test]
    fn contradictions_are_named() {
        let bad = |change: fn(&mut LlcSpec)| {
            let mut spec = spec(8, SliceHash::Intel);
            change(&mut spec);
            Llc::new(&spec, 4, "machine.llc").unwrap_err().to_string()
        };
        assert!(
            bad(|s| (s.slices, s.size) = (6, Size::from_bytes(6 << 14)))
                .starts_with("machine.llc.slices = 6: allowed is 2, 4 or 8 slices")
        );
        assert!(bad(|s| s.slices = 0).starts_with("machine.llc.slices = 0: allowed is 1 to 64"));
        assert!(bad(|s| s.size = Size::from_bytes(5000)).contains("with 8 slices of 4 ways: allowed is a multiple of slices x ways x 64 B, here 2 KiB (the nearest smaller size is 4 KiB"));
        let ring = |s: &mut LlcSpec| {
            s.interconnect = Some(Interconnect::Ring { hop: Span::from_ns(1.0), interval: None, device: 8 })
        };
        assert!(bad(ring).starts_with("machine.llc.interconnect.device = 8: allowed is 0 to 7"));
        let slow = |s: &mut LlcSpec| {
            s.interconnect = Some(Interconnect::Ring { hop: Span::from_ns(10.0), interval: None, device: 0 })
        };
        assert!(bad(slow).starts_with("machine.llc.latency = 20 ns with 40.0 ns on the wires"));
        let flat = |s: &mut LlcSpec| {
            s.interconnect =
                Some(Interconnect::Mesh { columns: 0, hop: Span::from_ns(1.0), interval: None, device: 0 });
        };
        assert!(bad(flat).starts_with("machine.llc.interconnect.columns = 0"));
    }

    proptest! {
        #[test]
        fn a_line_is_known_again(line in 0u64..1 << 32, slices in 1u32..=64) {
            for hash in [Hash::One, Hash::Modulo(Divisor::new(slices)), Hash::XorFold(Divisor::new(slices)), Hash::Even(Divisor::new(slices)), Hash::Mixed(slices), Hash::Parity(INTEL)] {
                let (slice, within) = hash.split(Line(line));
                prop_assert_eq!(hash.join(slice, within), Line(line));
            }
        }
    }
}
