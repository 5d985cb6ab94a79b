//! Address translation of a core: TLBs, page-walk caches, page tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Addr, Cbm, LINE_BYTES, Line, Ps, Size, Span};

use super::Hierarchy;
use super::extent::{Extent, check_names, named};
use crate::MachineError;
use crate::cache::TagArray;

/// How a core translates addresses. Source of the mechanism: Intel 64 SDM vol. 3, 4.10 (caching
/// translation information); Barr, Cox and Rixner, ISCA 2010, "Translation caching".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlbSpec {
    /// The page size of everything that `pages` does not name: 4 KiB, 2 MiB or 1 GiB.
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
    /// What a page walk takes beside the loads of its entries; nothing when left out. A guest's goes through the tables
    /// of its host, too (Bhargava et al., ASPLOS 2008, "Accelerating two-dimensional page walks").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walk_latency: Option<Span>,
    /// The same for memory that processes share, such as the rings of memif: each has a mapping of its own, in pages of
    /// 4 KiB whatever the other sizes are. As `walk_latency` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_walk_latency: Option<Span>,
    /// Page sizes of some of the memory: `mempool`, `rings`, `tables`, or a table by its name. Regions begin and end
    /// with their pages then.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pages: BTreeMap<String, Size>,
    /// The TLBs of the sizes in `pages` beside `page`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<PageSizeSpec>,
}

/// The TLBs of one more page size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageSizeSpec {
    /// 4 KiB, 2 MiB or 1 GiB.
    pub page: Size,
    /// Entries of the first-level data TLB for that size.
    pub l1_entries: u32,
    /// Its ways, 1 to 32.
    pub l1_ways: u32,
    /// Entries of a second-level TLB of its own; it shares that of the other sizes when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_entries: Option<u32>,
    /// Its ways, 1 to 32; 4 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_ways: Option<u32>,
}

impl TlbSpec {
    /// The bytes of a page of the region `name` of `group`, if pages differ; 4 KiB if they do not.
    pub fn alignment(&self, group: &str, name: &str) -> u64 {
        if self.pages.is_empty() {
            return 1 << PAGE_BITS;
        }
        named(&self.pages, group, name).unwrap_or(&self.page).bytes()
    }
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
    latency: Ps,
    first: u8,
    page_bits: u8,
}

impl Walk {
    /// The addresses in the order in which they are loaded.
    pub fn entries(&self) -> &[Addr] {
        &self.entries[usize::from(self.first)..]
    }

