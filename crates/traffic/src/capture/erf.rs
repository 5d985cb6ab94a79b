//! Extensible Record Format of Endace DAG cards, without a file header.
//!
//! A record is a header of 16 bytes (time as little-endian 32.32 fixed point, type, flags, record
//! length, loss counter, wire length, the latter three big-endian), extension headers of 8 bytes
//! while the top bit of the type (then of each of them) is set, a header of the type's own, and the
//! packet. Source: Endace, "ERF types reference guide", EDM11-01, as Wireshark's `erf.c` and
//! libtrace's `format_erf.c` read it.
//!
//! Read: Ethernet, packet over SONET, ATM (the first cell) and AAL5 with LLC/SNAP, raw IPv4 and
//! IPv6, and their multi-channel and coloured forms. Passed over as unsupported: AAL2, Infiniband,
//! counters. There is no magic: a file is ERF if its first records make sense.

use super::{CaptureRecord, resync, u16_at};
use crate::damage::{Damage, DamageKind};
use crate::input::InputStream;
use crate::link;

const HEADER: usize = 16;
const EXTENSION: usize = 8;
/// `rlen` is 16 bits.
const MAX_RECORD: usize = 65_535;
const PROBED: usize = 4;
const META: u8 = 27;
const PAD: u8 = 48;
/// ATM cell header of one byte less than on the wire: the HEC is left out.
const ATM_HEADER: usize = 4;
/// Where an IPv4 or IPv6 header has the packet's length: an ATM record does not say it.
const ATM_WIRE_UNKNOWN: u32 = 0;

/// A sound neighbour is at most this far away in time.
const SOUND_STEP_SECONDS: u32 = 86_400;

pub(super) struct Erf {
    last_second: Option<u32>,
}

/// How the packet lies in a record of some type.
struct ErfLayout {
    link: u32,
    /// Bytes of the type's own header.
    lead: usize,
    /// Bytes of frame check sequence that the wire length counts.
    fcs: u32,
}

fn shape(kind: u8) -> Option<ErfLayout> {
    Some(match kind & 0x7f {
        // Offset and pad, then the frame.
        2 | 11 | 16 | 20 => ErfLayout { link: link::ETHERNET, lead: 2, fcs: 4 },
        1 | 10 | 15 | 19 => ErfLayout { link: link::HDLC_POS, lead: 0, fcs: 4 },
        5 | 17 => ErfLayout { link: link::HDLC_POS, lead: 4, fcs: 4 },
        3 => ErfLayout { link: link::LLC_SNAP, lead: ATM_HEADER, fcs: 0 },
        4 => ErfLayout { link: link::LLC_SNAP, lead: ATM_HEADER, fcs: 0 },
        7 | 9 => ErfLayout { link: link::LLC_SNAP, lead: 4 + ATM_HEADER, fcs: 0 },
        22 => ErfLayout { link: link::IPV4, lead: 0, fcs: 0 },
        23 => ErfLayout { link: link::IPV6, lead: 0, fcs: 0 },
        _ => return None,
    })
}

impl Erf {
    pub(super) fn detect(input: &mut InputStream) -> Option<Erf> {
        let bytes = input.peek(MAX_RECORD * PROBED);
        let (mut at, mut sound) = (0, 0);
        let (mut last_second, mut says) = (None, false);
        while sound < PROBED && at < bytes.len() {
            // A header that is cut off says nothing against those before it.
            if sound > 0 && bytes.len() - at < HEADER {
                break;
            }
            let length = record_length(&bytes[at..])?;
            let second = second(&bytes[at..]);
            says |= !is_filler(&bytes[at..bytes.len().min(at + HEADER)]);
            // Neighbours in time: noise passes the other tests now and then.
            if last_second.is_some_and(|last: u32| second.abs_diff(last) > SOUND_STEP_SECONDS) {
                return None;
            }
            (at, sound, last_second) = (at + length, sound + 1, Some(second));
            if at > bytes.len() {
                break;
            }
        }
        (sound > 0 && says).then_some(Erf { last_second: None })
    }

