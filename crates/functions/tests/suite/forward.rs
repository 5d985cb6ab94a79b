//! What forwarding decides, what it does to the bytes, and which references it makes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use functions::{
    Adjacency, ChecksumCheck, DropReason, Forward, ForwardSpec, Function, FunctionError, LookupMode, NextHop,
    PacketFunction, Verdict,
};
use packet::{Packet, Prefix, internet_checksum};
use probe::{Access, Count, Null, ProbeEvent, Record, Ref, RegionId};
use proptest::prelude::*;
use units::{PacketId, PortId, Ps};

const PORTS: u16 = 4;

fn routes() -> Vec<(Prefix, NextHop)> {
    let route = |text: &str, id: u16| (text.parse().unwrap(), NextHop::from(id));
    vec![
        route("10.0.0.0/8", 1),
        route("10.1.0.0/16", 2),
        route("10.1.2.0/24", 3),
        route("10.1.2.128/25", 5),
        route("10.1.2.129/32", 6),
        route("224.0.0.0/3", 7),
        route("127.0.0.0/8", 7),
        route("2001:db8::/32", 8),
        route("2001:db8:1::/48", 9),
        route("2001:db8:1:2::/64", 10),
        route("2400::/12", 11),
        route("ff00::/8", 7),
    ]
}

fn forward(spec: &ForwardSpec) -> Forward {
    Forward::new(routes().into_iter(), PORTS, spec).unwrap()
}

fn packet(id: u64, ethertype: u16, l3: &[u8]) -> Packet {
    let mut frame = vec![0xee; 12];
    frame.extend(ethertype.to_be_bytes());
    frame.extend(l3);
    let mut packet = Packet { id: PacketId(id), ..Packet::default() };
    packet.set_frame(&frame, frame.len() as u32);
    packet
}

/// A packet of 20 bytes of header, `options` and 20 bytes of payload.
fn ipv4_with(id: u64, src: &str, dst: &str, ttl: u8, options: &[u8]) -> Packet {
    let addr = |text: &str| text.parse::<std::net::Ipv4Addr>().unwrap().octets();
    let bytes = 20 + options.len();
    let mut header = vec![0x40 | (bytes / 4) as u8, 0, 0, (bytes + 20) as u8, 0, id as u8, 0, 0, ttl, 17, 0, 0];
    header.extend(addr(src));
    header.extend(addr(dst));
    header.extend(options);
    let sum = internet_checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    header.extend([0; 20]);
    packet(id, 0x0800, &header)
}

fn ipv4(id: u64, dst: &str) -> Packet {
    ipv4_with(id, "192.0.2.1", dst, 64, &[])
}

fn ipv6_with(id: u64, src: &str, dst: &str, hop_limit: u8) -> Packet {
    let addr = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let mut header = vec![0x60, 0, 0, 0, 0, 20, 17, hop_limit];
    header.extend(addr(src));
    header.extend(addr(dst));
    header.extend([0; 20]);
    packet(id, 0x86dd, &header)
}

fn ipv6(id: u64, dst: &str) -> Packet {
    ipv6_with(id, "2001:db8:ffff::1", dst, 64)
}

fn changed(mut packet: Packet, change: impl FnOnce(&mut Packet)) -> Packet {
    change(&mut packet);
    packet
}

fn run(forward: &mut Forward, packets: &mut [Packet]) -> Vec<Verdict> {
    let mut out = Vec::new();
    forward.process_burst(Ps::ZERO, packets, &mut Null, &mut out);
    out
}

