//! More programs that count packets: VPP by its statistics segment, drivers by their statistics, XDP programs by their maps.

use std::path::PathBuf;

use super::CounterClaim::Own;
use super::sources::{OF_PACKETS, named};
use super::{CounterClaim, CounterSource, HostTotals, TotalKind};
use crate::ethtool::{self, EthtoolCalls};
use crate::xdp::{self, MapCalls, MapCell};
use crate::{HostError, vpp};

/// Counters of VPP's interfaces.
pub struct FromVpp {
    socket: PathBuf,
    name: String,
    interfaces: Vec<String>,
    lost: Vec<String>,
}

impl FromVpp {
    /// Of the VPP at `socket`: these interfaces, and which of their simple counters are losses.
    pub fn new(socket: PathBuf, interfaces: Vec<String>, lost: Vec<String>) -> FromVpp {
        let name = format!("VPP at {}", socket.display());
        FromVpp { socket, name, interfaces, lost }
    }
}

impl CounterSource for FromVpp {
    fn name(&self) -> &str {
        &self.name
    }

    fn counts(&self) -> Vec<CounterClaim> {
        OF_PACKETS.to_vec()
    }

    fn read(&mut self, into: &mut HostTotals) -> Result<(), HostError> {
        // Connected anew each time: the segment of a VPP that has ended can be read for ever, and stands still.
        let totals = vpp::connect_to(&self.socket)?.totals(&self.interfaces, &self.lost)?;
        (into.received, into.lost) = (Some(totals.received), Some(totals.lost));
        (into.pcie_write_bytes, into.pcie_read_bytes) = (Some(totals.received_bytes), Some(totals.sent_bytes));
        Ok(())
    }
}

/// Names of a driver's statistics, by what they count; several are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverCounters {
    /// Interfaces that packets come by, which are added up.
    pub interfaces: Vec<String>,
    /// Packets received.
    pub received: Vec<String>,
    /// Packets lost.
    pub lost: Vec<String>,
    /// Bytes that devices wrote.
    pub pcie_write_bytes: Vec<String>,
    /// Bytes that devices read.
    pub pcie_read_bytes: Vec<String>,
}

/// Statistics of drivers.
pub struct FromEthtool {
    calls: Box<dyn EthtoolCalls>,
    what: DriverCounters,
}

impl FromEthtool {
    /// Of `what`.
    pub fn new(calls: Box<dyn EthtoolCalls>, what: DriverCounters) -> FromEthtool {
        FromEthtool { calls, what }
    }
}

impl CounterSource for FromEthtool {
    fn name(&self) -> &str {
        "statistics of drivers"
    }

    fn counts(&self) -> Vec<CounterClaim> {
        named(&[
            (&self.what.received, TotalKind::Received),
            (&self.what.lost, TotalKind::Lost),
            (&self.what.pcie_write_bytes, TotalKind::PcieWriteBytes),
            (&self.what.pcie_read_bytes, TotalKind::PcieReadBytes),
        ])
    }

    fn read(&mut self, into: &mut HostTotals) -> Result<(), HostError> {
        let mut all = Vec::new();
        for interface in &self.what.interfaces {
            all.push((interface, ethtool::statistics(&*self.calls, interface)?));
        }
        let sum = |names: &[String]| {
            let mut sum = 0u64;
            for (interface, statistics) in &all {
                sum = sum.wrapping_add(ethtool::sum(statistics, names, interface)?);
            }
            Ok::<_, HostError>(Some(sum))
        };
        (into.received, into.lost) = (sum(&self.what.received)?, sum(&self.what.lost)?);
        into.pcie_write_bytes = sum(&self.what.pcie_write_bytes)?;
        into.pcie_read_bytes = sum(&self.what.pcie_read_bytes)?;
        Ok(())
    }
}

/// Cells of maps, by what they count; several are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapCounters {
    /// Packets received.
    pub received: Vec<MapCell>,
    /// Packets lost.
    pub lost: Vec<MapCell>,
    /// Bytes that devices wrote.
    pub pcie_write_bytes: Vec<MapCell>,
    /// Bytes that devices read.
    pub pcie_read_bytes: Vec<MapCell>,
}

/// Maps of XDP programs.
pub struct FromXdp {
    calls: Box<dyn MapCalls>,
    what: MapCounters,
}

impl FromXdp {
    /// Of `what`.
    pub fn new(calls: Box<dyn MapCalls>, what: MapCounters) -> FromXdp {
        FromXdp { calls, what }
    }

    fn fields(&self) -> [(&[MapCell], TotalKind); 4] {
        [
            (&self.what.received, TotalKind::Received),
            (&self.what.lost, TotalKind::Lost),
            (&self.what.pcie_write_bytes, TotalKind::PcieWriteBytes),
            (&self.what.pcie_read_bytes, TotalKind::PcieReadBytes),
        ]
    }
}

impl CounterSource for FromXdp {
    fn name(&self) -> &str {
        "XDP's maps"
    }

    fn counts(&self) -> Vec<CounterClaim> {
        let fields = self.fields();
        fields.iter().filter(|(cells, _)| !cells.is_empty()).map(|(_, kind)| Own(*kind)).collect()
    }

    fn read(&mut self, into: &mut HostTotals) -> Result<(), HostError> {
        let [received, lost, written, read] = self.fields().map(|(cells, _)| xdp::sum(&*self.calls, cells));
        (into.received, into.lost) = (Some(received?), Some(lost?));
        (into.pcie_write_bytes, into.pcie_read_bytes) = (Some(written?), Some(read?));
        Ok(())
    }
}
