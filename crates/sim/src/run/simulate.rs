//! One simulation: a machine, its traffic at one rate, [warm-up](super::warm), and what is measured after it.

use engine::Seed;
use functions::Function;
use machine::dram::CommandReport;
use traffic::{Blueprint, Load, Source};
use units::{LINE_BYTES, Ps};

use crate::run::counts::ServerCounts;
use crate::run::measure::Measure;
use crate::run::observe::{Instruments, Observed, Unobserved, observe};
use crate::run::sampling::{Sampling, sample};
use crate::run::schedule::ProgressWatch;
use crate::run::steer::{ControlInterval, Steer};
use crate::run::warm::{Inherited, WarmServer, WarmUp, WarmUpEnd, WarmUpRule};
use crate::scenario::{Scenario, ScenarioError};
use crate::server::Server;
use crate::server::lives::Lives;

/// What one simulation has measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Packets.
    pub measure: Measure,
    /// What was cut before.
    pub warmup: WarmUp,
    /// What the server counted in the measured part: from the end of warm-up to the last arrival.
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
    /// Lives of packets, if they were asked for.
    pub lives: Option<Lives>,
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
    /// Simulates `packets` packets after warm-up at `load`, looked at as `look` says.
    ///
    /// # Errors
    /// A machine or a load that cannot be.
    pub fn simulate(
        &self,
        load: &Load,
        packets: u64,
        look: Instruments<'_>,
        watch: &ProgressWatch,
    ) -> Result<Measured, ScenarioError> {
        let warm = self.warm_at(load, packets, watch)?;
        self.simulate_warm(warm, None, load, packets, look, watch)
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
        Ok(self.warm((self.server(load)?, Inherited::default()), packets, watch))
    }

    /// As [`SimulationSetup::warm_at`], of a server that has done nothing yet and begins with the rest of `begun`.
    pub(crate) fn warm(&self, begun: (Server, Inherited), packets: u64, watch: &ProgressWatch) -> WarmServer {
        self.rule(packets).without_time(begun.0, begun.1, watch)
    }

    /// A server that is to be offered `load`.
    ///
    /// # Errors
    /// As [`SimulationSetup::simulate`].
    pub(crate) fn server(&self, load: &Load) -> Result<Server, ScenarioError> {
        self.packets_per_second(load)?;
        let seed = Seed(self.scenario.run.seed);
        Server::new(self.scenario, self.function.clone(), self.source(load)?, u64::MAX, seed)
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
        look: Instruments<'_>,
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
        // Of windows, what they measure decides.
        let measured = look.sampling.map_or(packets, |spec| spec.measured().min(packets));
        let rule = WarmUpRule { follow: packets, ..self.rule(measured) };
        let (server, warmup) = rule.in_detail(warm, &mut steer, watch);
        let is_settled = warmup.unsettled.is_empty() && warmup.end == WarmUpEnd::Settled;
        let span = Ps::from_secs_f64(packets as f64 / pps);
        let unobserved = Unobserved { server, steer, packets, span, is_settled };
        let (observed, sampling) = match look.sampling {
            Some(spec) => {
                let (observed, sampling) = sample(unobserved, spec, Seed(self.scenario.run.seed), watch);
                (observed, Some(sampling))
            }
            None => (observe(unobserved, look.trace, watch), None),
        };
        let Observed { measure, simulated, counts, dram_peak, controllers, control, lives, partial } = observed;
        Ok(Measured { measure, warmup, counts, dram_peak, controllers, simulated, control, sampling, lives, partial })
    }

    fn rule(&self, packets: u64) -> WarmUpRule {
        WarmUpRule {
            packets,
            follow: packets,
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
