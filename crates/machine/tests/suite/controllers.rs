//! Controllers at the level of commands behind the LLC: closed forms, the simulator of whole traces, and what must hold
//! of answers that come later.

use machine::cache::{CacheSpec, PrefetcherSpec};
use machine::cores::{Core, CoreModel, CoreSpec, CoreStep};
use machine::dram::map::AddressMap;
use machine::dram::presets;
use machine::dram::simulate::{DramRecordOptions, DramTrace, RequestArrivals, simulate};
use machine::dram::standard::Standard;
use machine::dram::{ControllerSetting, DramSpec, PagePolicy};
use machine::memory::{CopyTableSpec, Hierarchy, Inclusion, LlcSpec, MemoryReply, MemorySpec, TlbSpec};
use machine::{Memory, Reply, Served};
use probe::{Access, Layout, Placed, Probe, Ref, RegionId, Request, Requests};
use proptest::prelude::*;
use stats::Reason;
use units::{Addr, Clos, CoreId, Frequency, Line, Ps, Size, Span};

const LLC: f64 = 20.0;
const OVERHEAD: f64 = 30.0;

fn spec(standard: &str, channels: Option<u32>, setting: ControllerSetting) -> MemorySpec {
    let ns = Span::from_ns;
    let cache = |bytes, latency| CacheSpec { size: Size::from_bytes(bytes), ways: 4, latency: ns(latency) };
    let mut dram = DramSpec::of_standard(standard, ns(OVERHEAD)).unwrap();
    dram.channels = channels.unwrap_or(dram.channels);
    dram.controller = Some(setting);
    MemorySpec {
        l1: cache(1024, 1.0),
        l2: cache(4096, 4.0),
        tlb: None,
        prefetcher: None,
        waiting_prefetches: 0,
        copy_table: None,
        copy_engine: None,
        llc: LlcSpec {
            slices: 1,
            hash: Default::default(),
            interconnect: None,
            size: Size::from_bytes(16 * 1024),
            ways: 8,
            latency: ns(LLC),
            interval: ns(0.1),
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
        dram,
    }
}

fn closed() -> ControllerSetting {
    ControllerSetting {
        page: Some("closed".parse().unwrap()),
        refresh: "off".parse().unwrap(),
        writes: Some("mixed".parse().unwrap()),
        ..ControllerSetting::default()
    }
}

fn hierarchy(standard: &str, channels: Option<u32>, setting: ControllerSetting) -> Hierarchy {
    Hierarchy::new(&spec(standard, channels, setting), 4, "machine").unwrap()
}

fn request(core: u16, line: u64, access: Access) -> Request {
    Request { addr: Line(line).addr(), bytes: 8, site: 1, access, clos: Clos(0), core: CoreId(core), mapping: 0 }
}

fn core_spec(model: CoreModel, rob: u32, outstanding: u32, store_buffer: u32) -> CoreSpec {
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
        store_buffer,
        poll_cycles: 10,
        store_share: None,
        packet_stall: None,
        burst_stall: None,
        stalls: None,
    }
}

/// Region offsets are addresses.
struct Plain;

impl Layout for Plain {
    fn place(&self, r: &Ref, packet: &Placed, out: &mut Requests) {
        out.push(Request::new(r, packet, Addr(r.offset), r.bytes));
    }
    fn place_line(&self, r: &Ref, _: &Placed) -> Option<Addr> {
        Some(Addr(r.offset))
    }
}

