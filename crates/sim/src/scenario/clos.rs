//! Classes of service of the LLC as a person sets them: which ways a class may fill, and which cores and programs are in it,
//! as `pqos -e` and `-a` do.
//!
//! Packet cores that no class names are in class 1, or in class 2 where they work on what others have received; neighbours
//! are in class 0, and so is whoever is in a class that was given no ways. A mask limits fills; hits are anywhere.
//!
//! Memory bandwidth allocation (MBA) stands between a core and the mesh: it paces requests for lines from beyond L2, those that
//! the LLC serves too, and no device's. It is given in bytes a second of each core. Intel's is a delay in steps of a tenth that
//! the manual calls approximate and whose bandwidth differs by processor (Intel SDM volume 3B, 17.19.7); resctrl's `mba_MBps` and AMD's
//! bandwidth enforcement (steps of 1/8 GB/s, of all cores of a class in an L3 domain) are bandwidths. That requests are paced
//! evenly is assumed.
//!
//! Left out: classes that change while packets go through, which is what `policy` does.

use std::collections::BTreeMap;

use machine::cores::CoreSpec;
use machine::memory::Ways;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Clos, LINE_BYTES, Rate, Span};

use super::neighbours::NeighbourSpec;

/// The class of cores that receive, and of all packet cores where there is no pipeline.
pub const RX_CLASS: Clos = Clos(1);

/// The class of cores that work on what others have received.
pub const WORK_CLASS: Clos = Clos(2);

/// A class of service of the LLC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClosSpec {
    /// The ways that it may fill: how many, from the lowest on, or which, as text ("0xf0") of bits that are contiguous.
    pub ways: Ways,
    /// What each core of it may ask for beyond its L2 (MBA), "64 MB/s" to "640 GB/s"; as much as it can when left out. Writes of what L2
    /// evicts come beside it, and devices are not held to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Rate>,
    /// Packet cores that are in it, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<u32>,
    /// Neighbours that are in it, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<String>,
}

/// Classes that resctrl and `pqos` tell apart on today's processors.
pub(crate) const CLASSES: usize = 16;

/// All classes by number, as `machine.clos` has them.
pub type ClosSpecs = BTreeMap<String, ClosSpec>;

pub(crate) fn number(key: &str) -> Option<u8> {
    // Written otherwise (`01`, `+1`) it would be a class twice.
    key.parse().ok().filter(|clos: &u8| usize::from(*clos) < CLASSES && clos.to_string() == key)
}

/// The class that names a packet core.
pub(crate) fn of_core(classes: &ClosSpecs, core: u32) -> Option<Clos> {
    let (key, _) = classes.iter().find(|(_, class)| class.cores.contains(&core))?;
    number(key).map(Clos)
}

impl ClosSpec {
    /// A line in so much time; none where nothing is said.
    pub(crate) fn interval(&self) -> Option<Span> {
        self.bandwidth.map(|rate| Span::from_ns(8.0 * LINE_BYTES as f64 / rate.gbps()))
    }
}

/// `core` in class `clos`, which may hold it to fewer requests than its port takes.
pub(crate) fn held(classes: &ClosSpecs, clos: Clos, core: &CoreSpec) -> CoreSpec {
    let own = classes.get(&clos.0.to_string()).and_then(ClosSpec::interval);
    let slower = own.filter(|own| core.fill_interval.is_none_or(|port| own.ps() > port.ps()));
    CoreSpec { fill_interval: slower.or(core.fill_interval), ..core.clone() }
}

/// The class of a neighbour.
pub(crate) fn of_neighbour(classes: &ClosSpecs, neighbour: &NeighbourSpec) -> Clos {
    let named = classes.iter().find(|(_, class)| class.neighbours.contains(&neighbour.name));
    Clos(named.and_then(|(key, _)| number(key)).unwrap_or(0))
}
