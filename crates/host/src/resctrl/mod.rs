//! The kernel's resctrl file system: groups (classes of service), the ways that each may fill, what each occupies.
//!
//! A mask is checked before it is written, so that the kernel never has to refuse one for its form; what it refuses all the same
//! comes with `info/last_cmd_status`. Source: Linux, Documentation/filesystems/resctrl.rst.

mod schemata;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use units::Cbm;

pub use schemata::{Resource, Schemata, Value};

use crate::{CpuList, HostError, Tree};

/// The cache that is divided.
pub const L3: &str = "L3";

/// What a cache takes as a mask (`info/L3`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CbmRule {
    /// All ways.
    pub full: Cbm,
    /// The fewest ways of a mask.
    pub min_bits: u32,
    /// Whether the ways of a mask may be apart.
    pub sparse: bool,
    /// Ways that something else than cores may fill too, devices for example.
    pub shareable: Cbm,
    /// Classes of service there are.
    pub closids: u32,
}

impl CbmRule {
    /// How many ways there are.
    pub fn ways(&self) -> u32 {
        self.full.ways()
    }

    /// The rule of the register of device ways: a run of ways, a single one too.
    pub fn of_io(&self) -> CbmRule {
        CbmRule { min_bits: 1, sparse: false, ..self.clone() }
    }

    /// Whether the cache takes this mask; `path` is where it stands.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(&self, mask: Cbm, path: &str) -> Result<(), HostError> {
        let wrong = |why: String| Err(HostError::Cbm { path: path.into(), came: mask.to_string(), why });
        if mask.0 & !self.full.0 != 0 {
            return wrong(format!("the cache has {} ways, all of them are {}", self.ways(), self.full));
        }
        if mask.ways() < self.min_bits.max(1) {
            return wrong(format!("at least {} ways are wanted", self.min_bits.max(1)));
        }
        if !self.sparse && !mask.is_contiguous() {
            let run = mask.0.trailing_ones().max((mask.0 >> mask.0.trailing_zeros()).trailing_ones());
            let near = Cbm::span(mask.0.trailing_zeros(), run);
            return wrong(format!("set bits must be contiguous (try {near})"));
        }
        Ok(())
    }
}

/// The longest run of ways in a mask.
pub fn longest_run(mask: Cbm) -> Cbm {
    let runs = (0..32).map(|first| Cbm::span(first, (mask.0 >> first).trailing_ones()));
    runs.max_by_key(|run| run.ways()).unwrap_or_default()
}

/// What can be monitored (`info/L3_MON`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Monitoring {
    /// Monitoring ids.
    pub rmids: u32,
    /// `llc_occupancy`, `mbm_total_bytes`, `mbm_local_bytes`.
    pub features: Vec<String>,
}

/// A group's mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupMode {
    /// Its ways may be others' too.
    Shareable,
    /// Its ways are no others'.
    Exclusive,
    /// It is about to be locked.
    PseudoLocksetup,
    /// Its lines are locked in.
    PseudoLocked,
}

impl FromStr for GroupMode {
    type Err = HostError;

    fn from_str(text: &str) -> Result<GroupMode, HostError> {
        match text.trim() {
            "shareable" => Ok(GroupMode::Shareable),
            "exclusive" => Ok(GroupMode::Exclusive),
            "pseudo-locksetup" => Ok(GroupMode::PseudoLocksetup),
            "pseudo-locked" => Ok(GroupMode::PseudoLocked),
            other => {
                Err(HostError::form("mode", other, "one of shareable, exclusive, pseudo-locksetup and pseudo-locked"))
            }
        }
    }
}

impl fmt::Display for GroupMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GroupMode::Shareable => "shareable",
            GroupMode::Exclusive => "exclusive",
            GroupMode::PseudoLocksetup => "pseudo-locksetup",
            GroupMode::PseudoLocked => "pseudo-locked",
        })
    }
}

/// A counter as resctrl shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorReading {
    /// Its value.
    Count(u64),
    /// The hardware has none at the moment.
    Unavailable,
    /// The hardware reports an error.
    Failed,
}

impl MonitorReading {
    /// The value, if it has one.
    pub fn count(self) -> Option<u64> {
        match self {
            MonitorReading::Count(count) => Some(count),
            MonitorReading::Unavailable | MonitorReading::Failed => None,
        }
    }
}

impl FromStr for MonitorReading {
    type Err = HostError;

