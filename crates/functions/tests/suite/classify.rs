//! Classification: both searches against the definition, on made and on published rules.

use std::path::PathBuf;

use functions::classify::RuleSearch;
use functions::{Classify, ClassifySpec, DropReason, PacketFunction, Verdict};
use packet::{Packet, Rule, RuleFields, internet_checksum};
use probe::{Count, Null};
use proptest::prelude::*;
use units::{PortId, Ps};

fn build(rules: &[Rule], search: RuleSearch) -> Classify {
    Classify::new(rules, &ClassifySpec { search, ..ClassifySpec::default() }, 2).unwrap()
}

/// The definition: the first rule that matches.
fn naive(rules: &[Rule], fields: &RuleFields) -> Option<u32> {
    rules.iter().position(|rule| rule.matches(fields)).map(|i| i as u32)
}

fn both_match_naive(rules: &[Rule], packets: impl IntoIterator<Item = RuleFields>) -> usize {
    let (linear, space) = (build(rules, RuleSearch::Linear), build(rules, RuleSearch::TupleSpace));
    let mut matched = 0;
    for fields in packets {
        let right = naive(rules, &fields);
        assert_eq!(linear.class(&fields), right, "linear, {fields:?}");
        assert_eq!(space.class(&fields), right, "tuple space, {fields:?}");
        matched += usize::from(right.is_some());
    }
    matched
}

fn ports() -> impl Strategy<Value = (u16, u16)> {
    prop_oneof![
        Just((0, 65535)),
        (0u16..6).prop_map(|port| (port, port)),
        (0u16..6, 0u16..6).prop_map(|(a, b)| (a.min(b), a.max(b))),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let network = || {
        (0u32..16, prop::sample::select(vec![0u8, 1, 2, 3, 30, 31, 32])).prop_map(|(n, len)| {
            let addr = n.rotate_right(2);
            (addr & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0), len)
        })
    };
    let proto = prop::sample::select(vec![(0u8, 0u8), (6, 255), (17, 255), (4, 4)]);
    let flags = prop::sample::select(vec![(0u16, 0u16), (0, 0x200), (0x1000, 0x1000), (0x200, 0x1200)]);
    (network(), network(), ports(), ports(), proto, flags)
        .prop_map(|(src, dst, src_port, dst_port, proto, flags)| Rule { src, dst, src_port, dst_port, proto, flags })
}

fn fields() -> impl Strategy<Value = RuleFields> {
    let addr = || (0u32..16).prop_map(|n| n.rotate_right(2));
    let proto = prop::sample::select(vec![1u8, 4, 6, 17]);
    let flags = prop::sample::select(vec![0u16, 0x200, 0x1000, 0x1200]);
    (addr(), addr(), 0u16..7, 0u16..7, proto, flags).prop_map(|(src, dst, src_port, dst_port, proto, flags)| {
        RuleFields { src, dst, src_port, dst_port, proto, flags }
    })
}

proptest! {
    #[test]
    fn linear_and_tuple_space_match_naive(
        rules in prop::collection::vec(rule(), 0..60), packets in prop::collection::vec(fields(), 1..60),
    ) {
        both_match_naive(&rules, packets);
    }
}

/// splitmix64 (Steele, Lea, Flood 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Fields that `rule` matches, or just misses.
fn near(rule: &Rule, state: &mut u64) -> RuleFields {
    let host = |(addr, len): (u32, u8), r: u64| addr | r as u32 & u32::MAX.checked_shr(len.into()).unwrap_or(0);
    let port = |(low, high): (u16, u16), r: u64| low + (r % (u64::from(high - low) + 1)) as u16;
    let mut fields = RuleFields {
        src: host(rule.src, random(state)),
        dst: host(rule.dst, random(state)),
        src_port: port(rule.src_port, random(state)),
        dst_port: port(rule.dst_port, random(state)),
        proto: rule.proto.0 | random(state) as u8 & !rule.proto.1,
        flags: rule.flags.0 | random(state) as u16 & !rule.flags.1,
    };
    match random(state) % 8 {
        0 => fields.dst ^= 1 << (random(state) % 32),
        1 => fields.dst_port = fields.dst_port.wrapping_add(1),
        2 => fields.flags ^= 0x200,
        _ => {}
    }
    fields
}

