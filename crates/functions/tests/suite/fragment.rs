//! Fragments: cut as the procedure of RFC 791 cuts, and put together again to the packet they were.

use std::process::Command;

use crate::options::options;
use functions::fragment::assemble;
use functions::{DropReason, Fragment, FragmentSpec, PacketFunction, Verdict};
use packet::{Packet, internet_checksum};
use probe::{Count, Null};
use proptest::prelude::*;
use units::{PacketId, PortId, Ps};

/// An IPv4 packet behind an Ethernet header; `place` is flags and offset.
fn packet(options: &[u8], payload: &[u8], place: u16) -> Packet {
    let mut ip = vec![0x45 + (options.len() / 4) as u8, 0];
    ip.extend(((20 + options.len() + payload.len()) as u16).to_be_bytes());
    ip.extend([0xbe, 0xef]);
    ip.extend(place.to_be_bytes());
    ip.extend([64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7]);
    ip.extend(options);
    let sum = internet_checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    ip.extend(payload);
    let mut frame = vec![2; 12];
    frame.extend([8, 0]);
    frame.extend(ip);
    let mut packet = Packet { id: PacketId(7), ..Packet::default() };
    packet.set_frame(&frame, frame.len() as u32);
    packet
}

fn cut(mtu: u32, packet: &Packet) -> (Verdict, Vec<Packet>) {
    let mut fragment = Fragment::new(&FragmentSpec { mtu, buffers: 64 }, 2).unwrap();
    let (mut burst, mut out) = ([packet.clone()], Vec::new());
    fragment.process_burst(Ps::ZERO, &mut burst, &mut Null, &mut out);
    let [first] = burst;
    (out[0], std::iter::once(first).chain(fragment.fragments().iter().cloned()).collect())
}

/// The example procedure of RFC 791 section 3.2, a fragment at a time from the rest of the datagram, with the options that
/// are to be copied picked one by one.
fn naive(mtu: usize, ip: &[u8]) -> Vec<Vec<u8>> {
    let word = |at: usize| usize::from(u16::from_be_bytes([ip[at], ip[at + 1]]));
    let (header, total) = (usize::from(ip[0] & 15) * 4, word(2));
    if total <= mtu {
        return vec![ip[..total].to_vec()];
    }
    let blocks = (mtu - header) / 8;
    let build = |header: &[u8], payload: &[u8], place: u16| {
        let mut out = header.to_vec();
        out[0] = 0x40 + (header.len() / 4) as u8;
        out[2..4].copy_from_slice(&((header.len() + payload.len()) as u16).to_be_bytes());
        out[6..8].copy_from_slice(&place.to_be_bytes());
        out[10..12].fill(0);
        let sum = internet_checksum(&out).to_be_bytes();
        out[10..12].copy_from_slice(&sum);
        out.extend(payload);
        out
    };
    let place = word(6) as u16;
    let first = build(&ip[..header], &ip[header..header + blocks * 8], 0x2000 | place & 0x1fff);
    let mut copied = Vec::new();
    let mut options = &ip[20..header];
    while let [kind, rest @ ..] = options {
        let bytes = match (kind, rest) {
            (0, _) => break,
            (1, _) => 1,
            (_, [bytes, ..]) if *bytes >= 2 && usize::from(*bytes) <= options.len() => usize::from(*bytes),
            _ => break,
        };
        if kind & 0x80 != 0 {
            copied.extend(&options[..bytes]);
        }
        options = &options[bytes..];
    }
    while copied.len() % 4 != 0 {
        copied.push(0);
    }
    let front = [&ip[..20], &copied].concat();
    let rest = build(&front, &ip[header + blocks * 8..total], place & 0x2000 | ((place & 0x1fff) + blocks as u16));
    let mut all = vec![first];
    all.extend(naive(mtu, &rest));
    all
}

/// What a receiver makes of fragments in any order: header of the first, payload by offset.
fn reassembled(fragments: &[Packet]) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut sorted: Vec<&[u8]> = fragments.iter().map(|fragment| &fragment.data[14..]).collect();
    sorted.sort_by_key(|ip| u16::from_be_bytes([ip[6] & 0x1f, ip[7]]));
    let base = u16::from_be_bytes([sorted[0][6] & 0x1f, sorted[0][7]]);
    for ip in &sorted {
        let offset = usize::from(u16::from_be_bytes([ip[6] & 0x1f, ip[7]]) - base) * 8;
        assert_eq!(offset, payload.len(), "no gap and no overlap");
        payload.extend(&ip[usize::from(ip[0] & 15) * 4..]);
    }
    payload
}

proptest! {
    #[test]
    fn fragments_match_naive_and_are_the_packet_again(
        options in options(), bytes in 0usize..4000, mtu in 68u32..2000, offset in 0u16..100, more: bool, slack in 0usize..20,
    ) {
        let payload: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 256) as u8).collect();
        let place = offset | if more { 0x2000 } else { 0 };
        let mut whole = packet(&options, &payload, place);
        // Ethernet's padding is not part of the packet.
        whole.data.extend(vec![0xaa; slack]);
        whole.frame_bytes += slack as u32;
        let (verdict, fragments) = cut(mtu, &whole);
        prop_assert_eq!(verdict, Verdict::Forward { port: PortId(1) });
        let expected = naive(mtu as usize, &whole.data[14..]);
        prop_assert_eq!(fragments.len(), expected.len());
        if fragments.len() == 1 {
            prop_assert_eq!(&fragments[0], &whole);
            return Ok(());
        }
        for (fragment, expected) in fragments.iter().zip(&expected) {
            prop_assert_eq!(&fragment.data[14..], &expected[..]);
            prop_assert_eq!(fragment.id, PacketId(7));
            prop_assert_eq!(fragment.frame_bytes as usize, fragment.data.len());
            prop_assert!(fragment.data.len() - 14 <= mtu as usize);
            let ip = &fragment.data[14..];
            prop_assert_eq!(internet_checksum(&ip[..usize::from(ip[0] & 15) * 4]), 0);
        }
        prop_assert_eq!(reassembled(&fragments), payload);
    }
}

