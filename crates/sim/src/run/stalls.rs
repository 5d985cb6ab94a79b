//! Stalls of the system in a simulation that is too short to see them: they are placed by arithmetic.
//!
//! Stalls come about once a second, and a run or a trial of a search lasts a fraction of one. Whether it has one would be chance. So
//! it is simulated without, and what stalls cost follows from their lengths, from how often they come, and from the rates at which
//! packets come to a core and leave it.
//!
//! A stall of length L meets a core to which packets come at rate a, and which takes them at rate m in full bursts. Meanwhile aL packets
//! come. Those beyond the room of its rings are lost. The rest waits, and is gone after aL/(m - a), so that a stall delays what comes in
//! Lm/(m - a). In a fluid the first packet waits for L and the last for nothing: waits are uniform from 0 to L. Packets leave in bursts,
//! though, and each waits for the last one of its burst: so the first bursts are reckoned one by one, and the rest as a fluid. What a
//! packet waits for its burst without stalls is taken off, since it is in the sojourn that was measured.
//!
//! Left out: stalls that come before the backlog of the last is gone, what waits in a ring when a stall begins, and a core of one stage
//! of a pipeline that waits for another's backlog. Arrivals are taken as even, and as independent of stalls.

use stats::Histogram;
use units::Ps;

use crate::run::simulate::Measured;
use crate::scenario::Scenario;
use crate::server::CoreCounters;

/// Seconds of a trial of a search, by which stalls count: RFC 2544, section 24.
pub const TRIAL_SECONDS: f64 = 60.0;

/// Stalls that are not simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedStalls {
    /// Seconds from the end of one to the next, in the mean.
    pub every: f64,
    /// How many seconds they last, each as likely.
    pub lengths: Vec<f64>,
}

/// A core to which packets come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreFlow {
    /// Packets a second that come to it.
    pub rate: f64,
    /// Packets a second that it takes in full bursts.
    pub service: f64,
    /// Packets that its queues hold while it is away.
    pub room: f64,
    /// Packets of a full burst.
    pub burst: f64,
    /// Seconds of a burst as it was without stalls, in the mean.
    pub usual: f64,
}

/// Packets that came for so many seconds, and between which seconds they are delayed, each as likely.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DelayRamp {
    seconds: f64,
    from: f64,
    to: f64,
}

/// Bursts of a backlog that are reckoned one by one.
const BURSTS: usize = 16;

impl CoreFlow {
    /// What a stall of `length` seconds delays; the core catches up.
    fn delays(&self, length: f64) -> Vec<DelayRamp> {
        let mut ramps = Vec::new();
        // Packets that find room come for so long, and later ones after a gap; times of arrival are without it.
        let held = length.min(self.room / self.rate);
        let gap = length - held;
        let mut push = |from: f64, to: f64, end: f64| {
            let delay = |at: f64| (end - at - if from < held { 0.0 } else { gap } - self.usual).max(0.0);
            ramps.push(DelayRamp { seconds: to - from, from: delay(to), to: delay(from) });
            delay(to)
        };
        let (mut next, mut free, mut left) = (0.0, length, length);
        for _ in 0..BURSTS {
            let taken = (held + (free - length) - next).max(0.0).min(self.burst / self.rate);
            let (end, to) = (free + taken * self.rate / self.service, next + taken);
            left = if next < held && to > held {
                push(next, held, end);
                push(held, to, end)
            } else {
                push(next, to, end)
            };
            (next, free) = (to, end);
            if left <= 0.0 || taken * self.rate < LEAST_BURST {
                break;
            }
        }
        // From here on a delay shrinks so much a second.
        let shrinks = 1.0 - self.rate / self.service;
        let until = (held - next).max(0.0);
        let last = (left - until * shrinks).max(0.0);
        ramps.push(DelayRamp { seconds: until, from: last, to: left });
        let behind = if until > 0.0 { (last - gap).max(0.0) } else { last };
        ramps.push(DelayRamp { seconds: behind / shrinks, from: 0.0, to: behind });
        ramps
    }
}

/// Packets of a burst below which a backlog is as good as gone.
const LEAST_BURST: f64 = 0.5;

