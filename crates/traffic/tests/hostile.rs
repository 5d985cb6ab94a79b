//! Every reader on files that were made to harm it: each in a process of its own that may have 1 GiB of memory and a minute.
//!
//! A bomb is small and decompresses to as much as one likes; it is read, or refused with the place and the reason. What
//! grows is read at one size and at ten times that, and takes the CPU time of what is linear, not of what is quadratic.
//!
//! A program of its own: it measures CPU time, and starts itself again with bounds that are to hold little else.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use packet::Packet;
use traffic::mobile::{Tunnels, read_sessions};
use traffic::{
    Capture, FilterRules, ProfileSpec, Recording, RequestTrace, SignatureStrings, Table, Updates, inspect_file,
};

const MEMORY_KIB: u64 = 1 << 20;
/// For what is read as a stream: less than it decompresses to.
const ENDLESS_KIB: u64 = 256 << 10;
/// Of a CPU: a host that is busy takes longer.
const SECONDS: u64 = 60;
const PATIENCE: Duration = Duration::from_secs(600);
const TRIES: usize = 3;
/// What is linear takes ten times as long, up to 17.5 times where the small input fits a cache that is shared with other guests;
/// what is quadratic a hundred times. This lies between them, as far from one as from the other.
const MOST_GROWTH: f64 = 31.6;
/// Who reads what, for the process that does.
const READER: &str = "WIRESPEED_HOSTILE_READER";
const FILE: &str = "WIRESPEED_HOSTILE_FILE";
const ANSWER: &str = "hostile: ";

const READERS: [&str; 11] = [
    "capture",
    "inspect",
    "tunnels",
    "table",
    "updates",
    "rules",
    "patterns",
    "recording",
    "requests",
    "sessions",
    "profile",
];

/// Reads, and says what came of it.
fn read(reader: &str, path: &Path) -> Result<String, String> {
    let mut packet = Packet::default();
    match reader {
        "capture" => Capture::open(path).map(|mut capture| {
            while capture.next(&mut packet) {}
            format!("{} packets", capture.report().packets)
        }),
        "inspect" => inspect_file(path).map(|found| format!("{} packets", found.packets)),
        "tunnels" => Capture::open(path).map(|mut capture| {
            let mut tunnels = Tunnels::default();
            while capture.next(&mut packet) {
                tunnels.reach_core(&mut packet);
            }
            format!("{} UEs", tunnels.subscribers().len())
        }),
        "table" => Table::open(path).map(|table| format!("{} routes", table.routes.len())),
        "updates" => Updates::open(path).map(|updates| format!("{} updates", updates.count())),
        "rules" => FilterRules::open(path).map(|rules| format!("{} rules", rules.rules.len())),
        "patterns" => SignatureStrings::open(path).map(|all| format!("{} strings", all.strings.len())),
        "recording" => Recording::open(path).map(|recording| format!("{} packets", recording.packets.len())),
        "requests" => RequestTrace::open(path, None).map(|all| format!("{} requests", all.addresses.len())),
        "sessions" => read_sessions(path).map(|(text, _)| format!("{} bytes", text.len())),
        "profile" => ProfileSpec::load(&path.display().to_string()).map(|_| "a profile".into()),
        other => panic!("no reader {other}"),
    }
    .map_err(|e| e.to_string())
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(told.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default())
}

/// Not a test of its own: what the other tests start as a process.
#[test]
fn one_reader_on_one_file() {
    let (Ok(reader), Ok(file)) = (std::env::var(READER), std::env::var(FILE)) else { return };
    let begun = cpu();
    let (fine, said) = match read(&reader, Path::new(&file)) {
        Ok(said) => ("read", said),
        Err(said) => ("refused", said),
    };
    println!("\n{ANSWER}{} {fine} {said}", (cpu() - begun).as_nanos());
}

struct Answer {
    cpu: Duration,
    refused: bool,
    said: String,
}

