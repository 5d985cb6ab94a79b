//! From a configuration to a machine: what is here, what is not, which groups are ours.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use control::Counter;
use host::{
    CbmRule, CoreEvents, CounterSource, CpuIdentity, CpuList, Files, FromBandwidth, FromEthtool, FromJson, FromKernel,
    FromMetrics, FromPerf, FromTelemetry, FromVpp, FromXdp, GroupMode, HostError, HostMachine, IoBackend, IoRegister,
    IoWaysRegister, KernelCounters, Metering, PerfEvents, Resctrl, ServiceClass, Tree, ethtool::KernelEthtool,
    generation, prometheus::MetricServer, resctrl::IoAlloc, xdp::KernelMaps,
};
use policy::{Floors, Meter, PolicyError};
use units::{Cbm, Clos, Ps};

use crate::config::{IoWaysBackend, as_configured};
use crate::placement::{Domains, PlacementContext};
use crate::{DaemonConfig, DaemonError};

/// The machine's roots, and how groups of the daemon's are told from others'.
#[derive(Clone)]
pub struct Parts {
    /// Names of our groups begin so.
    pub prefix: String,
    /// resctrl.
    pub resctrl: Arc<dyn Tree>,
    /// Registers.
    pub dev_cpu: Arc<dyn Tree>,
    /// Processes.
    pub proc: Arc<dyn Tree>,
    /// Devices.
    pub sys: Arc<dyn Tree>,
}

impl Parts {
    /// The files that a configuration names.
    pub fn of(config: &DaemonConfig) -> Parts {
        let files = |path: &std::path::Path| -> Arc<dyn Tree> { Arc::new(Files::new(path)) };
        let roots = &config.roots;
        Parts {
            prefix: config.prefix.clone(),
            resctrl: files(&roots.resctrl),
            dev_cpu: files(&roots.dev_cpu),
            proc: files(&roots.proc),
            sys: files(&roots.sys),
        }
    }

    /// This start of the machine.
    pub fn boot(&self) -> String {
        self.proc.read("sys/kernel/random/boot_id").unwrap_or_default().trim().into()
    }

