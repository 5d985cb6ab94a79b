//! Of the summary: what became of the packets, and when.

use std::borrow::Cow;

use machine::dram::EnergyEvents;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use stats::{Attribution, Histogram, Reason};
use units::{LINE_BYTES, Ps};

use crate::answer::rates::energy_model;
use crate::run::measure::{CLASSES, ClassTally, Interval as Counts, Measure};
use crate::run::stalls::{PlacedStalls, TRIAL_SECONDS};
use crate::run::{RunResult, SearchOutcome, Trial};
use crate::scenario::{RateSearch as SearchKind, Scenario};

/// Shares of the CDF that two points are apart, at most.
const CDF_STEP: f64 = 1.0 / 150.0;
/// In the tail, what is left above a point is this share of what was left above the one before.
const CDF_TAIL: f64 = 0.8;
/// Where a CDF's points need not come nearer to 1.
const CDF_END: f64 = 1e-6;

/// Times of packets, from the last bit received to the first bit sent, in nanoseconds.
#[derive(Serialize, JsonSchema)]
pub struct Times {
    /// Their mean.
    mean: f64,
    /// The shortest.
    #[schemars(with = "f64")]
    min: Option<f64>,
    /// Half are not longer.
    #[schemars(with = "f64")]
    p50: Option<f64>,
    /// 99 % are not longer.
    #[schemars(with = "f64")]
    p99: Option<f64>,
    /// 99.9 % are not longer.
    #[schemars(with = "f64")]
    p999: Option<f64>,
    /// The longest.
    #[schemars(with = "f64")]
    max: Option<f64>,
}

impl Times {
    pub(super) fn of(h: &Histogram) -> Times {
        let ns = |t: Option<Ps>| t.map(Ps::as_ns);
        Times {
            mean: h.mean() / 1e3,
            min: ns(h.min()),
            p50: ns(h.quantile(0.5)),
            p99: ns(h.quantile(0.99)),
            p999: ns(h.quantile(0.999)),
            max: ns(h.max()),
        }
    }
}

/// Time from the last bit received to the first bit sent, per packet, after warm-up; intervals at 95 %. The ends of an
/// interval lie unevenly about a quantile in the tail.
#[derive(Serialize, JsonSchema)]
pub struct Sojourn {
    #[serde(flatten)]
    times: Times,
    /// Half-width of the mean's interval; null where too few packets were seen.
    #[schemars(with = "Option<f64>")]
    half_width: f64,
    /// Half-width of the median's interval.
    #[schemars(with = "Option<f64>")]
    p50_half_width: f64,
    /// The lower end of the median's interval.
    #[schemars(with = "f64")]
    p50_low: Option<f64>,
    /// The upper end of the median's interval; null where too few packets were seen to bound it.
    p50_high: Option<f64>,
    /// Half-width of the 99 % quantile's interval; null where too few packets were seen to bound it.
    #[schemars(with = "Option<f64>")]
    p99_half_width: f64,
    /// The lower end of the 99 % quantile's interval.
    #[schemars(with = "f64")]
    p99_low: Option<f64>,
    /// The upper end of the 99 % quantile's interval; null where too few packets were seen to bound it.
    p99_high: Option<f64>,
    /// Half-width of the 99.9 % quantile's interval; null where too few packets were seen to bound it.
    #[schemars(with = "Option<f64>")]
    p999_half_width: f64,
    /// The lower end of the 99.9 % quantile's interval.
    #[schemars(with = "f64")]
    p999_low: Option<f64>,
    /// The upper end of the 99.9 % quantile's interval; null where too few packets were seen to bound it.
    p999_high: Option<f64>,
}

impl Sojourn {
    pub(super) fn of(m: &Measure) -> Sojourn {
        let bounds = |q: f64| {
            let quantile = m.sojourn.quantile(q);
            let ns = |t: Option<Ps>| t.map(Ps::as_ns);
            let half_width = quantile.map_or(f64::NAN, |q| q.half_width() / 1e3);
            (half_width, ns(quantile.map(|q| q.low)), ns(quantile.and_then(|q| q.high)))
        };
        let (p50_half_width, p50_low, p50_high) = bounds(0.5);
        let (p99_half_width, p99_low, p99_high) = bounds(0.99);
        let (p999_half_width, p999_low, p999_high) = bounds(0.999);
        Sojourn {
            times: Times::of(m.sojourn.histogram()),
            half_width: m.sojourn.mean().half_width / 1e3,
            p50_half_width,
            p50_low,
            p50_high,
            p99_half_width,
            p99_low,
            p99_high,
            p999_half_width,
            p999_low,
            p999_high,
        }
    }
}

