//! Why traffic or a table cannot be read.

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
    /// A line of a trace of memory requests, or a record of a binary one, that is not one.
    #[error("{name}:{line}: {came}: expected {expected}")]
    Request {
        /// The input.
        name: String,
        /// The line, or the record, counted from 1.
        line: u64,
        /// What came.
        came: String,
        /// What is expected there.
        expected: String,
    },
    /// A line of a set of rules, or of a table of strings, that is not one.
    #[error("{name}:{line}: {came}: expected {expected}")]
    Line {
        /// The input.
        name: String,
        /// The line, counted from 1.
        line: u64,
        /// What came.
        came: String,
        /// What is expected there.
        expected: String,
    },
    /// A trace of memory requests that cannot be used as a whole.
    #[error("{name}: {why}")]
    Trace {
        /// The input.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// More than is read: a file that goes on would take all memory.
    #[error("{name}: {at}: more than {most}: {remedy}")]
    TooMuch {
        /// The input.
        name: String,
        /// The line, record or byte of the first that is too much.
        at: String,
        /// How much is read, and of what.
        most: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Whoever asked for the input does not want it any more: see [`Stop`](crate::Stop).
    #[error("stopped while it was being read")]
    Stopped,
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

#[cfg(test)]
mod tests {
    use crate::{Capture, Load, ProfileSpec, RequestTrace, Source, SourceSpec, Table};

    /// Every text of the enum, as the inputs that cause it give it.
    #[test]
    fn errors_say_where_what_came_what_is_allowed_and_what_to_do() {
        let load = Load::Packets("1 Mpps".parse().unwrap());
        let spec = |text: &str| toml::from_str::<SourceSpec>(text).unwrap();
        let source = |text: &str| Source::new(&spec(text), 1, &load, None).err().unwrap().to_string();
        let texts = [
            Capture::open("no/such.pcap").err().unwrap().to_string(),
            Capture::from_bytes(b"MZ".to_vec(), "a.exe").err().unwrap().to_string(),
            Table::from_bytes(b"10.0.0.0/40\n".to_vec(), "rib.txt").err().unwrap().to_string(),
            source("sizes = { fixed = \"9 KiB\" }\nflows = { count = 0 }"),
            source("flows = { count = 1, destinations = { pool = [\"10.0.0.0/8\", \"::/200\"] } }"),
            ProfileSpec::parse("sizes = \"emix\"", "my.toml").err().unwrap().to_string(),
            RequestTrace::from_bytes(b"R 40\nR 4g\n".to_vec(), "my.rw", None).err().unwrap().to_string(),
            RequestTrace::from_bytes(b"# none\n".to_vec(), "my.rw", None).err().unwrap().to_string(),
        ];
        let expected = [
            "no/such.pcap: cannot be read: No such file or directory (os error 2)",
            "a.exe: not a capture: it starts with bytes 4d 5a (allowed: pcap, pcapng, TSH, ERF; plain or compressed with gzip, xz or zstd)",
            "rib.txt: a text list with no usable prefix: at byte 0: line 1: \"10.0.0.0/40\" has prefix length \"40\": allowed are 0 to 32",
            "traffic.flows.count = 0: 1 to 4294967296 can be",
            "traffic.flows.destinations.pool[1]: \"::/200\" has prefix length \"200\": allowed are 0 to 128",
            "my.toml: not a traffic profile: TOML parse error at line 1, column 9\n  |\n1 | sizes = \"emix\"\n  |         ^^^^^^\nunknown variant `emix`, expected one of `imix`, `fixed`, `histogram`\n",
            "my.rw:2: `R 4g`: expected `R|W HEXADDRESS [CLOCK] [io|class=0..15]`, as in `R 1f40`",
            "my.rw: not a single request in it: a trace has at least one",
        ];
        for (text, expected) in texts.iter().zip(expected) {
            assert_eq!(text, expected);
        }
    }
}
