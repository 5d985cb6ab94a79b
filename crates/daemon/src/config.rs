//! The configuration: TOML, judged whole before anything is touched.

use std::collections::BTreeMap;
use std::path::PathBuf;

use host::prometheus::Selector;
use host::xdp::MapCell;
use host::{DriverCounters, HostError, JsonPaths, MapCounters, MetricNames};
use policy::{Floors, PolicyError};
use serde::{Deserialize, Deserializer};
use units::Span;

use crate::DaemonError;

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
    /// VPP's statistics segment.
    pub vpp: Option<VppSpec>,
    /// Statistics of drivers.
    pub ethtool: Option<EthtoolSpec>,
    /// Maps of an XDP program.
    pub xdp: Option<XdpSpec>,
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
    /// Ways of devices at the start; unset: as many as the machine has.
    pub io_ways: Option<u32>,
    /// The least that devices keep.
    pub io_floor: u32,
    /// The least that packet cores keep.
    pub core_floor: u32,
    /// Ways of all others, from way 0 up.
    pub others: u32,
}

impl Default for PolicySettings {
    fn default() -> PolicySettings {
        PolicySettings { kind: DaemonPolicyKind::Allocator, io_ways: None, io_floor: 1, core_floor: 2, others: 1 }
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

/// VPP's statistics segment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VppSpec {
    /// Its socket.
    #[serde(default = "vpp_socket")]
    pub socket: PathBuf,
    /// Interfaces that packets come by, as VPP names them: no subinterfaces, whose packets are those of theirs too.
    pub interfaces: Vec<String>,
    /// Their counters that are losses, `rx-miss` for `/if/rx-miss`.
    #[serde(default = "vpp_lost")]
    pub lost: Vec<String>,
}

fn vpp_socket() -> PathBuf {
    "/run/vpp/stats.sock".into()
}

fn vpp_lost() -> Vec<String> {
    ["rx-miss", "rx-no-buf"].map(String::from).to_vec()
}

/// Statistics of drivers, as `ethtool -S` names them; several are added up, over all interfaces.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EthtoolSpec {
    /// Interfaces that packets come by.
    pub interfaces: Vec<String>,
    /// Packets received.
    #[serde(default)]
    pub received: Vec<String>,
    /// Packets lost.
    #[serde(default)]
    pub lost: Vec<String>,
    /// Bytes that devices wrote.
    #[serde(default)]
    pub pcie_write_bytes: Vec<String>,
    /// Bytes that devices read.
    #[serde(default)]
    pub pcie_read_bytes: Vec<String>,
}

/// A number in a pinned map.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapCellSpec {
    /// Where it is pinned.
    pub map: PathBuf,
    /// Which of its values.
    pub key: u32,
    /// How many bytes into the value.
    #[serde(default)]
    pub offset: u32,
}

/// Maps of an XDP program; several numbers are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct XdpSpec {
    /// Packets received.
    pub received: Vec<MapCellSpec>,
    /// Packets lost.
    pub lost: Vec<MapCellSpec>,
    /// Bytes that devices wrote.
    pub pcie_write_bytes: Vec<MapCellSpec>,
    /// Bytes that devices read.
    pub pcie_read_bytes: Vec<MapCellSpec>,
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
            vpp: None,
            ethtool: None,
            xdp: None,
            perf: None,
        }
    }
}

impl DaemonConfig {
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

    pub(crate) fn driver_counters(&self, spec: &EthtoolSpec) -> DriverCounters {
        DriverCounters {
            interfaces: spec.interfaces.clone(),
            received: spec.received.clone(),
            lost: spec.lost.clone(),
            pcie_write_bytes: spec.pcie_write_bytes.clone(),
            pcie_read_bytes: spec.pcie_read_bytes.clone(),
        }
    }

    pub(crate) fn map_counters(&self, spec: &XdpSpec) -> MapCounters {
        let cells = |specs: &[MapCellSpec]| {
            let cell = |spec: &MapCellSpec| MapCell { map: spec.map.clone(), key: spec.key, offset: spec.offset };
            specs.iter().map(cell).collect()
        };
        MapCounters {
            received: cells(&spec.received),
            lost: cells(&spec.lost),
            pcie_write_bytes: cells(&spec.pcie_write_bytes),
            pcie_read_bytes: cells(&spec.pcie_read_bytes),
        }
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
