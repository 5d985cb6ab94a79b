//! Which tasks and processors a group has.

use std::collections::BTreeSet;

use host::{CpuList, GroupMode};
use libc::{EINVAL, ENOENT, ESRCH};

use super::{Errno, FakeResctrl};

impl FakeResctrl {
    pub(super) fn write_mon(&mut self, group: &str, mon: &str, file: &str, text: &str) -> Result<(), Errno> {
        if !self.groups.get(group).is_some_and(|g| g.mons.contains_key(mon)) {
            return Err(ENOENT);
        }
        match file {
            "tasks" => self.write_tasks(group, Some(mon), text),
            "cpus" | "cpus_list" => {
                self.status.clear();
                let new = self.parse_cpus(text, file == "cpus_list")?;
                let Some(parent) = self.groups.get_mut(group) else { return Err(ENOENT) };
                if !new.is_subset(&parent.cpus) {
                    return self.refuse("Can only add CPUs to mongroup that belong to parent\n", EINVAL);
                }
                for (name, other) in &mut parent.mons {
                    if name == mon {
                        other.cpus = new.clone();
                    } else {
                        other.cpus.retain(|c| !new.contains(c));
                    }
                }
                Ok(())
            }
            _ => Err(ENOENT),
        }
    }

    pub(super) fn write_tasks(&mut self, group: &str, mon: Option<&str>, text: &str) -> Result<(), Errno> {
        self.status.clear();
        let mode = self.groups.get(group).ok_or(ENOENT)?.mode;
        if matches!(mode, GroupMode::PseudoLocked | GroupMode::PseudoLocksetup) {
            return self.refuse("Pseudo-locking in progress\n", EINVAL);
        }
        for word in text.trim_end_matches('\n').split(',') {
            let word = word.trim();
            let Ok(pid) = word.parse::<i64>() else {
                return self.refuse(&format!("Task list parsing error pid {word}\n"), EINVAL);
            };
            let Ok(task) = u32::try_from(pid) else { return self.refuse(&format!("Invalid pid {pid}\n"), EINVAL) };
            if !self.tasks.contains(&task) {
                return self.refuse(&format!("No task {task}\nError while processing task {task}\n"), ESRCH);
            }
            if mon.is_some() && !self.groups[group].tasks.contains(&task) {
                let why = format!("Can't move task to different control group\nError while processing task {task}\n");
                return self.refuse(&why, EINVAL);
            }
            for (name, g) in &mut self.groups {
                if name == group {
                    g.tasks.insert(task);
                } else {
                    g.tasks.remove(&task);
                }
                for (m, of) in &mut g.mons {
                    if name == group && Some(m.as_str()) == mon {
                        of.tasks.insert(task);
                    } else {
                        of.tasks.remove(&task);
                    }
                }
            }
        }
        Ok(())
    }

    fn parse_cpus(&mut self, text: &str, is_list: bool) -> Result<BTreeSet<u32>, Errno> {
        let parsed = if is_list { text.parse::<CpuList>().ok().map(|l| l.0) } else { parse_mask(text) };
        let Some(new) = parsed else { return self.refuse("Bad CPU list/mask\n", EINVAL) };
        if new.iter().any(|c| *c >= self.spec.cpus) {
            return self.refuse("Can only assign online CPUs\n", EINVAL);
        }
        Ok(new)
    }

    pub(super) fn write_cpus(&mut self, group: &str, text: &str, is_list: bool) -> Result<(), Errno> {
        self.status.clear();
        let (mode, old) = match self.groups.get(group) {
            Some(g) => (g.mode, g.cpus.clone()),
            None => return Err(ENOENT),
        };
        if matches!(mode, GroupMode::PseudoLocked | GroupMode::PseudoLocksetup) {
            return self.refuse("Pseudo-locking in progress\n", EINVAL);
        }
        let new = self.parse_cpus(text, is_list)?;
        let dropped: BTreeSet<u32> = old.difference(&new).copied().collect();
        if group.is_empty() && !dropped.is_empty() {
            return self.refuse("Can't drop CPUs from default group\n", EINVAL);
        }
        for (name, g) in &mut self.groups {
            if name == group {
                g.cpus = new.clone();
                g.mons.values_mut().for_each(|m| m.cpus.clear());
            } else {
                g.cpus.retain(|c| !new.contains(c));
                g.mons.values_mut().for_each(|m| m.cpus.retain(|c| !new.contains(c)));
                if name.is_empty() {
                    g.cpus.extend(&dropped);
                }
            }
        }
        Ok(())
    }
}

pub(super) fn mask_text(cpus: &BTreeSet<u32>, of: u32) -> String {
    let words = of.div_ceil(32).max(1);
    let word = |w: u32| cpus.iter().filter(|c| **c / 32 == w).fold(0u32, |m, c| m | 1 << (c % 32));
    let first = word(words - 1);
    let width = if of.is_multiple_of(32) { 8 } else { (of % 32).div_ceil(4) as usize };
    let rest: String = (0..words - 1).rev().map(|w| format!(",{:08x}", word(w))).collect();
    format!("{first:0width$x}{rest}\n")
}

fn parse_mask(text: &str) -> Option<BTreeSet<u32>> {
    let digits: String = text.trim().chars().filter(|c| *c != ',').collect();
    if digits.is_empty() {
        return None;
    }
    let mut cpus = BTreeSet::new();
    for (i, c) in digits.chars().rev().enumerate() {
        let digit = c.to_digit(16)?;
        cpus.extend((0..4).filter(|b| digit >> b & 1 == 1).map(|b| i as u32 * 4 + b));
    }
    Some(cpus)
}
