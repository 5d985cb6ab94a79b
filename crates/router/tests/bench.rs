//! What `bench` measures agrees with the wall clock, with a function of known cost in place of a real one.
//!
//! Time of a busy host is never the function's: so a rate may be missed in some tries, and never exceeded in any. A program of
//! its own, so that no other test is what makes the host busy.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use functions::ChecksumCheck;
use router::bench::{BenchSpec, BenchTimes, bench, measure};
use router::layout::Task;
use router::setup::{FunctionName, FunctionNames};
use router::{Backend, Commit, CpuThreads, RouterProgram};

#[allow(dead_code, reason = "each test uses a part of it")]
#[path = "suite/made/mod.rs"]
mod made;

const DEADLINE: Duration = Duration::from_secs(20);
/// A host that others use is given so long to let one try through.
const PATIENCE: Duration = Duration::from_secs(60);
/// More than the ring holds tasks for, so that no two tasks at once have the same slot.
const SLOTS: u64 = 1 << 16;

/// Tries, until one holds or patience ends; a few in any case.
fn tries() -> impl Iterator<Item = usize> {
    let begin = Instant::now();
    (0..).take_while(move |n| *n < 6 || begin.elapsed() < PATIENCE)
}

/// Work of a known time a packet: each task ends when all packets so far should have, so that a pause of the host is caught up.
struct Cost {
    ns: f64,
    done: AtomicU64,
    /// When the first task began and the latest ended.
    begun: Mutex<Option<(Instant, Instant)>>,
}

impl Cost {
    fn work(&self, task: Task) {
        let (begin, _) = *self.begun.lock().unwrap().get_or_insert_with(|| (Instant::now(), Instant::now()));
        let count = u64::from(task.count);
        let done = self.done.fetch_add(count, Ordering::Relaxed) + count;
        let due = begin + Duration::from_nanos((done as f64 * self.ns) as u64);
        loop {
            let left = due.saturating_duration_since(Instant::now());
            match left {
                Duration::ZERO => break,
                // The host's core is given up for what is long.
                left if left > Duration::from_millis(2) => std::thread::sleep(left - Duration::from_millis(1)),
                _ => std::thread::yield_now(),
            }
        }
        *self.begun.lock().unwrap() = Some((begin, Instant::now()));
    }

    /// Millions a second, as the worker's own clock has it.
    fn true_mpps(&self) -> f64 {
        let (begin, end) = self.begun.lock().unwrap().unwrap();
        self.done.load(Ordering::Relaxed) as f64 / (end - begin).as_secs_f64() / 1e6
    }
}

/// Measures `count` packets of `ns` each; what came, and what the worker saw.
fn measured(count: u64, ns: f64, batch: u32, mpps: Option<f64>) -> (BenchTimes, f64) {
    let cost = Arc::new(Cost { ns, done: AtomicU64::new(0), begun: Mutex::default() });
    let own = cost.clone();
    let hook: router::backend::Hook = Arc::new(move |task| own.work(task));
    let program = RouterProgram::check(ChecksumCheck::Nic, 4);
    let slots = count.next_power_of_two().min(SLOTS);
    let mut cpu = CpuThreads::with_hook(&program, 1, slots, Commit::Device, DEADLINE, 0, Some(hook)).unwrap();
    for number in 0..slots {
        cpu.put(number, &mut made::packet(number));
    }
    let found = measure(&mut cpu, count, batch, mpps).unwrap();
    cpu.stop().unwrap();
    (found, cost.true_mpps())
}

/// Carried is within 5 % of the worker's own clock in some try, and above the known rate in none.
fn carried_is_what_the_wall_clock_says(count: u64, ns: f64) {
    let known = 1e3 / ns;
    let mut seen = Vec::new();
    for _ in tries() {
        let (found, own) = measured(count, ns, 32, None);
        let carried = found.carried_mpps();
        assert!(carried <= 1.05 * known, "{count} packets of {ns} ns: {carried} Mpps, and {known} can be");
        assert!(found.sustained && found.packets == count);
        seen.push((carried, own));
        if (carried / own - 1.0).abs() < 0.05 && (carried / known - 1.0).abs() < 0.05 {
            return;
        }
    }
    panic!("{count} packets of {ns} ns, {known} Mpps: the last measured and true Mpps were {:?}", seen.last());
}