    /// This machine, which one daemon at a time sets, whatever folder it keeps its state in: dropped, it is another's. [`None`]
    /// where resctrl is not mounted, so that nobody can set it.
    ///
    /// # Errors
    /// Another daemon has it.
    pub fn claim(&self) -> Result<Option<Box<dyn Any + Send>>, DaemonError> {
        let path = self.resctrl.root().join(CLAIMED);
        match self.resctrl.claim(CLAIMED) {
            Ok(claim) => Ok(Some(claim)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                Err(DaemonError::Running { path: path.display().to_string() })
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(DaemonError::file("locking", &path, e)),
        }
    }

    /// The register of device ways, through these processors.
    pub(crate) fn register(&self, cpus: Vec<u32>) -> IoRegister {
        IoRegister::new(self.dev_cpu.clone(), cpus)
    }
}

/// The folder of resctrl that a daemon locks as long as it runs. Others lock the root, for a moment (Linux,
/// Documentation/filesystems/resctrl.rst).
const CLAIMED: &str = "info";

/// A configuration that fits the machine. Nothing has been written.
pub struct DaemonSetup {
    /// The file system.
    pub resctrl: Resctrl,
    /// The processor.
    pub cpu: CpuIdentity,
    /// What sets the ways of devices.
    pub io: IoBackend,
    /// What each part keeps.
    pub floors: Floors,
    /// Ways of devices that the policy begins with.
    pub start_io: u32,
    /// Classes, by number; those whose groups are not there yet.
    pub classes: Vec<ServiceClass>,
    /// Groups to be made, with their processors.
    pub missing: Vec<(String, CpuList)>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

impl DaemonSetup {
    /// Looks at the machine.
    ///
    /// # Errors
    /// resctrl is not mounted or cannot be read, the ways do not suffice, other groups stand in the way.
    pub fn new(config: &DaemonConfig, parts: &Parts) -> Result<DaemonSetup, DaemonError> {
        let resctrl = Resctrl::open(parts.resctrl.clone())?;
        let rule = resctrl.rule()?;
        let cpu = CpuIdentity::read(&*parts.proc)?;
        let mut notes = Vec::new();
        let domains = Domains::find(config, parts, &resctrl, &mut notes)?;
        let asked = IoBackendContext { config, resctrl: &resctrl, cpu: &cpu, rule: &rule, domains: &domains };
        let io = asked.backend(parts.register(domains.packages(parts, &cpu)), &mut notes)?;
        let floors = floors(config, &rule, &io)?;
        let groups = resctrl.groups()?;
        let mut missing = Vec::new();
        for (_, class) in config.numbers() {
            let name = config.group(class);
            let cpus: CpuList = class.cpus.parse()?;
            if !groups.contains(&name) {
                missing.push((name, cpus));
                continue;
            }
            let has = resctrl.cpus(&name)?;
            if !cpus.0.is_empty() && has != cpus {
                notes.push(format!(
                    "group {name:?} was there before and is taken as it is, with processors \"{has}\": it is not given \"{cpus}\" of the \
                     configuration"
                ));
            }
        }
        check_room(config, &resctrl, &groups, missing.len(), rule.closids, &io)?;
        check_cpus(config, &resctrl, &groups, &missing)?;
        check_exclusive(config, &resctrl, &groups, &floors, &domains)?;
        let of =
            PlacementContext { config, parts, resctrl: &resctrl, cpu: &cpu, rule: &rule, io: &io, floors: &floors };
        let mut placements = of.placements(&domains)?;
        let mut class = |clos: u8, group: String| ServiceClass {
            clos: Clos(clos),
            group,
            placement: placements.remove(&clos).unwrap_or_default(),
        };
        if floors.others > 0 && !config.default_group {
            notes.push(format!(
                "the default group still fills all ways, those of packet cores too: default_group = true keeps it to the {} of others",
                floors.others
            ));
        }
        let mut classes: Vec<ServiceClass> =
            config.numbers().into_iter().map(|(clos, c)| class(clos, config.group(c))).collect();
        if config.default_group {
            classes.insert(0, class(0, String::new()));
        }
        let start_io = match config.policy.io_ways {
            Some(ways) => ways,
            None => start_io(&io, &resctrl, &rule)?,
        };
        Ok(DaemonSetup { resctrl, cpu, io, floors, start_io, classes, missing, notes })
    }

    /// Classes as they can be read before their groups are there: those have the default group's masks.
    pub fn readable(&self) -> Vec<ServiceClass> {
        let is_missing = |c: &ServiceClass| self.missing.iter().any(|(name, _)| *name == c.group);
        let stand_in = |c: &ServiceClass| ServiceClass {
            group: if is_missing(c) { String::new() } else { c.group.clone() },
            ..c.clone()
        };
        self.classes.iter().map(stand_in).collect()
    }

    /// The machine, of these classes.
    ///
    /// # Errors
    /// As [`HostMachine::new`].
    pub fn machine(
        &self,
        classes: Vec<ServiceClass>,
        sources: Vec<Box<dyn CounterSource>>,
        clock: impl FnMut() -> Ps + Send + 'static,
    ) -> Result<HostMachine, DaemonError> {
        Ok(HostMachine::new(
            self.resctrl.clone(),
            classes,
            self.io.clone(),
            sources,
            Box::new(Meters::default()),
            clock,
        )?)
    }

