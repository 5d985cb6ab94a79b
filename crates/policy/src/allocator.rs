//! The LLC allocator: four states, and steps that are judged by how the program responds.
//!
//! # The states
//! 5GC2ache (section 5.2, figure 12) has four states and eight numbered transitions between them, and acts where PCIe
//! bandwidth, DDIO write miss rate or LLC miss rate change evidently. Thresholds, step and interval are not given, nor is
//! the state without bottleneck. [`TRANSITIONS`] is that table as we read it: 1 and 3 to 8 are in the text, 2 is what is left
//! over; leaving "no bottleneck" for the core's bottleneck has no number there and is marked so.
//!
//! # Judging by response
//! Absolute thresholds on the two miss rates stick or run away, since with a large pool the DDIO write miss rate is
//! the same for every number of ways. So miss rates only say which directions are open: more ways for devices, or for cores. What
//! is judged is packets per busy second of the receiving cores. Busy time, not throughput, because below saturation throughput
//! has no gradient. What is known of each number of ways is a belief (`belief`), which all samples of a search have a part in. A search
//! goes on while a number of ways within reach promises more than a small share over the best that was seen, or while one side
//! misses nothing and has a way to give. Then it rests at the best that was seen.
//!
//! # Noise, lag and gaps
//! A sample counts if its interval began after the settings were in force, and an interval more (lines that are already
//! in the cache leave slowly). What promises much is gone to at once, what promises little after more samples. Settings that are not in
//! force are applied again. Without packets, bytes of devices or busy time nothing can be judged: those are waited for. A miss rate that is
//! missing is unknown, not low: its side is not tried unless packets are lost, and "no bottleneck" is not said. [`Policy::lacks`] has
//! what is missing once it has been for some intervals.
//!
//! # Rest
//! At rest nothing changes until packets have another size, a miss rate's mean over some intervals is another, or packets are lost where none
//! were. The rate alone, and what it does to one interval, is no reason. But for another size it is looked again only after a
//! cool-down, which doubles each time. Without any reason it is looked again after a long time, which doubles each time in vain.
//! What is believed of each class of packet size is kept, and is where the search begins when it comes back.

use control::{Allocation, Counter, Lack, Observation, Policy, Sample};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Ps;

use crate::belief::Belief;
use crate::{Floors, Partition, PolicyError};

/// What limits the program, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bottleneck {
    /// Both miss rates are low.
    NoBottleneck,
    /// Device writes miss, and a way more for them is being tried or pays.
    DdioBottleneck,
    /// Cores miss, and a way more for them is being tried or pays.
    CoreBottleneck,
    /// Neither more ways for devices nor fewer pay.
    Balance,
}

impl Bottleneck {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Bottleneck::NoBottleneck => "no bottleneck",
            Bottleneck::DdioBottleneck => "DDIO bottleneck",
            Bottleneck::CoreBottleneck => "core bottleneck",
            Bottleneck::Balance => "balance",
        }
    }
}

/// Why a state is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Both miss rates have become low.
    MissesLow,
    /// Device writes miss more than cores do.
    DdioMisses,
    /// Cores miss more than device writes do.
    CoreMisses,
    /// The last step in the state's direction was taken back.
    StepInVain,
}

/// A row of the table of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The number in the paper's figure 12; [`None`] for what it leaves out.
    pub number: Option<u8>,
    /// The state that is left.
    pub from: Bottleneck,
    /// Why.
    pub cause: Cause,
    /// The state that is entered.
    pub to: Bottleneck,
}

/// The table of states.
pub const TRANSITIONS: [Transition; 9] = {
    use Bottleneck::*;
    use Cause::*;
    const fn row(number: u8, from: Bottleneck, cause: Cause, to: Bottleneck) -> Transition {
        Transition { number: if number == 0 { None } else { Some(number) }, from, cause, to }
    }
    [
        row(1, DdioBottleneck, MissesLow, NoBottleneck),
        row(2, NoBottleneck, DdioMisses, DdioBottleneck),
        row(3, DdioBottleneck, StepInVain, Balance),
        row(4, Balance, DdioMisses, DdioBottleneck),
        row(5, Balance, MissesLow, NoBottleneck),
        row(6, Balance, CoreMisses, CoreBottleneck),
        row(7, CoreBottleneck, StepInVain, Balance),
        row(8, CoreBottleneck, MissesLow, NoBottleneck),
        row(0, NoBottleneck, CoreMisses, CoreBottleneck),
    ]
};

