//! Speed of the GPU simulator: warp instructions a second of CPU time, by application.
//!
//! `cargo run --release -p wirespeed-sim --example simt_speed -- [application] [packets] [lanes]`
use std::error::Error;

use machine::simt::{Arrival, KernelSpec, hermes};
use sim::simt::{Application, HermesPreset, Workload, WorkloadSpec};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "lookup".into());
    let packets: u32 = arguments.next().map_or(Ok(1 << 20), |n| n.parse())?;
    let recorded: usize = arguments.next().map_or(Ok(4096), |n| n.parse())?;
    let application: Application = serde_json::from_value(serde_json::Value::String(name.clone()))?;
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
    let workload = Workload::new(&spec, 1)?;
    let lanes = workload.bytes.len() as u32;
    let arrivals: Vec<Arrival> = (0..packets)
        .map(|n| Arrival { at: u64::from(n) / 4, bytes: workload.bytes[(n % lanes) as usize], lane: n % lanes })
        .collect();
    let begun = cpu_seconds()?;
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
    let seconds = cpu_seconds()? - begun;
    println!(
        "{name}: {packets} packets, {} clocks, {:.1} M warp instructions in {seconds:.2} s of CPU time: {:.1} M/s, SIMD efficiency {:.3}",
        outcome.end,
        outcome.instructions as f64 / 1e6,
        outcome.instructions as f64 / 1e6 / seconds,
        outcome.efficiency(),
    );
    Ok(())
}

/// User and system time of this process so far: other programs on the machine do not count. Linux alone has it here; clock
/// ticks are 10 ms.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let behind_name = stat.rsplit(')').next().ok_or("/proc/self/stat has no name")?;
    let ticks = behind_name.split_whitespace().skip(11).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    Ok(ticks / 100.0)
}
