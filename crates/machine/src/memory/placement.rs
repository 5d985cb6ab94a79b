//! Slices of the LLC that hold the lines of one application only.
//!
//! Which slice has a line follows from its address, so an application owns slices when its memory lies at addresses that hash
//! to these slices and nobody else's does (slice-aware placement: Farshin et al., EuroSys 2019, "Make the most out of last
//! level cache in Intel processors"). Lines are placed one by one here, as table entries of a line can be; packets, which
//! are longer, cannot be on today's processors without scatter and gather. When slices change hands, the lines that belong
//! elsewhere from then on leave the cache. Left out: moving them in memory, and the room in pages and DRAM rows
//! between lines that follow each other in a table.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use units::Line;

use super::mix::mix;

/// Whose slices: an application by number, or everyone else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SlicePlacement {
    /// Lines of applications, apart from each other, in order.
    ranges: Vec<(Range<u64>, u8)>,
    /// By application, and last of everyone else: which of its slices has a line, by the line's hash.
    #[serde(with = "units::arrays::boxed")]
    tables: Vec<Box<[u8; BUCKETS]>>,
}

/// So many that shares of up to 64 slices differ by less than 2 %.
const BUCKETS: usize = 4096;
/// What a slice knows a placed line by: its number with this bit.
const PLACED: u32 = 1 << 31;

impl SlicePlacement {
    /// `owned` has the slices of each application, [`None`] where it has what everyone has; `rest` is everyone's.
    pub(super) fn new(ranges: &[(Range<u64>, u8)], owned: &[Option<Vec<u8>>], rest: &[u8]) -> SlicePlacement {
        let mut placement = SlicePlacement {
            ranges: ranges.to_vec(),
            tables: owned.iter().map(|_| Box::new([u8::MAX; BUCKETS])).collect(),
        };
        placement.ranges.sort_by_key(|(range, _)| range.start);
        placement.tables.push(Box::new([u8::MAX; BUCKETS]));
        placement.assign(owned, rest);
        placement
    }

    /// Gives slices other owners; buckets move only where they have to.
    pub(super) fn assign(&mut self, owned: &[Option<Vec<u8>>], rest: &[u8]) {
        for (n, table) in self.tables.iter_mut().enumerate() {
            let slices = owned.get(n).and_then(|slices| slices.as_deref()).unwrap_or(rest);
            rebalance(table, slices);
        }
    }

    /// The slice that has `line`, and the number under which the slice knows it.
    #[inline]
    pub(super) fn home(&self, line: Line) -> (usize, Line) {
        let number = line.0 as u32;
        let table = self.owner(line).unwrap_or(self.tables.len() - 1);
        let slice = self.tables[table][mix(number) as usize % BUCKETS];
        (usize::from(slice), Line(u64::from(number | PLACED)))
    }

    /// Whose line it is.
    #[inline]
    fn owner(&self, line: Line) -> Option<usize> {
        owner(&self.ranges, line).map(usize::from)
    }

    /// The line that a slice knows as `within`, where lines are placed.
    #[inline(always)]
    pub(super) fn name(placement: Option<&SlicePlacement>, within: Line) -> Option<Line> {
        placement.map(|_| Line(within.0 & u64::from(!PLACED)))
    }
}

/// Whose range, of some that are in order, has `line`.
#[inline]
pub(super) fn owner(ranges: &[(Range<u64>, u8)], line: Line) -> Option<u8> {
    ranges.iter().find(|(range, _)| range.contains(&line.0)).map(|(_, owner)| *owner)
}

/// Spreads a table over `slices` evenly; entries stay where they are if they may.
fn rebalance(table: &mut [u8; BUCKETS], slices: &[u8]) {
    if slices.is_empty() {
        return;
    }
    let most = BUCKETS.div_ceil(slices.len());
    let mut full = most * slices.len() - BUCKETS;
    let mut room = [0usize; 256];
    for slice in slices {
        // So many slices have one less.
        room[usize::from(*slice)] = if full > 0 { most - 1 } else { most };
        full = full.saturating_sub(1);
    }
    let mut moves = Vec::new();
    for (at, slice) in table.iter().enumerate() {
        match &mut room[usize::from(*slice)] {
            0 => moves.push(at),
            room => *room -= 1,
        }
    }
    let mut next = slices.iter().flat_map(|slice| std::iter::repeat_n(*slice, room[usize::from(*slice)]));
    for at in moves {
        if let Some(slice) = next.next() {
            table[at] = slice;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slices_that_change_hands_move_no_more_than_their_share(first in 1u8..40, second in 1u8..40, kept in 0u8..40) {
            let of = |from: u8, n: u8| (from..from + n).collect::<Vec<_>>();
            let mut table = [u8::MAX; BUCKETS];
            let old = of(0, first);
            rebalance(&mut table, &old);
            let before = table;
            // Some of the old ones stay, and new ones come.
            let now: Vec<u8> = of(first.saturating_sub(kept), kept.min(first)).into_iter().chain(of(first, second)).collect();
            rebalance(&mut table, &now);
            let count = |slice: u8| table.iter().filter(|s| **s == slice).count();
            for slice in &now {
                prop_assert!(count(*slice).abs_diff(BUCKETS / now.len()) <= 1);
            }
            let moved = table.iter().zip(&before).filter(|(a, b)| a != b).count();
            let stays = usize::from(kept.min(first));
            let may_stay = stays * (BUCKETS / now.len()).min(BUCKETS / old.len());
            prop_assert!(moved <= BUCKETS - may_stay + stays, "{} moved, {} may stay", moved, may_stay);
        }
    }

    #[test]
    fn an_application_is_in_its_slices_and_nobody_else_is() {
        let ranges = [(1000..2000, 0), (5000..6000, 1)];
        let placement = SlicePlacement::new(&ranges, &[Some(vec![3, 4]), None], &[0, 1, 2]);
        for line in 0..8000 {
            let (slice, within) = placement.home(Line(line));
            assert_eq!((3..=4).contains(&slice), (1000..2000).contains(&line));
            assert_eq!(SlicePlacement::name(Some(&placement), within), Some(Line(line)));
        }
    }
}
