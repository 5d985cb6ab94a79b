//! Machines: what turns memory references into time.

pub mod buffer;
pub mod cache;
pub mod copy_table;
pub mod cores;
mod divisor;
pub mod dram;
mod error;
mod level;
pub mod memory;
pub mod microengines;
pub mod nic;
pub mod simt;
pub mod stacked;

pub use divisor::Divisor;
pub use error::MachineError;
pub use level::{Lookup, Memory, Reply, Response, Served};
