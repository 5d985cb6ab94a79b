//! What was there before: on the disk before the first write, so that nothing that ends the daemon loses it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use units::Cbm;

use crate::{DaemonError, Effect};

/// One thing that is changed, and what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A group that was not there.
    Made {
        /// Its name.
        group: String,
    },
    /// A group's ways by domain.
    Masks {
        /// Its name; empty is the root's.
        group: String,
        /// What they were.
        masks: Vec<(u32, Cbm)>,
    },
    /// The register of device ways, by processor.
    Register {
        /// What it held.
        values: Vec<(u32, Cbm)>,
    },
    /// The kernel's ways of devices; none: it was off.
    IoAlloc {
        /// What they were.
        masks: Option<Vec<(u32, Cbm)>>,
    },
}

impl Entry {
    fn is_of_same(&self, other: &Entry) -> bool {
        match (self, other) {
            (Entry::Made { group: a }, Entry::Made { group: b }) => a == b,
            (Entry::Masks { group: a, .. }, Entry::Masks { group: b, .. }) => a == b,
            (Entry::Register { .. }, Entry::Register { .. }) | (Entry::IoAlloc { .. }, Entry::IoAlloc { .. }) => true,
            _ => false,
        }
    }
}

/// All that was changed since the machine was last as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// Of this form.
    pub(crate) version: u32,
    /// The start of the machine that it is of: a new start forgets all settings.
    pub boot: String,
    /// In the order of the first change.
    pub entries: Vec<Entry>,
}

impl Journal {
    /// Whether nothing needs to be put back.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether `entry`'s thing is in it.
    pub fn has(&self, entry: &Entry) -> bool {
        self.entries.iter().any(|e| e.is_of_same(entry))
    }
}

/// The folder of journal, lock and marks.
pub struct StateFolder {
    path: PathBuf,
    _lock: Option<File>,
}

const JOURNAL: &str = "journal.json";
const EFFECT: &str = "io-effect.json";
const VERSION: u32 = 1;

impl StateFolder {
    /// The folder, for looking only.
    pub fn read_only(path: &Path) -> StateFolder {
        StateFolder { path: path.into(), _lock: None }
    }

    /// The folder, made if it is not there, and no other daemon in it until this is dropped.
    ///
    /// # Errors
    /// It cannot be made; another one holds it.
    pub fn lock(path: &Path) -> Result<StateFolder, DaemonError> {
        fs::create_dir_all(path).map_err(|e| DaemonError::file("making", path, e))?;
        let name = path.join("lock");
        let open = OpenOptions::new().create(true).truncate(false).write(true).open(&name);
        let lock = open.map_err(|e| DaemonError::file("opening", &name, e))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(StateFolder { path: path.into(), _lock: Some(lock) }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(DaemonError::Running { path: name.display().to_string() }),
            Err(e) => Err(DaemonError::file("locking", &name, e.into())),
        }
    }

    /// What is to be put back.
    ///
    /// # Errors
    /// A file that is damaged.
    pub fn journal(&self) -> Result<Journal, DaemonError> {
        let path = self.path.join(JOURNAL);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Journal::default()),
            Err(e) => return Err(DaemonError::file("reading", &path, e)),
        };
        let wrong = |why: String| DaemonError::Journal { path: path.display().to_string(), why };
        let journal: Journal = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        if journal.version != VERSION {
            return Err(wrong(format!("version {} came, {VERSION} is known", journal.version)));
        }
        Ok(journal)
    }

    /// Writes a journal: on the disk when this returns. An empty one is removed.
    ///
    /// # Errors
    /// As the system's; the one before is still there then.
    pub fn keep(&self, journal: &Journal) -> Result<(), DaemonError> {
        let path = self.path.join(JOURNAL);
        if journal.is_empty() {
            return match fs::remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(DaemonError::file("removing", &path, e)),
                _ => self.sync(),
            };
        }
        let text = serde_json::to_string_pretty(&Journal { version: VERSION, ..journal.clone() });
        self.replace(JOURNAL, &text.unwrap_or_default())
    }

    /// Whether changes of the ways of devices had an effect on this processor, where that is known.
    pub fn effect(&self, of: &str) -> Option<Effect> {
        let text = fs::read_to_string(self.path.join(EFFECT)).ok()?;
        let (known, effect): (String, Effect) = serde_json::from_str(&text).ok()?;
        (known == of).then_some(effect)
    }

    /// Remembers it.
    ///
    /// # Errors
    /// As the system's.
    pub fn keep_effect(&self, of: &str, effect: Effect) -> Result<(), DaemonError> {
        self.replace(EFFECT, &serde_json::to_string(&(of, effect)).unwrap_or_default())
    }

    fn replace(&self, name: &str, text: &str) -> Result<(), DaemonError> {
        let (path, new) = (self.path.join(name), self.path.join(format!("{name}.new")));
        let written = File::create(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|e| DaemonError::file("writing", &new, e))?;
        fs::rename(&new, &path).map_err(|e| DaemonError::file("writing", &path, e))?;
        self.sync()
    }

    fn sync(&self) -> Result<(), DaemonError> {
        let folder = File::open(&self.path).and_then(|f| f.sync_all());
        folder.map_err(|e| DaemonError::file("writing", &self.path, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_reads_back_equal_and_one_daemon_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::lock(folder.path()).unwrap();
        assert!(matches!(StateFolder::lock(folder.path()), Err(DaemonError::Running { .. })));
        assert!(state.journal().unwrap().is_empty());
        let entries = vec![
            Entry::Made { group: "wirespeed-rx".into() },
            Entry::Masks { group: String::new(), masks: vec![(0, Cbm(0x7ff)), (1, Cbm(0x3))] },
            Entry::Register { values: vec![(0, Cbm(0x600))] },
            Entry::IoAlloc { masks: None },
        ];
        let journal = Journal { version: VERSION, boot: "b".into(), entries };
        state.keep(&journal).unwrap();
        assert_eq!(StateFolder::read_only(folder.path()).journal().unwrap(), journal);
        fs::write(folder.path().join(JOURNAL), "{").unwrap();
        assert!(state.journal().unwrap_err().to_string().contains("by hand"));
        state.keep(&Journal::default()).unwrap();
        assert!(state.journal().unwrap().is_empty());
        state.keep_effect("6/106", Effect::None).unwrap();
        assert_eq!((state.effect("6/106"), state.effect("6/85")), (Some(Effect::None), None));
    }
}
