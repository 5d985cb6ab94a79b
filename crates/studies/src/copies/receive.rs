//! The receiver's side of TCP/IP: payloads are copied to the application.

use std::collections::HashMap;
use std::path::Path;

use machine::copy_table::CopyMethod;
use packet::{PROTO_TCP, Packet, layers};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traffic::Capture;

use super::cpu::{Cpus, STACK};
use super::{at_least_one, value};
use sim::scenario::ScenarioError;

/// The receiver's side of TCP/IP: the NIC writes a packet, the stack works on its headers, and its
/// payload is copied to the application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReceiveSpec {
    /// The packets.
    pub packets: PacketSizes,
    /// Where the NIC's data are when the stack comes.
    pub nic_data: NicData,
    /// 1: from the NIC's buffer to the application. 2: by way of a socket buffer.
    pub copies: u32,
    /// Whether the application reads what it has got.
    pub reads: bool,
    /// Bytes of one of its loads.
    pub word: u64,
    /// Instructions for each of them.
    pub read_instructions: u64,
    /// Instructions of the stack for a packet.
    pub packet_instructions: u64,
    /// Instructions of the stack for a session.
    pub session_instructions: u64,
    /// Bytes of headers that the stack reads.
    pub header: u64,
    /// Bytes by which a payload's place in a line differs from its target's; 0 where the driver aligns
    /// them. Others the table leaves to software.
    pub offset: u64,
    /// Packets of a session, for packets that come without flows; 0 for a single session. A session has
    /// new buffers.
    pub session_packets: u64,
    /// Buffers of the NIC, 2 KiB each.
    pub nic_slots: u64,
    /// Socket buffers of a session, 2 KiB each.
    pub socket_slots: u64,
    /// Bytes of the application's buffer, used over and over.
    pub application: u64,
}

impl Default for ReceiveSpec {
    fn default() -> ReceiveSpec {
        ReceiveSpec {
            packets: PacketSizes::default(),
            nic_data: NicData::Cached,
            copies: 1,
            reads: false,
            word: 4,
            read_instructions: 4,
            packet_instructions: 1_659,
            session_instructions: 20_000,
            header: 54,
            offset: 0,
            session_packets: 0,
            nic_slots: 256,
            socket_slots: 64,
            application: 64 << 10,
        }
    }
}

/// Where a received packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NicData {
    /// In memory; software reads it through the caches.
    Cached,
    /// In memory that is mapped uncached: software reads 8 bytes at a time from memory.
    Uncached,
    /// In the shared cache, where the NIC puts it.
    Placed,
}

/// Packets: sizes of TCP payloads, by number or from a capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PacketSizes {
    /// How many packets.
    pub packets: u64,
    /// Payload of most of them.
    pub payload: u64,
    /// Share of those.
    pub share: f64,
    /// Payload of the others.
    pub other_payload: u64,
    /// Sizes and flows of the TCP packets of this capture instead.
    pub capture: Option<String>,
}

impl Default for PacketSizes {
    /// A file of 10 MB in 8,418 packets, 92.8 % of them 1,260 B; the others share what is left.
    fn default() -> PacketSizes {
        PacketSizes { packets: 8_418, payload: 1_260, share: 0.928, other_payload: 260, capture: None }
    }
}

/// A received TCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSegment {
    /// Its flow, numbered in order of appearance.
    pub session: u64,
    /// Bytes of its payload.
    pub payload: u64,
}

/// The TCP packets of a capture that carry data.
///
/// # Errors
/// As [`Capture::open`].
pub fn segments(path: impl AsRef<Path>) -> Result<Vec<TcpSegment>, ScenarioError> {
    let mut capture = Capture::open(path)?;
    let mut packet = Packet::default();
    let mut flows = HashMap::new();
    let mut segments = Vec::new();
    while capture.next(&mut packet) {
        let data = &packet.data;
        let Ok(found) = layers(data) else { continue };
        let Some(l4) = found.l4_offset else { continue };
        // A capture of headers may end within the TCP header; 20 bytes are its least.
        let tcp = data.get(usize::from(l4) + 12).map_or(20, |b| u64::from(b >> 4) * 4).max(20);
        let payload = u64::from(packet.frame_bytes).saturating_sub(u64::from(l4) + tcp);
        if found.five_tuple.proto != PROTO_TCP || found.fragment || payload == 0 {
            continue;
        }
        let next = flows.len() as u64;
        let session = *flows.entry(found.five_tuple).or_insert(next);
        segments.push(TcpSegment { session, payload });
    }
    Ok(segments)
}