    /// How the processor is named in what is remembered of it.
    pub fn name(&self) -> String {
        format!("{} {}/{}", self.cpu.vendor, self.cpu.family, self.cpu.model)
    }
}

/// Where nothing says how many ways devices have: two, as Intel's processors have after their start.
const USUAL_IO: u32 = 2;

/// As many ways as devices have now: a policy that began with others would begin with a change that nothing calls for.
fn start_io(io: &IoBackend, resctrl: &Resctrl, rule: &CbmRule) -> Result<u32, DaemonError> {
    let highest = |ways: Cbm| (ways == Cbm::span(rule.ways() - ways.ways(), ways.ways())).then(|| ways.ways());
    let now = match io {
        IoBackend::Register(register) => highest(register.read()?),
        IoBackend::Kernel(domains) => match resctrl.io_alloc()? {
            IoAlloc::Enabled(masks) => {
                let own = host::within(&masks, domains);
                own.first()
                    .filter(|(_, first)| own.iter().all(|(_, mask)| mask == first))
                    .and_then(|(_, m)| highest(*m))
            }
            // It has not been said what they are to fill.
            IoAlloc::Disabled | IoAlloc::Unsupported => None,
        },
        IoBackend::Fixed(_) | IoBackend::Unknown => None,
    };
    Ok(now.filter(|ways| *ways > 0).unwrap_or(USUAL_IO))
}

/// What each part keeps in this cache.
fn floors(config: &DaemonConfig, rule: &CbmRule, io: &IoBackend) -> Result<Floors, DaemonError> {
    let mut floors = config.floors(rule.ways());
    floors.core = floors.core.max(rule.min_bits);
    match io {
        // Nothing is kept from cores: but for the others' they are all theirs.
        IoBackend::Fixed(Cbm(0)) => {
            let cores = floors.ways.saturating_sub(floors.others);
            if cores < floors.core {
                let Floors { ways, others, core, .. } = floors;
                return Err(as_configured(PolicyError::Ways { path: "policy".into(), ways, others, core, io: 0 }));
            }
            (floors.core, floors.io) = (cores, 0);
            return Ok(floors);
        }
        IoBackend::Fixed(ways) => fix(&mut floors, *ways)?,
        IoBackend::Kernel(_) => floors.io = floors.io.max(rule.min_bits),
        IoBackend::Register(_) | IoBackend::Unknown => floors.io = floors.io.max(1),
    }
    floors.check("policy").map_err(as_configured)?;
    Ok(floors)
}

/// Devices keep to the ways that they have.
pub(crate) fn fix(floors: &mut Floors, ways: Cbm) -> Result<(), DaemonError> {
    let n = ways.ways();
    if ways != Cbm::span(floors.ways.saturating_sub(n), n) || n == 0 {
        return Err(DaemonError::Conflict(format!(
            "device writes fill {ways}, which are not the highest ways: they cannot be kept apart from cores' (set the register back \
             to its default)"
        )));
    }
    floors.io = n;
    // No more than these can then be had: what others leave is the cores'.
    floors.core = floors.core.max(floors.ways.saturating_sub(floors.others + n));
    Ok(())
}

/// What the setting of devices' ways is chosen by.
struct IoBackendContext<'a> {
    config: &'a DaemonConfig,
    resctrl: &'a Resctrl,
    cpu: &'a CpuIdentity,
    rule: &'a CbmRule,
    domains: &'a Domains,
}

impl IoBackendContext<'_> {
    /// What sets them: `register` where the processor has it.
    fn backend(&self, register: IoRegister, notes: &mut Vec<String>) -> Result<IoBackend, DaemonError> {
        let IoBackendContext { config, resctrl, cpu, rule, domains } = *self;
        let known = generation(cpu).map_or(IoWaysRegister::Absent, |g| g.io_ways);
        let fixed = |notes: &mut Vec<String>, why: &str, at: Cbm| {
            notes.push(format!("ways of device writes stay {at}: {why}"));
            Ok(IoBackend::Fixed(at))
        };
        let untold = |notes: &mut Vec<String>, why: &str| Ok(IoBackend::Fixed(untold_io(config, rule, why, notes)));
        let wanted = config.io.backend;
        if matches!(wanted, IoWaysBackend::Auto | IoWaysBackend::IoAlloc) {
            match resctrl.io_alloc()? {
                IoAlloc::Unsupported if wanted == IoWaysBackend::IoAlloc => {
                    return Err(DaemonError::Setting {
                        path: "io.backend".into(),
                        came: "io_alloc".into(),
                        allowed:
                            "this kernel or processor has none (Linux 6.19 on AMD with SDCI); auto takes what there is"
                                .into(),
                    });
                }
                IoAlloc::Unsupported => {}
                _ => return Ok(IoBackend::Kernel(domains.io.clone())),
            }
        }
        // What the number 0xC8B is on a processor that is not in the table nobody here knows: it is not even read.
        if known == IoWaysRegister::Absent && wanted == IoWaysBackend::Register {
            return Err(DaemonError::Setting {
                path: "io.backend".into(),
                came: "register".into(),
                allowed: format!(
                    "{} family {} model {} is not known to have register 0xC8B; auto takes what there is",
                    cpu.vendor, cpu.family, cpu.model
                ),
            });
        }
        if matches!(wanted, IoWaysBackend::Auto | IoWaysBackend::Register) && known != IoWaysRegister::Absent {
            // A register that holds no run of ways is not the one that is meant, or a virtual machine's, which reads 0.
            let now = register.read().and_then(|now| rule.of_io().check(now, "MSR 0xC8B").map(|()| now));
            match (known, now) {
                (_, Err(why)) if wanted == IoWaysBackend::Register => return Err(why.into()),
                (_, Err(why)) => return untold(notes, &why.to_string()),
                (IoWaysRegister::NoEffect, Ok(now)) if wanted == IoWaysBackend::Auto => {
                    return fixed(notes, "on this generation a write to the register has no effect", now);
                }
                // A register that is in no manual is written unasked only where others have seen it work.
                (IoWaysRegister::Unverified, Ok(now)) if wanted == IoWaysBackend::Auto => {
                    return fixed(
                        notes,
                        "whether the register has an effect on this generation is not known; io.backend = \"register\" has it measured",
                        now,
                    );
                }
                (_, Ok(_)) => return Ok(IoBackend::Register(register)),
            }
        }
        untold(notes, "nothing sets them here")
    }
}

