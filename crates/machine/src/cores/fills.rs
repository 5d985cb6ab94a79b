use stats::Path;
use units::{Line, Ps};

use crate::cache::equal_tags;

/// The line fill buffers: private misses under way.
#[derive(Clone, Debug)]
pub(super) struct FillBuffers {
    /// Padded to whole vectors.
    lines: Vec<u32>,
    until: Vec<Ps>,
    fills: Vec<(u64, Path)>,
    /// The one that is free first.
    first_free: usize,
    /// When the last of them has its data.
    latest: Ps,
    /// A bit for each of 64 classes of lines that may be under way.
    classes: u64,
}

/// The bit of a line's class.
#[inline(always)]
fn class(line: Line) -> u64 {
    1 << (line.0 & 63)
}

impl FillBuffers {
    pub(super) fn new(buffers: usize) -> FillBuffers {
        FillBuffers {
            lines: vec![u32::MAX; buffers.next_multiple_of(8)],
            until: vec![Ps::ZERO; buffers],
            fills: vec![(0, Path::default()); buffers],
            first_free: 0,
            latest: Ps::ZERO,
            classes: 0,
        }
    }

    /// When one is free.
    #[inline(always)]
    pub(super) fn free_from(&self) -> Ps {
        self.until[self.first_free]
    }

    /// The data for `slot` come at `until`.
    #[inline]
    pub(super) fn insert(&mut self, line: Line, until: Ps, slot: u64, path: &Path) {
        self.set(self.first_free, line, until, slot, path);
    }

    /// The data for `slot` come at a time that is not known yet.
    pub(super) fn reserve(&mut self, slot: u64) {
        let at = self.first_free;
        self.lines[at] = u32::MAX;
        self.until[at] = Ps::MAX;
        self.fills[at].0 = slot;
        self.look();
    }

    /// The data for `slot`, which has a buffer, come at `until`.
    pub(super) fn complete(&mut self, line: Line, until: Ps, slot: u64, path: &Path) {
        let reserved = self.until.iter().zip(&self.fills).position(|(at, fill)| *at == Ps::MAX && fill.0 == slot);
        self.set(reserved.unwrap_or(self.first_free), line, until, slot, path);
    }

    #[inline]
    fn set(&mut self, at: usize, line: Line, until: Ps, slot: u64, path: &Path) {
        self.lines[at] = line.0 as u32;
        self.until[at] = until;
        self.fills[at] = (slot, *path);
        self.latest = self.latest.max(until);
        self.classes |= class(line);
        self.look();
    }

    #[inline]
    fn look(&mut self) {
        let mut first = 0;
        let mut earliest = self.until[0];
        for (i, &until) in self.until.iter().enumerate().skip(1) {
            if until < earliest {
                (first, earliest) = (i, until);
            }
        }
        self.first_free = first;
    }

    /// The fill of `line` whose data come after `time`.
    #[inline(always)]
    pub(super) fn under_way(&self, line: Line, time: Ps) -> Option<(Ps, &Path)> {
        if time >= self.latest || self.classes & class(line) == 0 { None } else { self.search(line, time) }
    }

    /// Nobody asks for times before `time` from now on.
    pub(super) fn forget(&mut self, time: Ps) {
        if self.latest <= time {
            self.classes = 0;
        }
    }

    #[inline(never)]
    fn search(&self, line: Line, time: Ps) -> Option<(Ps, &Path)> {
        for (group, lines) in self.lines.chunks(32).enumerate() {
            let mut found = equal_tags(lines, line.0 as u32);
            while found != 0 {
                let at = group * 32 + found.trailing_zeros() as usize;
                found &= found - 1;
                if self.until[at] > time {
                    return Some((self.until[at], &self.fills[at].1));
                }
            }
        }
        None
    }

    pub(super) fn path_of(&self, slot: u64) -> Option<Path> {
        self.fills.iter().find(|f| f.0 == slot).map(|f| f.1)
    }
}
