//! The line that each set of an L1 used last: a short cut for repeated references.

use serde::{Deserialize, Serialize};
use units::Line;

use crate::cache::TagArray;

/// The caches of a core as its replay sees them.
#[derive(Debug)]
pub struct PrivateLevels<'a> {
    pub(super) l1: &'a mut TagArray,
    pub(super) latest: &'a mut Latest,
    /// Where nobody else wants to know what goes there.
    pub(super) l2: Option<&'a mut TagArray>,
}

impl PrivateLevels<'_> {
    /// As [`crate::Memory::repeat`], which counts the hit.
    #[inline(always)]
    pub(crate) fn repeats(&self, line: Line, write: bool) -> bool {
        self.latest.has(line, write)
    }

    /// Uses `line` of L1: whether that is all that has to be done, without which nothing happens; [`None`] if it is not
    /// there.
    #[inline(always)]
    pub(crate) fn use_l1(&mut self, line: Line, write: bool) -> Option<bool> {
        let served = self.l1.use_own(line, write);
        if served == Some(true) {
            self.latest.set(line, write);
        }
        served
    }

    /// Brings `line`, which L1 does not have, there from L2, if that is all that has to be done: `false` says that it is
    /// not, and [`crate::Memory::lookup`] does the same as if nothing had been asked.
    #[inline(always)]
    pub(crate) fn use_l2(&mut self, line: Line, write: bool) -> bool {
        let Some(l2) = &mut self.l2 else { return false };
        let Some(exclusive) = l2.use_shared(line) else { return false };
        if write && !exclusive || !self.l1.fill_if(line, write, exclusive, |victim| l2.take_over(victim)) {
            return false;
        }
        self.latest.set(line, false);
        true
    }
}

/// The line that each set of L1 used last, as far as known. Lines of one set share an entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latest {
    /// Twice the line, and 1 more if it may be written without more ado.
    entries: Vec<u64>,
}

impl Latest {
    pub(super) fn new(sets: u64) -> Latest {
        // A power of two that divides the sets.
        Latest { entries: vec![u64::MAX; 1 << sets.trailing_zeros()] }
    }

    #[inline(always)]
    fn at(&self, line: Line) -> usize {
        line.0 as usize & (self.entries.len() - 1)
    }

    #[inline(always)]
    pub(super) fn has(&self, line: Line, write: bool) -> bool {
        // A read does not ask for the last bit.
        self.entries[self.at(line)] | u64::from(!write) == line.0 << 1 | 1
    }

    #[inline(always)]
    pub(super) fn set(&mut self, line: Line, writable: bool) {
        let at = self.at(line);
        self.entries[at] = line.0 << 1 | u64::from(writable);
    }

    /// Something about `line` has changed.
    #[inline(always)]
    pub(super) fn forget(&mut self, line: Line) {
        let at = self.at(line);
        if self.entries[at] >> 1 == line.0 {
            self.entries[at] = u64::MAX;
        }
    }
}
