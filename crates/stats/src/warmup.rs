//! Where warm-up ends, and whether a trend is left.

use crate::compare::{Comparison, halves};
use crate::error::StatsError;
use crate::serial::SerialCorrelation;

/// How much of a sequence to leave out as warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Observations to leave out at the start.
    pub drop: usize,
    /// Whether the cut lies in the first half. If not, the run is too short to tell warm-up from the
    /// rest.
    pub reliable: bool,
}

/// Where warm-up ends: the marginal standard error rule on means of 5 observations, MSER-5 (White,
/// "An effective truncation heuristic for bias reduction in simulation output", Simulation 1997;
/// White, Cobb and Spratt, WSC 2000).
///
/// Of n means the first d are dropped for which the squared standard error of the rest,
/// sum (Y_i - mean)^2 / (n - d)^2, is least. The last 5 means are never the cut: too few are left to
/// judge by (Hoad, Robinson and Davies, JORS 2010). `None` of fewer than 10 means.
pub fn mser5(observations: &[f64]) -> Option<Truncation> {
    const GROUP: usize = 5;
    const KEPT: usize = 5;
    let means: Vec<f64> = observations.chunks_exact(GROUP).map(|c| c.iter().sum::<f64>() / GROUP as f64).collect();
    if means.len() < 2 * KEPT {
        return None;
    }
    // From the end, so that each d adds one mean to those that are kept (Welford).
    let (mut kept, mut mean, mut squares) = (0.0, 0.0, 0.0);
    let (mut best, mut drop) = (f64::INFINITY, 0);
    for (d, y) in means.iter().enumerate().rev() {
        kept += 1.0;
        let delta = y - mean;
        mean += delta / kept;
        squares += delta * (y - mean);
        let error = squares / (kept * kept);
        // Of equal ones the earliest cut: nothing is dropped without a gain.
        if means.len() - d > KEPT && error <= best {
            (best, drop) = (error, d);
        }
    }
    Some(Truncation { drop: drop * GROUP, reliable: drop <= means.len() / 2 })
}

/// Whether the second half of a sequence of batch means differs from the first: `difference` is
/// second minus first. A significant one says that the run has a trend: warm-up is not over, or the
/// load is more than can be carried.
///
/// A busy queue wanders, and the halves of a run that is short beside that differ by chance. So the error is that of the second half,
/// enlarged by the correlation of what is left there beside a line. The first half, where a transient would be, has no say in it.
///
/// # Errors
/// [`StatsError::TooFew`] of fewer than four batches.
pub fn stationarity(means: &[f64]) -> Result<Comparison, StatsError> {
    let (first, second) = means.split_at(means.len() / 2);
    halves(first, second, SerialCorrelation::of_deviations(&beside_a_line(second), 2.0, FEWEST_OF_A_HALF))
}

/// Batch means of a half, at least, for their correlation to be judged.
const FEWEST_OF_A_HALF: usize = 8;

