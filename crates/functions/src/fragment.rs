//! Fragmentation.
//!
//! **Computes** fragments of IPv4 packets longer than the MTU: payload in multiples of 8 bytes, offsets and the more
//! fragments flag on top of those the packet came with, options as their copied flag says, header checksums. What may not be
//! fragmented (DF, IPv6) gets the verdict that an ICMP message is due. The first fragment takes the packet's place, the
//! others are new packets with its number: [`Fragment::fragments`]. Bytes are really cut and copied.
//!
//! **References per packet**: 3 mbuf loads (where the data lies; type and length), 2 header loads (16 and 4 bytes): 5 for what
//! fits. Cut into n fragments: 1 load for each option of the header, 2 header stores and 1 mbuf store for the first one; for
//! each other one 1 load of a free buffer's address (8 bytes), 1 store of its header, a copy of its payload (a load and a
//! store for each line), 1 store of its length. Best 3 (not IP).
//!
//! **Regions**: buffers (2048 bytes each, or as many as the MTU needs), their ring (8 bytes each), shared by the cores;
//! the packet and its mbuf.
//!
//! Left out: the ICMP message itself; chains of mbufs in place of copies, as DPDK's `rte_ipv4_fragment_packet` makes them;
//! reassembly; IPv6 fragments, which only sources make.
//!
//! **Source**: RFC 791 (J. Postel, 1981), sections 2.3 and 3.2 (the example fragmentation procedure) and 3.1 (options); RFC 1812
//! 4.2.2.7; RFC 8200 5.
//!
//! **See also** `ttl`, `forward`.

use packet::{L3, Packet, internet_checksum};
use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{LINE_BYTES, PortId, Ps};

use crate::check::{data_address, mbuf};
use crate::tape::Tape;
use crate::verdict::across;
use crate::{DropReason, FunctionError, PacketFunction, Verdict};

const BUFFERS: RegionId = RegionId::FIRST_TABLE;
const RING: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 1);
const BUFFER_BYTES: u64 = 2048;
const RING_ENTRY_BYTES: u64 = 8;
/// What every link carries in one piece (RFC 791 3.2).
const LEAST_MTU: u32 = 68;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;
const COPIED: u8 = 0x80;
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;

/// Places of references, in program order.
mod site {
    pub(super) const BUF_ADDR: u16 = 0;
    pub(super) const DATA_OFF: u16 = 1;
    pub(super) const RX_FIELDS: u16 = 2;
    pub(super) const V4_HEADER: u16 = 3;
    pub(super) const V4_DESTINATION: u16 = 4;
    pub(super) const V6_HEADER: u16 = 5;
    pub(super) const MEASURED: u16 = 6;
    pub(super) const OPTION: u16 = 7;
    pub(super) const OPTION_LATCH: u16 = 8;
    pub(super) const RING: u16 = 9;
    pub(super) const HEADER_STORE: u16 = 10;
    pub(super) const COPY_FROM: u16 = 11;
    pub(super) const COPY_TO: u16 = 12;
    pub(super) const LENGTH_STORE: u16 = 13;
    pub(super) const FRAGMENT_LATCH: u16 = 14;
    pub(super) const FIRST_STORE: u16 = 15;
    pub(super) const FIRST_CHECKSUM: u16 = 16;
    pub(super) const FIRST_LENGTH: u16 = 17;
    pub(super) const DONE: u16 = 18;
    pub(super) const LATCH: u16 = 19;
}

/// Instructions of each part as compiled for x86-64; see `tests/instructions.rs`.
mod cost {
    pub(super) const NOT_IP: u32 = 40;
    pub(super) const V6: u32 = 63;
    pub(super) const MEASURED: u32 = 69;
    pub(super) const SET_UP: u32 = 298;
    pub(super) const OPTION: u32 = 15;
    pub(super) const FRAGMENT: u32 = 408;
    pub(super) const LINE: u32 = 2;
}

/// How packets are fragmented.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FragmentSpec {
    /// Bytes of the largest IP packet that the next link carries; 68 to 65535.
    pub mtu: u32,
    /// Buffers for fragments, used in turn; 1 to 1048576.
    pub buffers: u32,
}

impl Default for FragmentSpec {
    fn default() -> FragmentSpec {
        FragmentSpec { mtu: 1500, buffers: 8192 }
    }
}

/// Fragmentation. See the module header.
#[derive(Clone, Debug)]
pub struct Fragment {
    mtu: usize,
    ports: u16,
    buffers: u64,
    buffer_bytes: u64,
    next: u64,
    /// Of the latest burst; packets behind `made` are kept for their memory.
    fragments: Vec<Packet>,
    made: usize,
}

