//! The user plane function as the standards read: what [`Upf`](super::Upf) is held to.
//!
//! Lists are searched from the front, filters are compared bit by bit, token buckets are fractions. No
//! references, no tables, no stages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use packet::{L3, Packet};
use units::{PortId, Ps};

use super::{Action, Direction, GPDU, GTPU_PORT, PduSession, SdfFilter, Trigger, UsageReport, Volume};
use crate::{DropReason, Verdict};

/// The naive twin.
#[derive(Clone, Debug)]
pub struct NaiveUpf {
    address: Ipv4Addr,
    sessions: Vec<SessionState>,
    buffered: usize,
    buffer: usize,
    reports: Vec<UsageReport>,
}

#[derive(Clone, Debug)]
struct SessionState {
    session: PduSession,
    /// Of each QoS rule: bits times 10^12 that are there, and when that was, uplink and downlink.
    tokens: Vec<[(u128, u64); 2]>,
    usage: Vec<Usage>,
}

#[derive(Clone, Debug, Default)]
struct Usage {
    volumes: [Volume; 2],
    first: Option<Ps>,
    last: Ps,
    all: u64,
}

struct Ip<'a> {
    src: IpAddr,
    dst: IpAddr,
    proto: u8,
    fragment: bool,
    later: bool,
    payload: &'a [u8],
    /// Bytes of the payload that the header claims, of which a capture may have cut some.
    payload_bytes: usize,
    bytes: usize,
}

impl NaiveUpf {
    /// The twin of a function with these sessions, the address and the buffer of its specification.
    pub fn new(address: Ipv4Addr, buffer: u32, sessions: &[PduSession]) -> NaiveUpf {
        let state = |session: &PduSession| SessionState {
            tokens: session
                .qers
                .iter()
                .map(|q| [q.uplink, q.downlink].map(|b| (b.map_or(0, |b| u128::from(b.bytes) * 8_000_000_000_000), 0)))
                .collect(),
            usage: vec![Usage::default(); session.urrs.len()],
            session: session.clone(),
        };
        let sessions = sessions.iter().map(state).collect();
        NaiveUpf { address, sessions, buffered: 0, buffer: buffer as usize, reports: Vec::new() }
    }

    /// Usage reports so far.
    pub fn reports(&self) -> &[UsageReport] {
        &self.reports
    }

    /// What becomes of a packet, whose bytes are changed.
    pub fn process(&mut self, now: Ps, packet: &mut Packet) -> Verdict {
        match self.judge(now, packet) {
            Ok(port) => Verdict::Forward { port },
            Err(reason) => Verdict::Drop(reason),
        }
    }

