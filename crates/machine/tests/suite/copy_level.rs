//! The timing shell of the copy table against costs worked out by hand.
use machine::Served;
use machine::copy_table::{
    ControllerEngine, Copied, CopyCosts, CopyLevel, CopyLoopCost, CopyMethod, CopyRequest, CopySystemSpec, DmaEngine,
    EntrySearch, L1Spec, Retires, WritePolicy,
};
use probe::{Access, Request};
use units::{Addr, Clos, CoreId, Ps};

const CLOCK: u64 = 500;
const CPU: CoreId = CoreId(0);

fn level(costs: CopyCosts) -> CopyLevel {
    CopyLevel::new(&CopySystemSpec::default(), &costs).unwrap()
}

fn clocks(from: Ps, to: Ps) -> u64 {
    assert_eq!(to.since(from).0 % CLOCK, 0);
    to.since(from).0 / CLOCK
}

/// Long after all that was posted has left.
fn later(n: u64) -> Ps {
    Ps(n * 1_000_000_000)
}

fn copy(level: &mut CopyLevel, method: CopyMethod, src: u64, dst: u64, bytes: u64, now: Ps) -> Copied {
    method.copy(level, CopyRequest { core: CPU, src, dst, bytes }, now)
}

fn load(level: &mut CopyLevel, addr: u64, now: Ps) -> (Served, u64) {
    let request =
        Request { addr: Addr(addr), bytes: 8, site: 0, access: Access::Load, clos: Clos(0), core: CPU, mapping: 0 };
    let response = level.access(&request, now);
    assert_eq!(response.path.total(), response.at.since(now), "the parts sum to the time");
    (response.served, clocks(now, response.at))
}

const TABLE: CopyMethod = CopyMethod::Table(CopyLoopCost { word: 4, instructions: 4, uncached_source: false, call: 0 });
const LOADS: CopyMethod = CopyMethod::Loads(CopyLoopCost { word: 4, instructions: 4, uncached_source: false, call: 0 });

#[test]
fn loads_take_the_times_of_table_2() {
    let mut level = level(CopyCosts::default());
    assert_eq!(load(&mut level, 0, later(1)), (Served::Dram, 2 + 15 + 240));
    assert_eq!(load(&mut level, 8, later(2)), (Served::L1, 2));
    // Another line of the same index of the direct-mapped L1.
    load(&mut level, 32 << 10, later(3));
    assert_eq!(load(&mut level, 0, later(4)), (Served::L2, 2 + 15));
}

#[test]
fn a_copy_costs_its_fills_and_a_read_of_it_two_clocks_more_than_a_hit() {
    let mut level = level(CopyCosts::default());
    let (src, dst) = (0, 1 << 20);
    // Ten lines that memory has: each is fetched and pointed at.
    let done = copy(&mut level, TABLE, src, dst, 1280, later(1));
    assert_eq!(clocks(later(1), done.at), 10 * (240 + 2));
    // Cached ones only need their entries.
    let again = copy(&mut level, TABLE, src, 2 << 20, 1280, later(2));
    // The table's classes of both targets are the same, so the second is the class's second entry.
    assert_eq!(clocks(later(2), again.at), 10 * 2 * 2);
    assert_eq!(load(&mut level, dst, later(3)), (Served::Engine, 2 + 2));
    // L1 has it now.
    assert_eq!(load(&mut level, dst, later(4)), (Served::L1, 2));
}

#[test]
fn a_cam_fills_any_entry_in_one_step() {
    let mut level = level(CopyCosts { fill_search: EntrySearch::Cam, ..CopyCosts::default() });
    for n in 1..=8 {
        copy(&mut level, TABLE, 0, n << 20, 128, later(n));
    }
    assert_eq!(clocks(later(9), copy(&mut level, TABLE, 0, 0x90_0000 + 128, 128, later(9)).at) % 2, 0);
    let eighth = copy(&mut level, TABLE, 128, (1 << 20) + 128, 128, later(10));
    assert_eq!(clocks(later(10), eighth.at), 240 + 2);
}

#[test]
fn a_write_to_a_source_settles_first() {
    let costs = CopyCosts { write_buffer: 0, ..CopyCosts::default() };
    let mut level = level(costs);
    copy(&mut level, TABLE, 0, 1 << 20, 128, later(1));
    let write = level.word(CPU, Access::Store, 0, 4, later(2));
    // L1's time, the write-back, what the table takes to find it, and the write through to L2.
    assert_eq!(clocks(later(2), write), 2 + 15 + 2 + 15);
    assert_eq!((level.counts.settled, level.counts.touched), (1, 1));
    let plain = level.word(CPU, Access::Store, 0, 4, later(3));
    assert_eq!(clocks(later(3), plain), 2 + 15);
}

#[test]
fn the_write_buffer_hides_stores_until_it_is_full() {
    let mut level = level(CopyCosts { write_buffer: 2, ..CopyCosts::default() });
    level.word(CPU, Access::Load, 0, 4, later(1));
    let mut at = later(2);
    let mut took = Vec::new();
    for _ in 0..4 {
        let before = at;
        at = level.word(CPU, Access::Store, 0, 4, at);
        took.push(clocks(before, at));
    }
    // Each leaves 15 clocks after the one before; the third waits for the first.
    assert_eq!(took, [2, 2, 13, 15]);
}

