//! Header check.
//!
//! **Computes** whether an IP packet may be forwarded at all: IPv4 by RFC 1812 5.2.2 (length,
//! version, header length, total length, checksum) and 5.3.7 (addresses that no packet on a wire
//! has), IPv6 by RFC 8200 3 and RFC 4291 2.5-2.7.
//!
//! **References per packet**: 3 loads from the mbuf (`buf_addr`, `data_off`, and the 16 bytes of
//! `packet_type`, `pkt_len`, `data_len`), which lie in one line, and one more (`ol_flags`, same line)
//! where the NIC's checksum verdict is used; then for IPv4 a load of 16 and one of 4 bytes of the
//! header, and one for each 4 bytes of options; for IPv6 8, 16 and 16 bytes. Best 0 header loads
//! (not IP), worst 12 (IPv4 with 40 bytes of options).
//!
//! **Regions**: the packet, its mbuf.
//!
//! Left out: processing of options (they are covered by the checksum and otherwise carried on),
//! packets for the router itself, directed broadcasts, IPv6 extension headers.
//!
//! **Source**: RFC 1812 (F. Baker, 1995). What is read where follows DPDK's `examples/l3fwd` with
//! `DO_RFC_1812_CHECKS`; mbuf offsets are those of DPDK 22.11 `lib/mbuf/rte_mbuf_core.h`.
//!
//! [`HeaderCheck`] is the check as a function of its own: what passes leaves by the other port of a pair.
//!
//! **See also** `ttl`, `forward`.

use packet::{L3, Packet, is_unicast_v4};
use probe::{Probe, Ref, RegionId, RegionSpec};
use units::Ps;

use crate::forward::ChecksumCheck;
use crate::tape::{Tape, TapeMark};
use crate::verdict::across;
use crate::{DropReason, PacketFunction, Verdict};

/// Places of references, in program order. Instructions are counted on x86-64: see
/// `tests/instructions.rs`.
pub(crate) mod site {
    pub(crate) const BUF_ADDR: u16 = 8;
    pub(crate) const DATA_OFF: u16 = 9;
    pub(crate) const RX_FIELDS: u16 = 10;
    pub(crate) const V4_HEADER: u16 = 11;
    pub(crate) const V4_DESTINATION: u16 = 12;
    pub(crate) const V4_OL_FLAGS: u16 = 13;
    pub(crate) const V4_OPTION: u16 = 14;
    pub(crate) const V4_OPTION_LATCH: u16 = 15;
    pub(crate) const V4_DONE: u16 = 16;
    pub(crate) const V6_HEADER: u16 = 17;
    pub(crate) const V6_SOURCE: u16 = 18;
    pub(crate) const V6_DESTINATION: u16 = 19;
    pub(crate) const V6_DONE: u16 = 20;
    pub(crate) const DONE: u16 = 21;
    pub(super) const LATCH: u16 = 22;
}

mod cost {
    pub(super) const NOT_IP: u32 = 40;
    pub(super) const V4: u32 = 80;
    pub(super) const V4_CHECKSUM: u32 = 23;
    pub(super) const V4_OPTION: u32 = 9;
    /// Of the loop over a burst, where the check stands alone.
    pub(super) const ALONE: u32 = 16;
    pub(super) const V6: u32 = 78;
}

/// Offsets in `struct rte_mbuf` (DPDK 22.11).
pub(crate) mod mbuf {
    pub(crate) const BUF_ADDR: u64 = 0;
    pub(crate) const DATA_OFF: u64 = 16;
    pub(crate) const OL_FLAGS: u64 = 24;
    /// `packet_type`, `pkt_len`, `data_len`, `vlan_tci`, RSS hash: 16 bytes.
    pub(crate) const RX_FIELDS: u64 = 32;
}

/// The header check alone.
#[derive(Clone, Debug)]
pub struct HeaderCheck {
    checksum: ChecksumCheck,
    ports: u16,
}

state::state!(HeaderCheck { values: [], arrays: [], parts: [], built: [checksum, ports] });

impl HeaderCheck {
    /// A check on a machine of `ports` ports; `checksum` says who verifies the IPv4 header checksum.
    pub fn new(checksum: ChecksumCheck, ports: u16) -> HeaderCheck {
        HeaderCheck { checksum, ports }
    }
}

