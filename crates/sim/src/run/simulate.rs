//! One simulation: a machine, its traffic at one rate, warm-up, and what is measured after it.
//!
//! # When measurement begins
//! A machine begins with empty caches and untouched buffers, and what it does until they are in use is not what it
//! does later. Unless the scenario says how many packets are to be cut (`run.warmup`), measurement begins when
//! - a tenth as many packets were offered as are going to be measured,
//! - as many packets were stored as there are mbufs in the pool: a pool that gives back the mbuf that has been
//!   free for longest touches another one with every packet until then,
//! - and MSER-5 (`stats::mser5`), over means of the sojourns since the first packet, cuts in the first half: what
//!   it finds to be settled is then at least as long as what it finds not to be.
//!
//! This is looked at after a number of packets that doubles each time, so that runs that differ a little in their
//! machine begin to measure at the same packet. Where the sojourn does not settle within as many packets as are
//! going to be measured (four times as many while mbufs are unused), warm-up ends there and the result says so.

use engine::Seed;
use functions::Function;
use machine::dram::CommandReport;
use machine::memory::ApplicationState;
use schemars::JsonSchema;
use serde::Serialize;
use stats::{BatchMeans, mser5};
use traffic::{Blueprint, Load};
use units::Ps;

use crate::run::counts::ServerCounts;
use crate::run::measure::{Activity, Measure};
use crate::run::schedule::ProgressWatch;
use crate::run::steer::{ControlInterval, Steer};
use crate::scenario::{Scenario, ScenarioError};
use crate::server::{Departure, DepartureObserver, Loss, PacketFate, Pause, Server};

/// Events between two looks at whether to stop.
const EVENTS_PER_CHECK: usize = 20_000;
/// Times an interval of the series is divided for its mean ring occupancy.
const SAMPLES: u64 = 4;
/// Means of sojourns that MSER-5 looks at, at most.
const SOJOURN_MEANS: usize = 1_000;
/// Warm-up is not extended beyond this many times the measured packets, however large the pool is.
const MOST_FOR_THE_POOL: u64 = 4;

/// What one simulation has measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Packets.
    pub measure: Measure,
    /// What was cut before.
    pub warmup: WarmUp,
    /// What the server counted in the measured part: from the end of warm-up to the last departure.
    pub counts: ServerCounts,
    /// DRAM peak in bytes a second.
    pub dram_peak: f64,
    /// What DRAM controllers did in the measured part; none where DRAM answers at once.
    pub controllers: Option<CommandReport>,
    /// Packets that were simulated, warm-up included.
    pub simulated: u64,
    /// Intervals of the policy, from the first packet on; none without one.
    pub control: Vec<ControlInterval>,
    /// The user ended it early.
    pub partial: bool,
}

/// The packets that were cut at the start, and why so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WarmUp {
    /// How many were offered before measurement began.
    pub packets: u64,
    /// What decided.
    pub end: WarmUpEnd,
    /// Mbufs in the pool.
    pub mbufs: u64,
    /// Packets that got an mbuf by then.
    pub stored: u64,
    /// Of the packets sent by then, after how many the sojourn had settled by MSER-5; [`None`] if too few were
    /// sent to tell.
    pub settled_after: Option<u64>,
}

/// Why measurement began when it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarmUpEnd {
    /// The scenario says so.
    Given,
    /// Buffers had been used and the sojourn had settled.
    Settled,
    /// They had not, but it had taken as long as it may.
    Limit,
}

/// What simulations of a scenario share.
pub struct SimulationSetup<'a> {
    /// The machine.
    pub scenario: &'a Scenario,
    /// Clones share its tables.
    pub function: &'a Function,
    /// Where packets come from.
    pub blueprint: &'a Blueprint,
}

