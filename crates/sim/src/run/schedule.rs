//! Independent pieces of work on several threads, with results that do not depend on how many there are.
//!
//! A plan says, from what is known so far, which pieces are wanted, the most urgent first. Idle threads take the
//! first ones that nobody works on. So a plan can ask for pieces of which it does not know yet whether they
//! are needed (both outcomes of a trial of a search): where there are threads to spare they are there when their
//! turn comes, and where they turn out not to be wanted they end early and are dropped. A piece may depend on
//! nothing but its key; then the set of results that a plan ends up using is the same in any order of completion.
//!
//! The caller's thread does none of the work: it tells how far everything is, and hears whether to go on.

#[cfg(not(target_family = "wasm"))]
use std::any::Any;
use std::collections::BTreeMap;
#[cfg(not(target_family = "wasm"))]
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
#[cfg(not(target_family = "wasm"))]
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
#[cfg(not(target_family = "wasm"))]
use std::sync::mpsc::{RecvTimeoutError, channel};
#[cfg(not(target_family = "wasm"))]
use std::thread;
#[cfg(not(target_family = "wasm"))]
use std::time::Duration;

/// Told by a worker what it has done, of how much, and whether that is of its warm-up.
pub type Heard = fn(u64, u64, bool);

/// Between two looks at what the workers have done.
#[cfg(not(target_family = "wasm"))]
const EVERY: Duration = Duration::from_millis(50);

/// How far a piece of work is, and whether it is to end early. Seen by its worker and by the caller.
#[derive(Debug, Default)]
pub struct ProgressWatch {
    done: AtomicU64,
    total: AtomicU64,
    warming: AtomicBool,
    stop: AtomicBool,
    heard: Option<Heard>,
}

impl ProgressWatch {
    fn new(heard: Heard) -> ProgressWatch {
        ProgressWatch { heard: Some(heard), ..ProgressWatch::default() }
    }

    /// The worker has done `done` of `total`; of its warm-up, if `warming`.
    pub fn tell(&self, done: u64, total: u64, warming: bool) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.warming.store(warming, Ordering::Relaxed);
        if let Some(heard) = self.heard {
            heard(done, total, warming);
        }
    }

    /// Asks the worker to end early.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the worker is to end early.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// How far a piece of work is.
#[derive(Clone, Copy, Debug)]
pub struct Stage<K> {
    /// Which.
    pub key: K,
    /// Of `total`.
    pub done: u64,
    /// 0 as long as it is not known.
    pub total: u64,
    /// Whether `done` and `total` are of its warm-up.
    pub warming: bool,
}

