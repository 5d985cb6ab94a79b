//! Closed networks: mean value analysis, exact and approximate.

use crate::error::{QueueError, rate};

/// A place that customers of a closed network visit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    /// Service time of all visits of one round, V / mu.
    pub demand: f64,
    /// How many serve at once; 0 for a delay, where nobody waits.
    pub servers: u32,
}

impl Station {
    /// One server, first come, first served.
    pub const fn queue(demand: f64) -> Station {
        Station { demand, servers: 1 }
    }
    /// A delay, where nobody waits: thinking, or a core computing.
    pub const fn delay(demand: f64) -> Station {
        Station { demand, servers: 0 }
    }
}

/// The steady state of a closed network.
#[derive(Clone, Debug, PartialEq)]
pub struct Closed {
    /// Rounds per unit of time.
    pub throughput: f64,
    /// Mean time of a round, delays included.
    pub cycle: f64,
    /// Mean time at each station in a round.
    pub residence: Vec<f64>,
    /// Mean number at each station.
    pub l: Vec<f64>,
    /// Utilisation of each station's servers; 0 for a delay.
    pub rho: Vec<f64>,
}

/// Exact mean value analysis of `customers` alike customers among stations with exponential service
/// (product form).
///
/// A customer that arrives at a station sees it as it is with one customer less (Reiser and
/// Lavenberg, JACM 1980). Stations of several servers keep the probabilities that 0 to c - 1
/// customers are there. Time is customers x stations x servers.
///
/// # Errors
/// [`QueueError::Rate`] for a demand that is not positive, [`QueueError::NoStation`].
///
/// ```
/// use queueing::Station;
/// // One customer never waits.
/// let one = queueing::mva(&[Station::delay(4.0), Station::queue(1.0)], 1)?;
/// assert_eq!(one.throughput, 0.2);
/// # Ok::<(), queueing::QueueError>(())
/// ```
pub fn mva(stations: &[Station], customers: u32) -> Result<Closed, QueueError> {
    check(stations)?;
    // No more servers than customers can be busy.
    let busy = |s: &Station| s.servers.min(customers.max(1));
    // p[j] of a station: the probability that j customers are there, for j < c.
    let mut p: Vec<Vec<f64>> = stations.iter().map(|s| vec![0.0; busy(s).max(1) as usize]).collect();
    p.iter_mut().for_each(|p| p[0] = 1.0);
    let mut l = vec![0.0; stations.len()];
    let mut residence: Vec<f64> = stations.iter().map(|s| s.demand).collect();
    let mut throughput = 0.0;
    for n in 1..=customers {
        for (k, s) in stations.iter().enumerate() {
            residence[k] = match s.servers {
                0 => s.demand,
                1 => s.demand * (1.0 + l[k]),
                _ => {
                    let c = f64::from(busy(s));
                    let idle: f64 = p[k].iter().enumerate().map(|(j, p)| (c - 1.0 - j as f64) * p).sum();
                    s.demand / c * (1.0 + l[k] + idle)
                }
            };
        }
        throughput = f64::from(n) / residence.iter().sum::<f64>();
        for (k, s) in stations.iter().enumerate() {
            l[k] = throughput * residence[k];
            if s.servers > 1 {
                let (c, load) = (f64::from(busy(s)), throughput * s.demand);
                for j in (1..p[k].len()).rev() {
                    p[k][j] = load / j as f64 * p[k][j - 1];
                }
                let waiting: f64 = p[k].iter().enumerate().skip(1).map(|(j, p)| (c - j as f64) * p).sum();
                // Differences of nearly equal numbers: what falls below zero is zero.
                p[k][0] = (1.0 - (load + waiting) / c).max(0.0);
            }
        }
    }
    Ok(answer(stations, customers, throughput, residence, l))
}

