//! A scenario's answer in closed form: throughput, waiting and finite cache penalty without simulating queues.
//!
//! [`idle`] has the packet function and the driver work on a few thousand packets on a machine where nobody waits
//! for anybody else, which gives instructions, misses and the time of a burst. What is shared is queues: each core
//! that takes what waits as a burst M/G^(1,b)/1, each DRAM channel M/D/1, each direction of PCIe M/G/1; rates follow from how receive-side scaling spreads
//! the flows. Packets that the function rejects cost a core their time and leave by no port.
//!
//! Left out: bursts of arrivals, queues of LLC slices and DRAM banks between cores, DMA credits, losses below
//! saturation, and what [`LeftOut`] says of a scenario. `docs/guide/predictions.md` says how far the answers are
//! from simulation.

mod idle;

use std::sync::Arc;

use queueing::Bulk;
use serde_json::{Value, json};
use stats::Attribution;
use traffic::Blueprint;

use crate::load::Loaded;
use crate::scenario::{Scenario, ScenarioError};
use idle::{Idle, PerPacket};

/// Packets that are counted, in full bursts.
const PACKETS: u64 = 8_192;
/// Packets that are counted, one by one.
const SINGLE_PACKETS: u64 = 2_048;
/// Packets that fill the caches before, at most; about a second.
const MOST_WARM_UP: u64 = 400_000;

/// Loads what `scenario` needs.
///
/// # Errors
/// Input that cannot be read, a function that cannot be built.
pub fn load_one(scenario: &Scenario) -> Result<Loaded, ScenarioError> {
    let mut loaded = crate::load::load(std::slice::from_ref(scenario), &Arc::default(), &mut |_| true)?;
    loaded.pop().ok_or_else(|| ScenarioError::Stopped { during: "scenario".into() })
}

/// What packets take on a scenario's machine, whatever the load: all that a prediction needs of the simulated machine.
#[derive(Clone, Debug)]
pub struct Profile {
    scenario: Scenario,
    blueprint: Arc<Blueprint>,
    /// In full bursts, and one by one: a service time is a + c / burst.
    full: PerPacket,
    one: PerPacket,
    /// The share of packets that each core gets.
    shares: Vec<f64>,
    /// Packets that filled the caches before.
    warm_up: u64,
}

impl Profile {
    /// Measures what packets take in `scenario`, for which `loaded` was loaded.
    ///
    /// # Errors
    /// A machine that cannot be, a pipeline, traffic that ends before caches are full.
    pub fn new(scenario: &Scenario, loaded: &Loaded) -> Result<Profile, ScenarioError> {
        if scenario.pipeline.is_some() {
            let message =
                "is not predicted: allowed are cores that do both (remove it, or simulate by `wirespeed run`)";
            return Err(wrong("pipeline", message));
        }
        let mut machine = Idle::new(scenario, loaded)?;
        let burst = scenario.nic.burst.max(1);
        // Caches are as full as in the middle of the run, and every mbuf has been used.
        let run = &scenario.run;
        let middle = run.warmup.unwrap_or(run.packets / 10).saturating_add(run.packets / 2);
        let warm_up = middle.max(scenario.mempool.size.into()).clamp(PACKETS, MOST_WARM_UP);
        // Of traffic that ends half is counted.
        let all = loaded.blueprint.packets();
        let warm_up = all.map_or(warm_up, |all| warm_up.min(all / 2));
        machine.take(burst, warm_up);
        let counted = all.map_or(PACKETS, |all| PACKETS.min(all * 3 / 8));
        let full = machine.take(burst, counted);
        let one = machine.take(1, SINGLE_PACKETS);
        let (Some(full), Some(one)) = (full.per_packet(), one.per_packet()) else {
            return Err(wrong("traffic", "ends too early (leave traffic.rounds out)"));
        };
        let (scenario, blueprint) = (scenario.clone(), loaded.blueprint.clone());
        Ok(Profile { scenario, blueprint, full, one, shares: machine.shares(), warm_up })
    }