/// The ways of devices where no register tells: those of the configuration, or those that resctrl says hardware shares; none where it
/// says that no way is.
fn untold_io(config: &DaemonConfig, rule: &CbmRule, why: &str, notes: &mut Vec<String>) -> Cbm {
    let ways = rule.ways();
    let highest = |n: u32| Cbm::span(ways - n.min(ways), n.min(ways));
    let no_way = format!("cores are kept out of no way for devices: {why}");
    let (at, note) = match (config.io.fixed, rule.shareable) {
        (Some(0), _) => (Cbm(0), format!("{no_way}, and io.fixed is 0")),
        (None, Cbm(0)) => (Cbm(0), format!("{no_way}, and resctrl names no way that hardware fills too")),
        (None, shared) if shared != highest(shared.ways()) => {
            let ways = shared.ways();
            let remedy = format!("io.fixed = {ways} keeps them out of as many of the highest");
            (
                Cbm(0),
                format!("{no_way}, and the ways that hardware fills too, {shared}, are not the highest ({remedy})"),
            )
        }
        (fixed, shared) => {
            let at = fixed.map_or(shared, highest);
            (at, format!("ways of device writes stay {at}: {why}"))
        }
    };
    notes.push(note);
    at
}

/// Classes of service are left to others.
fn check_room(
    config: &DaemonConfig,
    resctrl: &Resctrl,
    groups: &[String],
    wanted: usize,
    closids: u32,
    io: &IoBackend,
) -> Result<(), DaemonError> {
    let io_takes = matches!(io, IoBackend::Kernel(_)) as usize;
    let free = (closids as usize).saturating_sub(groups.len() + io_takes);
    let reserved = config.reserve_closids as usize;
    if wanted > 0 && free < wanted + reserved {
        let others: Vec<&str> = groups.iter().map(String::as_str).filter(|g| !g.is_empty()).collect();
        return Err(DaemonError::Conflict(format!(
            "{wanted} classes of service are wanted and {reserved} are to stay free, {free} of {closids} are free in {} (there are \
             groups {}; remove one that nobody needs, or lower reserve_closids)",
            resctrl.tree().root().display(),
            others.join(", ")
        )));
    }
    Ok(())
}

