use units::{Cbm, Line};

use crate::divisor::Divisor;

/// The tag array of a set-associative cache: which lines are there, which were used last, which
/// are dirty. It knows no time.
///
/// Ways are physical, so a way mask limits which of them a fill may take; hits are anywhere.
/// Line numbers must fit 32 bits (256 GiB of simulated memory), which the layout of a machine
/// guarantees.
#[derive(Clone, Debug)]
pub struct TagArray {
    count: Divisor,
    ways: u32,
    sets: Sets,
}

/// All that is known of a set lies together: on one line of the host's cache for 8 ways, on two
/// for up to 24.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Set<const N: usize> {
    /// Line numbers, [`EMPTY`] where there is none.
    tags: [u32; N],
    /// LRU ranks: 0 is the most recent, empty ways have the greatest. Ranks of the real ways are a
    /// permutation; behind them lies each index itself.
    ranks: [u8; N],
    /// A bit a way.
    dirty: u32,
    /// A bit a way: no other private cache has the line.
    exclusive: u32,
}

/// Ways rounded up to what is compared at once.
#[derive(Clone, Debug)]
enum Sets {
    Upto8(Vec<Set<8>>),
    Upto16(Vec<Set<16>>),
    Upto24(Vec<Set<24>>),
    Upto32(Vec<Set<32>>),
}

macro_rules! with_sets {
    ($sets:expr, $name:ident => $body:expr) => {
        match $sets {
            Sets::Upto8($name) => $body,
            Sets::Upto16($name) => $body,
            Sets::Upto24($name) => $body,
            Sets::Upto32($name) => $body,
        }
    };
}

const EMPTY: u32 = u32::MAX;

/// Where a line lies in a [`TagArray`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    set: u32,
    way: u32,
}

/// A line that had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Which.
    pub line: Line,
    /// Whether memory does not have its latest data.
    pub dirty: bool,
}

/// A mask allows no way of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoWay;

impl<const N: usize> Set<N> {
    fn empty() -> Set<N> {
        Set { tags: [EMPTY; N], ranks: std::array::from_fn(|i| i as u8), dirty: 0, exclusive: 0 }
    }

    #[inline(always)]
    fn find(&self, line: u32) -> Option<u32> {
        let found = equal_tags(&self.tags, line);
        (found != 0).then(|| found.trailing_zeros())
    }

    #[inline(always)]
    fn touch(&mut self, way: u32) {
        let old = self.ranks[way as usize];
        if old != 0 {
            for rank in &mut self.ranks {
                *rank += u8::from(*rank < old);
            }
            self.ranks[way as usize] = 0;
        }
    }

    #[inline(always)]
    fn fill(&mut self, line: u32, ways: u32, mask: u32, dirty: bool, exclusive: bool) -> Result<Option<Victim>, NoWay> {
        // Empty ways are the oldest, so the oldest way is the one to take in any case.
        let way = if mask == Cbm::low(ways).0 {
            Some(equal_ranks(&self.ranks, (ways - 1) as u8).trailing_zeros())
        } else {
            self.oldest(mask)
        };
        let way = way.ok_or(NoWay)?;
        let bit = 1u32 << way;
        let old = std::mem::replace(&mut self.tags[way as usize], line);
        let victim = (old != EMPTY).then(|| Victim { line: Line(u64::from(old)), dirty: self.dirty & bit != 0 });
        set_bit(&mut self.dirty, way, dirty);
        set_bit(&mut self.exclusive, way, exclusive);
        self.touch(way);
        Ok(victim)
    }

    /// The way of the greatest rank among `allowed`.
    #[inline(always)]
    fn oldest(&self, allowed: u32) -> Option<u32> {
        let (mut best, mut way) = (0, None);
        let mut left = allowed;
        while left != 0 {
            let at = left.trailing_zeros();
            left &= left - 1;
            let rank = self.ranks[at as usize];
            if way.is_none() || rank > best {
                (best, way) = (rank, Some(at));
            }
        }
        way
    }