    /// What closed forms make of it under the scenario's load, or `share` of the line rate. Times are means of packets
    /// that leave.
    ///
    /// # Errors
    /// A load that cannot be.
    pub fn predict(&self, share: Option<f64>) -> Result<Value, ScenarioError> {
        let Profile { scenario, full, one, shares, .. } = self;
        let line = scenario.nic.rate;
        let load = match share {
            Some(share) if !(share > 0.0 && share <= 1.0) => {
                return Err(wrong("load", &format!("= {share}: allowed is a share of the line rate above 0 up to 1")));
            }
            Some(share) => traffic::Load::LineShare { share, line },
            None => scenario.traffic.offered(line),
        };
        let offered = self.blueprint.packets_per_second(&load)?;
        let service = PacketService::new(one, full, scenario.nic.burst.max(1));
        let rates = PredictedRates::new(scenario, offered, full, shares, &service);
        let channel = rates.dram(scenario, full);
        let answer = PredictedSojourn::new(scenario, &rates, full, shares, &service, channel.wait_s);

        let m = &scenario.machine;
        let period = m.core.period().as_secs();
        let per_instruction = |x: f64| x / answer.instructions;
        let cpi = per_instruction(answer.service_s / period);
        let ns = |s: f64| s * 1e9;
        let stalls = |attribution: &Attribution| -> Value {
            let parts = attribution.iter().filter(|(_, time)| time.0 > 0);
            parts.map(|(reason, time)| (reason.name().to_string(), json!(time.as_ns() / full.packets))).collect()
        };
        Ok(json!({
            "offered_mpps": offered / 1e6,
            "carried_mpps": rates.carried * (1.0 - full.rejected) / 1e6,
            "rejected_mpps": rates.carried * full.rejected / 1e6,
            "rejected_share": full.rejected,
            "capacity_mpps": rates.capacity() / 1e6,
            "bound": rates.bound(),
            "service_ns": ns(answer.service_s),
            "service_scv": service.scv,
            "utilisation": answer.utilisation,
            "busiest_core_share": shares.iter().copied().fold(0.0, f64::max),
            "waiting_ns": answer.waiting_s.map(ns),
            "sojourn_ns": answer.sojourn_s.map(ns),
            "pcie_ns": answer.pcie_s.map(ns),
            "burst": answer.burst,
            "instructions": answer.instructions,
            "references": full.references,
            "cpi_inf": m.core.cpi,
            "fcp": cpi - m.core.cpi,
            "cpi": cpi,
            "mr1": per_instruction(full.l1_misses),
            "mr2": per_instruction(full.l2_misses),
            "mr_llc": per_instruction(full.dram_reads),
            "core_ns": stalls(&full.attribution),
            "dram_utilisation": channel.utilisation,
            "dram_wait_ns": channel.wait_s.map(ns),
            "profiled_packets": self.warm_up + (full.packets + one.packets) as u64,
            "left_out": LeftOut::of(scenario),
        }))
    }
}

fn wrong(path: &str, message: &str) -> ScenarioError {
    ScenarioError::Value { origin: "predict".into(), path: path.into(), message: message.into() }
}

/// Settings of a scenario that a prediction does not look at, in words.
struct LeftOut;