/// Processors are there, and are taken from the default group only.
fn check_cpus(
    config: &DaemonConfig,
    resctrl: &Resctrl,
    groups: &[String],
    missing: &[(String, CpuList)],
) -> Result<(), DaemonError> {
    // Each one is in one group.
    let mut there = CpuList::default();
    for group in groups {
        there.0.extend(resctrl.cpus(group)?.0);
    }
    for (i, class) in config.classes.iter().enumerate() {
        let absent = CpuList(class.cpus.parse::<CpuList>()?.0.difference(&there.0).copied().collect());
        if !absent.0.is_empty() {
            return Err(DaemonError::Setting {
                path: format!("classes[{i}].cpus"),
                came: format!("{:?}", class.cpus),
                allowed: format!("{absent} is not there; this machine has processors {there}"),
            });
        }
    }
    let all: BTreeSet<u32> = missing.iter().flat_map(|(_, cpus)| cpus.0.iter().copied()).collect();
    for group in groups.iter().filter(|g| !g.is_empty()) {
        if let Some(cpu) = resctrl.cpus(group)?.0.iter().find(|c| all.contains(c)) {
            return Err(DaemonError::Conflict(format!(
                "processor {cpu} is in group {group:?} of somebody else: take it out of there, or out of the configuration"
            )));
        }
    }
    Ok(())
}

/// No mask of ours may ever need ways that another group has alone.
fn check_exclusive(
    config: &DaemonConfig,
    resctrl: &Resctrl,
    groups: &[String],
    floors: &Floors,
    domains: &Domains,
) -> Result<(), DaemonError> {
    let is_set = |domain: &u32| domains.packet.as_ref().is_none_or(|packet| packet.contains(domain));
    let foreign = groups.iter().filter(|g| !g.is_empty() && !g.starts_with(&config.prefix));
    for group in foreign {
        if resctrl.mode(group)? == GroupMode::Shareable {
            continue;
        }
        let taken = resctrl
            .masks(group)?
            .into_iter()
            .filter(|(domain, _)| is_set(domain))
            .fold(0, |all, (_, mask)| all | mask.0);
        let ours = Cbm::low(floors.ways).0 & !Cbm::low(floors.others).0;
        if taken & ours != 0 {
            return Err(DaemonError::Conflict(format!(
                "group {group:?} has ways {} for itself, and packet cores would be given some of them: move it to the lowest ways and \
                 raise policy.others to hold it, or make it shareable",
                Cbm(taken)
            )));
        }
    }
    Ok(())
}

