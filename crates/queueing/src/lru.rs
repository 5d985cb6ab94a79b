//! Hit rates of LRU caches under independent requests, by Che's approximation, and a system of cores behind them.
//!
//! A line that is requested with probability p is found in a cache of c lines with probability 1 - exp(-p T), where the
//! characteristic time T (in requests) makes these sum to c (Che, Tung and Wang, IEEE JSAC 20(7), 2002; why it is good:
//! Fricker, Robert and Roberts, ITC 24, 2012). Lines come in classes: probability, and how many lines have it.
//!
//! [`victim_hierarchy`] is for private pairs of L1 and L2 in which L2 takes what leaves L1, before a shared cache that takes what
//! leaves any L2 and keeps what is read: private caches are taken to hold different lines, and the shared one to be refreshed by
//! a Poisson process. [`blocking_cores`] is for single-server queues of one random choice each with a limit on all of them
//! together: of exponential services the truncated product form (Kelly, "Reversibility and Stochastic Networks", 1979), with
//! the wait scaled by (1 + scv) / 2 as Pollaczek and Khinchine's is, which is an approximation.

use crate::error::{QueueError, rate};

/// Hit rates of the levels of a hierarchy, each of the lookups that reach it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LruHierarchy {
    /// Private first level.
    pub l1: f64,
    /// Private second level, of those that missed the first.
    pub l2: f64,
    /// Shared level, of those that missed both.
    pub llc: f64,
}

/// A class of lines: the probability that a request is for one of them in particular, and how many there are.
pub type LineClass = (f64, f64);

/// The characteristic time of an LRU cache of `capacity` lines, in requests; infinite if all lines fit.
pub fn characteristic_time(classes: &[LineClass], capacity: f64) -> f64 {
    solve(classes, capacity, |p, t| 1.0 - (-p * t).exp())
}

/// The hit rate of an LRU cache of `capacity` lines.
///
/// ```
/// // Of ten equal lines, five fit.
/// let hits = queueing::lru::hit_rate(&[(0.1, 10.0)], 5.0);
/// assert!((hits - 0.5).abs() < 1e-9);
/// ```
pub fn hit_rate(classes: &[LineClass], capacity: f64) -> f64 {
    let t = characteristic_time(classes, capacity);
    classes.iter().map(|(p, n)| p * n * (1.0 - (-p * t).exp())).sum()
}

/// Hit rates where each of many cores has an L1 and an L2 of so many lines and requests by the same law, and all share an
/// LLC of `llc` lines; 0 lines are no cache. How many cores there are makes no difference but to the LLC's time.
pub fn victim_hierarchy(classes: &[LineClass], l1: f64, l2: f64, llc: f64) -> LruHierarchy {
    let first = if l1 > 0.0 { characteristic_time(classes, l1) } else { 0.0 };
    let both = if l1 + l2 > 0.0 { characteristic_time(classes, l1 + l2) } else { 0.0 };
    let missed = |p: f64, t: f64| (-p * t).exp();
    let presence = |p: f64, t: f64| {
        let touched = p * missed(p, both) * t;
        let mut h = 1.0 - (-touched).exp();
        for _ in 0..30 {
            h = 1.0 - (-touched * (1.0 + h)).exp();
        }
        h
    };
    let last = if llc > 0.0 { solve(classes, llc, presence) } else { 0.0 };
    let (mut after1, mut after2, mut after3) = (0.0, 0.0, 0.0);
    for (p, n) in classes {
        after1 += p * n * missed(*p, first);
        after2 += p * n * missed(*p, both);
        after3 += p * n * missed(*p, both) * (1.0 - presence(*p, last));
    }
    let share = |left: f64, of: f64| if of > 0.0 { 1.0 - left / of } else { 0.0 };
    LruHierarchy { l1: 1.0 - after1, l2: share(after2, after1), llc: share(after3, after2) }
}

/// What cores with queues and a common limit come to. Times in the unit of the rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cores {
    /// Probability that a customer finds the system full.
    pub blocking: f64,
    /// Customers served in a unit of time.
    pub throughput: f64,
    /// Mean time in a queue before service.
    pub w_q: f64,
    /// Mean number of servers that are busy.
    pub busy: f64,
}

