//! Why the daemon cannot go on.

use std::io;

use host::HostError;
use policy::PolicyError;

/// Why the daemon cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A setting that cannot be.
    #[error("{path} = {came}: {allowed}")]
    Setting {
        /// Where in the configuration.
        path: String,
        /// What came.
        came: String,
        /// What is allowed, and what to do.
        allowed: String,
    },
    /// A text that is no configuration.
    #[error("{path}: {why}")]
    Form {
        /// The file, and where in it.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// Something wrong in a file, with its line where it has one.
    #[error("{file}{}: {why}", line.map_or_else(String::new, |line| format!(":{line}")))]
    At {
        /// The file.
        file: String,
        /// The line, from 1.
        line: Option<usize>,
        /// What is wrong.
        why: Box<DaemonError>,
    },
    /// All that is wrong, a line each.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<DaemonError>),
    /// A file of the daemon's own.
    #[error("{doing} {path}: {source}")]
    File {
        /// Reading, writing, locking.
        doing: &'static str,
        /// Which.
        path: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// Another one is at it.
    #[error("{path}: another wirespeedd runs (stop it first: systemctl stop wirespeedd)")]
    Running {
        /// The lock.
        path: String,
    },
    /// A journal that cannot be read.
    #[error("{path}: {why} (put the schemata back by hand, then remove the file)")]
    Journal {
        /// The file.
        path: String,
        /// Why not.
        why: String,
    },
    /// Something of the machine.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Other groups stand in the way.
    #[error("{0}")]
    Conflict(String),
    /// Not everything could be put back.
    #[error("not everything could be put back, the journal is kept: {0}")]
    NotRestored(String),
}

impl DaemonError {
    /// Of a file of the daemon's own.
    pub fn file(doing: &'static str, path: &std::path::Path, source: io::Error) -> DaemonError {
        DaemonError::File { doing, path: path.display().to_string(), source }
    }

    /// Whether it is the configuration's fault: exit code 2.
    pub fn is_input(&self) -> bool {
        match self {
            DaemonError::Setting { .. } | DaemonError::Form { .. } | DaemonError::Policy(_) => true,
            DaemonError::At { why, .. } => why.is_input(),
            DaemonError::Several(all) => all.iter().any(DaemonError::is_input),
            _ => false,
        }
    }

    /// The setting that is wrong, as a path in the configuration.
    pub(crate) fn setting(&self) -> Option<&str> {
        match self {
            DaemonError::Setting { path, .. }
            | DaemonError::Form { path, .. }
            | DaemonError::Policy(PolicyError::Value { path, .. } | PolicyError::Ways { path, .. }) => Some(path),
            _ => None,
        }
    }
}
