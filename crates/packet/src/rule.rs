//! Rules over the header fields of IPv4 packets, as filter sets have them.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// What a rule matches: addresses by prefix, ports by range, protocol and flags by value and mask.
///
/// Its text is the form of ClassBench (Taylor and Turner, INFOCOM 2005), with flags or without:
/// `@192.0.2.0/24 198.51.100.0/24 0 : 65535 80 : 80 0x06/0xFF 0x1000/0x1000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Source network and its prefix length.
    pub src: (u32, u8),
    /// Destination network and its prefix length.
    pub dst: (u32, u8),
    /// Source ports, both ends.
    pub src_port: (u16, u16),
    /// Destination ports, both ends.
    pub dst_port: (u16, u16),
    /// Protocol, value and mask.
    pub proto: (u8, u8),
    /// Flags, value and mask. The flags of a TCP header are the upper byte: 0x0200 is SYN, 0x1000 is ACK; of anything
    /// else they are 0.
    pub flags: (u16, u16),
}

/// The fields of a packet that rules look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuleFields {
    /// Source address.
    pub src: u32,
    /// Destination address.
    pub dst: u32,
    /// Source port, 0 where there is none.
    pub src_port: u16,
    /// Destination port, 0 where there is none.
    pub dst_port: u16,
    /// Protocol.
    pub proto: u8,
    /// See [`Rule::flags`].
    pub flags: u16,
}

/// Why a text is not a rule: what came, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{came}`: expected {expected}")]
pub struct RuleError {
    /// What came.
    pub came: String,
    /// What was expected.
    pub expected: &'static str,
}

const FORM: &str = "`@SRC/LEN DST/LEN LOW : HIGH LOW : HIGH PROTO/MASK [FLAGS/MASK]`, as in `@192.0.2.0/24 0.0.0.0/0 0 : 65535 \
                    80 : 80 0x06/0xFF 0x0000/0x0000`";

impl Rule {
    /// The rule that matches every packet.
    pub const ANY: Rule =
        Rule { src: (0, 0), dst: (0, 0), src_port: (0, 65535), dst_port: (0, 65535), proto: (0, 0), flags: (0, 0) };

    /// Whether it matches.
    pub fn matches(&self, fields: &RuleFields) -> bool {
        let within = |(network, len): (u32, u8), addr: u32| (network ^ addr) & mask(len) == 0;
        let between = |(low, high): (u16, u16), port: u16| low <= port && port <= high;
        within(self.src, fields.src)
            && within(self.dst, fields.dst)
            && between(self.src_port, fields.src_port)
            && between(self.dst_port, fields.dst_port)
            && (self.proto.0 ^ fields.proto) & self.proto.1 == 0
            && (self.flags.0 ^ fields.flags) & self.flags.1 == 0
    }
}

/// The mask of a prefix length; lengths over 32 are 32.
const fn mask(len: u8) -> u32 {
    match len {
        0 => 0,
        1..=31 => u32::MAX << (32 - len),
        _ => u32::MAX,
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Rule, RuleError> {
        let text = text.trim();
        let error = |came: &str, expected| RuleError { came: shortened(came), expected };
        let words: Vec<&str> = text.strip_prefix('@').unwrap_or_default().split_whitespace().collect();
        let (&[src, dst, s0, ":", s1, d0, ":", d1, proto], flags) = (match &words[..] {
            [front @ .., flags] if front.len() == 9 => (front, *flags),
            all => (all, "0/0"),
        }) else {
            return Err(error(text, FORM));
        };
        let prefix = |text: &str| {
            let (addr, len) = text.split_once('/')?;
            let addr: Ipv4Addr = addr.parse().ok()?;
            let len: u8 = len.parse().ok().filter(|&len| len <= 32)?;
            Some((u32::from(addr) & mask(len), len))
        };
        let prefix = |text: &str| {
            prefix(text).ok_or_else(|| error(text, "an IPv4 prefix with a length of 0 to 32, as in `192.0.2.0/24`"))
        };
        let range = |low: &str, high: &str| {
            let ends = (low.parse::<u16>().ok(), high.parse::<u16>().ok());
            match ends {
                (Some(low), Some(high)) if low <= high => Ok((low, high)),
                _ => {
                    Err(error(&format!("{low} : {high}"), "two ports of 0 to 65535, the lower first, as in `80 : 443`"))
                }
            }
        };
        let number = |text: &str| match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(hex) => u16::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        };
        let masked = |text: &str| {
            let (value, mask) = text.split_once('/')?;
            let (value, mask) = (number(value)?, number(mask)?);
            Some((value & mask, mask))
        };
        let byte = |(value, mask): (u16, u16)| Some((u8::try_from(value).ok()?, u8::try_from(mask).ok()?));
        Ok(Rule {
            src: prefix(src)?,
            dst: prefix(dst)?,
            src_port: range(s0, s1)?,
            dst_port: range(d0, d1)?,
            proto: masked(proto)
                .and_then(byte)
                .ok_or_else(|| error(proto, "a protocol and its mask, a byte each, as in `0x06/0xFF`"))?,
            flags: masked(flags)
                .ok_or_else(|| error(flags, "flags and their mask, two bytes each, as in `0x1000/0x1000`"))?,
        })
    }
}

