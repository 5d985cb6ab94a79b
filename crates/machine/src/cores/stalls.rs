//! Time that the system takes from a core that polls: how often, and how long, as given or as measured on shipped testbeds.
//!
//! FD.io CSIT runs a loop of 160,000 cycles on a core that is isolated for polling, and tells by the second how much longer the longest
//! run of it took than the shortest (`csit_core_jitter`, FDio/csit at 7489131, 7931974 and b37b50c, Apache-2.0). So each length is the longest of a
//! second, and shorter ones are not known. Clocks are the processors' base clocks, which time stamps count by.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Ps, Span};

use crate::MachineError;

/// Lengths that were measured.
pub struct MeasuredStalls {
    /// Their name.
    pub name: &'static str,
    /// The processor.
    pub processor: &'static str,
    /// Cycles of its base clock in a nanosecond.
    ghz: f64,
    /// In these cycles, shortest first.
    cycles: &'static [u32],
}

/// Those that are shipped.
pub const MEASURED_STALLS: &[MeasuredStalls] = &[
    MeasuredStalls {
        name: "csit-hsw",
        processor: "Xeon E5-2699 v3",
        ghz: 2.3,
        cycles: &[
            12_408, 12_428, 12_456, 12_456, 12_460, 12_488, 12_564, 12_584, 12_596, 12_612, 12_612, 12_612, 12_612,
            12_616, 12_648, 12_704, 12_716, 12_764, 13_652, 14_416, 14_592, 16_908, 18_724, 18_752, 18_796, 19_032,
            19_176, 19_236, 25_652, 28_212,
        ],
    },
    MeasuredStalls {
        name: "csit-skx",
        processor: "Xeon Platinum 8180",
        ghz: 2.5,
        cycles: &[
            6_518, 6_550, 7_272, 7_438, 7_494, 7_526, 7_538, 7_540, 7_582, 7_776, 7_840, 8_112, 8_240, 8_376, 8_978,
            9_072, 9_678, 10_454, 11_308, 12_438,
        ],
    },
    MeasuredStalls {
        name: "csit-clx",
        processor: "Xeon Platinum 8280",
        ghz: 2.7,
        cycles: &[
            6_800, 7_030, 7_168, 7_244, 7_254, 7_280, 7_282, 7_310, 7_404, 7_420, 7_478, 7_542, 7_568, 7_750, 7_798,
            7_812, 7_930, 8_078, 8_112, 8_150, 8_208, 8_224, 8_226, 8_288, 8_292, 8_662, 8_674, 8_762, 8_810, 8_818,
            8_832, 9_070, 9_098, 9_098, 9_172, 9_294, 9_392, 9_440, 9_650, 9_802, 9_950, 9_978, 10_150, 10_208, 10_300,
            10_386, 10_514, 10_606, 10_688, 11_148,
        ],
    },
    MeasuredStalls {
        name: "csit-icx",
        processor: "Xeon Platinum 8358",
        ghz: 2.6,
        cycles: &[
            6_362, 6_732, 6_872, 7_016, 7_036, 7_890, 8_028, 8_092, 8_186, 8_222, 8_364, 8_508, 8_588, 8_832, 8_940,
            9_046, 9_228, 9_410, 9_436, 12_428,
        ],
    },
    MeasuredStalls {
        name: "csit-zn2",
        processor: "EPYC 7532",
        ghz: 2.4,
        cycles: &[
            29_136, 29_136, 29_376, 29_448, 29_448, 29_448, 29_448, 29_448, 29_448, 29_448, 29_448, 29_448, 29_448,
            29_448, 29_448, 29_448, 29_448, 29_448, 29_448, 29_448, 29_448, 29_448, 29_448, 29_472, 29_472, 29_472,
            29_472, 29_472, 29_472, 29_472, 29_472, 29_472, 29_472, 29_472, 29_472, 29_472, 29_472, 29_472, 29_472,
        ],
    },
    MeasuredStalls {
        name: "csit-dnv",
        processor: "Atom C3858",
        ghz: 2.0,
        cycles: &[
            18_366, 18_376, 18_430, 18_432, 18_490, 18_500, 18_542, 18_570, 18_816, 18_824, 18_832, 19_438, 19_664,
            20_056, 20_742, 20_992, 21_294, 21_536, 21_584, 23_254,
        ],
    },
    MeasuredStalls {
        name: "csit-snr",
        processor: "Atom P5362B",
        ghz: 2.2,
        cycles: &[
            4_886, 4_902, 4_938, 4_994, 5_014, 5_060, 5_144, 5_146, 5_224, 5_348, 5_536, 5_656, 5_826, 6_900, 7_470,
            8_584, 8_962, 9_308, 9_598, 9_618,
        ],
    },
];

