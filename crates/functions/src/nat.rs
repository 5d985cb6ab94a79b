//! Source network address and port translation.
//!
//! **Computes** for IPv4 packets that come in by the inside port a new source address and port (TCP, UDP) or query
//! identifier (ICMP echo), and for packets of the outside port the way back, also inside the ICMP errors that
//! they cause; checksums are updated from the change alone. Sessions are made by outgoing packets, follow SYN, FIN
//! and RST, and end by timeout. A session's number gives its outside address and port, so that the way back needs no
//! second hash table, and the memory of the table is all there ever is: a flood meets a full table.
//!
//! **References per packet**: 6 to check the header (see `check`), 1 header load for ports, 1 bucket load, 1 session
//! load for each session of the chain up to the packet's own, 1 session store; to rewrite, a load and a store of
//! the transport checksum, a store each of port and address, a load and a store of time to live. A new session
//! takes 4 more under a lock (free ring, bucket, session, bucket) and up to 8 to sweep when none is free. Best 6
//! (dropped by the check), 16 going out at the head of a chain, 19 with a new session in an empty bucket, 15 coming
//! in, where the session is known by its port.
//!
//! **Regions**: buckets (4 bytes each, as many as sessions, rounded up to a power of two), sessions (64 bytes each),
//! the ring of free sessions (4 bytes each), all shared by the cores; the packet and its mbuf. Locks: one a bucket.
//!
//! Left out: endpoint-independent mapping (RFC 4787 REQ-1: a mapping serves one remote endpoint here, as in
//! the paper whose index is made of both endpoints), hairpinning, fragments after the first (dropped), helpers that
//! rewrite payload, IPv6.
//!
//! **Source**: RFC 3022; timeouts by RFC 5382 (TCP), RFC 4787 (UDP), RFC 5508 (ICMP); checksums by RFC 1624,
//! equation 3. Hasan, Chandra, Vijaykumar, ISCA 2003, section 5.2: a hash table in SRAM whose updates are locked.
//!
//! **See also** `firewall`, `forward`.

use std::net::Ipv4Addr;

use packet::{PROTO_ICMP, PROTO_TCP, PROTO_UDP, Packet, update_checksum};
use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{LockId, PortId, Ps};

use crate::check::{self, Checked};
use crate::forward::ChecksumCheck;
use crate::tape::{Tape, TapeMark};
use crate::ttl;
use crate::{DropReason, FunctionError, PacketFunction, Verdict};

const BUCKETS: RegionId = RegionId(RegionId::FIRST_TABLE.0);
const SESSIONS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 1);
const FREE: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 2);

/// Ports of an outside address: those that are not well known.
const PORTS: u32 = 65536 - FIRST_PORT as u32;
const FIRST_PORT: u16 = 1024;
/// Sessions that are looked at for one that has ended when none is free.
const SWEEP: u32 = 8;
const NONE: u32 = u32::MAX;
const BUCKET_BYTES: u64 = 4;
const SESSION_BYTES: u64 = size_of::<NatSession>() as u64;

mod site {
    pub(super) const PORTS: u16 = 22;
    pub(super) const BUCKET: u16 = 23;
    pub(super) const SESSION: u16 = 24;
    pub(super) const SESSION_LATCH: u16 = 25;
    pub(super) const SWEEP: u16 = 26;
    pub(super) const SWEEP_LATCH: u16 = 27;
    pub(super) const FREE: u16 = 28;
    pub(super) const LOCKED_BUCKET: u16 = 29;
    pub(super) const NEW_SESSION: u16 = 30;
    pub(super) const NEW_BUCKET: u16 = 31;
    pub(super) const INSIDE_SESSION: u16 = 32;
    pub(super) const SESSION_STORE: u16 = 33;
    pub(super) const L4_CHECKSUM_LOAD: u16 = 34;
    pub(super) const L4_CHECKSUM_STORE: u16 = 35;
    pub(super) const L4_STORE: u16 = 36;
    pub(super) const ADDRESS_STORE: u16 = 37;
    pub(super) const TTL_LOAD: u16 = 38;
    pub(super) const HEADER_STORE: u16 = 39;
    pub(super) const DONE: u16 = 40;
    pub(super) const LATCH: u16 = 41;
}

