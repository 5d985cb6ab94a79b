//! Differences of two runs with their intervals: paired, and by Welch's test.

use crate::error::StatsError;
use crate::serial::{MeanError, SerialCorrelation};
use crate::student::{student_p_value, student_quantile};

/// The difference of two means, with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Second minus first, in the unit of what was compared.
    pub difference: f64,
    /// Half-width of the difference.
    pub half_width: f64,
    /// How likely a difference at least as large is if there is none.
    pub p_value: f64,
    /// Degrees of freedom of Student's t.
    pub dof: f64,
}

impl Comparison {
    fn new(difference: f64, variance: f64, dof: f64) -> Comparison {
        let error = variance.sqrt();
        let p_value = match (difference == 0.0, error == 0.0) {
            (true, _) => 1.0,
            (false, true) => 0.0,
            (false, false) => student_p_value(difference / error, dof),
        };
        Comparison { difference, half_width: student_quantile(0.975, dof) * error, p_value, dof }
    }

    /// Whether the interval leaves out zero: the runs differ, with 95 % confidence.
    pub fn is_significant(&self) -> bool {
        self.p_value < 0.05
    }
}

/// Two runs on identical traffic: batch `i` of both saw the same packets, so that what they have in
/// common cancels out (paired t over batch means; common random numbers, Law, "Simulation Modeling
/// and Analysis", section 11.2). Batches are in their order, and what each has of the one before widens the interval.
///
/// # Errors
/// [`StatsError::Unpaired`] if the numbers of batches differ, [`StatsError::TooFew`] below two.
pub fn paired(a: &[f64], b: &[f64]) -> Result<Comparison, StatsError> {
    if a.len() != b.len() {
        return Err(StatsError::Unpaired { a: a.len(), b: b.len() });
    }
    if a.len() < 2 {
        return Err(StatsError::TooFew { a: a.len(), b: b.len() });
    }
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let error = MeanError::of(&differences);
    Ok(Comparison::new(mean(&differences), error.variance, error.dof))
}

/// Two runs on different traffic: batch means of unequal variance (Welch, Biometrika 1947), each in their order, and what each batch
/// has of the one before widens the interval.
///
/// # Errors
/// [`StatsError::TooFew`] if either has fewer than two batches.
pub fn welch(a: &[f64], b: &[f64]) -> Result<Comparison, StatsError> {
    both_told(a, b)?;
    Ok(of_errors([mean(a), mean(b)], [MeanError::of(a), MeanError::of(b)]))
}

/// The second half of a sequence against the first, which is taken to be known as well as the second, whose values are correlated as
/// `serial` says: what is different in the first half does not hide itself in its own spread.
pub(crate) fn halves(first: &[f64], second: &[f64], serial: SerialCorrelation) -> Result<Comparison, StatsError> {
    both_told(first, second)?;
    let error = MeanError::with(second, serial);
    Ok(Comparison::new(mean(second) - mean(first), 2.0 * error.variance, error.dof))
}

fn mean(xs: &[f64]) -> f64 {
    xs.iter().sum::<f64>() / xs.len() as f64
}

fn both_told(a: &[f64], b: &[f64]) -> Result<(), StatsError> {
    if a.len() < 2 || b.len() < 2 {
        return Err(StatsError::TooFew { a: a.len(), b: b.len() });
    }
    Ok(())
}

