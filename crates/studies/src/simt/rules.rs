//! Rules for classification, and packets that they match.
//!
//! Made rules have the shape of ClassBench's access lists (Taylor and Turner, INFOCOM 2005): mostly long prefixes, destination
//! ports exact or any, source ports any, TCP and UDP. Shares are assumed, since seeds of ClassBench are not ours to ship. A
//! packet is aimed at a rule drawn uniformly, as ClassBench's headers are without locality, and keeps what a rule leaves open.

use packet::{L3, PROTO_TCP, PROTO_UDP, Packet, Rule, internet_checksum};
use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use super::wrong;
use sim::ScenarioError;

/// The rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RulesSpec {
    /// Rules in the form of ClassBench, a line each; else rules are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Rules that are made, or how many of the text are taken.
    pub count: usize,
    /// The share of packets that are aimed at a rule; the others are as the traffic has them.
    pub aimed: f64,
}

impl Default for RulesSpec {
    fn default() -> RulesSpec {
        RulesSpec { text: None, count: 1000, aimed: 0.9 }
    }
}

/// More than anybody searches one by one.
const MOST: usize = 1 << 20;
/// Rules that are tried for a packet: those of another protocol do not fit it.
const TRIES: usize = 8;

impl RulesSpec {
    /// The rules.
    ///
    /// # Errors
    /// A line that is no rule; none, or too many.
    pub fn rules(&self, rng: &mut impl Rng) -> Result<Vec<Rule>, ScenarioError> {
        if !(1..=MOST).contains(&self.count) {
            return Err(wrong("workload.rules.count", self.count, &format!("1 to {MOST}")));
        }
        if !(0.0..=1.0).contains(&self.aimed) {
            return Err(wrong("workload.rules.aimed", self.aimed, "0 to 1"));
        }
        let Some(text) = &self.text else { return Ok((0..self.count).map(|_| make(rng)).collect()) };
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let read = |(n, line): (usize, &str)| {
            line.parse().map_err(|e| wrong(&format!("workload.rules.text:{}", n + 1), e, "a rule of ClassBench a line"))
        };
        let rules: Vec<Rule> = lines.take(self.count).map(read).collect::<Result<_, _>>()?;
        if rules.is_empty() {
            return Err(wrong("workload.rules.text", "no rule", "a rule a line"));
        }
        Ok(rules)
    }

    /// Gives packets the headers of rules.
    pub fn aim(&self, rules: &[Rule], packets: &mut [Packet], rng: &mut impl Rng) {
        for packet in packets {
            if rng.random::<f64>() < self.aimed
                && let Some(proto) = protocol(packet)
            {
                let fits = |rule: &Rule| (rule.proto.0 ^ proto) & rule.proto.1 == 0;
                let drawn = (0..TRIES).map(|_| rules[rng.random_range(0..rules.len())]).find(fits);
                if let Some(rule) = drawn {
                    write(packet, &rule, rng);
                }
            }
        }
    }
}

fn make(rng: &mut impl Rng) -> Rule {
    let any: u32 = rng.random();
    let src = match rng.random_range(0..10) {
        0..2 => 0,
        2..5 => rng.random_range(16..=24),
        _ => rng.random_range(25..=32),
    };
    let dst = match rng.random_range(0..10) {
        0 => 0,
        1..3 => rng.random_range(16..=23),
        _ => rng.random_range(24..=32),
    };
    let network = |addr: u32, len: u8| (addr & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0), len);
    let dst_port = match rng.random_range(0..20) {
        0..6 => (0, 65535),
        6..9 => (1024, 65535),
        _ => {
            let port = rng.random_range(1..10_000);
            (port, port)
        }
    };
    let src_port = if rng.random_range(0..10) == 0 { (1024, 65535) } else { (0, 65535) };
    let proto = match rng.random_range(0..100) {
        0..70 => (PROTO_TCP, 0xff),
        70..90 => (PROTO_UDP, 0xff),
        90..93 => (packet::PROTO_ICMP, 0xff),
        _ => (0, 0),
    };
    Rule { src: network(any, src), dst: network(rng.random(), dst), src_port, dst_port, proto, flags: (0, 0) }
}

/// The protocol of an IPv4 packet with room for ports.
fn protocol(packet: &Packet) -> Option<u8> {
    let header = packet.data.get(usize::from(packet.l3_offset)..).filter(|_| packet.l3 == L3::V4)?;
    let proto = *header.get(9)?;
    let ports = usize::from(header[0] & 15) * 4;
    (matches!(proto, PROTO_TCP | PROTO_UDP) && header.len() >= ports + 4 && ports >= 20).then_some(proto)
}

fn write(packet: &mut Packet, rule: &Rule, rng: &mut impl Rng) {
    let at = usize::from(packet.l3_offset);
    let Some(header) = packet.data.get_mut(at..) else { return };
    let ports = usize::from(header[0] & 15) * 4;
    let mut address = |at: usize, (network, len): (u32, u8)| {
        let own = u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
        header[at..at + 4].copy_from_slice(&(network & mask | own & !mask).to_be_bytes());
    };
    address(12, rule.src);
    address(16, rule.dst);
    for (at, (low, high)) in [(ports, rule.src_port), (ports + 2, rule.dst_port)] {
        let port: u16 = rng.random_range(low..=high);
        header[at..at + 2].copy_from_slice(&port.to_be_bytes());
    }
    header[10..12].fill(0);
    let sum = internet_checksum(&header[..ports]).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Seed;

    #[test]
    fn packets_that_are_aimed_match_a_rule_and_have_a_right_checksum() {
        let mut rng = Seed(4).stream("rules");
        let spec = RulesSpec { aimed: 1.0, count: 100, text: None };
        let rules = spec.rules(&mut rng).unwrap();
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, PROTO_UDP, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7]);
        let sum = internet_checksum(&frame[14..]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame.resize(60, 0);
        let mut packets = vec![Packet::default(); 200];
        packets.iter_mut().for_each(|p| p.set_frame(&frame, 60));
        spec.aim(&rules, &mut packets, &mut rng);
        let matched = packets.iter().filter(|p| {
            let fields = packet::RuleFields {
                src: u32::from_be_bytes(p.data[26..30].try_into().unwrap()),
                dst: u32::from_be_bytes(p.data[30..34].try_into().unwrap()),
                src_port: u16::from_be_bytes([p.data[34], p.data[35]]),
                dst_port: u16::from_be_bytes([p.data[36], p.data[37]]),
                proto: PROTO_UDP,
                flags: 0,
            };
            assert_eq!(internet_checksum(&p.data[14..34]), 0);
            rules.iter().any(|rule| rule.matches(&fields))
        });
        // One in four rules is of UDP or of any protocol; eight tries find one but for one packet in ten.
        assert!((150..=200).contains(&matched.count()));
    }

    #[test]
    fn lines_that_are_no_rules_are_named() {
        let text = "@192.0.2.0/24 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF\n\nnonsense";
        let spec = RulesSpec { text: Some(text.into()), ..RulesSpec::default() };
        let error = spec.rules(&mut Seed(1).stream("rules")).unwrap_err().to_string();
        assert!(error.contains("workload.rules.text:3"), "{error}");
        let spec = RulesSpec { text: Some(text.lines().next().unwrap().into()), ..RulesSpec::default() };
        assert_eq!(spec.rules(&mut Seed(1).stream("rules")).unwrap().len(), 1);
    }
}
