//! Arrays of any length as serde reads and writes them; its own end at 32.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn serialize<S: Serializer, T: Serialize, const N: usize>(
    array: &[T; N],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(array)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>, const N: usize>(
    deserializer: D,
) -> Result<[T; N], D::Error> {
    let found = Vec::deserialize(deserializer)?;
    <[T; N]>::try_from(found).map_err(|found| Error::custom(format!("{} elements in place of {N}", found.len())))
}
