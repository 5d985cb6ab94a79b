//! Queues without a limit: M/M/1, M/D/1, M/G/1, M/M/c.

use crate::error::{QueueError, positive, rate};
use crate::finite::erlang_b;

/// The steady state of a queue that loses nobody.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenQueue {
    /// Utilisation of a server, lambda / (c mu).
    pub rho: f64,
    /// Mean time waited before service.
    pub w_q: f64,
    /// Mean sojourn.
    pub w: f64,
    /// Mean number waiting, lambda w_q (Little).
    pub l_q: f64,
    /// Mean number in the system, lambda w.
    pub l: f64,
}

impl OpenQueue {
    fn new(lambda: f64, rho: f64, w_q: f64, service: f64) -> OpenQueue {
        let w = w_q + service;
        OpenQueue { rho, w_q, w, l_q: lambda * w_q, l: lambda * w }
    }
}

/// M/M/1: Poisson arrivals, exponential service, one server. w = 1 / (mu - lambda).
///
/// # Errors
/// [`QueueError::Rate`] for a rate that is not positive, [`QueueError::Unstable`] for rho >= 1.
pub fn mm1(lambda: f64, mu: f64) -> Result<OpenQueue, QueueError> {
    mg1(lambda, mu, 1.0)
}

/// M/D/1: Poisson arrivals, fixed service, one server. Half the wait of M/M/1.
///
/// # Errors
/// As [`mm1`].
pub fn md1(lambda: f64, mu: f64) -> Result<OpenQueue, QueueError> {
    mg1(lambda, mu, 0.0)
}

/// M/G/1: Poisson arrivals, one server, service times of squared coefficient of variation `scv`.
/// w_q = (1 + scv) / 2 * rho / (1 - rho) / mu (Pollaczek and Khinchine).
///
/// # Errors
/// As [`mm1`], and [`QueueError::Scv`] for an `scv` below 0.
pub fn mg1(lambda: f64, mu: f64, scv: f64) -> Result<OpenQueue, QueueError> {
    let rho = utilisation(lambda, mu, 1)?;
    let scv = positive(scv)?;
    Ok(OpenQueue::new(lambda, rho, 0.5 * (1.0 + scv) * rho / (1.0 - rho) / mu, 1.0 / mu))
}

/// M/M/c: Poisson arrivals, exponential service, `servers` servers. w_q = C / (c mu - lambda), with
/// C of Erlang's second formula.
///
/// # Errors
/// As [`mm1`], and [`QueueError::NoServer`].
pub fn mmc(lambda: f64, mu: f64, servers: u32) -> Result<OpenQueue, QueueError> {
    let rho = utilisation(lambda, mu, servers)?;
    let w_q = erlang_c(lambda, mu, servers)? / (f64::from(servers) * mu - lambda);
    Ok(OpenQueue::new(lambda, rho, w_q, 1.0 / mu))
}

/// Erlang's second formula: the probability that a customer of M/M/c has to wait,
/// B / (1 - rho (1 - B)) with B of Erlang's first formula.
///
/// # Errors
/// As [`mmc`].
pub fn erlang_c(lambda: f64, mu: f64, servers: u32) -> Result<f64, QueueError> {
    let rho = utilisation(lambda, mu, servers)?;
    let b = erlang_b(lambda, mu, servers)?;
    Ok(b / (1.0 - rho * (1.0 - b)))
}

fn utilisation(lambda: f64, mu: f64, servers: u32) -> Result<f64, QueueError> {
    if servers == 0 {
        return Err(QueueError::NoServer);
    }
    let rho = rate("lambda", lambda)? / (f64::from(servers) * rate("mu", mu)?);
    if rho < 1.0 { Ok(rho) } else { Err(QueueError::Unstable { rho }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
    }

    #[test]
    fn mm1_is_the_textbook_formula() {
        let queue = mm1(0.9, 1.0).unwrap();
        assert!(close(queue.w, 10.0) && close(queue.w_q, 9.0) && close(queue.l, 9.0) && close(queue.l_q, 8.1));
        assert!(close(md1(0.9, 1.0).unwrap().w_q, 4.5));
        assert!(close(mg1(0.5, 1.0, 4.0).unwrap().w_q, 2.5));
    }

    #[test]
    fn erlang_c_of_a_published_example() {
        // Gross et al., example 2.2: lambda 6 and mu 3 per hour, c = 3: L_q = 8/9, w_q = 0.148 h.
        let clinic = mmc(6.0, 3.0, 3).unwrap();
        assert!(close(clinic.l_q, 8.0 / 9.0) && close(clinic.w_q, 4.0 / 27.0));
        assert!(close(erlang_c(6.0, 3.0, 3).unwrap(), 4.0 / 9.0));
    }

    proptest! {
        #[test]
        fn one_server_is_mm1(lambda in 0.01f64..0.99, scale in 0.001f64..1e9) {
            let (one, c) = (mm1(lambda * scale, scale).unwrap(), mmc(lambda * scale, scale, 1).unwrap());
            prop_assert!((one.w_q - c.w_q).abs() <= 1e-9 * one.w_q);
        }

        #[test]
        fn every_rho_below_one_has_an_answer(rho in 0.0001f64..0.9999, servers in 1u32..2000) {
            let queue = mmc(rho * f64::from(servers), 1.0, servers).unwrap();
            prop_assert!(queue.w_q >= 0.0 && queue.w.is_finite());
        }
    }
}
