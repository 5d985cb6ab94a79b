//! What runs on the machine, and what of it the counters tell.
//!
//! There are two: [`MeanField`] for faults by the thousand, and [`Simulated`], which is the server of `sim`.

mod mean_field;
mod simulated;

use std::collections::BTreeMap;

use units::{Cbm, Ps};

pub use mean_field::{MeanField, MeanFieldSpec, MeanFieldWorkload};
pub use simulated::{PlantError, Simulated, SimulatedSpec};

/// Where a program runs: what resctrl puts into groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostProgram {
    /// Its processors; the first one's group is the program's.
    pub cpus: Vec<u32>,
    /// Its tasks; the first one's group goes before that.
    pub tasks: Vec<u32>,
}

impl HostProgram {
    /// The program that receives packets.
    pub fn receiving() -> HostProgram {
        HostProgram { cpus: vec![1], tasks: vec![1001] }
    }

    /// The one beside it.
    pub fn beside() -> HostProgram {
        HostProgram { cpus: vec![4, 5, 6, 7], tasks: vec![2001, 2002] }
    }
}

/// What resctrl says of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Ways that it may fill.
    pub ways: Cbm,
    /// Under which monitoring id (or class, where nothing is monitored) its lines and its traffic count.
    pub owner: u8,
}

/// What runs. The first program receives packets.
pub trait Plant: Send {
    /// Programs, in the order of all lists here.
    fn programs(&self) -> Vec<HostProgram>;

    /// Offers other packets from now on.
    fn offer(&mut self, pps: f64, packet_bytes: f64);

    /// Lets time pass with programs in these groups, and devices that may fill `io`.
    fn advance(&mut self, by: Ps, tenants: &[Tenant], io: Cbm);

    /// Bytes in the cache of an owner; `now` are the owners of programs at present.
    fn occupancy(&self, owner: u8, now: &[u8]) -> f64;

    /// Bytes in the cache that devices have brought.
    fn io_occupancy(&self) -> f64;

    /// Bytes that an owner's misses have brought from memory since its id was given out.
    fn fetched(&self, owner: u8, now: &[u8]) -> f64;

    /// Bytes that are left of an owner whose group is gone.
    fn left_behind(&self, owner: u8) -> u64;

    /// An owner's id is free to be given out again.
    fn forget(&mut self, owner: u8) {
        let _ = owner;
    }

    /// Running totals by name; times in nanoseconds.
    fn totals(&self) -> BTreeMap<&'static str, u64>;
}
