//! The skip selection logic: whether an application uses its LLC slices, from the LLC miss rate that counters measure.
//!
//! A cache that begins empty misses whatever is asked of it, and says nothing of its steady rate. So misses are not judged
//! until there were as many as the caches have lines for the application: with LRU and requests that are independent of each other they
//! hold by then what they hold for ever. A trial begins empty, too, since skipping flushes. It is repeated so rarely that
//! an application that skips spends little on trials.

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
    /// The rate is measured over so many LLC accesses, once the caches are warm; two windows in a row above the threshold
    /// begin to skip.
    pub window: u64,
    /// While skipping no rate can be measured: after so many L2 misses the slices are taken back to try, but not before 32
    /// times as many as the last trial took.
    pub retry: u64,
}

/// Skipping lasts at least so many times as long as the trial before it.
const TRIALS_APART: u64 = 32;
/// So many windows in a row above the threshold begin to skip.
const WINDOWS: u32 = 2;

impl Default for SkipSpec {
    fn default() -> SkipSpec {
        SkipSpec { threshold: 0.9, hysteresis: 0.05, window: 10_000, retry: 200_000 }
    }
}

/// What the application does with its slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Using {
    /// Uses them.
    Slices,
    /// Skips them: others may have them.
    Nothing,
    /// Has taken them back to measure; stays only if the rate is below threshold - hysteresis.
    Trial,
}

/// The logic of one application. Counts are told, decisions come back; no time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SkipLogic {
    spec: SkipSpec,
    using: Using,
    /// Misses that fill the caches once.
    lines: u64,
    /// Of these, those still to come before misses are judged.
    cold: u64,
    seen: u64,
    missed: u64,
    /// Windows in a row above the threshold.
    above: u32,
    /// Accesses of the trial, or of the start, and of the windows that led to skipping.
    used: u64,
    /// After so many requests that skip the slices are tried again.
    retry: u64,
    /// How often it changed from using slices to not, or back.
    changes: u64,
}

impl SkipLogic {
    /// Begins with using its slices, which are empty. `lines` is how many misses fill the caches that it has: the lines of its
    /// part of the LLC, and of L2s whose victims go there. `path` is where the specification stands.
    ///
    /// # Errors
    /// A threshold outside 0 to 1, a hysteresis outside 0 to the threshold, a window or retry of 0.
    pub fn new(spec: &SkipSpec, lines: u64, path: &str) -> Result<SkipLogic, MachineError> {
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
        Ok(SkipLogic {
            using: Using::Slices,
            lines,
            cold: lines,
            seen: 0,
            missed: 0,
            above: 0,
            used: 0,
            retry: spec.retry,
            changes: 0,
            spec: spec.clone(),
        })
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
        self.used += 1;
        if self.cold > 0 {
            self.cold -= u64::from(missed);
            return None;
        }
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
        (self.seen, self.missed) = (0, 0);
        if rate <= limit {
            (self.above, self.used) = (0, 0);
            return self.go(Using::Slices);
        }
        self.above += 1;
        if self.above < WINDOWS { None } else { self.go(Using::Nothing) }
    }

    /// A request skipped the LLC. Gives the new use where it is time to try again.
    #[inline]
    pub fn skipped(&mut self) -> Option<Using> {
        self.seen += 1;
        if self.seen < self.retry { None } else { self.go(Using::Trial) }
    }

    fn go(&mut self, next: Using) -> Option<Using> {
        let changed = next != self.using;
        let (had, has) = (self.using != Using::Nothing, next != Using::Nothing);
        if had != has {
            self.changes += 1;
            (self.seen, self.missed, self.above) = (0, 0, 0);
            if has {
                (self.cold, self.used) = (self.lines, 0);
            } else {
                self.retry = self.spec.retry.max(self.used.saturating_mul(TRIALS_APART));
            }
        }
        self.using = next;
        changed.then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logic(lines: u64) -> SkipLogic {
        let spec = SkipSpec { threshold: 0.8, hysteresis: 0.2, window: 100, retry: 50 };
        SkipLogic::new(&spec, lines, "skip").unwrap()
    }

    /// A window with so many misses of 100.
    fn window(logic: &mut SkipLogic, misses: u64) -> Option<Using> {
        (0..100).map(|i| logic.saw(i < misses)).fold(None, |last, next| next.or(last))
    }

    #[test]
    fn it_skips_above_the_threshold_and_not_at_it() {
        let mut logic = logic(0);
        for misses in [80, 81, 80, 81] {
            assert_eq!(window(&mut logic, misses), None);
        }
        assert_eq!(window(&mut logic, 81), Some(Using::Nothing));
    }

    #[test]
    fn misses_that_fill_empty_caches_are_not_judged() {
        let mut logic = logic(1000);
        assert!((0..1000).all(|_| logic.saw(true).is_none()));
        assert_eq!(window(&mut logic, 80), None);
        assert_eq!(window(&mut logic, 100), None);
        assert_eq!(window(&mut logic, 100), Some(Using::Nothing));
    }

    #[test]
    fn it_comes_back_only_below_threshold_less_hysteresis() {
        let mut logic = logic(0);
        assert_eq!((window(&mut logic, 100), window(&mut logic, 100)), (None, Some(Using::Nothing)));
        // As long as 32 trials of 200 accesses.
        let trial =
            |logic: &mut SkipLogic| (0..6400).map(|_| logic.skipped()).position(|next| next == Some(Using::Trial));
        assert_eq!(trial(&mut logic), Some(6399));
        assert_eq!((window(&mut logic, 61), window(&mut logic, 61)), (None, Some(Using::Nothing)));
        assert_eq!(trial(&mut logic), Some(6399));
        assert_eq!(window(&mut logic, 60), Some(Using::Slices));
        // Between the two limits it stays as it is.
        assert_eq!((window(&mut logic, 75), window(&mut logic, 75)), (None, None));
        assert_eq!((logic.using(), logic.changes()), (Using::Slices, 4));
    }

    #[test]
    fn a_burst_of_misses_costs_a_healthy_application_no_more_than_its_trial() {
        let mut logic = logic(100);
        (0..100).for_each(|_| assert_eq!(logic.saw(true), None));
        (0..2000).for_each(|_| assert_eq!(window(&mut logic, 20), None));
        assert_eq!((window(&mut logic, 100), window(&mut logic, 100)), (None, Some(Using::Nothing)));
        // 32 times the two windows, and not the 200,000 accesses before.
        let back = (0..1_000_000).map(|_| logic.skipped()).position(|next| next.is_some());
        assert_eq!(back, Some(32 * 200 - 1));
        (0..100).for_each(|_| assert_eq!(logic.saw(true), None));
        assert_eq!(window(&mut logic, 20), Some(Using::Slices));
    }

    #[test]
    fn a_trial_begins_with_empty_caches() {
        let mut logic = logic(1000);
        (0..1000).for_each(|_| assert_eq!(logic.saw(true), None));
        window(&mut logic, 100);
        window(&mut logic, 100);
        while logic.skipped().is_none() {}
        // Misses until the caches are full, then none: it stays.
        (0..1000).for_each(|_| assert_eq!(logic.saw(true), None));
        assert_eq!(window(&mut logic, 0), Some(Using::Slices));
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
            let text = SkipLogic::new(&spec, 0, "skip").unwrap_err().to_string();
            assert!(text.starts_with(says), "{text}");
        }
    }
}