    #[inline(always)]
    fn remove(&mut self, line: u32, ways: u32) -> Option<bool> {
        let way = self.find(line)?;
        self.tags[way as usize] = EMPTY;
        let old = self.ranks[way as usize];
        // The ranks from `old` to the last way's close up.
        let above = ways as u8 - 1 - old;
        for rank in &mut self.ranks {
            *rank -= u8::from(rank.wrapping_sub(old + 1) < above);
        }
        self.ranks[way as usize] = ways as u8 - 1;
        Some(self.dirty >> way & 1 == 1)
    }
}

impl TagArray {
    /// An empty array of `sets` sets (at most 2^32) of `ways` ways (1 to 32).
    pub fn new(sets: u64, ways: u32) -> TagArray {
        let n = sets as usize;
        TagArray {
            count: Divisor::new(sets as u32),
            ways,
            sets: match ways {
                1..=8 => Sets::Upto8(vec![Set::empty(); n]),
                9..=16 => Sets::Upto16(vec![Set::empty(); n]),
                17..=24 => Sets::Upto24(vec![Set::empty(); n]),
                _ => Sets::Upto32(vec![Set::empty(); n]),
            },
        }
    }

    /// How many ways a set has.
    pub fn ways(&self) -> u32 {
        self.ways
    }

    /// How many sets there are.
    pub fn sets(&self) -> u64 {
        u64::from(self.count.divisor())
    }

    #[inline(always)]
    fn set_of(&self, line: Line) -> usize {
        self.count.remainder(line.0 as u32) as usize
    }

    /// Where `line` is, without counting as a use.
    #[inline]
    pub fn find(&self, line: Line) -> Option<Slot> {
        let set = self.set_of(line);
        let way = with_sets!(&self.sets, sets => sets[set].find(line.0 as u32))?;
        Some(Slot { set: set as u32, way })
    }

    /// Finds `line` and, if it is there, makes it the most recently used of its set.
    #[inline]
    pub fn use_line(&mut self, line: Line) -> Option<Slot> {
        let set = self.set_of(line);
        let way = with_sets!(&mut self.sets, sets => {
            let set = &mut sets[set];
            let way = set.find(line.0 as u32)?;
            set.touch(way);
            way
        });
        Some(Slot { set: set as u32, way })
    }

    /// As [`TagArray::use_line`], and marks the line dirty; says whether it is there.
    #[inline]
    pub fn write_line(&mut self, line: Line) -> bool {
        let set = self.set_of(line);
        with_sets!(&mut self.sets, sets => {
            let set = &mut sets[set];
            let Some(way) = set.find(line.0 as u32) else { return false };
            set.touch(way);
            set.dirty |= 1 << way;
            true
        })
    }

    /// Puts `line`, which must not be there, into an empty way that `mask` allows or into the least
    /// recently used one of those, whose line is returned.
    ///
    /// # Errors
    /// [`NoWay`], and nothing has happened.
    #[inline]
    pub fn fill(&mut self, line: Line, mask: Cbm, dirty: bool, exclusive: bool) -> Result<Option<Victim>, NoWay> {
        let set = self.set_of(line);
        let allowed = mask.0 & Cbm::low(self.ways).0;
        with_sets!(&mut self.sets, sets => sets[set].fill(line.0 as u32, self.ways, allowed, dirty, exclusive))
    }

    /// Takes `line` out; says whether it was dirty, [`None`] if it was not there.
    #[inline]
    pub fn remove(&mut self, line: Line) -> Option<bool> {
        let set = self.set_of(line);
        with_sets!(&mut self.sets, sets => sets[set].remove(line.0 as u32, self.ways))
    }

    /// Whether the line at `slot` is dirty.
    #[inline]
    pub fn is_dirty(&self, slot: Slot) -> bool {
        with_sets!(&self.sets, sets => sets[slot.set as usize].dirty) >> slot.way & 1 == 1
    }

