//! Two runs side by side, from their documents: what changed, and whether it is more than noise.

use serde_json::{Value, json};
use stats::{Comparison, Reason, paired, welch};

use crate::scenario::ScenarioError;

/// Metrics that are compared, their unit, where the document has them, and whether more is better.
const METRICS: [(&str, &str, &str, bool); 7] = [
    ("carried_mpps", "Mpps", "/carried_mpps", true),
    ("loss", "1", "/loss", false),
    ("mean", "ns", "/sojourn_ns/mean", false),
    ("p50", "ns", "/sojourn_ns/p50", false),
    ("p99", "ns", "/sojourn_ns/p99", false),
    ("p999", "ns", "/sojourn_ns/p999", false),
    ("dram_energy", "nJ", "/dram/energy_nj_per_packet", false),
];

/// Compares the documents of two runs (see [`crate::summary()`]): `wirespeed.compare/1`. A run that could not have lost a packet has
/// no loss.
///
/// Where both saw the same packets, batch `i` of one is paired with batch `i` of the other; else, and
/// where losses have shifted the batches, they are taken as independent (Welch). Quantiles have no
/// batches: the half-width of their difference comes from their intervals.
///
/// # Errors
/// A document that is not that of a run.
pub fn compare(a: &Value, b: &Value) -> Result<Value, ScenarioError> {
    for (side, document) in [("a", a), ("b", b)] {
        if document["schema"] != "wirespeed.run/1" {
            return Err(ScenarioError::Value {
                origin: side.into(),
                path: "schema".into(),
                message: format!("{}: a result of wirespeed.run/1 is wanted", document["schema"]),
            });
        }
    }
    let same = |at: &str| a.pointer(at).is_some() && a.pointer(at) == b.pointer(at);
    let identical = same("/traffic/id")
        && same("/packets")
        && a.pointer("/traffic/packets_in_file") == b.pointer("/traffic/packets_in_file");
    let mut metrics: Vec<Value> = METRICS
        .into_iter()
        // Energy of memory whose currents nobody knows is no metric.
        .filter(|(name, _, at, _)| {
            *name != "dram_energy" || [a, b].iter().all(|d| d.pointer(at).is_some_and(Value::is_number))
        })
        .map(|(name, unit, at, more)| {
            let values = [a, b].map(|d| d.pointer(at).filter(|_| name != "loss" || loss_is_known(d)));
            metric(name, unit, values, [a, b], identical, Some(more))
        })
        .collect();
    for reason in Reason::ALL {
        let value = |document: &'_ Value| document["attribution_ns"].get(reason.name()).cloned();
        let values = [value(a), value(b)];
        metrics.push(metric(reason.name(), "ns", [values[0].as_ref(), values[1].as_ref()], [a, b], identical, None));
    }
    let about = |document: &Value| json!({ "run_id": document["run_id"], "name": document["name"], "packets": document["packets"] });
    Ok(json!({
        "schema": "wirespeed.compare/1",
        "a": about(a),
        "b": about(b),
        "identical_traffic": identical,
        "metrics": metrics,
    }))
}

fn metric(
    name: &str,
    unit: &str,
    values: [Option<&Value>; 2],
    documents: [&Value; 2],
    identical: bool,
    more_is_better: Option<bool>,
) -> Value {
    let [a, b] = values.map(|v| v.and_then(Value::as_f64));
    let widths = [0, 1].map(|i| [a, b][i].and_then(|_| half_width(documents[i], name)));
    let difference = b.zip(a).map(|(b, a)| b - a);
    let (half_width, significant) = match batches(name, documents, identical) {
        // Batches are full ones only: the difference is that of all packets, its width theirs.
        Some(c) => (c.half_width, c.is_significant()),
        None => {
            let width = quantile_width(name, documents, difference.unwrap_or(0.0)).unwrap_or(f64::INFINITY);
            (width, difference.is_some_and(|d| d.abs() > width))
        }
    };
    let significant = significant && difference.is_some_and(|d| d != 0.0);
    let percent = |x: f64| a.filter(|a| *a != 0.0).map(|a| x / a.abs() * 100.0);
    json!({
        "metric": name,
        "unit": unit,
        "a": a,
        "b": b,
        "a_half_width": widths[0],
        "b_half_width": widths[1],
        "change_pct": difference.and_then(percent),
        "half_width_pct": difference.and(percent(half_width)),
        "significant": significant,
        "better": difference.filter(|d| *d != 0.0).and_then(|d| more_is_better.map(|more| (d > 0.0) == more)),
    })
}

