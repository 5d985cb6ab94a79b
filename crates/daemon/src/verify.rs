//! Whether a change of the ways of device writes has an effect: measured before it is relied on.
//!
//! A register can take a value, read back, and change nothing (Ice Lake-SP). So before the policy begins, devices get the most
//! ways for some intervals and then the fewest, and the share of device writes that miss, and memory traffic by packet, are
//! compared. They differ: there is an effect. They do not, where they could have: there is none. Where they could not (no packets,
//! hardly a miss, hardly a hit, or other packets meanwhile): unknown, and the policy goes on as if there were one.
//!
//! This is an experiment on live traffic, so it ends as soon as more packets are lost than before it. What fewer ways for devices
//! did until then may be enough to tell an effect. It does not begin without the counters that it needs.

use control::{Allocation, Lack, Observation, Policy};
use policy::{Floors, Partition};
use serde::{Deserialize, Serialize};

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Device writes follow the setting.
    Measured,
    /// They do not.
    None,
    /// It could not be told.
    Unknown,
}

/// How it is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VerifySpec {
    /// Intervals of each of the two settings.
    pub intervals: u32,
    /// The share of packets that may be lost beyond what was lost before.
    pub loss: f64,
}

/// A policy that begins with the measurement.
pub struct Verified<P> {
    inner: P,
    floors: Floors,
    phase: VerifyPhase,
    measurement: VerifySpec,
    stopped: Option<Stopped>,
}

/// Why a measurement ended early: shares of packets that were lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stopped {
    /// Before it.
    pub before: f64,
    /// In the interval that ended it.
    pub during: f64,
    /// Ways of devices in that interval.
    pub io_ways: u32,
}

enum VerifyPhase {
    /// Nothing is set yet: what is lost without the measurement. Intervals with packets and without other counters are blind.
    Before {
        waited: u32,
        blind: u32,
        looks: Vec<Look>,
    },
    /// One of the two settings: which, intervals seen, and what was seen of each.
    Probe(VerifyProbe),
    Done(Effect),
}

#[derive(Default)]
struct VerifyProbe {
    /// The share that was lost before.
    lost: f64,
    /// The second setting, the fewest ways.
    is_low: bool,
    waited: u32,
    /// Intervals in a row that do not say what is lost.
    blind: u32,
    high: Vec<Look>,
    now: Vec<Look>,
}

/// One interval.
#[derive(Clone, Copy, Debug)]
struct Look {
    miss: f64,
    memory: f64,
    pps: f64,
    bytes: f64,
    /// Of all packets.
    lost: f64,
}

/// Intervals before the measurement that say what is lost without it.
const BEFORE: usize = 2;
/// After so many intervals with packets and without the counters to measure by it is not begun, and after as many without knowing what
/// it loses it ends.
const BLIND: u32 = 3;
/// Intervals after a change that count for nothing: lines leave slowly.
const SETTLE: u32 = 2;
/// Longer is not waited for counters.
const PATIENCE: u32 = 4;
/// Standard errors that a difference must have.
const SIGMAS: f64 = 4.0;
/// And so much it must be at least: of a share, and as a share of memory traffic.
const LEAST: f64 = 0.01;
/// Outside of these miss rates more ways need not change anything.
const TELLING: std::ops::RangeInclusive<f64> = 0.02..=0.9;
/// Such a share of the miss rate must be more than the scatter for its absence to say anything: that there is no effect is
/// remembered for good.
const RESOLVED: f64 = 0.25;
/// Packets that change by more than this are other packets.
const SAME_TRAFFIC: f64 = 0.1;

impl<P: Policy> Verified<P> {
    /// Measures, then is `inner`.
    pub fn new(inner: P, floors: Floors, measurement: VerifySpec) -> Verified<P> {
        let phase = VerifyPhase::Before { waited: 0, blind: 0, looks: Vec::new() };
        Verified { inner, floors, phase, measurement, stopped: None }
    }

    /// Takes it as known.
    pub fn known(inner: P, floors: Floors, effect: Effect) -> Verified<P> {
        let measurement = VerifySpec { intervals: 0, loss: 0.0 };
        Verified { inner, floors, phase: VerifyPhase::Done(effect), measurement, stopped: None }
    }

    /// What was found, once it is.
    pub fn effect(&self) -> Option<Effect> {
        match self.phase {
            VerifyPhase::Done(effect) => Some(effect),
            VerifyPhase::Before { .. } | VerifyPhase::Probe(_) => None,
        }
    }

