//! A state with what it belongs to before it, and a hash of it all.

use crate::{Reader, State, StateError, Writer};

/// What every state begins with.
const MAGIC: &[u8; 16] = b"wirespeed-state\n";
const HASH: usize = blake3::OUT_LEN;

/// The state of `model`, which belongs to `of`, as `version` of a program writes it.
///
/// # Errors
/// As [`State::write`].
pub fn seal(model: &impl State, version: &str, of: &str) -> Result<Vec<u8>, StateError> {
    let mut to = Writer::default();
    to.value(version)?;
    to.value(of)?;
    model.write(&mut to)?;
    let body = to.into_bytes();
    Ok([MAGIC, blake3::hash(&body).as_bytes().as_slice(), &body].concat())
}

/// Puts what [`seal`] gave into `model`, which was built alike. After an error of [`State::read`] alone a part of it is
/// that of the other.
///
/// # Errors
/// Bytes that are no state, or not whole; a state of another version, or of something else; as [`State::read`].
pub fn open(model: &mut impl State, version: &str, of: &str, bytes: &[u8]) -> Result<(), StateError> {
    let Some(sealed) = bytes.strip_prefix(MAGIC) else {
        let came = match bytes {
            [] => "nothing: it is empty".into(),
            _ => format!("{:02x?}", &bytes[..bytes.len().min(8)]),
        };
        return Err(StateError::NoState { came });
    };
    let damaged = || StateError::Damaged { bytes: bytes.len() };
    let (hash, body) = sealed.split_at_checked(HASH).ok_or_else(damaged)?;
    if blake3::hash(body).as_bytes() != hash {
        return Err(damaged());
    }
    let mut from = Reader::new(body);
    let came: String = from.value()?;
    if came != version {
        return Err(StateError::Version { came, allowed: version.into() });
    }
    let came: String = from.value()?;
    if came != of {
        return Err(StateError::Another { came, allowed: of.into() });
    }
    model.read(&mut from)?;
    from.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Numbers {
        all: Vec<u64>,
    }
    crate::state!(Numbers { values: [all], arrays: [], parts: [], built: [] });

    fn opened(version: &str, of: &str, bytes: &[u8]) -> Result<Numbers, StateError> {
        let mut numbers = Numbers { all: Vec::new() };
        open(&mut numbers, version, of, bytes).map(|()| numbers)
    }

    #[test]
    fn what_was_sealed_is_opened_by_the_same_and_by_nobody_else() {
        let numbers = Numbers { all: (0..200).collect() };
        let bytes = seal(&numbers, "1", "a").unwrap();
        assert_eq!(opened("1", "a", &bytes), Ok(numbers));
        let told = |version, of, bytes: &[u8]| opened(version, of, bytes).unwrap_err().to_string();
        assert!(told("2", "a", &bytes).starts_with("the state is of version 1: allowed is 2"));
        assert!(told("1", "b", &bytes).starts_with("the state is of a: allowed is one of b"));
        assert!(told("1", "a", b"").starts_with("the state begins with nothing"));
        assert!(told("1", "a", b"PK\x03\x04").starts_with("the state begins with [50, 4b, 03, 04]"));
    }

    #[test]
    fn a_bit_that_has_changed_and_a_byte_that_is_missing_are_found() {
        let bytes = seal(&Numbers { all: (0..50).collect() }, "1", "a").unwrap();
        for at in 0..bytes.len() {
            assert!(opened("1", "a", &bytes[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(opened("1", "a", &changed).is_err(), "bit {bit} of {at}");
            }
        }
    }
}
