//! Traces through chains of caches: addresses in, counts out.
//!
//! Chains that [`super::recency`] can do run there, at some ten nanoseconds an access or less; the
//! others run through [`CacheChain`]. The counts are the same. A chain may also be given a sample of its sets
//! only, with the error that this makes (Kessler, Hill and Wood, IEEE Transactions on Computers 1994, "A
//! comparison of trace-sampling techniques for multi-megabyte caches").

use std::collections::HashMap;

use stats::student_quantile;
use units::{CLASSES, Clos, DEVICE, LINE_BYTES, Line};

use super::chain::{CacheChain, ChainCounts, HitCounts, LevelSpec, MAX_LINES, Origin, check};
use super::recency::{self, BLOCK, RecencyChain, Vectors};
use super::replacement::AnyPolicy;
use crate::MachineError;

/// The accesses of one core, and of devices beside it. An access that crosses a line counts as one to its first line.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheTrace<'a> {
    /// Byte addresses.
    pub addresses: &'a [u64],
    /// Which of them are stores, as many as there are addresses; all are loads when left out.
    pub is_write: Option<&'a [bool]>,
    /// The static place of each, as many as there are addresses, for stride prefetchers.
    pub sites: Option<&'a [u16]>,
    /// The class of service of all.
    pub class: Clos,
    /// Who makes each, as many as there are addresses: a class of service, 0 to 15, or [`DEVICE`]. A device writes and reads
    /// whole lines. All are of `class` when left out.
    pub origins: Option<&'a [u8]>,
}

/// The counts of `trace` through empty caches: `levels`, the nearest to the core first. `seed` is for
/// random replacement.
///
/// Addresses are bytes, of which the upper bits may be anything: lines are counted anew where they do
/// not fit 31 bits, in a way that keeps the set of each, and its page.
///
/// ```
/// use machine::cache::{LevelSpec, CacheTrace, simulate};
///
/// // 32 KiB of 8 ways, and twice over 64 KiB: LRU keeps nothing that comes again.
/// let addresses: Vec<u64> = (0..2048).map(|i| i % 1024 * 64).collect();
/// let counts = simulate(&[LevelSpec::new(64, 8)], &CacheTrace { addresses: &addresses, ..CacheTrace::default() }, 0)?;
/// assert_eq!((counts.levels[0].loads.hits, counts.memory_reads), (0, 2048));
/// # Ok::<(), machine::MachineError>(())
/// ```
///
/// # Errors
/// As [`CacheChain::new`]; `is_write` or `sites` of another length than `addresses`; addresses that are
/// spread so widely that they cannot be counted anew.
pub fn simulate(levels: &[LevelSpec], trace: &CacheTrace, seed: u64) -> Result<ChainCounts, MachineError> {
    simulate_with(levels, trace, seed, Vectors::detect())
}

/// As [`simulate`], on `vectors`, or on the widest that the host has if these are wider.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_with(
    levels: &[LevelSpec],
    trace: &CacheTrace,
    seed: u64,
    vectors: Vectors,
) -> Result<ChainCounts, MachineError> {
    check(levels, "levels")?;
    trace.check()?;
    let vectors = if Vectors::all().contains(&vectors) { vectors } else { Vectors::detect() };
    if trace.origins.is_some() || !recency::can_do(levels, trace.is_write.is_some()) {
        return through_chain(levels, trace, seed);
    }
    let fast = match trace.is_write {
        None => loads(levels, trace.addresses, vectors, |line| line),
        Some(is_write) => loads_and_stores(levels, trace.addresses, is_write, vectors, |line| line),
    };
    if let Some(counts) = fast {
        return Ok(counts);
    }
    let mut renumber = Renumber::new(levels)?;
    let fast = match trace.is_write {
        None => loads(levels, trace.addresses, vectors, |line| renumber.line(line)),
        Some(is_write) => loads_and_stores(levels, trace.addresses, is_write, vectors, |line| renumber.line(line)),
    };
    fast.ok_or_else(too_wide)
}

