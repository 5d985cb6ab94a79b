//! The calendar: events in order of time, priority and sequence, and the model that handles them.

use std::hint::select_unpredictable;

use units::Ps;

/// What happens when an event is due.
///
/// `Event` is a closed enum, small and plain: it is moved when it is scheduled and when it is due.
pub trait Model {
    /// What can happen.
    type Event;

    /// `event` happens now, at `engine.now()`. What follows from it is scheduled.
    fn handle(&mut self, event: Self::Event, engine: &mut Engine<Self::Event>);
}

/// The clock, and the events that are to come.
///
/// Events happen in the order of (time, priority, order of scheduling): of two events at the same
/// picosecond the one with the lower priority number happens first, and of two with the same
/// priority the one that was scheduled first. So a run depends on nothing but its input.
///
/// The order is kept among 16-byte keys only; an event stays where it was put until it happens. The
/// keys of up to 48 pending events lie sorted, the next one last, and those of more are a 4-ary heap
/// in the same array (LaMarca and Ladner, "The influence of caches on the performance of heaps", JEA
/// 1996). Into a few keys the new one is sorted without a branch: which of two events comes first
/// is a coin toss that no predictor wins.
///
/// ```
/// use engine::Engine;
/// use units::Ps;
///
/// let mut engine = Engine::new();
/// engine.schedule(Ps(20), 0, 'b');
/// engine.schedule(Ps(20), 0, 'c');
/// engine.schedule(Ps(10), 9, 'a');
/// assert_eq!(engine.peek(), Some(Ps(10)));
/// let order: String = std::iter::from_fn(|| engine.pop()).collect();
/// assert_eq!(order, "abc");
/// assert_eq!(engine.now(), Ps(20));
/// ```
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Engine<E> {
    now: Ps,
    /// Where the least key is; 0, where `NEVER` is, if nothing is to come.
    next: usize,
    /// How many keys there are: 1 more than events.
    used: usize,
    /// `NEVER`, then the keys of what is to come: descending, or a heap whose root is at 1. From
    /// `used` on only the slots count: they are free.
    keys: Vec<EventKey>,
    /// One for each key.
    slots: Vec<Option<E>>,
    heap: bool,
    /// Sequence of the next event, shifted to its place in a key.
    sequence: u64,
    /// How many were scheduled before the sequence last started again.
    scheduled: u64,
    late: u64,
}

/// Time, priority, sequence, slot: 64, 8, 28 and 28 bits. No two are equal.
type EventKey = u128;

const NEVER: EventKey = EventKey::MAX;
const SLOT_BITS: u32 = 28;
const SEQUENCE_ONE: u64 = 1 << SLOT_BITS;
const SEQUENCE_END: u64 = 1 << PRIORITY_SHIFT;
const PRIORITY_SHIFT: u32 = 56;
/// The room to begin with; it doubles.
const ROOM: usize = 16;
/// Up to here a new key is sorted in without a branch.
const FEW: usize = 6;
/// Up to here keys are sorted.
const MOST_SORTED: usize = 48;
/// A heap that has shrunk to this is sorted again. Below `MOST_SORTED`, so that a number of events
/// that wavers around it does not sort each time.
const SORTED_AGAIN: usize = 24;
const ARITY: usize = 4;

#[inline(always)]
fn time_of(key: EventKey) -> u64 {
    (key >> 64) as u64
}

#[inline(always)]
fn slot_of(key: EventKey) -> usize {
    (key as u64 & ((1 << SLOT_BITS) - 1)) as usize
}

/// The lesser and the greater key, without a branch. A selection would do, if the compiler did not
/// make a branch of it inside a loop.
#[inline(always)]
fn in_order(a: EventKey, b: EventKey) -> (EventKey, EventKey) {
    let swap = (a ^ b) & EventKey::from(b < a).wrapping_neg();
    (a ^ swap, b ^ swap)
}

impl<E> Engine<E> {
    /// At time zero, with nothing to come.
    pub fn new() -> Engine<E> {
        let mut engine = Engine {
            now: Ps::ZERO,
            next: 0,
            used: 1,
            keys: vec![NEVER],
            slots: vec![None],
            heap: false,
            sequence: 0,
            scheduled: 0,
            late: 0,
        };
        engine.grow(ROOM);
        engine
    }

    /// The present.
    #[inline]
    pub fn now(&self) -> Ps {
        self.now
    }

