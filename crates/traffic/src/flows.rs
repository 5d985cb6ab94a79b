//! Which flow a packet belongs to: popularity of flows and destinations, and their addresses.
//!
//! A flow is a number; its five-tuple is a hash of that number (and of how often its place was taken
//! by a new flow), so any number of flows takes no memory but what drawing one takes. Packets draw
//! flows independently by popularity (the independent reference model): trains of packets of one
//! flow, which real traffic has, are left out, so locality is no better than popularity makes it.
//!
//! Drawing by Zipf's law is exact and takes little memory: the first [`HEAD`] ranks by the alias
//! method (one look-up in a table that stays in the host's L1), the others by rejection-inversion
//! (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", ACM TOMACS 6(3), 1996). An alias table over all ranks was measured at a third of
//! the speed: it misses the host's caches and TLB with every draw.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use packet::{FiveTuple, PROTO_TCP, PROTO_UDP, Prefix, is_unicast_v4, is_unicast_v6};
use rand::{Rng, RngExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::TrafficError;
use crate::sizes::{alias_table, draw_alias};

/// Ranks that an alias table is built for: 8 bytes each, 32 KiB.
const HEAD: u64 = 1 << 12;
/// Destinations whose IPv4 addresses are kept, 4 bytes each: more are made when drawn.
const KEPT_DESTINATIONS: u64 = 1 << 20;
/// Flows and destinations that can be numbered.
const MOST: u64 = 1 << 32;
/// Places whose flows can be replaced by new ones: 4 bytes each.
const MOST_CHURNING: u64 = 1 << 26;
/// How often an address that no packet goes to is drawn again: a prefix may have no other.
const REDRAWS: u64 = 16;
/// Flows that are drawn at a time.
const BATCH: usize = 32;
/// Steeper than anything measured; `1 / rank^20` is one flow for all purposes.
const STEEPEST: f64 = 20.0;

/// How often the ranks of a population are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Popularity {
    /// All equally.
    #[default]
    Uniform,
    /// Rank `k` in proportion to `k^-s`, where `s` is the number given (0 to 20).
    Zipf(f64),
}

/// The flows of a traffic source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// How many flows there are at a time, up to 2^32.
    pub count: u64,
    /// How packets spread over them.
    #[serde(default)]
    pub popularity: Popularity,
    /// The share of packets that are the first of a new flow, which takes the place of the flow
    /// that was drawn; 0 for flows that live for ever.
    #[serde(default)]
    pub new_share: f64,
    /// Where they go.
    #[serde(default)]
    pub destinations: DestinationSpec,
}

/// The destinations of flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DestinationSpec {
    /// How many different addresses; as many as there are flows if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// How flows spread over them.
    #[serde(default)]
    pub popularity: Popularity,
    /// How addresses are drawn from the prefixes of the routing table.
    #[serde(default)]
    pub prefixes: PrefixWeight,
    /// Prefixes to draw from in place of the routing table's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Vec<String>>,
}

/// How a destination's prefix is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PrefixWeight {
    /// Every prefix equally.
    #[default]
    Equal,
    /// In proportion to the number of its addresses, within its family.
    Addresses,
}

/// Draws ranks from 0 by Zipf's law or uniformly.
#[derive(Clone, Debug)]
pub struct Rank {
    count: u64,
    kind: RankLaw,
}

#[derive(Clone, Debug)]
enum RankLaw {
    Uniform,
    Zipf { head: Arc<[(u32, u32)]>, tail: Option<Tail> },
}

/// The ranks above [`HEAD`], numbered from 1: `x^-s` is drawn by inverting its integral, and `x`
/// rounded; a draw in the small part by which the integral around a rank exceeds the rank's own
/// weight is made again.
#[derive(Clone, Copy, Debug)]
struct Tail {
    s: f64,
    /// Draws below this, as a fraction of 2^64, are of the head.
    head_below: u64,
    /// The integral up to the tail's ends.
    from: f64,
    to: f64,
    last: f64,
}

impl Tail {
    fn new(count: u64, s: f64) -> Tail {
        let share = harmonic(HEAD, s) / harmonic(count, s);
        let mut tail = Tail {
            s,
            head_below: (share * 18_446_744_073_709_551_616.0) as u64,
            from: 0.0,
            to: 0.0,
            last: count as f64,
        };
        tail.from = tail.integral(HEAD as f64 + 0.5);
        tail.to = tail.integral(count as f64 + 0.5);
        tail
    }

