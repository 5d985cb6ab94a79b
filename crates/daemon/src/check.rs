//! What is wrong with a configuration: all of it at once, each with its line.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use host::json::JsonServer;
use host::prometheus::{MetricServer, Selector};
use host::{CpuList, HostError};
use toml::de::{DeTable, DeValue};
use units::Ps;

use crate::config::{EthtoolSpec, JsonSpec, MetricsSpec, Role, SystemStatisticsSpec, VppSpec, XdpSpec, as_configured};
use crate::journal::is_name;
use crate::{DaemonConfig, DaemonError};

/// Polling more often costs the program packets.
const SHORTEST: Ps = Ps(100_000_000_000);
const LONGEST: Ps = Ps(60_000_000_000_000);
const LEAST_PATIENCE: Ps = Ps(2_000_000_000_000);

/// Faults as they are found.
#[derive(Default)]
struct ConfigFaults(Vec<DaemonError>);

impl ConfigFaults {
    fn wrong(&mut self, path: impl Into<String>, came: impl Into<String>, allowed: impl Into<String>) {
        self.0.push(DaemonError::Setting { path: path.into(), came: came.into(), allowed: allowed.into() });
    }

    /// What another room says of a setting.
    fn of<T>(&mut self, path: &str, came: &str, judged: Result<T, HostError>) {
        if let Err(why) = judged {
            self.wrong(path, format!("{came:?}"), why.to_string());
        }
    }
}

impl DaemonConfig {
    /// Reads and judges a text; `origin` is where it is from.
    ///
    /// # Errors
    /// All that is wrong: where, what came, what is allowed.
    pub fn parse(text: &str, origin: &str) -> Result<DaemonConfig, DaemonError> {
        let root = DeTable::parse(text)
            .map_err(|e| DaemonError::Form { path: origin.into(), why: e.to_string().trim().replace('\n', " ") })?;
        let located = |why: DaemonError| {
            let line = why.setting().and_then(|path| line_of(text, root.get_ref(), path));
            DaemonError::At { file: origin.into(), line, why: why.into() }
        };
        let faults = match read(text) {
            Ok(config) => {
                let faults = config.faults();
                if faults.is_empty() {
                    return Ok(config);
                }
                faults
            }
            Err(faults) => faults,
        };
        let mut faults: Vec<DaemonError> = faults.into_iter().map(located).collect();
        faults.sort_by_key(|fault| match fault {
            DaemonError::At { line, .. } => *line,
            _ => None,
        });
        Err(if faults.len() == 1 { faults.remove(0) } else { DaemonError::Several(faults) })
    }

    /// What is wrong with it by itself, whatever the machine is.
    fn faults(&self) -> Vec<DaemonError> {
        let mut faults = ConfigFaults::default();
        self.check_loop(&mut faults);
        self.check_classes(&mut faults);
        if let Some(json) = &self.json {
            self.check_json(json, &mut faults);
        }
        if let Some(metrics) = &self.prometheus {
            self.check_metrics(metrics, &mut faults);
        }
        if let Some(kernel) = &self.kernel {
            check_kernel(kernel, &mut faults);
        }
        if let Some(vpp) = &self.vpp {
            check_vpp(vpp, &mut faults);
        }
        if let Some(ethtool) = &self.ethtool {
            check_ethtool(ethtool, &mut faults);
        }
        if let Some(xdp) = &self.xdp {
            check_xdp(xdp, &mut faults);
        }
        // With as many ways as there can be, so that only what is wrong by itself is told here.
        faults.0.extend(self.floors(32).check("policy").map_err(as_configured).err());
        faults.0
    }

