//! The copy table beside the LLC, on the server's memory.

use probe::Request;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Path, Reason};
use units::{Line, Ps, Span};

use super::behind::Fill;
use super::llc::{Requester, SliceArrival, Spot};
use super::pending::Asked;
use super::{Hierarchy, MemorySpec};
use crate::copy_table::{IndexTable, Move, Moves};
use crate::{MachineError, Reply, Response, Served};

/// An indexing table beside the LLC: copies of whole lines, aligned alike, become pointers to cached
/// lines; the rest of a copy is loads and stores. See [`crate::copy_table`].
///
/// The state is that of the paper's section 3; what it costs here: a copy and a read by the table take
/// an access of the LLC and `latency`; each copy that is settled takes a write of DRAM, which nobody waits for. Left out: the
/// table has no port of its own, and software's loop asks it line by line, but with `instruction`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CopyTableSpec {
    /// Entries, a multiple of `ways`, up to 16777216. As many as the LLC has lines, as in the paper, when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<u32>,
    /// Entries of a congruence class, 1 to 32.
    pub ways: u32,
    /// What filling or reading an entry takes, beyond the access of the LLC. The paper's table 2 has 2 clocks
    /// of 2 GHz.
    pub latency: Span,
    /// The paper's copy instruction in place of software's loop. Left out, copies are asked for by the loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction: Option<CopyInstructionSpec>,
}

impl Default for CopyTableSpec {
    fn default() -> CopyTableSpec {
        CopyTableSpec { entries: None, ways: 8, latency: Span::from_ns(1.0), instruction: None }
    }
}

/// A copy instruction: it holds the core until the table has what it copies, software's loop over those lines is not executed,
/// and the table has one port for its searches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CopyInstructionSpec {
    /// Whether no later instruction starts before the table has the line, as in the paper (section 5.1.2).
    pub holds: bool,
    /// Instructions of software's loop for a line, which are not executed: 6 of `vhost` and `socket`.
    pub saves: u32,
    /// What a search takes of the table's port; fills and reads of copies wait for it. The paper's table 2 has 2 clocks of
    /// 2 GHz. 0 for a table that searches any number at once.
    pub port: Span,
}

impl Default for CopyInstructionSpec {
    fn default() -> CopyInstructionSpec {
        CopyInstructionSpec { holds: true, saves: 6, port: Span::from_ns(1.0) }
    }
}

/// What a copy table has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Sub, Serialize, Deserialize, JsonSchema)]
pub struct CopyCounters {
    /// Lines copied: by a pointer, or at once where the source may not be in the LLC (those are `settled`, too).
    pub fills: u64,
    /// Reads of a copy that were served from its source.
    pub hits: u64,
    /// Copies written to DRAM: before a write, for want of an entry, or because the source left the LLC.
    pub settled: u64,
    /// Searches of a class by target, or of all entries by source: what content-addressable memories do.
    pub searches: u64,
    /// Pieces of copies, of a line or less, that were left to loads and stores: not a whole line, or not aligned alike.
    pub fallbacks: u64,
}

/// The table, and what it has listed and done.
///
/// What holds between requests: a source is in the LLC, a target is not; private caches may have either,
/// clean and not as exclusive, so that the first write comes to [`Hierarchy::before_write`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Copies {
    pub(super) table: IndexTable,
    moves: Moves,
    latency: Ps,
    /// What a search takes of the table's port, until when that is taken, and by how many searches so far.
    port: Ps,
    port_free: Ps,
    booked: u64,
    instruction: Option<CopyInstructionSpec>,
    /// Searches take no time: see [`super::warm`].
    #[serde(skip)]
    untimed: bool,
    counters: CopyCounters,
}

