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
//! On several sockets a request goes over the links to all others at once, and is broadcast there from the stop of devices,
//! where links come in. A socket's answers are gathered at that stop and come back as one message; data of its private caches come
//! by the same way. So nobody is asked a second time for a line to be given up.
//!
//! States change as with the directory, which stays to say who has to be looked up here; what differs is when answers
//! come. Left out: snoop filters, reading memory before the answers are in, wires for answers that are busy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Path, Reason};
use units::Ps;

use super::fabric::Fabric;
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

/// The wires for addresses of a socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SocketWires {
    wires: Wires,
    /// The stop of devices, and of links to other sockets.
    door: u32,
    /// Its cores, each at the stop of its place here.
    cores: Vec<u32>,
    /// When the present request came here, and each stop heard of it.
    reached: Ps,
    heard: Vec<Ps>,
}

/// See the module header.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Snooping {
    sockets: Vec<SocketWires>,
    /// The socket and the stop of each core.
    seats: Vec<(usize, u32)>,
    /// What a private cache takes to answer.
    lookup: Ps,
    /// What a core's own caches take to miss.
    own: Ps,
    /// Who supplies the line of the present request if a private cache does, and when its data leave.
    supplier: Option<(u32, MesiState, Ps)>,
    /// From which stop of the socket that asks they go on, and when; within a request.
    #[serde(skip)]
    sent: Option<(u32, Ps)>,
    #[serde(with = "whole")]
    counters: SnoopCounters,
}

impl Snooping {
    /// Cores on the sockets that `of` has them on, of which there are `sockets`; `own` is what a core's own caches take to miss.
    ///
    /// # Errors
    /// No wires to broadcast over.
    pub(super) fn new(
        spec: &LlcSpec,
        of: &[u8],
        sockets: usize,
        own: Ps,
        path: &str,
    ) -> Result<Snooping, MachineError> {
        let mut all = Vec::with_capacity(sockets);
        let mut seats = vec![(0, 0); of.len()];
        for socket in 0..sockets {
            let cores: Vec<u32> = (0..of.len() as u32).filter(|&c| usize::from(of[c as usize]) == socket).collect();
            for (stop, &core) in cores.iter().enumerate() {
                seats[core as usize] = (socket, stop as u32);
            }
            let Some(stops) = Stops::of(spec, cores.len().max(1) as u32, path)? else {
                return Err(MachineError::new(
                    format!("{path}.coherence"),
                    "snoop without interconnect",
                    "snoop with wires to broadcast over",
                    format!("set {path}.interconnect = {{topology = \"ring\", hop = \"0.5 ns\"}}, or mesh, or bus"),
                ));
            };
            let wires = Wires::new(stops.shape, stops.count, stops.hop, stops.hop);
            all.push(SocketWires { wires, door: stops.device, cores, reached: Ps::ZERO, heard: Vec::new() });
        }
        Ok(Snooping {
            sockets: all,
            seats,
            lookup: spec.snoop.ps(),
            own,
            supplier: None,
            sent: None,
            counters: SnoopCounters::default(),
        })
    }

    /// Whether nothing takes the wires from now on.
    pub(super) fn set_untimed(&mut self, untimed: bool) {
        self.sockets.iter_mut().for_each(|socket| socket.wires.untimed = untimed);
    }

    pub(super) fn counters(&self) -> SnoopCounters {
        self.counters
    }

    pub(super) fn set_counters(&mut self, counters: SnoopCounters) {
        self.counters = counters;
    }

    /// The stop of `of`, which asks from socket `here`.
    fn stop(&self, of: Requester, here: usize) -> u32 {
        match of {
            Requester::Core(core) => self.seats[usize::from(core.0)].1,
            Requester::Device => self.sockets[here].door,
        }
    }

    /// From when a core hears of a request of `from` until it has answered, or its data leave.
    fn answers_in(&self, from: Requester) -> Ps {
        self.lookup + if matches!(from, Requester::Core(_)) { self.own } else { Ps::ZERO }
    }

    /// All of `socket` hear of a request of `from` from `stop` on at `now`: when the last answer is at stop `gathered`, and what
    /// the wires held up whom they held up longest.
    fn tell(&mut self, socket: usize, from: Requester, stop: u32, gathered: u32, now: Ps) -> (Ps, Ps) {
        let takes = self.answers_in(from);
        let SocketWires { wires, cores, reached, heard, .. } = &mut self.sockets[socket];
        *reached = now;
        wires.broadcast(stop, now, heard);
        let (mut answered, mut waited) = (Ps::ZERO, Ps::ZERO);
        for (&core, there) in cores.iter().zip(0u32..) {
            if matches!(from, Requester::Core(me) if u32::from(me.0) == core) {
                continue;
            }
            let heard = heard[there as usize];
            waited = waited.max(heard.since(now + wires.distance(stop, there)));
            answered = answered.max(heard + takes + wires.distance(there, gathered));
            self.counters.lookups += 1;
        }
        (answered, waited)
    }

