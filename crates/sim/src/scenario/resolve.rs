//! Settings become a scenario, or every fault that they have is told at once.

use machine::MachineError;
use machine::memory::Hierarchy;
use serde_path_to_error::Segment;

use super::error::ScenarioError;
use super::spec::Scenario;
use super::words::with_nearest;

/// Faults of one scenario that are told, at most.
const MOST_FAULTS: usize = 50;
/// Numbers that may be written as text in one scenario: each is read anew with all the others.
const MOST_WRITTEN: usize = 200;

/// What came of the settings.
pub(crate) struct ResolvedScenario {
    /// What they say; where a value cannot be, what holds without it. [`None`] where that cannot be either.
    pub scenario: Option<Scenario>,
    /// What cannot be.
    pub faults: Vec<SettingFault>,
}

/// A setting that cannot be.
#[derive(Clone, Debug)]
pub(crate) struct SettingFault {
    /// Where it is, in words.
    pub path: String,
    /// Why it cannot be, with the nearest names.
    pub message: String,
    steps: Vec<PathStep>,
    /// The message as it came.
    came: String,
}

impl SettingFault {
    /// Puts what `sound` has in the place of what cannot be, or takes that out: whether anything changed.
    pub fn mend(&self, settings: &mut toml::Table, sound: &toml::Table) -> bool {
        put_back(settings, sound, &self.steps, &self.came)
    }
}

/// Reads `merged`. Counts may be written as people write them (`20k`), shares as `50 %`. A value that cannot be is replaced by that of
/// `usual`, which holds without it, and what follows is read all the same.
pub(crate) fn resolve(mut merged: toml::Table, usual: &toml::Table) -> ResolvedScenario {
    let mut faults: Vec<SettingFault> = Vec::new();
    let (mut written, mut repeated) = (0, 0);
    while faults.len() < MOST_FAULTS {
        let error = match serde_path_to_error::deserialize::<_, Scenario>(merged.clone()) {
            Ok(scenario) => return ResolvedScenario { scenario: Some(scenario), faults },
            Err(error) => error,
        };
        let (path, steps) = (error.path().to_string(), segments(error.path()));
        let came = error.into_inner().to_string();
        if let Some(value) = at(&mut merged, &steps)
            && let Some(meant) = as_written(value, &came)
        {
            written += 1;
            if written > MOST_WRITTEN {
                let allowed = format!(
                    "{value}: allowed are {MOST_WRITTEN} numbers with a prefix or a percent sign (write it out)"
                );
                faults.push(SettingFault { path, message: allowed, steps, came });
                break;
            }
            *value = meant;
            continue;
        }
        // What lacks at the top has no path of its own.
        let path = missing(&came).filter(|_| steps.is_empty()).map_or(path, String::from);
        let fault = SettingFault { path, message: with_nearest(&came), steps, came };
        let mended = fault.mend(&mut merged, usual);
        // Of a list the next value stands where the last one stood, and is wrong for the same reason.
        if faults.iter().any(|before| before.path == fault.path && before.came == fault.came) {
            repeated += 1;
        } else {
            faults.push(fault);
        }
        if !mended || repeated > MOST_FAULTS {
            break;
        }
    }
    ResolvedScenario { scenario: None, faults }
}

/// Why the machine of `scenario` cannot be built. What cannot be is replaced by that of `usual`, and what comes after it is looked
/// at all the same.
pub(crate) fn unbuildable(scenario: &Scenario, usual: &toml::Table) -> Vec<MachineError> {
    let build = |scenario: &Scenario| {
        let machine = &scenario.machine;
        Hierarchy::new(&machine.memory(), machine.cores, "machine").err()
    };
    let mut found = Vec::new();
    let mut left = scenario.clone();
    while found.len() < MOST_FAULTS
        && let Some(error) = build(&left)
    {
        if found.contains(&error) {
            break;
        }
        let steps = keys(&error.path);
        found.push(error);
        match without(&left, usual, &steps) {
            Some(other) => left = other,
            None => break,
        }
    }
    found
}

/// What makes a cache's shape: one of them put back alone would contradict the others.
const SHAPE: [&str; 3] = ["size", "ways", "slices"];

fn keys(path: &str) -> Vec<PathStep> {
    path.split('.').map(|key| PathStep::Key(key.into())).collect()
}

/// `scenario` with what `usual` has at `path`, or else at the tables that it is in, of which the machine is not one.
fn without(scenario: &Scenario, usual: &toml::Table, path: &[PathStep]) -> Option<Scenario> {
    (2..=path.len()).rev().find_map(|n| {
        let mut table = toml::Table::try_from(scenario).ok()?;
        replace_whole(&mut table, usual, &path[..n]).then(|| toml::Value::Table(table).try_into().ok())?
    })
}

