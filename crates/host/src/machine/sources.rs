//! Sources of counters: a DPDK program, servers of JSON and of Prometheus's metrics, events of perf, the kernel, resctrl.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::CounterClaim::{Own, StandIn};
use super::{CounterClaim, CounterSource, HostTotals, TotalKind};
use crate::perf::{self, Counting};
use crate::prometheus::{MetricServer, Selector};
use crate::{HostError, Resctrl, Telemetry, Tree, json};

/// Counters of a DPDK program, which may come and go.
pub struct FromTelemetry {
    socket: PathBuf,
    name: String,
    ports: Vec<u64>,
    /// Cores by class.
    cores: BTreeMap<u8, BTreeSet<u32>>,
    connection: Option<Telemetry>,
    /// The program tells how busy its cores are.
    usage: bool,
}

impl FromTelemetry {
    /// Of the program at `socket`: all ports if `ports` is empty; busy time of `cores`, by class. It is not asked before it
    /// is first read.
    pub fn new(socket: PathBuf, ports: Vec<u64>, cores: BTreeMap<u8, BTreeSet<u32>>) -> FromTelemetry {
        let name = format!("DPDK telemetry at {}", socket.display());
        FromTelemetry { socket, name, ports, cores, connection: None, usage: true }
    }

    fn read_connected(&mut self, into: &mut HostTotals) -> Result<(), HostError> {
        if self.connection.is_none() {
            self.connection = Some(Telemetry::connect(&self.socket)?);
            // Another program may tell what the one before did not.
            self.usage = true;
        }
        let Some(telemetry) = &mut self.connection else { return Ok(()) };
        let ports = if self.ports.is_empty() { telemetry.ports()? } else { self.ports.clone() };
        let mut sum = crate::PortTotals::default();
        for port in ports {
            let of = telemetry.port(port)?;
            sum.received = sum.received.wrapping_add(of.received);
            sum.received_bytes = sum.received_bytes.wrapping_add(of.received_bytes);
            sum.sent_bytes = sum.sent_bytes.wrapping_add(of.sent_bytes);
            sum.lost = sum.lost.wrapping_add(of.lost);
        }
        if self.usage {
            match telemetry.cores() {
                Ok(usage) => {
                    for (class, cores) in &self.cores {
                        let own = usage.iter().filter(|(core, ..)| cores.contains(core));
                        let (busy, total) = own.fold((0u64, 0u64), |(b, t), (_, busy, total)| {
                            (b.saturating_add(*busy), t.saturating_add(*total))
                        });
                        let of = into.classes.entry(*class).or_default();
                        (of.busy, of.elapsed) = (Some(busy), Some(total));
                    }
                }
                Err(why @ HostError::Key { .. }) => {
                    self.usage = false;
                    return Err(why);
                }
                Err(why) => return Err(why),
            }
        }
        into.received = Some(sum.received);
        into.lost = Some(sum.lost);
        (into.pcie_write_bytes, into.pcie_read_bytes) = (Some(sum.received_bytes), Some(sum.sent_bytes));
        Ok(())
    }
}

/// What a program or a kernel counts of packets. What crosses PCIe is a little more than their bytes (descriptors): a counter of the
/// uncore takes precedence.
pub(super) const OF_PACKETS: [CounterClaim; 4] = [
    Own(TotalKind::Received),
    Own(TotalKind::Lost),
    StandIn(TotalKind::PcieWriteBytes),
    StandIn(TotalKind::PcieReadBytes),
];

/// Claims of totals for each of which something is named.
pub(super) fn named<T>(fields: &[(&[T], TotalKind)]) -> Vec<CounterClaim> {
    fields.iter().filter(|(names, _)| !names.is_empty()).map(|(_, kind)| Own(*kind)).collect()
}

impl CounterSource for FromTelemetry {
    fn name(&self) -> &str {
        &self.name
    }

    fn counts(&self) -> Vec<CounterClaim> {
        let classes = self.cores.iter().filter(|(_, cores)| !cores.is_empty());
        OF_PACKETS.into_iter().chain(classes.map(|(class, _)| Own(TotalKind::Busy(*class)))).collect()
    }

    fn read(&mut self, into: &mut HostTotals) -> Result<(), HostError> {
        let read = self.read_connected(into);
        if let Err(why) = &read
            && !matches!(why, HostError::Key { .. })
        {
            // Another answer may still be under way: begin anew.
            self.connection = None;
        }
        read
    }
}

