//! Speed of the GPU simulator: warp instructions a second of CPU time, by application; in the middle of some runs, and in the
//! fastest.
//!
//! `cargo run --release -p wirespeed-studies --example simt_speed -- [application] [packets] [lanes] [runs]`
use std::error::Error;

use cpu_time::ProcessTime;
use machine::simt::{KernelSpec, PacketArrival, hermes};
use studies::simt::{HermesPreset, SimtApplication, SimtWorkload, WorkloadSpec};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "lookup".into());
    let packets: u32 = arguments.next().map_or(Ok(1 << 20), |n| n.parse())?;
    let recorded: usize = arguments.next().map_or(Ok(4096), |n| n.parse())?;
    let runs = arguments.next().map_or(Ok(7), |n| n.parse::<usize>())?.max(1);
    let application: SimtApplication = serde_json::from_value(serde_json::Value::String(name.clone()))?;
    let preset = HermesPreset::named("hermes")?;
    let kernel = KernelSpec { registers: 16, shared: 0 };
    let spec = WorkloadSpec {
        application,
        then: Vec::new(),
        kernel,
        traffic: Default::default(),
        packets: recorded,
        routes: Default::default(),
        rules: Default::default(),
        strings: Default::default(),
        fragment: Default::default(),
    };
    let workload = SimtWorkload::new(&spec, 1)?;
    let lanes = workload.bytes.len() as u32;
    let arrivals: Vec<PacketArrival> = (0..packets)
        .map(|n| PacketArrival { at: u64::from(n) / 4, bytes: workload.bytes[(n % lanes) as usize], lane: n % lanes })
        .collect();
    let mut rates = Vec::new();
    for run in 1..=runs {
        let begun = ProcessTime::now();
        let outcome = hermes::run(
            &preset.gpu,
            &preset.hermes,
            &kernel,
            &workload.lanes,
            workload.table_sectors,
            &arrivals,
            0.25,
            &mut || true,
        )?;
        let millions = outcome.instructions as f64 / 1e6;
        rates.push(millions / begun.elapsed().as_secs_f64());
        if run == runs {
            println!(
                "{name}: {packets} packets, {} clocks, {millions:.1} M warp instructions, SIMD efficiency {:.3}",
                outcome.end,
                outcome.efficiency(),
            );
        }
    }
    rates.sort_by(f64::total_cmp);
    if let (Some(median), Some(fastest)) = (rates.get(rates.len() / 2), rates.last()) {
        println!(
            "{median:.1} M warp instructions/s of CPU time in the middle of {runs} runs, {fastest:.1} in the fastest"
        );
    }
    Ok(())
}
