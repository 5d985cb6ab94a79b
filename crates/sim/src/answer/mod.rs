//! What a run says: tables, the summary, the verdict in words, and two runs side by side.

pub mod compare;
pub mod hot;
pub mod limit;
pub mod model_error;
mod rates;
pub mod stalls;
pub mod summary;
#[cfg(not(target_family = "wasm"))]
pub mod tables;
pub mod verdict;
mod words;
