//! The leaf that closes the loop: what a policy sees, what it may set, and the two traits between.
//!
//! The simulator and the daemon both implement [`Actuator`] and run the same [`Policy`]. There is
//! no logic here.

#![forbid(unsafe_code)]

use units::{Cbm, Clos, Ps};

/// A counter's last value and how old it is. Counters go missing on real machines: absent is
/// [`None`], late has an `age`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// In the unit of the field that holds it; finite. What reads as nothing or nonsense is no sample.
    pub value: f64,
    /// How long before [`Observation::at`] the measured interval ended.
    pub age: Ps,
    /// How long that interval was: longer than others' after a read that failed, since running totals
    /// go on.
    pub interval: Ps,
}

/// A counter that may be missing.
pub type Counter = Option<Sample>;

/// What one interval showed, each counter on its own because each can be missing or late.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// When the observation was made.
    pub at: Ps,
    /// Since the observation before.
    pub interval: Ps,
    /// Packets received by the program, per second.
    pub received_pps: Counter,
    /// Packets lost for want of a descriptor or buffer, per second.
    pub lost_pps: Counter,
    /// Bytes written by devices, per second.
    pub pcie_write_bytes_per_s: Counter,
    /// Bytes read by devices, per second.
    pub pcie_read_bytes_per_s: Counter,
    /// Share of device writes that missed the LLC, 0 to 1.
    pub ddio_write_miss_rate: Counter,
    /// Bytes moved to and from DRAM, per second.
    pub memory_bytes_per_s: Counter,
    /// Counters by class of service, in no particular order.
    pub classes: Vec<ClassObservation>,
    /// The settings in force, as read back and not as last asked for: an allocation can have failed
    /// or been changed by someone else. What cannot be read is [`None`] or absent.
    pub in_force: Allocation,
}

/// Counters of one class of service.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassObservation {
    /// The class.
    pub clos: Clos,
    /// Share of the class's LLC lookups that missed, 0 to 1.
    pub llc_miss_rate: Counter,
    /// Bytes of LLC that the class's lines occupy.
    pub llc_bytes: Counter,
    /// Share of its cores' time not spent polling in vain, 0 to 1.
    pub busy: Counter,
}

/// Settings to apply. What is [`None`] or absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    /// The ways that device writes may fill.
    pub io_ways: Option<Cbm>,
    /// The ways that each class may fill.
    pub classes: Vec<(Clos, Cbm)>,
}

/// What a policy would need to decide and does not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lack {
    /// Packets received.
    Received,
    /// Bytes that devices write.
    DeviceBytes,
    /// The busy time of the receiving cores.
    Busy,
    /// The ways that device writes may fill.
    DeviceWays,
    /// Both miss rates: of device writes, and of packet cores.
    MissRates,
    /// The share of device writes that miss: whether devices want a way.
    DeviceMisses,
    /// The miss rate of packet cores: whether they want a way.
    CoreMisses,
}

/// Turns what was seen into settings. Pure: the same observations give the same settings.
pub trait Policy {
    /// The settings to apply now, [`None`] to leave all as it is.
    fn decide(&mut self, seen: &Observation) -> Option<Allocation>;

    /// For want of what it cannot decide at present; [`None`] where it can, or needs no counters.
    fn lacks(&self) -> Option<Lack> {
        None
    }
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn decide(&mut self, seen: &Observation) -> Option<Allocation> {
        (**self).decide(seen)
    }

    fn lacks(&self) -> Option<Lack> {
        (**self).lacks()
    }
}

/// A machine that can be observed and set.
pub trait Actuator {
    /// Why it could not.
    type Error;
    /// Reads the counters of the interval that ends now.
    fn observe(&mut self) -> Result<Observation, Self::Error>;
    /// Applies settings: all of them, or none and an error.
    fn apply(&mut self, allocation: &Allocation) -> Result<(), Self::Error>;
}
