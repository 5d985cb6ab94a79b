//! Inspection: strings in payloads.
//!
//! **Computes** every occurrence of every pattern in the payload of an IP packet (behind the TCP or UDP header, else
//! behind the IP header), at any place, with or without regard to case, as each pattern wants it. Two methods: an Aho-Corasick
//! automaton ([`Method::AhoCorasick`]), and Bloom filters of the patterns' windows with verification
//! ([`Method::Bloom`]).
//!
//! **References per packet**: 3 mbuf loads (where the data lies; type and length), 2 header loads (1 for IPv6) and 1 of the
//! TCP header's length; 1 load for every 8 bytes of payload. Aho-Corasick, for each byte: a load of 4 bytes of the root's
//! table where the automaton is at its root, a load of 16 bytes for the state it comes to unless that is the root, 16 bytes
//! more for each failure link it follows, and 40 bytes where it looks among more than 4 children. Bloom, for each byte and each
//! length of window: up to 4 loads of 8 bytes of a filter, the first bit that is not set ends them. A hit of a filter costs a
//! load of 4 bytes of a bucket and 32 for each of its entries; an occurrence to compare, loads of the pattern and the
//! payload. Best 3 (not IP). How many that are per byte depends on patterns and payload: see `docs/guide/applications.md`.
//!
//! **Regions**: Aho-Corasick: the root's table (1 KiB), states (16 bytes), wide states (64 bytes), outputs (12 bytes), their
//! lists (12 bytes each). Bloom: filters (16 bits a pattern or more, 64 bytes or more each), buckets (4 bytes), entries (32
//! bytes a pattern). Both: the patterns' bytes. All shared by the cores; the packet and its mbuf.
//!
//! Both methods work on text in lower case, and compare patterns that want their case with the text itself.
//!
//! Left out: strings across packets (no stream reassembly), rules about where a string may stand, regular expressions.
//! A byte that a capture has not kept is not inspected.
//!
//! **Source**: A. Aho, M. Corasick, "Efficient String Matching: An Aid to Bibliographic Search", CACM 18(6), 1975; bit maps for
//! states with many children: Tuck, Sherwood, Calder, Varghese, "Deterministic Memory-Efficient String Matching
//! Algorithms for Intrusion Detection", IEEE INFOCOM 2004, section 3. B. Bloom, "Space/Time Trade-offs in Hash Coding with
//! Allowable Errors", CACM 13(7), 1970, in the use that Dharmapurikar et al., "Deep Packet Inspection using Parallel Bloom
//! Filters", IEEE Micro 24(1), 2004, make of it (a filter for each length of window); windows slide by the rolling hash of Karp
//! and Rabin, 1987. Zhu, Deng, Chen, DAC 2011, section 4, name the former for DPI.
//!
//! **See also** `classify`.

mod automaton;
mod bloom;

pub use automaton::Automaton;
pub use bloom::Windows;

use packet::{L3, PROTO_TCP, PROTO_UDP, Packet};
use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PacketId, PortId, Ps};

use crate::check::{data_address, mbuf};
use crate::tape::{Tape, TapeMark};
use crate::verdict::across;
use crate::{DropReason, FunctionError, PacketFunction, Verdict};

/// The patterns' bytes. Those of the methods follow.
const TEXT: RegionId = RegionId::FIRST_TABLE;
const METHOD: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 1);
const MOST_PATTERNS: usize = 1 << 20;
/// Bytes of all patterns: an automaton has up to a state for each, which take half a gigabyte while it is made.
const MOST_BYTES: usize = 8 << 20;
const LONGEST: usize = 65535;

