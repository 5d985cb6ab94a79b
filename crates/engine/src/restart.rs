//! Rare events by repeated trials: RESTART (M. and J. Villén-Altamirano, "RESTART: a method for
//! accelerating rare event simulations", ITC-13 1991; "RESTART: a straightforward method for fast
//! simulation of rare events", WSC 1994).
//!
//! A loss of one in a million is met once in a million packets. But the way to it leads through
//! states that are ever less rare: a queue that is half full, three quarters full. Whenever the state
//! rises to such a threshold, it is copied, and each of R - 1 copies goes on by itself until it falls
//! below the threshold again. What happens above the threshold is seen R times as often, and counts
//! 1/R. The estimate is unbiased for any thresholds and numbers of copies; good ones keep the effort
//! equal between thresholds: R is the reciprocal of the probability to rise from one to the next.
//!
//! Left out: the choice of thresholds. A pilot run, or a closed form, gives it.

use rand_pcg::Pcg64;
use units::Ps;

use crate::queue::{Queue, QueueEvent, QueueObserver};
use crate::{Draw, Engine, Model, Seed};

/// A model that can be split: its state is copied and goes on with other random numbers.
pub trait Split: Clone {
    /// Goes on by one event.
    fn step(&mut self);

    /// How near the rare event is: the higher, the nearer.
    fn importance(&self) -> usize;

    /// What was counted since the last call, and forgets it: for a loss, the lost and the offered.
    fn take_counts(&mut self) -> RatioSums;

    /// Goes on with other random streams from here.
    fn restream(&mut self, rng: &mut Pcg64);

    /// Takes over the state of `other` and keeps its own random streams.
    fn resume_from(&mut self, other: &Self);
}

/// Sums whose ratio is estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RatioSums {
    /// Of the rare event.
    pub rare: f64,
    /// Of all.
    pub all: f64,
}

/// Copies are made when the importance rises to this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// The importance to rise to.
    pub importance: usize,
    /// How many trials go on from there, the one that came included. 1 makes no copy.
    pub trials: u32,
}

/// A model run by repeated trials.
#[derive(Clone, Debug)]
pub struct Restart<S> {
    main: Option<S>,
    /// The level of the main trial: how many thresholds it is at or above.
    level: usize,
    /// By importance, up to the highest threshold.
    levels: Vec<usize>,
    /// By level.
    trials: Vec<u32>,
    /// By level: what is counted there counts this much.
    weights: Vec<f64>,
    /// By level: the copy that is tried. A copy makes copies at higher levels only, so there is never
    /// more than one of a level.
    copies: Vec<Option<S>>,
    rng: Pcg64,
    steps: u64,
}

impl<S: Split> Restart<S> {
    /// `model` with copies made at `thresholds`, in any order; equal ones multiply. The streams of
    /// the copies come from `seed`.
    pub fn new(model: S, thresholds: &[Threshold], seed: Seed) -> Restart<S> {
        let mut thresholds = thresholds.to_vec();
        thresholds.sort_by_key(|threshold| threshold.importance);
        let highest = thresholds.last().map_or(0, |threshold| threshold.importance);
        let level_of = |importance| thresholds.iter().filter(|t| t.importance <= importance).count();
        let trials: Vec<u32> = [1].into_iter().chain(thresholds.iter().map(|t| t.trials.max(1))).collect();
        let weight = |weight: &mut f64, &trials: &u32| {
            *weight /= f64::from(trials);
            Some(*weight)
        };
        Restart {
            level: level_of(model.importance()),
            main: Some(model),
            levels: (0..=highest).map(level_of).collect(),
            weights: trials.iter().scan(1.0, weight).collect(),
            copies: vec![None; trials.len()],
            trials,
            rng: seed.stream("restart"),
            steps: 0,
        }
    }

    /// Lets the main trial go on by `steps` events, and all trials that start from it to their end.
    ///
    /// The counts of one call after the other are a correlated sequence, as those of any simulation:
    /// their ratio and its half-width are a matter of batch means.
    pub fn run(&mut self, steps: u64) -> RatioSums {
        let mut counts = RatioSums::default();
        if let Some(mut main) = self.main.take() {
            self.level = self.go_on(&mut main, 0, self.level, steps, &mut counts);
            self.main = Some(main);
        }
        counts
    }