    /// Of `x^-s` from 1 to `x`.
    fn integral(&self, x: f64) -> f64 {
        let q = 1.0 - self.s;
        if q == 0.0 { x.ln() } else { (q * x.ln()).exp_m1() / q }
    }

    /// Where the integral is `u`.
    #[inline]
    fn inverse(&self, u: f64) -> f64 {
        let q = 1.0 - self.s;
        if q == 0.0 {
            u.exp()
        } else if q.abs() > 0.01 {
            (1.0 + u * q).powf(1.0 / q)
        } else {
            ((u * q).ln_1p() / q).exp()
        }
    }

    /// A rank from 1, by `u` uniform in 0..1; [`None`] if it is to be made again.
    #[inline]
    fn invert(&self, u: f64) -> Option<f64> {
        let u = self.from + u * (self.to - self.from);
        let x = self.inverse(u);
        let k = ((x + 0.5) as u64 as f64).clamp(HEAD as f64 + 1.0, self.last);
        // The excess is at the lower end of the rank's interval, and about s (s + 1) / 24 k^2 of it wide.
        let is_clear = x - (k - 0.5) > self.s * (self.s + 1.0) / (k * k);
        (is_clear || u >= self.integral(k + 0.5) - k.powf(-self.s)).then_some(k)
    }
}

/// The probabilities of Zipf's law over a number of ranks.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    s: f64,
    norm: f64,
}

impl Zipf {
    /// Over `count` ranks with exponent `s`.
    pub fn new(count: u64, s: f64) -> Zipf {
        Zipf { s, norm: harmonic(count, s) }
    }

    /// The probability of rank `k`, from 1.
    pub fn pmf(&self, k: u64) -> f64 {
        (k as f64).powf(-self.s) / self.norm
    }
}

/// The generalised harmonic number `sum of k^-s for k = 1..=n`: exact sum of the first terms and
/// Euler-Maclaurin for the rest, to about 1e-14.
pub(crate) fn harmonic(n: u64, s: f64) -> f64 {
    const EXACT: u64 = 10_000;
    let head: f64 = (1..=n.min(EXACT)).rev().map(|k| (k as f64).powf(-s)).sum();
    if n <= EXACT {
        return head;
    }
    let (a, b) = (EXACT as f64, n as f64);
    let integral = if (s - 1.0).abs() < 1e-9 { (b / a).ln() } else { (b.powf(1.0 - s) - a.powf(1.0 - s)) / (1.0 - s) };
    let ends = (b.powf(-s) - a.powf(-s)) / 2.0;
    let slope = s / 12.0 * (a.powf(-s - 1.0) - b.powf(-s - 1.0));
    head + integral + ends + slope
}

impl Rank {
    /// Ranks `0..count`; `path` is where the specification stands, for messages.
    ///
    /// # Errors
    /// A count of 0 or above 2^32, an exponent that is not from 0 to 20.
    pub fn new(count: u64, popularity: Popularity, path: &str) -> Result<Rank, TrafficError> {
        if !(1..=MOST).contains(&count) {
            return Err(TrafficError::spec(format!("{path}.count"), count, format!("1 to {MOST} can be")));
        }
        let kind = match popularity {
            Popularity::Uniform => RankLaw::Uniform,
            Popularity::Zipf(s) => {
                if !(0.0..=STEEPEST).contains(&s) {
                    let allowed = format!("an exponent of 0 to {STEEPEST} can be (measured ones lie around 1)");
                    return Err(TrafficError::spec(format!("{path}.popularity.zipf"), s, allowed));
                }
                let weights: Vec<f64> = (1..=count.min(HEAD)).map(|k| (k as f64).powf(-s)).collect();
                let tail = (count > HEAD).then(|| Tail::new(count, s));
                RankLaw::Zipf { head: alias_table(&weights).into(), tail }
            }
        };
        Ok(Rank { count, kind })
    }

