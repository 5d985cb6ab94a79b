//! LRU stack distances: how many different things were used since this one was used last.
//!
//! A cache of `n` with LRU hits exactly the uses at a distance below `n` (Mattson et al., IBM
//! Systems Journal 9(2), 1970). Distances are counted by a Fenwick tree over times of last use; times
//! are renumbered when they run out, so memory goes with the number of things.

const FIRST_TIMES: usize = 1 << 12;

pub(super) struct LruStack {
    sizes: Vec<usize>,
    /// Uses at a distance below the size of the same index, and at or above the one before.
    hits: Vec<u64>,
    uses: u64,
    /// Time of last use of each thing, from 1; 0 if never.
    last: Vec<u32>,
    /// Fenwick tree: 1 at each time that is some thing's last.
    tree: Vec<u32>,
    now: usize,
    live: u32,
}

impl LruStack {
    pub(super) fn new(sizes: &[usize]) -> LruStack {
        LruStack {
            sizes: sizes.to_vec(),
            hits: vec![0; sizes.len()],
            uses: 0,
            last: Vec::new(),
            tree: vec![0; FIRST_TIMES + 1],
            now: 0,
            live: 0,
        }
    }

    /// `thing` (numbered from 0 in order of first use) is used.
    pub(super) fn touch(&mut self, thing: u32) {
        self.uses += 1;
        let thing = thing as usize;
        if self.last.len() <= thing {
            self.last.resize(thing + 1, 0);
        }
        if self.now + 1 >= self.tree.len() {
            self.renumber();
        }
        let before = self.last[thing] as usize;
        if before > 0 {
            let distance = (self.live - self.sum(before)) as usize;
            if let Some(i) = self.sizes.iter().position(|&size| distance < size) {
                self.hits[i] += 1;
            }
            self.add(before, u32::MAX);
            self.live -= 1;
        }
        self.now += 1;
        self.add(self.now, 1);
        self.live += 1;
        self.last[thing] = self.now as u32;
    }

    /// Something is used that is not kept track of.
    pub(super) fn miss(&mut self) {
        self.uses += 1;
    }

    /// Each size with the share of uses that hit.
    pub(super) fn hit_shares(&self) -> Vec<(usize, f64)> {
        let cumulative = self.hits.iter().scan(0, |sum, hits| {
            *sum += hits;
            Some(*sum as f64 / self.uses.max(1) as f64)
        });
        self.sizes.iter().copied().zip(cumulative).collect()
    }

    /// Live things with times up to `at`.
    fn sum(&self, mut at: usize) -> u32 {
        let mut sum = 0u32;
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at]);
            at &= at - 1;
        }
        sum
    }

    fn add(&mut self, mut at: usize, by: u32) {
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(by);
            at += at & at.wrapping_neg();
        }
    }

    /// Gives the live things the first times, in order, with as many free behind them.
    fn renumber(&mut self) {
        let mut order: Vec<usize> = (0..self.last.len()).filter(|&t| self.last[t] > 0).collect();
        order.sort_unstable_by_key(|&t| self.last[t]);
        self.tree = vec![0; (order.len() * 2).max(FIRST_TIMES) + 1];
        for (at, &thing) in (1..).zip(&order) {
            self.last[thing] = at as u32;
            self.add(at, 1);
        }
        self.now = order.len();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive(uses: &[u32], size: usize) -> u64 {
        let mut cache: Vec<u32> = Vec::new();
        let mut hits = 0;
        for &thing in uses {
            if let Some(at) = cache.iter().position(|&t| t == thing) {
                cache.remove(at);
                hits += 1;
            } else if cache.len() == size {
                cache.remove(0);
            }
            cache.push(thing);
        }
        hits
    }

    proptest! {
        #[test]
        fn stack_matches_naive(uses in prop::collection::vec(0..40u32, 1..300), wide in prop::collection::vec(0..3000u32, 0..2)) {
            // Repeated, so that times run out and are renumbered.
            let uses = [uses.repeat(30), wide].concat();
            let mut stack = LruStack::new(&[1, 3, 10, 64]);
            uses.iter().for_each(|&t| stack.touch(t));
            for (size, share) in stack.hit_shares() {
                prop_assert_eq!((share * uses.len() as f64).round() as u64, naive(&uses, size));
            }
        }
    }
}