/// Replays what is recorded, no further at a time than `quantum`; answers are handed over as soon as they are known.
fn replay(core: &mut Core, memory: &mut Hierarchy, quantum: u64, start: Ps) -> Ps {
    core.start([], start);
    let (mut now, mut next, mut answers) = (start, Some(start), Vec::new());
    loop {
        // Memory's turn comes before the core's.
        let event = [next, memory.next()].into_iter().flatten().min().expect("something goes on");
        now = now.max(event);
        if memory.next().is_some_and(|at| at <= now) {
            memory.advance(now, &mut answers);
            for answer in answers.drain(..) {
                let MemoryReply::Core(_, ticket, response) = answer else { panic!("no device asks") };
                assert!(response.at >= now, "an answer at {} is known at {now}", response.at);
                core.complete(ticket, &response);
            }
        } else if next.is_none_or(|at| at > now) {
            continue;
        }
        let horizon = memory.next().unwrap_or(Ps::MAX).min(Ps(now.0 + quantum));
        match core.step(memory, &Plain, now, horizon) {
            CoreStep::Done(at) => {
                // Stores may still be on their way.
                while let Some(at) = memory.next() {
                    memory.advance(at, &mut answers);
                    for answer in answers.drain(..) {
                        let MemoryReply::Core(_, ticket, response) = answer else { panic!("no device asks") };
                        core.complete(ticket, &response);
                    }
                }
                assert!(at >= now, "it ends at {at}, before its present, {now}");
                assert_eq!(core.burst_attribution().total(), at - start, "what it took sums to the time");
                return at;
            }
            CoreStep::At(at) => next = Some(at),
            CoreStep::Wait => next = None,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_chain_of_loads_takes_the_unloaded_latency_each() {
    for standard in presets::NAMES {
        let mut memory = hierarchy(standard, None, closed());
        let dram = memory.controllers().unwrap().unloaded_miss().as_ns();
        let expected = LLC + OVERHEAD + dram;
        let clock = 1e3 / f64::from(presets::preset(standard).unwrap().clock_mhz);
        let mut core = Core::new(&core_spec(CoreModel::Window, 256, 10, 32), CoreId(0), "core").unwrap();
        // Far apart, so that each row has been closed.
        let n = 200u64;
        for i in 0..n {
            let line = i * 7919 % 100_003;
            core.script().touch(Ref::load(RegionId::FIRST_TABLE, line * 64, 8, 1).after(u8::from(i > 0)));
        }
        let each = replay(&mut core, &mut memory, 1 << 40, Ps::ZERO).as_ns() / n as f64;
        assert!(
            (expected - 0.01..=expected + clock).contains(&each),
            "{standard}: {each:.2} ns, formula {expected:.2} ns and up to a clock of {clock:.2} ns"
        );
        // A line is one read, whatever its column commands.
        assert_eq!(memory.dram_counters().reads, n);
        assert_eq!(memory.dram_counters().row_misses, n);
    }
}

/// The same requests through the LLC and through the simulator of whole traces.
#[test]
fn a_saturated_memory_has_the_bandwidth_of_the_stand_alone_simulator() {
    for (standard, ranks, order, writes, page) in [
        ("ddr4-2400u", 1, "fr-fcfs", "mixed", "open"),
        ("ddr4-2400u", 2, "fr-fcfs", "mixed", "open"),
        ("ddr4-3200aa", 1, "fr-fcfs=4", "drain=32/24/8", "open"),
        ("ddr5-6400b", 1, "fr-fcfs=16", "drain=32/24/8", "adaptive=128"),
        ("ddr3-1600k", 1, "fcfs=2", "mixed", "open"),
        ("ddr3-1600k", 4, "fcfs=2", "mixed", "open"),
        ("ddr4-3200aa", 1, "batch=direction/4/2", "mixed", "open"),
        ("hbm2-2000", 1, "fr-fcfs", "mixed", "closed"),
        ("gddr5-8000", 1, "fr-fcfs=8", "mixed", "open"),
    ] {
        for random in [false, true] {
            let parts = "row rank bank group column channel";
            let setting = ControllerSetting {
                map: parts.into(),
                order: order.parse().unwrap(),
                writes: Some(writes.parse().unwrap()),
                page: Some(page.parse().unwrap()),
                ..ControllerSetting::default()
            };
            // Ranks follow from the banks.
            let mut spec = spec(standard, None, setting.clone());
            spec.dram.banks *= ranks;
            let mut memory = Hierarchy::new(&spec, 4, "machine").unwrap();
            let n = 40_000u64;
            let lines: Vec<u64> =
                (0..n).map(|i| if random { i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44 } else { i }).collect();
            // All at once: they come in as fast as the LLC takes them, 10 lines a nanosecond.
            let mut answers = Vec::new();
            memory.open();
            for &line in &lines {
                memory.dma_read(Line(line), 1, Ps::ZERO);
            }
            let transaction = memory.close(Ps::ZERO).unwrap_err();
            while let Some(at) = memory.next() {
                memory.advance(at, &mut answers);
            }
            let [MemoryReply::Device(answered, end)] = answers[..] else { panic!("{answers:?}") };
            assert_eq!(answered, transaction);
            let alone = Standard { ranks, ..presets::preset(standard).unwrap() };
            let map = AddressMap::of_parts(&alone, parts).unwrap();
            // A line that is asked for again while it is on its way is asked for once.
            let addresses: Vec<u64> = {
                let mut seen = std::collections::BTreeSet::new();
                lines.iter().filter(|&&line| seen.insert(line)).map(|line| line * 64 % alone.capacity()).collect()
            };
            let trace = DramTrace { addresses: &addresses, writes: &[], arrivals: RequestArrivals::Saturated };
            let expected =
                simulate(&alone, &map, &setting.spec(PagePolicy::Open), &trace, DramRecordOptions::default())
                    .unwrap()
                    .report;
            let through = addresses.len() as f64 * 64.0 / end.as_secs();
            let off = through / expected.bytes_per_s - 1.0;
            assert!(off.abs() < 0.01, "{standard} x {ranks} {order} random {random}: {:.2} % off", off * 100.0);
            let report = memory.dram_report(end).unwrap().report;
            let s = report.shares;
            let sum = s.data + s.turnaround + s.bank_group + s.row_miss + s.bank_conflict + s.refresh + s.idle;
            assert!((sum - 1.0).abs() < 1e-12, "shares of the peak sum to it: {sum}");
            assert_eq!(report.row_hits + report.row_misses + report.row_conflicts, addresses.len() as u64);
        }
    }
}

#[test]
fn a_line_on_its_way_is_read_once_whoever_asks() {
    let mut memory = hierarchy("ddr4-2400u", Some(3), closed());
    let mut tickets = Vec::new();
    for core in 0..3 {
        let request = request(core, 77, Access::Load);
        let lookup = memory.lookup(&request);
        match memory.fetch(&request, &lookup, Ps(1_000 * u64::from(core))) {
            Reply::Pending(ticket) => tickets.push((CoreId(core), ticket)),
            other => panic!("{other:?}"),
        }
    }
    memory.open();
    memory.dma_read(Line(77), 1, Ps(4_000));
    let device = memory.close(Ps(4_000)).unwrap_err();
    let mut answers = Vec::new();
    while let Some(at) = memory.next() {
        memory.advance(at, &mut answers);
    }
    assert_eq!((memory.dram_counters().reads, answers.len()), (1, 4));
    for answer in &answers {
        match *answer {
            MemoryReply::Core(core, ticket, response) => {
                assert!(tickets.contains(&(core, ticket)));
                // Each path sums to the time since its own request.
                assert_eq!(response.path.total(), response.at - Ps(1_000 * u64::from(core.0)));
                let merged = response.path.iter().any(|(reason, _)| reason == Reason::Mshr);
                assert_eq!(merged, core.0 > 0, "{response:?}");
            }
            MemoryReply::Device(transaction, at) => {
                assert_eq!(transaction, device);
                assert!(at > Ps(4_000));
            }
        }
    }
    // Afterwards it is there.
    let again = memory.access(&request(3, 77, Access::Load), Ps::from_ns(1_000));
    assert_ne!(again.served, Served::Dram);
}

#[test]
fn what_a_device_overwrites_is_not_waited_for() {
    let mut memory = hierarchy("ddr4-2400u", None, closed());
    let first = request(0, 5, Access::Load);
    let lookup = memory.lookup(&first);
    assert!(matches!(memory.fetch(&first, &lookup, Ps(0)), Reply::Pending(_)));
    memory.open();
    let written = memory.dma_write(Line(5), 1, Ps(1_000));
    assert!(memory.close(written).is_ok());
    let second = request(1, 5, Access::Load);
    let lookup = memory.lookup(&second);
    assert!(matches!(memory.fetch(&second, &lookup, Ps(2_000)), Reply::Done(_)));
}

/// Devices that write more than DRAM takes are held up, and all of it is written.
#[test]
fn a_device_is_held_up_by_a_full_controller_and_nothing_is_lost() {
    let mut spec = spec("ddr3-1600k", None, ControllerSetting::default());
    spec.llc.io_ways = machine::memory::Ways::NONE;
    let mut memory = Hierarchy::new(&spec, 1, "machine").unwrap();
    let mut answers = Vec::new();
    let (mut held_up, mut last) = (0, Ps::ZERO);
    for i in 0..500u64 {
        // Four lines each nanosecond, some 256 GB/s against 12.8.
        let now = Ps::from_ns(i);
        memory.open();
        let at = memory.dma_write(Line(i * 4), 4, now);
        held_up += u64::from(memory.close(at).is_err());
    }
    while let Some(at) = memory.next() {
        memory.advance(at, &mut answers);
    }
    for answer in &answers {
        let MemoryReply::Device(_, at) = answer else { panic!("{answer:?}") };
        last = last.max(*at);
    }
    assert_eq!(answers.len() as u64, held_up);
    assert!(held_up > 450, "{held_up}");
    assert_eq!(memory.dram_counters().writes, 2_000);
    // The last is let in once all but 64 are: no faster than the bus.
    let bus = (2_000.0 - 64.0 - 33.0) * 64.0 / memory.dram_peak_bytes_per_s() * 1e9;
    assert!(last.as_ns() > bus && last.as_ns() < 1.6 * bus, "{} ns, on the bus {bus} ns", last.as_ns());
}

type Op = (u32, u64, u8, u8);

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 96, ..ProptestConfig::default() })]

    /// It does not matter how far the core may look ahead; no miss is more than one read of DRAM.
    #[test]
    fn horizons_do_not_matter_to_answers_that_come_later(
        ops in prop::collection::vec((0u32..60, 0u64..400, 0u8..5, 0u8..5), 1..150),
        rob in 1u32..300, outstanding in 1u32..20, store_buffer in 1u32..8, in_order: bool, drain: bool,
        (standard, channels) in prop::sample::select(vec![
            ("ddr4-2400u", 3), ("ddr5-6400b", 1), ("ddr5-6400b", 2), ("sdram-100-4", 1), ("hbm2-2000", 2),
            ("hmc-2.1-vault", 4), ("gddr5-8000", 1),
        ]),
        page in prop::sample::select(vec!["open", "closed", "adaptive=64"]), tlb: bool,
        prefetcher in prop::option::of(Just(PrefetcherSpec::Stream { degree: 2, distance: 8, streams: 4 })),
        quantum in 0u64..100_000, repeated in prop_oneof![9 => Just(1), 1 => Just(10)],
    ) {
        let model = if in_order { CoreModel::InOrder } else { CoreModel::Window };
        let core_spec = core_spec(model, rob, outstanding, store_buffer);
        let ops: Vec<Op> = ops.repeat(repeated);
        let mut results = Vec::new();
        for quantum in [1 << 40, quantum, 0] {
            let setting = ControllerSetting { writes: (!drain).then(|| "mixed".parse().unwrap()), ..ControllerSetting::default() };
            let setting = ControllerSetting { page: Some(page.parse().unwrap()), ..setting };
            let mut spec = spec(standard, Some(channels), setting);
            spec.prefetcher = prefetcher;
            spec.tlb = tlb.then(|| TlbSpec {
                page: Size::from_bytes(4096),
                l1_entries: 2,
                l1_ways: 2,
                l2_entries: 4,
                l2_ways: 2,
                l2_latency: Span::from_ns(3.0),
                walk_cache: 0,
                walk_latency: None,
                shared_walk_latency: None,
                pages: Default::default(),
                sizes: Vec::new(),
            });
            let mut memory = Hierarchy::new(&spec, 1, "machine").unwrap();
            let mut core = Core::new(&core_spec, CoreId(0), "core").unwrap();
            let mut ends = Vec::new();
            for start in [Ps::ZERO, Ps(1 << 32)] {
                core.script().clear();
                for &(work, line, kind, dep) in &ops {
                    core.script().work(1, work);
                    let access = match kind {
                        0 => Access::Store,
                        1 => Access::Atomic,
                        2 => Access::Prefetch,
                        _ => Access::Load,
                    };
                    core.script().touch(Ref::load(RegionId::FIRST_TABLE, line * 64, 8, 1).with_access(access).after(dep));
                }
                ends.push(replay(&mut core, &mut memory, quantum, start));
            }
            let (counters, dram) = (memory.counters(), memory.dram_counters());
            let forwarded = memory.controllers().unwrap().forwarded();
            prop_assert!(dram.reads + forwarded <= counters.llc.misses);
            prop_assert_eq!(dram.writes, counters.writebacks);
            results.push((ends, counters, dram));
        }
        if tlb {
            // A walk makes its references ahead of time, and an LLC slice takes references in the order in which they
            // are made: what else the core asks for meanwhile comes before or after them by the horizon, a request of
            // the slice apart.
            return Ok(());
        }
        prop_assert_eq!(&results[0], &results[1]);
        prop_assert_eq!(&results[0], &results[2]);
    }
}