    /// Marks the line at `slot` dirty or clean.
    #[inline]
    pub fn set_dirty(&mut self, slot: Slot, dirty: bool) {
        with_sets!(&mut self.sets, sets => set_bit(&mut sets[slot.set as usize].dirty, slot.way, dirty));
    }

    /// Whether the line at `slot` is known to be in no other private cache.
    #[inline]
    pub fn is_exclusive(&self, slot: Slot) -> bool {
        with_sets!(&self.sets, sets => sets[slot.set as usize].exclusive) >> slot.way & 1 == 1
    }

    /// Marks `line`, if it is there, as in no other private cache, or not; says where it is.
    #[inline]
    pub fn set_exclusive(&mut self, line: Line, exclusive: bool) -> Option<Slot> {
        let set = self.set_of(line);
        let way = with_sets!(&mut self.sets, sets => {
            let set = &mut sets[set];
            let way = set.find(line.0 as u32)?;
            set_bit(&mut set.exclusive, way, exclusive);
            way
        });
        Some(Slot { set: set as u32, way })
    }

    /// The way that `slot` names.
    pub fn way(slot: Slot) -> u32 {
        slot.way
    }

    /// Lines present, over all sets.
    pub fn occupancy(&self) -> u64 {
        let present = |tags: &[u32]| tags.iter().filter(|&&t| t != EMPTY).count() as u64;
        with_sets!(&self.sets, sets => sets.iter().map(|s| present(&s.tags)).sum())
    }

    /// Asks the host to bring the set of `line` into its own cache.
    #[inline]
    pub fn prefetch_set(&self, line: Line) {
        let set = self.set_of(line);
        with_sets!(&self.sets, sets => prefetch(&sets[set]));
    }
}

#[inline(always)]
fn set_bit(word: &mut u32, bit: u32, to: bool) {
    *word = *word & !(1 << bit) | u32::from(to) << bit;
}

/// Asks the host to bring all lines of `value`.
#[inline(always)]
fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..size_of::<T>()).step_by(64) {
        // SAFETY: prefetching has no effect on memory, and the address is within `value`.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast::<i8>().add(at));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// A bit for each of `tags` that is `wanted`. The length is a multiple of 8, at most 32.
#[inline(always)]
pub(crate) fn equal_tags(tags: &[u32], wanted: u32) -> u32 {
    let mut found = 0u32;
    for (group, chunk) in tags.as_chunks::<8>().0.iter().enumerate() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE2 is part of x86-64, and a chunk has 8 elements of 4 bytes.
        let bits = unsafe {
            use std::arch::x86_64::*;
            let wanted = _mm_set1_epi32(wanted as i32);
            let low = _mm_cmpeq_epi32(_mm_loadu_si128(chunk.as_ptr().cast()), wanted);
            let high = _mm_cmpeq_epi32(_mm_loadu_si128(chunk.as_ptr().add(4).cast()), wanted);
            _mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128())) as u32
        };
        #[cfg(not(target_arch = "x86_64"))]
        let bits = chunk.iter().enumerate().fold(0, |bits, (i, &tag)| bits | u32::from(tag == wanted) << i);
        found |= bits << (group * 8);
    }
    found
}

