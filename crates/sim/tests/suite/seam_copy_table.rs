//! Seam: a table beside a cache takes over copies (`copy-table`), through `Probe::copy`.
//!
//! A function pushes two addresses; the recording keeps them; whole lines of equal alignment go to
//! the table and the rest to the loads and stores of `Probe::copy`'s own text. The table's state
//! knows neither time nor bytes: each operation says which lines move. A timing shell charges the
//! moves, and a functional twin applies them to real bytes, which are compared with flat memory.

use std::collections::HashMap;

use machine::{Level, Response, Served};
use probe::{Access, Event, Probe, Record, Ref, RegionId, Request};
use proptest::prelude::*;
use stats::{Path, Reason};
use units::{Addr, Clos, CoreId, LINE_BYTES, Line, Ps};

/// A line that an operation moves, in the order in which they happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// Memory to cache.
    Fill(Line),
    /// Cache to memory; the line stays.
    WriteBack(Line),
    /// The cached source becomes the target's content in memory.
    Materialise { src: Line, dst: Line },
    /// Out of the cache.
    Leave(Line),
}

/// A direct-mapped cache and a table of `ways` entries for each of its indices, by target line.
struct CopyTable {
    lines: Vec<Option<(Line, bool)>>,
    ways: usize,
    /// Targets and sources, oldest first.
    classes: Vec<Vec<(Line, Line)>>,
    moves: Vec<Move>,
}

impl CopyTable {
    fn new(sets: usize, ways: usize) -> CopyTable {
        CopyTable { lines: vec![None; sets], ways, classes: vec![Vec::new(); sets], moves: Vec::new() }
    }

    fn index(&self, line: Line) -> usize {
        line.0 as usize % self.lines.len()
    }

    fn source(&self, dst: Line) -> Option<Line> {
        self.classes[self.index(dst)].iter().find(|e| e.0 == dst).map(|e| e.1)
    }

    fn holds(&self, line: Line) -> bool {
        self.lines[self.index(line)].is_some_and(|l| l.0 == line)
    }

    /// Writes to memory, and forgets, the entries for which `which` holds.
    fn settle(&mut self, which: impl Fn(Line, Line) -> bool) {
        for class in &mut self.classes {
            class.retain(|&(dst, src)| {
                let go = which(dst, src);
                if go {
                    self.moves.push(Move::Materialise { src, dst });
                }
                !go
            });
        }
    }

    fn evict(&mut self, at: usize) {
        let Some((line, dirty)) = self.lines[at] else { return };
        self.settle(|_, src| src == line);
        if dirty {
            self.moves.push(Move::WriteBack(line));
        }
        self.moves.push(Move::Leave(line));
        self.lines[at] = None;
    }

    fn bring(&mut self, line: Line) {
        if !self.holds(line) {
            self.evict(self.index(line));
            self.moves.push(Move::Fill(line));
            let at = self.index(line);
            self.lines[at] = Some((line, false));
        }
    }

    /// The line that has the data of `line` in the cache.
    fn read(&mut self, line: Line) -> Line {
        self.source(line).unwrap_or_else(|| {
            self.bring(line);
            line
        })
    }

    fn write(&mut self, line: Line) {
        self.settle(|dst, src| dst == line || src == line);
        self.bring(line);
        let at = self.index(line);
        self.lines[at] = Some((line, true));
    }

    /// All of `src` goes to `dst`.
    fn copy(&mut self, src: Line, dst: Line) {
        // A copy of a copy points at the original.
        let src = self.source(src).unwrap_or(src);
        if src == dst {
            return;
        }
        // Copies of what is overwritten; the target's own entry is out of date, not wanted.
        self.settle(|_, s| s == dst);
        let class = self.index(dst);
        self.classes[class].retain(|e| e.0 != dst);
        if self.holds(dst) {
            self.moves.push(Move::Leave(dst));
            self.lines[class] = None;
        }
        self.bring(src);
        if self.classes[class].len() == self.ways {
            let oldest = self.classes[class][0].0;
            self.settle(|d, _| d == oldest);
        }
        self.classes[class].push((dst, src));
    }

    fn is_consistent(&self) -> bool {
        self.classes
            .iter()
            .flatten()
            .all(|&(dst, src)| self.holds(src) && !self.holds(dst) && self.source(src).is_none())
    }
}

/// Charges what the table's state says has moved.
struct Timed(CopyTable);

const HIT: Ps = Ps::from_ns(2);
const BY_TABLE: Ps = Ps::from_ns(1);
const MEMORY: Ps = Ps::from_ns(100);