/// How the allocator judges. The defaults are those that the study over random schedules was made with
/// (`tests/suite/regret.rs`); none is from the paper, which gives none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AllocatorSpec {
    /// What each part keeps.
    pub floors: Floors,
    /// Ways of devices at the start.
    pub start_io: u32,
    /// The class of service of receiving cores, whose busy time is judged by.
    pub rx_class: u8,
    /// A miss rate above this is a bottleneck.
    pub miss_rate: f64,
    /// Other ways are looked at where that promises more than this share, and gone to where they gain more.
    pub gain: f64,
    /// Intervals that are averaged after a step, at least.
    pub samples: u32,
    /// And before a step that promises little, or none.
    pub most_samples: u32,
    /// Ways of a step, at most.
    pub reach: u32,
    /// Steps of a search, at most.
    pub steps: u32,
    /// Intervals after a change in which nothing is judged.
    pub settle: u32,
    /// A change of a miss rate's mean over some intervals by this much is a change of traffic; lost packets where there were none are
    /// one from a tenth of it on.
    pub miss_change: f64,
    /// A change of the mean packet by this share is.
    pub size_change: f64,
    /// Intervals of rest after which a change of traffic is looked for; doubles each time that the search was in vain.
    pub cool_down: u32,
    /// Intervals of rest after which it is looked again; doubles each time in vain.
    pub retry: u32,
}

impl Default for AllocatorSpec {
    fn default() -> AllocatorSpec {
        AllocatorSpec {
            floors: Floors::default(),
            start_io: 2,
            rx_class: 1,
            miss_rate: 0.01,
            gain: 0.003,
            samples: 1,
            most_samples: 4,
            reach: 2,
            steps: 12,
            settle: 1,
            miss_change: 0.1,
            size_change: 0.1,
            cool_down: 16,
            retry: 1024,
        }
    }
}

impl AllocatorSpec {
    /// Checks the numbers; `path` is where the specification stands.
    ///
    /// # Errors
    /// As [`Floors::check`], and shares or counts that cannot be.
    pub fn check(&self, path: &str) -> Result<(), PolicyError> {
        self.floors.check(&format!("{path}.floors"))?;
        let share = [
            ("miss_rate", self.miss_rate),
            ("gain", self.gain),
            ("miss_change", self.miss_change),
            ("size_change", self.size_change),
        ];
        if let Some((what, came)) = share.into_iter().find(|(_, x)| !(0.0..=1.0).contains(x)) {
            let (path, came) = (format!("{path}.{what}"), came.to_string());
            return Err(PolicyError::Value { path, came, allowed: "a share of 0 to 1 is wanted".into() });
        }
        for (what, came) in [
            ("samples", self.samples),
            ("most_samples", self.most_samples),
            ("reach", self.reach),
            ("steps", self.steps),
        ] {
            if !(1..=1000).contains(&came) {
                let (path, came) = (format!("{path}.{what}"), came.to_string());
                return Err(PolicyError::Value { path, came, allowed: "allowed are 1 to 1000".into() });
            }
        }
        Ok(())
    }
}

/// The allocator. See the module header.
#[derive(Clone, Debug)]
pub struct Allocator {
    spec: AllocatorSpec,
    state: Bottleneck,
    partition: Partition,
    phase: AllocatorPhase,
    /// The settings in force are those wanted since then.
    since: Option<Ps>,
    /// The end of the interval that was last judged.
    judged: Option<Ps>,
    /// Of packets of the size that come.
    belief: Belief,
    /// What was believed of others, by class of packet size, and where that led.
    memory: [Option<(Partition, Belief)>; SIZE_CLASSES],
    retry: u32,
    cool_down: u32,
    /// Transitions so far, the last ones.
    history: Vec<Transition>,
    /// What the last intervals lacked, and how many they were.
    absent: Option<(Lack, u32)>,
    /// The miss rate whose absence left the last step undecided.
    one_sided: Option<Lack>,
}

