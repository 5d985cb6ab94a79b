//! resctrl as a state machine: the rules, error numbers and texts of the kernel's.
//!
//! Source: Linux 6.19, `fs/resctrl/rdtgroup.c` and `ctrlmondata.c`, and Documentation/filesystems/resctrl.rst. Texts are the
//! kernel's, since programs show them.

mod members;
mod schemata;

use std::collections::{BTreeMap, BTreeSet};

use host::{CpuList, GroupMode};
use libc::{EBUSY, EEXIST, EINVAL, ENOENT, ENOSPC, EPERM};
use units::Cbm;

use members::mask_text;

use crate::Spec;

/// An error number.
pub(crate) type Errno = i32;

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub closid: u32,
    pub mode: GroupMode,
    pub rmid: Option<u32>,
    pub cpus: BTreeSet<u32>,
    pub tasks: BTreeSet<u32>,
    pub mons: BTreeMap<String, MonGroup>,
}

/// A monitoring group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MonGroup {
    pub rmid: Option<u32>,
    pub cpus: BTreeSet<u32>,
    pub tasks: BTreeSet<u32>,
}

/// What a test compares: settings, without counters and texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResctrlSettings {
    /// Domains that are online, in the order of all lists by domain.
    pub domains: Vec<u32>,
    /// By name; the root's is empty.
    pub groups: BTreeMap<String, GroupState>,
    /// Masks of device writes, if the kernel sets them.
    pub io_alloc: Option<Vec<Cbm>>,
}

/// Settings of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// Its mode.
    pub mode: GroupMode,
    /// Ways by domain.
    pub masks: Vec<Cbm>,
    /// Percent of bandwidth by domain.
    pub bandwidth: Vec<u32>,
    /// Its processors.
    pub cpus: BTreeSet<u32>,
    /// Its tasks.
    pub tasks: BTreeSet<u32>,
}

/// The file system's state.
#[derive(Clone, Debug)]
pub struct FakeResctrl {
    pub(crate) spec: Spec,
    pub(crate) groups: BTreeMap<String, Group>,
    closids: Vec<bool>,
    /// Masks by class and domain.
    pub(crate) masks: Vec<Vec<Cbm>>,
    /// Percent by class and domain.
    pub(crate) bandwidth: Vec<Vec<u32>>,
    /// Domains that are there.
    pub(crate) domains: Vec<u32>,
    pub(crate) io_alloc: bool,
    pub(crate) status: String,
    rmids: Vec<bool>,
    /// Ids that were given back and may still have lines, with the workloads' occupancy below which they are free.
    pub(crate) limbo: BTreeSet<u32>,
    threshold: u64,
    /// Tasks that exist.
    pub(crate) tasks: BTreeSet<u32>,
    /// Masks that were refused for their form.
    pub(crate) bad_masks: u64,
}

impl FakeResctrl {
    /// As mounted after a start, with these tasks beside the first.
    pub fn new(spec: Spec, tasks: impl IntoIterator<Item = u32>) -> FakeResctrl {
        let closids = spec.closids as usize;
        let domains: Vec<u32> = (0..spec.domains).collect();
        let mut resctrl = FakeResctrl {
            groups: BTreeMap::new(),
            closids: vec![false; closids],
            masks: vec![vec![spec.full(); domains.len()]; closids],
            bandwidth: vec![vec![100; domains.len()]; closids],
            domains,
            io_alloc: false,
            status: String::new(),
            rmids: vec![false; spec.rmids as usize],
            limbo: BTreeSet::new(),
            threshold: spec.max_threshold_occupancy,
            tasks: tasks.into_iter().chain([1]).collect(),
            bad_masks: 0,
            spec,
        };
        resctrl.closids[0] = true;
        if let Some(first) = resctrl.rmids.first_mut() {
            *first = true;
        }
        let root = Group {
            closid: 0,
            mode: GroupMode::Shareable,
            rmid: (resctrl.spec.rmids > 0).then_some(0),
            cpus: (0..resctrl.spec.cpus).collect(),
            tasks: resctrl.tasks.clone(),
            mons: BTreeMap::new(),
        };
        resctrl.groups.insert(String::new(), root);
        resctrl
    }

