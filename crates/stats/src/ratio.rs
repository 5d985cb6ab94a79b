//! One sum over another with its half-width, such as loss.

use crate::batch::halve;
use crate::serial::MeanError;
use crate::student::student_quantile;

/// One sum over another, such as packets lost over packets offered, with its half-width.
///
/// The ratio estimator over dyadic batches (16 to 32, see [`BatchMeans`](crate::BatchMeans)): with
/// sums Y_i and X_i of batch i, r is the ratio of all, and its variance is that of the mean of
/// Y_i - r X_i, divided by the squared mean of X_i (Law, "Simulation Modeling and Analysis",
/// section 9.5.3, without jackknife).
#[derive(Clone, Debug)]
pub struct Ratio {
    /// Of the batch that is being filled.
    y: f64,
    x: f64,
    left: u64,
    size: u64,
    /// Of the first batches.
    least: u64,
    batches: Vec<(f64, f64)>,
}

/// A ratio with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proportion {
    /// The ratio; NaN when the denominator is 0.
    pub value: f64,
    /// The half-width; infinite while there are fewer than two batches.
    pub half_width: f64,
    /// With 95 % confidence the ratio is below this. For a share of events of which none was seen in
    /// n it is 3/n, the rule of three (Hanley and Lippman-Hand, JAMA 1983), and the half-width, which
    /// is 0 then, means nothing.
    pub upper: f64,
    /// How many batches the half-width comes from.
    pub batches: usize,
}

impl Proportion {
    /// Whether `r` lies within the half-width.
    pub fn covers(&self, r: f64) -> bool {
        (r - self.value).abs() <= self.half_width
    }

    /// The half-width as a share of the value.
    pub fn relative(&self) -> f64 {
        self.half_width / self.value.abs()
    }
}

const MOST: usize = 32;

impl Default for Ratio {
    fn default() -> Ratio {
        Ratio::new()
    }
}

impl Ratio {
    /// Of nothing.
    pub fn new() -> Ratio {
        Ratio::with_batches_of(1)
    }

    /// Of nothing, with batches of so many calls, or of twice as many as often as it takes: 1 or more.
    pub fn with_batches_of(calls: u64) -> Ratio {
        let least = calls.max(1);
        Ratio { y: 0.0, x: 0.0, left: least, size: least, least, batches: Vec::with_capacity(MOST) }
    }

    /// Of `n` offered at once, `lost` were lost. Batches hold equal numbers of calls.
    #[inline]
    pub fn record(&mut self, lost: f64, offered: f64) {
        self.y += lost;
        self.x += offered;
        self.left -= 1;
        if self.left == 0 {
            self.close();
        }
    }

    #[cold]
    #[inline(never)]
    fn close(&mut self) {
        self.batches.push((self.y, self.x));
        (self.y, self.x) = (0.0, 0.0);
        if self.batches.len() == MOST {
            halve(&mut self.batches, |a, b| (a.0 + b.0, a.1 + b.1));
            self.size *= 2;
        }
        self.left = self.size;
    }

    /// Forgets everything: warm-up is over.
    pub fn reset(&mut self) {
        *self = Ratio::with_batches_of(self.least);
    }

    /// The sums of numerator and denominator, those of the unfinished batch included.
    pub fn sums(&self) -> (f64, f64) {
        self.batches.iter().fold((self.y, self.x), |sum, batch| (sum.0 + batch.0, sum.1 + batch.1))
    }

    /// The ratios of the full batches, in order.
    pub fn batch_ratios(&self) -> Vec<f64> {
        self.batches.iter().map(|(y, x)| y / x).collect()
    }

    /// The ratio with its half-width.
    pub fn estimate(&self) -> Proportion {
        let (y, x) = self.sums();
        let r = y / x;
        let k = self.batches.len() as f64;
        let half_width = if self.batches.len() < 2 {
            f64::INFINITY
        } else {
            let beyond: Vec<f64> = self.batches.iter().map(|(y, x)| y - r * x).collect();
            let mean_x = self.batches.iter().map(|(_, x)| x).sum::<f64>() / k;
            let error = MeanError::of(&beyond);
            student_quantile(0.975, error.dof) * error.variance.sqrt() / mean_x
        };
        let upper = if y == 0.0 { 3.0 / x } else { r + half_width };
        Proportion { value: r, half_width, upper, batches: self.batches.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BatchMeans;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    #[test]
    fn a_ratio_of_counts_is_the_mean_of_indicators() {
        let (mut ratio, mut means) = (Ratio::new(), BatchMeans::new());
        let mut rng = Pcg64::seed_from_u64(1);
        for _ in 0..12_345 {
            let lost = f64::from(u8::from(rng.random::<f64>() < 0.1));
            ratio.record(lost, 1.0);
            means.record(lost);
        }
        let (ratio, mean) = (ratio.estimate(), means.estimate());
        assert!((ratio.value - mean.value).abs() < 1e-12);
        // They differ by the unfinished batch, which shifts r but not the mean of batches.
        assert!((ratio.half_width - mean.half_width).abs() < 0.01 * mean.half_width);
        assert!(ratio.covers(0.1) && (ratio.upper - ratio.value - ratio.half_width).abs() < 1e-15);
    }

    #[test]
    fn no_loss_in_n_is_below_three_over_n() {
        let mut ratio = Ratio::new();
        (0..6000).for_each(|_| ratio.record(0.0, 1.0));
        let loss = ratio.estimate();
        assert_eq!((loss.value, loss.upper), (0.0, 3.0 / 6000.0));
        // The rule of three: at this loss, no loss in n would have a probability of 5 %.
        assert!(((1.0 - loss.upper).powi(6000) - 0.05).abs() < 0.001);
    }

    #[test]
    fn nothing_offered_is_not_a_number() {
        let mut ratio = Ratio::new();
        assert!(ratio.estimate().value.is_nan() && ratio.estimate().half_width.is_infinite());
        ratio.record(1.0, 2.0);
        ratio.reset();
        assert_eq!(ratio.sums(), (0.0, 0.0));
    }

    #[test]
    fn half_width_of_dependent_sums_covers_in_95_of_100() {
        // X uniform in 1..=20, Y a binomial-like share of it: r = 0.3.
        let covered = (0..400).filter(|&seed| {
            let mut rng = Pcg64::seed_from_u64(seed);
            let mut ratio = Ratio::new();
            for _ in 0..2000 {
                let offered = rng.random_range(1..=20);
                let lost = (0..offered).filter(|_| rng.random::<f64>() < 0.3).count();
                ratio.record(lost as f64, f64::from(offered));
            }
            ratio.estimate().covers(0.3)
        });
        let covered = covered.count();
        assert!((364..=392).contains(&covered), "{covered} of 400");
    }
}
