//! The copy table with real bytes: what moves is moved, so a mistake can be read.

use units::{CoreId, Line};

use super::instruction::CopyPiece;
use super::moves::{DataSource, Fault, Move, Moves};
use super::spec::{CopyInstruction, CopySystemSpec};
use super::system::CopySystem;
use crate::MachineError;

/// The copy table with real bytes: what it says has moved is moved, and nothing else, so whatever it
/// gets wrong can be read.
///
/// Addresses are below the memory's size; what a CPU reads or writes is within one line of an L1, what a device does within
/// one of the shared cache, copies are not. For tests and small experiments: each cache has room for all of memory.
#[derive(Clone, Debug)]
pub struct Functional {
    system: CopySystem,
    instruction: CopyInstruction,
    line: usize,
    /// Bytes of a line of an L1.
    part: usize,
    memory: Vec<u8>,
    shared: Vec<u8>,
    l1: Vec<Vec<u8>>,
    moves: Moves,
    fault: Fault,
    /// Lines that were copied by the table.
    pub by_table: u64,
    /// Reads that were answered by the table.
    pub table_hits: u64,
}

/// What a cache is full of where it has no line: a stale byte is seen, a missing one too.
const JUNK: u8 = 0xDB;

impl Functional {
    /// A system over `memory`, whose length is a multiple of the line.
    ///
    /// # Errors
    /// What is wrong in `spec`, and a length that is no multiple of the line.
    pub fn new(spec: &CopySystemSpec, memory: Vec<u8>) -> Result<Functional, MachineError> {
        Functional::with_fault(spec, memory, Fault::None)
    }

    /// A system that leaves out a rule, for tests.
    ///
    /// # Errors
    /// As [`Functional::new`].
    pub fn with_fault(spec: &CopySystemSpec, memory: Vec<u8>, fault: Fault) -> Result<Functional, MachineError> {
        let system = CopySystem::with_fault(spec, fault)?;
        let line = spec.line as usize;
        if !memory.len().is_multiple_of(line) {
            let remedy = format!("give {} bytes", memory.len().next_multiple_of(line));
            return Err(MachineError::new("memory", memory.len().to_string(), format!("a multiple of {line}"), remedy));
        }
        let junk = vec![JUNK; memory.len()];
        let l1 = if spec.l1.is_some() { vec![junk.clone(); spec.cpus as usize] } else { Vec::new() };
        let instruction = spec.instruction;
        let moves = Moves::new();
        let part = spec.l1_line() as usize;
        let (shared, by_table, table_hits) = (junk, 0, 0);
        Ok(Functional { system, instruction, line, part, memory, shared, l1, moves, fault, by_table, table_hits })
    }

    /// The state of caches and table.
    pub fn system(&self) -> &CopySystem {
        &self.system
    }

    /// `core` reads the bytes at `addr`.
    pub fn read(&mut self, core: CoreId, addr: usize, bytes: usize) -> &[u8] {
        let line = self.part_of(addr);
        let source = self.system.read(core, line, &mut self.moves);
        self.apply();
        let here = addr..addr + bytes;
        if let Some(l1) = self.l1.get(core.0 as usize) {
            self.table_hits += u64::from(matches!(source, DataSource::Table { .. }));
            return &l1[here];
        }
        match source {
            DataSource::Table { src } => {
                self.table_hits += 1;
                let at = src.0 as usize * self.line + addr % self.line;
                &self.shared[at..at + bytes]
            }
            _ => &self.shared[here],
        }
    }

    /// `core` writes `data` at `addr`.
    pub fn write(&mut self, core: CoreId, addr: usize, data: &[u8]) {
        let written = self.system.write(core, self.part_of(addr), &mut self.moves);
        self.apply();
        let here = addr..addr + data.len();
        if written.l1 {
            self.l1[core.0 as usize][here.clone()].copy_from_slice(data);
        }
        if written.shared {
            self.shared[here].copy_from_slice(data);
        }
    }

