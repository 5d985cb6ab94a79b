//! The configuration: TOML, judged whole before anything is touched.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use host::prometheus::{MetricServer, Selector};
use host::{CpuList, HostError, JsonPaths, MetricNames};
use policy::{Floors, PolicyError};
use serde::{Deserialize, Deserializer};
use units::{Ps, Span};

use crate::DaemonError;
use crate::journal::is_name;

/// What `wirespeedd` is to do.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DaemonConfig {
    /// The folder of journal and lock.
    pub state: PathBuf,
    /// Names of groups that are the daemon's begin so.
    pub prefix: String,
    /// Between two decisions, 100 ms to 60 s.
    pub interval: Span,
    /// Classes of service that stay free for others.
    pub reserve_closids: u32,
    /// Whether the root's group is set, to keep everyone else out of packet cores' ways. Its masks are put back too.
    pub default_group: bool,
    /// After so many intervals in a row without sight, or with settings refused, all is put back.
    pub patience: u32,
    /// After so many changes by somebody else all is put back.
    pub contention: u32,
    /// After so long without a finished interval all is put back and the process ends.
    pub watchdog: Span,
    /// Where metrics and health are told, on the loopback; empty: nowhere.
    pub listen: String,
    /// Where the machine's files are.
    pub roots: Roots,
    /// How ways are decided.
    pub policy: PolicySettings,
    /// Groups of cores.
    pub classes: Vec<CoreGroupSpec>,
    /// Ways of device writes.
    pub io: Io,
    /// A DPDK program.
    pub telemetry: Option<TelemetrySpec>,
    /// A server of counters in JSON.
    pub json: Option<JsonSpec>,
    /// Events of perf.
    pub perf: Option<PerfSpec>,
    /// A program that tells metrics to Prometheus.
    pub prometheus: Option<MetricsSpec>,
    /// Statistics of the kernel.
    pub kernel: Option<SystemStatisticsSpec>,
}

/// Roots of the machine's files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Roots {
    /// Of resctrl.
    pub resctrl: PathBuf,
    /// Of the processors' registers.
    pub dev_cpu: PathBuf,
    /// Of processes.
    pub proc: PathBuf,
    /// Of devices.
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Roots {
        Roots {
            resctrl: "/sys/fs/resctrl".into(),
            dev_cpu: "/dev/cpu".into(),
            proc: "/proc".into(),
            sys: "/sys".into(),
        }
    }
}

/// Which policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DaemonPolicyKind {
    /// Four states, steps judged by their response.
    #[default]
    Allocator,
    /// A fixed number of ways for devices, the rest for cores.
    Isolated,
}

/// Numbers of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySettings {
    /// Which.
    pub kind: DaemonPolicyKind,
    /// Ways of devices at the start.
    pub io_ways: u32,
    /// The least that devices keep.
    pub io_floor: u32,
    /// The least that packet cores keep.
    pub core_floor: u32,
    /// Ways of all others, from way 0 up.
    pub others: u32,
}

impl Default for PolicySettings {
    fn default() -> PolicySettings {
        PolicySettings { kind: DaemonPolicyKind::Allocator, io_ways: 2, io_floor: 1, core_floor: 2, others: 1 }
    }
}

/// What cores do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// They receive packets; the policy judges by their busy time.
    Receive,
    /// They work on what others received.
    Work,
    /// Something else, which keeps to the ways of others.
    Other,
}

/// A group of cores.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreGroupSpec {
    /// The group is named prefix and this.
    pub name: String,
    /// What its cores do.
    pub role: Role,
    /// Its processors, `"1,4-7"` or `[1, 4, 5]`; empty for a group that somebody else fills.
    #[serde(default, deserialize_with = "cpus")]
    pub cpus: String,
}

/// What sets the ways of device writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoWaysBackend {
    /// The register where its generation has it, `io_alloc` where the kernel has it, else they are fixed.
    #[default]
    Auto,
    /// Register 0xC8B.
    Register,
    /// The kernel.
    IoAlloc,
    /// Nothing: they are `fixed`.
    Fixed,
}

