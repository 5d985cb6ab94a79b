//! A machine that can be observed and set: groups of resctrl, the ways of device writes, and sources of counters.

mod packets;
mod place;
mod sources;
mod totals;

use std::collections::{BTreeMap, BTreeSet};

use control::{Actuator, Allocation, ClassObservation, Counter, Observation, Sample};
use units::{Cbm, Clos, Ps};

pub use packets::{DriverCounters, FromEthtool, FromVpp, FromXdp, MapCounters};
pub use place::{DomainWays, Placement, ServiceClass};
pub use sources::{
    CoreEvents, FromBandwidth, FromJson, FromKernel, FromMetrics, FromPerf, FromTelemetry, JsonPaths, KernelCounters,
    MetricNames, PerfEvents,
};
pub use totals::{ClassTotals, CounterClaim, CounterSource, HostTotals, TotalKind, counted_twice};

use self::totals::TotalOwners;
use crate::resctrl::IoAlloc;
use crate::{CbmRule, HostError, IoRegister, Resctrl};

/// What sets the ways of device writes.
#[derive(Clone)]
pub enum IoBackend {
    /// Nothing does, and nobody knows them.
    Unknown,
    /// Nothing does; device writes fill these.
    Fixed(Cbm),
    /// Intel's register.
    Register(IoRegister),
    /// The kernel's `io_alloc`, in these domains; nothing: in all.
    Kernel(Option<BTreeSet<u32>>),
}

