//! Sampling of time: windows of a run in detail, and packets without time between them.
//!
//! Systematic with a random start (Wunderlich et al., SMARTS, ISCA 2003): a run of N packets in W windows has one in each N / W
//! packets, all at the same place in theirs, which is drawn. Before each window packets go in detail for a while, since rings
//! and queues at its start are those of the [coarse clock](crate::server); after it until all its packets have left.
//! Between windows packets go without time, or only some of them before each window, and those before them are left out: the
//! machine keeps what it holds, as a sample's caches begin with what the one before left in Kessler, Hill and Wood, "A comparison of
//! trace-sampling techniques for multi-megabyte caches", IEEE Trans. Computers 43(6), 1994. Where any packet is as likely as any
//! other at any time, what a machine holds then is a draw from what it holds at any time.
//! What is told of the run is told from the windows alone, one after the other, and half-widths come from batches of them;
//! but how fast packets were offered is known of all.
//!
//! Where windows do not stand for the run, all of it is timed, from the same warm machine: [`Sampling::timed_in_full`].

use engine::Seed;
use rand::RngExt;
use schemars::JsonSchema;
use serde::Serialize;
use units::Ps;

use super::counts::ServerCounts;
use super::measure::{Measure, PacketTally};
use super::observe::{Observed, Unobserved, observe};
use super::schedule::ProgressWatch;
use super::steer::{Steer, advance};
use crate::scenario::SamplingSpec;
use crate::server::{Departure, DepartureObserver, Pause, Server};

/// Packets offered between two looks at whether those of a window have left.
const LOOK: u64 = 64;

/// Packets that are left out between two looks at whether to go on.
const AT_A_TIME: u64 = 100_000;

/// How a run was sampled.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Sampling {
    /// Packets that the windows stand for: those of the run, or as many as had come where there were fewer or it was stopped.
    pub of: u64,
    /// Windows that were measured.
    pub windows: u32,
    /// Packets of each.
    pub window_packets: u64,
    /// Packets in detail before each.
    pub window_warmup: u64,
    /// Packets from the beginning of one window to that of the next.
    pub every: u64,
    /// Packets before the first window, its own warm-up included.
    pub start: u64,
    /// Packets that went in detail: windows, what came before them, and what came until all of their packets had left.
    pub in_detail: u64,
    /// Packets without time before each, at most.
    pub untimed: u64,
    /// Packets before those, which the machine has not seen.
    pub left_out: u64,
    /// Packets lost between windows, where nothing is timed.
    pub lost_between: u64,
    /// Why all of the run was timed after all, and windows were tried in vain; [`None`] if it was not.
    pub timed_in_full: Option<String>,
}

/// Simulates packets of a server, of which windows are timed; all of them where those do not stand for the run.
pub(super) fn sample(
    unobserved: Unobserved,
    spec: &SamplingSpec,
    seed: Seed,
    watch: &ProgressWatch,
) -> (Observed, Sampling) {
    let again = unobserved.clone();
    let (observed, mut sampling) = SampledRun::new(unobserved, spec, seed).measure(watch);
    if watch.is_stopped() {
        return (observed, sampling);
    }
    if sampling.timed_in_full.is_none() {
        sampling.timed_in_full = sampling.fault(&observed.measure, spec);
    }
    match sampling.timed_in_full {
        Some(_) => (observe(again, None, watch), sampling),
        None => (observed, sampling),
    }
}

impl Sampling {
    /// Why these windows do not stand for the run, if they do not.
    fn fault(&self, measure: &Measure, spec: &SamplingSpec) -> Option<String> {
        let relative = measure.sojourn.mean().relative();
        if relative.is_nan() || relative > spec.error {
            let error = spec.error;
            return Some(format!(
                "the mean sojourn of its windows is known to {relative:.4}, as a share, and run.sampling.error is {error}"
            ));
        }
        let loss = measure.loss().estimate();
        if loss.value > 0.0 && loss.half_width > loss.value {
            return Some(format!(
                "losses are too few and too close together: {:.2e} ± {:.2e}",
                loss.value, loss.half_width
            ));
        }
        (loss.value == 0.0 && self.lost_between > 0)
            .then(|| format!("{} packets were lost between windows, and none in them", self.lost_between))
    }
}

