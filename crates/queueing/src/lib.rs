//! Closed forms of queues, and of caches that packets go through: numbers in, numbers out, no state.
//!
//! `lambda` is the rate of arrivals and `mu` the rate at which one server serves, both per the same
//! unit of time, in which waiting times come out. `rho` is lambda / (c mu), `scv` the squared
//! coefficient of variation of service times (0 fixed, 1 exponential), `w_q` the mean time waited
//! before service, `w` the mean sojourn, service included. Names are Kendall's: arrivals, service,
//! servers, capacity. Queues are first come, first served unless they have priorities. Closed networks
//! are solved by mean value analysis. [`MemoryModel`] is a whole memory hierarchy: CPI as a fixed point.
//!
//! Source, unless said otherwise: Gross, Shortle, Thompson and Harris, "Fundamentals of Queueing
//! Theory", 4th edition (2008), chapters 2 and 5.

#![forbid(unsafe_code)]

mod bulk;
mod closed;
mod error;
mod finite;
mod leakage;
pub mod lru;
mod memory;
mod open;
mod priority;
mod root;

pub use bulk::{Bulk, bulk};
pub use closed::{Closed, Station, mva, mva_approximate};
pub use error::QueueError;
pub use finite::{Finite, erlang_b, mmck};
pub use leakage::{CyclicBuffers, DdioWays, FluidPipeline, MbufShares, balls_into_bins, cyclic_leakage, mbuf_series};
pub use memory::{BusSystem, EquationReading, MemoryAnswer, MemoryModel, ServerAnswer, ServiceVariability};
pub use open::{OpenQueue, erlang_c, md1, mg1, mm1, mmc};
pub use priority::{PriorityClass, PriorityWaits, mg1_preemptive, mg1_priority, mmc_priority};
