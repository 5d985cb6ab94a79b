//! Small caches in order of recency: what is in them, and what leaves.

use crate::cache::{equal_tags, prefetch};
use crate::divisor::Divisor;

/// Sets of lines, each least-recently-used; lines are numbers below 2^31.
///
/// A set of up to [`Recency::ORDERED`] ways is an array, the last used line first: a search that the compiler turns into vector
/// instructions, and a short move. One fully associative set that is larger is a list with an index by line, which must then be
/// below the universe given to [`Recency::new`].
///
/// A bit a line says whether it was used again since it came in.
#[derive(Clone, Debug)]
pub struct Recency {
    ways: usize,
    sets: Divisor,
    kind: RecencyStore,
}

#[derive(Clone, Debug)]
enum RecencyStore {
    Ordered(RecencyTags),
    Linked(Linked),
}

/// Sets one after the other. The first begins on a line of the host's cache, so that one of 16 ways is one such line.
#[derive(Clone, Debug)]
struct RecencyTags {
    cells: Vec<u32>,
    first: usize,
}

impl RecencyTags {
    fn new(tags: usize) -> RecencyTags {
        let cells = vec![NONE; tags + HOST_LINE];
        let first = cells.as_ptr().align_offset(HOST_LINE * size_of::<u32>()).min(HOST_LINE);
        RecencyTags { cells, first }
    }

    #[inline(always)]
    fn set(&mut self, sets: Divisor, ways: usize, index: u32) -> &mut [u32] {
        let start = self.first + if sets.divisor() == 1 { 0 } else { sets.remainder(index) as usize * ways };
        &mut self.cells[start..start + ways]
    }
}

/// Tags of a line of the host's cache.
const HOST_LINE: usize = 16;

/// Nobody's line.
const NONE: u32 = u32::MAX >> 1;
const LINE: u32 = u32::MAX >> 1;
const REUSED: u32 = 1 << 31;

/// A line that left, and whether it had been used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictedLine {
    /// The line.
    pub line: u32,
    /// It was used again after it came in.
    pub reused: bool,
}

impl Recency {
    /// The most ways that are kept as an array.
    pub const ORDERED: usize = 64;

    /// Empty, with room for `lines` in sets of `ways` (one set if `ways` is 0 or more than `lines`). `universe` is one
    /// more than the highest line.
    pub fn new(lines: usize, ways: usize, universe: usize) -> Recency {
        let ways = if ways == 0 { lines } else { ways.min(lines) };
        let sets = lines.checked_div(ways).unwrap_or(1).max(1);
        let kind = if ways <= Recency::ORDERED || sets > 1 {
            RecencyStore::Ordered(RecencyTags::new(sets * ways))
        } else {
            RecencyStore::Linked(Linked::new(ways, universe))
        };
        Recency { ways, sets: Divisor::new(sets as u32), kind }
    }

    /// How many lines it holds at most.
    pub fn capacity(&self) -> usize {
        self.ways * self.sets.divisor() as usize
    }

    /// Whether `line` is there; if so it is the last used now. `index` chooses the set (by remainder).
    #[inline]
    pub fn touch(&mut self, index: u32, line: u32) -> bool {
        match &mut self.kind {
            RecencyStore::Ordered(tags) => {
                let set = tags.set(self.sets, self.ways, index);
                let Some(at) = find(set, line) else { return false };
                raise(set, at, line | REUSED);
                true
            }
            RecencyStore::Linked(list) => list.touch(line),
        }
    }

