//! The skip selection logic: whether an application uses its LLC slices, from the LLC miss rate that counters measure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::MachineError;

/// When an application skips the LLC. The threshold is the paper's; how the rate is averaged and how the logic comes back is left
/// open there, and assumed here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SkipSpec {
    /// Skip while the measured LLC miss rate is above this: 0 to 1.
    pub threshold: f64,
    /// Use the LLC again only when the rate is this much below the threshold: 0 to the threshold.
    pub hysteresis: f64,
    /// The rate is measured over so many LLC accesses.
    pub window: u64,
    /// While skipping no rate can be measured: after so many L2 misses the slices are taken back to try.
    pub retry: u64,
}

impl Default for SkipSpec {
    fn default() -> SkipSpec {
        SkipSpec { threshold: 0.9, hysteresis: 0.05, window: 10_000, retry: 200_000 }
    }
}

/// What the application does with its slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Using {
    /// Uses them.
    Slices,
    /// Skips them: others may have them.
    Nothing,
    /// Has taken them back to measure; stays only if the rate is below threshold - hysteresis.
    Trial,
}

/// The logic of one application. Counts are told, decisions come back; no time.
#[derive(Clone, Debug)]
pub struct SkipLogic {
    spec: SkipSpec,
    using: Using,
    seen: u64,
    missed: u64,
    /// How often it changed from using slices to not, or back.
    changes: u64,
}

impl SkipLogic {
    /// Begins with using its slices; `path` is where the specification stands.
    ///
    /// # Errors
    /// A threshold outside 0 to 1, a hysteresis outside 0 to the threshold, a window or retry of 0.
    pub fn new(spec: &SkipSpec, path: &str) -> Result<SkipLogic, MachineError> {
        let error = |field: &str, came: String, allowed: &str, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        if !(0.0..=1.0).contains(&spec.threshold) {
            return error("threshold", spec.threshold.to_string(), "0 to 1", "it is a miss rate");
        }
        if !(0.0..=spec.threshold).contains(&spec.hysteresis) {
            let allowed = format!("0 to the threshold, {}", spec.threshold);
            return error("hysteresis", spec.hysteresis.to_string(), &allowed, "it is taken off the threshold");
        }
        for (name, value) in [("window", spec.window), ("retry", spec.retry)] {
            if value == 0 {
                return error(name, "0".into(), "1 and more", "count requests");
            }
        }
        Ok(SkipLogic { spec: spec.clone(), using: Using::Slices, seen: 0, missed: 0, changes: 0 })
    }

    /// What the application does now.
    pub fn using(&self) -> Using {
        self.using
    }

    /// How often it began to skip or to use slices.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// An access to the LLC hit or missed. Gives the new use where it changes.
    #[inline]
    pub fn saw(&mut self, missed: bool) -> Option<Using> {
        self.seen += 1;
        self.missed += u64::from(missed);
        if self.seen < self.spec.window {
            return None;
        }
        let rate = self.missed as f64 / self.seen as f64;
        let limit = match self.using {
            Using::Trial => self.spec.threshold - self.spec.hysteresis,
            _ => self.spec.threshold,
        };
        let next = if rate > limit { Using::Nothing } else { Using::Slices };
        self.go(next)
    }

    /// A request skipped the LLC. Gives the new use where it is time to try again.
    #[inline]
    pub fn skipped(&mut self) -> Option<Using> {
        self.seen += 1;
        if self.seen < self.spec.retry { None } else { self.go(Using::Trial) }
    }

    fn go(&mut self, next: Using) -> Option<Using> {
        (self.seen, self.missed) = (0, 0);
        let changed = next != self.using;
        let had = self.using != Using::Nothing;
        self.using = next;
        self.changes += u64::from(had != (next != Using::Nothing));
        changed.then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logic() -> SkipLogic {
        SkipLogic::new(&SkipSpec { threshold: 0.8, hysteresis: 0.2, window: 100, retry: 50 }, "skip").unwrap()
    }

    /// A window with so many misses of 100.
    fn window(logic: &mut SkipLogic, misses: u64) -> Option<Using> {
        (0..100).map(|i| logic.saw(i < misses)).find_map(|next| next)
    }

    #[test]
    fn it_skips_above_the_threshold_and_not_at_it() {
        let mut logic = logic();
        assert_eq!(window(&mut logic, 80), None);
        assert_eq!(window(&mut logic, 81), Some(Using::Nothing));
    }

    #[test]
    fn it_comes_back_only_below_threshold_less_hysteresis() {
        let mut logic = logic();
        window(&mut logic, 100);
        let trial = |logic: &mut SkipLogic| (0..50).map(|_| logic.skipped()).find_map(|next| next);
        assert_eq!(trial(&mut logic), Some(Using::Trial));
        assert_eq!(window(&mut logic, 61), Some(Using::Nothing));
        assert_eq!(trial(&mut logic), Some(Using::Trial));
        assert_eq!(window(&mut logic, 60), Some(Using::Slices));
        // Between the two limits it stays as it is.
        assert_eq!(window(&mut logic, 75), None);
        assert_eq!(logic.using(), Using::Slices);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (spec, says) in [
            (SkipSpec { threshold: 1.5, ..SkipSpec::default() }, "skip.threshold = 1.5: allowed is 0 to 1"),
            (
                SkipSpec { hysteresis: 0.95, ..SkipSpec::default() },
                "skip.hysteresis = 0.95: allowed is 0 to the threshold",
            ),
            (SkipSpec { window: 0, ..SkipSpec::default() }, "skip.window = 0: allowed is 1 and more"),
        ] {
            let text = SkipLogic::new(&spec, "skip").unwrap_err().to_string();
            assert!(text.starts_with(says), "{text}");
        }
    }
}
