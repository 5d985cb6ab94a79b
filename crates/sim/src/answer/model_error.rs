//! How far off the model is where servers with the same parts were measured: a band for each kind of answer.
//!
//! What is known is `presets/accuracy.json`: published measurements that nothing was fitted on. `wirespeed accuracy --errors` writes
//! it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::limit::RateLimit;
use crate::scenario::{Scenario, ShippedCore, core_of, nic_intervals};

/// Fewer rows make no band.
const LEAST_ROWS: usize = 3;
/// Of so many rows one is left out at either end, so that nine in ten lie within the band.
const ROWS_AN_END: usize = 20;

/// What is asked of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// Packets a second.
    Rate,
    /// Time of a packet.
    Latency,
    /// Hit rates of the NIC's writes.
    Hits,
}

impl AnswerKind {
    fn noun(self) -> &'static str {
        match self {
            AnswerKind::Rate => "rates",
            AnswerKind::Latency => "latency",
            AnswerKind::Hits => "DDIO hits",
        }
    }
}

/// How far predictions were from what servers did that share parts with this one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ModelError {
    /// What is asked.
    pub kind: AnswerKind,
    /// What those servers share with this one; empty where none was measured.
    pub shared: Vec<String>,
    /// Measurements, none of which anything was fitted on.
    pub rows: usize,
    /// Who measured.
    pub sources: usize,
    /// Nine in ten predictions, or all where there are fewer than 20, were above this: predicted over measured less 1; of hits the
    /// difference of shares. Null where none was measured.
    pub low: Option<f64>,
    /// They were below this.
    pub high: Option<f64>,
    /// Measurements beyond these ends, which are not told.
    pub beyond: usize,
}

/// A measurement that was predicted.
#[derive(Debug, Deserialize)]
struct Judged {
    source: String,
    /// Parts that a row does not name are null, and so is the limit of what is no run.
    core: Option<String>,
    nic: Option<String>,
    driver: Option<String>,
    kind: String,
    limit: Option<RateLimit>,
    /// In percent, or in percentage points.
    error: f64,
}

/// The shipped table, read anew for each verdict, which takes a tenth of a millisecond; a test reads all of it.
fn shipped() -> Vec<Judged> {
    serde_json::from_str(include_str!("../../../../presets/accuracy.json")).unwrap_or_default()
}

/// The parts of a server by which measured ones are alike.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeasuredParts<'a> {
    /// The processor or architecture that its core is from.
    pub core: Option<&'a str>,
    /// Its NIC.
    pub nic: Option<&'a str>,
    /// Its driver.
    pub driver: Option<&'a str>,
}

impl MeasuredParts<'_> {
    /// A core whose two numbers were changed is no longer that of its processor, nor a NIC that takes packets at another rate the shipped one.
    pub fn of(scenario: &Scenario) -> MeasuredParts<'_> {
        let (core, nic) = (&scenario.machine.core, &scenario.nic);
        let own = scenario.machine.processor.as_deref().and_then(core_of);
        let cycles = core.stalls(1).as_ns() * core.frequency.ghz();
        let is_own = |found: &ShippedCore| found.cpi == core.cpi && (found.stall - cycles).abs() < 0.5;
        let shipped = |name: &&str| nic_intervals(name) == Some((nic.packet_interval, nic.queue_interval));
        MeasuredParts {
            core: own.filter(is_own).map(|found| found.name),
            nic: nic.model.as_deref().filter(shipped),
            driver: nic.driver.preset.as_deref(),
        }
    }
}

/// The band of each kind of answer, for the rate of what holds it back.
pub fn model_errors(scenario: &Scenario, limit: RateLimit) -> Vec<ModelError> {
    errors(&shipped(), MeasuredParts::of(scenario), limit)
}