impl CacheTrace<'_> {
    fn check(&self) -> Result<(), MachineError> {
        let n = self.addresses.len();
        let lengths = [
            ("is_write", self.is_write.map(<[bool]>::len)),
            ("sites", self.sites.map(<[u16]>::len)),
            ("origins", self.origins.map(<[u8]>::len)),
        ];
        for (name, length) in lengths {
            if let Some(length) = length
                && length != n
            {
                let remedy = "give one for each address, or leave it out".into();
                return Err(MachineError::new(name, format!("{length} values"), format!("{n} values"), remedy));
            }
        }
        let origins = self.origins.unwrap_or_default();
        if let Some(at) = origins.iter().position(|&origin| origin >= CLASSES && origin != DEVICE) {
            return Err(MachineError::new(
                format!("origins[{at}]"),
                origins[at].to_string(),
                format!("a class of service, 0 to {}, or {DEVICE} of a device", CLASSES - 1),
                "processors have up to 16 classes".into(),
            ));
        }
        Ok(())
    }
}

/// [`None`] if some line is not below [`MAX_LINES`].
fn loads(
    levels: &[LevelSpec],
    addresses: &[u64],
    vectors: Vectors,
    mut number: impl FnMut(u64) -> u64,
) -> Option<ChainCounts> {
    let mut chain = RecencyChain::new(levels, vectors);
    for block in addresses.chunks(BLOCK) {
        let mut most = 0;
        chain.run::<false>(|accesses| {
            for (access, address) in accesses.iter_mut().zip(block) {
                let line = number(address / LINE_BYTES);
                most = most.max(line);
                *access = recency::access(line, false);
            }
            block.len()
        });
        if most >= MAX_LINES {
            return None;
        }
    }
    Some(chain.counts())
}

/// [`None`] if some line is not below [`MAX_LINES`].
fn loads_and_stores(
    levels: &[LevelSpec],
    addresses: &[u64],
    is_write: &[bool],
    vectors: Vectors,
    mut number: impl FnMut(u64) -> u64,
) -> Option<ChainCounts> {
    let mut chain = RecencyChain::new(levels, vectors);
    for (block, is_write) in addresses.chunks(BLOCK).zip(is_write.chunks(BLOCK)) {
        let mut most = 0;
        chain.run::<true>(|accesses| {
            for ((access, address), &store) in accesses.iter_mut().zip(block).zip(is_write) {
                let line = number(address / LINE_BYTES);
                most = most.max(line);
                *access = recency::access(line, store);
            }
            block.len()
        });
        if most >= MAX_LINES {
            return None;
        }
    }
    Some(chain.counts())
}

fn through_chain(levels: &[LevelSpec], trace: &CacheTrace, seed: u64) -> Result<ChainCounts, MachineError> {
    let mut chain = CacheChain::new(levels, seed, "levels")?;
    let fits = trace.addresses.iter().all(|address| address / LINE_BYTES < MAX_LINES);
    let mut renumber = if fits { None } else { Some(Renumber::new(levels)?) };
    let mut classes: Vec<Vec<HitCounts>> = Vec::new();
    let mut before: Vec<HitCounts> = Vec::new();
    for (i, address) in trace.addresses.iter().enumerate() {
        let mut line = address / LINE_BYTES;
        if let Some(renumber) = &mut renumber {
            line = renumber.line(line);
            if line >= MAX_LINES {
                return Err(too_wide());
            }
        }
        let line = Line(line);
        let is_write = trace.is_write.is_some_and(|is_write| is_write[i]);
        let mut origin = Origin { class: trace.class, site: trace.sites.map_or(0, |sites| sites[i]) };
        let Some(origins) = trace.origins else {
            if is_write {
                chain.store(line, origin)
            } else {
                chain.load(line, origin)
            }
            continue;
        };
        match (origins[i], is_write) {
            (DEVICE, true) => chain.dma_write(line),
            (DEVICE, false) => chain.dma_read(line),
            (class, _) => {
                origin.class = Clos(class);
                before.clear();
                before.extend(chain.counts().levels.iter().map(arrived));
                if is_write {
                    chain.store(line, origin)
                } else {
                    chain.load(line, origin)
                }
                let class = usize::from(class);
                if classes.len() <= class {
                    classes.resize(class + 1, vec![HitCounts::default(); levels.len()]);
                }
                for ((of_class, now), before) in classes[class].iter_mut().zip(&chain.counts().levels).zip(&before) {
                    let now = arrived(now);
                    of_class.hits += now.hits - before.hits;
                    of_class.misses += now.misses - before.misses;
                }
            }
        }
    }
    let slices = (0..levels.len()).map(|level| chain.slices(level).to_vec()).collect();
    Ok(ChainCounts { classes, slices, ..chain.counts().clone() })
}

