//! From packets to what a network processor's threads do: functions run to their end, and what they touch beyond
//! the packet becomes references to SRAM.

use std::collections::BTreeMap;

use functions::{
    Firewall, FirewallSpec, Forward, ForwardSpec, Function, Nat, NatKey, NatSpec, NextHop, PacketFunction, Template,
    Verdict,
};
use machine::microengines::{NetprocWorkload, Op, PacketWork, ThreadStep};
use packet::{L3, PROTO_ICMP, Packet, Prefix, layers};
use probe::{Access, ProbeEvent, Record, RegionId};
use serde::{Deserialize, Serialize};
use units::PortId;

use super::traffic::ip_bytes;
use sim::ScenarioError;

/// What the processor does to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetprocApplication {
    /// IP forwarding over 16 ports.
    #[default]
    L3fwd16,
    /// Address translation between 2 ports.
    Nat,
    /// A packet filter between 2 ports.
    Firewall,
}

impl NetprocApplication {
    /// Ports of the application (section 5.2).
    pub const fn ports(self) -> u32 {
        match self {
            NetprocApplication::L3fwd16 => 16,
            _ => 2,
        }
    }
}

/// Bytes that a reference to SRAM moves: eight registers of four bytes.
const SRAM_BYTES: u32 = 32;

/// The templates of the firewall where none are given: what an edge keeps out. The paper does not list its own.
const EDGE_TEMPLATES: &[&str] = &[
    "@0.0.0.0/8 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00",
    "@127.0.0.0/8 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00",
    "@169.254.0.0/16 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00",
    "@192.0.2.0/24 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00",
    "@224.0.0.0/4 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00",
    "@0.0.0.0/0 0.0.0.255/32 0 : 65535 0 : 65535 0x00/0x00",
    "@0.0.0.0/0 255.255.255.255/32 0 : 65535 0 : 65535 0x00/0x00",
    "@0.0.0.0/0 0.0.0.0/0 0 : 65535 137 : 139 0x11/0xFF",
    "@0.0.0.0/0 0.0.0.0/0 0 : 65535 135 : 139 0x06/0xFF",
    "@0.0.0.0/0 0.0.0.0/0 0 : 65535 445 : 445 0x06/0xFF",
    "@0.0.0.0/0 0.0.0.0/0 0 : 65535 1434 : 1434 0x11/0xFF",
    "@0.0.0.0/0 0.0.0.0/0 0 : 65535 69 : 69 0x11/0xFF",
    "@0.0.0.0/0 0.0.0.0/0 0 : 65535 111 : 111 0x11/0xFF",
    "@0.0.0.0/0 0.0.0.0/0 0 : 65535 111 : 111 0x06/0xFF",
    "@0.0.0.0/0 0.0.0.0/0 0 : 65535 2049 : 2049 0x11/0xFF",
    "@0.0.0.0/0 0.0.0.0/0 0 : 65535 512 : 514 0x06/0xFF",
];

/// The work of `packets` under `application` with so many `ports`, and a line of what came of them. Routes spread over all
/// ports; the flows of two-sided applications spread over the ports of either side, which are even and odd.
///
/// # Errors
/// A function that cannot be built.
pub fn workload(
    application: NetprocApplication,
    ports: u32,
    packets: &[Packet],
) -> Result<(NetprocWorkload, String), ScenarioError> {
    let mut function = match application {
        NetprocApplication::L3fwd16 => Function::Forward(forward(ports, packets)?),
        NetprocApplication::Nat => Function::Nat(Nat::new(&NatSpec { sessions: 1 << 17, ..NatSpec::default() })?),
        NetprocApplication::Firewall => {
            let templates: Result<Vec<Template>, _> =
                EDGE_TEMPLATES.iter().map(|text| Template::parse(text, false)).collect();
            Function::Firewall(Firewall::new(&templates?, &FirewallSpec::default())?)
        }
    };
    let mut workload = NetprocWorkload::default();
    let mut flows: BTreeMap<(std::net::IpAddr, std::net::IpAddr, u8, u16, u16), u32> = BTreeMap::new();
    let (mut record, mut verdicts, mut burst) = (Record::new(), Vec::new(), [Packet::default()]);
    let (mut skipped, mut dropped) = (0u64, 0u64);
    for packet in packets {
        let (Some(bytes), Ok(layers)) = (ip_bytes(packet), layers(&packet.data)) else {
            skipped += 1;
            continue;
        };
        let key = layers.five_tuple;
        let count = flows.len() as u32;
        let flow = *flows.entry((key.src, key.dst, key.proto, key.src_port, key.dst_port)).or_insert(count);
        burst[0].clone_from(packet);
        // Both directions of a connection come in by different ports: the lower address is inside.
        burst[0].port = PortId(u16::from(application != NetprocApplication::L3fwd16 && key.src > key.dst));
        if let (Function::Nat(nat), true) = (&mut function, burst[0].port.0 == 1) {
            translated(nat, &mut burst[0], &layers);
        }
        record.clear();
        verdicts.clear();
        function.process_burst(packet.arrival, &mut burst, &mut record, &mut verdicts);
        let from = workload.steps.len() as u32;
        steps(&record, microcode(application), &mut workload.steps);
        let port = match verdicts.first() {
            Some(Verdict::Forward { port }) => Some(on(application, ports, port.0, flow)),
            _ => None,
        };
        dropped += u64::from(port.is_none());
        workload.works.push(PacketWork { bytes, flow, port, steps: (from, workload.steps.len() as u32) });
    }
    let note = format!(
        "{} packets of {} flows, {skipped} not IPv4, {dropped} dropped by the function",
        workload.works.len(),
        flows.len()
    );
    Ok((workload, note))
}

