//! The LLC allocator: four states, and steps of one way that are judged by how the program responds.
//!
//! # The states
//! 5GC2ache (section 5.2, figure 12) has four states and eight numbered transitions between them, and acts where PCIe
//! bandwidth, DDIO write miss rate or LLC miss rate change evidently. Thresholds, step and interval are not given, nor is
//! the state without bottleneck. [`TRANSITIONS`] is that table as we read it: 1 and 3 to 8 are in the text, 2 is what is left
//! over; leaving "no bottleneck" for the core's bottleneck has no number there and is marked so.
//!
//! # Judging by response
//! Absolute thresholds on the two miss rates stick or run away, since with a large pool the DDIO write miss rate is
//! the same for every number of ways. So a bottleneck's state only says what is tried: one way more for
//! devices, or for cores. A step is kept if packets per busy second of the receiving cores gain more than a small share,
//! else it is taken back and its direction is blocked; with both blocked there is balance. Busy time, not
//! throughput, because below saturation throughput has no gradient.
//!
//! # Noise, lag and gaps
//! A sample counts if its interval began after the settings were in force, and an interval more (lines that are already
//! in the cache leave slowly). Several are averaged before a step and after it, more where the difference is within their
//! own scatter. Settings that are not in force are applied again. Without packets, bytes of devices or busy time nothing can be
//! judged: those are waited for. A miss rate that is missing is unknown, not low: its side is not tried, and "no bottleneck" is
//! not said. [`Policy::lacks`] has what is missing once it has been for some intervals.
//!
//! # Rest
//! In balance and without bottleneck nothing changes until traffic does (packet size, PCIe bandwidth or a miss rate, after
//! a cool-down), except that a blocked direction is tried again after a long time, which doubles each time in vain. For each
//! class of packet size the ways that were found are remembered, and are where the search begins when it comes back.

use control::{Allocation, Counter, Lack, Observation, Policy, Sample};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Ps;

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
    /// A step is kept if it gains more than this share.
    pub gain: f64,
    /// Intervals that are averaged before and after a step, at least.
    pub samples: u32,
    /// At most, where the difference is within its scatter.
    pub most_samples: u32,
    /// Intervals after a change in which nothing is judged.
    pub settle: u32,
    /// A change of PCIe bandwidth by this share is a change of traffic.
    pub bandwidth_change: f64,
    /// A change of a miss rate by this much is.
    pub miss_change: f64,
    /// A change of the mean packet by this share is.
    pub size_change: f64,
    /// Intervals of rest after which a change of traffic is looked for.
    pub cool_down: u32,
    /// Intervals of rest after which a blocked direction is tried again; doubles each time in vain.
    pub retry: u32,
}