/// What became of packets that came during a stall, or before its backlog was gone.
#[derive(Clone, Debug, PartialEq)]
pub struct StallDelays {
    /// The share of packets that come in a stall or before its backlog is gone.
    pub share: f64,
    /// By shares of packets.
    ramps: Vec<(f64, DelayRamp)>,
}

impl PlacedStalls {
    /// Those of `scenario`, where simulations that take up to `seconds` are too short to see them.
    pub fn of(scenario: &Scenario, seconds: f64) -> Option<PlacedStalls> {
        let spec = scenario.machine.core.stalls.as_ref()?;
        let every = spec.every.ps().as_secs();
        let lengths = spec.times().iter().map(|time| time.as_secs()).collect();
        (every > seconds).then_some(PlacedStalls { every, lengths })
    }

    /// Their mean length in seconds.
    pub fn mean(&self) -> f64 {
        self.lengths.iter().sum::<f64>() / self.lengths.len().max(1) as f64
    }

    /// The longest, in seconds.
    pub fn longest(&self) -> f64 {
        self.lengths.iter().copied().fold(0.0, f64::max)
    }

    /// How many a core has in a second.
    pub fn a_second(&self) -> f64 {
        1.0 / (self.every + self.mean())
    }

    /// Packets that `flow` loses in a second.
    pub fn lost(&self, flow: &CoreFlow) -> f64 {
        let beyond = self.lengths.iter().map(|length| (flow.rate * length - flow.room).max(0.0)).sum::<f64>();
        beyond / self.lengths.len().max(1) as f64 * self.a_second()
    }

    /// How long it takes from the end of the longest until `flow` has worked off what came; never is infinite.
    pub fn drain(&self, flow: &CoreFlow) -> f64 {
        match flow.service > flow.rate {
            true => (flow.rate * self.longest()).min(flow.room) / (flow.service - flow.rate),
            false => f64::INFINITY,
        }
    }

    /// What packets are delayed by that come to the cores of `stages`, each packet to one of each stage. Nothing is known of a core
    /// that never works off what came, nor where stalls leave no time between.
    pub fn delays(&self, stages: &[Vec<CoreFlow>]) -> Option<StallDelays> {
        let mut ramps = Vec::new();
        let often = self.a_second() / self.lengths.len().max(1) as f64;
        for flows in stages {
            let all: f64 = flows.iter().map(|flow| flow.rate).sum();
            for flow in flows.iter().filter(|flow| flow.rate > 0.0) {
                if flow.service <= flow.rate {
                    return None;
                }
                for &length in &self.lengths {
                    let each =
                        flow.delays(length).into_iter().map(|ramp| (flow.rate / all * often * ramp.seconds, ramp));
                    ramps.extend(each);
                }
            }
        }
        let share: f64 = ramps.iter().map(|ramp| ramp.0).sum();
        (share < 1.0).then_some(StallDelays { share, ramps })
    }
}

impl StallDelays {
    /// The least sojourn in picoseconds that a share `q` of packets does not exceed, where `measured` has the sojourns without stalls, on
    /// which delays are independent; none where nothing was measured.
    pub fn quantile(&self, measured: &Histogram, q: f64) -> Option<f64> {
        let (low, high) = (measured.min()?.0 as f64, measured.max()?.0 as f64);
        let steps = SojournSteps::of(measured);
        let at_most = |time: f64| {
            let delayed = self.ramps.iter().map(|&(share, DelayRamp { from, to, .. })| {
                let (from, to) = (from * 1e12, to * 1e12);
                match to - from > 1.0 {
                    true => share * (steps.area(time - from) - steps.area(time - to)) / (to - from),
                    false => share * steps.at_most(time - from),
                }
            });
            (1.0 - self.share) * steps.at_most(time) + delayed.sum::<f64>()
        };
        let longest = self.ramps.iter().map(|(_, ramp)| ramp.to).fold(0.0, f64::max) * 1e12;
        let (mut below, mut above) = (low - 1.0, high + longest);
        while above - below > 1.0 {
            let middle = (above + below) / 2.0;
            if at_most(middle) >= q { above = middle } else { below = middle }
        }
        Some(above)
    }
}

/// A distribution function in steps.
struct SojournSteps {
    /// Where each is, what share is there or before, and the area below the function until there.
    steps: Vec<(f64, f64, f64)>,
}

