//! Where mbufs, rings and tables lie in a server's memory.

use packet::{MBUF_DATA_ROOM_BYTES, MBUF_HEADER_BYTES, MBUF_HEADROOM_BYTES};
use std::ops::Range;

use probe::{Layout, Placed, Ref, RegionId, RegionSpec, Request, Requests, Sharing};
use units::{Addr, CoreId, LINE_BYTES, Line};

use super::rings::RING_HEAD_BYTES;
use super::{
    NicSpec, POOL, POOL_CACHE, POOL_RING, RX_COMPLETIONS, RX_RING, RX_SW_RING, RxRings, TX_COMPLETIONS, TX_RING,
    TX_SW_RING,
};
use crate::MachineError;
use crate::memory::Extent;

/// Bytes from one mbuf to the next where nothing else is said: object header, `struct rte_mbuf`, headroom and data room, 37
/// lines (`rte_mempool_calc_obj_size` gives 64 + 128 + 128 + 2048).
pub const MBUF_STRIDE: u64 = 64 + MBUF_HEADER_BYTES + MBUF_HEADROOM_BYTES + MBUF_DATA_ROOM_BYTES;

/// Where everything lies in a server's memory: mbufs, rings of each core, the function's tables.
///
/// Regions start on pages of 4 KiB, one after the other.
#[derive(Clone, Debug)]
pub struct ServerLayout {
    regions: Vec<Option<RegionPlace>>,
    extents: Vec<Extent>,
    pool: u64,
    stride: u64,
    end: u64,
}

#[derive(Clone, Copy, Debug)]
struct RegionPlace {
    base: u64,
    /// Distance between the copies of two cores, 0 for a shared region.
    per_core: u64,
}

const PAGE_BYTES: u64 = 4096;
/// Line numbers must fit 32 bits.
const LIMIT: u64 = 1 << 38;

impl ServerLayout {
    /// Places `mbufs` mbufs `stride` bytes apart, the rings that `nic` has of `cores` cores, the pool's `pool_ring` bytes, and a
    /// function's tables. `page` gives the bytes of the pages that the region of a group and a name has: it begins with one
    /// and ends with one.
    ///
    /// # Errors
    /// More than 256 GiB, or a region number used twice.
    pub fn new(
        cores: u32,
        (mbufs, stride): (u32, u64),
        pool_ring: u64,
        nic: &NicSpec,
        tables: &[RegionSpec],
        page: impl Fn(&str, &str) -> u64,
    ) -> Result<ServerLayout, MachineError> {
        let mut layout = ServerLayout { regions: Vec::new(), extents: Vec::new(), pool: 0, stride, end: PAGE_BYTES };
        let mut place = |region, group, name: &str, bytes, copies| {
            layout.place_region(region, group, name, bytes, copies, page(group, name))
        };
        place(POOL, "mempool", "mbufs", u64::from(mbufs) * stride, 0)?;
        place(POOL_RING, "mempool", "pool ring", pool_ring, 0)?;
        let rx = u64::from(nic.rx_descriptors) * u64::from(nic.queues_per_core);
        let tx = u64::from(nic.tx_descriptors) * u64::from(nic.ports);
        let driver = &nic.driver;
        let shared = nic.rings == RxRings::Shared;
        let (of_rx, head) = if shared { (0, RING_HEAD_BYTES + LINE_BYTES) } else { (cores, 0) };
        for (region, name, bytes, copies) in [
            (RX_RING, "rx ring", rx * u64::from(driver.rx_descriptor), of_rx),
            (RX_SW_RING, "rx mbuf ring", rx * u64::from(driver.rx_entry) + head, of_rx),
            (TX_RING, "tx ring", tx * u64::from(driver.tx_descriptor), cores),
            (TX_SW_RING, "tx mbuf ring", tx * u64::from(driver.tx_entry), cores),
            (POOL_CACHE, "pool cache", 16 * 1024, cores),
        ] {
            place(region, "rings", name, bytes, copies)?;
        }
        if driver.rx_completion > 0 {
            let entries = u64::from(nic.deliveries()) * u64::from(nic.queues_per_core);
            place(RX_COMPLETIONS, "rings", "rx completions", entries * u64::from(driver.rx_completion), cores)?;
        }
        let (places, bytes) = driver.tx_completions(nic.tx_descriptors);
        if places > 0 {
            place(TX_COMPLETIONS, "rings", "tx completions", places * bytes * u64::from(nic.ports), cores)?;
        }
        for table in tables {
            let copies = if table.sharing == Sharing::PerCore { cores } else { 0 };
            place(table.id, "tables", &table.name, table.bytes, copies)?;
        }
        layout.pool = layout.address(POOL, 0, 0).0;
        Ok(layout)
    }

