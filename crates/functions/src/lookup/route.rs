//! Route lookup as a function of its own.
//!
//! **Computes** the next hop of a packet's destination and sends the packet by the port it is reached by. Nothing of
//! the packet is checked or changed: see `check`, `ttl` and `forward` for that.
//!
//! **References per packet**: 3 mbuf loads (where the data lies, and the packet's type), 1 load of the destination, and
//! those of the structure: DIR-24-8 1 or 2 for IPv4, 1 to 14 for IPv6; Poptrie 1 to 5 and 1 to 21. Best 3 (not IP).
//!
//! **Regions**: those of the structure, for IPv4 and for IPv6; the packet and its mbuf.
//!
//! Left out: prefetching and the interleaving of a burst's lookups, which `forward` has; the Ethernet header.
//!
//! **Source**: see `dir24` and `poptrie`. As a task of its own: Zhu, Deng, Chen, "Hermes: An Integrated CPU/GPU
//! Microarchitecture for IP Routing", DAC 2011, section 2 (routing table lookup, RTL).
//!
//! **See also** `forward`.

use std::net::IpAddr;
use std::sync::Arc;

use packet::{L3, Packet, Prefix};
use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PortId, Ps};

use super::{Dir24, Dir24_8, Dir24Spec, FibEntry, IpAddress, Lpm6, NextHop, Poptrie, RoutePlace};
use crate::check::{data_address, mbuf};
use crate::tape::{Tape, TapeMark};
use crate::{DropReason, FunctionError, PacketFunction, Verdict};

const V4_FIRST: RegionId = RegionId::FIRST_TABLE;
const V6_FIRST: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 3);

/// Places of references, in program order. Each structure takes five.
mod site {
    pub(super) const BUF_ADDR: u16 = 0;
    pub(super) const DATA_OFF: u16 = 1;
    pub(super) const PACKET_TYPE: u16 = 2;
    pub(super) const V4_DESTINATION: u16 = 3;
    pub(super) const V4_TABLE: u16 = 4;
    pub(super) const V6_DESTINATION: u16 = 9;
    pub(super) const V6_TABLE: u16 = 10;
    pub(super) const DONE: u16 = 15;
    pub(super) const LATCH: u16 = 16;
}

/// Instructions of each part as compiled for x86-64; see `tests/instructions.rs`.
mod cost {
    pub(super) const NOT_IP: u32 = 34;
    pub(super) const V4: u32 = 56;
    pub(super) const V6: u32 = 68;
    pub(super) const TBL24: u32 = 8;
    pub(super) const TBL8: u32 = 10;
}

/// By which structure routes are looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Structure {
    /// DIR-24-8, and for IPv6 a chain of tables of 256 entries.
    #[default]
    Dir24,
    /// Poptrie.
    Poptrie,
}

/// Route lookup. A clone shares the tables.
#[derive(Clone, Debug)]
pub struct Lookup {
    fib: Arc<Fib>,
    ports: u16,
}

state::state!(Lookup { values: [], arrays: [], parts: [], built: [fib, ports] });

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of it, behind an Arc")]
enum Fib {
    Dir24(Dir24_8<u32>, Lpm6),
    Poptrie(Poptrie<u32>, Poptrie<u128>),
}

