//! Traffic profiles: what made traffic looks like, as a TOML file.
//!
//! Some are shipped (`presets/traffic/`) and are part of the program; every number in them has its
//! source in a comment.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arrivals::ArrivalSpec;
use crate::error::TrafficError;
use crate::flows::FlowSpec;
use crate::input::text_of;
use crate::sizes::SizeSpec;

/// Of a file with a profile: thousands of bins.
const MOST_BYTES: u64 = 1 << 20;

/// The shipped profiles: name and text.
pub const SHIPPED_PROFILES: &[(&str, &str)] = &[
    ("isp", include_str!("../../../presets/traffic/isp.toml")),
    ("imix", include_str!("../../../presets/traffic/imix.toml")),
    ("min64", include_str!("../../../presets/traffic/min64.toml")),
];

/// A traffic profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileSpec {
    /// When packets arrive.
    #[serde(default)]
    pub arrivals: ArrivalSpec,
    /// How long frames are.
    pub sizes: SizeSpec,
    /// Protocols.
    #[serde(default)]
    pub mix: MixSpec,
    /// Flows and destinations.
    pub flows: FlowSpec,
}

/// Protocols of made traffic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MixSpec {
    /// The share of flows that are TCP; the others are UDP.
    #[serde(default = "one")]
    pub tcp: f64,
    /// The share of destinations that are IPv6; needs IPv6 prefixes.
    #[serde(default)]
    pub ipv6: f64,
}

fn one() -> f64 {
    1.0
}

impl Default for MixSpec {
    fn default() -> MixSpec {
        MixSpec { tcp: 1.0, ipv6: 0.0 }
    }
}

impl ProfileSpec {
    /// A shipped profile by name, or the profile in a TOML file.
    ///
    /// # Errors
    /// Neither a shipped name nor a readable file, or a file that is not a profile.
    pub fn load(name_or_path: &str) -> Result<ProfileSpec, TrafficError> {
        if let Some((name, text)) = SHIPPED_PROFILES.iter().find(|(name, _)| *name == name_or_path) {
            return ProfileSpec::parse(text, name);
        }
        let path = Path::new(name_or_path);
        if path.extension().is_none() {
            let names: Vec<&str> = SHIPPED_PROFILES.iter().map(|p| p.0).collect();
            let allowed = format!("shipped profiles are {}; or give the path of a .toml file", names.join(", "));
            return Err(TrafficError::spec("profile", format!("{name_or_path:?}"), allowed));
        }
        let text = text_of(path, MOST_BYTES)?;
        ProfileSpec::parse(&text, name_or_path)
    }

    /// A profile from TOML text; `name` is for messages.
    ///
    /// # Errors
    /// The text is not a profile.
    pub fn parse(text: &str, name: &str) -> Result<ProfileSpec, TrafficError> {
        toml::from_str(text).map_err(|e| TrafficError::Profile { name: name.into(), source: Box::new(e) })
    }

    /// As TOML text, which [`ProfileSpec::parse`] reads back.
    pub fn to_toml(&self) -> String {
        // Every field is a TOML value and tables come last, so writing cannot fail.
        toml::to_string(self).unwrap_or_else(|e| format!("# {e}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizes::Sizes;

    #[test]
    fn shipped_profiles_are_profiles_and_survive_writing() {
        for (name, _) in SHIPPED_PROFILES {
            let profile = ProfileSpec::load(name).unwrap();
            assert_eq!(ProfileSpec::parse(&profile.to_toml(), name).unwrap(), profile, "{name}");
        }
    }

    #[test]
    fn the_isp_profile_has_the_size_classes_of_its_source() {
        let profile = ProfileSpec::load("isp").unwrap();
        let SizeSpec::Histogram(bins) = &profile.sizes else { panic!("a histogram") };
        let total: f64 = bins.iter().map(|b| b.share).sum();
        let share = |from: u32, to: u32| {
            bins.iter().filter(|b| b.bytes >= from && b.to.unwrap_or(b.bytes) <= to).map(|b| b.share).sum::<f64>()
                / total
        };
        // 38.2 % of 99.2 % up to 64 bytes of IP, 37.5 % from 1,025 to 1,536.
        assert!((share(64, 82) - 0.382 / 0.992).abs() < 1e-9);
        assert!((share(1043, 1554) - 0.375 / 0.992).abs() < 1e-9);
        let mean = Sizes::new(&profile.sizes, "sizes").unwrap().mean();
        assert!((660.0..700.0).contains(&mean), "{mean}");
    }

    #[test]
    fn unknown_names_and_keys_are_told_what_is_allowed() {
        let unknown = ProfileSpec::load("ips").unwrap_err().to_string();
        assert_eq!(
            unknown,
            "profile = \"ips\": shipped profiles are isp, imix, min64; or give the path of a .toml file"
        );
        let key = ProfileSpec::parse("sizes = \"imix\"\nflow = 3\n", "my.toml").unwrap_err().to_string();
        assert!(key.contains("my.toml") && key.contains("unknown field `flow`"), "{key}");
    }
}
