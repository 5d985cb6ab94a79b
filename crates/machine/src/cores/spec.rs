//! What a core is, and how far it looks ahead.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Frequency, Ps, Span};

use super::StallSpec;
use crate::MachineError;

/// How far a core looks ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CoreModel {
    /// One reference after the other.
    InOrder,
    /// Out of order within a window of instructions.
    #[default]
    Window,
}

/// A core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreSpec {
    /// How far it looks ahead.
    pub model: CoreModel,
    /// Its clock.
    pub frequency: Frequency,
    /// Cycles an instruction takes when every reference hits L1.
    pub cpi: f64,
    /// Instructions in the reorder buffer (window model).
    pub rob: u32,
    /// Private misses under way at a time (line fill buffers).
    pub outstanding: u32,
    /// Lines that the core's hardware prefetcher has under way at a time, in a queue of its own; left out: what of
    /// `outstanding` is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding_prefetches: Option<u32>,
    /// Lines that its prefetcher has asked for and that may wait until one can go out, with a reference of the core: those asked
    /// for last first, and what was asked for first is dropped where there are more, 1 to 1024. The order is assumed. Left
    /// out: what cannot go out at once is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_prefetches: Option<u32>,
    /// One request for a line from beyond the private caches in so much time, on average: what the core's port to them
    /// brings, 100 ps to 1 us; left out: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill_interval: Option<Span>,
    /// One line into L1 in so much time, from L2 or from beyond, on average, with up to `outstanding` of them behind each
    /// other, 10 ps to 1 us; left out: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l1_fill_interval: Option<Span>,
    /// Stores and a program's prefetches that wait for a free miss at a time.
    pub store_buffer: u32,
    /// Of its instructions, the share that stores, 0.01 to 1: how fast the store buffer fills behind a store that no cache takes, a
    /// doorbell. Left out: nothing but the next doorbell waits for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_share: Option<f64>,
    /// Cycles of a poll that finds nothing.
    pub poll_cycles: u32,
    /// What a packet stalls the core for, whatever memory does: mispredicted branches, chains of instructions that `cpi` does not
    /// tell of; nothing when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_stall: Option<Span>,
    /// What a burst does beside: the way from driver to program and back, with cold branches; nothing when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_stall: Option<Span>,
    /// Time that the system takes from a core that polls; none when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<StallSpec>,
}

impl CoreSpec {
    /// Checks the ranges. `path` is where the specification stands in the scenario.
    ///
    /// # Errors
    /// A value outside its range.
    pub fn check(&self, path: &str) -> Result<(), MachineError> {
        let error = |field: &str, came: String, allowed: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, "see the shipped machine presets".into()))
        };
        let ghz = self.frequency.ghz();
        if !(0.001..=20.0).contains(&ghz) {
            return error("frequency", self.frequency.to_string(), "1 MHz to 20 GHz");
        }
        if !(0.05..=100.0).contains(&self.cpi) {
            return error("cpi", self.cpi.to_string(), "0.05 to 100 cycles");
        }
        if !(1..=4096).contains(&self.rob) {
            return error("rob", self.rob.to_string(), "1 to 4096 instructions");
        }
        if !(1..=256).contains(&self.outstanding) {
            return error("outstanding", self.outstanding.to_string(), "1 to 256");
        }
        if let Some(prefetches) = self.outstanding_prefetches.filter(|n| !(1..=256).contains(n)) {
            return error("outstanding_prefetches", prefetches.to_string(), "1 to 256");
        }
        if let Some(waiting) = self.waiting_prefetches.filter(|n| !(1..=1024).contains(n)) {
            return error("waiting_prefetches", waiting.to_string(), "1 to 1024");
        }
        if let Some(interval) = self.fill_interval.filter(|each| !(Ps(100)..=Ps::from_ns(1_000)).contains(&each.ps())) {
            return error("fill_interval", interval.to_string(), "100 ps to 1 us");
        }
        if let Some(each) = self.l1_fill_interval.filter(|each| !(Ps(10)..=Ps::from_ns(1_000)).contains(&each.ps())) {
            return error("l1_fill_interval", each.to_string(), "10 ps to 1 us");
        }
        for (field, stall) in [("packet_stall", self.packet_stall), ("burst_stall", self.burst_stall)] {
            if let Some(stall) = stall.filter(|stall| stall.ps() > Ps::from_ns(100_000)) {
                return error(field, stall.to_string(), "at most 100 us");
            }
        }
        if let Some(stalls) = &self.stalls {
            stalls.check(path)?;
        }
        if !(1..=256).contains(&self.store_buffer) {
            return error("store_buffer", self.store_buffer.to_string(), "1 to 256");
        }
        if let Some(share) = self.store_share.filter(|share| !(0.01..=1.0).contains(share)) {
            return error("store_share", share.to_string(), "0.01 to 1");
        }
        if !(1..=1_000_000).contains(&self.poll_cycles) {
            return error("poll_cycles", self.poll_cycles.to_string(), "1 to 1000000");
        }
        Ok(())
    }

    /// What a burst of `packets` packets stalls the core for, whatever memory does.
    pub fn stalls(&self, packets: usize) -> Ps {
        let time = |stall: Option<Span>| stall.map_or(Ps::ZERO, Span::ps);
        time(self.burst_stall) + time(self.packet_stall) * packets as u64
    }

    /// The clock period.
    pub fn period(&self) -> Ps {
        self.frequency.period()
    }
}