impl Copies {
    /// # Errors
    /// Entries and ways that cannot be.
    pub(super) fn new(spec: &CopyTableSpec, memory: &MemorySpec, path: &str) -> Result<Copies, MachineError> {
        let error = |field: &str, came: String, allowed: &str| {
            let remedy = "leave it out for what the paper has".into();
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy))
        };
        let ways = spec.ways;
        if !(1..=32).contains(&ways) {
            return error("ways", ways.to_string(), "1 to 32 ways");
        }
        let entries = match spec.entries {
            Some(entries) if entries == 0 || !entries.is_multiple_of(ways) || entries > MOST_ENTRIES => {
                return error("entries", format!("{entries} with {ways} ways"), "a multiple of ways up to 16777216");
            }
            Some(entries) => u64::from(entries),
            None => memory.llc.size.bytes() / units::LINE_BYTES,
        };
        Ok(Copies {
            table: IndexTable::new((entries / u64::from(ways)).max(1), ways),
            moves: Moves::new(),
            latency: spec.latency.ps(),
            port: spec.instruction.as_ref().map_or(Ps::ZERO, |of| of.port.ps()),
            port_free: Ps::ZERO,
            booked: 0,
            instruction: spec.instruction.clone(),
            untimed: false,
            counters: CopyCounters::default(),
        })
    }

    /// Whether `line` is a copy that only a pointer represents.
    pub(super) fn represents(&mut self, line: Line) -> bool {
        self.counters.searches += 1;
        self.table.source(line).is_some()
    }

    /// As [`Copies::represents`], of what is looked up on the way and not counted.
    pub(super) fn has(&self, line: Line) -> bool {
        self.table.source(line).is_some()
    }

    /// How long a search waits for the port that comes to it at `now`. Searches that nobody waits for have taken it, too, one
    /// after the other since it was free.
    fn wait_for_port(&mut self, now: Ps) -> Ps {
        if self.port == Ps::ZERO || self.untimed {
            return Ps::ZERO;
        }
        // This one is counted already.
        let others = (self.counters.searches - self.booked).saturating_sub(1);
        self.booked = self.counters.searches;
        let begins = (self.port_free + Ps(self.port.0 * others)).max(now);
        self.port_free = begins + self.port;
        begins - now
    }

    /// Searches take no time from now on, or do so again.
    pub(super) fn set_untimed(&mut self, untimed: bool) {
        self.untimed = untimed;
        if self.port > Ps::ZERO {
            self.booked = self.counters.searches;
        }
    }

    /// Whether no later instruction starts before the table has a line.
    pub(super) fn holds(&self) -> bool {
        self.instruction.as_ref().is_some_and(|of| of.holds)
    }

    /// Instructions of software for a line that the table takes, which are not executed.
    pub(super) fn saves(&self) -> u32 {
        self.instruction.as_ref().map_or(0, |of| of.saves)
    }

    /// Whether the table takes a copy of whole lines; what it does not take is counted.
    pub(super) fn takes(&mut self, whole_lines: bool) -> bool {
        self.counters.fallbacks += u64::from(!whole_lines);
        whole_lines
    }
}

const MOST_ENTRIES: u32 = 1 << 24;

impl Hierarchy {
    /// What its copy table has done so far; zeros without one.
    pub fn copy_counters(&self) -> CopyCounters {
        self.copies.as_ref().map(|c| c.counters).unwrap_or_default()
    }

