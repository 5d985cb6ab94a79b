//! The receiver's side of TCP/IP in user space: each segment's payload goes to its session's socket buffer, and from
//! there to the application.
//!
//! **Computes** which session a TCP segment belongs to, copies its payload from the packet into the session's socket
//! buffer, and that into the application's (with `copies = 1` at once into the application's, with `copies = 0` the
//! application reads the packet itself). Bytes are really
//! copied. Forwarding follows, as in a proxy that looks at what it relays; other packets are only forwarded.
//!
//! **References per segment**, besides forwarding's: 2 mbuf loads, 1 load of the headers (up to 64 bytes), 1 load and
//! 1 store of the session (64 bytes); up to two copies of the payload (a load and a store for each line of 64 bytes,
//! where no copy engine takes it); with `reads` a load for each line that the application reads. Other packets: the
//! mbuf loads and the headers.
//!
//! **Regions**: sessions (64 bytes each), socket buffers and application buffers, shared by the cores.
//!
//! A session is a direction of a flow that carries data. One that begins, because the flow is new or because the session
//! before has had its `session_packets`, replaces the one that has begun before all others and takes its buffers, so
//! short sessions find cold ones.
//!
//! Left out: acknowledgements, retransmissions, order of segments, windows, and the queue between socket and
//! application: what arrives is read at once, by the core that has received it. Instructions are assumed.
//!
//! **Source**: Duarte and Wong, IEEE TC 2010, section 5.1.2 (the workload); Stevens, "TCP/IP Illustrated", volume 2,
//! chapter 16 (socket buffers).
//!
//! **See also** `vhost`.

use std::collections::HashMap;

use packet::{FiveTuple, PROTO_TCP, Packet, layers};
use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{LINE_BYTES, Ps, Size};

use crate::check::mbuf;
use crate::{Forward, FunctionError, PacketFunction, Verdict};

/// Behind those of forwarding.
const SESSIONS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 8);
const SOCKETS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 9);
const APPLICATION: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 10);

const SESSION_BYTES: u64 = 64;
/// The longest payload that is copied: a frame of 16 KiB.
const MOST_BYTES: u64 = 16 << 10;

/// Places of references, in program order.
mod site {
    pub(super) const BUF_ADDR: u16 = 0;
    pub(super) const DATA_OFF: u16 = 1;
    pub(super) const HEADERS: u16 = 2;
    pub(super) const SESSION: u16 = 3;
    pub(super) const UPDATE: u16 = 4;
    pub(super) const FROM_PACKET: u16 = 5;
    pub(super) const TO_BUFFER: u16 = 6;
    pub(super) const FROM_SOCKET: u16 = 7;
    pub(super) const TO_APPLICATION: u16 = 8;
    pub(super) const READ: u16 = 9;
    pub(super) const LATCH: u16 = 10;
}

/// Instructions, assumed: see the module header.
mod cost {
    /// Of a packet that is no segment with data.
    pub(super) const OTHER: u32 = 60;
    /// Two loads and two stores of 32 bytes, and the loop's two.
    pub(super) const COPIED_LINE: u32 = 6;
    pub(super) const READ_LINE: u32 = 4;
}

/// How segments reach the application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SocketSpec {
    /// Copies of a payload: 2, by way of the socket buffer, 1, from the packet to the application, or 0: the application reads
    /// the packet where the NIC has put it.
    pub copies: u32,
    /// Whether the application reads what it gets, on the same core.
    pub reads: bool,
    /// Sessions at a time, each with its buffers; 1 to 65536. More flows than that begin a session again and again.
    pub sessions: u32,
    /// Segments of a session, after which its flow begins another; 0 for all of a flow.
    pub session_packets: u32,
    /// Bytes of a socket buffer: a multiple of 64, 32 KiB to 16 MiB.
    pub socket: Size,
    /// Bytes of a session's buffer in the application: likewise.
    pub application: Size,
    /// Whether buffers take a payload at the place in a line at which it lies in the packet, which a copy table needs.
    /// Otherwise one follows the other without a gap, as in a stream.
    pub aligned: bool,
    /// Instructions of a segment, besides copies; up to 1000000.
    pub packet_instructions: u32,
    /// Instructions of a session's beginning; up to 1000000.
    pub session_instructions: u32,
}

impl Default for SocketSpec {
    fn default() -> SocketSpec {
        SocketSpec {
            copies: 2,
            reads: true,
            sessions: 256,
            session_packets: 0,
            socket: Size::from_bytes(64 << 10),
            application: Size::from_bytes(64 << 10),
            aligned: true,
            // Assumed: of the order of a stack in user space.
            packet_instructions: 1_500,
            session_instructions: 20_000,
        }
    }
}

