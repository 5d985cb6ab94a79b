//! pcapng: several sections in either byte order, several interfaces with their own link type,
//! clock resolution and offset; enhanced, simple and (obsolete) packet blocks.
//!
//! Source: draft-ietf-opsawg-pcapng. Left out: name resolution, decryption secrets, statistics,
//! comments and custom blocks, which are passed over.

use super::{CaptureRecord, MAX_STORED_BYTES, PS_PER_SECOND, resync, u16_at, u32_at};
use crate::damage::{Damage, DamageKind};
use crate::input::InputStream;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE: u32 = 3;
const NAMES: u32 = 4;
const STATISTICS: u32 = 5;
const ENHANCED: u32 = 6;
const SECRETS: u32 = 10;
const CUSTOM: u32 = 0xbad;
const CUSTOM_NOT_COPIED: u32 = 0x4000_0bad;
const ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Type, length, and the length again at the end.
const BLOCK_OVERHEAD: usize = 12;
/// Longest block that is looked into: a packet at its longest with room for options.
const MAX_BLOCK: usize = MAX_STORED_BYTES + (64 << 10);
/// More interfaces than any capture has; bounds what a damaged file makes us remember.
const MAX_INTERFACES: usize = 4096;

pub(super) struct Pcapng {
    big: bool,
    interfaces: Vec<PcapngInterface>,
    /// Simple packet blocks have no time: they take that of the packet before.
    last_time: i128,
}

#[derive(Clone, Copy)]
struct PcapngInterface {
    link: u32,
    snaplen: usize,
    fcs: usize,
    resolution: Resolution,
    offset_seconds: i64,
}

#[derive(Clone, Copy)]
enum Resolution {
    /// 10^-n seconds.
    Decimal(u8),
    /// 2^-n seconds.
    Binary(u8),
}

impl Resolution {
    fn ps(self, units: u64) -> i128 {
        let units = i128::from(units);
        match self {
            Resolution::Decimal(n @ 0..=12) => units * 10i128.pow(12 - u32::from(n)),
            Resolution::Decimal(n @ 13..=38) => units / 10i128.pow(u32::from(n) - 12),
            Resolution::Decimal(_) => 0,
            Resolution::Binary(n) => (units * PS_PER_SECOND).checked_shr(n.into()).unwrap_or(0),
        }
    }
}

impl Pcapng {
    pub(super) fn detect(input: &mut InputStream) -> Option<Pcapng> {
        let head = input.peek(BLOCK_OVERHEAD);
        let is_section = u32_at(head, 0, true) == Some(SECTION);
        let big = byte_order(head)?;
        is_section.then_some(Pcapng { big, interfaces: Vec::new(), last_time: 0 })
    }

    pub(super) fn next(&mut self, input: &mut InputStream, damage: &mut Damage) -> Option<CaptureRecord> {
        loop {
            let (kind, length) = self.block(input, damage)?;
            let (offset, body_end) = (input.offset(), length - 4);
            let record = match kind {
                INTERFACE => {
                    self.interface(&input.peek(length)[8..body_end], offset, damage);
                    None
                }
                ENHANCED | PACKET | SIMPLE => {
                    let record = self.packet(kind, &input.peek(length)[..body_end], length);
                    if let Err(what) = &record {
                        damage.add(DamageKind::Corrupt, offset, || what.clone());
                    }
                    record.ok()
                }
                _ => None,
            };
            match record {
                Some(record) => {
                    self.last_time = record.time_ps;
                    return Some(record);
                }
                None => input.consume(length),
            }
        }
    }

