//! With a copy table alone every reader gets what flat memory has, and a table that leaves out a rule is noticed.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::twin_tests::{CORES, Op, Twin, op, spec};
use super::{CopyInstructionSpec, Hierarchy, Inclusion};
use crate::copy_table::{Fault, IndexTable};
use crate::{Memory, Reply};
use probe::{Access, Request};
use units::{Addr, Clos, CoreId, Ps, Span};

fn hierarchy(inclusion: Inclusion, io_ways: u32, entries: u32) -> Hierarchy {
    Hierarchy::new(&spec(inclusion, io_ways, entries), u32::from(CORES), "machine").unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn with_a_copy_table_every_reader_gets_what_flat_memory_has(
        ops in prop::collection::vec(op(), 1..400),
        inclusion in prop::sample::select(vec![Inclusion::NonInclusive, Inclusion::Inclusive, Inclusion::Victim]),
        io_ways in prop::sample::select(vec![0u32, 0b1100]),
        entries in prop::sample::select(vec![2u32, 8, 32]),
    ) {
        let mut twin = Twin::new(hierarchy(inclusion, io_ways, entries));
        for (i, &op) in ops.iter().enumerate() {
            if let Some((got, wanted)) = twin.apply(op) {
                prop_assert_eq!(got, wanted, "{} {:?}", i, op);
            }
            prop_assert!(twin.is_consistent(), "{} {:?}", i, op);
        }
    }
}

#[test]
fn a_copy_is_read_from_its_source_and_settled_before_either_is_written() {
    for inclusion in [Inclusion::NonInclusive, Inclusion::Inclusive, Inclusion::Victim] {
        let mut twin = Twin::new(hierarchy(inclusion, 0b1100, 32));
        twin.apply(Op::Read(0, 1));
        twin.apply(Op::Copy(0, 1, 2));
        assert_eq!((twin.source(2), twin.memory.copy_counters().fills), (Some(1), 1));
        assert_eq!(twin.apply(Op::Read(1, 2)), Some((1, 1)));
        assert_eq!((twin.by_table, twin.memory.copy_counters().hits), (1, 1));
        twin.apply(Op::Write(0, 1));
        assert_eq!((twin.source(2), twin.memory.copy_counters().settled), (None, 1));
        assert_eq!(twin.apply(Op::Read(2, 2)), Some((1, 1)));
    }
}

/// A table that leaves out a rule is noticed, so the property above can fail.
#[test]
fn the_twin_notices_each_rule_of_the_table_that_is_left_out() {
    let faults = [
        Fault::KeepOnSourceWrite,
        Fault::KeepOnTargetWrite,
        Fault::ForgetOnTargetWrite,
        Fault::ForgetOnEviction,
        Fault::KeepOnCopyOntoSource,
        Fault::KeepTargetEntry,
        Fault::PointAtCopy,
        Fault::ForgetOldest,
        Fault::DeviceReadMissesTable,
    ];
    let mut runner = TestRunner::deterministic();
    for fault in faults {
        let noticed = (0..200).any(|_| {
            let mut twin = Twin::new(hierarchy(Inclusion::Victim, 0b1100, 8));
            if let Some(copies) = &mut twin.memory.copies {
                copies.table = std::mem::replace(&mut copies.table, IndexTable::new(1, 1)).with_fault(fault);
            }
            let ops = prop::collection::vec(op(), 200).new_tree(&mut runner).unwrap().current();
            ops.into_iter().any(|op| twin.apply(op).is_some_and(|(got, wanted)| got != wanted) || !twin.is_consistent())
        });
        assert!(noticed, "{fault:?}");
    }
}

/// A search takes the table's port: the next fill waits for it, however far apart their lines are.
#[test]
fn a_fill_waits_for_the_port_of_the_table() {
    let took = |port: f64| {
        let mut spec = spec(Inclusion::NonInclusive, 0, 32);
        let instruction = CopyInstructionSpec { port: Span::from_ns(port), ..CopyInstructionSpec::default() };
        spec.copy_table.as_mut().unwrap().instruction = Some(instruction);
        let mut memory = Hierarchy::new(&spec, u32::from(CORES), "machine").unwrap();
        let request = |core: u16, line: u64, access| Request {
            addr: Addr(line * 64),
            bytes: 64,
            site: 0,
            access,
            clos: Clos(0),
            core: CoreId(core),
            mapping: 0,
        };
        let mut copy = |core: u16, src: u64, dst: u64, now: Ps| {
            let reply = memory.copy(&request(core, src, Access::Load), &request(core, dst, Access::Store), now);
            let Reply::Done(done) = reply else { panic!("no controller") };
            assert_eq!(done.path.total(), done.at - now, "the parts sum to the time");
            done.at - now
        };
        // Both sources are cached.
        copy(0, 1, 2, Ps::ZERO);
        copy(1, 3, 4, Ps::from_ns(10_000));
        [copy(0, 1, 5, Ps::from_ns(20_000)), copy(1, 3, 6, Ps::from_ns(20_000))]
    };
    let [first, second] = took(0.0);
    // One after the other at the slice, 1 ns.
    assert_eq!(second - first, Ps::from_ns(1));
    // The first's other three searches (by target, by source and for a free entry) and its own go before the second's.
    let [with, behind] = took(5.0);
    assert_eq!((with - first, behind - second), (Ps::ZERO, Ps::from_ns(4 * 5 - 1)));
}
