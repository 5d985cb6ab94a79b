//! The part that a machine's DRAM is made of: a shipped standard, or one of the user's own.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::presets;
use super::standard::Standard;

/// A shipped standard by its name, or all that one says.
#[derive(Clone, Debug, PartialEq)]
pub enum DramPart {
    /// One of [`presets::NAMES`].
    Shipped(String),
    /// One that somebody has written.
    Own(Box<Standard>),
}

impl DramPart {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            DramPart::Shipped(name) => name,
            DramPart::Own(standard) => &standard.name,
        }
    }

    /// What it says; [`None`] of a name that nobody ships.
    pub fn standard(&self) -> Option<Standard> {
        match self {
            DramPart::Shipped(name) => presets::preset(name),
            DramPart::Own(standard) => Some((**standard).clone()),
        }
    }
}

impl From<&str> for DramPart {
    fn from(name: &str) -> DramPart {
        DramPart::Shipped(name.into())
    }
}

impl Serialize for DramPart {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            DramPart::Shipped(name) => to.serialize_str(name),
            DramPart::Own(standard) => standard.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for DramPart {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<DramPart, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = DramPart;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("the name of a shipped standard, a file that ends in .toml, or a table of one's own")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<DramPart, E> {
                Ok(DramPart::from(name))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<DramPart, A::Error> {
                Standard::deserialize(MapAccessDeserializer::new(map)).map(|standard| DramPart::Own(Box::new(standard)))
            }
        }

        from.deserialize_any(Either)
    }
}

impl JsonSchema for DramPart {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Part".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let own = generator.subschema_for::<Standard>();
        json_schema!({ "anyOf": [{ "type": "string" }, own] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_reads_back_as_it_is_written() {
        for part in [DramPart::from("ddr4-2400u"), DramPart::Own(Box::new(presets::hbm3_6400()))] {
            let text = serde_json::to_string(&part).unwrap();
            assert_eq!(serde_json::from_str::<DramPart>(&text).unwrap(), part);
        }
        let error = serde_json::from_str::<DramPart>("4").unwrap_err().to_string();
        assert!(error.contains("a file that ends in .toml"), "{error}");
    }
}
