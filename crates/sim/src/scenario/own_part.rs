//! A DRAM part of one's own: the file or table that `machine.dram.standard` gives.

use std::path::Path;

use machine::MachineError;
use machine::dram::DramPart;
use machine::dram::standard::Standard;

use super::error::ScenarioError;
use super::overlay::get_mut;
use super::words::with_nearest;

const PATH: &str = "machine.dram.standard";
const KEYS: [&str; 3] = ["machine", "dram", "standard"];
const TO_BEGIN_WITH: &str = "`wirespeed presets ddr4-2400u > part.toml` writes one to begin with";

/// Whether `value` of the setting is a file.
pub(super) fn is_file(value: &str) -> bool {
    value.ends_with(".toml")
}

/// The part that `settings` give, if they do; what a file says takes the place of its path. A path is relative to `folder`.
///
/// # Errors
/// A file that cannot be read, is no TOML or no standard; one whose numbers contradict each other.
pub(super) fn taken(
    settings: &mut toml::Table,
    origin: &str,
    folder: &Path,
) -> Result<Option<DramPart>, ScenarioError> {
    let Some(given) = get_mut(settings, &KEYS) else { return Ok(None) };
    let standard = match given {
        toml::Value::String(name) if is_file(name) => {
            let file = folder.join(name.as_str()).display().to_string();
            let standard = read(&file, origin)?;
            checked(&standard, &file)?;
            standard
        }
        toml::Value::String(name) => return Ok(Some(DramPart::from(name.as_str()))),
        toml::Value::Table(table) => {
            // What is wrong with its form is found with all other faults of the scenario.
            let Ok(standard) = table.clone().try_into::<Standard>() else { return Ok(None) };
            checked(&standard, origin)?;
            standard
        }
        _ => return Ok(None),
    };
    if let Ok(written) = toml::Value::try_from(&standard) {
        *given = written;
    }
    Ok(Some(DramPart::Own(Box::new(standard))))
}

/// Takes one out that cannot be, so that it is told of once.
pub(super) fn forget(settings: &mut toml::Table) {
    if let Some(toml::Value::Table(dram)) = get_mut(settings, &KEYS[..2]) {
        dram.remove(KEYS[2]);
    }
}

fn read(file: &str, origin: &str) -> Result<Standard, ScenarioError> {
    let text = std::fs::read_to_string(file).map_err(|e| ScenarioError::Value {
        origin: origin.into(),
        path: PATH.into(),
        message: format!("{file}: cannot be read: {e} ({TO_BEGIN_WITH})"),
    })?;
    let table: toml::Table = toml::from_str(&text)
        .map_err(|e| ScenarioError::Syntax { origin: file.into(), message: e.to_string().trim_end().to_string() })?;
    serde_path_to_error::deserialize(toml::Value::Table(table)).map_err(|e| {
        let inner = e.path().to_string();
        let path = if inner == "." { PATH.into() } else { format!("{PATH}.{inner}") };
        let message = with_nearest(e.inner().message());
        ScenarioError::Value { origin: file.into(), path, message: format!("{message} ({TO_BEGIN_WITH})") }
    })
}

