//! The packet filter: both forms against a plain loop over the templates, on made and on real filter sets.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use functions::firewall::FirewallForm;
use functions::{DropReason, Firewall, FirewallSpec, PacketFunction, Template, Verdict};
use packet::{Packet, internet_checksum};
use probe::{Count, ProbeEvent, Record, RegionId};
use proptest::prelude::*;
use units::{PortId, Ps};

fn build(templates: &[Template], form: FirewallForm, deny_by_default: bool) -> Firewall {
    Firewall::new(templates, &FirewallSpec { form, deny_by_default, ports: 2 }).unwrap()
}

fn naive(templates: &[Template], deny_by_default: bool, fields: &[u32; 5]) -> bool {
    templates.iter().find(|template| template.matches(fields)).map_or(!deny_by_default, |template| template.permit)
}

fn range(most: u32) -> impl Strategy<Value = (u32, u32)> {
    prop_oneof![
        Just((0, most)),
        (0..=most.min(20), 0..=most.min(20)).prop_map(|(a, b)| (a.min(b), a.max(b))),
        (0..=most).prop_map(|a| (a, a)),
        (0..=most).prop_map(move |a| (a, most)),
    ]
}

fn template() -> impl Strategy<Value = Template> {
    let port = || range(65535).prop_map(|(a, b)| (a as u16, b as u16));
    let proto = prop::sample::select(vec![None, Some(6u8), Some(17), Some(1)]);
    (range(u32::MAX), range(u32::MAX), port(), port(), proto, any::<bool>()).prop_map(
        |(src, dst, src_port, dst_port, proto, permit)| Template { src, dst, src_port, dst_port, proto, permit },
    )
}

fn fields() -> impl Strategy<Value = [u32; 5]> {
    let address = || prop_oneof![0u32..25, any::<u32>()];
    let port = || prop_oneof![0u32..25, 0u32..65536];
    (address(), address(), port(), port(), prop::sample::select(vec![1u32, 6, 17]))
        .prop_map(|(a, b, c, d, e)| [a, b, c, d, e])
}

proptest! {
    #[test]
    fn list_and_compiled_match_naive(
        templates in prop::collection::vec(template(), 0..150), deny: bool,
        packets in prop::collection::vec(fields(), 1..50),
    ) {
        let (list, compiled) = (build(&templates, FirewallForm::List, deny), build(&templates, FirewallForm::Compiled, deny));
        for fields in packets {
            let right = naive(&templates, deny, &fields);
            prop_assert_eq!(list.permits(&fields), right, "list, {:?}", fields);
            prop_assert_eq!(compiled.permits(&fields), right, "compiled, {:?}", fields);
        }
    }

    #[test]
    fn references_lie_in_their_regions(
        templates in prop::collection::vec(template(), 1..150), compiled: bool, fields in fields(),
    ) {
        let form = if compiled { FirewallForm::Compiled } else { FirewallForm::List };
        let mut firewall = build(&templates, form, false);
        let regions: BTreeMap<RegionId, u64> = firewall.regions().into_iter().map(|r| (r.id, r.bytes)).collect();
        let mut packet = [packet(fields)];
        let (mut record, mut out) = (Record::new(), Vec::new());
        firewall.process_burst(Ps::ZERO, &mut packet, &mut record, &mut out);
        for event in record.iter() {
            if let ProbeEvent::Touch(r) = event && r.region != RegionId::PACKET && r.region != RegionId::MBUF {
                prop_assert!(r.offset + u64::from(r.bytes) <= regions[&r.region], "{:?}", r);
            }
        }
    }
}

fn packet([src, dst, src_port, dst_port, proto]: [u32; 5]) -> Packet {
    let mut ip = vec![0x45, 0, 0, 40, 0, 1, 0, 0, 64, proto as u8, 0, 0];
    ip.extend(src.to_be_bytes());
    ip.extend(dst.to_be_bytes());
    let sum = internet_checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend((src_port as u16).to_be_bytes());
    ip.extend((dst_port as u16).to_be_bytes());
    ip.extend([0; 16]);
    let mut frame = vec![0xee; 12];
    frame.extend([8, 0]);
    frame.extend(ip);
    let mut packet = Packet::default();
    packet.set_frame(&frame, frame.len() as u32);
    packet
}