    fn check_loop(&self, faults: &mut ConfigFaults) {
        if !(SHORTEST..=LONGEST).contains(&self.interval.ps()) {
            let allowed = "allowed are 100 ms to 60 s: reading more often costs packets";
            faults.wrong("interval", self.interval.to_string(), allowed);
        }
        if self.watchdog.ps() < Ps(self.interval.ps().0.saturating_mul(3)).max(LEAST_PATIENCE) {
            let allowed =
                "three intervals and 2 s at least: a source of counters that hangs is waited for half a second";
            faults.wrong("watchdog", self.watchdog.to_string(), allowed);
        }
        if !is_name(&self.prefix) || self.prefix.starts_with("mon_") {
            let allowed = "letters, digits, -, _ and ., and one at least: it tells our groups from others'";
            faults.wrong("prefix", format!("{:?}", self.prefix), allowed);
        }
        for (path, n) in [("patience", self.patience), ("contention", self.contention)] {
            if n == 0 {
                faults.wrong(path, "0", "1 at least");
            }
        }
        if !self.listen.is_empty() && !self.listen.parse::<SocketAddr>().is_ok_and(|a| a.ip().is_loopback()) {
            let allowed = "an address of the loopback with a port, such as 127.0.0.1:9736, or nothing";
            faults.wrong("listen", format!("{:?}", self.listen), allowed);
        }
        if !(3..=1000).contains(&self.io.verify_intervals) {
            let allowed = "3 to 1000: an average of fewer tells nothing";
            faults.wrong("io.verify_intervals", self.io.verify_intervals.to_string(), allowed);
        }
        if !(0.0..=1.0).contains(&self.io.verify_loss) {
            let allowed = "a share of packets is wanted, 0 to 1 (0.01 is one in a hundred)";
            faults.wrong("io.verify_loss", self.io.verify_loss.to_string(), allowed);
        }
    }

    fn check_json(&self, json: &JsonSpec, faults: &mut ConfigFaults) {
        let both = [("llc_misses", &json.llc_misses), ("llc_lookups", &json.llc_lookups)];
        self.check_names("json", &both, faults);
        faults.of("json.url", &json.url, JsonServer::new(&json.url));
    }

    fn check_metrics(&self, metrics: &MetricsSpec, faults: &mut ConfigFaults) {
        let MetricsSpec { busy, elapsed, llc_misses, llc_lookups, .. } = metrics;
        let by_class = [("busy", busy), ("elapsed", elapsed), ("llc_misses", llc_misses), ("llc_lookups", llc_lookups)];
        self.check_names("prometheus", &by_class, faults);
        faults.of("prometheus.url", &metrics.url, MetricServer::new(&metrics.url));
        let plain = [
            ("received", &metrics.received),
            ("lost", &metrics.lost),
            ("pcie_write_bytes", &metrics.pcie_write_bytes),
            ("pcie_read_bytes", &metrics.pcie_read_bytes),
            ("ddio_hits", &metrics.ddio_hits),
            ("ddio_misses", &metrics.ddio_misses),
            ("memory_bytes", &metrics.memory_bytes),
        ];
        let of_classes =
            by_class.iter().flat_map(|(what, of)| of.iter().map(move |(class, names)| (*what, class, names)));
        let of_classes = of_classes.map(|(what, class, names)| (format!("{what}.{class}"), names));
        for (what, names) in plain.into_iter().map(|(what, names)| (what.to_string(), names)).chain(of_classes) {
            for name in names {
                faults.of(&format!("prometheus.{what}"), name, name.parse::<Selector>());
            }
        }
    }

    /// Whether counters of classes are of classes that there are, and come in pairs.
    fn check_names(&self, table: &str, of: &[(&str, &BTreeMap<String, Vec<String>>)], faults: &mut ConfigFaults) {
        for (what, names) in of {
            for name in names.keys().filter(|n| self.classes.iter().all(|c| c.name != **n)) {
                let known = self.classes.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
                faults.wrong(format!("{table}.{what}"), name, format!("no such class; there are {known}"));
            }
        }
        for pair in of.chunks(2) {
            let [(part, parts), (whole, wholes)] = pair else { continue };
            for name in parts.keys().filter(|name| !wholes.contains_key(*name)) {
                let allowed = format!("with {whole}.{name}, of which it is a part");
                faults.wrong(format!("{table}.{part}.{name}"), "alone", allowed);
            }
        }
    }

