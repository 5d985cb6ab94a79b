//! Time Sequenced Headers of NLANR: records of 44 bytes, without a file header.
//!
//! A record is seconds (4 bytes), interface (1), microseconds (3), the IPv4 header (20) and the
//! first 16 bytes of the transport header. Source: NLANR PMA's description of the format, as
//! Net::Traces::TSH documents it. Options are not in the format, so a header that claims some runs
//! on into the transport bytes. There is no magic: a file is TSH if its first records make sense.

use super::{CaptureRecord, PS_PER_SECOND, resync, u16_at, u32_at};
use crate::damage::{Damage, DamageKind};
use crate::input::InputStream;
use crate::link;

const RECORD: usize = 44;
const STAMP: usize = 8;
/// Records that must make sense before a file counts as TSH, if it has so many.
const PROBED: usize = 8;

pub(super) struct Tsh;

impl Tsh {
    pub(super) fn detect(input: &mut InputStream) -> Option<Tsh> {
        let head = input.peek(RECORD * PROBED);
        let mut records = head.chunks_exact(RECORD).take(PROBED);
        (records.len() > 0 && records.all(is_sound)).then_some(Tsh)
    }

    pub(super) fn next(&mut self, input: &mut InputStream, damage: &mut Damage) -> Option<CaptureRecord> {
        loop {
            let offset = input.offset();
            let bytes = input.peek(RECORD);
            if bytes.is_empty() {
                return None;
            }
            if bytes.len() < RECORD {
                let came = bytes.len();
                damage.add(DamageKind::Truncated, offset, || {
                    format!("the input ends {came} bytes into a record of {RECORD}")
                });
                input.consume(came);
                return None;
            }
            if !is_sound(bytes) {
                let first = bytes[STAMP];
                damage.add(DamageKind::Corrupt, offset, || {
                    format!(
                        "a record whose IP header starts with {first:02x}: 45 to 4f and microseconds below 10^6 can be"
                    )
                });
                let two = |b: &[u8], at_end: bool| match b.len() {
                    RECORD => at_end && is_sound(b),
                    n => n >= 2 * RECORD && is_sound(b) && is_sound(&b[RECORD..]),
                };
                if !resync(input, damage, 2 * RECORD, two) {
                    return None;
                }
                continue;
            }
            let seconds = u32_at(bytes, 0, true).unwrap_or(0);
            let micros = u32_at(bytes, 4, true).unwrap_or(0) & 0x00ff_ffff;
            let total = u16_at(bytes, STAMP + 2, true).unwrap_or(0);
            let stored = usize::from(total).min(RECORD - STAMP);
            return Some(CaptureRecord {
                time_ps: i128::from(seconds) * PS_PER_SECOND + i128::from(micros) * 1_000_000,
                link: link::IPV4,
                wire: total.into(),
                stored,
                lead: STAMP,
                trail: RECORD - STAMP - stored,
            });
        }
    }
}

fn is_sound(record: &[u8]) -> bool {
    let micros = u32_at(record, 4, true).unwrap_or(u32::MAX) & 0x00ff_ffff;
    let total = u16_at(record, STAMP + 2, true).unwrap_or(0);
    record.len() >= RECORD && micros < 1_000_000 && (0x45..=0x4f).contains(&record[STAMP]) && total >= 20
}
