//! Inspection: both methods against the aho-corasick crate, on published strings, captures and random bytes.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::PathBuf;

use aho_corasick::AhoCorasick;
use functions::inspect::{Automaton, Method, Pattern, PatternMatch, Windows};
use functions::{DropReason, Inspect, InspectSpec, PacketFunction, Verdict};
use packet::Packet;
use probe::{Count, Null};
use proptest::prelude::*;
use units::{PacketId, Ps};

const METHODS: [Method; 2] = [Method::AhoCorasick, Method::Bloom];

fn build(patterns: &[Pattern], method: Method) -> Inspect {
    Inspect::new(patterns, &InspectSpec { method, ..InspectSpec::default() }, 2).unwrap()
}

/// Occurrences as another program finds them: patterns that want their case, and those that do not, by automata of their own.
struct Oracle {
    automata: Vec<(AhoCorasick, Vec<u32>)>,
}

impl Oracle {
    fn new(patterns: &[Pattern]) -> Oracle {
        let of = |nocase: bool| {
            let chosen: Vec<(u32, &Pattern)> = (0..).zip(patterns).filter(|(_, p)| p.nocase == nocase).collect();
            let automaton =
                AhoCorasick::builder().ascii_case_insensitive(nocase).build(chosen.iter().map(|(_, p)| &p.bytes));
            (automaton.unwrap(), chosen.iter().map(|(i, _)| *i).collect())
        };
        Oracle { automata: vec![of(false), of(true)] }
    }

    fn find(&self, text: &[u8]) -> Vec<PatternMatch> {
        let mut all: Vec<PatternMatch> = Vec::new();
        for (automaton, numbers) in &self.automata {
            let found = automaton.find_overlapping_iter(text);
            all.extend(found.map(|m| PatternMatch { end: m.end() as u32, pattern: numbers[m.pattern().as_usize()] }));
        }
        all.sort_unstable();
        all
    }
}

/// Every place, every pattern.
fn naive(patterns: &[Pattern], text: &[u8]) -> Vec<PatternMatch> {
    let mut all = Vec::new();
    for end in 1..=text.len() {
        for (pattern, p) in (0..).zip(patterns) {
            let here = end.checked_sub(p.bytes.len()).map(|at| &text[at..end]);
            if here.is_some_and(|here| if p.nocase { here.eq_ignore_ascii_case(&p.bytes) } else { here == p.bytes }) {
                all.push(PatternMatch { end: end as u32, pattern });
            }
        }
    }
    all
}

fn letters(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(b"aAbBc@`\x00\xe1".to_vec()), 1..most)
}

proptest! {
    #[test]
    fn both_methods_match_naive_and_the_oracle(
        patterns in prop::collection::vec((letters(24), any::<bool>()), 0..60),
        text in prop::collection::vec(prop::sample::select(b"aAbBc@`\x00\xe1".to_vec()), 0..200),
        planted in any::<prop::sample::Index>(),
    ) {
        let patterns: Vec<Pattern> = patterns.into_iter().map(|(bytes, nocase)| Pattern { bytes, nocase }).collect();
        let mut text = text;
        if !patterns.is_empty() {
            text.extend(patterns[planted.index(patterns.len())].bytes.to_ascii_uppercase());
        }
        let right = naive(&patterns, &text);
        prop_assert_eq!(&Oracle::new(&patterns).find(&text), &right);
        for method in METHODS {
            prop_assert_eq!(&build(&patterns, method).find(&text), &right, "{:?}", method);
        }
    }

    /// States with many children, of any bytes.
    #[test]
    fn states_with_many_children_match_naive(
        bytes in prop::collection::vec(any::<[u8; 2]>(), 0..300), text in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let front = text.first().copied().unwrap_or(0);
        let patterns: Vec<Pattern> =
            bytes.iter().map(|&[a, b]| Pattern { bytes: vec![front, a, b & 3], nocase: b > 128 }).collect();
        let right = naive(&patterns, &text);
        for method in METHODS {
            prop_assert_eq!(&build(&patterns, method).find(&text), &right, "{:?}", method);
        }
    }
}

fn shared(path: &str) -> Option<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(path);
    let Ok(file) = std::fs::File::open(&path) else {
        println!("skipped: {} is not there", path.display());
        return None;
    };
    let mut data = Vec::new();
    match path.extension().is_some_and(|ext| ext == "xz") {
        true => liblzma::read::XzDecoder::new(file).read_to_end(&mut data).unwrap(),
        false => flate2::read::GzDecoder::new(file).read_to_end(&mut data).unwrap(),
    };
    Some(data)
}

/// Strings of enabled rules, of 4 bytes or more, each once.
fn published() -> Option<Vec<Pattern>> {
    let text = String::from_utf8(shared("dpi/et_open_2021_contents.tsv.xz")?).unwrap();
    let mut seen = BTreeSet::new();
    let mut patterns = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let hex = fields[5].as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        let bytes: Vec<u8> = hex.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        let nocase = fields[2] == "1";
        if fields[1] == "1" && bytes.len() >= 4 && seen.insert((bytes.clone(), nocase)) {
            patterns.push(Pattern { bytes, nocase });
        }
    }
    Some(patterns)
}