/// Instructions of each part as compiled for x86-64; see `tests/instructions.rs`.
mod cost {
    pub(super) const KEY: u32 = 240;
    pub(super) const PROBE: u32 = 22;
    pub(super) const NEW: u32 = 109;
    pub(super) const SWEEP: u32 = 22;
    pub(super) const STATE: u32 = 30;
    pub(super) const REWRITE: u32 = 340;
}

/// How addresses are translated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NatSpec {
    /// The first outside address; more follow it when there are more sessions than ports.
    pub address: Ipv4Addr,
    /// Sessions at a time, over all protocols.
    pub sessions: u32,
    /// The port on the inside.
    pub inside: u16,
    /// The port on the outside.
    pub outside: u16,
    /// Whether a TCP packet in the middle of a connection makes a session, as after a restart.
    pub loose: bool,
    /// Seconds until an idle session ends.
    pub timeouts: NatTimeouts,
}

/// Seconds until an idle session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NatTimeouts {
    /// TCP, both ends of which have spoken (RFC 5382 REQ-5: 2 h 4 min or more).
    pub established: u32,
    /// TCP that is being opened or closed (RFC 5382 REQ-5: 4 min or more).
    pub transitory: u32,
    /// UDP (RFC 4787 REQ-5: 5 min recommended).
    pub udp: u32,
    /// ICMP queries (RFC 5508 REQ-2: 60 s or more).
    pub icmp: u32,
}

impl Default for NatTimeouts {
    fn default() -> NatTimeouts {
        NatTimeouts { established: 7440, transitory: 240, udp: 300, icmp: 60 }
    }
}

impl Default for NatSpec {
    fn default() -> NatSpec {
        NatSpec {
            address: Ipv4Addr::new(192, 0, 2, 1),
            sessions: 32768,
            inside: 0,
            outside: 1,
            loose: true,
            timeouts: NatTimeouts::default(),
        }
    }
}

/// Both ends of a session as the inside knows them; for ICMP both ports are the query identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct NatKey {
    /// Inside address.
    pub src: Ipv4Addr,
    /// Outside address.
    pub dst: Ipv4Addr,
    /// Inside port.
    pub src_port: u16,
    /// Outside port.
    pub dst_port: u16,
    /// Protocol.
    pub proto: u8,
}

/// What of a TCP connection has been seen.
mod seen {
    pub(super) const IN: u8 = 1;
    pub(super) const FIN_OUT: u8 = 2;
    pub(super) const FIN_IN: u8 = 4;
    pub(super) const RESET: u8 = 8;
}

#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
#[repr(C, align(64))]
struct NatSession {
    key: NatKey,
    live: bool,
    seen: u8,
    /// The next session of the bucket.
    next: u32,
    expires: Ps,
}

/// Translation, with its sessions.
#[derive(Clone, Debug)]
pub struct Nat {
    spec: NatSpec,
    buckets: Vec<u32>,
    sessions: Vec<NatSession>,
    /// Free sessions, those free for longest first: a port is used again as late as possible.
    free: Vec<u32>,
    free_from: u32,
    free_count: u32,
    hand: u32,
}

state::state!(Nat {
    values: [free, free_from, free_count, hand],
    arrays: [buckets, sessions],
    parts: [],
    built: [spec],
});

