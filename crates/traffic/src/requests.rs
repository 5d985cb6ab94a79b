//! Traces of memory requests: addresses, loads or stores, and arrival clocks if there are any.
//!
//! Text formats, one request a line, and a binary one, all of which may be compressed:
//!
//! - `rw`: `R 1f40` or `W 1f40`, the byte address in hex, and a clock behind it if requests arrive in time; last of all
//!   `io` if a device makes it, or `class=3` for a core of that class of service, 0 to 15; `#` starts a comment.
//! - `ramulator`: `LD 0x1f40` or `ST 0x1f40`, the load-store traces of Ramulator 2; decimal without `0x`.
//! - `dramsim3`: `0x1f40 READ 120` or `0x1f40 WRITE 120`, the last number being the clock.
//! - `lackey`: what valgrind's `--tool=lackey --trace-mem=yes` prints: ` L 1ffe,8`, ` S 1ffe,8`, ` M 1ffe,8`, which is
//!   a load and a store. Instruction fetches (`I`) and valgrind's own lines (`==1234==`) are passed over.
//! - `dynamorio`: what drmemtrace's view tool prints: `read` and `write` records. Instruction fetches,
//!   prefetches, flushes, markers and the tool's own lines are passed over.
//! - `binary`: see [`RequestTrace::to_binary`]. Numbers are not parsed, so it is read many times as fast.
//!
//! A trace stands for an experiment, so unlike a capture it is taken as a whole or not at all: the
//! first line that is wrong is an error with its number. Access sizes are not kept: an access counts
//! as one of the line that its first byte is in.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use memchr::{memchr, memmem};
use serde::Serialize;

use units::{CLASSES, DEVICE};

use crate::accesses::{AccessLine, BY_PC, BYTES_AT, decimal, dynamorio, hex, lackey, words};
use crate::damage::Damage;
use crate::error::TrafficError;
use crate::grow::push;
use crate::input::{Compression, InputStream, first_bytes};
use crate::lines::MOST_SILENT;

/// More could not be counted by those who replay them.
pub const MOST_REQUESTS: usize = u32::MAX as usize - 1;

/// How a trace of requests is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestFormat {
    /// `R 1f40`.
    Rw,
    /// `LD 0x1f40`.
    Ramulator,
    /// `0x1f40 READ 120`.
    Dramsim3,
    /// ` L 1f40,8`.
    Lackey,
    /// `... read 8 byte(s) @ 0x1f40 by PC ...`.
    Dynamorio,
    /// Words of 8 bytes.
    Binary,
}

impl RequestFormat {
    /// All formats.
    pub const ALL: [RequestFormat; 6] = [
        RequestFormat::Rw,
        RequestFormat::Ramulator,
        RequestFormat::Dramsim3,
        RequestFormat::Lackey,
        RequestFormat::Dynamorio,
        RequestFormat::Binary,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            RequestFormat::Rw => "rw",
            RequestFormat::Ramulator => "ramulator",
            RequestFormat::Dramsim3 => "dramsim3",
            RequestFormat::Lackey => "lackey",
            RequestFormat::Dynamorio => "dynamorio",
            RequestFormat::Binary => "binary",
        }
    }

    /// The format of that name.
    pub fn named(name: &str) -> Option<RequestFormat> {
        RequestFormat::ALL.into_iter().find(|format| format.name() == name)
    }

    /// What a line must be, with an example.
    fn expected(self) -> &'static str {
        match self {
            RequestFormat::Rw => "`R|W HEXADDRESS [CLOCK] [io|class=0..15]`, as in `R 1f40`",
            RequestFormat::Ramulator => "`LD|ST ADDRESS`, as in `LD 0x1f40`",
            RequestFormat::Dramsim3 => "`HEXADDRESS READ|WRITE CLOCK`, as in `0x1f40 READ 120`",
            RequestFormat::Lackey => "`I|L|S|M HEXADDRESS,BYTES`, as in ` L 1ffe08,8`, or a line of valgrind's",
            RequestFormat::Dynamorio => "`... read|write N byte(s) @ 0xADDRESS ...` or another line of the view tool",
            RequestFormat::Binary => "words of 8 bytes",
        }
    }

    /// The format of which this may be the first line.
    fn of(line: &[u8]) -> Option<RequestFormat> {
        let words: Vec<&[u8]> = words(line).take(3).collect();
        let first = *words.first()?;
        match (first, words.get(1)) {
            (b"R" | b"W", Some(_)) => Some(RequestFormat::Rw),
            (b"LD" | b"ST", Some(_)) => Some(RequestFormat::Ramulator),
            (_, Some(kind)) if direction(kind).is_some() => Some(RequestFormat::Dramsim3),
            (b"I" | b"L" | b"S" | b"M", Some(at)) if at.contains(&b',') => Some(RequestFormat::Lackey),
            _ if first.starts_with(b"==") => Some(RequestFormat::Lackey),
            (b"Output", Some(&b"format:")) => Some(RequestFormat::Dynamorio),
            _ if memmem::find(line, BYTES_AT).is_some() || memmem::find(line, b"<marker").is_some() => {
                Some(RequestFormat::Dynamorio)
            }
            _ => None,
        }
    }
}