impl LeftOut {
    fn of(scenario: &Scenario) -> Vec<&'static str> {
        let mut out = Vec::new();
        let mut note = |here: bool, words| {
            if here {
                out.push(words);
            }
        };
        note(scenario.policy.is_some(), "policy: the ways stay as they are");
        note(scenario.nic.pcie.credits.is_some(), "nic.pcie.credits: writes never wait for credits");
        note(!scenario.machine.applications.is_empty(), "machine.applications: the LLC tells nobody's lines apart");
        note(scenario.machine.stacked.is_some(), "machine.stacked: tables lie in the machine's DRAM");
        let translates = scenario.machine.iommu.as_ref().is_some_and(|iommu| iommu.translates());
        note(translates, "machine.iommu: devices' addresses need no translation");
        let unmaps = scenario.machine.iommu.as_ref().is_some_and(|iommu| iommu.unmaps());
        note(unmaps, "machine.iommu.mode: buffers stay mapped");
        note(scenario.machine.sockets.is_some(), "machine.sockets: DRAM is that of one socket");
        note(scenario.machine.gpu.is_some(), "machine.gpu: cores work on all packets");
        note(!scenario.neighbours.is_empty(), "neighbours: packet cores are alone on the machine");
        note(
            scenario.machine.dram.controller.is_some(),
            "machine.dram.controller: banks are reserved in the order in which they are asked",
        );
        note(scenario.nic.output_block.is_some(), "nic.output_block: the NIC reads each packet in one go");
        note(scenario.nic.cache_cells > 0, "nic.cache_cells: the NIC has no memory of its own");
        let nic = &scenario.nic;
        note(nic.rings != machine::nic::RxRings::Private, "nic.rings: each queue has a ring of its own");
        note(nic.targets.is_some(), "nic.targets: what the NIC receives goes to the LLC's I/O ways");
        note(scenario.mempool.start.is_some(), "mempool.start: packets begin behind the usual headroom");
        note(nic.payload_memory.is_some(), "nic.payload_memory: payload goes to the host");
        note(nic.elastic.is_some(), "nic.elastic: a packet without a descriptor is lost");
        note(nic.drop_dead, "nic.drop_dead: dead lines are written back");
        let paced = nic.packet_interval.is_some() || nic.queue_interval.is_some();
        note(paced, "nic.packet_interval and queue_interval: the NIC takes packets as fast as they come");
        let piped = nic.rx_pipeline.is_some() || nic.tx_pipeline.is_some();
        note(piped, "nic.rx_pipeline and tx_pipeline: the NIC hands packets on at once");
        note(nic.doorbell_interval.is_some(), "nic.doorbell_interval: no doorbell waits for another");
        note(scenario.machine.core.stalls.is_some(), "machine.core.stalls: the system takes no core away");
        note(scenario.run.search.is_some(), "run.search: the given load is predicted");
        out
    }
}

/// The time of a packet at its core: a + c / burst.
struct PacketService {
    each: f64,
    fixed: f64,
    /// At the largest burst.
    full: f64,
    scv: f64,
    most: u32,
    /// Instructions in the same form.
    instructions: [f64; 2],
}

impl PacketService {
    fn new(one: &PerPacket, full: &PerPacket, burst: u32) -> PacketService {
        let most = f64::from(burst);
        let parts = |one: f64, full: f64| {
            if burst == 1 {
                return [full, 0.0];
            }
            let fixed = ((one - full) / (1.0 - 1.0 / most)).max(0.0);
            [(full - fixed / most).max(f64::MIN_POSITIVE), fixed]
        };
        let [each, fixed] = parts(one.service, full.service);
        // Of a packet: that of a burst's mean is less by as many as it has.
        let scv = most * (full.service_squared / (full.service * full.service) - 1.0).max(0.0);
        let instructions = parts(one.instructions, full.instructions);
        PacketService { each, fixed, full: full.service, scv, most: burst, instructions }
    }

    /// What a core comes to that gets `rate` packets a second, each of which waits for DRAM's queue for `at_dram`; none
    /// beyond saturation, where bursts are full.
    fn at(&self, rate: f64, at_dram: f64) -> Option<Bulk> {
        queueing::bulk(rate.max(f64::MIN_POSITIVE), self.fixed, self.each + at_dram, self.scv, self.most).ok()
    }
}

/// Packets a second.
struct PredictedRates {
    offered: f64,
    /// What the busiest core, DRAM, and PCIe in the direction of its packets keep up with.
    by_cores: f64,
    by_dram: f64,
    by_pcie: f64,
    /// What goes through, rejected packets included.
    carried: f64,
}

/// A DRAM channel.
struct PredictedChannel {
    utilisation: f64,
    /// Mean wait of a line; none where it is saturated.
    wait_s: Option<f64>,
}

impl PredictedRates {
    fn new(
        scenario: &Scenario,
        offered: f64,
        full: &PerPacket,
        shares: &[f64],
        service: &PacketService,
    ) -> PredictedRates {
        let d = &scenario.machine.dram;
        let by_dram = f64::from(d.channels) / d.t_burst.ps().as_secs() / full.dram_lines.max(1e-12);
        let by_cores = shares.iter().map(|share| 1.0 / (service.full * share)).fold(f64::INFINITY, f64::min);
        let each = |share: &f64| (offered * share).min(1.0 / service.full);
        let by_pcie = 1.0 / full.link[0].max(1e-12);
        let carried = shares.iter().map(each).sum::<f64>().min(by_dram).min(by_pcie);
        PredictedRates { offered, by_cores, by_dram, by_pcie, carried }
    }

