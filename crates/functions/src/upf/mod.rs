//! The user plane function of a 5G core: tunnels on one side, the Internet on the other.
//!
//! **Computes**, for a packet that comes through a GTP-U tunnel (uplink, N3): outer headers, GTP-U
//! with its extension headers, the session of the tunnel endpoint identifier, whether the inner source
//! is the UE's; for one that comes from the data network (downlink, N6): the session of the
//! destination. Then, for both: the packet detection rule (PDR) of least precedence whose service data
//! flow filter matches; its forwarding action rule (FAR: forward, drop, buffer), QoS enforcement rules
//! (QER: gates, token buckets) and usage reporting rules (URR: volume, time). Uplink packets leave
//! without the outer headers, downlink packets with new ones. Bytes are really changed.
//!
//! **References per packet** (IPv4, defaults, the k-th PDR of its direction matches, one QER and one
//! URR): uplink 31 + k, downlink 25 + k: 3 to prefetch the header; mbuf 3, outer header 2 and UDP 1,
//! GTP-U 2 and 1 for its PDU session container, inner header 2 and ports 1 (downlink: header 2, ports
//! 1); 3 to find the session (a prefetch, keys, value) and a prefetch of it; 1 of the session, 1 for
//! each PDR that is looked at, 1 more of the PDR for its remote address where it has one, 1 of its
//! actions; 1 of the FAR; 1 load and 1 store a QER; 1 load and 1 store a URR; to leave, uplink 2 mbuf
//! loads, a store of 14 bytes and 2 mbuf stores, downlink the same with a store of 58 bytes into the
//! headroom. Best 6 (not IP). The test of this number gives the exact packets.
//!
//! **Regions**: `upf_teid`, `upf_ue_v4`, `upf_ue_v6` (hash tables of one-line buckets, twice as many
//! slots as sessions), `upf_sessions` (a line each), `upf_pdrs` (a line each, a session's of one
//! direction next to each other in order of precedence), `upf_fars` (32 bytes each), `upf_qers` and
//! `upf_urrs` (a line each), `upf_buffer` (2048 bytes a packet), all shared by the cores. 20,000
//! sessions of 40 PDRs take 59 MiB of them.
//!
//! A burst is worked on in stages over up to 32 packets, so that misses of different packets overlap:
//! parse all, find all sessions, then rules and rewriting.
//!
//! Left out: PFCP itself ([`Upf::establish`] and its siblings take what it carries), reassembly,
//! outer IPv6 towards the access network, a time to live's decrement (the router beside it does that),
//! inner IPv6 extension headers (a packet with any has no ports for filters), error indications, and
//! the locks or per-core copies that cores with one session in common need. Buffered packets are
//! copied, so that their mbuf is free. A real driver moves `data_off` where this moves bytes of a
//! `Vec`; no reference is reported for that.
//!
//! **Source**: 3GPP TS 29.244 (PFCP: rules), TS 29.281 (GTP-U), TS 23.501 5.8. The order of rules on
//! a list of each session, looked at one after the other, is that of free5GC's gtp5g
//! (`src/pfcp/pdr.c`, `pdr_find_by_gtp1u`, `pdr_find_by_ipv4`), which keeps each rule in several
//! allocations; here each is a line. Stages over a vector with prefetches are those of UPG-VPP.
//!
//! **See also** `forward`.

mod gtpu;
mod load;
mod naive;
mod rules;
mod sessions;
mod table;

pub use gtpu::{GPDU, GTPU_PORT, Gtpu, OUTER_BYTES, PDU_SESSION_CONTAINER, parse as parse_gtpu};
pub use load::SessionLoad;
pub use naive::NaiveUpf;
pub use rules::{Action, Bucket, Direction, Far, Pdr, Qer, SdfFilter, Session, Urr};
pub use sessions::{SessionFile, parse as parse_sessions};

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use packet::{ETHERNET_HEADER_BYTES, L3, MBUF_HEADER_BYTES, MBUF_HEADROOM_BYTES, PROTO_TCP, PROTO_UDP, Packet};
use probe::{Access, CopyLoop, Probe, Ref, RegionId, RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PortId, Ps};

use self::gtpu::Outer;
use self::table::{Found, Table};
use crate::check::mbuf;
use crate::lookup::prefetch;
use crate::tape::{Mark, Tape, Trail};
use crate::{DropReason, FunctionError, LookupMode, PacketFunction, Verdict};

const TEIDS: RegionId = RegionId(RegionId::FIRST_TABLE.0);
const UE_V4: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 1);
const UE_V6: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 2);
const SESSIONS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 3);
const PDRS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 4);
const FARS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 5);
const QERS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 6);
const URRS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 7);
const BUFFER: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 8);

/// Packets that pass a stage together.
const BURST: usize = 32;
/// How many packets ahead headers are prefetched: `PREFETCH_OFFSET` of DPDK's l3fwd.
const PREFETCH_AHEAD: usize = 3;
const LINE: u64 = 64;
const FAR_BYTES: u64 = 32;
const BUFFER_BYTES: u64 = packet::MBUF_DATA_ROOM_BYTES;
const ETHERNET: usize = ETHERNET_HEADER_BYTES as usize;
const PROTO_SCTP: u8 = 132;
/// Frames of the data network and of the access network leave by these.
const CORE_PORT: PortId = PortId(1);
const ACCESS_PORT: PortId = PortId(0);

