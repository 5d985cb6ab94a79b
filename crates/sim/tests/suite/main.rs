//! What `sim` does, seen from outside. One program: each program of tests links everything once more.

mod applications;
mod clones;
mod coherence;
mod control_plane;
mod draws;
mod functional;
mod gpu;
mod iommu;
mod lives;
mod near;
mod nics;
mod owners;
mod packet_buffer;
mod placing;
mod policy_and_faults;
mod run;
mod sampling;
mod scenario;
mod server;
mod stalls;
mod steer;
mod switches;
mod upf;
mod validation_ddio;
mod ways_that_change;
mod window_core;
