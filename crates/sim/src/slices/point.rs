//! One setting, simulated one or several times: what is reported of it.

use engine::Seed;
use serde::{Deserialize, Serialize};
use stats::{stationarity, student_quantile};

use super::simulate::{BATCHES, System, Totals};
use super::spec::{SlicesError, SlicesSpec};
use super::trace::Lookups;

/// A setting, and how often it is simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
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

/// A mean, and how near the true one is with 95 % confidence (Student's t); NaN where nothing was seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The mean.
    pub value: f64,
    /// Its half-width.
    pub half_width: f64,
}

/// What came of a point. Times in ns, rates in millions a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Packets that arrived, a microsecond.
    pub offered_per_us: f64,
    /// Share of packets that found the system full, P_b.
    pub blocking: Figure,
    /// Packets served, a microsecond: lambda_e = lambda (1 - P_b).
    pub throughput_per_us: Figure,
    /// The same for packets of 64 bytes, without preamble and gap.
    pub throughput_gbps: Figure,
    /// Mean time in the queue of a core, W_e.
    pub wait_ns: Figure,
    /// Mean time in the system.
    pub sojourn_ns: Figure,
    /// Mean time that a core is held by a packet.
    pub held_ns: Figure,
    /// Hits in L1 of all lookups.
    pub l1_hits: Figure,
    /// Hits in L2 of those that missed L1.
    pub l2_hits: Figure,
    /// Hits in the LLC of those that looked there.
    pub llc_hits: Figure,
    /// L2 misses that skipped the LLC, of all L2 misses.
    pub skipped: Figure,
    /// Lookups that missed all caches.
    pub to_dram: Figure,
    /// Requests to memory that began while another bank of their channel was busy.
    pub interleaved: Figure,
    /// Mean wait for a bank, by request to memory.
    pub bank_wait_ns: Figure,
    /// Mean wait for a slice, by lookup there.
    pub slice_wait_ns: Figure,
    /// What cores, slices and banks are busy of the time.
    pub core_use: Figure,
    /// See `core_use`; 0 without LLC.
    pub slice_use: Figure,
    /// See `core_use`: of all banks.
    pub bank_use: Figure,
    /// Parts of the mean sojourn: name and ns; they sum to it but for packets that are in the system at the ends of
    /// batches.
    pub parts_ns: Vec<(&'static str, f64)>,
    /// Lookups that found a slice's queue full, by lookup there.
    pub queue_full: f64,
    /// How often applications began to skip the LLC or to use it again.
    pub skip_changes: u64,
    /// Which applications skip the LLC at the end of the last run.
    pub skipping: Vec<bool>,
    /// Whether a resource is busy 98 % of the time or more, or cores are offered more than they can do: what is carried is what it
    /// can carry, and waits depend on the limit K alone.
    pub saturated: Option<&'static str>,
    /// Whether waits show no trend over the measured part (p of Welch's test of its halves is 0.001 or more).
    pub steady: bool,
    /// Packets that were measured, all runs together.
    pub packets: u64,
    /// What a reader should know of the setting.
    pub notes: Vec<String>,
}

/// From this use on a resource counts as saturated.
const SATURATED: f64 = 0.98;
/// A trend is reported below this probability that there is none.
const TREND: f64 = 0.001;

impl Point {
    /// Reads JSON.
    ///
    /// # Errors
    /// Unknown fields and wrong types with their path, and what [`SlicesSpec::check`] finds.
    pub fn read(text: &str) -> Result<Point, SlicesError> {
        let mut json = serde_json::Deserializer::from_str(text);
        let point: Point = serde_path_to_error::deserialize(&mut json)
            .map_err(|e| SlicesError::Text(format!("{}: {}", e.path(), e.inner())))?;
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
    ) -> Result<Option<Outcome>, SlicesError> {
        self.spec.check()?;
        let mut runs: Vec<Vec<Totals>> = Vec::new();
        let mut skipping = Vec::new();
        for run in 0..u64::from(self.runs) {
            let mut system = System::new(&self.spec, Seed(self.seed).child(run), recorded)?;
            let Some(found) = system.run(self.spec.requests, self.spec.warmup_factor.into(), go_on) else {
                return Ok(None);
            };
            skipping = system.skipping();
            runs.push(found);
        }
        Ok(Some(self.outcome(&runs, skipping)))
    }