#[test]
fn a_cube_has_links_and_their_unloaded_latency() {
    let setting = ControllerSetting { page: Some("closed".parse().unwrap()), ..ControllerSetting::default() };
    let mut memory = hierarchy("hmc-2.1-vault", None, setting);
    let cube = machine::dram::hmc::CubeSpec::default();
    assert_eq!(memory.controllers().unwrap().unloaded_miss(), cube.unloaded_read());
    let response = memory.access(&request(0, 9, Access::Load), Ps::ZERO);
    let expected = LLC + OVERHEAD + cube.unloaded_read().as_ns();
    let clock = cube.clock().as_ns();
    assert!((expected..=expected + clock).contains(&response.at.as_ns()), "{} ns, {expected} ns", response.at.as_ns());
    // Reads that saturate it are bound by the links' answers.
    let mut answers = Vec::new();
    memory.open();
    memory.dma_read(Line(1 << 20), 50_000, Ps::from_ns(1_000));
    assert!(memory.close(Ps::ZERO).is_err());
    while let Some(at) = memory.next() {
        memory.advance(at, &mut answers);
    }
    let [MemoryReply::Device(_, end)] = answers[..] else { panic!("{answers:?}") };
    let rate = 50_000.0 * 64.0 / (end.as_secs() - 1e-6);
    let peak = cube.peak_read_bytes_per_s();
    assert!(rate < peak && rate > 0.97 * peak, "{rate:.3e} of {peak:.3e}");
    let links = memory.dram_report(end).unwrap().links.unwrap();
    assert!(links[1] > 0.93 && links[0] < 0.25, "{links:?}");
}

