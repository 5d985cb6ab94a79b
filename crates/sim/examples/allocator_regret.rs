//! What the allocator and its baselines miss of the best, on the simulated server, over random schedules of packet size and rate:
//! `cargo run --release -p wirespeed-sim --example allocator_regret [SCHEDULES [FIRST [THREADS [AT_STAKE]]]]`
//!
//! The plant is the user plane of `upf-pipeline`, and without its pipeline, with caches, rings, pools and UEs of an eighth,
//! so that a change of ways is felt within an eighth of the packets. A schedule draws a program (ring, pool, UEs, pipeline or
//! not) and phases of traffic. The oracle is the best static mask of each phase: all masks in isolation run through the
//! same phases, shortened, and the best ones of each are joined. Counters have 2 % noise, an interval of lag, and 5 % are missing.
//!
//! The rate of a phase is constant, bursts, or wanders by a quarter, in pieces of some intervals. With `AT_STAKE` only schedules count in
//! which the best single mask misses as many hundredths of a per cent of the oracle at least: where ways matter.
//!
//! Judged is packets a busy second of the receiving cores, which is throughput where more is offered than they carry. The first
//! intervals, in which caches fill, are cut. A line a schedule and policy goes to the standard output as it is known.

use sim::run::steer::ControlInterval;
use sim::scenario::{SCENARIOS, find};
use sim::{Overrides, RunOptions, Scenario};

const PHASES: usize = 3;
/// Intervals of 125 us in a phase: 10 to 20 ms.
const INTERVALS: (f64, f64) = (80.0, 160.0);
const INTERVAL_US: f64 = 125.0;
/// Cut at the start.
const COLD: usize = 40;
/// Of each phase where single masks are judged, which have nothing to find; of these, cut: what the phase before has left.
const SHORT: usize = 50;
const SETTLING: usize = 8;
const WAYS: u32 = 11;
/// Ways that devices may have: one is the others', two at least the cores'.
const MOST_IO: u32 = 8;
const SIZES: [u32; 6] = [64, 128, 256, 512, 1024, 1500];
const SPOILT: [&str; 3] = ["policy.noise=0.02", "policy.lag=1", "policy.missing=0.05"];
const SCALED: [&str; 12] = [
    "machine.llc.size=\"4.125 MiB\"",
    "machine.llc.slices=4",
    "machine.l2.size=\"128 KiB\"",
    "run.warmup=0",
    "run.curve=[]",
    "nic.tx_descriptors=64",
    "pipeline.queue=128",
    "policy.interval=\"125 us\"",
    "policy.io_ways=2",
    "policy.others=1",
    "function.upf.processing.flow_table=2048",
    "traffic.flows.count=2500",
];

/// A linear congruential generator (Knuth's MMIX), of which the high bits are used.
struct Chance(u64);

impl Chance {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.unit()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.unit() * from.len() as f64) as usize]
    }
}

/// A program and its traffic.
struct Schedule {
    words: String,
    set: Vec<String>,
    phases: Vec<Phase>,
    pipeline: bool,
}

#[derive(Clone, Copy)]
struct Phase {
    bytes: u32,
    mpps: f64,
    intervals: usize,
    shape: LoadShape,
    /// What the pieces of its load are drawn from.
    seed: u64,
}

/// How a load moves about its mean.
#[derive(Clone, Copy, Debug)]
enum LoadShape {
    Constant,
    Bursts,
    Wanders,
}

impl Phase {
    /// Its pieces: intervals, and the rate as a share of `mpps`.
    fn pieces(&self) -> Vec<(usize, f64)> {
        let (mut chance, mut out, mut left, mut now) = (Chance(self.seed), Vec::new(), self.intervals, 1.0);
        while left > 0 {
            let (intervals, share): (usize, f64) = match self.shape {
                LoadShape::Constant => (left, 1.0),
                LoadShape::Bursts => {
                    let is_high = out.len() % 2 == 0;
                    let share = if is_high { chance.between(1.1, 1.6) } else { chance.between(0.4, 0.9) };
                    (chance.between(2.0, 9.0) as usize, share)
                }
                LoadShape::Wanders => {
                    now = f64::clamp(now + chance.between(-0.1, 0.1), 0.75, 1.25);
                    (4, now)
                }
            };
            out.push((intervals.min(left), share));
            left -= intervals.min(left);
        }
        out
    }
}

/// Packets and busy time, in intervals of one core.
#[derive(Clone, Copy)]
struct Done {
    packets: f64,
    busy: f64,
}

impl Done {
    fn score(self) -> f64 {
        self.packets / self.busy
    }
}

