//! Stacked DRAM behind a distributor: channels that each hold a copy of a table, split over their banks.
//!
//! A table is cut into as many partial tables as a channel has banks; every channel holds all of them. A request
//! wants one partial table, so any channel will do whose bank of that number is idle, and the [`Distributor`] takes the
//! one with the fewest busy banks: where several banks of a channel are busy they share its buses, and each serves at a
//! lower rate. Also here: the small caches and the [`SkipLogic`] of the architecture that this memory belongs to.
//!
//! State is free of time ([`Distributor`], [`Recency`], [`SkipLogic`]). [`Stacked`] is the timing shell that answers in
//! order of arrival: a later request slows what the other banks of its channel have begun, but for answers that were given.
//!
//! Left out: refresh and commands (see [`crate::dram`] for a controller that knows both), writes (tables are read; all
//! copies would have to change), the distributor's own circuit time other than the constant hop of the link.
//!
//! Source: T. Korikawa, A. Kawabata, F. He, E. Oki, "Packet Processing Architecture Using Last-Level-Cache Slices and
//! Interleaved 3D-Stacked DRAM", IEEE Access 8, 2020, sections III, IV-A and V-C; of the distributor: the same,
//! "Carrier-Scale Packet Processing Architecture Using Interleaved 3D-Stacked DRAM and Its Analysis", IEEE Access 7, 2019.

mod distributor;
mod level;
mod recency;
mod skip;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Ps;

use crate::dram::presets;
use crate::error::MachineError;

pub use distributor::{Distributor, Grant, StackedBank};
pub use level::{BankTurn, Stacked};
pub use recency::{EvictedLine, Recency};
pub use skip::{SkipLogic, SkipSpec, Using};

/// A stacked DRAM: how many channels and banks, and how they serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StackedSpec {
    /// Channels (vaults), each with a copy of every table: 1 to 64.
    pub channels: u32,
    /// Banks of a channel, and so partial tables: 1 to 16.
    pub banks: u32,
    /// How a bank serves a request.
    pub service: BankService,
    /// The hop between processor and memory (the FPGA's link), ns each way.
    pub link_ns: f64,
}

/// How a bank serves a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum BankService {
    /// At rates, in millions of requests a second: by how many banks of the channel are busy, the first of them alone.
    Rates {
        /// The rate of a bank while 1, 2, ... banks of its channel are busy; the last holds for all above.
        per_us: Vec<f64>,
        /// Exponential service times, also where it is left out; fixed ones if false.
        #[serde(default = "exponential")]
        exponential: bool,
    },
    /// By the timings of a shipped standard, closed page: activate, read, precharge, and the channel's data bus.
    Device {
        /// `hmc-2.1-vault`, `hbm2-2000` or another name that `wirespeed presets --kind dram` lists.
        standard: String,
        /// Bytes of a request.
        bytes: u32,
    },
}

fn exponential() -> bool {
    true
}

impl Default for StackedSpec {
    /// 32 channels of 2 banks; 8 M requests/s alone (the 125 ns that Hadidi et al. measured on an HMC, ISPASS 2018),
    /// 0.7 of it interleaved (section V-C).
    fn default() -> StackedSpec {
        let service = BankService::Rates { per_us: vec![8.0, 5.6], exponential: true };
        StackedSpec { channels: 32, banks: 2, service, link_ns: 0.0 }
    }
}

/// How a bank serves a request, as times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BankTiming {
    /// Mean service time while 1, 2, ... banks of the channel are busy.
    Rates {
        /// The last holds for all above.
        means: Vec<Ps>,
        /// Exponential service times; fixed ones if false.
        exponential: bool,
    },
    /// A device's closed-page timings.
    Device {
        /// From activation to the first data.
        first_data: Ps,
        /// The data bus of the channel is taken so long.
        burst: Ps,
        /// The bank takes the next request after so long.
        cycle: Ps,
    },
}

impl StackedSpec {
    /// The timings, once the specification is found sound; `path` is where it stands in the scenario.
    ///
    /// # Errors
    /// A number of channels or banks out of range, a rate that is not positive or that grows with the number of busy
    /// banks, an unknown standard, a negative link.
    pub fn resolve(&self, path: &str) -> Result<BankTiming, MachineError> {
        let error = |field: &str, came: String, allowed: &str, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        if !(1..=64).contains(&self.channels) {
            return error("channels", self.channels.to_string(), "1 to 64", "each channel holds a copy of the table");
        }
        if !(1..=16).contains(&self.banks) {
            return error("banks", self.banks.to_string(), "1 to 16", "each bank holds a part of the table");
        }
        if !(self.link_ns >= 0.0 && self.link_ns <= 1e6) {
            return error(
                "link_ns",
                self.link_ns.to_string(),
                "0 to 1000000",
                "give the hop of one way in nanoseconds",
            );
        }
        match &self.service {
            BankService::Rates { per_us, exponential } => {
                let sound = per_us.iter().all(|rate| *rate > 1e-3 && *rate < 1e6);
                if per_us.is_empty() || !sound {
                    return error(
                        "service.rates.per_us",
                        format!("{per_us:?}"),
                        "one rate or more, each from 0.001 to 1000000",
                        "give millions of requests a second of a bank, first of a bank alone in its channel",
                    );
                }
                if per_us.windows(2).any(|pair| pair[1] > pair[0]) {
                    return error(
                        "service.rates.per_us",
                        format!("{per_us:?}"),
                        "rates that do not grow",
                        "a bank is not faster for sharing its channel",
                    );
                }
                let means = per_us.iter().map(|rate| Ps((1e6 / rate).round() as u64)).collect();
                Ok(BankTiming::Rates { means, exponential: *exponential })
            }
            BankService::Device { standard, bytes } => {
                let Some(found) = presets::preset(standard) else {
                    let known = presets::NAMES.join(", ");
                    return error(
                        "service.device.standard",
                        format!("{standard:?}"),
                        &known,
                        "name a shipped standard",
                    );
                };
                if !(1..=4096).contains(bytes) {
                    return error(
                        "service.device.bytes",
                        bytes.to_string(),
                        "1 to 4096",
                        "give the bytes of a request",
                    );
                }
                let clocks = |n: u32| Ps(u64::from(n) * 1_000_000 / u64::from(found.clock_mhz.max(1)));
                let bursts = bytes.div_ceil(found.access_bytes.max(1));
                let timing = |name: &str| found.timing(name);
                let burst = bursts * timing("BL")?;
                let first_data = clocks(timing("RCD")? + timing("CL")?);
                // The row stays open until its last column command; then precharge.
                let open = timing("RAS")?.max(timing("RCD")? + burst + timing("RTP").unwrap_or(0));
                let cycle = clocks((open + timing("RP")?).max(timing("RC")?));
                Ok(BankTiming::Device { first_data, burst: clocks(burst), cycle })
            }
        }
    }

    /// The hop of the link, one way.
    pub fn link(&self) -> Ps {
        Ps((self.link_ns * 1e3).round() as u64)
    }
}