#[test]
fn every_reason_to_drop_is_met_by_the_packet_that_deserves_it() {
    use DropReason::*;
    let good = || ipv4(0, "10.1.2.3");
    let from = |src: &str| ipv4_with(0, src, "10.1.2.3", 64, &[]);
    let good6 = || ipv6(0, "2001:db8::1");
    let cases = [
        (packet(0, 0x0806, &[0; 28]), NotIp),
        (changed(good(), |p| p.data.truncate(33)), Truncated),
        (changed(ipv4_with(0, "192.0.2.1", "10.0.0.1", 64, &[1; 8]), |p| p.data.truncate(36)), Truncated),
        (changed(good6(), |p| p.data.truncate(53)), Truncated),
        (changed(good(), |p| p.data[14] = 0x55), BadVersion),
        (changed(good6(), |p| p.data[14] = 0x40), BadVersion),
        (changed(good(), |p| p.data[14] = 0x44), BadHeaderLength),
        (changed(good(), |p| p.data[17] = 19), BadTotalLength),
        (changed(good(), |p| p.data[17] = 41), BadTotalLength),
        (changed(good6(), |p| p.data[19] = 21), BadTotalLength),
        (changed(good(), |p| p.data[24] ^= 1), BadChecksum),
        (changed(ipv4_with(0, "192.0.2.1", "10.0.0.1", 64, &[1; 4]), |p| p.data[34] = 0), BadChecksum),
        (from("0.0.0.1"), SourceMartian),
        (from("127.0.0.1"), SourceMartian),
        (from("224.0.0.1"), SourceMartian),
        (from("255.255.255.255"), SourceMartian),
        (ipv6_with(0, "::1", "2001:db8::1", 64), SourceMartian),
        (ipv6_with(0, "ff02::1", "2001:db8::1", 64), SourceMartian),
        (ipv4(0, "0.255.0.1"), DestinationMartian),
        (ipv4(0, "127.255.255.255"), DestinationMartian),
        (ipv4(0, "240.0.0.1"), DestinationMartian),
        (ipv6(0, "::1"), DestinationMartian),
        (ipv4(0, "224.0.0.0"), DestinationMulticast),
        (ipv4(0, "239.255.255.255"), DestinationMulticast),
        (ipv6(0, "ff0e::1"), DestinationMulticast),
        (ipv4(0, "255.255.255.255"), DestinationBroadcast),
        (from("169.254.0.1"), LinkLocal),
        (ipv4(0, "169.254.255.255"), LinkLocal),
        (ipv6_with(0, "fe80::1", "2001:db8::1", 64), LinkLocal),
        (ipv6(0, "febf::1"), LinkLocal),
        (ipv4(0, "11.0.0.0"), NoRoute),
        (ipv6(0, "2001:db9::"), NoRoute),
        (ipv4_with(0, "192.0.2.1", "10.1.2.3", 1, &[]), TtlExpired),
        (ipv4_with(0, "192.0.2.1", "10.1.2.3", 0, &[]), TtlExpired),
        (ipv6_with(0, "2001:db8::2", "2001:db8::1", 1), HopLimitExceeded),
    ];
    let mut router = forward(&ForwardSpec { checksum: ChecksumCheck::Software, ..ForwardSpec::default() });
    let mut met = BTreeSet::new();
    for (i, (packet, reason)) in cases.into_iter().enumerate() {
        let mut after = [packet.clone()];
        assert_eq!(run(&mut router, &mut after), [Verdict::Drop(reason)], "case {i}: {packet:?}");
        assert_eq!(after[0], packet, "case {i}: a dropped packet is left as it was");
        met.insert(reason);
    }
    // Those behind the last one are of other functions.
    let own = DropReason::ALL.iter().take_while(|reason| **reason <= HopLimitExceeded);
    assert!(met.iter().eq(own), "reasons without a case: {:?} met", met);
}

/// Traffic is drawn by `packet`'s rule: it has to be the one that is checked.
#[test]
fn addresses_are_refused_where_they_are_not_unicast_and_nowhere_else() {
    let all = [("0.0.0.0/0".parse().unwrap(), NextHop::from(0)), ("::/0".parse().unwrap(), NextHop::from(1))];
    let mut router = Forward::new(all.into_iter(), PORTS, &ForwardSpec::default()).unwrap();
    let mut forwarded = |packet: Packet| matches!(run(&mut router, &mut [packet])[0], Verdict::Forward { .. });
    for high in 0..=u16::MAX {
        let addr = std::net::Ipv4Addr::from(u32::from(high) << 16 | 7);
        let unicast = packet::is_unicast_v4(addr.into());
        assert_eq!(forwarded(ipv4_with(0, &addr.to_string(), "10.1.2.3", 64, &[])), unicast, "from {addr}");
        assert_eq!(forwarded(ipv4(0, &addr.to_string())), unicast, "to {addr}");
        for low in [0, 1, 2] {
            let addr = std::net::Ipv6Addr::from(u128::from(high) << 112 | low);
            let unicast = packet::is_unicast_v6(addr.into());
            assert_eq!(forwarded(ipv6_with(0, &addr.to_string(), "2001:db8::1", 64)), unicast, "from {addr}");
            assert_eq!(forwarded(ipv6(0, &addr.to_string())), unicast, "to {addr}");
        }
    }
}

