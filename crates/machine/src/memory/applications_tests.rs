//! Applications at the LLC and tables in stacked DRAM: times added up by hand, and what may never happen.
#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some of them of one")]

use std::collections::{BTreeMap, BTreeSet};

use engine::Seed;
use probe::{Access, Request};
use proptest::prelude::*;
use stats::Reason;
use units::{Addr, Cbm, Clos, CoreId, Line, Ps, Size};

use super::engines_tests::spec as with_engine;
use super::*;
use crate::copy_table::Move;
use crate::stacked::{BankService, BankTiming, SkipSpec, StackedSpec};

const NS: u64 = 1_000;

fn spec(inclusion: Inclusion, slices: u32) -> MemorySpec {
    let mut spec = MemorySpec { copy_engine: None, ..with_engine(CopyEngineSpec::NonTemporal, 0b0011) };
    (spec.llc.inclusion, spec.llc.slices) = (inclusion, slices);
    spec.llc.size = Size::from_bytes(u64::from(slices) * 64 * 64);
    spec
}

fn named(applications: &[ApplicationSpec]) -> Vec<(&str, &ApplicationSpec)> {
    ["tables", "tenant"].into_iter().zip(applications).collect()
}

/// Lines 0 to 999 are those of the first application, 1000 to 1999 of the second.
fn memory(inclusion: Inclusion, applications: &[ApplicationSpec]) -> Hierarchy {
    let mut memory = Hierarchy::new(&spec(inclusion, 8), 2, "machine").unwrap();
    let ranges: Vec<_> = (0..applications.len() as u64).map(|n| vec![n * 1000..(n + 1) * 1000]).collect();
    memory.tell_apart(&named(applications), &ranges, "machine.applications").unwrap();
    memory
}

fn request(line: u64, access: Access, core: u16) -> Request {
    Request { addr: Addr(line * 64), bytes: 8, site: 0, access, clos: Clos(0), core: CoreId(core), mapping: 0 }
}

fn load(memory: &mut Hierarchy, line: u64, now: u64) -> Response {
    let response = memory.access(&request(line, Access::Load, 0), Ps(now * NS));
    assert_eq!(response.path.total(), response.at - Ps(now * NS), "the parts sum to the time");
    response
}

/// Misses that fill an LLC of 8 slices and the L2s.
const FILLS: u64 = 8 * 64 + 2 * 64;

fn skips(threshold: f64) -> ApplicationSpec {
    let skip = SkipSpec { threshold, hysteresis: 0.0, window: 100, retry: 1000 };
    ApplicationSpec { skip: Some(skip), ..ApplicationSpec::default() }
}

#[test]
fn an_application_without_an_llc_pays_for_its_l2_and_dram_only() {
    for inclusion in [Inclusion::Victim, Inclusion::NonInclusive] {
        let mut memory = memory(inclusion, &[ApplicationSpec { llc: false, ..ApplicationSpec::default() }]);
        // L2 4 ns, then a closed bank: overhead, row, column, burst.
        assert_eq!(load(&mut memory, 5, 1_000_000).at, Ps((1_000_000 + 4 + 20 + 14 + 14 + 3) * NS));
        for line in 0..900 {
            load(&mut memory, line, 2_000_000 + line * 1000);
        }
        assert_eq!((memory.llc_occupancy(), memory.counters().llc.misses), (0, 0));
        assert_eq!(memory.applications()[0].counters.skipped, 900);
        // Others go by the LLC.
        assert!(load(&mut memory, 5000, 9_000_000).path.iter().any(|(reason, _)| reason == Reason::Llc));
    }
}

#[test]
fn an_application_that_misses_skips_and_its_lines_leave_the_llc() {
    let mut memory = memory(Inclusion::NonInclusive, &[skips(0.5)]);
    // In a circle over more lines than there are in LLC and L2s: none is there when it is wanted again.
    let mut n = 0;
    let mut round = |memory: &mut Hierarchy, count: u64| {
        for _ in 0..count {
            n += 1;
            memory.access(&request(n % 1000, Access::Store, 0), Ps(n * 1000 * NS));
        }
    };
    round(&mut memory, FILLS);
    assert!(!memory.applications()[0].skips, "misses that fill empty caches are not judged");
    round(&mut memory, 2 * 100);
    let state = memory.applications()[0];
    assert!(state.skips && state.counters.changes == 1 && state.counters.flushed > 0, "{state:?}");
    assert_eq!(memory.llc_occupancy(), 0);
    // After 32 times as many misses of L2 it tries again, and skips again.
    round(&mut memory, 33 * (FILLS + 200));
    assert_eq!(memory.applications()[0].counters.changes, 3);
}

/// Steele, Lea, Flood, OOPSLA 2014, "Fast splittable pseudorandom number generators".
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.unit() * n as f64) as u64
    }
}

