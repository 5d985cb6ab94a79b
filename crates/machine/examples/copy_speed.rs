//! Simulated accesses per second of CPU time with the copy table on, on one core:
//! `cargo run --release -p wirespeed-machine --example copy_speed [millions]`.
//!
//! Nine loads and stores in ten, over twice the L2, and copies of 1280 B between random lines; a copy
//! counts as its ten lines.

use std::time::Instant;

use machine::copy_table::{CopyCosts, CopyLevel, CopyMethod, CopyRequest, CopySystemSpec, Words};
use probe::Access;
use units::{CoreId, Ps};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let millions: u64 = std::env::args().nth(1).map_or(Ok(100), |n| n.parse())?;
    let mut level = CopyLevel::new(&CopySystemSpec::default(), &CopyCosts::default())?;
    let table = CopyMethod::Table(Words::default());
    let (mut state, mut now, mut accesses) = (1u64, Ps::ZERO, 0u64);
    let begun = Instant::now();
    while accesses < millions * 1_000_000 {
        // A multiplicative generator: its high bits are good enough to choose addresses.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let line = (state >> 40) % (4 << 13);
        if accesses % 100 < 90 {
            let access = if state >> 33 & 3 == 0 { Access::Store } else { Access::Load };
            now = level.word(CoreId(0), access, line * 128, 8, now).at;
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
    let seconds = begun.elapsed().as_secs_f64();
    println!("{accesses} accesses in {seconds:.2} s: {:.1} M/s, {:?}", accesses as f64 / seconds / 1e6, level.counts);
    Ok(())
}