/// What is left of `values` beside the line that fits them best.
fn beside_a_line(values: &[f64]) -> Vec<f64> {
    let n = values.len() as f64;
    let (mean, middle) = (values.iter().sum::<f64>() / n, (n - 1.0) / 2.0);
    let at = |i: usize| i as f64 - middle;
    let along: f64 = values.iter().enumerate().map(|(i, y)| at(i) * y).sum();
    let slope = along / (0..values.len()).map(|i| at(i) * at(i)).sum::<f64>().max(f64::MIN_POSITIVE);
    values.iter().enumerate().map(|(i, y)| y - mean - slope * at(i)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serial::tests::wandering;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    fn noise(seed: u64, n: usize) -> Vec<f64> {
        let mut rng = Pcg64::seed_from_u64(seed);
        (0..n).map(|_| rng.random::<f64>() - 0.5).collect()
    }

    #[test]
    fn a_transient_is_cut_where_it_ends() {
        // 10 exp(-i/40): below the noise after about 4 time constants.
        let mut cuts = Vec::new();
        for seed in 0..50 {
            let with_transient = noise(seed, 2000).into_iter().enumerate();
            let xs: Vec<f64> = with_transient.map(|(i, x)| x + 10.0 * (-(i as f64) / 40.0).exp()).collect();
            let cut = mser5(&xs).unwrap();
            assert!(cut.reliable && (80..1000).contains(&cut.drop), "{cut:?}");
            cuts.push(cut.drop);
        }
        cuts.sort_unstable();
        assert!((100..350).contains(&cuts[25]), "median {}", cuts[25]);
    }

    #[test]
    fn mser5_matches_naive() {
        for seed in 0..50 {
            let xs = noise(seed, 303);
            let means: Vec<f64> = xs.chunks_exact(5).map(|c| c.iter().sum::<f64>() / 5.0).collect();
            let error = |d: usize| {
                let kept = &means[d..];
                let mean = kept.iter().sum::<f64>() / kept.len() as f64;
                kept.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / (kept.len() as f64).powi(2)
            };
            let best = (0..means.len() - 5).min_by(|&a, &b| error(a).total_cmp(&error(b))).unwrap();
            assert_eq!(mser5(&xs).unwrap(), Truncation { drop: 5 * best, reliable: best <= means.len() / 2 });
        }
    }

    #[test]
    fn constant_sequences_are_kept_and_trends_are_not_reliable() {
        assert_eq!(mser5(&[3.0; 100]), Some(Truncation { drop: 0, reliable: true }));
        assert_eq!(mser5(&[3.0; 49]), None);
        let trend: Vec<f64> = (0..500).map(f64::from).collect();
        assert!(!mser5(&trend).unwrap().reliable);
    }

    #[test]
    fn a_cut_at_one_half_is_reliable_and_the_next_one_is_not() {
        // 20 means: a step behind the first `high`, and then nothing: the cut is where the step is.
        let step = |high: usize| (0..100).map(|i| if i < 5 * high { 9.0 } else { 1.0 }).collect::<Vec<f64>>();
        assert_eq!(mser5(&step(10)), Some(Truncation { drop: 50, reliable: true }));
        assert_eq!(mser5(&step(11)), Some(Truncation { drop: 55, reliable: false }));
    }

    #[test]
    fn a_trend_is_not_stationary_and_noise_is() {
        let trend: Vec<f64> = noise(1, 32).iter().enumerate().map(|(i, x)| x + 0.1 * i as f64).collect();
        let drift = stationarity(&trend).unwrap();
        assert!(drift.is_significant() && drift.difference > 1.0);
        let false_alarms = (0..200).filter(|&seed| stationarity(&noise(seed, 32)).unwrap().is_significant()).count();
        assert!((2..=20).contains(&false_alarms), "{false_alarms} of 200");
        // And of sequences that wander, however often they forget while they last: 84 of 200 at twelve times, were their batches
        // taken to be independent.
        for length in [2.0, 4.0, 8.0, 12.0, 25.0, 100.0] {
            let alarms = (0..200).filter(|&seed| stationarity(&wandering(length, 31, seed)).unwrap().is_significant());
            let alarms = alarms.count();
            assert!((2..=36).contains(&alarms), "{alarms} of 200 at {length}");
        }
        // A transient of the first quarter, or one that decays through the first half, is seen, the surer the larger.
        for (height, least) in [(4.0, 110), (8.0, 180), (100.0, 199)] {
            let steps: [&dyn Fn(f64) -> f64; 2] = [&|u| f64::from(u8::from(u >= 0.25)), &|u| 1.0 - (-8.0 * u).exp()];
            for step in steps {
                let seen = (0..200).filter(|&seed| {
                    let at = |(i, x): (usize, f64)| 3.46 * x + height * step(i as f64 / 31.0);
                    let means: Vec<f64> = noise(seed, 31).into_iter().enumerate().map(at).collect();
                    stationarity(&means).unwrap().is_significant()
                });
                let seen = seen.count();
                assert!(seen >= least, "{seen} of 200 of a height of {height}");
            }
        }
        assert_eq!(stationarity(&[1.0, 2.0, 3.0]), Err(StatsError::TooFew { a: 1, b: 2 }));
    }
}
