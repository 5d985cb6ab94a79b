//! Accesses per CPU-second through caches of 32 KiB/8, 1 MiB/16 and 16 MiB/16, LRU, by the vectors of the host.
//!
//! `cargo run --release -p wirespeed-machine --example cache [TRACE ...]`. A trace is a file of little-endian
//! 64-bit byte addresses, named for its kind; without one, 5 million loads uniform over 2^20 lines and
//! 5 million with a Zipf-like popularity are made up. Each is run fifteen times, and the best is printed.

use clock::cpu_seconds;
use machine::cache::{CacheChain, CacheTrace, LevelSpec, Origin, Vectors, simulate_sample, simulate_with};
use units::Line;

mod clock;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let levels = [LevelSpec::new(64, 8), LevelSpec::new(1024, 16), LevelSpec::new(16384, 16)];
    let mut traces: Vec<(String, Vec<u64>)> = Vec::new();
    for name in std::env::args().skip(1) {
        let bytes = std::fs::read(&name)?;
        traces.push((name, bytes.as_chunks::<8>().0.iter().map(|&b| u64::from_le_bytes(b)).collect()));
    }
    if traces.is_empty() {
        traces = vec![
            ("uniform".into(), made_up(|u| u)),
            ("zipf-like".into(), made_up(|u| (2f64.powf(20.0 * u) - 1.0) / (f64::from(1 << 20) - 1.0))),
        ];
    }
    for (name, addresses) in &traces {
        let n = addresses.len() as f64;
        let is_write: Vec<bool> = addresses.iter().map(|a| a / 64 % 10 < 3).collect();
        println!("{name}: {} accesses", addresses.len());
        for vectors in Vectors::all() {
            let loads = CacheTrace { addresses, ..CacheTrace::default() };
            let mixed = CacheTrace { addresses, is_write: Some(&is_write), ..CacheTrace::default() };
            for (what, trace) in [("loads", loads), ("30 % stores", mixed)] {
                let (took, counts) = best(|| simulate_with(&levels, &trace, 0, vectors))?;
                let by_level: Vec<String> = counts
                    .levels
                    .iter()
                    .map(|l| format!("{}/{}", l.loads.hits + l.stores.hits, l.loads.misses + l.stores.misses))
                    .collect();
                println!("  {vectors:?} {what}: {:.1} M/s, hits/misses {}", n / took / 1e6, by_level.join(" "));
            }
        }
        let (took, _) = best(|| {
            let mut chain = CacheChain::new(&levels, 0, "levels")?;
            addresses.iter().for_each(|a| chain.load(Line(a / 64), Origin::default()));
            Ok(chain.counts().clone())
        })?;
        println!("  general chain, loads: {:.1} M/s", n / took / 1e6);
        let loads = CacheTrace { addresses, ..CacheTrace::default() };
        let (took, (sampled, groups)) = best(|| simulate_sample(&levels, &loads, 8, 1))?;
        println!("  8 of {groups} groups of sets: {:.1} M/s", n / took / 1e6);
        for (level, s) in sampled.iter().enumerate() {
            println!("    L{}: miss ratio {:.4} ± {:.4}", level + 1, s.miss_ratio.value, s.miss_ratio.half_width);
        }
    }
    Ok(())
}

fn best<T>(run: impl Fn() -> Result<T, machine::MachineError>) -> Result<(f64, T), machine::MachineError> {
    let timed = || {
        let start = cpu_seconds();
        run().map(|result| (cpu_seconds() - start, result))
    };
    let mut best = timed()?;
    for _ in 1..15 {
        let (took, result) = timed()?;
        best = (best.0.min(took), result);
    }
    Ok(best)
}

/// Lines over 2^20 by `inverse` of uniform numbers, scattered.
fn made_up(inverse: impl Fn(f64) -> f64) -> Vec<u64> {
    let mut state = 1u64;
    let line = |u: f64| ((inverse(u) * f64::from(1 << 20)) as u64).wrapping_mul(0x9e3779b1) & 0xfffff;
    (0..5_000_000)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            line((state >> 11) as f64 / (1u64 << 53) as f64) * 64
        })
        .collect()
}
