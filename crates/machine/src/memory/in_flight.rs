//! Lines on their way from DRAM, and when they are there.

use serde::{Deserialize, Serialize};
use units::{Line, Ps};

use crate::cache::equal_tags;

/// Lines on their way from DRAM, and when they are there: what MSHRs at the LLC know.
///
/// Entries are not taken out, they expire. A bucket that is full of lines under way forgets the one
/// that comes first; there are 64 entries a core, four times as many as cores have misses under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct InFlight {
    buckets: Vec<InFlightBucket>,
    /// Nothing is under way: see [`super::warm`].
    #[serde(skip)]
    pub(super) untimed: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct InFlightBucket {
    lines: [u32; 8],
    until: [Ps; 8],
}

impl InFlight {
    pub(super) fn new(cores: u32) -> InFlight {
        let buckets = (cores as usize * 8).next_power_of_two().max(64);
        InFlight {
            buckets: vec![InFlightBucket { lines: [u32::MAX; 8], until: [Ps::ZERO; 8] }; buckets],
            untimed: false,
        }
    }

    #[inline(always)]
    fn bucket(&self, line: Line) -> usize {
        (line.0 ^ line.0 >> 6) as usize & (self.buckets.len() - 1)
    }

    /// `line` is there at `until`.
    #[inline]
    pub(super) fn insert(&mut self, line: Line, until: Ps) {
        if self.untimed {
            return;
        }
        let at = self.bucket(line);
        let bucket = &mut self.buckets[at];
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
        let bucket = &self.buckets[self.bucket(line)];
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
        let mut lines = InFlight::new(1);
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
