//! The system that Hermes is compared with: batches over PCIe.
//!
//! The CPU collects packets until a batch is full, copies it to the GPU, a kernel runs over it in blocks of warps, and the
//! results are copied back; then all of its packets are handed on. The paper adds up three times, waiting, transfer and
//! computation: read to the letter, the next batch is collected only once the one before is back. With one stream it is
//! collected meanwhile; with three, copies in both directions and kernels overlap too, and a batch waits for the buffer of
//! the batch three before it. A block holds its core's slots until its last warp is complete. The last batch goes
//! when no more packets come, however many it has.
//!
//! **Source**: Zhu, Deng, Chen, DAC 2011, sections 2.3 and 4; Mu et al., "IP routing processing with graphic
//! processors", DATE 2010.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{LINE_BYTES, Rate, Span};

use super::core::Shaders;
use super::hermes::PacketBufferSpec;
use super::lane::Lanes;
use super::merge::{WARP, WarpPlacement};
use super::outcome::{PacketArrival, Programs, SimtError, SimtOutcome, WarpRecord, lanes_of};
use super::spec::{KernelSpec, SimtSpec};
use crate::MachineError;

/// How far copies and kernels overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Collecting, copy, kernel, copy, one after the other: the time a batch's packets take to arrive counts from when
    /// the batch before is back.
    Nothing,
    /// Copy, kernel, copy, one after the other, while the next batch is collected.
    #[default]
    Serial,
    /// Three batches at a time: one comes, one is processed, one goes back.
    ThreeStreams,
}

impl Overlap {
    const fn streams(self) -> usize {
        match self {
            Overlap::Nothing | Overlap::Serial => 1,
            Overlap::ThreeStreams => 3,
        }
    }
}

/// What goes back over PCIe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Results {
    /// The frames, as they were processed.
    #[default]
    Frames,
    /// Four bytes a packet.
    Verdicts,
}

/// Batches over PCIe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchSpec {
    /// Packets of a batch.
    pub packets: u32,
    /// Warps of a block.
    pub block: u32,
    /// The link's rate, each way.
    pub link: Rate,
    /// What a copy takes beside its bytes.
    pub copy: Span,
    /// What a kernel takes to start.
    pub launch: Span,
    /// One after the other, or in three streams.
    pub overlap: Overlap,
    /// What goes back.
    pub results: Results,
    /// Where the CPU keeps packets; the NIC's traffic is on the CPU's memory, and counts for nothing here.
    pub buffer: PacketBufferSpec,
}

impl BatchSpec {
    fn check(&self) -> Result<(), MachineError> {
        let range = |field: &str, came: u32, high: u32, remedy: &str| match came {
            0 => Err(MachineError::new(format!("batch.{field}"), "0", format!("1 to {high}"), remedy.into())),
            n if n > high => {
                Err(MachineError::new(format!("batch.{field}"), n.to_string(), format!("1 to {high}"), remedy.into()))
            }
            _ => Ok(()),
        };
        range("packets", self.packets, 1 << 22, "32 to 8192 are usual")?;
        range("block", self.block, 64, "8 warps are 256 threads")?;
        if self.link.time_for(1 << 20).0 == 0 || self.link.gbps() <= 0.0 {
            let remedy = "8 GB/s are 64 Gbps".into();
            return Err(MachineError::new("batch.link", self.link.to_string(), "a rate above 0", remedy));
        }
        Ok(())
    }
}

/// What overlapping batches share.
#[derive(Debug, Default)]
struct Engines {
    /// When the copy in, the kernel and the copy back of the latest batch were over.
    copy_in: u64,
    kernel: u64,
    copy_back: u64,
    /// When each batch was back.
    backs: Vec<u64>,
}

struct BatchRun<'a> {
    spec: &'a BatchSpec,
    arrivals: &'a [PacketArrival],
    lanes: &'a Lanes,
    shaders: Shaders,
    programs: Programs,
    layout: WarpPlacement,
    period: u64,
    block: u32,
    engines: Engines,
    outcome: SimtOutcome,
    buffered: u32,
    /// Batches whose packets are still in the buffer: from here on.
    held: usize,
}

/// Runs batches on `arrivals`; see [`super::hermes::run`] for the arguments.
///
/// # Errors
/// As there.
pub fn run(
    gpu: &SimtSpec,
    spec: &BatchSpec,
    kernel: &KernelSpec,
    lanes: &Lanes,
    tables: u32,
    arrivals: &[PacketArrival],
    go_on: &mut dyn FnMut() -> bool,
) -> Result<SimtOutcome, SimtError> {
    spec.check()?;
    let resident = gpu.resident(kernel)?;
    let layout = spec.buffer.layout(tables)?;
    let mut run = BatchRun {
        spec,
        arrivals,
        lanes,
        shaders: Shaders::new(gpu, resident)?,
        programs: Programs::default(),
        layout,
        period: gpu.frequency.period().0,
        block: spec.block.min(resident),
        engines: Engines::default(),
        outcome: SimtOutcome { resident, ..SimtOutcome::default() },
        buffered: 0,
        held: 0,
    };
    let mut first = 0;
    for (number, packet) in arrivals.iter().enumerate() {
        run.free(packet.at);
        if run.buffered >= layout.slots {
            run.outcome.lost.push(number as u32);
            continue;
        }
        run.outcome.accepted.push(number as u32);
        run.buffered += 1;
        run.outcome.most_buffered = run.outcome.most_buffered.max(run.buffered);
        let end = run.outcome.accepted.len() as u32;
        if end - first == spec.packets.min(layout.slots) {
            run.batch(first, end, packet.at, go_on)?;
            first = end;
        }
    }
    let end = run.outcome.accepted.len() as u32;
    if end > first {
        let last = arrivals.last().map_or(0, |a| a.at);
        run.outcome.partial += 1;
        run.batch(first, end, last, go_on)?;
    }
    let mut outcome = run.outcome;
    outcome.warp_clocks = run.shaders.warp_clocks(outcome.end);
    for (member, &clocks) in outcome.members.iter_mut().zip(run.shaders.member_clocks()) {
        member.warp_clocks = clocks;
    }
    outcome.issued = run.shaders.issued();
    outcome.memory = run.shaders.memory().counters();
    run.shaders.memory_mut().settle(outcome.end);
    outcome.dram = run.shaders.memory().dram();
    Ok(outcome)
}