    /// `core` copies `bytes` bytes by the copy instruction, with the semantics of memmove.
    pub fn copy(&mut self, core: CoreId, src: usize, dst: usize, bytes: usize) {
        let mut plan = self.instruction.plan(src as u64, dst as u64, bytes as u64, self.line as u64);
        if self.fault == Fault::AlwaysUpwards {
            plan = plan.upwards();
        }
        if self.fault == Fault::SkipAlignmentCheck {
            plan = plan.unaligned();
        }
        let mut register = [0; MOST_LINE];
        for piece in plan {
            match piece {
                CopyPiece::Line { src, dst } if self.system.copy(Line(src), Line(dst), &mut self.moves) => {
                    self.by_table += 1;
                    self.apply();
                }
                CopyPiece::Line { src, dst } => {
                    let (line, bytes) = (self.line as u64, self.line);
                    self.move_piece(core, (src * line) as usize, (dst * line) as usize, &mut register[..bytes]);
                }
                CopyPiece::Software { src, dst, bytes } => {
                    self.move_piece(core, src as usize, dst as usize, &mut register[..bytes as usize]);
                }
            }
        }
    }

    /// A device writes `data` at `addr`; with `placed`, whole lines go into the shared cache.
    pub fn device_write(&mut self, addr: usize, data: &[u8], placed: bool) {
        let line = self.line_of(addr);
        let whole = data.len() == self.line;
        let here = addr..addr + data.len();
        if placed && whole {
            self.system.place(line, &mut self.moves);
            self.apply();
            self.shared[here].copy_from_slice(data);
        } else {
            self.system.before_memory_write(line, whole, &mut self.moves);
            self.apply();
            self.memory[here].copy_from_slice(data);
        }
    }

    /// A device reads the bytes at `addr`.
    pub fn device_read(&mut self, addr: usize, bytes: usize) -> &[u8] {
        self.system.before_memory_read(self.line_of(addr), &mut self.moves);
        self.apply();
        &self.memory[addr..addr + bytes]
    }

    fn move_piece(&mut self, core: CoreId, src: usize, dst: usize, register: &mut [u8]) {
        // All is loaded before any is stored, a line of an L1 at a time.
        let pieces = |at: usize, bytes: usize, part: usize| {
            let mut done = 0;
            std::iter::from_fn(move || {
                let from = done;
                done = bytes.min(from + part - (at + from) % part);
                (from < bytes).then_some(from..done)
            })
        };
        for piece in pieces(src, register.len(), self.part) {
            let loaded = self.read(core, src + piece.start, piece.len());
            register[piece].copy_from_slice(loaded);
        }
        for piece in pieces(dst, register.len(), self.part) {
            self.write(core, dst + piece.start, &register[piece]);
        }
    }

    fn part_of(&self, addr: usize) -> Line {
        Line((addr / self.part) as u64)
    }

    fn line_of(&self, addr: usize) -> Line {
        Line((addr / self.line) as u64)
    }

    fn apply(&mut self) {
        let n = self.line;
        let part = self.part;
        let at = |line: Line| line.0 as usize * n..(line.0 as usize + 1) * n;
        let here = |line: Line| line.0 as usize * part..(line.0 as usize + 1) * part;
        for moved in self.moves.drain(..) {
            match moved {
                Move::Fill(line) => self.shared[at(line)].copy_from_slice(&self.memory[at(line)]),
                Move::WriteBack(line) => self.memory[at(line)].copy_from_slice(&self.shared[at(line)]),
                Move::Settle { src, dst } => self.memory[at(dst)].copy_from_slice(&self.shared[at(src)]),
                Move::Drop(line) => self.shared[at(line)].fill(JUNK),
                Move::Search { .. } => {}
                Move::L1Fill { core, from, line } => {
                    self.l1[core.0 as usize][here(line)].copy_from_slice(&self.shared[here(from)]);
                }
                Move::L1WriteBack { core, line } => {
                    self.shared[here(line)].copy_from_slice(&self.l1[core.0 as usize][here(line)]);
                }
                Move::L1Drop { core, line } => self.l1[core.0 as usize][here(line)].fill(JUNK),
            }
        }
    }
}

/// The longest line a [`CopySystemSpec`] allows.
const MOST_LINE: usize = 128;