/// That its numbers go together; `origin` is where they stand.
fn checked(standard: &Standard, origin: &str) -> Result<(), ScenarioError> {
    standard.check().map_err(|MachineError { path, came, allowed, remedy, .. }| {
        let field = path.strip_prefix(&format!("dram.{}.", standard.name)).unwrap_or(&path);
        ScenarioError::Value {
            origin: origin.into(),
            path: format!("{PATH}.{field}"),
            message: format!("{came}: allowed is {allowed} ({remedy})"),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use machine::dram::presets;

    use super::*;
    use crate::{Overrides, Scenario};

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("wirespeed-own-part-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn read(text: &str, origin: &Path, set: &[&str]) -> Result<Scenario, String> {
        let set = set.iter().map(|s| s.to_string()).collect();
        Scenario::read(text, origin.to_str().unwrap(), &Overrides { set, ..Overrides::default() })
            .map_err(|e| e.to_string())
    }

    #[test]
    fn a_copy_of_a_shipped_standard_is_the_same_memory() {
        let folder = folder("copy");
        let origin = folder.join("s.toml");
        for name in presets::NAMES {
            fs::write(folder.join("part.toml"), toml::to_string(&presets::preset(name).unwrap()).unwrap()).unwrap();
            let own = read("[machine.dram]\nstandard = \"part.toml\"\n", &origin, &[]).unwrap();
            let shipped = read("", &origin, &[&format!("machine.dram.standard={name}")]).unwrap();
            let mut named = own.clone();
            named.machine.dram.standard = shipped.machine.dram.standard.clone();
            named.machine.name = shipped.machine.name.clone();
            assert_eq!(named.machine, shipped.machine, "{name}");
            assert_eq!(own.machine.dram.energy("d"), shipped.machine.dram.energy("d"), "{name}");
            // All of the file is in the resolved scenario, which needs it no more.
            fs::remove_file(folder.join("part.toml")).unwrap();
            assert_eq!(read(&own.to_toml(), Path::new("elsewhere"), &[]).unwrap(), own, "{name}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_part_that_replaces_another_keeps_nothing_of_it() {
        let folder = folder("replaced");
        let origin = folder.join("s.toml");
        fs::write(folder.join("hbm.toml"), toml::to_string(&presets::hbm3_6400()).unwrap()).unwrap();
        let machine = crate::scenario::MACHINES[0].text;
        let machine = format!("{machine}\n[machine.dram]\nstandard = \"ddr.toml\"\n");
        fs::write(folder.join("mine.toml"), machine).unwrap();
        fs::write(folder.join("ddr.toml"), toml::to_string(&presets::ddr4_2400u()).unwrap()).unwrap();
        let own = read("machine.preset = \"mine.toml\"", &origin, &[]).unwrap();
        assert_eq!(own.machine.dram.standard.as_ref().and_then(DramPart::standard), Some(presets::ddr4_2400u()));
        let text = "machine.preset = \"mine.toml\"\nmachine.dram.standard = \"hbm.toml\"";
        let own = read(text, &origin, &[]).unwrap();
        assert_eq!(own.machine.dram.standard.as_ref().and_then(DramPart::standard), Some(presets::hbm3_6400()));
        assert!(own.machine.name.ends_with("dram.standard=hbm3-6400"), "{}", own.machine.name);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_part_that_cannot_be_says_where_and_what_to_do() {
        let folder = folder("wrong");
        let origin = folder.join("s.toml");
        let text = toml::to_string(&presets::ddr4_2400u()).unwrap();
        let error = |text: &str| {
            fs::write(folder.join("part.toml"), text).unwrap();
            read("machine.dram.standard = \"part.toml\"", &origin, &[]).unwrap_err()
        };
        for (wrong, expected) in [
            ("name =", "part.toml: "),
            ("name = \"x\"", "part.toml: machine.dram.standard: missing field"),
            (&text.replace("RAS = ", "RAS = -"), "machine.dram.standard.timings.RAS: "),
            (&text.replace("ranks = 1", "ranks = 3"), "machine.dram.standard.ranks: 3"),
            (&text.replace("clock_mhz", "clock_mhs"), "clock_mhz"),
        ] {
            let found = error(wrong);
            assert!(found.contains(expected), "{expected}: {found}");
        }
        fs::remove_file(folder.join("part.toml")).unwrap();
        let gone = read("machine.dram.standard = \"part.toml\"", &origin, &[]).unwrap_err();
        assert!(gone.contains("part.toml: cannot be read") && gone.contains("wirespeed presets"), "{gone}");
        let inline = read(&format!("[machine.dram.standard]\n{}", "name = \"x\"\n"), &origin, &[]).unwrap_err();
        assert!(inline.contains("machine.dram.standard"), "{inline}");
        let number = read("machine.dram.standard = 4", &origin, &[]).unwrap_err();
        assert!(number.contains("a file that ends in .toml"), "{number}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