impl Default for AllocatorSpec {
    fn default() -> AllocatorSpec {
        AllocatorSpec {
            floors: Floors::default(),
            start_io: 2,
            rx_class: 1,
            miss_rate: 0.05,
            gain: 0.003,
            samples: 2,
            most_samples: 6,
            settle: 1,
            bandwidth_change: 0.1,
            miss_change: 0.1,
            size_change: 0.1,
            cool_down: 2,
            retry: 64,
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
            ("bandwidth_change", self.bandwidth_change),
            ("miss_change", self.miss_change),
            ("size_change", self.size_change),
        ];
        if let Some((what, came)) = share.into_iter().find(|(_, x)| !(0.0..=1.0).contains(x)) {
            let (path, came) = (format!("{path}.{what}"), came.to_string());
            return Err(PolicyError::Value { path, came, allowed: "a share of 0 to 1 is wanted".into() });
        }
        if self.samples == 0 || self.most_samples < self.samples || self.most_samples > 1000 {
            return Err(PolicyError::Value {
                path: format!("{path}.samples"),
                came: format!("{} to {}", self.samples, self.most_samples),
                allowed: "allowed are 1 to most_samples, and that up to 1000".into(),
            });
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
    /// Directions that were tried in vain: more ways for devices, and fewer.
    blocked: [bool; 2],
    /// Ways by class of packet size.
    memory: [Option<Partition>; SIZE_CLASSES],
    retry: u32,
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
/// What is missing for as many intervals in a row is a lack: rates need two readings, and a counter may miss one.
const LACKING: u32 = 3;

#[derive(Clone, Debug)]
enum AllocatorPhase {
    /// Averages at rest, before a step.
    Measure(Mean),
    /// Averages after a step that came from `from`; `before` is what it is compared with.
    Try { from: Partition, up: bool, before: Mean, after: Mean },
    /// Nothing is to be changed.
    Rest { traffic: Mean, quiet: u32, odd: u32 },
}

/// What is judged by, averaged over intervals.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    n: u32,
    score: f64,
    squares: f64,
    bandwidth: f64,
    bytes: f64,
    /// Unknown until the first sample that has it.
    io_miss: Option<f64>,
    core_miss: Option<f64>,
}

/// One interval's counters.
#[derive(Clone, Copy, Debug)]
struct Sight {
    /// Packets a busy second of the receiving cores.
    score: f64,
    /// Bytes a second that devices write.
    bandwidth: f64,
    /// Of a packet.
    bytes: f64,
    io_miss: Option<f64>,
    core_miss: Option<f64>,
}

impl Mean {
    fn add(&mut self, s: &Sight) {
        self.n += 1;
        let n = f64::from(self.n);
        let mean = |old: f64, new: f64| old + (new - old) / n;
        let before = self.score;
        self.score = mean(self.score, s.score);
        self.squares += (s.score - before) * (s.score - self.score);
        self.bandwidth = mean(self.bandwidth, s.bandwidth);
        self.bytes = mean(self.bytes, s.bytes);
        // A counter that is missing is what it was, or still unknown.
        let known = |old: Option<f64>, new: Option<f64>| match (old, new) {
            (Some(old), Some(new)) => Some(mean(old, new)),
            (old, new) => old.or(new),
        };
        self.io_miss = known(self.io_miss, s.io_miss);
        self.core_miss = known(self.core_miss, s.core_miss);
    }

    /// The relative standard error of the score.
    fn error(&self) -> f64 {
        if self.n < 2 || self.score <= 0.0 {
            return 0.0;
        }
        let n = f64::from(self.n);
        (self.squares / (n - 1.0) / n).sqrt() / self.score
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
            spec,
            state: Bottleneck::NoBottleneck,
            partition,
            phase: AllocatorPhase::Measure(Mean::default()),
            since: None,
            judged: None,
            blocked: [false; 2],
            memory: [None; SIZE_CLASSES],
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
        Some(Sight {
            score: pps.value / busy.min(1.0),
            bandwidth: bytes,
            bytes: bytes / pps.value,
            io_miss: sound(seen.ddio_write_miss_rate).map(|s| s.value),
            core_miss,
        })
    }

    /// Where `up` leads, if anywhere.
    fn next(&self, up: bool) -> Option<Partition> {
        let io = if up { self.partition.io() + 1 } else { self.partition.io().checked_sub(1)? };
        Some(Partition::new(io, &self.spec.floors)).filter(|p| *p != self.partition)
    }

    /// The direction to try after `mean` at rest, or none.
    fn direction(&mut self, mean: &Mean) -> Option<bool> {
        let limit = self.spec.miss_rate;
        self.one_sided = None;
        let is_low = |miss: Option<f64>| miss.is_some_and(|m| m <= limit);
        if is_low(mean.io_miss) && is_low(mean.core_miss) {
            self.go(Cause::MissesLow);
            return None;
        }
        let known = [(true, mean.io_miss), (false, mean.core_miss)].into_iter().filter_map(|(up, m)| Some((up, m?)));
        let can =
            |&(up, miss): &(bool, f64)| miss > limit && !self.blocked[usize::from(!up)] && self.next(up).is_some();
        let Some((up, _)) = known.filter(can).max_by(|a, b| a.1.total_cmp(&b.1)) else {
            // Where one side is unknown, that the other wants nothing decides nothing.
            self.one_sided = match (mean.io_miss, mean.core_miss) {
                (None, None) => Some(Lack::MissRates),
                (None, _) => Some(Lack::DeviceMisses),
                (_, None) => Some(Lack::CoreMisses),
                _ => None,
            };
            return None;
        };
        // The figure has no way from one bottleneck to the other but through balance.
        let elsewhere = if up { Bottleneck::CoreBottleneck } else { Bottleneck::DdioBottleneck };
        if self.state == elsewhere {
            self.go(Cause::StepInVain);
        }
        self.go(if up { Cause::DdioMisses } else { Cause::CoreMisses });
        Some(up)
    }

    /// Takes up rest with what was seen there.
    fn rest(&mut self, traffic: Mean) {
        self.memory[size_class(traffic.bytes)] = Some(self.partition);
        if matches!(self.state, Bottleneck::DdioBottleneck | Bottleneck::CoreBottleneck) {
            self.go(Cause::StepInVain);
        }
        self.phase = AllocatorPhase::Rest { traffic, quiet: 0, odd: 0 };
    }

    /// Begins to look again: traffic has changed to packets of `bytes` bytes.
    fn arm(&mut self, bytes: f64) {
        self.blocked = [false; 2];
        self.retry = self.spec.retry;
        if let Some(known) = self.memory[size_class(bytes)] {
            self.set(known);
        }
        self.phase = AllocatorPhase::Measure(Mean::default());
    }

    fn set(&mut self, partition: Partition) {
        if partition != self.partition {
            self.partition = partition;
            self.since = None;
        }
    }

    fn judge(&mut self, s: &Sight) {
        match std::mem::replace(&mut self.phase, AllocatorPhase::Measure(Mean::default())) {
            AllocatorPhase::Measure(mut mean) => {
                if mean.n > 0 && apart(s.bytes, mean.bytes) > self.spec.size_change {
                    self.arm(s.bytes);
                    return;
                }
                mean.add(s);
                if mean.n < self.spec.samples {
                    self.phase = AllocatorPhase::Measure(mean);
                    return;
                }
                self.step(mean);
            }
            AllocatorPhase::Try { from, up, before, mut after } => {
                if apart(s.bytes, before.bytes) > self.spec.size_change {
                    self.set(from);
                    self.arm(s.bytes);
                    return;
                }
                after.add(s);
                let gain = after.score / before.score - 1.0 - self.spec.gain;
                let scatter = before.error().hypot(after.error());
                let is_open = gain.abs() < scatter && after.n < self.spec.most_samples;
                if after.n < self.spec.samples || is_open {
                    self.phase = AllocatorPhase::Try { from, up, before, after };
                } else if gain > 0.0 {
                    // What was found on the way is not tried again.
                    self.blocked[usize::from(up)] = true;
                    self.blocked[usize::from(!up)] = false;
                    self.retry = self.spec.retry;
                    self.step(after);
                } else {
                    self.set(from);
                    self.blocked[usize::from(!up)] = true;
                    self.step(before);
                }
            }
            AllocatorPhase::Rest { mut traffic, quiet, odd } => {
                let changed = apart(s.bytes, traffic.bytes) > self.spec.size_change
                    || apart(s.bandwidth, traffic.bandwidth) > self.spec.bandwidth_change
                    || differs(s.io_miss, traffic.io_miss, self.spec.miss_change)
                    || differs(s.core_miss, traffic.core_miss, self.spec.miss_change);
                // Another size is certain; for the rest one odd sample may be noise.
                let odd = if changed && quiet >= self.spec.cool_down { odd + 1 } else { 0 };
                if odd >= 2 {
                    self.arm(s.bytes);
                    return;
                }
                if !changed {
                    traffic.n = traffic.n.min(15);
                    traffic.add(s);
                }
                let quiet = quiet + 1;
                if quiet >= self.retry {
                    self.retry = (self.retry * 2).min(self.spec.retry.saturating_mul(MOST_DOUBLING));
                    self.blocked = [false; 2];
                    self.phase = AllocatorPhase::Measure(Mean::default());
                } else {
                    self.phase = AllocatorPhase::Rest { traffic, quiet, odd };
                }
            }
        }
    }

    /// Takes the next step after `mean`, or rests.
    fn step(&mut self, mean: Mean) {
        match self.direction(&mean).and_then(|up| Some((up, self.next(up)?))) {
            Some((up, to)) => {
                self.phase = AllocatorPhase::Try { from: self.partition, up, before: mean, after: Mean::default() };
                self.set(to);
            }
            None => self.rest(mean),
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

/// Whether a miss rate is another than it was, by more than `most`; one that was unknown and is not any more is.
fn differs(now: Option<f64>, then: Option<f64>, most: f64) -> bool {
    now.is_some_and(|now| then.is_none_or(|then| (now - then).abs() > most))
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
        assert!(error(AllocatorSpec { samples: 9, ..spec() }).starts_with("policy.samples = 9 to 6"));
        assert!(error(AllocatorSpec { most_samples: 1001, ..spec() }).starts_with("policy.samples = 2 to 1001"));
        assert!(Allocator::new(AllocatorSpec { most_samples: 1000, ..spec() }).is_ok());
    }

    #[test]
    fn a_mean_has_the_standard_error_of_its_scores() {
        let mut mean = Mean::default();
        let mut errors = Vec::new();
        for score in [10.0, 12.0, 14.0] {
            mean.add(&Sight { score, bandwidth: 1.0, bytes: 64.0, io_miss: None, core_miss: None });
            errors.push(mean.error());
        }
        // Variances 2 of two and 4 of three, over their numbers; as shares of means of 11 and 12.
        let expected = [0.0, 1.0 / 11.0, (4.0f64 / 3.0).sqrt() / 12.0];
        assert!(errors.iter().zip(expected).all(|(is, want)| (is - want).abs() < 1e-12), "{errors:?} {expected:?}");
        assert_eq!(mean.score, 12.0);
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
                received_pps: Some(sample(1e6)),
                lost_pps: Some(sample(2e5)),
                pcie_write_bytes_per_s: Some(sample(1e9)),
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
        assert_eq!((allocator.state(), allocator.partition().io(), lacks), (Bottleneck::DdioBottleneck, 3, None));
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
        let sight = |io_miss| Sight { score: 1.0, bandwidth: 1.0, bytes: 1.0, io_miss, core_miss: None };
        let mut mean = Mean::default();
        for io_miss in [None, Some(0.4), Some(0.4)] {
            mean.add(&sight(io_miss));
        }
        assert_eq!((mean.io_miss, mean.core_miss), (Some(0.4), None));
    }
}
