//! What the tests make: a configuration on a made machine, and faults by chance.

use std::collections::BTreeSet;

use daemon::{Daemon, DaemonConfig, DaemonError, Metrics, Parts};
use fakehost::{FakeHost, FileRoot, ResctrlSettings, Spec};
use host::{ClassTotals, CounterClaim, CounterSource, HostError, HostTotals, TotalKind};
use tempfile::TempDir;
use units::{Cbm, Ps};

const S: u64 = 1_000_000_000_000;

/// Splitmix64.
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }
}

pub fn no_wait(_: u32) {}

/// The machine's counters, without servers between.
struct Direct(FakeHost);

impl CounterSource for Direct {
    fn name(&self) -> &str {
        "the made machine"
    }

    fn counts(&self) -> Vec<CounterClaim> {
        use TotalKind::{Busy, DdioHits, DdioMisses, Llc, Lost, MemoryBytes, PcieReadBytes, PcieWriteBytes, Received};
        let all = [Received, Lost, PcieWriteBytes, PcieReadBytes, DdioHits, DdioMisses, MemoryBytes, Llc(1), Busy(1)];
        all.map(CounterClaim::Own).to_vec()
    }

    fn read(&mut self, into: &mut HostTotals) -> Result<(), HostError> {
        let Some(c) = self.0.counters_now() else {
            return Err(HostError::Absent { what: "counters".into(), why: "gone".into(), remedy: "none".into() });
        };
        let of = |name: &str| c.get(name).copied();
        (into.received, into.lost) = (of("received"), of("lost"));
        (into.pcie_write_bytes, into.pcie_read_bytes) = (of("io_bytes"), of("out_bytes"));
        (into.ddio_hits, into.ddio_misses) = (of("io_hits"), of("io_misses"));
        into.memory_bytes = of("memory_bytes");
        let class = ClassTotals {
            llc_misses: of("core_misses"),
            llc_lookups: of("core_lookups"),
            busy: of("busy"),
            elapsed: of("elapsed"),
        };
        into.classes.insert(1, class);
        Ok(())
    }
}

/// A daemon's surroundings.
pub struct Situation {
    pub host: FakeHost,
    pub config: DaemonConfig,
    pub parts: Parts,
    /// Faults so far.
    pub broken: u64,
    clock: std::sync::Arc<std::sync::atomic::AtomicU64>,
    _folder: TempDir,
}

impl Situation {
    /// Nothing wrong, one core that receives.
    pub fn plain(spec: Spec) -> Situation {
        Situation::on(FakeHost::new(spec))
    }

    /// The same on a machine that is there.
    pub fn on(host: FakeHost) -> Situation {
        // In memory where that can be had: what is put on the disk for certain takes its time there.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let text = "[[classes]]\nname = \"rx\"\nrole = \"receive\"\ncpus = \"1\"\n";
        let mut config = DaemonConfig::parse(text, "test").unwrap();
        config.state = folder.path().join("state");
        config.listen = String::new();
        let parts = Parts {
            prefix: config.prefix.clone(),
            resctrl: host.tree(FileRoot::Resctrl),
            dev_cpu: host.tree(FileRoot::DevCpu),
            proc: host.tree(FileRoot::Proc),
            sys: host.tree(FileRoot::Sys),
        };
        Situation { host, config, parts, broken: 0, clock: Default::default(), _folder: folder }
    }

    /// A machine, a configuration and neighbours by chance.
    pub fn new(chance: &mut Chance) -> Situation {
        let mut spec = if chance.below(4) == 0 { Spec::amd() } else { Spec::default() };
        spec.domains = 1 + chance.below(3) as u32;
        spec.closids = 4 + chance.below(13) as u32;
        spec.rmids = [4, 8, 160, 0][chance.below(4) as usize];
        if !spec.io_alloc {
            spec.min_cbm_bits = 1 + chance.below(2) as u32;
        }
        spec.bandwidth = chance.below(2) == 0;
        let mut situation = Situation::plain(spec);
        situation.config.default_group = chance.below(2) == 0;
        situation.config.policy.others = [1, 2, 4][chance.below(3) as usize];
        situation.config.io.verify = chance.below(4) != 0;
        if chance.below(2) == 0 {
            let mut work = situation.config.classes[0].clone();
            (work.name, work.role, work.cpus) = ("work".into(), daemon::Role::Work, "2-3".into());
            situation.config.classes.push(work);
        }
        // The program's cores are in any of the domains, those of its workers in another or the same.
        let core = |chance: &mut Chance| chance.below(8) as u32 * 2;
        let (rx, work) = (core(chance), core(chance) + 1);
        for (class, cpu) in situation.config.classes.iter_mut().zip([rx, work]) {
            class.cpus = cpu.to_string();
        }
        let tree = situation.host.tree(FileRoot::Resctrl);
        if chance.below(2) == 0 && tree.make("besteffort").is_ok() {
            let _ = tree.write("besteffort/schemata", "L3:0=3\n");
        }
        if chance.below(3) == 0 && tree.make("wirespeed-rx").is_ok() {
            // An administrator's, with settings of his own.
            let _ = tree.write("wirespeed-rx/schemata", "L3:0=3f\n");
        }
        situation
    }

    pub fn sources(&self) -> Vec<Box<dyn CounterSource>> {
        vec![Box::new(Direct(self.host.clone()))]
    }