/// The tables of a [`Lookup`] as they lie in memory.
#[derive(Clone, Copy, Debug)]
pub enum LookupTables<'a> {
    /// tbl24 and tbl8 of IPv4, then of IPv6.
    Dir24([&'a [u32]; 4]),
    /// Of IPv4 and of IPv6: [`Poptrie::tables`].
    Poptrie(&'a Poptrie<u32>, &'a Poptrie<u128>),
}

impl Lookup {
    /// Lookup in `routes` on a machine of `ports` ports; next hop `n` is reached by port `n % ports`. Of equal prefixes
    /// the last counts.
    ///
    /// # Errors
    /// No port, a next hop that the structure cannot hold, a prefix length that does not exist, no memory.
    pub fn new(
        routes: impl Iterator<Item = (Prefix, NextHop)>,
        ports: u16,
        structure: Structure,
    ) -> Result<Lookup, FunctionError> {
        if ports == 0 {
            return Err(FunctionError::NoPorts);
        }
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (prefix, next_hop) in routes {
            match prefix {
                Prefix::V4 { addr, len } if len <= 32 => v4.push((addr, len, next_hop)),
                Prefix::V6 { addr, len } if len <= 128 => v6.push((addr, len, next_hop)),
                _ => return Err(FunctionError::PrefixLength(prefix)),
            }
        }
        let fib = match structure {
            Structure::Dir24 => {
                Fib::Dir24(Dir24_8::new(v4, Dir24Spec::default())?, Lpm6::new(v6, Dir24Spec::default())?)
            }
            Structure::Poptrie => Fib::Poptrie(Poptrie::new(v4)?, Poptrie::new(v6)?),
        };
        Ok(Lookup { fib: Arc::new(fib), ports })
    }

    /// The next hop of `addr`, without a packet.
    pub fn next_hop(&self, addr: IpAddr) -> Option<NextHop> {
        match (&*self.fib, addr) {
            (Fib::Dir24(table, _), IpAddr::V4(addr)) => table.lookup(addr.into()),
            (Fib::Dir24(_, table), IpAddr::V6(addr)) => table.lookup(addr.into()),
            (Fib::Poptrie(table, _), IpAddr::V4(addr)) => table.lookup(addr.into()),
            (Fib::Poptrie(_, table), IpAddr::V6(addr)) => table.lookup(addr.into()),
        }
    }

    /// Adds or replaces a route, or removes it where there is no next hop, without building anything but what it changes;
    /// the next hop that the prefix had. [`None`], and nothing has happened, while a clone shares the tables: whoever
    /// looks up in them must not see them change.
    ///
    /// # Errors
    /// A next hop or a number of routes that the structure cannot hold, a prefix length that does not exist.
    pub fn update(
        &mut self,
        prefix: Prefix,
        next_hop: Option<NextHop>,
    ) -> Option<Result<Option<NextHop>, FunctionError>> {
        let fib = Arc::get_mut(&mut self.fib)?;
        Some(match (fib, prefix, next_hop) {
            (Fib::Dir24(t, _), Prefix::V4 { addr, len: len @ 0..=32 }, Some(hop)) => t.add(addr, len, hop),
            (Fib::Dir24(_, t), Prefix::V6 { addr, len: len @ 0..=128 }, Some(hop)) => t.add(addr, len, hop),
            (Fib::Poptrie(t, _), Prefix::V4 { addr, len: len @ 0..=32 }, Some(hop)) => t.add(addr, len, hop),
            (Fib::Poptrie(_, t), Prefix::V6 { addr, len: len @ 0..=128 }, Some(hop)) => t.add(addr, len, hop),
            (Fib::Dir24(t, _), Prefix::V4 { addr, len: len @ 0..=32 }, None) => Ok(t.remove(addr, len)),
            (Fib::Dir24(_, t), Prefix::V6 { addr, len: len @ 0..=128 }, None) => Ok(t.remove(addr, len)),
            (Fib::Poptrie(t, _), Prefix::V4 { addr, len: len @ 0..=32 }, None) => Ok(t.remove(addr, len)),
            (Fib::Poptrie(_, t), Prefix::V6 { addr, len: len @ 0..=128 }, None) => Ok(t.remove(addr, len)),
            (_, prefix, _) => Err(FunctionError::PrefixLength(prefix)),
        })
    }

    /// The same routes in tables that nobody shares.
    ///
    /// # Errors
    /// No memory.
    pub fn unshared(&self) -> Result<Lookup, FunctionError> {
        let fib = match &*self.fib {
            Fib::Dir24(v4, v6) => Fib::Dir24(
                Dir24_8::new(v4.routes(), Dir24Spec::default())?,
                Lpm6::new(v6.routes(), Dir24Spec::default())?,
            ),
            Fib::Poptrie(v4, v6) => Fib::Poptrie(Poptrie::new(v4.routes())?, Poptrie::new(v6.routes())?),
        };
        Ok(Lookup { fib: Arc::new(fib), ports: self.ports })
    }

    /// The tables of DIR-24-8, for whoever keeps a copy of them that has readers; [`None`] while a clone shares them, and of
    /// another structure.
    pub fn dir24_mut(&mut self) -> Option<(&mut Dir24_8<u32>, &mut Lpm6)> {
        match Arc::get_mut(&mut self.fib)? {
            Fib::Dir24(v4, v6) => Some((v4, v6)),
            Fib::Poptrie(..) => None,
        }
    }

    /// The tables as they lie in memory.
    pub fn tables(&self) -> LookupTables<'_> {
        match &*self.fib {
            Fib::Dir24(v4, v6) => {
                let ((tbl24, tbl8), (tbl24_v6, tbl8_v6)) = (v4.entries(), v6.entries());
                LookupTables::Dir24([tbl24, tbl8, tbl24_v6, tbl8_v6])
            }
            Fib::Poptrie(v4, v6) => LookupTables::Poptrie(v4, v6),
        }
    }

    /// How many IPv4 and IPv6 routes there are.
    pub fn routes(&self) -> (usize, usize) {
        match &*self.fib {
            Fib::Dir24(v4, v6) => (v4.len(), v6.len()),
            Fib::Poptrie(v4, v6) => (v4.len(), v6.len()),
        }
    }

    #[inline(always)]
    fn one<P: Probe>(&self, packet: &Packet, tape: &mut Tape<'_, P>) -> Result<PortId, DropReason> {
        let data = data_address(tape, site::BUF_ADDR, site::DATA_OFF);
        tape.touch(Ref::load(RegionId::MBUF, mbuf::RX_FIELDS, 4, site::PACKET_TYPE));
        let at = usize::from(packet.l3_offset);
        let found = match packet.l3 {
            L3::V4 => {
                let Some(bytes) = packet.data.get(at + 16..).and_then(|rest| rest.first_chunk::<4>()) else {
                    tape.work(site::DONE, cost::NOT_IP);
                    return Err(DropReason::Truncated);
                };
                let load = Ref::load(RegionId::PACKET, at as u64 + 16, 4, site::V4_DESTINATION);
                let mark = tape.touch_after(data, load);
                tape.work(site::V4_DESTINATION, cost::V4);
                let dst = u32::from_be_bytes(*bytes);
                match &*self.fib {
                    Fib::Dir24(table, _) => chain(table, dst, mark, tape, V4_FIRST, site::V4_TABLE),
                    Fib::Poptrie(table, _) => table.walk(dst, mark, tape, V4_FIRST, site::V4_TABLE),
                }
            }
            L3::V6 => {
                let Some(bytes) = packet.data.get(at + 24..).and_then(|rest| rest.first_chunk::<16>()) else {
                    tape.work(site::DONE, cost::NOT_IP);
                    return Err(DropReason::Truncated);
                };
                let load = Ref::load(RegionId::PACKET, at as u64 + 24, 16, site::V6_DESTINATION);
                let mark = tape.touch_after(data, load);
                tape.work(site::V6_DESTINATION, cost::V6);
                let dst = u128::from_be_bytes(*bytes);
                match &*self.fib {
                    Fib::Dir24(_, table) => chain(table, dst, mark, tape, V6_FIRST, site::V6_TABLE),
                    Fib::Poptrie(_, table) => table.walk(dst, mark, tape, V6_FIRST, site::V6_TABLE),
                }
            }
            L3::Other => {
                tape.work(site::DONE, cost::NOT_IP);
                return Err(DropReason::NotIp);
            }
        };
        let next_hop = found.ok_or(DropReason::NoRoute)?;
        Ok(PortId((next_hop.id() % u32::from(self.ports)) as u16))
    }
}

