//! The network processor of 2003, and the same question on DRAM of today: traffic goes through real packet
//! functions, whose references a machine replays.
//!
//! Functional first: packets of a profile, a capture or a made trace go through forwarding, address translation or a
//! packet filter, which leave steps of instructions and SRAM references ([`work`]); a
//! [`machine::microengines::NetworkProcessor`] replays them ([`study`]). [`today`] puts the same allocators in front
//! of the command-level controllers of `machine::dram`, [`rows`] shows which rows a stream touches, as [`sim::run::rows`] does for a scenario's
//! server. [`processor`] runs a processor that a person describes, from a preset.
//!
//! **Source**: Hasan, Chandra, Vijaykumar, "Efficient use of memory bandwidth to improve network processor
//! throughput", ISCA 2003.

pub mod processor;
pub mod rows;
pub mod study;
pub mod today;
pub mod traffic;
pub mod work;