impl Nat {
    /// Translation without sessions.
    ///
    /// # Errors
    /// No session, more than addresses behind the first can carry, ports on both sides that are the same.
    pub fn new(spec: &NatSpec) -> Result<Nat, FunctionError> {
        let addresses = spec.sessions.div_ceil(PORTS);
        if spec.sessions == 0 || spec.sessions > 1 << 24 || u32::from(spec.address).checked_add(addresses).is_none() {
            return Err(FunctionError::Spec {
                path: "nat.sessions",
                came: format!("{} from {} on", spec.sessions, spec.address),
                allowed: format!("1 to {}, {PORTS} an address", 1 << 24),
                remedy: "take fewer, or a lower first address",
            });
        }
        if spec.inside == spec.outside {
            return Err(FunctionError::Spec {
                path: "nat.outside",
                came: format!("{}, as nat.inside", spec.outside),
                allowed: "another port than nat.inside".into(),
                remedy: "inside and outside are the two sides of the translation",
            });
        }
        let idle = NatSession {
            key: NatKey { src: Ipv4Addr::UNSPECIFIED, dst: Ipv4Addr::UNSPECIFIED, src_port: 0, dst_port: 0, proto: 0 },
            live: false,
            seen: 0,
            next: NONE,
            expires: Ps::ZERO,
        };
        Ok(Nat {
            buckets: vec![NONE; spec.sessions.next_power_of_two() as usize],
            sessions: vec![idle; spec.sessions as usize],
            free: (0..spec.sessions).collect(),
            free_from: 0,
            free_count: spec.sessions,
            hand: 0,
            spec: spec.clone(),
        })
    }

    /// Sessions that have not been cleared away; some of them may have ended.
    pub fn sessions(&self) -> u32 {
        self.spec.sessions - self.free_count
    }

    /// The outside address and port of a session that has not ended, without a packet.
    pub fn outside_of(&self, now: Ps, key: &NatKey) -> Option<(Ipv4Addr, u16)> {
        let mut at = self.buckets[self.bucket(key) as usize];
        while at != NONE {
            let session = &self.sessions[at as usize];
            if session.key == *key && now < session.expires {
                return Some(self.outside(at));
            }
            at = session.next;
        }
        None
    }

    /// Makes a session for a flow whose beginning nobody saw, as if both ends had spoken; its outside address and
    /// port. [`None`]: the table is full.
    pub fn establish(&mut self, now: Ps, key: &NatKey) -> Option<(Ipv4Addr, u16)> {
        if let Some(outside) = self.outside_of(now, key) {
            return Some(outside);
        }
        let mut null = probe::Null;
        let at = self.open(now, key, &mut Tape::new(&mut null)).ok()?;
        self.touch(at, now, seen::IN);
        Some(self.outside(at))
    }

    fn bucket(&self, key: &NatKey) -> u32 {
        let addresses = u64::from(u32::from(key.src)) << 32 | u64::from(u32::from(key.dst));
        let ports = u64::from(key.src_port) << 24 | u64::from(key.dst_port) << 8 | u64::from(key.proto);
        // The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) over both.
        let mut z = addresses ^ ports.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as u32 & (self.buckets.len() as u32 - 1)
    }

    /// Where a session is seen outside.
    fn outside(&self, session: u32) -> (Ipv4Addr, u16) {
        let address = u32::from(self.spec.address) + session / PORTS;
        (address.into(), FIRST_PORT + (session % PORTS) as u16)
    }

    /// The session that is seen at an outside address and port.
    fn session_at(&self, address: Ipv4Addr, port: u16) -> Option<u32> {
        let nth = u32::from(address).checked_sub(u32::from(self.spec.address))?;
        let session = nth.checked_mul(PORTS)?.checked_add(u32::from(port.checked_sub(FIRST_PORT)?))?;
        (session < self.spec.sessions).then_some(session)
    }

    #[inline(always)]
    fn session_ref(at: u32, site: u16) -> Ref {
        Ref::load(SESSIONS, u64::from(at) * SESSION_BYTES, SESSION_BYTES as u16, site)
    }

    /// The live session of `key`.
    fn find<P: Probe>(&self, now: Ps, key: &NatKey, from: TapeMark, tape: &mut Tape<'_, P>) -> Option<u32> {
        let bucket = self.bucket(key);
        let bucket_ref = Ref::load(BUCKETS, u64::from(bucket) * BUCKET_BYTES, BUCKET_BYTES as u16, site::BUCKET);
        let mut mark = tape.touch_after(from, bucket_ref);
        tape.work(site::BUCKET, cost::KEY);
        let mut at = self.buckets[bucket as usize];
        while at != NONE {
            let session = &self.sessions[at as usize];
            mark = tape.touch_after(mark, Nat::session_ref(at, site::SESSION));
            tape.work(site::SESSION_LATCH, cost::PROBE);
            tape.latch(site::SESSION_LATCH);
            if session.key == *key && now < session.expires {
                return Some(at);
            }
            at = session.next;
        }
        None
    }

