//! How tasks reach workers and come back: a task FIFO, tickets, and a delay commit queue (DCQ).
//!
//! The same protocol as in `kernels/router.cu`, for workers that share memory with the host: no dispatcher is needed, the FIFO
//! is what workers wait at. It is written over [`Word`], so that a model checker can put its own atomics in place of the
//! system's: `tests/suite/model.rs` runs every interleaving of small cases.
//!
//! A worker draws a ticket, waits until the task of that number is there, does it, and commits it. Entries are never cleared:
//! entry `n` is there when it has the generation of `n`. At most as many tasks as there are entries may be uncommitted.
//!
//! **Commit in order** is a lock that nobody waits for. Whoever finishes marks the task done and counts itself in. Who finds
//! nobody before it moves the head past all that is done, for all who come meanwhile, and counts them out; if others have come
//! since, that fails, and it goes on. Everyone else leaves.
//!
//! **Source**: Zhu, Deng, Chen, DAC 2011, section 3.2.2, figure 2 (the DCQ, there with a lookup table from warp to entry: here
//! the ticket is the entry).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::layout::{Task, generation_of, make_word, unused_word, word_generation, word_task};

/// An atomic word, and what to do while waiting for one.
pub trait Word: Send + Sync {
    /// A word with this value.
    fn new(value: u64) -> Self;
    /// Reads it.
    fn load(&self, order: Ordering) -> u64;
    /// Writes it.
    fn store(&self, value: u64, order: Ordering);
    /// Adds 1 to it, and returns what it was.
    fn add(&self, order: Ordering) -> u64;
    /// Makes it 0 if it is `seen`, or else returns what it is; acquires and releases.
    ///
    /// # Errors
    /// It is something else.
    fn clear(&self, seen: u64) -> Result<(), u64>;
    /// Waits a little, after so many tries.
    fn pause(tries: u32);
}

