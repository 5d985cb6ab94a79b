//! IP forwarding.
//!
//! **Computes** what an IP router's fast path does: header check, longest-prefix match, time to
//! live and checksum, Ethernet addresses of the next hop. Bytes of the packet are really changed.
//!
//! **References per packet** (IPv4, defaults): 17 if the destination's prefix has 24 bits or
//! fewer, 18 otherwise: 3 to prefetch the header (2 of them mbuf loads), 4 mbuf and 2 header loads
//! to check it, 1 prefetch and 1 or 2 loads to look up, 2 mbuf loads, 1 header load, 1 next-hop
//! load and 2 stores to rewrite. Best 6 (not IP), worst for IPv4 27 (40 bytes of options, software
//! checksum, a long prefix); for IPv6 17 to 30, by the levels that the lookup takes.
//!
//! **Regions**: tbl24 and tbl8 of IPv4 and of IPv6 (see `lookup::Dir24`), next hops (16 bytes
//! each), all shared by the cores; the packet and its mbuf.
//!
//! A burst is worked on in stages over up to 32 packets, so that the table misses of different
//! packets overlap: check all, look all up, rewrite all. With [`LookupMode::Single`] each packet
//! goes through the stages alone.
//!
//! Left out: ARP and neighbour discovery (adjacencies are given), ICMP errors, options, fragments
//! of what is larger than a port's MTU, packets for the router itself.
//!
//! **Source**: RFC 1812; DPDK `examples/l3fwd` (order of the stages, fields that are read, the
//! prefetch distance).
//!
//! **See also** `check`, `ttl`, `lookup`.

use std::fmt::Debug;
use std::sync::Arc;

use packet::{Packet, Prefix};
use probe::{Access, Probe, Ref, RegionId, RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PortId, Ps};

use crate::check::{self, Checked};
use crate::lookup::{Dir24_8, Dir24Spec, FibEntry, Lpm6, NextHop, RoutePlace, prefetch};
use crate::tape::{Tape, TapeMark, Trail};
use crate::{DropReason, FunctionError, PacketFunction, Verdict, ttl};

const TBL24: RegionId = RegionId(RegionId::FIRST_TABLE.0);
const TBL8: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 1);
const TBL24_V6: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 2);
const TBL8_V6: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 3);
const NEXT_HOPS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 4);

/// Packets that pass a stage together: `MAX_PKT_BURST` of DPDK's l3fwd.
const BURST: usize = 32;
/// How many packets ahead headers are prefetched: `PREFETCH_OFFSET` of DPDK's l3fwd.
const PREFETCH_AHEAD: usize = 3;

/// Places of references, in program order; those of the header check (8 to 21) come after the
/// prefetch.
mod site {
    pub(super) const PREFETCH_BUF_ADDR: u16 = 0;
    pub(super) const PREFETCH_DATA_OFF: u16 = 1;
    pub(super) const PREFETCH_HEADER: u16 = 2;
    pub(super) const PREFETCH_DONE: u16 = 3;
    pub(super) const CHECK_LATCH: u16 = 22;
    pub(super) const TBL24_PREFETCH: u16 = 24;
    pub(super) const TBL24_PREFETCH_LATCH: u16 = 25;
    pub(super) const TBL24: u16 = 26;
    pub(super) const TBL24_LATCH: u16 = 27;
    pub(super) const TBL8: u16 = 28;
    pub(super) const TBL8_LATCH: u16 = 29;
    pub(super) const TBL24_V6_PREFETCH: u16 = 32;
    pub(super) const TBL24_V6_PREFETCH_LATCH: u16 = 33;
    pub(super) const TBL24_V6: u16 = 34;
    pub(super) const TBL24_V6_LATCH: u16 = 35;
    pub(super) const TBL8_V6: u16 = 36;
    pub(super) const TBL8_V6_LATCH: u16 = 37;
    pub(super) const REWRITE_BUF_ADDR: u16 = 40;
    pub(super) const REWRITE_DATA_OFF: u16 = 41;
    pub(super) const TTL_LOAD: u16 = 42;
    pub(super) const TTL_STORE: u16 = 43;
    pub(super) const HOP_LIMIT_LOAD: u16 = 44;
    pub(super) const HOP_LIMIT_STORE: u16 = 45;
    pub(super) const NEXT_HOP: u16 = 46;
    pub(super) const MAC_STORE: u16 = 47;
    pub(super) const REWRITE_DONE: u16 = 48;
    pub(super) const REWRITE_LATCH: u16 = 49;
}