    /// A session for `key`, which has none.
    fn open<P: Probe>(&mut self, now: Ps, key: &NatKey, tape: &mut Tape<'_, P>) -> Result<u32, DropReason> {
        if self.free_count == 0 {
            self.sweep(now, tape);
        }
        if self.free_count == 0 {
            return Err(DropReason::NatTableFull);
        }
        let bucket = self.bucket(key);
        let lock = LockId(bucket);
        let free_ref = Ref::load(FREE, u64::from(self.free_from) * BUCKET_BYTES, BUCKET_BYTES as u16, site::FREE);
        let mark = tape.touch(free_ref);
        let at = self.free[self.free_from as usize];
        self.free_from = (self.free_from + 1) % self.spec.sessions;
        self.free_count -= 1;
        let bucket_ref = |site| Ref::load(BUCKETS, u64::from(bucket) * BUCKET_BYTES, BUCKET_BYTES as u16, site);
        tape.lock(lock);
        tape.touch(bucket_ref(site::LOCKED_BUCKET));
        tape.touch_after(mark, Nat::session_ref(at, site::NEW_SESSION).with_access(probe::Access::Store));
        self.sessions[at as usize] =
            NatSession { key: *key, live: true, seen: 0, next: self.buckets[bucket as usize], expires: Ps::ZERO };
        self.buckets[bucket as usize] = at;
        tape.touch(bucket_ref(site::NEW_BUCKET).with_access(probe::Access::Store));
        tape.unlock(lock);
        tape.work(site::NEW_BUCKET, cost::NEW);
        Ok(at)
    }

    /// Looks at a few sessions, round the table, and clears those away that have ended.
    fn sweep<P: Probe>(&mut self, now: Ps, tape: &mut Tape<'_, P>) {
        for _ in 0..SWEEP.min(self.spec.sessions) {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.spec.sessions;
            tape.touch(Nat::session_ref(at, site::SWEEP));
            tape.work(site::SWEEP_LATCH, cost::SWEEP);
            let session = self.sessions[at as usize];
            if session.live && session.expires <= now {
                self.close(at, tape);
            }
            tape.latch(site::SWEEP_LATCH);
        }
    }

    fn close<P: Probe>(&mut self, at: u32, tape: &mut Tape<'_, P>) {
        let bucket = self.bucket(&self.sessions[at as usize].key);
        let next = self.sessions[at as usize].next;
        tape.lock(LockId(bucket));
        if self.buckets[bucket as usize] == at {
            self.buckets[bucket as usize] = next;
        } else {
            let mut before = self.buckets[bucket as usize];
            while before != NONE && self.sessions[before as usize].next != at {
                before = self.sessions[before as usize].next;
            }
            if before != NONE {
                self.sessions[before as usize].next = next;
            }
        }
        tape.unlock(LockId(bucket));
        self.sessions[at as usize].live = false;
        let end = (self.free_from + self.free_count) % self.spec.sessions;
        self.free[end as usize] = at;
        self.free_count += 1;
    }

    /// Notes what was seen of a session, which puts its end off.
    fn touch(&mut self, at: u32, now: Ps, seen: u8) {
        let t = self.spec.timeouts;
        let session = &mut self.sessions[at as usize];
        session.seen |= seen;
        let closing = session.seen & seen::RESET != 0
            || session.seen & (seen::FIN_IN | seen::FIN_OUT) == seen::FIN_IN | seen::FIN_OUT;
        let seconds = match session.key.proto {
            PROTO_TCP if closing || session.seen & seen::IN == 0 => t.transitory,
            PROTO_TCP => t.established,
            PROTO_UDP => t.udp,
            _ => t.icmp,
        };
        let expires = Ps(now.0.saturating_add(u64::from(seconds).saturating_mul(1_000_000_000_000)));
        // Packets of a closed connection do not keep it.
        session.expires = if closing && session.expires != Ps::ZERO { session.expires.min(expires) } else { expires };
    }

