//! What all functions of a router hold to: places, regions, chains, and packets that are broken.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use functions::classify::RuleSearch;
use functions::firewall::FirewallForm;
use functions::inspect::{Method, Pattern};
use functions::lookup::Structure;
use functions::{
    Chain, ChecksumCheck, Classify, ClassifySpec, DropReason, Firewall, FirewallSpec, Forward, ForwardSpec, Fragment,
    FragmentSpec, Function, HeaderCheck, Inspect, InspectSpec, Lookup, Nat, NatSpec, NextHop, PacketFunction, Template,
    Ttl, Verdict,
};
use packet::{Packet, Prefix, Rule, internet_checksum};
use probe::{Access, Count, Null, ProbeEvent, Record, RegionId};
use proptest::prelude::*;
use units::{PacketId, PortId, Ps};

const PORTS: u16 = 4;

fn routes() -> impl Iterator<Item = (Prefix, NextHop)> {
    ["0.0.0.0/1", "10.0.0.0/8", "10.1.2.0/24", "10.1.2.128/27", "2001:db8::/32", "2001:db8:1::/48", "2001:db8:1::/61"]
        .into_iter()
        .enumerate()
        .map(|(i, text)| (text.parse().unwrap(), NextHop::from(i as u16)))
}

fn rules() -> Vec<Rule> {
    [
        "@10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF 0x1000/0x1000",
        "@192.0.2.0/24 10.0.0.0/8 0 : 65535 53 : 53 0x11/0xFF",
        "@192.0.2.0/24 10.0.0.0/8 0 : 65535 50 : 60 0x11/0xFF",
        "@0.0.0.0/0 10.1.0.0/16 0 : 65535 1024 : 65535 0x00/0x00",
    ]
    .map(|text| text.parse().unwrap())
    .to_vec()
}

fn patterns() -> Vec<Pattern> {
    let pattern = |text: &[u8], nocase| Pattern { bytes: text.to_vec(), nocase };
    let mut all: Vec<Pattern> = (b'a'..b'h').map(|byte| pattern(&[b'x', byte], false)).collect();
    all.extend([
        pattern(b"xab", true),
        pattern(b"Attack at dawn, or later", true),
        pattern(b"\x00\x00\x00\x00", false),
    ]);
    all
}

/// Every function that a scenario can choose, in every form; clones share their tables.
fn functions() -> Vec<Function> {
    static BUILT: OnceLock<Vec<Function>> = OnceLock::new();
    BUILT.get_or_init(built).clone()
}

fn built() -> Vec<Function> {
    let classify = |search| Classify::new(&rules(), &ClassifySpec { search, drop_unmatched: false }, PORTS).unwrap();
    let inspect = |method| Inspect::new(&patterns(), &InspectSpec { method, ..InspectSpec::default() }, PORTS).unwrap();
    let lookup = |structure| Lookup::new(routes(), PORTS, structure).unwrap();
    let templates: Vec<Template> = rules().iter().map(|rule| Template::from_rule(rule, true).unwrap()).collect();
    let firewall =
        |form| Firewall::new(&templates, &FirewallSpec { form, deny_by_default: false, ports: PORTS }).unwrap();
    vec![
        Function::HeaderCheck(HeaderCheck::new(ChecksumCheck::Software, PORTS)),
        Function::Classify(classify(RuleSearch::Linear)),
        Function::Classify(classify(RuleSearch::TupleSpace)),
        Function::Lookup(lookup(Structure::Dir24)),
        Function::Lookup(lookup(Structure::Poptrie)),
        Function::Ttl(Ttl::new(PORTS)),
        Function::Fragment(Fragment::new(&FragmentSpec { mtu: 200, buffers: 8 }, PORTS).unwrap()),
        Function::Inspect(inspect(Method::AhoCorasick)),
        Function::Inspect(inspect(Method::Bloom)),
        Function::Nat(Nat::new(&NatSpec { sessions: 64, ..NatSpec::default() }).unwrap()),
        Function::Firewall(firewall(FirewallForm::List)),
        Function::Firewall(firewall(FirewallForm::Compiled)),
        Function::Forward(Forward::new(routes(), PORTS, &ForwardSpec::default()).unwrap()),
    ]
}

fn chain() -> Chain {
    Chain::new(functions().into_iter().filter(|f| !matches!(f, Function::Nat(_) | Function::Forward(_))).collect())
        .unwrap()
}

