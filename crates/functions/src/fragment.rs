//! Fragmentation.
//!
//! **Computes** fragments of IPv4 packets longer than the MTU: payload in multiples of 8 bytes, offsets and the more
//! fragments flag on top of those the packet came with, options as their copied flag says, header checksums. What may not be
//! fragmented (DF, IPv6) gets the verdict that an ICMP message is due. The first fragment takes the packet's place, the
//! others are new packets with its number: [`Fragment::fragments`]. Bytes are really cut and copied.
//!
//! In the form that gathers ([`Fragment::gathering`]), which is what kernels of the router run, payloads stay where they are:
//! a buffer a packet takes the header that all later fragments have, and 8 bytes for each of them; whoever sends them puts
//! them together ([`assemble`]), as a NIC does that is given a header and a piece of the payload.
//!
//! **References per packet**: 3 mbuf loads (where the data lies; type and length), 2 header loads (16 and 4 bytes): 5 for what
//! fits. Cut into n fragments: 1 load for each option of the header, 2 header stores and 1 mbuf store for the first one; for
//! each other one 1 load of a free buffer's address (8 bytes), 1 store of its header, a copy of its payload (a load and a
//! store for each line), 1 store of its length. Best 3 (not IP). Gathering: 1 load for each word of options (their sum) and for
//! each option, 2 header stores and 1 mbuf store for the first one, 1 store of the header of the others (64 bytes), and 1 of 8
//! bytes for each of them.
//!
//! **Regions**: buffers (2048 bytes each, or as many as the MTU needs), their ring (8 bytes each), shared by the cores;
//! the packet and its mbuf. Gathering: a buffer a packet, of 64 bytes and 8 for each fragment that the longest packet gives.
//!
//! Left out: the ICMP message itself; chains of mbufs in place of copies, as DPDK's `rte_ipv4_fragment_packet` makes them, but
//! for the form that gathers; reassembly; IPv6 fragments, which only sources make.
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
/// Of a buffer of the form that gathers: the header of all later fragments takes up to 15 words; their number is the last word
/// of these 64 bytes; two words for each follow.
const HEADER_PART: usize = 64;
const COUNT_WORD: usize = 15;
const RECORD_BYTES: usize = 8;

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
    pub(super) const OPTION_WORD: u16 = 20;
    pub(super) const PART_STORE: u16 = 21;
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
    /// Of the form that gathers: the latest packet's buffer.
    parts: Option<Vec<u32>>,
}

