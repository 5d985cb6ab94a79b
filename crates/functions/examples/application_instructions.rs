//! What the functions of a router execute, for `tests/instructions.rs` to count under valgrind, and what they report to
//! a probe.
//!
//! Usage: `application_instructions null|report|sites FUNCTION+TRAFFIC`. `report` prints the instructions that the
//! function reports, `sites` where it reports how many and how often a packet; `null` prints a digest of verdicts and bytes, and does the work in the function `application_null`. Both
//! print the number of packets first.

use std::collections::BTreeMap;

use functions::classify::RuleSearch;
use functions::firewall::FirewallForm;
use functions::inspect::{Method, Pattern};
use functions::lookup::Structure;
use functions::{
    Chain, ChecksumCheck, Classify, ClassifySpec, Firewall, FirewallSpec, Fragment, FragmentSpec, Function,
    HeaderCheck, Inspect, InspectSpec, Lookup, Nat, NatSpec, NextHop, PacketFunction, Template, Ttl, Verdict,
};
use packet::{Packet, Prefix, Rule, internet_checksum};
use probe::{Count, Null, ProbeEvent, Record};
use units::{PacketId, Ps};

const BURST: usize = 32;
const BURSTS: usize = 16;
const PORTS: u16 = 4;

/// Networks of 16, 24 and 28 bits, and of 32, 48 and 64.
fn routes() -> impl Iterator<Item = (Prefix, NextHop)> {
    let v4 = (0..256u32).flat_map(|i| {
        let net = 20 << 24 | i << 16;
        [(net, 16), (net + 0x100, 24), (net + 0x210, 28)].map(|(addr, len)| (Prefix::V4 { addr, len }, i as u16))
    });
    let v6 = (0..64u128).flat_map(|i| {
        let net = 0x2001_0db8 << 96 | i << 80;
        [(net, 48), (net | 1 << 64, 64)].map(|(addr, len)| (Prefix::V6 { addr, len }, i as u16))
    });
    v4.chain(v6).map(|(prefix, id)| (prefix, NextHop::from(id)))
}

/// Rules for the networks of the routes, of several lengths; the last ones are met by few packets.
fn rules(n: u32) -> Vec<Rule> {
    let rule = |i: u32| Rule {
        src: if i.is_multiple_of(3) { (0, 0) } else { (11 << 24, 8) },
        dst: (20 << 24 | (i * 37 % 256) << 16, 16 + (i % 5) as u8 * 3),
        dst_port: [(80, 80), (443, 443), (0, 65535), (1024, 65535)][i as usize % 4],
        proto: if i.is_multiple_of(7) { (0, 0) } else { (6, 255) },
        ..Rule::ANY
    };
    (0..n).map(rule).collect()
}

fn patterns() -> Vec<Pattern> {
    let mut state = 5u64;
    let mut random = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % n
    };
    (0..2000)
        .map(|_| Pattern {
            bytes: (0..4 + random(20)).map(|_| b"etaoinshrdluETAOIN 0123./=&?"[random(28) as usize]).collect(),
            nocase: random(4) > 0,
        })
        .collect()
}

fn function(name: &str) -> Result<Function, Box<dyn std::error::Error>> {
    let classify = |search| Classify::new(&rules(500), &ClassifySpec { search, drop_unmatched: false }, PORTS);
    let inspect = |method| Inspect::new(&patterns(), &InspectSpec { method, ..InspectSpec::default() }, PORTS);
    let firewall = |form, count| {
        let templates: Result<Vec<_>, _> = rules(count).iter().map(|rule| Template::from_rule(rule, true)).collect();
        Firewall::new(&templates?, &FirewallSpec { form, deny_by_default: false, ports: PORTS })
    };
    Ok(match name {
        "check" => Function::HeaderCheck(HeaderCheck::new(ChecksumCheck::Software, PORTS)),
        "ttl" => Function::Ttl(Ttl::new(PORTS)),
        "dir24" => Function::Lookup(Lookup::new(routes(), PORTS, Structure::Dir24)?),
        "poptrie" => Function::Lookup(Lookup::new(routes(), PORTS, Structure::Poptrie)?),
        "linear" => Function::Classify(classify(RuleSearch::Linear)?),
        "tuples" => Function::Classify(classify(RuleSearch::TupleSpace)?),
        "fragment" => Function::Fragment(Fragment::new(&FragmentSpec { mtu: 576, buffers: 64 }, PORTS)?),
        "automaton" => Function::Inspect(inspect(Method::AhoCorasick)?),
        "bloom" => Function::Inspect(inspect(Method::Bloom)?),
        "nat" => Function::Nat(Nat::new(&NatSpec { sessions: 4096, ..NatSpec::default() })?),
        "few" => Function::Nat(Nat::new(&NatSpec { sessions: 8, ..NatSpec::default() })?),
        "list" => Function::Firewall(firewall(FirewallForm::List, 100)?),
        "compiled" => Function::Firewall(firewall(FirewallForm::Compiled, 100)?),
        "wide" => Function::Firewall(firewall(FirewallForm::Compiled, 500)?),
        "chain" => Function::Chain(Chain::new(
            ["check", "tuples", "poptrie", "ttl"].into_iter().map(function).collect::<Result<_, _>>()?,
        )?),
        other => return Err(format!("{other}: no such function").into()),
    })
}

