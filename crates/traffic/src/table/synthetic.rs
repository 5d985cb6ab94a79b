//! A table with the shape of a real full one, made from a seed.
//!
//! The shape is counted from the full table of a tier-1 peer of about 2022 that the library `bart`
//! publishes as test data (github.com/gaissmai/bart, `prefixes.txt.gz`, MIT): how many IPv4
//! prefixes there are of each length, and of which length the longest shorter prefix is that covers
//! each, or that none does. Only counts are taken, no prefix.
//!
//! Prefixes that nothing covers are placed without overlap, shortest first, uniformly in unicast
//! space (0/8, 10/8, 127/8 and 224/3 left out); at full size they take 71 % of the address space, as
//! in the real table. A covered prefix goes into a random prefix of its parent's length. Real
//! parents have very unequal numbers of more specifics: the parent's index is `n u^`[`SKEW`] with
//! `u` uniform, which is assumed, not counted. Left out: that neighbours tend to have the same
//! next hop, and IPv6.

use packet::Prefix;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rustc_hash::FxHashSet;

use super::{Compression, Damage, NextHopClass, Route, Table, TableFormat};

pub(super) const FULL_IPV4: usize = 901_899;
const SKEW: i32 = 3;
const TRIES: usize = 64;
/// `/24` upwards are nearly all; lengths 25 to 31 have 75 prefixes together and are left out.
const NO_PARENT: u8 = 0;

/// Prefix length, then pairs of the covering prefix's length and the number of prefixes that have
/// it; [`NO_PARENT`] stands for those that nothing covers.
#[rustfmt::skip]
const SHAPE: &[(u8, &[(u8, u32)])] = &[
    (8, &[(0, 16)]),
    (9, &[(0, 9), (8, 4)]),
    (10, &[(0, 38)]),
    (11, &[(0, 99), (10, 4)]),
    (12, &[(0, 268), (9, 6), (10, 1), (11, 24)]),
    (13, &[(0, 485), (8, 1), (10, 2), (11, 27), (12, 66)]),
    (14, &[(0, 1025), (8, 1), (9, 1), (10, 8), (11, 6), (12, 40), (13, 122)]),
    (15, &[(0, 1636), (8, 2), (9, 20), (10, 23), (11, 14), (12, 67), (13, 61), (14, 277)]),
    (16, &[(0, 10284), (8, 123), (9, 55), (10, 511), (11, 370), (12, 423), (13, 481), (14, 533), (15, 710)]),
    (17, &[(0, 4481), (8, 14), (9, 14), (10, 128), (11, 211), (12, 212), (13, 196), (14, 300), (15, 307), (16, 2372)]),
    (18, &[(0, 6923), (8, 67), (9, 55), (10, 236), (11, 311), (12, 133), (13, 279), (14, 734), (15, 453), (16, 2734),
        (17, 1873)]),
    (19, &[(0, 15055), (8, 121), (9, 59), (10, 363), (11, 557), (12, 411), (13, 522), (14, 886), (15, 695), (16, 2658),
        (17, 1004), (18, 2539)]),
    (20, &[(0, 19405), (8, 175), (9, 87), (10, 636), (11, 797), (12, 820), (13, 847), (14, 2974), (15, 1656),
        (16, 7591), (17, 1459), (18, 1976), (19, 4188)]),
    (21, &[(0, 23027), (8, 247), (9, 122), (10, 381), (11, 803), (12, 1151), (13, 853), (14, 1738), (15, 1456),
        (16, 5530), (17, 2407), (18, 2360), (19, 5690), (20, 4985)]),
    (22, &[(0, 59396), (8, 576), (9, 209), (10, 857), (11, 1436), (12, 2138), (13, 1908), (14, 2445), (15, 3029),
        (16, 11835), (17, 4335), (18, 3652), (19, 5378), (20, 5269), (21, 6160)]),
    (23, &[(0, 41454), (8, 548), (9, 258), (10, 698), (11, 990), (12, 966), (13, 1006), (14, 2286), (15, 2179),
        (16, 8927), (17, 3781), (18, 3643), (19, 6223), (20, 4211), (21, 3176), (22, 16164)]),
    (24, &[(0, 261082), (8, 4540), (9, 2791), (10, 1760), (11, 3610), (12, 5553), (13, 5270), (14, 7331), (15, 10444),
        (16, 41234), (17, 17417), (18, 20476), (19, 33854), (20, 31530), (21, 23164), (22, 36616), (23, 31026)]),
    (32, &[(0, 6), (13, 3), (14, 1), (15, 2), (16, 9), (17, 19), (18, 39), (19, 28), (20, 147), (21, 99), (22, 158),
        (23, 102), (24, 273)]),
];