/// A bit for each of `ranks` that is `wanted`. The length is a multiple of 8, at most 32.
#[inline(always)]
fn equal_ranks<const N: usize>(ranks: &[u8; N], wanted: u8) -> u32 {
    let mut found = 0u32;
    for (group, chunk) in ranks.as_chunks::<8>().0.iter().enumerate() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE2 is part of x86-64, and a chunk has 8 elements of 1 byte.
        let bits = unsafe {
            use std::arch::x86_64::*;
            let equal = _mm_cmpeq_epi8(_mm_loadl_epi64(chunk.as_ptr().cast()), _mm_set1_epi8(wanted as i8));
            _mm_movemask_epi8(equal) as u32 & 0xff
        };
        #[cfg(not(target_arch = "x86_64"))]
        let bits = chunk.iter().enumerate().fold(0, |bits, (i, &rank)| bits | u32::from(rank == wanted) << i);
        found |= bits << (group * 8);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each set a list of (way, line, dirty), most recent first.
    struct Naive {
        sets: Vec<Vec<(u32, u64, bool)>>,
        ways: u32,
    }

    impl Naive {
        fn access(&mut self, line: u64, write: bool, mask: Cbm) -> (bool, Option<Victim>) {
            let n = self.sets.len() as u64;
            let ways = self.ways;
            let set = &mut self.sets[(line % n) as usize];
            if let Some(at) = set.iter().position(|e| e.1 == line) {
                let mut entry = set.remove(at);
                entry.2 |= write;
                set.insert(0, entry);
                return (true, None);
            }
            let allowed: Vec<u32> = (0..ways).filter(|&w| mask.allows(w)).collect();
            if allowed.is_empty() {
                return (false, None);
            }
            let full = allowed.iter().all(|w| set.iter().any(|e| e.0 == *w));
            let (way, victim) = if full {
                let at = set.iter().rposition(|e| allowed.contains(&e.0)).unwrap();
                let old = set.remove(at);
                (old.0, Some(Victim { line: Line(old.1), dirty: old.2 }))
            } else {
                (u32::MAX, None)
            };
            set.insert(0, (way, line, write));
            (false, victim)
        }
    }

    proptest! {
        #[test]
        fn lru_with_way_masks_matches_naive(
            ways in 1u32..=20,
            sets in 1u64..=6,
            ops in prop::collection::vec((0u64..200, any::<bool>(), any::<u32>()), 1..600),
            masked in any::<bool>(),
        ) {
            let mut array = TagArray::new(sets, ways);
            let mut naive = Naive { sets: vec![Vec::new(); sets as usize], ways };
            for (line, write, mask) in ops {
                // Now and then a line is taken out instead.
                if mask % 7 == 0 {
                    let set = &mut naive.sets[(line % sets) as usize];
                    let was = set.iter().position(|e| e.1 == line).map(|at| set.remove(at).2);
                    prop_assert_eq!(array.remove(Line(line)), was);
                    continue;
                }
                let mask = if masked { Cbm(mask) } else { Cbm::low(ways) };
                let (hit, victim) = match array.use_line(Line(line)) {
                    Some(slot) => {
                        let dirty = array.is_dirty(slot) | write;
                        array.set_dirty(slot, dirty);
                        (true, None)
                    }
                    None => {
                        (false, array.fill(Line(line), mask, write, false).unwrap_or(None))
                    }
                };
                // The twin does not say which empty way is taken: take the array's word for it.
                let mut expected = naive.access(line, write, mask);
                let set = &mut naive.sets[(line % sets) as usize];
                if let (Some(entry), Some(slot)) = (set.iter_mut().find(|e| e.0 == u32::MAX), array.find(Line(line))) {
                    prop_assert!(mask.allows(TagArray::way(slot)));
                    entry.0 = TagArray::way(slot);
                }
                if hit { expected.1 = None; }
                prop_assert_eq!((hit, victim), expected);
            }
        }
    }

    #[test]
    fn a_mask_limits_fills_but_hits_are_anywhere() {
        let mut array = TagArray::new(1, 4);
        assert_eq!(array.fill(Line(1), Cbm(0b1000), false, false), Ok(None));
        assert_eq!(array.use_line(Line(1)).map(TagArray::way), Some(3));
        for line in 2..10 {
            array.fill(Line(line), Cbm(0b0011), false, false).unwrap();
        }
        assert!(array.find(Line(1)).is_some());
        assert_eq!(array.occupancy(), 3);
        assert_eq!(array.fill(Line(99), Cbm(0b1_0000), false, false), Err(NoWay));
    }
}
