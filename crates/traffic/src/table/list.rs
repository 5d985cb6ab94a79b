//! Text lists: a prefix a line, and after it, if anything, an address or an AS number.
//!
//! `192.0.2.0/24`, `192.0.2.0/24 198.51.100.1`, `192.0.2.0/24<TAB>64500` (the `.dat` files of
//! pyasn), `192.0.2.0/24 AS64500`. Fields are separated by white space, a comma or a bar; `#` and
//! `;` start a comment. An address without a length stands for itself.

use std::net::{IpAddr, Ipv4Addr};

use memchr::memchr;
use packet::Prefix;

use super::{Builder, DamageKind, InputStream, LINES_WITHOUT_PREFIX, MAX_LINE, NextHopClass};
use crate::lines::MOST_SILENT;

pub(super) fn read(input: &mut InputStream, builder: &mut Builder) {
    let (mut number, mut silent) = (0u64, 0u64);
    loop {
        let offset = input.offset();
        let bytes = input.peek(MAX_LINE);
        if bytes.is_empty() {
            return;
        }
        number += 1;
        let end = memchr(b'\n', &bytes[..bytes.len().min(MAX_LINE)]);
        if let (None, true) = (end, bytes.len() >= MAX_LINE) {
            builder
                .damage
                .add(DamageKind::Corrupt, offset, || format!("line {number} is longer than {MAX_LINE} bytes"));
            skip_line(input);
        } else {
            let length = end.unwrap_or(bytes.len());
            let parsed = parse(&bytes[..length]);
            silent = if matches!(parsed, Ok(None)) { silent + 1 } else { 0 };
            match parsed {
                Ok(None) => {}
                Ok(Some((prefix, next_hop))) => builder.add(offset, prefix, next_hop),
                Err(why) => builder.damage.add(DamageKind::Corrupt, offset, || format!("line {number}: {why}")),
            }
            input.consume(length + 1);
        }
        if silent > MOST_SILENT {
            builder.damage.add(DamageKind::Corrupt, offset, || {
                format!("line {number} ends {MOST_SILENT} lines in a row without a prefix: the rest is not read")
            });
        }
        if builder.full.is_some() || silent > MOST_SILENT {
            return;
        }
        if builder.routes.is_empty() && builder.damage.count >= LINES_WITHOUT_PREFIX {
            builder
                .damage
                .add(DamageKind::Corrupt, offset, || "no line so far is a prefix: the rest is not read".into());
            return;
        }
    }
}

fn skip_line(input: &mut InputStream) {
    loop {
        let bytes = input.peek(MAX_LINE);
        if bytes.is_empty() {
            return;
        }
        let end = memchr(b'\n', bytes);
        let step = end.map_or(bytes.len(), |at| at + 1);
        input.consume(step);
        if end.is_some() {
            return;
        }
    }
}

/// A line's route, [`None`] for a blank or comment line, or what is wrong.
fn parse(line: &[u8]) -> Result<Option<(Prefix, Option<NextHopClass>)>, String> {
    let line = match line.iter().position(|b| matches!(b, b'#' | b';')) {
        Some(at) => &line[..at],
        None => line,
    };
    let is_gap = |b: &u8| b.is_ascii_whitespace() || matches!(b, b',' | b'|');
    let mut fields = line.split(is_gap).filter(|f| !f.is_empty());
    let Some(first) = fields.next() else {
        return Ok(None);
    };
    let prefix = match ipv4(first) {
        Some(prefix) => prefix,
        None => shown(first)?.parse().map_err(|e: packet::PrefixError| e.to_string())?,
    };
    let next_hop = match fields.next() {
        None => None,
        Some(field) => Some(next_hop(shown(field)?)?),
    };
    Ok(Some((prefix, next_hop)))
}

fn shown(field: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(field).map_err(|_| format!("{:?} is not text", String::from_utf8_lossy(field)))
}

