//! Zipf's law fitted to counts: `p(k) ~ k^-s` over the ranks that were seen.
//!
//! Maximum likelihood over ranks: `s` is where the mean of `ln k` over the packets equals that of
//! the law (the likelihood of Clauset, Shalizi, Newman, SIAM Review 51(4), 2009, section 2, with a
//! finite number of ranks). Ranks are by count, so that `s` of a short capture is a little high.
//! The goodness is the Kolmogorov-Smirnov distance between the shares of the first `k` ranks,
//! measured and fitted: 0 is perfect, above 0.1 the law is a poor description.

use serde::Serialize;

/// The steepest law that is fitted.
const STEEPEST: f64 = 20.0;
const BISECTIONS: usize = 40;

/// Zipf's law as it fits best.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PopularityFit {
    /// The exponent.
    pub zipf: f64,
    /// The Kolmogorov-Smirnov distance over ranks.
    pub ks: f64,
    /// Ranks it was fitted over.
    pub ranks: u64,
    /// The share of the most popular one.
    pub top_share: f64,
    /// The share of the most popular tenth, at least one.
    pub top_tenth_share: f64,
}

impl PopularityFit {
    /// Of counts in any order; [`None`] with less than two of them.
    pub(super) fn of(mut counts: Vec<u64>) -> Option<PopularityFit> {
        if counts.len() < 2 {
            return None;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let logs: Vec<f64> = (1..=counts.len()).map(|k| (k as f64).ln()).collect();
        let total: f64 = counts.iter().map(|&c| c as f64).sum();
        let measured = counts.iter().zip(&logs).map(|(&c, l)| c as f64 * l).sum::<f64>() / total;
        // The law's mean of ln k falls as s grows.
        let (mut low, mut high) = (0.0, STEEPEST);
        for _ in 0..BISECTIONS {
            let middle = (low + high) / 2.0;
            let (norm, sum) = logs.iter().fold((0.0, 0.0), |(norm, sum), l| {
                let p = (-middle * l).exp();
                (norm + p, sum + p * l)
            });
            if sum / norm > measured { low = middle } else { high = middle }
        }
        let zipf = (low + high) / 2.0;
        let norm: f64 = logs.iter().map(|l| (-zipf * l).exp()).sum();
        let (mut seen, mut law, mut ks) = (0.0, 0.0, 0f64);
        for (&count, log) in counts.iter().zip(&logs) {
            seen += count as f64 / total;
            law += (-zipf * log).exp() / norm;
            ks = ks.max((seen - law).abs());
        }
        let share = |n: usize| counts[..n].iter().map(|&c| c as f64).sum::<f64>() / total;
        Some(PopularityFit {
            zipf,
            ks,
            ranks: counts.len() as u64,
            top_share: share(1),
            top_tenth_share: share(counts.len().div_ceil(10)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_counts_of_a_law_give_its_exponent() {
        for s in [0.0, 0.5, 1.0, 1.7] {
            let counts: Vec<u64> = (1..=1000).map(|k| (1e12 * (k as f64).powf(-s)) as u64).collect();
            let fit = PopularityFit::of(counts).unwrap();
            assert!((fit.zipf - s).abs() < 1e-6 && fit.ks < 1e-6, "{s}: {fit:?}");
        }
    }

    #[test]
    fn what_is_no_zipf_law_fits_badly() {
        let counts = [vec![100_000; 100], vec![1; 100_000]].concat();
        assert!(PopularityFit::of(counts).unwrap().ks > 0.1);
        assert_eq!(PopularityFit::of(vec![7]), None);
    }
}
