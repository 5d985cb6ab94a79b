//! Strings for inspection, and payloads that hold some of them.
//!
//! Made strings have the lengths of contents in Snort's rules (4 to 30 bytes, most about 10; assumed). Made payloads are
//! printable text, since traffic that is made has headers alone; one in a few holds a string.

use functions::inspect::Pattern;
use packet::Packet;
use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use super::wrong;
use sim::ScenarioError;

/// The strings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StringsSpec {
    /// Strings, a line each; else strings are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Strings that are made, or how many of the text are taken.
    pub count: usize,
    /// Bytes of a payload that are inspected; 0 for all.
    pub depth: u32,
    /// Whether made payloads are put behind headers that have none.
    pub fill: bool,
    /// The share of payloads that hold a string.
    pub planted: f64,
}

impl Default for StringsSpec {
    fn default() -> StringsSpec {
        StringsSpec { text: None, count: 1000, depth: 0, fill: true, planted: 0.01 }
    }
}

const MOST: usize = 1 << 17;

impl StringsSpec {
    /// The strings.
    ///
    /// # Errors
    /// None, or too many.
    pub fn patterns(&self, rng: &mut impl Rng) -> Result<Vec<Pattern>, ScenarioError> {
        if !(1..=MOST).contains(&self.count) {
            return Err(wrong("workload.strings.count", self.count, &format!("1 to {MOST}")));
        }
        if !(0.0..=1.0).contains(&self.planted) {
            return Err(wrong("workload.strings.planted", self.planted, "0 to 1"));
        }
        let of = |bytes: Vec<u8>| Pattern { bytes, nocase: false };
        let Some(text) = &self.text else {
            return Ok((0..self.count).map(|_| of(made(rng))).collect());
        };
        let lines = text.lines().filter(|line| !line.is_empty());
        let found: Vec<Pattern> = lines.take(self.count).map(|line| of(line.as_bytes().to_vec())).collect();
        if found.is_empty() {
            return Err(wrong("workload.strings.text", "no string", "a string a line"));
        }
        Ok(found)
    }

    /// Fills up packets to the length of their frames.
    pub fn fill(&self, patterns: &[Pattern], packets: &mut [Packet], rng: &mut impl Rng) {
        if !self.fill {
            return;
        }
        for packet in packets {
            let from = packet.data.len();
            packet.data.extend((from..packet.frame_bytes as usize).map(|_| rng.random_range(b' '..b'~')));
            let room = packet.data.len() - from;
            if rng.random::<f64>() < self.planted {
                let string = &patterns[rng.random_range(0..patterns.len())].bytes;
                if string.len() < room {
                    let at = from + rng.random_range(0..room - string.len());
                    packet.data[at..at + string.len()].copy_from_slice(string);
                }
            }
        }
    }
}

fn made(rng: &mut impl Rng) -> Vec<u8> {
    // The sum of three draws: 4 to 30, with a mode of about 10.
    let length = 4 + rng.random_range(0..4) + rng.random_range(0..8) + if rng.random_range(0..5) == 0 { 16 } else { 0 };
    (0..length).map(|_| rng.random_range(b'a'..=b'z')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Seed;

    #[test]
    fn payloads_fill_frames_and_hold_strings() {
        let mut rng = Seed(2).stream("payload");
        let spec = StringsSpec { planted: 1.0, count: 20, ..StringsSpec::default() };
        let patterns = spec.patterns(&mut rng).unwrap();
        assert!(patterns.iter().all(|p| (4..=30).contains(&p.bytes.len())));
        let mut packets = vec![Packet::default(); 50];
        packets.iter_mut().for_each(|p| p.set_frame(&[0; 54], 500));
        spec.fill(&patterns, &mut packets, &mut rng);
        for packet in &packets {
            assert_eq!(packet.data.len(), 500);
            assert!(patterns.iter().any(|p| packet.data.windows(p.bytes.len()).any(|w| w == p.bytes)));
        }
    }
}
