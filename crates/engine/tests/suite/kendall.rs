//! Each closed form of `queueing` against a simulation on the engine, at a relative half-width of 1 %.
//!
//! Single queues without priorities run on `engine::queue`; priorities and closed networks on the
//! two models below, which follow the definitions and nothing else.

use std::collections::VecDeque;

use engine::queue::{self, Queue, QueueObserver};
use engine::{Deterministic, Draw, Engine, Exponential, Model, Seed};
use queueing::{PriorityClass, Station};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use stats::{BatchMeans, Estimate};
use units::Ps;

/// One unit of time of the closed forms.
const UNIT: Ps = Ps(1_000_000);

fn spans(mean: f64, seed: Seed, name: &str) -> Exponential {
    Exponential::new(Ps::from_secs_f64(UNIT.as_secs() * mean), seed.stream(name))
}

/// In units of time.
fn estimate(means: &BatchMeans) -> Estimate {
    let e = means.estimate();
    let unit = UNIT.0 as f64;
    Estimate { value: e.value / unit, half_width: e.half_width / unit, ..e }
}

/// With 16 cases one interval of 95 % would miss by chance; 1.5 half-widths are missed once in 300.
fn agree(name: &str, simulated: &Estimate, exact: f64) {
    println!("{name}: {:.5} +- {:.5} for {exact:.5}", simulated.value, simulated.half_width);
    assert!(simulated.relative() <= 0.01, "{name}: half-width {:.2} %", 100.0 * simulated.relative());
    assert!((simulated.value - exact).abs() <= 1.5 * simulated.half_width, "{name}: {simulated:?} for {exact}");
}

/// Two exponential spans in a row, scv 0.5.
struct Erlang2(Exponential, Exponential);

impl Draw for Erlang2 {
    fn draw(&mut self) -> Ps {
        self.0.draw() + self.1.draw()
    }
    fn restream(&mut self, rng: &mut Pcg64) {
        self.0.restream(rng);
        self.1.restream(rng);
    }
}

/// A short span or a long one, with balanced means.
struct Hyperexponential {
    short: Exponential,
    long: Exponential,
    /// Probability of the short one.
    p: f64,
    rng: Pcg64,
}

impl Hyperexponential {
    /// Of mean 1 and squared coefficient of variation `scv`: p = (1 + sqrt((scv - 1) / (scv + 1))) / 2
    /// with means 1 / 2p and 1 / 2(1 - p) (Whitt 1982).
    fn new(scv: f64, seed: Seed) -> Hyperexponential {
        let p = 0.5 * (1.0 + ((scv - 1.0) / (scv + 1.0)).sqrt());
        let (short, long) = (spans(0.5 / p, seed, "short"), spans(0.5 / (1.0 - p), seed, "long"));
        Hyperexponential { short, long, p, rng: seed.stream("which") }
    }
}

impl Draw for Hyperexponential {
    fn draw(&mut self) -> Ps {
        if self.rng.random::<f64>() < self.p { self.short.draw() } else { self.long.draw() }
    }
    fn restream(&mut self, rng: &mut Pcg64) {
        self.short.restream(rng);
        self.long.restream(rng);
        self.rng = Pcg64::from_rng(rng);
    }
}

#[derive(Default)]
struct Sojourns(BatchMeans, u64);

impl QueueObserver for Sojourns {
    fn served(&mut self, sojourn: Ps) {
        self.0.record(sojourn.0 as f64);
        self.1 += 1;
    }
}

fn sojourn(rho: f64, services: impl Draw, servers: usize, capacity: usize, customers: u64) -> Estimate {
    let mut engine: Engine<queue::QueueEvent> = Engine::new();
    // Cases with the same arrivals would err together.
    let arrivals = spans(1.0 / rho / servers as f64, Seed(7 + customers), "arrivals");
    let mut queue = Queue::new(arrivals, services, servers, capacity, Sojourns::default(), &mut engine);
    engine.run_while(&mut queue, |queue| queue.observer.1 < customers / 10);
    queue.observer = Sojourns::default();
    engine.run_while(&mut queue, |queue| queue.observer.1 < customers);
    estimate(&queue.observer.0)
}

#[test]
fn open_and_finite_queues_meet_their_closed_forms_at_one_percent() {
    let seed = Seed(11);
    let exponential = || spans(1.0, seed, "services");
    let w = |rho, services, n| sojourn(rho, services, 1, usize::MAX, n);
    agree("M/M/1", &w(0.7, exponential(), 7_000_000), queueing::mm1(0.7, 1.0).unwrap().w);
    let fixed = sojourn(0.8, Deterministic(UNIT), 1, usize::MAX, 6_000_000);
    agree("M/D/1", &fixed, queueing::md1(0.8, 1.0).unwrap().w);
    let erlang = Erlang2(spans(0.5, seed, "first"), spans(0.5, seed, "second"));
    agree("M/E2/1", &sojourn(0.7, erlang, 1, usize::MAX, 5_000_000), queueing::mg1(0.7, 1.0, 0.5).unwrap().w);
    let bursty = Hyperexponential::new(4.0, seed);
    agree("M/H2/1", &sojourn(0.5, bursty, 1, usize::MAX, 12_000_000), queueing::mg1(0.5, 1.0, 4.0).unwrap().w);
    let many = sojourn(0.8, exponential(), 4, usize::MAX, 5_500_000);
    agree("M/M/4", &many, queueing::mmc(0.8 * 4.0, 1.0, 4).unwrap().w);
    let finite = sojourn(1.1, exponential(), 3, 12, 800_000);
    agree("M/M/3/12", &finite, queueing::mmck(1.1 * 3.0, 1.0, 3, 12).unwrap().w);
}

