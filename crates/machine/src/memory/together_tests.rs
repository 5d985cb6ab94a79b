//! Features of the memory system together: sets of them are drawn, with settings and what cores and devices do, and each reader
//! gets what flat memory has.
#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some of them of one")]

use std::collections::BTreeMap;

use engine::Seed;
use proptest::prelude::*;
use units::{Addr, CoreId, Ps, Rate, Size, Span};

use super::copies_tests::{CORES, Op, SENT, Twin, op, spec};
use super::{ApplicationSpec, Hierarchy, HomeSocket, Inclusion, IommuSpec, SocketsSpec, StackedTablesSpec};
use crate::cache::CacheSpec;
use crate::dram::{ControllerSetting, DramSpec};
use crate::stacked::SkipSpec;

/// What a machine has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    inclusion: Inclusion,
    /// Entries of the copy table.
    copies: Option<u32>,
    /// Controllers by command.
    pub controllers: bool,
    /// Where two sockets have their memory.
    sockets: Option<HomeSocket>,
    /// The first eight lines, and the next: who skips the LLC, bypasses it, has slices of its own.
    applications: Option<[Role; 2]>,
    stacked: bool,
    /// Lines of a receive queue's tail.
    tails: Option<u32>,
    /// Addresses of devices are translated.
    iommu: bool,
    /// The last core is an agent with a cache of its own shape.
    agent: bool,
}

