//! What is behind the caches of a socket, and who answers for a line that they have not: another socket's LLC, what the NIC
//! has written last past the LLC, a home of its own, or the DRAM that the line is homed at, at once or by its controllers.
//!
//! One way down for all who ask: a core that misses, one whose application skips the LLC, a copy's source, a device, an
//! engine. So each of these goes with each home.

use serde::{Deserialize, Serialize};
use stats::{Path, Reason};
use units::{Line, Ps, Ticket};

use super::copy_queue::CopyQueue;
use super::fabric::Fabric;
use super::home::Home;
use super::homes::AnyHome;
use super::in_flight::InFlight;
use super::pending::{Asked, PendingMemory};
use super::tails::Tails;
use super::{CopyEngineSpec, Hierarchy, MemorySpec};
use crate::MachineError;
use crate::dram::{Dram, DramCounters, EnergyEvents};

/// The answer of what is behind the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// The line is with the asking LLC at this time.
    At(Ps),
    /// A controller has the request; its answer goes to the core.
    Later(Ticket),
}

/// See the module header.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Behind {
    /// What lies between sockets.
    pub fabric: Fabric,
    /// Lines on their way from memory to a core.
    pub in_flight: InFlight,
    /// What the NIC has written last past the LLC.
    pub tails: Option<Box<Tails>>,
    /// Who answers for lines before DRAM, the first that has them.
    pub homes: Vec<AnyHome>,
    /// Of each socket, at once.
    pub drams: Vec<Dram>,
    /// Controllers in their place, which answer later.
    pub pending: Option<Box<PendingMemory>>,
    /// What engines in those are to copy.
    pub copies: CopyQueue,
    /// When DRAM has taken in what was written last, where that answers at once; it may long have been so.
    pub accepted: Ps,
}

impl Behind {
    /// DRAM of `spec` at each socket of `fabric`, for `cores` cores and LLCs that hit in `llc`. `path` is where the
    /// memory system stands in the scenario.
    ///
    /// # Errors
    /// As [`Dram::new`] and [`PendingMemory::new`].
    pub(super) fn new(
        spec: &MemorySpec,
        cores: u32,
        fabric: Fabric,
        llc: Ps,
        path: &str,
    ) -> Result<Behind, MachineError> {
        let path = &format!("{path}.dram");
        let homes = fabric.sockets();
        let pending = spec.dram.controller.as_ref();
        let pending = pending.map(|setting| PendingMemory::new(&spec.dram, setting, homes as u32, llc, path));
        let mut pending = pending.transpose()?.map(Box::new);
        if let Some(pending) = &mut pending
            && matches!(spec.copy_engine, Some(CopyEngineSpec::Controller { .. }))
        {
            // What it does next follows from its answers.
            pending.look_less_ahead(Ps::ZERO);
        }
        Ok(Behind {
            fabric,
            in_flight: InFlight::new(cores),
            tails: None,
            homes: Vec::new(),
            drams: (0..homes).map(|_| Dram::new(&spec.dram, path)).collect::<Result<_, _>>()?,
            pending,
            copies: CopyQueue::default(),
            accepted: Ps::ZERO,
        })
    }

