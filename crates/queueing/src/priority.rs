//! Queues with priorities, with and without preemption.

use crate::error::{QueueError, positive, rate};
use crate::open::erlang_c;

/// The customers of one priority.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriorityClass {
    /// Rate of arrivals.
    pub lambda: f64,
    /// Rate of service.
    pub mu: f64,
    /// Squared coefficient of variation of service times: 0 fixed, 1 exponential.
    pub scv: f64,
}

/// What the customers of one priority see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriorityWaits {
    /// Mean time not in service. Under preemption it includes interruptions.
    pub w_q: f64,
    /// Mean sojourn.
    pub w: f64,
    /// Mean number in the system, lambda w.
    pub l: f64,
}

/// M/G/1 with priorities and without preemption: who is in service finishes. `classes[0]` goes
/// first.
///
/// With R = sum of lambda E\[S^2\] / 2 over all classes and s_i the load of classes 0 to i, class i
/// waits R / ((1 - s_(i-1)) (1 - s_i)) (Cobham, Operations Research 1954).
///
/// # Errors
/// [`QueueError::Rate`], [`QueueError::Scv`], [`QueueError::Unstable`] where all classes together
/// bring 1 or more, [`QueueError::NoClass`].
pub fn mg1_priority(classes: &[PriorityClass]) -> Result<Vec<PriorityWaits>, QueueError> {
    let loads = loads(classes)?;
    let residual: f64 = classes.iter().map(half_second_moment).sum();
    let waits = classes.iter().zip(loads).map(|(class, (above, with))| {
        let w_q = residual / ((1.0 - above) * (1.0 - with));
        let w = w_q + 1.0 / class.mu;
        PriorityWaits { w_q, w, l: class.lambda * w }
    });
    Ok(waits.collect())
}

/// M/G/1 with priorities and preemption: who is interrupted resumes where it was. `classes[0]` goes
/// first and never sees the others.
///
/// w_i = 1 / (mu_i (1 - s_(i-1))) + R_i / ((1 - s_(i-1)) (1 - s_i)), with R_i as in
/// [`mg1_priority`] over classes 0 to i only (Kleinrock, "Queueing Systems" II, 1976, section 3.4).
///
/// # Errors
/// As [`mg1_priority`].
pub fn mg1_preemptive(classes: &[PriorityClass]) -> Result<Vec<PriorityWaits>, QueueError> {
    let loads = loads(classes)?;
    let mut residual = 0.0;
    let waits = classes.iter().zip(loads).map(|(class, (above, with))| {
        residual += half_second_moment(class);
        let w = 1.0 / (class.mu * (1.0 - above)) + residual / ((1.0 - above) * (1.0 - with));
        PriorityWaits { w_q: w - 1.0 / class.mu, w, l: class.lambda * w }
    });
    Ok(waits.collect())
}

/// M/M/c with priorities and without preemption; all classes are served at rate `mu`. `lambdas[0]`
/// goes first.
///
/// As [`mg1_priority`] with R = C / (c mu), C of Erlang's second formula at the total load (Kella and
/// Yechiali, Operations Research 1985).
///
/// # Errors
/// As [`mg1_priority`], and [`QueueError::NoServer`].
pub fn mmc_priority(lambdas: &[f64], mu: f64, servers: u32) -> Result<Vec<PriorityWaits>, QueueError> {
    let lambdas = lambdas.iter().map(|&lambda| rate("lambda", lambda)).collect::<Result<Vec<f64>, _>>()?;
    if lambdas.is_empty() {
        return Err(QueueError::NoClass);
    }
    let total: f64 = lambdas.iter().sum();
    let (wait, capacity) = (erlang_c(total, mu, servers)?, f64::from(servers) * mu);
    let mut above = 0.0;
    let waits = lambdas.iter().map(|&lambda| {
        let with = above + lambda / capacity;
        let w_q = wait / capacity / ((1.0 - above) * (1.0 - with));
        above = with;
        let w = w_q + 1.0 / mu;
        PriorityWaits { w_q, w, l: lambda * w }
    });
    Ok(waits.collect())
}