impl SojournSteps {
    fn of(measured: &Histogram) -> SojournSteps {
        let (mut steps, mut below, n) = (Vec::new(), 0, measured.n() as f64);
        let (mut last, mut area) = ((0.0, 0.0), 0.0);
        for (value, count) in measured.buckets() {
            below += count;
            let at = value.0.min(measured.max().unwrap_or(value).0) as f64;
            area += (at - last.0) * last.1;
            last = (at, below as f64 / n);
            steps.push((at, last.1, area));
        }
        SojournSteps { steps }
    }

    fn last(&self, time: f64) -> Option<(f64, f64, f64)> {
        self.steps[..self.steps.partition_point(|step| step.0 <= time)].last().copied()
    }

    fn at_most(&self, time: f64) -> f64 {
        self.last(time).map_or(0.0, |step| step.1)
    }

    /// Below the function, up to `time`.
    fn area(&self, time: f64) -> f64 {
        self.last(time).map_or(0.0, |(at, share, area)| area + (time - at) * share)
    }
}

/// The cores that packets come to, by stage: those that receive, and those that work on what others have received.
pub fn flows(scenario: &Scenario, measured: &Measured) -> Vec<Vec<CoreFlow>> {
    let (counts, nic) = (&measured.counts, &scenario.nic);
    let seconds = measured.measure.window().as_secs();
    if seconds <= 0.0 || counts.span == Ps::ZERO {
        return Vec::new();
    }
    let (receiving, working) = counts.cores.split_at((scenario.receiving_cores() as usize).min(counts.cores.len()));
    // What comes to a core, be it worked on or lost.
    let offered = measured.measure.offered.packets as f64 / seconds;
    let taken: u64 = receiving.iter().map(|core| core.packets).sum();
    let flow = |core: &CoreCounters, rate: f64, room: f64| CoreFlow {
        rate,
        service: service(core, nic.burst),
        room,
        burst: nic.burst.into(),
        usual: core.busy.as_secs() / core.bursts.max(1) as f64,
    };
    let rings = room(nic.rx_descriptors.into(), scenario);
    let received = receiving.iter().map(|core| flow(core, offered * core.packets as f64 / taken.max(1) as f64, rings));
    let mut stages = vec![received.collect::<Vec<_>>()];
    if let Some(pipeline) = &scenario.pipeline {
        // A ring of DPDK holds one less than it has entries.
        let queue = f64::from(pipeline.queue.saturating_sub(1));
        let handed = working.iter().map(|core| flow(core, core.packets as f64 / counts.span.as_secs(), queue));
        stages.push(handed.collect());
    }
    stages
}

/// Packets that the receive rings of a core hold where each has `ring` descriptors: up to a bulk of each waits to be posted.
pub fn room(ring: u64, scenario: &Scenario) -> f64 {
    let nic = &scenario.nic;
    (ring.saturating_sub(nic.driver.rx_bulk.into()) * u64::from(nic.queues_per_core)) as f64
}

/// Packets a second that a core takes in bursts of `burst`: a burst takes a time and each of its packets another, by least squares over
/// those it had. Where they were all as long, so long a packet as they were.
fn service(core: &CoreCounters, burst: u32) -> f64 {
    let (n, packets, time) = (core.bursts as f64, core.packets as f64, core.busy.as_secs());
    if core.packets == 0 || time <= 0.0 {
        return f64::INFINITY;
    }
    let (mean, took) = (packets / n, time / n);
    let spread = core.burst_squares as f64 / n - mean * mean;
    let with = core.burst_time as f64 / 1e12 / n - mean * took;
    let each = if spread > LEAST_SPREAD { (with / spread).clamp(0.0, took / mean) } else { took / mean };
    let whole = f64::from(burst);
    whole / (took - each * mean + each * whole).max(f64::MIN_POSITIVE)
}

