//! Speed of the GPU simulator on the memory system of a server, beside that on memory of its own: warp instructions a second of CPU
//! time, for the same kernels.
//!
//! `cargo run --release -p wirespeed-studies --example shared_speed -- [application] [batches] [runs]`
use std::error::Error;

use cpu_time::ProcessTime;
use machine::cache::CacheSpec;
use machine::memory::{AgentMemory, Hierarchy, LevelCounters};
use machine::simt::{Code, Kernel, KernelSpec, KernelStep, Merger, OwnMemory, Shaders, WarpPlacement};
use sim::{Overrides, Scenario};
use studies::simt::{HermesPreset, SimtApplication, SimtWorkload, WorkloadSpec};
use units::{Clos, CoreId, Ps, Span};

const BATCH: u32 = 1024;
const SLOT_LINES: u32 = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "lookup".into());
    let batches: u32 = arguments.next().map_or(Ok(256), |n| n.parse())?;
    let runs = arguments.next().map_or(Ok(7), |n| n.parse::<usize>())?.max(1);
    let application: SimtApplication = serde_json::from_value(serde_json::Value::String(name.clone()))?;
    let gpu = HermesPreset::named("hermes")?.gpu;
    let kernel = KernelSpec { registers: 16, shared: 0 };
    let spec = WorkloadSpec {
        application,
        then: Vec::new(),
        kernel,
        traffic: Default::default(),
        packets: 16 * BATCH as usize,
        routes: Default::default(),
        rules: Default::default(),
        strings: Default::default(),
        fragment: Default::default(),
    };
    let workload = SimtWorkload::new(&spec, 1)?;
    let packets = workload.table_sectors.div_ceil(2);
    let (mut code, mut merger, mut warps) = (Code::new(), Merger::new(), Vec::new());
    let mut instructions = 0;
    for n in 0..16 * BATCH / 32 {
        let lanes: Vec<u32> = (n * 32..(n + 1) * 32).collect();
        let program = merger.merge(&workload.lanes, &lanes, &mut code)?;
        instructions += code.program(program).issued;
        let at = WarpPlacement { base: packets, stride: SLOT_LINES, slots: 3 * BATCH, first: n * 32 % (3 * BATCH) };
        warps.push((program, at));
    }
    let millions = instructions as f64 / 16.0 * f64::from(batches) / 1e6;
    let scenario = Scenario::read("", "speed", &Overrides::default())?;
    // As in a server: mbufs of 37 lines, the tables behind them.
    let places: Vec<u32> = (0..3 * BATCH * SLOT_LINES).map(|n| 64 + n / SLOT_LINES * 37 + n % SLOT_LINES).collect();
    let tables = [(0, 1 << 20)];
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..runs {
        for (shared, rates) in rates.iter_mut().enumerate() {
            let mut memory = Hierarchy::new(&scenario.machine.memory(), 2, "machine")?;
            let l2 = CacheSpec { size: gpu.l2.size, ways: gpu.l2.ways, latency: Span::from_ns(0.0) };
            memory.make_agent(CoreId(1), &l2, "machine.gpu")?;
            let (mut shaders, mut kernel) = (Shaders::new(&gpu, gpu.resident(&kernel)?)?, Kernel::default());
            let mut llc = LevelCounters::default();
            let (mut now, begun) = (0, ProcessTime::now());
            for batch in 0..batches {
                let first = (batch % 16 * BATCH / 32) as usize;
                kernel.begin(warps[first..first + BATCH as usize / 32].iter().copied(), 4, now);
                let step = match shared {
                    0 => kernel.step(&mut shaders, &code, &mut OwnMemory, |_| true)?,
                    _ => {
                        let (memory, core, clos) = (&mut memory, CoreId(1), Clos(0));
                        let (tables, places, llc) = (&tables, &places, &mut llc);
                        let mut view = AgentMemory {
                            memory,
                            core,
                            clos,
                            coherent: true,
                            tables,
                            packets,
                            places,
                            llc,
                            next_answer: Ps::MAX,
                        };
                        kernel.step(&mut shaders, &code, &mut view, |_| true)?
                    }
                };
                now = match step {
                    KernelStep::At(clock) | KernelStep::Done(clock) => clock,
                };
            }
            rates.push(millions / begun.elapsed().as_secs_f64());
        }
    }
    let [own, shared] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    println!("{name}: {millions:.1} M warp instructions in {batches} batches, the middle of {runs} runs");
    println!("own memory {own:.1} M/s, the server's {shared:.1} M/s: {:.2} times as long", own / shared);
    Ok(())
}
