//! Cores that replay what a packet function did, and take the time it takes.
//!
//! One mechanism serves two models. Instructions retire in order at `cpi` cycles each; a reference
//! retires when its data are there. What differs is how far the core looks ahead:
//!
//! - **in-order**: the next reference starts when the one before has retired. Stores and prefetches
//!   do not block.
//! - **window**: references start as soon as they are within `rob` instructions of the oldest
//!   unretired one and the reference their address came from (`dep`) is done; at most
//!   `outstanding` private misses are under way.
//!
//! The gap between one retirement and the next is instructions, then a wait, which is charged to
//! the tail of the blocking reference's path: each picosecond once, so the charges sum to the time
//! (the accounting of Eyerman et al., ASPLOS 2006, "A performance counter architecture for
//! computing accurate CPI components").
//!
//! Cores share memory: misses go out in order of time over all cores and devices, and memory may take its time to
//! answer. What the private caches serve is replayed beyond the present.
//!
//! Left out: branch mispredictions, instruction fetch, functional units, memory disambiguation.
//! `cpi` stands for them all.

mod burst;
mod fills;
mod history;
mod replay;
mod spec;
mod stalls;

pub use burst::{BurstPacket, CoreStep};
pub use replay::Core;
pub use spec::{CoreModel, CoreSpec};
pub use stalls::{MEASURED_STALLS, MeasuredStalls, StallLengths, StallSpec};