    /// All of line `src` becomes the content of line `dst`, by a pointer.
    #[inline(never)]
    pub(super) fn copy_line(&mut self, src: &Request, dst: Line, now: Ps) -> Reply {
        let (core, share) = (src.core, self.share_of(src.clos));
        self.enter(Requester::Core(core));
        let src = src.addr.line();
        let Some(copies) = &mut self.copies else {
            return Reply::Done(Response { at: now, served: Served::Engine, path: Path::default() });
        };
        copies.counters.searches += 1;
        let latency = copies.latency;
        if self.llc.has_tenants() {
            // They may push out what it is a copy of.
            let original = copies.table.original(src);
            self.meet_tenants(self.llc.spot(original), now);
        }
        let original = self.copies.as_ref().map_or(src, |copies| copies.table.original(src));
        let spot = self.llc.spot(original);
        self.meet_tenants(spot, now);
        let SliceArrival { at, waited, distance } = self.llc.take_in(spot, Requester::Core(core), now);
        let mut path = Path::of(Reason::SliceQueue, waited);
        path.push(Reason::Interconnect, distance * 2);
        path.push(Reason::Llc, self.llc.latency());
        let port = self.copies.as_mut().map_or(Ps::ZERO, |copies| copies.wait_for_port(at));
        path.push(Reason::Copy, port);
        let at = at + port;
        let done = at + self.llc.latency() + distance;
        let mut asked = Asked { core, path, ready: done, distance, served: Served::Engine, copy: latency };
        let mut ticket = None;
        if original != dst {
            let link = self.overwrite_target(dst, at);
            asked.path.push(Reason::SocketLink, link);
            asked.ready += link;
            let dirty = self.take_from_cores(original, at, &mut asked);
            if !(if dirty == Some(true) { self.llc.write_line(spot) } else { self.llc.use_line(spot) }) {
                if dirty.is_none() {
                    asked.served = Served::Dram;
                    match self.read_behind(original, false, at + link + self.llc.latency(), &mut asked) {
                        Fill::At(filled) => {
                            asked.ready = filled + distance;
                            self.behind.in_flight.insert(original, asked.ready);
                        }
                        Fill::Later(given) => ticket = Some(given),
                    }
                }
                self.fill_llc(original, spot, dirty == Some(true), share, at);
            }
            self.point(dst, original, spot, at);
        }
        if asked.served != Served::Dram {
            if let Some(until) = self.behind.in_flight.get(original, asked.ready) {
                asked.path.push(Reason::Mshr, until - asked.ready);
                asked.ready = until;
            }
            ticket = self.behind.join(original, &asked);
        }
        let Asked { mut path, ready, served, .. } = asked;
        path.push(Reason::Copy, latency);
        match ticket {
            Some(ticket) => Reply::Pending(ticket),
            None => Reply::Done(Response { at: ready + latency, served, path }),
        }
    }

    /// All of `dst` is overwritten from `at` on, and nobody's copy of it counts any more: what other sockets take to give it up.
    fn overwrite_target(&mut self, dst: Line, at: Ps) -> Ps {
        if let Some(copies) = &mut self.copies {
            copies.counters.fills += 1;
            // By target and by source, and for a free entry.
            copies.counters.searches += 3;
            copies.table.before_copy_onto(dst, &mut copies.moves);
        }
        self.settle_copies(at);
        let link = self.across_sockets(dst, self.directory.get(dst), false, true, at);
        self.behind.supersede(dst);
        self.behind.overwritten(dst);
        self.invalidate_private(dst);
        let target = self.llc.spot(dst);
        self.meet_tenants(target, at);
        self.llc.remove(target);
        link
    }

    /// The LLC takes `original` from the private caches at `at`: whether they had it modified, [`None`] if they had it not.
    fn take_from_cores(&mut self, original: Line, at: Ps, asked: &mut Asked) -> Option<bool> {
        let holders = self.directory.get(original);
        let dirty = self.invalidate_private(original)?;
        let link = self.across_sockets(original, holders, true, false, at);
        asked.path.push(Reason::SocketLink, link);
        asked.path.push(Reason::Snoop, self.protocol.answer());
        asked.ready += link + self.protocol.answer();
        if dirty {
            // Of a store whose turn at the LLC has not come.
            self.before_write_back(original, at);
            self.drop_older(original);
        }
        Some(dirty)
    }

    /// `dst` is a copy of `original`: by a pointer, if the LLC has that at `spot`.
    fn point(&mut self, dst: Line, original: Line, spot: Spot, at: Ps) {
        let is_there = self.llc.has(spot);
        if let Some(copies) = &mut self.copies {
            if is_there {
                copies.table.point(dst, original, &mut copies.moves);
            } else {
                // The source may not be in the LLC: the copy is made.
                copies.moves.push(Move::Settle { dst, src: original });
            }
        }
        self.settle_copies(at);
    }

