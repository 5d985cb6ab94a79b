//! Several sockets: each has an LLC and DRAM channels of its own, and a link to each of the others.
//!
//! A core looks into the LLC of its own socket. What that has not comes from another socket's private cache or LLC if
//! one has it, or from the DRAM of the socket that the line is homed at; what comes from afar is kept by the own caches
//! like anything else. A write takes the line from the caches of all sockets. Devices are wired to one socket: their
//! writes are placed in its LLC wherever the line is homed. One copy table serves all sockets: the source of a copy is in the LLC of one of them at least,
//! and a copy ends as soon as one of them gives the source up.
//!
//! A link carries messages in the order in which their requests were made, each direction for itself; a message takes
//! the time of its bytes and then the hop. Source of the organisation: Intel Xeon Scalable technical overview (UPI,
//! home agents with a directory in memory), Intel 64 SDM vol. 3, 18.19 (DDIO). Left out: the directory's own accesses
//! to DRAM, links by way of a third socket.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Sub;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use stats::{Path, Reason};
use units::{CoreId, LINE_BYTES, Line, Ps, Rate, Span};

use super::exclusions::check_together;
use super::extent::{Extent, check_names, named};
use super::llc::{Arrival, Llc, LlcSpec, Requester};
use super::pending::Pending;
use super::{Hierarchy, MemorySpec};
use crate::MachineError;
use crate::dram::{Dram, DramCounters};

/// Bytes of a message without data, and what a message with a line has beyond it (assumed: a flit of 16 bytes, a
/// little less than UPI's 192 bits with their checks).
const MESSAGE: u64 = 16;
/// Sockets, at most.
const MOST_SOCKETS: usize = 8;
/// Lines of a page of 4 KiB: memory is interleaved over sockets by these.
const PAGE_LINES: u64 = 4096 / LINE_BYTES;

/// The socket at whose DRAM memory lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Home {
    /// What each core has for itself at its own socket, everything else at the NIC's.
    #[default]
    Local,
    /// Pages of 4 KiB go round.
    Interleaved,
    /// At this socket.
    Socket(u32),
}

impl FromStr for Home {
    type Err = MachineError;
    fn from_str(text: &str) -> Result<Home, MachineError> {
        match text {
            "local" => Ok(Home::Local),
            "interleaved" => Ok(Home::Interleaved),
            _ => text.parse().map(Home::Socket).map_err(|_| {
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

impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Home::Local => f.write_str("local"),
            Home::Interleaved => f.write_str("interleaved"),
            Home::Socket(socket) => write!(f, "{socket}"),
        }
    }
}

impl Serialize for Home {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Home::Socket(socket) => to.serialize_u32(*socket),
            other => to.collect_str(other),
        }
    }
}

impl<'de> Deserialize<'de> for Home {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Home, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Home;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("\"local\", \"interleaved\" or a socket's number")
            }
            fn visit_i64<E: de::Error>(self, socket: i64) -> Result<Home, E> {
                u32::try_from(socket)
                    .map(Home::Socket)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(socket), &self))
            }
            fn visit_u64<E: de::Error>(self, socket: u64) -> Result<Home, E> {
                u32::try_from(socket)
                    .map(Home::Socket)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(socket), &self))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Home, E> {
                text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        from.deserialize_any(Visitor)
    }
}

impl JsonSchema for Home {
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
    pub memory: Home,
    /// Where some of it lies: `mempool`, `rings`, `tables`, or a table by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub regions: BTreeMap<String, Home>,
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
            if let Home::Socket(socket) = home
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

    fn home_of(&self, extent: &Extent) -> Home {
        *named(&self.regions, extent.group, &extent.name).unwrap_or(&self.memory)
    }
}

/// What one direction of a link has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Bytes, those of messages without data included.
    pub bytes: u64,
    /// Time for which it was busy.
    pub busy: Ps,
    /// Time that messages waited for those before them.
    pub waited: Ps,
}

/// What went between sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SocketCounters {
    /// Lines that cores, devices and copy engines read from the DRAM of their own socket.
    pub local_reads: u64,
    /// The same of another socket's DRAM.
    pub remote_reads: u64,
    /// Lines that came from another socket's LLC.
    pub remote_llc: u64,
    /// Lines that came from a private cache of another socket.
    pub remote_snoops: u64,
    /// Lines written to another socket's DRAM.
    pub remote_writes: u64,
    /// Each link by its sockets: from, to.
    #[serde(skip)]
    pub links: Vec<(u32, u32, LinkCounters)>,
}

