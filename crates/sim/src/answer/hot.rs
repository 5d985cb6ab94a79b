//! Whether one ring is hot: it overflows while cores of others have time left. Decided here, for the verdict, the summary and Python.
//!
//! More cores help nobody then: they get what is hashed to them, and the hot one keeps what it has. What helps is another spread: of a
//! receive ring by the NIC, of a worker's software queue by what receiving cores choose a worker by.

use machine::nic::Spread;
use schemars::JsonSchema;
use serde::Serialize;
use units::Ps;

use crate::answer::limit::{RateLimit, RateUse, SATURATED};
use crate::answer::words::percent;
use crate::run::RunResult;
use crate::scenario::Scenario;
use crate::server::{CoreCounters, Loss};

/// A ring that gets this much more than an even share is hot.
const HOT_SHARE: f64 = 1.1;
/// Cores that are less busy than this on average have time left.
const HAS_TIME: f64 = 0.9;

/// A ring that gets more than its share of the packets and loses, while other cores of its stage have time left.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HotRing {
    /// The core whose ring it is.
    pub core: usize,
    /// Whether it is that core's receive ring; else the software queue into which receiving cores put what it works on.
    pub receives: bool,
    /// Cores of its stage: an even share of the packets is one over this.
    pub cores: usize,
    /// Its share of the packets that came to the stage.
    pub of_offered: f64,
    /// Its share of what the stage lost before a core had it.
    pub of_lost: f64,
    /// How full it was on average over time, as a share.
    pub full: f64,
    /// Share of time that its core was busy.
    pub busy: f64,
    /// The same of the other cores of the stage, on average.
    pub others_busy: f64,
    /// The same of each core if packets were spread evenly, at what a packet takes of the core that is full; more than 1 where the stage
    /// would lose still. Cores with time left have short bursts, and take longer for each packet.
    pub busy_if_even: f64,
    /// Packets a microsecond that the stage would carry then, by its cores alone.
    pub even_mpps: f64,
    /// What is uneven, in a sentence without its full stop.
    pub text: String,
    /// What spreads packets anew, in words that follow "by".
    pub remedy: String,
}

/// What the ring, or queue, of each core of a stage has room for.
pub(super) fn room(scenario: &Scenario, receives: bool) -> f64 {
    match &scenario.pipeline {
        // One entry stays free, by which full is told from empty.
        Some(pipeline) if !receives => f64::from(pipeline.queue - 1),
        _ => f64::from(scenario.nic.deliveries()) * f64::from(scenario.nic.queues_per_core),
    }
}

impl HotRing {
    /// Of a run; none where no ring is hot, or something else than its core holds packets back.
    pub fn of(result: &RunResult) -> Option<HotRing> {
        let lost = |loss: Loss| result.measured.measure.lost.get(loss.name()).copied().unwrap_or(0);
        let (rings, queues) = (lost(Loss::NoRxDescriptor) + lost(Loss::NoMbuf), lost(Loss::QueueFull));
        let all: u64 = result.measured.measure.lost.values().sum();
        let receives = rings >= queues;
        // Memory that is full holds back all cores, and what overflows before the rings is none of theirs.
        let is_of_cores = matches!(RateUse::of(result).limit(result), RateLimit::Core | RateLimit::Other);
        if all == 0 || rings.max(queues) * 2 < all || !is_of_cores {
            return None;
        }
        let (scenario, counts) = (&result.scenario, &result.measured.counts);
        let (receiving, working) = counts.cores.split_at((scenario.receiving_cores() as usize).min(counts.cores.len()));
        let (stage, first) = if receives { (receiving, 0) } else { (working, receiving.len()) };
        let mut hot = HotRing::among(stage, counts.span, room(scenario, receives))?;
        (hot.core, hot.receives) = (hot.core + first, receives);
        hot.text = hot.told();
        hot.remedy = match scenario.pipeline.as_ref().map(|pipeline| pipeline.spread).filter(|_| !receives) {
            None => {
                "the NIC's indirection table (ethtool -X) or a hash of more fields (ethtool -N rx-flow-hash)".into()
            }
            Some(Spread::Flow) => {
                "a table behind the hash by which receiving cores choose a worker, which is software".into()
            }
            Some(Spread::User) => {
                "a hash of more than the user's address where receiving cores choose a worker (--set pipeline.spread=flow)".into()
            }
        };
        Some(hot)
    }