impl SimulationSetup<'_> {
    /// Simulates `packets` packets after warm-up at `load`.
    ///
    /// # Errors
    /// A machine or a load that cannot be.
    pub fn simulate(&self, load: &Load, packets: u64, watch: &ProgressWatch) -> Result<Measured, ScenarioError> {
        let seed = Seed(self.scenario.run.seed);
        let pps = self.blueprint.packets_per_second(load)?;
        if let Load::Timestamps(speed) = load
            && let Some(message) = self.scenario.run.outlasts_time(pps)
        {
            let message = format!("{speed}: {message}");
            return Err(ScenarioError::Value { origin: "run".into(), path: "traffic.speed".into(), message });
        }
        // The same packets at every load, and in runs that are compared.
        let mut source = self.blueprint.source(rand::Rng::next_u64(&mut seed.stream("traffic")), load)?;
        source.rotate(self.scenario.run.seed);
        let mut server = Server::new(self.scenario, self.function.clone(), source, u64::MAX, seed)?;

        let mut steer = Steer::new(self.scenario, seed)?;

        let warmup = self.warm_up(&mut server, packets, &mut steer, watch);
        server.mark_dram();
        let from = ServerCounts::of(&server);
        let first = server.offered();
        server.offer_in_all(first + packets);
        let mut measure = Measure::new(first, server.now(), Ps::from_secs_f64(packets as f64 / pps));
        let mut last = from.clone();
        let mut next_sample = from.span + measure.interval / SAMPLES;
        let mut partial = false;
        loop {
            if !partial && watch.is_stopped() {
                partial = true;
                server.offer_in_all(server.offered());
            }
            let pause = Pause { offered: u64::MAX, at: next_sample };
            let more = advance(&mut server, pause, &mut measure, &mut steer);
            if server.now() >= next_sample || !more {
                let now = ServerCounts::of(&server);
                measure.activity(last.span, activity(&last, &now, &server));
                // Intervals may have become longer meanwhile.
                next_sample = now.span + measure.interval / SAMPLES;
                last = now;
            }
            if !more {
                break;
            }
            watch.tell(server.offered() - first, packets, false);
        }
        Ok(Measured {
            counts: last.since(&from),
            controllers: server.memory().dram_report(server.now()),
            dram_peak: server.memory().dram_peak_bytes_per_s(),
            simulated: server.offered(),
            warmup,
            measure,
            control: steer.map(Steer::into_history).unwrap_or_default(),
            partial,
        })
    }

    /// Runs `server` until measurement of `packets` packets is to begin. See the module header.
    fn warm_up(&self, server: &mut Server, packets: u64, steer: &mut Option<Steer>, watch: &ProgressWatch) -> WarmUp {
        let mbufs = u64::from(self.scenario.mempool.size);
        let given = self.scenario.run.warmup;
        let least = given.unwrap_or((packets / 10).max(mbufs.min(packets.saturating_mul(MOST_FOR_THE_POOL))));
        let mut most = given.unwrap_or(packets.max(least));
        let mut next = least;
        if given.is_none()
            && let Some(all) = self.blueprint.packets()
            && all < most.saturating_add(packets)
        {
            // A source that ends keeps nine tenths of its packets to be measured.
            most = most.min(all / 10);
            next = next.min(most);
        }
        let mut seen = Transient { sojourns: BatchMeans::with_batches(SOJOURN_MEANS), refused: 0 };
        loop {
            let pause = Pause { offered: next, at: Ps::MAX };
            while server.offered() < next && !watch.is_stopped() && advance(server, pause, &mut seen, steer) {
                watch.tell(server.offered(), next, true);
            }
            let truncation = mser5(seen.sojourns.batch_means());
            let stored = server.offered() - seen.refused;
            let is_settled = truncation.is_none_or(|t| t.reliable) && stored >= mbufs;
            let ended = server.offered() < next;
            if is_settled || next >= most || ended {
                return WarmUp {
                    packets: server.offered(),
                    end: match given {
                        Some(_) => WarmUpEnd::Given,
                        None if is_settled => WarmUpEnd::Settled,
                        None => WarmUpEnd::Limit,
                    },
                    mbufs,
                    stored,
                    settled_after: truncation
                        .filter(|t| t.reliable)
                        .map(|t| t.drop as u64 * seen.sojourns.batch_size()),
                };
            }
            next = next.saturating_mul(2).min(most);
        }
    }
}

/// Goes on to `pause`, or to the end of the policy's interval and lets it decide; `false` once all is done.
pub(crate) fn advance(
    server: &mut Server,
    pause: Pause,
    observer: &mut impl DepartureObserver,
    steer: &mut Option<Steer>,
) -> bool {
    let Some(steer) = steer else { return server.advance(EVENTS_PER_CHECK, pause, observer) };
    let more = server.advance(EVENTS_PER_CHECK, Pause { at: pause.at.min(steer.next()), ..pause }, observer);
    if server.now() >= steer.next() {
        steer.step(server);
    }
    more
}

/// What warm-up is judged by.
#[derive(Clone)]
struct Transient {
    sojourns: BatchMeans,
    /// Packets that were lost before they got an mbuf.
    refused: u64,
}

impl DepartureObserver for Transient {
    fn departure(&mut self, d: &Departure) {
        match d.fate {
            PacketFate::Sent(_) => self.sojourns.record(d.sojourn.as_ns()),
            PacketFate::Lost(Loss::NoRxDescriptor | Loss::NoMbuf | Loss::NicFifoFull | Loss::NoBuffer) => {
                self.refused += 1
            }
            _ => {}
        }
    }
}

/// What a server did between two states, and where its packets and mbufs are at the second.
fn activity(from: &ServerCounts<ApplicationState>, to: &ServerCounts<ApplicationState>, server: &Server) -> Activity {
    let llc = to.memory.llc - from.memory.llc;
    let dram = to.dram - from.dram;
    let busy = |counts: &ServerCounts<ApplicationState>| counts.cores.iter().map(|c| c.busy.0).sum();
    let mbufs = server.mbufs();
    Activity {
        span: to.span.since(from.span),
        llc_hits: llc.hits,
        llc_lookups: llc.lookups(),
        dram_lines: dram.reads + dram.writes,
        dram_work: to.dram_work - from.dram_work,
        busy: Ps(busy(to)).since(Ps(busy(from))),
        waiting: server.ring_occupancy() as u64,
        mbufs: [mbufs.descriptors, mbufs.queued, mbufs.sending, mbufs.free],
        samples: 1,
    }
}
