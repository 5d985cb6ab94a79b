//! The same devices at another data rate.
//!
//! A rate that is shipped is that preset, with the timings of its speed bin. Any other one is a part that no bin
//! describes: what a standard gives in nanoseconds keeps them, rounded up to clocks, and what it gives in clocks keeps
//! these. Left out: that a bin offers few latencies (an even CL of DDR5), and currents, which nobody has measured there.

use super::presets;
use super::standard::{Row, Standard};
use crate::MachineError;

/// Timings that standards give in clocks: bursts, and gaps on buses.
const IN_CLOCKS: [&str; 6] = ["BL", "BL_L", "CCD_S", "PPD", "RTW", "RTRS"];
/// Intervals: a refresh may not come later, so they are rounded down.
const INTERVALS: [&str; 2] = ["REFI", "REFI2"];
const WITHIN_GROUPS: [(&str, &str); 4] =
    [("CCD_L", "CCD_S"), ("CCD_L_WR", "CCD_S"), ("RRD_L", "RRD_S"), ("WTR_L", "WTR_S")];

impl Standard {
    /// Transfers of a pin in a microsecond: MT/s.
    pub fn rate(&self) -> u32 {
        self.clock_mhz.saturating_mul(self.transfers)
    }

    /// These devices at `rate` MT/s: the shipped preset of the family that runs at it, or else these timings as the head
    /// of this file says. `path` is where the rate was set.
    ///
    /// # Errors
    /// A rate below half of this one or above twice; timings that contradict each other there.
    pub fn at_rate(&self, rate: u32, path: &str) -> Result<Standard, MachineError> {
        let here = self.rate();
        let bounds = here.div_ceil(2)..=here.saturating_mul(2);
        if !bounds.contains(&rate) {
            let allowed =
                format!("{} to {} MT/s: half of {}'s {here} to twice", bounds.start(), bounds.end(), self.name);
            let remedy = "take a preset nearer to it: wirespeed presets --kind dram".into();
            return Err(MachineError::new(path, rate.to_string(), allowed, remedy));
        }
        let clock_mhz = rate / self.transfers;
        if clock_mhz == self.clock_mhz {
            return Ok(self.clone());
        }
        if let Some(shipped) = self.shipped_at(clock_mhz) {
            return Ok(Standard { channels: self.channels, ranks: self.ranks, ..shipped });
        }
        let mut other = Standard { name: format!("{}@{rate}", self.name), clock_mhz, currents: None, ..self.clone() };
        for (name, clocks) in &mut other.timings {
            let scaled = u64::from(*clocks) * u64::from(clock_mhz);
            let from = u64::from(self.clock_mhz);
            *clocks = match name.as_str() {
                name if self.counts_clocks(name) => *clocks,
                name if INTERVALS.contains(&name) => (scaled / from) as u32,
                _ => scaled.div_ceil(from) as u32,
            };
        }
        // What holds within a bank group is at least as long as what holds beyond it, however slow the clock.
        for (within, beyond) in WITHIN_GROUPS {
            if let Some(&least) = other.timings.get(beyond)
                && let Some(clocks) = other.timings.get_mut(within)
            {
                *clocks = least.max(*clocks);
            }
        }
        // A distance that comes to less than nothing here keeps nothing apart.
        let kept: Vec<Row> = other.constraints.iter().filter(|row| other.clocks(row).is_ok()).cloned().collect();
        other.constraints = kept;
        other.check()?;
        Ok(other)
    }

    /// A shipped standard of the same family and organisation with this clock; none of a standard of one's own.
    fn shipped_at(&self, clock_mhz: u32) -> Option<Standard> {
        let family = |name: &str| name.split('-').next().map(String::from);
        let own = presets::preset(&self.name)?;
        if (Standard { channels: own.channels, ranks: own.ranks, ..self.clone() }) != own {
            return None;
        }
        let others = presets::NAMES.into_iter().filter(|name| family(name) == family(&self.name));
        others.filter_map(presets::preset).find(|other| {
            let organisation = |s: &Standard| (s.groups, s.banks, s.rows, s.row_bytes, s.transfers);
            other.clock_mhz == clock_mhz && organisation(other) == organisation(self)
        })
    }

