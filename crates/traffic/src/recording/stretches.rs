//! Regions of a recording: those that the program has named, and for all other memory that it has touched a region a stretch.
//!
//! A stretch is what lies closer together than [`GAP`], on whole pages: tables and heaps stay together, and what is far
//! apart does not make one huge region. Pages that are only read are stretches apart from those that are stored to, as far as
//! there are not too many. Where a stretch would run into a named region it ends.

use super::{MOST_NAMED, RecordedRegion};
use crate::grow::push;

const PAGE: u64 = 4096;
/// Between stretches; more where there would be too many.
const GAP: u64 = 1 << 20;
/// A layout places every region, and a report may name it.
const MOST_STRETCHES: usize = 1024;
/// Pieces of memory that do not overlap, of a page or more each: 16 GiB.
const MOST_PIECES: usize = 4 << 20;
/// Pieces that are kept before those that overlap are put together.
const LEAST_KEPT: usize = 1 << 20;
/// A machine has 256 GiB.
const MOST_BYTES: u64 = 64 << 30;
const LINE: u64 = 64;

/// Whole pages that were touched, as far as no named region lies on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TouchedPages {
    first: u64,
    end: u64,
    stored: bool,
}

/// Sorted by their base, as `named` is. `touched` has addresses with bytes, and whether something was stored there.
pub(super) fn stretches(
    named: Vec<RecordedRegion>,
    touched: impl Iterator<Item = (u64, u64, bool)>,
) -> Result<Vec<RecordedRegion>, String> {
    let pages = pieces(&named, touched)?;
    let mut joined = Vec::new();
    for (gap, apart) in [(GAP, true), (GAP, false), (GAP << 5, false), (GAP << 10, false), (GAP << 15, false)] {
        joined = join(&pages, &named, gap, apart);
        if joined.len() <= MOST_STRETCHES {
            break;
        }
    }
    for region in &mut joined {
        region.name = format!("memory at {:#x}", region.base);
    }
    joined.extend(named);
    joined.sort_unstable_by_key(|r| r.base);
    let total = joined.iter().fold(0u64, |sum, r| sum.saturating_add(r.bytes));
    if joined.len() > MOST_STRETCHES + MOST_NAMED {
        return Err(format!(
            "the memory that it touches lies in more than {} places that are far apart: name the regions that matter",
            MOST_STRETCHES + MOST_NAMED
        ));
    }
    if total > MOST_BYTES {
        let (gib, most) = (total >> 30, MOST_BYTES >> 30);
        return Err(format!(
            "the memory that it touches spans {gib} GiB in {} regions: at most {most} GiB can be simulated (name the \
             regions that matter)",
            joined.len()
        ));
    }
    // So that lines are those of the program.
    for i in 0..joined.len() {
        let floor = i.checked_sub(1).map_or(0, |before| joined[before].base + joined[before].bytes);
        let region = &mut joined[i];
        let aligned = (region.base & !(LINE - 1)).max(floor);
        region.bytes += region.base - aligned;
        region.base = aligned;
    }
    Ok(joined)
}

/// What was touched outside of the regions of `named`, sorted, no two of them overlapping.
fn pieces(
    named: &[RecordedRegion],
    touched: impl Iterator<Item = (u64, u64, bool)>,
) -> Result<Vec<TouchedPages>, String> {
    let mut pieces: Vec<TouchedPages> = Vec::new();
    let mut kept = LEAST_KEPT;
    for (address, bytes, stored) in touched {
        let next = named.partition_point(|r| r.base <= address);
        let floor = next.checked_sub(1).map_or(0, |i| named[i].base + named[i].bytes);
        if address < floor {
            continue;
        }
        let ceiling = named.get(next).map_or(u64::MAX, |r| r.base);
        let first = (address & !(PAGE - 1)).max(floor);
        let end = (address + bytes).checked_next_multiple_of(PAGE).unwrap_or(u64::MAX).min(ceiling);
        push(&mut pieces, TouchedPages { first, end, stored });
        // Programs come back to the same pages: what is kept goes with the pages, not with the references.
        if pieces.len() >= kept {
            put_together(&mut pieces);
            kept = (2 * pieces.len()).max(LEAST_KEPT);
            if pieces.len() > MOST_PIECES {
                return Err(format!(
                    "it touches more than {} GiB page by page: record fewer packets, or name the regions that matter",
                    (MOST_PIECES as u64 * PAGE) >> 30
                ));
            }
        }
    }
    put_together(&mut pieces);
    Ok(pieces)
}

/// Sorts, and makes one of those that overlap.
fn put_together(pieces: &mut Vec<TouchedPages>) {
    pieces.sort_unstable();
    pieces.dedup_by(|next, last| {
        let overlap = next.first < last.end;
        if overlap {
            (last.end, last.stored) = (last.end.max(next.end), last.stored | next.stored);
        }
        overlap
    });
}

/// Stretches of what is closer than `gap`, without a named region between; with `apart` what is only read is not joined
/// with what is stored to. More than can be simulated are not made.
fn join(pages: &[TouchedPages], named: &[RecordedRegion], gap: u64, apart: bool) -> Vec<RecordedRegion> {
    let mut joined: Vec<RecordedRegion> = Vec::new();
    for page in pages {
        let full = joined.len() > MOST_STRETCHES + MOST_NAMED;
        match joined.last_mut() {
            Some(last)
                if page.first - (last.base + last.bytes) <= gap
                    && (!apart || page.stored != last.shared)
                    && named.partition_point(|r| r.base < page.first)
                        == named.partition_point(|r| r.base < last.base) =>
            {
                last.bytes = page.end - last.base;
                last.shared &= !page.stored;
            }
            _ if full => break,
            _ => joined.push(RecordedRegion {
                name: String::new(),
                base: page.first,
                bytes: page.end - page.first,
                shared: !page.stored,
                named: false,
            }),
        }
    }
    joined
}
