//! Copy engines on the server's memory: a DMA engine, a controller, non-temporal stores.

use std::collections::VecDeque;

use probe::Request;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Path, Reason};
use units::{LINE_BYTES, Line, Ps, Rate, Span};

use super::llc::Requester;
use super::pending::{EndedCopy, LaterCopy};
use super::{Hierarchy, Snooped};
use crate::copy_table::Retires;
use crate::{MachineError, Reply, Response, Served};

/// Who makes a core's copies in place of its loads and stores, and of a copy table: the rivals of
/// [`crate::copy_table::CopyMethod`] on the server's memory.
///
/// A device or engine takes a copy as a whole where source and target each lie in one piece; other copies are loads
/// and stores. One engine serves all cores, a copy after the other; of several sockets each has an engine in its controllers.
/// Left out: translation of addresses, but of a DMA engine's, which pass the IOMMU; the end of a core's
/// burst does not wait for a copy under way; the way of a DMA engine's descriptors and of the word of its end between sockets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CopyEngineSpec {
    /// Loads, and stores that go around the caches to DRAM; a line of the target leaves all caches.
    NonTemporal,
    /// A DMA engine beside the NIC: it reads and writes as devices do, so with DDIO its target lies in the LLC.
    Dma {
        /// What the core spends on a descriptor and on starting it. Assumed 100 ns when left out.
        #[serde(default = "dma_setup")]
        setup: Span,
        /// How fast it copies. Assumed 240 Gbps when left out.
        #[serde(default = "dma_rate")]
        rate: Rate,
        /// How the core learns of the end. Polling when left out.
        #[serde(default)]
        notice: EngineNotice,
        /// Instructions of software's loop for a line, which are not executed: 6 of `vhost` and `socket`. None when left out.
        #[serde(default)]
        saves: u32,
    },
    /// An engine in the memory controller: modified lines of the source are written to DRAM first, and the target leaves
    /// all caches (Zhao et al., "Hardware support for accelerating data movement in server platform", IEEE TC 2007).
    Controller {
        /// When the instruction that starts it retires. With `sync` no later instruction starts before; with
        /// `sync-bypass` as many as the reorder buffer holds; with `async` whoever touches the target waits.
        retires: Retires,
        /// To hand over a copy. Assumed 10 ns when left out.
        #[serde(default = "controller_setup")]
        setup: Span,
        /// As of a DMA engine.
        #[serde(default)]
        saves: u32,
    },
}

/// How a core learns that a DMA engine is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "kebab-case", deny_unknown_fields)]
pub enum EngineNotice {
    /// It looks until then, once in `period`, and does nothing else.
    Polling {
        /// A read of the completion record.
        period: Span,
    },
    /// It is interrupted, which takes `cost` of its time, and works on meanwhile.
    Interrupt {
        /// Entry, handler and return.
        cost: Span,
    },
}

impl Default for EngineNotice {
    fn default() -> EngineNotice {
        EngineNotice::Polling { period: Span::from_ns(20.0) }
    }
}

fn dma_setup() -> Span {
    Span::from_ns(100.0)
}
fn dma_rate() -> Rate {
    Rate::from_gbps(240.0)
}
fn controller_setup() -> Span {
    Span::from_ns(10.0)
}

/// What a copy engine has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Sub, Serialize, Deserialize, JsonSchema)]
pub struct EngineCounters {
    /// Copies, or with non-temporal stores pieces of a line or less.
    pub copies: u64,
    /// Lines of the target that it has written.
    pub lines: u64,
    /// Modified lines of the source that had to go to DRAM first.
    pub cleaned: u64,
    /// Accesses that waited for a copy under way.
    pub waits: u64,
}

/// An engine at work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CopyEngine {
    spec: CopyEngineSpec,
    /// When it can begin another copy: of an engine in the controllers, that of each socket. There are 8 at most.
    free: [Ps; 8],
    /// Targets of copies that nobody has waited for, in the order of their beginnings: first line, lines, and when they
    /// may be touched, and when their data are there.
    pub(super) under_way: VecDeque<(u64, u64, [Ps; 2])>,
    /// Copies are made at once: see [`super::warm`].
    #[serde(skip)]
    pub(super) untimed: bool,
    counters: EngineCounters,
}

impl CopyEngine {
    /// # Errors
    /// Times and rates that cannot be.
    pub(super) fn new(spec: &CopyEngineSpec, path: &str) -> Result<CopyEngine, MachineError> {
        if let CopyEngineSpec::Dma { rate, notice, .. } = spec {
            let error = |field: &str, came: String, remedy: &str| {
                Err(MachineError::new(format!("{path}.{field}"), came, "more than 0", remedy.into()))
            };
            if rate.gbps() <= 0.0 {
                return error("rate", rate.to_string(), "leave it out for 240 Gbps");
            }
            if let EngineNotice::Polling { period } = notice
                && period.ps() == Ps::ZERO
            {
                return error("notice.period", period.to_string(), "a read of memory takes 20 ns");
            }
        }
        Ok(CopyEngine {
            spec: spec.clone(),
            free: [Ps::ZERO; 8],
            under_way: VecDeque::new(),
            untimed: false,
            counters: EngineCounters::default(),
        })
    }