/// Poisson arrivals at rate `lambda`, each to one of `servers` queues at random; services of mean 1 / `mu` and squared
/// coefficient of variation `scv`; at most `capacity` customers in all.
///
/// # Errors
/// [`QueueError::Rate`], [`QueueError::Scv`], [`QueueError::NoServer`], and [`QueueError::Capacity`] for a capacity of 0.
pub fn blocking_cores(lambda: f64, mu: f64, scv: f64, servers: u32, capacity: u32) -> Result<Cores, QueueError> {
    let (lambda, mu) = (rate("lambda", lambda)?, rate("mu", mu)?);
    if !(scv.is_finite() && scv >= 0.0) {
        return Err(QueueError::Scv { value: scv });
    }
    if servers == 0 {
        return Err(QueueError::NoServer);
    }
    if capacity == 0 {
        return Err(QueueError::Capacity { capacity, servers: 1 });
    }
    // n customers lie in C queues in binomial(n + C - 1, n) ways, each of weight rho^n. Scaled as they go, against overflow.
    let rho = lambda / mu / f64::from(servers);
    let (mut weight, mut sum, mut customers) = (1.0f64, 1.0f64, 0.0f64);
    for n in 1..=capacity {
        weight *= rho * f64::from(n + servers - 1) / f64::from(n);
        sum += weight;
        customers += f64::from(n) * weight;
        if sum > 1e200 {
            (weight, sum, customers) = (weight / 1e200, sum / 1e200, customers / 1e200);
        }
    }
    let blocking = weight / sum;
    let throughput = lambda * (1.0 - blocking);
    let busy = throughput / mu;
    let w_q = (customers / sum / throughput - 1.0 / mu).max(0.0) * (1.0 + scv) / 2.0;
    Ok(Cores { blocking, throughput, w_q, busy })
}

/// The t at which `presence` sums to `capacity`, by bisection of its logarithm.
fn solve(classes: &[LineClass], capacity: f64, presence: impl Fn(f64, f64) -> f64) -> f64 {
    let all: f64 = classes.iter().map(|(_, n)| n).sum();
    if capacity >= all {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (1e-3f64.ln(), 1e15f64.ln());
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        let held: f64 = classes.iter().map(|(p, n)| n * presence(*p, middle.exp())).sum();
        if held < capacity { low = middle } else { high = middle }
    }
    (0.5 * (low + high)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zipf(n: u32, alpha: f64) -> Vec<LineClass> {
        let all: f64 = (1..=n).map(|i| f64::from(i).powf(-alpha)).sum();
        (1..=n).map(|i| (f64::from(i).powf(-alpha) / all, 1.0)).collect()
    }

    #[test]
    fn a_cache_of_everything_misses_nothing_and_one_of_nothing_hits_nothing() {
        let lines = zipf(100, 0.8);
        assert_eq!(hit_rate(&lines, 100.0), 1.0);
        let none = victim_hierarchy(&lines, 0.0, 0.0, 0.0);
        assert!(none.l1.abs() < 1e-12 && none.l2.abs() < 1e-12 && none.llc.abs() < 1e-12);
    }

    #[test]
    fn hits_grow_with_the_cache() {
        let lines = zipf(1000, 0.83);
        let hits: Vec<f64> = [1.0, 10.0, 100.0, 500.0].iter().map(|c| hit_rate(&lines, *c)).collect();
        assert!(hits.windows(2).all(|pair| pair[0] < pair[1]), "{hits:?}");
    }

    /// One server: M/M/1/K.
    #[test]
    fn one_core_is_mm1k() {
        let ours = blocking_cores(0.9, 1.0, 1.0, 1, 20).unwrap();
        let closed = crate::mmck(0.9, 1.0, 1, 20).unwrap();
        assert!((ours.blocking - closed.blocking).abs() < 1e-12);
        assert!((ours.w_q - (closed.w - 1.0)).abs() < 1e-9);
    }

    #[test]
    fn overload_gives_what_the_servers_can() {
        let many = blocking_cores(1e4, 1.0, 1.0, 28, 2000).unwrap();
        assert!((many.throughput - 28.0).abs() < 0.5, "{many:?}");
        assert!(blocking_cores(1.0, 1.0, 1.0, 0, 1).is_err() && blocking_cores(1.0, 1.0, 1.0, 1, 0).is_err());
    }
}
