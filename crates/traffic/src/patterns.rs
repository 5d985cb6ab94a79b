//! Strings to look for in payloads: a table with a header line, a string a line, plain or compressed.
//!
//! Columns are separated by tabs: `sid enabled nocase fast_pattern length pattern_hex`, the number of the rule it comes
//! from, whether that is enabled, whether case does not count, whether it is the string of its rule that is looked for first,
//! and its bytes in hex. As a set of rules it is taken as a whole or not at all.

use std::collections::HashSet;
use std::io::Cursor;
use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::TrafficError;
use crate::input::{InputStream, Stop};
use crate::lines::Lines;

const HEADER: &str = "sid\tenabled\tnocase\tfast_pattern\tlength\tpattern_hex";
const EXPECTED: &str = "`SID 0|1 0|1 0|1 LENGTH HEX` with tabs between, as in `2010705 1 1 0 4 41637469`";
const FORMAT: &str = "a table of strings";
const MAX_LINE: usize = 1 << 18;
/// The largest published sets have a hundred thousand strings of 20 bytes in the mean.
const MOST_STRINGS: usize = 1 << 20;
/// Bytes of all strings: an automaton has up to a state for each.
const MOST_BYTES: usize = 8 << 20;

/// A string, as its rule has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SignatureString {
    /// The number of its rule.
    pub sid: u32,
    /// Whether the rule is enabled.
    pub enabled: bool,
    /// Whether A to Z stand for a to z as well.
    pub nocase: bool,
    /// Whether it is the string of its rule that is looked for first.
    pub fast_pattern: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Which strings of a table are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PatternSelection {
    /// Only those of enabled rules.
    pub enabled: bool,
    /// Only those that their rule looks for first.
    pub fast: bool,
    /// Only those of so many bytes or more; 1 or more.
    pub min_bytes: u32,
    /// The first so many of what is left; 0 for all.
    pub most: u32,
}

impl Default for PatternSelection {
    fn default() -> PatternSelection {
        PatternSelection { enabled: true, fast: false, min_bytes: 4, most: 0 }
    }
}

/// A table of strings.
#[derive(Clone, Debug)]
pub struct SignatureStrings {
    /// In the order of the file.
    pub strings: Vec<SignatureString>,
    /// The BLAKE3 hash of the file, in hex, where one was read.
    pub content: Option<String>,
}

impl SignatureStrings {
    /// Reads a file, and hashes it; gives up soon after `stop` is set.
    ///
    /// # Errors
    /// A file that cannot be read or has no string, a line that is not one, [`TrafficError::Stopped`].
    pub fn open_until(path: impl AsRef<Path>, stop: &Stop) -> Result<SignatureStrings, TrafficError> {
        let path = path.as_ref();
        SignatureStrings::read(InputStream::open_watched(path, stop)?, &path.display().to_string())
    }

    /// As [`SignatureStrings::open_until`], without end.
    ///
    /// # Errors
    /// As [`SignatureStrings::open_until`].
    pub fn open(path: impl AsRef<Path>) -> Result<SignatureStrings, TrafficError> {
        SignatureStrings::open_until(path, &Stop::new())
    }

    /// Reads from memory; `name` is for messages.
    ///
    /// # Errors
    /// As [`SignatureStrings::open`].
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<SignatureStrings, TrafficError> {
        let input = InputStream::new(Box::new(Cursor::new(bytes)))
            .map_err(|source| TrafficError::Open { path: name.into(), source })?;
        SignatureStrings::read(input, name)
    }

    fn read(mut input: InputStream, name: &str) -> Result<SignatureStrings, TrafficError> {
        let (mut strings, mut bytes) = (Vec::<SignatureString>::new(), 0);
        let mut lines = Lines::new(&mut input, name).up_to(MAX_LINE);
        while let Some(text) = lines.next_line()? {
            if !(text.starts_with('#') || text == HEADER) {
                let string = parse(&text).map_err(|expected| lines.error(shortened(&text), expected))?;
                bytes += string.bytes.len();
                if strings.len() >= MOST_STRINGS || bytes > MOST_BYTES {
                    let most = format!("{MOST_STRINGS} strings, or {} MiB of them", MOST_BYTES >> 20);
                    return Err(lines.too_much(most, "leave out rules, or shorten their strings"));
                }
                strings.push(string);
            }
        }
        lines.finish(FORMAT, "string", strings.is_empty())?;
        Ok(SignatureStrings { strings, content: input.content()? })
    }

    /// Bytes and whether case does not count of what `selection` takes, each pair once, in the order of the file.
    pub fn select(&self, selection: &PatternSelection) -> Vec<(Vec<u8>, bool)> {
        let mut seen = HashSet::new();
        let most = if selection.most == 0 { usize::MAX } else { selection.most as usize };
        self.strings
            .iter()
            .filter(|s| s.enabled || !selection.enabled)
            .filter(|s| s.fast_pattern || !selection.fast)
            .filter(|s| s.bytes.len() >= selection.min_bytes.max(1) as usize)
            .map(|s| (s.bytes.clone(), s.nocase))
            .filter(|pair| seen.insert(pair.clone()))
            .take(most)
            .collect()
    }