    #[cfg(test)]
    pub(super) fn spec(&self) -> &CopyEngineSpec {
        &self.spec
    }

    /// When the engine of `socket` is free.
    pub(super) fn free_from(&self, socket: usize) -> Ps {
        self.free[socket]
    }

    /// The engine of `socket` was busy until `until`.
    pub(super) fn was_busy(&mut self, socket: usize, until: Ps) {
        self.free[socket] = until;
    }

    /// Copies have ended that `waits` accesses waited for: who comes between now and then waits, too.
    pub(super) fn end_later(&mut self, ended: Vec<EndedCopy>, waits: u64) {
        self.counters.waits += waits;
        self.under_way.extend(ended);
    }

    /// Whether it takes copies as a whole, and not by lines.
    pub(super) fn is_apart(&self) -> bool {
        self.spec != CopyEngineSpec::NonTemporal
    }

    /// Whether no later instruction of the core starts before the answer to a copy: it works or waits until then.
    pub(super) fn holds(&self) -> bool {
        match &self.spec {
            CopyEngineSpec::NonTemporal => false,
            CopyEngineSpec::Dma { .. } => true,
            CopyEngineSpec::Controller { retires, .. } => *retires == Retires::Sync,
        }
    }

    /// Instructions of software for a line, which are not executed where it copies.
    pub(super) fn saves(&self) -> u32 {
        match self.spec {
            CopyEngineSpec::NonTemporal => 0,
            CopyEngineSpec::Dma { saves, .. } | CopyEngineSpec::Controller { saves, .. } => saves,
        }
    }

    /// Until when `line` is being copied, if that is later than `done`; what had ended by `now` is forgotten.
    /// Devices wait for the data only, cores for the word that they are there.
    #[inline]
    pub(super) fn until(&mut self, line: Line, by_device: bool, now: Ps, done: Ps) -> Option<Ps> {
        while self.under_way.front().is_some_and(|&(.., [until, _])| until <= now) {
            self.under_way.pop_front();
        }
        let of_line = self.under_way.iter().filter(|&&(first, n, _)| (first..first + n).contains(&line.0));
        let until = of_line.map(|&(.., until)| until[usize::from(by_device)]).max().filter(|&until| until > done)?;
        self.counters.waits += 1;
        Some(until)
    }
}

/// The lines of `bytes` bytes from `addr` on: the first, and how many.
pub(super) fn lines(request: &Request) -> (Line, u64) {
    let first = request.addr.line();
    let last = (request.addr.0 + u64::from(request.bytes.max(1)) - 1) / LINE_BYTES;
    (first, last - first.0 + 1)
}

/// Whether line `i` of the `lines` of a target is written in part.
pub(super) fn is_edge(dst: &Request, lines: u64, i: u64) -> bool {
    u64::from(dst.bytes) < lines * LINE_BYTES && (i == 0 || i == lines - 1)
}

impl Hierarchy {
    /// What its copy engine has done so far; zeros without one.
    pub fn engine_counters(&self) -> EngineCounters {
        self.engine.as_ref().map(|e| e.counters).unwrap_or_default()
    }

