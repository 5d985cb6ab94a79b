//! Frames of a network interface, by a call each and by a ring, on two ends of a cable in a network of their own.
//!
//! That needs the right to make a network namespace; where there is none, each test says so and tries nothing.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use functions::{ChecksumCheck, Forward, ForwardSpec, NextHop};
use packet::{L3, Packet};
use router::route::BatchTimeout;
use router::setup::RouterSpec;
use router::source::{FanoutGroup, FrameSource, NextFrame, PacketRing, RawSocket, RingSpec};
use router::{Commit, CpuThreads, RouteOptions, RouterError, RouterProgram, route};

const DEADLINE: Duration = Duration::from_secs(20);

pub fn ip(arguments: &str) -> Result<(), String> {
    let done = Command::new("ip").args(arguments.split(' ')).output().map_err(|e| format!("ip: {e}"))?;
    if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).trim().to_string()) }
}

/// Runs `test` on a thread with a network of its own, in which veth0 and veth1 are the ends of a cable.
pub fn with_a_cable(test: impl FnOnce() + Send + 'static) {
    with_a_cable_of(1, test);
}

/// As [`with_a_cable`], whose ends have so many queues.
pub fn with_a_cable_of(queues: u32, test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        // SAFETY: plain integers; only this thread is moved, and what it starts.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            eprintln!("skipped: no network namespace: {}", io::Error::last_os_error());
            return;
        }
        let queues = format!("numrxqueues {queues} numtxqueues {queues}");
        let cable = format!("link add veth0 {queues} type veth peer name veth1 {queues}");
        for made in [
            cable.as_str(),
            // Nobody but the test sends.
            "link set veth0 addrgenmode none",
            "link set veth1 addrgenmode none",
            "link set veth0 arp off up",
            "link set veth1 arp off up",
        ] {
            if let Err(why) = ip(made) {
                eprintln!("skipped: ip {made}: {why}");
                return;
            }
        }
        test();
    });
    thread.join().unwrap();
}

/// The far end of the cable.
pub struct Wire(OwnedFd);

impl Wire {
    pub fn open() -> Wire {
        let (text, protocol) = (std::ffi::CString::new("veth1").unwrap(), (libc::ETH_P_ALL as u16).to_be());
        // SAFETY: a string that ends with 0, plain integers, an address of its length.
        unsafe {
            let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, i32::from(protocol));
            assert!(socket >= 0, "{}", io::Error::last_os_error());
            let socket = OwnedFd::from_raw_fd(socket);
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = protocol;
            address.sll_ifindex = libc::if_nametoindex(text.as_ptr()) as i32;
            let bytes = size_of::<libc::sockaddr_ll>() as u32;
            assert_eq!(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes), 0);
            Wire(socket)
        }
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: a buffer of this length.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }

    /// The next frame that came over the cable, if there is one by now.
    pub fn receive(&self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 2048];
        loop {
            // SAFETY: all zero is a value of it; a buffer and an address of these lengths.
            let (came, own) = unsafe {
                let mut from: libc::sockaddr_ll = std::mem::zeroed();
                let mut bytes = size_of::<libc::sockaddr_ll>() as u32;
                let (to, room) = (buffer.as_mut_ptr().cast(), buffer.len());
                let came = libc::recvfrom(self.0.as_raw_fd(), to, room, 0, (&raw mut from).cast(), &raw mut bytes);
                (came, from.sll_pkttype == libc::PACKET_OUTGOING)
            };
            if came < 0 {
                return None;
            }
            if !own {
                buffer.truncate(came as usize);
                return Some(buffer);
            }
        }
    }
}

/// An IPv4 packet number `n` of `bytes` bytes to 10.0.0.1, behind `tags`.
pub fn frame(n: u32, bytes: usize, tags: &[[u16; 2]]) -> Vec<u8> {
    let mut frame = vec![0x0a; 12];
    for tag in tags {
        frame.extend(tag.iter().flat_map(|word| word.to_be_bytes()));
    }
    frame.extend([8, 0]);
    let at = frame.len();
    let total = (bytes - at) as u16;
    frame.extend([0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 7, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 10, 0, 0, 1]);
    let sum: u32 = frame[at..at + 20].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(n.to_be_bytes());
    frame.resize(bytes, n as u8);
    frame
}

