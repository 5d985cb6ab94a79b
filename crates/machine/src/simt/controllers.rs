//! A GPU's own DRAM behind controllers at the level of commands: row hits first, writes gathered and drained in bursts.
//!
//! The engine is that of the server's controllers ([`crate::dram::Commanded`]), a channel each: a cap bounds how many hits of a bank
//! pass its oldest request, writes wait in a queue with two watermarks, a turn of the bus is paid once a drain. It says later when a
//! line is there, so warps wait for it as they do for the server's memory ([`super::later`]). A request is on its way to the
//! controller for half of `overhead`, and its answer as long.
//!
//! What is asked for comes in behind the clock at which it is issued, by the way to the L2 and to the controller. So channels are driven that
//! far ahead, in steps between which no warp can wake.
//!
//! **Left out**: a limit of reads under way; writes are posted, and wait before the controller where its queue is full.
//!
//! **Source**: Rixner, Dally, Kapasi, Mattson, Owens, "Memory access scheduling", ISCA 2000.

use serde::{Deserialize, Serialize};
use units::{Line, Ps, Ticket};

use super::backing::{Coming, SharedAnswer, SimtBacking, spread};
use super::spec::SimtSpec;
use crate::MachineError;
use crate::cache::{Lru, TagArray, WriteOutcome};
use crate::dram::{Commanded, DramCounters, FinishedRead};

/// Nobody waits for it: a write, or what a device reads.
const NOBODY: u64 = u64::MAX;
/// Requests that are handed in between two steps, at most, where no warp waits for one.
const UNDRIVEN: u32 = 1 << 8;

/// The L2's tags and the DRAM behind it. See the module header.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OwnControllers {
    tags: TagArray<Lru>,
    dram: Commanded,
    /// From the L2 to the controller, and back.
    there: Ps,
    back: Ps,
    /// A clock, and the clocks of an answer from the L2 to its core.
    period: u64,
    interconnect: u64,
    /// Reads that were handed in for warps, and those of them that are answered.
    asked: u64,
    answered: u64,
    undriven: u32,
    #[serde(skip)]
    finished: Vec<FinishedRead>,
    #[serde(skip)]
    accepted: Vec<(u32, Ps)>,
}

impl OwnControllers {
    /// Those of `spec`, behind an L2 with these tags; [`None`] if its memory answers in order of issue.
    ///
    /// # Errors
    /// As [`Commanded::new`].
    pub(super) fn new(spec: &SimtSpec, tags: TagArray<Lru>) -> Result<Option<OwnControllers>, MachineError> {
        let Some(dram) = spec.memory.controllers()? else { return Ok(None) };
        let overhead = spec.memory.overhead.ps();
        let there = Ps(overhead.0 / 2);
        Ok(Some(OwnControllers {
            tags,
            dram,
            there,
            back: overhead - there,
            period: spec.frequency.period().0,
            interconnect: u64::from(spec.interconnect),
            asked: 0,
            answered: 0,
            undriven: 0,
            finished: Vec::new(),
            accepted: Vec::new(),
        }))
    }

    /// The clock at which [`OwnControllers::answers`] is to be asked again, after `now`: no warp that waits for a line wakes before the one after it.
    pub(super) fn due(&self, now: u64) -> u64 {
        if self.asked == self.answered {
            return u64::MAX;
        }
        let Some(earliest) = self.dram.earliest(false) else { return u64::MAX };
        let clock = (earliest + self.back).0 / self.period + self.interconnect;
        clock.saturating_sub(1).max(now + 1)
    }

    /// Does all that is known at `now` to happen, and hands each line that comes for a warp to `told`, with when the L2 has it.
    pub(super) fn answers(&mut self, now: u64, mut told: impl FnMut(Ticket, Ps)) {
        self.drive(now);
        for done in self.finished.drain(..) {
            if done.id != NOBODY {
                self.answered += 1;
                told(Ticket(done.id), done.at + self.back);
            }
        }
    }

    /// A device writes or reads a line at clock `now`: whether the DRAM does.
    pub(super) fn device(&mut self, line: Line, write: bool, now: u64) -> bool {
        if write {
            self.tags.remove(line);
        } else if self.tags.find(line).is_some() {
            return false;
        }
        if self.asked == self.answered && self.undriven >= UNDRIVEN {
            self.settle(now);
        }
        self.hand_in(NOBODY, line, write, Ps(now * self.period));
        true
    }

    /// Does all that is known at `now` to happen, where no warp waits.
    pub(super) fn settle(&mut self, now: u64) {
        self.drive(now);
        self.finished.clear();
    }

    pub(super) fn counters(&self) -> DramCounters {
        self.dram.counters()
    }

    pub(super) fn peak_bytes_per_s(&self) -> f64 {
        self.dram.peak_bytes_per_s()
    }

    /// As [`crate::dram::Dram::unloaded_miss`], up to a clock of the DRAM more.
    pub(super) fn unloaded_miss(&self) -> Ps {
        self.there + self.back + self.dram.unloaded_miss()
    }

    fn drive(&mut self, now: u64) {
        self.undriven = 0;
        self.dram.drive(Ps(now * self.period) + self.there, &mut self.finished, &mut self.accepted);
        self.accepted.clear();
    }

    fn hand_in(&mut self, id: u64, line: Line, write: bool, now: Ps) {
        self.undriven += 1;
        self.dram.hand_in(id, 0, line, write, false, now + self.there);
    }
}

impl SimtBacking for OwnControllers {
    const IS_SHARED: bool = true;
    const IN_ORDER_OF_TIME: bool = false;
    const IS_SPREAD: bool = true;

    #[inline]
    fn place(&self, line: u32) -> Line {
        Line(spread(line).into())
    }

    #[inline]
    fn use_line(&mut self, line: Line, write: bool, now: Ps) -> SharedAnswer {
        let (at, found) = self.tags.place(line, write);
        let slot = Some(at);
        let WriteOutcome::Filled(out) = found else { return SharedAnswer { slot, comes: Coming::There } };
        let comes = if write {
            Coming::At(now)
        } else {
            let ticket = self.asked;
            self.asked += 1;
            self.hand_in(ticket, line, false, now);
            Coming::Later(Ticket(ticket))
        };
        if let Some(out) = out.ok().flatten().filter(|out| out.dirty) {
            self.hand_in(NOBODY, out.line, true, now);
        }
        SharedAnswer { slot, comes }
    }

    #[inline]
    fn next_answer(&self) -> Ps {
        // Who steps the shader cores asks for answers first.
        Ps::MAX
    }
}

#[cfg(test)]
#[path = "controllers_tests.rs"]
mod tests;
