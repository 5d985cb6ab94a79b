//! Copy engines on the server's memory: unloaded, against times added up by hand, and against flat memory.

use engine::Seed;
use probe::{Access, Request};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use units::{Addr, Cbm, Clos, CoreId, Line, Ps, Rate, Size, Span, Ticket};

use super::{
    ApplicationSpec, Coherence, CopyEngineSpec, EngineCounters, EngineNotice, Hierarchy, HomeSocket, Inclusion,
    Interconnect, LlcSpec, MemoryReply, MemorySpec, MesiState, SocketsSpec, StackedTablesSpec, Transaction, Ways,
};
use crate::cache::CacheSpec;
use crate::copy_table::{Move, Retires};
use crate::dram::{ControllerSetting, DramSpec, PagePolicy};
use crate::{MachineError, Memory, Reply, Response, Served};

const NS: u64 = 1_000;
/// Rows of 32 lines lie in banks in turn: these two are in different banks.
const SRC: u64 = 0;
const DST: u64 = 4 * 2048;
/// Closed bank: overhead, row, column, burst.
const MISS: u64 = 20 + 14 + 14 + 3;
/// Open row.
const HIT: u64 = 20 + 14 + 3;

pub(super) fn spec(engine: CopyEngineSpec, io_ways: u32) -> MemorySpec {
    let ns = Span::from_ns;
    let cache =
        |lines: u64, ways: u32, latency| CacheSpec { size: Size::from_bytes(lines * 64), ways, latency: ns(latency) };
    MemorySpec {
        l1: cache(32, 4, 1.0),
        l2: cache(64, 4, 4.0),
        tlb: None,
        prefetcher: None,
        waiting_prefetches: 0,
        llc: LlcSpec {
            size: Size::from_bytes(256 * 64),
            ways: 4,
            latency: ns(20.0),
            slices: 1,
            hash: Default::default(),
            interval: ns(0.0),
            interconnect: None,
            inclusion: Inclusion::NonInclusive,
            replacement: Default::default(),
            core_age: 2,
            io_age: 3,
            core_ways: None,
            io_ways: Ways::Mask(Cbm(io_ways)),
            inclusive_ways: None,
            snoop: ns(10.0),
            coherence: Default::default(),
            tenants: None,
        },
        dram: DramSpec {
            standard: None,
            currents: None,
            page: PagePolicy::Open,
            channels: 1,
            banks: 8,
            row: Size::from_bytes(2048),
            t_cl: ns(14.0),
            t_rcd: ns(14.0),
            t_rp: ns(14.0),
            t_ras: ns(32.0),
            t_burst: ns(3.0),
            // Far from what is measured.
            t_refi: ns(1e9),
            t_rfc: ns(350.0),
            overhead: ns(20.0),
            all_hits: false,
            controller: None,
        },
        copy_table: None,
        copy_engine: Some(engine),
    }
}

fn with(engine: CopyEngineSpec) -> Hierarchy {
    Hierarchy::new(&spec(engine, 0b0011), 2, "machine").unwrap()
}

fn request(addr: u64, bytes: u16, access: Access) -> Request {
    Request { addr: Addr(addr), bytes, site: 0, access, clos: Clos(0), core: CoreId(0), mapping: 0 }
}

fn copy(memory: &mut Hierarchy, bytes: u16, now: Ps) -> Response {
    let (src, dst) = (request(SRC, bytes, Access::Load), request(DST, bytes, Access::Store));
    assert!(memory.takes_copy(&src, &dst));
    let Reply::Done(response) = memory.copy(&src, &dst, now) else { panic!("an engine answers at once") };
    assert_eq!(response.path.total(), response.at - now, "the parts sum to the time");
    response
}

/// Long after all that went before.
fn later(n: u64) -> Ps {
    Ps(n * 1_000_000 * NS)
}

fn dma(notice: EngineNotice) -> CopyEngineSpec {
    CopyEngineSpec::Dma { setup: Span::from_ns(100.0), rate: Rate::from_gbps(512.0), notice, saves: 0 }
}

fn controller(retires: Retires) -> CopyEngineSpec {
    CopyEngineSpec::Controller { retires, setup: Span::from_ns(10.0), saves: 0 }
}

#[test]
fn non_temporal_stores_wait_for_their_load_and_leave_the_target_in_no_cache() {
    let mut memory = with(CopyEngineSpec::NonTemporal);
    assert!(!memory.takes_whole_copies() && !memory.copies_hold());
    memory.access(&request(DST, 8, Access::Load), later(1));
    let at = copy(&mut memory, 64, later(2)).at - later(2);
    assert_eq!(at, Ps((20 + MISS) * NS));
    assert_eq!(copy(&mut memory, 64, later(3)).at - later(3), Ps(NS), "the source is in L1");
    let read = memory.access(&request(DST, 8, Access::Load), later(4));
    assert_eq!(read.served, Served::Dram);
    let counters = memory.engine_counters();
    assert_eq!((counters.copies, counters.lines, counters.cleaned), (2, 2, 0));
}

#[test]
fn a_partial_line_beyond_the_caches_saves_what_they_had_modified() {
    let mut memory = with(CopyEngineSpec::NonTemporal);
    memory.access(&request(DST, 8, Access::Store), later(1));
    copy(&mut memory, 8, later(2));
    assert_eq!(memory.counters().writebacks, 1);
    memory.access(&request(DST, 8, Access::Store), later(3));
    copy(&mut memory, 64, later(4));
    assert_eq!(memory.counters().writebacks, 1, "all of it is overwritten");
}

#[test]
fn a_controller_streams_from_dram_and_the_core_waits_as_its_kind_says() {
    // A closed bank for the first line, an open row for the second, a bus for both.
    let done = 10 + MISS + 3;
    for (retires, waits, holds) in
        [(Retires::Sync, done, true), (Retires::SyncBypass, done, false), (Retires::Async, 10, false)]
    {
        let mut memory = with(controller(retires));
        let response = copy(&mut memory, 128, later(1));
        assert_eq!(response.at - later(1), Ps(waits * NS), "{retires:?}");
        assert_eq!((memory.takes_whole_copies(), memory.copies_hold()), (true, holds));
        assert_eq!(memory.dram().counters().writes, 2);
    }
}

