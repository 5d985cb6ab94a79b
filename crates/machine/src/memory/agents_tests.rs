//! What an agent does the short way against the same at length.

use probe::Access;
use proptest::prelude::*;
use units::{Cbm, Clos, CoreId, Line, Ps, Size, Span};

use super::rows_tests::{load, spec};
use super::{AgentAccess, Hierarchy, Inclusion, Interconnect, LevelCounters, MemorySpec, SliceHash};
use crate::cache::CacheSpec;

const AGENT: CoreId = CoreId(2);

/// Three cores, of which the last is an agent with an L2 of eight sets.
fn machine(spec: &MemorySpec, ways: u32) -> Hierarchy {
    let mut memory = Hierarchy::new(spec, 3, "machine").unwrap();
    let l2 = CacheSpec { size: Size::from_bytes(u64::from(8 * ways) * 64), ways, latency: Span::from_ns(0.0) };
    memory.make_agent(AGENT, &l2, "machine.gpu").unwrap();
    memory.set_class_ways(Clos(1), Cbm(0b0110)).unwrap();
    memory.watch_packets(100..300);
    memory
}

proptest! {
    /// Each answer, each counter and all that is kept is the same, whatever cores and devices do meanwhile.
    #[test]
    fn the_short_way_matches_that_at_length(
        steps in prop::collection::vec((0u8..8, 0u64..400, 1u64..12, 0u64..60_000), 1..250),
        slices in prop::sample::select(vec![1u32, 5, 18]), ways in prop::sample::select(vec![1u32, 2, 4]),
        hash in prop::sample::select(vec![SliceHash::Modulo, SliceHash::XorFold, SliceHash::Mixed, SliceHash::Even]),
        inclusion in prop::sample::select(vec![Inclusion::Victim, Inclusion::NonInclusive]),
        wired: bool, untimed: bool,
    ) {
        let ns = Span::from_ns;
        let interconnect =
            wired.then(|| Interconnect::Mesh { columns: 3, hop: ns(0.5), device: 0, interval: Some(ns(2.0)) });
        let mut spec = spec(slices, hash, inclusion, false);
        spec.llc.interconnect = interconnect;
        let (mut short, mut long) = (machine(&spec, ways), machine(&spec, ways));
        for memory in [&mut short, &mut long] {
            memory.set_untimed(untimed);
        }
        let (mut now, mut looked_up) = (Ps::ZERO, [LevelCounters::default(); 2]);
        for (kind, line, count, gap) in steps {
            now += Ps(gap);
            let write = kind == 7;
            let by = AgentAccess { core: AGENT, clos: Clos(u8::from(line % 3 == 0)), line: Line(line), write };
            match kind {
                0 => prop_assert_eq!(short.dma_write(Line(line), count, now), long.dma_write(Line(line), count, now)),
                1 => prop_assert_eq!(short.dma_read(Line(line), count, now), long.dma_read(Line(line), count, now)),
                2 | 3 => {
                    let access = if kind == 2 { Access::Load } else { Access::Store };
                    let of = [&mut short, &mut long].map(|memory| load(memory, (count % 2) as u16, line, access, now));
                    prop_assert_eq!(of[0], of[1]);
                }
                _ => {
                    prop_assert!(short.is_short_for(AGENT));
                    short.prefetch_for_agent(AGENT, Line(line));
                    let quick = short.use_by_agent(by, now, &mut looked_up[0]);
                    prop_assert_eq!(quick, long.use_at_length(by, now, &mut looked_up[1]));
                }
            }
            prop_assert_eq!(looked_up[0], looked_up[1]);
            prop_assert_eq!(short.counters(), long.counters());
            prop_assert_eq!(short.dram_counters(), long.dram_counters());
        }
        prop_assert_eq!(&short.log, &long.log);
        prop_assert_eq!(serde_json::to_string(&short).unwrap(), serde_json::to_string(&long).unwrap());
    }
}
