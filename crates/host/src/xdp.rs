//! Counters of an XDP program: values of the BPF maps that it is pinned with, by number.
//!
//! A map by processor has a value for each, which are added up. The map is opened anew each time: a program that was loaded again
//! has another, and the one before stands still.

use std::io;
use std::path::{Path, PathBuf};

pub use crate::calls::MapInfo;

use crate::HostError;
use crate::calls::{self, MOST_VALUE_BYTES};

/// A number of eight bytes in a map's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapCell {
    /// Where the map is pinned.
    pub map: PathBuf,
    /// Which of its values.
    pub key: u32,
    /// How many bytes into the value.
    pub offset: u32,
}

/// What the kernel answers of maps.
pub trait MapCalls: Send {
    /// What the map is, and the bytes of a value if it is of a kind that can be read here.
    ///
    /// # Errors
    /// As the system's: ENOENT for no such map or key, EPERM without CAP_BPF.
    fn value(&self, map: &Path, key: u32) -> io::Result<(MapInfo, Vec<u8>)>;
}

/// The maps of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelMaps;

impl MapCalls for KernelMaps {
    fn value(&self, map: &Path, key: u32) -> io::Result<(MapInfo, Vec<u8>)> {
        let map = calls::map_at(map)?;
        let info = calls::map_info(&map)?;
        let is_readable = flaw(&info, &MapCell { map: PathBuf::new(), key, offset: 0 }).is_none();
        Ok((info, if is_readable { calls::map_value(&map, key)? } else { Vec::new() }))
    }
}

/// An array of values, and one of values by processor (`BPF_MAP_TYPE_ARRAY`, `BPF_MAP_TYPE_PERCPU_ARRAY`).
const ARRAY: u32 = 2;
const BY_PROCESSOR: u32 = 6;
const NUMBER: u32 = 8;

/// Why a cell cannot be read of such a map: what came, and what is allowed.
fn flaw(info: &MapInfo, cell: &MapCell) -> Option<(String, String)> {
    let MapInfo { kind, key_bytes, value_bytes, entries } = *info;
    if ![ARRAY, BY_PROCESSOR].contains(&kind) || key_bytes != 4 {
        let came = format!("a map of kind {kind} with keys of {key_bytes} bytes");
        return Some((came, "an array (2) or one by processor (6), whose keys have 4".into()));
    }
    if cell.key >= entries {
        return Some((format!("key {}", cell.key), format!("less than the {entries} entries that it has")));
    }
    if value_bytes > MOST_VALUE_BYTES || cell.offset.checked_add(NUMBER).is_none_or(|end| end > value_bytes) {
        let came = format!("offset {} of a value of {value_bytes} bytes", cell.offset);
        return Some((came, format!("eight bytes within a value of {MOST_VALUE_BYTES} at most")));
    }
    None
}

/// The sum of cells.
///
/// # Errors
/// A map that is not there, or of another kind; a cell that it does not have.
pub fn sum(calls: &dyn MapCalls, cells: &[MapCell]) -> Result<u64, HostError> {
    cells.iter().try_fold(0u64, |sum, cell| Ok(sum.wrapping_add(number(calls, cell)?)))
}

fn number(calls: &dyn MapCalls, cell: &MapCell) -> Result<u64, HostError> {
    let path = cell.map.display().to_string();
    let read = calls.value(&cell.map, cell.key);
    let (info, bytes) = read.map_err(|e| HostError::system("reading", path.as_str(), e))?;
    if let Some((came, allowed)) = flaw(&info, cell) {
        return Err(HostError::form(path, &came, allowed));
    }
    let each = (info.value_bytes as usize).next_multiple_of(8);
    let values = bytes.chunks_exact(each).take(if info.kind == BY_PROCESSOR { usize::MAX } else { 1 });
    let from = cell.offset as usize;
    let mut sum = 0u64;
    let mut n = 0;
    for value in values {
        sum = sum.wrapping_add(u64::from_ne_bytes(value[from..from + 8].try_into().unwrap_or_default()));
        n += 1;
    }
    if n == 0 {
        return Err(HostError::form(path, &format!("{} bytes", bytes.len()), format!("{each} at least")));
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Made(MapInfo, Vec<u8>);

    impl MapCalls for Made {
        fn value(&self, map: &Path, _: u32) -> io::Result<(MapInfo, Vec<u8>)> {
            if map.ends_with("gone") { Err(io::Error::from_raw_os_error(2)) } else { Ok((self.0, self.1.clone())) }
        }
    }

    const STATISTICS: MapInfo = MapInfo { kind: BY_PROCESSOR, key_bytes: 4, value_bytes: 16, entries: 5 };

    fn cell(map: &str, key: u32, offset: u32) -> MapCell {
        MapCell { map: map.into(), key, offset }
    }

    /// Packets and bytes on three processors.
    fn bytes() -> Vec<u8> {
        [10u64, 640, 20, 1_280, u64::MAX, 0].iter().flat_map(|n| n.to_ne_bytes()).collect()
    }

    #[test]
    fn values_of_processors_are_added_up() {
        let of = |info, cells: &[MapCell]| sum(&Made(info, bytes()), cells).map_err(|e| e.to_string());
        assert_eq!(of(STATISTICS, &[cell("m", 2, 0)]), Ok(29), "a total goes round");
        assert_eq!(of(STATISTICS, &[cell("m", 2, 8), cell("m", 4, 8)]), Ok(2 * 1_920));
        assert_eq!(of(MapInfo { kind: ARRAY, ..STATISTICS }, &[cell("m", 2, 8)]), Ok(640), "the same for all");
        assert_eq!(of(STATISTICS, &[]), Ok(0));
    }

    #[test]
    fn maps_of_other_kinds_and_cells_that_they_do_not_have_are_refused() {
        let error = |info, cell| sum(&Made(info, bytes()), &[cell]).unwrap_err().to_string();
        assert!(error(MapInfo { kind: 1, ..STATISTICS }, cell("m", 0, 0)).contains("a map of kind 1"));
        assert!(error(MapInfo { key_bytes: 8, ..STATISTICS }, cell("m", 0, 0)).contains("keys of 8 bytes"));
        assert!(error(STATISTICS, cell("m", 5, 0)).contains("less than the 5 entries"));
        assert!(error(STATISTICS, cell("m", 0, 9)).contains("offset 9 of a value of 16"));
        assert!(error(STATISTICS, cell("m", 0, u32::MAX)).contains("offset"));
        assert!(error(MapInfo { value_bytes: 1 << 20, ..STATISTICS }, cell("m", 0, 0)).contains("1024 at most"));
        assert!(error(STATISTICS, cell("gone", 0, 0)).starts_with("reading gone"));
        assert!(sum(&Made(STATISTICS, vec![0; 15]), &[cell("m", 0, 0)]).is_err(), "shorter than a value");
    }

    #[test]
    fn a_map_that_is_not_there_is_an_error_of_the_system() {
        let why = sum(&KernelMaps, &[cell("/sys/fs/bpf/none-such", 0, 0)]).unwrap_err();
        assert!(why.errno().is_some(), "{why}");
    }

    proptest! {
        #[test]
        fn no_answer_of_a_kernel_panics(kind in 0u32..9, value_bytes: u32, key: u32, offset: u32, n in 0usize..90) {
            let info = MapInfo { kind, value_bytes, ..STATISTICS };
            let _ = sum(&Made(info, vec![7; n]), &[cell("m", key % 8, offset % 40)]);
            let _ = sum(&Made(MapInfo { value_bytes: value_bytes % 64, ..info }, vec![7; n]), &[cell("m", key % 8, offset % 40)]);
        }
    }
}
