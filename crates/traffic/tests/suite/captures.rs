//! Captures of every format, byte order and compression, sound and damaged.

use crate::write::*;
use packet::{L3, Packet};
use proptest::prelude::*;
use traffic::{Capture, CaptureFormat, CaptureReport, Compression, DamageKind, Load, Source, SourceSpec, TrafficError};

fn read(bytes: Vec<u8>) -> (Vec<Packet>, CaptureReport) {
    let mut capture = Capture::from_bytes(bytes, "test").expect("a capture");
    let (mut all, mut packet) = (Vec::new(), Packet::default());
    while capture.next(&mut packet) {
        all.push(packet.clone());
    }
    assert!(!capture.next(&mut packet), "the end stays the end");
    (all, capture.report().clone())
}

fn refused(bytes: Vec<u8>) -> String {
    match Capture::from_bytes(bytes, "test") {
        Ok(_) => panic!("an error"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn every_format_and_byte_order_gives_the_same_packets() {
    let frames = frames(50);
    for (name, format, bytes, resolution) in sound_captures(&frames) {
        let (packets, report) = read(bytes);
        assert!(report.damage.is_empty(), "{name}: {}", report.damage);
        assert_eq!((report.format, report.packets, report.records), (format, 50, 50), "{name}");
        for (i, (packet, frame)) in packets.iter().zip(&frames).enumerate() {
            let ip = if format == CaptureFormat::Tsh { 36.min(frame.data.len() - 14) } else { frame.data.len() - 14 };
            assert_eq!(packet.data[14..], frame.data[14..14 + ip], "{name} {i}");
            assert_eq!((packet.frame_bytes, packet.l3, packet.l3_offset), (frame.wire, L3::V4, 14), "{name} {i}");
            assert_eq!(packet.id.0, i as u64);
            let since = frame.ns - frames[0].ns;
            let expected = match resolution {
                Resolution::Exact => since * 1000,
                Resolution::Micros => (frame.ns / 1000 - frames[0].ns / 1000) * 1_000_000,
                Resolution::None => 0,
            };
            // ERF counts in 2^-32 s, 233 ps.
            assert!(packet.arrival.0.abs_diff(expected) <= 233, "{name} {i}: {} for {expected}", packet.arrival.0);
        }
    }
}

#[test]
fn runs_of_an_endless_replay_start_elsewhere_and_go_round() {
    const PACKETS: usize = 50;
    let path = std::env::temp_dir().join(format!("wirespeed-rotate-{}.pcap", std::process::id()));
    let bytes = pcap(&frames(PACKETS as u64), false, true);
    std::fs::write(&path, &bytes).unwrap();
    let original = read(bytes).0;
    let sent = |rounds, run| {
        let spec = SourceSpec { capture: Some(path.clone()), rounds, ..Default::default() };
        let mut source = Source::new(&spec, 1, &Load::Timestamps(1.0), None).unwrap();
        source.rotate(run);
        let mut packet = Packet::default();
        let next = |_| source.next(&mut packet).then(|| (packet.data.clone(), packet.arrival));
        (0..PACKETS).map_while(next).collect::<Vec<_>>()
    };
    let gap = |of: &[(Vec<u8>, units::Ps)], i: usize| of[i + 1].1.since(of[i].1);
    let (first, place) =
        (sent(None, 1), |run: Vec<(Vec<u8>, _)>| original.iter().position(|p| p.data == run[0].0).unwrap());
    assert_eq!(place(first.clone()), 0);
    let mut places: Vec<usize> = (0..8).map(|run| place(sent(None, run))).collect();
    let start = places[2];
    let turned = sent(None, 2);
    for (i, (data, _)) in turned.iter().enumerate() {
        assert_eq!(*data, original[(start + i) % PACKETS].data);
    }
    assert_eq!(turned[0].1, units::Ps::ZERO);
    for i in (0..PACKETS - 1 - start).filter(|i| start + i + 1 < PACKETS) {
        assert_eq!(gap(&turned, i), gap(&first, start + i));
    }
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 8, "eight runs begin at eight places");
    assert_eq!(sent(Some(1), 2), sent(Some(1), 1), "so many rounds are all of the capture");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn compression_is_found_by_magic_and_changes_nothing() {
    let plain = pcap(&frames(300), false, true);
    let expected = read(plain.clone()).0;
    for (compression, bytes) in [
        (Compression::Gzip, gzip(&plain)),
        (Compression::Gzip, [gzip(&plain[..1000]), gzip(&plain[1000..])].concat()),
        (Compression::Xz, xz(&plain)),
        (Compression::Zstd, zstd::encode_all(&plain[..], 3).unwrap()),
    ] {
        let (packets, report) = read(bytes);
        assert_eq!((packets == expected, report.compression), (true, compression));
    }
}

#[test]
fn a_golden_pcap_reads_byte_for_byte() {
    // Big-endian, microseconds, Ethernet; one packet of 60 bytes of which 20 are kept.
    let golden = [
        &[0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 96, 0, 0, 0, 1][..],
        &[0x4b, 0x4d, 0x0d, 0x01, 0, 0, 0, 7, 0, 0, 0, 20, 0, 0, 0, 60],
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x00, 0x45, 0, 0, 46, 0, 1],
    ];
    let (packets, _) = read(golden.concat());
    assert_eq!(packets.len(), 1);
    assert_eq!((packets[0].frame_bytes, packets[0].data.as_slice()), (60, golden[2]));
    assert_eq!(packets[0].l3, L3::V4);
}

#[test]
fn a_cut_capture_gives_the_whole_packets_before_the_cut_at_every_place() {
    let frames = frames(6);
    for (name, _, bytes, _) in sound_captures(&frames) {
        let whole = read(bytes.clone()).0;
        let mut most = 0;
        for cut in 0..bytes.len() {
            match Capture::from_bytes(bytes[..cut].to_vec(), "cut") {
                Err(TrafficError::Format { .. } | TrafficError::NothingUsable { .. }) => assert_eq!(most, 0, "{name}"),
                Err(e) => panic!("{name}: {e}"),
                Ok(mut capture) => {
                    let (mut n, mut packet) = (0, Packet::default());
                    while capture.next(&mut packet) {
                        assert_eq!(packet, whole[n], "{name} cut at {cut}");
                        n += 1;
                    }
                    assert!(n >= most, "{name} cut at {cut}: {n} packets, {most} with less");
                    most = n;
                }
            }
        }
        assert!(most >= 5, "{name}");
    }
}

#[test]
fn truncation_is_one_finding_with_its_offset() {
    let bytes = pcap(&frames(3), true, false);
    let length = bytes.len();
    let last = 24 + 2 * (16 + 60);
    let (packets, report) = read(bytes[..length - 5].to_vec());
    assert_eq!(packets.len(), 2);
    assert_eq!(report.damage.count, 1);
    assert_eq!((report.damage.first[0].kind, report.damage.first[0].offset), (DamageKind::Truncated, last + 16));
    let said = report.damage.to_string();
    assert_eq!(said, format!("at byte {}: the input ends 55 bytes into a record's 60 bytes", last + 16));
}

#[test]
fn a_record_of_4_gigabytes_is_named_and_the_next_sound_one_is_found() {
    let frames = frames(100);
    let step = 16 + 60;
    for big in [true, false] {
        let mut bytes = pcap(&frames, big, true);
        let at = 24 + 40 * step;
        bytes[at + 8..at + 12].copy_from_slice(&[0xff; 4]);
        let (packets, report) = read(bytes);
        assert_eq!(packets.len(), 99);
        assert_eq!((report.damage.count, report.damage.first[0].offset), (1, at as u64));
        assert_eq!(report.damage.skipped_bytes, step as u64);
        assert!(
            report
                .damage
                .to_string()
                .contains("a record of 4294967295 stored bytes of 60 (at most 262144 can be) that leads to no other")
        );
    }
}

#[test]
fn bytes_that_are_missing_or_too_many_cost_the_records_around_them_only() {
    let frames = frames(200);
    for (name, format, bytes, _) in sound_captures(&frames) {
        // Simple packet blocks and all others: something in the middle goes, or comes in.
        for (cut, insert) in [(7, 0), (0, 1000), (150, 0)] {
            let middle = bytes.len() / 2;
            let damaged = [&bytes[..middle], &vec![0xa5; insert], &bytes[middle + cut..]].concat();
            let (packets, report) = read(damaged);
            assert!(!report.damage.is_empty(), "{name} {cut} {insert}");
            let lost = 200 - packets.len() as i64;
            // TSH has so little to check that noise passes for a record now and then.
            let spare = if format == CaptureFormat::Tsh { -1 } else { 0 };
            assert!((spare..=16).contains(&lost), "{name} {cut} {insert}: {lost} lost");
        }
    }
}

#[test]
fn what_is_no_capture_is_told_what_is_allowed() {
    assert_eq!(
        refused(b"hello, world, this is no capture at all".to_vec()),
        "test: not a capture: it starts with bytes 68 65 6c 6c 6f 2c 20 77 (allowed: pcap, pcapng, TSH, ERF; plain or \
         compressed with gzip, xz or zstd)"
    );
    assert!(refused(vec![]).contains("nothing: it is empty"));
    assert!(refused(gzip(b"")).contains("nothing: it is empty"));
    assert!(refused(vec![0; 100_000]).contains("not a capture"));
    let noise: Vec<u8> = (0..10_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    assert!(refused(noise).contains("not a capture"));
    let broken = refused(gzip(&pcap(&frames(3), true, true))[..12].to_vec());
    assert!(broken.contains("gzip stream breaks here"), "{broken}");
}

#[test]
fn a_capture_without_a_usable_packet_says_why() {
    assert_eq!(refused(pcap(&[], true, true)), "test: pcap with no usable packet: it has no whole record");
    let mut usb = pcap(&frames(3), false, true);
    usb[20] = 189;
    assert_eq!(
        refused(usb),
        "test: pcap with no usable packet: of 3 records none can be used; at byte 40: unsupported link type 189: its \
         packets are skipped"
    );
}

#[test]
fn an_endless_input_that_makes_no_sense_is_given_up() {
    use std::io::Read;
    let head = pcap(&frames(3), true, true);
    let endless = std::io::Cursor::new(head).chain(std::io::repeat(0xff));
    let mut capture = Capture::new(endless, "endless").unwrap();
    let (mut packet, mut n) = (Packet::default(), 0);
    while capture.next(&mut packet) {
        n += 1;
    }
    assert_eq!(n, 3);
    assert_eq!(capture.report().damage.count, 1);
}

#[test]
fn a_decompression_bomb_is_read_as_a_stream() {
    // 256 MB of zeros behind three packets: zeros are records without a byte, which are too short.
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut bomb, &pcap(&frames(3), true, true)).unwrap();
    for _ in 0..256 {
        std::io::Write::write_all(&mut bomb, &vec![0; 1 << 20]).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 1 << 20);
    let (packets, report) = read(bomb);
    assert_eq!((packets.len(), report.too_short), (3, 16 << 20));
}

#[test]
fn time_never_goes_back_and_a_joined_capture_goes_on() {
    let mut frames = frames(6);
    for (frame, ms) in frames.iter_mut().zip([100_000u64, 100_001, 100_000, 100_003, 7, 9]) {
        frame.ns = ms * 1_000_000;
    }
    let (packets, report) = read(pcap(&frames, true, true));
    let ms: Vec<u64> = packets.iter().map(|p| p.arrival.0 / 1_000_000_000).collect();
    assert_eq!(ms, [0, 1, 1, 3, 3, 5]);
    assert_eq!((report.disordered, report.clock_jumps), (1, 1));
}

#[test]
fn frame_check_sequences_are_left_out() {
    let frame = Frame { ns: 0, wire: 64, data: [frames(1)[0].data.clone(), vec![0xfc; 4]].concat() };
    // Bit 26 says that the bits above 28 are the length, in 16-bit words.
    let mut with_fcs = pcap(&[frame], false, true);
    with_fcs[20..24].copy_from_slice(&(1u32 | 1 << 26 | 2 << 28).to_le_bytes());
    let (packets, _) = read(with_fcs);
    assert_eq!((packets[0].frame_bytes, packets[0].data.len()), (60, 60));
}

#[test]
fn pcapng_sections_of_either_order_follow_each_other_with_their_own_interfaces() {
    let frames = frames(4);
    let mut raw = frames.clone();
    raw.iter_mut().for_each(|f| f.data = f.data.split_off(14));
    let bytes = [pcapng(&frames, true, 1, Some(9)), pcapng(&raw, false, 101, None)].concat();
    let (packets, report) = read(bytes);
    assert_eq!((packets.len(), report.link_types[&1], report.link_types[&101]), (8, 4, 4));
    assert!(packets.iter().all(|p| p.l3 == L3::V4));
}

#[test]
fn a_pcapng_packet_of_an_unknown_interface_is_damage() {
    let frames = frames(2);
    let mut bytes = pcapng(&frames, true, 1, None);
    let first = bytes.windows(4).position(|w| w == [0, 0, 0, 6]).unwrap();
    bytes[first + 11] = 3;
    let (packets, report) = read(bytes);
    assert_eq!(packets.len(), 1);
    assert!(report.damage.to_string().contains("a packet of interface 3, but 1 are described"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn mutated_captures_never_panic_and_stay_in_bounds(
        which in 0..12usize,
        places in prop::collection::vec((any::<u16>(), any::<u8>()), 0..12),
        cut in any::<u16>(),
        packed in 0..4,
    ) {
        let captures = sound_captures(&frames(12));
        let mut bytes = captures[which % captures.len()].2.clone();
        if packed == 1 { bytes = gzip(&bytes) }
        if packed == 2 { bytes = xz(&bytes) }
        if packed == 3 { bytes = zstd::encode_all(&bytes[..], 1).unwrap() }
        let n = bytes.len();
        for (at, value) in places {
            bytes[usize::from(at) % n] = value;
        }
        bytes.truncate(n - usize::from(cut) % n / 3);
        if let Ok(mut capture) = Capture::from_bytes(bytes, "mutated") {
            let (mut packet, mut last, mut count) = (Packet::default(), units::Ps::ZERO, 0);
            while capture.next(&mut packet) {
                prop_assert!(packet.data.len() <= packet.frame_bytes as usize);
                prop_assert!(packet.frame_bytes as usize <= traffic::MAX_STORED_BYTES + 14);
                prop_assert!(packet.arrival >= last && packet.arrival <= traffic::LATEST_ARRIVAL);
                last = packet.arrival;
                count += 1;
            }
            prop_assert!(count <= 20_000);
            prop_assert_eq!(capture.report().packets, count);
        }
    }

    #[test]
    fn any_bytes_behind_a_magic_never_panic(magic in 0..8usize, tail in prop::collection::vec(any::<u8>(), 0..600)) {
        let magic: &[u8] = [
            &[0xa1, 0xb2, 0xc3, 0xd4][..], &[0x4d, 0x3c, 0xb2, 0xa1], &[0x34, 0xcd, 0xb2, 0xa1],
            &[0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28, 0x1a, 0x2b, 0x3c, 0x4d], &[0x1f, 0x8b, 8, 0],
            &[0xfd, b'7', b'z', b'X', b'Z', 0], &[0x28, 0xb5, 0x2f, 0xfd], &[],
        ][magic];
        if let Ok(mut capture) = Capture::from_bytes([magic, &tail].concat(), "noise") {
            let mut packet = Packet::default();
            while capture.next(&mut packet) {}
        }
    }
}
