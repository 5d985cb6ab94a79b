//! A packet's headers: what a rule looks at, read from the frame that came, and the frame that leaves.

use std::net::Ipv4Addr;

use packet::{L3, MBUF_HEADER_BYTES, MBUF_HEADROOM_BYTES, PROTO_TCP, PROTO_UDP, Packet};
use probe::{Access, Probe, Ref, RegionId};

use super::gtpu::{self, GPDU, GTPU_PORT, OUTER_BYTES, Outer};
use super::lines::{FarAction, HAS_PORTS, IS_V4, NO_QFI, QFI_SHIFT};
use super::{ACCESS_PORT, CORE_PORT, ETHERNET, PROTO_SCTP, cost, site};
use crate::check::mbuf;
use crate::lookup::prefetch;
use crate::tape::{Tape, TapeMark};
use crate::{DropReason, Verdict};

/// What a filter looks at, and where the packet lies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parsed {
    pub(super) remote: u128,
    pub(super) ue: u128,
    pub(super) teid: u32,
    pub(super) ports: (u16, u16),
    /// Where the user's packet begins.
    pub(super) at: u32,
    /// Its bytes.
    pub(super) bytes: u32,
    /// Protocol, QoS flow and bits as in a rule.
    pub(super) what: u32,
}

/// An IP header.
struct Ip {
    v4: bool,
    src: u128,
    dst: u128,
    proto: u8,
    fragment: bool,
    later_fragment: bool,
    l4: usize,
    end: usize,
}

enum IpFault {
    Version,
    Header,
    Length,
    Cut,
}

#[inline(always)]
pub(super) fn data_address<P: Probe>(tape: &mut Tape<'_, P>, buf_addr: u16, data_off: u16) -> TapeMark {
    tape.touch(Ref::load(RegionId::MBUF, mbuf::BUF_ADDR, 8, buf_addr));
    tape.touch(Ref::load(RegionId::MBUF, mbuf::DATA_OFF, 2, data_off))
}

#[inline(always)]
pub(super) fn prefetch_header<P: Probe>(packet: &Packet, tape: &mut Tape<'_, P>) {
    tape.begin(packet.id);
    let data = data_address(tape, site::PREFETCH_BUF_ADDR, site::PREFETCH_DATA_OFF);
    prefetch(packet.data.as_ptr());
    let header = Ref::load(RegionId::PACKET, 0, 1, site::PREFETCH_HEADER).with_access(Access::Prefetch);
    tape.touch_after(data, header);
    tape.work(site::PREFETCH_DONE, cost::PREFETCH);
    tape.end(packet.id);
    tape.latch(site::PREFETCH_DONE);
}

/// Reads the headers of a packet, through the tunnel if it came by one; the reference that its key came
/// from.
#[inline(always)]
pub(super) fn read<P: Probe>(packet: &Packet, tape: &mut Tape<'_, P>) -> Result<(Parsed, TapeMark), DropReason> {
    let from = data_address(tape, site::BUF_ADDR, site::DATA_OFF);
    tape.touch(Ref::load(RegionId::MBUF, mbuf::RX_FIELDS, 16, site::RX_FIELDS));
    if packet.l3 == L3::Other {
        return Err(DropReason::NotIp);
    }
    let (data, at) = (packet.data.as_slice(), usize::from(packet.l3_offset));
    let frame = packet.frame_bytes as usize;
    let (outer, outer_mark) =
        ip(data, (at, frame), from, (site::OUTER, site::OUTER_REST), tape).map_err(|fault| match fault {
            IpFault::Version => DropReason::BadVersion,
            IpFault::Header => DropReason::BadHeaderLength,
            IpFault::Length => DropReason::BadTotalLength,
            IpFault::Cut => DropReason::Truncated,
        })?;
    if outer.v4 != (packet.l3 == L3::V4) {
        return Err(DropReason::BadVersion);
    }
    if outer.proto == PROTO_UDP && !outer.later_fragment && outer.l4 + 8 <= outer.end {
        let Some(&[_, _, p0, p1, l0, l1, _, _]) = data.get(outer.l4..).and_then(|d| d.first_chunk::<8>()) else {
            return Err(DropReason::Truncated);
        };
        tape.touch_after(from, Ref::load(RegionId::PACKET, outer.l4 as u64, 8, site::UDP));
        if u16::from_be_bytes([p0, p1]) == GTPU_PORT {
            if outer.fragment {
                return Err(DropReason::OuterFragment);
            }
            let end = outer.l4 + usize::from(u16::from_be_bytes([l0, l1]));
            if end < outer.l4 + 8 || end > outer.end {
                return Err(DropReason::BadUdpLength);
            }
            return inner(data, outer.l4 + 8, end, from, tape);
        }
        return Ok((downlink(&outer, at, port_pair(data, outer.l4)), outer_mark));
    }
    let ports = ports(data, &outer, from, tape)?;
    Ok((downlink(&outer, at, ports), outer_mark))
}