/// Mean packets up to 96, 192, 384, 768, 1200 bytes, and beyond.
const SIZE_CLASSES: usize = 6;
const SIZE_LIMITS: [f64; SIZE_CLASSES - 1] = [96.0, 192.0, 384.0, 768.0, 1200.0];
/// Transitions that are kept for reports.
const HISTORY: usize = 64;
/// Retries are at most this many times `retry` apart.
const MOST_DOUBLING: u32 = 32;
/// Intervals of rest of which traffic is told by, and of late.
const SAMPLES_THEN: u32 = 16;
const SAMPLES_LATE: u32 = 8;
/// How far what was believed may be off when traffic comes back, or has changed: from way to way, and for all.
const LOOSENS: (f64, f64) = (0.06, 0.05);
/// What promises as many times the least gain is gone to at once, and packets whose size is as many times too far off are others.
const CLEARLY: f64 = 4.0;
const CLEARLY_ODD: f64 = 3.0;
/// Standard deviations by which other ways have to gain to be gone to at rest.
const SURE: f64 = 3.0;
/// What is missing for as many intervals in a row is a lack: rates need two readings, and a counter may miss one.
const LACKING: u32 = 3;

#[derive(Clone, Debug)]
enum AllocatorPhase {
    /// Looks for the best ways: the mean since the last step, how many steps were made, and where it began.
    Search { mean: Mean, steps: u32, from: Partition },
    /// Nothing is to be changed: what was seen when rest began, what is seen of late, for how many intervals, and how many of the last
    /// ones had packets of another size.
    Rest { then: Mean, late: Mean, quiet: u32, odd: u32 },
}

/// What is judged by, averaged over intervals.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    n: u32,
    bytes: f64,
    /// Unknown until the first sample that has it.
    io_miss: Option<f64>,
    core_miss: Option<f64>,
    lost: Option<f64>,
}

/// One interval's counters.
#[derive(Clone, Copy, Debug)]
struct Sight {
    /// Packets a busy second of the receiving cores.
    score: f64,
    /// Packets a second.
    rate: f64,
    /// Of a packet.
    bytes: f64,
    io_miss: Option<f64>,
    core_miss: Option<f64>,
    /// The share of packets that were lost.
    lost: Option<f64>,
}

impl Mean {
    /// Takes a sample in, as one of `most` at most.
    fn add(&mut self, s: &Sight, most: u32) {
        self.n = (self.n + 1).min(most);
        let n = f64::from(self.n);
        let mean = |old: f64, new: f64| old + (new - old) / n;
        self.bytes = mean(self.bytes, s.bytes);
        // A counter that is missing is what it was, or still unknown.
        let known = |old: Option<f64>, new: Option<f64>| match (old, new) {
            (Some(old), Some(new)) => Some(mean(old, new)),
            (old, new) => old.or(new),
        };
        self.io_miss = known(self.io_miss, s.io_miss);
        self.core_miss = known(self.core_miss, s.core_miss);
        self.lost = known(self.lost, s.lost);
    }
}

impl Allocator {
    /// An allocator at the start.
    ///
    /// # Errors
    /// As [`AllocatorSpec::check`], with path `policy`.
    pub fn new(spec: AllocatorSpec) -> Result<Allocator, PolicyError> {
        spec.check("policy")?;
        let partition = Partition::new(spec.start_io, &spec.floors);
        Ok(Allocator {
            retry: spec.retry,
            cool_down: spec.cool_down,
            belief: Belief::new(spec.floors.io, spec.floors.most_io()),
            spec,
            state: Bottleneck::NoBottleneck,
            partition,
            phase: AllocatorPhase::Search { mean: Mean::default(), steps: 0, from: partition },
            since: None,
            judged: None,
            memory: Default::default(),
            history: Vec::new(),
            absent: None,
            one_sided: None,
        })
    }

    /// What limits the program, as far as is known.
    pub fn state(&self) -> Bottleneck {
        self.state
    }

    /// The partition that is wanted.
    pub fn partition(&self) -> Partition {
        self.partition
    }

    /// Whether nothing is being tried.
    pub fn is_at_rest(&self) -> bool {
        matches!(self.phase, AllocatorPhase::Rest { .. })
    }

    /// The latest transitions, oldest first.
    pub fn history(&self) -> &[Transition] {
        &self.history
    }

    /// Goes from state to state as the table has it; a cause that the state does not know changes nothing.
    fn go(&mut self, cause: Cause) {
        if let Some(row) = TRANSITIONS.iter().find(|t| t.from == self.state && t.cause == cause) {
            self.state = row.to;
            if self.history.len() == HISTORY {
                self.history.remove(0);
            }
            self.history.push(*row);
        }
    }