    /// The hot one of a stage's cores, without its words.
    fn among(stage: &[CoreCounters], span: Ps, room: f64) -> Option<HotRing> {
        let n = stage.len();
        let busy = |core: &CoreCounters| core.busy.as_secs() / span.as_secs();
        let sum = |of: fn(&CoreCounters) -> u64| stage.iter().map(of).sum::<u64>().max(1) as f64;
        let (core, hot) =
            stage.iter().enumerate().max_by_key(|(_, core)| core.lost).filter(|(_, core)| core.lost > 0)?;
        let (offered, lost) = (sum(|core| core.offered), sum(|core| core.lost));
        let others = stage.iter().map(busy).sum::<f64>() - busy(hot);
        let others_busy = others / (n.max(2) - 1) as f64;
        let of_offered = hot.offered as f64 / offered;
        if n < 2 || of_offered * (n as f64) < HOT_SHARE || busy(hot) <= SATURATED || others_busy > HAS_TIME {
            return None;
        }
        let packet = busy(hot) / hot.packets.max(1) as f64;
        Some(HotRing {
            core,
            receives: true,
            cores: n,
            of_offered,
            of_lost: hot.lost as f64 / lost,
            full: hot.waited.as_secs() / span.as_secs() / room,
            busy: busy(hot),
            others_busy,
            busy_if_even: packet * offered / n as f64,
            even_mpps: n as f64 / (packet * span.as_secs() * 1e6),
            text: String::new(),
            remedy: String::new(),
        })
    }

    fn told(&self) -> String {
        let others = self.cores - 1;
        let (came, ring, rings, kind) = match self.receives {
            true => ("the packets", "ring", "rings", "core"),
            false => ("the packets that receiving cores hand over", "software queue", "queues", "worker"),
        };
        let who = if others == 1 { format!("the other {kind} is") } else { format!("the other {others} {kind}s are") };
        format!(
            "core {} gets {} of {came}, an even share is {}, and its {ring} loses {} of those that {rings} lose; it is busy {}, {who} busy {}",
            self.core,
            percent(self.of_offered),
            percent(1.0 / self.cores as f64),
            percent(self.of_lost),
            percent(self.busy),
            percent(self.others_busy)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A microsecond in which a core gets `offered` packets, loses `lost` of them and is busy for `busy` of it.
    fn core(offered: u64, lost: u64, busy: f64) -> CoreCounters {
        let busy = Ps((busy * 1e6) as u64);
        CoreCounters { packets: offered - lost, offered, lost, busy, waited: Ps(64_000_000), ..CoreCounters::default() }
    }

    fn found(stage: &[CoreCounters]) -> Option<HotRing> {
        HotRing::among(stage, Ps(1_000_000), 128.0)
    }

    #[test]
    fn the_ring_that_loses_while_others_have_time_is_hot() {
        let cool = core(10, 0, 0.3);
        let hot = found(&[cool, cool, core(30, 12, 1.0), cool]).unwrap();
        assert_eq!((hot.core, hot.cores, hot.of_offered, hot.of_lost, hot.full), (2, 4, 0.5, 1.0, 0.5));
        assert!((hot.others_busy - 0.3).abs() < 1e-9, "{hot:?}");
        // Of 60 packets 15 come to each, and the full core takes 1/18 of the time for one.
        assert!((hot.busy_if_even - 15.0 / 18.0).abs() < 1e-9 && (hot.even_mpps - 72.0).abs() < 1e-9, "{hot:?}");
        let two = found(&[cool, core(30, 12, 1.0)]).unwrap();
        assert!(two.busy_if_even > 1.0, "an even spread loses, too: {two:?}");
    }

    #[test]
    fn rings_that_lose_alike_and_cores_with_no_time_or_with_some_are_not() {
        let (hot, cool) = (core(30, 12, 1.0), core(10, 0, 0.3));
        let none: [&[CoreCounters]; 7] = [
            &[],
            &[hot],
            &[core(15, 3, 1.0), core(15, 3, 1.0)],
            // No more than a tenth above its share.
            &[core(104, 12, 1.0), core(96, 0, 0.8)],
            // The others have no time left, and the core that loses has some.
            &[hot, core(10, 0, 0.91)],
            &[core(30, 12, 0.94), cool],
            // Nothing lost, however uneven.
            &[core(30, 0, 1.0), cool],
        ];
        for stage in none {
            assert_eq!(found(stage), None, "{stage:?}");
        }
        assert!(found(&[hot, core(10, 0, 0.89)]).is_some() && found(&[core(30, 12, 0.96), cool]).is_some());
        assert!(found(&[core(112, 12, 1.0), core(88, 0, 0.8)]).is_some());
    }
}
