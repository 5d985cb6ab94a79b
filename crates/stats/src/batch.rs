//! Batch means: the mean of a correlated sequence with its half-width.

use crate::serial::MeanError;
use crate::student::student_quantile;

/// A mean with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean of all observations, in the unit they had; NaN of none.
    pub value: f64,
    /// With 95 % confidence the true mean lies this near to `value`; infinite while there are fewer
    /// than two batches.
    pub half_width: f64,
    /// How many batches the half-width comes from.
    pub batches: usize,
    /// Correlation of each batch mean with the next, as found. The half-width allows for up to 0.54 of 16
    /// batches and 0.67 of 32, and of fewer than 16 for none. Beyond, the run is too short to tell how far
    /// its mean may be off.
    pub lag1: f64,
}

impl Estimate {
    /// The interval of `means`, in their order, around `value`.
    pub(crate) fn of_batches(value: f64, means: &[f64]) -> Estimate {
        let k = means.len() as f64;
        let centre = means.iter().sum::<f64>() / k;
        let squares: f64 = means.iter().map(|m| (m - centre).powi(2)).sum();
        let products: f64 = means.windows(2).map(|w| (w[0] - centre) * (w[1] - centre)).sum();
        let half_width = if means.len() < 2 {
            f64::INFINITY
        } else {
            let error = MeanError::of(means);
            student_quantile(0.975, error.dof) * error.variance.sqrt()
        };
        let lag1 = if squares > 0.0 { products / squares } else { 0.0 };
        Estimate { value, half_width, batches: means.len(), lag1 }
    }

    /// The half-width as a share of the value.
    pub fn relative(&self) -> f64 {
        self.half_width / self.value.abs()
    }

    /// Whether `x` lies in the interval.
    pub fn covers(&self, x: f64) -> bool {
        (x - self.value).abs() <= self.half_width
    }
}

/// The mean of a correlated sequence with its half-width, in fixed memory.
///
/// Non-overlapping batch means (Schmeiser, Operations Research 1982): the means of long enough
/// batches are nearly independent, and Student's t over them gives the half-width. What correlation is
/// left between them widens it (Tafazzoli and Wilson, IIE Transactions 2011). The batches are
/// dyadic: when 32 are full, neighbours are merged to 16 of twice the size, so that between 16 and
/// 32 batches cover the whole run, however long it is. 10 to 30 is what Schmeiser recommends: more
/// narrow the interval little and make batches too short.
///
/// ```
/// use stats::BatchMeans;
///
/// let mut sojourn = BatchMeans::new();
/// (0..100_000).for_each(|i| sojourn.record(f64::from(i * 7919 % 1000)));
/// let mean = sojourn.estimate();
/// assert!((mean.value - 499.5).abs() < 1e-6 && (16..=32).contains(&mean.batches));
/// ```
#[derive(Clone, Debug)]
pub struct BatchMeans {
    /// Of the batch that is being filled.
    sum: f64,
    /// Observations it still takes.
    left: u64,
    /// Observations in a batch.
    size: u64,
    /// Of the first batches.
    least: u64,
    means: Vec<f64>,
    most: usize,
}

const MOST: usize = 32;

impl Default for BatchMeans {
    fn default() -> BatchMeans {
        BatchMeans::new()
    }
}

impl BatchMeans {
    /// With 16 to 32 batches.
    pub fn new() -> BatchMeans {
        BatchMeans::with_batches(MOST)
    }

    /// With at most `most` batches, rounded up to an even number of at least 4. Many batches are for
    /// looking at a sequence (warm-up), few for half-widths.
    pub fn with_batches(most: usize) -> BatchMeans {
        let most = most.max(4).next_multiple_of(2);
        BatchMeans { sum: 0.0, left: 1, size: 1, least: 1, means: Vec::with_capacity(most), most }
    }

    /// With 16 to 32 batches of so many observations, or of twice as many as often as it takes: 1 or more.
    pub fn with_batches_of(observations: u64) -> BatchMeans {
        let least = observations.max(1);
        BatchMeans { left: least, size: least, least, ..BatchMeans::new() }
    }

    /// One more observation.
    #[inline]
    pub fn record(&mut self, x: f64) {
        self.sum += x;
        self.left -= 1;
        if self.left == 0 {
            self.close();
        }
    }

