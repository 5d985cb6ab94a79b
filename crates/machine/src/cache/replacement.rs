//! Replacement: what each set remembers, and which way it gives up.
//!
//! Sources: tree-PLRU, Al-Zoubi, Milenkovic and Milenkovic, ACM-SE 2004, "Performance evaluation of
//! cache replacement policies for the SPEC CPU2000 benchmark suite"; SRRIP with hit priority,
//! Jaleel et al., ISCA 2010, "High performance cache replacement using re-reference interval
//! prediction"; ages with an insertion age by class, Abel and Reineke, ISPASS 2020, "nanoBench"
//! (there QLRU H00, R0, U0: a hit makes a line 0, the first way of age 3 goes).
//!
//! Whatever the policy, an empty way that the mask allows is taken before any line goes. Under a way
//! mask a policy looks at, and ages, the allowed ways only; hits count in all ways.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a set chooses the line that has to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// The least recently used line.
    #[default]
    Lru,
    /// The line that was filled first, whatever was used since.
    Fifo,
    /// The most recently used line.
    Mru,
    /// The line that a binary tree of bits points at; each use turns the bits on its path away.
    TreePlru,
    /// Any line, each with the same probability.
    Random,
    /// The first line predicted to be used in the distant future: 2-bit re-reference intervals,
    /// lines come in at 2, a hit makes them 0.
    Srrip,
    /// As `srrip`, but a line comes in at the age, 0 to 3, that its class of service has.
    Age,
    /// As `age`, but any of the lines of the greatest age goes, each with the same probability.
    AgeRandom,
}

/// The oldest a line can be under [`Replacement::Age`] and [`Replacement::Srrip`].
pub const OLDEST: u8 = 3;

/// What a [`super::TagArray`] asks of a policy. `state` is the set's: a byte for each way.
pub trait ReplacementPolicy {
    /// The state of an empty set.
    fn initial<const N: usize>() -> [u8; N];
    /// The line in `way` is used.
    fn hit<const N: usize>(&mut self, state: &mut [u8; N], way: u32);
    /// A line of class age `age` comes into `way`.
    fn fill<const N: usize>(&mut self, state: &mut [u8; N], way: u32, age: u8);
    /// The way among `allowed` that gives up its line, or is empty; [`None`] if none is allowed.
    /// `empty` has a bit for each empty way.
    fn victim<const N: usize>(
        &mut self,
        state: &mut [u8; N],
        ways: u32,
        allowed: u32,
        empty: impl FnOnce() -> u32,
    ) -> Option<u32>;
    /// `way` is empty from now on.
    fn remove<const N: usize>(&mut self, state: &mut [u8; N], ways: u32, way: u32);
    /// Whether the state of a set is the order of its ways, the most recent first.
    fn is_ordered(&self) -> bool;
}

/// True LRU, chosen at compile time.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Lru;

impl ReplacementPolicy for Lru {
    #[inline(always)]
    fn initial<const N: usize>() -> [u8; N] {
        ranks::initial()
    }

    #[inline(always)]
    fn hit<const N: usize>(&mut self, state: &mut [u8; N], way: u32) {
        ranks::make_first(state, way);
    }

    #[inline(always)]
    fn fill<const N: usize>(&mut self, state: &mut [u8; N], way: u32, _: u8) {
        ranks::make_first(state, way);
    }

    #[inline(always)]
    fn victim<const N: usize>(
        &mut self,
        state: &mut [u8; N],
        ways: u32,
        allowed: u32,
        _: impl FnOnce() -> u32,
    ) -> Option<u32> {
        ranks::last(state, ways, allowed)
    }

    #[inline(always)]
    fn remove<const N: usize>(&mut self, state: &mut [u8; N], ways: u32, way: u32) {
        ranks::make_last(state, ways, way);
    }

    #[inline(always)]
    fn is_ordered(&self) -> bool {
        true
    }
}

/// Any policy, chosen at run time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct AnyPolicy {
    replacement: Replacement,
    /// State of the random draws.
    random: u64,
}

