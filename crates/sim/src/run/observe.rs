//! A warm server measured: all packets in detail. [Sampling](super::sampling) measures windows of them.

use machine::dram::CommandReport;
use units::Ps;

use super::counts::ServerCounts;
use super::growth::RingLevels;
use super::measure::Measure;
use super::schedule::ProgressWatch;
use super::steer::{ControlInterval, Steer, advance};
use crate::scenario::{LifeSpec, RunSpec, SamplingSpec};
use crate::server::lives::Lives;
use crate::server::{Pause, Server};

/// How packets are looked at, but for their ends.
#[derive(Clone, Copy, Default)]
pub struct Instruments<'a> {
    /// Windows alone are timed.
    pub sampling: Option<&'a SamplingSpec>,
    /// Lives are written down.
    pub trace: Option<&'a LifeSpec>,
}

impl Instruments<'_> {
    /// What `run` asks for.
    pub(super) fn of(run: &RunSpec) -> Instruments<'_> {
        Instruments { sampling: run.sampling.as_ref(), trace: run.trace.as_ref() }
    }
}

/// A warm server that is going to be measured: for so many packets, which take about `span`.
#[derive(Clone)]
pub(super) struct Unobserved {
    pub server: Server,
    pub steer: Option<Steer>,
    pub packets: u64,
    pub span: Ps,
    /// All that warm-up waits for had settled.
    pub is_settled: bool,
}

/// What was measured of a server.
pub(super) struct Observed {
    pub measure: Measure,
    pub simulated: u64,
    pub counts: ServerCounts,
    pub dram_peak: f64,
    pub controllers: Option<CommandReport>,
    pub control: Vec<ControlInterval>,
    pub lives: Option<Lives>,
    pub partial: bool,
}

impl Observed {
    /// Of a server that was measured up to now.
    pub fn of(
        mut server: Server,
        steer: Option<Steer>,
        measure: Measure,
        counts: ServerCounts,
        partial: bool,
    ) -> Observed {
        Observed {
            measure,
            lives: server.take_lives(),
            simulated: server.offered(),
            counts,
            dram_peak: server.memory().dram_peak_bytes_per_s(),
            controllers: server.memory().dram_report(server.now()),
            control: steer.map(Steer::into_history).unwrap_or_default(),
            partial,
        }
    }
}

/// Simulates all packets in detail, and writes down lives if `trace` says whose. What the machine does is counted up to
/// the last arrival, as rates are, and packets are followed until they have left: rings that drain are no load, and no policy decides by
/// them.
pub(super) fn observe(unobserved: Unobserved, trace: Option<&LifeSpec>, watch: &ProgressWatch) -> Observed {
    let Unobserved { mut server, mut steer, packets, span, .. } = unobserved;
    let burst = (server.in_full_bursts() / server.cores().len().max(1)) as u64;
    server.mark_dram();
    if let Some(trace) = trace {
        server.write_lives(trace);
    }
    let (from, rings) = (ServerCounts::of(&server), RingLevels::of(&server));
    let first = server.offered();
    server.offer_in_all(first + packets);
    // Of a run that was stopped before nothing is measured.
    let mut end = if watch.is_stopped() { first } else { first + packets };
    let mut measure = Measure::new(first, server.now(), span);
    let mut last = from.clone();
    while server.offered() < end {
        let pause = Pause { offered: end, at: last.span + measure.between_looks() };
        let more = advance(&mut server, pause, &mut measure, &mut steer);
        watch.tell(server.offered() - first, packets, false);
        if watch.is_stopped() || !more || server.has_seen_all() {
            end = server.offered();
        }
        if server.now() >= pause.at || server.offered() == end {
            last = measure.look(last, &server);
        }
    }
    let partial = end < first + packets && watch.is_stopped();
    measure.growth = rings.growth(&server, burst);
    server.offer_in_all(end);
    server.pause_dram_reports(true);
    let pause = Pause { offered: u64::MAX, at: Ps::MAX };
    while advance(&mut server, pause, &mut measure, &mut None) {}
    Observed::of(server, steer, measure, last.since(&from), partial)
}
