//! The loss of M/M/28/100 at rho 0.9, 2.464e-5, to 1 % by repeated trials.
//!
//! `cargo run --release -p wirespeed-engine --example loss -- [SEED]` runs until the 95 % half-width
//! has been below 1 % for 256 batches in a row, and prints the estimate, the exact value and the
//! effort.

use std::error::Error;
use std::time::Instant;

use engine::restart::{LossyQueue, Restart, Threshold};
use engine::{Exponential, Seed};
use stats::Ratio;
use units::Ps;

const SERVICE: Ps = Ps(1_000_000);
const SERVERS: u32 = 28;
const CAPACITY: u32 = 100;
const RHO: f64 = 0.9;

fn main() -> Result<(), Box<dyn Error>> {
    let seed = Seed(std::env::args().nth(1).map_or(Ok(1), |n| n.parse())?);
    let gap = Ps::from_secs_f64(SERVICE.as_secs() / RHO / f64::from(SERVERS));
    let model = LossyQueue::new(
        Exponential::new(gap, seed.stream("arrivals")),
        Exponential::new(SERVICE, seed.stream("services")),
        SERVERS as usize,
        CAPACITY as usize,
    );
    // Each waiting customer more is 0.9 times as likely, so 6.58 more are half as likely.
    let threshold = |i| Threshold { importance: (28.0 + 6.58 * f64::from(i)).round() as usize, trials: 2 };
    let thresholds: Vec<Threshold> = (1..=10).map(threshold).collect();

    let start = Instant::now();
    let mut restart = Restart::new(model, &thresholds, seed);
    restart.run(100_000);
    let mut ratio = Ratio::new();
    let mut good = 0;
    while good < 256 {
        let counts = restart.run(100_000);
        ratio.record(counts.rare, counts.all);
        good = if ratio.estimate().relative() < 0.01 { good + 1 } else { 0 };
    }
    let loss = ratio.estimate();
    let exact = queueing::mmck(RHO * f64::from(SERVERS), 1.0, SERVERS, CAPACITY)?.blocking;
    println!(
        "loss {:.4e} half_width {:.2} % exact {exact:.4e} off by {:.2} % customers {:.1}M events {:.1}M seconds {:.1}",
        loss.value,
        100.0 * loss.relative(),
        100.0 * (loss.value / exact - 1.0),
        ratio.sums().1 / 1e6,
        restart.steps() as f64 / 1e6,
        start.elapsed().as_secs_f64(),
    );
    Ok(())
}