    /// The first thing that an observation lacks to be judged, whenever its settings took effect.
    fn lack(&self, seen: &Observation) -> Option<Lack> {
        let is_there = |c: Counter| c.is_some_and(is_sound);
        let rx = seen.classes.iter().find(|c| c.clos.0 == self.spec.rx_class);
        // Who receives packets is busy for some of the time.
        let receives = seen.received_pps.is_some_and(|p| p.value > 0.0);
        let busy = rx.and_then(|c| c.busy).filter(|s| is_sound(*s) && (s.value > 0.0 || !receives));
        let mut cores = seen.classes.iter().filter(|c| self.spec.floors.core_classes.contains(&c.clos.0));
        let has_misses = is_there(seen.ddio_write_miss_rate) || cores.any(|c| is_there(c.llc_miss_rate));
        let needs = [
            (is_there(seen.received_pps), Lack::Received),
            (is_there(seen.pcie_write_bytes_per_s), Lack::DeviceBytes),
            (busy.is_some(), Lack::Busy),
            (seen.in_force.io_ways.is_some(), Lack::DeviceWays),
            // A program that receives nothing makes no device writes that could miss.
            (has_misses || !receives, Lack::MissRates),
        ];
        needs.into_iter().find_map(|(has, lack)| (!has).then_some(lack))
    }

    /// The counters of an interval that may be judged: complete, sound, not judged before, and begun after the settings
    /// took effect.
    fn sight(&mut self, seen: &Observation) -> Option<Sight> {
        let since = self.since?;
        let settled = Ps(since.0 + seen.interval.0 * u64::from(self.spec.settle));
        let sound = |c: Counter| c.filter(|s| is_sound(*s) && seen.at.since(Ps(s.age.0 + s.interval.0)) >= settled);
        let pps = sound(seen.received_pps)?;
        let bytes = sound(seen.pcie_write_bytes_per_s)?.value;
        let rx = seen.classes.iter().find(|c| c.clos.0 == self.spec.rx_class)?;
        let busy = sound(rx.busy)?.value;
        let end = seen.at.since(pps.age);
        if self.judged.is_some_and(|judged| end <= judged) || pps.value <= 0.0 || busy <= 0.0 {
            return None;
        }
        self.judged = Some(end);
        let cores = seen.classes.iter().filter(|c| self.spec.floors.core_classes.contains(&c.clos.0));
        let core_miss = cores.filter_map(|c| sound(c.llc_miss_rate)).map(|s| s.value).reduce(f64::max);
        let lost = sound(seen.lost_pps).map(|lost| lost.value / (lost.value + pps.value));
        Some(Sight {
            score: pps.value / busy.min(1.0),
            rate: pps.value,
            lost,
            bytes: bytes / pps.value,
            io_miss: sound(seen.ddio_write_miss_rate).map(|s| s.value),
            core_miss,
        })
    }

    /// Whether devices, or cores, may want more ways: they miss, or nobody knows whether they do and packets are lost.
    fn wants(&self, up: bool, mean: &Mean) -> bool {
        let loses = mean.lost.is_some_and(|lost| lost > self.spec.miss_change / 10.0);
        let miss = if up { mean.io_miss } else { mean.core_miss };
        miss.map_or(up && loses, |miss| miss > self.spec.miss_rate)
    }

    /// The ways to look at next, from those of now: what promises most over the best that was seen, within reach, in a direction
    /// that someone wants. Of a search that has seen nothing else, the direction in which more is missed.
    fn next(&self, mean: &Mean) -> Option<(u32, f64)> {
        let (now, reach) = (self.partition.io(), self.spec.reach);
        let up_first = mean.io_miss.unwrap_or(1.0) >= mean.core_miss.unwrap_or(0.0);
        let best = self.belief.best(now);
        let is_first = (self.spec.floors.io..=self.spec.floors.most_io())
            .all(|ways| ways == now || self.belief.samples(ways) == 0);
        let can = [self.wants(true, mean), self.wants(false, mean)];
        let one_way = is_first && can == [true, true];
        let far = (now.saturating_sub(reach)..=now + reach)
            .filter(|ways| *ways != now && Partition::new(*ways, &self.spec.floors).io() == *ways)
            .filter(|ways| can[usize::from(*ways < now)] && (!one_way || (*ways > now) == up_first));
        let (ways, promise) =
            far.map(|ways| (ways, self.belief.promise(ways, best))).max_by(|a, b| a.1.total_cmp(&b.1))?;
        if promise > self.spec.gain {
            return Some((ways, promise));
        }
        // Who misses nothing has a way to give.
        let up = can[0] && mean.core_miss.is_some_and(|miss| miss <= self.spec.miss_rate);
        let down = can[1] && mean.io_miss.is_some_and(|miss| miss <= self.spec.miss_rate);
        let ways = if up {
            now + 1
        } else if down {
            now.saturating_sub(1)
        } else {
            return None;
        };
        let there = Partition::new(ways, &self.spec.floors).io() == ways && self.belief.samples(ways) == 0;
        there.then_some((ways, promise))
    }

