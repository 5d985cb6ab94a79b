//! What `machine` does, seen from outside. One program: each program of tests links everything once more.

mod buffer;
mod cache_reference;
mod controllers;
mod copy_level;
mod copy_table;
mod core;
mod device_writes;
mod dram;
mod in_order_of_time;
mod microengines;
mod switches;
mod traces;