/// Places of references, in program order.
mod site {
    pub(super) const PREFETCH_BUF_ADDR: u16 = 0;
    pub(super) const PREFETCH_DATA_OFF: u16 = 1;
    pub(super) const PREFETCH_HEADER: u16 = 2;
    pub(super) const PREFETCH_DONE: u16 = 3;
    pub(super) const BUF_ADDR: u16 = 4;
    pub(super) const DATA_OFF: u16 = 5;
    pub(super) const RX_FIELDS: u16 = 6;
    pub(super) const OUTER: u16 = 8;
    pub(super) const OUTER_REST: u16 = 9;
    pub(super) const UDP: u16 = 10;
    pub(super) const GTPU: u16 = 11;
    pub(super) const GTPU_OPTIONS: u16 = 12;
    pub(super) const GTPU_EXTENSION: u16 = 13;
    pub(super) const GTPU_EXTENSION_LATCH: u16 = 14;
    pub(super) const INNER: u16 = 15;
    pub(super) const INNER_REST: u16 = 16;
    pub(super) const PORTS: u16 = 17;
    pub(super) const BUCKET_PREFETCH: u16 = 18;
    pub(super) const PARSED: u16 = 19;
    pub(super) const PARSE_LATCH: u16 = 20;
    pub(super) const KEYS: u16 = 24;
    pub(super) const VALUE: u16 = 25;
    pub(super) const PASSED: u16 = 26;
    pub(super) const BUCKET_LATCH: u16 = 27;
    pub(super) const SESSION_PREFETCH: u16 = 28;
    pub(super) const FOUND: u16 = 29;
    pub(super) const FOUND_LATCH: u16 = 30;
    pub(super) const SESSION: u16 = 32;
    pub(super) const PDR: u16 = 33;
    pub(super) const PDR_REMOTE: u16 = 34;
    pub(super) const PDR_LATCH: u16 = 35;
    pub(super) const PDR_ACTION: u16 = 36;
    pub(super) const FAR: u16 = 37;
    pub(super) const QER_LOAD: u16 = 39;
    pub(super) const QER_STORE: u16 = 40;
    pub(super) const QER_LATCH: u16 = 41;
    pub(super) const URR_LOAD: u16 = 42;
    pub(super) const URR_STORE: u16 = 43;
    pub(super) const URR_LATCH: u16 = 44;
    pub(super) const LEAVE_BUF_ADDR: u16 = 45;
    pub(super) const LEAVE_DATA_OFF: u16 = 46;
    pub(super) const BUFFER_COPY: u16 = 47;
    pub(super) const HEADER_STORE: u16 = 48;
    pub(super) const DATA_OFF_STORE: u16 = 49;
    pub(super) const LENGTH_STORE: u16 = 50;
    pub(super) const DONE: u16 = 51;
    pub(super) const DONE_LATCH: u16 = 52;
}

/// Instructions of each part as compiled for x86-64; `tests/instructions.rs` compares their sum with
/// what valgrind counts.
mod cost {
    pub(super) const PREFETCH: u32 = 7;
    pub(super) const NOT_IP: u32 = 70;
    /// Of the faults that are met after the outer header; they come at any depth.
    pub(super) const BAD: u32 = 250;
    pub(super) const UPLINK: u32 = 386;
    pub(super) const EXTENSION: u32 = 14;
    pub(super) const DOWNLINK: u32 = 224;
    pub(super) const BUCKET: u32 = 30;
    pub(super) const FOUND: u32 = 25;
    pub(super) const NOT_FOUND: u32 = 14;
    pub(super) const PDR: u32 = 37;
    pub(super) const RULES: u32 = 43;
    pub(super) const QER: u32 = 16;
    /// A token bucket more than a gate.
    pub(super) const METER: u32 = 29;
    pub(super) const URR: u32 = 33;
    pub(super) const DECAPSULATE: u32 = 116;
    pub(super) const ENCAPSULATE: u32 = 205;
    pub(super) const BUFFERED: u32 = 250;
}

/// How the user plane function works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UpfSpec {
    /// Its address towards the access network: the source of outer headers. Packets to UDP port 2152 come
    /// from there, whatever their destination.
    pub address: Ipv4Addr,
    /// Whether headers, buckets and sessions are prefetched.
    pub prefetch: bool,
    /// Whether a burst goes through the stages together or each packet alone.
    pub lookup: LookupMode,
    /// Packets that can be buffered at a time.
    pub buffer: u32,
}

impl Default for UpfSpec {
    fn default() -> UpfSpec {
        UpfSpec { address: Ipv4Addr::new(192, 168, 252, 3), prefetch: true, lookup: LookupMode::Bulk, buffer: 1024 }
    }
}

/// For how much there is room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Sessions.
    pub sessions: u32,
    /// Packet detection rules, one for each service data flow filter.
    pub pdrs: u32,
    /// Forwarding action rules.
    pub fars: u32,
    /// QoS enforcement rules.
    pub qers: u32,
    /// Usage reporting rules.
    pub urrs: u32,
}

impl Capacity {
    /// What these sessions take.
    pub fn of(sessions: &[Session]) -> Capacity {
        let mut room = Capacity { sessions: sessions.len() as u32, ..Capacity::default() };
        for s in sessions {
            room.pdrs += s.pdrs.iter().map(|p| p.filters.len().max(1) as u32).sum::<u32>();
            room.fars += s.fars.len() as u32;
            room.qers += s.qers.len() as u32;
            room.urrs += s.urrs.len() as u32;
        }
        room
    }
}

/// A usage report, for the control plane to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageReport {
    /// Whose.
    pub seid: u64,
    /// Of which rule.
    pub urr: u32,
    /// Why.
    pub trigger: Trigger,
    /// Bytes and packets uplink since the last report.
    pub uplink: Volume,
    /// Bytes and packets downlink since the last report.
    pub downlink: Volume,
    /// The time of the first packet since then.
    pub first: Ps,
    /// The time of the last.
    pub last: Ps,
}

/// Why usage is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The volume threshold was reached.
    Volume,
    /// The time threshold was reached.
    Time,
    /// The quota was used up.
    Quota,
    /// The session was released.
    Release,
}

/// Bytes of users' packets, and how many packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Bytes of inner IP packets.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

/// The user plane function. A clone shares the tables until either changes them.
#[derive(Clone, Debug)]
pub struct Upf {
    prefetch: bool,
    lookup: LookupMode,
    address: Ipv4Addr,
    room: Capacity,
    rules: Arc<Rules>,
    qers: Vec<QerLine>,
    urrs: Vec<UrrLine>,
    buffer: Vec<Option<Kept>>,
    free_buffers: Vec<u32>,
    reports: Vec<UsageReport>,
}

/// What packets only read.
#[derive(Clone, Debug)]
struct Rules {
    teids: Table,
    ue_v4: Table,
    ue_v6: Table,
    sessions: Vec<SessionLine>,
    pdrs: Vec<PdrLine>,
    fars: Vec<FarLine>,
    free: Free,
    /// By session endpoint identifier.
    known: HashMap<u64, Known>,
}

/// What only the control plane asks for.
#[derive(Clone, Debug)]
struct Known {
    /// The session's place.
    at: u32,
    /// Rules by id, in the order of their places.
    fars: Vec<u32>,
    urrs: Vec<u32>,
    first_urr: u32,
}