    fn from_str(text: &str) -> Result<MonitorReading, HostError> {
        match text.trim() {
            "Unavailable" | "Unassigned" => Ok(MonitorReading::Unavailable),
            "Error" => Ok(MonitorReading::Failed),
            count => count
                .parse()
                .map(MonitorReading::Count)
                .map_err(|_| HostError::form("mon_data", count, "a number, Unavailable or Error")),
        }
    }
}

/// What device writes may fill, where the kernel sets that (`io_alloc`, from Linux 6.19, AMD).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IoAlloc {
    /// The kernel or the processor has none.
    Unsupported,
    /// It is off: device writes go past these masks.
    Disabled,
    /// Masks by domain.
    Enabled(Vec<(u32, Cbm)>),
}

/// The resctrl file system below a root.
#[derive(Clone)]
pub struct Resctrl {
    tree: Arc<dyn Tree>,
}

/// Folders of the root that are no groups.
const RESERVED: [&str; 3] = ["info", "mon_groups", "mon_data"];

impl Resctrl {
    /// The file system that is mounted at the root of `tree`.
    ///
    /// # Errors
    /// None is.
    pub fn open(tree: Arc<dyn Tree>) -> Result<Resctrl, HostError> {
        let resctrl = Resctrl { tree };
        match resctrl.tree.list("info") {
            Ok(_) => Ok(resctrl),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Err(HostError::NotMounted { root: resctrl.tree.root().display().to_string() })
            }
            Err(e) => Err(resctrl.fault("reading", "info", e)),
        }
    }

    /// The files themselves.
    pub fn tree(&self) -> &Arc<dyn Tree> {
        &self.tree
    }

    /// Keeps other programs that lock resctrl's root out until the answer is dropped, as the kernel's documentation asks of who
    /// looks before he writes.
    ///
    /// # Errors
    /// Somebody has the lock.
    pub fn lock(&self) -> Result<Box<dyn Any>, HostError> {
        self.tree.lock().map_err(|e| HostError::system("locking", self.tree.root().display().to_string(), e))
    }

    /// What the cache takes as a mask.
    ///
    /// # Errors
    /// No allocation of L3, or damaged numbers.
    pub fn rule(&self) -> Result<CbmRule, HostError> {
        let hex = |path: &str| {
            let text = self.read(path)?;
            u32::from_str_radix(text.trim(), 16).map(Cbm).map_err(|_| HostError::form(path, text.trim(), "hex digits"))
        };
        let full = match hex("info/L3/cbm_mask") {
            Err(e) if e.is_gone() => {
                return Err(HostError::Absent {
                    what: "info/L3".into(),
                    why: "the last-level cache cannot be divided by classes here".into(),
                    remedy: "a processor with CAT for L3, mounted without CDP".into(),
                });
            }
            other => other?,
        };
        // Older kernels have no sparse_masks, and their caches took none.
        let sparse = match self.number("info/L3/sparse_masks") {
            Err(e) if e.is_gone() => false,
            other => other? == 1,
        };
        Ok(CbmRule {
            full,
            min_bits: self.number("info/L3/min_cbm_bits")?,
            sparse,
            shareable: hex("info/L3/shareable_bits").unwrap_or_default(),
            closids: self.number("info/L3/num_closids")?,
        })
    }

    /// What can be monitored; [`None`] if nothing.
    ///
    /// # Errors
    /// Damaged numbers.
    pub fn monitoring(&self) -> Result<Option<Monitoring>, HostError> {
        let features = match self.read("info/L3_MON/mon_features") {
            Err(e) if e.is_gone() => return Ok(None),
            other => other?.lines().map(Into::into).collect(),
        };
        Ok(Some(Monitoring { rmids: self.number("info/L3_MON/num_rmids")?, features }))
    }

    /// Control groups, the root's (the empty name) first.
    ///
    /// # Errors
    /// As the system's.
    pub fn groups(&self) -> Result<Vec<String>, HostError> {
        let entries = self.tree.list("").map_err(|e| self.fault("reading", "", e))?;
        let own = entries.into_iter().filter(|(name, is_dir)| *is_dir && !RESERVED.contains(&name.as_str()));
        Ok(std::iter::once(String::new()).chain(own.map(|(name, _)| name)).collect())
    }

    /// A group's settings.
    ///
    /// # Errors
    /// As the system's; no such group.
    pub fn schemata(&self, group: &str) -> Result<Schemata, HostError> {
        self.read(&below(group, "schemata"))?.parse()
    }

    /// A group's masks of L3.
    ///
    /// # Errors
    /// As [`Resctrl::schemata`].
    pub fn masks(&self, group: &str) -> Result<Vec<(u32, Cbm)>, HostError> {
        Ok(self.schemata(group)?.masks(L3))
    }

    /// Sets a group's masks of L3: all of the domains, or none and an error.
    ///
    /// # Errors
    /// A mask that breaks `rule`, of which nothing has been written then; as the system's.
    pub fn set_masks(&self, group: &str, masks: &[(u32, Cbm)], rule: &CbmRule) -> Result<(), HostError> {
        for (domain, mask) in masks {
            rule.check(*mask, &format!("{}: L3 domain {domain}", below(group, "schemata")))?;
        }
        self.write(&below(group, "schemata"), &Schemata::of_masks(L3, masks).to_string())
    }

    /// A group's mode.
    ///
    /// # Errors
    /// As the system's.
    pub fn mode(&self, group: &str) -> Result<GroupMode, HostError> {
        self.read(&below(group, "mode"))?.parse()
    }

    /// Makes a group, which takes a class of service and a monitoring id.
    ///
    /// # Errors
    /// ENOSPC where classes or ids are out, EBUSY where ids are still draining, EEXIST.
    pub fn create(&self, group: &str) -> Result<(), HostError> {
        self.tree.make(group).map_err(|e| self.fault("making", group, e))
    }

    /// Removes a group; its tasks and processors go to the root's.
    ///
    /// # Errors
    /// As the system's.
    pub fn remove(&self, group: &str) -> Result<(), HostError> {
        self.tree.remove(group).map_err(|e| self.fault("removing", group, e))
    }

    /// A group's processors.
    ///
    /// # Errors
    /// As the system's.
    pub fn cpus(&self, group: &str) -> Result<CpuList, HostError> {
        self.read(&below(group, "cpus_list"))?.parse()
    }

    /// Gives a group processors, which others lose.
    ///
    /// # Errors
    /// As the system's: those that are not online.
    pub fn set_cpus(&self, group: &str, cpus: &CpuList) -> Result<(), HostError> {
        self.write(&below(group, "cpus_list"), &format!("{cpus}\n"))
    }

    /// A group's tasks.
    ///
    /// # Errors
    /// As the system's.
    pub fn tasks(&self, group: &str) -> Result<Vec<u32>, HostError> {
        let path = below(group, "tasks");
        let text = self.read(&path)?;
        text.lines().map(|l| l.parse().map_err(|_| HostError::form(&path, l, "a task's number"))).collect()
    }

    /// Moves a task into a group, whatever processor it runs on.
    ///
    /// # Errors
    /// As the system's: ESRCH where it has ended.
    pub fn add_task(&self, group: &str, task: u32) -> Result<(), HostError> {
        self.write(&below(group, "tasks"), &format!("{task}\n"))
    }

    /// A counter of a group, by domain: `llc_occupancy` in bytes, or running totals of bytes.
    ///
    /// # Errors
    /// As the system's; no such counter.
    pub fn monitor(&self, group: &str, counter: &str) -> Result<BTreeMap<u32, MonitorReading>, HostError> {
        let folder = below(group, "mon_data");
        let domains = self.tree.list(&folder).map_err(|e| self.fault("reading", &folder, e))?;
        let mut readings = BTreeMap::new();
        for (name, _) in domains {
            let Some(domain) = name.strip_prefix("mon_L3_").and_then(|d| d.parse().ok()) else { continue };
            readings.insert(domain, self.read(&format!("{folder}/{name}/{counter}"))?.parse()?);
        }
        Ok(readings)
    }

    /// What device writes may fill, where the kernel sets that.
    ///
    /// # Errors
    /// As the system's.
    pub fn io_alloc(&self) -> Result<IoAlloc, HostError> {
        let text = match self.read("info/L3/io_alloc") {
            Err(e) if e.is_gone() => return Ok(IoAlloc::Unsupported),
            other => other?,
        };
        match text.trim() {
            "not supported" => Ok(IoAlloc::Unsupported),
            "disabled" => Ok(IoAlloc::Disabled),
            "enabled" => {
                let masks: Schemata = format!("L3:{}", self.read("info/L3/io_alloc_cbm")?).parse()?;
                Ok(IoAlloc::Enabled(masks.masks(L3)))
            }
            other => Err(HostError::form("info/L3/io_alloc", other, "enabled, disabled or not supported")),
        }
    }

    /// Sets what device writes may fill; turns that on or off where it must. On, it takes the highest class of service. Without masks
    /// it is only turned on, and the kernel chooses them.
    ///
    /// # Errors
    /// ENOSPC where that class is a group's; ENODEV where there is no such thing; a mask that breaks `rule`.
    pub fn set_io_alloc(&self, to: &IoAlloc, rule: &CbmRule) -> Result<(), HostError> {
        let now = self.io_alloc()?;
        match to {
            IoAlloc::Unsupported => Ok(()),
            IoAlloc::Disabled if now == IoAlloc::Disabled => Ok(()),
            IoAlloc::Disabled => self.write("info/L3/io_alloc", "0\n"),
            IoAlloc::Enabled(masks) => {
                for (domain, mask) in masks {
                    rule.check(*mask, &format!("info/L3/io_alloc_cbm domain {domain}"))?;
                }
                if !matches!(now, IoAlloc::Enabled(_)) {
                    self.write("info/L3/io_alloc", "1\n")?;
                }
                if masks.is_empty() {
                    return Ok(());
                }
                let text = Schemata::of_masks(L3, masks).to_string();
                self.write("info/L3/io_alloc_cbm", text.trim_start_matches("L3:"))
            }
        }
    }

    /// How each way is used, a letter a way, way 0 last: `0` by nobody, `S` by groups that share, `E` by one group, `H` by hardware,
    /// `X` by both, `P` locked.
    ///
    /// # Errors
    /// As the system's.
    pub fn bit_usage(&self) -> Result<BTreeMap<u32, String>, HostError> {
        let path = "info/L3/bit_usage";
        let text = self.read(path)?;
        let of = |part: &str| {
            let (domain, letters) = part.split_once('=')?;
            Some((domain.trim().parse().ok()?, letters.to_string()))
        };
        let parts = text.trim().split(';');
        parts.map(|p| of(p).ok_or_else(|| HostError::form(path, p, "letters such as 0=SSSS0"))).collect()
    }

    fn number(&self, path: &str) -> Result<u32, HostError> {
        let text = self.read(path)?;
        text.trim().parse().map_err(|_| HostError::form(path, text.trim(), "a number"))
    }

    fn read(&self, path: &str) -> Result<String, HostError> {
        self.tree.read(path).map_err(|e| self.fault("reading", path, e))
    }

    fn write(&self, path: &str, text: &str) -> Result<(), HostError> {
        self.tree.write(path, text).map_err(|e| {
            let mut fault = self.fault("writing", path, e);
            if let HostError::System { status, .. } = &mut fault {
                *status = self.status();
            }
            fault
        })
    }

    fn fault(&self, doing: &'static str, path: &str, e: std::io::Error) -> HostError {
        let path = self.tree.root().join(path).display().to_string();
        let status = if doing == "making" { self.status() } else { None };
        HostError::System { doing, path, source: e, status }
    }

    /// What the kernel says of the last command that failed.
    fn status(&self) -> Option<String> {
        let text = self.tree.read("info/last_cmd_status").ok()?;
        Some(text.trim().to_string()).filter(|t| !t.is_empty() && t != "ok")
    }
}

