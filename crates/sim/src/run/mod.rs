//! Runs scenarios: loads what they need, simulates their points on several threads, and gathers the results.
//!
//! A run's independent parts are simulations of their own: the run at the scenario's rate, each point of a curve, each
//! trial of a search. What to simulate next follows from what is known ([`schedule`]), so the result is the
//! same, bit for bit, on any number of threads.
//!
//! Where a scenario has several, its machine is warmed up once, at the scenario's own rate, and each part goes on from a clone of
//! that.

pub(crate) mod clock;
pub mod counts;
pub mod growth;
mod in_order;
pub mod kept;
pub mod measure;
pub mod near;
mod observe;
pub mod predict;
pub mod rows;
pub mod sampling;
pub(crate) mod schedule;
pub(crate) mod search;
pub(crate) mod simulate;
pub mod stalls;
pub mod steer;
pub mod stepped;
pub(crate) mod warm;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};

use traffic::Load;
use units::{Ps, Rate};

use crate::load::{InputFile, Loaded, Routing, Stock, load};
use crate::run::clock::Instant;
use crate::run::growth::RingGrowth;
use crate::run::near::Near;
use crate::run::observe::Instruments;
use crate::run::schedule::{Heard, ProgressWatch, Stage};
use crate::run::search::{Bisection, buffered_packets, sufficient_packets, trial_packets};
use crate::run::simulate::{Measured, SimulationSetup};
use crate::run::stalls::{PlacedStalls, TRIAL_SECONDS, flows};
use crate::run::warm::WarmServer;
use crate::scenario::{RateSearch, Scenario, ScenarioError};

/// Packets of a point at a lower load: enough to look at, and at most as many as the run had.
const LOWER_PACKETS: u64 = 50_000;
/// Packets before a point that is an overload, at most, until rings are full: a smaller overload has none.
const MOST_TO_FILL: u64 = 4 * LOWER_PACKETS;

/// Where a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// "load", "warm-up", "run", "trial at 50.00 %", "curve 2/8", "at 47.50 %".
    pub phase: String,
    /// Packets offered in this phase.
    pub done: u64,
    /// Packets to offer in this phase.
    pub total: u64,
    /// A few words more.
    pub note: String,
}

/// A point of the curve, or a trial of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Share of line rate offered.
    pub load: f64,
    /// Offered rate.
    pub offered_mpps: f64,
    /// Carried rate.
    pub carried_mpps: f64,
    /// Packets lost for want of resources.
    pub lost: u64,
    /// Packets offered and measured.
    pub packets: u64,
    /// Packets cut before.
    pub warmup_packets: u64,
    /// Median sojourn.
    pub p50_ns: f64,
    /// 99th percentile of the sojourn.
    pub p99_ns: f64,
    /// Lost over offered packets by stalls alone that were placed; none where none were.
    pub stall_loss: Option<f64>,
    /// What rings held more at its end, where that is known.
    pub growth: Option<RingGrowth>,
}

impl Trial {
    /// Lost over offered.
    pub fn loss(&self) -> f64 {
        self.lost as f64 / self.packets.max(1) as f64
    }

    /// Whether a ring was on its way to overflow.
    fn fills(&self) -> bool {
        self.growth.is_some_and(|growth| growth.is_overload())
    }

    /// Whether its loss is within `limit`, stalls left out, and no ring was on its way to overflow.
    pub fn passes_without_stalls(&self, limit: f64) -> bool {
        self.loss() <= limit && !self.fills()
    }

    /// Whether its loss is within `limit`, that by stalls among it. What comes to less than a packet in [`TRIAL_SECONDS`] is none.
    pub fn passes(&self, limit: f64) -> bool {
        let in_all = |loss: f64| loss * self.offered_mpps * 1e6 * TRIAL_SECONDS;
        let by_stalls = self.stall_loss.filter(|&loss| in_all(loss) >= 1.0).unwrap_or(0.0);
        self.loss() + by_stalls <= limit && !self.fills()
    }

