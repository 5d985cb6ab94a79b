//! In which domains of the last-level cache what is set: those that packet cores are in, and of devices' ways those that devices
//! write to. What runs in another socket or core complex keeps its ways.

use std::collections::{BTreeMap, BTreeSet};

use host::resctrl::{IoAlloc, longest_run};
use host::{CbmRule, CpuIdentity, CpuList, DomainWays, HostError, IoBackend, IoRegister, Placement, Resctrl, l3_of};
use policy::Floors;
use units::Cbm;

use crate::config::Role;
use crate::{DaemonConfig, DaemonError, Parts};

/// Domains by what is in them; nothing: it is not known, so all are set alike.
pub(crate) struct Domains {
    /// Those that each class of packet cores is in, by number.
    classes: BTreeMap<u8, BTreeSet<u32>>,
    /// Those that any of them is in.
    pub packet: Option<BTreeSet<u32>>,
    /// Those whose ways of devices are moved.
    pub io: Option<BTreeSet<u32>>,
}

impl Domains {
    /// Looks where the cores of classes are: those of the configuration, or of a group that was there before.
    ///
    /// # Errors
    /// The machine cannot be read; `io.domains` that are not there.
    pub fn find(
        config: &DaemonConfig,
        parts: &Parts,
        resctrl: &Resctrl,
        notes: &mut Vec<String>,
    ) -> Result<Domains, DaemonError> {
        let groups = resctrl.groups()?;
        let there: BTreeSet<u32> = resctrl.masks("")?.into_iter().map(|(domain, _)| domain).collect();
        let mut classes = BTreeMap::new();
        let mut unknown = None;
        for (clos, class) in config.numbers().into_iter().filter(|(_, class)| class.role != Role::Other) {
            let group = config.group(class);
            let cpus = if groups.contains(&group) { resctrl.cpus(&group)? } else { class.cpus.parse::<CpuList>()? };
            let domains: Option<BTreeSet<u32>> = cpus.0.iter().map(|cpu| l3_of(&*parts.sys, *cpu)).collect();
            match domains.filter(|domains| !domains.is_empty() && domains.is_subset(&there)) {
                Some(domains) => drop(classes.insert(clos, domains)),
                None => unknown = unknown.or(Some(class.name.clone())),
            }
        }
        let list = |domains: &BTreeSet<u32>| domains.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let packet = match unknown {
            None => Some(classes.values().flatten().copied().collect::<BTreeSet<u32>>()),
            Some(class) if there.len() > 1 => {
                notes.push(format!(
                    "in which L3 domains class {class:?} runs is not known (no processors, or no cache/index3/id of them below \
                     roots.sys): masks are set in all of {}",
                    list(&there)
                ));
                None
            }
            Some(_) => None,
        };
        if let Some(packet) = packet.as_ref().filter(|packet| **packet != there) {
            notes.push(format!("packet cores are in L3 domains {}: no others are set", list(packet)));
        }
        let io = config.io.domains.as_ref().map(|named| named.iter().copied().collect::<BTreeSet<u32>>());
        if let Some(named) = io.as_ref().filter(|named| named.is_empty() || !named.is_subset(&there)) {
            return Err(DaemonError::Setting {
                path: "io.domains".into(),
                came: format!("[{}]", list(named)),
                allowed: format!("some of this machine's L3 domains {} (all but offline ones)", list(&there)),
            });
        }
        let io = io.or_else(|| packet.clone());
        Ok(Domains { classes, packet, io })
    }

    /// A processor of each package whose register is set.
    pub fn packages(&self, parts: &Parts, cpu: &CpuIdentity) -> Vec<u32> {
        let is_set = |cpu: &&u32| match (&self.io, l3_of(&*parts.sys, **cpu)) {
            (Some(io), Some(domain)) => io.contains(&domain),
            _ => true,
        };
        let own: Vec<u32> = cpu.packages.iter().filter(is_set).copied().collect();
        if own.is_empty() { cpu.packages.clone() } else { own }
    }
}

/// What the domains of a setup are judged with.
pub(crate) struct PlacementContext<'a> {
    pub config: &'a DaemonConfig,
    pub parts: &'a Parts,
    pub resctrl: &'a Resctrl,
    pub cpu: &'a CpuIdentity,
    pub rule: &'a CbmRule,
    pub io: &'a IoBackend,
    pub floors: &'a Floors,
}

