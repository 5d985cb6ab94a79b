//! Ways of the LLC as people name them: how many, or which.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use units::Cbm;

/// Ways that cores may fill: how many, from the lowest on (`8`), or which, as text (`"0xff0"`, `"0b1111"`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreWays(pub Cbm);

impl CoreWays {
    /// Of a text: a mask with its prefix, or a count.
    fn of(text: &str) -> Option<CoreWays> {
        let text = text.trim();
        let mask = |digits: &str, radix| u32::from_str_radix(&digits.replace('_', ""), radix).ok();
        if let Some(digits) = text.strip_prefix("0x") {
            return mask(digits, 16).map(|bits| CoreWays(Cbm(bits)));
        }
        if let Some(digits) = text.strip_prefix("0b") {
            return mask(digits, 2).map(|bits| CoreWays(Cbm(bits)));
        }
        CoreWays::count(text.parse().ok()?)
    }

    /// How many, where it is the lowest so many.
    pub(super) fn counted(self) -> Option<u32> {
        (self.0.0 != 0 && self.0 == Cbm::low(self.0.ways())).then(|| self.0.ways())
    }

    /// The lowest `n` ways.
    fn count(n: u64) -> Option<CoreWays> {
        (1..=32).contains(&n).then(|| CoreWays(Cbm::low(n as u32)))
    }
}

impl fmt::Display for CoreWays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.counted() {
            Some(ways) => write!(f, "{ways}"),
            None => self.0.fmt(f),
        }
    }
}

impl Serialize for CoreWays {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.counted() {
            Some(ways) => serializer.serialize_u32(ways),
            None => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for CoreWays {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CoreWaysVisitor)
    }
}

impl JsonSchema for CoreWays {
    fn schema_name() -> Cow<'static, str> {
        "CoreWays".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "how many ways, from the lowest on, or a mask as text",
            "examples": [8, "0xff0"],
            "anyOf": [{"type": "integer", "minimum": 1, "maximum": 32}, {"type": "string"}]
        })
    }
}

struct CoreWaysVisitor;

impl Visitor<'_> for CoreWaysVisitor {
    type Value = CoreWays;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of ways, 1 to 32, or a mask as text such as \"0xff0\"")
    }
    fn visit_u64<E: de::Error>(self, n: u64) -> Result<CoreWays, E> {
        let bad = || E::custom(format!("{n}: allowed are 1 to 32 ways (write a mask as text: \"{n:#x}\")"));
        CoreWays::count(n).ok_or_else(bad)
    }
    fn visit_i64<E: de::Error>(self, n: i64) -> Result<CoreWays, E> {
        match u64::try_from(n) {
            Ok(n) => self.visit_u64(n),
            Err(_) => Err(E::custom(format!("{n}: allowed are 1 to 32 ways"))),
        }
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<CoreWays, E> {
        let allowed = "allowed are a number of ways, 1 to 32, or a mask such as \"0xff0\" or \"0b1111\"";
        CoreWays::of(text).ok_or_else(|| E::custom(format!("{text:?}: {allowed}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_how_many_and_a_text_with_a_prefix_is_which() {
        let of = |json: &str| serde_json::from_str::<CoreWays>(json).map(|ways| ways.0.0).map_err(|e| e.to_string());
        assert_eq!(of("8"), Ok(0xff));
        assert_eq!(of("\"8\""), Ok(0xff));
        assert_eq!(of("\"0b110\""), Ok(0b110));
        assert_eq!(of("\"0xff0\""), Ok(0xff0));
        assert!(of("2047").unwrap_err().contains("write a mask as text: \"0x7ff\""));
        for bad in ["0", "33", "\"ways\"", "\"0b2\"", "-1", "1.5"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_written_reads_back_equal() {
        for mask in [1, 0b11, 0b110, 0xff0, 0x7ff, u32::MAX] {
            let ways = CoreWays(Cbm(mask));
            let text = serde_json::to_string(&ways).unwrap();
            assert_eq!(serde_json::from_str::<CoreWays>(&text).unwrap(), ways, "{text}");
        }
    }
}
