//! What arrives and when: captures, routing tables, and traffic that is made.
//!
//! - [`Capture`] streams packets out of pcap, pcapng, TSH and ERF files, plain or compressed.
//! - [`Table`] is a routing table, out of MRT or a plain list, or made with the prefix lengths of a
//!   real one.
//! - [`SourceSpec`] says what traffic there is (a profile or a capture), [`Load`] how much of it;
//!   a [`Blueprint`] resolves the two, and a [`Source`] gives the packets.
//! - [`mobile`] makes users' traffic of a mobile network out of a profile or a capture.
//! - [`inspect`](fn@inspect) measures a capture, and makes a profile of it.
//! - [`FilterRules`] are filter sets, [`SignatureStrings`] what is looked for in payloads.
//! - [`RequestTrace`] is a trace of memory requests, for caches and DRAM on their own.
//! - [`Recording`] is what a program did to memory, packet by packet.
//!
//! Damage in a file never panics, hangs or takes memory: what can be read is used, the rest is
//! counted and named in a [`Damage`] list. [`RequestTrace`] and a [`Recording`] are taken as a whole or not
//! at all.

#![forbid(unsafe_code)]

mod accesses;
mod arrivals;
mod capture;
mod damage;
mod destinations;
mod error;
mod flows;
mod frame;
mod grow;
mod input;
mod inspect;
mod lines;
mod link;
pub mod mobile;
#[cfg(target_family = "wasm")]
mod page_files;
mod patterns;
mod payload;
mod phases;
mod profile;
mod recording;
mod requests;
mod rules;
mod sizes;
mod source;
mod table;

pub use arrivals::{ArrivalSpec, Arrivals, MmppSpec, MmppState, OnOffSpec, Spacing};
pub use capture::{Capture, CaptureFormat, CaptureReport, LATEST_ARRIVAL, MAX_STORED_BYTES};
pub use damage::{DAMAGE_KEPT, Damage, DamageCount, DamageFinding, DamageKind};
pub use destinations::CaptureDestinations;
pub use error::TrafficError;
pub use flows::{DestinationSpec, FlowSpec, Popularity, PrefixWeight, Rank, Zipf};
pub use input::{Compression, Stop};
pub use inspect::{
    CaptureRates, Distinct, EXACT_LIMIT, Inspection, LRU_SIZES, PopularityFit, SizeClasses, SizeCount, inspect,
    inspect_file,
};
pub use link::link_name;
#[cfg(target_family = "wasm")]
pub use page_files::keep;
pub use patterns::{PatternSelection, SignatureString, SignatureStrings};
pub use payload::PayloadSpec;
pub use phases::PhaseSpec;
pub use profile::{MixSpec, ProfileSpec, SHIPPED_PROFILES};
pub use recording::{
    RecordedKind, RecordedPacket, RecordedPlace, RecordedRegion, RecordedStep, Recording, RecordingFormat,
};
pub use requests::{MOST_REQUESTS, RequestFormat, RequestTrace};
pub use rules::FilterRules;
pub use sizes::{SizeBin, SizeSpec, Sizes};
pub use source::{Blueprint, Checksums, KEPT_BYTES, Load, MEASURED_PACKETS, MeanSize, Source, SourceSpec};
pub use table::{NextHopClass, Route, Table, TableCounts, TableFormat, Update, UpdateKind, Updates};
