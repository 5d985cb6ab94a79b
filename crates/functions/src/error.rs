//! Why a packet function cannot be built or its table cannot be changed.

use packet::Prefix;

/// Why a packet function cannot be built or its table cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FunctionError {
    /// There is no such entry width.
    #[error("forward.entry_bytes = {0}: allowed are 2 and 4 (leave it out for the narrowest that holds the next hops)")]
    EntryBytes(u8),
    /// A next hop that the entries cannot number.
    #[error(
        "forward.routes: next hop {next_hop} does not fit into entries of {entry_bytes} bytes: allowed are 0 to {max} \
         (set forward.entry_bytes = 4, or number the next hops more densely)"
    )]
    NextHop {
        /// What came.
        next_hop: u32,
        /// Bytes of an entry.
        entry_bytes: u8,
        /// The largest it holds.
        max: u32,
    },
    /// A route to a next hop that is not described.
    #[error(
        "forward.routes: next hop {next_hop} is not in the list of adjacencies: allowed are 0 to {}, from {adjacencies} \
         adjacencies (describe it, or mend the route)",
        .adjacencies.saturating_sub(1)
    )]
    NoAdjacency {
        /// What came.
        next_hop: u32,
        /// How many there are.
        adjacencies: usize,
    },
    /// Without ports nothing is forwarded.
    #[error("forward.ports = 0: allowed are 1 to 65535 (give the number of ports of the router)")]
    NoPorts,
    /// Long prefixes need more groups than were reserved or can be numbered.
    #[error(
        "forward.{table}_groups = {capacity}: the routes need {needed} groups (allowed are up to {max}; raise it, leave it \
         out, or drop the longest prefixes)"
    )]
    GroupsFull {
        /// `tbl8` or `tbl8_v6`.
        table: &'static str,
        /// What is needed.
        needed: usize,
        /// What is reserved.
        capacity: usize,
        /// What entries of this width can number.
        max: usize,
    },
    /// A prefix whose length does not exist.
    #[error("forward.routes: {0} has a prefix length that its family does not have: allowed are 0 to 32 and 0 to 128")]
    PrefixLength(Prefix),
    /// A value of a specification or of a session that cannot be.
    #[error("{path} = {came}: {allowed}")]
    Value {
        /// Where.
        path: String,
        /// What came.
        came: String,
        /// What is allowed and what to do.
        allowed: String,
    },
    /// A line of a file of sessions that cannot be.
    #[error("{origin}:{line}: {message}")]
    Line {
        /// The file.
        origin: String,
        /// The line, counted from 1.
        line: usize,
        /// What came, what is allowed and what to do.
        message: String,
    },
    /// A setting of a function.
    #[error("{path} = {came}: allowed is {allowed} ({remedy})")]
    Spec {
        /// Where.
        path: &'static str,
        /// What came.
        came: String,
        /// What is allowed.
        allowed: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The system refuses the memory.
    #[error("{table}: the system refuses {bytes} bytes (free memory, or take narrower entries or fewer groups)")]
    Memory {
        /// Which table.
        table: &'static str,
        /// How much.
        bytes: usize,
    },
}