#[test]
fn copies_by_a_table_wait_for_their_source() {
    let mut spec = spec("ddr4-2400u", None, closed());
    spec.copy_table = Some(CopyTableSpec::default());
    let mut memory = Hierarchy::new(&spec, 2, "machine").unwrap();
    let whole = |line, access| Request { bytes: 64, ..request(0, line, access) };
    let (src, dst) = (whole(3, Access::Load), whole(900, Access::Store));
    assert!(memory.takes_copy(&src, &dst));
    let Reply::Pending(ticket) = memory.copy(&src, &dst, Ps::ZERO) else { panic!("the source is in DRAM") };
    let mut answers = Vec::new();
    while let Some(at) = memory.next() {
        memory.advance(at, &mut answers);
    }
    let [MemoryReply::Core(_, answered, response)] = answers[..] else { panic!("{answers:?}") };
    assert_eq!((answered, response.served), (ticket, Served::Dram));
    assert_eq!(response.path.total(), response.at);
    assert!(response.path.iter().any(|(reason, _)| reason == Reason::Copy));
}

#[test]
fn rows_are_closed_as_the_standard_or_the_devices_say_unless_the_controller_does() {
    let hits = |standard: &str, change: fn(&mut DramSpec, &mut ControllerSetting)| {
        // Lines that follow each other lie in a row.
        let parts = if standard.starts_with("hmc") { "row bank column" } else { "row bank group column" };
        let mut setting =
            ControllerSetting { refresh: "off".parse().unwrap(), map: parts.into(), ..ControllerSetting::default() };
        let mut memory = spec(standard, Some(1), ControllerSetting::default());
        change(&mut memory.dram, &mut setting);
        memory.dram.controller = Some(setting);
        let mut memory = Hierarchy::new(&memory, 1, "machine").unwrap();
        // Two lines of a row, one long after the other.
        for (i, line) in [0u64, 1].into_iter().enumerate() {
            memory.access(&request(0, line, Access::Load), Ps(1_000_000 * (i as u64 + 1)));
        }
        let report = memory.dram_report(Ps(3_000_000)).unwrap().report;
        (report.row_hits, report.row_misses)
    };
    let nothing = |_: &mut DramSpec, _: &mut ControllerSetting| {};
    assert_eq!(hits("ddr4-2400u", nothing), (1, 1));
    assert_eq!(hits("hmc-2.1-vault", nothing), (0, 2));
    assert_eq!(hits("ddr4-2400u", |dram, _| dram.page = PagePolicy::Closed), (0, 2));
    assert_eq!(hits("hmc-2.1-vault", |dram, _| dram.page = PagePolicy::Open), (1, 1));
    assert_eq!(hits("ddr4-2400u", |_, c| c.page = Some("closed".parse().unwrap())), (0, 2));
    assert_eq!(hits("hmc-2.1-vault", |_, c| c.page = Some("open".parse().unwrap())), (1, 1));
}