/// Frames of a little-endian pcap file.
fn frames(data: &[u8]) -> Vec<(&[u8], u32)> {
    let word = |at: usize| u32::from_le_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
    let (mut at, mut frames) = (24, Vec::new());
    while at + 16 <= data.len() {
        let kept = word(at + 8) as usize;
        let Some(frame) = data.get(at + 16..at + 16 + kept) else { break };
        frames.push((frame, word(at + 12)));
        at += 16 + kept;
    }
    frames
}

/// All published strings over payload captures and random bytes. What it takes per byte goes to the log.
#[test]
fn published_strings_match_the_oracle_on_captures_and_random_bytes() {
    let Some(patterns) = published() else { return };
    assert_eq!(patterns.len(), 13_283);
    let oracle = Oracle::new(&patterns);
    let mut packets: Vec<Packet> = Vec::new();
    for file in ["ndpi_WebattackRCE.pcap.gz", "ndpi_netflix.pcap.gz", "ndpi_KakaoTalk_talk.pcap.gz"] {
        let Some(data) = shared(&format!("payload/{file}")) else { return };
        for (frame, bytes) in frames(&data).into_iter().take(400) {
            let mut packet = Packet { id: PacketId(packets.len() as u64), ..Packet::default() };
            packet.set_frame(frame, bytes);
            packets.push(packet);
        }
    }
    let mut noise = Packet { id: PacketId(packets.len() as u64), ..Packet::default() };
    let mut state = 1u64;
    let mut frame = vec![0u8; 14 + 28];
    frame[12] = 8;
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&60_028u16.to_be_bytes());
    frame[23] = 17;
    frame.extend((0..60_000).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    }));
    noise.set_frame(&frame, frame.len() as u32);
    packets.push(noise);

    let expected: Vec<Vec<PatternMatch>> = packets.iter().map(|packet| oracle.find(payload(packet))).collect();
    assert!(expected.iter().map(Vec::len).sum::<usize>() > 1000);
    for method in METHODS {
        let mut inspect = build(&patterns, method);
        let (mut out, mut count) = (Vec::new(), Count::default());
        let mut found = vec![Vec::new(); packets.len()];
        for burst in packets.clone().chunks_mut(32) {
            inspect.process_burst(Ps::ZERO, burst, &mut count, &mut out);
            inspect.found().iter().for_each(|(id, one)| found[id.0 as usize].push(*one));
        }
        found.iter_mut().for_each(|list| list.sort_unstable());
        assert!(found == expected, "{method:?}");
        let bytes = inspect.inspected_bytes() as f64;
        println!(
            "{method:?}: {:.2} references and {:.1} instructions a byte over {bytes} bytes",
            count.refs() as f64 / bytes,
            count.instructions as f64 / bytes
        );
    }
    let (states, wide) = Automaton::new(&patterns).unwrap().states();
    let windows = Windows::new(&patterns).unwrap();
    println!("{} lengths of window, {} bytes of filters", windows.lengths().count(), windows.filter_bytes());
    println!("{} strings in {states} states of 16 bytes, {wide} of them with more than 4 children", patterns.len());
}

/// By the same rules as the function, but with another parser.
fn payload(packet: &Packet) -> &[u8] {
    let Ok(layers) = packet::layers(&packet.data) else { return &[] };
    let at = usize::from(layers.l3_offset);
    let ip = &packet.data[at..];
    let total = match layers.l3 {
        packet::L3::V4 => usize::from(u16::from_be_bytes([ip[2], ip[3]])),
        _ => 40 + usize::from(u16::from_be_bytes([ip[4], ip[5]])),
    };
    if total > packet.frame_bytes as usize - at {
        return &[];
    }
    let l4 = match layers.l3 {
        packet::L3::V4 => at + usize::from(ip[0] & 15) * 4,
        _ => at + 40,
    };
    let proto = if layers.l3 == packet::L3::V4 { ip[9] } else { ip[6] };
    let later = layers.l3 == packet::L3::V4 && u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff != 0;
    let header = match proto {
        6 if !later => usize::from(packet.data[l4 + 12] >> 4) * 4,
        17 if !later => 8,
        _ => 0,
    };
    let end = (at + total).min(packet.data.len());
    &packet.data[(l4 + header).min(end)..end]
}

fn udp(payload: &[u8]) -> Packet {
    let mut ip = vec![0x45, 0];
    ip.extend(((28 + payload.len()) as u16).to_be_bytes());
    ip.extend([0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7, 0, 7, 0, 9, 0, 0, 0, 0]);
    ip.extend(payload);
    let mut frame = vec![2; 12];
    frame.extend([8, 0]);
    frame.extend(ip);
    let mut packet = Packet::default();
    packet.set_frame(&frame, frame.len() as u32);
    packet
}

