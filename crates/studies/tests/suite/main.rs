//! What `studies` does, seen from outside. One program: each program of tests links everything once more.

mod simt;
mod slices;
