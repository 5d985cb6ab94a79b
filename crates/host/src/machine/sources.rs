//! Sources of counters: a DPDK program, a server of JSON, events of perf.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::{CounterSource, HostTotals};
use crate::perf::{self, Counting};
use crate::{HostError, Telemetry, Tree, json};

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
        // What crosses PCIe is a little more (descriptors); a counter of the uncore takes precedence.
        into.pcie_write_bytes = into.pcie_write_bytes.or(Some(sum.received_bytes));
        into.pcie_read_bytes = into.pcie_read_bytes.or(Some(sum.sent_bytes));
        Ok(())
    }
}

impl CounterSource for FromTelemetry {
    fn name(&self) -> &str {
        &self.name
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
        into.pcie_write_bytes = sum(&paths.pcie_write_bytes)?.or(into.pcie_write_bytes);
        into.pcie_read_bytes = sum(&paths.pcie_read_bytes)?.or(into.pcie_read_bytes);
        into.ddio_hits = sum(&paths.ddio_hits)?.or(into.ddio_hits);
        into.ddio_misses = sum(&paths.ddio_misses)?.or(into.ddio_misses);
        into.memory_bytes = sum(&paths.memory_bytes)?.or(into.memory_bytes);
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
    totals: Vec<(CounterField, Counting)>,
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
        let fields: [(&[String], CounterField); 5] = [
            (&events.ddio_hits, |t| &mut t.ddio_hits),
            (&events.ddio_misses, |t| &mut t.ddio_misses),
            (&events.memory_bytes, |t| &mut t.memory_bytes),
            (&events.pcie_write_bytes, |t| &mut t.pcie_write_bytes),
            (&events.pcie_read_bytes, |t| &mut t.pcie_read_bytes),
        ];
        let mut totals = Vec::new();
        for (names, field) in fields.into_iter().filter(|(names, _)| !names.is_empty()) {
            totals.push((field, count(names, &[0])?));
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

    fn read(&mut self, into: &mut HostTotals) -> Result<(), HostError> {
        for (field, counting) in &mut self.totals {
            *field(into) = Some(counting.read()?);
        }
        for (class, misses, lookups) in &mut self.classes {
            let of = into.classes.entry(*class).or_default();
            (of.llc_misses, of.llc_lookups) = (Some(misses.read()?), Some(lookups.read()?));
        }
        Ok(())
    }
}