    /// The settings.
    pub fn state(&self) -> ResctrlSettings {
        let of = |g: &Group| GroupState {
            mode: g.mode,
            masks: self.masks[g.closid as usize].clone(),
            bandwidth: self.bandwidth[g.closid as usize].clone(),
            cpus: g.cpus.clone(),
            tasks: g.tasks.clone(),
        };
        ResctrlSettings {
            domains: self.domains.clone(),
            groups: self.groups.iter().map(|(name, g)| (name.clone(), of(g))).collect(),
            io_alloc: self.io_alloc.then(|| self.masks[self.io_closid()].clone()),
        }
    }

    /// The class and the monitoring id of a task on a processor: the task's group goes before the processor's, and within a
    /// group its monitoring groups go before it.
    pub fn place_of(&self, task: Option<u32>, cpu: u32) -> (u32, Option<u32>) {
        let named = || self.groups.iter().filter(|(name, _)| !name.is_empty()).map(|(_, g)| g);
        let by_task = task.and_then(|t| named().find(|g| g.tasks.contains(&t)));
        let group = by_task.or_else(|| named().find(|g| g.cpus.contains(&cpu))).or_else(|| self.groups.get(""));
        let Some(group) = group else { return (0, None) };
        let by_task = task.and_then(|t| group.mons.values().find(|m| m.tasks.contains(&t)));
        let mon = by_task.or_else(|| group.mons.values().find(|m| m.cpus.contains(&cpu)));
        (group.closid, mon.map_or(group.rmid, |m| m.rmid))
    }

    pub(crate) fn io_closid(&self) -> usize {
        self.spec.closids as usize - 1
    }

    /// What is in a folder: names, and which are folders.
    pub(crate) fn list(&self, path: &str) -> Result<Vec<(String, bool)>, Errno> {
        let names = |files: &[&str], folders: Vec<String>| {
            let files = files.iter().map(|f| ((*f).to_string(), false));
            let mut all: Vec<_> = files.chain(folders.into_iter().map(|f| (f, true))).collect();
            all.sort();
            all
        };
        let monitors = self.spec.rmids > 0;
        let steps: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
        let mon_domains = || self.domains.iter().map(|d| format!("mon_L3_{d:02}")).collect::<Vec<_>>();
        const CTRL: &[&str] = &["cpus", "cpus_list", "mode", "schemata", "size", "tasks"];
        const EVENTS: &[&str] = &["llc_occupancy", "mbm_local_bytes", "mbm_total_bytes"];
        let of_group = |steps: &[&str], group: &Group, more: Vec<String>| -> Result<Vec<(String, bool)>, Errno> {
            match steps {
                [] => {
                    let mons = if monitors { vec!["mon_data".to_string(), "mon_groups".into()] } else { vec![] };
                    Ok(names(CTRL, [more, mons].concat()))
                }
                ["mon_groups"] if monitors => Ok(names(&[], group.mons.keys().cloned().collect())),
                ["mon_groups", m] if group.mons.contains_key(*m) => {
                    Ok(names(&["cpus", "cpus_list", "tasks"], vec!["mon_data".into()]))
                }
                ["mon_data"] if monitors => Ok(names(&[], mon_domains())),
                ["mon_groups", m, "mon_data"] if group.mons.contains_key(*m) => Ok(names(&[], mon_domains())),
                ["mon_data", d] | ["mon_groups", _, "mon_data", d] if mon_domains().iter().any(|m| m == d) => {
                    Ok(names(EVENTS, vec![]))
                }
                _ => Err(ENOENT),
            }
        };
        match steps.as_slice() {
            ["info"] => {
                let mut folders = vec!["L3".to_string()];
                folders.extend(self.spec.bandwidth.then(|| "MB".to_string()));
                folders.extend(monitors.then(|| "L3_MON".to_string()));
                Ok(names(&["last_cmd_status"], folders))
            }
            ["info", "L3"] => Ok(names(
                &[
                    "bit_usage",
                    "cbm_mask",
                    "io_alloc",
                    "io_alloc_cbm",
                    "min_cbm_bits",
                    "num_closids",
                    "shareable_bits",
                    "sparse_masks",
                ],
                vec![],
            )),
            ["info", "MB"] if self.spec.bandwidth => Ok(names(
                &["bandwidth_gran", "delay_linear", "min_bandwidth", "num_closids", "thread_throttle_mode"],
                vec![],
            )),
            ["info", "L3_MON"] if monitors => {
                Ok(names(&["max_threshold_occupancy", "mon_features", "num_rmids"], vec![]))
            }
            [first, rest @ ..] if !first.is_empty() && self.groups.contains_key(*first) => {
                of_group(rest, &self.groups[*first], vec![])
            }
            steps => {
                let own: Vec<String> = self.groups.keys().filter(|n| !n.is_empty()).cloned().collect();
                of_group(steps, &self.groups[""], [own, vec!["info".into()]].concat())
            }
        }
    }