    fn check_classes(&self, faults: &mut ConfigFaults) {
        let of = |role: Role| self.classes.iter().filter(|c| c.role == role).count();
        if of(Role::Receive) != 1 || of(Role::Work) > 1 {
            let came = format!("{} with role receive, {} with role work", of(Role::Receive), of(Role::Work));
            let allowed = "one with role = \"receive\" is wanted, and one with role = \"work\" at most";
            faults.wrong("classes", came, allowed);
        }
        let mut seen = BTreeMap::new();
        for (i, class) in self.classes.iter().enumerate() {
            let path = |field: &str| format!("classes[{i}].{field}");
            let is_name =
                !class.name.is_empty() && class.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
            if !is_name || self.classes[..i].iter().any(|c| c.name == class.name) {
                let allowed = "letters, digits, - and _, and each name once";
                faults.wrong(path("name"), format!("{:?}", class.name), allowed);
            }
            let Ok(cpus) = class.cpus.parse::<CpuList>() else {
                faults.wrong(path("cpus"), format!("{:?}", class.cpus), "a list such as 1,4-7");
                continue;
            };
            for cpu in cpus.0 {
                if let Some(other) = seen.insert(cpu, class.name.clone()) {
                    let allowed = format!("processor {cpu} is in class {other:?} already");
                    faults.wrong(path("cpus"), class.cpus.clone(), allowed);
                }
            }
        }
    }
}

/// Names that become parts of paths.
fn is_file(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && !name.starts_with('.')
}

fn check_kernel(kernel: &SystemStatisticsSpec, faults: &mut ConfigFaults) {
    for (path, names) in [("kernel.interfaces", &kernel.interfaces), ("kernel.lost", &kernel.lost)] {
        for name in names.iter().filter(|name| !is_file(name)) {
            faults.wrong(path, format!("{name:?}"), "names as in /sys/class/net/eth0/statistics");
        }
    }
}

fn check_vpp(vpp: &VppSpec, faults: &mut ConfigFaults) {
    if vpp.interfaces.is_empty() || vpp.interfaces.iter().any(String::is_empty) {
        let allowed = "one at least, as `vppctl show interface` names them";
        faults.wrong("vpp.interfaces", format!("{:?}", vpp.interfaces), allowed);
    }
    for name in vpp.lost.iter().filter(|name| !is_file(name)) {
        faults.wrong("vpp.lost", format!("{name:?}"), "names such as rx-miss for the counter /if/rx-miss");
    }
}

/// The longest name of an interface that the kernel takes.
const LONGEST_INTERFACE: usize = 15;

fn check_ethtool(ethtool: &EthtoolSpec, faults: &mut ConfigFaults) {
    if ethtool.interfaces.is_empty() {
        faults.wrong("ethtool.interfaces", "[]", "one at least");
    }
    for name in ethtool.interfaces.iter().filter(|name| !is_file(name) || name.len() > LONGEST_INTERFACE) {
        faults.wrong("ethtool.interfaces", format!("{name:?}"), "names as in /sys/class/net, of 15 bytes at most");
    }
    let all = [&ethtool.received, &ethtool.lost, &ethtool.pcie_write_bytes, &ethtool.pcie_read_bytes];
    if all.into_iter().all(Vec::is_empty) {
        faults.wrong("ethtool", "no counter", "one of received, lost, pcie_write_bytes and pcie_read_bytes");
    }
}

