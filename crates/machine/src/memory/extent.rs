//! Pieces of memory with names, and settings by these names.

use std::collections::BTreeMap;
use std::ops::Range;

use units::CoreId;

use crate::MachineError;

/// A piece of memory with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its own name.
    pub name: String,
    /// What it belongs to: `mempool`, `rings` or `tables`.
    pub group: &'static str,
    /// The core it is for, if it is one core's.
    pub core: Option<CoreId>,
    /// From the first byte to the one behind the last.
    pub bytes: Range<u64>,
}

/// What `regions` says of the region `name` of `group`: its own name goes before the group's.
pub(super) fn named<'a, T>(regions: &'a BTreeMap<String, T>, group: &str, name: &str) -> Option<&'a T> {
    regions.get(name).or_else(|| regions.get(group))
}

/// # Errors
/// A name that none of `extents` has, nor its group.
pub(super) fn check_names<T>(
    regions: &BTreeMap<String, T>,
    extents: &[Extent],
    path: &str,
) -> Result<(), MachineError> {
    let known = |name: &str| extents.iter().any(|extent| extent.name == name || extent.group == name);
    let Some(name) = regions.keys().find(|name| !known(name)) else { return Ok(()) };
    let mut names: Vec<&str> = extents.iter().flat_map(|e| [e.group, e.name.as_str()]).collect();
    names.sort_unstable();
    names.dedup();
    Err(MachineError::new(path, name.clone(), names.join(", "), "name a group of regions or one of them".into()))
}
