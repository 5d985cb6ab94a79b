//! Link types, and how a packet of each becomes one that starts with an Ethernet header.
//!
//! Where the capture has no Ethernet header one of 14 bytes is made: locally administered
//! addresses and the EtherType. The frame length then counts it, so that a raw-IP capture and an
//! Ethernet capture of the same traffic are the same traffic. Numbers are those of the tcpdump
//! group's registry (tcpdump.org/linktypes.html).

use packet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Packet};

pub(crate) const NULL: u32 = 0;
pub(crate) const ETHERNET: u32 = 1;
const PPP: u32 = 9;
/// `DLT_RAW` of most systems and of OpenBSD, written by old tools in place of [`RAW`].
const RAW_BSD: [u32; 2] = [12, 14];
const PPP_HDLC: u32 = 50;
pub(crate) const RAW: u32 = 101;
pub(crate) const CISCO_HDLC: u32 = 104;
const LOOP: u32 = 108;
const LINUX_SLL: u32 = 113;
pub(crate) const IPV4: u32 = 228;
pub(crate) const IPV6: u32 = 229;
const LINUX_SLL2: u32 = 276;
/// LLC/SNAP in AAL5 (RFC 2684), as ERF has it. Not a number of the registry.
pub(crate) const LLC_SNAP: u32 = 1 << 16;
/// An HDLC frame of packet over SONET: PPP or Cisco, told by its address byte. Not of the registry.
pub(crate) const HDLC_POS: u32 = 1 << 17;

const MADE_HEADER: usize = 14;
const MADE_ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
/// Ours for packets whose protocol has no EtherType: reserved by IEEE, so never taken for IP.
const ETHERTYPE_NONE: u16 = 0xffff;

/// The link type in words.
pub fn link_name(link: u32) -> String {
    match link {
        NULL => "BSD null".into(),
        ETHERNET => "Ethernet".into(),
        PPP | PPP_HDLC => "PPP".into(),
        RAW | IPV4 | IPV6 => "raw IP".into(),
        _ if RAW_BSD.contains(&link) => "raw IP".into(),
        CISCO_HDLC => "Cisco HDLC".into(),
        LOOP => "OpenBSD loop".into(),
        LINUX_SLL => "Linux cooked v1".into(),
        LINUX_SLL2 => "Linux cooked v2".into(),
        LLC_SNAP => "ATM with LLC/SNAP".into(),
        HDLC_POS => "packet over SONET".into(),
        _ => format!("link type {link}"),
    }
}

/// Whether packets of this link type are read.
pub(crate) fn is_supported(link: u32) -> bool {
    matches!(
        link,
        NULL | ETHERNET
            | PPP
            | PPP_HDLC
            | RAW
            | IPV4
            | IPV6
            | CISCO_HDLC
            | LOOP
            | LINUX_SLL
            | LINUX_SLL2
            | LLC_SNAP
            | HDLC_POS
    ) || RAW_BSD.contains(&link)
}

/// Fills `packet` with the bytes and the original length `wire` of a record of type `link`.
/// Returns false if the bytes are too few for the link type's own header.
#[inline]
pub(crate) fn normalise(link: u32, data: &[u8], wire: u32, packet: &mut Packet) -> bool {
    if link == ETHERNET {
        packet.set_frame(data, wire);
        return !data.is_empty();
    }
    let Some((header, ethertype)) = network_start(link, data) else {
        return false;
    };
    let Some(rest) = data.get(header..) else {
        return false;
    };
    packet.data.clear();
    packet.data.extend_from_slice(&MADE_ADDRESSES);
    packet.data.extend_from_slice(&ethertype.to_be_bytes());
    packet.data.extend_from_slice(rest);
    let wire = (wire as usize).saturating_sub(header) + MADE_HEADER;
    packet.frame_bytes = wire.max(packet.data.len()) as u32;
    packet.parse();
    true
}

/// How long the link header is, and the EtherType of what follows.
fn network_start(link: u32, data: &[u8]) -> Option<(usize, u16)> {
    let be16 = |at: usize| Some(u16::from_be_bytes(*data.get(at..)?.first_chunk()?));
    let le32 = |at: usize| Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?));
    Some(match link {
        RAW | IPV4 | IPV6 => (0, ethertype_of_version(*data.first()?)),
        _ if RAW_BSD.contains(&link) => (0, ethertype_of_version(*data.first()?)),
        // The family is in the byte order of the capturing host.
        NULL => {
            let family = le32(0)?;
            (4, ethertype_of_family(if family > 0xffff { family.swap_bytes() } else { family }))
        }
        LOOP => (4, ethertype_of_family(le32(0)?.swap_bytes())),
        LINUX_SLL => (16, ethertype_of_cooked(be16(2)?, be16(14)?)),
        LINUX_SLL2 => (20, ethertype_of_cooked(be16(8)?, be16(0)?)),
        PPP | PPP_HDLC => {
            let framed = data.starts_with(&[0xff, 0x03]);
            let at = if framed { 2 } else { 0 };
            (at + 2, ethertype_of_ppp(be16(at)?))
        }
        CISCO_HDLC => (4, be16(2)?),
        HDLC_POS => match data.first()? {
            0xff => (4, ethertype_of_ppp(be16(2)?)),
            _ => (4, be16(2)?),
        },
        LLC_SNAP => match data {
            [0xaa, 0xaa, 3, 0, 0, 0, ..] => (8, be16(6)?),
            // Without LLC: IP directly in AAL5 (VC multiplexing).
            [first, ..] if ethertype_of_version(*first) != ETHERTYPE_NONE => (0, ethertype_of_version(*first)),
            _ => (0, ETHERTYPE_NONE),
        },
        _ => return None,
    })
}

