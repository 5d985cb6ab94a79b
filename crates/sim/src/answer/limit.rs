//! What holds a run's rate back, or comes nearest to it, and how much more could be offered.

use machine::nic::PcieLink;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Ps;

use crate::answer::rates::dram_bandwidth;
use crate::run::RunResult;
use crate::run::simulate::Measured;
use crate::scenario::{GpuPosting, ServerGpuSpec};
use crate::server::Loss;

/// A core busier than this has no time left.
pub(super) const SATURATED: f64 = 0.95;
/// DRAM whose data buses could take nothing more for all but this share of the time is full, whatever they moved.
pub(super) const DRAM_IDLE: f64 = 0.05;

/// A stage of the GPU that is busier than this has no room for more batches.
pub(super) const GPU_FULL: f64 = 0.9;

/// Bursts of less than this share of `nic.burst` are short.
const SHORT: f64 = 0.5;
/// A smaller share of the lost packets is chance.
const FEW: f64 = 0.01;

/// What holds a rate back, or comes nearest to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateLimit {
    /// A core.
    Core,
    /// The NIC's own packet rate, or that of one of its queues.
    Nic,
    /// PCIe.
    Pcie,
    /// DRAM.
    Dram,
    /// Walks of the IOMMU.
    Iommu,
    /// The GPU: its kernels, or copies to it and back.
    Gpu,
    /// Something else: a ring, a pool, a queue, the packet buffer.
    Other,
}

impl RateLimit {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            RateLimit::Core => "a core",
            RateLimit::Nic => "the NIC's packet rate",
            RateLimit::Pcie => "PCIe",
            RateLimit::Dram => "DRAM",
            RateLimit::Iommu => "the IOMMU",
            RateLimit::Gpu => "the GPU",
            RateLimit::Other => "a ring, a pool or a queue",
        }
    }
}

/// What a GPU's batches go through, and the share of the time for which each was busy; none without one.
pub(super) fn gpu_use(result: &Measured, spec: Option<&ServerGpuSpec>) -> Option<Vec<(&'static str, f64)>> {
    let (did, spec) = (result.counts.gpu?, spec?);
    let span = result.counts.span.as_secs();
    let share = |time: Ps| if span > 0.0 { time.as_secs() / span } else { 0.0 };
    let stages = [("kernel", did.busy), ("copy_in", did.copying_in), ("copy_back", did.copying_back)];
    let mut stages: Vec<_> = stages.into_iter().map(|(name, time)| (name, share(time))).collect();
    if spec.posting == GpuPosting::Persistent {
        stages.push(("dispatcher", share(did.dispatching)));
        // Behind whatever has no room it is full, too.
        if stages.iter().all(|stage| stage.1 < GPU_FULL) && share(did.posted) >= GPU_FULL {
            stages.push(("fifo", share(did.posted)));
        }
    } else if spec.streams() == 1 {
        stages.push(("one_batch_at_a_time", stages.iter().map(|stage| stage.1).sum()));
    }
    Some(stages)
}

/// Shares of the time for which each resource was busy.
#[derive(Clone, Copy, Debug)]
pub struct RateUse {
    core: f64,
    nic: f64,
    pcie: f64,
    dram: f64,
    iommu: f64,
    gpu: f64,
    /// Packets of a burst of the busiest core, and how many it could have.
    burst: (f64, u32),
}

