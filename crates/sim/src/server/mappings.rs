//! What a kernel's driver maps and unmaps in a burst, where an IOMMU has each buffer mapped by itself.
//!
//! A packet that is received has its buffer unmapped, and another is mapped in its place; one that is sent is mapped, and
//! unmapped when the driver gives its buffer back. A buffer is its element of the pool, whole. What the core waits is
//! waited for at the end of the burst, all together.

use probe::Probe;
use units::{Addr, LINE_BYTES, Ps};

use super::cores::{CoreInput, NextStop};
use super::{PacketFate, Server, lines};

const SITE_MAP: u16 = 61_020;

impl Server {
    /// The burst of core `i` maps and unmaps its buffers: what the core waits for the IOMMU.
    pub(super) fn map_buffers(&mut self, i: usize, now: Ps) -> Ps {
        let mut gone = std::mem::take(&mut self.gone);
        let mut wait = Ps::ZERO;
        if let Some((map, unmap)) = self.memory.mapping_instructions() {
            let worker = &mut self.cores[i];
            let receives = matches!(worker.input, CoreInput::Nic(_));
            let received = worker.in_burst.iter().filter(|_| receives).map(|entry| entry.mbuf);
            let is_sent = |next: &NextStop| matches!(next, NextStop::Ends(PacketFate::Sent(_)));
            let sent = worker.in_burst.iter().filter(|entry| is_sent(&entry.next)).count();
            let (layout, stride) = (&self.layout, self.layout.mbuf_stride());
            let element = |mbuf| lines(Addr(layout.mbuf(mbuf).0 - LINE_BYTES), stride);
            let came = received.clone().count();
            let work = map * (came + sent) as u32 + unmap * (came + gone.len()) as u32;
            let buffers = received.chain(gone.iter().copied()).map(element);
            wait = self.memory.unmap_for_device(i, buffers, now);
            worker.core.script().work(SITE_MAP, work);
        }
        gone.clear();
        self.gone = gone;
        wait
    }
}