    /// How many ranks.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// A rank, from 0, the most popular first.
    #[inline]
    pub fn draw(&self, rng: &mut impl Rng) -> u64 {
        match &self.kind {
            RankLaw::Uniform => rng.random_range(0..self.count),
            RankLaw::Zipf { head, tail: None } => draw_alias(head, rng).into(),
            RankLaw::Zipf { head, tail: Some(tail) } => {
                if rng.next_u64() < tail.head_below {
                    return draw_alias(head, rng).into();
                }
                loop {
                    if let Some(k) = tail.invert(rng.random()) {
                        return k as u64 - 1;
                    }
                }
            }
        }
    }
}

/// Prefixes that addresses are drawn from, by family.
#[derive(Clone, Debug)]
pub(crate) struct PrefixPool {
    v4: Family<u32>,
    v6: Family<u128>,
    /// The share of IPv6, as a fraction of 2^32.
    v6_below: u64,
}

#[derive(Clone, Debug)]
struct Family<A> {
    prefixes: Arc<[(A, u8)]>,
    /// Empty if all are equal.
    alias: Arc<[(u32, u32)]>,
}

impl PrefixPool {
    /// The pool, and whether it has IPv6 prefixes; [`None`] if it has no prefix. `ipv6` is the share
    /// of addresses drawn from IPv6, where there are prefixes of both families.
    pub(crate) fn new(prefixes: &[Prefix], weight: PrefixWeight, ipv6: f64) -> Option<(PrefixPool, bool)> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for prefix in prefixes {
            match *prefix {
                Prefix::V4 { addr, len } => v4.push((addr, len)),
                Prefix::V6 { addr, len } => v6.push((addr, len)),
            }
        }
        let share = match (v4.is_empty(), v6.is_empty()) {
            (true, true) => return None,
            (true, false) => 1.0,
            (false, true) => 0.0,
            (false, false) => ipv6,
        };
        let has_ipv6 = !v6.is_empty();
        let v6_below = (share * 4_294_967_296.0) as u64;
        Some((PrefixPool { v4: Family::new(v4, weight), v6: Family::new(v6, weight), v6_below }, has_ipv6))
    }

    /// The share of addresses that are IPv6.
    pub(crate) fn ipv6_share(&self) -> f64 {
        self.v6_below as f64 / 4_294_967_296.0
    }

    /// The address that `draw` stands for: a prefix by its weight, host bits at random. Where these give an
    /// address that no packet goes to, such as 127.0.0.1 out of 0.0.0.0/0, others are drawn.
    #[inline]
    fn address(&self, draw: u64) -> IpAddr {
        let mut address = self.any_address(draw);
        for attempt in 1..=REDRAWS {
            let is_unicast = match address {
                IpAddr::V4(a) => is_unicast_v4(a.into()),
                IpAddr::V6(a) => is_unicast_v6(a.into()),
            };
            if is_unicast {
                break;
            }
            address = self.any_address(mix(draw ^ attempt));
        }
        address
    }

    #[inline]
    fn any_address(&self, draw: u64) -> IpAddr {
        let mut rng = Hashed(draw);
        if rng.next_u64() >> 32 < self.v6_below {
            let (addr, len) = self.v6.draw(&mut rng);
            let mask = u128::MAX.checked_shr(len.into()).unwrap_or(0);
            let host = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
            Ipv6Addr::from(addr | (host & mask)).into()
        } else {
            let (addr, len) = self.v4.draw(&mut rng);
            let mask = u32::MAX.checked_shr(len.into()).unwrap_or(0);
            Ipv4Addr::from(addr | (rng.next_u64() as u32 & mask)).into()
        }
    }
}

impl<A: Copy> Family<A> {
    fn new(prefixes: Vec<(A, u8)>, weight: PrefixWeight) -> Family<A> {
        let addresses = |p: &(A, u8)| 0.5f64.powi(p.1.into());
        let alias = match weight {
            PrefixWeight::Equal => Vec::new(),
            PrefixWeight::Addresses => alias_table(&prefixes.iter().map(addresses).collect::<Vec<f64>>()),
        };
        Family { prefixes: prefixes.into(), alias: alias.into() }
    }

    #[inline]
    fn draw(&self, rng: &mut Hashed) -> (A, u8) {
        let slot = match self.alias.is_empty() {
            true => ((rng.next_u64() >> 32) * self.prefixes.len() as u64) >> 32,
            false => draw_alias(&self.alias, rng).into(),
        };
        self.prefixes[slot as usize]
    }
}

