//! Frame sizes: fixed, IMIX, or a histogram.
//!
//! Sizes are those of Ethernet frames with their check sequence, 64 to 9,600 bytes, as in RFC 2544.

use rand::{Rng, RngExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Size;

use crate::error::TrafficError;

/// The shortest frame, with its check sequence (IEEE 802.3).
pub(crate) const SHORTEST: u32 = 64;
/// A common jumbo frame limit of NICs (E810: 9,728 with everything).
pub(crate) const LONGEST: u32 = 9_600;
/// Simple IMIX, packets of 40, 576 and 1,500 bytes of IP as 7:4:1 (Spirent, "Test methodology
/// journal: IMIX", 2006; RFC 6985 section 1), which are frames of 64, 594 and 1,518 bytes.
const IMIX: [(u32, f64); 3] = [(64, 7.0), (594, 4.0), (1518, 1.0)];

/// How long frames are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SizeSpec {
    /// Simple IMIX: 64, 594 and 1,518 bytes as 7:4:1.
    Imix,
    /// All frames have this size, check sequence included.
    Fixed(Size),
    /// Shares by size.
    Histogram(Vec<SizeBin>),
}

/// A share of the packets whose frames have one size, or any size of a range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeBin {
    /// The size of the frame with its check sequence, in bytes; the shortest of the range.
    pub bytes: u32,
    /// The longest of the range, all sizes of which are equally likely; as `bytes` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
    /// The share of the packets; shares need not add up to 1.
    pub share: f64,
}

/// Draws frame sizes, in one table look-up.
#[derive(Clone, Debug)]
pub struct Sizes {
    mean: f64,
    longest: u32,
    bins: Vec<FrameSizeBin>,
    alias: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct FrameSizeBin {
    from: u32,
    count: u32,
}

impl Sizes {
    /// `path` is where the specification stands, for messages.
    ///
    /// # Errors
    /// Sizes outside 64 to 9,600 bytes, an empty histogram, shares that are not 0 or more.
    pub fn new(spec: &SizeSpec, path: &str) -> Result<Sizes, TrafficError> {
        let bins: Vec<SizeBin> = match spec {
            SizeSpec::Imix => IMIX.iter().map(|&(bytes, share)| SizeBin { bytes, to: None, share }).collect(),
            SizeSpec::Fixed(size) => {
                let bytes = size.bytes();
                let bytes = u32::try_from(bytes)
                    .ok()
                    .filter(|b| (SHORTEST..=LONGEST).contains(b))
                    .ok_or_else(|| TrafficError::spec(format!("{path}.fixed"), format!("\"{size}\""), allowed()))?;
                vec![SizeBin { bytes, to: None, share: 1.0 }]
            }
            SizeSpec::Histogram(bins) => bins.clone(),
        };
        for (i, bin) in bins.iter().enumerate() {
            let at = |field: &str| format!("{path}.histogram[{i}].{field}");
            let to = bin.to.unwrap_or(bin.bytes);
            if !(SHORTEST..=LONGEST).contains(&bin.bytes) {
                return Err(TrafficError::spec(at("bytes"), bin.bytes, allowed()));
            }
            if !(bin.bytes..=LONGEST).contains(&to) {
                let allowed = format!("from `bytes` = {} to {LONGEST} can be", bin.bytes);
                return Err(TrafficError::spec(at("to"), to, allowed));
            }
            if !(bin.share.is_finite() && bin.share >= 0.0) {
                return Err(TrafficError::spec(at("share"), bin.share, "a share is a number of 0 or more"));
            }
        }
        let total: f64 = bins.iter().map(|b| b.share).sum();
        if total <= 0.0 || !total.is_finite() {
            return Err(TrafficError::spec(
                format!("{path}.histogram"),
                format!("{} bins with shares of {total} in all", bins.len()),
                "at least one share must be above 0",
            ));
        }
        let middle = |b: &SizeBin| f64::from(b.bytes + b.to.unwrap_or(b.bytes)) / 2.0;
        let mean = bins.iter().map(|b| b.share / total * middle(b)).sum();
        let weights: Vec<f64> = bins.iter().map(|b| b.share).collect();
        let drawn = bins.iter().filter(|b| b.share > 0.0);
        let longest = drawn.map(|b| b.to.unwrap_or(b.bytes)).max().unwrap_or(SHORTEST);
        let bins =
            bins.iter().map(|b| FrameSizeBin { from: b.bytes, count: b.to.unwrap_or(b.bytes) - b.bytes + 1 }).collect();
        Ok(Sizes { mean, longest, bins, alias: alias_table(&weights) })
    }

