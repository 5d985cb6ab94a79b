//! What was there before: on the disk before the first write, so that nothing that ends the daemon loses it.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};
use units::Cbm;

use crate::{DaemonError, Effect};

/// One thing that is changed, and what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum JournalEntry {
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
        /// The domains in which it is set, those too that were offline; none: all that there are or that come.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        domains: Option<BTreeSet<u32>>,
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
        /// As of masks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        domains: Option<BTreeSet<u32>>,
    },
}

impl JournalEntry {
    fn is_of_same(&self, other: &JournalEntry) -> bool {
        match (self, other) {
            (JournalEntry::Made { group: a }, JournalEntry::Made { group: b }) => a == b,
            (JournalEntry::Masks { group: a, .. }, JournalEntry::Masks { group: b, .. }) => a == b,
            (JournalEntry::Register { .. }, JournalEntry::Register { .. })
            | (JournalEntry::IoAlloc { .. }, JournalEntry::IoAlloc { .. }) => true,
            _ => false,
        }
    }
}

/// All that was changed since the machine was last as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// Of this form.
    pub(crate) version: u32,
    /// The start of the machine that it is of: a new start forgets all settings.
    pub boot: String,
    /// In the order of the first change.
    pub entries: Vec<JournalEntry>,
    /// CRC-32 of the others as [`Journal::sum`] writes them, in eight digits of hex. Journals of version 1 have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) crc32: Option<String>,
}

impl Journal {
    /// Of the text of a file, whose groups' names begin with `prefix`.
    ///
    /// # Errors
    /// Why it cannot be trusted.
    pub fn parse(text: &[u8], prefix: &str) -> Result<Journal, String> {
        let journal: Journal = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        match journal.flaw(prefix) {
            Some(why) => Err(why),
            None => Ok(journal),
        }
    }

    /// Whether nothing needs to be put back.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether `entry`'s thing is in it.
    pub fn has(&self, entry: &JournalEntry) -> bool {
        self.entries.iter().any(|e| e.is_of_same(entry))
    }

    /// The checksum of what it says, however its text is laid out.
    fn sum(&self) -> String {
        let content = serde_json::to_vec(&(self.version, &self.boot, &self.entries)).unwrap_or_default();
        format!("{:08x}", crc32fast::hash(&content))
    }

    /// Why it cannot be trusted, if it cannot: names in it become paths.
    fn flaw(&self, prefix: &str) -> Option<String> {
        match (self.version, &self.crc32) {
            (VERSION | ALL_DOMAINS, Some(sum)) if *sum == self.sum() => {}
            (VERSION | ALL_DOMAINS, Some(sum)) => {
                return Some(format!("its checksum is {sum}, that of its text {}", self.sum()));
            }
            (VERSION | ALL_DOMAINS, None) => return Some("it has no checksum".into()),
            // Of a wirespeedd that wrote none: what it says is all there is.
            (UNSUMMED, None) => {}
            (UNSUMMED, Some(_)) => return Some(format!("version {UNSUMMED} has no checksum, and it has one")),
            (other, _) => return Some(format!("version {other} came, {UNSUMMED} to {VERSION} are known")),
        }
        let names = self.entries.iter().filter_map(|entry| match entry {
            JournalEntry::Made { group } => Some(group),
            // The root's group has no name.
            JournalEntry::Masks { group, .. } => Some(group).filter(|g| !g.is_empty()),
            JournalEntry::Register { .. } | JournalEntry::IoAlloc { .. } => None,
        });
        let mut foreign = names.filter(|name| !is_name(name) || !name.starts_with(prefix));
        foreign.next().map(|name| {
            format!("group {name:?} is none of the daemon's, whose names begin with {prefix:?} (prefix in the configuration)")
        })
    }
}

/// Whether it can be a group's name below resctrl's root: no path leads out of there.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && !["info", "mon_groups", "mon_data"].contains(&name)
}

/// The folder of journal, lock and marks.
pub struct StateFolder {
    path: PathBuf,
    _lock: Option<File>,
}

const JOURNAL: &str = "journal.json";
const EFFECT: &str = "io-effect.json";
const VERSION: u32 = 3;
/// The version before masks of some domains only.
const ALL_DOMAINS: u32 = 2;
/// The version before checksums.
const UNSUMMED: u32 = 1;
/// No file of the daemon's is longer.
const MOST_BYTES: u64 = 1 << 20;
/// Nobody else reads or writes what the daemon keeps.
const OWN: u32 = 0o600;

impl StateFolder {
    /// The folder, for looking only.
    pub fn read_only(path: &Path) -> StateFolder {
        StateFolder { path: path.into(), _lock: None }
    }

