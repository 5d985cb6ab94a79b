//! Whoever takes over a warm LLC finds in it what its owner would have found.

use probe::{Access, Request};
use units::{Addr, Cbm, Clos, CoreId, Line, Ps};

use super::llc::DEVICES;
use super::tenants_tests::spec;
use super::{Hierarchy, Inclusion};
use crate::Served;
use crate::cache::Replacement;

const LINES: u64 = 1024;

fn machine(replacement: Replacement, sets: u64) -> Hierarchy {
    let mut spec = spec(sets * 8, 2, Inclusion::NonInclusive, 0.0);
    spec.llc.replacement = replacement;
    spec.llc.tenants = None;
    spec.llc.io_ways = super::Ways::Mask(Cbm(0b1100_0000));
    let mut memory = Hierarchy::new(&spec, 2, "machine").unwrap();
    memory.set_class_ways(Clos(0), Cbm(0b0011_1111)).unwrap();
    memory.set_class_ways(Clos(1), Cbm(0b0000_0011)).unwrap();
    memory
}

fn touch(memory: &mut Hierarchy, line: u64, class: u8, access: Access, now: Ps) -> Served {
    let clos = Clos(class);
    let request =
        Request { addr: Addr(line * 64), bytes: 8, site: 0, access, clos, core: CoreId(class.into()), mapping: 0 };
    memory.access(&request, now).served
}

/// Both classes and a device, over more than fits.
fn used(replacement: Replacement) -> Hierarchy {
    let mut memory = machine(replacement, LINES / 8);
    let mut at = 12_345u64;
    for step in 0..40_000u64 {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (line, now) = ((at >> 33) % 1500, Ps(step * 100_000));
        match (at >> 20) % 4 {
            0 => _ = memory.dma_write(Line(4000 + line % 300), 1, now),
            1 => _ = touch(&mut memory, 2000 + line % 400, 1, Access::Store, now),
            _ => _ = touch(&mut memory, line, 0, Access::Load, now),
        }
    }
    memory
}

fn sorted(memory: &Hierarchy) -> Vec<(u64, bool, u8)> {
    let mut all: Vec<_> = memory.llc.residents().iter().map(|r| (r.line.0, r.dirty, r.owner)).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_like_machine_has_the_same_lines_after_it_and_loses_the_same_ones_next() {
    for replacement in [Replacement::Lru, Replacement::Fifo, Replacement::Age, Replacement::TreePlru] {
        let other = used(replacement);
        let mut here = machine(replacement, LINES / 8);
        let taken = here.take_over(&other, Some, |core| Clos(core.0 as u8));
        let (kept, had) = (sorted(&here), sorted(&other));
        assert_eq!(taken, kept.len() as u64);
        assert!(had.iter().any(|r| r.2 == DEVICES) && had.iter().any(|r| r.2 == 1) && had.iter().any(|r| r.1));
        assert_eq!(kept, had, "{replacement:?}");
        // Where the order of use is all that there is to know, the same line goes next of each set.
        if matches!(replacement, Replacement::Lru | Replacement::Fifo) {
            let order = |memory: &Hierarchy| memory.llc.residents().iter().map(|r| r.line).collect::<Vec<_>>();
            assert_eq!(order(&here), order(&other), "{replacement:?}");
        }
    }
}

#[test]
fn lines_come_to_where_they_lie_here_within_the_ways_that_there_are() {
    let other = used(Replacement::Lru);
    let mut here = machine(Replacement::Lru, LINES / 16);
    // A third of all lines has no place here, and the others lie elsewhere.
    let place = |line: Line| (!line.0.is_multiple_of(3)).then_some(Line(line.0 + 10_000));
    let taken = here.take_over(&other, place, |core| Clos(core.0 as u8));
    let (kept, had) = (sorted(&here), sorted(&other));
    assert!(taken >= kept.len() as u64 && kept.len() as u64 <= LINES / 2, "{taken}");
    assert!(kept.len() as u64 > LINES * 3 / 10, "{}", kept.len());
    for (line, dirty, owner) in &kept {
        assert!(!(line - 10_000).is_multiple_of(3) && had.contains(&(line - 10_000, *dirty, *owner)));
    }
    // Two of eight ways are the devices', and two the second class's.
    for owner in [DEVICES, 1] {
        assert!(kept.iter().filter(|r| r.2 == owner).count() as u64 <= LINES / 2 / 4, "{owner}");
    }
    // They are found, and the time that has passed there counts for nothing here.
    let (line, ..) = kept.iter().rfind(|r| r.2 == 0).copied().unwrap();
    assert_eq!(touch(&mut here, line, 0, Access::Load, Ps(1_000)), Served::Llc);
}
