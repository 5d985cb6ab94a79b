//! What `policy` does, seen from outside. One program: each program of tests links everything once more.

mod masks;
mod moves;
mod plant;
mod regret;
mod varied;