    fn of(measured: &Measured, load: f64, scenario: &Scenario, stalls: Option<&PlacedStalls>) -> Trial {
        let m = &measured.measure;
        let us = m.window().as_secs() * 1e6;
        let by_stalls = |stalls: &PlacedStalls| {
            let lost: f64 = flows(scenario, measured).iter().flatten().map(|flow| stalls.lost(flow)).sum();
            let offered = m.offered.packets as f64 / us * 1e6;
            if offered > 0.0 { lost / offered } else { 0.0 }
        };
        let quantile = |q| m.sojourn.histogram().quantile(q).map_or(f64::NAN, Ps::as_ns);
        Trial {
            load,
            offered_mpps: m.offered.packets as f64 / us,
            carried_mpps: m.carried.packets as f64 / us,
            lost: m.lost.values().sum(),
            packets: m.offered.packets,
            warmup_packets: measured.warmup.packets,
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            stall_loss: stalls.map(by_stalls),
            growth: m.growth,
        }
    }
}

/// The outcome of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchOutcome {
    /// What was searched for.
    pub kind: RateSearch,
    /// The loss that passes.
    pub loss_limit: f64,
    /// The highest share of line rate that passed; 0 if none did.
    pub load: f64,
    /// Every trial, in order.
    pub trials: Vec<Trial>,
    /// Packets of each trial.
    pub packets: u64,
    /// Packets that a trial needs for an overload by the resolution to fill the receive side's buffers.
    pub sufficient_packets: u64,
    /// The highest rate that passed with stalls left out, and how many trials that took beside; none where none are placed, and where
    /// none passed.
    pub without_stalls: Option<(Trial, usize)>,
}

/// A complete result.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The scenario with everything filled in.
    pub scenario: Scenario,
    /// The run at the scenario's rate, or at the rate that a search found.
    pub measured: Measured,
    /// The curve, if the scenario asks for one.
    pub curve: Vec<Trial>,
    /// What the same machine, as warm as it was for the run, carries at loads from nearly all that got through down, and from that up to
    /// what was offered: where [`RunOptions::lower_loads`] asks for them. For the eye: of few packets each.
    pub lower_loads: Vec<Trial>,
    /// The search, if the scenario asks for one.
    pub search: Option<SearchOutcome>,
    /// Stalls that were not simulated; none where the scenario has none, and where it was long enough to see them.
    pub stalls: Option<PlacedStalls>,
    /// What was assumed or found in the input, in words.
    pub notes: Vec<String>,
    /// What a capture's first pass found.
    pub capture: Option<traffic::CaptureReport>,
    /// The routing table.
    pub routing: Routing,
    /// The files that decide over the result.
    pub inputs: Vec<InputFile>,
    /// How packets come, in words.
    pub arrivals: &'static str,
    /// Flows of made traffic.
    pub flows: Option<u64>,
    /// Mean frame with FCS, in bytes.
    pub mean_frame_bytes: f64,
    /// Share of line rate offered.
    pub load: f64,
    /// What names the machine that this one began near; none where it began with nothing.
    pub near: Option<String>,
    /// The user ended it early.
    pub partial: bool,
    /// Host seconds from the first to the last simulation of this scenario that its result is from: those at lower loads are not.
    pub wall_s: f64,
    /// Host seconds of the run at the scenario's rate alone, with all of its warm-up.
    pub run_wall_s: f64,
    /// Host seconds of loading tables and traffic.
    pub load_s: f64,
}

/// How scenarios are run. Results depend on `same_packets` alone.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Simulations at a time, at least 1.
    pub threads: usize,
    /// Whether all are to be measured from the same packet on, for comparisons: where their warm-ups end at
    /// different packets, the shorter ones are run again with the longest.
    pub same_packets: bool,
    /// Whether a run that loses packets, and has neither a curve nor a search, goes on at [lower loads](RunResult::lower_loads). None
    /// does with `same_packets`.
    pub lower_loads: bool,
}