/// The flows of a source: what is fixed about them, shared by all sources of a blueprint.
#[derive(Clone, Debug)]
pub(crate) struct Flows {
    rank: Rank,
    destinations: Rank,
    pool: PrefixPool,
    new_share: f64,
    /// As a fraction of 2^32.
    tcp_below: u64,
    salt: u64,
    /// The addresses of all destinations, if they are few enough and IPv4.
    kept: Arc<[u32]>,
}

/// Nothing of it changes; its salt says whether it was drawn from the same seed.
impl state::State for Flows {
    fn write(&self, to: &mut state::Writer) -> Result<(), state::StateError> {
        to.value(&self.salt)
    }

    fn read(&mut self, from: &mut state::Reader) -> Result<(), state::StateError> {
        from.is_as("seed", "flows", self.salt)
    }
}

/// The flows of one run, which come and go.
#[derive(Clone, Debug)]
pub(crate) struct Flowing {
    flows: Flows,
    /// How often each place was taken by a new flow; empty if flows live for ever.
    generation: Vec<u32>,
    /// New flows come when a draw is below this, as a fraction of 2^64.
    new_below: u64,
    /// Flows that are drawn and not yet given out, from `at` on; bit `i` of `first` says whether
    /// the packet is the first of its flow.
    ready: Vec<FiveTuple>,
    first: u64,
    at: usize,
}

state::state!(Flowing { values: [ready, first, at], arrays: [generation], parts: [flows], built: [new_below] });

impl Flows {
    /// How many there are at a time.
    pub(crate) fn count(&self) -> u64 {
        self.rank.count()
    }

    pub(crate) fn new(spec: &FlowSpec, tcp_share: f64, pool: PrefixPool, path: &str) -> Result<Flows, TrafficError> {
        if !(0.0..=1.0).contains(&spec.new_share) {
            return Err(TrafficError::spec(format!("{path}.new_share"), spec.new_share, "a share of 0 to 1 can be"));
        }
        if spec.new_share > 0.0 && spec.count > MOST_CHURNING {
            let allowed = format!("up to {MOST_CHURNING} flows can come and go (set new_share = 0 for more)");
            return Err(TrafficError::spec(format!("{path}.count"), spec.count, allowed));
        }
        let to = &spec.destinations;
        Ok(Flows {
            rank: Rank::new(spec.count, spec.popularity, path)?,
            destinations: Rank::new(to.count.unwrap_or(spec.count), to.popularity, &format!("{path}.destinations"))?,
            pool,
            new_share: spec.new_share,
            tcp_below: (tcp_share * 4_294_967_296.0) as u64,
            salt: 0,
            kept: Arc::from([]),
        })
    }

    /// The flows of a run. Another seed gives other addresses, and other flows the popular ranks.
    pub(crate) fn start(&self, seed: u64) -> Flowing {
        let churns = self.new_share > 0.0;
        let mut flows = Flows { salt: mix(seed ^ 0x5eed_f10e), ..self.clone() };
        if flows.destinations.count() <= KEPT_DESTINATIONS && flows.pool.v6_below == 0 {
            let address = |d| match flows.destination(d) {
                IpAddr::V4(a) => a.into(),
                IpAddr::V6(_) => 0,
            };
            flows.kept = (0..flows.destinations.count()).map(address).collect();
        }
        Flowing {
            flows,
            generation: if churns { vec![0; self.rank.count() as usize] } else { Vec::new() },
            new_below: (self.new_share * 18_446_744_073_709_551_616.0) as u64,
            ready: Vec::with_capacity(BATCH),
            first: 0,
            at: 0,
        }
    }