/// Cycles a packet by reason, those that nothing was charged to left out.
pub(super) fn cycles(spent: &Attribution, ghz: f64, packets: u64) -> Map<String, Value> {
    spent
        .iter()
        .filter(|(_, time)| time.0 > 0 && packets > 0)
        .map(|(reason, time)| (reason.name().into(), (time.as_ns() * ghz / packets as f64).into()))
        .collect()
}

/// Mean nanoseconds a packet by reason.
pub(super) fn attribution(sum: &Attribution, packets: u64) -> Map<String, Value> {
    let mean = |time: Ps| if packets == 0 { 0.0 } else { time.as_ns() / packets as f64 };
    sum.iter().map(|(reason, time)| (reason.name().to_string(), json!(mean(time)))).collect()
}

/// Packets of one class of frame size, and where their time goes.
#[derive(Serialize, JsonSchema)]
pub struct PacketClass {
    /// Its frames, in bytes.
    name: &'static str,
    /// Packets carried.
    packets: u64,
    /// Time from the last bit received to the first bit sent.
    sojourn_ns: Times,
    /// Mean nanoseconds a packet by reason.
    #[schemars(with = "std::collections::BTreeMap<String, f64>")]
    attribution_ns: Map<String, Value>,
}

pub(super) fn classes(m: &Measure) -> Vec<PacketClass> {
    let class = |(tally, (name, _)): (&ClassTally, &(&'static str, u32))| PacketClass {
        name,
        packets: tally.sojourn.n(),
        sojourn_ns: Times::of(&tally.sojourn),
        attribution_ns: attribution(&tally.attribution, tally.sojourn.n()),
    };
    m.classes.iter().zip(&CLASSES).filter(|(tally, _)| tally.sojourn.n() > 0).map(class).collect()
}

/// Steps of the distribution function, dense in the tail.
pub(super) fn cdf(h: &Histogram) -> Vec<(f64, f64)> {
    let Some(min) = h.min() else { return Vec::new() };
    let (mut points, mut below, n) = (vec![(min.as_ns(), 0.0)], 0, h.n() as f64);
    let mut last = 0.0;
    for (value, count) in h.buckets() {
        below += count;
        let share = below as f64 / n;
        let tail = 1.0 - share <= (1.0 - last) * CDF_TAIL && 1.0 - last > CDF_END;
        if share - last >= CDF_STEP || tail || below == h.n() {
            points.push((value.min(h.max().unwrap_or(value)).as_ns(), share));
            last = share;
        }
    }
    points
}

/// A run at one load: a point of the curve.
#[derive(Serialize, JsonSchema)]
pub struct CurvePoint {
    /// Offered share of line rate.
    load: f64,
    /// Offered rate.
    offered_mpps: f64,
    /// Carried rate.
    carried_mpps: f64,
    /// Lost over offered packets.
    loss: f64,
    /// Packets lost for want of a resource.
    lost: u64,
    /// Packets offered after warm-up.
    packets: u64,
    /// Packets offered before.
    warmup_packets: u64,
    /// Median sojourn.
    p50_ns: f64,
    /// The sojourn that 99 % do not exceed.
    p99_ns: f64,
    /// What the ring of a core held more at the end than at the beginning, over the packets that came to it: the largest share of all
    /// cores, 0 where that may be chance. What loses nothing yet, but has such a ring, is an overload. Null where nobody looked: traffic
    /// that comes in bursts, systems that stall cores.
    ring_growth: Option<f64>,
    /// A smaller one would not show, nor would an overload by less; null likewise.
    least_ring_growth: Option<f64>,
}

impl CurvePoint {
    pub(super) fn of(trial: &Trial) -> CurvePoint {
        CurvePoint {
            load: trial.load,
            offered_mpps: trial.offered_mpps,
            carried_mpps: trial.carried_mpps,
            loss: trial.loss(),
            lost: trial.lost,
            packets: trial.packets,
            warmup_packets: trial.warmup_packets,
            p50_ns: trial.p50_ns,
            p99_ns: trial.p99_ns,
            ring_growth: trial.growth.map(|growth| growth.share),
            least_ring_growth: trial.growth.map(|growth| growth.least),
        }
    }
}

/// One trial of a search.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Trial")]
pub struct SearchTrial {
    #[serde(flatten)]
    point: CurvePoint,
    /// Whether its loss is within the limit, that by stalls among it.
    pass: bool,
    /// Lost over offered packets by stalls of the system alone; null where none were placed.
    stall_loss: Option<f64>,
}

/// What a search would have found without stalls of the system.
#[derive(Serialize, JsonSchema)]
pub struct SearchWithoutStalls {
    /// The rate.
    mpps: f64,
    /// The same in bits.
    gbps: f64,
    /// The same as a share of line rate.
    load: f64,
    /// Whether stalls make the rate that was found a lower one: they overflow the rings of a core.
    bound: bool,
    /// Seconds of a trial by which stalls count (RFC 2544, section 24): what they lose in it in the mean, if that is a packet or more.
    trial_s: f64,
    /// Stalls of a core in that time, in the mean.
    stalls: f64,
    /// Trials that only this took.
    trials: usize,
}

/// A search by RFC 2544: the highest load at which the loss is within `loss_limit`, and its trials.
#[derive(Serialize, JsonSchema)]
pub struct SearchSummary {
    /// `ndr`, without loss, or `pdr`, with a loss within `loss_limit`.
    kind: &'static str,
    /// The rate found; 0 where none was.
    mpps: f64,
    /// The same in bits.
    gbps: f64,
    /// The same as a share of line rate.
    load: f64,
    /// The loss that passes.
    loss_limit: f64,
    /// Packets of a trial.
    packets: u64,
    /// Packets that an overload by the resolution needs to fill receive rings and NIC memory.
    sufficient_packets: u64,
    /// All of them, in their order.
    trials: Vec<SearchTrial>,
    /// The same without the system's stalls; null where none were placed, and where no rate passed.
    without_stalls: Option<SearchWithoutStalls>,
}

impl SearchSummary {
    pub(super) fn of(result: &RunResult, found: &SearchOutcome) -> SearchSummary {
        let trial = |trial: &Trial| SearchTrial {
            point: CurvePoint::of(trial),
            pass: trial.passes(found.loss_limit),
            stall_loss: trial.stall_loss,
        };
        let without = |(stalls, (best, trials)): (&PlacedStalls, &(Trial, usize))| SearchWithoutStalls {
            mpps: best.offered_mpps,
            gbps: best.load * result.scenario.nic.rate.gbps(),
            load: best.load,
            bound: found.load < best.load,
            trial_s: TRIAL_SECONDS,
            stalls: stalls.a_second() * TRIAL_SECONDS,
            trials: *trials,
        };
        let best = found.trials.iter().rfind(|t| t.load == found.load);
        SearchSummary {
            kind: if found.kind == SearchKind::Ndr { "ndr" } else { "pdr" },
            mpps: best.map_or(0.0, |t| t.offered_mpps),
            gbps: found.load * result.scenario.nic.rate.gbps(),
            load: found.load,
            loss_limit: found.loss_limit,
            packets: found.packets,
            sufficient_packets: found.sufficient_packets,
            trials: found.trials.iter().map(trial).collect(),
            without_stalls: result.stalls.as_ref().zip(found.without_stalls.as_ref()).map(without),
        }
    }
}

/// One interval of the run's time series: packets by their arrival, cores and memory by when they worked. The table
/// `series` has a column for each field.
#[derive(Serialize, JsonSchema)]
pub struct IntervalSummary {
    /// When it began, from the end of warm-up on.
    pub(crate) start_ns: f64,
    /// How long it is.
    pub(crate) width_ns: f64,
    /// Offered rate of the packets that arrived in it.
    pub(crate) offered_mpps: f64,
    /// Carried rate of the packets that arrived in it.
    pub(crate) carried_mpps: f64,
    /// Lost over offered packets.
    #[schemars(with = "Option<f64>")]
    pub(crate) loss: f64,
    /// Their mean sojourn.
    #[schemars(with = "Option<f64>")]
    pub(crate) sojourn_mean_ns: f64,
    /// Packets in all receive rings, on average.
    #[schemars(with = "Option<f64>")]
    pub(crate) ring_packets: f64,
    /// Mbufs in receive descriptors, to be filled or with packets that wait, on average.
    #[schemars(with = "Option<f64>")]
    pub(crate) mbufs_descriptors: f64,
    /// Mbufs in software queues, on average.
    #[schemars(with = "Option<f64>")]
    pub(crate) mbufs_queued: f64,
    /// Mbufs in bursts and transmit rings, on average.
    #[schemars(with = "Option<f64>")]
    pub(crate) mbufs_sending: f64,
    /// Mbufs in the pool and its caches, on average.
    #[schemars(with = "Option<f64>")]
    pub(crate) mbufs_free: f64,
    /// Share of the cores' LLC lookups that hit.
    #[schemars(with = "Option<f64>")]
    pub(crate) llc_hit_rate: f64,
    /// DRAM bandwidth.
    #[schemars(with = "Option<f64>")]
    pub(crate) dram_gb_per_s: f64,
    /// Share of time that cores were busy, on average over them.
    #[schemars(with = "Option<f64>")]
    pub(crate) core_busy: f64,
}

/// The intervals of a run that are whole: those before its last packet arrives. What is behind them was done later.
fn whole_intervals(m: &Measure) -> &[Counts] {
    let whole = (m.window().0 / m.interval.0) as usize;
    &m.intervals[..whole.min(m.intervals.len())]
}

/// The intervals of a run, and how long the last of them is. What remains after the last whole one is an interval of its own from half
/// an interval on; less goes into the one before, or rates would be of a packet in picoseconds. So does what was done after the last
/// packet arrived, which may take many intervals where rings are long.
fn intervals(m: &Measure) -> (Cow<'_, [Counts]>, Ps) {
    let whole = whole_intervals(m).len();
    let left = |before: usize| Ps(m.window().0.saturating_sub(m.interval.0.saturating_mul(before as u64)));
    let n = if left(whole).0 >= m.interval.0 / 2 { whole + 1 } else { whole }.max(1);
    if m.intervals.len() <= n {
        return (Cow::Borrowed(&m.intervals), Ps(left(n - 1).0.min(m.interval.0)));
    }
    let mut merged = m.intervals[..n].to_vec();
    merged[n - 1] = Counts::merged(&m.intervals[n - 1..]);
    (Cow::Owned(merged), left(n - 1))
}

/// The series since measurement began. The last interval is as wide as it was measured. Packets count where they
/// arrived, what cores and memory did counts when it was done; after the last arrival, of the last interval.
pub(crate) fn series(scenario: &Scenario, m: &Measure) -> Vec<IntervalSummary> {
    let (intervals, last) = intervals(m);
    let mut series = Vec::with_capacity(intervals.len());
    let mut start = Ps::ZERO;
    for (n, interval) in intervals.iter().enumerate() {
        let width = if n + 1 == intervals.len() { last } else { m.interval };
        let us = width.as_secs() * 1e6;
        let a = &interval.activity;
        let [descriptors, queued, sending, free] = a.mbufs.map(|sum| sum as f64 / a.samples as f64);
        series.push(IntervalSummary {
            start_ns: start.as_ns(),
            width_ns: width.as_ns(),
            offered_mpps: interval.offered as f64 / us,
            carried_mpps: interval.carried as f64 / us,
            loss: interval.lost as f64 / interval.offered as f64,
            sojourn_mean_ns: interval.sojourn_sum as f64 / interval.carried as f64 / 1e3,
            ring_packets: a.waiting as f64 / a.samples as f64,
            mbufs_descriptors: descriptors,
            mbufs_queued: queued,
            mbufs_sending: sending,
            mbufs_free: free,
            llc_hit_rate: a.llc_hits as f64 / a.llc_lookups as f64,
            dram_gb_per_s: (a.dram_lines * LINE_BYTES) as f64 / a.span.as_secs() / 1e9,
            core_busy: a.busy.as_secs() / (a.span.as_secs() * f64::from(scenario.machine.cores)),
        });
        start += m.interval;
    }
    series
}

/// Batches of the carried rate, at most.
const RATE_BATCHES: usize = 16;

/// Means of batches, by metric, for comparisons with other runs.
pub(super) fn batches(scenario: &Scenario, m: &Measure) -> Map<String, Value> {
    let mut out = Map::new();
    // Neighbours depend on each other.
    let whole = whole_intervals(m);
    let each = whole.len().div_ceil(RATE_BATCHES).max(1);
    let us = m.interval.as_secs() * 1e6 * each as f64;
    let carried = whole.chunks_exact(each).map(|c| c.iter().map(|i| i.carried).sum::<u64>() as f64 / us);
    out.insert("carried_mpps".into(), carried.collect());
    if let Ok(model) = energy_model(scenario) {
        let each = whole.chunks_exact(each).map(|intervals| {
            let mut work = EnergyEvents::default();
            intervals.iter().for_each(|i| work += i.activity.dram_work);
            model.of(&work).total() / intervals.iter().map(|i| i.activity.sent).sum::<u64>() as f64
        });
        let each: Vec<f64> = each.collect();
        // A batch that sent nothing has no energy a packet.
        if each.iter().all(|nj| nj.is_finite()) {
            out.insert("dram_energy".into(), each.into());
        }
    }
    out.insert("loss".into(), m.loss().batch_ratios().into());
    out.insert("mean".into(), m.sojourn.batch_means().iter().map(|ps| ps / 1e3).collect());
    for (reason, means) in Reason::ALL.iter().zip(&m.reasons) {
        if m.attribution[*reason] > 0 {
            out.insert(reason.name().into(), means.batch_means().to_vec().into());
        }
    }
    out
}