#[test]
fn software_takes_what_the_table_cannot() {
    let mut level = level(CopyCosts::default());
    let odd = copy(&mut level, TABLE, 4, 1 << 20, 1280, later(1));
    assert_eq!((level.counts.lines_by_table, odd.instructions), (0, 320 * 4));
    copy(&mut level, TABLE, 100, (1 << 20) + 100, 300, later(2));
    assert_eq!(level.counts.lines_by_table, 2, "lines 1 and 2 of 100..400");
}

#[test]
fn an_engine_at_memory_is_bounded_by_the_bus() {
    let mut level = level(CopyCosts::default());
    let engine = |retires| CopyMethod::Controller(ControllerEngine { setup: 20, window: 128, retires });
    let sync = copy(&mut level, engine(Retires::Sync), 0, 1 << 20, 1280, later(1));
    assert_eq!((clocks(later(1), sync.at), sync.done), (20 + 20 * 80 + 240, sync.at));
    let bypass = copy(&mut level, engine(Retires::SyncBypass), 0, 1 << 20, 1280, later(2));
    assert_eq!(clocks(later(2), bypass.at), 20 + 20 * 80 + 240 - 128);
    let later_on = copy(&mut level, engine(Retires::Async), 0, 1 << 20, 1280, later(3));
    assert_eq!((clocks(later(3), later_on.at), clocks(later(3), later_on.done)), (20, 20 + 20 * 80 + 240));
    let polled = copy(&mut level, CopyMethod::Dma(DmaEngine::POLLED), 0, 1 << 20, 1280, later(4));
    // 1840 clocks of copying are seen by the seventh poll of 300.
    assert_eq!(clocks(later(4), polled.at), 1000 + 7 * 300);
}

#[test]
fn the_table_beats_loads_and_stores_where_data_are_cached_and_both_see_the_same_misses_where_not() {
    let mut took = Vec::new();
    for method in [LOADS, TABLE] {
        let mut level = level(CopyCosts::default());
        copy(&mut level, method, 0, 1 << 20, 1280, later(1));
        let cached = copy(&mut level, method, 0, 2 << 20, 1280, later(2));
        took.push(clocks(later(2), cached.at));
    }
    assert!(took[0] > 20 * took[1], "{took:?}");
}

#[test]
fn several_cpus_pass_a_message_through_the_table() {
    let l1 = L1Spec { writes: WritePolicy::Back, ..L1Spec::default() };
    let spec = CopySystemSpec { cpus: 3, l1: Some(l1), ..CopySystemSpec::default() };
    let mut level = CopyLevel::new(&spec, &CopyCosts::default()).unwrap();
    // CPU 0 writes a line of the send buffer, the table copies it, CPU 2 reads the receive buffer.
    level.word(CoreId(0), Access::Store, 0, 8, later(1));
    let sent = TABLE.copy(&mut level, CopyRequest { core: CoreId(0), src: 0, dst: 1 << 20, bytes: 128 }, later(2));
    // The L1's modified line goes to the shared cache before it is pointed at.
    assert_eq!(clocks(later(2), sent.at), 15 + 2);
    let load = Request {
        addr: Addr(1 << 20),
        bytes: 8,
        site: 0,
        access: Access::Load,
        clos: Clos(0),
        core: CoreId(2),
        mapping: 0,
    };
    let got = level.access(&load, later(3));
    assert_eq!((got.served, clocks(later(3), got.at)), (Served::Engine, 2 + 2));
}

/// Table 2's caches: a miss of L1 brings 64 B, one of L2 128 B.
#[test]
fn an_l1_line_is_half_of_one_of_the_shared_cache() {
    let mut level = level(CopyCosts::default());
    assert_eq!(load(&mut level, 0, later(1)), (Served::Dram, 2 + 15 + 240));
    assert_eq!(load(&mut level, 64, later(2)), (Served::L2, 2 + 15));
    assert_eq!(load(&mut level, 64, later(3)), (Served::L1, 2));
    assert_eq!(load(&mut level, 128, later(4)), (Served::Dram, 2 + 15 + 240));
}

/// A store that misses: L1 2, the line from memory 240 or from L2 15, and the store's own way to L2, 15.
#[test]
fn a_write_through_l1_takes_a_line_for_a_store_where_it_allocates() {
    let store = |writes: WritePolicy| {
        let l1 = L1Spec { writes, ..L1Spec::default() };
        let spec = CopySystemSpec { l1: Some(l1), ..CopySystemSpec::default() };
        let mut level = CopyLevel::new(&spec, &CopyCosts { write_buffer: 0, ..CopyCosts::default() }).unwrap();
        let took = [0, 64, 64].map(|addr| {
            let now = later(1 + level.counts.stores);
            clocks(now, level.word(CPU, Access::Store, addr, 8, now))
        });
        (took, level.counts.store_hits)
    };
    assert_eq!(store(WritePolicy::Through), ([2 + 240 + 15, 2 + 15, 2 + 15], 0));
    assert_eq!(store(WritePolicy::ThroughAllocate), ([2 + 240 + 15 + 15, 2 + 15 + 15, 2 + 15], 1));
    assert_eq!(store(WritePolicy::Back), ([2 + 15 + 240, 2 + 15, 2], 1));
}
