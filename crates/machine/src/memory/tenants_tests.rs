//! Lines that programs outside the scenario bring into the LLC.

use probe::{Access, Request};
use proptest::prelude::*;
use units::{Addr, Cbm, Clos, CoreId, Line, Ps, Rate, Size, Span};

use super::llc::TENANTS;
use super::tenants::{Tenants, is_of_tenants};
use super::{ApplicationSpec, Hierarchy, Inclusion, LlcSpec, MemorySpec, SliceHash, Ways};
use crate::Served;
use crate::cache::{CacheSpec, Replacement};
use crate::copy_table::Move;
use crate::dram::DramSpec;
use crate::stacked::Using;

const WAYS: u32 = 8;

/// An LLC of `lines` lines behind private caches of a line each, in so many slices.
pub(super) fn spec(lines: u64, slices: u32, inclusion: Inclusion, gbps: f64) -> MemorySpec {
    let ns = Span::from_ns;
    let cache =
        |lines: u64, ways: u32, latency| CacheSpec { size: Size::from_bytes(lines * 64), ways, latency: ns(latency) };
    MemorySpec {
        l1: cache(1, 1, 1.0),
        l2: cache(1, 1, 2.0),
        tlb: None,
        prefetcher: None,
        waiting_prefetches: 0,
        llc: LlcSpec {
            size: Size::from_bytes(lines * 64),
            ways: WAYS,
            latency: ns(10.0),
            slices,
            hash: SliceHash::Mixed,
            interval: ns(0.0),
            interconnect: None,
            inclusion,
            replacement: Replacement::Lru,
            core_age: 2,
            io_age: 3,
            core_ways: None,
            io_ways: Ways::Mask(Cbm(0xff)),
            inclusive_ways: None,
            snoop: ns(10.0),
            coherence: Default::default(),
            tenants: Some(Rate::from_gbps(gbps)),
        },
        dram: DramSpec::of_standard("ddr4-2400u", ns(30.0)).unwrap(),
        copy_table: None,
        copy_engine: None,
    }
}

fn access(memory: &mut Hierarchy, core: u16, line: u64, access: Access, now: Ps) -> Served {
    let request =
        Request { addr: Addr(line * 64), bytes: 8, site: 0, access, clos: Clos(0), core: CoreId(core), mapping: 0 };
    memory.access(&request, now).served
}

#[test]
fn they_bring_as_many_lines_as_their_rate_says() {
    // A line a microsecond over 100 sets.
    let mut tenants = Tenants::new(Rate::from_gbps(0.512), 100, WAYS).unwrap();
    let (mut brought, mut now) = (0u64, Ps::ZERO);
    for _ in 0..20_000 {
        now += Ps(1_000_000);
        brought += (0..100).map(|set| u64::from(tenants.bring(set, now))).sum::<u64>();
    }
    assert!((brought as f64 / 20_000.0 - 1.0).abs() < 0.03, "{brought} in 20 ms");
    // After very long a set is full of theirs; nobody counts how often.
    assert_eq!(tenants.bring(0, Ps(1 << 60)), 8 * WAYS);
    assert_eq!(tenants.bring(0, Ps(1 << 60)), 0);
    assert!((0..1000).all(|_| is_of_tenants(Line(u64::from(tenants.number())))));
    assert!(Tenants::new(Rate::from_gbps(0.0), 100, WAYS).is_none());
}

/// The share of hits of a program that goes round through `own` lines of an LLC of 4096, one each 10 ns.
fn hits(own: u64, gbps: f64, replacement: Replacement) -> f64 {
    let mut spec = spec(4096, 4, Inclusion::NonInclusive, gbps);
    (spec.llc.replacement, spec.llc.hash) = (replacement, SliceHash::XorFold);
    let mut memory = Hierarchy::new(&spec, 1, "machine").unwrap();
    let (mut now, mut found) = (Ps::ZERO, 0);
    for round in 0..20 {
        for line in 0..own {
            now += Ps(10_000);
            let hit = access(&mut memory, 0, line, Access::Load, now) == Served::Llc;
            found += u64::from(hit && round >= 10);
        }
    }
    found as f64 / (10 * own) as f64
}

#[test]
fn what_is_kept_depends_on_how_fast_one_comes_back() {
    // Lines a second of the program: 100 M. Tenants bring in none, as many, three times as many.
    let (lru, equal, thrice) = (Replacement::Lru, 51.2, 153.6);
    assert!(hits(1024, 0.001, lru) > 0.999);
    // With as many, 1024 lines take as much as 2048 of 4096 and are kept, 3072 as much as 6144 and are not.
    assert!(hits(1024, equal, lru) > 0.95, "{}", hits(1024, equal, lru));
    assert!(hits(3072, equal, lru) < 0.15, "{}", hits(3072, equal, lru));
    assert!(hits(3072, 0.001, lru) > 0.8);
    assert!(hits(2048, thrice, lru) < 0.05, "{}", hits(2048, thrice, lru));
    // Of random victims some of each are kept.
    let some = hits(1024, equal, Replacement::Random);
    assert!(some > 0.3 && some < 0.9, "{some}");
}

