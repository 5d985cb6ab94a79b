//! Packets for the study: made traces with the sizes and connections that the paper speaks of, shipped profiles, and
//! captures.
//!
//! **Source** of the made traces: sizes as counted on edge links of that time (40, 552, 576 and 1500 bytes, mean 541;
//! assumed, since the paper's own trace is lost); connections after Cao, Cleveland, Gao, Jeffay, Smith, Weigle,
//! "Stochastic models for generating synthetic HTTP source traffic" (PackMime), INFOCOM 2004, simplified: Poisson
//! starts, lognormal responses, one request each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;

use ::traffic::{Blueprint, Load, SHIPPED_PROFILES, SourceSpec};
use engine::Seed;
use packet::{Packet, internet_checksum};
use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};
use units::{PacketId, PacketRate, Ps};

use sim::ScenarioError;
use sim::scenario::TrafficSpec;

/// Where packets come from.
#[derive(Clone, Debug, PartialEq)]
pub enum PacketTrace {
    /// Independent packets of the sizes of an edge link, each of a flow of its own.
    Edge,
    /// HTTP connections with opening, request, response and close.
    Packmime,
    /// All of this many bytes (the IP packet).
    Fixed(u32),
    /// A shipped profile by name, or a profile's file.
    Profile(String),
    /// A capture.
    Capture(PathBuf),
}

impl PacketTrace {
    /// `edge`, `packmime`, `fixed=64`, the name of a profile or its file (.toml), or a capture's path.
    ///
    /// # Errors
    /// A fixed size that no packet has.
    pub fn parse(text: &str) -> Result<PacketTrace, ScenarioError> {
        Ok(match text {
            "edge" => PacketTrace::Edge,
            "packmime" => PacketTrace::Packmime,
            _ if SHIPPED_PROFILES.iter().any(|(name, _)| *name == text) || text.ends_with(".toml") => {
                PacketTrace::Profile(text.into())
            }
            _ => match text.strip_prefix("fixed=") {
                Some(bytes) => match bytes.parse() {
                    Ok(bytes) if (40..=9000).contains(&bytes) => PacketTrace::Fixed(bytes),
                    _ => return Err(wrong("traffic", text, "fixed= and 40 to 9000 bytes of the IP packet")),
                },
                None => PacketTrace::Capture(text.into()),
            },
        })
    }

    /// `count` packets, or as many as a capture has.
    ///
    /// # Errors
    /// A capture that cannot be read or has no IP packet; no packets asked for.
    pub fn packets(&self, count: usize, seed: u64) -> Result<Vec<Packet>, ScenarioError> {
        check_count(count)?;
        match self {
            PacketTrace::Edge => Ok(edge(count, seed, None)),
            PacketTrace::Fixed(bytes) => Ok(edge(count, seed, Some(*bytes))),
            PacketTrace::Packmime => Ok(packmime(count, seed)),
            PacketTrace::Profile(name) => {
                read(&SourceSpec { profile: Some(name.clone()), ..SourceSpec::default() }, count, seed)
            }
            PacketTrace::Capture(path) => {
                read(&SourceSpec { capture: Some(path.clone()), rounds: Some(1), ..SourceSpec::default() }, count, seed)
            }
        }
    }
}

/// Traffic as it is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NetprocTraffic {
    /// As [`PacketTrace::parse`] takes it.
    Named(String),
    /// The table `[traffic]` of a scenario; its rate does not matter.
    OfScenario(Box<TrafficSpec>),
}

impl NetprocTraffic {
    /// `count` packets, or as many as a capture has.
    ///
    /// # Errors
    /// As [`PacketTrace::parse`] and [`PacketTrace::packets`].
    pub fn packets(&self, count: usize, seed: u64) -> Result<Vec<Packet>, ScenarioError> {
        match self {
            NetprocTraffic::Named(text) => PacketTrace::parse(text)?.packets(count, seed),
            NetprocTraffic::OfScenario(spec) => {
                // A capture is taken once, however often the scenario repeats it.
                let rounds = spec.capture.as_ref().map(|_| 1);
                check_count(count)?;
                read(&SourceSpec { rounds, ..spec.source() }, count, seed)
            }
        }
    }
}