/// Whether the run could have lost a packet; documents of before do not say.
fn loss_is_known(document: &Value) -> bool {
    document["verdict"]["loss_is_known"].as_bool().unwrap_or(true)
}

/// The half-width of the difference of two quantiles towards zero, from the ends of their intervals
/// that face each other (Zou and Donner, Statistics in Medicine 2008). A tail that is not bounded
/// above still tells that it is longer.
fn quantile_width(name: &str, documents: [&Value; 2], difference: f64) -> Option<f64> {
    let at = |document: &Value, end: &str| document["sojourn_ns"][format!("{name}{end}")].as_f64();
    let (less, more) = if difference < 0.0 { (documents[1], documents[0]) } else { (documents[0], documents[1]) };
    Some((at(less, "_high")? - at(less, "")?).hypot(at(more, "")? - at(more, "_low")?))
}

/// The comparison of batch means; `None` where a metric has none, or too few.
fn batches(name: &str, documents: [&Value; 2], identical: bool) -> Option<Comparison> {
    let (a, b) = match documents.map(|d| means(d, name)) {
        [Some(a), Some(b)] => (a, b),
        // A reason that a run never met has no means: all of them are zero.
        [None, Some(b)] if never_met(documents[0], name) => (vec![0.0; b.len()], b),
        [Some(a), None] if never_met(documents[1], name) => {
            let zeros = vec![0.0; a.len()];
            (a, zeros)
        }
        _ => return None,
    };
    // Batches are of packets carried: they hold the same packets only if both carried all of them.
    let aligned =
        identical && documents.iter().all(|d| d["lost"] == 0) && documents[0]["rejected"] == documents[1]["rejected"];
    let both =
        if aligned || (identical && matches!(name, "loss" | "carried_mpps")) { paired(&a, &b).ok() } else { None };
    both.or_else(|| welch(&a, &b).ok())
}

/// Whether `name` is a reason on which the run's packets spent no time.
fn never_met(document: &Value, name: &str) -> bool {
    document["attribution_ns"].is_object() && document["attribution_ns"][name].as_f64().unwrap_or(0.0) == 0.0
}

fn means(document: &Value, name: &str) -> Option<Vec<f64>> {
    document["batches"].get(name)?.as_array()?.iter().map(Value::as_f64).collect()
}