    /// `event` will happen at `at`; at the same time, lower `priority` numbers come first.
    ///
    /// An event cannot happen in the past: with debug assertions that panics, without them the event
    /// happens now and is counted by [`late`](Engine::late). At most 2^28 - 1 events can be to come; more
    /// than that panics, as an allocation that fails does.
    #[inline]
    pub fn schedule(&mut self, at: Ps, priority: u8, event: E) {
        debug_assert!(at >= self.now, "an event at {at} is scheduled at {}, which is later", self.now);
        let time = if at >= self.now { at.0 } else { self.clamp_late() };
        let used = self.used;
        if used >= self.keys.len() || self.sequence == SEQUENCE_END {
            self.make_room();
        }
        let slot = slot_of(self.keys[used]);
        let rank = u64::from(priority) << PRIORITY_SHIFT | self.sequence | slot as u64;
        let key = EventKey::from(time) << 64 | EventKey::from(rank);
        self.sequence += SEQUENCE_ONE;
        self.slots[slot] = Some(event);
        self.used = used + 1;
        if used <= FEW {
            let mut least = key;
            for sorted in &mut self.keys[1..used] {
                (least, *sorted) = in_order(least, *sorted);
            }
            self.keys[used] = least;
            self.next = used;
        } else if self.heap || used > MOST_SORTED {
            self.insert_heap(key);
        } else {
            self.insert_sorted(key);
        }
    }

    /// `event` will happen in `delay`, at [`Ps::MAX`] if that is beyond the end of time.
    #[inline]
    pub fn after(&mut self, delay: Ps, priority: u8, event: E) {
        self.schedule(Ps(self.now.0.saturating_add(delay.0)), priority, event);
    }

    /// The time of the next event.
    #[inline]
    pub fn peek(&self) -> Option<Ps> {
        let key = self.keys[self.next];
        if key == NEVER { None } else { Some(Ps(time_of(key))) }
    }

    /// The next event, at whose time the clock then stands; `None` when nothing is to come.
    #[inline]
    pub fn pop(&mut self) -> Option<E> {
        if self.next == 0 {
            return None;
        }
        let key = self.keys[self.next];
        self.now = Ps(time_of(key));
        if self.heap {
            self.remove_heap();
        } else {
            // The key stays behind the others and tells that its slot is free.
            self.used -= 1;
            self.next -= 1;
        }
        self.slots[slot_of(key)].take()
    }

    /// How many events are to come.
    #[inline]
    pub fn len(&self) -> usize {
        self.used - 1
    }

