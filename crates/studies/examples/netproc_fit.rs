//! Fits the numbers that Hasan et al. (ISCA 2003) do not give, and shows where fits from far starts end:
//!
//! ```text
//! cargo run --release -p wirespeed-studies --example netproc_fit -- column [PACKETS [SEEDS]]
//! cargo run --release -p wirespeed-studies --example netproc_fit -- all [PACKETS [SEEDS]]
//! cargo run --release -p wirespeed-studies --example netproc_fit -- starts [PACKETS [SEEDS]]
//! ```
//!
//! `column` fits on the 13 throughputs of L3fwd16 with 2 banks (`[calibration]` of the room's scenario.toml), `all` on all
//! 38 (`[in_sample]`), from the numbers of scenario.toml; `starts` fits on the column from each of [`STARTS`], and
//! prints a row each: what comes out, and how far it is from the column, from 4 banks, and from NAT and Firewall,
//! root mean square. The search moves one number at a time by steps that are halved until none helps: it finds the bottom
//! of a valley, which need not be the deepest. Runs have the same traffic throughout.

use std::collections::BTreeMap;

use studies::netproc::study::{self, Calibration, NetprocRunSpec, StudySpec};

const SYSTEMS: [&str; 13] = [
    "ref-base",
    "ref-ideal",
    "our-base",
    "f-alloc",
    "l-alloc",
    "p-alloc",
    "batch",
    "block",
    "ideal-plus",
    "all-pf",
    "prev-pf",
    "adapt",
    "adapt-pf",
];
const COMPARED: [&str; 3] = ["ref-base", "all-pf", "adapt-pf"];
/// Nanoseconds for which a cell holds its slot, packets in flight, writes of a thread under way.
type Numbers = [u32; 3];
/// Far from one another, in every number.
const STARTS: [Numbers; 5] = [[600, 60, 2], [1000, 100, 8], [1200, 250, 1], [1900, 64, 12], [2600, 400, 16]];
const FIRST_STEPS: Numbers = [128, 16, 2];
const LAST_STEP: u32 = 16;
/// Writes under way: the IXP1200's receive FIFO has 16 slots.
const MOST: Numbers = [20_000, 2_000, 16];

type Failed = Box<dyn std::error::Error>;

/// A throughput of the paper and the run that it belongs to.
struct Wanted {
    group: usize,
    run: NetprocRunSpec,
    gbps: f64,
}

/// How long the runs are.
#[derive(Clone, Copy)]
struct Length {
    packets: u64,
    seeds: u64,
}

fn main() -> Result<(), Failed> {
    let args: Vec<String> = std::env::args().collect();
    let number = |at: usize, usual: u64| args.get(at).map_or(Ok(usual), |text| text.parse());
    let length = Length { packets: number(2, 30_000)?, seeds: number(3, 2)? };
    let room = concat!(env!("CARGO_MANIFEST_DIR"), "/../../papers/2003-isca-hasan");
    let wanted = wanted(&std::fs::read_to_string(format!("{room}/expected.csv"))?)?;
    let scenario: toml::Table = toml::from_str(&std::fs::read_to_string(format!("{room}/scenario.toml"))?)?;
    let column: Vec<&Wanted> = wanted.iter().filter(|w| w.group == 0).collect();
    let every: Vec<&Wanted> = wanted.iter().collect();
    match args.get(1).map(String::as_str) {
        Some(what @ ("column" | "all")) => {
            let (start, fitted) = if what == "all" { ("in_sample", every) } else { ("calibration", column) };
            let start: Calibration = scenario[start].clone().try_into()?;
            let (best, off) = fit(numbers(&start), &fitted, length)?;
            println!("{off:.2} % over {} throughputs, {} seeds of {}", fitted.len(), length.seeds, length.packets);
            println!("{}", toml::to_string(&calibration(best))?);
        }
        Some("starts") => {
            println!("| from | to | column | 4 banks | NAT and Firewall | all 38 |\n|---|---|---|---|---|---|");
            for start in STARTS {
                let (best, off) = fit(start, &column, length)?;
                let group = |g| deviation(best, &wanted.iter().filter(|w| w.group == g).collect::<Vec<_>>(), length);
                let (four, others, all) = (group(1)?, group(2)?, deviation(best, &every, length)?);
                println!("| {start:?} | {best:?} | {off:.2} % | {four:.2} % | {others:.2} % | {all:.2} % |");
            }
        }
        _ => return Err("say column, all or starts".into()),
    }
    Ok(())
}

