//! Why a machine could not be read or set: what was done, what came, what to do.

use std::io;

use rustix::io::Errno;

/// Why the machine could not be read or set: what was done, what came, what to do.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// resctrl is not mounted.
    #[error(
        "{root}: resctrl is not mounted there (mount -t resctrl resctrl {root}; the processor needs CAT and the kernel \
         CONFIG_X86_CPU_RESCTRL: `wirespeed doctor` tells which is missing)"
    )]
    NotMounted {
        /// Where it was looked for.
        root: String,
    },
    /// The system refused.
    #[error("{doing} {path}: {source}{}{}", status.as_deref().map(|s| format!("; the kernel says: {s}")).unwrap_or_default(), remedy(source, doing))]
    System {
        /// What was tried: reading, writing, making, removing.
        doing: &'static str,
        /// On which file.
        path: String,
        /// The system's answer.
        #[source]
        source: io::Error,
        /// What `info/last_cmd_status` says.
        status: Option<String>,
    },
    /// A text that is not of its form.
    #[error("{path}: {came:?} came where {allowed} is expected")]
    Form {
        /// The file or field.
        path: String,
        /// What came.
        came: String,
        /// What is expected there.
        allowed: String,
    },
    /// A mask that the cache does not take.
    #[error("{path} = {came}: {why}")]
    Cbm {
        /// Group, resource and domain.
        path: String,
        /// The mask.
        came: String,
        /// Why not, and what would be taken.
        why: String,
    },
    /// A key that a source of counters does not have.
    #[error("{path}: there is no {key:?}; there are {known}")]
    Key {
        /// Where it was looked for.
        path: String,
        /// What was asked for.
        key: String,
        /// What there is.
        known: String,
    },
    /// What was written is not what is read back.
    #[error("{path}: {wrote} was written and {read} is read back (something else sets it, or the hardware ignores it)")]
    NotTaken {
        /// Which setting.
        path: String,
        /// What was written.
        wrote: String,
        /// What is there.
        read: String,
    },
    /// Settings that failed, after which the ones before could not be put back either.
    #[error("{why}; and what had been set before that could not be put back: {also}")]
    HalfApplied {
        /// Why settings failed.
        why: Box<HostError>,
        /// Why putting back failed.
        also: Box<HostError>,
    },
    /// What this machine does not have.
    #[error("{what}: {why} ({remedy})")]
    Absent {
        /// The interface.
        what: String,
        /// Why it is not there.
        why: String,
        /// What to do.
        remedy: String,
    },
}

impl HostError {
    /// The system's error number, if it was the system that refused.
    pub fn errno(&self) -> Option<i32> {
        match self {
            HostError::System { source, .. } => source.raw_os_error(),
            HostError::HalfApplied { why, .. } => why.errno(),
            _ => None,
        }
    }

    /// Whether it may go by itself: a busy group, an interrupted call.
    pub fn may_pass(&self) -> bool {
        let passing = [Errno::BUSY, Errno::INTR, Errno::AGAIN, Errno::IO, Errno::TIMEDOUT];
        self.errno().is_some_and(|e| passing.iter().any(|p| p.raw_os_error() == e))
    }

    /// Whether the file is there already: a group that somebody else made first.
    pub fn is_taken(&self) -> bool {
        self.errno() == Some(Errno::EXIST.raw_os_error())
    }

    /// Whether the file is gone: a group that somebody removed.
    pub fn is_gone(&self) -> bool {
        self.errno().is_some_and(|e| [Errno::NOENT, Errno::NODEV].iter().any(|p| p.raw_os_error() == e))
    }

    pub(crate) fn system(doing: &'static str, path: impl Into<String>, source: io::Error) -> HostError {
        HostError::System { doing, path: path.into(), source, status: None }
    }

    pub(crate) fn form(path: impl Into<String>, came: &str, allowed: impl Into<String>) -> HostError {
        let came = came.chars().take(80).collect();
        HostError::Form { path: path.into(), came, allowed: allowed.into() }
    }
}

/// What to do about an error of the system, in brackets.
fn remedy(source: &io::Error, doing: &str) -> &'static str {
    match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ACCESS | Errno::PERM) => " (run as root)",
        Some(Errno::NOSPC) if doing == "making" => {
            " (all classes of service or monitoring ids are taken: remove a group that nobody needs)"
        }
        Some(Errno::BUSY) if doing == "making" => {
            " (monitoring ids are still draining: wait, or raise info/L3_MON/max_threshold_occupancy)"
        }
        Some(Errno::AGAIN) if doing == "locking" => {
            " (another program has the lock, `lslocks` tells which: try again when it is done)"
        }
        Some(Errno::NOENT | Errno::NODEV) => " (it is gone, or was never there)",
        Some(Errno::NXIO) => " (no such processor, or the msr module is not loaded: modprobe msr)",
        _ => "",
    }
}