/// Places that released sessions have left, by how many there are in a row.
#[derive(Clone, Debug, Default)]
struct Free {
    sessions: Vec<u32>,
    pdrs: HashMap<u32, Vec<u32>>,
    fars: HashMap<u32, Vec<u32>>,
    qers: HashMap<u32, Vec<u32>>,
    urrs: HashMap<u32, Vec<u32>>,
}

#[derive(Clone, Debug)]
struct Kept {
    session: u32,
    packet: Packet,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct SessionLine {
    seid: u64,
    /// The first 64 bits of the UE's IPv6 addresses.
    ue_v6: u64,
    ue_v4: u32,
    has: u32,
    /// The place of the first rule, and how many there are, uplink and downlink.
    pdrs: [(u32, u32); 2],
    uplink_teid: u32,
    fars: (u32, u32),
    qers: (u32, u32),
}

const HAS_V4: u32 = 1;
const HAS_V6: u32 = 2;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct PdrLine {
    remote_ports: (u16, u16),
    ue_ports: (u16, u16),
    /// Protocol, QoS flow, and the bits below; in the last byte the bits of the remote address that do not
    /// count.
    what: u32,
    /// The bits of `what` that a packet's have to equal.
    mask: u32,
    remote: u128,
    far: u32,
    qers: [u32; 2],
    id: u32,
    urrs: [u32; 2],
    precedence: u32,
}

/// Bits of [`PdrLine::what`] and [`Parsed::what`]: of the user's packet, IPv4 and whether it has ports; of a
/// rule, whether it has a remote address.
const IS_V4: u32 = 1 << 16;
const HAS_PORTS: u32 = 1 << 17;
const HAS_REMOTE: u32 = 1 << 18;
const PROTO: u32 = 0xff;
const QFI: u32 = 0xff00;
const QFI_SHIFT: u32 = 8;
/// No flow: identifiers have 6 bits.
const NO_QFI: u8 = 0xff;
const HOST_BITS_SHIFT: u32 = 24;
const PDR_KEY_BYTES: u16 = 16;
const PDR_REMOTE_OFFSET: u64 = 16;
const PDR_ACTION_OFFSET: u64 = 32;
const PDR_ACTION_BYTES: u16 = 24;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct FarLine {
    id: u32,
    action: FarAction,
}

#[derive(Clone, Copy, Debug)]
enum FarAction {
    ToCore,
    ToAccess { peer: Ipv4Addr, teid: u32, qfi: u8 },
    Drop,
    Buffer,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct QerLine {
    /// Uplink, downlink.
    meters: [Meter; 2],
}

/// A gate, and a token bucket in 10^-12 bits; a rate of 0 is no limit.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    bits_per_s: u64,
    tokens: u64,
    at: u64,
    bytes: u32,
    closed: u32,
}

const TOKENS_A_BYTE: u64 = 8 * 1_000_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct UrrLine {
    bytes: [u64; 2],
    packets: [u32; 2],
    first: u64,
    last: u64,
    /// Of the quota.
    left: u64,
    /// 0 for none, as the next.
    volume_threshold: u64,
    time_threshold_s: u32,
    flags: u32,
}

const HAS_QUOTA: u32 = 1;
const USED_UP: u32 = 2;
/// What of a [`UrrLine`] a packet changes.
const URR_STATE_BYTES: u16 = 48;

/// What a filter looks at, and where the packet lies.
#[derive(Clone, Copy, Debug, Default)]
struct Parsed {
    remote: u128,
    ue: u128,
    teid: u32,
    ports: (u16, u16),
    /// Where the user's packet begins.
    at: u32,
    /// Its bytes.
    bytes: u32,
    /// Protocol, QoS flow and bits as in a rule.
    what: u32,
}

/// What is known about a packet between the stages.
#[derive(Clone, Copy)]
enum Fate {
    Drop(DropReason),
    /// To be found in this bucket.
    Uplink(u32),
    Downlink(u32),
    /// The place of its session.
    UplinkOf(u32),
    DownlinkOf(u32),
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

impl Upf {
    /// A function without sessions, with room for `room`.
    ///
    /// # Errors
    /// More than 2^24 sessions or 2^28 rules of a kind.
    pub fn new(spec: &UpfSpec, room: Capacity) -> Result<Upf, FunctionError> {
        let most = [
            ("sessions", room.sessions, 1 << 24),
            ("pdrs", room.pdrs, 1 << 28),
            ("fars", room.fars, 1 << 28),
            ("qers", room.qers, 1 << 28),
            ("urrs", room.urrs, 1 << 28),
            ("buffer", spec.buffer, 1 << 20),
        ];
        if let Some((what, came, most)) = most.into_iter().find(|(_, n, most)| n > most) {
            let allowed = format!("allowed are up to {most}");
            return Err(FunctionError::Value { path: format!("upf.{what}"), came: came.to_string(), allowed });
        }
        Ok(Upf {
            prefetch: spec.prefetch,
            lookup: spec.lookup,
            address: spec.address,
            room,
            rules: Arc::new(Rules {
                teids: Table::new(room.sessions),
                ue_v4: Table::new(room.sessions),
                ue_v6: Table::new(room.sessions),
                sessions: Vec::with_capacity(room.sessions as usize),
                pdrs: Vec::with_capacity(room.pdrs as usize),
                fars: Vec::with_capacity(room.fars as usize),
                free: Free::default(),
                known: HashMap::new(),
            }),
            qers: Vec::with_capacity(room.qers as usize),
            urrs: Vec::with_capacity(room.urrs as usize),
            buffer: vec![None; spec.buffer as usize],
            free_buffers: (0..spec.buffer).rev().collect(),
            reports: Vec::new(),
        })
    }

    /// A function with these sessions, and room for no more.
    ///
    /// # Errors
    /// As [`Upf::new`] and [`Upf::establish`].
    pub fn with_sessions(spec: &UpfSpec, sessions: &[Session]) -> Result<Upf, FunctionError> {
        let mut upf = Upf::new(spec, Capacity::of(sessions))?;
        for session in sessions {
            upf.establish(session)?;
        }
        Ok(upf)
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.rules.known.len()
    }

