//! What a GPU in the machine did.

use schemars::JsonSchema;
use serde::Serialize;
use units::Ps;

use super::hardware::miss_rate;
use crate::answer::limit::{GPU_FULL, gpu_use};
use crate::run::simulate::Measured;
use crate::scenario::{GpuMemory, GpuPosting, Scenario};

/// The GPU, its batches, and what packets spent there.
#[derive(Serialize, JsonSchema)]
pub struct GpuSummary {
    /// Where packets and tables are for it.
    attached: GpuMemory,
    /// Whether packets come in batches, or in tasks that kernels take which stay.
    posting: GpuPosting,
    /// The share of flows that go to it.
    share: f64,
    /// Packets that came back.
    packets: u64,
    /// Batches that were launched, or tasks.
    batches: u64,
    /// Of them, those whose time was up before they were full.
    late_batches: u64,
    /// Packets of a batch, over those of a full one.
    #[schemars(with = "Option<f64>")]
    fill: f64,
    /// Until its batch was full, mean nanoseconds a packet.
    #[schemars(with = "Option<f64>")]
    fill_ns: f64,
    /// Until the GPU had room, the same.
    #[schemars(with = "Option<f64>")]
    queue_ns: f64,
    /// In copies to it and back, the same.
    #[schemars(with = "Option<f64>")]
    copy_ns: f64,
    /// In its kernel, the launch counted, or in its warp, the same.
    #[schemars(with = "Option<f64>")]
    kernel_ns: f64,
    /// Lanes that take part in an instruction, of those a warp has.
    #[schemars(with = "Option<f64>")]
    simd_efficiency: f64,
    /// Instructions of its lane a packet.
    #[schemars(with = "Option<f64>")]
    instructions_per_packet: f64,
    /// Sectors of 32 B a packet that its shader cores asked for.
    #[schemars(with = "Option<f64>")]
    sectors_per_packet: f64,
    /// Hits in its L2, of the loads that reach it.
    #[schemars(with = "Option<f64>")]
    l2_hit_rate: f64,
    /// Lookups of the server's LLC; null of one that does not ask it.
    llc_lookups: Option<u64>,
    /// Misses over them.
    llc_miss_rate: Option<f64>,
    /// Lines that cores have flushed from all caches for one that is not coherent; null for others.
    flushed_lines: Option<u64>,
    /// What its own memory carried; null of an integrated one.
    memory_gb_per_s: Option<f64>,
    /// Share of time in which a kernel ran, or was launched; of kernels that stay, the share of warps that had a task.
    kernel_busy: f64,
    /// Share of time in which a batch was copied to it.
    copy_in_busy: f64,
    /// Share of time in which a batch was copied back.
    copy_back_busy: f64,
    /// Of kernels that stay: the share of the FIFO's entries that were taken, and of what a discrete one's dispatcher can find; else null.
    fifo_full: Option<f64>,
    /// See `fifo_full`.
    dispatcher_busy: Option<f64>,
    /// What has no room for more: `kernel`, `copy_in`, `copy_back`, `one_batch_at_a_time`, `fifo`, or `dispatcher`; else `arrivals`.
    limited_by: &'static str,
}

impl GpuSummary {
    pub(super) fn of(scenario: &Scenario, measured: &Measured) -> Option<GpuSummary> {
        let spec = scenario.machine.gpu.as_ref()?;
        let did = measured.counts.gpu?;
        let (discrete, persistent) = (spec.attached == GpuMemory::Discrete, spec.posting == GpuPosting::Persistent);
        let (span, packets) = (measured.counts.span.as_secs(), did.packets as f64);
        let a_packet = |time: Ps| time.as_ns() / packets;
        let share = |time: Ps| time.as_secs() / span;
        let (kernel, copy_in, copy_back) = (share(did.busy), share(did.copying_in), share(did.copying_back));
        let stages = gpu_use(measured, Some(spec))?;
        let fullest = stages.into_iter().filter(|(_, share)| *share >= GPU_FULL).max_by(|a, b| a.1.total_cmp(&b.1));
        let asks_llc = !discrete && spec.coherent;
        Some(GpuSummary {
            attached: spec.attached,
            posting: spec.posting,
            share: spec.share,
            packets: did.packets,
            batches: did.batches,
            late_batches: did.late,
            fill: did.launched as f64 / (did.batches as f64 * f64::from(spec.batch)),
            fill_ns: a_packet(did.fill),
            queue_ns: a_packet(did.queue),
            copy_ns: a_packet(did.copy),
            kernel_ns: a_packet(did.kernel),
            simd_efficiency: did.lanes as f64 / (did.instructions as f64 * machine::simt::WARP as f64),
            instructions_per_packet: did.lanes as f64 / packets,
            sectors_per_packet: did.memory.sectors as f64 / packets,
            l2_hit_rate: did.memory.l2_hits as f64 / did.memory.l2_loads as f64,
            llc_lookups: asks_llc.then(|| did.llc.lookups()),
            llc_miss_rate: asks_llc.then(|| miss_rate(&did.llc)),
            flushed_lines: (!discrete && !spec.coherent).then_some(did.flushed),
            memory_gb_per_s: discrete.then(|| did.dram_lines as f64 * 64.0 / span / 1e9),
            kernel_busy: kernel,
            copy_in_busy: copy_in,
            copy_back_busy: copy_back,
            fifo_full: persistent.then(|| share(did.posted)),
            dispatcher_busy: (persistent && discrete).then(|| share(did.dispatching)),
            limited_by: fullest.map_or("arrivals", |(name, _)| name),
        })
    }
}
