//! Two backends: by measured cost the work goes where it is done sooner, in order, and a backend that fails costs no packet that it
//! had not begun to change.
//!
//! What choosing by cost comes to is judged in made time, where costs are drawn and change: beside every fixed share, of which
//! the best one is known afterwards. What packets go through is judged on threads and on the kernel's host twin.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use functions::Verdict;
use packet::Packet;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use router::backend::{Hook, WorkerSetup};
use router::layout::Task;
use router::persistent::KernelSetup;
use router::setup::{Choice, RouterSpec, run};
use router::sink::Nowhere;
use router::source::{FrameSource, NextFrame};
use router::split::{CostSplit, SplitPolicy};
use router::{
    Backend, Commit, Committed, CpuThreads, Persistent, RouteOptions, RouteReport, RouterError, RunToCompletion,
    SplitBackend, Twin, route,
};

use crate::backends::{forward, program};
use crate::made::{Kept, Made, expected};

const DEADLINE: Duration = Duration::from_secs(20);
const SLOTS: u64 = 1 << 12;

/// What a made backend takes for a batch: so many workers, each a part for the batch and a part for each packet.
#[derive(Clone, Copy, Debug)]
struct MadeCost {
    workers: usize,
    batch_us: f64,
    packet_us: f64,
}

/// Costs of both backends from then on, as factors.
#[derive(Clone, Copy, Debug)]
struct Change {
    at: f64,
    factors: [f64; 2],
}

#[derive(Clone, Debug)]
struct Case {
    costs: [MadeCost; 2],
    changes: Vec<Change>,
    batch: u64,
    batches: usize,
    /// Of what both carry together; none is as fast as they go.
    load: Option<f64>,
    /// Batches that may be uncommitted.
    window: usize,
}

impl Case {
    fn service(&self, which: usize, at: f64) -> f64 {
        let MadeCost { batch_us, packet_us, .. } = self.costs[which];
        let factor =
            self.changes.iter().rev().find(|change| change.at <= at).map_or(1.0, |change| change.factors[which]);
        factor * (batch_us + packet_us * self.batch as f64) * 1e-6
    }

    /// Batches a second of both together, without changes.
    fn capacity(&self) -> f64 {
        (0..2).map(|which| self.costs[which].workers as f64 / self.service(which, -1.0)).sum()
    }
}

#[derive(Debug)]
struct Came {
    makespan: f64,
    mean_delay: f64,
    chosen: Vec<usize>,
    explored: u64,
}

