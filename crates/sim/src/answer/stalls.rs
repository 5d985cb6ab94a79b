//! What stalls of the system cost that are too rare to be simulated: what comes to a queue while its core does nothing, whether the
//! ring takes it, and what packets wait for until its backlog is gone. [`crate::run::stalls`] has the arithmetic.

use schemars::JsonSchema;
use serde::Serialize;

use crate::run::RunResult;
use crate::run::stalls::{CoreFlow, PlacedStalls, flows, room};
use crate::scenario::Scenario;

/// What stalls of the system cost: the busiest core that receives, and the packets of all cores.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StallsSummary {
    /// Seconds from the end of one to the next, in the mean.
    pub every_s: f64,
    /// The longest.
    pub longest_ns: f64,
    /// Packets that come to the core in the longest.
    pub packets: f64,
    /// Descriptors of its receive rings that are there for them.
    pub descriptors: u64,
    /// Lost over offered packets by stalls alone: what comes beyond those descriptors, in the mean over the lengths, times how often.
    pub loss: f64,
    /// The least `nic.rx_descriptors` that survives the longest; null where that is more than a ring may have.
    pub least_descriptors: Option<u32>,
    /// From the end of the longest until the core has worked off what came meanwhile; null where it never does.
    pub drain_ns: Option<f64>,
    /// The share of packets that come in a stall of their core or before its backlog is gone; null where it never is.
    pub delayed: Option<f64>,
    /// The sojourn that 99 % do not exceed, those packets among them. `sojourn_ns` is without stalls.
    pub p99_ns: Option<f64>,
    /// The sojourn that 99.9 % do not exceed, those packets among them.
    pub p999_ns: Option<f64>,
}

/// Descriptors of the largest ring.
const LARGEST_RING: u64 = 1 << 16;

impl StallsSummary {
    /// Of a run whose cores are stalled so rarely that they were not simulated; none of others, whose own loss and sojourn have theirs.
    pub fn of(result: &RunResult) -> Option<StallsSummary> {
        let stalls = result.stalls.as_ref()?;
        let stages = flows(&result.scenario, &result.measured);
        let busiest = busiest(stages.first()?)?;
        let delays = stalls.delays(&stages);
        let measured = result.measured.measure.sojourn.histogram();
        let quantile = |q: f64| Some(delays.as_ref()?.quantile(measured, q)? / 1e3);
        Some(StallsSummary {
            delayed: delays.as_ref().map(|delays| delays.share),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            ..StallsSummary::from(stalls, &busiest, &result.scenario)
        })
    }

    /// Of the core that `flow` comes to.
    fn from(stalls: &PlacedStalls, flow: &CoreFlow, scenario: &Scenario) -> StallsSummary {
        let drain = stalls.drain(flow);
        StallsSummary {
            every_s: stalls.every,
            longest_ns: stalls.longest() * 1e9,
            packets: flow.rate * stalls.longest(),
            descriptors: flow.room as u64,
            loss: if flow.rate > 0.0 { stalls.lost(flow) / flow.rate } else { 0.0 },
            least_descriptors: least_ring(stalls, flow.rate, scenario),
            drain_ns: drain.is_finite().then_some(drain * 1e9),
            delayed: None,
            p99_ns: None,
            p999_ns: None,
        }
    }
}

/// The core that most packets come to.
pub(super) fn busiest(flows: &[CoreFlow]) -> Option<CoreFlow> {
    flows.iter().copied().max_by(|a, b| a.rate.total_cmp(&b.rate))
}

/// The least `nic.rx_descriptors` that survives the longest of `stalls` at `rate` packets a second to a core.
pub(super) fn least_ring(stalls: &PlacedStalls, rate: f64, scenario: &Scenario) -> Option<u32> {
    let survives = |ring: &u64| room(*ring, scenario) >= rate * stalls.longest();
    let least = (5..=16).map(|bits| 1_u64 << bits).find(survives).filter(|ring| *ring <= LARGEST_RING);
    least.and_then(|ring| u32::try_from(ring).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Overrides;

    fn costs(rate: f64, lengths: &[f64], every: f64, [queues, ring, bulk]: [u32; 3]) -> StallsSummary {
        let mut scenario = Scenario::read("", "test", &Overrides::default()).unwrap();
        (scenario.nic.queues_per_core, scenario.nic.rx_descriptors, scenario.nic.driver.rx_bulk) = (queues, ring, bulk);
        let stalls = PlacedStalls { every, lengths: lengths.to_vec() };
        let room = room(ring.into(), &scenario);
        let flow = CoreFlow { rate, service: 2.0 * rate, room, burst: 32.0, usual: 0.0 };
        StallsSummary::from(&stalls, &flow, &scenario)
    }

    #[test]
    fn what_comes_beyond_the_ring_is_lost_once_a_stall() {
        // 10 Mpps for 20 us are 200 packets, and for 5 us 50; 128 less 32 to be posted take 96.
        let rare = costs(10e6, &[5e-6, 20e-6], 1.0, [1, 128, 32]);
        assert_eq!((rare.packets.round(), rare.descriptors, rare.least_descriptors), (200.0, 96, Some(256)));
        // 104 in every second stall, of 10 million packets a second.
        assert!((rare.loss / (52.0 / 10e6) - 1.0).abs() < 1e-4, "{}", rare.loss);
        // 96 are gone at 10 Mpps more than come.
        assert!((rare.drain_ns.unwrap() - 9_600.0).abs() < 1e-6, "{:?}", rare.drain_ns);
        // A stall of 20 us each 10 us brings 300 packets a time, of which 104 are lost.
        let often = costs(10e6, &[20e-6], 10e-6, [1, 128, 32]);
        assert!((often.loss - 104.0 / 300.0).abs() < 1e-9, "{}", often.loss);
        let two = costs(10e6, &[20e-6], 1.0, [2, 256, 32]);
        assert_eq!((two.descriptors, two.loss, two.least_descriptors), (448, 0.0, Some(256)));
        assert_eq!(costs(100e6, &[1e-3], 1.0, [1, 1024, 1]).least_descriptors, None);
        let idle = costs(0.0, &[1e-3], 1.0, [1, 1024, 1]);
        assert_eq!((idle.loss, idle.drain_ns), (0.0, None));
    }
}
