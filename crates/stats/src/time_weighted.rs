//! A level over time, such as a queue's length.

use units::Ps;

use crate::batch::{Estimate, halve};

/// A level over time, such as a queue's length: its mean with half-width, and its maximum.
///
/// The level stays until it is set again. Batches are dyadic, 16 to 32 equal spans of time (see
/// [`BatchMeans`](crate::BatchMeans)), from 1.024 ns up.
#[derive(Clone, Debug)]
pub struct TimeWeighted {
    level: f64,
    max: f64,
    start: Ps,
    /// The level is accounted for up to here.
    upto: Ps,
    /// Level times picoseconds since the start of the unfinished batch.
    area: f64,
    /// When the unfinished batch ends.
    end: Ps,
    span: Ps,
    means: Vec<f64>,
}

const MOST: usize = 32;
const LEAST_SPAN: Ps = Ps(1024);

impl TimeWeighted {
    /// From `start` on the level is `level`.
    pub fn new(start: Ps, level: f64) -> TimeWeighted {
        TimeWeighted {
            level,
            max: level,
            start,
            upto: start,
            area: 0.0,
            end: Ps(start.0.saturating_add(LEAST_SPAN.0)),
            span: LEAST_SPAN,
            means: Vec::with_capacity(MOST),
        }
    }

    /// From `now` on the level is `level`. A `now` before the last one counts as the last one.
    #[inline]
    pub fn set(&mut self, now: Ps, level: f64) {
        if now >= self.end {
            self.close_until(now);
        }
        self.area += self.level * now.since(self.upto).0 as f64;
        self.upto = self.upto.max(now);
        self.level = level;
        self.max = self.max.max(level);
    }

    /// From `now` on the level is higher by `change`.
    #[inline]
    pub fn add(&mut self, now: Ps, change: f64) {
        self.set(now, self.level + change);
    }

    #[cold]
    #[inline(never)]
    fn close_until(&mut self, now: Ps) {
        while now >= self.end && self.upto < self.end {
            self.area += self.level * (self.end - self.upto).0 as f64;
            self.upto = self.end;
            self.means.push(self.area / self.span.0 as f64);
            self.area = 0.0;
            if self.means.len() == MOST {
                halve(&mut self.means, |a, b| 0.5 * (a + b));
                self.span = self.span * 2;
            }
            self.end = Ps(self.end.0.saturating_add(self.span.0));
        }
    }

    /// Forgets the past: warm-up is over at `now`. The level stays.
    pub fn reset(&mut self, now: Ps) {
        *self = TimeWeighted::new(now, self.level);
    }

    /// The level now.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// The highest level so far.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The mean level over the full batches' spans, in order.
    pub fn batch_means(&self) -> &[f64] {
        &self.means
    }

    /// The mean level from the start to `now`, with its half-width; NaN if no time has passed.
    pub fn estimate(&self, now: Ps) -> Estimate {
        let mut upto_now = self.clone();
        upto_now.set(now, self.level);
        let full = upto_now.means.iter().sum::<f64>() * upto_now.span.0 as f64;
        let mean = (full + upto_now.area) / upto_now.upto.since(self.start).0 as f64;
        Estimate::of_batches(mean, &upto_now.means)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn mean_matches_naive(steps in prop::collection::vec((0u64..100_000, -5.0f64..5.0), 1..300), rest in 1u64..1000) {
            let mut level = TimeWeighted::new(Ps(7), 2.0);
            let (mut now, mut last, mut area) = (7, 2.0, 0.0);
            for &(wait, next) in &steps {
                now += wait;
                area += last * wait as f64;
                last = next;
                level.set(Ps(now), next);
            }
            now += rest;
            area += last * rest as f64;
            let estimate = level.estimate(Ps(now));
            prop_assert!((estimate.value - area / (now - 7) as f64).abs() < 1e-9);
            prop_assert!(level.batch_means().len() < MOST);
            prop_assert_eq!(level.max(), steps.iter().map(|s| s.1).fold(2.0, f64::max));
            let spans = (now - 7) / level.span.0;
            prop_assert!(spans >= level.batch_means().len() as u64);
        }
    }

    #[test]
    fn a_long_silence_fills_the_batches_it_covers() {
        let mut level = TimeWeighted::new(Ps::ZERO, 1.0);
        level.set(Ps::from_ns(1_000_000), 3.0);
        let estimate = level.estimate(Ps::from_ns(2_000_000));
        assert!((estimate.value - 2.0).abs() < 1e-12);
        assert!((16..=32).contains(&estimate.batches));
        level.reset(Ps::from_ns(2_000_000));
        assert_eq!(level.estimate(Ps::from_ns(2_000_001)).value, 3.0);
    }

    #[test]
    fn the_end_of_time_is_reached() {
        let mut level = TimeWeighted::new(Ps::ZERO, 1.0);
        level.set(Ps::MAX, 2.0);
        level.set(Ps::MAX, 3.0);
        assert!((level.estimate(Ps::MAX).value - 1.0).abs() < 1e-9);
    }
}
