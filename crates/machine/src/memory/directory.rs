//! The directory: which cores may have a line.

use serde::{Deserialize, Serialize};
use units::{CoreId, Line};

/// Which cores may have a line: as many bytes a line as the cores need bits for. Bits are set by fills
/// and cleared when a request finds the line gone, so they may name a core that has dropped the line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Directory {
    /// Grows with the lines that are used, and ends with a word to spare: entries are read as words.
    entries: Vec<u8>,
    width: usize,
    mask: u64,
}

impl Directory {
    pub(super) fn new(cores: u32) -> Directory {
        let width = (cores.div_ceil(8) as usize).next_power_of_two();
        Directory { entries: Vec::new(), width, mask: u64::MAX >> (64 - 8 * width) }
    }

    /// The word that begins with the entry of `line`.
    #[inline(always)]
    fn word(&self, line: Line) -> Option<u64> {
        let at = line.0 as usize * self.width;
        self.entries.get(at..at + 8)?.first_chunk().copied().map(u64::from_le_bytes)
    }

    #[inline(always)]
    fn set_word(&mut self, line: Line, word: u64) {
        let at = line.0 as usize * self.width;
        if let Some(bytes) = self.entries.get_mut(at..at + 8) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, line: Line) -> u64 {
        self.word(line).unwrap_or(0) & self.mask
    }

    /// A bit for each of up to 64 lines from `first` on that a core may have.
    #[inline(always)]
    pub(super) fn shared(&self, first: Line, count: u32) -> u64 {
        let mut shared = 0;
        if self.width > 1 {
            for i in 0..count {
                shared |= u64::from(self.get(Line(first.0 + u64::from(i))) != 0) << i;
            }
            return shared;
        }
        let mut i = 0;
        while i < count {
            let mut word = self.word(Line(first.0 + u64::from(i))).unwrap_or(0);
            while word != 0 {
                let byte = word.trailing_zeros() / 8;
                word &= !(0xff << (8 * byte));
                shared |= 1 << ((i + byte) % 64);
            }
            i += 8;
        }
        // Behind the last line are others, and beyond the 64th they come round.
        if count < 64 { shared & !(u64::MAX << count) } else { shared }
    }

    /// Asks the host to bring the entry of `line` into its own cache.
    #[inline(always)]
    pub(super) fn prefetch(&self, line: Line) {
        if let Some(entry) = self.entries.get(line.0 as usize * self.width) {
            crate::cache::prefetch(entry);
        }
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, line: Line, core: CoreId) {
        let word = match self.word(line) {
            Some(word) => word,
            None => self.grow(line),
        };
        self.set_word(line, word | 1 << core.0);
    }

    #[cold]
    fn grow(&mut self, line: Line) -> u64 {
        let needed = (line.0 as usize + 1) * self.width + 8;
        // Zeroed memory that is not touched costs nothing; copying it again and again would.
        let mut entries = vec![0; (needed * 2).next_power_of_two()];
        entries[..self.entries.len()].copy_from_slice(&self.entries);
        self.entries = entries;
        0
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, line: Line, core: CoreId) {
        if let Some(word) = self.word(line) {
            self.set_word(line, word & !(1 << core.0));
        }
    }

    /// Reads and clears.
    #[inline(always)]
    pub(super) fn take(&mut self, line: Line) -> u64 {
        let Some(word) = self.word(line) else { return 0 };
        let sharers = word & self.mask;
        if sharers != 0 {
            self.set_word(line, word & !self.mask);
        }
        sharers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_holds_the_bits_of_each_line_apart() {
        for cores in [1, 8, 9, 20, 64] {
            let mut directory = Directory::new(cores);
            let last = CoreId(cores as u16 - 1);
            for line in (0..50).map(Line) {
                directory.insert(line, CoreId(0));
                directory.insert(line, last);
            }
            for line in (0..50).step_by(2).map(Line) {
                assert_eq!(directory.take(line), 1 | 1 << last.0);
            }
            assert_eq!(directory.shared(Line(0), 64), 0x2_aaaa_aaaa_aaaa);
            assert_eq!((directory.shared(Line(1), 5), directory.shared(Line(40), 64)), (0b10101, 0b10_1010_1010));
            directory.remove(Line(1), CoreId(0));
            assert_eq!(directory.get(Line(1)), if cores == 1 { 0 } else { 1 << last.0 });
            assert_eq!((directory.get(Line(2)), directory.get(Line(3))), (0, 1 | 1 << last.0));
            assert_eq!(directory.get(Line(1 << 30)), 0);
        }
    }
}
