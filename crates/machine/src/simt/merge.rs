//! Lanes become warp instructions: those that stand at the smallest site go, the others wait.
//!
//! Sites grow in program order between latches, so the lanes that lag go first and catch up; a latch at the end of
//! a loop body is where lanes with short and with long bodies meet again. Of the operations at a site, loads go before
//! stores, locks, work and the latch, so that a lane that still loads is not left behind by one that works already.
//!
//! A lane that wants a lock which another lane holds is left out until it is given back; of those that want the same
//! lock, the first gets it. If only such lanes are left, they wait for each other: a deadlock, which is named.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::lane::{LaneOp, Lanes, OF_PACKET, OpKind, SECTOR_BITS};

/// Lanes of a warp.
pub const WARP: usize = 32;
/// Sites of each function of a chain: which multiple an instruction's site is says whose it is.
pub const SITES_A_MEMBER: u16 = 128;
/// Functions of a chain that are told apart.
pub const MEMBERS: usize = 64;

/// What a warp instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum WarpOperation {
    /// `count` instructions without memory.
    Alu,
    /// Loads of sectors.
    Load,
    /// Stores of sectors.
    Store,
    /// Locks are taken.
    Lock,
    /// Locks are given back.
    Unlock,
}

/// A warp instruction, or a run of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inst {
    /// Which lanes take part.
    pub mask: u32,
    /// Instructions of a [`WarpOperation::Alu`]; else where the lines or locks begin.
    pub word: u32,
    /// How many lines or locks.
    pub count: u16,
    /// The place in the function.
    pub site: u16,
    /// What is done.
    pub kind: WarpOperation,
    /// Whether earlier loads of the warp must be back.
    pub waits: bool,
    /// Whether the instruction before is of another function of the chain.
    pub enters: bool,
}

impl Inst {
    /// Which function of a chain it is of: 0 where there is but one.
    #[inline(always)]
    pub fn member(&self) -> usize {
        usize::from(self.site / SITES_A_MEMBER).min(MEMBERS - 1)
    }
}

/// A program: where it lies, and what it comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarpProgram {
    /// Its first instruction.
    pub from: u32,
    /// Behind its last.
    pub to: u32,
    /// Warp instructions, each of a run counted.
    pub issued: u64,
    /// The lanes of each, summed.
    pub lanes: u64,
}

impl WarpProgram {
    /// Lanes that take part in an instruction, of those that a warp has; 1 if there is no instruction.
    pub fn efficiency(&self) -> f64 {
        if self.issued == 0 { 1.0 } else { self.lanes as f64 / (self.issued * WARP as u64) as f64 }
    }
}

/// Programs of warps, and what they touch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Code {
    insts: Vec<Inst>,
    words: Vec<u32>,
    programs: Vec<WarpProgram>,
}

impl Code {
    /// No programs yet.
    pub fn new() -> Code {
        Code::default()
    }

    /// Program `n`; an empty one if there is none.
    pub fn program(&self, n: u32) -> WarpProgram {
        self.programs.get(n as usize).copied().unwrap_or_default()
    }

    /// The instructions of program `n`.
    pub fn insts(&self, n: u32) -> &[Inst] {
        let WarpProgram { from, to, .. } = self.program(n);
        &self.insts[from as usize..to as usize]
    }

    #[inline(always)]
    pub(super) fn inst(&self, at: u32) -> &Inst {
        &self.insts[at as usize]
    }

    /// Lines, each with those of its sectors that are touched, or locks of an instruction, each once. See [`WarpPlacement::line`]
    /// and [`both`].
    #[inline(always)]
    pub fn words(&self, inst: &Inst) -> &[u32] {
        match inst.kind {
            WarpOperation::Alu => &[],
            _ => &self.words[inst.word as usize..inst.word as usize + usize::from(inst.count)],
        }
    }

