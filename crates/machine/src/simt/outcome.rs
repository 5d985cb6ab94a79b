//! What came of a run: who went with whom, when, and what for.

use super::core::Deadlock;
use super::lane::Lanes;
use super::memory::SimtMemoryCounters;
use super::merge::{Code, MergeError, Merger, WARP, WarpOperation, WarpProgram, both};
use crate::MachineError;
use crate::dram::DramCounters;

/// A packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketArrival {
    /// When its last bit is there, clocks; never earlier than the packet before.
    pub at: u64,
    /// Bytes of its frame.
    pub bytes: u32,
    /// Which of the recorded lanes it is.
    pub lane: u32,
}

/// What a packet's delay is made of; the parts sum to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DelayPart {
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

impl DelayPart {
    /// In the order of a packet's way.
    pub const ALL: [DelayPart; 5] =
        [DelayPart::Fill, DelayPart::Queue, DelayPart::CopyIn, DelayPart::Execute, DelayPart::Commit];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            DelayPart::Fill => "fill",
            DelayPart::Queue => "queue",
            DelayPart::CopyIn => "copy_in",
            DelayPart::Execute => "execute",
            DelayPart::Commit => "commit",
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
    /// The parts of the delay of a packet that arrived at `at`, in the order of [`DelayPart::ALL`].
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

/// What a function of a chain has taken, or the only one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberShare {
    /// Warp instructions.
    pub instructions: u64,
    /// Their lanes, summed.
    pub lanes: u64,
    /// Those of them that load or store.
    pub references: u64,
    /// Sectors that these touch.
    pub sectors: u64,
    /// Resident warps that were in it, summed over cores and clocks.
    pub warp_clocks: u64,
}

impl MemberShare {
    /// Lanes that take part in an instruction, of those a warp has.
    pub fn efficiency(&self) -> f64 {
        WarpProgram { from: 0, to: 0, issued: self.instructions, lanes: self.lanes }.efficiency()
    }
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct SimtOutcome {
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
    /// By function of a chain, up to the last that has an instruction: their sums are those of the whole.
    pub members: Vec<MemberShare>,
    /// Of the memory system.
    pub memory: SimtMemoryCounters,
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

impl SimtOutcome {
    /// Lanes that take part in an instruction, of those a warp has: SIMD efficiency.
    pub fn efficiency(&self) -> f64 {
        WarpProgram { from: 0, to: 0, issued: self.instructions, lanes: self.lanes }.efficiency()
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
    /// Of each program what its functions take, with their numbers.
    shares: Vec<Vec<(usize, MemberShare)>>,
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
        let mut shares: Vec<(usize, MemberShare)> = Vec::with_capacity(1);
        for inst in self.code.insts(program) {
            if shares.last().is_none_or(|&(member, _)| member != inst.member()) {
                shares.push((inst.member(), MemberShare::default()));
            }
            let Some((_, share)) = shares.last_mut() else { continue };
            match inst.kind {
                WarpOperation::Alu => share.instructions += u64::from(inst.word),
                _ => share.instructions += 1,
            }
            if matches!(inst.kind, WarpOperation::Load | WarpOperation::Store) {
                share.references += 1;
                share.sectors += self.code.words(inst).iter().map(|&word| 1 + u64::from(both(word))).sum::<u64>();
            }
        }
        for (member, share) in &mut shares {
            // Once: a function has one run of instructions in a program, as sites grow from function to function.
            share.lanes = self.merger.member_lanes().get(*member).copied().unwrap_or(0);
        }
        debug_assert_eq!(self.shares.len(), program as usize);
        self.shares.push(shares);
        Ok(program)
    }

    /// A warp of `program` runs.
    pub(super) fn count(&self, program: u32, outcome: &mut SimtOutcome) {
        let of = self.code.program(program);
        outcome.instructions += of.issued;
        outcome.lanes += of.lanes;
        for &(member, share) in &self.shares[program as usize] {
            if outcome.members.len() <= member {
                outcome.members.resize(member + 1, MemberShare::default());
            }
            let sum = &mut outcome.members[member];
            sum.instructions += share.instructions;
            sum.lanes += share.lanes;
            sum.references += share.references;
            sum.sectors += share.sectors;
        }
    }
}

/// Lanes of a warp of consecutive accepted packets.
pub(super) fn lanes_of(arrivals: &[PacketArrival], accepted: &[u32], into: &mut Vec<u32>) {
    debug_assert!(accepted.len() <= WARP);
    into.clear();
    into.extend(accepted.iter().map(|&n| arrivals[n as usize].lane));
}
