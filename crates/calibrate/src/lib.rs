//! Loops that measure the machine they run on: latencies, bandwidths, how many misses overlap, and what copies cost.
//!
//! Each loop is the native twin of one in `studies::loops`, of the same name and the same items, so that a machine can be
//! judged by both. A loop runs on a thread of its own, pinned to one core, in many short rounds; told are the fastest
//! round and the median, in nanoseconds of CPU time an item. Neighbours on a shared machine only ever make a round
//! slower: they have the core every few milliseconds, and leave their own lines in its caches. So a set that may be
//! cached is read once before each round, in order and without the clock, and a round is short enough to end before the
//! core is taken away. What a program that runs for long has of a shared cache is measured without either: in windows of many
//! milliseconds, and nothing read before ([`LoopMeasurement::bring`]).
//!
//! Random numbers are from a linear congruence, drawn before the clock starts where they matter. The clock is the
//! thread's CPU time, so a thread that is put aside does not count; what a hypervisor takes away may.
//!
//! Left out: performance counters (a guest often has none), memory of other nodes, instruction caches.

mod loops;

use std::thread;
use std::time::Duration;

use memmap2::{Advice, MmapMut};
use rustix::thread::{ClockId, CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

pub use loops::{LoopWork, Operation};

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// A setting out of range.
    #[error("{path} = {came}: allowed is {allowed}")]
    Value {
        /// Which.
        path: &'static str,
        /// What came.
        came: u64,
        /// What is allowed.
        allowed: String,
    },
    /// No memory.
    #[error("cannot map {bytes} bytes of memory: {source}; free some, or measure smaller sets")]
    Memory {
        /// How much.
        bytes: u64,
        /// Why.
        source: std::io::Error,
    },
    /// A core that this process may not use.
    #[error("core {core}: cannot run there: {source}; allowed are {allowed}")]
    Core {
        /// Which.
        core: usize,
        /// Why.
        source: std::io::Error,
        /// Where it may.
        allowed: String,
    },
    /// The measuring thread has died.
    #[error("a measuring thread has panicked: that is a bug")]
    Thread,
}

/// A measurement to make.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoopMeasurement {
    /// What is done.
    pub work: LoopWork,
    /// The core that does it.
    pub core: usize,
    /// More cores that do the same on memory of their own, for what they share.
    #[serde(default)]
    pub beside: Vec<usize>,
    /// Whether memory may be in huge pages: by default as far as the kernel has them, else in pages of 4 KiB.
    #[serde(default = "yes")]
    pub huge: bool,
    /// Rounds.
    #[serde(default = "rounds")]
    pub rounds: u32,
    /// About how long a round takes.
    #[serde(default = "round_ms")]
    pub round_ms: f64,
    /// Whether a set that may be cached is read before each round. Without that, and in rounds of many milliseconds, a
    /// loop has what share of the caches a program has that runs beside whoever else is on the machine.
    #[serde(default = "yes")]
    pub bring: bool,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct LoopTiming {
    /// Nanoseconds an item in the fastest round.
    pub best_ns: f64,
    /// In the round that a quarter of all are faster than.
    pub quarter_ns: f64,
    /// In the median round.
    pub median_ns: f64,
    /// Rounds.
    pub rounds: u32,
    /// Items a round.
    pub items: u64,
}

fn yes() -> bool {
    true
}

fn rounds() -> u32 {
    41
}

fn round_ms() -> f64 {
    0.3
}

/// Cores that this process may run on.
pub fn cores() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

/// Measures.
///
/// # Errors
/// Settings out of range, no memory, a core that may not be used.
pub fn measure(spec: &LoopMeasurement) -> Result<LoopTiming, CalibrateError> {
    spec.work.check()?;
    if !(1..=1000).contains(&spec.rounds) {
        return Err(CalibrateError::Value { path: "rounds", came: spec.rounds.into(), allowed: "1 to 1000".into() });
    }
    let allowed = cores();
    for &core in [spec.core].iter().chain(&spec.beside) {
        if !allowed.contains(&core) {
            let list: Vec<String> = allowed.iter().map(usize::to_string).collect();
            let source = std::io::Error::from_raw_os_error(22);
            return Err(CalibrateError::Core { core, source, allowed: list.join(", ") });
        }
    }
    thread::scope(|scope| {
        let beside: Vec<_> = spec.beside.iter().map(|&core| scope.spawn(move || one(spec, core))).collect();
        let found = scope.spawn(|| one(spec, spec.core)).join().map_err(|_| CalibrateError::Thread)?;
        for each in beside {
            each.join().map_err(|_| CalibrateError::Thread)??;
        }
        found
    })
}

/// Sets up to this are read before each round. No LLC that one core uses is larger.
const MOST_CACHED: u64 = 48 << 20;

impl LoopMeasurement {
    fn reads_its_set_first(&self) -> bool {
        self.bring && self.work.bytes() <= MOST_CACHED
    }
}

