use proptest::prelude::*;

use super::*;
use crate::input::tests::gzip;

const HEAD: &str = "wirespeed-probe 1\n";

fn read(text: &str) -> Result<Recording, String> {
    Recording::from_bytes(text.into(), "t").map_err(|e| e.to_string())
}

fn probe(text: &str) -> Result<Recording, String> {
    read(&format!("{HEAD}{text}"))
}

#[test]
fn references_to_the_packet_are_told_from_those_to_its_mbuf_and_to_tables() {
    let recording = probe(
        "# of two packets\nR shared 1000 256 table of routes\nL 9 1\nB 60 8100 8000\nW 20\nL 8010 2 a\nL 8110 4 b 1\nW 7\n\
         L 1040 8 a 1\nS 70007ff0 4\nC 8100 70008000 60\nS 80f0 8\nW 3\nE forward\nB 60 9100\nA 1044 4\nE drop\n",
    )
    .unwrap();
    let places: Vec<RecordedPlace> = recording.steps.iter().map(|s| s.place).collect();
    let table = RecordedPlace::Region(0, 0x40);
    let own = |offset| RecordedPlace::Region(1, offset);
    let expected = [
        RecordedPlace::Mbuf(16),
        RecordedPlace::Packet(16),
        table,
        own(0xff0),
        own(0x1000),
        RecordedPlace::Packet(0),
        RecordedPlace::Region(0, 0x44),
    ];
    assert_eq!(places, expected);
    assert_eq!(recording.steps[4].kind, RecordedKind::CopyFrom(RecordedPlace::Packet(0)));
    assert_eq!(recording.steps.iter().map(|s| s.work).collect::<Vec<_>>(), [20, 0, 7, 0, 0, 0, 0]);
    assert_eq!(recording.steps.iter().map(|s| s.site).collect::<Vec<_>>(), [0, 1, 0, 2, 2, 2, 2]);
    assert_eq!(recording.steps.iter().map(|s| s.dep).collect::<Vec<_>>(), [0, 1, 1, 0, 0, 0, 0]);
    assert_eq!((recording.packets.len(), recording.packets[0].tail, recording.outside), (2, 3, 1));
    assert_eq!((recording.packets[0].dropped, recording.packets[1].dropped, recording.headroom), (false, true, 1));
    assert_eq!((recording.steps_of(0).len(), recording.steps_of(1).len(), recording.instructions()), (6, 1, 30));
    let [table, own] = &recording.regions[..] else { panic!("{:?}", recording.regions) };
    assert_eq!((table.name.as_str(), table.bytes, table.shared, table.named), ("table of routes", 256, true, true));
    assert_eq!((own.name.as_str(), own.bytes, own.shared), ("memory at 0x70007000", 8192, false));
}

#[test]
fn memory_that_is_far_apart_or_only_read_is_a_region_of_its_own() {
    let recording = probe("B 60 100\nL 10000 8\nL 12000 8\nS 13000 8\nL 40000000 8\nE forward\n").unwrap();
    let found: Vec<_> = recording.regions.iter().map(|r| (r.base, r.bytes, r.shared)).collect();
    assert_eq!(found, [(0x10000, 0x3000, true), (0x13000, 0x1000, false), (0x4000_0000, 0x1000, true)]);
}

#[test]
fn a_reference_over_an_edge_keeps_the_bytes_before_it() {
    let recording = probe("R core 2000 10 small\nB 60 100\nL 138 8\nL 2008 8\nL 1fff 4\nE forward\n").unwrap();
    let found: Vec<_> = recording.steps.iter().map(|s| (s.place, s.bytes)).collect();
    assert_eq!(found[0], (RecordedPlace::Packet(56), 4));
    assert_eq!(found[1], (RecordedPlace::Region(1, 8), 2));
    assert_eq!(found[2], (RecordedPlace::Region(0, 0xfff), 1));
}