/// Loads and stores that arrived at a level.
fn arrived(level: &super::LevelCounts) -> HitCounts {
    let (loads, stores) = (level.loads, level.stores);
    HitCounts { hits: loads.hits + stores.hits, misses: loads.misses + stores.misses }
}

/// Lines counted anew, so that they are below [`MAX_LINES`]: stretches of the address space in the
/// order in which they are first used. A stretch is a multiple of the sets of each level, and of
/// a page, so that each line keeps its set and its neighbours within a page; with slices, as where pages were placed in the
/// order of their first use (hashes but `modulo` take bits of all of the address).
struct Renumber {
    stretch: u64,
    names: HashMap<u64, u64>,
    latest: (u64, u64),
}

impl Renumber {
    fn new(levels: &[LevelSpec]) -> Result<Renumber, MachineError> {
        let page = 4096 / LINE_BYTES;
        let multiple = |a: u64, b: u64| a / gcd(a, b) * b;
        // Saturated by a cap: no product of two numbers below 2^32 overflows.
        let stretch = levels.iter().fold(page, |all, level| multiple(all.min(MAX_LINES + 1), level.sets));
        if stretch > MAX_LINES {
            return Err(too_wide());
        }
        // Long stretches are few.
        let stretch = stretch * (1u64 << 16).div_ceil(stretch);
        Ok(Renumber { stretch, names: HashMap::new(), latest: (u64::MAX, 0) })
    }

    fn line(&mut self, line: u64) -> u64 {
        let stretch = line / self.stretch;
        if stretch != self.latest.0 {
            let next = self.names.len() as u64;
            self.latest = (stretch, *self.names.entry(stretch).or_insert(next));
        }
        self.latest.1 * self.stretch + line % self.stretch
    }
}

fn too_wide() -> MachineError {
    MachineError::new(
        "addresses",
        "addresses of too many far places",
        format!("{MAX_LINES} lines, in stretches of a common multiple of all levels' sets"),
        "split the trace, or choose numbers of sets that are powers of two".into(),
    )
}

pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// More would take more memory and tell no more.
const MOST_GROUPS: u64 = 1 << 16;

/// A total over all sets, estimated from a sample of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampled {
    /// The estimate.
    pub value: f64,
    /// With 95 % confidence the count over all sets lies this near to `value`; 0 if all were sampled.
    pub half_width: f64,
}

/// What a sample says of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledLevel {
    /// Loads and stores found.
    pub hits: Sampled,
    /// Loads and stores not found.
    pub misses: Sampled,
    /// Misses as a share of loads and stores.
    pub miss_ratio: Sampled,
    /// Lines that had to go.
    pub evictions: Sampled,
    /// Dirty lines sent down.
    pub writebacks: Sampled,
}

/// The groups of sets that [`simulate_sample`] draws from: 1 where the numbers of sets have no common divisor.
///
/// # Errors
/// As [`simulate`].
pub fn sample_groups(levels: &[LevelSpec]) -> Result<u64, MachineError> {
    check(levels, "levels")?;
    let divisor = levels.iter().fold(0, |all, level| gcd(all, level.sets));
    Ok(if divisor > MOST_GROUPS { gcd(divisor, MOST_GROUPS) } else { divisor })
}