/// Instructions per packet of each part as compiled for x86-64; `tests/instructions.rs` compares
/// their sum with what valgrind counts.
mod cost {
    pub(super) const PREFETCH: u32 = 7;
    pub(super) const TBL24_PREFETCH: u32 = 4;
    pub(super) const TBL24: u32 = 20;
    pub(super) const TBL8: u32 = 19;
    pub(super) const TBL24_V6_PREFETCH: u32 = 4;
    pub(super) const TBL24_V6: u32 = 20;
    pub(super) const TBL8_V6: u32 = 30;
    pub(super) const NO_ROUTE: u32 = 26;
    /// The time to live runs out before anything is written.
    pub(super) const EXPIRED: u32 = 37;
    pub(super) const REWRITE_V4: u32 = 74;
    pub(super) const REWRITE_V6: u32 = 65;
}

/// How IP forwarding is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ForwardSpec {
    /// Bytes of an IPv4 table entry: 2 (up to 32767 next hops, tbl24 takes 32 MiB) or 4 (64 MiB).
    /// Left out: 2 if the next hops fit.
    pub entry_bytes: Option<u8>,
    /// Groups of 256 entries for IPv4 prefixes longer than 24 bits. Left out: what the routes need
    /// and a quarter more, in a power of two.
    pub tbl8_groups: Option<u32>,
    /// Groups of 256 entries for IPv6 prefixes longer than 24 bits. Left out: as for IPv4.
    pub tbl8_v6_groups: Option<u32>,
    /// Whether headers and tbl24 entries are prefetched.
    pub prefetch: bool,
    /// Whether a burst goes through the stages together or each packet alone.
    pub lookup: LookupMode,
    /// Who verifies the IPv4 header checksum.
    pub checksum: ChecksumCheck,
}

impl Default for ForwardSpec {
    fn default() -> ForwardSpec {
        ForwardSpec {
            entry_bytes: None,
            tbl8_groups: None,
            tbl8_v6_groups: None,
            prefetch: true,
            lookup: LookupMode::Bulk,
            checksum: ChecksumCheck::Nic,
        }
    }
}

/// How the lookups of a burst are arranged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LookupMode {
    /// Stage by stage over up to 32 packets: misses of different packets overlap.
    #[default]
    Bulk,
    /// One packet through all stages, then the next.
    Single,
}

/// Who verifies the IPv4 header checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChecksumCheck {
    /// The NIC, as DPDK's l3fwd has it: the function loads `ol_flags`. Every packet counts as good,
    /// since captures with erased checksums would otherwise lose every packet.
    #[default]
    Nic,
    /// The function sums the header.
    Software,
}

/// Where a next hop is: the port towards it, and the Ethernet header to get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C, align(16))]
pub struct Adjacency {
    /// The next router's address.
    pub dst_mac: [u8; 6],
    /// The address of the port that it is reached by.
    pub src_mac: [u8; 6],
    /// That port.
    pub port: PortId,
}

const ADJACENCY_BYTES: u64 = size_of::<Adjacency>() as u64;

impl Adjacency {
    /// An adjacency with locally administered addresses made from `id` and `port`, for when only
    /// the next hops' numbers are known.
    pub fn numbered(id: u32, port: PortId) -> Adjacency {
        let [a, b, c, d] = id.to_be_bytes();
        let [p, q] = port.0.to_be_bytes();
        Adjacency { dst_mac: [0x02, 0, a, b, c, d], src_mac: [0x02, 1, 0, 0, p, q], port }
    }
}

/// Entries of a table for IPv4, of either width: see [`lookup::FibEntry`](crate::lookup::FibEntry).
#[derive(Clone, Copy, Debug)]
pub enum Entries<'a> {
    /// Of 2 bytes.
    Narrow(&'a [u16]),
    /// Of 4 bytes.
    Wide(&'a [u32]),
}

/// What forwarding reads, as it lies in memory.
#[derive(Clone, Copy, Debug)]
pub struct ForwardTables<'a> {
    /// tbl24 of IPv4.
    pub tbl24: Entries<'a>,
    /// tbl8 of IPv4, as wide as tbl24.
    pub tbl8: Entries<'a>,
    /// tbl24 of IPv6.
    pub tbl24_v6: &'a [u32],
    /// tbl8 of IPv6.
    pub tbl8_v6: &'a [u32],
    /// Next hops by number.
    pub adjacencies: &'a [Adjacency],
    /// Who verifies the IPv4 header checksum.
    pub checksum: ChecksumCheck,
}

