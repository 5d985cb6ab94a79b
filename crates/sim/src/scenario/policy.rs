//! Who sets the ways of the LLC while packets go through: a policy's part of a scenario.

use policy::Floors;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Ps, Span};

use super::clos::{RX_CLASS, WORK_CLASS};

/// Which policy sets the ways of the LLC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyKind {
    /// `io_ways` ways for devices at the top, all ways for everyone: a server that nobody has set.
    Shared,
    /// `io_ways` ways for devices and the rest for cores, as ResQ isolates them.
    Isolated,
    /// A way more for whose miss rate is above `miss_rate`.
    Thresholds,
    /// After IAT (Yuan et al., ISCA 2021).
    Iat,
    /// The four-state allocator of 5GC2ache, judging each step by its response.
    #[default]
    Allocator,
}

/// A policy in the loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySpec {
    /// Which.
    pub kind: PolicyKind,
    /// Between two decisions.
    pub interval: Span,
    /// Ways of devices at the start.
    pub io_ways: u32,
    /// Ways that no packet core may fill, from way 0 up; 0 lets cores have them.
    pub others: u32,
    /// The least ways that packet cores keep.
    pub core_floor: u32,
    /// The least ways that devices keep.
    pub io_floor: u32,
    /// With `kind = "thresholds"`: the miss rate above which there is a bottleneck, 0 to 1.
    pub miss_rate: f64,
    /// Standard deviation of each counter that is read, as a share of its value.
    pub noise: f64,
    /// Intervals by which counters are late.
    pub lag: u32,
    /// Probability that a counter is missing from an observation.
    pub missing: f64,
}

impl Default for PolicySpec {
    fn default() -> PolicySpec {
        PolicySpec {
            kind: PolicyKind::default(),
            interval: Span::from_ns(200_000.0),
            io_ways: 2,
            others: 1,
            core_floor: 2,
            io_floor: 1,
            miss_rate: 0.05,
            noise: 0.0,
            lag: 0,
            missing: 0.0,
        }
    }
}

impl PolicySpec {
    pub(crate) fn floors(&self, ways: u32) -> Floors {
        Floors {
            ways,
            others: self.others,
            core: self.core_floor,
            io: self.io_floor,
            core_classes: vec![RX_CLASS.0, WORK_CLASS.0],
            other_classes: vec![0],
        }
    }

    /// Checks what cannot be; `ways` are those of the LLC. The message begins with the field.
    pub(crate) fn check(&self, ways: u32) -> Result<(), (String, String)> {
        let error = |field: &str, message: String| Err((field.to_string(), message));
        if !(Ps::from_ns(1_000)..=Ps::from_ns(10_000_000_000)).contains(&self.interval.ps()) {
            return error("interval", format!("{}: allowed are 1 us to 10 s", self.interval));
        }
        for (field, share) in [("miss_rate", self.miss_rate), ("noise", self.noise), ("missing", self.missing)] {
            if !(0.0..=1.0).contains(&share) {
                return error(field, format!("{share}: allowed is a share of 0 to 1"));
            }
        }
        if self.lag > 1000 {
            return error("lag", format!("{}: allowed are 0 to 1000 intervals", self.lag));
        }
        let floors = self.floors(ways);
        if let Err(wrong) = floors.check("policy") {
            return error("core_floor", wrong.to_string());
        }
        let most = if self.kind == PolicyKind::Shared { ways } else { floors.most_io() };
        if !(self.io_floor..=most).contains(&self.io_ways) {
            return error(
                "io_ways",
                format!(
                    "{}: allowed are {} to {most} of {ways} ways, beside the others' and the cores' floors",
                    self.io_ways, self.io_floor
                ),
            );
        }
        Ok(())
    }
}
