//! What is believed of each number of ways that devices may have: the logarithm of the score, and how surely.
//!
//! Numbers of ways that lie near each other do alike, so a sample of one tells of its neighbours, the less the further they lie:
//! before anything is seen they are jointly normal, with a covariance that falls over [`NEAR`] ways. A packet takes longer where bursts
//! are short, so the score moves with the load whatever the ways; how much is believed and learned beside them. Each sample is one
//! step of a Kalman filter, whose noise is that of the samples so far.

/// Standard deviation of the difference that ways make, before anything is seen; assumed.
const SPREAD: f64 = 0.12;
/// Ways over which that falls to 0.6; assumed.
const NEAR: f64 = 2.5;
/// Standard deviation of the level that all ways share; large against all differences.
const LEVEL: f64 = 1.0;
/// Of what the load does: change of the score's logarithm by that of the rate; assumed.
const SLOPE: f64 = 0.1;
/// The noise of a sample at the start, and within which limits it is learned.
const NOISE: f64 = 0.03;
const LEAST_NOISE: f64 = 0.003;
const MOST_NOISE: f64 = 0.3;
/// The share by which a sample changes the noise.
const LEARNS: f64 = 0.05;
/// A sample further off than so many standard deviations counts as one that is so far off.
const MOST_ODD: f64 = 4.0;

/// See the module header.
#[derive(Clone, Debug)]
pub(crate) struct Belief {
    /// The fewest ways.
    first: u32,
    /// Of each number of ways, and last what the load does.
    mean: Vec<f64>,
    covariance: Vec<Vec<f64>>,
    /// Samples of each number of ways.
    seen: Vec<u32>,
    /// Logarithms of the score and the rate of the first sample, which others are told from.
    origin: Option<(f64, f64)>,
    noise: f64,
}

impl Belief {
    /// Of `first` to `last` ways, before anything is seen.
    pub(crate) fn new(first: u32, last: u32) -> Belief {
        let ways = (last.max(first) - first + 1) as usize;
        let mut belief = Belief {
            first,
            mean: vec![0.0; ways + 1],
            covariance: vec![vec![0.0; ways + 1]; ways + 1],
            seen: vec![0; ways],
            origin: None,
            noise: NOISE,
        };
        belief.loosen(SPREAD, LEVEL);
        belief.covariance[ways][ways] = SLOPE * SLOPE;
        belief
    }

    /// What was believed may have changed since: by `spread` from way to way, and by `level` for all.
    pub(crate) fn loosen(&mut self, spread: f64, level: f64) {
        let ways = self.seen.len();
        for i in 0..ways {
            for j in 0..ways {
                let apart = (i as f64 - j as f64) / NEAR;
                self.covariance[i][j] += spread * spread * (-apart * apart / 2.0).exp() + level * level;
            }
        }
    }

    /// A new beginning of the search: nothing counts as seen, what is believed stays.
    pub(crate) fn forget_places(&mut self) {
        self.seen.fill(0);
    }

    /// A sample: with `ways` ways, at `rate` packets a second.
    pub(crate) fn see(&mut self, ways: u32, score: f64, rate: f64) {
        let (score, rate) = (score.ln(), rate.ln());
        let (base, usual) = *self.origin.get_or_insert((score, rate));
        let (at, slope) = (self.at(ways), self.seen.len());
        self.seen[at] += 1;
        let load = rate - usual;
        let towards: Vec<f64> = self.covariance.iter().map(|row| row[at] + load * row[slope]).collect();
        let noise = self.noise * self.noise;
        let variance = towards[at] + load * towards[slope] + noise;
        let off = score - base - self.mean[at] - load * self.mean[slope];
        let most = MOST_ODD * variance.sqrt();
        let off = off.clamp(-most, most);
        for (i, towards_i) in towards.iter().enumerate() {
            self.mean[i] += towards_i / variance * off;
            for (j, towards_j) in towards.iter().enumerate() {
                self.covariance[i][j] -= towards_i * towards_j / variance;
            }
        }
        // Of the squared distance, the share that the sample's own noise has.
        let own = off * off * noise / variance;
        self.noise = (noise + LEARNS * (own - noise)).sqrt().clamp(LEAST_NOISE, MOST_NOISE);
    }

