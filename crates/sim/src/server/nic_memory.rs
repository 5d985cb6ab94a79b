//! Payload that stays in the NIC: only the first lines of a packet cross PCIe, on the way in and on the way out.
//!
//! nicmem (Pismenny, Liss, Morrison, Tsafrir, ASPLOS 2022): a receive descriptor has a host buffer for the header and memory of the NIC
//! for the payload. Where that is full the whole packet goes to the host. A core that reads the payload does so through PCIe
//! ([`machine::memory`], `nic_window`). Left out: values that stay in the NIC beyond a packet, as a key-value store's.

use machine::nic::{NIC_WINDOW, PayloadMemorySpec, ServerLayout};
use packet::MBUF_DATA_ROOM_BYTES;
use probe::{RegionSpec, Sharing};
use units::{Addr, LINE_BYTES, Line, Ps};

use super::{Server, lines};
use crate::scenario::Scenario;

/// Lines of a packet, at the most: those of an mbuf.
const MOST_LINES: u64 = MBUF_DATA_ROOM_BYTES / LINE_BYTES;

/// What the NIC keeps.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct NicMemory {
    header_lines: u64,
    size: u64,
    used: u64,
    base: Addr,
    /// By mbuf: bytes of its packet that are there.
    kept: Vec<u32>,
}

impl NicMemory {
    /// The window of the payload of so many mbufs.
    pub(super) fn region(mbufs: u32) -> RegionSpec {
        let bytes = u64::from(mbufs) * MOST_LINES * LINE_BYTES;
        RegionSpec { id: NIC_WINDOW, name: "nic memory".into(), bytes, sharing: Sharing::Shared }
    }

    /// That of `scenario`; none where payload goes to the host.
    pub(super) fn of(scenario: &Scenario, layout: &ServerLayout) -> Option<Box<NicMemory>> {
        let PayloadMemorySpec { size, header_lines, .. } = scenario.nic.payload_memory.as_ref()?;
        Some(Box::new(NicMemory {
            header_lines: u64::from(*header_lines),
            size: size.bytes(),
            used: 0,
            base: layout.address(NIC_WINDOW, 0, 0),
            kept: vec![0; scenario.mempool.size as usize],
        }))
    }

    /// The window's first line of what is kept of the packet in `mbuf`, and how many there are.
    fn window(&self, mbuf: u32) -> (Line, u64) {
        let first = Addr(self.base.0 + u64::from(mbuf) * MOST_LINES * LINE_BYTES).line();
        (first, u64::from(self.kept[mbuf as usize]).div_ceil(LINE_BYTES))
    }

    /// Bytes of the packet in `mbuf` that are kept.
    pub(super) fn kept(&self, mbuf: u32) -> u32 {
        self.kept[mbuf as usize]
    }

    /// Where the lines of the packet that begins at `start` in `mbuf` are, if some are kept; appends them.
    pub(super) fn cells(&self, mbuf: u32, start: Addr, out: &mut Vec<Addr>) {
        let (first, count) = self.window(mbuf);
        if count > 0 {
            out.extend((0..self.header_lines).map(|k| Addr(start.0 + k * LINE_BYTES)));
            out.extend((0..count).map(|k| Line(first.0 + k).addr()));
        }
    }

    /// How many [`NicMemory::cells`] are.
    pub(super) fn count(&self, mbuf: u32) -> u32 {
        let (_, count) = self.window(mbuf);
        if count > 0 { (self.header_lines + count) as u32 } else { 0 }
    }
}

impl Server {
    /// Keeps the payload of a packet of `bytes` bytes, which gets `mbuf` at `now`, if there is room: bytes that stay in the NIC.
    pub(super) fn keep_payload(&mut self, mbuf: u32, bytes: u32, now: Ps) -> u32 {
        let Some(memory) = &mut self.nic.memory else { return 0 };
        let kept = bytes.saturating_sub((memory.header_lines * LINE_BYTES) as u32);
        let room = u64::from(kept).next_multiple_of(LINE_BYTES);
        if kept == 0 || memory.used + room > memory.size || room > MOST_LINES * LINE_BYTES {
            return 0;
        }
        memory.used += room;
        memory.kept[mbuf as usize] = kept;
        self.nic.placing.kept_packets += 1;
        let (first, count) = memory.window(mbuf);
        self.memory.forget(first, count, now);
        kept
    }

    /// Bytes of the packet in `mbuf` that the NIC has kept.
    pub(super) fn kept(&self, mbuf: u32) -> u32 {
        self.nic.memory.as_ref().map_or(0, |memory| memory.kept(mbuf))
    }

    /// The packet in `mbuf` is done with.
    pub(super) fn release_payload(&mut self, mbuf: u32) {
        if let Some(memory) = &mut self.nic.memory {
            let kept = std::mem::take(&mut memory.kept[mbuf as usize]);
            memory.used -= u64::from(kept).next_multiple_of(LINE_BYTES);
        }
    }

    /// Lines that lie in the host, of a packet of `bytes` bytes that begins at `start` in `mbuf`.
    pub(super) fn host_lines(&self, mbuf: u32, start: Addr, bytes: u64) -> (Line, u64) {
        lines(start, bytes.saturating_sub(self.kept(mbuf).into()))
    }
}