    /// The exact mean size in bytes, check sequence included.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The longest that is ever drawn, check sequence included.
    pub fn longest(&self) -> u32 {
        self.longest
    }

    /// The exact mean of sizes where shorter ones become `least` bytes.
    pub(crate) fn mean_at_least(&self, least: u32) -> f64 {
        let n = self.bins.len() as f64;
        let of = |bin: &FrameSizeBin| {
            let (from, to) = (bin.from, bin.from + bin.count - 1);
            let below = f64::from(least.clamp(from, to + 1) - from);
            let above = f64::from(bin.count) - below;
            let kept = above * f64::from(least.max(from) + to) / 2.0;
            (below * f64::from(least) + if above > 0.0 { kept } else { 0.0 }) / f64::from(bin.count)
        };
        // The alias table holds the shares: a slot's own up to its threshold, the other's above.
        let slots = self.alias.iter().zip(&self.bins).map(|(&(threshold, other), bin)| {
            let own = if threshold == u32::MAX { 1.0 } else { f64::from(threshold) / 4_294_967_296.0 };
            own * of(bin) + (1.0 - own) * of(&self.bins[other as usize])
        });
        slots.sum::<f64>() / n
    }

    /// A size in bytes, check sequence included.
    #[inline]
    pub fn draw(&self, rng: &mut impl Rng) -> u32 {
        let bin = self.bins[draw_alias(&self.alias, rng) as usize];
        if bin.count == 1 { bin.from } else { bin.from + rng.random_range(0..bin.count) }
    }
}

fn allowed() -> String {
    format!("frames have {SHORTEST} to {LONGEST} bytes with their check sequence (try 64 or 1518)")
}

/// The alias method (Walker 1977; Vose 1991): for each slot the threshold below which it stands for
/// itself, as a fraction of 2^32, and the slot it stands for above.
pub(crate) fn alias_table(weights: &[f64]) -> Vec<(u32, u32)> {
    let n = weights.len();
    let total: f64 = weights.iter().sum();
    let mut scaled: Vec<f64> = weights.iter().map(|w| w * n as f64 / total).collect();
    let mut table = vec![(u32::MAX, 0u32); n];
    for (i, slot) in table.iter_mut().enumerate() {
        slot.1 = i as u32;
    }
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|&i| scaled[i] < 1.0);
    while let (Some(&s), Some(&l)) = (small.last(), large.last()) {
        small.pop();
        table[s] = ((scaled[s] * 4_294_967_296.0) as u32, l as u32);
        scaled[l] -= 1.0 - scaled[s];
        if scaled[l] < 1.0 {
            large.pop();
            small.push(l);
        }
    }
    table
}

