//! Closed forms of queues: numbers in, numbers out, no state.
//!
//! `lambda` is the rate of arrivals and `mu` the rate at which one server serves, both per the same
//! unit of time, in which waiting times come out. `rho` is lambda / (c mu), `scv` the squared
//! coefficient of variation of service times (0 fixed, 1 exponential), `w_q` the mean time waited
//! before service, `w` the mean sojourn, service included. Names are Kendall's: arrivals, service,
//! servers, capacity. Queues are first come, first served.
//!
//! Source, unless said otherwise: Gross, Shortle, Thompson and Harris, "Fundamentals of Queueing
//! Theory", 4th edition (2008), chapters 2 and 5.

mod error;
mod finite;
pub mod lru;
mod open;

pub use error::QueueError;
pub use finite::{Finite, erlang_b, mmck};
pub use open::{Open, erlang_c, md1, mg1, mm1, mmc};
