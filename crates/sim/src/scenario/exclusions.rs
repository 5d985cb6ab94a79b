//! Which settings a scenario may not have together, and why: the one place that says so. The memory system's rows are its own, since
//! it refuses them without a scenario, too.
//!
//! A row is data: the walk over a scenario, its message, `advise` and the page of all rows read the same. What needs a third setting,
//! or a number, is no row, and is checked where that is known.

use machine::memory::{EXCLUSIONS, ExcludedSetting, Exclusion, ExclusionKind};
use serde_json::Value;

use super::error::ScenarioFaults;
use super::spec::Scenario;

const fn given(path: &'static str) -> ExcludedSetting {
    ExcludedSetting::given(path)
}

const LOAD: ExcludedSetting = given("traffic.load");
const RATE: ExcludedSetting = given("traffic.rate");
const PACKET_RATE: ExcludedSetting = given("traffic.packet_rate");
const SPEED: ExcludedSetting = given("traffic.speed");
pub(super) const CAPTURE: ExcludedSetting = given("traffic.capture");
const COPY: ExcludedSetting = given("function.copy");
const SOCKET: ExcludedSetting = given("function.socket");
const BUFFER: ExcludedSetting = given("buffer");
const GPU: ExcludedSetting = given("machine.gpu");
const PAYLOAD_MEMORY: ExcludedSetting = given("nic.payload_memory");
const DROP_DEAD: ExcludedSetting = ExcludedSetting::of("nic.drop_dead", &["true"]);
const UNMAPS: ExcludedSetting = ExcludedSetting::of("machine.iommu.mode", &["strict", "lazy"]);
pub(super) const NOT_FORWARDING: ExcludedSetting = ExcludedSetting::of(
    "function.kind",
    &[
        "upf", "check", "classify", "lookup", "ttl", "fragment", "inspect", "nat", "firewall", "work", "trace",
        "program", "chain",
    ],
);
/// Functions whose lanes would share what they write.
pub(super) const NOT_FOR_WARPS: ExcludedSetting =
    ExcludedSetting::of("function.kind", &["upf", "nat", "firewall", "work", "trace", "program"]);
/// What is said of them.
pub(super) const NO_FORM_FOR_A_WARP: (&str, &str) = (
    "it has no form for a warp, whose lanes share nothing that they write",
    "take forward, check, classify, lookup, ttl, fragment, inspect or a chain of them; or leave machine.gpu out, or have cores do it: \
     machine.gpu.functions",
);

const fn one_rate(one: ExcludedSetting, other: ExcludedSetting) -> Exclusion {
    alternatives(one, other, "each says how much traffic there is")
}

const fn of_a_capture(one: &'static str) -> Exclusion {
    alternatives(given(one), CAPTURE, "a capture brings its own packets")
}

const fn alternatives(one: ExcludedSetting, other: ExcludedSetting, reason: &'static str) -> Exclusion {
    Exclusion { one, other, kind: ExclusionKind::Alternatives, reason, remedy: "remove the other" }
}

const fn limit(one: ExcludedSetting, other: ExcludedSetting, reason: &'static str, remedy: &'static str) -> Exclusion {
    Exclusion { one, other, kind: ExclusionKind::Limit, reason, remedy }
}

const fn physical(
    one: ExcludedSetting,
    other: ExcludedSetting,
    reason: &'static str,
    remedy: &'static str,
) -> Exclusion {
    Exclusion { one, other, kind: ExclusionKind::Physical, reason, remedy }
}

const WITHOUT_BUFFER: &str = "leave buffer out";
const WITHOUT_ONE: &str = "leave one of them out";