/// Ways of device writes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Io {
    /// What sets them.
    pub backend: IoWaysBackend,
    /// How many there are, the highest ones, where nothing sets them; unset: those that the machine says
    /// (`shareable_bits` of resctrl).
    pub fixed: Option<u32>,
    /// L3 domains whose ways of device writes are moved; unset: those that packet cores are in.
    pub domains: Option<Vec<u32>>,
    /// Whether the effect of a change is measured first.
    pub verify: bool,
    /// Intervals of each of the two settings that are compared.
    pub verify_intervals: u32,
    /// The share of packets that the measurement may lose beyond what is lost without it.
    pub verify_loss: f64,
}

impl Default for Io {
    fn default() -> Io {
        Io {
            backend: IoWaysBackend::Auto,
            fixed: None,
            domains: None,
            verify: true,
            verify_intervals: 5,
            verify_loss: 0.01,
        }
    }
}

/// A DPDK program.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetrySpec {
    /// Its socket, `/var/run/dpdk/PREFIX/dpdk_telemetry.v2`.
    pub socket: PathBuf,
    /// Its ports; empty: all.
    #[serde(default)]
    pub ports: Vec<u64>,
}

/// Paths of counters in JSON; several are added up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonSpec {
    /// The server, on the loopback.
    pub url: String,
    /// Bytes that devices wrote.
    #[serde(default)]
    pub pcie_write_bytes: Vec<String>,
    /// Bytes that devices read.
    #[serde(default)]
    pub pcie_read_bytes: Vec<String>,
    /// Device writes that hit.
    #[serde(default)]
    pub ddio_hits: Vec<String>,
    /// Device writes that missed.
    #[serde(default)]
    pub ddio_misses: Vec<String>,
    /// Bytes to and from DRAM.
    #[serde(default)]
    pub memory_bytes: Vec<String>,
    /// LLC misses of a class, by its name.
    #[serde(default)]
    pub llc_misses: BTreeMap<String, Vec<String>>,
    /// LLC lookups of a class, by its name.
    #[serde(default)]
    pub llc_lookups: BTreeMap<String, Vec<String>>,
}

/// Events; several are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PerfSpec {
    /// Bytes that devices wrote.
    pub pcie_write_bytes: Vec<String>,
    /// Bytes that devices read.
    pub pcie_read_bytes: Vec<String>,
    /// Device writes that hit.
    pub ddio_hits: Vec<String>,
    /// Device writes that missed.
    pub ddio_misses: Vec<String>,
    /// Bytes to and from DRAM.
    pub memory_bytes: Vec<String>,
    /// LLC lookups that missed, counted on each class's cores.
    pub llc_misses: Vec<String>,
    /// LLC lookups.
    pub llc_lookups: Vec<String>,
}

/// Metrics of a program, named as in a query; several are added up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsSpec {
    /// Where it tells them, on the loopback.
    pub url: String,
    /// Packets received.
    #[serde(default)]
    pub received: Vec<String>,
    /// Packets lost.
    #[serde(default)]
    pub lost: Vec<String>,
    /// Bytes that devices wrote: received ones, where nothing counts those of PCIe.
    #[serde(default)]
    pub pcie_write_bytes: Vec<String>,
    /// Bytes that devices read.
    #[serde(default)]
    pub pcie_read_bytes: Vec<String>,
    /// Device writes that hit.
    #[serde(default)]
    pub ddio_hits: Vec<String>,
    /// Device writes that missed.
    #[serde(default)]
    pub ddio_misses: Vec<String>,
    /// Bytes to and from DRAM.
    #[serde(default)]
    pub memory_bytes: Vec<String>,
    /// Time not spent polling in vain of a class's cores, by its name: a running total.
    #[serde(default)]
    pub busy: BTreeMap<String, Vec<String>>,
    /// All time of them, in the same unit.
    #[serde(default)]
    pub elapsed: BTreeMap<String, Vec<String>>,
    /// LLC misses of a class, by its name.
    #[serde(default)]
    pub llc_misses: BTreeMap<String, Vec<String>>,
    /// LLC lookups of a class, by its name.
    #[serde(default)]
    pub llc_lookups: BTreeMap<String, Vec<String>>,
}