    /// How many packet detection rules there are, one for each filter.
    pub fn pdrs(&self) -> u64 {
        let rules = &self.rules;
        let of = |known: &Known| rules.sessions[known.at as usize].pdrs.iter().map(|p| u64::from(p.1)).sum::<u64>();
        rules.known.values().map(of).sum()
    }

    /// Takes up a session (PFCP session establishment).
    ///
    /// # Errors
    /// Rules that contradict each other ([`Session::check`]), an identifier or address that another session
    /// has, no room. Nothing has happened then.
    pub fn establish(&mut self, session: &Session) -> Result<(), FunctionError> {
        session.check()?;
        let error = |what: &str, came: String, allowed: &str| {
            let path = format!("session[seid = {}].{what}", session.seid);
            Err(FunctionError::Value { path, came, allowed: allowed.into() })
        };
        let need = Capacity::of(std::slice::from_ref(session));
        let rules = &self.rules;
        if rules.known.contains_key(&session.seid) {
            return error(
                "seid",
                session.seid.to_string(),
                "there is such a session (release it, or number them apart)",
            );
        }
        if rules.teids.get(session.uplink_teid.into()).is_some() {
            return error("uplink_teid", session.uplink_teid.to_string(), "another session has it: give each its own");
        }
        let v4 = session.ue_v4.map(|a| u64::from(u32::from(a)));
        let v6 = session.ue_v6.map(|a| (u128::from(a) >> 64) as u64);
        if let Some(a) = session.ue_v4.filter(|_| v4.is_some_and(|a| rules.ue_v4.get(a).is_some())) {
            return error("ue", a.to_string(), "another session has it: give each its own");
        }
        if let Some(a) = session.ue_v6.filter(|_| v6.is_some_and(|a| rules.ue_v6.get(a).is_some())) {
            return error("ue", a.to_string(), "another session has it: give each its own");
        }
        let fits = |used: usize, free: &HashMap<u32, Vec<u32>>, n: u32, room: u32| {
            n == 0 || free.get(&n).is_some_and(|f| !f.is_empty()) || used as u64 + u64::from(n) <= u64::from(room)
        };
        let lists = expand(session);
        let [up, down] = lists.each_ref().map(|l| l.len() as u32);
        let space = [
            rules.sessions.len() < self.room.sessions as usize || !rules.free.sessions.is_empty(),
            // Two lists, each in a place of its own.
            fits(rules.pdrs.len(), &rules.free.pdrs, up, self.room.pdrs.saturating_sub(down))
                && fits(rules.pdrs.len(), &rules.free.pdrs, down, self.room.pdrs.saturating_sub(up)),
            fits(rules.fars.len(), &rules.free.fars, need.fars, self.room.fars),
            fits(self.qers.len(), &rules.free.qers, need.qers, self.room.qers),
            fits(self.urrs.len(), &rules.free.urrs, need.urrs, self.room.urrs),
        ];
        for (has_room, (what, room)) in space.into_iter().zip([
            ("sessions", self.room.sessions),
            ("pdrs", self.room.pdrs),
            ("fars", self.room.fars),
            ("qers", self.room.qers),
            ("urrs", self.room.urrs),
        ]) {
            if !has_room {
                return error(what, "too many".into(), &format!("there is room for {room} in all (reserve more)"));
            }
        }
        let rules = Arc::make_mut(&mut self.rules);
        let fars = put(&mut rules.fars, &mut rules.free.fars, session.fars.iter().map(FarLine::from));
        let qers = put(&mut self.qers, &mut rules.free.qers, session.qers.iter().map(QerLine::from));
        let urrs = put(&mut self.urrs, &mut rules.free.urrs, session.urrs.iter().map(UrrLine::from));
        let [up, down] = lists.map(|list| {
            let lines = list.iter().map(|(pdr, filter)| PdrLine::new(pdr, filter, session, fars.0, qers.0, urrs.0));
            put(&mut rules.pdrs, &mut rules.free.pdrs, lines)
        });
        let line = SessionLine {
            seid: session.seid,
            ue_v6: v6.unwrap_or(0),
            ue_v4: session.ue_v4.map_or(0, u32::from),
            has: v4.map_or(0, |_| HAS_V4) | v6.map_or(0, |_| HAS_V6),
            pdrs: [up, down],
            uplink_teid: session.uplink_teid,
            fars,
            qers,
        };
        let at = match rules.free.sessions.pop() {
            Some(at) => {
                rules.sessions[at as usize] = line;
                at
            }
            None => {
                rules.sessions.push(line);
                rules.sessions.len() as u32 - 1
            }
        };
        rules.teids.insert(session.uplink_teid.into(), at);
        if let Some(v4) = v4 {
            rules.ue_v4.insert(v4, at);
        }
        if let Some(v6) = v6 {
            rules.ue_v6.insert(v6, at);
        }
        let known = Known {
            at,
            fars: session.fars.iter().map(|f| f.id).collect(),
            urrs: session.urrs.iter().map(|u| u.id).collect(),
            first_urr: urrs.0,
        };
        rules.known.insert(session.seid, known);
        Ok(())
    }

    /// Lets a session go (PFCP session deletion), with what it has buffered. Its usage is reported.
    /// `false` if there is no such session.
    pub fn release(&mut self, seid: u64) -> bool {
        let rules = Arc::make_mut(&mut self.rules);
        let Some(known) = rules.known.remove(&seid) else { return false };
        let at = known.at;
        let line = rules.sessions[at as usize];
        for (&id, place) in known.urrs.iter().zip(known.first_urr as usize..) {
            self.reports.push(self.urrs[place].report(seid, id, Trigger::Release));
        }
        rules.teids.remove(line.uplink_teid.into());
        if line.has & HAS_V4 != 0 {
            rules.ue_v4.remove(line.ue_v4.into());
        }
        if line.has & HAS_V6 != 0 {
            rules.ue_v6.remove(line.ue_v6);
        }
        for (first, n) in line.pdrs {
            give(&mut rules.free.pdrs, first, n);
        }
        give(&mut rules.free.fars, line.fars.0, line.fars.1);
        give(&mut rules.free.qers, line.qers.0, line.qers.1);
        give(&mut rules.free.urrs, known.first_urr, known.urrs.len() as u32);
        rules.sessions[at as usize] = SessionLine::default();
        rules.free.sessions.push(at);
        for (slot, kept) in self.buffer.iter_mut().enumerate() {
            if kept.as_ref().is_some_and(|k| k.session == at) {
                *kept = None;
                self.free_buffers.push(slot as u32);
            }
        }
        true
    }

