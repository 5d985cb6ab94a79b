//! The GTP-U header: what a tunnel endpoint reads of it, and what it writes.
//!
//! **Computes** where the tunnelled packet lies and which tunnel it came by, through the optional
//! fields and the chain of extension headers; the bytes of an outer header.
//!
//! **References per packet**: a load of 8 bytes, one of 4 where an optional field is there, and one
//! of 4 for each extension header.
//!
//! **Regions**: the packet.
//!
//! Left out: path management (echo), error indications and end markers are recognised and left to
//! the control plane; sequence numbers are read past, not put in order.
//!
//! **Source**: 3GPP TS 29.281 V17, 5.1 and 5.2 (header, extension headers); TS 38.415 V17, 5.5.2
//! (PDU session container).

use std::net::Ipv4Addr;

use packet::{ETHERTYPE_IPV4, PROTO_UDP};
use probe::{Null, Probe, Ref, RegionId};

use super::site;
use crate::DropReason;
use crate::tape::{Tape, TapeMark};

/// The UDP port of GTP-U (TS 29.281 4.4.2.1).
pub const GTPU_PORT: u16 = 2152;
/// The message type that carries a user's packet, G-PDU.
pub const GPDU: u8 = 255;
/// The extension header with the QoS flow identifier (TS 38.415).
pub const PDU_SESSION_CONTAINER: u8 = 0x85;
/// Bytes that go in front of a user's packet: Ethernet, IPv4, UDP, GTP-U with a PDU session
/// container.
pub const OUTER_BYTES: usize = 14 + 20 + 8 + GTPU_BYTES;
const GTPU_BYTES: usize = 16;

const HAS_EXTENSION: u8 = 4;
const HAS_OPTIONS: u8 = 7;
const PROTOCOL_TYPE: u8 = 0x10;
/// An endpoint has to comprehend extension headers with this bit (TS 29.281 5.2.1, figure 5.2.1-2).
const COMPREHENSION_REQUIRED: u8 = 0x80;
/// Extension headers that an endpoint may meet and read past (TS 29.281 5.2.1, figure 5.2.1-3): RAN
/// container, Xw RAN container, NR RAN container, PDCP PDU numbers.
const READ_PAST: [u8; 5] = [0x81, 0x82, 0x83, 0x84, 0xc0];

/// What a GTP-U header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gtpu {
    /// The message type: [`GPDU`] for a user's packet.
    pub message: u8,
    /// The tunnel endpoint identifier.
    pub teid: u32,
    /// The QoS flow identifier, where a PDU session container is there.
    pub qfi: Option<u8>,
    /// How many extension headers there are.
    pub extensions: u16,
    /// Where what the message carries begins, from the start of the data.
    pub payload: usize,
    /// Where it ends.
    pub end: usize,
}

/// Reads the header at the start of a UDP payload of `bytes` bytes, of which `data` are there.
///
/// # Errors
/// Why a tunnel endpoint discards the message. Any message type is read.
pub fn parse(data: &[u8], bytes: usize) -> Result<Gtpu, DropReason> {
    let mut null = Null;
    read(data, 0, bytes, TapeMark::default(), &mut Tape::new(&mut null))
}

