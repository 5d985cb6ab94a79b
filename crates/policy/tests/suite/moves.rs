//! The allocator over schedules in which the best ways vary, under loads that burst and wander.

use crate::plant::{Chance, MOST_IO};
use crate::varied::{INTERVALS, LEAST_AT_STAKE, LoadShape, loads, schedule};

#[test]
fn ways_matter_in_each_schedule_by_3_percent_at_least() {
    for seed in 0..6 {
        let (stretches, at_stake) = schedule(seed);
        assert!(at_stake >= LEAST_AT_STAKE, "seed {seed}: {at_stake}");
        assert_eq!(stretches.iter().map(|s| s.loads.len()).sum::<usize>(), INTERVALS);
        let best = |s: &crate::varied::VariedStretch| {
            let score = |io: u32| s.surface.response(io.into(), f64::INFINITY).efficiency;
            (1..=MOST_IO).max_by(|a, b| score(*a).total_cmp(&score(*b))).unwrap()
        };
        let ways: Vec<u32> = stretches.iter().map(best).collect();
        assert!(ways.iter().any(|w| *w != ways[0]), "seed {seed}: {ways:?}");
    }
}

#[test]
fn loads_burst_and_wander_about_their_mean() {
    let of = |shape| loads(shape, 1.0, 4000, &mut Chance(5));
    let range = |loads: &[f64]| loads.iter().fold((f64::MAX, 0.0f64), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
    assert!(of(LoadShape::Constant).iter().all(|x| *x == 1.0));
    let (lo, hi) = range(&of(LoadShape::Wanders));
    assert!((0.75..0.8).contains(&lo) && (1.2..=1.25).contains(&hi), "{lo} to {hi}");
    let bursts = of(LoadShape::Bursts);
    assert!(bursts.iter().all(|x| (0.2..0.8).contains(x) || (1.1..1.8).contains(x)));
    let switches = bursts.windows(2).filter(|w| w[0] != w[1]).count();
    assert!((250..600).contains(&switches), "{switches}");
}
