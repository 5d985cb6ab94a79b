//! How fast the DRAM engine is, and what it finds: requests a second of one core, best of five.
//!
//! `cargo run --release -p wirespeed-machine --example dram_speed [REQUESTS] [STANDARD ...] [+PART ...]`
//!
//! Only the rows that hold every PART are run: `+random +Portable`.

use clock::cpu_seconds;
use machine::dram::hmc::{self, CubeSpec};
use machine::dram::map::AddressMap;
use machine::dram::policy::ControllerSpec;
use machine::dram::presets;
use machine::dram::simulate::{DramRecordOptions, DramTrace, Isa, RequestArrivals, simulate_with};

mod clock;
#[path = "../tests/suite/traces/mod.rs"]
mod traces;

fn main() {
    let (only, arguments): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|a| a.starts_with('+'));
    let requests: u64 = arguments.first().and_then(|a| a.parse().ok()).unwrap_or(1_000_000);
    let mut names: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    if names.is_empty() {
        names.push("ddr4-2400u");
    }
    let made = [
        ("stream", traces::stream(requests)),
        ("random", traces::random(requests)),
        ("mix16b", traces::mix16b(requests)),
    ];
    println!(
        "{:<14} {:<8} {:<10} {:<9} {:>9} {:>8} {:>9} {:>7}",
        "standard", "trace", "offered", "isa", "M req/s", "GB/s", "mean clk", "p99.9"
    );
    for name in names {
        if name == "hmc-2.1" {
            for (trace, made) in &made {
                cube(trace, made);
            }
            continue;
        }
        let Some(standard) = presets::preset(name) else {
            eprintln!("{name}: no such standard; there are hmc-2.1, {}", presets::NAMES.join(", "));
            std::process::exit(2);
        };
        let order =
            if standard.channels > 1 { "row bank group rank column channel" } else { "row rank bank group column" };
        let map = AddressMap::ordered(&standard, order).expect("a map in order fits every standard");
        for (trace, made) in &made {
            let addresses: Vec<u64> = made.addresses.iter().map(|a| a % standard.capacity()).collect();
            for (offered, arrivals) in
                [("saturated", RequestArrivals::Saturated), ("every 20", RequestArrivals::Every(20))]
            {
                for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
                    let row = format!("{trace} {offered} {isa:?}");
                    if isa as u8 > Isa::best() as u8 || !only.iter().all(|part| row.contains(&part[1..])) {
                        continue;
                    }
                    let trace_in = DramTrace { addresses: &addresses, writes: &made.writes, arrivals };
                    let mut best = f64::INFINITY;
                    let mut report = None;
                    for _ in 0..5 {
                        let start = cpu_seconds();
                        let outcome = simulate_with(
                            isa,
                            &standard,
                            &map,
                            &ControllerSpec::default(),
                            &trace_in,
                            DramRecordOptions::default(),
                        )
                        .expect("presets and traces agree");
                        best = best.min(cpu_seconds() - start);
                        report = Some(outcome.report);
                    }
                    let report = report.expect("five runs were made");
                    let l = report.read_latency;
                    println!(
                        "{name:<14} {trace:<8} {offered:<10} {isa:<9} {:>9.2} {:>8.3} {:>9.2} {:>7} {:?} {}/{}/{}",
                        requests as f64 / best / 1e6,
                        report.bytes_per_s / 1e9,
                        l.mean,
                        l.p999,
                        report.clocks,
                        report.row_hits,
                        report.row_misses,
                        report.row_conflicts,
                        isa = format!("{isa:?}"),
                    );
                }
            }
        }
    }
}

/// The whole cube, with links and crossbar.
fn cube(name: &str, made: &traces::Trace) {
    let spec = CubeSpec::default();
    let map = AddressMap::ordered(&spec.vaults, "row column bank channel").expect("a map in order fits every standard");
    for (offered, arrivals) in [("saturated", RequestArrivals::Saturated), ("every 20", RequestArrivals::Every(20))] {
        let trace = DramTrace { addresses: &made.addresses, writes: &made.writes, arrivals };
        let mut best = f64::INFINITY;
        let mut outcome = None;
        for _ in 0..5 {
            let start = cpu_seconds();
            outcome = Some(hmc::simulate(&spec, &map, &trace).expect("presets and traces agree"));
            best = best.min(cpu_seconds() - start);
        }
        let outcome = outcome.expect("five runs were made");
        let clocks = outcome.read_latency.mean / spec.clock().0 as f64;
        println!(
            "{:<14} {name:<8} {offered:<10} {:<9} {:>9.2} {:>8.3} {clocks:>9.2}",
            "hmc-2.1",
            "Portable",
            made.addresses.len() as f64 / best / 1e6,
            outcome.bytes_per_s / 1e9,
        );
    }
}