    fn judge(&mut self, now: Ps, packet: &mut Packet) -> Result<PortId, DropReason> {
        if packet.l3 == L3::Other {
            return Err(DropReason::NotIp);
        }
        let start = usize::from(packet.l3_offset);
        let missing = packet.frame_bytes as usize - packet.data.len();
        let outer = ip(
            &packet.data[start..],
            missing,
            [DropReason::BadVersion, DropReason::BadHeaderLength, DropReason::BadTotalLength],
        )?;
        if outer.src.is_ipv4() != (packet.l3 == L3::V4) {
            return Err(DropReason::BadVersion);
        }
        if outer.proto == 17 && !outer.later && outer.payload_bytes >= 8 {
            if outer.payload.len() < 8 {
                return Err(DropReason::Truncated);
            }
            if be16(outer.payload, 2) == GTPU_PORT {
                if outer.fragment {
                    return Err(DropReason::OuterFragment);
                }
                let length = usize::from(be16(outer.payload, 4));
                if length < 8 || length > outer.payload_bytes {
                    return Err(DropReason::BadUdpLength);
                }
                let udp = &outer.payload[8..outer.payload.len().min(length)];
                let (teid, qfi, user, claimed) = gtpu(udp, length - 8)?;
                let at = user.as_ptr() as usize - packet.data.as_ptr() as usize;
                let inner = ip(
                    user,
                    claimed - user.len(),
                    [DropReason::InnerNotIp, DropReason::InnerBadHeader, DropReason::InnerBadLength],
                )?;
                let ports = ports(&inner)?;
                let ports = ports.map(|(src, dst)| (dst, src));
                let (bytes, v4) = (inner.bytes, inner.src.is_ipv4());
                let key = (inner.dst, ports, inner.proto, qfi);
                let session = self.sessions.iter().position(|s| teid != 0 && s.session.uplink_teid == teid);
                let session = session.ok_or(DropReason::UnknownTeid)?;
                if !is_of(&self.sessions[session].session, inner.src) {
                    return Err(DropReason::UeSpoofed);
                }
                self.rules(now, session, Direction::Uplink, key, bytes)?;
                let mut frame = vec![2, 0, 10, 0, 0, 1, 2, 0];
                frame.extend(self.address.octets());
                frame.extend(if v4 { [8, 0] } else { [0x86, 0xdd] });
                frame.extend(packet.data[at..].iter().take(bytes));
                packet.data = frame;
                packet.frame_bytes = 14 + bytes as u32;
                packet.moved += at as i32 - 14;
                packet.parse();
                return Ok(PortId(1));
            }
        }
        let ports = ports(&outer)?;
        let (bytes, key) = (outer.bytes, (outer.src, ports, outer.proto, None));
        let session = self.sessions.iter().position(|s| is_of(&s.session, outer.dst)).ok_or(DropReason::UnknownUe)?;
        let action = self.rules(now, session, Direction::Downlink, key, bytes)?;
        let Action::ToAccess { peer, teid, qfi } = action else { return Err(DropReason::FarDrop) };
        let user: Vec<u8> = packet.data[start..].iter().copied().take(bytes).collect();
        let mut outer = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
        outer.extend(self.address.octets());
        outer.extend(peer.octets());
        outer[2..4].copy_from_slice(&((bytes + 44) as u16).to_be_bytes());
        let sum = packet::internet_checksum(&outer).to_be_bytes();
        outer[10..12].copy_from_slice(&sum);
        outer.extend([8, 104, 8, 104]);
        outer.extend(((bytes + 24) as u16).to_be_bytes());
        outer.extend([0, 0, 0x34, 255]);
        outer.extend(((bytes + 8) as u16).to_be_bytes());
        outer.extend(teid.to_be_bytes());
        outer.extend([0, 0, 0, 0x85, 1, 0, qfi, 0]);
        let mut frame = vec![2, 0];
        frame.extend(peer.octets());
        frame.extend([2, 0]);
        frame.extend(self.address.octets());
        frame.extend([8, 0]);
        frame.extend(outer);
        frame.extend(user);
        packet.data = frame;
        packet.frame_bytes = 58 + bytes as u32;
        packet.moved += start as i32 - 58;
        packet.parse();
        Ok(PortId(0))
    }

