//! What words and numbers of a run both rest on.

use machine::dram::EnergyModel;
use stats::stationarity;
use units::LINE_BYTES;

use crate::run::measure::{Measure, PacketTally};
use crate::run::simulate::Measured;
use crate::scenario::Scenario;

/// Rates over the measured time. Of a sampled run those of all packets that its windows stand for, of which so much was
/// carried as of the windows': how fast and how long packets are varies more from window to window.
pub(crate) struct MeasuredRates {
    seconds: f64,
    /// Mean bytes of all packets by those of measured ones, on the wire and with FCS.
    longer: [f64; 2],
}

impl MeasuredRates {
    pub(crate) fn of(m: &Measure) -> MeasuredRates {
        let measured = m.offered;
        match m.stands_for {
            Some((offered, seen, time)) if offered > 0 && seen.packets > 0 && measured.packets > 0 => {
                let longer = [(seen.l1_bytes, measured.l1_bytes), (seen.l2_bytes, measured.l2_bytes)];
                let fewer = measured.packets as f64 / seen.packets as f64;
                MeasuredRates {
                    seconds: time.as_secs() * measured.packets as f64 / offered as f64,
                    longer: longer.map(|(seen, measured)| seen as f64 / measured as f64 * fewer),
                }
            }
            _ => MeasuredRates { seconds: m.window().as_secs(), longer: [1.0; 2] },
        }
    }

    pub(crate) fn mpps(&self, counted: &PacketTally) -> f64 {
        counted.packets as f64 / self.seconds / 1e6
    }

    /// On the wire.
    pub(crate) fn gbps(&self, counted: &PacketTally) -> f64 {
        counted.l1_bytes as f64 * self.longer[0] * 8.0 / self.seconds / 1e9
    }

    /// With FCS.
    pub(crate) fn l2_gbps(&self, counted: &PacketTally) -> f64 {
        counted.l2_bytes as f64 * self.longer[1] * 8.0 / self.seconds / 1e9
    }
}

/// Between the halves of a run, a difference of less than this share of the mean is no trend: with
/// many packets the warming of a cache is significant long after it stops to matter.
const TREND: f64 = 0.02;

/// Whether the batch means of the sojourn show no trend, and no ring was on its way to overflow; unknown of too few.
pub(crate) fn is_stationary(m: &Measure) -> Option<bool> {
    if m.growth.is_some_and(|growth| growth.is_overload()) {
        return Some(false);
    }
    let trend = stationarity(&m.sojourn.batch_means()).ok()?;
    Some(!(trend.is_significant() && trend.difference.abs() > TREND * m.sojourn.histogram().mean()))
}

/// Bytes a second to and from DRAM.
pub(crate) fn dram_bandwidth(measured: &Measured) -> f64 {
    ((measured.counts.dram.reads + measured.counts.dram.writes) * LINE_BYTES) as f64 / measured.counts.span.as_secs()
}

/// What work takes on the scenario's DRAM, or why that is not known.
pub(crate) fn energy_model(scenario: &Scenario) -> Result<EnergyModel, String> {
    let dram = &scenario.machine.dram;
    if scenario.machine.stacked.is_some() {
        return Err("what the stacked DRAM of machine.stacked takes is not known".into());
    }
    let Some(name) = dram.of_currents() else {
        return Err("machine.dram names no standard whose currents its devices have (machine.dram.currents)".into());
    };
    match dram.energy("machine.dram") {
        Ok(Some(model)) => Ok(model),
        Ok(None) => Err(format!("no currents of {name} are known")),
        Err(e) => Err(e.to_string()),
    }
}
