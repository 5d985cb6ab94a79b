//! Classes of service of the LLC as a person sets them: which ways a class may fill, and which cores and programs are in it,
//! as `pqos -e` and `-a` do.
//!
//! Packet cores that no class names are in class 1, or in class 2 where they work on what others have received; neighbours
//! are in class 0, and so is whoever is in a class that was given no ways. A mask limits fills; hits are anywhere. Left
//! out: memory bandwidth of a class (MBA), and classes that change while packets go through, which is what `policy` does.

use std::collections::BTreeMap;

use machine::MachineError;
use machine::memory::{ClassCounters, Hierarchy, LevelCounters, Ways};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use units::{Clos, LINE_BYTES};

use crate::neighbours::NeighbourSpec;
use crate::scenario::Scenario;

/// A class of service of the LLC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClosSpec {
    /// The ways that it may fill: how many, from the lowest on, or which, as text ("0xf0") of bits that are contiguous.
    pub ways: Ways,
    /// Packet cores that are in it, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<u32>,
    /// Neighbours that are in it, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<String>,
}

/// Classes that resctrl and `pqos` tell apart on today's processors.
pub(crate) const CLASSES: usize = 16;

/// All classes by number, as `machine.clos` has them.
pub type Classes = BTreeMap<String, ClosSpec>;

fn number(key: &str) -> Option<u8> {
    // Written otherwise (`01`, `+1`) it would be a class twice.
    key.parse().ok().filter(|clos: &u8| usize::from(*clos) < CLASSES && clos.to_string() == key)
}

/// Checks `machine.clos` of a scenario; what is wrong begins with its path.
pub(crate) fn check(scenario: &Scenario) -> Result<(), (String, String)> {
    let classes = &scenario.machine.clos;
    if !classes.is_empty() && scenario.policy.is_some() {
        let message = "with policy: allowed is one of them (the policy sets the ways of all classes; remove the other)";
        return Err(("machine.clos".into(), message.into()));
    }
    let mut of_core = BTreeMap::new();
    let mut of_neighbour = BTreeMap::new();
    for (key, class) in classes {
        let path = format!("machine.clos.{key}");
        if number(key).is_none() {
            return Err((path, format!("allowed are classes 0 to {}", CLASSES - 1)));
        }
        for &core in &class.cores {
            if core >= scenario.machine.cores {
                let allowed = format!("{core}: allowed are cores 0 to {} (machine.cores)", scenario.machine.cores - 1);
                return Err((format!("{path}.cores"), allowed));
            }
            if let Some(other) = of_core.insert(core, key) {
                return Err((
                    format!("{path}.cores"),
                    format!("core {core} is in class {other}, too: allowed is one class"),
                ));
            }
        }
        for name in &class.neighbours {
            if !scenario.neighbours.iter().any(|n| n.name == *name) {
                let names: Vec<&str> = scenario.neighbours.iter().map(|n| n.name.as_str()).collect();
                let allowed =
                    if names.is_empty() { "none, as there are no neighbours".into() } else { names.join(", ") };
                return Err((format!("{path}.neighbours"), format!("{name:?}: allowed are {allowed}")));
            }
            if let Some(other) = of_neighbour.insert(name, key) {
                let message = format!("{name:?} is in class {other}, too: allowed is one class");
                return Err((format!("{path}.neighbours"), message));
            }
        }
    }
    if classes.contains_key("0") && scenario.machine.llc.core_ways.is_some() {
        let message =
            "with machine.llc.core_ways, which are the ways of class 0: allowed is one of them (remove the other)";
        return Err(("machine.clos.0".into(), message.into()));
    }
    Ok(())
}

/// Gives the classes their ways.
///
/// # Errors
/// Ways that the LLC has not, none, or a mask that is not contiguous.
pub(crate) fn apply(classes: &Classes, memory: &mut Hierarchy) -> Result<(), MachineError> {
    for (key, class) in classes {
        if let Some(clos) = number(key) {
            let ways = class.ways.lowest(&format!("machine.clos.{key}.ways"), memory.llc_ways())?;
            memory.set_class_ways(Clos(clos), ways)?;
        }
    }
    Ok(())
}