const USUAL: [u32; 5] = [0x0a00_0001, 0xc633_6407, 4000, 80, 6];

#[test]
fn a_packet_that_passes_loses_a_hop_and_one_that_does_not_is_left_alone() {
    let deny = Template::parse("@10.0.0.0/8 0.0.0.0/0 0 : 65535 23 : 23 0x06/0xFF", false).unwrap();
    let mut firewall = build(&[deny], FirewallForm::List, false);
    let mut packets = [packet(USUAL), packet([USUAL[0], USUAL[1], 4000, 23, 6])];
    packets[1].port = PortId(1);
    let before = packets[1].clone();
    let mut out = Vec::new();
    firewall.process_burst(Ps::ZERO, &mut packets, &mut probe::Null, &mut out);
    assert_eq!(out, [Verdict::Forward { port: PortId(1) }, Verdict::Drop(DropReason::Denied)]);
    assert_eq!(packets[0].data[22], 63);
    assert_eq!(internet_checksum(&packets[0].data[14..34]), 0);
    assert_eq!(packets[1], before);
}

#[test]
fn references_per_packet_are_what_the_module_header_says() {
    let other = Template::parse("@203.0.113.0/24 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00", false).unwrap();
    let refs = |form, templates: usize| {
        let (mut count, mut out) = (Count::default(), Vec::new());
        build(&vec![other; templates], form, false).process_burst(Ps::ZERO, &mut [packet(USUAL)], &mut count, &mut out);
        count.refs()
    };
    assert_eq!(refs(FirewallForm::List, 0), 6 + 1 + 2);
    assert_eq!(refs(FirewallForm::List, 16), 6 + 1 + 16 + 2);
    // The source has three intervals (at most two steps), other fields one each; two words of vectors in five fields.
    assert_eq!(refs(FirewallForm::Compiled, 100), 6 + 1 + 1 + 10 + 2);
}

#[test]
fn texts_that_are_no_filters_are_refused_with_what_came() {
    let bad = [
        "",
        "10.0.0.0/8 x",
        "@10.0.0.0/33 0.0.0.0/0 0 : 1 0 : 1 0x06/0xFF",
        "@10.0.0.0/8 0.0.0.0/0 9 : 1 0 : 1 0x06/0xFF",
        "@10.0.0.0/8 0.0.0.0/0 0 : 1 0 : 1 0x06/0x0F",
    ];
    for text in bad {
        let message = Template::parse(text, true).unwrap_err().to_string();
        assert!(message.starts_with("firewall.templates = "), "{message}");
    }
    let template = Template::parse("@10.1.2.3/24 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF	0x0000/0x0000", true).unwrap();
    assert_eq!(Ipv4Addr::from(template.src.0), Ipv4Addr::new(10, 1, 2, 0));
    assert!(
        Firewall::new(&vec![template; 9000], &FirewallSpec { form: FirewallForm::Compiled, ..FirewallSpec::default() })
            .is_err()
    );
}

#[test]
fn real_filter_sets_decide_alike_in_both_forms() {
    for name in ["fw1_1k", "acl1_1k", "ipc1_1k"] {
        let path =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../../shared/data/rules/{name}.rules.gz"));
        let Ok(file) = std::fs::File::open(&path) else {
            println!("skipped: {} is not there", path.display());
            return;
        };
        let mut text = String::new();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
        let templates: Vec<Template> =
            text.lines().enumerate().map(|(i, line)| Template::parse(line, i % 3 > 0).unwrap()).collect();
        let (list, compiled) =
            (build(&templates, FirewallForm::List, true), build(&templates, FirewallForm::Compiled, true));
        for (i, template) in templates.iter().enumerate() {
            let other = &templates[(i * 7 + 1) % templates.len()];
            for fields in [
                [template.src.0, template.dst.1, u32::from(template.src_port.0), u32::from(template.dst_port.1), 6],
                [template.src.1, other.dst.0, u32::from(other.src_port.1), u32::from(template.dst_port.0), 17],
            ] {
                let right = naive(&templates, true, &fields);
                assert_eq!((list.permits(&fields), compiled.permits(&fields)), (right, right), "{name} {fields:?}");
            }
        }
    }
}