/// The neighbours of what is refused.
#[test]
fn addresses_beside_the_special_ones_are_forwarded() {
    let all = [("0.0.0.0/0".parse().unwrap(), NextHop::from(0)), ("::/0".parse().unwrap(), NextHop::from(1))];
    let mut router = Forward::new(all.into_iter(), PORTS, &ForwardSpec::default()).unwrap();
    let v4 = ["1.0.0.0", "126.255.255.255", "128.0.0.0", "223.255.255.255", "169.253.255.255", "169.255.0.0"];
    let v6 = ["::2", "fe7f::", "fec0::", "feff::", "2000::"];
    let mut packets: Vec<_> = v4.iter().map(|dst| ipv4(0, dst)).chain(v6.iter().map(|dst| ipv6(0, dst))).collect();
    packets.extend(v4.iter().map(|src| ipv4_with(0, src, "10.1.2.3", 64, &[])));
    let expected = |p: &Packet| Verdict::Forward { port: PortId(u16::from(p.data[12] == 0x86)) };
    let expected: Vec<_> = packets.iter().map(expected).collect();
    assert_eq!(run(&mut router, &mut packets), expected);
}

#[test]
fn a_forwarded_packet_has_new_addresses_a_lower_ttl_and_a_right_checksum() {
    let adjacencies: Vec<_> = (0..12).map(|id| Adjacency::numbered(id, PortId(id as u16 + 100))).collect();
    let mut router =
        Forward::with_adjacencies(routes().into_iter(), adjacencies.clone(), &ForwardSpec::default()).unwrap();
    let before =
        [ipv4(1, "10.1.2.129"), ipv4_with(2, "192.0.2.1", "10.9.9.9", 2, &[1; 40]), ipv6(3, "2001:db8:1:2::3")];
    let mut after = before.clone();
    let verdicts = run(&mut router, &mut after);
    for ((before, after), (verdict, hop)) in before.iter().zip(&after).zip(verdicts.iter().zip([6, 1, 10])) {
        assert_eq!(*verdict, Verdict::Forward { port: PortId(hop as u16 + 100) });
        let mut expected = before.data.clone();
        expected[..6].copy_from_slice(&adjacencies[hop].dst_mac);
        expected[6..12].copy_from_slice(&adjacencies[hop].src_mac);
        if before.data[12] == 0x08 {
            expected[22] -= 1;
            let end = 14 + usize::from(expected[14] & 15) * 4;
            expected[24..26].fill(0);
            let sum = internet_checksum(&expected[14..end]).to_be_bytes();
            expected[24..26].copy_from_slice(&sum);
        } else {
            expected[21] -= 1;
        }
        assert_eq!(after.data, expected);
    }
}

#[test]
fn a_next_hop_leaves_by_its_number_modulo_the_ports() {
    let mut packets = [ipv4(0, "10.2.0.1"), ipv4(1, "10.1.2.128"), ipv6(2, "2400::1")];
    let verdicts = run(&mut forward(&ForwardSpec::default()), &mut packets);
    assert_eq!(verdicts, [1, 1, 3].map(|port| Verdict::Forward { port: PortId(port) }));
    let hops =
        ["10.2.0.1", "10.1.2.128", "2400::1"].map(|a| forward(&ForwardSpec::default()).next_hop(a.parse().unwrap()));
    assert_eq!(hops, [1, 5, 11].map(|id| Some(NextHop::from(id))));
}

/// Every error text, so that a change of one is seen.
#[test]
fn errors_say_where_what_came_what_is_allowed_and_what_to_do() {
    let route = |text: &str, id| (text.parse::<Prefix>().unwrap(), NextHop::new(id).unwrap());
    let built = |routes: Vec<_>, ports, spec: ForwardSpec| Forward::new(routes.into_iter(), ports, &spec).unwrap_err();
    let spec = ForwardSpec::default;
    let long = || vec![route("10.0.0.0/25", 0), route("10.0.1.0/25", 0), route("2001:db8::/48", 0)];
    let errors = [
        built(vec![], 0, spec()),
        built(vec![], 1, ForwardSpec { entry_bytes: Some(3), ..spec() }),
        built(vec![route("10.0.0.0/8", 32_767)], 1, ForwardSpec { entry_bytes: Some(2), ..spec() }),
        built(long(), 1, ForwardSpec { tbl8_groups: Some(1), ..spec() }),
        built(long(), 1, ForwardSpec { tbl8_v6_groups: Some(2), ..spec() }),
        built(long(), 1, ForwardSpec { tbl8_groups: Some(32_769), ..spec() }),
        built(vec![(Prefix::V4 { addr: 0, len: 33 }, NextHop::from(0))], 1, spec()),
        Forward::with_adjacencies(
            [route("10.0.0.0/8", 2)].into_iter(),
            vec![Adjacency::numbered(0, PortId(0)); 2],
            &spec(),
        )
        .unwrap_err(),
        FunctionError::Memory { table: "tbl8_v6", bytes: 1 << 40 },
    ];
    insta::assert_snapshot!(errors.map(|e| e.to_string()).join("\n"));
}

