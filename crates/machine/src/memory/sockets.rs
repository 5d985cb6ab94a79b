//! Several sockets: each has an LLC and DRAM channels of its own, and a link to each of the others.
//!
//! A core looks into the LLC of its own socket. What that has not comes from another socket's private cache or LLC if
//! one has it, or from the DRAM of the socket that the line is homed at; what comes from afar is kept by the own caches
//! like anything else. A write takes the line from the caches of all sockets. Devices are wired to one socket: their
//! writes are placed in its LLC wherever the line is homed. One copy table serves all sockets: the source of a copy is in the LLC of one of them at least,
//! and a copy ends as soon as one of them gives the source up.
//!
//! Links, and where lines are homed, are the fabric's ([`super::fabric`]). Source of the organisation: Intel Xeon Scalable
//! technical overview, Intel 64 SDM vol. 3, 18.19 (DDIO).

use stats::{Path, Reason};
use units::{Line, Ps};

use super::behind::Behind;
use super::extent::{Extent, check_names};
use super::fabric::{Fabric, SocketCounters};
use super::llc::{Llc, LlcSpec, Requester, SliceArrival};
use super::protocol::Protocol;
use super::socket_spec::SocketsSpec;
use super::{Hierarchy, MemorySpec};
use crate::MachineError;

impl Hierarchy {
    /// Puts the cores on several sockets, each with an LLC and DRAM like the one that there is, and the memory that
    /// `extents` name where `sockets` says. Before anything else happens.
    ///
    /// # Errors
    /// As [`SocketsSpec::check`]; a name in `regions` that none of `extents` has; controllers of cubes.
    pub fn on_sockets(
        &mut self,
        sockets: &SocketsSpec,
        spec: &MemorySpec,
        extents: &[Extent],
        path: &str,
    ) -> Result<(), MachineError> {
        sockets.check(&format!("{path}.sockets"))?;
        check_names(&sockets.regions, extents, &format!("{path}.sockets.regions"))?;
        let fabric = Fabric::new(sockets, self.cores.len() as u32, extents);
        let mut llcs = Vec::with_capacity(fabric.sockets());
        for socket in 0..fabric.sockets() as u8 {
            llcs.push(Some(llc_of(&spec.llc, fabric.sockets_of_cores(), socket, path)?));
        }
        let own = spec.l2.latency.ps();
        let protocol =
            Protocol::new(&spec.llc, fabric.sockets_of_cores(), fabric.sockets(), own, &format!("{path}.llc"))?;
        // Nothing has changed where this fails.
        let behind = Behind::new(spec, self.cores.len() as u32, fabric, self.llc.latency(), path)?;
        if let Some(first) = llcs[0].take() {
            self.llc = first;
        }
        (self.others, self.behind, self.protocol) = (llcs, behind, protocol);
        Ok(())
    }

    /// What went between sockets; [`None`] if there is one.
    pub fn socket_counters(&self) -> Option<SocketCounters> {
        self.behind.fabric.counters()
    }

    /// The LLCs in the order of their sockets.
    pub(super) fn llcs(&self) -> impl Iterator<Item = &Llc> {
        let (before, after) = self.others.split_at(self.behind.fabric.here());
        before.iter().flatten().chain([&self.llc]).chain(after.iter().flatten())
    }

    /// As [`Hierarchy::llcs`].
    pub(super) fn llcs_mut(&mut self) -> impl Iterator<Item = &mut Llc> {
        let (before, after) = self.others.split_at_mut(self.behind.fabric.here());
        before.iter_mut().flatten().chain([&mut self.llc]).chain(after.iter_mut().flatten())
    }

    /// Whether there are several sockets.
    #[inline(always)]
    pub(super) fn has_sockets(&self) -> bool {
        self.behind.fabric.has_links()
    }

    /// From now on the LLC is that of the socket that asks.
    #[inline(always)]
    pub(super) fn enter(&mut self, from: Requester) {
        if self.has_sockets() {
            self.change_socket(from);
        }
    }

    #[inline(never)]
    fn change_socket(&mut self, from: Requester) {
        let fabric = &self.behind.fabric;
        let socket = match from {
            Requester::Core(core) => fabric.socket_of(core),
            Requester::Device => fabric.socket_of_nic(),
        };
        self.enter_socket(socket);
    }

    /// From now on the LLC is that of `socket`; gives the one before.
    pub(super) fn enter_socket(&mut self, socket: usize) -> usize {
        let before = self.behind.fabric.here();
        if let Some(llc) = self.others.get_mut(socket).and_then(Option::take) {
            self.others[before] = Some(std::mem::replace(&mut self.llc, llc));
            self.behind.fabric.enter(socket);
        }
        before
    }

    /// The socket other than the present one whose caches have `line` modified; the caches of one do at most.
    pub(super) fn modified_elsewhere(&self, line: Line) -> Option<usize> {
        let sharers = self.directory.get(line);
        self.others.iter().position(|llc| llc.as_ref().is_some_and(|llc| llc.has_dirty(llc.spot(line)))).or_else(|| {
            let fabric = &self.behind.fabric;
            (0..self.others.len())
                .filter(|&socket| socket != fabric.here())
                .find(|&socket| self.is_modified(line, sharers & fabric.cores_of(socket)))
        })
    }

