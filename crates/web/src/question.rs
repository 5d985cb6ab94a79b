//! What a page may ask, and the answers.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use sim::load::load;
use sim::run::predict::Profile;
use sim::scenario::{Holders, KINDS};
use sim::{Near, Overrides, Progress, RunOptions, Scenario, ScenarioError, Stock};

use crate::page;

/// The commit of this build.
const COMMIT: &str = match option_env!("WIRESPEED_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// What is kept between questions.
#[derive(Default)]
pub struct Desk {
    stock: Arc<Stock>,
    /// The scenario that machines of runs begin near, as its text.
    near: Option<(String, Near)>,
    profiles: Vec<Profile>,
}

/// A question.
#[derive(Deserialize)]
#[serde(tag = "what", rename_all = "snake_case", deny_unknown_fields)]
enum Question {
    /// What this is: version and commit.
    About,
    /// What is shipped: kind, name, title and text of each file.
    Presets,
    /// Pairs of settings that cannot be on one machine.
    Exclusions,
    /// What the time of packets is charged to, each with what of the machine that is.
    Reasons,
    /// Settings that may name files.
    FileSettings,
    /// A scenario with everything filled in.
    Scenario {
        text: String,
        origin: String,
        #[serde(default)]
        set: Vec<String>,
        capture: Option<PathBuf>,
        table: Option<PathBuf>,
        seed: Option<u64>,
    },
    /// Measures what packets take on a resolved scenario's machine: the number of a profile.
    Profile { scenario: String },
    /// Predicts by a profile, under its own load or a share of the line rate.
    Predict { profile: usize, load: Option<f64> },
    /// Runs resolved scenarios, near the machine of another where one is given.
    Run {
        scenarios: Vec<String>,
        near: Option<String>,
        #[serde(default)]
        same_packets: bool,
    },
    /// Mbufs of a pool that no driver ever finds empty; null where there are more than numbers.
    PoolOf {
        cores: u32,
        receiving: u32,
        ports: u32,
        rx_descriptors: u32,
        tx_descriptors: u32,
        burst: u32,
        cache: u32,
        queue: u32,
        rings: Option<u32>,
        #[serde(default)]
        arrivals: u32,
    },
    /// Two summaries side by side.
    Compare { a: Value, b: Value },
}

/// Why there is no answer: what kind of error, and its words.
struct Refusal(&'static str, String);

impl From<ScenarioError> for Refusal {
    fn from(error: ScenarioError) -> Refusal {
        Refusal(if matches!(error, ScenarioError::Stopped { .. }) { "stopped" } else { "input" }, error.to_string())
    }
}

/// The answer to a question in JSON: `ok`, or `error` with its kind.
pub(crate) fn answer(desk: &mut Desk, question: &[u8]) -> Value {
    let read = serde_json::from_slice(question).map_err(|e| Refusal("question", e.to_string()));
    match read.and_then(|question| found(desk, question)) {
        Ok(found) => json!({ "ok": found }),
        Err(Refusal(kind, words)) => json!({ "error": { "kind": kind, "words": words } }),
    }
}

fn found(desk: &mut Desk, question: Question) -> Result<Value, Refusal> {
    Ok(match question {
        Question::About => json!({ "version": sim::answer::summary::VERSION, "commit": COMMIT }),
        Question::Presets => presets(),
        Question::Exclusions => json!(Scenario::exclusions()),
        Question::Reasons => json!(sim::answer::summary::reasons()),
        Question::FileSettings => sim::scenario::files::FILES.iter().map(|setting| setting.path).collect(),
        Question::Scenario { text, origin, set, capture, table, seed } => {
            let overrides = Overrides { set, capture, table, seed, search: None };
            json!(Scenario::read(&text, &origin, &overrides)?.to_toml())
        }
        Question::Profile { scenario } => {
            let scenario = resolved(&scenario)?;
            let loaded = load(std::slice::from_ref(&scenario), &desk.stock, &mut |_| true)?;
            let loaded = loaded.first().ok_or_else(|| Refusal("stopped", "loading".into()))?;
            desk.profiles.push(Profile::new(&scenario, loaded)?);
            json!(desk.profiles.len() - 1)
        }
        Question::Predict { profile, load } => {
            let there = || format!("profile {profile}: there are {}", desk.profiles.len());
            desk.profiles.get(profile).ok_or_else(|| Refusal("question", there()))?.predict(load)?
        }
        Question::Run { scenarios, near, same_packets } => run(desk, &scenarios, near, same_packets)?,
        Question::PoolOf {
            cores,
            receiving,
            ports,
            rx_descriptors,
            tx_descriptors,
            burst,
            cache,
            queue,
            rings,
            arrivals,
        } => {
            let rings = rings.unwrap_or(receiving);
            let offloaded = 0;
            let holders = Holders {
                cores,
                receiving,
                rings,
                ports,
                rx_descriptors,
                arrivals,
                tx_descriptors,
                burst,
                cache,
                queue,
                offloaded,
            };
            json!(holders.pool())
        }
        Question::Compare { a, b } => sim::compare(&a, &b)?,
    })
}

fn resolved(text: &str) -> Result<Scenario, ScenarioError> {
    let none = Overrides { set: Vec::new(), capture: None, table: None, seed: None, search: None };
    Scenario::read(text, "scenario", &none)
}

fn presets() -> Value {
    let title = |text: &str| text.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']).to_string();
    let parts =
        KINDS.iter().flat_map(|(kind, list)| list.iter().map(|p| (*kind, p.name, p.title().to_string(), p.text)));
    let traffic = traffic::SHIPPED_PROFILES.iter().map(|(name, text)| ("traffic", *name, title(text), *text));
    parts.chain(traffic).map(|(kind, name, title, text)| json!([kind, name, title, text])).collect()
}

fn run(desk: &mut Desk, scenarios: &[String], near: Option<String>, same_packets: bool) -> Result<Value, Refusal> {
    let scenarios: Vec<Scenario> = scenarios.iter().map(|text| resolved(text)).collect::<Result<_, _>>()?;
    if let Some(text) = near.as_ref().filter(|text| desk.near.as_ref().is_none_or(|(known, _)| known != *text)) {
        desk.near = Some((text.clone(), Near::new(resolved(text)?)));
    }
    // A question near no machine begins cold, whatever was asked before.
    let near = near.and(desk.near.as_ref()).map(|(_, near)| near);
    let options = RunOptions { threads: 1, same_packets, ..RunOptions::default() };
    let mut tell = |progress: &Progress| {
        page::begins(if progress.note.is_empty() { &progress.phase } else { &progress.note });
        true
    };
    let results = sim::run_heard(&desk.stock, near, &scenarios, options, page::heard, &mut tell)?;
    Ok(results
        .into_iter()
        .map(|mut result| {
            let lives = result.measured.lives.take();
            let mut summary = sim::summary(&result, COMMIT);
            // There is no clock here: who asked measures.
            #[cfg(target_family = "wasm")]
            for name in ["wall_s", "load_s", "packets_per_wall_s"] {
                summary[name] = Value::Null;
            }
            let lives = lives.map(|lives| json!(lives));
            json!({ "summary": summary.take(), "resolved": result.scenario.to_toml(), "partial": result.partial, "lives": lives })
        })
        .collect())
}
