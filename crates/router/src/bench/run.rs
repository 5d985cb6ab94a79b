//! One point: a backend is made, packets are laid in, posted and seen committed, and every verdict is compared.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use functions::{ChecksumCheck, PacketFunction, Verdict};
use packet::Packet;
use probe::Null;
use traffic::{Blueprint, Load, SourceSpec, Table};
use units::{PacketId, PacketRate, Ps};

use super::plan::{BenchMode, BenchWay};
use super::{BenchPoint, BenchSpec, measure};
use crate::backend::{Backend, CpuThreads};
use crate::cuda::{BatchMode, GatheredBatch, Gpu, GpuContext, KernelBatch, PacketPlacement};
use crate::layout::SLOT_MARGIN;
use crate::persistent::{KernelSetup, Persistent};
use crate::program::Methods;
use crate::setup::{FunctionName, FunctionNames, ProgramSources, program};
use crate::{RouterError, RouterProgram};

/// Bytes of a frame that a slot holds: the headers that forwarding reads, in two lines with its margin.
pub(super) const FRAME_BYTES: usize = 128 - SLOT_MARGIN;
/// Graphs are made for each batch of the ring.
const MOST_GRAPHS: u64 = 1024;
/// Bytes of packets that a point is given at most where payloads are read: pinning memory takes longer than measuring.
const MOST_BYTES: usize = 256 << 20;
/// A load's packets arrive in this time, but for the fewest that are measured.
const LOAD_SECONDS: f64 = 0.3;
const FEWEST_OF_A_LOAD: u64 = 1 << 14;

/// A function, packets for it, and what is to become of them.
pub(super) struct BenchSubject {
    name: String,
    program: RouterProgram,
    packets: Vec<Packet>,
    expected: Vec<(Verdict, usize)>,
    frame_bytes: usize,
}

impl BenchSubject {
    pub(super) fn new(
        spec: &BenchSpec,
        function: &FunctionNames,
        table: &Table,
        notes: &mut Vec<String>,
    ) -> Result<BenchSubject, RouterError> {
        let (program, mut packets) = subject(spec, function, table, notes)?;
        let frame_bytes = slot_bytes(&program, &packets);
        if program.reads_payloads() {
            let least = 4 * spec.batches.iter().copied().max().unwrap_or(0) as usize;
            packets.truncate(1 << (MOST_BYTES / frame_bytes).max(least).ilog2());
        }
        let expected = verdicts(&program, &packets);
        Ok(BenchSubject { name: program.name(), program, packets, expected, frame_bytes })
    }

    /// How many packets there are, and how many slots hold them.
    pub(super) fn count(&self) -> (u64, u64) {
        let count = self.packets.len() as u64;
        (count, count.next_power_of_two())
    }

    /// Lays the first `count` packets into their slots.
    pub(super) fn lay_in(&self, backend: &mut dyn Backend, count: u64) {
        for (number, packet) in (0..count).zip(&self.packets) {
            backend.put(number, &mut packet.clone());
        }
    }
}

/// A function, and packets for it.
pub(super) fn subject(
    spec: &BenchSpec,
    function: &FunctionNames,
    table: &Table,
    notes: &mut Vec<String>,
) -> Result<(RouterProgram, Vec<Packet>), RouterError> {
    let sources = ProgramSources {
        functions: function,
        methods: Methods { search: spec.search, method: spec.method, structure: spec.structure, mtu: spec.mtu },
        rules: spec.rules.as_ref(),
        patterns: spec.patterns.as_ref(),
        ports: 4,
        checksum: ChecksumCheck::Nic,
        seed: spec.seed,
    };
    let (program, _) = program(&sources, table, notes)?;
    Ok((program, packets(spec, function, table)?))
}

/// What a slot holds of a frame: of payloads all that there is of the longest.
pub(super) fn slot_bytes(program: &RouterProgram, packets: &[Packet]) -> usize {
    let longest = packets.iter().map(|packet| packet.data.len()).max().unwrap_or(0);
    if program.reads_payloads() { longest.max(FRAME_BYTES) } else { FRAME_BYTES }
}

