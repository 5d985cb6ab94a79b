//! The machine whole: its files, time, faults, and a list of what was written.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use host::Tree;
use libc::{EACCES, EINVAL, EIO, EISDIR, ENOENT, ENOTDIR};
use units::{Cbm, Ps};

use crate::resctrl::Errno;
use crate::{FakeResctrl, MeanField, Plant, Register, ResctrlSettings, Spec, Tenant};

/// A part of the machine that has a root of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRoot {
    /// `/sys/fs/resctrl`.
    Resctrl,
    /// `/dev/cpu`.
    DevCpu,
    /// `/proc`, of which there are `cpuinfo` and `filesystems`.
    Proc,
    /// `/sys`, of which there are processors' last-level caches.
    Sys,
}

impl FileRoot {
    const ALL: [FileRoot; 4] = [FileRoot::Resctrl, FileRoot::DevCpu, FileRoot::Proc, FileRoot::Sys];

    /// The folder that it is in, below the root of all.
    pub fn folder(self) -> &'static str {
        match self {
            FileRoot::Resctrl => "resctrl",
            FileRoot::DevCpu => "cpu",
            FileRoot::Proc => "proc",
            FileRoot::Sys => "sys",
        }
    }
}

/// What goes wrong.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Errors to come: for paths that contain the text, written to (or made, removed) if the flag is set and read if not; the
    /// error number, and how many times.
    pub errors: Vec<(String, bool, i32, u32)>,
    /// From this operation on nothing is answered: whoever asks has died.
    pub dead_from: Option<u64>,
    /// Before this operation somebody else writes these masks into this group.
    pub foreign: Vec<(u64, String, Cbm)>,
    /// Monitoring data reads "Unavailable".
    pub unavailable: bool,
    /// Counters stay where they are.
    pub stuck: bool,
    /// Counters cannot be read.
    pub missing: bool,
    /// Counters that servers do not offer, by name: `busy` is DPDK before 23.03.
    pub absent: Vec<&'static str>,
    /// Reads of paths that contain this do not return before it is changed, for other programs (by FUSE).
    pub hang: Option<String>,
    /// Writes are not listed.
    pub quiet: bool,
}

/// A write, with what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileWrite {
    /// Of which part.
    pub path: String,
    /// The text; of a register its value in hex.
    pub text: String,
    /// The error number, 0 if it was taken.
    pub errno: i32,
}

/// A machine that several may hold.
#[derive(Clone)]
pub struct FakeHost(Arc<Mutex<Inner>>);

struct Inner {
    resctrl: FakeResctrl,
    plant: Box<dyn Plant>,
    /// The register, by package.
    registers: Vec<u64>,
    faults: Faults,
    operations: u64,
    writes: Vec<FileWrite>,
    frozen: BTreeMap<&'static str, u64>,
    /// Who has claimed resctrl, while he has.
    claim: Weak<()>,
    now: Ps,
    /// How much time passes with each reading of counters.
    pace: Ps,
}

/// Kept of the list of writes.
const MOST_WRITES: usize = 100_000;
/// The register of device ways.
const REGISTER: u64 = host::IO_WAYS_MSR;

impl FakeHost {
    /// A machine after its start, in mean field.
    pub fn new(spec: Spec) -> FakeHost {
        let plant = MeanField::new(spec.plant.clone(), spec.ways);
        FakeHost::with_plant(spec, Box::new(plant))
    }