/// Second minus first, by Welch's degrees of freedom.
fn of_errors(means: [f64; 2], [a, b]: [MeanError; 2]) -> Comparison {
    let variance = a.variance + b.variance;
    let dof = if variance > 0.0 {
        variance * variance / (a.variance * a.variance / a.dof + b.variance * b.variance / b.dof)
    } else {
        a.dof + b.dof
    };
    Comparison::new(means[1] - means[0], variance, dof)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    /// Student's own sleep data (Biometrika 1908): extra hours with two drugs, the same ten persons.
    const DRUG_1: [f64; 10] = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    const DRUG_2: [f64; 10] = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];

    #[test]
    fn paired_gives_the_published_result_for_the_sleep_data() {
        let c = paired(&DRUG_1, &DRUG_2).unwrap();
        // R: t.test(paired = TRUE): t = 4.0621, df = 9, p = 0.002833, interval 0.7001 to 2.4599.
        assert!((c.difference - 1.58).abs() < 1e-12 && (c.p_value - 0.002_833).abs() < 5e-7, "{c:?}");
        assert!((c.half_width - 0.879_9).abs() < 5e-5 && c.is_significant());
    }

    #[test]
    fn welch_gives_the_published_result_for_the_sleep_data() {
        let c = welch(&DRUG_1, &DRUG_2).unwrap();
        // R: t.test: t = 1.8608, df = 17.776, p = 0.07939, interval -0.2055 to 3.3655.
        assert!((c.dof - 17.776).abs() < 5e-4 && (c.p_value - 0.079_39).abs() < 5e-6, "{c:?}");
        assert!((c.half_width - 1.785_5).abs() < 5e-5 && !c.is_significant());
    }

    #[test]
    fn significance_is_at_five_percent() {
        let at = |p_value| Comparison { difference: 1.0, half_width: 1.0, p_value, dof: 9.0 }.is_significant();
        assert!(at(0.0) && at(0.049_999) && !at(0.05) && !at(0.050_001) && !at(1.0));
        // And that of an interval that just leaves out zero: t(0.975, 9) = 2.262157.
        let of = |t: f64| Comparison::new(t, 1.0, 9.0);
        assert!(of(2.2622).is_significant() && of(2.2622).half_width < 2.2622);
        assert!(!of(2.2621).is_significant() && of(2.2621).half_width > 2.2621);
    }

    #[test]
    fn samples_without_variance_have_the_degrees_of_freedom_of_both() {
        assert_eq!(welch(&[1.0; 4], &[1.0; 7]).unwrap().dof, 3.0 + 6.0);
        // As near as can be to that, by the formula.
        let near = welch(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((near.dof - 6.0).abs() < 1e-9, "{near:?}");
    }

    #[test]
    fn equal_runs_do_not_differ_and_shifted_ones_do() {
        let same = paired(&DRUG_1, &DRUG_1).unwrap();
        assert_eq!((same.difference, same.half_width, same.p_value), (0.0, 0.0, 1.0));
        let shifted = paired(&[1.0, 2.0], &[3.0, 4.0]).unwrap();
        assert_eq!((shifted.difference, shifted.half_width, shifted.p_value), (2.0, 0.0, 0.0));
        assert_eq!(welch(&[1.0, 1.0], &[1.0, 1.0]).unwrap().p_value, 1.0);
    }

    #[test]
    fn common_traffic_narrows_the_interval() {
        let mut rng = Pcg64::seed_from_u64(3);
        let traffic: Vec<f64> = (0..32).map(|_| 10.0 * rng.random::<f64>()).collect();
        let a: Vec<f64> = traffic.iter().map(|x| x + rng.random::<f64>()).collect();
        let b: Vec<f64> = traffic.iter().map(|x| x + 0.5 + rng.random::<f64>()).collect();
        let (paired, unpaired) = (paired(&a, &b).unwrap(), welch(&a, &b).unwrap());
        assert!(paired.half_width * 5.0 < unpaired.half_width);
        assert!(paired.is_significant() && !unpaired.is_significant());
    }

    #[test]
    fn errors_say_what_to_do() {
        let texts = [paired(&[1.0], &[1.0, 2.0]), paired(&[1.0], &[2.0]), welch(&[1.0, 2.0], &[])];
        let texts: Vec<String> = texts.into_iter().map(|r| r.unwrap_err().to_string()).collect();
        assert_eq!(
            texts,
            [
                "paired comparison of 1 with 2 batches: the numbers must be equal (run both on the same traffic, \
                 or compare them unpaired)",
                "comparison of 1 with 1 batches: at least 2 on either side are needed (run longer)",
                "comparison of 2 with 0 batches: at least 2 on either side are needed (run longer)",
            ]
        );
    }
}
