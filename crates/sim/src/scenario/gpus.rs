//! A GPU in the machine, as a scenario names it: what it is made of, where its memory is, which packets go to it.

use machine::MachineError;
use machine::simt::batch::{Overlap, Results};
use machine::simt::{KernelSpec, SimtSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Rate, Size, Span};

use super::error::{ScenarioError, ScenarioFaults};
use super::functions::FunctionKind;
use super::overlay::{get_mut, merge, open_name};
use super::presets::{GPUS, find, known, names};
use super::spec::Scenario;

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
    /// Whether an integrated one sees what caches have, and they what it writes. Only that is modelled.
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
    /// A batch goes when it has so many packets.
    #[serde(default = "batch")]
    pub batch: u32,
    /// Or when its first packet has waited so long.
    #[serde(default = "timeout")]
    pub timeout: Span,
    /// What launching a batch takes of the core that does.
    #[serde(default = "call")]
    pub call: Span,
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
    /// What a lane holds. Left out: what the project's own kernels take (28 registers for one function of headers, 80 for others).
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

/// Assumed: a batch of 1024 at 10 Mpps fills in as long.
fn timeout() -> Span {
    Span::from_ns(100_000.0)
}

/// A launch of one thread takes the CPU 3.8 us: Han, Jang, Park, Moon, "PacketShader", SIGCOMM 2010.
fn call() -> Span {
    Span::from_ns(3_800.0)
}

/// Bytes that a packet has in the GPU's memory: a slot, whatever its length.
pub(crate) const SLOT: u64 = 2048;
/// Of a packet's entry in the ring that tells the GPU of it, and of its verdict.
pub(crate) const TASK_BYTES: u64 = 8;
pub(crate) const VERDICT_BYTES: u64 = 4;
/// Registers of a lane of the project's own batch kernels (ptxas of CUDA 13.0 for sm_90).
const HEADER_REGISTERS: u32 = 28;
const OTHER_REGISTERS: u32 = 80;

impl ServerGpuSpec {
    /// Batches that are copied, processed and copied back at a time.
    pub(crate) fn streams(&self) -> u32 {
        match (self.attached, self.overlap) {
            (GpuMemory::Discrete, Overlap::ThreeStreams) => 3,
            _ => 1,
        }
    }

    /// Packets that are with it at most: those of its streams, of one batch that waits, and of one that fills.
    pub(crate) fn most_packets(&self) -> u32 {
        self.batch.saturating_mul(self.streams() + 2)
    }

    /// The ring of tasks and verdicts, bytes.
    pub(crate) fn ring_bytes(&self) -> u64 {
        u64::from(self.most_packets()) * (TASK_BYTES + VERDICT_BYTES)
    }

    /// The functions of `scenario` that it has.
    pub(crate) fn functions_of<'a>(&'a self, scenario: &'a Scenario) -> &'a [FunctionKind] {
        if self.functions.is_empty() { scenario.function.members() } else { &self.functions }
    }

    /// The number of the first of them in their chain.
    pub(crate) fn first_function(&self, scenario: &Scenario) -> usize {
        scenario.function.members().len().saturating_sub(self.functions_of(scenario).len())
    }

    /// What a lane holds of the functions of `scenario`.
    pub(crate) fn kernel_of(&self, scenario: &Scenario) -> KernelSpec {
        let heavy = |kind: &FunctionKind| matches!(kind, FunctionKind::Inspect | FunctionKind::Fragment);
        let members = self.functions_of(scenario);
        let registers = if members.len() > 1 || members.iter().any(heavy) { OTHER_REGISTERS } else { HEADER_REGISTERS };
        self.kernel.unwrap_or(KernelSpec { registers, shared: 0 })
    }

    /// What comes back of a packet of `scenario`.
    pub(crate) fn results_of(&self, scenario: &Scenario) -> Results {
        let writes =
            |kind: &FunctionKind| matches!(kind, FunctionKind::Ttl | FunctionKind::Forward | FunctionKind::Fragment);
        let usual = if self.functions_of(scenario).iter().any(writes) { Results::Frames } else { Results::Verdicts };
        self.results.unwrap_or(usual)
    }

