//! Puts back what the journal says. What cannot be put back gets a safe setting, and what not even that is kept in the journal.

use std::collections::BTreeSet;

use host::resctrl::{IoAlloc, longest_run};
use host::{CbmRule, GroupMode, HostError, IoRegister, Resctrl};
use units::Cbm;

use crate::{DaemonError, Journal, JournalEntry, Parts, StateFolder};

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// As it was.
    pub restored: Vec<String>,
    /// What could not be as it was, and what it is now.
    pub safe: Vec<String>,
    /// What failed, and why.
    pub failed: Vec<String>,
}

/// EINVAL: how the kernel refuses a mask.
const INVALID: i32 = rustix::io::Errno::INVAL.raw_os_error();
/// Tries of what may pass.
const TRIES: u32 = 8;

/// Puts back everything in the journal and empties it. `wait` passes time between tries, by their number.
///
/// # Errors
/// The journal cannot be read; something failed, which is in the journal still.
pub fn restore(state: &StateFolder, parts: &Parts, wait: &mut dyn FnMut(u32)) -> Result<RestoreReport, DaemonError> {
    let journal = state.journal(&parts.prefix)?;
    if journal.is_empty() {
        return Ok(RestoreReport::default());
    }
    let (report, left) = put_back_all(&journal, parts, wait);
    state.keep(&Journal { entries: left, ..journal })?;
    if report.failed.is_empty() { Ok(report) } else { Err(DaemonError::NotRestored(report.failed.join("; "))) }
}

/// Puts back everything in a journal, which stays as it is: for a process whose loop hangs and may yet go on.
pub(crate) fn put_back_all(
    journal: &Journal,
    parts: &Parts,
    wait: &mut dyn FnMut(u32),
) -> (RestoreReport, Vec<JournalEntry>) {
    let mut report = RestoreReport::default();
    let mut left = Vec::new();
    // A start that cannot be told is taken for the same one: what is put back needlessly is as it was anyway.
    let boot = parts.boot();
    if !boot.is_empty() && !journal.boot.is_empty() && journal.boot != boot {
        report.restored.push("the machine has been started since: nothing of it is in force".into());
        return (report, left);
    }
    // Groups that we made go first: then their ways are nobody's.
    let (made, changed): (Vec<_>, Vec<_>) =
        journal.entries.iter().partition(|e| matches!(e, JournalEntry::Made { .. }));
    // A register stands alone in each package: one that cannot be reached keeps no other from being put back.
    let each = made.into_iter().chain(changed).flat_map(|entry| match entry {
        JournalEntry::Register { values } => {
            values.iter().map(|v| JournalEntry::Register { values: vec![*v] }).collect()
        }
        other => vec![other.clone()],
    });
    // Others that keep to the kernel's lock are kept out where that can be had; a lock that is held stops no restoring.
    let _lock = parts.resctrl.lock();
    for entry in each {
        let mut tries = 0;
        let outcome = loop {
            match put_back(&entry, parts) {
                Err(why) if why.may_pass() && tries < TRIES => {
                    tries += 1;
                    wait(tries);
                }
                other => break other,
            }
        };
        match outcome {
            Ok(Done::Restored(what)) => report.restored.push(what),
            Ok(Done::Safe(what)) => report.safe.push(what),
            Err(why) => {
                report.failed.push(why.to_string());
                match (left.last_mut(), entry) {
                    (Some(JournalEntry::Register { values }), JournalEntry::Register { values: more }) => {
                        values.extend(more)
                    }
                    (_, entry) => left.push(entry),
                }
            }
        }
    }
    (report, left)
}

/// The domains in which something was set; none: all.
type SetIn = Option<BTreeSet<u32>>;
/// Masks by domain.
type SetMasks = Vec<(u32, Cbm)>;

enum Done {
    Restored(String),
    Safe(String),
}