    /// Events so far, of all trials: the effort.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Lets a trial go on that started at level `least` and is at `level`, until it falls below or
    /// has made `steps` steps; returns its level.
    fn go_on(&mut self, trial: &mut S, least: usize, mut level: usize, steps: u64, counts: &mut RatioSums) -> usize {
        let top = self.weights.len() - 1;
        for _ in 0..steps {
            trial.step();
            self.steps += 1;
            let seen = trial.take_counts();
            counts.rare += self.weights[level] * seen.rare;
            counts.all += self.weights[level] * seen.all;
            let now = self.levels.get(trial.importance()).copied().unwrap_or(top);
            if now < level {
                level = now;
                if level < least {
                    return level;
                }
            }
            while level < now {
                level += 1;
                self.try_copies(trial, level, counts);
            }
        }
        level
    }

    fn try_copies(&mut self, trial: &S, level: usize, counts: &mut RatioSums) {
        if self.trials[level] == 1 {
            return;
        }
        let mut copy = self.copies[level].take().unwrap_or_else(|| {
            let mut copy = trial.clone();
            copy.restream(&mut self.rng);
            copy
        });
        for _ in 1..self.trials[level] {
            copy.resume_from(trial);
            let now = self.levels.get(copy.importance()).copied().unwrap_or(self.weights.len() - 1);
            // It may have risen by several levels at once.
            for higher in level + 1..=now {
                self.try_copies(&copy, higher, counts);
            }
            self.go_on(&mut copy, level, now.max(level), u64::MAX, counts);
        }
        self.copies[level] = Some(copy);
    }
}

/// A [`Queue`] with its engine, split by the number of customers in it: lost of offered customers.
#[derive(Clone, Debug)]
pub struct LossyQueue<A, S> {
    engine: Engine<QueueEvent>,
    queue: Queue<A, S, Losses>,
    offered: u32,
}

/// Counts the customers that are lost.
#[derive(Clone, Copy, Debug, Default)]
struct Losses(u32);

impl QueueObserver for Losses {
    #[inline]
    fn served(&mut self, _: Ps) {}
    #[inline]
    fn lost(&mut self) {
        self.0 += 1;
    }
}

impl<A: Draw, S: Draw> LossyQueue<A, S> {
    /// An empty queue of `servers` servers and room for `capacity` customers in all, see
    /// [`Queue::new`].
    pub fn new(arrivals: A, services: S, servers: usize, capacity: usize) -> LossyQueue<A, S> {
        let mut engine = Engine::new();
        let queue = Queue::new(arrivals, services, servers, capacity, Losses(0), &mut engine);
        LossyQueue { engine, queue, offered: 0 }
    }
}

impl<A: Draw + Clone, S: Draw + Clone> Split for LossyQueue<A, S> {
    #[inline]
    fn step(&mut self) {
        if let Some(event) = self.engine.pop() {
            self.offered += u32::from(event == QueueEvent::Arrival);
            self.queue.handle(event, &mut self.engine);
        }
    }

    #[inline]
    fn importance(&self) -> usize {
        self.queue.customers()
    }

    #[inline]
    fn take_counts(&mut self) -> RatioSums {
        let lost = std::mem::take(&mut self.queue.observer.0);
        RatioSums { rare: f64::from(lost), all: f64::from(std::mem::take(&mut self.offered)) }
    }

    fn restream(&mut self, rng: &mut Pcg64) {
        self.queue.restream(rng);
    }