#[test]
fn a_packet_that_the_end_of_the_file_cuts_is_left_out() {
    let recording = probe("B 60 100\nL 2000 8\nE forward\nB 60 100\nL 90000000 8\n").unwrap();
    assert!(recording.unfinished);
    assert_eq!((recording.packets.len(), recording.steps.len(), recording.regions.len()), (1, 1, 1));
}

#[test]
fn each_way_to_be_wrong_names_the_line_and_what_is_expected() {
    let after = |text: &str| probe(text).unwrap_err();
    for (text, expected) in [
        ("B 60 100\nB 60 200\n", "t:3: `B 60 200`: expected the end of the packet before: packets do not nest"),
        ("E forward\n", "t:2: `E forward`: expected the beginning of a packet: none is at hand"),
        ("B 0 100\n", "t:2: `B 0 100`: expected a packet of 1 to 65535 bytes"),
        ("B 70000 100\n", "t:2: `B 70000 100`: expected a packet of 1 to 65535 bytes"),
        ("B 60 100\nL 2000 0\n", "t:3: `L 2000 0`: expected 1 to 65535 bytes that end below 2^64"),
        (
            "B 60 100\nL ffffffffffffffff 8\n",
            "t:3: `L ffffffffffffffff 8`: expected 1 to 65535 bytes that end below 2^64",
        ),
        (
            "B 60 100\nC ffffffffffffffff 0 8\n",
            "t:3: `C ffffffffffffffff 0 8`: expected 1 to 65535 bytes that end below 2^64",
        ),
        (
            "B 60 100\nL 2000 8\nL 2000 8 0 2\n",
            "t:4: `L 2000 8 0 2`: expected 0 to 1 references back: so many came before in this packet",
        ),
        (
            "B 60 100\nW 4294967296\nL 2000 8\n",
            "t:4: `L 2000 8`: expected at most 4294967295 instructions between two references",
        ),
        ("R shared 100 0 x\n", "t:2: `R shared 100 0 x`: expected a region of at least one byte that ends below 2^64"),
        (
            "R shared 100 64 x\nR core 13f 4 y\n",
            "t:3: `R core 13f 4 y`: expected a region that does not overlap those before: \"x\" is at 100",
        ),
        (
            "",
            "t: not a single packet in it: nothing was recorded (expected is what WIRESPEED_BEGIN and WIRESPEED_END write)",
        ),
        (
            "L 1 1\n",
            "t: not a single packet in it: it has 1 references, none of them within a packet (expected is what \
             WIRESPEED_BEGIN and WIRESPEED_END write)",
        ),
        (
            "B 60 100\n",
            "t: not a single packet in it: it ends within its first packet (expected is what WIRESPEED_BEGIN and \
             WIRESPEED_END write)",
        ),
        (
            "B 60 100\nL 1000 8\nL 1000000000000 8\nE drop\nR core 2000000000 100000000000 big\n",
            "t: the memory that it touches spans 93 GiB in 3 regions: at most 64 GiB can be simulated (name the regions \
             that matter)",
        ),
    ] {
        assert_eq!(after(text), expected);
    }
    for wrong in
        ["X", "L", "L 10", "L g 1", "L 10 x", "B 60", "W", "W -1", "E", "E sent", "R all 1 1 x", "C 1 2", "L 1 1 1 1 1"]
    {
        let error = after(&format!("{wrong}\n"));
        assert!(error.starts_with(&format!("t:2: `{wrong}`: expected `R shared|core BASE")), "{error}");
    }
    let version = read("wirespeed-probe 2\n").unwrap_err();
    assert!(version.contains("t:1: `wirespeed-probe 2`: expected `wirespeed-probe 1`: take the header"), "{version}");
    assert!(read("hello\n").unwrap_err().starts_with("t: not a recording of a program: it starts with `hello`"));
    assert!(read("").unwrap_err().starts_with("t: recording with no usable packet"));
    let lackey = read("==1== Lackey\nI 400,3\n L 5000,8\n").unwrap_err();
    assert!(
        lackey.contains("1 references, none of them within a packet") && lackey.contains("PROBE_MARKS"),
        "{lackey}"
    );
    assert!(read(" L 50,8\n Q 50,8\n").unwrap_err().starts_with("t:2: `Q 50,8`: expected `I|L|S|M HEXADDRESS"));
    let mark = read(&format!(" L 50,8\n S {:x},1\n", marks::BASE + 5)).unwrap_err();
    assert!(mark.contains("expected a mark at 0x5749520000 or 8, 16, 24 or 32 behind it"), "{mark}");
    let cut = gzip(format!("{HEAD}{}", "B 60 100\nL 2000 8\nE forward\n".repeat(100_000)).as_bytes());
    let cut = Recording::from_bytes(cut[..cut.len() / 2].to_vec(), "t").unwrap_err().to_string();
    assert!(cut.contains("the gzip stream breaks here") || cut.contains("expected"), "{cut}");
}

