//! Sizes that a NIC driver's data structures have. They decide which lines a packet touches.

/// Destination, source, EtherType.
pub const ETHERNET_HEADER_BYTES: u64 = 14;
/// The frame check sequence, which captures leave out.
pub const ETHERNET_FCS_BYTES: u64 = 4;
/// Preamble, start delimiter and inter-frame gap: on the wire, but not in the frame (IEEE 802.3).
pub const ETHERNET_OVERHEAD_BYTES: u64 = 20;
/// The shortest frame, FCS included (IEEE 802.3).
pub const MIN_FRAME_BYTES: u64 = 64;
/// The longest frame without tag and of no jumbo, FCS included (IEEE 802.3).
pub const USUAL_FRAME_BYTES: u64 = 1518;
/// Its lines.
pub const USUAL_FRAME_LINES: u32 = USUAL_FRAME_BYTES.div_ceil(units::LINE_BYTES) as u32;

/// `struct rte_mbuf`: two lines, the first with the receive fields, the second with `next` and
/// `pool` (DPDK 22.11, `lib/mbuf/rte_mbuf_core.h`).
pub const MBUF_HEADER_BYTES: u64 = 128;
/// `RTE_PKTMBUF_HEADROOM` (DPDK 22.11, `config/rte_config.h`).
pub const MBUF_HEADROOM_BYTES: u64 = 128;
/// `RTE_MBUF_DEFAULT_DATAROOM` (DPDK 22.11, `lib/mbuf/rte_mbuf_core.h`).
pub const MBUF_DATA_ROOM_BYTES: u64 = 2048;

/// A receive descriptor with its write-back: 32 bytes in the flexible format of Intel's E810 and
/// XL710 (DPDK 22.11, `drivers/net/i40e/base/i40e_type.h`, `i40e_32byte_rx_desc`).
pub const RX_DESCRIPTOR_BYTES: u64 = 32;
/// A transmit descriptor (DPDK 22.11, `drivers/net/i40e/base/i40e_type.h`, `i40e_tx_desc`).
pub const TX_DESCRIPTOR_BYTES: u64 = 16;