impl Fragment {
    /// Fragmentation for the links of a machine of `ports` ports.
    ///
    /// # Errors
    /// An MTU or a number of buffers outside its range.
    pub fn new(spec: &FragmentSpec, ports: u16) -> Result<Fragment, FunctionError> {
        let error = |path, came: u32, allowed: &str, remedy| {
            Err(FunctionError::Spec { path, came: came.to_string(), allowed: allowed.into(), remedy })
        };
        if !(LEAST_MTU..=65535).contains(&spec.mtu) {
            return error("fragment.mtu", spec.mtu, "68 to 65535", "every link carries 68 bytes: RFC 791");
        }
        if !(1..=1 << 20).contains(&spec.buffers) {
            return error("fragment.buffers", spec.buffers, "1 to 1048576", "take as many as mbufs");
        }
        let frame = u64::from(spec.mtu) + 14 + 64;
        Ok(Fragment {
            mtu: spec.mtu as usize,
            ports,
            buffers: spec.buffers.into(),
            buffer_bytes: frame.next_multiple_of(BUFFER_BYTES),
            next: 0,
            fragments: Vec::new(),
            made: 0,
        })
    }

    /// The fragments after the first of the packets of the latest burst: those of a packet have its number, and are in
    /// order.
    pub fn fragments(&self) -> &[Packet] {
        &self.fragments[..self.made]
    }

