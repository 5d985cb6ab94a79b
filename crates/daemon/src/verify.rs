//! Whether a change of the ways of device writes has an effect: measured before it is relied on.
//!
//! A register can take a value, read back, and change nothing (Ice Lake-SP). So before the policy begins, devices get the fewest
//! ways for some intervals and then the most, and the share of device writes that miss, and memory traffic by packet, are
//! compared. They differ: there is an effect. They do not, where they could have: there is none. Where they could not (no packets,
//! hardly a miss, hardly a hit, or other packets meanwhile): unknown, and the policy goes on as if there were one.

use control::{Allocation, Observation, Policy};
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

/// A policy that begins with the measurement.
pub struct Verified<P> {
    inner: P,
    floors: Floors,
    phase: Phase,
    intervals: u32,
}

enum Phase {
    /// One of the two settings: which, intervals seen, and what was seen of each.
    Probe {
        high: bool,
        waited: u32,
        low: Vec<Look>,
        now: Vec<Look>,
    },
    Done(Effect),
}

/// One interval.
#[derive(Clone, Copy, Debug)]
struct Look {
    miss: f64,
    memory: f64,
    pps: f64,
    bytes: f64,
}

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
    /// Measures for `intervals` intervals of each setting, then is `inner`.
    pub fn new(inner: P, floors: Floors, intervals: u32) -> Verified<P> {
        let phase = Phase::Probe { high: false, waited: 0, low: Vec::new(), now: Vec::new() };
        Verified { inner, floors, phase, intervals }
    }

    /// Takes it as known.
    pub fn known(inner: P, floors: Floors, effect: Effect) -> Verified<P> {
        Verified { inner, floors, phase: Phase::Done(effect), intervals: 0 }
    }

    /// What was found, once it is.
    pub fn effect(&self) -> Option<Effect> {
        match self.phase {
            Phase::Done(effect) => Some(effect),
            Phase::Probe { .. } => None,
        }
    }

    /// The policy itself.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// Cores have the same few ways in both settings: else their fills among devices' would differ too.
    fn allocation(&self, high: bool) -> Allocation {
        let plan = |io| Partition::new(io, &self.floors).plan(&self.floors);
        let io = if high { self.floors.most_io() } else { self.floors.io };
        Allocation { io_ways: Some(plan(io).io), ..plan(self.floors.most_io()).allocation(&self.floors) }
    }
}

/// Whether settings are in force, as far as they can be read; [`None`] if the ways of devices cannot.
fn is_in_force(wanted: &Allocation, read: &Allocation) -> Option<bool> {
    let differs = |(clos, mask): &(units::Clos, units::Cbm)| read.classes.iter().any(|(c, m)| c == clos && m != mask);
    Some(read.io_ways? == wanted.io_ways? && !wanted.classes.iter().any(differs))
}

impl<P: Policy> Policy for Verified<P> {
    fn decide(&mut self, seen: &Observation) -> Option<Allocation> {
        let Phase::Probe { high, .. } = self.phase else { return self.inner.decide(seen) };
        let wanted = self.allocation(high);
        let in_force = is_in_force(&wanted, &seen.in_force);
        let intervals = self.intervals;
        let Phase::Probe { high, waited, low, now } = &mut self.phase else { return None };
        if in_force != Some(true) {
            // Set again what somebody else has changed; for a while.
            *waited += 1;
            if *waited > PATIENCE * intervals || in_force.is_none() {
                self.phase = Phase::Done(Effect::Unknown);
            }
            return in_force.map(|_| wanted);
        }
        *waited += 1;
        if *waited > SETTLE
            && let Some(look) = look(seen)
        {
            now.push(look);
        }
        if now.len() >= intervals as usize {
            if *high {
                self.phase = Phase::Done(judge(low, now));
                return self.inner.decide(seen);
            }
            (*low, *high, *waited) = (std::mem::take(now), true, 0);
            return Some(self.allocation(true));
        }
        if *waited > SETTLE + PATIENCE * intervals {
            self.phase = Phase::Done(Effect::Unknown);
            return self.inner.decide(seen);
        }
        None
    }
}

/// Counters of the interval that has just ended.
fn look(seen: &Observation) -> Option<Look> {
    let fresh = |c: control::Counter| c.filter(|s| s.age.0 == 0 && s.value.is_finite()).map(|s| s.value);
    let pps = fresh(seen.received_pps).filter(|p| *p > 0.0)?;
    let memory = fresh(seen.memory_bytes_per_s).map_or(0.0, |m| m / pps);
    let bytes = fresh(seen.pcie_write_bytes_per_s).map_or(0.0, |b| b / pps);
    Some(Look { miss: fresh(seen.ddio_write_miss_rate)?, memory, pps, bytes })
}

fn judge(low: &[Look], high: &[Look]) -> Effect {
    let of = |looks: &[Look], value: fn(&Look) -> f64| {
        let n = looks.len() as f64;
        let mean = looks.iter().map(value).sum::<f64>() / n;
        let var = looks.iter().map(|l| (value(l) - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        (mean, var / n)
    };
    let both = |value: fn(&Look) -> f64| (of(low, value), of(high, value));
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
                Look { miss: miss + sign * noise, memory, pps: 1e6, bytes: 1500.0 }
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
}