    /// Has `socket` do what the present one asks it for at `now`.
    pub(super) fn at_socket<T>(&mut self, socket: usize, now: Ps, ask: impl FnOnce(&mut Hierarchy, Ps) -> T) -> T {
        let fabric = &mut self.behind.fabric;
        let here = fabric.here();
        let way = if socket == here { Ps::ZERO } else { fabric.send(here, socket, false, now) };
        self.enter_socket(socket);
        let answer = ask(self, now + way);
        self.enter_socket(here);
        answer
    }

    /// What a request made at `now` that the own LLC or private caches have answered takes beyond the own socket: data
    /// of a private cache of another one if `supplied`, and if it writes the word that nobody there has it any more.
    /// `others` are the cores that had it.
    pub(super) fn across_sockets(&mut self, line: Line, others: u64, supplied: bool, write: bool, now: Ps) -> Ps {
        if !self.has_sockets() {
            return Ps::ZERO;
        }
        let near = self.behind.fabric.cores_here();
        let had = if write { self.take_from_others(line) } else { 0 };
        if self.protocol.asks_all() {
            // All have heard, and answered.
            return Ps::ZERO;
        }
        let fabric = &mut self.behind.fabric;
        let afar = others & !near;
        let from = if supplied && others & near == 0 { fabric.first_of(afar) } else { None };
        let told = if write { fabric.of_cores(afar) | had } else { 0 };
        if from.is_some() {
            fabric.count_snoop();
        }
        fabric.ask(told, from, now)
    }

    /// What a device's read takes beyond its own socket that a private cache of another one answers; `sharers` are the
    /// cores that have the line.
    pub(super) fn supplied_to_device(&mut self, sharers: u64, now: Ps) -> Ps {
        let fabric = &mut self.behind.fabric;
        if !fabric.has_links() {
            return Ps::ZERO;
        }
        fabric.count_snoop();
        let from = fabric.first_of(sharers & !fabric.cores_here());
        fabric.ask(0, from, now)
    }

    /// Takes `line` from the other sockets' LLCs, and says which had it. Its data are those of the caches that have it
    /// here, or are written over.
    fn take_from_others(&mut self, line: Line) -> u8 {
        let mut had = 0;
        for (socket, llc) in self.others.iter_mut().enumerate() {
            if let Some(llc) = llc {
                had |= u8::from(llc.remove(llc.spot(line)).is_some()) << socket;
            }
        }
        had
    }

    /// The present socket has the only current copy of `line`, and other sockets' LLCs have none from now on.
    #[inline]
    pub(super) fn drop_older(&mut self, line: Line) {
        if self.has_sockets() {
            self.take_from_others(line);
        }
    }

    /// Whether another socket's LLC has `line`.
    pub(super) fn others_have(&self, line: Line) -> bool {
        self.others.iter().flatten().any(|llc| llc.has(llc.spot(line)))
    }

    /// Reads `line`, which no cache of this socket and no private cache has, from `at` on, from another socket's LLC if one
    /// has it: when it is there. `path` is told what for.
    pub(super) fn read_from_other_llc(&mut self, line: Line, write: bool, at: Ps, path: &mut Path) -> Option<Ps> {
        let has = |llc: &Option<Llc>| llc.as_ref().is_some_and(|llc| llc.has(llc.spot(line)));
        let socket = self.others.iter().position(has)?;
        let llc = self.others[socket].as_mut()?;
        let spot = llc.spot(line);
        // It comes in where devices do.
        let SliceArrival { waited, distance, .. } = llc.take_in(spot, Requester::Device, at);
        let latency = llc.latency();
        let back = distance + llc.carry(spot, Requester::Device, false, at + waited + distance);
        if !write {
            llc.use_line(spot);
        }
        // Who is to write it has the only copy: all others hear of that.
        let told = if write { self.take_from_others(line) & !(1 << socket) } else { 0 };
        let fabric = &mut self.behind.fabric;
        fabric.count_llc();
        let hops = fabric.ask(told, Some(socket), at);
        path.push(Reason::SocketLink, hops);
        path.push(Reason::SliceQueue, waited);
        path.push(Reason::Interconnect, distance + back);
        path.push(Reason::Llc, latency);
        Some(at + hops + waited + distance + back + latency)
    }

    /// A device or a copy engine writes `line`: what it waits for the other sockets to give it up.
    pub(super) fn claim(&mut self, line: Line, now: Ps) -> Ps {
        if !self.has_sockets() {
            return Ps::ZERO;
        }
        let had = self.take_from_others(line);
        if self.protocol.asks_all() {
            return Ps::ZERO;
        }
        let fabric = &mut self.behind.fabric;
        let told = fabric.of_cores(self.directory.get(line) & !fabric.cores_here()) | had;
        fabric.ask(told, None, now)
    }
}

/// The LLC of `socket`, whose cores are those that `of` says.
fn llc_of(spec: &LlcSpec, of: &[u8], socket: u8, path: &str) -> Result<Llc, MachineError> {
    let own = of.iter().filter(|s| **s == socket).count() as u32;
    let mut llc = Llc::new(spec, own.max(1), &format!("{path}.llc"))?;
    // Cores of other sockets never ask this one.
    let mut seat = 0;
    let seats: Vec<usize> = of
        .iter()
        .map(|s| {
            let mine = seat;
            seat += usize::from(*s == socket);
            mine.min(own.max(1) as usize - 1)
        })
        .collect();
    llc.seat(&seats);
    Ok(llc)
}
