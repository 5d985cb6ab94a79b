//! The fuzzer's seeds (`fuzz/corpus`): sound inputs, and what damage by chance does to them without a fuzzer.

use std::path::Path;

use crate::made::Chance;
use daemon::{Journal, JournalEntry};
use host::prometheus::{Selector, ToldMetrics};
use host::resctrl::longest_run;
use host::vpp::StatsSegment;
use host::{CpuIdentity, CpuList, GroupMode, MonitorReading, PortTotals, Schemata, core_cycles};

/// Targets whose readers are of the host and of the daemon.
const TARGETS: [&str; 5] = ["journal", "telemetry", "metrics", "resctrl", "vpp"];

/// Seeds of a target by name; what the fuzzer has found itself is named by its hash.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut seeds = Vec::new();
    for seed in std::fs::read_dir(folder).unwrap() {
        let path = seed.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.len() < 40 {
            seeds.push((name, std::fs::read(&path).unwrap()));
        }
    }
    seeds.sort();
    seeds
}

/// Whether a seed's reader takes it.
fn is_read(target: &str, name: &str, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    match target {
        "journal" => Journal::parse(bytes, "wirespeed-").is_ok_and(|j| !j.is_empty()),
        "telemetry" => {
            let answer = serde_json::from_slice(bytes).unwrap();
            PortTotals::from_json(&answer, "s").is_ok() || core_cycles(&answer, "s").is_ok()
        }
        "metrics" => {
            let (name, metrics) = text.split_once('\n').unwrap();
            ToldMetrics::parse(metrics).is_ok() && name.parse::<Selector>().is_ok()
        }
        "resctrl" => match name {
            "processors" => text.parse::<CpuList>().is_ok_and(|cpus| cpus.0.len() == 7),
            "cpuinfo" => CpuIdentity::parse(&text).model == 85,
            _ => text.parse::<Schemata>().is_ok_and(|s| !s.0.is_empty()),
        },
        "vpp" => {
            let segment = StatsSegment::open(bytes.to_vec(), "s".into()).unwrap();
            let totals = segment.totals(&["eth0".into()], &["rx-miss".into()]).unwrap();
            (totals.received, totals.lost) == (30, 8)
        }
        other => panic!("{other} has no reader here"),
    }
}

/// What has to hold of any bytes, as the fuzzer's targets have it; whether they were taken.
fn holds(target: &str, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    match target {
        "journal" => Journal::parse(bytes, "wirespeed-").is_ok_and(|journal| {
            let is_own = |entry: &JournalEntry| match entry {
                JournalEntry::Made { group } | JournalEntry::Masks { group, .. } => {
                    (group.is_empty() || group.starts_with("wirespeed-")) && !group.contains('/')
                }
                JournalEntry::Register { .. } | JournalEntry::IoAlloc { .. } => true,
            };
            assert!(journal.entries.iter().all(is_own), "{journal:?}");
            true
        }),
        "telemetry" => serde_json::from_slice(bytes).is_ok_and(|answer: serde_json::Value| {
            let cores = core_cycles(&answer, "s");
            if let Ok(cores) = &cores {
                assert_eq!(Some(cores.len()), answer["lcore_ids"].as_array().map(Vec::len));
            }
            PortTotals::from_json(&answer, "s").is_ok() || cores.is_ok()
        }),
        "metrics" => text.split_once('\n').is_some_and(|(name, metrics)| {
            let both = name.parse::<Selector>().ok().zip(ToldMetrics::parse(metrics).ok());
            both.and_then(|(selector, told)| told.sum(&selector).ok()).is_some_and(|sum| {
                assert!(sum >= 0.0);
                true
            })
        }),
        "resctrl" => {
            let _ = (text.parse::<GroupMode>(), text.parse::<MonitorReading>(), CpuIdentity::parse(&text));
            if let Ok(cpus) = text.parse::<CpuList>() {
                assert_eq!(cpus.to_string().parse::<CpuList>().unwrap(), cpus);
            }
            text.parse::<Schemata>().is_ok_and(|schemata| {
                assert_eq!(schemata.to_string().parse::<Schemata>().unwrap(), schemata);
                for (_, mask) in schemata.masks("L3") {
                    assert_eq!(longest_run(mask).0 & !mask.0, 0);
                }
                true
            })
        }
        "vpp" => {
            let segment = StatsSegment::open(bytes.to_vec(), "s".into());
            segment.and_then(|segment| segment.totals(&["eth0".into()], &["rx-miss".into()])).is_ok()
        }
        other => panic!("{other} has no reader here"),
    }
}

/// Bytes that mean something to one form or another.
const TELLING: &[u8] = b"{}[]\",:=;-019\n \0\xff";

/// One to four changes: a bit, a byte that matters to a text, a piece that goes, or one that comes twice.
fn damaged(seed: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..1 + chance.below(4) {
        let n = bytes.len().max(1) as u64;
        let at = (chance.below(n) as usize).min(bytes.len());
        let end = (at + chance.below(12) as usize).min(bytes.len());
        match chance.below(4) {
            0 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
            1 if at < bytes.len() => bytes[at] = TELLING[chance.below(TELLING.len() as u64) as usize],
            2 => drop(bytes.drain(at..end)),
            _ => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

fn lives_of(executions: u64) {
    for target in TARGETS {
        let seeds = seeds(target);
        let mut chance = Chance(executions);
        let mut taken = 0;
        for i in 0..executions {
            let (_, seed) = &seeds[i as usize % seeds.len()];
            taken += u64::from(holds(target, &damaged(seed, &mut chance)));
        }
        println!("{target}: {executions} damaged seeds, {taken} taken");
        assert!(taken < executions, "{target}: damage is noticed");
        // A journal's checksum leaves those of before alone, which have none.
        assert!(taken > 0, "{target}: not all that is damaged is refused, or nothing behind a refusal is tried");
    }
}

#[test]
fn seeds_are_read_by_their_readers() {
    let mut seen = 0;
    for target in TARGETS {
        for (name, bytes) in seeds(target) {
            assert!(is_read(target, &name, &bytes), "{target}/{name}");
            seen += 1;
        }
    }
    assert!(seen >= 12, "{seen}");
}

#[test]
fn damaged_seeds_are_taken_as_they_read_or_refused() {
    lives_of(5_000);
}

#[test]
#[ignore = "a million of each"]
fn a_million_damaged_seeds_are_taken_as_they_read_or_refused() {
    lives_of(1_000_000);
}
