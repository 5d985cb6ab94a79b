//! Set-associative caches: the tag array, its specification, and what is in which way.
//!
//! Left out: sectors, and lines of other than 64 bytes.
//! Source of the terms: Hennessy and Patterson, Computer Architecture, 6th ed., appendix B.

mod array;
mod chain;
mod prefetcher;
mod recency;
mod replacement;
mod simulate;

pub use array::{NoWay, Slot, TagArray, Victim, WriteOutcome};
pub(crate) use array::{Resident, RowOfSets, equal_tags, prefetch};
pub(crate) use chain::check_ways;
pub use chain::{
    CacheChain, ChainCounts, HitCounts, LevelClassSpec, LevelCounts, LevelSpec, MAX_LINES, Origin, WriteHitPolicy,
    WriteMiss,
};
pub use prefetcher::PrefetcherSpec;
pub(crate) use prefetcher::{ObservedAccess, Prefetcher};
pub use recency::Vectors;
pub use replacement::{AnyPolicy, Lru, OLDEST, Replacement, ReplacementPolicy};
pub(crate) use simulate::gcd;
pub use simulate::{CacheTrace, Sampled, SampledLevel, sample_groups, simulate, simulate_sample, simulate_with};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{LINE_BYTES, Size, Span};

use crate::MachineError;

/// One cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// Capacity; a multiple of ways times 64 bytes.
    pub size: Size,
    /// Ways of a set, 1 to 32.
    pub ways: u32,
    /// Load-to-use latency of a hit, from the core's request.
    pub latency: Span,
}

/// Which size to take in place of `bytes`, which is no multiple of `least`.
pub(crate) fn nearest_size(bytes: u64, least: u64) -> String {
    match bytes / least {
        0 => format!("the smallest size is {}", Size::from_bytes(least)),
        n => format!("the nearest smaller size is {}", Size::from_bytes(n * least)),
    }
}

impl CacheSpec {
    /// Sets the cache has.
    ///
    /// # Errors
    /// Ways outside 1 to 32, or ways that do not divide the size into whole sets.
    pub fn sets(&self, path: &str) -> Result<u64, MachineError> {
        let bytes = self.size.bytes();
        if !(1..=32).contains(&self.ways) {
            return Err(MachineError::new(
                format!("{path}.ways"),
                self.ways.to_string(),
                "1 to 32 ways",
                "choose a number of ways in that range".into(),
            ));
        }
        let per_way = u64::from(self.ways) * LINE_BYTES;
        if bytes == 0 || !bytes.is_multiple_of(per_way) {
            return Err(MachineError::new(
                format!("{path}.size"),
                format!("{} with {} ways", self.size, self.ways),
                "a multiple of ways x 64 B",
                nearest_size(bytes, per_way),
            ));
        }
        if bytes > 1 << 34 {
            return Err(MachineError::new(
                format!("{path}.size"),
                self.size.to_string(),
                "at most 16 GiB",
                "choose a smaller size".into(),
            ));
        }
        Ok(bytes / per_way)
    }
}
