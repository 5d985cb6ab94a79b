//! Header check, route lookup and time to live as functions of their own: verdicts, bytes, references.

use functions::lookup::Structure;
use functions::{ChecksumCheck, DropReason, HeaderCheck, Lookup, NextHop, PacketFunction, Ttl, Verdict};
use packet::{Packet, Prefix, internet_checksum};
use probe::{Count, Null};
use units::{PortId, Ps};

fn ipv4(dst: [u8; 4], ttl: u8) -> Packet {
    let mut ip = vec![0x45, 0, 0, 28, 0, 1, 0, 0, ttl, 17, 0, 0, 192, 0, 2, 1];
    ip.extend(dst);
    let sum = internet_checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    ip.extend([0; 8]);
    framed([8, 0], &ip)
}

fn ipv6(dst: &str, hops: u8) -> Packet {
    let addr = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let mut ip = vec![0x60, 0, 0, 0, 0, 8, 17, hops];
    ip.extend(addr("2001:db8::2"));
    ip.extend(addr(dst));
    ip.extend([0; 8]);
    framed([0x86, 0xdd], &ip)
}

fn framed(ethertype: [u8; 2], l3: &[u8]) -> Packet {
    let frame = [&[2; 12], &ethertype[..], l3].concat();
    let mut packet = Packet::default();
    packet.set_frame(&frame, frame.len() as u32);
    packet
}

fn arp() -> Packet {
    framed([8, 6], &[0; 28])
}

fn run(function: &mut impl PacketFunction, packet: Packet) -> (Verdict, Packet, u64) {
    let (mut burst, mut out, mut count) = ([packet.clone()], Vec::new(), Count::default());
    function.process_burst(Ps::ZERO, &mut burst, &mut Null, &mut out);
    let mut again = [packet];
    function.process_burst(Ps::ZERO, &mut again, &mut count, &mut out);
    assert_eq!((&burst, out[0]), (&again, out[1]), "a probe that looks changes nothing");
    let [packet] = burst;
    (out[0], packet, count.refs())
}

const PASS: Verdict = Verdict::Forward { port: PortId(1) };

#[test]
fn the_time_to_live_alone_is_one_less_with_a_right_checksum() {
    let mut ttl = Ttl::new(2);
    let (verdict, after, refs) = run(&mut ttl, ipv4([10, 0, 0, 1], 2));
    assert_eq!((verdict, after.data[22], refs), (PASS, 1, 5));
    assert_eq!(internet_checksum(&after.data[14..34]), 0);
    let (verdict, after, refs) = run(&mut ttl, ipv6("2001:db8::1", 2));
    assert_eq!((verdict, after.data[21], refs), (PASS, 1, 5));
    let unchanged = ipv4([10, 0, 0, 1], 1);
    assert_eq!(run(&mut ttl, unchanged.clone()), (Verdict::Drop(DropReason::TtlExpired), unchanged, 4));
    assert_eq!(run(&mut ttl, ipv6("2001:db8::1", 1)).0, Verdict::Drop(DropReason::HopLimitExceeded));
    assert_eq!(run(&mut ttl, arp()), (Verdict::Drop(DropReason::NotIp), arp(), 3));
}

#[test]
fn the_header_check_alone_passes_what_forwarding_would() {
    let mut check = HeaderCheck::new(ChecksumCheck::Software, 2);
    let good = ipv4([10, 0, 0, 1], 2);
    assert_eq!(run(&mut check, good.clone()), (PASS, good.clone(), 5));
    let mut bad = good;
    bad.data[25] ^= 1;
    assert_eq!(run(&mut check, bad.clone()).0, Verdict::Drop(DropReason::BadChecksum));
    let mut by_nic = HeaderCheck::new(ChecksumCheck::Nic, 2);
    assert_eq!(run(&mut by_nic, bad).0, PASS);
    assert_eq!(run(&mut check, ipv4([127, 0, 0, 1], 2)).0, Verdict::Drop(DropReason::DestinationMartian));
}

#[test]
fn a_lookup_alone_sends_by_the_port_of_the_next_hop_and_makes_the_references_of_its_structure() {
    let routes = [("10.0.0.0/8", 4u16), ("10.1.2.3/32", 6), ("2001:db8::/32", 1), ("2001:db8::1/128", 3)];
    let routes = routes.map(|(text, id)| (text.parse::<Prefix>().unwrap(), NextHop::from(id)));
    // Destination, port of four, references of DIR-24-8 and of Poptrie: best and worst of both families.
    let cases = [
        (ipv4([10, 9, 9, 9], 9), Some(0), 4 + 1, 4 + 1),
        (ipv4([10, 1, 2, 3], 9), Some(2), 4 + 2, 4 + 5),
        (ipv4([11, 0, 0, 1], 9), None, 4 + 1, 4 + 1),
        (ipv6("2401:db8::", 9), None, 4 + 1, 4 + 1),
        (ipv6("2001:db8::1", 9), Some(3), 4 + 14, 4 + 21),
        (arp(), None, 3, 3),
    ];
    for (structure, pick) in [(Structure::Dir24, 0), (Structure::Poptrie, 1)] {
        let mut lookup = Lookup::new(routes.iter().copied(), 4, structure).unwrap();
        assert_eq!(lookup.routes(), (2, 2));
        for (packet, port, dir24, poptrie) in &cases {
            let (verdict, after, refs) = run(&mut lookup, packet.clone());
            match port {
                Some(port) => assert_eq!(verdict, Verdict::Forward { port: PortId(*port) }),
                None => assert!(matches!(verdict, Verdict::Drop(DropReason::NoRoute | DropReason::NotIp))),
            }
            assert_eq!(refs, [*dir24, *poptrie][pick], "{structure:?} {packet:?}");
            assert_eq!(&after, packet);
        }
    }
}
