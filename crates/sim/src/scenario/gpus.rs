//! A GPU in the machine, as a scenario names it: what it is made of, where its memory is, which packets go to it.

use machine::MachineError;
use machine::simt::batch::{Overlap, Results};
use machine::simt::{DispatcherSpec, KernelSpec, SimtSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Rate, Size, Span};

use super::error::ScenarioError;
use super::functions::{FunctionKind, FunctionSpec};

/// Where a GPU finds packets and tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GpuMemory {
    /// In memory of its own: packets are copied there and back over PCIe.
    #[default]
    Discrete,
    /// In the server's: its L2 asks the LLC, as cores' do, and sees what they have written.
    Integrated,
}

/// How packets come to the warps of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GpuPosting {
    /// In batches, for each of which a kernel is launched.
    #[default]
    Batches,
    /// In tasks of a warp at most, which a kernel that stays takes from a FIFO: as Hermes, and as the project's router.
    Persistent,
}

/// A GPU beside the cores: packets go to it in batches, and come back to the core that has handed them over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerGpuSpec {
    /// What fills in what is left out: a shipped GPU (`wirespeed presets --kind gpu`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Where packets and tables are for it.
    #[serde(default)]
    pub attached: GpuMemory,
    /// Whether an integrated one sees what caches have, and they what it writes. Otherwise its L2 asks memory past all caches, the core
    /// that launches a batch flushes what the kernel uses, and a kernel's end empties the L2.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub coherent: bool,
    /// The share of flows whose packets go to it, above 0 up to 1; cores work on the others. Packets of a flow stay in order.
    #[serde(default = "all")]
    pub share: f64,
    /// Packets that wait for a core, those of its burst counted, from which on a burst goes to the GPU; cores work on the others, and
    /// packets that are done before earlier ones are back wait for them. Left out: all bursts go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<u32>,
    /// Of a chain, the functions that it has: the last ones, in their order. Cores do those before. Left out: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionKind>,
    /// In batches, or in tasks that kernels take which stay.
    #[serde(default)]
    pub posting: GpuPosting,
    /// Of kernels that stay: tasks that are posted and not back, at most.
    #[serde(default = "fifo")]
    pub fifo: u32,
    /// Of kernels that stay on a discrete GPU: the warp that polls the server's memory for tasks.
    #[serde(default = "dispatcher")]
    pub dispatcher: DispatcherSpec,
    /// A batch goes when it has so many packets; a task of a kernel that stays has 32 at most.
    #[serde(default = "batch")]
    pub batch: u32,
    /// Or when its first packet has waited so long, unless another batch waits to start: it goes on filling then.
    #[serde(default = "timeout")]
    pub timeout: Span,
    /// What launching a batch takes of the core that does.
    #[serde(default = "call")]
    pub call: Span,
    /// What flushing a line takes of it, where the GPU is not coherent.
    #[serde(default = "flush")]
    pub flush: Span,
    /// What a kernel takes to start.
    pub launch: Span,
    /// What a copy takes beside its bytes; of a discrete GPU.
    pub copy: Span,
    /// What copies go over, each way; of a discrete GPU.
    pub link: Rate,
    /// How far copies and kernels overlap; of a discrete GPU.
    pub overlap: Overlap,
    /// What comes back of a packet; of a discrete GPU. Left out: frames where a function writes them, else verdicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Results>,
    /// Warps of a block.
    pub block: u32,
    /// Its memory, which holds tables and packets; of a discrete GPU.
    pub memory: Size,
    /// What a lane holds. Left out: what the project's own kernels take (28 registers for one function of headers, 40 where it stays, 80
    /// for others).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelSpec>,
    /// Shader cores, caches, and the DRAM of a discrete GPU.
    pub shaders: SimtSpec,
}

fn yes() -> bool {
    true
}

fn is_yes(coherent: &bool) -> bool {
    *coherent
}

fn all() -> f64 {
    1.0
}

fn batch() -> u32 {
    1024
}

/// Assumed: some ten cycles of a core for each `clflushopt`, which may be under way together.
pub(super) fn flush() -> Span {
    Span::from_ns(4.0)
}

/// Assumed: a batch of 1024 at 10 Mpps fills in as long.
fn timeout() -> Span {
    Span::from_ns(100_000.0)
}

/// A launch of one thread takes the CPU 3.8 us: Han, Jang, Park, Moon, "PacketShader", SIGCOMM 2010.
fn call() -> Span {
    Span::from_ns(3_800.0)
}

/// Assumed: 16,384 packets in tasks of 32. The router's ring has as many entries as its GPU holds warps.
fn fifo() -> u32 {
    512
}

/// That of the router's kernel on an H100 behind PCIe 5.0, as `docs/guide/gpu.md` has it of `router-bench link`.
fn dispatcher() -> DispatcherSpec {
    let ns = Span::from_ns;
    DispatcherSpec { least: 32, most: 128, word: ns(1_270.0), task: ns(1.9), publish: ns(800.0), tell: ns(1_900.0) }
}

