//! Other programs on the machine, as a scenario names them.

use std::ops::Range;

use machine::nic::{NEIGHBOURS, STATISTICS};
use probe::{RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{LINE_BYTES, Ps, Rate, Size, Span};

/// What a program beside the packet functions does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NeighbourKind {
    /// It works on memory of its own.
    #[default]
    Program,
    /// It reads the counters of packet cores and changes the routes that they look up.
    Control,
    /// A device, such as an NVMe drive, writes blocks into memory by DMA, and its cores, if any, read them.
    Storage,
}

impl NeighbourKind {
    fn is_program(&self) -> bool {
        *self == NeighbourKind::Program
    }

    /// As it is written.
    fn word(self) -> &'static str {
        match self {
            NeighbourKind::Program => "program",
            NeighbourKind::Control => "control",
            NeighbourKind::Storage => "storage",
        }
    }
}

/// A program beside the packet functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NeighbourSpec {
    /// What it does.
    #[serde(default, skip_serializing_if = "NeighbourKind::is_program")]
    pub kind: NeighbourKind,
    /// A name for people.
    #[serde(default = "control_plane")]
    pub name: String,
    /// Cores that it keeps busy, beside `machine.cores`; none is allowed with kind `storage`, whose blocks nobody reads then.
    #[serde(default = "one")]
    pub cores: u32,
    /// Bytes that each of its cores works on, apart from each other; of kind `program`, which needs it.
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    pub working_set: Size,
    /// From one reference of a core to its next; 0 for as fast as memory lets it.
    #[serde(default)]
    pub every: Span,
    /// The share of references that are stores, 0 to 1.
    #[serde(default = "fifth")]
    pub stores: f64,
    /// The share of references that wait for the one before, 0 to 1.
    #[serde(default = "half")]
    pub chained: f64,
    /// It works for a stretch of each period and sleeps for the rest; 0 for always.
    #[serde(default)]
    pub period: Span,
    /// That stretch, as a share of the period.
    #[serde(default = "whole")]
    pub busy: f64,
    /// From one reading of all packet cores' counters to the next; of kind `control`, which reads none when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics_interval: Option<Span>,
    /// Lines of counters that each packet core writes once a burst, if `statistics_interval` is given: 1 to 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics_lines: Option<u32>,
    /// Routes that are written anew in a second, with what they have; of kind `control`, which changes none when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<f64>,
    /// What the device writes, at most; of kind `storage`, which needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Bytes of a block, in steps of 512 B; of kind `storage`, which has 128 KiB when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<Size>,
    /// Requests under way, each with a buffer of a block, 1 to 65536; of kind `storage`, which has 32 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// Direct cache access: whether the device's writes may go into the I/O ways of the LLC, or else past all caches. Intel's root
    /// ports have it in `perfctrlsts`; of kind `storage`.
    #[serde(default = "on", skip_serializing_if = "is_on")]
    pub dca: bool,
}

/// What a storage device does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Storage {
    /// What it writes at most.
    pub rate: Rate,
    /// Bytes of a block.
    pub block: u64,
    /// Blocks under way.
    pub queue_depth: u32,
    /// Whether its writes may go into the I/O ways.
    pub dca: bool,
}

/// What is of kind `storage` where nobody says: assumed, as usual in tests of throughput (`fio`).
const BLOCK: u64 = 128 << 10;
const QUEUE_DEPTH: u32 = 32;
/// Most of a device: four times PCIe 6.0 x16, for several drives at once.
const MOST_GBPS: f64 = 4096.0;

/// Lines of counters of a packet core: packets and bytes, received, sent and dropped, are 48 bytes.
const STATISTICS_LINES: u32 = 1;
/// Route changes in a second, at most: a core needs a line's transfer for each.
const MOST_ROUTES: f64 = 1e8;

fn control_plane() -> String {
    "control plane".into()
}

fn nothing() -> Size {
    Size::from_bytes(0)
}

fn is_nothing(size: &Size) -> bool {
    size.bytes() == 0
}

fn one() -> u32 {
    1
}

fn fifth() -> f64 {
    0.2
}

fn half() -> f64 {
    0.5
}

fn whole() -> f64 {
    1.0
}

fn on() -> bool {
    true
}

fn is_on(on: &bool) -> bool {
    *on
}