fn next_hop(field: &str) -> Result<NextHopClass, String> {
    if let Ok(address) = field.parse::<IpAddr>() {
        return Ok(NextHopClass::Address(address));
    }
    // An AS number is 32 bits (RFC 6793); a set of several is written {1,2} or 1_2, the first counts.
    let digits = field.trim_start_matches(['A', 'S', 'a', 's', '{']);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().map(NextHopClass::As).map_err(|_| {
        format!("{field:?} is not a next hop: an address or an AS number can be (for example 198.51.100.1 or 64500)")
    })
}

/// The fast way for what nearly all lines of a full table are. Anything unusual is [`None`].
fn ipv4(field: &[u8]) -> Option<Prefix> {
    let mut addr = [0u8; 4];
    let mut at = 0;
    for (i, byte) in addr.iter_mut().enumerate() {
        let (value, digits) = number(&field[at..])?;
        *byte = value.try_into().ok()?;
        at += digits;
        let separator = *field.get(at)?;
        at += 1;
        if separator != if i < 3 { b'.' } else { b'/' } {
            return None;
        }
    }
    let (len, digits) = number(&field[at..])?;
    (at + digits == field.len()).then_some(())?;
    Prefix::v4(Ipv4Addr::from(addr).into(), len.try_into().ok()?)
}

/// A number of one to three digits without a leading zero, and how many digits.
fn number(bytes: &[u8]) -> Option<(u16, usize)> {
    let digits = bytes.iter().take(3).take_while(|b| b.is_ascii_digit()).count();
    let leading_zero = digits > 1 && bytes[0] == b'0';
    (digits > 0 && !leading_zero).then(|| (bytes[..digits].iter().fold(0, |n, b| n * 10 + u16::from(b - b'0')), digits))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Table;
    use super::*;

    fn table(text: &str) -> Table {
        Table::from_bytes(text.as_bytes().to_vec(), "test").unwrap()
    }

    #[test]
    fn every_form_of_line_is_read() {
        let t = table(
            "; header\n# more\n\n192.0.2.0/24\n198.51.100.0/24 10.0.0.1\n203.0.113.0/24\t64500\r\n\
             2001:db8::/32|AS64501 # why\n10.0.0.1\n100.64.0.0/10,{1,2}",
        );
        let hops: Vec<String> = t
            .routes
            .iter()
            .map(|r| format!("{} {}", r.prefix, r.next_hop.map_or("-".into(), |h| t.next_hops[h as usize].to_string())))
            .collect();
        assert_eq!(
            hops,
            [
                "192.0.2.0/24 -",
                "198.51.100.0/24 10.0.0.1",
                "203.0.113.0/24 AS64500",
                "2001:db8::/32 AS64501",
                "10.0.0.1/32 -",
                "100.64.0.0/10 AS1"
            ]
        );
        assert!(t.damage.is_empty());
    }

    #[test]
    fn bad_lines_are_named_by_number_and_offset_and_the_rest_is_used() {
        let long = "x".repeat(10_000);
        let t = table(&format!("10.0.0.0/8\n10.0.0.0/33\n{long}\n11.0.0.0/8 nobody\n12.0.0.0/8\n"));
        assert_eq!(t.routes.len(), 2);
        let said: Vec<String> = t.damage.first.iter().map(|f| f.to_string()).collect();
        assert_eq!(said[0], "at byte 11: line 2: \"10.0.0.0/33\" has prefix length \"33\": allowed are 0 to 32");
        assert_eq!(said[1], "at byte 23: line 3 is longer than 4096 bytes");
        assert!(said[2].starts_with("at byte 10024: line 4: \"nobody\" is not a next hop"), "{}", said[2]);
    }

    proptest! {
        #[test]
        fn fast_ipv4_matches_naive(text in "[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}/[0-9]{1,3}") {
            if let Some(prefix) = ipv4(text.as_bytes()) {
                prop_assert_eq!(Ok(prefix), text.parse::<Prefix>());
            }
        }

        #[test]
        fn sound_prefixes_take_the_fast_way(addr in any::<u32>(), len in 0..=32u8) {
            let prefix = Prefix::v4(addr, len).unwrap();
            prop_assert_eq!(ipv4(prefix.to_string().as_bytes()), Some(prefix));
        }

        #[test]
        fn any_text_is_a_table_or_an_error(text in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = Table::from_bytes(text, "test");
        }
    }
}
