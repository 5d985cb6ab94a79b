//! Times of other rates and sizes that follow each other: what a server's traffic does over a day, in a few milliseconds.
//!
//! Who sends to whom goes on over all phases. The load is the mean over a whole round of them. Left out: phases of captures,
//! which have their own course, and gradual changes.

use rand::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Ps, Span};

use crate::arrivals::{ArrivalSpec, Arrivals};
use crate::error::TrafficError;
use crate::sizes::{SizeSpec, Sizes};

/// More phases than anybody writes down.
const MAX_PHASES: usize = 10_000;

/// A time of traffic of one rate and one distribution of sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseSpec {
    /// How long it lasts.
    pub time: Span,
    /// Packets a second, relative to those of other phases; the load is the mean over all of them.
    #[serde(default = "one")]
    pub rate: f64,
    /// How long frames are meanwhile, in place of the traffic's `sizes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<SizeSpec>,
}

fn one() -> f64 {
    1.0
}

/// The phases of a specification, at least one.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    phases: Vec<TrafficPhase>,
}

#[derive(Clone, Debug)]
struct TrafficPhase {
    time: Ps,
    /// Packets a second, over the mean of a whole round.
    rate: f64,
    sizes: Sizes,
}

impl Schedule {
    /// `sizes` where a phase has none of its own; one phase without end where there are none. `path` is where they stand.
    ///
    /// # Errors
    /// Times and rates that are not above 0, and sizes as [`Sizes::new`].
    pub fn new(sizes: Sizes, phases: &[PhaseSpec], path: &str) -> Result<Schedule, TrafficError> {
        if phases.is_empty() {
            return Ok(Schedule { phases: vec![TrafficPhase { time: Ps::MAX, rate: 1.0, sizes }] });
        }
        if phases.len() > MAX_PHASES {
            return Err(TrafficError::spec(
                path,
                format!("{} phases", phases.len()),
                format!("up to {MAX_PHASES} can be"),
            ));
        }
        let of = |(i, phase): (usize, &PhaseSpec)| {
            let at = |field: &str| format!("{path}[{i}].{field}");
            if phase.time.ps() == Ps::ZERO {
                return Err(TrafficError::spec(at("time"), format!("\"{}\"", phase.time), "more than 0 is wanted"));
            }
            if !(phase.rate.is_finite() && phase.rate > 0.0) {
                return Err(TrafficError::spec(at("rate"), phase.rate, "a number above 0 is wanted"));
            }
            let sizes = match &phase.sizes {
                Some(own) => Sizes::new(own, &at("sizes"))?,
                None => sizes.clone(),
            };
            Ok(TrafficPhase { time: phase.time.ps(), rate: phase.rate, sizes })
        };
        let mut phases: Vec<TrafficPhase> = phases.iter().enumerate().map(of).collect::<Result<_, _>>()?;
        let time: f64 = phases.iter().map(|p| p.time.0 as f64).sum();
        let packets: f64 = phases.iter().map(|p| p.rate * p.time.0 as f64).sum();
        phases.iter_mut().for_each(|p| p.rate *= time / packets);
        Ok(Schedule { phases })
    }

    /// The mean over packets of what `of` says of the sizes of each phase.
    pub fn mean(&self, of: impl Fn(&Sizes) -> f64) -> f64 {
        let [phase] = self.phases.as_slice() else {
            let time: f64 = self.phases.iter().map(|p| p.time.0 as f64).sum();
            return self.phases.iter().map(|p| of(&p.sizes) * p.rate * p.time.0 as f64 / time).sum();
        };
        of(&phase.sizes)
    }

    /// The longest frame of all phases, check sequence included.
    pub fn longest(&self) -> u32 {
        self.phases.iter().map(|p| p.sizes.longest()).max().unwrap_or(0)
    }

