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
/// Up to 32 pending events lie in an unordered array whose least key is known, which costs a few
/// compares without a branch to mispredict; more are a 4-ary heap in the same array (LaMarca and
/// Ladner, "The influence of caches on the performance of heaps", JEA 1996).
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
#[derive(Debug)]
pub struct Engine<E> {
    now: Ps,
    /// The key of `pending[least]`, or `NEVER`.
    next: Key,
    least: usize,
    pending: Vec<Pending<E>>,
    /// Whether `pending` is a 4-ary heap; then `least` is 0.
    heap: bool,
    scheduled: u64,
    late: u64,
}

/// Time, then priority and sequence: 64, 8 and 56 bits.
type Key = u128;

const NEVER: Key = Key::MAX;
const SEQUENCE_BITS: u32 = 56;
/// Up to here the least key is found by looking at all.
const SMALL: usize = 32;
/// A heap that has shrunk to this is an unordered array again. Below `SMALL`, so that a number of
/// events that wavers around it does not make a heap each time.
const SMALL_AGAIN: usize = 16;
const ARITY: usize = 4;

#[derive(Clone, Debug)]
struct Pending<E> {
    time: u64,
    rank: u64,
    event: E,
}

impl<E> Pending<E> {
    #[inline(always)]
    fn key(&self) -> Key {
        Key::from(self.time) << 64 | Key::from(self.rank)
    }
}

impl<E> Engine<E> {
    /// At time zero, with nothing to come.
    pub fn new() -> Engine<E> {
        Engine {
            now: Ps::ZERO,
            next: NEVER,
            least: 0,
            pending: Vec::with_capacity(SMALL),
            heap: false,
            scheduled: 0,
            late: 0,
        }
    }

    /// The present.
    #[inline]
    pub fn now(&self) -> Ps {
        self.now
    }

    /// `event` will happen at `at`; at the same time, lower `priority` numbers come first.
    ///
    /// An event cannot happen in the past: with debug assertions that panics, without them the event
    /// happens now and is counted by [`late`](Engine::late).
    #[inline]
    pub fn schedule(&mut self, at: Ps, priority: u8, event: E) {
        debug_assert!(at >= self.now, "an event at {at} is scheduled at {}, which is later", self.now);
        let time = if at >= self.now { at.0 } else { self.clamp_late() };
        let rank = u64::from(priority) << SEQUENCE_BITS | self.scheduled;
        self.scheduled += 1;
        let pending = Pending { time, rank, event };
        let key = pending.key();
        let at = self.pending.len();
        self.pending.push(pending);
        if at < SMALL && !self.heap {
            let first = key < self.next;
            self.least = if first { at } else { self.least };
            self.next = if first { key } else { self.next };
        } else {
            self.push_heap();
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
        if self.next == NEVER { None } else { Some(Ps((self.next >> 64) as u64)) }
    }

    /// The next event, at whose time the clock then stands; `None` when nothing is to come.
    #[inline]
    pub fn pop(&mut self) -> Option<E> {
        if self.pending.is_empty() {
            return None;
        }
        self.now = Ps((self.next >> 64) as u64);
        let due = self.pending.swap_remove(self.least);
        if self.heap {
            self.after_heap_pop();
        } else {
            self.find_least();
        }
        Some(due.event)
    }

    /// How many events are to come.
    #[inline]
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether nothing is to come.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Forgets what is to come. The clock stays.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.next = NEVER;
        self.least = 0;
        self.heap = false;
    }

    /// How many events have been scheduled so far.
    #[inline]
    pub fn scheduled(&self) -> u64 {
        self.scheduled
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
        while self.next != NEVER && (self.next >> 64) as u64 <= until.0 {
            if let Some(event) = self.pop() {
                model.handle(event, self);
            }
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

    #[inline(always)]
    fn find_least(&mut self) {
        let (mut least, mut next) = (0, NEVER);
        for (i, pending) in self.pending.iter().enumerate() {
            let key = pending.key();
            let less = key < next;
            least = if less { i } else { least };
            next = if less { key } else { next };
        }
        self.least = least;
        self.next = next;
    }

    /// The last entry is new.
    #[inline(never)]
    fn push_heap(&mut self) {
        if self.heap {
            self.sift_up(self.pending.len() - 1);
        } else {
            self.heap = true;
            self.least = 0;
            for i in (0..=(self.pending.len() - 2) / ARITY).rev() {
                self.sift_down(i);
            }
        }
        self.next = self.pending[0].key();
    }

    /// The last entry has taken the place of the first.
    #[inline(never)]
    fn after_heap_pop(&mut self) {
        self.sift_down(0);
        self.next = self.pending[0].key();
        self.heap = self.pending.len() > SMALL_AGAIN;
    }

    fn sift_up(&mut self, mut at: usize) {
        let key = self.pending[at].key();
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.pending[parent].key() < key {
                return;
            }
            self.pending.swap(at, parent);
            at = parent;
        }
    }

    fn sift_down(&mut self, mut at: usize) {
        let key = self.pending[at].key();
        loop {
            let first = at * ARITY + 1;
            let children = self.pending.get(first..(first + ARITY).min(self.pending.len())).unwrap_or(&[]);
            let (mut least, mut next) = (0, key);
            for (i, child) in children.iter().enumerate() {
                let child = child.key();
                let less = child < next;
                least = if less { i + 1 } else { least };
                next = if less { child } else { next };
            }
            if least == 0 {
                return;
            }
            let child = first + least - 1;
            self.pending.swap(at, child);
            at = child;
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
        Engine { pending: self.pending.clone(), ..*self }
    }

    /// Keeps the memory of `self`: splitting copies a state into the same place again and again.
    fn clone_from(&mut self, source: &Engine<E>) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.clone_from(&source.pending);
        *self = Engine { pending, ..*source };
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