    /// What `to` is believed to gain over `from`, and the standard deviation of that.
    pub(crate) fn gain(&self, to: u32, from: u32) -> (f64, f64) {
        let (a, b) = (self.at(to), self.at(from));
        let variance = self.covariance[a][a] + self.covariance[b][b] - 2.0 * self.covariance[a][b];
        (self.mean[a] - self.mean[b], variance.max(0.0).sqrt())
    }

    /// What a look at `to` is expected to bring over `from`: the mean of the gain where it is one.
    pub(crate) fn promise(&self, to: u32, from: u32) -> f64 {
        let (mean, sd) = self.gain(to, from);
        if sd <= 0.0 {
            return mean.max(0.0);
        }
        // The density and distribution of a normal variable, the latter by the logistic form (within 0.01).
        let z = mean / sd;
        let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
        let below = 1.0 / (1.0 + (-1.702 * z).exp());
        (mean * below + sd * density).max(0.0)
    }

    /// The best number of ways of those that were seen, `now` where none is better.
    pub(crate) fn best(&self, now: u32) -> u32 {
        let seen = (0..self.seen.len()).filter(|i| self.seen[*i] > 0).map(|i| self.first + i as u32);
        seen.fold(now, |best, ways| if self.gain(ways, best).0 > 0.0 { ways } else { best })
    }

    /// How many samples `ways` ways have had.
    pub(crate) fn samples(&self, ways: u32) -> u32 {
        self.seen[self.at(ways)]
    }

    fn at(&self, ways: u32) -> usize {
        (ways.saturating_sub(self.first) as usize).min(self.seen.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A splitmix64 generator's normal numbers, near enough: the sum of twelve uniform ones.
    fn noise(state: &mut u64) -> f64 {
        let mut sum = 0.0;
        for _ in 0..12 {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            sum += (*state >> 11) as f64 / (1u64 << 53) as f64;
        }
        sum - 6.0
    }

    #[test]
    fn samples_tell_of_their_neighbours_the_less_the_further_they_lie() {
        let mut belief = Belief::new(1, 8);
        (0..50).for_each(|_| belief.see(3, 100.0, 1.0));
        (0..50).for_each(|_| belief.see(4, 110.0, 1.0));
        let (gain, sd) = belief.gain(4, 3);
        assert!((gain - 1.1f64.ln()).abs() < 0.01 && sd < 0.01, "{gain} {sd}");
        let sds: Vec<f64> = [5, 6, 8].map(|ways| belief.gain(ways, 4).1).to_vec();
        assert!(sds[0] < sds[1] && sds[1] < sds[2], "{sds:?}");
        assert!(belief.gain(5, 4).0 > 0.0, "it goes on as it began");
        assert_eq!((belief.best(3), belief.samples(4), belief.samples(5)), (4, 50, 0));
        assert!(belief.promise(5, 4) > belief.promise(2, 4));
    }

    #[test]
    fn what_the_load_does_is_not_taken_for_what_ways_do() {
        let (mut belief, mut state) = (Belief::new(1, 8), 7);
        for i in 0..400 {
            // The load wanders with the ways, and moves the score by a twentieth of itself; ways do nothing.
            let ways = 3 + i / 40 % 2;
            let rate = (0.3 * noise(&mut state) + 0.3 * f64::from(ways)).exp();
            belief.see(ways, 100.0 * rate.powf(0.05) * (0.01 * noise(&mut state)).exp(), rate);
        }
        let (gain, sd) = belief.gain(4, 3);
        assert!(gain.abs() < 3.0 * sd && sd < 0.004, "{gain} {sd}");
    }

    #[test]
    fn the_noise_is_learned_and_an_odd_sample_counts_little() {
        let (mut belief, mut state) = (Belief::new(1, 4), 3);
        (0..400).for_each(|_| belief.see(2, (0.01 * noise(&mut state)).exp(), 1.0));
        assert!((0.006..0.015).contains(&belief.noise), "{}", belief.noise);
        let before = belief.mean[1];
        belief.see(2, 1e6, 1.0);
        assert!((belief.mean[1] - before).abs() < 0.005);
    }
}