impl Timed {
    fn response(&mut self, now: Ps, by_table: bool) -> Response {
        let mut path = Path::default();
        path.push(Reason::L1, HIT);
        let mut served = if by_table { Served::Engine } else { Served::L1 };
        path.push(Reason::Copy, if by_table { BY_TABLE } else { Ps::ZERO });
        for moved in self.0.moves.drain(..) {
            match moved {
                Move::Fill(_) => {
                    served = Served::Dram;
                    path.push(Reason::RowMiss, MEMORY);
                }
                Move::WriteBack(_) | Move::Materialise { .. } => path.push(Reason::Copy, MEMORY),
                Move::Leave(_) => {}
            }
        }
        Response { at: now + path.total(), served, path }
    }

    /// What a level lacks: two addresses at once.
    fn copy(&mut self, src: &Request, dst: &Request, now: Ps) -> Response {
        self.0.copy(src.addr.line(), dst.addr.line());
        self.response(now, true)
    }
}

impl Level for Timed {
    fn access(&mut self, request: &Request, now: Ps) -> Response {
        let line = request.addr.line();
        let by_table = if request.access.writes() {
            self.0.write(line);
            false
        } else {
            self.0.read(line) != line
        };
        self.response(now, by_table)
    }
}

fn request(line: u64, access: Access) -> Request {
    Request { addr: Line(line).addr(), bytes: 64, site: 0, access, clos: Clos(0), core: CoreId(0), mapping: 0 }
}

#[test]
fn a_copy_is_served_from_its_source_until_either_side_changes() {
    let mut level = Timed(CopyTable::new(4, 2));
    let now = Ps::ZERO;
    let copy = level.copy(&request(0, Access::Load), &request(9, Access::Store), now);
    assert_eq!(copy.at, HIT + BY_TABLE + MEMORY, "one fill, no write");
    let read = level.access(&request(9, Access::Load), now);
    assert_eq!((read.served, read.at), (Served::Engine, HIT + BY_TABLE));
    // A write to the source writes the copy back first; the target is then an ordinary line.
    let write = level.access(&request(0, Access::Store), now);
    assert_eq!((write.served, write.at), (Served::L1, HIT + MEMORY));
    let read = level.access(&request(9, Access::Load), now);
    assert_eq!((read.served, read.at), (Served::Dram, HIT + MEMORY));
    assert_eq!(read.path.total(), read.at);
}

#[test]
fn evicting_the_source_writes_the_copy_first() {
    let mut table = CopyTable::new(4, 2);
    let [source, target, other] = [Line(0), Line(9), Line(4)];
    table.copy(source, target);
    table.moves.clear();
    table.read(other);
    let expected = [Move::Materialise { src: source, dst: target }, Move::Leave(source), Move::Fill(other)];
    assert_eq!(table.moves, expected);
}

#[test]
fn a_full_class_writes_its_oldest_and_a_copy_back_moves_nothing() {
    let mut table = CopyTable::new(4, 2);
    table.copy(Line(0), Line(9));
    table.copy(Line(0), Line(13));
    table.moves.clear();
    table.copy(Line(13), Line(17));
    assert_eq!(table.moves, [Move::Materialise { src: Line(0), dst: Line(9) }]);
    assert_eq!(table.source(Line(17)), Some(Line(0)), "a copy of a copy points at the original");
    table.moves.clear();
    table.copy(Line(17), Line(0));
    assert_eq!((table.moves.as_slice(), table.source(Line(0))), (&[][..], None));
}

/// The bytes that the moves move.
struct Bytes {
    memory: Vec<u8>,
    cache: HashMap<Line, [u8; 64]>,
}

impl Bytes {
    fn memory(&mut self, line: Line) -> &mut [u8; 64] {
        let at = line.addr().0 as usize;
        (&mut self.memory[at..at + 64]).try_into().expect("a line")
    }

    fn apply(&mut self, moves: &mut Vec<Move>) {
        for moved in moves.drain(..) {
            match moved {
                Move::Fill(line) => {
                    let data = *self.memory(line);
                    self.cache.insert(line, data);
                }
                Move::WriteBack(line) => *self.memory(line) = self.cache[&line],
                Move::Materialise { src, dst } => *self.memory(dst) = self.cache[&src],
                Move::Leave(line) => _ = self.cache.remove(&line),
            }
        }
    }
}

const SPACE: u64 = 24 * LINE_BYTES;

/// Replays a recording on the table with bytes, and on flat memory. A store writes bytes that are
/// new to both, since references carry no data.
struct Twins {
    table: CopyTable,
    bytes: Bytes,
    flat: Vec<u8>,
    stores: u8,
    by_table: u64,
}

