//! The machine's files for other programs, by FUSE. A thin shell: all it knows is which path a node is.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH as NO_TIME};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::FakeHost;

/// A mounted machine: below its folder are `resctrl`, `cpu` and `proc`. Dropped, it is unmounted.
pub struct Mounted {
    session: Option<BackgroundSession>,
}

impl Mounted {
    /// Mounts it.
    ///
    /// # Errors
    /// No FUSE here (`/dev/fuse`, `fusermount3` or root's rights), or no such folder.
    pub fn at(host: &FakeHost, folder: &Path) -> io::Result<Mounted> {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("fakehost".into()), MountOption::NoAtime];
        // One that hangs leaves others.
        config.n_threads = Some(3);
        let paths = Mutex::new(Paths::default());
        let session = fuser::spawn_mount(Shell { host: host.clone(), paths }, folder, &config)?;
        Ok(Mounted { session: Some(session) })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            // A busy mount is left to the end of the process.
            let _ = session.umount_and_join();
        }
    }
}

struct Shell {
    host: FakeHost,
    paths: Mutex<Paths>,
}

/// Nodes get numbers as they are looked up, and keep them.
struct Paths {
    numbers: HashMap<String, u64>,
    paths: Vec<String>,
}

impl Default for Paths {
    fn default() -> Paths {
        Paths { numbers: HashMap::from([(String::new(), 1)]), paths: vec![String::new(), String::new()] }
    }
}

impl Paths {
    fn number(&mut self, path: &str) -> u64 {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        let number = self.paths.len() as u64;
        self.paths.push(path.into());
        self.numbers.insert(path.into(), number);
        number
    }
}

/// Nothing is cached: others change files too.
const TTL: Duration = Duration::ZERO;

impl Shell {
    fn paths(&self) -> MutexGuard<'_, Paths> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, node: INodeNo) -> Result<String, Errno> {
        self.paths().paths.get(u64::from(node) as usize).cloned().ok_or(Errno::ENOENT)
    }

    fn below(&self, parent: INodeNo, name: &OsStr) -> Result<String, Errno> {
        let (parent, name) = (self.path(parent)?, name.to_str().ok_or(Errno::EINVAL)?);
        Ok(if parent.is_empty() { name.into() } else { format!("{parent}/{name}") })
    }

    fn attributes(&self, path: &str) -> Result<FileAttr, Errno> {
        let is_dir = if path.is_empty() {
            true
        } else {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            let siblings = self.host.list(parent).map_err(Errno::from_i32)?;
            siblings.into_iter().find(|(n, _)| n == name).ok_or(Errno::ENOENT)?.1
        };
        let read_only = path.starts_with("resctrl/info") || path.starts_with("proc") || path.ends_with("/size");
        let writable_info = ["max_threshold_occupancy", "io_alloc", "io_alloc_cbm"].iter().any(|f| path.ends_with(f));
        let perm = match (is_dir, read_only && !writable_info) {
            (true, _) => 0o755,
            (false, true) => 0o444,
            (false, false) => 0o644,
        };
        Ok(FileAttr {
            ino: INodeNo(self.paths().number(path)),
            size: 0,
            blocks: 0,
            atime: NO_TIME,
            mtime: NO_TIME,
            ctime: NO_TIME,
            crtime: NO_TIME,
            kind: if is_dir { FileType::Directory } else { FileType::RegularFile },
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for Shell {
    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.below(parent, name).and_then(|path| self.attributes(&path)) {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(e) => reply.error(e),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.path(ino).and_then(|path| self.attributes(&path)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(e) => reply.error(e),
        }
    }

    /// A file that is opened to be written is truncated first, which changes nothing.
    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.getattr(req, ino, fh, reply);
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let path = match self.path(ino) {
            Ok(path) => path,
            Err(e) => return reply.error(e),
        };
        if path.ends_with("/msr") {
            return match self.host.read_register(&path, offset) {
                Ok(value) => reply.data(&value.to_le_bytes()[..(size as usize).min(8)]),
                Err(errno) => reply.error(Errno::from_i32(errno)),
            };
        }
        while self.host.hangs(&path) {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        // A later part of a text is of the same reading only where it fits one buffer, as all of them do.
        match self.host.read(&path) {
            Ok(text) => {
                let from = (offset as usize).min(text.len());
                let to = (from + size as usize).min(text.len());
                reply.data(&text.as_bytes()[from..to]);
            }
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let done = self.path(ino).and_then(|path| {
            if path.ends_with("/msr") {
                let value = data.try_into().map(u64::from_le_bytes).map_err(|_| Errno::EINVAL)?;
                return self.host.write_register(&path, offset, value).map(|_| ()).map_err(Errno::from_i32);
            }
            let text = std::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
            self.host.write(&path, text).map_err(Errno::from_i32)
        });
        match done {
            Ok(()) => reply.written(data.len() as u32),
            Err(e) => reply.error(e),
        }
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listed = self.path(ino).and_then(|path| Ok((self.host.list(&path).map_err(Errno::from_i32)?, path)));
        let (entries, path) = match listed {
            Ok(listed) => listed,
            Err(e) => return reply.error(e),
        };
        let dots = [(".".to_string(), true), ("..".to_string(), true)];
        for (i, (name, is_dir)) in dots.into_iter().chain(entries).enumerate().skip(offset as usize) {
            let own = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            let number = if name.starts_with('.') { u64::from(ino) } else { self.paths().number(&own) };
            let kind = if is_dir { FileType::Directory } else { FileType::RegularFile };
            if reply.add(INodeNo(number), i as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn mkdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, _mode: u32, _umask: u32, reply: ReplyEntry) {
        let made = self.below(parent, name).and_then(|path| {
            self.host.make(&path).map_err(Errno::from_i32)?;
            self.attributes(&path)
        });
        match made {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(e) => reply.error(e),
        }
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.below(parent, name).and_then(|path| self.host.remove(&path).map_err(Errno::from_i32)) {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(e),
        }
    }
}