    /// Whether nothing is to come.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 1
    }

    /// Forgets what is to come. The clock stays.
    pub fn clear(&mut self) {
        self.slots.fill_with(|| None);
        self.used = 1;
        self.next = 0;
        self.heap = false;
    }

    /// How many events have been scheduled so far.
    #[inline]
    pub fn scheduled(&self) -> u64 {
        self.scheduled + (self.sequence >> SLOT_BITS)
    }

    /// How many events were scheduled for the past and happened late: 0 in a correct model.
    #[inline]
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Lets `model` handle every event up to and including `until`, and sets the clock to `until`.
    ///
    /// With [`Ps::MAX`] the clock stays at the last event.
    pub fn run<M: Model<Event = E>>(&mut self, model: &mut M, until: Ps) {
        while self.peek().is_some_and(|next| next <= until)
            && let Some(event) = self.pop()
        {
            model.handle(event, self);
        }
        if until != Ps::MAX {
            self.now = self.now.max(until);
        }
    }

    /// Lets `model` handle events as long as there are any and `go_on` holds before each of them.
    pub fn run_while<M: Model<Event = E>>(&mut self, model: &mut M, mut go_on: impl FnMut(&M) -> bool) {
        while go_on(model) {
            match self.pop() {
                Some(event) => model.handle(event, self),
                None => return,
            }
        }
    }

    #[cold]
    fn clamp_late(&mut self) -> u64 {
        self.late += 1;
        self.now.0
    }

    #[inline(never)]
    fn insert_sorted(&mut self, key: EventKey) {
        let mut at = self.used - 1;
        // `NEVER` at 0 ends the search.
        while at > 0 && self.keys[at - 1] < key {
            self.keys[at] = self.keys[at - 1];
            at -= 1;
        }
        self.keys[at] = key;
        self.next = self.used - 1;
    }

    #[inline(never)]
    fn insert_heap(&mut self, key: EventKey) {
        if !self.heap {
            self.heap = true;
            self.next = 1;
            // Ascending keys are a heap.
            self.keys[1..self.used - 1].reverse();
        }
        let heap = &mut self.keys[1..self.used];
        let mut at = heap.len() - 1;
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if heap[parent] < key {
                break;
            }
            heap[at] = heap[parent];
            at = parent;
        }
        heap[at] = key;
    }

    #[inline(never)]
    fn remove_heap(&mut self) {
        let heap = &mut self.keys[1..self.used];
        let last = heap.len() - 1;
        // The least key goes behind the others, where it tells that its slot is free.
        let (least, key) = (heap[0], heap[last]);
        heap[last] = least;
        let heap = &mut heap[..last];
        // The hole goes all the way down, then the key goes up: it was a leaf, so it is late.
        let mut at = 0;
        loop {
            let first = at * ARITY + 1;
            let least = match heap.get(first..first + ARITY) {
                Some(&[a, b, c, d]) => {
                    let (ab, i) = select_unpredictable(a < b, (a, 0), (b, 1));
                    let (cd, j) = select_unpredictable(c < d, (c, 2), (d, 3));
                    first + select_unpredictable(ab < cd, i, j)
                }
                _ if first < heap.len() => (first..heap.len()).min_by_key(|&i| heap[i]).unwrap_or(first),
                _ => break,
            };
            heap[at] = heap[least];
            at = least;
        }
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if heap[parent] < key {
                break;
            }
            heap[at] = heap[parent];
            at = parent;
        }
        heap[at] = key;
        self.used -= 1;
        if self.used <= SORTED_AGAIN {
            self.keys[1..self.used].sort_unstable_by(|a, b| b.cmp(a));
            self.heap = false;
            self.next = self.used - 1;
        }
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        if self.used == self.keys.len() {
            self.grow(self.keys.len());
        }
        if self.sequence == SEQUENCE_END {
            self.renumber();
        }
    }

    fn grow(&mut self, more: usize) {
        let slots = self.slots.len();
        assert!(slots + more <= 1 << SLOT_BITS, "more than 2^{SLOT_BITS} events are to come");
        self.slots.resize_with(slots + more, || None);
        self.keys.extend((slots..slots + more).map(|slot| slot as EventKey));
    }

    /// The sequence starts again: what is to come gets the first numbers, in its order.
    fn renumber(&mut self) {
        let keys = &mut self.keys[1..self.used];
        keys.sort_unstable();
        let sequence_mask = EventKey::from(SEQUENCE_END - SEQUENCE_ONE);
        self.scheduled += self.sequence >> SLOT_BITS;
        self.sequence = 0;
        for key in keys.iter_mut() {
            *key = *key & !sequence_mask | EventKey::from(self.sequence);
            self.sequence += SEQUENCE_ONE;
        }
        self.scheduled -= keys.len() as u64;
        // Ascending, the keys are a heap.
        if !self.heap {
            keys.reverse();
        }
    }
}

impl<E> Default for Engine<E> {
    fn default() -> Engine<E> {
        Engine::new()
    }
}

impl<E: Clone> Clone for Engine<E> {
    fn clone(&self) -> Engine<E> {
        Engine { keys: self.keys.clone(), slots: self.slots.clone(), ..*self }
    }

