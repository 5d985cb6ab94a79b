use units::Line;

/// The line that each set of L1 used last, as far as known. Lines of one set share an entry.
#[derive(Clone, Debug)]
pub(super) struct Latest {
    /// The line, and whether it may be written without more ado.
    entries: Vec<u64>,
}

const WRITABLE: u64 = 1 << 32;

impl Latest {
    pub(super) fn new(sets: u64) -> Latest {
        // A power of two that divides the sets.
        Latest { entries: vec![u64::MAX; 1 << sets.trailing_zeros()] }
    }

    #[inline(always)]
    fn entry(&mut self, line: Line) -> &mut u64 {
        let last = self.entries.len() - 1;
        &mut self.entries[line.0 as usize & last]
    }

    #[inline(always)]
    pub(super) fn has(&mut self, line: Line, write: bool) -> bool {
        let entry = *self.entry(line);
        if write { entry == line.0 | WRITABLE } else { entry & !WRITABLE == line.0 }
    }

    #[inline(always)]
    pub(super) fn set(&mut self, line: Line, writable: bool) {
        *self.entry(line) = line.0 | if writable { WRITABLE } else { 0 };
    }

    /// Something about `line` has changed.
    #[inline(always)]
    pub(super) fn forget(&mut self, line: Line) {
        let entry = self.entry(line);
        if *entry & !WRITABLE == line.0 {
            *entry = u64::MAX;
        }
    }
}