    /// Asks the host to bring the set that `index` chooses.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        if let RecencyStore::Ordered(tags) = &self.kind
            && self.sets.divisor() > 1
            && let Some(tag) = tags.cells.get(tags.first + self.sets.remainder(index) as usize * self.ways)
        {
            prefetch(tag);
        }
    }

    /// The line that leaves next the set that `index` chooses, if one has to; not known of a list.
    #[inline]
    pub fn oldest(&self, index: u32) -> Option<u32> {
        let RecencyStore::Ordered(tags) = &self.kind else { return None };
        if self.ways == 0 {
            return None;
        }
        let set = if self.sets.divisor() == 1 { 0 } else { self.sets.remainder(index) as usize };
        let tag = tags.cells.get(tags.first + (set + 1) * self.ways - 1)? & LINE;
        (tag != NONE).then_some(tag)
    }

    /// Takes `line` out; whether it was there.
    #[inline]
    pub fn take(&mut self, index: u32, line: u32) -> bool {
        match &mut self.kind {
            RecencyStore::Ordered(tags) => {
                let set = tags.set(self.sets, self.ways, index);
                let Some(at) = find(set, line) else { return false };
                set.copy_within(at + 1.., at);
                if let Some(last) = set.last_mut() {
                    *last = NONE;
                }
                true
            }
            RecencyStore::Linked(list) => list.take(line),
        }
    }

    /// Puts `line` in as the last used, marked as `reused` or not, and gives what left for it; nothing leaves where it was
    /// there already. Without room, `line` itself leaves.
    #[inline]
    pub fn insert(&mut self, index: u32, line: u32, reused: bool) -> Option<EvictedLine> {
        let mark = u32::from(reused) << 31;
        match &mut self.kind {
            RecencyStore::Ordered(tags) => {
                let set = tags.set(self.sets, self.ways, index);
                let Some(last) = set.len().checked_sub(1) else { return Some(EvictedLine { line, reused }) };
                let (at, leaves) = match find(set, line) {
                    Some(at) => (at, NONE),
                    None => (last, set[last]),
                };
                raise(set, at, line | mark);
                (leaves & LINE != NONE).then_some(EvictedLine { line: leaves & LINE, reused: leaves & REUSED != 0 })
            }
            RecencyStore::Linked(list) => list.insert(line, mark),
        }
    }
}

#[inline(always)]
fn find(set: &[u32], line: u32) -> Option<usize> {
    let either = |tags: &[u32]| equal_tags(tags, line) | equal_tags(tags, line | REUSED);
    match set.len() {
        2 => match (set[0] & LINE == line, set[1] & LINE == line) {
            (true, _) => Some(0),
            (_, true) => Some(1),
            _ => None,
        },
        8 | 16 => {
            let found = either(set);
            (found != 0).then_some(found.trailing_zeros() as usize)
        }
        n if n.is_multiple_of(32) => set.chunks_exact(32).enumerate().find_map(|(place, part)| {
            let found = either(part);
            (found != 0).then_some(place * 32 + found.trailing_zeros() as usize)
        }),
        _ => set.iter().position(|tag| tag & LINE == line),
    }
}

/// Puts `tag` first; those before `at` move down by one, and what was there is gone.
#[inline(always)]
fn raise(set: &mut [u32], at: usize, tag: u32) {
    if let Ok(two) = <&mut [u32; 2]>::try_from(&mut *set) {
        raise_in(two, at, tag);
    } else if let Ok(eight) = <&mut [u32; 8]>::try_from(&mut *set) {
        raise_in(eight, at, tag);
    } else if let Ok(sixteen) = <&mut [u32; 16]>::try_from(&mut *set) {
        raise_in(sixteen, at, tag);
    } else {
        set.copy_within(..at, 1);
        set[0] = tag;
    }
}

/// A length that the compiler knows: no call, and no branch on `at`.
#[inline(always)]
fn raise_in<const N: usize>(set: &mut [u32; N], at: usize, tag: u32) {
    let old = *set;
    let mut moved = [tag; N];
    moved[1..].copy_from_slice(&old[..N - 1]);
    for i in 0..N {
        set[i] = if i as u32 <= at as u32 { moved[i] } else { old[i] };
    }
}

/// One large set: a circular list in order of recency, and where each line is in it.
#[derive(Clone, Debug)]
struct Linked {
    /// By line: its slot plus 1, 0 where it is not there.
    slot: Vec<u32>,
    /// By slot: line with its mark, newer and older neighbour. Slot 0 is the ring's end and holds no line.
    entries: Vec<LinkedLine>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct LinkedLine {
    line: u32,
    newer: u32,
    older: u32,
}

impl Linked {
    fn new(ways: usize, universe: usize) -> Linked {
        let end = LinkedLine { line: NONE, newer: 0, older: 0 };
        Linked { slot: vec![0; universe], entries: vec![end; ways + 1], free: (1..=ways as u32).rev().collect() }
    }