/// The fragments of a UDP packet between two addresses that are `pair`'s: the first one has ports, which `ports` says, and the others
/// have payload there.
pub fn fragments(pair: u8, ports: u16, is_v6: bool) -> Vec<Vec<u8>> {
    let fragment = |place: u16| {
        let (more, offset) = (place < 2, 8 * place);
        let mut frame = vec![0x0a; 12];
        if is_v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, 44, 64]);
            for side in [1, 2] {
                frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, side, pair]);
            }
            frame.extend([17, 0]);
            frame.extend((offset | u16::from(more)).to_be_bytes());
            frame.extend([0, 0]);
            frame.extend(ports.to_be_bytes());
        } else {
            frame.extend([8, 0, 0x45, 0, 0, 28]);
            frame.extend(ports.to_be_bytes());
            frame.extend((offset / 8 + if more { 1 << 13 } else { 0 }).to_be_bytes());
            frame.extend([64, 17, 0, 0, 192, 0, 2, pair, 10, 0, 0, 1]);
            let sum: u32 = frame[14..].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        // Ports, length and checksum; or payload.
        frame.extend((ports ^ place.wrapping_mul(0x9e37)).to_be_bytes());
        frame.extend([(53 * place) as u8, place as u8, 0, 24, 0, 0]);
        frame.resize(60.max(frame.len()), 0);
        frame
    };
    (0..3).map(fragment).collect()
}

/// Which pair's a fragment of [`fragments`] is, and of which family.
pub fn pair_of(frame: &[u8]) -> (u8, bool) {
    let is_v6 = frame[12] == 0x86;
    (frame[if is_v6 { 37 } else { 29 }], is_v6)
}

/// The next `count` packets; fewer if no more come for a while.
pub fn take(source: &mut dyn FrameSource, count: usize) -> Vec<Packet> {
    let (mut taken, mut packet) = (Vec::new(), Packet::default());
    let mut heard = Instant::now();
    while taken.len() < count && heard.elapsed() < Duration::from_secs(3) {
        match source.next(&mut packet).unwrap() {
            NextFrame::Packet => {
                taken.push(packet.clone());
                heard = Instant::now();
            }
            NextFrame::NotYet => std::thread::sleep(Duration::from_micros(200)),
            NextFrame::End => break,
        }
    }
    taken
}

pub fn go_on() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

#[test]
fn frames_come_as_they_were_sent_with_their_tags() {
    with_a_cable(|| {
        let mut ring = PacketRing::open("veth0", &RingSpec::new(2), go_on()).unwrap();
        let mut socket = RawSocket::open("veth0", go_on()).unwrap();
        let wire = Wire::open();
        // A tag of 802.1Q, one of 802.1ad before it, the latter alone, a priority without a VLAN; and lengths that end anywhere.
        let tags: [&[[u16; 2]]; 5] =
            [&[], &[[0x8100, 42]], &[[0x88a8, 7], [0x8100, 0xe064]], &[[0x88a8, 9]], &[[0x8100, 0xa000]]];
        // Several rounds of the ring's eight blocks, in portions that a plain socket has room for.
        for round in 0..40 {
            let portion: Vec<Vec<u8>> = (0..60)
                .map(|i| frame(round * 60 + i, 60 + (i as usize * 37 + round as usize) % 1400, tags[i as usize % 5]))
                .collect();
            portion.iter().for_each(|frame| wire.send(frame));
            for (name, source) in [("ring", &mut ring as &mut dyn FrameSource), ("socket", &mut socket)] {
                let came = take(source, portion.len());
                assert_eq!(came.len(), portion.len(), "{name}, round {round}");
                for (packet, frame) in came.iter().zip(&portion) {
                    assert_eq!(packet.data, *frame, "{name}");
                    assert_eq!(packet.frame_bytes as usize, frame.len(), "{name}");
                    assert_eq!(packet.l3, L3::V4, "{name}: {:x?}", &frame[..24]);
                }
                assert_eq!(came[0].id.0, u64::from(round) * 60, "{name}");
                assert!(came.is_sorted_by_key(|packet| packet.arrival), "{name}");
            }
        }
        assert_eq!((ring.missed(), socket.missed()), (Some(0), Some(0)));
    });
}