/// From any state, of empty caches too: an application whose steady miss rate is 5 points below the threshold is let alone, and
/// one whose rate is 5 points above it skips.
#[test]
fn who_is_below_the_threshold_is_never_skipped_and_who_is_above_is() {
    let mut settings = Draws(1);
    let mut drawn = 0;
    while drawn < 50 {
        let slices = [4, 8, 16][settings.below(3) as usize];
        let inclusion = [Inclusion::Victim, Inclusion::NonInclusive][settings.below(2) as usize];
        let own = (settings.unit() < 0.5).then(|| 1 + settings.below(u64::from(slices) - 2) as u32);
        let bypass = settings.unit() < 0.25;
        let lines = (f64::from(own.unwrap_or(slices)) * 64.0 * (0.5 + 11.5 * settings.unit())) as u64 + 128;
        let skew = 1.0 + 2.0 * settings.unit();
        let beside = 0.3 * settings.unit();
        let spec = ApplicationSpec { slices: own, bypass, ..ApplicationSpec::default() };
        let seed = settings.next();
        let run = |application: ApplicationSpec, accesses: u64| {
            let mut draws = Draws(seed);
            let mut memory = Hierarchy::new(&self::spec(inclusion, slices), 2, "machine").unwrap();
            let ranges = [vec![0..lines]];
            memory.tell_apart(&[("tables", &application)], &ranges, "machine.applications").unwrap();
            let mut half = memory.applications()[0].counters;
            for n in 0..accesses {
                if n == accesses / 2 {
                    half = memory.applications()[0].counters;
                }
                let share = draws.unit();
                let line = if draws.unit() < beside {
                    lines + (share * 2000.0) as u64
                } else {
                    (share.powf(skew) * lines as f64) as u64
                };
                let core = draws.below(2) as u16;
                memory.access(&request(line, Access::Load, core), Ps(n * 1000 * NS));
            }
            (memory.applications()[0].counters - half, memory.applications()[0].counters)
        };
        const ACCESSES: u64 = 100_000;
        let steady = run(spec.clone(), ACCESSES).0.llc;
        let rate = steady.misses as f64 / (steady.hits + steady.misses).max(1) as f64;
        if !(0.06..0.94).contains(&rate) || steady.hits + steady.misses < 10_000 {
            continue;
        }
        drawn += 1;
        let skipped = |threshold: f64| {
            let skip = SkipSpec { threshold, hysteresis: 0.0, window: 1000, retry: 5000 };
            let all = run(ApplicationSpec { skip: Some(skip), ..spec.clone() }, 3 * ACCESSES).1;
            all.skipped as f64 / (all.skipped + all.llc.hits + all.llc.misses) as f64
        };
        let told = format!("{inclusion:?}, {spec:?}, {lines} lines, skew {skew}, rate {rate}");
        let (below, above) = (skipped(rate + 0.05), skipped(rate - 0.05));
        assert!(below <= 0.01, "{told}: skipped {below} though it is below the threshold");
        assert!(above > 0.8, "{told}: skipped {above} though it is above the threshold");
    }
}

#[test]
fn released_slices_go_to_the_neighbour_and_come_back() {
    let owner = ApplicationSpec { slices: Some(3), ..skips(0.5) };
    let neighbour = ApplicationSpec { slices: Some(2), ..ApplicationSpec::default() };
    let mut memory = memory(Inclusion::Victim, &[owner, neighbour]);
    let slices = |memory: &Hierarchy| memory.applications().iter().map(|a| a.slices).collect::<Vec<_>>();
    assert_eq!(slices(&memory), [Some(3), Some(2)]);
    let mut n = 0;
    let mut loads = |memory: &mut Hierarchy, lines: std::ops::Range<u64>| {
        for line in lines {
            n += 1;
            load(memory, line, n * 1000);
        }
    };
    // Three of the eight slices, and the L2s: then two windows.
    loads(&mut memory, 0..3 * 64 + 2 * 64 + 200);
    assert_eq!(slices(&memory), [Some(0), Some(5)]);
    // Every line of the neighbour is where it belongs now: nothing is there twice or lost to sight.
    loads(&mut memory, 1000..1200);
    loads(&mut memory, 1000..1200);
    assert!(memory.applications()[1].counters.llc.hits > 0);
    // A trial: the owner has its slices back, and what was in them is gone.
    for _ in 0..17 {
        loads(&mut memory, 0..1000);
    }
    assert_eq!(slices(&memory), [Some(3), Some(2)]);
}

