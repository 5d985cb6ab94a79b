//! Delays, counted in buckets a hundredth wide.

use serde::Serialize;

/// Buckets an octave: a value is known within 0.8 %.
const STEPS: u64 = 64;

/// Counts values of nanoseconds. Mean, smallest and largest are exact; quantiles are within 0.8 %.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

/// What was counted, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DelaySummary {
    /// How many packets.
    pub packets: u64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 99 %.
    pub p99_us: f64,
    /// 99.9 %.
    pub p999_us: f64,
    /// Interquartile range: what the paper calls delay variance.
    pub iqr_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Delays {
    /// Counts one value.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        let bucket = bucket(ns);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum += u128::from(ns);
        self.max = self.max.max(ns);
    }

    /// Counts what another one has counted.
    pub fn add_all(&mut self, other: &Delays) {
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(sum, n)| *sum += n);
        (self.count, self.sum, self.max) = (self.count + other.count, self.sum + other.sum, self.max.max(other.max));
    }

    /// The value below which the share `q` of all lies, in nanoseconds.
    pub fn quantile(&self, q: f64) -> f64 {
        let rank = (q * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, &n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return middle(bucket).min(self.max as f64);
            }
        }
        0.0
    }

    /// All in one; [`None`] if nothing was counted.
    pub fn summary(&self) -> Option<DelaySummary> {
        let us = |q| self.quantile(q) / 1e3;
        (self.count > 0).then(|| DelaySummary {
            packets: self.count,
            mean_us: self.sum as f64 / self.count as f64 / 1e3,
            p50_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
            iqr_us: us(0.75) - us(0.25),
            max_us: self.max as f64 / 1e3,
        })
    }
}

fn bucket(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let octave = ns.ilog2() - STEPS.ilog2();
    (u64::from(octave + 1) * STEPS + (ns >> octave) - STEPS) as usize
}

fn middle(bucket: usize) -> f64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket as f64;
    }
    let (octave, step) = (bucket / STEPS - 1, bucket % STEPS);
    let width = (1u64 << octave) as f64;
    (STEPS + step) as f64 * width + (width - 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_hundredth_and_the_mean_is_exact() {
        let mut delays = Delays::default();
        let values: Vec<u64> = (0..10_000u64).map(|i| i * i * 37 + 5).collect();
        values.iter().for_each(|&value| delays.add(value));
        for q in [0.01, 0.25, 0.5, 0.75, 0.99, 0.999, 1.0] {
            let exact = values[((q * 1e4) as usize).max(1) - 1] as f64;
            assert!((delays.quantile(q) / exact - 1.0).abs() < 0.01, "{q}: {} for {exact}", delays.quantile(q));
        }
        let mean = values.iter().sum::<u64>() as f64 / 1e4 / 1e3;
        assert!((delays.summary().unwrap().mean_us / mean - 1.0).abs() < 1e-12);
    }

    #[test]
    fn every_value_lies_in_its_bucket() {
        for ns in (0..4096).chain([u64::MAX, u64::MAX - 1, 1 << 40, (1 << 40) - 1]) {
            let found = middle(bucket(ns));
            assert!((found - ns as f64).abs() <= ns as f64 / 64.0, "{ns} in {found}");
        }
    }

    #[test]
    fn two_that_are_added_count_as_one_that_counted_all() {
        let (mut one, mut parts) = (Delays::default(), [Delays::default(), Delays::default()]);
        for i in 0..1000u64 {
            one.add(i * i);
            parts[usize::from(i > 800)].add(i * i);
        }
        let [mut sum, rest] = parts;
        sum.add_all(&rest);
        assert_eq!(sum.summary(), one.summary());
    }

    #[test]
    fn nothing_counted_is_no_summary() {
        assert_eq!(Delays::default().summary(), None);
    }
}
