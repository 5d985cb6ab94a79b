//! What lies between sockets: links, and at which socket's DRAM each line is homed. One socket has neither.
//!
//! A link carries messages in the order in which their requests were made, each direction for itself; a message takes
//! the time of its bytes and then the hop. Source of the organisation: Intel Xeon Scalable technical overview (UPI,
//! home agents with a directory in memory). Left out: the directory's own accesses to DRAM, links by way of a third socket.

use std::ops::Sub;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Path, Reason};
use units::{CoreId, LINE_BYTES, Line, Ps};

use super::extent::Extent;
use super::socket_spec::{HomeSocket, MOST_SOCKETS, SocketsSpec};

/// Bytes of a message without data, and what a message with a line has beyond it (assumed: a flit of 16 bytes, a
/// little less than UPI's 192 bits with their checks).
const MESSAGE: u64 = 16;
/// Lines of a page of 4 KiB: memory is interleaved over sockets by these.
const PAGE_LINES: u64 = 4096 / LINE_BYTES;

/// What one direction of a link has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCounters {
    /// Bytes, those of messages without data included.
    pub bytes: u64,
    /// Time for which it was busy.
    pub busy: Ps,
    /// Time that messages waited for those before them.
    pub waited: Ps,
}

/// What went between sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct SocketLink {
    /// When the latest message's request was made.
    latest: Ps,
    free: Ps,
    counters: LinkCounters,
}

/// See the module header.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Fabric {
    count: usize,
    /// Of each core; nothing of one socket.
    of: Vec<u8>,
    nic: u8,
    /// The socket that asks.
    here: usize,
    links: Vec<SocketLink>,
    hop: Ps,
    /// Of a message without data, and of one with a line.
    message: Ps,
    data: Ps,
    homes: Homes,
    /// Nothing takes a link: see [`super::warm`].
    #[serde(skip)]
    pub(super) untimed: bool,
    counters: SocketCounters,
}

impl Default for Fabric {
    /// Of one socket.
    fn default() -> Fabric {
        Fabric {
            count: 1,
            of: Vec::new(),
            nic: 0,
            here: 0,
            links: Vec::new(),
            hop: Ps::ZERO,
            message: Ps::ZERO,
            data: Ps::ZERO,
            homes: Homes::default(),
            untimed: false,
            counters: SocketCounters::default(),
        }
    }
}

/// The home of every line.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Homes {
    /// First lines, ascending, and what goes for all lines up to the next.
    from: Vec<(u64, RangeHome)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum RangeHome {
    One(u8),
    Round,
}

impl Homes {
    fn new(spec: &SocketsSpec, cores: u32, extents: &[Extent]) -> Homes {
        let share = |home, core: Option<CoreId>| match home {
            HomeSocket::Interleaved => RangeHome::Round,
            HomeSocket::Socket(socket) => RangeHome::One(socket as u8),
            HomeSocket::Local => {
                RangeHome::One(core.map_or(spec.nic, |core| spec.of_core(u32::from(core.0), cores)) as u8)
            }
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
            RangeHome::One(socket) => usize::from(socket),
            RangeHome::Round => (line.0 / PAGE_LINES % sockets as u64) as usize,
        }
    }
}