/// Reads the header at `at`, in a UDP payload that ends before `end`.
#[inline(always)]
pub(super) fn read<P: Probe>(
    data: &[u8],
    at: usize,
    end: usize,
    from: TapeMark,
    tape: &mut Tape<'_, P>,
) -> Result<Gtpu, DropReason> {
    if at + 8 > end {
        return Err(DropReason::GtpuTruncated);
    }
    let Some(header) = data.get(at..).and_then(|d| d.first_chunk::<8>()) else {
        return Err(DropReason::Truncated);
    };
    tape.touch_after(from, Ref::load(RegionId::PACKET, at as u64, 8, site::GTPU));
    let [flags, message, l0, l1, t0, t1, t2, t3] = *header;
    if flags >> 5 != 1 {
        return Err(DropReason::GtpuBadVersion);
    }
    if flags & PROTOCOL_TYPE == 0 {
        return Err(DropReason::GtpPrime);
    }
    let mut payload = at + 8;
    let message_end = payload + usize::from(u16::from_be_bytes([l0, l1]));
    if message_end > end {
        return Err(DropReason::GtpuBadLength);
    }
    let (mut qfi, mut extensions) = (None, 0);
    if flags & HAS_OPTIONS != 0 {
        if payload + 4 > message_end {
            return Err(DropReason::GtpuTruncated);
        }
        let Some(&[_, _, _, next]) = data.get(payload..).and_then(|d| d.first_chunk::<4>()) else {
            return Err(DropReason::Truncated);
        };
        tape.touch_after(from, Ref::load(RegionId::PACKET, payload as u64, 4, site::GTPU_OPTIONS));
        payload += 4;
        let mut next = if flags & HAS_EXTENSION != 0 { next } else { 0 };
        // A header is at least 4 bytes, so the chain ends with the message.
        while next != 0 {
            if payload + 4 > message_end {
                return Err(DropReason::GtpuBadExtension);
            }
            let Some(&[words, _, flow, _]) = data.get(payload..).and_then(|d| d.first_chunk::<4>()) else {
                return Err(DropReason::Truncated);
            };
            tape.touch_after(from, Ref::load(RegionId::PACKET, payload as u64, 4, site::GTPU_EXTENSION));
            let bytes = usize::from(words) * 4;
            if bytes == 0 || payload + bytes > message_end {
                return Err(DropReason::GtpuBadExtension);
            }
            if next == PDU_SESSION_CONTAINER {
                qfi = Some(flow & 0x3f);
            } else if next & COMPREHENSION_REQUIRED != 0 && !READ_PAST.contains(&next) {
                return Err(DropReason::GtpuUnknownExtension);
            }
            payload += bytes;
            let Some(&following) = data.get(payload - 1) else {
                return Err(DropReason::Truncated);
            };
            next = following;
            extensions += 1;
            tape.work(site::GTPU_EXTENSION_LATCH, super::cost::EXTENSION);
            tape.latch(site::GTPU_EXTENSION_LATCH);
        }
    }
    let teid = u32::from_be_bytes([t0, t1, t2, t3]);
    Ok(Gtpu { message, teid, qfi, extensions, payload, end: message_end })
}

/// A tunnel's far end, and how to get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outer {
    pub(super) dst_mac: [u8; 6],
    pub(super) src_mac: [u8; 6],
    pub(super) src: Ipv4Addr,
    pub(super) dst: Ipv4Addr,
    pub(super) teid: u32,
    pub(super) qfi: u8,
}

/// The outer header of a user's packet of `inner` bytes, downlink: IPv4 with a right checksum and
/// without fragmentation, UDP without checksum (TS 29.281 4.4.2.3 permits that over IPv4), a G-PDU with
/// a PDU session container.
#[inline(always)]
pub(super) fn outer_header(to: &Outer, inner: u16) -> [u8; OUTER_BYTES] {
    let mut out = [0u8; OUTER_BYTES];
    out[..6].copy_from_slice(&to.dst_mac);
    out[6..12].copy_from_slice(&to.src_mac);
    out[12..14].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
    let udp = inner.saturating_add((8 + GTPU_BYTES) as u16);
    out[14..18].copy_from_slice(&[0x45, 0, 0, 0]);
    out[16..18].copy_from_slice(&udp.saturating_add(20).to_be_bytes());
    // Don't fragment; time to live 64.
    out[20..24].copy_from_slice(&[0x40, 0, 64, PROTO_UDP]);
    out[26..30].copy_from_slice(&to.src.octets());
    out[30..34].copy_from_slice(&to.dst.octets());
    out[24..26].copy_from_slice(&checksum(udp.saturating_add(20), to.src.into(), to.dst.into()).to_be_bytes());
    out[34..36].copy_from_slice(&GTPU_PORT.to_be_bytes());
    out[36..38].copy_from_slice(&GTPU_PORT.to_be_bytes());
    out[38..40].copy_from_slice(&udp.to_be_bytes());
    out[42] = 0x20 | PROTOCOL_TYPE | HAS_EXTENSION;
    out[43] = GPDU;
    out[44..46].copy_from_slice(&inner.saturating_add(8).to_be_bytes());
    out[46..50].copy_from_slice(&to.teid.to_be_bytes());
    // One word: PDU type 0 (downlink), the flow, and no further extension header.
    out[53..58].copy_from_slice(&[PDU_SESSION_CONTAINER, 1, 0, to.qfi & 0x3f, 0]);
    out
}

