//! The engine with its statistics, against the closed forms of queues.

use engine::queue::{Queue, QueueEvent, QueueObserver};
use engine::restart::{LossyQueue, Restart, Threshold};
use engine::{Deterministic, Draw, Engine, Exponential, Seed};
use stats::{BatchMeans, Estimate, Latency, Proportion, Ratio};
use units::Ps;

const SERVICE: Ps = Ps(1_000_000);

#[derive(Clone, Default)]
struct Seen {
    served: u64,
    sojourn: BatchMeans,
    loss: Ratio,
}

impl QueueObserver for Seen {
    #[inline]
    fn served(&mut self, sojourn: Ps) {
        self.served += 1;
        self.sojourn.record(sojourn.0 as f64);
        self.loss.record(0.0, 1.0);
    }
    #[inline]
    fn lost(&mut self) {
        self.loss.record(1.0, 1.0);
    }
}

fn exponential(mean: f64, seed: Seed, name: &str) -> Exponential {
    Exponential::new(Ps::from_secs_f64(SERVICE.as_secs() * mean), seed.stream(name))
}

/// Sojourn in mean service times, loss, and the time of the end, of `customers` after a tenth of
/// their number as warm-up.
fn run(
    services: impl Draw,
    rho: f64,
    servers: usize,
    capacity: usize,
    customers: u64,
    seed: Seed,
) -> (Estimate, Proportion, Ps) {
    let mut engine: Engine<QueueEvent> = Engine::new();
    let arrivals = exponential(1.0 / rho / servers as f64, seed, "arrivals");
    let mut queue = Queue::new(arrivals, services, servers, capacity, Seen::default(), &mut engine);
    engine.run_while(&mut queue, |queue| queue.observer.served < customers / 10);
    queue.observer = Seen::default();
    engine.run_while(&mut queue, |queue| queue.observer.served < customers);
    assert_eq!(engine.late(), 0);
    let w = queue.observer.sojourn.estimate();
    let unit = SERVICE.0 as f64;
    let w = Estimate { value: w.value / unit, half_width: w.half_width / unit, ..w };
    (w, queue.observer.loss.estimate(), engine.now())
}

fn mmck(rho: f64, servers: usize, capacity: usize, customers: u64, seed: Seed) -> (Estimate, Proportion, Ps) {
    run(exponential(1.0, seed, "services"), rho, servers, capacity, customers, seed)
}

#[test]
fn mean_sojourn_of_mm1_and_md1_is_the_closed_form() {
    let (w, ..) = mmck(0.9, 1, usize::MAX, 3_000_000, Seed(1));
    let exact = queueing::mm1(0.9, 1.0).unwrap().w;
    assert!(w.covers(exact) && w.relative() < 0.05, "{w:?} for {exact}");
    let (w, ..) = run(Deterministic(SERVICE), 0.8, 1, usize::MAX, 1_000_000, Seed(1));
    let exact = queueing::md1(0.8, 1.0).unwrap().w;
    assert!(w.covers(exact) && w.relative() < 0.05, "{w:?} for {exact}");
}

#[test]
fn mm28_100_has_the_reference_sojourn_and_loss() {
    let (w, ..) = mmck(0.9, 28, 100, 1_500_000, Seed(1));
    assert!(w.covers(1.172_668) && w.relative() < 0.01, "{w:?}");
    let (w, loss, _) = mmck(1.1, 28, 100, 1_000_000, Seed(1));
    assert!(w.covers(3.215_984) && w.relative() < 0.01, "{w:?}");
    assert!(loss.covers(0.090_958_5) && loss.relative() < 0.05, "{loss:?}");
}

fn loss_of_mm28_100(batches: u32, seed: Seed) -> Proportion {
    let (arrivals, services) = (exponential(1.0 / 0.9 / 28.0, seed, "arrivals"), exponential(1.0, seed, "services"));
    // Each waiting customer more is 0.9 times as likely, so 6.58 more are half as likely.
    let threshold = |i| Threshold { importance: (28.0 + 6.58 * f64::from(i)).round() as usize, trials: 2 };
    let thresholds: Vec<Threshold> = (1..=10).map(threshold).collect();
    let mut restart = Restart::new(LossyQueue::new(arrivals, services, 28, 100), &thresholds, seed);
    restart.run(100_000);
    let mut ratio = Ratio::new();
    for _ in 0..batches {
        let counts = restart.run(20_000);
        ratio.record(counts.rare, counts.all);
    }
    ratio.estimate()
}

#[test]
fn splitting_finds_the_rare_loss_of_mm28_100() {
    let loss = loss_of_mm28_100(128, Seed(1));
    assert!(loss.covers(2.464e-5) && loss.relative() < 0.3, "{loss:?}");
}

#[test]
#[ignore = "slow: minutes of CPU, and a release build"]
fn splitting_finds_the_rare_loss_of_mm28_100_to_one_percent() {
    let loss = loss_of_mm28_100(60_000, Seed(1));
    assert!(loss.covers(2.464e-5) && loss.relative() < 0.01, "{loss:?}");
}

#[test]
fn intervals_of_the_mean_cover_it_for_91_to_98_percent_of_200_seeds() {
    let covered = (0..200).filter(|&seed| mmck(0.9, 1, usize::MAX, 400_000, Seed(seed)).0.covers(10.0)).count();
    println!("{covered} of 200 intervals cover the mean");
    assert!((182..=196).contains(&covered), "{covered} of 200");
}

#[test]
fn quantiles_of_mm1_are_covered() {
    // The sojourn in M/M/1 is exponential with mean 1 / (mu - lambda) (Gross et al., section 2.2.4).
    struct Quantiles(Latency);
    impl QueueObserver for Quantiles {
        fn served(&mut self, sojourn: Ps) {
            self.0.record(sojourn);
        }
    }
    let mut covered = [0; 3];
    for seed in (0..100).map(Seed) {
        let mut engine = Engine::new();
        let (arrivals, services) = (exponential(1.0 / 0.7, seed, "arrivals"), exponential(1.0, seed, "services"));
        let mut queue = Queue::new(arrivals, services, 1, usize::MAX, Quantiles(Latency::new()), &mut engine);
        engine.run_while(&mut queue, |queue| queue.observer.0.n() < 5_000);
        queue.observer.0.reset();
        engine.run_while(&mut queue, |queue| queue.observer.0.n() < 100_000);
        for (covered, q) in covered.iter_mut().zip([0.5, 0.99, 0.999]) {
            let exact = Ps((SERVICE.0 as f64 / 0.3 * -f64::ln(1.0 - q)) as u64);
            *covered += u32::from(queue.observer.0.quantile(q).unwrap().covers(exact));
        }
    }
    assert!(covered.iter().all(|covered| (88..=99).contains(covered)), "{covered:?} of 100");
}

#[test]
fn a_seed_gives_the_same_run_to_the_last_bit() {
    let (w, loss, end) = mmck(0.95, 4, 20, 50_000, Seed(9));
    assert_eq!((w, loss, end), mmck(0.95, 4, 20, 50_000, Seed(9)));
    assert_ne!(end, mmck(0.95, 4, 20, 50_000, Seed(10)).2);
    // And in every version.
    assert_eq!((w.value.to_bits(), end), (4_612_652_591_651_954_485, Ps(14_917_003_580)));
}
