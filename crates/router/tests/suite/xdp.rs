//! Sockets of AF_XDP at the end of a cable: what comes is what was sent, what is lost is counted, what leaves leaves in order, and
//! nothing stays at an interface whose owner has ended.
//!
//! That needs the rights to a network namespace and to a program at its interface; where there are none, each test says so.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use functions::{ChecksumCheck, Forward, ForwardSpec, NextHop};
use packet::{L3, Packet};
use router::route::BatchTimeout;
use router::setup::{FunctionName, RouterSpec, run};
use router::sink::{FrameSink, XdpSink};
use router::source::{FrameSource, NextFrame, XdpCopy, XdpInterface, XdpMode, XdpSocket, XdpSocketSpec};
use router::{Commit, CpuThreads, RouteOptions, RouterError, RouterProgram, route};

use crate::interface::{Wire, fragments, frame, go_on, ip, pair_of, take, text, with_a_cable, with_a_cable_of};

const DEADLINE: Duration = Duration::from_secs(20);

fn in_mode(mode: XdpMode) -> XdpSocketSpec {
    XdpSocketSpec { mode, ..XdpSocketSpec::new(1) }
}

/// Interface veth0 as the kernel tells of it.
fn told() -> String {
    let told = Command::new("ip").args(["-d", "link", "show", "veth0"]).output().unwrap();
    String::from_utf8_lossy(&told.stdout).into_owned()
}

/// An interface; none, and a word about it, where a kernel or a right is missing.
fn open(spec: &XdpSocketSpec) -> Option<XdpInterface> {
    match XdpInterface::open("veth0", spec) {
        Err(RouterError::Interface { source, .. })
            if matches!(source.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) =>
        {
            eprintln!("skipped: {source}");
            None
        }
        opened => Some(opened.unwrap()),
    }
}

fn only_socket(spec: &XdpSocketSpec) -> Option<(XdpInterface, XdpSocket, XdpSink)> {
    let interface = open(spec)?;
    let (source, sink) = interface.socket(0, go_on()).unwrap();
    Some((interface, source, sink))
}

/// All that has come, and comes within a tenth of a second of the last.
fn drain(source: &mut XdpSocket) -> Vec<Packet> {
    let (mut taken, mut packet, mut heard) = (Vec::new(), Packet::default(), Instant::now());
    while heard.elapsed() < Duration::from_millis(100) {
        if source.next(&mut packet).unwrap() == NextFrame::Packet {
            taken.push(packet.clone());
            heard = Instant::now();
        }
    }
    taken
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[34..38].try_into().unwrap())
}

#[test]
fn frames_come_as_they_were_sent_in_either_mode() {
    for mode in [XdpMode::Native, XdpMode::Generic] {
        with_a_cable(move || {
            let Some((interface, mut source, _sink)) = only_socket(&in_mode(mode)) else { return };
            assert_eq!((interface.is_native(), source.is_zero_copy()), (mode == XdpMode::Native, false));
            let wire = Wire::open();
            let tags: [&[[u16; 2]]; 3] = [&[], &[[0x8100, 42]], &[[0x88a8, 7], [0x8100, 0xe064]]];
            // Many rounds of the 128 chunks, each in a portion that there is room for.
            for round in 0..60 {
                let portion: Vec<Vec<u8>> = (0..60)
                    .map(|i| {
                        frame(round * 60 + i, 60 + (i as usize * 37 + round as usize) % 1400, tags[i as usize % 3])
                    })
                    .collect();
                portion.iter().for_each(|frame| wire.send(frame));
                let came = take(&mut source, portion.len());
                assert_eq!(came.len(), portion.len(), "{mode:?}, round {round}: {:?}", source.losses());
                for (packet, frame) in came.iter().zip(&portion) {
                    assert_eq!((&packet.data, packet.l3), (frame, L3::V4), "{mode:?}");
                }
                assert_eq!(came[0].id.0, u64::from(round) * 60);
                assert!(came.is_sorted_by_key(|packet| packet.arrival), "{mode:?}");
            }
            assert_eq!(source.missed(), Some(0));
        });
    }
}

