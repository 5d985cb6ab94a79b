//! A calendar for a few sources that each have at most one event to come.

use units::Ps;

/// When each of a fixed number of sources acts next, and which is first: a tournament tree (Knuth, TAOCP vol. 3, 5.4.1).
///
/// Setting or clearing a source's time is a walk of log2(sources) minima, without allocation, and a time that was set can be
/// moved, which the general calendar cannot do. Of equal times the source of lower number is first.
///
/// ```
/// use engine::Tournament;
/// use units::Ps;
///
/// let mut next = Tournament::new(3);
/// next.set(2, Ps(10));
/// next.set(0, Ps(20));
/// next.set(2, Ps(30));
/// assert_eq!(next.first(), Some((Ps(20), 0)));
/// next.clear(0);
/// assert_eq!(next.first(), Some((Ps(30), 2)));
/// ```
#[derive(Clone, Debug)]
pub struct Tournament {
    /// Node n is the lesser of nodes 2n and 2n + 1; leaves are the second half. A key is a time with the source's number
    /// below it.
    keys: Vec<u64>,
    bits: u32,
}

const NEVER: u64 = u64::MAX;

impl Tournament {
    /// For sources 0 to `sources` - 1, none of which has anything to do. Times must stay below 2^64 / 2 `sources`
    /// picoseconds: 5 hours of 512 sources.
    pub fn new(sources: usize) -> Tournament {
        let leaves = sources.max(2).next_power_of_two();
        Tournament { keys: vec![NEVER; 2 * leaves], bits: leaves.trailing_zeros() }
    }

    /// `source` acts next at `at`, whatever was set before.
    #[inline]
    pub fn set(&mut self, source: usize, at: Ps) {
        self.write(source, at.0 << self.bits | source as u64);
    }

    /// `source` has nothing to do.
    #[inline]
    pub fn clear(&mut self, source: usize) {
        self.write(source, NEVER);
    }

    /// When `source` acts next.
    #[inline]
    pub fn at(&self, source: usize) -> Option<Ps> {
        let key = self.keys[self.keys.len() / 2 + source];
        (key != NEVER).then_some(Ps(key >> self.bits))
    }

    /// The source that acts first, and when.
    #[inline]
    pub fn first(&self) -> Option<(Ps, usize)> {
        let key = self.keys[1];
        (key != NEVER).then_some((Ps(key >> self.bits), (key & ((1 << self.bits) - 1)) as usize))
    }

    #[inline]
    fn write(&mut self, source: usize, key: u64) {
        let keys = &mut self.keys[..];
        if keys.is_empty() {
            return;
        }
        // All nodes are below the length; with the mask the compiler knows.
        let mask = keys.len() - 1;
        let mut node = keys.len() / 2 + source;
        keys[node] = key;
        let mut least = key;
        while node > 1 {
            least = least.min(keys[(node ^ 1) & mask]);
            node /= 2;
            keys[node & mask] = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tournament_matches_naive(
            sources in 1usize..70, steps in prop::collection::vec((any::<u8>(), prop::option::of(0u64..50)), 1..200)
        ) {
            let mut fast = Tournament::new(sources);
            let mut naive: Vec<Option<u64>> = vec![None; sources];
            for (which, time) in steps {
                let source = usize::from(which) % sources;
                naive[source] = time;
                match time {
                    Some(time) => fast.set(source, Ps(time)),
                    None => fast.clear(source),
                }
                let first = naive.iter().enumerate().filter_map(|(n, t)| t.map(|t| (t, n))).min();
                prop_assert_eq!(fast.first(), first.map(|(t, n)| (Ps(t), n)));
                prop_assert_eq!(fast.at(source), time.map(Ps));
            }
        }
    }
}
