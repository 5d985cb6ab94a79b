//! What receiving into sockets does to the bytes, and which references it makes.

use std::sync::LazyLock;

use functions::{Forward, NextHop, PacketFunction, Socket, SocketSpec};
use packet::Packet;
use probe::{Null, ProbeEvent, Record, RegionId};
use proptest::prelude::*;
use units::{PacketId, Ps, Size};

/// Clones share its tables.
static FORWARD: LazyLock<Forward> = LazyLock::new(|| {
    let routes = [("0.0.0.0/0".parse().unwrap(), NextHop::from(1u16))];
    Forward::new(routes.into_iter(), 2, &Default::default()).unwrap()
});

fn forward() -> Forward {
    FORWARD.clone()
}

/// A TCP segment of flow `flow` with `payload`, and `options` bytes of options (a multiple of 4).
fn segment(id: u64, flow: u8, payload: &[u8], options: usize) -> Packet {
    let total = 40 + options + payload.len();
    let mut frame = vec![0; 14];
    frame[12..14].copy_from_slice(&[8, 0]);
    let mut ip = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, flow, 20, 1, 2, 3];
    ip[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    let sum: u32 = ip.chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!((sum & 0xFFFF) + (sum >> 16)) as u16).to_be_bytes());
    frame.extend(ip);
    let mut tcp = vec![0; 20 + options];
    tcp[..4].copy_from_slice(&[0, 80, 200, flow]);
    tcp[12] = (((20 + options) / 4) << 4) as u8;
    frame.extend(tcp);
    frame.extend(payload);
    let mut packet = Packet { id: PacketId(id), ..Packet::default() };
    packet.set_frame(&frame, frame.len() as u32);
    packet
}

fn data(n: usize, salt: usize) -> Vec<u8> {
    (0..n).map(|b| (b * 7 + salt * 31 + 1) as u8).collect()
}

fn run(spec: &SocketSpec, packets: &[Packet]) -> (Socket, Record) {
    let mut socket = Socket::new(spec, forward()).unwrap();
    let mut record = Record::new();
    let mut burst = packets.to_vec();
    let (mut verdicts, mut alone, mut expected) = (Vec::new(), packets.to_vec(), Vec::new());
    socket.process_burst(Ps::ZERO, &mut burst, &mut record, &mut verdicts);
    forward().process_burst(Ps::ZERO, &mut alone, &mut Null, &mut expected);
    assert_eq!(verdicts, expected, "forwarding decides as without sockets");
    (socket, record)
}

fn copies(record: &Record) -> Vec<(RegionId, u64, RegionId, u64, u16)> {
    let copy = |event| match event {
        ProbeEvent::Copy { src, dst } => Some((src.region, src.offset, dst.region, dst.offset, dst.bytes)),
        _ => None,
    };
    record.iter().filter_map(copy).collect()
}

#[test]
fn a_stream_without_gaps_is_in_the_application_as_it_was_sent() {
    let spec = SocketSpec { sessions: 1, aligned: false, ..SocketSpec::default() };
    let sent: Vec<Vec<u8>> = [1260, 1, 333, 1460].into_iter().enumerate().map(|(i, n)| data(n, i)).collect();
    let packets: Vec<Packet> =
        sent.iter().enumerate().map(|(i, payload)| segment(i as u64, 1, payload, i % 3 * 4)).collect();
    let (socket, _) = run(&spec, &packets);
    let sent = sent.concat();
    assert_eq!(socket.application()[..sent.len()], sent);
}

#[test]
fn aligned_buffers_take_a_payload_at_its_place_in_a_line() {
    let spec = SocketSpec { sessions: 2, ..SocketSpec::default() };
    let packets = [segment(0, 1, &data(1260, 0), 0), segment(1, 1, &data(1260, 1), 12)];
    let (socket, record) = run(&spec, &packets);
    let found = copies(&record);
    assert_eq!(found.len(), 4);
    for (_, from, _, to, _) in &found {
        assert_eq!(from % 64, to % 64, "{found:?}");
    }
    let (.., at, bytes) = found[1];
    assert_eq!(socket.application()[at as usize..][..usize::from(bytes)], data(1260, 0));
    // The other way takes one copy, from the packet.
    let (_, record) = run(&SocketSpec { copies: 1, ..spec.clone() }, &packets);
    assert!(copies(&record).iter().all(|c| c.0 == RegionId::PACKET) && copies(&record).len() == 2);
    // Without a copy the application reads the packet.
    let reads = |record: &Record| {
        record.iter().filter(|e| matches!(e, ProbeEvent::Touch(r) if r.region == RegionId::PACKET)).count()
    };
    let (_, read) = run(&SocketSpec { copies: 0, reads: true, ..spec.clone() }, &packets);
    let (_, unread) = run(&SocketSpec { copies: 0, reads: false, ..spec.clone() }, &packets);
    assert!(copies(&read).is_empty() && reads(&read) > reads(&unread), "{} {}", reads(&read), reads(&unread));
}

