//! Which settings of a scenario name files: the one list that makes paths absolute, hashes contents and keys studies.

use std::path::{Path, PathBuf};

use super::overlay::get_mut;
use super::own_part;
use super::spec::{Scenario, TrafficSpec};

/// A setting that may name a file.
pub struct FileSetting {
    /// Where it is in a scenario, such as `traffic.capture`.
    pub path: &'static str,
    /// What [`crate::InputFile::kind`] calls the file.
    pub kind: &'static str,
    at: At,
}

enum At {
    /// Always a file.
    File(fn(&mut Scenario) -> &mut Option<PathBuf>),
    /// The name of something shipped, or a file that ends as given.
    NameOr(fn(&mut Scenario) -> &mut Option<String>, fn(&str) -> bool),
    /// The same, but what the file says takes the place of its path when the scenario is read.
    Content(fn(&str) -> bool),
}

/// All of them.
pub const FILES: &[FileSetting] = &[
    file("traffic.capture", "capture", |s| &mut s.traffic.capture),
    FileSetting {
        path: "traffic.profile",
        kind: "profile",
        at: At::NameOr(|s| &mut s.traffic.profile, |name| Path::new(name).extension().is_some()),
    },
    file("function.forward.table", "table", |s| &mut s.function.forward.table),
    file("function.upf.sessions", "sessions", |s| &mut s.function.upf.sessions),
    file("function.classify.rules", "rules", |s| &mut s.function.classify.rules),
    file("function.inspect.patterns", "patterns", |s| &mut s.function.inspect.patterns),
    file("function.firewall.rules", "templates", |s| &mut s.function.firewall.rules),
    file("function.trace.file", "recording", |s| &mut s.function.trace.file),
    FileSetting {
        path: "machine.preset",
        kind: "machine",
        at: At::NameOr(|s| &mut s.machine.preset, |name| name.ends_with(".toml")),
    },
    FileSetting {
        path: "machine.processor",
        kind: "processor",
        at: At::NameOr(|s| &mut s.machine.processor, own_part::is_file),
    },
    FileSetting { path: "nic.model", kind: "nic", at: At::NameOr(|s| &mut s.nic.model, own_part::is_file) },
    FileSetting { path: "machine.dram.standard", kind: "part", at: At::Content(own_part::is_file) },
];

const fn file(path: &'static str, kind: &'static str, at: fn(&mut Scenario) -> &mut Option<PathBuf>) -> FileSetting {
    FileSetting { path, kind, at: At::File(at) }
}

impl FileSetting {
    /// The setting of that path.
    pub fn of(path: &str) -> Option<&'static FileSetting> {
        FILES.iter().find(|setting| setting.path == path)
    }

    /// Whether `value` of the setting is a file, and not the name of something shipped.
    pub fn is_file(&self, value: &str) -> bool {
        match self.at {
            At::File(_) => true,
            At::NameOr(_, is_file) | At::Content(is_file) => is_file(value),
        }
    }

    /// The file that `scenario` names here; [`None`] where it names none.
    pub fn get(&self, scenario: &mut Scenario) -> Option<PathBuf> {
        match self.at {
            At::File(at) => at(scenario).clone(),
            At::NameOr(at, is_file) => at(scenario).as_deref().filter(|name| is_file(name)).map(PathBuf::from),
            At::Content(_) => None,
        }
    }

    /// Names `value` here.
    pub fn put(&self, scenario: &mut Scenario, value: PathBuf) {
        match self.at {
            At::File(at) => *at(scenario) = Some(value),
            At::NameOr(at, _) => *at(scenario) = Some(value.to_string_lossy().into_owned()),
            At::Content(_) => {}
        }
    }

    /// A relative path of a scenario's own text is relative to the `folder` of its file.
    pub(crate) fn beside(&self, scenario: &mut toml::Table, folder: &Path) {
        let keys: Vec<&str> = self.path.split('.').collect();
        if let Some(toml::Value::String(name)) = get_mut(scenario, &keys)
            && self.is_file(name)
            && !Path::new(name.as_str()).is_absolute()
        {
            *name = folder.join(name.as_str()).to_string_lossy().into_owned();
        }
    }
}

impl Scenario {
    /// Puts what `to` makes of each file that the scenario names in its place.
    pub fn rename_files(&mut self, mut to: impl FnMut(&FileSetting, &Path) -> Option<PathBuf>) {
        for setting in FILES {
            if let Some(named) = setting.get(self)
                && let Some(other) = to(setting, &named)
            {
                setting.put(self, other);
            }
        }
    }
}

