//! Shipped GPUs: `presets/gpus`.

use machine::simt::{BatchSpec, HermesSpec, SimtSpec};
use serde::{Deserialize, Serialize};
use units::{Rate, Size};

use sim::ScenarioError;
use sim::scenario::{GpuMemory, Preset, find, known};

/// A GPU, how Hermes feeds it, and how batches do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HermesPreset {
    /// Equal parts of the GPU of which one is simulated, where the whole is many cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<u32>,
    /// Its memory, which has to hold tables and packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Where packets and tables are for it in a server. Left out: in memory of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<GpuMemory>,
    /// What packets come and go by, each way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<Rate>,
    /// Shader cores and memory.
    pub gpu: SimtSpec,
    /// FIFO, DCQ and packet buffer.
    pub hermes: HermesSpec,
    /// Batches over PCIe.
    pub batch: BatchSpec,
}

/// Those that are shipped.
pub const PRESETS: &[Preset] = sim::scenario::GPUS;

impl HermesPreset {
    /// A shipped one by name.
    ///
    /// # Errors
    /// A name that nobody ships.
    pub fn named(name: &str) -> Result<HermesPreset, ScenarioError> {
        let origin = "presets/gpus".to_string();
        let Some(preset) = find(PRESETS, name) else {
            let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
            let known = known(&names, name);
            return Err(ScenarioError::Preset { origin, path: "gpu".into(), name: name.into(), known });
        };
        toml::from_str(preset.text).map_err(|e| ScenarioError::Syntax { origin, message: e.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use machine::simt::SimtMemory;

    use super::*;

    #[test]
    fn every_shipped_gpu_is_sound() {
        for preset in PRESETS {
            let found = HermesPreset::named(preset.name).unwrap();
            found.gpu.check().unwrap();
            SimtMemory::new(&found.gpu).unwrap();
            let parts = found.parts.unwrap_or(1);
            assert_eq!(found.gpu.cores % parts, 0, "{}", preset.name);
        }
        // Measured are 272 clocks of a hit in the L2, and 650 of a miss on the card of less clock.
        let h100 = SimtMemory::new(&HermesPreset::named("h100").unwrap().gpu).unwrap();
        assert_eq!(h100.unloaded_hit(), 272);
        assert!((639..=642).contains(&h100.unloaded_miss()), "{}", h100.unloaded_miss());
        let error = HermesPreset::named("hermse").unwrap_err().to_string();
        assert!(error.contains("hermes"), "{error}");
    }
}
