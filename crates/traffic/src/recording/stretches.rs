//! Regions of a recording: those that the program has named, and for all other memory that it has touched a region a stretch.
//!
//! A stretch is what lies closer together than [`GAP`], on whole pages: tables and heaps stay together, and what is far
//! apart does not make one huge region. Pages that are only read are stretches apart from those that are stored to, as far as
//! there are not too many. Where a stretch would run into a named region it ends.

use super::RecordedRegion;

const PAGE: u64 = 4096;
/// Between stretches; more where there would be too many.
const GAP: u64 = 1 << 20;
/// A layout places every region, and a report may name it.
const MOST_STRETCHES: usize = 1024;
const MOST_NAMED: usize = 4096;
/// A machine has 256 GiB.
const MOST_BYTES: u64 = 64 << 30;
const LINE: u64 = 64;

/// Sorted by their base. `touched` has addresses with bytes, and whether something was stored there.
pub(super) fn stretches(
    mut named: Vec<RecordedRegion>,
    mut touched: Vec<(u64, u64, bool)>,
) -> Result<Vec<RecordedRegion>, String> {
    if named.len() > MOST_NAMED {
        return Err(format!("{} regions are named: at most {MOST_NAMED} can be", named.len()));
    }
    named.sort_unstable_by_key(|r| r.base);
    touched.sort_unstable();
    touched.dedup();
    let owner = |address: u64| {
        let before = named.partition_point(|r| r.base <= address);
        before.checked_sub(1).filter(|&i| address - named[i].base < named[i].bytes)
    };
    // Whole pages, each between the named regions around it.
    let mut pages: Vec<RecordedRegion> = Vec::new();
    for &(address, bytes, stored) in &touched {
        if owner(address).is_some() {
            continue;
        }
        let next = named.partition_point(|r| r.base <= address);
        let floor = next.checked_sub(1).map_or(0, |i| named[i].base + named[i].bytes);
        let ceiling = named.get(next).map_or(u64::MAX, |r| r.base);
        let first = (address & !(PAGE - 1)).max(floor);
        let end = (address + bytes).checked_next_multiple_of(PAGE).unwrap_or(u64::MAX).min(ceiling);
        match pages.last_mut() {
            Some(last) if first < last.base + last.bytes && last.base >= floor => {
                last.bytes = last.bytes.max(end - last.base);
                last.shared &= !stored;
            }
            _ => pages.push(RecordedRegion {
                name: String::new(),
                base: first,
                bytes: end - first,
                shared: !stored,
                named: false,
            }),
        }
    }
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
    if total > MOST_BYTES || joined.len() > MOST_STRETCHES + MOST_NAMED {
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

/// Stretches of what is closer than `gap`, without a named region between; with `apart` what is only read is not joined
/// with what is stored to.
fn join(pages: &[RecordedRegion], named: &[RecordedRegion], gap: u64, apart: bool) -> Vec<RecordedRegion> {
    let mut joined: Vec<RecordedRegion> = Vec::new();
    for page in pages {
        match joined.last_mut() {
            Some(last)
                if page.base - (last.base + last.bytes) <= gap
                    && (!apart || page.shared == last.shared)
                    && named.partition_point(|r| r.base < page.base)
                        == named.partition_point(|r| r.base < last.base) =>
            {
                last.bytes = page.base + page.bytes - last.base;
                last.shared &= page.shared;
            }
            _ => joined.push(page.clone()),
        }
    }
    joined
}
