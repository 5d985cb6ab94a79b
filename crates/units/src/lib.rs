//! Quantities and identifiers every room shares.
//!
//! Simulated time is an integer number of picoseconds ([`Ps`]), so sums are exact and a run is
//! bit-identical wherever it is made. The types in [`quantity`] are what a person writes in a
//! scenario (`"33 MiB"`, `"2.6 GHz"`, `"100 Gbps"`); they are turned into integers once, when a
//! specification is resolved.

#![forbid(unsafe_code)]

pub mod arrays;
mod id;
pub mod quantity;
mod time;

pub use id::{
    Addr, Bytes, CLASSES, Cbm, Clos, CoreId, DEVICE, LINE_BYTES, Line, LockId, PacketId, PortId, QueueId, Ticket,
};
pub use quantity::{Frequency, PacketRate, Quantity, QuantityError, Rate, Size, Span};
pub use time::{Ps, as_ns};