/// Every published set of up to 10,000 rules; the largest by a sample of packets.
#[test]
fn published_sets_match_naive() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/rules");
    let files = ["acl1_1k.rules.gz", "fw1_1k.rules.gz", "ipc1_1k.rules.gz", "acl2_10k.rules.gz", "fw1_10k.rules.gz"];
    for file in files {
        let Ok(packed) = std::fs::File::open(folder.join(file)) else {
            println!("skipped: no {file} in shared/data/rules");
            continue;
        };
        let text = std::io::read_to_string(flate2::read::GzDecoder::new(packed)).unwrap();
        let rules: Vec<Rule> = text.lines().map(|line| line.parse().unwrap()).collect();
        let mut state = 9;
        let packets: Vec<_> =
            (0..2000).map(|_| near(&rules[random(&mut state) as usize % rules.len()], &mut state)).collect();
        let matched = both_match_naive(&rules, packets.iter().copied());
        let space = build(&rules, RuleSearch::TupleSpace);
        println!("{file}: {} rules in {} tuples, {matched} of 2000 packets matched", rules.len(), space.tuples());
        assert!(matched > 1000);
    }
}

fn tcp(src: [u8; 4], dst: [u8; 4], ports: (u16, u16), flags: u8) -> Packet {
    let mut ip = vec![0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0];
    ip.extend(src);
    ip.extend(dst);
    let sum = internet_checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    ip.extend(ports.0.to_be_bytes());
    ip.extend(ports.1.to_be_bytes());
    ip.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    let mut frame = vec![2; 12];
    frame.extend([8, 0]);
    frame.extend(ip);
    let mut packet = Packet::default();
    packet.set_frame(&frame, frame.len() as u32);
    packet
}

fn rules() -> Vec<Rule> {
    [
        "@10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF 0x1000/0x1000",
        "@10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF 0x0000/0x0000",
        "@0.0.0.0/0 192.0.2.0/24 0 : 65535 1024 : 65535 0x00/0x00",
    ]
    .map(|text| text.parse().unwrap())
    .to_vec()
}

#[test]
fn a_packet_gets_the_number_of_its_first_rule() {
    for search in [RuleSearch::Linear, RuleSearch::TupleSpace] {
        let spec = ClassifySpec { search, drop_unmatched: true };
        let mut classify = Classify::new(&rules(), &spec, 2).unwrap();
        let mut arp = Packet::default();
        arp.set_frame(&[[0; 12].as_slice(), &[8, 6], &[0; 28]].concat(), 42);
        let mut burst = [
            tcp([10, 1, 1, 1], [192, 0, 2, 1], (5, 80), 0x10),
            tcp([10, 1, 1, 1], [192, 0, 2, 1], (5, 80), 0x02),
            tcp([11, 1, 1, 1], [192, 0, 2, 1], (5, 8080), 0x02),
            tcp([11, 1, 1, 1], [192, 0, 2, 1], (5, 80), 0x02),
            arp,
        ];
        let mut out = Vec::new();
        classify.process_burst(Ps::ZERO, &mut burst, &mut Null, &mut out);
        let pass = Verdict::Forward { port: PortId(1) };
        assert_eq!(out, [pass, pass, pass, Verdict::Drop(DropReason::Unclassified), Verdict::Drop(DropReason::NotIp)]);
        assert_eq!(classify.classes(), [Some(0), Some(1), Some(2), None, None]);
    }
}

#[test]
fn references_per_packet_are_what_the_module_header_says() {
    let refs = |search, packet: Packet| {
        let mut count = Count::default();
        build(&rules(), search).process_burst(Ps::ZERO, &mut [packet], &mut count, &mut Vec::new());
        count.refs()
    };
    let first = || tcp([10, 1, 1, 1], [192, 0, 2, 1], (5, 80), 0x10);
    let third = || tcp([11, 1, 1, 1], [192, 0, 2, 1], (5, 8080), 0x02);
    // 8 and each rule, twice where the addresses match.
    assert_eq!(refs(RuleSearch::Linear, first()), 8 + 2);
    assert_eq!(refs(RuleSearch::Linear, third()), 8 + 1 + 1 + 2);
    // Both rules of the first tuple are in one bucket; the second tuple's best is worse than what was found.
    assert_eq!(refs(RuleSearch::TupleSpace, first()), 8 + 3 + 1);
    // Another destination port leads to another bucket, unless two share one.
    let third = |port| refs(RuleSearch::TupleSpace, tcp([11, 1, 1, 1], [192, 0, 2, 1], (5, port), 0x02));
    assert_eq!((8000..8050).map(third).min(), Some(8 + 2 + 3));
    assert_eq!((8000..8050).map(third).max(), Some(8 + 2 + 2 + 3));
}
