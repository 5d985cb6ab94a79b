//! What `daemon` does, seen from outside. One program: each program of tests links everything once more.

mod domains;
mod faults;
mod made;
mod process;
mod processes;
mod seeds;
mod simulate;
mod survey;
mod unit;
