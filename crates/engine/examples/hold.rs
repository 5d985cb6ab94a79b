//! The hold model (Jones, CACM 1986): with n events pending, each that happens schedules one more.
//! Nanoseconds an event by n, for three distributions of the delay, and for std's binary heap.
//!
//! `cargo run --release -p wirespeed-engine --example hold`

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Instant;

use engine::{Deterministic, Draw, Engine, Exponential, Seed};
use units::Ps;

const MEAN: Ps = Ps(1_000_000);
const EVENTS: u32 = 500_000;

/// Ten times as many short delays as long ones, as memory references between packets.
struct Mixed(Exponential, u32);

impl Draw for Mixed {
    fn draw(&mut self) -> Ps {
        self.1 = (self.1 + 1) % 11;
        if self.1 == 0 { self.0.draw() * 100 } else { self.0.draw() }
    }
    fn restream(&mut self, rng: &mut rand_pcg::Pcg64) {
        self.0.restream(rng);
    }
}

/// The size of a simulator's event.
#[derive(Clone, Copy)]
struct Event {
    _what: u64,
    who: u64,
}

fn engine(n: u64, delay: &mut impl Draw) -> f64 {
    let mut engine = Engine::new();
    (0..n).for_each(|who| engine.after(delay.draw(), 0, Event { _what: 1, who }));
    time(|| {
        if let Some(event) = engine.pop() {
            engine.after(delay.draw(), 0, Event { who: event.who + 1, ..event });
        }
    })
}

fn heap(n: u64, delay: &mut impl Draw) -> f64 {
    let mut heap = BinaryHeap::new();
    let mut sequence = 0;
    (0..n).for_each(|who| heap.push(Reverse((delay.draw().0, 0u8, who, 1u64, who))));
    time(|| {
        if let Some(Reverse((now, _, _, what, who))) = heap.pop() {
            sequence += 1;
            heap.push(Reverse((now + delay.draw().0, 0, n + sequence, what, who + 1)));
        }
    })
}

fn time(mut event: impl FnMut()) -> f64 {
    (0..EVENTS / 4).for_each(|_| event());
    // The best of five: other work on the machine only ever adds time.
    let run = |_| {
        let start = Instant::now();
        (0..EVENTS).for_each(|_| event());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(EVENTS)
    };
    black_box((0..5).map(run).fold(f64::INFINITY, f64::min))
}

fn main() {
    println!("{:>8} {:>12} {:>12} {:>12} {:>12}", "pending", "exponential", "fixed", "mixed", "BinaryHeap");
    for n in [1, 2, 4, 8, 16, 24, 31, 33, 48, 64, 128, 256, 1024, 4096, 16_384, 65_536] {
        let exponential = || Exponential::new(MEAN, Seed(n).stream("delay"));
        println!(
            "{n:>8} {:>12.1} {:>12.1} {:>12.1} {:>12.1}",
            engine(n, &mut exponential()),
            engine(n, &mut Deterministic(MEAN)),
            engine(n, &mut Mixed(exponential(), 0)),
            heap(n, &mut exponential()),
        );
    }
}
