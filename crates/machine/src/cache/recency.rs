//! LRU chains at the speed of the host's vectors: the tags of a set lie in order of recency.
//!
//! So a hit rotates the tags before it, a miss shifts all of them by one and the last one goes, and
//! both are the same few instructions without a branch. Levels take turns over blocks of accesses: what
//! misses, and the dirty lines that go, are the accesses of the next level, which keeps branches that
//! nobody can predict out of the loops and lets each set be asked for some accesses ahead.
//!
//! This is a declared duplicate of [`super::CacheChain`] for the levels it can do, with the same counts.

use super::array::prefetch;
use super::chain::{ChainCounts, LevelCounts, LevelSpec, WriteHitPolicy, WriteMiss};
use super::replacement::Replacement;
use crate::divisor::Divisor;
use crate::memory::Inclusion;

/// Accesses that a level works on before the next level does: their misses stay in the host's L1.
pub(super) const BLOCK: usize = 1024;
/// How many accesses ahead a set is asked for; enough to hide the latency of the host's L2 or LLC.
const AHEAD: usize = 12;
/// In an access, that it writes; in a tag, that the line is dirty.
const DIRTY: u32 = 1 << 31;
const LINE: u32 = DIRTY - 1;
const EMPTY: u32 = u32::MAX;

/// Which vectors are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    /// What the compiler makes of arrays.
    Portable,
    /// SSE2, which every x86-64 has.
    #[cfg(target_arch = "x86_64")]
    Sse2,
    /// AVX2, BMI1.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, VL and DQ, BMI1.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Vectors {
    /// The widest that this host has.
    pub fn detect() -> Vectors {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq");
            if avx2 && avx512 {
                return Vectors::Avx512;
            }
            if avx2 {
                return Vectors::Avx2;
            }
            Vectors::Sse2
        }
        #[cfg(not(target_arch = "x86_64"))]
        Vectors::Portable
    }

    /// All that this host has, the narrowest first.
    pub fn all() -> Vec<Vectors> {
        #[cfg(target_arch = "x86_64")]
        let all = [Vectors::Portable, Vectors::Sse2, Vectors::Avx2, Vectors::Avx512];
        #[cfg(not(target_arch = "x86_64"))]
        let all = [Vectors::Portable];
        let widest = Vectors::detect();
        all.iter().copied().take_while(|&v| v != widest).chain([widest]).collect()
    }
}

/// Whether [`RecencyChain`] does what `levels` say, for a trace that has stores or not.
pub(super) fn can_do(levels: &[LevelSpec], stores: bool) -> bool {
    levels.iter().all(|level| {
        let written = level.write == WriteHitPolicy::Back
            && level.write_miss == WriteMiss::Fetch
            && level.writeback_miss == WriteMiss::Validate
            && level.use_on_store;
        level.slices == 1
            && level.replacement == Replacement::Lru
            && level.inclusion == Inclusion::NonInclusive
            && level.prefetcher.is_none()
            && level.classes.is_empty()
            && (written || !stores)
    })
}

/// A chain of non-inclusive LRU levels, write-back and write-allocate.
pub(super) struct RecencyChain {
    levels: Vec<RecencyLevel>,
    vectors: Vectors,
    /// What goes into a level and what comes out; [`AHEAD`] longer than what is in them.
    accesses: [Vec<u32>; 2],
    memory_reads: u64,
    memory_writes: u64,
}

struct RecencyLevel {
    sets: Divisor,
    ways: u32,
    /// Tags a set: the ways rounded up to 8, 16 or 32. Those behind the ways stay empty.
    lanes: usize,
    tags: Vec<TagLanes>,
    counts: Passed,
}

