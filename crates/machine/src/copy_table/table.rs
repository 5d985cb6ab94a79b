//! The indexing table: which lines are copies that a pointer to a cached source represents.

use serde::{Deserialize, Serialize};
use units::Line;

use super::moves::{Fault, Move, Steps};
use crate::cache::equal_tags;
use crate::divisor::Divisor;

/// The indexing table: which lines are copies that only a pointer to a cached source represents.
///
/// It stands beside any cache and knows neither its contents nor time. Whoever owns the cache asks
/// [`IndexTable::source`] on a read, and tells the table before a line is written
/// ([`IndexTable::before_write`]), leaves the cache ([`IndexTable::before_eviction`]), or is read or
/// written by a device; the table answers with the copies that must first go to memory.
///
/// A congruence class, selected by the target's index, has as many entries as the cache has ways. A
/// fill takes the first free one, and the oldest, settled first, when none is. Fields of an entry
/// are the paper's: tag of the target, tag and index of the source, valid, MESI.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IndexTable {
    classes: Divisor,
    ways: u32,
    /// Targets, class after class, each class rounded up to what is compared at once: apart from the
    /// rest of the entries, since every read looks here.
    targets: Vec<u32>,
    /// Class after class.
    entries: Vec<CopyEntry>,
    /// First entry of the sources of each bucket.
    heads: Vec<u32>,
    live: usize,
    /// Counts fills, to know the oldest.
    fills: u64,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct CopyEntry {
    src: u32,
    next: u32,
    previous: u32,
    filled: u64,
    state: Mesi,
}

/// State of an entry in the coherence protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mesi {
    /// Memory does not have the copy.
    Modified,
    /// Memory has it, no L1 does.
    Exclusive,
    /// Memory has it, and L1s may.
    Shared,
    /// No entry.
    Invalid,
}

const NONE: u32 = u32::MAX;

const EMPTY: CopyEntry = CopyEntry { src: NONE, next: NONE, previous: NONE, filled: 0, state: Mesi::Invalid };

impl IndexTable {
    /// An empty table of `classes` classes (1 to 2^32 - 1) of `ways` entries.
    pub fn new(classes: u64, ways: u32) -> IndexTable {
        let n = classes as usize * ways as usize;
        IndexTable {
            classes: Divisor::new(classes as u32),
            ways,
            targets: vec![NONE; classes as usize * stride(ways)],
            entries: vec![EMPTY; n],
            heads: vec![NONE; n.next_power_of_two()],
            live: 0,
            fills: 0,
            fault: Fault::None,
        }
    }

    pub(crate) fn with_fault(mut self, fault: Fault) -> IndexTable {
        self.fault = fault;
        self
    }

    /// Entries in use.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether no entry is in use.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The cached line that has the data of `dst`, and how many entries of the class come before.
    #[inline]
    pub fn source(&self, dst: Line) -> Option<(Line, u32)> {
        if self.live == 0 {
            return None;
        }
        let at = self.find(dst)?;
        let place = at as u32 % self.ways.max(1);
        Some((Line(u64::from(self.entries[at].src)), place))
    }

    /// The state of the entry of `dst`.
    pub fn state(&self, dst: Line) -> Mesi {
        self.find(dst).map_or(Mesi::Invalid, |at| self.entries[at].state)
    }

    /// Whether a copy points at `src`.
    #[inline]
    pub fn is_source(&self, src: Line) -> bool {
        self.live > 0 && self.first_of(src).is_some()
    }

    /// `line` is about to be written: copies of it, and its own if it is one, are settled and gone.
    #[inline]
    pub fn before_write(&mut self, line: Line, steps: &mut impl Steps) {
        if self.live == 0 {
            return;
        }
        if self.fault != Fault::KeepOnSourceWrite {
            self.settle_copies_of(line, steps);
        }
        if self.fault != Fault::KeepOnTargetWrite
            && let Some(at) = self.find(line)
        {
            if self.fault != Fault::ForgetOnTargetWrite {
                self.settle(at, steps);
            }
            self.remove(at);
        }
    }

    /// All of `line` is about to be written: as [`IndexTable::before_write`], but its own entry need
    /// not be settled.
    #[inline]
    pub fn before_overwrite(&mut self, line: Line, steps: &mut impl Steps) {
        if self.live == 0 {
            return;
        }
        self.settle_copies_of(line, steps);
        if let Some(at) = self.find(line) {
            self.remove(at);
        }
    }

    /// `line` is about to leave the cache: copies of it are settled and gone. Says whether memory has got any.
    #[inline]
    pub fn before_eviction(&mut self, line: Line, steps: &mut impl Steps) -> bool {
        if self.live == 0 {
            return false;
        }
        if self.fault == Fault::ForgetOnEviction {
            while let Some(at) = self.first_of(line) {
                self.remove(at);
            }
            return false;
        }
        self.settle_copies_of(line, steps)
    }

    /// A device is about to read `line` from memory: its entry is settled and stays, exclusive.
    pub fn before_device_read(&mut self, line: Line, steps: &mut impl Steps) {
        if self.fault == Fault::DeviceReadMissesTable {
            return;
        }
        if let Some(at) = self.find(line) {
            self.settle(at, steps);
            self.entries[at].state = Mesi::Exclusive;
        }
    }

