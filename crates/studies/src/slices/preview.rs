//! The analytic twin: what a setting comes to, in closed forms and a fixed point, without simulating it.
//!
//! Hit rates by [`queueing::lru`] over the law's own lines; then hold times of cores, waits at slices (a closed network of the
//! busy cores, by Schweitzer's approximation of mean value analysis, 1979) and blocking, until they agree. Idle channels
//! are taken to exist, so it knows neither interleaving nor waits for banks; what else is left to the simulation, [`left_out`] tells
//! of a setting.
//!
//! Recorded lookups are not independent, and hit rates of the closed form are off by up to 65 points for them: their packets go through
//! the caches themselves instead, in order and without time.

use engine::Seed;
use machine::stacked::{BankService, BankTiming};
use queueing::QueueError;
use queueing::lru::{LineClass, blocking_cores, victim_hierarchy};
use rand::RngExt;
use serde::Serialize;

use super::simulate::{SlicesSystem, Visits};
use super::spec::{Application, Architecture, Isolation, Ranks, SlicesError, SlicesSpec};
use super::trace::Lookups;

/// What the twin says of a setting. Times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Preview {
    /// Share of packets that find the system full.
    pub blocking: f64,
    /// Packets served a microsecond.
    pub throughput_per_us: f64,
    /// Mean time in a core's queue.
    pub wait_ns: f64,
    /// Mean time a core is held.
    pub held_ns: f64,
    /// Hits in L1 of all lookups.
    pub l1_hits: f64,
    /// Hits in L2 of those that missed L1.
    pub l2_hits: f64,
    /// Hits in the LLC of those that missed L2.
    pub llc_hits: f64,
}

/// Recorded lookups that go through the caches to see what they find there.
const WALKED: u64 = 1 << 20;
/// Lines that are told apart at most; beyond, popular ones are and the others are not.
const TOLD_APART: u64 = 1 << 16;

/// Probabilities of the lines of a table of Zipf-like popularity.
fn classes(spec: &SlicesSpec) -> Vec<LineClass> {
    let a = &spec.applications[0];
    let (entries, per_line) = (a.entries, spec.entries_per_line());
    let lines = spec.lines(a);
    if entries <= 1 << 18 {
        let mut weights: Vec<f64> = (1..=entries).map(|rank| (rank as f64).powf(-a.alpha)).collect();
        let all: f64 = weights.iter().sum();
        if spec.reading.ranks == Ranks::Shuffled {
            let mut rng = Seed(0).stream("preview");
            for i in (1..weights.len()).rev() {
                weights.swap(i, rng.random_range(0..=i));
            }
        }
        return weights.chunks(per_line as usize).map(|line| (line.iter().sum::<f64>() / all, 1.0)).collect();
    }
    // Cells of ranks, finer than a sixty-fourth.
    let mut cells: Vec<(f64, f64)> = Vec::new();
    let mut first = 1u64;
    while first <= entries {
        let n = (first / 64).max(1).min(entries - first + 1);
        cells.push(((first as f64 + (n - 1) as f64 / 2.0).powf(-a.alpha), n as f64));
        first += n;
    }
    let all: f64 = cells.iter().map(|(p, n)| p * n).sum();
    if spec.reading.ranks == Ranks::Contiguous {
        let per = per_line as f64;
        return cells.iter().map(|(p, n)| (p / all * per, n / per)).collect();
    }
    // Popular ranks are alone on their lines, with an even share of what is less popular; a line without one has all of that.
    let (mut out, mut told, mut mass) = (Vec::new(), 0.0, 0.0);
    let most = TOLD_APART.min(lines / 4) as f64;
    let mut cells = cells.into_iter();
    for (p, n) in cells.by_ref() {
        out.push((p / all, n));
        (told, mass) = (told + n, mass + p / all * n);
        if told >= most {
            break;
        }
    }
    let (each, left) = ((1.0 - mass) / lines as f64, lines as f64 - told);
    for class in &mut out {
        class.0 += each;
    }
    // The others' sums vary: a quantile each of a sum of so many random ranks, by drawing some.
    let rest: Vec<(f64, f64)> = cells.collect();
    let count: f64 = rest.iter().map(|(_, n)| n).sum();
    let mut ends = Vec::with_capacity(rest.len());
    let mut reached = 0.0;
    for (_, n) in &rest {
        reached += n;
        ends.push(reached);
    }
    let mut rng = Seed(0).stream("preview");
    let mut sums: Vec<f64> = (0..4096)
        .map(|_| {
            (0..per_line)
                .map(|_| {
                    let at = rng.random::<f64>() * count;
                    rest.get(ends.partition_point(|end| *end < at)).map_or(0.0, |(p, _)| p / all)
                })
                .sum()
        })
        .collect();
    let mean = sums.iter().sum::<f64>() / sums.len() as f64;
    sums.sort_by(f64::total_cmp);
    for part in sums.chunks(64) {
        let here = part.iter().sum::<f64>() / part.len() as f64;
        // Scaled, so that all probabilities sum to 1.
        let p = if mean > 0.0 { here / mean * each } else { each };
        out.push((p, left * part.len() as f64 / sums.len() as f64));
    }
    out
}