    /// A copy by the engine.
    #[inline(never)]
    pub(super) fn copy_by(&mut self, src: &Request, dst: &Request, now: Ps) -> Reply {
        let ((from, n), (to, m)) = (lines(src), lines(dst));
        let Some(engine) = &mut self.engine else {
            return Reply::Done(Response { at: now, served: Served::Engine, path: Path::default() });
        };
        engine.counters.copies += 1;
        engine.counters.lines += m;
        let (spec, free, untimed) = (engine.spec.clone(), engine.free, engine.untimed);
        let (setup, at, done, data) = match &spec {
            CopyEngineSpec::NonTemporal => return self.copy_past_caches(src, dst, now),
            CopyEngineSpec::Dma { setup, rate, notice, .. } => {
                let start = now + setup.ps();
                let begins = start.max(free[0]);
                self.open();
                // Reads go first; writes follow as the data come, so the two take their times one after the other.
                let read = self.dma_read_to_copy(from, n, begins);
                let written = self.dma_write(to, m, begins);
                let busy = rate.time_for(u64::from(dst.bytes));
                if let Some(engine) = self.engine.as_mut().filter(|engine| !engine.untimed) {
                    engine.free[0] = begins + busy;
                }
                let (least, more) = (begins + busy, written.since(begins) + self.translated());
                let (word, looks) = match notice {
                    EngineNotice::Polling { period } => {
                        let path = Path::of(Reason::Core, setup.ps());
                        (Ps::ZERO, Some((src.core, start, period.ps(), path)))
                    }
                    EngineNotice::Interrupt { cost } => (cost.ps(), None),
                };
                let done = match self.close_copy(LaterCopy { to: (to, m), more, least, word }, read, looks) {
                    Ok(read) => (read + more).max(least),
                    Err(Some(ticket)) => return Reply::Pending(ticket),
                    // It works on until it is interrupted.
                    Err(None) => {
                        let mut path = Path::of(Reason::Core, setup.ps());
                        path.push(Reason::Copy, word);
                        return Reply::Done(Response { at: start + word, served: Served::Engine, path });
                    }
                };
                match notice {
                    EngineNotice::Polling { period } => {
                        let polls = done.since(start).0.div_ceil(period.ps().0).max(1);
                        let at = start + Ps(polls * period.ps().0);
                        (setup.ps(), at, at, at)
                    }
                    EngineNotice::Interrupt { cost } => (setup.ps(), start + cost.ps(), done + cost.ps(), done),
                }
            }
            CopyEngineSpec::Controller { retires, setup, .. } if self.has_controllers() && !untimed => {
                return self.hand_over(src, dst, now, setup.ps(), *retires != Retires::Async);
            }
            CopyEngineSpec::Controller { retires, setup, .. } => {
                let start = now + setup.ps();
                self.enter(Requester::Core(src.core));
                let socket = self.behind.fabric.here();
                let begins = self.after_other_engines([(from, n), (to, m)], now, start.max(free[socket]));
                let mut done = begins;
                for i in 0..n {
                    let line = Line(from.0 + i);
                    let clean = self.clean(line, begins);
                    done = done.max(self.behind.read_memory(line, clean));
                }
                let mut way = Ps::ZERO;
                for i in 0..m {
                    let line = Line(to.0 + i);
                    let clear = self.take_from_caches(line, !is_edge(dst, m, i), Requester::Device, begins);
                    done = done.max(clear);
                    way = way.max(self.behind.write(line, clear).0 - clear);
                }
                // The memory that the target lies in has it when the data have come and gone there.
                done += way;
                if let Some(engine) = self.engine.as_mut().filter(|engine| !engine.untimed) {
                    engine.free[socket] = done;
                }
                (setup.ps(), if *retires == Retires::Async { start } else { done }, done, done)
            }
        };
        if let Some(engine) = &mut self.engine
            && done > at
            && !engine.untimed
        {
            engine.under_way.push_back((to.0, m, [done, data]));
        }
        let mut path = Path::of(Reason::Core, setup);
        path.push(Reason::Copy, at.since(now + setup));
        Reply::Done(Response { at, served: Served::Engine, path })
    }

    /// A copy within lines by a load and a store that goes around the caches.
    fn copy_past_caches(&mut self, src: &Request, dst: &Request, now: Ps) -> Reply {
        let (to, whole) = (dst.addr.line(), u64::from(dst.bytes) == LINE_BYTES);
        let by = Requester::Core(src.core);
        let loaded = self.load(src, now);
        self.enter(by);
        match loaded {
            Reply::Done(loaded) => {
                let clear = self.take_from_caches(to, whole, by, loaded.at);
                self.behind.write(to, clear);
                Reply::Done(Response { served: Served::Engine, ..loaded })
            }
            Reply::Pending(ticket) => {
                let clear = self.take_from_caches(to, whole, by, now);
                self.behind.write_after(src.addr.line(), to, clear);
                Reply::Pending(ticket)
            }
        }
    }

    /// When a copy asked for at `now` may begin, if not before `begins`: engines of other sockets may be at its `lines`, each
    /// a first one and how many.
    pub(super) fn after_other_engines(&mut self, lines: [(Line, u64); 2], now: Ps, mut begins: Ps) -> Ps {
        let several = self.has_sockets();
        let Some(engine) = self.engine.as_mut().filter(|_| several) else { return begins };
        let waits = engine.counters.waits;
        for line in lines.into_iter().flat_map(|(first, count)| first.0..first.0 + count) {
            begins = engine.until(Line(line), true, now, begins).unwrap_or(begins);
        }
        // One access, however many of its lines others are at.
        engine.counters.waits = engine.counters.waits.min(waits + 1);
        begins
    }

