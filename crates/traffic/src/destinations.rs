//! Destinations of a capture that no route covers, replaced by ones that a table covers.
//!
//! Who publishes a capture changes its addresses, so that a routing table knows few of them and rejects the others. Here a
//! destination that no prefix covers becomes an address under one of the table's prefixes: both are drawn by a hash of it, so
//! flows, their sizes and how often each destination comes stay as they are. The IPv4 header's checksum and that of TCP, UDP and
//! ICMPv6 are updated by RFC 1624; one that is 0 or wrong stays so.

use packet::{L3, PROTO_ICMPV6, PROTO_TCP, PROTO_UDP, Packet, Prefix, layers, update_checksum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::table::Table;

/// Whose addresses the packets of a capture go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CaptureDestinations {
    /// Those that it has.
    #[default]
    Captured,
    /// Where the routing table has no route to them, others that it has one to, the same one each time.
    Routed,
}

impl CaptureDestinations {
    /// Whether they stay as they are.
    pub fn are_captured(&self) -> bool {
        *self == CaptureDestinations::Captured
    }
}

/// Addresses of one family that a table covers.
#[derive(Debug)]
struct Covered {
    /// First and last addresses, ascending, none of which meet.
    ranges: Vec<(u128, u128)>,
    /// Prefixes to draw from: the network's address, and its host bits.
    prefixes: Vec<(u128, u128)>,
}

impl Covered {
    /// Of prefixes of addresses of `bits` bits.
    fn new(bits: u8, prefixes: impl Iterator<Item = (u128, u8)>) -> Covered {
        let host = |len: u8| u128::MAX.checked_shr((128 - bits + len).into()).unwrap_or(0);
        let prefixes: Vec<_> = prefixes.map(|(addr, len)| (addr, host(len))).collect();
        let mut sorted = prefixes.clone();
        sorted.sort_unstable();
        let mut ranges: Vec<(u128, u128)> = Vec::new();
        for (addr, host) in sorted {
            let end = addr | host;
            match ranges.last_mut() {
                Some((_, last)) if addr <= last.saturating_add(1) => *last = end.max(*last),
                _ => ranges.push((addr, end)),
            }
        }
        Covered { ranges, prefixes }
    }

    fn has(&self, addr: u128) -> bool {
        let at = self.ranges.partition_point(|&(first, _)| first <= addr);
        at.checked_sub(1).is_some_and(|at| addr <= self.ranges[at].1)
    }

    /// What stands for `addr`; itself where that is covered or nothing is.
    fn instead_of(&self, addr: u128) -> u128 {
        if self.prefixes.is_empty() || self.has(addr) {
            return addr;
        }
        let hash = blake3::hash(&addr.to_be_bytes());
        let half = |at: usize| u128::from_be_bytes(*hash.as_bytes()[at..].first_chunk().unwrap_or(&[0; 16]));
        let (network, host) = self.prefixes[(half(0) % self.prefixes.len() as u128) as usize];
        network | half(16) & host
    }
}

/// See the module header.
#[derive(Debug)]
pub(crate) struct RoutedDestinations {
    v4: Covered,
    v6: Covered,
}

impl RoutedDestinations {
    pub(crate) fn new(table: &Table) -> RoutedDestinations {
        let v4 = table.prefixes().filter_map(|prefix| match prefix {
            Prefix::V4 { addr, len } => Some((addr.into(), len)),
            Prefix::V6 { .. } => None,
        });
        let v6 = table.prefixes().filter_map(|prefix| match prefix {
            Prefix::V6 { addr, len } => Some((addr, len)),
            Prefix::V4 { .. } => None,
        });
        RoutedDestinations { v4: Covered::new(32, v4), v6: Covered::new(128, v6) }
    }