    /// All regions, those of cores one by one.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    fn place_region(
        &mut self,
        region: RegionId,
        group: &'static str,
        name: &str,
        bytes: u64,
        copies: u32,
        page: u64,
    ) -> Result<(), MachineError> {
        self.end = self.end.next_multiple_of(page);
        let size = bytes.max(1).next_multiple_of(page);
        let at = usize::from(region.0);
        if self.regions.len() <= at {
            self.regions.resize(at + 1, None);
        }
        let total = size.saturating_mul(u64::from(copies.max(1)));
        if self.regions[at].is_some() || self.end.saturating_add(total) > LIMIT {
            return Err(MachineError::new(
                "memory",
                format!("{region} of {total} B at {}", self.end),
                "distinct regions of at most 256 GiB together",
                "use a smaller pool or table".into(),
            ));
        }
        self.regions[at] = Some(RegionPlace { base: self.end, per_core: if copies > 0 { size } else { 0 } });
        for copy in 0..copies.max(1) {
            let base = self.end + size * u64::from(copy);
            self.extents.push(Extent {
                name: name.into(),
                group,
                core: (copies > 0).then_some(CoreId(copy as u16)),
                bytes: base..base + size,
            });
        }
        self.end += total;
        Ok(())
    }

    /// The header of mbuf `index`.
    pub fn mbuf(&self, index: u32) -> Addr {
        Addr(self.pool + u64::from(index) * self.stride + 64)
    }

    /// The first data byte of mbuf `index`, behind its headroom.
    pub fn data(&self, index: u32) -> Addr {
        Addr(self.mbuf(index).0 + MBUF_HEADER_BYTES + MBUF_HEADROOM_BYTES)
    }

    /// Where lines of a server that `other` places lie here: those of a region that both have, at the same offset in it, those of
    /// tables only where they hold the same. `mbufs` names the mbuf that stands here for each of the other's.
    pub fn moved(
        &self,
        other: &ServerLayout,
        mbufs: &[Option<u32>],
        same_tables: bool,
    ) -> impl Fn(Line) -> Option<Line> {
        let here = |extent: &Extent| {
            let alike = |e: &&Extent| e.group == extent.group && e.name == extent.name && e.core == extent.core;
            self.extents.iter().find(alike).filter(|_| same_tables || extent.group != "tables")
        };
        // Extents lie one behind the other, in order.
        let both: Vec<(Range<u64>, Option<Range<u64>>)> =
            other.extents.iter().map(|extent| (extent.bytes.clone(), here(extent).map(|e| e.bytes.clone()))).collect();
        let (pool, stride) = (self.pool, self.stride);
        let other_pool = other.pool..other.pool + mbufs.len() as u64 * other.stride;
        let of_mbufs: Vec<Option<u32>> = if stride == other.stride { mbufs.to_vec() } else { Vec::new() };
        move |line| {
            let at = line.0 * LINE_BYTES;
            if other_pool.contains(&at) {
                let (mbuf, offset) = ((at - other_pool.start) / stride, (at - other_pool.start) % stride);
                let mbuf = of_mbufs.get(mbuf as usize).copied().flatten()?;
                return Some(Line((pool + u64::from(mbuf) * stride + offset) / LINE_BYTES));
            }
            let (from, to) = &both[..both.partition_point(|(from, _)| from.start <= at)].last()?;
            let to = to.as_ref().filter(|_| from.contains(&at))?;
            let moved = to.start + (at - from.start);
            to.contains(&moved).then_some(Line(moved / LINE_BYTES))
        }
    }

    /// Bytes between mbufs.
    pub fn mbuf_stride(&self) -> u64 {
        self.stride
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// The address of byte `offset` of `region` for core `core`.
    #[inline]
    pub fn address(&self, region: RegionId, offset: u64, core: u16) -> Addr {
        match self.regions.get(usize::from(region.0)).copied().flatten() {
            Some(place) => Addr(place.base + place.per_core * u64::from(core) + offset),
            // A function that names a region it did not declare is a bug of the function.
            None => {
                debug_assert!(false, "{region} was not declared");
                Addr(offset % PAGE_BYTES)
            }
        }
    }
}

