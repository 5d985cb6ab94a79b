use units::{Cbm, Line};

/// The tag array of a set-associative cache: which lines are there, which were used last, which
/// are dirty. It knows no time.
///
/// Ways are physical, so a way mask limits which of them a fill may take; hits are anywhere.
/// Line numbers must fit 32 bits (256 GiB of simulated memory), which the layout of a machine
/// guarantees.
#[derive(Clone, Debug)]
pub struct TagArray {
    sets: u64,
    /// `sets - 1` when that is a power of two.
    set_mask: Option<u64>,
    ways: u32,
    /// Ways rounded up, so that a set's tags are compared by whole vectors.
    stride: usize,
    /// `stride` line numbers a set, [`EMPTY`] where there is none.
    tags: Vec<u32>,
    /// `stride` LRU ranks a set: 0 is the most recent. Ranks of the real ways are a permutation.
    ranks: Vec<u8>,
    /// A bit a way.
    dirty: Vec<u32>,
    /// A bit a way: no other private cache has the line.
    exclusive: Vec<u32>,
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

impl TagArray {
    /// An empty array of `sets` sets of `ways` ways (1 to 32).
    pub fn new(sets: u64, ways: u32) -> TagArray {
        let stride = (ways as usize).next_multiple_of(8);
        let n = sets as usize * stride;
        TagArray {
            sets,
            set_mask: sets.is_power_of_two().then(|| sets - 1),
            ways,
            stride,
            tags: vec![EMPTY; n],
            ranks: (0..n).map(|i| (i % stride) as u8).collect(),
            dirty: vec![0; sets as usize],
            exclusive: vec![0; sets as usize],
        }
    }

    /// How many ways a set has.
    pub fn ways(&self) -> u32 {
        self.ways
    }

    /// How many sets there are.
    pub fn sets(&self) -> u64 {
        self.sets
    }

    #[inline]
    fn set_of(&self, line: Line) -> usize {
        match self.set_mask {
            Some(mask) => (line.0 & mask) as usize,
            None => (line.0 % self.sets) as usize,
        }
    }

    /// Where `line` is, without counting as a use.
    #[inline]
    pub fn find(&self, line: Line) -> Option<Slot> {
        let set = self.set_of(line);
        let found = matches(&self.tags[set * self.stride..][..self.stride], line.0 as u32);
        (found != 0).then(|| Slot { set: set as u32, way: found.trailing_zeros() })
    }

    /// Makes the line at `slot` the most recently used of its set.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        let base = slot.set as usize * self.stride;
        let ranks = &mut self.ranks[base..base + self.stride];
        let old = ranks[slot.way as usize];
        if old == 0 {
            return;
        }
        age_below(ranks, old);
        ranks[slot.way as usize] = 0;
    }

    /// Finds `line` and, if it is there, makes it the most recently used.
    #[inline]
    pub fn use_line(&mut self, line: Line) -> Option<Slot> {
        let slot = self.find(line)?;
        self.touch(slot);
        Some(slot)
    }

    /// Puts `line`, which must not be there, into an empty way that `mask` allows or into the least
    /// recently used one of those, whose line is returned.
    ///
    /// A mask that allows no way of this array fills nothing and returns the line itself as a
    /// clean victim, so that no caller can lose a line silently.
    #[inline]
    pub fn fill(&mut self, line: Line, mask: Cbm) -> (Option<Slot>, Option<Victim>) {
        let set = self.set_of(line);
        let base = set * self.stride;
        let allowed = mask.0 & Cbm::low(self.ways).0;
        let empty = matches(&self.tags[base..][..self.stride], EMPTY) & allowed;
        let way = if empty != 0 {
            // The oldest of the empty ways, so that they fill in a fixed order.
            oldest(&self.ranks[base..][..self.stride], empty)
        } else if allowed == Cbm::low(self.ways).0 {
            // Ranks of the ways are 0 to ways - 1: the greatest is known.
            position(&self.ranks[base..][..self.stride], (self.ways - 1) as u8)
        } else {
            oldest(&self.ranks[base..][..self.stride], allowed)
        };
        let Some(way) = way else { return (None, Some(Victim { line, dirty: false })) };
        let old = self.tags[base + way];
        let bit = 1u32 << way;
        let victim = (old != EMPTY).then(|| Victim { line: Line(u64::from(old)), dirty: self.dirty[set] & bit != 0 });
        self.tags[base + way] = line.0 as u32;
        self.dirty[set] &= !bit;
        self.exclusive[set] &= !bit;
        let slot = Slot { set: set as u32, way: way as u32 };
        self.touch(slot);
        (Some(slot), victim)
    }

    /// Takes `line` out; says whether it was dirty, [`None`] if it was not there.
    #[inline]
    pub fn remove(&mut self, line: Line) -> Option<bool> {
        let slot = self.find(line)?;
        let (set, bit) = (slot.set as usize, 1u32 << slot.way);
        self.tags[set * self.stride + slot.way as usize] = EMPTY;
        Some(self.dirty[set] & bit != 0)
    }

