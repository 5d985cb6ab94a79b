//! Arrays of any length as serde reads and writes them (its own end at 32): `#[serde(with = "units::arrays")]`, and
//! `units::arrays::boxed` where they lie on the heap, one or a list of them.

use std::collections::{BTreeMap, HashMap};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes an array as a sequence.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer, T: Serialize, const N: usize>(
    array: &[T; N],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(array)
}

/// Reads an array from a sequence.
///
/// # Errors
/// The deserializer's; a sequence of another length.
pub fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>, const N: usize>(
    deserializer: D,
) -> Result<[T; N], D::Error> {
    of_vec(Vec::deserialize(deserializer)?)
}

fn of_vec<T, const N: usize, E: Error>(found: Vec<T>) -> Result<[T; N], E> {
    <[T; N]>::try_from(found).map_err(|found| E::custom(format!("{} elements in place of {N}", found.len())))
}

/// The same, of arrays that lie on the heap.
pub mod boxed {
    use super::{Deserialize, Deserializer, Serialize, Serializer, of_vec};

    /// What [`serialize`] writes and [`deserialize`] reads: a boxed array, or a list of them.
    pub trait Boxed<'de>: Sized {
        /// As [`super::serialize`].
        ///
        /// # Errors
        /// As there.
        fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
        /// As [`super::deserialize`].
        ///
        /// # Errors
        /// As there.
        fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
    }

    impl<'de, T: Serialize + Deserialize<'de>, const N: usize> Boxed<'de> for Box<[T; N]> {
        fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            super::serialize(self, serializer)
        }
        fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            super::deserialize(deserializer).map(Box::new)
        }
    }

    impl<'de, T: Serialize + Deserialize<'de>, const N: usize> Boxed<'de> for Vec<Box<[T; N]>> {
        fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(self.iter().map(|array| array.as_slice()))
        }
        fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let found = Vec::<Vec<T>>::deserialize(deserializer)?;
            found.into_iter().map(|array| of_vec(array).map(Box::new)).collect::<Result<_, D::Error>>()
        }
    }

    /// Writes boxed arrays as sequences.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<'de, S: Serializer, B: Boxed<'de>>(boxed: &B, serializer: S) -> Result<S::Ok, S::Error> {
        boxed.write(serializer)
    }

    /// Reads boxed arrays from sequences.
    ///
    /// # Errors
    /// The deserializer's; a sequence of another length.
    pub fn deserialize<'de, D: Deserializer<'de>, B: Boxed<'de>>(deserializer: D) -> Result<B, D::Error> {
        B::read(deserializer)
    }
}

/// Writes a map in the order of its keys, so that equal maps are written alike: `#[serde(serialize_with = "units::arrays::in_order")]`.
///
/// # Errors
/// The serializer's.
pub fn in_order<S: Serializer, K: Ord + Serialize, V: Serialize, H>(
    map: &HashMap<K, V, H>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map.iter().collect::<BTreeMap<&K, &V>>())
}