/// lambda E[S^2] / 2.
fn half_second_moment(class: &PriorityClass) -> f64 {
    0.5 * class.lambda * (1.0 + class.scv) / (class.mu * class.mu)
}

/// The load of the classes before each, and with it.
fn loads(classes: &[PriorityClass]) -> Result<Vec<(f64, f64)>, QueueError> {
    if classes.is_empty() {
        return Err(QueueError::NoClass);
    }
    let mut above = 0.0;
    let mut loads = Vec::with_capacity(classes.len());
    for class in classes {
        positive(class.scv)?;
        let with = above + rate("lambda", class.lambda)? / rate("mu", class.mu)?;
        loads.push((above, with));
        above = with;
    }
    if above < 1.0 { Ok(loads) } else { Err(QueueError::Unstable { rho: above }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mg1, mmc};
    use proptest::prelude::*;

    fn class(lambda: f64, mu: f64, scv: f64) -> PriorityClass {
        PriorityClass { lambda, mu, scv }
    }

    #[test]
    fn two_classes_have_hand_computed_waits() {
        // lambda 0.2 and 0.3, mu 1, exponential: R = 0.5; s = 0.2, 0.5.
        let classes = [class(0.2, 1.0, 1.0), class(0.3, 1.0, 1.0)];
        let waits = mg1_priority(&classes).unwrap();
        assert!((waits[0].w_q - 0.625).abs() < 1e-12 && (waits[1].w_q - 1.25).abs() < 1e-12, "{waits:?}");
        // Preempted: 1 + 0.2 / 0.8 = 1.25 and 1 / 0.8 + 0.5 / 0.4 = 2.5.
        let waits = mg1_preemptive(&classes).unwrap();
        assert!((waits[0].w - 1.25).abs() < 1e-12 && (waits[1].w - 2.5).abs() < 1e-12, "{waits:?}");
    }

    proptest! {
        #[test]
        fn one_class_is_a_queue_without_priorities(rho in 0.01f64..0.99, mu in 1e-3f64..1e9, scv in 0.0f64..9.0) {
            let fifo = mg1(rho * mu, mu, scv).unwrap();
            for waits in [mg1_priority, mg1_preemptive] {
                let w = waits(&[class(rho * mu, mu, scv)]).unwrap()[0].w;
                prop_assert!((w / fifo.w - 1.0).abs() < 1e-9);
            }
        }

        /// Kleinrock's conservation law: priorities move waiting from class to class only.
        #[test]
        fn the_load_weighted_wait_is_conserved(
            shares in prop::collection::vec((0.01f64..1.0, 0.1f64..10.0, 0.0f64..4.0), 1..6), rho in 0.05f64..0.95,
        ) {
            let sum: f64 = shares.iter().map(|s| s.0).sum();
            let classes: Vec<PriorityClass> =
                shares.iter().map(|&(share, mu, scv)| class(share / sum * rho * mu, mu, scv)).collect();
            let waits = mg1_priority(&classes).unwrap();
            let weighted: f64 = classes.iter().zip(&waits).map(|(c, w)| c.lambda / c.mu * w.w_q).sum();
            let residual: f64 = classes.iter().map(half_second_moment).sum();
            prop_assert!((weighted / (rho * residual / (1.0 - rho)) - 1.0).abs() < 1e-9);
        }

        #[test]
        fn priorities_of_many_servers_average_to_erlang_c(a in 0.05f64..0.9, b in 0.01f64..0.09, c in 1u32..50) {
            let (a, b) = (a * f64::from(c), b * f64::from(c));
            let waits = mmc_priority(&[a, b], 1.0, c).unwrap();
            let mean = (a * waits[0].w_q + b * waits[1].w_q) / (a + b);
            prop_assert!((mean / mmc(a + b, 1.0, c).unwrap().w_q - 1.0).abs() < 1e-9);
        }
    }
}
