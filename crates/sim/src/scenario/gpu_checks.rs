//! What a scenario with a GPU cannot have beside it.

use super::error::ScenarioFaults;
use super::functions::FunctionKind;
use super::gpus::{GpuMemory, GpuPosting, ServerGpuSpec, TASK_PACKETS, under};
use super::spec::Scenario;

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

/// Their names.
pub(super) fn for_warps() -> Vec<String> {
    FOR_WARPS.map(word).to_vec()
}

/// A function as a scenario names it.
fn word(kind: FunctionKind) -> String {
    serde_json::to_value(kind).ok().and_then(|word| word.as_str().map(String::from)).unwrap_or_default()
}

/// Packets of a batch, at most.
const MOST_BATCH: u32 = 1 << 16;
/// Tasks of a FIFO, at most.
const MOST_TASKS: u32 = 1 << 14;

impl Scenario {
    /// Checks `machine.gpu`.
    pub(super) fn check_gpu(&self, found: &mut ScenarioFaults) {
        let Some(gpu) = &self.machine.gpu else { return };
        let path = |field: &str| format!("machine.gpu.{field}");
        if !(gpu.share > 0.0 && gpu.share <= 1.0) {
            let message = format!("{}: allowed is a share of flows, above 0 up to 1 (cores have the rest)", gpu.share);
            found.add(path("share"), message);
        }
        match gpu.posting {
            GpuPosting::Batches if !(1..=MOST_BATCH).contains(&gpu.batch) => {
                found.add(path("batch"), format!("{}: allowed are 1 to {MOST_BATCH} packets", gpu.batch));
            }
            GpuPosting::Persistent if !(1..=TASK_PACKETS).contains(&gpu.batch) => {
                let message = format!(
                    "{}: allowed with posting = \"persistent\" are 1 to {TASK_PACKETS} packets: a task is a warp's",
                    gpu.batch
                );
                found.add(path("batch"), message);
            }
            _ => {}
        }
        if !(1..=MOST_TASKS).contains(&gpu.fifo) {
            found.add(path("fifo"), format!("{}: allowed are 1 to {MOST_TASKS} tasks", gpu.fifo));
        }
        found.take(gpu.dispatcher.check().map_err(under));
        if !(1..=64).contains(&gpu.block) {
            found.add(path("block"), format!("{}: allowed are 1 to 64 warps", gpu.block));
        }
        if !gpu.coherent && gpu.attached == GpuMemory::Discrete {
            let message = "false: allowed with attached = \"integrated\": one with memory of its own has nothing to do with caches";
            found.add(path("coherent"), message.into());
        }
        let spans = [
            ("timeout", gpu.timeout),
            ("call", gpu.call),
            ("launch", gpu.launch),
            ("copy", gpu.copy),
            ("flush", gpu.flush),
        ];
        for (field, span) in spans {
            if !(0.0..=1e9).contains(&span.ps().as_ns()) {
                found.add(path(field), format!("{span}: allowed are 0 to 1 s"));
            }
        }
        if gpu.link.gbps() <= 0.0 {
            found.add(path("link"), format!("{}: allowed is a rate above 0", gpu.link));
        }
        found.take(gpu.shaders.check().map_err(under));
        found.take(gpu.shaders.memory.dram().map_err(under));
        found.take(gpu.shaders.resident(&gpu.kernel_of(&self.function)).map_err(under));
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
        let of_warps = for_warps().join(", ");
        // A function alone is a pair of settings, and refused as such.
        if function.kind == FunctionKind::Chain
            && let Some(kind) = gpu.functions_of(&self.function).iter().find(|kind| !FOR_WARPS.contains(kind))
        {
            let message = format!(
                "{} has no form for a warp, whose lanes share nothing that they write: allowed with machine.gpu are {of_warps} and \
                 chains of them (leave machine.gpu out, or have cores do it: machine.gpu.functions)",
                word(*kind)
            );
            found.add("function.kind", message);
        }
    }

    fn check_gpu_cores(&self, gpu: &ServerGpuSpec, found: &mut ScenarioFaults) {
        let cores = self.machine.cores + super::neighbours::cores(&self.neighbours);
        if gpu.attached == GpuMemory::Integrated && cores >= machine::memory::MAX_CORES {
            let most = machine::memory::MAX_CORES - 1;
            let message = format!("{cores} cores with an integrated GPU, which counts as one more: allowed are {most}");
            found.add("machine.cores", message);
        }
    }

    /// Packet cores that there may be beside neighbours and agents.
    pub(crate) fn most_cores(&self) -> u32 {
        let others = super::neighbours::cores(&self.neighbours) + self.agents();
        machine::memory::MAX_CORES.saturating_sub(others)
    }

    /// Agents that the memory system counts beside cores: an integrated GPU.
    pub(crate) fn agents(&self) -> u32 {
        let integrated = |gpu: &ServerGpuSpec| gpu.attached == GpuMemory::Integrated;
        u32::from(self.machine.gpu.as_ref().is_some_and(integrated))
    }
}
