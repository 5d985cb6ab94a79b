//! Packets in traces of tools that know addresses only: accesses to [`BASE`] and the pages behind it.
//!
//! `wirespeed_probe.h`, compiled with `-DWIRESPEED_PROBE_MARKS`, maps these pages and says what it has to say by where it
//! touches them. A number goes digit by digit, 12 bits a digit, the lowest first: a store to byte `digit` of the page of its
//! place. A store to the first page says what the numbers are for:
//!
//! | store at | meaning | numbers, by page |
//! |---|---|---|
//! | 0 | a packet begins | 1-5 address of its data, 6-10 of its mbuf (0 for none), 11-12 bytes of its frame |
//! | 8 | the packet at hand is forwarded | |
//! | 16 | it is dropped | |
//! | 24 | memory that all cores share | 1-5 its address, 6-10 its bytes, 13 its name, a letter an access |
//! | 32 | memory of each core | the same |
//!
//! Digits that are not given are 0. Whatever else the program touches meanwhile does not matter, so nothing depends on how
//! a compiler orders them. They are stores, since valgrind leaves out loads whose value nobody uses. Instructions before the
//! store that begins a packet are not the packet's.

use super::{MOST_NAME, RecordedKind, RecordingTape, accesses};
use crate::accesses::AccessLine;

/// "WIR" in ASCII and four zeros: above what is linked at fixed addresses, below where Linux places libraries.
pub(super) const BASE: u64 = 0x0000_0057_4952_0000;
pub(super) const PAGE: u64 = 4096;
pub(super) const PAGES: u64 = 14;
const DIGITS: std::ops::RangeInclusive<usize> = 1..=12;
const NAME: usize = 13;

/// What the program is in the middle of saying.
#[derive(Debug, Default)]
pub(super) struct Marks {
    digits: [u64; 13],
    name: String,
    /// The instruction at hand, which accesses belong to.
    site: u64,
}

impl Marks {
    /// Takes a line of a trace, or says what was expected instead.
    pub(super) fn access(&mut self, line: AccessLine, tape: &mut RecordingTape) -> Result<(), String> {
        if let AccessLine::Fetch(at) = line {
            self.site = at;
            tape.work(1);
            return Ok(());
        }
        for (kind, at) in accesses(line) {
            match at.address.checked_sub(BASE).filter(|offset| *offset < PAGES * PAGE) {
                None => tape.touch(kind, at, None, self.site, 0)?,
                Some(offset) => self.mark((offset / PAGE) as usize, offset % PAGE, kind, tape)?,
            }
        }
        Ok(())
    }

    fn mark(&mut self, page: usize, offset: u64, kind: RecordedKind, tape: &mut RecordingTape) -> Result<(), String> {
        match (page, kind) {
            (0, RecordedKind::Store) => {
                let done = match offset {
                    0 => tape.begin(self.number(11..13), self.number(1..6), self.number(6..11)),
                    8 => tape.end(false),
                    16 => tape.end(true),
                    24 | 32 => tape.region(self.number(1..6), self.number(6..11), offset == 24, &self.name),
                    _ => {
                        Err(format!("a mark at {BASE:#x} or 8, 16, 24 or 32 behind it, as wirespeed_probe.h makes it"))
                    }
                };
                *self = Marks { site: self.site, ..Marks::default() };
                done
            }
            (page, RecordedKind::Store) if DIGITS.contains(&page) => {
                self.digits[page] = offset;
                Ok(())
            }
            (NAME, RecordedKind::Store) => {
                if self.name.len() >= MOST_NAME {
                    return Err(format!("a name of a region of at most {MOST_NAME} bytes"));
                }
                self.name.push(u8::try_from(offset).map_or('?', char::from));
                Ok(())
            }
            _ => Err(format!("stores to {BASE:#x} and the pages behind it, as wirespeed_probe.h makes them")),
        }
    }

    fn number(&self, pages: std::ops::Range<usize>) -> u64 {
        self.digits[pages].iter().rev().fold(0, |n, digit| n << 12 | digit)
    }
}
