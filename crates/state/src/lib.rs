//! What of a model changes while it runs, as bytes: one process writes them, another puts them into a model that it has
//! built from the same description.
//!
//! Specifications, and tables that nothing changes, are not written: who reads has built them. Of each field of a type
//! [`state!`] wants to know which it is, so that one that is added and forgotten does not compile:
//! - `values` are written whole, as [`serde`] has them;
//! - `arrays` are values in a row whose number is that of who reads;
//! - `parts` are states of their own;
//! - `described` are values that hold what a person writes (`"33 MiB"`), or leave fields out: they are written as MessagePack;
//! - `built` is what is not written.
//!
//! The bytes are those of postcard (one to ten for a number, none for a name). [`seal`] puts before them which program
//! wrote them and what they belong to, and a BLAKE3 hash of it all; [`open`] refuses what is another's, cut or changed
//! before anything of it is read. What has been read takes a few times as much memory as the bytes. A hash keeps no
//! secret: who can make one can make numbers that no run comes to, and a model may then panic.

#![forbid(unsafe_code)]

mod error;
mod sealed;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use error::StateError;
pub use sealed::{open, seal};

/// Something whose state can be written down and put back.
pub trait State {
    /// Appends the state.
    ///
    /// # Errors
    /// A value that cannot be written, which is a defect of its type.
    fn write(&self, to: &mut Writer) -> Result<(), StateError>;

    /// Puts in what was written of another that was built alike. After an error a part is that of the other.
    ///
    /// # Errors
    /// Bytes that end early or mean nothing; a state of something that was built otherwise.
    fn read(&mut self, from: &mut Reader) -> Result<(), StateError>;
}

/// Bytes that grow.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Appends a value.
    ///
    /// # Errors
    /// One that has no such form.
    pub fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), StateError> {
        let written = postcard::to_extend(value, std::mem::take(&mut self.0));
        self.0 =
            written.map_err(|why| StateError::Unwritable { of: std::any::type_name::<T>(), why: why.to_string() })?;
        Ok(())
    }

    /// Appends values in a row, and how many they are.
    ///
    /// # Errors
    /// As [`Writer::value`].
    pub fn array<T: Serialize>(&mut self, values: &[T]) -> Result<(), StateError> {
        self.value(values)
    }

    /// Appends a value with the names of its fields, for a type that needs them to be read.
    ///
    /// # Errors
    /// As [`Writer::value`].
    pub fn described<T: Serialize>(&mut self, value: &T) -> Result<(), StateError> {
        let unwritable = |why: rmp_serde::encode::Error| StateError::Unwritable {
            of: std::any::type_name::<T>(),
            why: why.to_string(),
        };
        // People's forms, since those are what such types can read; how long it is stands before it, so that no reader goes beyond.
        let mut bytes = Vec::new();
        let mut named = rmp_serde::Serializer::new(&mut bytes).with_struct_map().with_human_readable();
        value.serialize(&mut named).map_err(unwritable)?;
        self.value(&(bytes.len() as u64))?;
        self.0.extend_from_slice(&bytes);
        Ok(())
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Bytes that have not been read yet.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// All of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// The next value.
    ///
    /// # Errors
    /// Bytes that are none.
    pub fn value<T: DeserializeOwned>(&mut self) -> Result<T, StateError> {
        let (value, rest) = postcard::take_from_bytes(self.0)
            .map_err(|why| StateError::Unreadable { of: std::any::type_name::<T>(), why: why.to_string() })?;
        self.0 = rest;
        Ok(value)
    }

    /// The next value, as [`Writer::described`] has written it.
    ///
    /// # Errors
    /// As [`Reader::value`].
    pub fn described<T: DeserializeOwned>(&mut self) -> Result<T, StateError> {
        let unreadable = |why: String| StateError::Unreadable { of: std::any::type_name::<T>(), why };
        let long: u64 = self.value()?;
        let bytes = usize::try_from(long).ok().and_then(|long| self.0.split_at_checked(long));
        let (bytes, rest) =
            bytes.ok_or_else(|| unreadable(format!("{long} bytes are said to come, {} are left", self.0.len())))?;
        let mut named = rmp_serde::Deserializer::new(bytes).with_human_readable();
        let value = T::deserialize(&mut named).map_err(|why| unreadable(why.to_string()))?;
        match named.get_ref().len() {
            0 => self.0 = rest,
            left => return Err(unreadable(format!("{left} bytes behind its end"))),
        }
        Ok(value)
    }

    /// The next values, as many as there is room for in `values`.
    ///
    /// # Errors
    /// Another number of them; as [`Reader::value`].
    pub fn array<T: DeserializeOwned>(&mut self, values: &mut [T]) -> Result<(), StateError> {
        self.is_as("values", std::any::type_name::<T>(), values.len() as u64)?;
        values.iter_mut().try_for_each(|value| {
            *value = self.value()?;
            Ok(())
        })
    }

    /// The next number is `allowed`: `what` of `of`, as who reads was built.
    ///
    /// # Errors
    /// Another number.
    pub fn is_as(&mut self, what: &'static str, of: &'static str, allowed: u64) -> Result<(), StateError> {
        let came: u64 = self.value()?;
        if came == allowed { Ok(()) } else { Err(StateError::BuiltOtherwise { what, of, came, allowed }) }
    }

    /// That everything has been read.
    ///
    /// # Errors
    /// Bytes that are left.
    pub fn end(self) -> Result<(), StateError> {
        match self.0.len() as u64 {
            0 => Ok(()),
            came => Err(StateError::BuiltOtherwise { what: "bytes behind the end", of: "the state", came, allowed: 0 }),
        }
    }
}

