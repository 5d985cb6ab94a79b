//! The timing shell of a system with a copy table.

use std::collections::VecDeque;

use probe::{Access, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Path, Reason};
use units::{Addr, CoreId, Frequency, Line, Ps};

use super::instruction::CopyPiece;
use super::moves::{DataSource, Move, Steps};
use super::spec::{CopyInstruction, CopySystemSpec};
use super::system::CopySystem;
use crate::{MachineError, Response, Served};

/// How the entries of a congruence class are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EntrySearch {
    /// One entry after the other, each in the time of a fill or hit.
    Sequential,
    /// All at once, by a content-addressable memory.
    Cam,
}

/// What the steps of a [`CopySystem`] cost, in CPU clocks. The default is table 2 of the paper; what it
/// does not give is marked assumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CopyCosts {
    /// CPU clock.
    pub clock: Frequency,
    /// L1 hit.
    pub l1: u32,
    /// Shared cache hit.
    pub shared: u32,
    /// Memory access.
    pub memory: u32,
    /// Memory bus per line: the next access waits for it. Assumed 80: 128 B over 3.2 GB/s (DDR2-400).
    pub transfer: u32,
    /// Filling an entry.
    pub fill: u32,
    /// Reading by an entry, on top of an L1 hit.
    pub hit: u32,
    /// Finding that a written line is a source or a target.
    pub touch: u32,
    /// How a class is searched for a free entry. The paper fills sequentially.
    pub fill_search: EntrySearch,
    /// How a class is searched for a target. The paper has a CAM.
    pub hit_search: EntrySearch,
    /// Writing a line to memory, as the CPU sees it: table 2 has the L2's access time, 240 is that of
    /// memory.
    pub write_back: u32,
    /// Lines and stores that may be on their way to memory or to the shared cache without the CPU
    /// waiting. Assumed 8; 0 for none.
    pub write_buffer: u32,
}

impl Default for CopyCosts {
    fn default() -> CopyCosts {
        CopyCosts {
            clock: Frequency::from_ghz(2.0),
            l1: 2,
            shared: 15,
            memory: 240,
            transfer: 80,
            fill: 2,
            hit: 2,
            touch: 2,
            fill_search: EntrySearch::Sequential,
            hit_search: EntrySearch::Cam,
            write_back: 15,
            write_buffer: 8,
        }
    }
}

/// What has happened at a [`CopyLevel`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CopyCounts {
    /// Loads.
    pub loads: u64,
    /// Loads that hit L1, or the shared cache where there is none.
    pub load_hits: u64,
    /// Stores.
    pub stores: u64,
    /// Stores that hit likewise.
    pub store_hits: u64,
    /// Loads served by the table.
    pub table_hits: u64,
    /// Loads served by another CPU's L1.
    pub snoops: u64,
    /// Lines copied by the table.
    pub lines_by_table: u64,
    /// Lines from memory.
    pub fills: u64,
    /// Dirty lines to memory.
    pub write_backs: u64,
    /// Copied lines to memory.
    pub settled: u64,
    /// Writes that settled a line as its source or target.
    pub touched: u64,
}

/// The timing shell of a [`CopySystem`]: answers in order, with a memory bus and a write buffer as
/// busy-until resources.
///
/// The CPU is held for all that a step costs but for what the write buffer takes. Left out: the bus
/// between L1s, whose cost is the shared cache's; banks and rows of DRAM; bus time of devices.
#[derive(Clone, Debug)]
pub struct CopyLevel {
    system: CopySystem,
    line: u64,
    /// Lines are powers of two.
    shift: u32,
    /// Likewise of an L1.
    l1_shift: u32,
    instruction: CopyInstruction,
    costs: CopyClocks,
    due: Vec<Due>,
    /// When the memory bus is free.
    bus_free: Ps,
    /// When the entries of the write buffer leave.
    buffer: VecDeque<Ps>,
    /// What has happened.
    pub counts: CopyCounts,
}

/// [`CopyCosts`] in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyClocks {
    pub clock: Ps,
    pub l1: Ps,
    pub shared: Ps,
    pub memory: Ps,
    pub transfer: Ps,
    fill: Ps,
    hit: Ps,
    touch: Ps,
    fill_search: EntrySearch,
    hit_search: EntrySearch,
    write_back: Ps,
    buffer: usize,
}

/// A step that costs time: a [`Move`] without its lines.
#[derive(Clone, Copy, Debug)]
enum Due {
    Fill,
    WriteBack,
    Settle,
    Search { place: u32 },
    L1WriteBack,
}

