//! A machine of one's own, or a part of one: the file that `machine.preset`, `machine.processor` or `nic.model` names.

/// A file of one's own: a machine's, or a part's.
#[derive(Clone, Debug)]
pub(super) struct OwnFile {
    pub name: String,
    /// Without what it stands on.
    pub says: toml::Table,
}

/// The text of the file.
///
/// # Errors
/// A file that is not there, or is no text, in words.
pub(crate) fn text(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{path}: cannot be read: {e}"))
}

#[cfg(test)]
mod tests {
    use crate::{Overrides, Scenario};

    #[test]
    fn a_machine_of_ones_own_is_taken_from_its_file() {
        let folder = std::env::temp_dir().join(format!("wirespeed-own-machine-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let preset = crate::scenario::MACHINES[0].text.replace("cores = 4", "cores = 3");
        std::fs::write(folder.join("mine.toml"), preset).unwrap();
        let origin = folder.join("s.toml");
        let text = "[machine]\npreset = \"mine.toml\"\n";
        let scenario = Scenario::read(text, origin.to_str().unwrap(), &Overrides::default()).unwrap();
        assert_eq!(scenario.machine.cores, 3);
        let again = Scenario::read(&scenario.to_toml(), "elsewhere", &Overrides::default()).unwrap();
        assert_eq!(again, scenario);
        let set = vec![format!("machine.preset={}", folder.join("mine.toml").display())];
        let overridden = Scenario::read("", "s.toml", &Overrides { set, ..Overrides::default() }).unwrap();
        assert_eq!(overridden.machine, scenario.machine);
        std::fs::remove_dir_all(&folder).unwrap();
        let gone = Scenario::read(text, origin.to_str().unwrap(), &Overrides::default()).unwrap_err().to_string();
        assert!(gone.contains("mine.toml: cannot be read"), "{gone}");
    }
}
