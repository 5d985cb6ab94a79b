//! Queues with a capacity, and what they lose.

use crate::error::{QueueError, rate};

/// The steady state of a queue with a capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finite {
    /// Offered load of a server, lambda / (c mu).
    pub rho: f64,
    /// The share of customers that are lost because the system is full.
    pub blocking: f64,
    /// Mean time waited before service by those that are not lost.
    pub w_q: f64,
    /// Mean sojourn of those that are not lost.
    pub w: f64,
    /// Mean number in the system.
    pub l: f64,
}

/// M/M/c/K: Poisson arrivals, exponential service, `servers` servers, at most `capacity` customers
/// in the system. Any load has a steady state.
///
/// The probabilities of n customers follow from detailed balance, p(n) min(n, c) mu = p(n - 1)
/// lambda. They are summed from the likeliest n outwards, so that nothing overflows: a large c or K
/// needs neither factorials nor powers.
///
/// # Errors
/// [`QueueError::Rate`], [`QueueError::NoServer`], [`QueueError::Capacity`] for a capacity below the
/// number of servers.
///
/// ```
/// let queue = queueing::mmck(0.9 * 28.0, 1.0, 28, 100)?;
/// assert!((queue.w - 1.172668).abs() < 5e-7 && (queue.blocking - 2.464e-5).abs() < 5e-9);
/// # Ok::<(), queueing::QueueError>(())
/// ```
pub fn mmck(lambda: f64, mu: f64, servers: u32, capacity: u32) -> Result<Finite, QueueError> {
    if servers == 0 {
        return Err(QueueError::NoServer);
    }
    if capacity < servers {
        return Err(QueueError::Capacity { capacity, servers });
    }
    let (lambda, mu) = (rate("lambda", lambda)?, rate("mu", mu)?);
    let offered = lambda / mu;
    let rho = offered / f64::from(servers);
    // p(n) / p(n - 1) falls with n up to c and stays, so p rises up to its mode and falls from there.
    let ratio = |n: u32| offered / f64::from(n.min(servers));
    let mode = if rho > 1.0 { capacity } else { (offered as u32).min(servers) };
    let (mut all, mut customers, mut waiting) = (0.0, 0.0, 0.0);
    let mut count = |n: u32, weight: f64| {
        all += weight;
        customers += weight * f64::from(n);
        waiting += weight * f64::from(n.saturating_sub(servers));
    };
    count(mode, 1.0);
    let mut weight = 1.0;
    for n in (0..mode).rev() {
        weight /= ratio(n + 1);
        count(n, weight);
    }
    let mut full = 1.0;
    for n in mode + 1..=capacity {
        full *= ratio(n);
        count(n, full);
    }
    let blocking = full / all;
    // 1 - blocking would cancel under overload: the carried load is the mean number of busy servers.
    let carried = mu * (customers - waiting) / all;
    let w_q = waiting / all / carried;
    Ok(Finite { rho, blocking, w_q, w: w_q + 1.0 / mu, l: customers / all })
}

/// Erlang's first formula: the share of customers that M/M/c/c loses, by the recursion
/// B(n) = a B(n - 1) / (n + a B(n - 1)), a = lambda / mu, which is stable for any c.
///
/// # Errors
/// [`QueueError::Rate`], [`QueueError::NoServer`].
pub fn erlang_b(lambda: f64, mu: f64, servers: u32) -> Result<f64, QueueError> {
    if servers == 0 {
        return Err(QueueError::NoServer);
    }
    let a = rate("lambda", lambda)? / rate("mu", mu)?;
    Ok((1..=servers).fold(1.0, |b, n| a * b / (f64::from(n) + a * b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mm1, mmc};
    use proptest::prelude::*;

    fn close(a: f64, b: f64, tolerance: f64) -> bool {
        (a - b).abs() <= tolerance * a.abs().max(b.abs())
    }

    /// Reference values: exact, from the steady state in rational arithmetic, to 6 digits.
    #[test]
    fn a_28_core_server_with_room_for_100_has_the_reference_values() {
        let below = mmck(0.9 * 28.0, 1.0, 28, 100).unwrap();
        assert!((below.w - 1.172_668).abs() < 5e-7, "{below:?}");
        assert!((below.blocking - 2.464e-5).abs() < 5e-9, "{below:?}");
        let above = mmck(1.1 * 28.0, 1.0, 28, 100).unwrap();
        assert!((above.w - 3.215_984).abs() < 5e-7, "{above:?}");
        assert!((above.blocking - 0.090_958_5).abs() < 5e-8, "{above:?}");
    }

    #[test]
    fn one_server_is_the_textbook_formula() {
        for rho in [0.3, 0.9, 1.5, 4.0] {
            for k in [1, 2, 10, 50] {
                let queue = mmck(rho, 1.0, 1, k).unwrap();
                let blocking = (1.0 - rho) * f64::powi(rho, k as i32) / (1.0 - f64::powi(rho, k as i32 + 1));
                assert!(close(queue.blocking, blocking, 1e-12), "rho {rho}, K {k}");
            }
        }
        // At rho 1 all K + 1 states are equally likely.
        assert!(close(mmck(2.0, 2.0, 1, 9).unwrap().blocking, 0.1, 1e-12));
    }

    #[test]
    fn no_room_to_wait_is_erlang_b() {
        // Angus, "An introduction to Erlang B and Erlang C" (2001): 10 servers, 5 Erlang: 0.018.
        assert!((erlang_b(5.0, 1.0, 10).unwrap() - 0.018_385).abs() < 5e-7);
        for (a, c) in [(5.0, 10), (25.2, 28), (900.0, 1000), (5000.0, 1000)] {
            let queue = mmck(a, 1.0, c, c).unwrap();
            assert!(close(queue.blocking, erlang_b(a, 1.0, c).unwrap(), 1e-10), "{a} {c}");
            assert_eq!(queue.w_q, 0.0);
        }
    }

    #[test]
    fn much_room_is_an_open_queue() {
        let (finite, open) = (mmck(0.9, 1.0, 1, 2000).unwrap(), mm1(0.9, 1.0).unwrap());
        assert!(close(finite.w, open.w, 1e-12) && finite.blocking < 1e-90);
        let (finite, open) = (mmck(25.2, 1.0, 28, 5000).unwrap(), mmc(25.2, 1.0, 28).unwrap());
        assert!(close(finite.w, open.w, 1e-12) && close(finite.l, open.l, 1e-12));
    }

    proptest! {
        #[test]
        fn every_load_has_a_steady_state_in_balance(
            rho in 0.001f64..50.0, mu in 1e-3f64..1e9, c in 1u32..500, room in 0u32..2000,
        ) {
            let lambda = rho * mu * f64::from(c);
            let queue = mmck(lambda, mu, c, c + room).unwrap();
            prop_assert!((0.0..=1.0).contains(&queue.blocking));
            // Little's law with the carried rate.
            prop_assert!(close(queue.l, lambda * (1.0 - queue.blocking) * queue.w, 1e-8), "{queue:?}");
        }
    }
}