/// Rates and shares from totals: the daemon's are `policy::Meter`s, which this crate may not see.
pub trait Metering: Send {
    /// The rate a second of the total `name`.
    fn rate(&mut self, name: (&'static str, u8), total: Option<u64>, now: Ps) -> Counter;
    /// The share that `part` has of `whole`.
    fn share(&mut self, name: (&'static str, u8), part: Option<u64>, whole: Option<u64>, now: Ps) -> Counter;
}

/// The machine. Masks of a class are by domain, as its [`Placement`] says.
pub struct HostMachine {
    resctrl: Resctrl,
    rule: CbmRule,
    classes: Vec<ServiceClass>,
    io: IoBackend,
    sources: Vec<Box<dyn CounterSource>>,
    owners: TotalOwners,
    clock: Box<dyn FnMut() -> Ps + Send>,
    metering: Box<dyn Metering>,
    occupancy: bool,
    last: Option<Ps>,
    held: BTreeMap<(&'static str, u8), (Ps, Sample)>,
    faults: Vec<String>,
    /// What the last observation read, by class and domain.
    masks: Vec<(Clos, Vec<(u32, Cbm)>)>,
}

/// For how many intervals a counter's last value is handed out, with its age.
const HELD: u64 = 5;

impl HostMachine {
    /// These classes of a machine; `clock` tells the time.
    ///
    /// # Errors
    /// The cache cannot be divided.
    pub fn new(
        resctrl: Resctrl,
        classes: Vec<ServiceClass>,
        io: IoBackend,
        sources: Vec<Box<dyn CounterSource>>,
        metering: Box<dyn Metering>,
        clock: impl FnMut() -> Ps + Send + 'static,
    ) -> Result<HostMachine, HostError> {
        let rule = resctrl.rule()?;
        let occupancy = resctrl.monitoring()?.is_some_and(|m| m.features.iter().any(|f| f == "llc_occupancy"));
        Ok(HostMachine {
            resctrl,
            rule,
            classes,
            io,
            owners: TotalOwners::of(&sources),
            sources,
            clock: Box::new(clock),
            metering,
            occupancy,
            last: None,
            held: BTreeMap::new(),
            faults: Vec::new(),
            masks: Vec::new(),
        })
    }

    /// What the cache takes as a mask.
    pub fn rule(&self) -> &CbmRule {
        &self.rule
    }

    /// The groups.
    pub fn resctrl(&self) -> &Resctrl {
        &self.resctrl
    }

    /// The classes.
    pub fn classes(&self) -> &[ServiceClass] {
        &self.classes
    }

    /// What sets the ways of device writes.
    pub fn io(&self) -> &IoBackend {
        &self.io
    }

    /// From now on device writes are taken to fill `ways`, whatever is set.
    pub fn fix_io(&mut self, ways: Cbm) {
        self.io = IoBackend::Fixed(ways);
    }

    /// What could not be read in the last observation, and why.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// The masks of each class that the last observation read, of the domains in which it is set.
    pub fn masks(&self) -> &[(Clos, Vec<(u32, Cbm)>)] {
        &self.masks
    }

    /// The settings in force; a class whose domains are not as they are to be has the empty mask.
    ///
    /// # Errors
    /// A group is gone, or cannot be read.
    pub fn in_force(&mut self) -> Result<Allocation, HostError> {
        self.masks.clear();
        let mut classes = Vec::new();
        for class in &self.classes {
            let masks = self.resctrl.masks(&class.group)?;
            classes.extend(class.placement.in_force(&masks).map(|mask| (class.clos, mask)));
            self.masks.push((class.clos, class.placement.own(&masks)));
        }
        Ok(Allocation { io_ways: self.io_ways()?, classes })
    }

    fn io_ways(&self) -> Result<Option<Cbm>, HostError> {
        Ok(match &self.io {
            IoBackend::Unknown => None,
            IoBackend::Fixed(ways) => Some(*ways),
            IoBackend::Register(register) => Some(register.read()?),
            // Offline domains have no ways, which is no setting that somebody else has made.
            IoBackend::Kernel(domains) if within(&self.resctrl.masks("")?, domains).is_empty() => None,
            IoBackend::Kernel(domains) => match self.resctrl.io_alloc()? {
                IoAlloc::Enabled(masks) => Some(one(&within(&masks, domains))),
                // Device writes may fill any way.
                IoAlloc::Disabled => Some(self.rule.full),
                IoAlloc::Unsupported => None,
            },
        })
    }

    fn set_io_ways(&self, ways: Cbm) -> Result<(), HostError> {
        match &self.io {
            IoBackend::Unknown => Err(HostError::Absent {
                what: "ways of device writes".into(),
                why: "nothing here sets them".into(),
                remedy: "a processor with register 0xC8B, or io_alloc".into(),
            }),
            IoBackend::Fixed(fixed) if *fixed == ways => Ok(()),
            IoBackend::Fixed(fixed) => Err(HostError::NotTaken {
                path: "ways of device writes".into(),
                wrote: ways.to_string(),
                read: format!("{fixed}, which nothing changes"),
            }),
            IoBackend::Register(register) => {
                self.rule_of_io().check(ways, "MSR 0xC8B")?;
                register.write(&register.cpus().iter().map(|cpu| (*cpu, ways)).collect::<Vec<_>>())
            }
            IoBackend::Kernel(domains) => {
                let there = within(&self.resctrl.masks("")?, domains);
                // Turning it on takes a class of service, and sets all other domains.
                if there.is_empty() {
                    return Ok(());
                }
                let masks = there.iter().map(|(domain, _)| (*domain, ways)).collect();
                self.resctrl.set_io_alloc(&IoAlloc::Enabled(masks), &self.rule)
            }
        }
    }

    /// The register takes what the cache takes, a single way too.
    fn rule_of_io(&self) -> CbmRule {
        self.rule.of_io()
    }

    fn totals(&mut self) -> HostTotals {
        self.faults.clear();
        self.owners.read(&mut self.sources, &mut self.faults)
    }

    fn occupancy(&mut self, group: &str, now: Ps, interval: Ps) -> Counter {
        if !self.occupancy {
            return None;
        }
        match self.resctrl.monitor(group, "llc_occupancy") {
            Ok(readings) => {
                let counts: Option<Vec<u64>> = readings.values().map(|r| r.count()).collect();
                let value = counts.filter(|c| !c.is_empty())?.iter().sum::<u64>() as f64;
                Some(Sample { value, age: Ps::ZERO, interval: interval.min(now) })
            }
            Err(why) => {
                self.faults.push(format!("llc_occupancy of {group:?}: {why}"));
                None
            }
        }
    }

    /// A counter that is missing is what it was, for a while, with its age.
    fn hold(&mut self, name: (&'static str, u8), fresh: Counter, now: Ps, interval: Ps) -> Counter {
        if let Some(sample) = fresh {
            self.held.insert(name, (now, sample));
            return fresh;
        }
        let (at, sample) = *self.held.get(&name)?;
        let age = now.0.checked_sub(at.0).filter(|age| *age <= interval.0.saturating_mul(HELD));
        match age {
            Some(age) => Some(Sample { age: Ps(sample.age.0 + age), ..sample }),
            None => {
                self.held.remove(&name);
                None
            }
        }
    }
}

/// Of masks by domain those of these domains; of all where none are named.
pub fn within(masks: &[(u32, Cbm)], domains: &Option<BTreeSet<u32>>) -> Vec<(u32, Cbm)> {
    let is_in = |domain: &u32| domains.as_ref().is_none_or(|domains| domains.contains(domain));
    masks.iter().filter(|(domain, _)| is_in(domain)).copied().collect()
}

/// The mask of all domains, or the empty one where they differ.
fn one(masks: &[(u32, Cbm)]) -> Cbm {
    match masks {
        [(_, first), others @ ..] if others.iter().all(|(_, other)| other == first) => *first,
        _ => Cbm(0),
    }
}

impl Actuator for HostMachine {
    type Error = HostError;

    fn observe(&mut self) -> Result<Observation, HostError> {
        let in_force = self.in_force()?;
        let totals = self.totals();
        let now = (self.clock)();
        // A clock that went back gives no interval; what is measured from here on is sound again.
        let interval = self.last.replace(now).and_then(|last| now.0.checked_sub(last.0)).map_or(Ps::ZERO, Ps);
        let HostTotals {
            received,
            lost,
            pcie_write_bytes,
            pcie_read_bytes,
            ddio_hits,
            ddio_misses,
            memory_bytes,
            classes,
        } = totals;
        let mut rate = |name: &'static str, total| {
            let fresh = self.metering.rate((name, 0), total, now);
            self.hold((name, 0), fresh, now, interval)
        };
        let received_pps = rate("received", received);
        let lost_pps = rate("lost", lost);
        let pcie_write_bytes_per_s = rate("pcie_write", pcie_write_bytes);
        let pcie_read_bytes_per_s = rate("pcie_read", pcie_read_bytes);
        let memory_bytes_per_s = rate("memory", memory_bytes);
        let both = ddio_hits.zip(ddio_misses).and_then(|(h, m)| h.checked_add(m));
        let fresh = self.metering.share(("ddio", 0), ddio_misses, both, now);
        let ddio_write_miss_rate = self.hold(("ddio", 0), fresh, now, interval);
        let mut seen = Vec::new();
        for ServiceClass { clos, group, .. } in self.classes.clone() {
            let of = classes.get(&clos.0).copied().unwrap_or_default();
            let misses = self.metering.share(("llc", clos.0), of.llc_misses, of.llc_lookups, now);
            let busy = self.metering.share(("busy", clos.0), of.busy, of.elapsed, now);
            let bytes = self.occupancy(&group, now, interval);
            seen.push(ClassObservation {
                clos,
                llc_miss_rate: self.hold(("llc", clos.0), misses, now, interval),
                llc_bytes: self.hold(("bytes", clos.0), bytes, now, interval),
                busy: self.hold(("busy", clos.0), busy, now, interval),
            });
        }
        Ok(Observation {
            at: now,
            interval,
            received_pps,
            lost_pps,
            pcie_write_bytes_per_s,
            pcie_read_bytes_per_s,
            ddio_write_miss_rate,
            memory_bytes_per_s,
            classes: seen,
            in_force,
        })
    }

    fn apply(&mut self, allocation: &Allocation) -> Result<(), HostError> {
        let _lock = self.resctrl.lock()?;
        // Everything is checked before anything is written.
        let mut writes = Vec::new();
        for (clos, mask) in &allocation.classes {
            let Some(class) = self.classes.iter().find(|c| c.clos == *clos) else { continue };
            let before = class.placement.own(&self.resctrl.masks(&class.group)?);
            let after = class.placement.wanted(*mask, &before);
            for (domain, mask) in &after {
                self.rule.check(*mask, &format!("class {}: L3 domain {domain}", class.group))?;
            }
            if before != after {
                writes.push((class, before, after));
            }
        }
        let io = match (allocation.io_ways, self.io_ways()?) {
            (Some(wanted), Some(now)) if wanted != now => Some(wanted),
            (Some(wanted), None) => Some(wanted),
            _ => None,
        };
        if let Some(ways) = io {
            self.rule_of_io().check(ways, "ways of device writes")?;
        }
        let mut done: Vec<(String, Vec<(u32, Cbm)>)> = Vec::new();
        let mut go = || -> Result<(), HostError> {
            for (ServiceClass { group, placement, .. }, before, after) in &writes {
                self.resctrl.set_masks(group, after, &self.rule)?;
                done.push((group.clone(), before.clone()));
                let read = placement.own(&self.resctrl.masks(group)?);
                if read != *after {
                    let text = |m: &[(u32, Cbm)]| {
                        m.iter().map(|(d, m)| format!("{d}={:x}", m.0)).collect::<Vec<_>>().join(";")
                    };
                    return Err(HostError::NotTaken {
                        path: format!("{group}/schemata"),
                        wrote: text(after),
                        read: text(&read),
                    });
                }
            }
            io.map_or(Ok(()), |ways| self.set_io_ways(ways))
        };
        if let Err(why) = go() {
            for (group, before) in done.iter().rev() {
                if let Err(also) = self.resctrl.set_masks(group, before, &self.rule) {
                    return Err(HostError::HalfApplied { why: why.into(), also: also.into() });
                }
            }
            return Err(why);
        }
        Ok(())
    }
}
