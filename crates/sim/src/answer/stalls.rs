//! What stalls of the system cost: what comes to a queue while its core does nothing, and whether the ring takes it.
//!
//! Stalls come about once a second, and a run or a trial of a search lasts a fraction of one. So their loss is that of one stall, placed,
//! times how often they come.

use schemars::JsonSchema;
use serde::Serialize;
use units::Ps;

use crate::run::RunResult;

/// What stalls of the system cost the busiest core that receives.
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
}

/// Descriptors of the largest ring.
const LARGEST_RING: u64 = 1 << 16;

impl StallsSummary {
    /// Of a run whose cores are stalled so rarely that it has hardly had a stall; none of others, whose own loss has theirs.
    pub fn of(result: &RunResult) -> Option<StallsSummary> {
        let stalls = result.scenario.machine.core.stalls.as_ref()?;
        let (nic, counts) = (&result.scenario.nic, &result.measured.counts);
        if counts.span == Ps::ZERO || stalls.every.ps() <= counts.span {
            return None;
        }
        let receiving = counts.cores.iter().take(result.scenario.receiving_cores() as usize);
        let (most, all) = receiving.fold((0, 0), |(most, all), core| (core.packets.max(most), all + core.packets));
        // What comes to the busiest, be it worked on or lost.
        let offered = result.measured.measure.offered.packets as f64 / counts.span.as_secs();
        let rate = offered * most as f64 / all.max(1) as f64;
        let lengths: Vec<f64> = stalls.times().iter().map(|time| time.as_secs()).collect();
        Some(StallsSummary::from(
            rate,
            &lengths,
            stalls.every.ps().as_secs(),
            nic.queues_per_core,
            nic.rx_descriptors,
            nic.driver.rx_bulk,
        ))
    }

    /// At `rate` packets a second to the core, which has `queues` rings of `ring` descriptors, posted `bulk` at a time.
    fn from(rate: f64, lengths: &[f64], every: f64, queues: u32, ring: u32, bulk: u32) -> StallsSummary {
        let longest = lengths.iter().copied().fold(0.0, f64::max);
        // Up to a bulk of each ring waits to be posted.
        let usable = |ring: u64| (ring.saturating_sub(u64::from(bulk))) * u64::from(queues);
        let descriptors = usable(ring.into());
        let beyond = |seconds: f64| (rate * seconds - descriptors as f64).max(0.0);
        // From the end of one to the next it is `every`.
        let mean = lengths.iter().sum::<f64>() / lengths.len().max(1) as f64;
        let lost = lengths.iter().copied().map(beyond).sum::<f64>() / lengths.len().max(1) as f64;
        let packets = rate * longest;
        let survives = |ring: &u64| usable(*ring) as f64 >= packets;
        let least = (5..=16).map(|bits| 1_u64 << bits).find(survives).filter(|ring| *ring <= LARGEST_RING);
        StallsSummary {
            every_s: every,
            longest_ns: longest * 1e9,
            packets,
            descriptors,
            loss: if rate > 0.0 { lost / (rate * (every + mean)) } else { 0.0 },
            least_descriptors: least.and_then(|ring| u32::try_from(ring).ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_beyond_the_ring_is_lost_once_a_stall() {
        // 10 Mpps for 20 us are 200 packets, and for 5 us 50; 128 less 32 to be posted take 96.
        let costs = StallsSummary::from(10e6, &[5e-6, 20e-6], 1.0, 1, 128, 32);
        assert_eq!((costs.packets.round(), costs.descriptors, costs.least_descriptors), (200.0, 96, Some(256)));
        // 104 in every second stall, of 10 million packets a second.
        assert!((costs.loss / (52.0 / 10e6) - 1.0).abs() < 1e-4, "{}", costs.loss);
        // A stall of 20 us each 10 us brings 300 packets a time, of which 104 are lost.
        let often = StallsSummary::from(10e6, &[20e-6], 10e-6, 1, 128, 32);
        assert!((often.loss - 104.0 / 300.0).abs() < 1e-9, "{}", often.loss);
        let two = StallsSummary::from(10e6, &[20e-6], 1.0, 2, 256, 32);
        assert_eq!((two.descriptors, two.loss, two.least_descriptors), (448, 0.0, Some(256)));
        assert_eq!(StallsSummary::from(100e6, &[1e-3], 1.0, 1, 1024, 1).least_descriptors, None);
        assert_eq!(StallsSummary::from(0.0, &[1e-3], 1.0, 1, 1024, 1).loss, 0.0);
    }
}
