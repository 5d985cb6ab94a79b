//! What every backend keeps to: each packet once, in order, with the right verdict, whatever workers do; and what ends them.
//!
//! The backends are threads with the functions of `functions` (cpu), and the GPU's kernel on threads (twin).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use functions::{ChecksumCheck, Forward, ForwardSpec, NextHop};
use router::layout::{Left, RING_ENTRIES};
use router::persistent::Setup;
use router::program::Share;
use router::route::{Pace, Timeout};
use router::sink::Nowhere;
use router::{Backend, Commit, Committed, Cpu, Options, Persistent, Program, RouterError, Twin, route};

mod made;
use made::{Kept, Made, expected, packet};

const DEADLINE: Duration = Duration::from_secs(20);
const SLOTS: u64 = 32 * RING_ENTRIES;

fn forward() -> Forward {
    let routes = ["10.0.0.0/8", "10.1.2.0/24", "10.1.2.128/25", "172.16.0.0/12"];
    let routes = (0u16..).zip(routes).map(|(i, prefix)| (prefix.parse().unwrap(), NextHop::from(i)));
    Forward::new(routes, 3, &ForwardSpec { checksum: ChecksumCheck::Software, ..ForwardSpec::default() }).unwrap()
}

fn program() -> Program {
    Program::forward(forward())
}