/// Statistics of the kernel, for programs that have no others.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SystemStatisticsSpec {
    /// Interfaces that packets come by.
    pub interfaces: Vec<String>,
    /// Their statistics that are losses.
    pub lost: Vec<String>,
    /// Whether processors are busy where they are not idle: not so of programs that poll.
    pub busy: bool,
}

impl Default for SystemStatisticsSpec {
    fn default() -> SystemStatisticsSpec {
        let lost = ["rx_missed_errors", "rx_dropped"].map(String::from).to_vec();
        SystemStatisticsSpec { interfaces: Vec::new(), lost, busy: false }
    }
}

impl Default for DaemonConfig {
    fn default() -> DaemonConfig {
        DaemonConfig {
            state: "/var/lib/wirespeedd".into(),
            prefix: "wirespeed-".into(),
            interval: Span::from_ns(1e9),
            reserve_closids: 1,
            default_group: false,
            patience: 5,
            contention: 5,
            watchdog: Span::from_ns(10e9),
            listen: "127.0.0.1:9736".into(),
            roots: Roots::default(),
            policy: PolicySettings::default(),
            classes: Vec::new(),
            io: Io::default(),
            telemetry: None,
            json: None,
            prometheus: None,
            kernel: None,
            perf: None,
        }
    }
}

/// Polling more often costs the program packets.
const SHORTEST: Ps = Ps(100_000_000_000);
const LONGEST: Ps = Ps(60_000_000_000_000);
const LEAST_PATIENCE: Ps = Ps(2_000_000_000_000);

impl DaemonConfig {
    /// Reads and judges a text; `origin` is where it is from.
    ///
    /// # Errors
    /// What is wrong first: where, what came, what is allowed.
    pub fn parse(text: &str, origin: &str) -> Result<DaemonConfig, DaemonError> {
        let wrong = |path: String, why: String| DaemonError::Form { path, why };
        let reader = toml::Deserializer::parse(text)
            .map_err(|e| wrong(origin.into(), e.to_string().trim().replace('\n', " ")))?;
        let config: DaemonConfig = serde_path_to_error::deserialize(reader)
            .map_err(|e| wrong(format!("{origin}: {}", e.path()), e.inner().message().to_string()))?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), DaemonError> {
        let wrong = |path: &str, came: String, allowed: &str| {
            Err(DaemonError::Setting { path: path.into(), came, allowed: allowed.into() })
        };
        if !(SHORTEST..=LONGEST).contains(&self.interval.ps()) {
            return wrong(
                "interval",
                self.interval.to_string(),
                "allowed are 100 ms to 60 s: reading more often costs packets",
            );
        }
        if self.watchdog.ps() < Ps(self.interval.ps().0 * 3).max(LEAST_PATIENCE) {
            return wrong(
                "watchdog",
                self.watchdog.to_string(),
                "three intervals and 2 s at least: a source of counters that hangs is waited for half a second",
            );
        }
        if !is_name(&self.prefix) || self.prefix.starts_with("mon_") {
            return wrong(
                "prefix",
                format!("{:?}", self.prefix),
                "letters, digits, -, _ and ., and one at least: it tells our groups from others'",
            );
        }
        for (path, n) in [("patience", self.patience), ("contention", self.contention)] {
            if n == 0 {
                return wrong(path, "0".into(), "1 at least");
            }
        }
        if !self.listen.is_empty() && !self.listen.parse::<SocketAddr>().is_ok_and(|a| a.ip().is_loopback()) {
            return wrong(
                "listen",
                format!("{:?}", self.listen),
                "an address of the loopback with a port, such as 127.0.0.1:9736, or nothing",
            );
        }
        if !(3..=1000).contains(&self.io.verify_intervals) {
            return wrong(
                "io.verify_intervals",
                self.io.verify_intervals.to_string(),
                "3 to 1000: an average of fewer tells nothing",
            );
        }
        if !(0.0..=1.0).contains(&self.io.verify_loss) {
            let allowed = "a share of packets is wanted, 0 to 1 (0.01 is one in a hundred)";
            return wrong("io.verify_loss", self.io.verify_loss.to_string(), allowed);
        }
        self.check_classes()?;
        if let Some(json) = &self.json {
            self.check_names("json", &[("llc_misses", &json.llc_misses), ("llc_lookups", &json.llc_lookups)])?;
            host::json::JsonServer::new(&json.url)?;
        }
        if let Some(metrics) = &self.prometheus {
            let MetricsSpec { busy, elapsed, llc_misses, llc_lookups, .. } = metrics;
            let both = [("busy", busy), ("elapsed", elapsed), ("llc_misses", llc_misses), ("llc_lookups", llc_lookups)];
            self.check_names("prometheus", &both)?;
            self.metric_names(metrics)?;
            MetricServer::new(&metrics.url)?;
        }
        if let Some(kernel) = &self.kernel {
            let is_name = |name: &&String| !name.is_empty() && !name.contains('/') && !name.starts_with('.');
            for (path, names) in [("kernel.interfaces", &kernel.interfaces), ("kernel.lost", &kernel.lost)] {
                if let Some(name) = names.iter().find(|name| !is_name(name)) {
                    return wrong(path, format!("{name:?}"), "names as in /sys/class/net/eth0/statistics");
                }
            }
        }
        // With as many ways as there can be, so that only what is wrong by itself is told here.
        self.floors(32).check("policy").map_err(as_configured)
    }

