//! Schedules in which the best ways vary, under loads that burst and wander: what an allocator is judged by.
//!
//! - A schedule is a program and stretches of 80 to 300 intervals. In each, packets have one size, and a number of users are
//!   active, who scale the lines that cores come back to.
//! - Only schedules are kept in which every fixed mask, the best one of the schedule included, misses at least
//!   [`LEAST_AT_STAKE`] of what the best mask of each stretch does.
//! - The load of a stretch is constant, bursts (on and off for 2 to 20 intervals each), or wanders by a quarter.
//!
//! **Frozen before the allocator was tuned on it.** It was tuned on seeds 0 to 59; a judgement takes others:
//! `cargo run --release -p wirespeed-policy --example varied_regret 60 1000`.

use crate::plant::{Chance, Faults, MOST_IO, Plant, Program, Surface, Traffic};
use control::Policy;
use policy::baseline::{IatLike, Isolated, Thresholds};
use policy::{Allocator, AllocatorSpec, Floors, Steering};

pub const INTERVALS: usize = 1200;
/// Share of the score that the best single mask of a schedule misses.
pub const LEAST_AT_STAKE: f64 = 0.03;
pub const FAULTS: Faults = Faults { noise: 0.02, lagged: true, missing: 0.05, refused: 0.02 };
const SIZES: [f64; 6] = [64.0, 128.0, 256.0, 512.0, 1024.0, 1500.0];
/// Packets a busy second that are offered at most, as a share of the best.
const MOST_OFFERED: f64 = 1.6;

/// How a load moves about its mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadShape {
    Constant,
    Bursts,
    Wanders,
}

pub const SHAPES: [LoadShape; 3] = [LoadShape::Constant, LoadShape::Bursts, LoadShape::Wanders];

/// One surface for as many intervals as there are loads.
pub struct VariedStretch {
    pub surface: Surface,
    pub bytes: f64,
    pub loads: Vec<f64>,
}

/// A program whose pool fits into between one and nine ways at some size, and whose tables want between one and nine.
fn program(chance: &mut Chance) -> Program {
    Program {
        buffers: chance.pick(&[1024.0, 2048.0, 4096.0, 8192.0, 12_288.0, 16_384.0]),
        lines: chance.between(50_000.0, 500_000.0),
        hot: chance.between(0.4, 0.9),
        rx: (chance.between(80.0, 140.0), chance.between(2.0, 8.0)),
        work: (chance.between(400.0, 800.0), chance.between(10.0, 40.0)),
        overlap: chance.between(0.15, 0.5),
        burst: chance.between(0.0, 100.0),
    }
}

/// `intervals` loads about `mean`.
pub fn loads(shape: LoadShape, mean: f64, intervals: usize, chance: &mut Chance) -> Vec<f64> {
    let mut out = Vec::with_capacity(intervals);
    let mut now: f64 = 1.0;
    while out.len() < intervals {
        match shape {
            LoadShape::Constant => out.push(mean),
            LoadShape::Wanders => {
                now += 0.04 * chance.normal();
                // Reflected at a quarter more and less.
                now = if now > 1.25 { 2.5 - now } else { now };
                now = if now < 0.75 { 1.5 - now } else { now };
                out.push(mean * now);
            }
            LoadShape::Bursts => {
                let (high, low) = (chance.between(1.1, 1.8), chance.between(0.2, 0.8));
                for factor in [high, low] {
                    let lasts = chance.between(2.0, 21.0) as usize;
                    out.extend(std::iter::repeat_n(mean * factor, lasts));
                }
            }
        }
    }
    out.truncate(intervals);
    out
}

fn draw(chance: &mut Chance) -> Vec<VariedStretch> {
    let program = program(chance);
    let (mut out, mut left) = (Vec::new(), INTERVALS);
    while left > 0 {
        let bytes = chance.pick(&SIZES);
        let active = chance.between(0.2, 1.5);
        let surface = Program { lines: program.lines * active, ..program }.surface(bytes);
        let mean = surface.best(f64::INFINITY) * chance.between(0.3, 1.2);
        let intervals = (chance.between(80.0, 300.0) as usize).min(left);
        let most = MOST_OFFERED * surface.best(f64::INFINITY);
        let shape = chance.pick(&SHAPES);
        let loads = loads(shape, mean, intervals, chance).into_iter().map(|pps| pps.min(most)).collect();
        left -= intervals;
        out.push(VariedStretch { surface, bytes, loads });
    }
    out
}

/// What a mask that stays misses of the best of each stretch.
fn fixed_regret(schedule: &[VariedStretch], io: u32) -> f64 {
    let mut found = 0.0;
    for stretch in schedule {
        for pps in &stretch.loads {
            found += stretch.surface.response(io.into(), *pps).efficiency / stretch.surface.best(*pps);
        }
    }
    1.0 - found / INTERVALS as f64
}

