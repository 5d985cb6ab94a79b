//! What `traffic` does, seen from outside. One program: each program of tests links everything once more.

mod captures;
mod schema;
mod shared_data;
mod write;