/// IP forwarding. A clone shares the tables.
#[derive(Clone, Debug)]
pub struct Forward {
    fib: Arc<Fib>,
    prefetch: bool,
    lookup: LookupMode,
    checksum: ChecksumCheck,
}

state::state!(Forward { values: [], arrays: [], parts: [], built: [fib, prefetch, lookup, checksum] });

#[derive(Debug)]
struct Fib {
    v4: Fib4,
    v6: Lpm6,
    adjacencies: Vec<Adjacency>,
}

#[derive(Debug)]
enum Fib4 {
    Narrow(Dir24_8<u16>),
    Wide(Dir24_8<u32>),
}

impl Forward {
    /// Forwarding by `routes` through `ports` ports. Next hop `n` is reached by port `n % ports`,
    /// with made-up Ethernet addresses. Of equal prefixes the last counts.
    ///
    /// # Errors
    /// No port, an entry width other than 2 or 4, a next hop that the entries cannot hold, more
    /// groups than reserved, a prefix length that does not exist, no memory.
    pub fn new(
        routes: impl Iterator<Item = (Prefix, NextHop)>,
        ports: u16,
        spec: &ForwardSpec,
    ) -> Result<Forward, FunctionError> {
        if ports == 0 {
            return Err(FunctionError::NoPorts);
        }
        let routes: Vec<_> = routes.collect();
        let next_hops = routes.iter().map(|(_, next_hop)| next_hop.id() + 1).max().unwrap_or(0);
        // Before as many adjacencies are made.
        if spec.entry_bytes == Some(2) {
            fits::<u16>(next_hops)?;
        }
        let adjacency = |id| Adjacency::numbered(id, PortId((id % u32::from(ports)) as u16));
        Forward::with_adjacencies(routes.into_iter(), (0..next_hops).map(adjacency).collect(), spec)
    }

    /// Forwarding by `routes` to next hops that are described: next hop `n` is `adjacencies[n]`.
    ///
    /// # Errors
    /// As [`Forward::new`], and a route to a next hop without adjacency.
    pub fn with_adjacencies(
        routes: impl Iterator<Item = (Prefix, NextHop)>,
        adjacencies: Vec<Adjacency>,
        spec: &ForwardSpec,
    ) -> Result<Forward, FunctionError> {
        let (mut v4, mut v6, mut next_hops) = (Vec::new(), Vec::new(), 0);
        for (prefix, next_hop) in routes {
            if next_hop.id() as usize >= adjacencies.len() {
                return Err(FunctionError::NoAdjacency { next_hop: next_hop.id(), adjacencies: adjacencies.len() });
            }
            next_hops = next_hops.max(next_hop.id() + 1);
            match prefix {
                Prefix::V4 { addr, len } if len <= 32 => v4.push((addr, len, next_hop)),
                Prefix::V6 { addr, len } if len <= 128 => v6.push((addr, len, next_hop)),
                _ => return Err(FunctionError::PrefixLength(prefix)),
            }
        }
        let groups = |groups| Dir24Spec { groups, ..Dir24Spec::default() };
        let v4 = match spec.entry_bytes {
            Some(2) => Fib4::Narrow(Dir24_8::new(v4, groups(spec.tbl8_groups))?),
            None if fits::<u16>(next_hops).is_ok() => Fib4::Narrow(Dir24_8::new(v4, groups(spec.tbl8_groups))?),
            Some(4) | None => Fib4::Wide(Dir24_8::new(v4, groups(spec.tbl8_groups))?),
            Some(other) => return Err(FunctionError::EntryBytes(other)),
        };
        let v6 = Lpm6::new(v6, groups(spec.tbl8_v6_groups))?;
        Ok(Forward {
            fib: Arc::new(Fib { v4, v6, adjacencies }),
            prefetch: spec.prefetch,
            lookup: spec.lookup,
            checksum: spec.checksum,
        })
    }

