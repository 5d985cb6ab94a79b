//! The copy table against flat memory and its naive twin.
//!
//! Reads, writes and copies of any size and overlap, by several CPUs and by devices, run on caches
//! small enough that everything collides. What is read must be what flat memory has.

use machine::copy_table::{
    CopyCache, CopyInstruction, CopySystemSpec, DataSource, Fault, Functional, L1Spec, Move, Moves, WritePolicy,
};
use proptest::prelude::*;
use units::{CoreId, Line, Size};

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): fast, and good enough to choose operations.
struct Choice(u64);

impl Choice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

fn spec(cpus: u32, l1: Option<(u64, u32, WritePolicy)>, lines: u64, ways: u32) -> CopySystemSpec {
    const LINE: u32 = 16;
    let size = |lines: u64| Size::from_bytes(lines * u64::from(LINE));
    CopySystemSpec {
        cpus,
        line: LINE,
        l1: l1.map(|(lines, ways, writes)| L1Spec { size: size(lines), line: LINE, ways, writes }),
        size: size(lines),
        ways,
        table: true,
        instruction: CopyInstruction { least: 4, most: 100 },
    }
}

/// The same with lines of the shared cache that have `parts` lines of an L1.
fn split(parts: u32, whole: CopySystemSpec) -> CopySystemSpec {
    let line = whole.line * parts;
    let size = Size::from_bytes(whole.size.bytes() * u64::from(parts));
    CopySystemSpec { line, size, ..whole }
}

/// Machines of all shapes: direct-mapped and associative, one CPU and several, all L1 policies, L1s with shorter lines.
fn machines() -> Vec<CopySystemSpec> {
    use WritePolicy::{Back, Through, ThroughAllocate};
    vec![
        spec(1, None, 8, 1),
        spec(1, None, 12, 4),
        spec(1, Some((4, 1, Through)), 8, 2),
        spec(3, Some((4, 1, Through)), 16, 4),
        spec(3, Some((4, 2, Back)), 16, 4),
        spec(4, Some((8, 2, Back)), 6, 1),
        spec(2, Some((3, 1, Back)), 9, 3),
        spec(2, Some((4, 2, ThroughAllocate)), 16, 4),
        split(2, spec(1, Some((8, 1, Through)), 8, 2)),
        split(2, spec(3, Some((8, 1, ThroughAllocate)), 8, 2)),
        split(4, spec(3, Some((8, 2, Back)), 4, 2)),
        split(2, spec(2, Some((5, 1, Back)), 6, 1)),
    ]
}

const MEMORY: usize = 640;

/// Runs `operations` on the table and on flat memory; the number of the first that differs, or of those
/// that the table took part in.
fn fuzz(spec: &CopySystemSpec, fault: Fault, seed: u64, operations: u64) -> Result<(u64, u64), String> {
    let mut choose = Choice(seed);
    let mut flat: Vec<u8> = (0..MEMORY).map(|i| (i * 7 + i / 16) as u8).collect();
    let mut table = Functional::with_fault(spec, flat.clone(), fault).map_err(|e| e.to_string())?;
    let (line, part) = (spec.line as usize, spec.l1_line() as usize);
    // Whatever is written is new, so that no stale byte looks right.
    let mut fresh = 0u8;
    for n in 0..operations {
        let core = CoreId(choose.below(spec.cpus as usize) as u16);
        let at = choose.below(MEMORY);
        let here = at..at + 1 + choose.below(line - at % line);
        // A CPU's access is within a line of its L1, a device's within one of the shared cache.
        let own = at..here.end.min((at / part + 1) * part);
        let wrong = |what: &str, at: usize| Err(format!("operation {n}: {what} at {at}"));
        match choose.below(16) {
            0..=5 => {
                if table.read(core, own.start, own.len()) != &flat[own.clone()] {
                    return wrong("read", own.start);
                }
            }
            6..=9 => {
                fresh = fresh.wrapping_add(1);
                flat[own.clone()].fill(fresh);
                table.write(core, own.start, &flat[own]);
            }
            10..=13 => {
                let bytes = choose.below(120);
                let (mut src, mut dst) = (choose.below(MEMORY - bytes), choose.below(MEMORY - bytes));
                if choose.below(4) != 0 {
                    // As alignment allows: the same place in a line, and often its beginning.
                    let keep = if choose.below(2) == 0 { 0 } else { src % line };
                    src = src / line * line + keep;
                    dst = dst / line * line + keep;
                }
                let bytes = bytes.min(MEMORY - src.max(dst));
                flat.copy_within(src..src + bytes, dst);
                table.copy(core, src, dst, bytes);
            }
            14 => {
                fresh = fresh.wrapping_add(1);
                let here = if choose.below(2) == 0 { at / line * line..at / line * line + line } else { here };
                flat[here.clone()].fill(fresh);
                table.device_write(here.start, &flat[here], choose.below(2) == 0);
            }
            _ => {
                if table.device_read(here.start, here.len()) != &flat[here.clone()] {
                    return wrong("device read", here.start);
                }
            }
        }
        if fault == Fault::None && n % 64 == 0 && !table.system().is_consistent() {
            return Err(format!("operation {n}: the table and the cache disagree"));
        }
    }
    for (at, byte) in flat.iter().enumerate() {
        if table.read(CoreId(0), at, 1) != [*byte] {
            return Err(format!("at the end: {at}"));
        }
    }
    Ok((table.by_table, table.table_hits))
}