/// A trace of memory requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTrace {
    /// Byte addresses.
    pub addresses: Vec<u64>,
    /// Which of them are stores; empty where none is.
    pub writes: Vec<bool>,
    /// When they arrive, in clocks that do not decrease; empty where the trace does not say.
    pub clocks: Vec<u64>,
    /// The place in the program of each, numbered in the order of their first use; empty where the trace does not say.
    /// Places after the 65,535th share a number.
    pub sites: Vec<u16>,
    /// Who makes each: a class of service, 0 to 15, or [`DEVICE`]; empty where the trace does not say.
    pub origins: Vec<u8>,
    /// How it was written.
    pub format: RequestFormat,
    /// How it was compressed.
    pub compression: Compression,
}

const MAGIC: &[u8; 8] = b"WSTRACE1";
const CLOCKS: u64 = 1;
const ORIGINS: u64 = 2;
/// The longest line that is read.
const MAX_LINE: usize = 1 << 12;
/// Read at a time where there are no lines.
const BLOCK: usize = 1 << 16;
/// Of a file's requests: 84 million without clocks, 47 million with.
const MOST_BYTES: usize = 768 << 20;

impl RequestTrace {
    /// A trace that was made and not read: `writes` and `clocks` are empty or as long as `addresses`.
    pub fn new(addresses: Vec<u64>, writes: Vec<bool>, clocks: Vec<u64>) -> RequestTrace {
        let (format, compression) = (RequestFormat::Binary, Compression::Plain);
        RequestTrace { addresses, writes, clocks, sites: Vec::new(), origins: Vec::new(), format, compression }
    }

    /// Reads a file. The format is told from the first line that says something if it is not given.
    ///
    /// # Errors
    /// A file that cannot be read or decompressed to its end, no known format, a line that is not of
    /// the format, clocks that decrease or are there for some lines only, no request at all, or more
    /// than take 768 MiB.
    pub fn open(path: impl AsRef<Path>, format: Option<RequestFormat>) -> Result<RequestTrace, TrafficError> {
        let path = path.as_ref();
        RequestReader::new(InputStream::open(path)?, path.display().to_string()).read(format)
    }

    /// The line of a file in `format` that request `index` is on; of a binary trace its record. [`None`] if the file cannot
    /// be read up to there, or only once, as a pipe.
    pub fn line_of(path: impl AsRef<Path>, format: RequestFormat, index: usize) -> Option<u64> {
        if format == RequestFormat::Binary {
            return Some(index as u64 + 1);
        }
        if !path.as_ref().is_file() {
            return None;
        }
        let mut reader = RequestReader::new(InputStream::open(path.as_ref()).ok()?, String::new());
        reader.enough = index + 1;
        reader.lines(Some(format)).ok()?;
        (reader.requests.addresses.len() > index).then_some(reader.number)
    }

    /// As [`RequestTrace::open`], of bytes; `name` is for errors.
    ///
    /// # Errors
    /// As [`RequestTrace::open`].
    pub fn from_bytes(bytes: Vec<u8>, name: &str, format: Option<RequestFormat>) -> Result<RequestTrace, TrafficError> {
        let input = InputStream::new(Box::new(io::Cursor::new(bytes)))
            .map_err(|source| TrafficError::Open { path: name.into(), source })?;
        RequestReader::new(input, name.into()).read(format)
    }