    /// The first phase begins, with `pps` packets a second in the mean of a round; `path` is where `arrivals` stands.
    ///
    /// # Errors
    /// As [`Arrivals::new`].
    pub fn start(
        &self,
        arrivals: &ArrivalSpec,
        pps: f64,
        path: &str,
        rng: &mut impl Rng,
    ) -> Result<Phases, TrafficError> {
        let arrivals = Arrivals::new(arrivals, pps, path, rng)?;
        let round = Ps(self.phases.iter().fold(0, |sum, p| sum.saturating_add(p.time.0)));
        let phases = self.phases.clone();
        Ok(Phases { phases, arrivals, last: Ps::ZERO, round, at: 0, begun: Ps::ZERO, within: 0.0 })
    }
}

/// Phases, one of which is under way.
///
/// Packets arrive at the mean rate by a clock of their own, which a phase makes go faster or slower: the mean is kept
/// whatever the arrivals and however short the phases.
#[derive(Clone, Debug)]
pub(crate) struct Phases {
    phases: Vec<TrafficPhase>,
    arrivals: Arrivals,
    /// The last packet's arrival by their own clock.
    last: Ps,
    /// All phases together, by either clock.
    round: Ps,
    at: usize,
    /// When the one under way began.
    begun: Ps,
    /// Of that, gone by the arrivals' own clock, in ps.
    within: f64,
}

state::state!(Phases { values: [last, at, begun, within], arrays: [], parts: [arrivals], built: [phases, round] });

impl Phases {
    /// When the next packet arrives. Times never decrease.
    #[inline]
    pub fn next(&mut self, rng: &mut impl Rng) -> Ps {
        let arrival = self.arrivals.next(rng);
        if self.phases.len() == 1 {
            return arrival;
        }
        let gap = arrival.0 - std::mem::replace(&mut self.last, arrival).0;
        self.begun = Ps(self.begun.0.saturating_add(gap - gap % self.round.0));
        let mut left = (gap % self.round.0) as f64;
        loop {
            let phase = &self.phases[self.at];
            let room = phase.time.0 as f64 * phase.rate - self.within;
            if left < room {
                self.within += left;
                let gone = (self.within / phase.rate) as u64;
                return Ps(self.begun.0.saturating_add(gone.min(phase.time.0 - 1)));
            }
            left -= room;
            self.begun = Ps(self.begun.0.saturating_add(phase.time.0));
            (self.at, self.within) = ((self.at + 1) % self.phases.len(), 0.0);
        }
    }

    /// Whether there is one phase, of arrivals without bursts and states.
    pub fn is_steady(&self) -> bool {
        self.phases.len() == 1 && !self.arrivals.is_modulated()
    }

    /// How long frames are meanwhile.
    #[inline]
    pub fn sizes(&self) -> &Sizes {
        &self.phases[self.at].sizes
    }
}

#[cfg(test)]
mod tests {
    use packet::Packet;
    use units::{PacketRate, Size};

    use super::*;
    use crate::arrivals::{OnOffSpec, Spacing};
    use crate::{Blueprint, Load, SourceSpec};

    fn phase(ms: f64, rate: f64, bytes: u64) -> PhaseSpec {
        PhaseSpec { time: Span::from_ns(ms * 1e6), rate, sizes: Some(SizeSpec::Fixed(Size::from_bytes(bytes))) }
    }

    fn spec(phases: Vec<PhaseSpec>) -> SourceSpec {
        SourceSpec { phases, ..SourceSpec::default() }
    }

    #[test]
    fn each_phase_has_its_rate_and_its_size_and_the_load_is_the_mean() {
        let blueprint = Blueprint::new(&spec(vec![phase(1.0, 3.0, 64), phase(3.0, 1.0, 1500)]), None).unwrap();
        let load = Load::Packets(PacketRate::from_mpps(1.5));
        assert_eq!(blueprint.mean_size().l2, (64.0 + 1500.0) / 2.0, "as many packets of each");
        assert_eq!(blueprint.longest_frame(), 1496);
        let mut source = blueprint.source(5, &load).unwrap();
        let mut packet = Packet::default();
        let mut counts = [0u32; 2];
        // Ten rounds of 4 ms: 3 Mpps for 1 ms, then 1 Mpps for 3 ms.
        let mut last = Ps::ZERO;
        while source.next(&mut packet) && packet.arrival.as_ns() < 40e6 {
            let is_small = packet.arrival.as_ns() % 4e6 < 1e6;
            assert_eq!(packet.frame_bytes, if is_small { 60 } else { 1496 }, "at {}", packet.arrival.as_ns());
            assert!(packet.arrival >= last);
            last = packet.arrival;
            counts[usize::from(!is_small)] += 1;
        }
        // Poisson: 30,000 of each, give or take five standard deviations.
        assert!(counts.iter().all(|n| n.abs_diff(30_000) < 870), "{counts:?}");
    }