#[test]
fn contradictions_are_named() {
    let bad = |standard: Option<&str>, change: fn(&mut DramSpec, &mut ControllerSetting)| {
        let mut memory = spec(standard.unwrap_or("ddr4-2400u"), Some(6), ControllerSetting::default());
        let mut setting = ControllerSetting::default();
        change(&mut memory.dram, &mut setting);
        memory.dram.controller = Some(setting);
        Hierarchy::new(&memory, 1, "machine").unwrap_err().to_string()
    };
    for (text, expected) in [
        (
            bad(None, |dram, _| dram.standard = None),
            "machine.dram.controller = no standard: allowed is with dram.standard, one of sdram-100-2, ",
        ),
        (bad(None, |dram, _| dram.t_cl = Span::from_ns(20.0)), "machine.dram.t_cl = 20 ns: allowed is the standard's "),
        (
            bad(None, |dram, _| dram.banks = 8),
            "machine.dram.banks = 8: allowed is the standard's 16, or as many for each",
        ),
        (
            bad(None, |_, c| c.map = "row bank channel column group".into()),
            "machine.dram.controller.map = \"row bank channel column group\" over 6 channels: allowed is channel as",
        ),
        (bad(None, |_, c| c.map = "row bank column".into()), "machine.dram.controller.map = group of 0 bits"),
        (bad(None, |_, c| c.queue = 0), "machine.dram.controller.queue = 0 with 32 for writes: allowed is 1 to 128"),
        (
            bad(None, |_, c| c.refresh = "per-bank".parse().unwrap()),
            "machine.dram.controller.refresh = per-bank refresh of ddr4-2400u: allowed is standards with RFC_B",
        ),
        (
            bad(None, |dram, c| {
                dram.page = PagePolicy::Closed;
                c.page = Some("open".parse().unwrap());
            }),
            "machine.dram.controller.page = open with machine.dram.page = closed: allowed is one that says the same",
        ),
        (
            bad(Some("hmc-2.1-vault"), |dram, c| {
                dram.page = PagePolicy::Open;
                c.page = Some("closed".parse().unwrap());
            }),
            "machine.dram.controller.page = closed with machine.dram.page = open: allowed is one that says the same",
        ),
        (
            bad(None, |_, c| c.links = Some(Default::default())),
            "machine.dram.controller.links = links with ddr4-2400u: allowed is with an HMC standard",
        ),
    ] {
        assert!(text.starts_with(expected), "{text}");
    }
}