#[test]
fn slices_that_nobody_else_owns_go_to_everyone() {
    let mut memory = memory(Inclusion::Victim, &[ApplicationSpec { slices: Some(7), ..skips(0.0) }]);
    let spread = |memory: &Hierarchy| {
        (5000..6000).map(|line| memory.llc.spot(Line(line)).slice()).collect::<BTreeSet<_>>().len()
    };
    assert_eq!(spread(&memory), 1);
    for line in 0..7 * 64 + 2 * 64 + 200 {
        load(&mut memory, line, line * 1000);
    }
    assert_eq!(spread(&memory), 8);
}

#[test]
fn ways_hold_an_application_whoever_brings_its_lines_in() {
    let mut memory = memory(
        Inclusion::NonInclusive,
        &[ApplicationSpec { ways: Some(Ways::Mask(Cbm(0b1))), ..ApplicationSpec::default() }],
    );
    for line in 0..1000 {
        load(&mut memory, line, line * 1000);
    }
    // 128 sets of four ways.
    assert_eq!(memory.llc_occupancy(), 128);
}

#[test]
fn a_line_comes_in_once_it_was_used_again() {
    for inclusion in [Inclusion::Victim, Inclusion::NonInclusive] {
        let mut memory = memory(inclusion, &[ApplicationSpec { bypass: true, ..ApplicationSpec::default() }]);
        let mut n = 0;
        let mut pass = |memory: &mut Hierarchy| {
            for line in 0..100 {
                n += 1;
                load(memory, line, n * 1000);
            }
        };
        // More lines than L2 has: the first pass leaves nothing in the LLC.
        pass(&mut memory);
        assert_eq!(memory.llc_occupancy(), 0, "{inclusion:?}");
        assert!(memory.applications()[0].counters.bypassed >= 36);
        // Missed again soon, and then they are kept.
        pass(&mut memory);
        pass(&mut memory);
        let hits = memory.applications()[0].counters.llc.hits;
        assert!(hits > 50, "{inclusion:?}: {hits}");
    }
}

fn stack(channels: u32) -> StackedTablesSpec {
    let service = BankService::Rates { per_us: vec![8.0, 5.0], exponential: false };
    let memory = StackedSpec { channels, banks: 2, service, link_ns: 30.0 };
    StackedTablesSpec { memory, ..StackedTablesSpec::default() }
}

#[test]
fn a_table_in_stacked_dram_takes_link_and_service_and_a_write_takes_every_channel() {
    let mut memory = Hierarchy::new(&spec(Inclusion::NonInclusive, 8), 2, "machine").unwrap();
    memory.put_into_stack(&stack(2), vec![0..1000], Seed(0), "machine.stacked").unwrap();
    let response = load(&mut memory, 7, 1000);
    // LLC 20, link 30 there and back, a bank alone in its channel 125.
    assert_eq!(response.at, Ps((1000 + 20 + 60 + 125) * NS));
    let parts: BTreeMap<_, _> = response.path.iter().collect();
    assert_eq!(parts[&Reason::RowMiss], Ps(125 * NS));
    // Posted at the same time as a read of the same partial table: on both channels it comes first.
    let bank = (0..100).filter(|l| memory.stack().unwrap().bank_of(Line(*l)) == 0).collect::<Vec<_>>();
    memory.behind.write(Line(bank[0]), Ps(5_020 * NS));
    assert_eq!(load(&mut memory, bank[1], 5_000).at, Ps((5_000 + 20 + 60 + 125 + 125) * NS));
    let counters = memory.stack_counters().unwrap();
    assert_eq!((counters.reads, counters.writes, counters.waited), (2, 1, Ps(125 * NS)));
    assert_eq!(counters.busy, Ps(4 * 125 * NS));
    assert_eq!(memory.dram_counters().reads, 0);
}

#[test]
fn reads_of_a_device_keep_a_bank_busy_for_its_whole_cycle() {
    let mut memory = Hierarchy::new(&spec(Inclusion::NonInclusive, 8), 2, "machine").unwrap();
    let service = BankService::Device { standard: "hmc-2.1-vault".into(), bytes: 64 };
    let device = StackedSpec { channels: 1, banks: 1, service, link_ns: 0.0 };
    let BankTiming::Device { first_data, burst, cycle } = device.resolve("memory").unwrap() else {
        panic!("a device has device timings");
    };
    let spec = StackedTablesSpec { memory: device, ..StackedTablesSpec::default() };
    memory.put_into_stack(&spec, vec![0..1000], Seed(0), "machine.stacked").unwrap();
    for line in 0..10 {
        load(&mut memory, line, 1000);
    }
    let counters = memory.stack_counters().unwrap();
    // One after the other: the tenth waits for nine cycles.
    assert_eq!((counters.reads, counters.busy), (10, cycle * 10));
    assert_eq!(counters.waited, cycle * 45);
    assert!(cycle > first_data + burst, "a row is closed after its data are there");
}

