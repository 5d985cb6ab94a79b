//! A server that takes all who wait as one batch.

use crate::error::{QueueError, positive, rate};

/// What a server that takes all who wait, up to a limit, comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bulk {
    /// Share of time in service.
    pub rho: f64,
    /// Mean number of customers of a batch.
    pub batch: f64,
    /// Mean sojourn: wait, and the service of the whole batch.
    pub w: f64,
}

/// A single server with Poisson arrivals that takes those who wait as one batch, up to `most` of them, and one as soon
/// as it comes if nobody does: M/G^(1,b)/1, the general bulk service rule (Neuts, "A general class of bulk queues with
/// Poisson input", Annals of Mathematical Statistics 1967). A core that polls a ring is one.
///
/// A batch of n takes `setup + n each`, and all leave at its end; `scv` is the squared coefficient of variation of a
/// customer's own part. The chain of numbers waiting at the beginnings of services is solved by iteration and cut where
/// hardly anything is left, the sojourn follows by Little's law. Services are fixed, or gamma distributed where `scv` is
/// above 0: for other distributions with these two moments an approximation, exact with one customer a batch.
///
/// # Errors
/// Rates that are not positive and finite, a negative `setup` or `scv`, no customer a batch;
/// [`QueueError::Unstable`] where full batches cannot keep up.
///
/// ```
/// // One at a time and without a set-up it is M/D/1.
/// let one = queueing::bulk(0.8, 0.0, 1.0, 0.0, 1)?;
/// assert!((one.w - queueing::md1(0.8, 1.0)?.w).abs() < 1e-6);
/// # Ok::<(), queueing::QueueError>(())
/// ```
pub fn bulk(lambda: f64, setup: f64, each: f64, scv: f64, most: u32) -> Result<Bulk, QueueError> {
    let (lambda, each, scv) = (rate("lambda", lambda)?, rate("each", each)?, positive(scv)?);
    if !(setup.is_finite() && setup >= 0.0) {
        return Err(QueueError::Parameter { name: "setup", value: setup, allowed: "a finite number of 0 or more" });
    }
    if !(1..=MOST_BATCH).contains(&most) {
        return Err(QueueError::Parameter { name: "most", value: most.into(), allowed: "1 to 1024" });
    }
    let full = lambda * (setup / f64::from(most) + each);
    if full >= 1.0 {
        return Err(QueueError::Unstable { rho: full });
    }
    let most = most as usize;
    let service = |waiting: usize| setup + waiting.min(most) as f64 * each;
    let arrivals: Vec<Vec<f64>> = (1..=most)
        .map(|n| arrivals_within(lambda * service(n), lambda * lambda * n as f64 * each * each * scv))
        .collect();
    let states = (16 * most).max(LEAST_STATES);
    // By the number that waits when a service begins.
    let mut now = vec![0.0; states + 1];
    now[1] = 1.0;
    for _ in 0..MOST_STEPS {
        let mut next = vec![0.0; states + 1];
        for (waiting, &p) in now.iter().enumerate().skip(1).filter(|(_, p)| **p > NEGLIGIBLE) {
            let taken = waiting.min(most);
            for (arrived, q) in arrivals[taken - 1].iter().enumerate() {
                next[(waiting - taken + arrived).clamp(1, states)] += p * q;
            }
        }
        let change: f64 = now.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
        now = next;
        if change < SETTLED {
            break;
        }
    }
    let (mut all, mut busy, mut idle, mut customers, mut area) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (waiting, p) in now.iter().enumerate().skip(1) {
        let (taken, time) = (waiting.min(most), service(waiting));
        all += p;
        busy += p * time;
        customers += p * taken as f64;
        // Those who wait at its beginning stay for all of it, and half of it those who come meanwhile.
        area += p * (time * waiting as f64 + 0.5 * lambda * (time * time + taken as f64 * each * each * scv));
        if waiting <= most {
            idle += p * arrivals[waiting - 1][0] / lambda;
        }
    }
    let cycle = busy + idle;
    Ok(Bulk { rho: busy / cycle, batch: customers / all, w: area / cycle / lambda })
}

const MOST_BATCH: u32 = 1024;
const LEAST_STATES: usize = 256;
const MOST_STEPS: usize = 4_000;
const SETTLED: f64 = 1e-11;
const NEGLIGIBLE: f64 = 1e-16;
const MOST_ARRIVALS: f64 = 8_192.0;

/// Probabilities of 0, 1, .. arrivals in a service, up to where hardly anything is left: `mean` are expected, with a
/// variance of `mean` and `more`. Poisson in a fixed service, negative binomial in one that is gamma distributed.
fn arrivals_within(mean: f64, more: f64) -> Vec<f64> {
    let fixed = more <= 1e-12 * mean * mean;
    let shape = if fixed { f64::INFINITY } else { mean * mean / more };
    // Logarithms: the first terms may be too small for a number.
    let mut log = if fixed { -mean } else { -shape * (mean / shape).ln_1p() };
    let (mut sum, mut out) = (0.0, Vec::new());
    while sum < 1.0 - 1e-13 && (out.len() as f64) < MOST_ARRIVALS {
        let p = log.exp();
        sum += p;
        let n = out.len() as f64;
        out.push(p);
        log += if fixed { mean.ln() } else { ((n + shape) * mean / (shape + mean)).ln() } - (n + 1.0).ln();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_at_a_time_it_is_a_queue_with_a_single_server() {
        for (lambda, scv) in [(0.3, 0.0), (0.8, 0.0), (0.3, 0.5), (0.6, 2.0)] {
            let one = bulk(lambda, 0.0, 1.0, scv, 1).unwrap();
            let exact = crate::mg1(lambda, 1.0, scv).unwrap();
            assert!((one.w / exact.w - 1.0).abs() < 1e-6, "{one:?} {exact:?}");
            assert!((one.rho - lambda).abs() < 1e-6 && (one.batch - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn errors_say_what_came_and_what_is_allowed() {
        let texts = [bulk(1.0, 8.0, 0.9, 0.0, 32), bulk(1.0, -1.0, 0.5, 0.0, 32), bulk(1.0, 0.0, 0.5, 0.0, 0)]
            .map(|e| e.unwrap_err().to_string());
        assert_eq!(
            texts,
            [
                "rho = 1.15: an open queue has a steady state only below 1 (lower lambda, raise mu or c, or give it a capacity)",
                "setup = -1: must be a finite number of 0 or more",
                "most = 0: must be 1 to 1024",
            ]
        );
    }

    proptest! {
        #[test]
        fn batches_are_within_their_limits_and_customers_are_conserved(
            load in 0.01f64..0.95, setup in 0.0f64..4.0, scv in 0.0f64..2.0, most in 1u32..40,
        ) {
            let lambda = load / (setup / f64::from(most) + 1.0);
            let found = bulk(lambda, setup, 1.0, scv, most).unwrap();
            prop_assert!(found.batch >= 1.0 - 1e-9 && found.batch <= f64::from(most) + 1e-9, "{found:?}");
            prop_assert!(found.w >= setup + 1.0 - 1e-9, "{found:?}");
            // Who comes is served: rho is lambda times the mean service of a customer.
            let each = setup / found.batch + 1.0;
            prop_assert!((found.rho / (lambda * each) - 1.0).abs() < 1e-3, "{found:?} {each}");
        }
    }
}