fn check_count(count: usize) -> Result<(), ScenarioError> {
    match count {
        1..=MOST => Ok(()),
        _ => Err(wrong("packets", &count.to_string(), &format!("1 to {MOST}"))),
    }
}

/// Packets that a study may keep in memory.
const MOST: usize = 2_000_000;

pub(super) fn wrong(path: &str, came: &str, allowed: &str) -> ScenarioError {
    let message = format!("{came}: allowed is {allowed}");
    ScenarioError::Value { origin: "netproc".into(), path: path.into(), message }
}

fn read(spec: &SourceSpec, count: usize, seed: u64) -> Result<Vec<Packet>, ScenarioError> {
    let blueprint = Blueprint::new(spec, None)?;
    let mut source = blueprint.source(seed, &Load::Packets(PacketRate::from_mpps(1.0)))?;
    let mut packets = Vec::with_capacity(count.min(1 << 16));
    let mut packet = Packet::default();
    while packets.len() < count && source.next(&mut packet) {
        if ip_bytes(&packet).is_some() {
            packets.push(packet.clone());
        }
    }
    if packets.is_empty() {
        return Err(wrong("traffic", "no IPv4 packet", "a capture with IPv4 packets"));
    }
    Ok(packets)
}

/// Bytes of the IPv4 packet within a frame, by its header.
pub fn ip_bytes(packet: &Packet) -> Option<u32> {
    let at = usize::from(packet.l3_offset);
    let header = packet.data.get(at..at + 20).filter(|_| packet.l3 == packet::L3::V4)?;
    let total = u32::from(u16::from_be_bytes([header[2], header[3]]));
    (20..=packet.frame_bytes.saturating_sub(at as u32)).contains(&total).then_some(total)
}

/// Shares of an edge link: 40 bytes 47.5 %, 80 to 500 8 %, 552 and 576 9 % each, 1500 26.5 %.
fn edge_bytes(rng: &mut impl Rng) -> u32 {
    match rng.random_range(0..1000u32) {
        0..475 => 40,
        475..555 => rng.random_range(80..=500),
        555..645 => 552,
        645..735 => 576,
        _ => 1500,
    }
}

const MEAN_GAP: Ps = Ps(2_000_000);

fn edge(count: usize, seed: u64, fixed: Option<u32>) -> Vec<Packet> {
    let mut rng = Seed(seed).stream("netproc.edge");
    (0..count)
        .map(|i| {
            let (src, dst) = (inside(rng.random()), outside(rng.random()));
            let segment = TcpFields { src, dst, src_port: rng.random_range(1024..=u16::MAX), dst_port: 80, flags: ACK };
            // Both directions of the link alike.
            let segment = if rng.random() { segment } else { segment.back(ACK) };
            let bytes = fixed.unwrap_or_else(|| edge_bytes(&mut rng));
            segment.packet(i as u64, Ps(MEAN_GAP.0 * i as u64), bytes)
        })
        .collect()
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// A client's address: 10/8.
fn inside(random: u32) -> u32 {
    0x0a00_0000 | (random >> 8 & 0x00ff_ffff).max(1)
}

/// A server's address in 16 to 99, whatever else is special.
fn outside(random: u32) -> u32 {
    (16 + (random >> 24) % 84) << 24 | (random & 0x00ff_ffff)
}

/// What a TCP packet says.
#[derive(Clone, Copy, Debug)]
struct TcpFields {
    src: u32,
    dst: u32,
    src_port: u16,
    dst_port: u16,
    flags: u8,
}

impl TcpFields {
    /// As a frame of an IP packet of `bytes`, of which the headers are kept.
    fn packet(&self, id: u64, arrival: Ps, bytes: u32) -> Packet {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        let total = (bytes as u16).to_be_bytes();
        let mut ip = [0x45, 0, total[0], total[1], 0, id as u8, 0x40, 0, 64, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        ip[12..16].copy_from_slice(&self.src.to_be_bytes());
        ip[16..20].copy_from_slice(&self.dst.to_be_bytes());
        let sum = internet_checksum(&ip).to_be_bytes();
        ip[10..12].copy_from_slice(&sum);
        frame.extend_from_slice(&ip);
        frame.extend_from_slice(&self.src_port.to_be_bytes());
        frame.extend_from_slice(&self.dst_port.to_be_bytes());
        frame.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, self.flags, 0xff, 0xff, 0x12, 0x34, 0, 0]);
        let mut packet = Packet { id: PacketId(id), arrival, ..Packet::default() };
        packet.set_frame(&frame, bytes + 14);
        packet
    }

    fn back(&self, flags: u8) -> TcpFields {
        TcpFields { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port, flags }
    }
}