state::state!(Fragment {
    values: [next, fragments, made, parts],
    arrays: [],
    parts: [],
    built: [mtu, ports, buffers, buffer_bytes],
});

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
            parts: None,
        })
    }

    /// The same in the form that gathers, on packets numbered so that no two with the same number modulo `buffers` are under
    /// way at a time: see the module header.
    ///
    /// # Errors
    /// As [`Fragment::new`].
    pub fn gathering(spec: &FragmentSpec, ports: u16) -> Result<Fragment, FunctionError> {
        let mut fragment = Fragment::new(spec, ports)?;
        fragment.buffer_bytes = part_bytes(spec.mtu) as u64;
        fragment.parts = Some(Vec::new());
        Ok(fragment)
    }

    /// The MTU, and on how many ports.
    pub fn link(&self) -> (u32, u16) {
        (self.mtu as u32, self.ports)
    }

    /// The fragments after the first of the packets of the latest burst: those of a packet have its number, and are in
    /// order.
    pub fn fragments(&self) -> &[Packet] {
        &self.fragments[..self.made]
    }

    /// The same, for who takes them out and leaves other packets in their places.
    pub fn fragments_mut(&mut self) -> &mut [Packet] {
        &mut self.fragments[..self.made]
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
        let measured = FragmentFields { at, total, header_bytes, place };
        match self.parts.take() {
            None => self.cut(packet, measured, tape),
            Some(mut parts) => {
                self.gather(packet, measured, &mut parts, tape);
                self.parts = Some(parts);
            }
        }
        Ok(port)
    }

    /// What the form that gathers does in place of [`Fragment::cut`]: it writes a packet's parts, and only then are they put
    /// together.
    fn gather<P: Probe>(
        &mut self,
        packet: &mut Packet,
        of: FragmentFields,
        parts: &mut Vec<u32>,
        tape: &mut Tape<'_, P>,
    ) {
        let FragmentFields { at, header_bytes, .. } = of;
        let buffer = packet.id.0 % self.buffers * self.buffer_bytes;
        for word in 0..(header_bytes - 20) / 4 {
            tape.touch(Ref::load(RegionId::PACKET, (at + 20 + 4 * word) as u64, 4, site::OPTION_WORD));
        }
        let (mut later, later_bytes) = later_header(packet, of, tape);
        write_header(&mut later[..later_bytes], 0, 0);
        later[10..12].fill(0);
        tape.touch(Ref::store(BUFFERS, buffer, HEADER_PART as u16, site::HEADER_STORE));
        parts.clear();
        parts.extend(later.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]])));

        let first = of.first(self.mtu);
        for (_, bytes, place) in of.later(self.mtu, later_bytes) {
            write_header(&mut later[..later_bytes], later_bytes + bytes, place);
            let record = buffer + (parts.len() * 4) as u64;
            parts.push(((later_bytes + bytes) as u32) << 16 | u32::from(place));
            parts.push(u32::from(u16::from_be_bytes([later[10], later[11]])));
            parts[COUNT_WORD] += 1;
            tape.touch(Ref::store(BUFFERS, record, RECORD_BYTES as u16, site::PART_STORE));
            tape.work(site::FRAGMENT_LATCH, cost::FRAGMENT);
            tape.latch(site::FRAGMENT_LATCH);
        }
        become_first(packet, of, first, tape);
        self.made += assemble(packet, parts, &mut self.fragments, self.made).unwrap_or(0);
    }

    fn cut<P: Probe>(&mut self, packet: &mut Packet, of: FragmentFields, tape: &mut Tape<'_, P>) {
        let FragmentFields { at, header_bytes, .. } = of;
        let (mut later, later_bytes) = later_header(packet, of, tape);
        let first = of.first(self.mtu);
        for (done, bytes, place) in of.later(self.mtu, later_bytes) {
            write_header(&mut later[..later_bytes], later_bytes + bytes, place);
            if self.made == self.fragments.len() {
                self.fragments.push(Packet::default());
            }
            let fragment = &mut self.fragments[self.made];
            self.made += 1;
            become_later(fragment, packet, &later[..later_bytes], at + header_bytes + done, bytes);
            self.tell(of, (done, bytes, later_bytes), tape);
        }
        become_first(packet, of, first, tape);
        packet.data.truncate(at + header_bytes + first);
        packet.frame_bytes = (at + header_bytes + first) as u32;
    }

    /// The references of a fragment of `bytes` bytes of payload from `done` on, behind `header` bytes.
    #[inline(always)]
    fn tell<P: Probe>(
        &mut self,
        of: FragmentFields,
        (done, bytes, header): (usize, usize, usize),
        tape: &mut Tape<'_, P>,
    ) {
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
struct FragmentFields {
    at: usize,
    total: usize,
    header_bytes: usize,
    place: u16,
}

/// Makes `fragment` a later one of `packet`: what lies before its header, `header`, and `bytes` bytes of its payload, which
/// begin at byte `from` of its data.
fn become_later(fragment: &mut Packet, packet: &Packet, header: &[u8], from: usize, bytes: usize) {
    let at = usize::from(packet.l3_offset);
    (fragment.id, fragment.arrival, fragment.port) = (packet.id, packet.arrival, packet.port);
    (fragment.l3_offset, fragment.l3) = (packet.l3_offset, L3::V4);
    fragment.frame_bytes = (at + header.len() + bytes) as u32;
    fragment.data.clear();
    fragment.data.extend_from_slice(&packet.data[..at]);
    fragment.data.extend_from_slice(header);
    // A capture may have kept less than the frame.
    let kept = packet.data.len();
    fragment.data.extend_from_slice(&packet.data[from.min(kept)..(from + bytes).min(kept)]);
}

/// Bytes of a buffer of the form that gathers: a line for the header, and a record for each later fragment of the longest
/// packet, whose header may leave least room.
pub fn part_bytes(mtu: u32) -> usize {
    let each = (mtu as usize).saturating_sub(60).max(8) / 8 * 8;
    let most = (usize::from(u16::MAX) - 20).div_ceil(each);
    (HEADER_PART + most * RECORD_BYTES).next_multiple_of(LINE_BYTES as usize)
}

/// Puts the fragments of `packet` together, whose header is already the first one's and whose payload is still whole, from
/// their `parts`: 15 words of the header that the later ones have, in the order of memory; their number; and two words for
/// each, total length 16 | flags and offset 16, and checksum. The packet becomes the first; the others go into `out` from
/// place `from` on, where packets may lie that are no longer needed. Returns how many others there are; [`None`] for parts
/// that are none: a header that is too short, more fragments than there is room for, or that begin behind the packet.
pub fn assemble(packet: &mut Packet, parts: &[u32], out: &mut Vec<Packet>, from: usize) -> Option<usize> {
    let at = usize::from(packet.l3_offset);
    let mut header = [0; 4 * COUNT_WORD];
    for (bytes, word) in header.chunks_exact_mut(4).zip(parts) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    let count = *parts.get(COUNT_WORD)? as usize;
    let own = packet.data.get(at..at + 20)?;
    let header_bytes = usize::from(own[0] & 15) * 4;
    let first = usize::from(u16::from_be_bytes([own[2], own[3]]));
    let later_bytes = usize::from(header[0] & 15) * 4;
    let mut done = at + first;
    let records = parts[COUNT_WORD + 1..].chunks_exact(2);
    if later_bytes < 20 || first < header_bytes || count > records.len() {
        return None;
    }
    for (i, record) in records.take(count).enumerate() {
        if out.len() == from + i {
            out.push(Packet::default());
        }
        let fragment = &mut out[from + i];
        let bytes = ((record[0] >> 16) as usize).saturating_sub(later_bytes);
        become_later(fragment, packet, &header[..later_bytes], done, bytes);
        let own = &mut fragment.data[at..];
        own[2..4].copy_from_slice(&((record[0] >> 16) as u16).to_be_bytes());
        own[6..8].copy_from_slice(&(record[0] as u16).to_be_bytes());
        own[10..12].copy_from_slice(&(record[1] as u16).to_be_bytes());
        done += bytes;
    }
    packet.data.truncate(at + first);
    packet.frame_bytes = (at + first) as u32;
    Some(count)
}

impl FragmentFields {
    /// Bytes of payload of the first fragment.
    fn first(self, mtu: usize) -> usize {
        (mtu - self.header_bytes) / 8 * 8
    }

    /// Of each later fragment, behind a header of `header` bytes: where its payload begins, how long it is, and its flags
    /// and offset.
    fn later(self, mtu: usize, header: usize) -> impl Iterator<Item = (usize, usize, u16)> {
        let FragmentFields { total, header_bytes, place, .. } = self;
        let (payload, each) = (total - header_bytes, (mtu - header) / 8 * 8);
        let mut next = self.first(mtu);
        std::iter::from_fn(move || {
            let done = next;
            // The last one ends where the payload does, not at a multiple of 8.
            let rest = payload.checked_sub(done).filter(|&rest| rest > 0)?;
            let bytes = if header + rest <= mtu { rest } else { each };
            next += bytes;
            let more = if next < payload { MORE_FRAGMENTS } else { place & MORE_FRAGMENTS };
            Some((done, bytes, more | ((place & OFFSET) + (done / 8) as u16)))
        })
    }
}

/// The header that later fragments have, but for what differs from one to the next, and how long it is: of the options those
/// that are to be copied.
#[inline(always)]
fn later_header<P: Probe>(packet: &Packet, of: FragmentFields, tape: &mut Tape<'_, P>) -> ([u8; HEADER_PART], usize) {
    let mut later = [0; HEADER_PART];
    later[..20].copy_from_slice(&packet.data[of.at..of.at + 20]);
    let (mut later_bytes, mut i) = (20, 0);
    let options = &packet.data[of.at + 20..of.at + of.header_bytes];
    while let Some(&kind) = options.get(i).filter(|&&kind| kind != END_OF_OPTIONS) {
        tape.touch(Ref::load(RegionId::PACKET, (of.at + 20 + i) as u64, 1, site::OPTION));
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
    later[0] = 0x40 | (later_bytes / 4) as u8;
    (later, later_bytes)
}

/// The packet's header becomes that of its first fragment.
#[inline(always)]
fn become_first<P: Probe>(packet: &mut Packet, of: FragmentFields, first: usize, tape: &mut Tape<'_, P>) {
    let FragmentFields { at, header_bytes, place, .. } = of;
    write_header(&mut packet.data[at..at + header_bytes], header_bytes + first, MORE_FRAGMENTS | place & OFFSET);
    tape.touch(Ref::store(RegionId::PACKET, at as u64 + 2, 6, site::FIRST_STORE));
    tape.touch(Ref::store(RegionId::PACKET, at as u64 + 10, 2, site::FIRST_CHECKSUM));
    tape.touch(Ref::store(RegionId::MBUF, mbuf::RX_FIELDS + 4, 8, site::FIRST_LENGTH));
    tape.work(site::DONE, cost::SET_UP);
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
        if self.parts.is_some() {
            return vec![region(BUFFERS, "fragment_parts", self.buffers * self.buffer_bytes)];
        }
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