/// A lookup in a [`Dir24`] with its references: tbl24 is region `first`, tbl8 the next one; sites `site` to `site` + 2.
#[inline(always)]
fn chain<A: IpAddress, E: FibEntry, P: Probe>(
    table: &Dir24<A, E>,
    addr: A,
    from: TapeMark,
    tape: &mut Tape<'_, P>,
    first: RegionId,
    site: u16,
) -> Option<NextHop> {
    let width = u64::from(E::BYTES);
    let tbl24 = Ref::load(first, Dir24::<A, E>::tbl24_index(addr) as u64 * width, width as u16, site);
    let mut mark = tape.touch_after(from, tbl24);
    tape.work(site, cost::TBL24);
    let mut entry = table.first(addr);
    let mut level = 1;
    while let Some((at, next)) = table.step(entry, addr, level) {
        let tbl8 = Ref::load(RegionId(first.0 + 1), at as u64 * width, width as u16, site + 1);
        mark = tape.touch_after(mark, tbl8);
        tape.work(site + 2, cost::TBL8);
        tape.latch(site + 2);
        (entry, level) = (next, level + 1);
    }
    entry.next_hop()
}

impl Lookup {
    /// What the update of each of its routes writes; nothing is known of a poptrie's.
    pub fn route_places(&self) -> Vec<RoutePlace> {
        match &*self.fib {
            Fib::Dir24(v4, v6) => v4.route_places(V4_FIRST).chain(v6.route_places(V6_FIRST)).collect(),
            Fib::Poptrie(..) => Vec::new(),
        }
    }
}

impl PacketFunction for Lookup {
    fn name(&self) -> &'static str {
        "lookup"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        let spec = |first: RegionId, i: u16, name: &str, bytes: u64| RegionSpec {
            id: RegionId(first.0 + i),
            name: name.into(),
            bytes,
            sharing: Sharing::Shared,
        };
        match &*self.fib {
            Fib::Dir24(v4, v6) => vec![
                spec(V4_FIRST, 0, "tbl24", v4.tbl24_bytes()),
                spec(V4_FIRST, 1, "tbl8", v4.tbl8_bytes()),
                spec(V6_FIRST, 0, "tbl24_v6", v6.tbl24_bytes()),
                spec(V6_FIRST, 1, "tbl8_v6", v6.tbl8_bytes()),
            ],
            Fib::Poptrie(v4, v6) => {
                let mut regions = v4.regions(V4_FIRST, ["poptrie_direct", "poptrie_nodes", "poptrie_leaves"]);
                regions.extend(v6.regions(V6_FIRST, ["poptrie_direct_v6", "poptrie_nodes_v6", "poptrie_leaves_v6"]));
                regions
            }
        }
    }

    fn process_burst<P: Probe>(&mut self, _: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        let mut tape = Tape::new(probe);
        for packet in burst {
            tape.begin(packet.id);
            out.push(match self.one(packet, &mut tape) {
                Ok(port) => Verdict::Forward { port },
                Err(reason) => Verdict::Drop(reason),
            });
            tape.end(packet.id);
            tape.latch(site::LATCH);
        }
    }
}