/// Sees every packet's end, and has those of windows measured.
struct WindowWatch {
    all: PacketTally,
    measure: Measure,
}

impl DepartureObserver for WindowWatch {
    fn departure(&mut self, d: &Departure) {
        self.all.add(d.frame_bytes);
        self.measure.departure(d);
    }
}

/// A run under way.
struct SampledRun<'a> {
    server: Server,
    steer: Option<Steer>,
    spec: &'a SamplingSpec,
    seen: WindowWatch,
    /// All windows so far.
    counts: Option<ServerCounts>,
    /// Packets offered before, and when that was.
    first: u64,
    since: Ps,
    /// The traffic ended.
    ended: bool,
    sampling: Sampling,
}

impl<'a> SampledRun<'a> {
    fn new(unobserved: Unobserved, spec: &'a SamplingSpec, seed: Seed) -> SampledRun<'a> {
        let Unobserved { mut server, steer, packets, span, is_settled } = unobserved;
        let first = server.offered();
        server.offer_in_all(first + packets);
        server.mark_dram();
        server.pause_dram_reports(true);
        let every = packets / u64::from(spec.windows);
        let share = (u128::from(spec.packets) * u128::from(spec.windows)) as f64 / packets as f64;
        let start = seed.stream("sampling").random_range(0..=every - spec.length());
        // A policy decides by what it saw last.
        let is_steady = server.is_steady() && steer.is_none() && is_settled;
        let rings = server.mbufs().descriptors;
        let sampling = Sampling {
            of: packets,
            windows: 0,
            window_packets: spec.packets,
            window_warmup: spec.warmup,
            every,
            start: start + spec.warmup,
            in_detail: 0,
            untimed: spec.untimed.unwrap_or(if is_steady { rings } else { u64::MAX }).min(every),
            left_out: 0,
            lost_between: 0,
            timed_in_full: None,
        };
        let span = Ps((span.0 as f64 * share) as u64);
        let measure = Measure::of_windows(first, server.now(), span, spec.windows, spec.packets);
        let seen = WindowWatch { all: PacketTally::default(), measure };
        let since = server.now();
        SampledRun { server, steer, spec, seen, counts: None, first, since, ended: false, sampling }
    }

    fn measure(mut self, watch: &ProgressWatch) -> (Observed, Sampling) {
        for window in 0..u64::from(self.spec.windows) {
            let planned = self.first + window * self.sampling.every + self.sampling.start;
            // The one before may have had to go on for longer, in detail, until all of its packets had left.
            let begin = planned.max(self.at());
            let fits = begin + self.spec.packets <= self.first + self.sampling.of;
            if !fits || watch.is_stopped() || !self.window(begin, watch) {
                break;
            }
            self.sampling.windows += 1;
        }
        if self.sampling.windows < self.spec.windows {
            self.sampling.of = self.at() - self.first;
            // Of a run that was stopped nothing is said of why, and nothing is timed instead.
            self.sampling.timed_in_full = if watch.is_stopped() { None } else { self.cut() };
        }
        let SampledRun { server, steer, seen, counts, sampling, .. } = self;
        let counts = counts.unwrap_or_else(|| {
            let now = ServerCounts::of(&server);
            now.since(&now)
        });
        (Observed::of(server, steer, seen.measure, counts, watch.is_stopped()), sampling)
    }

    /// Why there are too few windows, if there are.
    fn cut(&self) -> Option<String> {
        let (found, planned) = (self.sampling.windows, self.spec.windows);
        let why =
            if self.ended { "the traffic ended" } else { "windows run into each other, as packets take long to leave" };
        (found < SamplingSpec::LEAST).then(|| format!("{why}: {found} of {planned} windows were measured"))
    }

    /// Packets offered, and those left out.
    fn at(&self) -> u64 {
        self.server.offered() + self.sampling.left_out
    }

    /// Leaves out what comes before the packets without time that end at packet `end`.
    fn leave_out(&mut self, end: u64, watch: &ProgressWatch) {
        let mut packets = end.saturating_sub(self.at()).saturating_sub(self.sampling.untimed);
        while packets > 0 && !watch.is_stopped() {
            let some = packets.min(AT_A_TIME);
            self.sampling.left_out += self.server.leave_out(some);
            packets -= some;
            watch.tell(self.at() - self.first, self.sampling.of, false);
        }
        self.server.offer_in_all(self.first + self.sampling.of - self.sampling.left_out);
    }

    /// The window from packet `begin` of the run on, and what comes before it; `false` if it was not measured whole.
    fn window(&mut self, begin: u64, watch: &ProgressWatch) -> bool {
        self.leave_out(begin - self.spec.warmup, watch);
        if watch.is_stopped() {
            return false;
        }
        let begin = begin - self.sampling.left_out;
        let from = self.server.offered();
        if from < begin - self.spec.warmup {
            let lost = self.server.lost();
            self.server.set_functional(true);
            self.go_on(begin - self.spec.warmup, watch);
            self.server.set_functional(false);
            self.sampling.lost_between += self.server.lost() - lost;
        }
        let warm = self.server.offered();
        if !self.go_on(begin, watch) {
            return false;
        }
        let from = ServerCounts::of(&self.server);
        let from = self.counts.as_ref().map_or_else(|| from.clone(), |done| from.leaving_out_all_but(done));
        self.server.pause_dram_reports(false);
        self.seen.measure.next_window(begin, self.spec.packets, self.server.now());
        let whole = self.through(begin + self.spec.packets, watch);
        let (offered, time) =
            (self.at() - self.first, self.server.now().since(self.since) + self.server.time_left_out());
        self.seen.measure.stands_for = Some((offered, self.seen.all, time));
        self.counts = Some(ServerCounts::of(&self.server).since(&from));
        self.server.pause_dram_reports(true);
        let mut more = true;
        while more && whole && self.seen.measure.known() < self.spec.packets && !watch.is_stopped() {
            let pause = Pause { offered: self.server.offered() + LOOK, at: Ps::MAX };
            more = advance(&mut self.server, pause, &mut self.seen, &mut self.steer);
        }
        self.sampling.in_detail += self.server.offered() - warm;
        whole && self.seen.measure.known() == self.spec.packets
    }

    /// Goes on, measuring, until `end` packets were offered.
    fn through(&mut self, end: u64, watch: &ProgressWatch) -> bool {
        let mut last = ServerCounts::of(&self.server);
        let mut more = true;
        while more && self.server.offered() < end && !watch.is_stopped() {
            let pause = Pause { offered: end, at: last.span + self.seen.measure.between_looks() };
            more = advance(&mut self.server, pause, &mut self.seen, &mut self.steer);
            if self.server.now() >= pause.at || self.server.offered() >= end {
                last = self.seen.measure.look(last, &self.server);
            }
        }
        self.ended |= !more && self.server.offered() < end;
        watch.tell(self.at() - self.first, self.sampling.of, false);
        self.server.offered() >= end
    }

    /// Goes on until `offered` packets were offered; `false` if the traffic ends or the run is stopped before.
    fn go_on(&mut self, offered: u64, watch: &ProgressWatch) -> bool {
        let pause = Pause { offered, at: Ps::MAX };
        let mut more = true;
        while more && self.server.offered() < offered && !watch.is_stopped() {
            more = advance(&mut self.server, pause, &mut self.seen, &mut self.steer);
            watch.tell(self.at() - self.first, self.sampling.of, false);
        }
        self.ended |= !more && self.server.offered() < offered;
        self.server.offered() >= offered
    }
}