/// The half-width of a metric in its own run.
fn half_width(document: &Value, name: &str) -> Option<f64> {
    match name {
        "loss" => document["loss_half_width"].as_f64(),
        "mean" => document["sojourn_ns"]["half_width"].as_f64(),
        "p50" | "p99" | "p999" => document["sojourn_ns"][format!("{name}_half_width")].as_f64(),
        _ => {
            let means = means(document, name)?;
            // Against nothing, Welch's half-width is that of the mean alone.
            welch(&vec![0.0; means.len()], &means).ok().map(|c| c.half_width).filter(|w| w.is_finite())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(p99: f64, means: &[f64]) -> Value {
        json!({
            "schema": "wirespeed.run/1", "run_id": "r", "name": "n", "packets": 1000, "lost": 0, "rejected": 0,
            "carried_mpps": 1.0, "loss": 0.0,
            "sojourn_ns": { "mean": means.iter().sum::<f64>() / means.len() as f64, "p99": p99, "p99_half_width": 3.0,
                "p99_low": p99 - 3.0, "p99_high": p99 + 3.0 },
            "attribution_ns": { "ring": 5.0 },
            "traffic": { "id": "same" },
            "batches": { "mean": means },
        })
    }

    fn of<'a>(document: &'a Value, name: &str) -> &'a Value {
        document["metrics"].as_array().unwrap().iter().find(|m| m["metric"] == name).unwrap()
    }

    #[test]
    fn equal_runs_do_not_differ() {
        let a = run(100.0, &[1.0, 2.0, 3.0]);
        let out = compare(&a, &a).unwrap();
        assert_eq!(out["identical_traffic"], true);
        for metric in out["metrics"].as_array().unwrap() {
            assert_eq!((&metric["significant"], metric["change_pct"].as_f64().unwrap_or(0.0)), (&json!(false), 0.0));
        }
    }

    #[test]
    fn paired_batches_find_a_small_shift_and_quantiles_their_half_widths() {
        let (a, b) = (run(100.0, &[10.0, 20.0, 30.0]), run(106.0, &[10.9, 21.0, 31.1]));
        let out = compare(&a, &b).unwrap();
        let (mean, p99) = (of(&out, "mean"), of(&out, "p99"));
        assert_eq!((&mean["significant"], &mean["better"]), (&json!(true), &json!(false)));
        assert_eq!(p99["significant"], true);
        assert!((p99["half_width_pct"].as_f64().unwrap() - 18f64.sqrt()).abs() < 1e-9);
        assert_eq!(of(&compare(&a, &run(104.0, &[1.0])).unwrap(), "p99")["significant"], false);
    }

    #[test]
    fn a_reason_that_only_one_run_meets_is_a_difference() {
        let [mut a, mut b] = [(); 2].map(|()| run(100.0, &[1.0, 2.0, 3.0]));
        a["attribution_ns"]["copy"] = json!(0.0);
        b["attribution_ns"]["copy"] = json!(60.0);
        b["batches"]["copy"] = json!([59.0, 60.0, 61.0]);
        for documents in [[&a, &b], [&b, &a]] {
            assert_eq!(of(&compare(documents[0], documents[1]).unwrap(), "copy")["significant"], true);
        }
    }

    #[test]
    fn a_tail_without_an_upper_bound_can_still_be_longer() {
        let (a, mut b) = (run(100.0, &[1.0, 2.0]), run(110.0, &[1.0, 2.0]));
        b["sojourn_ns"]["p99_high"] = Value::Null;
        assert_eq!(of(&compare(&a, &b).unwrap(), "p99")["significant"], true);
        assert_eq!(of(&compare(&b, &a).unwrap(), "p99")["significant"], true);
        b["sojourn_ns"]["p99"] = json!(90.0);
        assert_eq!(of(&compare(&a, &b).unwrap(), "p99")["significant"], false);
    }

    #[test]
    fn a_run_that_could_not_lose_a_packet_has_no_loss() {
        let (a, mut b) = (run(100.0, &[1.0, 2.0]), run(110.0, &[1.0, 2.0]));
        b["verdict"] = json!({ "status": "nothing", "loss_is_known": false });
        let out = compare(&a, &b).unwrap();
        let loss = of(&out, "loss");
        assert_eq!((&loss["a"], &loss["b"], &loss["significant"]), (&json!(0.0), &Value::Null, &json!(false)));
        assert_eq!(
            (&loss["b_half_width"], &loss["change_pct"], &loss["better"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
        assert_eq!(of(&out, "p99")["b"], 110.0);
        assert_eq!(out["b"]["packets"], 1000);
    }

    #[test]
    fn what_is_not_a_run_is_refused() {
        assert!(compare(&json!({}), &json!({})).unwrap_err().to_string().contains("wirespeed.run/1"));
    }
}
