//! Runs a scenario: loads what it needs, simulates, searches, and gathers the result.

use std::time::Instant;

use engine::Seed;
use functions::{Forward, Function, NextHop};
use machine::dram::DramCounters;
use machine::memory::MemoryCounters;
use packet::Prefix;
use traffic::{Blueprint, Load, Table};
use units::{Ps, Rate};

use crate::measure::Measure;
use crate::scenario::{Scenario, ScenarioError, Search};
use crate::server::{CoreCounters, Server};

/// Where a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// "load", "warm-up", "run", "trial 3", "curve 2/8".
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
    /// Median sojourn.
    pub p50_ns: f64,
    /// 99th percentile of the sojourn.
    pub p99_ns: f64,
}

impl Trial {
    /// Lost over offered.
    pub fn loss(&self) -> f64 {
        self.lost as f64 / self.packets.max(1) as f64
    }
}

/// The outcome of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchOutcome {
    /// What was searched for.
    pub kind: Search,
    /// The loss that passes.
    pub loss_limit: f64,
    /// The highest share of line rate that passed; 0 if none did.
    pub load: f64,
    /// Every trial, in order.
    pub trials: Vec<Trial>,
}

/// What a simulation of the scenario at one rate has measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Packets.
    pub measure: Measure,
    /// Memory counters of the measured part.
    pub memory: MemoryCounters,
    /// DRAM counters of the measured part.
    pub dram: DramCounters,
    /// Core counters of the measured part.
    pub cores: Vec<CoreCounters>,
    /// Payload bytes over PCIe in the measured part: to the host, from the host.
    pub pcie_bytes: (u64, u64),
    /// The time the counters cover: from the end of warm-up to the last departure.
    pub span: Ps,
    /// DRAM peak in bytes a second.
    pub dram_peak: f64,
    /// Packets that were simulated, warm-up included.
    pub simulated: u64,
    /// Host seconds of this simulation.
    pub wall_s: f64,
    /// The user ended it early.
    pub partial: bool,
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
    /// The search, if the scenario asks for one.
    pub search: Option<SearchOutcome>,
    /// What was assumed or found in the input, in words.
    pub notes: Vec<String>,
    /// What a capture's first pass found.
    pub capture: Option<traffic::CaptureReport>,
    /// Routes by family.
    pub routes: (usize, usize),
    /// Mean frame with FCS, in bytes.
    pub mean_frame_bytes: f64,
    /// Share of line rate offered.
    pub load: f64,
    /// The user ended it early.
    pub partial: bool,
    /// Host seconds of the simulation alone.
    pub wall_s: f64,
    /// Host seconds of loading tables and traffic.
    pub load_s: f64,
}

/// Events between two looks at the clock and the user.
const EVENTS_PER_CHECK: usize = 20_000;

/// What every simulation of a scenario shares.
struct Prepared {
    function: Function,
    blueprint: Blueprint,
    line: Rate,
    seed: Seed,
}

