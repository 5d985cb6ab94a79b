//! Latencies of a correlated sequence: mean and quantiles, each with its half-width.

use units::Ps;

use crate::batch::Estimate;
use crate::histogram::{Histogram, coarse_position};
use crate::student::student_quantile;

/// Latencies of a correlated sequence of packets: mean and quantiles, each with its half-width.
///
/// Batches are dyadic, as those of [`BatchMeans`](crate::BatchMeans), of at least 256 latencies.
/// The half-width of a quantile comes from inverting that of the distribution function (Woodruff,
/// JASA 1952; with batches Heidelberger and Lewis, Operations Research 1984): if x is the estimate
/// of the q-quantile, the shares of each batch that do not exceed x vary around q with a half-width
/// h, and the interval reaches from the (q - h)- to the (q + h)-quantile of all latencies. Batch
/// quantiles would need batches long enough to hold the tail: the p999 of 500 packets is their
/// maximum. h is never taken to be smaller than that of independent latencies.
///
/// A batch leaves a sum and the counts of 32 coarse buckets to an octave, which cost nothing while
/// latencies are recorded: up to 0.3 MB for latencies up to a millisecond.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram,
    left: u64,
    size: u64,
    /// Of the first batches.
    least: u64,
    /// The state after each full batch. Merging neighbours drops every other one.
    marks: Vec<BatchMark>,
}

/// What had been recorded by the end of a batch.
#[derive(Clone, Debug)]
struct BatchMark {
    sum: u128,
    /// Latencies in each coarse bucket.
    coarse: Vec<u64>,
}

/// A quantile with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantile {
    /// The estimate, within 0.1 %.
    pub value: Ps,
    /// The interval's lower end.
    pub low: Ps,
    /// The interval's upper end; `None` when there are too few latencies to bound it.
    pub high: Option<Ps>,
    /// How many batches the interval comes from.
    pub batches: usize,
}

impl Quantile {
    /// The distance in picoseconds from the value to the farther end of the interval; infinite when
    /// that end is not known.
    pub fn half_width(&self) -> f64 {
        match self.high {
            Some(high) => high.since(self.value).0.max(self.value.since(self.low).0) as f64,
            None => f64::INFINITY,
        }
    }

    /// Whether `x` lies in the interval.
    pub fn covers(&self, x: Ps) -> bool {
        self.low <= x && self.high.is_none_or(|high| x <= high)
    }
}

const MOST: usize = 32;
const LEAST_SIZE: u64 = 256;

impl Default for Latency {
    fn default() -> Latency {
        Latency::new()
    }
}

impl Latency {
    /// Of nothing.
    pub fn new() -> Latency {
        Latency::with_batches_of(LEAST_SIZE)
    }

    /// Of nothing, with batches of `latencies` latencies, or of twice as many as often as it takes: 1 or more.
    pub fn with_batches_of(latencies: u64) -> Latency {
        let least = latencies.max(1);
        Latency { histogram: Histogram::new(), left: least, size: least, least, marks: Vec::with_capacity(MOST) }
    }

    /// One more latency.
    #[inline]
    pub fn record(&mut self, latency: Ps) {
        self.histogram.record(latency);
        self.left -= 1;
        if self.left == 0 {
            self.close();
        }
    }

    #[cold]
    #[inline(never)]
    fn close(&mut self) {
        self.marks.push(BatchMark { sum: self.histogram.sum(), coarse: self.histogram.coarse().collect() });
        if self.marks.len() == MOST {
            // The odd marks end the batches of twice the size.
            let mut odd = false;
            self.marks.retain(|_| {
                odd = !odd;
                !odd
            });
            self.size *= 2;
        }
        self.left = self.size;
    }

    /// Forgets everything: warm-up is over.
    pub fn reset(&mut self) {
        self.histogram.reset();
        self.marks.clear();
        self.size = self.least;
        self.left = self.least;
    }

    /// All latencies so far.
    pub fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// How many latencies.
    pub fn n(&self) -> u64 {
        self.histogram.n()
    }

    /// The means of the full batches in picoseconds, in order.
    pub fn batch_means(&self) -> Vec<f64> {
        let mut before = 0;
        let mean = |mark: &BatchMark| {
            let sum = mark.sum - std::mem::replace(&mut before, mark.sum);
            sum as f64 / self.size as f64
        };
        self.marks.iter().map(mean).collect()
    }

    /// The mean in picoseconds with its half-width.
    pub fn mean(&self) -> Estimate {
        Estimate::of_batches(self.histogram.mean(), &self.batch_means())
    }

    /// The `q`-quantile with its interval; `None` of nothing.
    pub fn quantile(&self, q: f64) -> Option<Quantile> {
        let value = self.histogram.quantile(q)?;
        let batches = self.marks.len();
        let h = self.share_half_width(q, value);
        let low = self.histogram.quantile((q - h).max(0.0))?;
        let high = if q + h < 1.0 { self.histogram.quantile(q + h) } else { None };
        Some(Quantile { value, low, high, batches })
    }

