//! The seed of a run, and the random stream that each component takes from it by its name.

use rand::SeedableRng;
use rand_pcg::Pcg64;

/// The seed of a run. Every component takes its own random stream from it, by name.
///
/// A stream depends on the seed and its name alone: neither on the order in which streams are
/// taken nor on which others there are. Names are the paths of components, such as
/// `machine.nic.rss`. The values are stable: the same seed and name give the same draws on every
/// platform and in every version.
///
/// ```
/// use engine::Seed;
/// use rand::Rng;
///
/// let mut rss = Seed(42).stream("machine.nic.rss");
/// let mut again = Seed(42).stream("machine.nic.rss");
/// assert_eq!(rss.next_u64(), again.next_u64());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seed(pub u64);

impl Seed {
    /// The random stream of the component at path `name`: PCG XSL RR 128/64 (O'Neill, "PCG: A family
    /// of simple fast space-efficient statistically good algorithms", 2014), its state and increment
    /// taken from the BLAKE3 hash of seed and name.
    pub fn stream(self, name: &str) -> Pcg64 {
        Pcg64::from_seed(self.derive(b"stream", name.as_bytes()))
    }

    /// The seed of replication `index`, or of a part that gives names of its own.
    pub fn child(self, index: u64) -> Seed {
        let [a, b, c, d, e, f, g, h, ..] = self.derive(b"child.", &index.to_le_bytes());
        Seed(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }

    /// Both purposes have the same length, so no name can be taken for an index.
    fn derive(self, purpose: &[u8; 6], name: &[u8]) -> [u8; 32] {
        let mut hash = blake3::Hasher::new();
        hash.update(&self.0.to_le_bytes()).update(purpose).update(name);
        hash.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn streams_have_the_values_they_always_had() {
        let mut rng = Seed(1).stream("machine.nic.rss");
        assert_eq!([rng.next_u64(), rng.next_u64()], [8883101261522461081, 2085642520108277995]);
        assert_eq!(Seed(1).child(0), Seed(16001569630798392051));
    }

    #[test]
    fn names_seeds_and_children_give_different_streams() {
        let mut first: Vec<u64> = Vec::new();
        for seed in [Seed(0), Seed(1), Seed(0).child(0), Seed(0).child(1)] {
            for name in ["", "a", "b", "ab", "a.b"] {
                first.push(seed.stream(name).next_u64());
            }
        }
        let all = first.len();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), all);
    }
}
