//! Which line a lookup wants: entries of Zipf-like popularity, spread over a table.

use std::sync::Arc;

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64;

use super::spec::Ranks;

/// A source of lines. Entry of rank i is wanted with probability proportional to i^-alpha (Breslau et al., INFOCOM 1999); with
/// [`Ranks::Shuffled`] ranks are spread over the entries at random, and a line is wanted as often as all of its entries are.
#[derive(Clone, Debug)]
pub struct Popularity(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// Walker's alias method over lines: a draw is one look into a table. By line: threshold of 2^32, and the other line.
    Alias(Arc<[(u32, u32)]>),
    /// By the law itself, without a table: the rank by rejection-inversion (Hoermann and Derflinger, ACM TOMACS 1996), its place by
    /// a keyed permutation.
    Law { zipf: Zipf<f64>, place: Option<Permutation>, per_line: u64 },
}

/// Tables of up to so many entries are drawn from by the alias method.
const TABLE: u64 = 1 << 18;

impl Popularity {
    /// Of a table of `entries` entries, `per_line` of them on a line; `rng` spreads the ranks.
    pub fn new(entries: u64, per_line: u64, alpha: f64, ranks: Ranks, rng: &mut Pcg64) -> Popularity {
        let entries = entries.max(1);
        if entries <= TABLE {
            let mut weights: Vec<f64> = (1..=entries).map(|rank| (rank as f64).powf(-alpha)).collect();
            if ranks == Ranks::Shuffled {
                for i in (1..weights.len()).rev() {
                    weights.swap(i, rng.random_range(0..=i));
                }
            }
            let lines: Vec<f64> = weights.chunks(per_line as usize).map(|line| line.iter().sum()).collect();
            return Popularity(Kind::Alias(alias(&lines)));
        }
        let place = (ranks == Ranks::Shuffled).then(|| Permutation::new(entries, rng));
        match Zipf::new(entries as f64, alpha) {
            Ok(zipf) => Popularity(Kind::Law { zipf, place, per_line }),
            // Alpha is checked before; uniform is what is left.
            Err(_) => Popularity(Kind::Alias(alias(&vec![1.0; entries.div_ceil(per_line) as usize]))),
        }
    }

    /// The next line.
    #[inline]
    pub fn draw(&self, rng: &mut Pcg64) -> u32 {
        match &self.0 {
            Kind::Alias(table) => {
                let draw = rng.next_u64();
                // Its high bits choose the place, its low ones between the two lines there.
                let place = ((u128::from(draw) * table.len() as u128) >> 64) as usize;
                let (threshold, other) = table[place];
                if (draw as u32) < threshold { place as u32 } else { other }
            }
            Kind::Law { zipf, place, per_line } => {
                let rank = zipf.sample(rng) as u64 - 1;
                let entry = place.as_ref().map_or(rank, |place| place.of(rank));
                (entry / per_line) as u32
            }
        }
    }
}

/// Vose's construction (IEEE TSE 1991).
fn alias(weights: &[f64]) -> Arc<[(u32, u32)]> {
    let n = weights.len();
    let mean = weights.iter().sum::<f64>() / n as f64;
    let mut scaled: Vec<f64> = weights.iter().map(|w| w / mean).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|i| scaled[*i] < 1.0);
    let mut table: Vec<(u32, u32)> = (0..n).map(|i| (u32::MAX, i as u32)).collect();
    while let (Some(low), Some(high)) = (small.pop(), large.last().copied()) {
        table[low] = ((scaled[low] * 4_294_967_296.0) as u32, high as u32);
        scaled[high] -= 1.0 - scaled[low];
        if scaled[high] < 1.0 {
            large.pop();
            small.push(high);
        }
    }
    table.into()
}

/// A keyed permutation of 0 to n - 1: rounds that can be undone on the next power of two, and again where that leads beyond n
/// (cycle walking: Black and Rogaway, CT-RSA 2002).
#[derive(Clone, Debug)]
struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    keys: [(u64, u64); 4],
}

impl Permutation {
    fn new(n: u64, rng: &mut Pcg64) -> Permutation {
        let bits = (64 - (n - 1).leading_zeros()).max(2);
        let mask = u64::MAX >> (64 - bits);
        let keys = std::array::from_fn(|_| (rng.next_u64() | 1, rng.next_u64()));
        Permutation { n, mask, shift: bits.div_ceil(2), keys }
    }

    #[inline]
    fn of(&self, mut x: u64) -> u64 {
        loop {
            for (multiply, add) in self.keys {
                x = x.wrapping_mul(multiply).wrapping_add(add) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Seed;

    #[test]
    fn a_permutation_is_one() {
        for n in [5u64, 1000, 4096, 300_001] {
            let place = Permutation::new(n, &mut Seed(n).stream("place"));
            let mut seen = vec![false; n as usize];
            for x in 0..n {
                assert!(!std::mem::replace(&mut seen[place.of(x) as usize], true));
            }
        }
    }

    /// Draws against the sum of the law over each line.
    #[test]
    fn lines_are_wanted_as_often_as_the_law_says() {
        for (entries, ranks) in [(20_000u64, Ranks::Contiguous), (TABLE + 1, Ranks::Contiguous)] {
            let mut rng = Seed(3).stream("draws");
            let popularity = Popularity::new(entries, 32, 0.83, ranks, &mut rng);
            let law = |rank: u64| (rank as f64).powf(-0.83);
            let all: f64 = (1..=entries).map(law).sum();
            let n = 400_000;
            let mut counts = vec![0u32; entries.div_ceil(32) as usize];
            for _ in 0..n {
                counts[popularity.draw(&mut rng) as usize] += 1;
            }
            for line in [0u64, 1, 5, 100] {
                let p = (line * 32 + 1..=line * 32 + 32).map(law).sum::<f64>() / all;
                let (seen, sd) =
                    (f64::from(counts[line as usize]) / f64::from(n), (p * (1.0 - p) / f64::from(n)).sqrt());
                assert!((seen - p).abs() < 4.5 * sd, "line {line} of {entries}: {seen} for {p}");
            }
        }
    }

    #[test]
    fn shuffled_tables_have_their_popular_lines_anywhere_by_both_methods() {
        for entries in [20_000u64, TABLE + 1] {
            let mut rng = Seed(4).stream("draws");
            let popularity = Popularity::new(entries, 32, 0.83, Ranks::Shuffled, &mut rng);
            let lines = entries.div_ceil(32);
            let half = (0..100_000).filter(|_| u64::from(popularity.draw(&mut rng)) < lines / 2).count();
            assert!((25_000..75_000).contains(&half), "{half}");
        }
    }
}
