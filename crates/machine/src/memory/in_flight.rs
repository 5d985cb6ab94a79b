use units::{Line, Ps};

use crate::cache::equal_tags;

/// Lines on their way from DRAM, and when they are there: what MSHRs at the LLC know.
///
/// Entries are not taken out, they expire. A bucket that is full of lines under way forgets the one
/// that comes first; with 64 buckets of 8 that takes far more misses at a time than cores have.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    lines: [u32; 8],
    until: [Ps; 8],
}

const BUCKETS: usize = 64;

impl InFlight {
    pub(super) fn new() -> InFlight {
        InFlight { buckets: vec![Bucket { lines: [u32::MAX; 8], until: [Ps::ZERO; 8] }; BUCKETS] }
    }

    #[inline(always)]
    fn bucket(line: Line) -> usize {
        (line.0 ^ line.0 >> 6) as usize % BUCKETS
    }

    /// `line` is there at `until`.
    #[inline]
    pub(super) fn insert(&mut self, line: Line, until: Ps) {
        let bucket = &mut self.buckets[InFlight::bucket(line)];
        let known = equal_tags(&bucket.lines, line.0 as u32);
        let at = if known != 0 {
            known.trailing_zeros() as usize
        } else {
            (1..8).fold(0, |first, i| if bucket.until[i] < bucket.until[first] { i } else { first })
        };
        bucket.lines[at] = line.0 as u32;
        bucket.until[at] = until;
    }

    /// When `line` is there, if that is later than `time`.
    #[inline]
    pub(super) fn get(&self, line: Line, time: Ps) -> Option<Ps> {
        let bucket = &self.buckets[InFlight::bucket(line)];
        let known = equal_tags(&bucket.lines, line.0 as u32);
        let until = bucket.until.get(known.trailing_zeros() as usize).copied()?;
        (until > time).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_known_until_it_is_there() {
        let mut lines = InFlight::new();
        (0..200).for_each(|line| lines.insert(Line(line), Ps(1000 + line)));
        lines.insert(Line(7), Ps(3000));
        for line in 0..200 {
            let until = if line == 7 { 3000 } else { 1000 + line };
            assert_eq!(lines.get(Line(line), Ps(until - 1)), Some(Ps(until)));
            assert_eq!(lines.get(Line(line), Ps(until)), None);
        }
        assert_eq!(lines.get(Line(500), Ps(0)), None);
    }
}
