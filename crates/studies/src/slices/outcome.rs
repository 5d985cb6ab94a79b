//! What is reported of a point: figures of all applications together and of each.

use serde::Serialize;
use stats::{stationarity, student_quantile};

use super::limits::saturated;
use super::simulate::BATCHES;
use super::spec::{Architecture, SlicesSpec};
use super::totals::{Snapshot, Totals};

/// A mean, and how near the true one is with 95 % confidence (Student's t); NaN where nothing was seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The mean.
    pub value: f64,
    /// Its half-width.
    pub half_width: f64,
}

/// What came of a point. Times in ns, rates in millions a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlicesOutcome {
    /// Packets that arrived, a microsecond.
    pub offered_per_us: f64,
    /// Share of packets that found the system full, P_b.
    pub blocking: Figure,
    /// Packets served, a microsecond: lambda_e = lambda (1 - P_b).
    pub throughput_per_us: Figure,
    /// The same for packets of 64 bytes, without preamble and gap.
    pub throughput_gbps: Figure,
    /// Mean time in the queue of a core, W_e.
    pub wait_ns: Figure,
    /// Mean time in the system.
    pub sojourn_ns: Figure,
    /// Mean time that a core is held by a packet.
    pub held_ns: Figure,
    /// Hits in L1 of all lookups.
    pub l1_hits: Figure,
    /// Hits in L2 of those that missed L1.
    pub l2_hits: Figure,
    /// Hits in the LLC of those that looked there.
    pub llc_hits: Figure,
    /// L2 misses that skipped the LLC, of all L2 misses.
    pub skipped: Figure,
    /// Lookups that missed all caches.
    pub to_dram: Figure,
    /// Requests to memory that began while another bank of their channel was busy.
    pub interleaved: Figure,
    /// Mean wait for a bank, by request to memory.
    pub bank_wait_ns: Figure,
    /// Mean wait for a slice, by lookup there.
    pub slice_wait_ns: Figure,
    /// What cores, slices and banks are busy of the time. A core is while it waits for one of the others; a bank until it can
    /// take the next request.
    pub core_use: Figure,
    /// See `core_use`; 0 without LLC.
    pub slice_use: Figure,
    /// See `core_use`: of all banks.
    pub bank_use: Figure,
    /// Of channels of the packet buffer; NaN where headers are not read.
    pub header_use: Figure,
    /// Parts of the mean sojourn: name and ns; they sum to it but for packets that are in the system at the ends of
    /// batches.
    pub parts_ns: Vec<(&'static str, f64)>,
    /// Lookups that found a slice's queue full, by lookup there.
    pub queue_full: f64,
    /// How often applications began to skip the LLC or to use it again.
    pub skip_changes: u64,
    /// Which applications skip the LLC at the end of the last run.
    pub skipping: Vec<bool>,
    /// What does not let the system carry what is offered: `banks`, `slices`, `packet buffer` or `cores` that all of the offered packets
    /// would keep busy 98 % of the time or more, whichever most; `limit` where that is K itself, or where K blocks more than 10 %
    /// though all of these could do it. Waits then depend on K.
    pub saturated: Option<&'static str>,
    /// Whether waits show no trend over the measured part (p of Welch's test of its halves is 0.001 or more).
    pub steady: bool,
    /// Packets that were measured, all runs together.
    pub packets: u64,
    /// What each application had of it, in their order.
    pub applications: Vec<ApplicationOutcome>,
    /// What a reader should know of the setting.
    pub notes: Vec<String>,
}