impl Fabric {
    /// A message that belongs to a request made at `made` leaves `from` for `to`: what it takes until it is there.
    pub(super) fn send(&mut self, from: usize, to: usize, data: bool, made: Ps) -> Ps {
        let (time, bytes) = if data { (self.data, MESSAGE + LINE_BYTES) } else { (self.message, MESSAGE) };
        if self.untimed {
            return time + self.hop;
        }
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

    /// What a line takes from a socket to another, if nothing is in the way.
    pub(super) fn way_of_data(&self) -> Ps {
        self.data + self.hop
    }

    /// The cores of `socket`.
    pub(super) fn cores_of(&self, socket: usize) -> u64 {
        let own = self.of.iter().enumerate().filter(|(_, of)| usize::from(**of) == socket);
        own.fold(0, |mask, (core, _)| mask | 1 << core)
    }

    /// The sockets of `cores`.
    pub(super) fn of_cores(&self, cores: u64) -> u8 {
        let of = self.of.iter().enumerate();
        of.filter(|(core, _)| cores >> core & 1 == 1).fold(0, |mask, (_, socket)| mask | 1 << socket)
    }

    pub(super) fn first_of(&self, cores: u64) -> Option<usize> {
        (cores != 0).then(|| usize::from(self.of[cores.trailing_zeros() as usize]))
    }

    /// A message to each socket of `told` and to `from`, which answers with data: what the slowest takes.
    pub(super) fn ask(&mut self, told: u8, from: Option<usize>, made: Ps) -> Ps {
        let mut took = Ps::ZERO;
        for socket in 0..self.count {
            if told >> socket & 1 == 1 || from == Some(socket) {
                took = took.max(self.round(socket, from == Some(socket), made));
            }
        }
        took
    }

    /// A message there and its answer, which has the line if `data`.
    pub(super) fn round(&mut self, there: usize, data: bool, made: Ps) -> Ps {
        let here = self.here;
        let message = self.send(here, there, false, made);
        message + self.send(there, here, data, made + message)
    }

    /// Links of `spec` between the sockets of `cores` cores, and memory where it says.
    pub(super) fn new(spec: &SocketsSpec, cores: u32, extents: &[Extent]) -> Fabric {
        let count = spec.count as usize;
        let time = |bytes: u64| Ps((bytes as f64 * 8000.0 / spec.rate.gbps()).round() as u64);
        Fabric {
            count,
            of: (0..cores).map(|core| spec.of_core(core, cores) as u8).collect(),
            nic: spec.nic as u8,
            links: vec![SocketLink::default(); count * count],
            hop: spec.hop.ps(),
            message: time(MESSAGE),
            data: time(MESSAGE + LINE_BYTES),
            homes: Homes::new(spec, cores, extents),
            ..Fabric::default()
        }
    }

    /// How many sockets there are.
    pub(super) fn sockets(&self) -> usize {
        self.count
    }

    /// Whether there are several sockets.
    #[inline(always)]
    pub(super) fn has_links(&self) -> bool {
        self.count > 1
    }

    /// The socket that asks.
    #[inline(always)]
    pub(super) fn here(&self) -> usize {
        self.here
    }

    /// From now on `socket` asks.
    pub(super) fn enter(&mut self, socket: usize) {
        self.here = socket;
    }

    /// The socket of each core; nothing of one socket.
    pub(super) fn sockets_of_cores(&self) -> &[u8] {
        &self.of
    }

    /// The socket of `core`.
    pub(super) fn socket_of(&self, core: CoreId) -> usize {
        self.of.get(usize::from(core.0)).copied().unwrap_or(0).into()
    }

    /// The socket of the NIC.
    pub(super) fn socket_of_nic(&self) -> usize {
        self.nic.into()
    }

    /// The cores of the socket that asks.
    pub(super) fn cores_here(&self) -> u64 {
        if self.has_links() { self.cores_of(self.here) } else { u64::MAX }
    }

    /// What went between sockets; [`None`] if there is one.
    pub(super) fn counters(&self) -> Option<SocketCounters> {
        self.has_links().then(|| {
            let mut counters = self.counters.clone();
            let pairs = (0..self.count).flat_map(|from| (0..self.count).map(move |to| (from, to)));
            counters.links = pairs
                .filter(|(from, to)| from != to)
                .map(|(from, to)| (from as u32, to as u32, self.links[from * self.count + to].counters))
                .collect();
            counters
        })
    }

    /// A line came from another socket's LLC.
    pub(super) fn count_llc(&mut self) {
        self.counters.remote_llc += 1;
    }

    /// A line came from a private cache of another socket.
    pub(super) fn count_snoop(&mut self) {
        self.counters.remote_snoops += 1;
    }

    /// The socket at whose DRAM `line` is.
    #[inline]
    pub(super) fn home_of(&self, line: Line) -> usize {
        if self.has_links() { self.homes.of(line, self.count) } else { 0 }
    }

    /// What a read of a line at socket `home`, asked for at `at`, takes there and back. `path` is told.
    #[inline]
    pub(super) fn reach(&mut self, home: usize, at: Ps, path: &mut Path) -> Ps {
        if !self.has_links() {
            return Ps::ZERO;
        }
        if home == self.here {
            self.counters.local_reads += 1;
            return Ps::ZERO;
        }
        self.counters.remote_reads += 1;
        let hops = self.round(home, true, at);
        path.push(Reason::SocketLink, hops);
        hops
    }

    /// What a write that leaves at `at` takes to socket `home`.
    #[inline]
    pub(super) fn send_home(&mut self, home: usize, at: Ps) -> Ps {
        if home == self.here {
            return Ps::ZERO;
        }
        self.counters.remote_writes += 1;
        self.send(self.here, home, true, at)
    }

    /// What something at the NIC's socket, asked for at `at`, takes to that which asks. `path` is told.
    pub(super) fn reach_nic(&mut self, at: Ps, path: &mut Path) -> Ps {
        let nic = self.socket_of_nic();
        if nic == self.here {
            return Ps::ZERO;
        }
        let hops = self.round(nic, true, at);
        path.push(Reason::SocketLink, hops);
        hops
    }

    /// A line leaves at `at` for all other sockets: what it takes to each.
    pub(super) fn send_to_others(&mut self, at: Ps) -> [Ps; MOST_SOCKETS] {
        let mut ways = [Ps::ZERO; MOST_SOCKETS];
        let here = self.here;
        for socket in (0..self.count).filter(|&socket| socket != here) {
            ways[socket] = self.send(here, socket, true, at);
        }
        ways
    }
}