    /// Takes these instructions of `other`: where they are here.
    pub(super) fn take_from(&mut self, other: &Code, insts: std::ops::Range<u32>) -> (u32, u32) {
        let from = self.insts.len() as u32;
        for inst in &other.insts[insts.start as usize..insts.end as usize] {
            let mut inst = *inst;
            if inst.kind != WarpOperation::Alu {
                let words = other.words(&inst);
                inst.word = self.words.len() as u32;
                self.words.extend_from_slice(words);
            }
            self.insts.push(inst);
        }
        (from, self.insts.len() as u32)
    }

    /// Instructions of all programs, those of a run as one.
    pub fn instructions(&self) -> usize {
        self.insts.len()
    }

    /// Bytes that programs take.
    pub fn bytes(&self) -> usize {
        self.insts.len() * size_of::<Inst>() + self.words.len() * 4 + self.programs.len() * size_of::<WarpProgram>()
    }

    /// Forgets all programs.
    pub fn clear(&mut self) {
        self.insts.clear();
        self.words.clear();
        self.programs.clear();
    }

    /// How many programs there are.
    pub fn len(&self) -> usize {
        self.programs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }
}

/// Where packets of a warp lie: line numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarpPlacement {
    /// The packet buffer's first line.
    pub base: u32,
    /// Lines of a slot.
    pub stride: u32,
    /// Slots of the buffer, behind the last of which comes the first; 0 if none is the last.
    pub slots: u32,
    /// The slot of lane 0.
    pub first: u32,
}

impl WarpPlacement {
    /// The line of a word: of a table it is there already, of a packet it depends on the packet's slot.
    #[inline(always)]
    pub fn line(&self, word: u32) -> u32 {
        // Without a branch, so that many of them are worked out together.
        let slot = self.first + (word >> LANE_SHIFT & (WARP as u32 - 1));
        let around = if slot >= self.slots { self.slots } else { 0 };
        let of_packet = self.base + (slot - around) * self.stride + (word & OFFSET);
        if word & OF_PACKET == 0 { word & TABLE_LINE } else { of_packet }
    }
}

/// Sectors of a packet, and lines of one: 2^20, of which a packet has 2 Ki at most.
pub(super) const LANE_SHIFT: u32 = 20;
const OFFSET: u32 = (1 << LANE_SHIFT) - 1;
const TABLE_LINE: u32 = (1 << SECTOR_BITS) - 1;

/// Whether a word names both sectors of its line, or one.
#[inline(always)]
pub fn both(word: u32) -> bool {
    word >> SECTOR_BITS & 3 == 3
}

/// The words of sectors that are in order.
pub(super) fn words_of(sectors: &[u32], words: &mut Vec<u32>) {
    words.clear();
    for word in sectors.iter().copied().map(word_of) {
        match words.last_mut() {
            Some(last) if (*last ^ word) & !(3 << SECTOR_BITS) == 0 => *last |= word,
            _ => words.push(word),
        }
    }
}

/// The word of a sector's line, with that sector.
#[inline(always)]
fn word_of(sector: u32) -> u32 {
    debug_assert!(sector & OF_PACKET != 0 || sector < 2 << SECTOR_BITS, "sector {sector} is beyond all tables");
    let within = if sector & OF_PACKET == 0 { u32::MAX } else { OFFSET };
    sector & !within | (sector & within) >> 1 | 1 << (SECTOR_BITS + (sector & 1))
}

/// Lanes that cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Lanes wait for each other's locks.
    #[error("lanes {lanes:?} of a warp wait for each other's locks {locks:?}: a deadlock")]
    Deadlock {
        /// Who waits.
        lanes: Vec<usize>,
        /// For which lock, in the same order.
        locks: Vec<u32>,
    },
    /// A lock is given back by a lane that does not hold it.
    #[error("lane {lane} of a warp gives back lock {lock}, which it does not hold")]
    NotHeld {
        /// Who.
        lane: usize,
        /// Which lock.
        lock: u32,
    },
    /// More lanes than a warp has.
    #[error("{0} lanes: a warp has {WARP}")]
    TooMany(usize),
}

