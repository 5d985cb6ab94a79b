//! A scenario's text becomes a scenario, or all that is wrong with it.

use std::path::{Path, PathBuf};

use units::Frequency;

use super::error::ScenarioError;
use super::files::FILES;
use super::overlay::{
    apply, drop_made_traffic, fit_io_ways, fit_size, get_mut, grow_pool, machine_name, names_first, not_a_number,
    refuse_counted_masks, table, title, ways_of,
};
use super::own_files::{OwnFiles, lend_gpu};
use super::parts::{Composed, KINDS, MachineFile, compose, lay};
use super::presets::{MACHINES, SCENARIOS, find, known, names};
use super::resolve::{ResolvedScenario, as_error, resolve, unbuildable};
use super::spec::{RateSearch, Scenario};
use super::{cycles, gpu_names, own_machine, own_part};

/// What the command line says beyond the scenario file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `path=value`, the value in TOML or a bare string.
    pub set: Vec<String>,
    /// Replays this capture instead of the scenario's traffic.
    pub capture: Option<PathBuf>,
    /// Routes by this table.
    pub table: Option<PathBuf>,
    /// In place of `run.seed`.
    pub seed: Option<u64>,
    /// In place of `run.search`.
    pub search: Option<RateSearch>,
}

impl Overrides {
    /// That nothing is said twice: by an option and by a setting, or by two settings that exclude each other.
    fn check(&self) -> Result<(), ScenarioError> {
        let paths: Vec<&str> = self.set.iter().map(|set| set.split('=').next().unwrap_or_default().trim()).collect();
        let by_profile = paths.contains(&"traffic.profile");
        let said = [
            ("--capture", self.capture.is_some(), "traffic.capture"),
            ("--capture", self.capture.is_some(), "traffic.profile"),
            ("--table", self.table.is_some(), "function.forward.table"),
            ("--seed", self.seed.is_some(), "run.seed"),
            ("--search", self.search.is_some(), "run.search"),
            ("--set traffic.profile", by_profile, "traffic.capture"),
        ];
        match said.into_iter().find(|(_, given, path)| *given && paths.contains(path)) {
            Some((option, _, path)) => Err(ScenarioError::Value {
                origin: "--set".into(),
                path: path.into(),
                message: format!("given with {option}: allowed is one of them (remove the other)"),
            }),
            None => Ok(()),
        }
    }
}

/// Whether `before` calls its machine `name`.
fn before_has(before: &toml::Table, name: &toml::Value) -> bool {
    before.get("machine").and_then(|machine| machine.get("name")) == Some(name)
}

/// Whether settings name their machine as it would be named without: they are of a result, and it is nobody's choice.
fn names_itself(mut before: toml::Table, origin: &str) -> bool {
    let named =
        before.get_mut("machine").and_then(toml::Value::as_table_mut).and_then(|machine| machine.remove("name"));
    let text = toml::to_string(&before).unwrap_or_default();
    let without = Scenario::read(&text, origin, &Overrides::default());
    without.is_ok_and(|scenario| named.as_ref().and_then(toml::Value::as_str) == Some(&scenario.machine.name))
}

impl Scenario {
    /// Reads a scenario: the machine preset with its parts, then the text, then the overrides, each over what came
    /// before. A part that text or overrides name takes the place of the preset's. Relative paths in the text are relative to `origin`'s folder.
    ///
    /// # Errors
    /// See [`ScenarioError`]; every message names the path in the scenario.
    pub fn read(text: &str, origin: &str, overrides: &Overrides) -> Result<Scenario, ScenarioError> {
        let mut own = own_settings(text, origin)?;
        let before = own.clone();
        overrides.check()?;
        let shipped = find(SCENARIOS, origin).is_some();
        let replaced = overrides.put_over(&mut own, origin, shipped)?;
        let title = title(&before, &own, origin);
        let (preset, Composed { mut usual, mut faults, nic, files, stands_in }) = machine(&mut own, origin)?;
        let (mut sound, said) = (usual.clone(), own.clone());
        let files = OwnFiles::new(files, &preset, &said);
        files.mend(&mut sound);
        let keeps_name = match get_mut(&mut own, &["machine", "name"]) {
            None => false,
            Some(name) => !before_has(&before, name) || !names_itself(before, origin),
        };
        if !keeps_name && let Some(machine) = own.get_mut("machine").and_then(toml::Value::as_table_mut) {
            // That of a result: it is made anew, of what the machine has now.
            machine.remove("name");
        }
        let touches_machine = own.get("machine").is_some() || nic.is_some();
        let (mut merged, moved) = laid_over(&usual, own, &files, origin, &mut faults);
        lend_gpu(&mut sound, &merged);
        table(&mut merged, "machine").insert("preset".into(), preset.as_str().into());
        if let Some(title) = title {
            merged.insert("name".into(), title.into());
        }
        // What is counted in cycles moves with the clock that the scenario has.
        let clock = cycles::clock(&mut merged).or_else(|| cycles::clock(&mut usual));
        for settings in [&mut merged, &mut usual, &mut sound] {
            cycles::in_time(settings, clock.unwrap_or(Frequency::from_ghz(1.0)));
        }
        let mut scenario = judged(merged, &sound, &files, origin, stands_in, faults)?;
        if !keeps_name && touches_machine {
            scenario.machine.name = machine_name(&scenario.machine, &usual, nic.as_deref());
        }
        scenario.replaced.extend(moved);
        // A shipped scenario's traffic is nobody's choice.
        if !shipped && !replaced.is_empty() {
            let list = replaced.join(", ");
            scenario.replaced.push(format!("the capture takes the place of what {origin} says of traffic: {list}"));
        }
        Ok(scenario)
    }
}

