use std::collections::VecDeque;

use probe::Request;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Path, Reason};
use units::{LINE_BYTES, Line, Ps, Rate, Span};

use super::Hierarchy;
use super::llc::Requester;
use crate::copy_table::Retires;
use crate::{MachineError, Response, Served};

/// Who makes a core's copies in place of its loads and stores, and of a copy table: the rivals of
/// [`crate::copy_table::CopyMethod`] on the server's memory.
///
/// A device or engine takes a copy as a whole where source and target each lie in one piece; other copies are loads
/// and stores. One engine serves all cores, a copy after the other. Left out: translation of addresses; instructions
/// that an engine would save, as for the copy table; the end of a core's burst does not wait for a copy under way.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Sub)]
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
#[derive(Clone, Debug)]
pub(super) struct Engine {
    spec: CopyEngineSpec,
    /// When it can begin another copy.
    free: Ps,
    /// Targets of copies that nobody has waited for, in the order of their beginnings: first line, lines, and when they
    /// may be touched, and when their data are there.
    pub(super) under_way: VecDeque<(u64, u64, [Ps; 2])>,
    counters: EngineCounters,
}

impl Engine {
    /// # Errors
    /// Times and rates that cannot be.
    pub(super) fn new(spec: &CopyEngineSpec, path: &str) -> Result<Engine, MachineError> {
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
        Ok(Engine {
            spec: spec.clone(),
            free: Ps::ZERO,
            under_way: VecDeque::new(),
            counters: EngineCounters::default(),
        })
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
fn lines(request: &Request) -> (Line, u64) {
    let first = request.addr.line();
    let last = (request.addr.0 + u64::from(request.bytes.max(1)) - 1) / LINE_BYTES;
    (first, last - first.0 + 1)
}

impl Hierarchy {
    /// What its copy engine has done so far; zeros without one.
    pub fn engine_counters(&self) -> EngineCounters {
        self.engine.as_ref().map(|e| e.counters).unwrap_or_default()
    }

    /// A copy by the engine.
    #[inline(never)]
    pub(super) fn copy_by(&mut self, src: &Request, dst: &Request, now: Ps) -> Response {
        let ((from, n), (to, m)) = (lines(src), lines(dst));
        let Some(engine) = &mut self.engine else {
            return Response { at: now, served: Served::Engine, path: Path::default() };
        };
        engine.counters.copies += 1;
        engine.counters.lines += m;
        let (spec, free) = (engine.spec.clone(), engine.free);
        let (setup, at, done, data) = match &spec {
            CopyEngineSpec::NonTemporal => {
                let loaded = self.access(src, now);
                self.store_around(to, u64::from(dst.bytes) == LINE_BYTES, loaded.at);
                return Response { served: Served::Engine, ..loaded };
            }
            CopyEngineSpec::Dma { setup, rate, notice } => {
                let start = now + setup.ps();
                let begins = start.max(free);
                // Reads go first; writes follow as the data come, so the two take their times one after the other.
                let read = self.dma_read(from, n, begins);
                let written = self.dma_write(to, m, begins);
                let busy = rate.time_for(u64::from(dst.bytes));
                let done = (read + written.since(begins)).max(begins + busy);
                if let Some(engine) = &mut self.engine {
                    engine.free = begins + busy;
                }
                match notice {
                    EngineNotice::Polling { period } => {
                        let polls = done.since(start).0.div_ceil(period.ps().0).max(1);
                        let at = start + Ps(polls * period.ps().0);
                        (setup.ps(), at, at, at)
                    }
                    EngineNotice::Interrupt { cost } => (setup.ps(), start + cost.ps(), done + cost.ps(), done),
                }
            }
            CopyEngineSpec::Controller { retires, setup } => {
                let start = now + setup.ps();
                let begins = start.max(free);
                let mut done = begins;
                for i in 0..n {
                    self.clean(Line(from.0 + i), begins);
                    done = done.max(self.dram.post(Line(from.0 + i), false, begins));
                }
                for i in 0..m {
                    let line = Line(to.0 + i);
                    let edge = u64::from(dst.bytes) < m * LINE_BYTES && (i == 0 || i == m - 1);
                    self.store_around(line, !edge, begins);
                }
                if let Some(engine) = &mut self.engine {
                    engine.free = done;
                }
                (setup.ps(), if *retires == Retires::Async { start } else { done }, done, done)
            }
        };
        if let Some(engine) = &mut self.engine
            && done > at
        {
            engine.under_way.push_back((to.0, m, [done, data]));
        }
        let mut path = Path::of(Reason::Core, setup);
        path.push(Reason::Copy, at.since(now + setup));
        Response { at, served: Served::Engine, path }
    }

    /// DRAM gets what caches have of `line`, which they keep.
    fn clean(&mut self, line: Line, now: Ps) {
        let share = self.share_of(units::Clos(0));
        let sharers = self.directory.get(line);
        if sharers != 0 {
            // Modified data go to the LLC.
            self.snoop(line, sharers, false, Requester::Device, share, now);
        }
        let spot = self.llc.spot(line);
        self.meet_tenants(spot, now);
        let Some(dirty) = self.llc.remove(spot) else { return };
        if dirty {
            if let Some(engine) = &mut self.engine {
                engine.counters.cleaned += 1;
            }
            self.write_back(line, now);
        }
        self.fill_llc(line, spot, false, share, now);
    }

    /// Writes `line` in DRAM, `whole` or in part; no cache has it afterwards.
    fn store_around(&mut self, line: Line, whole: bool, now: Ps) {
        let held = self.invalidate_private(line) == Some(true);
        let spot = self.llc.spot(line);
        self.meet_tenants(spot, now);
        let dirty = self.llc.remove(spot) == Some(true);
        if (held || dirty) && !whole {
            self.write_back(line, now);
        }
        self.dram.post(line, true, now);
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

    /// When the data of a line are there that a device asked for at `now` and would have at `done`.
    #[inline]
    pub(super) fn after_copy_for_device(&mut self, line: Line, now: Ps, done: Ps) -> Ps {
        let until = self.engine.as_mut().and_then(|engine| engine.until(line, true, now, done));
        until.unwrap_or(done)
    }
}
