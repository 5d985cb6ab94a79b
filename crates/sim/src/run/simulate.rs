//! One simulation: a machine, its traffic at one rate, [warm-up](super::warm), and what is measured after it.

use engine::Seed;
use functions::Function;
use machine::dram::CommandReport;
use traffic::{Blueprint, Load, Source};
use units::{LINE_BYTES, Ps};

use crate::run::counts::ServerCounts;
use crate::run::measure::Measure;
use crate::run::sampling::{Sampling, sample};
use crate::run::schedule::ProgressWatch;
use crate::run::steer::{ControlInterval, Steer, advance};
use crate::run::warm::{WarmServer, WarmUp, WarmUpRule};
use crate::scenario::{SamplingSpec, Scenario, ScenarioError};
use crate::server::{Pause, Server};

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
    /// How it was sampled, if that was asked for.
    pub sampling: Option<Sampling>,
    /// The user ended it early.
    pub partial: bool,
}

/// A warm server that is going to be measured: for so many packets, which take about `span`.
#[derive(Clone)]
pub(super) struct Unobserved {
    pub server: Server,
    pub steer: Option<Steer>,
    pub packets: u64,
    pub span: Ps,
}

/// What was measured of a server.
pub(super) struct Observed {
    pub measure: Measure,
    pub simulated: u64,
    counts: ServerCounts,
    dram_peak: f64,
    controllers: Option<CommandReport>,
    control: Vec<ControlInterval>,
    partial: bool,
}

impl Observed {
    /// Of a server that was measured up to now.
    pub fn of(server: Server, steer: Option<Steer>, measure: Measure, counts: ServerCounts, partial: bool) -> Observed {
        Observed {
            measure,
            simulated: server.offered(),
            counts,
            dram_peak: server.memory().dram_peak_bytes_per_s(),
            controllers: server.memory().dram_report(server.now()),
            control: steer.map(Steer::into_history).unwrap_or_default(),
            partial,
        }
    }

    fn measured(self, warmup: WarmUp, sampling: Option<Sampling>) -> Measured {
        let Observed { measure, simulated, counts, dram_peak, controllers, control, partial } = self;
        Measured { measure, warmup, counts, dram_peak, controllers, simulated, control, sampling, partial }
    }
}

/// Simulates all packets in detail.
pub(super) fn observe(unobserved: Unobserved, watch: &ProgressWatch) -> Observed {
    let Unobserved { mut server, mut steer, packets, span } = unobserved;
    server.mark_dram();
    let from = ServerCounts::of(&server);
    let first = server.offered();
    server.offer_in_all(first + packets);
    let mut measure = Measure::new(first, server.now(), span);
    let mut last = from.clone();
    let mut next_look = from.span + measure.between_looks();
    let mut partial = false;
    loop {
        if !partial && watch.is_stopped() {
            partial = true;
            server.offer_in_all(server.offered());
        }
        let pause = Pause { offered: u64::MAX, at: next_look };
        let more = advance(&mut server, pause, &mut measure, &mut steer);
        if server.now() >= next_look || !more {
            last = measure.look(last, &server);
            // Intervals may have become longer meanwhile.
            next_look = last.span + measure.between_looks();
        }
        if !more {
            break;
        }
        watch.tell(server.offered() - first, packets, false);
    }
    Observed::of(server, steer, measure, last.since(&from), partial)
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
    /// Simulates `packets` packets after warm-up at `load`, in windows if `sampling` says so.
    ///
    /// # Errors
    /// A machine or a load that cannot be.
    pub fn simulate(
        &self,
        load: &Load,
        packets: u64,
        sampling: Option<&SamplingSpec>,
        watch: &ProgressWatch,
    ) -> Result<Measured, ScenarioError> {
        let warm = self.warm_at(load, packets, watch)?;
        self.simulate_warm(warm, None, load, packets, sampling, watch)
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
        sampling: Option<&SamplingSpec>,
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
        let (server, warmup) = self.rule(packets).in_detail(warm, &mut steer, watch);
        let unobserved = Unobserved { server, steer, packets, span: Ps::from_secs_f64(packets as f64 / pps) };
        let (observed, sampling) = match sampling {
            Some(spec) => {
                let (observed, sampling) = sample(unobserved, spec, Seed(self.scenario.run.seed), watch);
                (observed, Some(sampling))
            }
            None => (observe(unobserved, watch), None),
        };
        Ok(observed.measured(warmup, sampling))
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
