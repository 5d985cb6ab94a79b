//! Filter sets: rules in the text form of ClassBench, one a line, plain or compressed.
//!
//! A set stands for an experiment, so unlike a capture it is taken as a whole or not at all: the first line that is not
//! a rule is an error with its number. Blank lines, and those that begin with `#` or `;`, are passed over.

use std::io::Cursor;
use std::path::Path;

use packet::{PROTO_TCP, PROTO_UDP, Prefix, Rule};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::error::TrafficError;
use crate::input::{InputStream, Stop};
use crate::lines::Lines;
use crate::table::Table;

/// Services that made rules name: FTP, SSH, SMTP, DNS, HTTP, NTP, IMAP, SNMP, HTTPS, SMB, MS SQL, MySQL, RDP, HTTP of
/// applications.
const SERVICES: [u16; 14] = [21, 22, 25, 53, 80, 123, 143, 161, 443, 445, 1433, 3306, 3389, 8080];
const FORMAT: &str = "ClassBench rules";
/// The largest sets of ClassBench have a hundred thousand.
const MOST_RULES: usize = 1 << 20;

/// A set of rules, the first of which goes first.
#[derive(Clone, Debug)]
pub struct FilterRules {
    /// In their order.
    pub rules: Vec<Rule>,
    /// The BLAKE3 hash of the file, in hex, where one was read.
    pub content: Option<String>,
}

impl FilterRules {
    /// Reads a file, and hashes it; gives up soon after `stop` is set.
    ///
    /// # Errors
    /// A file that cannot be read or has no rule, a line that is not a rule, [`TrafficError::Stopped`].
    pub fn open_until(path: impl AsRef<Path>, stop: &Stop) -> Result<FilterRules, TrafficError> {
        let path = path.as_ref();
        FilterRules::read(InputStream::open_watched(path, stop)?, &path.display().to_string())
    }

    /// As [`FilterRules::open_until`], without end.
    ///
    /// # Errors
    /// As [`FilterRules::open_until`].
    pub fn open(path: impl AsRef<Path>) -> Result<FilterRules, TrafficError> {
        FilterRules::open_until(path, &Stop::new())
    }

    /// Reads from memory; `name` is for messages.
    ///
    /// # Errors
    /// As [`FilterRules::open`].
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<FilterRules, TrafficError> {
        let input = InputStream::new(Box::new(Cursor::new(bytes)))
            .map_err(|source| TrafficError::Open { path: name.into(), source })?;
        FilterRules::read(input, name)
    }

    fn read(mut input: InputStream, name: &str) -> Result<FilterRules, TrafficError> {
        let mut rules = Vec::new();
        let mut lines = Lines::new(&mut input, name);
        while let Some(text) = lines.next_line()? {
            if !text.starts_with(['#', ';']) {
                if rules.len() >= MOST_RULES {
                    return Err(lines.too_much(format!("{MOST_RULES} rules"), "leave out what is never matched"));
                }
                rules.push(text.parse().map_err(|e: packet::RuleError| lines.error(e.came, e.expected))?);
            }
        }
        lines.finish(FORMAT, "rule", rules.is_empty())?;
        Ok(FilterRules { rules, content: input.content()? })
    }