/// All of `lines` are asked for at `now`, each by a request of its own: their answers, in the order of asking.
fn all_at_once(memory: &mut Hierarchy, lines: &[(u64, Access)], now: Ps) -> Vec<machine::Response> {
    let mut found = vec![None; lines.len()];
    let mut tickets = std::collections::HashMap::new();
    for (i, &(line, access)) in lines.iter().enumerate() {
        let request = request(0, line, access);
        let lookup = memory.lookup(&request);
        assert_eq!(lookup.hit, None);
        match memory.fetch(&request, &lookup, now) {
            Reply::Pending(ticket) => assert_eq!(tickets.insert(ticket, i), None),
            other => panic!("{other:?}"),
        }
    }
    let mut answers = Vec::new();
    while let Some(at) = memory.next() {
        memory.advance(at, &mut answers);
        for answer in answers.drain(..) {
            let MemoryReply::Core(_, ticket, response) = answer else { panic!("no device asks") };
            found[tickets[&ticket]] = Some(response);
        }
    }
    found.into_iter().map(|response| response.expect("each is answered")).collect()
}

#[test]
fn a_wait_for_dram_is_divided_by_what_the_bus_did() {
    let map = "row bank group column";
    let setting = || ControllerSetting {
        map: map.into(),
        order: "fr-fcfs".parse().unwrap(),
        writes: Some("mixed".parse().unwrap()),
        refresh: "off".parse().unwrap(),
        ..ControllerSetting::default()
    };
    let of = |setting: ControllerSetting, lines: &[(u64, Access)], now: Ps| {
        let mut memory = hierarchy("ddr4-2400u", Some(1), setting);
        let mut waits = std::collections::HashMap::new();
        for response in all_at_once(&mut memory, lines, now) {
            assert_eq!(response.path.total(), response.at - now, "{:?}", response.path);
            for (reason, time) in response.path.iter() {
                *waits.entry(reason).or_insert(Ps::ZERO) += time;
            }
        }
        move |reason| waits.get(&reason).copied().unwrap_or(Ps::ZERO)
    };
    let load = Access::Load;
    let lines_of_row = 128;
    // One alone waits for nobody: the way there and back, and a clock in the register.
    let alone = of(setting(), &[(0, load)], Ps::ZERO);
    for reason in [Reason::Bus, Reason::BankBusy, Reason::Turnaround, Reason::Refresh] {
        assert_eq!(alone(reason), Ps::ZERO, "{reason:?}");
    }
    let clock = 1.0 / 1.2;
    assert!((alone(Reason::DramPath).as_ns() - OVERHEAD).abs() < 1e-9 && alone(Reason::DramQueue).as_ns() <= clock);
    // 32 of one row: each waits for the data of those before it, and for tCCD_L between them.
    let row: Vec<_> = (0..32).map(|i| (i, load)).collect();
    let stream = of(setting(), &row, Ps::ZERO);
    let waited = (0..32).sum::<u64>() as f64 * 6.0 / 1.2;
    assert!((stream(Reason::Bus).as_ns() / waited - 1.0).abs() < 0.05, "{} {waited}", stream(Reason::Bus));
    assert_eq!((stream(Reason::Turnaround), stream(Reason::Refresh)), (Ps::ZERO, Ps::ZERO));
    // Rows of one bank in turn: the bank is what everybody waits for.
    let rows: Vec<_> = (0..32).map(|i| (i * lines_of_row * 16, load)).collect();
    let conflicts = of(setting(), &rows, Ps::ZERO);
    assert!(conflicts(Reason::BankBusy).0 > 8 * conflicts(Reason::Bus).0);
    assert!(conflicts(Reason::BankBusy).0 > 8 * conflicts(Reason::DramQueue).0);
    // What comes as a refresh falls due waits for it: tRFC and no more than what closes and opens rows.
    let refreshed = ControllerSetting { refresh: "all-bank".parse().unwrap(), ..setting() };
    let refi = 9360.0 / 1.2;
    let waits = of(refreshed, &[(0, load)], Ps((refi * 1e3) as u64));
    let rfc = f64::from(presets::preset("ddr4-2400u").unwrap().timings["RFC"]) / 1.2;
    let refresh = waits(Reason::Refresh).as_ns();
    assert!(refresh <= rfc + 1.0 && refresh > rfc - LLC - OVERHEAD, "{refresh} {rfc}");
}