/// The checksum of the outer IPv4 header, of which only length and addresses vary (RFC 1071).
#[inline(always)]
fn checksum(total: u16, src: u32, dst: u32) -> u16 {
    const FIXED: u32 = 0x4500 + 0x4000 + (64 << 8) + PROTO_UDP as u32;
    let sum = FIXED + u32::from(total) + (src >> 16) + (src & 0xffff) + (dst >> 16) + (dst & 0xffff);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use packet::internet_checksum;

    use super::*;
    use DropReason::*;

    #[test]
    fn headers_are_read_through_options_and_extensions() {
        let plain = [0x30, 255, 0, 20, 0, 0, 0, 7];
        let read = parse(&[&plain[..], &[0; 20]].concat(), 28).unwrap();
        assert_eq!((read.teid, read.payload, read.end, read.qfi), (7, 8, 28, None));
        // Sequence number only: the type of the next extension header is not evaluated.
        let sequence = [0x32, 255, 0, 6, 0, 0, 0, 1, 0, 9, 0, 0x85, 0x45, 0];
        assert_eq!(parse(&sequence, 14).map(|g| (g.payload, g.extensions)), Ok((12, 0)));
        let chain = [0x34, 255, 0, 13, 0, 0, 0, 1, 0, 0, 0, 0x40, 1, 8, 0x68, 0x85, 1, 0x10, 0x49, 0, 0x45];
        let read = parse(&chain, 21).unwrap();
        assert_eq!((read.extensions, read.qfi, read.payload, read.end), (2, Some(9), 20, 21));
    }

    #[test]
    fn every_lie_has_its_reason() {
        let header = |flags: u8, message: u8, length: u16| {
            [&[flags, message][..], &length.to_be_bytes(), &[0, 0, 0, 1], &[0; 16]].concat()
        };
        let chain = |tail: &[u8]| [&[0x34, 255, 0, 4 + tail.len() as u8, 0, 0, 0, 1, 0, 0, 0, 0x85][..], tail].concat();
        for (bytes, expected) in [
            (vec![0x30, 255, 0, 0, 0, 0, 0], GtpuTruncated),
            (header(0x32, 255, 3), GtpuTruncated),
            (header(0x50, 255, 0), GtpuBadVersion),
            (header(0x10, 255, 0), GtpuBadVersion),
            (header(0x20, 255, 0), GtpPrime),
            (header(0x30, 255, 17), GtpuBadLength),
            (chain(&[]), GtpuBadExtension),
            (chain(&[0, 0, 0, 0]), GtpuBadExtension),
            (chain(&[2, 0, 0, 0]), GtpuBadExtension),
            (chain(&[1, 0, 0, 0x85]), GtpuBadExtension),
            (chain(&[1, 0, 0, 0xa0, 1, 0, 0, 0]), GtpuUnknownExtension),
        ] {
            assert_eq!(parse(&bytes, bytes.len()), Err(expected), "{bytes:x?}");
        }
        // What a capture has cut off is not the sender's fault.
        assert_eq!(parse(&header(0x30, 255, 400), 408).map(|g| g.end), Ok(408));
        assert_eq!(parse(&[0x30, 255], 408), Err(Truncated));
    }

    #[test]
    fn an_outer_header_reads_back() {
        let to = Outer {
            dst_mac: [1; 6],
            src_mac: [2; 6],
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
            teid: 0xdead_beef,
            qfi: 9,
        };
        let header = outer_header(&to, 100);
        assert_eq!(internet_checksum(&header[14..34]), 0);
        let layers = packet::layers(&header).unwrap();
        assert_eq!((layers.five_tuple.dst, layers.five_tuple.dst_port), (to.dst.into(), GTPU_PORT));
        let frame = [&header[..], &[0x45; 100]].concat();
        let read = parse(&frame[42..], 116).unwrap();
        assert_eq!((read.teid, read.qfi, read.message, read.payload, read.end), (0xdead_beef, Some(9), GPDU, 16, 116));
        assert_eq!(u16::from_be_bytes([frame[16], frame[17]]) as usize, frame.len() - 14);
        assert_eq!(u16::from_be_bytes([frame[38], frame[39]]) as usize, frame.len() - 34);
    }
}