impl Schedule {
    fn draw(seed: u64) -> Schedule {
        let mut chance = Chance(seed * 7919 + 1);
        (0..8).for_each(|_| {
            chance.unit();
        });
        let descriptors = chance.pick(&[64u32, 128, 256, 512]);
        let mbufs = chance.pick(&[2048u32, 4096, 8192, 32_768]);
        let ues = chance.pick(&[250u32, 1000, 2500]);
        let pipeline = chance.unit() < 0.5;
        let mut set: Vec<String> = vec![
            format!("nic.rx_descriptors={descriptors}"),
            format!("mempool.size={mbufs}"),
            format!("function.upf.load.ues={ues}"),
            format!("run.seed={}", seed + 1),
        ];
        if !pipeline {
            set.push("machine.cores=3".into());
        }
        // Up to 95 % of a line of 100 Gbit/s; three cores that do all carry some 4 Mpps, a receiving one some 6.
        let phase = |_| {
            let bytes = chance.pick(&SIZES);
            let most = (95e3 / (8.0 * f64::from(bytes + 20))).min(7.0);
            let mpps = chance.between(0.3 * most, most);
            let intervals = chance.between(INTERVALS.0, INTERVALS.1) as usize;
            let shape = chance.pick(&[LoadShape::Constant, LoadShape::Bursts, LoadShape::Wanders]);
            Phase { bytes, mpps, intervals, shape, seed: (chance.unit() * 1e9) as u64 }
        };
        let phases: Vec<Phase> = (0..PHASES).map(phase).collect();
        let word = |p: &Phase| format!("{} B at {:.1} Mpps for {} {:?}", p.bytes, p.mpps, p.intervals, p.shape);
        let words: Vec<String> = phases.iter().map(word).collect();
        let words = format!(
            "{descriptors} descriptors, {mbufs} mbufs, {ues} UEs, {}: {}",
            if pipeline { "pipeline" } else { "3 cores" },
            words.join(", ")
        );
        Schedule { words, set, phases, pipeline }
    }

    /// The same with `SHORT` intervals a phase.
    fn short(&self) -> Schedule {
        let intervals = |i: usize| SHORT + if i == 0 { COLD } else { 0 };
        let phases = self.phases.iter().enumerate().map(|(i, p)| Phase { intervals: intervals(i), ..*p }).collect();
        Schedule { words: self.words.clone(), set: self.set.clone(), phases, pipeline: self.pipeline }
    }

    /// The traffic, as settings.
    fn traffic(&self) -> [String; 3] {
        let of = |p: &Phase| {
            let whole = p.pieces();
            whole.into_iter().map(|(n, share)| (n as f64 * INTERVAL_US, share * p.mpps, p.bytes)).collect::<Vec<_>>()
        };
        let pieces: Vec<(f64, f64, u32)> = self.phases.iter().flat_map(of).collect();
        let packets: f64 = pieces.iter().map(|(us, mpps, _)| us * mpps).sum();
        let time: f64 = pieces.iter().map(|(us, ..)| us).sum();
        let table = |(us, mpps, bytes): &(f64, f64, u32)| {
            format!("{{ time = \"{us} us\", rate = {mpps}, sizes = {{ fixed = {bytes} }} }}")
        };
        let tables: Vec<String> = pieces.iter().map(table).collect();
        [
            format!("traffic.packet_rate=\"{} Mpps\"", packets / time),
            format!("traffic.phases=[{}]", tables.join(", ")),
            // A little less, so that the first phase does not begin again.
            format!("run.packets={}", (packets * 0.995) as u64),
        ]
    }

    /// The scenario under a policy.
    fn scenario(&self, policy: &[String]) -> Result<Scenario, Box<dyn std::error::Error>> {
        let preset = find(SCENARIOS, "upf-pipeline").ok_or("no such scenario")?;
        let drops = |s: &&&str| self.pipeline || !s.starts_with("pipeline.");
        let mut set: Vec<String> = SCALED.iter().filter(drops).map(|s| s.to_string()).collect();
        set.extend(self.set.iter().cloned());
        set.extend(self.traffic());
        set.extend(policy.iter().cloned());
        // A scenario without its pipeline is one without the table.
        let text = match (self.pipeline, preset.text.find("[pipeline]"), preset.text.find("[nic]")) {
            (false, Some(from), Some(to)) => format!("{}{}", &preset.text[..from], &preset.text[to..]),
            _ => preset.text.to_string(),
        };
        Ok(Scenario::read(&text, preset.name, &Overrides { set, ..Overrides::default() })?)
    }

    /// What was done in each phase, without its first `cut` intervals, and the first ones of all.
    fn by_phase(&self, intervals: &[ControlInterval], cut: usize) -> Vec<Done> {
        let (mut at, mut all) = (0, Vec::new());
        for phase in &self.phases {
            let from = (at + cut).max(COLD).min(intervals.len());
            at += phase.intervals;
            let of = &intervals[from..at.min(intervals.len()).max(from)];
            let packets = of.iter().map(|i| i.received as f64).sum();
            all.push(Done { packets, busy: of.iter().map(|i| i.busy).sum() });
        }
        all
    }
}

