//! What `sim` does, seen from outside. One program: each program of tests links everything once more.

mod applications;
mod coherence;
mod owners;
mod packet_buffer;
mod run;
mod scenario;
mod seam_banks_and_tenants;
mod seam_copy_table;
mod seam_dma_ways;
mod seam_packet_buffer;
mod seam_policy;
mod seam_window_core;
mod server;
mod steer;
mod switches;
mod upf;
mod validation_ddio;