    /// The folder, made if it is not there, and no other daemon in it until this is dropped.
    ///
    /// # Errors
    /// It cannot be made; others may write it; another one holds it.
    pub fn lock(path: &Path) -> Result<StateFolder, DaemonError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|e| DaemonError::file("making", path, e))?;
        check_folder(path)?;
        let name = path.join("lock");
        let open = own().create(true).truncate(false).write(true).open(&name);
        let lock = open.map_err(|e| DaemonError::file("opening", &name, e))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(StateFolder { path: path.into(), _lock: Some(lock) }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(DaemonError::Running { path: name.display().to_string() }),
            Err(e) => Err(DaemonError::file("locking", &name, e.into())),
        }
    }

    /// What is to be put back; its groups' names begin with `prefix`.
    ///
    /// # Errors
    /// A file that is damaged, or names groups that are not the daemon's.
    pub fn journal(&self, prefix: &str) -> Result<Journal, DaemonError> {
        let path = self.path.join(JOURNAL);
        let text = match read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Journal::default()),
            Err(e) => return Err(DaemonError::file("reading", &path, e)),
        };
        Journal::parse(&text, prefix).map_err(|why| DaemonError::Journal { path: path.display().to_string(), why })
    }

    /// Writes a journal: on the disk when this returns. An empty one is removed.
    ///
    /// # Errors
    /// As the system's; the one before is still there then.
    pub fn keep(&self, journal: &Journal) -> Result<(), DaemonError> {
        let path = self.path.join(JOURNAL);
        if journal.is_empty() {
            return match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(DaemonError::file("removing", &path, e)),
                _ => self.sync(),
            };
        }
        let mut journal = Journal { version: VERSION, ..journal.clone() };
        journal.crc32 = Some(journal.sum());
        let text = serde_json::to_string_pretty(&journal);
        self.replace(JOURNAL, &text.unwrap_or_default())
    }

    /// Whether changes of the ways of devices had an effect on this processor, where that is known.
    pub fn effect(&self, of: &str) -> Option<Effect> {
        let text = read(&self.path.join(EFFECT)).ok()?;
        let (known, effect): (String, Effect) = serde_json::from_slice(&text).ok()?;
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
        let write = || {
            // What a write that was cut short has left; a link in its place is not followed.
            match fs::remove_file(&new) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            let mut file = own().create_new(true).write(true).open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        let written = write();
        written.map_err(|e| DaemonError::file("writing", &new, e))?;
        fs::rename(&new, &path).map_err(|e| DaemonError::file("writing", &path, e))?;
        self.sync()
    }

    fn sync(&self) -> Result<(), DaemonError> {
        let folder = File::open(&self.path).and_then(|f| f.sync_all());
        folder.map_err(|e| DaemonError::file("writing", &self.path, e))
    }
}