fn packet(frame: &[u8], frame_bytes: u32) -> Packet {
    let mut packet = Packet::default();
    packet.set_frame(frame, frame_bytes);
    packet
}

fn ipv4(dst: u32, proto: u8, options: usize, l4: &[u8], ttl: u8) -> Packet {
    let total = (20 + options * 4 + l4.len()) as u16;
    let mut ip = vec![0x45 + options as u8, 0, 0, 0, 0, 1, 0, 0, ttl, proto, 0, 0, 192, 0, 2, 1];
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip.extend(dst.to_be_bytes());
    ip.extend(vec![1; options * 4]);
    let sum = internet_checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    ip.extend(l4);
    let frame = [&[2; 12], [8, 0].as_slice(), &ip].concat();
    packet(&frame, frame.len() as u32)
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let text = prop::collection::vec(prop::sample::select(b"xabcdefgATTACK\x00".to_vec()), 0..300);
    let dst = prop_oneof![Just(0x0a01_0203u32), Just(0x0a01_0283), Just(0x0a09_0000), any::<u32>()];
    let v4 = (dst, prop::sample::select(vec![1u8, 6, 17]), 0usize..=10, text, 0u8..4, 0u16..70).prop_map(
        |(dst, proto, options, text, ttl, port)| {
            let mut l4 = vec![0u8; if proto == 6 { 20 } else { 8 }];
            l4[2..4].copy_from_slice(&port.to_be_bytes());
            if proto == 6 {
                l4[12] = 0x50;
            }
            l4.extend(text);
            ipv4(dst, proto, options, &l4, ttl)
        },
    );
    let v6 = (any::<u64>(), 0u64..4, 0u8..4).prop_map(|(low, n, hops)| {
        let dst = u128::from(0x2001_0db8_0001_0000 + n) << 64 | u128::from(low);
        let mut frame = vec![2; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 17, hops]);
        frame.extend(0x2001_0db8_u128.wrapping_shl(96).to_be_bytes());
        frame.extend(dst.to_be_bytes());
        frame.extend([b'x'; 20]);
        packet(&frame, frame.len() as u32)
    });
    let good = prop_oneof![4 => v4, 1 => v6, 1 => Just(packet(&[&[2; 12], [8, 6].as_slice(), &[0; 28]].concat(), 42))];
    let damage = prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>(), any::<prop::sample::Index>()));
    (good, damage).prop_map(|(mut good, damage)| {
        let mut frame = good.data.clone();
        if let Some((at, byte, keep)) = damage {
            let at = at.index(frame.len());
            frame[at] = byte;
            frame.truncate(keep.index(frame.len() * 2).min(frame.len()));
        }
        let kept = frame.len() as u32;
        good.set_frame(&frame, kept);
        good
    })
}

