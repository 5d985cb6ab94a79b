//! Whose lines are whose: what a scenario's names of memory stand for, and what was done for those who own it.

use std::ops::Range;

use engine::Seed;
use machine::memory::{ApplicationCounters, ApplicationState, Hierarchy};
use machine::nic::{NEIGHBOURS, ServerLayout};
use probe::{RegionSpec, Sharing};
use units::LINE_BYTES;

use crate::scenario::neighbours;
use crate::scenario::{Scenario, ScenarioError, known};

/// All memory of the packet function.
const TABLES: &str = "tables";
/// All memory of neighbours.
const ALL_NEIGHBOURS: &str = "neighbours";

/// Bytes of memory in which lines may be placed.
const MOST_PLACED: u64 = 1 << 37;

/// Tells `memory` whose lines are whose and what lies in stacked DRAM. `tables` are the packet function's regions.
///
/// # Errors
/// A name that stands for nothing; what [`Hierarchy::tell_apart`] and [`Hierarchy::put_into_stack`] find.
pub(crate) fn tell(
    memory: &mut Hierarchy,
    scenario: &Scenario,
    layout: &ServerLayout,
    tables: &[RegionSpec],
    seed: Seed,
) -> Result<(), ScenarioError> {
    let machine = &scenario.machine;
    // A placed line is known by 31 bits of its number.
    if layout.bytes() > MOST_PLACED
        && let Some((name, _)) = machine.applications.iter().find(|(_, spec)| spec.slices.is_some())
    {
        let has = units::Size::from_bytes(layout.bytes());
        return Err(ScenarioError::Value {
            origin: "scenario".into(),
            path: format!("machine.applications.{name}.slices"),
            message: format!(
                "with {has} of memory: allowed are up to {} (have fewer neighbours or smaller tables and pools)",
                units::Size::from_bytes(MOST_PLACED)
            ),
        });
    }
    let lines_of = |name: &str, path: String| lines(name, path, scenario, layout, tables);
    let ranges = machine.applications.keys().map(|name| lines_of(name, "machine.applications".into()));
    let ranges = ranges.collect::<Result<Vec<_>, _>>()?;
    let applications: Vec<_> = machine.applications.iter().map(|(name, spec)| (name.as_str(), spec)).collect();
    memory.tell_apart(&applications, &ranges, "machine.applications")?;
    if let Some(stacked) = &machine.stacked {
        let held = stacked.holds.iter().enumerate();
        let ranges = held.map(|(n, name)| lines_of(name, format!("machine.stacked.holds[{n}]")));
        let ranges = ranges.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        memory.put_into_stack(stacked, ranges, seed, "machine.stacked")?;
    }
    Ok(())
}

/// The lines that `name` stands for.
fn lines(
    name: &str,
    path: String,
    scenario: &Scenario,
    layout: &ServerLayout,
    tables: &[RegionSpec],
) -> Result<Vec<Range<u64>>, ScenarioError> {
    let of_region = |region: &RegionSpec| {
        let copies = if region.sharing == Sharing::PerCore { scenario.machine.cores } else { 1 };
        let first = layout.address(region.id, 0, 0).0;
        let last = layout.address(region.id, 0, copies.saturating_sub(1) as u16).0;
        first / LINE_BYTES..(last + region.bytes.max(1)).div_ceil(LINE_BYTES)
    };
    let found: Vec<Range<u64>> = if name == TABLES {
        join(tables.iter().map(of_region).collect())
    } else {
        let from = |offset: Range<u64>| {
            let base = layout.address(NEIGHBOURS, 0, 0).0 / LINE_BYTES;
            base + offset.start..base + offset.end
        };
        let whose = neighbours::lines_of_all(&scenario.neighbours);
        let theirs = scenario.neighbours.iter().zip(whose).filter(|(n, _)| name == ALL_NEIGHBOURS || n.name == name);
        let theirs = theirs.filter(|(_, lines)| !lines.is_empty());
        let theirs: Vec<_> = theirs.map(|(_, lines)| from(lines)).collect();
        if theirs.is_empty() { tables.iter().filter(|r| r.name == name).map(of_region).collect() } else { join(theirs) }
    };
    if found.is_empty() {
        let mut names = vec![TABLES];
        names.extend(tables.iter().map(|r| r.name.as_str()));
        if !scenario.neighbours.is_empty() {
            names.push(ALL_NEIGHBOURS);
            names.extend(scenario.neighbours.iter().map(|n| n.name.as_str()));
        }
        names.dedup();
        return Err(ScenarioError::Value {
            origin: "scenario".into(),
            path,
            message: format!("{name:?}: no such memory: {}", known(&names, name)),
        });
    }
    Ok(found)
}

/// Ranges that touch become one.
fn join(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            // Regions begin on pages, and nothing else lies between two of them.
            Some(last) if range.start <= last.end.next_multiple_of(PAGE_LINES) => last.end = range.end.max(last.end),
            _ => joined.push(range),
        }
    }
    joined
}

const PAGE_LINES: u64 = 4096 / LINE_BYTES;

/// An application over the measured part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ApplicationFound {
    /// What was done for it.
    pub counters: ApplicationCounters,
    /// As it is at the end.
    pub end: ApplicationState,
}

/// What was done between two states.
pub(crate) fn between(from: &[ApplicationState], to: &[ApplicationState]) -> Vec<ApplicationFound> {
    let one = |(from, to): (&ApplicationState, &ApplicationState)| ApplicationFound {
        counters: to.counters - from.counters,
        end: *to,
    };
    from.iter().zip(to).map(one).collect()
}

/// States since which `done` was done, where it is now as in `to`.
pub(crate) fn without(to: &[ApplicationState], done: &[ApplicationFound]) -> Vec<ApplicationState> {
    let one = |(to, done): (&ApplicationState, &ApplicationFound)| ApplicationState {
        counters: to.counters - done.counters,
        ..*to
    };
    to.iter().zip(done).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_become_one() {
        assert_eq!(join(vec![64..100, 128..130, 256..300]), [64..130, 256..300]);
    }
}
