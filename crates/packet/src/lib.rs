//! Packets and what describes them: headers, five-tuples, prefixes, mbufs, descriptors.
//!
//! A [`Packet`] always starts with an Ethernet header: `traffic` puts one in front of packets from
//! captures of other link types. Bytes are real bytes of the capture, as far as it kept them.

#![forbid(unsafe_code)]

mod address;
mod header;
mod layout;
mod prefix;
mod rule;

pub use address::{is_unicast_v4, is_unicast_v6};
pub use header::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, FiveTuple, L3, Layers, Malformed, PROTO_ICMP, PROTO_ICMPV6, PROTO_TCP, PROTO_UDP,
    internet_checksum, layers, update_checksum,
};
pub use layout::{
    ETHERNET_FCS_BYTES, ETHERNET_HEADER_BYTES, ETHERNET_OVERHEAD_BYTES, MBUF_DATA_ROOM_BYTES, MBUF_HEADER_BYTES,
    MBUF_HEADROOM_BYTES, MIN_FRAME_BYTES, RX_DESCRIPTOR_BYTES, TX_DESCRIPTOR_BYTES, USUAL_FRAME_BYTES,
    USUAL_FRAME_LINES,
};
pub use prefix::{Prefix, PrefixError};
pub use rule::{Rule, RuleError, RuleFields};

use units::{PacketId, PortId, Ps};

/// A packet on its way through a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Packet {
    /// Its number in order of arrival.
    pub id: PacketId,
    /// When its last bit was received.
    pub arrival: Ps,
    /// The port it came in by.
    pub port: PortId,
    /// Bytes of the frame without its FCS, as captures count them; at least `data.len()`.
    pub frame_bytes: u32,
    /// Where the network header starts: what a NIC's parser reports with the packet type. 0 when
    /// there is none.
    pub l3_offset: u16,
    /// The network protocol found there.
    pub l3: L3,
    /// Bytes by which the frame starts behind where the NIC wrote it, or, where negative, before it in the
    /// headroom: how far `data_off` of the mbuf has moved.
    pub moved: i32,
    /// The bytes that are there, from the Ethernet header on: all of the frame or its first part.
    pub data: Vec<u8>,
}

impl Packet {
    /// Bytes the frame takes on the wire, with FCS, padding to 64 bytes, preamble and gap (L1).
    #[inline]
    pub fn wire_bytes(&self) -> u64 {
        self.l2_bytes() + ETHERNET_OVERHEAD_BYTES
    }

    /// Bytes of the frame with FCS, at least 64 (L2).
    #[inline]
    pub fn l2_bytes(&self) -> u64 {
        (u64::from(self.frame_bytes) + ETHERNET_FCS_BYTES).max(MIN_FRAME_BYTES)
    }

    /// Replaces the bytes with a frame's, keeping the allocation, and parses its layers.
    pub fn set_frame(&mut self, data: &[u8], frame_bytes: u32) {
        self.data.clear();
        self.data.extend_from_slice(data);
        self.frame_bytes = frame_bytes.max(data.len() as u32);
        self.parse();
    }

    /// Sets `l3_offset` and `l3` from the bytes.
    pub fn parse(&mut self) {
        match header::network_header(&self.data) {
            Some((offset, l3)) => (self.l3_offset, self.l3) = (offset, l3),
            None => (self.l3_offset, self.l3) = (0, L3::Other),
        }
    }
}