#[test]
fn next_hops_beyond_two_bytes_widen_the_entries() {
    let tbl24 = |id| {
        let route = ("10.0.0.0/8".parse().unwrap(), NextHop::new(id).unwrap());
        Forward::new([route].into_iter(), 1, &ForwardSpec::default()).unwrap().regions()[0].bytes
    };
    assert_eq!(tbl24(32_766), 32 << 20);
    assert_eq!(tbl24(32_767), 64 << 20);
}

#[test]
fn a_spec_reads_what_it_writes_and_refuses_unknown_keys() {
    let spec = ForwardSpec { entry_bytes: Some(4), lookup: LookupMode::Single, ..ForwardSpec::default() };
    let json = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<ForwardSpec>(&json).unwrap(), spec);
    assert_eq!(serde_json::from_str::<ForwardSpec>("{}").unwrap(), ForwardSpec::default());
    assert!(serde_json::from_str::<ForwardSpec>(r#"{"entry_byte": 2}"#).is_err());
}

/// What a probe sees, as a table.
fn stream(spec: &ForwardSpec, packets: &mut [Packet]) -> String {
    let mut router = forward(spec);
    let regions: BTreeMap<_, _> = router.regions().into_iter().map(|r| (r.id, r.name)).collect();
    let mut record = Record::new();
    let mut out = Vec::new();
    router.process_burst(Ps::ZERO, packets, &mut record, &mut out);
    let mut text = format!("{:8}{:>4}  {:10}{:>9}{:>6}{:>5}\n", "", "site", "region", "offset", "bytes", "dep");
    for event in record.iter() {
        let line = match event {
            ProbeEvent::Begin(id) => format!("begin {id}"),
            ProbeEvent::End(id) => format!("end {id}"),
            ProbeEvent::Work { site, instructions } => format!("{:8}{site:>4}  {instructions} instructions", "work"),
            ProbeEvent::Latch { site } => format!("{:8}{site:>4}", "latch"),
            ProbeEvent::Touch(r) => {
                let region = regions.get(&r.region).cloned().unwrap_or_else(|| r.region.to_string());
                let access = format!("{:?}", r.access).to_lowercase();
                let dep = if r.dep == 0 { String::new() } else { r.dep.to_string() };
                format!("{access:10}{:>2}  {region:10}{:>9}{:>6}{dep:>5}", r.site, r.offset, r.bytes)
            }
            other => format!("{other:?}"),
        };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for verdict in out {
        let _ = writeln!(text, "{verdict:?}");
    }
    text
}

#[test]
fn references_of_an_ipv4_packet_with_a_short_prefix() {
    insta::assert_snapshot!(stream(&ForwardSpec::default(), &mut [ipv4(0, "10.1.3.1")]));
}

#[test]
fn references_of_an_ipv4_packet_with_a_long_prefix_and_options() {
    let spec = ForwardSpec { checksum: ChecksumCheck::Software, prefetch: false, ..ForwardSpec::default() };
    insta::assert_snapshot!(stream(&spec, &mut [ipv4_with(0, "192.0.2.1", "10.1.2.129", 64, &[1; 8])]));
}

#[test]
fn references_of_an_ipv6_packet() {
    insta::assert_snapshot!(stream(&ForwardSpec::default(), &mut [ipv6(0, "2001:db8:1:2::3")]));
}

#[test]
fn references_of_packets_that_are_dropped() {
    let mut packets = [
        packet(0, 0x0806, &[0; 28]),
        ipv4(1, "11.0.0.1"),
        ipv4_with(2, "192.0.2.1", "10.0.0.1", 1, &[]),
        ipv4(3, "127.0.0.1"),
    ];
    insta::assert_snapshot!(stream(&ForwardSpec { prefetch: false, ..ForwardSpec::default() }, &mut packets));
}

/// The stages of a burst are interleaved, so that `dep` reaches over other packets' references.
#[test]
fn references_of_a_burst_of_two() {
    insta::assert_snapshot!(stream(&ForwardSpec::default(), &mut [ipv4(0, "10.1.3.1"), ipv4(1, "10.1.2.130")]));
}

#[test]
fn references_per_packet_are_what_the_module_header_says() {
    let options = [1; 40];
    let refs = |spec: &ForwardSpec, mut packet: Packet| {
        let mut count = Count::default();
        forward(spec).process_burst(Ps::ZERO, std::slice::from_mut(&mut packet), &mut count, &mut Vec::new());
        count.refs()
    };
    let spec = ForwardSpec::default();
    assert_eq!(refs(&spec, ipv4(0, "10.1.3.1")), 17, "IPv4, tbl24 only");
    assert_eq!(refs(&spec, ipv4(0, "10.1.2.3")), 18, "IPv4, tbl8 as well");
    assert_eq!(refs(&spec, packet(0, 0x0806, &[0; 28])), 6, "not IP");
    let worst = ipv4_with(0, "192.0.2.1", "10.1.2.129", 64, &options);
    assert_eq!(refs(&ForwardSpec { checksum: ChecksumCheck::Software, ..spec.clone() }, worst), 27, "IPv4, worst");
    assert_eq!(refs(&spec, ipv6(0, "2400::1")), 17, "IPv6, tbl24 only");
    let host = [("2001:db8::1/128".parse().unwrap(), NextHop::from(0))];
    let mut deep = Forward::new(host.into_iter(), 1, &spec).unwrap();
    let mut count = Count::default();
    deep.process_burst(Ps::ZERO, &mut [ipv6(0, "2001:db8::1")], &mut count, &mut Vec::new());
    assert_eq!(count.refs(), 30, "IPv6, 13 levels of tbl8");
}

/// The place whose reference gives the address of the reference at each place.
fn source_of(site: u16) -> Option<&'static [u16]> {
    Some(match site {
        2 => &[1],
        11 | 12 | 14 | 17 | 18 | 19 => &[9],
        24 | 26 => &[12],
        28 => &[26],
        32 | 34 => &[19],
        36 => &[34, 36],
        42..=45 | 47 => &[41],
        46 => &[26, 28, 34, 36],
        _ => return None,
    })
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let v4 = prop_oneof![
        Just(0x0a01_0280_u32),
        Just(0x0a01_0203),
        Just(0x0a01_0281),
        0x0a00_0000u32..0x0b00_0000,
        any::<u32>()
    ];
    let v6 = (any::<u64>(), 0u64..4).prop_map(|(low, n)| u128::from(0x2001_0db8_0001_0000 + n) << 64 | u128::from(low));
    let v4 = (v4, 0u8..5, 0usize..=10).prop_map(|(dst, ttl, words)| {
        ipv4_with(0, "192.0.2.1", &std::net::Ipv4Addr::from(dst).to_string(), ttl, &vec![1; words * 4])
    });
    let v6 = (v6, 0u8..4)
        .prop_map(|(dst, hops)| ipv6_with(0, "2001:db8::9", &std::net::Ipv6Addr::from(dst).to_string(), hops));
    let good = prop_oneof![4 => v4, 2 => v6, 1 => Just(packet(0, 0x0806, &[0; 28]))];
    let damage = prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>(), any::<prop::sample::Index>()));
    (good, damage, 0u8..3).prop_map(|(mut packet, damage, vlan)| {
        let mut frame = packet.data.clone();
        if let Some((at, byte, keep)) = damage {
            let at = at.index(frame.len());
            frame[at] = byte;
            frame.truncate(keep.index(frame.len() * 2).min(frame.len()));
        }
        if vlan == 0 && frame.len() > 12 {
            frame.splice(12..12, [0x81, 0, 0, 1]);
        }
        let kept = frame.len() as u32;
        packet.set_frame(&frame, kept);
        packet
    })
}