/// Merges lanes; keeps its memory from warp to warp.
#[derive(Clone, Debug, Default)]
pub struct Merger {
    sectors: Vec<u32>,
    words: Vec<u32>,
    holders: HashMap<u32, usize>,
    /// Of the latest program: the lanes of its instructions, by the function that these are of.
    lanes: Vec<u64>,
}

/// No operation is left, or it cannot go.
const NONE: u32 = u32::MAX;

/// Site and kind in the order of merging.
#[inline(always)]
fn key(op: &LaneOp) -> u32 {
    u32::from(op.site) << 8 | op.kind as u32
}

impl Merger {
    /// Ready to merge.
    pub fn new() -> Merger {
        Merger::default()
    }

    /// The lanes of the instructions of the latest program, summed by the function of the chain that they are of.
    pub fn member_lanes(&self) -> &[u64] {
        &self.lanes
    }

    /// Merges `wanted` lanes of `lanes` into a program of `code`, whose number is returned.
    ///
    /// # Errors
    /// More than 32 lanes, a deadlock, a lock that is not held.
    pub fn merge(&mut self, lanes: &Lanes, wanted: &[u32], code: &mut Code) -> Result<u32, MergeError> {
        if wanted.len() > WARP {
            return Err(MergeError::TooMany(wanted.len()));
        }
        let (insts, words) = (code.insts.len(), code.words.len());
        let merged = self.merge_into(lanes, wanted, code);
        if merged.is_err() {
            code.insts.truncate(insts);
            code.words.truncate(words);
        }
        merged
    }

    fn merge_into(&mut self, lanes: &Lanes, wanted: &[u32], code: &mut Code) -> Result<u32, MergeError> {
        let mut streams: [&[LaneOp]; WARP] = [&[]; WARP];
        let mut keys = [NONE; WARP];
        for (lane, &number) in wanted.iter().enumerate() {
            streams[lane] = lanes.lane(number as usize);
            keys[lane] = streams[lane].first().map_or(NONE, key);
        }
        self.holders.clear();
        self.lanes.clear();
        let from = code.insts.len() as u32;
        let mut program = WarpProgram { from, to: from, issued: 0, lanes: 0 };
        loop {
            let least = keys.iter().copied().min().unwrap_or(NONE);
            if least == NONE {
                break;
            }
            let mask = keys.iter().enumerate().fold(0u32, |mask, (i, &k)| mask | u32::from(k == least) << i);
            let kind = streams[mask.trailing_zeros() as usize][0].kind;
            let (site, moved) = (
                (least >> 8) as u16,
                match kind {
                    OpKind::Lock => self.take_locks(&streams, &mut keys, mask),
                    _ => mask,
                },
            );
            if moved == 0 {
                // Every lane at this place waits for a lock, and so was left out; another place is least now.
                continue;
            }
            let before = program.lanes;
            match kind {
                OpKind::Latch => {}
                OpKind::Work => {
                    let (mut most, mut sum) = (0, 0u64);
                    each(moved, |i| {
                        most = most.max(streams[i][0].word);
                        sum += u64::from(streams[i][0].word);
                    });
                    program.issued += u64::from(most);
                    program.lanes += sum;
                    code.insts.push(Inst {
                        mask: moved,
                        word: most,
                        count: 0,
                        site,
                        kind: WarpOperation::Alu,
                        waits: true,
                        enters: false,
                    });
                }
                OpKind::Load | OpKind::Store => {
                    let waits = self.gather(&streams, moved);
                    let kind = if kind == OpKind::Load { WarpOperation::Load } else { WarpOperation::Store };
                    let inst = Inst { mask: moved, word: 0, count: 0, site, kind, waits, enters: false };
                    push(code, &mut program, &self.words, inst);
                }
                OpKind::Lock | OpKind::Unlock => {
                    self.words.clear();
                    each(moved, |i| self.words.push(streams[i][0].word));
                    if kind == OpKind::Unlock {
                        self.give_locks(&streams, &mut keys, moved)?;
                    }
                    let kind = if kind == OpKind::Lock { WarpOperation::Lock } else { WarpOperation::Unlock };
                    let inst = Inst { mask: moved, word: 0, count: 0, site, kind, waits: true, enters: false };
                    push(code, &mut program, &self.words, inst);
                }
            }
            let member = usize::from(site / SITES_A_MEMBER).min(MEMBERS - 1);
            if self.lanes.len() <= member {
                self.lanes.resize(member + 1, 0);
            }
            self.lanes[member] += program.lanes - before;
            each(moved, |i| {
                streams[i] = &streams[i][1..];
                keys[i] = streams[i].first().map_or(NONE, key);
            });
        }
        if streams.iter().any(|stream| !stream.is_empty()) {
            return Err(self.deadlock(&streams));
        }
        program.to = code.insts.len() as u32;
        let insts = &mut code.insts[from as usize..];
        for i in 1..insts.len() {
            insts[i].enters = insts[i].member() != insts[i - 1].member();
        }
        code.programs.push(program);
        Ok(code.programs.len() as u32 - 1)
    }

