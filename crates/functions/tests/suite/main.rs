//! What `functions` does, seen from outside. One program: each program of tests links everything once more.

mod alone;
mod applications;
mod classify;
mod firewall;
mod forward;
mod fragment;
mod inspect;
mod nat;
mod options;
mod socket;
mod tables;
mod upf;
mod vhost;
