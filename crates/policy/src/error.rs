//! Why a policy cannot be built.

/// Why a policy cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// The ways do not suffice.
    #[error(
        "{path}: {others} ways for others, at least {core} for cores and {io} for devices are more than the {ways} ways \
         there are (lower one of them)"
    )]
    Ways {
        /// Where in the specification.
        path: String,
        /// Ways of the cache.
        ways: u32,
        /// Ways kept for others.
        others: u32,
        /// The least that cores keep.
        core: u32,
        /// The least that devices keep.
        io: u32,
    },
    /// A value that cannot be.
    #[error("{path} = {came}: {allowed}")]
    Value {
        /// Where in the specification.
        path: String,
        /// What came.
        came: String,
        /// What is allowed.
        allowed: String,
    },
}
