//! Machines: what turns memory references into time.

mod level;

pub use level::{Controller, Full, Level, Reply, Response, Served};
