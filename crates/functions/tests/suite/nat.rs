//! Address translation against a map of who talks to whom, with checksums computed anew.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use functions::{DropReason, Nat, NatSpec, PacketFunction, Verdict};
use packet::{Packet, internet_checksum};
use probe::{Count, Null, ProbeEvent, Record, RegionId};
use proptest::prelude::*;
use units::{PacketId, PortId, Ps};

const SECOND: u64 = 1_000_000_000_000;
const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN: u8 = 1;
const RST: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flow {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    src_port: u16,
    dst_port: u16,
    proto: u8,
}

impl Flow {
    fn back(self, address: Ipv4Addr, port: u16) -> Flow {
        let echo = self.proto == 1;
        Flow {
            src: self.dst,
            dst: address,
            src_port: if echo { port } else { self.dst_port },
            dst_port: port,
            proto: self.proto,
        }
    }
}

/// The sum over the transport header, payload and, but for ICMP, the pseudo header.
fn l4_checksum(ip: &[u8]) -> u16 {
    let l4 = &ip[20..];
    if ip[9] == 1 {
        return internet_checksum(l4);
    }
    let mut data = ip[12..20].to_vec();
    data.extend([0, ip[9], (l4.len() >> 8) as u8, l4.len() as u8]);
    data.extend(l4);
    internet_checksum(&data)
}

fn ip(flow: Flow, flags: u8, payload: &[u8], with_sum: bool) -> Vec<u8> {
    let mut l4 = Vec::new();
    let at = match flow.proto {
        6 => {
            l4.extend(flow.src_port.to_be_bytes());
            l4.extend(flow.dst_port.to_be_bytes());
            l4.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 1, 1, 0, 0, 0, 0]);
            16
        }
        17 => {
            l4.extend(flow.src_port.to_be_bytes());
            l4.extend(flow.dst_port.to_be_bytes());
            l4.extend(((8 + payload.len()) as u16).to_be_bytes());
            l4.extend([0, 0]);
            6
        }
        _ => {
            l4.extend([if flags == ACK { 0 } else { 8 }, 0, 0, 0]);
            l4.extend(flow.src_port.to_be_bytes());
            l4.extend([0, 7]);
            2
        }
    };
    l4.extend(payload);
    let mut ip = vec![0x45, 0, 0, 0, 0, 9, 0, 0, 64, flow.proto, 0, 0];
    let total = (20 + l4.len()) as u16;
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip.extend(flow.src.octets());
    ip.extend(flow.dst.octets());
    ip.extend(l4);
    let sum = internet_checksum(&ip[..20]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    if with_sum {
        let sum = l4_checksum(&ip);
        let sum = if sum == 0 && flow.proto == 17 { 0xffff } else { sum };
        ip[20 + at..22 + at].copy_from_slice(&sum.to_be_bytes());
    }
    ip
}

fn packet(port: u16, ip: &[u8]) -> Packet {
    let mut frame = vec![0xee; 12];
    frame.extend([8, 0]);
    frame.extend(ip);
    let mut packet = Packet { id: PacketId(1), port: PortId(port), ..Packet::default() };
    packet.set_frame(&frame, frame.len() as u32);
    packet
}

fn run(nat: &mut Nat, now: u64, packet: &mut Packet) -> Verdict {
    let mut out = Vec::new();
    nat.process_burst(Ps(now), std::slice::from_mut(packet), &mut Null, &mut out);
    out[0]
}

fn flow_of(ip: &[u8]) -> Flow {
    let address = |i: usize| Ipv4Addr::new(ip[i], ip[i + 1], ip[i + 2], ip[i + 3]);
    let word = |i: usize| u16::from_be_bytes([ip[i], ip[i + 1]]);
    let (src_port, dst_port) = if ip[9] == 1 { (word(24), word(24)) } else { (word(20), word(22)) };
    Flow { src: address(12), dst: address(16), src_port, dst_port, proto: ip[9] }
}

fn checksums_are_right(ip: &[u8]) -> bool {
    let l4 = ip[9] == 17 && ip[26..28] == [0, 0] || l4_checksum(ip) == 0;
    internet_checksum(&ip[..20]) == 0 && l4
}

fn tcp(port: u16) -> Flow {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(198, 51, 100, 7));
    Flow { src, dst, src_port: port, dst_port: 80, proto: 6 }
}