/// Has `reader` read `path` in a process with bounds; whatever does not end with an answer is an error.
fn run(reader: &str, path: &Path) -> Answer {
    run_within(MEMORY_KIB, reader, path)
}

fn run_within(kib: u64, reader: &str, path: &Path) -> Answer {
    // One at a time: what is measured is not to wait for the others.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let bounded = format!("ulimit -v {kib} && ulimit -t {SECONDS} && exec \"$0\" \"$@\"");
    let begun = Instant::now();
    let mut child = Command::new("sh")
        .args(["-c", &bounded])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "one_reader_on_one_file", "--nocapture", "--test-threads=1"])
        .env(READER, reader)
        .env(FILE, path)
        .env("RUST_BACKTRACE", "0")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{reader} on {}: no answer within {PATIENCE:?}", path.display());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let ended = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{reader} on {}: {}\n{out}\n{err}", path.display(), ended.status);
    let line = out.lines().find_map(|line| line.strip_prefix(ANSWER)).unwrap_or_else(|| panic!("{reader}: {out}{err}"));
    let (ns, rest) = line.split_once(' ').unwrap();
    let (fine, said) = rest.split_once(' ').unwrap();
    Answer { cpu: Duration::from_nanos(ns.parse().unwrap()), refused: fine == "refused", said: said.into() }
}

/// A file that is gone when this is.
struct Made(PathBuf);

