//! What was wrong in an input, and where.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// Entries that a [`Damage`] list keeps; the rest is only counted.
pub const DAMAGE_KEPT: usize = 64;

/// Why a part of an input was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
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
pub struct DamageFinding {
    /// Why.
    pub kind: DamageKind,
    /// Bytes from the start of the (decompressed) input.
    pub offset: u64,
    /// What came and what was expected.
    pub what: String,
}

impl fmt::Display for DamageFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.what)
    }
}

/// How much of one kind of damage there is, and where it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DamageCount {
    /// Why.
    pub kind: DamageKind,
    /// How many findings of this kind.
    pub count: u64,
    /// Where the first of them is, in bytes from the start of the (decompressed) input.
    pub offset: u64,
    /// What came there; of a text with its line.
    pub what: String,
}

/// The damage found in one input: every finding is counted, the first [`DAMAGE_KEPT`] are named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// How many findings.
    pub count: u64,
    /// Bytes that were skipped to find the next readable record.
    pub skipped_bytes: u64,
    /// The first of them.
    pub first: Vec<DamageFinding>,
    /// All of them by kind, in the order in which the kinds were met.
    pub by_kind: Vec<DamageCount>,
}

impl Damage {
    /// Whether the input was sound.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Counts a finding and keeps it while there is room.
    pub fn add(&mut self, kind: DamageKind, offset: u64, what: impl FnOnce() -> String) {
        self.count += 1;
        let met = self.by_kind.iter_mut().find(|c| c.kind == kind);
        if self.first.len() >= DAMAGE_KEPT && met.is_some() {
            met.into_iter().for_each(|c| c.count += 1);
            return;
        }
        let what = what();
        match met {
            Some(met) => met.count += 1,
            None => self.by_kind.push(DamageCount { kind, count: 1, offset, what: what.clone() }),
        }
        if self.first.len() < DAMAGE_KEPT {
            self.first.push(DamageFinding { kind, offset, what });
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

    #[test]
    fn kinds_are_counted_apart_with_the_place_where_each_begins_however_late() {
        let mut damage = Damage::default();
        for i in 0..1000 {
            let kind = if i < 900 { DamageKind::Corrupt } else { DamageKind::Truncated };
            damage.add(kind, i, || format!("finding {i}"));
        }
        let counts: Vec<_> = damage.by_kind.iter().map(|c| (c.kind, c.count, c.offset, c.what.as_str())).collect();
        assert_eq!(
            counts,
            [(DamageKind::Corrupt, 900, 0, "finding 0"), (DamageKind::Truncated, 100, 900, "finding 900")]
        );
    }
}
