//! Bloom filters of windows of a payload, and the comparison of what passes them.

use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};

use super::{InspectTables, METHOD, Pattern, PatternMatch, Patterns, Text, cost, lower, site, size_word};
use crate::FunctionError;
use crate::tape::Tape;

const FILTERS: RegionId = METHOD;
const BUCKETS: RegionId = RegionId(METHOD.0 + 1);
const ENTRIES: RegionId = RegionId(METHOD.0 + 2);
const ENTRY_BYTES: u64 = size_of::<WindowPattern>() as u64;
/// The longest window: of longer patterns the first so many bytes are looked for, then the whole is compared.
const LONGEST_WINDOW: usize = 16;
/// Bits that a window sets: at 16 bits a pattern, (1 - e^(-4/16))^4 = 0.2 % of other windows pass.
const PROBES: u32 = 4;
const BITS_A_PATTERN: usize = 16;
const LEAST_BITS: usize = 512;
/// Of the rolling hash, modulo 2^64: odd, with bits everywhere (Knuth's multiplier of a 64-bit linear congruential generator).
const BASE: u64 = 6_364_136_223_846_793_005;
const NONE: u32 = u32::MAX;

/// Bloom filters of windows, and the patterns to compare with.
#[derive(Clone, Debug)]
pub struct Windows {
    patterns: Patterns,
    lengths: Vec<Length>,
    /// The filters' words, one filter behind the other.
    filters: Vec<u64>,
    buckets: Vec<u32>,
    entries: Vec<WindowPattern>,
}

/// A length of window and its filter.
#[derive(Clone, Copy, Debug)]
struct Length {
    bytes: u32,
    /// `BASE` to the power of `bytes`: what the byte that leaves the window has been multiplied by.
    leaving: u64,
    /// Its first word, and how many bits it has less 1, which is a mask.
    first: u32,
    mask: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct WindowPattern {
    hash: u64,
    pattern: u32,
    next: u32,
    /// Where its bytes are, how many, how many of them are the window, and whether case counts.
    at: u32,
    bytes: u16,
    window: u16,
    nocase: bool,
}

/// Spreads a rolling hash over all bits, whose lower ones depend on few bytes only.
#[inline(always)]
const fn spread(hash: u64) -> u64 {
    let z = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z ^ (z >> 29)
}

impl Windows {
    /// Filters of all `patterns`.
    ///
    /// # Errors
    /// Too many patterns or bytes of them, or one that is empty or longer than 65,535 bytes.
    pub fn new(patterns: &[Pattern]) -> Result<Windows, FunctionError> {
        let patterns = Patterns::new(patterns)?;
        let window = |bytes: u16| usize::from(bytes).min(LONGEST_WINDOW);
        let mut counts = [0; LONGEST_WINDOW + 1];
        for &(_, bytes, _) in &patterns.at {
            counts[window(bytes)] += 1;
        }
        let (mut lengths, mut words) = (Vec::new(), 0);
        for (bytes, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let bits = (BITS_A_PATTERN * count as usize).next_power_of_two().max(LEAST_BITS);
            let leaving = BASE.wrapping_pow(bytes as u32);
            lengths.push(Length { bytes: bytes as u32, leaving, first: words, mask: bits as u32 - 1 });
            words += (bits / 64) as u32;
        }
        let buckets = (2 * patterns.at.len()).next_power_of_two();
        let mut windows = Windows {
            lengths,
            filters: vec![0; words as usize],
            buckets: vec![NONE; buckets],
            entries: Vec::with_capacity(patterns.at.len()),
            patterns,
        };
        for number in 0..windows.patterns.at.len() {
            windows.insert(number);
        }
        Ok(windows)
    }

    fn insert(&mut self, number: usize) {
        let (at, bytes, nocase) = self.patterns.at[number];
        let window = usize::from(bytes).min(LONGEST_WINDOW);
        let roll = |hash: u64, &byte: &u8| hash.wrapping_mul(BASE).wrapping_add(u64::from(byte) + 1);
        let hash = spread(self.patterns.lower(number)[..window].iter().fold(0, roll));
        if let Some(length) = self.lengths.iter().find(|length| length.bytes as usize == window) {
            for probe in 0..PROBES {
                let bit = length.bit(hash, probe);
                self.filters[(length.first + bit / 64) as usize] |= 1 << (bit % 64);
            }
        }
        let bucket = hash as usize & (self.buckets.len() - 1);
        self.entries.push(WindowPattern {
            hash,
            pattern: number as u32,
            next: self.buckets[bucket],
            at,
            bytes,
            window: window as u16,
            nocase,
        });
        self.buckets[bucket] = number as u32;
    }