/// The class that names a packet core.
pub(crate) fn of_core(classes: &Classes, core: u32) -> Option<Clos> {
    let (key, _) = classes.iter().find(|(_, class)| class.cores.contains(&core))?;
    number(key).map(Clos)
}

/// The class of a neighbour.
pub(crate) fn of_neighbour(classes: &Classes, neighbour: &NeighbourSpec) -> Clos {
    let named = classes.iter().find(|(_, class)| class.neighbours.contains(&neighbour.name));
    Clos(named.and_then(|(key, _)| number(key)).unwrap_or(0))
}

/// What every class has done up to now, and has.
pub(crate) fn counters(memory: &Hierarchy) -> [ClassCounters; CLASSES] {
    std::array::from_fn(|clos| memory.class(Clos(clos as u8)))
}

/// What was done between two looks, and is had at the second.
pub(crate) fn between(from: &[ClassCounters; CLASSES], to: &[ClassCounters; CLASSES]) -> [ClassCounters; CLASSES] {
    std::array::from_fn(|clos| ClassCounters { llc: to[clos].llc - from[clos].llc, lines: to[clos].lines })
}

/// For the summary: each class that was set, null where none was.
pub(crate) fn summary(classes: &Classes, llc_ways: u32, found: &[ClassCounters; CLASSES]) -> Value {
    if classes.is_empty() {
        return Value::Null;
    }
    let one = |(key, class): (&String, &ClosSpec)| {
        let clos = number(key)?;
        let ClassCounters { llc: LevelCounters { hits, misses }, lines } = found[usize::from(clos)];
        let lookups = hits + misses;
        Some(json!({
            "clos": clos,
            "ways": class.ways.lowest(key, llc_ways).ok().map(|mask| mask.0),
            "cores": class.cores,
            "neighbours": class.neighbours,
            "llc_lookups": lookups,
            "llc_miss_rate": (lookups > 0).then(|| misses as f64 / lookups as f64),
            "llc_bytes": lines * LINE_BYTES,
        }))
    };
    // By number: 10 comes behind 2.
    let mut sorted: Vec<_> = classes.iter().collect();
    sorted.sort_by_key(|(key, _)| number(key));
    sorted.into_iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Overrides;

    fn read(set: &[&str]) -> Result<Scenario, String> {
        let set = set.iter().map(|s| s.to_string()).collect();
        Scenario::read("", "t", &Overrides { set, ..Overrides::default() }).map_err(|e| e.to_string())
    }

    #[test]
    fn classes_that_cannot_be_are_refused() {
        let tenant = "neighbours=[{name=\"tenant\", working_set=\"8 MiB\"}]";
        read(&[tenant, "machine.cores=4", "machine.clos.2={ways=\"0b11\", cores=[2, 3], neighbours=[\"tenant\"]}"])
            .unwrap();
        for (set, expected) in [
            (&["machine.clos.16.ways=1"][..], "machine.clos.16: allowed are classes 0 to 15"),
            (&["machine.clos.01.ways=1"], "machine.clos.01: allowed are classes 0 to 15"),
            (&["machine.clos.x.ways=1"], "machine.clos.x: allowed are classes 0 to 15"),
            (&["machine.clos.2={ways=1, cores=[99]}"], "machine.clos.2.cores: 99: allowed are cores 0 to "),
            (
                &["machine.clos={2={ways=1, cores=[0]}, 3={ways=2, cores=[0]}}"],
                "machine.clos.3.cores: core 0 is in class 2, too: allowed is one class",
            ),
            (
                &["machine.clos.2={ways=1, neighbours=[\"x\"]}"],
                "machine.clos.2.neighbours: \"x\": allowed are none, as there are no neighbours",
            ),
            (&["machine.clos.1.ways=1", "policy={}"], "machine.clos: with policy: allowed is one of them"),
            (
                &["machine.clos.0.ways=1", "machine.llc.core_ways=3"],
                "machine.clos.0: with machine.llc.core_ways, which are the ways of class 0",
            ),
        ] {
            let error = read(set).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