/// A map from flows to where they are seen outside and when that ends.
#[derive(Default)]
struct NaiveNat {
    sessions: BTreeMap<Flow, (Ipv4Addr, u16, u64, u8)>,
}

impl NaiveNat {
    fn seconds(proto: u8, seen: u8) -> u64 {
        match proto {
            6 if seen & 8 != 0 || seen & 6 == 6 || seen & 1 == 0 => 240,
            6 => 7440,
            17 => 300,
            _ => 60,
        }
    }
    fn touch(&mut self, flow: Flow, now: u64, more: u8) {
        let entry = self.sessions.get_mut(&flow).unwrap();
        entry.3 |= more;
        let end = now + NaiveNat::seconds(flow.proto, entry.3) * SECOND;
        let closing = flow.proto == 6 && (entry.3 & 8 != 0 || entry.3 & 6 == 6);
        entry.2 = if closing && entry.2 != 0 { entry.2.min(end) } else { end };
    }
}

fn any_flow() -> impl Strategy<Value = Flow> {
    (0u8..3, 0u8..3, 0u16..4, 0u16..2, prop::sample::select(vec![1u8, 6, 17])).prop_map(|(a, b, sp, dp, proto)| Flow {
        src: Ipv4Addr::new(10, 0, 0, 1 + a),
        dst: Ipv4Addr::new(198, 51, 100, 1 + b),
        src_port: 5000 + sp,
        dst_port: if proto == 1 { 5000 + sp } else { 80 + dp },
        proto,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nat_matches_naive(
        steps in prop::collection::vec(
            (any_flow(), 0u8..4, prop::sample::select(vec![0u8, SYN, ACK, FIN | ACK, RST]), 0u64..200, any::<bool>(),
             prop::collection::vec(any::<u8>(), 0..9)),
            1..120,
        ),
        sessions in prop::sample::select(vec![3u32, 40, 70_000]),
    ) {
        let mut nat = Nat::new(&NatSpec { sessions, ..NatSpec::default() }).unwrap();
        let mut naive = NaiveNat::default();
        let mut now = 0;
        for (flow, kind, flags, gap, with_sum, payload) in steps {
            now += gap * SECOND / 2;
            let live = naive.sessions.get(&flow).copied().filter(|entry| now < entry.2);
            let fin = |bit: u8| if flow.proto == 6 && flags & FIN != 0 { bit } else { 0 };
            let reset = if flow.proto == 6 && flags & RST != 0 { 8 } else { 0 };
            let with_sum = with_sum || flow.proto != 17;
            if kind > 0 {
                let before = ip(flow, flags & !ACK, &payload, with_sum);
                let mut packet = packet(0, &before);
                let verdict = run(&mut nat, now, &mut packet);
                if verdict == Verdict::Drop(DropReason::NatTableFull) {
                    prop_assert!(live.is_none() && nat.sessions() == sessions);
                    continue;
                }
                prop_assert_eq!(verdict, Verdict::Forward { port: PortId(1) });
                let after = &packet.data[14..];
                let seen = flow_of(after);
                prop_assert!(checksums_are_right(after), "{:02x?}", after);
                prop_assert_eq!(after[8], 63);
                if let Some(entry) = live {
                    prop_assert_eq!((seen.src, seen.src_port), (entry.0, entry.1));
                } else {
                    let taken = naive.sessions.iter().any(|(other, entry)| {
                        now < entry.2 && *other != flow && (entry.0, entry.1) == (seen.src, seen.src_port)
                    });
                    prop_assert!(!taken, "an outside port serves two");
                    naive.sessions.insert(flow, (seen.src, seen.src_port, 0, 0));
                }
                let expected = ip(Flow { src: seen.src, src_port: seen.src_port,
                    dst_port: if flow.proto == 1 { seen.src_port } else { flow.dst_port }, ..flow },
                    flags & !ACK, &payload, with_sum);
                prop_assert_eq!(&after[20..], &expected[20..]);
                naive.touch(flow, now, fin(2) | reset);
            } else if let Some(&(address, port, ..)) = naive.sessions.get(&flow) {
                let mut packet = packet(1, &ip(flow.back(address, port), flags | ACK, &payload, with_sum));
                // Another session may have the port by now.
                let other = naive.sessions.iter().find(|(other, entry)| {
                    **other != flow && now < entry.2 && (entry.0, entry.1) == (address, port)
                });
                let other = other.map(|(other, _)| *other);
                let verdict = run(&mut nat, now, &mut packet);
                if live.is_some() {
                    prop_assert_eq!(verdict, Verdict::Forward { port: PortId(0) });
                    let seen = flow_of(&packet.data[14..]);
                    prop_assert_eq!((seen.dst, seen.dst_port), (flow.src, flow.src_port));
                    prop_assert!(checksums_are_right(&packet.data[14..]));
                    naive.touch(flow, now, 1 | fin(4) | reset);
                } else if let Some(other) = other.filter(|other| {
                    let same_port = other.dst_port == flow.dst_port || other.proto == 1;
                    other.dst == flow.dst && other.proto == flow.proto && same_port
                }) {
                    // It talks to the same remote end, so that the packet is its own.
                    prop_assert_eq!(verdict, Verdict::Forward { port: PortId(0) });
                    naive.touch(other, now, 1 | fin(4) | reset);
                } else {
                    prop_assert_eq!(verdict, Verdict::Drop(DropReason::NatNoSession));
                }
            }
        }
    }

    #[test]
    fn references_lie_in_their_regions_and_locks_are_given_back(
        flows in prop::collection::vec((any_flow(), 0u8..2, any::<bool>()), 1..60),
    ) {
        let mut nat = Nat::new(&NatSpec { sessions: 8, ..NatSpec::default() }).unwrap();
        let regions: BTreeMap<RegionId, u64> = nat.regions().into_iter().map(|r| (r.id, r.bytes)).collect();
        for (i, (flow, port, _)) in flows.into_iter().enumerate() {
            let mut packet = packet(u16::from(port), &ip(flow, SYN, &[], true));
            let bytes = packet.data.len() as u64;
            let (mut record, mut out) = (Record::new(), Vec::new());
            let now = Ps(i as u64 * 90 * SECOND);
            nat.process_burst(now, std::slice::from_mut(&mut packet), &mut record, &mut out);
            let mut held = None;
            for event in record.iter() {
                match event {
                    ProbeEvent::Touch(r) if r.region == RegionId::PACKET => {
                        prop_assert!(r.offset + u64::from(r.bytes) <= bytes);
                    }
                    ProbeEvent::Touch(r) if r.region != RegionId::MBUF => {
                        prop_assert!(r.offset + u64::from(r.bytes) <= regions[&r.region], "{:?}", r);
                    }
                    ProbeEvent::Lock(lock) => prop_assert_eq!(held.replace(lock), None),
                    ProbeEvent::Unlock(lock) => prop_assert_eq!(held.take(), Some(lock)),
                    _ => {}
                }
            }
            prop_assert_eq!(held, None);
        }
    }
}

#[test]
fn references_per_packet_are_what_the_module_header_says() {
    let mut nat = Nat::new(&NatSpec::default()).unwrap();
    let mut refs = |port, ip: &[u8]| {
        let (mut count, mut out) = (Count::default(), Vec::new());
        nat.process_burst(Ps::ZERO, &mut [packet(port, ip)], &mut count, &mut out);
        (count.refs(), out[0])
    };
    let syn = ip(tcp(5000), SYN, &[], true);
    let first = refs(0, &syn);
    let again = refs(0, &syn);
    assert!(matches!((first.1, again.1), (Verdict::Forward { .. }, Verdict::Forward { .. })));
    assert_eq!((first.0, again.0), (19, 16));
    assert_eq!(refs(1, &ip(tcp(1).back(Ipv4Addr::new(192, 0, 2, 1), 1024), ACK, &[], true)).0, 15);
}

#[test]
fn a_connection_that_closes_gives_its_session_back_soon() {
    let mut nat = Nat::new(&NatSpec { sessions: 1, ..NatSpec::default() }).unwrap();
    let out = |flow, flags| packet(0, &ip(flow, flags, &[], true));
    let outside = Ipv4Addr::new(192, 0, 2, 1);
    assert!(matches!(run(&mut nat, 0, &mut out(tcp(1), SYN)), Verdict::Forward { .. }));
    let mut reply = packet(1, &ip(tcp(1).back(outside, 1024), SYN | ACK, &[], true));
    assert_eq!(run(&mut nat, 0, &mut reply), Verdict::Forward { port: PortId(0) });
    // Established: an hour of silence keeps it.
    let full = Verdict::Drop(DropReason::NatTableFull);
    assert_eq!(run(&mut nat, 3600 * SECOND, &mut out(tcp(2), SYN)), full);
    run(&mut nat, 3600 * SECOND, &mut out(tcp(1), FIN | ACK));
    let mut fin = packet(1, &ip(tcp(1).back(outside, 1024), FIN | ACK, &[], true));
    assert_eq!(run(&mut nat, 3600 * SECOND, &mut fin), Verdict::Forward { port: PortId(0) });
    assert_eq!(run(&mut nat, 3839 * SECOND, &mut out(tcp(2), SYN)), full);
    assert!(matches!(run(&mut nat, 3840 * SECOND, &mut out(tcp(2), SYN)), Verdict::Forward { .. }));
}

#[test]
fn an_error_about_a_translated_packet_finds_its_way_back() {
    let mut nat = Nat::new(&NatSpec::default()).unwrap();
    let mut sent = packet(0, &ip(tcp(5000), SYN, &[], true));
    run(&mut nat, 0, &mut sent);
    let quoted = &sent.data[14..14 + 28];
    let mut icmp = vec![3, 1, 0, 0, 0, 0, 0, 0];
    icmp.extend(quoted);
    let sum = internet_checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut error = vec![0x45, 0, 0, (20 + icmp.len()) as u8, 0, 1, 0, 0, 60, 1, 0, 0, 203, 0, 113, 9, 192, 0, 2, 1];
    let sum = internet_checksum(&error);
    error[10..12].copy_from_slice(&sum.to_be_bytes());
    error.extend(icmp);
    let mut packet = packet(1, &error);
    assert_eq!(run(&mut nat, 0, &mut packet), Verdict::Forward { port: PortId(0) });
    let ip = &packet.data[14..];
    assert_eq!(ip[16..20], [10, 0, 0, 1]);
    assert_eq!(ip[28 + 12..28 + 16], [10, 0, 0, 1]);
    assert_eq!(u16::from_be_bytes([ip[48], ip[49]]), 5000);
    assert_eq!(internet_checksum(&ip[..20]), 0);
    assert_eq!(internet_checksum(&ip[20..]), 0);
    // The quoted header was valid as sent, with one hop less than the inside sent it with.
    assert_eq!(internet_checksum(&ip[28..48]), 0);
}

#[test]
fn specs_that_cannot_be_are_refused_with_both_numbers() {
    let message = |spec: NatSpec| Nat::new(&spec).unwrap_err().to_string();
    assert!(message(NatSpec { sessions: 0, ..NatSpec::default() }).contains("nat.sessions = 0"));
    assert!(message(NatSpec { outside: 0, ..NatSpec::default() }).contains("nat.outside = 0"));
}

/// Floods of the public captures and of all addresses there are: the table keeps its size.
#[test]
fn the_table_stays_bounded_under_floods() {
    let mut nat = Nat::new(&NatSpec { sessions: 1000, ..NatSpec::default() }).unwrap();
    let bytes = |nat: &Nat| nat.regions().iter().map(|region| region.bytes).sum::<u64>();
    let before = bytes(&nat);
    let mut seen = BTreeSet::new();
    for i in 0..100_000u32 {
        let flow = Flow { src: Ipv4Addr::from(0x0a00_0000 | i), src_port: i as u16, ..tcp(0) };
        let mut packet = packet(0, &ip(flow, SYN, &[], true));
        let verdict = run(&mut nat, u64::from(i) * SECOND / 1000, &mut packet);
        seen.insert(match verdict {
            Verdict::Forward { .. } => "forwarded",
            Verdict::Drop(reason) => reason.name(),
        });
        assert!(nat.sessions() <= 1000);
    }
    assert_eq!(bytes(&nat), before);
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["forwarded", "nat_table_full"]);
    let capture = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/adversarial/synscan.pcap.gz");
    let Ok(file) = std::fs::File::open(&capture) else {
        println!("skipped: {} is not there", capture.display());
        return;
    };
    let mut data = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut data).unwrap();
    let little = |at: usize| u32::from_le_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]) as usize;
    let (mut at, mut packets) = (24, 0);
    while at + 16 <= data.len() {
        let stored = little(at + 8);
        let mut packet = Packet::default();
        packet.set_frame(&data[at + 16..at + 16 + stored], little(at + 12) as u32);
        run(&mut nat, 200 * SECOND, &mut packet);
        assert!(nat.sessions() <= 1000);
        at += 16 + stored;
        packets += 1;
    }
    assert_eq!(packets, 2011);
    assert_eq!(bytes(&nat), before);
}