impl Features {
    /// Of caches and DRAM alone, with `controllers` or without.
    pub(super) fn plain(controllers: bool) -> Features {
        Features {
            inclusion: Inclusion::NonInclusive,
            copies: None,
            controllers,
            sockets: None,
            applications: None,
            stacked: false,
            tails: None,
            iommu: false,
            agent: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Usual,
    Owns,
    Skips,
    /// By its miss rate, back and forth.
    Wavers,
    Bypasses,
}

pub(super) fn features() -> impl Strategy<Value = Features> {
    let role = || prop::sample::select(vec![Role::Usual, Role::Owns, Role::Skips, Role::Wavers, Role::Bypasses]);
    let inclusion = prop::sample::select(vec![Inclusion::NonInclusive, Inclusion::Inclusive, Inclusion::Victim]);
    let home = prop::sample::select(vec![HomeSocket::Interleaved, HomeSocket::Local, HomeSocket::Socket(1)]);
    (
        inclusion,
        prop::option::of(prop::sample::select(vec![2u32, 8, 32])),
        any::<bool>(),
        prop::option::of(home),
        prop::option::of([role(), role()]),
        any::<bool>(),
        prop::option::of(1u32..5),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(inclusion, copies, controllers, sockets, applications, stacked, tails, iommu, agent)| {
            Features {
                // Nobody leaves lines out of an LLC whose directory they are.
                inclusion: if applications.is_some() && inclusion == Inclusion::Inclusive {
                    Inclusion::NonInclusive
                } else {
                    inclusion
                },
                copies,
                controllers,
                sockets,
                applications,
                stacked,
                tails,
                iommu,
                agent,
            }
        })
}

fn application(role: Role) -> ApplicationSpec {
    let usual = ApplicationSpec::default();
    match role {
        Role::Usual => usual,
        Role::Owns => ApplicationSpec { slices: Some(1), ..usual },
        Role::Skips => ApplicationSpec { llc: false, ..usual },
        Role::Wavers => {
            let skip = SkipSpec { threshold: 0.5, hysteresis: 0.0, window: 10, retry: 20 };
            ApplicationSpec { skip: Some(skip), ..usual }
        }
        Role::Bypasses => ApplicationSpec { bypass: true, ..usual },
    }
}

/// Between two refreshes.
fn usual_refresh() -> Span {
    Span::from_ns(7800.0)
}

pub(super) fn machine(of: &Features, refresh: Span) -> Hierarchy {
    let io_ways = if of.tails.is_some() { 0 } else { 0b1100 };
    let mut spec = spec(of.inclusion, io_ways, of.copies.unwrap_or(2));
    spec.dram.t_refi = refresh;
    if of.copies.is_none() {
        spec.copy_table = None;
    }
    if of.applications.is_some() {
        (spec.llc.slices, spec.llc.size) = (4, Size::from_bytes(16 * 64));
    }
    if of.controllers {
        spec.dram = DramSpec::of_standard("ddr4-2400u", Span::from_ns(20.0)).unwrap();
        spec.dram.controller = Some(ControllerSetting::default());
    }
    let mut memory = Hierarchy::new(&spec, u32::from(CORES), "machine").unwrap();
    if of.agent {
        let l2 = CacheSpec { size: Size::from_bytes(8 * 64), ways: 4, latency: Span::from_ns(0.0) };
        memory.make_agent(CoreId(CORES - 1), &l2, "machine.gpu").unwrap();
    }
    if let Some(home) = of.sockets {
        let sockets = SocketsSpec {
            count: 2,
            cores: vec![0, 1, 0],
            nic: 0,
            hop: Span::from_ns(40.0),
            rate: Rate::from_gbps(160.0),
            memory: home,
            regions: BTreeMap::new(),
        };
        memory.on_sockets(&sockets, &spec, &[], "machine").unwrap();
    }
    if let Some(roles) = of.applications {
        let specs = roles.map(application);
        let named: Vec<(&str, &ApplicationSpec)> = ["tables", "tenant"].into_iter().zip(&specs).collect();
        memory.tell_apart(&named, &[vec![0..8], vec![8..16]], "machine.applications").unwrap();
    }
    if of.stacked {
        let stacked = StackedTablesSpec::default();
        memory.put_into_stack(&stacked, vec![4..12], Seed(1), "machine.stacked").unwrap();
    }
    memory.hold_tails(of.tails.unwrap_or(0), 2, "nic.cache_cells").unwrap();
    if of.iommu {
        memory.translate_devices(&IommuSpec::default(), Addr(1 << 20), "machine.iommu").unwrap();
    }
    memory
}

fn check(features: &Features, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut twin = Twin::new(machine(features, usual_refresh()));
    let mut clone = None;
    for (i, &op) in ops.iter().enumerate() {
        if i == ops.len() / 2 {
            clone = Some(twin.clone());
        }
        if features.copies.is_none() && matches!(op, Op::Copy(..)) {
            continue;
        }
        // What a device has sent out of a tail is nobody's.
        if let Some((got, wanted)) = twin.apply(op).filter(|(_, wanted)| *wanted != SENT) {
            prop_assert_eq!(got, wanted, "{} {:?} of {:?}", i, op, features);
        }
        prop_assert!(twin.is_consistent(), "{} {:?} of {:?}", i, op, features);
    }
    // A clone goes on as its original does.
    if let Some(mut clone) = clone {
        let rest = &ops[ops.len() / 2..];
        let rest = rest.iter().filter(|op| features.copies.is_some() || !matches!(op, Op::Copy(..)));
        rest.for_each(|&op| _ = clone.apply(op));
        let done = |memory: &Hierarchy| (memory.counters(), memory.dram_counters(), memory.socket_counters());
        prop_assert_eq!(done(&clone.memory), done(&twin.memory), "{:?}", features);
    }
    if let Some(tails) = twin.memory.tails() {
        let left = twin.memory.tail_lines();
        prop_assert_eq!(tails.written, tails.gathered + tails.bypassed + tails.replaced + left, "{:?}", tails);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_set_of_features_gives_every_reader_what_flat_memory_has(
        features in features(),
        ops in prop::collection::vec(op(), 1..400),
    ) {
        check(&features, &ops)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    #[ignore = "slow: 5,000 sets, for `make test-slow`"]
    fn many_sets_of_features_give_every_reader_what_flat_memory_has(
        features in features(),
        ops in prop::collection::vec(op(), 1..400),
    ) {
        check(&features, &ops)?;
    }
}

/// An access that is answered takes the time that its path sums to, whatever the machine has.
#[test]
fn all_features_at_once_are_one_machine() {
    let features = Features {
        inclusion: Inclusion::Victim,
        copies: Some(8),
        controllers: true,
        sockets: Some(HomeSocket::Interleaved),
        applications: Some([Role::Wavers, Role::Bypasses]),
        stacked: true,
        tails: Some(4),
        iommu: true,
        agent: true,
    };
    let mut twin = Twin::new(machine(&features, usual_refresh()));
    for round in 0..40 {
        for line in 0..24 {
            twin.apply(Op::DeviceWrite((line + round) % 24));
            twin.apply(Op::Copy((line % 3) as u16, line, (line + 7) % 24));
            twin.apply(Op::Write((line % 2) as u16, (line * 5) % 24));
            twin.apply(Op::Read(((line + 1) % 3) as u16, line));
            assert!(twin.is_consistent());
        }
    }
    let memory = &twin.memory;
    let (copies, tails) = (memory.copy_counters(), memory.tails().unwrap());
    assert!(copies.fills > 100 && copies.hits > 0 && copies.settled > 0, "{copies:?}");
    assert!(tails.gathered > 0 && tails.replaced > 0, "{tails:?}");
    let stack = memory.stack_counters().unwrap();
    assert!(stack.reads > 0 && stack.writes > 0 && stack.busy > Ps::ZERO, "{stack:?}");
    let sockets = memory.socket_counters().unwrap();
    assert!(sockets.remote_reads > 0 && sockets.remote_llc > 0 && sockets.remote_writes > 0, "{sockets:?}");
    assert!(memory.applications()[0].counters.skipped > 0, "{:?}", memory.applications());
    let iommu = memory.iommu_counters().unwrap();
    assert!(iommu.hits > 500 && iommu.misses == 1 && iommu.references == 4, "{iommu:?}");
    assert!(memory.dram_counters().reads > 0 && memory.dram_counters().writes > 0);
}
