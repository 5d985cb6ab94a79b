//! Small caches in order of recency: what is in them, and what leaves.

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
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Ordered(Vec<u32>),
    Linked(Linked),
}

/// Nobody's line.
const NONE: u32 = u32::MAX >> 1;
const LINE: u32 = u32::MAX >> 1;
const REUSED: u32 = 1 << 31;

/// A line that left, and whether it had been used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
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
            Kind::Ordered(vec![NONE; sets * ways])
        } else {
            Kind::Linked(Linked::new(ways, universe))
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
            Kind::Ordered(tags) => {
                let set = set_of(tags, self.sets, self.ways, index);
                let Some(at) = find(set, line) else { return false };
                set.copy_within(..at, 1);
                set[0] = line | REUSED;
                true
            }
            Kind::Linked(list) => list.touch(line),
        }
    }

    /// Takes `line` out; whether it was there.
    #[inline]
    pub fn take(&mut self, index: u32, line: u32) -> bool {
        match &mut self.kind {
            Kind::Ordered(tags) => {
                let set = set_of(tags, self.sets, self.ways, index);
                let Some(at) = find(set, line) else { return false };
                set.copy_within(at + 1.., at);
                if let Some(last) = set.last_mut() {
                    *last = NONE;
                }
                true
            }
            Kind::Linked(list) => list.take(line),
        }
    }

    /// Puts `line` in as the last used, marked as `reused` or not, and gives what left for it; nothing leaves where it was
    /// there already. Without room, `line` itself leaves.
    #[inline]
    pub fn insert(&mut self, index: u32, line: u32, reused: bool) -> Option<Left> {
        let mark = u32::from(reused) << 31;
        match &mut self.kind {
            Kind::Ordered(tags) => {
                let set = set_of(tags, self.sets, self.ways, index);
                let Some(last) = set.len().checked_sub(1) else { return Some(Left { line, reused }) };
                let (at, leaves) = match find(set, line) {
                    Some(at) => (at, NONE),
                    None => (last, set[last]),
                };
                set.copy_within(..at, 1);
                set[0] = line | mark;
                (leaves & LINE != NONE).then_some(Left { line: leaves & LINE, reused: leaves & REUSED != 0 })
            }
            Kind::Linked(list) => list.insert(line, mark),
        }
    }
}

#[inline(always)]
fn set_of(tags: &mut [u32], sets: Divisor, ways: usize, index: u32) -> &mut [u32] {
    let start = if sets.divisor() == 1 { 0 } else { sets.remainder(index) as usize * ways };
    &mut tags[start..start + ways]
}

#[inline(always)]
fn find(set: &[u32], line: u32) -> Option<usize> {
    if let Ok(sixteen) = <&[u32; 16]>::try_from(set) {
        // Without a branch a way; the highest match is the only one.
        let mut found = 0u32;
        for (at, tag) in sixteen.iter().enumerate() {
            found |= u32::from(tag & LINE == line) << at;
        }
        return (found != 0).then_some(found.trailing_zeros() as usize);
    }
    set.iter().position(|tag| tag & LINE == line)
}

/// One large set: a circular list in order of recency, and where each line is in it.
#[derive(Clone, Debug)]
struct Linked {
    /// By line: its slot plus 1, 0 where it is not there.
    slot: Vec<u32>,
    /// By slot: line with its mark, newer and older neighbour. Slot 0 is the ring's end and holds no line.
    entries: Vec<Entry>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    line: u32,
    newer: u32,
    older: u32,
}

impl Linked {
    fn new(ways: usize, universe: usize) -> Linked {
        let end = Entry { line: NONE, newer: 0, older: 0 };
        Linked { slot: vec![0; universe], entries: vec![end; ways + 1], free: (1..=ways as u32).rev().collect() }
    }

    fn unlink(&mut self, at: u32) {
        let Entry { newer, older, .. } = self.entries[at as usize];
        self.entries[newer as usize].older = older;
        self.entries[older as usize].newer = newer;
    }

    fn place_first(&mut self, at: u32, line: u32) {
        let first = self.entries[0].older;
        self.entries[at as usize] = Entry { line, newer: 0, older: first };
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

    fn insert(&mut self, line: u32, mark: u32) -> Option<Left> {
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
                (at, Some(Left { line: old & LINE, reused: old & REUSED != 0 }))
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
        fn insert(&mut self, index: u32, line: u32, reused: bool) -> Option<Left> {
            let ways = self.ways;
            if ways == 0 {
                return Some(Left { line, reused });
            }
            self.take(index, line);
            let set = self.set(index);
            set.insert(0, (line, reused));
            (set.len() > ways).then(|| set.pop()).flatten().map(|(line, reused)| Left { line, reused })
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
                    _ => prop_assert_eq!(fast.insert(line, line, what == 2), naive.insert(line, line, what == 2)),
                }
            }
        }
    }
}
