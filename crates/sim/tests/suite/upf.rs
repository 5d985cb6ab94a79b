//! The user plane function in a scenario, on made traffic and on real captures, whose tunnels tshark sees as we do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use functions::DropReason;
use functions::upf::{GTPU_PORT, parse_gtpu};
use packet::{Packet, layers};
use serde_json::Value;
use sim::{Overrides, RunOptions, Scenario, run, summary};
use traffic::Capture;

fn document(set: &[&str], capture: Option<PathBuf>) -> Value {
    let quick = [
        "function.kind=upf",
        "run.packets=4000",
        "mempool.size=2048",
        "mempool.cache=32",
        "nic.rx_descriptors=128",
        "nic.tx_descriptors=128",
        "machine.llc.size=2.75 MiB",
        "machine.llc.slices=2",
        "function.upf.load.ues=200",
        "traffic.load=0.05",
    ];
    let set = quick.iter().chain(set).map(|s| s.to_string()).collect();
    let scenario = Scenario::read("", "test", &Overrides { set, capture, ..Overrides::default() }).unwrap();
    summary(&run(&scenario, RunOptions { threads: 1, ..RunOptions::default() }, &mut |_| true).unwrap(), "test")
}

fn count(document: &Value, name: &str) -> u64 {
    document["drops"][name].as_u64().unwrap_or(0)
}

#[test]
fn a_scenario_of_the_user_plane_runs_and_names_what_it_rejects() {
    let document = document(&["traffic.flows.count=3000", "traffic.profile=isp"], None);
    let all = document["packets"].as_u64().unwrap();
    // One application in 128 is blocked; nothing else is wrong with made traffic.
    let blocked = count(&document, "far_drop");
    assert_eq!(document["rejected"], blocked, "{}", document["drops"]);
    assert!(blocked < all / 20, "{blocked} of {all}");
    assert_eq!(document["lost"], 0);
    assert!(document["table"]["source"].as_str().unwrap().contains("200 sessions with 8000 PDRs, made"));
}

#[test]
fn flow_tables_change_what_is_touched_and_no_verdict() {
    let set = ["traffic.flows.count=300", "traffic.profile=isp"];
    let walks = document(&set, None);
    let remembers = document(&[&set[..], &["function.upf.processing.flow_table=4000"]].concat(), None);
    for name in ["packets", "rejected", "lost", "drops"] {
        assert_eq!(walks[name], remembers[name], "{name}");
    }
    assert_eq!(walks["flow_table"], Value::Null);
    let found = &remembers["flow_table"];
    let count = |name: &str| found[name].as_u64().unwrap();
    // Each measured packet is looked for once, but for those in flight at the ends.
    let (lookups, packets) = (count("hits") + count("misses"), remembers["packets"].as_u64().unwrap());
    assert!(lookups.abs_diff(packets) < 300, "{lookups} of {packets}: {found}");
    assert_eq!((count("flows_per_core"), count("stale")), (4096, 0));
    assert!(found["hit_rate"].as_f64().unwrap() > 0.5, "{found}");
    let work = |document: &Value| document["cores"][0]["instructions_per_packet"].as_f64().unwrap();
    assert!(work(&remembers) < 0.9 * work(&walks), "{} of {}", work(&remembers), work(&walks));
}