    fn one<P: Probe>(&mut self, now: Ps, packet: &mut Packet, tape: &mut Tape<'_, P>) -> Result<PortId, DropReason> {
        let (_, from) = match check::headers(packet, ChecksumCheck::Nic, tape)? {
            Checked::V4(dst, mark) => (dst, mark),
            Checked::V6(..) => return Err(DropReason::NatUntranslatable),
        };
        let l3 = usize::from(packet.l3_offset);
        let header = Header::of(&packet.data, l3)?;
        tape.touch_after(from, Ref::load(RegionId::PACKET, header.l4 as u64, 4, site::PORTS));
        let outgoing = packet.port.0 == self.spec.inside;
        let key = header.key(&packet.data)?;
        let flags = header.tcp_flags(&packet.data);
        let reset = if flags & RST != 0 { seen::RESET } else { 0 };
        let fin = |bit| if flags & FIN != 0 { bit } else { 0 };
        if packet.data.get(l3 + 8).is_none_or(|&ttl| ttl <= 1) {
            return Err(DropReason::TtlExpired);
        }
        if outgoing {
            let key = key.ok_or(DropReason::NatUntranslatable)?;
            let at = match self.find(now, &key, from, tape) {
                Some(at) => at,
                None if key.proto == PROTO_TCP && !self.spec.loose && flags & (SYN | ACK) != SYN => {
                    return Err(DropReason::NatNoSession);
                }
                None => self.open(now, &key, tape)?,
            };
            self.touch(at, now, fin(seen::FIN_OUT) | reset);
            tape.touch(Nat::session_ref(at, site::SESSION_STORE).with_access(probe::Access::Store));
            tape.work(site::SESSION_STORE, cost::STATE);
            let (address, port) = self.outside(at);
            header.rewrite(&mut packet.data, Side::Source, address, port, tape)?;
            return Ok(PortId(self.spec.outside));
        }
        // What the outside sends has the inside's ends in the destination.
        let (remote, address, port) = match key {
            Some(key) => ((key.src, key.src_port), key.dst, key.dst_port),
            None => return self.error_in(now, packet, &header, from, tape),
        };
        let at = self.session_at(address, port).ok_or(DropReason::NatNoSession)?;
        tape.touch_after(from, Nat::session_ref(at, site::INSIDE_SESSION));
        let session = self.sessions[at as usize];
        // A query identifier is the same on both sides; what the remote end is called differs.
        let same_port = session.key.dst_port == remote.1 || session.key.proto == PROTO_ICMP;
        let same = session.key.dst == remote.0 && same_port && session.key.proto == header.proto;
        if !session.live || session.expires <= now || !same {
            return Err(DropReason::NatNoSession);
        }
        self.touch(at, now, seen::IN | fin(seen::FIN_IN) | reset);
        tape.touch(Nat::session_ref(at, site::SESSION_STORE).with_access(probe::Access::Store));
        tape.work(site::SESSION_STORE, cost::STATE);
        header.rewrite(&mut packet.data, Side::Destination, session.key.src, session.key.src_port, tape)?;
        Ok(PortId(self.spec.inside))
    }