fn errors(rows: &[Judged], parts: MeasuredParts, limit: RateLimit) -> Vec<ModelError> {
    let MeasuredParts { core, nic, driver } = parts;
    let near = MeasuredParts { core, driver, nic: None };
    let of_core = MeasuredParts { core, ..MeasuredParts::default() };
    let of_driver = MeasuredParts { driver, ..MeasuredParts::default() };
    let of_nic = MeasuredParts { nic, ..MeasuredParts::default() };
    let (by, limits): (&[MeasuredParts], &[RateLimit]) = match limit {
        RateLimit::Nic | RateLimit::Pcie => (&[of_nic], &[RateLimit::Nic, RateLimit::Pcie]),
        RateLimit::Core => (&[near, of_core, of_driver], &[RateLimit::Core]),
        // No row was bound by DRAM or the IOMMU, and rings that overflow say nothing of a rate.
        RateLimit::Dram | RateLimit::Iommu | RateLimit::Gpu | RateLimit::Other => (&[], &[]),
    };
    let of_kind = |kind: &'static str| move |row: &&Judged| row.kind == kind;
    let bound = |row: &&Judged| row.limit.is_some_and(|limit| limits.contains(&limit));
    // Latencies of memory alone have no NIC.
    let of_packets = |row: &&Judged| row.nic.is_some();
    vec![
        band(AnswerKind::Rate, by, || rows.iter().filter(of_kind("rate")).filter(bound)),
        band(AnswerKind::Latency, &[near, of_nic, of_core], || {
            rows.iter().filter(of_kind("latency")).filter(of_packets)
        }),
        band(AnswerKind::Hits, &[of_core], || rows.iter().filter(of_kind("hits"))),
    ]
}

/// The band of the rows that share most: the first of `by` that enough rows have.
fn band<'a, I: Iterator<Item = &'a Judged>>(
    kind: AnswerKind,
    by: &[MeasuredParts],
    rows: impl Fn() -> I,
) -> ModelError {
    for parts in by {
        let found: Vec<&Judged> = rows().filter(|row| parts.are_those_of(row)).collect();
        if found.len() < LEAST_ROWS {
            continue;
        }
        let mut errors: Vec<f64> = found.iter().map(|row| row.error / 100.0).collect();
        errors.sort_by(f64::total_cmp);
        let cut = errors.len() / ROWS_AN_END;
        let mut sources: Vec<&str> = found.iter().map(|row| row.source.as_str()).collect();
        sources.sort_unstable();
        sources.dedup();
        return ModelError {
            kind,
            shared: parts.words(),
            rows: found.len(),
            sources: sources.len(),
            low: errors.get(cut).copied(),
            high: errors.get(errors.len() - 1 - cut).copied(),
            beyond: 2 * cut,
        };
    }
    ModelError { kind, shared: Vec::new(), rows: 0, sources: 0, low: None, high: None, beyond: 0 }
}

impl MeasuredParts<'_> {
    fn are_those_of(&self, row: &Judged) -> bool {
        let pairs = [(self.core, &row.core), (self.nic, &row.nic), (self.driver, &row.driver)];
        // A part that the server does not name is not shared, so that `near` without a driver is no nearer than `core`.
        pairs.iter().any(|(own, _)| own.is_some())
            && pairs.iter().all(|(own, of_row)| own.is_none() || *own == of_row.as_deref())
    }

    fn words(&self) -> Vec<String> {
        let named = [("core", self.core), ("NIC", self.nic), ("driver", self.driver)];
        named.into_iter().filter_map(|(noun, name)| Some(format!("{noun} {}", name?))).collect()
    }
}

impl ModelError {
    /// Both ends, where something was measured.
    pub fn ends(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// What it says in words.
    fn text(&self) -> String {
        let (Some(low), Some(high)) = (self.low, self.high) else {
            return format!("of {} no measured neighbour", self.kind.noun());
        };
        let unit = if self.kind == AnswerKind::Hits { "points" } else { "%" };
        let many = if self.beyond == 0 { "all" } else { "nine in ten" };
        format!(
            "{} {:+.0} to {:+.0} {unit} ({many} of {} rows of {} source{} with {})",
            self.kind.noun(),
            low * 100.0,
            high * 100.0,
            self.rows,
            self.sources,
            if self.sources == 1 { "" } else { "s" },
            self.shared.join(" and ")
        )
    }
}

/// All of them in a sentence.
pub fn model_error_text(errors: &[ModelError]) -> String {
    let (known, unknown): (Vec<&ModelError>, Vec<&ModelError>) = errors.iter().partition(|error| error.rows > 0);
    let nouns: Vec<&str> = unknown.iter().map(|error| error.kind.noun()).collect();
    let missing = format!("no measured neighbour for {}", nouns.join(", "));
    if known.is_empty() {
        return format!("Model's error: {missing}.");
    }
    let texts: Vec<String> = known.iter().map(|error| error.text()).collect();
    let rest = if unknown.is_empty() { String::new() } else { format!("; {missing}") };
    format!("Model's error on measured servers: {}{rest}.", texts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(core: Option<&str>, nic: &str, driver: &str, kind: &str, limit: RateLimit, error: f64) -> Judged {
        Judged {
            source: format!("by {nic}"),
            core: core.map(Into::into),
            nic: Some(nic.into()),
            driver: Some(driver.into()),
            kind: kind.into(),
            limit: Some(limit),
            error,
        }
    }

    fn parts<'a>(core: Option<&'a str>, nic: Option<&'a str>, driver: Option<&'a str>) -> MeasuredParts<'a> {
        MeasuredParts { core, nic, driver }
    }