impl PlacementContext<'_> {
    /// Where each class is set, by number; 0 is the root's group.
    ///
    /// # Errors
    /// The machine cannot be read; a domain in which devices leave cores too few ways.
    pub fn placements(&self, domains: &Domains) -> Result<BTreeMap<u8, Placement>, DaemonError> {
        let numbers = self.config.numbers().into_iter().map(|(clos, _)| clos).chain([0]);
        let Some(packet) = &domains.packet else {
            return Ok(numbers.map(|clos| (clos, Placement::Everywhere)).collect());
        };
        let mut kept = BTreeMap::new();
        for domain in packet {
            kept.insert(*domain, self.kept(*domain, domains)?);
        }
        let of = |clos: u8| {
            let own = domains.classes.get(&clos);
            let ways = packet.iter().filter_map(|domain| {
                let is_core = own.is_some();
                // All others are kept out of packet cores' ways where packet cores are.
                if !own.is_none_or(|own| own.contains(domain)) {
                    return None;
                }
                let ways = match kept[domain] {
                    Some(mask) if is_core || self.floors.others == 0 => DomainWays::Kept(mask),
                    _ => DomainWays::Planned,
                };
                Some((*domain, ways))
            });
            Placement::In(ways.collect())
        };
        Ok(numbers.map(|clos| (clos, of(clos))).collect())
    }

    /// The ways of cores in a domain where the policy moves nothing, or where hardware fills other ways than elsewhere.
    fn kept(&self, domain: u32, domains: &Domains) -> Result<Option<Cbm>, DaemonError> {
        let is_moved = domains.io.as_ref().is_none_or(|io| io.contains(&domain));
        let devices = match self.io {
            IoBackend::Register(_) | IoBackend::Kernel(_) if is_moved => return Ok(None),
            IoBackend::Register(_) => self.register_of(domain)?,
            IoBackend::Kernel(_) => match self.resctrl.io_alloc()? {
                IoAlloc::Enabled(masks) => masks.iter().find(|(d, _)| *d == domain).map_or(Cbm(0), |(_, m)| *m),
                IoAlloc::Disabled | IoAlloc::Unsupported => Cbm(0),
            },
            IoBackend::Fixed(_) | IoBackend::Unknown if self.config.io.fixed.is_some() => return Ok(None),
            IoBackend::Fixed(_) | IoBackend::Unknown => {
                let own = self.hardware_ways(domain)?;
                if own == self.rule.shareable {
                    return Ok(None);
                }
                own
            }
        };
        let free = self.rule.full.0 & !Cbm::low(self.floors.others).0 & !devices.0;
        let mask = longest_run(Cbm(free));
        let least = self.config.policy.core_floor.max(self.rule.min_bits);
        if mask.ways() < least {
            return Err(DaemonError::Conflict(format!(
                "in L3 domain {domain} devices fill {devices}, which leave packet cores {} ways and {least} are wanted \
                 (policy.core_floor)",
                mask.ways()
            )));
        }
        Ok(Some(mask))
    }

    /// What the register holds in the package of a domain.
    fn register_of(&self, domain: u32) -> Result<Cbm, HostError> {
        let of = self.cpu.packages.iter().find(|cpu| l3_of(&*self.parts.sys, **cpu) == Some(domain));
        let Some(cpu) = of else { return Ok(Cbm(0)) };
        IoRegister::new(self.parts.dev_cpu.clone(), vec![*cpu]).read()
    }

    /// The ways that hardware fills in a domain: those of resctrl's `bit_usage`, or of `shareable_bits` where it has no such file.
    fn hardware_ways(&self, domain: u32) -> Result<Cbm, HostError> {
        let usage = match self.resctrl.bit_usage() {
            Err(why) if why.is_gone() => BTreeMap::new(),
            other => other?,
        };
        let bits = |letters: &String| {
            let ways = letters.chars().rev().enumerate().take(32).filter(|(_, letter)| "HX".contains(*letter));
            Cbm(ways.fold(0, |all, (way, _)| all | 1 << way))
        };
        Ok(usage.get(&domain).map_or(self.rule.shareable, bits))
    }
}