    /// An L1 has got `dst` through the table.
    #[inline]
    pub fn share(&mut self, dst: Line) {
        if let Some(at) = self.find(dst)
            && self.entries[at].state == Mesi::Exclusive
        {
            self.entries[at].state = Mesi::Shared;
        }
    }

    /// What a copy from `src` points at: the original, where `src` is a copy itself.
    #[inline]
    pub fn original(&self, src: Line) -> Line {
        match self.source(src) {
            Some((original, _)) if self.fault != Fault::PointAtCopy => original,
            _ => src,
        }
    }

    /// All of `dst` is about to be overwritten by a copy: what points at it is settled, its own entry is
    /// out of date.
    pub fn before_copy_onto(&mut self, dst: Line, steps: &mut impl Steps) {
        if self.fault != Fault::KeepOnCopyOntoSource {
            self.settle_copies_of(dst, steps);
        }
        if self.fault != Fault::KeepTargetEntry
            && let Some(at) = self.find(dst)
        {
            self.remove(at);
        }
    }

    /// Points `dst` at `src`, which is in the cache and no copy itself. The oldest entry of a full
    /// class is settled first.
    pub fn point(&mut self, dst: Line, src: Line, steps: &mut impl Steps) {
        let class = self.class_of(dst);
        let entries = &self.entries[class.clone()];
        let place = match entries.iter().position(|e| e.state == Mesi::Invalid) {
            Some(free) => free,
            None => {
                let Some((oldest, _)) = entries.iter().enumerate().min_by_key(|(_, e)| e.filled) else { return };
                if self.fault != Fault::ForgetOldest {
                    self.settle(class.start + oldest, steps);
                }
                self.remove(class.start + oldest);
                oldest
            }
        };
        steps.push(Move::Search { place: place as u32 });
        let (at, bucket) = (class.start + place, self.bucket_of(src));
        let next = std::mem::replace(&mut self.heads[bucket], at as u32);
        if next != NONE {
            self.entries[next as usize].previous = at as u32;
        }
        self.fills += 1;
        self.live += 1;
        let target = self.target_of(at);
        self.targets[target] = dst.0 as u32;
        self.entries[at] =
            CopyEntry { src: src.0 as u32, next, previous: NONE, filled: self.fills, state: Mesi::Modified };
    }

    fn class_of(&self, dst: Line) -> std::ops::Range<usize> {
        let first = self.classes.remainder(dst.0 as u32) as usize * self.ways as usize;
        first..first + self.ways as usize
    }

    #[inline]
    fn find(&self, dst: Line) -> Option<usize> {
        let class = self.classes.remainder(dst.0 as u32) as usize;
        let stride = stride(self.ways);
        let found = equal_tags(&self.targets[class * stride..][..stride], dst.0 as u32);
        (found != 0).then(|| class * self.ways as usize + found.trailing_zeros() as usize)
    }

    #[inline]
    fn bucket_of(&self, src: Line) -> usize {
        // Fibonacci hashing: neighbouring lines spread.
        ((src.0 as u32).wrapping_mul(0x9E37_79B9) >> 7) as usize & (self.heads.len() - 1)
    }

    /// The youngest entry that points at `src`.
    #[inline]
    fn first_of(&self, src: Line) -> Option<usize> {
        let mut at = self.heads[self.bucket_of(src)];
        while at != NONE && self.entries[at as usize].src != src.0 as u32 {
            at = self.entries[at as usize].next;
        }
        (at != NONE).then_some(at as usize)
    }

    /// Says whether memory has got any.
    #[inline]
    fn settle_copies_of(&mut self, src: Line, steps: &mut impl Steps) -> bool {
        let mut any = false;
        while let Some(at) = self.first_of(src) {
            any |= self.settle(at, steps);
            self.remove(at);
        }
        any
    }

    /// Says whether memory did not have it.
    fn settle(&mut self, at: usize, steps: &mut impl Steps) -> bool {
        let CopyEntry { src, state, .. } = self.entries[at];
        let dst = self.targets[self.target_of(at)];
        if state == Mesi::Modified {
            steps.push(Move::Settle { src: Line(u64::from(src)), dst: Line(u64::from(dst)) });
        }
        state == Mesi::Modified
    }

    fn remove(&mut self, at: usize) {
        let CopyEntry { src, next, previous, .. } = self.entries[at];
        let bucket = self.bucket_of(Line(u64::from(src)));
        match previous {
            NONE => self.heads[bucket] = next,
            p => self.entries[p as usize].next = next,
        }
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        self.entries[at] = EMPTY;
        let target = self.target_of(at);
        self.targets[target] = NONE;
        self.live -= 1;
    }

    /// Targets and sources of all entries.
    pub fn pointers(&self) -> impl Iterator<Item = (Line, Line)> + '_ {
        let live = self.entries.iter().enumerate().filter(|(_, e)| e.state != Mesi::Invalid);
        live.map(|(at, e)| (Line(u64::from(self.targets[self.target_of(at)])), Line(u64::from(e.src))))
    }

    /// Where the target of entry `at` is.
    fn target_of(&self, at: usize) -> usize {
        let ways = self.ways as usize;
        at / ways * stride(self.ways) + at % ways
    }
}

/// Targets of a class, rounded up.
#[inline(always)]
fn stride(ways: u32) -> usize {
    (ways as usize).next_multiple_of(8)
}
