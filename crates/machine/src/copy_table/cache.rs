//! One cache with the indexing table beside it, without time.

use units::{Cbm, Line};

use super::moves::{DataSource, Fault, Move, Steps};
use super::table::IndexTable;
use crate::cache::{NoWay, TagArray, Victim, WriteOutcome};

const ALL_WAYS: Cbm = Cbm(u32::MAX);

/// A write-back cache with true LRU, and the indexing table beside it, as state without time.
///
/// One way makes it direct-mapped. A line that is represented by an entry of the table is never in
/// the cache itself, and a source always is.
#[derive(Clone, Debug)]
pub struct CopyCache {
    tags: TagArray,
    table: Option<IndexTable>,
    fault: Fault,
}

impl CopyCache {
    /// An empty cache of `sets` sets of `ways` ways (1 to 32), with a table of as many entries or
    /// without one.
    pub fn new(sets: u64, ways: u32, with_table: bool) -> CopyCache {
        let table = with_table.then(|| IndexTable::new(sets, ways));
        CopyCache { tags: TagArray::new(sets, ways), table, fault: Fault::None }
    }

    pub(super) fn with_fault(mut self, fault: Fault) -> CopyCache {
        self.table = self.table.map(|table| table.with_fault(fault));
        self.fault = fault;
        self
    }

    /// The table, where there is one.
    pub fn table(&self) -> Option<&IndexTable> {
        self.table.as_ref()
    }

    /// Whether the cache itself has `line`.
    pub fn holds(&self, line: Line) -> bool {
        self.tags.find(line).is_some()
    }

    /// Reads `line`; says who has its data, which are in the cache afterwards, as [`DataSource::Table`]'s
    /// `src` or as `line`.
    #[inline]
    pub fn read(&mut self, line: Line, steps: &mut impl Steps) -> DataSource {
        if let Some((src, place)) = self.table.as_ref().and_then(|t| t.source(line)) {
            steps.push(Move::Search { place });
            self.tags.use_line(src);
            return DataSource::Table { src };
        }
        let WriteOutcome::Filled(victim) = self.tags.use_or_fill(line) else { return DataSource::Cache };
        self.evict(victim, steps);
        steps.push(Move::Fill(line));
        DataSource::Memory
    }

    /// Writes some of `line`, which is in the cache afterwards; says whether it was before.
    #[inline]
    pub fn write(&mut self, line: Line, steps: &mut impl Steps) -> bool {
        self.own(line, steps);
        let WriteOutcome::Filled(victim) = self.tags.write_or_fill(line, ALL_WAYS, 0, 0) else { return true };
        self.evict(victim, steps);
        steps.push(Move::Fill(line));
        false
    }

    /// Takes all of `line` as its latest content: from an L1, or placed by a device.
    #[inline]
    pub fn take(&mut self, line: Line, steps: &mut impl Steps) {
        if let Some(table) = &mut self.table {
            table.before_overwrite(line, steps);
        }
        if let WriteOutcome::Filled(victim) = self.tags.write_or_fill(line, ALL_WAYS, 0, 0) {
            self.evict(victim, steps);
        }
    }

    /// `line` is about to be written, here or in an L1.
    #[inline]
    pub fn own(&mut self, line: Line, steps: &mut impl Steps) {
        if let Some(table) = &mut self.table {
            table.before_write(line, steps);
        }
    }

    /// All of `src` becomes the content of `dst`, by a pointer.
    ///
    /// Without a table, nothing happens and the answer is `false`.
    pub fn copy(&mut self, src: Line, dst: Line, steps: &mut impl Steps) -> bool {
        let Some(table) = &mut self.table else { return false };
        let src = table.original(src);
        if src == dst && self.fault != Fault::PointAtSelf {
            return true;
        }
        table.before_copy_onto(dst, steps);
        if self.fault != Fault::KeepTargetCached && self.tags.remove(dst).is_some() {
            steps.push(Move::Drop(dst));
        }
        if let WriteOutcome::Filled(victim) = self.tags.use_or_fill(src) {
            self.evict(victim, steps);
            steps.push(Move::Fill(src));
        }
        if let Some(table) = &mut self.table {
            table.point(dst, src, steps);
        }
        true
    }

    /// A device, or a store that goes around the cache, is about to write `line` in memory, `whole` or
    /// in part: nobody has it here afterwards, and memory is current where it has to be.
    pub fn before_memory_write(&mut self, line: Line, whole: bool, steps: &mut impl Steps) {
        if let Some(table) = &mut self.table
            && self.fault != Fault::DeviceWriteMissesTable
        {
            if whole { table.before_overwrite(line, steps) } else { table.before_write(line, steps) }
        }
        if let Some(dirty) = self.tags.remove(line) {
            if dirty && !whole {
                steps.push(Move::WriteBack(line));
            }
            steps.push(Move::Drop(line));
        }
    }

    /// A device, or a load that goes around the cache, is about to read `line` from memory: memory is
    /// current afterwards.
    pub fn before_memory_read(&mut self, line: Line, steps: &mut impl Steps) {
        if let Some(table) = &mut self.table {
            table.before_device_read(line, steps);
        }
        if let Some(slot) = self.tags.find(line)
            && self.tags.is_dirty(slot)
        {
            self.tags.set_dirty(slot, false);
            steps.push(Move::WriteBack(line));
        }
    }

    /// An L1 has got `line` through the table.
    #[inline]
    pub fn share(&mut self, line: Line) {
        if let Some(table) = &mut self.table {
            table.share(line);
        }
    }

    /// Whether an L1 that has got `line` from the cache itself may have it as exclusive. Not where copies point
    /// at it: the first write of a source is to settle at once. Data would be right even so, since the cache keeps
    /// a source's old content until the L1 writes back.
    #[inline]
    pub fn gives_exclusive(&self, line: Line) -> bool {
        self.table.as_ref().is_none_or(|table| !table.is_source(line))
    }

    /// What had to go for a line that has come in.
    #[inline]
    fn evict(&mut self, victim: Result<Option<Victim>, NoWay>, steps: &mut impl Steps) {
        let Ok(Some(victim)) = victim else { return };
        let settled = self.table.as_mut().is_some_and(|table| table.before_eviction(victim.line, steps));
        if victim.dirty && !(settled && self.fault == Fault::SettleCleansSource) {
            steps.push(Move::WriteBack(victim.line));
        }
        steps.push(Move::Drop(victim.line));
    }

    /// Whether sources are cached, targets are not, and no source is a target.
    pub fn is_consistent(&self) -> bool {
        self.table.as_ref().is_none_or(|table| {
            table.pointers().all(|(dst, src)| {
                self.holds(src)
                    && !self.holds(dst)
                    && table.source(dst).is_some_and(|(s, _)| s == src)
                    && table.source(src).is_none()
            })
        })
    }
}