/// The port of a packet that a function sends to `port`.
fn on(application: NetprocApplication, ports: u32, port: u16, flow: u32) -> u16 {
    let spread = if application == NetprocApplication::L3fwd16 { 0 } else { flow % (ports / 2).max(1) };
    ((u32::from(port) + 2 * spread) % ports.max(1)) as u16
}

/// A packet from outside comes to the outside address of its session, which has begun before the trace did if
/// the trace has not seen it begin.
fn translated(nat: &mut Nat, packet: &mut Packet, layers: &packet::Layers) {
    let tuple = layers.five_tuple;
    let (std::net::IpAddr::V4(src), std::net::IpAddr::V4(dst), Some(l4)) = (tuple.src, tuple.dst, layers.l4_offset)
    else {
        return;
    };
    let (src_port, dst_port) = match tuple.proto {
        PROTO_ICMP => {
            let id = packet.data.get(usize::from(l4) + 4..).and_then(|rest| rest.first_chunk::<2>());
            let id = u16::from_be_bytes(*id.unwrap_or(&[0; 2]));
            (id, id)
        }
        _ => (tuple.dst_port, tuple.src_port),
    };
    let key = NatKey { src: dst, dst: src, src_port, dst_port, proto: tuple.proto };
    let Some((address, port)) = nat.establish(packet.arrival, &key) else { return };
    let l3 = usize::from(layers.l3_offset);
    if let Some(destination) = packet.data.get_mut(l3 + 16..l3 + 20) {
        destination.copy_from_slice(&address.octets());
    }
    let at = usize::from(l4) + if tuple.proto == PROTO_ICMP { 4 } else { 2 };
    if let Some(word) = packet.data.get_mut(at..at + 2) {
        word.copy_from_slice(&port.to_be_bytes());
    }
}

/// Instructions of a microengine at the places where functions report those of x86-64: assumed, since microcode has the
/// header in registers and checks no bounds. Forwarding has the 32 of the minimal forwarder in SOSP 2001: half for the
/// check of the header, a quarter each for the route and for the rewrite.
const FORWARD_MICROCODE: [(u16, u32); 3] = [(16, 16), (26, 8), (48, 8)];
const NAT_MICROCODE: [(u16, u32); 7] = [(16, 16), (23, 60), (25, 12), (27, 14), (31, 60), (33, 20), (40, 110)];
const FIREWALL_MICROCODE: [(u16, u32); 4] = [(16, 16), (22, 30), (24, 16), (33, 25)];

fn microcode(application: NetprocApplication) -> &'static [(u16, u32)] {
    match application {
        NetprocApplication::L3fwd16 => &FORWARD_MICROCODE,
        NetprocApplication::Nat => &NAT_MICROCODE,
        NetprocApplication::Firewall => &FIREWALL_MICROCODE,
    }
}

/// What a function left, as steps: references to the packet and its mbuf are to registers and FIFOs and take no time
/// beyond the instructions.
/// Instructions are those of `microcode` where that knows the place, and otherwise the function's own.
fn steps(record: &Record, microcode: &[(u16, u32)], out: &mut Vec<ThreadStep>) {
    let mut ticks = 0;
    for event in record.iter() {
        match event {
            ProbeEvent::Work { site, instructions } => {
                ticks += microcode.iter().find(|(at, _)| *at == site).map_or(instructions, |(_, assumed)| *assumed);
            }
            ProbeEvent::Touch(r)
                if r.region != RegionId::PACKET && r.region != RegionId::MBUF && r.access != Access::Prefetch =>
            {
                for _ in 0..u32::from(r.bytes).div_ceil(SRAM_BYTES) {
                    out.push(ThreadStep { ticks: std::mem::take(&mut ticks), op: Op::Sram });
                }
            }
            ProbeEvent::Lock(lock) => out.push(ThreadStep { ticks: std::mem::take(&mut ticks), op: Op::Lock(lock.0) }),
            ProbeEvent::Unlock(lock) => {
                out.push(ThreadStep { ticks: std::mem::take(&mut ticks), op: Op::Unlock(lock.0) })
            }
            _ => {}
        }
    }
    if ticks > 0 {
        out.push(ThreadStep { ticks, op: Op::Compute });
    }
}

/// Routes to the networks of all destinations, spread over the ports.
fn forward(ports: u32, packets: &[Packet]) -> Result<Forward, ScenarioError> {
    let mut routes: BTreeMap<u32, u16> = BTreeMap::new();
    for packet in packets.iter().filter(|packet| packet.l3 == L3::V4) {
        let at = usize::from(packet.l3_offset) + 16;
        if let Some(&[a, b, c, _]) = packet.data.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
            let network = u32::from_be_bytes([a, b, c, 0]);
            routes.insert(network, ((u64::from(network.wrapping_mul(0x9e37_79b1)) * u64::from(ports)) >> 32) as u16);
        }
    }
    let routes = routes.into_iter().map(|(addr, port)| (Prefix::V4 { addr, len: 24 }, NextHop::from(port)));
    // A next hop for each port whatever the destinations are.
    let hops = u16::try_from(ports).unwrap_or(u16::MAX);
    let spare = (0..hops).map(|port| (Prefix::V4 { addr: u32::from(port) << 8, len: 24 }, NextHop::from(port)));
    Ok(Forward::new(spare.chain(routes), hops, &ForwardSpec { prefetch: false, ..ForwardSpec::default() })?)
}