    /// The five-tuples of `flows` (with their generations), in stages: the look-ups of a stage do not
    /// wait for each other, so a batch pays for a few cache misses where single draws pay for all.
    fn five_tuples(&self, flows: &[(u64, u32)], out: &mut Vec<FiveTuple>) {
        let n = flows.len().min(BATCH);
        let mut hashes = [0u64; BATCH];
        let mut draws = [0u64; BATCH];
        let mut destinations = [IpAddr::V4(Ipv4Addr::UNSPECIFIED); BATCH];
        for (hash, &(flow, generation)) in hashes.iter_mut().zip(flows) {
            *hash = mix(self.salt ^ mix(flow << 24 ^ u64::from(generation).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        }
        // The destination is drawn by its own popularity, with the flow's hash in place of chance.
        for (draw, &hash) in draws.iter_mut().zip(&hashes[..n]) {
            *draw = self.destinations.draw(&mut Hashed(hash));
        }
        for (dst, &destination) in destinations.iter_mut().zip(&draws[..n]) {
            *dst = match self.kept.get(destination as usize) {
                Some(&address) => Ipv4Addr::from(address).into(),
                None => self.destination(destination),
            };
        }
        out.clear();
        out.extend(hashes.iter().zip(destinations).take(n).map(|(&h, dst)| self.tuple(h, dst)));
    }

    fn destination(&self, number: u64) -> IpAddr {
        self.pool.address(mix(self.salt.wrapping_add(number)))
    }

    #[inline]
    fn tuple(&self, hash: u64, dst: IpAddr) -> FiveTuple {
        let (a, b) = (mix(hash ^ 1), mix(hash ^ 2));
        let src = match dst {
            // Clients: any unicast address. A source is looked up by no router that is simulated.
            IpAddr::V4(_) => {
                let of = |hash: u64| 0x0100_0000 + (((hash >> 32) * 0xdeff_0000) >> 32) as u32;
                let mut hash = a;
                // One in 200 is loopback or link-local, which a router rejects: its hash is hashed again, so
                // that all others keep their address.
                while !is_unicast_v4(of(hash)) {
                    hash = mix(hash.wrapping_add(1));
                }
                Ipv4Addr::from(of(hash)).into()
            }
            IpAddr::V6(_) => Ipv6Addr::from((0x2 << 124) | ((u128::from(a) << 64 | u128::from(b)) >> 4)).into(),
        };
        let tcp = u64::from(b as u32) < self.tcp_below;
        FiveTuple {
            src,
            dst,
            proto: if tcp { PROTO_TCP } else { PROTO_UDP },
            // Ephemeral source port (RFC 6335), well-known service.
            src_port: 49_152 | ((b >> 32) as u16 & 0x3fff),
            dst_port: if (b >> 48) & 1 == 0 { 443 } else { 80 },
        }
    }

    #[cfg(test)]
    fn five_tuple(&self, flow: u64, generation: u32) -> FiveTuple {
        let mut out = Vec::new();
        self.five_tuples(&[(flow, generation)], &mut out);
        out[0]
    }
}

impl Flowing {
    /// A packet's flow, and whether the packet is its first.
    #[inline]
    pub(crate) fn draw(&mut self, rng: &mut impl Rng) -> (FiveTuple, bool) {
        if self.at >= self.ready.len() {
            self.refill(rng);
        }
        let drawn = (self.ready[self.at], (self.first >> self.at) & 1 == 1);
        self.at += 1;
        drawn
    }

    fn refill(&mut self, rng: &mut impl Rng) {
        let mut flows = [(0u64, 0u32); BATCH];
        let mut ranks = [0u64; BATCH];
        ranks.iter_mut().for_each(|r| *r = self.flows.rank.draw(rng));
        self.first = 0;
        for (i, (flow, &rank)) in flows.iter_mut().zip(&ranks).enumerate() {
            flow.0 = rank;
            if self.new_below > 0 {
                let slot = &mut self.generation[rank as usize];
                let first = rng.next_u64() < self.new_below;
                *slot = slot.wrapping_add(first.into());
                flow.1 = *slot;
                self.first |= u64::from(first) << i;
            }
        }
        self.flows.five_tuples(&flows, &mut self.ready);
        self.at = 0;
    }
}

/// A hash as a source of chance: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Hashed(u64);

impl rand::TryRng for Hashed {
    type Error = std::convert::Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        self.try_next_u64().map(|x| (x >> 32) as u32)
    }
    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Ok(mix(self.0))
    }
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        for chunk in bytes.chunks_mut(8) {
            let word = self.try_next_u64()?.to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Ok(())
    }
}