/// The 38 throughputs: the column, L3fwd16 with 4 banks, NAT and Firewall.
fn wanted(expected: &str) -> Result<Vec<Wanted>, Failed> {
    let paper: BTreeMap<&str, &str> = expected
        .lines()
        .filter(|line| line.contains(",Gbps,"))
        .filter_map(|line| Some((line.split(',').next()?, line.split(',').nth(3)?)))
        .collect();
    let mut all = Vec::new();
    for (application, systems) in [("l3fwd16", &SYSTEMS[..]), ("nat", &COMPARED[..]), ("firewall", &COMPARED[..])] {
        for (system, banks) in systems.iter().flat_map(|system| [(system, 2), (system, 4)]) {
            let id = format!("{application}-{system}-{banks}");
            let gbps = paper.get(id.as_str()).ok_or(format!("expected.csv has no {id}"))?.parse()?;
            let run = format!(r#"{{"application": "{application}", "system": "{system}", "banks": {banks}}}"#);
            let group = if application == "l3fwd16" { usize::from(banks == 4) } else { 2 };
            all.push(Wanted { group, run: serde_json::from_str(&run)?, gbps });
        }
    }
    Ok(all)
}

fn numbers(of: &Calibration) -> Numbers {
    [of.drain_ns, of.in_flight, of.receive_slots]
}

fn calibration([drain_ns, in_flight, receive_slots]: Numbers) -> Calibration {
    Calibration { drain_ns, in_flight, receive_slots }
}

/// Root mean square over `wanted`, in percent.
fn deviation(at: Numbers, wanted: &[&Wanted], length: Length) -> Result<f64, Failed> {
    let spec = StudySpec {
        calibration: calibration(at),
        runs: wanted.iter().map(|w| w.run.clone()).collect(),
        trace_packets: 20_000,
        warm_up: length.packets / 3,
        packets: length.packets,
        seeds: length.seeds,
        seed: 0,
        window: 16,
    };
    let found = study::run(&spec, |_, _| true)?;
    let mut sum = 0.0;
    for (point, want) in found["runs"].as_array().into_iter().flatten().zip(wanted) {
        let off = point["gbps"]["mean"].as_f64().ok_or("a run without a throughput")? / want.gbps - 1.0;
        sum += off * off;
    }
    Ok((sum / wanted.len() as f64).sqrt() * 100.0)
}

fn fit(start: Numbers, wanted: &[&Wanted], length: Length) -> Result<(Numbers, f64), Failed> {
    let (mut best, mut steps) = (start, FIRST_STEPS);
    let mut off = deviation(best, wanted, length)?;
    loop {
        let before = off;
        for i in 0..best.len() {
            for up in [true, false] {
                loop {
                    let mut tried = best;
                    tried[i] = if up { best[i] + steps[i] } else { best[i].saturating_sub(steps[i]) }.clamp(1, MOST[i]);
                    let came = deviation(tried, wanted, length)?;
                    if tried == best || came >= off {
                        break;
                    }
                    (best, off) = (tried, came);
                }
            }
        }
        if off == before {
            if steps[0] <= LAST_STEP {
                return Ok((best, off));
            }
            steps.iter_mut().for_each(|step| *step = (*step / 2).max(1));
        }
    }
}
