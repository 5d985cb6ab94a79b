//! A made machine in place of this one: the whole loop without a NIC, without cache allocation and without root.
//!
//! Its files are in memory, and what runs on it is the server of `sim` (see [`fakehost`]). The daemon reads its counters from a
//! DPDK program's socket and a server of JSON, as on a machine. Of a configuration that is given the roots, the state folder and
//! these two sources are the made machine's; all else is as it stands there.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Args, ValueEnum};
use fakehost::{CounterServer, FakeHost, FileRoot, Register, Simulated, SimulatedSpec, Spec, TelemetryServer};
use units::Ps;

use crate::{DaemonConfig, DaemonError, Parts, Role};

/// What is asked of a made machine on the command line.
#[derive(Args, Debug)]
pub struct SimulateArguments {
    /// Run against a made machine in memory, on which simulated packets flow: no hardware, no root, nothing of this machine is read
    /// or set. Without a command that is `run --apply`.
    #[arg(long, global = true, value_enum, value_name = "MACHINE")]
    simulate: Option<MadeMachineKind>,
    /// With --simulate: packets offered a second, in millions; each of 1500 bytes.
    #[arg(long, global = true, requires = "simulate", value_name = "MPPS", default_value_t = 3.6, value_parser = mpps)]
    offer: f64,
    /// With --simulate: begin the next interval at once, in place of waiting for as long as it lasts.
    #[arg(long, global = true, requires = "simulate")]
    no_wait: bool,
}

impl SimulateArguments {
    /// Whether a made machine is asked for.
    pub fn is_asked(&self) -> bool {
        self.simulate.is_some()
    }

    /// Whether intervals follow each other at once.
    pub fn no_wait(&self) -> bool {
        self.no_wait
    }

    /// The machine that is asked for, with a configuration of its own or the given one.
    ///
    /// # Errors
    /// As [`MadeMachine::start`].
    pub fn start(&self, config: Option<DaemonConfig>) -> Result<Option<MadeMachine>, DaemonError> {
        self.simulate.map(|kind| MadeMachine::start(kind, config, self.offer)).transpose()
    }
}

/// A rate of packets that the made machine's port has room for.
fn mpps(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (LEAST_MPPS..=MOST_MPPS).contains(&rate) => Ok(rate),
        _ => Err(format!("allowed are {LEAST_MPPS} to {MOST_MPPS}, millions of packets of 1500 bytes a second")),
    }
}

/// Machines that can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MadeMachineKind {
    /// A Skylake-SP of two packages, whose register of device ways has an effect.
    Skylake,
    /// The same; its register takes values and changes nothing, as some guests' do.
    NoEffect,
    /// An AMD server whose kernel sets the ways of devices (`io_alloc`).
    Amd,
}

impl MadeMachineKind {
    fn spec(self) -> Spec {
        match self {
            MadeMachineKind::Skylake => Spec::default(),
            MadeMachineKind::NoEffect => Spec { register: Register::NoEffect, ..Spec::default() },
            MadeMachineKind::Amd => Spec::amd(),
        }
    }
}

/// What is configured where no file is given: devices begin with more ways than pay, so that there is something to find.
const DEFAULT: &str = "[[classes]]\nname = \"rx\"\nrole = \"receive\"\ncpus = \"1\"\n\n[policy]\nio_ways = 8\n\n";
/// Below it the simulated server has next to nothing to do.
const LEAST_MPPS: f64 = 0.1;
/// 100 Gbps of packets of 1500 bytes are 8.2.
const MOST_MPPS: f64 = 8.0;
/// As the plant's own packets.
const PACKET_BYTES: f64 = 1500.0;
/// How many times slower than its clock the server runs: an interval of a second takes tens of milliseconds then, and the caches
/// turn over within a few intervals.
const SLOW: u32 = 500;
/// Intervals that the server has run for before the daemon starts: what fills empty caches looks like an effect.
const WARM: u32 = 12;

/// A machine, and the programs on it that tell counters.
pub struct MadeMachine {
    config: DaemonConfig,
    parts: Parts,
    host: FakeHost,
    /// Its time, which goes on by [`MadeMachine::advance`] alone.
    now: Arc<AtomicU64>,
    _telemetry: TelemetryServer,
    _counters: CounterServer,
    /// Dropped last: sockets are in it.
    _folder: tempfile::TempDir,
}