#[test]
fn a_controller_writes_what_caches_have_of_the_source_first_and_they_keep_it_clean() {
    let mut memory = with(controller(Retires::Sync));
    memory.access(&request(SRC, 8, Access::Store), later(1));
    memory.access(&request(DST, 8, Access::Load), later(1));
    copy(&mut memory, 64, later(2));
    assert_eq!((memory.engine_counters().cleaned, memory.counters().writebacks), (1, 1));
    assert_eq!(memory.access(&request(SRC, 8, Access::Load), later(3)).served, Served::L1);
    assert_eq!(memory.access(&request(DST, 8, Access::Load), later(4)).served, Served::Dram);
    copy(&mut memory, 64, later(5));
    assert_eq!(memory.engine_counters().cleaned, 1, "it is clean");
}

#[test]
fn whoever_touches_the_target_of_an_asynchronous_copy_waits_for_it() {
    let mut memory = with(controller(Retires::Async));
    copy(&mut memory, 128, later(1));
    let read = memory.access(&request(DST + 64, 8, Access::Load), later(1) + Ps(11 * NS));
    let end = (10 + MISS + 3) * NS;
    // DRAM answers later than the copy ends; a read that DRAM answered before would wait until then.
    assert!(read.at >= later(1) + Ps(end));
    let mut memory = with(dma(EngineNotice::Interrupt { cost: Span::from_ns(2_000.0) }));
    let response = copy(&mut memory, 64, later(1));
    assert_eq!(response.at - later(1), Ps(2_100 * NS));
    let read = memory.access(&request(DST, 8, Access::Load), response.at);
    // LLC 20 ns and DRAM's read, the LLC's 20 ns for the write, and the interrupt.
    assert_eq!((read.served, read.at - later(1)), (Served::Llc, Ps((100 + 20 + MISS + 20 + 2_000) * NS)));
    assert_eq!(memory.engine_counters().waits, 1);
    let again = memory.access(&request(DST, 8, Access::Load), later(2));
    assert_eq!((again.served, memory.engine_counters().waits), (Served::L1, 1));
}

#[test]
fn a_polled_dma_engine_is_seen_at_the_poll_after_its_end() {
    let mut memory = with(dma(EngineNotice::Polling { period: Span::from_ns(50.0) }));
    // 20 + 51 + 20 ns of copying are seen at the second poll of 50.
    assert_eq!(copy(&mut memory, 64, later(1)).at - later(1), Ps((100 + 2 * 50) * NS));
    assert!(memory.copies_hold());
    // DDIO has the target in the LLC.
    assert_eq!(memory.access(&request(DST, 8, Access::Load), later(2)).served, Served::Llc);
}

#[test]
fn one_engine_makes_a_copy_after_the_other() {
    let mut memory = with(controller(Retires::Async));
    copy(&mut memory, 64, later(1));
    copy(&mut memory, 64, later(1));
    let first = 10 + MISS;
    let engine = memory.engine.as_mut().unwrap();
    assert_eq!(engine.under_way[0].2[0] - later(1), Ps(first * NS));
    // The second reads an open row, after the first.
    let last = engine.under_way[1].2[0];
    assert!(last >= later(1) + Ps((first + HIT) * NS), "{last:?}");
    assert_eq!(
        engine.until(Line(DST / 64), false, later(1), later(1)),
        Some(last),
        "both are on the line: the last counts"
    );
    assert_eq!(engine.until(Line(DST / 64 + 1), false, later(1), later(1)), None);
    assert_eq!(engine.until(Line(DST / 64), false, later(1), last), None, "it is there by then");
    // One that ends after a later one does not hide it.
    engine.under_way[0].2 = [later(3); 2];
    assert_eq!(engine.until(Line(DST / 64), false, last, last), Some(later(3)));
}

#[test]
fn a_device_that_reads_the_target_waits_for_the_data() {
    let mut memory = with(controller(Retires::Async));
    let idle = memory.dma_read(Line(DST / 64), 1, later(1)) - later(1);
    // One after the other, which takes longer than the read.
    copy(&mut memory, 64, later(2));
    copy(&mut memory, 64, later(2));
    let until = memory.engine.as_ref().unwrap().under_way[1].2[1];
    assert!(until > later(2) + idle);
    assert_eq!(memory.dma_read(Line(DST / 64), 1, later(2)), until);
    // Lines beside it are there; and afterwards nothing waits.
    assert!(memory.dma_read(Line(DST / 64 + 8), 1, later(3)) - later(3) <= Ps((20 + MISS) * NS));
    assert!(memory.dma_read(Line(DST / 64), 1, later(4)) - later(4) <= Ps((20 + MISS) * NS));

    // An interrupt takes the core's time, not the device's.
    let cost = Span::from_ns(10.0);
    let mut memory = with(dma(EngineNotice::Interrupt { cost }));
    copy(&mut memory, 64, later(1));
    let [told, there] = memory.engine.as_ref().unwrap().under_way[0].2;
    assert_eq!(told - there, cost.ps());
    assert_eq!(memory.dma_read(Line(DST / 64), 1, later(1)), there);
}

#[test]
fn errors_say_what_came() {
    let wrong = |memory: MemorySpec| -> MachineError { Hierarchy::new(&memory, 1, "machine").unwrap_err() };
    let mut both = spec(CopyEngineSpec::NonTemporal, 0b11);
    both.copy_table = Some(Default::default());
    assert_eq!(
        wrong(both).to_string(),
        "machine.copy_engine = given with machine.copy_table: allowed is one of them: both would take the same copies \
         (remove the other)"
    );
    let never = dma(EngineNotice::Polling { period: Span::from_ns(0.0) });
    assert!(wrong(spec(never, 0b11)).to_string().starts_with("machine.copy_engine.notice.period = "));
}

/// What stands beside an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    /// Half of the lines lie in stacked DRAM.
    Stack,
    /// Two receive queues have tails of three lines.
    Tails,
    /// Half of the lines are an application's that skips the LLC, owns a slice, has a way, or bypasses.
    Skips,
    Slice,
    Way,
    Bypasses,
    /// Two sockets, pages in turn.
    Sockets,
    Snooping,
    /// DRAM that answers later.
    Controllers,
}