/// How the daemon's own files are opened: no link is followed.
fn own() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(OWN).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    own().read(true).open(path)?.take(MOST_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// Who may write the folder may say what is to be put back.
fn check_folder(path: &Path) -> Result<(), DaemonError> {
    let of = fs::metadata(path).map_err(|e| DaemonError::file("reading", path, e))?;
    let us = rustix::process::geteuid().as_raw();
    let allowed = match (of.uid(), of.mode() & 0o022) {
        (owner, 0) if owner == us || owner == 0 => return Ok(()),
        (owner, 0) => format!("it belongs to user {owner}: a folder of root's, or of who runs wirespeedd, is wanted"),
        _ => format!("others may write it (mode {:o}): chmod go-w {}", of.mode() & 0o7777, path.display()),
    };
    Err(DaemonError::Setting { path: "state".into(), came: path.display().to_string(), allowed })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "wirespeed-";

    /// In memory where possible: what is put on the disk for certain takes its time there.
    fn folder() -> tempfile::TempDir {
        tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
    }

    fn written(folder: &Path) -> (StateFolder, Journal) {
        let entries = vec![
            JournalEntry::Made { group: "wirespeed-rx".into() },
            JournalEntry::Masks { group: String::new(), masks: vec![(0, Cbm(0x7ff)), (1, Cbm(0x3))], domains: None },
            JournalEntry::Masks {
                group: "wirespeed-tx".into(),
                masks: vec![(1, Cbm(0x7f))],
                domains: Some([1, 2].into()),
            },
            JournalEntry::Register { values: vec![(0, Cbm(0x600))] },
            JournalEntry::IoAlloc { masks: None, domains: Some([0].into()) },
        ];
        let mut journal = Journal { version: VERSION, boot: "5dd6bd45-8a1c".into(), entries, crc32: None };
        journal.crc32 = Some(journal.sum());
        let state = StateFolder::lock(&folder.join("state")).unwrap();
        state.keep(&journal).unwrap();
        (state, journal)
    }

    #[test]
    fn a_journal_reads_back_equal_and_one_daemon_holds_it() {
        let folder = folder();
        let (state, journal) = written(folder.path());
        assert!(matches!(StateFolder::lock(&state.path), Err(DaemonError::Running { .. })));
        assert_eq!(StateFolder::read_only(&state.path).journal(PREFIX).unwrap(), journal);
        fs::write(state.path.join(JOURNAL), "{").unwrap();
        assert!(state.journal(PREFIX).unwrap_err().to_string().contains("by hand"));
        state.keep(&Journal::default()).unwrap();
        assert!(state.journal(PREFIX).unwrap().is_empty());
        state.keep_effect("6/106", Effect::None).unwrap();
        assert_eq!((state.effect("6/106"), state.effect("6/85")), (Some(Effect::None), None));
    }

    #[test]
    fn every_bit_that_flips_and_every_cut_is_refused_or_changes_nothing() {
        let folder = folder();
        let (state, journal) = written(folder.path());
        let path = state.path.join(JOURNAL);
        let text = fs::read(&path).unwrap();
        let mut harmless = 0;
        for i in 0..text.len() * 8 {
            let mut flipped = text.clone();
            flipped[i / 8] ^= 1 << (i % 8);
            fs::write(&path, &flipped).unwrap();
            match state.journal(PREFIX) {
                Ok(read) => {
                    assert_eq!(read, journal, "bit {} of byte {}", i % 8, i / 8);
                    harmless += 1;
                }
                Err(why) => assert!(matches!(why, DaemonError::Journal { .. }), "{why}"),
            }
        }
        println!("{} flips, {harmless} of them change nothing", text.len() * 8);
        for n in 0..text.len() {
            fs::write(&path, &text[..n]).unwrap();
            assert!(matches!(state.journal(PREFIX), Err(DaemonError::Journal { .. })), "the first {n} bytes");
        }
    }

    #[test]
    fn a_journal_without_a_checksum_is_one_of_before() {
        let folder = folder();
        let (state, journal) = written(folder.path());
        let path = state.path.join(JOURNAL);
        let write = |version, crc32| {
            let text = serde_json::to_string(&Journal { version, crc32, ..journal.clone() }).unwrap();
            fs::write(&path, text).unwrap();
            state.journal(PREFIX).map_err(|e| e.to_string())
        };
        assert_eq!(write(UNSUMMED, None).unwrap().entries, journal.entries);
        assert!(write(UNSUMMED, journal.crc32.clone()).unwrap_err().contains("version 1 has no checksum"));
        assert!(write(VERSION, None).unwrap_err().contains("it has no checksum"));
        assert!(write(4, None).unwrap_err().contains("version 4 came, 1 to 3 are known"));
    }

    #[test]
    fn groups_that_are_not_the_daemons_are_refused() {
        let folder = folder();
        let (state, _) = written(folder.path());
        let refused = |entry: JournalEntry| {
            state.keep(&Journal { entries: vec![entry], ..Journal::default() }).unwrap();
            state.journal(PREFIX).map(|_| ()).map_err(|e| e.to_string())
        };
        let masks = |group: &str| JournalEntry::Masks { group: group.into(), masks: vec![(0, Cbm(1))], domains: None };
        for name in
            ["/etc", "../../victim", "wirespeed-/../..", "wirespeed-a/b", "info", "guaranteed", ".", "wirespeed-\0"]
        {
            let why = refused(masks(name)).unwrap_err();
            assert!(why.contains("is none of the daemon's") && why.contains("by hand"), "{name}: {why}");
            assert!(refused(JournalEntry::Made { group: name.into() }).is_err(), "{name}");
        }
        assert!(refused(JournalEntry::Made { group: String::new() }).is_err(), "nobody makes the root's group");
        assert_eq!(refused(masks("")), Ok(()));
        assert_eq!(refused(masks("wirespeed-rx.1")), Ok(()));
    }

    #[test]
    fn links_are_not_followed() {
        let folder = folder();
        let victim = folder.path().join("victim");
        fs::write(&victim, "as it was").unwrap();
        let path = folder.path().join("state");
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        std::os::unix::fs::symlink(&victim, path.join("lock")).unwrap();
        assert!(matches!(StateFolder::lock(&path), Err(DaemonError::File { doing: "opening", .. })));
        fs::remove_file(path.join("lock")).unwrap();
        std::os::unix::fs::symlink(&victim, path.join("journal.json.new")).unwrap();
        let (state, journal) = written(folder.path());
        assert_eq!(state.journal(PREFIX).unwrap(), journal);
        fs::rename(path.join(JOURNAL), folder.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), path.join(JOURNAL)).unwrap();
        assert!(matches!(state.journal(PREFIX), Err(DaemonError::File { doing: "reading", .. })));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "as it was");
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused() {
        let folder = folder();
        let path = folder.path().join("state");
        for mode in [0o777, 0o1777, 0o720] {
            let _ = fs::create_dir(&path);
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            let why = StateFolder::lock(&path).err().expect("it is refused").to_string();
            assert!(why.starts_with("state = ") && why.contains("chmod go-w"), "{why}");
        }
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert!(StateFolder::lock(&path).is_ok());
    }
}