    /// What the walk takes once the last entry is there.
    pub fn latency(&self) -> Ps {
        self.latency
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tlb {
    /// By page size, the one of everything first.
    sizes: Vec<PageSize>,
    /// The second level that sizes share.
    l2: Option<TagArray>,
    l2_latency: Ps,
    walk_latency: Ps,
    shared_walk_latency: Ps,
    /// The TLBs that have the pages of shared memory: those of 4 KiB, or those of everything where there are none.
    of_shared: usize,
    /// Of the levels above the last, the topmost first.
    walk_caches: Vec<TagArray>,
    tables: [Addr; LEVELS],
    /// Bytes of all tables of one mapping.
    tables_bytes: u64,
    /// First bytes, ascending, and the page size of all up to the next; empty if all have the first.
    ranges: Arc<[(u64, u8)]>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct PageSize {
    l1: TagArray,
    /// A second level of its own.
    l2: Option<TagArray>,
    bits: u32,
    /// Levels that a walk passes.
    levels: usize,
}

/// What keeps pages of different sizes apart in a TLB that they share: page numbers are smaller.
const SIZE_SHIFT: u32 = 28;

impl Tlb {
    /// # Errors
    /// A page size that there is not, or twice; ways that do not divide the entries.
    pub(super) fn new(spec: &TlbSpec, path: &str) -> Result<Tlb, MachineError> {
        let levels = |page: Size, field: &str| match page.bytes() {
            0x1000 => Ok(4),
            0x20_0000 => Ok(3),
            0x4000_0000 => Ok(2),
            _ => Err(MachineError::new(
                format!("{path}.{field}"),
                page.to_string(),
                "4 KiB, 2 MiB or 1 GiB",
                "x86-64 has no other".into(),
            )),
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
        let mut sizes = vec![PageSize {
            levels: levels(spec.page, "page")?,
            l1: array("l1", spec.l1_entries, spec.l1_ways)?,
            l2: None,
            bits: spec.page.bytes().trailing_zeros(),
        }];
        for (i, size) in spec.sizes.iter().enumerate() {
            let field = format!("sizes[{i}]");
            let levels = levels(size.page, &format!("{field}.page"))?;
            if sizes.iter().any(|other| other.levels == levels) {
                return Err(MachineError::new(
                    format!("{path}.{field}.page"),
                    size.page.to_string(),
                    "each page size once",
                    format!("{path}.page has the TLBs of {}", spec.page),
                ));
            }
            let l2 = size.l2_entries.map(|entries| array(&format!("{field}.l2"), entries, size.l2_ways.unwrap_or(4)));
            sizes.push(PageSize {
                levels,
                l1: array(&format!("{field}.l1"), size.l1_entries, size.l1_ways)?,
                l2: l2.transpose()?,
                bits: size.page.bytes().trailing_zeros(),
            });
        }
        for (region, page) in &spec.pages {
            if !sizes.iter().any(|size| page.bytes() == 1 << size.bits) {
                return Err(MachineError::new(
                    format!("{path}.pages.{region}"),
                    page.to_string(),
                    format!("{path}.page, or the page of one of {path}.sizes"),
                    "add its TLBs: sizes = [{ page = \"2 MiB\", l1_entries = 32, l1_ways = 4 }]".into(),
                ));
            }
        }
        // Shared memory is in small pages.
        let walk_caches = if spec.walk_cache > 0 { LEVELS - 1 } else { 0 };
        let walk_latency = spec.walk_latency.map_or(Ps::ZERO, Span::ps);
        let (tables, tables_bytes) = tables_from(Addr(DEFAULT_TABLES));
        Ok(Tlb {
            of_shared: sizes.iter().position(|size| size.levels == LEVELS).unwrap_or(0),
            sizes,
            l2: (spec.l2_entries > 0).then(|| array("l2", spec.l2_entries, spec.l2_ways)).transpose()?,
            l2_latency: spec.l2_latency.ps(),
            walk_latency,
            shared_walk_latency: spec.shared_walk_latency.map_or(walk_latency, Span::ps),
            walk_caches: vec![TagArray::new(1, spec.walk_cache.max(1)); walk_caches],
            tables,
            tables_bytes,
            ranges: Arc::new([]),
        })
    }

    /// Places the page tables, the last level first.
    pub(super) fn tables_at(&mut self, from: Addr) {
        (self.tables, self.tables_bytes) = tables_from(from);
    }

    #[inline(always)]
    fn size_of(&self, addr: Addr) -> usize {
        if self.ranges.is_empty() {
            return 0;
        }
        let at = self.ranges.partition_point(|&(from, _)| from <= addr.0);
        self.ranges[..at].last().map_or(0, |&(_, size)| usize::from(size))
    }

    /// Translates `addr` by one of its mappings, and keeps the translation.
    pub(super) fn translate(&mut self, addr: Addr, mapping: u8) -> Translation {
        let index = if mapping == 0 { self.size_of(addr) } else { self.of_shared };
        let all_sizes = self.sizes.len();
        let size = &mut self.sizes[index];
        // Pages of shared memory have 4 KiB whatever `page` is. What keeps those of a mapping apart from others is needed
        // everywhere, what keeps sizes apart where they share a TLB.
        let (bits, levels, latency, apart, apart_in_l2) = match mapping {
            0 => (size.bits, size.levels, self.walk_latency, 0, index as u64),
            _ => {
                let apart = (all_sizes - 1 + usize::from(mapping)) as u64;
                (PAGE_BITS, LEVELS, self.shared_walk_latency, apart, apart)
            }
        };
        let page = addr.0 >> bits;
        let in_l1 = Line(page | apart << SIZE_SHIFT);
        if size.l1.use_line(in_l1).is_some() {
            return Translation::Free;
        }
        let (l2, key) = match &mut size.l2 {
            Some(own) => (Some(own), in_l1),
            None => (self.l2.as_mut(), Line(page | apart_in_l2 << SIZE_SHIFT)),
        };
        let mut in_l2 = false;
        if let Some(l2) = l2 {
            in_l2 = l2.use_line(key).is_some();
            if !in_l2 {
                let _ = l2.fill(key, ALL, false, false);
            }
        }
        let _ = size.l1.fill(in_l1, ALL, false, false);
        if in_l2 {
            return Translation::Wait(self.l2_latency);
        }
        let mut first = 0;
        for (level, cache) in self.walk_caches.iter_mut().enumerate().take(levels - 1) {
            let entry = Line(number_of(addr, level) | apart << SIZE_SHIFT);
            if cache.use_line(entry).is_some() {
                first = level + 1;
            } else {
                let _ = cache.fill(entry, ALL, false, false);
            }
        }
        let mut entries = [Addr(0); LEVELS];
        for (level, entry) in entries.iter_mut().enumerate().take(levels) {
            let table = self.tables[level].0 + u64::from(mapping) * self.tables_bytes;
            *entry = Addr(table + number_of(addr, level) * ENTRY_BYTES);
        }
        // Walks of large pages end above the last level.
        entries.rotate_right(LEVELS - levels);
        let first = (LEVELS - levels + first) as u8;
        Translation::Walk(Walk { entries, latency, first, page_bits: bits as u8 })
    }
}

impl Hierarchy {
    /// Gives the memory that `extents` name the page sizes of `spec`, the translation that it was made with.
    ///
    /// # Errors
    /// A name in `pages` that none of `extents` has.
    pub fn map_pages(&mut self, spec: &TlbSpec, extents: &[Extent], path: &str) -> Result<(), MachineError> {
        if spec.pages.is_empty() {
            return Ok(());
        }
        check_names(&spec.pages, extents, &format!("{path}.tlb.pages"))?;
        let mut sorted: Vec<&Extent> = extents.iter().collect();
        sorted.sort_by_key(|extent| extent.bytes.start);
        let mut ranges = Vec::with_capacity(2 * sorted.len());
        for extent in sorted {
            let page = spec.alignment(extent.group, &extent.name);
            let also = spec.sizes.iter().position(|size| size.page.bytes() == page).map_or(0, |i| i + 1);
            ranges.push((extent.bytes.start, also as u8));
            // The rest of a region's last page is nobody's.
            ranges.push((extent.bytes.end.next_multiple_of(page), 0));
        }
        let ranges: Arc<[(u64, u8)]> = ranges.into();
        for tlb in self.cores.iter_mut().filter_map(|core| core.tlb.as_mut()) {
            tlb.ranges = Arc::clone(&ranges);
        }
        Ok(())
    }
}

/// The number of the entry that translates `addr` on `level`, 0 being the topmost.
fn number_of(addr: Addr, level: usize) -> u64 {
    addr.0 >> (PAGE_BITS + LEVEL_BITS * (LEVELS - 1 - level) as u32)
}

const ALL: Cbm = Cbm(u32::MAX);
/// Behind 16 GiB, unless they are placed.
const DEFAULT_TABLES: u64 = 1 << 34;

/// Where the tables of each level begin, the topmost first, and the bytes of all. The last level needs 1/512 of what is
/// mapped, and so on.
fn tables_from(from: Addr) -> ([Addr; LEVELS], u64) {
    let mut at = from.0.next_multiple_of(LINE_BYTES);
    let mut size = at >> PAGE_BITS;
    let mut tables = [Addr(0); LEVELS];
    for table in tables.iter_mut().rev() {
        *table = Addr(at);
        at += (size + 1).next_multiple_of(512) * ENTRY_BYTES;
        size >>= LEVEL_BITS;
    }
    (tables, at - tables[LEVELS - 1].0)
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
            walk_latency: None,
            shared_walk_latency: None,
            pages: BTreeMap::new(),
            sizes: Vec::new(),
        }
    }

    fn walked(tlb: &mut Tlb, addr: u64) -> usize {
        match tlb.translate(Addr(addr), 0) {
            Translation::Walk(walk) => walk.entries().len(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_walk_has_a_load_for_each_level_that_is_not_cached() {
        for (page, levels) in [(1 << 12, 4), (1 << 21, 3), (1 << 30, 2)] {
            let mut tlb = Tlb::new(&spec(page), "tlb").unwrap();
            assert_eq!(walked(&mut tlb, 0), levels);
            assert_eq!(tlb.translate(Addr(page - 1), 0), Translation::Free);
            // The next page: all levels but the last are cached.
            assert_eq!(walked(&mut tlb, page), 1);
        }
    }

    #[test]
    fn what_leaves_the_first_level_is_found_in_the_second() {
        let mut tlb = Tlb::new(&spec(4096), "tlb").unwrap();
        for page in 0..8u64 {
            tlb.translate(Addr(page << 12), 0);
        }
        assert_eq!(tlb.translate(Addr(0), 0), Translation::Wait(Ps::from_ns(3)));
        assert_eq!(tlb.translate(Addr(0), 0), Translation::Free);
    }

    #[test]
    fn table_entries_lie_side_by_side_and_levels_apart() {
        let mut tlb = Tlb::new(&spec(4096), "tlb").unwrap();
        tlb.tables_at(Addr(1 << 32));
        let Translation::Walk(walk) = tlb.translate(Addr(5 << 12), 0) else { panic!("cold") };
        assert_eq!(*walk.entries().last().unwrap(), Addr((1 << 32) + 5 * 8));
        let mut sorted = walk.entries().to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 4);
        // The last level takes a 512th of what is mapped.
        assert!(sorted[1].0 >= (1 << 32) + (1 << 23));
    }

    #[test]
    fn memory_that_processes_share_has_a_small_page_for_each() {
        let huge = TlbSpec {
            walk_latency: Some(Span::from_ns(5.0)),
            shared_walk_latency: Some(Span::from_ns(20.0)),
            ..spec(1 << 21)
        };
        let mut tlb = Tlb::new(&huge, "tlb").unwrap();
        let mut walk = |addr, mapping| match tlb.translate(Addr(addr), mapping) {
            Translation::Walk(walk) => (walk.page_bits(), walk.latency().as_ns(), walk.entries().to_vec()),
            other => panic!("{other:?}"),
        };
        let (own, first, second) = (walk(0, 0), walk(0, 1), walk(0, 2));
        assert_eq!([own.0, first.0, second.0], [21, 12, 12]);
        assert_eq!([own.1, first.1, second.1], [5.0, 20.0, 20.0]);
        assert_eq!([own.2.len(), first.2.len(), second.2.len()], [3, 4, 4]);
        // Tables of their own, and a page of 4 KiB each.
        assert!(first.2.iter().all(|entry| !second.2.contains(entry) && !own.2.contains(entry)));
        assert_eq!([walk(4096, 1).2.len(), walk(4096, 2).2.len()], [1, 1]);
        // The first level has four entries for the five pages, which the second has all.
        for mapping in [0, 1, 2] {
            assert_eq!(tlb.translate(Addr(0), mapping), Translation::Wait(Ps::from_ns(3)));
            assert_eq!(tlb.translate(Addr(0), mapping), Translation::Free);
        }
        // Without a number of their own they take as long as others.
        let mut plain = Tlb::new(&TlbSpec { shared_walk_latency: None, ..huge }, "tlb").unwrap();
        let Translation::Walk(walk) = plain.translate(Addr(0), 1) else { panic!("cold") };
        assert_eq!(walk.latency(), Ps::from_ns(5));
    }

    /// Each page size has its own arrays: what a set holds is the last pages that were used of it.
    #[derive(Default)]
    struct Naive {
        l1: [Vec<u64>; 2],
        l2: Vec<(usize, u64)>,
    }

    impl Naive {
        /// Whether `page` of a size has to be walked for; both levels of 4 and 16 ways in one set.
        fn walks(&mut self, size: usize, page: u64) -> bool {
            let l1 = &mut self.l1[size];
            let here = l1.iter().position(|&p| p == page).map(|at| l1.remove(at));
            l1.insert(0, page);
            l1.truncate(4);
            if here.is_some() {
                return false;
            }
            let there = self.l2.iter().position(|&p| p == (size, page)).map(|at| self.l2.remove(at));
            self.l2.insert(0, (size, page));
            self.l2.truncate(16);
            there.is_none()
        }
    }

    #[test]
    fn regions_of_two_page_sizes_walk_as_often_as_their_pages_miss() {
        let mut spec = spec(4096);
        spec.l2_ways = 16;
        spec.sizes.push(PageSizeSpec {
            page: Size::from_bytes(1 << 21),
            l1_entries: 4,
            l1_ways: 4,
            l2_entries: None,
            l2_ways: None,
        });
        spec.pages.insert("mempool".into(), Size::from_bytes(1 << 21));
        let mut tlb = Tlb::new(&spec, "tlb").unwrap();
        // 64 MiB of mbufs in huge pages before 1 MiB of a table in small ones.
        tlb.ranges = Arc::new([(0, 1), (64 << 20, 0)]);
        let (mut naive, mut state) = (Naive::default(), 1u64);
        let (mut walks, mut expected, mut loads) = ([0; 2], [0; 2], 0);
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (small, at) = (usize::from(state >> 60 < 9), state >> 20);
            let addr = if small == 1 { (64 << 20) + at % (1 << 17) } else { at % (20 << 20) };
            let bits = if small == 1 { 12 } else { 21 };
            expected[small] += u32::from(naive.walks(small, addr >> bits));
            if let Translation::Walk(walk) = tlb.translate(Addr(addr), 0) {
                walks[small] += 1;
                assert_eq!(walk.page_bits(), bits);
                loads += walk.entries().len();
            }
        }
        assert_eq!(walks, expected);
        assert!(walks[0] > 100 && walks[1] > 1000, "{walks:?}");
        // With the levels above cached, all but the first walks load their last entry only.
        assert!(loads < walks[0] as usize + walks[1] as usize + 8, "{loads}");
    }

    #[test]
    fn contradictions_are_named() {
        let bad = |change: fn(&mut TlbSpec)| {
            let mut spec = spec(4096);
            change(&mut spec);
            Tlb::new(&spec, "machine.tlb").unwrap_err().to_string()
        };
        assert!(bad(|s| s.page = Size::from_bytes(8192)).starts_with("machine.tlb.page = 8 KiB: allowed is 4 KiB"));
        let huge = |page: u64| {
            vec![PageSizeSpec {
                page: Size::from_bytes(page),
                l1_entries: 4,
                l1_ways: 4,
                l2_entries: None,
                l2_ways: None,
            }]
        };
        assert!(
            bad(|s| {
                s.pages.insert("mempool".into(), Size::from_bytes(1 << 21));
            })
            .starts_with("machine.tlb.pages.mempool = 2 MiB: allowed is machine.tlb.page, or")
        );
        let twice = Tlb::new(&TlbSpec { sizes: huge(4096), ..spec(4096) }, "machine.tlb").unwrap_err().to_string();
        assert!(twice.starts_with("machine.tlb.sizes[0].page = 4 KiB: allowed is each page size once"), "{twice}");
        assert!(bad(|s| s.l1_ways = 3).starts_with("machine.tlb.l1_entries = 4 with 3 ways"));
        assert!(bad(|s| s.walk_cache = 33).starts_with("machine.tlb.walk_cache = 33"));
    }
}
