//! What every backend keeps to: each packet once, in order, with the right verdict, whatever workers do; and what ends them.
//!
//! The backends are threads with the functions of `functions` (cpu), and the GPU's kernel on threads (twin).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use functions::lookup::Structure;
use functions::{ChecksumCheck, Forward, ForwardSpec, Function, Lookup, NextHop, PacketFunction, Verdict};
use packet::Packet;
use router::layout::{KernelExit, RING_ENTRIES};
use router::persistent::KernelSetup;
use router::program::MemberWork;
use router::route::{BatchTimeout, Pace};
use router::sink::Nowhere;
use router::source::{FrameSource, NextFrame};
use router::{
    Backend, Commit, Committed, CpuThreads, Persistent, RoundTasks, RouteOptions, RouterError, RouterProgram,
    RunToCompletion, Twin, route,
};
use units::{PacketId, PortId, Ps};

use crate::made::{Kept, Made, expected, packet};

const DEADLINE: Duration = Duration::from_secs(20);
const SLOTS: u64 = 32 * RING_ENTRIES;

pub(crate) fn forward() -> Forward {
    let routes = ["10.0.0.0/8", "10.1.2.0/24", "10.1.2.128/25", "172.16.0.0/12"];
    let routes = (0u16..).zip(routes).map(|(i, prefix)| (prefix.parse().unwrap(), NextHop::from(i)));
    Forward::new(routes, 3, &ForwardSpec { checksum: ChecksumCheck::Software, ..ForwardSpec::default() }).unwrap()
}

pub(crate) fn program() -> RouterProgram {
    RouterProgram::forward(forward())
}

fn backends(workers: u32, base: u64, delays: bool) -> Vec<(String, Commit, Box<dyn Backend>)> {
    let mut all: Vec<(String, Commit, Box<dyn Backend>)> = Vec::new();
    let alone = RunToCompletion::new(&program(), SLOTS).unwrap();
    all.push(("run to completion".into(), Commit::Device, Box::new(alone)));
    let rounds = ["32-128", "32", "64-128"].map(|text| RoundTasks::parse(text).unwrap());
    for (commit, round) in [Commit::Device, Commit::Host, Commit::Unordered].into_iter().zip(rounds) {
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
            let cpu = CpuThreads::with_hook(&program(), workers as usize, SLOTS, commit, DEADLINE, base, hook).unwrap();
            all.push((format!("cpu, {commit:?}"), commit, Box::new(cpu)));
        }
        let setup = KernelSetup { commit, deadline: DEADLINE, base, slots: SLOTS, frame_bytes: 256, round };
        let twin = Persistent::new(Twin::new(workers), &program(), setup).unwrap();
        all.push((format!("twin, {commit:?}"), commit, Box::new(twin)));
    }
    all
}

fn check(name: &str, commit: Commit, backend: &mut dyn Backend, packets: u64, options: &RouteOptions) {
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
        check(&name, commit, &mut backend, 3 * SLOTS / 2 + 17, &RouteOptions::default());
    }
}

#[test]
fn generations_wrap_without_a_trace() {
    for (name, commit, mut backend) in backends(2, 65_534 * RING_ENTRIES + 1000, false) {
        check(&name, commit, &mut backend, 4 * 1024 * 32, &RouteOptions::default());
    }
}

