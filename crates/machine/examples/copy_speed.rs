//! Simulated accesses per second of CPU time with the copy table on, on one core:
//! `cargo run --release -p wirespeed-machine --example copy_speed [millions [local|random]]`.
//!
//! Nine loads and stores in ten, and copies of 1280 B between random lines of twice the L2; a copy counts as
//! its ten lines. Once 15 of 16 loads and stores go to 16 KiB, as in real programs, and once all of them
//! anywhere, so that every second one misses L2 too: the worst case.

use clock::cpu_seconds;
use machine::copy_table::{CopyCosts, CopyLevel, CopyLoopCost, CopyMethod, CopyRequest, CopySystemSpec};
use probe::Access;
use units::{CoreId, Ps};

mod clock;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let millions: u64 = std::env::args().nth(1).map_or(Ok(100), |n| n.parse())?;
    let only = std::env::args().nth(2);
    for (name, mask) in [("local", 15), ("random", 0)] {
        if only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        run(name, mask, millions)?;
    }
    Ok(())
}

/// Accesses go anywhere where a random number has none of the bits of `mask`.
fn run(name: &str, mask: u64, millions: u64) -> Result<(), Box<dyn std::error::Error>> {
    let mut level = CopyLevel::new(&CopySystemSpec::default(), &CopyCosts::default())?;
    let table = CopyMethod::Table(CopyLoopCost::default());
    let (mut state, mut now, mut accesses) = (1u64, Ps::ZERO, 0u64);
    let begun = cpu_seconds();
    while accesses < millions * 1_000_000 {
        // A multiplicative generator: its high bits are good enough to choose addresses.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let line = (state >> 40) % (4 << 13);
        if accesses % 100 < 90 {
            let access = if state >> 33 & 3 == 0 { Access::Store } else { Access::Load };
            let line = if state >> 35 & mask == 0 { line } else { line % 128 };
            now = level.word(CoreId(0), access, line * 128, 8, now);
            accesses += 1;
        } else {
            let copy = CopyRequest {
                core: CoreId(0),
                src: line * 128,
                dst: (4 << 20) + (state >> 20) % (1 << 13) * 128,
                bytes: 1280,
            };
            now = table.copy(&mut level, copy, now).at;
            accesses += 10;
        }
    }
    let seconds = cpu_seconds() - begun;
    println!(
        "{name}: {accesses} accesses in {seconds:.2} s: {:.1} M/s, {:?}",
        accesses as f64 / seconds / 1e6,
        level.counts
    );
    Ok(())
}