pub(super) fn packets(spec: &BenchSpec, function: &FunctionNames, table: &Table) -> Result<Vec<Packet>, RouterError> {
    let traffic = SourceSpec { capture: spec.capture.clone(), ..SourceSpec::default() };
    let load = Load::Packets(PacketRate::from_mpps(1.0));
    let mut source = Blueprint::new(&traffic, Some(table))?.source(spec.seed, &load)?;
    let (mut packets, mut packet) = (Vec::with_capacity(spec.packets as usize), Packet::default());
    // Threads copy the payloads that they cut.
    let payloads = function.has(FunctionName::Inspect) || function.has(FunctionName::Fragment);
    while (packets.len() as u64) < spec.packets && source.next(&mut packet) {
        if !payloads {
            packet.data.truncate(FRAME_BYTES);
        }
        packets.push(packet.clone());
    }
    Ok(packets)
}

/// What is to become of each packet, and how many fragments it is to have beside the first.
fn verdicts(program: &RouterProgram, packets: &[Packet]) -> Vec<(Verdict, usize)> {
    let (mut function, mut expected) = (program.function().clone(), Vec::with_capacity(packets.len()));
    for burst in packets.chunks(1024) {
        let (mut burst, mut verdicts, first) = (burst.to_vec(), Vec::new(), expected.len());
        (0..).zip(&mut burst).for_each(|(i, packet)| packet.id = PacketId(i));
        function.process_burst(Ps::ZERO, &mut burst, &mut Null, &mut verdicts);
        expected.extend(verdicts.into_iter().map(|verdict| (verdict, 0)));
        for fragment in function.fragments() {
            expected[first + fragment.id.0 as usize].1 += 1;
        }
    }
    expected
}

/// What points are measured on.
pub(super) struct BenchBed<'a> {
    pub(super) spec: &'a BenchSpec,
    pub(super) gpu: Option<Arc<GpuContext>>,
    cpu: String,
}

