//! What a driver touches and costs: the numbers in which drivers differ.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::LINE_BYTES;

use super::Refill;
use crate::MachineError;
use crate::cache::gcd;

/// Mbufs that a driver posts or gives back at once, at most.
pub(super) const MOST_BULK: usize = 64;

/// When a driver gives sent mbufs back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reclaim {
    /// Once fewer than `tx_bulk` descriptors are free, so that the ring is full of sent mbufs: Intel's drivers
    /// (`tx_free_thresh`).
    #[default]
    Full,
    /// As soon as the NIC has told of `tx_bulk` of them: mlx5, VPP's RDMA driver, ixy.
    Done,
}

/// Where a NIC tells of sent packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TxCompletions {
    /// It writes their descriptors back, to the end of the last one's: DPDK's drivers of Intel NICs, ixy, ixgbe of Linux.
    #[default]
    Descriptor,
    /// To a ring of its own, an entry each time: mlx5, mlx5e.
    Ring,
    /// To one place, how far it is: i40e of Linux (`head_wb_ena`).
    Head,
}

/// A NIC's driver: the bytes of what it shares with the NIC, what it does to mbufs, and its instructions. Left out it is one of
/// the order of i40e's scalar path in DPDK 22.11, with assumed instructions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DriverSpec {
    /// The shipped driver that fills in what is left out.
    // Not skipped: queues are written as part of a server's state, where each field has its place.
    pub preset: Option<String>,
    /// Bytes of a receive descriptor: 16, 32 or 64.
    pub rx_descriptor: u32,
    /// Bytes of a completion, which the NIC writes to a ring of its own for each received packet: 16, 32 or 64; 0 where it writes
    /// to the descriptor.
    pub rx_completion: u32,
    /// The NIC writes completions of 8 bytes, eight to a line, for packets that look alike.
    pub compressed: bool,
    /// The NIC writes back each receive descriptor in a write of its own. Otherwise those of a line go together.
    pub single_write_backs: bool,
    /// Of compressed completions the driver writes the last byte of every slot that they stand for.
    pub returns_slots: bool,
    /// Bytes of an entry of the driver's own array beside the receive ring, 4 to 64.
    pub rx_entry: u32,
    /// Mbufs that are posted at once, 1 to 64.
    pub rx_bulk: u32,
    /// Whether the program's first core fills all rings before any core polls, an mbuf at a time through its cache of the pool, as
    /// `rte_eth_dev_start` does. Otherwise each core fills its own at once.
    pub filled_by_first: bool,
    /// Whether a refill rings a doorbell, which is a store to the NIC. Otherwise it writes a record in memory, which the NIC reads.
    pub rx_doorbell: bool,
    /// Bytes of a transmit descriptor or of a work queue entry, 16 to 256.
    pub tx_descriptor: u32,
    /// Bytes at the head of a packet that the driver copies into the descriptor, up to 1024. A packet that is no longer is not
    /// read by the NIC.
    pub tx_copied: u32,
    /// Sent packets that the NIC tells of at once, 1 to 64; 0 where it tells of each burst with its last packet.
    pub tx_completion_every: u32,
    /// Bytes that it writes to tell of them, 4 to 256.
    pub tx_completion: u32,
    /// Where.
    pub tx_completion_to: TxCompletions,
    /// Bytes of an entry of the driver's own array beside the transmit ring, 4 to 64.
    pub tx_entry: u32,
    /// Sent mbufs that are given back at once, 1 to 64.
    pub tx_bulk: u32,
    /// When they are.
    pub reclaim: Reclaim,
    /// Lines of an mbuf that are read when it is given back without `fast_free`: 1, or 2 as `rte_pktmbuf_prefree_seg` does.
    pub freed_lines: u32,
    /// The first line of each mbuf is written when it is given back, as VPP does from its template.
    pub rewrites_freed: bool,
    /// Instructions of a received packet.
    pub rx_instructions: u32,
    /// Of a posted mbuf, the pool's not counted.
    pub post_instructions: u32,
    /// Of a sent packet.
    pub tx_instructions: u32,
    /// Of an mbuf that is given back, the pool's not counted.
    pub free_instructions: u32,
    /// Of a poll.
    pub call_instructions: u32,
}

impl Default for DriverSpec {
    /// Instructions are assumed, of the order of the scalar paths of i40e in DPDK 22.11. `struct i40e_rx_entry` is a pointer,
    /// `struct i40e_tx_entry` a pointer and two indices; `rx_free_thresh` and `tx_rs_thresh` are 32.
    fn default() -> DriverSpec {
        DriverSpec {
            preset: None,
            rx_descriptor: packet::RX_DESCRIPTOR_BYTES as u32,
            rx_completion: 0,
            compressed: false,
            single_write_backs: false,
            returns_slots: false,
            rx_entry: 8,
            rx_bulk: 32,
            filled_by_first: false,
            rx_doorbell: true,
            tx_descriptor: packet::TX_DESCRIPTOR_BYTES as u32,
            tx_copied: 0,
            tx_completion_every: 32,
            tx_completion: packet::TX_DESCRIPTOR_BYTES as u32,
            tx_completion_to: TxCompletions::Descriptor,
            tx_entry: 16,
            tx_bulk: 32,
            reclaim: Reclaim::Full,
            freed_lines: 2,
            rewrites_freed: false,
            rx_instructions: 30,
            post_instructions: 8,
            tx_instructions: 20,
            free_instructions: 8,
            call_instructions: 40,
        }
    }
}

