//! A cache-based copy accelerator: a table beside a cache that represents copies by pointers.
//!
//! A copy of a line is an entry: the target, and the cached line that has its data. A read of the
//! target is served from the source; a write to either, or the source leaving the cache, first
//! writes the copied data to memory. What the hardware cannot take (by size or alignment) is copied
//! by software. Several CPUs with an L1 each share the cache on a snooping bus, and send and receive
//! messages by such copies.
//!
//! State is free of time: [`IndexTable`] beside any cache, [`CopyCache`] a cache with its table,
//! [`CopySystem`] CPUs around it. Operations tell [`Steps`] of the lines that move ([`Move`]); [`CopyLevel`]
//! charges those that cost time, and [`Functional`] applies all of them to real bytes.
//!
//! Left out: page faults between the lines of a copy, and virtual addresses.
//!
//! Source: Duarte and Wong, "Cache-based Memory Copy Hardware Accelerator for Multi-core Systems",
//! IEEE TC 2010, sections 1.1 and 3, table 2.

mod cache;
mod functional;
mod instruction;
mod level;
mod moves;
mod rivals;
mod spec;
mod system;
mod table;

pub use cache::CopyCache;
pub use functional::Functional;
pub use instruction::{CopyPiece, CopyPlan};
pub use level::{CopyCosts, CopyCounts, CopyLevel, EntrySearch};
pub use moves::{DataSource, Fault, Move, Moves, Steps};
pub use rivals::{
    CompletionNotice, ControllerEngine, Copied, CopyLoopCost, CopyMethod, CopyRequest, DmaEngine, Retires,
};
pub use spec::{CopyInstruction, CopySystemSpec, L1Spec, WritePolicy};
pub use system::{CopySystem, WriteTarget};
pub use table::{IndexTable, Mesi};