    fn outcome(&self, runs: &[Vec<Totals>], skipping: Vec<bool>) -> Outcome {
        let whole = |run: &Vec<Totals>| run[BATCHES].since(&run[0]);
        let samples: Vec<Totals> = if runs.len() > 1 {
            runs.iter().map(whole).collect()
        } else {
            runs.iter().flat_map(|run| run.windows(2).map(|pair| pair[1].since(&pair[0]))).collect()
        };
        let figure = |of: &dyn Fn(&Totals) -> f64| -> Figure {
            let values: Vec<f64> = samples.iter().map(of).filter(|v| v.is_finite()).collect();
            let n = values.len() as f64;
            let value = values.iter().sum::<f64>() / n;
            let squares: f64 = values.iter().map(|v| (v - value).powi(2)).sum();
            let spread = (squares / (n - 1.0) / n).sqrt();
            let half_width = if values.len() < 2 { f64::NAN } else { student_quantile(0.975, n - 1.0) * spread };
            Figure { value, half_width }
        };
        let share = |a: u64, b: u64| a as f64 / b as f64;
        let ns = |sum: u64, n: u64| sum as f64 / n as f64 / 1e3;
        let per_us = |n: u64, ps: u64| n as f64 / ps as f64 * 1e6;
        let spec = &self.spec;
        let cores: u64 = spec.applications.iter().map(|a| u64::from(a.cores)).sum();
        let slices = match spec.architecture {
            super::Architecture::Proposed => {
                u64::from(spec.slices.min(spec.applications.iter().map(|a| a.slices).sum()))
            }
            super::Architecture::SharedLlc => 1,
            super::Architecture::NoLlc => 0,
        };
        let banks = u64::from(spec.dram.channels * spec.dram.banks);
        let contexts = cores * u64::from(spec.outstanding);
        let slice_use = |t: &Totals| if slices == 0 { 0.0 } else { share(t.slice, t.now * slices) };
        let mut all = Totals::default();
        for run in runs {
            let t = whole(run);
            all.done += t.done;
            all.arrived += t.arrived;
            all.now += t.now;
            for (sum, part) in [
                (&mut all.waited, t.waited),
                (&mut all.held, t.held),
                (&mut all.header, t.header),
                (&mut all.l1, t.l1),
                (&mut all.l2, t.l2),
                (&mut all.slice_wait, t.slice_wait),
                (&mut all.slice, t.slice),
                (&mut all.bank_wait, t.bank_wait),
                (&mut all.dram, t.dram),
                (&mut all.link, t.link),
                (&mut all.llc_lookups, t.llc_lookups),
                (&mut all.full, t.full),
                (&mut all.changes, t.changes),
            ] {
                *sum += part;
            }
        }
        let parts = [
            ("queue", all.waited),
            ("packet_buffer", all.header),
            ("l1", all.l1),
            ("l2", all.l2),
            ("slice_queue", all.slice_wait),
            ("llc", all.slice),
            ("bank_busy", all.bank_wait),
            ("dram", all.dram),
            ("link", all.link),
        ];
        let core_use = figure(&|t| share(t.held, t.now * contexts));
        let slice_busy = figure(&slice_use);
        let bank_use = figure(&|t| share(t.bank_busy, t.now * banks));
        let uses = [("cores", core_use), ("slices", slice_busy), ("banks", bank_use)];
        let throughput = figure(&|t| per_us(t.arrived - t.blocked, t.now));
        let by_batch: Vec<f64> = (0..BATCHES)
            .map(|n| runs.iter().map(|run| run[n + 1].since(&run[n])).map(|t| ns(t.waited, t.begun)).sum::<f64>())
            .collect();
        // Packets go to a random core, so that some idle while the system is full: what is offered decides.
        let offered = per_us(all.arrived, all.now) * ns(all.held, all.done) / 1e3;
        let overload = (offered >= contexts as f64).then_some("cores");
        Outcome {
            offered_per_us: per_us(all.arrived, all.now),
            blocking: figure(&|t| share(t.blocked, t.arrived)),
            throughput_per_us: throughput,
            throughput_gbps: Figure {
                value: throughput.value * 64.0 * 8.0 / 1e3,
                half_width: throughput.half_width * 64.0 * 8.0 / 1e3,
            },
            wait_ns: figure(&|t| ns(t.waited, t.begun)),
            sojourn_ns: figure(&|t| ns(t.sojourn, t.done)),
            held_ns: figure(&|t| ns(t.held, t.done)),
            l1_hits: figure(&|t| share(t.l1_hits, t.lookups)),
            l2_hits: figure(&|t| share(t.l2_hits, t.lookups - t.l1_hits)),
            llc_hits: figure(&|t| share(t.llc_hits, t.llc_lookups)),
            skipped: figure(&|t| share(t.skipped, t.lookups - t.l1_hits - t.l2_hits)),
            to_dram: figure(&|t| share(t.dram_requests, t.lookups)),
            interleaved: figure(&|t| share(t.interleaved, t.dram_requests)),
            bank_wait_ns: figure(&|t| ns(t.bank_wait, t.dram_requests)),
            slice_wait_ns: figure(&|t| ns(t.slice_wait, t.llc_lookups)),
            core_use,
            slice_use: slice_busy,
            bank_use,
            parts_ns: parts.into_iter().map(|(name, sum)| (name, ns(sum, all.done))).collect(),
            queue_full: if all.llc_lookups == 0 { 0.0 } else { share(all.full, all.llc_lookups) },
            skip_changes: all.changes,
            skipping,
            saturated: uses.into_iter().find(|(_, used)| used.value >= SATURATED).map(|(name, _)| name).or(overload),
            steady: stationarity(&by_batch).is_ok_and(|test| test.p_value >= TREND),
            packets: all.arrived,
            notes: spec.notes(),
        }
    }
}
