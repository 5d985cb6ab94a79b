//! Why a machine cannot be built: where, what came, what is allowed, what to do.

/// Why a machine cannot be built from its specification: where, what came, what is allowed, what
/// to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} = {came}: allowed is {allowed} ({remedy})")]
pub struct MachineError {
    /// Path in the scenario: `machine.llc.ways`.
    pub path: String,
    /// The value that came.
    pub came: String,
    /// What is allowed.
    pub allowed: String,
    /// What to do.
    pub remedy: String,
}

impl MachineError {
    pub(crate) fn new(
        path: impl Into<String>,
        came: impl Into<String>,
        allowed: impl Into<String>,
        remedy: String,
    ) -> MachineError {
        MachineError { path: path.into(), came: came.into(), allowed: allowed.into(), remedy }
    }
}