impl TrafficSpec {
    /// Whether `profile` is the path of a file, and not the name of a shipped one.
    pub fn profile_is_a_file(&self) -> bool {
        let is_file = |name| FileSetting::of("traffic.profile").is_some_and(|setting| setting.is_file(name));
        self.profile.as_deref().is_some_and(is_file)
    }
}

pub(crate) fn file_name(path: &std::path::Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Overrides;

    /// The paths of all settings whose value may be any text, by the schema: files and names.
    fn texts(schema: &serde_json::Value, of: &serde_json::Value, at: &str, found: &mut Vec<String>) {
        if let Some(name) = of["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
            return texts(schema, &schema["$defs"][name], at, found);
        }
        let any_text =
            ["enum", "const", "pattern", "format", "examples", "anyOf", "oneOf"].iter().all(|key| of[key].is_null());
        let arms = || ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| of[key].as_array()).flatten();
        // A quantity may be a number, too.
        if arms().any(|arm| ["\"number\"", "\"integer\""].contains(&arm["type"].to_string().as_str())) {
            return;
        }
        let is_text = ["\"string\"", "[\"string\",\"null\"]"].contains(&of["type"].to_string().as_str());
        if any_text && is_text {
            found.push(at.to_string());
        }
        for arm in arms() {
            texts(schema, arm, at, found);
        }
        for (key, property) in of["properties"].as_object().into_iter().flatten() {
            let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
            texts(schema, property, &path, found);
        }
        for (inner, step) in [("items", "[]"), ("additionalProperties", ".*")] {
            if of[inner].is_object() {
                texts(schema, &of[inner], &format!("{at}{step}"), found);
            }
        }
    }

    /// Whoever adds a setting that is text says whether it is a file.
    #[test]
    fn every_path_in_a_scenario_is_in_the_list() {
        let schema = serde_json::to_value(schemars::schema_for!(Scenario)).unwrap();
        let mut found = Vec::new();
        texts(&schema, &schema, "", &mut found);
        found.sort();
        found.dedup();
        let mut listed: Vec<&str> = FILES.iter().map(|setting| setting.path).chain(NAMES).collect();
        listed.sort();
        assert_eq!(found, listed);
    }

    /// Texts that name no file.
    const NAMES: [&str; 29] = [
        "name",
        "machine.name",
        "machine.core.stalls.lengths",
        "machine.clos.*.neighbours[]",
        "machine.dram.controller.map",
        "machine.dram.controller.order",
        "machine.dram.controller.page",
        "machine.dram.controller.refresh",
        "machine.dram.controller.writes",
        "machine.dram.currents",
        "machine.dram.standard.constraints[].clocks",
        "machine.dram.standard.name",
        "machine.dram.standard.source",
        "machine.gpu.preset",
        "machine.gpu.shaders.memory.standard",
        "machine.stacked.holds[]",
        "machine.stacked.memory.service.device.standard",
        "neighbours[].name",
        "traffic.flows.destinations.pool[]",
        "nic.driver.preset",
        "function.program.preset",
        "function.program.stages[].name",
        "function.program.stages[].prefetch[]",
        "function.program.stages[].touches[]",
        "machine.gpu.shaders.memory.controller.map",
        "machine.gpu.shaders.memory.controller.order",
        "machine.gpu.shaders.memory.controller.page",
        "machine.gpu.shaders.memory.controller.refresh",
        "machine.gpu.shaders.memory.controller.writes",
    ];

    #[test]
    fn each_is_where_its_path_says() {
        // What these name is read with the scenario.
        let read_at_once = ["machine.preset", "machine.processor", "nic.model", "machine.dram.standard"];
        for setting in FILES.iter().filter(|setting| !read_at_once.contains(&setting.path)) {
            let set = vec![format!("{}=x.toml", setting.path), "function.kind=forward".into()];
            let mut scenario = Scenario::read("", "s.toml", &Overrides { set, ..Overrides::default() }).unwrap();
            assert_eq!(setting.get(&mut scenario), Some("x.toml".into()), "{}", setting.path);
            scenario.rename_files(|of, named| (of.path == setting.path).then(|| Path::new("/there").join(named)));
            assert_eq!(setting.get(&mut scenario), Some("/there/x.toml".into()), "{}", setting.path);
        }
    }

    #[test]
    fn shipped_names_are_no_files() {
        let mut scenario = Scenario::read("[traffic]\nprofile = \"imix\"", "a/s.toml", &Overrides::default()).unwrap();
        scenario.rename_files(|setting, _| panic!("{} names no file", setting.path));
        assert_eq!(scenario.traffic.profile.as_deref(), Some("imix"));
    }
}
