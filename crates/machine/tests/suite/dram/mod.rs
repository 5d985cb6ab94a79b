//! The DRAM engine against a clock-by-clock twin, an independent checker, closed forms and
//! measurements of other simulators.

use machine::dram::checker::{Checker, Issued};
use machine::dram::hmc::{self, CubeSpec};
use machine::dram::map::{AddressField, AddressMap, Decoder};
use machine::dram::policy::{BatchBy, ControllerSpec, Order, Page, Refresh, Writes};
use machine::dram::presets;
use machine::dram::simulate::{
    DramOutcome, DramRecordOptions, DramTrace, Isa, RequestArrivals, simulate, simulate_with,
};
use machine::dram::standard::{DramCommand, Standard};
use proptest::prelude::*;
use units::Ps;

use crate::traces;
use naive::{Naive, Request};

mod cube;
mod naive;

const ALL: DramRecordOptions = DramRecordOptions { accepted: true, commands: true };

fn map(standard: &Standard) -> AddressMap {
    AddressMap::ordered(standard, "row rank bank group column channel").unwrap()
}

fn engine(standard: &Standard, spec: &ControllerSpec, requests: &[Request], isa: Isa) -> DramOutcome {
    let addresses: Vec<u64> = requests.iter().map(|r| r.address).collect();
    let writes: Vec<bool> = requests.iter().map(|r| r.write).collect();
    let offered: Vec<u64> = requests.iter().map(|r| r.offered).collect();
    let trace = DramTrace { addresses: &addresses, writes: &writes, arrivals: RequestArrivals::At(&offered) };
    simulate_with(isa, standard, &map(standard), spec, &trace, ALL).unwrap()
}

fn audit(standard: &Standard, refreshes: bool, outcome: &DramOutcome) -> Result<(), String> {
    for commands in &outcome.commands {
        let mut checker = Checker::new(standard, refreshes).unwrap();
        for &command in commands {
            checker.issue(command)?;
        }
    }
    Ok(())
}

/// One channel of a preset, small enough for a clock-by-clock twin: refreshes come often.
fn small(name: &str, ranks: u32) -> Standard {
    let mut standard = presets::preset(name).unwrap();
    standard.channels = 1;
    standard.ranks = ranks;
    let t = &mut standard.timings;
    t.insert("RFC".into(), t["RFC"].min(90));
    t.insert("REFI".into(), t["RFC"] * 5);
    if let Some(clocks) = t.get_mut("RFC_B") {
        *clocks = 37.min(*clocks);
    }
    if let Some(clocks) = t.get_mut("PBR2PBR") {
        *clocks = 20.min(*clocks);
    }
    if t.contains_key("RFC_SB") {
        t.extend([("RFC_SB".into(), 61), ("REFSBRD".into(), 33), ("REFI2".into(), t["RFC"] * 4)]);
    }
    standard
}

fn standards() -> impl Strategy<Value = Standard> {
    (0..presets::NAMES.len(), prop::bool::ANY).prop_map(|(i, two)| {
        let name = presets::NAMES[i];
        small(name, if two && name.starts_with("ddr") && !name.starts_with("ddr5") { 2 } else { 1 })
    })
}

fn specs() -> impl Strategy<Value = ControllerSpec> {
    let prefetch = 0u32..4;
    let order = prop_oneof![
        6 => prop_oneof![Just(0u32), 1u32..5].prop_map(|cap| Order::FrFcfs { cap }),
        1 => prefetch.clone().prop_map(|prefetch| Order::Fcfs { prefetch }),
        2 => (prop::bool::ANY, 1u32..6, prefetch).prop_map(|(parity, size, prefetch)| Order::Batch {
            by: if parity { BatchBy::BankParity } else { BatchBy::Direction },
            size,
            prefetch,
        }),
    ];
    let writes = prop_oneof![
        Just(Writes::Mixed),
        (2u32..20, 0.0f64..1.0, 0.0f64..1.0).prop_map(|(queue, high, low)| {
            let high = 1 + (f64::from(queue - 1) * high) as u32;
            Writes::Drain { queue, high, low: (f64::from(high - 1) * low) as u32 }
        }),
    ];
    let page =
        prop_oneof![Just(Page::Open), Just(Page::Closed), (16u32..200).prop_map(|timeout| Page::Adaptive { timeout })];
    let refresh =
        prop_oneof![Just(Refresh::Off), Just(Refresh::AllBank), Just(Refresh::PerBank), Just(Refresh::SameBank)];
    (1u32..40, order, writes, page, refresh).prop_map(|(queue, order, writes, page, refresh)| ControllerSpec {
        queue,
        order,
        writes: if matches!(order, Order::FrFcfs { .. }) { writes } else { Writes::Mixed },
        page,
        refresh,
    })
}

/// Requests to few rows of all banks, in bursts and with pauses.
fn requests(most: usize) -> impl Strategy<Value = Vec<(u64, u8, u8, bool)>> {
    let gap = prop_oneof![6 => Just(0u64), 3 => 0u64..12, 1 => 0u64..400];
    prop::collection::vec((gap, any::<u8>(), 0u8..12, any::<bool>()), 1..most)
}

fn place(standard: &Standard, list: &[(u64, u8, u8, bool)], write_share: u8) -> Vec<Request> {
    let lines = u64::from(standard.row_bytes / 64);
    let banks = u64::from(standard.banks_per_channel());
    let mut offered = 0;
    list.iter()
        .map(|&(gap, bank, row, write)| {
            offered += gap;
            // Few columns, so that reads meet queued writes.
            let (bank, column) = (u64::from(bank) % banks, u64::from(row) % lines.min(4));
            let address = ((u64::from(row / 4) * banks + bank) * lines + column) * 64;
            Request { address, write: write && row % 4 < write_share, offered }
        })
        .collect()
}