impl BenchBed<'_> {
    pub(super) fn new(spec: &BenchSpec, gpu: Option<Arc<GpuContext>>) -> BenchBed<'_> {
        BenchBed { spec, gpu, cpu: cpu_name() }
    }

    /// A part of the GPU.
    fn part(&self, placement: PacketPlacement, way: BenchWay) -> Result<Gpu, RouterError> {
        match &self.gpu {
            Some(gpu) => Gpu::on(gpu, placement, way.warps_per_core),
            None => Err(RouterError::NoGpu { reason: "none was opened".into() }),
        }
    }

    /// A kernel that stays.
    pub(super) fn persistent(
        &self,
        subject: &BenchSubject,
        way: BenchWay,
        slots: u64,
    ) -> Result<Persistent<Gpu>, RouterError> {
        let deadline = Duration::try_from_secs_f64(self.spec.deadline_s).unwrap_or(Duration::from_secs(5));
        let (frame_bytes, commit) = (subject.frame_bytes, way.commit.unwrap_or_default());
        let round = way.round;
        let setup = KernelSetup { slots, frame_bytes, commit, deadline, round, ..KernelSetup::default() };
        let placement = match way.mode {
            BenchMode::Resident => PacketPlacement::Resident,
            _ => PacketPlacement::ZeroCopy,
        };
        Persistent::new(self.part(placement, way)?, &subject.program, setup)
    }

    /// The backend, and of a kernel that stays its warps a core.
    fn backend(
        &self,
        subject: &BenchSubject,
        way: BenchWay,
        batch: u32,
        slots: u64,
    ) -> Result<(Box<dyn Backend>, Option<u32>), RouterError> {
        let (program, frame_bytes) = (&subject.program, subject.frame_bytes);
        let deadline = Duration::try_from_secs_f64(self.spec.deadline_s).unwrap_or(Duration::from_secs(5));
        let commit = way.commit.unwrap_or_default();
        let on = |placement| self.part(placement, way);
        let stays = || -> Result<(Box<dyn Backend>, Option<u32>), RouterError> {
            let kernel = self.persistent(subject, way, slots)?;
            let warps = kernel.machine().warps_per_core(program.is_any());
            Ok((Box::new(kernel), Some(warps)))
        };
        let batches = |mode| -> Result<(Box<dyn Backend>, Option<u32>), RouterError> {
            let gpu = on(PacketPlacement::Resident)?;
            Ok((Box::new(KernelBatch::new(gpu, program, mode, batch, slots, frame_bytes, deadline)?), None))
        };
        let gathered = |lanes| -> Result<(Box<dyn Backend>, Option<u32>), RouterError> {
            let gpu = on(PacketPlacement::Resident)?;
            Ok((Box::new(GatheredBatch::new(gpu, program, lanes, batch, slots, frame_bytes, deadline)?), None))
        };
        match way.mode {
            BenchMode::Cpu => {
                Ok((Box::new(CpuThreads::new(program, way.threads as usize, slots, commit, deadline)?), None))
            }
            BenchMode::ZeroCopy | BenchMode::Resident => stays(),
            BenchMode::Batch => batches(BatchMode::Serial),
            BenchMode::Streams => batches(BatchMode::Streams),
            BenchMode::Graph => batches(BatchMode::Graph),
            BenchMode::BatchGathered | BenchMode::StreamsGathered => gathered(way.threads as usize),
        }
    }

    /// One run; without a rate all packets are there at once.
    pub(super) fn point(
        &self,
        subject: &BenchSubject,
        way: BenchWay,
        batch: u32,
        mpps: Option<f64>,
    ) -> Result<BenchPoint, RouterError> {
        let mut count = subject.packets.len() as u64;
        if way.mode == BenchMode::Graph {
            count = count.min(MOST_GRAPHS * u64::from(batch));
        }
        if let Some(mpps) = mpps {
            let arriving = (mpps * 1e6 * LOAD_SECONDS) as u64;
            count = count.min(arriving.max(FEWEST_OF_A_LOAD).max(4 * u64::from(batch)).next_power_of_two());
        }
        let (mut backend, warps_per_core) = self.backend(subject, way, batch, count.next_power_of_two())?;
        subject.lay_in(&mut *backend, count);
        backend.prepare(count)?;
        let measured = measure(&mut *backend, count, batch, mpps)?;
        backend.stop()?;
        backend.settle(count)?;
        let (mut wrong, mut packet) = (0, Packet::default());
        for (number, expected) in (0..count).zip(&subject.expected) {
            let verdict = backend.take(number, &mut packet)?;
            wrong += u64::from((verdict, backend.fragments().len()) != *expected);
        }
        let delay = measured.delays.summary();
        let gpu = self.gpu.as_ref().filter(|_| way.mode != BenchMode::Cpu).map(|gpu| gpu.offer());
        Ok(BenchPoint {
            function: subject.name.clone(),
            mode: way.mode.name(),
            commit: way.commit,
            warps_per_core,
            threads: way.threads,
            batch,
            offered_mpps: mpps,
            carried_mpps: measured.carried_mpps(),
            sustained: measured.sustained,
            mean_us: delay.map(|d| d.mean_us),
            p50_us: delay.map(|d| d.p50_us),
            p99_us: delay.map(|d| d.p99_us),
            iqr_us: delay.map(|d| d.iqr_us),
            packets: count,
            wrong,
            device: gpu.map_or_else(|| self.cpu.clone(), |gpu| gpu.name.clone()),
            driver: gpu.map(|gpu| gpu.driver_name()),
        })
    }
}

fn cpu_name() -> String {
    let text = std::fs::read_to_string(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let named = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    named.map_or_else(|| std::env::consts::ARCH.into(), |(_, name)| name.trim().into())
}
