//! Latencies in log-linear buckets.

use serde::{Deserialize, Serialize};
use units::Ps;

/// Latencies in log-linear buckets: any quantile to 0.1 %, in a few nanoseconds a value.
///
/// 512 buckets of equal width to an octave (the layout of HdrHistogram, G. Tene), exact below 1024
/// ps; the middle of a bucket is at most 1/1024 away from any value in it. Memory grows with the
/// greatest value, not with their number: 123 kB up to a millisecond, 225 kB for all of 64 bits. The
/// mean and the extremes are exact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    counts: Vec<u64>,
    n: u64,
    sum: u128,
    /// Complement of the least value, so that the default is that of nothing.
    min: u64,
    max: u64,
}

const SUB_BITS: u32 = 9;
const SUB: usize = 1 << SUB_BITS;

#[inline(always)]
fn bucket(value: u64) -> usize {
    let shift = (value | SUB as u64).ilog2() - SUB_BITS;
    shift as usize * SUB + (value >> shift) as usize
}

/// The least value of a bucket and its width.
fn span(bucket: usize) -> (u64, u64) {
    if bucket < 2 * SUB {
        return (bucket as u64, 1);
    }
    let shift = bucket / SUB - 1;
    (((SUB + bucket % SUB) as u64) << shift, 1 << shift)
}

impl Histogram {
    /// Of nothing.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// One more latency.
    #[inline]
    pub fn record(&mut self, latency: Ps) {
        let value = latency.0;
        let bucket = bucket(value);
        match self.counts.get_mut(bucket) {
            Some(count) => *count += 1,
            None => self.grow(bucket),
        }
        self.n += 1;
        self.sum += u128::from(value);
        self.min = self.min.max(!value);
        self.max = self.max.max(value);
    }

    /// Room for a whole octave more, and one in the bucket.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, bucket: usize) {
        self.counts.resize((bucket + 1).next_multiple_of(SUB), 0);
        self.counts[bucket] = 1;
    }

    /// All of `other`'s latencies.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.n += other.n;
        self.sum += other.sum;
        self.min = self.min.max(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets everything, keeps the memory.
    pub fn reset(&mut self) {
        let mut counts = std::mem::take(&mut self.counts);
        counts.fill(0);
        *self = Histogram { counts, ..Histogram::default() };
    }

    /// How many latencies.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Their sum, in picoseconds.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Their mean in picoseconds, NaN of none.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.n as f64
    }

    /// The least, `None` of none.
    pub fn min(&self) -> Option<Ps> {
        (self.n > 0).then_some(Ps(!self.min))
    }

    /// The greatest, `None` of none.
    pub fn max(&self) -> Option<Ps> {
        (self.n > 0).then_some(Ps(self.max))
    }

    /// The least latency that a share `q` of all do not exceed, within 0.1 %; `None` of none.
    ///
    /// `q` below 0 counts as 0 and gives the least latency, above 1 as 1 and gives the greatest.
    pub fn quantile(&self, q: f64) -> Option<Ps> {
        if self.n == 0 {
            return None;
        }
        let rank = ((q * self.n as f64).ceil() as u64).clamp(1, self.n);
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                let (low, width) = span(bucket);
                return Some(Ps((low + width / 2).clamp(!self.min, self.max)));
            }
        }
        Some(Ps(self.max))
    }

    /// How many latencies do not exceed `latency`, within the bucket it lies in.
    pub fn at_most(&self, latency: Ps) -> u64 {
        self.counts.iter().take(bucket(latency.0) + 1).sum()
    }

    /// The buckets that hold something, as (greatest value, count), in order: the steps of a CDF.
    pub fn buckets(&self) -> impl Iterator<Item = (Ps, u64)> + '_ {
        self.counts.iter().enumerate().filter(|&(_, &count)| count > 0).map(|(bucket, &count)| {
            let (low, width) = span(bucket);
            (Ps(low + (width - 1)), count)
        })
    }

    /// Sums over `16` buckets each, from the least up.
    pub(crate) fn coarse(&self) -> impl Iterator<Item = u64> + '_ {
        self.counts.chunks(COARSE).map(|counts| counts.iter().sum())
    }
}

/// Buckets to a coarse one.
const COARSE: usize = 16;

/// The coarse bucket of a latency, and how far into it, from 0 to 1, the latency lies.
pub(crate) fn coarse_position(latency: Ps) -> (usize, f64) {
    let coarse = bucket(latency.0) / COARSE;
    let (low, _) = span(coarse * COARSE);
    let (last, width) = span(coarse * COARSE + COARSE - 1);
    (coarse, (latency.0 - low) as f64 / ((last - low) as f64 + width as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        let mut expected = 0u128;
        for b in 0..bucket(u64::MAX) + 1 {
            let (low, width) = span(b);
            assert_eq!(u128::from(low), expected);
            assert_eq!((bucket(low), bucket(low + (width - 1))), (b, b));
            assert!(width == 1 || width as f64 / 2.0 <= low as f64 / 1024.0);
            expected = u128::from(low) + u128::from(width);
        }
        assert_eq!(expected, 1 << 64);
    }

    proptest! {
        #[test]
        fn quantiles_match_naive(
            xs in prop::collection::vec((0u32..64, any::<u64>()).prop_map(|(shift, x)| x >> shift), 1..400),
            q in 0.0f64..=1.0,
            cut in 0usize..400,
        ) {
            let (left, right) = xs.split_at(cut.min(xs.len()));
            let mut histogram = Histogram::new();
            left.iter().for_each(|&x| histogram.record(Ps(x)));
            let mut other = Histogram::new();
            right.iter().for_each(|&x| other.record(Ps(x)));
            histogram.merge(&other);
            let mut sorted = xs.clone();
            sorted.sort_unstable();
            let rank = ((q * xs.len() as f64).ceil() as usize).clamp(1, xs.len());
            let exact = sorted[rank - 1];
            let got = histogram.quantile(q).unwrap().0;
            prop_assert!(got.abs_diff(exact) as f64 <= exact as f64 * 0.001, "{got} for {exact}");
            prop_assert_eq!(histogram.sum(), xs.iter().map(|&x| u128::from(x)).sum::<u128>());
            prop_assert_eq!(histogram.min(), sorted.first().map(|&x| Ps(x)));
            prop_assert_eq!(histogram.max(), sorted.last().map(|&x| Ps(x)));
            prop_assert_eq!(histogram.buckets().map(|(_, n)| n).sum::<u64>(), histogram.n());
            prop_assert!(histogram.at_most(Ps(exact)) >= rank as u64);
            prop_assert_eq!(histogram.coarse().sum::<u64>(), histogram.n());
            let mut all = Histogram::new();
            xs.iter().for_each(|&x| all.record(Ps(x)));
            prop_assert_eq!(all, histogram);
        }

        #[test]
        fn a_coarse_position_lies_in_its_bucket(x in any::<u64>(), shift in 0u32..64) {
            let (coarse, share) = coarse_position(Ps(x >> shift));
            prop_assert_eq!(coarse, bucket(x >> shift) / COARSE);
            prop_assert!((0.0..=1.0).contains(&share));
        }
    }

    #[test]
    fn nothing_has_no_quantiles() {
        let mut histogram = Histogram::new();
        assert_eq!((histogram.quantile(0.5), histogram.min(), histogram.max()), (None, None, None));
        histogram.record(Ps(77));
        histogram.reset();
        assert_eq!((histogram.quantile(0.5), histogram.n(), histogram.at_most(Ps::MAX)), (None, 0, 0));
    }
}