/// Paths of counters in an answer; several are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonPaths {
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
    /// LLC misses and lookups, by class.
    pub llc: BTreeMap<u8, (Vec<String>, Vec<String>)>,
}

/// Counters of a server of JSON.
pub struct FromJson {
    server: json::JsonServer,
    paths: JsonPaths,
}

impl FromJson {
    /// Those at `paths`.
    pub fn new(server: json::JsonServer, paths: JsonPaths) -> FromJson {
        FromJson { server, paths }
    }
}

impl CounterSource for FromJson {
    fn name(&self) -> &str {
        self.server.url()
    }

    fn counts(&self) -> Vec<CounterClaim> {
        let paths = &self.paths;
        let mut claims = named(&[
            (&paths.pcie_write_bytes, TotalKind::PcieWriteBytes),
            (&paths.pcie_read_bytes, TotalKind::PcieReadBytes),
            (&paths.ddio_hits, TotalKind::DdioHits),
            (&paths.ddio_misses, TotalKind::DdioMisses),
            (&paths.memory_bytes, TotalKind::MemoryBytes),
        ]);
        claims.extend(paths.llc.keys().map(|class| Own(TotalKind::Llc(*class))));
        claims
    }

    fn read(&mut self, into: &mut HostTotals) -> Result<(), HostError> {
        let answer = self.server.read()?;
        let sum = |paths: &[String]| -> Result<Option<u64>, HostError> {
            let mut sum = None;
            for path in paths {
                sum = Some(sum.unwrap_or(0u64).saturating_add(json::number(&answer, path)?));
            }
            Ok(sum)
        };
        let paths = &self.paths;
        into.pcie_write_bytes = sum(&paths.pcie_write_bytes)?;
        into.pcie_read_bytes = sum(&paths.pcie_read_bytes)?;
        into.ddio_hits = sum(&paths.ddio_hits)?;
        into.ddio_misses = sum(&paths.ddio_misses)?;
        into.memory_bytes = sum(&paths.memory_bytes)?;
        for (class, (misses, lookups)) in &paths.llc {
            let of = into.classes.entry(*class).or_default();
            (of.llc_misses, of.llc_lookups) = (sum(misses)?, sum(lookups)?);
        }
        Ok(())
    }
}

/// Names of events; several are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerfEvents {
    /// Device writes that hit.
    pub ddio_hits: Vec<String>,
    /// Device writes that missed.
    pub ddio_misses: Vec<String>,
    /// Bytes to and from DRAM.
    pub memory_bytes: Vec<String>,
    /// Bytes that devices wrote.
    pub pcie_write_bytes: Vec<String>,
    /// Bytes that devices read.
    pub pcie_read_bytes: Vec<String>,
    /// Of cores, by class.
    pub llc: BTreeMap<u8, CoreEvents>,
}

/// Names of events that are counted on a class's cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreEvents {
    /// LLC lookups that missed.
    pub misses: Vec<String>,
    /// All LLC lookups.
    pub lookups: Vec<String>,
    /// The cores.
    pub cpus: Vec<u32>,
}

/// Events of perf.
pub struct FromPerf {
    totals: Vec<(TotalKind, CounterField, Counting)>,
    classes: Vec<(u8, Counting, Counting)>,
}

type CounterField = fn(&mut HostTotals) -> &mut Option<u64>;

impl FromPerf {
    /// Begins to count.
    ///
    /// # Errors
    /// An event that this machine does not have, with the reason.
    pub fn start(sys: &dyn Tree, events: &PerfEvents) -> Result<FromPerf, HostError> {
        let count = |names: &[String], cpus: &[u32]| -> Result<Counting, HostError> {
            let mut found = Vec::new();
            for name in names {
                found.extend(perf::resolve(sys, name)?);
            }
            Counting::start(&found, cpus)
        };
        let fields: [(&[String], TotalKind, CounterField); 5] = [
            (&events.ddio_hits, TotalKind::DdioHits, |t| &mut t.ddio_hits),
            (&events.ddio_misses, TotalKind::DdioMisses, |t| &mut t.ddio_misses),
            (&events.memory_bytes, TotalKind::MemoryBytes, |t| &mut t.memory_bytes),
            (&events.pcie_write_bytes, TotalKind::PcieWriteBytes, |t| &mut t.pcie_write_bytes),
            (&events.pcie_read_bytes, TotalKind::PcieReadBytes, |t| &mut t.pcie_read_bytes),
        ];
        let mut totals = Vec::new();
        for (names, kind, field) in fields.into_iter().filter(|(names, ..)| !names.is_empty()) {
            totals.push((kind, field, count(names, &[0])?));
        }
        let mut classes = Vec::new();
        for (class, CoreEvents { misses, lookups, cpus }) in &events.llc {
            classes.push((*class, count(misses, cpus)?, count(lookups, cpus)?));
        }
        Ok(FromPerf { totals, classes })
    }
}

