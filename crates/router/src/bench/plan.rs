//! What is measured in which order: what tells most comes first, so that a benchmark that is cut off has lost the least.

use serde::{Deserialize, Serialize};

use super::BenchSpec;
use crate::backend::Commit;
use crate::persistent::RoundTasks;

/// A way to route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BenchMode {
    /// Threads.
    Cpu,
    /// A kernel that stays, packets in host memory.
    ZeroCopy,
    /// A kernel that stays, packets in the GPU's memory.
    Resident,
    /// A kernel a batch, one at a time.
    Batch,
    /// A kernel a batch, in three streams.
    Streams,
    /// A kernel a batch, copies and kernel as one graph.
    Graph,
    /// A kernel a batch, one at a time, of which only what the function reads is copied.
    BatchGathered,
    /// The same, three at a time.
    StreamsGathered,
}

impl BenchMode {
    /// Each with its name.
    pub const ALL: [(&'static str, BenchMode); 8] = [
        ("cpu", BenchMode::Cpu),
        ("zero_copy", BenchMode::ZeroCopy),
        ("resident", BenchMode::Resident),
        ("batch", BenchMode::Batch),
        ("streams", BenchMode::Streams),
        ("graph", BenchMode::Graph),
        ("batch_gathered", BenchMode::BatchGathered),
        ("streams_gathered", BenchMode::StreamsGathered),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|&(_, mode)| mode == self).map_or("", |(name, _)| name)
    }

    /// Whether only what a function reads is copied.
    fn gathers(self) -> bool {
        matches!(self, BenchMode::BatchGathered | BenchMode::StreamsGathered)
    }

    /// Whether a kernel stays.
    pub(super) fn stays(self) -> bool {
        matches!(self, BenchMode::ZeroCopy | BenchMode::Resident)
    }
}

/// A mode with all that is set of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct BenchWay {
    pub(super) mode: BenchMode,
    /// Workers of the CPU, or threads that gather; 0 for other ways on a GPU.
    pub(super) threads: u32,
    /// Of threads and of a kernel that stays.
    pub(super) commit: Option<Commit>,
    /// Of a kernel that stays; none is as many as fit.
    pub(super) warps_per_core: Option<u32>,
    /// Of a kernel that stays.
    pub(super) round: RoundTasks,
}

/// Points that belong together: what a way carries at most at a batch, or the loads below that.
#[derive(Clone, Copy, Debug)]
pub(super) struct BenchStep {
    /// Which of the functions.
    pub(super) function: usize,
    pub(super) way: BenchWay,
    pub(super) batch: u32,
    pub(super) loads: bool,
}

/// The ways that `spec` asks for; those that differ from the first of their mode in a setting come last.
fn ways(spec: &BenchSpec, gpu: bool) -> (Vec<BenchWay>, Vec<BenchWay>) {
    let (mut usual, mut varied) = (Vec::new(), Vec::new());
    let round = spec.rounds.first().copied().unwrap_or_default();
    let first = spec.commits.first().copied().unwrap_or_default();
    for &mode in &spec.modes {
        let alone = BenchWay { mode, threads: 0, commit: None, warps_per_core: None, round };
        if mode == BenchMode::Cpu {
            usual.extend(spec.threads.iter().map(|&threads| BenchWay { threads, commit: Some(first), ..alone }));
        } else if gpu && mode.stays() {
            let settings =
                spec.commits.iter().flat_map(|&commit| spec.warps_per_core.iter().map(move |&warps| (commit, warps)));
            let mut all =
                settings.map(|(commit, warps_per_core)| BenchWay { commit: Some(commit), warps_per_core, ..alone });
            usual.extend(all.next());
            varied.extend(all);
        } else if gpu && mode == BenchMode::StreamsGathered {
            usual.extend(spec.gatherers.iter().map(|&threads| BenchWay { threads, ..alone }));
        } else if gpu {
            usual.push(BenchWay { threads: u32::from(mode.gathers()), ..alone });
        }
    }
    (usual, varied)
}

/// All steps in their order.
pub(super) fn steps(spec: &BenchSpec, gpu: bool) -> Vec<BenchStep> {
    let (usual, varied) = ways(spec, gpu);
    let (middle, last) = (spec.batches.len() / 2, spec.batches.len().saturating_sub(1));
    let mut batches: Vec<usize> = Vec::new();
    for at in [middle, 0, last].into_iter().chain(0..=last) {
        if at < spec.batches.len() && !batches.contains(&at) {
            batches.push(at);
        }
    }
    let mut steps = Vec::new();
    for (function, names) in std::iter::once(&spec.function).chain(&spec.further).enumerate() {
        let gathers = names.gathers(spec.structure);
        for (nth, &at) in batches.iter().enumerate() {
            for (&way, is_usual) in usual.iter().map(|way| (way, true)).chain(varied.iter().map(|way| (way, false))) {
                if way.mode.gathers() && !gathers {
                    continue;
                }
                for loads in [false, true] {
                    // What carries how much, for all functions; what settings do; delays; and then everything else.
                    let rank = match (function == 0, is_usual, nth, loads) {
                        (true, true, 0..3, false) => 0,
                        (false, true, 0..3, false) => 1,
                        (true, false, 0, false) => 2,
                        (true, true, 0..3, true) => 3,
                        (true, true, ..) => 4,
                        (false, true, _, false) => 5,
                        (false, false, 0, false) => 6,
                        (false, true, _, true) => 7,
                        _ => 8,
                    };
                    steps.push((rank, BenchStep { function, way, batch: spec.batches[at], loads }));
                }
            }
        }
    }
    steps.sort_by_key(|&(rank, _)| rank);
    steps.into_iter().map(|(_, step)| step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{FunctionName, FunctionNames};

    fn spec() -> BenchSpec {
        BenchSpec {
            further: vec![FunctionNames::from(FunctionName::Ttl)],
            batches: vec![32, 64, 128, 256],
            threads: vec![1, 3],
            commits: vec![Commit::Device, Commit::Host],
            warps_per_core: vec![None, Some(8)],
            ..BenchSpec::default()
        }
    }

    #[test]
    fn every_setting_comes_once_and_loads_after_the_most() {
        let steps = steps(&spec(), true);
        // Two threads, five modes of batches, two kernels that stay with four settings each; twice for the loads.
        assert_eq!(steps.len(), 2 * 4 * (2 + 5 + 2 * 4) * 2);
        for (at, step) in steps.iter().enumerate() {
            let same =
                |other: &&BenchStep| (other.function, other.way, other.batch) == (step.function, step.way, step.batch);
            let before = steps[..at].iter().filter(same).count();
            assert_eq!(before, usize::from(step.loads), "{step:?}");
        }
    }

    #[test]
    fn every_mode_of_every_function_is_seen_before_the_first_load() {
        let steps = steps(&spec(), true);
        let first = steps.iter().position(|step| step.loads).unwrap();
        for function in 0..2 {
            for (_, mode) in BenchMode::ALL {
                assert!(steps[..first].iter().any(|step| (step.function, step.way.mode) == (function, mode)));
            }
        }
        assert!(self::steps(&spec(), false).iter().all(|step| step.way.mode == BenchMode::Cpu));
    }
}
