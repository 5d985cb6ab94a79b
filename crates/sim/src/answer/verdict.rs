//! A run in words: does it keep wire speed, why, and what to try. From what was measured only.

use machine::buffer::BufferAllocation;
use machine::dram::stats::Shares;
use schemars::JsonSchema;
use serde::Serialize;
use stats::{Reason, ReasonFamily};
use traffic::Popularity;

use crate::answer::hot::HotRing;
use crate::answer::limit::{DRAM_IDLE, RateLimit, RateUse, SATURATED};
use crate::answer::model_error::{AnswerKind, ModelError, model_error_text, model_errors};
use crate::answer::rates::{MeasuredRates, dram_bandwidth, is_stationary};
use crate::answer::stalls::{StallsSummary, busiest, least_ring};
use crate::answer::words::{count, digits, duration, percent, scientific};
use crate::run::growth::RingGrowth;
use crate::run::sampling::Sampling;
use crate::run::search::buffered_packets;
use crate::run::stalls::{TRIAL_SECONDS, flows};
use crate::run::warm::{WarmUp, WarmUpEnd, WarmthMeasure};
use crate::run::{RunResult, SearchOutcome};
use crate::scenario::{FunctionKind, GpuPosting, RateSearch};
use crate::server::Loss;

/// A link that is busy for more than this share of the time, headers included, is nearly full.
const LINK_FULL: f64 = 0.95;
/// DRAM that moves more than this share of its peak queues.
const DRAM_FULL: f64 = 0.7;
/// Below this share of the mean sojourn a part is not worth a remark.
const REMARKABLE: f64 = 0.25;
/// Device writes are a cause when packets are lost, or when they hold packets up for this share of the sojourn. They are one, too, when
/// this share of what cores come for, or of what is sent, has been evicted before.
const DDIO_COSTS: f64 = 0.05;
/// A core that gets less than this over the mean needs no word.
const REMARKABLY_UNEVEN: f64 = 1.01;
/// All of the time, as it is written.
const FULLY: f64 = 0.9995;
/// An LLC whose misses fall to less than this share from one half of a run to the other is not full yet.
const STILL_FILLING: f64 = 0.8;
/// A fall by fewer misses a packet is nothing.
const LEAST_FALL: f64 = 0.01;
/// A share of rejected packets that lightens the load.
const MANY_REJECTED: f64 = 0.05;
/// A share of rejected packets that the headline speaks of.
const SOME_REJECTED: f64 = 0.01;
/// A load of at least this share of the line rate is line rate: rates are rounded.
const LINE_RATE: f64 = 0.9999;
/// Where less more than this share of what was offered could be, something is near its limit.
const ROOMY: f64 = 1.0;
/// So many flows a core spread evenly by chance, within a tenth.
const FLOWS_A_CORE: u64 = 1024;
/// What a packet buffer takes.
const MBUF_KIB: f64 = machine::nic::MBUF_STRIDE as f64 / 1024.0;
/// Parts of the sojourn that are named.
const NAMED: usize = 3;

/// Whether a core that waits for it waits for memory.
fn is_memory(reason: Reason) -> bool {
    matches!(reason.family(), ReasonFamily::Private | ReasonFamily::Shared | ReasonFamily::Dram)
        || reason == Reason::Copy
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Line rate was offered, and nothing was lost.
    LineRate,
    /// Less than line rate was offered, and nothing was lost.
    Carries,
    /// Packets were lost for want of a resource.
    Loses,
    /// Nothing was lost, but the function rejected more than 1 %.
    Rejects,
    /// The run was ended early.
    Partial,
    /// A search found a rate below line rate.
    Found,
    /// No verdict: no packet was measured, also of a run ended early; no rate was found; or so few packets were offered that
    /// rings and NIC memory take in all, so that none could be lost.
    Nothing,
}

impl RunStatus {
    fn keeps_wire_speed(self) -> Option<bool> {
        match self {
            RunStatus::LineRate => Some(true),
            RunStatus::Loses | RunStatus::Found => Some(false),
            RunStatus::Carries | RunStatus::Rejects | RunStatus::Partial | RunStatus::Nothing => None,
        }
    }
}

/// The answer in words.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunVerdict {
    /// How the run ended.
    pub status: RunStatus,
    /// Whether line rate was carried without loss; null where that was not tried: less was offered, much of it was rejected,
    /// or the run was ended early.
    pub keeps_wire_speed: Option<bool>,
    /// Whether a packet could have been lost: false where none was measured, or where rings and NIC memory take in all that
    /// were offered. Then a loss of 0 says nothing, and comparisons, conditions and sweeps have no loss.
    pub loss_is_known: bool,
    /// What holds the rate back, or comes nearest to it; null where no packet was measured.
    pub limit: Option<RateLimit>,
    /// So much more could be offered, as a share of what was, until that has no time left; null where packets were lost or none was measured.
    pub headroom: Option<f64>,
    /// Whether the answer to wire speed stands beyond the model's error on servers that share parts with this one: what is left is more
    /// than that, or what is lacking. Null where none was measured, or there is no such answer.
    pub beyond_model_error: Option<bool>,
    /// How far off predictions were on such servers, by what is asked.
    pub model_errors: Vec<ModelError>,
    /// The answer in one sentence.
    pub headline: String,
    /// Why: what was measured that makes it so.
    pub reasons: Vec<String>,
    /// What was seen beside that: where time goes, what caches did, how the machine was warmed.
    pub details: Vec<String>,
    /// What to try, each with the setting that tries it.
    pub advice: Vec<String>,
}

impl RunVerdict {
    fn new(
        status: RunStatus,
        loss_is_known: bool,
        headline: String,
        [reasons, details]: [Vec<String>; 2],
        advice: Vec<String>,
    ) -> RunVerdict {
        let (limit, headroom, beyond_model_error, model_errors) = (None, None, None, Vec::new());
        let keeps_wire_speed = status.keeps_wire_speed();
        RunVerdict {
            status,
            keeps_wire_speed,
            loss_is_known,
            limit,
            headroom,
            beyond_model_error,
            model_errors,
            headline,
            reasons,
            details,
            advice,
        }
    }
}