    /// The type and the length of the next block that is whole, at which `input` then stands: passes over long ones that
    /// nobody needs and over damage, and takes in what a section header says. [`None`] at the end.
    fn block(&mut self, input: &mut InputStream, damage: &mut Damage) -> Option<(u32, usize)> {
        loop {
            let offset = input.offset();
            let head = input.peek(BLOCK_OVERHEAD);
            if head.is_empty() {
                return None;
            }
            if head.len() < BLOCK_OVERHEAD {
                let came = head.len();
                damage.add(DamageKind::Truncated, offset, || {
                    format!("the input ends {came} bytes into a block, the shortest has {BLOCK_OVERHEAD}")
                });
                input.consume(came);
                return None;
            }
            let kind = u32_at(head, 0, self.big).unwrap_or(0);
            if kind == SECTION {
                // Each section has its own byte order and interfaces.
                match byte_order(head) {
                    Some(big) => {
                        self.big = big;
                        self.interfaces.clear();
                    }
                    None => damage.add(DamageKind::Corrupt, offset, || {
                        "a section header without its byte-order magic 1a2b3c4d: the order before is kept".into()
                    }),
                }
            }
            let length = u32_at(head, 4, self.big).unwrap_or(0) as usize;
            let may_be_long = matches!(kind, NAMES | SECRETS | CUSTOM | CUSTOM_NOT_COPIED);
            // The draft wants multiples of 4; a writer that forgets the padding of the last field is read.
            if length < BLOCK_OVERHEAD || (length > MAX_BLOCK && !may_be_long) {
                damage.add(DamageKind::Corrupt, offset, || {
                    format!("a block of type {kind} and {length} bytes: {BLOCK_OVERHEAD} to {MAX_BLOCK} can be")
                });
                let big = self.big;
                if !resync(input, damage, MAX_BLOCK, |bytes, _| starts_block(bytes, big)) {
                    return None;
                }
                continue;
            }
            let length = length.next_multiple_of(4);
            if length > MAX_BLOCK {
                if !input.skip(length as u64) {
                    damage.add(DamageKind::Truncated, offset, || {
                        format!("the input ends inside a block of type {kind} and {length} bytes")
                    });
                    return None;
                }
                continue;
            }
            let block = input.peek(length);
            if block.len() < length {
                let came = block.len();
                damage.add(DamageKind::Truncated, offset, || {
                    format!("the input ends {came} bytes into a block of {length}")
                });
                // A length that is wrong may hide sound blocks behind it.
                let big = self.big;
                if !resync(input, damage, MAX_BLOCK, |bytes, _| starts_block(bytes, big)) {
                    return None;
                }
                continue;
            }
            if u32_at(block, length - 4, self.big) != u32_at(block, 4, self.big) {
                damage.add(DamageKind::Corrupt, offset, || {
                    format!("a block of {length} bytes whose two length fields differ")
                });
                let big = self.big;
                // If a block follows, the first field is right; else the search starts inside.
                let follows = input.peek(length + BLOCK_OVERHEAD).get(length..).is_some_and(|rest| {
                    rest.is_empty() || (known(u32_at(rest, 0, big)) && u32_at(rest, 4, big).is_some_and(|n| n >= 12))
                });
                if !follows {
                    if !resync(input, damage, MAX_BLOCK, |bytes, _| starts_block(bytes, big)) {
                        return None;
                    }
                    continue;
                }
            }
            return Some((kind, length));
        }
    }