impl SocketSpec {
    /// Checks the ranges. `path` is where the specification stands in the scenario.
    ///
    /// # Errors
    /// A value outside its range.
    pub fn check(&self, path: &str) -> Result<(), FunctionError> {
        let error = |field: &str, came: String, allowed: &str| {
            Err(FunctionError::Value { path: format!("{path}.{field}"), came, allowed: allowed.into() })
        };
        if self.copies > 2 {
            return error("copies", self.copies.to_string(), "allowed are 0, 1 and 2");
        }
        if !(1..=1 << 16).contains(&self.sessions) {
            return error("sessions", self.sessions.to_string(), "allowed are 1 to 65536");
        }
        for (field, size) in [("socket", self.socket), ("application", self.application)] {
            let bytes = size.bytes();
            if !(2 * MOST_BYTES..=1 << 24).contains(&bytes) || !bytes.is_multiple_of(LINE_BYTES) {
                return error(field, size.to_string(), "allowed is a multiple of 64 B from 32 KiB to 16 MiB");
            }
        }
        let buffers = u64::from(self.sessions) * (self.socket.bytes() + self.application.bytes());
        if buffers > MOST_BUFFERS {
            let came = format!("{} with {} and {} each", self.sessions, self.socket, self.application);
            return error("sessions", came, "allowed are 1 GiB of buffers in all");
        }
        for (field, n) in
            [("packet_instructions", self.packet_instructions), ("session_instructions", self.session_instructions)]
        {
            if n > 1_000_000 {
                return error(field, n.to_string(), "allowed are 0 to 1000000");
            }
        }
        Ok(())
    }
}

const MOST_BUFFERS: u64 = 1 << 30;

/// A session, or room for one; its buffers are those of the same number.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
struct SocketSession {
    flow: Option<FiveTuple>,
    segments: u32,
    /// Where the next payload goes, in the socket buffer and in the application's.
    socket: u64,
    application: u64,
}

/// Receives, then forwards. See the module header.
#[derive(Clone, Debug)]
pub struct Socket {
    forward: Forward,
    spec: SocketSpec,
    sessions: Vec<SocketSession>,
    /// Which session a flow has.
    of_flow: HashMap<FiveTuple, u32>,
    /// The session that the next one replaces: it has begun before all others.
    next: u32,
    /// The buffers, one after the other.
    sockets: Vec<u8>,
    application: Vec<u8>,
}

state::state!(Socket {
    values: [next],
    arrays: [sessions, sockets, application],
    parts: [of_flow],
    built: [forward, spec],
});

/// The payload of a TCP segment: where it begins in the frame, and its bytes.
fn payload(packet: &Packet) -> Option<(FiveTuple, u64, u64)> {
    let found = layers(&packet.data).ok()?;
    if found.five_tuple.proto != PROTO_TCP || found.fragment {
        return None;
    }
    let l4 = u64::from(found.l4_offset?);
    // Without that byte in the capture the header is taken to have no options.
    let header = packet.data.get(l4 as usize + 12).map_or(20, |byte| u64::from(byte >> 4) * 4).max(20);
    let bytes = u64::from(packet.frame_bytes).saturating_sub(l4 + header).min(MOST_BYTES);
    (bytes > 0).then_some((found.five_tuple, l4 + header, bytes))
}

/// Where the next `bytes` bytes go in a buffer of `size` bytes whose free part begins at `from`: at `phase` of a line
/// if there is one.
fn place(from: u64, bytes: u64, size: u64, phase: Option<u64>) -> u64 {
    let fit = |from: u64| match phase {
        Some(phase) if from % LINE_BYTES > phase => from.next_multiple_of(LINE_BYTES) + phase,
        Some(phase) => from / LINE_BYTES * LINE_BYTES + phase,
        None => from,
    };
    if fit(from) + bytes <= size { fit(from) } else { fit(0) }
}

impl Socket {
    /// Receives as `spec` has it before `forward`.
    ///
    /// # Errors
    /// A value of `spec` outside its range.
    pub fn new(spec: &SocketSpec, forward: Forward) -> Result<Socket, FunctionError> {
        spec.check("function.socket")?;
        let n = spec.sessions as usize;
        let sockets = if spec.copies == 2 { vec![0; n * spec.socket.bytes() as usize] } else { Vec::new() };
        let application = vec![0; n * spec.application.bytes() as usize];
        Ok(Socket {
            forward,
            spec: spec.clone(),
            sessions: vec![SocketSession::default(); n],
            of_flow: HashMap::new(),
            next: 0,
            sockets,
            application,
        })
    }

    /// The application's buffers, one after the other.
    pub fn application(&self) -> &[u8] {
        &self.application
    }

    /// The number of `flow`'s session, and whether it begins now.
    fn session(&mut self, flow: FiveTuple) -> (u32, bool) {
        let most = self.spec.session_packets;
        if let Some(&at) = self.of_flow.get(&flow)
            && (most == 0 || self.sessions[at as usize].segments < most)
        {
            self.sessions[at as usize].segments += 1;
            return (at, false);
        }
        let at = self.next;
        self.next = (self.next + 1) % self.spec.sessions;
        let session = &mut self.sessions[at as usize];
        // Its flow may have begun another since.
        if let Some(old) = session.flow
            && self.of_flow.get(&old) == Some(&at)
        {
            self.of_flow.remove(&old);
        }
        self.of_flow.insert(flow, at);
        *session = SocketSession { flow: Some(flow), segments: 1, ..SocketSession::default() };
        (at, true)
    }