    /// An ICMP error from outside about a packet that was translated: its copy of that packet's header gets the
    /// inside's address and port back (RFC 5508 REQ-4).
    fn error_in<P: Probe>(
        &mut self,
        now: Ps,
        packet: &mut Packet,
        header: &Header,
        from: TapeMark,
        tape: &mut Tape<'_, P>,
    ) -> Result<PortId, DropReason> {
        let copy = Header::of(&packet.data, header.l4 + 8)?;
        let sent = copy.key(&packet.data)?.ok_or(DropReason::NatUntranslatable)?;
        let at = self.session_at(sent.src, sent.src_port).ok_or(DropReason::NatNoSession)?;
        tape.touch_after(from, Nat::session_ref(at, site::INSIDE_SESSION));
        let session = self.sessions[at as usize];
        if !session.live || session.expires <= now || session.key.dst != sent.dst || session.key.proto != sent.proto {
            return Err(DropReason::NatNoSession);
        }
        let data = &mut packet.data;
        let icmp_sum = header.l4 + 2;
        let [a, b] = halves(session.key.src);
        // The copy's own header checksum changes by as much as its address: replacing it is part of the change.
        for (at, new) in [(copy.l3 + 12, a), (copy.l3 + 14, b)] {
            let old = word(data, at).ok_or(DropReason::Truncated)?;
            let sum = word(data, copy.l3 + 10).ok_or(DropReason::Truncated)?;
            let inner = update_checksum(sum, old, new);
            replace(data, at, new, &[icmp_sum])?;
            replace(data, copy.l3 + 10, inner, &[icmp_sum])?;
        }
        replace(data, copy.port_at(Side::Source), session.key.src_port, &[icmp_sum])?;
        header.rewrite_address(data, Side::Destination, session.key.src, tape)?;
        header.forward(data, tape)?;
        Ok(PortId(self.spec.inside))
    }
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
}

/// Where things are in a packet.
#[derive(Clone, Copy)]
struct Header {
    l3: usize,
    l4: usize,
    proto: u8,
    src: Ipv4Addr,
    dst: Ipv4Addr,
}

impl Header {
    fn of(data: &[u8], l3: usize) -> Result<Header, DropReason> {
        let header = data.get(l3..).and_then(|rest| rest.first_chunk::<20>()).ok_or(DropReason::Truncated)?;
        // A later fragment has no ports.
        if u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0 {
            return Err(DropReason::NatUntranslatable);
        }
        let address = |i: usize| Ipv4Addr::new(header[i], header[i + 1], header[i + 2], header[i + 3]);
        let l4 = l3 + usize::from(header[0] & 15) * 4;
        Ok(Header { l3, l4, proto: header[9], src: address(12), dst: address(16) })
    }

    /// Both ends; [`None`]: an ICMP message that is no query.
    fn key(&self, data: &[u8]) -> Result<Option<NatKey>, DropReason> {
        let (src_port, dst_port) = match self.proto {
            PROTO_TCP | PROTO_UDP => {
                let ports = (word(data, self.l4), word(data, self.l4 + 2));
                let (Some(src), Some(dst)) = ports else { return Err(DropReason::Truncated) };
                (src, dst)
            }
            PROTO_ICMP => match data.get(self.l4) {
                // Echo, echo reply, timestamp, timestamp reply: those with an identifier.
                Some(0 | 8 | 13 | 14) => {
                    let id = word(data, self.l4 + 4).ok_or(DropReason::Truncated)?;
                    (id, id)
                }
                Some(3 | 4 | 11 | 12) => return Ok(None),
                Some(_) => return Err(DropReason::NatUntranslatable),
                None => return Err(DropReason::Truncated),
            },
            _ => return Err(DropReason::NatUntranslatable),
        };
        Ok(Some(NatKey { src: self.src, dst: self.dst, src_port, dst_port, proto: self.proto }))
    }

    fn tcp_flags(&self, data: &[u8]) -> u8 {
        if self.proto == PROTO_TCP { data.get(self.l4 + 13).copied().unwrap_or(0) } else { 0 }
    }

    fn port_at(&self, side: Side) -> usize {
        match (self.proto, side) {
            (PROTO_ICMP, _) => self.l4 + 4,
            (_, Side::Source) => self.l4,
            (_, Side::Destination) => self.l4 + 2,
        }
    }