    /// Changes a forwarding action rule (PFCP session modification), as when a UE becomes idle or comes
    /// back. Packets that were buffered for it and may go now are given back in the order in which they
    /// came, to be processed again; `None` if there is no such session or rule.
    pub fn set_action(&mut self, seid: u64, far: u32, action: Action) -> Option<Vec<Packet>> {
        let known = self.rules.known.get(&seid)?;
        let (at, place) = (known.at, known.fars.iter().position(|id| *id == far)?);
        let rules = Arc::make_mut(&mut self.rules);
        let first = rules.sessions[at as usize].fars.0;
        rules.fars[first as usize + place].action = action.into();
        if action == Action::Buffer {
            return Some(Vec::new());
        }
        let mut kept = Vec::new();
        for (slot, place) in self.buffer.iter_mut().enumerate() {
            if place.as_ref().is_some_and(|k| k.session == at)
                && let Some(k) = place.take()
            {
                kept.push(k.packet);
                self.free_buffers.push(slot as u32);
            }
        }
        kept.sort_by_key(|p| p.id);
        Some(kept)
    }

    /// Usage reports that were triggered since the last call.
    pub fn take_reports(&mut self) -> Vec<UsageReport> {
        std::mem::take(&mut self.reports)
    }

    /// Bytes and packets that a usage reporting rule has counted since its last report, uplink and downlink.
    pub fn usage(&self, seid: u64, urr: u32) -> Option<[Volume; 2]> {
        let known = self.rules.known.get(&seid)?;
        let place = known.urrs.iter().position(|id| *id == urr)?;
        let line = &self.urrs[known.first_urr as usize + place];
        Some([0, 1].map(|i| Volume { bytes: line.bytes[i], packets: line.packets[i].into() }))
    }

    fn stages<const N: usize, P: Probe>(
        &mut self,
        now: Ps,
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
            let mut fates = [Fate::Drop(DropReason::NotIp); N];
            let mut keys = [Parsed::default(); N];
            let mut trail = Trail::<P, N>::new();
            self.parse(rest, &mut fates, &mut keys, &mut trail, &mut tape);
            let n = rest.len().min(N);
            for i in 0..n {
                tape.begin(trail.id(i));
                fates[i] = self.find(fates[i], &keys[i], &mut trail, i, &mut tape);
                tape.end(trail.id(i));
                tape.latch(site::FOUND_LATCH);
            }
            let (packets, after) = rest.split_at_mut(n);
            for (i, packet) in packets.iter_mut().enumerate().take(N) {
                tape.begin(packet.id);
                let verdict = match fates[i] {
                    Fate::UplinkOf(at) => self.apply(now, packet, &keys[i], (at, 0, trail.mark(i)), &mut tape),
                    Fate::DownlinkOf(at) => self.apply(now, packet, &keys[i], (at, 1, trail.mark(i)), &mut tape),
                    Fate::Drop(reason) => Verdict::Drop(reason),
                    Fate::Uplink(_) => Verdict::Drop(DropReason::UnknownTeid),
                    Fate::Downlink(_) => Verdict::Drop(DropReason::UnknownUe),
                };
                out.push(verdict);
                tape.end(packet.id);
                tape.latch(site::DONE_LATCH);
            }
            rest = after;
        }
    }

    #[inline(always)]
    fn parse<const N: usize, P: Probe>(
        &self,
        rest: &[Packet],
        fates: &mut [Fate; N],
        keys: &mut [Parsed; N],
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
            fates[i] = match read(packet, tape) {
                Ok((key, mark)) => {
                    let (table, region, value) = self.table_of(&key);
                    let bucket = table.home(value);
                    if self.prefetch {
                        prefetch(table.address(bucket));
                        let at = bucket as u64 * table::BUCKET_BYTES;
                        let line = Ref::load(region, at, LINE as u16, site::BUCKET_PREFETCH);
                        tape.touch_after(mark, line.with_access(Access::Prefetch));
                    }
                    trail.keep(i, mark);
                    keys[i] = key;
                    let uplink = region == TEIDS;
                    tape.work(site::PARSED, if uplink { cost::UPLINK } else { cost::DOWNLINK });
                    if uplink { Fate::Uplink(bucket as u32) } else { Fate::Downlink(bucket as u32) }
                }
                Err(reason) => {
                    tape.work(site::PARSED, if reason == DropReason::NotIp { cost::NOT_IP } else { cost::BAD });
                    Fate::Drop(reason)
                }
            };
            tape.end(packet.id);
            tape.latch(site::PARSE_LATCH);
        }
    }

    /// The table that has the packet's session, and the key to look for.
    #[inline(always)]
    fn table_of(&self, key: &Parsed) -> (&Table, RegionId, u64) {
        let rules = &*self.rules;
        if key.teid != 0 {
            (&rules.teids, TEIDS, key.teid.into())
        } else if key.what & IS_V4 != 0 {
            (&rules.ue_v4, UE_V4, key.ue as u64)
        } else {
            (&rules.ue_v6, UE_V6, (key.ue >> 64) as u64)
        }
    }

