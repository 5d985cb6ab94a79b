//! What the user plane function executes, for `tests/instructions.rs` to count under valgrind, and what
//! it reports to a probe.
//!
//! Usage: `upf_instructions null|report WORKLOAD[+single][+no_prefetch][+new_flows|+flows]`: with `flows` flow tables know all
//! packets' flows, with `new_flows` none. `report` prints the
//! instructions that the function reports; `null` prints a digest of verdicts and bytes, and does the
//! work in the function `upf_null`. Both print the number of packets first.

use std::net::Ipv4Addr;

use functions::upf::{Action, Direction, Far, Pdr, PduSession, Qer, SdfFilter, TokenBucket, Urr};
use functions::{LookupMode, PacketFunction, Upf, UpfSpec, Verdict};
use packet::{Packet, internet_checksum};
use probe::{Count, Null};
use units::{PacketId, Ps};

const BURST: usize = 32;
const BURSTS: usize = 64;
const UES: u32 = 1000;
const PAIRS: u16 = 20;

/// The rule that a workload's packets match, of 20.
fn rule_of(workload: &str) -> u16 {
    match workload {
        "uplink_1" | "downlink_1" => 0,
        "uplink_5" | "downlink_5" | "metered" | "downlink_metered" => 4,
        _ => PAIRS - 1,
    }
}

/// By pair of rules; the last one takes every packet. Parsed once, as under valgrind each instruction takes fifty times as long.
fn filters() -> Result<Vec<Vec<SdfFilter>>, String> {
    let filter = |pair: u16| format!("permit out 6 from 100.64.{pair}.0/24 443 to assigned").parse();
    (0..PAIRS).map(|pair| if pair + 1 < PAIRS { Ok(vec![filter(pair)?]) } else { Ok(Vec::new()) }).collect()
}

fn session(ue: u32, workload: &str, filters: &[Vec<SdfFilter>]) -> PduSession {
    let mut pdrs = Vec::new();
    for (pair, filters) in (0..).zip(filters) {
        for direction in [Direction::Uplink, Direction::Downlink] {
            pdrs.push(Pdr {
                id: pdrs.len() as u16 + 1,
                precedence: pair,
                direction,
                filters: filters.clone(),
                qfi: None,
                far: if matches!(workload, "drop" | "downlink_buffered") {
                    3
                } else {
                    1 + u32::from(direction == Direction::Downlink)
                },
                qers: if workload.contains("metered") { vec![1, 2] } else { vec![1] },
                urrs: if workload.contains("metered") { vec![1, 2] } else { vec![1] },
            });
        }
    }
    let peer = Ipv4Addr::new(10, 16, 0, 1);
    let bucket =
        Some(TokenBucket { bits_per_s: 1_000_000_000_000, bytes: 1 << 20 }).filter(|_| workload.contains("metered"));
    PduSession {
        seid: u64::from(ue) + 1,
        ue_v4: Some(Ipv4Addr::from(0x0a40_0000 + ue)),
        ue_v6: None,
        uplink_teid: ue + 1,
        pdrs,
        fars: vec![
            Far { id: 1, action: Action::ToCore },
            Far { id: 2, action: Action::ToAccess { peer, teid: ue + 1, qfi: 9 } },
            Far { id: 3, action: if workload == "downlink_buffered" { Action::Buffer } else { Action::Drop } },
        ],
        qers: (1..3).map(|id| Qer { id, uplink: bucket, downlink: bucket, ..Qer::default() }).collect(),
        urrs: (1..3).map(|id| Urr { id, ..Urr::default() }).collect(),
    }
}

fn ipv4(src: [u8; 4], dst: [u8; 4], proto: u8, payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len() as u16).to_be_bytes();
    let mut out = vec![0x45, 0, total[0], total[1], 0, 1, 0, 0, 64, proto, 0, 0];
    out.extend(src);
    out.extend(dst);
    let sum = internet_checksum(&out).to_be_bytes();
    out[10..12].copy_from_slice(&sum);
    out.extend(payload);
    out
}