    /// The same routes and next hops in tables of 32-bit entries that nobody shares: those can change while somebody looks up in a copy.
    ///
    /// # Errors
    /// No memory.
    pub fn unshared(&self) -> Result<Forward, FunctionError> {
        let v4 = match &self.fib.v4 {
            Fib4::Narrow(table) => Dir24_8::new(table.routes(), Dir24Spec::default())?,
            Fib4::Wide(table) => Dir24_8::new(table.routes(), Dir24Spec::default())?,
        };
        let (v4, v6) = (Fib4::Wide(v4), Lpm6::new(self.fib.v6.routes(), Dir24Spec::default())?);
        let fib = Arc::new(Fib { v4, v6, adjacencies: self.fib.adjacencies.clone() });
        Ok(Forward { fib, ..self.clone() })
    }

    /// The tables of 32-bit entries, for whoever keeps a copy of them that has readers; [`None`] while a clone shares them, and of
    /// entries of 16 bits.
    pub fn dir24_mut(&mut self) -> Option<(&mut Dir24_8<u32>, &mut Lpm6)> {
        match Arc::get_mut(&mut self.fib)? {
            Fib { v4: Fib4::Wide(v4), v6, .. } => Some((v4, v6)),
            _ => None,
        }
    }

    /// Adds or replaces a route, or removes it where there is no next hop; the next hop that the prefix had. [`None`], and nothing has
    /// happened, where [`Forward::dir24_mut`] has none.
    ///
    /// # Errors
    /// A next hop without adjacency, no room for the route, a prefix length that does not exist.
    pub fn update(
        &mut self,
        prefix: Prefix,
        next_hop: Option<NextHop>,
    ) -> Option<Result<Option<NextHop>, FunctionError>> {
        let adjacencies = self.fib.adjacencies.len();
        let (v4, v6) = self.dir24_mut()?;
        if let Some(hop) = next_hop.filter(|hop| hop.id() as usize >= adjacencies) {
            return Some(Err(FunctionError::NoAdjacency { next_hop: hop.id(), adjacencies }));
        }
        Some(match (prefix, next_hop) {
            (Prefix::V4 { addr, len: len @ 0..=32 }, Some(hop)) => v4.add(addr, len, hop),
            (Prefix::V6 { addr, len: len @ 0..=128 }, Some(hop)) => v6.add(addr, len, hop),
            (Prefix::V4 { addr, len: len @ 0..=32 }, None) => Ok(v4.remove(addr, len)),
            (Prefix::V6 { addr, len: len @ 0..=128 }, None) => Ok(v6.remove(addr, len)),
            (prefix, _) => Err(FunctionError::PrefixLength(prefix)),
        })
    }

    /// The next hop of `addr`, without a packet.
    pub fn next_hop(&self, addr: std::net::IpAddr) -> Option<NextHop> {
        match (addr, &self.fib.v4) {
            (std::net::IpAddr::V4(addr), Fib4::Narrow(table)) => table.lookup(addr.into()),
            (std::net::IpAddr::V4(addr), Fib4::Wide(table)) => table.lookup(addr.into()),
            (std::net::IpAddr::V6(addr), _) => self.fib.v6.lookup(addr.into()),
        }
    }

