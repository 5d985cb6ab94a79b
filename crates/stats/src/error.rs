//! Why two runs cannot be compared.

/// Why two runs cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatsError {
    /// A comparison needs two values on either side to know how much they vary.
    #[error("comparison of {a} with {b} batches: at least 2 on either side are needed (run longer)")]
    TooFew {
        /// Batches of the first run.
        a: usize,
        /// Batches of the second run.
        b: usize,
    },
    /// Paired runs have the same batches.
    #[error(
        "paired comparison of {a} with {b} batches: the numbers must be equal (run both on the same traffic, or compare them unpaired)"
    )]
    Unpaired {
        /// Batches of the first run.
        a: usize,
        /// Batches of the second run.
        b: usize,
    },
}