impl Default for RunOptions {
    /// As many threads as there are cores.
    fn default() -> RunOptions {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        RunOptions { threads, same_packets: false, lower_loads: false }
    }
}

/// A simulation of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RunPart {
    scenario: usize,
    kind: PartKind,
    /// The share of line rate that is offered, as bits (the shares of a search are halves of halves, so equal ones
    /// are equal); [`None`] for the scenario's own rate.
    share: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PartKind {
    /// What the others begin with, where there are several.
    Warm,
    Trial,
    /// At the scenario's rate, or the one that was found.
    Run,
    /// The run once more, with a warm-up of so many packets.
    Again(u64),
    Curve(usize),
    /// At a load that is lower than that of a run that loses packets, after so many packets that fill the rings.
    Lower(u64),
}

/// What came of a part, and when on the host.
struct PartOutcome {
    /// Nothing of the warm server: the plan has it.
    measured: Result<Option<Measured>, ScenarioError>,
    began: Instant,
    ended: Instant,
}

/// Runs `scenario`. `progress` is called now and then; when it returns `false` the run ends early
/// and its result is marked partial.
///
/// # Errors
/// Input that cannot be read, a machine or traffic that cannot be, [`ScenarioError::Stopped`] while loading.
pub fn run(
    scenario: &Scenario,
    options: RunOptions,
    progress: &mut dyn FnMut(&Progress) -> bool,
) -> Result<RunResult, ScenarioError> {
    let results = run_all(std::slice::from_ref(scenario), options, progress)?;
    results.into_iter().next().ok_or_else(|| ScenarioError::Stopped { during: "scenario".into() })
}

