//! By which protocol private caches are kept coherent. States change alike in all of them; who is asked, and when answers come,
//! differs.

use serde::{Deserialize, Serialize};
use stats::Path;
use units::{CoreId, Line, Ps};

use super::llc::{Coherence, LlcSpec, Requester, Spot};
use super::snooping::{Cast, MesiState, SnoopCounters, Snooping};
use super::{Hierarchy, Private};
use crate::MachineError;

/// See the module header.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Protocol {
    /// Those are asked that a directory names, past the wires; an answer takes so long.
    Directory { answer: Ps },
    /// All are asked, and answer, over the wires.
    Snoop(Box<Snooping>),
}

impl Protocol {
    /// That of `spec`, of cores on the sockets that `of` has them on, of which there are `sockets`; `own` is what the caches of a core
    /// take to miss.
    ///
    /// # Errors
    /// Snooping without wires to broadcast over.
    pub(super) fn new(
        spec: &LlcSpec,
        of: &[u8],
        sockets: usize,
        own: Ps,
        path: &str,
    ) -> Result<Protocol, MachineError> {
        Ok(match spec.coherence {
            Coherence::Directory => Protocol::Directory { answer: spec.snoop.ps() },
            Coherence::Snoop => Protocol::Snoop(Box::new(Snooping::new(spec, of, sockets, own, path)?)),
        })
    }

    /// Whether all private caches hear of a request.
    #[inline(always)]
    pub(super) fn asks_all(&self) -> bool {
        matches!(self, Protocol::Snoop(_))
    }

    /// What an answer of a core takes that the directory has named; nothing where answers have come over the wires.
    #[inline(always)]
    pub(super) fn answer(&self) -> Ps {
        match self {
            Protocol::Directory { answer } => *answer,
            Protocol::Snoop(_) => Ps::ZERO,
        }
    }

    /// What snooping has done so far; [`None`] where a directory knows.
    pub(super) fn counters(&self) -> Option<SnoopCounters> {
        match self {
            Protocol::Directory { .. } => None,
            Protocol::Snoop(snooping) => Some(snooping.counters()),
        }
    }

    /// Puts `counters` in place of [`Protocol::counters`].
    pub(super) fn set_counters(&mut self, counters: Option<SnoopCounters>) {
        if let (Protocol::Snoop(snooping), Some(counters)) = (self, counters) {
            snooping.set_counters(counters);
        }
    }

    /// Whether nothing takes the wires from now on.
    pub(super) fn set_untimed(&mut self, untimed: bool) {
        if let Protocol::Snoop(snooping) = self {
            snooping.set_untimed(untimed);
        }
    }
}

impl Private {
    fn state(&self, line: Line) -> MesiState {
        let of = |array: &crate::cache::TagArray| match array.find(line) {
            None => MesiState::Invalid,
            Some(slot) if array.is_dirty(slot) => MesiState::Modified,
            Some(slot) if array.is_exclusive(slot) => MesiState::Exclusive,
            Some(_) => MesiState::Shared,
        };
        of(&self.l1).max(of(&self.l2))
    }
}

impl Hierarchy {
    /// The state of `line` in the private caches of `core`; invalid of a core that there is not.
    pub fn state(&self, core: CoreId, line: Line) -> MesiState {
        self.cores.get(usize::from(core.0)).map_or(MesiState::Invalid, |private| private.state(line))
    }

    /// What snooping has done so far; [`None`] where a directory knows.
    pub fn snoop_counters(&self) -> Option<SnoopCounters> {
        self.protocol.counters()
    }

    /// All that are asked hear of a request of `from` for the line at `spot`.
    #[inline(always)]
    pub(super) fn cast(&mut self, spot: Spot, from: Requester, now: Ps) -> Cast {
        match &mut self.protocol {
            Protocol::Directory { .. } => Cast::default(),
            Protocol::Snoop(snooping) => snooping.broadcast(&mut self.behind.fabric, from, spot.slice() as u32, now),
        }
    }

    /// The core has been looked up for `line` on behalf of `from`, which takes it away if it writes.
    #[inline(always)]
    pub(super) fn looked_up(&mut self, core: usize, line: Line, write: bool, from: Requester) {
        if let Protocol::Snoop(snooping) = &mut self.protocol {
            let state = self.cores[core].state(line);
            snooping.found(&self.behind.fabric, core as u32, state, write, from);
        }
    }

    /// All of `sharers` have been looked up for `line` on behalf of a device.
    #[inline(never)]
    pub(super) fn looked_up_for_device(&mut self, mut sharers: u64, line: Line, write: bool) {
        while sharers != 0 {
            self.looked_up(sharers.trailing_zeros() as usize, line, write, Requester::Device);
            sharers &= sharers - 1;
        }
    }

    /// Whether one of `sharers` has `line` as nobody else does now.
    pub(super) fn is_modified(&self, line: Line, mut sharers: u64) -> bool {
        while sharers != 0 {
            if self.cores[sharers.trailing_zeros() as usize].state(line) == MesiState::Modified {
                return true;
            }
            sharers &= sharers - 1;
        }
        false
    }

    /// When the line of the present request, made at `now`, is with `to` from the core that supplies it, and on what the
    /// time was spent; [`None`] where a directory knows.
    #[inline]
    pub(super) fn supplied(&mut self, to: Requester, now: Ps) -> Option<(Ps, Path)> {
        match &mut self.protocol {
            Protocol::Directory { .. } => None,
            Protocol::Snoop(snooping) => {
                snooping.supplied(&mut self.behind.fabric, to, now, &mut self.llc, &mut self.others)
            }
        }
    }

    /// The modified line of the present request, which its owner has sent to who reads it, goes to the LLC at `spot` as well. On a
    /// bus that hears what goes to the reader.
    #[inline]
    pub(super) fn brings_llc_up_to_date(&mut self, spot: Spot) {
        if let Protocol::Snoop(snooping) = &self.protocol {
            snooping.bring_up_to_date(&self.behind.fabric, spot, &mut self.llc);
        }
    }

    /// When `to` hears from the slice at `spot` that all have answered to the present request, which was made by `cast`.
    pub(super) fn acknowledged(&self, cast: Cast, spot: Spot, to: Requester) -> Ps {
        let way = match &self.protocol {
            Protocol::Directory { .. } => Ps::ZERO,
            Protocol::Snoop(snooping) => snooping.way(self.behind.fabric.here(), spot, to),
        };
        cast.answered + way
    }
}