/// Judges a run.
pub fn verdict(result: &RunResult) -> RunVerdict {
    let facts = Facts::of(result);
    if facts.packets == 0 {
        let headline = "No verdict: no packet was measured.".into();
        return RunVerdict::new(
            RunStatus::Nothing,
            false,
            headline,
            [vec!["The run ended before its warm-up was over.".into()], Vec::new()],
            Vec::new(),
        );
    }
    let mut reasons = Vec::new();
    let mut advice = Vec::new();
    reasons.extend(result.measured.sampling.as_ref().map(sampling_text));
    facts.loss(&mut reasons, &mut advice);
    facts.limits(&mut reasons, &mut advice);
    facts.stalls(&mut reasons, &mut advice);
    let mut details = Vec::new();
    // What a lost packet waited for is why; of one that was carried it is a detail.
    let seen = if facts.lost == 0 { &mut details } else { &mut reasons };
    facts.time(seen, &mut advice);
    facts.memory(seen, &mut advice);
    if let Some(found) = &result.search {
        let (n, enough) = (found.packets, found.sufficient_packets);
        if n < enough {
            advice.push(format!(
                "Trials of {} packets are too short: an overload by the resolution ({} of line rate) has filled rings and NIC memory only after {}; leave out run.search_packets, or raise it.",
                count(n),
                percent(result.scenario.run.search_resolution),
                count(enough)
            ));
        } else if facts.lost as f64 > found.loss_limit * facts.packets as f64 {
            advice.push(if facts.packets < n {
                format!(
                    "The run lost more than its trials of {} packets, which were longer: make it as long as they are (--set run.packets={n}).",
                    count(n)
                )
            } else {
                format!(
                    "The run lost more than its trials, which were shorter or luckier: search with longer ones (--set run.search_packets={}).",
                    facts.packets.saturating_mul(2)
                )
            });
        }
    }
    let warmup = &result.measured.warmup;
    // Near saturation the sojourn wanders for long, and MSER-5 keeps cutting though nothing drifts any more.
    let drifts =
        warmup.unsettled.iter().any(|measure| *measure != WarmthMeasure::Sojourn) || facts.stationary != Some(true);
    let is_short = warmup.end == WarmUpEnd::Limit && drifts;
    if is_short { &mut reasons } else { &mut details }.push(warmup_text(warmup));
    if is_short {
        let n = warmup.packets.saturating_mul(4);
        advice.push(format!("What was cut as warm-up may be too short: cut more (--set run.warmup={n}), or offer more packets (run.packets)."));
    } else if facts.stationary == Some(false) {
        let n = result.scenario.run.packets.saturating_mul(4);
        advice.push(format!("The sojourn still drifts: run longer before trusting it (--set run.packets={n})."));
    }
    let (status, headline) = facts.answer();
    if status == RunStatus::Nothing && result.search.is_none() {
        // So many that an overload by the resolution of a search would fill rings, where they were on their way.
        let enough = (facts.held() as f64 / result.scenario.run.search_resolution).ceil() as u64;
        let n = if facts.overload().is_some() { enough } else { facts.held().saturating_mul(20) };
        advice = vec![format!("Offer more packets: --set run.packets={n}.")];
    } else if advice.is_empty() && result.search.is_none() && facts.lost == 0 {
        let near = RateUse::of(result).headroom() < ROOMY;
        advice.push(if near {
            "--search ndr finds the highest rate without loss.".into()
        } else {
            "Nothing measured is near its limit: --search ndr finds the highest rate without loss.".into()
        });
    }
    let verdict = RunVerdict::new(status, !facts.fit_into_buffers(), headline, [reasons, details], advice);
    let used = RateUse::of(result);
    // Of what grows as it goes nobody knows how much more there is room for, nor of walks, which grow with the mbufs in flight.
    let is_known = facts.stationary != Some(false) && used.limit(result) != RateLimit::Iommu;
    let headroom = (facts.lost == 0 && is_known).then(|| used.headroom());
    let served = facts.served_mpps;
    verdict.beside_measured(result, &used, headroom, facts.offered_mpps, served)
}

impl RunVerdict {
    /// With the model's error on servers that share parts with this one.
    fn beside_measured(
        mut self,
        result: &RunResult,
        used: &RateUse,
        headroom: Option<f64>,
        offered: f64,
        served: f64,
    ) -> RunVerdict {
        let limit = used.limit(result);
        let errors = model_errors(&result.scenario, limit);
        let rate = errors.iter().find(|error| error.kind == AnswerKind::Rate).and_then(ModelError::ends);
        let found = result.search.as_ref().filter(|_| self.status == RunStatus::Found).map(|found| found.load);
        // What a server would carry, over what was offered, is between these.
        let carried = match (self.status, headroom) {
            (RunStatus::LineRate | RunStatus::Carries, Some(headroom)) => Some(1.0 + headroom),
            (RunStatus::Loses, _) => Some(served / offered),
            (RunStatus::Found, _) => found,
            _ => None,
        };
        let ends = rate.zip(carried).map(|((low, high), carried)| (carried / (1.0 + high), carried / (1.0 + low)));
        let short = used.short_bursts();
        self.beyond_model_error = ends.and_then(|(least, most)| match self.status {
            // With short bursts nobody knows how much is left.
            RunStatus::LineRate | RunStatus::Carries => (least >= 1.0 || short.is_none()).then_some(least >= 1.0),
            _ => Some(most < 1.0),
        });
        if self.beyond_model_error == Some(false) {
            self.headline = by_less_than_the_error(&self.headline);
        }
        if let Some(headroom) = headroom.filter(|_| matches!(self.status, RunStatus::LineRate | RunStatus::Carries)) {
            // More than a port brings cannot be offered.
            let to_line = 1.0 / result.load - 1.0;
            let more = percent(headroom);
            let line = if headroom < to_line || to_line <= 1e-9 {
                String::new()
            } else {
                format!("; line rate is {} more", percent(to_line))
            };
            let least = match short {
                Some(packets) => format!(
                    "at least {more} more could be offered, and more than that, since bursts of {} packets grow with it",
                    digits(packets)
                ),
                None => format!("{more} more could be offered"),
            };
            self.reasons.push(format!("Nearest to its limit is {}: {least}{line}.", limit.words()));
        }
        let mut text = model_error_text(&errors);
        // No more gets through than is offered.
        let ends =
            ends.map(|(least, most)| if found.is_none() { (least.min(1.0), most.min(1.0)) } else { (least, most) });
        if let Some((least, most)) = ends.filter(|_| matches!(self.status, RunStatus::Loses | RunStatus::Found)) {
            let mpps = if found.is_some() { served / found.unwrap_or(1.0).max(f64::MIN_POSITIVE) } else { offered };
            text += &format!(
                " A server would carry {} to {} Mpps, by what was measured.",
                digits(least * mpps),
                digits(most * mpps)
            );
        }
        self.reasons.push(text);
        (self.limit, self.headroom, self.model_errors) = (Some(limit), headroom, errors);
        self
    }
}

/// The headline, with how near it is.
fn by_less_than_the_error(headline: &str) -> String {
    let heads = ["Keeps wire speed", "Does not keep wire speed", "Loses packets", "Carries"];
    match heads.iter().find_map(|head| headline.strip_prefix(head).map(|rest| (head, rest))) {
        Some((head @ &("Keeps wire speed" | "Does not keep wire speed"), rest)) => {
            format!("{head}, by less than the model's error{rest}")
        }
        Some(_) => format!("By less than the model's error: {}", lower(headline)),
        None => headline.into(),
    }
}

fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}

/// What was timed of a run that was to be sampled.
pub fn sampling_text(sampling: &Sampling) -> String {
    match &sampling.timed_in_full {
        None => {
            let share = |packets: u64| packets as f64 * 100.0 / sampling.of.max(1) as f64;
            let left_out = match sampling.left_out {
                0 => String::new(),
                packets => format!(" and {:.1} % were left out", share(packets)),
            };
            format!(
                "Sampled: {} windows of {} packets stand for {}, of which {:.1} % went in detail{left_out}.",
                sampling.windows,
                count(sampling.window_packets),
                count(sampling.of),
                share(sampling.in_detail)
            )
        }
        Some(why) => format!("All of the run was timed, not windows of it: {why}."),
    }
}