#[test]
fn a_session_that_begins_gets_the_buffers_that_are_out_longest() {
    let spec = SocketSpec { sessions: 4, session_packets: 2, copies: 1, ..SocketSpec::default() };
    let packets: Vec<Packet> = (0..10).map(|i| segment(i, 7, &data(100, 0), 0)).collect();
    let (_, record) = run(&spec, &packets);
    let buffers: Vec<u64> = copies(&record).iter().map(|c| c.3 / spec.application.bytes()).collect();
    assert_eq!(buffers, [0, 0, 1, 1, 2, 2, 3, 3, 0, 0]);
}

#[test]
fn references_are_what_the_header_says() {
    let count = |spec: &SocketSpec, packets: &[Packet]| {
        let touches = |record: &Record| record.iter().filter(|e| matches!(e, ProbeEvent::Touch(_))).count();
        let mut without = Record::new();
        forward().process_burst(Ps::ZERO, &mut packets.to_vec(), &mut without, &mut Vec::new());
        touches(&run(spec, packets).1) - touches(&without)
    };
    let silent = SocketSpec { reads: false, ..SocketSpec::default() };
    assert_eq!(count(&silent, &[segment(0, 1, &data(1000, 0), 0)]), 5);
    assert_eq!(count(&silent, &[segment(0, 1, &[], 0)]), 3, "an acknowledgement");
    // From place 54 of a line on 1000 bytes lie in 17 lines.
    assert_eq!(count(&SocketSpec::default(), &[segment(0, 1, &data(1000, 0), 0)]), 5 + 17);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn references_lie_in_their_regions(
        segments in prop::collection::vec((0u8..6, 0usize..1500, 0usize..4), 1..60), sessions in 1u32..5, aligned: bool,
        copies in 1u32..3, session_packets in 0u32..4, cut in 0usize..1500,
    ) {
        let size = Size::from_bytes(32 << 10);
        let spec = SocketSpec {
            copies, sessions, session_packets, aligned, socket: size, application: size, ..SocketSpec::default()
        };
        let packets: Vec<Packet> = segments.iter().enumerate().map(|(i, &(flow, bytes, options))| {
            let mut packet = segment(i as u64, flow, &data(bytes, i), options * 4);
            // Captures keep less than the frame.
            packet.data.truncate(cut.max(1));
            packet
        }).collect();
        let (socket, record) = run(&spec, &packets);
        let regions = socket.regions();
        for event in record.iter() {
            let refs = match event {
                ProbeEvent::Touch(r) => vec![r],
                ProbeEvent::Copy { src, dst } => vec![src, dst],
                _ => continue,
            };
            for r in refs.iter().filter(|r| !r.region.is_of_packet()) {
                let region = regions.iter().find(|spec| spec.id == r.region).unwrap();
                prop_assert!(r.offset + u64::from(r.bytes) <= region.bytes, "{:?} in {:?}", r, region);
            }
        }
    }
}

#[test]
fn errors_say_what_came_and_what_is_allowed() {
    let error = |spec: SocketSpec| Socket::new(&spec, forward()).unwrap_err().to_string();
    let spec = SocketSpec::default();
    insta::assert_snapshot!(
        [
            error(SocketSpec { copies: 3, ..spec.clone() }),
            error(SocketSpec { sessions: 0, ..spec.clone() }),
            error(SocketSpec { socket: Size::from_bytes(1000), ..spec.clone() }),
            error(SocketSpec { sessions: 65_536, ..spec.clone() }),
            error(SocketSpec { packet_instructions: 2_000_000, ..spec }),
        ]
        .join("\n"),
        @r"
    function.socket.copies = 3: allowed are 0, 1 and 2
    function.socket.sessions = 0: allowed are 1 to 65536
    function.socket.socket = 1 KB: allowed is a multiple of 64 B from 32 KiB to 16 MiB
    function.socket.sessions = 65536 with 64 KiB and 64 KiB each: allowed are 1 GiB of buffers in all
    function.socket.packet_instructions = 2000000: allowed are 0 to 1000000
    "
    );
}