    /// The session of a packet.
    #[inline(always)]
    fn find<const N: usize, P: Probe>(
        &self,
        fate: Fate,
        key: &Parsed,
        trail: &mut Trail<P, N>,
        i: usize,
        tape: &mut Tape<'_, P>,
    ) -> Fate {
        let (uplink, mut bucket) = match fate {
            Fate::Uplink(bucket) => (true, bucket as usize),
            Fate::Downlink(bucket) => (false, bucket as usize),
            other => return other,
        };
        let (table, region, value) = self.table_of(key);
        let from = trail.mark(i);
        // As many buckets as there are at most: a table that is full of others ends there.
        for _ in 0..table.bytes() / table::BUCKET_BYTES {
            let at = bucket as u64 * table::BUCKET_BYTES;
            tape.touch_after(from, Ref::load(region, at, table::VALUE_OFFSET as u16, site::KEYS));
            tape.work(site::KEYS, cost::BUCKET);
            match table.look(bucket, value) {
                Found::Here(slot, session) => {
                    let offset = at + table::VALUE_OFFSET + 4 * slot as u64;
                    let mark = tape.touch_after(from, Ref::load(region, offset, 4, site::VALUE));
                    if self.prefetch
                        && let Some(line) = self.rules.sessions.get(session as usize)
                    {
                        prefetch(std::ptr::from_ref(line).cast::<u8>());
                        let at = u64::from(session) * LINE;
                        let line = Ref::load(SESSIONS, at, LINE as u16, site::SESSION_PREFETCH);
                        tape.touch_after(mark, line.with_access(Access::Prefetch));
                    }
                    trail.keep(i, mark);
                    tape.work(site::FOUND, cost::FOUND);
                    return if uplink { Fate::UplinkOf(session) } else { Fate::DownlinkOf(session) };
                }
                found => {
                    tape.touch_after(from, Ref::load(region, at + table::PASSED_OFFSET, 4, site::PASSED));
                    tape.work(site::PASSED, cost::NOT_FOUND);
                    tape.latch(site::BUCKET_LATCH);
                    if found == Found::Nowhere {
                        break;
                    }
                    bucket = table.next(bucket);
                }
            }
        }
        Fate::Drop(if uplink { DropReason::UnknownTeid } else { DropReason::UnknownUe })
    }

    /// Applies the rules of a session. `way` is 0 for uplink, 1 for downlink.
    #[inline(always)]
    fn apply<P: Probe>(
        &mut self,
        now: Ps,
        packet: &mut Packet,
        key: &Parsed,
        (at, way, from): (u32, usize, Mark),
        tape: &mut Tape<'_, P>,
    ) -> Verdict {
        let rules = &*self.rules;
        let Some(session) = rules.sessions.get(at as usize) else { return Verdict::Drop(DropReason::NoPdr) };
        let here = tape.touch_after(from, Ref::load(SESSIONS, u64::from(at) * LINE, LINE as u16, site::SESSION));
        if way == 0 && !session.is_of(key) {
            tape.work(site::DONE, cost::RULES);
            return Verdict::Drop(DropReason::UeSpoofed);
        }
        let (first, n) = session.pdrs[way];
        let list = rules.pdrs.get(first as usize..(first + n) as usize).unwrap_or_default();
        let mut found = None;
        for (i, pdr) in list.iter().enumerate() {
            let line = u64::from(first + i as u32) * LINE;
            tape.touch_after(here, Ref::load(PDRS, line, PDR_KEY_BYTES, site::PDR));
            if pdr.fits(key) {
                let mut matches = true;
                if pdr.what & HAS_REMOTE != 0 {
                    tape.touch_after(here, Ref::load(PDRS, line + PDR_REMOTE_OFFSET, 16, site::PDR_REMOTE));
                    matches = pdr.reaches(key);
                }
                if matches {
                    tape.work(site::PDR_LATCH, cost::PDR);
                    tape.latch(site::PDR_LATCH);
                    found = Some((pdr, line));
                    break;
                }
            }
            tape.work(site::PDR_LATCH, cost::PDR);
            tape.latch(site::PDR_LATCH);
        }
        let Some((pdr, line)) = found else {
            tape.work(site::DONE, cost::RULES);
            return Verdict::Drop(DropReason::NoPdr);
        };
        let action = Ref::load(PDRS, line + PDR_ACTION_OFFSET, PDR_ACTION_BYTES, site::PDR_ACTION);
        let action = tape.touch_after(here, action);
        let Some(far) = rules.fars.get(pdr.far as usize) else { return Verdict::Drop(DropReason::FarDrop) };
        let far_at = u64::from(pdr.far) * FAR_BYTES;
        tape.touch_after(action, Ref::load(FARS, far_at, FAR_BYTES as u16, site::FAR));
        tape.work(site::FAR, cost::RULES);
        match far.action {
            FarAction::Drop => return Verdict::Drop(DropReason::FarDrop),
            FarAction::Buffer => {
                let Some(slot) = self.free_buffers.pop() else { return Verdict::Drop(DropReason::BufferFull) };
                let data = data_address(tape, site::LEAVE_BUF_ADDR, site::LEAVE_DATA_OFF);
                let bytes = packet.data.len().clamp(1, BUFFER_BYTES as usize) as u16;
                let src = Ref::load(RegionId::PACKET, 0, bytes, site::BUFFER_COPY);
                let dst = Ref::store(BUFFER, u64::from(slot) * BUFFER_BYTES, bytes, site::BUFFER_COPY);
                for (load, store) in CopyLoop::new(src, dst) {
                    let loaded = tape.touch_after(data, load);
                    tape.touch_after(loaded, store);
                }
                self.buffer[slot as usize] = Some(Kept { session: at, packet: packet.clone() });
                tape.work(site::DONE, cost::BUFFERED);
                return Verdict::Drop(DropReason::Buffered);
            }
            FarAction::ToCore | FarAction::ToAccess { .. } => {}
        }
        let (seid, urrs, action_far) = (session.seid, pdr.urrs, far.action);
        for qer_at in pdr.qers {
            let Some(qer) = self.qers.get_mut(qer_at as usize) else { break };
            let line = u64::from(qer_at) * LINE;
            let half = line + 32 * way as u64;
            tape.touch_after(action, Ref::load(QERS, half, 32, site::QER_LOAD));
            let passed = qer.pass(now, way, key.bytes);
            if passed != Err(DropReason::GateClosed) && qer.meters[way].bits_per_s > 0 {
                tape.touch_after(action, Ref::store(QERS, half + 8, 16, site::QER_STORE));
                tape.work(site::QER_STORE, cost::METER);
            }
            tape.work(site::QER_LATCH, cost::QER);
            tape.latch(site::QER_LATCH);
            if let Err(reason) = passed {
                return Verdict::Drop(reason);
            }
        }
        for urr_at in urrs {
            let Some(urr) = self.urrs.get_mut(urr_at as usize) else { break };
            let line = u64::from(urr_at) * LINE;
            tape.touch_after(action, Ref::load(URRS, line, LINE as u16, site::URR_LOAD));
            let counted = urr.count(now, way, key.bytes);
            if counted != Err(DropReason::QuotaExhausted) {
                tape.touch_after(action, Ref::store(URRS, line, URR_STATE_BYTES, site::URR_STORE));
            }
            tape.work(site::URR_LATCH, cost::URR);
            tape.latch(site::URR_LATCH);
            match counted {
                Ok(None) => {}
                Ok(Some(trigger)) => {
                    let id = urr_id(&self.rules, seid, urr_at);
                    self.reports.push(urr.report(seid, id, trigger));
                }
                Err(reason) => return Verdict::Drop(reason),
            }
        }
        leave(packet, key, action_far, self.address, tape)
    }
}