/// As [`simulate`], for the lines of `groups` groups of sets only; what comes by level, and the number
/// of groups there are.
///
/// A line's group is its number modulo the greatest common divisor of the levels' sets (and of 65536,
/// where it is greater), so a group has whole sets of each level, and nothing else goes through these. The groups are drawn without replacement,
/// by `seed`. Totals scale by the share of groups; the half-width is Student's t times the standard
/// error between groups with the finite population correction (Cochran, Sampling Techniques, 3rd ed.,
/// section 2.5), and for the ratio that of the ratio estimator (section 6.4). Where a few lines take most
/// accesses the groups differ widely, and the half-widths say so.
///
/// # Errors
/// As [`simulate`]; fewer than 2 groups, or more than there are; a prefetcher, whose lines are in other
/// groups.
pub fn simulate_sample(
    levels: &[LevelSpec],
    trace: &CacheTrace,
    groups: u64,
    seed: u64,
) -> Result<(Vec<SampledLevel>, u64), MachineError> {
    let all = sample_groups(levels)?;
    trace.check()?;
    if groups < 2 || groups > all {
        return Err(MachineError::new(
            "groups",
            groups.to_string(),
            format!("2 to {all}, the greatest common divisor of the levels' sets"),
            if all < 2 { "simulate all sets".into() } else { format!("choose {}", groups.clamp(2, all)) },
        ));
    }
    if let Some(at) = levels.iter().position(|level| level.prefetcher.is_some()) {
        return Err(MachineError::new(
            format!("levels[{at}].prefetcher"),
            "a prefetcher in a sample of sets",
            "levels without",
            "simulate all sets, or leave the prefetcher out".into(),
        ));
    }
    if let Some(at) = levels.iter().position(|level| level.slices > 1) {
        return Err(MachineError::new(
            format!("levels[{at}].slices"),
            levels[at].slices.to_string(),
            "1 in a sample of sets: a hash spreads the lines of a group over others",
            "simulate all sets, or leave the slices out".into(),
        ));
    }
    if trace.origins.is_some() {
        return Err(MachineError::new(
            "origins",
            "devices and classes of service in a sample of sets",
            "accesses of one core",
            "simulate all sets".into(),
        ));
    }
    // A group by itself is a chain of as many times fewer sets, and lines count within it.
    let of_group: Vec<LevelSpec> =
        levels.iter().map(|level| LevelSpec { sets: level.sets / all, ..level.clone() }).collect();
    let drawn = draw(all, groups, seed);
    let parts = if all.is_power_of_two() {
        GroupAccesses::of(trace, all, &drawn, |line| (line >> all.trailing_zeros(), line & (all - 1)))
    } else {
        GroupAccesses::of(trace, all, &drawn, |line| (line / all, line % all))
    };
    let mut counts = Vec::with_capacity(drawn.len());
    for (part, group) in parts.iter().zip(drawn) {
        counts.push(simulate(&of_group, &part.trace(trace), seed.wrapping_add(group))?);
    }
    let share = groups as f64 / all as f64;
    let by_level = (0..levels.len()).map(|at| {
        let of = |count: fn(&super::LevelCounts) -> u64| -> Vec<f64> {
            counts.iter().map(|c| count(&c.levels[at]) as f64).collect()
        };
        let hits = of(|c| c.loads.hits + c.stores.hits);
        let misses = of(|c| c.loads.misses + c.stores.misses);
        let uses: Vec<f64> = hits.iter().zip(&misses).map(|(h, m)| h + m).collect();
        SampledLevel {
            hits: total(&hits, share),
            misses: total(&misses, share),
            miss_ratio: ratio(&misses, &uses, share),
            evictions: total(&of(|c| c.evictions), share),
            writebacks: total(&of(|c| c.writebacks), share),
        }
    });
    Ok((by_level.collect(), all))
}

/// `n` different numbers below `all` (Floyd's algorithm).
fn draw(all: u64, n: u64, seed: u64) -> Vec<u64> {
    let mut random = AnyPolicy::new(super::Replacement::Random, seed);
    let mut drawn: Vec<u64> = Vec::new();
    for most in all - n..all {
        let x = u64::from(random.draw(most as u32 + 1));
        drawn.push(if drawn.contains(&x) { most } else { x });
    }
    drawn
}

/// The accesses of one group, with lines that count within it.
#[derive(Clone, Default)]
struct GroupAccesses {
    addresses: Vec<u64>,
    is_write: Vec<bool>,
    sites: Vec<u16>,
}