/// Puts the part of a machine that `sound` has at `path`, or at the tables that it is in, in the place of one that cannot be built.
pub(crate) fn rebuild(settings: &mut toml::Table, sound: &toml::Table, path: &str) {
    let steps = keys(path);
    (2..=steps.len()).rev().any(|n| replace_whole(settings, sound, &steps[..n]));
}

/// As [`replace`], of a cache's shape all of it.
fn replace_whole(settings: &mut toml::Table, usual: &toml::Table, path: &[PathStep]) -> bool {
    match path.split_last() {
        Some((PathStep::Key(last), front)) if SHAPE.contains(&last.as_str()) => {
            SHAPE.map(|key| replace(settings, usual, &[front, &[PathStep::Key(key.into())]].concat())).contains(&true)
        }
        _ => replace(settings, usual, path),
    }
}

/// The faults as one error; `origin` is the file.
pub(crate) fn as_error(mut errors: Vec<ScenarioError>) -> Result<(), ScenarioError> {
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(ScenarioError::Several(errors)),
    }
}

/// A step of a path: a key, or a place in a list.
#[derive(Clone, Debug)]
enum PathStep {
    Key(String),
    Place(usize),
}

fn segments(path: &serde_path_to_error::Path) -> Vec<PathStep> {
    let steps = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(PathStep::Place(*index)),
        Segment::Map { key } => Some(PathStep::Key(key.clone())),
        // An enum's arm is the key of a table, where there is one.
        Segment::Enum { variant } => Some(PathStep::Key(variant.clone())),
        Segment::Unknown => None,
    });
    steps.collect()
}

fn at<'a>(table: &'a mut toml::Table, path: &[PathStep]) -> Option<&'a mut toml::Value> {
    let (PathStep::Key(first), rest) = path.split_first()? else { return None };
    let mut value = table.get_mut(first)?;
    for step in rest {
        value = match step {
            PathStep::Key(key) => value.as_table_mut()?.get_mut(key)?,
            PathStep::Place(place) => value.as_array_mut()?.get_mut(*place)?,
        };
    }
    Some(value)
}

/// The number that the text of a setting means, where `message` says that a number is wanted.
fn as_written(value: &toml::Value, message: &str) -> Option<toml::Value> {
    let text = value.as_str()?;
    let expected = message.strip_prefix("invalid type: ")?.split_once(", expected ")?.1;
    let expected = expected.split_whitespace().next()?;
    if ["u8", "u16", "u32", "u64", "usize", "i64"].contains(&expected) {
        return i64::try_from(units::quantity::count(text)?).ok().map(toml::Value::Integer);
    }
    let share = ["f64", "f32"].contains(&expected).then(|| text.trim().strip_suffix('%')).flatten()?;
    share.trim().parse::<f64>().ok().filter(|x| x.is_finite()).map(|percent| toml::Value::Float(percent / 100.0))
}

/// Puts what `usual` has at `path` in place of what cannot be, or takes that out: whether anything changed. An unknown name is
/// not at the path of the table that it is in.
fn put_back(merged: &mut toml::Table, usual: &toml::Table, path: &[PathStep], message: &str) -> bool {
    if let Some(name) = missing(message) {
        let whole = [path, &[PathStep::Key(name.into())]].concat();
        if let Some(value) = at(&mut usual.clone(), &whole).cloned() {
            let table =
                if path.is_empty() { Some(&mut *merged) } else { at(merged, path).and_then(toml::Value::as_table_mut) };
            if let Some(table) = table {
                table.insert(name.into(), value);
                return true;
            }
        }
    }
    if let Some(unknown) = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next()) {
        let last = PathStep::Key(unknown.into());
        if path.last().is_some_and(|step| matches!(step, PathStep::Key(key) if key == unknown)) {
            return replace(merged, usual, path);
        }
        return replace(merged, usual, &[path, &[last]].concat());
    }
    // Of an enum's arm the table that holds it has the value.
    (1..=path.len()).rev().any(|n| replace(merged, usual, &path[..n]))
}

/// The setting that `message` says is missing.
pub(crate) fn missing(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.split('`').next()
}

fn replace(merged: &mut toml::Table, usual: &toml::Table, path: &[PathStep]) -> bool {
    let Some((last, front)) = path.split_last() else { return false };
    let mut usual = usual.clone();
    let instead = at(&mut usual, path).cloned();
    if front.is_empty() {
        let PathStep::Key(key) = last else { return false };
        let before = merged.remove(key);
        let changed = before.is_some() && before != instead;
        if let Some(instead) = instead {
            merged.insert(key.clone(), instead);
        }
        return changed;
    }
    match (at(merged, front), last) {
        (Some(toml::Value::Table(table)), PathStep::Key(key)) => {
            let before = table.remove(key);
            let changed = before.is_some() && before != instead;
            if let Some(instead) = instead {
                table.insert(key.clone(), instead);
            }
            changed
        }
        (Some(toml::Value::Array(list)), PathStep::Place(place)) if *place < list.len() => {
            list.remove(*place);
            true
        }
        _ => false,
    }
}