    fn rules(
        &mut self,
        now: Ps,
        session: usize,
        direction: Direction,
        (remote, ports, proto, qfi): (IpAddr, Option<(u16, u16)>, u8, Option<u8>),
        bytes: usize,
    ) -> Result<Action, DropReason> {
        let state = &mut self.sessions[session];
        let s = &state.session;
        let matching = s.pdrs.iter().filter(|p| {
            p.direction == direction
                && p.qfi.is_none_or(|q| qfi == Some(q))
                && (p.filters.is_empty() || p.filters.iter().any(|f| passes(f, remote, ports, proto)))
        });
        let pdr = matching.min_by_key(|p| (p.precedence, p.id)).ok_or(DropReason::NoPdr)?;
        let action = s.fars.iter().find(|f| f.id == pdr.far).map_or(Action::Drop, |f| f.action);
        match action {
            Action::Drop => return Err(DropReason::FarDrop),
            Action::Buffer if self.buffered == self.buffer => return Err(DropReason::BufferFull),
            Action::Buffer => {
                self.buffered += 1;
                return Err(DropReason::Buffered);
            }
            _ => {}
        }
        let way = usize::from(direction == Direction::Downlink);
        for id in &pdr.qers {
            let Some(i) = s.qers.iter().position(|q| q.id == *id) else { continue };
            let qer = &s.qers[i];
            if [qer.uplink_closed, qer.downlink_closed][way] {
                return Err(DropReason::GateClosed);
            }
            let Some(bucket) = [qer.uplink, qer.downlink][way] else { continue };
            let (tokens, since) = &mut state.tokens[i][way];
            *tokens += u128::from(now.0.saturating_sub(*since)) * u128::from(bucket.bits_per_s);
            *tokens = (*tokens).min(u128::from(bucket.bytes) * 8_000_000_000_000);
            *since = now.0.max(*since);
            let cost = bytes as u128 * 8_000_000_000_000;
            if cost > *tokens {
                return Err(DropReason::RateExceeded);
            }
            *tokens -= cost;
        }
        for id in &pdr.urrs {
            let Some(i) = s.urrs.iter().position(|u| u.id == *id) else { continue };
            let (urr, usage) = (&s.urrs[i], &mut state.usage[i]);
            if urr.volume_quota.is_some_and(|quota| usage.all >= quota) {
                return Err(DropReason::QuotaExhausted);
            }
            let first = *usage.first.get_or_insert(now);
            usage.last = now;
            usage.all += bytes as u64;
            usage.volumes[way].bytes += bytes as u64;
            usage.volumes[way].packets += 1;
            let volume = usage.volumes[0].bytes + usage.volumes[1].bytes;
            let trigger = if urr.volume_quota.is_some_and(|quota| usage.all >= quota) {
                Some(Trigger::Quota)
            } else if urr.volume_threshold.is_some_and(|t| t > 0 && volume >= t) {
                Some(Trigger::Volume)
            } else if urr.time_threshold_s.is_some_and(|t| t > 0 && now.since(first).as_secs() >= f64::from(t)) {
                Some(Trigger::Time)
            } else {
                None
            };
            if let Some(trigger) = trigger {
                self.reports.push(UsageReport {
                    seid: s.seid,
                    urr: urr.id,
                    trigger,
                    uplink: usage.volumes[0],
                    downlink: usage.volumes[1],
                    first,
                    last: now,
                });
                (usage.volumes, usage.first) = ([Volume::default(); 2], None);
            }
        }
        Ok(action)
    }
}

fn be16(data: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([data[at], data[at + 1]])
}

fn is_of(session: &PduSession, address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => session.ue_v4 == Some(a),
        IpAddr::V6(a) => session.ue_v6.is_some_and(|ue| ue.segments()[..4] == a.segments()[..4]),
    }
}

fn passes(filter: &SdfFilter, remote: IpAddr, ports: Option<(u16, u16)>, proto: u8) -> bool {
    let whole = (0, u16::MAX);
    let within = match ports {
        Some((at_remote, at_ue)) => {
            let ok = |port: u16, (from, to): (u16, u16)| (from..=to).contains(&port);
            ok(at_remote, filter.remote_ports) && ok(at_ue, filter.ue_ports)
        }
        None => filter.remote_ports == whole && filter.ue_ports == whole,
    };
    within && filter.proto.is_none_or(|p| p == proto) && filter.remote.is_none_or(|prefix| prefix.contains(remote))
}

