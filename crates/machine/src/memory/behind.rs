//! What is behind the caches of a socket, and who answers for a line that they have not: another socket's LLC, what the NIC
//! has written last past the LLC, a stacked DRAM, or the DRAM that the line is homed at, at once or by its controllers.
//!
//! One way down for all who ask: a core that misses, one whose application skips the LLC, a copy's source, a device, an
//! engine. So each of these goes with each home.

use stats::{Path, Reason};
use units::{Line, Ps, Ticket};

use super::Hierarchy;
use super::pending::Asked;

/// The answer of what is behind the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// The line is with the asking LLC at this time.
    At(Ps),
    /// A controller has the request; its answer goes to the core.
    Later(Ticket),
}

impl Hierarchy {
    /// Reads `line`, which no cache of the asking socket and no private cache has, from `at` on, for a core that is to
    /// write it if `write`. `asked` is told what for, and is what the core waits with if the answer comes later.
    #[inline]
    pub(super) fn read_behind(&mut self, line: Line, write: bool, at: Ps, asked: &mut Asked) -> Fill {
        if self.sockets.is_some()
            && let Some(at) = self.read_from_other_llc(line, write, at, &mut asked.path)
        {
            return self.come_with(line, at, asked);
        }
        if self.tails.is_some() && self.tail_has(line) {
            self.answered_by_tail(write);
            return Fill::At(at + self.reach_tails(at, &mut asked.path));
        }
        if let Some(at) = self.read_stacked(line, at, &mut asked.path) {
            return Fill::At(at);
        }
        let here = self.socket_here();
        let (home, hops) = self.reach_home(line, at, &mut asked.path);
        match &mut self.pending {
            Some(pending) if pending.untimed => Fill::At(at + hops + pending.touch(home, line)),
            Some(pending) => {
                asked.ready += hops;
                Fill::Later(pending.read(here, home, line, at + hops, asked))
            }
            None => Fill::At(
                self.dram_of(home).reserve(line, false, at + hops, |reason, time| asked.path.push(reason, time)),
            ),
        }
    }

    /// The tags of another socket's LLC have `line`, which would be here at `at`; its data may still be on their way there.
    fn come_with(&mut self, line: Line, mut at: Ps, asked: &mut Asked) -> Fill {
        let ready = at + asked.distance;
        if let Some(until) = self.in_flight.get(line, ready) {
            asked.path.push(Reason::Mshr, until - ready);
            at += until - ready;
        }
        asked.ready = at + asked.distance;
        match self.join(line, asked) {
            Some(ticket) => Fill::Later(ticket),
            None => Fill::At(at),
        }
    }

    /// Reads `line` for a device, or for an engine: when it is there, or `at` if that will be known later.
    #[inline]
    pub(super) fn read_for_device(&mut self, line: Line, at: Ps) -> Ps {
        let path = &mut Path::default();
        if self.tails.is_some() && self.bypasses(line) {
            return at;
        }
        if self.sockets.is_some()
            && let Some(at) = self.read_from_other_llc(line, false, at, path)
        {
            self.join_for_device(line);
            return at;
        }
        self.read_memory(line, at)
    }

    /// As [`Hierarchy::read_for_device`], whatever caches and tails have of `line`.
    #[inline]
    pub(super) fn read_memory(&mut self, line: Line, at: Ps) -> Ps {
        let path = &mut Path::default();
        if let Some(at) = self.read_stacked(line, at, path) {
            return at;
        }
        let here = self.socket_here();
        let (home, hops) = self.reach_home(line, at, path);
        match &mut self.pending {
            Some(pending) if pending.untimed => at + hops + pending.touch(home, line),
            Some(pending) => {
                pending.read_for_device(here, home, line, at + hops);
                at
            }
            None if self.sockets.is_some() => {
                self.dram_of(home).reserve(line, false, at + hops, |reason, time| path.push(reason, time))
            }
            None => self.dram.post(line, false, at),
        }
    }

    /// Writes `line`, which the LLC gives up at `now`: its data are read first. When the memory that it lies in has it.
    #[inline]
    pub(super) fn post_victim(&mut self, line: Line, now: Ps) -> Ps {
        if self.tails.is_some() {
            self.supersede(line);
        }
        let read = if self.pending.is_some() { self.llc.latency() } else { Ps::ZERO };
        self.hand_in(line, now + read).0
    }

    /// Writes `line`, which is on its way to DRAM from `at` on: when that is done, as far as anybody waits for it.
    #[inline]
    pub(super) fn post_write(&mut self, line: Line, at: Ps) -> Ps {
        self.hand_in(line, at).1
    }

    /// As [`Hierarchy::post_write`]: when the memory that `line` lies in has it, and when that is done.
    #[inline]
    pub(super) fn hand_in(&mut self, line: Line, at: Ps) -> (Ps, Ps) {
        if let Some(at) = self.write_stacked(line, at) {
            return (at, at);
        }
        let (home, hop) = self.send_home(line, at);
        let there = at + hop;
        let done = match &mut self.pending {
            Some(pending) => pending.write(home, line, there),
            None => self.dram_of(home).post(line, true, there),
        };
        (there, done)
    }
}
