//! What holds for every policy, whatever it is shown.

use control::{Allocation, ClassObservation, Counter, Observation, Policy, Sample};
use policy::baseline::{IatLike, Isolated, Thresholds};
use policy::{Allocator, AllocatorSpec, Floors};
use proptest::prelude::*;
use units::{Cbm, Clos, Ps};

const INTERVAL: Ps = Ps::from_ns(100_000_000);

fn any_counter(scale: f64) -> impl Strategy<Value = Counter> {
    let value = prop_oneof![
        8 => 0.0..scale,
        1 => Just(0.0),
        1 => Just(scale * 1e12),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(-1.0),
    ];
    prop::option::weighted(0.85, (value, 0u64..4, 0u64..3)).prop_map(|c| {
        c.map(|(value, age, interval)| Sample { value, age: Ps(INTERVAL.0 * age), interval: Ps(INTERVAL.0 * interval) })
    })
}

/// What is seen but for the settings in force.
fn any_observation() -> impl Strategy<Value = Observation> {
    let counters = (any_counter(2e7), any_counter(2e10), any_counter(1.0), any_counter(1.0), any_counter(1.0));
    (counters, prop::bool::weighted(0.9)).prop_map(|((pps, bytes, io_miss, core_miss, busy), has_class)| {
        let class = ClassObservation { clos: Clos(1), llc_miss_rate: core_miss, llc_bytes: None, busy };
        Observation {
            interval: INTERVAL,
            received_pps: pps,
            pcie_write_bytes_per_s: bytes,
            ddio_write_miss_rate: io_miss,
            classes: if has_class { vec![class] } else { Vec::new() },
            ..Observation::default()
        }
    })
}

fn any_floors() -> impl Strategy<Value = Floors> {
    (0u32..3, 1u32..4, 1u32..3, 8u32..21).prop_map(|(others, core, io, ways)| Floors {
        ways,
        others,
        core,
        io,
        ..Floors::default()
    })
}

/// What comes between a decision and the next look: whether it was applied, refused, or someone set something else.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Applied,
    Refused,
    Meddled(u32),
    Unreadable,
}

fn any_fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        10 => Just(Fate::Applied),
        1 => Just(Fate::Refused),
        1 => any::<u32>().prop_map(Fate::Meddled),
        1 => Just(Fate::Unreadable),
    ]
}

fn check(allocation: &Allocation, floors: &Floors) -> Result<(), TestCaseError> {
    let io = allocation.io_ways.expect("always given");
    let mask = |classes: &[u8]| {
        allocation.classes.iter().find(|(c, _)| classes.contains(&c.0)).map(|(_, m)| *m).expect("always given")
    };
    let (core, others) = (mask(&floors.core_classes), mask(&floors.other_classes));
    for m in [io, core, others] {
        prop_assert!(m.is_contiguous() && m.0 & !Cbm::low(floors.ways).0 == 0, "{m}");
    }
    prop_assert_eq!(io.0 & core.0, 0);
    prop_assert_eq!(io.0 & others.0, 0);
    if floors.others > 0 {
        prop_assert_eq!(core.0 & others.0, 0);
        prop_assert_eq!(others.ways(), floors.others);
    }
    prop_assert!(io.ways() >= floors.io && core.ways() >= floors.core, "{io} {core}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn masks_are_contiguous_disjoint_and_above_their_floors(
        floors in any_floors(),
        kind in 0..4,
        seen in prop::collection::vec((any_observation(), any_fate()), 0..150),
    ) {
        let spec = AllocatorSpec { floors: floors.clone(), samples: 1, most_samples: 2, retry: 5, ..AllocatorSpec::default() };
        let mut policy: Box<dyn Policy> = match kind {
            0 => Box::new(Allocator::new(spec).unwrap()),
            1 => Box::new(Isolated::resq(floors.clone())),
            2 => Box::new(Thresholds::new(floors.clone(), 0.3)),
            _ => Box::new(IatLike::new(floors.clone())),
        };
        let mut in_force = Allocation { io_ways: Some(Cbm::low(2)), ..Allocation::default() };
        let mut readable = true;
        for (i, (mut seen, fate)) in seen.into_iter().enumerate() {
            seen.at = Ps(INTERVAL.0 * (i as u64 + 1));
            seen.in_force = if readable { in_force.clone() } else { Allocation::default() };
            readable = !matches!(fate, Fate::Unreadable);
            if let Some(decided) = policy.decide(&seen) {
                check(&decided, &floors)?;
                match fate {
                    Fate::Applied => in_force = decided,
                    Fate::Meddled(mask) => in_force.io_ways = Some(Cbm(mask)),
                    Fate::Refused | Fate::Unreadable => {}
                }
            }
        }
    }
}