#[test]
fn each_frame_is_taken_or_counted_as_lost() {
    for mode in [XdpMode::Native, XdpMode::Generic] {
        with_a_cable(move || {
            let Some((_interface, mut source, _sink)) = only_socket(&in_mode(mode)) else { return };
            let wire = Wire::open();
            let mut taken = 0;
            for round in 1..=3 {
                // More than its 128 chunks, fewer than the cable holds at once.
                (0..200).for_each(|n| wire.send(&frame(n, 100, &[])));
                let came = drain(&mut source);
                taken += came.len() as u64;
                assert_eq!(came.len(), 128, "{mode:?}: as many as there are chunks");
                assert!(came.iter().map(|p| number(&p.data)).eq(0..128), "what was kept is the first");
                let losses = source.losses().unwrap();
                assert_eq!(taken + source.missed().unwrap(), round * 200, "{mode:?}: {losses:?}");
                assert!(losses.no_chunk > 0 && losses.refused_descriptors == 0, "{losses:?}");
            }
        });
    }
}

#[test]
fn a_frame_has_arrived_when_the_program_saw_it() {
    for mode in [XdpMode::Native, XdpMode::Generic] {
        with_a_cable(move || {
            let Some((_interface, mut source, _sink)) = only_socket(&in_mode(mode)) else { return };
            let wire = Wire::open();
            // In a chunk that has had others as well.
            for _ in 0..300 {
                wire.send(&frame(1, 1000, &[]));
                assert_eq!(take(&mut source, 1).len(), 1);
            }
            let before = Instant::now();
            wire.send(&frame(0, 60, &[]));
            let after = Instant::now();
            std::thread::sleep(Duration::from_millis(150));
            assert_eq!(take(&mut source, 1).len(), 1);
            let arrived = source.arrived().expect("the program has written the time");
            let slack = Duration::from_millis(20);
            let told = (arrived.duration_since(before), before.duration_since(arrived));
            assert!(arrived + slack >= before && arrived <= after + slack, "{mode:?}: {told:?} after, before");
        });
    }
}

#[test]
fn a_socket_ends_when_it_is_told_to_and_not_before_its_frames_are_read() {
    with_a_cable(|| {
        let Some(interface) = open(&XdpSocketSpec::new(1)) else { return };
        let stop = go_on();
        let (mut source, _sink) = interface.socket(0, stop.clone()).unwrap();
        let wire = Wire::open();
        (0..10).for_each(|n| wire.send(&frame(n, 60, &[])));
        std::thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(take(&mut source, 20).len(), 10);
        assert_eq!(source.next(&mut Packet::default()).unwrap(), NextFrame::End);
    });
}

#[test]
fn frames_of_an_af_xdp_socket_leave_by_it_in_order() {
    for mode in [XdpMode::Native, XdpMode::Generic] {
        with_a_cable(move || {
            const FRAMES: u32 = 4000;
            let Some((_interface, mut source, mut sink)) = only_socket(&in_mode(mode)) else { return };
            let wire = Wire::open();
            let spec = ForwardSpec { checksum: ChecksumCheck::Software, ..ForwardSpec::default() };
            let forward =
                Forward::new([("10.0.0.0/8".parse().unwrap(), NextHop::from(1))].into_iter(), 2, &spec).unwrap();
            let program = RouterProgram::forward(forward);
            let routed = std::thread::scope(|scope| {
                let routed = scope.spawn(move || {
                    let mut cpu = CpuThreads::new(&program, 2, 1 << 12, Commit::Device, DEADLINE).unwrap();
                    let options = RouteOptions {
                        timeout: BatchTimeout::After(Duration::from_micros(200)),
                        packets: Some(u64::from(FRAMES)),
                        time: Some(DEADLINE),
                        ..RouteOptions::default()
                    };
                    route(&mut source, &mut cpu, &mut sink, &options).unwrap()
                });
                let (mut seen, mut sent, begun) = (Vec::new(), 0, Instant::now());
                while seen.len() < FRAMES as usize && begun.elapsed() < DEADLINE {
                    if sent < FRAMES && sent as usize - seen.len() < 64 {
                        wire.send(&frame(sent, 100, &[]));
                        sent += 1;
                        continue;
                    }
                    seen.extend(wire.receive());
                }
                let routed = routed.join().unwrap();
                let numbers: Vec<u32> = seen.iter().map(|frame| number(frame)).collect();
                assert_eq!(numbers.len(), FRAMES as usize, "{mode:?}: {routed:?}");
                assert!(numbers.iter().copied().eq(0..FRAMES), "{mode:?}: in order, each once: {:?}", &numbers[..40]);
                assert!(seen.iter().all(|frame| frame[0] == 2), "with the next hop's addresses");
                routed
            });
            assert_eq!((routed.packets, routed.forwarded, routed.reordered), (4000, 4000, 0));
            assert_eq!((routed.unsent, routed.missed), (0, Some(0)));
            assert_eq!(routed.delay.unwrap().packets, 4000);
        });
    }
}

