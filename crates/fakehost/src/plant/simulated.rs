//! The server of `sim` below the made machine: packets come through a NIC and its rings into mbufs by DDIO, a packet function works
//! on them, other programs read and write beside it, and all share an LLC whose lines are held one by one.
//!
//! - A program's lines count under the monitoring id that it had when they came in, and stay there when it changes groups, as
//!   Intel's CMT and AMD's QoS monitoring have it. Masks limit fills alone: content moves as lines are replaced.
//! - The server runs in slow motion: a second of the made machine is [`SimulatedSpec::slow`] times less of the server's time, and
//!   what is counted in it counts as many times. So rates are the server's, a caller can afford it, and content follows a mask
//!   over seconds, as on a machine whose caches turn over slowly; a real one under this load is done within a few milliseconds.
//! - Programs that change groups do so with their next request.
//!
//! Left out: packages beyond the first, division of memory bandwidth (MBA), which is accepted and has no effect.

use std::collections::BTreeMap;

use sim::run::stepped::Stepped;
use sim::scenario::{SCENARIOS, find};
use sim::{Overrides, Scenario, ScenarioError};
use units::{Cbm, Clos, Ps};

use super::{HostProgram, Plant, Tenant};

/// Why there is no such plant.
#[derive(Debug, thiserror::Error)]
pub enum PlantError {
    /// The scenario is none, or no machine can be built of it.
    #[error("the plant's scenario: {0}")]
    Scenario(#[from] ScenarioError),
    /// Another number of programs.
    #[error(
        "programs: {came}: allowed is {allowed}, the packet cores together and then each neighbour of the scenario"
    )]
    Programs {
        /// How many came.
        came: usize,
        /// How many there are.
        allowed: usize,
    },
    /// Of ids of owners.
    #[error("rmids = {0}: allowed are 0 to 255 (an owner of a line is a byte, and 255 are devices)")]
    Owners(u32),
    /// No slow motion.
    #[error("slow = 0: allowed is 1 (as fast as the server) and more")]
    Slow,
}

/// What runs.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedSpec {
    /// The name of a scenario that is built in.
    pub scenario: String,
    /// What is otherwise in it, as `path=value`. The ways of its LLC are those of the made machine.
    pub set: Vec<String>,
    /// The packet cores together, and then each neighbour of the scenario.
    pub programs: Vec<HostProgram>,
    /// How many times slower than its clock the server runs.
    pub slow: u32,
}

impl Default for SimulatedSpec {
    /// A user plane on one core at 2 Mpps of 1500 bytes through a ring of 4096 descriptors, and a noisy neighbour on four.
    fn default() -> SimulatedSpec {
        let set = [
            "machine.cores=1",
            "function.upf.load.ues=2000",
            "mempool.size=16384",
            "nic.rx_descriptors=4096",
            "traffic.sizes.fixed=1500",
            "traffic.packet_rate=\"2 Mpps\"",
            "machine.llc.size=\"33 MiB\"",
            "machine.llc.slices=4",
            "neighbours=[{ name = \"beside\", cores = 4, working_set = \"50 MiB\", every = \"100 ns\" }]",
        ];
        SimulatedSpec {
            scenario: "upf".into(),
            set: set.map(String::from).to_vec(),
            programs: vec![HostProgram::receiving(), HostProgram::beside()],
            slow: 1000,
        }
    }
}

/// The server.
pub struct Simulated {
    server: Stepped,
    spec: SimulatedSpec,
    /// What is set in the scenario, without the packets that others offer since.
    set: Vec<String>,
    /// What each owner had fetched when its id became free.
    fetched_before: BTreeMap<u8, u64>,
    /// Time of the made machine.
    elapsed: Ps,
    /// Of it, what is left of a division.
    owed: Ps,
}

/// Where no packets come the server's time goes on by these: it is looked at when one comes.
const LEAST_PPS: f64 = 100_000.0;