const MOST_INSTRUCTIONS: u32 = 100_000;

impl DriverSpec {
    /// Whether it is the one that stands where nothing is said.
    pub(super) fn is_default(&self) -> bool {
        *self == DriverSpec::default()
    }

    /// Bytes that the NIC writes when it has received a packet, beside the packet.
    pub fn written(&self) -> u64 {
        match (self.rx_completion, self.compressed) {
            (0, _) => self.rx_descriptor.into(),
            (_, true) => 8,
            (bytes, false) => bytes.into(),
        }
    }

    /// Whether what the NIC writes at `offset` of its ring for a received packet begins a write, and does not go with others of its line.
    pub fn begins_write(&self, offset: u64) -> bool {
        self.single_write_backs && self.rx_completion == 0 || offset.is_multiple_of(LINE_BYTES)
    }

    /// Where it tells of what is sent beside the descriptors: so many places for a transmit ring of `descriptors`, and the bytes from one to
    /// the next.
    pub(super) fn tx_completions(&self, descriptors: u32) -> (u64, u64) {
        let places = match self.tx_completion_to {
            TxCompletions::Descriptor => 0,
            TxCompletions::Ring => u64::from(descriptors).div_ceil(u64::from(self.tx_completion_every.max(1))),
            TxCompletions::Head => 1,
        };
        let alone = self.tx_completion_to == TxCompletions::Head;
        let bytes = u64::from(self.tx_completion);
        (places, if alone { bytes.next_multiple_of(LINE_BYTES) } else { bytes })
    }

    /// Descriptors that a transmit ring must have, so that one that is full always has a bulk that the NIC has told of.
    pub(super) fn least_tx_descriptors(&self) -> u32 {
        let (bulk, every) = (self.tx_bulk, self.tx_completion_every);
        match every {
            0 => bulk,
            every => bulk + every - gcd(bulk.into(), every.into()) as u32,
        }
    }

    /// Instructions of a packet that is received and sent, in bursts of `burst`; the pool's are not among them.
    pub fn instructions(&self, burst: u32) -> f64 {
        let packet = self.rx_instructions + self.post_instructions + self.tx_instructions + self.free_instructions;
        f64::from(packet) + f64::from(self.call_instructions) / f64::from(burst.max(1))
    }

    /// Checks the ranges. `path` is where the specification stands in the scenario, `refill` what is done to a fresh mbuf.
    ///
    /// # Errors
    /// A value outside its range, compressed completions of none.
    pub(super) fn check(&self, path: &str, refill: Refill) -> Result<(), MachineError> {
        let remedy = "see the shipped drivers";
        let error = |field: &str, came: String, allowed: String| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        // Those of a line begin with it, so that a device fetches and writes whole ones.
        let in_lines = |n: u32| [16, 32, 64].contains(&n);
        for (field, value, or_none) in
            [("rx_descriptor", self.rx_descriptor, false), ("rx_completion", self.rx_completion, true)]
        {
            if !(in_lines(value) || or_none && value == 0) {
                let allowed = if or_none { "0, 16, 32 and 64" } else { "16, 32 and 64" };
                return error(field, value.to_string(), allowed.into());
            }
        }
        let line = LINE_BYTES as u32;
        for (field, value, least, most) in [
            ("rx_entry", self.rx_entry, 4, line),
            ("rx_bulk", self.rx_bulk, 1, MOST_BULK as u32),
            ("tx_descriptor", self.tx_descriptor, 16, 4 * line),
            ("tx_copied", self.tx_copied, 0, 1024),
            ("tx_completion_every", self.tx_completion_every, 0, MOST_BULK as u32),
            ("tx_completion", self.tx_completion, 4, 4 * line),
            ("tx_entry", self.tx_entry, 4, line),
            ("tx_bulk", self.tx_bulk, 1, MOST_BULK as u32),
            ("freed_lines", self.freed_lines, 1, 2),
            ("rx_instructions", self.rx_instructions, 0, MOST_INSTRUCTIONS),
            ("post_instructions", self.post_instructions, 0, MOST_INSTRUCTIONS),
            ("tx_instructions", self.tx_instructions, 0, MOST_INSTRUCTIONS),
            ("free_instructions", self.free_instructions, 0, MOST_INSTRUCTIONS),
            ("call_instructions", self.call_instructions, 0, MOST_INSTRUCTIONS),
        ] {
            if !(least..=most).contains(&value) {
                return error(field, value.to_string(), format!("{least} to {most}"));
            }
        }
        if refill == Refill::Written && self.rx_bulk > 32 {
            return error("rx_bulk", self.rx_bulk.to_string(), "at most 32 where refill = \"written\"".into());
        }
        if self.compressed && self.rx_completion == 0 {
            return error(
                "compressed",
                "true".into(),
                "with completions in a ring of their own (rx_completion)".into(),
            );
        }
        Ok(())
    }
}