    /// A machine after its start, on which `plant` runs.
    pub fn with_plant(spec: Spec, plant: Box<dyn Plant>) -> FakeHost {
        let tasks: Vec<u32> = plant.programs().into_iter().flat_map(|p| p.tasks).collect();
        FakeHost(Arc::new(Mutex::new(Inner {
            plant,
            registers: vec![u64::from(spec.io_ways.0); spec.domains as usize],
            resctrl: FakeResctrl::new(spec, tasks),
            faults: Faults::default(),
            operations: 0,
            writes: Vec::new(),
            frozen: BTreeMap::new(),
            claim: Weak::new(),
            now: Ps::ZERO,
            pace: Ps::ZERO,
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its files, in memory.
    pub fn tree(&self, part: FileRoot) -> Arc<dyn Tree> {
        Arc::new(InMemory { host: self.clone(), part, root: PathBuf::from("/fake").join(part.folder()) })
    }

    /// The settings of resctrl.
    pub fn state(&self) -> ResctrlSettings {
        self.inner().resctrl.state()
    }

    /// What the register of each package holds.
    pub fn registers(&self) -> Vec<u64> {
        self.inner().registers.clone()
    }

    /// Changes what goes wrong.
    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        let mut inner = self.inner();
        change(&mut inner.faults);
        if inner.faults.stuck {
            inner.frozen = inner.plant.totals();
        } else {
            inner.frozen.clear();
        }
    }

    /// How many files have been read and written.
    pub fn operations(&self) -> u64 {
        self.inner().operations
    }

    /// What was written, oldest first.
    pub fn writes(&self) -> Vec<FileWrite> {
        self.inner().writes.clone()
    }

    /// Masks that were refused for their form: gaps, too few ways, ways that there are not.
    pub fn bad_masks(&self) -> u64 {
        self.inner().resctrl.bad_masks
    }

    /// A package's last processor goes offline, or comes back.
    pub fn set_domain(&self, domain: u32, is_there: bool) {
        self.inner().resctrl.set_domain(domain, is_there);
    }

    /// Offers other packets from now on.
    pub fn offer(&self, pps: f64, packet_bytes: f64) {
        self.inner().plant.offer(pps, packet_bytes);
    }

    /// Lets time pass.
    pub fn advance(&self, by: Ps) {
        self.inner().advance(by);
    }

    /// With each reading of counters by a server, this much time passes.
    pub fn set_pace(&self, pace: Ps) {
        self.inner().pace = pace;
    }

    /// What the counters of program, devices and memory read, by name; time passes first, by the pace. [`None`] while they are
    /// missing.
    pub fn counters(&self) -> Option<BTreeMap<&'static str, u64>> {
        let mut inner = self.inner();
        let pace = inner.pace;
        inner.advance(pace);
        inner.counters()
    }

    /// The same, without time passing.
    pub fn counters_now(&self) -> Option<BTreeMap<&'static str, u64>> {
        self.inner().counters()
    }

    /// Bytes in the cache of the group of each program, and of devices last.
    pub fn occupancy(&self) -> Vec<f64> {
        let inner = self.inner();
        let owners = inner.owners();
        let programs = owners.iter().map(|owner| inner.plant.occupancy(*owner, &owners));
        programs.chain([inner.plant.io_occupancy()]).collect()
    }

    #[cfg(feature = "fuse")]
    pub(crate) fn hangs(&self, path: &str) -> bool {
        self.inner().faults.hang.as_ref().is_some_and(|h| path.contains(h.as_str()))
    }

    pub(crate) fn read(&self, path: &str) -> Result<String, Errno> {
        self.inner().read(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> Result<(), Errno> {
        self.inner().write(path, text)
    }

    pub(crate) fn list(&self, path: &str) -> Result<Vec<(String, bool)>, Errno> {
        self.inner().list(path)
    }

    pub(crate) fn make(&self, path: &str) -> Result<(), Errno> {
        self.inner().change(path, "mkdir", |r, p| r.make(p))
    }

    pub(crate) fn remove(&self, path: &str) -> Result<(), Errno> {
        self.inner().change(path, "rmdir", |r, p| r.remove(p))
    }

    pub(crate) fn read_register(&self, path: &str, offset: u64) -> Result<u64, Errno> {
        self.inner().register(path, offset, None)
    }

    pub(crate) fn write_register(&self, path: &str, offset: u64, value: u64) -> Result<u64, Errno> {
        self.inner().register(path, offset, Some(value))
    }
}

impl Inner {
    fn advance(&mut self, by: Ps) {
        self.now += by;
        let io = match self.resctrl.spec.register {
            Register::Works => Cbm(self.registers.first().map_or(0, |r| *r as u32)),
            Register::NoEffect => self.resctrl.spec.io_ways,
            Register::Absent if self.resctrl.io_alloc => self.resctrl.masks[self.resctrl.io_closid()][0],
            Register::Absent => self.resctrl.spec.full(),
        };
        let tenants: Vec<Tenant> = self
            .places()
            .into_iter()
            .map(|(class, owner)| Tenant { ways: self.resctrl.masks[class as usize][0], owner })
            .collect();
        self.plant.advance(by, &tenants, io);
        for free in self.resctrl.drain(|rmid| self.plant.left_behind(rmid as u8)) {
            self.plant.forget(free as u8);
        }
    }

    /// The class of each program, and under what its lines count: a monitoring id, or the class where there are none.
    fn places(&self) -> Vec<(u32, u8)> {
        let of = |p: crate::HostProgram| {
            let (task, cpu) = (p.tasks.first().copied(), p.cpus.first().copied().unwrap_or(0));
            let (class, rmid) = self.resctrl.place_of(task, cpu);
            (class, rmid.unwrap_or(class) as u8)
        };
        self.plant.programs().into_iter().map(of).collect()
    }

    fn owners(&self) -> Vec<u8> {
        self.places().into_iter().map(|(_, owner)| owner).collect()
    }

    fn counters(&self) -> Option<BTreeMap<&'static str, u64>> {
        match (self.faults.missing, self.faults.stuck) {
            (true, _) => None,
            (_, true) => Some(self.frozen.clone()),
            _ => {
                let mut totals = self.plant.totals();
                totals.retain(|name, _| !self.faults.absent.contains(name));
                Some(totals)
            }
        }
    }

    /// Counts an operation, lets others write first, and fails it if it is to fail.
    fn begin(&mut self, path: &str, is_write: bool) -> Result<(), Errno> {
        self.operations += 1;
        let now = self.operations;
        if self.faults.dead_from.is_some_and(|from| now >= from) {
            return Err(EIO);
        }
        let due: Vec<_> = self.faults.foreign.iter().filter(|(at, ..)| *at <= now).cloned().collect();
        self.faults.foreign.retain(|(at, ..)| *at > now);
        for (_, group, mask) in due {
            let domains = self.resctrl.domains.clone();
            let text = domains.iter().map(|d| format!("{d}={:x}", mask.0)).collect::<Vec<_>>().join(";");
            let path = if group.is_empty() { "schemata".into() } else { format!("{group}/schemata") };
            let _ = self.resctrl.write(&path, &format!("L3:{text}\n"));
        }
        let fault = self
            .faults
            .errors
            .iter_mut()
            .find(|(p, w, _, left)| *left > 0 && *w == is_write && path.contains(p.as_str()));
        if let Some((_, _, errno, left)) = fault {
            *left -= 1;
            return Err(*errno);
        }
        Ok(())
    }

    fn read(&mut self, path: &str) -> Result<String, Errno> {
        self.begin(path, false)?;
        match split(path)? {
            (FileRoot::Resctrl, rest) if rest.contains("mon_data/") => self.monitor(rest),
            (FileRoot::Resctrl, rest) => match self.resctrl.list(rest) {
                Ok(_) => Err(EISDIR),
                Err(_) => self.resctrl.read(rest),
            },
            (FileRoot::Proc, "cpuinfo") => Ok(self.resctrl.spec.cpuinfo()),
            (FileRoot::Proc, "filesystems") => Ok("nodev\tsysfs\nnodev\tproc\nnodev\tresctrl\n\text4\n".into()),
            (FileRoot::Sys, rest) => self.cache(rest),
            (FileRoot::DevCpu | FileRoot::Proc, _) => Err(ENOENT),
        }
    }

    /// The domain of a processor; nothing while it is offline.
    fn domain_of(&self, cpu: u32) -> Option<u32> {
        let spec = &self.resctrl.spec;
        let domain = (cpu < spec.cpus).then(|| cpu * spec.domains / spec.cpus)?;
        self.resctrl.domains.contains(&domain).then_some(domain)
    }

    /// What the kernel says of a processor's last-level cache.
    fn cache(&self, path: &str) -> Result<String, Errno> {
        let (cpu, file) = path.strip_prefix(PROCESSORS).and_then(|p| p.split_once(LAST_LEVEL)).ok_or(ENOENT)?;
        let cpu = cpu.strip_prefix("/cpu").and_then(|cpu| cpu.parse().ok()).ok_or(ENOENT)?;
        let domain = self.domain_of(cpu).ok_or(ENOENT)?;
        match file {
            "/level" => Ok("3\n".into()),
            "/id" => Ok(format!("{domain}\n")),
            _ => Err(ENOENT),
        }
    }

    /// The folders on the way to those files.
    fn list_caches(&self, path: &str) -> Result<Vec<(String, bool)>, Errno> {
        let folder = |name: &str| Ok(vec![(name.to_string(), true)]);
        match path {
            "" => return folder("devices"),
            "devices" => return folder("system"),
            "devices/system" => return folder("cpu"),
            PROCESSORS => return Ok((0..self.resctrl.spec.cpus).map(|c| (format!("cpu{c}"), true)).collect()),
            _ => {}
        }
        let of = path.strip_prefix(PROCESSORS).and_then(|p| p.strip_prefix("/cpu")).ok_or(ENOENT)?;
        let (cpu, rest) = of.split_once('/').unwrap_or((of, ""));
        self.domain_of(cpu.parse().map_err(|_| ENOENT)?).ok_or(ENOENT)?;
        match rest {
            "" => folder("cache"),
            "cache" => folder("index3"),
            "cache/index3" => Ok(["id", "level"].map(|name| (name.to_string(), false)).to_vec()),
            _ => Err(ENOENT),
        }
    }

    /// A counter of a group in a domain; what runs, runs in the first.
    fn monitor(&self, path: &str) -> Result<String, Errno> {
        let (group, rest) = path.split_once("mon_data/").ok_or(ENOENT)?;
        let (domain, counter) = rest.split_once('/').ok_or(ENOENT)?;
        let domain: u32 = domain.strip_prefix("mon_L3_").and_then(|d| d.parse().ok()).ok_or(ENOENT)?;
        if !self.resctrl.domains.contains(&domain) {
            return Err(ENOENT);
        }
        let steps: Vec<&str> = group.trim_end_matches('/').split('/').filter(|s| !s.is_empty()).collect();
        let (name, mon) = match steps.as_slice() {
            [] => ("", None),
            ["mon_groups", mon] => ("", Some(*mon)),
            [name] => (*name, None),
            [name, "mon_groups", mon] => (*name, Some(*mon)),
            _ => return Err(ENOENT),
        };
        let of = self.resctrl.groups.get(name).ok_or(ENOENT)?;
        let mon = mon.map(|m| of.mons.get(m).ok_or(ENOENT)).transpose()?;
        if self.faults.unavailable {
            return Ok("Unavailable\n".into());
        }
        // A group's own, and that of its monitoring groups.
        let rmids: Vec<u32> = match mon {
            Some(mon) => mon.rmid.into_iter().collect(),
            None => of.rmid.into_iter().chain(of.mons.values().filter_map(|m| m.rmid)).collect(),
        };
        let owners = self.owners();
        let of_owner = |owner: u8| match counter {
            "llc_occupancy" => Ok(self.plant.occupancy(owner, &owners)),
            "mbm_total_bytes" | "mbm_local_bytes" => Ok(self.plant.fetched(owner, &owners)),
            _ => Err(ENOENT),
        };
        let all = rmids.into_iter().map(|rmid| of_owner(rmid as u8)).sum::<Result<f64, Errno>>()?;
        let value = if domain == 0 { all } else { 0.0 };
        Ok(format!("{}\n", value as u64))
    }

    fn write(&mut self, path: &str, text: &str) -> Result<(), Errno> {
        self.change(path, text, |r, p| r.write(p, text))
    }

    fn change(
        &mut self,
        path: &str,
        text: &str,
        change: impl FnOnce(&mut FakeResctrl, &str) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let done = self.begin(path, true).and_then(|()| match split(path)? {
            (FileRoot::Resctrl, rest) => change(&mut self.resctrl, rest),
            _ => Err(EACCES),
        });
        self.log(path, text, done.err());
        done
    }

    fn log(&mut self, path: &str, text: &str, errno: Option<Errno>) {
        if !self.faults.quiet && self.writes.len() < MOST_WRITES {
            self.writes.push(FileWrite { path: path.into(), text: text.into(), errno: errno.unwrap_or(0) });
        }
    }

    fn list(&mut self, path: &str) -> Result<Vec<(String, bool)>, Errno> {
        if path.trim_matches('/').is_empty() {
            return Ok(FileRoot::ALL.iter().map(|p| (p.folder().to_string(), true)).collect());
        }
        self.begin(path, false)?;
        match split(path)? {
            (FileRoot::Resctrl, rest) => {
                self.resctrl.list(rest).map_err(|e| if self.resctrl.read(rest).is_ok() { ENOTDIR } else { e })
            }
            (FileRoot::Sys, rest) => self.list_caches(rest),
            (FileRoot::Proc, "") => Ok(vec![("cpuinfo".into(), false), ("filesystems".into(), false)]),
            (FileRoot::DevCpu, "") => Ok((0..self.resctrl.spec.cpus).map(|c| (c.to_string(), true)).collect()),
            (FileRoot::DevCpu, cpu) if cpu.parse().is_ok_and(|c: u32| c < self.resctrl.spec.cpus) => {
                Ok(vec![("msr".into(), false)])
            }
            (FileRoot::DevCpu | FileRoot::Proc, _) => Err(ENOENT),
        }
    }

    fn register(&mut self, path: &str, offset: u64, value: Option<u64>) -> Result<u64, Errno> {
        let done = self.begin(path, value.is_some()).and_then(|()| {
            let (FileRoot::DevCpu, rest) = split(path)? else { return Err(EINVAL) };
            let cpu: u32 = rest.strip_suffix("/msr").and_then(|c| c.parse().ok()).ok_or(ENOENT)?;
            let spec = &self.resctrl.spec;
            if cpu >= spec.cpus || offset != REGISTER || spec.register == Register::Absent {
                return Err(EIO);
            }
            let register = &mut self.registers[(cpu * spec.domains / spec.cpus) as usize];
            if let Some(value) = value {
                // A general protection fault, as for reserved bits.
                if value == 0 || value & !u64::from(spec.full().0) != 0 {
                    self.resctrl.bad_masks += 1;
                    return Err(EIO);
                }
                *register = value;
            }
            Ok(*register)
        });
        if let Some(value) = value {
            self.log(path, &format!("{value:#x}"), done.err());
        }
        done
    }
}

/// Where processors are below `/sys`, and a last-level cache below each.
const PROCESSORS: &str = "devices/system/cpu";
const LAST_LEVEL: &str = "/cache/index3";

/// The part and what is left of a path.
fn split(path: &str) -> Result<(FileRoot, &str), Errno> {
    let path = path.trim_matches('/');
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    FileRoot::ALL.into_iter().find(|p| p.folder() == first).map(|p| (p, rest)).ok_or(ENOENT)
}

struct InMemory {
    host: FakeHost,
    part: FileRoot,
    root: PathBuf,
}

impl InMemory {
    fn path(&self, path: &str) -> String {
        format!("{}/{path}", self.part.folder())
    }
}

impl Tree for InMemory {
    fn read(&self, path: &str) -> io::Result<String> {
        self.host.read(&self.path(path)).map_err(io::Error::from_raw_os_error)
    }
    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        self.host.write(&self.path(path), text).map_err(io::Error::from_raw_os_error)
    }
    fn list(&self, path: &str) -> io::Result<Vec<(String, bool)>> {
        self.host.list(&self.path(path)).map_err(io::Error::from_raw_os_error)
    }
    fn make(&self, path: &str) -> io::Result<()> {
        self.host.make(&self.path(path)).map_err(io::Error::from_raw_os_error)
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        self.host.remove(&self.path(path)).map_err(io::Error::from_raw_os_error)
    }
    fn read_register(&self, path: &str, offset: u64) -> io::Result<u64> {
        self.host.read_register(&self.path(path), offset).map_err(io::Error::from_raw_os_error)
    }
    fn write_register(&self, path: &str, offset: u64, value: u64) -> io::Result<()> {
        let written = self.host.write_register(&self.path(path), offset, value);
        written.map(|_| ()).map_err(io::Error::from_raw_os_error)
    }
    fn lock(&self) -> io::Result<Box<dyn Any>> {
        Ok(Box::new(()))
    }
    fn claim(&self, _: &str) -> io::Result<Box<dyn Any + Send>> {
        let mut inner = self.host.inner();
        if inner.claim.upgrade().is_some() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let claim = Arc::new(());
        inner.claim = Arc::downgrade(&claim);
        Ok(Box::new(claim))
    }
    fn root(&self) -> &Path {
        &self.root
    }
}
