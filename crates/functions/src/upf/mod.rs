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
//! With a flow table ([`UpfSpec::flow_table`]) a flow that it knows has uplink 30 and downlink 24: of its bucket (3 with the
//! prefetch, of which one is a store of its time), its entry, its session's generation, FAR, QER and URR as above, and
//! none of the session's tables and PDRs. A new flow has 4 more than without a table, one of an older generation 6.
//!
//! **Regions**: `upf_teid`, `upf_ue_v4`, `upf_ue_v6` (hash tables of one-line buckets, twice as many
//! slots as sessions), `upf_sessions` (a line each), `upf_pdrs` (a line each, a session's of one
//! direction next to each other in order of precedence), `upf_fars` (32 bytes each), `upf_qers` and
//! `upf_urrs` (a line each), `upf_buffer` (2048 bytes a packet), all shared by the cores. 20,000
//! sessions of 40 PDRs take 59 MiB of them. Flow tables add `upf_flows`, one for each core, 72 bytes a flow.
//!
//! A burst is worked on in stages over up to 32 packets, so that misses of different packets overlap:
//! parse all, find all sessions (or flows, where there is a table of them), then rules and rewriting.
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

mod control;
mod flows;
mod gtpu;
mod headers;
mod lines;
mod load;
mod naive;
mod rules;
mod sessions;
mod stages;
mod table;

pub use flows::FlowCounters;
pub use gtpu::{GPDU, GTPU_PORT, Gtpu, OUTER_BYTES, PDU_SESSION_CONTAINER, parse as parse_gtpu};
pub use load::SessionLoad;
pub use naive::NaiveUpf;
pub use rules::{Action, Direction, Far, Pdr, PduSession, Qer, SdfFilter, TokenBucket, Urr};
pub use sessions::{SessionFile, parse as parse_sessions};

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use packet::{ETHERNET_HEADER_BYTES, Packet};
use probe::{Probe, RegionId, RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PortId, Ps};

use self::flows::FlowTable;
use self::lines::{FarLine, PdrLine, QerLine, SessionLine, UrrLine};
use self::table::BucketTable;
use crate::{FunctionError, LookupMode, PacketFunction, Verdict};

const TEIDS: RegionId = RegionId(RegionId::FIRST_TABLE.0);
const UE_V4: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 1);
const UE_V6: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 2);
const SESSIONS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 3);
const PDRS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 4);
const FARS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 5);
const QERS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 6);
const URRS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 7);
const BUFFER: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 8);
const FLOWS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 9);

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
    pub(super) const FLOW_TAGS: u16 = 21;
    pub(super) const FLOW_ENTRY: u16 = 22;
    pub(super) const FLOW_GENERATION: u16 = 23;
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
    pub(super) const FLOW_STORE: u16 = 38;
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
    /// Of a flow: its hash, and to look; the entry that has its signature; to keep it in time; to enter it.
    pub(super) const FLOW_HASH: u32 = 60;
    pub(super) const FLOW_TAGS: u32 = 45;
    pub(super) const FLOW_ENTRY: u32 = 45;
    pub(super) const FLOW_KEEP: u32 = 15;
    pub(super) const FLOW_ENTER: u32 = 140;
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
    /// Flows of which each core remembers what rules they have, in a table that is looked at before sessions and rules, up
    /// to 2^22 (UPG-VPP's most, 300 MiB a core); in buckets of 8, of which there is a power of two. 0 for none: every
    /// packet goes through its session's rules.
    #[serde(skip_serializing_if = "is_zero")]
    pub flow_table: u32,
}

