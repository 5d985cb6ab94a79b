//! A folder with warm machines that others begin near, for all processes that use it, now or later.
//!
//! A file is written under another name and renamed. It is not synchronized: what a power cut leaves of it is known by its hash
//! and made again. Who makes a file has its lock meanwhile, which a process that is killed leaves behind open. Where there is
//! no such folder, or it may not be written to, each process makes what it needs.

use std::any::Any;
use std::fs::{self, DirBuilder, File, Metadata, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use sim::{BaseClaim, BaseStore};
use state::StateError;

/// Bytes of all files together; those that were used least lately go first.
const MOST_BYTES: u64 = 1 << 30;
/// A file that is being written for longer is what a kill left.
const STALE: Duration = Duration::from_secs(3600);
const WARM: &str = "warm";
const LOCK: &str = "lock";
const PART: &str = "part";
/// Of what found no room: nobody waits for it.
const NO_ROOM: &str = "no-room";
/// Bits of a mode that let others write.
const OF_OTHERS: u32 = 0o022;

/// See the module header.
pub struct WarmFolder {
    path: PathBuf,
    refused: Mutex<Vec<String>>,
}

/// Leave to make a file. Others that wait for it go on when it is dropped.
struct Making {
    lock: PathBuf,
    _held: File,
}

impl Drop for Making {
    fn drop(&mut self) {
        // Whoever has opened it makes the same at worst.
        let _ = fs::remove_file(&self.lock);
    }
}

impl WarmFolder {
    /// That at `path`, which need not be there.
    pub fn new(path: PathBuf) -> WarmFolder {
        WarmFolder { path, refused: Mutex::default() }
    }

    /// Files that were not used since this was asked last, each with the reason.
    pub fn refused(&self) -> Vec<String> {
        std::mem::take(&mut *self.refused.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.path.join(format!("{name}.{kind}"))
    }

    /// Whether nobody else may put files here. One that is not there yet will be ours.
    fn is_ours(&self) -> bool {
        let Ok(folder) = fs::metadata(&self.path) else { return true };
        fs::metadata("/proc/self").is_ok_and(|us| us.uid() == folder.uid()) && folder.mode() & OF_OTHERS == 0
    }

    /// What is there, which counts as used now.
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        if !self.is_ours() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let path = self.file(name, WARM);
        let bytes = fs::read(&path)?;
        // Of a folder that may only be read the order of use is not kept.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Ok(bytes)
    }

    /// Leave to make a file; [`None`] if somebody else has it.
    fn leave(&self, name: &str) -> io::Result<Option<Making>> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        let lock = self.file(name, LOCK);
        let held = File::options().create(true).append(true).open(&lock)?;
        match held.try_lock() {
            Ok(()) => Ok(Some(Making { lock, _held: held })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // Processes in containers share a home, and numbers.
        let part = self.path.join(format!(".{name}.{:016x}.{PART}", RandomState::new().hash_one(name)));
        let written = File::options().write(true).create_new(true).open(&part);
        let written = written.and_then(|mut file| file.write_all(bytes));
        let written = written.and_then(|()| fs::rename(&part, self.file(name, WARM)));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written
    }

    /// Removes what was used least lately until all that is left is not too much, and what kills have left.
    fn bound(&self, most: u64) -> io::Result<()> {
        let (mut kept, mut left) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            let Ok(about) = path.symlink_metadata() else { continue };
            let kind = path.extension().and_then(|kind| kind.to_str());
            match kind {
                Some(WARM) if about.is_file() => kept.push((modified(&about), about.len(), path)),
                Some(LOCK | PART | NO_ROOM) if about.is_file() => left.push((modified(&about), path)),
                _ => {}
            }
        }
        kept.sort_unstable();
        let Some(&(newest, ..)) = kept.last() else { return Ok(()) };
        for (_, path) in left.iter().filter(|(at, _)| newest.duration_since(*at).is_ok_and(|age| age > STALE)) {
            let _ = fs::remove_file(path);
        }
        let mut sum: u64 = kept.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in &kept {
            if sum <= most {
                break;
            }
            let _ = fs::remove_file(path);
            sum -= bytes;
        }
        Ok(())
    }
}

fn modified(about: &Metadata) -> SystemTime {
    about.modified().unwrap_or(SystemTime::UNIX_EPOCH)
}

impl BaseStore for WarmFolder {
    fn build(&self) -> &str {
        crate::COMMIT
    }

    fn claim(&self, name: &str) -> BaseClaim {
        let free: Box<dyn Any> = Box::new(());
        if let Ok(bytes) = self.read(name) {
            return BaseClaim::Kept(bytes);
        }
        let has_no_room = self
            .file(name, NO_ROOM)
            .metadata()
            .is_ok_and(|about| SystemTime::now().duration_since(modified(&about)).is_ok_and(|age| age < STALE));
        if has_no_room || !self.is_ours() {
            return BaseClaim::Make(free);
        }
        match self.leave(name) {
            // It may have been made between the two looks.
            Ok(Some(making)) => self.read(name).map_or_else(|_| BaseClaim::Make(Box::new(making)), BaseClaim::Kept),
            Ok(None) => BaseClaim::Busy,
            Err(_) => BaseClaim::Make(free),
        }
    }

    fn keep(&self, name: &str, bytes: &[u8]) {
        if !self.is_ours() {
            return;
        }
        let has_room = bytes.len() as u64 <= MOST_BYTES && self.write(name, bytes).is_ok();
        let _ = self.bound(MOST_BYTES);
        if !has_room {
            let _ = File::create(self.file(name, NO_ROOM));
        }
    }

    fn refuse(&self, name: &str, why: &StateError) {
        let path = self.file(name, WARM);
        let note = format!("{}: {why}; it is made again", path.display());
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(note);
        let _ = fs::remove_file(path);
    }
}