    #[inline(always)]
    pub(super) fn search<P: Probe>(
        &self,
        text: &Text<'_>,
        first_only: bool,
        tape: &mut Tape<'_, P>,
        mut tell: impl FnMut(PatternMatch),
    ) {
        let mut hashes = [0u64; LONGEST_WINDOW];
        // The latest bytes in lower case, as registers have them.
        let mut latest = [0u8; LONGEST_WINDOW];
        for (w, word) in text.bytes.chunks(8).enumerate() {
            let at = w * 8;
            tape.touch_after(
                text.from,
                Ref::load(RegionId::PACKET, (text.at + at) as u64, word.len() as u16, site::PAYLOAD),
            );
            for (i, &byte) in word.iter().enumerate() {
                let end = at + i + 1;
                let byte = lower(byte);
                for (length, hash) in self.lengths.iter().zip(&mut hashes) {
                    *hash = hash.wrapping_mul(BASE).wrapping_add(u64::from(byte) + 1);
                    let bytes = length.bytes as usize;
                    if end > bytes {
                        let left = latest[(end - 1 - bytes) % LONGEST_WINDOW];
                        *hash = hash.wrapping_sub((u64::from(left) + 1).wrapping_mul(length.leaving));
                    }
                    tape.work(site::ROLL, cost::ROLL);
                    if end >= bytes {
                        tape.work(site::ROLL, cost::WINDOW);
                        let spread = spread(*hash);
                        if self.passes(length, spread, tape)
                            && self.compare(length, spread, text, end, first_only, tape, &mut tell)
                        {
                            return;
                        }
                    }
                    tape.latch(site::WINDOW_LATCH);
                }
                latest[(end - 1) % LONGEST_WINDOW] = byte;
                tape.work(site::BYTE_LATCH, cost::BYTE);
                tape.latch(site::BYTE_LATCH);
            }
            tape.work(site::WORD_LATCH, cost::WORD);
            tape.latch(site::WORD_LATCH);
        }
    }

    /// Whether the filter may have the window.
    #[inline(always)]
    fn passes<P: Probe>(&self, length: &Length, hash: u64, tape: &mut Tape<'_, P>) -> bool {
        for probe in 0..PROBES {
            let bit = length.bit(hash, probe);
            let word = length.first + bit / 64;
            tape.touch(Ref::load(FILTERS, u64::from(word) * 8, 8, site::FILTER));
            tape.work(site::FILTER_LATCH, cost::FILTER);
            tape.latch(site::FILTER_LATCH);
            if self.filters[word as usize] >> (bit % 64) & 1 == 0 {
                return false;
            }
        }
        true
    }

    /// Compares with the patterns whose window has this hash and ends before `end`; whether that was all that is wanted.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    fn compare<P: Probe>(
        &self,
        length: &Length,
        hash: u64,
        text: &Text<'_>,
        end: usize,
        first_only: bool,
        tape: &mut Tape<'_, P>,
        tell: &mut impl FnMut(PatternMatch),
    ) -> bool {
        let bucket = hash as usize & (self.buckets.len() - 1);
        let mut mark = tape.touch(Ref::load(BUCKETS, bucket as u64 * 4, 4, site::BUCKET));
        let mut at = self.buckets[bucket];
        while let Some(entry) = self.entries.get(at as usize) {
            mark = tape
                .touch_after(mark, Ref::load(ENTRIES, u64::from(at) * ENTRY_BYTES, ENTRY_BYTES as u16, site::ENTRY));
            let (bytes, window) = (usize::from(entry.bytes), usize::from(entry.window));
            let last = end - length.bytes as usize + bytes;
            let sites = (site::ENTRY_PATTERN, site::ENTRY_TEXT);
            let found = entry.hash == hash
                && window == length.bytes as usize
                && last <= text.bytes.len()
                && self.patterns.same(entry.at, bytes, entry.nocase, text, last, sites, tape);
            tape.work(site::ENTRY_LATCH, cost::ENTRY);
            tape.latch(site::ENTRY_LATCH);
            if found {
                tell(PatternMatch { end: last as u32, pattern: entry.pattern });
                if first_only {
                    return true;
                }
            }
            at = entry.next;
        }
        false
    }

    /// Bytes of all filters.
    pub fn filter_bytes(&self) -> u64 {
        self.filters.len() as u64 * 8
    }

    /// Lengths of windows that are looked at for each byte.
    pub fn lengths(&self) -> impl Iterator<Item = u32> + '_ {
        self.lengths.iter().map(|length| length.bytes)
    }

    pub(super) fn tables(&self) -> InspectTables {
        let halves = |word: u64| [word as u32, (word >> 32) as u32];
        let entry = |entry: &WindowPattern| {
            let [low, high] = halves(entry.hash);
            let sizes = size_word(entry.bytes, entry.nocase);
            [low, high, entry.pattern, entry.next, entry.at, sizes, entry.window.into(), 0]
        };
        InspectTables::Windows {
            text: self.patterns.words(),
            lengths: self.lengths.iter().flat_map(|l| [l.bytes, l.first, l.mask, 0]).collect(),
            filters: self.filters.iter().copied().flat_map(halves).collect(),
            buckets: self.buckets.clone(),
            entries: self.entries.iter().flat_map(entry).collect(),
        }
    }

    pub(super) fn regions(&self) -> Vec<RegionSpec> {
        let region = |id, name: &str, items: usize, each: u64| RegionSpec {
            id,
            name: name.into(),
            bytes: (items as u64 * each).max(each),
            sharing: Sharing::Shared,
        };
        vec![
            self.patterns.region(),
            region(FILTERS, "inspect_filters", self.filters.len(), 8),
            region(BUCKETS, "inspect_buckets", self.buckets.len(), 4),
            region(ENTRIES, "inspect_entries", self.entries.len(), ENTRY_BYTES),
        ]
    }
}

impl Length {
    /// The bit that probe `probe` of a window of this hash looks at: double hashing.
    #[inline(always)]
    fn bit(&self, hash: u64, probe: u32) -> u32 {
        let (one, other) = (hash as u32, (hash >> 32) as u32 | 1);
        one.wrapping_add(probe.wrapping_mul(other)) & self.mask
    }
}
