//! The error of a mean of values that resemble the ones before them.

/// Batch means, at least, for their correlation to be judged: of fewer it is chance.
const FEWEST: usize = 16;
/// The most that a value is taken to resemble the one before: beyond, a sequence has no mean that it tells of.
const MOST: f64 = 0.8;

/// How the correlation of a sequence changes what its spread tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SerialCorrelation {
    /// Of each value with the next.
    phi: f64,
}

impl SerialCorrelation {
    /// Of `deviations` from what `fitted` numbers were fitted for (the mean is one, a line two); none of fewer than `fewest`.
    ///
    /// Correlation that is found in few values is too small, by (1 + 4 phi) / n where a mean was fitted (Marriott and Pope, Biometrika
    /// 1954), and by (1 + phi) / n more for each further number. What is below zero then counts as none.
    pub fn of_deviations(deviations: &[f64], fitted: f64, fewest: usize) -> SerialCorrelation {
        let n = deviations.len() as f64;
        let squares: f64 = deviations.iter().map(|d| d * d).sum();
        if deviations.len() < fewest.max(8) || squares == 0.0 {
            return SerialCorrelation { phi: 0.0 };
        }
        let found = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / squares;
        SerialCorrelation { phi: ((n * found + fitted) / (n - 3.0 - fitted)).clamp(0.0, MOST) }
    }

    /// By how much the variance of a mean of many values is larger than were they independent: of a sequence that forgets at a constant
    /// rate, AR(1).
    pub fn inflation(self) -> f64 {
        (1.0 + self.phi) / (1.0 - self.phi)
    }

    /// By how much fewer degrees of freedom a variance of such values has.
    pub fn freedom(self) -> f64 {
        (1.0 - self.phi * self.phi) / (1.0 + self.phi * self.phi)
    }
}

/// The variance of the mean of a sequence, and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MeanError {
    pub variance: f64,
    /// Of Student's t.
    pub dof: f64,
}

impl MeanError {
    /// Of two `values` or more, in their order: batch means that may be shorter than what they measure wanders. As by Skart (Tafazzoli and
    /// Wilson, IIE Transactions 2011), the variance of batch means is enlarged by their correlation, as of AR(1).
    pub fn of(values: &[f64]) -> MeanError {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let deviations: Vec<f64> = values.iter().map(|x| x - mean).collect();
        MeanError::with(values, SerialCorrelation::of_deviations(&deviations, 1.0, FEWEST))
    }

    /// Of two `values` or more that are correlated as `serial` says.
    pub fn with(values: &[f64], serial: SerialCorrelation) -> MeanError {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let inflation = serial.inflation();
        // Around a mean that wandered with them, values spread less than around the true one. Of eight values that are correlated by four
        // fifths nothing would be left, so a tenth is.
        let seen = (1.0 - (inflation - 1.0) / (n - 1.0)).max(0.1);
        MeanError { variance: variance / seen * inflation / n, dof: (n - 1.0) * serial.freedom() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::batch::Estimate;
    use rand::SeedableRng;
    use rand_distr::{Distribution, StandardNormal};
    use rand_pcg::Pcg64;

    /// Batch means of AR(1) sequences with mean 0 that forget `length` times while they last.
    pub(crate) fn wandering(length: f64, batches: usize, seed: u64) -> Vec<f64> {
        let mut rng = Pcg64::seed_from_u64(seed);
        let each = 64;
        let phi = (-length / (batches * each) as f64).exp();
        let mut noise = || -> f64 { StandardNormal.sample(&mut rng) };
        let mut x = noise();
        let mut means = vec![0.0; batches];
        for mean in &mut means {
            for _ in 0..each {
                x = phi * x + (1.0 - phi * phi).sqrt() * noise();
                *mean += x / each as f64;
            }
        }
        means
    }

    #[test]
    fn intervals_hold_however_long_a_sequence_wanders() {
        for (length, batches) in [(12.0, 31), (20.0, 16), (40.0, 31), (200.0, 16), (1000.0, 31)] {
            let held = (0..400).filter(|&seed| {
                let means = wandering(length, batches, seed);
                Estimate::of_batches(means.iter().sum::<f64>() / batches as f64, &means).covers(0.0)
            });
            let held = held.count();
            assert!((368..=394).contains(&held), "{held} of 400 at {length} and {batches}");
        }
    }

    #[test]
    fn independent_values_are_as_they_were() {
        // What goes up and down by turns is not correlated upwards.
        let values: Vec<f64> = (0..20).map(|i| f64::from(i % 2)).collect();
        let error = MeanError::of(&values);
        assert!((error.variance - 20.0 * 0.25 / 19.0 / 20.0).abs() < 1e-15 && error.dof == 19.0, "{error:?}");
        // Too few to tell: three values in a row.
        let few = MeanError::of(&[1.0, 2.0, 3.0]);
        assert!((few.variance - 1.0 / 3.0).abs() < 1e-15 && few.dof == 2.0, "{few:?}");
    }

    #[test]
    fn correlation_is_that_of_a_worked_example() {
        // Deviations 1, 1, -1, -1, 1, ...: of 17, 16 products, 8 of them 1 and 8 of them -1. In groups of four 12 and 4.
        let groups = |of: i32| -> Vec<f64> { (0..17).map(|i| if i / of % 2 == 0 { 1.0 } else { -1.0 }).collect() };
        let found = SerialCorrelation::of_deviations(&groups(2), 1.0, FEWEST);
        assert!((found.phi - 1.0 / 13.0).abs() < 1e-15, "{found:?}");
        assert!((found.inflation() - 14.0 / 12.0).abs() < 1e-12, "{found:?}");
        assert!((found.freedom() - 168.0 / 170.0).abs() < 1e-12, "{found:?}");
        let found = SerialCorrelation::of_deviations(&groups(4), 1.0, FEWEST);
        assert!((found.phi - 9.0 / 13.0).abs() < 1e-15, "{found:?}");
        // More than a run can tell of: four fifths.
        assert_eq!(SerialCorrelation::of_deviations(&groups(9), 1.0, FEWEST).phi, MOST);
    }
}