impl Made {
    fn new(name: &str, bytes: &[u8]) -> Made {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Made(path)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// `head`, then `unit` until there are `bytes` bytes, packed.
fn bomb(name: &str, head: &[u8], unit: &[u8], bytes: u64) -> Made {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    out.write_all(head).unwrap();
    let many = unit.repeat((1 << 16) / unit.len() + 1);
    for _ in 0..bytes / many.len() as u64 + 1 {
        out.write_all(&many).unwrap();
    }
    Made::new(&format!("{name}.gz"), &out.finish().unwrap())
}

fn pcap_head(link: u32) -> Vec<u8> {
    [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 65535, link].iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn pcap_record(out: &mut Vec<u8>, number: u32, frame: &[u8]) {
    for word in [number / 1000, number % 1000 * 1000, frame.len() as u32, frame.len() as u32] {
        out.extend(word.to_le_bytes());
    }
    out.extend(frame);
}

/// A UDP packet between two addresses, with or without what it carries.
fn udp(src: u32, dst: u32, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(((28 + payload.len()) as u16).to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, 17, 0, 0]);
    frame.extend(src.to_be_bytes());
    frame.extend(dst.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend(((8 + payload.len()) as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

fn capture(count: u32, frame: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    let mut out = pcap_head(1);
    (0..count).for_each(|number| pcap_record(&mut out, number, &frame(number)));
    out
}

/// Each UE with a tunnel of its own.
fn tunnelled(number: u32) -> Vec<u8> {
    let mut inner = udp(0x0a00_0000 + number, 0x0808_0808, 53, &[])[14..].to_vec();
    let mut gtp = vec![0x30, 255];
    gtp.extend((inner.len() as u16).to_be_bytes());
    gtp.extend((number + 1).to_be_bytes());
    gtp.append(&mut inner);
    udp(0xc633_6401, 0xc633_6402, 2152, &gtp)
}

/// Whole records and ones with a length that cannot be, in turn.
fn damaged(count: u32) -> Vec<u8> {
    let mut out = pcap_head(1);
    for number in 0..count {
        pcap_record(&mut out, number, &udp(number, 1, 9, &[]));
        out.extend([0xff; 21]);
    }
    out
}

fn pcapng(count: u32) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let length = 12 + body.len() as u32;
        [&kind.to_le_bytes()[..], &length.to_le_bytes(), body, &length.to_le_bytes()].concat()
    };
    let section = [0x1a2b_3c4du32, 1, u32::MAX, u32::MAX].map(u32::to_le_bytes).concat();
    let interface = [1u32, 65535].map(u32::to_le_bytes).concat();
    let mut out = block(0x0a0d_0d0a, &section);
    let frame = udp(1, 2, 9, &[]);
    let mut padded = frame.clone();
    padded.resize(frame.len().next_multiple_of(4), 0);
    for number in 0..count {
        out.extend(block(1, &interface));
        let head = [number % 4000, 0, number * 1000, frame.len() as u32, frame.len() as u32];
        out.extend(block(6, &[&head.map(u32::to_le_bytes).concat()[..], &padded].concat()));
        out.extend(block(0x7777, &[0; 4]));
    }
    out
}

fn erf(count: u32) -> Vec<u8> {
    let frame = udp(1, 2, 9, &[]);
    let mut out = Vec::new();
    for number in 0..count {
        let bytes = (16 + 2 + frame.len()) as u16;
        out.extend((u64::from(number) << 20).to_le_bytes());
        out.extend([2, 4]);
        out.extend(bytes.to_be_bytes());
        out.extend([0, 0]);
        out.extend((frame.len() as u16 + 4).to_be_bytes());
        out.extend([0, 0]);
        out.extend(&frame);
    }
    out
}

fn mrt_record(kind: u16, subtype: u16, body: &[u8]) -> Vec<u8> {
    let head = [&1_700_000_000u32.to_be_bytes()[..], &kind.to_be_bytes(), &subtype.to_be_bytes()].concat();
    [&head[..], &(body.len() as u32).to_be_bytes(), body].concat()
}

/// An IPv4 prefix of 32 bits each, by no peer that is known.
fn rib(count: u32) -> Vec<u8> {
    let entry = |number: u32| {
        let attributes = [0x40, 3, 4, 192, 0, 2, 1];
        let mut body = number.to_be_bytes().to_vec();
        body.push(32);
        body.extend((number.wrapping_mul(0x9e37_79b1)).to_be_bytes());
        body.extend([0, 1, 0, 0, 0, 0, 0, 0, 0, attributes.len() as u8]);
        body.extend(attributes);
        mrt_record(13, 2, &body)
    };
    (0..count).flat_map(entry).collect()
}

/// A BGP4MP message that announces a prefix.
fn update(number: u32) -> Vec<u8> {
    let mut message = vec![0xff; 16];
    let attributes = [0x40, 3, 4, 192, 0, 2, 1];
    let mut body = vec![0, 0, 0, attributes.len() as u8];
    body.extend(attributes);
    body.push(32);
    body.extend(number.to_be_bytes());
    message.extend((19 + body.len() as u16).to_be_bytes());
    message.push(2);
    message.extend(body);
    let peer = [0, 1, 0, 2, 0, 0, 0, 1, 192, 0, 2, 7, 192, 0, 2, 8];
    mrt_record(16, 1, &[&peer[..], &message].concat())
}

/// IPv6 prefixes that rustc-hash, which has no seed, puts all into one place: each word is added to the state, which is then
/// multiplied, so that the upper half undoes the lower one.
fn colliding_list(count: u32) -> Vec<u8> {
    const K: u64 = 0xf135_7aea_2e62_a9c5;
    let mut text = String::new();
    for lo in 1..=u64::from(count) {
        let hi = 0x2001_0db8_0000_0000u64.wrapping_sub(K.wrapping_add(lo).wrapping_mul(K));
        let address = std::net::Ipv6Addr::from(u128::from(hi) << 64 | u128::from(lo));
        writeln!(text, "{address}/128").unwrap();
    }
    text.into_bytes()
}

fn lines(head: &str, count: u32, line: impl Fn(u32) -> String) -> Vec<u8> {
    let mut text = String::from(head);
    (0..count).for_each(|number| writeln!(text, "{}", line(number)).unwrap());
    text.into_bytes()
}

const RULE: &str = "@192.0.2.0/24 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF 0x0000/0x0000";
const PROBE: &str = "wirespeed-probe 1\n";
const STRINGS: &str = "sid\tenabled\tnocase\tfast_pattern\tlength\tpattern_hex\n";

/// Reader, what it is given, at how many of them, and what they are for a number.
type Growing = (&'static str, &'static str, u32, fn(u32) -> Vec<u8>);

const GROWING: [Growing; 21] = [
    ("capture", "packets", 300_000, |n| capture(n, |number| udp(number, 1, 9, &[]))),
    ("capture", "damage between records", 50_000, damaged),
    ("capture", "blocks and interfaces of pcapng", 150_000, pcapng),
    ("capture", "records of ERF", 100_000, erf),
    ("capture", "records of TSH", 100_000, |n| {
        let record = |number: u32| {
            let ip = &udp(1, 2, 9, &[])[14..];
            [&(number / 1000).to_be_bytes()[..], &(number % 1000 * 1000).to_be_bytes(), ip, &[0; 8]].concat()
        };
        (0..n).flat_map(record).collect()
    }),
    ("inspect", "flows", 40_000, |n| capture(n, |number| udp(number, !number, 9, &[]))),
    ("tunnels", "tunnels", 100_000, |n| capture(n, tunnelled)),
    ("table", "prefixes with one hash", 300_000, colliding_list),
    ("table", "next hops", 400_000, |n| {
        lines("", n, |i| format!("{}/32 2001:db8::{:x}:{:x}", std::net::Ipv4Addr::from(i), i >> 16, i & 0xffff))
    }),
    ("table", "damaged lines", 100_000, |n| lines("10.0.0.0/8\n", n, |i| format!("10.0.0.{i}/33"))),
    ("table", "entries of a RIB", 150_000, rib),
    ("updates", "updates", 60_000, |n| (0..n).flat_map(update).collect()),
    ("rules", "rules", 20_000, |n| lines("", n, |_| RULE.into())),
    ("patterns", "strings", 40_000, |n| lines(STRINGS, n, |i| format!("{i}\t1\t0\t1\t4\t{i:08x}"))),
    ("recording", "packets", 300_000, |n| lines(PROBE, n, |_| "B 1 1\nE drop".into())),
    ("recording", "pages", 50_000, |n| lines(PROBE, n, |i| format!("B 60 1\nL {:x} 8\nE drop", (n - i) << 13))),
    ("recording", "marks of a tool", 50_000, |n| {
        lines("==1== lackey\n", n, |i| {
            format!(" S 574952b03c,1\n S 5749520000,1\n L {:x},8\n S 5749520008,1", (i + 1) << 13)
        })
    }),
    ("requests", "requests", 400_000, |n| lines("", n, |i| format!("R {i:x} {i}"))),
    ("requests", "places in the program", 60_000, |n| lines("", n, |i| format!("I  {i:x},3\n L {i:x},8"))),
    ("sessions", "lines", 200_000, |n| lines("", n, |_| "[[session]]".into())),
    ("profile", "bins", 2_500, |n| {
        let bins = lines("", n, |i| format!("{{ bytes = {}, share = 1.0 }},", 64 + i % 1400));
        [b"sizes.histogram = [\n", &bins[..], b"]\n[flows]\ncount = 1\n"].concat()
    }),
];

/// Seconds of CPU.
fn seconds(reader: &str, what: &str, file: &Made) -> f64 {
    let answer = run(reader, &file.0);
    assert!(!answer.refused, "{reader}, {what}: {}", answer.said);
    answer.cpu.as_secs_f64()
}

#[test]
fn ten_times_the_input_takes_ten_times_as_long_not_a_hundred_times() {
    for (reader, what, count, make) in GROWING {
        let files = [Made::new("small.toml", &make(count)), Made::new("large.toml", &make(10 * count))];
        let mut seen = Vec::new();
        // A busy host may slow one of them down, and not in each try.
        let linear = (0..TRIES).any(|_| {
            let (small, large) = (seconds(reader, what, &files[0]), seconds(reader, what, &files[1]));
            println!("{reader}, {what}: {count} in {small:.4} s, ten times that in {large:.4} s: {:.1}", large / small);
            seen.push((small, large));
            // Below some milliseconds there is nothing to tell.
            large <= MOST_GROWTH * small.max(4e-3)
        });
        assert!(linear, "{reader}, {what}: seconds for {count}, seconds for ten times as many: {seen:?}");
    }
}

/// What every text reader is given: lines, a line, and bytes, all without end.
#[test]
fn what_goes_on_without_end_is_refused_in_constant_memory() {
    let size = 320 << 20;
    let endless = [
        bomb("newlines", b"", b"\n", size),
        bomb("comments", b"", b"# nothing\n", size),
        bomb("line", b"", b"a", size),
        bomb("zeros", b"", &[0], size),
        bomb("words", b"", b"1 ", size),
    ];
    for file in &endless {
        for reader in READERS {
            let answer = run_within(ENDLESS_KIB, reader, &file.0);
            println!("{reader}, {}: {:.2} s: {}", file.0.display(), answer.cpu.as_secs_f64(), answer.said);
            assert!(answer.refused, "{reader} on {}: {}", file.0.display(), answer.said);
        }
    }
}

#[test]
fn what_holds_more_than_is_read_is_refused_with_the_place_and_what_to_do() {
    let string = format!("1\t1\t0\t1\t2004\t{}\n", "ab".repeat(2004));
    // Two pages of their own each, all of them next to each other.
    let page = |n: u32| lines(PROBE, n, |i| format!("B 1 1\nC {:x}000 {:x}000 8\nE drop", i + 16, i + 2_000_000));
    let cases: [(&str, Made, &str); 9] = [
        (
            "recording",
            bomb("name", b"==1== lackey\n", b" S 574952d061,1\n", 16 << 20),
            "a name of a region of at most 4096",
        ),
        ("recording", bomb("packets", PROBE.as_bytes(), b"B 1 1\nE drop\n", 320 << 20), "512 MiB of a recording"),
        ("recording", bomb("steps", b"wirespeed-probe 1\nB 1 1\n", b"L 1 1\n", 80 << 20), "512 MiB of a recording"),
        (
            "recording",
            Made::new("regions", &lines(PROBE, 5000, |i| format!("R core {:x} 16 name", 64 * i + 64))),
            "at most 4096 regions",
        ),
        ("recording", Made::new("pages", &page(1_500_000)), "packets"),
        (
            "patterns",
            bomb("strings", STRINGS.as_bytes(), string.as_bytes(), 60_000 * 4_026),
            "1048576 strings, or 8 MiB of them",
        ),
        (
            "patterns",
            bomb("short", STRINGS.as_bytes(), b"1\t1\t0\t1\t1\t61\n", 20 << 20),
            "1048576 strings, or 8 MiB of them",
        ),
        ("rules", bomb("rules", b"", format!("{RULE}\n").as_bytes(), 80 << 20), "1048576 rules"),
        ("requests", bomb("requests", b"", b"R 0 0\n", 400 << 20), "768 MiB of requests"),
    ];
    for (reader, most) in [("profile", 1 << 20), ("sessions", 32 << 20)] {
        let answer = run(reader, &Made::new("long.toml", &vec![b'#'; most + 1]).0);
        assert!(answer.refused && answer.said.contains("MiB of text: give the file that was meant"), "{}", answer.said);
    }
    for (reader, file, says) in cases {
        let answer = run(reader, &file.0);
        println!("{reader}: {:.2} s: {}", answer.cpu.as_secs_f64(), answer.said);
        assert!(answer.said.contains(says), "{reader}: {}", answer.said);
        assert!(!answer.refused || answer.said.contains("line ") || answer.said.contains(":4098:"), "{}", answer.said);
    }
}

#[test]
fn a_table_of_more_prefixes_than_any_router_holds_is_refused_and_a_full_one_is_read() {
    let prefixes = |n: u32| lines("", n, |i| format!("{:x}:{:x}::/64", 0x2000 + (i >> 16), i & 0xffff));
    let many = prefixes(9_000_000);
    let answer = run("table", &Made::new("prefixes", &many).0);
    assert!(
        answer.refused && answer.said.contains("more than 8388608 routes of different prefixes"),
        "{}",
        answer.said
    );
    assert!(answer.said.contains("at byte ") || answer.said.contains(": byte "), "{}", answer.said);
    let hops = |n: u32| {
        lines("", n, |i| format!("{:x}:{:x}::/64 {}", 0x2000 + (i >> 16), i & 0xffff, std::net::Ipv4Addr::from(i)))
    };
    let answer = run("table", &Made::new("hops", &hops(8 << 20)).0);
    assert_eq!((answer.refused, answer.said.as_str()), (false, "8388608 routes"), "each by a next hop of its own");
}

#[test]
fn what_a_decoder_would_need_too_much_memory_for_is_told_so() {
    // The size of the dictionary is a byte of the block's header, which a checksum covers.
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
    xz.write_all(b"10.0.0.0/8\n").unwrap();
    let mut xz = xz.finish().unwrap();
    let header = 12;
    let bytes = (usize::from(xz[header]) + 1) * 4;
    let property = (header..header + bytes - 4).find(|&at| xz[at..].starts_with(&[0x21, 1])).unwrap() + 2;
    xz[property] = 38;
    let mut crc = flate2::Crc::new();
    crc.update(&xz[header..header + bytes - 4]);
    xz[header + bytes - 4..header + bytes].copy_from_slice(&crc.sum().to_le_bytes());
    // That of the window is the byte behind the frame's descriptor.
    let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    zstd.write_all(b"10.0.0.0/8\n").unwrap();
    let mut zstd = zstd.finish().unwrap();
    assert_eq!(zstd[4] & 0x20, 0, "a frame with a window");
    zstd[5] = (29 - 10) << 3;
    for (file, says) in [(Made::new("large.xz", &xz), "xz -9"), (Made::new("large.zst", &zstd), "zstd --long=27")] {
        for reader in ["capture", "table", "rules", "patterns", "recording", "requests", "updates"] {
            let answer = run(reader, &file.0);
            assert!(answer.refused && answer.said.contains(says), "{reader} on {}: {}", file.0.display(), answer.said);
            assert!(!answer.said.contains("it is empty"), "{reader}: {}", answer.said);
        }
    }
}

#[test]
fn updates_are_told_from_a_dump_of_the_table() {
    let updates: Vec<u8> = (0..100).flat_map(update).collect();
    let answer = run("table", &Made::new("updates.mrt", &updates).0);
    assert!(
        answer.refused && answer.said.contains("100 BGP4MP messages, which are updates, and no RIB"),
        "{}",
        answer.said
    );
    assert_eq!(run("updates", &Made::new("updates.mrt", &updates).0).said, "100 updates");
}

/// The fuzzer begins with sound inputs, and so it does not spend its time to find formats.
#[test]
fn seeds_of_the_fuzzer_are_read_by_their_readers() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let names = |path: &Path| -> Vec<PathBuf> { std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect() };
    let mut seen = 0;
    for target in names(&corpus) {
        let reader = match target.file_name().and_then(|name| name.to_str()).unwrap() {
            "pcap" | "pcapng" | "tsh" | "erf" => "capture",
            "mrt" | "list" => "table",
            // Of rooms that this one does not see.
            "scenario" | "journal" | "telemetry" | "metrics" | "resctrl" | "vpp" => continue,
            other => READERS.into_iter().find(|reader| *reader == other).unwrap(),
        };
        // What the fuzzer finds itself is named by its hash.
        let seeds = names(&target).into_iter().filter(|seed| seed.file_name().is_some_and(|name| name.len() < 40));
        for seed in seeds {
            let reader = if seed.ends_with("an-update") { "updates" } else { reader };
            assert!(read(reader, &seed).is_ok(), "{}: {:?}", seed.display(), read(reader, &seed));
            seen += 1;
        }
    }
    assert!(seen >= 14, "{seen}");
}