impl BatchRun<'_> {
    /// Packets that were handed on by `now` are in the buffer no more.
    fn free(&mut self, now: u64) {
        while let Some(batch) = self.outcome.warps.get(self.held).filter(|batch| batch.committed <= now) {
            self.buffered -= batch.count;
            self.held += 1;
        }
    }

    fn clocks(&self, span: Span) -> u64 {
        span.ps().0.div_ceil(self.period)
    }

    /// What a copy of `bytes` bytes takes.
    fn transfer(&self, bytes: u64) -> u64 {
        self.clocks(self.spec.copy) + self.spec.link.time_for(bytes).0.div_ceil(self.period)
    }

    fn batch(&mut self, first: u32, end: u32, filled: u64, go_on: &mut dyn FnMut() -> bool) -> Result<(), SimtError> {
        let packets = &self.outcome.accepted[first as usize..end as usize];
        let bytes: u64 = packets.iter().map(|&n| u64::from(self.arrivals[n as usize].bytes)).sum();
        let back = match self.spec.results {
            Results::Frames => bytes,
            Results::Verdicts => u64::from(end - first) * 4,
        };
        // The buffer on the GPU is that of the batch so many before.
        let streams = self.spec.overlap.streams();
        let place = self.engines.backs.len();
        let buffer_free = place.checked_sub(streams).map_or(0, |before| self.engines.backs[before]);
        let collecting = match self.spec.overlap {
            Overlap::Nothing => filled - self.arrivals[packets.first().map_or(0, |&n| n as usize)].at,
            _ => 0,
        };
        let started = filled.max(self.engines.copy_in).max(buffer_free + collecting);
        let copied = started + self.transfer(bytes);
        self.engines.copy_in = copied;
        let begun = copied.max(self.engines.kernel) + self.clocks(self.spec.launch);
        let finished = self.kernel(first, end, begun, go_on)?;
        self.outcome.busy_clocks += finished - begun;
        self.engines.kernel = finished;
        let committed = finished.max(self.engines.copy_back) + self.transfer(back);
        self.engines.copy_back = committed;
        self.engines.backs.push(committed);
        let record = WarpRecord { first, count: end - first, filled, started, copied, finished, committed };
        self.outcome.warps.push(record);
        self.outcome.end = self.outcome.end.max(committed);
        Ok(())
    }

    /// Runs a batch's warps in blocks; when the last is complete.
    fn kernel(&mut self, first: u32, end: u32, begun: u64, go_on: &mut dyn FnMut() -> bool) -> Result<u64, SimtError> {
        for n in first..end {
            let bytes = self.arrivals[self.outcome.accepted[n as usize] as usize].bytes;
            let slot = self.layout.base + n % self.layout.slots * self.layout.stride;
            let count = bytes.div_ceil(LINE_BYTES as u32).min(self.layout.stride);
            self.shaders.memory_mut().device(slot, count, true, begun);
        }
        let mut blocks: Vec<(u32, Vec<(u32, u32)>)> = Vec::new();
        let (mut next, mut now, mut done, mut turn, mut rounds) = (first, begun, Vec::new(), 0, 0u32);
        let (mut running, mut wanted) = (0u32, Vec::with_capacity(WARP));
        loop {
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(1 << 18) && !go_on() {
                return Err(SimtError::Stopped);
            }
            if self.shaders.next() <= now {
                self.shaders.step(now, &self.programs.code, &mut done)?;
                for finished in done.drain(..) {
                    running -= 1;
                    let (left, slots) = &mut blocks[finished.tag as usize];
                    *left -= 1;
                    slots.push((finished.core, finished.slot));
                    if *left == 0 {
                        slots.drain(..).for_each(|(core, slot)| self.shaders.release(core, slot, now));
                    }
                }
            }
            let cores = self.shaders.cores();
            let mut idle = 0;
            while next < end && idle < cores {
                let warps = (end - next).div_ceil(WARP as u32).min(self.block);
                if self.shaders.free(turn) < warps {
                    (turn, idle) = ((turn + 1) % cores, idle + 1);
                    continue;
                }
                idle = 0;
                let tag = blocks.len() as u32;
                blocks.push((warps, Vec::with_capacity(warps as usize)));
                for _ in 0..warps {
                    let to = (next + WARP as u32).min(end);
                    lanes_of(self.arrivals, &self.outcome.accepted[next as usize..to as usize], &mut wanted);
                    let program = self.programs.of(self.lanes, &wanted)?;
                    self.programs.count(program, &mut self.outcome);
                    let at = WarpPlacement { first: next % self.layout.slots, ..self.layout };
                    self.shaders.launch(turn, program, at, tag, &self.programs.code, now);
                    running += 1;
                    next = to;
                }
                turn = (turn + 1) % cores;
            }
            if running == 0 && next == end {
                return Ok(now);
            }
            now = self.shaders.next();
        }
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