/// Each of them, and what goes together.
const BESIDE: [&[Beside]; 28] = [
    &[],
    &[Beside::Stack],
    &[Beside::Tails],
    &[Beside::Skips],
    &[Beside::Slice],
    &[Beside::Way],
    &[Beside::Bypasses],
    &[Beside::Sockets],
    &[Beside::Snooping],
    &[Beside::Stack, Beside::Tails],
    &[Beside::Stack, Beside::Skips],
    &[Beside::Stack, Beside::Snooping],
    &[Beside::Tails, Beside::Snooping],
    &[Beside::Skips, Beside::Snooping],
    &[Beside::Slice, Beside::Stack, Beside::Snooping],
    &[Beside::Sockets, Beside::Stack],
    &[Beside::Sockets, Beside::Tails],
    &[Beside::Sockets, Beside::Skips],
    &[Beside::Sockets, Beside::Bypasses],
    &[Beside::Sockets, Beside::Slice, Beside::Tails],
    &[Beside::Sockets, Beside::Stack, Beside::Skips, Beside::Tails],
    &[Beside::Controllers],
    &[Beside::Controllers, Beside::Sockets],
    &[Beside::Controllers, Beside::Tails],
    &[Beside::Controllers, Beside::Snooping],
    &[Beside::Controllers, Beside::Stack],
    &[Beside::Controllers, Beside::Skips],
    &[Beside::Controllers, Beside::Sockets, Beside::Stack, Beside::Bypasses, Beside::Tails],
];
const LINES: u64 = 48;
const CORES: u16 = 4;

/// Four lines of each page, which lie in sets of their own.
fn place(line: u64) -> Line {
    Line(line / 4 * 65 + line % 4)
}

fn small(engine: CopyEngineSpec, inclusion: Inclusion, io_ways: u32, beside: &[Beside]) -> Hierarchy {
    let mut spec = spec(engine, io_ways);
    let size = |lines: u64| Size::from_bytes(lines * 64);
    (spec.l1.size, spec.l1.ways, spec.l2.size, spec.l2.ways) = (size(2), 1, size(4), 2);
    (spec.llc.size, spec.llc.slices, spec.llc.inclusion) = (size(16), 2, inclusion);
    if beside.contains(&Beside::Snooping) {
        spec.llc.coherence = Coherence::Snoop;
        spec.llc.interconnect =
            Some(Interconnect::Ring { hop: Span::from_ns(0.5), interval: Some(Span::from_ns(1.0)), device: 1 });
    }
    if beside.contains(&Beside::Controllers) {
        spec.dram = controlled();
    }
    let mut memory = Hierarchy::new(&spec, u32::from(CORES), "machine").unwrap();
    let half = || std::iter::once(0..place(LINES / 2).0).collect();
    let apart = |memory: &mut Hierarchy, application: ApplicationSpec| {
        memory.tell_apart(&[("tables", &application)], &[half()], "machine.applications").unwrap();
    };
    for other in beside {
        match other {
            Beside::Snooping | Beside::Controllers => {}
            Beside::Stack => {
                memory.put_into_stack(&StackedTablesSpec::default(), half(), Seed(0), "machine.stacked").unwrap();
            }
            Beside::Tails => memory.hold_tails(3, 2, "nic.cache_cells").unwrap(),
            Beside::Skips => apart(&mut memory, ApplicationSpec { llc: false, ..ApplicationSpec::default() }),
            Beside::Slice => apart(&mut memory, ApplicationSpec { slices: Some(1), ..ApplicationSpec::default() }),
            Beside::Way => {
                apart(&mut memory, ApplicationSpec { ways: Some(Ways::Count(1)), ..ApplicationSpec::default() });
            }
            Beside::Bypasses => apart(&mut memory, ApplicationSpec { bypass: true, ..ApplicationSpec::default() }),
            Beside::Sockets => {
                memory.on_sockets(&two_sockets(HomeSocket::Interleaved), &spec, &[], "machine").unwrap();
            }
        }
    }
    memory
}

