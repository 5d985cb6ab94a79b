//! What the cores of a curve do: one chases pointers, the others stream.

use engine::Seed;
use probe::{Layout, Placed, Probe, Ref, RegionId, Request, Requests, Script};
use rand::RngExt;
use rand_pcg::Pcg64;
use units::{Addr, LINE_BYTES};

/// Dependent loads that are recorded at a time.
pub(super) const CHASED: u64 = 32;
/// Of the chase: no line is likely to come twice.
const CHASE_BYTES: u64 = 256 << 20;
/// A line is read, or written, by two instructions of 32 bytes and their share of a loop.
pub(super) const LINE_INSTRUCTIONS: u32 = 3;
/// Memory lies in pieces of so many bytes at random places: huge pages, as both tools use.
const PAGE: u64 = 2 << 20;
/// Streams run through so many times the caches before they meet a line again.
const ROUND: u64 = 3;
const SITE_CHASE: u16 = 1;
const SITE_LOAD: u16 = 2;
const SITE_STORE: u16 = 3;

/// Reads and writes of the streams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StreamMix {
    /// The share of stores among a stream's lines.
    stores: f64,
}

impl StreamMix {
    /// With which so many percent of the lines that memory moves are read: each line is read, and those that are stored to
    /// are written, too.
    pub(super) fn of_reads(percent: f64) -> StreamMix {
        StreamMix { stores: (100.0 / percent - 1.0).clamp(0.0, 1.0) }
    }

    pub(super) fn stores(&self) -> f64 {
        self.stores
    }
}

/// All of it.
#[derive(Clone, Debug)]
pub(super) struct MemoryLoad {
    pub chase: PointerChase,
    pub streams: Vec<LineStream>,
    /// Lines of all streams that fill the caches.
    pub filling: u64,
}

/// Loads of random lines.
#[derive(Clone, Debug)]
pub(super) struct PointerChase {
    pages: Vec<u64>,
    random: Pcg64,
}

/// Lines in order, of one array that is read and one that is written.
#[derive(Clone, Debug)]
pub(super) struct LineStream {
    arrays: [StreamArray; 2],
    stores: f64,
    /// How much of a store is owed.
    owed: f64,
}

#[derive(Clone, Debug)]
struct StreamArray {
    pages: Vec<u64>,
    at: u64,
}

impl MemoryLoad {
    /// For caches of so many bytes in all.
    pub(super) fn new(mix: StreamMix, streams: u32, caches: u64, seed: Seed) -> MemoryLoad {
        let each = (ROUND * caches / u64::from(streams.max(1))).div_ceil(PAGE).max(1);
        let chased = CHASE_BYTES / PAGE;
        let mut frames: Vec<u64> = (0..chased + 2 * each * u64::from(streams)).collect();
        let mut random = seed.stream("curve.pages");
        for last in (1..frames.len()).rev() {
            frames.swap(last, random.random_range(0..=last));
        }
        let mut frames = frames.into_iter();
        let mut array = |pages: u64| frames.by_ref().take(pages as usize).collect::<Vec<u64>>();
        let chase = PointerChase { pages: array(chased), random: seed.stream("curve.chase") };
        let mut random = seed.stream("curve.streams");
        let streams = (0..streams)
            .map(|_| LineStream {
                arrays: [0, 1].map(|_| {
                    // Streams are not in step.
                    StreamArray { pages: array(each), at: random.random_range(0..each * PAGE / LINE_BYTES) }
                }),
                stores: mix.stores,
                owed: random.random_range(0.0..1.0),
            })
            .collect();
        MemoryLoad { chase, streams, filling: 2 * caches / LINE_BYTES }
    }
}

/// Where the line of that number lies in memory that is made of `pages`.
fn address(pages: &[u64], line: u64) -> u64 {
    let lines = PAGE / LINE_BYTES;
    pages[(line / lines) as usize % pages.len()] * PAGE + line % lines * LINE_BYTES
}

impl PointerChase {
    /// Records the next loads.
    pub(super) fn record(&mut self, script: &mut Script) {
        let lines = self.pages.len() as u64 * PAGE / LINE_BYTES;
        for _ in 0..CHASED {
            let line = self.random.random_range(0..lines);
            script.touch(Ref::load(EVERYWHERE, address(&self.pages, line), 8, SITE_CHASE).after(1));
            script.work(SITE_CHASE, 1);
        }
    }
}

impl LineStream {
    /// Records the next `lines`, with so many instructions of delay behind each.
    pub(super) fn record(&mut self, script: &mut Script, lines: u64, delay: u32) {
        for _ in 0..lines {
            self.owed += self.stores;
            let is_store = self.owed >= 1.0;
            self.owed -= f64::from(u8::from(is_store));
            let array = &mut self.arrays[usize::from(is_store)];
            let offset = address(&array.pages, array.at);
            array.at = (array.at + 1) % (array.pages.len() as u64 * PAGE / LINE_BYTES);
            let (touched, site) = match is_store {
                true => (Ref::store(EVERYWHERE, offset, LINE_BYTES as u16, SITE_STORE), SITE_STORE),
                false => (Ref::load(EVERYWHERE, offset, LINE_BYTES as u16, SITE_LOAD), SITE_LOAD),
            };
            script.touch(touched);
            script.work(site, LINE_INSTRUCTIONS.saturating_add(delay));
        }
    }
}

/// All memory is one region.
const EVERYWHERE: RegionId = RegionId::FIRST_TABLE;

/// An offset is an address.
pub(super) struct Everywhere;

impl Layout for Everywhere {
    fn place(&self, r: &Ref, packet: &Placed, out: &mut Requests) {
        out.push(Request::new(r, packet, Addr(r.offset), r.bytes));
    }

    fn place_line(&self, r: &Ref, _: &Placed) -> Option<Addr> {
        Some(Addr(r.offset))
    }
}