/// A queue with priorities, of several servers without preemption or of one with it.
struct Priorities {
    arrivals: Vec<Exponential>,
    services: Vec<Exponential>,
    preemptive: bool,
    free: usize,
    /// By class: when it arrived, and the service it still needs.
    waiting: Vec<VecDeque<(Ps, Ps)>>,
    /// Whom the server that can be interrupted serves: class, arrival, end. A departure whose
    /// number is not `serial` was interrupted.
    serving: Option<(usize, Ps, Ps)>,
    serial: u64,
    seen: Vec<BatchMeans>,
    served: u64,
}

enum Happens {
    Arrival(usize),
    Departure { class: usize, arrived: Ps, serial: u64 },
}

impl Priorities {
    fn start(&mut self, class: usize, arrived: Ps, left: Ps, engine: &mut Engine<Happens>) {
        self.serial += 1;
        self.serving = Some((class, arrived, engine.now() + left));
        engine.after(left, 0, Happens::Departure { class, arrived, serial: self.serial });
    }
}

impl Model for Priorities {
    type Event = Happens;

    fn handle(&mut self, event: Happens, engine: &mut Engine<Happens>) {
        let now = engine.now();
        match event {
            Happens::Arrival(class) => {
                engine.after(self.arrivals[class].draw(), 0, Happens::Arrival(class));
                let service = self.services[class].draw();
                if self.free > 0 {
                    self.free -= 1;
                    self.start(class, now, service, engine);
                    return;
                }
                match self.serving {
                    Some((other, arrived, end)) if self.preemptive && class < other => {
                        self.waiting[other].push_front((arrived, end.since(now)));
                        self.start(class, now, service, engine);
                    }
                    _ => self.waiting[class].push_back((now, service)),
                }
            }
            Happens::Departure { class, arrived, serial } => {
                if self.preemptive && serial != self.serial {
                    return;
                }
                self.seen[class].record(now.since(arrived).0 as f64);
                self.served += 1;
                let next = (0..self.waiting.len()).find_map(|c| self.waiting[c].pop_front().map(|w| (c, w)));
                match next {
                    Some((class, (arrived, left))) => self.start(class, arrived, left, engine),
                    None => self.free += 1,
                }
            }
        }
    }
}

fn priorities(classes: &[(f64, f64)], servers: usize, preemptive: bool, customers: u64) -> Vec<Estimate> {
    let mut engine = Engine::new();
    let stream = |mean: f64, what: &str, i: usize| spans(mean, Seed(5), &format!("{what} {i}"));
    let n = classes.len();
    let mut model = Priorities {
        arrivals: (0..n).map(|i| stream(1.0 / classes[i].0, "arrivals", i)).collect(),
        services: (0..n).map(|i| stream(1.0 / classes[i].1, "services", i)).collect(),
        preemptive,
        free: servers,
        waiting: vec![VecDeque::new(); n],
        serving: None,
        serial: 0,
        seen: vec![BatchMeans::default(); n],
        served: 0,
    };
    for class in 0..n {
        let first = model.arrivals[class].draw();
        engine.after(first, 0, Happens::Arrival(class));
    }
    engine.run_while(&mut model, |m| m.served < customers / 10);
    model.seen = vec![BatchMeans::default(); n];
    model.served = 0;
    engine.run_while(&mut model, |m| m.served < customers);
    model.seen.iter().map(estimate).collect()
}

#[test]
fn priorities_meet_their_closed_forms_at_one_percent() {
    let load = [(0.3, 2.0), (0.4, 1.0)];
    let classes = load.map(|(lambda, mu)| PriorityClass { lambda, mu, scv: 1.0 });
    for (name, preemptive, exact) in [
        ("M/M/1 priority", false, queueing::mg1_priority(&classes).unwrap()),
        ("M/M/1 preemptive", true, queueing::mg1_preemptive(&classes).unwrap()),
    ] {
        let seen = priorities(&load, 1, preemptive, 2_000_000);
        for (class, (seen, exact)) in seen.iter().zip(exact).enumerate() {
            agree(&format!("{name}, class {class}"), seen, exact.w);
        }
    }
    let seen = priorities(&[(1.0, 1.0), (1.0, 1.0)], 3, false, 1_500_000);
    let exact = queueing::mmc_priority(&[1.0, 1.0], 1.0, 3).unwrap();
    for (class, (seen, exact)) in seen.iter().zip(exact).enumerate() {
        agree(&format!("M/M/3 priority, class {class}"), seen, exact.w);
    }
}

