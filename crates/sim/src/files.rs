//! Which settings of a scenario name files: the one list that makes paths absolute, hashes contents and keys studies.

use std::path::{Path, PathBuf};

use crate::scenario::{Scenario, get_mut};

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
            At::NameOr(_, is_file) => is_file(value),
        }
    }

    /// The file that `scenario` names here; [`None`] where it names none.
    pub fn get(&self, scenario: &mut Scenario) -> Option<PathBuf> {
        match self.at {
            At::File(at) => at(scenario).clone(),
            At::NameOr(at, is_file) => at(scenario).as_deref().filter(|name| is_file(name)).map(PathBuf::from),
        }
    }

    /// Names `value` here.
    pub fn put(&self, scenario: &mut Scenario, value: PathBuf) {
        match self.at {
            At::File(at) => *at(scenario) = Some(value),
            At::NameOr(at, _) => *at(scenario) = Some(value.to_string_lossy().into_owned()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Overrides;

    /// Every `PathBuf` of a scenario, by the schema: whoever adds one has to add it to the list.
    #[test]
    fn every_path_in_a_scenario_is_in_the_list() {
        let schema = schemars::schema_for!(Scenario);
        let text = serde_json::to_string(&schema).unwrap();
        // What schemars makes of a `PathBuf`, and of the two names that may be files.
        let spec = |of: &str| {
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            value["$defs"][of]["properties"].as_object().unwrap().clone()
        };
        let mut found = Vec::new();
        for (name, at) in [
            ("TrafficSpec", "traffic"),
            ("ForwardingSpec", "function.forward"),
            ("UserPlaneSpec", "function.upf"),
            ("ClassificationSpec", "function.classify"),
            ("InspectionSpec", "function.inspect"),
            ("FilterSpec", "function.firewall"),
            ("TraceSpec", "function.trace"),
        ] {
            for (field, property) in spec(name) {
                let words = property["description"].as_str().unwrap_or_default();
                let is_text = property["type"].to_string().contains("string");
                if is_text
                    && ["capture", "profile", "table", "sessions", "rules", "patterns", "file"]
                        .contains(&field.as_str())
                {
                    found.push(format!("{at}.{field}"));
                }
                assert!(
                    !words.contains("path of") || FileSetting::of(&format!("{at}.{field}")).is_some(),
                    "{at}.{field}"
                );
            }
        }
        found.push("machine.preset".into());
        let mut listed: Vec<&str> = FILES.iter().map(|setting| setting.path).collect();
        found.sort();
        listed.sort();
        assert_eq!(found, listed);
    }

    #[test]
    fn each_is_where_its_path_says() {
        for setting in FILES.iter().filter(|setting| setting.path != "machine.preset") {
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
