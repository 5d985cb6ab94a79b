//! Caches against counts that two independent programs agree on: L1 32 KiB/8, L2 1 MiB/16, L3 16 MiB/16, LRU,
//! 5 million loads over 2^20 lines, uniform and Zipf-like. The traces are those of numpy's generators.

use machine::cache::{CacheTrace, ChainCounts, HitCounts, LevelSpec, simulate};

const LINES: u64 = 1 << 20;
const LOADS: usize = 5_000_000;

#[test]
fn uniform_loads_have_the_reference_counts() {
    let mut random = NumpyPcg64::new(42);
    let addresses: Vec<u64> = (0..LOADS).map(|_| u64::from(random.below(LINES as u32)) * 64).collect();
    assert_counts(&addresses, [(2452, 4_997_548), (75_495, 4_922_053), (1_134_797, 3_787_256)]);
}

#[test]
fn zipf_loads_have_the_reference_counts() {
    // Rank r has a share of 1 / r^0.99.
    let mut total = 0.0;
    let mut up_to: Vec<f64> = (1..=LINES)
        .map(|rank| {
            total += 1.0 / (rank as f64).powf(0.99);
            total
        })
        .collect();
    up_to.iter_mut().for_each(|share| *share /= total);
    let mut line_of_rank: Vec<u64> = (0..LINES).collect();
    let mut scatter = NumpyPcg64::new(7);
    for i in (1..LINES as usize).rev() {
        line_of_rank.swap(i, scatter.masked(i as u32) as usize);
    }
    let mut random = NumpyPcg64::new(42);
    let addresses: Vec<u64> = (0..LOADS)
        .map(|_| {
            let share = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
            line_of_rank[up_to.partition_point(|&s| s < share)] * 64
        })
        .collect();
    assert_counts(&addresses, [(1_622_640, 3_377_360), (1_386_109, 1_991_251), (1_169_335, 821_916)]);
}

fn assert_counts(addresses: &[u64], expected: [(u64, u64); 3]) {
    let levels = [LevelSpec::new(64, 8), LevelSpec::new(1024, 16), LevelSpec::new(16384, 16)];
    let counts: ChainCounts = simulate(&levels, &CacheTrace { addresses, ..CacheTrace::default() }, 0).unwrap();
    let loads: Vec<HitCounts> = counts.levels.iter().map(|level| level.loads).collect();
    assert_eq!(loads, expected.map(|(hits, misses)| HitCounts { hits, misses }));
}

/// numpy's `Generator(PCG64(seed))`: PCG XSL RR 128/64 (O'Neill 2014), its state from numpy's `SeedSequence`.
struct NumpyPcg64 {
    state: u128,
    increment: u128,
    /// The upper half of a draw of which the lower one was used.
    half: Option<u32>,
}

impl NumpyPcg64 {
    fn new(seed: u32) -> NumpyPcg64 {
        let words = seed_words(seed);
        let wide = |at: usize| (0..4).fold(0u128, |wide, i| wide | u128::from(words[at + (i + 2) % 4]) << (32 * i));
        let mut random = NumpyPcg64 { state: 0, increment: wide(4) << 1 | 1, half: None };
        random.step();
        random.state = random.state.wrapping_add(wide(0));
        random.step();
        random
    }

    fn step(&mut self) {
        let multiplier = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
        self.state = self.state.wrapping_mul(multiplier).wrapping_add(self.increment);
    }

    fn next(&mut self) -> u64 {
        self.step();
        ((self.state >> 64) as u64 ^ self.state as u64).rotate_right((self.state >> 122) as u32)
    }

    fn next_32(&mut self) -> u32 {
        self.half.take().unwrap_or_else(|| {
            let draw = self.next();
            self.half = Some((draw >> 32) as u32);
            draw as u32
        })
    }

    /// At most `most`, as shuffles draw it: the bits that it needs, until they are not too many.
    fn masked(&mut self, most: u32) -> u32 {
        let mask = u32::MAX >> most.leading_zeros();
        loop {
            let draw = self.next_32() & mask;
            if draw <= most {
                return draw;
            }
        }
    }

    /// Lemire, ACM TOMACS 2019, "Fast random integer generation in an interval".
    fn below(&mut self, n: u32) -> u32 {
        loop {
            let product = u64::from(self.next_32()) * u64::from(n);
            if product as u32 >= n.wrapping_neg() % n {
                return (product >> 32) as u32;
            }
        }
    }
}

/// `SeedSequence(seed).generate_state(8)`.
fn seed_words(seed: u32) -> [u32; 8] {
    let mut constant = 0x43b0_d7e5u32;
    let mut hash = |value: u32| {
        let value = value ^ constant;
        constant = constant.wrapping_mul(0x931e_8875);
        let value = value.wrapping_mul(constant);
        value ^ value >> 16
    };
    let mut pool = [hash(seed), hash(0), hash(0), hash(0)];
    for from in 0..4 {
        for to in 0..4 {
            if from != to {
                let mixed = pool[to].wrapping_mul(0xca01_f9dd).wrapping_sub(hash(pool[from]).wrapping_mul(0x4973_f715));
                pool[to] = mixed ^ mixed >> 16;
            }
        }
    }
    let mut constant = 0x8b51_f9ddu32;
    std::array::from_fn(|i| {
        let value = pool[i % 4] ^ constant;
        constant = constant.wrapping_mul(0x58f3_8ded);
        let value = value.wrapping_mul(constant);
        value ^ value >> 16
    })
}
