//! Tenants: programs outside the scenario that share the LLC, as those of other guests on a host do. All that is known of
//! them is how fast they bring lines in. What a program keeps of the cache then depends on how fast it comes back to its
//! own lines: one of `w` lines that are used `r` times a second together keeps them as long as `w (1 + R / r)` is below
//! the capacity, where tenants bring in `R` lines a second. A fixed share of the cache cannot say that.
//!
//! Their lines come by chance (Poisson), all sets alike, are never used again, and lie in the ways of class of service 0.
//! A set is brought up to date when somebody else comes to it, which nobody can tell from doing it in time. Left out: what
//! tenants take of slices, wires and DRAM; lines that they use again; other arrivals with another seed of the run, so that
//! half-widths over seeds have none of their chance in them.

use engine::{Draw, Exponential, Seed};
use serde::{Deserialize, Serialize};
use units::{LINE_BYTES, Line, Ps, Rate};

/// Lines of tenants are numbered from here on, where no memory is.
const FIRST: u32 = u32::MAX - 256;
const NUMBERS: u32 = 128;
/// So often a set is filled anew before it does not matter any more how often: of random victims one in 3,000 is left.
const MOST_ROUNDS: u32 = 8;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tenants {
    /// When the next of their lines comes into each set.
    due: Vec<Ps>,
    gaps: Exponential,
    brought: u32,
    ways: u32,
}

impl Tenants {
    /// `rate` over `sets`, those of all slices; [`None`] if that is nothing.
    pub(super) fn new(rate: Rate, sets: u64, ways: u32) -> Option<Tenants> {
        if rate.gbps() <= 0.0 {
            return None;
        }
        let mean_ns = sets as f64 * LINE_BYTES as f64 * 8.0 / rate.gbps();
        let mut gaps = Exponential::new(Ps::from_ns_f64(mean_ns), Seed(0).stream("machine.llc.tenants"));
        Some(Tenants { due: (0..sets).map(|_| gaps.draw()).collect(), gaps, brought: 0, ways })
    }

    /// How many lines they have brought into set `set` by `now` that nobody knows of yet.
    #[inline]
    pub(super) fn bring(&mut self, set: usize, now: Ps) -> u32 {
        let due = &mut self.due[set];
        let (mut count, most) = (0, MOST_ROUNDS * self.ways);
        while *due <= now {
            if count == most {
                // What comes next does not depend on what came.
                *due = now + self.gaps.draw();
                break;
            }
            *due += self.gaps.draw();
            count += 1;
        }
        count
    }

    /// The number of another of their lines.
    pub(super) fn number(&mut self) -> u32 {
        self.brought = (self.brought + 1) % NUMBERS;
        FIRST + self.brought
    }
}

/// Whether a slice knows a line of theirs as `within`.
pub(super) fn is_of_tenants(within: Line) -> bool {
    within.0 >= u64::from(FIRST)
}
