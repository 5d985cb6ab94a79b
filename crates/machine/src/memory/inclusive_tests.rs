//! Lines of devices that cores read, where the LLC has ways for what L2s have, too.

use probe::Access;
use proptest::prelude::*;
use units::{Line, Ps};

use super::twin_tests::{CORES, LINES, request, spec};
use super::{Hierarchy, Inclusion, Ways, llc};
use crate::Served;

/// Two sets of four ways: the upper two are of devices, the lowest is of what L2s have, too.
fn memory(inclusion: Inclusion, inclusive_ways: Option<Ways>) -> Hierarchy {
    let mut spec = spec(inclusion, 0b1100, 2);
    (spec.copy_table, spec.llc.inclusive_ways) = (None, inclusive_ways);
    Hierarchy::new(&spec, CORES.into(), "machine").unwrap()
}

/// The way of `line`, and whether a device has brought it.
fn way(memory: &Hierarchy, line: u64) -> Option<(u32, bool)> {
    let (way, owner) = memory.llc.way_and_owner(memory.llc.spot(Line(line)))?;
    Some((way, owner == llc::DEVICES))
}

#[test]
fn a_read_moves_it_to_the_inclusive_way_and_who_is_there_goes() {
    for inclusion in [Inclusion::NonInclusive, Inclusion::Victim] {
        let mut memory = memory(inclusion, Some(Ways::Count(1)));
        let mut now = Ps::ZERO;
        let mut next = || {
            now += Ps::from_ns(500);
            now
        };
        for line in [0, 2] {
            memory.dma_write(Line(line), 1, next());
            assert!(way(&memory, line).is_some_and(|(way, of_device)| way >= 2 && of_device));
            assert_eq!(memory.access(&request(0, line, Access::Load), next()).served, Served::Llc);
            assert_eq!(way(&memory, line), Some((0, true)), "{inclusion:?}");
            assert!(memory.private_has(Line(line), memory.directory.get(Line(line))));
        }
        // The first was modified, by the device, and the second has its way.
        assert_eq!((way(&memory, 0), memory.counters().writebacks), (None, 1));
        // A packet that comes into the same buffer finds it there, and another core leaves it there.
        memory.dma_write(Line(2), 1, next());
        assert_eq!((memory.counters().dma_write.hits, way(&memory, 2)), (1, Some((0, true))));
        assert_eq!(memory.access(&request(1, 2, Access::Load), next()).served, Served::Llc);
        assert_eq!(way(&memory, 2), Some((0, true)));
    }
}

#[test]
fn a_store_takes_it_along_from_a_victim_cache_and_so_does_a_read_where_no_way_is_inclusive() {
    let mut with = memory(Inclusion::Victim, Some(Ways::Count(1)));
    let mut without = memory(Inclusion::Victim, None);
    for (memory, access) in [(&mut with, Access::Store), (&mut without, Access::Load)] {
        memory.dma_write(Line(0), 1, Ps::from_ns(500));
        assert_eq!(memory.access(&request(0, 0, access), Ps::from_ns(1_000)).served, Served::Llc);
        assert_eq!(way(memory, 0), None, "{access:?}");
    }
}

proptest! {
    /// Devices' lines are in I/O ways or in inclusive ones, and in these once a core has read them in the LLC.
    #[test]
    fn lines_of_devices_lie_in_their_ways_or_where_readers_have_them(
        is_victim in any::<bool>(),
        inclusive_ways in 1u32..3,
        ops in prop::collection::vec((0u8..5, 0..CORES, 0..LINES), 1..300),
    ) {
        let inclusion = if is_victim { Inclusion::Victim } else { Inclusion::NonInclusive };
        let mut memory = memory(inclusion, Some(Ways::Count(inclusive_ways)));
        let (mut now, mut moved) = (Ps::ZERO, 0);
        for (op, core, line) in ops {
            now += Ps::from_ns(500);
            let before = way(&memory, line);
            match op {
                0 | 1 => _ = memory.dma_write(Line(line), 1, now),
                2 => _ = memory.access(&request(core, line, Access::Store), now),
                _ => {
                    let served = memory.access(&request(core, line, Access::Load), now).served;
                    if served == Served::Llc && before.is_some_and(|(_, of_device)| of_device) {
                        prop_assert!(way(&memory, line).is_some_and(|(way, _)| way < inclusive_ways));
                        moved += 1;
                    }
                }
            }
            for line in 0..LINES {
                let Some((way, true)) = way(&memory, line) else { continue };
                prop_assert!(way >= 2 || way < inclusive_ways, "{line} in way {way} after {moved} moves");
            }
            let present = (0..LINES).filter(|&line| way(&memory, line).is_some()).count() as u64;
            prop_assert_eq!(memory.llc_occupancy(), present, "owners count what is there");
        }
    }
}
