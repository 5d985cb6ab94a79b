//! Which writes would be made now, without making them.

use std::fmt;

use control::{Actuator, Allocation, Policy};
use host::{CounterSource, IoBackend};
use units::{Cbm, Ps};

use crate::{DaemonConfig, DaemonError, DaemonSetup, Parts, StateFolder};

/// The writes, in order, and what a reader should know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WritePlan {
    /// As shell commands.
    pub writes: Vec<String>,
    /// What is left alone, and what is missing.
    pub notes: Vec<String>,
}

/// What `run --apply` would write first.
///
/// # Errors
/// As [`DaemonSetup::new`]; the machine or the journal cannot be read.
pub fn plan(
    config: &DaemonConfig,
    parts: &Parts,
    sources: Vec<Box<dyn CounterSource>>,
) -> Result<WritePlan, DaemonError> {
    let setup = DaemonSetup::new(config, parts)?;
    let mut machine = setup.machine(setup.readable(), sources, || Ps(1))?;
    let seen = machine.observe()?;
    let mut plan = WritePlan { notes: setup.notes.clone(), ..WritePlan::default() };
    let root = setup.resctrl.tree().root().display().to_string();
    for (group, cpus) in &setup.missing {
        plan.writes.push(format!("mkdir {root}/{group}"));
        if !cpus.0.is_empty() {
            plan.writes.push(format!("echo {cpus} > {root}/{group}/cpus_list"));
        }
    }
    let first = crate::run::policy_of(config, &setup)?.decide(&seen).unwrap_or_default();
    plan.writes.extend(writes(config, &setup, &first)?);
    for other in setup.resctrl.groups()?.iter().filter(|g| !g.is_empty() && !g.starts_with(&config.prefix)) {
        plan.notes.push(format!("group {other:?} is somebody else's and stays as it is"));
    }
    plan.notes.extend(machine.faults().iter().cloned());
    if !StateFolder::read_only(&config.state).journal(&config.prefix)?.is_empty() {
        plan.notes.push(
            "the journal is not empty: another wirespeedd runs, or one that died has left settings, which `run --apply` puts back \
             before anything else; this is a plan from where they are now"
                .into(),
        );
    }
    Ok(plan)
}

/// Settings as shell commands.
fn writes(config: &DaemonConfig, setup: &DaemonSetup, allocation: &Allocation) -> Result<Vec<String>, DaemonError> {
    let root = setup.resctrl.tree().root().display().to_string();
    let domains = setup.resctrl.masks("")?;
    let text =
        |masks: &[(u32, Cbm)]| masks.iter().map(|(d, mask)| format!("{d}={:x}", mask.0)).collect::<Vec<_>>().join(";");
    let mut writes = Vec::new();
    for (clos, mask) in &allocation.classes {
        if let Some(class) = setup.classes.iter().find(|c| c.clos == *clos) {
            let path = if class.group.is_empty() { "schemata".into() } else { format!("{}/schemata", class.group) };
            let masks = class.placement.wanted(*mask, &domains);
            if !masks.is_empty() {
                writes.push(format!("echo 'L3:{}' > {root}/{path}", text(&masks)));
            }
        }
    }
    if let Some(ways) = allocation.io_ways {
        match &setup.io {
            IoBackend::Register(register) => {
                let wrmsr = register.cpus().iter().map(|cpu| format!("wrmsr -p {cpu} 0xc8b {:#x}", ways.0));
                writes.extend(wrmsr);
                if config.io.verify {
                    writes.push("# then the effect of that is measured, before anything relies on it".into());
                }
            }
            IoBackend::Kernel(own) => {
                let is_own = |domain: &u32| own.as_ref().is_none_or(|own| own.contains(domain));
                let masks: Vec<_> = domains.iter().filter(|(d, _)| is_own(d)).map(|(d, _)| (*d, ways)).collect();
                writes.push(format!("echo 1 > {root}/info/L3/io_alloc"));
                writes.push(format!("echo '{}' > {root}/info/L3/io_alloc_cbm", text(&masks)));
            }
            IoBackend::Fixed(_) | IoBackend::Unknown => {}
        }
    }
    Ok(writes)
}

impl fmt::Display for WritePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.writes.is_empty() {
            writeln!(f, "# nothing would be written: the machine is set as the policy wants it")?;
        }
        for write in &self.writes {
            writeln!(f, "{write}")?;
        }
        for note in &self.notes {
            writeln!(f, "# {note}")?;
        }
        Ok(())
    }
}
