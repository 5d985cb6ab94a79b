//! Receive-side scaling: the Toeplitz hash and its indirection table.

use std::net::IpAddr;

use packet::{FiveTuple, PROTO_TCP, PROTO_UDP};

/// The key of Microsoft's "Verifying the RSS hash calculation", which DPDK and most NICs use too.
pub const RSS_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b,
    0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac,
    0x01, 0xfa,
];

/// Entries of the indirection table (Intel XL710 and E810 have 512, 82599 has 128).
const INDIRECTION: usize = Toeplitz::ENTRIES;

/// Receive-side scaling: the Toeplitz hash of addresses and TCP or UDP ports, and an indirection
/// table filled round robin with queues.
#[derive(Clone, Debug)]
pub struct Toeplitz {
    /// The contribution of each byte value at each of 36 input positions.
    table: Box<[[u32; 256]; 36]>,
    queues: usize,
}

impl Toeplitz {
    /// Entries of the table by which queues are chosen: no more queues than that get packets.
    pub const ENTRIES: usize = 512;

    /// Spreads over `queues` queues (at least 1) with `key`.
    pub fn new(key: &[u8; 40], queues: u16) -> Toeplitz {
        let mut table = Box::new([[0u32; 256]; 36]);
        for (position, entries) in table.iter_mut().enumerate() {
            for (value, entry) in entries.iter_mut().enumerate() {
                for bit in (0..8).filter(|bit| value >> (7 - bit) & 1 == 1) {
                    // The 32 key bits that start at the input bit's position.
                    let window = key[position..].first_chunk::<5>().copied().unwrap_or_default();
                    let window = window.iter().fold(0u64, |w, &b| w << 8 | u64::from(b));
                    *entry ^= (window >> (8 - bit)) as u32;
                }
            }
        }
        Toeplitz { table, queues: usize::from(queues.max(1)) }
    }

    /// The 32-bit hash.
    pub fn hash(&self, tuple: &FiveTuple) -> u32 {
        let mut input = [0u8; 36];
        let mut n = match (tuple.src, tuple.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                input[..4].copy_from_slice(&src.octets());
                input[4..8].copy_from_slice(&dst.octets());
                8
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                input[..16].copy_from_slice(&src.octets());
                input[16..32].copy_from_slice(&dst.octets());
                32
            }
            _ => 0,
        };
        if matches!(tuple.proto, PROTO_TCP | PROTO_UDP) {
            input[n..n + 2].copy_from_slice(&tuple.src_port.to_be_bytes());
            input[n + 2..n + 4].copy_from_slice(&tuple.dst_port.to_be_bytes());
            n += 4;
        }
        input[..n].iter().zip(self.table.iter()).fold(0, |hash, (&byte, entries)| hash ^ entries[usize::from(byte)])
    }

    /// The queue a packet goes to; packets without an IP header go to queue 0.
    pub fn queue(&self, tuple: Option<&FiveTuple>) -> usize {
        tuple.map_or(0, |t| self.hash(t) as usize % INDIRECTION % self.queues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Microsoft, "Verifying the RSS hash calculation": destination, source, hashes with and
    /// without ports.
    #[test]
    fn published_vectors_hash_as_published() {
        let rss = Toeplitz::new(&RSS_KEY, 4);
        for (dst, dst_port, src, src_port, ip, tcp) in [
            ("161.142.100.80", 1766, "66.9.149.187", 2794, 0x323e8fc2u32, 0x51ccc178u32),
            ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xd718262a, 0xc626b0ea),
            ("12.22.207.184", 38024, "24.19.198.95", 12898, 0xd2d0a5de, 0x5c2b394a),
            ("209.142.163.6", 2217, "38.27.205.30", 48228, 0x82989176, 0xafc7327f),
            ("202.188.127.2", 1303, "153.39.163.191", 44251, 0x5d1809c5, 0x10e828a2),
            ("3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2cc18cd5, 0x40207d3d),
        ] {
            let tuple =
                |proto| FiveTuple { src: src.parse().unwrap(), dst: dst.parse().unwrap(), proto, src_port, dst_port };
            assert_eq!(rss.hash(&tuple(0)), ip, "{src} -> {dst}");
            assert_eq!(rss.hash(&tuple(PROTO_TCP)), tcp, "{src} -> {dst}");
        }
    }
}