    /// Packets lost a second in an interval of the measurement, where they are more than there were without it.
    pub fn loses(&self, seen: &Observation) -> Option<f64> {
        let before = match &self.phase {
            VerifyPhase::Probe(probe) => probe.lost,
            // The interval that has just ended the measurement is one of its own.
            VerifyPhase::Done(_) => self.stopped.filter(|stopped| loss(seen) == Some(stopped.during))?.before,
            VerifyPhase::Before { .. } => return None,
        };
        loss(seen).filter(|during| *during > before)?;
        seen.lost_pps.map(|lost| lost.value)
    }

    /// Why the measurement ended early, if it did.
    pub fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    /// The policy itself.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// The ways of devices in the two settings: the fewest and the most.
    pub fn io_ways(&self) -> [u32; 2] {
        [self.floors.io, self.floors.most_io()]
    }

    /// Cores have the same few ways in both settings: else their fills among devices' would differ too.
    fn allocation(&self, is_low: bool) -> Allocation {
        let plan = |io| Partition::new(io, &self.floors).plan(&self.floors);
        let [fewest, most] = self.io_ways();
        let io = plan(if is_low { fewest } else { most }).io;
        Allocation { io_ways: Some(io), ..plan(most).allocation(&self.floors) }
    }

    fn finish(&mut self, effect: Effect, seen: &Observation) -> Option<Allocation> {
        self.phase = VerifyPhase::Done(effect);
        self.inner.decide(seen)
    }

    /// An interval before anything is set.
    fn wait(&mut self, seen: &Observation) -> Option<Allocation> {
        let patience = PATIENCE * self.measurement.intervals;
        let VerifyPhase::Before { waited, blind, looks } = &mut self.phase else { return None };
        *waited += 1;
        let look = look(seen);
        *blind += u32::from(look.is_none() && fresh(seen.received_pps).is_some_and(|pps| pps > 0.0));
        looks.extend(look);
        if looks.len() >= BEFORE {
            let lost = looks.iter().map(|l| l.lost).sum::<f64>() / looks.len() as f64;
            self.phase = VerifyPhase::Probe(VerifyProbe { lost, ..VerifyProbe::default() });
            return Some(self.allocation(false));
        }
        if *blind >= BLIND || *waited > patience {
            return self.finish(Effect::Unknown, seen);
        }
        None
    }

    /// Whether more is lost than the measurement may cost; then it is over.
    fn guard(&mut self, seen: &Observation) -> Option<Effect> {
        let [fewest, most] = self.io_ways();
        let VerifyPhase::Probe(probe) = &mut self.phase else { return None };
        let Some(during) = loss(seen) else {
            probe.blind += 1;
            return (probe.blind >= BLIND).then_some(Effect::Unknown);
        };
        probe.blind = 0;
        if during <= probe.lost + self.measurement.loss {
            return None;
        }
        let io_ways = if probe.is_low { fewest } else { most };
        self.stopped = Some(Stopped { before: probe.lost, during, io_ways });
        Some(match look(seen) {
            Some(look) if probe.is_low => judge_stopped(&probe.high, &look),
            _ => Effect::Unknown,
        })
    }

    /// An interval of one of the two settings.
    fn probe(&mut self, seen: &Observation) -> Option<Allocation> {
        if let Some(effect) = self.guard(seen) {
            return self.finish(effect, seen);
        }
        let VerifyPhase::Probe(VerifyProbe { is_low, .. }) = self.phase else { return None };
        let wanted = self.allocation(is_low);
        let in_force = is_in_force(&wanted, &seen.in_force);
        let intervals = self.measurement.intervals;
        let VerifyPhase::Probe(probe) = &mut self.phase else { return None };
        probe.waited += 1;
        if in_force != Some(true) {
            // Set again what somebody else has changed; for a while.
            if probe.waited > PATIENCE * intervals || in_force.is_none() {
                self.phase = VerifyPhase::Done(Effect::Unknown);
            }
            return in_force.map(|_| wanted);
        }
        if probe.waited > SETTLE {
            probe.now.extend(look(seen));
        }
        if probe.now.len() >= intervals as usize {
            if probe.is_low {
                let effect = judge(&probe.now, &probe.high);
                return self.finish(effect, seen);
            }
            (probe.high, probe.is_low, probe.waited) = (std::mem::take(&mut probe.now), true, 0);
            return Some(self.allocation(true));
        }
        if probe.waited > SETTLE + PATIENCE * intervals {
            return self.finish(Effect::Unknown, seen);
        }
        None
    }
}

