//! What a DRAM controller of each kind finds, once: for counts of host instructions, and to compare results bit by bit.
//!
//! `valgrind --tool=callgrind target/release/examples/dram_work KIND TRACE REQUESTS`; the counts of two numbers of requests
//! differ by what the requests between them take.

use machine::dram::hmc::{self, CubeSpec};
use machine::dram::map::AddressMap;
use machine::dram::policy::{BatchBy, ControllerSpec, Order, Page, Refresh, Writes};
use machine::dram::simulate::{DramRecordOptions, DramTrace, Isa, RequestArrivals, simulate_with};
use machine::dram::{Commanded, ControllerSetting, DramSpec, presets};
use units::{Line, Ps, Span};

const KINDS: [&str; 10] =
    ["open", "closed", "adaptive", "drain", "per-bank", "same-bank", "fcfs", "batch", "behind-llc", "cube"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let kind = arguments.first().map_or("open", String::as_str);
    let trace = arguments.get(1).map_or("random", String::as_str);
    let requests: u64 = arguments.get(2).and_then(|a| a.parse().ok()).unwrap_or(100_000);
    let (addresses, writes) = made(trace, requests);
    let found = match kind {
        "behind-llc" => behind_llc(&addresses, &writes),
        "cube" => cube(&addresses, &writes),
        _ => one(kind, &addresses, &writes),
    };
    println!("{kind} {trace} {requests}: {found}");
}

/// Addresses within 1 GiB, and whether they write.
fn made(trace: &str, requests: u64) -> (Vec<u64>, Vec<bool>) {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    (0..requests)
        .map(|i| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let line = match trace {
                "stream" => i,
                "mix" if state >> 40 & 3 != 0 => ((i % 16) << 20) + i / 16,
                "random" | "mix" => state >> 20,
                _ => panic!("traces are stream, random, mix"),
            };
            (line % (1 << 24) * 64, trace == "mix" && state & 1 == 0)
        })
        .unzip()
}

fn controller(kind: &str) -> ControllerSpec {
    let usual = ControllerSpec::default();
    match kind {
        "open" => usual,
        "closed" => ControllerSpec { page: Page::Closed, ..usual },
        "adaptive" => {
            ControllerSpec { order: Order::FrFcfs { cap: 4 }, page: Page::Adaptive { timeout: 128 }, ..usual }
        }
        "drain" => ControllerSpec { writes: Writes::Drain { queue: 32, high: 24, low: 8 }, ..usual },
        "per-bank" => ControllerSpec { refresh: Refresh::PerBank, ..usual },
        "same-bank" => ControllerSpec { refresh: Refresh::SameBank, ..usual },
        "fcfs" => ControllerSpec { order: Order::Fcfs { prefetch: 2 }, page: Page::Closed, ..usual },
        "batch" => ControllerSpec {
            order: Order::Batch { by: BatchBy::Direction, size: 8, prefetch: 4 },
            page: Page::Adaptive { timeout: 128 },
            ..usual
        },
        _ => panic!("kinds are {}", KINDS.join(", ")),
    }
}

/// A channel as fast as it can, with AVX2 where there is.
fn one(kind: &str, addresses: &[u64], writes: &[bool]) -> String {
    let name = match kind {
        "per-bank" => "hbm2-2000",
        "same-bank" => "ddr5-5600b",
        _ => "ddr4-2400u",
    };
    let standard = presets::preset(name).expect("a preset");
    let order = if standard.channels > 1 { "row bank group rank column channel" } else { "row rank bank group column" };
    let map = AddressMap::ordered(&standard, order).expect("a map in order fits every standard");
    let trace = DramTrace { addresses, writes, arrivals: RequestArrivals::Saturated };
    let isa = if Isa::best() == Isa::Portable { Isa::Portable } else { Isa::Avx2 };
    let outcome = simulate_with(isa, &standard, &map, &controller(kind), &trace, DramRecordOptions::default())
        .expect("presets and traces agree");
    let r = outcome.report;
    format!(
        "{} clocks, rows {}/{}/{}, causes {:?}, completions {:016x}",
        r.clocks,
        r.row_hits,
        r.row_misses,
        r.row_conflicts,
        r.clocks_by_cause,
        digest(outcome.completions)
    )
}

/// Four channels as a server drives them, a request every 6 ns, watched.
fn behind_llc(addresses: &[u64], writes: &[bool]) -> String {
    let spec = DramSpec { channels: 4, ..DramSpec::of_standard("ddr4-2400u", Span::from_ns(20.0)).expect("a preset") };
    let mut dram = Commanded::new(&spec, &ControllerSetting::default(), "dram").expect("a preset agrees with itself");
    let (mut finished, mut accepted, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for (i, (addr, write)) in addresses.iter().zip(writes).enumerate() {
        let at = Ps(i as u64 * 6000);
        dram.hand_in(i as u64, 0, Line(addr / 64), *write, false, at);
        dram.drive(at, &mut finished, &mut accepted);
        ends.extend(
            finished.drain(..).map(|f| f.id ^ f.at.0.rotate_left(32) ^ f.waits.iter().map(|w| w.0).sum::<u64>()),
        );
    }
    while let Some(next) = dram.earliest(false) {
        dram.drive(next, &mut finished, &mut accepted);
        ends.extend(finished.drain(..).map(|f| f.id ^ f.at.0.rotate_left(32)));
    }
    format!("{} answers {:016x}", ends.len(), digest(ends))
}

fn cube(addresses: &[u64], writes: &[bool]) -> String {
    let spec = CubeSpec::default();
    let map = AddressMap::ordered(&spec.vaults, "row column bank channel").expect("a map in order fits every standard");
    let trace = DramTrace { addresses, writes, arrivals: RequestArrivals::Saturated };
    let outcome = hmc::simulate(&spec, &map, &trace).expect("presets and traces agree");
    format!("completions {:016x}", digest(outcome.completions.iter().map(|at| at.0).collect()))
}

/// FNV-1a over words.
fn digest(words: Vec<u64>) -> u64 {
    words.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3))
}
