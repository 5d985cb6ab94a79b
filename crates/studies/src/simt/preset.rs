//! Shipped GPUs: `presets/gpus`.

use machine::simt::{BatchSpec, HermesSpec, SimtSpec};
use serde::{Deserialize, Serialize};

use sim::ScenarioError;
use sim::scenario::{Preset, find, known};

/// A GPU, how Hermes feeds it, and how batches do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HermesPreset {
    /// Shader cores and memory.
    pub gpu: SimtSpec,
    /// FIFO, DCQ and packet buffer.
    pub hermes: HermesSpec,
    /// Batches over PCIe.
    pub batch: BatchSpec,
}

/// Those that are shipped.
pub const PRESETS: &[Preset] = &[Preset { name: "hermes", text: include_str!("../../../../presets/gpus/hermes.toml") }];

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
    use super::*;

    #[test]
    fn every_shipped_gpu_is_sound() {
        for preset in PRESETS {
            let found = HermesPreset::named(preset.name).unwrap();
            found.gpu.check().unwrap();
        }
        let error = HermesPreset::named("hermse").unwrap_err().to_string();
        assert!(error.contains("hermes"), "{error}");
    }
}