    /// Writes the binary form: the eight bytes `WSTRACE1`, then words of 8 bytes, the lowest first. The first
    /// word is 0, and 1 more where clocks follow, and 2 more where it is told who makes requests. Then for each request a
    /// word that is its byte address with bit 0 replaced, 1 for a store; a word with its clock, if there are any; and one
    /// with its class of service, or [`DEVICE`], if that is told.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn to_binary(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(MAGIC)?;
        let clocks = if self.clocks.is_empty() { 0 } else { CLOCKS };
        let origins = if self.origins.is_empty() { 0 } else { ORIGINS };
        out.write_all(&(clocks | origins).to_le_bytes())?;
        for (i, address) in self.addresses.iter().enumerate() {
            let store = self.writes.get(i).copied().unwrap_or(false);
            out.write_all(&(address & !1 | u64::from(store)).to_le_bytes())?;
            if let Some(clock) = self.clocks.get(i) {
                out.write_all(&clock.to_le_bytes())?;
            }
            if let Some(&origin) = self.origins.get(i) {
                out.write_all(&u64::from(origin).to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// Of which place in the program the requests are that came since.
    fn at_site(&mut self, site: u16) {
        // Without a place before the first one.
        while self.sites.len() < self.addresses.len() {
            push(&mut self.sites, site);
        }
    }

    /// Bytes that they take.
    fn bytes(&self) -> usize {
        8 * (self.addresses.len() + self.clocks.len()) + 2 * self.sites.len() + self.writes.len() + self.origins.len()
    }

    fn push(&mut self, address: u64, write: bool) {
        // Most traces that only read never hold a flag.
        if write && self.writes.is_empty() {
            self.writes.resize(self.addresses.len(), false);
        }
        push(&mut self.addresses, address);
        if write || !self.writes.is_empty() {
            push(&mut self.writes, write);
        }
    }
}

/// What a line holds.
enum TraceLine {
    Nothing,
    Request {
        address: u64,
        write: bool,
        clock: Option<u64>,
        /// A core of class 0 when nobody is named.
        origin: Option<u8>,
    },
    /// A load and a store.
    Modify(u64),
}

struct RequestReader {
    input: InputStream,
    name: String,
    requests: RequestTrace,
    /// Of the line at hand; of the record, of a binary trace.
    number: u64,
    /// Blank lines and comments since the latest other line.
    silent: u64,
    /// No line is read after so many requests.
    enough: usize,
    /// Numbers of the places in the program, by address.
    places: HashMap<u64, u16>,
    /// The address of the latest instruction.
    fetched: Option<u64>,
}

impl RequestReader {
    fn new(input: InputStream, name: String) -> RequestReader {
        let empty = RequestTrace::new(Vec::new(), Vec::new(), Vec::new());
        let requests = RequestTrace { compression: input.compression, ..empty };
        RequestReader {
            input,
            name,
            requests,
            number: 0,
            silent: 0,
            enough: usize::MAX,
            places: HashMap::new(),
            fetched: None,
        }
    }

    fn read(mut self, format: Option<RequestFormat>) -> Result<RequestTrace, TrafficError> {
        let is_binary = self.input.peek(MAGIC.len()).starts_with(MAGIC);
        match format {
            Some(RequestFormat::Binary) if !is_binary => {
                let found = first_bytes(self.input.peek(MAGIC.len()));
                return Err(self.unusable(format!("not a binary trace: it starts with {found}, not with `WSTRACE1`")));
            }
            Some(other) if is_binary && other != RequestFormat::Binary => {
                let why = format!("a binary trace, where {} is asked for: ask for binary", other.name());
                return Err(self.unusable(why));
            }
            _ if is_binary => {
                self.requests.format = RequestFormat::Binary;
                self.words()?;
            }
            _ => self.lines(format)?,
        }
        self.room()?;
        let mut damage = Damage::default();
        self.input.report_failure(&mut damage);
        if let Some(finding) = damage.first.first() {
            let read = self.requests.addresses.len();
            let why = format!("{} (byte {}); {read} requests came before", finding.what, finding.offset);
            return Err(self.unusable(why));
        }
        if self.requests.addresses.is_empty() {
            return Err(self.unusable("not a single request in it: a trace has at least one".into()));
        }
        Ok(self.requests)
    }

    fn words(&mut self) -> Result<(), TrafficError> {
        self.input.consume(MAGIC.len());
        let flags = match self.input.peek(8).first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => return Err(self.unusable("it ends before its first word, which says whether clocks follow".into())),
        };
        if flags > CLOCKS | ORIGINS {
            let expected = "0, and 1 more where clocks follow, and 2 more where classes and devices do";
            return Err(self.unusable(format!("its first word is {flags:#x}: expected {expected}")));
        }
        self.input.consume(8);
        let (timed, told) = (flags & CLOCKS != 0, flags & ORIGINS != 0);
        let record = 8 * (1 + usize::from(timed) + usize::from(told));
        loop {
            let bytes = self.input.peek(BLOCK);
            let whole = bytes.len() / record * record;
            if whole == 0 {
                let left = bytes.len();
                self.number += 1;
                return match left {
                    0 => Ok(()),
                    _ => Err(self.wrong(format!("ends after {left} bytes"), format!("records of {record} bytes"))),
                };
            }
            let block = bytes[..whole].to_vec();
            for record in block.chunks_exact(record) {
                self.number += 1;
                let mut words = record.chunks_exact(8).map(|w| w.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)));
                let word = words.next().unwrap_or_default();
                self.requests.push(word & !1, word & 1 == 1);
                if timed && let Some(clock) = words.next() {
                    self.clock(clock)?;
                }
                if told && let Some(origin) = words.next() {
                    if origin >= u64::from(CLASSES) && origin != u64::from(DEVICE) {
                        let expected = format!("0 to {}, or {DEVICE} of a device", CLASSES - 1);
                        return Err(self.wrong(format!("class of service {origin}"), expected));
                    }
                    self.requests.origins.push(origin as u8);
                }
            }
            self.input.consume(whole);
            self.room()?;
        }
    }