#[test]
fn a_full_ring_loses_what_the_kernel_counts_and_goes_on() {
    with_a_cable(|| {
        let mut ring = PacketRing::open("veth0", &RingSpec::new(1), go_on()).unwrap();
        let wire = Wire::open();
        let mut taken = 0;
        for round in 1..=3u64 {
            // Twice what the ring holds.
            for n in 0..1500 {
                wire.send(&frame(n, 1500, &[]));
            }
            let came = take(&mut ring, usize::MAX);
            taken += came.len() as u64;
            let missed = ring.missed().unwrap();
            assert_eq!(taken + missed, round * 1500, "each frame was taken or counted");
            // The timeout hands over blocks that are not full: how many frames are kept depends on how fast they come.
            assert!(!came.is_empty() && came.len() < 800, "{} frames of 1500 B in 1 MiB", came.len());
            let numbers: Vec<u32> =
                came.iter().map(|p| u32::from_be_bytes(p.data[34..38].try_into().unwrap())).collect();
            assert!(numbers.is_sorted(), "what was kept is in order");
        }
    });
}

#[test]
fn a_frame_has_arrived_when_it_came_and_not_when_it_is_taken() {
    with_a_cable(|| {
        let mut ring = PacketRing::open("veth0", &RingSpec::new(1), go_on()).unwrap();
        let wire = Wire::open();
        let before = Instant::now();
        wire.send(&frame(0, 60, &[]));
        let after = Instant::now();
        std::thread::sleep(Duration::from_millis(150));
        assert_eq!(take(&mut ring, 1).len(), 1);
        let arrived = ring.arrived().unwrap();
        // Two clocks are read one after the other.
        let slack = Duration::from_millis(20);
        assert!(arrived + slack >= before && arrived <= after + slack, "{:?} after", arrived - before);
    });
}

#[test]
fn a_ring_ends_when_it_is_told_to_and_not_before_its_packets_are_read() {
    with_a_cable(|| {
        let stop = go_on();
        let mut ring = PacketRing::open("veth0", &RingSpec::new(1), stop.clone()).unwrap();
        let wire = Wire::open();
        (0..10).for_each(|n| wire.send(&frame(n, 60, &[])));
        std::thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(take(&mut ring, 20).len(), 10);
        assert_eq!(ring.next(&mut Packet::default()).unwrap(), NextFrame::End);
    });
}

pub fn text(error: Result<impl Sized, RouterError>) -> String {
    error.err().unwrap().to_string()
}