fn one(spec: &LoopMeasurement, core: usize) -> Result<LoopTiming, CalibrateError> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|e| CalibrateError::Core {
        core,
        source: e.into(),
        allowed: "see the process's affinity".into(),
    })?;
    let mut memory = map(spec.work.bytes(), spec.huge)?;
    let mut bench = spec.work.prepare(&mut memory);
    // Once over everything, then as many items as take the time of a round.
    bench.run(spec.work.warmup());
    let cached = spec.reads_its_set_first();
    let mut items = spec.work.least();
    let goal = Duration::from_secs_f64(spec.round_ms.clamp(0.01, 1000.0) / 1e3);
    loop {
        let took = time(|| bench.run(items));
        if took * 2 >= goal || items > 1 << 40 {
            items = (items as f64 * (goal.as_secs_f64() / took.as_secs_f64().max(1e-9)).clamp(0.5, 2.0)) as u64;
            items = items.max(spec.work.least());
            break;
        }
        items *= 2;
    }
    let mut each: Vec<f64> = (0..spec.rounds)
        .map(|_| {
            if cached {
                bench.bring();
            }
            time(|| bench.run(items)).as_secs_f64() * 1e9 / items as f64
        })
        .collect();
    each.sort_by(f64::total_cmp);
    let at = |share: usize| each[each.len() / share];
    Ok(LoopTiming { best_ns: each[0], quarter_ns: at(4), median_ns: at(2), rounds: spec.rounds, items })
}

/// The CPU time of this thread that `work` takes.
fn time(work: impl FnOnce()) -> Duration {
    let now = || {
        let at = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(at.tv_sec as u64, at.tv_nsec as u32)
    };
    let before = now();
    work();
    now().saturating_sub(before)
}

/// Memory whose pages are all there.
fn map(bytes: u64, huge: bool) -> Result<MmapMut, CalibrateError> {
    let error = |source| CalibrateError::Memory { bytes, source };
    // Transparent huge pages begin at multiples of their size: one more lets the set begin at one.
    let mut memory = MmapMut::map_anon(bytes as usize + loops::HUGE).map_err(error)?;
    // Where the kernel has none, pages are small: a calibration sees that in what it measures.
    let _ = memory.advise(if huge { Advice::HugePage } else { Advice::NoHugePage });
    for page in memory.chunks_mut(4096) {
        page[0] = 1;
    }
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quick(work: LoopWork) -> LoopTiming {
        measure(&LoopMeasurement {
            work,
            core: cores()[0],
            beside: vec![],
            huge: true,
            rounds: 3,
            round_ms: 0.5,
            bring: true,
        })
        .unwrap()
    }

    #[test]
    fn a_chase_through_more_memory_takes_longer() {
        let small = quick(LoopWork::Chase { bytes: 8 << 10, chains: 1, step: 64 });
        let large = quick(LoopWork::Chase { bytes: 128 << 20, chains: 1, step: 64 });
        assert!(large.best_ns > 5.0 * small.best_ns, "{} and {}", large.best_ns, small.best_ns);
        assert!(small.best_ns <= small.quarter_ns && small.quarter_ns <= small.median_ns);
    }

    #[test]
    fn a_set_is_read_before_a_round_where_that_is_asked_for_and_a_cache_may_hold_it() {
        let reads_first = |bytes, bring| {
            let work = LoopWork::Chase { bytes, chains: 1, step: 64 };
            let round = LoopMeasurement { work, core: 0, beside: vec![], huge: true, rounds: 1, round_ms: 0.3, bring };
            round.reads_its_set_first()
        };
        assert!(reads_first(MOST_CACHED, true));
        assert!(!reads_first(MOST_CACHED, false) && !reads_first(MOST_CACHED + 64, true));
    }

    #[test]
    fn chains_overlap() {
        let one = quick(LoopWork::Chase { bytes: 64 << 20, chains: 1, step: 64 });
        let four = quick(LoopWork::Chase { bytes: 64 << 20, chains: 4, step: 64 });
        assert!(four.best_ns < 0.6 * one.best_ns, "{} and {}", four.best_ns, one.best_ns);
    }

    #[test]
    fn every_loop_takes_some_time() {
        for work in [
            LoopWork::Multiply {},
            LoopWork::Random { bytes: 1 << 20, stores: 0.3 },
            LoopWork::Stride { bytes: 1 << 20, stride: 192 },
            LoopWork::Stream { bytes: 1 << 20, operation: Operation::Read },
            LoopWork::Stream { bytes: 1 << 20, operation: Operation::Write },
            LoopWork::Stream { bytes: 1 << 20, operation: Operation::Copy },
            LoopWork::Stream { bytes: 1 << 20, operation: Operation::StreamingWrite },
            LoopWork::Copy { bytes: 1 << 20, block: 1500 },
            LoopWork::Blocks { bytes: 1 << 20, block: 512, apart: 2048 },
        ] {
            let found = quick(work.clone());
            assert!(found.best_ns > 0.05 && found.best_ns < 1e6, "{work:?}: {}", found.best_ns);
        }
    }

    #[test]
    fn what_cannot_be_measured_says_why() {
        let core = cores()[0];
        let said = |work, core| {
            let spec =
                LoopMeasurement { work, core, beside: vec![], huge: true, rounds: 1, round_ms: 0.1, bring: true };
            measure(&spec).unwrap_err().to_string()
        };
        let chase = |bytes, chains| LoopWork::Chase { bytes, chains, step: 64 };
        assert!(said(chase(1, 1), core).contains("bytes = 1: allowed is 4096 to"));
        assert!(said(chase(8192, 0), core).contains("chains = 0"));
        assert!(said(chase(8192, 1), 1023).contains("core 1023: cannot run there"));
    }
}