/// The finaliser of SplitMix64: a bijection that spreads every bit.
#[inline]
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64;
    use rustc_hash::{FxHashMap, FxHashSet};

    use super::*;

    /// Chi-square of draws against Zipf's law, with ranks pooled until each cell expects 50.
    fn chi_square(count: u64, s: f64, draws: usize) -> (f64, f64) {
        let rank = Rank::new(count, Popularity::Zipf(s), "flows").unwrap();
        let zipf = Zipf::new(count, s);
        let mut rng = Pcg64::seed_from_u64(5);
        let mut seen: FxHashMap<u64, u64> = FxHashMap::default();
        for _ in 0..draws {
            *seen.entry(rank.draw(&mut rng) + 1).or_default() += 1;
        }
        let (mut chi, mut cells, mut expected, mut observed) = (0.0, 0.0, 0.0, 0.0);
        for k in 1..=count {
            expected += zipf.pmf(k) * draws as f64;
            observed += seen.get(&k).copied().unwrap_or(0) as f64;
            if expected >= 50.0 || k == count {
                chi += (observed - expected).powi(2) / expected;
                cells += 1.0;
                (expected, observed) = (0.0, 0.0);
            }
        }
        (chi, cells - 1.0)
    }

    #[test]
    fn zipf_draws_match_the_law_by_chi_square() {
        // Within the head, and with a tail.
        for (count, s) in [
            (10, 1.0),
            (1000, 0.0),
            (1000, 0.7),
            (100_000, 1.1),
            (5_000, 1.3),
            (2_000_000, 0.9),
            (3_000_000, 1.0),
            (3_000_000, 1.005),
        ] {
            let (chi, freedom) = chi_square(count, s, 1_000_000);
            // Chi-square is about normal with mean f and variance 2 f: four standard deviations.
            assert!(chi < freedom + 4.0 * (2.0 * freedom).sqrt() + 8.0, "{count} {s}: {chi} with {freedom} degrees");
        }
    }

    #[test]
    fn harmonic_numbers_match_naive_sums() {
        for s in [0.0, 0.5, 0.99, 1.0, 1.3, 2.0] {
            for n in [1u64, 9_999, 10_001, 500_000] {
                let naive: f64 = (1..=n).rev().map(|k| (k as f64).powf(-s)).sum();
                assert!((harmonic(n, s) / naive - 1.0).abs() < 1e-11, "{n} {s}");
            }
        }
    }

    fn flowing(spec: &FlowSpec, prefixes: &[&str], weight: PrefixWeight) -> Flowing {
        let prefixes: Vec<Prefix> = prefixes.iter().map(|p| p.parse().unwrap()).collect();
        let (pool, _) = PrefixPool::new(&prefixes, weight, 0.25).unwrap();
        Flows::new(spec, 0.8, pool, "flows").unwrap().start(9)
    }

    fn spec(count: u64) -> FlowSpec {
        FlowSpec { count, popularity: Popularity::Uniform, new_share: 0.0, destinations: DestinationSpec::default() }
    }

    #[test]
    fn a_flow_keeps_its_five_tuple_and_flows_differ() {
        let flows = flowing(&spec(5_000), &["10.0.0.0/8", "2001:db8::/32"], PrefixWeight::Equal).flows;
        let all: FxHashSet<FiveTuple> = (0..5_000).map(|f| flows.five_tuple(f, 0)).collect();
        assert_eq!(all.len(), 5_000);
        assert_eq!(flows.five_tuple(17, 0), flows.five_tuple(17, 0));
        assert_ne!(flows.five_tuple(17, 0), flows.five_tuple(17, 1));
        let tcp = all.iter().filter(|f| f.proto == PROTO_TCP).count() as f64 / 5e3;
        assert!((tcp - 0.8).abs() < 0.03, "{tcp}");
        assert!(all.iter().all(|f| f.src.is_ipv4() == f.dst.is_ipv4()));
        let sources = all.iter().filter_map(|f| match f.src {
            IpAddr::V4(a) => Some(a.octets()[0]),
            _ => None,
        });
        assert!(sources.into_iter().all(|first| (1..224).contains(&first)));
    }

    #[test]
    fn every_address_is_one_that_a_router_forwards() {
        let flows = flowing(&spec(400_000), &["0.0.0.0/0", "::/0"], PrefixWeight::Equal).flows;
        let is_unicast = |addr: IpAddr| match addr {
            IpAddr::V4(a) => is_unicast_v4(a.into()),
            IpAddr::V6(a) => is_unicast_v6(a.into()),
        };
        let bad = |flow| {
            let tuple = flows.five_tuple(flow, 0);
            !is_unicast(tuple.src) || !is_unicast(tuple.dst)
        };
        assert_eq!((0..400_000).filter(|&flow| bad(flow)).count(), 0);
        // A prefix without any is drawn from as it is.
        let only_loopback = flowing(&spec(10), &["127.0.0.0/8"], PrefixWeight::Equal).flows;
        assert!(only_loopback.five_tuple(3, 0).dst.is_loopback());
    }

    #[test]
    fn destinations_lie_in_the_prefixes_by_their_weight() {
        let prefixes = ["10.0.0.0/8", "192.0.2.0/24", "198.51.100.0/25", "2001:db8::/32"];
        let parsed: Vec<Prefix> = prefixes.iter().map(|p| p.parse().unwrap()).collect();
        for (weight, expected) in [
            (PrefixWeight::Equal, [0.25, 0.25, 0.25, 0.25]),
            // A quarter is IPv6; within IPv4 /8, /24 and /25 are as 2^17 : 2 : 1.
            (PrefixWeight::Addresses, [0.75 * 131_072.0 / 131_075.0, 1.1e-5, 0.6e-5, 0.25]),
        ] {
            let flows = flowing(&spec(200_000), &prefixes, weight).flows;
            let mut hits = [0f64; 4];
            for f in 0..200_000 {
                let dst = flows.five_tuple(f, 0).dst;
                let at = parsed.iter().position(|p| p.contains(dst)).expect("an address of the pool");
                hits[at] += 1.0 / 200_000.0;
            }
            for (hit, expected) in hits.iter().zip(expected) {
                assert!((hit - expected).abs() < 0.01, "{hits:?}");
            }
        }
    }

    #[test]
    fn destinations_have_their_own_number_and_popularity() {
        let mut spec = spec(100_000);
        spec.destinations =
            DestinationSpec { count: Some(50), popularity: Popularity::Zipf(1.0), ..Default::default() };
        let flows = flowing(&spec, &["10.0.0.0/8"], PrefixWeight::Equal).flows;
        let mut by_dst: FxHashMap<IpAddr, f64> = FxHashMap::default();
        for f in 0..100_000 {
            *by_dst.entry(flows.five_tuple(f, 0).dst).or_default() += 1e-5;
        }
        assert_eq!(by_dst.len(), 50);
        let top = by_dst.values().copied().fold(0.0, f64::max);
        assert!((top - Zipf::new(50, 1.0).pmf(1)).abs() < 0.01, "{top}");
    }

    #[test]
    fn new_flows_come_at_their_share_and_stay_until_replaced() {
        let mut flowing = flowing(&FlowSpec { new_share: 0.1, ..spec(100) }, &["10.0.0.0/8"], PrefixWeight::Equal);
        let mut rng = Pcg64::seed_from_u64(1);
        let mut seen = FxHashSet::default();
        let (mut firsts, mut unseen) = (0, 0);
        for _ in 0..100_000 {
            let (flow, first) = flowing.draw(&mut rng);
            let is_new = seen.insert(flow);
            assert!(is_new || !first, "a flow that was there before begins again");
            firsts += usize::from(first);
            unseen += usize::from(is_new);
        }
        // Besides the new ones only the flows of the start are seen, unless replaced before that.
        assert!((firsts..=firsts + 100).contains(&unseen), "{unseen} flows, {firsts} of them new");
        assert!((firsts as f64 - 10_000.0).abs() < 400.0, "{firsts}");
    }

    #[test]
    fn impossible_flows_are_told_what_is_allowed() {
        let error = |spec: FlowSpec| {
            let (pool, _) = PrefixPool::new(&[Prefix::V4 { addr: 0, len: 0 }], PrefixWeight::Equal, 0.0).unwrap();
            Flows::new(&spec, 1.0, pool, "traffic.flows").unwrap_err().to_string()
        };
        assert_eq!(error(spec(0)), "traffic.flows.count = 0: 1 to 4294967296 can be");
        assert!(
            error(FlowSpec { popularity: Popularity::Zipf(-1.0), ..spec(1) })
                .starts_with("traffic.flows.popularity.zipf = -1")
        );
        assert!(error(FlowSpec { new_share: 2.0, ..spec(1) }).contains("a share of 0 to 1"));
    }
}