impl Simulated {
    /// The server of the scenario, with nothing in its caches, in a machine whose LLC has so many ways and monitoring ids.
    ///
    /// # Errors
    /// See [`PlantError`].
    pub fn new(spec: SimulatedSpec, ways: u32, rmids: u32) -> Result<Simulated, PlantError> {
        if rmids > 255 {
            return Err(PlantError::Owners(rmids));
        }
        if spec.slow == 0 {
            return Err(PlantError::Slow);
        }
        // Which ways devices fill is said with each advance.
        let ways = [format!("machine.llc.ways={ways}"), "machine.llc.io_ways=1".to_string()];
        let set: Vec<String> = spec.set.iter().cloned().chain(ways).collect();
        let server = Stepped::new(&read(&spec.scenario, &set)?)?;
        if spec.programs.len() != server.programs() {
            return Err(PlantError::Programs { came: spec.programs.len(), allowed: server.programs() });
        }
        let fetched_before = BTreeMap::new();
        Ok(Simulated { server, spec, set, fetched_before, elapsed: Ps::ZERO, owed: Ps::ZERO })
    }
}

fn read(name: &str, set: &[String]) -> Result<Scenario, ScenarioError> {
    let preset = find(SCENARIOS, name).ok_or_else(|| {
        let known: Vec<&str> = SCENARIOS.iter().map(|s| s.name).collect();
        ScenarioError::Preset {
            origin: "the made machine".into(),
            path: "plant.scenario".into(),
            name: name.into(),
            known: format!("there are {}", known.join(", ")),
        }
    })?;
    Scenario::read(preset.text, name, &Overrides { set: set.to_vec(), ..Overrides::default() })
}

impl Plant for Simulated {
    fn programs(&self) -> Vec<HostProgram> {
        self.spec.programs.clone()
    }

    fn offer(&mut self, pps: f64, packet_bytes: f64) {
        let others = |set: &&String| !set.starts_with("traffic.packet_rate") && !set.starts_with("traffic.sizes");
        let mut set: Vec<String> = self.set.iter().filter(others).cloned().collect();
        set.push(format!("traffic.packet_rate=\"{} Mpps\"", pps.max(LEAST_PPS) / 1e6));
        set.push(format!("traffic.sizes.fixed={}", packet_bytes.round()));
        // Packets that cannot be leave the traffic as it is.
        if let Ok(scenario) = read(&self.spec.scenario, &set)
            && self.server.offer(&scenario).is_ok()
        {
            self.set = set;
        }
    }

    fn advance(&mut self, by: Ps, tenants: &[Tenant], io: Cbm) {
        let classes: Vec<(Clos, Cbm)> = tenants.iter().map(|t| (Clos(t.owner), t.ways)).collect();
        // What resctrl has taken the LLC has: no way of a mask is missing here.
        let _ = self.server.set_ways(io, &classes);
        for (program, (clos, _)) in classes.into_iter().enumerate() {
            self.server.set_clos(program, clos);
        }
        self.elapsed += by;
        self.owed += by;
        let slow = u64::from(self.spec.slow);
        let own = Ps(self.owed.0 / slow);
        self.owed = Ps(self.owed.0 % slow);
        self.server.advance(own);
    }

    fn occupancy(&self, owner: u8, _: &[u8]) -> f64 {
        self.server.class_bytes(Clos(owner)) as f64
    }

    fn io_occupancy(&self) -> f64 {
        self.server.io_bytes() as f64
    }

    fn fetched(&self, owner: u8, _: &[u8]) -> f64 {
        let before = self.fetched_before.get(&owner).copied().unwrap_or(0);
        ((self.server.class_fetched(Clos(owner)) - before) * u64::from(self.spec.slow)) as f64
    }

    fn left_behind(&self, owner: u8) -> u64 {
        self.server.class_bytes(Clos(owner))
    }

    fn forget(&mut self, owner: u8) {
        self.fetched_before.insert(owner, self.server.class_fetched(Clos(owner)));
    }

    fn totals(&self) -> BTreeMap<&'static str, u64> {
        let t = self.server.totals();
        let slow = u64::from(self.spec.slow);
        let pairs = [
            ("received", t.received),
            ("lost", t.lost),
            ("io_hits", t.device_writes.hits),
            ("io_misses", t.device_writes.misses),
            ("io_bytes", t.pcie_bytes.0),
            ("out_bytes", t.pcie_bytes.1),
            ("memory_bytes", t.memory_bytes),
            ("core_misses", t.llc.misses),
            ("core_lookups", t.llc.hits + t.llc.misses),
            ("busy", t.busy.0 / 1000),
        ];
        let counted = pairs.into_iter().map(|(name, value)| (name, value * slow));
        counted.chain([("elapsed", self.elapsed.0 / 1000)]).collect()
    }
}