/// Packets of a task, at most: a warp's.
pub(crate) const TASK_PACKETS: u32 = machine::simt::WARP as u32;
/// Bytes that a packet has in the GPU's memory: a slot, whatever its length.
pub(crate) const SLOT: u64 = 2048;
/// Of a packet's entry in the ring that tells the GPU of it, and of its verdict.
pub(crate) const TASK_BYTES: u64 = 8;
pub(crate) const VERDICT_BYTES: u64 = 4;
/// Registers of a lane of the project's own kernels (ptxas of CUDA 13.0 for sm_90): of batches, and of one that stays.
const HEADER_REGISTERS: u32 = 28;
const STAYING_REGISTERS: u32 = 40;
const OTHER_REGISTERS: u32 = 80;

impl ServerGpuSpec {
    /// Batches that are copied, processed and copied back at a time.
    pub(crate) fn streams(&self) -> u32 {
        match (self.attached, self.overlap) {
            (GpuMemory::Discrete, Overlap::ThreeStreams) => 3,
            _ => 1,
        }
    }

    /// Packets that are with it at most: those of its streams, or of a FIFO of full tasks; of one batch that waits, and of one that fills.
    pub(crate) fn most_packets(&self) -> u32 {
        let under_way = match self.posting {
            GpuPosting::Batches => self.streams(),
            GpuPosting::Persistent => self.fifo,
        };
        self.batch.saturating_mul(under_way.saturating_add(2))
    }

    /// The ring of tasks and verdicts, bytes.
    pub(crate) fn ring_bytes(&self) -> u64 {
        u64::from(self.most_packets()) * (TASK_BYTES + VERDICT_BYTES)
    }

    /// The functions that it has of `function`.
    pub(crate) fn functions_of<'a>(&'a self, function: &'a FunctionSpec) -> &'a [FunctionKind] {
        if self.functions.is_empty() { function.members() } else { &self.functions }
    }

    /// The number of the first of them in their chain.
    pub(crate) fn first_function(&self, function: &FunctionSpec) -> usize {
        function.members().len().saturating_sub(self.functions_of(function).len())
    }

    /// What a lane holds of its part of `function`.
    pub(crate) fn kernel_of(&self, function: &FunctionSpec) -> KernelSpec {
        let heavy = |kind: &FunctionKind| matches!(kind, FunctionKind::Inspect | FunctionKind::Fragment);
        let members = self.functions_of(function);
        let registers = match self.posting {
            _ if members.len() > 1 || members.iter().any(heavy) => OTHER_REGISTERS,
            GpuPosting::Batches => HEADER_REGISTERS,
            GpuPosting::Persistent => STAYING_REGISTERS,
        };
        self.kernel.unwrap_or(KernelSpec { registers, shared: 0 })
    }

    /// What comes back of a packet of `function`.
    pub(crate) fn results_of(&self, function: &FunctionSpec) -> Results {
        let writes =
            |kind: &FunctionKind| matches!(kind, FunctionKind::Ttl | FunctionKind::Forward | FunctionKind::Fragment);
        let usual = if self.functions_of(function).iter().any(writes) { Results::Frames } else { Results::Verdicts };
        self.results.unwrap_or(usual)
    }

    /// That a discrete GPU has room for tables of `tables` bytes and for its packets.
    ///
    /// # Errors
    /// What they take, and what there is.
    pub(crate) fn check_room(&self, tables: u64) -> Result<(), ScenarioError> {
        // Of a kernel that stays they are where cores have them.
        let slot = if self.posting == GpuPosting::Persistent { 0 } else { SLOT };
        let packets = u64::from(self.most_packets()) * slot + self.ring_bytes();
        if self.attached == GpuMemory::Integrated || tables + packets <= self.memory.bytes() {
            return Ok(());
        }
        let (need, tables) = (Size::from_bytes(tables + packets), Size::from_bytes(tables));
        let packets = Size::from_bytes(packets);
        let message = format!(
            "{}: allowed are {need} or more, for tables of {tables} and {packets} of packets (take smaller tables or batches)",
            self.memory
        );
        Err(ScenarioError::Value { origin: "scenario".into(), path: "machine.gpu.memory".into(), message })
    }
}

/// A fault of the GPU's parts, by its path in a scenario.
pub(crate) fn under(error: MachineError) -> MachineError {
    let path = match error.path.strip_prefix("gpu") {
        Some(rest) => format!("machine.gpu.shaders{rest}"),
        None => format!("machine.gpu.{}", error.path.strip_prefix("hermes.").unwrap_or(&error.path)),
    };
    MachineError { path, ..error }
}

/// The L2 of an integrated GPU as the memory system has it.
pub(crate) fn l2_of(gpu: &ServerGpuSpec) -> machine::cache::CacheSpec {
    let l2 = &gpu.shaders.l2;
    machine::cache::CacheSpec { size: l2.size, ways: l2.ways, latency: Span::from_ns(0.0) }
}