pub(super) fn make(seed: u64, prefixes: usize, next_hops: u32) -> Table {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut free = Free::unicast();
    let mut by_len: [Vec<u32>; 33] = std::array::from_fn(|_| Vec::new());
    let mut taken: FxHashSet<u64> = FxHashSet::with_capacity_and_hasher(prefixes, Default::default());
    // Lengths are worked through in order, so a prefix's parents are there before it.
    let mut share =
        Apportionment { total: SHAPE.iter().flat_map(|s| s.1).map(|p| u64::from(p.1)).sum(), seen: 0, given: 0 };
    for &(len, parents) in SHAPE {
        for &(parent, count) in parents {
            for _ in 0..share.of(count.into(), prefixes as u64) {
                let addr = if parent == NO_PARENT { free.take(len, &mut rng) } else { None };
                let addr = addr.or_else(|| nested(len, parent, &by_len, &taken, &mut rng));
                let addr = addr.or_else(|| free.take(len, &mut rng));
                if let Some(addr) = addr
                    && taken.insert(mixed(addr, len))
                {
                    by_len[usize::from(len)].push(addr);
                }
            }
        }
    }
    let next_hops = next_hops.max(1);
    let mut routes: Vec<Route> = by_len
        .iter()
        .zip(0..)
        .flat_map(|(addrs, len)| addrs.iter().filter_map(move |&addr| Prefix::v4(addr, len)))
        .map(|prefix| Route { prefix, next_hop: Some(rng.random_range(0..next_hops)) })
        .collect();
    routes.sort_unstable_by_key(|r| r.prefix);
    Table {
        routes,
        next_hops: (0..next_hops).map(NextHopClass::Class).collect(),
        format: TableFormat::Synthetic,
        compression: Compression::Plain,
        duplicates: 0,
        damage: Damage::default(),
        content: None,
    }
}

/// Divides a whole in proportion to the shape, so that the parts add up to it exactly.
struct Apportionment {
    total: u64,
    seen: u64,
    given: u64,
}

impl Apportionment {
    fn of(&mut self, count: u64, whole: u64) -> u64 {
        self.seen += count;
        let due = (u128::from(self.seen) * u128::from(whole) / u128::from(self.total)) as u64;
        let part = due - self.given;
        self.given = due;
        part
    }
}