impl PacketFunction for HeaderCheck {
    fn name(&self) -> &'static str {
        "check"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        Vec::new()
    }

    fn process_burst<P: Probe>(&mut self, _: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        let mut tape = Tape::new(probe);
        for packet in burst {
            tape.begin(packet.id);
            out.push(match headers(packet, self.checksum, &mut tape) {
                Ok(_) => Verdict::Forward { port: across(packet.port, self.ports) },
                Err(reason) => Verdict::Drop(reason),
            });
            tape.work(site::LATCH, cost::ALONE);
            tape.end(packet.id);
            tape.latch(site::LATCH);
        }
    }
}

/// A packet that may go on, with the reference its destination came from.
#[derive(Clone, Copy)]
pub(crate) enum Checked {
    V4(u32, TapeMark),
    V6(u128, TapeMark),
}

/// Loads where the packet's data lies, as `rte_pktmbuf_mtod` does.
#[inline(always)]
pub(crate) fn data_address<P: Probe>(tape: &mut Tape<'_, P>, buf_addr: u16, data_off: u16) -> TapeMark {
    tape.touch(Ref::load(RegionId::MBUF, mbuf::BUF_ADDR, 8, buf_addr));
    tape.touch(Ref::load(RegionId::MBUF, mbuf::DATA_OFF, 2, data_off))
}

/// Checks the headers of `packet`.
#[inline(always)]
pub(crate) fn headers<P: Probe>(
    packet: &Packet,
    checksum: ChecksumCheck,
    tape: &mut Tape<'_, P>,
) -> Result<Checked, DropReason> {
    let data = data_address(tape, site::BUF_ADDR, site::DATA_OFF);
    tape.touch(Ref::load(RegionId::MBUF, mbuf::RX_FIELDS, 16, site::RX_FIELDS));
    match packet.l3 {
        L3::V4 => ipv4(packet, checksum, data, tape),
        L3::V6 => ipv6(packet, data, tape),
        L3::Other => {
            tape.work(site::DONE, cost::NOT_IP);
            Err(DropReason::NotIp)
        }
    }
}

#[inline(always)]
fn ipv4<P: Probe>(
    packet: &Packet,
    checksum: ChecksumCheck,
    data: TapeMark,
    tape: &mut Tape<'_, P>,
) -> Result<Checked, DropReason> {
    let at = usize::from(packet.l3_offset);
    let Some(header) = packet.data.get(at..).and_then(|header| header.first_chunk::<20>()) else {
        tape.work(site::V4_DONE, cost::NOT_IP);
        return Err(DropReason::Truncated);
    };
    let offset = at as u64;
    tape.touch_after(data, Ref::load(RegionId::PACKET, offset, 16, site::V4_HEADER));
    let dst_mark = tape.touch_after(data, Ref::load(RegionId::PACKET, offset + 16, 4, site::V4_DESTINATION));
    let [w0, w1, w2, w3, w4] = words(header);
    let result = (|| {
        let [version_ihl, _, t0, t1] = w0.to_ne_bytes();
        let total = usize::from(u16::from_be_bytes([t0, t1]));
        let header_bytes = usize::from(version_ihl & 15) * 4;
        if version_ihl >> 4 != 4 {
            return Err(DropReason::BadVersion);
        }
        if header_bytes < 20 {
            return Err(DropReason::BadHeaderLength);
        }
        if total < header_bytes || total > (packet.frame_bytes as usize).saturating_sub(at) {
            return Err(DropReason::BadTotalLength);
        }
        match checksum {
            ChecksumCheck::Nic => {
                tape.touch(Ref::load(RegionId::MBUF, mbuf::OL_FLAGS, 8, site::V4_OL_FLAGS));
            }
            ChecksumCheck::Software => {
                let mut sum = [w0, w1, w2, w3, w4].map(u64::from).iter().sum();
                if header_bytes > 20 {
                    sum += options(packet, header_bytes, data, tape).ok_or(DropReason::Truncated)?;
                }
                tape.work(site::V4_DONE, cost::V4_CHECKSUM);
                if !folds_to_ones(sum) {
                    return Err(DropReason::BadChecksum);
                }
            }
        }
        let (src, dst) = (u32::from_be(w3), u32::from_be(w4));
        if is_unicast_v4(src) & is_unicast_v4(dst) { Ok(Checked::V4(dst, dst_mark)) } else { Err(special(src, dst)) }
    })();
    tape.work(site::V4_DONE, cost::V4);
    result
}

