//! Packet-buffer allocators against a map of who owns what.

use std::collections::BTreeMap;

use machine::buffer::{BufferAllocation, BufferSpec, PacketBuffer};
use proptest::prelude::*;
use units::Size;

fn spec(allocation: BufferAllocation, kib: u64, pools: u32) -> BufferSpec {
    BufferSpec { allocation, size: Size::from_bytes(kib << 10), pools, ..BufferSpec::default() }
}

fn build(spec: &BufferSpec) -> PacketBuffer {
    let mut state = 1u64;
    PacketBuffer::new(spec, "buffer", move |n| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    })
    .unwrap()
}

fn allocation() -> impl Strategy<Value = BufferAllocation> {
    prop::sample::select(BufferAllocation::ALL.to_vec())
}

/// What a frontier may do by the book: pages in order, each empty when it is entered.
struct NaiveLinear {
    owner: Vec<Option<u64>>,
    frontier: usize,
    cells_per_page: usize,
}

impl NaiveLinear {
    fn allocate(&mut self, id: u64, count: usize) -> Option<Vec<u32>> {
        let n = self.owner.len();
        let cells: Vec<usize> = (0..count).map(|k| (self.frontier + k) % n).collect();
        for &cell in &cells {
            let enters = cell % self.cells_per_page == 0;
            if enters && self.owner[cell..cell + self.cells_per_page].iter().any(Option::is_some) {
                return None;
            }
        }
        for &cell in &cells {
            assert_eq!(self.owner[cell].replace(id), None);
        }
        self.frontier = (self.frontier + count) % n;
        Some(cells.iter().map(|&cell| cell as u32).collect())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever is allocated and freed in whatever order: every cell has one owner or none, a packet has as many
    /// as it needs, what is freed can be had again, and a stall changes nothing.
    #[test]
    fn allocators_match_a_naive_owner_map(
        allocation in allocation(), pools in 1u32..3, shuffled: bool,
        steps in prop::collection::vec((1u32..1518, 0usize..64, 0u32..10), 1..400),
    ) {
        let spec = BufferSpec { shuffled, ..spec(allocation, 16, pools) };
        let mut buffer = build(&spec);
        let mut owner: BTreeMap<u32, u64> = BTreeMap::new();
        let mut live: Vec<(u64, u32, Vec<u32>)> = Vec::new();
        let mut stalls = 0;
        for (id, (bytes, which, choice)) in steps.into_iter().enumerate() {
            if choice < 6 || live.is_empty() {
                let mut cells = vec![u32::MAX];
                let before = buffer.cells_held();
                if buffer.allocate(bytes, &mut cells) {
                    let cells = cells[1..].to_vec();
                    prop_assert_eq!(cells.len() as u32, bytes.div_ceil(64));
                    for &cell in &cells {
                        prop_assert!(cell < buffer.cells());
                        prop_assert_eq!(owner.insert(cell, id as u64), None, "overlap at {}", cell);
                    }
                    live.push((id as u64, bytes, cells));
                } else {
                    stalls += 1;
                    prop_assert_eq!(cells.len(), 1);
                    prop_assert_eq!(buffer.cells_held(), before);
                    prop_assert!(!live.is_empty(), "an empty buffer has room");
                }
            } else {
                let (id, bytes, cells) = live.swap_remove(which % live.len());
                prop_assert_eq!(buffer.free(bytes, &cells), Ok(()));
                for cell in &cells {
                    prop_assert_eq!(owner.remove(cell), Some(id));
                }
                prop_assert!(buffer.free(bytes, &cells).is_err(), "given back twice");
            }
            prop_assert_eq!(buffer.cells_held(), owner.len() as u64);
        }
        prop_assert_eq!(buffer.counters().stalls, stalls);
        prop_assert!((0.0..1.0).contains(&buffer.counters().fragmentation()));
        for (_, bytes, cells) in live.drain(..) {
            prop_assert_eq!(buffer.free(bytes, &cells), Ok(()));
        }
        prop_assert_eq!(buffer.cells_held(), 0);
    }

    #[test]
    fn linear_matches_naive(steps in prop::collection::vec((1u32..1518, 0usize..64, any::<bool>()), 1..300)) {
        let spec = spec(BufferAllocation::Linear, 16, 1);
        let mut buffer = build(&spec);
        let mut naive = NaiveLinear { owner: vec![None; buffer.cells() as usize], frontier: 0, cells_per_page: 64 };
        let mut live: Vec<(u32, Vec<u32>)> = Vec::new();
        for (id, (bytes, which, free)) in steps.into_iter().enumerate() {
            if free && !live.is_empty() {
                let (bytes, cells) = live.swap_remove(which % live.len());
                buffer.free(bytes, &cells).unwrap();
                cells.iter().for_each(|&cell| naive.owner[cell as usize] = None);
                continue;
            }
            let mut cells = Vec::new();
            let got = buffer.allocate(bytes, &mut cells).then_some(cells);
            prop_assert_eq!(&got, &naive.allocate(id as u64, bytes.div_ceil(64) as usize));
            live.extend(got.map(|cells| (bytes, cells)));
        }
    }
}

#[test]
fn a_slow_packet_holds_a_linear_frontier_up_and_a_piecewise_one_not() {
    let run = |allocation| {
        let mut buffer = build(&spec(allocation, 64, 1));
        let (mut slow, mut given) = (Vec::new(), 0);
        assert!(buffer.allocate(64, &mut slow));
        for _ in 0..1000 {
            let mut cells = Vec::new();
            if buffer.allocate(1500, &mut cells) {
                given += 1;
                buffer.free(1500, &cells).unwrap();
            }
        }
        (given, buffer.counters().stalls_with_room)
    };
    // 64 KiB less the slow packet's cell are 1,023 cells: 42 packets of 24 cells, and the frontier meets the slow one.
    assert_eq!(run(BufferAllocation::Linear), (42, 958));
    assert_eq!(run(BufferAllocation::Piecewise), (1000, 0));
    assert_eq!(run(BufferAllocation::Cells), (1000, 0));
}

#[test]
fn fragmentation_is_what_the_unit_wastes() {
    let waste = |allocation| {
        let mut buffer = build(&spec(allocation, 1024, 1));
        let mut cells = Vec::new();
        for _ in 0..64 {
            assert!(buffer.allocate(40, &mut cells));
        }
        buffer.counters().fragmentation()
    };
    assert!((waste(BufferAllocation::Fixed) - (1.0 - 40.0 / 2048.0)).abs() < 1e-12);
    assert!((waste(BufferAllocation::Cells) - (1.0 - 40.0 / 64.0)).abs() < 1e-12);
    // 64 packets of a cell fill two pages; the mean over their growth lies between cells and pages.
    let (linear, piecewise) = (waste(BufferAllocation::Linear), waste(BufferAllocation::Piecewise));
    assert!(waste(BufferAllocation::Cells) < piecewise && piecewise < waste(BufferAllocation::Fixed));
    assert!(piecewise < linear, "smaller pages waste less: {piecewise} {linear}");
}

#[test]
fn fresh_frontiers_are_contiguous_and_pools_take_turns() {
    let mut buffer = build(&spec(BufferAllocation::Piecewise, 64, 2));
    let mut cells = Vec::new();
    (0..3).for_each(|_| assert!(buffer.allocate(128, &mut cells)));
    assert_eq!(cells, [0, 1, 512, 513, 2, 3]);
    assert_eq!(buffer.addr(512).0, 32 << 10);
}

#[test]
fn what_does_not_fit_together_is_refused_with_both_numbers() {
    let message = |spec: BufferSpec| PacketBuffer::new(&spec, "buffer", |_| 0).unwrap_err().to_string();
    let usual = || spec(BufferAllocation::Piecewise, 64, 1);
    let page = message(BufferSpec { page: Some(Size::from_bytes(32)), ..usual() });
    assert!(page.contains("32 B with cells of 64 B"), "{page}");
    let longest = message(BufferSpec { longest: Size::from_bytes(9018), ..usual() });
    assert!(longest.contains("9018 bytes, a page of 2048 bytes"), "{longest}");
    let longest = message(BufferSpec {
        longest: Size::from_bytes(9018),
        allocation: BufferAllocation::Linear,
        size: Size::from_bytes(8192),
        ..usual()
    });
    assert!(longest.contains("9018 bytes, the buffer of 8192 bytes"), "{longest}");
    assert!(message(BufferSpec { pools: 0, ..usual() }).contains("pools = 0"));
    assert!(message(BufferSpec { size: Size::from_bytes(1024), ..usual() }).contains("pages of 2 KiB"));
    assert!(message(BufferSpec { cell: Size::from_bytes(48), ..usual() }).contains("48 B"));
}