/// A prefix as a number of its own. An odd factor spreads it over both halves: with words of 32 bits the set's hash tells apart
/// little that ends in zeros, as addresses of prefixes do.
fn mixed(addr: u32, len: u8) -> u64 {
    (u64::from(addr) << 8 | u64::from(len)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A free prefix of length `len` within one of length `parent`, or, where that is not to be had,
/// within a longer one that leaves room.
fn nested(len: u8, parent: u8, by_len: &[Vec<u32>; 33], taken: &FxHashSet<u64>, rng: &mut impl Rng) -> Option<u32> {
    let lengths = std::iter::once(parent).chain((8..len).rev());
    for parent in lengths.filter(|&p| p != NO_PARENT && !by_len[usize::from(p)].is_empty()) {
        let parents = &by_len[usize::from(parent)];
        for _ in 0..TRIES {
            let u: f64 = rng.random();
            let index = (parents.len() as f64 * u.powi(SKEW)) as usize;
            let base = parents[index.min(parents.len() - 1)];
            let inside = rng.random::<u32>() >> parent;
            let mask = u32::MAX << (32 - u32::from(len));
            let addr = base | (inside & mask);
            if !taken.contains(&mixed(addr, len)) {
                return Some(addr);
            }
        }
    }
    None
}

/// Free space as aligned blocks by length: a buddy allocator that picks uniformly by address.
struct Free {
    blocks: [Vec<u32>; 33],
}

impl Free {
    fn unicast() -> Free {
        let mut blocks: [Vec<u32>; 33] = std::array::from_fn(|_| Vec::new());
        blocks[8] = (1..224u32).filter(|b| !matches!(b, 10 | 127)).map(|b| b << 24).collect();
        Free { blocks }
    }

    fn take(&mut self, len: u8, rng: &mut impl Rng) -> Option<u32> {
        let size = |l: usize, n: usize| (n as u64) << (32 - l);
        let upto = &self.blocks[..=usize::from(len)];
        let total: u64 = upto.iter().enumerate().map(|(l, b)| size(l, b.len())).sum();
        if total == 0 {
            return None;
        }
        let mut at = rng.random_range(0..total);
        let mut from = upto.iter().enumerate().find_map(|(l, b)| {
            let here = size(l, b.len());
            if at < here {
                return Some(l);
            }
            at -= here;
            None
        })?;
        let block = self.blocks[from].swap_remove((at >> (32 - from)) as usize);
        let wanted = block + (at & ((1 << (32 - from)) - 1)) as u32;
        // Split down towards the wanted address; the other halves stay free.
        while from < usize::from(len) {
            from += 1;
            let bit = 1u32 << (32 - from);
            let keep = wanted & (u32::MAX << (32 - from));
            self.blocks[from].push(keep ^ bit);
        }
        Some(wanted & (u32::MAX << (32 - u32::from(len))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coverage(table: &Table) -> (usize, f64) {
        let all: FxHashSet<Prefix> = table.prefixes().collect();
        let (mut roots, mut span) = (0, 0.0);
        for prefix in &all {
            let Prefix::V4 { addr, len } = *prefix else { continue };
            if !(0..len).any(|l| Prefix::v4(addr, l).is_some_and(|p| all.contains(&p))) {
                roots += 1;
                span += 0.5f64.powi(len.into());
            }
        }
        (roots, span)
    }

    #[test]
    fn a_full_table_has_the_counted_lengths_nesting_and_coverage() {
        let table = Table::synthetic(1, FULL_IPV4, 16);
        let counts = table.counts();
        assert_eq!(counts.ipv4, FULL_IPV4 as u64);
        for (&len, counted) in [8u8, 16, 20, 22, 24].iter().zip([16.0, 13_490.0, 42_611.0, 108_623.0, 537_698.0]) {
            let made = counts.ipv4_by_len[usize::from(len)] as f64;
            assert!((made / counted - 1.0).abs() < 0.01, "/{len}: {made} against {counted}");
        }
        let (roots, span) = coverage(&table);
        assert!((roots as f64 / 445_000.0 - 1.0).abs() < 0.01, "{roots} prefixes that nothing covers");
        assert!((span / 0.713 - 1.0).abs() < 0.01, "{span} of the address space");
        assert!(table.prefixes().all(|p| matches!(p, Prefix::V4 { addr, .. } if (1..224).contains(&(addr >> 24)))));
    }

    #[test]
    fn the_same_seed_gives_the_same_table_and_another_seed_another() {
        let routes = |seed| Table::synthetic(seed, 10_000, 4).routes;
        assert_eq!(routes(7), routes(7));
        assert_ne!(routes(7), routes(8));
    }

    #[test]
    fn small_and_too_large_tables_are_made_without_failing() {
        assert_eq!(Table::synthetic(1, 0, 0).routes.len(), 0);
        assert_eq!(Table::synthetic(1, 1, 1).routes.len(), 1);
        assert_eq!(Table::synthetic(1, 1000, 1).routes.len(), 1000);
        let twice = Table::synthetic(1, 2 * FULL_IPV4, 1).routes.len();
        assert!(twice > FULL_IPV4 * 19 / 10, "{twice}");
    }
}