impl NeighbourSpec {
    /// Checks the ranges; the message begins with the field.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let least = u32::from(self.kind != NeighbourKind::Storage);
        if !(least..=64).contains(&self.cores) {
            return Err(("cores", format!("{}: allowed are {least} to 64", self.cores)));
        }
        if self.kind != NeighbourKind::Storage {
            self.check_is_no("storage", &self.of_storage())?;
        }
        if self.kind != NeighbourKind::Control {
            self.check_is_no("control", &self.of_control())?;
        }
        match self.kind {
            NeighbourKind::Control => self.check_control(),
            NeighbourKind::Program => self.check_program(),
            NeighbourKind::Storage => self.check_storage(),
        }
    }

    /// Which settings of kind `control` are given.
    fn of_control(&self) -> [(&'static str, bool); 3] {
        [
            ("statistics_interval", self.statistics_interval.is_some()),
            ("statistics_lines", self.statistics_lines.is_some()),
            ("routes", self.routes.is_some()),
        ]
    }

    /// Which settings of kind `storage` are given.
    fn of_storage(&self) -> [(&'static str, bool); 4] {
        [
            ("rate", self.rate.is_some()),
            ("block", self.block.is_some()),
            ("queue_depth", self.queue_depth.is_some()),
            ("dca", !self.dca),
        ]
    }

    /// That none of the settings `of` kind `other` is given.
    fn check_is_no(&self, other: &str, of: &[(&'static str, bool)]) -> Result<(), (&'static str, String)> {
        match of.iter().find(|(_, given)| *given) {
            Some(&(field, _)) => {
                Err((field, format!("with kind = \"{}\": allowed with kind = \"{other}\"", self.kind.word())))
            }
            None => Ok(()),
        }
    }

    /// What it does as a storage device.
    pub(crate) fn storage(&self) -> Storage {
        Storage {
            rate: self.rate.unwrap_or(Rate::from_gbps(1.0)),
            block: self.block.map_or(BLOCK, Size::bytes),
            queue_depth: self.queue_depth.unwrap_or(QUEUE_DEPTH),
            dca: self.dca,
        }
    }

    /// Bytes of all buffers of its device.
    pub(crate) fn storage_bytes(&self) -> u64 {
        let Storage { block, queue_depth, .. } = self.storage();
        block * u64::from(queue_depth)
    }

    /// That it has none of the settings of who works on memory of its own, as `kind` has not.
    fn check_no_program(&self, kind: &str) -> Result<(), (&'static str, String)> {
        let own = |field, came: String| Err((field, format!("{came}: allowed is none of it with kind = \"{kind}\"")));
        if self.working_set.bytes() > 0 {
            return own("working_set", self.working_set.to_string());
        }
        for (field, span) in [("every", self.every), ("period", self.period)] {
            if span.ps() > Ps::ZERO {
                return own(field, span.to_string());
            }
        }
        for (field, share, usual) in
            [("stores", self.stores, fifth()), ("chained", self.chained, half()), ("busy", self.busy, whole())]
        {
            if share != usual {
                return own(field, share.to_string());
            }
        }
        Ok(())
    }

    /// Checks what is of kind `storage`.
    fn check_storage(&self) -> Result<(), (&'static str, String)> {
        self.check_no_program("storage")?;
        let Some(rate) = self.rate else { return Err(("rate", "none: kind = \"storage\" needs it".into())) };
        if !(rate.gbps() >= 0.001 && rate.gbps() <= MOST_GBPS) {
            return Err(("rate", format!("{rate}: allowed are 1 Mbps to {} GB/s", MOST_GBPS / 8.0)));
        }
        let Storage { block, queue_depth, .. } = self.storage();
        if !(512..=1 << 24).contains(&block) || !block.is_multiple_of(512) {
            return Err((
                "block",
                format!("{}: allowed are 512 B to 16 MiB in steps of 512 B", Size::from_bytes(block)),
            ));
        }
        if !(1..=1 << 16).contains(&queue_depth) || self.storage_bytes() > 1 << 34 {
            return Err(("queue_depth", format!("{queue_depth}: allowed are 1 to 65536, and 16 GiB in all blocks")));
        }
        Ok(())
    }

    /// The lines of counters that each packet core writes for it; none for who reads none.
    pub(crate) fn counters(&self) -> Option<u32> {
        self.statistics_interval.map(|_| self.statistics_lines.unwrap_or(STATISTICS_LINES))
    }

    /// Checks what is of kind `control`.
    fn check_control(&self) -> Result<(), (&'static str, String)> {
        self.check_no_program("control")?;
        if self.cores != 1 {
            return Err(("cores", format!("{}: allowed is 1 with kind = \"control\", a thread", self.cores)));
        }
        if self.statistics_interval.is_none() && self.routes.is_none() {
            let message = "control: with neither statistics_interval nor routes: allowed is one of them, or both";
            return Err(("kind", message.into()));
        }
        if let Some(span) = self
            .statistics_interval
            .filter(|s| !(Ps::from_ns(1_000)..=Ps::from_ns(1_000_000_000_000)).contains(&s.ps()))
        {
            return Err(("statistics_interval", format!("{span}: allowed are 1 us to 1000 s")));
        }
        match self.statistics_lines {
            Some(lines) if self.statistics_interval.is_none() => {
                return Err(("statistics_lines", format!("{lines}: allowed with statistics_interval")));
            }
            Some(lines) if !(1..=64).contains(&lines) => {
                return Err(("statistics_lines", format!("{lines}: allowed are 1 to 64")));
            }
            _ => {}
        }
        if let Some(routes) = self.routes.filter(|routes| !(*routes > 0.0 && *routes <= MOST_ROUTES)) {
            return Err(("routes", format!("{routes}: allowed are more than 0, up to {MOST_ROUTES} a second")));
        }
        Ok(())
    }

    /// Checks what is of kind `program`.
    fn check_program(&self) -> Result<(), (&'static str, String)> {
        if !(4096..=1 << 34).contains(&self.working_set.bytes()) {
            return Err(("working_set", format!("{}: allowed are 4 KiB to 16 GiB", self.working_set)));
        }
        for (field, share) in [("stores", self.stores), ("chained", self.chained)] {
            if !(0.0..=1.0).contains(&share) {
                return Err((field, format!("{share}: allowed is a share of 0 to 1")));
            }
        }
        if !(self.busy > 0.0 && self.busy <= 1.0) {
            return Err(("busy", format!("{}: allowed is a share above 0, up to 1", self.busy)));
        }
        for (field, span) in [("every", self.every), ("period", self.period)] {
            if span.ps() > Ps::from_ns(1_000_000_000) {
                return Err((field, format!("{span}: allowed are 0 to 1 s")));
            }
        }
        Ok(())
    }
}

/// Cores that `neighbours` take in all.
pub fn cores(neighbours: &[NeighbourSpec]) -> u32 {
    neighbours.iter().map(|n| n.cores).sum()
}

/// The memory that they work on.
pub fn region(neighbours: &[NeighbourSpec]) -> Option<RegionSpec> {
    let bytes = neighbours.iter().map(|n| all_lines(n) * LINE_BYTES).sum();
    (bytes > 0).then(|| RegionSpec { id: NEIGHBOURS, name: "neighbours".into(), bytes, sharing: Sharing::Shared })
}

/// Counters of `cores` packet cores that they read, a stretch of lines a core.
pub(crate) fn statistics(neighbours: &[NeighbourSpec], cores: u32) -> Option<RegionSpec> {
    let lines = statistics_lines(neighbours)?;
    let bytes = u64::from(cores) * u64::from(lines) * LINE_BYTES;
    Some(RegionSpec { id: STATISTICS, name: "statistics".into(), bytes, sharing: Sharing::Shared })
}

/// Lines of counters that each packet core writes: as many as the one who reads most wants.
pub(crate) fn statistics_lines(neighbours: &[NeighbourSpec]) -> Option<u32> {
    neighbours.iter().filter_map(NeighbourSpec::counters).max()
}

/// The lines of each in that memory, from its first on.
pub(crate) fn lines_of_all(neighbours: &[NeighbourSpec]) -> Vec<Range<u64>> {
    let mut first = 0;
    let each = neighbours.iter().map(|spec| {
        let from = first;
        first += all_lines(spec);
        from..first
    });
    each.collect()
}

/// Lines of one of them in all.
fn all_lines(spec: &NeighbourSpec) -> u64 {
    if spec.kind == NeighbourKind::Storage {
        return spec.storage_bytes() / LINE_BYTES;
    }
    u64::from(spec.cores) * lines(spec)
}

/// Lines of each core of one of them.
pub(crate) fn lines(spec: &NeighbourSpec) -> u64 {
    spec.working_set.bytes().div_ceil(LINE_BYTES)
}