fn some() -> Vec<Pattern> {
    let pattern = |text: &str, nocase| Pattern { bytes: text.into(), nocase };
    vec![pattern("attack", true), pattern("Tack", false), pattern("k at d", true)]
}

#[test]
fn a_packet_with_a_string_is_reported_or_dropped() {
    let text = b"an ATTACK at dawn";
    for method in METHODS {
        let mut inspect = build(&some(), method);
        let mut out = Vec::new();
        inspect.process_burst(Ps::ZERO, &mut [udp(text), udp(b"nothing")], &mut Null, &mut out);
        assert!(out.iter().all(|verdict| matches!(verdict, Verdict::Forward { .. })));
        let found: Vec<_> = inspect.found().iter().map(|(_, one)| (one.end, one.pattern)).collect();
        assert_eq!(found, [(9, 0), (14, 2)], "{method:?}");
        let spec = InspectSpec { method, drop: true, depth: 0 };
        let mut inspect = Inspect::new(&some(), &spec, 2).unwrap();
        inspect.process_burst(Ps::ZERO, &mut [udp(text)], &mut Null, &mut out);
        assert_eq!(out.last(), Some(&Verdict::Drop(DropReason::SignatureFound)));
        assert_eq!(inspect.found().len(), 1);
        let mut shallow = Inspect::new(&some(), &InspectSpec { depth: 8, ..spec }, 2).unwrap();
        shallow.process_burst(Ps::ZERO, &mut [udp(text)], &mut Null, &mut out);
        assert!(matches!(out.last(), Some(Verdict::Forward { .. })));
    }
}

#[test]
fn references_per_packet_are_what_the_module_header_says() {
    let refs = |method, payload: &[u8]| {
        let mut count = Count::default();
        build(&some(), method).process_burst(Ps::ZERO, &mut [udp(payload)], &mut count, &mut Vec::new());
        count.refs()
    };
    // 5 to find the payload, and a load for every 8 bytes of it. At the root each byte takes one more.
    assert_eq!(refs(Method::AhoCorasick, b"zzzzzzzzz"), 5 + 2 + 9);
    // "a" leads to a state and back: its state is loaded, and the next byte finds no child and asks the root.
    assert_eq!(refs(Method::AhoCorasick, b"za"), 5 + 1 + 2 + 1);
    assert_eq!(refs(Method::AhoCorasick, b"zaz"), 5 + 1 + 2 + 1 + 1);
    // Shorter than any window.
    assert_eq!(refs(Method::Bloom, b"zzz"), 5 + 1);
}

#[test]
fn patterns_that_cannot_be_are_refused() {
    let error = |bytes: Vec<u8>| {
        Inspect::new(&[Pattern { bytes, nocase: false }], &InspectSpec::default(), 2).unwrap_err().to_string()
    };
    assert_eq!(
        error(vec![]),
        "inspect.patterns = pattern 0 of 0 bytes: allowed is patterns of 1 to 65535 bytes (leave it out)"
    );
    assert!(error(vec![0; 65536]).contains("65536 bytes"));
}

/// Bytes without a pattern of their own (Knuth's 64-bit generator).
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

fn noisy(count: usize, bytes: usize) -> Vec<Pattern> {
    noise(count * bytes).chunks(bytes).map(|bytes| Pattern { bytes: bytes.to_vec(), nocase: false }).collect()
}

#[test]
fn more_patterns_or_bytes_of_them_than_fit_into_memory_are_refused() {
    let refused = |patterns: &[Pattern], method| {
        let spec = InspectSpec { method, ..InspectSpec::default() };
        Inspect::new(patterns, &spec, 2).unwrap_err().to_string()
    };
    let (long, many) = (noisy(60_000, 2004), noisy((1 << 20) + 1, 3));
    for method in METHODS {
        assert_eq!(
            refused(&long, method),
            "inspect.patterns = patterns of 120240000 bytes: allowed is patterns of up to 8388608 bytes in all (leave out \
             rules, or shorten their strings)"
        );
        assert!(refused(&many, method).starts_with("inspect.patterns = 1048577 patterns: allowed is up to 1048576"));
    }
}

const ALONE: &str = "WIRESPEED_INSPECT_ALONE";

/// The most that is allowed, a state for each byte, in a process that may have a gigabyte.
#[test]
fn the_largest_sets_are_made_in_a_gigabyte() {
    if std::env::var_os(ALONE).is_some() {
        for patterns in [noisy(4096, 2048), noisy(128, 65535), noisy(1 << 20, 8)] {
            for method in METHODS {
                let mut text = noise(100);
                text.extend(&patterns[patterns.len() / 2].bytes);
                assert!(!build(&patterns, method).find(&text).is_empty());
            }
        }
        return;
    }
    let alone = std::process::Command::new("sh")
        .args(["-c", "ulimit -v 1048576 && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "inspect::the_largest_sets_are_made_in_a_gigabyte", "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&alone.stdout), String::from_utf8_lossy(&alone.stderr));
    // A name that no test has would succeed, too.
    assert!(alone.status.success() && out.contains("1 passed"), "{out}{err}");
}