/// Whether settings are in force, as far as they can be read; [`None`] if the ways of devices cannot.
fn is_in_force(wanted: &Allocation, read: &Allocation) -> Option<bool> {
    let differs = |(clos, mask): &(units::Clos, units::Cbm)| read.classes.iter().any(|(c, m)| c == clos && m != mask);
    Some(read.io_ways? == wanted.io_ways? && !wanted.classes.iter().any(differs))
}

impl<P: Policy> Policy for Verified<P> {
    fn decide(&mut self, seen: &Observation) -> Option<Allocation> {
        match self.phase {
            VerifyPhase::Before { .. } => self.wait(seen),
            VerifyPhase::Probe(_) => self.probe(seen),
            VerifyPhase::Done(_) => self.inner.decide(seen),
        }
    }

    fn lacks(&self) -> Option<Lack> {
        self.effect().and_then(|_| self.inner.lacks())
    }
}

/// The counter of the interval that has just ended.
fn fresh(counter: control::Counter) -> Option<f64> {
    counter.filter(|s| s.age.0 == 0 && s.value.is_finite()).map(|s| s.value)
}

/// The share of packets that was lost in the interval that has just ended.
fn loss(seen: &Observation) -> Option<f64> {
    let (received, lost) = (fresh(seen.received_pps)?, fresh(seen.lost_pps)?);
    Some(lost / (received + lost)).filter(|share| share.is_finite())
}

/// Counters of the interval that has just ended.
fn look(seen: &Observation) -> Option<Look> {
    let pps = fresh(seen.received_pps).filter(|p| *p > 0.0)?;
    let lost = loss(seen)?;
    let memory = fresh(seen.memory_bytes_per_s).map_or(0.0, |m| m / pps);
    let bytes = fresh(seen.pcie_write_bytes_per_s).map_or(0.0, |b| b / pps);
    Some(Look { miss: fresh(seen.ddio_write_miss_rate)?, memory, pps, bytes, lost })
}