fn below(group: &str, file: &str) -> String {
    if group.is_empty() { file.into() } else { format!("{group}/{file}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_checked_by_the_rules_of_the_cache() {
        let rule = CbmRule { full: Cbm(0x7ff), min_bits: 2, sparse: false, shareable: Cbm(0x600), closids: 16 };
        let error = |mask| rule.check(Cbm(mask), "g: L3 domain 0").unwrap_err().to_string();
        assert!(rule.check(Cbm(0x600), "g").is_ok());
        assert_eq!(error(0b1011), "g: L3 domain 0 = 0b1011: set bits must be contiguous (try 0b11)");
        assert_eq!(error(0x1), "g: L3 domain 0 = 0b1: at least 2 ways are wanted");
        assert!(error(0x800).contains("the cache has 11 ways"));
        assert!(error(0).contains("at least 2"));
        assert!(CbmRule { sparse: true, ..rule.clone() }.check(Cbm(0b1011), "g").is_ok());
    }

    #[test]
    fn readings_that_are_not_there_are_no_numbers() {
        assert_eq!("42\n".parse::<MonitorReading>().unwrap().count(), Some(42));
        assert_eq!("Unavailable\n".parse::<MonitorReading>().unwrap(), MonitorReading::Unavailable);
        assert_eq!("Error\n".parse::<MonitorReading>().unwrap().count(), None);
        assert!("4 2".parse::<MonitorReading>().is_err());
    }
}