fn put_back(entry: &JournalEntry, parts: &Parts) -> Result<Done, HostError> {
    match entry {
        JournalEntry::Made { group } => {
            let resctrl = Resctrl::open(parts.resctrl.clone())?;
            match resctrl.remove(group) {
                Ok(()) => Ok(Done::Restored(format!("group {group} is removed"))),
                Err(why) if why.is_gone() => Ok(Done::Restored(format!("group {group} is not there"))),
                Err(why) => Err(why),
            }
        }
        JournalEntry::Masks { group, masks, domains } => {
            masks_back(&Resctrl::open(parts.resctrl.clone())?, group, masks, domains)
        }
        JournalEntry::Register { values } => {
            let register = IoRegister::new(parts.dev_cpu.clone(), values.iter().map(|(cpu, _)| *cpu).collect());
            register.write(values)?;
            Ok(Done::Restored(format!("ways of device writes are {}", text(values))))
        }
        JournalEntry::IoAlloc { masks, domains } => {
            let resctrl = Resctrl::open(parts.resctrl.clone())?;
            let rule = resctrl.rule()?;
            let to = match masks {
                None => IoAlloc::Disabled,
                Some(masks) => IoAlloc::Enabled(present(&resctrl, masks, domains, &rule)?),
            };
            resctrl.set_io_alloc(&to, &rule)?;
            Ok(match to {
                IoAlloc::Enabled(back) if back.is_empty() => {
                    Done::Safe("I/O allocation has none of its domains now: they come back with all ways".into())
                }
                _ => Done::Restored("I/O allocation is as it was".into()),
            })
        }
    }
}

/// Of each domain that is there, and was set, what it had; all ways where it was not there then, since it came with those. Domains
/// that are gone come back with all ways, too.
fn present(resctrl: &Resctrl, masks: &[(u32, Cbm)], domains: &SetIn, rule: &CbmRule) -> Result<SetMasks, HostError> {
    let there = host::within(&resctrl.masks("")?, domains);
    let had = |domain: u32| masks.iter().find(|(d, _)| *d == domain).map_or(rule.full, |(_, mask)| *mask);
    Ok(there.into_iter().map(|(domain, _)| (domain, had(domain))).collect())
}

fn masks_back(resctrl: &Resctrl, group: &str, masks: &[(u32, Cbm)], domains: &SetIn) -> Result<Done, HostError> {
    let name = if group.is_empty() { "the default group" } else { group };
    let rule = resctrl.rule()?;
    let back = present(resctrl, masks, domains, &rule)?;
    if back.is_empty() {
        return Ok(Done::Safe(format!("{name} has none of its domains now: they come back with all ways")));
    }
    match resctrl.set_masks(group, &back, &rule) {
        Ok(()) => Ok(Done::Restored(format!("{name} has L3:{}", text(&back)))),
        Err(why) if why.is_gone() => Ok(Done::Safe(format!("{name} is not there any more"))),
        // Other refusals than of the mask itself leave it in the journal.
        Err(why) if why.errno() != Some(INVALID) => Err(why),
        Err(why) => {
            // Somebody has taken these ways for himself since: all that nobody has.
            let free = free_ways(resctrl, group, &rule, &back)?;
            match resctrl.set_masks(group, &free, &rule) {
                Ok(()) => Ok(Done::Safe(format!("{name} has L3:{} now, since {why}", text(&free)))),
                Err(_) => Err(why),
            }
        }
    }
}

/// The longest run of ways, by domain, that no group has alone.
fn free_ways(
    resctrl: &Resctrl,
    group: &str,
    rule: &CbmRule,
    domains: &[(u32, Cbm)],
) -> Result<Vec<(u32, Cbm)>, HostError> {
    let mut free = Vec::new();
    for (domain, _) in domains {
        let mut mask = rule.full.0;
        for other in resctrl.groups()?.iter().filter(|g| *g != group) {
            let taken = match resctrl.mode(other) {
                Ok(GroupMode::Shareable) => continue,
                Ok(_) => resctrl.masks(other),
                Err(why) => Err(why),
            };
            match taken {
                Ok(masks) => mask &= !masks.into_iter().find(|(d, _)| d == domain).map_or(0, |(_, m)| m.0),
                // Containers come and go: one that has gone meanwhile has nothing.
                Err(why) if why.is_gone() => {}
                Err(why) => return Err(why),
            }
        }
        free.push((*domain, longest_run(Cbm(mask))));
    }
    Ok(free)
}

fn text(masks: &[(u32, Cbm)]) -> String {
    masks.iter().map(|(domain, mask)| format!("{domain}={:x}", mask.0)).collect::<Vec<_>>().join(";")
}
