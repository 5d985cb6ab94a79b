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

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use stats::{Path, Reason};
use units::{Line, Ps, Rate, Span};

use super::behind::Behind;
use super::exclusions::check_together;
use super::extent::{Extent, check_names, named};
use super::fabric::{Fabric, SocketCounters};
use super::llc::{Arrival, Llc, LlcSpec, Requester};
use super::{Hierarchy, MemorySpec};
use crate::MachineError;

/// Sockets, at most.
pub(super) const MOST_SOCKETS: usize = 8;

/// The socket at whose DRAM memory lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HomeSocket {
    /// What each core has for itself at its own socket, everything else at the NIC's.
    #[default]
    Local,
    /// Pages of 4 KiB go round.
    Interleaved,
    /// At this socket.
    Socket(u32),
}

impl FromStr for HomeSocket {
    type Err = MachineError;
    fn from_str(text: &str) -> Result<HomeSocket, MachineError> {
        match text {
            "local" => Ok(HomeSocket::Local),
            "interleaved" => Ok(HomeSocket::Interleaved),
            _ => text.parse().map(HomeSocket::Socket).map_err(|_| {
                MachineError::new(
                    "memory",
                    text,
                    "local, interleaved or a socket's number",
                    "numbers begin at 0".into(),
                )
            }),
        }
    }
}

impl fmt::Display for HomeSocket {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            HomeSocket::Local => f.write_str("local"),
            HomeSocket::Interleaved => f.write_str("interleaved"),
            HomeSocket::Socket(socket) => write!(f, "{socket}"),
        }
    }
}

impl Serialize for HomeSocket {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            HomeSocket::Socket(socket) => to.serialize_u32(*socket),
            other => to.collect_str(other),
        }
    }
}

impl<'de> Deserialize<'de> for HomeSocket {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<HomeSocket, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = HomeSocket;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("\"local\", \"interleaved\" or a socket's number")
            }
            fn visit_i64<E: de::Error>(self, socket: i64) -> Result<HomeSocket, E> {
                u32::try_from(socket)
                    .map(HomeSocket::Socket)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(socket), &self))
            }
            fn visit_u64<E: de::Error>(self, socket: u64) -> Result<HomeSocket, E> {
                u32::try_from(socket)
                    .map(HomeSocket::Socket)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(socket), &self))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<HomeSocket, E> {
                text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        from.deserialize_any(Visitor)
    }
}

impl JsonSchema for HomeSocket {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Home".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "The socket at whose DRAM memory lies: \"local\" (what each core has for itself at its own \
                            socket, everything else at the NIC's), \"interleaved\" (pages of 4 KiB go round) or a \
                            socket's number.",
            "anyOf": [{"enum": ["local", "interleaved"]}, {"type": "integer", "minimum": 0, "maximum": 7}]
        })
    }
}

/// Several sockets, each with the LLC and the DRAM of the machine, linked to each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SocketsSpec {
    /// How many, 2 to 8. `llc` and `dram.channels` are those of each.
    pub count: u32,
    /// The socket of each core; goes round if there are more cores. Left out, each socket has as many cores, the first
    /// ones the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<u32>,
    /// The socket that the NIC is wired to.
    #[serde(default)]
    pub nic: u32,
    /// What a message takes to another socket beyond the time of its bytes, one way.
    pub hop: Span,
    /// What a link carries in each direction.
    pub rate: Rate,
    /// Where memory lies.
    #[serde(default)]
    pub memory: HomeSocket,
    /// Where some of it lies: `mempool`, `rings`, `tables`, or a table by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub regions: BTreeMap<String, HomeSocket>,
}

impl SocketsSpec {
    /// # Errors
    /// Sockets that there are not, a region that there is not.
    pub fn check(&self, path: &str) -> Result<(), MachineError> {
        let error = |field: &str, came: String, allowed: String, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        if !(2..=8).contains(&self.count) {
            return error("count", self.count.to_string(), "2 to 8".into(), "leave out sockets for one");
        }
        let there = format!("0 to {}, the last socket", self.count - 1);
        if self.nic >= self.count {
            return error("nic", self.nic.to_string(), there, "sockets are counted from 0");
        }
        if let Some((i, socket)) = self.cores.iter().enumerate().find(|(_, socket)| **socket >= self.count) {
            return error(&format!("cores[{i}]"), socket.to_string(), there, "sockets are counted from 0");
        }
        let homes = self.regions.iter().map(|(name, home)| (format!("regions.{name}"), home));
        for (field, home) in homes.chain([("memory".to_string(), &self.memory)]) {
            if let HomeSocket::Socket(socket) = home
                && *socket >= self.count
            {
                return error(&field, socket.to_string(), there, "or local, or interleaved");
            }
        }
        if self.rate.gbps() == 0.0 {
            return error(
                "rate",
                self.rate.to_string(),
                "more than 0".into(),
                "UPI at 10.4 GT/s carries 166 Gbps a link",
            );
        }
        Ok(())
    }

    /// The socket of core `core` of `cores`.
    pub fn of_core(&self, core: u32, cores: u32) -> u32 {
        match self.cores.len() {
            0 => core * self.count / cores.max(1),
            n => self.cores[core as usize % n],
        }
    }

    pub(super) fn home_of(&self, extent: &Extent) -> HomeSocket {
        *named(&self.regions, extent.group, &extent.name).unwrap_or(&self.memory)
    }
}

impl Hierarchy {
    /// Puts the cores on several sockets, each with an LLC and DRAM like the one that there is, and the memory that
    /// `extents` name where `sockets` says. Before anything else happens.
    ///
    /// # Errors
    /// As [`SocketsSpec::check`]; a name in `regions` that none of `extents` has; what excludes sockets ([`super::EXCLUSIONS`]);
    /// controllers of cubes.
    pub fn on_sockets(
        &mut self,
        sockets: &SocketsSpec,
        spec: &MemorySpec,
        extents: &[Extent],
        path: &str,
    ) -> Result<(), MachineError> {
        sockets.check(&format!("{path}.sockets"))?;
        check_together(spec, true, path)?;
        check_names(&sockets.regions, extents, &format!("{path}.sockets.regions"))?;
        let fabric = Fabric::new(sockets, self.cores.len() as u32, extents);
        let mut llcs = Vec::with_capacity(fabric.sockets());
        for socket in 0..fabric.sockets() as u8 {
            llcs.push(Some(llc_of(&spec.llc, fabric.sockets_of_cores(), socket, path)?));
        }
        if let Some(first) = llcs[0].take() {
            self.llc = first;
        }
        self.others = llcs;
        let cores = self.cores.len() as u32;
        self.behind = Behind::new(spec, cores, fabric, self.llc.latency(), path)?;
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
        let Arrival { waited, distance, .. } = llc.take_in(spot, Requester::Device, at);
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