    /// The lines and their sectors that lanes touch, in order; says whether one of their addresses came from a load.
    fn gather(&mut self, streams: &[&[LaneOp]; WARP], mask: u32) -> bool {
        self.sectors.clear();
        let mut waits = false;
        each(mask, |i| {
            let op = &streams[i][0];
            waits |= op.depends;
            let lane = if op.word & OF_PACKET == 0 { 0 } else { (i as u32) << LANE_SHIFT };
            self.sectors.extend((0..u32::from(op.sectors)).map(|n| (op.word + n) | lane));
        });
        self.sectors.sort_unstable();
        words_of(&self.sectors, &mut self.words);
        waits
    }

    /// Of the lanes at a lock, those that get theirs; the others are left out until it is given back.
    fn take_locks(&mut self, streams: &[&[LaneOp]; WARP], keys: &mut [u32; WARP], mask: u32) -> u32 {
        let mut got = 0;
        each(mask, |i| {
            if *self.holders.entry(streams[i][0].word).or_insert(i) == i {
                got |= 1 << i;
            } else {
                keys[i] = NONE;
            }
        });
        got
    }

    fn give_locks(&mut self, streams: &[&[LaneOp]; WARP], keys: &mut [u32; WARP], mask: u32) -> Result<(), MergeError> {
        let mut wrong = None;
        each(mask, |i| {
            let lock = streams[i][0].word;
            if self.holders.get(&lock) == Some(&i) {
                self.holders.remove(&lock);
            } else {
                wrong = Some(MergeError::NotHeld { lane: i, lock });
            }
        });
        // Who was left out may try again.
        for (key_of, stream) in keys.iter_mut().zip(streams) {
            if let (NONE, Some(op)) = (*key_of, stream.first()) {
                *key_of = key(op);
            }
        }
        wrong.map_or(Ok(()), Err)
    }

    fn deadlock(&self, streams: &[&[LaneOp]; WARP]) -> MergeError {
        let waiting = streams.iter().enumerate().filter_map(|(i, stream)| Some((i, stream.first()?.word)));
        let (lanes, locks) = waiting.unzip();
        MergeError::Deadlock { lanes, locks }
    }
}

fn push(code: &mut Code, program: &mut WarpProgram, words: &[u32], inst: Inst) {
    program.issued += 1;
    program.lanes += u64::from(inst.mask.count_ones());
    debug_assert!(words.len() <= usize::from(u16::MAX), "32 lanes of 64 KiB each have half as many lines");
    code.insts.push(Inst { word: code.words.len() as u32, count: words.len() as u16, ..inst });
    code.words.extend_from_slice(words);
}

#[inline(always)]
fn each(mut mask: u32, mut f: impl FnMut(usize)) {
    while mask != 0 {
        f(mask.trailing_zeros() as usize);
        mask &= mask - 1;
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