impl GroupAccesses {
    /// Of the groups in `drawn`, of `all`. `split` gives the number of a line within its group, and the
    /// group.
    fn of(trace: &CacheTrace, all: u64, drawn: &[u64], split: impl Fn(u64) -> (u64, u64)) -> Vec<GroupAccesses> {
        let mut parts = vec![GroupAccesses::default(); drawn.len()];
        let mut part_of = vec![None; all as usize];
        drawn.iter().enumerate().for_each(|(part, &group)| part_of[group as usize] = Some(part));
        for (i, address) in trace.addresses.iter().enumerate() {
            let (line, group) = split(address / LINE_BYTES);
            if let Some(part) = part_of[group as usize] {
                let part: &mut GroupAccesses = &mut parts[part];
                part.addresses.push(line * LINE_BYTES);
                part.is_write.extend(trace.is_write.map(|w| w[i]));
                part.sites.extend(trace.sites.map(|s| s[i]));
            }
        }
        parts
    }

    fn trace(&self, whole: &CacheTrace) -> CacheTrace<'_> {
        CacheTrace {
            addresses: &self.addresses,
            is_write: whole.is_write.map(|_| self.is_write.as_slice()),
            sites: whole.sites.map(|_| self.sites.as_slice()),
            class: whole.class,
            origins: None,
        }
    }
}

fn total(of_groups: &[f64], share: f64) -> Sampled {
    let n = of_groups.len() as f64;
    let mean = of_groups.iter().sum::<f64>() / n;
    let squares: f64 = of_groups.iter().map(|x| (x - mean).powi(2)).sum();
    Sampled { value: mean * n / share, half_width: half_width(squares, n, share) * n / share }
}

fn ratio(parts: &[f64], wholes: &[f64], share: f64) -> Sampled {
    let n = parts.len() as f64;
    let whole = wholes.iter().sum::<f64>();
    let value = parts.iter().sum::<f64>() / whole;
    let squares: f64 = parts.iter().zip(wholes).map(|(p, w)| (p - value * w).powi(2)).sum();
    Sampled { value, half_width: half_width(squares, n, share) / (whole / n) }
}

