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
use units::Ps;

use super::llc::{Llc, LlcSpec, Requester, Spot, Stops};
use super::wires::Wires;
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

    /// `core` has the line of a request of `from` in `state`, and gives it up if that is a `write`.
    pub(super) fn found(&mut self, core: u32, state: MesiState, write: bool, from: Requester) {
        if state == MesiState::Invalid {
            return;
        }
        self.counters.invalidations += u64::from(write);
        let leaves = self.answer_of(core, from);
        let there = leaves + self.wires.distance(core, self.stop(from));
        let best = self.supplier.map(|(core, _, leaves)| leaves + self.wires.distance(core, self.stop(from)));
        if best.is_none_or(|best| there < best) {
            self.supplier = Some((core, state, leaves));
        }
    }

    /// When the line of the present request, made at `now`, is with `to` from the core that supplies it, if one does, and on
    /// what the time was spent.
    pub(super) fn supplied(&mut self, to: Requester, now: Ps, llc: &mut Llc) -> Option<(Ps, Path)> {
        let (core, state, leaves) = self.supplier?;
        match state {
            MesiState::Modified => self.counters.supplied.modified += 1,
            MesiState::Exclusive => self.counters.supplied.exclusive += 1,
            MesiState::Shared | MesiState::Invalid => self.counters.supplied.shared += 1,
        }
        let there = self.stop(to);
        let way = self.wires.distance(core, there) + llc.carry_between(core, there, leaves);
        let heard = self.heard[core as usize].since(now);
        let mut path = Path::of(Reason::Interconnect, heard + way);
        path.push(Reason::Snoop, leaves.since(now + heard));
        Some((leaves + way, path))
    }

    /// The modified line of the present request, which its owner has sent to who reads it, goes to the LLC at `spot` as well. On
    /// a bus that hears what goes to the reader.
    pub(super) fn bring_up_to_date(&self, spot: Spot, llc: &mut Llc) {
        if !self.wires.are_heard_by_all()
            && let Some((owner, _, leaves)) = self.supplier
        {
            llc.carry_between(owner, spot.slice() as u32, leaves);
        }
    }

    /// How far `to` is from the slice at `spot`.
    pub(super) fn way(&self, spot: Spot, to: Requester) -> Ps {
        self.wires.distance(spot.slice() as u32, self.stop(to))
    }
}