/// The share of the oracle's score that is missing: over the phases, by their time.
fn regret(schedule: &Schedule, done: &[Done], best: &[f64]) -> f64 {
    let time = |i: usize| schedule.phases[i].intervals as f64 - if i == 0 { COLD as f64 } else { 0.0 };
    let all: f64 = (0..best.len()).map(time).sum();
    1.0 - (0..best.len()).map(|i| time(i) * done[i].score() / best[i]).sum::<f64>() / all
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse()).collect::<Result<_, _>>()?;
    let of = |i: usize, otherwise: u64| args.get(i).copied().unwrap_or(otherwise);
    let (schedules, first, threads) = (of(0, 50), of(1, 0), of(2, 1) as usize);
    let at_stake = of(3, 0) as f64 / 10_000.0;
    let words = |of: &[&str]| of.iter().map(|s| s.to_string()).collect::<Vec<String>>();
    let spoilt = |kind: &str| [words(&[kind]), words(&SPOILT)].concat();
    let mut policies: Vec<(String, Vec<String>)> = Vec::new();
    for ways in 1..=MOST_IO {
        policies
            .push((format!("isolation, {ways}"), words(&["policy.kind=isolated", &format!("policy.io_ways={ways}")])));
    }
    policies.push(("shared, 2".into(), words(&["policy.kind=shared"])));
    let fixed = policies.len();
    policies.push(("thresholds".into(), [spoilt("policy.kind=thresholds"), words(&["policy.miss_rate=0.3"])].concat()));
    policies.push(("IAT-like".into(), spoilt("policy.kind=iat")));
    policies.push(("allocator".into(), spoilt("policy.kind=allocator")));
    let mut regrets: Vec<Vec<f64>> = vec![Vec::new(); policies.len() + 1];
    let mut kept = 0;
    for seed in first..first + schedules {
        let schedule = Schedule::draw(seed);
        let short = schedule.short();
        let options = RunOptions { threads, ..RunOptions::default() };
        let scenarios: Vec<Scenario> =
            policies[..fixed].iter().map(|(_, set)| short.scenario(set)).collect::<Result<_, _>>()?;
        let results = sim::run_all(&scenarios, options, &mut |_| true)?;
        let mut done: Vec<Vec<Done>> = results.iter().map(|r| short.by_phase(&r.measured.control, SETTLING)).collect();
        let isolated = 0..MOST_IO as usize;
        let best = |phase: usize| {
            isolated.clone().max_by(|&a, &b| done[a][phase].score().total_cmp(&done[b][phase].score())).unwrap_or(0)
        };
        let best: Vec<usize> = (0..PHASES).map(best).collect();
        let oracle: Vec<f64> = best.iter().enumerate().map(|(phase, &at)| done[at][phase].score()).collect();
        // What the best single mask of the whole schedule misses: what there is to gain by moving at all.
        let single = isolated.clone().map(|i| regret(&schedule, &done[i], &oracle)).fold(f64::INFINITY, f64::min);
        println!("schedule {seed}: {}; best ways {:?}", schedule.words, best.iter().map(|b| b + 1).collect::<Vec<_>>());
        if single < at_stake {
            println!("  the best single mask misses {:.2} %: ways do not matter", 100.0 * single);
            continue;
        }
        kept += 1;
        let moving: Vec<Scenario> =
            policies[fixed..].iter().map(|(_, set)| schedule.scenario(set)).collect::<Result<_, _>>()?;
        let moved = sim::run_all(&moving, options, &mut |_| true)?;
        done.extend(moved.iter().map(|r| schedule.by_phase(&r.measured.control, 0)));
        for (i, (name, _)) in policies.iter().enumerate() {
            let found = regret(&schedule, &done[i], &oracle);
            regrets[i].push(found);
            let control = &results.get(i).unwrap_or_else(|| &moved[i - fixed]).measured.control;
            let changes =
                control.iter().skip(COLD).filter(|c| c.decided_io_ways.is_some_and(|w| w != c.io_ways)).count();
            println!("  {name:14} regret {:6.2} %  {changes:3} changes in {} intervals", 100.0 * found, control.len());
        }
        regrets[policies.len()].push(single);
    }
    println!(
        "\n{kept} of {schedules} schedules of {PHASES} phases, {WAYS} ways: regret against the best mask of each phase"
    );
    let names = policies.iter().map(|(name, _)| name.as_str()).chain(["best single mask"]);
    for (name, found) in names.zip(&regrets) {
        let mean = found.iter().sum::<f64>() / found.len().max(1) as f64;
        let worst = found.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let above = found.iter().filter(|r| **r > 0.1).count();
        println!("{name:18} mean {:6.2} %  worst {:6.2} %  above 10 %: {above}", 100.0 * mean, 100.0 * worst);
    }
    Ok(())
}