/// The time of an event, which is a number.
#[derive(Clone, Copy, Debug, PartialEq)]
struct At(f64);
impl Eq for At {}
impl PartialOrd for At {
    fn partial_cmp(&self, other: &At) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for At {
    fn cmp(&self, other: &At) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Runs the case in made time. Batches leave in order.
fn simulate(case: &Case, policy: SplitPolicy) -> Came {
    let mut split = CostSplit::new(2, policy);
    let gap = case.load.map_or(0.0, |load| 1.0 / (load * case.capacity()));
    let mut free: [BinaryHeap<Reverse<At>>; 2] =
        [0, 1].map(|which| (0..case.costs[which].workers).map(|_| Reverse(At(0.0))).collect());
    let mut events: BinaryHeap<Reverse<(At, usize)>> = BinaryHeap::new();
    let mut done = vec![None; case.batches];
    let mut given = Vec::new();
    let (mut now, mut next, mut left, mut latest, mut delays, mut chosen) = (0.0, 0, 0, 0.0f64, 0.0, Vec::new());
    while left < case.batches {
        while let Some(&Reverse((at, number))) = events.peek() {
            if at.0 > now {
                break;
            }
            events.pop();
            split.done(&given[number], at.0);
            done[number] = Some(at.0);
            while let Some(&Some(end)) = done.get(left) {
                latest = latest.max(end);
                delays += latest - gap * left as f64;
                left += 1;
            }
        }
        let arrival = gap * next as f64;
        if next < case.batches
            && arrival <= now
            && next - left < case.window
            && let Some(batch) = split.choose(now, case.batch, &[true, true])
        {
            let which = batch.which;
            given.push(batch);
            let Reverse(At(idle)) = free[which].pop().unwrap();
            let end = idle.max(now) + case.service(which, idle.max(now));
            free[which].push(Reverse(At(end)));
            events.push(Reverse((At(end), next)));
            chosen.push(which);
            next += 1;
            // The router's own work.
            now += 1e-7;
            continue;
        }
        let event = events.peek().map_or(f64::INFINITY, |Reverse((at, ..))| at.0);
        let arrival = if next < case.batches && arrival > now { arrival } else { f64::INFINITY };
        if left < case.batches {
            now = event.min(arrival);
            assert!(now.is_finite(), "nothing goes on: {case:?}");
        }
    }
    let explored = split.shares().iter().map(|share| share.explored).sum();
    Came { makespan: latest, mean_delay: delays / case.batches as f64, chosen, explored }
}

/// The best of all fixed shares, known afterwards.
fn best_fixed(case: &Case, of: impl Fn(&Came) -> f64) -> f64 {
    (0..=20).map(|i| of(&simulate(case, SplitPolicy::Share(f64::from(i) / 20.0)))).fold(f64::INFINITY, f64::min)
}

fn costs() -> impl Strategy<Value = MadeCost> {
    (1usize..16, 0.0f64..7.0, 0.0f64..5.0).prop_map(|(workers, batch, packet)| MadeCost {
        workers,
        batch_us: batch.exp2(),
        packet_us: 0.01 * packet.exp2(),
    })
}

fn cases(load: impl Strategy<Value = Option<f64>>) -> impl Strategy<Value = Case> {
    let factor = || (-2.0f64..2.0).prop_map(f64::exp2);
    let change = (0.02f64..0.1, factor(), factor()).prop_map(|(at, a, b)| Change { at, factors: [a, b] });
    (costs(), costs(), prop::collection::vec(change, 0..4), 5u32..10, load).prop_map(
        |(a, b, mut changes, batch, load)| {
            changes.sort_by(|a, b| a.at.total_cmp(&b.at));
            let mut case = Case { costs: [a, b], changes, batch: 1 << batch, batches: 0, load, window: 512 };
            // A tenth of a second, or what the test can afford.
            case.batches = ((case.capacity() * load.unwrap_or(1.0) * 0.1) as usize).clamp(2000, 20_000);
            case
        },
    )
}

/// So many drawn cases, the same in each run.
fn drawn(count: usize, load: impl Strategy<Value = Option<f64>>) -> Vec<Case> {
    let (mut runner, cases) = (TestRunner::deterministic(), cases(load));
    (0..count).map(|_| cases.new_tree(&mut runner).unwrap().current()).collect()
}

/// What choosing by cost comes to, over what the best fixed share does: how many are not within 5 %, and the worst.
fn judge(cases: &[Case], of: impl Fn(&Came) -> f64) -> (usize, f64) {
    let ratio = |case: &Case| of(&simulate(case, SplitPolicy::Adaptive)) / best_fixed(case, &of);
    let mut ratios: Vec<(f64, &Case)> = cases.iter().map(|case| (ratio(case), case)).collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (middle, (worst, case)) = (ratios[cases.len() / 2].0, ratios[cases.len() - 1]);
    let above = ratios.iter().filter(|(ratio, _)| *ratio > 1.05).count();
    eprintln!("{} cases: median {middle:.3}, worst {worst:.3}, {above} above 1.05", cases.len());
    assert!(middle <= 1.03, "{middle} in the median, {worst}: {case:?}");
    (above, worst)
}

#[test]
fn by_cost_as_much_is_carried_as_by_the_best_fixed_share() {
    let (above, worst) = judge(&drawn(48, Just(None)), |came| came.makespan);
    assert_eq!(above, 0, "{worst}");
}

#[test]
fn by_cost_most_packets_wait_no_longer_than_by_the_best_fixed_share() {
    // A batch goes where it is itself done sooner, and not where all are: near what one backend carries that costs delay.
    let (above, worst) = judge(&drawn(48, (0.1f64..0.9).prop_map(Some)), |came| came.mean_delay);
    assert!(above * 4 <= 48 && worst <= 2.0, "{above} of 48 above 1.05, the worst {worst}");
}

#[test]
fn shares_do_not_swing_while_costs_stay_and_tries_are_few() {
    for case in drawn(48, Just(None)) {
        let case = Case { changes: Vec::new(), ..case };
        let came = simulate(&case, SplitPolicy::Adaptive);
        // After the first quarter, windows of an eighth.
        let settled = &came.chosen[case.batches / 4..];
        let share = |of: &[usize]| of.iter().sum::<usize>() as f64 / of.len() as f64;
        let whole = share(settled);
        for window in settled.chunks_exact(case.batches / 8) {
            assert!((share(window) - whole).abs() <= 0.1, "{} in a window, {whole} in all: {case:?}", share(window));
        }
        assert!(came.explored as usize <= case.batches / 64, "{} tries: {case:?}", came.explored);
    }
}

#[test]
fn that_a_backend_has_become_fast_is_found_by_trying_it() {
    let cost = |batch_us| MadeCost { workers: 4, batch_us, packet_us: 0.001 };
    let changes = vec![Change { at: 0.02, factors: [1.0, 0.01] }];
    let case =
        Case { costs: [cost(10.0), cost(100.0)], changes, batch: 32, batches: 20_000, load: Some(0.3), window: 512 };
    let came = simulate(&case, SplitPolicy::Adaptive);
    let share = |of: &[usize]| of.iter().sum::<usize>() as f64 / of.len() as f64;
    // 20,000 batches come in 0.15 s.
    assert!(came.makespan > 0.1 && share(&came.chosen[..2000]) < 0.05, "{:?}", share(&came.chosen[..2000]));
    assert!(share(&came.chosen[15_000..]) > 0.95 && came.explored > 0, "{:?}", share(&came.chosen[15_000..]));
}

fn cpu(deadline: Duration, hook: Option<Hook>) -> Box<dyn Backend> {
    let (threads, commit) = (2, Commit::Unordered);
    let setup = WorkerSetup { threads, slots: SLOTS, commit, deadline, base: 0, hook, cpus: Vec::new() };
    Box::new(CpuThreads::with_setup(&program(), setup).unwrap())
}

fn twin(deadline: Duration) -> Box<dyn Backend> {
    let unordered = KernelSetup { commit: Commit::Unordered, ..KernelSetup::default() };
    let setup = KernelSetup { slots: SLOTS, frame_bytes: 256, deadline, ..unordered };
    Box::new(Persistent::new(Twin::new(2), &program(), setup).unwrap())
}

fn both(backends: Vec<Box<dyn Backend>>, policy: SplitPolicy, most: u32, ordered: bool) -> SplitBackend {
    SplitBackend::new("cpu+twin", backends, policy, SLOTS, most, ordered).unwrap()
}

/// Routes, and sees that each packet left once, as it should, in order where that is asked for.
fn check(split: &mut SplitBackend, packets: u64, ordered: bool, options: &RouteOptions) -> RouteReport {
    let mut kept = Kept::default();
    let report = route(&mut Made { next: 0, end: packets }, split, &mut kept, options).unwrap();
    let dropped = report.dropped.values().sum::<u64>();
    assert_eq!((report.packets, report.forwarded + dropped, report.lost), (packets, packets, 0));
    let mut sent = kept.0;
    if ordered {
        assert_eq!(report.reordered, 0);
    } else {
        sent.sort_by_key(|(packet, _)| packet.id);
    }
    assert!(sent == expected(forward(), packets), "what left is what should have");
    assert_eq!(report.split.iter().map(|own| own.share.packets).sum::<u64>(), packets);
    report
}

#[test]
fn packets_of_two_backends_leave_once_and_in_order() {
    for (ordered, most) in [(true, 32), (true, 256), (false, 32), (false, 256)] {
        for policy in [SplitPolicy::Share(0.5), SplitPolicy::Adaptive] {
            let mut split = both(vec![cpu(DEADLINE, None), twin(DEADLINE)], policy, most, ordered);
            let options = RouteOptions { batch: most, ..RouteOptions::default() };
            let report = check(&mut split, 20_000, ordered, &options);
            if policy == SplitPolicy::Share(0.5) {
                let shares: Vec<f64> = report.split.iter().map(|own| own.share.share).collect();
                assert!(shares.iter().all(|share| (share - 0.5).abs() < 0.05), "{shares:?}");
            }
            assert!(report.split.iter().all(|own| own.failed.is_none() && own.redone == 0));
        }
    }
}

/// A clock that goes on by 0.1 us whenever it is read by the split, in nanoseconds.
#[derive(Clone, Default)]
struct MadeClock(Arc<AtomicU64>);

impl MadeClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A backend of one worker that does the real work, and is seen to have done it in made time: so many microseconds a task in each
/// half of the run.
struct InMadeTime {
    backend: RunToCompletion,
    clock: MadeClock,
    second_half: Arc<AtomicBool>,
    task_us: [u64; 2],
    /// When the worker is free, and what it is not yet done with.
    free_ns: u64,
    posted: VecDeque<(u64, Committed)>,
    /// Packets that it was given in each half.
    given: Arc<[AtomicU64; 2]>,
}

impl Backend for InMadeTime {
    fn name(&self) -> &'static str {
        self.backend.name()
    }
    fn slots(&self) -> u64 {
        self.backend.slots()
    }
    fn put(&mut self, number: u64, packet: &mut Packet) {
        self.backend.put(number, packet);
    }
    fn post(&mut self, first: u64, count: u32) -> Result<bool, RouterError> {
        let half = usize::from(self.second_half.load(Ordering::Relaxed));
        self.given[half].fetch_add(count.into(), Ordering::Relaxed);
        self.free_ns = self.free_ns.max(self.clock.now_ns()) + 1000 * self.task_us[half];
        self.posted.push_back((self.free_ns, Committed { first, count }));
        self.backend.post(first, count)
    }
    fn room(&self) -> u64 {
        self.backend.room()
    }
    fn poll(&mut self, out: &mut Vec<Committed>) -> Result<(), RouterError> {
        self.backend.poll(&mut Vec::new())?;
        let done = self.posted.partition_point(|(at, _)| *at <= self.clock.now_ns());
        out.extend(self.posted.drain(..done).map(|(_, done)| done));
        Ok(())
    }
    fn take(&mut self, number: u64, packet: &mut Packet) -> Result<Verdict, RouterError> {
        self.backend.take(number, packet)
    }
    fn stop(&mut self) -> Result<(), RouterError> {
        self.backend.stop()
    }
}

/// Packets that change the costs half-way.
struct Halves(Made, Arc<AtomicBool>);

impl FrameSource for Halves {
    fn next(&mut self, packet: &mut Packet) -> Result<NextFrame, RouterError> {
        self.1.store(self.0.next >= self.0.end / 2, Ordering::Relaxed);
        self.0.next(packet)
    }
}

#[test]
fn work_moves_to_the_backend_that_is_sooner_and_back_when_costs_change() {
    let (clock, second_half) = (MadeClock::default(), Arc::new(AtomicBool::new(false)));
    let given = || Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let (one, other) = (given(), given());
    let backend = |task_us, given: &Arc<[AtomicU64; 2]>| -> Box<dyn Backend> {
        let backend = RunToCompletion::new(&program(), SLOTS).unwrap();
        let (clock, second_half, given) = (clock.clone(), second_half.clone(), given.clone());
        Box::new(InMadeTime { backend, clock, second_half, task_us, free_ns: 0, posted: VecDeque::new(), given })
    };
    let backends = vec![backend([1000, 5], &one), backend([10, 100], &other)];
    let ticks = clock.clone();
    let mut split = both(backends, SplitPolicy::Adaptive, 64, true)
        .with_clock(move || (ticks.0.fetch_add(100, Ordering::Relaxed) as f64) * 1e-9);
    let mut halves = Halves(Made { next: 0, end: 400_000 }, second_half);
    let options = RouteOptions { batch: 64, ..RouteOptions::default() };
    let report = route(&mut halves, &mut split, &mut Nowhere, &options).unwrap();
    assert_eq!((report.packets, report.reordered, report.lost), (400_000, 0, 0));
    let of = |given: &[AtomicU64; 2]| given.each_ref().map(|packets| packets.load(Ordering::Relaxed));
    let (one, other) = (of(&one), of(&other));
    let told: Vec<u64> = report.split.iter().map(|own| own.share.packets).collect();
    assert_eq!(told, [one[0] + one[1], other[0] + other[1]]);
    // Costs are 100 to 1, then 1 to 20: by what both carry 99 and 95 % of a half go to the sooner one.
    assert!(other[0] > 190_000 && one[1] > 180_000, "{one:?} {other:?}");
}

/// Packets of which one comes late: whoever needs to hear of the host meanwhile does not.
struct Pause(Made, Duration);

impl FrameSource for Pause {
    fn next(&mut self, packet: &mut Packet) -> Result<NextFrame, RouterError> {
        if self.0.next == self.0.end / 2 {
            std::thread::sleep(self.1);
        }
        self.0.next(packet)
    }
}

#[test]
fn a_kernel_that_leaves_falls_to_nothing_and_the_threads_do_all_of_its_packets() {
    let deadline = Duration::from_millis(100);
    let mut split = both(vec![cpu(DEADLINE, None), twin(deadline)], SplitPolicy::Share(0.5), 64, true);
    let mut kept = Kept::default();
    let mut source = Pause(Made { next: 0, end: 20_000 }, 10 * deadline);
    let options = RouteOptions { batch: 64, ..RouteOptions::default() };
    let report = route(&mut source, &mut split, &mut kept, &options).unwrap();
    assert_eq!((report.packets, report.reordered, report.lost), (20_000, 0, 0));
    assert!(kept.0 == expected(forward(), 20_000), "each once, in order, with its verdict");
    let [threads, kernel] = &report.split[..] else { panic!("two backends") };
    assert!(matches!(kernel.failed.as_deref(), Some(RouterError::Left { backend: "twin", .. })), "{kernel:?}");
    assert!(threads.failed.is_none() && kernel.lost == 0, "{threads:?} {kernel:?}");
    assert!(kernel.share.packets > 1000 && kernel.share.share < 0.35, "it had its half of the first half: {kernel:?}");
    assert!(kernel.redone > 0, "what it had not done was done again: {kernel:?}");
}

#[test]
fn threads_that_hang_fall_to_nothing_and_what_they_had_begun_is_counted_as_lost() {
    let (open, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let gate = {
        let (open, begun) = (open.clone(), begun.clone());
        move |_| {
            if begun.fetch_add(1, Ordering::Relaxed) >= 40 {
                while !open.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            }
        }
    };
    let deadline = Duration::from_millis(300);
    let mut split = both(vec![cpu(deadline, Some(Arc::new(gate))), twin(DEADLINE)], SplitPolicy::Share(0.5), 32, true);
    let mut kept = Kept::default();
    let report = route(&mut Made { next: 0, end: 20_000 }, &mut split, &mut kept, &RouteOptions::default()).unwrap();
    open.store(true, Ordering::Release);
    let [threads, kernel] = &report.split[..] else { panic!("two backends") };
    assert!(matches!(threads.failed.as_deref(), Some(RouterError::Silent { backend: "cpu", .. })), "{threads:?}");
    let dropped = report.dropped.values().sum::<u64>();
    assert_eq!((report.packets, report.forwarded + dropped + report.lost), (20_000, 20_000));
    assert_eq!((report.lost, kernel.lost, report.reordered), (threads.lost, 0, 0));
    assert!(report.lost > 0 && report.lost <= SLOTS, "{report:?}");
    let all = expected(forward(), 20_000);
    let mut all = all.iter();
    assert!(kept.0.iter().all(|sent| all.any(|one| one == sent)), "what left is in order, and as it should be");
}

#[test]
fn without_any_backend_left_the_run_ends_with_the_last_ones_failure() {
    let deadline = Duration::from_millis(100);
    let mut split = both(vec![twin(deadline), twin(deadline)], SplitPolicy::Adaptive, 32, true);
    let mut source = Pause(Made { next: 0, end: 2000 }, 10 * deadline);
    let error = route(&mut source, &mut split, &mut Nowhere, &RouteOptions::default()).unwrap_err();
    assert!(matches!(error, RouterError::Left { backend: "twin", .. }), "{error}");
}

/// Commits what it was given, and the first task of all twice, once it has so many packets.
struct Twice {
    backend: Box<dyn Backend>,
    first: Option<Committed>,
    after: u64,
    has: u64,
}

impl Twice {
    fn boxed(after: u64) -> Box<dyn Backend> {
        Box::new(Twice { backend: twin(DEADLINE), first: None, after, has: 0 })
    }
}

impl Backend for Twice {
    fn name(&self) -> &'static str {
        "twice"
    }
    fn slots(&self) -> u64 {
        self.backend.slots()
    }
    fn put(&mut self, number: u64, packet: &mut Packet) {
        self.has += 1;
        self.backend.put(number, packet);
    }
    fn post(&mut self, first: u64, count: u32) -> Result<bool, RouterError> {
        self.backend.post(first, count)
    }
    fn room(&self) -> u64 {
        self.backend.room()
    }
    fn recall(&mut self, number: u64, packet: &mut Packet) -> bool {
        self.backend.recall(number, packet)
    }
    fn poll(&mut self, out: &mut Vec<Committed>) -> Result<(), RouterError> {
        if self.has < self.after {
            return Ok(());
        }
        let before = out.len();
        self.backend.poll(out)?;
        if let (None, Some(&first)) = (self.first, out.get(before)) {
            out.insert(before, first);
            self.first = Some(first);
        }
        Ok(())
    }
    fn take(&mut self, number: u64, packet: &mut Packet) -> Result<Verdict, RouterError> {
        self.backend.take(number, packet)
    }
    fn stop(&mut self) -> Result<(), RouterError> {
        self.backend.stop()
    }
}

#[test]
fn a_backend_that_commits_a_task_twice_is_given_up_and_costs_no_packet() {
    // Batches of two tasks: the second of them is not done when the first is said to be so twice.
    let mut split = both(vec![cpu(DEADLINE, None), Twice::boxed(0)], SplitPolicy::Share(0.5), 64, true);
    let options = RouteOptions { batch: 64, ..RouteOptions::default() };
    let report = check(&mut split, 20_000, true, &options);
    let [threads, twice] = &report.split[..] else { panic!("two backends") };
    let told = twice.failed.as_ref().unwrap().to_string();
    assert!(
        told.starts_with("the twice backend broke the protocol: ") && told.contains(" was committed twice"),
        "{told}"
    );
    assert!(threads.failed.is_none() && twice.redone > 0, "{report:?}");
}

#[test]
fn what_is_taken_back_from_a_full_backend_overwrites_nothing_that_waits_to_leave() {
    // Both have half of all packets when one fails. The threads then have its packets under later numbers than packets that leave
    // after them; they are slow, so that new ones come before those have left.
    let slow = move |task: Task| {
        if (SLOTS / 2..3 * SLOTS / 2).contains(&task.first) {
            std::thread::sleep(Duration::from_micros(500));
        }
    };
    for ordered in [true, false] {
        let backends = vec![cpu(DEADLINE, Some(Arc::new(slow))), Twice::boxed(SLOTS / 2)];
        let mut split = both(backends, SplitPolicy::Share(0.5), 64, ordered);
        let options = RouteOptions { batch: 64, ..RouteOptions::default() };
        let report = check(&mut split, 20_000, ordered, &options);
        assert_eq!(report.split[1].redone, SLOTS / 2 - 32, "{report:?}");
    }
}

#[test]
fn two_backends_are_asked_for_by_name_and_what_cannot_be_is_named() {
    let spec = |backend, share, ordered| RouterSpec {
        backend,
        share,
        ordered,
        threads: Some(1),
        packets: Some(5000),
        function: router::setup::FunctionName::Ttl.into(),
        deadline_s: Some(20.0),
        ..RouterSpec::default()
    };
    let routed = run(&spec(Choice::CpuTwin, None, true)).unwrap();
    assert_eq!((routed.report.backend, routed.threads, routed.report.reordered), ("cpu+twin", Some(2), 0));
    assert_eq!(routed.report.split.len(), 2);
    let routed = run(&spec(Choice::CpuTwin, Some(1.0), false)).unwrap();
    assert_eq!(routed.report.split[1].share.packets, 5000);
    let error = |spec| run(&spec).unwrap_err().to_string();
    assert_eq!(error(spec(Choice::CpuTwin, Some(1.5), true)), "share = 1.5: must be a share of packets, 0 to 1");
    assert_eq!(error(spec(Choice::Cpu, Some(0.5), true)), "share = 0.5: only with two backends, cpu+cuda or cpu+twin");
    let no_gpu = RouterSpec { driver: Some("libcuda_nowhere.so.1".into()), ..spec(Choice::CpuCuda, None, true) };
    assert!(run(&no_gpu).unwrap_err().is_no_gpu());
}
