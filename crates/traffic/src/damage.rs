//! What was wrong in an input, and where.

use std::fmt;

use serde::Serialize;

/// Entries that a [`Damage`] list keeps; the rest is only counted.
pub const DAMAGE_KEPT: usize = 64;

/// Why a part of an input was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DamageKind {
    /// The input ends inside a record.
    Truncated,
    /// The compressed stream is broken; what it gave before is used.
    Compression,
    /// A length or field that cannot be.
    Corrupt,
    /// A record of a kind that is not read.
    Unsupported,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Why.
    pub kind: DamageKind,
    /// Bytes from the start of the (decompressed) input.
    pub offset: u64,
    /// What came and what was expected.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.what)
    }
}

/// The damage found in one input: every finding is counted, the first [`DAMAGE_KEPT`] are named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// How many findings.
    pub count: u64,
    /// Bytes that were skipped to find the next readable record.
    pub skipped_bytes: u64,
    /// The first of them.
    pub first: Vec<Finding>,
}

impl Damage {
    /// Whether the input was sound.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Counts a finding and keeps it while there is room.
    pub fn add(&mut self, kind: DamageKind, offset: u64, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < DAMAGE_KEPT {
            self.first.push(Finding { kind, offset, what: what() });
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first.first() {
            None => f.write_str("no damage"),
            Some(first) if self.count == 1 => write!(f, "{first}"),
            Some(first) => write!(f, "{first} (and {} more)", self.count - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_capped_and_the_count_is_not() {
        let mut damage = Damage::default();
        for i in 0..1000 {
            damage.add(DamageKind::Corrupt, i, || format!("finding {i}"));
        }
        assert_eq!((damage.count, damage.first.len()), (1000, DAMAGE_KEPT));
        assert_eq!(damage.to_string(), "at byte 0: finding 0 (and 999 more)");
    }
}