/// Places of references, in program order.
mod site {
    pub(super) const BUF_ADDR: u16 = 0;
    pub(super) const DATA_OFF: u16 = 1;
    pub(super) const RX_FIELDS: u16 = 2;
    pub(super) const HEADER: u16 = 3;
    pub(super) const DESTINATION: u16 = 4;
    pub(super) const TCP_LENGTH: u16 = 5;
    pub(super) const FOUND_PAYLOAD: u16 = 6;
    pub(super) const PAYLOAD: u16 = 7;
    pub(super) const WIDE: u16 = 8;
    pub(super) const FAIL: u16 = 9;
    pub(super) const FAIL_LATCH: u16 = 10;
    pub(super) const ROOT: u16 = 11;
    pub(super) const STATE: u16 = 12;
    pub(super) const OUTPUT: u16 = 13;
    pub(super) const LISTED: u16 = 14;
    pub(super) const OUTPUT_PATTERN: u16 = 15;
    pub(super) const OUTPUT_TEXT: u16 = 16;
    pub(super) const LISTED_LATCH: u16 = 17;
    pub(super) const OUTPUT_LATCH: u16 = 18;
    pub(super) const ROLL: u16 = 19;
    pub(super) const FILTER: u16 = 20;
    pub(super) const FILTER_LATCH: u16 = 21;
    pub(super) const BUCKET: u16 = 22;
    pub(super) const ENTRY: u16 = 23;
    pub(super) const ENTRY_PATTERN: u16 = 24;
    pub(super) const ENTRY_TEXT: u16 = 25;
    pub(super) const ENTRY_LATCH: u16 = 26;
    pub(super) const WINDOW_LATCH: u16 = 27;
    pub(super) const BYTE_LATCH: u16 = 28;
    pub(super) const WORD_LATCH: u16 = 29;
    pub(super) const LATCH: u16 = 30;
}

/// Instructions of each part as compiled for x86-64; see `tests/instructions.rs`.
mod cost {
    pub(super) const NOT_IP: u32 = 49;
    pub(super) const PAYLOAD: u32 = 148;
    pub(super) const WORD: u32 = 34;
    pub(super) const BYTE: u32 = 18;
    pub(super) const STEP: u32 = 14;
    pub(super) const FAIL: u32 = 10;
    /// More where a failure link leads to another state than the root.
    pub(super) const DEEPER: u32 = 9;
    /// A look among few children, and among many.
    pub(super) const FEW: u32 = 17;
    pub(super) const WIDE: u32 = 26;
    pub(super) const OUTPUT: u32 = 20;
    pub(super) const LISTED: u32 = 20;
    pub(super) const COMPARED_BYTE: u32 = 6;
    pub(super) const ROLL: u32 = 13;
    pub(super) const WINDOW: u32 = 20;
    pub(super) const FILTER: u32 = 13;
    pub(super) const ENTRY: u32 = 14;
}

/// How payloads are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// By an automaton of all patterns.
    #[default]
    AhoCorasick,
    /// By Bloom filters of windows of up to 16 bytes, and verification.
    Bloom,
}

/// How payloads are inspected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InspectSpec {
    /// How payloads are searched.
    pub method: Method,
    /// Bytes of each payload that are inspected; 0 for all.
    pub depth: u32,
    /// Whether a packet with an occurrence is dropped, at the first one, in place of being reported with all.
    pub drop: bool,
}

/// A string to look for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Its bytes, at least one.
    pub bytes: Vec<u8>,
    /// Whether A to Z stand for a to z as well.
    pub nocase: bool,
}

/// An occurrence of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct PatternMatch {
    /// Where it ends: bytes from the start of the text.
    pub end: u32,
    /// The pattern's number, from 0 on.
    pub pattern: u32,
}

/// The patterns as they lie in memory: one behind the other, as they came.
#[derive(Clone, Debug)]
struct Patterns {
    text: Vec<u8>,
    /// Where each begins, its length, and whether it is compared without regard to case.
    at: Vec<(u32, u16, bool)>,
}