/// The five words of a header as they lie in memory: one load of 16 bytes and one of 4.
#[inline(always)]
fn words(header: &[u8; 20]) -> [u32; 5] {
    let word = |i: usize| u32::from_ne_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
    [word(0), word(4), word(8), word(12), word(16)]
}

/// The sum of the words of the options; [`None`] if they are not all there.
#[inline(always)]
fn options<P: Probe>(packet: &Packet, header_bytes: usize, data: TapeMark, tape: &mut Tape<'_, P>) -> Option<u64> {
    let at = usize::from(packet.l3_offset);
    let options = packet.data.get(at + 20..at + header_bytes)?;
    let mut sum = 0;
    for (i, word) in options.as_chunks::<4>().0.iter().enumerate() {
        let offset = (at + 20 + 4 * i) as u64;
        tape.touch_after(data, Ref::load(RegionId::PACKET, offset, 4, site::V4_OPTION));
        sum += u64::from(u32::from_ne_bytes(*word));
        tape.work(site::V4_OPTION_LATCH, cost::V4_OPTION);
        tape.latch(site::V4_OPTION_LATCH);
    }
    Some(sum)
}

/// Whether a sum of 32-bit words is all ones when folded to 16 bits: the header's checksum is
/// right (RFC 1071). One's complement sums do not depend on the byte order.
#[inline(always)]
fn folds_to_ones(sum: u64) -> bool {
    // At most 15 words: below 2^36.
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    (sum & 0xffff) + (sum >> 16) == 0xffff
}

#[cold]
fn special(src: u32, dst: u32) -> DropReason {
    let link_local = |addr: u32| addr >> 16 == 0xa9fe;
    if !is_unicast_v4(src) && !link_local(src) {
        return DropReason::SourceMartian;
    }
    match dst >> 24 {
        _ if dst == u32::MAX => DropReason::DestinationBroadcast,
        224..240 => DropReason::DestinationMulticast,
        _ if !is_unicast_v4(dst) && !link_local(dst) => DropReason::DestinationMartian,
        _ => DropReason::LinkLocal,
    }
}

#[inline(always)]
fn ipv6<P: Probe>(packet: &Packet, data: TapeMark, tape: &mut Tape<'_, P>) -> Result<Checked, DropReason> {
    let at = usize::from(packet.l3_offset);
    let Some(header) = packet.data.get(at..).and_then(|header| header.first_chunk::<40>()) else {
        tape.work(site::V6_DONE, cost::NOT_IP);
        return Err(DropReason::Truncated);
    };
    let offset = at as u64;
    tape.touch_after(data, Ref::load(RegionId::PACKET, offset, 8, site::V6_HEADER));
    tape.touch_after(data, Ref::load(RegionId::PACKET, offset + 8, 16, site::V6_SOURCE));
    let dst_mark = tape.touch_after(data, Ref::load(RegionId::PACKET, offset + 24, 16, site::V6_DESTINATION));
    let address = |i: usize| header[i..].first_chunk::<16>().map_or(0, |bytes| u128::from_be_bytes(*bytes));
    let (src, dst) = (address(8), address(24));
    tape.work(site::V6_DONE, cost::V6);
    let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 {
        return Err(DropReason::BadVersion);
    }
    if payload + 40 > (packet.frame_bytes as usize).saturating_sub(at) {
        return Err(DropReason::BadTotalLength);
    }
    let multicast = |addr: u128| addr >> 120 == 0xff;
    let link_local = |addr: u128| addr >> 118 == 0x3fa;
    if src <= 1 || multicast(src) {
        return Err(DropReason::SourceMartian);
    }
    if dst <= 1 {
        return Err(DropReason::DestinationMartian);
    }
    if multicast(dst) {
        return Err(DropReason::DestinationMulticast);
    }
    if link_local(src) || link_local(dst) {
        return Err(DropReason::LinkLocal);
    }
    Ok(Checked::V6(dst, dst_mark))
}
