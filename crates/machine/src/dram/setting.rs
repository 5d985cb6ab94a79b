//! A controller as a person sets it: short texts, the same on the command line and in a scenario.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Size;

use super::PagePolicy;
use super::map::AddressMap;
use super::policy::{BatchBy, ControllerSpec, Order, Page, Refresh, Writes};
use super::standard::Standard;
use crate::MachineError;

/// Controllers at the level of commands, one a channel, behind the LLC: they reorder, gather writes and close rows as
/// set here, and answer when the data are there. The timings are those of `machine.dram.standard`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ControllerSetting {
    /// Where a line lies: parts from high to low (`row rank bank column group`), or the same after `permuted:` for banks
    /// XORed with low row bits. Lines go round robin over channels unless `channel` is among
    /// the parts and not the last one. Addresses beyond the devices wrap.
    pub map: String,
    /// Memory in stretches of so many bytes, over all channels, that lie in even banks and in odd ones by turns: half of
    /// `buffer.size` for a packet buffer whose halves do, with `buffer.pools = 2`. A packet buffer begins with an even
    /// stretch. As `map` says when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halves: Option<Size>,
    /// Entries of a channel's queue; of reads alone where writes have their own.
    pub queue: u32,
    /// Which request is next: `fr-fcfs`, `fr-fcfs=CAP`, `fcfs`, `fcfs=PREFETCH`, `batch=direction/SIZE/PREFETCH` or
    /// `batch=bank-parity/SIZE/PREFETCH`. PREFETCH is how many rows are opened ahead.
    #[serde(with = "text")]
    #[schemars(with = "String")]
    pub order: Order,
    /// Whether what the NIC reads of packets, to send them, waits in a queue of its own, as long as `queue`, that goes
    /// before all else.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub output_first: bool,
    /// Where writes wait: `mixed`, or `drain=QUEUE/HIGH/LOW` with a queue of their own and its watermarks. When left
    /// out, `drain=32/24/8` with `fr-fcfs` and `mixed` with what serves in order.
    #[serde(with = "optional_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub writes: Option<Writes>,
    /// When rows are closed: `open` (lazy precharge), `closed` (eager), or `adaptive=CLOCKS`; if left out as
    /// `machine.dram.page` says, which is `open` but for the vaults of HMC.
    #[serde(with = "optional_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub page: Option<Page>,
    /// `all-bank`, `per-bank`, `same-bank` (DDR5) or `off`.
    #[serde(with = "text")]
    #[schemars(with = "String")]
    pub refresh: Refresh,
    /// The links of a cube, with an HMC standard only; four full-width links of HMC 2.1 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<LinkSetting>,
}

impl Default for ControllerSetting {
    /// What a server's controller is taken to be (assumed): FR-FCFS with a cap, writes drained together,
    /// lines that follow each other in different bank groups and banks permuted by the row.
    fn default() -> ControllerSetting {
        ControllerSetting {
            map: SERVER_MAP.into(),
            halves: None,
            queue: 32,
            order: Order::FrFcfs { cap: 16 },
            output_first: false,
            writes: None,
            page: None,
            refresh: Refresh::AllBank,
            links: None,
        }
    }
}

/// The map of a controller for which none is given.
pub const SERVER_MAP: &str = "permuted:row rank bank column group";

/// Links between a cube and its host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkSetting {
    /// How many.
    pub links: u32,
    /// Lanes of a link in one direction.
    pub lanes: u32,
    /// Gb/s of a lane.
    pub lane_gbps: u32,
    /// Clocks of the vaults through the crossbar, one way.
    pub crossbar: u32,
}

impl Default for LinkSetting {
    fn default() -> LinkSetting {
        let cube = super::hmc::CubeSpec::default();
        LinkSetting { links: cube.links, lanes: cube.lanes, lane_gbps: cube.lane_gbps, crossbar: cube.crossbar }
    }
}

impl ControllerSetting {
    /// What it decides, without the map, over devices whose rows are closed as `page` says.
    pub fn spec(&self, page: PagePolicy) -> ControllerSpec {
        ControllerSpec {
            queue: self.queue,
            order: self.order,
            writes: self.writes.unwrap_or(match self.order {
                Order::FrFcfs { .. } => Writes::Drain { queue: 32, high: 24, low: 8 },
                _ => Writes::Mixed,
            }),
            page: self.page.unwrap_or(match page {
                PagePolicy::Open => Page::Open,
                PagePolicy::Closed => Page::Closed,
            }),
            refresh: self.refresh,
        }
    }
}

