//! What cannot be on one machine, and why: the one place that says so.

use serde::Serialize;

use super::{Coherence, MemorySpec};
use crate::MachineError;

/// Two settings of `machine` that exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Exclusion {
    /// One of them, by its path below `machine`, as it is set.
    pub one: &'static str,
    /// The other.
    pub other: &'static str,
    /// What stands against both at once.
    pub reason: &'static str,
}

const COPY_ENGINE: &str = "copy_engine";
const COPY_TABLE: &str = "copy_table";
const SNOOP: &str = "llc.coherence = snoop";
const SOCKETS: &str = "sockets";
const CONTROLLER: &str = "dram.controller";

/// All of them. What is not listed goes together, but for single settings that contradict each other (cubes on several
/// sockets, applications that leave lines out of an inclusive LLC).
pub const EXCLUSIONS: [Exclusion; 4] = [
    Exclusion { one: COPY_ENGINE, other: COPY_TABLE, reason: "both would take the same copies" },
    Exclusion {
        one: COPY_ENGINE,
        other: CONTROLLER,
        reason: "whoever touches a target waits until the copy's end, which controllers do not know when it begins",
    },
    Exclusion {
        one: COPY_TABLE,
        other: SNOOP,
        reason: "the table sees what comes to the LLC, and with snooping a core gets a line from another core without it",
    },
    Exclusion {
        one: SOCKETS,
        other: SNOOP,
        reason: "a broadcast reaches the stops of one interconnect, and nobody gathers answers from another socket",
    },
];

/// Refuses a machine of `spec`, on several sockets if `sockets`, that has what excludes each other.
///
/// # Errors
/// The first pair of which both are given.
pub fn check_together(spec: &MemorySpec, sockets: bool, path: &str) -> Result<(), MachineError> {
    let given = [
        (COPY_TABLE, spec.copy_table.is_some()),
        (COPY_ENGINE, spec.copy_engine.is_some()),
        (CONTROLLER, spec.dram.controller.is_some()),
        (SNOOP, spec.llc.coherence == Coherence::Snoop),
        (SOCKETS, sockets),
    ];
    let has = |name: &str| given.contains(&(name, true));
    for Exclusion { one, other, reason } in EXCLUSIONS {
        if has(one) && has(other) {
            return Err(MachineError::new(
                format!("{path}.{one}"),
                format!("given with {path}.{other}"),
                format!("one of them: {reason}"),
                "remove the other".into(),
            ));
        }
    }
    Ok(())
}