/// What was cut as warm-up, and why so much.
pub fn warmup_text(w: &WarmUp) -> String {
    let mut text = format!("The first {} packets were cut as warm-up", count(w.packets));
    if w.untimed > 0 {
        text += &format!(", {} of them without time", count(w.untimed));
    }
    if w.taken_over > 0 {
        text += ", from what LLC and L2 of a like machine held";
    }
    text += match w.end {
        WarmUpEnd::Given => ", as run.warmup says",
        WarmUpEnd::Settled => "",
        WarmUpEnd::Limit => ", the most that is cut by itself",
    };
    if w.unsettled.is_empty() {
        // Of few packets nothing is known of the sojourn.
        let sojourn =
            if w.settled_after.is_some() { ", packet buffers and the sojourn" } else { " and packet buffers" };
        return text + ": caches, accesses to DRAM" + sojourn + " had settled.";
    }
    let open = w.unsettled.iter().map(|measure| match measure {
        WarmthMeasure::LlcLines => {
            format!("{} ({} of {})", measure.label(), count(w.llc_lines), count(w.llc_capacity))
        }
        WarmthMeasure::Mbufs => format!("{} ({} of {})", measure.label(), count(w.stored.min(w.mbufs)), count(w.mbufs)),
        _ => measure.label().to_string(),
    });
    text + ". Not settled: " + &open.collect::<Vec<_>>().join(", ") + "."
}

/// What the words are made from.
struct Facts<'a> {
    result: &'a RunResult,
    packets: u64,
    lost: u64,
    rejected: u64,
    offered_gbps: f64,
    offered_mpps: f64,
    /// What was not lost, whether sent or rejected.
    served_mpps: f64,
    busy: Vec<f64>,
    hot: Option<HotRing>,
    stationary: Option<bool>,
}

/// How busy the cores are.
struct CoreLoad {
    cores: usize,
    /// The busiest one's share of time, and which it is.
    most: f64,
    busiest: usize,
    least: f64,
    /// So many have no time left.
    saturated: usize,
    /// The buses of DRAM have no time left.
    memory_full: bool,
}