    /// Whether nothing but DRAM of one socket that answers at once is there, so that devices may go row by row.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        self.pending.is_none() && !self.fabric.has_links() && self.homes.is_empty() && self.tails.is_none()
    }

    /// Whether nothing waits from now on, and nothing is taken up.
    pub(super) fn set_untimed(&mut self, untimed: bool) {
        self.fabric.untimed = untimed;
        self.in_flight.untimed = untimed;
        self.homes.iter_mut().for_each(|home| home.set_untimed(untimed));
        self.drams.iter_mut().for_each(|dram| dram.set_untimed(untimed));
        if let Some(pending) = &mut self.pending {
            pending.untimed = untimed;
        }
    }

    /// The home that answers for `line` before DRAM.
    #[inline]
    fn home_before_dram(&mut self, line: Line) -> Option<(&mut AnyHome, &mut Fabric)> {
        let Behind { homes, fabric, .. } = self;
        homes.iter_mut().find(|home| home.has(line)).map(|home| (home, fabric))
    }

    /// The socket whose DRAM has `line`, and what a read asked for at `at` takes there and back. `path` is told.
    #[inline]
    fn reach_dram(&mut self, line: Line, at: Ps, path: &mut Path) -> (usize, Ps) {
        let Behind { fabric, pending, .. } = self;
        let home = fabric.home_of(line);
        if fabric.has_links() && pending.as_ref().is_some_and(|pending| pending.is_coming_to(fabric.here(), line)) {
            // Nothing is sent for what this LLC has asked for.
            return (home, Ps::ZERO);
        }
        (home, fabric.reach(home, at, path))
    }

    /// Reads `line`, which no LLC and no private cache has, from `at` on, for a core that is to write it if `write`.
    /// `asked` is told what for, and is what the core waits with if the answer comes later.
    #[inline]
    fn read(&mut self, line: Line, write: bool, at: Ps, asked: &mut Asked) -> Fill {
        if let Some(at) = self.read_tail(line, write, at, &mut asked.path) {
            return Fill::At(at);
        }
        if let Some((home, fabric)) = self.home_before_dram(line) {
            return Fill::At(home.read(line, at, fabric, &mut asked.path));
        }
        let here = self.fabric.here();
        let (home, hops) = self.reach_dram(line, at, &mut asked.path);
        match &mut self.pending {
            Some(pending) if pending.untimed => Fill::At(at + hops + pending.touch(home, line, at)),
            Some(pending) => {
                asked.ready += hops;
                Fill::Later(pending.read(here, home, line, at + hops, asked))
            }
            None => {
                let part = |reason, time| asked.path.push(reason, time);
                Fill::At(self.drams[home].reserve(line, false, at + hops, part))
            }
        }
    }

    /// As [`Behind::read`], of an agent past all caches, whatever is on its way to them.
    pub(super) fn read_apart(&mut self, line: Line, at: Ps, asked: &mut Asked) -> Fill {
        if let Some((home, fabric)) = self.home_before_dram(line) {
            return Fill::At(home.read(line, at, fabric, &mut asked.path));
        }
        let Behind { fabric, pending, drams, .. } = self;
        let home = fabric.home_of(line);
        let hops = fabric.reach(home, at, &mut asked.path);
        match pending {
            Some(pending) if pending.untimed => Fill::At(at + hops + pending.touch(home, line, at)),
            Some(pending) => {
                asked.ready += hops;
                Fill::Later(pending.read_apart(home, line, at + hops, asked))
            }
            None => Fill::At(drams[home].reserve(line, false, at + hops, |_, _| ())),
        }
    }

    /// Reads `line` for a device, or for an engine, whatever caches and tails have of it: when it is there, or `at` if
    /// that will be known later.
    #[inline]
    pub(super) fn read_memory(&mut self, line: Line, at: Ps) -> Ps {
        self.read_behind(line, at, |pending, here, home, reached| {
            pending.read_for_device(here, home, line, reached);
            at
        })
    }

    /// As [`Behind::read_memory`], for an engine in the controllers, whatever else is under way.
    pub(super) fn read_alone(&mut self, line: Line, at: Ps) -> Ps {
        self.read_behind(line, at, |pending, _, home, reached| {
            pending.read_alone(home, line, reached);
            at
        })
    }

    /// Reads `line` of a page table of devices from `at` on: when it is there. A controller has the request, and the answer
    /// is that of an idle channel.
    pub(super) fn read_for_walk(&mut self, line: Line, at: Ps) -> Ps {
        self.read_behind(line, at, |pending, here, home, reached| {
            reached + pending.read_for_walk(here, home, line, reached)
        })
    }

    /// Reads `line` where it lies: when it is there. `ask` asks a controller, given who asks, the home and when that is reached.
    #[inline]
    fn read_behind(&mut self, line: Line, at: Ps, ask: impl FnOnce(&mut PendingMemory, usize, usize, Ps) -> Ps) -> Ps {
        let path = &mut Path::default();
        if let Some((home, fabric)) = self.home_before_dram(line) {
            return home.read(line, at, fabric, path);
        }
        let here = self.fabric.here();
        let (home, hops) = self.reach_dram(line, at, path);
        match &mut self.pending {
            Some(pending) if pending.untimed => at + hops + pending.touch(home, line, at),
            Some(pending) => ask(pending, here, home, at + hops),
            None => self.drams[home].post(line, false, at + hops),
        }
    }

    /// Writes `line`, which is on its way to memory from `at` on: when the memory that it lies in has it, and when that is
    /// done as far as anybody waits for it.
    #[inline]
    pub(super) fn write(&mut self, line: Line, at: Ps) -> (Ps, Ps) {
        if let Some((home, fabric)) = self.home_before_dram(line) {
            let at = home.write(line, at, fabric);
            return (at, at);
        }
        let home = self.fabric.home_of(line);
        let there = at + self.fabric.send_home(home, at);
        let done = match &mut self.pending {
            Some(pending) => pending.write(home, line, there),
            None => {
                let done = self.drams[home].post(line, true, there);
                self.accepted = self.drams[home].accepted();
                done
            }
        };
        (there, done)
    }

    /// Writes `line`, which caches have given up by `clear`, with the data of `source`, as [`Behind::write`]: once they are there, if they
    /// are on their way from a controller.
    pub(super) fn write_after(&mut self, source: Line, line: Line, clear: Ps) {
        let home = self.fabric.home_of(line);
        let is_drams = !self.homes.iter().any(|home| home.has(line));
        if let Some(pending) = self.pending.as_mut().filter(|_| is_drams) {
            let way = self.fabric.send_home(home, clear);
            if !pending.write_after(source, line, (home, way), clear) {
                pending.write(home, line, clear + way);
            }
            return;
        }
        self.write(line, clear);
    }

    /// DRAM counters over all time.
    pub(super) fn dram_counters(&self) -> DramCounters {
        let at_once = || self.drams.iter().fold(DramCounters::default(), |sum, dram| sum + dram.counters());
        self.pending.as_ref().map_or_else(at_once, |pending| pending.counters())
    }

    /// What DRAM has done up to `now` that takes energy.
    pub(super) fn dram_work(&self, now: Ps) -> EnergyEvents {
        let at_once = || {
            let mut work = EnergyEvents::default();
            self.drams.iter().for_each(|dram| work += dram.work(now));
            work
        };
        self.pending.as_ref().map_or_else(at_once, |pending| pending.work(now))
    }

    /// The DRAM's peak in bytes a second.
    pub(super) fn peak_bytes_per_s(&self) -> f64 {
        let at_once = || self.drams.iter().map(Dram::peak_bytes_per_s).sum();
        self.pending.as_ref().map_or_else(at_once, |pending| pending.peak_bytes_per_s())
    }
}

