//! From a reference to requests with addresses.

use serde::{Deserialize, Serialize};
use units::{Addr, Clos, CoreId, PacketId};

use crate::{Access, Ref, RegionId};

/// Says where a reference lies: in mbufs, cells, copies per bank, pages, tenants' memory.
///
/// One [`Ref`] may become several requests: a header that crosses a line, a cell list, a write to
/// each copy of a replicated table.
pub trait Layout {
    /// Appends to `out` the requests that `r` makes for `packet`.
    ///
    /// Requests are in the order in which they are issued; each lies within one line.
    fn place(&self, r: &Ref, packet: &Placed, out: &mut Requests);

    /// The address of the request that `r` makes if it makes exactly one, of all its bytes: a short
    /// cut past [`Layout::place`], which gives the same. [`None`] says nothing.
    #[inline]
    fn place_line(&self, r: &Ref, packet: &Placed) -> Option<Addr> {
        let _ = (r, packet);
        None
    }

    /// Where byte 0 of `region` lies, if the region lies in one piece for this core and, where it moves with packets,
    /// for this packet: what [`Layout::place_line`] gives is so much and the offset. [`None`] says nothing.
    #[inline]
    fn base(&self, region: RegionId, packet: &Placed) -> Option<Addr> {
        let _ = (region, packet);
        None
    }
}

impl<L: Layout + ?Sized> Layout for &L {
    #[inline]
    fn place(&self, r: &Ref, packet: &Placed, out: &mut Requests) {
        (**self).place(r, packet, out);
    }
    #[inline]
    fn place_line(&self, r: &Ref, packet: &Placed) -> Option<Addr> {
        (**self).place_line(r, packet)
    }
    #[inline]
    fn base(&self, region: RegionId, packet: &Placed) -> Option<Addr> {
        (**self).base(region, packet)
    }
}

/// Where the current packet lies, and who works on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed<'a> {
    /// The packet.
    pub packet: PacketId,
    /// The core (or warp) that works on it.
    pub core: CoreId,
    /// The class of service its requests are made under.
    pub clos: Clos,
    /// Its mbuf header.
    pub mbuf: Addr,
    /// Its first data byte. Ignored where `cells` is not empty.
    pub data: Addr,
    /// Its 64-byte cells in packet order, where an allocator has scattered it; empty where the
    /// packet is contiguous.
    pub cells: &'a [Addr],
}

state::state!(Placed<'static> {
    values: [packet, core, clos, mbuf, data],
    arrays: [],
    parts: [],
    built: [cells],
});

/// A reference with an address: what the memory system is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request {
    /// The first byte.
    pub addr: Addr,
    /// How many bytes, all in one line.
    pub bytes: u16,
    /// The place in the function, for prefetchers.
    pub site: u16,
    /// What is done.
    pub access: Access,
    /// The class of service, which decides the ways a fill may take.
    pub clos: Clos,
    /// The core that asks; of a DMA request the core whose queue it serves.
    pub core: CoreId,
    /// Which mapping of memory that processes share translates the address, [`RegionId::mapping`]; 0 for memory that
    /// has one.
    pub mapping: u8,
}

impl Request {
    /// The request for the `bytes` bytes of `r` at `addr`, which are on one line.
    #[inline(always)]
    pub fn new(r: &Ref, packet: &Placed, addr: Addr, bytes: u16) -> Request {
        let mapping = r.region.mapping();
        Request { addr, bytes, site: r.site, access: r.access, clos: packet.clos, core: packet.core, mapping }
    }

    /// What tells its page of 2 to the `bits` bytes from all others of that size; addresses are below 2 to the 56.
    #[inline]
    pub fn page(&self, bits: u32) -> u64 {
        self.addr.0 >> bits | u64::from(self.mapping) << 56
    }
}

/// The requests of one reference, reused from reference to reference.
pub type Requests = Vec<Request>;