    /// A file's text, all but monitoring data, which the plant has.
    pub(crate) fn read(&mut self, path: &str) -> Result<String, Errno> {
        let steps: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
        match steps.as_slice() {
            ["info", rest @ ..] => self.read_info(rest),
            [file] => self.read_group("", file),
            ["mon_groups", mon, file] => self.read_mon("", mon, file),
            [group, file] => self.read_group(group, file),
            [group, "mon_groups", mon, file] => self.read_mon(group, mon, file),
            _ => Err(ENOENT),
        }
    }

    fn read_info(&mut self, steps: &[&str]) -> Result<String, Errno> {
        let spec = &self.spec;
        Ok(match steps {
            ["last_cmd_status"] => {
                if self.status.is_empty() {
                    "ok\n".into()
                } else {
                    self.status.clone()
                }
            }
            ["L3", "cbm_mask"] => format!("{:x}\n", spec.full().0),
            ["L3", "min_cbm_bits"] => format!("{}\n", spec.min_cbm_bits),
            ["L3" | "MB", "num_closids"] => format!("{}\n", spec.closids),
            ["L3", "shareable_bits"] => format!("{:x}\n", spec.shareable.0),
            ["L3", "sparse_masks"] => format!("{}\n", u8::from(spec.sparse)),
            ["L3", "bit_usage"] => self.bit_usage(),
            ["L3", "io_alloc"] => match (spec.io_alloc, self.io_alloc) {
                (false, _) => "not supported\n".into(),
                (true, true) => "enabled\n".into(),
                (true, false) => "disabled\n".into(),
            },
            ["L3", "io_alloc_cbm"] => self.read_io_alloc_cbm()?,
            ["MB", "bandwidth_gran" | "min_bandwidth"] => "10\n".into(),
            ["MB", "delay_linear"] => "1\n".into(),
            ["MB", "thread_throttle_mode"] => "max\n".into(),
            ["L3_MON", "num_rmids"] => format!("{}\n", spec.rmids),
            ["L3_MON", "mon_features"] => "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n".into(),
            ["L3_MON", "max_threshold_occupancy"] => format!("{}\n", self.threshold),
            _ => return Err(ENOENT),
        })
    }

    fn read_group(&self, group: &str, file: &str) -> Result<String, Errno> {
        let g = self.groups.get(group).ok_or(ENOENT)?;
        Ok(match file {
            "cpus" => mask_text(&g.cpus, self.spec.cpus),
            "cpus_list" => format!("{}\n", CpuList(g.cpus.clone())),
            "tasks" => g.tasks.iter().map(|t| format!("{t}\n")).collect(),
            "mode" => format!("{}\n", g.mode),
            "schemata" => self.schemata_text(g),
            "size" => self.size_text(g),
            _ => return Err(ENOENT),
        })
    }

    fn read_mon(&self, group: &str, mon: &str, file: &str) -> Result<String, Errno> {
        let m = self.groups.get(group).and_then(|g| g.mons.get(mon)).ok_or(ENOENT)?;
        Ok(match file {
            "cpus" => mask_text(&m.cpus, self.spec.cpus),
            "cpus_list" => format!("{}\n", CpuList(m.cpus.clone())),
            "tasks" => m.tasks.iter().map(|t| format!("{t}\n")).collect(),
            _ => return Err(ENOENT),
        })
    }

    /// Writes a file.
    pub(crate) fn write(&mut self, path: &str, text: &str) -> Result<(), Errno> {
        let steps: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
        match steps.as_slice() {
            ["info", "L3_MON", "max_threshold_occupancy"] => {
                self.threshold = text.trim().parse().map_err(|_| EINVAL)?;
                Ok(())
            }
            ["info", "L3", "io_alloc"] => self.write_io_alloc(text),
            ["info", "L3", "io_alloc_cbm"] => self.write_io_alloc_cbm(text),
            ["info", ..] => Err(libc::EACCES),
            [file] => self.write_group("", file, text),
            ["mon_groups", mon, file] => self.write_mon("", mon, file, text),
            [group, file] => self.write_group(group, file, text),
            [group, "mon_groups", mon, file] => self.write_mon(group, mon, file, text),
            _ => Err(ENOENT),
        }
    }

