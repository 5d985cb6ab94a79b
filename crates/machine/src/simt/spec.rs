//! What a GPU is made of, and what a lane of a kernel holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Frequency, Size, Span};

use super::merge::WARP;
use crate::MachineError;
use crate::dram::{Commanded, ControllerSetting, DramSpec};

/// Which of the warps that could go is issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// The next one after the latest, in the order of the slots.
    #[default]
    RoundRobin,
    /// The same as before while it can, else the one that was launched first (Rogers, O'Connor, Aamodt, MICRO 2012).
    GreedyThenOldest,
}

/// A cache of lines of 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheLevelSpec {
    /// Its bytes; of the L2 those of all banks together.
    pub size: Size,
    /// Lines of a set.
    pub ways: u32,
    /// From the request's arrival to the data, core clocks.
    pub latency: u32,
    /// Banks, lines interleaved; each serves a sector a clock.
    pub banks: u32,
}

/// Which request a channel of a GPU's own DRAM serves next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryOrder {
    /// In order of issue, writes among reads, by bank and bus alone.
    #[default]
    InOrder,
    /// A controller at the level of commands: `{ order = "fr-fcfs=16", writes = "drain=32/24/8" }` serves row hits first and gathers
    /// writes.
    #[serde(untagged)]
    Commands(ControllerSetting),
}

/// DRAM behind the L2: a standard that is shipped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimtMemorySpec {
    /// `gddr5-8000`, `hbm2-2000`, ...
    pub standard: String,
    /// Channels, in place of the standard's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u32>,
    /// Controller and queues, apart from the DRAM itself.
    pub overhead: Span,
    /// `in-order`, or a controller that reorders.
    #[serde(default, skip_serializing_if = "MemoryOrder::is_in_order")]
    pub controller: MemoryOrder,
}

impl MemoryOrder {
    fn is_in_order(&self) -> bool {
        *self == MemoryOrder::InOrder
    }
}

impl SimtMemorySpec {
    /// The standard's timings for a memory that answers in arrival order.
    ///
    /// # Errors
    /// A standard that is not shipped, or lacks a timing.
    pub fn dram(&self) -> Result<DramSpec, MachineError> {
        let all = DramSpec::of_standard(&self.standard, self.overhead)
            .map_err(|e| MachineError { path: "gpu.memory.standard".into(), ..e })?;
        Ok(DramSpec { channels: self.channels.unwrap_or(all.channels), ..all })
    }

    /// Its controllers; [`None`] if it answers in order of issue.
    ///
    /// # Errors
    /// As [`SimtMemorySpec::dram`], and controllers that contradict themselves or the standard.
    pub fn controllers(&self) -> Result<Option<Commanded>, MachineError> {
        match &self.controller {
            MemoryOrder::InOrder => Ok(None),
            MemoryOrder::Commands(setting) => Commanded::new(&self.dram()?, setting, "gpu.memory").map(Some),
        }
    }
}

/// What a lane of a kernel holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelSpec {
    /// Registers of a lane.
    pub registers: u32,
    /// Bytes of shared memory of a warp.
    pub shared: u32,
}

/// Shader cores over a memory system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimtSpec {
    /// Shader cores.
    pub cores: u32,
    /// How many of these are the issue ports of one core (a multiprocessor of four schedulers has four): each has warps, registers and a way
    /// to memory of its own, and they share its L1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub issue_ports: u32,
    /// Lanes that execute at a time: a warp's instruction takes 32 / width issue slots.
    pub simd_width: u32,
    /// Their clock.
    pub frequency: Frequency,
    /// Registers of a core.
    pub registers: u32,
    /// Shared memory of a core.
    pub shared: Size,
    /// Maximum concurrent warps of a core that are allowed.
    pub mcw: u32,
    /// Which warp is issued.
    pub scheduler: Scheduler,
    /// Clocks from an instruction of a warp to its next: the pipeline's depth where nothing is forwarded.
    pub pipeline: u32,
    /// Clocks from a request's leaving its core to its arrival at the L2, and as many back.
    pub interconnect: u32,
    /// A core's own cache of what it loads; writes go through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l1: Option<CacheLevelSpec>,
    /// The cache that cores share.
    pub l2: CacheLevelSpec,
    /// What is behind it.
    pub memory: SimtMemorySpec,
}

fn one() -> u32 {
    1
}

fn is_one(ports: &u32) -> bool {
    *ports == 1
}