fn check_xdp(xdp: &XdpSpec, faults: &mut ConfigFaults) {
    let all = [
        ("received", &xdp.received),
        ("lost", &xdp.lost),
        ("pcie_write_bytes", &xdp.pcie_write_bytes),
        ("pcie_read_bytes", &xdp.pcie_read_bytes),
    ];
    if all.iter().all(|(_, cells)| cells.is_empty()) {
        faults.wrong("xdp", "no counter", "one of received, lost, pcie_write_bytes and pcie_read_bytes");
    }
    for (what, cells) in all {
        for (i, cell) in cells.iter().enumerate().filter(|(_, cell)| !cell.map.is_absolute()) {
            let allowed = "where it is pinned, such as /sys/fs/bpf/xdp_stats_map";
            faults.wrong(format!("xdp.{what}[{i}].map"), format!("{:?}", cell.map), allowed);
        }
    }
}

/// The configuration; of one that cannot be read what is wrong in each of its parts.
fn read(text: &str) -> Result<DaemonConfig, Vec<DaemonError>> {
    let whole = match toml::Deserializer::parse(text).map(of_form) {
        Ok(Ok(config)) => return Ok(config),
        Ok(Err(why)) => why,
        Err(why) => DaemonError::Form { path: String::new(), why: why.to_string() },
    };
    let mut faults = Vec::new();
    // Each setting alone, since a reader ends at the first that it cannot take.
    for (key, value) in toml::from_str::<toml::Table>(text).unwrap_or_default() {
        match (key.as_str(), value) {
            ("classes", toml::Value::Array(classes)) => {
                for (i, class) in classes.into_iter().enumerate() {
                    let alone = toml::Table::from_iter([(key.clone(), vec![class].into())]);
                    let why = of_form::<toml::Table>(alone).err();
                    faults.extend(why.map(|why| match why {
                        DaemonError::Form { path, why } => {
                            DaemonError::Form { path: path.replacen("[0]", &format!("[{i}]"), 1), why }
                        }
                        other => other,
                    }));
                }
            }
            (_, value) => faults.extend(of_form::<toml::Table>(toml::Table::from_iter([(key, value)])).err()),
        }
    }
    Err(if faults.is_empty() { vec![whole] } else { faults })
}

fn of_form<'de, D: serde::Deserializer<'de, Error = toml::de::Error>>(from: D) -> Result<DaemonConfig, DaemonError> {
    serde_path_to_error::deserialize(from)
        .map_err(|e| DaemonError::Form { path: e.path().to_string(), why: e.inner().message().to_string() })
}