    fn lines(&mut self, mut format: Option<RequestFormat>) -> Result<(), TrafficError> {
        loop {
            let bytes = self.input.peek(MAX_LINE);
            if bytes.is_empty() {
                return Ok(());
            }
            self.number += 1;
            let end = memchr(b'\n', &bytes[..bytes.len().min(MAX_LINE)]);
            if end.is_none() && bytes.len() >= MAX_LINE {
                let came = shown(bytes);
                return Err(self.no_line(format, format!("{came} is longer than {MAX_LINE} bytes")));
            }
            let length = end.unwrap_or(bytes.len());
            let line = bytes[..length].trim_ascii();
            self.silent += 1;
            if !line.is_empty() && line[0] != b'#' {
                let known = match format {
                    Some(known) => known,
                    None => match RequestFormat::of(line) {
                        Some(told) => told,
                        None => {
                            let came = shown(line);
                            return Err(self.no_line(None, came));
                        }
                    },
                };
                format = Some(known);
                self.requests.format = known;
                let Some(parsed) = parse(known, line) else {
                    let came = shown(line);
                    return Err(self.wrong(came, known.expected().into()));
                };
                self.fetched = program_counter(known, line).or(self.fetched);
                self.silent = 0;
                self.line(parsed)?;
                if let Some(pc) = self.fetched
                    && self.requests.sites.len() < self.requests.addresses.len()
                {
                    let site = self.place(pc);
                    self.requests.at_site(site);
                }
            }
            if self.requests.addresses.len() >= self.enough {
                return Ok(());
            }
            self.input.consume(length + 1);
            if self.number.is_multiple_of(BLOCK as u64) {
                self.room()?;
            }
        }
    }

    fn line(&mut self, line: TraceLine) -> Result<(), TrafficError> {
        match line {
            TraceLine::Nothing => {}
            TraceLine::Modify(address) => {
                self.requests.push(address, false);
                self.requests.push(address, true);
            }
            TraceLine::Request { address, write, clock, origin } => {
                let timed = !self.requests.clocks.is_empty();
                if !self.requests.addresses.is_empty() && timed != clock.is_some() {
                    let (came, expected) = if timed {
                        ("no clock behind the address", "one, as before: in all lines or in none")
                    } else {
                        ("a clock behind the address", "none, as before: in all lines or in none")
                    };
                    return Err(self.wrong(came.into(), expected.into()));
                }
                self.requests.push(address, write);
                if let Some(clock) = clock {
                    self.clock(clock)?;
                }
                let of = self.requests.addresses.len();
                if origin.is_some() {
                    // Those before it named nobody.
                    self.requests.origins.resize(of - 1, 0);
                }
                if origin.is_some() || !self.requests.origins.is_empty() {
                    self.requests.origins.push(origin.unwrap_or(0));
                }
            }
        }
        Ok(())
    }

    fn place(&mut self, pc: u64) -> u16 {
        let next = self.places.len().min(usize::from(u16::MAX)) as u16;
        if next == u16::MAX {
            self.places.get(&pc).copied().unwrap_or(next)
        } else {
            *self.places.entry(pc).or_insert(next)
        }
    }