#[test]
fn what_would_be_ignored_is_refused() {
    let mut apart = Hierarchy::new(&spec(Inclusion::Victim, 8), 2, "machine").unwrap();
    let wasted = ApplicationSpec { llc: false, ways: Some(Ways::Mask(Cbm(0b11))), ..ApplicationSpec::default() };
    let said = apart.tell_apart(&named(&[wasted]), &[vec![0..9]], "machine.applications").unwrap_err().to_string();
    assert!(said.starts_with("machine.applications.tables.llc = false with slices, ways"), "{said}");
    let empty = StackedTablesSpec { holds: Vec::new(), ..StackedTablesSpec::default() };
    let said = apart.put_into_stack(&empty, Vec::new(), Seed(0), "machine.stacked").unwrap_err().to_string();
    assert!(said.starts_with("machine.stacked.holds = []: allowed is one name or more (leave"), "{said}");
}

#[test]
fn what_cannot_be_says_where() {
    let of = |slices: u32, inclusion, applications: &[ApplicationSpec]| {
        let mut memory = Hierarchy::new(&spec(inclusion, slices), 2, "machine").unwrap();
        let ranges: Vec<_> = (0..applications.len() as u64).map(|n| vec![n * 500..n * 500 + 1000]).collect();
        memory.tell_apart(&named(applications), &ranges, "machine.applications").unwrap_err().to_string()
    };
    let plain = ApplicationSpec::default;
    let owns = |n| ApplicationSpec { slices: Some(n), ..plain() };
    for (said, says) in [
        (of(8, Inclusion::Victim, &[owns(8)]), "machine.applications.tables.slices = 8: allowed is 1 to 7 of 8 slices"),
        (
            of(8, Inclusion::Victim, &[owns(4), owns(4)]),
            "machine.applications.tenant.slices = 4: allowed is 1 to 3 of 8",
        ),
        (of(1, Inclusion::Victim, &[owns(1)]), "machine.applications.tables.slices = 1: allowed is nothing"),
        (
            of(8, Inclusion::Victim, &[plain(), plain()]),
            "machine.applications.tenant = given with machine.applications.tables",
        ),
        (of(8, Inclusion::Inclusive, &[skips(0.5)]), "machine.applications.tables = told to leave lines out"),
        (of(8, Inclusion::Victim, &[skips(1.5)]), "machine.applications.tables.skip.threshold = 1.5"),
        (
            of(8, Inclusion::Victim, &[ApplicationSpec { ways: Some(Ways::Mask(Cbm(0b101))), ..plain() }]),
            "machine.applications.tables.ways = 0b101: allowed is set bits that are contiguous",
        ),
    ] {
        assert!(said.starts_with(says), "{said}");
    }
}

proptest! {
    /// Whatever two cores and a device do, and whoever skips, owns and bypasses: memory is read only where it has the latest.
    #[test]
    fn memory_is_never_read_while_a_cache_has_a_newer_line(
        inclusion in prop_oneof![Just(Inclusion::Victim), Just(Inclusion::NonInclusive)],
        owned in prop::collection::vec(prop::option::of(1u32..4), 2),
        bypass in any::<bool>(), stacked in any::<bool>(),
        steps in prop::collection::vec((0u64..200, 0u8..6, 0u16..2), 200..1500)
    ) {
        let skip = SkipSpec { threshold: 0.6, hysteresis: 0.1, window: 40, retry: 60 };
        let first = ApplicationSpec { slices: owned[0], skip: Some(skip.clone()), ..ApplicationSpec::default() };
        let second = ApplicationSpec { slices: owned[1], bypass, skip: bypass.then_some(skip), ..ApplicationSpec::default() };
        let mut memory = memory(inclusion, &[first, second]);
        if stacked {
            memory.put_into_stack(&stack(4), vec![0..1500], Seed(0), "machine.stacked").unwrap();
        }
        let mut newer = BTreeSet::new();
        for (n, (line, what, core)) in steps.into_iter().enumerate() {
            // Some of each application, and some of nobody's.
            let line = line % 3 * 1000 + line;
            let now = Ps(n as u64 * 1000 * NS);
            if what == 0 && line >= 2000 {
                memory.dma_write(Line(line), 1, now);
                newer.insert(line);
            } else {
                let access = if what == 1 { Access::Store } else { Access::Load };
                let response = memory.access(&request(line, access, core), now);
                prop_assert_eq!(response.path.total(), response.at - now);
                let written = memory.log.contains(&Move::WriteBack(Line(line)));
                if response.served == Served::Dram {
                    prop_assert!(!newer.contains(&line) || written, "line {} at step {}", line, n);
                }
            }
            for moved in std::mem::take(&mut memory.log) {
                if let Move::WriteBack(line) = moved {
                    newer.remove(&line.0);
                }
            }
            if what == 1 {
                newer.insert(line);
            }
        }
    }
}
