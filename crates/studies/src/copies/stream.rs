//! The copy kernel of STREAM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{at_least_one, cpu::Cpus};
use sim::scenario::ScenarioError;

/// The copy kernel of STREAM (McCalpin 1995): an array onto another, over and over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StreamSpec {
    /// Bytes of an array; the paper's are 800.
    pub bytes: u64,
    /// How often.
    pub rounds: u64,
    /// Pairs of arrays that take turns: 1 is the paper's, more than the caches hold makes every round
    /// cold.
    pub arrays: u64,
}

impl Default for StreamSpec {
    fn default() -> StreamSpec {
        StreamSpec { bytes: 800, rounds: 100_000, arrays: 1 }
    }
}

pub(super) fn run(spec: &StreamSpec, cpus: &mut Cpus) -> Result<u64, ScenarioError> {
    let (bytes, arrays) = (at_least_one("workload.bytes", spec.bytes)?, at_least_one("workload.arrays", spec.arrays)?);
    let apart = bytes.next_multiple_of(128);
    for round in 0..spec.rounds {
        let at = round % arrays * apart;
        // The target lies an odd number of lines further on, so that the two share no set of L1 by chance.
        let target = arrays * apart + 17 * 128 + at;
        let done = cpus.copy(0, at, target, bytes);
        cpus.wait(0, done);
    }
    Ok(spec.rounds)
}