    fn clock(&mut self, clock: u64) -> Result<(), TrafficError> {
        if let Some(&before) = self.requests.clocks.last()
            && clock < before
        {
            let expected = "clocks that do not decrease: sort the trace by them".into();
            return Err(self.wrong(format!("clock {clock} after {before}"), expected));
        }
        push(&mut self.requests.clocks, clock);
        Ok(())
    }

    fn room(&self) -> Result<(), TrafficError> {
        if self.requests.bytes() > MOST_BYTES {
            let most = format!("{} MiB of requests, here {}", MOST_BYTES >> 20, self.requests.addresses.len());
            let what = if self.requests.format == RequestFormat::Binary { "record" } else { "line" };
            let (name, at) = (self.name.clone(), format!("{what} {}", self.number));
            return Err(TrafficError::TooMuch { name, at, most, remedy: "split the trace" });
        }
        if self.silent > MOST_SILENT {
            let most = format!("{MOST_SILENT} lines in a row that say nothing");
            let (name, at) = (self.name.clone(), format!("line {}", self.number));
            return Err(TrafficError::TooMuch { name, at, most, remedy: "give the file that was meant" });
        }
        Ok(())
    }

    fn wrong(&self, came: String, expected: String) -> TrafficError {
        TrafficError::Request { name: self.name.clone(), line: self.number, came, expected }
    }

    /// A line of which not even the format is known.
    fn no_line(&self, format: Option<RequestFormat>, came: String) -> TrafficError {
        let expected = format.map_or_else(
            || {
                let texts = RequestFormat::ALL.into_iter().filter(|f| *f != RequestFormat::Binary);
                let all: Vec<String> = texts.map(|f| format!("{} ({})", f.name(), f.expected())).collect();
                format!("a line of one of the formats {}", all.join(", "))
            },
            |format| format.expected().into(),
        );
        self.wrong(came, expected)
    }

    fn unusable(&self, why: String) -> TrafficError {
        TrafficError::Trace { name: self.name.clone(), why }
    }
}

/// [`None`] if the line is not of the format. It has no white space around it.
fn parse(format: RequestFormat, line: &[u8]) -> Option<TraceLine> {
    match format {
        RequestFormat::Rw => {
            let code = line.iter().position(|&b| b == b'#').map_or(line, |at| &line[..at]);
            let mut words = words(code);
            let write = match words.next()? {
                b"R" => false,
                b"W" => true,
                _ => return None,
            };
            let address = hex(words.next()?)?;
            let mut last = words.next();
            let clock = last.and_then(decimal);
            if clock.is_some() {
                last = words.next();
            }
            let origin = last.map(origin);
            (words.next().is_none() && origin != Some(None)).then_some(TraceLine::Request {
                address,
                write,
                clock,
                origin: origin.flatten(),
            })
        }
        RequestFormat::Ramulator => {
            let mut words = words(line);
            let write = match words.next()? {
                b"LD" => false,
                b"ST" => true,
                _ => return None,
            };
            let at = words.next()?;
            let address = if at.starts_with(b"0x") { hex(at)? } else { decimal(at)? };
            words.next().is_none().then_some(TraceLine::Request { address, write, clock: None, origin: None })
        }
        RequestFormat::Dramsim3 => {
            let mut words = words(line);
            let address = hex(words.next()?)?;
            let write = direction(words.next()?)?;
            let clock = decimal(words.next()?)?;
            words.next().is_none().then_some(TraceLine::Request { address, write, clock: Some(clock), origin: None })
        }
        RequestFormat::Lackey => lackey(line).map(request),
        RequestFormat::Dynamorio => dynamorio(line).map(request),
        RequestFormat::Binary => None,
    }
}

/// The address of the instruction that a line is about.
fn program_counter(format: RequestFormat, line: &[u8]) -> Option<u64> {
    match format {
        RequestFormat::Lackey if line[0] == b'I' => match lackey(line)? {
            AccessLine::Fetch(pc) => Some(pc),
            _ => None,
        },
        RequestFormat::Dynamorio => {
            let at = memmem::find(line, BY_PC)?;
            words(&line[at + BY_PC.len()..]).next().and_then(hex)
        }
        _ => None,
    }
}

