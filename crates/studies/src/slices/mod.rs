//! Lookup tables behind LLC slices and interleaved stacked DRAM: an event-driven model of three architectures.
//!
//! Packets arrive as a Poisson process and go to a random core of their application; a core works on one at a time (or a
//! few, `outstanding`), first come first served. A lookup goes through the core's L1 and L2, then, where the architecture
//! has one, through the LLC slice that its line belongs to (line n to slice n mod L), each a server with its queue, then over
//! the link to the stacked DRAM ([`machine::stacked`]). The core is held until the data are back. At most `limit` packets are in the
//! system; what arrives beyond is blocked. Proposed has the slices, the shared LLC is one slice with one queue, and without LLC
//! an L2 miss goes to memory.
//!
//! A miss in all caches fills L1 only; what leaves L1 goes to L2, what leaves L2 to its slice, what leaves a slice is dropped.
//! Requests for a line that is on its way are not merged. Where the text is open, a reading decides ([`PaperReading`]).
//!
//! Beyond the paper: real sizes with sets and ways, several applications with slices or ways of their own or shared ones, the skip
//! selection logic, allocation bypass, device timings of the memory, lookups recorded from the real DIR-24-8.
//!
//! Left out: writes, coherence, address translation, the time of the inter-core bus (slices' service times are
//! exponential to stand for their distance, section V-B), prefetchers.
//!
//! Queues before slices hold as many requests as there are cores (section V-B). With one outstanding request a core they
//! never fill; with more, a request that finds its queue full waits in its core, and is served in the same order: only
//! the count of such requests shows it.
//!
//! **Warm-up.** First, lookups go through the caches without time: four for every line that all caches hold. Then packets are simulated
//! without being measured: 10,000 or 100 for each that the system holds, whichever is more. Then so many are measured, in 32 batches.
//! Whether the waiting time still has a trend over these is tested ([`stats::warmup`]'s test of halves).
//!
//! Source: T. Korikawa, A. Kawabata, F. He, E. Oki, "Packet Processing Architecture Using Last-Level-Cache Slices and
//! Interleaved 3D-Stacked DRAM", IEEE Access 8, 2020, sections III to V.

mod limits;
mod outcome;
mod point;
mod popularity;
mod preview;
mod simulate;
mod spec;
mod totals;
mod trace;

pub use outcome::{ApplicationOutcome, Figure, SlicesOutcome};
pub use point::SlicesPoint;
pub use popularity::LinePopularity;
pub use preview::{Preview, left_out, preview};
pub use spec::{
    Application, Architecture, Caches, HeaderRead, Isolation, OnHit, PaperReading, Ranks, SlicesError, SlicesLevel,
    SlicesSpec,
};
pub use trace::Lookups;