    /// Gives `packet` a destination that there is a route to: whether it had none.
    pub(crate) fn rewrite(&self, packet: &mut Packet) -> bool {
        let at = usize::from(packet.l3_offset);
        let (covered, at, bytes) = match packet.l3 {
            L3::V4 => (&self.v4, at + 16, 4),
            L3::V6 => (&self.v6, at + 24, 16),
            L3::Other => return false,
        };
        let Some(field) = packet.data.get(at..at + bytes) else { return false };
        let mut wide = [0; 16];
        wide[16 - bytes..].copy_from_slice(field);
        let old = u128::from_be_bytes(wide);
        let new = covered.instead_of(old);
        if new == old {
            return false;
        }
        let (before, after) = (old.to_be_bytes(), new.to_be_bytes());
        let (before, after) = (&before[16 - bytes..], &after[16 - bytes..]);
        let transport = transport_checksum(packet);
        if packet.l3 == L3::V4 {
            update(&mut packet.data, usize::from(packet.l3_offset) + 10, before, after, 0);
        }
        if let Some(checksum) = transport {
            // To UDP 0 means that there is none.
            update(&mut packet.data, checksum, before, after, 0xffff);
        }
        packet.data[at..at + bytes].copy_from_slice(after);
        true
    }
}

/// Where `packet` has the transport's checksum, which its destination is part of.
fn transport_checksum(packet: &Packet) -> Option<usize> {
    let layers = layers(&packet.data).ok()?;
    let flags = usize::from(packet.l3_offset) + 6;
    // Of fragments the first has it.
    let is_first = packet.l3 == L3::V4 && packet.data.get(flags..flags + 2)? == [0x20, 0];
    if layers.fragment && !is_first {
        return None;
    }
    let offset = match layers.five_tuple.proto {
        PROTO_TCP => 16,
        PROTO_UDP => 6,
        PROTO_ICMPV6 => 2,
        _ => return None,
    };
    layers.l4_offset.map(|l4| usize::from(l4) + offset)
}