impl RateUse {
    /// Of a run that measured packets.
    pub fn of(result: &RunResult) -> RateUse {
        let counts = &result.measured.counts;
        let (nic, span) = (&result.scenario.nic, counts.span.as_secs());
        let share = |part: f64| if span > 0.0 { part / span } else { 0.0 };
        let (up, down) = counts.pcie_carried;
        let offered = &result.measured.measure.offered;
        let packets = offered.packets as f64;
        // A queue takes its time for a packet and what the packet's bytes take on the link beside, as `server::intake` has it.
        let frame = offered.l2_bytes.checked_div(offered.packets).unwrap_or(0) + nic.driver.written();
        let on_link = PcieLink::with_headers(frame, nic.pcie.max_payload.into(), nic.pcie.overhead.into());
        let in_queue = |time: units::Span| time.ps() + nic.pcie.rate.time_for(on_link);
        let receiving = &counts.cores[..(result.scenario.receiving_cores() as usize).min(counts.cores.len())];
        let (most, all) =
            receiving.iter().fold((0, 0), |(most, all), core| (core.packets.max(most), all + core.packets));
        // The busiest core's share of the packets, over its queues.
        let of_queue = packets * most as f64 / (all.max(1) as f64 * f64::from(nic.queues_per_core));
        let of_nic = nic.packet_interval.map_or(0.0, |time| share(packets * time.ps().as_secs()));
        let queue = nic.queue_interval.map_or(0.0, |time| share(of_queue * in_queue(time).as_secs()));
        let walkers = result.scenario.machine.iommu.as_ref().zip(counts.iommu);
        let full = match &result.measured.controllers {
            Some(controllers) => 1.0 - controllers.report.shares.idle,
            None => dram_bandwidth(&result.measured) / result.measured.dram_peak,
        };
        let busiest = counts.cores.iter().max_by_key(|core| core.busy);
        RateUse {
            core: busiest.map_or(0.0, |core| share(core.busy.as_secs())),
            burst: (busiest.map_or(0.0, |core| core.packets as f64 / core.bursts.max(1) as f64), nic.burst),
            nic: of_nic.max(queue),
            iommu: walkers.map_or(0.0, |(spec, did)| share(did.walked.as_secs()) / f64::from(spec.walks.max(1))),
            gpu: gpu_use(&result.measured, result.scenario.machine.gpu.as_ref())
                .map_or(0.0, |stages| stages.iter().fold(0.0, |most, stage| most.max(stage.1))),
            pcie: share(up.max(down) as f64 * 8.0) / (nic.pcie.rate.gbps() * 1e9),
            dram: if full.is_finite() { full } else { 0.0 },
        }
    }

    /// What is busiest, and its share. What another resource waits for comes before that: a core that waits for full DRAM is busy too.
    fn busiest(&self) -> (RateLimit, f64) {
        let all = [
            (RateLimit::Dram, self.dram),
            (RateLimit::Iommu, self.iommu),
            (RateLimit::Gpu, self.gpu),
            (RateLimit::Pcie, self.pcie),
            (RateLimit::Nic, self.nic),
            (RateLimit::Core, self.core),
        ];
        if self.dram > 1.0 - DRAM_IDLE {
            return all[0];
        }
        all.into_iter().fold((RateLimit::Core, 0.0), |most, each| if each.1 > most.1 { each } else { most })
    }

    /// What holds the rate back, or comes nearest to it.
    pub fn limit(&self, result: &RunResult) -> RateLimit {
        let lost = |losses: &[Loss]| -> u64 {
            losses.iter().filter_map(|loss| result.measured.measure.lost.get(loss.name())).sum()
        };
        let all: u64 = result.measured.measure.lost.values().sum();
        if all == 0 {
            return self.busiest().0;
        }
        let full = self.dram > 1.0 - DRAM_IDLE;
        if self.iommu > SATURATED {
            return RateLimit::Iommu;
        }
        // Its batches are not as large as they could be where it is launched late: a tenth of its time may be between them.
        if lost(&[Loss::QueueFull, Loss::NoMbuf]) * 2 > all && self.gpu > GPU_FULL {
            return RateLimit::Gpu;
        }
        // Whoever passes on more than the next one takes is not what holds back: cores that find full rings come first.
        let behind = lost(&[Loss::NoRxDescriptor, Loss::QueueFull, Loss::NoMbuf]);
        if behind as f64 > FEW * all as f64 && (full || self.core > SATURATED) {
            return if full { RateLimit::Dram } else { RateLimit::Core };
        }
        match lost(&[Loss::NicFifoFull]) * 2 > all {
            true if self.nic > self.pcie => RateLimit::Nic,
            true => RateLimit::Pcie,
            // Bursts that are longer than a ring, a pool or a queue.
            false => RateLimit::Other,
        }
    }

    /// The share of the time for which the IOMMU's walkers were busy.
    pub fn iommu(&self) -> f64 {
        self.iommu
    }

    /// Packets of a burst, where a core is busiest whose bursts are short: it would take less time a packet if more came.
    pub fn short_bursts(&self) -> Option<f64> {
        let (packets, most) = self.burst;
        (self.busiest().0 == RateLimit::Core && packets < SHORT * f64::from(most)).then_some(packets)
    }

    /// So much more could be offered at least until the busiest resource has no time left, as a share of what was.
    pub fn headroom(&self) -> f64 {
        let (_, share) = self.busiest();
        if share > 0.0 { (1.0 / share - 1.0).max(0.0) } else { 0.0 }
    }
}