    /// That a discrete GPU has room for tables of `tables` bytes and for its packets.
    ///
    /// # Errors
    /// What they take, and what there is.
    pub(crate) fn check_room(&self, tables: u64) -> Result<(), ScenarioError> {
        let packets = u64::from(self.most_packets()) * SLOT + self.ring_bytes();
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

/// Functions that have a form for a warp: lanes share nothing that they write.
const FOR_WARPS: [FunctionKind; 7] = [
    FunctionKind::Forward,
    FunctionKind::Check,
    FunctionKind::Classify,
    FunctionKind::Lookup,
    FunctionKind::Ttl,
    FunctionKind::Fragment,
    FunctionKind::Inspect,
];

/// A function as a scenario names it.
fn word(kind: FunctionKind) -> String {
    serde_json::to_value(kind).ok().and_then(|word| word.as_str().map(String::from)).unwrap_or_default()
}

/// Packets of a batch, at most.
const MOST_BATCH: u32 = 1 << 16;

impl Scenario {
    /// Checks `machine.gpu`.
    pub(super) fn check_gpu(&self, found: &mut ScenarioFaults) {
        let Some(gpu) = &self.machine.gpu else { return };
        let path = |field: &str| format!("machine.gpu.{field}");
        if !(gpu.share > 0.0 && gpu.share <= 1.0) {
            let message = format!("{}: allowed is a share of flows, above 0 up to 1 (cores have the rest)", gpu.share);
            found.add(path("share"), message);
        }
        if !gpu.coherent {
            let message =
                "false: a GPU past the caches, for which software flushes them, is not modelled: allowed is true";
            found.add(path("coherent"), message.into());
        }
        if !(1..=MOST_BATCH).contains(&gpu.batch) {
            found.add(path("batch"), format!("{}: allowed are 1 to {MOST_BATCH} packets", gpu.batch));
        }
        if !(1..=64).contains(&gpu.block) {
            found.add(path("block"), format!("{}: allowed are 1 to 64 warps", gpu.block));
        }
        for (field, span) in [("timeout", gpu.timeout), ("call", gpu.call), ("launch", gpu.launch), ("copy", gpu.copy)]
        {
            if !(0.0..=1e9).contains(&span.ps().as_ns()) {
                found.add(path(field), format!("{span}: allowed are 0 to 1 s"));
            }
        }
        if gpu.link.gbps() <= 0.0 {
            found.add(path("link"), format!("{}: allowed is a rate above 0", gpu.link));
        }
        found.take(gpu.shaders.check().map_err(under));
        found.take(gpu.shaders.memory.dram().map_err(under));
        found.take(gpu.shaders.resident(&gpu.kernel_of(self)).map_err(under));
        self.check_gpu_functions(gpu, found);
        self.check_gpu_cores(gpu, found);
    }

    fn check_gpu_functions(&self, gpu: &ServerGpuSpec, found: &mut ScenarioFaults) {
        let function = &self.function;
        if !function.members().ends_with(&gpu.functions) {
            let named = gpu.functions.iter().map(|kind| word(*kind)).collect::<Vec<_>>().join(", ");
            let chain = function.members().iter().map(|kind| word(*kind)).collect::<Vec<_>>().join(", ");
            let message = format!("{named}: allowed are the last functions of the scenario's, in their order: {chain}");
            found.add("machine.gpu.functions", message);
        }
        let of_warps = FOR_WARPS.map(word).join(", ");
        if let Some(kind) = gpu.functions_of(self).iter().find(|kind| !FOR_WARPS.contains(kind)) {
            let message = format!(
                "{} has no form for a warp, whose lanes share nothing that they write: allowed with machine.gpu are {of_warps} and \
                 chains of them (leave machine.gpu out, or have cores do it: machine.gpu.functions)",
                word(*kind)
            );
            found.add("function.kind", message);
        }
        if function.copy.is_some() || function.socket.is_some() {
            let message = "copies of packets have no form for a warp (leave them out, or machine.gpu)";
            found.add("function", message.into());
        }
    }

    fn check_gpu_cores(&self, gpu: &ServerGpuSpec, found: &mut ScenarioFaults) {
        let cores = self.machine.cores + super::neighbours::cores(&self.neighbours);
        if gpu.attached == GpuMemory::Integrated && cores >= machine::memory::MAX_CORES {
            let most = machine::memory::MAX_CORES - 1;
            let message = format!("{cores} cores with an integrated GPU, which counts as one more: allowed are {most}");
            found.add("machine.cores", message);
        }
        if self.machine.dram.controller.is_some() {
            let message = "with machine.dram.controller: a GPU beside memory that answers later is not modelled: allowed is one of them \
                           (remove the other)";
            found.add("machine.gpu", message.into());
        }
        let unmaps = self.machine.iommu.as_ref().is_some_and(machine::memory::IommuSpec::unmaps);
        if self.nic.payload_memory.is_some() {
            let message =
                "a GPU reads frames in memory, and payload that stays in the NIC is not there (leave one of them out)";
            found.add("nic.payload_memory", message.into());
        }
        if self.nic.drop_dead {
            let message = "a core gives up lines of packets that its burst ends, and a GPU's packets end in another (leave one of them out)";
            found.add("nic.drop_dead", message.into());
        }
        if gpu.attached == GpuMemory::Discrete && unmaps {
            let message = "a core unmaps a packet when it receives it, and a copy to the GPU needs it mapped (take mode = \"on\", or an \
                           integrated GPU)";
            found.add("machine.iommu.mode", message.into());
        }
    }

    /// Agents that the memory system counts beside cores: an integrated GPU.
    pub(crate) fn agents(&self) -> u32 {
        let integrated = |gpu: &ServerGpuSpec| gpu.attached == GpuMemory::Integrated;
        u32::from(self.machine.gpu.as_ref().is_some_and(integrated))
    }
}

/// A fault of the GPU's parts, by its path in a scenario.
pub(crate) fn under(error: MachineError) -> MachineError {
    let path = match error.path.strip_prefix("gpu") {
        Some(rest) => format!("machine.gpu.shaders{rest}"),
        None => format!("machine.gpu.{}", error.path),
    };
    MachineError { path, ..error }
}

/// Puts beneath `machine.gpu` of `settings` what the GPU says that it names.
///
/// # Errors
/// A name that nobody ships.
pub(super) fn fill_in(settings: &mut toml::Table, origin: &str) -> Result<(), ScenarioError> {
    let Some(value) = get_mut(settings, &["machine", "gpu"]) else { return Ok(()) };
    open_name(value);
    let Some(own) = value.as_table_mut() else { return Ok(()) };
    let path = "machine.gpu.preset";
    let name = match own.get("preset") {
        Some(toml::Value::String(name)) => name.clone(),
        Some(other) => {
            let message = format!("{other}: a name is wanted, one of {}", names(GPUS).join(", "));
            return Err(ScenarioError::Value { origin: origin.into(), path: path.into(), message });
        }
        None => return Ok(()),
    };
    let Some(preset) = find(GPUS, &name) else {
        let known = known(&names(GPUS), &name);
        return Err(ScenarioError::Preset { origin: origin.into(), path: path.into(), name, known });
    };
    let mut usual = usual(preset.text);
    merge(&mut usual, std::mem::take(own));
    *own = usual;
    Ok(())
}

/// Packets that the GPU of settings that are not read yet has at most.
pub(super) fn most_packets_of(settings: &toml::Table) -> u32 {
    let gpu = settings.get("machine").and_then(|machine| machine.get("gpu"));
    let gpu = gpu.and_then(|gpu| gpu.clone().try_into::<ServerGpuSpec>().ok());
    gpu.map_or(0, |gpu| gpu.most_packets())
}

/// What a GPU's file says of `machine.gpu`.
fn usual(text: &str) -> toml::Table {
    let mut says: toml::Table = toml::from_str(text).unwrap_or_default();
    let mut usual = toml::Table::new();
    if let Some(shaders) = says.remove("gpu") {
        usual.insert("shaders".into(), shaders);
    }
    // Where it does not say how much it has: as much as its tables and packets take.
    usual.insert("memory".into(), says.remove("memory").unwrap_or_else(|| UNSAID.into()));
    if let Some(toml::Value::Table(batch)) = says.remove("batch") {
        let of_server = ["block", "link", "copy", "launch", "overlap"];
        usual.extend(batch.into_iter().filter(|(key, _)| of_server.contains(&key.as_str())));
        if let Some(overlap) = usual.get_mut("overlap").filter(|overlap| overlap.as_str() == Some("nothing")) {
            // Of the study alone: the next batch is collected meanwhile.
            *overlap = "serial".into();
        }
    }
    usual
}

/// A GPU whose paper does not say how much memory it has.
const UNSAID: &str = "4 GB";

/// The L2 of an integrated GPU as the memory system has it.
pub(crate) fn l2_of(gpu: &ServerGpuSpec) -> machine::cache::CacheSpec {
    let l2 = &gpu.shaders.l2;
    machine::cache::CacheSpec { size: l2.size, ways: l2.ways, latency: Span::from_ns(0.0) }
}