    fn write_group(&mut self, group: &str, file: &str, text: &str) -> Result<(), Errno> {
        if !self.groups.contains_key(group) {
            return Err(ENOENT);
        }
        match file {
            "schemata" => self.write_schemata(group, text),
            "mode" => self.write_mode(group, text),
            "tasks" => self.write_tasks(group, None, text),
            "cpus" | "cpus_list" => self.write_cpus(group, text, file == "cpus_list"),
            "size" => Err(libc::EACCES),
            _ => Err(ENOENT),
        }
    }

    /// Sets what `last_cmd_status` says.
    fn refuse<T>(&mut self, why: &str, errno: Errno) -> Result<T, Errno> {
        self.status.push_str(why);
        Err(errno)
    }

    fn write_mode(&mut self, group: &str, text: &str) -> Result<(), Errno> {
        let Some(word) = text.strip_suffix('\n') else { return Err(EINVAL) };
        self.status.clear();
        let (mode, closid) = match self.groups.get(group) {
            Some(g) => (g.mode, g.closid as usize),
            None => return Err(ENOENT),
        };
        if word == mode.to_string() {
            return Ok(());
        }
        if mode == GroupMode::PseudoLocked {
            return self.refuse("Cannot change pseudo-locked group\n", EINVAL);
        }
        let new = match word {
            "shareable" => GroupMode::Shareable,
            "exclusive" => {
                let overlaps = (0..self.domains.len()).any(|d| self.overlaps(d, self.masks[closid][d], closid, false));
                if overlaps {
                    return self.refuse("Schemata overlaps\n", EINVAL);
                }
                GroupMode::Exclusive
            }
            "pseudo-locksetup" if group.is_empty() => {
                return self.refuse("Cannot pseudo-lock default group\n", EINVAL);
            }
            "pseudo-locksetup" => GroupMode::PseudoLocksetup,
            _ => return self.refuse("Unknown or unsupported mode\n", EINVAL),
        };
        if let Some(g) = self.groups.get_mut(group) {
            g.mode = new;
        }
        Ok(())
    }

    /// Makes a group.
    pub(crate) fn make(&mut self, path: &str) -> Result<(), Errno> {
        let steps: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
        match steps.as_slice() {
            ["info" | "mon_data" | "mon_groups"] => Err(EEXIST),
            [name] if self.groups.contains_key(*name) || self.list("")?.iter().any(|(n, _)| n == name) => Err(EEXIST),
            [name] if name.contains('\n') => Err(EINVAL),
            [name] => self.make_group(name),
            ["mon_groups", mon] => self.make_mon("", mon),
            [group, "mon_groups", mon] => self.make_mon(group, mon),
            _ => Err(EPERM),
        }
    }

    fn take_rmid(&mut self) -> Result<Option<u32>, Errno> {
        if self.rmids.is_empty() {
            return Ok(None);
        }
        match (0..self.rmids.len()).find(|r| !self.rmids[*r] && !self.limbo.contains(&(*r as u32))) {
            Some(free) => {
                self.rmids[free] = true;
                Ok(Some(free as u32))
            }
            None => {
                let errno = if self.limbo.is_empty() { ENOSPC } else { EBUSY };
                self.refuse("Out of RMIDs\n", errno)
            }
        }
    }

    fn make_group(&mut self, name: &str) -> Result<(), Errno> {
        self.status.clear();
        let Some(closid) = (0..self.closids.len()).find(|c| !self.closids[*c]) else {
            return self.refuse("Out of CLOSIDs\n", ENOSPC);
        };
        self.closids[closid] = true;
        let rmid = match self.take_rmid() {
            Ok(rmid) => rmid,
            Err(errno) => {
                self.closids[closid] = false;
                return Err(errno);
            }
        };
        for d in 0..self.domains.len() {
            match self.default_mask(closid, d) {
                Some(mask) => self.masks[closid][d] = mask,
                None => {
                    self.closids[closid] = false;
                    self.give_rmid(rmid);
                    return self.refuse(&format!("No space on L3:{}\n", self.domains[d]), ENOSPC);
                }
            }
            self.bandwidth[closid][d] = 100;
        }
        let group = Group {
            closid: closid as u32,
            mode: GroupMode::Shareable,
            rmid,
            cpus: BTreeSet::new(),
            tasks: BTreeSet::new(),
            mons: BTreeMap::new(),
        };
        self.groups.insert(name.into(), group);
        Ok(())
    }