    #[cold]
    #[inline(never)]
    fn close(&mut self) {
        self.means.push(self.sum / self.size as f64);
        self.sum = 0.0;
        if self.means.len() == self.most {
            halve(&mut self.means, |a, b| 0.5 * (a + b));
            self.size *= 2;
        }
        self.left = self.size;
    }

    /// Forgets everything: warm-up is over.
    pub fn reset(&mut self) {
        let (least, most) = (self.least, self.most);
        let mut means = std::mem::take(&mut self.means);
        means.clear();
        *self = BatchMeans { sum: 0.0, left: least, size: least, least, means, most };
    }

    /// How many observations.
    pub fn n(&self) -> u64 {
        self.means.len() as u64 * self.size + (self.size - self.left)
    }

    /// Observations in a full batch.
    pub fn batch_size(&self) -> u64 {
        self.size
    }

    /// The means of the full batches, in order.
    pub fn batch_means(&self) -> &[f64] {
        &self.means
    }

    /// The mean of all observations, those of the unfinished batch included; NaN of none.
    pub fn mean(&self) -> f64 {
        (self.means.iter().sum::<f64>() * self.size as f64 + self.sum) / self.n() as f64
    }

    /// The mean with its half-width.
    pub fn estimate(&self) -> Estimate {
        Estimate::of_batches(self.mean(), &self.means)
    }
}

/// Merges neighbours: half as many batches of twice the size. An odd one at the end is left out.
pub(crate) fn halve<T: Copy>(batches: &mut Vec<T>, merge: impl Fn(T, T) -> T) {
    let half = batches.len() / 2;
    for i in 0..half {
        batches[i] = merge(batches[2 * i], batches[2 * i + 1]);
    }
    batches.truncate(half);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn batch_means_match_naive(xs in prop::collection::vec(-1e3f64..1e3, 0..3000)) {
            let mut batches = BatchMeans::new();
            xs.iter().for_each(|&x| batches.record(x));
            let size = batches.batch_size() as usize;
            let naive: Vec<f64> = xs.chunks_exact(size).map(|c| c.iter().sum::<f64>() / size as f64).collect();
            prop_assert!(size.is_power_of_two() && naive.len() < MOST);
            prop_assert!(size == 1 || naive.len() >= MOST / 2);
            prop_assert_eq!(batches.n() as usize, xs.len());
            prop_assert_eq!(batches.batch_means().len(), naive.len());
            for (got, want) in batches.batch_means().iter().zip(&naive) {
                prop_assert!((got - want).abs() < 1e-9);
            }
            let mean = xs.iter().sum::<f64>() / xs.len() as f64;
            prop_assert!((batches.mean() - mean).abs() < 1e-9 || xs.is_empty());
        }
    }

    #[test]
    fn half_width_is_that_of_a_worked_example() {
        // Four batches 1, 2, 3, 6: mean 3, s^2 = 14/3, t(0.975, 3) = 3.182446.
        let estimate = Estimate::of_batches(3.0, &[1.0, 2.0, 3.0, 6.0]);
        assert!((estimate.half_width - 3.182_446_305 * (14.0f64 / 12.0).sqrt()).abs() < 1e-8);
        assert!((estimate.lag1 - 2.0 / 14.0).abs() < 1e-12);
        assert!(estimate.covers(6.0) && !estimate.covers(6.5));
    }

    #[test]
    fn nothing_and_one_batch_have_no_half_width() {
        let mut batches = BatchMeans::new();
        assert!(batches.mean().is_nan() && batches.estimate().half_width.is_infinite());
        batches.record(5.0);
        assert_eq!(batches.estimate(), Estimate { value: 5.0, half_width: f64::INFINITY, batches: 1, lag1: 0.0 });
    }

    #[test]
    fn two_batches_have_a_half_width() {
        // 1 and 3: mean 2, s^2 = 2, t(0.975, 1) = 12.706205.
        let estimate = Estimate::of_batches(2.0, &[1.0, 3.0]);
        assert!((estimate.half_width - 12.706_204_736).abs() < 1e-6, "{estimate:?}");
        assert_eq!(estimate.batches, 2);
    }

    #[test]
    fn reset_forgets_everything() {
        let mut batches = BatchMeans::new();
        (0..1000).for_each(|i| batches.record(f64::from(i)));
        batches.reset();
        assert_eq!((batches.n(), batches.batch_size()), (0, 1));
        (0..7).for_each(|_| batches.record(2.0));
        assert_eq!((batches.mean(), batches.estimate().half_width), (2.0, 0.0));
    }
}
