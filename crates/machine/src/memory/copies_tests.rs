//! With a copy table alone every reader gets what flat memory has, and a table that leaves out a rule is noticed.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::twin_tests::{CORES, Op, Twin, op, spec};
use super::{Hierarchy, Inclusion};
use crate::copy_table::{Fault, IndexTable};

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
