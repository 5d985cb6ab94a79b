//! By which protocol private caches are kept coherent. States change alike in all of them; who is asked, and when answers come,
//! differs.

use serde::{Deserialize, Serialize};
use units::Ps;

use super::llc::{Coherence, LlcSpec, Requester, Spot};
use super::snooping::{Cast, SnoopCounters, Snooping};
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
    /// That of `spec`; `own` is what the caches of a core take to miss.
    ///
    /// # Errors
    /// Snooping without wires to broadcast over.
    pub(super) fn new(spec: &LlcSpec, cores: u32, own: Ps, path: &str) -> Result<Protocol, MachineError> {
        Ok(match spec.coherence {
            Coherence::Directory => Protocol::Directory { answer: spec.snoop.ps() },
            Coherence::Snoop => Protocol::Snoop(Box::new(Snooping::new(spec, cores, own, path)?)),
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

    /// All that are asked hear of a request for the line at `spot`.
    #[inline(always)]
    pub(super) fn cast(&mut self, spot: Spot, from: Requester, now: Ps) -> Cast {
        match self {
            Protocol::Directory { .. } => Cast::default(),
            Protocol::Snoop(snooping) => snooping.broadcast(from, spot.slice() as u32, now),
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
