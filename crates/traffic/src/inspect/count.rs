//! Counting distinct things: exactly while they are few, estimated when they are many.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

use rustc_hash::FxBuildHasher;
use serde::Serialize;

use crate::flows::mix;

/// Distinct things that are counted one by one.
pub const EXACT_LIMIT: usize = 1 << 20;

const REGISTER_BITS: u32 = 14;
const REGISTERS: usize = 1 << REGISTER_BITS;

/// How many different ones there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Distinct {
    /// The number.
    pub count: u64,
    /// Whether it is counted; if not it is an estimate with a standard error of 0.8 %.
    pub exact: bool,
}

/// How often each thing was seen.
///
/// A capture is anybody's: where things are found again by their hash, it has a seed that nobody knows.
pub(super) struct SeenTally<T> {
    seen: HashMap<T, (u32, u64)>,
    beyond: Option<HyperLogLog>,
    limit: usize,
}

impl<T> Default for SeenTally<T> {
    fn default() -> SeenTally<T> {
        SeenTally { seen: HashMap::new(), beyond: None, limit: EXACT_LIMIT }
    }
}

impl<T: Copy + Eq + Hash> SeenTally<T> {
    /// Counts `thing`; its number in order of first sight, [`None`] if it came after the limit.
    pub(super) fn add(&mut self, thing: T) -> Option<u32> {
        let next = self.seen.len();
        if let Some((number, count)) = self.seen.get_mut(&thing) {
            *count += 1;
            return Some(*number);
        }
        if next < self.limit {
            self.seen.insert(thing, (next as u32, 1));
            return Some(next as u32);
        }
        let beyond = self.beyond.get_or_insert_with(|| {
            let mut all = HyperLogLog::new();
            self.seen.keys().for_each(|k| all.add(hash(k)));
            all
        });
        beyond.add(hash(&thing));
        None
    }

    pub(super) fn distinct(&self) -> Distinct {
        match &self.beyond {
            None => Distinct { count: self.seen.len() as u64, exact: true },
            Some(all) => Distinct { count: all.estimate().max(self.limit as f64) as u64, exact: false },
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &T> {
        self.seen.keys()
    }

    pub(super) fn counts(&self) -> Vec<u64> {
        self.seen.values().map(|c| c.1).collect()
    }
}

/// The same in every run, as an estimate is to be.
fn hash(thing: &impl Hash) -> u64 {
    mix(FxBuildHasher.hash_one(thing))
}

struct HyperLogLog {
    registers: Vec<u8>,
}

impl HyperLogLog {
    fn new() -> HyperLogLog {
        HyperLogLog { registers: vec![0; REGISTERS] }
    }

    fn add(&mut self, hash: u64) {
        let register = &mut self.registers[(hash >> (64 - REGISTER_BITS)) as usize];
        let rank = (hash << REGISTER_BITS | 1 << (REGISTER_BITS - 1)).leading_zeros() as u8 + 1;
        *register = (*register).max(rank);
    }

    /// Used beyond a million only, where the raw estimate needs no correction.
    fn estimate(&self) -> f64 {
        let m = REGISTERS as f64;
        let alpha = 0.7213 / (1.0 + 1.079 / m);
        let sum: f64 = self.registers.iter().map(|&r| 0.5f64.powi(r.into())).sum();
        alpha * m * m / sum
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    #[test]
    fn counts_are_exact_up_to_the_limit_and_near_beyond() {
        let mut counter: SeenTally<IpAddr> = SeenTally { limit: 10_000, ..SeenTally::default() };
        for i in 0..10_000u32 {
            assert_eq!(counter.add(Ipv4Addr::from(i * 257).into()), Some(i));
            counter.add(Ipv4Addr::from(i * 257).into());
        }
        assert_eq!(counter.distinct(), Distinct { count: 10_000, exact: true });
        assert!(counter.counts().iter().all(|&c| c == 2));
        for i in 10_000..3_000_000u32 {
            assert_eq!(counter.add(Ipv4Addr::from(i * 257).into()), None);
        }
        let distinct = counter.distinct();
        assert!(!distinct.exact && (distinct.count as f64 / 3e6 - 1.0).abs() < 0.03, "{distinct:?}");
    }
}