impl Steps for Vec<Due> {
    #[inline(always)]
    fn push(&mut self, step: Move) {
        let due = match step {
            Move::Fill(_) => Due::Fill,
            Move::WriteBack(_) => Due::WriteBack,
            Move::Settle { .. } => Due::Settle,
            Move::Search { place } => Due::Search { place },
            Move::L1WriteBack { .. } => Due::L1WriteBack,
            Move::Drop(_) | Move::L1Fill { .. } | Move::L1Drop { .. } => return,
        };
        Vec::push(self, due);
    }
}

/// What an access was spent on: a [`Path`], or nothing where only its end is asked for.
trait CopyAccount: Default {
    fn push(&mut self, reason: Reason, time: Ps);
}

impl CopyAccount for Path {
    #[inline]
    fn push(&mut self, reason: Reason, time: Ps) {
        Path::push(self, reason, time);
    }
}

impl CopyAccount for () {
    #[inline(always)]
    fn push(&mut self, _: Reason, _: Ps) {}
}

/// How far an access is, and what it was spent on so far.
struct Spent<A> {
    at: Ps,
    account: A,
}

impl<A: CopyAccount> Spent<A> {
    #[inline(always)]
    fn new(now: Ps) -> Spent<A> {
        Spent { at: now, account: A::default() }
    }
    #[inline(always)]
    fn push(&mut self, reason: Reason, time: Ps) {
        self.account.push(reason, time);
        self.at += time;
    }
    #[inline(always)]
    fn wait_until(&mut self, reason: Reason, until: Ps) {
        if until > self.at {
            self.push(reason, until.since(self.at));
        }
    }
}

impl CopyLevel {
    /// An empty system.
    ///
    /// # Errors
    /// What is wrong in `spec`.
    pub fn new(spec: &CopySystemSpec, costs: &CopyCosts) -> Result<CopyLevel, MachineError> {
        let clock = costs.clock.period();
        let of = |clocks: u32| Ps(clock.0 * u64::from(clocks));
        let costs = CopyClocks {
            clock,
            l1: of(costs.l1),
            shared: of(costs.shared),
            memory: of(costs.memory),
            transfer: of(costs.transfer),
            fill: of(costs.fill),
            hit: of(costs.hit),
            touch: of(costs.touch),
            fill_search: costs.fill_search,
            hit_search: costs.hit_search,
            write_back: of(costs.write_back),
            buffer: costs.write_buffer as usize,
        };
        Ok(CopyLevel {
            system: CopySystem::new(spec)?,
            line: u64::from(spec.line),
            shift: spec.line.trailing_zeros(),
            l1_shift: spec.l1_line().trailing_zeros(),
            instruction: spec.instruction,
            costs,
            due: Vec::new(),
            bus_free: Ps::ZERO,
            buffer: VecDeque::with_capacity(costs.buffer),
            counts: CopyCounts::default(),
        })
    }

    /// The state of caches and table.
    pub fn system(&self) -> &CopySystem {
        &self.system
    }

    /// Bytes of a line of the shared cache.
    pub fn line_bytes(&self) -> u64 {
        self.line
    }

    pub(super) fn clocks(&self) -> &CopyClocks {
        &self.costs
    }

    pub(super) fn instruction(&self) -> CopyInstruction {
        self.instruction
    }

    /// A piece of a copy by the table, and when it is done; [`None`], and nothing has happened, without a table. A
    /// piece for software is [`CopyLevel::by_words`].
    pub fn copy_line(&mut self, src: u64, dst: u64, now: Ps) -> Option<Ps> {
        self.due.clear();
        if !self.system.copy(Line(src), Line(dst), &mut self.due) {
            return None;
        }
        self.counts.lines_by_table += 1;
        let mut spent: Spent<()> = Spent::new(now);
        self.charge(&mut spent, self.costs.fill, self.costs.fill_search);
        Some(spent.at)
    }

    /// A piece of a copy by loads and stores of `word` bytes with `instructions` instructions each pair;
    /// the time at which the last store has retired.
    pub fn by_words(&mut self, core: CoreId, piece: CopyPiece, word: u64, instructions: u64, now: Ps) -> Ps {
        let (src, dst, bytes) = piece.span(self.line);
        let mut at = now;
        let mut done = 0;
        while done < bytes {
            let n = word.min(bytes - done);
            at += Ps(self.costs.clock.0 * instructions);
            at = self.word(core, Access::Load, src + done, n, at);
            at = self.word(core, Access::Store, dst + done, n, at);
            done += n;
        }
        at
    }