fn two_sockets(memory: HomeSocket) -> SocketsSpec {
    SocketsSpec {
        count: 2,
        cores: Vec::new(),
        nic: 0,
        hop: Span::from_ns(40.0),
        // 16 bytes in 0.8 ns, 80 in 4 ns.
        rate: Rate::from_gbps(160.0),
        memory,
        regions: Default::default(),
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Read(u16, u64),
    Write(u16, u64),
    /// Of so many lines, the last one whole or not.
    Copy(u16, u64, u64, u64, bool),
    DeviceWrite(usize, u64),
    DeviceRead(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let (core, line) = (0..CORES, 0..LINES);
    prop_oneof![
        6 => (core.clone(), line.clone()).prop_map(|(c, l)| Op::Read(c, l)),
        3 => (core.clone(), line.clone()).prop_map(|(c, l)| Op::Write(c, l)),
        4 => (core, line.clone(), line.clone(), 1u64..4, any::<bool>())
            .prop_map(|(c, a, b, n, whole)| Op::Copy(c, a, b, n, whole)),
        3 => (0usize..2, line.clone()).prop_map(|(queue, line)| Op::DeviceWrite(queue, line)),
        2 => line.prop_map(Op::DeviceRead),
    ]
}

/// Versions instead of bytes, by line: each write makes a new one.
struct Twin {
    memory: Hierarchy,
    beside: &'static [Beside],
    /// What flat memory has.
    flat: Vec<u64>,
    /// What caches have, where they have the line: they are coherent, so all the same.
    cached: Vec<u64>,
    /// What tails have, where they have the line.
    tails: Vec<u64>,
    /// What memory has.
    dram: Vec<u64>,
    writes: u64,
    now: Ps,
    /// What was read, and what flat memory has.
    read: Vec<(u64, u64)>,
}

impl Twin {
    fn new(memory: Hierarchy, beside: &'static [Beside]) -> Twin {
        let first: Vec<u64> = (0..=place(LINES).0).collect();
        let nothing = vec![u64::MAX; first.len()];
        let writes = first.len() as u64;
        Twin {
            memory,
            beside,
            cached: nothing.clone(),
            tails: nothing,
            dram: first.clone(),
            flat: first,
            writes,
            now: Ps::ZERO,
            read: Vec::new(),
        }
    }

    fn new_version(&mut self, line: usize) -> u64 {
        self.writes += 1;
        self.flat[line] = self.writes;
        self.writes
    }

    /// Brings memory up to date with what the memory system says it has written.
    fn apply_writes(&mut self) {
        for moved in std::mem::take(&mut self.memory.log) {
            if let Move::WriteBack(line) = moved {
                self.dram[line.0 as usize] = self.cached[line.0 as usize];
            }
        }
        if let Some(tails) = &mut self.memory.behind.tails {
            for line in std::mem::take(&mut tails.log) {
                self.dram[line.0 as usize] = self.tails[line.0 as usize];
            }
        }
    }

    /// Whether an LLC has `line`.
    fn in_an_llc(&self, line: Line) -> bool {
        self.memory.llcs().any(|llc| llc.has(llc.spot(line)))
    }

    fn is_cached(&self, line: Line) -> bool {
        let mut arrays = self.memory.cores.iter().flat_map(|core| [&core.l1, &core.l2]);
        self.in_an_llc(line) || arrays.any(|array| array.find(line).is_some())
    }

    /// What is behind the caches.
    fn behind(&self, line: Line, in_tail: bool) -> u64 {
        if in_tail { self.tails[line.0 as usize] } else { self.dram[line.0 as usize] }
    }

    /// What a core gets of `line`, by who has served it.
    fn access(&mut self, core: u16, line: Line, access: Access) -> u64 {
        let (elsewhere, in_tail) = (self.in_an_llc(line), self.memory.behind.tail_has(line));
        let request = Request { core: CoreId(core), ..request(line.0 * 64, 8, access) };
        let response = self.memory.access(&request, self.now);
        assert_eq!(response.path.total(), response.at - self.now, "the parts sum to the time");
        self.apply_writes();
        // The LLC of another socket answers as DRAM does.
        let from_cache = response.served != Served::Dram || elsewhere && self.beside.contains(&Beside::Sockets);
        let got = if from_cache { self.cached[line.0 as usize] } else { self.behind(line, in_tail) };
        self.cached[line.0 as usize] = got;
        got
    }

    /// What a device gets of `line`.
    fn device_read(&self, line: Line) -> u64 {
        if self.is_cached(line) {
            return self.cached[line.0 as usize];
        }
        self.behind(line, self.memory.behind.tail_has(line))
    }

    /// Whether what a device writes of `line` comes into the LLC.
    fn is_placed(&self, line: Line) -> bool {
        self.memory.io_ways.0 != 0 && !(self.beside.contains(&Beside::Skips) && line.0 < place(LINES / 2).0)
    }

    fn device_write(&mut self, queue: usize, line: Line) {
        let at = line.0 as usize;
        let version = self.new_version(at);
        let is_placed = self.is_placed(line);
        if is_placed {
            self.cached[at] = version;
        }
        self.tails[at] = version;
        self.memory.dma_write_packet(queue, line, 1, self.now);
        self.apply_writes();
        if !is_placed && !self.memory.behind.tail_has(line) {
            self.dram[at] = version;
        }
    }

    /// Whoever makes it, `got` came of the lines from `src` on, and the last one of the target is written as a whole or not.
    fn copied(&mut self, got: &[u64], src: Line, dst: Line, is_whole: bool) {
        let flat: Vec<u64> = (0..got.len()).map(|i| self.flat[src.0 as usize + i]).collect();
        for (i, (&got, &wanted)) in got.iter().zip(&flat).enumerate() {
            self.read.push((got, wanted));
            let (line, at) = (Line(dst.0 + i as u64), dst.0 as usize + i);
            let past_caches = !matches!(self.memory.engine.as_ref().unwrap().spec(), CopyEngineSpec::Dma { .. });
            let is_stale = past_caches && self.is_cached(line) || self.memory.behind.tail_has(line);
            assert!(!is_stale, "{line:?} is out of date");
            let version = if is_whole || i + 1 < flat.len() {
                self.flat[at] = wanted;
                got
            } else {
                // The rest of the line has to be right.
                self.read.push((self.dram[at], self.flat[at]));
                self.new_version(at)
            };
            match !past_caches && self.is_placed(line) {
                true => self.cached[at] = version,
                false => self.dram[at] = version,
            }
        }
    }

    fn make_copy(&mut self, load: &Request, store: &Request) {
        let reply = self.memory.copy(load, store, self.now);
        let response = self.memory.answered(reply, self.now);
        assert_eq!(response.path.total(), response.at - self.now, "the parts sum to the time");
        self.apply_writes();
    }

    fn copy(&mut self, core: u16, src: Line, dst: Line, lines: u64, is_whole: bool) {
        let engine = self.memory.engine.as_ref().unwrap().spec().clone();
        let is_whole = is_whole || matches!(engine, CopyEngineSpec::Dma { .. });
        let bytes = (lines * 64) as u16 - if is_whole { 0 } else { 8 };
        let of = |line: Line, access| Request { core: CoreId(core), ..request(line.0 * 64, bytes, access) };
        let (load, store) = (of(src, Access::Load), of(dst, Access::Store));
        let sources = (src.0..src.0 + lines).map(Line);
        let got: Vec<u64> = match engine {
            CopyEngineSpec::NonTemporal => {
                // Its load, once more than the engine makes it: that hits.
                let got = self.access(core, src, Access::Load);
                self.make_copy(&load, &store);
                vec![got]
            }
            CopyEngineSpec::Dma { .. } => {
                let got: Vec<u64> = sources.map(|line| self.device_read(line)).collect();
                for (i, &version) in got.iter().enumerate() {
                    let line = Line(dst.0 + i as u64);
                    if self.is_placed(line) {
                        self.cached[line.0 as usize] = version;
                    }
                }
                self.make_copy(&load, &store);
                got
            }
            CopyEngineSpec::Controller { .. } => {
                self.make_copy(&load, &store);
                sources.map(|line| self.dram[line.0 as usize]).collect()
            }
        };
        self.copied(&got, src, dst, is_whole);
    }

    fn apply(&mut self, op: Op) {
        self.now += Ps::from_ns(500);
        match op {
            Op::Read(core, line) => {
                let line = place(line);
                let got = self.access(core, line, Access::Load);
                self.read.push((got, self.flat[line.0 as usize]));
            }
            Op::Write(core, line) => {
                let line = place(line);
                // Of a part of the line: the rest has to be right.
                let got = self.access(core, line, Access::Store);
                self.read.push((got, self.flat[line.0 as usize]));
                self.cached[line.0 as usize] = self.new_version(line.0 as usize);
            }
            Op::Copy(core, src, dst, lines, is_whole) => {
                // Lines of a page follow each other.
                let lines = if self.memory.takes_whole_copies() { lines } else { 1 };
                let first = |line: u64| place(line - (line % 4 + lines).saturating_sub(4));
                self.copy(core, first(src), first(dst), lines, is_whole);
            }
            Op::DeviceWrite(queue, line) => self.device_write(queue, place(line)),
            Op::DeviceRead(line) => {
                let line = place(line);
                let in_tail = self.memory.behind.tail_has(line);
                self.read.push((self.device_read(line), self.flat[line.0 as usize]));
                self.memory.dma_read(line, 1, self.now);
                self.apply_writes();
                if in_tail {
                    // What was sent is not wanted again: its place is for another packet.
                    self.device_write(0, line);
                }
            }
        }
        if let Some(t) = self.memory.tails() {
            assert_eq!(t.written, t.gathered + t.bypassed + t.replaced + self.memory.tail_lines(), "{t:?}");
        }
    }
}

fn engine_of() -> impl Strategy<Value = CopyEngineSpec> {
    prop::sample::select(vec![
        CopyEngineSpec::NonTemporal,
        dma(EngineNotice::Interrupt { cost: Span::from_ns(10.0) }),
        dma(EngineNotice::default()),
        controller(Retires::Async),
    ])
}

fn no_line_is_stale(
    engine: CopyEngineSpec,
    inclusion: Inclusion,
    io_ways: u32,
    beside: &'static [Beside],
    ops: &[Op],
) -> Result<(), TestCaseError> {
    let mut twin = Twin::new(small(engine, inclusion, io_ways, beside), beside);
    for (i, &op) in ops.iter().enumerate() {
        twin.apply(op);
        for (got, wanted) in twin.read.drain(..) {
            prop_assert_eq!(got, wanted, "{} {:?}", i, op);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn with_copy_engines_every_reader_gets_what_flat_memory_has(
        ops in prop::collection::vec(op(), 1..300),
        engine in engine_of(),
        inclusion in prop::sample::select(vec![Inclusion::NonInclusive, Inclusion::Inclusive, Inclusion::Victim]),
        io_ways in prop::sample::select(vec![0u32, 0b1100]),
        beside in prop::sample::select(BESIDE.to_vec()),
    ) {
        // An inclusive LLC has all that its private caches have.
        let leaves_out = [Beside::Skips, Beside::Bypasses].iter().any(|other| beside.contains(other));
        let inclusion = if leaves_out && inclusion == Inclusion::Inclusive { Inclusion::Victim } else { inclusion };
        // An engine in the controllers is not beside some that answer later.
        let ends_later = beside.contains(&Beside::Controllers) && matches!(engine, CopyEngineSpec::Controller { .. });
        let engine = if ends_later { dma(EngineNotice::default()) } else { engine };
        no_line_is_stale(engine, inclusion, io_ways, beside, &ops)?;
    }
}

/// DRAM with controllers.
fn controlled() -> DramSpec {
    let spec = DramSpec::of_standard("ddr4-2400u", Span::from_ns(20.0)).unwrap();
    DramSpec { controller: Some(ControllerSetting::default()), ..spec }
}

fn behind_controllers(engine: CopyEngineSpec) -> Hierarchy {
    Hierarchy::new(&MemorySpec { dram: controlled(), ..spec(engine, 0b0011) }, 2, "machine").unwrap()
}

/// All answers that are to come.
fn answers(memory: &mut Hierarchy) -> Vec<MemoryReply> {
    let mut all = Vec::new();
    while let Some(at) = memory.next() {
        memory.advance(at, &mut all);
    }
    all
}

/// Lines that a device asks for: under what it is answered.
fn device_read(memory: &mut Hierarchy, first: u64, count: u64, now: Ps) -> Transaction {
    memory.open();
    let at = memory.dma_read(Line(first), count, now);
    memory.close(at).unwrap_err()
}

#[test]
fn who_wants_a_line_of_a_copy_whose_source_controllers_read_waits_for_its_end() {
    let (now, cost, period) = (later(1), Ps(10 * NS), Ps(20 * NS));
    let start = now + Ps(100 * NS);
    let mut alone = behind_controllers(dma(EngineNotice::default()));
    device_read(&mut alone, SRC / 64, 4, start);
    let [MemoryReply::Device(_, read)] = answers(&mut alone)[..] else { panic!("one answer") };
    // The target is in the LLC as long after the source has been read as that takes.
    let data = read + Ps(20 * NS);
    for polls in [false, true] {
        let interrupt = EngineNotice::Interrupt { cost: Span::from_ns(10.0) };
        let mut memory = behind_controllers(dma(if polls { EngineNotice::default() } else { interrupt }));
        let reply = memory.copy(&request(SRC, 256, Access::Load), &request(DST, 256, Access::Store), now);
        let other = Request { core: CoreId(1), ..request(DST + 192, 8, Access::Load) };
        let lookup = memory.lookup(&other);
        let asked = now + Ps(50 * NS);
        let Reply::Pending(ticket) = memory.fetch(&other, &lookup, asked) else { panic!("it is not known") };
        let transaction = device_read(&mut memory, DST / 64, 1, asked);
        let all = answers(&mut memory);
        let of = |wanted: Ticket| {
            all.iter().find_map(|answer| match answer {
                MemoryReply::Core(_, answered, response) if *answered == wanted => Some(*response),
                _ => None,
            })
        };
        let there = of(ticket).unwrap();
        assert_eq!(there.path.total(), there.at - asked, "the parts sum to the time");
        // An interrupt takes the core's time, not the device's.
        assert_eq!(there.at, data + if polls { Ps::ZERO } else { cost });
        assert!(all.contains(&MemoryReply::Device(transaction, data)), "{all:?} {data:?}");
        match reply {
            Reply::Pending(own) => {
                let own = of(own).unwrap();
                assert!(polls && own.at >= data && own.at < data + period, "{own:?} {data:?}");
                assert_eq!((own.at - start).0 % period.0, 0);
                assert_eq!(own.path.total(), own.at - now);
            }
            Reply::Done(own) => assert!(!polls && own.at == start + cost, "{own:?}"),
        }
        assert_eq!(memory.engine_counters(), EngineCounters { copies: 1, lines: 4, cleaned: 0, waits: 2 });
        // Whoever comes once the end is known, and before it, waits as well.
        assert_eq!(memory.dma_read(Line(DST / 64 + 1), 1, data - Ps(21 * NS)), data);
        assert_eq!(memory.dram_counters().reads, 4);
    }
}

#[test]
fn a_non_temporal_store_is_written_once_controllers_have_read_its_source() {
    let mut memory = behind_controllers(CopyEngineSpec::NonTemporal);
    let reply = memory.copy(&request(SRC, 64, Access::Load), &request(DST, 64, Access::Store), later(1));
    assert!(matches!(reply, Reply::Pending(_)));
    let before = memory.next().unwrap();
    assert_eq!(answers(&mut memory).len(), 1);
    let counted = memory.dram_counters();
    assert_eq!((counted.reads, counted.writes), (1, 1));
    let report = memory.dram_report(later(2)).unwrap();
    assert!(before > later(1), "{report:?}");
    let (loaded, store) = (request(SRC, 64, Access::Load), request(DST + 64, 64, Access::Store));
    // What is there is not waited for.
    assert!(matches!(memory.copy(&loaded, &store, later(2)), Reply::Done(_)));
}

/// When each of `tickets` is answered.
fn times(all: &[MemoryReply], tickets: &[Ticket]) -> Vec<Ps> {
    let of = |wanted: &Ticket| {
        all.iter().find_map(|answer| match answer {
            MemoryReply::Core(_, answered, response) if answered == wanted => Some(response.at),
            _ => None,
        })
    };
    tickets.iter().map(|ticket| of(ticket).unwrap()).collect()
}

/// A core hands over a copy of `lines` lines, and is told its end later.
fn hand_over(memory: &mut Hierarchy, core: u16, src: u64, dst: u64, lines: u16, now: Ps) -> Ticket {
    let of = |addr, access| Request { core: CoreId(core), ..request(addr, 64 * lines, access) };
    let Reply::Pending(ticket) = memory.copy(&of(src, Access::Load), &of(dst, Access::Store), now) else {
        panic!("controllers answer later")
    };
    ticket
}

/// DDR4-2400, where requests wait for the next clock.
const CLOCK: Ps = Ps(834);

#[test]
fn an_engine_in_controllers_that_answer_later_makes_a_copy_after_the_other() {
    let now = later(1);
    let start = now + Ps(10 * NS);
    let mut alone = behind_controllers(sync());
    device_read(&mut alone, SRC / 64, 8, start - Ps(20 * NS));
    let [MemoryReply::Device(_, read)] = answers(&mut alone)[..] else { panic!("one answer") };
    let mut memory = behind_controllers(sync());
    memory.access(&request(SRC + 4096 + 64, 8, Access::Store), later(0));
    let tickets = [SRC, SRC + 4096].map(|src| hand_over(&mut memory, 0, src, DST + src, 8, now));
    let all = answers(&mut memory);
    let [first, second] = times(&all, &tickets)[..] else { panic!("two copies") };
    assert!(first.0.abs_diff(read.0) <= CLOCK.0, "{first:?} {read:?}");
    // The second finds a row open, and a line that is written before it is read.
    let (took, alone) = (second - first, read - start);
    assert!(took > alone / 2 && took < alone * 2, "{took:?} {alone:?}");
    assert_eq!(memory.engine_counters(), EngineCounters { copies: 2, lines: 16, cleaned: 1, waits: 0 });
    let counted = memory.dram_counters();
    assert_eq!((counted.reads, counted.writes), (17, 17), "a line was stored to, and then cleaned");
}

#[test]
fn who_wants_a_line_of_an_asynchronous_copy_waits_for_it_and_its_core_does_not() {
    let mut memory = behind_controllers(controller(Retires::Async));
    let (src, dst) = (request(SRC, 256, Access::Load), request(DST, 256, Access::Store));
    for queued in [SRC + 8192, SRC] {
        let reply = memory.copy(&Request { addr: Addr(queued), ..src }, &dst, later(1));
        assert!(matches!(reply, Reply::Done(response) if response.at == later(1) + Ps(10 * NS)));
    }
    let asked = later(1) + Ps(20 * NS);
    let other = Request { core: CoreId(1), ..request(DST + 192, 8, Access::Load) };
    let lookup = memory.lookup(&other);
    let Reply::Pending(ticket) = memory.fetch(&other, &lookup, asked) else { panic!("it is not known") };
    let transaction = device_read(&mut memory, DST / 64, 1, asked);
    let all = answers(&mut memory);
    let MemoryReply::Core(_, answered, there) = all[all.len() - 2] else { panic!("{all:?}") };
    assert_eq!(answered, ticket);
    assert_eq!(there.path.total(), there.at - asked, "the parts sum to the time");
    assert_eq!(all.last(), Some(&MemoryReply::Device(transaction, there.at)), "both wait for the second copy");
    let engine = memory.engine.as_ref().unwrap();
    assert!(engine.free_from(0) == there.at && engine.under_way.iter().any(|&(.., [until, _])| until < there.at));
    assert_eq!((memory.engine_counters().waits, memory.dram_counters().reads), (2, 8));
}

/// Engines of two sockets, of which each copies from where the other copies to.
#[test]
fn a_copy_waits_for_those_before_it_that_write_its_source_and_for_none_after_it() {
    let spec = MemorySpec { dram: controlled(), ..spec(sync(), 0b0011) };
    let mut memory = Hierarchy::new(&spec, 2, "machine").unwrap();
    memory.on_sockets(&two_sockets(HomeSocket::Interleaved), &spec, &[], "machine").unwrap();
    let [a, b, c, d] = [0, 4096, 8192, 12288];
    let now = later(1);
    let tickets = [
        hand_over(&mut memory, 0, c + 2048, d + 2048, 16, now),
        // Behind it, and begins when the next two have been handed over.
        hand_over(&mut memory, 0, a, b, 1, now),
        hand_over(&mut memory, 1, b, c, 1, now),
        hand_over(&mut memory, 1, d, a, 1, now),
    ];
    let [long, queued, after, last] = times(&answers(&mut memory), &tickets)[..] else { panic!("four copies") };
    assert!(queued > long && after > queued && last > after, "{long:?} {queued:?} {after:?} {last:?}");
    // The third has its line from the second.
    assert_eq!((memory.dram_counters().reads, memory.dram_counters().writes), (18, 19));
    assert_eq!(memory.next(), None);
}

#[test]
fn copies_that_are_handed_over_end_where_time_stands_still() {
    let mut memory = behind_controllers(sync());
    let tickets = [0u64, 1].map(|n| hand_over(&mut memory, 0, SRC + n * 4096, DST + n * 4096, 2, later(1)));
    memory.set_untimed(true);
    assert!(matches!(
        memory.copy(&request(SRC, 64, Access::Load), &request(DST, 64, Access::Store), later(2)),
        Reply::Done(_)
    ));
    let all = answers(&mut memory);
    assert_eq!(times(&all, &tickets).len(), 2);
    assert!(memory.behind.copies.is_idle());
}

/// What a core waits for the copy of a line, without the setup of an engine in the controllers.
fn copy_of(memory: &mut Hierarchy, core: u16, src: u64, dst: u64, now: Ps) -> u64 {
    let of = |addr, access| Request { core: CoreId(core), ..request(addr, 64, access) };
    let Reply::Done(response) = memory.copy(&of(src, Access::Load), &of(dst, Access::Store), now) else {
        panic!("an engine answers at once")
    };
    assert_eq!(response.path.total(), response.at - now, "the parts sum to the time");
    (response.at - now).0 - 10 * NS
}

fn sync() -> CopyEngineSpec {
    controller(Retires::Sync)
}

#[test]
fn lines_in_stacked_dram_are_copied_there() {
    let stacked = |engine| {
        let mut memory = with(engine);
        let lines = vec![SRC / 64..SRC / 64 + 1, DST / 64..DST / 64 + 1];
        memory.put_into_stack(&StackedTablesSpec::default(), lines, Seed(0), "machine.stacked").unwrap();
        memory
    };
    let read = stacked(sync()).behind.read_memory(Line(SRC / 64), later(1)) - later(1);
    let link = StackedTablesSpec::default().memory.link();
    let mut memory = stacked(sync());
    assert_eq!(copy_of(&mut memory, 0, SRC, DST, later(1)), (read + link).0, "there and, for the target, once more");
    let counters = memory.stack_counters().unwrap();
    assert_eq!((counters.reads, counters.writes), (1, 1));
    assert_eq!((memory.dram().counters().reads, memory.dram().counters().writes), (0, 0));
    // A modified source is written on all channels first.
    memory.access(&request(SRC, 8, Access::Store), later(2));
    copy_of(&mut memory, 0, SRC, DST + 64, later(3));
    assert_eq!((memory.stack_counters().unwrap().writes, memory.dram().counters().writes), (2, 1));
    let mut memory = stacked(dma(EngineNotice::Polling { period: Span::from_ns(50.0) }));
    copy_of(&mut memory, 0, SRC, DST, later(1));
    assert_eq!((memory.stack_counters().unwrap().reads, memory.dram().counters().reads), (1, 0));
}

#[test]
fn a_line_of_a_tail_is_in_dram_before_a_controller_reads_it() {
    let tailed = |engine| {
        let mut memory = Hierarchy::new(&spec(engine, 0), 2, "machine").unwrap();
        memory.hold_tails(4, 1, "nic.cache_cells").unwrap();
        memory.dma_write_packet(0, Line(SRC / 64), 1, later(1));
        memory.dma_write_packet(0, Line(DST / 64), 1, later(1));
        assert_eq!((memory.tail_lines(), memory.dram().counters().writes), (2, 0));
        memory
    };
    let mut memory = tailed(sync());
    // The bus has the write before the read.
    assert_eq!(copy_of(&mut memory, 0, SRC, DST, later(2)), (MISS + 3) * NS);
    let counters = memory.tails().unwrap();
    assert_eq!((counters.gathered, counters.replaced, memory.tail_lines()), (1, 1, 0));
    assert_eq!((memory.dram().counters().writes, memory.dram().counters().reads), (2, 1));
    // In part: what the tail has of the target goes first.
    let mut memory = tailed(sync());
    let of = |addr, access| request(addr, 56, access);
    let _ = memory.copy(&of(SRC, Access::Load), &of(DST, Access::Store), later(2));
    let counters = memory.tails().unwrap();
    assert_eq!((counters.gathered, counters.replaced, memory.dram().counters().writes), (2, 0, 3));

    // A DMA engine reads the tail, and the NIC sends the line afterwards.
    let mut memory = tailed(dma(EngineNotice::Polling { period: Span::from_ns(50.0) }));
    copy_of(&mut memory, 0, SRC, DST, later(2));
    let counters = memory.tails().unwrap();
    assert_eq!((counters.to_cores, counters.bypassed, counters.replaced), (1, 0, 1));
    assert_eq!(memory.dram().counters().reads, 0);
    memory.access(&request(SRC, 8, Access::Load), later(3));
    copy_of(&mut memory, 0, SRC, DST, later(4));
    assert_eq!(memory.tails().unwrap().to_cores, 2, "once more the core's load, and then a cache has it");
    memory.dma_read(Line(SRC / 64), 1, later(5));
    assert_eq!((memory.tails().unwrap().bypassed, memory.tail_lines()), (1, 0));
}

#[test]
fn copies_of_who_skips_the_llc_go_past_it() {
    let skipping = |engine| {
        let mut memory = with(engine);
        let skips = ApplicationSpec { llc: false, ..ApplicationSpec::default() };
        let all = std::iter::once(0..1 << 20).collect();
        memory.tell_apart(&[("tables", &skips)], &[all], "machine.applications").unwrap();
        memory
    };
    let mut memory = skipping(sync());
    memory.access(&request(SRC, 8, Access::Store), later(1));
    copy_of(&mut memory, 0, SRC, DST, later(2));
    assert_eq!((memory.engine_counters().cleaned, memory.counters().writebacks, memory.llc_occupancy()), (1, 1, 0));
    assert_eq!(memory.access(&request(SRC, 8, Access::Load), later(3)).served, Served::L1);
    // DDIO has no way for them.
    let interrupt = EngineNotice::Interrupt { cost: Span::from_ns(2_000.0) };
    let mut memory = skipping(dma(interrupt));
    copy_of(&mut memory, 0, SRC, DST, later(1));
    assert_eq!((memory.llc_occupancy(), memory.dram().counters().writes), (0, 1));
    // Who reads it past the LLC waits for the word that it is there, too.
    let until = memory.engine.as_ref().unwrap().under_way[0].2[0];
    let read = memory.access(&request(DST, 8, Access::Load), later(1) + Ps(200 * NS));
    assert_eq!((read.at, memory.engine_counters().waits), (until, 1));
    assert_eq!(read.path.total(), read.at - later(1) - Ps(200 * NS));
}

/// Two cores, each on a socket of its own; one way, and there and back with a line.
fn on_two(engine: CopyEngineSpec, home: HomeSocket) -> Hierarchy {
    let spec = spec(engine, 0b0011);
    let mut memory = Hierarchy::new(&spec, 2, "machine").unwrap();
    memory.on_sockets(&two_sockets(home), &spec, &[], "machine").unwrap();
    memory
}

const HOP: u64 = 40_000;
const MESSAGE: u64 = 800;
const DATA: u64 = 4_000;
const ROUND: u64 = 2 * HOP + MESSAGE + DATA;

#[test]
fn a_copy_of_what_is_homed_at_another_socket_takes_the_link() {
    // Pages of 4 KiB: SRC, and what is 8 KiB behind it, are at home at socket 0, a page more is at socket 1.
    let far = 4096;
    let mut memory = on_two(sync(), HomeSocket::Interleaved);
    assert_eq!(copy_of(&mut memory, 0, SRC, DST, later(1)), MISS * NS);
    assert!(memory.socket_counters().unwrap().links.iter().all(|(.., link)| link.bytes == 0));
    assert_eq!(copy_of(&mut memory, 0, SRC + far, DST, later(2)), MISS * NS + ROUND);
    let mut memory = on_two(sync(), HomeSocket::Interleaved);
    assert_eq!(copy_of(&mut memory, 0, SRC, DST + far, later(1)), MISS * NS + HOP + DATA, "the target goes there");
    let counters = memory.socket_counters().unwrap();
    assert_eq!((counters.remote_reads, counters.remote_writes), (0, 1));
    assert_eq!(memory.dram_counters().writes, 1);
    // The core of the other socket has an engine beside it.
    assert_eq!(copy_of(&mut memory, 1, SRC + far, DST + far, later(2)), MISS * NS);
}

#[test]
fn what_another_socket_has_modified_goes_home_before_an_engine_reads_it() {
    let mut memory = on_two(sync(), HomeSocket::Socket(0));
    memory.access(&Request { core: CoreId(1), ..request(SRC, 8, Access::Store) }, later(1));
    let before = memory.socket_counters().unwrap();
    // A message there, the line to its home, which is here, and a write and a read of its open row.
    assert_eq!(copy_of(&mut memory, 0, SRC, DST, later(2)), ROUND + (HIT + 3) * NS);
    assert_eq!((memory.engine_counters().cleaned, memory.counters().writebacks), (1, 1));
    let counters = memory.socket_counters().unwrap() - before;
    assert_eq!((counters.remote_writes, counters.remote_reads), (1, 0));
    // The other socket keeps it, and a whole line that is overwritten leaves it for nothing.
    let again = Request { core: CoreId(1), ..request(SRC, 8, Access::Load) };
    assert_eq!(memory.access(&again, later(3)).served, Served::L1);
    memory.access(&Request { core: CoreId(1), ..request(DST, 8, Access::Store) }, later(4));
    assert_eq!(copy_of(&mut memory, 0, SRC, DST, later(5)), 2 * (HOP + MESSAGE), "longer than the read");
    assert_eq!(memory.counters().writebacks, 1);
    assert_eq!(
        memory.access(&Request { core: CoreId(1), ..request(DST, 8, Access::Load) }, later(6)).served,
        Served::Dram
    );
    // A DMA engine is beside the NIC.
    let mut memory = on_two(dma(EngineNotice::Polling { period: Span::from_ns(1.0) }), HomeSocket::Socket(0));
    memory.access(&Request { core: CoreId(1), ..request(SRC, 8, Access::Store) }, later(1));
    let took = copy_of(&mut memory, 1, SRC, DST, later(2)) + 10 * NS;
    assert_eq!(took, 100 * NS + (20 * NS + ROUND + 20 * NS).next_multiple_of(NS));
}

#[test]
fn each_socket_has_an_engine_in_its_controllers_and_copies_of_the_same_lines_wait() {
    let mut memory = on_two(controller(Retires::Async), HomeSocket::Interleaved);
    let far = 4096;
    let until = |memory: &Hierarchy, n: usize| memory.engine.as_ref().unwrap().under_way[n].2[0] - later(1);
    copy_of(&mut memory, 0, SRC, DST, later(1));
    copy_of(&mut memory, 1, SRC + far, DST + far, later(1));
    assert_eq!([until(&memory, 0), until(&memory, 1)], [Ps((10 + MISS) * NS); 2]);
    // What is a target of the first is no source before that is there.
    copy_of(&mut memory, 1, DST, DST + 2 * far, later(1));
    assert!(until(&memory, 2) >= Ps((10 + MISS) * NS + ROUND));
}

#[test]
fn what_an_engine_takes_from_private_caches_is_broadcast() {
    let snooped = |engine| {
        let mut spec = spec(engine, 0b0011);
        spec.llc.coherence = Coherence::Snoop;
        spec.llc.interconnect = Some(Interconnect::Bus { hop: Span::from_ns(2.0), interval: None });
        Hierarchy::new(&spec, 2, "machine").unwrap()
    };
    let mut memory = snooped(sync());
    // The address is everywhere after the hop, a cache answers in 10 ns, and both ways are a hop: the slice hears of it and
    // the engine does. The target is asked for behind the source.
    assert_eq!(copy_of(&mut memory, 0, SRC, DST, later(1)), (2 + 10 + 2 + 2 + MISS) * NS);
    let counters = memory.snoop_counters().unwrap();
    assert_eq!((counters.broadcasts, counters.lookups, counters.invalidations), (2, 4, 0));
    memory.access(&request(SRC, 8, Access::Store), later(2));
    memory.access(&request(DST, 8, Access::Load), later(2));
    let before = memory.snoop_counters().unwrap();
    copy_of(&mut memory, 1, SRC, DST, later(3));
    let counters = memory.snoop_counters().unwrap() - before;
    assert_eq!((counters.broadcasts, counters.supplied.modified, counters.invalidations), (2, 1, 1));
    assert_eq!(memory.state(CoreId(0), Line(SRC / 64)), MesiState::Shared);
    assert_eq!(memory.state(CoreId(0), Line(DST / 64)), MesiState::Invalid);

    // Stores past the caches: of the core's own nobody hears, of the other's it does.
    let mut memory = snooped(CopyEngineSpec::NonTemporal);
    for core in [0, 1] {
        memory.access(&Request { core: CoreId(core), ..request(DST, 8, Access::Load) }, later(1));
    }
    let before = memory.snoop_counters().unwrap();
    copy(&mut memory, 64, later(2));
    let counters = memory.snoop_counters().unwrap() - before;
    assert_eq!((counters.broadcasts, counters.invalidations), (2, 1), "its load, and its store");
    let mut memory = snooped(dma(EngineNotice::Polling { period: Span::from_ns(50.0) }));
    copy_of(&mut memory, 0, SRC, DST, later(1));
    assert_eq!(memory.snoop_counters().unwrap().broadcasts, 2);
}