/// Tails, as who asks what is behind sees them.
impl Behind {
    /// What the tails have of `line` is out of date.
    #[inline]
    pub(super) fn supersede(&mut self, line: Line) {
        if let Some(tails) = &mut self.tails {
            tails.supersede(line);
        }
    }

    /// Whether a tail has `line`.
    #[inline]
    pub(super) fn tail_has(&self, line: Line) -> bool {
        self.tails.as_ref().is_some_and(|tails| tails.has(line))
    }

    /// Reads `line` for a core at `at` if a tail has it: when it is there. The tail keeps it unless the core is to write it.
    #[inline]
    fn read_tail(&mut self, line: Line, write: bool, at: Ps, path: &mut Path) -> Option<Ps> {
        let tails = self.tails.as_deref_mut().filter(|tails| tails.has(line))?;
        tails.answered(write);
        Some(at + self.fabric.reach_nic(at, path))
    }
}

/// Fills under way, as who asks what is behind sees them.
impl Behind {
    /// A device wants `line`, which a cache has: it may be on its way.
    #[inline]
    pub(super) fn join_for_device(&mut self, line: Line) {
        if let Some(pending) = &mut self.pending {
            pending.join_for_device(line);
        }
    }

    /// A device has written all of `line`: who asks for it from now on does not wait for DRAM.
    #[inline]
    pub(super) fn overwritten(&mut self, line: Line) {
        if let Some(pending) = &mut self.pending {
            pending.overwritten(line);
        }
    }

    /// A core has found `line`: what it waits under where that is still on its way.
    #[inline]
    pub(super) fn join(&mut self, line: Line, asked: &Asked) -> Option<Ticket> {
        self.pending.as_mut()?.join(line, asked)
    }
}

impl Hierarchy {
    /// Reads `line`, which no cache of the asking socket and no private cache has, from `at` on, for a core that is to
    /// write it if `write`. `asked` is told what for, and is what the core waits with if the answer comes later.
    #[inline]
    pub(super) fn read_behind(&mut self, line: Line, write: bool, at: Ps, asked: &mut Asked) -> Fill {
        if self.has_sockets()
            && let Some(at) = self.read_from_other_llc(line, write, at, &mut asked.path)
        {
            return self.come_with(line, at, asked);
        }
        self.behind.read(line, write, at, asked)
    }

    /// The tags of another socket's LLC have `line`, which would be here at `at`; its data may still be on their way there.
    fn come_with(&mut self, line: Line, mut at: Ps, asked: &mut Asked) -> Fill {
        let ready = at + asked.distance;
        if let Some(until) = self.behind.in_flight.get(line, ready) {
            asked.path.push(Reason::Mshr, until - ready);
            at += until - ready;
        }
        asked.ready = at + asked.distance;
        match self.behind.join(line, asked) {
            Some(ticket) => Fill::Later(ticket),
            None => Fill::At(at),
        }
    }

    /// Reads `line` for a device, or for an engine: when it is there, or `at` if that will be known later.
    #[inline]
    pub(super) fn read_for_device(&mut self, line: Line, at: Ps) -> Ps {
        if self.behind.tails.is_some() && self.bypasses(line) {
            return at;
        }
        if self.has_sockets()
            && let Some(at) = self.read_from_other_llc(line, false, at, &mut Path::default())
        {
            self.behind.join_for_device(line);
            return at;
        }
        self.behind.read_memory(line, at)
    }

    /// Writes `line`, which the LLC gives up at `now`: its data are read first. When the memory that it lies in has it.
    #[inline]
    pub(super) fn post_victim(&mut self, line: Line, now: Ps) -> Ps {
        self.behind.supersede(line);
        let read = if self.behind.pending.is_some() { self.llc.latency() } else { Ps::ZERO };
        self.behind.write(line, now + read).0
    }
}