impl ControllerSetting {
    /// How lines lie over so many channels of `standard`, whose number of channels becomes that of the map: whether lines
    /// go round robin over channels, and the map within one, or over all. `path` is where the memory stands in the scenario.
    ///
    /// # Errors
    /// No such map, or halves that the device does not have; channels that are no power of two and not the last part.
    pub fn address_map(
        &self,
        standard: &mut Standard,
        channels: u32,
        path: &str,
    ) -> Result<(bool, AddressMap), MachineError> {
        let here = |field: &'static str| {
            let path = format!("{path}.controller.{field}");
            move |e: MachineError| MachineError { path, ..e }
        };
        if !(1..=256).contains(&channels) {
            return Err(no(
                &format!("{path}.channels"),
                &channels.to_string(),
                "1 to 256",
                "give the socket's channel count",
            ));
        }
        let text = self.map.trim().replace([',', '|'], " ");
        let parts = text.trim_end();
        let within = parts.strip_suffix("channel").map_or(parts, str::trim_end);
        let round_robin = !within.contains("channel");
        if !round_robin && !channels.is_power_of_two() {
            return Err(no(
                &format!("{path}.controller.map"),
                &format!("{text:?} over {channels} channels"),
                "channel as the last part, or channels that are a power of two",
                "address bits select the channel elsewhere",
            ));
        }
        standard.channels = if round_robin { 1 } else { channels };
        let map = AddressMap::of_parts(standard, if round_robin { within } else { parts }).map_err(here("map"))?;
        let Some(halves) = self.halves else { return Ok((round_robin, map)) };
        let over = if round_robin { u64::from(channels) } else { 1 };
        if !halves.bytes().is_multiple_of(over) {
            return Err(no(
                &format!("{path}.controller.halves"),
                &format!("{halves} over {channels} channels"),
                "as many bytes in each channel",
                "take a power of two times the channels",
            ));
        }
        Ok((round_robin, map.halved(standard, halves.bytes() / over).map_err(here("halves"))?))
    }
}

impl AddressMap {
    /// A map as a person writes it: parts from high to low, between blanks, commas or strokes, or the same after
    /// `permuted:`.
    ///
    /// # Errors
    /// As [`AddressMap::ordered`].
    pub fn of_parts(standard: &Standard, text: &str) -> Result<AddressMap, MachineError> {
        let spaced = |parts: &str| parts.replace([',', '|'], " ");
        match text.trim().strip_prefix("permuted:") {
            Some(parts) => AddressMap::permuted(standard, &spaced(parts)),
            None => AddressMap::ordered(standard, &spaced(text)),
        }
    }
}

/// Texts of settings in TOML and JSON.
mod text {
    use super::*;

    pub fn serialize<T: fmt::Display, S: serde::Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err = MachineError>,
        D: serde::Deserializer<'de>,
    {
        let text = String::deserialize(from)?;
        text.parse().map_err(|e: MachineError| {
            serde::de::Error::custom(format!("{:?}: allowed is {} ({})", e.came, e.allowed, e.remedy))
        })
    }
}

/// The same of settings that may be left out.
mod optional_text {
    use super::*;

    pub fn serialize<T: fmt::Display, S: serde::Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.collect_str(value),
            None => to.serialize_none(),
        }
    }

    pub fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err = MachineError>,
        D: serde::Deserializer<'de>,
    {
        text::deserialize(from).map(Some)
    }
}

fn no(path: &str, came: &str, allowed: &str, remedy: &str) -> MachineError {
    MachineError::new(path, came, allowed, remedy.into())
}

/// Numbers between strokes.
fn counts<const N: usize>(text: &str) -> Option<[u32; N]> {
    let numbers: Option<Vec<u32>> = text.split('/').map(|n| n.parse().ok()).collect();
    numbers?.try_into().ok()
}

