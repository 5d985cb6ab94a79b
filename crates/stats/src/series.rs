//! What was seen over time, in a fixed number of bins.

use units::Ps;

/// What was seen over time, in a fixed number of bins: when they are full, neighbours are merged and
/// each bin spans twice the time.
///
/// ```
/// use stats::Series;
/// use units::Ps;
///
/// let mut packets = Series::new(4, Ps(10));
/// (0..100).for_each(|t| packets.record(Ps(t), 1.0));
/// assert_eq!(packets.span(), Ps(40));
/// assert_eq!(packets.bins().iter().map(|bin| bin.n).collect::<Vec<_>>(), [40, 40, 20]);
/// ```
#[derive(Clone, Debug)]
pub struct Series {
    bins: Vec<Bin>,
    most: usize,
    span: Ps,
    /// The time up to which the last bin reaches.
    end: Ps,
}

/// What was recorded in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// How many values.
    pub n: u64,
    /// Their sum.
    pub sum: f64,
    /// The greatest, 0 of none.
    pub max: f64,
}

impl Bin {
    /// The mean of the values, NaN of none.
    pub fn mean(&self) -> f64 {
        self.sum / self.n as f64
    }

    fn and(self, other: Bin) -> Bin {
        let max = match (self.n, other.n) {
            (_, 0) => self.max,
            (0, _) => other.max,
            _ => self.max.max(other.max),
        };
        Bin { n: self.n + other.n, sum: self.sum + other.sum, max }
    }
}

impl Series {
    /// At most `most` bins (rounded up to an even number of at least 2), each spanning `span` (at
    /// least 1 ps) to begin with. The first bin starts at time zero.
    pub fn new(most: usize, span: Ps) -> Series {
        let most = most.max(2).next_multiple_of(2);
        Series { bins: Vec::with_capacity(most), most, span: span.max(Ps(1)), end: Ps::ZERO }
    }

    /// `value` was seen at `now`. A `now` before the last bin counts into the last bin.
    #[inline]
    pub fn record(&mut self, now: Ps, value: f64) {
        if now >= self.end {
            self.extend_to(now);
        }
        if let Some(bin) = self.bins.last_mut() {
            *bin = bin.and(Bin { n: 1, sum: value, max: value });
        }
    }

    #[cold]
    #[inline(never)]
    fn extend_to(&mut self, now: Ps) {
        let mut index = (now.0 / self.span.0) as usize;
        while index >= self.most {
            self.bins = self.bins.chunks(2).map(|pair| pair.iter().fold(Bin::default(), |a, &b| a.and(b))).collect();
            self.span = Ps(self.span.0.saturating_mul(2));
            index = (now.0 / self.span.0) as usize;
        }
        self.bins.resize(self.bins.len().max(index + 1), Bin::default());
        self.end = Ps((self.bins.len() as u64).saturating_mul(self.span.0));
    }

    /// The time one bin spans.
    pub fn span(&self) -> Ps {
        self.span
    }

    /// The bins from time zero on; the last one is not over yet.
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn series_matches_naive(waits in prop::collection::vec((0u64..200, -9i32..9), 1..400)) {
            let mut series = Series::new(16, Ps(8));
            let mut now = 0;
            let mut seen = Vec::new();
            for (wait, value) in waits {
                now += wait;
                series.record(Ps(now), f64::from(value));
                seen.push((now, f64::from(value)));
            }
            prop_assert!(series.bins().len() <= 16);
            for (i, bin) in series.bins().iter().enumerate() {
                let values: Vec<f64> =
                    seen.iter().filter(|s| s.0 / series.span().0 == i as u64).map(|s| s.1).collect();
                let max = values.iter().copied().reduce(f64::max).unwrap_or(0.0);
                prop_assert_eq!(*bin, Bin { n: values.len() as u64, sum: values.iter().sum(), max });
            }
        }
    }

    #[test]
    fn the_end_of_time_has_a_bin() {
        let mut series = Series::new(4, Ps(1));
        series.record(Ps(0), 1.0);
        series.record(Ps::MAX, 2.0);
        assert_eq!(series.bins().iter().map(|bin| bin.n).sum::<u64>(), 2);
        assert!(series.bins().len() <= 4);
    }
}
