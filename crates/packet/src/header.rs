//! Headers of a frame: its layers, its five-tuple, and what is malformed.

use std::net::IpAddr;

/// IPv4 in Ethernet.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// IPv6 in Ethernet.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: [u16; 3] = [0x88a8, 0x9100, 0x9200];
const ETHERTYPE_MPLS: [u16; 2] = [0x8847, 0x8848];
/// VLAN tags and MPLS labels that are followed before a frame counts as malformed.
const MAX_TAGS: usize = 16;

/// ICMP in IPv4.
pub const PROTO_ICMP: u8 = 1;
/// TCP.
pub const PROTO_TCP: u8 = 6;
/// UDP.
pub const PROTO_UDP: u8 = 17;
/// ICMPv6.
pub const PROTO_ICMPV6: u8 = 58;
const PROTO_SCTP: u8 = 132;
const PROTO_UDPLITE: u8 = 136;
const EXT_HOP_BY_HOP: u8 = 0;
const EXT_ROUTING: u8 = 43;
const EXT_FRAGMENT: u8 = 44;
const EXT_AUTHENTICATION: u8 = 51;
const EXT_DESTINATION: u8 = 60;
const EXT_MOBILITY: u8 = 135;
const EXT_HIP: u8 = 139;
const EXT_SHIM6: u8 = 140;

/// A network protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum L3 {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Anything else: ARP, LLDP, an EtherType nobody knows.
    #[default]
    Other,
}

/// The outer IP addresses, the protocol and the ports; ports are 0 where the protocol has none,
/// the packet is a later fragment, or the capture cut them off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct FiveTuple {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// IP protocol, after IPv6 extension headers.
    pub proto: u8,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

/// What a frame consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    /// Where the IP header starts.
    pub l3_offset: u16,
    /// IPv4 or IPv6.
    pub l3: L3,
    /// Where the transport header starts; [`None`] if the capture ends before it.
    pub l4_offset: Option<u16>,
    /// Addresses, protocol, ports.
    pub five_tuple: FiveTuple,
    /// Whether the packet is a fragment (first or later).
    pub fragment: bool,
    /// VLAN tags and MPLS labels in front of the IP header.
    pub tags: u8,
}

impl Layers {
    /// What a NIC hashes to find the queue: of a fragment no ports, as only the first of a packet has them, and all are to come to one
    /// queue. In Toeplitz's hash ports of zero count for nothing.
    ///
    /// Source: Microsoft, Network Driver Interface Specification, RSS hashing types: of a fragmented packet, the first one too, addresses.
    pub fn hashed(&self) -> FiveTuple {
        let ports = if self.fragment { (0, 0) } else { (self.five_tuple.src_port, self.five_tuple.dst_port) };
        FiveTuple { src_port: ports.0, dst_port: ports.1, ..self.five_tuple }
    }
}

/// Why a frame has no readable IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// Shorter than its headers.
    #[error("the frame ends inside a header")]
    Truncated,
    /// Not IP: ARP and the like. Not damage.
    #[error("not an IP packet")]
    NotIp,
    /// The version field contradicts the EtherType.
    #[error("the IP version is not the one the EtherType says")]
    Version,
    /// Lengths that contradict each other.
    #[error("an IP length field contradicts the header")]
    Length,
    /// More tags than any network stacks.
    #[error("more than 16 VLAN tags and MPLS labels")]
    TooManyTags,
}