    fn rate(rows: &[Judged], of: MeasuredParts, limit: RateLimit) -> ModelError {
        errors(rows, of, limit).remove(0)
    }

    #[test]
    fn the_shipped_table_is_read_whole_and_names_parts_that_are_shipped() {
        let told: Vec<serde_json::Value> =
            serde_json::from_str(include_str!("../../../../presets/accuracy.json")).unwrap();
        let rows = shipped();
        assert_eq!(rows.len(), told.len());
        assert!(rows.iter().any(|row| row.kind == "rate" && row.limit == Some(RateLimit::Core)));
        for row in &rows {
            let core = row.core.as_deref().map(|core| (core, core_of(core).map(|found| found.name)));
            assert!(core.is_none_or(|(core, found)| found == Some(core)), "{row:?}");
            assert!(row.error.is_finite());
        }
    }

    #[test]
    fn nine_in_ten_of_the_rows_that_share_most_make_the_band() {
        let mut rows: Vec<Judged> =
            (0..40).map(|n| row(Some("a"), "n", "d", "rate", RateLimit::Core, f64::from(n))).collect();
        let all = rate(&rows, parts(Some("a"), Some("n"), Some("d")), RateLimit::Core);
        // Two are left out at either end.
        assert_eq!((all.rows, all.sources, all.low, all.high), (40, 1, Some(0.02), Some(0.37)));
        assert_eq!(all.shared, ["core a", "driver d"]);
        // Those with the driver come before all with the core, unless there are too few.
        rows.extend((0..2).map(|_| row(Some("a"), "m", "e", "rate", RateLimit::Core, -90.0)));
        let few = rate(&rows, parts(Some("a"), None, Some("e")), RateLimit::Core);
        assert_eq!((few.rows, few.sources, few.shared), (42, 2, vec!["core a".to_string()]));
        rows.push(row(Some("a"), "m", "e", "rate", RateLimit::Core, -80.0));
        let enough = rate(&rows, parts(Some("a"), None, Some("e")), RateLimit::Core);
        assert_eq!((enough.rows, enough.low, enough.high), (3, Some(-0.9), Some(-0.8)));
    }

    #[test]
    fn what_holds_the_rate_back_says_who_is_a_neighbour() {
        let rows: Vec<Judged> = [RateLimit::Core, RateLimit::Nic]
            .into_iter()
            .flat_map(|limit| (0..3).map(move |_| row(Some("a"), "n", "d", "rate", limit, limit as u8 as f64)))
            .collect();
        let of = parts(Some("a"), Some("n"), None);
        assert_eq!(rate(&rows, of, RateLimit::Core).high, Some(0.0));
        let nic = rate(&rows, of, RateLimit::Pcie);
        assert_eq!((nic.high, nic.shared), (Some(0.01), vec!["NIC n".to_string()]));
        // Another core with another driver, and a core that was changed.
        for other in [parts(Some("b"), Some("n"), Some("e")), parts(None, Some("n"), None)] {
            let none = rate(&rows, other, RateLimit::Core);
            assert_eq!((none.rows, none.low, none.shared.len()), (0, None, 0));
        }
    }

    #[test]
    fn words_say_what_was_measured_and_what_was_not() {
        let rows: Vec<Judged> =
            (0..3).map(|n| row(Some("a"), "n", "d", "hits", RateLimit::Core, f64::from(-n))).collect();
        let known = model_error_text(&errors(&rows, parts(Some("a"), None, None), RateLimit::Core));
        let unknown = model_error_text(&errors(&rows, parts(None, None, None), RateLimit::Core));
        assert_eq!(
            [known, unknown],
            [
                "Model's error on measured servers: DDIO hits -2 to +0 points (all of 3 rows of 1 source with core a); no measured neighbour for \
                 rates, latency.",
                "Model's error: no measured neighbour for rates, latency, DDIO hits.",
            ]
        );
    }
}