#[test]
fn partial_warps_are_posted_when_they_have_waited() {
    for (name, commit, mut backend) in backends(2, 0, false) {
        // One packet a microsecond: a full warp would take 32.
        let timeout = BatchTimeout::After(Duration::from_micros(3));
        let options = RouteOptions { pace: Pace::Arrival, timeout, ..RouteOptions::default() };
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
        check(&name, commit, &mut backend, 20_000, &RouteOptions { batch: 1000, ..RouteOptions::default() });
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
    let mut cpu =
        CpuThreads::with_hook(&program(), 2, SLOTS, Commit::Device, DEADLINE, 0, Some(Arc::new(gate))).unwrap();
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
    let mut cpu =
        CpuThreads::with_hook(&program(), 1, SLOTS, Commit::Device, deadline, 0, Some(Arc::new(gate))).unwrap();
    let asked = Instant::now();
    let error = route(&mut Made { next: 0, end: 100 }, &mut cpu, &mut Nowhere, &RouteOptions::default()).unwrap_err();
    assert!(matches!(error, RouterError::Silent { backend: "cpu", .. }), "{error}");
    assert!(asked.elapsed() >= deadline && asked.elapsed() < 20 * deadline, "{:?}", asked.elapsed());
    open.store(true, Ordering::Release);
}

#[test]
fn a_worker_that_panics_is_a_typed_error() {
    let hook = |task: router::layout::Task| assert!(task.first < 64, "made to fail");
    let mut cpu =
        CpuThreads::with_hook(&program(), 1, SLOTS, Commit::Device, DEADLINE, 0, Some(Arc::new(hook))).unwrap();
    let error = route(&mut Made { next: 0, end: 1000 }, &mut cpu, &mut Nowhere, &RouteOptions::default()).unwrap_err();
    assert!(matches!(error, RouterError::Panicked { backend: "cpu" }), "{error}");
}

#[test]
fn the_kernels_watchdog_fires_when_the_host_falls_silent() {
    let deadline = Duration::from_millis(150);
    let setup = KernelSetup { deadline, ..KernelSetup::default() };
    let mut twin = Persistent::new(Twin::new(2), &program(), setup).unwrap();
    let mut out = Vec::new();
    twin.poll(&mut out).unwrap();
    let asked = Instant::now();
    // No sign of life for ten deadlines.
    while asked.elapsed() < 10 * deadline {
        std::thread::yield_now();
    }
    let error = twin.poll(&mut out).unwrap_err();
    assert!(matches!(error, RouterError::Left { why: KernelExit::HostSilent, .. }), "{error}");
    let error = twin.stop().unwrap_err();
    assert!(matches!(error, RouterError::Left { why: KernelExit::HostSilent, .. }), "{error}");
}

#[test]
fn a_kernel_hears_a_host_that_is_idle_but_alive() {
    let deadline = Duration::from_millis(150);
    let setup = KernelSetup { deadline, ..KernelSetup::default() };
    let mut twin = Persistent::new(Twin::new(2), &program(), setup).unwrap();
    let (asked, mut out) = (Instant::now(), Vec::new());
    while asked.elapsed() < 10 * deadline {
        twin.poll(&mut out).unwrap();
        std::thread::yield_now();
    }
    check("twin after a pause", Commit::Device, &mut twin, 1000, &RouteOptions::default());
}

#[test]
fn settings_that_cannot_be_are_named() {
    let error = |e: Result<CpuThreads, RouterError>| e.err().map(|e| e.to_string()).unwrap_or_default();
    let cpu = |threads, slots| CpuThreads::new(&program(), threads, slots, Commit::Device, DEADLINE);
    assert_eq!(error(cpu(0, 1024)), "threads = 0: allowed are 1 to 1024");
    assert_eq!(error(cpu(1, 1000)), "slots = 1000: must be a power of two, up to 2^31");
    let options = RouteOptions { batch: 0, ..RouteOptions::default() };
    let refused = route(&mut Made { next: 0, end: 1 }, &mut cpu(1, 1024).unwrap(), &mut Nowhere, &options);
    assert_eq!(refused.unwrap_err().to_string(), "batch = 0: allowed are 1 and more, up to half the slots");
}

#[test]
fn functions_that_kernels_have_route_alike_on_threads_and_on_the_kernel() {
    use router::setup::{Choice, FunctionNames, RouterSpec};
    let table = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("backends-routes.txt");
    std::fs::write(&table, "10.0.0.0/8 1\n172.16.0.0/12 2\n192.0.2.0/24 3\n").unwrap();
    let run = |function, backend| {
        let (packets, deadline_s, table) = (Some(3000), Some(20.0), Some(table.clone()));
        let (function, search) = (FunctionNames::try_from(String::from(function)).unwrap(), None);
        let spec = RouterSpec {
            function,
            search,
            backend,
            packets,
            deadline_s,
            table,
            ordered: true,
            ..RouterSpec::default()
        };
        router::setup::run(&spec)
    };
    for function in ["check", "lookup", "ttl", "classify", "inspect", "fragment", "check, classify,inspect,lookup,ttl"]
    {
        let (cpu, twin) = (run(function, Choice::Cpu).unwrap().report, run(function, Choice::Twin).unwrap().report);
        assert_eq!(cpu.packets, 3000, "{function:?}");
        assert_eq!((cpu.forwarded, cpu.dropped, cpu.ports), (twin.forwarded, twin.dropped, twin.ports), "{function:?}");
        let untimed = |share: &MemberWork| MemberWork { time_ns: None, ..*share };
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
    let refused = FunctionNames::try_from(String::from("lookup,nat")).unwrap_err().to_string();
    assert!(refused.starts_with("function = lookup,nat: must be of forward, check"), "{refused}");
    let refused = run("ttl,ttl,ttl,ttl,ttl,ttl,ttl", Choice::Cpu).unwrap_err().to_string();
    assert_eq!(refused, "function = 7 functions: a chain has 1 to 6 of them");
}

/// UDP packets of 8 to 5,000 bytes to 10.0.0.0/8, some with options, some that may not be cut, some of IPv6.
fn long_packets(count: u32) -> Vec<Packet> {
    let long = |i: u32| {
        let bytes = 8 + (i * 389 % 5000) as usize;
        let mut udp = [(4000 + i as u16).to_be_bytes(), [0x30, 0x3a], (bytes as u16).to_be_bytes(), [0, 0]].concat();
        udp.extend((8..bytes).map(|n| ((n as u32 * 31 + i) >> 2) as u8));
        let mut frame = vec![2; 12];
        if i % 11 == 3 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((bytes as u16).to_be_bytes());
            frame.extend([17, 64]);
            frame.extend((0x2001_0db8_u128 << 96 | 5).to_be_bytes());
            frame.extend((0x2001_0db8_u128 << 96 | 6).to_be_bytes());
        } else {
            // Loose source route is copied to all fragments, record route is not.
            let options: &[u8] =
                if i.is_multiple_of(3) { &[131, 7, 4, 10, 0, 0, 1, 7, 7, 4, 0, 0, 0, 0, 0, 0] } else { &[] };
            let flags = if i % 7 == 5 { 0x40 } else { 0 };
            let mut ip = vec![0x45 + (options.len() / 4) as u8, 0];
            ip.extend([((20 + options.len() + bytes) as u16).to_be_bytes(), (i as u16).to_be_bytes()].concat());
            ip.extend([flags, 0, 64, 17, 0, 0, 192, 0, 2, 1, 10, 1, 2, 7]);
            ip.extend(options);
            let sum = packet::internet_checksum(&ip).to_be_bytes();
            ip[10..12].copy_from_slice(&sum);
            frame.extend([8, 0]);
            frame.extend(ip);
        }
        frame.extend(udp);
        let mut packet = Packet { id: PacketId(u64::from(i)), ..Packet::default() };
        packet.set_frame(&frame, frame.len() as u32);
        packet.arrival = Ps(u64::from(i) * 1_000_000);
        packet
    };
    (0..count).map(long).collect()
}

struct List(std::vec::IntoIter<Packet>);

impl FrameSource for List {
    fn next(&mut self, packet: &mut Packet) -> Result<NextFrame, RouterError> {
        match self.0.next() {
            Some(next) => *packet = next,
            None => return Ok(NextFrame::End),
        }
        Ok(NextFrame::Packet)
    }
}

/// What leaves where one thread does one packet after the other.
fn one_by_one(function: &mut Function, packets: &[Packet]) -> Vec<(Packet, PortId)> {
    let mut left = Vec::new();
    for packet in packets {
        let (mut burst, mut verdicts) = ([packet.clone()], Vec::new());
        function.process_burst(Ps::ZERO, &mut burst, &mut probe::Null, &mut verdicts);
        if let Verdict::Forward { port } = verdicts[0] {
            left.push((burst[0].clone(), port));
            left.extend(function.fragments().iter().map(|fragment| (fragment.clone(), port)));
        }
    }
    left
}

#[test]
fn fragments_leave_once_behind_the_first_of_their_packet_by_every_backend_and_commit() {
    let routes = [("10.0.0.0/8".parse().unwrap(), NextHop::from(2))];
    let lookup = Lookup::new(routes.into_iter(), 3, Structure::Poptrie).unwrap();
    let chain = RouterProgram::chain(vec![
        RouterProgram::check(ChecksumCheck::Software, 3),
        RouterProgram::lookup(lookup, 3),
        RouterProgram::ttl(3),
        RouterProgram::fragment(576, 3).unwrap(),
    ]);
    let packets = long_packets(5_000);
    for program in [RouterProgram::fragment(1500, 2).unwrap(), RouterProgram::fragment(68, 2).unwrap(), chain.unwrap()]
    {
        let expected = one_by_one(&mut program.function().clone(), &packets);
        assert!(expected.len() > packets.len(), "packets are cut");
        for commit in [Commit::Device, Commit::Host, Commit::Unordered] {
            // Few slots: each is used many times, by packets that are cut and by others.
            let setup =
                KernelSetup { commit, deadline: DEADLINE, slots: 256, frame_bytes: 256, ..KernelSetup::default() };
            let mut backends: Vec<Box<dyn Backend>> =
                vec![Box::new(Persistent::new(Twin::new(3), &program, setup).unwrap())];
            if commit != Commit::Host {
                backends.push(Box::new(CpuThreads::new(&program, 3, 256, commit, DEADLINE).unwrap()));
            }
            if commit == Commit::Device {
                backends.push(Box::new(RunToCompletion::new(&program, 64).unwrap()));
            }
            for mut backend in backends {
                let name = format!("{} on {}, {commit:?}", program.name(), backend.name());
                let mut kept = Kept::default();
                let mut source = List(packets.clone().into_iter());
                let report = route(&mut source, &mut *backend, &mut kept, &RouteOptions::default()).unwrap();
                assert_eq!(report.forwarded + report.fragments, kept.0.len() as u64, "{name}");
                let mut sent = kept.0;
                if !commit.is_ordered() {
                    // Those of a packet stay behind each other.
                    sent.sort_by_key(|(packet, _)| packet.id);
                }
                assert_eq!(sent.len(), expected.len(), "{name}");
                for (sent, expected) in sent.iter().zip(&expected) {
                    assert_eq!(sent, expected, "{name}");
                }
                assert!(report.fragmented > 1_000 && report.fragments > report.fragmented, "{name}: {report:?}");
                let why = report.dropped.get("fragmentation_needed").copied().unwrap_or(0);
                assert!(why > 400, "{name}: {:?}", report.dropped);
            }
        }
    }
}

/// An independent program puts together what `wirespeed router run --function fragment --out` writes, on threads and by the kernel.
#[test]
fn tshark_puts_the_fragments_in_a_capture_together() {
    use router::setup::{Choice, FunctionNames, RouterSpec};
    use router::sink::{FrameSink, PcapSink};
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (whole, packets) = (folder.join("fragments-whole.pcap"), long_packets(400));
    let mut sink = PcapSink::create(&whole, Duration::ZERO).unwrap();
    packets.iter().for_each(|packet| sink.send(packet, PortId(0)).unwrap());
    sink.finish().unwrap();
    let run = |backend, name: &str| {
        let out = folder.join(name);
        let spec = RouterSpec {
            function: FunctionNames::try_from(String::from("fragment")).unwrap(),
            mtu: Some(1280),
            backend,
            deadline_s: Some(20.0),
            capture: Some(whole.clone()),
            out: Some(out.clone()),
            ordered: true,
            threads: Some(2),
            ..RouterSpec::default()
        };
        let report = router::setup::run(&spec).unwrap().report;
        assert!(report.fragments > 400 && report.dropped["packet_too_big"] > 10, "{report:?}");
        out
    };
    let (cpu, twin) = (run(Choice::Cpu, "fragments-cpu.pcap"), run(Choice::Twin, "fragments-twin.pcap"));
    assert!(std::fs::read(&cpu).unwrap() == std::fs::read(&twin).unwrap(), "the same bytes");
    let works = |program| std::process::Command::new(program).arg("--version").output();
    if !works("tshark").is_ok_and(|output| output.status.success()) {
        println!("skipped: needs tshark (Debian: apt install tshark)");
        return;
    }
    let seen = |file: &std::path::Path| {
        let output = std::process::Command::new("tshark")
            .args([
                "-o",
                "ip.defragment:TRUE",
                "-o",
                "ip.check_checksum:TRUE",
                "-T",
                "fields",
                "-e",
                "ip.checksum.status",
            ])
            .args(["-e", "udp.srcport", "-e", "udp.payload", "-r"])
            .arg(file)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let payloads = |text: &str| -> BTreeMap<String, String> {
        let fields = text.lines().filter_map(|line| line.split_once('\t')?.1.split_once('\t'));
        fields.filter(|(port, _)| !port.is_empty()).map(|(port, payload)| (port.into(), payload.into())).collect()
    };
    let (before, after) = (seen(&whole), seen(&twin));
    assert!(after.lines().all(|line| line.starts_with("1\t") || line.starts_with('\t')), "every checksum is right");
    let (before, after) = (payloads(&before), payloads(&after));
    // What was refused is missing, and nothing else; what was cut is whole again.
    let refused =
        |packet: &Packet| packet.frame_bytes > 1294 && (packet.data[12] == 0x86 || packet.data[20] & 0x40 != 0);
    assert_eq!(before.len(), packets.len());
    assert_eq!(after.len(), packets.iter().filter(|packet| !refused(packet)).count());
    assert!(after.iter().all(|(port, payload)| before[port] == *payload), "payloads are whole");
}

#[test]
fn fragmentation_ends_a_chain_and_settings_for_other_functions_are_refused() {
    use router::setup::{FunctionNames, RouterSpec};
    let run = |function: &str, spec: RouterSpec| {
        let function = FunctionNames::try_from(String::from(function)).unwrap();
        router::setup::run(&RouterSpec { function, packets: Some(1), ..spec }).unwrap_err().to_string()
    };
    let refused =
        "function = fragment,ttl: fragment must be the last of a chain: what follows would see the first fragment only";
    assert_eq!(run("fragment,ttl", RouterSpec::default()), refused);
    let mtu = |mtu| RouterSpec { mtu: Some(mtu), ..RouterSpec::default() };
    assert_eq!(run("ttl", mtu(1500)), "mtu = 1500: only with the function fragment");
    assert!(run("fragment", mtu(67)).contains("fragment.mtu = 67: allowed is 68 to 65535"));
    let structure = RouterSpec { structure: Some(Structure::Poptrie), ..RouterSpec::default() };
    assert_eq!(run("forward", structure), "structure = Poptrie: only with the function lookup: forward has DIR-24-8");
}

/// Two copies of a table: one is looked up in by workers while the other is updated, and they change places. A worker that has
/// drawn no task since then holds the other one still.
#[test]
fn routes_change_while_packets_go_and_packets_posted_after_see_the_latest() {
    for structure in [Structure::Dir24, Structure::Poptrie] {
        let routes = || [("10.0.0.0/8".parse().unwrap(), NextHop::from(1))].into_iter();
        let lookup = || Lookup::new(routes(), 64, structure).unwrap();
        let chain = |lookup: &Lookup| {
            RouterProgram::chain(vec![RouterProgram::ttl(64), RouterProgram::lookup(lookup.clone(), 64)]).unwrap()
        };
        let mut copies = [lookup(), lookup()];
        let mut cpu = CpuThreads::new(&chain(&copies[0]), 2, 4096, Commit::Device, DEADLINE).unwrap();
        let refused = cpu.replace(&RouterProgram::ttl(64)).unwrap_err().to_string();
        assert_eq!(refused, "function = ttl: must be the functions that the backend was made for");
        let (mut number, mut spare, mut out, mut waits) = (0u64, Packet::default(), Vec::new(), 0u64);
        let mut behind = Vec::new();
        for round in 0..200u16 {
            // Packets of the round before are still under way.
            let (live, prefix) = (usize::from(round % 2), "10.1.2.0/24".parse().unwrap());
            let next_hop = (round % 5 != 4).then(|| NextHop::from(round % 60 + 2));
            let expected = if let Some(hop) = next_hop { hop.id() as u16 } else { 1 };
            // The other copy has to hear of what this one has heard of before.
            behind.push((prefix, next_hop));
            let copy = &mut copies[1 - live];
            let mut changes = behind.clone().into_iter().peekable();
            while let Some(&(prefix, next_hop)) = changes.peek() {
                match copy.update(prefix, next_hop) {
                    Some(changed) => {
                        changed.unwrap();
                        changes.next();
                    }
                    // A worker still looks up in it: a task makes it see that it was replaced.
                    None => {
                        waits += 1;
                        cpu.put(number, &mut packet(number * 5 * 77 + 1));
                        assert!(cpu.post(number, 1).unwrap());
                        number += 1;
                        settle(&mut cpu, number, &mut out, &mut spare, &mut Vec::new());
                    }
                }
            }
            behind = vec![(prefix, next_hop)];
            cpu.replace(&chain(copy)).unwrap();
            let first = number;
            for _ in 0..8 {
                // To 10.1.2.7, with a time to live.
                (0..32).for_each(|i| cpu.put(number + i, &mut packet((number + i) * 35 + 1)));
                assert!(cpu.post(number, 32).unwrap());
                number += 32;
            }
            let mut verdicts = Vec::new();
            settle(&mut cpu, number, &mut out, &mut spare, &mut verdicts);
            let after = verdicts.iter().filter(|(of, _)| *of >= first);
            assert_eq!(after.clone().count(), 256);
            for (of, verdict) in after {
                assert_eq!(*verdict, Verdict::Forward { port: PortId(expected) }, "{structure:?}, round {round}, {of}");
            }
        }
        cpu.stop().unwrap();
        let shares = cpu.shares();
        assert_eq!(shares.iter().map(|share| share.packets).collect::<Vec<_>>(), [number; 2], "{waits} waits");
    }
}

/// Takes what is committed until nothing is under way.
fn settle(
    cpu: &mut CpuThreads,
    end: u64,
    out: &mut Vec<Committed>,
    spare: &mut Packet,
    verdicts: &mut Vec<(u64, Verdict)>,
) {
    let mut last = None;
    while last != Some(end) {
        cpu.poll(out).unwrap();
        for done in out.drain(..) {
            for number in done.first..done.first + u64::from(done.count) {
                verdicts.push((number, cpu.take(number, spare).unwrap()));
            }
            last = Some(done.first + u64::from(done.count));
        }
        std::thread::yield_now();
    }
}
