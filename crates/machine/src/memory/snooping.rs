//! Snooping: requests that every private cache hears of.
//!
//! What misses a core's L2, what a core wants to write and has only shared, and every line of a device's access is broadcast
//! from the requester's stop over the interconnect's wires for addresses. Each link, or the bus, carries one address at a
//! time and takes a hop's time for it. Every other core looks its private caches up and answers; answers are gathered at the
//! line's slice, which gives nothing out and asks nobody else before the last is in (a wired OR, as far away as the farthest
//! core). A modified line comes from its owner straight over the wires for data; a line that is exclusive or shared comes
//! from the LLC if that has it, or else from the core whose answer is there first (the Illinois protocol: Papamarcos and Patel,
//! ISCA 1984, "A low-overhead coherence solution for multiprocessors with private cache memories"; states as in Culler, Singh
//! and Gupta, Parallel Computer Architecture, 1999, 5.3). A read leaves the line shared and brings the LLC up to date, a write
//! leaves the writer alone with it, a device's read changes nothing. The LLC's copy of a modified line follows the reader's on the
//! wires; on a bus the LLC hears that one.
//!
//! States change as with the directory, which stays to say who has to be looked up here; what differs is when answers
//! come. Left out: snoop filters, reading memory before the answers are in, wires for answers that are busy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Path, Reason};
use units::{CoreId, Line, Ps};

use super::llc::{LlcSpec, Requester, Spot, Stops};
use super::protocol::Protocol;
use super::wires::Wires;
use super::{Hierarchy, Private};
use crate::MachineError;

/// The state of a line in the private caches of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MesiState {
    /// Not there.
    Invalid,
    /// There, as it is in the LLC or in memory; others may have it.
    Shared,
    /// There, as it is in the LLC or in memory; nobody else has it.
    Exclusive,
    /// There, and nowhere else as it is now.
    Modified,
}

/// What snooping has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Sub, Serialize, Deserialize, JsonSchema)]
pub struct SnoopCounters {
    /// Requests that all private caches heard of.
    pub broadcasts: u64,
    /// Private caches that were looked up for them: those of a core count as one.
    pub lookups: u64,
    /// Lines that came from a core, by the state in which it had them.
    pub supplied: Supplied,
    /// Lines that cores gave up for others that write, one for each core.
    pub invalidations: u64,
    /// Time that broadcasts waited for the wires, each as long as the core that heard of it last.
    #[serde(rename = "waited_ns", with = "units::as_ns")]
    #[schemars(with = "f64")]
    pub waited: Ps,
}

/// Lines that came from a core, by the state in which it had them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Sub, Serialize, Deserialize, JsonSchema)]
pub struct Supplied {
    /// Modified.
    pub modified: u64,
    /// Exclusive.
    pub exclusive: u64,
    /// Shared.
    pub shared: u64,
}

crate::whole!(whole: SnoopCounters { broadcasts, lookups, supplied, invalidations, waited });

/// A broadcast; all zeros where a directory knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cast {
    /// What it waited for the wires on its way to the line's slice.
    pub waited: Ps,
    /// When all answers are at the line's slice.
    pub answered: Ps,
}

/// See the module header.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Snooping {
    /// For addresses.
    wires: Wires,
    cores: usize,
    device: u32,
    /// What a private cache takes to answer.
    lookup: Ps,
    /// What a core's own caches take to miss.
    own: Ps,
    /// When each stop heard of the present request.
    heard: Vec<Ps>,
    /// Who supplies the line of the present request if a private cache does, and when its data leave.
    supplier: Option<(u32, MesiState, Ps)>,
    #[serde(with = "whole")]
    counters: SnoopCounters,
}

impl Snooping {
    /// # Errors
    /// No wires to broadcast over.
    pub(super) fn new(spec: &LlcSpec, cores: u32, own: Ps, path: &str) -> Result<Snooping, MachineError> {
        let Some(stops) = Stops::of(spec, cores, path)? else {
            return Err(MachineError::new(
                format!("{path}.coherence"),
                "snoop without interconnect",
                "snoop with wires to broadcast over",
                format!("set {path}.interconnect = {{topology = \"ring\", hop = \"0.5 ns\"}}, or mesh, or bus"),
            ));
        };
        Ok(Snooping {
            wires: Wires::new(stops.shape, stops.count, stops.hop, stops.hop),
            cores: cores as usize,
            device: stops.device,
            lookup: spec.snoop.ps(),
            own,
            heard: Vec::new(),
            supplier: None,
            counters: SnoopCounters::default(),
        })
    }