impl ServerLayout {
    #[inline(always)]
    fn start_of(&self, r: &Ref, packet: &Placed) -> Addr {
        match r.region {
            RegionId::PACKET => Addr(packet.data.0 + r.offset),
            RegionId::MBUF => Addr(packet.mbuf.0 + r.offset),
            // The object header comes before the mbuf.
            POOL => Addr(self.pool + 64 + r.offset),
            region => self.address(region, r.offset, packet.core.0),
        }
    }
}

/// Bytes of an mbuf before the packet's first.
const BEFORE_DATA: u64 = MBUF_HEADER_BYTES + MBUF_HEADROOM_BYTES;

/// Where byte `offset` of a packet lies that an allocator has given `cells`. What is beyond them, such as the end of a
/// header that makes the packet longer, is in the last one.
#[inline(always)]
fn in_cells(cells: &[Addr], offset: u64) -> Addr {
    let cell = cells[(offset / LINE_BYTES).min(cells.len() as u64 - 1) as usize];
    Addr(cell.0 + offset % LINE_BYTES)
}

impl ServerLayout {
    /// The offset in the packet, of a reference to the data of one that lies in cells.
    #[inline]
    fn scattered(r: &Ref, packet: &Placed) -> Option<u64> {
        match r.region {
            _ if packet.cells.is_empty() => None,
            RegionId::PACKET => Some(r.offset),
            // What is put before a packet stays in the mbuf's headroom.
            RegionId::MBUF => r.offset.checked_sub(BEFORE_DATA),
            _ => None,
        }
    }

    #[cold]
    fn place_scattered(r: &Ref, packet: &Placed, mut at: u64, out: &mut Requests) {
        let end = at + u64::from(r.bytes.max(1));
        while at < end {
            let next = ((at / LINE_BYTES + 1) * LINE_BYTES).min(end);
            out.push(Request::new(r, packet, in_cells(packet.cells, at), (next - at) as u16));
            at = next;
        }
    }
}

impl Layout for ServerLayout {
    #[inline]
    fn place(&self, r: &Ref, packet: &Placed, out: &mut Requests) {
        if let Some(offset) = Self::scattered(r, packet) {
            return Self::place_scattered(r, packet, offset, out);
        }
        let mut at = self.start_of(r, packet).0;
        let end = at + u64::from(r.bytes.max(1));
        while at < end {
            let next = ((at / LINE_BYTES + 1) * LINE_BYTES).min(end);
            out.push(Request::new(r, packet, Addr(at), (next - at) as u16));
            at = next;
        }
    }

    #[inline(always)]
    fn place_line(&self, r: &Ref, packet: &Placed) -> Option<Addr> {
        let at = match Self::scattered(r, packet) {
            None => self.start_of(r, packet),
            Some(offset) => in_cells(packet.cells, offset),
        };
        (at.0 % LINE_BYTES + u64::from(r.bytes.max(1)) <= LINE_BYTES).then_some(at)
    }