    /// What a new class may fill: what is shareable or unused, one run of it where masks have no gaps.
    fn default_mask(&self, closid: usize, domain: usize) -> Option<Cbm> {
        let (mut new, mut used) = (self.spec.shareable.0, self.spec.shareable.0);
        for g in self.groups.values().filter(|g| g.closid as usize != closid) {
            let mask = self.masks[g.closid as usize][domain].0;
            match g.mode {
                GroupMode::PseudoLocksetup => continue,
                GroupMode::Shareable => new |= mask,
                GroupMode::Exclusive | GroupMode::PseudoLocked => {}
            }
            used |= mask;
        }
        if self.io_alloc && self.io_closid() != closid {
            used |= self.masks[self.io_closid()][domain].0;
        }
        new |= !used & self.spec.full().0;
        if !self.spec.sparse && new != 0 {
            let first = new.trailing_zeros();
            new = Cbm::span(first, (new >> first).trailing_ones()).0;
        }
        (new.count_ones() >= self.spec.min_cbm_bits.max(1)).then_some(Cbm(new))
    }

    fn make_mon(&mut self, group: &str, mon: &str) -> Result<(), Errno> {
        self.status.clear();
        let g = self.groups.get(group).ok_or(ENOENT)?;
        if g.mons.contains_key(mon) {
            return Err(EEXIST);
        }
        let rmid = self.take_rmid()?;
        if rmid.is_none() {
            return Err(EPERM);
        }
        if let Some(g) = self.groups.get_mut(group) {
            g.mons.insert(mon.into(), MonGroup { rmid, ..MonGroup::default() });
        }
        Ok(())
    }

    /// An id that was given back is not free before its lines have left.
    fn give_rmid(&mut self, rmid: Option<u32>) {
        if let Some(rmid) = rmid {
            self.rmids[rmid as usize] = false;
            self.limbo.insert(rmid);
        }
    }

    /// Removes a group.
    pub(crate) fn remove(&mut self, path: &str) -> Result<(), Errno> {
        let steps: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
        match steps.as_slice() {
            ["info" | "mon_data" | "mon_groups"] => Err(EPERM),
            [name] => {
                let gone = self.groups.remove(*name).ok_or(ENOENT)?;
                self.closids[gone.closid as usize] = false;
                self.give_rmid(gone.rmid);
                for mon in gone.mons.values() {
                    self.give_rmid(mon.rmid);
                }
                if let Some(root) = self.groups.get_mut("") {
                    root.cpus.extend(&gone.cpus);
                    root.tasks.extend(&gone.tasks);
                }
                Ok(())
            }
            ["mon_groups", mon] => self.remove_mon("", mon),
            [group, "mon_groups", mon] => self.remove_mon(group, mon),
            _ => Err(EPERM),
        }
    }

    fn remove_mon(&mut self, group: &str, mon: &str) -> Result<(), Errno> {
        let gone = self.groups.get_mut(group).and_then(|g| g.mons.remove(mon)).ok_or(ENOENT)?;
        self.give_rmid(gone.rmid);
        Ok(())
    }

    /// Ids of which no more than the threshold is left are free again; gives them.
    pub(crate) fn drain(&mut self, left: impl Fn(u32) -> u64) -> Vec<u32> {
        let free: Vec<u32> = self.limbo.iter().copied().filter(|rmid| left(*rmid) <= self.threshold).collect();
        self.limbo.retain(|rmid| !free.contains(rmid));
        free
    }

    /// A domain goes (its last processor goes offline) or comes, with its default masks then.
    pub(crate) fn set_domain(&mut self, domain: u32, is_there: bool) {
        let at = self.domains.iter().position(|d| *d == domain);
        match (at, is_there) {
            (Some(at), false) if self.domains.len() > 1 => {
                self.domains.remove(at);
                for masks in &mut self.masks {
                    masks.remove(at);
                }
                for bandwidth in &mut self.bandwidth {
                    bandwidth.remove(at);
                }
            }
            (None, true) => {
                let at = self.domains.partition_point(|d| *d < domain);
                self.domains.insert(at, domain);
                let full = self.spec.full();
                self.masks.iter_mut().for_each(|m| m.insert(at, full));
                self.bandwidth.iter_mut().for_each(|b| b.insert(at, 100));
            }
            _ => {}
        }
    }
}