/// The checksum at `at` after `old` has become `new`, `zero` in place of 0; one that was 0 is none.
fn update(data: &mut [u8], at: usize, old: &[u8], new: &[u8], zero: u16) {
    let Some(field) = data.get_mut(at..at + 2) else { return };
    let mut checksum = u16::from_be_bytes([field[0], field[1]]);
    if checksum == 0 {
        return;
    }
    let word = |pair: &[u8]| u16::from_be_bytes([pair[0], pair[1]]);
    for (old, new) in old.chunks_exact(2).zip(new.chunks_exact(2)) {
        checksum = update_checksum(checksum, word(old), word(new));
    }
    field.copy_from_slice(&if checksum == 0 { zero } else { checksum }.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use packet::{FiveTuple, internet_checksum};
    use proptest::prelude::*;

    use super::*;

    fn table() -> RoutedDestinations {
        let text = b"10.0.0.0/8\n10.1.0.0/16\n11.0.0.0/8\n192.0.2.7/32\n2001:db8::/32\n".to_vec();
        RoutedDestinations::new(&Table::from_bytes(text, "t").unwrap())
    }

    fn packet_to(dst: IpAddr, proto: u8, fragment: [u8; 2]) -> Packet {
        let mut ip = match dst {
            IpAddr::V4(dst) => {
                let mut ip = vec![0x45, 0, 0, 40, 0, 1, fragment[0], fragment[1], 64, proto, 0, 0, 1, 2, 3, 4];
                ip.extend(dst.octets());
                let sum = internet_checksum(&ip);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
                ip
            }
            IpAddr::V6(dst) => {
                let mut ip = vec![0x60, 0, 0, 0, 0, 20, proto, 64];
                ip.extend([1; 16]);
                ip.extend(dst.octets());
                ip
            }
        };
        let start = ip.len();
        ip.extend([0x12, 0x34, 0, 53, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
        let at = start
            + match proto {
                PROTO_TCP => 16,
                PROTO_UDP => 6,
                _ => 2,
            };
        ip[at..at + 2].fill(0);
        let sum = internet_checksum(&pseudo(&ip, start, proto));
        ip[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let mut data = vec![0; 12];
        data.extend(if dst.is_ipv4() { [8, 0] } else { [0x86, 0xdd] });
        data.extend(ip);
        let l3 = if dst.is_ipv4() { L3::V4 } else { L3::V6 };
        Packet { frame_bytes: data.len() as u32, data, l3_offset: 14, l3, ..Packet::default() }
    }

    /// The addresses, protocol and length of a header, and the segment at `start`.
    fn pseudo(ip: &[u8], start: usize, proto: u8) -> Vec<u8> {
        let addresses = if start == 20 { &ip[12..20] } else { &ip[8..40] };
        [addresses, &[0, proto, 0, 20], &ip[start..]].concat()
    }

    #[test]
    fn what_a_route_covers_stays_and_the_rest_goes_under_one() {
        let table = table();
        for (dst, stays) in [
            ("10.255.255.255", true),
            ("11.0.0.0", true),
            ("9.255.255.255", false),
            ("12.0.0.0", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("2001:db8:ffff::1", true),
            ("2001:db9::1", false),
        ] {
            let mut packet = packet_to(dst.parse().unwrap(), PROTO_UDP, [0, 0]);
            let before = packet.clone();
            assert_eq!(table.rewrite(&mut packet), !stays, "{dst}");
            assert_eq!(packet.data == before.data, stays, "{dst}");
            let FiveTuple { dst: new, .. } = layers(&packet.data).unwrap().five_tuple;
            let covered = match new {
                IpAddr::V4(new) => table.v4.has(u32::from(new).into()),
                IpAddr::V6(new) => table.v6.has(new.into()),
            };
            assert!(covered, "{dst} became {new}");
            let mut again = before;
            table.rewrite(&mut again);
            assert_eq!(again.data, packet.data, "the same one each time");
        }
    }

    #[test]
    fn a_family_without_routes_and_what_is_no_ip_stay() {
        let table = RoutedDestinations::new(&Table::from_bytes(b"10.0.0.0/8\n".to_vec(), "t").unwrap());
        let mut packet = packet_to("2001:db9::1".parse().unwrap(), PROTO_TCP, [0, 0]);
        assert!(!table.rewrite(&mut packet));
        let mut arp = Packet { data: vec![0; 60], l3_offset: 14, ..Packet::default() };
        assert!(!table.rewrite(&mut arp));
        let mut cut = packet_to("1.2.3.4".parse().unwrap(), PROTO_TCP, [0, 0]);
        cut.data.truncate(31);
        assert!(!table.rewrite(&mut cut));
    }

    #[test]
    fn a_later_fragment_has_no_checksum_but_that_of_its_header() {
        let mut packet = packet_to("1.2.3.4".parse().unwrap(), PROTO_UDP, [0, 3]);
        let before = packet.data.clone();
        assert!(table().rewrite(&mut packet));
        assert_eq!((&packet.data[34..], internet_checksum(&packet.data[14..34])), (&before[34..], 0));
    }

    #[test]
    fn a_table_with_a_default_route_covers_all() {
        let table = RoutedDestinations::new(&Table::from_bytes(b"0.0.0.0/0\n::/0\n".to_vec(), "t").unwrap());
        assert!(table.v4.has(0) && table.v4.has(u32::MAX.into()) && table.v6.has(u128::MAX));
    }

    proptest! {
        #[test]
        fn checksums_that_were_right_are_right_and_others_are_not(
            dst: u32, wide: u128, is_wide: bool,
            proto in prop::sample::select(vec![PROTO_TCP, PROTO_UDP, PROTO_ICMPV6]),
            wrong: bool,
            first in prop::sample::select(vec![0, 0x20]),
        ) {
            let dst = if is_wide { Ipv6Addr::from(wide).into() } else { Ipv4Addr::from(dst).into() };
            let mut packet = packet_to(dst, proto, [if is_wide { 0 } else { first }, 0]);
            if wrong {
                let last = packet.data.len() - 1;
                packet.data[last] ^= 1;
            }
            table().rewrite(&mut packet);
            let ip = &packet.data[14..];
            let start = if is_wide { 40 } else { 20 };
            if !is_wide {
                prop_assert_eq!(internet_checksum(&ip[..20]), 0);
            }
            prop_assert_eq!(internet_checksum(&pseudo(ip, start, proto)) == 0, !wrong);
        }
    }
}
