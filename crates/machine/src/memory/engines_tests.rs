//! Copy engines on the server's memory, unloaded, against times added up by hand.

use probe::{Access, Request};
use units::{Addr, Cbm, Clos, CoreId, Line, Ps, Rate, Size, Span};

use super::{CopyEngineSpec, EngineNotice, Hierarchy, Inclusion, LlcSpec, MemorySpec, Ways};
use crate::cache::CacheSpec;
use crate::copy_table::Retires;
use crate::dram::{DramSpec, PagePolicy};
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
    CopyEngineSpec::Dma { setup: Span::from_ns(100.0), rate: Rate::from_gbps(512.0), notice }
}

fn controller(retires: Retires) -> CopyEngineSpec {
    CopyEngineSpec::Controller { retires, setup: Span::from_ns(10.0) }
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
        "machine.copy_engine = given with copy_table: allowed is one of them (remove the other)"
    );
    let never = dma(EngineNotice::Polling { period: Span::from_ns(0.0) });
    assert!(wrong(spec(never, 0b11)).to_string().starts_with("machine.copy_engine.notice.period = "));
}