    /// Memory gets what caches and tails have of `line`, asked for at `now`; caches keep it: when memory has it.
    pub(super) fn clean(&mut self, line: Line, now: Ps) -> Ps {
        let spot = self.llc.spot(line);
        let cast = self.cast(spot, Requester::Device, now);
        let now = self.acknowledged(cast, spot, Requester::Device).max(now);
        let (afar, was_afar) = self.clean_elsewhere(line, now);
        let (near, was_near) = self.clean_here(line, now);
        if let Some(engine) = &mut self.engine {
            engine.counters.cleaned += u64::from(was_afar || was_near);
        }
        afar.max(near).max(self.clean_tail(line, now))
    }

    /// As [`Hierarchy::clean`], of another socket's caches, the only ones that have it modified if they do; and whether they did.
    fn clean_elsewhere(&mut self, line: Line, now: Ps) -> (Ps, bool) {
        match self.modified_elsewhere(line) {
            Some(socket) => self.at_socket(socket, now, |memory, at| memory.clean_here(line, at)),
            None => (now, false),
        }
    }

    /// As [`Hierarchy::clean`], of the caches of the present socket; and whether they had it modified.
    fn clean_here(&mut self, line: Line, now: Ps) -> (Ps, bool) {
        let share = self.share_of(units::Clos(0));
        let spot = self.llc.spot(line);
        let mut at = now;
        let sharers = self.directory.get(line) & self.behind.fabric.cores_here();
        // Modified data go to the LLC.
        let modified =
            sharers != 0 && self.snoop(line, sharers, false, Requester::Device, share, now) == Snooped::Dirty;
        if modified && let Some((sent, _)) = self.supplied(Requester::Device, now) {
            at = at.max(sent);
            self.brings_llc_up_to_date(spot);
        }
        self.meet_tenants(spot, now);
        let held = self.llc.remove(spot);
        // What an LLC does not take has gone to memory.
        let Some(dirty) = held else { return (at, modified) };
        if dirty {
            at = self.write_back(line, at);
        }
        self.fill_llc(line, spot, false, share, now);
        (at, dirty)
    }

    /// Takes `line`, which `by` is to write in memory, `whole` or in part, from all caches and tails from `now` on: when
    /// they have given it up. Of a line that is written in part memory gets first what they have modified.
    pub(super) fn take_from_caches(&mut self, line: Line, whole: bool, by: Requester, now: Ps) -> Ps {
        let spot = self.llc.spot(line);
        let mut clear = self.cast_to_write(line, by, now);
        if self.has_sockets() {
            if !whole {
                clear = clear.max(self.clean_elsewhere(line, now).0);
            }
            clear += self.claim(line, clear);
        }
        let held = self.invalidate_private(line) == Some(true);
        self.meet_tenants(spot, now);
        let dirty = self.llc.remove(spot) == Some(true);
        if (held || dirty) && !whole {
            clear = self.write_back(line, clear);
        }
        match whole {
            true => self.behind.supersede(line),
            false => clear = clear.max(self.clean_tail(line, now)),
        }
        clear
    }

    /// All private caches hear that `by` is to write `line` past them, with snooping: when it knows that they have given it up.
    fn cast_to_write(&mut self, line: Line, by: Requester, now: Ps) -> Ps {
        if !self.protocol.asks_all() {
            return now;
        }
        let spot = self.llc.spot(line);
        let cast = self.cast(spot, by, now);
        let own = if let Requester::Core(core) = by { 1 << core.0 } else { 0 };
        let mut sharers = self.directory.get(line) & !own;
        while sharers != 0 {
            self.looked_up(sharers.trailing_zeros() as usize, line, true, by);
            sharers &= sharers - 1;
        }
        self.acknowledged(cast, spot, by).max(now)
    }

    /// When a line is there that was asked for at `now` and answered at `done`: a copy onto it may be under way.
    #[inline]
    pub(super) fn after_copy(&mut self, line: Line, now: Ps, done: Ps, path: &mut Path) -> Ps {
        let Some(until) = self.engine.as_mut().and_then(|engine| engine.until(line, false, now, done)) else {
            return done;
        };
        path.push(Reason::Copy, until - done);
        until
    }

    /// As [`Hierarchy::after_copy`], of a reply.
    pub(super) fn reply_after_copy(&mut self, line: Line, now: Ps, reply: Reply) -> Reply {
        match reply {
            Reply::Done(Response { at, served, mut path }) if self.engine.is_some() => {
                Reply::Done(Response { at: self.after_copy(line, now, at, &mut path), served, path })
            }
            _ => reply,
        }
    }

    /// When the data of a line are there that a device asked for at `now` and would have at `done`.
    #[inline]
    pub(super) fn after_copy_for_device(&mut self, line: Line, now: Ps, done: Ps) -> Ps {
        let until = self.engine.as_mut().and_then(|engine| engine.until(line, true, now, done));
        until.unwrap_or(done)
    }
}
