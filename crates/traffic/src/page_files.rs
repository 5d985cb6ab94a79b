//! Files of a page: bytes by name, in place of a file system, which a browser's module has not.
//!
//! Of the thread alone, and of that there is one: a page gives its files before it asks about them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

thread_local! {
    static FILES: RefCell<HashMap<PathBuf, Arc<[u8]>>> = RefCell::default();
}

/// Keeps `bytes` as the file `path`.
pub fn keep(path: &str, bytes: &[u8]) {
    FILES.with_borrow_mut(|files| _ = files.insert(path.into(), bytes.into()));
}

/// The file `path` from its first byte.
pub(crate) fn open(path: &Path) -> Option<PageFile> {
    FILES.with_borrow(|files| files.get(path).map(|bytes| PageFile { bytes: bytes.clone(), at: 0 }))
}

/// A file that is read.
pub(crate) struct PageFile {
    bytes: Arc<[u8]>,
    at: usize,
}

impl PageFile {
    /// Always.
    pub(crate) fn is_whole(&self) -> bool {
        true
    }
}

impl Read for PageFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = (&self.bytes[self.at..]).read(buffer)?;
        self.at += read;
        Ok(read)
    }
}