    /// Whether counters of classes are of classes that there are, and come in pairs.
    fn check_names(&self, table: &str, of: &[(&str, &BTreeMap<String, Vec<String>>)]) -> Result<(), DaemonError> {
        let wrong =
            |path: String, came: &str, allowed: String| Err(DaemonError::Setting { path, came: came.into(), allowed });
        for (what, names) in of {
            if let Some(name) = names.keys().find(|n| self.classes.iter().all(|c| c.name != **n)) {
                let known = self.classes.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
                return wrong(format!("{table}.{what}"), name, format!("no such class; there are {known}"));
            }
        }
        for pair in of.chunks(2) {
            let [(part, parts), (whole, wholes)] = pair else { continue };
            if let Some(name) = parts.keys().find(|name| !wholes.contains_key(*name)) {
                return wrong(
                    format!("{table}.{part}.{name}"),
                    "alone",
                    format!("with {whole}.{name}, of which it is a part"),
                );
            }
        }
        Ok(())
    }

    fn check_classes(&self) -> Result<(), DaemonError> {
        let wrong = |path: String, came: String, allowed: &str| {
            Err(DaemonError::Setting { path, came, allowed: allowed.into() })
        };
        let of = |role: Role| self.classes.iter().filter(|c| c.role == role).count();
        if of(Role::Receive) != 1 || of(Role::Work) > 1 {
            let came = format!("{} with role receive, {} with role work", of(Role::Receive), of(Role::Work));
            return wrong(
                "classes".into(),
                came,
                "one with role = \"receive\" is wanted, and one with role = \"work\" at most",
            );
        }
        let mut seen = BTreeMap::new();
        for (i, class) in self.classes.iter().enumerate() {
            let path = |field: &str| format!("classes[{i}].{field}");
            let is_name =
                !class.name.is_empty() && class.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
            if !is_name || self.classes[..i].iter().any(|c| c.name == class.name) {
                return wrong(
                    path("name"),
                    format!("{:?}", class.name),
                    "letters, digits, - and _, and each name once",
                );
            }
            let cpus: CpuList = class.cpus.parse().map_err(|_| DaemonError::Setting {
                path: path("cpus"),
                came: format!("{:?}", class.cpus),
                allowed: "a list such as 1,4-7".into(),
            })?;
            for cpu in cpus.0 {
                if let Some(other) = seen.insert(cpu, class.name.clone()) {
                    return wrong(
                        path("cpus"),
                        class.cpus.clone(),
                        &format!("processor {cpu} is in class {other:?} already"),
                    );
                }
            }
        }
        Ok(())
    }