fn frame(workload: &str, i: usize) -> Vec<u8> {
    let kind = match workload {
        "mixed" => ["uplink", "downlink", "downlink_5", "downlink", "unknown", "downlink_1", "uplink_5", "arp"][i % 8],
        other => other,
    };
    let ue = (i as u32 * 37) % UES;
    let unknown = if kind == "downlink_unknown" { 1 << 20 } else { 0 };
    let address = (0x0a40_0000 + unknown + ue).to_be_bytes();
    let remote = [100, 64, rule_of(kind) as u8, 7];
    let mut l4 = if kind.starts_with("downlink") { vec![1, 187, 200, 0] } else { vec![200, 0, 1, 187] };
    l4.extend([0; 60]);
    let inner = match kind.starts_with("downlink") {
        true => ipv4(remote, address, 6, &l4),
        false => ipv4(address, remote, 6, &l4),
    };
    let mut frame = vec![2; 12];
    if kind == "arp" {
        frame.extend([8, 6]);
        frame.extend([0; 46]);
        return frame;
    }
    frame.extend([8, 0]);
    if kind.starts_with("downlink") {
        frame.extend(inner);
        return frame;
    }
    let teid = if kind == "unknown" { 0x0100_0000 + ue } else { ue + 1 };
    let mut udp = vec![8, 104, 8, 104];
    udp.extend((inner.len() as u16 + 24).to_be_bytes());
    udp.extend([0, 0, 0x34, 255]);
    udp.extend((inner.len() as u16 + 8).to_be_bytes());
    udp.extend(teid.to_be_bytes());
    udp.extend([0, 0, 0, 0x85, 1, 0x10, 9, 0]);
    udp.extend(inner);
    frame.extend(ipv4([10, 16, 0, 1], [192, 168, 252, 3], 17, &udp));
    frame
}

#[unsafe(no_mangle)]
#[inline(never)]
fn upf_null(upf: &mut Upf, burst: &mut [Packet], out: &mut Vec<Verdict>) {
    upf.process_burst(Ps::ZERO, burst, &mut Null, out);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [mode, workload] = &args[..] else {
        return Err("usage: upf_instructions null|report WORKLOAD[+single][+no_prefetch][+new_flows|+flows]".into());
    };
    let mut options = workload.split('+');
    let workload = options.next().unwrap_or_default();
    let mut is_known = false;
    let mut spec = UpfSpec { buffer: (BURST * BURSTS) as u32, ..UpfSpec::default() };
    for option in options {
        match option {
            "single" => spec.lookup = LookupMode::Single,
            "no_prefetch" => spec.prefetch = false,
            "new_flows" => spec.flow_table = 1 << 16,
            "flows" => (spec.flow_table, is_known) = (1 << 16, true),
            other => return Err(format!("{other}: unknown option").into()),
        }
    }
    let filters = filters()?;
    let sessions: Vec<_> = (0..UES).map(|ue| session(ue, workload, &filters)).collect();
    let mut upf = Upf::with_sessions(&spec, &sessions)?;
    let mut packets: Vec<Packet> = (0..BURST * BURSTS)
        .map(|i| {
            let (frame, mut packet) = (frame(workload, i), Packet { id: PacketId(i as u64), ..Packet::default() });
            // Memory of earlier, longer packets is used again.
            packet.data.reserve(2048);
            packet.set_frame(&frame, frame.len() as u32);
            packet
        })
        .collect();
    let mut out = Vec::with_capacity(packets.len());
    if is_known {
        let mut before = packets.clone();
        before.chunks_mut(BURST).for_each(|burst| upf.process_burst(Ps::ZERO, burst, &mut Null, &mut out));
        out.clear();
    } else if spec.flow_table > 0 {
        // Tables are made with the first burst.
        upf.process_burst(Ps::ZERO, &mut [], &mut Null, &mut out);
        packets.truncate(UES as usize);
    }
    if mode == "null" {
        packets.chunks_mut(BURST).for_each(|burst| upf_null(&mut upf, burst, &mut out));
        let mut hash = 0u64;
        let mut mix = |word: u64| hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        for (packet, verdict) in packets.iter().zip(&out) {
            mix(match verdict {
                Verdict::Forward { port } => u64::from(port.0),
                Verdict::Drop(reason) => 1 << 32 | *reason as u64,
            });
            packet.data.iter().for_each(|&byte| mix(u64::from(byte)));
        }
        println!("{} {hash:016x}", packets.len());
    } else {
        let mut count = Count::default();
        packets.chunks_mut(BURST).for_each(|burst| upf.process_burst(Ps::ZERO, burst, &mut count, &mut out));
        println!("{} {}", packets.len(), count.instructions);
    }
    Ok(())
}
