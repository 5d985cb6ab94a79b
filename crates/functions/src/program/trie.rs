//! Which entries a lookup of IPv4 reads, in tables of the shapes that programs have.
//!
//! A trie of 16, 8 and 8 bits, as VPP's mtrie (`vnet/ip/ip4_mtrie.h`). DIR-24-8 reads one entry for the first 24 bits, and one of a
//! group for the last 8 where a route is longer: of the trie its third level.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a program's table of IPv4 routes lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TableForm {
    /// 2^24 entries of 4 bytes, and groups of 256 for longer prefixes: `rte_lpm`.
    Dir24,
    /// The same with entries of 2 bytes: Click's `DirectIPLookup`.
    Dir24Narrow,
    /// 65536 leaves of 4 bytes, then plies of 1344 bytes with 256 leaves each for the next 8 bits, and for the last: VPP's mtrie.
    Mtrie,
}

/// No route.
const NOTHING: u32 = 0;
/// A leaf of a route has the lowest bit, a ply has not.
const ROUTE: u32 = 1;
const PLY: usize = 256;

/// The trie.
#[derive(Debug)]
pub(super) struct Trie {
    root: Vec<u32>,
    /// Plies of the second and of the third level.
    plies: [Vec<u32>; 2],
}

/// What a lookup of `dst` reads: the index in the root, of the second level and of the third, and the number of the route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TriePath {
    pub dst: u32,
    pub root: u32,
    pub second: Option<u32>,
    pub third: Option<u32>,
    pub route: Option<u32>,
}

impl Trie {
    /// Of `routes`: address, prefix length of up to 32; the number of a route is its place. Of equal prefixes the last counts.
    pub(super) fn new(routes: &[(u32, u8)]) -> Trie {
        let mut trie = Trie { root: vec![NOTHING; 1 << 16], plies: [Vec::new(), Vec::new()] };
        // Shorter prefixes first: what a longer one covers is written over.
        let mut order: Vec<u32> = (0..routes.len() as u32).collect();
        order.sort_by_key(|&route| routes[route as usize].1);
        for route in order {
            let (addr, len) = routes[route as usize];
            trie.insert(addr, len, route << 1 | ROUTE);
        }
        trie
    }

    fn insert(&mut self, addr: u32, len: u8, leaf: u32) {
        let top = (addr >> 16) as usize;
        if len <= 16 {
            let covered = 1usize << (16 - len);
            self.root[top & !(covered - 1)..][..covered].fill(leaf);
            return;
        }
        let second = below(&mut self.root[top], &mut self.plies[0]);
        let at = (addr >> 8 & 255) as usize;
        if len <= 24 {
            let covered = 1usize << (24 - len);
            self.plies[0][second * PLY + (at & !(covered - 1))..][..covered].fill(leaf);
            return;
        }
        let (of_second, of_third) = self.plies.split_at_mut(1);
        let third = below(&mut of_second[0][second * PLY + at], &mut of_third[0]);
        let (at, covered) = ((addr & 255) as usize, 1usize << (32 - len));
        self.plies[1][third * PLY + (at & !(covered - 1))..][..covered].fill(leaf);
    }

    /// Plies of the second and of the third level.
    pub(super) fn plies(&self) -> [u64; 2] {
        [0, 1].map(|level| (self.plies[level].len() / PLY) as u64)
    }

    #[inline]
    pub(super) fn walk(&self, dst: u32) -> TriePath {
        let root = dst >> 16;
        let mut path = TriePath { dst, root, ..TriePath::default() };
        let mut leaf = self.root[root as usize];
        if leaf & ROUTE == 0 && leaf != NOTHING {
            let at = (leaf >> 1) - 1;
            let index = at * PLY as u32 + (dst >> 8 & 255);
            path.second = Some(index);
            leaf = self.plies[0][index as usize];
            if leaf & ROUTE == 0 && leaf != NOTHING {
                let index = ((leaf >> 1) - 1) * PLY as u32 + (dst & 255);
                path.third = Some(index);
                leaf = self.plies[1][index as usize];
            }
        }
        path.route = (leaf & ROUTE != 0).then_some(leaf >> 1);
        path
    }
}

/// The number of the ply below `leaf`, which is made of what was there if there was none.
fn below(leaf: &mut u32, plies: &mut Vec<u32>) -> usize {
    if *leaf & ROUTE != 0 || *leaf == NOTHING {
        let number = plies.len() / PLY;
        plies.resize(plies.len() + PLY, *leaf);
        *leaf = (number as u32 + 1) << 1;
    }
    (*leaf >> 1) as usize - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(routes: &[(u32, u8)], dst: u32) -> Option<u32> {
        let covers = |&(addr, len): &(u32, u8)| len == 0 || (addr ^ dst) >> (32 - len) == 0;
        let all = routes.iter().enumerate().filter(|(_, route)| covers(route));
        all.max_by_key(|(number, (_, len))| (*len, *number)).map(|(number, _)| number as u32)
    }

    proptest! {
        #[test]
        fn the_longest_prefix_is_found_and_as_many_levels_are_read_as_it_takes(
            // Few networks, so that prefixes cover each other.
            routes in prop::collection::vec((0u32..4, 0u32..4, 0u32..256, 0u8..=32), 0..60),
            looked_up in prop::collection::vec((0u32..5, 0u32..5, 0u32..256), 50),
        ) {
            let addr = |(a, b, c): (u32, u32, u32)| a << 30 | a << 16 | b << 8 | c;
            let routes: Vec<(u32, u8)> = routes.into_iter().map(|(a, b, c, len)| (addr((a, b, c)), len)).collect();
            let trie = Trie::new(&routes);
            for dst in looked_up.into_iter().map(addr) {
                let path = trie.walk(dst);
                prop_assert_eq!(path.route, naive(&routes, dst));
                prop_assert_eq!(path.root, dst >> 16);
                let within = |bits: u32, least: u8| {
                    routes.iter().any(|&(addr, len)| len > least && (addr ^ dst) >> (32 - bits) == 0)
                };
                prop_assert_eq!(path.second.is_some(), within(16, 16));
                prop_assert_eq!(path.third.is_some(), within(24, 24));
            }
        }
    }
}