    /// The tables as they lie in memory: what a lowering to another processor works on.
    pub fn tables(&self) -> ForwardTables<'_> {
        let (tbl24, tbl8) = match &self.fib.v4 {
            Fib4::Narrow(table) => {
                let (tbl24, tbl8) = table.entries();
                (Entries::Narrow(tbl24), Entries::Narrow(tbl8))
            }
            Fib4::Wide(table) => {
                let (tbl24, tbl8) = table.entries();
                (Entries::Wide(tbl24), Entries::Wide(tbl8))
            }
        };
        let (tbl24_v6, tbl8_v6) = self.fib.v6.entries();
        let adjacencies = &self.fib.adjacencies;
        ForwardTables { tbl24, tbl8, tbl24_v6, tbl8_v6, adjacencies, checksum: self.checksum }
    }

    /// How many IPv4 and IPv6 routes there are.
    pub fn routes(&self) -> (usize, usize) {
        let v4 = match &self.fib.v4 {
            Fib4::Narrow(table) => table.len(),
            Fib4::Wide(table) => table.len(),
        };
        (v4, self.fib.v6.len())
    }

    fn stages<const N: usize, P: Probe, E: FibEntry>(
        &self,
        v4: &Dir24_8<E>,
        burst: &mut [Packet],
        probe: &mut P,
        out: &mut Vec<Verdict>,
    ) {
        let mut tape = Tape::new(probe);
        if self.prefetch {
            burst.iter().take(PREFETCH_AHEAD).for_each(|packet| prefetch_header(packet, &mut tape));
        }
        let mut rest = burst;
        while !rest.is_empty() {
            let mut lanes = StagedPackets::<N, E>::new();
            let mut trail = Trail::<P, N>::new();
            self.check(rest, &mut lanes, &mut trail, &mut tape);
            self.look_up_v4(v4, &mut lanes, &mut trail, &mut tape);
            if lanes.v6.n > 0 {
                self.look_up_v6(&mut lanes, &mut trail, &mut tape);
            }
            let (packets, after) = rest.split_at_mut(rest.len().min(N));
            self.rewrite(packets, &lanes, &trail, &mut tape, out);
            rest = after;
        }
    }

    /// The header check of the first `N` packets of `rest`.
    #[inline(always)]
    fn check<const N: usize, P: Probe, E: FibEntry>(
        &self,
        rest: &[Packet],
        lanes: &mut StagedPackets<N, E>,
        trail: &mut Trail<P, N>,
        tape: &mut Tape<'_, P>,
    ) {
        for (i, packet) in rest.iter().enumerate().take(N) {
            if self.prefetch
                && let Some(ahead) = rest.get(i + PREFETCH_AHEAD)
            {
                prefetch_header(ahead, tape);
            }
            tape.begin(packet.id);
            trail.enter(i, packet.id);
            match check::headers(packet, self.checksum, tape) {
                Ok(Checked::V4(dst, mark)) => {
                    trail.keep(i, mark);
                    lanes.v4.push(i, dst);
                }
                Ok(Checked::V6(dst, mark)) => {
                    trail.keep(i, mark);
                    lanes.v6.push(i, dst);
                }
                Err(reason) => lanes.fate[i] = ForwardFate::Drop(reason),
            }
            tape.end(packet.id);
            tape.latch(site::CHECK_LATCH);
        }
    }

    #[inline(always)]
    fn look_up_v4<const N: usize, P: Probe, E: FibEntry>(
        &self,
        table: &Dir24_8<E>,
        lanes: &mut StagedPackets<N, E>,
        trail: &mut Trail<P, N>,
        tape: &mut Tape<'_, P>,
    ) {
        let width = u64::from(E::BYTES);
        let tbl24 = |dst, site| Ref::load(TBL24, Dir24_8::<E>::tbl24_index(dst) as u64 * width, width as u16, site);
        if self.prefetch {
            for k in 0..lanes.v4.n.min(N) {
                let (i, dst) = lanes.v4.get(k);
                tape.begin(trail.id(i));
                table.prefetch(dst);
                tape.touch_after(trail.mark(i), tbl24(dst, site::TBL24_PREFETCH).with_access(Access::Prefetch));
                tape.work(site::TBL24_PREFETCH, cost::TBL24_PREFETCH);
                tape.end(trail.id(i));
                tape.latch(site::TBL24_PREFETCH_LATCH);
            }
        }
        let mut any = 0;
        for k in 0..lanes.v4.n.min(N) {
            let (i, dst) = lanes.v4.get(k);
            tape.begin(trail.id(i));
            let entry = table.first(dst);
            trail.keep(i, tape.touch_after(trail.mark(i), tbl24(dst, site::TBL24)));
            any |= entry.bits();
            lanes.entry[k] = entry;
            lanes.fate[i] = ForwardFate::V4(entry.next_hop());
            tape.work(site::TBL24, cost::TBL24);
            tape.end(trail.id(i));
            tape.latch(site::TBL24_LATCH);
        }
        if any & E::GROUP == 0 {
            return;
        }
        for k in 0..lanes.v4.n.min(N) {
            let (i, dst) = lanes.v4.get(k);
            if let Some((at, entry)) = table.step(lanes.entry[k], dst, 1) {
                tape.begin(trail.id(i));
                let tbl8 = Ref::load(TBL8, at as u64 * width, width as u16, site::TBL8);
                trail.keep(i, tape.touch_after(trail.mark(i), tbl8));
                lanes.fate[i] = ForwardFate::V4(entry.next_hop());
                tape.work(site::TBL8, cost::TBL8);
                tape.end(trail.id(i));
            }
            tape.latch(site::TBL8_LATCH);
        }
    }

    /// Level by level, so that on each level the misses of different packets overlap.
    #[inline(always)]
    fn look_up_v6<const N: usize, P: Probe, E: FibEntry>(
        &self,
        lanes: &mut StagedPackets<N, E>,
        trail: &mut Trail<P, N>,
        tape: &mut Tape<'_, P>,
    ) {
        let table = &self.fib.v6;
        let width = u64::from(<u32 as FibEntry>::BYTES);
        let tbl24 = |dst, site| Ref::load(TBL24_V6, Lpm6::tbl24_index(dst) as u64 * width, width as u16, site);
        if self.prefetch {
            for k in 0..lanes.v6.n.min(N) {
                let (i, dst) = lanes.v6.get(k);
                tape.begin(trail.id(i));
                table.prefetch(dst);
                tape.touch_after(trail.mark(i), tbl24(dst, site::TBL24_V6_PREFETCH).with_access(Access::Prefetch));
                tape.work(site::TBL24_V6_PREFETCH, cost::TBL24_V6_PREFETCH);
                tape.end(trail.id(i));
                tape.latch(site::TBL24_V6_PREFETCH_LATCH);
            }
        }
        let n = lanes.v6.n.min(N);
        let mut entries = [0u32; N];
        for (k, entry) in entries.iter_mut().enumerate().take(n) {
            let (i, dst) = lanes.v6.get(k);
            tape.begin(trail.id(i));
            *entry = table.first(dst);
            trail.keep(i, tape.touch_after(trail.mark(i), tbl24(dst, site::TBL24_V6)));
            lanes.fate[i] = ForwardFate::V6(entry.next_hop());
            tape.work(site::TBL24_V6, cost::TBL24_V6);
            tape.end(trail.id(i));
            tape.latch(site::TBL24_V6_LATCH);
        }
        for level in 1.. {
            let mut any = 0;
            for (k, latest) in entries.iter_mut().enumerate().take(n) {
                let (i, dst) = lanes.v6.get(k);
                if let Some((at, entry)) = table.step(*latest, dst, level) {
                    tape.begin(trail.id(i));
                    let tbl8 = Ref::load(TBL8_V6, at as u64 * width, width as u16, site::TBL8_V6);
                    trail.keep(i, tape.touch_after(trail.mark(i), tbl8));
                    any |= entry;
                    *latest = entry;
                    lanes.fate[i] = ForwardFate::V6(entry.next_hop());
                    tape.work(site::TBL8_V6, cost::TBL8_V6);
                    tape.end(trail.id(i));
                }
                tape.latch(site::TBL8_V6_LATCH);
            }
            if any & <u32 as FibEntry>::GROUP == 0 {
                return;
            }
        }
    }

    #[inline(always)]
    fn rewrite<const N: usize, P: Probe, E: FibEntry>(
        &self,
        packets: &mut [Packet],
        lanes: &StagedPackets<N, E>,
        trail: &Trail<P, N>,
        tape: &mut Tape<'_, P>,
        out: &mut Vec<Verdict>,
    ) {
        let mut verdicts = [Verdict::Drop(DropReason::NoRoute); N];
        for (i, packet) in packets.iter_mut().enumerate().take(N) {
            verdicts[i] = match lanes.fate[i] {
                ForwardFate::Drop(reason) => Verdict::Drop(reason),
                ForwardFate::V4(None) | ForwardFate::V6(None) => {
                    tape.begin(packet.id);
                    tape.work(site::REWRITE_DONE, cost::NO_ROUTE);
                    tape.end(packet.id);
                    Verdict::Drop(DropReason::NoRoute)
                }
                ForwardFate::V4(Some(next_hop)) => {
                    tape.begin(packet.id);
                    let data = check::data_address(tape, site::REWRITE_BUF_ADDR, site::REWRITE_DATA_OFF);
                    let verdict = match decrement_ttl(packet, data, tape) {
                        Ok(()) => {
                            let verdict = self.send(packet, next_hop, trail.mark(i), data, tape);
                            tape.work(site::REWRITE_DONE, cost::REWRITE_V4);
                            verdict
                        }
                        Err(reason) => {
                            tape.work(site::REWRITE_DONE, cost::EXPIRED);
                            Verdict::Drop(reason)
                        }
                    };
                    tape.end(packet.id);
                    verdict
                }
                ForwardFate::V6(Some(next_hop)) => {
                    tape.begin(packet.id);
                    let data = check::data_address(tape, site::REWRITE_BUF_ADDR, site::REWRITE_DATA_OFF);
                    let verdict = match decrement_hop_limit(packet, data, tape) {
                        Ok(()) => {
                            let verdict = self.send(packet, next_hop, trail.mark(i), data, tape);
                            tape.work(site::REWRITE_DONE, cost::REWRITE_V6);
                            verdict
                        }
                        Err(reason) => {
                            tape.work(site::REWRITE_DONE, cost::EXPIRED);
                            Verdict::Drop(reason)
                        }
                    };
                    tape.end(packet.id);
                    verdict
                }
            };
            tape.latch(site::REWRITE_LATCH);
        }
        out.extend_from_slice(&verdicts[..packets.len().min(N)]);
    }

    /// Puts on the Ethernet addresses of the next hop, whose number came from the reference `hop`.
    #[inline(always)]
    fn send<P: Probe>(
        &self,
        packet: &mut Packet,
        next_hop: NextHop,
        hop: TapeMark,
        data: TapeMark,
        tape: &mut Tape<'_, P>,
    ) -> Verdict {
        let id = next_hop.id() as usize;
        // Both exist: routes were checked against the adjacencies, and an IP header was found
        // behind an Ethernet header.
        let (Some(adjacency), Some(macs)) = (self.fib.adjacencies.get(id), packet.data.first_chunk_mut::<12>()) else {
            return Verdict::Drop(DropReason::NoRoute);
        };
        let offset = id as u64 * ADJACENCY_BYTES;
        tape.touch_after(hop, Ref::load(NEXT_HOPS, offset, ADJACENCY_BYTES as u16, site::NEXT_HOP));
        macs[..6].copy_from_slice(&adjacency.dst_mac);
        macs[6..].copy_from_slice(&adjacency.src_mac);
        tape.touch_after(data, Ref::store(RegionId::PACKET, 0, 12, site::MAC_STORE));
        Verdict::Forward { port: adjacency.port }
    }
}