impl Patterns {
    fn new(patterns: &[Pattern]) -> Result<Patterns, FunctionError> {
        let fewer = "leave out rules, or shorten their strings";
        let error = |came: String, allowed: &str, remedy| FunctionError::Spec {
            path: "inspect.patterns",
            came,
            allowed: allowed.into(),
            remedy,
        };
        if patterns.len() > MOST_PATTERNS {
            return Err(error(format!("{} patterns", patterns.len()), "up to 1048576 patterns", fewer));
        }
        let bytes: usize = patterns.iter().map(|pattern| pattern.bytes.len()).sum();
        if bytes > MOST_BYTES {
            return Err(error(format!("patterns of {bytes} bytes"), "patterns of up to 8388608 bytes in all", fewer));
        }
        let mut all = Patterns { text: Vec::new(), at: Vec::with_capacity(patterns.len()) };
        for (i, pattern) in patterns.iter().enumerate() {
            let bytes = pattern.bytes.len();
            if !(1..=LONGEST).contains(&bytes) {
                return Err(error(
                    format!("pattern {i} of {bytes} bytes"),
                    "patterns of 1 to 65535 bytes",
                    "leave it out",
                ));
            }
            all.at.push((all.text.len() as u32, bytes as u16, pattern.nocase));
            all.text.extend_from_slice(&pattern.bytes);
        }
        Ok(all)
    }

    /// The bytes of pattern `number` in lower case.
    fn lower(&self, number: usize) -> Vec<u8> {
        let (at, bytes, _) = self.at[number];
        self.text[at as usize..][..usize::from(bytes)].to_ascii_lowercase()
    }

    /// The bytes as words, and one word more, so that any of them can be read as part of two.
    fn words(&self) -> Vec<u32> {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, &byte| all << 8 | u32::from(byte));
        self.text.chunks(4).map(word).chain([0, 0]).collect()
    }

    /// Whether `bytes` bytes of pattern text from `at` on are those of `text` before `end`.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn same<P: Probe>(
        &self,
        at: u32,
        bytes: usize,
        nocase: bool,
        text: &Text<'_>,
        end: usize,
        sites: (u16, u16),
        tape: &mut Tape<'_, P>,
    ) -> bool {
        let there = &text.bytes[end - bytes..end];
        let wanted = &self.text[at as usize..][..bytes];
        tape.touch(Ref::load(TEXT, at.into(), bytes as u16, sites.0));
        tape.touch(Ref::load(RegionId::PACKET, (text.at + end - bytes) as u64, bytes as u16, sites.1));
        tape.work(sites.1, cost::COMPARED_BYTE * bytes as u32);
        // Byte by byte to the end, so that lanes of a warp that compare stay together.
        let differ = |(a, b): (&u8, &u8)| if nocase { lower(*a) ^ lower(*b) } else { a ^ b };
        there.iter().zip(wanted).map(differ).fold(0, |all, one| all | one) == 0
    }

    fn region(&self) -> RegionSpec {
        RegionSpec {
            id: TEXT,
            name: "inspect_patterns".into(),
            bytes: (self.text.len() as u64).max(8),
            sharing: Sharing::Shared,
        }
    }
}

/// A pattern's length and whether it is compared without regard to case, in one word: the latter in bit 16.
fn size_word(bytes: u16, nocase: bool) -> u32 {
    u32::from(bytes) | u32::from(nocase) << 16
}

/// The tables of an inspection as words of 4 bytes, as kernels of GPUs read them: entries have the sizes and places that the
/// references tell. A pattern's length has in bit 16 whether it is compared without regard to case.
#[derive(Clone, Debug)]
pub enum InspectTables {
    /// Of the automaton.
    Automaton {
        /// The patterns' bytes, and two words more.
        text: Vec<u32>,
        /// The state that each byte leads to from the root.
        root: Vec<u32>,
        /// 4 words each: first child, failure link, output plus 1 above two bits of kind (0 childless, 1 few, 2 many), bytes
        /// of the children or the number of a wide state.
        states: Vec<u32>,
        /// 16 words each: a bit a byte, then how many bits stand before each 64 of them, then 0.
        wide: Vec<u32>,
        /// 3 words each: its first place in the lists, how many, the next output plus 1 or 0.
        outputs: Vec<u32>,
        /// 3 words each: pattern, where its bytes are, length.
        lists: Vec<u32>,
    },
    /// Of the Bloom filters.
    Windows {
        /// The patterns' bytes, and two words more.
        text: Vec<u32>,
        /// 4 words each, from the shortest on: bytes of the window, the first word of 8 bytes of its filter, a mask of the
        /// filter's bits, 0.
        lengths: Vec<u32>,
        /// The filters, words of 8 bytes.
        filters: Vec<u32>,
        /// The first entry of each, or all ones.
        buckets: Vec<u32>,
        /// 8 words each: hash (two), pattern, next entry, where its bytes are, length, window, 0.
        entries: Vec<u32>,
    },
}

