//! Frames that are made: Ethernet, IPv4 or IPv6, TCP or UDP, with right lengths and checksums.
//!
//! The payload is zeros, so that the transport checksum is right without it. Only the first
//! [`MADE_BYTES`] bytes of a frame exist.

use std::net::IpAddr;

use packet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, FiveTuple, L3, PROTO_TCP, PROTO_UDP, Packet};

/// Bytes of a frame that are there: two lines, enough for every header.
pub(crate) const MADE_BYTES: usize = 128;
pub(crate) const ETHERNET: usize = 14;
const FCS: u32 = 4;
const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
const TTL: u8 = 64;
const TCP_ACK: u8 = 0x10;
const TCP_SYN: u8 = 0x02;

/// Writes a frame of `l2_bytes` bytes, check sequence included, into `packet`. Frames too short for
/// the headers (IPv6 with TCP needs 78) become just long enough.
#[inline]
pub(crate) fn make(packet: &mut Packet, flow: &FiveTuple, l2_bytes: u32, identification: u16, first: bool) {
    let mut bytes = [0u8; MADE_BYTES];
    bytes[..12].copy_from_slice(&ADDRESSES);
    let tcp = flow.proto == PROTO_TCP;
    let l4_header = if tcp { 20 } else { 8 };
    let (ip, l3) = match (flow.src, flow.dst) {
        (IpAddr::V4(_), IpAddr::V4(_)) => (20, L3::V4),
        _ => (40, L3::V6),
    };
    let frame = (l2_bytes - FCS).max((ETHERNET + ip + l4_header) as u32);
    let ip_bytes = frame - ETHERNET as u32;
    let l4_bytes = ip_bytes - ip as u32;
    let l4 = ETHERNET + ip;
    // One's complement sums, RFC 1071: of the addresses for both checksums.
    let mut sum: u64 = match (flow.src, flow.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let (src, dst) = (u32::from(src), u32::from(dst));
            bytes[12..14].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
            let header = &mut bytes[ETHERNET..ETHERNET + 20];
            header[0] = 0x45;
            header[2..4].copy_from_slice(&(ip_bytes as u16).to_be_bytes());
            header[4..6].copy_from_slice(&identification.to_be_bytes());
            header[8] = TTL;
            header[9] = flow.proto;
            header[12..16].copy_from_slice(&src.to_be_bytes());
            header[16..20].copy_from_slice(&dst.to_be_bytes());
            let addresses = add16(src.into()) + add16(dst.into());
            let rest = 0x4500 + u64::from(ip_bytes) + u64::from(identification);
            let checksum = fold(addresses + rest + (u64::from(TTL) << 8) + u64::from(flow.proto));
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            addresses
        }
        (src, dst) => {
            let (src, dst) = (v6(src), v6(dst));
            bytes[12..14].copy_from_slice(&ETHERTYPE_IPV6.to_be_bytes());
            let header = &mut bytes[ETHERNET..ETHERNET + 40];
            header[0] = 0x60;
            header[4..6].copy_from_slice(&(l4_bytes as u16).to_be_bytes());
            header[6] = flow.proto;
            header[7] = TTL;
            header[8..24].copy_from_slice(&src.to_be_bytes());
            header[24..40].copy_from_slice(&dst.to_be_bytes());
            add16((src >> 64) as u64) + add16(src as u64) + add16((dst >> 64) as u64) + add16(dst as u64)
        }
    };
    sum += u64::from(flow.proto) + u64::from(l4_bytes) + u64::from(flow.src_port) + u64::from(flow.dst_port);
    let header = &mut bytes[l4..l4 + l4_header];
    header[0..2].copy_from_slice(&flow.src_port.to_be_bytes());
    header[2..4].copy_from_slice(&flow.dst_port.to_be_bytes());
    if tcp {
        let flags = if first { TCP_SYN } else { TCP_ACK };
        header[12] = 5 << 4;
        header[13] = flags;
        header[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
        let checksum = fold(sum + (5 << 12) + u64::from(flags) + u64::from(u16::MAX));
        header[16..18].copy_from_slice(&checksum.to_be_bytes());
    } else if flow.proto == PROTO_UDP {
        header[4..6].copy_from_slice(&(l4_bytes as u16).to_be_bytes());
        // A checksum of 0 means none: its other form is sent instead (RFC 768).
        let checksum = match fold(sum + u64::from(l4_bytes)) {
            0 => u16::MAX,
            sum => sum,
        };
        header[6..8].copy_from_slice(&checksum.to_be_bytes());
    }
    packet.data.clear();
    packet.data.extend_from_slice(&bytes[..MADE_BYTES.min(frame as usize)]);
    packet.frame_bytes = frame;
    (packet.l3_offset, packet.l3) = (ETHERNET as u16, l3);
}

fn v6(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V6(a) => a.into(),
        IpAddr::V4(a) => a.to_ipv6_mapped().into(),
    }
}

/// The sum of the four 16-bit parts.
#[inline]
fn add16(x: u64) -> u64 {
    (x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48)
}

#[inline]
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use packet::{internet_checksum, layers};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn made_frames_have_right_lengths_and_checksums(
            a in any::<u128>(), b in any::<u128>(), ports in any::<(u16, u16)>(), id in any::<u16>(),
            v6 in any::<bool>(), tcp in any::<bool>(), first in any::<bool>(), l2 in 64..=9600u32,
        ) {
            let addr = |x: u128| if v6 { IpAddr::from(x.to_be_bytes()) } else { IpAddr::from((x as u32).to_be_bytes()) };
            let proto = if tcp { PROTO_TCP } else { PROTO_UDP };
            let flow = FiveTuple { src: addr(a), dst: addr(b), proto, src_port: ports.0, dst_port: ports.1 };
            let mut packet = Packet::default();
            make(&mut packet, &flow, l2, id, first);
            let frame = packet.frame_bytes as usize;
            prop_assert!(frame == l2 as usize - 4 || (frame < 78 && v6));
            prop_assert_eq!(packet.data.len(), frame.min(MADE_BYTES));
            prop_assert_eq!(layers(&packet.data).map(|l| (l.five_tuple, l.l3, l.l3_offset)), Ok((flow, packet.l3, 14)));
            let mut whole = packet.data.clone();
            whole.resize(frame, 0);
            let (source, ip) = if v6 { (22, 40) } else { (26, 20) };
            let addresses = if v6 { 32 } else { 8 };
            if !v6 {
                prop_assert_eq!(internet_checksum(&whole[14..34]), 0);
                prop_assert_eq!(u16::from_be_bytes([whole[16], whole[17]]) as usize, frame - 14);
            }
            let l4 = &whole[14 + ip..];
            let pseudo = [&whole[source..source + addresses], &[0, 0, 0, proto], &(l4.len() as u32).to_be_bytes(), l4].concat();
            prop_assert_eq!(internet_checksum(&pseudo), 0);
        }
    }
}