fn value(origin: &str, path: impl Into<String>, message: impl Into<String>) -> ScenarioError {
    ScenarioError::Value { origin: origin.into(), path: path.into(), message: message.into() }
}

/// What the text of a scenario says.
fn own_settings(text: &str, origin: &str) -> Result<toml::Table, ScenarioError> {
    let mut own: toml::Table = toml::from_str(text)
        .map_err(|e| ScenarioError::Syntax { origin: origin.into(), message: e.to_string().trim_end().to_string() })?;
    refuse_counted_masks(text, origin)?;
    let folder = Path::new(origin).parent().unwrap_or(Path::new(""));
    for setting in FILES {
        setting.beside(&mut own, folder);
    }
    Ok(own)
}

impl Overrides {
    /// Puts what the command line says over `own`; gives what of its traffic a capture took the place of.
    fn put_over(&self, own: &mut toml::Table, origin: &str, shipped: bool) -> Result<Vec<String>, ScenarioError> {
        let mut replaced = Vec::new();
        if let Some(capture) = &self.capture {
            let traffic = table(own, "traffic");
            replaced = drop_made_traffic(traffic, shipped);
            traffic.insert("capture".into(), capture.to_string_lossy().into_owned().into());
        }
        // A capture comes before what is said beside it, in whatever order.
        let is_capture = |set: &&String| set.split('=').next().is_some_and(|path| path.trim() == "traffic.capture");
        let (captures, others): (Vec<&String>, Vec<&String>) = self.set.iter().partition(is_capture);
        for set in captures.into_iter().chain(names_first(others.into_iter())) {
            replaced.extend(apply(own, set, shipped)?);
        }
        refuse_no_tables(own, origin)?;
        if let Some(path) = &self.table {
            let forward = table(table(own, "function"), "forward");
            forward.insert("table".into(), path.to_string_lossy().into_owned().into());
        }
        if let Some(seed) = self.seed {
            let most = || value("--seed", "run.seed", format!("{seed}: allowed are 0 to {}", i64::MAX));
            table(own, "run").insert("seed".into(), i64::try_from(seed).map_err(|_| most())?.into());
        }
        if let Some(search) = self.search {
            let name = if search == RateSearch::Ndr { "ndr" } else { "pdr" };
            table(own, "run").insert("search".into(), name.into());
        }
        Ok(replaced)
    }
}

/// Refuses a value where a table of settings is wanted, which the options would otherwise overwrite.
fn refuse_no_tables(own: &toml::Table, origin: &str) -> Result<(), ScenarioError> {
    if own.get("neighbours").is_some_and(toml::Value::is_table) {
        let message = "one table: a list of them is wanted (write [[neighbours]] above each)";
        return Err(value(origin, "neighbours", message));
    }
    for section in ["traffic", "function", "machine", "nic", "mempool", "run"] {
        if let Some(other) = own.get(section).filter(|v| !v.is_table()) {
            let message = format!("{other}: a table of settings is wanted (write [{section}] above them)");
            return Err(value(origin, section, message));
        }
    }
    Ok(())
}

