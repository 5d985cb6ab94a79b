//! One setting, simulated one or several times.

use engine::Seed;
use serde::{Deserialize, Serialize};

use super::outcome::{SlicesOutcome, outcome};
use super::simulate::SlicesSystem;
use super::spec::{SlicesError, SlicesSpec, from_json};
use super::totals::Snapshot;
use super::trace::Lookups;

/// A setting, and how often it is simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlicesPoint {
    /// The setting.
    pub spec: SlicesSpec,
    /// Seed of all random streams; runs have seeds of their own below it.
    #[serde(default)]
    pub seed: u64,
    /// Independent runs. Half-widths come from runs if there are several, else from the 32 batches of the one.
    #[serde(default = "one")]
    pub runs: u32,
}

fn one() -> u32 {
    1
}

impl SlicesPoint {
    /// Reads JSON.
    ///
    /// # Errors
    /// Unknown fields and wrong types with their path, and what [`SlicesSpec::check`] finds.
    pub fn read(text: &str) -> Result<SlicesPoint, SlicesError> {
        let point: SlicesPoint = from_json(text)?;
        point.spec.check()?;
        if !(1..=10_000).contains(&point.runs) {
            return Err(SlicesError::Setting {
                path: "runs".into(),
                came: point.runs.to_string(),
                allowed: "1 to 10000".into(),
                remedy: "give independent runs".into(),
            });
        }
        Ok(point)
    }

    /// Simulates; [`None`] if `go_on`, which is asked now and then, says no. `recorded` replaces the tables of applications.
    ///
    /// # Errors
    /// What [`SlicesSpec::check`] finds.
    pub fn run(
        &self,
        recorded: &[Option<Lookups>],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<SlicesOutcome>, SlicesError> {
        self.spec.check()?;
        let mut runs: Vec<Vec<Snapshot>> = Vec::new();
        let mut skipping = Vec::new();
        for run in 0..u64::from(self.runs) {
            let mut system = SlicesSystem::new(&self.spec, Seed(self.seed).child(run), recorded)?;
            let Some(found) = system.run(self.spec.requests, self.spec.warmup_factor.into(), go_on) else {
                return Ok(None);
            };
            skipping = system.skipping();
            runs.push(found);
        }
        Ok(Some(outcome(&self.spec, &runs, skipping)))
    }
}