#[test]
fn sessions_come_from_a_file_and_errors_name_its_line() {
    let folder = std::env::temp_dir().join(format!("upf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("sessions.toml");
    let text = "[[rules]]\nname = \"all\"\nfar = [{ id = 1, action = \"to_core\" }, { id = 2, action = \"to_access\" }]\n\
                pdr = [{ id = 1, precedence = 1, direction = \"uplink\", far = 1 }, { id = 2, precedence = 1, direction = \"downlink\", far = 2 }]\n\n\
                [[session]]\nseid = 1\nue = [\"10.45.0.2\"]\nuplink_teid = 5\npeer = \"10.0.0.1\"\ndownlink_teid = 6\nrules = \"all\"\n";
    std::fs::write(&file, text).unwrap();
    let set = format!("function.upf.sessions={file:?}");
    let found = document(&[&set], None);
    assert_eq!(found["rejected"], 0, "{}", found["drops"]);
    assert_eq!(found["inputs"][0]["kind"], "sessions");
    std::fs::write(&file, text.replace("uplink_teid = 5", "uplink_teid = 0")).unwrap();
    let overrides = Overrides { set: vec!["function.kind=upf".into(), set], ..Overrides::default() };
    let scenario = Scenario::read("", "test", &overrides).unwrap();
    let error = run(&scenario, RunOptions::default(), &mut |_| true).err().unwrap().to_string();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(error.starts_with("function.upf: sessions.toml:6: session[seid = 1].uplink_teid = 0"), "{error}");
}

fn mobile() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/mobile");
    let there = folder.is_dir();
    if !there {
        println!("skipped: the mobile captures are not beside the checkout (../shared/data/mobile)");
    }
    there.then_some(folder)
}

#[test]
fn users_of_real_captures_pass_the_user_plane() {
    let Some(folder) = mobile() else { return };
    for (file, least) in [("open5gs_srsenb.pcapng.gz", 900), ("telekom_n3_example.pcap.gz", 90)] {
        let document = document(&["run.packets=1800", "run.warmup=0", "traffic.rounds=20"], Some(folder.join(file)));
        let all = document["packets"].as_u64().unwrap();
        let passed = all - document["rejected"].as_u64().unwrap() - document["lost"].as_u64().unwrap();
        println!("{file}: {passed} of {all} pass, {}", document["drops"]);
        assert!(passed >= least, "{file}: {passed} of {all}");
    }
}

/// What tshark says about a frame's outermost GTP-U message.
#[derive(Debug)]
struct Seen {
    version: u64,
    message: u64,
    length: u64,
    teid: u64,
    extensions: usize,
    /// A second IP header was found.
    inner: bool,
    /// It is longer than the tunnel's message.
    bad: bool,
}

fn tshark(path: &Path) -> Option<BTreeMap<u64, Seen>> {
    let fields = [
        "frame.number",
        "gtp.flags",
        "gtp.message",
        "gtp.length",
        "gtp.teid",
        "gtp.ext_hdr",
        "ip.version",
        "_ws.expert.message",
    ];
    // Fragments are looked at one by one, as we do.
    let mut command = Command::new("tshark");
    command.args([
        "-o",
        "ip.defragment:FALSE",
        "-Y",
        "gtp && udp.dstport == 2152",
        "-T",
        "fields",
        "-E",
        "separator=|",
        "-E",
        "occurrence=a",
    ]);
    command.arg("-r").arg(path);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.output().ok().filter(|o| o.status.success())?;
    let number = |text: &str| {
        let first = text.split(',').next().unwrap_or_default();
        first.strip_prefix("0x").map_or(first.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0)
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let seen = text.lines().map(|line| {
        let parts: Vec<&str> = line.split('|').collect();
        let at = |i: usize| parts.get(i).copied().unwrap_or_default();
        let seen = Seen {
            version: number(at(1)) >> 5,
            message: number(at(2)),
            length: number(at(3)),
            teid: number(at(4)),
            extensions: at(5).split(',').filter(|e| !e.is_empty()).count(),
            inner: at(6).split(',').count() > 1,
            bad: at(7).contains("total length exceeds"),
        };
        (number(at(0)), seen)
    });
    Some(seen.collect())
}

#[test]
fn tshark_agrees_on_what_tunnels_carry() {
    let Some(folder) = mobile() else { return };
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("skipped: needs tshark (Debian: apt install tshark)");
        return;
    }
    let (mut compared, mut bad) = (0, 0);
    for file in [
        "zeek_gtp9_unknown_or_too_short_payload.pcap.gz",
        "zeek_gtp1_gn_normal_incl_fragmentation.pcap.gz",
        "open5gs_srsenb.pcapng.gz",
        "open5gs_testregistration.pcapng.gz",
        "telekom_n3_example.pcap.gz",
        "arkime_gtp-u.pcap.gz",
        "arkime_gtp-iphone.pcap.gz",
    ] {
        let path = folder.join(file);
        let Some(seen) = tshark(&path) else {
            println!("{file}: skipped: tshark cannot read it");
            continue;
        };
        let mut capture = Capture::open(&path).unwrap();
        let (mut packet, mut number) = (Packet::default(), 0);
        while capture.next(&mut packet) {
            number += 1;
            let (Some(theirs), Ok(outer)) = (seen.get(&number), layers(&packet.data)) else { continue };
            let Some(l4) = outer.l4_offset.filter(|_| outer.five_tuple.dst_port == GTPU_PORT && !outer.fragment) else {
                continue;
            };
            let udp = &packet.data[usize::from(l4)..];
            let claimed = usize::from(u16::from_be_bytes([udp[4], udp[5]])) - 8;
            let ours = parse_gtpu(&udp[8..], claimed);
            compared += 1;
            match ours {
                Ok(header) => {
                    let at = format!("{file} frame {number}: {theirs:?}");
                    assert_eq!(theirs.version, 1, "{at}");
                    assert_eq!(u64::from(header.message), theirs.message, "{at}");
                    assert_eq!(u64::from(header.teid), theirs.teid, "{at}");
                    assert_eq!(usize::from(header.extensions), theirs.extensions, "{at}");
                    assert_eq!(header.end as u64, theirs.length + 8, "{at}");
                    let user = udp.get(8 + header.payload..8 + header.end).unwrap_or_default();
                    let version = user.first().map_or(0, |b| b >> 4);
                    // What is not an IP packet to us has no second header for them; one that is longer than its tunnel is bad.
                    if header.message == 255 && version == 4 && user.len() >= 20 {
                        let total = usize::from(u16::from_be_bytes([user[2], user[3]]));
                        assert!(theirs.inner, "{at}");
                        assert_eq!(total > user.len(), theirs.bad, "{at}: {total} of {}", user.len());
                        bad += usize::from(theirs.bad);
                    } else if header.message == 255 && version != 6 {
                        assert!(!theirs.inner, "{at}");
                        bad += 1;
                    }
                }
                // A length that is above what UDP carries is shown by them without a word.
                Err(DropReason::GtpuBadLength) => {
                    assert!(theirs.length as usize + 8 > claimed, "{file} frame {number}: {theirs:?}");
                    bad += 1;
                }
                Err(reason) => panic!("{file} frame {number}: {reason:?}, {theirs:?}"),
            }
        }
    }
    println!("{compared} messages compared, {bad} of them with a bad inner packet");
    assert!(compared > 500 && bad >= 2, "{compared} compared, {bad} bad");
}

/// Lies that no capture has: tshark is asked about frames that are made.
#[test]
fn tshark_agrees_on_malformed_headers() {
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("skipped: needs tshark (Debian: apt install tshark)");
        return;
    }
    let user = [&[0x45u8, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..]].concat();
    let message = |flags: u8, length: u16, chain: &[u8]| {
        let mut out = vec![flags, 255];
        out.extend(length.to_be_bytes());
        out.extend([0, 0, 0, 7]);
        out.extend(chain);
        out.extend(&user);
        out
    };
    let container = [0, 0, 0, 0x85, 1, 0x10, 9, 0];
    let cases: Vec<(Vec<u8>, Result<(), DropReason>)> = vec![
        (message(0x30, 20, &[]), Ok(())),
        (message(0x34, 28, &container), Ok(())),
        (message(0x50, 20, &[]), Err(DropReason::GtpuBadVersion)),
        (message(0x20, 20, &[]), Err(DropReason::GtpPrime)),
        (message(0x30, 900, &[]), Err(DropReason::GtpuBadLength)),
        (message(0x34, 28, &[0, 0, 0, 0x85, 0, 0x10, 9, 0]), Err(DropReason::GtpuBadExtension)),
        (message(0x34, 28, &[0, 0, 0, 0x85, 200, 0x10, 9, 0]), Err(DropReason::GtpuBadExtension)),
        (vec![0x30, 255, 0, 0, 0], Err(DropReason::GtpuTruncated)),
    ];
    // A capture in the classic format, link type Ethernet.
    let mut pcap =
        [&0xa1b2_c3d4u32.to_le_bytes()[..], &[2, 0, 4, 0], &[0; 8], &65_535u32.to_le_bytes(), &[1, 0, 0, 0]].concat();
    for (message, _) in &cases {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((message.len() as u16 + 28).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 8, 104, 8, 104]);
        frame.extend((message.len() as u16 + 8).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(message);
        let length = (frame.len() as u32).to_le_bytes();
        pcap.extend([&[0; 8][..], &length, &length, &frame].concat());
    }
    let path = std::env::temp_dir().join(format!("gtpu-{}.pcap", std::process::id()));
    std::fs::write(&path, pcap).unwrap();
    let fields = ["frame.protocols", "gtp.flags", "gtp.flags.payload", "_ws.expert.message", "_ws.malformed", "ip.src"];
    let mut command = Command::new("tshark");
    command.args(["-T", "fields", "-E", "separator=|"]).arg("-r").arg(&path);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.output().unwrap();
    std::fs::remove_file(&path).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for ((message, expected), line) in cases.iter().zip(text.lines()) {
        let ours = parse_gtpu(message, message.len());
        assert_eq!(ours.map(|_| ()), *expected, "{message:x?}");
        let parts: Vec<&str> = line.split('|').collect();
        let inner = parts.get(5).is_some_and(|ip| ip.contains(','));
        let complains = parts.get(3).is_some_and(|e| !e.is_empty()) || parts.get(4).is_some_and(|e| !e.is_empty());
        println!("{expected:?}: {line}");
        match expected {
            // What we take, they take apart to the user's packet and do not complain about.
            Ok(()) => assert!(inner && !complains, "{line}"),
            // Which they recognise by the flags, whatever they make of the rest.
            Err(DropReason::GtpuBadVersion) => assert!(parts[1].is_empty() || parts[1].starts_with("0x5"), "{line}"),
            Err(DropReason::GtpPrime) => assert!(parts[0].contains("gtpprime") || parts[1] == "0x20", "{line}"),
            // Dissection goes on after a wrong length, but not without a word or without the user's packet.
            Err(DropReason::GtpuBadLength) => assert!(complains || inner, "{line}"),
            Err(_) => assert!(complains || !inner, "{line}"),
        }
    }
}