    pub(super) fn next(&mut self, input: &mut InputStream, damage: &mut Damage) -> Option<CaptureRecord> {
        loop {
            let offset = input.offset();
            let bytes = input.peek(HEADER);
            if bytes.is_empty() {
                return None;
            }
            if bytes.len() < HEADER {
                let came = bytes.len();
                damage.add(DamageKind::Truncated, offset, || {
                    format!("the input ends {came} bytes into a record header of {HEADER}")
                });
                input.consume(came);
                return None;
            }
            let Some(length) = self.length(input) else {
                let bytes = input.peek(HEADER);
                let (kind, length) = (bytes[8] & 0x7f, u16_at(bytes, 10, true).unwrap_or(0));
                damage.add(DamageKind::Corrupt, offset, || {
                    format!(
                        "a record of type {kind} and {length} bytes that makes no sense: types 1 to {META} and {PAD} \
                         of {HEADER} bytes or more can be"
                    )
                });
                let two = |bytes: &[u8], at_end: bool| {
                    record_length(bytes).is_some_and(|n| match bytes.get(n..) {
                        Some([]) => at_end,
                        Some(rest) => {
                            record_length(rest).is_some() && second(rest).abs_diff(second(bytes)) <= SOUND_STEP_SECONDS
                        }
                        None => false,
                    })
                };
                if !resync(input, damage, MAX_RECORD + HEADER, two) {
                    return None;
                }
                self.last_second = None;
                continue;
            };
            let bytes = input.peek(HEADER);
            self.last_second = Some(second(bytes));
            let kind = bytes[8];
            if matches!(kind & 0x7f, META | PAD) {
                if !input.skip(length as u64) {
                    damage.add(DamageKind::Truncated, offset, || {
                        format!("the input ends inside a record of {length} bytes")
                    });
                    return None;
                }
                continue;
            }
            let record = input.peek(length);
            let record = &record[..record.len().min(length)];
            if record.len() < length {
                let came = record.len();
                damage.add(DamageKind::Truncated, offset, || {
                    format!("the input ends {came} bytes into a record of {length}")
                });
                input.consume(came);
                return None;
            }
            match read(record, kind) {
                Some(read) => return Some(read),
                None => {
                    damage.add(DamageKind::Corrupt, offset, || {
                        format!("a record of {length} bytes whose extension headers are longer than it")
                    });
                    input.consume(length);
                }
            }
        }
    }
}

impl Erf {
    /// The length of the record that comes next, if its header makes sense: where it is far from
    /// the record before in time, if another header (or the end) follows it.
    fn length(&self, input: &mut InputStream) -> Option<usize> {
        let bytes = input.peek(HEADER);
        let length = record_length(bytes)?;
        let here = second(bytes);
        if self.last_second.is_none_or(|last| here.abs_diff(last) <= SOUND_STEP_SECONDS) {
            return Some(length);
        }
        let following = input.peek(length + HEADER).get(length..)?;
        (following.is_empty() || record_length(following).is_some()).then_some(length)
    }
}

fn read(record: &[u8], kind: u8) -> Option<CaptureRecord> {
    let mut at = HEADER;
    let mut more = kind & 0x80 != 0;
    while more {
        more = record.get(at)? & 0x80 != 0;
        at += EXTENSION;
    }
    // A type that is not read keeps a number out of the registry's range, to be counted by.
    let ErfLayout { link, lead, fcs } =
        shape(kind).unwrap_or(ErfLayout { link: ERF_TYPE + u32::from(kind & 0x7f), lead: 0, fcs: 0 });
    let data = record.get(at + lead..)?;
    let wire = u32::from(u16_at(record, 14, true)?);
    let wire = match link {
        link::LLC_SNAP => ip_length(data).unwrap_or(ATM_WIRE_UNKNOWN),
        _ => wire.saturating_sub(fcs),
    };
    // Records are padded to 8 bytes: what lies behind the packet is not of it.
    let stored = match wire {
        ATM_WIRE_UNKNOWN => data.len(),
        wire => data.len().min(wire as usize),
    };
    let time = u64::from_le_bytes(*record.first_chunk()?);
    Some(CaptureRecord {
        time_ps: (i128::from(time) * super::PS_PER_SECOND) >> 32,
        link,
        wire,
        stored,
        lead: at + lead,
        trail: record.len() - at - lead - stored,
    })
}

/// Link numbers of ERF types that are not read start here.
const ERF_TYPE: u32 = 1 << 18;

/// The length of LLC/SNAP and the IP packet behind it.
fn ip_length(data: &[u8]) -> Option<u32> {
    let ip = if data.starts_with(&[0xaa, 0xaa, 3]) { 8 } else { 0 };
    let length = match data.get(ip)? >> 4 {
        4 => u16_at(data, ip + 2, true)?.into(),
        6 => u32::from(u16_at(data, ip + 4, true)?) + 40,
        _ => return None,
    };
    Some(length + ip as u32)
}

/// Whether this would be a header of text, or of one byte again and again: a file of newlines makes sense as records otherwise.
/// A clock, two lengths and a loss counter that are all letters do not come by themselves, let alone four times in a row.
fn is_filler(header: &[u8]) -> bool {
    let text = |&b: &u8| matches!(b, b' '..=b'~' | b'\t' | b'\n' | b'\r');
    header.iter().all(text) || header.iter().all(|b| Some(b) == header.first())
}

fn second(header: &[u8]) -> u32 {
    header.get(4..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

/// The length of the record that starts here, if a header that makes sense does.
fn record_length(header: &[u8]) -> Option<usize> {
    let kind = *header.get(8)? & 0x7f;
    let length = usize::from(u16_at(header, 10, true)?);
    let wire = u16_at(header, 14, true)?;
    let known = (1..=META).contains(&kind) || kind == PAD;
    (known && length >= HEADER && (wire > 0 || matches!(kind, META | PAD))).then_some(length)
}