/// Bursts whose packets vary by less, squared, tell nothing of how their time grows with them.
const LEAST_SPREAD: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;

    fn stalls(lengths: &[f64], every: f64) -> PlacedStalls {
        PlacedStalls { every, lengths: lengths.to_vec() }
    }

    /// So small bursts are a fluid.
    const FLUID: CoreFlow = CoreFlow { rate: 10e6, service: 20e6, room: 1_000.0, burst: 1e-3, usual: 0.0 };

    #[test]
    fn waits_are_uniform_until_the_backlog_is_gone() {
        // 20 us each second, half busy: 40 us of arrivals are delayed.
        let often = stalls(&[20e-6], 1.0);
        let delays = often.delays(&[vec![FLUID, FLUID]]).unwrap();
        assert!((delays.share / (40e-6 / 1.00002) - 1.0).abs() < 1e-3, "{}", delays.share);
        assert!((often.drain(&FLUID) - 20e-6).abs() < 1e-12);
        assert_eq!(often.lost(&FLUID), 0.0);
        let mut measured = Histogram::new();
        (0..1_000).for_each(|_| measured.record(Ps::from_ns(1_000)));
        // Half of the delayed ones are beyond half of the length.
        let half = delays.quantile(&measured, 1.0 - delays.share / 2.0).unwrap() / 1e6;
        assert!((half - 11.0).abs() < 0.02, "{half}");
        let none = delays.quantile(&measured, 0.999).unwrap() / 1e6;
        assert!((none - 1.0).abs() < 0.001, "{none}");
    }

    #[test]
    fn behind_a_full_ring_no_packet_waits_longer_than_the_ring_takes() {
        // 200 come, 100 find room. They wait for 20 us down to 15, and those behind for 5 us and less.
        let flow = CoreFlow { room: 100.0, burst: 100.0, ..FLUID };
        let fluid = CoreFlow { room: 100.0, ..FLUID }.delays(20e-6);
        let [.., found, behind] = &fluid[..] else { panic!("{fluid:?}") };
        let near = |ramp: &DelayRamp, expected: [f64; 3]| {
            [ramp.seconds, ramp.from, ramp.to].iter().zip(expected).all(|(a, us)| (a * 1e6 - us).abs() < 0.01)
        };
        assert!(near(found, [10.0, 15.0, 20.0]) && near(behind, [10.0, 0.0, 5.0]), "{fluid:?}");
        assert!((stalls(&[20e-6], 1.0).lost(&flow) - 100.0 / 1.00002).abs() < 1e-6);
        // All of them in a burst of 5 us; in that come 50, which take 2.5, and so on.
        let ramps = flow.delays(20e-6);
        assert!(near(&ramps[0], [10.0, 15.0, 25.0]) && near(&ramps[1], [5.0, 2.5, 7.5]), "{ramps:?}");
        assert!(near(&ramps[2], [2.5, 1.25, 3.75]), "{ramps:?}");
        let all: f64 = ramps.iter().map(|ramp| ramp.seconds * 1e6).sum();
        assert!((all - 20.0).abs() < 0.2, "{all}: 10 us that find room, and 10 until they are gone");
    }

    #[test]
    fn nothing_is_known_of_a_core_that_never_catches_up() {
        let late = CoreFlow { service: 10e6, ..FLUID };
        assert_eq!(stalls(&[1e-6], 1.0).delays(&[vec![late]]), None);
        assert_eq!(stalls(&[1e-6], 1.0).drain(&late), f64::INFINITY);
        let often = CoreFlow { service: 11e6, room: 1e9, ..FLUID };
        assert_eq!(stalls(&[1e-3], 1e-3).delays(&[vec![often]]), None);
    }

    #[test]
    fn a_full_burst_is_reckoned_from_shorter_ones() {
        // 1 us a burst and 50 ns a packet: bursts of 1, 2 and 3.
        let mut core = CoreCounters::default();
        for packets in [1_u64, 2, 3] {
            let took = 1_000_000 + 50_000 * packets;
            core.bursts += 1;
            core.packets += packets;
            core.busy += Ps(took);
            core.burst_squares += packets * packets;
            core.burst_time += packets * took;
        }
        assert!((service(&core, 32) / (32.0 / 2.6e-6) - 1.0).abs() < 1e-9);
        let same = CoreCounters { bursts: 2, packets: 8, busy: Ps::from_ns(800), burst_squares: 32, ..core };
        assert!((service(&same, 32) - 10e6).abs() < 1.0);
        assert_eq!(service(&CoreCounters::default(), 32), f64::INFINITY);
    }
}
