//! What was measured, and how far it can be trusted.
//!
//! Everything here takes one pass and a fixed amount of memory, however long a run is. Simulation
//! output is correlated, so no half-width comes from single observations: they are gathered in
//! batches whose number stays between two bounds while their size doubles ([`BatchMeans`]). What
//! batches still have of the ones before widens every half-width. All half-widths are at 95 %.
//!
//! | what | by |
//! |---|---|
//! | independent observations | [`Moments`] |
//! | mean of a correlated sequence | [`BatchMeans`] |
//! | loss, hit rate: one sum over another | [`Ratio`] |
//! | latencies: mean and quantiles with half-widths | [`Latency`], which holds a [`Histogram`] |
//! | queue length, occupancy: a level over time | [`TimeWeighted`] |
//! | what a report draws over time | [`Series`] |
//! | where warm-up ends, whether the rest is stationary | [`mser5`], [`stationarity`] |
//! | whether two runs differ | [`paired`], [`welch`] |

#![forbid(unsafe_code)]

mod attribution;
mod batch;
mod compare;
mod error;
mod histogram;
mod latency;
mod moments;
mod ratio;
mod serial;
mod series;
mod student;
mod time_weighted;
mod warmup;

pub use attribution::{Attribution, Path, Reason, ReasonFamily};
pub use batch::{BatchMeans, Estimate};
pub use compare::{Comparison, paired, welch};
pub use error::StatsError;
pub use histogram::Histogram;
pub use latency::{Latency, Quantile};
pub use moments::Moments;
pub use ratio::{Proportion, Ratio};
pub use series::{Bin, Series};
pub use student::{student_p_value, student_quantile};
pub use time_weighted::TimeWeighted;
pub use warmup::{Truncation, mser5, stationarity};
