//! The data files of `papers/`: what a paper says and what is run for it, carried by the extension so that an
//! installed package has them too.

use pyo3::prelude::*;

/// Room, file name and text, in order.
const FILES: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/papers.rs"));

/// The text of a CSV or TOML file of `papers/<room>/`, or None.
#[pyfunction]
pub(crate) fn paper_file(room: &str, name: &str) -> Option<&'static str> {
    FILES.iter().find(|(of, file, _)| *of == room && *file == name).map(|(_, _, text)| *text)
}

/// The files that `paper_file` gives: room and name.
#[pyfunction]
pub(crate) fn paper_files() -> Vec<(&'static str, &'static str)> {
    FILES.iter().map(|(room, name, _)| (*room, *name)).collect()
}