#[test]
fn a_frame_that_is_longer_than_a_chunk_is_counted_as_not_sent_and_costs_no_chunk() {
    with_a_cable(|| {
        let Some((_interface, _source, mut sink)) = only_socket(&XdpSocketSpec::new(1)) else { return };
        let wire = Wire::open();
        let mut packet = Packet::default();
        for _ in 0..300 {
            packet.set_frame(&vec![0; 5000], 5000);
            sink.send(&packet, units::PortId(0)).unwrap();
        }
        assert_eq!(sink.refused(), 300);
        packet.set_frame(&frame(7, 60, &[]), 60);
        sink.send(&packet, units::PortId(0)).unwrap();
        sink.finish().unwrap();
        let begun = Instant::now();
        let came = loop {
            if let Some(came) = wire.receive() {
                break came;
            }
            assert!(begun.elapsed() < DEADLINE);
        };
        assert_eq!((number(&came), sink.refused()), (7, 300));
    });
}

#[test]
fn queues_have_a_socket_each_and_flows_stay_in_one() {
    with_a_cable_of(2, || {
        let Some(interface) = open(&XdpSocketSpec { queues: 2, ..XdpSocketSpec::new(1) }) else { return };
        let mut sockets: Vec<XdpSocket> = (0..2).map(|queue| interface.socket(queue, go_on()).unwrap().0).collect();
        let wire = Wire::open();
        let mut by_flow = vec![[0; 2]; 64];
        for _ in 0..4 {
            for flow in 0..64u8 {
                let mut sent = frame(u32::from(flow), 100, &[]);
                sent[26] = flow;
                wire.send(&sent);
            }
            let mut came = 0;
            for (queue, socket) in sockets.iter_mut().enumerate() {
                for packet in drain(socket) {
                    by_flow[usize::from(packet.data[26])][queue] += 1;
                    came += 1;
                }
            }
            assert_eq!(came, 64, "each frame comes to one of the sockets");
        }
        assert!(by_flow.iter().all(|queues| queues.contains(&0)), "{by_flow:?}");
        for queue in 0..2 {
            assert!(by_flow.iter().any(|queues| queues[queue] > 0), "queue {queue} had nothing: {by_flow:?}");
        }
    });
}

#[test]
fn fragments_stay_in_the_queue_of_their_addresses_whatever_their_ports() {
    with_a_cable_of(2, || {
        let Some(interface) = open(&XdpSocketSpec { queues: 2, ..XdpSocketSpec::new(1) }) else { return };
        let mut sockets: Vec<XdpSocket> = (0..2).map(|queue| interface.socket(queue, go_on()).unwrap().0).collect();
        let wire = Wire::open();
        let (mut by_pair, mut came) = (BTreeMap::new(), 0);
        for pair in 0..16 {
            // No more at once than there are chunks.
            for (ports, is_v6) in [(1000, false), (7770, false), (1000, true), (7770, true)] {
                fragments(pair, ports, is_v6).iter().for_each(|sent| wire.send(sent));
            }
            for (queue, socket) in sockets.iter_mut().enumerate() {
                for packet in drain(socket) {
                    by_pair.entry(pair_of(&packet.data)).or_insert([0; 2])[queue] += 1;
                    came += 1;
                }
            }
        }
        assert_eq!((came, by_pair.len()), (16 * 12, 32));
        assert!(by_pair.values().all(|queues| queues.contains(&6)), "{by_pair:?}");
        assert!((0..2).all(|queue| by_pair.values().any(|queues| queues[queue] > 0)), "{by_pair:?}");
    });
}