/// Of `kind`: short TCP, UDP or IPv6, or a payload of words or noise of 1,000 bytes; `flows` is few packets of a flow.
fn frame(kind: &str, i: usize) -> Vec<u8> {
    let n = (i * 37 % 256) as u32;
    let mut frame = vec![2u8; 12];
    if kind == "arp" {
        frame.extend([8, 6]);
        frame.extend([0; 46]);
        return frame;
    }
    if kind.starts_with("v6") {
        let subnet = if kind == "v6_long" { 0x107 } else { 7 };
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 59, 64]);
        frame.extend((0x2a00_u128 << 112).to_be_bytes());
        frame.extend((0x2001_0db8_u128 << 96 | u128::from(n % 64) << 80 | subnet << 64).to_be_bytes());
        frame.extend([0; 20]);
        return frame;
    }
    let net = 20 << 24 | n << 16;
    let dst: u32 = match kind {
        "v4_long" => net + 0x211,
        _ => net + 0x107,
    };
    let flow = if kind == "flows" { i as u16 } else { (i % 64) as u16 };
    let payload: Vec<u8> = match kind {
        "words" => b"the tea on this table is hot and near 1023 /an=do?it& "
            .iter()
            .cycle()
            .skip(i)
            .take(1000)
            .copied()
            .collect(),
        "letters" | "numbers" => {
            let bytes: &[u8] = if kind == "letters" { b"etaoinshrdlu " } else { b"0123./=&?" };
            let random = |k: usize| ((k + i * 1000) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            (0..1000).map(|k| bytes[random(k) as usize % bytes.len()]).collect()
        }
        "noise" => {
            (0..1000u64).map(|k| ((k + i as u64 * 1000).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
        }
        "large" => vec![7; 1460],
        "empty" => Vec::new(),
        _ => vec![0; 12],
    };
    let mut l4 = (1024 + flow).to_be_bytes().to_vec();
    l4.extend([[0, 80], [1, 187], [31, 144]][i % 3]);
    l4.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    l4.extend(payload);
    let options = if kind == "options" { 12 } else { 0 };
    let total = (20 + options + l4.len()) as u16;
    let mut ip = vec![0x45 + (options / 4) as u8, 0, 0, 0, 1, 2, 0, 0, 64, 6, 0, 0, 11, 2, 3, 4];
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip.extend(dst.to_be_bytes());
    ip.extend(vec![1; options]);
    let sum = internet_checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    frame.extend([8, 0]);
    frame.extend(ip);
    frame.extend(l4);
    frame
}

#[unsafe(no_mangle)]
#[inline(never)]
fn application_null(function: &mut Function, burst: &mut [Packet], out: &mut Vec<Verdict>) {
    function.process_burst(Ps::ZERO, burst, &mut Null, out);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: application_instructions null|report|sites FUNCTION+TRAFFIC";
    let [mode, workload] = &args[..] else { return Err(usage.into()) };
    let (name, traffic) = workload.split_once('+').ok_or(usage)?;
    let mut function = function(name)?;
    let make = || -> Vec<Packet> {
        let packet = |i: usize| {
            let kind = match traffic {
                "mixed" => ["v4", "v4", "v4_long", "v6", "arp", "v4", "words", "v4"][i % 8],
                other => other,
            };
            let (frame, mut packet) = (frame(kind, i), Packet { id: PacketId(i as u64), ..Packet::default() });
            packet.set_frame(&frame, frame.len() as u32);
            packet
        };
        // Payloads take long under valgrind.
        let bursts = if matches!(traffic, "words" | "noise" | "letters" | "numbers") { 1 } else { BURSTS };
        (0..BURST * bursts).map(packet).collect()
    };
    let mut out = Vec::with_capacity(BURST * BURSTS);
    // Tables that grow, and memory that is kept, are as they are after a while.
    let mut null = Null;
    make().chunks_mut(BURST).take(2).for_each(|burst| function.process_burst(Ps::ZERO, burst, &mut null, &mut out));
    out.clear();
    let mut packets = make();
    if mode == "null" {
        packets.chunks_mut(BURST).for_each(|burst| application_null(&mut function, burst, &mut out));
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
    } else if mode == "sites" {
        let mut record = Record::new();
        packets.chunks_mut(BURST).for_each(|burst| function.process_burst(Ps::ZERO, burst, &mut record, &mut out));
        let mut times: BTreeMap<(u16, u32), u64> = BTreeMap::new();
        for event in record.iter() {
            if let ProbeEvent::Work { site, instructions } = event {
                *times.entry((site, instructions)).or_default() += 1;
            }
        }
        for ((site, instructions), n) in times {
            println!("{site} {instructions} {}", n as f64 / packets.len() as f64);
        }
    } else {
        let mut count = Count::default();
        packets.chunks_mut(BURST).for_each(|burst| function.process_burst(Ps::ZERO, burst, &mut count, &mut out));
        println!("{} {}", packets.len(), count.instructions);
    }
    Ok(())
}