impl CounterSource for FromPerf {
    fn name(&self) -> &str {
        "perf"
    }

    fn counts(&self) -> Vec<CounterClaim> {
        let totals = self.totals.iter().map(|(kind, ..)| Own(*kind));
        totals.chain(self.classes.iter().map(|(class, ..)| Own(TotalKind::Llc(*class)))).collect()
    }

    fn read(&mut self, into: &mut HostTotals) -> Result<(), HostError> {
        for (_, field, counting) in &mut self.totals {
            *field(into) = Some(counting.read()?);
        }
        for (class, misses, lookups) in &mut self.classes {
            let of = into.classes.entry(*class).or_default();
            (of.llc_misses, of.llc_lookups) = (Some(misses.read()?), Some(lookups.read()?));
        }
        Ok(())
    }
}

/// Names of metrics; several are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricNames {
    /// Packets received.
    pub received: Vec<Selector>,
    /// Packets lost.
    pub lost: Vec<Selector>,
    /// Bytes that devices wrote.
    pub pcie_write_bytes: Vec<Selector>,
    /// Bytes that devices read.
    pub pcie_read_bytes: Vec<Selector>,
    /// Device writes that hit.
    pub ddio_hits: Vec<Selector>,
    /// Device writes that missed.
    pub ddio_misses: Vec<Selector>,
    /// Bytes to and from DRAM.
    pub memory_bytes: Vec<Selector>,
    /// Time of cores not spent polling in vain, and all of it, in one unit, by class.
    pub busy: BTreeMap<u8, (Vec<Selector>, Vec<Selector>)>,
    /// LLC misses and lookups, by class.
    pub llc: BTreeMap<u8, (Vec<Selector>, Vec<Selector>)>,
}

/// Metrics of a program that tells them to Prometheus.
pub struct FromMetrics {
    server: MetricServer,
    names: MetricNames,
}

impl FromMetrics {
    /// Those of these names.
    pub fn new(server: MetricServer, names: MetricNames) -> FromMetrics {
        FromMetrics { server, names }
    }
}

/// Times are told in seconds and in cycles: a thousandth of either is kept.
const PARTS: f64 = 1000.0;

impl CounterSource for FromMetrics {
    fn name(&self) -> &str {
        self.server.url()
    }

    fn counts(&self) -> Vec<CounterClaim> {
        let names = &self.names;
        let mut claims = named(&[
            (&names.received, TotalKind::Received),
            (&names.lost, TotalKind::Lost),
            (&names.pcie_write_bytes, TotalKind::PcieWriteBytes),
            (&names.pcie_read_bytes, TotalKind::PcieReadBytes),
            (&names.ddio_hits, TotalKind::DdioHits),
            (&names.ddio_misses, TotalKind::DdioMisses),
            (&names.memory_bytes, TotalKind::MemoryBytes),
        ]);
        claims.extend(names.busy.keys().map(|class| Own(TotalKind::Busy(*class))));
        claims.extend(names.llc.keys().map(|class| Own(TotalKind::Llc(*class))));
        claims
    }

