//! Why a machine cannot be built: where, what came, what is allowed, what to do.

use packet::{USUAL_FRAME_BYTES, USUAL_FRAME_LINES};

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

    /// That `lines`, the header lines of `path`, are `least` at least and no more than a frame has.
    pub(crate) fn check_header_lines(path: &str, lines: u32, least: u32) -> Result<(), MachineError> {
        if (least..=USUAL_FRAME_LINES).contains(&lines) {
            return Ok(());
        }
        let (path, allowed) = (format!("{path}.header_lines"), format!("{least} to {USUAL_FRAME_LINES}"));
        let remedy = format!("a frame of {USUAL_FRAME_BYTES} B has {USUAL_FRAME_LINES} lines");
        Err(MachineError::new(path, lines.to_string(), allowed, remedy))
    }
}
