//! What it costs to record: nanoseconds a value, the best of seven runs over a million.
//!
//! `cargo run --release -p wirespeed-stats --example record`

use std::hint::black_box;
use std::time::Instant;

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;
use stats::{BatchMeans, Histogram, Latency, Moments, Ratio, Series, TimeWeighted};
use units::Ps;

fn main() {
    let mut rng = Pcg64::seed_from_u64(1);
    let mut exponential = || -> f64 { Exp1.sample(&mut rng) };
    let latencies: Vec<Ps> = (0..1_000_000).map(|_| Ps((2e6 * exponential()) as u64)).collect();
    let row = |name: &str, record: &mut dyn FnMut(&[Ps])| {
        let run = |_| {
            let start = Instant::now();
            record(black_box(&latencies));
            start.elapsed().as_secs_f64() * 1e9 / latencies.len() as f64
        };
        println!("{name:<14} {:>6.2} ns", (0..7).map(run).fold(f64::INFINITY, f64::min));
    };
    let (mut moments, mut means, mut ratio) = (Moments::new(), BatchMeans::new(), Ratio::new());
    let (mut histogram, mut latency) = (Histogram::new(), Latency::new());
    let (mut level, mut series) = (TimeWeighted::new(Ps::ZERO, 0.0), Series::new(512, Ps::from_ns(1)));
    let (mut level_now, mut series_now) = (Ps::ZERO, Ps::ZERO);
    row("Moments", &mut |xs| xs.iter().for_each(|x| moments.record(x.0 as f64)));
    row("BatchMeans", &mut |xs| xs.iter().for_each(|x| means.record(x.0 as f64)));
    row("Ratio", &mut |xs| xs.iter().for_each(|x| ratio.record(f64::from(u8::from(x.0 % 8 == 0)), 1.0)));
    row("Histogram", &mut |xs| xs.iter().for_each(|&x| histogram.record(x)));
    row("Latency", &mut |xs| xs.iter().for_each(|&x| latency.record(x)));
    row("TimeWeighted", &mut |xs| {
        for &x in xs {
            level_now += x;
            level.set(level_now, x.0 as f64);
        }
    });
    row("Series", &mut |xs| {
        for &x in xs {
            series_now += x;
            series.record(series_now, 1.0);
        }
    });
    black_box((
        moments.mean(),
        means.mean(),
        ratio.sums(),
        histogram.n(),
        latency.n(),
        level.max(),
        series.bins().len(),
    ));
}