fn be16(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

fn ip_version(data: &[u8], at: usize) -> Option<L3> {
    Some(match data.get(at)? >> 4 {
        4 => L3::V4,
        6 => L3::V6,
        _ => L3::Other,
    })
}

/// Where the network header starts and what it is by EtherType, as a NIC's parser reports it;
/// [`None`] where the frame ends first or is not IP.
pub(crate) fn network_header(data: &[u8]) -> Option<(u16, L3)> {
    match locate(data) {
        Ok((offset, l3, _)) => Some((offset as u16, l3)),
        Err(_) => None,
    }
}

fn locate(data: &[u8]) -> Result<(usize, L3, u8), Malformed> {
    let mut at = 12;
    let mut tags = 0;
    loop {
        let ethertype = be16(data, at).ok_or(Malformed::Truncated)?;
        at += 2;
        if ethertype == ETHERTYPE_VLAN || ETHERTYPE_QINQ.contains(&ethertype) {
            at += 2;
        } else if ETHERTYPE_MPLS.contains(&ethertype) {
            loop {
                let bottom = data.get(at + 2).ok_or(Malformed::Truncated)? & 1;
                (at, tags) = (at + 4, tags + 1);
                if bottom == 1 {
                    break;
                }
                if tags as usize > MAX_TAGS {
                    return Err(Malformed::TooManyTags);
                }
            }
            // Below the last label nothing names the protocol: the version nibble does.
            return match ip_version(data, at).ok_or(Malformed::Truncated)? {
                L3::Other => Err(Malformed::NotIp),
                l3 => Ok((at, l3, tags)),
            };
        } else {
            return match ethertype {
                ETHERTYPE_IPV4 => Ok((at, L3::V4, tags)),
                ETHERTYPE_IPV6 => Ok((at, L3::V6, tags)),
                _ => Err(Malformed::NotIp),
            };
        }
        tags += 1;
        if tags as usize > MAX_TAGS {
            return Err(Malformed::TooManyTags);
        }
    }
}

/// Takes an Ethernet frame apart, through VLAN tags, MPLS labels and IPv6 extension headers.
///
/// `data` may be the first part of the frame only: then ports or the transport offset can be
/// missing, which is not an error.
///
/// # Errors
/// [`Malformed`] where there is no readable IP header.
pub fn layers(data: &[u8]) -> Result<Layers, Malformed> {
    let (at, l3, tags) = locate(data)?;
    if ip_version(data, at).ok_or(Malformed::Truncated)? != l3 {
        return Err(Malformed::Version);
    }
    let (src, dst, proto, l4, fragment, first) = match l3 {
        L3::V4 => {
            let header = data.get(at..at + 20).ok_or(Malformed::Truncated)?;
            let length = usize::from(header[0] & 15) * 4;
            let total = usize::from(be16(header, 2).ok_or(Malformed::Truncated)?);
            if length < 20 || (total != 0 && total < length) {
                return Err(Malformed::Length);
            }
            let flags = be16(header, 6).ok_or(Malformed::Truncated)?;
            let addr = |i: usize| IpAddr::from(*header[i..].first_chunk::<4>().unwrap_or(&[0; 4]));
            (addr(12), addr(16), header[9], Some(at + length), flags & 0x3fff != 0, flags & 0x1fff == 0)
        }
        _ => {
            let header = data.get(at..at + 40).ok_or(Malformed::Truncated)?;
            let addr = |i: usize| IpAddr::from(*header[i..].first_chunk::<16>().unwrap_or(&[0; 16]));
            let (proto, l4, fragment, first) = extension_headers(data, at + 40, header[6]);
            (addr(8), addr(24), proto, l4, fragment, first)
        }
    };
    let l4 = l4.filter(|&l4| l4 <= data.len());
    let has_ports = first && matches!(proto, PROTO_TCP | PROTO_UDP | PROTO_SCTP | PROTO_UDPLITE);
    let port = |i: usize| l4.filter(|_| has_ports).and_then(|l4| be16(data, l4 + i)).unwrap_or(0);
    Ok(Layers {
        l3_offset: at as u16,
        l3,
        l4_offset: l4.map(|l4| l4 as u16),
        five_tuple: FiveTuple { src, dst, proto, src_port: port(0), dst_port: port(2) },
        fragment,
        tags,
    })
}

/// Follows IPv6 extension headers: the last protocol, where it starts if the bytes are there,
/// whether the packet is a fragment, and whether it is a first (or only) one. Each header is at
/// least 8 bytes, so the walk ends with the data.
fn extension_headers(data: &[u8], mut at: usize, mut next: u8) -> (u8, Option<usize>, bool, bool) {
    let (mut fragment, mut first) = (false, true);
    loop {
        let length = match next {
            EXT_HOP_BY_HOP | EXT_ROUTING | EXT_DESTINATION | EXT_MOBILITY | EXT_HIP | EXT_SHIM6 => {
                data.get(at + 1).map(|&l| (usize::from(l) + 1) * 8)
            }
            EXT_AUTHENTICATION => data.get(at + 1).map(|&l| (usize::from(l) + 2) * 4),
            EXT_FRAGMENT => {
                if let Some(offset) = be16(data, at + 2) {
                    (fragment, first) = (true, offset & 0xfff8 == 0);
                }
                Some(8)
            }
            _ => return (next, Some(at), fragment, first),
        };
        let (Some(length), Some(&following)) = (length, data.get(at)) else {
            return (next, None, fragment, first);
        };
        // After a later fragment's header comes payload, not a header.
        if !first {
            return (following, Some(at + length), fragment, first);
        }
        (at, next) = (at + length, following);
    }
}

/// The Internet checksum of RFC 1071 over `data`, padded with a zero byte if odd. Over a header
/// with a right checksum the result is 0.
pub fn internet_checksum(data: &[u8]) -> u16 {
    let mut sum: u64 = 0;
    for pair in data.chunks(2) {
        sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum after one 16-bit word of what it covers changed from `old` to `new`. All three are
/// in the byte order of the packet or all in the host's: one's complement sums do not care.
///
/// RFC 1624 equation 3. Over data that is not all zero, as an IP header never is, the result is
/// what a full computation gives, never 0xffff for 0x0000.
#[inline(always)]
pub const fn update_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = (!checksum) as u32 + (!old) as u32 + new as u32;
    // At most 3 * 0xffff: the first fold leaves at most 0x10000, the second no carry.
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum + (sum >> 16)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ipv4_udp() -> Vec<u8> {
        let mut p = vec![0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7];
        p.extend_from_slice(&[0x12, 0x34, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
        p
    }

    fn ethernet(tags: &[u8], ethertype: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend_from_slice(tags);
        frame.extend_from_slice(&ethertype.to_be_bytes());
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn ipv4_is_found_behind_vlan_qinq_and_mpls() {
        let ip = ipv4_udp();
        let mpls: Vec<u8> = [&[0, 1, 0x00, 64][..], &[0, 2, 0x01, 64][..], &ip].concat();
        for (frame, offset, tags) in [
            (ethernet(&[], ETHERTYPE_IPV4, &ip), 14, 0),
            (ethernet(&[0x81, 0, 0, 5], ETHERTYPE_IPV4, &ip), 18, 1),
            (ethernet(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], ETHERTYPE_IPV4, &ip), 22, 2),
            (ethernet(&[], 0x8847, &mpls), 22, 2),
        ] {
            let l = layers(&frame).unwrap();
            assert_eq!((l.l3_offset, l.tags, l.l3), (offset, tags, L3::V4));
            assert_eq!(l.five_tuple.dst, "198.51.100.7".parse::<IpAddr>().unwrap());
            assert_eq!((l.five_tuple.src_port, l.five_tuple.dst_port), (0x1234, 53));
        }
    }

    #[test]
    fn ipv6_extension_headers_lead_to_the_transport() {
        let mut ip = vec![0x60, 0, 0, 0, 0, 40, EXT_HOP_BY_HOP, 64];
        ip.extend_from_slice(&[0x20; 32]);
        ip.extend_from_slice(&[EXT_FRAGMENT, 0, 0, 0, 0, 0, 0, 0]);
        ip.extend_from_slice(&[PROTO_UDP, 0, 0, 1, 0, 0, 0, 9]);
        ip.extend_from_slice(&[0, 7, 0, 9, 0, 8, 0, 0]);
        let l = layers(&ethernet(&[], ETHERTYPE_IPV6, &ip)).unwrap();
        assert_eq!((l.five_tuple.proto, l.five_tuple.src_port, l.five_tuple.dst_port), (PROTO_UDP, 7, 9));
        assert!(l.fragment);
        assert_eq!((l.hashed().src_port, l.hashed().dst_port, l.hashed().src), (0, 0, l.five_tuple.src));
        assert_eq!(l.l4_offset, Some(14 + 40 + 16));
    }

    /// Numbers of IANA's registries, as numbers: the constants may be wrong.
    #[test]
    fn protocols_with_ports_and_headers_on_the_way_have_their_registered_numbers() {
        for (proto, has_ports) in
            [(6, true), (17, true), (132, true), (136, true), (1, false), (47, false), (135, false), (137, false)]
        {
            let mut ip = ipv4_udp();
            ip[9] = proto;
            let found = layers(&ethernet(&[], ETHERTYPE_IPV4, &ip)).unwrap().five_tuple;
            let ports = if has_ports { (0x1234, 53) } else { (0, 0) };
            assert_eq!((found.proto, found.src_port, found.dst_port), (proto, ports.0, ports.1));
        }
        // Hop by hop, routing, destination options, mobility, HIP, shim6: eight bytes each, then UDP.
        for (next, on_the_way) in
            [(0, true), (43, true), (60, true), (135, true), (139, true), (140, true), (134, false), (138, false)]
        {
            let mut ip = vec![0x60, 0, 0, 0, 0, 16, next, 64];
            ip.extend([0x20; 32]);
            ip.extend([PROTO_UDP, 0, 0, 0, 0, 0, 0, 0]);
            ip.extend([0, 7, 0, 9, 0, 8, 0, 0]);
            let found = layers(&ethernet(&[], ETHERTYPE_IPV6, &ip)).unwrap();
            let (proto, l4) = if on_the_way { (PROTO_UDP, 14 + 48) } else { (next, 14 + 40) };
            assert_eq!((found.five_tuple.proto, found.l4_offset), (proto, Some(l4)), "{next}");
            assert_eq!(found.five_tuple.dst_port, if on_the_way { 9 } else { 0 }, "{next}");
        }
    }

    #[test]
    fn a_later_fragment_has_no_ports() {
        let mut ip = ipv4_udp();
        ip[7] = 3;
        let l = layers(&ethernet(&[], ETHERTYPE_IPV4, &ip)).unwrap();
        assert!(l.fragment);
        assert_eq!((l.five_tuple.src_port, l.five_tuple.dst_port), (0, 0));
    }

    #[test]
    fn lies_about_lengths_and_versions_are_named() {
        let mut short = ipv4_udp();
        short[0] = 0x44;
        assert_eq!(layers(&ethernet(&[], ETHERTYPE_IPV4, &short)), Err(Malformed::Length));
        assert_eq!(layers(&ethernet(&[], ETHERTYPE_IPV6, &ipv4_udp())), Err(Malformed::Version));
        assert_eq!(layers(&ethernet(&[], 0x0806, &[0; 28])), Err(Malformed::NotIp));
        assert_eq!(layers(&[0; 13]), Err(Malformed::Truncated));
        assert_eq!(layers(&ethernet(&[0x81, 0].repeat(40), ETHERTYPE_IPV4, &[])), Err(Malformed::TooManyTags));
    }

    #[test]
    fn checksum_of_a_valid_header_is_zero() {
        // The worked example of RFC 1071 section 3: the sum is ddf2.
        assert_eq!(internet_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    proptest! {
        #[test]
        fn any_bytes_are_layers_or_an_error(data in prop::collection::vec(any::<u8>(), 0..200), kind in 0..4usize) {
            let mut data = data;
            if data.len() > 14 {
                data[12..14].copy_from_slice(&[[8, 0], [0x86, 0xdd], [0x81, 0], [0x88, 0x47]][kind]);
            }
            if let Ok(l) = layers(&data) {
                prop_assert!(usize::from(l.l3_offset) < data.len());
                prop_assert!(l.l4_offset.is_none_or(|l4| usize::from(l4) <= data.len()));
            }
        }
    }
}