/// The schedule of a seed: the first that is drawn of it in which ways matter. How much the best single mask misses.
pub fn schedule(seed: u64) -> (Vec<VariedStretch>, f64) {
    let mut chance = Chance(seed.wrapping_mul(7919) + 1);
    loop {
        let drawn = draw(&mut chance);
        let at_stake = (1..=MOST_IO).map(|io| fixed_regret(&drawn, io)).fold(f64::INFINITY, f64::min);
        if at_stake >= LEAST_AT_STAKE {
            return (drawn, at_stake);
        }
    }
}

/// The share of what the oracle's settings would have done, in packets a busy second, that is missing; and how often settings
/// were changed.
fn regret<P: Policy>(policy: P, schedule: &[VariedStretch], seed: u64) -> (f64, usize) {
    let first = Traffic { pps: schedule[0].loads[0], bytes: schedule[0].bytes };
    let mut plant = Plant::new(&schedule[0].surface, first, FAULTS, seed);
    let mut steering = Steering::new(policy);
    let mut found = 0.0;
    for stretch in schedule {
        plant.offer(&stretch.surface, Traffic { pps: stretch.loads[0], bytes: stretch.bytes });
        for pps in &stretch.loads {
            plant.load(*pps);
            steering.step(&mut plant);
            found += plant.efficiency / stretch.surface.best(*pps);
        }
    }
    (1.0 - found / INTERVALS as f64, plant.applied.len())
}

/// A policy over all schedules.
pub struct VariedStudy {
    pub name: String,
    pub regrets: Vec<f64>,
    pub changes: f64,
}

impl VariedStudy {
    pub fn of<P: Policy>(name: &str, seeds: std::ops::Range<u64>, make: impl Fn() -> P) -> VariedStudy {
        let mut study = VariedStudy { name: name.into(), regrets: Vec::new(), changes: 0.0 };
        let count = (seeds.end - seeds.start) as f64;
        for seed in seeds {
            let (regret, changes) = regret(make(), &schedule(seed).0, seed);
            study.regrets.push(regret);
            study.changes += changes as f64 / count;
        }
        study
    }

    pub fn mean(&self) -> f64 {
        self.regrets.iter().sum::<f64>() / self.regrets.len() as f64
    }

    pub fn print(&self) {
        let worst = 100.0 * self.regrets.iter().copied().fold(0.0, f64::max);
        let (mean, changes) = (100.0 * self.mean(), self.changes);
        println!(
            "{:24} mean {mean:6.2} %  worst {worst:6.2} %  {changes:6.1} changes in {INTERVALS} intervals",
            self.name
        );
    }
}

/// The allocator, then what it is compared with: each mask that stays, thresholds and IAT.
pub fn studies(seeds: std::ops::Range<u64>) -> (VariedStudy, Vec<VariedStudy>) {
    let floors = Floors::default;
    let ours = VariedStudy::of("allocator", seeds.clone(), || Allocator::new(AllocatorSpec::default()).unwrap());
    let mut others: Vec<VariedStudy> = (1..=MOST_IO)
        .map(|io| VariedStudy::of(&format!("isolation, {io}"), seeds.clone(), || Isolated::new(floors(), io)))
        .collect();
    others.push(VariedStudy::of("thresholds, 30 %", seeds.clone(), || Thresholds::new(floors(), 0.3)));
    others.push(VariedStudy::of("IAT-like", seeds.clone(), || IatLike::new(floors())));
    (ours, others)
}

/// Of one surface under each shape of load: how often the allocator changes anything in [`INTERVALS`] intervals, after as many as
/// `settled`, and what it misses then.
pub fn at_rest(seed: u64, settled: usize) -> [(usize, f64); 3] {
    at_rest_of(seed, settled, &AllocatorSpec::default())
}

/// The same of an allocator that judges as `spec` says.
pub fn at_rest_of(seed: u64, settled: usize, spec: &AllocatorSpec) -> [(usize, f64); 3] {
    SHAPES.map(|shape| {
        let mut chance = Chance(seed.wrapping_mul(104_729) + 7);
        let program = program(&mut chance);
        let bytes = chance.pick(&SIZES);
        let surface = program.surface(bytes);
        let mean = surface.best(f64::INFINITY) * chance.between(0.3, 1.2);
        let loads = loads(shape, mean, settled + INTERVALS, &mut chance);
        let mut plant = Plant::new(&surface, Traffic { pps: loads[0], bytes }, FAULTS, seed);
        let mut steering = Steering::new(Allocator::new(spec.clone()).unwrap());
        let (mut before, mut found) = (0, 0.0);
        for (i, pps) in loads.iter().enumerate() {
            plant.load(*pps);
            if i == settled {
                before = plant.applied.len();
            }
            steering.step(&mut plant);
            if i >= settled {
                found += plant.efficiency / surface.best(*pps);
            }
        }
        (plant.applied.len() - before, 1.0 - found / INTERVALS as f64)
    })
}