    fn receive<P: Probe>(&mut self, packet: &Packet, probe: &mut P) {
        probe.begin(packet.id);
        probe.touch(Ref::load(RegionId::MBUF, mbuf::BUF_ADDR, 8, site::BUF_ADDR));
        probe.touch(Ref::load(RegionId::MBUF, mbuf::DATA_OFF, 2, site::DATA_OFF));
        let headers = u64::from(packet.frame_bytes).clamp(1, LINE_BYTES) as u16;
        probe.touch(Ref::load(RegionId::PACKET, 0, headers, site::HEADERS).after(1));
        match payload(packet) {
            Some((flow, start, bytes)) => self.deliver(packet, flow, start, bytes, probe),
            None => probe.work(site::HEADERS, cost::OTHER),
        }
        probe.end(packet.id);
        probe.latch(site::LATCH);
    }

    fn deliver<P: Probe>(&mut self, packet: &Packet, flow: FiveTuple, start: u64, bytes: u64, probe: &mut P) {
        let (at, begins) = self.session(flow);
        let spec = &self.spec;
        let session = &mut self.sessions[at as usize];
        let phase = spec.aligned.then_some(start % LINE_BYTES);
        let buffers = u64::from(at);
        let at = buffers * SESSION_BYTES;
        probe.touch(Ref::load(SESSIONS, at, SESSION_BYTES as u16, site::SESSION).after(1));
        probe.touch(Ref::store(SESSIONS, at, SESSION_BYTES as u16, site::UPDATE).after(1));
        let begin = if begins { spec.session_instructions } else { 0 };
        probe.work(site::UPDATE, spec.packet_instructions + begin);

        // A capture may have kept less than the frame.
        let end = (packet.data.len() as u64).min(start + bytes);
        let kept = packet.data.get(start as usize..end as usize).unwrap_or_default();
        let from_packet = Ref::load(RegionId::PACKET, start, bytes as u16, site::FROM_PACKET);
        session.application = place(session.application, bytes, spec.application.bytes(), phase);
        let application = buffers * spec.application.bytes() + session.application;
        session.application += bytes;
        if spec.copies == 2 {
            session.socket = place(session.socket, bytes, spec.socket.bytes(), phase);
            let socket = buffers * spec.socket.bytes() + session.socket;
            session.socket += bytes;
            self.sockets[socket as usize..][..kept.len()].copy_from_slice(kept);
            self.application[application as usize..][..kept.len()]
                .copy_from_slice(&self.sockets[socket as usize..][..kept.len()]);
            probe.copy(from_packet, Ref::store(SOCKETS, socket, bytes as u16, site::TO_BUFFER));
            probe.copy(
                Ref::load(SOCKETS, socket, bytes as u16, site::FROM_SOCKET),
                Ref::store(APPLICATION, application, bytes as u16, site::TO_APPLICATION),
            );
        } else if spec.copies == 1 {
            self.application[application as usize..][..kept.len()].copy_from_slice(kept);
            probe.copy(from_packet, Ref::store(APPLICATION, application, bytes as u16, site::TO_BUFFER));
        }
        let lines = bytes.div_ceil(LINE_BYTES) as u32;
        probe.work(site::TO_APPLICATION, spec.copies * lines * cost::COPIED_LINE);
        if spec.reads {
            let (region, first) = if spec.copies == 0 { (RegionId::PACKET, start) } else { (APPLICATION, application) };
            let (mut at, end) = (first, first + bytes);
            while at < end {
                let next = ((at / LINE_BYTES + 1) * LINE_BYTES).min(end);
                probe.touch(Ref::load(region, at, (next - at) as u16, site::READ));
                at = next;
            }
            probe.work(site::READ, lines * cost::READ_LINE);
        }
    }
}

impl PacketFunction for Socket {
    fn name(&self) -> &'static str {
        "socket"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        let n = u64::from(self.spec.sessions);
        let region = |id, name: &str, bytes| RegionSpec { id, name: name.into(), bytes, sharing: Sharing::Shared };
        let mut regions = self.forward.regions();
        regions.push(region(SESSIONS, "sessions", n * SESSION_BYTES));
        if self.spec.copies == 2 {
            regions.push(region(SOCKETS, "socket buffers", n * self.spec.socket.bytes()));
        }
        regions.push(region(APPLICATION, "application buffers", n * self.spec.application.bytes()));
        regions
    }

    fn process_burst<P: Probe>(&mut self, now: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        for packet in burst.iter() {
            self.receive(packet, probe);
        }
        self.forward.process_burst(now, burst, probe, out);
    }
}