impl Word for AtomicU64 {
    fn new(value: u64) -> AtomicU64 {
        AtomicU64::new(value)
    }
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }
    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }
    #[inline]
    fn add(&self, order: Ordering) -> u64 {
        self.fetch_add(1, order)
    }
    #[inline]
    fn clear(&self, seen: u64) -> Result<(), u64> {
        self.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
    }
    #[inline]
    fn pause(tries: u32) {
        if tries < 64 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

/// A word on cache lines of its own: two, since adjacent ones are fetched in pairs.
#[repr(align(128))]
struct Apart<W>(W);

/// The rings and counters of one router.
pub struct TaskRing<W> {
    entries: u64,
    tasks: Vec<W>,
    done: Vec<W>,
    /// Tickets in the order in which they were finished.
    finished: Vec<W>,
    ticket: Apart<W>,
    head: Apart<W>,
    lock: Apart<W>,
    count: Apart<W>,
    stop: Apart<W>,
}

impl<W: Word> TaskRing<W> {
    /// Rings of `entries` entries, whose first task has the number `base`.
    pub fn new(entries: u64, base: u64) -> TaskRing<W> {
        let ring = || (0..entries).map(|place| W::new(unused_word(place, base, entries))).collect();
        TaskRing {
            entries,
            tasks: ring(),
            done: ring(),
            finished: ring(),
            ticket: Apart(W::new(base)),
            head: Apart(W::new(base)),
            lock: Apart(W::new(0)),
            count: Apart(W::new(base)),
            stop: Apart(W::new(u64::MAX)),
        }
    }

    fn generation(&self, number: u64) -> u64 {
        generation_of(number, self.entries)
    }

    fn place(&self, number: u64) -> usize {
        (number % self.entries) as usize
    }

    /// Host: task `number` is there. The host sees to it that fewer than `entries` are uncommitted.
    pub fn post(&self, number: u64, task: Task) {
        self.tasks[self.place(number)].store(make_word(self.generation(number), task), Ordering::Release);
    }

    /// Worker: the number of the task that it is to do.
    pub fn draw(&self) -> u64 {
        self.ticket.0.add(Ordering::Relaxed)
    }

    /// Worker: task `ticket`, once it is there; [`None`] if the router stops before.
    pub fn wait(&self, ticket: u64) -> Option<Task> {
        let mut tries = 0;
        loop {
            let word = self.tasks[self.place(ticket)].load(Ordering::Acquire);
            if word_generation(word) == self.generation(ticket) {
                return Some(word_task(word));
            }
            if self.stop.0.load(Ordering::Acquire) <= ticket {
                return None;
            }
            W::pause(tries);
            tries = tries.saturating_add(1);
        }
    }

    /// Worker: task `ticket` is done; it is committed once all before it are.
    pub fn commit(&self, ticket: u64) {
        let nothing = Task { first: 0, count: 0 };
        let word = make_word(self.generation(ticket), nothing);
        self.done[self.place(ticket)].store(word, Ordering::Release);
        if self.lock.0.add(Ordering::Release) != 0 {
            return;
        }
        let mut seen = self.lock.0.load(Ordering::Acquire);
        loop {
            let before = self.head.0.load(Ordering::Relaxed);
            let mut head = before;
            while self.is_done(head) {
                head += 1;
            }
            if head != before {
                self.head.0.store(head, Ordering::Release);
            }
            match self.lock.0.clear(seen) {
                Ok(()) => return,
                Err(others) => seen = others,
            }
        }
    }

    fn is_done(&self, number: u64) -> bool {
        word_generation(self.done[self.place(number)].load(Ordering::Acquire)) == self.generation(number)
    }

    /// Worker: task `ticket` is done, and committed at once.
    pub fn finish(&self, ticket: u64) {
        let place = self.count.0.add(Ordering::Relaxed);
        let word = make_word(self.generation(place), Task { first: ticket, count: 0 });
        self.finished[self.place(place)].store(word, Ordering::Release);
    }

    /// Host: all tasks before this one are committed, in order.
    pub fn head(&self) -> u64 {
        self.head.0.load(Ordering::Acquire)
    }

    /// Host: the ticket that was finished as number `place` of all, if it was: the lower 40 bits of it.
    pub fn finished(&self, place: u64) -> Option<u64> {
        let word = self.finished[self.place(place)].load(Ordering::Acquire);
        (word_generation(word) == self.generation(place)).then(|| word_task(word).first)
    }

    /// Host: no task from `number` on will come.
    pub fn stop(&self, number: u64) {
        self.stop.0.store(number, Ordering::Release);
    }
}

/// The host's book on what is uncommitted, whichever way it is committed.
#[derive(Debug)]
pub struct Ledger {
    entries: u64,
    posted: u64,
    /// All before it are committed.
    oldest: u64,
    /// How many are committed: the place of the next in the order of finishing.
    committed: u64,
    tasks: Vec<(Task, bool)>,
}

impl Ledger {
    /// Of a ring of `entries` entries, whose first task has the number `base`.
    pub fn new(entries: u64, base: u64) -> Ledger {
        let empty = (Task { first: 0, count: 0 }, true);
        Ledger { entries, posted: base, oldest: base, committed: base, tasks: vec![empty; entries as usize] }
    }

    /// The number of the next task, if there is room for it.
    pub fn room(&self) -> Option<u64> {
        (self.free() > 0).then_some(self.posted)
    }

    /// How many tasks there is room for.
    pub fn free(&self) -> u64 {
        self.entries - (self.posted - self.oldest)
    }

    /// Writes down the next task, whose number [`Ledger::room`] gave.
    pub fn post(&mut self, task: Task) {
        let place = (self.posted % self.entries) as usize;
        self.tasks[place] = (task, false);
        self.posted += 1;
    }

    /// Crosses off task `number`; [`None`] if it is not to be committed: it never was posted, or is committed.
    pub fn commit(&mut self, number: u64) -> Option<Task> {
        if number < self.oldest || number >= self.posted {
            return None;
        }
        let (task, committed) = &mut self.tasks[(number % self.entries) as usize];
        if std::mem::replace(committed, true) {
            return None;
        }
        let task = *task;
        self.committed += 1;
        while self.oldest < self.posted && self.tasks[(self.oldest % self.entries) as usize].1 {
            self.oldest += 1;
        }
        Some(task)
    }

    /// The oldest uncommitted task, or the next to be posted.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// The place of the next commit in the order of finishing.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// The next task's number.
    pub fn posted(&self) -> u64 {
        self.posted
    }

    /// Tasks that are posted and not committed.
    pub fn uncommitted(&self) -> u64 {
        self.posted - self.committed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ledger_has_no_room_until_its_oldest_task_is_committed() {
        let mut ledger = Ledger::new(4, 10);
        for first in 0..4 {
            assert!(ledger.room().is_some());
            ledger.post(Task { first, count: 1 });
        }
        assert_eq!(ledger.room(), None);
        assert_eq!(ledger.commit(12).map(|t| t.first), Some(2));
        assert_eq!(ledger.room(), None, "task 10 still needs its entry");
        assert_eq!(ledger.commit(10).map(|t| t.first), Some(0));
        assert_eq!(ledger.room(), Some(14));
        assert_eq!((ledger.commit(10), ledger.commit(12), ledger.commit(14)), (None, None, None));
        assert_eq!((ledger.oldest(), ledger.uncommitted()), (11, 2));
    }

    #[test]
    fn tasks_come_in_order_and_are_committed_in_order() {
        // The last laps before generations wrap, and the first after.
        for base in [0, 3, 65_533 * 2 + 1] {
            let ring = TaskRing::<AtomicU64>::new(2, base);
            for number in base..base + 12 {
                ring.post(number, Task { first: number, count: 1 });
                let ticket = ring.draw();
                assert_eq!((ticket, ring.wait(ticket)), (number, Some(Task { first: number, count: 1 })));
                ring.commit(ticket);
                assert_eq!(ring.head(), number + 1);
                ring.finish(ticket);
                assert_eq!(ring.finished(number), Some(number));
            }
            let ticket = ring.draw();
            ring.stop(base + 12);
            assert_eq!(ring.wait(ticket), None);
        }
    }
}
