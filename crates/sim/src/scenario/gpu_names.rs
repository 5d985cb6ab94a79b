//! The name of a shipped GPU stands for what its file says.

use super::error::ScenarioError;
use super::gpus::{ServerGpuSpec, TASK_PACKETS};
use super::overlay::{get_mut, merge, open_name};
use super::presets::{GPUS, find, known, names, nearest};

/// Puts beneath `machine.gpu` of `settings` what the GPU says that it names.
///
/// # Errors
/// A name that nobody ships: the nearest GPU stands in, or else the first.
pub(super) fn fill_in(settings: &mut toml::Table, origin: &str) -> Result<(), ScenarioError> {
    let Some(value) = get_mut(settings, &["machine", "gpu"]) else { return Ok(()) };
    open_name(value);
    let Some(own) = value.as_table_mut() else { return Ok(()) };
    let path = "machine.gpu.preset";
    let (name, fault) = match own.get("preset") {
        Some(toml::Value::String(name)) => {
            let unknown = || {
                let (name, known) = (name.clone(), known(&names(GPUS), name));
                ScenarioError::Preset { origin: origin.into(), path: path.into(), name, known }
            };
            (name.clone(), find(GPUS, name).is_none().then(unknown))
        }
        Some(other) => {
            let message = format!("{other}: a name is wanted, one of {}", names(GPUS).join(", "));
            (String::new(), Some(ScenarioError::Value { origin: origin.into(), path: path.into(), message }))
        }
        None => return Ok(()),
    };
    let near = || nearest(&names(GPUS), &name).and_then(|name| find(GPUS, name)).unwrap_or(&GPUS[0]);
    let preset = find(GPUS, &name).unwrap_or_else(near);
    own.insert("preset".into(), preset.name.into());
    let mut usual = usual(preset.text);
    if own.get("posting").and_then(toml::Value::as_str) == Some("persistent") {
        // As the router: a burst's packets are posted at once, a warp's worth at a time.
        usual.insert("batch".into(), i64::from(TASK_PACKETS).into());
        usual.insert("timeout".into(), "0 ns".into());
    }
    merge(&mut usual, std::mem::take(own));
    *own = usual;
    fault.map_or(Ok(()), Err)
}

/// Packets that the GPU of settings that are not read yet has at most.
pub(super) fn most_packets_of(settings: &toml::Table) -> u32 {
    let gpu = settings.get("machine").and_then(|machine| machine.get("gpu"));
    let gpu = gpu.and_then(|gpu| gpu.clone().try_into::<ServerGpuSpec>().ok());
    gpu.map_or(0, |gpu| gpu.most_packets())
}

/// What a GPU's file says of `machine.gpu`.
fn usual(text: &str) -> toml::Table {
    let mut says: toml::Table = toml::from_str(text).unwrap_or_default();
    let mut usual = toml::Table::new();
    if let Some(shaders) = says.remove("gpu") {
        usual.insert("shaders".into(), shaders);
    }
    if let Some(attached) = says.remove("attached") {
        usual.insert("attached".into(), attached);
    }
    // Where it does not say how much it has: as much as its tables and packets take.
    usual.insert("memory".into(), says.remove("memory").unwrap_or_else(|| UNSAID.into()));
    if let Some(toml::Value::Table(batch)) = says.remove("batch") {
        let of_server = ["block", "link", "copy", "launch", "overlap"];
        usual.extend(batch.into_iter().filter(|(key, _)| of_server.contains(&key.as_str())));
        if let Some(overlap) = usual.get_mut("overlap").filter(|overlap| overlap.as_str() == Some("nothing")) {
            // Of the study alone: the next batch is collected meanwhile.
            *overlap = "serial".into();
        }
    }
    usual
}

/// A GPU whose paper does not say how much memory it has.
const UNSAID: &str = "4 GB";
