//! Lines of traces of memory accesses that tools print: valgrind's lackey, and DynamoRIO's view of drmemtrace.
//!
//! A line is told apart, not judged: the readers of requests and of recordings say what they make of it.

use memchr::{memchr, memmem};

pub(crate) const BYTES_AT: &[u8] = b"byte(s) @ 0x";
pub(crate) const BY_PC: &[u8] = b" by PC ";

/// What a line holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessLine {
    /// The tool's own words, or what touches no data.
    Nothing,
    /// An instruction at an address.
    Fetch(u64),
    Load(Touched),
    Store(Touched),
    /// A load and a store of the same bytes.
    Modify(Touched),
}

/// Bytes that are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

/// A line of `--tool=lackey --trace-mem=yes` without white space around it; [`None`] if it is none.
pub(crate) fn lackey(line: &[u8]) -> Option<AccessLine> {
    if line.starts_with(b"==") || line.starts_with(b"--") || line.starts_with(b"**") {
        return Some(AccessLine::Nothing);
    }
    let mut words = words(line);
    let kind = words.next()?;
    let at = words.next()?;
    let comma = memchr(b',', at)?;
    let touched = Touched { address: hex(&at[..comma])?, bytes: decimal(&at[comma + 1..])? };
    match (kind, words.next()) {
        (b"I", None) => Some(AccessLine::Fetch(touched.address)),
        (b"L", None) => Some(AccessLine::Load(touched)),
        (b"S", None) => Some(AccessLine::Store(touched)),
        (b"M", None) => Some(AccessLine::Modify(touched)),
        _ => None,
    }
}

/// A line of drmemtrace's view tool without white space around it; [`None`] if it is none.
pub(crate) fn dynamorio(line: &[u8]) -> Option<AccessLine> {
    let Some(at) = memmem::find(line, BYTES_AT) else {
        let own: [&[u8]; 6] = [b"Output format:", b"---", b"===", b"View tool", b"Warmup", b"Trace"];
        let known = own.iter().any(|start| line.starts_with(start))
            || memchr(b'<', line).is_some()
            || memmem::find(line, b": total ").is_some()
            || is_rest_of_instruction(line);
        return known.then_some(AccessLine::Nothing);
    };
    let address = words(&line[at + BYTES_AT.len()..]).next().and_then(digits::<16>);
    let mut before = line[..at].rsplit(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let bytes = decimal(before.next()?)?;
    match before.next()? {
        b"read" => Some(AccessLine::Load(Touched { address: address?, bytes })),
        b"write" => Some(AccessLine::Store(Touched { address: address?, bytes })),
        b"ifetch" => Some(address.map_or(AccessLine::Nothing, AccessLine::Fetch)),
        kind if memmem::find(kind, b"fetch").is_some() => Some(AccessLine::Nothing),
        kind if memmem::find(kind, b"flush").is_some() => Some(AccessLine::Nothing),
        _ => None,
    }
}

/// Whether a line has nothing but bytes in hex, perhaps behind a record's number, an instruction's and a thread's name: of
/// an instruction of more than eight bytes the view tool prints the others on a line of their own.
fn is_rest_of_instruction(line: &[u8]) -> bool {
    const LONGEST: usize = 15;
    let mut all: Vec<&[u8]> = words(line).take(LONGEST + 4).collect();
    let numbered = all.len() > 3 && decimal(all[0]).is_some() && all[1].strip_suffix(b":").and_then(decimal).is_some();
    if numbered {
        all.drain(..3);
    }
    let is_bytes = |word: &&[u8]| word.len().is_multiple_of(2) && word.iter().all(u8::is_ascii_hexdigit);
    let bytes: usize = all.iter().map(|word| word.len() / 2).sum();
    (1..=LONGEST).contains(&bytes) && all.iter().all(is_bytes)
}

pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// With or without `0x`.
pub(crate) fn hex(word: &[u8]) -> Option<u64> {
    digits::<16>(word.strip_prefix(b"0x").or_else(|| word.strip_prefix(b"0X")).unwrap_or(word))
}

pub(crate) fn decimal(word: &[u8]) -> Option<u64> {
    digits::<10>(word)
}

fn digits<const BASE: u64>(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0u64, |value, &byte| {
        let digit = (byte as char).to_digit(BASE as u32)?;
        value.checked_mul(BASE)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_and_bytes_are_kept() {
        assert_eq!(lackey(b"I  04016b80,3"), Some(AccessLine::Fetch(0x0401_6b80)));
        assert_eq!(lackey(b"M 3000,8"), Some(AccessLine::Modify(Touched { address: 0x3000, bytes: 8 })));
        assert_eq!(lackey(b"**29624** said by the program"), Some(AccessLine::Nothing));
        let read = b"3  1:  2765543 read         8 byte(s) @ 0x00007ffd14a8eb68 by PC 0x404a7e";
        assert_eq!(dynamorio(read), Some(AccessLine::Load(Touched { address: 0x7ffd_14a8_eb68, bytes: 8 })));
        let fetch = b"2  1:  2765543 ifetch       6 byte(s) @ 0x0000000000404a78 0f 84 jz";
        assert_eq!(dynamorio(fetch), Some(AccessLine::Fetch(0x40_4a78)));
    }
}