impl Sub for SocketCounters {
    type Output = SocketCounters;
    /// What was counted since `rhs`, an earlier state of the same counters.
    fn sub(self, rhs: SocketCounters) -> SocketCounters {
        let links = self.links.iter().zip(&rhs.links).map(|(&(from, to, a), &(.., b))| {
            (from, to, LinkCounters { bytes: a.bytes - b.bytes, busy: a.busy - b.busy, waited: a.waited - b.waited })
        });
        SocketCounters {
            local_reads: self.local_reads - rhs.local_reads,
            remote_reads: self.remote_reads - rhs.remote_reads,
            remote_llc: self.remote_llc - rhs.remote_llc,
            remote_snoops: self.remote_snoops - rhs.remote_snoops,
            remote_writes: self.remote_writes - rhs.remote_writes,
            links: links.collect(),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Link {
    /// When the latest message's request was made.
    latest: Ps,
    free: Ps,
    counters: LinkCounters,
}

/// See the module header.
#[derive(Clone, Debug)]
pub(super) struct Sockets {
    count: usize,
    /// Of each core.
    of: Vec<u8>,
    nic: u8,
    /// The socket whose LLC stands in the hierarchy's place; its entry here is empty.
    here: usize,
    llcs: Vec<Option<Llc>>,
    /// Of sockets 1 and up; the hierarchy has the first's.
    drams: Vec<Dram>,
    links: Vec<Link>,
    hop: Ps,
    /// Of a message without data, and of one with a line.
    message: Ps,
    data: Ps,
    homes: Homes,
    counters: SocketCounters,
}

/// The home of every line.
#[derive(Clone, Debug, Default)]
struct Homes {
    /// First lines, ascending, and what goes for all lines up to the next.
    from: Vec<(u64, Share)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    One(u8),
    Round,
}

impl Homes {
    fn new(spec: &SocketsSpec, cores: u32, extents: &[Extent]) -> Homes {
        let share = |home, core: Option<CoreId>| match home {
            Home::Interleaved => Share::Round,
            Home::Socket(socket) => Share::One(socket as u8),
            Home::Local => Share::One(core.map_or(spec.nic, |core| spec.of_core(u32::from(core.0), cores)) as u8),
        };
        let mut sorted: Vec<&Extent> = extents.iter().collect();
        sorted.sort_by_key(|extent| extent.bytes.start);
        // What no region has: page tables.
        let rest = share(spec.memory, None);
        let mut from = vec![(0, rest)];
        for extent in sorted {
            from.push((extent.bytes.start / LINE_BYTES, share(spec.home_of(extent), extent.core)));
            from.push((extent.bytes.end.div_ceil(LINE_BYTES), rest));
        }
        Homes { from }
    }

    fn of(&self, line: Line, sockets: usize) -> usize {
        let at = self.from.partition_point(|&(from, _)| from <= line.0);
        match self.from[at - 1].1 {
            Share::One(socket) => usize::from(socket),
            Share::Round => (line.0 / PAGE_LINES % sockets as u64) as usize,
        }
    }
}

impl Sockets {
    /// A message that belongs to a request made at `made` leaves `from` for `to`: what it takes until it is there.
    fn send(&mut self, from: usize, to: usize, data: bool, made: Ps) -> Ps {
        let (time, bytes) = if data { (self.data, MESSAGE + LINE_BYTES) } else { (self.message, MESSAGE) };
        let link = &mut self.links[from * self.count + to];
        // A request out of turn waits as if it came with the latest, as at a slice of the LLC.
        link.latest = link.latest.max(made);
        let start = link.latest.max(link.free);
        link.free = start + time;
        let waited = start - link.latest;
        link.counters.bytes += bytes;
        link.counters.busy += time;
        link.counters.waited += waited;
        waited + time + self.hop
    }

    /// The cores of `socket`.
    fn cores_of(&self, socket: usize) -> u64 {
        let own = self.of.iter().enumerate().filter(|(_, of)| usize::from(**of) == socket);
        own.fold(0, |mask, (core, _)| mask | 1 << core)
    }

    /// The sockets of `cores`.
    fn of_cores(&self, cores: u64) -> u8 {
        let of = self.of.iter().enumerate();
        of.filter(|(core, _)| cores >> core & 1 == 1).fold(0, |mask, (_, socket)| mask | 1 << socket)
    }

    fn first_of(&self, cores: u64) -> Option<usize> {
        (cores != 0).then(|| usize::from(self.of[cores.trailing_zeros() as usize]))
    }

    /// Takes `line` from the other sockets' LLCs, and says which had it. Its data are those of the caches that have it
    /// here, or are written over.
    fn take_from_others(&mut self, line: Line) -> u8 {
        let mut had = 0;
        for (socket, llc) in self.llcs.iter_mut().enumerate() {
            if let Some(llc) = llc {
                had |= u8::from(llc.remove(llc.spot(line)).is_some()) << socket;
            }
        }
        had
    }

    /// A message to each socket of `told` and to `from`, which answers with data: what the slowest takes.
    fn ask(&mut self, told: u8, from: Option<usize>, made: Ps) -> Ps {
        let mut took = Ps::ZERO;
        for socket in 0..self.count {
            if told >> socket & 1 == 1 || from == Some(socket) {
                took = took.max(self.round(socket, from == Some(socket), made));
            }
        }
        took
    }

    /// A message there and its answer, which has the line if `data`.
    fn round(&mut self, there: usize, data: bool, made: Ps) -> Ps {
        let here = self.here;
        let message = self.send(here, there, false, made);
        message + self.send(there, here, data, made + message)
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
        let cores = self.cores.len() as u32;
        let count = sockets.count as usize;
        let of: Vec<u8> = (0..cores).map(|core| sockets.of_core(core, cores) as u8).collect();
        let mut llcs = Vec::with_capacity(count);
        for socket in 0..count as u8 {
            llcs.push(Some(llc_of(&spec.llc, &of, socket, path)?));
        }
        let mut drams = Vec::with_capacity(count - 1);
        for _ in 1..count {
            drams.push(Dram::new(&spec.dram, &format!("{path}.dram"))?);
        }
        if self.has_controllers()
            && let Some(setting) = &spec.dram.controller
        {
            let latency = self.llc.latency();
            self.pending =
                Some(Box::new(Pending::new(&spec.dram, setting, sockets.count, latency, &format!("{path}.dram"))?));
        }
        let time = |bytes: u64| Ps((bytes as f64 * 8000.0 / sockets.rate.gbps()).round() as u64);
        if let Some(first) = llcs[0].take() {
            self.llc = first;
        }
        self.sockets = Some(Box::new(Sockets {
            count,
            of,
            nic: sockets.nic as u8,
            here: 0,
            llcs,
            drams,
            links: vec![Link::default(); count * count],
            hop: sockets.hop.ps(),
            message: time(MESSAGE),
            data: time(MESSAGE + LINE_BYTES),
            homes: Homes::new(sockets, cores, extents),
            counters: SocketCounters::default(),
        }));
        Ok(())
    }

    /// What went between sockets; [`None`] if there is one.
    pub fn socket_counters(&self) -> Option<SocketCounters> {
        let sockets = self.sockets.as_ref()?;
        let mut counters = sockets.counters.clone();
        let pairs = (0..sockets.count).flat_map(|from| (0..sockets.count).map(move |to| (from, to)));
        counters.links = pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| (from as u32, to as u32, sockets.links[from * sockets.count + to].counters))
            .collect();
        Some(counters)
    }

    /// The LLCs in the order of their sockets.
    pub(super) fn llcs(&self) -> impl Iterator<Item = &Llc> {
        let (before, after) = match &self.sockets {
            None => (&[][..], &[][..]),
            Some(sockets) => sockets.llcs.split_at(sockets.here),
        };
        before.iter().flatten().chain([&self.llc]).chain(after.iter().flatten())
    }

    /// Counters of the DRAM of the second socket and up.
    pub(super) fn other_drams(&self) -> impl Iterator<Item = &Dram> {
        self.sockets.iter().flat_map(|sockets| &sockets.drams)
    }

    /// Counters over all time of the DRAM that answers at once.
    pub(super) fn drams_counters(&self) -> DramCounters {
        self.other_drams().fold(self.dram.counters(), |sum, dram| sum + dram.counters())
    }

    /// From now on the LLC is that of the socket that asks.
    #[inline(always)]
    pub(super) fn enter(&mut self, from: Requester) {
        if self.sockets.is_some() {
            self.change_socket(from);
        }
    }

    #[inline(never)]
    fn change_socket(&mut self, from: Requester) {
        let Some(sockets) = &self.sockets else { return };
        let socket = usize::from(match from {
            Requester::Core(core) => sockets.of[usize::from(core.0)],
            Requester::Device => sockets.nic,
        });
        self.enter_socket(socket);
    }

    /// From now on the LLC is that of `socket`; gives the one before.
    pub(super) fn enter_socket(&mut self, socket: usize) -> usize {
        let Some(sockets) = &mut self.sockets else { return 0 };
        let before = sockets.here;
        if let Some(llc) = sockets.llcs[socket].take() {
            sockets.llcs[sockets.here] = Some(std::mem::replace(&mut self.llc, llc));
            sockets.here = socket;
        }
        before
    }

    /// How many sockets there are.
    pub(super) fn socket_count(&self) -> usize {
        self.sockets.as_ref().map_or(1, |sockets| sockets.count)
    }

    /// The socket whose LLC stands in the hierarchy's place.
    pub(super) fn socket_here(&self) -> usize {
        self.sockets.as_ref().map_or(0, |sockets| sockets.here)
    }

    /// A line leaves at `at` for all other sockets: what it takes to each.
    pub(super) fn send_to_others(&mut self, at: Ps) -> [Ps; MOST_SOCKETS] {
        let mut ways = [Ps::ZERO; MOST_SOCKETS];
        if let Some(sockets) = &mut self.sockets {
            let here = sockets.here;
            for socket in (0..sockets.count).filter(|&socket| socket != here) {
                ways[socket] = sockets.send(here, socket, true, at);
            }
        }
        ways
    }

    /// The socket other than the present one whose caches have `line` modified; the caches of one do at most.
    pub(super) fn modified_elsewhere(&self, line: Line) -> Option<usize> {
        let sockets = self.sockets.as_ref()?;
        let sharers = self.directory.get(line);
        (0..sockets.count).find(|&socket| {
            let Some(llc) = &sockets.llcs[socket] else { return false };
            llc.has_dirty(llc.spot(line)) || self.is_modified(line, sharers & sockets.cores_of(socket))
        })
    }

    /// Has `socket` do what the present one asks it for at `now`.
    pub(super) fn at_socket<T>(&mut self, socket: usize, now: Ps, ask: impl FnOnce(&mut Hierarchy, Ps) -> T) -> T {
        let here = self.socket_here();
        let way = match &mut self.sockets {
            Some(sockets) if socket != here => sockets.send(here, socket, false, now),
            _ => Ps::ZERO,
        };
        self.enter_socket(socket);
        let answer = ask(self, now + way);
        self.enter_socket(here);
        answer
    }

    /// The socket of the NIC.
    pub(super) fn socket_of_nic(&self) -> usize {
        self.sockets.as_ref().map_or(0, |sockets| usize::from(sockets.nic))
    }

    /// The cores of the present socket.
    pub(super) fn cores_here(&self) -> u64 {
        self.sockets.as_ref().map_or(u64::MAX, |sockets| sockets.cores_of(sockets.here))
    }

    /// What a request made at `now` that the own LLC or private caches have answered takes beyond the own socket: data
    /// of a private cache of another one if `supplied`, and if it writes the word that nobody there has it any more.
    /// `others` are the cores that had it.
    pub(super) fn across_sockets(&mut self, line: Line, others: u64, supplied: bool, write: bool, now: Ps) -> Ps {
        let near = self.cores_here();
        let Some(sockets) = &mut self.sockets else { return Ps::ZERO };
        let afar = others & !near;
        let from = if supplied && others & near == 0 { sockets.first_of(afar) } else { None };
        let told = if write { sockets.of_cores(afar) | sockets.take_from_others(line) } else { 0 };
        sockets.counters.remote_snoops += u64::from(from.is_some());
        sockets.ask(told, from, now)
    }

    /// What a device's read takes beyond its own socket that a private cache of another one answers; `sharers` are the
    /// cores that have the line.
    pub(super) fn supplied_to_device(&mut self, sharers: u64, now: Ps) -> Ps {
        let afar = sharers & !self.cores_here();
        let Some(sockets) = &mut self.sockets else { return Ps::ZERO };
        sockets.counters.remote_snoops += 1;
        let from = sockets.first_of(afar);
        sockets.ask(0, from, now)
    }

    /// Whether another socket's LLC has `line`.
    pub(super) fn others_have(&self, line: Line) -> bool {
        let others = self.sockets.iter().flat_map(|sockets| sockets.llcs.iter().flatten());
        others.into_iter().any(|llc| llc.has(llc.spot(line)))
    }

    /// Reads `line`, which no cache of this socket and no private cache has, from `at` on, from another socket's LLC if one
    /// has it: when it is there. `path` is told what for.
    pub(super) fn read_from_other_llc(&mut self, line: Line, write: bool, at: Ps, path: &mut Path) -> Option<Ps> {
        let sockets = self.sockets.as_mut()?;
        for socket in 0..sockets.count {
            let Some(llc) = &mut sockets.llcs[socket] else { continue };
            let spot = llc.spot(line);
            if !llc.has(spot) {
                continue;
            }
            // It comes in where devices do.
            let Arrival { waited, distance, .. } = llc.take_in(spot, Requester::Device, at);
            let latency = llc.latency();
            let back = distance + llc.carry(spot, Requester::Device, false, at + waited + distance);
            if !write {
                llc.use_line(spot);
            }
            // Who is to write it has the only copy: all others hear of that.
            let told = if write { sockets.take_from_others(line) & !(1 << socket) } else { 0 };
            sockets.counters.remote_llc += 1;
            let hops = sockets.ask(told, Some(socket), at);
            path.push(Reason::SocketLink, hops);
            path.push(Reason::SliceQueue, waited);
            path.push(Reason::Interconnect, distance + back);
            path.push(Reason::Llc, latency);
            return Some(at + hops + waited + distance + back + latency);
        }
        None
    }

    /// The socket whose DRAM has `line`, and what a read asked for at `at` takes there and back. `path` is told.
    #[inline]
    pub(super) fn reach_home(&mut self, line: Line, at: Ps, path: &mut Path) -> (usize, Ps) {
        let Some(sockets) = &mut self.sockets else { return (0, Ps::ZERO) };
        let home = sockets.homes.of(line, sockets.count);
        if home == sockets.here {
            sockets.counters.local_reads += 1;
            return (home, Ps::ZERO);
        }
        sockets.counters.remote_reads += 1;
        let hops = sockets.round(home, true, at);
        path.push(Reason::SocketLink, hops);
        (home, hops)
    }

    /// The socket whose DRAM has `line`, and what a write that leaves at `at` takes there.
    #[inline]
    pub(super) fn send_home(&mut self, line: Line, at: Ps) -> (usize, Ps) {
        let Some(sockets) = &mut self.sockets else { return (0, Ps::ZERO) };
        let home = sockets.homes.of(line, sockets.count);
        if home == sockets.here {
            return (home, Ps::ZERO);
        }
        sockets.counters.remote_writes += 1;
        (home, sockets.send(sockets.here, home, true, at))
    }

    /// The DRAM of socket `home` that answers at once.
    #[inline]
    pub(super) fn dram_of(&mut self, home: usize) -> &mut Dram {
        match &mut self.sockets {
            Some(sockets) if home > 0 => &mut sockets.drams[home - 1],
            _ => &mut self.dram,
        }
    }

    /// What a line of a tail, asked for at `at`, takes from the NIC's socket to that which asks. `path` is told.
    pub(super) fn reach_tails(&mut self, at: Ps, path: &mut Path) -> Ps {
        let Some(sockets) = &mut self.sockets else { return Ps::ZERO };
        let nic = usize::from(sockets.nic);
        if nic == sockets.here {
            return Ps::ZERO;
        }
        let hops = sockets.round(nic, true, at);
        path.push(Reason::SocketLink, hops);
        hops
    }

    /// A device or a copy engine writes `line`: what it waits for the other sockets to give it up.
    pub(super) fn claim(&mut self, line: Line, now: Ps) -> Ps {
        let afar = self.directory.get(line) & !self.cores_here();
        let Some(sockets) = &mut self.sockets else { return Ps::ZERO };
        let told = sockets.of_cores(afar) | sockets.take_from_others(line);
        sockets.ask(told, None, now)
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
