use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Ticks that a turn of the wheel spans: its ends fit into a first-level cache.
const SPAN: u64 = 1 << 12;
const MASK: u64 = SPAN - 1;
const NONE: u16 = u16::MAX;
/// Entities at most, a power of two: the threads of [`super::MicroenginesSpec`], a memory and the slots of a transmit
/// FIFO are fewer.
const ENTITIES: usize = 512;

/// A calendar for a few entities of which each has at most one event ahead. Events of one tick happen in
/// the order in which they were scheduled.
///
/// A timing wheel (Varghese and Lauck, SOSP 1987, scheme 4): a bucket a tick, found by a bitmap. Events
/// beyond a turn wait in a heap and enter the wheel when their turn comes.
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    now: u64,
    /// By tick, the first and the last entity.
    ends: Box<[[u16; 2]; SPAN as usize]>,
    next: Box<[u16; ENTITIES]>,
    words: [u64; (SPAN / 64) as usize],
    summary: [u64; (SPAN / 4096) as usize],
    far: BinaryHeap<Reverse<(u64, u64, u16)>>,
    sequence: u64,
}

impl Wheel {
    /// A wheel for entities numbered below `entities`, which are at most 512.
    pub(super) fn new(entities: usize) -> Wheel {
        debug_assert!(entities <= ENTITIES);
        Wheel {
            now: 0,
            ends: Box::new([[NONE; 2]; SPAN as usize]),
            next: Box::new([NONE; ENTITIES]),
            words: [0; (SPAN / 64) as usize],
            summary: [0; (SPAN / 4096) as usize],
            far: BinaryHeap::new(),
            sequence: 0,
        }
    }

    /// The time of the event that was taken last.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Schedules an entity, which has no event ahead, at `at`; the past counts as now.
    #[inline]
    pub(super) fn schedule(&mut self, at: u64, entity: u16) {
        let at = at.max(self.now);
        if at - self.now >= SPAN {
            self.far.push(Reverse((at, self.sequence, entity)));
            self.sequence += 1;
            return;
        }
        self.enter(at, entity);
    }

    #[inline]
    fn enter(&mut self, at: u64, entity: u16) {
        let bucket = (at & MASK) as usize;
        self.next[usize::from(entity) % ENTITIES] = NONE;
        let [head, tail] = &mut self.ends[bucket];
        if *head == NONE {
            *head = entity;
            self.words[bucket / 64] |= 1 << (bucket % 64);
            self.summary[bucket / 4096] |= 1 << (bucket / 64 % 64);
        } else {
            self.next[usize::from(*tail) % ENTITIES] = entity;
        }
        *tail = entity;
    }

    /// The next entity whose event is due; time goes on to it.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u16> {
        if let Some(&Reverse((at, ..))) = self.far.peek() {
            let near = self.first();
            // What is far enters before anything later than it happens; within a tick it was scheduled first.
            if near.is_none_or(|near| at <= near) {
                let Reverse((at, _, entity)) = self.far.pop()?;
                self.now = at;
                return Some(entity);
            }
        }
        let at = self.first()?;
        self.now = at;
        let bucket = (at & MASK) as usize;
        let entity = self.ends[bucket][0];
        let next = self.next[usize::from(entity) % ENTITIES];
        self.ends[bucket][0] = next;
        if next == NONE {
            self.words[bucket / 64] &= !(1 << (bucket % 64));
            if self.words[bucket / 64] == 0 {
                self.summary[bucket / 4096] &= !(1 << (bucket / 64 % 64));
            }
        }
        Some(entity)
    }

    /// The tick of the first event on the wheel.
    #[inline]
    fn first(&self) -> Option<u64> {
        let start = (self.now & MASK) as usize;
        let within = self.words[start / 64] >> (start % 64);
        if within != 0 {
            return Some(self.now + u64::from(within.trailing_zeros()));
        }
        let words = self.words.len();
        // The words after this one, round to the part of this one that lies before now.
        let word = self.following(start / 64 + 1, words).or_else(|| self.following(0, start / 64 + 1))?;
        let bucket = (word * 64) as u64 + u64::from(self.words[word].trailing_zeros());
        Some(self.now + ((bucket.wrapping_sub(self.now)) & MASK))
    }

    /// The first word with an event from `from` up to below `to`.
    #[inline]
    fn following(&self, from: usize, to: usize) -> Option<usize> {
        let mut at = from;
        while at < to {
            let bits = self.summary[at / 64] >> (at % 64);
            if bits != 0 {
                let word = at + bits.trailing_zeros() as usize;
                return (word < to).then_some(word);
            }
            at = (at / 64 + 1) * 64;
        }
        None
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
