//! Random spans of time: fixed and exponential.

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use units::Ps;

/// A source of random spans of time.
pub trait Draw {
    /// The next span.
    fn draw(&mut self) -> Ps;

    /// Goes on with another random stream: what is drawn from now on is independent of what was
    /// drawn from copies of this source. `rng` selects it.
    fn restream(&mut self, rng: &mut Pcg64);
}

/// Always the same span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deterministic(pub Ps);

impl Draw for Deterministic {
    #[inline]
    fn draw(&mut self) -> Ps {
        self.0
    }
    fn restream(&mut self, _: &mut Pcg64) {}
}

/// Exponential spans, by the ziggurat method (Marsaglia and Tsang, J. Stat. Software 2000).
///
/// Draws are made a block at a time, which keeps the generator's chain of multiplications off the
/// path from one event to the next.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Exponential {
    mean_ps: f64,
    /// The drawn spans that are not used yet are the first `left`.
    left: usize,
    #[serde(with = "units::arrays")]
    block: [u64; BLOCK],
    rng: Pcg64,
}

const BLOCK: usize = 64;

impl Exponential {
    /// Spans of mean `mean`, rounded down to a picosecond, drawn from `rng`.
    pub fn new(mean: Ps, rng: Pcg64) -> Exponential {
        // Rounding down takes half a picosecond off the mean.
        Exponential { mean_ps: mean.0 as f64 + 0.5, left: 0, block: [0; BLOCK], rng }
    }

    #[inline(never)]
    fn refill(&mut self) {
        // A copy stays in registers; the state in memory would add a store and a load to each step.
        let mut rng = self.rng.clone();
        for span in &mut self.block {
            let unit: f64 = Exp1.sample(&mut rng);
            // The cast to i64 takes half the instructions of that to u64.
            *span = (unit * self.mean_ps) as i64 as u64;
        }
        self.rng = rng;
        self.left = BLOCK;
    }
}

impl Draw for Exponential {
    #[inline]
    fn draw(&mut self) -> Ps {
        if self.left == 0 {
            self.refill();
        }
        self.left -= 1;
        Ps(self.block[self.left % BLOCK])
    }

    fn restream(&mut self, rng: &mut Pcg64) {
        self.rng = Pcg64::from_rng(rng);
        self.left = 0;
    }
}