    /// The half-width of the share of latencies that do not exceed `value`, the `q`-quantile.
    fn share_half_width(&self, q: f64, value: Ps) -> f64 {
        let (coarse, share) = coarse_position(value);
        let mut before = 0.0;
        let shares = self.marks.iter().map(|mark| {
            let full: u64 = mark.coarse.iter().take(coarse).sum();
            let part = mark.coarse.get(coarse).copied().unwrap_or(0) as f64 * share;
            let upto = full as f64 + part;
            (upto - std::mem::replace(&mut before, upto)) / self.size as f64
        });
        let shares: Vec<f64> = shares.collect();
        let independent = student_quantile(0.975, (shares.len() as f64 - 1.0).max(1.0))
            * (q * (1.0 - q) / self.histogram.n() as f64).sqrt();
        Estimate::of_batches(q, &shares).half_width.max(independent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_distr::{Distribution, Exp1, StandardNormal};
    use rand_pcg::Pcg64;

    proptest! {
        #[test]
        fn batches_match_naive(xs in prop::collection::vec(0u64..1_000_000, 0..20_000)) {
            let mut latency = Latency::new();
            xs.iter().for_each(|&x| latency.record(Ps(x)));
            let size = latency.size as usize;
            let naive: Vec<f64> =
                xs.chunks_exact(size).map(|c| c.iter().sum::<u64>() as f64 / size as f64).collect();
            prop_assert_eq!(latency.batch_means(), naive);
            prop_assert!(latency.marks.len() < MOST);
        }
    }

    /// How many of 200 intervals cover the true quantile, for each quantile.
    fn coverage(quantiles: &[(f64, f64)], mut sample: impl FnMut(&mut Pcg64) -> f64, n: usize) -> Vec<usize> {
        let mut covered = vec![0; quantiles.len()];
        for seed in 0..200 {
            let mut rng = Pcg64::seed_from_u64(seed);
            let mut latency = Latency::new();
            (0..n).for_each(|_| latency.record(Ps((sample(&mut rng) * 1e6) as u64)));
            for (covered, &(q, x)) in covered.iter_mut().zip(quantiles) {
                *covered += usize::from(latency.quantile(q).is_some_and(|i| i.covers(Ps((x * 1e6) as u64))));
            }
        }
        covered
    }

    #[test]
    fn intervals_of_independent_latencies_cover_their_quantiles() {
        let exponential = |q: f64| (q, -(1.0 - q).ln());
        let covered = coverage(&[0.5, 0.99, 0.999].map(exponential), |rng| Exp1.sample(rng), 20_000);
        for covered in covered {
            assert!((182..=198).contains(&covered), "{covered} of 200");
        }
    }

    #[test]
    fn intervals_of_correlated_latencies_cover_their_quantiles() {
        // exp of an AR(1) sequence with coefficient 0.95: the exact quantiles are those of exp(z).
        let mut z = 0.0;
        let sample = |rng: &mut Pcg64| {
            let step: f64 = StandardNormal.sample(rng);
            z = 0.95 * z + (1.0f64 - 0.95 * 0.95).sqrt() * step;
            f64::exp(z)
        };
        let quantiles = [(0.5, 1.0), (0.99, 2.326_347_874f64.exp()), (0.999, 3.090_232_306f64.exp())];
        for covered in coverage(&quantiles, sample, 40_000) {
            assert!((182..=198).contains(&covered), "{covered} of 200");
        }
    }

    #[test]
    fn a_tail_that_was_not_seen_has_no_upper_bound() {
        let mut latency = Latency::new();
        (0..600).for_each(|i| latency.record(Ps(i)));
        let p999 = latency.quantile(0.999).unwrap();
        assert_eq!((p999.high, p999.half_width()), (None, f64::INFINITY));
        assert!(p999.covers(Ps::MAX));
    }

    #[test]
    fn batches_have_256_latencies_at_least_and_again_after_a_reset() {
        let mut latency = Latency::new();
        for _ in 0..2 {
            for i in 0..255 {
                latency.record(Ps(i));
                assert_eq!(latency.batch_means().len(), 0, "{i}");
            }
            latency.record(Ps(255));
            assert_eq!(latency.batch_means(), [127.5]);
            // Long enough that batches are merged, twice.
            (256..256 * 65).for_each(|i| latency.record(Ps(i)));
            assert!(latency.size >= 4 * 256 && latency.batch_means().len() < MOST);
            latency.reset();
        }
    }

    #[test]
    fn a_constant_latency_is_known_exactly() {
        let mut latency = Latency::new();
        (0..10_000).for_each(|_| latency.record(Ps(123_457)));
        let p50 = latency.quantile(0.5).unwrap();
        assert_eq!((p50.value, p50.low, p50.high), (Ps(123_457), Ps(123_457), Some(Ps(123_457))));
        assert_eq!((latency.mean().value, latency.mean().half_width), (123_457.0, 0.0));
        latency.reset();
        assert_eq!((latency.quantile(0.5), latency.n()), (None, 0));
    }
}