    /// Enters the state of a bottleneck of devices, or of cores.
    fn is_limited_by(&mut self, devices: bool) {
        // The figure has no way from one bottleneck to the other but through balance.
        let elsewhere = if devices { Bottleneck::CoreBottleneck } else { Bottleneck::DdioBottleneck };
        if self.state == elsewhere {
            self.go(Cause::StepInVain);
        }
        self.go(if devices { Cause::DdioMisses } else { Cause::CoreMisses });
    }

    /// Takes up rest with what was seen there.
    fn rest(&mut self, mean: Mean) {
        self.memory[size_class(mean.bytes)] = Some((self.partition, self.belief.clone()));
        let limit = self.spec.miss_rate;
        let is_low = |miss: Option<f64>| miss.is_some_and(|m| m <= limit);
        let wants = [true, false].map(|up| self.wants(up, &mean));
        if is_low(mean.io_miss) && is_low(mean.core_miss) {
            self.go(Cause::MissesLow);
        } else if wants.contains(&true) {
            if self.state == Bottleneck::NoBottleneck {
                self.is_limited_by(wants[0]);
            }
            self.go(Cause::StepInVain);
        } else if matches!(self.state, Bottleneck::DdioBottleneck | Bottleneck::CoreBottleneck) {
            self.go(Cause::StepInVain);
        }
        // Where one side is unknown, that the other wants nothing decides nothing.
        let is_content = |miss: Option<f64>| miss.is_none_or(|miss| miss <= limit);
        self.one_sided = match (mean.io_miss, mean.core_miss) {
            (None, None) => Some(Lack::MissRates),
            (None, core) if is_content(core) => Some(Lack::DeviceMisses),
            (io, None) if is_content(io) => Some(Lack::CoreMisses),
            _ => None,
        };
        self.phase = AllocatorPhase::Rest { then: Mean::default(), late: Mean::default(), quiet: 0, odd: 0 };
    }

    /// Begins to look where packets have `bytes` bytes, a size of another class perhaps.
    fn arm(&mut self, bytes: f64) {
        (self.retry, self.cool_down) = (self.spec.retry, self.spec.cool_down);
        match self.memory[size_class(bytes)].clone() {
            Some((known, belief)) => {
                self.belief = belief;
                self.set(known);
            }
            None => self.belief = Belief::new(self.spec.floors.io, self.spec.floors.most_io()),
        }
        self.search();
    }

    /// Begins to look again.
    fn search(&mut self) {
        self.belief.loosen(LOOSENS.0, LOOSENS.1);
        self.belief.forget_places();
        self.one_sided = None;
        self.phase = AllocatorPhase::Search { mean: Mean::default(), steps: 0, from: self.partition };
    }

    fn set(&mut self, partition: Partition) {
        if partition != self.partition {
            self.partition = partition;
            self.since = None;
        }
    }

    fn judge(&mut self, s: &Sight) {
        match self.phase.clone() {
            AllocatorPhase::Search { mut mean, steps, from } => {
                if mean.n > 0 && apart(s.bytes, mean.bytes) > self.spec.size_change {
                    self.arm(s.bytes);
                    return;
                }
                mean.add(s, u32::MAX);
                self.belief.see(self.partition.io(), s.score, s.rate);
                self.phase = AllocatorPhase::Search { mean, steps, from };
                if mean.n >= self.spec.samples {
                    self.step(mean, steps, from);
                }
            }
            AllocatorPhase::Rest { mut then, mut late, quiet, odd } => {
                let odd = if then.n > 0 && apart(s.bytes, then.bytes) > self.spec.size_change { odd + 1 } else { 0 };
                // One that is a little odd may be noise.
                if odd >= 2 || odd == 1 && apart(s.bytes, then.bytes) > CLEARLY_ODD * self.spec.size_change {
                    self.arm(s.bytes);
                    return;
                }
                if odd == 0 {
                    if then.n < SAMPLES_THEN {
                        then.add(s, SAMPLES_THEN);
                    }
                    late.add(s, SAMPLES_LATE);
                    self.belief.see(self.partition.io(), s.score, s.rate);
                }
                self.phase = AllocatorPhase::Rest { then, late, quiet: quiet.saturating_add(1), odd };
                self.stay(&then, &late, quiet);
            }
        }
    }

