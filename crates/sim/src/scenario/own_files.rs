//! Files of one's own that a machine is made of, and which of them a fault is in.

use std::path::Path;

use units::Frequency;

use super::overlay::get_mut;
use super::own_machine::OwnFile;
use super::parts::{KINDS, MachineFile, compose};
use super::presets::{MACHINES, find};
use super::resolve::{missing, rebuild, resolve, unbuildable};
use super::{cycles, gpu_names};

/// Files of one's own beside what a scenario says itself.
#[derive(Debug)]
pub(super) struct OwnFiles<'a> {
    /// Each over those before it.
    files: Vec<OwnFile>,
    /// The machine's, if it is one of them.
    machine: Option<&'a str>,
    scenario: &'a toml::Table,
}

impl<'a> OwnFiles<'a> {
    /// Of the machine that is named, and of a scenario.
    pub fn new(files: Vec<OwnFile>, preset: &'a str, scenario: &'a toml::Table) -> OwnFiles<'a> {
        OwnFiles { files, machine: Some(preset).filter(|name| find(MACHINES, name).is_none()), scenario }
    }

    /// Judges the machine that the files make, `usual`, by itself, and puts settings of the first shipped machine in the place of what
    /// cannot be, so that `usual` holds where a scenario's settings do not.
    pub fn mend(&self, usual: &mut toml::Table) {
        if self.files.is_empty() {
            return;
        }
        let mut sound = shipped_machine();
        lend_gpu(&mut sound, usual);
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
    }

    /// The file that a fault is in, where it is in one and not in what the scenario says.
    pub fn blamed(&self, path: &str, message: &str) -> Option<&str> {
        let mut keys: Vec<&str> = path.split('.').collect();
        keys.extend(missing(message).filter(|name| keys.last() != Some(name)));
        let says = |settings: &toml::Table, keys: &[&str]| get_mut(&mut settings.clone(), keys).is_some();
        if says(self.scenario, &keys) {
            return None;
        }
        if let Some(file) = self.files.iter().rev().find(|file| says(&file.says, &keys)) {
            return Some(&file.name);
        }
        // What nobody says and a machine has to, its file lacks.
        let is_machines = ["machine", "nic", "mempool"].contains(&keys[0]);
        let lacks = missing(message).is_some() && is_machines && !says(self.scenario, &keys[..keys.len() - 1]);
        self.machine.filter(|_| lacks || keys.len() == 1 && missing(message).is_some() && is_machines)
    }
}

/// Puts what the GPU that `settings` name is shipped with into `sound`, so that a wrong setting of it has one that holds.
pub(super) fn lend_gpu(sound: &mut toml::Table, settings: &toml::Table) {
    let mut settings = settings.clone();
    let Some(name) = get_mut(&mut settings, &["machine", "gpu"]).and_then(|gpu| match gpu {
        toml::Value::Table(gpu) => gpu.get("preset").cloned(),
        name => Some(name.clone()),
    }) else {
        return;
    };
    if get_mut(sound, &["machine", "gpu"]).is_some() {
        return;
    }
    let Some(toml::Value::Table(machine)) = sound.get_mut("machine") else { return };
    machine.insert("gpu".into(), name);
    // A name that nobody ships has been told of, and has the nearest in its place.
    let _told = gpu_names::fill_in(sound, "");
}

/// What the first shipped machine says with its parts.
fn shipped_machine() -> toml::Table {
    let Ok(says) = toml::from_str(MACHINES[0].text) else { return toml::Table::new() };
    let file = MachineFile { says, name: MACHINES[0].name, folder: Path::new("") };
    compose(file, &mut toml::Table::new(), MACHINES[0].name, &KINDS).usual
}