fn any_spec() -> impl Strategy<Value = ForwardSpec> {
    (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(wide, prefetch, single, nic)| ForwardSpec {
        entry_bytes: Some(if wide { 4 } else { 2 }),
        prefetch,
        lookup: if single { LookupMode::Single } else { LookupMode::Bulk },
        checksum: if nic { ChecksumCheck::Nic } else { ChecksumCheck::Software },
        ..ForwardSpec::default()
    })
}

fn burst() -> impl Strategy<Value = Vec<Packet>> {
    prop::collection::vec(any_packet(), 0..80).prop_map(|mut packets| {
        packets.iter_mut().enumerate().for_each(|(i, packet)| packet.id = PacketId(i as u64));
        packets
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Neither the arrangement nor the entry width nor the length of the burst changes an outcome,
    /// and a probe that looks changes nothing.
    #[test]
    fn options_change_references_only(spec in any_spec(), packets in burst(), cut in 1usize..40) {
        let reference = ForwardSpec { checksum: spec.checksum, ..ForwardSpec::default() };
        let (mut once, mut again) = (packets.clone(), packets.clone());
        let expected = run(&mut forward(&reference), &mut once);
        prop_assert_eq!(expected.len(), packets.len());
        let mut other = Function::Forward(forward(&spec));
        let (mut out, mut record) = (Vec::new(), Record::new());
        again.chunks_mut(cut).for_each(|burst| other.process_burst(Ps::ZERO, burst, &mut record, &mut out));
        prop_assert_eq!(&out, &expected);
        prop_assert_eq!(&again, &once);
    }

    /// What a layout and a machine rely on.
    #[test]
    fn references_lie_in_their_regions_and_depend_on_what_gave_their_address(spec in any_spec(), packets in burst()) {
        let mut router = forward(&spec);
        let sizes: BTreeMap<RegionId, u64> = router.regions().into_iter().map(|r| (r.id, r.bytes)).collect();
        let (mut record, mut burst) = (Record::new(), packets.clone());
        router.process_burst(Ps::ZERO, &mut burst, &mut record, &mut Vec::new());
        let mut current = None;
        let mut history: Vec<(Option<PacketId>, Ref)> = Vec::new();
        for event in record.iter() {
            match event {
                ProbeEvent::Begin(id) => {
                    prop_assert_eq!(current, None, "pairs do not nest");
                    current = Some(id);
                }
                ProbeEvent::End(id) => {
                    prop_assert_eq!(current, Some(id));
                    current = None;
                }
                ProbeEvent::Touch(r) => {
                    let packet = &packets[current.expect("within a pair").0 as usize];
                    let size = match r.region {
                        RegionId::PACKET if r.access == Access::Prefetch => u64::MAX,
                        RegionId::PACKET => packet.data.len() as u64,
                        RegionId::MBUF => packet::MBUF_HEADER_BYTES,
                        table => sizes[&table],
                    };
                    prop_assert!(r.bytes >= 1 && r.offset + u64::from(r.bytes) <= size, "{r:?} in {size} bytes");
                    let from = history.len().checked_sub(r.dep.into()).filter(|_| r.dep > 0).map(|at| history[at]);
                    match (source_of(r.site), from) {
                        (Some(sites), Some((id, source))) => {
                            prop_assert_eq!(id, current, "{:?} depends on another packet", r);
                            prop_assert!(sites.contains(&source.site), "{:?} depends on {:?}", r, source);
                        }
                        // Further back than `dep` can say.
                        (Some(_), None) => prop_assert!(history.len() >= 255, "{:?} has no source", r),
                        (None, from) => prop_assert_eq!(from, None, "{:?}", r),
                    }
                    history.push((current, r));
                }
                ProbeEvent::Work { .. } => prop_assert!(current.is_some(), "work is somebody's"),
                _ => {}
            }
        }
        prop_assert_eq!(current, None);
    }

    /// A warp's lane runs the function on one packet: places then only grow, except in loops, whose
    /// ends are marked.
    #[test]
    fn sites_grow_in_program_order_from_latch_to_latch(spec in any_spec(), packet in any_packet()) {
        let mut record = Record::new();
        forward(&spec).process_burst(Ps::ZERO, &mut [packet], &mut record, &mut Vec::new());
        let (mut latest, mut loop_of) = (0, None);
        for event in record.iter() {
            let site = match event {
                ProbeEvent::Touch(r) => r.site,
                ProbeEvent::Work { site, .. } => site,
                ProbeEvent::Latch { site } => {
                    prop_assert!(site >= latest);
                    (latest, loop_of) = (site, Some(site));
                    continue;
                }
                _ => continue,
            };
            // Back to the start of the loop that the latch ended, or on.
            let back = loop_of.is_some_and(|latch| (latch.saturating_sub(1)..=latch).contains(&site));
            prop_assert!(site >= latest || back, "site {site} after {latest}");
            (latest, loop_of) = (site, None);
        }
    }
}