impl Forward {
    /// What the update of each of its routes writes.
    pub fn route_places(&self) -> Vec<RoutePlace> {
        let mut places: Vec<RoutePlace> = match &self.fib.v4 {
            Fib4::Narrow(table) => table.route_places(TBL24).collect(),
            Fib4::Wide(table) => table.route_places(TBL24).collect(),
        };
        places.extend(self.fib.v6.route_places(TBL24_V6));
        places
    }
}

impl PacketFunction for Forward {
    fn name(&self) -> &'static str {
        "forward"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        let region = |id, name: &str, bytes| RegionSpec { id, name: name.into(), bytes, sharing: Sharing::Shared };
        let (tbl24, tbl8) = match &self.fib.v4 {
            Fib4::Narrow(table) => (table.tbl24_bytes(), table.tbl8_bytes()),
            Fib4::Wide(table) => (table.tbl24_bytes(), table.tbl8_bytes()),
        };
        vec![
            region(TBL24, "tbl24", tbl24),
            region(TBL8, "tbl8", tbl8),
            region(TBL24_V6, "tbl24_v6", self.fib.v6.tbl24_bytes()),
            region(TBL8_V6, "tbl8_v6", self.fib.v6.tbl8_bytes()),
            region(NEXT_HOPS, "next_hops", (self.fib.adjacencies.len() as u64).max(1) * ADJACENCY_BYTES),
        ]
    }

    fn process_burst<P: Probe>(&mut self, _: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        match (&self.fib.v4, self.lookup) {
            (Fib4::Narrow(table), LookupMode::Bulk) => self.stages::<BURST, P, _>(table, burst, probe, out),
            (Fib4::Wide(table), LookupMode::Bulk) => self.stages::<BURST, P, _>(table, burst, probe, out),
            (Fib4::Narrow(table), LookupMode::Single) => self.stages::<1, P, _>(table, burst, probe, out),
            (Fib4::Wide(table), LookupMode::Single) => self.stages::<1, P, _>(table, burst, probe, out),
        }
    }
}