#[test]
fn a_run_that_takes_a_part_of_the_queues_says_how_many_there_are() {
    with_a_cable_of(2, || {
        let notes = |queues| {
            let spec = RouterSpec {
                interface: Some("veth0".into()),
                ring_mib: Some(1),
                xdp: Some(XdpMode::Auto),
                queues,
                threads: Some(2),
                seconds: Some(0.05),
                function: FunctionName::Ttl.into(),
                ..RouterSpec::default()
            };
            match run(&spec) {
                Err(RouterError::Interface { source, .. }) if source.raw_os_error() == Some(libc::EPERM) => None,
                routed => Some(routed.unwrap().notes.join("; ")),
            }
        };
        let Some(part) = notes(None) else { return eprintln!("skipped: no right to AF_XDP") };
        assert!(part.contains("veth0 has 2 receive queues, of which this run has 1: "), "{part}");
        assert!(part.contains("--queues 2 takes all"), "{part}");
        let all = notes(Some(2)).unwrap();
        assert!(!all.contains("receive queues"), "{all}");
    });
}

#[test]
fn what_cannot_be_done_is_named() {
    let wrong = |spec| text(XdpInterface::open("lo", &spec));
    assert_eq!(wrong(XdpSocketSpec::new(3)), "ring_mib = 3: with AF_XDP allowed are powers of two, 1 to 1024 MiB");
    assert_eq!(wrong(XdpSocketSpec { queues: 0, ..XdpSocketSpec::new(1) }), "queues = 0: allowed are 1 to 1024");
    assert_eq!(
        text(XdpInterface::open("nowhere0", &XdpSocketSpec::new(1))),
        "interface nowhere0: looking it up: No such device (os error 19)"
    );
    with_a_cable(|| {
        let spec = XdpSocketSpec { queues: 2, ..XdpSocketSpec::new(1) };
        let Some(interface) = open(&spec) else { return };
        let (mut source, _sink) = interface.socket(0, go_on()).unwrap();
        assert_eq!(
            text(interface.socket(0, go_on())),
            "interface veth0: binding to its queue: Device or resource busy (os error 16): another socket has this \
             queue; end its owner, or take fewer queues"
        );
        assert_eq!(
            text(interface.socket(1, go_on())),
            "interface veth0: binding to its queue: Invalid argument (os error 22): it has no such queue, or none for XDP \
             (ethtool -l <name>); take fewer queues"
        );
        assert_eq!(
            text(interface.socket(2, go_on())),
            "queue = 2: must be below the number of queues that the interface was opened with"
        );
        let other = text(XdpInterface::open("veth0", &spec));
        assert!(other.starts_with("interface veth0: attaching the XDP program: "), "{other}");
        assert!(other.ends_with("end its owner, or ip link set <name> xdp off"), "{other}");
        ip("link set veth0 down").unwrap();
        let (begun, mut packet) = (Instant::now(), Packet::default());
        let error = loop {
            match source.next(&mut packet) {
                Ok(_) => assert!(begun.elapsed() < DEADLINE, "an interface that is down goes unnoticed"),
                Err(error) => break error,
            }
        };
        let down =
            "interface veth0: receiving: Network is down (os error 100): it is down or gone (ip link set <name> up)";
        assert_eq!(error.to_string(), down);
    });
    with_a_cable(|| {
        let spec = XdpSocketSpec { copy: XdpCopy::ZeroCopy, ..XdpSocketSpec::new(1) };
        let Some(interface) = open(&spec) else { return };
        assert_eq!(
            text(interface.socket(0, go_on())),
            "interface veth0: binding to its queue: Operation not supported (os error 95): its driver has no zero-copy mode; let \
             the kernel copy"
        );
        // The call itself, and not the library's, which changes all threads: this one is nobody from here on.
        // SAFETY: plain integers.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) }, 0);
        assert_eq!(
            text(XdpInterface::open("veth0", &XdpSocketSpec::new(1))),
            "interface veth0: making a map of sockets: Operation not permitted (os error 1): AF_XDP needs CAP_NET_RAW, \
             CAP_NET_ADMIN and CAP_BPF (run as root, or setcap cap_net_raw,cap_net_admin,cap_bpf+ep)"
        );
    });
}