fn ethertype_of_version(first: u8) -> u16 {
    match first >> 4 {
        4 => ETHERTYPE_IPV4,
        6 => ETHERTYPE_IPV6,
        _ => ETHERTYPE_NONE,
    }
}

/// `AF_INET` is 2 everywhere; `AF_INET6` is 10 on Linux, 24 on NetBSD and OpenBSD, 28 on FreeBSD,
/// 30 on Darwin.
fn ethertype_of_family(family: u32) -> u16 {
    match family {
        2 => ETHERTYPE_IPV4,
        10 | 24 | 28 | 30 => ETHERTYPE_IPV6,
        _ => ETHERTYPE_NONE,
    }
}

/// A cooked header's protocol is an EtherType unless the device is netlink, or it is one of the
/// numbers below 0x600 that say how an 802.2 or CAN frame goes on.
fn ethertype_of_cooked(device: u16, protocol: u16) -> u16 {
    const ARPHRD_NETLINK: u16 = 824;
    if device == ARPHRD_NETLINK || protocol < 0x600 { ETHERTYPE_NONE } else { protocol }
}

fn ethertype_of_ppp(protocol: u16) -> u16 {
    match protocol {
        0x0021 => ETHERTYPE_IPV4,
        0x0057 => ETHERTYPE_IPV6,
        0x0281 => 0x8847,
        0x0283 => 0x8848,
        _ => ETHERTYPE_NONE,
    }
}

#[cfg(test)]
mod tests {
    use packet::L3;

    use super::*;

    const IP4: [u8; 20] = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7];

    #[test]
    fn every_link_type_starts_with_ethernet_and_counts_it() {
        let v6 = [[0x60; 1].as_slice(), &[0; 39]].concat();
        let with = |head: &[u8], ip: &[u8]| [head, ip].concat();
        let sll = |proto: u16| [&[0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0][..], &proto.to_be_bytes()].concat();
        let sll2 = |proto: u16| [&proto.to_be_bytes()[..], &[0, 0, 0, 0, 0, 2, 0, 1, 0, 6], &[0; 8]].concat();
        for (link, record, l3) in [
            (RAW, IP4.to_vec(), L3::V4),
            (12, IP4.to_vec(), L3::V4),
            (14, v6.clone(), L3::V6),
            (IPV4, IP4.to_vec(), L3::V4),
            (IPV6, v6.clone(), L3::V6),
            (NULL, with(&[2, 0, 0, 0], &IP4), L3::V4),
            (NULL, with(&[0, 0, 0, 2], &IP4), L3::V4),
            (NULL, with(&[30, 0, 0, 0], &v6), L3::V6),
            (LOOP, with(&[0, 0, 0, 24], &v6), L3::V6),
            (LINUX_SLL, with(&sll(0x0800), &IP4), L3::V4),
            (LINUX_SLL, with(&sll(0x0004), &IP4), L3::Other),
            (LINUX_SLL2, with(&sll2(0x86dd), &v6), L3::V6),
            (PPP, with(&[0x00, 0x21], &IP4), L3::V4),
            (PPP_HDLC, with(&[0xff, 3, 0x00, 0x57], &v6), L3::V6),
            (CISCO_HDLC, with(&[0x0f, 0, 0x08, 0x00], &IP4), L3::V4),
            (HDLC_POS, with(&[0xff, 3, 0x00, 0x21], &IP4), L3::V4),
            (LLC_SNAP, with(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &IP4), L3::V4),
            (RAW, vec![0; 20], L3::Other),
        ] {
            let header = record.len() - if l3 == L3::V6 { v6.len() } else { 20 };
            let mut packet = Packet::default();
            assert!(is_supported(link));
            assert!(normalise(link, &record, 1000, &mut packet), "{}", link_name(link));
            assert_eq!((packet.l3, packet.frame_bytes as usize), (l3, 1000 - header + 14), "{}", link_name(link));
            assert_eq!(packet.data.len(), record.len() - header + 14);
            if l3 != L3::Other {
                assert_eq!(packet.l3_offset, 14);
            }
        }
    }

    #[test]
    fn a_record_shorter_than_its_link_header_is_refused() {
        let mut packet = Packet::default();
        for (link, n) in [(NULL, 3), (LINUX_SLL, 15), (LINUX_SLL2, 19), (RAW, 0), (PPP, 1), (ETHERNET, 0)] {
            assert!(!normalise(link, &vec![0; n], 100, &mut packet), "{}", link_name(link));
        }
        assert!(!is_supported(147) && !normalise(147, &[0; 64], 64, &mut packet));
    }
}