/// The key of a packet from the data network: the UE is its destination.
#[inline(always)]
fn downlink(ip: &Ip, at: usize, ports: Option<(u16, u16)>) -> Parsed {
    Parsed {
        remote: ip.src,
        ue: ip.dst,
        teid: 0,
        ports: ports.unwrap_or_default(),
        at: at as u32,
        bytes: (ip.end - at) as u32,
        what: what(ip, ports, None),
    }
}

/// What a rule's `what` is compared with.
#[inline(always)]
fn what(ip: &Ip, ports: Option<(u16, u16)>, qfi: Option<u8>) -> u32 {
    u32::from(ip.proto)
        | u32::from(qfi.unwrap_or(NO_QFI)) << QFI_SHIFT
        | if ip.v4 { IS_V4 } else { 0 }
        | if ports.is_some() { HAS_PORTS } else { 0 }
}

/// Reads GTP-U and the user's packet in it: the UE is its source.
#[inline(always)]
fn inner<P: Probe>(
    data: &[u8],
    at: usize,
    end: usize,
    from: TapeMark,
    tape: &mut Tape<'_, P>,
) -> Result<(Parsed, TapeMark), DropReason> {
    let header = gtpu::read(data, at, end, from, tape)?;
    if header.message != GPDU {
        return Err(DropReason::GtpuNotUserData);
    }
    if header.teid == 0 {
        return Err(DropReason::UnknownTeid);
    }
    let at = header.payload;
    let (ip, mark) =
        ip(data, (at, header.end), from, (site::INNER, site::INNER_REST), tape).map_err(|fault| match fault {
            IpFault::Version => DropReason::InnerNotIp,
            IpFault::Header => DropReason::InnerBadHeader,
            IpFault::Length => DropReason::InnerBadLength,
            IpFault::Cut => DropReason::Truncated,
        })?;
    let ports = ports(data, &ip, from, tape)?;
    let key = Parsed {
        remote: ip.dst,
        ue: ip.src,
        teid: header.teid,
        ports: ports.map_or((0, 0), |(src, dst)| (dst, src)),
        at: at as u32,
        bytes: (ip.end - at) as u32,
        what: what(&ip, ports, header.qfi),
    };
    Ok((key, mark))
}

/// Reads an IP header at `at`, of a packet that ends before `end`, in two references at the places `first`
/// and `rest`. An IPv4 options field is passed over.
#[inline(always)]
fn ip<P: Probe>(
    data: &[u8],
    (at, end): (usize, usize),
    from: TapeMark,
    (first, rest): (u16, u16),
    tape: &mut Tape<'_, P>,
) -> Result<(Ip, TapeMark), IpFault> {
    if at >= end {
        return Err(IpFault::Header);
    }
    let version = data.get(at).ok_or(IpFault::Cut)? >> 4;
    let wanted = match version {
        4 => 20,
        6 => 40,
        _ => {
            tape.touch_after(from, Ref::load(RegionId::PACKET, at as u64, 1, first));
            return Err(IpFault::Version);
        }
    };
    if at + wanted > end {
        tape.touch_after(from, Ref::load(RegionId::PACKET, at as u64, 1, first));
        return Err(IpFault::Header);
    }
    let header = data.get(at..at + wanted).ok_or(IpFault::Cut)?;
    tape.touch_after(from, Ref::load(RegionId::PACKET, at as u64, 16, first));
    let left = (wanted - 16) as u16;
    let mark = tape.touch_after(from, Ref::load(RegionId::PACKET, at as u64 + 16, left, rest));
    if version == 4 {
        let word = |i: usize| header[i..].first_chunk::<4>().map_or(0, |b| u32::from_be_bytes(*b));
        let length = usize::from(header[0] & 15) * 4;
        let total = (word(0) & 0xffff) as usize;
        if length < 20 {
            return Err(IpFault::Header);
        }
        if total < length || at + total > end {
            return Err(IpFault::Length);
        }
        let fragment = word(4) & 0x3fff;
        let ip = Ip {
            v4: true,
            src: word(12).into(),
            dst: word(16).into(),
            proto: header[9],
            fragment: fragment != 0,
            later_fragment: fragment & 0x1fff != 0,
            l4: at + length,
            end: at + total,
        };
        Ok((ip, mark))
    } else {
        let address = |i: usize| header[i..].first_chunk::<16>().map_or(0, |b| u128::from_be_bytes(*b));
        let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
        if at + 40 + payload > end {
            return Err(IpFault::Length);
        }
        let ip = Ip {
            v4: false,
            src: address(8),
            dst: address(24),
            proto: header[6],
            fragment: false,
            later_fragment: false,
            l4: at + 40,
            end: at + 40 + payload,
        };
        Ok((ip, mark))
    }
}