/// A number for the names of a type's fields in their order (FNV-1a), so that a state of another version of it is known.
pub const fn shape(names: &str) -> u32 {
    let (bytes, mut hash, mut at) = (names.as_bytes(), 0x811c_9dc5_u32, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    hash
}

/// Implements [`State`] for a struct. Every field is named, in one of the lists of the module header.
///
/// ```
/// struct Counter {
///     most: u32,
///     seen: u64,
///     last: [u8; 40],
/// }
/// state::state!(Counter { values: [seen], arrays: [last], parts: [], built: [most] });
///
/// let mut writer = state::Writer::default();
/// state::State::write(&Counter { most: 3, seen: 7, last: [1; 40] }, &mut writer).unwrap();
/// let mut other = Counter { most: 4, seen: 0, last: [0; 40] };
/// state::State::read(&mut other, &mut state::Reader::new(&writer.into_bytes())).unwrap();
/// assert_eq!((other.most, other.seen, other.last), (4, 7, [1; 40]));
/// ```
#[macro_export]
macro_rules! state {
    ($name:ident $(<$life:lifetime>)? {
        values: [$($value:ident),* $(,)?],
        arrays: [$($array:ident),* $(,)?],
        parts: [$($part:ident),* $(,)?],
        $(described: [$($described:ident),* $(,)?],)?
        built: [$($built:ident),* $(,)?] $(,)?
    }) => {
        impl $crate::State for $name $(<$life>)? {
            fn write(&self, to: &mut $crate::Writer) -> Result<(), $crate::StateError> {
                let $name { $($value,)* $($array,)* $($part,)* $($($described,)*)? $($built: _,)* } = self;
                const SHAPE: u32 = $crate::shape(stringify!($name $($value)* / $($array)* / $($part)* / $($($described)*)?));
                to.value(&u64::from(SHAPE))?;
                $(to.value($value)?;)*
                $(to.array(&$array[..])?;)*
                $($crate::State::write($part, to)?;)*
                $($(to.described($described)?;)*)?
                Ok(())
            }

            fn read(&mut self, from: &mut $crate::Reader) -> Result<(), $crate::StateError> {
                let $name { $($value,)* $($array,)* $($part,)* $($($described,)*)? $($built: _,)* } = self;
                const SHAPE: u32 = $crate::shape(stringify!($name $($value)* / $($array)* / $($part)* / $($($described)*)?));
                from.is_as("fields", stringify!($name), u64::from(SHAPE))?;
                $(*$value = from.value()?;)*
                $(from.array(&mut $array[..])?;)*
                $($crate::State::read($part, from)?;)*
                $($(*$described = from.described()?;)*)?
                Ok(())
            }
        }
    };
}

impl<T: State + ?Sized> State for Box<T> {
    fn write(&self, to: &mut Writer) -> Result<(), StateError> {
        (**self).write(to)
    }

    fn read(&mut self, from: &mut Reader) -> Result<(), StateError> {
        (**self).read(from)
    }
}

/// As many as who reads has built.
impl<T: State> State for Vec<T> {
    fn write(&self, to: &mut Writer) -> Result<(), StateError> {
        to.value(&(self.len() as u64))?;
        self.iter().try_for_each(|part| part.write(to))
    }

    fn read(&mut self, from: &mut Reader) -> Result<(), StateError> {
        from.is_as("parts", std::any::type_name::<T>(), self.len() as u64)?;
        self.iter_mut().try_for_each(|part| part.read(from))
    }
}

/// There where it is there with who reads.
impl<T: State> State for Option<T> {
    fn write(&self, to: &mut Writer) -> Result<(), StateError> {
        to.value(&u64::from(self.is_some()))?;
        self.iter().try_for_each(|part| part.write(to))
    }

    fn read(&mut self, from: &mut Reader) -> Result<(), StateError> {
        from.is_as("parts", std::any::type_name::<T>(), u64::from(self.is_some()))?;
        self.iter_mut().try_for_each(|part| part.read(from))
    }
}

/// In the order of keys, so that equal states have equal bytes.
impl<K, V, S> State for HashMap<K, V, S>
where
    K: Ord + Hash + Serialize + DeserializeOwned,
    V: Serialize + DeserializeOwned,
    S: BuildHasher,
{
    fn write(&self, to: &mut Writer) -> Result<(), StateError> {
        let mut sorted: Vec<(&K, &V)> = self.iter().collect();
        sorted.sort_unstable_by_key(|(key, _)| *key);
        to.value(&sorted)
    }

    fn read(&mut self, from: &mut Reader) -> Result<(), StateError> {
        self.clear();
        self.extend(from.value::<Vec<(K, V)>>()?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Part {
        seen: Vec<u64>,
        text: String,
    }
    state!(Part { values: [seen, text], arrays: [], parts: [], built: [] });

    #[derive(Clone, Debug, PartialEq)]
    struct Whole {
        spec: u32,
        ring: Box<[u16]>,
        parts: Vec<Part>,
        one: Option<Box<Part>>,
    }
    state!(Whole { values: [], arrays: [ring], parts: [parts, one], built: [spec] });

    fn whole() -> Whole {
        let part = |n: u64| Part { seen: (0..n).map(|i| i * 1_000_003).collect(), text: "x".repeat(n as usize) };
        Whole { spec: 1, ring: vec![3; 300].into(), parts: (0..4).map(part).collect(), one: Some(Box::new(part(9))) }
    }

    fn empty() -> Whole {
        Whole { spec: 1, ring: vec![0; 300].into(), parts: vec![Part::default(); 4], one: Some(Box::default()) }
    }

    fn bytes(whole: &Whole) -> Vec<u8> {
        let mut to = Writer::default();
        whole.write(&mut to).unwrap();
        to.into_bytes()
    }

    fn read(into: &mut Whole, bytes: &[u8]) -> Result<(), StateError> {
        let mut from = Reader::new(bytes);
        into.read(&mut from)?;
        from.end()
    }

    #[test]
    fn what_was_written_is_put_into_what_was_built_alike() {
        let mut other = empty();
        read(&mut other, &bytes(&whole())).unwrap();
        assert_eq!(other, whole());
    }

    #[test]
    fn what_was_built_otherwise_is_told() {
        let bytes = bytes(&whole());
        let told = |other: Whole| read(&mut { other }, &bytes).unwrap_err().to_string();
        let ring = told(Whole { ring: vec![0; 299].into(), ..empty() });
        assert!(ring.contains("values of u16") && ring.contains("300") && ring.contains("299"), "{ring}");
        let parts = told(Whole { parts: Vec::new(), ..empty() });
        assert!(parts.contains("4") && parts.contains("allowed is 0"), "{parts}");
        let one = told(Whole { one: None, ..empty() });
        assert!(one.contains("allowed is 0"), "{one}");
        let mut part = Reader::new(&bytes);
        let fields = Part::default().read(&mut part).unwrap_err().to_string();
        assert!(fields.contains("fields of Part"), "{fields}");
    }

    #[test]
    fn no_bytes_make_it_panic_or_ask_for_much_memory() {
        let bytes = bytes(&whole());
        for cut in 0..bytes.len() {
            assert!(read(&mut empty(), &bytes[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            for flip in [1u8, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                let _ = read(&mut empty(), &changed);
            }
        }
        // A length of 2^63: refused when the bytes end, not made room for.
        let mut from = Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        assert!(from.value::<Vec<u64>>().is_err());
    }
}
