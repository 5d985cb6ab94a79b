//! What cannot be on one machine, and why: the one place of the memory system that says so. A scenario has these rows and its own.

use serde::Serialize;

use super::{Coherence, Inclusion, MemorySpec};
use crate::MachineError;

/// A setting as it excludes another: whatever it is set to, or some of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ExcludedSetting {
    /// Its path in a scenario; `*` stands for any name.
    pub path: &'static str,
    /// Its values that exclude the other; any value where there are none.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub is: &'static [&'static str],
}

impl ExcludedSetting {
    /// Whatever it is set to.
    pub const fn given(path: &'static str) -> ExcludedSetting {
        ExcludedSetting { path, is: &[] }
    }

    /// These values of it.
    pub const fn of(path: &'static str, is: &'static [&'static str]) -> ExcludedSetting {
        ExcludedSetting { path, is }
    }
}

/// What stands behind a pair that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExclusionKind {
    /// Hardware cannot be both.
    Physical,
    /// Two ways to say one thing.
    Alternatives,
    /// The model does not know it.
    Limit,
}

/// Two settings of a scenario that exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Exclusion {
    /// The one that is told of.
    pub one: ExcludedSetting,
    /// The other.
    pub other: ExcludedSetting,
    /// What kind of reason it is.
    pub kind: ExclusionKind,
    /// What stands against both at once, as one sentence.
    pub reason: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

const COPY_ENGINE: ExcludedSetting = ExcludedSetting::given("machine.copy_engine");
const COPY_TABLE: ExcludedSetting = ExcludedSetting::given("machine.copy_table");
const SNOOP: ExcludedSetting = ExcludedSetting::of("machine.llc.coherence", &["snoop"]);
const INCLUSIVE: ExcludedSetting = ExcludedSetting::of("machine.llc.inclusion", &["inclusive"]);
const INCLUSIVE_WAYS: ExcludedSetting = ExcludedSetting::given("machine.llc.inclusive_ways");
const SKIPS: ExcludedSetting = ExcludedSetting::given("machine.applications.*.skip");
const BYPASSES: ExcludedSetting = ExcludedSetting::of("machine.applications.*.bypass", &["true"]);
const STAYS_OUT: ExcludedSetting = ExcludedSetting::of("machine.applications.*.llc", &["false"]);

/// Why an application may not leave lines out of an inclusive LLC, and what to do.
pub(super) const OF_AN_INCLUSIVE_LLC: (&str, &str) = (
    "an inclusive LLC is the directory of the private caches, and has all lines that they have",
    "set machine.llc.inclusion to victim or non_inclusive",
);

const fn inclusive(one: ExcludedSetting) -> Exclusion {
    let (reason, remedy) = OF_AN_INCLUSIVE_LLC;
    Exclusion { one, other: INCLUSIVE, kind: ExclusionKind::Physical, reason, remedy }
}

/// All of them in the memory system. What is not listed goes together, but for cubes on several sockets.
pub const EXCLUSIONS: [Exclusion; 6] = [
    Exclusion {
        one: COPY_ENGINE,
        other: COPY_TABLE,
        kind: ExclusionKind::Alternatives,
        reason: "both would take the same copies",
        remedy: "remove the other",
    },
    Exclusion {
        one: COPY_TABLE,
        other: SNOOP,
        kind: ExclusionKind::Physical,
        reason: "the table sees what comes to the LLC, and with snooping a core gets a line from another core without it",
        remedy: "remove the other",
    },
    inclusive(INCLUSIVE_WAYS),
    inclusive(SKIPS),
    inclusive(BYPASSES),
    inclusive(STAYS_OUT),
];

/// Whether `spec` has a setting that a row names; none of applications, which it does not know: they are looked at where they are told
/// apart.
fn has(spec: &MemorySpec, setting: ExcludedSetting) -> Option<bool> {
    Some(match setting.path {
        "machine.copy_table" => spec.copy_table.is_some(),
        "machine.copy_engine" => spec.copy_engine.is_some(),
        "machine.llc.coherence" => spec.llc.coherence == Coherence::Snoop,
        "machine.llc.inclusive_ways" => spec.llc.inclusive_ways.is_some(),
        "machine.llc.inclusion" => spec.llc.inclusion == Inclusion::Inclusive,
        _ => return None,
    })
}

/// Refuses a machine of `spec` that has what excludes each other.
///
/// # Errors
/// The first pair of which both are given.
pub fn check_together(spec: &MemorySpec, path: &str) -> Result<(), MachineError> {
    let at = |setting: ExcludedSetting| format!("{path}{}", setting.path.trim_start_matches("machine"));
    for Exclusion { one, other, reason, remedy, .. } in EXCLUSIONS {
        if [one, other].into_iter().all(|setting| has(spec, setting) == Some(true)) {
            let value = if other.is.is_empty() { String::new() } else { format!(" = {}", other.is.join(", ")) };
            let came = if one.is.is_empty() { "given".into() } else { one.is.join(", ") };
            let (came, allowed) = (format!("{came} with {}{value}", at(other)), format!("one of them: {reason}"));
            return Err(MachineError::new(at(one), came, allowed, remedy.into()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::twin_tests::spec;

    #[test]
    fn a_row_is_of_applications_or_looked_at_here() {
        let spec = spec(Inclusion::Victim, 0b1100, 2);
        for Exclusion { one, other, .. } in EXCLUSIONS {
            for setting in [one, other] {
                let of_applications = setting.path.starts_with("machine.applications.");
                assert_eq!(has(&spec, setting).is_none(), of_applications, "{setting:?}");
            }
        }
    }
}