/// What is searched, and where in the packet it begins.
struct Text<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The reference its address comes from.
    from: TapeMark,
}

#[inline(always)]
fn lower(byte: u8) -> u8 {
    byte | u8::from(byte.wrapping_sub(b'A') < 26) << 5
}

/// Inspection of payloads. A clone shares the tables.
#[derive(Clone, Debug)]
pub struct Inspect {
    engine: MatchEngine,
    depth: usize,
    drop: bool,
    ports: u16,
    found: Vec<(PacketId, PatternMatch)>,
    inspected: u64,
}

state::state!(Inspect { values: [found, inspected], arrays: [], parts: [], built: [engine, depth, drop, ports] });

#[derive(Clone, Debug)]
enum MatchEngine {
    Automaton(std::sync::Arc<Automaton>),
    Windows(std::sync::Arc<Windows>),
}

impl Inspect {
    /// Inspection for `patterns` on a machine of `ports` ports.
    ///
    /// # Errors
    /// Too many patterns or bytes of them, or one that is empty or longer than 65,535 bytes.
    pub fn new(patterns: &[Pattern], spec: &InspectSpec, ports: u16) -> Result<Inspect, FunctionError> {
        let engine = match spec.method {
            Method::AhoCorasick => MatchEngine::Automaton(Automaton::new(patterns)?.into()),
            Method::Bloom => MatchEngine::Windows(Windows::new(patterns)?.into()),
        };
        let depth = if spec.depth == 0 { usize::MAX } else { spec.depth as usize };
        Ok(Inspect { engine, depth, drop: spec.drop, ports, found: Vec::new(), inspected: 0 })
    }

    /// Every occurrence in `text`, ordered by end, then pattern.
    pub fn find(&self, text: &[u8]) -> Vec<PatternMatch> {
        let (mut null, mut found) = (probe::Null, Vec::new());
        let text = Text { bytes: text, at: 0, from: TapeMark::default() };
        self.search(&text, false, &mut Tape::new(&mut null), |one| found.push(one));
        found.sort_unstable();
        found
    }

    /// What was found in the latest burst: which packet, where from the start of its payload, and which pattern.
    pub fn found(&self) -> &[(PacketId, PatternMatch)] {
        &self.found
    }

    /// Its tables, in the form that kernels of GPUs read.
    pub fn tables(&self) -> InspectTables {
        match &self.engine {
            MatchEngine::Automaton(automaton) => automaton.tables(),
            MatchEngine::Windows(windows) => windows.tables(),
        }
    }

    /// Bytes of each payload that are inspected at most.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Whether a packet with an occurrence is dropped.
    pub fn drops(&self) -> bool {
        self.drop
    }

    /// Bytes of payload that have been inspected so far.
    pub fn inspected_bytes(&self) -> u64 {
        self.inspected
    }

    #[inline(always)]
    fn search<P: Probe>(&self, text: &Text<'_>, first: bool, tape: &mut Tape<'_, P>, tell: impl FnMut(PatternMatch)) {
        match &self.engine {
            MatchEngine::Automaton(automaton) => automaton.search(text, first, tape, tell),
            MatchEngine::Windows(windows) => windows.search(text, first, tape, tell),
        }
    }