    /// Takes the next step of a search after `mean`, or rests.
    fn step(&mut self, mean: Mean, steps: u32, from: Partition) {
        let now = self.partition.io();
        let next = self.next(&mean).filter(|_| steps < self.spec.steps);
        // What promises little is worth more samples first.
        if mean.n < self.spec.most_samples && next.is_none_or(|(_, promise)| promise < CLEARLY * self.spec.gain) {
            return;
        }
        if let Some((to, _)) = next {
            self.is_limited_by(to > now);
            self.set(Partition::new(to, &self.spec.floors));
            self.phase = AllocatorPhase::Search { mean: Mean::default(), steps: steps + 1, from };
            return;
        }
        self.set(Partition::new(self.belief.best(now), &self.spec.floors));
        let twice = |now: u32, first: u32| now.saturating_mul(2).min(first.saturating_mul(MOST_DOUBLING));
        // What changed without another size may change again and again: looked for less and less often.
        self.cool_down = twice(self.cool_down, self.spec.cool_down);
        self.retry = if self.partition == from { twice(self.retry, self.spec.retry) } else { self.spec.retry };
        self.rest(mean);
    }

    /// At rest for `quiet` intervals: looks again where traffic has changed, or after a long time, and goes where it has
    /// become sure that it is better.
    fn stay(&mut self, then: &Mean, late: &Mean, quiet: u32) {
        let most = self.spec.miss_change;
        let loses =
            late.lost.is_some_and(|lost| lost > most / 10.0) && then.lost.is_some_and(|then| then < most / 100.0);
        let changed = differs(late.io_miss, then.io_miss, most) || differs(late.core_miss, then.core_miss, most);
        // A counter for want of which nothing could be decided is new whenever it comes.
        let comes = match self.one_sided {
            Some(Lack::DeviceMisses) => late.io_miss.is_some(),
            Some(Lack::CoreMisses) => late.core_miss.is_some(),
            Some(_) => late.io_miss.or(late.core_miss).is_some(),
            None => false,
        };
        if comes || quiet >= self.cool_down && (changed || loses) || quiet >= self.retry {
            self.search();
            return;
        }
        let now = self.partition.io();
        let (gain, sd) = self.belief.gain(self.belief.best(now), now);
        if gain > self.spec.gain && gain > SURE * sd {
            self.set(Partition::new(self.belief.best(now), &self.spec.floors));
        }
    }
}

impl Policy for Allocator {
    fn decide(&mut self, seen: &Observation) -> Option<Allocation> {
        let times = self.absent.map_or(0, |(_, times)| times);
        self.absent = self.lack(seen).map(|lack| (lack, times.saturating_add(1)));
        let plan = self.partition.plan(&self.spec.floors);
        if !plan.is_in_force(&seen.in_force, &self.spec.floors)? {
            self.since = None;
            return Some(plan.allocation(&self.spec.floors));
        }
        self.since.get_or_insert(seen.at);
        let sight = self.sight(seen)?;
        let before = self.partition;
        self.judge(&sight);
        (self.partition != before).then(|| self.partition.plan(&self.spec.floors).allocation(&self.spec.floors))
    }

    fn lacks(&self) -> Option<Lack> {
        self.absent.filter(|(_, times)| *times >= LACKING).map(|(lack, _)| lack).or(self.one_sided)
    }
}

fn is_sound(sample: Sample) -> bool {
    sample.value.is_finite() && sample.value >= 0.0
}

/// Whether a miss rate is another than it was, by more than `most`.
fn differs(now: Option<f64>, then: Option<f64>, most: f64) -> bool {
    now.zip(then).is_some_and(|(now, then)| (now - then).abs() > most)
}

/// How far a value is from what it was, as a share of that.
fn apart(now: f64, then: f64) -> f64 {
    if then > 0.0 { (now / then - 1.0).abs() } else { f64::from(u8::from(now > 0.0)) }
}

