//! The readers on real data, where it is there: `../shared/data` beside the repository. What is
//! expected is what the data's own README says, counted there with tshark and an independent reader.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use packet::{Packet, Prefix};
use traffic::{
    Capture, CaptureFormat, Inspection, Load, Source, SourceSpec, Table, TableFormat, TrafficError, UpdateKind,
    Updates, inspect_file,
};

fn data() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if path.join("README.md").is_file() {
        return Some(path);
    }
    println!("skipped: there is no ../shared/data beside the repository");
    None
}

/// Rows of the README's table of packet statistics: file and the columns after it.
fn statistics(data: &Path) -> Vec<(String, Vec<f64>)> {
    let text = std::fs::read_to_string(data.join("README.md")).unwrap();
    let rows = text.lines().skip_while(|l| !l.starts_with("## Packet statistics"));
    let number = |cell: &str| cell.trim().trim_end_matches('%').replace(',', "").parse::<f64>().ok();
    rows.filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let numbers: Vec<f64> = cells.iter().skip(1).filter_map(|c| number(c)).collect();
        (numbers.len() == 13 && cells.len() == 14).then(|| (cells[0].trim().to_string(), numbers))
    })
    .collect()
}

/// Captures, which the README's tables name with a number of packets or records.
fn counted(data: &Path) -> Vec<(String, u64)> {
    let text = std::fs::read_to_string(data.join("README.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let file = cells.first()?.trim_matches('`').to_string();
        let is_capture = ["pcap", "erf", "tsh"].iter().any(|format| file.contains(format));
        let count = cells.get(5)?.strip_suffix(" packets").or(cells.get(5)?.strip_suffix(" records"))?;
        is_capture.then_some(())?;
        Some((file, count.replace(',', "").parse().ok()?))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn every_capture_has_the_packets_that_its_table_says() {
    let Some(data) = data() else { return };
    let counted = counted(&data);
    assert!(counted.len() >= 40, "{} captures in the tables", counted.len());
    for (file, expected) in counted {
        let mut capture = Capture::open(data.join(&file)).unwrap();
        let (mut packet, mut packets) = (Packet::default(), 0);
        while capture.next(&mut packet) {
            packets += 1;
        }
        let report = capture.report();
        assert_eq!(
            (packets, report.records, report.damage.count),
            (expected, expected, 0),
            "{file}: {}",
            report.damage
        );
    }
}

#[test]
fn every_capture_is_measured_as_its_table_says() {
    let Some(data) = data() else { return };
    let rows = statistics(&data);
    assert!(rows.len() >= 40, "{} rows", rows.len());
    for (file, row) in rows {
        let seen = inspect_file(data.join(&file)).unwrap();
        let percent = |n: u64| (n as f64 * 100.0 / seen.packets as f64).round();
        let classes = seen.size_classes;
        let raw = file.contains("auckland");
        assert_eq!(seen.packets as f64, row[0], "{file}: packets");
        // The table counts raw IP without the Ethernet header that is put in front here.
        if !raw && !has_cooked_header(&seen) {
            assert!((seen.mean_bytes - row[1]).abs() <= 0.051, "{file}: mean {} for {}", seen.mean_bytes, row[1]);
            let shares = [classes.to_64, classes.to_576, classes.to_1499, classes.above].map(percent);
            for (share, expected) in shares.iter().zip(&row[2..6]) {
                assert!((share - expected).abs() <= 1.0, "{file}: classes {shares:?} for {:?}", &row[2..6]);
            }
        } else if raw {
            assert!((seen.mean_bytes - 14.0 - row[1]).abs() <= 0.051, "{file}: mean {}", seen.mean_bytes);
        }
        let counts = [seen.destinations.count, seen.sources.count, seen.flows.count, seen.ipv6].map(|n| n as f64);
        // The table knows fragment headers, and the protocol behind them, only directly behind the IPv6
        // header.
        if file.contains("frag_spray") || file.contains("exthdr_flood") {
            assert_eq!((counts[0], counts[1], counts[3]), (row[6], row[7], row[9]), "{file}");
            assert!(counts[2] >= row[8] && seen.fragments as f64 > row[10], "{file}: flows, fragments");
        } else if file.contains("ipv6_malformed") {
            // What is behind a fragment header that lies is read differently by every reader.
            assert_eq!((counts[0], counts[1], counts[3]), (row[6], row[7], row[9]), "{file}");
            assert!((counts[2] - row[8]).abs() <= 2.0, "{file}: {} flows for {}", counts[2], row[8]);
            assert_eq!(seen.fragments as f64, row[10], "{file}: fragments");
        } else {
            assert_eq!(counts, row[6..10], "{file}: destinations, sources, flows, IPv6");
            assert_eq!(seen.fragments as f64, row[10], "{file}: fragments");
        }
        assert_eq!([seen.gtp_u as f64, seen.pfcp as f64], row[11..13], "{file}: GTP-U, PFCP");
    }
}

fn has_cooked_header(seen: &Inspection) -> bool {
    seen.link_types.keys().any(|link| link != "Ethernet")
}

#[test]
fn the_same_packets_in_three_formats_are_the_same() {
    let Some(data) = data() else { return };
    let all = |file: &str| {
        let mut capture = Capture::open(data.join("traces").join(file)).unwrap();
        let (mut packets, mut packet) = (Vec::new(), Packet::default());
        while capture.next(&mut packet) {
            packets.push(packet.clone());
        }
        (packets, capture.report().format)
    };
    let (pcap, _) = all("auckland_20000125.pcap.gz");
    for (file, format) in
        [("auckland_20000125.tsh.gz", CaptureFormat::Tsh), ("auckland_20000125.erf-atm.gz", CaptureFormat::Erf)]
    {
        let (other, found) = all(file);
        assert_eq!((found, other.len()), (format, pcap.len()));
        for (a, b) in pcap.iter().zip(&other) {
            assert_eq!((a.frame_bytes, a.l3, a.l3_offset), (b.frame_bytes, b.l3, b.l3_offset), "{file}");
            let common = a.data.len().min(b.data.len());
            assert!(common >= 34 && a.data[14..common] == b.data[14..common], "{file}");
            // Two of the three have microseconds only, from different starts.
            assert!(a.arrival.0.abs_diff(b.arrival.0) <= 2_000_000, "{file}: {} and {}", a.arrival, b.arrival);
        }
    }
    let (erf, pcap) = (all("isp_nz_20100113.erf.gz").0, all("isp_nz_20100113.pcap.gz").0);
    for (a, b) in erf.iter().zip(&pcap) {
        assert_eq!((a.frame_bytes, a.l3, a.l3_offset), (b.frame_bytes, b.l3, b.l3_offset));
        assert!(a.arrival.0.abs_diff(b.arrival.0) <= 2_000_000);
    }
}

#[test]
fn the_robustness_archives_read_without_panic_and_with_every_record() {
    let Some(data) = data() else { return };
    // Records of the second archive by capinfos 4.0, file by file; the README has one less.
    for (archive, captures, packets) in
        [("robustness_tcpdump-tests.tar.xz", 830, 10_183u64), ("robustness_ndpi-fuzz.tar.xz", 21, 3_277)]
    {
        let file = std::fs::File::open(data.join("adversarial").join(archive)).unwrap();
        let mut tar = tar::Archive::new(liblzma::read::XzDecoder::new(file));
        let (mut files, mut records) = (0, 0);
        let mut refused: BTreeMap<String, String> = BTreeMap::new();
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            let name = entry.path().unwrap().display().to_string();
            if !entry.header().entry_type().is_file() || name.contains("LICENSE") || name.contains("COPYING") {
                continue;
            }
            files += 1;
            match Capture::from_bytes(bytes, &name) {
                Ok(mut capture) => {
                    let mut packet = Packet::default();
                    while capture.next(&mut packet) {
                        assert!(packet.data.len() <= packet.frame_bytes as usize, "{name}");
                    }
                    records += capture.report().records;
                }
                Err(TrafficError::NothingUsable { why, .. }) => {
                    let none: u64 =
                        why.strip_prefix("of ").and_then(|w| w.split(' ').next()?.parse().ok()).unwrap_or(0);
                    records += none;
                    refused.insert(name, why);
                }
                Err(e) => panic!("{e}"),
            }
        }
        println!("{archive}: {files} captures, {records} records, {} with nothing usable", refused.len());
        assert_eq!(files, captures, "{archive}");
        assert_eq!(records, packets, "{archive}");
    }
}

#[test]
fn tables_have_the_prefixes_that_their_table_says() {
    let Some(data) = data() else { return };
    let tables = data.join("tables");
    let full = Table::open(tables.join("full_table_v4v6.txt.gz")).unwrap();
    let counts = full.counts();
    assert_eq!((counts.ipv4, counts.ipv6, counts.duplicates, full.damage.count), (901_899, 160_147, 0, 0));
    // What the shape of made tables was counted from.
    for (len, n) in [(8, 16), (16, 13_490), (20, 42_611), (22, 108_623), (24, 537_698), (32, 886)] {
        assert_eq!(counts.ipv4_by_len[len], n, "/{len}");
    }
    let origins = Table::open(tables.join("ipasn_v4v6_20151101.dat.gz")).unwrap();
    let counts = origins.counts();
    assert_eq!((counts.ipv4, counts.ipv6, origins.damage.count), (606_138, 27_693, 0), "{}", origins.damage);
    let mrt = Table::open(tables.join("ris_rrc05_bview.20020722.2337.mrt.gz")).unwrap();
    assert_eq!((mrt.format, mrt.damage.count), (TableFormat::Mrt, 0), "{}", mrt.damage);
    assert_eq!((mrt.routes.len(), mrt.routes.len() as u64 + mrt.duplicates), (112_988, 115_521));
    assert!(mrt.routes.iter().all(|r| r.next_hop.is_some()) && mrt.next_hops.len() > 1);
    assert!(mrt.routes.iter().any(|r| r.prefix == Prefix::v4(0xc100_0000, 21).unwrap_or(r.prefix)));
}

#[test]
fn updates_have_the_routes_that_their_table_says() {
    let Some(data) = data() else { return };
    let mut updates = Updates::open(data.join("tables/ris_rrc15_updates.20100227.1600.mrt.gz")).unwrap();
    let (mut announced, mut withdrawn) = (0, 0);
    for update in updates.by_ref() {
        match update.kind {
            UpdateKind::Announce(next_hop) => {
                announced += 1;
                assert!(next_hop.is_some());
            }
            UpdateKind::Withdraw => withdrawn += 1,
        }
    }
    assert_eq!((announced, withdrawn, updates.state_changes()), (52_468, 1_318, 20));
    assert_eq!(updates.damage().count, 0, "{}", updates.damage());
}

#[test]
fn a_replayed_capture_gives_its_packets_in_order_at_its_own_or_another_rate() {
    let Some(data) = data() else { return };
    let path = data.join("traces/isp_nz_20100113.pcap.gz");
    let mut original = Vec::new();
    let mut capture = Capture::open(&path).unwrap();
    let mut packet = Packet::default();
    while capture.next(&mut packet) {
        original.push(packet.clone());
    }
    let spec = SourceSpec { capture: Some(path), rounds: Some(3), ..Default::default() };
    let own = original[9_999].arrival;
    for (load, speed) in [(Load::Timestamps(1.0), 1.0), (Load::Timestamps(4.0), 4.0)] {
        let mut source = Source::new(&spec, 1, &load, None).unwrap();
        let mut last = units::Ps::ZERO;
        for round in 0..3u64 {
            for (i, wanted) in original.iter().enumerate() {
                assert!(source.next(&mut packet));
                assert_eq!((&packet.data, packet.frame_bytes), (&wanted.data, wanted.frame_bytes));
                assert_eq!(packet.id.0, round * 10_000 + i as u64);
                assert!(packet.arrival >= last);
                last = packet.arrival;
                let period = (own + own / 9_999).0 * round;
                let expected = (period + wanted.arrival.0) as f64 / speed;
                assert!((packet.arrival.0 as f64 - expected).abs() < 100.0, "{} for {expected}", packet.arrival.0);
            }
        }
        assert!(!source.next(&mut packet));
    }
}

#[test]
fn a_capture_without_time_is_replayed_at_equal_gaps_and_says_so() {
    let Some(data) = data() else { return };
    for file in ["traces/nren_sanitized4k.pcap.gz", "traces/enterprise_capture2.pcap.gz"] {
        let spec = SourceSpec { capture: Some(data.join(file)), ..Default::default() };
        let blueprint = traffic::Blueprint::new(&spec, None).unwrap();
        assert!(blueprint.notes().iter().any(|n| n.contains("make no sense as one clock")), "{file}");
        let load = Load::Packets("1 Mpps".parse().unwrap());
        let mut source = blueprint.source(1, &load).unwrap();
        let mut packet = Packet::default();
        for i in 1..=10_000u64 {
            assert!(source.next(&mut packet));
            assert_eq!(packet.arrival.0, i * 1_000_000, "{file}");
        }
        let error = blueprint.source(1, &Load::Timestamps(1.0)).err().unwrap().to_string();
        assert!(error.starts_with("traffic.speed = 1"), "{error}");
    }
}