    fn read(&mut self, into: &mut HostTotals) -> Result<(), HostError> {
        let metrics = self.server.read()?;
        let sum = |names: &[Selector], parts: f64| -> Result<Option<u64>, HostError> {
            let mut sum = None;
            for name in names {
                sum = Some(sum.unwrap_or(0.0) + metrics.sum(name)?);
            }
            // A total of cycles goes round after weeks, which a meter takes for one that began anew; it does not stay at the end.
            Ok(sum.map(|sum| ((sum * parts) % 2f64.powi(64)) as u64))
        };
        let names = &self.names;
        into.received = sum(&names.received, 1.0)?;
        into.lost = sum(&names.lost, 1.0)?;
        into.pcie_write_bytes = sum(&names.pcie_write_bytes, 1.0)?;
        into.pcie_read_bytes = sum(&names.pcie_read_bytes, 1.0)?;
        into.ddio_hits = sum(&names.ddio_hits, 1.0)?;
        into.ddio_misses = sum(&names.ddio_misses, 1.0)?;
        into.memory_bytes = sum(&names.memory_bytes, 1.0)?;
        for (class, (busy, elapsed)) in &names.busy {
            let of = into.classes.entry(*class).or_default();
            (of.busy, of.elapsed) = (sum(busy, PARTS)?, sum(elapsed, PARTS)?);
        }
        for (class, (misses, lookups)) in &names.llc {
            let of = into.classes.entry(*class).or_default();
            (of.llc_misses, of.llc_lookups) = (sum(misses, 1.0)?, sum(lookups, 1.0)?);
        }
        Ok(())
    }
}

/// What the kernel counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCounters {
    /// Interfaces whose packets and bytes are added up.
    pub interfaces: Vec<String>,
    /// Their statistics that are losses.
    pub lost: Vec<String>,
    /// Processors by class whose time not idle is busy: none for programs that poll, which are never idle.
    pub busy: BTreeMap<u8, BTreeSet<u32>>,
}

/// Statistics of network interfaces (`/sys/class/net/*/statistics`) and of processors (`/proc/stat`): what programs over the
/// kernel or AF_XDP have in place of telemetry.
pub struct FromKernel {
    sys: Arc<dyn Tree>,
    proc: Arc<dyn Tree>,
    what: KernelCounters,
}

impl FromKernel {
    /// Of `what`.
    pub fn new(sys: Arc<dyn Tree>, proc: Arc<dyn Tree>, what: KernelCounters) -> FromKernel {
        FromKernel { sys, proc, what }
    }

    fn statistic(&self, interface: &str, name: &str) -> Result<u64, HostError> {
        let path = format!("class/net/{interface}/statistics/{name}");
        let fault = |e| HostError::system("reading", self.sys.root().join(&path).display().to_string(), e);
        let text = self.sys.read(&path).map_err(fault)?;
        text.trim().parse().map_err(|_| HostError::form(&path, text.trim(), "a number"))
    }

    /// The sum over interfaces of these statistics.
    fn sum(&self, names: &[&str]) -> Result<u64, HostError> {
        let mut sum = 0u64;
        for interface in &self.what.interfaces {
            for name in names {
                sum = sum.saturating_add(self.statistic(interface, name)?);
            }
        }
        Ok(sum)
    }

    /// Ticks of these processors: not idle, and all.
    fn ticks(text: &str, cpus: &BTreeSet<u32>) -> Result<(u64, u64), HostError> {
        let mut found = (0u64, 0u64);
        let mut seen = 0;
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let cpu = words.next().and_then(|word| word.strip_prefix("cpu")?.parse::<u32>().ok());
            if !cpu.is_some_and(|cpu| cpus.contains(&cpu)) {
                continue;
            }
            // user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user's already (man 5 proc_stat).
            let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
            let [user, nice, system, idle, wait, irq, soft, steal] = ticks[..] else {
                return Err(HostError::form("stat", line, "eight numbers behind a processor"));
            };
            let busy = user + nice + system + irq + soft + steal;
            found = (found.0 + busy, found.1 + busy + idle + wait);
            seen += 1;
        }
        if seen < cpus.len() {
            let wanted: Vec<String> = cpus.iter().map(u32::to_string).collect();
            return Err(HostError::form("stat", &wanted.join(","), "processors that are online"));
        }
        Ok(found)
    }
}

impl CounterSource for FromKernel {
    fn name(&self) -> &str {
        "the kernel's statistics"
    }

    fn counts(&self) -> Vec<CounterClaim> {
        let mut claims = if self.what.interfaces.is_empty() { Vec::new() } else { OF_PACKETS.to_vec() };
        claims.extend(self.what.busy.keys().map(|class| Own(TotalKind::Busy(*class))));
        claims
    }