    /// Of a cache of `ways` ways.
    pub fn floors(&self, ways: u32) -> Floors {
        let own = self.numbers().into_iter().map(|(clos, class)| (clos, class.role));
        let (other, core): (Vec<_>, Vec<_>) = own.partition(|(_, role)| *role == Role::Other);
        let numbers = |list: Vec<(u8, Role)>| list.into_iter().map(|(clos, _)| clos);
        Floors {
            ways,
            others: self.policy.others,
            core: self.policy.core_floor,
            io: self.policy.io_floor,
            core_classes: numbers(core).collect(),
            other_classes: self.default_group.then_some(0).into_iter().chain(numbers(other)).collect(),
        }
    }

    /// Classes with their numbers for the policy: 1 receives, 2 works, others follow; 0 is the root's group.
    pub fn numbers(&self) -> Vec<(u8, &CoreGroupSpec)> {
        let mut next = 3;
        let mut numbers = Vec::new();
        for class in &self.classes {
            let clos = match class.role {
                Role::Receive => 1,
                Role::Work => 2,
                Role::Other => {
                    next += 1;
                    next - 1
                }
            };
            numbers.push((clos, class));
        }
        numbers
    }

    /// The group of a class.
    pub fn group(&self, class: &CoreGroupSpec) -> String {
        format!("{}{}", self.prefix, class.name)
    }

    pub(crate) fn metric_names(&self, spec: &MetricsSpec) -> Result<MetricNames, DaemonError> {
        let names =
            |names: &[String]| -> Result<Vec<Selector>, HostError> { names.iter().map(|n| n.parse()).collect() };
        let mut by_class = (BTreeMap::new(), BTreeMap::new());
        for (clos, class) in self.numbers() {
            let pair = |part: &BTreeMap<String, Vec<String>>, whole: &BTreeMap<String, Vec<String>>| {
                let both = part.get(&class.name).zip(whole.get(&class.name));
                both.map(|(part, whole)| Ok::<_, HostError>((names(part)?, names(whole)?))).transpose()
            };
            by_class.0.extend(pair(&spec.busy, &spec.elapsed)?.map(|both| (clos, both)));
            by_class.1.extend(pair(&spec.llc_misses, &spec.llc_lookups)?.map(|both| (clos, both)));
        }
        Ok(MetricNames {
            received: names(&spec.received)?,
            lost: names(&spec.lost)?,
            pcie_write_bytes: names(&spec.pcie_write_bytes)?,
            pcie_read_bytes: names(&spec.pcie_read_bytes)?,
            ddio_hits: names(&spec.ddio_hits)?,
            ddio_misses: names(&spec.ddio_misses)?,
            memory_bytes: names(&spec.memory_bytes)?,
            busy: by_class.0,
            llc: by_class.1,
        })
    }

    pub(crate) fn json_paths(&self, spec: &JsonSpec) -> JsonPaths {
        let mut llc = BTreeMap::new();
        for (clos, class) in self.numbers() {
            if let (Some(misses), Some(lookups)) = (spec.llc_misses.get(&class.name), spec.llc_lookups.get(&class.name))
            {
                llc.insert(clos, (misses.clone(), lookups.clone()));
            }
        }
        JsonPaths {
            pcie_write_bytes: spec.pcie_write_bytes.clone(),
            pcie_read_bytes: spec.pcie_read_bytes.clone(),
            ddio_hits: spec.ddio_hits.clone(),
            ddio_misses: spec.ddio_misses.clone(),
            memory_bytes: spec.memory_bytes.clone(),
            llc,
        }
    }
}