/// A session's rules of each direction by precedence and id, one for each filter.
fn expand(session: &Session) -> [Vec<(&Pdr, SdfFilter)>; 2] {
    let mut order: Vec<&Pdr> = session.pdrs.iter().collect();
    order.sort_by_key(|p| (p.precedence, p.id));
    [Direction::Uplink, Direction::Downlink].map(|direction| {
        let of = order.iter().filter(|p| p.direction == direction);
        of.flat_map(|&p| {
            let all = p.filters.is_empty().then(SdfFilter::default);
            all.into_iter().chain(p.filters.iter().copied()).map(move |f| (p, f))
        })
        .collect()
    })
}

/// Puts lines in a row, where a row of as many is free or at the end.
fn put<T>(lines: &mut Vec<T>, free: &mut HashMap<u32, Vec<u32>>, new: impl ExactSizeIterator<Item = T>) -> (u32, u32) {
    let n = new.len() as u32;
    match free.get_mut(&n).and_then(Vec::pop) {
        Some(first) => {
            for (line, new) in lines[first as usize..].iter_mut().zip(new) {
                *line = new;
            }
            (first, n)
        }
        None => {
            let first = lines.len() as u32;
            lines.extend(new);
            (first, n)
        }
    }
}

fn give(free: &mut HashMap<u32, Vec<u32>>, first: u32, n: u32) {
    if n > 0 {
        free.entry(n).or_default().push(first);
    }
}

/// The id of the usage reporting rule at a place.
#[cold]
fn urr_id(rules: &Rules, seid: u64, at: u32) -> u32 {
    let known = rules.known.get(&seid);
    known.and_then(|k| k.urrs.get(at.checked_sub(k.first_urr)? as usize)).copied().unwrap_or(0)
}

impl SessionLine {
    /// Whether the inner source is the UE's.
    #[inline(always)]
    fn is_of(&self, key: &Parsed) -> bool {
        if key.what & IS_V4 != 0 {
            self.has & HAS_V4 != 0 && key.ue == u128::from(self.ue_v4)
        } else {
            self.has & HAS_V6 != 0 && (key.ue >> 64) as u64 == self.ue_v6
        }
    }
}

impl PdrLine {
    fn new(pdr: &Pdr, filter: &SdfFilter, session: &Session, fars: u32, qers: u32, urrs: u32) -> PdrLine {
        let place = |at: Option<usize>, first: u32| at.map_or(NONE, |at| first + at as u32);
        let qer = |i: usize| place(pdr.qers.get(i).and_then(|id| session.qers.iter().position(|q| q.id == *id)), qers);
        let urr = |i: usize| place(pdr.urrs.get(i).and_then(|id| session.urrs.iter().position(|u| u.id == *id)), urrs);
        let whole = (0, u16::MAX);
        let (remote, host_bits, family, family_mask) = match filter.remote {
            None => (0, 0, 0, 0),
            Some(packet::Prefix::V4 { addr, len }) => (addr.into(), 32 - len, HAS_REMOTE | IS_V4, IS_V4),
            Some(packet::Prefix::V6 { addr, len }) => (addr, 128 - len, HAS_REMOTE, IS_V4),
        };
        let any_ports = filter.remote_ports == whole && filter.ue_ports == whole;
        let ports = if any_ports { 0 } else { HAS_PORTS };
        let qfi = u32::from(pdr.qfi.unwrap_or(0)) << QFI_SHIFT;
        PdrLine {
            remote_ports: filter.remote_ports,
            ue_ports: filter.ue_ports,
            what: u32::from(filter.proto.unwrap_or(0)) | qfi | ports | family | u32::from(host_bits) << HOST_BITS_SHIFT,
            mask: filter.proto.map_or(0, |_| PROTO) | pdr.qfi.map_or(0, |_| QFI) | ports | family_mask,
            remote,
            far: place(session.fars.iter().position(|f| f.id == pdr.far), fars),
            qers: [qer(0), qer(1)],
            id: pdr.id.into(),
            urrs: [urr(0), urr(1)],
            precedence: pdr.precedence,
        }
    }

    /// All but the remote address.
    #[inline(always)]
    fn fits(&self, key: &Parsed) -> bool {
        // Where ports do not matter the ranges are whole.
        let within = |port: u16, (from, to): (u16, u16)| port.wrapping_sub(from) <= to - from;
        (self.what ^ key.what) & self.mask == 0
            && within(key.ports.0, self.remote_ports)
            && within(key.ports.1, self.ue_ports)
    }

    /// Whether the remote address is one of the rule's; families are compared before.
    #[inline(always)]
    fn reaches(&self, key: &Parsed) -> bool {
        let host_bits = self.what >> HOST_BITS_SHIFT;
        if self.what & IS_V4 != 0 {
            (self.remote as u64 ^ key.remote as u64) >> host_bits == 0
        } else {
            (self.remote ^ key.remote).checked_shr(host_bits).unwrap_or(0) == 0
        }
    }
}

impl From<Action> for FarAction {
    fn from(action: Action) -> FarAction {
        match action {
            Action::ToCore => FarAction::ToCore,
            Action::ToAccess { peer, teid, qfi } => FarAction::ToAccess { peer, teid, qfi },
            Action::Drop => FarAction::Drop,
            Action::Buffer => FarAction::Buffer,
        }
    }
}

impl From<&Far> for FarLine {
    fn from(far: &Far) -> FarLine {
        FarLine { id: far.id, action: far.action.into() }
    }
}

impl From<&Qer> for QerLine {
    fn from(qer: &Qer) -> QerLine {
        let meter = |bucket: Option<Bucket>, closed: bool| {
            let Bucket { bits_per_s, bytes } = bucket.unwrap_or(Bucket { bits_per_s: 0, bytes: 0 });
            Meter { bits_per_s, tokens: u64::from(bytes) * TOKENS_A_BYTE, at: 0, bytes, closed: closed.into() }
        };
        QerLine { meters: [meter(qer.uplink, qer.uplink_closed), meter(qer.downlink, qer.downlink_closed)] }
    }
}