/// Runs `scenario`. `progress` is called now and then; when it returns `false` the run ends early
/// and its result is marked partial.
///
/// # Errors
/// Input that cannot be read, a machine or traffic that cannot be.
pub fn run(scenario: &Scenario, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<RunResult, ScenarioError> {
    let started = Instant::now();
    let note = |text: &str| Progress { phase: "load".into(), done: 0, total: 1, note: text.into() };
    progress(&note("routing table"));
    let forward = &scenario.function.forward;
    let mut notes = Vec::new();
    let table = match &forward.table {
        Some(path) => Table::open(path)?,
        None => Table::synthetic(TABLE_SEED, forward.prefixes as usize, forward.next_hops),
    };
    if !table.damage.is_empty() {
        notes.push(format!("the routing table is damaged: {}", table.damage));
    }
    let hops = forward.next_hops;
    let without = table.routes.iter().filter(|r| r.next_hop.is_none()).count();
    if without > 0 {
        notes.push(format!("{without} routes have no next hop: each got one of {hops} by a hash of its prefix"));
    }
    // Next hops that the entries cannot hold share the last one that they can: a file's numbers are
    // indices, so there are never as many.
    let routes = table.routes.iter().filter_map(|r| {
        let class = r.next_hop.unwrap_or_else(|| spread(r.prefix) % hops);
        NextHop::new(class).map(|hop| (r.prefix, hop))
    });
    let forwarding = Forward::new(routes, scenario.nic.ports, &forward.lookup)?;
    let counts = forwarding.routes();

    progress(&note("traffic"));
    let blueprint = Blueprint::new(&scenario.traffic.source(), Some(&table))?;
    notes.extend(blueprint.notes().iter().cloned());
    drop(table);
    let prepared = Prepared {
        function: Function::Forward(forwarding),
        line: scenario.nic.rate,
        seed: Seed(scenario.run.seed),
        blueprint,
    };
    let mut load = scenario.traffic.offered(prepared.line);
    let share = prepared.share(&load)?;
    if share > 1.0 + 1e-9 {
        return Err(ScenarioError::Value {
            origin: "scenario".into(),
            path: "traffic".into(),
            message: format!(
                "the offered rate is {:.1} % of the port's line rate of {}: allowed is up to 100 % (lower the rate, or raise nic.rate)",
                share * 100.0,
                prepared.line
            ),
        });
    }
    let load_s = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let mut partial = false;

    let search = match scenario.run.search {
        None => None,
        Some(kind) => {
            let outcome = prepared.search(scenario, kind, progress, &mut partial)?;
            let found = if outcome.load > 0.0 { outcome.load } else { scenario.run.search_resolution };
            load = Load::LineShare { share: found, line: prepared.line };
            Some(outcome)
        }
    };
    let (packets, warmup) = (scenario.run.packets, scenario.run.warmup_packets());
    let measured = prepared.simulate(scenario, &load, packets, warmup, "run", progress)?;
    partial |= measured.partial;
    let mut curve = Vec::new();
    for (i, &share) in scenario.run.curve.iter().enumerate() {
        if partial {
            break;
        }
        let phase = format!("curve {}/{}", i + 1, scenario.run.curve.len());
        let n = scenario.run.curve_packets;
        let load = Load::LineShare { share, line: prepared.line };
        let point = prepared.simulate(scenario, &load, n, warmup.min(n / 2), &phase, progress)?;
        partial |= point.partial;
        if !point.partial {
            curve.push(point.trial(share));
        }
    }
    let mean = prepared.blueprint.mean_size();
    Ok(RunResult {
        load: prepared.share(&load)?,
        scenario: scenario.clone(),
        measured,
        curve,
        search,
        notes,
        capture: prepared.blueprint.capture_report().cloned(),
        routes: counts,
        mean_frame_bytes: mean.l2,
        partial,
        wall_s: started.elapsed().as_secs_f64(),
        load_s,
    })
}

/// Made tables are the same whatever the seed of a run: a router's routes do not change with the
/// traffic.
const TABLE_SEED: u64 = 24;

/// A stable hash of a prefix (the 64-bit finaliser of MurmurHash3).
fn spread(prefix: Prefix) -> u32 {
    let mut x = match prefix {
        Prefix::V4 { addr, len } => u64::from(addr) << 8 | u64::from(len),
        Prefix::V6 { addr, len } => (addr >> 64) as u64 ^ addr as u64 ^ u64::from(len) << 56,
    };
    x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (x ^ x >> 33) as u32
}

impl Prepared {
    /// `load` as a share of line rate (L1).
    fn share(&self, load: &Load) -> Result<f64, ScenarioError> {
        let pps = self.blueprint.packets_per_second(load)?;
        Ok(pps * self.blueprint.mean_size().l1 * 8.0 / (self.line.gbps() * 1e9))
    }

    fn simulate(
        &self,
        scenario: &Scenario,
        load: &Load,
        packets: u64,
        warmup: u64,
        phase: &str,
        progress: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<Measured, ScenarioError> {
        let pps = self.blueprint.packets_per_second(load)?;
        // The same packets at every load, and in runs that are compared.
        let source = self.blueprint.source(rand::Rng::next_u64(&mut self.seed.stream("traffic")), load)?;
        let mut server = Server::new(scenario, self.function.clone(), source, warmup + packets, self.seed)?;
        let started = Instant::now();
        let mut measure = Measure::new(warmup, Ps::from_secs_f64(packets as f64 / pps));
        let mut at_warm = None;
        let mut partial = false;
        loop {
            let more = server.advance(EVENTS_PER_CHECK, &mut measure);
            if at_warm.is_none() && (server.offered() >= warmup || !more) {
                at_warm = Some(Snapshot::of(&server));
            }
            if !more {
                break;
            }
            let report = if server.offered() < warmup && phase == "run" {
                Progress { phase: "warm-up".into(), done: server.offered(), total: warmup, note: String::new() }
            } else {
                let done = server.offered().saturating_sub(warmup);
                Progress { phase: phase.into(), done, total: packets, note: String::new() }
            };
            if !partial && !progress(&report) {
                partial = true;
                server.stop_offering();
            }
        }
        let (from, to) = (at_warm.unwrap_or_else(|| Snapshot::of(&server)), Snapshot::of(&server));
        Ok(Measured {
            memory: memory_since(&to.memory, &from.memory),
            dram: dram_since(&to.dram, &from.dram),
            cores: to.cores.iter().zip(&from.cores).map(|(a, b)| core_since(a, b)).collect(),
            pcie_bytes: (to.pcie.0 - from.pcie.0, to.pcie.1 - from.pcie.1),
            span: to.at.since(from.at),
            dram_peak: server.memory().dram().peak_bytes_per_s(),
            simulated: server.offered(),
            wall_s: started.elapsed().as_secs_f64(),
            measure,
            partial,
        })
    }

    /// Halves the interval between a rate that passes and one that does not until it is narrower
    /// than the resolution (RFC 2544 section 26.1). Line rate is tried first.
    fn search(
        &self,
        scenario: &Scenario,
        kind: Search,
        progress: &mut dyn FnMut(&Progress) -> bool,
        partial: &mut bool,
    ) -> Result<SearchOutcome, ScenarioError> {
        let loss_limit = if kind == Search::Ndr { 0.0 } else { scenario.run.loss_limit };
        let (mut pass, mut fail) = (0.0, 1.0);
        let mut outcome = SearchOutcome { kind, loss_limit, load: 0.0, trials: Vec::new() };
        let mut share = 1.0;
        let n = scenario.run.search_packets;
        while !*partial {
            let load = Load::LineShare { share, line: self.line };
            let phase = format!("trial {}", outcome.trials.len() + 1);
            let measured =
                self.simulate(scenario, &load, n, scenario.run.warmup_packets().min(n / 2), &phase, progress)?;
            if measured.partial {
                *partial = true;
                break;
            }
            let trial = measured.trial(share);
            if trial.loss() <= loss_limit {
                pass = share;
            } else {
                fail = share;
            }
            outcome.trials.push(trial);
            if pass >= fail || fail - pass <= scenario.run.search_resolution {
                break;
            }
            share = (pass + fail) / 2.0;
        }
        outcome.load = pass;
        Ok(outcome)
    }
}

impl Measured {
    fn trial(&self, load: f64) -> Trial {
        let m = &self.measure;
        let us = m.window().as_secs() * 1e6;
        let quantile = |q| m.sojourn.histogram().quantile(q).map_or(f64::NAN, Ps::as_ns);
        Trial {
            load,
            offered_mpps: m.offered.packets as f64 / us,
            carried_mpps: m.carried.packets as f64 / us,
            lost: m.lost.values().sum(),
            packets: m.offered.packets,
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
        }
    }
}

struct Snapshot {
    at: Ps,
    memory: MemoryCounters,
    dram: DramCounters,
    cores: Vec<CoreCounters>,
    pcie: (u64, u64),
}

impl Snapshot {
    fn of(server: &Server) -> Snapshot {
        Snapshot {
            at: server.now(),
            memory: server.memory().counters(),
            dram: server.memory().dram().counters(),
            cores: server.cores(),
            pcie: server.pcie_bytes(),
        }
    }
}

fn memory_since(a: &MemoryCounters, b: &MemoryCounters) -> MemoryCounters {
    let level = |a: machine::memory::LevelCounters, b: machine::memory::LevelCounters| machine::memory::LevelCounters {
        hits: a.hits - b.hits,
        misses: a.misses - b.misses,
    };
    MemoryCounters {
        l1: level(a.l1, b.l1),
        l2: level(a.l2, b.l2),
        llc: level(a.llc, b.llc),
        dma_write: level(a.dma_write, b.dma_write),
        dma_read: level(a.dma_read, b.dma_read),
        tlb: level(a.tlb, b.tlb),
        page_walks: a.page_walks - b.page_walks,
        snoops: a.snoops - b.snoops,
        upgrades: a.upgrades - b.upgrades,
        writebacks: a.writebacks - b.writebacks,
    }
}

fn dram_since(a: &DramCounters, b: &DramCounters) -> DramCounters {
    DramCounters {
        reads: a.reads - b.reads,
        writes: a.writes - b.writes,
        row_hits: a.row_hits - b.row_hits,
        row_misses: a.row_misses - b.row_misses,
        row_conflicts: a.row_conflicts - b.row_conflicts,
        bus_busy: a.bus_busy - b.bus_busy,
    }
}

fn core_since(a: &CoreCounters, b: &CoreCounters) -> CoreCounters {
    CoreCounters {
        packets: a.packets - b.packets,
        bursts: a.bursts - b.bursts,
        busy: a.busy - b.busy,
        instructions: a.instructions - b.instructions,
    }
}
