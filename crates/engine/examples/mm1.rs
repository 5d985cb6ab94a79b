//! M/M/1 at rho 0.9 on the general engine: speed, and agreement with the closed form.
//!
//! `cargo run --release -p wirespeed-engine --example mm1 -- [CUSTOMERS] [SEED]` prints one line a
//! script can read: `customers/s`, the mean sojourn in mean service times with its 95 % half-width,
//! and the exact value.

use std::error::Error;
use std::time::Instant;

use engine::queue::{Queue, QueueEvent, QueueObserver};
use engine::{Engine, Exponential, Seed};
use stats::BatchMeans;
use units::Ps;

/// Mean service time. 1 us is a million picoseconds, so rounding draws down to 1 ps is far below the
/// half-width.
const SERVICE: Ps = Ps(1_000_000);
const RHO: f64 = 0.9;

struct Sojourn {
    served: u64,
    mean: BatchMeans,
}

impl QueueObserver for Sojourn {
    #[inline]
    fn served(&mut self, sojourn: Ps) {
        self.served += 1;
        self.mean.record(sojourn.0 as f64);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let customers: u64 = arguments.next().map_or(Ok(20_000_000), |n| n.parse())?;
    let seed = Seed(arguments.next().map_or(Ok(1), |n| n.parse())?);
    let gap = Ps::from_secs_f64(SERVICE.as_secs() / RHO);

    let start = Instant::now();
    let mut engine: Engine<QueueEvent> = Engine::new();
    let mut queue = Queue::new(
        Exponential::new(gap, seed.stream("arrivals")),
        Exponential::new(SERVICE, seed.stream("services")),
        1,
        usize::MAX,
        Sojourn { served: 0, mean: BatchMeans::new() },
        &mut engine,
    );
    let warmup = customers / 10;
    engine.run_while(&mut queue, |queue| queue.observer.served < warmup);
    queue.observer.mean.reset();
    engine.run_while(&mut queue, |queue| queue.observer.served < customers);
    let seconds = start.elapsed().as_secs_f64();

    let w = queue.observer.mean.estimate();
    let unit = SERVICE.0 as f64;
    println!(
        "customers/s {:.0} w {:.4} half_width {:.4} exact {:.4} batches {} lag1 {:.2} events {}",
        customers as f64 / seconds,
        w.value / unit,
        w.half_width / unit,
        queueing::mm1(RHO, 1.0)?.w,
        w.batches,
        w.lag1,
        engine.scheduled(),
    );
    Ok(())
}
