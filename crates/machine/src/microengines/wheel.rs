use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Ticks that a turn of the wheel spans: its ends fit into a first-level cache, and its words of 64 ticks into a word
/// of bits.
const SPAN: u64 = 1 << 12;
const MASK: u64 = SPAN - 1;
const WORDS: usize = (SPAN / 64) as usize;
const NONE: u16 = u16::MAX;
/// Entities at most, a power of two: the threads of [`super::MicroenginesSpec`], a memory and the slots of a transmit
/// FIFO are fewer. The last place stands for nobody.
const ENTITIES: usize = 512;

/// A calendar for a few entities of which each has at most one event ahead. Events of one tick happen in
/// the order in which they were scheduled.
///
/// A timing wheel (Varghese and Lauck, SOSP 1987, scheme 4): a bucket a tick, found by a bitmap. Events
/// beyond a turn wait in a heap and enter the wheel when their turn comes. Where the next event lies is as good as
/// random, so what is done for it has no branches that depend on it.
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    now: u64,
    /// By tick, the first and the last entity.
    ends: Box<[[u16; 2]; SPAN as usize]>,
    next: Box<[u16; ENTITIES]>,
    /// A bit a tick that has an event, and a bit a word of these that has one.
    words: [u64; WORDS],
    summary: u64,
    far: BinaryHeap<Reverse<(u64, u64, u16)>>,
    /// The tick of the first event in `far`.
    far_at: u64,
    sequence: u64,
}

impl Wheel {
    /// A wheel for entities numbered below `entities`, which are less than 512.
    pub(super) fn new(entities: usize) -> Wheel {
        debug_assert!(entities < ENTITIES);
        Wheel {
            now: 0,
            ends: Box::new([[NONE; 2]; SPAN as usize]),
            next: Box::new([NONE; ENTITIES]),
            words: [0; WORDS],
            summary: 0,
            far: BinaryHeap::new(),
            far_at: u64::MAX,
            sequence: 0,
        }
    }

    /// The time of the event that was taken last.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Schedules an entity, which has no event ahead, at `at`; the past counts as now.
    #[inline]
    pub(super) fn schedule(&mut self, at: u64, entity: u16) {
        let at = at.max(self.now);
        if at - self.now >= SPAN {
            self.far.push(Reverse((at, self.sequence, entity)));
            self.far_at = self.far_at.min(at);
            self.sequence += 1;
            return;
        }
        let bucket = (at & MASK) as usize;
        let [head, tail] = &mut self.ends[bucket];
        let empty = *head == NONE;
        let before = if empty { NONE } else { *tail };
        *head = if empty { entity } else { *head };
        *tail = entity;
        self.next[usize::from(before) % ENTITIES] = entity;
        self.next[usize::from(entity) % ENTITIES] = NONE;
        self.words[bucket / 64] |= 1 << (bucket % 64);
        self.summary |= 1 << (bucket / 64);
    }

    /// The next entity whose event is due; time goes on to it.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u16> {
        let at = self.first();
        // What is far happens before anything on the wheel that is later; within a tick it was scheduled first.
        if self.far_at <= at {
            return self.pop_far();
        }
        self.now = at;
        let bucket = (at & MASK) as usize;
        let entity = self.ends[bucket][0];
        let next = self.next[usize::from(entity) % ENTITIES];
        self.ends[bucket][0] = next;
        let word = &mut self.words[bucket / 64];
        *word &= !(u64::from(next == NONE) << (bucket % 64));
        self.summary &= !(u64::from(*word == 0) << (bucket / 64));
        Some(entity)
    }

    #[cold]
    fn pop_far(&mut self) -> Option<u16> {
        let Reverse((at, _, entity)) = self.far.pop()?;
        self.far_at = self.far.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
        self.now = at;
        Some(entity)
    }

    /// The tick of the first event on the wheel; without one, the end of time.
    #[inline]
    fn first(&self) -> u64 {
        if self.summary == 0 {
            return u64::MAX;
        }
        let start = (self.now & MASK) as usize;
        let word = start / 64;
        let ahead = u64::MAX << (start % 64);
        let here = self.words[word] & ahead != 0;
        // The words after this one, round to the part of this one that lies before now.
        let after = (word + 1) % WORDS;
        let following = (after + self.summary.rotate_right(after as u32).trailing_zeros() as usize) % WORDS;
        let found = if here { word } else { following };
        let bits = self.words[found] & if here { ahead } else { u64::MAX };
        let bucket = (found * 64) as u64 + u64::from(bits.trailing_zeros());
        self.now + (bucket.wrapping_sub(self.now) & MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn wheel_matches_naive(delays in prop::collection::vec(prop_oneof![0u64..50, 0u64..40_000], 1..300)) {
            const FEW: usize = 7;
            let mut wheel = Wheel::new(FEW);
            let mut naive: Vec<(u64, u64, u16)> = Vec::new();
            let mut delays = delays.into_iter();
            let mut sequence = 0;
            for entity in 0..FEW as u16 {
                let Some(delay) = delays.next() else { break };
                wheel.schedule(delay, entity);
                naive.push((delay, sequence, entity));
                sequence += 1;
            }
            while !naive.is_empty() {
                naive.sort_unstable();
                let (at, _, entity) = naive.remove(0);
                prop_assert_eq!(wheel.pop(), Some(entity));
                prop_assert_eq!(wheel.now(), at);
                if let Some(delay) = delays.next() {
                    wheel.schedule(at + delay, entity);
                    naive.push((at + delay, sequence, entity));
                    sequence += 1;
                }
            }
            prop_assert_eq!(wheel.pop(), None);
        }
    }
}
