//! Which line a lookup wants: entries of Zipf-like popularity, spread over a table.

use std::sync::Arc;

use rand::{Rng, RngExt};
use rand_pcg::Pcg64;

use super::spec::Ranks;

/// A source of lines. Entry of rank i is wanted with probability proportional to i^-alpha (Breslau et al., INFOCOM 1999); with
/// [`Ranks::Shuffled`] ranks are spread over the entries at random, and a line is wanted as often as all of its entries are.
#[derive(Clone, Debug)]
pub struct LinePopularity(PopularityLaw);

#[derive(Clone, Debug)]
enum PopularityLaw {
    /// Over lines: a draw is one look into a table.
    Alias(Arc<Alias>),
    /// By the law itself, in memory that does not grow with the table: the rank by cells, its place by a keyed permutation.
    Law { cells: Arc<Cells>, place: Option<Permutation>, per_line: PerLine },
}

/// Tables of up to so many entries are drawn from by the alias method.
const TABLE: u64 = 1 << 18;

impl LinePopularity {
    /// Of a table of `entries` entries, `per_line` of them on a line; `rng` spreads the ranks.
    pub fn new(entries: u64, per_line: u64, alpha: f64, ranks: Ranks, rng: &mut Pcg64) -> LinePopularity {
        let entries = entries.max(1);
        if entries <= TABLE {
            let mut weights: Vec<f64> = (1..=entries).map(|rank| (rank as f64).powf(-alpha)).collect();
            if ranks == Ranks::Shuffled {
                for i in (1..weights.len()).rev() {
                    weights.swap(i, rng.random_range(0..=i));
                }
            }
            let lines: Vec<f64> = weights.chunks(per_line as usize).map(|line| line.iter().sum()).collect();
            return LinePopularity(PopularityLaw::Alias(Arc::new(Alias::new(&lines))));
        }
        let place = (ranks == Ranks::Shuffled).then(|| Permutation::new(entries, rng));
        LinePopularity(PopularityLaw::Law {
            cells: Arc::new(Cells::new(entries, alpha)),
            place,
            per_line: PerLine::new(per_line),
        })
    }

    /// The next line.
    #[inline]
    pub fn draw(&self, rng: &mut Pcg64) -> u32 {
        match &self.0 {
            PopularityLaw::Alias(table) => table.draw(rng.next_u64()),
            PopularityLaw::Law { cells, place, per_line } => {
                let rank = cells.draw(rng) - 1;
                let entry = place.as_ref().map_or(rank, |place| place.of(rank));
                per_line.line_of(entry) as u32
            }
        }
    }
}

/// Entries of a line; hardly ever anything but a power of two, and then no division is wanted.
#[derive(Clone, Copy, Debug)]
enum PerLine {
    Shift(u32),
    Count(u64),
}

impl PerLine {
    fn new(entries: u64) -> PerLine {
        if entries.is_power_of_two() { PerLine::Shift(entries.trailing_zeros()) } else { PerLine::Count(entries) }
    }

    #[inline]
    fn line_of(self, entry: u64) -> u64 {
        match self {
            PerLine::Shift(bits) => entry >> bits,
            PerLine::Count(entries) => entry / entries,
        }
    }
}

/// Walker's alias method: by place a threshold of 2^32, and the other outcome (Vose's construction, IEEE TSE 1991).
#[derive(Clone, Debug)]
struct Alias(Vec<(u32, u32)>);

impl Alias {
    fn new(weights: &[f64]) -> Alias {
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
        Alias(table)
    }

    /// The high bits of a draw choose the place, its low ones between the two outcomes there.
    #[inline]
    fn draw(&self, draw: u64) -> u32 {
        let place = ((u128::from(draw) * self.0.len() as u128) >> 64) as usize;
        let (threshold, other) = self.0[place];
        if (draw as u32) < threshold { place as u32 } else { other }
    }
}

/// Ranks by rejection from a staircase above the law: a cell a rank for the first, then cells in which the law falls by a
/// sixty-fourth at most, so that hardly a draw is rejected and hardly one needs a power.
#[derive(Clone, Debug)]
struct Cells {
    choice: Alias,
    /// First rank, ranks, and the law at the last rank against that at the first.
    cells: Vec<(u64, u64, f64)>,
    alpha: f64,
}

impl Cells {
    const SINGLE: u64 = 4096;

    fn new(entries: u64, alpha: f64) -> Cells {
        let (mut cells, mut weights, mut first) = (Vec::new(), Vec::new(), 1u64);
        while first <= entries {
            let ranks = if first <= Cells::SINGLE { 1 } else { (first / 64).min(entries - first + 1) };
            let least = ((first + ranks - 1) as f64 / first as f64).powf(-alpha);
            cells.push((first, ranks, least));
            weights.push(ranks as f64 * (first as f64).powf(-alpha));
            first += ranks;
        }
        Cells { choice: Alias::new(&weights), cells, alpha }
    }

    #[inline]
    fn draw(&self, rng: &mut Pcg64) -> u64 {
        loop {
            let cell = u64::from(self.choice.draw(rng.next_u64()));
            if cell < Cells::SINGLE {
                // Its first rank is its place: no need to look.
                return cell + 1;
            }
            let (first, ranks, least) = self.cells[cell as usize];
            let draw = rng.next_u64();
            let rank = first + (((draw >> 32) * ranks) >> 32);
            let uniform = f64::from(draw as u32) / 4_294_967_296.0;
            if uniform < least || uniform < (rank as f64 / first as f64).powf(-self.alpha) {
                return rank;
            }
        }
    }
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
            let popularity = LinePopularity::new(entries, 32, 0.83, ranks, &mut rng);
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
            let popularity = LinePopularity::new(entries, 32, 0.83, Ranks::Shuffled, &mut rng);
            let lines = entries.div_ceil(32);
            let half = (0..100_000).filter(|_| u64::from(popularity.draw(&mut rng)) < lines / 2).count();
            assert!((25_000..75_000).contains(&half), "{half}");
        }
    }
}