    #[inline(always)]
    fn one<P: Probe>(&mut self, packet: &mut Packet, tape: &mut Tape<'_, P>) -> Result<PortId, DropReason> {
        let data = data_address(tape, site::BUF_ADDR, site::DATA_OFF);
        tape.touch(Ref::load(RegionId::MBUF, mbuf::RX_FIELDS, 16, site::RX_FIELDS));
        let at = usize::from(packet.l3_offset);
        let room = (packet.frame_bytes as usize).saturating_sub(at);
        let fail = |reason, tape: &mut Tape<'_, P>| {
            tape.work(site::MEASURED, cost::NOT_IP);
            Err(reason)
        };
        let port = across(packet.port, self.ports);
        match packet.l3 {
            L3::V4 => {}
            L3::V6 => {
                let Some(header) = packet.data.get(at..).and_then(|rest| rest.first_chunk::<40>()) else {
                    return fail(DropReason::Truncated, tape);
                };
                tape.touch_after(data, Ref::load(RegionId::PACKET, at as u64, 8, site::V6_HEADER));
                let total = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
                return match total {
                    _ if total > room => fail(DropReason::BadTotalLength, tape),
                    _ if total > self.mtu => fail(DropReason::PacketTooBig, tape),
                    _ => {
                        tape.work(site::MEASURED, cost::V6);
                        Ok(port)
                    }
                };
            }
            L3::Other => return fail(DropReason::NotIp, tape),
        }
        let Some(header) = packet.data.get(at..).and_then(|rest| rest.first_chunk::<20>()) else {
            return fail(DropReason::Truncated, tape);
        };
        tape.touch_after(data, Ref::load(RegionId::PACKET, at as u64, 16, site::V4_HEADER));
        tape.touch_after(data, Ref::load(RegionId::PACKET, at as u64 + 16, 4, site::V4_DESTINATION));
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let header_bytes = usize::from(header[0] & 15) * 4;
        let place = u16::from_be_bytes([header[6], header[7]]);
        if header_bytes < 20 {
            return fail(DropReason::BadHeaderLength, tape);
        }
        if total < header_bytes || total > room {
            return fail(DropReason::BadTotalLength, tape);
        }
        tape.work(site::MEASURED, cost::MEASURED);
        if total <= self.mtu {
            return Ok(port);
        }
        if place & DONT_FRAGMENT != 0 {
            return Err(DropReason::FragmentationNeeded);
        }
        if packet.data.len() < at + header_bytes {
            return Err(DropReason::Truncated);
        }
        let last_offset = usize::from(place & OFFSET) + (total - header_bytes - 1) / 8;
        if self.mtu < header_bytes + 8 || last_offset > usize::from(OFFSET) {
            return Err(DropReason::Unfragmentable);
        }
        self.cut(packet, Measured { at, total, header_bytes, place }, tape);
        Ok(port)
    }

    fn cut<P: Probe>(&mut self, packet: &mut Packet, of: Measured, tape: &mut Tape<'_, P>) {
        let Measured { at, total, header_bytes, place } = of;
        let mut later = [0; 60];
        later[..20].copy_from_slice(&packet.data[at..at + 20]);
        let mut later_bytes = 20;
        if header_bytes > 20 {
            let options = &packet.data[at + 20..at + header_bytes];
            let mut i = 0;
            while let Some(&kind) = options.get(i).filter(|&&kind| kind != END_OF_OPTIONS) {
                tape.touch(Ref::load(RegionId::PACKET, (at + 20 + i) as u64, 1, site::OPTION));
                tape.work(site::OPTION_LATCH, cost::OPTION);
                tape.latch(site::OPTION_LATCH);
                let bytes = match (kind, options.get(i + 1)) {
                    (NO_OPERATION, _) => 1,
                    (_, Some(&bytes)) if bytes >= 2 && i + usize::from(bytes) <= options.len() => usize::from(bytes),
                    // What follows a broken option is no option.
                    _ => break,
                };
                if kind & COPIED != 0 {
                    later[later_bytes..later_bytes + bytes].copy_from_slice(&options[i..i + bytes]);
                    later_bytes += bytes;
                }
                i += bytes;
            }
            later_bytes = later_bytes.next_multiple_of(4);
        }
        later[0] = 0x40 | (later_bytes / 4) as u8;

        let payload = total - header_bytes;
        let first = (self.mtu - header_bytes) / 8 * 8;
        let each = (self.mtu - later_bytes) / 8 * 8;
        let mut done = first;
        while done < payload {
            // The last one ends where the payload does, not at a multiple of 8.
            let rest = payload - done;
            let bytes = if later_bytes + rest <= self.mtu { rest } else { each };
            let more = if done + bytes < payload { MORE_FRAGMENTS } else { place & MORE_FRAGMENTS };
            let offset = (place & OFFSET) + (done / 8) as u16;
            write_header(&mut later[..later_bytes], later_bytes + bytes, more | offset);
            if self.made == self.fragments.len() {
                self.fragments.push(Packet::default());
            }
            let fragment = &mut self.fragments[self.made];
            self.made += 1;
            (fragment.id, fragment.arrival, fragment.port) = (packet.id, packet.arrival, packet.port);
            (fragment.l3_offset, fragment.l3) = (packet.l3_offset, L3::V4);
            fragment.frame_bytes = (at + later_bytes + bytes) as u32;
            fragment.data.clear();
            fragment.data.extend_from_slice(&packet.data[..at]);
            fragment.data.extend_from_slice(&later[..later_bytes]);
            // A capture may have kept less than the frame.
            let from = (at + header_bytes + done).min(packet.data.len());
            let to = (at + header_bytes + done + bytes).min(packet.data.len());
            fragment.data.extend_from_slice(&packet.data[from..to]);
            self.tell(of, (done, bytes, later_bytes), tape);
            done += bytes;
        }
        write_header(&mut packet.data[at..at + header_bytes], header_bytes + first, MORE_FRAGMENTS | place & OFFSET);
        packet.data.truncate(at + header_bytes + first);
        packet.frame_bytes = (at + header_bytes + first) as u32;
        tape.touch(Ref::store(RegionId::PACKET, at as u64 + 2, 6, site::FIRST_STORE));
        tape.touch(Ref::store(RegionId::PACKET, at as u64 + 10, 2, site::FIRST_CHECKSUM));
        tape.touch(Ref::store(RegionId::MBUF, mbuf::RX_FIELDS + 4, 8, site::FIRST_LENGTH));
        tape.work(site::DONE, cost::SET_UP);
    }

    /// The references of a fragment of `bytes` bytes of payload from `done` on, behind `header` bytes.
    #[inline(always)]
    fn tell<P: Probe>(&mut self, of: Measured, (done, bytes, header): (usize, usize, usize), tape: &mut Tape<'_, P>) {
        let slot = self.next % self.buffers;
        self.next += 1;
        let buffer = slot * self.buffer_bytes;
        let front = (of.at + header) as u64;
        let ring = tape.touch(Ref::load(RING, slot * RING_ENTRY_BYTES, RING_ENTRY_BYTES as u16, site::RING));
        tape.touch_after(ring, Ref::store(BUFFERS, buffer, front as u16, site::HEADER_STORE));
        tape.copy(
            Ref::load(RegionId::PACKET, (of.at + of.header_bytes + done) as u64, bytes as u16, site::COPY_FROM),
            Ref::store(BUFFERS, buffer + front, bytes as u16, site::COPY_TO),
        );
        // The buffer's last 8 bytes stand for its mbuf's lengths.
        tape.touch(Ref::store(BUFFERS, buffer + self.buffer_bytes - 8, 8, site::LENGTH_STORE));
        tape.work(site::FRAGMENT_LATCH, cost::FRAGMENT + cost::LINE * bytes.div_ceil(LINE_BYTES as usize) as u32);
        tape.latch(site::FRAGMENT_LATCH);
    }
}

/// What of an IPv4 packet decides how it is cut: where its header is, its total length, the header's, and flags and offset.
#[derive(Clone, Copy)]
struct Measured {
    at: usize,
    total: usize,
    header_bytes: usize,
    place: u16,
}

/// Total length, flags and offset, and the checksum.
fn write_header(header: &mut [u8], total: usize, place: u16) {
    header[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    header[6..8].copy_from_slice(&place.to_be_bytes());
    header[10..12].fill(0);
    let sum = internet_checksum(header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
}

impl PacketFunction for Fragment {
    fn name(&self) -> &'static str {
        "fragment"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        let region = |id, name: &str, bytes| RegionSpec { id, name: name.into(), bytes, sharing: Sharing::Shared };
        vec![
            region(BUFFERS, "fragment_buffers", self.buffers * self.buffer_bytes),
            region(RING, "fragment_ring", self.buffers * RING_ENTRY_BYTES),
        ]
    }

    fn process_burst<P: Probe>(&mut self, _: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        let mut tape = Tape::new(probe);
        self.made = 0;
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
