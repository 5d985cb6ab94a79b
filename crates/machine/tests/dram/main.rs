//! The DRAM engine against a clock-by-clock twin, an independent checker, closed forms and
//! measurements of other simulators.

use machine::dram::checker::Checker;
use machine::dram::map::{AddressMap, Decoder};
use machine::dram::policy::{BatchBy, ControllerSpec, Order, Page, Refresh, Writes};
use machine::dram::presets;
use machine::dram::simulate::{Arrivals, Isa, Outcome, Record, Trace, simulate, simulate_with};
use machine::dram::standard::Standard;
use proptest::prelude::*;

use naive::{Naive, Request};

mod naive;
#[path = "../traces/mod.rs"]
mod traces;

const ALL: Record = Record { accepted: true, commands: true };

fn map(standard: &Standard) -> AddressMap {
    AddressMap::ordered(standard, "row rank bank group column channel").unwrap()
}

fn engine(standard: &Standard, spec: &ControllerSpec, requests: &[Request], isa: Isa) -> Outcome {
    let addresses: Vec<u64> = requests.iter().map(|r| r.address).collect();
    let writes: Vec<bool> = requests.iter().map(|r| r.write).collect();
    let offered: Vec<u64> = requests.iter().map(|r| r.offered).collect();
    let trace = Trace { addresses: &addresses, writes: &writes, arrivals: Arrivals::At(&offered) };
    simulate_with(isa, standard, &map(standard), spec, &trace, ALL).unwrap()
}

fn audit(standard: &Standard, refreshes: bool, outcome: &Outcome) -> Result<(), String> {
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
    let page = prop_oneof![Just(Page::Open), Just(Page::Closed), (16u32..200).prop_map(|timeout| Page::Adaptive { timeout })];
    let refresh = prop_oneof![Just(Refresh::Off), Just(Refresh::AllBank), Just(Refresh::PerBank)];
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_matches_naive_clock_by_clock(
        standard in standards(),
        mut spec in specs(),
        list in requests(160),
        write_share in 0u8..5,
    ) {
        if spec.refresh == Refresh::PerBank && !standard.timings.contains_key("RFC_B") {
            spec.refresh = Refresh::AllBank;
        }
        let requests = place(&standard, &list, write_share);
        let decoder = Decoder::new(&map(&standard), &standard).unwrap();
        let twin = Naive::run(&standard, &spec, &decoder, &requests);
        for isa in [Isa::Portable, Isa::best()] {
            let outcome = engine(&standard, &spec, &requests, isa);
            let commands = &outcome.commands[0];
            for (i, (engine, naive)) in commands.iter().zip(&twin.commands).enumerate() {
                prop_assert_eq!(engine, naive, "command {} of {} with {:?}", i, standard.name, spec);
            }
            prop_assert_eq!(&outcome.accepted, &twin.accepted);
            prop_assert_eq!(&outcome.completions, &twin.completions);
            // What the twin does after the last request is served is nobody's business.
            prop_assert!(commands.len().abs_diff(twin.commands.len()) <= 2);
            prop_assert_eq!(audit(&standard, spec.refresh != Refresh::Off, &outcome), Ok(()));
            let causes = outcome.report.clocks_by_cause;
            prop_assert_eq!(causes.iter().sum::<u64>(), outcome.report.clocks, "{:?}", causes);
        }
    }
}
