//! The machine as a tree of files below a root, so that a test's machine can stand in for the real one.

use std::any::Any;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Files below a root, as kernels offer settings and counters. Paths are relative, with `/` between names.
pub trait Tree: Send + Sync {
    /// The whole text of a file.
    ///
    /// # Errors
    /// As the system's.
    fn read(&self, path: &str) -> io::Result<String>;
    /// Writes a text in one call, as kernels want it.
    ///
    /// # Errors
    /// As the system's.
    fn write(&self, path: &str, text: &str) -> io::Result<()>;
    /// Names in a folder, sorted, each with whether it is a folder.
    ///
    /// # Errors
    /// As the system's.
    fn list(&self, path: &str) -> io::Result<Vec<(String, bool)>>;
    /// Makes a folder.
    ///
    /// # Errors
    /// As the system's.
    fn make(&self, path: &str) -> io::Result<()>;
    /// Removes a folder, which a kernel's need not be empty for.
    ///
    /// # Errors
    /// As the system's.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Eight bytes at an offset, little end first.
    ///
    /// # Errors
    /// As the system's.
    fn read_register(&self, path: &str, offset: u64) -> io::Result<u64>;
    /// Writes eight bytes at an offset, little end first.
    ///
    /// # Errors
    /// As the system's.
    fn write_register(&self, path: &str, offset: u64, value: u64) -> io::Result<()>;
    /// Keeps other programs that lock the root out until the answer is dropped.
    ///
    /// # Errors
    /// As the system's; who holds the lock already is [`io::ErrorKind::WouldBlock`].
    fn lock(&self) -> io::Result<Box<dyn Any>>;
    /// Keeps other programs that claim the folder at `path` out until the answer is dropped or this process ends. Nothing else
    /// looks at that lock.
    ///
    /// # Errors
    /// As the system's; who has it already is [`io::ErrorKind::WouldBlock`].
    fn claim(&self, path: &str) -> io::Result<Box<dyn Any + Send>>;
    /// The root, for messages.
    fn root(&self) -> &Path;
}

/// Files below a folder of this machine.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
}

/// No text of a kernel is longer.
const MOST_BYTES: u64 = 16 << 20;

impl Files {
    /// Below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Files {
        Files { root: root.into() }
    }
}

impl Tree for Files {
    fn read(&self, path: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        File::open(self.root.join(path))?.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(self.root.join(path))?;
        // One call: what follows a short write would be another command.
        match file.write(text.as_bytes())? {
            n if n == text.len() => Ok(()),
            n => Err(io::Error::new(io::ErrorKind::WriteZero, format!("{n} of {} bytes were taken", text.len()))),
        }
    }

    fn list(&self, path: &str) -> io::Result<Vec<(String, bool)>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(path))? {
            let entry = entry?;
            // Buses and devices of sysfs are links to folders.
            let is_dir = entry.path().is_dir();
            names.push((entry.file_name().to_string_lossy().into_owned(), is_dir));
        }
        names.sort();
        Ok(names)
    }

    fn make(&self, path: &str) -> io::Result<()> {
        fs::create_dir(self.root.join(path))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.root.join(path))
    }

    fn read_register(&self, path: &str, offset: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        File::open(self.root.join(path))?.read_exact_at(&mut bytes, offset)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn write_register(&self, path: &str, offset: u64, value: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.root.join(path))?;
        file.write_all_at(&value.to_le_bytes(), offset)
    }

    fn lock(&self) -> io::Result<Box<dyn Any>> {
        Ok(Box::new(locked(&self.root)?))
    }

    fn claim(&self, path: &str) -> io::Result<Box<dyn Any + Send>> {
        Ok(Box::new(locked(&self.root.join(path))?))
    }

    fn root(&self) -> &Path {
        &self.root
    }
}

fn locked(folder: &Path) -> io::Result<File> {
    let folder = File::open(folder)?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder)
}