/// Time that the system takes from a core: interrupts, kernel threads, firmware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StallSpec {
    /// The mean time from the end of one to the next, 1 us to 1000 s.
    pub every: Span,
    /// How long they last, each as likely.
    pub lengths: StallLengths,
}

/// How long stalls last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a list of times as [\"5 us\"] or the name of a testbed as \"csit-skx\"")]
pub enum StallLengths {
    /// As measured on a testbed: csit-hsw, csit-skx, csit-clx, csit-icx, csit-zn2, csit-dnv or csit-snr, of each second the longest.
    Measured(String),
    /// 1 to 64 of 1 ns to 1 s.
    Given(Vec<Span>),
}

impl StallSpec {
    /// Checks the ranges. `path` is where the core's specification stands in the scenario.
    ///
    /// # Errors
    /// A time outside its range, too many of them, or a testbed that is not shipped.
    pub fn check(&self, path: &str) -> Result<(), MachineError> {
        let error = |field: &str, came: String, allowed: &str| {
            let remedy = "such as { every = \"1 s\", lengths = [\"5.4 us\"] }, or lengths = \"csit-skx\"";
            Err(MachineError::new(format!("{path}.stalls.{field}"), came, allowed, remedy.into()))
        };
        let second = Ps::from_ns(1_000_000_000);
        if !(Ps::from_ns(1_000)..=second * 1000).contains(&self.every.ps()) {
            return error("every", self.every.to_string(), "1 us to 1000 s");
        }
        match &self.lengths {
            StallLengths::Measured(name) if measured(name).is_none() => {
                let names: Vec<&str> = MEASURED_STALLS.iter().map(|stalls| stalls.name).collect();
                error("lengths", name.clone(), &format!("a list of times, or one of {}", names.join(", ")))
            }
            StallLengths::Given(lengths) if !(1..=64).contains(&lengths.len()) => {
                error("lengths", format!("{} times", lengths.len()), "1 to 64 times")
            }
            StallLengths::Given(lengths) => {
                match lengths.iter().find(|length| !(Ps::from_ns(1)..=second).contains(&length.ps())) {
                    Some(length) => error("lengths", length.to_string(), "1 ns to 1 s"),
                    None => Ok(()),
                }
            }
            StallLengths::Measured(_) => Ok(()),
        }
    }

    /// How long each one lasts; none of a testbed that is not shipped.
    pub fn times(&self) -> Vec<Ps> {
        match &self.lengths {
            StallLengths::Given(lengths) => lengths.iter().copied().map(Span::ps).collect(),
            StallLengths::Measured(name) => measured(name).map_or(Vec::new(), MeasuredStalls::times),
        }
    }
}

impl MeasuredStalls {
    /// How long each one lasts.
    pub fn times(&self) -> Vec<Ps> {
        self.cycles.iter().map(|&cycles| Ps((f64::from(cycles) / self.ghz * 1e3) as u64)).collect()
    }
}

fn measured(name: &str) -> Option<&'static MeasuredStalls> {
    MEASURED_STALLS.iter().find(|stalls| stalls.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(lengths: StallLengths) -> StallSpec {
        StallSpec { every: Span::from_ns(1e9), lengths }
    }

    #[test]
    fn measured_lengths_are_those_of_their_testbeds() {
        let longest = |name: &str| spec(StallLengths::Measured(name.into())).times().last().map(|time| time.as_ns());
        // 28,212 cycles of 2.3 GHz and 12,438 of 2.5 GHz.
        assert_eq!(longest("csit-hsw").map(f64::round), Some(12266.0));
        assert_eq!(longest("csit-skx").map(f64::round), Some(4975.0));
        let samples: Vec<usize> = MEASURED_STALLS.iter().map(|stalls| stalls.times().len()).collect();
        assert_eq!(samples, [30, 20, 50, 20, 39, 20, 20]);
        assert!(MEASURED_STALLS.iter().all(|stalls| stalls.cycles.is_sorted()));
    }

    #[test]
    fn what_is_wrong_is_told_with_what_is_allowed() {
        let error = |lengths| spec(lengths).check("machine.core").unwrap_err().to_string();
        let unknown = error(StallLengths::Measured("csit-bdx".into()));
        assert!(
            unknown.contains("machine.core.stalls.lengths = csit-bdx: allowed is a list of times, or one of csit-hsw"),
            "{unknown}"
        );
        assert!(error(StallLengths::Given(Vec::new())).contains("0 times: allowed is 1 to 64 times"));
        assert!(error(StallLengths::Given(vec![Span::from_ns(2e9)])).contains("allowed is 1 ns to 1 s"));
        assert!(spec(StallLengths::Measured("csit-clx".into())).check("machine.core").is_ok());
    }
}
