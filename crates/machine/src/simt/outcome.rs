//! What came of a run: who went with whom, when, and what for.

use super::core::Deadlock;
use super::lane::Lanes;
use super::memory::MemoryCounters;
use super::merge::{Code, MergeError, Merger, Program, WARP};
use crate::MachineError;
use crate::dram::DramCounters;

/// A packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When its last bit is there, clocks; never earlier than the packet before.
    pub at: u64,
    /// Bytes of its frame.
    pub bytes: u32,
    /// Which of the recorded lanes it is.
    pub lane: u32,
}

/// What a packet's delay is made of; the parts sum to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Until enough packets are there for a warp or a batch, or time is up.
    Fill,
    /// Until a core has room (and the DCQ an entry), or until the batch before is out of the way.
    Queue,
    /// The copy to the GPU.
    CopyIn,
    /// Until the warp is complete; of a batch, until its last warp is.
    Execute,
    /// In the DCQ until those before have finished; or the copy back.
    Commit,
}

impl Part {
    /// In the order of a packet's way.
    pub const ALL: [Part; 5] = [Part::Fill, Part::Queue, Part::CopyIn, Part::Execute, Part::Commit];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Fill => "fill",
            Part::Queue => "queue",
            Part::CopyIn => "copy_in",
            Part::Execute => "execute",
            Part::Commit => "commit",
        }
    }
}

/// Packets that went together: a warp, or a batch. Times are clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpRecord {
    /// The first of them, in the order of acceptance.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// When enough were there.
    pub filled: u64,
    /// When it was their turn.
    pub started: u64,
    /// When they were in the GPU's memory.
    pub copied: u64,
    /// When all were processed.
    pub finished: u64,
    /// When they were handed on.
    pub committed: u64,
}

impl WarpRecord {
    /// The parts of the delay of a packet that arrived at `at`, in the order of [`Part::ALL`].
    pub fn parts(&self, at: u64) -> [u64; 5] {
        [
            self.filled - at,
            self.started - self.filled,
            self.copied - self.started,
            self.finished - self.copied,
            self.committed - self.finished,
        ]
    }
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Arrivals that were accepted, by number; the others found the packet buffer full.
    pub accepted: Vec<u32>,
    /// In the order in which they were handed on.
    pub warps: Vec<WarpRecord>,
    /// Arrivals that were lost.
    pub lost: Vec<u32>,
    /// When the last was handed on.
    pub end: u64,
    /// Warp instructions of all programs that ran.
    pub instructions: u64,
    /// Their lanes, summed.
    pub lanes: u64,
    /// Issue slots used, waiting for locks included.
    pub issued: u64,
    /// Resident warps summed over cores and clocks.
    pub warp_clocks: u64,
    /// Clocks in which a warp was resident anywhere.
    pub busy_clocks: u64,
    /// Warps a core can hold.
    pub resident: u32,
    /// Of the memory system.
    pub memory: MemoryCounters,
    /// Of the DRAM.
    pub dram: DramCounters,
    /// Packets in the buffer at most.
    pub most_buffered: u32,
    /// Entries of the task FIFO in use at most.
    pub most_posted: u32,
    /// Entries of the DCQ in use at most.
    pub most_uncommitted: u32,
    /// Groups that went with less than a full warp because time was up.
    pub partial: u64,
}

impl Outcome {
    /// Lanes that take part in an instruction, of those a warp has: SIMD efficiency.
    pub fn efficiency(&self) -> f64 {
        Program { from: 0, to: 0, issued: self.instructions, lanes: self.lanes }.efficiency()
    }
}

/// A run that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimtError {
    /// The machine cannot be built.
    #[error("{0}")]
    Machine(#[from] MachineError),
    /// Lanes of a warp cannot be merged.
    #[error("{0}")]
    Merge(#[from] MergeError),
    /// Warps wait for each other.
    #[error("{0}")]
    Deadlock(#[from] Deadlock),
    /// It was told to stop.
    #[error("stopped")]
    Stopped,
}

/// Programs of warps that were merged before: those of consecutive lanes are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Programs {
    pub(super) code: Code,
    merger: Merger,
    known: std::collections::HashMap<(u32, u32), u32>,
}

/// Programs may take 2 GiB.
const MOST_BYTES: usize = 2 << 30;

impl Programs {
    /// The program of a warp of these lanes.
    pub(super) fn of(&mut self, lanes: &Lanes, wanted: &[u32]) -> Result<u32, SimtError> {
        let key = match wanted.first() {
            Some(&first) if wanted.iter().enumerate().all(|(i, &lane)| lane == first + i as u32) => {
                Some((first, wanted.len() as u32))
            }
            _ => None,
        };
        if let Some(known) = key.and_then(|key| self.known.get(&key)) {
            return Ok(*known);
        }
        if self.code.bytes() > MOST_BYTES {
            let remedy = "take fewer packets, or avoid losses: warps of lanes in order are kept once".into();
            let came = format!("{} programs of {} B", self.code.len(), self.code.bytes());
            return Err(MachineError::new("programs", came, "2 GiB", remedy).into());
        }
        let program = self.merger.merge(lanes, wanted, &mut self.code)?;
        if let Some(key) = key {
            self.known.insert(key, program);
        }
        Ok(program)
    }
}

/// Lanes of a warp of consecutive accepted packets.
pub(super) fn lanes_of(arrivals: &[Arrival], accepted: &[u32], into: &mut Vec<u32>) {
    debug_assert!(accepted.len() <= WARP);
    into.clear();
    into.extend(accepted.iter().map(|&n| arrivals[n as usize].lane));
}
