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
        // That nothing is named as a loss does not say that nothing is lost.
        let is_counted = |claim: &CounterClaim| !self.lost.is_empty() || *claim != Own(TotalKind::Lost);
        OF_PACKETS.into_iter().filter(is_counted).collect()
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;
    use crate::xdp::MapInfo;

    /// A driver with one statistic by interface, and a map whose numbers are its keys.
    struct Made;

    impl EthtoolCalls for Made {
        fn count(&self, _: &str) -> io::Result<usize> {
            Ok(1)
        }
        fn names(&self, _: &str) -> io::Result<Vec<u8>> {
            let mut name = b"rx_out_of_buffer".to_vec();
            name.resize(32, 0);
            Ok(name)
        }
        fn values(&self, interface: &str, _: usize) -> io::Result<Vec<u64>> {
            Ok(vec![if interface == "eth0" { 3 } else { 40 }])
        }
    }

    impl MapCalls for Made {
        fn value(&self, _: &Path, key: u32) -> io::Result<(MapInfo, Vec<u8>)> {
            let info = MapInfo { kind: 2, key_bytes: 4, value_bytes: 8, entries: 99 };
            Ok((info, u64::from(key).to_ne_bytes().to_vec()))
        }
    }

    #[test]
    fn what_is_not_named_is_not_counted() {
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let (interfaces, lost) = (names(&["eth0", "eth1"]), names(&["rx_out_of_buffer"]));
        let what = DriverCounters { interfaces, lost, ..DriverCounters::default() };
        let mut drivers = FromEthtool::new(Box::new(Made), what);
        let mut totals = HostTotals::default();
        drivers.read(&mut totals).unwrap();
        assert_eq!((drivers.counts(), totals.lost), (vec![Own(TotalKind::Lost)], Some(43)));
        let cell = |key| MapCell { map: "m".into(), key, offset: 0 };
        let what = MapCounters { received: vec![cell(2), cell(5)], lost: vec![cell(1)], ..MapCounters::default() };
        let mut maps = FromXdp::new(Box::new(Made), what);
        maps.read(&mut totals).unwrap();
        assert_eq!(maps.counts(), [Own(TotalKind::Received), Own(TotalKind::Lost)]);
        assert_eq!((totals.received, totals.lost), (Some(7), Some(1)));
        let vpp = |lost: &[&str]| FromVpp::new("s".into(), names(&["eth0"]), names(lost)).counts();
        assert!(vpp(&["rx-miss"]).contains(&Own(TotalKind::Lost)) && !vpp(&[]).contains(&Own(TotalKind::Lost)));
    }

    #[test]
    fn a_vpp_that_does_not_run_is_told() {
        let mut vpp = FromVpp::new("/nowhere/stats.sock".into(), vec!["eth0".into()], Vec::new());
        let why = vpp.read(&mut HostTotals::default()).unwrap_err();
        assert!(why.is_gone() && why.to_string().contains("/nowhere/stats.sock"), "{why}");
    }
}
