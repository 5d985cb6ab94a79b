//! The protocol of tasks and commits under every interleaving of small cases, by loom.
//!
//! The ring is the one that runs ([`TaskRing`]), over loom's atomics. Packets are loom cells: an access by two threads that nothing
//! orders fails the test.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use router::layout::Task;
use router::protocol::{TaskRing, Word};

pub struct Modelled(AtomicU64);

impl Word for Modelled {
    fn new(value: u64) -> Modelled {
        Modelled(AtomicU64::new(value))
    }
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }
    fn add(&self, order: Ordering) -> u64 {
        self.0.fetch_add(1, order)
    }
    fn clear(&self, seen: u64) -> Result<(), u64> {
        self.0.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
    }
    fn pause(_: u32) {
        thread::yield_now();
    }
}

struct Shared {
    ring: TaskRing<Modelled>,
    packets: Vec<UnsafeCell<u64>>,
}

// SAFETY: what the protocol is there for, and loom watches.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

pub fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(body);
}

fn shared(entries: u64, base: u64) -> Arc<Shared> {
    let packets = (0..entries).map(|_| UnsafeCell::new(0)).collect();
    Arc::new(Shared { ring: TaskRing::new(entries, base), packets })
}

fn work(shared: &Shared, commit: fn(&TaskRing<Modelled>, u64)) {
    let ticket = shared.ring.draw();
    if let Some(task) = shared.ring.wait(ticket) {
        shared.packets[task.first as usize].with_mut(|packet| {
            // SAFETY: the worker's while it has the task.
            unsafe { *packet += 100 }
        });
        commit(&shared.ring, ticket);
    }
}

fn put(shared: &Shared, place: usize, value: u64) {
    // SAFETY: the host's until it is posted.
    shared.packets[place].with_mut(|packet| unsafe { *packet = value });
}

fn got(shared: &Shared, place: usize) -> u64 {
    // SAFETY: the host's once it is committed.
    shared.packets[place].with(|packet| unsafe { *packet })
}

/// Two workers finish in any order: the head passes both, whoever of them moves it, and each packet was worked on once.
#[test]
fn no_task_is_left_uncommitted_when_two_finish_at_once() {
    check(3, || {
        let shared = shared(2, 0);
        for place in 0..2 {
            put(&shared, place, place as u64 + 1);
            shared.ring.post(place as u64, Task { first: place as u64, count: 1 });
        }
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || work(&shared, TaskRing::commit))
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(shared.ring.head(), 2, "a done task was left uncommitted");
        assert_eq!((got(&shared, 0), got(&shared, 1)), (101, 102));
    });
}

/// The host sees commits while workers finish: whatever lies before the head is the host's.
#[test]
fn what_the_head_has_passed_is_the_hosts() {
    check(2, || {
        let shared = shared(2, 0);
        for place in 0..2 {
            put(&shared, place, 1);
            shared.ring.post(place as u64, Task { first: place as u64, count: 1 });
        }
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || work(&shared, TaskRing::commit))
            })
            .collect();
        for place in 0..shared.ring.head() {
            assert_eq!(got(&shared, place as usize), 101);
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

/// An entry is used again as soon as its task is committed, on the next generation; and across the wrap of generations.
#[test]
fn an_entry_is_used_again_by_the_next_generation() {
    for base in [0, 65_534] {
        check(2, move || {
            let shared = shared(1, base);
            let worker = {
                let shared = shared.clone();
                thread::spawn(move || {
                    work(&shared, TaskRing::commit);
                    work(&shared, TaskRing::commit);
                })
            };
            for number in base..base + 2 {
                put(&shared, 0, number);
                shared.ring.post(number, Task { first: 0, count: 1 });
                while shared.ring.head() <= number {
                    thread::yield_now();
                }
                assert_eq!(got(&shared, 0), number + 100);
            }
            worker.join().unwrap();
        });
    }
}

/// Tasks that are committed as they finish: each once, and the packet is the host's.
#[test]
fn what_is_finished_is_seen_once_each() {
    check(2, || {
        let shared = shared(2, 0);
        for place in 0..2 {
            put(&shared, place, 1);
            shared.ring.post(place as u64, Task { first: place as u64, count: 1 });
        }
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || work(&shared, TaskRing::finish))
            })
            .collect();
        if let Some(ticket) = shared.ring.finished(0) {
            assert_eq!(got(&shared, ticket as usize), 101);
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        let mut seen = [shared.ring.finished(0), shared.ring.finished(1)];
        seen.sort();
        assert_eq!(seen, [Some(0), Some(1)]);
    });
}

/// A worker that waits when the router stops leaves, and one that has a task does it first.
#[test]
fn stop_lets_posted_tasks_be_done_and_waiting_workers_leave() {
    check(2, || {
        let shared = shared(2, 0);
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || {
                work(&shared, TaskRing::commit);
                work(&shared, TaskRing::commit);
            })
        };
        put(&shared, 0, 1);
        shared.ring.post(0, Task { first: 0, count: 1 });
        shared.ring.stop(1);
        worker.join().unwrap();
        assert_eq!((shared.ring.head(), got(&shared, 0)), (1, 101));
    });
}

/// A lock that is let go of whoever has come meanwhile, and one that tells nothing of who came: loom finds the run in which the
/// last of two tasks is never committed. What is checked here is that the model can see that at all.
#[test]
fn with_a_careless_lock_the_model_finds_a_task_that_nobody_commits() {
    struct Careless<const FORGETS: bool>(Modelled);
    impl<const FORGETS: bool> Word for Careless<FORGETS> {
        fn new(value: u64) -> Careless<FORGETS> {
            Careless(Modelled::new(value))
        }
        fn load(&self, order: Ordering) -> u64 {
            self.0.load(if FORGETS { order } else { Ordering::Relaxed })
        }
        fn store(&self, value: u64, order: Ordering) {
            self.0.store(value, if FORGETS { order } else { Ordering::Relaxed });
        }
        fn add(&self, order: Ordering) -> u64 {
            self.0.add(if FORGETS { order } else { Ordering::Relaxed })
        }
        fn clear(&self, seen: u64) -> Result<(), u64> {
            if FORGETS {
                self.0.store(0, Ordering::Release);
                return Ok(());
            }
            self.0.0.compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Relaxed).map(|_| ())
        }
        fn pause(tries: u32) {
            Modelled::pause(tries);
        }
    }
    fn lost<W: Word + 'static>() -> bool {
        let found = std::panic::catch_unwind(|| {
            check(3, || {
                let ring = Arc::new(TaskRing::<W>::new(2, 0));
                let workers: Vec<_> = (0..2)
                    .map(|ticket| {
                        let ring = ring.clone();
                        thread::spawn(move || ring.commit(ticket))
                    })
                    .collect();
                workers.into_iter().for_each(|worker| worker.join().unwrap());
                assert_eq!(ring.head(), 2);
            });
        });
        found.is_err()
    }
    assert!(lost::<Careless<true>>(), "the model misses a lost commit");
    assert!(lost::<Careless<false>>(), "the model misses a commit that nothing orders");
    assert!(!lost::<Modelled>(), "the lock itself loses a commit");
}
