//! Time and chance: events in order, named streams of random numbers, and rare events.
//!
//! An [`Engine`] holds what will happen; a [`Model`] says what happens then and schedules what
//! follows from it. Every component draws from its own stream, named by its path ([`Seed`]), so
//! that adding a component shifts no other's draws. [`restart`] estimates probabilities too small to
//! be met by waiting. [`queue`] is the G/G/c/K queue by which all of
//! this is validated against the closed forms of the crate `queueing`.

#![forbid(unsafe_code)]

mod calendar;
mod draw;
pub mod queue;
pub mod restart;
mod seed;
mod tournament;

pub use calendar::{Engine, Model};
pub use draw::{Deterministic, Draw, Exponential};
pub use seed::Seed;
pub use tournament::Tournament;