/// The name of the machine that `own` wants, and what it says with the parts that `own` wants in it.
fn machine(own: &mut toml::Table, origin: &str) -> Result<(String, Composed), ScenarioError> {
    let path = "machine.preset";
    let name = match get_mut(own, &["machine", "preset"]) {
        None => MACHINES[0].name.to_string(),
        Some(toml::Value::String(name)) => name.clone(),
        Some(other) => {
            let message = format!("{other}: a name is wanted, one of {}", names(MACHINES).join(", "));
            return Err(value(origin, path, message));
        }
    };
    let text = match find(MACHINES, &name) {
        Some(preset) => preset.text.to_string(),
        None if name.ends_with(".toml") => own_machine::text(&name)
            .map_err(|e| value(origin, path, format!("{e} (`wirespeed calibrate` writes such a file)")))?,
        None => {
            let known = known(&names(MACHINES), &name);
            return Err(ScenarioError::Preset { origin: origin.into(), path: path.into(), known, name });
        }
    };
    refuse_counted_masks(&text, &name)?;
    let mut says: toml::Table = match toml::from_str(&text) {
        Ok(says) => says,
        Err(e) => return Err(ScenarioError::Syntax { origin: name, message: e.to_string() }),
    };
    let folder = Path::new(&name).parent().unwrap_or(Path::new(""));
    let standard = own_part::taken(&mut says, &name, folder).err();
    if standard.is_some() {
        own_part::forget(&mut says);
    }
    let mut composed = compose(MachineFile { says, name: &name, folder }, own, origin, &KINDS);
    composed.faults.extend(standard);
    Ok((name, composed))
}

/// `own` over what the machine says, and what moved with it, in words. DIMMs and a GPU that cannot be are among `faults`, and others
/// stand in.
fn laid_over(
    usual: &toml::Table,
    mut own: toml::Table,
    files: &OwnFiles,
    origin: &str,
    faults: &mut Vec<ScenarioError>,
) -> (toml::Table, Vec<String>) {
    let mut merged = usual.clone();
    let slower = cycles::clock_alone(usual, &mut own);
    let own_ways = ways_of(&mut own);
    let ways = own_ways.filter(|_| get_mut(&mut own, &["machine", "llc", "size"]).is_none());
    let fewer = own_ways.filter(|_| get_mut(&mut own, &["machine", "llc", "io_ways"]).is_none());
    let keeps_pool = get_mut(&mut own, &["mempool", "size"]).is_some();
    faults.extend(lay(&mut merged, own, origin).err());
    let names_gpu = files.blamed("machine.gpu.preset", "").unwrap_or(origin);
    faults.extend(gpu_names::fill_in(&mut merged, names_gpu).err());
    let moved = ways.and_then(|ways| fit_size(&mut merged, usual, ways));
    let clamped = fewer.filter(|ways| *ways > 0).and_then(|ways| fit_io_ways(&mut merged, ways));
    let offloaded = gpu_names::most_packets_of(&merged);
    let grown = if keeps_pool { None } else { grow_pool(&mut merged, offloaded) };
    (merged, moved.into_iter().chain(clamped).chain(grown).chain(slower).collect())
}

/// The scenario that `merged` says, or all that is wrong with it beside `errors`; `sound` is what holds without it. What is wrong in
/// one of `files` is told of that. Where a part `stands_in`, what does not go with it is nobody's mistake.
fn judged(
    merged: toml::Table,
    sound: &toml::Table,
    files: &OwnFiles,
    origin: &str,
    stands_in: bool,
    mut errors: Vec<ScenarioError>,
) -> Result<Scenario, ScenarioError> {
    let not_a_number = not_a_number(&merged);
    let ResolvedScenario { scenario, faults } = resolve(merged, sound);
    let paths: Vec<String> = faults.iter().map(|fault| fault.path.clone()).collect();
    errors.extend(faults.into_iter().map(|fault| {
        let file = files.blamed(&fault.path, &fault.message).unwrap_or(origin);
        let message = cycles::explained(&fault.path, fault.message);
        value(file, fault.path, message)
    }));
    if let Some(scenario) = &scenario {
        // What follows from a value that was replaced is nobody's mistake.
        let mut found = scenario.check(origin);
        found.retain(|error| !error.concerns(&paths));
        let of_machine = ["machine", "nic"].map(String::from);
        found.retain(|error| !(stands_in && error.concerns(&of_machine)));
        for error in &mut found {
            if let ScenarioError::Value { origin, path, message } = error
                && let Some(file) = files.blamed(path, message)
            {
                *origin = file.into();
            }
        }
        errors.append(&mut found);
        let machine = unbuildable(scenario, sound).into_iter().map(ScenarioError::Machine).filter(|_| !stands_in);
        let known: Vec<String> = errors.iter().filter_map(ScenarioError::path).map(String::from).collect();
        errors.extend(machine.filter(|error| !error.concerns(&paths) && !error.concerns(&known)));
    }
    if let Some(path) = not_a_number
        && errors.is_empty()
    {
        errors.push(value(origin, path, "nan: a number is wanted"));
    }
    as_error(errors)?;
    scenario.ok_or_else(|| value(origin, "", "it cannot be read"))
}