    fn read(&mut self, into: &mut HostTotals) -> Result<(), HostError> {
        if !self.what.interfaces.is_empty() {
            let lost: Vec<&str> = self.what.lost.iter().map(String::as_str).collect();
            let (received, lost) = (self.sum(&["rx_packets"])?, self.sum(&lost)?);
            (into.received, into.lost) = (Some(received), Some(lost));
            into.pcie_write_bytes = Some(self.sum(&["rx_bytes"])?);
            into.pcie_read_bytes = Some(self.sum(&["tx_bytes"])?);
        }
        if !self.what.busy.is_empty() {
            let fault = |e| HostError::system("reading", self.proc.root().join("stat").display().to_string(), e);
            let text = self.proc.read("stat").map_err(fault)?;
            for (class, cpus) in &self.what.busy {
                let (busy, all) = FromKernel::ticks(&text, cpus)?;
                let of = into.classes.entry(*class).or_default();
                (of.busy, of.elapsed) = (Some(busy), Some(all));
            }
        }
        Ok(())
    }
}

/// Bytes to and from DRAM as resctrl's monitors count them (MBM of Intel and AMD, MPAM of Arm), of all groups: where no other source
/// is to count them, since what two of them count is not one running total.
pub struct FromBandwidth(Resctrl);

impl FromBandwidth {
    /// Where there are such monitors.
    ///
    /// # Errors
    /// As the system's.
    pub fn of(resctrl: &Resctrl) -> Result<Option<FromBandwidth>, HostError> {
        let features = resctrl.monitoring()?.map(|monitoring| monitoring.features).unwrap_or_default();
        Ok(features.iter().any(|name| name == TOTAL_BYTES).then(|| FromBandwidth(resctrl.clone())))
    }
}

const TOTAL_BYTES: &str = "mbm_total_bytes";

impl CounterSource for FromBandwidth {
    fn name(&self) -> &str {
        "resctrl's bandwidth monitors"
    }

    fn counts(&self) -> Vec<CounterClaim> {
        vec![StandIn(TotalKind::MemoryBytes)]
    }

    fn read(&mut self, into: &mut HostTotals) -> Result<(), HostError> {
        let mut sum = 0u64;
        for group in self.0.groups()? {
            for reading in self.0.monitor(&group, TOTAL_BYTES)?.into_values() {
                // A monitor that has none at the moment would make the sum go back.
                let Some(bytes) = reading.count() else { return Ok(()) };
                sum = sum.saturating_add(bytes);
            }
        }
        into.memory_bytes = Some(sum);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;

    #[test]
    fn processors_are_busy_where_they_are_not_idle() {
        let text = "cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 10 0 5 80 5 0 0 0 0 0\ncpu1 1 2 3 4 5 6 7 8 9 0\nintr 5\n";
        let ticks = |cpus: &[u32]| FromKernel::ticks(text, &cpus.iter().copied().collect()).map_err(|e| e.to_string());
        assert_eq!(ticks(&[0]), Ok((15, 100)));
        assert_eq!(ticks(&[0, 1]), Ok((15 + 27, 100 + 36)));
        assert!(ticks(&[0, 2]).unwrap_err().contains("processors that are online"));
        let short = FromKernel::ticks("cpu0 1 2 3\n", &[0].into()).unwrap_err().to_string();
        assert!(short.contains("eight numbers"), "{short}");
    }

    #[test]
    fn interfaces_are_added_up_and_what_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for (name, of) in [("eth0", 1u64), ("eth1", 10)] {
            let at = folder.path().join(format!("class/net/{name}/statistics"));
            std::fs::create_dir_all(&at).unwrap();
            for (k, file) in ["rx_packets", "rx_bytes", "tx_bytes", "rx_missed_errors", "rx_dropped"].iter().enumerate()
            {
                std::fs::write(at.join(file), format!("{}\n", of * (k as u64 + 1))).unwrap();
            }
        }
        let tree: Arc<dyn Tree> = Arc::new(Files::new(folder.path()));
        let read = |interfaces: &[&str]| {
            let what = KernelCounters {
                interfaces: interfaces.iter().map(|name| name.to_string()).collect(),
                lost: vec!["rx_missed_errors".into(), "rx_dropped".into()],
                busy: BTreeMap::new(),
            };
            let mut totals = HostTotals::default();
            FromKernel::new(tree.clone(), tree.clone(), what).read(&mut totals).map(|()| totals)
        };
        let both = read(&["eth0", "eth1"]).unwrap();
        assert_eq!((both.received, both.lost), (Some(11), Some(99)));
        assert_eq!((both.pcie_write_bytes, both.pcie_read_bytes), (Some(22), Some(33)));
        assert!(read(&["eth7"]).unwrap_err().to_string().contains("class/net/eth7/statistics/rx_packets"));
    }
}