/// The line of a setting, or of the nearest table around it that is there.
fn line_of(text: &str, root: &DeTable<'_>, path: &str) -> Option<usize> {
    let first = path.split(',').next()?;
    let mut table = Some(root);
    let mut array = None;
    let mut at = None;
    for step in first.split(['.', '[']).filter(|step| !step.is_empty()) {
        let value = match step.strip_suffix(']').map(|i| i.parse::<usize>()) {
            Some(Ok(i)) => {
                let of: &toml::de::DeArray<'_> = array?;
                let Some(value) = of.get(i) else { break };
                // A table of an array begins with its header; its span is that.
                at = Some(value.span().start);
                value
            }
            _ => {
                let Some((key, value)) = table?.iter().find(|(key, _)| key.get_ref() == step) else { break };
                at = Some(key.span().start);
                value
            }
        };
        (table, array) = match value.get_ref() {
            DeValue::Table(table) => (Some(table), None),
            DeValue::Array(array) => (None, Some(array)),
            _ => (None, None),
        };
        if table.is_none() && array.is_none() {
            break;
        }
    }
    at.map(|at| text[..at.min(text.len())].matches('\n').count() + 1)
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
            "wirespeedd.toml:1: interval = 1 ms: allowed are 100 ms to 60 s: reading more often costs packets"
        );
        assert!(error("").starts_with("wirespeedd.toml: classes = 0 with role receive"));
        assert!(error(&format!("listen = \"0.0.0.0:80\"\n{RX}")).contains("loopback"));
        assert!(error(&format!("prefix = \"\"\n{RX}")).starts_with("wirespeedd.toml:1: prefix = \"\""));
        assert!(
            error(&format!("{RX}{}", RX.replace("rx", "tx").replace("receive", "work")))
                .contains("processor 1 is in class \"rx\"")
        );
        assert!(error(&format!("interval = \"100 ms\"\nwatchdog = \"300 ms\"\n{RX}")).contains("2 s at least"));
        assert!(error(&format!("{RX}[io]\nverify_intervals = 4000000000\n")).contains("3 to 1000"));
        assert!(error(&format!("{RX}[policy]\nio_floor = 0\n")).starts_with("wirespeedd.toml:6: policy.io_floor = 0"));
        assert!(
            error(&format!("{RX}[policy]\ncore_floor = 40\n")).starts_with("wirespeedd.toml:6: policy.core_floor = 40")
        );
        let ways = error(&format!("{RX}[policy]\ncore_floor = 32\n"));
        assert!(
            ways.starts_with(
                "wirespeedd.toml:5: policy.others, core_floor and io_floor: 1 ways for others, at least 32"
            ),
            "{ways}"
        );
        let cpus = error(&RX.replace("\"1\"", "true"));
        assert!(cpus.contains("classes[0].cpus") && cpus.contains("such as \"1,4-7\" or [1, 4, 5]"), "{cpus}");
        assert!(error(&RX.replace("\"1\"", "[1, \"x\"]")).starts_with("wirespeedd.toml:4: classes[0].cpus = \"1,x\""));
        assert!(error(&format!("{RX}[json]\nurl = \"http://example.org/\"\n")).contains("an address of this machine"));
        let unknown = error(&format!("intervall = 3\n{RX}"));
        assert!(unknown.contains("intervall") && unknown.contains("interval"), "{unknown}");
        assert!(error("interval = ").starts_with("wirespeedd.toml: TOML parse error"));
    }
    #[test]
    fn all_that_is_wrong_is_told_at_once_each_with_its_line() {
        let text = "interval = \"1 ms\"\npatience = 0\n\n[[classes]]\nname = \"rx\"\nrole = \"receive\"\ncpus = \"1-x\"\n\n\
                    [[classes]]\nname = \"a b\"\nrole = \"other\"\ncpus = \"2\"\n\n[policy]\nio_floor = 0\n\n[vpp]\n\
                    interfaces = []\n\n[ethtool]\ninterfaces = [\"a/b\"]\n\n[xdp]\n\
                    received = [{ map = \"m\", key = 2 }]\n\n[prometheus]\nurl = \"http://example.org/\"\nlost = [\"{\"]\n";
        let told = error(text);
        let lines: Vec<&str> = told.lines().map(|line| line.split(" = ").next().unwrap()).collect();
        let expected = [
            ":1: interval",
            ":2: patience",
            ":7: classes[0].cpus",
            ":10: classes[1].name",
            ":15: policy.io_floor",
            ":18: vpp.interfaces",
            ":20: ethtool",
            ":21: ethtool.interfaces",
            ":24: xdp.received[0].map",
            ":27: prometheus.url",
            ":28: prometheus.lost",
        ];
        assert_eq!(lines, expected.map(|line| format!("wirespeedd.toml{line}")), "{told}");
    }

    #[test]
    fn settings_that_cannot_be_read_are_told_at_once_too() {
        let told = error(
            "intervall = 3\npatience = \"x\"\n[[classes]]\nname = \"rx\"\nrole = \"receive\"\n\
                          [[classes]]\nname = \"b\"\nrole = \"none\"\n[xdp]\nlost = [{ map = \"/m\" }]\n",
        );
        for part in ["toml:1: intervall", "toml:2: patience", "toml:8: classes[1].role", "toml:10: xdp.lost[0]", "key"]
        {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert_eq!(told.lines().count(), 4, "{told}");
    }
}
