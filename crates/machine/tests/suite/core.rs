//! The core model against a direct recurrence, and what must hold of it on any memory.

use machine::cache::PrefetcherSpec;
use machine::cores::{BurstPacket, Core, CoreModel, CoreSpec, CoreStep};
use machine::memory::{Hierarchy, Inclusion, LlcSpec, MemorySpec, TlbSpec, Translation};
use machine::{Memory, PrivateLookup, Reply, Response, Served};
use probe::{Access, Layout, Placed, Probe, Ref, RegionId, Request, Requests, Script};
use proptest::prelude::*;
use stats::{Attribution, Path, Reason};
use units::{Addr, CoreId, Frequency, Line, PacketId, Ps, Size, Span};

const HIT: Ps = Ps(1_000);

/// Odd lines are hits, even lines misses whose latency depends on the line alone.
struct Flat;

fn miss_latency(line: Line) -> Ps {
    Ps(20_000 + line.0 % 7 * 9_000)
}

impl Memory for Flat {
    fn lookup(&mut self, request: &Request) -> PrivateLookup {
        let hit = (request.addr.line().0 % 2 == 1).then_some(Served::L1);
        PrivateLookup { hit, ..PrivateLookup::default() }
    }
    fn settle(&mut self, _: &PrivateLookup, _: &Request, _: Ps) {}
    fn fetch(&mut self, request: &Request, _: &PrivateLookup, now: Ps) -> Reply {
        let latency = miss_latency(request.addr.line());
        Reply::Done(Response { at: now + latency, served: Served::Dram, path: Path::of(Reason::RowMiss, latency) })
    }
    fn private_latency(&self, _: Served) -> (Reason, Ps) {
        (Reason::L1, HIT)
    }
}

/// Region offsets are addresses.
pub(super) struct Plain {
    pub(super) short_cut: bool,
}

impl Layout for Plain {
    fn place(&self, r: &Ref, packet: &Placed, out: &mut Requests) {
        out.push(Request::new(r, packet, Addr(r.offset), r.bytes));
    }
    fn place_line(&self, r: &Ref, _: &Placed) -> Option<Addr> {
        self.short_cut.then_some(Addr(r.offset))
    }
    fn base(&self, _: RegionId, _: &Placed) -> Option<Addr> {
        self.short_cut.then_some(Addr(0))
    }
}

pub(super) fn spec(model: CoreModel, rob: u32, outstanding: u32) -> CoreSpec {
    CoreSpec {
        model,
        frequency: Frequency::from_ghz(2.0),
        cpi: 0.5,
        rob,
        outstanding,
        outstanding_prefetches: None,
        waiting_prefetches: None,
        fill_interval: None,
        l1_fill_interval: None,
        store_buffer: 256,
        poll_cycles: 10,
        store_share: None,
        packet_stall: None,
        burst_stall: None,
        stalls: None,
    }
}

/// Instructions before it, its line, how it accesses it, and how many references back its address
/// comes from.
pub(super) type Op = (u32, u64, bool, u8);

pub(super) fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec((0u32..60, 0u64..200, prop::bool::weighted(0.2), 0u8..5), 1..120)
}

pub(super) const PREFETCHERS: &[PrefetcherSpec] = &[
    PrefetcherSpec::NextLine { degree: 2 },
    PrefetcherSpec::Stride { degree: 2, entries: 16 },
    PrefetcherSpec::Stream { degree: 2, distance: 8, streams: 4 },
];
pub(super) const PACKETS: u64 = 3;
const START: Ps = Ps(5_000);

pub(super) fn record(ops: &[Op], into: &mut Script) {
    into.clear();
    for (i, &(work, line, store, dep)) in ops.iter().enumerate() {
        let packet = PacketId(i as u64 / 7 % PACKETS);
        if i % 7 == 0 {
            into.begin(packet);
        }
        into.work(1, work);
        let access = if store { Access::Store } else { Access::Load };
        into.touch(Ref::load(RegionId::FIRST_TABLE, line * 64, 4, 1).with_access(access).after(dep));
        if i % 7 == 6 {
            into.end(packet);
        }
    }
}