#[test]
fn a_read_between_writes_waits_for_the_bus_to_turn() {
    let setting = ControllerSetting {
        map: "row bank group column".into(),
        writes: Some("mixed".parse().unwrap()),
        refresh: "off".parse().unwrap(),
        ..ControllerSetting::default()
    };
    let mut memory = hierarchy("ddr4-2400u", Some(1), setting);
    // Without I/O ways each write goes to DRAM.
    memory.set_io_ways(units::Cbm(0)).unwrap();
    memory.open();
    memory.dma_write(Line(0), 8, Ps::ZERO);
    let _ = memory.close(Ps::ZERO);
    let found = all_at_once(&mut memory, &[(64, Access::Load), (65, Access::Load)], Ps(1000));
    let turn = found[0].path.iter().find(|(reason, _)| *reason == Reason::Turnaround);
    let standard = presets::preset("ddr4-2400u").unwrap();
    let t = |name: &str| f64::from(standard.timings[name]) / 1.2;
    // Nobody's data are on the bus from the last write's to the read's: CWL, burst and tWTR_L before the command.
    let expected = t("WTR_L") + t("CL");
    let (_, turn) = turn.expect("the bus turned");
    assert!((turn.as_ns() - expected).abs() < 1.0, "{} {expected}", turn.as_ns());
    assert_eq!(found[0].path.total(), found[0].at - Ps(1000));
}