#[test]
fn the_copy_table_is_flat_memory_to_whoever_reads_it() {
    for (i, spec) in machines().iter().enumerate() {
        let (by_table, hits) = fuzz(spec, Fault::None, 1 + i as u64, 600_000).unwrap();
        // Lines of 64 B fit into fewer of the copies.
        assert!(by_table > 15_000 && hits > 1_000, "{spec:?}: {by_table} lines by table, {hits} reads of it");
    }
}

#[test]
#[ignore = "slow: a hundred million operations, in a release build"]
fn a_hundred_million_operations_are_those_of_flat_memory() {
    let machines = machines();
    let each = 100_000_000 / machines.len() as u64 + 1;
    for (i, spec) in machines.iter().enumerate() {
        let (by_table, hits) = fuzz(spec, Fault::None, 1_000 + i as u64, each).unwrap();
        println!("{each} operations on {spec:?}: {by_table} lines by table, {hits} reads of it, no difference");
    }
}

#[test]
fn every_rule_that_is_left_out_is_noticed() {
    for fault in Fault::ALL {
        let noticed = machines().iter().enumerate().find_map(|(i, m)| fuzz(m, fault, 77 + i as u64, 200_000).err());
        assert!(noticed.is_some(), "{fault:?} makes no difference in 200000 operations on any machine");
    }
}

#[test]
fn a_copy_back_moves_nothing_and_a_chain_points_at_the_original() {
    let mut cache = CopyCache::new(4, 2, true);
    let mut moves = Moves::new();
    let [a, b, c] = [Line(0), Line(9), Line(18)];
    assert!(cache.copy(a, b, &mut moves) && cache.copy(b, c, &mut moves));
    assert_eq!(cache.table().unwrap().source(c), Some((a, 0)));
    moves.clear();
    assert!(cache.copy(b, a, &mut moves));
    assert!(moves.is_empty(), "{moves:?}");
    assert_eq!(cache.read(b, &mut moves), DataSource::Table { src: a });
    // A write to the original settles both, youngest first, before it happens.
    moves.clear();
    cache.write(a, &mut moves);
    assert_eq!(moves, [Move::Settle { src: a, dst: c }, Move::Settle { src: a, dst: b }]);
}

#[test]
fn a_full_class_settles_its_oldest() {
    let mut cache = CopyCache::new(4, 2, true);
    let mut moves = Moves::new();
    for dst in [9, 13] {
        cache.copy(Line(0), Line(dst), &mut moves);
    }
    moves.clear();
    cache.copy(Line(0), Line(17), &mut moves);
    assert_eq!(moves, [Move::Settle { src: Line(0), dst: Line(9) }, Move::Search { place: 0 }]);
}

#[test]
fn a_device_that_reads_a_copy_leaves_it_clean() {
    let mut cache = CopyCache::new(4, 2, true);
    let mut moves = Moves::new();
    cache.copy(Line(0), Line(9), &mut moves);
    moves.clear();
    cache.before_memory_read(Line(9), &mut moves);
    assert_eq!(moves, [Move::Settle { src: Line(0), dst: Line(9) }]);
    moves.clear();
    cache.write(Line(0), &mut moves);
    assert!(moves.is_empty(), "memory has it already: {moves:?}");
}

/// The definition: one list of pointers, searched from the front.
struct Naive {
    /// Sets of lines, the latest use last, with a dirty flag.
    sets: Vec<Vec<(u64, bool)>>,
    ways: usize,
    /// Places of each class: target, source and number of the copy.
    classes: Vec<Vec<Option<(u64, u64, u64)>>>,
    copies: u64,
    moves: Moves,
}

impl Naive {
    fn new(sets: usize, ways: usize) -> Naive {
        Naive {
            sets: vec![Vec::new(); sets],
            ways,
            classes: vec![vec![None; ways]; sets],
            copies: 0,
            moves: Moves::new(),
        }
    }

    fn source(&self, dst: u64) -> Option<(u64, usize)> {
        let class = &self.classes[dst as usize % self.sets.len()];
        let place = class.iter().position(|e| e.is_some_and(|e| e.0 == dst))?;
        Some((class[place]?.1, place))
    }

    fn settle(&mut self, which: impl Fn(u64, u64) -> bool, write: bool) {
        let mut gone: Vec<(u64, u64, u64)> = Vec::new();
        for entry in self.classes.iter_mut().flatten() {
            if let Some(e) = entry.take_if(|e| which(e.0, e.1)) {
                gone.push(e);
            }
        }
        gone.sort_by_key(|e| std::cmp::Reverse(e.2));
        for (dst, src, _) in gone.into_iter().filter(|_| write) {
            self.moves.push(Move::Settle { src: Line(src), dst: Line(dst) });
        }
    }