/// Does what `wanted` asks for with `work`, on up to `threads` threads, until it asks for nothing more. `tell`
/// gets what is under way, the oldest first; once it returns `false` everything ends early, and what comes of that
/// is among the results. Returns these, and whether they were ended early.
///
/// A panic of a worker is passed on when all others have ended.
#[cfg(not(target_family = "wasm"))]
pub fn run<K: Copy + Ord + Send, R: Send>(
    (threads, heard): (usize, Heard),
    wanted: impl Fn(&BTreeMap<K, R>) -> Vec<K>,
    work: impl Fn(K, &ProgressWatch) -> R + Sync,
    tell: &mut dyn FnMut(&[Stage<K>]) -> bool,
) -> (BTreeMap<K, R>, bool) {
    let mut results = BTreeMap::new();
    let mut stopped = false;
    let mut panicked: Option<Box<dyn Any + Send>> = None;
    let mut running: Vec<(K, Arc<ProgressWatch>)> = Vec::new();
    thread::scope(|scope| {
        let (give, take) = channel();
        loop {
            if !stopped && panicked.is_none() {
                let keys = wanted(&results);
                running.iter().filter(|(key, _)| !keys.contains(key)).for_each(|(_, watch)| watch.stop());
                for key in keys {
                    if running.len() >= threads.max(1) {
                        break;
                    }
                    if results.contains_key(&key) || running.iter().any(|(k, _)| *k == key) {
                        continue;
                    }
                    let watch = Arc::new(ProgressWatch::new(heard));
                    running.push((key, watch.clone()));
                    let (give, work) = (give.clone(), &work);
                    scope.spawn(move || {
                        let result = catch_unwind(AssertUnwindSafe(|| work(key, &watch)));
                        // The receiver lives until all are done.
                        let _ = give.send((key, result));
                    });
                }
            }
            if running.is_empty() {
                break;
            }
            match take.recv_timeout(EVERY) {
                Ok((key, result)) => {
                    let at = running.iter().position(|(k, _)| *k == key);
                    let dropped = at.is_some_and(|at| running.remove(at).1.is_stopped()) && !stopped;
                    match result {
                        Ok(result) if !dropped => _ = results.insert(key, result),
                        Ok(_) => {}
                        Err(panic) => panicked = Some(panic),
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let stage = |(key, watch): &(K, Arc<ProgressWatch>)| Stage {
                key: *key,
                done: watch.done.load(Ordering::Relaxed),
                total: watch.total.load(Ordering::Relaxed),
                warming: watch.warming.load(Ordering::Relaxed),
            };
            let stages: Vec<_> = running.iter().map(stage).collect();
            stopped |= !stages.is_empty() && !tell(&stages);
            if stopped || panicked.is_some() {
                running.iter().for_each(|(_, watch)| watch.stop());
            }
        }
    });
    match panicked {
        Some(panic) => resume_unwind(panic),
        None => (results, stopped),
    }
}

/// The same where there are no threads: piece by piece, and `tell` hears of each before it begins.
#[cfg(target_family = "wasm")]
pub fn run<K: Copy + Ord, R>(
    (_, heard): (usize, Heard),
    wanted: impl Fn(&BTreeMap<K, R>) -> Vec<K>,
    work: impl Fn(K, &ProgressWatch) -> R,
    tell: &mut dyn FnMut(&[Stage<K>]) -> bool,
) -> (BTreeMap<K, R>, bool) {
    let mut results = BTreeMap::new();
    while let Some(key) = wanted(&results).into_iter().find(|key| !results.contains_key(key)) {
        let watch = ProgressWatch::new(heard);
        if !tell(&[Stage { key, done: 0, total: 0, warming: false }]) {
            watch.stop();
        }
        results.insert(key, work(key, &watch));
        if watch.is_stopped() {
            return (results, true);
        }
    }
    (results, false)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Follows a chain: 1, then what the result of the last one names; asks for both possible next ones before.
    fn chain(threads: usize) -> (Vec<u64>, Vec<u64>) {
        let next = |x: u64| x * 2 + u64::from(x.is_multiple_of(3));
        let follow = |results: &BTreeMap<u64, u64>| {
            let mut at = 1;
            while at < 200
                && let Some(&then) = results.get(&at)
            {
                at = then;
            }
            at
        };
        let begun = Mutex::new(Vec::new());
        let (results, stopped) = run(
            (threads, |_, _, _| ()),
            |results| {
                let at = follow(results);
                if at < 200 { vec![at, at * 2, at * 2 + 1] } else { Vec::new() }
            },
            |key, _| {
                begun.lock().unwrap().push(key);
                next(key)
            },
            &mut |_| true,
        );
        assert!(!stopped && follow(&results) >= 200);
        let mut path = vec![1];
        while let Some(&then) = results.get(&path[path.len() - 1]).filter(|_| path[path.len() - 1] < 200) {
            path.push(then);
        }
        (path, begun.into_inner().unwrap())
    }

    #[test]
    fn what_a_plan_uses_does_not_depend_on_the_threads_and_one_thread_does_nothing_in_vain() {
        let (path, begun) = chain(1);
        assert_eq!(begun, path[..path.len() - 1]);
        for threads in [2, 4, 16] {
            assert_eq!(chain(threads).0, path);
        }
    }

    #[test]
    fn no_more_are_under_way_than_there_are_threads() {
        let under_way = AtomicU64::new(0);
        let (results, _) = run(
            (3, |_, _, _| ()),
            |_| (0..20).collect(),
            |_: u64, _| {
                let now = under_way.fetch_add(1, Ordering::SeqCst) + 1;
                thread::yield_now();
                under_way.fetch_sub(1, Ordering::SeqCst);
                now
            },
            &mut |stages| stages.len() <= 3,
        );
        assert_eq!(results.len(), 20);
        assert!(results.values().all(|now| *now <= 3));
    }

    #[test]
    fn who_is_told_to_stop_keeps_what_came_of_it() {
        let (results, stopped) = run(
            (2, |_, _, _| ()),
            |_| vec![1, 2, 3],
            |key: u64, watch| {
                while !watch.is_stopped() {
                    watch.tell(1, 2, true);
                    thread::yield_now();
                }
                key
            },
            &mut |stages| stages.is_empty(),
        );
        assert!(stopped);
        assert_eq!(results.into_keys().collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn a_panic_of_a_worker_reaches_the_caller() {
        let caught =
            catch_unwind(|| run((2, |_, _, _| ()), |_| vec![1, 2], |_: u64, _| panic!("broken"), &mut |_| true));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"broken"));
    }
}