    #[inline]
    fn base(&self, region: RegionId, packet: &Placed) -> Option<Addr> {
        match region {
            RegionId::PACKET | RegionId::MBUF if !packet.cells.is_empty() => None,
            RegionId::PACKET => Some(packet.data),
            RegionId::MBUF => Some(packet.mbuf),
            POOL => Some(Addr(self.pool + 64)),
            region => {
                let place = self.regions.get(usize::from(region.0)).copied().flatten()?;
                Some(Addr(place.base + place.per_core * u64::from(packet.core.0)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::nic_of;
    use super::*;
    use units::{Clos, PacketId};

    fn layout() -> ServerLayout {
        let table =
            RegionSpec { id: RegionId::FIRST_TABLE, name: "t".into(), bytes: 100_000, sharing: Sharing::Shared };
        let nic = NicSpec { ports: 2, ..nic_of(512) };
        ServerLayout::new(2, (1000, MBUF_STRIDE), 9000, &nic, &[table], |_, _| PAGE_BYTES).unwrap()
    }

    #[test]
    fn lines_move_with_their_region_and_mbufs_by_name() {
        let regions = |bytes: [u64; 2]| {
            [0, 1].map(|i| RegionSpec {
                id: RegionId(RegionId::FIRST_TABLE.0 + i),
                name: format!("t{i}"),
                bytes: bytes[usize::from(i)],
                sharing: Sharing::PerCore,
            })
        };
        let layout = |cores, mbufs, ring, bytes, n| {
            let nic = nic_of(ring);
            ServerLayout::new(cores, (mbufs, MBUF_STRIDE), 9000, &nic, &regions(bytes)[..n], |_, _| PAGE_BYTES).unwrap()
        };
        let (there, here) = (layout(2, 10, 512, [8192, 20_000], 2), layout(1, 8, 128, [4096, 30_000], 2));
        let names: Vec<Option<u32>> = (0..10).map(|mbuf| (mbuf > 1).then(|| 9 - mbuf)).collect();
        let moved = here.moved(&there, &names, true);
        let line = |at: u64| Line(at / LINE_BYTES);
        for mbuf in 0..10 {
            let from = line(there.mbuf(mbuf).0 + 320);
            assert_eq!(moved(from), (mbuf > 1).then(|| line(here.mbuf(9 - mbuf).0 + 320)), "{mbuf}");
        }
        let table = |layout: &ServerLayout, n, core, offset| line(layout.address(RegionId(n), offset, core).0);
        let [first, second] = [0, 1].map(|i| RegionId::FIRST_TABLE.0 + i);
        assert_eq!(moved(table(&there, second, 0, 19_000)), Some(table(&here, second, 0, 19_000)));
        // There is no second core, and the first table is shorter.
        assert_eq!(moved(table(&there, second, 1, 0)), None);
        assert_eq!(moved(table(&there, first, 0, 4032)), Some(table(&here, first, 0, 4032)));
        assert_eq!(moved(table(&there, first, 0, 4096)), None);
        assert_eq!(moved(Line(0)), None);
        assert_eq!(here.moved(&there, &names, false)(table(&there, second, 0, 19_000)), None);
        let without = layout(2, 10, 512, [8192, 0], 1);
        assert_eq!(without.moved(&there, &names, true)(table(&there, second, 0, 0)), None);
        // Mbufs of another size are others.
        let nic = nic_of(128);
        let wide = ServerLayout::new(1, (8, 4096), 9000, &nic, &[], |_, _| PAGE_BYTES).unwrap();
        assert_eq!(wide.moved(&there, &names, true)(line(there.mbuf(5).0)), None);
    }

    #[test]
    fn an_mbuf_takes_37_lines_and_data_start_behind_the_headroom() {
        let l = layout();
        assert_eq!(MBUF_STRIDE, 37 * 64);
        assert_eq!(l.mbuf(1).0 - l.mbuf(0).0, MBUF_STRIDE);
        assert_eq!(l.data(7).0 - l.mbuf(7).0, 256);
    }

    #[test]
    fn a_reference_over_a_line_boundary_becomes_two_requests() {
        let l = layout();
        let packet = Placed {
            packet: PacketId(0),
            core: CoreId(1),
            clos: Clos(0),
            mbuf: l.mbuf(3),
            data: l.data(3),
            cells: &[],
        };
        let mut out = Vec::new();
        l.place(&Ref::load(RegionId::PACKET, 60, 20, 9), &packet, &mut out);
        assert_eq!(out.iter().map(|r| (r.addr.0 - l.data(3).0, r.bytes)).collect::<Vec<_>>(), [(60, 4), (64, 16)]);
        for (offset, bytes) in [(60, 4), (60, 5), (0, 64), (1, 64), (63, 1), (5, 0)] {
            let r = Ref::load(RegionId::PACKET, offset, bytes, 9);
            out.clear();
            l.place(&r, &packet, &mut out);
            let only = if out.len() == 1 { out.first().copied() } else { None };
            let short = l.place_line(&r, &packet).map(|at| Request::new(&r, &packet, at, bytes.max(1)));
            assert_eq!(short, only);
        }
    }

    #[test]
    fn a_scattered_packet_is_referenced_cell_by_cell_and_its_header_in_the_mbuf() {
        let l = layout();
        let cells = [Addr(1 << 20), Addr(3 << 20), Addr(2 << 20)];
        let packet = Placed {
            packet: PacketId(0),
            core: CoreId(0),
            clos: Clos(0),
            mbuf: l.mbuf(3),
            data: l.data(3),
            cells: &cells,
        };
        let of = |region, offset, bytes| {
            let r = Ref::load(region, offset, bytes, 9);
            let mut out = Vec::new();
            l.place(&r, &packet, &mut out);
            let short = l.place_line(&r, &packet);
            assert_eq!(short, if out.len() == 1 { Some(out[0].addr) } else { None });
            out.iter().map(|r| r.addr).collect::<Vec<_>>()
        };
        assert_eq!(of(RegionId::PACKET, 70, 8), [Addr((3 << 20) + 6)]);
        assert_eq!(of(RegionId::PACKET, 60, 80), [Addr((1 << 20) + 60), Addr(3 << 20), Addr(2 << 20)]);
        assert_eq!(of(RegionId::MBUF, BEFORE_DATA + 64, 8), [Addr(3 << 20)]);
        assert_eq!(of(RegionId::MBUF, 16, 8), [Addr(l.mbuf(3).0 + 16)]);
    }

    #[test]
    fn regions_of_cores_do_not_overlap() {
        let l = layout();
        let mut starts: Vec<(u64, u64)> = vec![(l.mbuf(0).0 - 64, 1000 * MBUF_STRIDE)];
        for core in 0..2 {
            starts.push((l.address(RX_RING, 0, core).0, 512 * 32));
            starts.push((l.address(TX_RING, 0, core).0, 2 * 512 * 16));
            starts.push((l.address(POOL_CACHE, 0, core).0, 1024 * 8));
        }
        starts.push((l.address(RegionId::FIRST_TABLE, 0, 0).0, 100_000));
        starts.sort_unstable();
        assert!(starts.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{starts:?}");
    }

    #[test]
    fn too_much_memory_is_refused() {
        let table =
            RegionSpec { id: RegionId::FIRST_TABLE, name: "t".into(), bytes: 1 << 39, sharing: Sharing::Shared };
        assert!(ServerLayout::new(1, (1000, MBUF_STRIDE), 0, &nic_of(512), &[table], |_, _| PAGE_BYTES).is_err());
    }
}