/// What the closed forms leave out of a setting; empty where they have all of it but interleaving. With several applications or several
/// packets a core they say nothing of it: see [`preview`].
pub fn left_out(spec: &SlicesSpec, is_recorded: bool) -> Vec<String> {
    let has_llc = spec.architecture != Architecture::NoLlc;
    let any = |what: &dyn Fn(&Application) -> bool| has_llc && spec.applications.iter().any(what);
    let is_device = matches!(spec.dram.service, BankService::Device { .. });
    [
        (spec.applications.len() > 1, "several applications: no closed forms are given"),
        (spec.outstanding > 1, "several packets a core (outstanding): no closed forms are given"),
        (any(&|a| a.skip.is_some()), "skip: the LLC is taken to be used always"),
        (any(&|a| a.bypass), "bypass: all that leaves L2 is taken to go to the LLC"),
        (spec.header_read.is_some(), "header_read: headers are taken to be there at once"),
        (is_device, "device timings: banks and data buses are taken to be free"),
        (is_recorded, "what packets under way at once do to each other: recorded ones go through the caches one by one, without time; a rough guess of waits"),
    ]
    .into_iter()
    .filter(|(applies, _)| *applies)
    .map(|(_, told)| told.to_string())
    .collect()
}

/// What the first application of a setting comes to if it has the system to itself. `recorded` replaces its table. Hit rates are NaN
/// where nothing comes to a cache.
///
/// # Errors
/// A rate that a closed form cannot take; what [`SlicesSpec::check`] would have found.
pub fn preview(spec: &SlicesSpec, recorded: Option<&Lookups>) -> Result<Preview, SlicesError> {
    let (a, c) = (&spec.applications[0], &spec.caches);
    let lines = |level| spec.lines_of(level) as f64;
    let over = f64::from(spec.slices_of(a));
    let (llc, slices, service) = match spec.architecture {
        Architecture::Proposed if spec.reading.pooled => (lines(&c.shared), over, 1e3 / c.slice.per_us),
        // Of ways it has the same part as of slices.
        Architecture::Proposed if spec.isolation == Isolation::Shared => {
            (lines(&c.slice) * over, over, 1e3 / c.slice.per_us)
        }
        Architecture::Proposed => (lines(&c.slice) * f64::from(a.slices), over, 1e3 / c.slice.per_us),
        Architecture::SharedLlc => (lines(&c.shared), 1.0, 1e3 / c.shared.per_us),
        Architecture::NoLlc => (0.0, 0.0, 0.0),
    };
    let (visits, l1_hits, l2_hits, llc_hits) = match recorded {
        None => {
            let hits = victim_hierarchy(&classes(spec), lines(&c.l1), lines(&c.l2), llc);
            let (miss1, miss2) = (1.0 - hits.l1, (1.0 - hits.l1) * (1.0 - hits.l2));
            (Visits::of_one([1.0, miss1, miss2, miss2 * (1.0 - hits.llc)]), hits.l1, hits.l2, hits.llc)
        }
        Some(lookups) => {
            let mut system = SlicesSystem::new(spec, Seed(0).child(0), &[Some(lookups.clone())])?;
            system.warm_up(1, &mut || true);
            let visits = system.visits(WALKED);
            let [all, past1, past2, past3] = visits.mean;
            (visits, 1.0 - past1 / all, 1.0 - past2 / past1, 1.0 - past3 / past2)
        }
    };
    // How long a core is held, which a device's bank is longer, and whether that varies.
    let (memory, varies) = match spec.dram.resolve("dram") {
        Ok(BankTiming::Device { first_data, burst, .. }) => ((first_data + burst).as_ns(), false),
        Ok(BankTiming::Rates { means, exponential }) => (means.first().map_or(0.0, |mean| mean.as_ns()), exponential),
        Err(_) => (0.0, true),
    };
    let (memory, cached) = (memory + 2.0 * spec.dram.link_ns, spec.caches.exponential);
    let (first, second) = (1e3 / c.l1.per_us, 1e3 / c.l2.per_us);
    let lambda = a.rho * spec.capacity_per_us() / 1e3;
    let mut at_slice = service;
    let mut found = None;
    for _ in 0..500 {
        let times = [first, second, at_slice, memory];
        let held: f64 = visits.mean.iter().zip(times).map(|(n, time)| n * time).sum();
        // Of a packet that visits so many the times add up; each visit is exponential or fixed.
        let mut moment = 0.0;
        for (i, time) in times.iter().enumerate() {
            moment += visits.products[i].iter().zip(times).map(|(n, other)| n * time * other).sum::<f64>();
            moment += f64::from(u8::from(if i < 3 { cached } else { varies })) * visits.mean[i] * time * time;
        }
        let scv = (moment / (held * held) - 1.0).max(0.0);
        let cores = blocking_cores(lambda, 1.0 / held, scv, a.cores, spec.limit)?;
        if slices > 0.0 {
            let queue = cores.throughput * visits.mean[2] * at_slice / slices;
            let others = ((cores.busy - 1.0) / cores.busy).max(0.0);
            let next = service * (1.0 + queue * others);
            at_slice += 0.2 * (next - at_slice);
        }
        found = Some(Preview {
            blocking: cores.blocking,
            throughput_per_us: cores.throughput * 1e3,
            wait_ns: cores.w_q,
            held_ns: held,
            l1_hits,
            l2_hits,
            llc_hits,
        });
    }
    Ok(found.ok_or(QueueError::NoServer)?)
}