/// What a program may do, told to every format.
#[derive(Clone, Debug)]
enum Does {
    Work(u8),
    Load(u64, u8),
    Store(u64, u8),
}

#[derive(Clone, Debug)]
struct Made {
    bytes: u16,
    data: u64,
    mbuf: u64,
    dropped: bool,
    does: Vec<Does>,
}

fn packet() -> impl Strategy<Value = Made> {
    let at = || prop_oneof![0x10_0000u64..0x10_2000, 0x7fff_0000u64..0x7fff_8000, Just(0x10_1040)];
    let does = prop_oneof![
        (1u8..9).prop_map(Does::Work),
        (at(), 1u8..64).prop_map(|(a, n)| Does::Load(a, n)),
        (at(), 1u8..64).prop_map(|(a, n)| Does::Store(a, n)),
    ];
    (1u16..1600, 0u64..8, any::<bool>(), any::<bool>(), prop::collection::vec(does, 0..30)).prop_map(
        |(bytes, slot, has_mbuf, dropped, does)| {
            let mbuf = 0x10_0000 + slot * 1024;
            Made { bytes, data: mbuf + 256, mbuf: if has_mbuf { mbuf } else { 0 }, dropped, does }
        },
    )
}

const REGION: (u64, u64) = (0x7fff_1000, 5000);

fn as_events(packets: &[Made]) -> String {
    let mut text = format!("{HEAD}R core {:x} {} named\n", REGION.0, REGION.1);
    for p in packets {
        text += &format!("B {} {:x} {:x}\n", p.bytes, p.data, p.mbuf);
        // The instruction at hand when a tool is asked for a mark has site 0 in all formats.
        for does in &p.does {
            text += &match does {
                Does::Work(n) => format!("W {n}\n"),
                Does::Load(a, n) => format!("L {a:x} {n} 40\n"),
                Does::Store(a, n) => format!("S {a:x} {n} 40\n"),
            };
        }
        text += if p.dropped { "E drop\n" } else { "E forward\n" };
    }
    text
}

/// As `wirespeed_probe.h` marks what a tool sees, in the words of the tool.
fn as_marks(
    packets: &[Made],
    load: impl Fn(u64, u64) -> String,
    store: impl Fn(u64, u64) -> String,
    fetch: &str,
) -> String {
    let digits = |text: &mut String, page: u64, value: u64, count: u64| {
        for i in 0..count {
            *text += &store(marks::BASE + (page + i) * marks::PAGE + (value >> (12 * i) & 0xfff), 1);
        }
    };
    let mut text = fetch.to_string();
    digits(&mut text, 1, REGION.0, 5);
    digits(&mut text, 6, REGION.1, 5);
    for letter in "named".bytes() {
        text += &store(marks::BASE + 13 * marks::PAGE + u64::from(letter), 1);
    }
    text += &store(marks::BASE + 32, 1);
    for p in packets {
        digits(&mut text, 1, p.data, 5);
        text += &store(0x10_0010, 8);
        digits(&mut text, 6, p.mbuf, 5);
        digits(&mut text, 11, u64::from(p.bytes), 2);
        text += &store(marks::BASE, 1);
        for does in &p.does {
            text += &match does {
                Does::Work(n) => fetch.repeat(usize::from(*n)),
                Does::Load(a, n) => load(*a, u64::from(*n)),
                Does::Store(a, n) => store(*a, u64::from(*n)),
            };
        }
        text += &store(marks::BASE + if p.dropped { 16 } else { 8 }, 1);
    }
    text
}

