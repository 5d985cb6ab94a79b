//! Files of one's own that a machine is made of, and which of them a fault is in.

use std::path::Path;

use units::Frequency;

use super::cycles;
use super::overlay::get_mut;
use super::parts::{KINDS, MachineFile, compose};
use super::presets::MACHINES;
use super::resolve::{rebuild, resolve, unbuildable};

/// A file of one's own: a machine's, or a part's.
#[derive(Clone, Debug)]
pub(super) struct OwnFile {
    pub name: String,
    /// With all that it stands on.
    pub says: toml::Table,
}

/// What cannot be in files of one's own, whatever a scenario says beside them.
#[derive(Debug, Default)]
pub(super) struct OwnFiles {
    files: Vec<OwnFile>,
    /// By path, and why.
    faults: Vec<(String, String)>,
}

impl OwnFiles {
    /// Judges the machine that `files` make, `usual`, by itself, and puts settings of the first shipped machine in the place of what
    /// cannot be, so that `usual` holds where a scenario's settings do not.
    pub fn judged(files: Vec<OwnFile>, usual: &mut toml::Table) -> OwnFiles {
        if files.is_empty() {
            return OwnFiles::default();
        }
        let mut sound = shipped_machine();
        let clock = cycles::clock(usual).or_else(|| cycles::clock(&mut sound)).unwrap_or(Frequency::from_ghz(1.0));
        let mut timed = usual.clone();
        for settings in [&mut timed, &mut sound] {
            cycles::in_time(settings, clock);
        }
        let resolved = resolve(timed, &sound);
        for fault in &resolved.faults {
            fault.mend(usual, &sound);
        }
        for error in resolved.scenario.iter().flat_map(|scenario| unbuildable(scenario, &sound)) {
            rebuild(usual, &sound, &error.path);
        }
        let faults = resolved.faults.into_iter().map(|fault| (fault.path, fault.message)).collect();
        OwnFiles { files, faults }
    }

    /// The file that a fault is in, where it is in one.
    pub fn blamed(&self, path: &str, message: &str) -> Option<&str> {
        self.faults.iter().find(|(at, why)| at == path && why == message)?;
        let keys: Vec<&str> = path.split('.').collect();
        let says = |file: &&OwnFile| get_mut(&mut file.says.clone(), &keys).is_some();
        // What none of them says, the machine lacks.
        self.files.iter().rev().find(says).or(self.files.first()).map(|file| file.name.as_str())
    }
}

/// What the first shipped machine says with its parts.
fn shipped_machine() -> toml::Table {
    let Ok(says) = toml::from_str(MACHINES[0].text) else { return toml::Table::new() };
    let file = MachineFile { says, name: MACHINES[0].name, folder: Path::new("") };
    compose(file, &mut toml::Table::new(), MACHINES[0].name, &KINDS).usual
}