    /// Whether the line at `slot` is dirty.
    #[inline]
    pub fn is_dirty(&self, slot: Slot) -> bool {
        self.dirty[slot.set as usize] >> slot.way & 1 == 1
    }

    /// Marks the line at `slot` dirty or clean.
    #[inline]
    pub fn set_dirty(&mut self, slot: Slot, dirty: bool) {
        let word = &mut self.dirty[slot.set as usize];
        *word = *word & !(1 << slot.way) | u32::from(dirty) << slot.way;
    }

    /// Whether the line at `slot` is known to be in no other private cache.
    #[inline]
    pub fn is_exclusive(&self, slot: Slot) -> bool {
        self.exclusive[slot.set as usize] >> slot.way & 1 == 1
    }

    /// Marks the line at `slot` as in no other private cache, or not.
    #[inline]
    pub fn set_exclusive(&mut self, slot: Slot, exclusive: bool) {
        let word = &mut self.exclusive[slot.set as usize];
        *word = *word & !(1 << slot.way) | u32::from(exclusive) << slot.way;
    }

    /// The way that `slot` names.
    pub fn way(slot: Slot) -> u32 {
        slot.way
    }

    /// Lines present, over all sets.
    pub fn occupancy(&self) -> u64 {
        self.tags.iter().filter(|&&t| t != EMPTY).count() as u64
    }

    /// Asks the host to bring the set of `line` into its own cache.
    #[inline]
    pub fn prefetch_set(&self, line: Line) {
        let set = self.set_of(line);
        let base = set * self.stride;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: prefetching has no effect on memory, whatever the address; both are in bounds.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.tags.as_ptr().add(base).cast());
            _mm_prefetch::<_MM_HINT_T0>(self.ranks.as_ptr().add(base).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = base;
    }
}

/// A bit for each of `tags` that is `wanted`. The length is a multiple of 8, at most 32.
#[inline]
fn matches(tags: &[u32], wanted: u32) -> u32 {
    let mut found = 0u32;
    for (group, chunk) in tags.chunks_exact(8).enumerate() {
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

/// Adds one to each rank below `old`.
#[inline]
fn age_below(ranks: &mut [u8], old: u8) {
    for chunk in ranks.chunks_exact_mut(8) {
        // Eight ranks in a word: all are below 128, so the borrow of a byte stays in its top bit.
        let word = u64::from_le_bytes(chunk.first_chunk().copied().unwrap_or_default());
        const ONES: u64 = 0x0101_0101_0101_0101;
        let not_below = (word | ONES << 7) - ONES * u64::from(old);
        let below = !not_below >> 7 & ONES;
        chunk.copy_from_slice(&(word + below).to_le_bytes());
    }
}

/// Where `rank` is, eight at a time.
#[inline]
fn position(ranks: &[u8], rank: u8) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    for (group, chunk) in ranks.chunks_exact(8).enumerate() {
        let differs = u64::from_le_bytes(chunk.first_chunk().copied().unwrap_or_default()) ^ (ONES * u64::from(rank));
        // The lowest zero byte is found exactly by this (Warren, Hacker's Delight, 6-1).
        let zero = differs.wrapping_sub(ONES) & !differs & ONES << 7;
        if zero != 0 {
            return Some(group * 8 + zero.trailing_zeros() as usize / 8);
        }
    }
    None
}

/// The way of the greatest rank among `allowed`.
#[inline]
fn oldest(ranks: &[u8], allowed: u32) -> Option<usize> {
    let (mut best, mut way) = (0, None);
    let mut left = allowed;
    while left != 0 {
        let at = left.trailing_zeros() as usize;
        left &= left - 1;
        let rank = ranks[at];
        if way.is_none() || rank > best {
            (best, way) = (rank, Some(at));
        }
    }
    way
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
                return (false, Some(Victim { line: Line(line), dirty: false }));
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
                let mask = if masked { Cbm(mask) } else { Cbm::low(ways) };
                let (hit, victim) = match array.use_line(Line(line)) {
                    Some(slot) => {
                        let dirty = array.is_dirty(slot) | write;
                        array.set_dirty(slot, dirty);
                        (true, None)
                    }
                    None => {
                        let (slot, victim) = array.fill(Line(line), mask);
                        if let Some(slot) = slot {
                            array.set_dirty(slot, write);
                        }
                        (false, victim)
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
        let (slot, _) = array.fill(Line(1), Cbm(0b1000));
        assert_eq!(slot.map(TagArray::way), Some(3));
        assert_eq!(array.use_line(Line(1)).map(TagArray::way), Some(3));
        for line in 2..10 {
            array.fill(Line(line), Cbm(0b0011));
        }
        assert!(array.find(Line(1)).is_some());
        assert_eq!(array.occupancy(), 3);
    }
}