    fn resume_from(&mut self, other: &Self) {
        self.engine.clone_from(&other.engine);
        self.queue.resume_from(&other.queue);
        self.offered = other.offered;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Exponential;
    use rand::SeedableRng;
    use stats::Ratio;

    fn queue(rho: f64, servers: usize, capacity: usize, seed: Seed) -> LossyQueue<Exponential, Exponential> {
        let service = Ps(1_000_000);
        let gap = Ps::from_secs_f64(service.as_secs() / rho / servers as f64);
        let arrivals = Exponential::new(gap, seed.stream("arrivals"));
        LossyQueue::new(arrivals, Exponential::new(service, seed.stream("services")), servers, capacity)
    }

    fn every(distance: usize, from: usize, to: usize, trials: u32) -> Vec<Threshold> {
        (from..=to).step_by(distance).map(|importance| Threshold { importance, trials }).collect()
    }

    /// Runs `batches` calls and returns the ratio.
    fn loss(
        rho: f64,
        servers: u32,
        capacity: u32,
        thresholds: &[Threshold],
        seed: Seed,
        batches: u32,
    ) -> stats::Proportion {
        let model = queue(rho, servers as usize, capacity as usize, seed);
        let mut restart = Restart::new(model, thresholds, seed);
        restart.run(10_000);
        let mut ratio = Ratio::new();
        for _ in 0..batches {
            let counts = restart.run(2_000);
            ratio.record(counts.rare, counts.all);
        }
        ratio.estimate()
    }

    fn exact(rho: f64, servers: u32, capacity: u32) -> f64 {
        queueing::mmck(rho * f64::from(servers), 1.0, servers, capacity).unwrap().blocking
    }

    #[test]
    fn rare_losses_meet_the_closed_forms() {
        for (rho, servers, capacity, thresholds) in [
            // 7.6e-7: each threshold is half as likely as the one below.
            (0.7, 1, 36, every(2, 2, 36, 2)),
            // 3.6e-6, and thresholds that are crossed one after the other with 3 trials.
            (0.5, 3, 20, every(2, 4, 20, 3)),
            // Too few copies cost precision, not truth.
            (0.5, 1, 12, every(3, 3, 12, 2)),
        ] {
            let loss = loss(rho, servers, capacity, &thresholds, Seed(7), 512);
            let exact = exact(rho, servers, capacity);
            assert!(loss.relative() < 0.25, "{loss:?}");
            assert!((loss.value - exact).abs() < 1.5 * loss.half_width, "{loss:?} for {exact}");
        }
    }

    #[test]
    fn the_estimate_is_unbiased_and_its_interval_covers() {
        // 100 short runs: their mean lies within its own standard error times 3.
        let exact = exact(0.6, 1, 16);
        let thresholds = every(2, 3, 16, 3);
        let runs: Vec<_> = (0..100).map(|seed| loss(0.6, 1, 16, &thresholds, Seed(seed), 64)).collect();
        let moments: stats::Moments = runs.iter().map(|run| run.value).collect();
        let error = moments.std_dev() / 100f64.sqrt();
        assert!((moments.mean() - exact).abs() < 3.0 * error, "{} for {exact}, error {error}", moments.mean());
        assert!(error < 0.04 * exact, "{error}");
        let covered = runs.iter().filter(|run| run.covers(exact)).count();
        assert!((86..=99).contains(&covered), "{covered} of 100");
    }

    /// A walk that jumps over several thresholds at once: up to a random height, then down by one.
    #[derive(Clone)]
    struct Jumps {
        height: usize,
        counts: RatioSums,
        rng: Pcg64,
    }

    impl Split for Jumps {
        fn step(&mut self) {
            use rand::RngExt;
            if self.height == 0 {
                // Height h with probability 2^-h.
                self.height = 1 + self.rng.random::<u64>().trailing_zeros() as usize;
                self.counts.all += 1.0;
                self.counts.rare += f64::from(u8::from(self.height >= 8));
            } else {
                self.height -= 1;
                // From above, a second rare event that copies share in: half of the visits to 5.
                self.counts.rare += f64::from(u8::from(self.height == 5 && self.rng.random::<bool>()));
            }
        }
        fn importance(&self) -> usize {
            self.height
        }
        fn take_counts(&mut self) -> RatioSums {
            std::mem::take(&mut self.counts)
        }
        fn restream(&mut self, rng: &mut Pcg64) {
            self.rng = Pcg64::from_rng(rng);
        }
        fn resume_from(&mut self, other: &Jumps) {
            *self = Jumps { rng: self.rng.clone(), ..*other };
        }
    }

    #[test]
    fn thresholds_may_be_jumped_over() {
        let model = Jumps { height: 0, counts: RatioSums::default(), rng: Seed(3).stream("jumps") };
        let thresholds = [(2, 2), (4, 3), (4, 2), (5, 1), (7, 2)];
        let thresholds = thresholds.map(|(importance, trials)| Threshold { importance, trials });
        let mut restart = Restart::new(model, &thresholds, Seed(3));
        let mut ratio = Ratio::new();
        for _ in 0..2000 {
            let counts = restart.run(1000);
            ratio.record(counts.rare, counts.all);
        }
        // P(h >= 8) = 2^-7, and h >= 6 passes through 5 with probability 2^-5: half of them count.
        let (loss, exact) = (ratio.estimate(), 1.0 / 128.0 + 1.0 / 64.0);
        assert!(loss.relative() < 0.03 && loss.covers(exact), "{loss:?} for {exact}");
        assert!(restart.steps() > 2_200_000);
    }

    #[test]
    fn without_thresholds_it_is_a_plain_simulation() {
        let mut restart = Restart::new(queue(0.9, 1, 5, Seed(1)), &[], Seed(1));
        let counts = restart.run(1000);
        let mut plain = queue(0.9, 1, 5, Seed(1));
        (0..1000).for_each(|_| plain.step());
        assert_eq!((counts, restart.steps()), (plain.take_counts(), 1000));
    }

    #[test]
    fn a_seed_gives_the_same_counts_again() {
        let run = |seed| Restart::new(queue(0.8, 2, 9, seed), &every(2, 3, 9, 2), seed).run(20_000);
        assert_eq!(run(Seed(5)), run(Seed(5)));
        assert_ne!(run(Seed(5)), run(Seed(6)));
    }
}