fn backends(workers: u32, base: u64, delays: bool) -> Vec<(String, Commit, Box<dyn Backend>)> {
    let mut all: Vec<(String, Commit, Box<dyn Backend>)> = Vec::new();
    for commit in [Commit::Device, Commit::Host, Commit::Unordered] {
        // Some tasks take long, so that later ones finish before.
        let seed = AtomicU64::new(7);
        let hook = move |_| {
            let x = seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            if (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 62 == 0 {
                std::thread::sleep(Duration::from_micros(30));
            }
        };
        let hook: Option<router::backend::Hook> = delays.then(|| Arc::new(hook) as _);
        if commit != Commit::Host {
            let cpu = Cpu::with_hook(&program(), workers as usize, SLOTS, commit, DEADLINE, base, hook).unwrap();
            all.push((format!("cpu, {commit:?}"), commit, Box::new(cpu)));
        }
        let setup = Setup { commit, deadline: DEADLINE, base, slots: SLOTS, frame_bytes: 256 };
        let twin = Persistent::new(Twin::new(workers), &program(), setup).unwrap();
        all.push((format!("twin, {commit:?}"), commit, Box::new(twin)));
    }
    all
}

fn check(name: &str, commit: Commit, backend: &mut dyn Backend, packets: u64, options: &Options) {
    let mut kept = Kept::default();
    let report = route(&mut Made { next: 0, end: packets }, backend, &mut kept, options).unwrap();
    assert_eq!(report.packets, packets, "{name}: each packet once");
    assert_eq!(report.forwarded + report.dropped.values().sum::<u64>(), packets, "{name}");
    let mut sent = kept.0;
    if commit.is_ordered() {
        assert_eq!(report.reordered, 0, "{name}");
    } else {
        sent.sort_by_key(|(packet, _)| packet.id);
    }
    assert!(sent == expected(forward(), packets), "{name}: what left is what should have");
    if packets >= 1000 {
        for reason in ["no_route", "bad_checksum", "ttl_expired", "destination_multicast"] {
            assert!(report.dropped[reason] > 0, "{name}: {reason}");
        }
    }
}

#[test]
fn each_packet_leaves_once_in_order_with_its_verdict() {
    for (name, commit, mut backend) in backends(3, 0, true) {
        // More than go into the rings at once: entries and slots are used again.
        check(&name, commit, &mut backend, 3 * SLOTS / 2 + 17, &Options::default());
    }
}

#[test]
fn generations_wrap_without_a_trace() {
    for (name, commit, mut backend) in backends(2, 65_534 * RING_ENTRIES + 1000, false) {
        check(&name, commit, &mut backend, 4 * 1024 * 32, &Options::default());
    }
}

#[test]
fn partial_warps_are_posted_when_they_have_waited() {
    for (name, commit, mut backend) in backends(2, 0, false) {
        // One packet a microsecond: a full warp would take 32.
        let timeout = Timeout::After(Duration::from_micros(3));
        let options = Options { pace: Pace::Arrival, timeout, ..Options::default() };
        let mut kept = Kept::default();
        let report = route(&mut Made { next: 0, end: 3001 }, &mut backend, &mut kept, &options).unwrap();
        assert!(report.partial_tasks > 0, "{name}: {report:?}");
        assert_eq!(report.packets, 3001, "{name}");
        let delay = report.delay.unwrap();
        assert!(delay.packets == 3001 && delay.mean_us > 0.0 && delay.p50_us <= delay.p99_us, "{name}: {delay:?}");
        if !commit.is_ordered() {
            kept.0.sort_by_key(|(packet, _)| packet.id);
        }
        assert!(kept.0 == expected(forward(), 3001), "{name}");
    }
}

#[test]
fn batches_larger_than_a_warp_are_tasks_of_warps() {
    for (name, commit, mut backend) in backends(2, 0, false) {
        check(&name, commit, &mut backend, 20_000, &Options { batch: 1000, ..Options::default() });
    }
}

#[test]
fn a_router_stops_while_idle_and_while_busy() {
    for (name, _, mut backend) in backends(3, 0, true) {
        backend.stop().unwrap_or_else(|e| panic!("{name}, idle: {e}"));
    }
    for (name, _, mut backend) in backends(3, 0, true) {
        let mut posted = 0;
        for task in 0..300 {
            for number in task * 32..task * 32 + 32 {
                backend.put(number, &mut packet(number));
            }
            posted += u64::from(backend.post(task * 32, 32).unwrap());
        }
        backend.stop().unwrap_or_else(|e| panic!("{name}, busy: {e}"));
        let mut out = Vec::new();
        // All that was posted is done; whoever left has not left it.
        let polled = backend.poll(&mut out);
        assert!(polled.is_ok(), "{name}: {polled:?}");
        assert_eq!(out.len() as u64, posted, "{name}");
    }
}

#[test]
fn a_full_queue_refuses_tasks_until_the_oldest_is_committed() {
    let (open, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let gate = {
        let (open, seen) = (open.clone(), seen.clone());
        move |task: router::layout::Task| {
            seen.fetch_add(1, Ordering::Relaxed);
            // The worker with the first task waits: nothing can be committed in order.
            while task.first == 0 && !open.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
    };
    let mut cpu = Cpu::with_hook(&program(), 2, SLOTS, Commit::Device, DEADLINE, 0, Some(Arc::new(gate))).unwrap();
    for task in 0..RING_ENTRIES {
        for number in task * 32..task * 32 + 32 {
            cpu.put(number, &mut packet(number));
        }
        assert!(cpu.post(task * 32, 32).unwrap(), "task {task}");
    }
    while seen.load(Ordering::Relaxed) < RING_ENTRIES {
        std::thread::yield_now();
    }
    let mut out = Vec::new();
    cpu.poll(&mut out).unwrap();
    assert_eq!(out, [], "1023 tasks are done, and none is committed");
    assert!(!cpu.post(SLOTS, 32).unwrap(), "the queue is full");
    open.store(true, Ordering::Release);
    while out.len() < RING_ENTRIES as usize {
        cpu.poll(&mut out).unwrap();
    }
    let in_order: Vec<_> = (0..RING_ENTRIES).map(|task| Committed { first: task * 32, count: 32 }).collect();
    assert!(out == in_order);
    assert!(cpu.post(SLOTS, 1).unwrap(), "there is room again");
    cpu.stop().unwrap();
}

#[test]
fn a_worker_that_hangs_is_a_typed_error_within_the_deadline() {
    let open = Arc::new(AtomicBool::new(false));
    let gate = {
        let open = open.clone();
        move |_| {
            while !open.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
    };
    let deadline = Duration::from_millis(200);
    let mut cpu = Cpu::with_hook(&program(), 1, SLOTS, Commit::Device, deadline, 0, Some(Arc::new(gate))).unwrap();
    let asked = Instant::now();
    let error = route(&mut Made { next: 0, end: 100 }, &mut cpu, &mut Nowhere, &Options::default()).unwrap_err();
    assert!(matches!(error, RouterError::Silent { backend: "cpu", .. }), "{error}");
    assert!(asked.elapsed() >= deadline && asked.elapsed() < 20 * deadline, "{:?}", asked.elapsed());
    open.store(true, Ordering::Release);
}

#[test]
fn a_worker_that_panics_is_a_typed_error() {
    let hook = |task: router::layout::Task| assert!(task.first < 64, "made to fail");
    let mut cpu = Cpu::with_hook(&program(), 1, SLOTS, Commit::Device, DEADLINE, 0, Some(Arc::new(hook))).unwrap();
    let error = route(&mut Made { next: 0, end: 1000 }, &mut cpu, &mut Nowhere, &Options::default()).unwrap_err();
    assert!(matches!(error, RouterError::Panicked { backend: "cpu" }), "{error}");
}

#[test]
fn the_kernels_watchdog_fires_when_the_host_falls_silent() {
    let deadline = Duration::from_millis(150);
    let setup = Setup { deadline, ..Setup::default() };
    let mut twin = Persistent::new(Twin::new(2), &program(), setup).unwrap();
    let mut out = Vec::new();
    twin.poll(&mut out).unwrap();
    let asked = Instant::now();
    // No sign of life for ten deadlines.
    while asked.elapsed() < 10 * deadline {
        std::thread::yield_now();
    }
    let error = twin.poll(&mut out).unwrap_err();
    assert!(matches!(error, RouterError::Left { why: Left::HostSilent, .. }), "{error}");
    let error = twin.stop().unwrap_err();
    assert!(matches!(error, RouterError::Left { why: Left::HostSilent, .. }), "{error}");
}

#[test]
fn a_kernel_hears_a_host_that_is_idle_but_alive() {
    let deadline = Duration::from_millis(150);
    let setup = Setup { deadline, ..Setup::default() };
    let mut twin = Persistent::new(Twin::new(2), &program(), setup).unwrap();
    let (asked, mut out) = (Instant::now(), Vec::new());
    while asked.elapsed() < 10 * deadline {
        twin.poll(&mut out).unwrap();
        std::thread::yield_now();
    }
    check("twin after a pause", Commit::Device, &mut twin, 1000, &Options::default());
}

#[test]
fn settings_that_cannot_be_are_named() {
    let error = |e: Result<Cpu, RouterError>| e.err().map(|e| e.to_string()).unwrap_or_default();
    let cpu = |threads, slots| Cpu::new(&program(), threads, slots, Commit::Device, DEADLINE);
    assert_eq!(error(cpu(0, 1024)), "threads = 0: allowed are 1 to 1024");
    assert_eq!(error(cpu(1, 1000)), "slots = 1000: must be a power of two, up to 2^31");
    let options = Options { batch: 0, ..Options::default() };
    let refused = route(&mut Made { next: 0, end: 1 }, &mut cpu(1, 1024).unwrap(), &mut Nowhere, &options);
    assert_eq!(refused.unwrap_err().to_string(), "batch = 0: allowed are 1 and more, up to half the slots");
}

#[test]
fn functions_that_kernels_have_route_alike_on_threads_and_on_the_kernel() {
    use router::setup::{Choice, Functions, RunSpec};
    let table = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("backends-routes.txt");
    std::fs::write(&table, "10.0.0.0/8 1\n172.16.0.0/12 2\n192.0.2.0/24 3\n").unwrap();
    let run = |function, backend| {
        let (packets, deadline_s, table) = (Some(3000), Some(20.0), Some(table.clone()));
        let (function, search) = (Functions::try_from(String::from(function)).unwrap(), None);
        let spec =
            RunSpec { function, search, backend, packets, deadline_s, table, ordered: true, ..RunSpec::default() };
        router::setup::run(&spec)
    };
    for function in ["check", "lookup", "ttl", "classify", "inspect", "check, classify,inspect,lookup,ttl"] {
        let (cpu, twin) = (run(function, Choice::Cpu).unwrap().report, run(function, Choice::Twin).unwrap().report);
        assert_eq!(cpu.packets, 3000, "{function:?}");
        assert_eq!((cpu.forwarded, cpu.dropped, cpu.ports), (twin.forwarded, twin.dropped, twin.ports), "{function:?}");
        let untimed = |share: &Share| Share { time_ns: None, ..*share };
        assert!(twin.chain.iter().map(untimed).eq(twin.chain.iter().copied()), "kernels tell no times");
        assert!(cpu.chain.iter().map(untimed).eq(twin.chain), "{function}");
        let times: Vec<u64> = cpu.chain.iter().filter_map(|share| share.time_ns).collect();
        assert_eq!(times.len(), cpu.chain.len(), "threads tell a time of each member");
        if let Some(inspect) = times.get(2) {
            // A thousand rules and whole payloads take longer than a byte of a header.
            assert!(times[1].min(*inspect) > times[4] && times[4] > 0, "{times:?}");
        }
        assert_eq!(cpu.chain.len(), if function.contains(',') { 5 } else { 0 });
        let came = cpu.chain.iter().scan(3000, |left, share| {
            let came = *left;
            *left -= share.dropped;
            Some(came)
        });
        assert!(came.eq(cpu.chain.iter().map(|share| share.packets)), "{:?}", cpu.chain);
    }
    let refused = Functions::try_from(String::from("lookup,nat")).unwrap_err().to_string();
    assert!(refused.starts_with("function = lookup,nat: must be of forward, check"), "{refused}");
    let refused = run("ttl,ttl,ttl,ttl,ttl,ttl,ttl", Choice::Cpu).unwrap_err().to_string();
    assert_eq!(refused, "function = 7 functions: a chain has 1 to 6 of them");
}