    /// Whether a timing is a number of clocks. Activates that may follow each other as fast as columns do are (8 clocks of
    /// DDR5, 4 of DDR4), and so is a window that is no longer than four of them.
    fn counts_clocks(&self, name: &str) -> bool {
        let t = |name: &str| self.timings.get(name).copied().unwrap_or(0);
        let activates = t("RRD_S") == t("CCD_S");
        IN_CLOCKS.contains(&name)
            || (name == "RRD_S" && activates)
            || (name == "FAW" && activates && t("FAW") <= 4 * t("RRD_S"))
            // BL/n_max of LPDDR5.
            || (name == "CCD_L" && t("CCD_L") == t("BL_L"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_is_shipped_is_that_preset() {
        for (from, rate, to) in [
            ("ddr5-4800b", 5600, "ddr5-5600b"),
            ("ddr5-6400b", 4800, "ddr5-4800b"),
            ("ddr4-2400u", 3200, "ddr4-3200aa"),
            ("ddr4-3200aa", 2666, "ddr4-2666v"),
            ("lpddr5x-8533", 8533, "lpddr5x-8533"),
        ] {
            let found = presets::preset(from).unwrap().at_rate(rate, "speed").unwrap();
            assert_eq!(found, presets::preset(to).unwrap(), "{from} at {rate}");
        }
        let two = Standard { channels: 8, ranks: 1, ..presets::ddr5_4800b() };
        assert_eq!(two.at_rate(6400, "speed").unwrap().channels, 8);
    }

    #[test]
    fn nanoseconds_stay_within_a_clock_and_clocks_stay() {
        for name in presets::NAMES {
            let standard = presets::preset(name).unwrap();
            for rate in [standard.rate() * 3 / 4, standard.rate() * 3 / 2] {
                let other = standard.at_rate(rate, "speed").unwrap();
                if other.name == *name || presets::NAMES.contains(&other.name.as_str()) {
                    continue;
                }
                assert_eq!(other.name, format!("{name}@{rate}"));
                assert!(other.currents.is_none());
                for (timing, &clocks) in &other.timings {
                    let was = standard.timings[timing];
                    let ns = |clocks: u32, s: &Standard| f64::from(clocks) * 1e3 / f64::from(s.clock_mhz);
                    let apart = ns(clocks, &other) - ns(was, &standard);
                    let clock = 1e3 / f64::from(other.clock_mhz);
                    match timing.as_str() {
                        timing if standard.counts_clocks(timing) => assert_eq!(clocks, was, "{name} {timing}"),
                        "CCD_L" | "RRD_L" if apart > clock => assert!(clocks == 8, "{name} {timing} {clocks}"),
                        "REFI" | "REFI2" => assert!((-clock..=1e-9).contains(&apart), "{name} {timing} {apart}"),
                        _ => assert!((-1e-9..clock).contains(&apart), "{name} {timing} {apart}"),
                    }
                }
                // The peak is the rate times what a transfer carries.
                let peak = other.peak_bytes_per_s() / standard.peak_bytes_per_s();
                let expected = f64::from(other.clock_mhz) / f64::from(standard.clock_mhz);
                assert!((peak - expected).abs() < 1e-12, "{name}");
            }
        }
    }

    #[test]
    fn a_standard_of_ones_own_is_never_taken_for_a_shipped_one() {
        let mut mine = presets::ddr5_4800b();
        mine.timings.insert("CL".into(), 36);
        assert_eq!(mine.at_rate(5600, "speed").unwrap().timings["CL"], 42);
        mine.name = "mine".into();
        assert_eq!(mine.at_rate(5600, "speed").unwrap().name, "mine@5600");
    }

    #[test]
    fn a_rate_that_is_far_away_is_refused_with_what_is_allowed() {
        for rate in [0, 2399, 9601, u32::MAX] {
            let error = presets::ddr5_4800b().at_rate(rate, "speed").unwrap_err().to_string();
            let allowed = "allowed is 2400 to 9600 MT/s: half of ddr5-4800b's 4800 to twice";
            assert!(error.starts_with(&format!("speed = {rate}: {allowed}")), "{error}");
        }
    }
}
