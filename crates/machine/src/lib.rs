//! Machines: what turns memory references into time.

/// Makes a module for `#[serde(with = ...)]` that writes every field of a type, of which a document shows some.
macro_rules! whole {
    ($module:ident: $type:ident { $($field:ident),* $(,)? }) => {
        mod $module {
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            use super::$type;

            pub(super) fn serialize<S: Serializer>(of: &$type, to: S) -> Result<S::Ok, S::Error> {
                let $type { $($field),* } = of;
                ($($field,)*).serialize(to)
            }

            pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                let ($($field,)*) = Deserialize::deserialize(from)?;
                Ok($type { $($field),* })
            }
        }
    };
}
pub(crate) use whole;

pub mod buffer;
pub mod cache;
pub mod copy_table;
pub mod cores;
mod divisor;
pub mod dram;
mod error;
mod level;
pub mod memory;
pub mod microengines;
pub mod nic;
pub mod simt;
pub mod stacked;

pub use divisor::Divisor;
pub use error::MachineError;
pub use level::{Memory, PrivateLookup, Reply, Response, Served};