/// The engine issues what the twin issues, nothing breaks a rule, and the bus's time adds up.
fn agree(standard: &Standard, spec: &ControllerSpec, requests: &[Request]) -> Result<(), TestCaseError> {
    let decoder = Decoder::new(&map(standard), standard).unwrap();
    let twin = Naive::run(standard, spec, &decoder, requests);
    for isa in [Isa::Portable, Isa::best()] {
        let outcome = engine(standard, spec, requests, isa);
        let commands = &outcome.commands[0];
        for (i, (engine, naive)) in commands.iter().zip(&twin.commands).enumerate() {
            prop_assert_eq!(engine, naive, "command {} of {} with {:?}", i, standard.name, spec);
        }
        prop_assert_eq!(&outcome.accepted, &twin.accepted);
        prop_assert_eq!(&outcome.completions, &twin.completions);
        // Both stop at the last column command; the twin ends that clock.
        prop_assert!(commands.len().abs_diff(twin.commands.len()) <= 1);
        prop_assert_eq!(audit(standard, spec.refresh != Refresh::Off, &outcome), Ok(()));
        let causes = outcome.report.clocks_by_cause;
        prop_assert_eq!(causes.iter().sum::<u64>(), outcome.report.clocks, "{:?}", causes);
    }
    Ok(())
}

fn refreshable(standard: &Standard, spec: ControllerSpec) -> ControllerSpec {
    let refresh = if has(standard, spec.refresh) { spec.refresh } else { Refresh::AllBank };
    ControllerSpec { refresh, ..spec }
}