/// What taking and sending a frame takes of a core, where frames wait: the median of portions of 100, of 60 bytes.
///
/// `cargo test -p wirespeed-router --test suite --release -- --ignored --nocapture what_a_frame_takes`
#[test]
#[ignore = "it measures the host"]
fn what_a_frame_takes_of_a_core_by_each_way() {
    const PORTION: usize = 100;
    fn measure(name: &str, source: &mut dyn FrameSource, sink: &mut dyn FrameSink) {
        let (wire, mut packet) = (Wire::open(), Packet::default());
        let (mut takes, mut sends) = (Vec::new(), Vec::new());
        for _ in 0..500 {
            (0..PORTION as u32).for_each(|n| wire.send(&frame(n, 60, &[])));
            // A ring of blocks hands over what it has after a millisecond, or a tick.
            std::thread::sleep(Duration::from_millis(6));
            let (begun, mut came) = (Instant::now(), 0);
            while came < PORTION && begun.elapsed() < DEADLINE {
                came += usize::from(source.next(&mut packet).unwrap() == NextFrame::Packet);
            }
            takes.push(begun.elapsed().as_nanos() as f64 / PORTION as f64);
            assert_eq!(came, PORTION, "{name}");
            let begun = Instant::now();
            (0..PORTION).for_each(|_| sink.send(&packet, units::PortId(0)).unwrap());
            sink.flush().unwrap();
            sends.push(begun.elapsed().as_nanos() as f64 / PORTION as f64);
            let (begun, mut left) = (Instant::now(), 0);
            while left < PORTION && begun.elapsed() < DEADLINE {
                left += usize::from(wire.receive().is_some());
            }
            assert_eq!((left, sink.refused()), (PORTION, 0), "{name}");
        }
        takes.sort_by(f64::total_cmp);
        sends.sort_by(f64::total_cmp);
        let (take, send) = (takes[takes.len() / 2], sends[sends.len() / 2]);
        eprintln!(
            "{name:>14}: take {take:4.0} ns ({:5.2} Mpps), send {send:5.0} ns ({:5.2} Mpps), both {:5.2} Mpps",
            1e3 / take,
            1e3 / send,
            1e3 / (take + send)
        );
    }
    with_a_cable(|| {
        let mut socket = router::source::RawSocket::open("veth0", go_on()).unwrap();
        let mut sink = socket.sender();
        measure("raw socket", &mut socket, &mut sink);
    });
    with_a_cable(|| {
        let spec = router::source::RingSpec::new(4);
        let mut ring = router::source::PacketRing::open("veth0", &spec, go_on()).unwrap();
        let mut sink = ring.sender();
        measure("TPACKET_V3", &mut ring, &mut sink);
    });
    for (name, mode) in [("AF_XDP native", XdpMode::Native), ("AF_XDP generic", XdpMode::Generic)] {
        with_a_cable(move || {
            let (_interface, mut source, mut sink) = only_socket(&XdpSocketSpec { mib: 4, ..in_mode(mode) }).unwrap();
            measure(name, &mut source, &mut sink);
        });
    }
}

/// What a test starts as a process of its own, and kills.
#[test]
#[ignore = "a part of the next test"]
fn an_interface_is_held_until_the_process_is_killed() {
    let interface = XdpInterface::open("veth0", &XdpSocketSpec::new(1)).unwrap();
    let _sockets = interface.socket(0, go_on()).unwrap();
    eprintln!("held");
    std::thread::sleep(DEADLINE);
}

#[test]
fn nothing_stays_at_an_interface_whose_owner_has_ended_or_was_killed() {
    with_a_cable(|| {
        let Some((interface, source, sink)) = only_socket(&XdpSocketSpec::new(1)) else { return };
        assert!(told().contains("xdp"), "{}", told());
        drop(interface);
        drop(source);
        assert!(told().contains("xdp"), "who sends still has it");
        drop(sink);
        assert!(!told().contains("prog/xdp"), "{}", told());
        // It is started from this thread, so it is in this network.
        let mut owner = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "xdp::an_interface_is_held_until_the_process_is_killed", "--ignored", "--nocapture"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said =
            BufReader::new(owner.stderr.take().unwrap()).lines().map_while(Result::ok).any(|line| line == "held");
        let held = told();
        owner.kill().unwrap();
        owner.wait().unwrap();
        assert!(said && held.contains("prog/xdp"), "{held}");
        let begun = Instant::now();
        while told().contains("prog/xdp") {
            assert!(begun.elapsed() < DEADLINE, "{}", told());
        }
        assert!(only_socket(&XdpSocketSpec::new(1)).is_some(), "another one can have it");
    });
}
