use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Addr, Cbm, LINE_BYTES, Line, Ps, Size, Span};

use crate::MachineError;
use crate::cache::TagArray;

/// How a core translates addresses. Source of the mechanism: Intel 64 SDM vol. 3, 4.10 (caching
/// translation information); Barr, Cox and Rixner, ISCA 2010, "Translation caching".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlbSpec {
    /// The page size of everything: 4 KiB, 2 MiB or 1 GiB.
    pub page: Size,
    /// Entries of the first-level data TLB for that size.
    pub l1_entries: u32,
    /// Its ways, 1 to 32.
    pub l1_ways: u32,
    /// Entries of the second-level TLB for that size; 0 if it has none.
    pub l2_entries: u32,
    /// Its ways, 1 to 32.
    pub l2_ways: u32,
    /// What a hit in the second level takes.
    pub l2_latency: Span,
    /// Entries of the page-walk cache of each level above the last, 0 to 32, fully associative.
    pub walk_cache: u32,
}

/// What a translation takes before the request can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// Nothing.
    Free,
    /// A second-level TLB hit.
    Wait(Ps),
    /// A page walk: these table entries are loaded, each after the one before.
    Walk(Walk),
}

/// The table entries that a page walk loads, from the topmost not cached one down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    entries: [Addr; LEVELS],
    first: u8,
    page_bits: u8,
}

impl Walk {
    /// The addresses in the order in which they are loaded.
    pub fn entries(&self) -> &[Addr] {
        &self.entries[usize::from(self.first)..]
    }

    /// The low address bits that the walk does not translate: those within its page.
    pub fn page_bits(&self) -> u32 {
        u32::from(self.page_bits)
    }
}

/// Levels of a page table, each with 512 entries of 8 bytes.
const LEVELS: usize = 4;
const ENTRY_BYTES: u64 = 8;
const PAGE_BITS: u32 = 12;
const LEVEL_BITS: u32 = 9;

/// The TLBs and page-walk caches of one core.
#[derive(Clone, Debug)]
pub(super) struct Tlb {
    l1: TagArray,
    l2: Option<TagArray>,
    l2_latency: Ps,
    /// Of the levels above the last, the topmost first.
    walk_caches: Vec<TagArray>,
    /// Levels that a walk of this page size passes.
    levels: usize,
    page_bits: u32,
    tables: [Addr; LEVELS],
}

impl Tlb {
    /// # Errors
    /// A page size that there is not, ways that do not divide the entries.
    pub(super) fn new(spec: &TlbSpec, path: &str) -> Result<Tlb, MachineError> {
        let levels = match spec.page.bytes() {
            0x1000 => 4,
            0x20_0000 => 3,
            0x4000_0000 => 2,
            _ => {
                return Err(MachineError::new(
                    format!("{path}.page"),
                    spec.page.to_string(),
                    "4 KiB, 2 MiB or 1 GiB",
                    "x86-64 has no other".into(),
                ));
            }
        };
        let array = |field: &str, entries: u32, ways: u32| {
            if !(1..=32).contains(&ways) || entries == 0 || !entries.is_multiple_of(ways) || entries > 1 << 20 {
                return Err(MachineError::new(
                    format!("{path}.{field}_entries"),
                    format!("{entries} with {ways} ways"),
                    "1 to 32 ways that divide the entries",
                    "see the processor's optimization manual".into(),
                ));
            }
            Ok(TagArray::new(u64::from(entries / ways), ways))
        };
        if spec.walk_cache > 32 {
            return Err(MachineError::new(
                format!("{path}.walk_cache"),
                spec.walk_cache.to_string(),
                "0 to 32 entries",
                "processors have 2 to 32 a level".into(),
            ));
        }
        let walk_caches = if spec.walk_cache > 0 { levels - 1 } else { 0 };
        Ok(Tlb {
            l1: array("l1", spec.l1_entries, spec.l1_ways)?,
            l2: (spec.l2_entries > 0).then(|| array("l2", spec.l2_entries, spec.l2_ways)).transpose()?,
            l2_latency: spec.l2_latency.ps(),
            walk_caches: vec![TagArray::new(1, spec.walk_cache.max(1)); walk_caches],
            levels,
            page_bits: spec.page.bytes().trailing_zeros(),
            tables: tables_from(Addr(DEFAULT_TABLES)),
        })
    }

    /// Places the page tables, the last level first.
    pub(super) fn tables_at(&mut self, from: Addr) {
        self.tables = tables_from(from);
    }

