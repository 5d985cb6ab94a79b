//! What a run says: tables, the summary, the verdict in words, and two runs side by side.

pub mod compare;
mod rates;
pub mod summary;
pub mod tables;
pub mod verdict;
