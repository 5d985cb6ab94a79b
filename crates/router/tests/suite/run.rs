//! A run as a person asks for it: what ends it, the dates of what it writes, and what it says of the host.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use functions::ChecksumCheck;
use packet::Packet;
use router::program::MemberWork;
use router::setup::{Choice, FunctionName, FunctionNames, RouterSpec, run, run_until};
use router::sink::{FrameSink, PcapSink};
use router::source::{FrameSource, NextFrame};
use router::{Commit, CpuThreads, RouteOptions, RouterError, RouterProgram};
use units::PortId;

use crate::made;

const DEADLINE: Duration = Duration::from_secs(20);
/// 2010-01-13, 20:00 and a half.
const BEGUN: Duration = Duration::new(1_263_412_800, 500_000_000);

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The records of a pcap: time, and frame; an error if it ends within one.
fn records(path: &Path) -> Result<Vec<(Duration, Vec<u8>)>, String> {
    let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
    let word = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes(b.try_into().unwrap()));
    let (mut at, mut found) = (24, Vec::new());
    while at < bytes.len() {
        let head: Option<Vec<u32>> = (0..3).map(|i| word(at + 4 * i)).collect();
        let head = head.ok_or_else(|| format!("cut within the header at {at}"))?;
        let end = at + 16 + head[2] as usize;
        let frame = bytes.get(at + 16..end).ok_or_else(|| format!("cut within the frame at {at}"))?;
        found.push((Duration::new(head[0].into(), head[1]), frame.to_vec()));
        at = end;
    }
    Ok(found)
}

/// A capture of `count` packets, one a millisecond from [`BEGUN`] on.
fn capture(name: &str, count: u64) -> PathBuf {
    let path = file(name);
    let mut sink = PcapSink::create(&path, BEGUN).unwrap();
    for number in 0..count {
        let packet = Packet { arrival: units::Ps(number * 1_000_000_000), ..made::packet(5 * number) };
        sink.send(&packet, PortId(0)).unwrap();
    }
    sink.finish().unwrap();
    path
}

/// Packets without end, that asks for the end itself after some.
struct Asking<'a>(u64, &'a AtomicBool);

impl FrameSource for Asking<'_> {
    fn next(&mut self, packet: &mut Packet) -> Result<NextFrame, RouterError> {
        *packet = made::packet(self.0);
        self.0 += 1;
        self.1.store(self.0 >= 5000, Ordering::Relaxed);
        Ok(NextFrame::Packet)
    }
}

#[test]
fn a_run_that_is_stopped_reports_what_it_took_and_leaves_a_whole_capture() {
    let (out, stop) = (file("stopped.pcap"), AtomicBool::new(false));
    let program = RouterProgram::check(ChecksumCheck::Nic, 4);
    let mut cpu = CpuThreads::new(&program, 1, 1 << 16, Commit::Device, DEADLINE).unwrap();
    let mut sink = PcapSink::create(&out, Duration::ZERO).unwrap();
    let report =
        router::route::route_until(&mut Asking(0, &stop), &mut cpu, &mut sink, &RouteOptions::default(), &stop)
            .unwrap();
    assert!(report.stopped && (5000..5100).contains(&report.packets), "{report:?}");
    assert_eq!(report.forwarded + report.dropped.values().sum::<u64>(), report.packets);
    assert_eq!(records(&out).unwrap().len() as u64, report.forwarded);
}