/// What is known about a packet between the stages.
#[derive(Clone, Copy)]
enum ForwardFate {
    Drop(DropReason),
    V4(Option<NextHop>),
    V6(Option<NextHop>),
}

/// The packets that pass the stages together.
struct StagedPackets<const N: usize, E> {
    fate: [ForwardFate; N],
    v4: Keys<N, u32>,
    v6: Keys<N, u128>,
    /// Found for the keys of `v4` on the first level.
    entry: [E; N],
}

/// Destinations to look up, with the places of their packets.
struct Keys<const N: usize, A> {
    n: usize,
    at: [u8; N],
    dst: [A; N],
}

impl<const N: usize, E: FibEntry> StagedPackets<N, E> {
    #[inline(always)]
    fn new() -> Self {
        const { assert!(N.is_power_of_two() && N <= 128) };
        StagedPackets {
            fate: [ForwardFate::V4(None); N],
            v4: Keys { n: 0, at: [0; N], dst: [0; N] },
            v6: Keys { n: 0, at: [0; N], dst: [0; N] },
            entry: [E::default(); N],
        }
    }
}

impl<const N: usize, A: Copy> Keys<N, A> {
    #[inline(always)]
    fn push(&mut self, at: usize, dst: A) {
        // A remainder by a power of two is a mask: no bounds check.
        self.at[self.n % N] = at as u8;
        self.dst[self.n % N] = dst;
        self.n += 1;
    }