    fn interface(&mut self, body: &[u8], offset: u64, damage: &mut Damage) {
        let Some(link) = u16_at(body, 0, self.big) else {
            damage.add(DamageKind::Corrupt, offset, || "an interface description without a link type".into());
            return;
        };
        if self.interfaces.len() >= MAX_INTERFACES {
            damage.add(DamageKind::Corrupt, offset, || format!("more than {MAX_INTERFACES} interfaces in a section"));
            return;
        }
        let mut interface = PcapngInterface {
            link: link.into(),
            snaplen: match u32_at(body, 4, self.big).unwrap_or(0) as usize {
                0 => MAX_STORED_BYTES,
                n => n.min(MAX_STORED_BYTES),
            },
            fcs: 0,
            resolution: Resolution::Decimal(6),
            offset_seconds: 0,
        };
        let mut at = 8;
        while let (Some(code), Some(length)) = (u16_at(body, at, self.big), u16_at(body, at + 2, self.big)) {
            let Some(value) = body.get(at + 4..at + 4 + usize::from(length)) else {
                break;
            };
            match (code, value) {
                (0, _) => break,
                (9, [n, ..]) if n & 0x80 != 0 => interface.resolution = Resolution::Binary(n & 0x7f),
                (9, [n, ..]) => interface.resolution = Resolution::Decimal(*n),
                (13, [n, ..]) => interface.fcs = usize::from(*n).min(8),
                (14, value) => {
                    if let Some(bytes) = value.first_chunk::<8>() {
                        interface.offset_seconds =
                            if self.big { i64::from_be_bytes(*bytes) } else { i64::from_le_bytes(*bytes) };
                    }
                }
                _ => {}
            }
            at += 4 + usize::from(length).next_multiple_of(4);
        }
        self.interfaces.push(interface);
    }

    /// The record of a packet block without its last length field, or what is wrong with it.
    fn packet(&self, kind: u32, block: &[u8], length: usize) -> Result<CaptureRecord, String> {
        let field = |at| u32_at(block, at, self.big).ok_or_else(|| format!("a packet block of only {length} bytes"));
        let (index, lead) = match kind {
            ENHANCED => (field(8)?, 28),
            PACKET => (field(8).map(|_| u16_at(block, 8, self.big).unwrap_or(0).into())?, 28),
            _ => (0, 12),
        };
        let interface = self
            .interfaces
            .get(index as usize)
            .ok_or_else(|| format!("a packet of interface {index}, but {} are described", self.interfaces.len()))?;
        let (time_ps, captured, wire) = if kind == SIMPLE {
            let wire = field(8)?;
            (self.last_time, (wire as usize).min(interface.snaplen).min(block.len().saturating_sub(lead)), wire)
        } else {
            let time = u64::from(field(12)?) << 32 | u64::from(field(16)?);
            let time_ps = interface.resolution.ps(time) + i128::from(interface.offset_seconds) * PS_PER_SECOND;
            (time_ps, field(20)? as usize, field(24)?)
        };
        if captured > block.len().saturating_sub(lead) {
            return Err(format!("a packet of {captured} stored bytes in a block of {length}"));
        }
        if wire as usize > MAX_STORED_BYTES {
            return Err(format!("an original length of {wire} bytes: at most {MAX_STORED_BYTES} can be"));
        }
        let wire = wire.saturating_sub(interface.fcs as u32);
        let stored = if wire == 0 { captured } else { captured.min(wire as usize) };
        Ok(CaptureRecord { time_ps, link: interface.link, wire, stored, lead, trail: length - lead - stored })
    }
}

/// Whether a section header's magic is big-endian; [`None`] if it is neither.
fn byte_order(head: &[u8]) -> Option<bool> {
    match u32_at(head, 8, true)? {
        ORDER_MAGIC => Some(true),
        magic if magic.swap_bytes() == ORDER_MAGIC => Some(false),
        _ => None,
    }
}

fn known(kind: Option<u32>) -> bool {
    matches!(
        kind,
        Some(
            SECTION
                | INTERFACE
                | PACKET
                | SIMPLE
                | NAMES
                | STATISTICS
                | ENHANCED
                | SECRETS
                | CUSTOM
                | CUSTOM_NOT_COPIED
        )
    )
}

/// Whether a block of a known type starts here, with equal lengths at both its ends.
fn starts_block(bytes: &[u8], big: bool) -> bool {
    let Some(length) = u32_at(bytes, 4, big).map(|n| n as usize) else {
        return false;
    };
    known(u32_at(bytes, 0, big))
        && (BLOCK_OVERHEAD..=MAX_BLOCK).contains(&length)
        && length % 4 == 0
        && u32_at(bytes, length - 4, big) == u32_at(bytes, 4, big)
}