impl AnyPolicy {
    /// `seed` is for [`Replacement::Random`]: the same seed and accesses give the same victims.
    pub fn new(replacement: Replacement, seed: u64) -> AnyPolicy {
        AnyPolicy { replacement, random: seed }
    }

    /// A number below `n`, which is not 0 (SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
    pub(super) fn draw(&mut self, n: u32) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // The upper half times n, over 2^32: off from uniform by less than n / 2^32.
        (((z >> 32) * u64::from(n)) >> 32) as u32
    }
}

impl ReplacementPolicy for AnyPolicy {
    fn initial<const N: usize>() -> [u8; N] {
        // What the unordered policies keep is written by the fills before it is read.
        ranks::initial()
    }

    #[inline]
    fn hit<const N: usize>(&mut self, state: &mut [u8; N], way: u32) {
        match self.replacement {
            Replacement::Lru | Replacement::Mru => ranks::make_first(state, way),
            Replacement::Fifo | Replacement::Random => {}
            Replacement::TreePlru => tree::point_away(state, way),
            Replacement::Srrip | Replacement::Age | Replacement::AgeRandom => state[way as usize] = 0,
        }
    }

    #[inline]
    fn fill<const N: usize>(&mut self, state: &mut [u8; N], way: u32, age: u8) {
        match self.replacement {
            Replacement::Lru | Replacement::Mru | Replacement::Fifo => ranks::make_first(state, way),
            Replacement::Random => {}
            Replacement::TreePlru => tree::point_away(state, way),
            Replacement::Srrip => state[way as usize] = OLDEST - 1,
            Replacement::Age | Replacement::AgeRandom => state[way as usize] = age.min(OLDEST),
        }
    }

    #[inline]
    fn victim<const N: usize>(
        &mut self,
        state: &mut [u8; N],
        ways: u32,
        allowed: u32,
        empty: impl FnOnce() -> u32,
    ) -> Option<u32> {
        if matches!(self.replacement, Replacement::Lru | Replacement::Fifo) {
            return ranks::last(state, ways, allowed);
        }
        if allowed == 0 {
            return None;
        }
        let empty = empty() & allowed;
        if empty != 0 {
            return Some(empty.trailing_zeros());
        }
        match self.replacement {
            Replacement::Lru | Replacement::Fifo => None,
            Replacement::Mru => bits(allowed).min_by_key(|&way| state[way as usize]),
            Replacement::TreePlru => Some(tree::pointed_at(state, ways, allowed)),
            Replacement::Random => bits(allowed).nth(self.draw(allowed.count_ones()) as usize),
            Replacement::Srrip | Replacement::Age | Replacement::AgeRandom => {
                let oldest = bits(allowed).map(|way| state[way as usize]).max()?;
                bits(allowed).for_each(|way| state[way as usize] += OLDEST - oldest);
                let old = |way: &u32| state[*way as usize] == OLDEST;
                let nth = match self.replacement {
                    Replacement::AgeRandom => self.draw(bits(allowed).filter(old).count() as u32),
                    _ => 0,
                };
                bits(allowed).filter(old).nth(nth as usize)
            }
        }
    }

    #[inline]
    fn remove<const N: usize>(&mut self, state: &mut [u8; N], ways: u32, way: u32) {
        if self.is_ordered() {
            ranks::make_last(state, ways, way);
        }
    }

    fn is_ordered(&self) -> bool {
        matches!(self.replacement, Replacement::Lru | Replacement::Fifo | Replacement::Mru)
    }
}

fn bits(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(bit)
    })
}

/// Ranks: 0 is the most recent, empty ways have the greatest. Ranks of the real ways are a
/// permutation; behind them lies each index itself.
mod ranks {
    use units::Cbm;

    #[inline(always)]
    pub(super) fn initial<const N: usize>() -> [u8; N] {
        std::array::from_fn(|i| i as u8)
    }

    #[inline(always)]
    pub(super) fn make_first<const N: usize>(ranks: &mut [u8; N], way: u32) {
        let old = ranks[way as usize];
        if old != 0 {
            for rank in &mut *ranks {
                *rank += u8::from(*rank < old);
            }
            ranks[way as usize] = 0;
        }
    }