    #[test]
    fn the_load_is_the_mean_whatever_the_arrivals_and_however_short_the_phases() {
        let us = |time: f64, rate| PhaseSpec { time: Span::from_ns(time * 1e3), rate, sizes: None };
        let on_off = |on: f64, off: f64| {
            let (on, off) = (Span::from_ns(on * 1e3), Span::from_ns(off * 1e3));
            ArrivalSpec::OnOff(OnOffSpec { on, off, spacing: Spacing::Fixed })
        };
        // Phases shorter than gaps, of one gap and a half, and of some; bursts longer and shorter than phases.
        for (arrivals, phases) in [
            (ArrivalSpec::Fixed, vec![us(0.1, 1.0), us(0.1, 1.0)]),
            (ArrivalSpec::Fixed, vec![us(1.5, 1.0), us(1.5, 3.0)]),
            (ArrivalSpec::Poisson, vec![us(0.3, 1.0), us(7.0, 0.2)]),
            (on_off(20.0, 180.0), vec![us(20.0, 1.0), us(20.0, 1.0)]),
            (on_off(20.0, 180.0), vec![us(5.0, 1.0), us(900.0, 2.0)]),
        ] {
            let told = format!("{arrivals:?} {phases:?}");
            let spec = SourceSpec { arrivals: Some(arrivals), ..spec(phases) };
            let load = Load::Packets(PacketRate::from_mpps(1.0));
            let mut source = Blueprint::new(&spec, None).unwrap().source(5, &load).unwrap();
            let mut packet = Packet::default();
            let mut last = Ps::ZERO;
            (0..400_000).for_each(|_| {
                assert!(source.next(&mut packet) && packet.arrival >= last, "{told}");
                last = packet.arrival;
            });
            // 20,000 bursts of exponential lengths, give or take five standard deviations.
            assert!((last.as_ns() / 400e6 - 1.0).abs() < 0.05, "{told}: {} ns for 400,000", last.as_ns());
        }
    }

    #[test]
    fn phases_that_are_all_the_same_are_no_phases_but_for_chance() {
        let of = |phases| {
            let mut source = Blueprint::new(&spec(phases), None)
                .unwrap()
                .source(5, &Load::Packets(PacketRate::from_mpps(1.0)))
                .unwrap();
            let mut packet = Packet::default();
            (0..50_000).for_each(|_| assert!(source.next(&mut packet)));
            packet.arrival.as_ns()
        };
        let same = PhaseSpec { time: Span::from_ns(1e6), rate: 7.0, sizes: None };
        let (one, many) = (of(Vec::new()), of(vec![same.clone(), same]));
        assert!((many / one - 1.0).abs() < 0.03, "{many} {one}");
    }

    #[test]
    fn phases_that_cannot_be_are_told_where_they_stand() {
        let error = |phases| Blueprint::new(&spec(phases), None).unwrap_err().to_string();
        let text = error(vec![phase(1.0, 1.0, 64), phase(0.0, 1.0, 64)]);
        assert!(text.starts_with("traffic.phases[1].time = "), "{text}");
        assert!(error(vec![phase(1.0, 0.0, 64)]).starts_with("traffic.phases[0].rate = 0: "));
        let text = error(vec![phase(1.0, 1.0, 10)]);
        assert!(text.starts_with("traffic.phases[0].sizes.fixed = "), "{text}");
        let capture = SourceSpec { capture: Some("x.pcap".into()), ..spec(vec![phase(1.0, 1.0, 64)]) };
        assert!(Blueprint::new(&capture, None).unwrap_err().to_string().starts_with("traffic.phases = given"));
    }
}