fn size_class(bytes: f64) -> usize {
    SIZE_LIMITS.iter().filter(|limit| bytes > **limit).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_papers_eight_transitions_once_and_is_deterministic() {
        let mut numbers: Vec<_> = TRANSITIONS.iter().filter_map(|t| t.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
        for (i, a) in TRANSITIONS.iter().enumerate() {
            assert!(TRANSITIONS[..i].iter().all(|b| (a.from, a.cause) != (b.from, b.cause)), "{a:?}");
            assert_ne!(a.from, a.to);
        }
    }

    #[test]
    fn an_allocator_goes_where_the_table_says_and_nowhere_else() {
        use Bottleneck::{Balance, CoreBottleneck, DdioBottleneck, NoBottleneck};
        for from in [NoBottleneck, DdioBottleneck, CoreBottleneck, Balance] {
            for cause in [Cause::MissesLow, Cause::DdioMisses, Cause::CoreMisses, Cause::StepInVain] {
                let mut allocator = Allocator::new(AllocatorSpec::default()).unwrap();
                allocator.state = from;
                allocator.go(cause);
                let row = TRANSITIONS.iter().find(|row| (row.from, row.cause) == (from, cause));
                assert_eq!(allocator.state(), row.map_or(from, |row| row.to), "{from:?} {cause:?}");
                assert_eq!(allocator.history().len(), usize::from(row.is_some()), "{from:?} {cause:?}");
            }
        }
    }

    #[test]
    fn one_miss_rate_that_changes_ends_the_rest() {
        let low = Some(0.01);
        for (rates, state) in [
            ([Some(0.4), low], Bottleneck::DdioBottleneck),
            ([low, Some(0.4)], Bottleneck::CoreBottleneck),
            ([low, low], Bottleneck::NoBottleneck),
        ] {
            let (mut allocator, _) = after(20, [low, low], Some(0.9));
            assert!(allocator.is_at_rest());
            let changes = allocator.history().len();
            run(&mut allocator, 20..60, rates, Some(0.9));
            let entered = allocator.history()[changes..].first().map_or(Bottleneck::NoBottleneck, |row| row.to);
            assert_eq!(entered, state, "{rates:?}");
        }
    }

    #[test]
    fn impossible_numbers_are_told_what_is_allowed() {
        let error = |spec: AllocatorSpec| Allocator::new(spec).unwrap_err().to_string();
        let spec = AllocatorSpec::default;
        assert_eq!(error(AllocatorSpec { gain: 2.0, ..spec() }), "policy.gain = 2: a share of 0 to 1 is wanted");
        assert_eq!(error(AllocatorSpec { samples: 0, ..spec() }), "policy.samples = 0: allowed are 1 to 1000");
        assert!(error(AllocatorSpec { most_samples: 1001, ..spec() }).starts_with("policy.most_samples = 1001"));
        assert!(error(AllocatorSpec { reach: 0, ..spec() }).starts_with("policy.reach = 0"));
        assert!(Allocator::new(AllocatorSpec { steps: 1000, ..spec() }).is_ok());
    }

    #[test]
    fn a_packet_of_a_limits_size_is_of_the_class_below_it() {
        let classes = [64.0, 96.0, 97.0, 192.0, 193.0, 384.0, 768.0, 1200.0, 1201.0].map(size_class);
        assert_eq!(classes, [0, 0, 1, 1, 2, 2, 3, 4, 5]);
    }

    /// Intervals of a program that receives packets, with these miss rates (devices, cores) and busy time, after which the policy
    /// is asked what it lacks.
    fn after(intervals: u64, rates: [Option<f64>; 2], busy: Option<f64>) -> (Allocator, Option<Lack>) {
        let mut allocator = Allocator::new(AllocatorSpec::default()).unwrap();
        run(&mut allocator, 0..intervals, rates, busy);
        let lacks = allocator.lacks();
        (allocator, lacks)
    }

    fn run(allocator: &mut Allocator, intervals: std::ops::Range<u64>, rates: [Option<f64>; 2], busy: Option<f64>) {
        run_at(allocator, intervals, rates, busy, (1e6, 2e5));
    }

    /// At so many packets a second, received and lost.
    fn run_at(
        allocator: &mut Allocator,
        intervals: std::ops::Range<u64>,
        rates: [Option<f64>; 2],
        busy: Option<f64>,
        (received, lost): (f64, f64),
    ) {
        const S: Ps = Ps::from_ns(1_000_000_000);
        let sample = |value| Sample { value, age: Ps::ZERO, interval: S };
        for i in intervals {
            let class = control::ClassObservation {
                clos: units::Clos(1),
                llc_miss_rate: rates[1].map(sample),
                llc_bytes: None,
                busy: busy.map(sample),
            };
            let seen = Observation {
                at: Ps(S.0 * (i + 1)),
                interval: S,
                received_pps: Some(sample(received)),
                lost_pps: Some(sample(lost)),
                pcie_write_bytes_per_s: Some(sample(1000.0 * received)),
                ddio_write_miss_rate: rates[0].map(sample),
                classes: vec![class],
                in_force: allocator.partition.plan(&allocator.spec.floors).allocation(&allocator.spec.floors),
                ..Observation::default()
            };
            allocator.decide(&seen);
        }
    }

    #[test]
    fn a_miss_rate_that_is_missing_is_unknown_and_not_low() {
        let (low, high) = (Some(0.01), Some(0.4));
        let both_low = after(20, [low, low], Some(0.9));
        assert_eq!((both_low.0.state(), both_low.1), (Bottleneck::NoBottleneck, None));
        for (rates, lack) in
            [([None, None], Lack::MissRates), ([None, low], Lack::DeviceMisses), ([low, None], Lack::CoreMisses)]
        {
            let mut allocator = Allocator::new(AllocatorSpec::default()).unwrap();
            allocator.state = Bottleneck::Balance;
            run(&mut allocator, 0..20, rates, Some(0.9));
            assert_eq!(allocator.lacks(), Some(lack), "{rates:?}");
            assert_ne!(allocator.state(), Bottleneck::NoBottleneck, "{rates:?}: who does not know does not say so");
            // A counter that comes is something new.
            run(&mut allocator, 20..60, [high, high], Some(0.9));
            assert_eq!(allocator.lacks(), None, "{rates:?}");
            assert!(!allocator.history().is_empty(), "{rates:?}: it has begun to try");
        }
        // One side that is known is judged.
        let (allocator, lacks) = after(4, [high, None], Some(0.9));
        assert_eq!((allocator.state(), allocator.partition().io(), lacks), (Bottleneck::DdioBottleneck, 4, None));
    }

    #[test]
    fn lost_packets_are_a_reason_where_nobody_knows_whether_devices_miss() {
        let of = |lost| {
            let mut allocator = Allocator::new(AllocatorSpec::default()).unwrap();
            run_at(&mut allocator, 0..8, [None, Some(0.001)], Some(0.9), (1e6, lost));
            allocator.partition().io()
        };
        assert_eq!(of(0.0), 2);
        assert!(of(1e5) > 2, "a tenth is lost");
    }

    #[test]
    fn a_rate_that_changes_ends_no_rest_and_packets_that_are_lost_where_none_were_do() {
        let rates = [Some(0.4), Some(0.4)];
        let (mut allocator, _) = after(0, rates, Some(0.9));
        run_at(&mut allocator, 0..80, rates, Some(0.5), (1e6, 0.0));
        assert!(allocator.is_at_rest());
        let changes = allocator.history().len();
        for step in 1..10u64 {
            let rate = 1e6 * (1.0 + 0.1 * step as f64);
            run_at(&mut allocator, 80 * step..80 * (step + 1), rates, Some(0.5 * rate / 1e6), (rate, 0.0));
        }
        assert_eq!((allocator.is_at_rest(), allocator.history().len()), (true, changes));
        run_at(&mut allocator, 800..840, rates, Some(1.0), (2e6, 1e5));
        assert!(!allocator.is_at_rest() || allocator.history().len() > changes, "it has looked again");
    }

    #[test]
    fn what_nothing_can_be_judged_without_is_a_lack_after_some_intervals() {
        let rates = [Some(0.4), Some(0.01)];
        assert_eq!(after(u64::from(LACKING) - 1, rates, None).1, None, "rates need two readings");
        let (mut allocator, lacks) = after(u64::from(LACKING), rates, None);
        assert_eq!(lacks, Some(Lack::Busy));
        run(&mut allocator, 10..11, rates, Some(0.9));
        assert_eq!(allocator.lacks(), None);
        assert_eq!(after(9, rates, Some(0.0)).1, Some(Lack::Busy), "who receives packets is busy");
        assert_eq!(after(9, rates, Some(f64::NAN)).1, Some(Lack::Busy));
    }

    #[test]
    fn a_mean_begins_with_the_first_sample_that_is_there() {
        let sight = |io_miss| Sight { score: 1.0, rate: 1.0, bytes: 1.0, io_miss, core_miss: None, lost: None };
        let mut mean = Mean::default();
        for io_miss in [None, Some(0.4), Some(0.4)] {
            mean.add(&sight(io_miss), 8);
        }
        assert_eq!((mean.io_miss, mean.core_miss), (Some(0.4), None));
    }
}
