//! What `router` does, seen from outside. One program: each program of tests links everything once more.

mod backends;
mod cuda;
mod errors;
mod interface;
mod lowering;
mod made;
mod model;
#[path = "../../../functions/tests/suite/options/mod.rs"]
mod options;
mod program;
mod run;
mod sanitizer;
mod split;
mod timeout;
mod updates;
#[cfg(target_os = "linux")]
mod xdp;