impl ReceiveSpec {
    fn segments(&self) -> Result<Vec<TcpSegment>, ScenarioError> {
        let PacketSizes { packets, payload, share, other_payload, capture } = &self.packets;
        if let Some(path) = capture {
            let found = segments(path)?;
            if found.is_empty() {
                return Err(value("workload.packets.capture", format!("{path}: no TCP packet with data")));
            }
            return Ok(found);
        }
        if !(0.0..=1.0).contains(share) {
            return Err(value("workload.packets.share", format!("{share}: allowed is 0 to 1")));
        }
        at_least_one("workload.packets.packets", *packets)?;
        let session = |n: u64| n.checked_div(self.session_packets).unwrap_or(0);
        // Spread evenly: the n-th packet is of the common size where n x share passes a whole number.
        let whole = |n: u64| (n as f64 * share) as u64;
        let payload = |n: u64| if whole(n + 1) > whole(n) { *payload } else { *other_payload };
        Ok((0..*packets).map(|n| TcpSegment { session: session(n), payload: payload(n) }).collect())
    }
}

const SLOT: u64 = 2 << 10;
const LARGEST: u64 = 64 << 10;
const NIC: u64 = 0;

pub(super) fn run(spec: &ReceiveSpec, cpus: &mut Cpus) -> Result<u64, ScenarioError> {
    if !(1..=2).contains(&spec.copies) {
        return Err(value("workload.copies", format!("{}: allowed is 1 or 2", spec.copies)));
    }
    let (nic_slots, socket_slots) = (
        at_least_one("workload.nic_slots", spec.nic_slots)?,
        at_least_one("workload.socket_slots", spec.socket_slots)?,
    );
    at_least_one("workload.word", spec.word)?;
    let application = spec.application.max(LARGEST).next_multiple_of(SLOT);
    let segments = spec.segments()?;
    // The first copy from an uncached buffer is by loads around the caches, whoever copies otherwise: a
    // table or an engine works on cached or physical memory.
    let from_nic = match (cpus.method(), spec.nic_data) {
        (CopyMethod::Loads(mut words), NicData::Uncached) => {
            words.uncached_source = true;
            words.word = 8;
            CopyMethod::Loads(words)
        }
        (method, _) => method,
    };
    let socket = NIC + nic_slots * SLOT * 32;
    let session_bytes = socket_slots * SLOT + application;
    // New buffers for a session, out of a pool that is larger than the caches.
    let sessions = (64 << 20) / session_bytes + 1;
    let mut slots: HashMap<u64, u64> = HashMap::new();
    for (n, segment) in segments.iter().enumerate() {
        let payload = segment.payload.min(LARGEST - spec.header);
        let bytes = payload + spec.header;
        // A packet above 2 KiB, an aggregate, takes neighbouring slots.
        let nic = NIC + n as u64 % nic_slots * SLOT;
        cpus.device_write(nic, bytes, spec.nic_data == NicData::Placed);
        let slot = slots.entry(segment.session).or_insert_with(|| u64::MAX);
        if *slot == u64::MAX {
            *slot = 0;
            cpus.execute(0, spec.session_instructions, STACK);
        }
        let seen = *slot;
        *slot += 1;
        if spec.nic_data == NicData::Uncached {
            cpus.read_uncached(0, nic, spec.header);
        } else {
            cpus.read(0, nic, spec.header, 4, 0);
        }
        cpus.execute(0, spec.packet_instructions, STACK);
        let base = socket + segment.session % sessions * session_bytes;
        let app = base + socket_slots * SLOT + seen * SLOT % application;
        let from = nic + spec.offset;
        let mut done = if spec.copies == 2 {
            let buffer = base + seen % socket_slots * SLOT;
            let there = cpus.copy_by(&from_nic, 0, from, buffer, payload);
            cpus.wait(0, there);
            cpus.copy(0, buffer, app, payload)
        } else {
            cpus.copy_by(&from_nic, 0, from, app, payload)
        };
        if spec.reads {
            cpus.wait(0, done);
            cpus.read(0, app, payload, spec.word, spec.read_instructions);
            done = cpus.now(0);
        }
        if n + 1 == segments.len() {
            cpus.wait(0, done);
        }
    }
    Ok(segments.len() as u64)
}