#[test]
fn what_may_not_be_fragmented_gets_the_verdict_that_a_message_is_due() {
    let verdict = |mtu, packet: &Packet| cut(mtu, packet).0;
    let pass = Verdict::Forward { port: PortId(1) };
    let drop = Verdict::Drop;
    let payload = [7; 100];
    // At the MTU, and one byte above it.
    assert_eq!(verdict(120, &packet(&[], &payload, 0x4000)), pass);
    assert_eq!(verdict(119, &packet(&[], &payload, 0x4000)), drop(DropReason::FragmentationNeeded));
    assert_eq!(verdict(119, &packet(&[], &payload, 0)), pass);
    // 40 bytes of options leave no room for 8 bytes of payload at an MTU of 67, which cannot be; offsets can run out.
    assert_eq!(verdict(119, &packet(&[], &payload, 8191 - 12)), pass);
    assert_eq!(verdict(119, &packet(&[], &payload, 8191 - 11)), drop(DropReason::Unfragmentable));
    let mut v6 = vec![2; 12];
    v6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 60, 17, 64]);
    v6.extend([0x20; 32]);
    v6.extend([0; 60]);
    let mut packet = Packet::default();
    packet.set_frame(&v6, v6.len() as u32);
    assert_eq!(verdict(100, &packet), pass);
    assert_eq!(verdict(99, &packet), drop(DropReason::PacketTooBig));
}

#[test]
fn references_per_packet_are_what_the_module_header_says() {
    let refs = |mtu, packet: Packet| {
        let mut fragment = Fragment::new(&FragmentSpec { mtu, buffers: 64 }, 2).unwrap();
        let mut count = Count::default();
        fragment.process_burst(Ps::ZERO, &mut [packet], &mut count, &mut Vec::new());
        count.refs()
    };
    assert_eq!(refs(1500, packet(&[], &[0; 1000], 0)), 5);
    // Two more fragments: 68 bytes of MTU carry 48. Source and target of their copies, of 48 and 4 bytes, begin in different
    // places of a line: the first one goes in three pieces.
    let copies = 2 * 3 + 2;
    assert_eq!(refs(68, packet(&[], &[0; 100], 0)), 5 + 3 + 2 * 3 + copies);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let error = |mtu, buffers| Fragment::new(&FragmentSpec { mtu, buffers }, 2).unwrap_err().to_string();
    assert_eq!(error(67, 1), "fragment.mtu = 67: allowed is 68 to 65535 (every link carries 68 bytes: RFC 791)");
    assert!(error(68, 0).starts_with("fragment.buffers = 0: allowed is 1 to 1048576"));
}

/// An independent program puts the fragments together: the payload it shows is that of the packet.
#[test]
fn tshark_puts_the_fragments_together() {
    if !Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: needs tshark (Debian: apt install tshark)");
        return;
    }
    let mut udp = vec![0x30, 0x39, 0x30, 0x3a];
    let data: Vec<u8> = (0..3000u32).map(|i| ((i * 31) >> 3) as u8).collect();
    udp.extend(((8 + data.len()) as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(&data);
    // Loose source route is copied, record route is not.
    let (_, mut fragments) = cut(576, &packet(&[131, 7, 4, 10, 0, 0, 1, 7, 7, 4, 0, 0, 0, 0, 0, 0], &udp, 0));
    assert_eq!(fragments.len(), 6);
    fragments.reverse();
    let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
    for fragment in &fragments {
        capture.extend([0; 8]);
        capture.extend((fragment.data.len() as u32).to_le_bytes().repeat(2));
        capture.extend(&fragment.data);
    }
    let file = std::env::temp_dir().join(format!("wirespeed-fragments-{}.pcap", std::process::id()));
    std::fs::write(&file, capture).unwrap();
    let output = Command::new("tshark")
        .args(["-o", "ip.defragment:TRUE", "-o", "ip.check_checksum:TRUE", "-T", "fields", "-e", "data.data"])
        .args(["-e", "ip.checksum.status", "-r"])
        .arg(&file)
        .output()
        .unwrap();
    std::fs::remove_file(&file).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(text.lines().any(|line| line.split('\t').next() == Some(&hex)), "{text}");
    assert!(text.lines().all(|line| line.split('\t').nth(1) == Some("1")), "every checksum is right: {text}");
}

#[test]
fn parts_that_are_none_are_told_and_not_put_together() {
    let mut packet = Packet { data: vec![0; 14 + 40], l3_offset: 14, frame_bytes: 54, ..Packet::default() };
    (packet.data[14], packet.data[17]) = (0x45, 28);
    let mut parts = [0u32; 16 + 2];
    let done = |parts: &[u32]| assemble(&mut packet.clone(), parts, &mut Vec::new(), 0);
    assert_eq!(done(&parts), None, "a header of no bytes");
    parts[0] = u32::from_ne_bytes([0x45, 0, 0, 0]);
    assert_eq!(done(&parts), Some(0));
    parts[15] = 1;
    parts[16] = 32 << 16 | 1;
    assert_eq!(done(&parts), Some(1));
    parts[15] = 2;
    assert_eq!(done(&parts), None, "more fragments than there is room for");
    assert_eq!(done(&parts[..15]), None);
    packet.data[17] = 10;
    assert_eq!(assemble(&mut packet, &parts[..16], &mut Vec::new(), 0), None, "a first fragment within its header");
}