    fn unlink(&mut self, at: u32) {
        let LinkedLine { newer, older, .. } = self.entries[at as usize];
        self.entries[newer as usize].older = older;
        self.entries[older as usize].newer = newer;
    }

    fn place_first(&mut self, at: u32, line: u32) {
        let first = self.entries[0].older;
        self.entries[at as usize] = LinkedLine { line, newer: 0, older: first };
        self.entries[first as usize].newer = at;
        self.entries[0].older = at;
    }

    fn touch(&mut self, line: u32) -> bool {
        let at = self.slot[line as usize];
        if at != 0 {
            self.unlink(at);
            self.place_first(at, line | REUSED);
        }
        at != 0
    }

    fn take(&mut self, line: u32) -> bool {
        let at = std::mem::take(&mut self.slot[line as usize]);
        if at != 0 {
            self.unlink(at);
            self.free.push(at);
        }
        at != 0
    }

    fn insert(&mut self, line: u32, mark: u32) -> Option<EvictedLine> {
        let at = self.slot[line as usize];
        if at != 0 {
            self.unlink(at);
            self.place_first(at, line | mark);
            return None;
        }
        let (at, left) = match self.free.pop() {
            Some(at) => (at, None),
            None => {
                let at = self.entries[0].newer;
                let old = self.entries[at as usize].line;
                self.unlink(at);
                self.slot[(old & LINE) as usize] = 0;
                (at, Some(EvictedLine { line: old & LINE, reused: old & REUSED != 0 }))
            }
        };
        self.slot[line as usize] = at;
        self.place_first(at, line | mark);
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A vector a set, the last used first.
    struct Naive {
        ways: usize,
        sets: Vec<Vec<(u32, bool)>>,
    }

    impl Naive {
        fn set(&mut self, index: u32) -> &mut Vec<(u32, bool)> {
            let n = self.sets.len() as u32;
            &mut self.sets[(index % n) as usize]
        }
        fn has(&mut self, line: u32) -> bool {
            self.set(line).iter().any(|(other, _)| *other == line)
        }
        fn touch(&mut self, index: u32, line: u32) -> bool {
            let set = self.set(index);
            let found = set.iter().position(|(other, _)| *other == line);
            if let Some(at) = found {
                set.remove(at);
                set.insert(0, (line, true));
            }
            found.is_some()
        }
        fn take(&mut self, index: u32, line: u32) -> bool {
            let set = self.set(index);
            let n = set.len();
            set.retain(|(other, _)| *other != line);
            set.len() < n
        }
        fn insert(&mut self, index: u32, line: u32, reused: bool) -> Option<EvictedLine> {
            let ways = self.ways;
            if ways == 0 {
                return Some(EvictedLine { line, reused });
            }
            self.take(index, line);
            let set = self.set(index);
            set.insert(0, (line, reused));
            (set.len() > ways).then(|| set.pop()).flatten().map(|(line, reused)| EvictedLine { line, reused })
        }
    }

    proptest! {
        #[test]
        fn recency_matches_naive(
            (ways, sets) in prop_oneof![
                (Just(0usize), Just(1usize)), (1usize..20, Just(1usize)), (65usize..90, Just(1usize)), (1usize..20, 2usize..9),
                (Just(16usize), 1usize..9)
            ],
            steps in prop::collection::vec((0u8..4, 0u32..200), 1..600)
        ) {
            let lines = ways * sets;
            let mut fast = Recency::new(lines, if sets > 1 { ways } else { 0 }, 200);
            prop_assert_eq!(fast.capacity(), lines);
            let mut naive = Naive { ways, sets: vec![Vec::new(); sets] };
            for (what, line) in steps {
                match what {
                    0 => prop_assert_eq!(fast.touch(line, line), naive.touch(line, line)),
                    1 => prop_assert_eq!(fast.take(line, line), naive.take(line, line)),
                    _ => {
                        let oldest = fast.oldest(line).filter(|_| !naive.has(line));
                        let left = fast.insert(line, line, what == 2);
                        prop_assert_eq!(left, naive.insert(line, line, what == 2));
                        if let (Some(oldest), Some(left)) = (oldest, left) {
                            prop_assert_eq!(oldest, left.line);
                        }
                    }
                }
            }
        }
    }
}