/// Aligned so that no vector spans two lines of the host's cache.
#[derive(Clone)]
#[repr(align(64))]
struct TagLanes(#[allow(dead_code, reason = "read and written by pointers")] [u32; 16]);

#[derive(Clone, Copy, Default)]
struct Passed {
    accesses: u64,
    hits: u64,
    written: u64,
    written_hits: u64,
    writebacks: u64,
}

impl RecencyChain {
    /// `levels` are those of a chain, and [`can_do`] is true of them. `vectors` are the host's.
    pub(super) fn new(levels: &[LevelSpec], vectors: Vectors) -> RecencyChain {
        let level = |spec: &LevelSpec| {
            let lanes = if spec.ways <= 8 { 8 } else { spec.ways.next_power_of_two() as usize };
            RecencyLevel {
                sets: Divisor::new(spec.sets as u32),
                ways: spec.ways,
                lanes,
                tags: vec![TagLanes([EMPTY; 16]); (spec.sets as usize * lanes).div_ceil(16)],
                counts: Passed::default(),
            }
        };
        // At most a read for each access of the block, and a dirty line for each fill of a level above,
        // arrive at a level; it must have room for two for each of these.
        let most = 2 * BLOCK * (levels.len() + 1) + AHEAD;
        RecencyChain {
            levels: levels.iter().map(level).collect(),
            vectors,
            accesses: [vec![0; most], vec![0; most]],
            memory_reads: 0,
            memory_writes: 0,
        }
    }

    /// Does up to [`BLOCK`] accesses, which `lines` puts into the slice it is given, with [`Access`]
    /// of each, and counts.
    pub(super) fn run<const STORES: bool>(&mut self, put: impl FnOnce(&mut [u32; BLOCK]) -> usize) {
        let [first, second] = &mut self.accesses;
        let (mut from, mut to) = (first, second);
        let Some(block) = from.first_chunk_mut() else { return };
        let mut n = put(block);
        for (at, level) in self.levels.iter_mut().enumerate() {
            n = level.pass::<STORES>(self.vectors, at == 0, &from[..n + AHEAD], to);
            std::mem::swap(&mut from, &mut to);
        }
        let writes = if STORES { from[..n].iter().filter(|&&access| access & DIRTY != 0).count() } else { 0 };
        self.memory_writes += writes as u64;
        self.memory_reads += (n - writes) as u64;
    }

    /// What it has done so far.
    pub(super) fn counts(&self) -> ChainCounts {
        let levels = self.levels.iter().enumerate().map(|(at, level)| {
            let c = level.counts;
            let mut counts = LevelCounts::default();
            counts.loads.hits = c.hits - c.written_hits;
            counts.loads.misses = (c.accesses - c.written) - counts.loads.hits;
            let written = if at == 0 { &mut counts.stores } else { &mut counts.writebacks_in };
            written.hits = c.written_hits;
            written.misses = c.written - c.written_hits;
            // Each miss fills a way, and what is not here any more has gone.
            let here = level.tags.iter().flat_map(|lanes| lanes.0).filter(|&tag| tag != EMPTY).count();
            counts.evictions = c.accesses - c.hits - here as u64;
            counts.writebacks = c.writebacks;
            counts
        });
        ChainCounts {
            levels: levels.collect(),
            memory_reads: self.memory_reads,
            memory_writes: self.memory_writes,
            ..ChainCounts::default()
        }
    }
}

/// An access of [`RecencyChain::run`]. Counts say nothing once a line was not below
/// [`super::MAX_LINES`].
#[inline(always)]
pub(super) fn access(line: u64, store: bool) -> u32 {
    line as u32 & LINE | u32::from(store) << 31
}

impl RecencyLevel {
    /// Does the accesses in `from`, but for the last [`AHEAD`], and puts what the next level has to do
    /// into `to`; how many those are.
    fn pass<const STORES: bool>(&mut self, vectors: Vectors, first: bool, from: &[u32], to: &mut [u32]) -> usize {
        assert!(to.len() >= 2 * (from.len() - AHEAD));
        // SAFETY: the kernels run on what `Vectors::detect` found, with the lanes of the sets.
        unsafe {
            match (vectors, self.lanes) {
                #[cfg(target_arch = "x86_64")]
                (Vectors::Avx512, 8) => x86::avx512::<STORES, 8>(self, first, from, to),
                #[cfg(target_arch = "x86_64")]
                (Vectors::Avx512, 16) => x86::avx512::<STORES, 16>(self, first, from, to),
                #[cfg(target_arch = "x86_64")]
                (Vectors::Avx512, _) => x86::avx512::<STORES, 32>(self, first, from, to),
                #[cfg(target_arch = "x86_64")]
                (Vectors::Avx2, 8) => x86::avx2::<STORES, 8>(self, first, from, to),
                #[cfg(target_arch = "x86_64")]
                (Vectors::Avx2, 16) => x86::avx2::<STORES, 16>(self, first, from, to),
                #[cfg(target_arch = "x86_64")]
                (Vectors::Avx2, _) => x86::avx2::<STORES, 32>(self, first, from, to),
                #[cfg(target_arch = "x86_64")]
                (Vectors::Sse2, 8) => self.pass_with::<x86::Sse2<8>, STORES>(first, from, to),
                #[cfg(target_arch = "x86_64")]
                (Vectors::Sse2, 16) => self.pass_with::<x86::Sse2<16>, STORES>(first, from, to),
                #[cfg(target_arch = "x86_64")]
                (Vectors::Sse2, _) => self.pass_with::<x86::Sse2<32>, STORES>(first, from, to),
                (Vectors::Portable, 8) => self.pass_with::<Portable<8>, STORES>(first, from, to),
                (Vectors::Portable, 16) => self.pass_with::<Portable<16>, STORES>(first, from, to),
                (Vectors::Portable, _) => self.pass_with::<Portable<32>, STORES>(first, from, to),
            }
        }
    }

    /// # Safety
    /// The host has what `K` needs; `K` has the level's lanes; `to` has twice the room of `from`.
    #[inline(always)]
    unsafe fn pass_with<K: RecencyKernel, const STORES: bool>(
        &mut self,
        first: bool,
        from: &[u32],
        to: &mut [u32],
    ) -> usize {
        let sets = self.sets;
        // A mask is quicker than two multiplications.
        if sets.divisor().is_power_of_two() {
            let mask = sets.divisor() - 1;
            // SAFETY: what the caller promises.
            unsafe { self.pass_by::<K, STORES>(move |line| line & mask, first, from, to) }
        } else {
            // SAFETY: what the caller promises.
            unsafe { self.pass_by::<K, STORES>(move |line| sets.remainder(line), first, from, to) }
        }
    }

    /// # Safety
    /// As [`RecencyLevel::pass_with`], and `set_of` gives sets that there are.
    #[inline(always)]
    unsafe fn pass_by<K: RecencyKernel, const STORES: bool>(
        &mut self,
        set_of: impl Fn(u32) -> u32,
        first: bool,
        from: &[u32],
        to: &mut [u32],
    ) -> usize {
        let tags = self.tags.as_mut_ptr().cast::<u32>();
        let n = from.len() - AHEAD;
        let ways = self.ways;
        // Below the first level a write is a whole line, which need not be read.
        let whole = u32::from(!first);
        let mut out = 0;
        // In a block of less than 2^32 accesses: hits, and in the upper half those of writes.
        let mut hits = 0u64;
        for i in 0..n {
            // SAFETY: `from` is `AHEAD` longer than `n`; sets are `K::LANES` tags each; `out` grows
            // by at most two an access, for which `to` has room.
            unsafe {
                let ahead = *from.get_unchecked(i + AHEAD) & LINE;
                for lane in (0..K::LANES).step_by(16) {
                    prefetch(&*tags.add(set_of(ahead) as usize * K::LANES + lane));
                }
                let access = *from.get_unchecked(i);
                let line = access & LINE;
                let set = tags.add(set_of(line) as usize * K::LANES);
                if STORES {
                    let victim = *set.add(ways as usize - 1);
                    let hit = u32::from(K::write(set, access, ways));
                    let written = access >> 31;
                    *to.get_unchecked_mut(out) = line;
                    out += ((hit | written & whole) ^ 1) as usize;
                    // Signed, dirty tags are negative, and the greatest of these is empty.
                    let dirty = u32::from((victim as i32) < EMPTY as i32) & (hit ^ 1);
                    *to.get_unchecked_mut(out) = victim;
                    out += dirty as usize;
                    hits += u64::from(hit) + (u64::from(hit & written) << 32);
                } else {
                    let hit = K::load(set, line, ways);
                    *to.get_unchecked_mut(out) = line;
                    out += usize::from(!hit);
                }
            }
        }
        let mut passed = Passed { accesses: n as u64, ..Passed::default() };
        if STORES {
            passed.written = from[..n].iter().map(|access| u64::from(access >> 31)).sum();
            (passed.hits, passed.written_hits) = (hits & u64::from(u32::MAX), hits >> 32);
            let misses = passed.accesses - passed.hits;
            let reads = if first { misses } else { misses - (passed.written - passed.written_hits) };
            passed.writebacks = out as u64 - reads;
        } else {
            passed.hits = (n - out) as u64;
        }
        self.counts.add(passed);
        out
    }
}

impl Passed {
    fn add(&mut self, other: Passed) {
        self.accesses += other.accesses;
        self.hits += other.hits;
        self.written += other.written;
        self.written_hits += other.written_hits;
        self.writebacks += other.writebacks;
    }
}

/// One access to a set. Both say whether the line was there.
trait RecencyKernel {
    const LANES: usize;

    /// Makes `line` the first of the `ways` tags at `set`, none of which is dirty.
    ///
    /// # Safety
    /// `set` points at [`RecencyKernel::LANES`] tags, aligned to their size up to 64 bytes; `ways` is not 0 and
    /// not more than these; the host has the kernel's vectors.
    unsafe fn load(set: *mut u32, line: u32, ways: u32) -> bool;

    /// Makes the line of `access` the first of the `ways` tags at `set`, dirty if it was or if the
    /// access writes.
    ///
    /// # Safety
    /// As [`RecencyKernel::load`].
    unsafe fn write(set: *mut u32, access: u32, ways: u32) -> bool;
}

/// `SHIFTED[31 - w..]` has all bits set up to the entry `w`, and none behind.
static SHIFTED: [u32; 64] = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 32 {
        table[i] = u32::MAX;
        i += 1;
    }
    table
};

