//! Messages between processors, copied twice each.

use probe::Access;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::at_least_one;
use super::cpu::{Cpus, STACK};
use sim::scenario::ScenarioError;

/// Send and receive between CPUs: each writes a message, copies it to a buffer that all share, and the
/// next CPU copies it to its own and reads it (the paper's figure 1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MessagesSpec {
    /// Rounds, in each of which every CPU sends one message to the next.
    pub rounds: u64,
    /// Bytes of a message.
    pub bytes: u64,
    /// Instructions for header queues and matching, on each side; assumed.
    pub instructions: u64,
    /// Whether the receiver reads the message.
    pub reads: bool,
    /// Messages of a CPU that take turns.
    pub slots: u64,
}

impl Default for MessagesSpec {
    fn default() -> MessagesSpec {
        MessagesSpec { rounds: 5_000, bytes: 4_096, instructions: 300, reads: true, slots: 8 }
    }
}

pub(super) fn run(spec: &MessagesSpec, cpus: &mut Cpus) -> Result<u64, ScenarioError> {
    let (bytes, slots) = (at_least_one("workload.bytes", spec.bytes)?, at_least_one("workload.slots", spec.slots)?);
    let slot = bytes.next_multiple_of(128);
    let n = cpus.cpus();
    // Send, shared and receive buffers, CPU after CPU.
    let buffer = |kind: u64, cpu: usize, round: u64| ((kind * n as u64 + cpu as u64) * slots + round % slots) * slot;
    for round in 0..spec.rounds {
        for cpu in 0..n {
            let to = (cpu + 1) % n;
            let [send, shared, receive] = [0, 1, 2].map(|kind| buffer(kind, cpu, round));
            for at in (0..bytes).step_by(8) {
                cpus.touch(cpu, Access::Store, send + at, 8.min(bytes - at));
            }
            cpus.execute(cpu, spec.instructions, STACK);
            let done = cpus.copy(cpu, send, shared, bytes);
            cpus.wait(to, done.max(cpus.now(cpu)));
            cpus.execute(to, spec.instructions, STACK);
            let done = cpus.copy(to, shared, receive, bytes);
            cpus.wait(to, done);
            if spec.reads {
                cpus.read(to, receive, bytes, 8, 2);
            }
        }
    }
    Ok(spec.rounds * n as u64)
}