    /// The place of the packet, below `N`, and its destination.
    #[inline(always)]
    fn get(&self, k: usize) -> (usize, A) {
        (usize::from(self.at[k]) % N, self.dst[k])
    }
}

fn fits<E: FibEntry>(next_hops: u32) -> Result<(), FunctionError> {
    match next_hops.checked_sub(1) {
        Some(next_hop) if next_hop > E::MAX_NEXT_HOP => {
            Err(FunctionError::NextHop { next_hop, entry_bytes: E::BYTES, max: E::MAX_NEXT_HOP })
        }
        _ => Ok(()),
    }
}

#[inline(always)]
fn prefetch_header<P: Probe>(packet: &Packet, tape: &mut Tape<'_, P>) {
    tape.begin(packet.id);
    let data = check::data_address(tape, site::PREFETCH_BUF_ADDR, site::PREFETCH_DATA_OFF);
    prefetch(packet.data.as_ptr());
    let header = Ref::load(RegionId::PACKET, 0, 1, site::PREFETCH_HEADER).with_access(Access::Prefetch);
    tape.touch_after(data, header);
    tape.work(site::PREFETCH_DONE, cost::PREFETCH);
    tape.end(packet.id);
    tape.latch(site::PREFETCH_DONE);
}

#[inline(always)]
fn decrement_ttl<P: Probe>(packet: &mut Packet, data: TapeMark, tape: &mut Tape<'_, P>) -> Result<(), DropReason> {
    let at = usize::from(packet.l3_offset) + 8;
    let word = packet.data.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()).ok_or(DropReason::Truncated)?;
    tape.touch_after(data, Ref::load(RegionId::PACKET, at as u64, 4, site::TTL_LOAD));
    *word = ttl::decrement(*word).ok_or(DropReason::TtlExpired)?;
    tape.touch_after(data, Ref::store(RegionId::PACKET, at as u64, 4, site::TTL_STORE));
    Ok(())
}

#[inline(always)]
fn decrement_hop_limit<P: Probe>(
    packet: &mut Packet,
    data: TapeMark,
    tape: &mut Tape<'_, P>,
) -> Result<(), DropReason> {
    let at = usize::from(packet.l3_offset) + 7;
    let hop_limit = packet.data.get_mut(at).ok_or(DropReason::Truncated)?;
    tape.touch_after(data, Ref::load(RegionId::PACKET, at as u64, 1, site::HOP_LIMIT_LOAD));
    if *hop_limit <= 1 {
        return Err(DropReason::HopLimitExceeded);
    }
    *hop_limit -= 1;
    tape.touch_after(data, Ref::store(RegionId::PACKET, at as u64, 1, site::HOP_LIMIT_STORE));
    Ok(())
}
