//! Energy by cause, from a data sheet's currents.
//!
//! Micron TN-41-01, "Calculating memory system power for DDR3": a command costs its current above standby, for as long
//! as it takes, at the supply voltage; standby costs more with a row open. Whoever counts commands and open time has
//! energy by this: controllers of commands, and banks that are reserved in order of arrival. Left out: termination and
//! I/O, power-down, the controller and the wires to it.

use schemars::JsonSchema;
use serde::Serialize;

use super::standard::{Currents, Standard};
use super::{DramPart, DramSpec, MachineError, presets};

/// Energy by cause, in nJ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Energy {
    /// Activates with their precharges.
    pub activate: f64,
    /// Read bursts.
    pub read: f64,
    /// Write bursts.
    pub write: f64,
    /// Refreshes.
    pub refresh: f64,
    /// Standby, rows open or closed.
    pub background: f64,
}

impl Energy {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.activate + self.read + self.write + self.refresh + self.background
    }
}

/// What devices did that takes energy, summed over channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, derive_more::AddAssign, derive_more::Sub)]
pub struct EnergyEvents {
    /// Rows opened.
    pub activates: u64,
    /// Nanoseconds of read data on the buses.
    pub reading: f64,
    /// Nanoseconds of written data on the buses.
    pub writing: f64,
    /// Refreshes of a whole rank; refreshes of some of its banks are parts of one, by the rows they refresh.
    pub refreshes: f64,
    /// Nanoseconds with a row open anywhere in the channel.
    pub open: f64,
    /// Nanoseconds.
    pub time: f64,
}

/// What each kind of work takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnergyModel {
    /// nJ of an activate with its precharge.
    activate: f64,
    /// nJ of a refresh of a rank.
    refresh: f64,
    /// Watts above standby of read data on a channel's bus, and of written data.
    read: f64,
    write: f64,
    /// Watts of a channel's ranks with a row open, and without.
    open: f64,
    closed: f64,
}

impl EnergyModel {
    /// `currents` with the times of a row cycle, an open row and a refresh in ns, and `ranks` on a channel.
    pub fn new(currents: &Currents, [t_rc, t_ras, t_rfc]: [f64; 3], ranks: u32) -> EnergyModel {
        let c = currents;
        // mA x V = mW, and mW x us = nJ.
        let watts = |milliamps: f64| milliamps * c.vdd * f64::from(c.devices) * 1e-3;
        let standby = c.idd3n * t_ras + c.idd2n * (t_rc - t_ras);
        EnergyModel {
            activate: watts(c.idd0 * t_rc - standby),
            refresh: watts(c.idd5 - c.idd3n) * t_rfc,
            read: watts(c.idd4r - c.idd3n),
            write: watts(c.idd4w - c.idd3n),
            open: watts(c.idd3n) * f64::from(ranks),
            closed: watts(c.idd2n) * f64::from(ranks),
        }
    }

    /// Of a standard's devices; none where it has no currents.
    pub fn of_standard(standard: &Standard) -> Option<EnergyModel> {
        let clocks = |name: &str| f64::from(standard.timings.get(name).copied().unwrap_or(0));
        let times = ["RC", "RAS", "RFC"].map(|name| clocks(name) * 1e3 / f64::from(standard.clock_mhz));
        Some(EnergyModel::new(standard.currents.as_ref()?, times, standard.ranks))
    }

    /// What `work` took.
    pub fn of(&self, work: &EnergyEvents) -> Energy {
        Energy {
            activate: work.activates as f64 * self.activate,
            read: work.reading * self.read,
            write: work.writing * self.write,
            refresh: work.refreshes * self.refresh,
            background: work.open * self.open + (work.time - work.open).max(0.0) * self.closed,
        }
    }
}

impl DramSpec {
    /// The standard whose currents these devices have: the one that is named for currents, or that of the timings.
    pub fn of_currents(&self) -> Option<&str> {
        self.currents.as_deref().or(self.standard.as_ref().map(DramPart::name))
    }

    /// That standard; [`None`] where none is named, or nobody ships it.
    pub(super) fn devices(&self) -> Option<Standard> {
        match &self.currents {
            Some(name) => presets::preset(name),
            None => self.standard.as_ref()?.standard(),
        }
    }

    /// What work on these devices takes; none where no currents are known.
    ///
    /// # Errors
    /// Currents of a standard that is not shipped.
    pub fn energy(&self, path: &str) -> Result<Option<EnergyModel>, MachineError> {
        let Some(name) = self.of_currents() else { return Ok(None) };
        let Some(standard) = self.devices() else {
            let allowed = presets::NAMES.join(", ");
            let remedy = "see wirespeed presets --kind dram".into();
            return Err(MachineError::new(format!("{path}.currents"), name, allowed, remedy));
        };
        let [ras, rp, rfc] = [&self.t_ras, &self.t_rp, &self.t_rfc].map(|t| t.ps().as_ns());
        let model = |c: &Currents| EnergyModel::new(c, [ras + rp, ras, rfc], self.ranks(&standard));
        Ok(standard.currents.as_ref().map(model))
    }