/// Where counters come from; what cannot be had is told and left out.
pub fn sources(
    config: &DaemonConfig,
    parts: &Parts,
    notes: &mut Vec<String>,
) -> Result<Vec<Box<dyn CounterSource>>, DaemonError> {
    let mut sources: Vec<Box<dyn CounterSource>> = Vec::new();
    let cores: BTreeMap<u8, BTreeSet<u32>> = config
        .numbers()
        .into_iter()
        .map(|(clos, c)| Ok((clos, c.cpus.parse::<CpuList>()?.0)))
        .collect::<Result<_, HostError>>()?;
    if let Some(t) = &config.telemetry {
        sources.push(Box::new(FromTelemetry::new(t.socket.clone(), t.ports.clone(), cores.clone())));
    }
    if let Some(json) = &config.json {
        sources.push(Box::new(FromJson::new(host::json::JsonServer::new(&json.url)?, config.json_paths(json))));
    }
    if let Some(perf) = &config.perf {
        let of = |cpus: &BTreeSet<u32>| CoreEvents {
            misses: perf.llc_misses.clone(),
            lookups: perf.llc_lookups.clone(),
            cpus: cpus.iter().copied().collect(),
        };
        let has_llc = !perf.llc_misses.is_empty() && !perf.llc_lookups.is_empty();
        let events = PerfEvents {
            ddio_hits: perf.ddio_hits.clone(),
            ddio_misses: perf.ddio_misses.clone(),
            memory_bytes: perf.memory_bytes.clone(),
            pcie_write_bytes: perf.pcie_write_bytes.clone(),
            pcie_read_bytes: perf.pcie_read_bytes.clone(),
            llc: if has_llc { cores.iter().map(|(c, cpus)| (*c, of(cpus))).collect() } else { BTreeMap::new() },
        };
        match FromPerf::start(&*parts.sys, &events) {
            Ok(source) => sources.push(Box::new(source)),
            Err(why @ HostError::Absent { .. }) => notes.push(format!("counters are missing: {why}")),
            Err(why) => return Err(why.into()),
        }
    }
    if let Some(metrics) = &config.prometheus {
        let names = config.metric_names(metrics)?;
        sources.push(Box::new(FromMetrics::new(MetricServer::new(&metrics.url)?, names)));
    }
    if let Some(kernel) = &config.kernel {
        let what = KernelCounters {
            interfaces: kernel.interfaces.clone(),
            lost: kernel.lost.clone(),
            busy: if kernel.busy { cores } else { BTreeMap::new() },
        };
        sources.push(Box::new(FromKernel::new(parts.sys.clone(), parts.proc.clone(), what)));
    }
    if let Some(vpp) = &config.vpp {
        sources.push(Box::new(FromVpp::new(vpp.socket.clone(), vpp.interfaces.clone(), vpp.lost.clone())));
    }
    if let Some(ethtool) = &config.ethtool {
        sources.push(Box::new(FromEthtool::new(Box::new(KernelEthtool), config.driver_counters(ethtool))));
    }
    if let Some(xdp) = &config.xdp {
        sources.push(Box::new(FromXdp::new(Box::new(KernelMaps), config.map_counters(xdp))));
    }
    if sources.is_empty() {
        notes.push(
            "there are no counters: name [telemetry], [vpp], [prometheus], [ethtool], [xdp], [kernel], [json] or [perf], or the policy has nothing to judge by"
                .into(),
        );
    }
    notes.extend(host::counted_twice(&sources));
    let others = [
        config.json.as_ref().map(|json| &json.memory_bytes),
        config.perf.as_ref().map(|perf| &perf.memory_bytes),
        config.prometheus.as_ref().map(|metrics| &metrics.memory_bytes),
    ];
    if others.into_iter().flatten().all(Vec::is_empty) {
        let resctrl = Resctrl::open(parts.resctrl.clone())?;
        sources.extend(FromBandwidth::of(&resctrl)?.map(|source| Box::new(source) as Box<dyn CounterSource>));
    }
    Ok(sources)
}

/// The meters of the simulator's loop, by name.
#[derive(Default)]
pub(crate) struct Meters(BTreeMap<(&'static str, u8), Meter>);

impl Metering for Meters {
    fn rate(&mut self, name: (&'static str, u8), total: Option<u64>, now: Ps) -> Counter {
        self.0.entry(name).or_default().rate(total, now)
    }

    fn share(&mut self, name: (&'static str, u8), part: Option<u64>, whole: Option<u64>, now: Ps) -> Counter {
        self.0.entry(name).or_default().share(part, whole, now)
    }
}
