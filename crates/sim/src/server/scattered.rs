//! Where packets lie that an allocator places.

use engine::Seed;
use machine::MachineError;
use machine::buffer::{BufferSpec, PacketBuffer};
use machine::nic::{PACKET_BUFFER, ServerLayout};
use units::{Addr, LINE_BYTES, Line};

use super::lines;
use crate::scenario::Scenario;

/// Where packets lie that an allocator places: the driver's mbufs keep their headers and headroom.
#[derive(Clone)]
pub(super) struct Scattered {
    pub(super) buffer: PacketBuffer,
    base: Addr,
    /// Of the packet that asks at present.
    asked: (u32, Vec<u32>),
    /// By mbuf: bytes and cells of its packet.
    held: Vec<(u32, Vec<u32>)>,
    /// By mbuf: the lines of its packet.
    lines: Vec<Vec<Addr>>,
}

state::state!(Scattered { values: [asked, held, lines], arrays: [], parts: [buffer], built: [base] });

impl Scattered {
    /// What `scenario` has of it.
    pub(super) fn of(
        scenario: &Scenario,
        layout: &ServerLayout,
        seed: Seed,
    ) -> Result<Option<Scattered>, MachineError> {
        let Some(spec) = &scenario.buffer else { return Ok(None) };
        let mut order = seed.stream("buffer.order");
        let draw = |n| rand::RngExt::random_range(&mut order, 0..n);
        let base = layout.address(PACKET_BUFFER, 0, 0);
        Scattered::new(spec, scenario.mempool.size, base, draw).map(Some)
    }

    pub(super) fn new(
        spec: &BufferSpec,
        mbufs: u32,
        base: Addr,
        draw: impl FnMut(usize) -> usize,
    ) -> Result<Scattered, MachineError> {
        let buffer = PacketBuffer::new(spec, "buffer", draw)?;
        let mbufs = mbufs as usize;
        Ok(Scattered {
            buffer,
            base,
            asked: Default::default(),
            held: vec![Default::default(); mbufs],
            lines: vec![Vec::new(); mbufs],
        })
    }

    /// Gets cells for a packet of `bytes`; says whether there are.
    pub(super) fn allocate(&mut self, bytes: u32) -> bool {
        self.asked.1.clear();
        self.asked.0 = bytes;
        self.buffer.allocate(bytes, &mut self.asked.1)
    }

    /// The packet that has asked is in `mbuf`.
    pub(super) fn give(&mut self, mbuf: u32) {
        let at = mbuf as usize;
        std::mem::swap(&mut self.held[at], &mut self.asked);
        self.asked.1.clear();
        let (bytes, cells) = &self.held[at];
        let per_cell = u64::from(self.buffer.cell_bytes()) / LINE_BYTES;
        let lines = u64::from(*bytes).div_ceil(LINE_BYTES).max(1);
        let (base, buffer) = (self.base.0, &self.buffer);
        let of_cells = cells.iter().flat_map(|&cell| {
            let start = base + buffer.addr(cell).0;
            (0..per_cell).map(move |k| Addr(start + k * LINE_BYTES))
        });
        self.lines[at].clear();
        self.lines[at].extend(of_cells.take(lines as usize));
    }

    /// The packet that has asked is lost.
    pub(super) fn take_back(&mut self) {
        let (bytes, cells) = &mut self.asked;
        let freed = self.buffer.free(*bytes, cells);
        debug_assert!(freed.is_ok());
        cells.clear();
    }

    /// The packet in `mbuf` is done with.
    pub(super) fn free(&mut self, mbuf: u32) {
        let (bytes, cells) = &mut self.held[mbuf as usize];
        let freed = self.buffer.free(*bytes, cells);
        debug_assert!(freed.is_ok());
        cells.clear();
        self.lines[mbuf as usize].clear();
    }

    /// The lines of the packet in `mbuf`.
    pub(super) fn lines_of(&self, mbuf: u32) -> &[Addr] {
        &self.lines[mbuf as usize]
    }

    /// What is read of the packet in `mbuf` to send `bytes` bytes of it that begin at `start` in the mbuf, `moved` from
    /// where it began: stretches of lines, and whether they are of the packet as it came.
    pub(super) fn to_send(&self, mbuf: u32, moved: i32, start: Addr, bytes: u64) -> Vec<(Line, u64, bool)> {
        // What was put before the packet is in the mbuf's headroom.
        let (before, after) = (u64::from(moved.min(0).unsigned_abs()), moved.max(0) as u64);
        let headroom = (before > 0).then(|| lines(start, before)).map(|(first, count)| (first, count, false));
        let came = self.runs(mbuf, after, bytes - before.min(bytes)).map(|(first, count)| (first, count, true));
        headroom.into_iter().chain(came).collect()
    }

    /// The lines of `bytes` bytes of it from byte `from` on, as runs of lines one after the other: the first one and
    /// how many.
    pub(super) fn runs(&self, mbuf: u32, from: u64, bytes: u64) -> impl Iterator<Item = (Line, u64)> {
        let lines = self.lines_of(mbuf);
        let end = (from + bytes).div_ceil(LINE_BYTES).min(lines.len() as u64) as usize;
        let mut at = ((from / LINE_BYTES) as usize).min(end);
        std::iter::from_fn(move || {
            let first = lines[..end].get(at)?.line();
            let mut count = 1;
            while lines[..end].get(at + count).is_some_and(|next| next.line().0 == first.0 + count as u64) {
                count += 1;
            }
            at += count;
            Some((first, count as u64))
        })
    }
}