    /// A load or store of a few bytes that may cross a line: when it is done. [`Level::access`] says what the time is
    /// spent on, too.
    #[inline]
    pub fn word(&mut self, core: CoreId, access: Access, addr: u64, bytes: u64, now: Ps) -> Ps {
        let mut spent: Spent<()> = Spent::new(now);
        self.lines(core, access, addr, bytes, &mut spent);
        spent.at
    }

    /// Each line of a load or store after the other; who has served the first.
    #[inline]
    fn lines<A: CopyAccount>(
        &mut self,
        core: CoreId,
        access: Access,
        addr: u64,
        bytes: u64,
        spent: &mut Spent<A>,
    ) -> Served {
        let (first, last) = (addr >> self.l1_shift, (addr + bytes.max(1) - 1) >> self.l1_shift);
        let served = self.one(core, access, Line(first), spent);
        if last != first {
            self.one(core, access, Line(last), spent);
        }
        served
    }

    /// A load or store that goes around the caches to memory: when it is done.
    pub fn uncached(&mut self, write: bool, addr: u64, whole: bool, now: Ps) -> Ps {
        let line = Line(addr / self.line);
        self.due.clear();
        let mut spent: Spent<()> = Spent::new(now);
        if write {
            self.system.before_memory_write(line, whole, &mut self.due);
            self.charge(&mut spent, self.costs.hit, self.costs.hit_search);
            self.post(&mut spent, self.costs.transfer, self.costs.memory);
        } else {
            self.system.before_memory_read(line, &mut self.due);
            self.charge(&mut spent, self.costs.hit, self.costs.hit_search);
            spent.wait_until(Reason::Bus, self.bus_free);
            self.bus_free = spent.at + self.costs.transfer;
            spent.push(Reason::RowMiss, self.costs.memory);
        }
        spent.at
    }

    /// A device writes whole lines from `addr` on; with `placed` into the shared cache.
    ///
    /// The CPU has the memory bus first and does not wait.
    pub fn device_write(&mut self, addr: u64, bytes: u64, placed: bool) {
        for line in addr >> self.shift..(addr + bytes.max(1)).div_ceil(self.line) {
            self.due.clear();
            if placed {
                self.system.place(Line(line), &mut self.due);
            } else {
                self.system.before_memory_write(Line(line), true, &mut self.due);
            }
            self.count_moves();
        }
    }

    /// A device reads whole lines from `addr` on. As [`CopyLevel::device_write`].
    pub fn device_read(&mut self, addr: u64, bytes: u64) {
        for line in addr >> self.shift..(addr + bytes.max(1)).div_ceil(self.line) {
            self.due.clear();
            self.system.before_memory_read(Line(line), &mut self.due);
            self.count_moves();
        }
    }

    /// Lines go from memory to memory as fast as the bus carries them, and the CPU waits for it like for
    /// any other; when the last one is there.
    pub(super) fn by_memory(&mut self, src: u64, dst: u64, bytes: u64, now: Ps) -> Ps {
        if bytes == 0 {
            return now;
        }
        let before = self.counts.write_backs + self.counts.settled;
        self.device_read(src, bytes);
        self.device_write(dst, bytes, false);
        let cleaned = self.counts.write_backs + self.counts.settled - before;
        let lines = |addr: u64| (addr + bytes).div_ceil(self.line) - (addr >> self.shift);
        let all = lines(src) + lines(dst) + cleaned;
        self.bus_free = self.bus_free.max(now) + Ps(self.costs.transfer.0 * all);
        self.bus_free + self.costs.memory
    }

    #[inline]
    fn one<A: CopyAccount>(&mut self, core: CoreId, access: Access, line: Line, spent: &mut Spent<A>) -> Served {
        self.due.clear();
        let with_l1 = self.system.has_l1();
        if !access.writes() {
            let source = self.system.read(core, line, &mut self.due);
            self.counts.loads += 1;
            let (served, l1, shared) = match source {
                DataSource::L1 => (Served::L1, true, false),
                DataSource::Cache => (Served::L2, with_l1, true),
                DataSource::Table { .. } => (Served::Engine, true, false),
                DataSource::Snoop => (Served::Snoop, true, true),
                DataSource::Memory => (Served::Dram, with_l1, true),
            };
            self.counts.load_hits += u64::from(source == if with_l1 { DataSource::L1 } else { DataSource::Cache });
            self.counts.table_hits += u64::from(served == Served::Engine);
            self.counts.snoops += u64::from(served == Served::Snoop);
            if l1 {
                spent.push(Reason::L1, self.costs.l1);
            }
            if shared {
                spent.push(Reason::L2, self.costs.shared);
            }
            self.charge(spent, self.costs.hit, self.costs.hit_search);
            return served;
        }
        let settled = self.counts.settled;
        let written = self.system.write(core, line, &mut self.due);
        self.counts.stores += 1;
        self.counts.store_hits += u64::from(written.source == if with_l1 { DataSource::L1 } else { DataSource::Cache });
        if with_l1 {
            spent.push(Reason::L1, self.costs.l1);
        }
        self.charge(spent, self.costs.hit, self.costs.hit_search);
        if self.counts.settled > settled {
            self.counts.touched += 1;
            spent.push(Reason::Copy, self.costs.touch);
        }
        if written.l1 && written.source != DataSource::L1 {
            // The L1 gets the line.
            spent.push(Reason::L2, self.costs.shared);
        }
        if written.shared {
            self.post(spent, Ps::ZERO, self.costs.shared);
        }
        match written.source {
            DataSource::L1 => Served::L1,
            DataSource::Memory => Served::Dram,
            DataSource::Snoop => Served::Snoop,
            _ => Served::L2,
        }
    }