    pub fn clock(&self) -> impl FnMut() -> Ps + Send + 'static {
        let clock = self.clock.clone();
        // A second passes with each look, wherever the clock has been set to.
        move || Ps(clock.fetch_add(S, std::sync::atomic::Ordering::Relaxed) + S)
    }

    pub fn start(&mut self) -> Result<Daemon, DaemonError> {
        let (config, parts) = (self.config.clone(), self.parts.clone());
        Daemon::new(config, parts, self.sources(), Metrics::new(), true, &mut no_wait, self.clock())
    }

    pub fn tick(&mut self, chance: &mut Chance) {
        self.host.advance(Ps(S));
        if chance.below(8) == 0 {
            self.host.offer((1 + chance.below(4)) as f64 * 1e6, [64.0, 600.0, 1500.0][chance.below(3) as usize]);
        }
    }

    /// Something by chance; whether it is the daemon's death.
    pub fn break_something(
        &mut self,
        chance: &mut Chance,
        rewritten: &mut BTreeSet<String>,
        vanished: &mut BTreeSet<u32>,
    ) -> bool {
        self.broken += 1;
        let soon = self.host.operations() + 1 + chance.below(40);
        let path = ["schemata", "msr", "mon_data", "info", "wirespeed"][chance.below(5) as usize].to_string();
        match chance.below(11) {
            0 => {
                self.host.faults(|f| f.dead_from = Some(soon));
                return true;
            }
            // EBUSY, ENOSPC, EIO, EPERM; sometimes for long.
            1..=4 => {
                let errno = [16, 28, 5, 1][chance.below(4) as usize];
                let times = 1 + chance.below(12) as u32;
                self.host.faults(|f| f.errors.push((path, chance.below(2) == 0, errno, times)));
            }
            5 => {
                let group = ["wirespeed-rx", "", "besteffort", "wirespeed-work"][chance.below(4) as usize].to_string();
                let mask = Cbm([0x3, 0x7f, 0xff, 0x30][chance.below(4) as usize]);
                rewritten.insert(group.clone());
                self.host.faults(|f| f.foreign.push((soon, group, mask)));
            }
            6 => {
                let domain = chance.below(3) as u32;
                if domain > 0 {
                    vanished.insert(domain);
                    self.host.set_domain(domain, chance.below(2) == 0);
                }
            }
            7 => self.host.faults(|f| f.stuck = chance.below(2) == 0),
            8 => self.host.faults(|f| f.missing = chance.below(2) == 0),
            9 => self.host.faults(|f| f.unavailable = chance.below(2) == 0),
            _ => {
                // Forward by an hour, or back to the beginning.
                let to = if chance.below(2) == 0 { S } else { S * 3600 + soon * S };
                self.clock.store(to, std::sync::atomic::Ordering::Relaxed);
            }
        }
        false
    }

    pub fn is_dead(&self) -> bool {
        let now = self.host.operations();
        let mut dead = false;
        self.host.faults(|f| dead = f.dead_from.is_some_and(|from| now >= from));
        dead
    }

    pub fn mend(&mut self) {
        self.host.faults(|f| *f = fakehost::Faults::default());
    }
}

/// The domains that the packet cores of a configuration are in; [`None`] where a group that was there before has no cores.
pub fn packet_domains(situation: &Situation, before: &ResctrlSettings) -> Option<BTreeSet<u32>> {
    let domains = before.domains.len() as u32;
    let of = |class: &daemon::CoreGroupSpec| match before.groups.get(&situation.config.group(class)) {
        Some(_) => None,
        None => class.cpus.parse::<u32>().ok().map(|cpu| cpu * domains / 16),
    };
    situation.config.classes.iter().map(of).collect()
}

/// No mask has been written in a domain without packet cores since the write `from`.
pub fn none_elsewhere(situation: &Situation, from: usize, packet: &BTreeSet<u32>) -> Result<(), String> {
    for write in situation.host.writes()[from..].iter().filter(|w| w.path.ends_with("schemata")) {
        for part in write.text.trim().trim_start_matches("L3:").split(';') {
            let domain = part.split_once('=').and_then(|(domain, _)| domain.parse().ok());
            if !domain.is_some_and(|domain| packet.contains(&domain)) {
                return Err(format!("{part} was written to {} and packet cores are in {packet:?}", write.path));
            }
        }
    }
    Ok(())
}

/// The machine is as before, but for what somebody else has rewritten since, and domains that went or came back with all ways.
pub fn safe_or_before(
    situation: &Situation,
    before: &ResctrlSettings,
    registers: &[u64],
    rewritten: &BTreeSet<String>,
    vanished: &BTreeSet<u32>,
) -> Result<(), String> {
    let now = situation.host.state();
    if situation.host.registers() != registers {
        return Err(format!("registers are {:x?} and were {registers:x?}", situation.host.registers()));
    }
    let names = |s: &ResctrlSettings| s.groups.keys().cloned().collect::<Vec<_>>();
    if names(&now) != names(before) {
        return Err(format!("groups are {:?} and were {:?}", names(&now), names(before)));
    }
    if now.io_alloc.is_some() != before.io_alloc.is_some() {
        return Err("I/O allocation is not as it was".into());
    }
    for (name, was) in &before.groups {
        let is = &now.groups[name];
        if (is.mode, &is.cpus, &is.tasks) != (was.mode, &was.cpus, &was.tasks) {
            return Err(format!("group {name:?} is {is:?} and was {was:?}"));
        }
        for (domain, had) in before.domains.iter().zip(&was.masks) {
            let has = now.domains.iter().position(|d| d == domain).map(|at| is.masks[at]);
            if !rewritten.contains(name) && !vanished.contains(domain) && has != Some(*had) {
                return Err(format!("group {name:?} has {has:?} in domain {domain} and had {had:?}"));
            }
        }
    }
    Ok(())
}