/// Whether a standard has this refresh.
fn has(standard: &Standard, refresh: Refresh) -> bool {
    match refresh {
        Refresh::Off | Refresh::AllBank => true,
        Refresh::PerBank => standard.timings.contains_key("RFC_B"),
        Refresh::SameBank => standard.timings.contains_key("RFC_SB"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_engine_matches_naive_clock_by_clock(
        standard in standards(),
        spec in specs(),
        list in requests(160),
        write_share in 0u8..5,
    ) {
        agree(&standard, &refreshable(&standard, spec), &place(&standard, &list, write_share))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    #[ignore = "minutes: 25 times as many cases as above, and longer ones"]
    fn the_engine_matches_naive_for_long(
        standard in standards(),
        spec in specs(),
        list in requests(600),
        write_share in 0u8..5,
    ) {
        agree(&standard, &refreshable(&standard, spec), &place(&standard, &list, write_share))?;
    }
}

/// A mix that brings every pair of commands close to each other: bursts to few banks and rows, reads
/// and writes, from calm to crowded.
fn torture(standard: &Standard, count: usize, seed: u64) -> Vec<Request> {
    let mut state = seed;
    let mut draw = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let banks = u64::from(standard.banks_per_channel());
    let lines = u64::from(standard.row_bytes / 64);
    let (mut offered, mut focus, mut writes, mut calm) = (0, banks, 50, 1);
    (0..count)
        .map(|i| {
            if i % 64 == 0 {
                focus = [1, 2, 4, banks, banks, banks][draw(6) as usize].min(banks);
                writes = [0, 10, 50, 90, 100][draw(5) as usize];
                calm = [1, 1, 3, 30, 120][draw(5) as usize];
            }
            offered += draw(calm);
            let (bank, row) = (draw(focus) * (banks / focus) % banks, draw(3));
            let address = ((row * banks + bank) * lines + draw(lines)) * 64;
            Request { address, write: draw(100) < writes, offered }
        })
        .collect()
}

/// All ways to shorten a timing by a clock: its name in every row.
fn shortened(standard: &Standard, name: &str) -> Standard {
    let mut mutant = standard.clone();
    for row in &mut mutant.constraints {
        if standard.clocks(row) == Ok(0) {
            continue;
        }
        let words: Vec<String> = row.clocks.split_whitespace().map(String::from).collect();
        let minus = |i: usize| i > 0 && words[i - 1] == "-";
        row.clocks = (0..words.len())
            .map(|i| match (words[i] == name, minus(i)) {
                (true, false) => format!("{name} - 1"),
                (true, true) => format!("{name} + 1"),
                _ => words[i].clone(),
            })
            .collect::<Vec<_>>()
            .join(" ");
    }
    mutant
}

#[test]
fn every_preset_passes_the_checker_and_a_timing_that_is_a_clock_short_is_caught() {
    let mut wrong = Vec::new();
    for name in presets::NAMES {
        let mut standard = presets::preset(name).unwrap();
        standard.channels = 1;
        standard.check().unwrap();
        if standard.timings.contains_key("RTRS") {
            standard.ranks = 2;
        }
        // Often enough for every kind of command to meet a refresh.
        let often = standard.timings["RFC"] * 5;
        standard.timings.insert("REFI".into(), often);
        if let Some(clocks) = standard.timings.get_mut("REFI2") {
            *clocks = often / 2;
        }
        let specs: Vec<ControllerSpec> = [Page::Open, Page::Closed]
            .into_iter()
            .flat_map(|page| [Refresh::AllBank, Refresh::PerBank, Refresh::SameBank].map(|refresh| (page, refresh)))
            .filter(|&(_, refresh)| has(&standard, refresh))
            .map(|(page, refresh)| ControllerSpec { page, refresh, ..ControllerSpec::default() })
            .collect();
        let requests = torture(&standard, 6000, 7);
        for spec in &specs {
            audit(&standard, true, &engine(&standard, spec, &requests, Isa::best())).unwrap();
        }
        for timing in standard.timings.keys() {
            let mutant = shortened(&standard, timing);
            if mutant.constraints == standard.constraints || standard.timings[timing] == 0 {
                continue;
            }
            let caught = specs
                .iter()
                .any(|spec| audit(&standard, true, &engine(&mutant, spec, &requests, Isa::best())).is_err());
            if caught == implied(&standard, timing) {
                wrong.push(format!("{name}: {timing}"));
            }
        }
    }
    assert!(wrong.is_empty(), "a clock short and not caught, or caught though other rows imply it: {wrong:?}");
}

/// Whether other rows keep a timing that is a clock short.
fn implied(standard: &Standard, timing: &str) -> bool {
    let t = |name: &str| standard.timings.get(name).copied().unwrap_or(0);
    match timing {
        // tRAS and tRP make up the bank's cycle.
        "RC" => t("RC") <= t("RAS") + t("RP"),
        // Four activates are that far apart anyway.
        "FAW" => t("FAW") <= 4 * t("RRD_S"),
        // The rule of the rank is as long.
        "RRD_L" => t("RRD_L") <= t("RRD_S"),
        "WTR_L" => t("WTR_L") <= t("WTR_S"),
        _ => false,
    }
}

#[test]
fn unloaded_latency_and_peak_are_those_of_the_formulas() {
    for name in presets::NAMES {
        let standard = presets::preset(name).unwrap();
        let spec = ControllerSpec { refresh: Refresh::Off, ..ControllerSpec::default() };
        let one = [Request { address: 0, write: false, offered: 1000 }];
        let outcome = engine(&standard, &spec, &one, Isa::best());
        // One clock in the ingress register.
        let unloaded = u64::from(1 + standard.unloaded_read(standard.bursts(64)));
        assert_eq!(outcome.completions[0] - outcome.accepted[0], unloaded, "{name}");

        // Row hits that take bank groups in turn keep the data bus busy.
        let map = AddressMap::ordered(&standard, "row rank column bank group channel").unwrap();
        let count = 20_000 * u64::from(standard.channels);
        let run = |addresses: &[u64]| {
            let trace = DramTrace { addresses, writes: &[], arrivals: RequestArrivals::Saturated };
            simulate(&standard, &map, &spec, &trace, DramRecordOptions::default()).unwrap().report
        };
        // Within one row of each bank, so nothing but the start is missing of the peak.
        let open = u64::from(standard.channels * standard.groups * standard.banks) * u64::from(standard.row_bytes);
        let report = run(&(0..count).map(|i| i * 64 % open).collect::<Vec<_>>());
        let share = report.bytes_per_s / standard.peak_bytes_per_s();
        assert!((share - report.shares.data).abs() < 1e-12, "{name}: {share}");
        assert!(share > 0.999 && share <= 1.0, "{name}: {share}, {:?}", report.shares);
        let through = run(&(0..count).map(|i| i * 64).collect::<Vec<_>>());
        assert!(through.shares.data > 0.9, "{name}: {:?}", through.shares);
        let s = report.shares;
        let sum = s.data + s.turnaround + s.bank_group + s.row_miss + s.bank_conflict + s.refresh + s.idle;
        assert!((sum - 1.0).abs() < 1e-12, "{name}: {sum}");
    }
}

#[test]
fn littles_law_holds_of_every_preset_and_controller() {
    let orders = [Order::FrFcfs { cap: 4 }, Order::Fcfs { prefetch: 1 }];
    let drain = Writes::Drain { queue: 16, high: 12, low: 4 };
    for name in presets::NAMES {
        let mut standard = presets::preset(name).unwrap();
        standard.channels = 1;
        for (seed, order) in (3..).zip(orders) {
            let writes = if seed == 3 { drain } else { Writes::Mixed };
            let spec = ControllerSpec { order, writes, page: standard.page, ..ControllerSpec::default() };
            let requests = torture(&standard, 4000, seed);
            let outcome = engine(&standard, &spec, &requests, Isa::best());
            // Count the requests inside at every clock; compare with rate times mean latency.
            let end = *outcome.completions.iter().max().unwrap();
            let mut change = vec![0i64; end as usize + 1];
            for (&accepted, &done) in outcome.accepted.iter().zip(&outcome.completions) {
                change[accepted as usize] += 1;
                change[done as usize] -= 1;
            }
            let mut inside = 0;
            let area: i64 = change
                .iter()
                .map(|c| {
                    inside += c;
                    inside
                })
                .sum();
            let report = &outcome.report;
            let (reads, writes) = (report.read_latency, report.write_latency);
            let waited = reads.mean * reads.n as f64 + writes.mean * writes.n as f64;
            assert_eq!(reads.n + writes.n, 4000);
            assert!((area as f64 - waited).abs() < 0.5, "{name} {order:?}: {area} and {waited}");
        }
    }
}

#[test]
fn other_simulators_find_the_same_bandwidth_and_latency() {
    // 200k requests of the reference's million: the difference is below 0.2 %.
    let standard = presets::ddr4_2400u();
    let map = AddressMap::ordered(&standard, "row bank group column").unwrap();
    let run = |trace: &traces::Trace, arrivals| {
        let trace = DramTrace { addresses: &trace.addresses, writes: &trace.writes, arrivals };
        simulate(&standard, &map, &ControllerSpec::default(), &trace, DramRecordOptions::default()).unwrap().report
    };
    let within = |what: &str, value: f64, agreed: f64, tolerance: f64| {
        assert!((value / agreed - 1.0).abs() <= tolerance, "{what}: {value} and {agreed}");
    };
    let stream = run(&traces::stream(200_000), RequestArrivals::Saturated);
    within("stream GB/s", stream.bytes_per_s / 1e9, (14.325 + 14.289 + 14.30) / 3.0, 0.01);
    within("stream clocks", stream.read_latency.mean, (192.8 + 197.4 + 198.1) / 3.0, 0.05);
    let random = run(&traces::random(200_000), RequestArrivals::Saturated);
    within("random GB/s", random.bytes_per_s / 1e9, (11.081 + 11.118 + 11.12) / 3.0, 0.01);
    within("random clocks", random.read_latency.mean, (259.9 + 248.0 + 248.7) / 3.0, 0.08);
    let low = run(&traces::stream(200_000), RequestArrivals::Every(20));
    within("low-load clocks", low.read_latency.mean, (38.48 + 38.19 + 38.95) / 3.0, 0.02);
    // The map gives a stream one bank group at a time, and the report says that this is what it costs.
    assert!(stream.shares.bank_group > 0.15, "{:?}", stream.shares);
    let mixed = run(&traces::mix16b(50_000), RequestArrivals::Saturated);
    assert!(mixed.shares.turnaround > 0.02, "{:?}", mixed.shares);
}

#[test]
fn long_pauses_are_skipped_exactly() {
    let standard = small("ddr4-2400u", 1);
    for refresh in [Refresh::Off, Refresh::AllBank] {
        let spec = ControllerSpec { refresh, page: Page::Closed, ..ControllerSpec::default() };
        let refi = u64::from(standard.timings["REFI"]);
        let runs = [40_000_000 * refi, 200 * refi].map(|pause| {
            let requests: Vec<Request> = (0..200)
                .map(|i| Request { address: i * 8192 * 5, write: i % 3 == 0, offered: i / 40 * pause + i % 40 })
                .collect();
            let addresses: Vec<u64> = requests.iter().map(|r| r.address).collect();
            let writes: Vec<bool> = requests.iter().map(|r| r.write).collect();
            let offered: Vec<u64> = requests.iter().map(|r| r.offered).collect();
            let trace = DramTrace { addresses: &addresses, writes: &writes, arrivals: RequestArrivals::At(&offered) };
            let outcome = simulate(&standard, &map(&standard), &spec, &trace, DramRecordOptions::default()).unwrap();
            let causes = outcome.report.clocks_by_cause;
            assert_eq!(causes.iter().sum::<u64>(), outcome.report.clocks);
            if refresh == Refresh::AllBank {
                assert_eq!(outcome.report.refreshes, outcome.report.clocks / refi);
            }
            outcome.completions.iter().zip(&offered).map(|(done, offered)| done - offered).collect::<Vec<_>>()
        });
        assert_eq!(runs[0], runs[1]);
    }
}

#[test]
fn a_cube_meets_its_formulas() {
    let spec = CubeSpec::default();
    let map = AddressMap::ordered(&spec.vaults, "row column bank channel").unwrap();
    let run = |addresses: &[u64], writes: &[bool], arrivals| {
        hmc::simulate(&spec, &map, &DramTrace { addresses, writes, arrivals }).unwrap()
    };
    let one = run(&[0], &[], RequestArrivals::At(&[1000]));
    let late = spec.flit().0.next_multiple_of(spec.clock().0) - spec.flit().0;
    assert_eq!(one.completions[0] - Ps(1000 * spec.clock().0), spec.unloaded_read() + Ps(late));

    let addresses: Vec<u64> = (0..100_000u64).map(|i| i * 64).collect();
    let reads = run(&addresses, &[], RequestArrivals::Saturated);
    assert_eq!(reads.completions.len(), reads.read_latency.n as usize);
    // The answers' flits fill the links.
    let share = reads.bytes_per_s / spec.peak_read_bytes_per_s();
    assert!(share > 0.97 && share <= 1.0, "{share} {:?}", reads.link_shares);
    assert!((reads.link_shares[1] - share).abs() < 0.001, "{:?}", reads.link_shares);
    let random: Vec<u64> = traces::random(50_000).addresses;
    let mixed: Vec<bool> = (0..random.len()).map(|i| i % 3 == 0).collect();
    let low = run(&random, &mixed, RequestArrivals::Every(50));
    let mean = low.read_latency.mean / spec.unloaded_read().0 as f64;
    assert!((1.0..1.35).contains(&mean), "{mean}");
    let high = run(&random, &mixed, RequestArrivals::Saturated);
    assert!(high.bytes_per_s > 3.0 * low.bytes_per_s);
    assert_eq!(high.read_latency.n + high.write_latency.n, 50_000);
}

/// Cubes of few vaults and links, whose refreshes come often and whose tags run out.
fn cubes() -> impl Strategy<Value = CubeSpec> {
    let lanes = prop_oneof![Just((16u32, 25u32)), Just((8, 25)), Just((16, 10)), Just((8, 10)), Just((16, 20))];
    let shape = (1u32..5, 0u32..4, 1u32..8, prop_oneof![1u32..4, Just(128u32)]);
    (specs(), lanes, shape).prop_map(|(controller, (lanes, lane_gbps), (links, vaults, crossbar, tags))| {
        let preset = CubeSpec::default();
        let mut standard = Standard { channels: 1 << vaults, ..preset.vaults };
        let t = &mut standard.timings;
        t.insert("RFC".into(), t["RFC"].min(90));
        t.insert("REFI".into(), t["RFC"] * 5);
        let controller = refreshable(&standard, controller);
        CubeSpec { vaults: standard, controller, links, lanes, lane_gbps, crossbar, tags }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_cube_sends_and_answers_as_tick_by_tick(
        spec in cubes(),
        list in prop::collection::vec((prop_oneof![6 => Just(0u64), 3 => 0u64..12, 1 => 0u64..400], any::<u16>(), 0u8..12, any::<bool>()), 1..120),
    ) {
        let map = AddressMap::ordered(&spec.vaults, "row column bank channel").unwrap();
        let decoder = Decoder::new(&map, &spec.vaults).unwrap();
        let lines = u64::from(spec.vaults.row_bytes / 64);
        let (vaults, banks) = (u64::from(spec.vaults.channels), u64::from(spec.vaults.banks_per_channel()));
        let mut offered = 0;
        let requests: Vec<Request> = list
            .iter()
            .map(|&(gap, place, row, write)| {
                offered += gap;
                // Few rows and columns, so that requests meet in a vault.
                let (vault, bank) = (u64::from(place) % vaults, u64::from(place) / vaults % banks.min(4));
                let line = (u64::from(row / 4) * lines + u64::from(row) % lines.min(4)) * banks + bank;
                Request { address: (line * vaults + vault) * 64, write, offered }
            })
            .collect();
        let (sent, answered) = cube::run(&spec, &decoder, &requests);
        let addresses: Vec<u64> = requests.iter().map(|r| r.address).collect();
        let writes: Vec<bool> = requests.iter().map(|r| r.write).collect();
        let offered: Vec<u64> = requests.iter().map(|r| r.offered).collect();
        let trace = DramTrace { addresses: &addresses, writes: &writes, arrivals: RequestArrivals::At(&offered) };
        let outcome = hmc::simulate(&spec, &map, &trace).unwrap();
        prop_assert_eq!(&outcome.sent, &sent);
        prop_assert_eq!(&outcome.completions, &answered);
    }
}

#[test]
fn policies_do_what_they_are_for() {
    let standard = presets::sdram_100(4);
    let map = AddressMap::ordered(&standard, "row bank column").unwrap();
    let run = |standard: &Standard, map: &AddressMap, spec: ControllerSpec, trace: &traces::Trace, arrivals| {
        let trace = DramTrace { addresses: &trace.addresses, writes: &trace.writes, arrivals };
        simulate(standard, map, &spec, &trace, DramRecordOptions::default()).unwrap().report
    };
    // A packet buffer: writes along one stream, reads along another.
    let n = 20_000u64;
    let buffer = traces::Trace {
        addresses: (0..n).map(|i| if i % 2 == 0 { i * 32 } else { (1 << 23) + 4096 * 5 + i / 2 * 64 }).collect(),
        writes: (0..n).map(|i| i % 2 == 0).collect(),
    };
    let ordered = |order| ControllerSpec { order, refresh: Refresh::Off, ..ControllerSpec::default() };
    let saturated = |order| run(&standard, &map, ordered(order), &buffer, RequestArrivals::Saturated).bytes_per_s;
    let by = BatchBy::Direction;
    let fcfs = saturated(Order::Fcfs { prefetch: 0 });
    let batched = saturated(Order::Batch { by, size: 4, prefetch: 0 });
    let prefetched = saturated(Order::Batch { by, size: 4, prefetch: 1 });
    assert!(batched > 1.02 * fcfs && prefetched > batched, "{fcfs} {batched} {prefetched}");

    // DDR4: a cap bounds how long a request waits behind hits; drains save turnarounds.
    let standard = presets::ddr4_2400u();
    let map = AddressMap::ordered(&standard, "row bank group column").unwrap();
    let mixed = traces::mix16b(60_000);
    let spec = ControllerSpec::default();
    let drained = |queue, high, low| {
        let writes = Writes::Drain { queue, high, low };
        run(&standard, &map, ControllerSpec { writes, ..spec }, &mixed, RequestArrivals::Saturated)
    };
    let (shallow, deep) = (drained(16, 12, 8), drained(64, 60, 8));
    assert!(shallow.drain_switches > 3 * deep.drain_switches);
    assert!(shallow.shares.turnaround > 2.0 * deep.shares.turnaround, "{:?} {:?}", shallow.shares, deep.shares);
    assert!(deep.bytes_per_s > shallow.bytes_per_s);
    let hot = traces::Trace {
        // One row's hits with a conflict in between.
        addresses: (0..20_000u64)
            .map(|i| if i % 50 == 0 { (1 << 20) + i * (1 << 17) % (1 << 30) } else { i % 128 * 64 })
            .collect(),
        writes: Vec::new(),
    };
    let free = run(&standard, &map, spec, &hot, RequestArrivals::Saturated);
    let capped = run(
        &standard,
        &map,
        ControllerSpec { order: Order::FrFcfs { cap: 4 }, ..spec },
        &hot,
        RequestArrivals::Saturated,
    );
    assert!(capped.read_latency.max < free.read_latency.max, "{:?} {:?}", capped.read_latency, free.read_latency);
    // Random rows at low load: a closed bank beats one with another row open; a stream wants it open.
    let low = |page, trace: &traces::Trace| {
        run(&standard, &map, ControllerSpec { page, ..spec }, trace, RequestArrivals::Every(97)).read_latency.mean
    };
    let (random, stream) = (traces::random(5000), traces::stream(5000));
    assert!(low(Page::Closed, &random) < low(Page::Open, &random) - 10.0);
    assert!(low(Page::Open, &stream) < low(Page::Closed, &stream) - 10.0);
    let adaptive = Page::Adaptive { timeout: 128 };
    assert!(low(adaptive, &random) < low(Page::Open, &random) - 5.0);
    assert!(low(adaptive, &stream) < low(Page::Closed, &stream) - 5.0);
}

#[test]
fn energy_is_what_the_currents_say() {
    let standard = presets::ddr4_2400u();
    let requests: Vec<Request> =
        (0..100).map(|i| Request { address: i * (1 << 17), write: i % 2 == 1, offered: i * 1000 }).collect();
    let outcome = engine(&standard, &ControllerSpec::default(), &requests, Isa::best());
    let energy = outcome.report.energy.unwrap();
    // 8 devices, 1.2 V; 50 read bursts of 4 clocks at 135 - 43 mA above standby.
    let expected = 50.0 * 4.0 / 1200.0 * 8.0 * 1.2 * (135.0 - 43.0);
    assert!((energy.read - expected).abs() < 1e-9, "{} {expected}", energy.read);
    assert!(energy.activate > 0.0 && energy.background > energy.read && energy.total() > energy.background);
    assert_eq!(outcome.report.heat.iter().flatten().sum::<u64>(), 100);
}

/// What a saturated mix comes to, or nothing where it does not end.
fn ends(standard: &Standard, spec: &ControllerSpec, seed: u64) -> Option<u64> {
    let (standard, spec) = (standard.clone(), *spec);
    let (done, waits) = std::sync::mpsc::channel();
    // Left behind where it does not end: the test has failed by then.
    std::thread::spawn(move || {
        let mut standard = standard;
        standard.channels = 1;
        let outcome = engine(&standard, &spec, &torture(&standard, 300, seed), Isa::best());
        let _ = done.send(outcome.report.clocks);
    });
    waits.recv_timeout(std::time::Duration::from_secs(20)).ok()
}

#[test]
fn whatever_passes_the_checks_ends_at_the_shortest_refresh_interval_that_does() {
    for name in presets::NAMES {
        for refresh in [Refresh::AllBank, Refresh::PerBank, Refresh::SameBank] {
            let shipped = presets::preset(name).unwrap();
            if !has(&shipped, refresh) {
                continue;
            }
            let (every, takes) = match refresh {
                Refresh::PerBank => ("REFI", "RFC_B"),
                Refresh::SameBank => ("REFI2", "RFC_SB"),
                _ => ("REFI", "RFC"),
            };
            let map = map(&shipped);
            for (page, order) in [
                (Page::Open, Order::FrFcfs { cap: 0 }),
                (Page::Closed, Order::Fcfs { prefetch: 2 }),
                (Page::Open, Order::Batch { by: BatchBy::Direction, size: 4, prefetch: 0 }),
            ] {
                let spec = ControllerSpec { page, order, refresh, ..ControllerSpec::default() };
                // Long refreshes of some banks, which all-bank refresh does not ask for.
                for factor in if refresh == Refresh::AllBank { &[1][..] } else { &[1, 8][..] } {
                    let with = |refi: u32| {
                        let mut standard = shipped.clone();
                        standard.timings.insert(every.into(), refi);
                        if refresh != Refresh::AllBank {
                            *standard.timings.get_mut(takes).unwrap() *= factor;
                            // Only the rule of this kind of refresh is looked at.
                            standard.timings.insert("RFC".into(), 1);
                        }
                        standard
                    };
                    let none = DramTrace { addresses: &[], writes: &[], arrivals: RequestArrivals::Saturated };
                    let is_taken =
                        |refi: u32| simulate(&with(refi), &map, &spec, &none, DramRecordOptions::default()).is_ok();
                    let least = (0..1u32 << 16).collect::<Vec<_>>().partition_point(|&refi| !is_taken(refi)) as u32;
                    assert!(!is_taken(least - 1) && is_taken(least) && least < 1 << 16, "{name} {least}");
                    for seed in 1..=6 {
                        let found = ends(&with(least), &spec, seed);
                        assert!(found.is_some(), "{name} {spec:?} with REFI = {least} does not end");
                    }
                }
            }
        }
    }
}

/// DDR5 whose banks of one index are refreshed together, on one channel of so many ranks.
fn same_bank(ranks: u32) -> (Standard, ControllerSpec) {
    let standard = Standard { channels: 1, ranks, ..presets::ddr5_5600b() };
    (standard, ControllerSpec { refresh: Refresh::SameBank, ..ControllerSpec::default() })
}

/// Random reads and writes leave every bank busy as its refresh falls due; each bank is refreshed every tREFI2 all the
/// same, and each refresh takes the same bank of all groups and no other.
#[test]
fn a_same_bank_refresh_takes_one_bank_of_each_group_in_turns() {
    for ranks in [1, 2] {
        let (standard, spec) = same_bank(ranks);
        let outcome = engine(&standard, &spec, &torture(&standard, 20_000, 5), Isa::best());
        audit(&standard, true, &outcome).unwrap();
        let t = |name: &str| u64::from(standard.timings[name]);
        let (every, per_rank) = (t("REFI2") / u64::from(standard.banks), standard.groups * standard.banks);
        for rank in 0..ranks {
            let mut turn = 0;
            let refreshes =
                outcome.commands[0].iter().filter(|i| i.command == DramCommand::RefSame && i.bank / per_rank == rank);
            for (n, issued) in (1..).zip(refreshes) {
                assert_eq!(issued.bank, rank * per_rank + turn, "the first bank of those that have their turn");
                turn = (turn + 1) % standard.banks;
                let due = every * (n - 1) + every * u64::from(rank + 1) / u64::from(ranks);
                // The rows of its banks may have been opened or written just before.
                let late = t("RCD") + t("CWL") + t("BL") + t("WR") + t("RP") + 50;
                assert!((due..due + late).contains(&issued.clock), "{n}: due at {due}, came at {}", issued.clock);
            }
            assert!(turn != 0 || outcome.report.clocks > every);
        }
    }
}

/// A row that is read without end in one bank: refresh takes the bank tRP + tRFCsb + tRCD of every tREFI2, and what the
/// row's closing waits for. With all-bank refresh it is tRP + tRFC + tRCD of every tREFI.
#[test]
fn what_same_bank_refresh_takes_of_a_bank_is_its_closed_form() {
    let (standard, spec) = same_bank(1);
    let t = |name: &str| f64::from(standard.timings[name]);
    let count = 400_000u64;
    let addresses: Vec<u64> = (0..count).map(|i| i % 16 * 64).collect();
    let run = |refresh| {
        let trace = DramTrace { addresses: &addresses, writes: &[], arrivals: RequestArrivals::Saturated };
        let spec = ControllerSpec { refresh, ..spec };
        simulate(&standard, &map(&standard), &spec, &trace, DramRecordOptions::default()).unwrap().report
    };
    let free = run(Refresh::Off).clocks as f64;
    for (refresh, takes, every) in [(Refresh::SameBank, "RFC_SB", "REFI2"), (Refresh::AllBank, "RFC", "REFI")] {
        let report = run(refresh);
        let lost = 1.0 - free / report.clocks as f64;
        // From the last read before it to the first one after it, but for the gap that two reads have anyway.
        let expected = (t("RTP") + t("RP") + t(takes) + t("RCD") - t("CCD_L")) / t(every);
        assert!((lost - expected).abs() < 0.004, "{refresh:?}: {lost} and {expected}");
        assert!((report.shares.refresh / (t(takes) / t(every)) - 1.0).abs() < 0.35, "{:?}", report.shares);
    }
}

/// Random reads at a third of the peak: all of them wait for a refresh of all banks, for up to tRFC; one of four waits for
/// a refresh of the same bank of each group, for up to tRFCsb. So a queue before refreshes is shorter, and so is its tail.
#[test]
fn other_banks_work_while_the_same_bank_of_each_group_is_refreshed() {
    let (standard, spec) = same_bank(1);
    let random = traces::random(60_000);
    let run = |refresh, arrivals| {
        let trace = DramTrace { addresses: &random.addresses, writes: &[], arrivals };
        let spec = ControllerSpec { refresh, queue: 64, ..spec };
        simulate(&standard, &map(&standard), &spec, &trace, DramRecordOptions::default()).unwrap().report
    };
    for arrivals in [RequestArrivals::Every(24), RequestArrivals::Saturated] {
        for r in [Refresh::Off, Refresh::SameBank, Refresh::AllBank] {
            let r = run(r, arrivals);
            println!("{:?} {:?} {}", r.read_latency, r.shares, r.bytes_per_s);
        }
    }
    let [none, same, all] =
        [Refresh::Off, Refresh::SameBank, Refresh::AllBank].map(|r| run(r, RequestArrivals::Every(24)).read_latency);
    assert!(none.mean < same.mean && same.mean < all.mean, "{none:?} {same:?} {all:?}");
    assert!(same.p99 < all.p99 && same.p999 < all.p999, "{same:?} {all:?}");
}

/// Two reads with a long pause between them: as many refreshes as intervals have begun, however much of the pause is
/// skipped, and the second read ends where one ends that did not skip.
#[test]
fn an_idle_channel_is_refreshed_as_often_as_intervals_begin() {
    for ranks in [1, 2] {
        let (standard, spec) = same_bank(ranks);
        let every = u64::from(standard.timings["REFI2"] / standard.banks);
        // Longer than 16 times 2^21 clocks, so that most of it is skipped; a log of commands keeps it from being so.
        let pause = 120_000_000u64 / every * every + every / 3;
        let at = [0, pause];
        let trace = DramTrace { addresses: &[0, 64], writes: &[false, true], arrivals: RequestArrivals::At(&at) };
        let run = |commands| {
            let record = DramRecordOptions { commands, accepted: true };
            simulate(&standard, &map(&standard), &spec, &trace, record).unwrap()
        };
        let (skipped, stepped) = (run(false), run(true));
        assert_eq!((&skipped.completions, &skipped.report), (&stepped.completions, &stepped.report));
        let begun = skipped.report.refreshes;
        let expected = (0..u64::from(ranks)).map(|r| (pause - every * (r + 1) / u64::from(ranks)) / every + 1);
        assert_eq!(begun, expected.sum::<u64>());
        let issued = stepped.commands[0].iter().filter(|i| i.command == DramCommand::RefSame).count() as u64;
        assert_eq!(issued, begun);
    }
}

/// A refresh window's worth of same-bank refreshes takes the energy of as many rows as all-bank refreshes do.
#[test]
fn the_energy_of_same_bank_refreshes_is_that_of_the_rows_they_refresh() {
    let (mut standard, spec) = same_bank(1);
    standard.currents = presets::ddr4_3200aa().currents;
    let run = |refresh| {
        let at = [0, 20_000 * u64::from(standard.timings["REFI"])];
        let trace = DramTrace { addresses: &[0, 64], writes: &[], arrivals: RequestArrivals::At(&at) };
        let spec = ControllerSpec { refresh, ..spec };
        simulate(&standard, &map(&standard), &spec, &trace, DramRecordOptions::default()).unwrap().report
    };
    let (same, all) = (run(Refresh::SameBank), run(Refresh::AllBank));
    assert!(same.refreshes.abs_diff(8 * all.refreshes) <= 8, "{} {}", same.refreshes, all.refreshes);
    let ratio = same.energy.unwrap().refresh / all.energy.unwrap().refresh;
    assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
}

#[test]
fn same_bank_refresh_is_refused_where_a_standard_has_none() {
    let refused = |standard: &Standard| {
        let none = DramTrace { addresses: &[], writes: &[], arrivals: RequestArrivals::Saturated };
        let spec = ControllerSpec { refresh: Refresh::SameBank, ..ControllerSpec::default() };
        simulate(standard, &map(standard), &spec, &none, DramRecordOptions::default())
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused(&presets::ddr4_2400u()),
        "dram.controller.refresh = same-bank refresh of ddr4-2400u: allowed is standards with bank groups and RFC_SB, \
         REFSBRD and REFI2, as those of DDR5 (use all-bank refresh)"
    );
    let grouped = presets::ddr5_5600b();
    assert!(refused(&Standard { groups: 1, ..grouped.clone() }).contains("standards with bank groups"));
    let mut often = grouped;
    often.timings.insert("REFI2".into(), 1400);
    assert_eq!(
        refused(&often),
        "dram.ddr5-5600b.timings.REFI2 = 1400 with RFC_SB = 364: allowed is REFI2 of at least 1472: 364 from a refresh to \
         the next one, and 4 for the commands, for each of 4 banks of a group (between two refreshes another bank has to \
         open a row)"
    );
}

/// The auditor by itself: what it says of a bank's turn that comes twice.
#[test]
fn a_bank_that_is_refreshed_twice_before_the_others_is_caught() {
    let (standard, _) = same_bank(1);
    let mut checker = Checker::new(&standard, true).unwrap();
    let refresh = |n: u64, bank| Issued { clock: 1365 * n, command: DramCommand::RefSame, bank, row: 0 };
    for (n, bank) in (1..).zip([2, 0, 3, 1, 2]) {
        checker.issue(refresh(n, bank)).unwrap();
    }
    let wrong = checker.issue(refresh(6, 2)).unwrap_err();
    assert!(wrong.contains("bank 2 of each group again before all others"), "{wrong}");
    // Bank 9 is of index 1, in another group: the command closes and refreshes that index everywhere.
    checker.issue(refresh(6, 9)).unwrap();
    let open = Issued { clock: 1365 * 6 + 200, command: DramCommand::Act, bank: 1, row: 7 };
    assert!(checker.permits(open).unwrap_err().contains("RFC_SB = 364"));
    assert_eq!(checker.permits(Issued { bank: 4, ..open }), Ok(()));
}

#[test]
fn refreshes_that_leave_no_time_for_requests_are_refused_with_the_numbers() {
    for refi in [421, 430, 450, 480, 485] {
        let mut standard = presets::ddr4_2400u();
        standard.timings.insert("REFI".into(), refi);
        let text = standard.check().unwrap_err().to_string();
        assert_eq!(
            text,
            format!(
                "dram.ddr4-2400u.timings.REFI = {refi} with RFC = 420: allowed is REFI of at least 497: 39 until a row \
                 may be closed, 17 to close it, 420 to refresh, 17 to open a row, and 4 for the commands (between two \
                 refreshes a bank has to serve a request)"
            )
        );
    }
    let mut standard = presets::hbm2_2000();
    standard.timings.insert("RFC_B".into(), 4000);
    standard.timings.insert("REFI".into(), 2000);
    standard.check().unwrap();
    let spec = ControllerSpec { refresh: Refresh::PerBank, ..ControllerSpec::default() };
    let none = DramTrace { addresses: &[], writes: &[], arrivals: RequestArrivals::Saturated };
    let text =
        simulate(&standard, &map(&standard), &spec, &none, DramRecordOptions::default()).unwrap_err().to_string();
    assert!(
        text.starts_with("dram.hbm2-2000.timings.REFI = 2000 with RFC_B = 4000: allowed is REFI of at least 4"),
        "{text}"
    );
}

#[test]
fn currents_that_come_to_energies_below_zero_are_refused() {
    let broken = |change: fn(&mut machine::dram::standard::Currents)| {
        let mut s = presets::ddr4_2400u();
        change(s.currents.as_mut().unwrap());
        s.check().unwrap_err().to_string()
    };
    assert_eq!(
        broken(|c| c.vdd = -1.0),
        "dram.ddr4-2400u.currents.vdd = -1: allowed is above 0, up to 10 volts (look it up in the data sheet)"
    );
    assert_eq!(
        broken(|c| c.idd0 = 1.0),
        "dram.ddr4-2400u.currents.idd0 = 1 with standby over a row cycle = 40.3: allowed is idd0 of at least standby \
         over a row cycle (a command takes no less than standby does)"
    );
    assert!(broken(|c| c.idd4w = 10.0).contains("currents.idd4w = 10 with idd3n = 43.0: allowed is idd4w of at least"));
    assert!(broken(|c| c.devices = 0).contains("currents.devices = 0: allowed is 1 to 64"));
    assert!(broken(|c| c.idd5 = f64::NAN).contains("currents.idd5 = NaN: allowed is above 0"));
    assert!(broken(|c| c.idd2n = f64::INFINITY).contains("currents.idd2n = inf: allowed is above 0"));
}

#[test]
fn contradictions_are_named_with_their_numbers() {
    let standard = presets::ddr4_2400u();
    let broken = |change: fn(&mut Standard)| {
        let mut s = presets::ddr4_2400u();
        change(&mut s);
        s.check().unwrap_err().to_string()
    };
    assert_eq!(
        broken(|s| *s.timings.get_mut("RAS").unwrap() = 10),
        "dram.ddr4-2400u.timings.RAS = 10 with RCD = 17: allowed is RAS of at least RCD \
         (a row stays open until its column command)"
    );
    assert!(broken(|s| s.banks = 3).starts_with("dram.ddr4-2400u.banks = 3: allowed is a power of two up to 64"));
    assert!(
        broken(|s| s.timings.retain(|name, _| name != "CL"))
            .starts_with("dram.ddr4-2400u.timings = no CL: allowed is BL,")
    );
    assert!(broken(|s| s.constraints[0].clocks = "RAS - 40".into()).contains("RAS - 40 = -1"));
    let mut map = AddressMap::ordered(&standard, "row bank group column").unwrap();
    let bit = map.fields[0].bits[1];
    map.fields[1].bits[0] = bit;
    let text = Decoder::new(&map, &standard).unwrap_err().to_string();
    assert!(text.starts_with("dram.ddr4-2400u.map = address bit 7 in group and column"), "{text}");
    // A group bit and a bank bit that are XORed with each other are one bit twice.
    let mut circle = AddressMap::ordered(&standard, "row bank group column").unwrap();
    let at = |map: &AddressMap, part| map.fields.iter().position(|f| f.part == part).unwrap();
    let (group, bank) = (at(&circle, AddressField::Group), at(&circle, AddressField::Bank));
    let (g, b) = (circle.fields[group].bits[0], circle.fields[bank].bits[0]);
    circle.fields[group].xor = vec![b];
    circle.fields[bank].xor = vec![g];
    let text = Decoder::new(&circle, &standard).unwrap_err().to_string();
    let one = format!(
        "XORs that cancel: addresses 0x0 and {:#x}, which differ in bits {g}, {b}, are one place",
        1u64 << g | 1 << b
    );
    assert!(text.contains(&one), "{text}");
    let run = |addresses: &[u64], arrivals| {
        let map = AddressMap::permuted(&standard, "row bank group column").unwrap();
        let trace = DramTrace { addresses, writes: &[], arrivals };
        simulate(&standard, &map, &ControllerSpec::default(), &trace, DramRecordOptions::default())
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let text = run(&[0, 1 << 40], RequestArrivals::Saturated);
    assert!(
        text.starts_with("dram.trace.addresses = [1] = 0x10000000000: allowed is below the device's 0x200000000"),
        "{text}"
    );
    let text = run(&[0, 64], RequestArrivals::At(&[5, 4]));
    assert!(
        text.starts_with("dram.trace.arrivals = [1] = 4 after 5: allowed is clocks that do not decrease"),
        "{text}"
    );
    let spec = ControllerSpec { refresh: Refresh::PerBank, ..ControllerSpec::default() };
    let map = AddressMap::ordered(&standard, "row bank group column").unwrap();
    let trace = DramTrace { addresses: &[0], writes: &[], arrivals: RequestArrivals::Saturated };
    let text =
        simulate(&standard, &map, &spec, &trace, DramRecordOptions::default()).map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("per-bank refresh of ddr4-2400u"), "{text}");
}