    /// Charges the steps of the last operation to the CPU.
    #[inline]
    fn charge<A: CopyAccount>(&mut self, spent: &mut Spent<A>, entry: Ps, search: EntrySearch) {
        for at in 0..self.due.len() {
            match self.due[at] {
                Due::Fill => {
                    self.counts.fills += 1;
                    spent.wait_until(Reason::Bus, self.bus_free);
                    self.bus_free = spent.at + self.costs.transfer;
                    spent.push(Reason::RowMiss, self.costs.memory);
                }
                Due::WriteBack => {
                    self.counts.write_backs += 1;
                    self.write_back(spent);
                }
                Due::Settle => {
                    self.counts.settled += 1;
                    self.write_back(spent);
                }
                Due::Search { place } => {
                    let steps = if search == EntrySearch::Cam { 1 } else { u64::from(place) + 1 };
                    spent.push(Reason::Copy, Ps(entry.0 * steps));
                }
                Due::L1WriteBack => spent.push(Reason::L2, self.costs.shared),
            }
        }
    }

    /// A line to memory, on the CPU's time as far as no buffer takes it.
    fn write_back<A: CopyAccount>(&mut self, spent: &mut Spent<A>) {
        if self.costs.buffer == 0 {
            self.bus_free = self.bus_free.max(spent.at) + self.costs.transfer;
            spent.push(Reason::Copy, self.costs.write_back);
        } else {
            self.post(spent, self.costs.transfer, self.costs.write_back);
        }
    }

    /// Into the write buffer, where there is one and it has room; `latency` otherwise. The bus is busy
    /// for `transfer`.
    fn post<A: CopyAccount>(&mut self, spent: &mut Spent<A>, transfer: Ps, latency: Ps) {
        let begins = if transfer == Ps::ZERO { spent.at } else { self.bus_free.max(spent.at) };
        if transfer != Ps::ZERO {
            self.bus_free = begins + transfer;
        }
        if self.costs.buffer == 0 {
            spent.push(Reason::L2, latency);
            return;
        }
        while self.buffer.front().is_some_and(|&leaves| leaves <= spent.at) {
            self.buffer.pop_front();
        }
        if self.buffer.len() >= self.costs.buffer
            && let Some(leaves) = self.buffer.pop_front()
        {
            spent.wait_until(Reason::Bus, leaves);
        }
        // Entries leave one after the other.
        let after = self.buffer.back().copied().unwrap_or(Ps::ZERO).max(begins);
        self.buffer.push_back(after + latency);
    }

    /// Counts the steps of the last operation, which nobody waits for.
    fn count_moves(&mut self) {
        for step in &self.due {
            match step {
                Due::WriteBack => self.counts.write_backs += 1,
                Due::Settle => self.counts.settled += 1,
                _ => {}
            }
        }
    }
}

impl CopyLevel {
    /// Serves `request`, made at `now`, which never decreases from call to call.
    #[inline]
    pub fn access(&mut self, request: &Request, now: Ps) -> Response {
        let Addr(addr) = request.addr;
        if request.access.is_dma() {
            let served = Served::Dram;
            if request.access.writes() {
                self.device_write(addr, u64::from(request.bytes), false);
            } else {
                self.device_read(addr, u64::from(request.bytes));
            }
            let path = Path::of(Reason::RowMiss, self.costs.memory);
            return Response { at: now + self.costs.memory, served, path };
        }
        let mut spent = Spent::<Path>::new(now);
        let served = self.lines(request.core, request.access, addr, u64::from(request.bytes), &mut spent);
        Response { at: spent.at, served, path: spent.account }
    }
}