    /// Whether nothing takes the wires from now on.
    pub(super) fn set_untimed(&mut self, untimed: bool) {
        self.wires.untimed = untimed;
    }

    pub(super) fn counters(&self) -> SnoopCounters {
        self.counters
    }

    pub(super) fn set_counters(&mut self, counters: SnoopCounters) {
        self.counters = counters;
    }

    fn stop(&self, of: Requester) -> u32 {
        match of {
            Requester::Core(core) => u32::from(core.0),
            Requester::Device => self.device,
        }
    }

    /// When `core` has answered to a request of `from`, or its data leave.
    fn answer_of(&self, core: u32, from: Requester) -> Ps {
        let own = if matches!(from, Requester::Core(_)) { self.own } else { Ps::ZERO };
        self.heard[core as usize] + own + self.lookup
    }

    pub(super) fn broadcast(&mut self, from: Requester, slice: u32, now: Ps) -> Cast {
        let stop = self.stop(from);
        self.supplier = None;
        self.wires.broadcast(stop, now, &mut self.heard);
        let mut answered = Ps::ZERO;
        let mut waited = Ps::ZERO;
        for core in
            (0..self.cores as u32).filter(|&core| !matches!(from, Requester::Core(me) if u32::from(me.0) == core))
        {
            self.counters.lookups += 1;
            waited = waited.max(self.heard[core as usize].since(now + self.wires.distance(stop, core)));
            answered = answered.max(self.answer_of(core, from) + self.wires.distance(core, slice));
        }
        self.counters.broadcasts += 1;
        self.counters.waited += waited;
        let at_slice = self.heard[slice as usize].since(now + self.wires.distance(stop, slice));
        Cast { waited: at_slice, answered }
    }

    /// `core` has the line of a request of `from` in `state`.
    fn found(&mut self, core: u32, state: MesiState, from: Requester) {
        if state == MesiState::Invalid {
            return;
        }
        let leaves = self.answer_of(core, from);
        let there = leaves + self.wires.distance(core, self.stop(from));
        let best = self.supplier.map(|(core, _, leaves)| leaves + self.wires.distance(core, self.stop(from)));
        if best.is_none_or(|best| there < best) {
            self.supplier = Some((core, state, leaves));
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

    /// The core has been looked up for `line` on behalf of `from`, which takes it away if it writes.
    #[inline(always)]
    pub(super) fn looked_up(&mut self, core: usize, line: Line, write: bool, from: Requester) {
        if let Protocol::Snoop(snooping) = &mut self.protocol {
            let state = self.cores[core].state(line);
            snooping.found(core as u32, state, from);
            snooping.counters.invalidations += u64::from(write && state != MesiState::Invalid);
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
        let Protocol::Snoop(snooping) = &mut self.protocol else { return None };
        let (core, state, leaves) = snooping.supplier?;
        match state {
            MesiState::Modified => snooping.counters.supplied.modified += 1,
            MesiState::Exclusive => snooping.counters.supplied.exclusive += 1,
            MesiState::Shared | MesiState::Invalid => snooping.counters.supplied.shared += 1,
        }
        let there = snooping.stop(to);
        let way = snooping.wires.distance(core, there) + self.llc.carry_between(core, there, leaves);
        let heard = snooping.heard[core as usize].since(now);
        let mut path = Path::of(Reason::Interconnect, heard + way);
        path.push(Reason::Snoop, leaves.since(now + heard));
        Some((leaves + way, path))
    }

    /// The modified line of the present request, which its owner has sent to who reads it, goes to the LLC at `spot` as well. On a
    /// bus that hears what goes to the reader.
    #[inline]
    pub(super) fn brings_llc_up_to_date(&mut self, spot: Spot) {
        if let Protocol::Snoop(snooping) = &self.protocol
            && !snooping.wires.are_heard_by_all()
            && let Some((owner, _, leaves)) = snooping.supplier
        {
            self.llc.carry_between(owner, spot.slice() as u32, leaves);
        }
    }

    /// When `to` hears from the slice at `spot` that all have answered to the present request, which was made by `cast`.
    pub(super) fn acknowledged(&self, cast: Cast, spot: Spot, to: Requester) -> Ps {
        let way = match &self.protocol {
            Protocol::Directory { .. } => Ps::ZERO,
            Protocol::Snoop(snooping) => snooping.wires.distance(spot.slice() as u32, snooping.stop(to)),
        };
        cast.answered + way
    }
}
