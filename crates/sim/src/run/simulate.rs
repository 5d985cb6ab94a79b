//! One simulation: a machine, its traffic at one rate, [warm-up](super::warm), and what is measured after it.

use engine::Seed;
use functions::Function;
use machine::dram::CommandReport;
use machine::memory::ApplicationState;
use traffic::{Blueprint, Load, Source};
use units::{LINE_BYTES, Ps};

use crate::run::counts::ServerCounts;
use crate::run::measure::{Activity, Measure};
use crate::run::schedule::ProgressWatch;
use crate::run::steer::{ControlInterval, Steer, advance};
use crate::run::warm::{WarmServer, WarmUp, WarmUpRule};
use crate::scenario::{Scenario, ScenarioError};
use crate::server::{Pause, Server};

/// Times an interval of the series is divided for its mean ring occupancy.
const SAMPLES: u64 = 4;

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
        let warm = self.warm_at(load, packets, watch)?;
        self.simulate_warm(warm, None, load, packets, watch)
    }

    /// A server after the part of its warm-up that goes without time, at `load`, for a run of `packets` packets.
    ///
    /// # Errors
    /// As [`SimulationSetup::simulate`].
    pub(crate) fn warm_at(
        &self,
        load: &Load,
        packets: u64,
        watch: &ProgressWatch,
    ) -> Result<WarmServer, ScenarioError> {
        self.packets_per_second(load)?;
        let seed = Seed(self.scenario.run.seed);
        let server = Server::new(self.scenario, self.function.clone(), self.source(load)?, u64::MAX, seed)?;
        Ok(self.rule(packets).without_time(server, watch))
    }

    /// Simulates `packets` packets from `warm` on, after the part of warm-up that goes in detail. Where `warm` was warmed up
    /// at another load, the same packets follow as there, at `load`.
    ///
    /// # Errors
    /// As [`SimulationSetup::simulate`].
    pub(crate) fn simulate_warm(
        &self,
        mut warm: WarmServer,
        warmed_at: Option<&Load>,
        load: &Load,
        packets: u64,
        watch: &ProgressWatch,
    ) -> Result<Measured, ScenarioError> {
        let pps = self.packets_per_second(load)?;
        if warmed_at.is_some_and(|warmed| warmed != load) {
            warm.server.change_load(self.source(load)?);
        }
        let mut steer = Steer::new(self.scenario, Seed(self.scenario.run.seed))?;
        if let Some(steer) = &mut steer {
            steer.begin(&warm.server);
        }
        let (mut server, warmup) = self.rule(packets).in_detail(warm, &mut steer, watch);
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

    fn rule(&self, packets: u64) -> WarmUpRule {
        WarmUpRule {
            packets,
            given: self.scenario.run.warmup,
            all: self.blueprint.packets(),
            mbufs: self.scenario.mempool.size.into(),
            llc_capacity: self.scenario.machine.llc.size.bytes() / LINE_BYTES,
        }
    }

    /// The rate of `load`.
    fn packets_per_second(&self, load: &Load) -> Result<f64, ScenarioError> {
        let pps = self.blueprint.packets_per_second(load)?;
        if let Load::Timestamps(speed) = load
            && let Some(message) = self.scenario.run.outlasts_time(pps)
        {
            let message = format!("{speed}: {message}");
            return Err(ScenarioError::Value { origin: "run".into(), path: "traffic.speed".into(), message });
        }
        Ok(pps)
    }

    /// The same packets at every load, and in runs that are compared.
    fn source(&self, load: &Load) -> Result<Source, ScenarioError> {
        let seed = Seed(self.scenario.run.seed);
        let mut source = self.blueprint.source(rand::Rng::next_u64(&mut seed.stream("traffic")), load)?;
        source.rotate(self.scenario.run.seed);
        Ok(source)
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