    /// Serves a read of a line that only a pointer represents from its source.
    #[inline(never)]
    pub(super) fn read_by_table(&mut self, request: &Request, now: Ps) -> Option<Reply> {
        let line = request.addr.line();
        let copies = self.copies.as_mut()?;
        copies.counters.searches += 1;
        if self.llc.has_tenants() {
            // They may push out the source, which ends the copy.
            let (src, _) = copies.table.source(line)?;
            self.meet_tenants(self.llc.spot(src), now);
        }
        let copies = self.copies.as_mut()?;
        let (src, _) = copies.table.source(line)?;
        copies.table.share(line);
        copies.counters.hits += 1;
        let latency = copies.latency;
        let spot = self.llc.spot(src);
        let SliceArrival { at, waited, distance } = self.llc.take_in(spot, Requester::Core(request.core), now);
        let port = self.copies.as_mut().map_or(Ps::ZERO, |copies| copies.wait_for_port(at));
        let at = at + port;
        let back = distance + self.llc.carry(spot, Requester::Core(request.core), false, at);
        self.llc.use_line(spot);
        self.counters.llc.hits += 1;
        self.class_llc(request.clos).hits += 1;
        let mut path = Path::of(Reason::SliceQueue, waited);
        path.push(Reason::Copy, port);
        path.push(Reason::Interconnect, distance + back);
        path.push(Reason::Llc, self.llc.latency());
        let mut done = at + self.llc.latency() + back;
        if self.has_sockets() && !self.llc.has(spot) {
            // It came into the LLC of another socket.
            let asked = done;
            done = self.read_from_other_llc(src, false, asked, &mut path).unwrap_or(asked);
        }
        if let Some(until) = self.behind.in_flight.get(src, done) {
            path.push(Reason::Mshr, until - done);
            done = until;
        }
        self.directory.insert(line, request.core);
        let served = Served::Engine;
        let asked = Asked { core: request.core, path, ready: done, distance: back, served, copy: latency };
        if let Some(ticket) = self.behind.join(src, &asked) {
            return Some(Reply::Pending(ticket));
        }
        path.push(Reason::Copy, latency);
        Some(Reply::Done(Response { at: done + latency, served, path }))
    }

    /// `line` is about to be written: copies of it, and its own content if it is one, go to DRAM first. Of what a
    /// device overwrites as a whole its own content goes too, since a packet may end within a line.
    #[inline(never)]
    pub(super) fn before_write(&mut self, line: Line, now: Ps) {
        let Some(copies) = &mut self.copies else { return };
        copies.counters.searches += 2;
        copies.table.before_write(line, &mut copies.moves);
        self.settle_copies(now);
    }

    /// A private cache has written all of `line` back.
    #[inline(never)]
    pub(super) fn before_write_back(&mut self, line: Line, now: Ps) {
        let Some(copies) = &mut self.copies else { return };
        copies.counters.searches += 2;
        copies.table.before_overwrite(line, &mut copies.moves);
        self.settle_copies(now);
    }

    /// `line` has left the LLC: copies of it go to DRAM.
    #[inline(never)]
    pub(super) fn after_eviction(&mut self, line: Line, now: Ps) {
        let Some(copies) = &mut self.copies else { return };
        copies.counters.searches += 1;
        copies.table.before_eviction(line, &mut copies.moves);
        self.settle_copies(now);
    }

    /// A device reads `line` from DRAM.
    #[inline(never)]
    pub(super) fn before_device_read(&mut self, line: Line, now: Ps) {
        let Some(copies) = &mut self.copies else { return };
        copies.counters.searches += 1;
        copies.table.before_device_read(line, &mut copies.moves);
        self.settle_copies(now);
    }

    /// Whether a copy points at `line`: it stays in the LLC, and no core has it as exclusive.
    #[inline]
    pub(super) fn is_source(&mut self, line: Line) -> bool {
        self.copies.as_mut().is_some_and(|c| {
            c.counters.searches += 1;
            c.table.is_source(line)
        })
    }

    /// Writes to DRAM what the table has listed.
    fn settle_copies(&mut self, now: Ps) {
        let Some(copies) = &mut self.copies else { return };
        let mut moves = std::mem::take(&mut copies.moves);
        for moved in moves.drain(..) {
            if let Move::Settle { dst, .. } = moved {
                #[cfg(test)]
                self.log.push(moved);
                self.post_victim(dst, now);
                if let Some(copies) = &mut self.copies {
                    copies.counters.settled += 1;
                }
            }
        }
        if let Some(copies) = &mut self.copies {
            copies.moves = moves;
        }
    }
}
