//! What devices do to lines row by row against the same line by line.

use probe::{Access, Request};
use proptest::prelude::*;
use units::{Addr, Cbm, Clos, CoreId, Line, Ps, Size, Span};

use super::llc::{self, FillRule};
use super::{Hierarchy, Inclusion, Interconnect, LlcSpec, MemorySpec, SliceHash, Ways};
use crate::cache::CacheSpec;
use crate::dram::DramSpec;

fn hierarchy(slices: u32, hash: SliceHash, inclusion: Inclusion, cores: u32, mesh: bool) -> Hierarchy {
    Hierarchy::new(&spec(slices, hash, inclusion, mesh), cores, "machine").unwrap()
}

/// Small caches over plain DRAM.
pub(super) fn spec(slices: u32, hash: SliceHash, inclusion: Inclusion, mesh: bool) -> MemorySpec {
    let ns = Span::from_ns;
    let cache =
        |lines: u64, ways: u32, latency| CacheSpec { size: Size::from_bytes(lines * 64), ways, latency: ns(latency) };
    MemorySpec {
        l1: cache(16, 2, 1.0),
        l2: cache(64, 4, 4.0),
        tlb: None,
        prefetcher: None,
        waiting_prefetches: 0,
        llc: LlcSpec {
            size: Size::from_bytes(u64::from(slices) * 8 * 4 * 64),
            ways: 4,
            latency: ns(30.0),
            slices,
            hash,
            interval: ns(1.0),
            interconnect: mesh.then(|| Interconnect::Mesh { columns: 3, hop: ns(0.5), device: 0, interval: None }),
            inclusion,
            replacement: Default::default(),
            core_age: 2,
            io_age: 3,
            core_ways: None,
            io_ways: Ways::Mask(Cbm(0b1100)),
            inclusive_ways: None,
            snoop: ns(10.0),
            coherence: Default::default(),
            tenants: None,
        },
        dram: DramSpec::of_standard("ddr4-2400u", ns(30.0)).unwrap(),
        copy_table: None,
        copy_engine: None,
    }
}

/// When a core's access is done.
pub(super) fn load(memory: &mut Hierarchy, core: u16, line: u64, access: Access, now: Ps) -> Ps {
    let addr = Addr(line * 64);
    memory.access(&Request { addr, bytes: 8, site: 0, access, clos: Clos(0), core: CoreId(core), mapping: 0 }, now).at
}

proptest! {
    #[test]
    fn rows_match_lines(
        steps in prop::collection::vec((0u8..4, 0u64..900, 1u64..40, 0u16..20, 0u64..60_000), 1..250),
        slices in prop::sample::select(vec![1u32, 2, 5, 18, 64]), ways in prop::sample::select(vec![0b1100u32, 0b0111, 0b1111, 0b1000]),
        hash in prop::sample::select(vec![SliceHash::Modulo, SliceHash::XorFold, SliceHash::Mixed, SliceHash::Even]),
        inclusion in prop::sample::select(vec![Inclusion::Victim, Inclusion::NonInclusive, Inclusion::Inclusive]),
        cores in prop::sample::select(vec![3u16, 20]), mesh: bool,
    ) {
        let new = || hierarchy(slices, hash, inclusion, cores.into(), mesh);
        let (mut rows, mut lines) = (new(), new());
        for memory in [&mut rows, &mut lines] {
            memory.set_io_ways(Cbm(ways)).unwrap();
        }
        let mut now = Ps::ZERO;
        for (kind, line, count, core, gap) in steps {
            now += Ps(gap);
            let (first, core) = (Line(line), core % cores);
            let both = match kind {
                0 => [rows.dma_write(first, count, now), lines.for_each_line(first, count, |m, line, spot| {
                    let io = FillRule { ways: m.io_ways, age: m.io_age, owner: llc::DEVICES };
                    m.write_from_device(line, spot, io, now)
                })],
                1 => [rows.dma_read(first, count, now), lines.for_each_line(first, count, |m, line, spot| {
                    m.read_by_device(line, spot, now)
                })],
                2 => [&mut rows, &mut lines].map(|m| load(m, core, line, Access::Load, now)),
                _ => [&mut rows, &mut lines].map(|m| load(m, core, line, Access::Store, now)),
            };
            prop_assert_eq!(both[0], both[1]);
            prop_assert_eq!(rows.counters(), lines.counters());
            prop_assert_eq!(rows.dram_counters(), lines.dram_counters());
        }
        prop_assert_eq!(&rows.log, &lines.log);
        prop_assert_eq!(rows.slices(), lines.slices());
        prop_assert_eq!((rows.io_lines(), rows.llc_occupancy()), (lines.io_lines(), lines.llc_occupancy()));
        for line in (0..1000).map(Line) {
            prop_assert_eq!(rows.llc.has(rows.llc.spot(line)), lines.llc.has(lines.llc.spot(line)));
        }
    }
}