/// What an application had; names as in [`SlicesOutcome`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApplicationOutcome {
    /// Its packets that arrived, a microsecond.
    pub offered_per_us: f64,
    /// Of its packets. All applications share the limit, so that it is the same for all but for chance.
    pub blocking: Figure,
    /// Its packets served, a microsecond.
    pub throughput_per_us: Figure,
    /// In the queue of one of its cores.
    pub wait_ns: Figure,
    /// In the system.
    pub sojourn_ns: Figure,
    /// A core is held by one of its packets.
    pub held_ns: Figure,
    /// Of its lookups.
    pub l1_hits: Figure,
    /// Of those that missed L1.
    pub l2_hits: Figure,
    /// Of those that looked in the LLC.
    pub llc_hits: Figure,
    /// Of its L2 misses.
    pub skipped: Figure,
    /// Of its lookups.
    pub to_dram: Figure,
    /// By lookup in the LLC.
    pub slice_wait_ns: Figure,
    /// By request to memory.
    pub bank_wait_ns: Figure,
    /// Of its cores.
    pub core_use: Figure,
    /// How often it began to skip the LLC or to use it again.
    pub skip_changes: u64,
    /// Whether it skips the LLC at the end of the last run.
    pub skipping: bool,
    /// Packets of it that were measured.
    pub packets: u64,
}

/// A trend is reported below this probability that there is none.
const TREND: f64 = 0.001;

fn share(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

/// A mean in ns of a sum in ps.
fn ns(sum: u64, n: u64) -> f64 {
    sum as f64 / n as f64 / 1e3
}

fn per_us(n: u64, ps: u64) -> f64 {
    n as f64 / ps as f64 * 1e6
}

/// Mean and half-width of a figure over samples, those without it left out.
fn figure<T>(samples: &[T], of: impl Fn(&T) -> f64) -> Figure {
    let values: Vec<f64> = samples.iter().map(of).filter(|v| v.is_finite()).collect();
    let n = values.len() as f64;
    let value = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - value).powi(2)).sum();
    let spread = (squares / (n - 1.0) / n).sqrt();
    let half_width = if values.len() < 2 { f64::NAN } else { student_quantile(0.975, n - 1.0) * spread };
    Figure { value, half_width }
}

/// What is the same of an application and of all together: span, totals, and contexts of its cores.
struct FigureSample {
    now: u64,
    t: Totals,
}

