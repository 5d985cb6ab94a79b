//! Lines of a text file that is taken as a whole or not at all.

use memchr::memchr;

use crate::damage::Damage;
use crate::error::TrafficError;
use crate::input::{InputStream, first_bytes};

/// Lines in a row that say nothing, after which a file is given up: a few kilobytes decompress to as many as one likes.
pub(crate) const MOST_SILENT: u64 = 4 << 20;
/// The longest line that is read: of a sound file none is near it.
const MAX_LINE: usize = 4096;

/// The lines of a text file that is taken as a whole or not at all.
pub(crate) struct Lines<'a> {
    input: &'a mut InputStream,
    name: &'a str,
    line: u64,
    /// Lines without anything on them since the latest with something.
    silent: u64,
    first: String,
    longest: usize,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(input: &'a mut InputStream, name: &'a str) -> Lines<'a> {
        let first = first_bytes(input.peek(8));
        Lines { input, name, line: 0, silent: 0, first, longest: MAX_LINE }
    }

    /// Lines may have so many bytes.
    pub(crate) fn up_to(self, longest: usize) -> Lines<'a> {
        Lines { longest, ..self }
    }

    /// The next line that is not empty, without white space at its ends; [`None`] at the end of the file.
    pub(crate) fn next_line(&mut self) -> Result<Option<String>, TrafficError> {
        loop {
            let bytes = self.input.peek(self.longest);
            if bytes.is_empty() {
                return Ok(None);
            }
            self.line += 1;
            let kept = bytes.len().min(self.longest);
            let end = memchr(b'\n', &bytes[..kept]);
            if end.is_none() && bytes.len() >= self.longest {
                return Err(self.error(format!("a line of more than {} bytes", self.longest), "lines of text"));
            }
            let bytes = &bytes[..end.unwrap_or(bytes.len())];
            let text = bytes.trim_ascii();
            let text = (!text.is_empty()).then(|| String::from_utf8_lossy(text).trim().to_string());
            let (step, line) = (bytes.len() + 1, self.line);
            self.input.consume(step);
            let text = text.filter(|text| !text.is_empty());
            let says = text.as_ref().is_some_and(|text| !text.starts_with(['#', ';']));
            self.silent = if says { 0 } else { self.silent + 1 };
            if self.silent > MOST_SILENT {
                let (most, remedy) =
                    (format!("{MOST_SILENT} lines in a row that say nothing"), "give the file that was meant");
                return Err(TrafficError::TooMuch { name: self.name.into(), at: format!("line {line}"), most, remedy });
            }
            if text.is_some() {
                return Ok(text);
            }
        }
    }

    /// That the latest line is one too many.
    pub(crate) fn too_much(&self, most: String, remedy: &'static str) -> TrafficError {
        TrafficError::TooMuch { name: self.name.into(), at: format!("line {}", self.line), most, remedy }
    }

    /// What is wrong with the latest line.
    pub(crate) fn error(&self, came: impl Into<String>, expected: impl Into<String>) -> TrafficError {
        let came = came.into();
        // The text of an error of a whole line has its quotes already.
        let came = if came.starts_with("a line") { came } else { format!("`{came}`") };
        TrafficError::Line { name: self.name.into(), line: self.line, came, expected: expected.into() }
    }

    /// Called at the end: whether the file was read to its end, and had anything in it.
    pub(crate) fn finish(self, format: &'static str, what: &'static str, nothing: bool) -> Result<(), TrafficError> {
        let mut damage = Damage::default();
        self.input.report_failure(&mut damage);
        if let Some(finding) = damage.first.first() {
            return Err(TrafficError::NothingUsable { name: self.name.into(), format, what, why: finding.to_string() });
        }
        if nothing {
            let why = format!("it starts with {}", self.first);
            return Err(TrafficError::NothingUsable { name: self.name.into(), format, what, why });
        }
        Ok(())
    }
}