impl SimtSpec {
    /// Checks what the parts do not check themselves.
    ///
    /// # Errors
    /// Where, what came, what is allowed.
    pub fn check(&self) -> Result<(), MachineError> {
        let within = |field: &str, value: u32, low: u32, high: u32, remedy: &str| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            let (field, allowed) = (format!("gpu.{field}"), format!("{low} to {high}"));
            Err(MachineError::new(field, value.to_string(), &allowed, remedy.into()))
        };
        within("cores", self.cores, 1, 1024, "the paper has 8, 17 and 28; 132 SMs of four schedulers are 528")?;
        within("issue_ports", self.issue_ports, 1, 16, "a multiprocessor has four schedulers")?;
        if !self.cores.is_multiple_of(self.issue_ports) {
            let (came, allowed) = (self.issue_ports.to_string(), format!("a divisor of gpu.cores, {}", self.cores));
            let remedy = "132 multiprocessors of four schedulers are 528 cores with 4 issue ports".into();
            return Err(MachineError::new("gpu.issue_ports", came, &allowed, remedy));
        }
        within("mcw", self.mcw, 1, 64, "the paper has 8, 16, 24 and 32")?;
        within("pipeline", self.pipeline, 1, 63, "ISPASS 2009 has 24")?;
        within("interconnect", self.interconnect, 0, 10_000, "clocks one way")?;
        within("simd_width", self.simd_width, 1, WARP as u32, "the paper has 32")?;
        if !self.simd_width.is_power_of_two() {
            let came = self.simd_width.to_string();
            return Err(MachineError::new(
                "gpu.simd_width",
                came,
                "a power of two up to 32",
                "the paper has 32".into(),
            ));
        }
        if self.frequency.period().0 == 0 {
            let came = self.frequency.to_string();
            return Err(MachineError::new("gpu.frequency", came, "up to 1 THz", "the paper has 1 GHz".into()));
        }
        for (name, level) in [("l1", self.l1.as_ref()), ("l2", Some(&self.l2))] {
            let Some(level) = level else { continue };
            within(&format!("{name}.banks"), level.banks, 1, 256, "as many as memory channels")?;
            within(&format!("{name}.ways"), level.ways, 1, 32, "8 is usual")?;
            within(&format!("{name}.latency"), level.latency, 1, 10_000, "core clocks")?;
        }
        Ok(())
    }

    /// Warps of `kernel` that a core can hold: as many as are allowed, unless registers or shared memory run out.
    ///
    /// # Errors
    /// A kernel of which not even one warp fits.
    pub fn resident(&self, kernel: &KernelSpec) -> Result<u32, MachineError> {
        let by = |have: u64, need: u64| have.checked_div(need).map_or(u32::MAX, |n| n.min(64) as u32);
        let registers = by(u64::from(self.registers), u64::from(kernel.registers) * WARP as u64);
        let shared = by(self.shared.bytes(), u64::from(kernel.shared));
        let fits = self.mcw.min(registers).min(shared);
        if fits == 0 {
            return Err(MachineError::new(
                "kernel",
                format!("{} registers a lane, {} B a warp", kernel.registers, kernel.shared),
                format!("{} registers and {} a core", self.registers, self.shared),
                "a warp must fit into a core".into(),
            ));
        }
        Ok(fits)
    }
}

#[cfg(test)]
pub(super) fn paper() -> SimtSpec {
    SimtSpec {
        cores: 8,
        issue_ports: 1,
        simd_width: 32,
        frequency: Frequency::from_ghz(1.0),
        registers: 16_768,
        shared: Size::from_bytes(16 << 10),
        mcw: 32,
        scheduler: Scheduler::RoundRobin,
        pipeline: 24,
        interconnect: 20,
        l1: None,
        l2: CacheLevelSpec { size: Size::from_bytes(512 << 10), ways: 8, latency: 20, banks: 8 },
        memory: SimtMemorySpec {
            standard: "gddr5-8000".into(),
            channels: Some(8),
            overhead: Span::from_ns(20.0),
            controller: MemoryOrder::InOrder,
        },
    }
}

/// As [`paper`], with row hits first and writes drained in bursts.
#[cfg(test)]
pub(super) fn first_ready() -> SimtSpec {
    let mut spec = paper();
    spec.memory.controller = MemoryOrder::Commands(ControllerSetting::default());
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_and_shared_memory_limit_the_warps_of_a_core() {
        let spec = paper();
        let resident = |registers, shared| spec.resident(&KernelSpec { registers, shared }).unwrap();
        // 16768 / 32 lanes = 524 registers a lane position.
        assert_eq!(resident(16, 0), 32);
        assert_eq!(resident(17, 0), 30);
        assert_eq!(resident(20, 0), 26);
        assert_eq!(resident(524, 0), 1);
        assert_eq!(resident(8, 1024), 16);
        assert!(spec.resident(&KernelSpec { registers: 525, shared: 0 }).is_err());
        assert!(spec.resident(&KernelSpec { registers: 8, shared: 20_000 }).is_err());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        let wrong = |change: fn(&mut SimtSpec)| {
            let mut spec = paper();
            change(&mut spec);
            spec.check().unwrap_err().path
        };
        assert_eq!(wrong(|s| s.cores = 0), "gpu.cores");
        assert_eq!(wrong(|s| s.mcw = 65), "gpu.mcw");
        assert_eq!(wrong(|s| s.issue_ports = 3), "gpu.issue_ports");
        assert_eq!(wrong(|s| s.issue_ports = 0), "gpu.issue_ports");
        assert_eq!(wrong(|s| s.simd_width = 12), "gpu.simd_width");
        assert_eq!(wrong(|s| s.pipeline = 64), "gpu.pipeline");
        assert_eq!(wrong(|s| s.l2.banks = 0), "gpu.l2.banks");
        let mut spec = paper();
        spec.memory.standard = "gddr9".into();
        assert_eq!(spec.memory.dram().unwrap_err().path, "gpu.memory.standard");
    }
}
