//! What made packets carry, for functions that look at it.
//!
//! A packet's payload is a stretch of one long text, at a place that follows from the packet's number: the same packet
//! always carries the same bytes, and no other draw depends on it. Transport checksums stay those of a payload of zeros.

use packet::{L3, PROTO_TCP, PROTO_UDP, Packet};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::ETHERNET;

/// Longer than any frame, and as long as what a few thousand packets carry.
const BYTES: usize = 1 << 20;
const SEED: u64 = 7;
/// Of requests, answers and pages: assumed, since shares of application data are nobody's constant.
const WORDS: [&str; 48] = [
    "GET /",
    "POST /",
    "HTTP/1.1",
    "Host: ",
    "User-Agent: ",
    "Accept: ",
    "Cookie: ",
    "Content-Type: ",
    "Content-Length: ",
    "Connection: keep-alive",
    "\r\n",
    "\r\n",
    "text/html",
    "application/json",
    "gzip, deflate",
    "Mozilla/5.0",
    "index.html",
    ".php?id=",
    "&lang=en",
    "=",
    "\"",
    "<div class=\"",
    "</div>",
    "<a href=\"",
    "script",
    "window",
    "function(",
    "return ",
    "the ",
    "and ",
    "of ",
    "to ",
    "in ",
    "that ",
    "for ",
    "it ",
    "with ",
    "was ",
    "on ",
    "are ",
    "http://",
    "https://",
    "www.",
    ".com/",
    "example",
    "0",
    "1",
    "2026",
];

/// What made packets carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PayloadSpec {
    /// Zeros.
    Zeros,
    /// Words of requests and pages.
    Text,
    /// Random bytes, as encrypted ones are.
    Random,
}

/// A long text to cut payloads from.
#[derive(Debug)]
pub(crate) struct Payload {
    text: Vec<u8>,
}

impl Payload {
    pub(crate) fn new(spec: PayloadSpec) -> Payload {
        let mut rng = Pcg64::seed_from_u64(SEED);
        let mut text = vec![0; BYTES];
        match spec {
            PayloadSpec::Zeros => {}
            PayloadSpec::Random => rng.fill_bytes(&mut text),
            PayloadSpec::Text => {
                text.clear();
                while text.len() < BYTES {
                    text.extend_from_slice(WORDS[rng.random_range(0..WORDS.len())].as_bytes());
                }
                text.truncate(BYTES);
            }
        }
        Payload { text }
    }

    /// Gives `packet`, the `number`th of the source, all bytes of its frame.
    #[inline]
    pub(crate) fn fill(&self, packet: &mut Packet, number: u64) {
        let (ip, proto) = match packet.l3 {
            L3::V4 => (20, packet.data.get(ETHERNET + 9)),
            _ => (40, packet.data.get(ETHERNET + 6)),
        };
        let l4 = match proto.copied() {
            Some(PROTO_TCP) => 20,
            Some(PROTO_UDP) => 8,
            _ => 0,
        };
        let headers = ETHERNET + ip + l4;
        let bytes = (packet.frame_bytes as usize).saturating_sub(headers).min(BYTES);
        // The finaliser of SplitMix64, so that neighbours carry different stretches.
        let z = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        // Of all 64 bits, whatever a machine's addresses have.
        let at = ((z ^ z >> 27) % (BYTES - bytes + 1) as u64) as usize;
        packet.data.truncate(headers);
        packet.data.extend_from_slice(&self.text[at..at + bytes]);
    }
}