impl Probe for Twins {
    fn touch(&mut self, r: Ref) {
        let (line, at) = (Addr(r.offset).line(), (r.offset % LINE_BYTES) as usize);
        let (here, flat) = (at..at + usize::from(r.bytes), r.offset as usize..(r.offset + u64::from(r.bytes)) as usize);
        if r.access.writes() {
            self.stores = self.stores.wrapping_add(1);
            self.table.write(line);
            self.bytes.apply(&mut self.table.moves);
            self.bytes.cache.get_mut(&line).expect("a written line is there")[here].fill(self.stores);
            self.flat[flat].fill(self.stores);
        } else {
            let from = self.table.read(line);
            self.bytes.apply(&mut self.table.moves);
            assert_eq!(self.bytes.cache[&from][here], self.flat[flat], "{r:?}");
        }
    }

    fn copy(&mut self, src: Ref, dst: Ref) {
        if is_whole(&src, &dst) {
            for i in 0..u64::from(dst.bytes) / LINE_BYTES {
                self.by_table += 1;
                let line = |r: &Ref| Line(r.offset / LINE_BYTES + i);
                self.table.copy(line(&src), line(&dst));
                self.bytes.apply(&mut self.table.moves);
            }
        } else {
            // Software. References carry no data, so the byte goes over here.
            for i in 0..u64::from(dst.bytes) {
                let (s, d) = (Addr(src.offset + i), Addr(dst.offset + i));
                let from = self.table.read(s.line());
                self.bytes.apply(&mut self.table.moves);
                let byte = self.bytes.cache[&from][(s.0 % LINE_BYTES) as usize];
                self.table.write(d.line());
                self.bytes.apply(&mut self.table.moves);
                self.bytes.cache.get_mut(&d.line()).expect("a written line is there")[(d.0 % LINE_BYTES) as usize] =
                    byte;
            }
        }
        let from = src.offset as usize;
        self.flat.copy_within(from..from + usize::from(dst.bytes), dst.offset as usize);
    }
}

/// What the table can take: whole lines.
fn is_whole(src: &Ref, dst: &Ref) -> bool {
    (src.offset | dst.offset | u64::from(dst.bytes)).is_multiple_of(LINE_BYTES)
}

#[derive(Clone, Debug)]
enum Op {
    Touch(Ref),
    Copy(Ref, Ref),
}

fn operation() -> impl Strategy<Value = Op> {
    let region = RegionId::FIRST_TABLE;
    let touch = (0..SPACE, 1u16..=64, any::<bool>()).prop_map(move |(at, bytes, write)| {
        let bytes = bytes.min((LINE_BYTES - at % LINE_BYTES) as u16);
        Op::Touch(if write { Ref::store(region, at, bytes, 0) } else { Ref::load(region, at, bytes, 0) })
    });
    // From one half of memory to the other: source and target do not overlap, as memcpy wants it.
    let half = SPACE / 2;
    let copy = (0..half - 192, 0..half - 192, 1u16..=192, prop::bool::weighted(0.8), any::<bool>()).prop_map(
        move |(a, b, bytes, whole, back)| {
            let unit = if whole { LINE_BYTES } else { 1 };
            let bytes = bytes.next_multiple_of(unit as u16);
            let (a, b) = (a / unit * unit, b / unit * unit + half);
            let (src, dst) = if back { (b, a) } else { (a, b) };
            Op::Copy(Ref::load(region, src, bytes, 1), Ref::store(region, dst, bytes, 1))
        },
    );
    prop_oneof![2 => touch, 1 => copy]
}

proptest! {
    #[test]
    fn copy_table_matches_flat_memory(ops in prop::collection::vec(operation(), 1..200), sets in 1usize..12, ways in 1usize..4) {
        let memory: Vec<u8> = (0..SPACE).map(|i| (i * 7 + i / 64) as u8).collect();
        let mut record = Record::new();
        for op in ops {
            match op {
                Op::Touch(r) => record.touch(r),
                Op::Copy(src, dst) => record.copy(src, dst),
            }
        }
        let table = CopyTable::new(sets, ways);
        let bytes = Bytes { memory: memory.clone(), cache: HashMap::new() };
        let mut twins = Twins { table, bytes, flat: memory, stores: 0, by_table: 0 };
        record.replay(&mut twins);
        prop_assert!(twins.table.is_consistent());
        for line in 0..SPACE / LINE_BYTES {
            twins.touch(Ref::load(RegionId::FIRST_TABLE, line * LINE_BYTES, 64, 0));
        }
        let whole = |e: Event| matches!(e, Event::Copy { src, dst } if is_whole(&src, &dst));
        prop_assert_eq!(twins.by_table > 0, record.iter().any(whole));
    }
}