/// What `runs`, each cut into batches, come to.
pub(super) fn outcome(spec: &SlicesSpec, runs: &[Vec<Snapshot>], skipping: Vec<bool>) -> SlicesOutcome {
    let whole = |run: &Vec<Snapshot>| run[BATCHES].since(&run[0]);
    let parts: Vec<Snapshot> = if runs.len() > 1 {
        runs.iter().map(whole).collect()
    } else {
        runs.iter().flat_map(|run| run.windows(2).map(|pair| pair[1].since(&pair[0]))).collect()
    };
    let all = runs.iter().map(whole).reduce(|a, b| a.and(&b)).unwrap_or_default();
    let cores: u64 = spec.applications.iter().map(|a| u64::from(a.cores)).sum();
    let together: Vec<FigureSample> = parts.iter().map(|part| FigureSample { now: part.now, t: part.all() }).collect();
    let seen = found(&together, &all.all(), all.now, cores * u64::from(spec.outstanding));
    let slices = match spec.architecture {
        Architecture::Proposed => spec.slices_in_use(),
        Architecture::SharedLlc => 1,
        Architecture::NoLlc => 0,
    };
    let banks = u64::from(spec.dram.channels * spec.dram.banks);
    let of_slices = |part: &Snapshot| share(part.slices.iter().sum(), part.now * u64::from(slices));
    let header = spec.header_read.map_or((0, 0), |read| (read.taken().0, u64::from(read.channels)));
    let by_batch: Vec<f64> = (0..BATCHES)
        .map(|n| runs.iter().map(|run| run[n + 1].since(&run[n]).all()).map(|t| ns(t.waited, t.begun)).sum::<f64>())
        .collect();
    let t = all.all();
    let of_time = [
        ("queue", t.waited),
        ("packet_buffer", t.header),
        ("l1", t.l1),
        ("l2", t.l2),
        ("slice_queue", t.slice_wait),
        ("llc", all.slices.iter().sum()),
        ("bank_busy", t.bank_wait),
        ("dram", t.dram),
        ("link", t.link),
    ];
    let applications = (0..spec.applications.len()).map(|n| {
        let samples: Vec<FigureSample> =
            parts.iter().map(|part| FigureSample { now: part.now, t: part.applications[n] }).collect();
        let contexts = u64::from(spec.applications[n].cores) * u64::from(spec.outstanding);
        ApplicationOutcome { skipping: skipping[n], ..found(&samples, &all.applications[n], all.now, contexts) }
    });
    SlicesOutcome {
        offered_per_us: seen.offered_per_us,
        blocking: seen.blocking,
        throughput_per_us: seen.throughput_per_us,
        throughput_gbps: Figure {
            value: seen.throughput_per_us.value * 64.0 * 8.0 / 1e3,
            half_width: seen.throughput_per_us.half_width * 64.0 * 8.0 / 1e3,
        },
        wait_ns: seen.wait_ns,
        sojourn_ns: seen.sojourn_ns,
        held_ns: seen.held_ns,
        l1_hits: seen.l1_hits,
        l2_hits: seen.l2_hits,
        llc_hits: seen.llc_hits,
        skipped: seen.skipped,
        to_dram: seen.to_dram,
        interleaved: figure(&together, |s| share(s.t.interleaved, s.t.dram_requests)),
        bank_wait_ns: seen.bank_wait_ns,
        slice_wait_ns: seen.slice_wait_ns,
        core_use: seen.core_use,
        slice_use: if slices == 0 { Figure { value: 0.0, half_width: 0.0 } } else { figure(&parts, of_slices) },
        bank_use: figure(&parts, |part| share(part.banks.iter().sum(), part.now * banks)),
        header_use: figure(&together, |s| share(s.t.begun * header.0, s.now * header.1)),
        parts_ns: of_time.into_iter().map(|(name, sum)| (name, ns(sum, t.done))).collect(),
        queue_full: if t.llc_lookups == 0 { 0.0 } else { share(t.full, t.llc_lookups) },
        skip_changes: t.changes,
        saturated: saturated(spec, &all),
        steady: stationarity(&by_batch).is_ok_and(|test| test.p_value >= TREND),
        packets: t.arrived,
        applications: applications.collect(),
        skipping,
        notes: spec.notes(),
    }
}

/// Figures over `samples`; `all` are their totals over the time `now`, `contexts` the packets that its cores work on at most.
fn found(samples: &[FigureSample], all: &Totals, now: u64, contexts: u64) -> ApplicationOutcome {
    let of = |value: &dyn Fn(&Totals) -> f64| figure(samples, |s| value(&s.t));
    ApplicationOutcome {
        offered_per_us: per_us(all.arrived, now),
        blocking: of(&|t| share(t.blocked, t.arrived)),
        throughput_per_us: figure(samples, |s| per_us(s.t.arrived - s.t.blocked, s.now)),
        wait_ns: of(&|t| ns(t.waited, t.begun)),
        sojourn_ns: of(&|t| ns(t.sojourn, t.done)),
        held_ns: of(&|t| ns(t.held, t.done)),
        l1_hits: of(&|t| share(t.l1_hits, t.lookups)),
        l2_hits: of(&|t| share(t.l2_hits, t.lookups - t.l1_hits)),
        llc_hits: of(&|t| share(t.llc_hits, t.llc_lookups)),
        skipped: of(&|t| share(t.skipped, t.lookups - t.l1_hits - t.l2_hits)),
        to_dram: of(&|t| share(t.dram_requests, t.lookups)),
        slice_wait_ns: of(&|t| ns(t.slice_wait, t.llc_lookups)),
        bank_wait_ns: of(&|t| ns(t.bank_wait, t.dram_requests)),
        core_use: figure(samples, |s| share(s.t.held, s.now * contexts)),
        skip_changes: all.changes,
        skipping: false,
        packets: all.arrived,
    }
}