/// Approximate mean value analysis, for customers too many for [`mva`]: time does not depend on
/// their number.
///
/// An arriving customer is taken to see (n - 1) / n of the mean number with n customers (Schweitzer
/// 1979, Bard 1979). A station of c servers counts as one server c times as fast and a delay for the
/// rest (Seidmann et al. 1987). The throughput is found between 0 and what the slowest station can
/// carry, by bisection.
///
/// # Errors
/// As [`mva`].
pub fn mva_approximate(stations: &[Station], customers: f64) -> Result<Closed, QueueError> {
    check(stations)?;
    let customers = rate("customers", customers)?;
    let seen = (customers - 1.0).max(0.0) / customers;
    // At throughput x a queue of demand d has x d / (1 - seen x d) customers.
    let residence_at = |x: f64| -> Vec<f64> {
        let of = |s: &Station| match s.servers {
            0 => s.demand,
            c => {
                let d = s.demand / f64::from(c);
                d / (1.0 - seen * x * d) + s.demand - d
            }
        };
        stations.iter().map(of).collect()
    };
    let slowest =
        stations.iter().filter(|s| s.servers > 0).map(|s| s.demand / f64::from(s.servers)).fold(0.0, f64::max);
    let alone: f64 = stations.iter().map(|s| s.demand).sum();
    let mut most = customers / alone;
    if slowest > 0.0 && seen > 0.0 {
        most = most.min(1.0 / (slowest * seen));
    }
    let (mut low, mut high) = (0.0, most);
    for _ in 0..200 {
        let x = 0.5 * (low + high);
        if x == low || x == high {
            break;
        }
        let population = x * residence_at(x).iter().sum::<f64>();
        if population < customers { low = x } else { high = x }
    }
    let residence = residence_at(low);
    let l = residence.iter().map(|r| low * r).collect();
    Ok(answer(stations, customers, low, residence, l))
}

fn answer(
    stations: &[Station],
    customers: impl Into<f64>,
    throughput: f64,
    residence: Vec<f64>,
    l: Vec<f64>,
) -> Closed {
    let cycle = if throughput > 0.0 { customers.into() / throughput } else { residence.iter().sum() };
    let of = |s: &Station| if s.servers == 0 { 0.0 } else { throughput * s.demand / f64::from(s.servers) };
    Closed { throughput, cycle, residence, l, rho: stations.iter().map(of).collect() }
}

fn check(stations: &[Station]) -> Result<(), QueueError> {
    if stations.is_empty() {
        return Err(QueueError::NoStation);
    }
    stations.iter().try_for_each(|s| rate("demand", s.demand).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmck;
    use proptest::prelude::*;

    /// A delay and a queue are M/M/c//N, whose probabilities follow from detailed balance.
    fn repairmen(think: f64, service: f64, servers: u32, customers: u32) -> f64 {
        let mut weights = vec![1.0];
        for n in 1..=customers {
            let ratio = f64::from(customers - n + 1) * service / think / f64::from(n.min(servers));
            weights.push(weights[n as usize - 1] * ratio);
        }
        let sum: f64 = weights.iter().sum();
        let busy: f64 = weights.iter().enumerate().map(|(n, w)| w * f64::from((n as u32).min(servers))).sum();
        busy / sum / service
    }

    #[test]
    fn exact_mva_is_the_machine_repairman() {
        for (think, service, servers, customers) in [(10.0, 1.0, 1, 8), (1.0, 1.0, 3, 20), (100.0, 7.0, 4, 30)] {
            let stations = [Station::delay(think), Station { demand: service, servers }];
            let x = mva(&stations, customers).unwrap().throughput;
            let exact = repairmen(think, service, servers, customers);
            assert!((x / exact - 1.0).abs() < 1e-9, "{x} for {exact}");
        }
    }

    #[test]
    fn two_queues_in_a_ring_are_mm1k() {
        // With N customers and two exponential servers the first sees M/M/1/N.
        let ring = mva(&[Station::queue(1.0), Station::queue(0.7)], 9).unwrap();
        let finite = mmck(1.0, 1.0 / 0.7, 1, 9).unwrap();
        assert!((ring.throughput - (1.0 - finite.blocking)).abs() < 1e-12);
        assert!((ring.l[1] - finite.l).abs() < 1e-9);
    }

    #[test]
    fn many_customers_saturate_the_slowest_station() {
        let stations = [Station::delay(50.0), Station::queue(2.0), Station { demand: 6.0, servers: 2 }];
        let many = mva_approximate(&stations, 1e6).unwrap();
        assert!((many.throughput * 3.0 - 1.0).abs() < 1e-4, "{many:?}");
    }

    proptest! {
        #[test]
        fn approximate_mva_is_near_the_exact(
            demands in prop::collection::vec(0.1f64..10.0, 1..6), think in 0.1f64..100.0, customers in 1u32..100,
        ) {
            let mut stations: Vec<Station> = demands.into_iter().map(Station::queue).collect();
            stations.push(Station::delay(think));
            let (exact, approximate) =
                (mva(&stations, customers).unwrap(), mva_approximate(&stations, customers.into()).unwrap());
            // Schweitzer's error: within a tenth of throughput for balanced networks (Lazowska et al. 1984, section 6.4).
            prop_assert!((approximate.throughput / exact.throughput - 1.0).abs() < 0.1);
            let all: f64 = exact.l.iter().sum();
            prop_assert!((all / f64::from(customers) - 1.0).abs() < 1e-9);
        }
    }
}