/// `N` tags in an array, of which the compiler makes what it can.
struct Portable<const N: usize>;

impl<const N: usize> Portable<N> {
    /// Shifts the tags up to `way` by one, and puts `tag` before them.
    #[inline(always)]
    fn shift(tags: &mut [u32; N], tag: u32, way: u32) {
        let up_to_way: &[u32; N] = SHIFTED[31 - way as usize..].first_chunk().unwrap_or(&[0; N]);
        let old = *tags;
        for i in 0..N {
            let before = if i == 0 { tag } else { old[i - 1] };
            tags[i] = before & up_to_way[i] | old[i] & !up_to_way[i];
        }
    }
}

impl<const N: usize> RecencyKernel for Portable<N> {
    const LANES: usize = N;

    #[inline(always)]
    unsafe fn load(set: *mut u32, line: u32, ways: u32) -> bool {
        // SAFETY: the caller's promise.
        let tags = unsafe { &mut *set.cast::<[u32; N]>() };
        let found = super::equal_tags(tags, line);
        Self::shift(tags, line, (found | 1 << (ways - 1)).trailing_zeros());
        found != 0
    }

    #[inline(always)]
    unsafe fn write(set: *mut u32, access: u32, ways: u32) -> bool {
        // SAFETY: the caller's promise.
        let tags = unsafe { &mut *set.cast::<[u32; N]>() };
        let found = super::equal_tags(&tags.map(|tag| tag & LINE), access & LINE);
        let way = (found | 1 << (ways - 1)).trailing_zeros();
        let was_dirty = if found != 0 { tags[way as usize] & DIRTY } else { 0 };
        Self::shift(tags, access | was_dirty, way);
        found != 0
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{DIRTY, LINE, RecencyKernel, RecencyLevel, SHIFTED};

    /// # Safety
    /// The host has these features; the level has `N` lanes; see [`RecencyLevel::pass_with`].
    #[target_feature(enable = "avx2,bmi1")]
    pub(super) unsafe fn avx2<const STORES: bool, const N: usize>(
        level: &mut RecencyLevel,
        first: bool,
        from: &[u32],
        to: &mut [u32],
    ) -> usize {
        // SAFETY: what the caller promises.
        unsafe { level.pass_with::<Avx2<N>, STORES>(first, from, to) }
    }

    /// # Safety
    /// The host has these features; the level has `N` lanes; see [`RecencyLevel::pass_with`].
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx2,bmi1")]
    pub(super) unsafe fn avx512<const STORES: bool, const N: usize>(
        level: &mut RecencyLevel,
        first: bool,
        from: &[u32],
        to: &mut [u32],
    ) -> usize {
        // SAFETY: what the caller promises.
        unsafe { level.pass_with::<Avx512<N>, STORES>(first, from, to) }
    }

    /// `N` tags in vectors of 4.
    pub(super) struct Sse2<const N: usize>;

    impl<const N: usize> Sse2<N> {
        /// A bit for each tag whose bits in `kept` are `wanted`.
        ///
        /// # Safety
        /// As [`RecencyKernel::load`].
        #[inline(always)]
        unsafe fn find(set: *const u32, wanted: u32, kept: __m128i) -> u32 {
            // SAFETY: 8 tags at a time are within the set.
            unsafe {
                let wanted = _mm_set1_epi32(wanted as i32);
                let equal = |at: usize| {
                    let pair = [at, at + 4].map(|at| _mm_and_si128(_mm_load_si128(set.add(at).cast()), kept));
                    _mm_packs_epi32(_mm_cmpeq_epi32(pair[0], wanted), _mm_cmpeq_epi32(pair[1], wanted))
                };
                if N == 8 {
                    return _mm_movemask_epi8(_mm_packs_epi16(equal(0), _mm_setzero_si128())) as u32;
                }
                (0..N).step_by(16).fold(0, |found, at| {
                    let bytes = _mm_packs_epi16(equal(at), equal(at + 8));
                    found | (_mm_movemask_epi8(bytes) as u32) << at
                })
            }
        }

        /// # Safety
        /// As [`RecencyKernel::load`]; `way` is below 32.
        #[inline(always)]
        unsafe fn shift(set: *mut u32, tag: u32, way: u32) {
            // SAFETY: 4 tags at a time are within the set, and `N` entries from 31 - way within the table.
            unsafe {
                let table = SHIFTED.as_ptr().add(31 - way as usize);
                let mut carry = _mm_cvtsi32_si128(tag as i32);
                for at in (0..N).step_by(4) {
                    let old = _mm_load_si128(set.add(at).cast());
                    let rotated = _mm_shuffle_epi32::<0b10_01_00_11>(old);
                    let shifted = _mm_castps_si128(_mm_move_ss(_mm_castsi128_ps(rotated), _mm_castsi128_ps(carry)));
                    let up_to_way = _mm_loadu_si128(table.add(at).cast());
                    let new = _mm_or_si128(_mm_and_si128(up_to_way, shifted), _mm_andnot_si128(up_to_way, old));
                    _mm_store_si128(set.add(at).cast(), new);
                    carry = rotated;
                }
            }
        }
    }

    impl<const N: usize> RecencyKernel for Sse2<N> {
        const LANES: usize = N;

        #[inline(always)]
        unsafe fn load(set: *mut u32, line: u32, ways: u32) -> bool {
            // SAFETY: the caller's promise; SSE2 is part of x86-64.
            unsafe {
                let found = Self::find(set, line, _mm_set1_epi32(-1));
                Self::shift(set, line, (found | 1 << (ways - 1)).trailing_zeros());
                found != 0
            }
        }

        #[inline(always)]
        unsafe fn write(set: *mut u32, access: u32, ways: u32) -> bool {
            // SAFETY: the caller's promise; SSE2 is part of x86-64; `way` is one of the set's.
            unsafe {
                let found = Self::find(set, access & LINE, _mm_set1_epi32(LINE as i32));
                let way = (found | 1 << (ways - 1)).trailing_zeros();
                let was_dirty = if found != 0 { *set.add(way as usize) & DIRTY } else { 0 };
                Self::shift(set, access | was_dirty, way);
                found != 0
            }
        }
    }

    /// `N` tags in vectors of 8.
    struct Avx2<const N: usize>;

    impl<const N: usize> Avx2<N> {
        /// # Safety
        /// As [`RecencyKernel::load`]; `way` is below 32.
        #[inline(always)]
        unsafe fn shift(set: *mut u32, tag: u32, way: u32) {
            // SAFETY: 8 tags at a time are within the set, and `N` entries from 31 - way within the table.
            unsafe {
                let table = SHIFTED.as_ptr().add(31 - way as usize);
                let rotation = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
                let mut carry = _mm256_set1_epi32(tag as i32);
                for at in (0..N).step_by(8) {
                    let old = _mm256_load_si256(set.add(at).cast());
                    let rotated = _mm256_permutevar8x32_epi32(old, rotation);
                    let shifted = _mm256_blend_epi32::<1>(rotated, carry);
                    let up_to_way = _mm256_loadu_si256(table.add(at).cast());
                    _mm256_store_si256(set.add(at).cast(), _mm256_blendv_epi8(old, shifted, up_to_way));
                    carry = rotated;
                }
            }
        }
    }

    impl<const N: usize> RecencyKernel for Avx2<N> {
        const LANES: usize = N;

        #[inline(always)]
        unsafe fn load(set: *mut u32, line: u32, ways: u32) -> bool {
            // SAFETY: 8 tags at a time are within the set.
            unsafe {
                let wanted = _mm256_set1_epi32(line as i32);
                let mut found = 0u32;
                for at in (0..N).step_by(8) {
                    let equal = _mm256_cmpeq_epi32(_mm256_load_si256(set.add(at).cast()), wanted);
                    found |= (_mm256_movemask_ps(_mm256_castsi256_ps(equal)) as u32) << at;
                }
                Self::shift(set, line, (found | 1 << (ways - 1)).trailing_zeros());
                found != 0
            }
        }

        #[inline(always)]
        unsafe fn write(set: *mut u32, access: u32, ways: u32) -> bool {
            // SAFETY: 8 tags at a time are within the set.
            unsafe {
                let wanted = _mm256_set1_epi32((access & LINE) as i32);
                let line = _mm256_set1_epi32(LINE as i32);
                let (mut found, mut dirty) = (0u32, 0u32);
                for at in (0..N).step_by(8) {
                    let tags = _mm256_load_si256(set.add(at).cast());
                    let equal = _mm256_cmpeq_epi32(_mm256_and_si256(tags, line), wanted);
                    found |= (_mm256_movemask_ps(_mm256_castsi256_ps(equal)) as u32) << at;
                    dirty |= (_mm256_movemask_ps(_mm256_castsi256_ps(tags)) as u32) << at;
                }
                let was_dirty = u32::from(found & dirty != 0) * DIRTY;
                Self::shift(set, access | was_dirty, (found | 1 << (ways - 1)).trailing_zeros());
                found != 0
            }
        }
    }

    /// `N` tags in vectors of 16, or 8 in one of 8.
    struct Avx512<const N: usize>;

    impl<const N: usize> Avx512<N> {
        /// Shifts the tags whose bits are set in `up_to_way` by one, and puts `tag` before them.
        ///
        /// # Safety
        /// As [`RecencyKernel::load`].
        #[inline(always)]
        unsafe fn shift(set: *mut u32, tag: u32, up_to_way: u32) {
            // SAFETY: 8 or 16 tags at a time are within the set.
            unsafe {
                if N == 8 {
                    let old = _mm256_load_si256(set.cast());
                    let tag = _mm256_set1_epi32(tag as i32);
                    let new = _mm256_mask_alignr_epi32::<7>(old, up_to_way as __mmask8, old, tag);
                    _mm256_store_si256(set.cast(), new);
                    return;
                }
                let mut before = _mm512_set1_epi32(tag as i32);
                for at in (0..N).step_by(16) {
                    let old = _mm512_load_si512(set.add(at).cast());
                    let up_to_way = (up_to_way >> at) as __mmask16;
                    let new = _mm512_mask_alignr_epi32::<15>(old, up_to_way, old, before);
                    _mm512_store_si512(set.add(at).cast(), new);
                    before = old;
                }
            }
        }
    }

    /// The bits up to the lowest one of `found`, all if there is none, within `ways`.
    #[inline(always)]
    fn up_to(found: u32, ways: u32) -> u32 {
        (found ^ found.wrapping_sub(1)) & (u32::MAX >> (32 - ways))
    }

    impl<const N: usize> RecencyKernel for Avx512<N> {
        const LANES: usize = N;

        #[inline(always)]
        unsafe fn load(set: *mut u32, line: u32, ways: u32) -> bool {
            // SAFETY: 8 or 16 tags at a time are within the set.
            unsafe {
                let mut found = 0u32;
                if N == 8 {
                    let wanted = _mm256_set1_epi32(line as i32);
                    found = u32::from(_mm256_cmpeq_epi32_mask(_mm256_load_si256(set.cast()), wanted));
                } else {
                    let wanted = _mm512_set1_epi32(line as i32);
                    for at in (0..N).step_by(16) {
                        let tags = _mm512_load_si512(set.add(at).cast());
                        found |= u32::from(_mm512_cmpeq_epi32_mask(tags, wanted)) << at;
                    }
                }
                Self::shift(set, line, up_to(found, ways));
                found != 0
            }
        }

        #[inline(always)]
        unsafe fn write(set: *mut u32, access: u32, ways: u32) -> bool {
            // SAFETY: 8 or 16 tags at a time are within the set.
            unsafe {
                let (mut found, mut dirty) = (0u32, 0u32);
                if N == 8 {
                    let tags = _mm256_load_si256(set.cast());
                    let other = _mm256_xor_si256(tags, _mm256_set1_epi32(access as i32));
                    found = u32::from(_mm256_testn_epi32_mask(other, _mm256_set1_epi32(LINE as i32)));
                    dirty = u32::from(_mm256_movepi32_mask(tags));
                } else {
                    for at in (0..N).step_by(16) {
                        let tags = _mm512_load_si512(set.add(at).cast());
                        let other = _mm512_xor_si512(tags, _mm512_set1_epi32(access as i32));
                        found |= u32::from(_mm512_testn_epi32_mask(other, _mm512_set1_epi32(LINE as i32))) << at;
                        dirty |= u32::from(_mm512_movepi32_mask(tags)) << at;
                    }
                }
                let was_dirty = u32::from(found & dirty != 0) * DIRTY;
                Self::shift(set, access | was_dirty, up_to(found, ways));
                found != 0
            }
        }
    }
}