impl MadeMachine {
    /// The machine, running at so many millions of packets a second, with a configuration of its own or the given one.
    ///
    /// # Errors
    /// No temporary folder, no sockets, a configuration without a class that receives.
    fn start(kind: MadeMachineKind, config: Option<DaemonConfig>, mpps: f64) -> Result<MadeMachine, DaemonError> {
        let mut config = match config {
            Some(config) => config,
            None => DaemonConfig::parse(DEFAULT, "--simulate")?,
        };
        let spec = kind.spec();
        let plant = SimulatedSpec { slow: SLOW, ..SimulatedSpec::default() };
        let plant = Simulated::new(plant, spec.ways, spec.rmids).map_err(|why| DaemonError::Setting {
            path: "--simulate".into(),
            came: format!("{kind:?}"),
            allowed: why.to_string(),
        })?;
        let host = FakeHost::with_plant(spec, Box::new(plant));
        host.offer(mpps * 1e6, PACKET_BYTES);
        let made = |e| DaemonError::file("making", "a temporary folder".as_ref(), e);
        let folder = tempfile::Builder::new().prefix("wirespeedd-").tempdir().map_err(made)?;
        let socket = folder.path().join("dpdk_telemetry.v2");
        let listening = |e| DaemonError::file("listening at", &socket, e);
        let telemetry = TelemetryServer::start(&host, &socket).map_err(listening)?;
        let counters = CounterServer::start(&host).map_err(listening)?;
        config.take_sources(folder.path().join("state"), socket.clone(), &counters.url())?;
        let parts = Parts {
            prefix: config.prefix.clone(),
            resctrl: host.tree(FileRoot::Resctrl),
            dev_cpu: host.tree(FileRoot::DevCpu),
            proc: host.tree(FileRoot::Proc),
            sys: host.tree(FileRoot::Sys),
        };
        let machine = MadeMachine {
            config,
            parts,
            host,
            now: Arc::default(),
            _telemetry: telemetry,
            _counters: counters,
            _folder: folder,
        };
        (0..WARM).for_each(|_| machine.advance());
        Ok(machine)
    }

    /// Its configuration: the given one with what is the made machine's.
    pub fn config(&self) -> &DaemonConfig {
        &self.config
    }

    /// Its files.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Lets an interval pass.
    pub fn advance(&self) {
        let by = self.config.interval.ps();
        self.now.fetch_add(by.0, Ordering::Relaxed);
        self.host.advance(by);
    }

    /// Its clock.
    pub fn clock(&self) -> Box<dyn FnMut() -> Ps + Send> {
        let now = self.now.clone();
        Box::new(move || Ps(now.load(Ordering::Relaxed)))
    }
}

impl DaemonConfig {
    /// Has the made machine's state folder and sources in place of those of a real one.
    fn take_sources(&mut self, state: PathBuf, socket: PathBuf, url: &str) -> Result<(), DaemonError> {
        let Some(class) = self.classes.iter().find(|class| class.role == Role::Receive) else {
            return Err(DaemonError::Setting {
                path: "classes".into(),
                came: "none that receives".into(),
                allowed:
                    "the made machine has one program that receives packets, on processor 1: give a class with role = \
                          \"receive\" and cpus = \"1\""
                        .into(),
            });
        };
        let name = &class.name;
        let sources = format!(
            "{DEFAULT}[telemetry]\nsocket = {socket:?}\n[json]\nurl = \"{url}\"\nddio_hits = [\"Uncore/IO hits\"]\n\
             ddio_misses = [\"Uncore/IO misses\"]\nmemory_bytes = [\"Uncore/DRAM bytes\"]\n"
        )
        .replace("name = \"rx\"", &format!("name = \"{name}\""));
        let core =
            format!("llc_misses.{name} = [\"Cores/0/L3 misses\"]\nllc_lookups.{name} = [\"Cores/0/L3 lookups\"]\n");
        let its = DaemonConfig::parse(&(sources + &core), "--simulate")?;
        (self.state, self.telemetry, self.json, self.perf) = (state, its.telemetry, its.json, None);
        Ok(())
    }
}