proptest! {
    #[test]
    fn marks_in_traces_of_tools_say_what_events_say(packets in prop::collection::vec(packet(), 1..20)) {
        let events = read(&as_events(&packets)).unwrap();
        let lackey = as_marks(&packets, |a, n| format!(" L {a:x},{n}\n"), |a, n| format!(" S {a:x},{n}\n"), "I  40,3\n");
        let dynamorio = as_marks(
            &packets,
            |a, n| format!("1 1: 7 read {n} byte(s) @ 0x{a:016x} by PC 0x40\n"),
            |a, n| format!("1 1: 7 write {n} byte(s) @ 0x{a:016x} by PC 0x40\n"),
            "1 1: 7 ifetch 3 byte(s) @ 0x0000000000000040 0f 84\n",
        );
        for (format, text) in [(RecordingFormat::Lackey, lackey), (RecordingFormat::Dynamorio, dynamorio)] {
            let found = read(&text).unwrap();
            prop_assert_eq!(found.format, format);
            // What a program does between marks is of no packet.
            prop_assert_eq!(found.outside, packets.len() as u64);
            let same = Recording { format: events.format, outside: 0, content: None, ..found };
            prop_assert_eq!(&same, &Recording { content: None, ..events.clone() });
        }
    }

    #[test]
    fn recordings_match_naive(packets in prop::collection::vec(packet(), 1..20)) {
        let found = read(&as_events(&packets)).unwrap();
        prop_assert_eq!(found.packets.len(), packets.len());
        for (i, made) in packets.iter().enumerate() {
            let mut steps = found.steps_of(i).iter();
            let mut work = 0;
            for does in &made.does {
                let (a, n) = match *does {
                    Does::Work(n) => { work += u32::from(n); continue; }
                    Does::Load(a, n) | Does::Store(a, n) => (a, u64::from(n)),
                };
                let step = steps.next().unwrap();
                prop_assert_eq!(step.work, std::mem::take(&mut work));
                prop_assert_eq!(step.kind == RecordedKind::Load, matches!(does, Does::Load(..)));
                let end = made.data + u64::from(made.bytes);
                let bytes = match step.place {
                    RecordedPlace::Packet(offset) if a >= made.data => {
                        prop_assert_eq!(made.data + u64::from(offset), a);
                        n.min(end - a)
                    }
                    RecordedPlace::Packet(offset) => {
                        prop_assert!(offset == 0 && made.mbuf != 0 && a >= made.mbuf + 128);
                        n.min(u64::from(made.bytes))
                    }
                    RecordedPlace::Mbuf(offset) => {
                        prop_assert_eq!(made.mbuf + u64::from(offset), a);
                        n.min(made.mbuf + 128 - a)
                    }
                    RecordedPlace::Region(index, offset) => {
                        let region = &found.regions[usize::from(index)];
                        prop_assert_eq!(region.base + offset, a);
                        prop_assert!(!(made.data..end).contains(&a));
                        n.min(region.base + region.bytes - a)
                    }
                };
                prop_assert_eq!(u64::from(step.bytes), bytes);
            }
            prop_assert!(steps.next().is_none());
            prop_assert_eq!((found.packets[i].tail, found.packets[i].dropped), (work, made.dropped));
        }
        for pair in found.regions.windows(2) {
            prop_assert!(pair[0].base + pair[0].bytes <= pair[1].base);
        }
    }

    #[test]
    fn any_lines_are_a_recording_or_an_error(
        lines in prop::collection::vec(prop_oneof!["[RBWLSPACEQ]( (shared|core|forward|drop|[0-9a-f]{1,16}|[0-9]{1,6})){0,5}", ".{0,40}"], 0..40),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let _ = probe(&lines.join("\n"));
        let _ = read(&lines.join("\n"));
        let _ = Recording::from_bytes(bytes, "t");
    }
}