impl QerLine {
    #[inline(always)]
    fn pass(&mut self, now: Ps, way: usize, bytes: u32) -> Result<(), DropReason> {
        let meter = &mut self.meters[way];
        if meter.closed != 0 {
            return Err(DropReason::GateClosed);
        }
        if meter.bits_per_s > 0 {
            let full = u64::from(meter.bytes) * TOKENS_A_BYTE;
            let gained = u128::from(now.0.saturating_sub(meter.at)) * u128::from(meter.bits_per_s);
            let tokens = u128::from(meter.tokens) + gained;
            meter.tokens = u64::try_from(tokens).map_or(full, |t| t.min(full));
            meter.at = meter.at.max(now.0);
            let cost = u64::from(bytes) * TOKENS_A_BYTE;
            meter.tokens = meter.tokens.checked_sub(cost).ok_or(DropReason::RateExceeded)?;
        }
        Ok(())
    }
}

impl From<&Urr> for UrrLine {
    fn from(urr: &Urr) -> UrrLine {
        UrrLine {
            volume_threshold: urr.volume_threshold.unwrap_or(0),
            left: urr.volume_quota.unwrap_or(0),
            time_threshold_s: urr.time_threshold_s.unwrap_or(0),
            flags: HAS_QUOTA * u32::from(urr.volume_quota.is_some()),
            ..UrrLine::default()
        }
    }
}

impl UrrLine {
    /// Counts a packet; says what is to be reported.
    #[inline(always)]
    fn count(&mut self, now: Ps, way: usize, bytes: u32) -> Result<Option<Trigger>, DropReason> {
        if self.flags & USED_UP != 0 {
            return Err(DropReason::QuotaExhausted);
        }
        if self.packets == [0, 0] {
            self.first = now.0;
        }
        self.last = now.0;
        self.bytes[way] += u64::from(bytes);
        self.packets[way] = self.packets[way].wrapping_add(1);
        let mut trigger = None;
        if self.volume_threshold > 0 && self.bytes[0] + self.bytes[1] >= self.volume_threshold {
            trigger = Some(Trigger::Volume);
        } else if self.time_threshold_s > 0
            && now.0.saturating_sub(self.first) >= u64::from(self.time_threshold_s) * 1_000_000_000_000
        {
            trigger = Some(Trigger::Time);
        }
        if self.flags & HAS_QUOTA != 0 {
            // The packet that reaches the quota still passes.
            self.left = self.left.saturating_sub(bytes.into());
            if self.left == 0 {
                self.flags |= USED_UP;
                trigger = Some(Trigger::Quota);
            }
        }
        Ok(trigger)
    }

    #[cold]
    fn report(&mut self, seid: u64, urr: u32, trigger: Trigger) -> UsageReport {
        let volume = |i: usize| Volume { bytes: self.bytes[i], packets: self.packets[i].into() };
        let report = UsageReport {
            seid,
            urr,
            trigger,
            uplink: volume(0),
            downlink: volume(1),
            first: Ps(self.first),
            last: Ps(self.last),
        };
        (self.bytes, self.packets) = ([0; 2], [0; 2]);
        report
    }
}

#[inline(always)]
fn data_address<P: Probe>(tape: &mut Tape<'_, P>, buf_addr: u16, data_off: u16) -> Mark {
    tape.touch(Ref::load(RegionId::MBUF, mbuf::BUF_ADDR, 8, buf_addr));
    tape.touch(Ref::load(RegionId::MBUF, mbuf::DATA_OFF, 2, data_off))
}

#[inline(always)]
fn prefetch_header<P: Probe>(packet: &Packet, tape: &mut Tape<'_, P>) {
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
fn read<P: Probe>(packet: &Packet, tape: &mut Tape<'_, P>) -> Result<(Parsed, Mark), DropReason> {
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
    from: Mark,
    tape: &mut Tape<'_, P>,
) -> Result<(Parsed, Mark), DropReason> {
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
    from: Mark,
    (first, rest): (u16, u16),
    tape: &mut Tape<'_, P>,
) -> Result<(Ip, Mark), IpFault> {
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
fn ports<P: Probe>(data: &[u8], ip: &Ip, from: Mark, tape: &mut Tape<'_, P>) -> Result<Option<(u16, u16)>, DropReason> {
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
fn leave<P: Probe>(
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

impl PacketFunction for Upf {
    fn name(&self) -> &'static str {
        "upf"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        let region = |id, name: &str, bytes: u64| RegionSpec {
            id,
            name: name.into(),
            bytes: bytes.max(LINE),
            sharing: Sharing::Shared,
        };
        let (rules, room) = (&self.rules, &self.room);
        vec![
            region(TEIDS, "upf_teid", rules.teids.bytes()),
            region(UE_V4, "upf_ue_v4", rules.ue_v4.bytes()),
            region(UE_V6, "upf_ue_v6", rules.ue_v6.bytes()),
            region(SESSIONS, "upf_sessions", u64::from(room.sessions) * LINE),
            region(PDRS, "upf_pdrs", u64::from(room.pdrs) * LINE),
            region(FARS, "upf_fars", u64::from(room.fars) * FAR_BYTES),
            region(QERS, "upf_qers", u64::from(room.qers) * LINE),
            region(URRS, "upf_urrs", u64::from(room.urrs) * LINE),
            region(BUFFER, "upf_buffer", self.buffer.len() as u64 * BUFFER_BYTES),
        ]
    }

    fn process_burst<P: Probe>(&mut self, now: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        match self.lookup {
            LookupMode::Bulk => self.stages::<BURST, P>(now, burst, probe, out),
            LookupMode::Single => self.stages::<1, P>(now, burst, probe, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_lines() {
        assert_eq!(size_of::<SessionLine>(), 64);
        assert_eq!(size_of::<PdrLine>(), 64);
        assert_eq!(size_of::<QerLine>(), 64);
        assert_eq!(size_of::<UrrLine>(), 64);
        assert_eq!(size_of::<FarLine>() as u64, FAR_BYTES);
        assert_eq!(std::mem::offset_of!(PdrLine, remote) as u64, PDR_REMOTE_OFFSET);
        assert_eq!(std::mem::offset_of!(PdrLine, far) as u64, PDR_ACTION_OFFSET);
    }
}