#[test]
fn a_run_without_end_ends_when_asked() {
    let (out, stop) = (file("asked.pcap"), AtomicBool::new(false));
    let spec = RouterSpec {
        function: FunctionName::Ttl.into(),
        seconds: Some(1e6),
        threads: Some(1),
        deadline_s: Some(20.0),
        out: Some(out.clone()),
        ..RouterSpec::default()
    };
    let routed = std::thread::scope(|scope| {
        scope.spawn(|| {
            // As soon as something was written.
            while std::fs::metadata(&out).map_or(0, |file| file.len()) < 1 << 16 {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
        });
        run_until(&spec, &stop).unwrap()
    });
    assert!(routed.report.stopped && routed.report.packets > 0);
    assert_eq!(records(&out).unwrap().len() as u64, routed.report.forwarded);
    let spec = RouterSpec { seconds: None, packets: Some(100), ..spec };
    assert!(!run(&spec).unwrap().report.stopped, "a run that ends by itself was not stopped");
}

#[test]
fn who_receives_can_do_the_work_and_what_leaves_is_the_same() {
    let given = capture("completion.pcap", 1000);
    let run_with = |threads, out: &Path| {
        let spec = RouterSpec {
            function: FunctionNames::try_from("check,ttl".to_string()).unwrap(),
            capture: Some(given.clone()),
            out: Some(out.into()),
            threads: Some(threads),
            ordered: true,
            deadline_s: Some(20.0),
            ..RouterSpec::default()
        };
        let routed = run(&spec).unwrap();
        assert_eq!(routed.threads, Some(threads));
        (routed.report, records(out).unwrap())
    };
    let (alone, sent) = run_with(0, &file("completion-alone.pcap"));
    let (helped, expected) = run_with(2, &file("completion-helped.pcap"));
    assert!(sent == expected && sent.len() > 500, "{} and {} frames", sent.len(), expected.len());
    assert_eq!((alone.dropped, alone.ports, alone.reordered), (helped.dropped, helped.ports, 0));
    let work = |chain: &[MemberWork]| chain.iter().map(|one| (one.name, one.packets, one.dropped)).collect::<Vec<_>>();
    assert_eq!(work(&alone.chain), work(&helped.chain));
    assert!(alone.chain.iter().all(|one| one.time_ns.is_some_and(|ns| ns > 0)));
    let spec = RouterSpec { threads: Some(0), backend: Choice::Twin, packets: Some(10), ..RouterSpec::default() };
    assert!(run(&spec).unwrap_err().to_string().starts_with("threads = 0: only with backend cpu"));
}

#[test]
fn what_is_written_has_the_dates_of_what_was_read() {
    let given = capture("dated.pcap", 300);
    let (out, ttl) = (file("dated-out.pcap"), FunctionName::Ttl);
    let spec = RouterSpec {
        function: ttl.into(),
        capture: Some(given.clone()),
        out: Some(out.clone()),
        ordered: true,
        deadline_s: Some(20.0),
        ..RouterSpec::default()
    };
    let (before, report) = (records(&given).unwrap(), run(&spec).unwrap().report);
    let after = records(&out).unwrap();
    assert_eq!(after.len() as u64, report.forwarded);
    assert!(before[0].0 == BEGUN && after.len() > 200);
    // What left has the time at which it came, as its addresses and ports tell.
    let mut came = before.iter();
    for (time, frame) in &after {
        assert!(came.any(|(at, was)| was[26..] == frame[26..] && at == time), "{time:?}");
    }
    // On a schedule of its own a run begins when the capture begins.
    run(&RouterSpec { mpps: Some(0.1), ..spec }).unwrap();
    let scheduled = records(&out).unwrap();
    assert!(scheduled[0].0 >= BEGUN && scheduled[0].0 < BEGUN + Duration::from_millis(1), "{:?}", scheduled[0].0);
}

#[test]
fn threads_that_had_no_cpu_are_told_of() {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let spec = |threads| RouterSpec {
        function: FunctionName::Ttl.into(),
        mpps: Some(0.01),
        packets: Some(1000),
        threads: Some(threads),
        deadline_s: Some(20.0),
        ..RouterSpec::default()
    };
    // None of them sleeps: four times as many as there are cores have a quarter of the time at most.
    let routed = run(&spec((4 * cores).min(1024))).unwrap();
    let note = routed.notes.iter().find(|note| note.contains("CPU-seconds"));
    assert!(note.is_some_and(|note| note.contains("busy host, or of more threads than cores")), "{:?}", routed.notes);
    let (report, cores) = (routed.report, f64::from(cores));
    assert!(report.run_s >= report.wall_s && report.cpu_s > 0.0, "{report:?}");
    assert!(report.cpu_s < 1.1 * cores * report.run_s + 0.05, "{report:?}");
}

/// What the next test starts as a process of its own, so that all threads there are of this run.
#[test]
#[ignore = "a part of the next test"]
fn a_run_whose_threads_are_pinned() {
    let backend = match std::env::var("WIRESPEED_TEST_BACKEND").unwrap().as_str() {
        "cpu" => Choice::Cpu,
        "twin" => Choice::Twin,
        _ => Choice::CpuTwin,
    };
    let spec = RouterSpec {
        backend,
        pin: true,
        threads: Some(1),
        function: FunctionName::Ttl.into(),
        seconds: Some(60.0),
        deadline_s: Some(60.0),
        ..RouterSpec::default()
    };
    run(&spec).unwrap();
}

/// The CPUs of those threads of process `pid` that may run on one alone, ascending.
#[cfg(target_os = "linux")]
fn pinned(pid: u32) -> Vec<usize> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let only = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        cpus.trim().parse().ok()
    };
    let mut cpus: Vec<usize> = tasks.filter_map(only).collect();
    cpus.sort_unstable();
    cpus
}

#[cfg(target_os = "linux")]
#[test]
fn each_thread_of_a_pinned_run_has_a_cpu_of_its_own_while_there_are_any() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    if cpus < 2 {
        return eprintln!("skipped: one CPU");
    }
    // Who receives, a worker, and the twin's worker and dispatcher.
    for (backend, threads) in [("cpu", 2), ("twin", 3), ("cpu+twin", 4)] {
        let mut owner = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "run::a_run_whose_threads_are_pinned", "--ignored", "--nocapture"])
            .env("WIRESPEED_TEST_BACKEND", backend)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let begun = std::time::Instant::now();
        // A thread begins where its starter is, and then goes to its own.
        let found = loop {
            let found = pinned(owner.id());
            let most = found.chunk_by(|a, b| a == b).map(<[usize]>::len).max().unwrap_or(0);
            let is_even = found.len() == threads && most == threads.div_ceil(cpus.min(threads));
            if is_even || begun.elapsed() > DEADLINE || owner.try_wait().unwrap().is_some() {
                break is_even.then_some(found.len()).ok_or(found);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        owner.kill().unwrap();
        owner.wait().unwrap();
        assert_eq!(found, Ok(threads), "{backend}: by CPU, of {cpus}");
    }
}
