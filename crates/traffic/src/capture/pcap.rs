//! libpcap files: microsecond and nanosecond magic, both byte orders, Kuznetzov's longer records.
//!
//! Source: draft-ietf-opsawg-pcap; for the modified variant and for the swapped length fields of
//! files before version 2.4, libpcap's `sf-pcap.c`.

use super::{CaptureRecord, MAX_STORED_BYTES, PS_PER_SECOND, resync, u16_at, u32_at};
use crate::damage::{Damage, DamageKind};
use crate::input::InputStream;

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
/// With interface index, protocol and packet type.
const MODIFIED_RECORD_HEADER: usize = 24;
/// Stored bytes a record may have beyond the original length.
const PADDING: u32 = 16;
/// A sound neighbour is at most this far away in time, for resynchronisation.
const SOUND_STEP_SECONDS: i128 = 86_400;

pub(super) struct Pcap {
    big: bool,
    nanoseconds: bool,
    header: usize,
    link: u32,
    /// Frames end in a frame check sequence of this many bytes, which captures normally leave out.
    fcs: usize,
    snaplen: usize,
    lengths: Lengths,
    last_second: Option<u32>,
}

/// The order of a record's two length fields.
enum Lengths {
    CapturedFirst,
    WireFirst,
    /// Version 2.3 was written in both orders: the smaller is what was captured.
    Either,
}

struct Header {
    seconds: u32,
    fraction: u32,
    captured: u32,
    wire: u32,
}

impl Pcap {
    pub(super) fn detect(input: &mut InputStream) -> Option<Pcap> {
        let head = input.peek(FILE_HEADER);
        let (big, nanoseconds, header) = match *head.first_chunk::<4>()? {
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, false, RECORD_HEADER),
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, false, RECORD_HEADER),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, true, RECORD_HEADER),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, true, RECORD_HEADER),
            [0xa1, 0xb2, 0xcd, 0x34] => (true, false, MODIFIED_RECORD_HEADER),
            [0x34, 0xcd, 0xb2, 0xa1] => (false, false, MODIFIED_RECORD_HEADER),
            _ => return None,
        };
        // A header that is cut short leaves the defaults; reading then ends at once.
        let major = u16_at(head, 4, big).unwrap_or(2);
        let minor = u16_at(head, 6, big).unwrap_or(4);
        let snaplen = u32_at(head, 16, big).unwrap_or(0);
        let network = u32_at(head, 20, big).unwrap_or(0);
        input.consume(FILE_HEADER);
        Some(Pcap {
            big,
            nanoseconds,
            header,
            // Bits 28 to 31 are the FCS length in 16-bit words if bit 26 says so.
            link: network & 0x03ff_ffff,
            fcs: if network & 0x0400_0000 != 0 { (network >> 28) as usize * 2 } else { 0 },
            // Some writers exceed the length they state; below 64 KiB it is not held against a record.
            snaplen: (snaplen as usize).clamp(65_535, MAX_STORED_BYTES),
            lengths: match (major, minor) {
                (0..2, _) | (2, 0..3) => Lengths::WireFirst,
                (2, 3) => Lengths::Either,
                _ => Lengths::CapturedFirst,
            },
            last_second: None,
        })
    }

    pub(super) fn next(&mut self, input: &mut InputStream, damage: &mut Damage) -> Option<CaptureRecord> {
        loop {
            let offset = input.offset();
            let bytes = input.peek(self.header);
            if bytes.is_empty() {
                return None;
            }
            let Some(header) = self.header(bytes).filter(|_| bytes.len() >= self.header) else {
                let came = bytes.len();
                damage.add(DamageKind::Truncated, offset, || {
                    format!("the input ends {came} bytes into a record header of {}", self.header)
                });
                input.consume(came);
                return None;
            };
            // A header that is unusual counts if its record leads to another header or to the end.
            if !self.is_sound(&header) && !self.leads_on(&header, input) {
                damage.add(DamageKind::Corrupt, offset, || {
                    format!(
                        "a record of {} stored bytes of {} (at most {MAX_STORED_BYTES} can be) that leads to no other",
                        header.captured, header.wire
                    )
                });
                // Two headers and the longest record between them.
                let need = self.header * 2 + MAX_STORED_BYTES;
                let this = &*self;
                if !resync(input, damage, need, |bytes, at_end| this.starts_record(bytes, at_end)) {
                    return None;
                }
                continue;
            }
            self.last_second = Some(header.seconds);
            input.consume(self.header);
            let stored = header.captured as usize;
            let wire = if header.wire as usize > MAX_STORED_BYTES {
                damage.add(DamageKind::Corrupt, offset, || {
                    format!("an original length of {} bytes: the {stored} stored ones are taken for all", header.wire)
                });
                header.captured
            } else {
                header.wire
            };
            let unit = if self.nanoseconds { 1_000 } else { 1_000_000 };
            // What lies behind the frame is its check sequence, or padding of another format.
            let wire = wire.saturating_sub(self.fcs as u32);
            let kept = if wire == 0 { stored } else { stored.min(wire as usize) };
            return Some(CaptureRecord {
                time_ps: i128::from(header.seconds) * PS_PER_SECOND + i128::from(header.fraction) * unit,
                link: self.link,
                wire,
                stored: kept,
                lead: 0,
                trail: stored - kept,
            });
        }
    }

    fn header(&self, bytes: &[u8]) -> Option<Header> {
        let field = |at| u32_at(bytes, at, self.big);
        let (first, second) = (field(8)?, field(12)?);
        let (captured, wire) = match self.lengths {
            Lengths::CapturedFirst => (first, second),
            Lengths::WireFirst => (second, first),
            Lengths::Either => (first.min(second), first.max(second)),
        };
        Some(Header { seconds: field(0)?, fraction: field(4)?, captured, wire })
    }

    fn is_sound(&self, header: &Header) -> bool {
        let fraction_limit = if self.nanoseconds { 1_000_000_000 } else { 1_000_000 };
        let near = |s: u32| (i128::from(header.seconds) - i128::from(s)).abs() <= SOUND_STEP_SECONDS;
        (1..=self.snaplen).contains(&(header.captured as usize))
            // Converters from padded formats store a few bytes more than the frame had.
            && header.captured <= header.wire.saturating_add(PADDING)
            && header.wire as usize <= MAX_STORED_BYTES
            && header.fraction < fraction_limit
            && self.last_second.is_none_or(near)
    }

    fn leads_on(&self, header: &Header, input: &mut InputStream) -> bool {
        if header.captured as usize > MAX_STORED_BYTES {
            return false;
        }
        let following = self.header + header.captured as usize;
        match input.peek(following + self.header).get(following..) {
            // A capture may end inside its only record.
            None => self.last_second.is_none(),
            Some([]) => true,
            Some(rest) => self.header(rest).is_none_or(|next| {
                next.captured as usize <= self.snaplen.max(header.captured as usize)
                    && next.wire as usize <= MAX_STORED_BYTES
            }),
        }
    }

    /// Whether a sound record starts here and is followed by another or by the end of the input.
    fn starts_record(&self, bytes: &[u8], at_end: bool) -> bool {
        let Some(header) = self.header(bytes).filter(|h| self.is_sound(h)) else {
            return false;
        };
        let following = self.header + header.captured as usize;
        match bytes.get(following..) {
            Some([]) => at_end,
            Some(rest) => self.header(rest).is_some_and(|h| self.is_sound(&h)),
            None => false,
        }
    }
}
