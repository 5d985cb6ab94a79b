//! Classes of service in the LLC: their ways at the start, and what each did.

use machine::MachineError;
use machine::memory::{ClassCounters, Hierarchy};
use units::Clos;

use crate::scenario::clos::{CLASSES, ClosSpecs, number};

/// Gives the classes their ways.
///
/// # Errors
/// Ways that the LLC has not, none, or a mask that is not contiguous.
pub(crate) fn apply(classes: &ClosSpecs, memory: &mut Hierarchy) -> Result<(), MachineError> {
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