    pub(super) fn broadcast(&mut self, fabric: &mut Fabric, from: Requester, slice: u32, now: Ps) -> Cast {
        let here = fabric.here();
        let stop = self.stop(from, here);
        self.supplier = None;
        let (mut answered, mut waited) = self.tell(here, from, stop, slice, now);
        for socket in (0..self.sockets.len()).filter(|&socket| socket != here) {
            let there = now + fabric.send(here, socket, false, now);
            let door = self.sockets[socket].door;
            let (last, held) = self.tell(socket, from, door, door, there);
            waited = waited.max(held);
            let last = last.max(there);
            let back = last + fabric.send(socket, here, false, last);
            let SocketWires { wires, door, .. } = &self.sockets[here];
            answered = answered.max(back + wires.distance(*door, slice));
        }
        self.counters.broadcasts += 1;
        self.counters.waited += waited;
        let SocketWires { wires, heard, .. } = &self.sockets[here];
        let at_slice = heard[slice as usize].since(now + wires.distance(stop, slice));
        Cast { waited: at_slice, answered }
    }

    /// What data of `core` take to `to` at the socket that asks, if nothing is in the way.
    fn way_from(&self, fabric: &Fabric, core: u32, to: Requester) -> Ps {
        let here = fabric.here();
        let ((socket, stop), there) = (self.seats[core as usize], self.stop(to, here));
        let SocketWires { wires, door, .. } = &self.sockets[here];
        if socket == here {
            return wires.distance(stop, there);
        }
        let out = &self.sockets[socket];
        out.wires.distance(stop, out.door) + fabric.way_of_data() + wires.distance(*door, there)
    }

    /// `core` has the line of a request of `from` in `state`, and gives it up if that is a `write`.
    pub(super) fn found(&mut self, fabric: &Fabric, core: u32, state: MesiState, write: bool, from: Requester) {
        if state == MesiState::Invalid {
            return;
        }
        self.counters.invalidations += u64::from(write);
        let (socket, stop) = self.seats[core as usize];
        let leaves = self.sockets[socket].heard[stop as usize] + self.answers_in(from);
        let there = leaves + self.way_from(fabric, core, from);
        let best = self.supplier.map(|(core, _, leaves)| leaves + self.way_from(fabric, core, from));
        if best.is_none_or(|best| there < best) {
            self.supplier = Some((core, state, leaves));
        }
    }

    /// When the line of the present request, made at `now`, is with `to` from the core that supplies it, if one does, and on
    /// what the time was spent. `llc` is that of the socket that asks, `others` those of the others.
    pub(super) fn supplied(
        &mut self,
        fabric: &mut Fabric,
        to: Requester,
        now: Ps,
        llc: &mut Llc,
        others: &mut [Option<Llc>],
    ) -> Option<(Ps, Path)> {
        let (core, state, leaves) = self.supplier?;
        match state {
            MesiState::Modified => self.counters.supplied.modified += 1,
            MesiState::Exclusive => self.counters.supplied.exclusive += 1,
            MesiState::Shared | MesiState::Invalid => self.counters.supplied.shared += 1,
        }
        let here = fabric.here();
        let (socket, stop) = self.seats[core as usize];
        let SocketWires { wires, door, reached, heard, .. } = &self.sockets[socket];
        let looked_up = leaves.since(now.max(heard[stop as usize]));
        let (mut from, mut at, mut link) = (stop, leaves, Ps::ZERO);
        if socket != here {
            fabric.count_snoop();
            let busy = others[socket].as_mut().map_or(Ps::ZERO, |llc| llc.carry_between(stop, *door, leaves));
            at += wires.distance(stop, *door) + busy;
            let hops = fabric.send(socket, here, true, at);
            (from, at, link) = (self.sockets[here].door, at + hops, hops + reached.since(now));
        }
        self.sent = Some((from, at));
        let there = self.stop(to, here);
        at += self.sockets[here].wires.distance(from, there) + llc.carry_between(from, there, at);
        let mut path = Path::of(Reason::Interconnect, at.since(now + link + looked_up));
        path.push(Reason::SocketLink, link);
        path.push(Reason::Snoop, looked_up);
        Some((at, path))
    }

    /// The modified line of the present request, which its owner has sent to who reads it, goes to the LLC at `spot` as well. On
    /// a bus that hears what goes to the reader.
    pub(super) fn bring_up_to_date(&self, fabric: &Fabric, spot: Spot, llc: &mut Llc) {
        if !self.sockets[fabric.here()].wires.are_heard_by_all()
            && let Some((from, at)) = self.sent
        {
            llc.carry_between(from, spot.slice() as u32, at);
        }
    }

    /// How far `to` is from the slice at `spot` of socket `here`.
    pub(super) fn way(&self, here: usize, spot: Spot, to: Requester) -> Ps {
        self.sockets[here].wires.distance(spot.slice() as u32, self.stop(to, here))
    }
}
