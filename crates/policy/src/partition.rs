//! Masks of a partition of the LLC's ways between devices, cores and others.

use control::Allocation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Cbm, Clos};

use crate::PolicyError;

/// The least that each part keeps, and which classes of service are which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Floors {
    /// Ways of the cache, 2 to 32.
    pub ways: u32,
    /// Ways of all others (control plane, operating system), from way 0 up. 0: they share the cores' ways.
    pub others: u32,
    /// The least ways that packet cores keep, from 1.
    pub core: u32,
    /// The least ways that devices keep, from 1.
    pub io: u32,
    /// Classes of service of packet cores.
    pub core_classes: Vec<u8>,
    /// Classes of service of all others.
    pub other_classes: Vec<u8>,
}

impl Default for Floors {
    /// 11 ways, as a Skylake-SP has them, one for others (500 KB or less: 5GC2ache, figure 6).
    fn default() -> Floors {
        Floors { ways: 11, others: 1, core: 2, io: 1, core_classes: vec![1], other_classes: vec![0] }
    }
}

impl Floors {
    /// Checks that the parts fit; `path` is where the specification stands.
    ///
    /// # Errors
    /// Fewer ways than the floors need, or a floor of 0 for cores or devices.
    pub fn check(&self, path: &str) -> Result<(), PolicyError> {
        for (what, came, from, to) in [("ways", self.ways, 2, 32), ("core", self.core, 1, 32), ("io", self.io, 1, 32)] {
            if !(from..=to).contains(&came) {
                return Err(PolicyError::Value {
                    path: format!("{path}.{what}"),
                    came: came.to_string(),
                    allowed: format!("allowed are {from} to {to}"),
                });
            }
        }
        if self.others.saturating_add(self.core).saturating_add(self.io) > self.ways {
            let Floors { ways, others, core, io, .. } = *self;
            return Err(PolicyError::Ways { path: path.into(), ways, others, core, io });
        }
        Ok(())
    }

    /// The most ways that devices can have.
    pub fn most_io(&self) -> u32 {
        self.ways.saturating_sub(self.others + self.core)
    }
}

/// How many ways devices have; cores have the rest of what others leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition {
    io: u32,
}

impl Partition {
    /// With `io` ways for devices, or as near to it as the floors permit.
    pub fn new(io: u32, floors: &Floors) -> Partition {
        Partition { io: io.clamp(floors.io, floors.most_io().max(floors.io)) }
    }

    /// Ways of devices.
    pub fn io(self) -> u32 {
        self.io
    }

    /// Devices at the top, others at the bottom, cores in between: disjoint, and each one run.
    pub fn plan(self, floors: &Floors) -> PartitionMasks {
        let core = floors.ways - floors.others - self.io;
        PartitionMasks {
            io: Cbm::span(floors.ways - self.io, self.io),
            core: Cbm::span(floors.others, core),
            others: if floors.others > 0 { Cbm::low(floors.others) } else { Cbm::low(core) },
        }
    }
}

/// The masks of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionMasks {
    /// Of device writes.
    pub io: Cbm,
    /// Of packet cores.
    pub core: Cbm,
    /// Of all others.
    pub others: Cbm,
}

impl PartitionMasks {
    /// As settings.
    pub fn allocation(&self, floors: &Floors) -> Allocation {
        let of = |classes: &[u8], mask: Cbm| classes.iter().map(move |c| (Clos(*c), mask)).collect::<Vec<_>>();
        Allocation {
            io_ways: Some(self.io),
            classes: [of(&floors.core_classes, self.core), of(&floors.other_classes, self.others)].concat(),
        }
    }

    /// Whether these are in force, as far as that can be read; [`None`] if the device ways cannot.
    pub fn is_in_force(&self, read: &Allocation, floors: &Floors) -> Option<bool> {
        let io = read.io_ways?;
        let differs =
            |classes: &[u8], mask: Cbm| read.classes.iter().any(|(c, m)| classes.contains(&c.0) && *m != mask);
        Some(io == self.io && !differs(&floors.core_classes, self.core) && !differs(&floors.other_classes, self.others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_is_disjoint_contiguous_and_whole() {
        for (ways, others) in [(11, 1), (11, 0), (16, 2), (32, 4), (2, 0)] {
            let floors = Floors { ways, others, core: 1, ..Floors::default() };
            floors.check("p").unwrap();
            for io in 0..40 {
                let plan = Partition::new(io, &floors).plan(&floors);
                assert!(plan.io.is_contiguous() && plan.core.is_contiguous() && plan.others.is_contiguous());
                assert_eq!(plan.io.0 & (plan.core.0 | plan.others.0), 0);
                assert_eq!(others > 0, plan.core.0 & plan.others.0 == 0);
                assert_eq!(plan.io.0 | plan.core.0 | plan.others.0, Cbm::low(ways).0);
            }
        }
    }

    #[test]
    fn floors_that_do_not_fit_are_told_with_their_numbers() {
        let error = |floors: Floors| floors.check("policy.floors").unwrap_err().to_string();
        assert_eq!(
            error(Floors { ways: 4, others: 2, ..Floors::default() }),
            "policy.floors: 2 ways for others, at least 2 for cores and 1 for devices are more than the 4 ways there are \
             (lower one of them)"
        );
        assert_eq!(error(Floors { io: 0, ..Floors::default() }), "policy.floors.io = 0: allowed are 1 to 32");
    }
}
