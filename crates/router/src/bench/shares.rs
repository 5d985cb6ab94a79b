//! Threads and a GPU together: shares by measured cost beside shares that are set, each alone among them.

use std::time::Duration;

use serde::Serialize;

use super::BenchSpec;
use super::completion::{MemorySource, few_frames};
use super::run::slot_bytes;
use crate::RouterError;
use crate::backend::{Backend, Commit, CpuThreads};
use crate::cuda::{Gpu, GpuContext, PacketPlacement};
use crate::layout::{RING_ENTRIES, WARP_LANES};
use crate::persistent::{KernelSetup, Persistent};
use crate::route::{RouteOptions, route};
use crate::setup::table;
use crate::sink::Nowhere;
use crate::split::{SplitBackend, SplitPolicy};

/// What is compared.
#[derive(Clone, Debug)]
pub struct SharesSpec {
    /// Workers.
    pub threads: usize,
    /// The GPU's share of packets; none is by measured cost.
    pub shares: Vec<Option<f64>>,
    /// Runs of each, which take turns.
    pub runs: u32,
    /// Packets of a run.
    pub packets: u64,
    /// Packets that are waited for.
    pub batch: u32,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct SharesPoint {
    /// What was done with each packet.
    pub function: String,
    /// The GPU's share that was set; none is by measured cost.
    pub share: Option<f64>,
    /// Which of the runs, from 0.
    pub run: u32,
    /// Millions of packets a second.
    pub mpps: f64,
    /// The GPU's share that came of it.
    pub of_gpu: f64,
    /// Batches by which a backend was only tried.
    pub explored: u64,
    /// Packets that were forwarded, and those that left after a later one.
    pub forwarded: u64,
    /// As said.
    pub reordered: u64,
}

impl SharesPoint {
    /// The columns of the CSV.
    pub const COLUMNS: &str = "function,share,run,mpps,of_gpu,explored,forwarded,reordered";

    /// A line of it, without its end.
    pub fn csv(&self) -> String {
        let SharesPoint { function, run, mpps, of_gpu, explored, forwarded, reordered, .. } = self;
        let share = self.share.map_or("cost".into(), |share| share.to_string());
        let function = function.replace(',', "+");
        format!("{function},{share},{run},{mpps:.4},{of_gpu:.4},{explored},{forwarded},{reordered}")
    }
}

/// Routes the same packets by threads and a GPU, packets in the host's memory and in order, for each function of `spec` and each share.
///
/// # Errors
/// Settings, files or tables that cannot be used; no GPU; a backend that fails.
pub fn bench_shares(
    spec: &BenchSpec,
    compared: &SharesSpec,
    mut each: impl FnMut(&SharesPoint),
) -> Result<(), RouterError> {
    let table = table(spec.table.as_ref(), spec.seed, spec.capture.is_some(), &mut Vec::new())?;
    let deadline = Duration::try_from_secs_f64(spec.deadline_s).unwrap_or(Duration::from_secs(5));
    let context = GpuContext::open(spec.driver.as_deref(), 0)?;
    let slots = (RING_ENTRIES * u64::from(WARP_LANES)).max(u64::from(compared.batch).next_power_of_two() * 4);
    for names in std::iter::once(&spec.function).chain(&spec.further) {
        let (program, frames) = few_frames(spec, names, &table)?;
        let frame_bytes = slot_bytes(&program, &frames);
        for run in 0..compared.runs {
            for &share in &compared.shares {
                let commit = Commit::Unordered;
                let cpu: Box<dyn Backend> =
                    Box::new(CpuThreads::new(&program, compared.threads, slots, commit, deadline)?);
                let setup = KernelSetup { slots, frame_bytes, commit, deadline, ..KernelSetup::default() };
                let gpu = Gpu::on(&context, PacketPlacement::ZeroCopy, None)?;
                let gpu: Box<dyn Backend> = Box::new(Persistent::new(gpu, &program, setup)?);
                let policy = share.map_or(SplitPolicy::Adaptive, SplitPolicy::Share);
                let mut both = SplitBackend::new("cpu+cuda", vec![cpu, gpu], policy, slots, compared.batch, true)?;
                let mut source = MemorySource::new(&frames, compared.packets);
                let options = RouteOptions { batch: compared.batch, ..RouteOptions::default() };
                let report = route(&mut source, &mut both, &mut Nowhere, &options)?;
                let of_gpu = report.split.last().map(|own| &own.share);
                each(&SharesPoint {
                    function: program.name(),
                    share,
                    run,
                    mpps: report.mpps,
                    of_gpu: of_gpu.map_or(0.0, |own| own.share),
                    explored: report.split.iter().map(|own| own.share.explored).sum(),
                    forwarded: report.forwarded,
                    reordered: report.reordered,
                });
            }
        }
    }
    Ok(())
}