/// Source and destination port, where the packet has any.
#[inline(always)]
fn ports<P: Probe>(
    data: &[u8],
    ip: &Ip,
    from: TapeMark,
    tape: &mut Tape<'_, P>,
) -> Result<Option<(u16, u16)>, DropReason> {
    if !matches!(ip.proto, PROTO_TCP | PROTO_UDP | PROTO_SCTP) || ip.later_fragment || ip.l4 + 4 > ip.end {
        return Ok(None);
    }
    if ip.l4 + 4 > data.len() {
        return Err(DropReason::Truncated);
    }
    tape.touch_after(from, Ref::load(RegionId::PACKET, ip.l4 as u64, 4, site::PORTS));
    Ok(port_pair(data, ip.l4))
}

#[inline(always)]
fn port_pair(data: &[u8], at: usize) -> Option<(u16, u16)> {
    let &[a, b, c, d] = data.get(at..)?.first_chunk::<4>()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Makes the frame that leaves, from the user's packet and new headers.
#[inline(always)]
pub(super) fn leave<P: Probe>(
    packet: &mut Packet,
    key: &Parsed,
    action: FarAction,
    address: Ipv4Addr,
    tape: &mut Tape<'_, P>,
) -> Verdict {
    let data = data_address(tape, site::LEAVE_BUF_ADDR, site::LEAVE_DATA_OFF);
    let (at, bytes) = (key.at as usize, key.bytes as usize);
    packet.data.truncate(at + bytes);
    let (port, instructions) = match action {
        FarAction::ToAccess { peer, teid, qfi } => {
            let to =
                Outer { dst_mac: mac(peer.into()), src_mac: mac(address.into()), src: address, dst: peer, teid, qfi };
            let header = gtpu::outer_header(&to, bytes as u16);
            let (kept, grown) = (packet.data.len() - at, OUTER_BYTES);
            packet.data.resize(packet.data.len().max(grown + kept), 0);
            packet.data.copy_within(at..at + kept, grown);
            packet.data.truncate(grown + kept);
            packet.data[..grown].copy_from_slice(&header);
            packet.frame_bytes = (OUTER_BYTES + bytes) as u32;
            packet.moved += at as i32 - OUTER_BYTES as i32;
            packet.l3 = L3::V4;
            // The mbuf's header, its headroom and the packet lie one after the other.
            let start = MBUF_HEADER_BYTES + MBUF_HEADROOM_BYTES + at as u64 - OUTER_BYTES as u64;
            tape.touch_after(data, Ref::store(RegionId::MBUF, start, OUTER_BYTES as u16, site::HEADER_STORE));
            (ACCESS_PORT, cost::ENCAPSULATE)
        }
        _ => {
            let cut = at.saturating_sub(ETHERNET);
            packet.data.drain(..cut);
            let v4 = key.what & IS_V4 != 0;
            let gateway = mac(u32::from_be_bytes([10, 0, 0, 1]));
            if let Some(header) = packet.data.first_chunk_mut::<14>() {
                header[..6].copy_from_slice(&gateway);
                header[6..12].copy_from_slice(&mac(address.into()));
                header[12..].copy_from_slice(if v4 { &[8, 0] } else { &[0x86, 0xdd] });
            }
            packet.frame_bytes = (ETHERNET + bytes) as u32;
            packet.moved += cut as i32;
            packet.l3 = if v4 { L3::V4 } else { L3::V6 };
            tape.touch_after(data, Ref::store(RegionId::PACKET, cut as u64, 14, site::HEADER_STORE));
            (CORE_PORT, cost::DECAPSULATE)
        }
    };
    packet.l3_offset = ETHERNET as u16;
    tape.touch(Ref::store(RegionId::MBUF, mbuf::DATA_OFF, 2, site::DATA_OFF_STORE));
    // `pkt_len` and `data_len`.
    tape.touch(Ref::store(RegionId::MBUF, mbuf::RX_FIELDS + 4, 6, site::LENGTH_STORE));
    tape.work(site::DONE, instructions);
    Verdict::Forward { port }
}

/// A locally administered Ethernet address of the next hop with an IPv4 address.
#[inline(always)]
fn mac(address: u32) -> [u8; 6] {
    let [a, b, c, d] = address.to_be_bytes();
    [0x02, 0, a, b, c, d]
}
