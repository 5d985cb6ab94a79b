//! The search for the highest rate with little loss (RFC 2544 section 26.1).
//!
//! Line rate is tried first; then the interval between a rate that passes and one that does not is halved until it
//! is narrower than the resolution, a share of line rate, as NFVbench does. Which rates are tried depends on the
//! outcomes alone.
//!
//! How long a trial has to be: RFC 2544 section 24 asks for 60 s, which is 10^8 to 10^9 packets. What a trial
//! must be long enough for is that an overload by the resolution shows as loss: until then receive rings and the
//! NIC's packet memory take it in. So a trial has at least as many packets as these hold, divided by the
//! resolution. (FD.io's MLRsearch makes only its last trials long; here all are, since a trial that is too short
//! passes what it should not, and the interval then closes in on the wrong side.)

use packet::ETHERNET_FCS_BYTES;
use traffic::Blueprint;

use crate::scenario::Scenario;

/// Trials are not shorter than this, however small the buffers are: a quantile has to come of them.
const SHORTEST_TRIAL: u64 = 200_000;

/// Packets that the receive side holds before it loses one: all receive descriptors, and the NIC's packet memory
/// in frames of the mean size, FCS included.
pub fn buffered_packets(scenario: &Scenario, mean_frame: f64) -> u64 {
    let rings = u64::from(scenario.receiving_cores()) * u64::from(scenario.nic.rx_descriptors);
    let stored = (mean_frame - ETHERNET_FCS_BYTES as f64).max(1.0);
    rings + (scenario.nic.fifo.bytes() as f64 / stored).ceil() as u64
}

/// Packets after which an overload by the resolution has filled what [`buffered_packets`] counts. The resolution
/// is a share of the line rate, so of a lower rate it is a larger share and shows sooner.
pub fn sufficient_packets(scenario: &Scenario, blueprint: &Blueprint) -> u64 {
    (buffered_packets(scenario, blueprint.mean_size().l2) as f64 / scenario.run.search_resolution).ceil() as u64
}

/// Packets of a trial: as the scenario says, or enough.
pub fn trial_packets(scenario: &Scenario, blueprint: &Blueprint) -> u64 {
    let enough = || sufficient_packets(scenario, blueprint).max(SHORTEST_TRIAL);
    scenario.run.search_packets.unwrap_or_else(enough)
}

/// Where a search is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bisection {
    resolution: f64,
    pass: f64,
    fail: f64,
    /// The share of line rate to try next; [`None`] when the search has ended.
    pub next: Option<f64>,
}

impl Bisection {
    /// At its beginning.
    pub fn new(resolution: f64) -> Bisection {
        Bisection { resolution, pass: 0.0, fail: 1.0, next: Some(1.0) }
    }

    /// The highest share that has passed; 0 if none has.
    pub fn found(&self) -> f64 {
        self.pass
    }

    /// After the next share has been tried.
    pub fn after(self, passed: bool) -> Bisection {
        let Some(share) = self.next else { return self };
        let (pass, fail) = if passed { (share, self.fail) } else { (self.pass, share) };
        let ended = pass >= fail || fail - pass <= self.resolution;
        Bisection { pass, fail, next: (!ended).then_some((pass + fail) / 2.0), ..self }
    }

    /// Shares that may have to be tried, the surest first: the next one, then those after either outcome.
    pub fn ahead(self, most: usize) -> Vec<f64> {
        let mut shares = Vec::new();
        let mut states = vec![self];
        while shares.len() < most && !states.is_empty() {
            shares.extend(states.iter().filter_map(|s| s.next));
            let after = |s: &Bisection| [s.after(true), s.after(false)];
            states = states.iter().filter(|s| s.next.is_some()).flat_map(after).collect();
        }
        shares.truncate(most);
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_share_that_passes_is_found_within_the_resolution() {
        for capacity in [0.0, 0.001, 0.3, 0.6183, 0.999, 1.0] {
            let mut search = Bisection::new(0.01);
            let mut trials = 0;
            while let Some(share) = search.next {
                assert!(search.ahead(7).contains(&share));
                search = search.after(share <= capacity);
                trials += 1;
            }
            assert!(search.found() <= capacity && capacity - search.found() <= 0.01, "{capacity}: {search:?}");
            assert!(trials <= 8);
        }
    }

    #[test]
    fn what_lies_ahead_is_both_outcomes_of_each_trial() {
        let search = Bisection::new(0.01).after(false);
        assert_eq!(search.ahead(7), [0.5, 0.75, 0.25, 0.875, 0.625, 0.375, 0.125]);
        // Line rate: if it passes the search is over.
        assert_eq!(Bisection::new(0.2).ahead(9), [1.0, 0.5, 0.75, 0.25, 0.875, 0.625, 0.375, 0.125]);
    }
}