#[test]
fn what_cannot_be_is_named() {
    for mib in [0, 1025] {
        let error = text(PacketRing::open("lo", &RingSpec::new(mib), go_on()));
        assert_eq!(error, format!("ring_mib = {mib}: allowed are 1 to 1024 MiB"));
    }
    let long = RingSpec { mib: 1, timeout_ms: 1001 };
    assert_eq!(text(PacketRing::open("lo", &long, go_on())), "ring timeout = 1001: allowed are 1 to 1000 ms");
    for error in
        [text(PacketRing::open("nowhere0", &RingSpec::new(1), go_on())), text(RawSocket::open("nowhere0", go_on()))]
    {
        assert_eq!(error, "interface nowhere0: looking it up: No such device (os error 19)");
    }
    with_a_cable(|| {
        let mut ring = PacketRing::open("veth0", &RingSpec::new(1), go_on()).unwrap();
        let mut socket = RawSocket::open("veth0", go_on()).unwrap();
        let wire = Wire::open();
        wire.send(&frame(0, 60, &[]));
        assert_eq!((take(&mut ring, 1).len(), take(&mut socket, 1).len()), (1, 1));
        ip("link set veth0 down").unwrap();
        let down =
            "interface veth0: receiving: Network is down (os error 100): it is down or gone (ip link set <name> up)";
        for (name, source) in [("ring", &mut ring as &mut dyn FrameSource), ("socket", &mut socket)] {
            let (begun, mut packet) = (Instant::now(), Packet::default());
            let error = loop {
                match source.next(&mut packet) {
                    Ok(_) => assert!(begun.elapsed() < DEADLINE, "{name}: an interface that is down goes unnoticed"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.to_string(), down, "{name}");
        }
        // The call itself, and not the library's, which changes all threads: this one is nobody from here on.
        // SAFETY: plain integers.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) }, 0);
        let denied = "interface veth0: opening a raw socket: Operation not permitted (os error 1): raw sockets need \
                      CAP_NET_RAW (run as root, or setcap cap_net_raw+ep)";
        assert_eq!(text(PacketRing::open("veth0", &RingSpec::new(1), go_on())), denied);
        assert_eq!(text(RawSocket::open("veth0", go_on())), denied);
    });
}

#[test]
fn frames_of_a_ring_leave_by_the_interface_in_order() {
    with_a_cable(|| {
        const FRAMES: u32 = 4000;
        let ring = PacketRing::open("veth0", &RingSpec::new(4), go_on()).unwrap();
        let mut sender = ring.sender();
        let wire = Wire::open();
        let spec = ForwardSpec { checksum: ChecksumCheck::Software, ..ForwardSpec::default() };
        let forward = Forward::new([("10.0.0.0/8".parse().unwrap(), NextHop::from(1))].into_iter(), 2, &spec).unwrap();
        let program = RouterProgram::forward(forward);
        let routed = std::thread::scope(|scope| {
            // Sockets are of the network in which they were opened, wherever they are used.
            let routed = scope.spawn(move || {
                let mut ring = ring;
                let mut cpu = CpuThreads::new(&program, 3, 1 << 12, Commit::Device, DEADLINE).unwrap();
                let timeout = BatchTimeout::After(Duration::from_micros(200));
                let options = RouteOptions {
                    timeout,
                    packets: Some(u64::from(FRAMES)),
                    time: Some(DEADLINE),
                    ..RouteOptions::default()
                };
                route(&mut ring, &mut cpu, &mut sender, &options).unwrap()
            });
            let mut seen = Vec::new();
            let begun = Instant::now();
            let mut n = 0;
            while seen.len() < FRAMES as usize && begun.elapsed() < DEADLINE {
                // No more on their way than the far end's socket has room for.
                if n < FRAMES && n as usize - seen.len() < 64 {
                    wire.send(&frame(n, 100, if n % 3 == 0 { &[[0x8100, 5]] } else { &[] }));
                    n += 1;
                    continue;
                }
                seen.extend(wire.receive());
            }
            let routed = routed.join().unwrap();
            let number = |frame: &Vec<u8>| u32::from_be_bytes(frame[34..38].try_into().unwrap());
            let numbers: Vec<u32> = seen.iter().map(number).collect();
            assert_eq!(numbers.len(), FRAMES as usize, "{routed:?}");
            assert!(numbers.iter().copied().eq(0..FRAMES), "in order, each once: {:?}", &numbers[..40]);
            assert!(seen.iter().all(|frame| frame[0] == 2), "with the next hop's addresses");
            let lengths: BTreeSet<usize> = seen.iter().map(Vec::len).collect();
            assert_eq!(
                lengths,
                BTreeSet::from([96, 100]),
                "a third had a tag, which is beside the frame where it arrives"
            );
            routed
        });
        assert_eq!((routed.packets, routed.forwarded, routed.reordered), (4000, 4000, 0));
        assert_eq!((routed.unsent, routed.missed), (0, Some(0)));
        assert_eq!(routed.delay.unwrap().packets, 4000);
    });
}

/// Three sockets of a group, and three rings of another.
fn two_groups() -> Vec<Box<dyn FrameSource>> {
    let (sockets, rings) = (FanoutGroup::default(), FanoutGroup::default());
    let socket = || RawSocket::open_in("veth0", go_on(), Some(&sockets)).unwrap();
    let ring = || PacketRing::open_in("veth0", &RingSpec::new(1), go_on(), Some(&rings)).unwrap();
    let mut all: Vec<Box<dyn FrameSource>> = Vec::new();
    all.extend((0..3).map(|_| -> Box<dyn FrameSource> { Box::new(socket()) }));
    all.extend((0..3).map(|_| -> Box<dyn FrameSource> { Box::new(ring()) }));
    all
}

#[test]
fn sockets_and_rings_of_a_group_share_frames_by_flow() {
    with_a_cable(|| {
        let mut all = two_groups();
        let wire = Wire::open();
        for flow in (0..40u32).cycle().take(120) {
            let mut sent = frame(flow, 100, &[]);
            sent[26] = flow as u8;
            wire.send(&sent);
        }
        let (mut by_flow, mut packet, mut heard) = (vec![[0; 6]; 40], Packet::default(), Instant::now());
        while heard.elapsed() < Duration::from_millis(100) {
            for (at, source) in all.iter_mut().enumerate() {
                while source.next(&mut packet).unwrap() == NextFrame::Packet {
                    by_flow[usize::from(packet.data[26])][at] += 1;
                    heard = Instant::now();
                }
            }
        }
        for group in [0..3, 3..6] {
            let of = |flow: &[i32; 6]| flow[group.clone()].to_vec();
            assert!(by_flow.iter().all(|flow| of(flow).iter().filter(|&&n| n == 3).count() == 1), "{by_flow:?}");
            assert!(
                by_flow.iter().all(|flow| of(flow).iter().sum::<i32>() == 3),
                "each frame once in a group: {by_flow:?}"
            );
            assert!(group.clone().filter(|&at| by_flow.iter().any(|flow| flow[at] > 0)).count() > 1, "{by_flow:?}");
        }
    });
}

#[test]
fn fragments_come_to_the_socket_of_their_addresses_whatever_their_ports() {
    with_a_cable(|| {
        let mut all = two_groups();
        let wire = Wire::open();
        for (pair, is_v6) in (0..16).flat_map(|pair| [(pair, false), (pair, true)]) {
            (0..4).flat_map(|n| fragments(pair, 1000 + 777 * n, is_v6)).for_each(|sent| wire.send(&sent));
        }
        let (mut by_pair, mut packet, mut heard) = (BTreeMap::new(), Packet::default(), Instant::now());
        while heard.elapsed() < Duration::from_millis(100) {
            for (at, source) in all.iter_mut().enumerate() {
                while source.next(&mut packet).unwrap() == NextFrame::Packet {
                    by_pair.entry(pair_of(&packet.data)).or_insert([0; 6])[at] += 1;
                    heard = Instant::now();
                }
            }
        }
        assert_eq!(by_pair.len(), 32);
        for group in [0..3, 3..6] {
            let of = |counts: &[i32; 6]| counts[group.clone()].to_vec();
            assert!(by_pair.values().all(|counts| of(counts).iter().filter(|&&n| n == 12).count() == 1), "{by_pair:?}");
            assert!(
                group.clone().filter(|&at| by_pair.values().any(|counts| counts[at] > 0)).count() > 1,
                "{by_pair:?}"
            );
        }
    });
}

/// A run of several queues, as a person asks for it, over all ways to receive: each frame is back once.
#[test]
fn queues_of_a_run_route_each_frame_once_and_end_together() {
    use router::source::XdpMode;
    const FRAMES: u64 = 2000;
    for (ring_mib, xdp) in [(None, None), (Some(2), None), (Some(1), Some(XdpMode::Auto))] {
        with_a_cable_of(2, move || {
            let spec = RouterSpec {
                interface: Some("veth0".into()),
                ring_mib,
                xdp,
                queues: Some(2),
                pin: true,
                threads: Some(2),
                reflect: true,
                ordered: true,
                packets: Some(FRAMES),
                seconds: Some(15.0),
                timeout_us: Some(200.0),
                function: router::setup::FunctionName::Ttl.into(),
                ..RouterSpec::default()
            };
            let wire = Wire::open();
            let routed = std::thread::scope(|scope| {
                // A thread that is started here is in this network.
                let routed = scope.spawn(|| router::setup::run(&spec));
                let (mut back, mut sent, begun) = (0, 0u64, Instant::now());
                while !routed.is_finished() {
                    // What is sent before the sockets are there comes to nobody.
                    if begun.elapsed() > Duration::from_millis(500) && sent < 2 * FRAMES && sent < back + 32 {
                        let mut frame = frame(sent as u32, 100, &[]);
                        frame[26] = sent as u8;
                        wire.send(&frame);
                        sent += 1;
                    }
                    back += u64::from(wire.receive().is_some());
                }
                while wire.receive().is_some() {
                    back += 1;
                }
                (routed.join().unwrap(), back)
            });
            let (routed, back) = match routed {
                (Err(RouterError::Interface { source, .. }), _) if source.raw_os_error() == Some(libc::EPERM) => {
                    return eprintln!("skipped: {source}");
                }
                (routed, back) => (routed.unwrap(), back),
            };
            let report = &routed.report;
            assert_eq!((report.packets, routed.queues, routed.threads), (FRAMES, 2, Some(2)), "{report:?}");
            assert_eq!((report.forwarded, report.unsent, report.missed), (FRAMES, 0, Some(0)), "{report:?}");
            assert_eq!(back, FRAMES, "each is back once");
            assert_eq!(report.delay.unwrap().packets, FRAMES);
        });
    }
}