#[test]
fn carried_agrees_with_wall_time_from_a_thousand_packets_to_a_million() {
    carried_is_what_the_wall_clock_says(1_000, 20_000.0);
    carried_is_what_the_wall_clock_says(10_000, 2_000.0);
    carried_is_what_the_wall_clock_says(100_000, 500.0);
    carried_is_what_the_wall_clock_says(1_000_000, 250.0);
}

#[test]
fn carried_agrees_with_wall_time_at_ten_million_packets() {
    carried_is_what_the_wall_clock_says(10_000_000, 250.0);
}

#[test]
fn a_load_is_sustained_below_the_known_rate_and_not_above_whatever_the_batch() {
    // A quarter of all packets a batch, the most that is allowed.
    let (count, batch, ns) = (4096, 1024, 50_000.0);
    let known = 1e3 / ns;
    let held = tries().any(|_| {
        let (found, _) = measured(count, ns, batch, Some(0.8 * known));
        // From the first arrival to the last commit: a batch's own time is added to that of the arrivals.
        assert!(found.carried_mpps() <= 0.8 * known * 1.01, "{found:?}");
        assert_eq!(found.delays.summary().unwrap().packets, count);
        found.sustained
    });
    assert!(held, "80 % of what a function carries is sustained");
    let (found, _) = measured(count, ns, batch, Some(1.15 * known));
    assert!(!found.sustained, "115 % of what a function carries: {found:?}");
    assert!(found.carried_mpps() <= 1.05 * known, "{found:?}");
}

#[test]
fn delay_counts_from_each_packets_own_arrival() {
    // A batch of 256 packets, one a 100 us: the first waits for 255 gaps, the last for none.
    let (count, batch, gap_us) = (1024, 256, 100.0);
    let least = f64::from(batch - 1) / 2.0 * gap_us;
    let near = tries().any(|_| {
        let (found, _) = measured(count, 100.0, batch, Some(1.0 / gap_us));
        let mean = found.delays.summary().unwrap().mean_us;
        assert!(mean >= least, "the mean wait for a batch alone is {least} us, and the delay {mean}");
        mean < 1.1 * least
    });
    assert!(near, "the mean delay is the mean wait for a batch, {least} us, and little more");
}

#[test]
fn no_point_carries_more_than_a_thread_can_or_than_is_offered() {
    let spec = BenchSpec {
        function: FunctionNames::from(FunctionName::Ttl),
        packets: 1 << 14,
        batches: vec![32, 4096],
        shares: vec![0.5],
        threads: vec![1],
        cpu_only: true,
        ..BenchSpec::default()
    };
    let (mut most, mut points, begun) = (HashMap::new(), 0, Instant::now());
    bench(&spec, |point| {
        points += 1;
        // A nanosecond is less than the calls of one packet take; two for a burst's best case.
        assert!(point.carried_mpps < 2000.0, "{point:?}");
        match point.offered_mpps {
            None => assert!(most.insert(point.batch, point.carried_mpps).is_none()),
            Some(offered) => {
                assert!((offered / (0.5 * most[&point.batch]) - 1.0).abs() < 1e-9, "{point:?}");
                // n packets take n - 1 gaps to arrive.
                assert!(point.carried_mpps <= offered * 1.001, "{point:?}");
            }
        }
        let took = point.packets as f64 / point.carried_mpps * 1e-6;
        assert!(took <= begun.elapsed().as_secs_f64(), "{point:?} took longer than the benchmark");
        point.wrong == 0
    })
    .unwrap();
    assert_eq!(points, 4);
}