    /// New address and port on one side, time to live, checksums. What a capture has cut off is left alone.
    fn rewrite<P: Probe>(
        &self,
        data: &mut [u8],
        side: Side,
        address: Ipv4Addr,
        port: u16,
        tape: &mut Tape<'_, P>,
    ) -> Result<(), DropReason> {
        let (checksum, pseudo) = match self.proto {
            PROTO_TCP => (self.l4 + 16, true),
            PROTO_UDP => (self.l4 + 6, true),
            _ => (self.l4 + 2, false),
        };
        // UDP may go without a checksum, and says so with 0.
        let sum = word(data, checksum).filter(|&sum| self.proto != PROTO_UDP || sum != 0);
        if let Some(sum) = sum {
            let packet = |at: usize, bytes, site| Ref::load(RegionId::PACKET, at as u64, bytes, site);
            tape.touch(packet(checksum, 2, site::L4_CHECKSUM_LOAD));
            let old_port = word(data, self.port_at(side)).ok_or(DropReason::Truncated)?;
            let mut sum = update_checksum(sum, old_port, port);
            if pseudo {
                let old = if side == Side::Source { self.src } else { self.dst };
                for (old, new) in halves(old).into_iter().zip(halves(address)) {
                    sum = update_checksum(sum, old, new);
                }
            }
            if self.proto == PROTO_UDP && sum == 0 {
                sum = 0xffff;
            }
            put(data, checksum, sum);
            tape.touch(packet(checksum, 2, site::L4_CHECKSUM_STORE).with_access(probe::Access::Store));
        }
        put(data, self.port_at(side), port);
        tape.touch(Ref::store(RegionId::PACKET, self.port_at(side) as u64, 2, site::L4_STORE));
        self.rewrite_address(data, side, address, tape)?;
        self.forward(data, tape)
    }

    fn rewrite_address<P: Probe>(
        &self,
        data: &mut [u8],
        side: Side,
        address: Ipv4Addr,
        tape: &mut Tape<'_, P>,
    ) -> Result<(), DropReason> {
        let at = self.l3 + if side == Side::Source { 12 } else { 16 };
        let [a, b] = halves(address);
        replace(data, at, a, &[self.l3 + 10])?;
        replace(data, at + 2, b, &[self.l3 + 10])?;
        tape.touch(Ref::store(RegionId::PACKET, at as u64, 4, site::ADDRESS_STORE));
        Ok(())
    }

    fn forward<P: Probe>(&self, data: &mut [u8], tape: &mut Tape<'_, P>) -> Result<(), DropReason> {
        let at = self.l3 + 8;
        let ttl = data.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()).ok_or(DropReason::Truncated)?;
        tape.touch(Ref::load(RegionId::PACKET, at as u64, 4, site::TTL_LOAD));
        *ttl = ttl::decrement(*ttl).ok_or(DropReason::TtlExpired)?;
        tape.touch(Ref::store(RegionId::PACKET, at as u64, 4, site::HEADER_STORE));
        tape.work(site::DONE, cost::REWRITE);
        Ok(())
    }
}

fn halves(address: Ipv4Addr) -> [u16; 2] {
    let [a, b, c, d] = address.octets();
    [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
}

fn word(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

fn put(data: &mut [u8], at: usize, new: u16) {
    if let Some(word) = data.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>()) {
        *word = new.to_be_bytes();
    }
}

/// Replaces a word, and updates the checksums over it.
fn replace(data: &mut [u8], at: usize, new: u16, checksums: &[usize]) -> Result<(), DropReason> {
    let old = word(data, at).ok_or(DropReason::Truncated)?;
    for &checksum in checksums {
        let sum = word(data, checksum).ok_or(DropReason::Truncated)?;
        put(data, checksum, update_checksum(sum, old, new));
    }
    put(data, at, new);
    Ok(())
}

impl PacketFunction for Nat {
    fn name(&self) -> &'static str {
        "nat"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        let region = |id, name: &str, bytes| RegionSpec { id, name: name.into(), bytes, sharing: Sharing::Shared };
        vec![
            region(BUCKETS, "nat_buckets", self.buckets.len() as u64 * BUCKET_BYTES),
            region(SESSIONS, "nat_sessions", u64::from(self.spec.sessions) * SESSION_BYTES),
            region(FREE, "nat_free", u64::from(self.spec.sessions) * BUCKET_BYTES),
        ]
    }

    fn process_burst<P: Probe>(&mut self, now: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        let mut tape = Tape::new(probe);
        for packet in burst {
            tape.begin(packet.id);
            out.push(match self.one(now, packet, &mut tape) {
                Ok(port) => Verdict::Forward { port },
                Err(reason) => Verdict::Drop(reason),
            });
            tape.end(packet.id);
            tape.latch(site::LATCH);
        }
    }
}