/// The packets of a connection: from the client or not, flags, bytes.
type ConnectionScript = Vec<(bool, u8, u32)>;

/// Connections that are open at a time, on average; assumed.
const OPEN: f64 = 300.0;

/// Connections start at random; each opens, asks with a packet, is answered by as many full packets as a lognormal
/// response takes, every second one acknowledged, and closes. Packets of a connection follow each other at random,
/// a round trip apart where one waits for the other side.
fn packmime(count: usize, seed: u64) -> Vec<Packet> {
    let mut rng = Seed(seed).stream("netproc.packmime");
    let mut uniform = move || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    // By time: connection, and which of its packets is next.
    let mut calendar: BinaryHeap<Reverse<(u64, u64, usize)>> = BinaryHeap::new();
    let mut connections: Vec<(TcpFields, ConnectionScript)> = Vec::new();
    let (mut start, mut id) = (0.0f64, 0u64);
    let mut packets = Vec::with_capacity(count);
    // The mean connection has 15 packets, a mean of 40 ms apart.
    let between = 15.0 * 40e9 / OPEN;
    let mut next_start = 0u64;
    while packets.len() < count {
        while calendar.peek().is_none_or(|Reverse((at, ..))| next_start <= *at) {
            let normal = (-2.0 * (1.0 - uniform()).ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
            // Median 3 KB and sigma 1.5: a mean of 9 KB (INFOCOM 2004, body of the response sizes).
            let response = (8.0 + 1.5 * normal).exp().clamp(100.0, 3e6) as u32;
            let request = 250 + (400.0 * uniform()) as u32;
            let mut script = vec![(true, SYN, 48), (false, SYN | ACK, 48), (true, ACK, 40), (true, ACK, request + 40)];
            for (i, from) in (0..response).step_by(1460).enumerate() {
                script.push((false, ACK, (response - from).min(1460) + 40));
                if i % 2 == 1 {
                    script.push((true, ACK, 40));
                }
            }
            script.extend([(false, FIN | ACK, 40), (true, FIN | ACK, 40), (false, ACK, 40)]);
            let client = inside((uniform() * 4e9) as u32);
            let server = outside((uniform() * 4e9) as u32);
            let src_port = 1024 + (uniform() * 60000.0) as u16;
            let segment = TcpFields { src: client, dst: server, src_port, dst_port: 80, flags: 0 };
            calendar.push(Reverse((next_start, connections.len() as u64, 0)));
            connections.push((segment, script));
            start += -(1.0 - uniform()).ln() * between;
            next_start = start as u64;
        }
        let Some(Reverse((at, number, step))) = calendar.pop() else { break };
        let (segment, script) = &connections[number as usize];
        let (forth, flags, bytes) = script[step];
        let segment = if forth { TcpFields { flags, ..*segment } } else { segment.back(flags) };
        packets.push(segment.packet(id, Ps(at), bytes));
        id += 1;
        if let Some(&(next_forth, ..)) = script.get(step + 1) {
            let gap = if next_forth == forth { 1e9 } else { 60e9 } * -(1.0 - uniform()).ln();
            calendar.push(Reverse((at + gap as u64, number, step + 1)));
        }
    }
    packets
}