    /// `count` rules for networks of `table`; the same for the same `seed`.
    ///
    /// Made as an access list is written, more specific rules first: a destination network is a prefix of the table or,
    /// one time in two, up to 8 bits more specific; the source is any (one time in three) or another prefix of the table. Of
    /// 20 rules 13 are TCP, 5 UDP, 1 ICMP and 1 of any protocol. TCP and UDP rules name a service as destination port, a range
    /// above 1023 or any port, in 6, 2 and 2 of 10; one TCP rule in ten is for established connections (ACK). These
    /// shares are assumed, after the shapes that Taylor and Turner (INFOCOM 2005, section 3) describe.
    pub fn made(seed: u64, count: usize, table: &Table) -> FilterRules {
        let mut rng = Pcg64::seed_from_u64(seed);
        let networks: Vec<(u32, u8)> = table
            .routes
            .iter()
            .filter_map(|route| match route.prefix {
                Prefix::V4 { addr, len } => Some((addr, len)),
                Prefix::V6 { .. } => None,
            })
            .collect();
        let any = (0, 0);
        let mut rules: Vec<Rule> = (0..count)
            .map(|_| {
                let mut network = |more: u8| {
                    let &(addr, len) = networks.get(rng.random_range(0..networks.len().max(1))).unwrap_or(&any);
                    let longer = (len + rng.random_range(0..=more)).min(32);
                    let addr = addr | rng.random::<u32>() & u32::MAX.checked_shr(len.into()).unwrap_or(0);
                    (addr & u32::MAX.checked_shl(32 - u32::from(longer)).unwrap_or(0), longer)
                };
                let dst = network(8);
                let dst = if dst.1 % 2 == 0 { dst } else { network(0) };
                let src = network(0);
                let src = if rng.random_range(0..3) == 0 { any } else { src };
                let proto = match rng.random_range(0..20) {
                    0..13 => (PROTO_TCP, 0xff),
                    13..18 => (PROTO_UDP, 0xff),
                    18 => (1, 0xff),
                    _ => (0, 0),
                };
                let has_ports = matches!(proto.0, PROTO_TCP | PROTO_UDP);
                let dst_port = match rng.random_range(0..10) {
                    0..6 if has_ports => {
                        let service = SERVICES[rng.random_range(0..SERVICES.len())];
                        (service, service)
                    }
                    6..8 if has_ports => (1024, 65535),
                    _ => (0, 65535),
                };
                let established = proto.0 == PROTO_TCP && rng.random_range(0..10) == 0;
                let flags = if established { (0x1000, 0x1000) } else { (0, 0) };
                Rule { src, dst, src_port: (0, 65535), dst_port, proto, flags }
            })
            .collect();
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.dst.1 + rule.src.1));
        FilterRules { rules, content: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<FilterRules, TrafficError> {
        FilterRules::from_bytes(text.as_bytes().to_vec(), "my.rules")
    }

    #[test]
    fn rules_are_read_in_order_past_comments_and_blank_lines() {
        let line = "@10.0.0.0/8\t192.0.2.1/32\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0200\t\r\n";
        let set = read(&format!("# a comment\n\n{line}; more\n{}", line.replace("10.", "11."))).unwrap();
        assert_eq!(set.rules.len(), 2);
        assert_eq!(set.rules[1].src, (11 << 24, 8));
    }

    #[test]
    fn a_line_that_is_no_rule_is_an_error_with_file_line_and_what_was_expected() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        let good = "@10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF";
        let bad = error(&format!("{good}\n\n{}", good.replace("80 : 80", "81 : 80")));
        assert_eq!(bad, "my.rules:3: `81 : 80`: expected two ports of 0 to 65535, the lower first, as in `80 : 443`");
        assert!(
            error("# only\n").starts_with("my.rules: ClassBench rules with no usable rule"),
            "{}",
            error("# only\n")
        );
        assert!(error(&"@".repeat(5000)).starts_with("my.rules:1: a line of more than 4096 bytes: expected"));
    }

    #[test]
    fn made_rules_are_the_same_for_the_same_seed_and_more_specific_first() {
        let table = Table::synthetic(24, 1000, 4);
        let made = |seed| FilterRules::made(seed, 300, &table).rules;
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
        let bits: Vec<u8> = made(1).iter().map(|rule| rule.src.1 + rule.dst.1).collect();
        assert!(bits.is_sorted_by(|a, b| a >= b));
        let written: String = made(1).iter().map(|rule| format!("{rule}\n")).collect();
        assert_eq!(read(&written).unwrap().rules, made(1));
    }

    /// Every set of the shared data.
    #[test]
    fn published_sets_are_read_to_their_last_rule() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/rules");
        if !folder.is_dir() {
            println!("skipped: {} is not there", folder.display());
            return;
        }
        for (file, count) in [
            ("acl1_1k.rules.gz", 942),
            ("acl1_10k.rules.gz", 9_774),
            ("acl2_10k.rules.gz", 9_476),
            ("fw1_1k.rules.gz", 857),
            ("fw1_10k.rules.gz", 9_379),
            ("ipc1_1k.rules.gz", 974),
            ("ipc1_10k.rules.gz", 9_518),
            ("fw1_large.rules.xz", 58_576),
        ] {
            assert_eq!(FilterRules::open(folder.join(file)).unwrap().rules.len(), count, "{file}");
        }
        // A seed is not a set.
        let error = FilterRules::open(folder.join("openflow_of1_seed.gz")).unwrap_err().to_string();
        assert!(error.contains("of1_seed.gz:1: ") && error.contains("expected `@SRC/LEN"), "{error}");
    }
}
