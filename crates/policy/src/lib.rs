//! What was seen becomes settings: policies that the simulator and a daemon run alike.
//!
//! - [`Partition`] divides the ways of a last-level cache between devices (DDIO), packet cores, and
//!   all others.
//! - [`Allocator`] moves ways between the first two by how the program responds.
//! - [`baseline`] has the policies that it is compared with.
//! - [`Steering`] is the loop of observe, decide and apply; [`Meter`] turns running totals into
//!   samples for it.
//!
//! Policies are pure: no clock but [`control::Observation::at`], no I/O, no chance.

#![forbid(unsafe_code)]

mod allocator;
pub mod baseline;
mod belief;
mod error;
mod meter;
mod partition;
mod steering;

pub use allocator::{Allocator, AllocatorSpec, Bottleneck, Cause, TRANSITIONS, Transition};
pub use error::PolicyError;
pub use meter::{Meter, Total};
pub use partition::{Floors, Partition, PartitionMasks};
pub use steering::{Steering, StepOutcome};