impl UpfSpec {
    /// Flows that the table of a core has room for; 0 without one.
    pub fn flow_capacity(&self) -> u64 {
        flows::buckets(self.flow_table) * flows::WAYS as u64
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Default for UpfSpec {
    fn default() -> UpfSpec {
        UpfSpec {
            address: Ipv4Addr::new(192, 168, 252, 3),
            prefetch: true,
            lookup: LookupMode::Bulk,
            buffer: 1024,
            flow_table: 0,
        }
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
    pub fn of(sessions: &[PduSession]) -> Capacity {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
    rules: Arc<UpfRules>,
    qers: Vec<QerLine>,
    urrs: Vec<UrrLine>,
    buffer: Vec<Option<Kept>>,
    free_buffers: Vec<u32>,
    reports: Vec<UsageReport>,
    /// Of each core; empty until it has had a packet.
    flows: Vec<FlowTable>,
    /// Buckets of each; 0 without flow tables.
    flow_buckets: u64,
    core: usize,
}

// Sessions come and go before a simulation begins: what packets only read is as it was built.
state::state!(Upf {
    values: [qers, urrs, buffer, free_buffers, reports, flows, core],
    arrays: [],
    parts: [],
    built: [prefetch, lookup, address, room, rules, flow_buckets],
});

/// What packets only read.
#[derive(Clone, Debug)]
struct UpfRules {
    teids: BucketTable,
    ue_v4: BucketTable,
    ue_v6: BucketTable,
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

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Kept {
    session: u32,
    packet: Packet,
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
            ("flow_table", spec.flow_table, 1 << 22),
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
            rules: Arc::new(UpfRules {
                teids: BucketTable::new(room.sessions),
                ue_v4: BucketTable::new(room.sessions),
                ue_v6: BucketTable::new(room.sessions),
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
            flows: Vec::new(),
            flow_buckets: flows::buckets(spec.flow_table),
            core: 0,
        })
    }

    /// A function with these sessions, and room for no more.
    ///
    /// # Errors
    /// As [`Upf::new`] and [`Upf::establish`].
    pub fn with_sessions(spec: &UpfSpec, sessions: &[PduSession]) -> Result<Upf, FunctionError> {
        let mut upf = Upf::new(spec, Capacity::of(sessions))?;
        for session in sessions {
            upf.establish(session)?;
        }
        Ok(upf)
    }

    /// The core that has the next bursts: each has a flow table of its own. Without a word it is core 0.
    pub fn on_core(&mut self, core: usize) {
        self.core = core;
    }

    /// What the flow tables of all cores have done so far; none without them.
    pub fn flow_counters(&self) -> Option<FlowCounters> {
        let mut all = FlowCounters::default();
        self.flows.iter().for_each(|table| all += table.counters);
        (self.flow_buckets > 0).then_some(all)
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.rules.known.len()
    }

    /// The flow table of the core that has a burst for the first time.
    fn make_flow_table(&mut self) {
        if self.flows.len() <= self.core {
            self.flows.resize_with(self.core + 1, FlowTable::default);
        }
        if self.flows[self.core].buckets() == 0 {
            self.flows[self.core] = FlowTable::new(self.flow_buckets);
        }
    }

    /// How many packet detection rules there are, one for each filter.
    pub fn pdrs(&self) -> u64 {
        let rules = &self.rules;
        let of = |known: &Known| rules.sessions[known.at as usize].pdrs.iter().map(|p| u64::from(p.1)).sum::<u64>();
        rules.known.values().map(of).sum()
    }
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
        let mut regions = vec![
            region(TEIDS, "upf_teid", rules.teids.bytes()),
            region(UE_V4, "upf_ue_v4", rules.ue_v4.bytes()),
            region(UE_V6, "upf_ue_v6", rules.ue_v6.bytes()),
            region(SESSIONS, "upf_sessions", u64::from(room.sessions) * LINE),
            region(PDRS, "upf_pdrs", u64::from(room.pdrs) * LINE),
            region(FARS, "upf_fars", u64::from(room.fars) * FAR_BYTES),
            region(QERS, "upf_qers", u64::from(room.qers) * LINE),
            region(URRS, "upf_urrs", u64::from(room.urrs) * LINE),
            region(BUFFER, "upf_buffer", self.buffer.len() as u64 * BUFFER_BYTES),
        ];
        if self.flow_buckets > 0 {
            let of_core = region(FLOWS, "upf_flows", flows::bytes(self.flow_buckets));
            regions.push(RegionSpec { sharing: Sharing::PerCore, ..of_core });
        }
        regions
    }

    fn process_burst<P: Probe>(&mut self, now: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        if self.flow_buckets > 0 {
            self.make_flow_table();
        }
        match (self.lookup, self.flow_buckets > 0) {
            (LookupMode::Bulk, false) => self.stages::<BURST, 0, P>(now, burst, probe, out),
            (LookupMode::Single, false) => self.stages::<1, 0, P>(now, burst, probe, out),
            (LookupMode::Bulk, true) => self.stages::<BURST, BURST, P>(now, burst, probe, out),
            (LookupMode::Single, true) => self.stages::<1, 1, P>(now, burst, probe, out),
        }
    }
}
