//! Count, mean, variance and extremes in one pass.

/// Count, mean, variance and extremes of independent observations, in one pass (Welford,
/// Technometrics 1962), mergeable (Chan, Golub and LeVeque, COMPSTAT 1982).
///
/// For a correlated sequence the variance is that of an observation, and says nothing about the
/// error of the mean: see [`BatchMeans`](crate::BatchMeans).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    n: u64,
    mean: f64,
    /// Sum of squared deviations from the mean.
    m2: f64,
    min: f64,
    max: f64,
}

impl Default for Moments {
    fn default() -> Moments {
        Moments::new()
    }
}

impl Moments {
    /// Of nothing.
    pub const fn new() -> Moments {
        Moments { n: 0, mean: 0.0, m2: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }

    /// One more observation.
    #[inline]
    pub fn record(&mut self, x: f64) {
        self.n += 1;
        let delta = x - self.mean;
        self.mean += delta / self.n as f64;
        self.m2 += delta * (x - self.mean);
        self.min = self.min.min(x);
        self.max = self.max.max(x);
    }

    /// All of `other`'s observations.
    pub fn merge(&mut self, other: &Moments) {
        if other.n == 0 {
            return;
        }
        let n = self.n + other.n;
        let delta = other.mean - self.mean;
        let share = other.n as f64 / n as f64;
        self.mean += delta * share;
        self.m2 += other.m2 + delta * delta * self.n as f64 * share;
        self.n = n;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many observations.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Their mean, NaN of nothing.
    pub fn mean(&self) -> f64 {
        if self.n == 0 { f64::NAN } else { self.mean }
    }

    /// Their variance with n - 1 in the denominator, NaN of fewer than two.
    pub fn variance(&self) -> f64 {
        if self.n < 2 { f64::NAN } else { self.m2 / (self.n - 1) as f64 }
    }

    /// The square root of the variance.
    pub fn std_dev(&self) -> f64 {
        self.variance().sqrt()
    }

    /// The least, infinity of nothing.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// The greatest, minus infinity of nothing.
    pub fn max(&self) -> f64 {
        self.max
    }
}

impl Extend<f64> for Moments {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, observations: I) {
        observations.into_iter().for_each(|x| self.record(x));
    }
}

impl FromIterator<f64> for Moments {
    fn from_iter<I: IntoIterator<Item = f64>>(observations: I) -> Moments {
        let mut moments = Moments::new();
        moments.extend(observations);
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64, scale: f64) -> bool {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * scale
    }

    proptest! {
        #[test]
        fn moments_match_naive_and_merge(xs in prop::collection::vec(-1e6f64..1e6, 0..100), cut in 0usize..100) {
            let n = xs.len() as f64;
            let mean = xs.iter().sum::<f64>() / n;
            let variance = if xs.len() < 2 {
                f64::NAN
            } else {
                xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)
            };
            let (left, right) = xs.split_at(cut.min(xs.len()));
            let mut merged: Moments = left.iter().copied().collect();
            merged.merge(&right.iter().copied().collect());
            for moments in [xs.iter().copied().collect(), merged] {
                prop_assert_eq!(moments.n() as usize, xs.len());
                prop_assert!(close(moments.mean(), mean, 1e6));
                prop_assert!(close(moments.variance(), variance, 1e12));
                prop_assert_eq!(moments.min(), xs.iter().copied().fold(f64::INFINITY, f64::min));
                prop_assert_eq!(moments.max(), xs.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            }
        }
    }

    #[test]
    fn variance_survives_a_large_offset() {
        let moments: Moments = [4.0, 7.0, 13.0, 16.0].map(|x| x + 1e12).into_iter().collect();
        assert_eq!(moments.variance(), 30.0);
    }
}