    /// The ranks from `way`'s to the last way's close up.
    #[inline(always)]
    pub(super) fn make_last<const N: usize>(ranks: &mut [u8; N], ways: u32, way: u32) {
        let old = ranks[way as usize];
        let above = ways as u8 - 1 - old;
        for rank in &mut *ranks {
            *rank -= u8::from(rank.wrapping_sub(old + 1) < above);
        }
        ranks[way as usize] = ways as u8 - 1;
    }

    /// The way of the greatest rank among `allowed`; an empty one, if there is any.
    #[inline(always)]
    pub(super) fn last<const N: usize>(ranks: &[u8; N], ways: u32, allowed: u32) -> Option<u32> {
        if allowed == Cbm::low(ways).0 {
            return Some(equal(ranks, (ways - 1) as u8).trailing_zeros());
        }
        let rest = allowed & allowed.wrapping_sub(1);
        if rest != 0 && rest & (rest - 1) == 0 {
            // What devices may fill, mostly.
            let (low, high) = (allowed.trailing_zeros(), 31 - allowed.leading_zeros());
            return Some(if ranks[high as usize] > ranks[low as usize] { high } else { low });
        }
        let (mut best, mut way) = (0, None);
        let mut left = allowed;
        while left != 0 {
            let at = left.trailing_zeros();
            left &= left - 1;
            let rank = ranks[at as usize];
            if way.is_none() || rank > best {
                (best, way) = (rank, Some(at));
            }
        }
        way
    }

    /// A bit for each of `ranks` that is `wanted`. The length is a multiple of 8, at most 32.
    #[inline(always)]
    fn equal<const N: usize>(ranks: &[u8; N], wanted: u8) -> u32 {
        let mut found = 0u32;
        for (group, chunk) in ranks.as_chunks::<8>().0.iter().enumerate() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: SSE2 is part of x86-64, and a chunk has 8 elements of 1 byte.
            let bits = unsafe {
                use std::arch::x86_64::*;
                let equal = _mm_cmpeq_epi8(_mm_loadl_epi64(chunk.as_ptr().cast()), _mm_set1_epi8(wanted as i8));
                _mm_movemask_epi8(equal) as u32 & 0xff
            };
            #[cfg(not(target_arch = "x86_64"))]
            let bits = chunk.iter().enumerate().fold(0, |bits, (i, &rank)| bits | u32::from(rank == wanted) << i);
            found |= bits << (group * 8);
        }
        found
    }
}

/// A tree over the ways, rounded up to a power of two: node 1 is the root, node `n` has the children
/// `2 n` and `2 n + 1`, way `w` is leaf `leaves + w`. Bit `n` of the state is set when node `n` points
/// at its second child.
mod tree {
    use units::Cbm;

    /// The most leaves, so that a way has the same path whatever the ways of the array.
    const LEAVES: u32 = 32;

    fn load<const N: usize>(state: &[u8; N]) -> u32 {
        u32::from_le_bytes([state[0], state[1], state[2], state[3]])
    }

    pub(super) fn point_away<const N: usize>(state: &mut [u8; N], way: u32) {
        let mut bits = load(state);
        let mut node = LEAVES + way;
        while node > 1 {
            let parent = node / 2;
            bits = bits & !(1 << parent) | (!node & 1) << parent;
            node = parent;
        }
        state[..4].copy_from_slice(&bits.to_le_bytes());
    }

    /// Where a side has no allowed way, the other side is taken, whatever the bit says.
    pub(super) fn pointed_at<const N: usize>(state: &[u8; N], ways: u32, allowed: u32) -> u32 {
        let bits = load(state);
        let allowed = allowed & Cbm::low(ways).0;
        let (mut node, mut first, mut half) = (1, 0, LEAVES / 2);
        while half > 0 {
            let has = |from: u32| allowed & Cbm::span(from, half).0 != 0;
            let second = if bits >> node & 1 == 1 { has(first + half) } else { !has(first) };
            node = 2 * node + u32::from(second);
            first += if second { half } else { 0 };
            half /= 2;
        }
        first
    }
}