/// An IP packet at the start of `data`, to which `missing` bytes belong that are not there; the faults are
/// those of version, header and length.
fn ip(data: &[u8], missing: usize, [version, header, length]: [DropReason; 3]) -> Result<Ip<'_>, DropReason> {
    let all = data.len() + missing;
    if all == 0 {
        return Err(header);
    }
    if data.is_empty() {
        return Err(DropReason::Truncated);
    }
    let needed = match data[0] >> 4 {
        4 => 20,
        6 => 40,
        _ => return Err(version),
    };
    if all < needed {
        return Err(header);
    }
    if data.len() < needed {
        return Err(DropReason::Truncated);
    }
    let (src, dst, proto, fragment, start, end) = if needed == 20 {
        let start = usize::from(data[0] & 15) * 4;
        if start < 20 {
            return Err(header);
        }
        let v4 = |at: usize| IpAddr::from(Ipv4Addr::new(data[at], data[at + 1], data[at + 2], data[at + 3]));
        let end = usize::from(be16(data, 2));
        if end < start {
            return Err(length);
        }
        (v4(12), v4(16), data[9], be16(data, 6) & 0x3fff, start, end)
    } else {
        let v6 = |at: usize| {
            let words: Vec<u16> = (0..8).map(|i| be16(data, at + 2 * i)).collect();
            IpAddr::from(<[u16; 8]>::try_from(words).map_or(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from))
        };
        (v6(8), v6(24), data[6], 0, 40, 40 + usize::from(be16(data, 4)))
    };
    if end > all {
        return Err(length);
    }
    let payload = data.get(start..data.len().min(end)).unwrap_or_default();
    Ok(Ip {
        src,
        dst,
        proto,
        fragment: fragment != 0,
        later: fragment & 0x1fff != 0,
        payload,
        payload_bytes: end - start,
        bytes: end,
    })
}

fn ports(ip: &Ip<'_>) -> Result<Option<(u16, u16)>, DropReason> {
    match ip.proto {
        6 | 17 | 132 if !ip.later && ip.payload_bytes >= 4 => match ip.payload.len() {
            0..4 => Err(DropReason::Truncated),
            _ => Ok(Some((be16(ip.payload, 0), be16(ip.payload, 2)))),
        },
        _ => Ok(None),
    }
}

/// Identifier, QoS flow, the user's packet as far as it is there, and its bytes.
type Tunnelled<'a> = (u32, Option<u8>, &'a [u8], usize);

/// A G-PDU in a UDP payload of `bytes` bytes, of which `data` are there.
fn gtpu(data: &[u8], bytes: usize) -> Result<Tunnelled<'_>, DropReason> {
    if bytes < 8 {
        return Err(DropReason::GtpuTruncated);
    }
    if data.len() < 8 {
        return Err(DropReason::Truncated);
    }
    if data[0] & 0xe0 != 0x20 {
        return Err(DropReason::GtpuBadVersion);
    }
    if data[0] & 0x10 == 0 {
        return Err(DropReason::GtpPrime);
    }
    let length = usize::from(be16(data, 2));
    if length + 8 > bytes {
        return Err(DropReason::GtpuBadLength);
    }
    let mut rest = &data[8..data.len().min(8 + length)];
    let mut left = length;
    let mut qfi = None;
    if data[0] & 7 != 0 {
        if left < 4 {
            return Err(DropReason::GtpuTruncated);
        }
        if rest.len() < 4 {
            return Err(DropReason::Truncated);
        }
        let mut next = if data[0] & 4 != 0 { rest[3] } else { 0 };
        (rest, left) = (&rest[4..], left - 4);
        while next != 0 {
            if left < 4 {
                return Err(DropReason::GtpuBadExtension);
            }
            if rest.len() < 4 {
                return Err(DropReason::Truncated);
            }
            let size = usize::from(rest[0]) * 4;
            if size == 0 || size > left {
                return Err(DropReason::GtpuBadExtension);
            }
            match next {
                0x85 => qfi = Some(rest[2] & 63),
                0x81..=0x84 | 0xc0 => {}
                known if known < 0x80 => {}
                _ => return Err(DropReason::GtpuUnknownExtension),
            }
            if rest.len() < size {
                return Err(DropReason::Truncated);
            }
            next = rest[size - 1];
            (rest, left) = (&rest[size..], left - size);
        }
    }
    if data[1] != GPDU {
        return Err(DropReason::GtpuNotUserData);
    }
    let teid = u32::from(be16(data, 4)) << 16 | u32::from(be16(data, 6));
    if teid == 0 {
        return Err(DropReason::UnknownTeid);
    }
    Ok((teid, qfi, rest, left))
}
