//! Classes of service in the LLC: their ways at the start, and what each did.

use machine::MachineError;
use machine::memory::{ClassCounters, Hierarchy, LevelCounters};
use serde_json::{Value, json};
use units::{Clos, LINE_BYTES};

use crate::scenario::clos::{CLASSES, Classes, ClosSpec, number};

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
