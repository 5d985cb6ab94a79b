//! How a copy is cut into lines for the table and pieces for software.

use super::spec::CopyInstruction;

/// A part of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPiece {
    /// A whole line for the table, by line numbers.
    Line {
        /// From.
        src: u64,
        /// To.
        dst: u64,
    },
    /// Loads, then stores, of up to a line, all within a line on both sides.
    Software {
        /// First byte from.
        src: u64,
        /// First byte to.
        dst: u64,
        /// How many.
        bytes: u64,
    },
}

impl CopyPiece {
    /// First byte from, first byte to, and how many, with lines of `line` bytes.
    pub fn span(self, line: u64) -> (u64, u64, u64) {
        match self {
            CopyPiece::Line { src, dst } => (src * line, dst * line, line),
            CopyPiece::Software { src, dst, bytes } => (src, dst, bytes),
        }
    }

    /// How many bytes, with lines of `line` bytes.
    pub fn bytes(self, line: u64) -> u64 {
        self.span(line).2
    }
}

impl CopyInstruction {
    /// How `bytes` bytes go from `src` to `dst` with lines of `line` bytes: the whole lines by the table
    /// where size and alignment allow it, the rest by software.
    ///
    /// Overlapping copies are those of memmove: a copy upwards begins at the end. Each piece is
    /// loaded before it is stored, so pieces in this order never read what an earlier one wrote.
    pub fn plan(&self, src: u64, dst: u64, bytes: u64, line: u64) -> CopyPlan {
        let takes = (self.least..=self.most).contains(&bytes);
        let table = takes && src % line == dst % line;
        let down = dst <= src || dst >= src.saturating_add(bytes);
        CopyPlan { src, dst, bytes, line, table, down }
    }
}

/// The pieces of a copy in the order in which they are made.
#[derive(Clone, Copy, Debug)]
pub struct CopyPlan {
    src: u64,
    dst: u64,
    bytes: u64,
    line: u64,
    table: bool,
    down: bool,
}

impl CopyPlan {
    /// All pieces by software.
    pub fn by_software(mut self) -> CopyPlan {
        self.table = false;
        self
    }

    /// In the order of addresses, whether they overlap or not.
    pub(super) fn upwards(mut self) -> CopyPlan {
        self.down = true;
        self
    }

    /// By the table, whatever the alignment.
    pub(super) fn unaligned(mut self) -> CopyPlan {
        self.table = true;
        self
    }

    fn piece(&self, src: u64, dst: u64, bytes: u64) -> CopyPiece {
        let whole = self.table && bytes == self.line;
        if whole {
            CopyPiece::Line { src: src / self.line, dst: dst / self.line }
        } else {
            CopyPiece::Software { src, dst, bytes }
        }
    }
}

impl Iterator for CopyPlan {
    type Item = CopyPiece;

    #[inline]
    fn next(&mut self) -> Option<CopyPiece> {
        if self.bytes == 0 {
            return None;
        }
        let CopyPlan { src, dst, bytes: left, line, table, down } = *self;
        if down {
            let room = |at: u64| line - at % line;
            let bytes = left.min(room(dst)).min(if table { line } else { room(src) });
            (self.src, self.dst, self.bytes) = (src + bytes, dst + bytes, left - bytes);
            return Some(self.piece(src, dst, bytes));
        }
        // Back from the end: up to where a line begins on either side.
        let room = |end: u64| (end - 1) % line + 1;
        let bytes = left.min(room(dst + left)).min(if table { line } else { room(src + left) });
        self.bytes = left - bytes;
        Some(self.piece(src + self.bytes, dst + self.bytes, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_go_to_the_table_and_ends_to_software() {
        let plan: Vec<CopyPiece> = CopyInstruction::default().plan(60, 1084, 200, 64).collect();
        let expected = [
            CopyPiece::Software { src: 60, dst: 1084, bytes: 4 },
            CopyPiece::Line { src: 1, dst: 17 },
            CopyPiece::Line { src: 2, dst: 18 },
            CopyPiece::Line { src: 3, dst: 19 },
            CopyPiece::Software { src: 256, dst: 1280, bytes: 4 },
        ];
        assert_eq!(plan, expected);
    }

    #[test]
    fn sizes_outside_the_hardware_and_other_alignments_are_software() {
        let instruction = CopyInstruction { least: 128, most: 256 };
        let software = |src, dst, bytes| {
            instruction.plan(src, dst, bytes, 64).all(|piece| matches!(piece, CopyPiece::Software { .. }))
        };
        assert!(software(0, 1024, 64) && software(0, 1024, 320) && software(8, 1024, 128));
        assert!(!software(0, 1024, 128) && !software(0, 1024, 256));
    }

    proptest! {
        #[test]
        fn pieces_cover_the_copy_and_overlaps_are_those_of_memmove(
            src in 0u64..600, dst in 0u64..600, bytes in 0u64..400, line in prop::sample::select(vec![16u64, 64, 128]),
            least in 0u64..200, align: bool,
        ) {
            let dst = if align { dst / line * line + src % line } else { dst };
            let mut memory: Vec<u8> = (0..1200u32).map(|i| (i * 7 + i / 251) as u8).collect();
            let mut expected = memory.clone();
            expected.copy_within(src as usize..(src + bytes) as usize, dst as usize);
            for piece in (CopyInstruction { least, most: 300 }).plan(src, dst, bytes, line) {
                let (s, d, n) = match piece {
                    CopyPiece::Line { src, dst } => (src * line, dst * line, line),
                    CopyPiece::Software { src, dst, bytes } => {
                        prop_assert!(src % line + bytes <= line && dst % line + bytes <= line);
                        (src, dst, bytes)
                    }
                };
                memory.copy_within(s as usize..(s + n) as usize, d as usize);
            }
            prop_assert_eq!(memory, expected);
        }
    }
}