    #[inline(always)]
    fn one<P: Probe>(&mut self, packet: &Packet, tape: &mut Tape<'_, P>) -> Result<PortId, DropReason> {
        let text = match payload(packet, tape) {
            Ok(text) => text,
            Err(reason) => {
                tape.work(site::FOUND_PAYLOAD, cost::NOT_IP);
                return Err(reason);
            }
        };
        tape.work(site::FOUND_PAYLOAD, cost::PAYLOAD);
        let text = Text { bytes: &text.bytes[..text.bytes.len().min(self.depth)], ..text };
        self.inspected += text.bytes.len() as u64;
        let before = self.found.len();
        let mut found = std::mem::take(&mut self.found);
        self.search(&text, self.drop, tape, |one| found.push((packet.id, one)));
        self.found = found;
        if self.drop && self.found.len() > before {
            return Err(DropReason::SignatureFound);
        }
        Ok(across(packet.port, self.ports))
    }
}

/// The payload of `packet`: what follows its TCP or UDP header, or its IP header.
#[inline(always)]
fn payload<'a, P: Probe>(packet: &'a Packet, tape: &mut Tape<'_, P>) -> Result<Text<'a>, DropReason> {
    let data = data_address(tape, site::BUF_ADDR, site::DATA_OFF);
    tape.touch(Ref::load(RegionId::MBUF, mbuf::RX_FIELDS, 16, site::RX_FIELDS));
    let at = usize::from(packet.l3_offset);
    let l3 = packet.data.get(at..).unwrap_or_default();
    let (header_bytes, total, proto, whole) = match packet.l3 {
        L3::V4 => {
            let header = l3.first_chunk::<20>().ok_or(DropReason::Truncated)?;
            tape.touch_after(data, Ref::load(RegionId::PACKET, at as u64, 16, site::HEADER));
            tape.touch_after(data, Ref::load(RegionId::PACKET, at as u64 + 16, 4, site::DESTINATION));
            let first = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
            let header_bytes = usize::from(header[0] & 15) * 4;
            if header_bytes < 20 {
                return Err(DropReason::BadHeaderLength);
            }
            (header_bytes, usize::from(u16::from_be_bytes([header[2], header[3]])), header[9], first)
        }
        L3::V6 => {
            let header = l3.first_chunk::<40>().ok_or(DropReason::Truncated)?;
            tape.touch_after(data, Ref::load(RegionId::PACKET, at as u64, 8, site::HEADER));
            (40, 40 + usize::from(u16::from_be_bytes([header[4], header[5]])), header[6], true)
        }
        L3::Other => return Err(DropReason::NotIp),
    };
    if total < header_bytes || total > (packet.frame_bytes as usize).saturating_sub(at) {
        return Err(DropReason::BadTotalLength);
    }
    let transport = match proto {
        PROTO_TCP if whole => {
            let words = l3.get(header_bytes + 12).ok_or(DropReason::Truncated)?;
            tape.touch_after(data, Ref::load(RegionId::PACKET, (at + header_bytes) as u64 + 12, 1, site::TCP_LENGTH));
            usize::from(words >> 4) * 4
        }
        PROTO_UDP if whole => 8,
        _ => 0,
    };
    // What lies: an empty payload; what a capture has cut off is not there.
    let end = total.min(l3.len());
    let begin = (header_bytes + transport).min(end);
    Ok(Text { bytes: &l3[begin..end], at: at + begin, from: data })
}

impl PacketFunction for Inspect {
    fn name(&self) -> &'static str {
        "inspect"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        match &self.engine {
            MatchEngine::Automaton(automaton) => automaton.regions(),
            MatchEngine::Windows(windows) => windows.regions(),
        }
    }

    fn process_burst<P: Probe>(&mut self, _: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        let mut tape = Tape::new(probe);
        self.found.clear();
        for packet in burst {
            tape.begin(packet.id);
            out.push(match self.one(packet, &mut tape) {
                Ok(port) => Verdict::Forward { port },
                Err(reason) => Verdict::Drop(reason),
            });
            tape.end(packet.id);
            tape.latch(site::LATCH);
        }
    }
}