impl Facts<'_> {
    fn of(result: &RunResult) -> Facts<'_> {
        let m = &result.measured.measure;
        let rates = MeasuredRates::of(m);
        let lost: u64 = m.lost.values().sum();
        let offered_mpps = rates.mpps(&m.offered);
        let span = result.measured.counts.span.as_secs();
        Facts {
            result,
            packets: m.offered.packets,
            lost,
            rejected: m.rejected.values().sum(),
            offered_gbps: rates.gbps(&m.offered),
            offered_mpps,
            served_mpps: offered_mpps * (1.0 - lost as f64 / m.offered.packets as f64),
            busy: result.measured.counts.cores.iter().map(|c| c.busy.as_secs() / span).collect(),
            hot: HotRing::of(result),
            stationary: is_stationary(m),
        }
    }

    fn offered(&self) -> String {
        format!("{} Gbps ({} Mpps)", digits(self.offered_gbps), digits(self.offered_mpps))
    }

    /// The status, and the answer in a sentence.
    fn answer(&self) -> (RunStatus, String) {
        let (status, mut headline) = match &self.result.search {
            Some(found) => self.found(found),
            None => self.carried(),
        };
        if self.result.partial {
            let asked = count(self.result.scenario.run.packets);
            let after = match &self.result.search {
                Some(found) => format!("{} trials", found.trials.len()),
                None => format!("{} of {asked} packets", count(self.packets)),
            };
            return (RunStatus::Partial, format!("Ended early, after {after}: {headline}"));
        }
        let Some(why) = self.why_rejected().filter(|_| status != RunStatus::Rejects) else { return (status, headline) };
        if matches!(status, RunStatus::LineRate | RunStatus::Found) {
            // A rate that is found with packets that were not worked on is no rate of the function.
            let gbps = digits(self.result.load * self.result.scenario.nic.rate.gbps());
            return (RunStatus::Rejects, format!("Trials passed {gbps} Gbps. {why}"));
        }
        headline = format!("{headline} {why}");
        (status, headline)
    }

    /// What a run at one rate says.
    fn carried(&self) -> (RunStatus, String) {
        let line = self.result.scenario.nic.rate;
        let (offered, n) = (self.offered(), count(self.packets));
        // What was asked for: what came of it differs by chance.
        let (is_line, of_line) = (self.result.load >= LINE_RATE, percent(self.result.load));
        if self.lost > 0 {
            let loss = percent(self.lost as f64 / self.packets as f64);
            let served = digits(self.served_mpps);
            let lead = if is_line {
                format!("Does not keep wire speed: of {offered} offered")
            } else {
                format!("Loses packets at {of_line} of line rate: of {offered} offered")
            };
            return (RunStatus::Loses, format!("{lead}, {loss} of the packets are lost; {served} Mpps get through."));
        }
        if let Some(why) = self.why_rejected() {
            return (RunStatus::Rejects, format!("Loses none of the {offered} offered, {of_line} of line rate. {why}"));
        }
        if self.fit_into_buffers() {
            return (RunStatus::Nothing, self.too_few("", self.in_all()));
        }
        if let Some(growth) = self.overload() {
            let headline = format!(
                "No verdict: none of {n} packets was lost yet, but the ring of core {1} held {0} more at the end: {2} of what came to it.",
                count(growth.packets),
                growth.core,
                percent(growth.share)
            );
            return (RunStatus::Nothing, headline);
        }
        if is_line {
            return (
                RunStatus::LineRate,
                format!("Keeps wire speed: all of {line} offered, none of {n} packets lost."),
            );
        }
        let gbps = digits(self.offered_gbps);
        (
            RunStatus::Carries,
            format!("Carries the {gbps} Gbps offered, {of_line} of line rate: none of {n} packets lost."),
        )
    }

    /// The rings' growth, where one was on its way to overflow when the run ended.
    fn overload(&self) -> Option<RingGrowth> {
        self.result.measured.measure.growth.filter(|growth| growth.is_overload())
    }

    /// Packets of the run, those of its warm-up among them.
    fn in_all(&self) -> u64 {
        self.packets + self.result.measured.warmup.packets
    }

    /// Whether nothing could be lost, at whatever rate.
    fn fit_into_buffers(&self) -> bool {
        self.lost == 0 && self.in_all() <= self.held()
    }

    fn too_few(&self, of: &str, packets: u64) -> String {
        let held = count(self.held());
        format!("No verdict: {of}{} packets are too few, since rings and NIC memory take in {held}.", count(packets))
    }

    /// Packets that the receive side takes in before it can lose one.
    fn held(&self) -> u64 {
        let offered = &self.result.measured.measure.offered;
        buffered_packets(&self.result.scenario, offered.l2_bytes as f64 / offered.packets as f64)
    }

    /// What a search says.
    fn found(&self, found: &SearchOutcome) -> (RunStatus, String) {
        let line = self.result.scenario.nic.rate;
        let loss = self.lost as f64 / self.packets as f64;
        let confirmed = loss <= found.loss_limit;
        let what = match found.kind {
            RateSearch::Ndr => "without loss".to_string(),
            RateSearch::Pdr => format!("with a loss of at most {}", percent(found.loss_limit)),
        };
        let trials = found.trials.len();
        let gbps = digits(found.load * line.gbps());
        if found.load <= 0.0 {
            let least = percent(self.result.scenario.run.search_resolution);
            return (RunStatus::Nothing, format!("No rate {what} was found down to {least} of {line}."));
        }
        if self.fit_into_buffers() && found.packets <= self.held() {
            return (RunStatus::Nothing, self.too_few("trials of ", found.packets));
        }
        if !confirmed {
            // Rings take in a short overload: what a trial passes, a longer run may not.
            let (n, loss) = (count(self.packets), percent(loss));
            let text = format!("Trials passed {gbps} Gbps {what}, but a run of {n} packets at that rate lost {loss}.");
            return (RunStatus::Loses, text);
        }
        if found.load >= 1.0 && self.lost == 0 {
            return (
                RunStatus::LineRate,
                format!("Keeps wire speed: all of {line} {what}, in {trials} trial{}.", s(trials)),
            );
        }
        let share = percent(found.load);
        (RunStatus::Found, format!("The highest rate {what} is {gbps} Gbps, {share} of {line}, in {trials} trials."))
    }

    /// Says so where the function rejected many packets, which lightens the load.
    fn why_rejected(&self) -> Option<String> {
        let rejected = self.rejected as f64 / self.packets as f64;
        if rejected <= SOME_REJECTED {
            return None;
        }
        let why = self.result.measured.measure.rejected.iter().max_by_key(|(_, n)| **n);
        let why = why.map_or(String::new(), |(name, _)| format!(", most for \"{}\"", name.replace('_', " ")));
        Some(format!(
            "But {} of the packets are rejected by the function{why}: less work than forwarding them.",
            percent(rejected)
        ))
    }

    fn loss(&self, reasons: &mut Vec<String>, advice: &mut Vec<String>) {
        let m = &self.result.measured.measure;
        let n = count(self.packets);
        if self.fit_into_buffers() {
            // How many were not lost says nothing.
        } else if self.lost == 0 {
            let bound = scientific(3.0 / self.packets as f64);
            reasons.push(format!("No loss in {n} packets: the loss ratio is below 3/n = {bound} at 95 %."));
        } else {
            let loss = m.loss().estimate();
            let points = digits(loss.half_width * 100.0);
            let width = if loss.half_width.is_finite() { format!(" ± {points} points") } else { String::new() };
            let lost = count(self.lost);
            reasons.push(format!("{lost} of {n} packets were lost: {}{width} at 95 %.", percent(loss.value)));
            if let Some(growth) = self.overload() {
                let all = growth.all.max(0) as u64;
                let longer = (self.lost + all) as f64 / self.packets as f64;
                reasons.push(format!(
                    "Rings still filled: they held {} packets more at the end. A longer run loses about {}.",
                    count(all),
                    percent(longer)
                ));
            }
        }
        let rejected = self.rejected;
        if rejected > 0
            && let Some((name, most)) = m.rejected.iter().max_by_key(|(_, n)| **n)
        {
            let share = percent(rejected as f64 / self.packets as f64);
            let name = name.replace('_', " ");
            reasons.push(format!(
                "The function itself rejected {} packets ({share}), most of them for \"{name}\" ({}): that is not loss.",
                count(rejected),
                count(*most)
            ));
            let scenario = &self.result.scenario;
            let made = [FunctionKind::Forward, FunctionKind::Lookup].iter().any(|&kind| scenario.function.has(kind))
                && scenario.traffic.capture.is_some()
                && scenario.function.forward.table.is_none();
            if made && rejected as f64 > MANY_REJECTED * self.packets as f64 {
                advice.push(format!("{share} of the packets were rejected, and cost less than what is forwarded: the routing table is a made one that does not know the capture's addresses; give its own (--table FILE), or packets a route (--routes rewrite)."));
            } else if scenario.function.forward.table.is_some()
                && let Some(&lacking) = m.rejected.get("no_route")
                && lacking as f64 > MANY_REJECTED * self.packets as f64
            {
                let share = percent(lacking as f64 / self.packets as f64);
                advice.push(format!("{share} of the packets were rejected because the routing table does not know where they go, and cost less than what is forwarded: is it the table of the place where the traffic was captured? Addresses that were changed get a route by --routes rewrite."));
            }
        }
    }

    /// Which resource ran out, or how much is left.
    fn limits(&self, reasons: &mut Vec<String>, advice: &mut Vec<String>) {
        let load = self.load();
        self.cores_and_rings(&load, reasons, advice);
        self.pool(reasons, advice);
        self.pcie(reasons, advice);
        self.packet_buffer(reasons, advice);
        self.queues(&load, reasons, advice);
        self.dram(&load, reasons, advice);
    }

    /// Packets lost for that reason.
    fn lost_for(&self, loss: Loss) -> u64 {
        self.result.measured.measure.lost.get(loss.name()).copied().unwrap_or(0)
    }

    /// What to do where `cores` cores, all that there are, carry less than is offered: the one that gets most has to carry its part, too.
    fn more_cores(&self, cores: usize) -> String {
        let most = self.result.scenario.most_cores() as usize;
        let offered = self.result.measured.counts.cores.iter().map(|core| core.offered);
        let all: u64 = offered.clone().sum();
        // Cores that receive and cores that work get different shares of all.
        let uneven = match self.result.scenario.pipeline {
            Some(_) => 1.0,
            None => offered.max().unwrap_or(0) as f64 * cores as f64 / all.max(1) as f64,
        };
        let exact = cores as f64 * uneven.max(1.0) * self.offered_mpps / self.served_mpps;
        let wanted = exact.ceil();
        let each = digits(self.served_mpps / cores as f64);
        let more = if uneven > REMARKABLY_UNEVEN {
            format!(", and the one that gets most {} more than the mean", percent(uneven - 1.0))
        } else {
            String::new()
        };
        let lead = format!("The cores are the limit: where each goes on to carry {each} Mpps{more},");
        if wanted.is_finite() && wanted <= most as f64 && cores < most {
            let enough = (wanted as usize).max(cores + 1);
            let errors = model_errors(&self.result.scenario, RateLimit::Core);
            let ends = errors.iter().find(|error| error.kind == AnswerKind::Rate).and_then(ModelError::ends);
            // What is predicted too high takes more.
            let by_model = ends.map_or(String::new(), |ends| {
                let [few, many] =
                    [ends.0, ends.1].map(|error| ((exact * (1.0 + error)).ceil() as usize).max(cores + 1));
                match (few == many, many > most) {
                    _ if (few, many) == (enough, enough) => String::new(),
                    (true, _) => format!(", {few} by the model's error"),
                    (_, true) => format!(", {few} to more than a machine may have by the model's error"),
                    (_, false) => format!(", {few} to {many} by the model's error"),
                }
            });
            return format!("{lead} it takes {enough} (--set machine.cores={enough}){by_model}.");
        }
        format!("{lead} it takes more than the {most} that a machine may have.")
    }

    fn load(&self) -> CoreLoad {
        let (most, busiest) = self
            .busy
            .iter()
            .copied()
            .enumerate()
            .map(|(i, b)| (b, i))
            .fold((0.0, 0), |a, b| if b.0 > a.0 { b } else { a });
        CoreLoad {
            cores: self.busy.len(),
            most,
            busiest,
            least: self.busy.iter().copied().fold(f64::INFINITY, f64::min),
            saturated: self.busy.iter().filter(|b| **b > SATURATED).count(),
            memory_full: self.dram_shares().is_some_and(|shares| shares.idle < DRAM_IDLE),
        }
    }

    /// The cores, and the receive rings that they empty.
    fn cores_and_rings(&self, load: &CoreLoad, reasons: &mut Vec<String>, advice: &mut Vec<String>) {
        let scenario = &self.result.scenario;
        let CoreLoad { cores, most, busiest, least, saturated, memory_full } = *load;
        let ring = self.lost_for(Loss::NoRxDescriptor);
        if ring > 0 {
            let n = scenario.nic.rx_descriptors;
            let lead = format!("{} packets found no free receive descriptor", count(ring));
            if saturated == cores {
                reasons.push(format!(
                    "{lead}: {} saturated (busy {}{} of the time), so the rings fill.",
                    all_cores(cores),
                    percent(least),
                    if least < FULLY { " or more" } else { "" }
                ));
                if !memory_full {
                    advice.push(self.more_cores(cores));
                }
            } else if let Some(pipeline) = &scenario.pipeline
                && self.busy[..pipeline.rx_cores as usize].iter().all(|b| *b > SATURATED)
            {
                reasons.push(format!("{lead}: the cores that receive are saturated, those that work are not."));
                advice.push(format!("Receiving is the limit: try more receiving cores (--set pipeline.rx_cores={} --set machine.cores={}).", pipeline.rx_cores + 1, cores + 1));
            } else if saturated > 0 {
                if let Some(hot) = self.hot.as_ref().filter(|hot| hot.receives) {
                    self.hot(&lead, hot, reasons, advice);
                } else {
                    reasons.push(format!("{lead}: {saturated} of {cores} cores are saturated (core {busiest}: busy {}) while another is busy only {}: flows are not spread evenly.", percent(most), percent(least)));
                    if !memory_full {
                        advice.push(self.more_cores(cores));
                    }
                }
            } else if RateUse::of(self.result).iommu() > SATURATED {
                reasons.push(format!(
                    "{lead}: all walkers of the IOMMU are busy, and what devices write waits for its pages."
                ));
                advice.push("The IOMMU is the limit: try larger pages (machine.iommu.page), or mbufs that come back at once (--set mempool.kind=lifo).".into());
            } else {
                reasons.push(format!("{lead} although no core is saturated (the busiest is busy {}): bursts are longer than {n} descriptors hold.", percent(most)));
                advice.push(format!("Bursts overflow the rings while cores idle: try longer rings (--set nic.rx_descriptors={}; mempool.size has to hold them).", u64::from(n) * 2));
            }
        } else if let Some(hot) = self.hot.as_ref().filter(|hot| hot.receives) {
            let lead = format!("{} packets found descriptors without mbufs", count(self.lost_for(Loss::NoMbuf)));
            self.hot(&lead, hot, reasons, advice);
        } else if self.lost == 0 {
            let short = RateUse::of(self.result).short_bursts().filter(|_| most > SATURATED);
            let state = match short {
                Some(_) => "is never idle",
                None if most > SATURATED => "has no time left",
                None => "is the busiest",
            };
            reasons.push(format!(
                "Core {busiest} {state}: busy {} of the time, {} on average over {}.",
                percent(most),
                percent(self.busy.iter().sum::<f64>() / cores.max(1) as f64),
                cores_text(cores)
            ));
            if let Some(packets) = short {
                advice.push(format!(
                    "Its bursts have {} packets of {}: with fuller ones it takes less time a packet, so --search ndr tells how much is left.",
                    digits(packets),
                    scenario.nic.burst
                ));
            } else if most > SATURATED && !memory_full {
                advice.push(format!(
                    "A saturated core has nothing in reserve: try more cores (--set machine.cores={}).",
                    cores + 1
                ));
            }
        }
    }

    /// One ring is hot: what is uneven, and what spreads packets anew.
    fn hot(&self, lead: &str, hot: &HotRing, reasons: &mut Vec<String>, advice: &mut Vec<String>) {
        reasons.push(format!("{lead}: {}.", hot.text));
        let scenario = &self.result.scenario;
        let flows = scenario.traffic.flows.as_ref().filter(|_| scenario.traffic.capture.is_none());
        let as_if = match flows.map(|flows| (flows.popularity, flows.count)) {
            Some((Popularity::Zipf(_), _)) => {
                " What that would bring: --set traffic.flows.popularity=uniform.".to_string()
            }
            Some((Popularity::Uniform, few)) if few < FLOWS_A_CORE * hot.cores as u64 => {
                let more = FLOWS_A_CORE * hot.cores as u64;
                format!(" What more flows would bring: --set traffic.flows.count={more}.")
            }
            _ => String::new(),
        };
        let (kind, n) = (if hot.receives { "ring" } else { "software queue" }, hot.cores);
        let spread = match hot.busy_if_even < 1.0 {
            true => format!("Spread evenly the {n} cores would be busy {}", percent(hot.busy_if_even)),
            false => format!("Spread evenly the {n} cores would carry up to {} Mpps", digits(hot.even_mpps)),
        };
        advice.push(format!(
            "One {kind} is hot, and more cores would not cool it: spread the flows anew by {}. {spread}.{as_if}",
            hot.remedy
        ));
    }

    /// Time that the system takes from cores, which comes too rarely to be in the loss of a run.
    fn stalls(&self, reasons: &mut Vec<String>, advice: &mut Vec<String>) {
        let Some(costs) = StallsSummary::of(self.result) else { return };
        let mut text = format!(
            "The system takes a core for up to {}, once in {}: meanwhile {} packets come to it, and its receive rings have room for {}",
            duration(costs.longest_ns),
            duration(costs.every_s * 1e9),
            digits(costs.packets),
            count(costs.descriptors)
        );
        if costs.loss > 0.0 {
            text += &format!(". That alone loses {} of the packets", percent(costs.loss));
            advice.push(match costs.least_descriptors {
                Some(ring) => format!(
                    "Stalls overflow the rings: the least that survives the longest is --set nic.rx_descriptors={ring}."
                ),
                None => "Stalls overflow the rings, and no ring survives the longest: try more queues (machine.cores)."
                    .into(),
            });
        }
        reasons.push(text + ".");
        reasons.push(self.delayed_by_stalls(&costs));
        if let Some(found) = &self.result.search {
            self.search_with_stalls(found, reasons, advice);
        }
    }

    /// What packets wait for stalls.
    fn delayed_by_stalls(&self, costs: &StallsSummary) -> String {
        let (Some(drain), Some(delayed), Some(with)) = (costs.drain_ns, costs.delayed, costs.p999_ns) else {
            return "What waits after a stall is never worked off, so that no quantile of the sojourn is known with stalls."
                .into();
        };
        let without = self.result.measured.measure.sojourn.histogram().quantile(0.999).map_or(f64::NAN, |t| t.as_ns());
        format!(
            "What waits after the longest stall is gone after {}: {} of the packets wait for stalls, and 99.9 % are within {}, without stalls {}.",
            duration(drain),
            percent(delayed),
            duration(with),
            duration(without)
        )
    }

    /// The rate that was found, with stalls and without.
    fn search_with_stalls(&self, found: &SearchOutcome, reasons: &mut Vec<String>, advice: &mut Vec<String>) {
        let Some((stalls, (best, _))) = self.result.stalls.as_ref().zip(found.without_stalls.as_ref()) else { return };
        let kind = if found.kind == RateSearch::Ndr { "NDR" } else { "PDR" };
        let at = found.trials.iter().rfind(|trial| trial.load == found.load);
        let (without, with) = (digits(best.offered_mpps), digits(at.map_or(0.0, |trial| trial.offered_mpps)));
        let trial = format!("a trial of {TRIAL_SECONDS} s has {} a core", digits(stalls.a_second() * TRIAL_SECONDS));
        if found.load >= best.load {
            let lost = at.and_then(|trial| trial.stall_loss).unwrap_or(0.0);
            let what =
                if lost > 0.0 { "what they lose is within the limit" } else { "the rings hold what comes in them" };
            reasons.push(format!("{kind} without stalls {without} Mpps, with stalls the same: {trial}, and {what}."));
            return;
        }
        reasons.push(format!(
            "{kind} without stalls {without} Mpps, with stalls {with} Mpps, bound by the ring: {trial}, which lose a packet or more at a higher rate."
        ));
        let stages = flows(&self.result.scenario, &self.result.measured);
        let core = stages.first().and_then(|receiving| busiest(receiving)).map_or(0.0, |flow| flow.rate);
        let rate = core * best.load / self.result.load;
        if let Some(ring) = least_ring(stalls, rate, &self.result.scenario)
            && ring > self.result.scenario.nic.rx_descriptors
        {
            advice.push(format!("Stalls bound the rate: the least ring that holds them at {without} Mpps is --set nic.rx_descriptors={ring}."));
        }
    }

    /// The mempool.
    fn pool(&self, reasons: &mut Vec<String>, advice: &mut Vec<String>) {
        let scenario = &self.result.scenario;
        let wanted: u64 = self.result.measured.counts.cores.iter().map(|c| c.rx_nombuf).sum();
        if wanted > 0 || self.lost_for(Loss::NoMbuf) > 0 {
            let pool = scenario.mempool.size;
            let holders = scenario.holders();
            reasons.push(format!(
                "The pool was starved: drivers wanted {} mbufs that it did not have, and {} packets found descriptors without mbufs. Of its {} mbufs receive rings hold up to {}, {}transmit queues {}, the cores' caches {}.",
                count(wanted),
                count(self.lost_for(Loss::NoMbuf)),
                count(pool.into()),
                count(holders.received()),
                if holders.queued() > 0 { format!("software queues {}, ", count(holders.queued())) } else { String::new() },
                count(holders.sent()),
                count(holders.cached())
            ));
            advice.push(format!("The mempool is too small for what holds mbufs: try a larger one (--set mempool.size={}), or shorter rings and queues.", holders.most()));
        }
    }

    /// PCIe, and the NIC's packet memory that it empties.
    fn pcie(&self, reasons: &mut Vec<String>, advice: &mut Vec<String>) {
        let scenario = &self.result.scenario;
        let rate = scenario.nic.pcie.rate;
        let span = self.result.measured.counts.span.as_secs();
        let gbps = |bytes: u64| bytes as f64 * 8.0 / span / 1e9;
        let (up, down) =
            (gbps(self.result.measured.counts.pcie_bytes.0), gbps(self.result.measured.counts.pcie_bytes.1));
        let (carried_up, carried_down) = self.result.measured.counts.pcie_carried;
        let (busy_up, busy_down) = (gbps(carried_up) / rate.gbps(), gbps(carried_down) / rate.gbps());
        let fifo = self.lost_for(Loss::NicFifoFull);
        if fifo > 0 {
            reasons.push(format!("{} packets found the NIC's packet memory full: PCIe is busy {} of the time towards the host ({} Gbps of payload, and headers and read requests, of {rate}).", count(fifo), percent(busy_up), digits(up)));
            let nic = &scenario.nic;
            if (nic.packet_interval.is_some() || nic.queue_interval.is_some()) && busy_up < LINK_FULL {
                advice.push("The NIC takes no more packets (nic.packet_interval), or a queue does not (nic.queue_interval): try more queues (nic.queues_per_core, machine.cores), or another NIC.".into());
                return;
            }
            let credits = if scenario.nic.pcie.credits.is_some() { ", more credits (nic.pcie.credits)" } else { "" };
            let fewer = self.fewer_headers();
            advice
                .push(format!("The way to the host is the limit: try a faster link (nic.pcie.rate){credits}{fewer}."));
        } else if busy_up.max(busy_down) > LINK_FULL {
            reasons.push(format!("PCIe is nearly full: busy {} of the time towards the host and {} from it, with {} and {} Gbps of payload, and headers and read requests, of {rate} each way.", percent(busy_up), percent(busy_down), digits(up), digits(down)));
            advice.push("PCIe has little in reserve: try a faster link (nic.pcie.rate).".into());
        }
    }

    /// What leaves more of the way to the host to packets.
    fn fewer_headers(&self) -> String {
        let (nic, offered) = (&self.result.scenario.nic, &self.result.measured.measure.offered);
        let frame = offered.l2_bytes.checked_div(offered.packets).unwrap_or(0);
        let ways = [
            (frame > nic.pcie.max_payload.into(), "larger payloads (nic.pcie.max_payload)"),
            (frame > nic.pcie.max_read(), "longer read requests (nic.pcie.max_read=4096)"),
            (
                nic.driver.rx_completion > 0 && !nic.driver.compressed,
                "compressed completions (nic.driver.compressed=true)",
            ),
        ];
        ways.iter().filter(|(helps, _)| *helps).map(|(_, way)| format!(", {way}")).collect()
    }

    /// The packet buffer.
    fn packet_buffer(&self, reasons: &mut Vec<String>, advice: &mut Vec<String>) {
        let scenario = &self.result.scenario;
        let buffer = self.lost_for(Loss::NoBuffer);
        if buffer > 0
            && let Some(spec) = &scenario.buffer
        {
            let done = self.result.measured.counts.buffer.unwrap_or_default();
            let too_long = done.too_long.min(buffer);
            if too_long > 0 {
                reasons.push(format!(
                    "{} packets were longer than buffer.longest = {}.",
                    count(too_long),
                    spec.longest
                ));
                advice.push(format!(
                    "Longer packets are refused: raise buffer.longest, and with fixed or piecewise buffer.page (now {}), to the longest frame.",
                    spec.page.unwrap_or(units::Size::from_bytes(spec.allocation.usual_page()))
                ));
            }
            if buffer > too_long {
                let unused = percent(done.fragmentation());
                let stalled = if done.stalls_with_room > 0 { ", with cells free elsewhere" } else { "" };
                reasons.push(format!(
                    "{} packets found no room in the packet buffer of {} ({}{stalled}); of the memory taken {unused} held no packet.",
                    count(buffer - too_long),
                    spec.size,
                    spec.allocation.name(),
                ));
                advice.push(format!(
                    "The packet buffer is the limit: try a larger one (--set buffer.size=\"{}\"), or another allocation (buffer.allocation).",
                    units::Size::from_bytes(spec.size.bytes() * 2)
                ));
            }
        }
    }

    /// Software queues and transmit rings.
    fn queues(&self, load: &CoreLoad, reasons: &mut Vec<String>, advice: &mut Vec<String>) {
        let scenario = &self.result.scenario;
        let CoreLoad { cores, saturated, memory_full, .. } = *load;
        let queue = self.lost_for(Loss::QueueFull);
        if queue > 0 && scenario.machine.gpu.is_some() && scenario.pipeline.is_none() {
            reasons
                .push(format!("{} packets found no room at the GPU: batches do not come back in time.", count(queue)));
            let persistent = scenario.machine.gpu.as_ref().is_some_and(|gpu| gpu.posting == GpuPosting::Persistent);
            advice.push(if persistent {
                "The GPU is the limit: let more tasks be posted (machine.gpu.fifo), or give it fewer packets (machine.gpu.share, \
                 machine.gpu.above)."
                    .into()
            } else {
                "The GPU is the limit: give it larger batches (machine.gpu.batch), more batches at a time (machine.gpu.overlap), or fewer \
                 packets (machine.gpu.share, machine.gpu.above)."
                    .into()
            });
        } else if queue > 0
            && let Some(hot) = self.hot.as_ref().filter(|hot| !hot.receives)
        {
            let lead = format!("{} packets found the software queue of their worker full", count(queue));
            self.hot(&lead, hot, reasons, advice);
        } else if queue > 0 {
            let workers = cores - scenario.receiving_cores() as usize;
            let state = if saturated > 0 {
                "saturated cores do not take them out in time"
            } else {
                "they come in longer bursts than a queue holds"
            };
            reasons.push(format!("{} packets found the software queue of their worker full: {state}.", count(queue)));
            if !memory_full {
                advice.push(format!(
                    "The {workers} workers are the limit: try more cores (--set machine.cores={}), or longer queues (pipeline.queue) if loss comes in bursts.",
                    cores + 1
                ));
            }
        }
        let tx = self.lost_for(Loss::NoTxDescriptor);
        if tx > 0 {
            let ports = scenario.nic.ports;
            reasons.push(format!(
                "{} packets found no free transmit descriptor: what leaves by a port is more than it sends.",
                count(tx)
            ));
            advice.push(format!("The transmit side is the limit: try more ports (--set nic.ports={}) or longer queues (nic.tx_descriptors).", ports + 1));
        }
    }

    /// DRAM.
    fn dram(&self, load: &CoreLoad, reasons: &mut Vec<String>, advice: &mut Vec<String>) {
        let scenario = &self.result.scenario;
        let memory_full = load.memory_full;
        let bandwidth = dram_bandwidth(&self.result.measured);
        if let Some(shares) = self.dram_shares().filter(|_| memory_full) {
            let gaps = [
                (
                    shares.turnaround,
                    "turning between reads and writes",
                    "longer runs of writes (machine.dram.controller.writes), or more channels".to_string(),
                ),
                (
                    shares.bank_group,
                    "bursts of one bank group (tCCD_L)",
                    "another map of addresses (machine.dram.controller.map), or more channels".to_string(),
                ),
                (shares.row_miss + shares.bank_conflict, "opening and closing rows", self.rows_remedy()),
                (
                    shares.refresh,
                    "refresh",
                    "refresh by bank (machine.dram.controller.refresh), or more channels".to_string(),
                ),
            ];
            let Some((most, why, remedy)) = gaps.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)) else { return };
            reasons.push(format!(
                "DRAM has no time left: its data buses are idle for want of work {} of the time, and move data {} of it; {} goes to {why}.",
                percent(shares.idle),
                percent(shares.data),
                percent(most)
            ));
            let remedy = if most > shares.data { remedy } else { "more channels".to_string() };
            advice.push(format!("DRAM is the limit, so that more cores would wait longer: try {remedy} (--set machine.dram.channels={}).", scenario.machine.dram.channels + 1));
        } else if bandwidth > DRAM_FULL * self.result.measured.dram_peak {
            reasons.push(format!(
                "DRAM moves {} of its peak of {} GB/s.",
                percent(bandwidth / self.result.measured.dram_peak),
                digits(self.result.measured.dram_peak / 1e9)
            ));
            advice.push(format!(
                "DRAM bandwidth is nearly used up: try more channels (--set machine.dram.channels={}).",
                scenario.machine.dram.channels + 1
            ));
        }
    }

    /// What helps where rows are opened and closed, of what is not set already.
    fn rows_remedy(&self) -> String {
        let scenario = &self.result.scenario;
        let controller = scenario.machine.dram.controller.as_ref();
        let mut remedies = Vec::new();
        if controller.is_some_and(|c| !c.order.to_string().starts_with("fr-fcfs")) {
            remedies.push("an order that looks for open rows (machine.dram.controller.order=\"fr-fcfs=16\"), ");
        }
        let in_one_piece =
            scenario.buffer.as_ref().is_some_and(|b| matches!(b.allocation.name(), "piecewise" | "linear"));
        if !in_one_piece {
            remedies.push("packets in one piece (buffer.allocation=\"piecewise\"), ");
        }
        if !remedies.is_empty() {
            remedies.push("or ");
        }
        remedies.push("more channels");
        remedies.concat()
    }

    /// Where the time of DRAM's data buses went; none where DRAM answers at once.
    fn dram_shares(&self) -> Option<Shares> {
        self.result.measured.controllers.as_ref().map(|c| c.report.shares)
    }

    fn time(&self, reasons: &mut Vec<String>, advice: &mut Vec<String>) {
        let m = &self.result.measured.measure;
        let total = m.attribution.total().as_ns();
        if total == 0.0 {
            return;
        }
        let share = |reason: Reason| m.attribution[reason] as f64 / 1e3 / total;
        let mut parts: Vec<Reason> = Reason::ALL.into_iter().filter(|r| m.attribution[*r] > 0).collect();
        parts.sort_by_key(|r| std::cmp::Reverse(m.attribution[*r]));
        let named: Vec<String> =
            parts.iter().take(NAMED).map(|r| format!("{} {}", percent(share(*r)), r.label())).collect();
        reasons.push(format!(
            "A packet stays {} on average: {}.",
            duration(m.sojourn.histogram().mean() / 1e3),
            named.join(", ")
        ));
        let memory: f64 = Reason::ALL.into_iter().filter(|reason| is_memory(*reason)).map(share).sum();
        let core = [Reason::Core, Reason::Stall, Reason::Doorbell].into_iter().map(share).sum::<f64>();
        if core + memory > 0.0 {
            reasons.push(format!(
                "While a core works on a packet itself, it waits for memory {} of the time.",
                percent(memory / (core + memory))
            ));
        }
        let burst = self.result.scenario.nic.burst;
        if self.lost == 0 && share(Reason::Burst) > REMARKABLE && burst > 1 {
            advice.push(format!(
                "Packets wait most for others of their burst: compare with shorter ones (--set nic.burst={}).",
                (burst / 2).max(1)
            ));
        }
    }

    /// LLC misses of the cores for each packet, in the first and the second half of the run.
    fn llc_misses_by_half(&self) -> (f64, f64) {
        let intervals = &self.result.measured.measure.intervals;
        let misses = |half: &[crate::run::measure::Interval]| {
            let missed: u64 = half.iter().map(|i| i.activity.llc_lookups - i.activity.llc_hits).sum();
            missed as f64 / half.iter().map(|i| i.offered).sum::<u64>().max(1) as f64
        };
        let (first, second) = intervals.split_at(intervals.len() / 2);
        (misses(first), misses(second))
    }

    /// Where packets lie, and in how much memory.
    fn packets_lie(&self) -> String {
        let (scenario, mib) = (&self.result.scenario, f64::from(1 << 20));
        match &scenario.buffer {
            Some(buffer) => format!("packets lie in a buffer of {} MiB", digits(buffer.size.bytes() as f64 / mib)),
            None => format!(
                "the {} packet buffers span {} MiB",
                count(u64::from(scenario.mempool.size)),
                digits(f64::from(scenario.mempool.size) * MBUF_KIB / 1024.0)
            ),
        }
    }

    fn memory(&self, reasons: &mut Vec<String>, advice: &mut Vec<String>) {
        let scenario = &self.result.scenario;
        let c = &self.result.measured.counts.memory;
        let missed = |l: &machine::memory::LevelCounters| l.misses as f64 / (l.hits + l.misses).max(1) as f64;
        let writes = missed(&c.dma_write);
        let has_ddio = scenario.machine.llc.io_ways.count() != 0;
        if !has_ddio {
            reasons.push(
                "Devices write to DRAM: the LLC has no I/O ways (machine.llc.io_ways = 0), so that cores fetch what arrives."
                    .into(),
            );
        }
        if has_ddio && writes > REMARKABLE {
            let (mib, llc, lie) = (f64::from(1 << 20), scenario.machine.llc.size.bytes() as f64, self.packets_lie());
            // What has to be allocated goes into these alone, whatever the rest of the LLC could hold.
            let (ways, of) = (scenario.machine.llc.io_ways.count(), scenario.machine.llc.ways);
            let for_devices = llc * f64::from(ways) / f64::from(of.max(1));
            reasons.push(format!(
                "DDIO: {} of the lines that the NIC writes are not in the LLC and have to be allocated; {lie}, the {ways} of {of} ways \
                 for devices hold {} MiB.",
                percent(writes),
                digits(for_devices / mib)
            ));
            let ring = scenario.nic.rx_descriptors;
            let smaller = (ring / 4).max(scenario.nic.burst.next_power_of_two()).max(64);
            let mut tries = Vec::new();
            // With a buffer of their own, packets lie where that puts them, whatever mbuf comes next.
            let in_mbufs = scenario.buffer.is_none();
            if in_mbufs && scenario.mempool.kind == machine::nic::MempoolKind::Fifo {
                tries.push("buffers reused while hot (--set mempool.kind=lifo)".to_string());
            }
            // Rings that overflow do not want to be shorter.
            let overflows = self.result.measured.measure.lost.contains_key(Loss::NoRxDescriptor.name());
            if in_mbufs && smaller < ring && !overflows {
                tries.push(format!("shorter rings (--set nic.rx_descriptors={smaller})"));
            }
            // A frontier goes round all of its buffer; a stack takes what was given back last.
            if let Some(buffer) = &scenario.buffer
                && matches!(buffer.allocation, BufferAllocation::Linear | BufferAllocation::Piecewise)
                && buffer.size.bytes() as f64 > for_devices
            {
                let half = units::Size::from_bytes(buffer.size.bytes() / 2);
                tries.push(format!("a smaller packet buffer (--set buffer.size=\"{half}\")"));
            }
            // A policy moves them itself.
            if scenario.policy.is_none() && ways < of {
                tries.push("more ways for the NIC (machine.llc.io_ways)".to_string());
            }
            let total = self.result.measured.measure.attribution.total().0.max(1) as f64;
            let held = self.result.measured.measure.attribution[Reason::DmaMemory] as f64 / total;
            let left = missed(&c.first_come());
            if left > DDIO_COSTS {
                let gone = percent(left);
                reasons.push(format!("{gone} of the lines of packets that cores come for have left the LLC by then."));
            }
            let shares = [held, missed(&c.dma_read), left];
            let costs = shares.into_iter().any(|share| share > DDIO_COSTS);
            if costs && !tries.is_empty() {
                advice.push(format!("Device writes miss the LLC: compare with {}.", tries.join(", or ")));
            }
        }
        let (llc, reads) = (missed(&c.llc), missed(&c.dma_read));
        if c.llc.hits + c.llc.misses > 0 && self.packets > 0 {
            // Of a pipeline another core works on a packet that a receiving one has taken.
            let taken = self.result.measured.counts.taken(scenario.receiving_cores());
            let each = c.llc.misses as f64 / taken.max(1) as f64;
            reasons.push(format!(
                "{} of the cores' LLC lookups miss: {} DRAM reads a packet.",
                percent(llc),
                digits(each)
            ));
            let (before, after) = self.llc_misses_by_half();
            if after < before * STILL_FILLING && before - after > LEAST_FALL {
                reasons.push(format!(
                    "The LLC was still being filled: its misses fell from {} to {} a packet between the halves of the run, so a longer one has a higher hit rate.",
                    digits(before),
                    digits(after)
                ));
            }
            if llc > REMARKABLE && each > 1.0 {
                let fewer = match scenario.function.kind {
                    FunctionKind::Forward => "fewer routes (function.forward.prefixes)",
                    FunctionKind::Upf => "fewer sessions (function.upf.load.ues)",
                    FunctionKind::Classify => "fewer rules (function.classify.made)",
                    FunctionKind::Inspect => "fewer strings (function.inspect.made)",
                    FunctionKind::Nat => "fewer sessions (function.nat.sessions)",
                    _ => "smaller tables",
                };
                advice.push(format!("Cores miss in the LLC: compare with a larger one (machine.llc.size), or {fewer} to see what the table costs."));
            }
        }
        if reads > REMARKABLE {
            advice.push(format!(
                "{} of what the NIC sends has left the LLC before it is sent: packets are evicted while they wait.",
                percent(reads)
            ));
        }
    }
}

fn s(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

fn cores_text(n: usize) -> String {
    if n == 1 { "one core".into() } else { format!("{n} cores") }
}

fn all_cores(n: usize) -> String {
    if n == 1 { "the only core is".into() } else { format!("all {n} cores are") }
}