/// Access sizes are not kept.
fn request(line: AccessLine) -> TraceLine {
    match line {
        AccessLine::Nothing | AccessLine::Fetch(_) => TraceLine::Nothing,
        AccessLine::Load(at) => TraceLine::Request { address: at.address, write: false, clock: None, origin: None },
        AccessLine::Store(at) => TraceLine::Request { address: at.address, write: true, clock: None, origin: None },
        AccessLine::Modify(at) => TraceLine::Modify(at.address),
    }
}

/// Who makes a request: `io` or `class=3`.
fn origin(word: &[u8]) -> Option<u8> {
    if word == b"io" {
        return Some(DEVICE);
    }
    let class = decimal(word.strip_prefix(b"class=")?)?;
    (class < u64::from(CLASSES)).then_some(class as u8)
}

/// Whether it is a store.
fn direction(word: &[u8]) -> Option<bool> {
    if word.eq_ignore_ascii_case(b"READ") {
        Some(false)
    } else if word.eq_ignore_ascii_case(b"WRITE") {
        Some(true)
    } else {
        None
    }
}

/// The start of a line, for messages.
fn shown(line: &[u8]) -> String {
    const MOST: usize = 60;
    let text: String = String::from_utf8_lossy(line).chars().take(MOST).flat_map(char::escape_debug).collect();
    let more = if line.len() > MOST { "..." } else { "" };
    format!("`{text}{more}`")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::input::tests::gzip;

    fn read(text: &str) -> Result<RequestTrace, String> {
        RequestTrace::from_bytes(text.into(), "t", None).map_err(|e| e.to_string())
    }

    fn wrong(text: &str) -> String {
        read(text).unwrap_err()
    }

    #[test]
    fn every_format_is_told_by_its_first_line() {
        use RequestFormat::*;
        let texts = [
            (Rw, "# made by hand\n\nR 1f40\nW 2000 # here\n", vec![0x1f40, 0x2000], vec![false, true]),
            (Ramulator, "LD 0x1f40\nST 8192\r\n", vec![0x1f40, 0x2000], vec![false, true]),
            (Dramsim3, "0x1f40 READ 0\n0x2000 WRITE 7", vec![0x1f40, 0x2000], vec![false, true]),
            (
                Lackey,
                "==12== Lackey\nI  04016b80,3\n L 1ffeffe7e,8\n S 2000,4\n M 3000,8\n==12== \n",
                vec![0x1_ffef_fe7e, 0x2000, 0x3000, 0x3000],
                vec![false, true, false, true],
            ),
            (
                Dynamorio,
                "Output format:\n<--record#-> <--instr#->: <---tid---> <record details>\n-----\n\
                 \x20 1  0:  2765543 <marker: version 4>\n\
                 \x20 2  1:  2765543 ifetch       6 byte(s) @ 0x0000000000404a78 0f 84 jz\n\
                 \x20 3  1:  2765543 read         8 byte(s) @ 0x00007ffd14a8eb68 by PC 0x404a7e\n\
                 \x20 4  1:  2765543 write        4 byte(s) @ 0x0000000000002000 by PC 0x404a7e\n\
                 \x20 5  1:  2765543 <thread 2765543 exited>\nView tool results:\n      1 : total instructions\n",
                vec![0x7ffd_14a8_eb68, 0x2000],
                vec![false, true],
            ),
        ];
        for (format, text, addresses, writes) in texts {
            let found = read(text).unwrap();
            let places = usize::from(matches!(format, Lackey | Dynamorio)) * addresses.len();
            assert_eq!((found.format, found.sites), (format, vec![0; places]));
            assert_eq!((found.addresses, found.writes), (addresses, writes));
        }
        assert_eq!(read("0x40 READ 3\n0x40 READ 9").unwrap().clocks, [3, 9]);
        assert_eq!(read("R 40 3\nR 40 9").unwrap().clocks, [3, 9]);
    }

    #[test]
    fn each_way_to_be_wrong_names_the_line_and_what_is_expected() {
        for (text, expected) in [
            ("R 40\nQ 40\n", "t:2: `Q 40`: expected `R|W HEXADDRESS [CLOCK] [io|class=0..15]`, as in `R 1f40`"),
            ("R 40\nR\n", "t:2: `R`: expected `R|W HEXADDRESS [CLOCK] [io|class=0..15]`, as in `R 1f40`"),
            ("R 40\nR 4g\n", "t:2: `R 4g`: expected `R|W HEXADDRESS [CLOCK] [io|class=0..15]`, as in `R 1f40`"),
            ("R 40 1 2\n", "t:1: `R 40 1 2`: expected `R|W HEXADDRESS [CLOCK] [io|class=0..15]`, as in `R 1f40`"),
            (
                "R 10000000000000000\n",
                "t:1: `R 10000000000000000`: expected `R|W HEXADDRESS [CLOCK] [io|class=0..15]`, as in `R 1f40`",
            ),
            ("R 40 -1\n", "t:1: `R 40 -1`: expected `R|W HEXADDRESS [CLOCK] [io|class=0..15]`, as in `R 1f40`"),
            ("R 40 io 3\n", "t:1: `R 40 io 3`: expected `R|W HEXADDRESS [CLOCK] [io|class=0..15]`, as in `R 1f40`"),
            (
                "R 40 class=16\n",
                "t:1: `R 40 class=16`: expected `R|W HEXADDRESS [CLOCK] [io|class=0..15]`, as in `R 1f40`",
            ),
            ("R 40 9\nR 80 8\n", "t:2: clock 8 after 9: expected clocks that do not decrease: sort the trace by them"),
            ("R 40 9\nR 80\n", "t:2: no clock behind the address: expected one, as before: in all lines or in none"),
            ("R 40\nR 80 9\n", "t:2: a clock behind the address: expected none, as before: in all lines or in none"),
            ("LD 0x40\nLD 0xz\n", "t:2: `LD 0xz`: expected `LD|ST ADDRESS`, as in `LD 0x1f40`"),
            (
                "0x40 READ 1\n0x40 READ\n",
                "t:2: `0x40 READ`: expected `HEXADDRESS READ|WRITE CLOCK`, as in `0x1f40 READ 120`",
            ),
            (
                " L 40,8\n L 40\n",
                "t:2: `L 40`: expected `I|L|S|M HEXADDRESS,BYTES`, as in ` L 1ffe08,8`, or a line of valgrind's",
            ),
            ("", "t: not a single request in it: a trace has at least one"),
            ("# nothing\n", "t: not a single request in it: a trace has at least one"),
        ] {
            assert_eq!(wrong(text), expected);
        }
        let none = wrong("hello world\n");
        assert!(none.starts_with("t:1: `hello world`: expected a line of one of the formats rw (`R|W HEX"), "{none}");
        assert!(wrong(&"x".repeat(5000)).contains("is longer than 4096 bytes"));
        let cut = gzip("R 40\n".repeat(100_000).as_bytes());
        let cut = RequestTrace::from_bytes(cut[..cut.len() / 2].to_vec(), "t", None).unwrap_err().to_string();
        assert!(cut.starts_with("t: the gzip stream breaks here") || cut.contains("expected"), "{cut}");
    }

    #[test]
    fn places_in_the_program_are_numbered_as_they_come() {
        let view = |pcs: &[u64]| -> String {
            let line = |pc: &u64| format!("1 1: W0.T3 read 8 byte(s) @ 0x40 by PC 0x{pc:x}\n");
            pcs.iter().map(line).collect()
        };
        assert_eq!(read(&view(&[9, 7, 9, 8, 7])).unwrap().sites, [0, 1, 0, 2, 1]);
        let many: Vec<u64> = (0..70_000).chain([3, 69_999]).collect();
        let sites = read(&view(&many)).unwrap().sites;
        assert_eq!((sites[65_534], sites[65_535], sites[69_999]), (65_534, u16::MAX, u16::MAX));
        assert_eq!(sites[70_000..], [3, u16::MAX]);
        // A load and a store of one instruction; what came before the first instruction is taken to be its.
        assert_eq!(read(" L 40,8\nI  9,3\n M 40,8\nI  7,3\n S 80,8\n").unwrap().sites, [0, 0, 0, 1]);
    }

    #[test]
    fn bytes_of_long_instructions_on_a_line_of_their_own_are_passed_over() {
        let text = "Output format:\n  10  4:  W0.T3 ifetch      10 byte(s) @ 0x0000000000404a78 48 b8 ff ff ff 7f 00 00 mov\n\
                    \x20 10  4:  W0.T3                                          00 26\n\
                    \x20 11  4:  W0.T3 read         8 byte(s) @ 0x0000000000002000 by PC 0x404a78\n\
                    \x20 12  5:  W0.T3 ifetch      11 byte(s) @ 0x0000000000404a82 48 81 84 24 00 00 00 00 add\n\
                    \x20                                                             ff ff 7f\n\
                    \x20 13  5:  W0.T3        00000026\n\
                    \x20 14  5:  W0.T3 write        8 byte(s) @ 0x0000000000003000 by PC 0x404a82\n";
        let found = read(text).unwrap();
        assert_eq!((found.addresses, found.writes), (vec![0x2000, 0x3000], vec![false, true]));
        assert!(wrong(&format!("{text}  15  5:  W0.T3 hello\n")).contains("t:9: `15  5:  W0.T3 hello`"));
        assert!(wrong(&format!("{text}cafe zz\n")).contains("t:9: "));
    }

    #[test]
    fn a_binary_trace_that_is_wrong_says_where() {
        let wrong = |tail: &[u8]| {
            let bytes = [MAGIC, tail].concat();
            RequestTrace::from_bytes(bytes, "t", None).unwrap_err().to_string()
        };
        let zero = 0u64.to_le_bytes();
        assert_eq!(wrong(&zero[..3]), "t: it ends before its first word, which says whether clocks follow");
        assert_eq!(
            wrong(&4u64.to_le_bytes()),
            "t: its first word is 0x4: expected 0, and 1 more where clocks follow, and 2 more where classes and devices do"
        );
        assert_eq!(
            wrong(&[2u64, 0x40, 16].map(u64::to_le_bytes).concat()),
            "t:1: class of service 16: expected 0 to 15, or 255 of a device"
        );
        assert_eq!(
            wrong(&[&zero[..], &zero, &zero[..5]].concat()),
            "t:2: ends after 5 bytes: expected records of 8 bytes"
        );
        let (one, nine, eight) = (1u64.to_le_bytes(), 9u64.to_le_bytes(), 8u64.to_le_bytes());
        assert_eq!(
            wrong(&[&one[..], &zero, &nine, &zero, &eight].concat()),
            "t:2: clock 8 after 9: expected clocks that do not decrease: sort the trace by them"
        );
        let forced =
            |bytes: &[u8], format| RequestTrace::from_bytes(bytes.into(), "t", Some(format)).unwrap_err().to_string();
        assert_eq!(
            forced(b"R 40\n", RequestFormat::Binary),
            "t: not a binary trace: it starts with bytes 52 20 34 30 0a, not with `WSTRACE1`"
        );
        assert_eq!(forced(MAGIC, RequestFormat::Rw), "t: a binary trace, where rw is asked for: ask for binary");
    }

    proptest! {
        #[test]
        fn text_and_binary_hold_the_same(
            trace in prop::collection::vec((any::<u64>(), any::<bool>(), 0u64..1000, 0u8..20), 1..200),
            timed: bool,
            told: bool,
            packed: bool,
        ) {
            let mut clock = 0;
            let mut text = String::new();
            for (address, write, gap, origin) in &trace {
                clock += gap;
                let kind = if *write { "W" } else { "R" };
                let at = if timed { format!(" {clock}") } else { String::new() };
                let by = match origin {
                    17 if told => " io".into(),
                    0..=15 if told => format!(" class={origin}"),
                    _ => String::new(),
                };
                text += &format!("{kind} {:x}{at}{by}\n", address & !1);
            }
            let as_text = read(&text).unwrap();
            let origins = trace.iter().map(|(.., origin)| match origin {
                17 => DEVICE,
                16.. => 0,
                class => *class,
            });
            if as_text.origins.is_empty() {
                prop_assert!(!told || trace.iter().all(|(.., origin)| *origin == 16 || *origin > 17));
            } else {
                prop_assert_eq!(&as_text.origins, &origins.collect::<Vec<u8>>());
            }
            let mut binary = Vec::new();
            as_text.to_binary(&mut binary).unwrap();
            let bytes = if packed { gzip(&binary) } else { binary };
            let as_binary = RequestTrace::from_bytes(bytes, "t", None).unwrap();
            prop_assert_eq!(as_binary.format, RequestFormat::Binary);
            let compression = if packed { Compression::Gzip } else { Compression::Plain };
            prop_assert_eq!(as_binary.compression, compression);
            prop_assert_eq!(
                (as_binary.addresses, as_binary.writes, as_binary.clocks, as_binary.origins),
                (as_text.addresses, as_text.writes, as_text.clocks, as_text.origins)
            );
        }

        #[test]
        fn any_bytes_are_a_trace_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300), magic: bool) {
            let head: &[u8] = if magic { MAGIC } else { b"" };
            let _ = RequestTrace::from_bytes([head, &bytes].concat(), "t", None);
        }
    }
}