    /// Ranks of a channel, if its devices are those of `standard`.
    pub(super) fn ranks(&self, standard: &Standard) -> u32 {
        (self.banks / (standard.groups * standard.banks).max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use units::{Line, Ps, Span};

    use super::super::{Dram, PagePolicy};
    use super::*;

    /// Two ranks of DDR4-2400 on a channel, and what was read and written in them.
    fn two_ranks(page: PagePolicy) -> (DramSpec, Dram) {
        let spec = DramSpec { page, banks: 32, ..DramSpec::of_standard("ddr4-2400u", Span::from_ns(0.0)).unwrap() };
        let dram = Dram::new(&spec, "dram").unwrap();
        (spec, dram)
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 3e-4 * b.abs()
    }

    /// Three reads and a write in two rows of one refresh interval, over two intervals and a half.
    #[test]
    fn energy_of_known_commands_is_its_closed_form() {
        let (spec, mut dram) = two_ranks(PagePolicy::Open);
        let at = Ps::from_ns(7800 + 1000);
        dram.line(Line(0), false, at);
        dram.line(Line(1), false, at + Ps::from_ns(100));
        dram.line(Line(2), true, at + Ps::from_ns(200));
        dram.line(Line(128), false, at + Ps::from_ns(300));
        let now = Ps::from_ns(19_500);
        let work = dram.work(now);
        assert_eq!((work.activates, work.refreshes), (2, 4.0));
        // From the first activate to the next refresh.
        assert!(close(work.open, 7800.0 - 1000.0), "{work:?}");
        assert!(close(work.time, 19_500.0));
        let energy = spec.energy("dram").unwrap().unwrap().of(&work);
        // 8 devices at 1.2 V, in nJ: mA x V x ns x 1e-6 x 1e3. tRC 56, tRAS 39, tRFC 420, a burst 4 clocks of 1200 MHz.
        let (devices, clock) = (8.0 * 1.2 * 1e-3, 1e3 / 1200.0);
        let one = devices * clock;
        assert!(close(energy.activate, 2.0 * one * (48.0 * 56.0 - 43.0 * 39.0 - 34.0 * 17.0)), "{energy:?}");
        assert!(close(energy.read, 3.0 * one * 4.0 * (135.0 - 43.0)), "{energy:?}");
        assert!(close(energy.write, one * 4.0 * (123.0 - 43.0)), "{energy:?}");
        assert!(close(energy.refresh, 4.0 * one * 420.0 * (250.0 - 43.0)), "{energy:?}");
        let standby = 2.0 * devices * (6800.0 * 43.0 + (19_500.0 - 6800.0) * 34.0);
        assert!(close(energy.background, standby), "{energy:?} {standby}");
    }

    #[test]
    fn with_closed_pages_rows_are_open_for_t_ras_and_overlaps_count_once() {
        let (_, mut dram) = two_ranks(PagePolicy::Closed);
        let ras = 39.0 * 1e3 / 1200.0;
        dram.line(Line(0), false, Ps::from_ns(1000));
        assert!(close(dram.work(Ps::from_ns(2000)).open, ras));
        // Looked at while the row is open.
        assert!(close(dram.work(Ps::from_ns(1010)).open, 10.0));
        // Another bank, 16 ns later: the two overlap.
        dram.line(Line(0), false, Ps::from_ns(3000));
        dram.line(Line(128), false, Ps::from_ns(3016));
        let work = dram.work(Ps::from_ns(4000));
        assert!(close(work.open, 2.0 * ras + 16.0), "{work:?}");
        assert_eq!(work.activates, 3);
    }

    #[test]
    fn energy_is_not_known_without_currents_and_currents_have_to_be_shipped() {
        let (spec, _) = two_ranks(PagePolicy::Open);
        let with = |standard: Option<&str>, currents: Option<&str>| {
            let (standard, currents) = (standard.map(DramPart::from), currents.map(String::from));
            DramSpec { standard, currents, ..spec.clone() }.energy("machine.dram").map(|model| model.is_some())
        };
        assert_eq!(with(None, None), Ok(false));
        assert_eq!(with(Some("ddr5-4800b"), None), Ok(false));
        assert_eq!(with(None, Some("ddr4-2666v")), Ok(true));
        assert_eq!(with(Some("ddr5-4800b"), Some("ddr4-2666v")), Ok(true));
        let unknown = with(None, Some("ddr4-2666")).unwrap_err().to_string();
        assert!(unknown.starts_with("machine.dram.currents = ddr4-2666: allowed is sdram-100-2, "), "{unknown}");
    }
}
