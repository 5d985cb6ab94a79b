//! Ways of the LLC as people name them: how many, or which.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use units::Cbm;

use super::check_ways;
use crate::MachineError;

/// Ways that somebody may fill: how many (`8`), or which, as text (`"0xff0"`, `"0b1111"`). Where a count lies the cache says:
/// cores fill from the lowest way on, devices from the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// So many.
    Count(u32),
    /// Those of the mask.
    Mask(Cbm),
}

impl Ways {
    /// No way.
    pub const NONE: Ways = Ways::Count(0);

    /// How many.
    pub fn count(self) -> u32 {
        match self {
            Ways::Count(count) => count,
            Ways::Mask(mask) => mask.ways(),
        }
    }

    /// Which of the cache's `ways`, from the lowest on; `path` is where they stand.
    ///
    /// # Errors
    /// None, more than there are, or a mask that is not contiguous.
    pub fn lowest(self, path: &str, ways: u32) -> Result<Cbm, MachineError> {
        self.among(path, ways, false, Cbm::low)
    }

    /// As [`Ways::lowest`], from the highest on; none is allowed.
    ///
    /// # Errors
    /// As [`Ways::lowest`], but for none.
    pub fn highest(self, path: &str, ways: u32) -> Result<Cbm, MachineError> {
        self.among(path, ways, true, |count| Cbm::span(ways - count, count))
    }

    fn among(
        self,
        path: &str,
        ways: u32,
        may_be_empty: bool,
        counted: impl Fn(u32) -> Cbm,
    ) -> Result<Cbm, MachineError> {
        let least = u32::from(!may_be_empty);
        let mask = match self {
            Ways::Mask(mask) => mask,
            Ways::Count(0) if may_be_empty => Cbm(0),
            Ways::Count(count) if (1..=ways.min(MOST)).contains(&count) => counted(count),
            Ways::Count(count) => {
                let remedy = if ways == 1 { "the LLC has 1 way".into() } else { format!("the LLC has {ways} ways") };
                let allowed = format!("{least} to {ways}");
                return Err(MachineError::new(path, count.to_string(), allowed, remedy));
            }
        };
        check_ways(path, mask, ways, may_be_empty)?;
        Ok(mask)
    }

    /// Of a text: a mask with its prefix, or a count.
    fn of(text: &str) -> Option<Ways> {
        let text = text.trim().to_ascii_lowercase();
        let mask = |digits: &str, radix| match digits.starts_with(['+', '-']) {
            true => None,
            false => u32::from_str_radix(&digits.replace('_', ""), radix).ok(),
        };
        if let Some(digits) = text.strip_prefix("0x") {
            return mask(digits, 16).map(|bits| Ways::Mask(Cbm(bits)));
        }
        if let Some(digits) = text.strip_prefix("0b") {
            return mask(digits, 2).map(|bits| Ways::Mask(Cbm(bits)));
        }
        text.parse().ok().filter(|count| *count <= MOST).map(Ways::Count)
    }
}

impl fmt::Display for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ways::Count(count) => write!(f, "{count}"),
            Ways::Mask(mask) => mask.fmt(f),
        }
    }
}

impl Serialize for Ways {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Ways::Count(count) => serializer.serialize_u32(*count),
            Ways::Mask(mask) => serializer.collect_str(mask),
        }
    }
}

impl<'de> Deserialize<'de> for Ways {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WaysVisitor)
    }
}

impl JsonSchema for Ways {
    fn schema_name() -> Cow<'static, str> {
        "Ways".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "how many ways, or which, as a mask that is text",
            "examples": [8, "0xff0"],
            "anyOf": [{"type": "integer", "minimum": 0, "maximum": MOST}, {"type": "string"}]
        })
    }
}

/// Bits of a mask.
const MOST: u32 = 32;

struct WaysVisitor;

impl Visitor<'_> for WaysVisitor {
    type Value = Ways;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of ways, or a mask as text such as \"0xff0\"")
    }
    fn visit_u64<E: de::Error>(self, n: u64) -> Result<Ways, E> {
        let count = u32::try_from(n).ok().filter(|count| *count <= MOST);
        let is_mask = u32::try_from(n).is_ok_and(|bits| Cbm(bits).is_contiguous());
        let remedy = if is_mask { format!(" (write a mask as text: \"{n:#x}\")") } else { String::new() };
        count.map(Ways::Count).ok_or_else(|| E::custom(format!("{n}: allowed are at most {MOST} ways{remedy}")))
    }
    fn visit_i64<E: de::Error>(self, n: i64) -> Result<Ways, E> {
        match u64::try_from(n) {
            Ok(n) => self.visit_u64(n),
            Err(_) => Err(E::custom(format!("{n}: allowed are 0 to {MOST} ways"))),
        }
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Ways, E> {
        let allowed = "allowed are a number of ways, or a mask such as \"0xff0\" or \"0b1111\"";
        Ways::of(text).ok_or_else(|| E::custom(format!("{text:?}: {allowed}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_how_many_and_a_text_with_a_prefix_is_which() {
        let of = |json: &str| serde_json::from_str::<Ways>(json).map_err(|e| e.to_string());
        assert_eq!(of("8"), Ok(Ways::Count(8)));
        assert_eq!(of("\"8\""), Ok(Ways::Count(8)));
        assert_eq!(of("\"0b110\""), Ok(Ways::Mask(Cbm(0b110))));
        assert_eq!(of("\"0xff0\""), Ok(Ways::Mask(Cbm(0xff0))));
        assert!(of("2047").unwrap_err().contains("write a mask as text: \"0x7ff\""));
        for bad in ["33", "\"ways\"", "\"0b2\"", "-1", "1.5"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cores_fill_from_below_and_devices_from_above() {
        let (low, high) = (|ways: Ways| ways.lowest("w", 11), |ways: Ways| ways.highest("w", 11));
        assert_eq!(low(Ways::Count(8)), Ok(Cbm(0xff)));
        assert_eq!(high(Ways::Count(2)), Ok(Cbm(0x600)));
        assert_eq!(high(Ways::Count(11)), low(Ways::Count(11)));
        assert_eq!(high(Ways::NONE), Ok(Cbm(0)));
        let mask = Ways::Mask(Cbm(0b110));
        assert_eq!((low(mask), high(mask)), (Ok(Cbm(0b110)), Ok(Cbm(0b110))));
        assert_eq!(low(Ways::NONE).unwrap_err().to_string(), "w = 0: allowed is 1 to 11 (the LLC has 11 ways)");
        assert_eq!(high(Ways::Count(12)).unwrap_err().to_string(), "w = 12: allowed is 0 to 11 (the LLC has 11 ways)");
        assert!(high(Ways::Mask(Cbm(0x800))).is_err() && low(Ways::Mask(Cbm(0b101))).is_err());
    }

    #[test]
    fn what_is_written_reads_back_equal() {
        for ways in
            [0, 1, 8, 32].map(Ways::Count).into_iter().chain([0, 1, 0b110, u32::MAX].map(|m| Ways::Mask(Cbm(m))))
        {
            let text = serde_json::to_string(&ways).unwrap();
            assert_eq!(serde_json::from_str::<Ways>(&text).unwrap(), ways, "{text}");
        }
    }
}
