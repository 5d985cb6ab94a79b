//! What `engine` does, seen from outside. One program: each program of tests links everything once more.

mod kendall;
mod queue;
