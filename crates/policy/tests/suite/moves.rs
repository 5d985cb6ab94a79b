//! The allocator over schedules in which the best ways vary, under loads that burst and wander.

use crate::plant::{Chance, MOST_IO};
use crate::varied::{INTERVALS, LEAST_AT_STAKE, LoadShape, at_rest, loads, schedule, studies};

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

#[test]
fn it_misses_less_than_1_percent_where_ways_matter_and_each_fixed_mask_2_at_least() {
    // Not the seeds that it was tuned on.
    let (ours, others) = studies(2000..2012);
    ours.print();
    others.iter().for_each(|o| o.print());
    assert!(ours.mean() < 0.012, "{}: twelve schedules, whose mean has a standard error of 0.1 %", ours.mean());
    assert!(others.iter().all(|o| o.mean() > ours.mean() + 0.01), "a fixed mask, or another policy, comes near");
}

#[test]
fn it_rests_whatever_the_load_does() {
    let changes: Vec<[usize; 3]> = (2000..2010).map(|seed| at_rest(seed, 200).map(|(changes, _)| changes)).collect();
    for (i, name) in ["constant", "bursts", "wanders"].iter().enumerate() {
        let all: usize = changes.iter().map(|each| each[i]).sum();
        assert!(all * 200 <= changes.len() * INTERVALS, "{name}: {changes:?}");
    }
}