/// The mean, and its variance.
fn mean(looks: &[Look], value: fn(&Look) -> f64) -> (f64, f64) {
    let n = looks.len() as f64;
    let mean = looks.iter().map(value).sum::<f64>() / n;
    let var = looks.iter().map(|l| (value(l) - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, var / n)
}

/// Whether one interval with the fewest ways, which lost too much, differs from those with the most by more than their scatter.
fn judge_stopped(high: &[Look], low: &Look) -> Effect {
    let same = |value: fn(&Look) -> f64| {
        let before = mean(high, value).0;
        (value(low) - before).abs() <= SAME_TRAFFIC * before
    };
    let (miss, var) = mean(high, |l| l.miss);
    let scatter = (var * (high.len() as f64 + 1.0)).sqrt();
    let differs = (low.miss - miss).abs() > (SIGMAS * scatter).max(LEAST);
    // As many packets arrive, of the same size.
    let is_same = same(|l| l.bytes) && same(|l| l.pps / (1.0 - l.lost).max(f64::MIN_POSITIVE));
    if differs && is_same { Effect::Measured } else { Effect::Unknown }
}

fn judge(low: &[Look], high: &[Look]) -> Effect {
    let both = |value: fn(&Look) -> f64| (mean(low, value), mean(high, value));
    let ((a, _), (b, _)) = both(|l| l.bytes);
    if (a - b).abs() > SAME_TRAFFIC * a.max(b) {
        return Effect::Unknown;
    }
    let differs = |value: fn(&Look) -> f64, scale: f64| {
        let ((a, va), (b, vb)) = both(value);
        (a - b).abs() > SIGMAS * (va + vb).sqrt() && (a - b).abs() > LEAST * scale
    };
    let ((miss, _), _) = both(|l| l.miss);
    let ((memory, _), _) = both(|l| l.memory);
    if differs(|l| l.miss, 1.0) || (memory > 0.0 && differs(|l| l.memory, memory)) {
        return Effect::Measured;
    }
    let ((a, _), (b, _)) = both(|l| l.pps);
    let same = (a - b).abs() <= SAME_TRAFFIC * a.max(b);
    let ((_, va), (_, vb)) = both(|l| l.miss);
    let would_show = SIGMAS * (va + vb).sqrt() <= RESOLVED * miss;
    if same && would_show && TELLING.contains(&miss) { Effect::None } else { Effect::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(miss: f64, memory: f64, noise: f64) -> Vec<Look> {
        (0..6)
            .map(|i| {
                let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
                Look { miss: miss + sign * noise, memory, pps: 1e6, bytes: 1500.0, lost: 0.0 }
            })
            .collect()
    }

    #[test]
    fn an_effect_is_a_difference_beyond_its_scatter() {
        assert_eq!(judge(&looks(0.4, 0.0, 0.01), &looks(0.1, 0.0, 0.01)), Effect::Measured);
        assert_eq!(judge(&looks(0.4, 0.0, 0.01), &looks(0.401, 0.0, 0.01)), Effect::None);
        assert_eq!(judge(&looks(0.4, 0.0, 0.2), &looks(0.3, 0.0, 0.2)), Effect::Unknown, "the scatter hides it");
        assert_eq!(judge(&looks(0.4, 900.0, 0.01), &looks(0.4, 400.0, 0.01)), Effect::Measured, "memory tells");
        // Where nothing can be seen nothing is said.
        assert_eq!(judge(&looks(0.97, 0.0, 0.001), &looks(0.97, 0.0, 0.001)), Effect::Unknown);
        assert_eq!(judge(&looks(0.001, 0.0, 0.0), &looks(0.001, 0.0, 0.0)), Effect::Unknown);
        let mut other = looks(0.4, 0.0, 0.01);
        other.iter_mut().for_each(|l| l.bytes = 64.0);
        assert_eq!(judge(&looks(0.1, 0.0, 0.01), &other), Effect::Unknown, "other packets");
    }
    #[test]
    fn an_interval_that_lost_too_much_is_compared_with_those_before() {
        let high = looks(0.1, 0.0, 0.01);
        let low = |miss, bytes, pps| Look { miss, memory: 0.0, pps, bytes, lost: 0.1 };
        assert_eq!(judge_stopped(&high, &low(0.6, 1500.0, 9e5)), Effect::Measured);
        assert_eq!(judge_stopped(&high, &low(0.13, 1500.0, 9e5)), Effect::Unknown, "within the scatter");
        assert_eq!(judge_stopped(&high, &low(0.6, 64.0, 9e5)), Effect::Unknown, "other packets");
        assert_eq!(judge_stopped(&high, &low(0.6, 1500.0, 2e6)), Effect::Unknown, "more packets");
    }
    #[test]
    fn a_measurement_ends_when_all_is_lost_or_nothing_is_known_of_loss() {
        use policy::baseline::Isolated;
        use units::Ps;
        let floors = Floors::default();
        let sample = |value| Some(control::Sample { value, age: Ps::ZERO, interval: Ps(1) });
        let begun = || {
            let measurement = VerifySpec { intervals: 5, loss: 0.01 };
            let mut policy = Verified::new(Isolated::new(floors.clone(), 2), floors.clone(), measurement);
            let seen = Observation {
                received_pps: sample(1e6),
                lost_pps: sample(0.0),
                ddio_write_miss_rate: sample(0.3),
                ..Observation::default()
            };
            let first = (0..BEFORE).find_map(|_| policy.decide(&seen)).unwrap();
            assert_eq!((first.io_ways.unwrap().ways(), policy.effect()), (floors.most_io(), None));
            (policy, Observation { in_force: first, ..seen })
        };
        let (mut policy, seen) = begun();
        assert_eq!(policy.decide(&seen), None, "it goes on");
        assert_eq!(policy.loses(&seen), None);
        let some_lost = Observation { lost_pps: sample(5e3), ..seen.clone() };
        assert_eq!((policy.decide(&some_lost), policy.loses(&some_lost)), (None, Some(5e3)), "less than it may");
        let all_lost = Observation { received_pps: sample(0.0), lost_pps: sample(1e6), ..seen.clone() };
        let back = policy.decide(&all_lost).unwrap();
        assert_eq!((back.io_ways.unwrap().ways(), policy.effect()), (2, Some(Effect::Unknown)));
        assert_eq!(policy.stopped(), Some(Stopped { before: 0.0, during: 1.0, io_ways: floors.most_io() }));
        assert_eq!((policy.loses(&all_lost), policy.loses(&seen)), (Some(1e6), None), "it was the measurement's");
        let (mut policy, seen) = begun();
        let blind = Observation { lost_pps: None, ..seen };
        let ends = (1..10).find(|_| policy.decide(&blind).is_some());
        assert_eq!((ends, policy.effect()), (Some(BLIND), Some(Effect::Unknown)));
    }
}