    /// `count` strings of letters, digits and marks that occur in requests and programs; the same for the same `seed`.
    ///
    /// Lengths are 4 to 43 bytes, 12 in the mean, as those of published signatures; three in four do not care for case, and all
    /// are enabled and looked for first. A tenth begins as the string before it does, so that states have several
    /// children. Assumed.
    pub fn made(seed: u64, count: usize) -> SignatureStrings {
        const BYTES: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/.=&?%-_:;|\x00\x90\xff";
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut strings: Vec<SignatureString> = Vec::with_capacity(count);
        for i in 0..count {
            // The sum of a few draws has most of its weight at short lengths.
            let length =
                4 + rng.random_range(0..8) + rng.random_range(0..8) * u32::from(rng.random_range(0..4) == 0) * 4;
            let mut bytes: Vec<u8> = (0..length + 2).map(|_| BYTES[rng.random_range(0..BYTES.len())]).collect();
            if let Some(last) = strings.last().filter(|_| i % 10 == 9) {
                let shared = last.bytes.len().min(bytes.len()) / 2;
                bytes[..shared].copy_from_slice(&last.bytes[..shared]);
            }
            strings.push(SignatureString {
                sid: i as u32 + 1,
                enabled: true,
                nocase: rng.random_range(0..4) > 0,
                fast_pattern: true,
                bytes,
            });
        }
        SignatureStrings { strings, content: None }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}

fn parse(text: &str) -> Result<SignatureString, String> {
    let fields: Vec<&str> = text.split('\t').collect();
    let &[sid, enabled, nocase, fast, length, hex] = &fields[..] else {
        return Err(EXPECTED.into());
    };
    let flag = |text: &str| match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    let string = || {
        let digits = hex
            .as_bytes()
            .as_chunks::<2>()
            .0
            .iter()
            .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()));
        let bytes = digits.collect::<Option<Vec<u8>>>().filter(|_| hex.len() % 2 == 0)?;
        Some(SignatureString {
            sid: sid.parse().ok()?,
            enabled: flag(enabled)?,
            nocase: flag(nocase)?,
            fast_pattern: flag(fast)?,
            bytes,
        })
    };
    let string = string().ok_or_else(|| EXPECTED.to_string())?;
    if string.bytes.is_empty() || length.parse() != Ok(string.bytes.len()) {
        return Err(format!("a length that is that of the bytes, here {}, and at least 1", string.bytes.len()));
    }
    Ok(string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SignatureStrings, TrafficError> {
        SignatureStrings::from_bytes(text.as_bytes().to_vec(), "my.tsv")
    }

    #[test]
    fn strings_are_read_and_selected_once_each() {
        let text = format!(
            "{HEADER}\n1\t1\t0\t1\t4\t41424344\n2\t0\t1\t0\t2\t3031\n3\t1\t0\t0\t4\t41424344\n4\t1\t1\t0\t4\t41424344\n"
        );
        let all = read(&text).unwrap();
        assert_eq!(all.strings.len(), 4);
        assert_eq!(
            all.strings[1],
            SignatureString { sid: 2, enabled: false, nocase: true, fast_pattern: false, bytes: b"01".to_vec() }
        );
        let abcd = b"ABCD".to_vec();
        assert_eq!(all.select(&PatternSelection::default()), [(abcd.clone(), false), (abcd.clone(), true)]);
        let fast = PatternSelection { fast: true, ..PatternSelection::default() };
        assert_eq!(all.select(&fast), [(abcd.clone(), false)]);
        let every = PatternSelection { enabled: false, min_bytes: 1, most: 2, ..PatternSelection::default() };
        assert_eq!(all.select(&every), [(abcd, false), (b"01".to_vec(), true)]);
    }

    #[test]
    fn a_line_that_is_no_string_is_an_error_with_file_line_and_what_was_expected() {
        let error = |line: &str| read(&format!("{HEADER}\n{line}\n")).unwrap_err().to_string();
        assert!(error("1\t1\t0\t1\t4").starts_with("my.tsv:2: `1\t1\t0\t1\t4`: expected `SID 0|1"));
        assert!(error("1\t1\t0\t1\t4\t4142434g").contains("expected `SID 0|1"));
        assert!(error("1\t1\t2\t1\t4\t41424344").contains("expected `SID 0|1"));
        assert!(error("1\t1\t0\t1\t3\t41424344").contains("expected a length that is that of the bytes, here 4"));
        assert!(read(HEADER).unwrap_err().to_string().contains("with no usable string"));
    }

    #[test]
    fn made_strings_are_the_same_for_the_same_seed() {
        let made = |seed| SignatureStrings::made(seed, 500).strings;
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
        let mean = made(1).iter().map(|s| s.bytes.len()).sum::<usize>() as f64 / 500.0;
        assert!((10.0..15.0).contains(&mean), "{mean}");
    }

    #[test]
    fn the_published_table_is_read_to_its_last_string() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/dpi/et_open_2021_contents.tsv.xz");
        if !file.exists() {
            println!("skipped: {} is not there", file.display());
            return;
        }
        let all = SignatureStrings::open(&file).unwrap();
        assert_eq!(all.strings.len(), 44_306);
        assert_eq!(all.select(&PatternSelection::default()).len(), 13_283);
    }
}