    fn capacity(&self) -> f64 {
        self.by_cores.min(self.by_dram).min(self.by_pcie)
    }

    fn is_saturated(&self) -> bool {
        self.offered >= self.capacity()
    }

    fn bound(&self) -> &'static str {
        match self.is_saturated() {
            false => "offered load",
            true if self.by_pcie <= self.by_cores.min(self.by_dram) => "PCIe",
            true if self.by_cores <= self.by_dram => "cores",
            true => "DRAM",
        }
    }

    fn dram(&self, scenario: &Scenario, full: &PerPacket) -> PredictedChannel {
        let d = &scenario.machine.dram;
        let line_s = d.t_burst.ps().as_secs();
        let lines = self.carried * full.dram_lines / f64::from(d.channels);
        let wait_s = match lines > 0.0 {
            true => queueing::md1(lines, 1.0 / line_s).ok().map(|q| q.w_q),
            false => Some(0.0),
        };
        PredictedChannel { utilisation: lines * line_s, wait_s }
    }
}

/// What a packet goes through, in the mean over the cores.
struct PredictedSojourn {
    utilisation: f64,
    burst: f64,
    service_s: f64,
    instructions: f64,
    waiting_s: Option<f64>,
    pcie_s: Option<f64>,
    sojourn_s: Option<f64>,
}

impl PredictedSojourn {
    fn new(
        scenario: &Scenario,
        rates: &PredictedRates,
        full: &PerPacket,
        shares: &[f64],
        service: &PacketService,
        dram_wait_s: Option<f64>,
    ) -> PredictedSojourn {
        let at_dram = dram_wait_s.unwrap_or(0.0) * full.dram_reads;
        let mut out = PredictedSojourn {
            utilisation: 0.0,
            burst: 0.0,
            service_s: 0.0,
            instructions: 0.0,
            waiting_s: (!rates.is_saturated() && dram_wait_s.is_some()).then_some(0.0),
            pcie_s: None,
            sojourn_s: None,
        };
        let mut at_core = 0.0;
        for &share in shares {
            let found = service.at(rates.offered * share, at_dram);
            let (rho, seen) = found.map_or((1.0, f64::from(service.most)), |found| (found.rho, found.batch));
            let time = service.each + service.fixed / seen + at_dram;
            out.utilisation += rho / shares.len() as f64;
            out.burst += share * seen;
            out.service_s += share * time;
            out.instructions += share * (service.instructions[0] + service.instructions[1] / seen);
            // A burst leaves as a whole; what a packet waits for is all but its own time.
            out.waiting_s = out.waiting_s.zip(found).map(|(sum, found)| sum + share * (found.w - time));
            at_core += share * time;
        }
        // In: packet and descriptor. Out: doorbell, fetch of the descriptor, fetch of the packet, each with its answer.
        let pcie = &scenario.nic.pcie;
        let [mean, square] = full.link;
        let queue = || {
            let scv = (square / (mean * mean) - 1.0).max(0.0);
            queueing::mg1(rates.carried.max(1.0), 1.0 / mean, scv).ok().map(|q| q.w)
        };
        // Arrivals are spaced by the port's line: where PCIe is faster, nothing waits on its way in.
        let way_in = if pcie.rate.gbps() >= scenario.nic.rate.gbps() { Some(mean) } else { queue() };
        // Packets of a burst go out one after the other.
        let others = 0.5 * (out.burst - 1.0) * mean;
        out.pcie_s =
            queue().zip(way_in).map(|(way_out, way_in)| 6.0 * pcie.latency.ps().as_secs() + way_in + way_out + others);
        let m = &scenario.machine.core;
        let poll = 0.5 * m.period().as_secs() * f64::from(m.poll_cycles);
        let sum = |(waiting, pcie): (f64, f64)| waiting + at_core + pcie + full.dma + poll;
        out.sojourn_s = out.waiting_s.zip(out.pcie_s).map(sum);
        out
    }
}