/// Of the mean of a sample of `n` whose squared deviations sum to `squares`.
fn half_width(squares: f64, n: f64, share: f64) -> f64 {
    student_quantile(0.975, n - 1.0) * (squares / (n - 1.0) / n * (1.0 - share)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chain_counts(levels: &[LevelSpec], lines: &[(u64, bool)], stores: bool) -> ChainCounts {
        let mut chain = CacheChain::new(levels, 0, "levels").unwrap();
        for &(line, store) in lines {
            if store && stores {
                chain.store(Line(line), Origin::default());
            } else {
                chain.load(Line(line), Origin::default());
            }
        }
        chain.counts().clone()
    }

    fn level() -> impl Strategy<Value = LevelSpec> {
        (1u64..20, 1u32..=32).prop_map(|(sets, ways)| LevelSpec::new(sets, ways))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn recency_chains_count_as_the_general_chain(
            levels in prop::collection::vec(level(), 1..5),
            lines in prop::collection::vec((0u64..1500, prop::bool::weighted(0.3)), 1..4000),
            stores in any::<bool>(),
            far in any::<bool>(),
        ) {
            let expected = chain_counts(&levels, &lines, stores);
            // Anywhere in the address space, as long as each line keeps its set.
            let stretch = Renumber::new(&levels).unwrap().stretch;
            let place = |line: u64| line + if far { (1 << 40) / stretch * stretch } else { 0 };
            let addresses: Vec<u64> = lines.iter().map(|l| place(l.0) * 64 + l.0 % 64).collect();
            let is_write: Vec<bool> = lines.iter().map(|l| l.1).collect();
            let trace =
                CacheTrace { addresses: &addresses, is_write: stores.then_some(is_write.as_slice()), ..CacheTrace::default() };
            for vectors in Vectors::all() {
                prop_assert_eq!(&simulate_with(&levels, &trace, 0, vectors).unwrap(), &expected, "{:?}", vectors);
            }
        }

        #[test]
        fn far_lines_keep_their_set_their_page_and_their_identity(
            levels in prop::collection::vec(level(), 1..4),
            lines in prop::collection::vec(any::<u64>(), 1..40),
            near in 0u64..200,
        ) {
            let mut renumber = Renumber::new(&levels).unwrap();
            let mut seen: HashMap<u64, u64> = HashMap::new();
            for line in lines.iter().flat_map(|&line| [line / 64, (line / 64).saturating_add(near)]) {
                let renamed = renumber.line(line);
                prop_assert_eq!(renamed % 64, line % 64);
                for level in &levels {
                    prop_assert_eq!(renamed % level.sets, line % level.sets);
                }
                prop_assert_eq!(*seen.entry(renamed).or_insert(line), line);
            }
        }

        #[test]
        fn a_sample_of_all_groups_is_exact(
            sets in prop::collection::vec((1u64..5, 1u32..5), 1..4),
            lines in prop::collection::vec((0u64..1500, any::<bool>()), 1..1000),
        ) {
            let levels: Vec<LevelSpec> = sets.iter().map(|&(sets, ways)| LevelSpec::new(sets * 6, ways)).collect();
            let groups = levels.iter().fold(0, |all, level| gcd(all, level.sets));
            let expected = chain_counts(&levels, &lines, true);
            let addresses: Vec<u64> = lines.iter().map(|l| l.0 * 64).collect();
            let is_write: Vec<bool> = lines.iter().map(|l| l.1).collect();
            let trace = CacheTrace { addresses: &addresses, is_write: Some(&is_write), ..CacheTrace::default() };
            let (sampled, all) = simulate_sample(&levels, &trace, groups, 0).unwrap();
            prop_assert_eq!(all, groups);
            for (sampled, counts) in sampled.iter().zip(&expected.levels) {
                let exact = [
                    (sampled.hits, counts.loads.hits + counts.stores.hits),
                    (sampled.misses, counts.loads.misses + counts.stores.misses),
                    (sampled.evictions, counts.evictions),
                    (sampled.writebacks, counts.writebacks),
                ];
                for (sampled, exact) in exact {
                    prop_assert!((sampled.value - exact as f64).abs() < 1e-6);
                    prop_assert!(sampled.half_width < 1e-6);
                }
            }
        }
    }

    #[test]
    fn the_half_width_of_a_sample_covers_the_whole_as_often_as_it_claims() {
        let levels = [LevelSpec::new(64, 2), LevelSpec::new(256, 4)];
        let (mut covered, runs) = (0, 200);
        for run in 0..runs {
            // Lines that differ in popularity, so that groups differ.
            let mut random = AnyPolicy::new(super::super::Replacement::Random, run);
            let mut line = || (0..3).map(|_| u64::from(random.draw(1400))).min().unwrap_or(0);
            let addresses: Vec<u64> = (0..20_000).map(|_| line() * 64).collect();
            let trace = CacheTrace { addresses: &addresses, ..CacheTrace::default() };
            let whole = simulate(&levels, &trace, 0).unwrap();
            let (sampled, _) = simulate_sample(&levels, &trace, 16, run).unwrap();
            let misses = whole.levels[1].loads.misses as f64;
            covered += u64::from((sampled[1].misses.value - misses).abs() <= sampled[1].misses.half_width);
        }
        // 95 % of 200, less three standard deviations of a binomial.
        assert!(covered >= 180, "{covered} of {runs}");
    }

    #[test]
    fn traces_that_cannot_be_are_refused_with_a_remedy() {
        let levels = [LevelSpec::new(64, 8)];
        let is_write = [true];
        let trace = CacheTrace { addresses: &[0, 64], is_write: Some(&is_write), ..CacheTrace::default() };
        assert_eq!(
            simulate(&levels, &trace, 0).unwrap_err().to_string(),
            "is_write = 1 values: allowed is 2 values (give one for each address, or leave it out)"
        );
        let trace = CacheTrace { addresses: &[0], ..CacheTrace::default() };
        assert_eq!(
            simulate_sample(&levels, &trace, 65, 0).unwrap_err().to_string(),
            "groups = 65: allowed is 2 to 64, the greatest common divisor of the levels' sets (choose 64)"
        );
        let odd = [LevelSpec::new((1 << 20) - 1, 1), LevelSpec::new((1 << 20) - 3, 1)];
        let trace = CacheTrace { addresses: &[u64::MAX], ..CacheTrace::default() };
        assert!(simulate(&odd, &trace, 0).unwrap_err().to_string().starts_with("addresses = "));
    }

    proptest! {
        #[test]
        fn origins_are_those_of_the_chain(
            ops in prop::collection::vec((0u64..400, any::<bool>(), prop::sample::select(vec![0u8, 1, 5, DEVICE])), 1..400),
            slices in prop::sample::select(vec![1u32, 4]),
        ) {
            let classes = [0x0f, 0xf0].map(|ways| super::super::LevelClassSpec { ways, age: 2 }).to_vec();
            let io = Some(super::super::LevelClassSpec { ways: 0b1100_0000, age: 2 });
            let last = LevelSpec { slices, classes, io, ..LevelSpec::new(16, 8) };
            let levels = [LevelSpec::new(4, 2), last];
            let addresses: Vec<u64> = ops.iter().map(|op| op.0 * 64).collect();
            let is_write: Vec<bool> = ops.iter().map(|op| op.1).collect();
            let origins: Vec<u8> = ops.iter().map(|op| op.2).collect();
            let trace = CacheTrace {
                addresses: &addresses, is_write: Some(&is_write), origins: Some(&origins), ..CacheTrace::default()
            };
            let counts = simulate(&levels, &trace, 0).unwrap();
            let mut chain = CacheChain::new(&levels, 0, "levels").unwrap();
            for (line, write, origin) in ops {
                let line = Line(line);
                match (origin, write) {
                    (DEVICE, true) => chain.dma_write(line),
                    (DEVICE, false) => chain.dma_read(line),
                    (class, true) => chain.store(line, Origin { class: Clos(class), site: 0 }),
                    (class, false) => chain.load(line, Origin { class: Clos(class), site: 0 }),
                }
            }
            prop_assert_eq!(&counts.levels, &chain.counts().levels);
            prop_assert_eq!((counts.dma_writes, counts.dma_reads), (chain.counts().dma_writes, chain.counts().dma_reads));
            prop_assert_eq!(counts.slices[1].len(), if slices == 1 { 0 } else { 4 });
            for (level, found) in counts.levels.iter().enumerate() {
                let sum = counts.classes.iter().fold((0, 0), |sum, of| (sum.0 + of[level].hits, sum.1 + of[level].misses));
                let all = arrived(found);
                prop_assert_eq!(sum, (all.hits, all.misses));
            }
        }
    }

    #[test]
    fn origins_that_cannot_be_are_named() {
        let levels = [LevelSpec::new(64, 8)];
        let refused = |origins: &[u8]| {
            let trace = CacheTrace { addresses: &[0, 64], origins: Some(origins), ..CacheTrace::default() };
            simulate(&levels, &trace, 0).unwrap_err().to_string()
        };
        assert_eq!(
            refused(&[3, 16]),
            "origins[1] = 16: allowed is a class of service, 0 to 15, or 255 of a device (processors have up to 16 classes)"
        );
        assert!(refused(&[DEVICE]).starts_with("origins = 1 values: allowed is 2 values"));
        let trace = CacheTrace { addresses: &[0, 64], origins: Some(&[0, DEVICE]), ..CacheTrace::default() };
        let sampled = |levels: &[LevelSpec], trace| simulate_sample(levels, trace, 2, 0).unwrap_err().to_string();
        assert!(sampled(&levels, &trace).starts_with("origins = devices and classes of service in a sample of sets"));
        let sliced = [LevelSpec { slices: 4, ..LevelSpec::new(64, 8) }];
        let trace = CacheTrace { origins: None, ..trace };
        assert!(sampled(&sliced, &trace).starts_with("levels[0].slices = 4: allowed is 1 in a sample of sets"));
    }
}