/// What came, without the rest of a line that is no rule at all.
fn shortened(came: &str) -> String {
    match came.char_indices().nth(80) {
        Some((end, _)) => format!("{}...", &came[..end]),
        None => came.into(),
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rule { src, dst, src_port, dst_port, proto, flags } = self;
        write!(
            f,
            "@{}/{}\t{}/{}\t{} : {}\t{} : {}\t{:#04x}/{:#04x}\t{:#06x}/{:#06x}",
            Ipv4Addr::from(src.0),
            src.1,
            Ipv4Addr::from(dst.0),
            dst.1,
            src_port.0,
            src_port.1,
            dst_port.0,
            dst_port.1,
            proto.0,
            proto.1,
            flags.0,
            flags.1
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rule_reads_what_it_writes_and_clears_what_does_not_count() {
        let rule: Rule = "@192.0.2.77/24 198.51.100.7/32\t0 : 65535 80 : 443 0x06/0xFF 0x1200/0x1000".parse().unwrap();
        assert_eq!((rule.src, rule.dst), ((0xc000_0200, 24), (0xc633_6407, 32)));
        assert_eq!((rule.src_port, rule.dst_port), ((0, 65535), (80, 443)));
        assert_eq!((rule.proto, rule.flags), ((6, 255), (0x1000, 0x1000)));
        assert_eq!(rule.to_string().parse(), Ok(rule));
        let without: Rule = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00".parse().unwrap();
        assert_eq!(without, Rule::ANY);
    }

    #[test]
    fn a_rule_matches_the_addresses_that_share_its_leading_bits_at_every_length() {
        for len in 0..=32u8 {
            let rule = Rule { src: (0x8000_0001, len), ..Rule::ANY };
            // Addresses that differ in one bit, the first to the last.
            for bit in 0..32 {
                let fields = RuleFields { src: 0x8000_0001 ^ 1 << (31 - bit), ..RuleFields::default() };
                assert_eq!(rule.matches(&fields), bit >= len, "/{len}, bit {bit}");
            }
        }
    }

    #[test]
    fn errors_say_what_came_and_what_was_expected() {
        let error = |text: &str| text.parse::<Rule>().unwrap_err().to_string();
        assert!(error("192.0.2.0/24 0.0.0.0/0").starts_with("`192.0.2.0/24 0.0.0.0/0`: expected `@SRC/LEN DST/LEN"));
        let with = |src: &str, ports: &str, proto: &str, flags: &str| {
            error(&format!("@{src} 0.0.0.0/0 {ports} 0 : 65535 {proto} {flags}"))
        };
        assert!(with("1.2.3.4/33", "0 : 1", "6/255", "").starts_with("`1.2.3.4/33`: expected an IPv4 prefix"));
        assert!(with("1.2.3.4/3", "2 : 1", "6/255", "").starts_with("`2 : 1`: expected two ports"));
        assert!(with("1.2.3.4/3", "0 : 1", "0x106/0xFFF", "").starts_with("`0x106/0xFFF`: expected a protocol"));
        assert!(with("1.2.3.4/3", "0 : 1", "6/255", "0x1").starts_with("`0x1`: expected flags"));
        assert!(error(&"x".repeat(500)).len() < 300);
    }

    #[test]
    fn flags_are_those_of_the_tcp_header_in_the_upper_byte() {
        let established: Rule = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x06/0xFF 0x1000/0x1000".parse().unwrap();
        let fields = |flags: u8| RuleFields { proto: 6, flags: u16::from(flags) << 8, ..RuleFields::default() };
        assert!(established.matches(&fields(0x18)) && !established.matches(&fields(0x02)));
    }

    proptest! {
        #[test]
        fn any_text_is_a_rule_or_an_error(text in "[@0-9./: xXaF\t]{0,80}") {
            if let Ok(rule) = text.parse::<Rule>() {
                prop_assert_eq!(rule.to_string().parse(), Ok(rule));
            }
        }
    }
}