fn burst() -> impl Strategy<Value = Vec<Packet>> {
    prop::collection::vec(any_packet(), 1..40).prop_map(|mut packets| {
        packets.iter_mut().enumerate().for_each(|(i, packet)| packet.id = PacketId(i as u64));
        packets
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A warp's lane runs a function on one packet: places then only grow, except in loops, whose ends are marked and
    /// whose beginning lies behind the marks of the loops before it.
    #[test]
    fn sites_of_all_functions_grow_in_program_order_from_latch_to_latch(packet in any_packet()) {
        let mut all = functions();
        all.push(Function::Chain(chain()));
        for mut function in all {
            let mut record = Record::new();
            function.process_burst(Ps::ZERO, &mut [packet.clone()], &mut record, &mut Vec::new());
            let (mut latest, mut looped) = (0, false);
            for event in record.iter() {
                let (site, latch) = match event {
                    ProbeEvent::Touch(r) => (r.site, false),
                    ProbeEvent::Copy { src, .. } => (src.site, false),
                    ProbeEvent::Work { site, .. } => (site, false),
                    ProbeEvent::Latch { site } => (site, true),
                    _ => continue,
                };
                prop_assert!(site >= latest || looped, "{}: site {site} after {latest}", function.name());
                (latest, looped) = (site, latch);
            }
        }
    }

    /// What a layout and a machine rely on.
    #[test]
    fn references_of_all_functions_lie_in_their_regions(packets in burst()) {
        let mut all = functions();
        all.push(Function::Chain(chain()));
        for mut function in all {
            let regions = function.regions();
            let sizes: BTreeMap<RegionId, u64> = regions.iter().map(|r| (r.id, r.bytes)).collect();
            prop_assert_eq!(sizes.len(), regions.len(), "{}: a region is numbered twice", function.name());
            let (mut record, mut out, mut burst) = (Record::new(), Vec::new(), packets.clone());
            function.process_burst(Ps::ZERO, &mut burst, &mut record, &mut out);
            prop_assert_eq!(out.len(), packets.len());
            let (mut current, mut back) = (None, 0usize);
            for event in record.iter() {
                match event {
                    ProbeEvent::Begin(id) => prop_assert_eq!(current.replace(id), None, "pairs do not nest"),
                    ProbeEvent::End(id) => prop_assert_eq!(current.take(), Some(id)),
                    ProbeEvent::Touch(r) => {
                        let of = &packets[current.unwrap().0 as usize];
                        let size = match r.region {
                            RegionId::PACKET if r.access == Access::Prefetch => u64::MAX,
                            RegionId::PACKET => of.data.len() as u64,
                            RegionId::MBUF => packet::MBUF_HEADER_BYTES,
                            table => sizes[&table],
                        };
                        prop_assert!(r.bytes >= 1 && r.offset + u64::from(r.bytes) <= size, "{}: {r:?} in {size} bytes", function.name());
                        prop_assert!(usize::from(r.dep) <= back, "{r:?}");
                        back += 1;
                    }
                    ProbeEvent::Copy { src, dst } => {
                        prop_assert!(src.bytes >= 1 && dst.offset + u64::from(dst.bytes) <= sizes[&dst.region], "{dst:?}");
                    }
                    ProbeEvent::Work { .. } => prop_assert!(current.is_some(), "work is somebody's"),
                    _ => {}
                }
            }
            prop_assert_eq!(current, None);
        }
    }

    /// A chain does what its members do one after the other to the packets that are left, in the order of arrival.
    #[test]
    fn a_chain_matches_its_members_in_turn(packets in burst()) {
        let mut one_by_one = packets.clone();
        let mut expected = Vec::new();
        for packet in &mut one_by_one {
            let mut fate = Verdict::Forward { port: PortId(0) };
            let mut routed = false;
            for mut member in chain().members().cloned() {
                let mut out = Vec::new();
                member.process_burst(Ps::ZERO, std::slice::from_mut(packet), &mut Null, &mut out);
                if matches!(out[0], Verdict::Drop(_)) || member.routes() || !routed {
                    fate = out[0];
                }
                routed |= member.routes();
                if matches!(fate, Verdict::Drop(_)) {
                    break;
                }
            }
            expected.push(fate);
        }
        let (mut chain, mut burst, mut out, mut count) = (chain(), packets.clone(), Vec::new(), Count::default());
        chain.process_burst(Ps::ZERO, &mut burst, &mut count, &mut out);
        prop_assert_eq!(&out, &expected);
        prop_assert_eq!(&burst, &one_by_one);
        // Shares are of the whole, and packets go in and out.
        let shares = chain.shares();
        prop_assert_eq!(shares.iter().map(|s| s.seen.references + s.seen.prefetches).sum::<u64>(), count.refs());
        prop_assert_eq!(shares.iter().map(|s| s.seen.instructions).sum::<u64>(), count.instructions);
        prop_assert_eq!(shares[0].packets, packets.len() as u64);
        for pair in shares.windows(2) {
            prop_assert_eq!(pair[0].packets - pair[0].dropped, pair[1].packets);
        }
    }
}

#[test]
fn sites_of_a_function_are_below_those_of_the_next_member() {
    let packets: Vec<Packet> =
        [(6, 20), (17, 8)].map(|(proto, l4)| ipv4(0x0a01_0203, proto, 3, &vec![b'x'; l4 + 400], 9)).to_vec();
    for mut function in functions() {
        let mut record = Record::new();
        function.process_burst(Ps::ZERO, &mut packets.clone(), &mut record, &mut Vec::new());
        let sites = record.iter().filter_map(|event| match event {
            ProbeEvent::Touch(r) => Some(r.site),
            ProbeEvent::Work { site, .. } | ProbeEvent::Latch { site } => Some(site),
            _ => None,
        });
        assert!(sites.max().is_some_and(|most| most < functions::chain::SITES_A_MEMBER), "{}", function.name());
    }
}

#[test]
fn a_chain_within_a_chain_is_its_members() {
    let ttl = || Function::Ttl(Ttl::new(2));
    let inner = Chain::new(vec![ttl(), ttl()]).unwrap();
    let outer = Chain::new(vec![Function::Chain(inner), ttl()]).unwrap();
    assert_eq!(outer.members().count(), 3);
    let error = Chain::new((0..65).map(|_| ttl()).collect()).unwrap_err().to_string();
    assert_eq!(error, "chain = 65 functions: allowed is up to 64 (take fewer)");
}

/// Frames of pcap data of either byte order, as far as they are whole.
fn frames(data: &[u8]) -> Vec<(Vec<u8>, u32)> {
    let big = data.starts_with(&[0xa1, 0xb2]);
    if !(big || data.starts_with(&[0xd4, 0xc3, 0xb2, 0xa1]) || data.starts_with(&[0x4d, 0x3c, 0xb2, 0xa1])) {
        return Vec::new();
    }
    let word = |at: usize| {
        let bytes: [u8; 4] = data.get(at..at + 4)?.try_into().ok()?;
        Some(if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    };
    let (mut at, mut frames) = (24, Vec::new());
    while let (Some(kept), Some(bytes)) = (word(at + 8), word(at + 12)) {
        let Some(frame) = data.get(at + 16..at + 16 + kept as usize) else { break };
        frames.push((frame.to_vec(), bytes));
        at += 16 + kept as usize;
    }
    frames
}

fn unpacked(path: &Path) -> Vec<u8> {
    let file = std::fs::File::open(path).unwrap();
    let mut data = Vec::new();
    let read = match path.extension().and_then(|ext| ext.to_str()) {
        Some("xz") => liblzma::read::XzDecoder::new(file).read_to_end(&mut data),
        _ => flate2::read::GzDecoder::new(file).read_to_end(&mut data),
    };
    read.unwrap();
    data
}

/// Packets that were made to break programs: each gets a verdict, and one that is dropped a reason.
#[test]
fn malformed_packets_get_a_verdict_with_a_reason() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/adversarial");
    let Ok(files) = std::fs::read_dir(&folder) else {
        println!("skipped: {} is not there", folder.display());
        return;
    };
    let mut packets: Vec<Packet> = Vec::new();
    for path in files.map(|file| file.unwrap().path()) {
        let data = unpacked(&path);
        // Captures inside an archive begin at multiples of 512 bytes.
        let starts =
            if path.to_string_lossy().contains(".tar") { (0..data.len()).step_by(512).collect() } else { vec![0] };
        for start in starts {
            packets.extend(frames(&data[start..]).iter().take(300).map(|(frame, bytes)| packet(frame, *bytes)));
        }
    }
    assert!(packets.len() > 5_000, "{}", packets.len());
    let mut all = functions();
    all.push(Function::Chain(chain()));
    for mut function in all {
        let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
        for burst in packets.clone().chunks_mut(32) {
            let mut out = Vec::new();
            function.process_burst(Ps::ZERO, burst, &mut Null, &mut out);
            assert_eq!(out.len(), burst.len());
            for verdict in out {
                *seen
                    .entry(match verdict {
                        Verdict::Forward { .. } => "forwarded",
                        Verdict::Drop(reason) => reason.name(),
                    })
                    .or_default() += 1;
            }
        }
        println!("{}: {seen:?}", function.name());
        // Reasons beyond that it is not IP.
        assert!(seen.contains_key(DropReason::NotIp.name()) && seen.len() > 3, "{}: {seen:?}", function.name());
    }
}

#[test]
fn the_reasons_of_the_applications_are_met() {
    let met: BTreeSet<DropReason> = [
        DropReason::Unclassified,
        DropReason::FragmentationNeeded,
        DropReason::PacketTooBig,
        DropReason::Unfragmentable,
        DropReason::SignatureFound,
        // Of programs that were recorded.
        DropReason::Recorded,
    ]
    .into();
    // Each has a case of its own in the tests of its function; this holds that there are no others.
    let last = DropReason::ALL.iter().copied().filter(|reason| *reason > DropReason::NatTableFull);
    assert!(last.eq(met));
}