/// Customers go round the stations in order.
struct Ring {
    services: Vec<Exponential>,
    free: Vec<usize>,
    waiting: Vec<VecDeque<Ps>>,
    round: BatchMeans,
    rounds: u64,
}

/// A customer whose round began at `since` is served at `station`.
struct Served {
    station: usize,
    since: Ps,
}

impl Ring {
    fn enter(&mut self, station: usize, since: Ps, engine: &mut Engine<Served>) {
        if self.free[station] > 0 {
            self.free[station] -= 1;
            engine.after(self.services[station].draw(), 0, Served { station, since });
        } else {
            self.waiting[station].push_back(since);
        }
    }
}

impl Model for Ring {
    type Event = Served;

    fn handle(&mut self, Served { station, since }: Served, engine: &mut Engine<Served>) {
        self.free[station] += 1;
        if let Some(next) = self.waiting[station].pop_front() {
            self.enter(station, next, engine);
        }
        let (next, mut since) = ((station + 1) % self.free.len(), since);
        if next == 0 {
            self.round.record(engine.now().since(since).0 as f64);
            self.rounds += 1;
            since = engine.now();
        }
        self.enter(next, since, engine);
    }
}

#[test]
fn a_closed_network_meets_exact_mva_at_one_percent() {
    let stations = [Station::delay(6.0), Station::queue(0.8), Station { demand: 2.0, servers: 2 }];
    for customers in [1, 4, 12] {
        let mut engine = Engine::new();
        let service = |(i, s): (usize, &Station)| spans(s.demand, Seed(3), &format!("station {i}"));
        let free = |s: &Station| if s.servers == 0 { usize::MAX / 2 } else { s.servers as usize };
        let mut ring = Ring {
            services: stations.iter().enumerate().map(service).collect(),
            free: stations.iter().map(free).collect(),
            waiting: vec![VecDeque::new(); stations.len()],
            round: BatchMeans::default(),
            rounds: 0,
        };
        for _ in 0..customers {
            ring.enter(0, Ps::ZERO, &mut engine);
        }
        engine.run_while(&mut ring, |r| r.rounds < 20_000);
        (ring.round, ring.rounds) = (BatchMeans::default(), 0);
        engine.run_while(&mut ring, |r| r.rounds < 300_000);
        let exact = queueing::mva(&stations, customers).unwrap().cycle;
        agree(&format!("closed, {customers} customers"), &estimate(&ring.round), exact);
    }
}

/// A server that takes those who wait as one batch.
struct Batches {
    arrivals: Exponential,
    setup: Ps,
    each: Ps,
    most: usize,
    waiting: VecDeque<Ps>,
    serving: Vec<Ps>,
    seen: BatchMeans,
    sizes: (u64, u64),
}

enum Bulk {
    Arrival,
    End,
}

impl Batches {
    fn begin(&mut self, engine: &mut Engine<Bulk>) {
        let n = self.waiting.len().min(self.most);
        self.serving.extend(self.waiting.drain(..n));
        self.sizes = (self.sizes.0 + n as u64, self.sizes.1 + 1);
        engine.after(self.setup + self.each * n as u64, 0, Bulk::End);
    }
}

impl Model for Batches {
    type Event = Bulk;

    fn handle(&mut self, event: Bulk, engine: &mut Engine<Bulk>) {
        match event {
            Bulk::Arrival => {
                engine.after(self.arrivals.draw(), 0, Bulk::Arrival);
                self.waiting.push_back(engine.now());
                if self.serving.is_empty() {
                    self.begin(engine);
                }
            }
            Bulk::End => {
                for arrived in self.serving.drain(..) {
                    self.seen.record(engine.now().since(arrived).0 as f64);
                }
                if !self.waiting.is_empty() {
                    self.begin(engine);
                }
            }
        }
    }
}

#[test]
fn batches_meet_their_closed_form_at_one_percent() {
    for (lambda, setup, most) in [(0.7, 0.5, 32), (0.9, 2.0, 8), (0.45, 1.0, 2)] {
        let mut engine = Engine::new();
        let of = |units: f64| Ps((UNIT.0 as f64 * units) as u64);
        let mut model = Batches {
            arrivals: spans(1.0 / lambda, Seed(19), "arrivals"),
            setup: of(setup),
            each: of(0.75),
            most,
            waiting: VecDeque::new(),
            serving: Vec::new(),
            seen: BatchMeans::default(),
            sizes: (0, 0),
        };
        engine.schedule(Ps(0), 0, Bulk::Arrival);
        engine.run_while(&mut model, |m| m.sizes.0 < 100_000);
        (model.seen, model.sizes) = (BatchMeans::default(), (0, 0));
        engine.run_while(&mut model, |m| m.sizes.0 < 2_000_000);
        let exact = queueing::bulk(lambda, setup, 0.75, 0.0, most as u32).unwrap();
        agree(&format!("batches of up to {most}"), &estimate(&model.seen), exact.w);
        let size = model.sizes.0 as f64 / model.sizes.1 as f64;
        assert!((size / exact.batch - 1.0).abs() < 0.01, "{size} for {exact:?}");
    }
}
