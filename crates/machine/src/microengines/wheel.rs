//! A calendar for a few entities of which each has one event ahead.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Ticks that a turn of the wheel spans: its ends fit into a first-level cache, and its words of 64 ticks into a word
/// of bits.
const SPAN: u64 = 1 << 12;
const MASK: u64 = SPAN - 1;
const WORDS: usize = (SPAN / 64) as usize;
const NONE: u16 = u16::MAX;
/// Entities at most, a power of two: the threads of [`super::MicroenginesSpec`] and the slots of a transmit FIFO are
/// fewer. The last place stands for nobody.
pub(super) const ENTITIES: usize = 512;

/// A calendar for a few entities of which each has at most one event ahead, and for one more that stands apart because
/// a third of all events are its own. Events of one tick happen in the order in which they were scheduled.
///
/// A timing wheel (Varghese and Lauck, SOSP 1987, scheme 4): a bucket a tick, found by a bitmap. Events beyond a turn
/// wait in a heap. Where the next event lies is as good as random, so what is done for it has no branches that depend
/// on it; and the event after the one that is taken is found at once, so that the host knows it while it works on the
/// first.
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    now: u64,
    /// The first event but for the one apart: its tick, or the end of time, and whose it is.
    head_at: u64,
    head: u16,
    /// The event apart: its tick, or the end of time, and its place in the order of scheduling.
    apart_at: u64,
    apart_order: u64,
    /// By tick, the first and the last entity.
    ends: Box<[[u16; 2]; SPAN as usize]>,
    next: Box<[u16; ENTITIES]>,
    /// By entity, the place of its event in the order of scheduling.
    order: Box<[u64; ENTITIES]>,
    /// A bit a tick that has an event, and a bit a word of these that has one. The word of this tick has no event of
    /// the next turn.
    words: [u64; WORDS],
    summary: u64,
    far: BinaryHeap<Reverse<(u64, u64, u16)>>,
    /// The tick of the first event in `far`.
    far_at: u64,
    scheduled: u64,
}

impl Wheel {
    /// A wheel for entities numbered below `entities`, which are less than 512.
    pub(super) fn new(entities: usize) -> Wheel {
        debug_assert!(entities < ENTITIES);
        Wheel {
            now: 0,
            head_at: u64::MAX,
            head: NONE,
            apart_at: u64::MAX,
            apart_order: u64::MAX,
            ends: Box::new([[NONE; 2]; SPAN as usize]),
            next: Box::new([NONE; ENTITIES]),
            order: Box::new([0; ENTITIES]),
            words: [0; WORDS],
            summary: 0,
            far: BinaryHeap::new(),
            far_at: u64::MAX,
            scheduled: 0,
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
        let order = self.scheduled;
        self.scheduled += 1;
        self.order[usize::from(entity) % ENTITIES] = order;
        if at < self.head_at {
            (self.head_at, self.head) = (at, entity);
        }
        if at - (self.now & !63) >= SPAN {
            self.far.push(Reverse((at, order, entity)));
            self.far_at = self.far_at.min(at);
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

    /// The next entity whose event is due; time goes on to it. The event apart is not looked at.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u16> {
        // What is far was scheduled before anything on the wheel of the same tick.
        if self.far_at <= self.head_at {
            return self.pop_far();
        }
        let (at, entity) = (self.head_at, self.head);
        self.now = at;
        let bucket = (at & MASK) as usize;
        let next = self.next[usize::from(entity) % ENTITIES];
        self.ends[bucket][0] = next;
        // The first bit of its word.
        let word = &mut self.words[bucket / 64];
        *word &= *word - u64::from(next == NONE);
        self.summary &= !(u64::from(*word == 0) << (bucket / 64));
        self.find_head();
        Some(entity)
    }

    #[cold]
    fn pop_far(&mut self) -> Option<u16> {
        let Reverse((at, _, entity)) = self.far.pop()?;
        self.far_at = self.far.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
        self.now = at;
        self.find_head();
        Some(entity)
    }

    /// Finds the first event again, when the one that was has been taken.
    #[inline]
    fn find_head(&mut self) {
        if self.summary == 0 {
            return self.find_far_head();
        }
        let word = (self.now & MASK) as usize / 64;
        let ahead = self.summary.rotate_right(word as u32).trailing_zeros() as usize;
        let found = (word + ahead) % WORDS;
        let bit = self.words[found].trailing_zeros() as usize;
        let at = (self.now & !63) + (ahead * 64 + bit) as u64;
        if self.far_at <= at {
            return self.find_far_head();
        }
        (self.head_at, self.head) = (at, self.ends[(found * 64 + bit) % SPAN as usize][0]);
    }

    #[cold]
    fn find_far_head(&mut self) {
        (self.head_at, self.head) = self.far.peek().map_or((u64::MAX, NONE), |Reverse((at, _, head))| (*at, *head));
    }

    /// Schedules the event apart, which is not ahead, at `at`; the past counts as now.
    #[inline]
    pub(super) fn schedule_apart(&mut self, at: u64) {
        (self.apart_at, self.apart_order) = (at.max(self.now), self.scheduled);
        self.scheduled += 1;
    }

    /// Whether the event apart is the next of all.
    #[inline]
    pub(super) fn apart_is_next(&self) -> bool {
        self.apart_at < self.head_at
            || self.apart_at == self.head_at && self.apart_order < self.order[usize::from(self.head) % ENTITIES]
    }

    /// Takes the event apart, which is the next; time goes on to it.
    #[inline]
    pub(super) fn take_apart(&mut self) {
        self.now = self.apart_at;
        (self.apart_at, self.apart_order) = (u64::MAX, u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn wheel_matches_naive(delays in prop::collection::vec(prop_oneof![0u64..50, 0u64..40_000], 1..300)) {
            // The last of them stands apart.
            const FEW: u16 = 7;
            let mut wheel = Wheel::new(usize::from(FEW));
            let schedule = |wheel: &mut Wheel, at, entity| {
                if entity == FEW { wheel.schedule_apart(at) } else { wheel.schedule(at, entity) }
            };
            let mut naive: Vec<(u64, u64, u16)> = Vec::new();
            let mut delays = delays.into_iter();
            let mut sequence = 0;
            for entity in 0..=FEW {
                let Some(delay) = delays.next() else { break };
                schedule(&mut wheel, delay, entity);
                naive.push((delay, sequence, entity));
                sequence += 1;
            }
            while !naive.is_empty() {
                naive.sort_unstable();
                let (at, _, entity) = naive.remove(0);
                prop_assert_eq!(wheel.apart_is_next(), entity == FEW);
                if entity == FEW {
                    wheel.take_apart();
                } else {
                    prop_assert_eq!(wheel.pop(), Some(entity));
                }
                prop_assert_eq!(wheel.now(), at);
                if let Some(delay) = delays.next() {
                    schedule(&mut wheel, at + delay, entity);
                    naive.push((at + delay, sequence, entity));
                    sequence += 1;
                }
            }
            prop_assert!(!wheel.apart_is_next());
            prop_assert_eq!(wheel.pop(), None);
        }
    }
}