impl FromStr for Order {
    type Err = MachineError;
    fn from_str(text: &str) -> Result<Order, MachineError> {
        let (kind, numbers) = text.split_once('=').unwrap_or((text, ""));
        let wrong = || {
            no(
                "order",
                text,
                "fr-fcfs, fr-fcfs=CAP, fcfs, fcfs=PREFETCH, batch=direction/SIZE/PREFETCH or batch=bank-parity/SIZE/PREFETCH",
                "fr-fcfs serves row hits first; a cap bounds how many pass the oldest",
            )
        };
        let optional = || if numbers.is_empty() { Some(0) } else { numbers.parse().ok() };
        match kind {
            "fr-fcfs" => Ok(Order::FrFcfs { cap: optional().ok_or_else(wrong)? }),
            "fcfs" => Ok(Order::Fcfs { prefetch: optional().ok_or_else(wrong)? }),
            "batch" => {
                let (by, numbers) = numbers.split_once('/').ok_or_else(wrong)?;
                let by = match by {
                    "direction" => BatchBy::Direction,
                    "bank-parity" => BatchBy::BankParity,
                    _ => return Err(wrong()),
                };
                let [size, prefetch] = counts(numbers).ok_or_else(wrong)?;
                Ok(Order::Batch { by, size, prefetch })
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Order::FrFcfs { cap: 0 } => write!(f, "fr-fcfs"),
            Order::FrFcfs { cap } => write!(f, "fr-fcfs={cap}"),
            Order::Fcfs { prefetch: 0 } => write!(f, "fcfs"),
            Order::Fcfs { prefetch } => write!(f, "fcfs={prefetch}"),
            Order::Batch { by, size, prefetch } => {
                let by = if *by == BatchBy::Direction { "direction" } else { "bank-parity" };
                write!(f, "batch={by}/{size}/{prefetch}")
            }
        }
    }
}

impl FromStr for Writes {
    type Err = MachineError;
    fn from_str(text: &str) -> Result<Writes, MachineError> {
        match text.split_once('=') {
            None if text == "mixed" => return Ok(Writes::Mixed),
            Some(("drain", numbers)) => {
                if let Some([queue, high, low]) = counts(numbers) {
                    return Ok(Writes::Drain { queue, high, low });
                }
            }
            _ => {}
        }
        let remedy = "drain=32/24/8 gathers writes and drains them together";
        Err(no("writes", text, "mixed or drain=QUEUE/HIGH/LOW", remedy))
    }
}

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Writes::Mixed => write!(f, "mixed"),
            Writes::Drain { queue, high, low } => write!(f, "drain={queue}/{high}/{low}"),
        }
    }
}

impl FromStr for Page {
    type Err = MachineError;
    fn from_str(text: &str) -> Result<Page, MachineError> {
        match text.split_once('=') {
            None if text == "open" => return Ok(Page::Open),
            None if text == "closed" => return Ok(Page::Closed),
            Some(("adaptive", clocks)) => {
                if let Ok(timeout) = clocks.parse() {
                    return Ok(Page::Adaptive { timeout });
                }
            }
            _ => {}
        }
        Err(no("page", text, "open, closed or adaptive=CLOCKS", "adaptive=128 is a start"))
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Page::Open => write!(f, "open"),
            Page::Closed => write!(f, "closed"),
            Page::Adaptive { timeout } => write!(f, "adaptive={timeout}"),
        }
    }
}

impl FromStr for Refresh {
    type Err = MachineError;
    fn from_str(text: &str) -> Result<Refresh, MachineError> {
        match text {
            "off" => Ok(Refresh::Off),
            "all-bank" => Ok(Refresh::AllBank),
            "per-bank" => Ok(Refresh::PerBank),
            "same-bank" => Ok(Refresh::SameBank),
            _ => Err(no("refresh", text, "all-bank, per-bank, same-bank or off", "all-bank is what most DIMMs do")),
        }
    }
}

impl fmt::Display for Refresh {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Refresh::Off => "off",
            Refresh::AllBank => "all-bank",
            Refresh::PerBank => "per-bank",
            Refresh::SameBank => "same-bank",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for text in ["fr-fcfs", "fr-fcfs=4", "fcfs", "fcfs=2", "batch=direction/4/1", "batch=bank-parity/1/0"] {
            assert_eq!(text.parse::<Order>().unwrap().to_string(), text);
        }
        for text in ["mixed", "drain=32/24/8"] {
            assert_eq!(text.parse::<Writes>().unwrap().to_string(), text);
        }
        for text in ["open", "closed", "adaptive=128"] {
            assert_eq!(text.parse::<Page>().unwrap().to_string(), text);
        }
        for text in ["off", "all-bank", "per-bank", "same-bank"] {
            assert_eq!(text.parse::<Refresh>().unwrap().to_string(), text);
        }
        for text in ["lifo", "batch=direction", "batch=direction/4", "fcfs=-1", "fr-fcfs=x"] {
            assert!(text.parse::<Order>().is_err(), "{text}");
        }
    }
}
