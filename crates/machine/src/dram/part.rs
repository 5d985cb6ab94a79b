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
pub enum Part {
    /// One of [`presets::NAMES`].
    Shipped(String),
    /// One that somebody has written.
    Own(Box<Standard>),
}

impl Part {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Part::Shipped(name) => name,
            Part::Own(standard) => &standard.name,
        }
    }

    /// What it says; [`None`] of a name that nobody ships.
    pub fn standard(&self) -> Option<Standard> {
        match self {
            Part::Shipped(name) => presets::preset(name),
            Part::Own(standard) => Some((**standard).clone()),
        }
    }
}

impl From<&str> for Part {
    fn from(name: &str) -> Part {
        Part::Shipped(name.into())
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Part::Shipped(name) => to.serialize_str(name),
            Part::Own(standard) => standard.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Part, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Part;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("the name of a shipped standard, a file that ends in .toml, or a table of one's own")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Part, E> {
                Ok(Part::from(name))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Part, A::Error> {
                Standard::deserialize(MapAccessDeserializer::new(map)).map(|standard| Part::Own(Box::new(standard)))
            }
        }

        from.deserialize_any(Either)
    }
}

impl JsonSchema for Part {
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
        for part in [Part::from("ddr4-2400u"), Part::Own(Box::new(presets::hbm3_6400()))] {
            let text = serde_json::to_string(&part).unwrap();
            assert_eq!(serde_json::from_str::<Part>(&text).unwrap(), part);
        }
        let error = serde_json::from_str::<Part>("4").unwrap_err().to_string();
        assert!(error.contains("a file that ends in .toml"), "{error}");
    }
}