#[test]
fn ways_of_class_0_are_all_that_they_have() {
    let mut memory = Hierarchy::new(&spec(64, 1, Inclusion::NonInclusive, 5120.0), 1, "machine").unwrap();
    memory.set_class_ways(Clos(0), Cbm(0b0000_1111)).unwrap();
    memory.set_class_ways(Clos(1), Cbm(0b1111_0000)).unwrap();
    // Four lines of class 1 in each of eight sets stay, whatever tenants do.
    let load = |memory: &mut Hierarchy, line: u64, now| {
        let clos = Clos(1);
        let request = Request {
            addr: Addr(line * 64),
            bytes: 8,
            site: 0,
            access: Access::Load,
            clos,
            core: CoreId(0),
            mapping: 0,
        };
        memory.access(&request, now).served
    };
    for line in 0..32 {
        load(&mut memory, line, Ps(line * 1_000_000));
    }
    for line in 0..32 {
        assert_eq!(load(&mut memory, line, Ps((100 + line) * 1_000_000)), Served::Llc, "line {line}");
    }
    memory.set_class_ways(Clos(1), Cbm(0b0000_1111)).unwrap();
    for line in 32..64 {
        load(&mut memory, line, Ps((200 + line) * 1_000_000));
    }
    for line in 32..64 {
        assert_eq!(load(&mut memory, line, Ps((400 + line) * 1_000_000)), Served::Dram, "line {line}");
    }
}

#[test]
fn who_has_to_go_is_written_back_and_leaves_private_caches_of_an_inclusive_llc() {
    for inclusion in [Inclusion::NonInclusive, Inclusion::Inclusive] {
        let mut memory = Hierarchy::new(&spec(64, 1, inclusion, 512.0), 2, "machine").unwrap();
        // Dirty in the LLC, from a device, and clean in an L1 and the LLC.
        memory.dma_write(Line(1), 1, Ps(0));
        access(&mut memory, 0, 9, Access::Load, Ps(0));
        // Much later somebody comes to their set.
        let later = Ps(1_000_000_000);
        access(&mut memory, 1, 17, Access::Load, later);
        assert_eq!(memory.log, [Move::WriteBack(Line(1))]);
        let kept = access(&mut memory, 0, 9, Access::Load, later + Ps(1));
        let wanted = if inclusion == Inclusion::Inclusive { Served::Dram } else { Served::L1 };
        assert_eq!(kept, wanted, "{inclusion:?}");
        assert!(memory.dma_read(Line(1), 1, later + Ps(2)).0 > later.0 + 2);
        assert_eq!(memory.counters().dma_read.misses, 1);
    }
}

#[test]
fn applications_that_move_leave_lines_of_tenants_alone() {
    let mut memory = Hierarchy::new(&spec(256, 2, Inclusion::NonInclusive, 512.0), 1, "machine").unwrap();
    let one = ApplicationSpec { slices: Some(1), ..ApplicationSpec::default() };
    memory.tell_apart(&[("tables", &one)], &[std::iter::once(0..50).collect()], "machine.applications").unwrap();
    for i in 0..2000 {
        access(&mut memory, 0, i % 100, Access::Store, Ps(i * 10_000));
    }
    let (theirs, flushed) = (memory.llc.owned(TENANTS), memory.applications()[0].counters.flushed);
    assert!(theirs > 50, "{theirs}");
    memory.change_use(0, Using::Nothing, Ps(30_000_000));
    assert_eq!(memory.llc.owned(TENANTS), theirs, "they stay where they are");
    let left = memory.applications()[0].counters.flushed - flushed;
    assert!(left <= 50, "{left} lines left of an application that has 50");
    assert!(memory.log.iter().all(|each| matches!(each, Move::WriteBack(line) if line.0 < 100)), "{:?}", memory.log);
}

proptest! {
    /// A set that is brought up to date when somebody comes to it against one in which everything happens in time.
    #[test]
    fn late_is_as_good_as_in_time(
        steps in prop::collection::vec((0u64..12, any::<bool>(), 0u64..400_000), 1..300), gbps in 0.1f64..20.0,
    ) {
        let mut memory = Hierarchy::new(&spec(8, 1, Inclusion::NonInclusive, gbps), 1, "machine").unwrap();
        // The same draws, with all events before `now` done one by one: lines by age, [`None`] a tenant's.
        let mut tenants = Tenants::new(Rate::from_gbps(gbps), 1, WAYS).unwrap();
        let mut set: Vec<Option<(u64, bool)>> = Vec::new();
        let (mut now, mut written) = (Ps::ZERO, Vec::new());
        let mut come = |set: &mut Vec<Option<(u64, bool)>>, line: Option<(u64, bool)>| {
            if set.len() == WAYS as usize
                && let Some((line, true)) = set.remove(0)
            {
                written.push(Move::WriteBack(Line(line)));
            }
            set.push(line);
        };
        for (line, write, gap) in steps {
            now += Ps(gap);
            for _ in 0..tenants.bring(0, now) {
                come(&mut set, None);
            }
            let at = set.iter().position(|each| each.is_some_and(|(own, _)| own == line));
            if write {
                memory.dma_write(Line(line), 1, now);
            } else {
                memory.dma_read(Line(line), 1, now);
            }
            match at {
                Some(at) if write => {
                    set.remove(at);
                    set.push(Some((line, true)));
                }
                None if write => come(&mut set, Some((line, true))),
                _ => {}
            }
            for line in 0..12 {
                let is_there = set.iter().any(|each| each.is_some_and(|(own, _)| own == line));
                prop_assert_eq!(memory.llc.has(memory.llc.spot(Line(line))), is_there, "line {}", line);
            }
        }
        prop_assert_eq!(&memory.log, &written);
    }
}