/// A slot of an alias table, by one draw of 64 bits.
#[inline]
pub(crate) fn draw_alias(table: &[(u32, u32)], rng: &mut impl Rng) -> u32 {
    let bits = rng.next_u64();
    let slot = ((bits >> 32) * table.len() as u64) >> 32;
    let (threshold, other) = table[slot as usize];
    // A slot that is its own other may have any threshold.
    if (bits as u32) < threshold { slot as u32 } else { other }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    use super::*;

    fn drawn(spec: &SizeSpec, n: usize) -> (Sizes, Vec<u32>) {
        let sizes = Sizes::new(spec, "sizes").unwrap();
        let mut rng = Pcg64::seed_from_u64(3);
        let all = (0..n).map(|_| sizes.draw(&mut rng)).collect();
        (sizes, all)
    }

    #[test]
    fn imix_is_7_to_4_to_1_with_the_published_mean() {
        let (sizes, all) = drawn(&SizeSpec::Imix, 1_200_000);
        // (7 x 64 + 4 x 594 + 1518) / 12.
        assert!((sizes.mean() - 361.833).abs() < 0.001);
        for (size, twelfths) in [(64, 7.0), (594, 4.0), (1518, 1.0)] {
            let share = all.iter().filter(|&&s| s == size).count() as f64 / 1.2e6;
            assert!((share - twelfths / 12.0).abs() < 0.0015, "{size}: {share}");
        }
    }

    #[test]
    fn a_histogram_is_met_in_every_bin_by_chi_square() {
        let bins: Vec<SizeBin> =
            [(64, None, 3.0), (65, Some(127), 1.0), (128, Some(1499), 0.0), (1500, Some(1503), 6.0)]
                .map(|(bytes, to, share)| SizeBin { bytes, to, share })
                .to_vec();
        let (sizes, all) = drawn(&SizeSpec::Histogram(bins), 1_000_000);
        assert!((sizes.mean() - (0.3 * 64.0 + 0.1 * 96.0 + 0.6 * 1501.5)).abs() < 1e-9);
        assert!(!all.iter().any(|s| (128..1500).contains(s)));
        // 64, 63 sizes of the range, 4 sizes: 68 cells, 67 degrees of freedom; 99.9 % quantile 108.5.
        let expected = |s: u32| match s {
            64 => 300_000.0,
            65..=127 => 100_000.0 / 63.0,
            _ => 150_000.0,
        };
        let chi: f64 = (64..=127)
            .chain(1500..=1503)
            .map(|s| (all.iter().filter(|&&x| x == s).count() as f64 - expected(s)).powi(2) / expected(s))
            .sum();
        assert!(chi < 108.5, "chi-square {chi}");
    }

    #[test]
    fn the_mean_with_a_least_size_is_that_of_the_draws() {
        let bins = [(64, Some(90), 3.0), (70, None, 1.0), (1500, None, 6.0)]
            .map(|(bytes, to, share)| SizeBin { bytes, to, share })
            .to_vec();
        let (sizes, all) = drawn(&SizeSpec::Histogram(bins), 1_000_000);
        assert!((sizes.mean_at_least(64) - sizes.mean()).abs() < 1e-5);
        // 14 of the 27 sizes become 78, the other 13 have a mean of 84.
        let by_hand = 0.3 * (14.0 * 78.0 + 13.0 * 84.0) / 27.0 + 0.1 * 78.0 + 0.6 * 1500.0;
        assert!((sizes.mean_at_least(78) - by_hand).abs() < 1e-5, "{}", sizes.mean_at_least(78));
        let drawn = all.iter().map(|&s| f64::from(s.max(78))).sum::<f64>() / 1e6;
        assert!((drawn / by_hand - 1.0).abs() < 0.003);
    }

    #[test]
    fn sizes_that_cannot_be_say_what_can() {
        let error = |spec: &SizeSpec| Sizes::new(spec, "traffic.sizes").unwrap_err().to_string();
        assert_eq!(
            error(&SizeSpec::Fixed(Size::from_bytes(63))),
            "traffic.sizes.fixed = \"63 B\": frames have 64 to 9600 bytes with their check sequence (try 64 or 1518)"
        );
        let bin = |bytes, to, share| error(&SizeSpec::Histogram(vec![SizeBin { bytes, to, share }]));
        assert!(bin(64, Some(60), 1.0).starts_with("traffic.sizes.histogram[0].to = 60: from `bytes` = 64"));
        assert!(bin(64, None, -1.0).contains("a share is a number of 0 or more"));
        assert!(bin(64, None, 0.0).contains("at least one share must be above 0"));
    }
}