/// An error of the policy, with the name that its setting has here.
pub(crate) fn as_configured(wrong: PolicyError) -> DaemonError {
    DaemonError::Policy(match wrong {
        PolicyError::Value { path, came, allowed } => {
            let path = match path.as_str() {
                "policy.core" => "policy.core_floor".into(),
                "policy.io" => "policy.io_floor".into(),
                _ => path,
            };
            PolicyError::Value { path, came, allowed }
        }
        PolicyError::Ways { path, ways, others, core, io } if path == "policy" => {
            PolicyError::Ways { path: "policy.others, core_floor and io_floor".into(), ways, others, core, io }
        }
        other => other,
    })
}

/// Processors as kernels write them, a number, or a list of either.
fn cpus<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "processors are wanted, such as \"1,4-7\" or [1, 4, 5]")]
    enum Cpus {
        One(u32),
        List(String),
        Several(Vec<Cpus>),
    }
    fn text(cpus: Cpus) -> String {
        match cpus {
            Cpus::One(cpu) => cpu.to_string(),
            Cpus::List(list) => list,
            Cpus::Several(each) => each.into_iter().map(text).collect::<Vec<_>>().join(","),
        }
    }
    Cpus::deserialize(from).map(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RX: &str = "[[classes]]\nname = \"rx\"\nrole = \"receive\"\ncpus = \"1\"\n";

    fn error(text: &str) -> String {
        DaemonConfig::parse(text, "wirespeedd.toml").unwrap_err().to_string()
    }

    #[test]
    fn processors_are_a_list_as_kernels_write_it_or_as_toml_does() {
        for (written, meant) in
            [("\"1,4-7\"", "1,4-7"), ("[0]", "0"), ("[1, 4]", "1,4"), ("3", "3"), ("[1, \"4-7\"]", "1,4-7")]
        {
            let config = DaemonConfig::parse(&RX.replace("\"1\"", written), "test").unwrap();
            assert_eq!(config.classes[0].cpus, meant, "{written}");
        }
    }

    #[test]
    fn a_configuration_that_is_wrong_says_where_what_came_and_what_is_allowed() {
        assert!(DaemonConfig::parse(RX, "c").is_ok());
        assert_eq!(
            error(&format!("interval = \"1 ms\"\n{RX}")),
            "interval = 1 ms: allowed are 100 ms to 60 s: reading more often costs packets"
        );
        assert!(error("").starts_with("classes = 0 with role receive"));
        assert!(error(&format!("listen = \"0.0.0.0:80\"\n{RX}")).contains("loopback"));
        assert!(error(&format!("prefix = \"\"\n{RX}")).starts_with("prefix = \"\""));
        assert!(
            error(&format!("{RX}{}", RX.replace("rx", "tx").replace("receive", "work")))
                .contains("processor 1 is in class \"rx\"")
        );
        assert!(error(&format!("interval = \"100 ms\"\nwatchdog = \"300 ms\"\n{RX}")).contains("2 s at least"));
        assert!(error(&format!("{RX}[io]\nverify_intervals = 4000000000\n")).contains("3 to 1000"));
        assert!(error(&format!("{RX}[policy]\nio_floor = 0\n")).starts_with("policy.io_floor = 0"));
        assert!(error(&format!("{RX}[policy]\ncore_floor = 40\n")).starts_with("policy.core_floor = 40"));
        let ways = error(&format!("{RX}[policy]\ncore_floor = 32\n"));
        assert!(ways.starts_with("policy.others, core_floor and io_floor: 1 ways for others, at least 32"), "{ways}");
        let cpus = error(&RX.replace("\"1\"", "true"));
        assert!(cpus.contains("classes[0].cpus") && cpus.contains("such as \"1,4-7\" or [1, 4, 5]"), "{cpus}");
        assert!(error(&RX.replace("\"1\"", "[1, \"x\"]")).starts_with("classes[0].cpus = \"1,x\""));
        assert!(error(&format!("{RX}[json]\nurl = \"http://example.org/\"\n")).contains("an address of this machine"));
        let unknown = error(&format!("intervall = 3\n{RX}"));
        assert!(unknown.contains("intervall") && unknown.contains("interval"), "{unknown}");
        assert!(error("interval = ").starts_with("wirespeedd.toml: TOML parse error"));
    }
}