    /// Keeps the memory of `self`: splitting copies a state into the same place again and again.
    fn clone_from(&mut self, source: &Engine<E>) {
        self.keys.clone_from(&source.keys);
        self.slots.clone_from(&source.slots);
        let (keys, slots) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.slots));
        *self = Engine { keys, slots, ..*source };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The order of events as it is defined, and nothing else.
    #[derive(Default)]
    struct Naive {
        now: u64,
        scheduled: u64,
        pending: BTreeMap<(u64, u8, u64), u64>,
    }

    impl Naive {
        fn schedule(&mut self, at: u64, priority: u8) {
            self.pending.insert((at, priority, self.scheduled), self.scheduled);
            self.scheduled += 1;
        }
        fn pop(&mut self) -> Option<u64> {
            let ((at, ..), event) = self.pending.pop_first()?;
            self.now = at;
            Some(event)
        }
        fn peek(&self) -> Option<Ps> {
            self.pending.keys().next().map(|&(at, ..)| Ps(at))
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Schedule { delay: u64, priority: u8 },
        Pop(usize),
        Copy,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            // Few distinct delays and priorities, so that there are ties of every kind.
            30 => (0u64..8, 0u8..3).prop_map(|(delay, priority)| Step::Schedule { delay, priority }),
            15 => (0u64..1_000_000, any::<u8>()).prop_map(|(delay, priority)| Step::Schedule { delay, priority }),
            1 => (any::<u64>(), any::<u8>()).prop_map(|(delay, priority)| Step::Schedule { delay, priority }),
            20 => (1usize..3).prop_map(Step::Pop),
            1 => (10usize..100).prop_map(Step::Pop),
            1 => Just(Step::Copy),
        ]
    }

    fn agree(engine: &mut Engine<u64>, naive: &mut Naive, pops: usize) -> Result<(), TestCaseError> {
        for _ in 0..pops {
            prop_assert_eq!(engine.pop(), naive.pop());
            prop_assert_eq!(engine.now(), Ps(naive.now));
            prop_assert_eq!(engine.peek(), naive.peek());
            prop_assert_eq!(engine.len(), naive.pending.len());
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn engine_matches_naive(steps in prop::collection::vec(step(), 0..600)) {
            let (mut engine, mut naive) = (Engine::new(), Naive::default());
            let mut spare = Engine::new();
            for step in steps {
                match step {
                    Step::Schedule { delay, priority } => {
                        engine.after(Ps(delay), priority, naive.scheduled);
                        naive.schedule(naive.now.saturating_add(delay), priority);
                    }
                    Step::Pop(n) => agree(&mut engine, &mut naive, n)?,
                    Step::Copy => {
                        spare.clone_from(&engine);
                        std::mem::swap(&mut spare, &mut engine);
                    }
                }
                prop_assert_eq!(engine.peek(), naive.peek());
            }
            let left = naive.pending.len() + 1;
            agree(&mut engine, &mut naive, left)?;
        }

        #[test]
        fn a_cleared_engine_forgets_events_but_not_the_time(before in 0usize..100, popped in 0usize..50) {
            let mut engine = Engine::new();
            (0..before as u64).for_each(|i| engine.schedule(Ps(i * 7 % 31), 0, i));
            for _ in 0..popped {
                engine.pop();
            }
            let now = engine.now();
            engine.clear();
            prop_assert_eq!((engine.pop(), engine.peek(), engine.len(), engine.now()), (None, None, 0, now));
            engine.after(Ps(1), 0, 5);
            prop_assert_eq!((engine.pop(), engine.now()), (Some(5), now + Ps(1)));
        }
    }

    #[test]
    fn order_survives_the_end_of_the_sequence() {
        for pending in [0, 1, 5, 30, 200] {
            for before_end in [0, 1, 2, 50] {
                let (mut engine, mut naive) = (Engine::new(), Naive::default());
                engine.sequence = SEQUENCE_END - before_end * SEQUENCE_ONE;
                for i in 0..pending + 100 {
                    engine.after(Ps(i % 7), (i % 3) as u8, naive.scheduled);
                    naive.schedule(naive.now + i % 7, (i % 3) as u8);
                    if i >= pending {
                        agree(&mut engine, &mut naive, 1).unwrap();
                    }
                }
                agree(&mut engine, &mut naive, pending as usize + 1).unwrap();
                assert!(engine.sequence < SEQUENCE_END / 2);
                assert_eq!(engine.scheduled(), (1 << SLOT_BITS) - before_end + pending + 100);
            }
        }
    }

    /// A ball that bounces every 3 ps, at most `left` times.
    struct Ball {
        left: u32,
        bounced: Vec<Ps>,
    }

    impl Model for Ball {
        type Event = ();
        fn handle(&mut self, (): (), engine: &mut Engine<()>) {
            self.bounced.push(engine.now());
            if self.left > 0 {
                self.left -= 1;
                engine.after(Ps(3), 0, ());
            }
        }
    }

    #[test]
    fn run_includes_its_end_and_leaves_the_clock_there() {
        let (mut engine, mut ball) = (Engine::new(), Ball { left: 100, bounced: Vec::new() });
        engine.schedule(Ps(3), 0, ());
        engine.run(&mut ball, Ps(8));
        assert_eq!((ball.bounced.len(), engine.now()), (2, Ps(8)));
        engine.run(&mut ball, Ps(9));
        assert_eq!((ball.bounced.len(), engine.now()), (3, Ps(9)));
        engine.run_while(&mut ball, |ball| ball.bounced.len() < 5);
        assert_eq!((ball.bounced.len(), engine.now()), (5, Ps(15)));
        engine.run(&mut ball, Ps::MAX);
        assert_eq!((ball.bounced.len(), engine.now(), engine.len()), (101, Ps(303), 0));
    }

    #[test]
    #[cfg(not(debug_assertions))]
    fn an_event_in_the_past_happens_now_and_is_counted() {
        let mut engine = Engine::new();
        engine.schedule(Ps(5), 0, 'a');
        engine.pop();
        engine.schedule(Ps(4), 0, 'b');
        assert_eq!((engine.pop(), engine.now(), engine.late()), (Some('b'), Ps(5), 1));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "which is later")]
    fn an_event_in_the_past_is_a_programming_error() {
        let mut engine = Engine::new();
        engine.schedule(Ps(5), 0, 'a');
        engine.pop();
        engine.schedule(Ps(4), 0, 'b');
    }
}