    /// Translates `addr`, and keeps the translation.
    pub(super) fn translate(&mut self, addr: Addr) -> Translation {
        let page = Line(addr.0 >> self.page_bits);
        if self.l1.use_line(page).is_some() {
            return Translation::Free;
        }
        let in_l2 = self.l2.as_mut().is_some_and(|l2| l2.use_line(page).is_some());
        let _ = self.l1.fill(page, ALL, false, false);
        if in_l2 {
            return Translation::Wait(self.l2_latency);
        }
        if let Some(l2) = &mut self.l2 {
            let _ = l2.fill(page, ALL, false, false);
        }
        let mut first = 0;
        for (level, cache) in self.walk_caches.iter_mut().enumerate() {
            let entry = Line(number_of(addr, level));
            if cache.use_line(entry).is_some() {
                first = level + 1;
            } else {
                let _ = cache.fill(entry, ALL, false, false);
            }
        }
        let mut entries = [Addr(0); LEVELS];
        for (level, entry) in entries.iter_mut().enumerate().take(self.levels) {
            *entry = Addr(self.tables[level].0 + number_of(addr, level) * ENTRY_BYTES);
        }
        // Walks of large pages end above the last level.
        entries.rotate_right(LEVELS - self.levels);
        Translation::Walk(Walk {
            entries,
            first: (LEVELS - self.levels + first) as u8,
            page_bits: self.page_bits as u8,
        })
    }
}

/// The number of the entry that translates `addr` on `level`, 0 being the topmost.
fn number_of(addr: Addr, level: usize) -> u64 {
    addr.0 >> (PAGE_BITS + LEVEL_BITS * (LEVELS - 1 - level) as u32)
}

const ALL: Cbm = Cbm(u32::MAX);
/// Behind 16 GiB, unless they are placed.
const DEFAULT_TABLES: u64 = 1 << 34;

/// Where the tables of each level begin, the topmost first. The last level needs 1/512 of what is
/// mapped, and so on.
fn tables_from(from: Addr) -> [Addr; LEVELS] {
    let mut at = from.0.next_multiple_of(LINE_BYTES);
    let mut size = at >> PAGE_BITS;
    let mut tables = [Addr(0); LEVELS];
    for table in tables.iter_mut().rev() {
        *table = Addr(at);
        at += (size + 1).next_multiple_of(512) * ENTRY_BYTES;
        size >>= LEVEL_BITS;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(page: u64) -> TlbSpec {
        TlbSpec {
            page: Size::from_bytes(page),
            l1_entries: 4,
            l1_ways: 4,
            l2_entries: 16,
            l2_ways: 4,
            l2_latency: Span::from_ns(3.0),
            walk_cache: 2,
        }
    }

    fn walked(tlb: &mut Tlb, addr: u64) -> usize {
        match tlb.translate(Addr(addr)) {
            Translation::Walk(walk) => walk.entries().len(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_walk_has_a_load_for_each_level_that_is_not_cached() {
        for (page, levels) in [(1 << 12, 4), (1 << 21, 3), (1 << 30, 2)] {
            let mut tlb = Tlb::new(&spec(page), "tlb").unwrap();
            assert_eq!(walked(&mut tlb, 0), levels);
            assert_eq!(tlb.translate(Addr(page - 1)), Translation::Free);
            // The next page: all levels but the last are cached.
            assert_eq!(walked(&mut tlb, page), 1);
        }
    }

    #[test]
    fn what_leaves_the_first_level_is_found_in_the_second() {
        let mut tlb = Tlb::new(&spec(4096), "tlb").unwrap();
        for page in 0..8u64 {
            tlb.translate(Addr(page << 12));
        }
        assert_eq!(tlb.translate(Addr(0)), Translation::Wait(Ps::from_ns(3)));
        assert_eq!(tlb.translate(Addr(0)), Translation::Free);
    }

    #[test]
    fn table_entries_lie_side_by_side_and_levels_apart() {
        let mut tlb = Tlb::new(&spec(4096), "tlb").unwrap();
        tlb.tables_at(Addr(1 << 32));
        let Translation::Walk(walk) = tlb.translate(Addr(5 << 12)) else { panic!("cold") };
        assert_eq!(*walk.entries().last().unwrap(), Addr((1 << 32) + 5 * 8));
        let mut sorted = walk.entries().to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 4);
        // The last level takes a 512th of what is mapped.
        assert!(sorted[1].0 >= (1 << 32) + (1 << 23));
    }

    #[test]
    fn contradictions_are_named() {
        let bad = |change: fn(&mut TlbSpec)| {
            let mut spec = spec(4096);
            change(&mut spec);
            Tlb::new(&spec, "machine.tlb").unwrap_err().to_string()
        };
        assert!(bad(|s| s.page = Size::from_bytes(8192)).starts_with("machine.tlb.page = 8 KiB: allowed is 4 KiB"));
        assert!(bad(|s| s.l1_ways = 3).starts_with("machine.tlb.l1_entries = 4 with 3 ways"));
        assert!(bad(|s| s.walk_cache = 33).starts_with("machine.tlb.walk_cache = 33"));
    }
}