    fn bring(&mut self, line: u64, dirty: bool) -> bool {
        let at = line as usize % self.sets.len();
        if let Some(i) = self.sets[at].iter().position(|l| l.0 == line) {
            let (_, was) = self.sets[at].remove(i);
            self.sets[at].push((line, was || dirty));
            return true;
        }
        if self.sets[at].len() == self.ways {
            let (old, was) = self.sets[at].remove(0);
            self.settle(|_, src| src == old, true);
            if was {
                self.moves.push(Move::WriteBack(Line(old)));
            }
            self.moves.push(Move::Drop(Line(old)));
        }
        self.moves.push(Move::Fill(Line(line)));
        self.sets[at].push((line, dirty));
        false
    }

    fn read(&mut self, line: u64) {
        if let Some((src, place)) = self.source(line) {
            self.moves.push(Move::Search { place: place as u32 });
            self.bring(src, false);
        } else {
            self.bring(line, false);
        }
    }

    fn write(&mut self, line: u64) {
        self.settle(|_, src| src == line, true);
        self.settle(|dst, _| dst == line, true);
        self.bring(line, true);
    }

    fn copy(&mut self, src: u64, dst: u64) {
        let src = self.source(src).map_or(src, |s| s.0);
        if src == dst {
            return;
        }
        self.settle(|_, s| s == dst, true);
        self.settle(|d, _| d == dst, false);
        let at = dst as usize % self.sets.len();
        if let Some(i) = self.sets[at].iter().position(|l| l.0 == dst) {
            self.sets[at].remove(i);
            self.moves.push(Move::Drop(Line(dst)));
        }
        self.bring(src, false);
        if self.classes[at].iter().all(Option::is_some) {
            let oldest = self.classes[at].iter().flatten().min_by_key(|e| e.2).map(|e| e.0);
            self.settle(|d, _| Some(d) == oldest, true);
        }
        let place = self.classes[at].iter().position(Option::is_none).expect("room was made");
        self.copies += 1;
        self.classes[at][place] = Some((dst, src, self.copies));
        self.moves.push(Move::Search { place: place as u32 });
    }
}

proptest! {
    #[test]
    fn copy_cache_matches_naive(
        operations in prop::collection::vec((0u8..3, 0u64..40, 0u64..40), 1..400), sets in 1u64..8, ways in 1u32..5,
    ) {
        let mut cache = CopyCache::new(sets, ways, true);
        let mut naive = Naive::new(sets as usize, ways as usize);
        let mut moves = Moves::new();
        for (what, a, b) in operations {
            moves.clear();
            naive.moves.clear();
            match what {
                0 => _ = (cache.read(Line(a), &mut moves), naive.read(a)),
                1 => _ = (cache.write(Line(a), &mut moves), naive.write(a)),
                _ if a != b => _ = (cache.copy(Line(a), Line(b), &mut moves), naive.copy(a, b)),
                _ => {}
            }
            // A fill is listed once the line is there, by one and by the other.
            prop_assert_eq!(&moves, &naive.moves);
            prop_assert!(cache.is_consistent());
        }
    }
}

#[test]
fn errors_say_what_came_and_what_is_allowed() {
    let texts = [
        CopySystemSpec { line: 48, ..spec(1, None, 8, 1) },
        CopySystemSpec { cpus: 0, ..spec(1, None, 8, 1) },
        CopySystemSpec { ways: 33, ..spec(1, None, 8, 1) },
        spec(1, None, 9, 2),
        CopySystemSpec { instruction: CopyInstruction { least: 9, most: 8 }, ..spec(1, None, 8, 1) },
        spec(1, Some((5, 2, WritePolicy::Back)), 8, 1),
        CopySystemSpec { l1: Some(L1Spec { line: 32, ..L1Spec::default() }), ..spec(1, None, 8, 1) },
    ]
    .map(|spec| Functional::new(&spec, vec![0; 64]).unwrap_err().to_string());
    assert_eq!(
        texts,
        [
            "machine.copy_table.line = 48: allowed is 16, 32, 64 or 128 bytes (choose one of these; real caches have 64)",
            "machine.copy_table.cpus = 0: allowed is 1 to 64 CPUs (choose a number in that range)",
            "machine.copy_table.ways = 33: allowed is 1 to 32 ways (choose a number of ways in that range)",
            "machine.copy_table.size = 144 B with 2 ways of 16 B: allowed is a multiple of ways x line, up to 4 GiB (the nearest smaller size is 128 B)",
            "machine.copy_table.instruction = 9 to 8 bytes: allowed is least up to most (raise most or lower least)",
            "machine.copy_table.l1.size = 80 B with 2 ways of 16 B: allowed is a multiple of ways x line, up to 4 GiB (the nearest smaller size is 64 B)",
            "machine.copy_table.l1.line = 32: allowed is a power of two from 16 to 16 bytes, the shared cache's line (choose one of these)",
        ]
    );
}