/// Steps at each time the core names, or at each `quantum` before it.
fn run(core: &mut Core, memory: &mut impl Memory, layout: &Plain, quantum: Ps, start: Ps) -> (Ps, Vec<Attribution>) {
    let packet = |i| BurstPacket { id: PacketId(i), mbuf: Addr(0), data: Addr(0), cells: 0 };
    core.start((0..PACKETS).map(packet), start);
    let mut now = start;
    loop {
        match core.step(memory, layout, now, Ps(now.0.saturating_add(quantum.0))) {
            CoreStep::Done(at) => {
                let shares: Vec<_> = (0..PACKETS as usize).map(|i| core.attribution(i)).collect();
                assert!(shares.iter().all(|a| a.total() == at - start), "each share sums to the burst's duration");
                assert_eq!(core.burst_attribution().total(), at - start);
                return (at - start, shares);
            }
            CoreStep::At(at) => {
                assert!(at > now, "a core that could go on does");
                now = at;
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The window model by its definition, for memory without queues and enough fill buffers.
fn recurrence(spec: &CoreSpec, ops: &[Op]) -> Ps {
    let instruction = |n: u64| Ps((n as f64 * spec.cpi * spec.period().0 as f64) as u64);
    let (mut instructions, mut dispatch, mut retired) = (0u64, Ps::ZERO, Ps::ZERO);
    let mut last_out = Ps::ZERO;
    let mut done: Vec<Ps> = Vec::new();
    let mut retirements: Vec<(u64, Ps)> = Vec::new();
    for &(work, line, store, dep) in ops {
        instructions += u64::from(work);
        dispatch += instruction(u64::from(work));
        retired += instruction(u64::from(work));
        for &(of, at) in &retirements {
            if of + u64::from(spec.rob) <= instructions {
                dispatch = dispatch.max(at);
            }
        }
        let source = match usize::from(dep) {
            0 => Ps::ZERO,
            dep => done.len().checked_sub(dep).map_or(Ps::ZERO, |i| done[i]),
        };
        let ready = dispatch.max(source);
        if store && line % 2 == 0 {
            last_out = last_out.max(ready);
        }
        let at = if line % 2 == 0 { ready + miss_latency(Line(line)) } else { ready + HIT };
        done.push(if store && line % 2 == 1 { dispatch } else { at });
        if !store {
            retired = retired.max(at);
            match retirements.last_mut() {
                Some(last) if last.0 == instructions => last.1 = retired,
                _ => retirements.push((instructions, retired)),
            }
        }
    }
    retired.max(last_out)
}

pub(super) fn hierarchy(tlb: Option<TlbSpec>, prefetcher: Option<PrefetcherSpec>) -> Hierarchy {
    waiting(None, tlb, prefetcher)
}

fn translation(page: u64, walk_ns: f64) -> TlbSpec {
    TlbSpec {
        page: Size::from_bytes(page),
        l1_entries: 2,
        l1_ways: 2,
        l2_entries: 4,
        l2_ways: 2,
        l2_latency: Span::from_ns(3.0),
        walk_cache: 0,
        walk_latency: (walk_ns > 0.0).then(|| Span::from_ns(walk_ns)),
        shared_walk_latency: None,
        pages: Default::default(),
        sizes: Vec::new(),
    }
}

fn waiting(prefetches: Option<u32>, tlb: Option<TlbSpec>, prefetcher: Option<PrefetcherSpec>) -> Hierarchy {
    let spec = MemorySpec { waiting_prefetches: prefetches.unwrap_or(0), tlb, prefetcher, ..plain_memory() };
    Hierarchy::new(&spec, 3, "machine").unwrap()
}

fn plain_memory() -> MemorySpec {
    let ns = Span::from_ns;
    let cache = |size, ways, latency| machine::cache::CacheSpec { size: Size::from_bytes(size), ways, latency };
    MemorySpec {
        l1: cache(2048, 4, ns(1.0)),
        l2: cache(8192, 8, ns(4.0)),
        tlb: None,
        waiting_prefetches: 0,
        prefetcher: None,
        copy_table: None,
        copy_engine: None,
        llc: LlcSpec {
            slices: 1,
            hash: Default::default(),
            interconnect: None,
            size: Size::from_bytes(24 * 1024),
            ways: 12,
            latency: ns(20.0),
            interval: ns(1.0),
            inclusion: Inclusion::NonInclusive,
            replacement: Default::default(),
            core_age: 2,
            io_age: 3,
            core_ways: None,
            io_ways: machine::memory::Ways::Mask(units::Cbm(0b11)),
            inclusive_ways: None,
            snoop: ns(10.0),
            coherence: Default::default(),
            tenants: None,
        },
        dram: machine::dram::DramSpec {
            standard: None,
            currents: None,
            page: machine::dram::PagePolicy::Open,
            channels: 2,
            banks: 8,
            row: Size::from_bytes(2048),
            t_cl: ns(14.0),
            t_rcd: ns(14.0),
            t_rp: ns(14.0),
            t_ras: ns(32.0),
            t_burst: ns(3.0),
            t_refi: ns(7800.0),
            t_rfc: ns(350.0),
            overhead: ns(20.0),
            all_hits: false,
            controller: None,
        },
    }
}

/// A memory without its short cut, which sees to it that it is used in order of time.
struct Long(Hierarchy, Ps);

impl Memory for Long {
    fn next_prefetch(&mut self, core: CoreId) -> Option<(Request, PrivateLookup)> {
        self.0.next_prefetch(core)
    }
    fn translate(&mut self, request: &Request) -> Translation {
        self.0.translate(request)
    }
    fn lookup(&mut self, request: &Request) -> PrivateLookup {
        self.0.lookup(request)
    }
    fn settle(&mut self, lookup: &PrivateLookup, request: &Request, now: Ps) {
        self.0.settle(lookup, request, now);
    }
    fn fetch(&mut self, request: &Request, lookup: &PrivateLookup, now: Ps) -> Reply {
        assert!(now >= self.1, "{now} after {}", self.1);
        self.1 = now;
        self.0.fetch(request, lookup, now)
    }
    fn private_latency(&self, served: Served) -> (Reason, Ps) {
        self.0.private_latency(served)
    }
}

/// No translation, or nanoseconds that a walk takes beside its loads.
fn walk() -> impl Strategy<Value = Option<f64>> {
    prop::option::of(prop_oneof![Just(0.0), 0.5..60.0])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_window_core_follows_its_definition(ops in ops(), rob in 1u32..300, quantum in 0u64..100_000) {
        let spec = spec(CoreModel::Window, rob, 256);
        let mut core = Core::new(&spec, CoreId(0), "core").unwrap();
        record(&ops, core.script());
        let (time, _) = run(&mut core, &mut Flat, &Plain { short_cut: true }, Ps(quantum), START);
        prop_assert_eq!(time, recurrence(&spec, &ops));
    }

    /// Two cores that write what the other one has, one burst after the other.
    #[test]
    fn short_cuts_past_private_caches_do_not_matter(
        bursts in prop::collection::vec(ops(), 1..12), rob in 1u32..300, outstanding in 1u32..20, in_order: bool,
    ) {
        let model = if in_order { CoreModel::InOrder } else { CoreModel::Window };
        let spec = spec(model, rob, outstanding);
        let results = [true, false].map(|short_cut| {
            let mut cores = [0, 1].map(|id| Core::new(&spec, CoreId(id), "core").unwrap());
            let mut memory = hierarchy(None, None);
            let burst = |(i, ops): (usize, &Vec<Op>)| {
                let core = &mut cores[i % 2];
                record(ops, core.script());
                run(core, &mut memory, &Plain { short_cut }, Ps(1 << 40), Ps((i as u64 + 1) << 30))
            };
            let times: Vec<_> = bursts.iter().enumerate().map(burst).collect();
            (times, memory.counters())
        });
        prop_assert_eq!(&results[0], &results[1]);
    }

    /// Nobody else uses the memory, so it cannot matter how far the core may look ahead at a time.
    #[test]
    fn horizons_and_short_cuts_do_not_matter(
        ops in ops(), rob in prop_oneof![1u32..300, Just(4096)], outstanding in 1u32..20, in_order: bool,
        store_buffer in prop_oneof![1u32..4, Just(56)], repeated in prop_oneof![9 => Just(1), 1 => Just(12)], quantum in 0u64..100_000, walk in walk(),
        prefetcher in prop::option::of(prop::sample::select(PREFETCHERS)),
        outstanding_prefetches in prop::option::of(1u32..20), fill_interval in prop::option::of(100u64..20_000),
        waiting_prefetches in prop::option::of(1u32..20), l1_fill_interval in prop::option::of(10u64..5_000),
    ) {
        let [fill_interval, l1_fill_interval] = [fill_interval, l1_fill_interval].map(|each| each.map(|ps| Span::from_ns(ps as f64 / 1000.0)));
        let model = if in_order { CoreModel::InOrder } else { CoreModel::Window };
        let spec = CoreSpec { store_buffer, outstanding_prefetches, waiting_prefetches, fill_interval, l1_fill_interval, ..spec(model, rob, outstanding) };
        // Now and then more references than the core can number at a time.
        let ops = ops.repeat(repeated);
        let mut results = Vec::new();
        for (quantum, short_cut) in [(1 << 40, true), (quantum, true), (0, false)] {
            let mut core = Core::new(&spec, CoreId(1), "core").unwrap();
            let (mut memory, layout) = (waiting(waiting_prefetches, walk.map(|ns| translation(4096, ns)), prefetcher), Plain { short_cut });
            let mut times = Vec::new();
            // Twice, so that the second burst finds warm caches.
            for start in [START, Ps(1 << 30)] {
                record(&ops, core.script());
                times.push(if short_cut {
                    run(&mut core, &mut memory, &layout, Ps(quantum), start)
                } else {
                    let mut long = Long(memory, Ps::ZERO);
                    let result = run(&mut core, &mut long, &layout, Ps(quantum), start);
                    memory = long.0;
                    result
                });
            }
            results.push((times, memory.counters()));
        }
        prop_assert_eq!(&results[0], &results[1]);
        prop_assert_eq!(&results[0], &results[2]);
    }
}

#[test]
fn an_in_order_core_waits_for_each_load() {
    let spec = spec(CoreModel::InOrder, 1, 4);
    let mut core = Core::new(&spec, CoreId(0), "core").unwrap();
    // Ten instructions take 2.5 ns; a hit on line 1 takes 1 ns, a miss on line 2 takes 38 ns.
    record(&[(10, 2, false, 0), (10, 1, false, 0), (10, 2, true, 0)], core.script());
    let (time, shares) = run(&mut core, &mut Flat, &Plain { short_cut: true }, Ps(1 << 40), START);
    assert_eq!(time, Ps(3 * 2_500 + 38_000 + 1_000));
    let charged = |reason| shares[0][reason];
    assert_eq!((charged(Reason::Core), charged(Reason::RowMiss), charged(Reason::L1)), (7_500, 38_000, 1_000));
}

/// How long a burst takes, one reference of `ops` right after the other, on the core `id` of `memory`.
fn takes(ops: &[(u64, bool, u8)], id: usize, memory: &mut Hierarchy) -> Ps {
    let mut core = Core::new(&spec(CoreModel::Window, 300, 10), CoreId(id as u16), "core").unwrap();
    let ops: Vec<Op> = ops.iter().map(|&(line, store, dep)| (0, line, store, dep)).collect();
    record(&ops, core.script());
    run(&mut core, memory, &Plain { short_cut: true }, Ps(1 << 40), START).0
}

#[test]
fn a_line_under_way_waits_for_its_address_too() {
    let chase = [(10, false, 0), (20, false, 1), (10, false, 1)];
    let misses = takes(&chase[..2], 0, &mut hierarchy(None, None));
    assert_eq!(takes(&chase, 0, &mut hierarchy(None, None)), misses + HIT);
}

#[test]
fn a_line_that_came_long_ago_holds_nothing_up() {
    // So many references that the last one has the number that the first one had; the buffers keep what that brought.
    let mut ops = vec![(20, false, 0)];
    ops.extend(std::iter::repeat_n((21, false, 0), 2_045));
    let chase = [(40, false, 0), (60, false, 1)];
    let before = takes(&[&ops[..], &chase].concat(), 0, &mut hierarchy(None, None));
    ops.extend([chase[0], chase[1], (20, false, 1)]);
    assert_eq!(takes(&ops, 0, &mut hierarchy(None, None)), before + HIT);
}

#[test]
fn a_load_of_a_line_held_shared_waits_for_no_upgrade() {
    let [load, store] = [(10, false, 0), (10, true, 0)];
    let mut memory = hierarchy(None, None);
    for core in 0..2 {
        takes(&[load], core, &mut memory);
    }
    assert_eq!(takes(&[store, load], 0, &mut memory), HIT);
    assert_eq!(memory.counters().upgrades, 1);
}

#[test]
fn a_copy_is_made_by_loads_and_stores() {
    let spec = spec(CoreModel::Window, 64, 4);
    let copied = |bytes: u16| {
        let mut core = Core::new(&spec, CoreId(0), "core").unwrap();
        let (src, dst) =
            (Ref::load(RegionId::FIRST_TABLE, 1 << 20, bytes, 1), Ref::store(RegionId::FIRST_TABLE, 0, bytes, 2));
        core.script().copy(src, dst);
        let mut memory = hierarchy(None, None);
        run(&mut core, &mut memory, &Plain { short_cut: true }, Ps(1 << 40), START);
        memory.counters()
    };
    let counters = copied(64 * 1000);
    assert_eq!((counters.l1.misses, counters.llc.misses), (2000, 2000));
}

/// A core that waits for its engine dispatches nothing meanwhile, not even a hit; one that does not wait goes on.
#[test]
fn nothing_is_dispatched_before_the_answer_to_a_copy_that_holds() {
    use machine::copy_table::Retires;
    use machine::memory::CopyEngineSpec;
    let took = |retires| {
        let engine = CopyEngineSpec::Controller { retires, setup: Span::from_ns(500.0), saves: 0 };
        let memory = MemorySpec { copy_engine: Some(engine), ..plain_memory() };
        let mut memory = Hierarchy::new(&memory, 2, "machine").unwrap();
        let mut core = Core::new(&spec(CoreModel::Window, 256, 4), CoreId(0), "core").unwrap();
        let at = |line: u64| Ref::load(RegionId::FIRST_TABLE, line * 64, 64, 1);
        core.script().work(1, 40);
        core.script().copy(at(1 << 14), at(0).with_access(Access::Store));
        core.script().work(1, 70);
        core.script().touch(at(1 << 15));
        core.script().work(1, 30);
        let took = run(&mut core, &mut memory, &Plain { short_cut: true }, Ps(1 << 40), START).0;
        assert_eq!(core.instructions(), 40 + 70 + 30);
        took
    };
    let [holds, bypasses] = [Retires::Sync, Retires::SyncBypass].map(took);
    // The load that comes after takes a DRAM access more, or is hidden behind the copy.
    let access = Ps::from_ns(60);
    assert!(bypasses > Ps::from_ns(500) && holds > bypasses + access, "{holds} {bypasses}");
}

/// The copy instruction: software's loop over a line that the table takes is not executed, and the core waits for the table.
#[test]
fn a_copy_instruction_saves_instructions_and_holds_the_core() {
    use machine::memory::{CopyInstructionSpec, CopyTableSpec};
    let took = |instruction: Option<CopyInstructionSpec>| {
        let table = CopyTableSpec { instruction, ..CopyTableSpec::default() };
        let memory = MemorySpec { copy_table: Some(table), ..plain_memory() };
        let mut memory = Hierarchy::new(&memory, 2, "machine").unwrap();
        let mut core = Core::new(&spec(CoreModel::Window, 256, 4), CoreId(0), "core").unwrap();
        let at = |line: u64, bytes| Ref::load(RegionId::FIRST_TABLE, line * 64, bytes, 1);
        core.script().work(1, 40);
        // Two lines for the table, half a line for software.
        core.script().copy(at(1 << 14, 160), at(0, 160).with_access(Access::Store));
        core.script().work(1, 70);
        core.script().touch(at(1 << 15, 64));
        core.script().work(1, 30);
        let took = run(&mut core, &mut memory, &Plain { short_cut: true }, Ps(1 << 40), START).0;
        assert_eq!(memory.copy_counters().fills, 2);
        (took, core.instructions())
    };
    let with = |holds, saves| took(Some(CopyInstructionSpec { holds, saves, port: Span::from_ns(1.0) }));
    let ((loop_of_software, all), (holds, fewer), (goes_on, as_few)) = (took(None), with(true, 6), with(false, 6));
    assert_eq!((all, fewer, as_few), (140, 128, 128));
    // More than there are to come are not saved.
    assert_eq!(with(true, 60).1, 40);
    assert!(holds > goes_on + Ps::from_ns(60) && goes_on <= loop_of_software, "{holds} {goes_on} {loop_of_software}");
}

#[test]
fn a_page_walk_is_a_chain_of_loads_before_the_reference() {
    let spec = spec(CoreModel::Window, 64, 4);
    let alone = |tlb, ops: &[Op]| {
        let mut core = Core::new(&spec, CoreId(0), "core").unwrap();
        let mut memory = hierarchy(tlb, None);
        record(ops, core.script());
        let (time, shares) = run(&mut core, &mut memory, &Plain { short_cut: true }, Ps(1 << 40), START);
        (time, shares[0][Reason::Tlb], memory.counters())
    };
    let once = [(1, 0, false, 0)];
    let (without, _, _) = alone(None, &once);
    let pages = Some(translation(1 << 21, 0.0));
    let (with, tlb, counters) = alone(pages.clone(), &once);
    // Three levels, each a miss to another row of DRAM, and then the line itself.
    assert_eq!((counters.page_walks, counters.llc.misses), (1, 4));
    assert!(with > without * 3 && tlb > (without * 3).0, "{with} {without} {tlb}");
    // The next page: its entries lie on lines that are on their way.
    let (together, _, counters) = alone(pages.clone(), &[(1, 0, false, 0), (1, 1 << 15, false, 0)]);
    assert_eq!((counters.tlb.misses, counters.page_walks, counters.llc.misses), (2, 2, 5));
    assert!(together >= with, "{together} {with}");
    // The same page: its walk is waited for.
    let (same, _, counters) = alone(pages.clone(), &[(1, 0, false, 0), (1, 64, false, 0)]);
    assert_eq!((counters.tlb.misses, counters.page_walks), (1, 1));
    assert!(same >= with && same < with + without, "{same} {with}");
    // What a walk takes beside its loads comes after them, and is waited for as they are.
    let dear = Some(translation(1 << 21, 1000.0));
    let (dearer, dearer_tlb, _) = alone(dear.clone(), &once);
    assert_eq!((dearer, dearer_tlb), (with + Ps::from_ns(1000), tlb + 1_000_000));
    let (dearer_same, _, _) = alone(dear, &[(1, 0, false, 0), (1, 64, false, 0)]);
    assert!(dearer_same >= dearer && dearer_same < dearer + without, "{dearer_same} {dearer}");
}

/// A store that is translated may leave its line to the store buffer; one that is not may still fault.
#[test]
fn a_store_retires_behind_its_page_walk_and_not_behind_its_line() {
    // The second store is dispatched when the first has retired.
    let spec = spec(CoreModel::Window, 8, 4);
    let took = |tlb| {
        let mut core = Core::new(&spec, CoreId(0), "core").unwrap();
        let mut memory = hierarchy(tlb, None);
        record(&[(8, 0, true, 0), (8, 0, true, 0)], core.script());
        let (time, shares) = run(&mut core, &mut memory, &Plain { short_cut: true }, Ps(1 << 40), START);
        (time, shares[0][Reason::Tlb])
    };
    let (walked, tlb) = took(Some(translation(1 << 21, 1000.0)));
    assert!(tlb > 1_000_000 && walked > Ps::from_ns(1000), "{walked} {tlb}");
    let (free, tlb) = took(None);
    assert!(tlb == 0 && free < Ps::from_ns(200), "{free} {tlb}");
}

#[test]
fn a_stream_prefetcher_hides_the_latency_of_a_copy() {
    let spec = spec(CoreModel::InOrder, 64, 8);
    let took = |prefetcher| {
        let mut core = Core::new(&spec, CoreId(0), "core").unwrap();
        let mut memory = hierarchy(None, prefetcher);
        let lines: Vec<Op> = (0..64).map(|line| (20, line, false, 0)).collect();
        record(&lines, core.script());
        let (time, _) = run(&mut core, &mut memory, &Plain { short_cut: true }, Ps(1 << 40), START);
        (time, memory.counters())
    };
    let (without, _) = took(None);
    let (with, counters) = took(Some(PrefetcherSpec::Stream { degree: 4, distance: 16, streams: 4 }));
    assert!(with * 2 < without, "{with} {without}");
    assert!(counters.prefetches > 40 && counters.llc.misses == 64, "{counters:?}");
}

/// A core with one miss at a time reads lines in order: what its prefetcher may have under way decides, and nearly as fast as if all of it were the core's.
#[test]
fn a_prefetcher_with_a_queue_of_its_own_has_more_under_way_than_loads() {
    let took = |outstanding, outstanding_prefetches| {
        let spec = CoreSpec { outstanding_prefetches, ..spec(CoreModel::Window, 64, outstanding) };
        let mut core = Core::new(&spec, CoreId(0), "core").unwrap();
        let mut memory = hierarchy(None, Some(PrefetcherSpec::Stream { degree: 4, distance: 16, streams: 4 }));
        let lines: Vec<Op> = (0..200).map(|line| (20, line, false, 0)).collect();
        record(&lines, core.script());
        let (time, _) = run(&mut core, &mut memory, &Plain { short_cut: true }, Ps(1 << 40), START);
        (time, memory.counters().prefetches)
    };
    let [shared, one, two, many] = [None, Some(1), Some(2), Some(16)].map(|prefetches| took(1, prefetches));
    assert!(one.0 < shared.0 && two.0 < one.0 && many.0 * 2 < shared.0, "{shared:?} {one:?} {two:?} {many:?}");
    assert!(shared.1 == 0 && (150..=216).contains(&many.1), "{shared:?} {many:?}");
    let all = took(17, None);
    assert!(many.0.as_ns() < 1.25 * all.0.as_ns(), "{many:?} {all:?}");
}

/// Lines that nothing waits for, and nothing but the port can hold up.
#[test]
fn lines_enter_a_core_at_the_pace_of_its_port() {
    for line_ns in [5.0, 0.0] {
        let fill_interval = (line_ns > 0.0).then(|| Span::from_ns(line_ns));
        let spec = CoreSpec { fill_interval, cpi: 0.05, ..spec(CoreModel::Window, 4096, 256) };
        let mut core = Core::new(&spec, CoreId(0), "core").unwrap();
        let lines: Vec<Op> = (0..200).map(|line| (1, 2 * line, false, 0)).collect();
        record(&lines, core.script());
        let (time, _) = run(&mut core, &mut Flat, &Plain { short_cut: true }, Ps(1 << 40), START);
        let latest = (0..200).map(|line| miss_latency(Line(2 * line)).as_ns()).fold(0.0, f64::max);
        let (least, most) = (199.0 * line_ns, 200.0 * (line_ns + 0.1) + latest);
        assert!((least..=most).contains(&time.as_ns()), "{line_ns}: {time}");
    }
}

/// Lines that L2 has and L1 does not, which nothing waits for.
#[test]
fn lines_enter_l1_at_the_pace_of_its_port() {
    for model in [CoreModel::Window, CoreModel::InOrder] {
        let took = |line_ns: f64, store: bool| {
            let spec = CoreSpec {
                l1_fill_interval: (line_ns > 0.0).then(|| Span::from_ns(line_ns)),
                cpi: 0.05,
                ..spec(model, 4096, 8)
            };
            let mut core = Core::new(&spec, CoreId(0), "core").unwrap();
            let mut memory = hierarchy(None, None);
            let lines: Vec<Op> = (0..64).map(|line| (1, line, store, 0)).collect();
            // All but the first round is served by L2.
            [(1, 29), (4, 30)].map(|(rounds, start)| {
                record(&lines.repeat(rounds), core.script());
                run(&mut core, &mut memory, &Plain { short_cut: true }, Ps(1 << 40), Ps(1 << start)).0.as_ns()
            })
        };
        for store in [true, false] {
            let ([_, free], [_, slow]) = (took(0.0, store), took(20.0, store));
            // Eight may be behind each other at the end, and the last one is on its way.
            let (least, most) = (20.0 * (4.0 * 64.0 - 9.0), 20.0 * 4.0 * 64.0 + free);
            assert!((least..most).contains(&slow), "{model:?} {store} {slow} {free}");
            assert!(free < 0.3 * slow, "{model:?} {store} {slow} {free}");
        }
    }
}

/// Blocks of four lines, and nothing else in their pages: what a stream asks for beyond their end waits, and comes in while
/// other work is done, or is dropped.
#[test]
fn lines_that_a_prefetcher_asks_for_wait_or_are_dropped() {
    let took = |waiting_prefetches, work| {
        let spec = CoreSpec { outstanding_prefetches: Some(2), waiting_prefetches, ..spec(CoreModel::Window, 64, 8) };
        let mut core = Core::new(&spec, CoreId(0), "core").unwrap();
        let stream = PrefetcherSpec::Stream { degree: 4, distance: 16, streams: 16 };
        let mut memory = waiting(waiting_prefetches, None, Some(stream));
        // Behind each block comes work on a line that L1 has.
        let block = |page: u64| (0..4).map(move |line| (20, 64 * page + line, false, 0));
        let hot = |_: u64| (0..work).map(|_| (20, 4000, false, 0));
        let lines: Vec<Op> = (0..50).flat_map(|page| block(page).chain(hot(page))).collect();
        record(&lines, core.script());
        run(&mut core, &mut memory, &Plain { short_cut: true }, Ps(1 << 40), START);
        memory.counters().prefetches
    };
    let (dropped, some, all) = (took(None, 400), took(Some(4), 400), took(Some(64), 400));
    // Twelve beyond each block at most, some of which is left at the end.
    assert!(dropped <= 50 * 4 && some > dropped + 50 && all > some + 100 && all <= 50 * 12, "{dropped} {some} {all}");
    // Where there is no time between blocks, what was asked for first is dropped.
    assert!(took(Some(4), 1) < some && took(Some(64), 1) < all);
}

#[test]
fn what_a_core_may_have_under_way_is_checked() {
    let spec = spec(CoreModel::Window, 64, 4);
    let queue = |n| CoreSpec { outstanding_prefetches: Some(n), ..spec.clone() };
    let wait = |n| CoreSpec { waiting_prefetches: Some(n), ..spec.clone() };
    let port = |ns| CoreSpec { fill_interval: Some(Span::from_ns(ns)), ..spec.clone() };
    let l1_port = |ns| CoreSpec { l1_fill_interval: Some(Span::from_ns(ns)), ..spec.clone() };
    for (bad, said) in [
        (queue(0), "outstanding_prefetches = 0:"),
        (queue(257), "outstanding_prefetches = 257:"),
        (wait(0), "waiting_prefetches = 0:"),
        (wait(1025), "waiting_prefetches = 1025:"),
        (port(0.0), "fill_interval = 0"),
        (port(2000.0), "fill_interval = 2"),
        (l1_port(0.0), "l1_fill_interval = 0"),
        (l1_port(2000.0), "l1_fill_interval = 2"),
    ] {
        let error = bad.check("core").unwrap_err().to_string();
        assert!(error.contains(&format!("core.{said}")), "{error}");
    }
    assert!(
        [queue(1), queue(256), wait(1), wait(1024), port(0.1), port(1000.0), l1_port(0.01), l1_port(1000.0)]
            .iter()
            .all(|good| good.check("core").is_ok())
    );
}

#[test]
fn devices_find_what_only_a_core_has() {
    let mut memory = hierarchy(None, None);
    let mut core = Core::new(&spec(CoreModel::InOrder, 64, 4), CoreId(0), "core").unwrap();
    record(&[(1, 3, true, 0)], core.script());
    run(&mut core, &mut memory, &Plain { short_cut: true }, Ps(1 << 40), START);
    let now = Ps(1 << 20);
    memory.dma_read(Line(3), 1, now);
    memory.dma_write(Line(3), 2, now);
    let counters = memory.counters();
    assert_eq!((counters.dma_read.hits, counters.dma_write.hits, counters.dma_write.misses), (1, 1, 1));
}

/// The second core gets a clean line from the LLC, which has it, and a dirty one from the first.
#[test]
fn a_clean_line_comes_from_the_llc_and_a_dirty_one_from_the_core_that_wrote_it() {
    let mut memory = hierarchy(None, None);
    let mut at = START;
    for (id, store) in [(0, false), (1, false)] {
        let mut core = Core::new(&spec(CoreModel::InOrder, 64, 4), CoreId(id), "core").unwrap();
        record(&[(1, 3, store, 0), (1, 5, id == 0, 0)], core.script());
        at = at + run(&mut core, &mut memory, &Plain { short_cut: true }, Ps(1 << 40), at).0 + Ps(1 << 20);
    }
    let counters = memory.counters();
    assert_eq!((counters.llc.hits, counters.llc.misses, counters.snoops), (1, 2, 1));
}
