use std::path::PathBuf;

use packet::PrefixError;

/// Why traffic or a table cannot be had.
///
/// Damage inside an otherwise usable file is not an error: it is counted in a
/// [`Damage`](crate::Damage) list. An error means that nothing can be done with the input.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// The file cannot be opened or read at all.
    #[error("{path}: cannot be read: {source}", path = .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// No known format.
    #[error(
        "{name}: not {wanted}: it starts with {found} (allowed: {allowed}; plain or compressed with gzip, xz or zstd)"
    )]
    Format {
        /// The input.
        name: String,
        /// With an article: "a capture".
        wanted: &'static str,
        /// The first bytes.
        found: String,
        /// The formats that are read.
        allowed: &'static str,
    },
    /// A known format with no packet or prefix in it that can be used.
    #[error("{name}: {format} with no usable {what}: {why}")]
    NothingUsable {
        /// The input.
        name: String,
        /// The format that was recognised.
        format: &'static str,
        /// "packet" or "prefix".
        what: &'static str,
        /// What was found instead.
        why: String,
    },
    /// A value of a specification that cannot be.
    #[error("{path} = {came}: {allowed}")]
    Spec {
        /// Where in the specification.
        path: String,
        /// What came.
        came: String,
        /// What is allowed and what to do.
        allowed: String,
    },
    /// A profile file that is not one.
    #[error("{name}: not a traffic profile: {source}")]
    Profile {
        /// The file or built-in name.
        name: String,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A prefix that is not one, where a specification lists prefixes.
    #[error("{path}: {source}")]
    Prefix {
        /// Where in the specification.
        path: String,
        /// Why.
        source: PrefixError,
    },
}

impl TrafficError {
    pub(crate) fn spec(path: impl Into<String>, came: impl ToString, allowed: impl Into<String>) -> TrafficError {
        TrafficError::Spec { path: path.into(), came: came.to_string(), allowed: allowed.into() }
    }
}