/// Runs `scenarios`, side by side where there are threads; what they have in common is loaded once.
///
/// # Errors
/// As [`run`], for the first scenario that has one.
pub fn run_all(
    scenarios: &[Scenario],
    options: RunOptions,
    progress: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Vec<RunResult>, ScenarioError> {
    run_from(&Arc::new(Stock::new()), None, scenarios, options, progress)
}

/// As [`run_all`], and loads only what is not in `stock`. Where `near` is given, machines begin near its base, but for those of
/// scenarios with a `run.warmup`.
///
/// # Errors
/// As [`run`], for the first scenario that has one.
pub fn run_from(
    stock: &Arc<Stock>,
    near: Option<&Near>,
    scenarios: &[Scenario],
    options: RunOptions,
    progress: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Vec<RunResult>, ScenarioError> {
    run_heard(stock, near, scenarios, options, |_, _, _| (), progress)
}

/// As [`run_from`]. `heard` is told what each simulation has done, of how much, and whether that is warm-up, by the thread that
/// simulates: where there is but one, `progress` is called between simulations alone.
///
/// # Errors
/// As [`run`], for the first scenario that has one.
pub fn run_heard(
    stock: &Arc<Stock>,
    near: Option<&Near>,
    scenarios: &[Scenario],
    options: RunOptions,
    heard: Heard,
    progress: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Vec<RunResult>, ScenarioError> {
    let started = Instant::now();
    let loaded = load(scenarios, stock, &mut |what| {
        progress(&Progress { phase: "load".into(), done: 0, total: 1, note: what.into() })
    })?;
    let load_s = started.elapsed().as_secs_f64();
    let plans = scenarios.iter().zip(&loaded).enumerate().map(|(i, (s, l))| {
        let near = near.map(|near| (near, stock));
        let goes_lower = options.lower_loads && !options.same_packets;
        ScenarioPlan::new(i, s, l, near).map(|plan| ScenarioPlan { goes_lower, ..plan })
    });
    let plans: Vec<ScenarioPlan> = plans.collect::<Result<_, _>>()?;
    let (mut outcomes, stopped) = schedule::run(
        (options.threads, heard),
        |known| wanted(&plans, known, options),
        |part, watch| {
            let began = Instant::now();
            let measured = plans[part.scenario].simulate(part, watch);
            PartOutcome { measured, began, ended: Instant::now() }
        },
        &mut |stages| progress(&described(&plans, stages)),
    );
    let again = warmup_of_all(&plans, &outcomes, options);
    let results = plans.iter().map(|plan| plan.result(&mut outcomes, again, stopped, load_s));
    results.collect()
}

type Outcomes = BTreeMap<RunPart, PartOutcome>;

/// The parts that are wanted, the most urgent first; none after an error.
fn wanted(plans: &[ScenarioPlan], known: &Outcomes, options: RunOptions) -> Vec<RunPart> {
    // What is drawn beside a run ends none.
    let of_results = |part: &RunPart| !matches!(part.kind, PartKind::Lower(_));
    if known.iter().any(|(part, o)| of_results(part) && o.measured.is_err()) {
        return Vec::new();
    }
    let mut sure = Vec::new();
    let mut perhaps = Vec::new();
    for plan in plans {
        if plan.has_several() && !known.contains_key(&plan.part(PartKind::Warm, None)) {
            sure.push(plan.part(PartKind::Warm, None));
            continue;
        }
        match plan.run_part(known) {
            Ok(run) => sure.push(run),
            Err(search) => {
                // Trials that may not be wanted are begun only where a core would idle.
                let idle = std::thread::available_parallelism().map_or(1, NonZero::get);
                let shares = search.ahead(options.threads.clamp(1, idle)).into_iter();
                let mut trials = shares.map(|share| plan.part(PartKind::Trial, Some(share)));
                sure.extend(trials.next());
                perhaps.extend(trials);
            }
        }
        let curve = plan.scenario.run.curve.iter().enumerate();
        sure.extend(curve.map(|(i, share)| plan.part(PartKind::Curve(i), Some(*share))));
        let lower = plan.ran(known).map_or_else(Vec::new, |ran| plan.lower_loads(ran));
        sure.extend(lower.into_iter().map(|(share, fill)| plan.part(PartKind::Lower(fill), Some(share))));
    }
    if let Some(packets) = warmup_of_all(plans, known, options) {
        for plan in plans.iter().filter(|p| p.ran(known).is_some_and(|m| m.warmup.packets < packets)) {
            sure.extend(plan.run_part(known).map(|run| RunPart { kind: PartKind::Again(packets), ..run }));
        }
    }
    sure.extend(perhaps);
    sure.retain(|part| !known.contains_key(part));
    for plan in plans.iter().filter(|plan| sure.iter().all(|part| part.scenario != plan.index)) {
        plan.forget_warm();
    }
    sure
}

/// The warm-up that all need to be measured from the same packet on, if not all have it; [`None`] too as long as not
/// all have run.
fn warmup_of_all(plans: &[ScenarioPlan], known: &Outcomes, options: RunOptions) -> Option<u64> {
    let packets: Vec<u64> = plans.iter().map(|p| Some(p.ran(known)?.warmup.packets)).collect::<Option<_>>()?;
    let most = *packets.iter().max()?;
    (options.same_packets && packets.iter().any(|n| *n < most)).then_some(most)
}

/// What is under way, by the oldest part of it.
fn described(plans: &[ScenarioPlan], stages: &[Stage<RunPart>]) -> Progress {
    let Some(first) = stages.first() else {
        return Progress { phase: "run".into(), done: 0, total: 0, note: String::new() };
    };
    let share = first.key.share.map_or(0.0, f64::from_bits);
    let phase = match first.key.kind {
        PartKind::Warm => "warm-up".to_string(),
        PartKind::Run | PartKind::Again(_) if first.warming => "warm-up".to_string(),
        PartKind::Run | PartKind::Again(_) => "run".to_string(),
        PartKind::Trial => format!("trial at {:.2} %", share * 100.0),
        PartKind::Curve(i) => format!("curve {}/{}", i + 1, plans[first.key.scenario].scenario.run.curve.len()),
        PartKind::Lower(_) => format!("at {:.2} %", share * 100.0),
    };
    let mut note = Vec::new();
    if plans.len() > 1 {
        note.push(format!("of scenario {}/{}", first.key.scenario + 1, plans.len()));
    }
    if stages.len() > 1 {
        note.push(format!("and {} more", stages.len() - 1));
    }
    Progress { phase, done: first.done, total: first.total, note: note.join(" ") }
}

/// A scenario that is ready to be simulated.
struct ScenarioPlan<'a> {
    index: usize,
    scenario: &'a Scenario,
    loaded: &'a Loaded,
    line: Rate,
    trial_packets: u64,
    /// Stalls that no part simulates.
    stalls: Option<PlacedStalls>,
    /// The outcome of [`PartKind::Warm`], as long as a part may want it.
    warm: Mutex<Option<WarmServer>>,
    /// Where its machine begins, with what the base of that is loaded from.
    near: Option<(&'a Near, &'a Arc<Stock>)>,
    /// Of [`RunOptions::lower_loads`].
    goes_lower: bool,
}

impl ScenarioPlan<'_> {
    fn new<'a>(
        index: usize,
        scenario: &'a Scenario,
        loaded: &'a Loaded,
        near: Option<(&'a Near, &'a Arc<Stock>)>,
    ) -> Result<ScenarioPlan<'a>, ScenarioError> {
        let trial_packets = trial_packets(scenario, &loaded.blueprint);
        let line = scenario.nic.rate;
        // Whoever says how much is cut has it cut of a machine that began with nothing.
        let near = near.filter(|_| scenario.run.warmup.is_none());
        let (stalls, warm, goes_lower) = (None, Mutex::default(), false);
        let mut plan = ScenarioPlan { index, scenario, loaded, line, trial_packets, stalls, warm, near, goes_lower };
        let share = plan.share(&scenario.traffic.offered(plan.line))?;
        plan.stalls = plan.placed_stalls()?;
        if share > 1.0 + 1e-9 {
            return Err(ScenarioError::Value {
                origin: "scenario".into(),
                path: "traffic".into(),
                message: format!(
                    "the offered rate is {:.1} % of the port's line rate of {}: allowed is up to 100 % (lower the rate, or raise nic.rate)",
                    share * 100.0,
                    plan.line
                ),
            });
        }
        Ok(plan)
    }

    /// Stalls that come more rarely than the run, or the trials of a search at line rate, are long.
    fn placed_stalls(&self) -> Result<Option<PlacedStalls>, ScenarioError> {
        let (packets, load) = match self.scenario.run.search {
            Some(_) => (self.trial_packets, Load::LineShare { share: 1.0, line: self.line }),
            None => (self.scenario.run.packets, self.scenario.traffic.offered(self.line)),
        };
        let pps = self.loaded.blueprint.packets_per_second(&load)?;
        Ok(PlacedStalls::of(self.scenario, packets as f64 / pps))
    }

    /// `load` as a share of line rate (L1).
    fn share(&self, load: &Load) -> Result<f64, ScenarioError> {
        let pps = self.loaded.blueprint.packets_per_second(load)?;
        Ok(pps * self.loaded.blueprint.mean_size().l1 * 8.0 / (self.line.gbps() * 1e9))
    }

    fn part(&self, kind: PartKind, share: Option<f64>) -> RunPart {
        RunPart { scenario: self.index, kind, share: share.map(f64::to_bits) }
    }

    /// The run, once it is known at which rate; before that where the search for it is.
    fn run_part(&self, known: &Outcomes) -> Result<RunPart, Bisection> {
        if self.scenario.run.search.is_none() {
            return Ok(self.part(PartKind::Run, None));
        }
        let search = self.searched(known, Trial::passes).0;
        if search.next.is_some() {
            return Err(search);
        }
        // What it would be without stalls is searched for after.
        if self.stalls.is_some()
            && let beside = self.searched(known, Trial::passes_without_stalls).0
            && beside.next.is_some()
        {
            return Err(beside);
        }
        Ok(self.part(PartKind::Run, Some(self.found(search))))
    }

    fn ran<'a>(&self, known: &'a Outcomes) -> Option<&'a Measured> {
        known.get(&self.run_part(known).ok()?)?.measured.as_ref().ok()?.as_ref()
    }

    /// It is simulated at several rates.
    fn has_several(&self) -> bool {
        // Near a base the machine is kept warm by that.
        let run = &self.scenario.run;
        self.near.is_none() && (run.search.is_some() || !run.curve.is_empty() || self.may_go_lower())
    }

    /// Loads below that of a run that lost packets, as shares of line rate: nearly up to what got through, and on to what was
    /// offered. Beside them packets that fill the rings: until they are full an overload loses less than it does, and one that
    /// takes longer than [`MOST_TO_FILL`] is none of them.
    fn lower_loads(&self, ran: &Measured) -> Vec<(f64, u64)> {
        const UP_TO: [f64; 5] = [0.25, 0.5, 0.75, 0.9, 0.95];
        const BEYOND: [f64; 2] = [1.0 / 3.0, 2.0 / 3.0];
        let (lost, offered) = (ran.measure.lost.values().sum::<u64>(), ran.measure.offered.packets);
        if !self.may_go_lower() || ran.partial || lost == 0 || lost >= offered {
            return Vec::new();
        }
        let Ok(top) = self.share(&self.scenario.traffic.offered(self.line)) else { return Vec::new() };
        let top = top.min(1.0);
        let through = top * (1.0 - lost as f64 / offered as f64);
        let room = buffered_packets(self.scenario, self.loaded.blueprint.mean_size().l2) as f64;
        let beyond = BEYOND.iter().map(|share| through + (top - through) * share);
        let filled = beyond.map(|share| (share, (room / (1.0 - through / share)).ceil() as u64));
        UP_TO.iter().map(|share| (through * share, 0)).chain(filled.filter(|(_, fill)| *fill <= MOST_TO_FILL)).collect()
    }

    /// Whether its run goes on at lower loads if it loses packets.
    fn may_go_lower(&self) -> bool {
        self.goes_lower && self.scenario.run.search.is_none() && self.scenario.run.curve.is_empty()
    }

    /// The points at lower loads, in order of load: all of them or none, as a curve with a part of it misleads.
    fn at_lower_loads(&self, ran: &Measured, known: &Outcomes) -> Vec<Trial> {
        let point = |(share, fill): (f64, u64)| {
            let part = self.part(PartKind::Lower(fill), Some(share));
            let measured = known.get(&part)?.measured.as_ref().ok()?.as_ref()?;
            (!measured.partial).then(|| Trial::of(measured, share, self.scenario, self.stalls.as_ref()))
        };
        self.lower_loads(ran).into_iter().map(point).collect::<Option<_>>().unwrap_or_default()
    }

    fn forget_warm(&self) {
        *self.warm.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn loss_limit(&self) -> f64 {
        match self.scenario.run.search {
            Some(RateSearch::Pdr) => self.scenario.run.loss_limit,
            _ => 0.0,
        }
    }

    /// Where the search for a rate that `passes` is, by what is known, and its trials.
    fn searched(&self, known: &Outcomes, passes: fn(&Trial, f64) -> bool) -> (Bisection, Vec<Trial>) {
        let mut search = Bisection::new(self.scenario.run.search_resolution);
        let mut trials = Vec::new();
        while let Some(share) = search.next
            && let Some(trial) = self.trial(share, known)
        {
            search = search.after(passes(&trial, self.loss_limit()));
            trials.push(trial);
        }
        (search, trials)
    }

    /// What came of a search for `kind`.
    fn search_outcome(&self, kind: RateSearch, known: &Outcomes) -> SearchOutcome {
        let (at, trials) = self.searched(known, Trial::passes);
        let beside = self.stalls.as_ref().map(|_| self.searched(known, Trial::passes_without_stalls));
        let without_stalls = beside.and_then(|(at, all)| {
            let tried = |share: f64| trials.iter().any(|trial| trial.load == share);
            let more = all.iter().filter(|trial| !tried(trial.load)).count();
            Some((all.into_iter().rfind(|trial| trial.load == at.found())?, more))
        });
        SearchOutcome {
            kind,
            loss_limit: self.loss_limit(),
            load: at.found(),
            trials,
            packets: self.trial_packets,
            sufficient_packets: sufficient_packets(self.scenario, &self.loaded.blueprint),
            without_stalls,
        }
    }

    /// The share of line rate to run at after a search; one that has found nothing is told by the lowest it looks at.
    fn found(&self, search: Bisection) -> f64 {
        if search.found() > 0.0 { search.found() } else { self.scenario.run.search_resolution }
    }

    fn trial(&self, share: f64, known: &Outcomes) -> Option<Trial> {
        let measured = known.get(&self.part(PartKind::Trial, Some(share)))?.measured.as_ref().ok()?.as_ref()?;
        (!measured.partial).then(|| Trial::of(measured, share, self.scenario, self.stalls.as_ref()))
    }

    fn offered(&self, part: RunPart) -> Load {
        match part.share.map(f64::from_bits) {
            None => self.scenario.traffic.offered(self.line),
            Some(share) => Load::LineShare { share, line: self.line },
        }
    }

    fn simulate(&self, part: RunPart, watch: &ProgressWatch) -> Result<Option<Measured>, ScenarioError> {
        let run = &self.scenario.run;
        let packets = match part.kind {
            PartKind::Trial => self.trial_packets,
            PartKind::Curve(_) => run.curve_packets,
            PartKind::Lower(_) => LOWER_PACKETS.min(run.packets),
            PartKind::Warm | PartKind::Run | PartKind::Again(_) => run.packets,
        };
        let mut scenario = self.scenario_of(part);
        let warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let (PartKind::Lower(fill), Some(warm)) = (part.kind, &warm)
            && fill > 0
        {
            scenario.run.warmup = Some(warm.server.offered() + fill);
        }
        if self.stalls.is_some() {
            scenario.machine.core.stalls = None;
        }
        let scenario = &scenario;
        let setup = SimulationSetup { scenario, function: &self.loaded.function, blueprint: &self.loaded.blueprint };
        let (load, own) = (self.offered(part), self.scenario.traffic.offered(self.line));
        if part.kind == PartKind::Warm {
            let warm = setup.warm_at(&own, packets, watch)?;
            *self.warm.lock().unwrap_or_else(PoisonError::into_inner) = Some(warm);
            return Ok(None);
        }
        // A run that is made once more has a warm-up of its own.
        let warm = match part.kind {
            PartKind::Again(_) => None,
            _ => warm,
        };
        // Trials look for single losses, and points of a curve are short.
        let look = match part.kind {
            PartKind::Run | PartKind::Again(_) => Instruments::of(run),
            _ => Instruments::default(),
        };
        if let Some((near, stock)) = self.near {
            let warm = near.warm(&setup, stock, &self.loaded.inputs, &own, watch)?;
            return setup.simulate_warm(warm, Some(&own), &load, packets, look, watch).map(Some);
        }
        let measured = match warm {
            None => setup.simulate(&load, packets, look, watch),
            Some(warm) => setup.simulate_warm(warm, Some(&own), &load, packets, look, watch),
        };
        measured.map(Some)
    }

    /// The scenario that gives `part` again when it is run alone.
    fn scenario_of(&self, part: RunPart) -> Scenario {
        let mut scenario = self.scenario.clone();
        if let PartKind::Again(warmup) = part.kind {
            scenario.run.warmup = Some(warmup);
        }
        scenario
    }

    fn result(
        &self,
        outcomes: &mut Outcomes,
        again: Option<u64>,
        stopped: bool,
        load_s: f64,
    ) -> Result<RunResult, ScenarioError> {
        // What is drawn beside a run is no part of it.
        let of_run = |part: &RunPart| part.scenario == self.index && !matches!(part.kind, PartKind::Lower(_));
        if let Some(failed) =
            outcomes.iter().find(|(part, o)| of_run(part) && o.measured.is_err()).map(|(part, _)| *part)
            && let Some(PartOutcome { measured: Err(error), .. }) = outcomes.remove(&failed)
        {
            return Err(error);
        }
        let times = outcomes.iter().filter(|(part, _)| of_run(part)).map(|(_, o)| (o.began, o.ended));
        let began = times.clone().map(|t| t.0).min();
        let ended = times.map(|t| t.1).max();
        let search = self.scenario.run.search.map(|kind| self.search_outcome(kind, outcomes));
        let point = |(i, share): (usize, &f64)| {
            let measured =
                outcomes.get(&self.part(PartKind::Curve(i), Some(*share)))?.measured.as_ref().ok()?.as_ref()?;
            (!measured.partial).then(|| Trial::of(measured, *share, self.scenario, self.stalls.as_ref()))
        };
        let curve = self.scenario.run.curve.iter().enumerate().filter_map(point).collect();
        // A search that was stopped has not come to its run: this one ends before it begins.
        let mut part = match self.run_part(outcomes) {
            Ok(part) => part,
            Err(_) => self.part(PartKind::Run, Some(self.found(self.searched(outcomes, Trial::passes).0))),
        };
        if let Some(warmup) = again
            && let last = (RunPart { kind: PartKind::Again(warmup), ..part })
            && outcomes.get(&last).is_some_and(|o| !stopped || matches!(&o.measured, Ok(Some(m)) if !m.partial))
        {
            part = last;
        }
        let seconds = |outcome: &PartOutcome| outcome.ended.duration_since(outcome.began).as_secs_f64();
        // It counts the packets of the warm-up that it went on from.
        let begun = self.part(PartKind::Warm, None);
        let warm_wall_s = outcomes.get(&begun).filter(|_| part.kind == PartKind::Run).map_or(0.0, seconds);
        let (measured, run_wall_s) = match outcomes.remove(&part) {
            Some(outcome) => {
                let own_s = seconds(&outcome);
                (outcome.measured?, warm_wall_s + own_s)
            }
            None => {
                let watch = ProgressWatch::default();
                watch.stop();
                (self.simulate(part, &watch)?, 0.0)
            }
        };
        let measured = measured.ok_or_else(|| ScenarioError::Stopped { during: "warm-up".into() })?;
        Ok(RunResult {
            load: self.share(&self.offered(part))?,
            near: self.near.map(|(near, _)| near.id(&self.loaded.inputs, self.scenario.run.seed)),
            scenario: self.scenario_of(part),
            // Whoever stops what comes after a run has all of the run.
            partial: measured.partial || stopped && !self.may_go_lower(),
            lower_loads: self.at_lower_loads(&measured, outcomes),
            notes: {
                let mut notes = self.loaded.notes.clone();
                notes.extend(self.scenario.idle_settings());
                notes
            },
            measured,
            curve,
            search,
            stalls: self.stalls.clone(),
            capture: self.loaded.blueprint.capture_report().cloned(),
            routing: (*self.loaded.routing).clone(),
            inputs: self.loaded.inputs.clone(),
            flows: self.loaded.blueprint.flows(),
            arrivals: self.loaded.blueprint.arrivals().words(),
            mean_frame_bytes: self.loaded.blueprint.mean_size().l2,
            wall_s: began.zip(ended).map_or(0.0, |(a, b)| b.duration_since(a).as_secs_f64()),
            run_wall_s,
            load_s,
        })
    }
}