/// What is not the memory system's alone.
const OWN: [Exclusion; 30] = [
    one_rate(LOAD, RATE),
    one_rate(LOAD, PACKET_RATE),
    one_rate(LOAD, SPEED),
    one_rate(RATE, PACKET_RATE),
    one_rate(RATE, SPEED),
    one_rate(PACKET_RATE, SPEED),
    of_a_capture("traffic.profile"),
    of_a_capture("traffic.sizes"),
    of_a_capture("traffic.mix"),
    of_a_capture("traffic.flows"),
    of_a_capture("traffic.payload"),
    of_a_capture("traffic.phases"),
    alternatives(COPY, SOCKET, "each hands a copy of all packets over"),
    limit(COPY, NOT_FORWARDING, "it goes with forwarding only", "remove it, or function.kind"),
    limit(SOCKET, NOT_FORWARDING, "it goes with forwarding only", "remove it, or function.kind"),
    alternatives(given("machine.clos"), given("policy"), "the policy sets the ways of all classes"),
    alternatives(given("machine.clos.0"), given("machine.llc.core_ways"), "both are the ways of class 0"),
    limit(
        given("run.trace"),
        given("run.sampling"),
        "packets between windows have no times to tell of",
        "leave one of both out",
    ),
    physical(given("mempool.start"), BUFFER, "packets begin in cells of a packet buffer", WITHOUT_BUFFER),
    physical(
        given("mempool.start.near_slice"),
        ExcludedSetting::of("nic.rings", &["shared", "bisected"]),
        "who posts a buffer does not know which core gets it",
        "nic.rings = \"private\"",
    ),
    limit(UNMAPS, BUFFER, "cells of a packet buffer stay mapped", "take mode = \"on\", or leave buffer out"),
    limit(PAYLOAD_MEMORY, BUFFER, "cells of a packet buffer hold whole packets", WITHOUT_BUFFER),
    physical(
        given("nic.elastic"),
        BUFFER,
        "a packet gets its cells as it arrives, and would hold them while it waits in the NIC",
        WITHOUT_BUFFER,
    ),
    physical(
        DROP_DEAD,
        BUFFER,
        "the NIC gives cells of a packet buffer back once it has read them, and another packet may be there before a core gives up \
         their lines",
        WITHOUT_BUFFER,
    ),
    physical(
        PAYLOAD_MEMORY,
        GPU,
        "a GPU reads frames in memory, and payload that stays in the NIC is not there",
        WITHOUT_ONE,
    ),
    limit(
        DROP_DEAD,
        GPU,
        "a core gives up lines of packets that its burst ends, and a GPU's packets end in another",
        WITHOUT_ONE,
    ),
    limit(
        UNMAPS,
        ExcludedSetting::of("machine.gpu.attached", &["discrete"]),
        "a core unmaps a packet when it receives it, and a copy to the GPU needs it mapped",
        "take mode = \"on\", or an integrated GPU",
    ),
    physical(
        ExcludedSetting::of("machine.gpu.posting", &["persistent"]),
        ExcludedSetting::of("machine.gpu.coherent", &["false"]),
        "warps that poll for tasks see a core's store only where their L2 is coherent",
        "set machine.gpu.posting to batches, or leave machine.gpu.coherent out",
    ),
    limit(SOCKET, GPU, "copies of packets have no form for a warp", WITHOUT_ONE),
    limit(NOT_FOR_WARPS, GPU, NO_FORM_FOR_A_WARP.0, NO_FORM_FOR_A_WARP.1),
];

/// Every pair, the memory system's first.
pub(super) fn all() -> impl Iterator<Item = Exclusion> {
    EXCLUSIONS.into_iter().chain(OWN)
}

/// A setting that a scenario has: its path, and its value where that matters.
struct FoundSetting {
    path: String,
    value: Option<String>,
}

impl FoundSetting {
    /// What `scenario` has of `setting`, if it excludes anything.
    fn of(setting: &ExcludedSetting, scenario: &Value) -> Option<FoundSetting> {
        let keys: Vec<&str> = setting.path.split('.').collect();
        find(&keys, scenario, String::new(), setting.is)
    }
}

fn find(keys: &[&str], at: &Value, path: String, is: &[&str]) -> Option<FoundSetting> {
    let Some((key, rest)) = keys.split_first() else {
        if is.is_empty() {
            return (!at.is_null()).then_some(FoundSetting { path, value: None });
        }
        let value = at.as_str().map_or_else(|| at.to_string(), String::from);
        return is.contains(&value.as_str()).then_some(FoundSetting { path, value: Some(value) });
    };
    let below = |name: &str, value: &Value| {
        let path = if path.is_empty() { name.into() } else { format!("{path}.{name}") };
        find(rest, value, path, is)
    };
    let table = at.as_object()?;
    match *key {
        "*" => table.iter().find_map(|(name, value)| below(name, value)),
        name => below(name, table.get(name)?),
    }
}

impl Scenario {
    /// Every pair of settings that a scenario may not have together, as JSON: a list of `one` and `other`, each with the `path` of a
    /// setting and, where not all its values exclude the other, those that do (`is`); the `kind` of reason (`physical`,
    /// `alternatives`, `limit`), the `reason` and the `remedy`. In a path `*` stands for any name.
    pub fn exclusions() -> String {
        serde_json::json!(all().collect::<Vec<_>>()).to_string()
    }

    /// Tells of every pair that the scenario has.
    pub(super) fn check_pairs(&self, found: &mut ScenarioFaults) {
        let scenario = match serde_json::to_value(self) {
            Ok(scenario) => scenario,
            // Nothing of it can be said to go together.
            Err(e) => return found.add("scenario", format!("cannot be written as JSON: {e} (report it)")),
        };
        for Exclusion { one, other, reason, remedy, .. } in all() {
            if let Some(one) = FoundSetting::of(&one, &scenario)
                && let Some(other) = FoundSetting::of(&other, &scenario)
            {
                let came = one.value.as_deref().unwrap_or("given");
                let other = other.path + &other.value.map_or_else(String::new, |value| format!(" = {value}"));
                let message = format!("{came} with {other}: allowed is one of them: {reason} ({remedy})");
                found.add(one.path, message);
            }
        }
    }
}
