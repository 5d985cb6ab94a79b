//! A byte stream to look ahead in: decompressed by magic, with an offset, in constant memory.
//!
//! A broken or cut compressed stream ends the input where it breaks; the readers use what came
//! before. Decompression is streamed, so a decompression bomb costs time in proportion to what is
//! read from it and no memory. Decoders are limited to [`DECODER_MEMORY`] of state.

#[cfg(not(target_family = "wasm"))]
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::damage::{Damage, DamageKind};
use crate::error::TrafficError;

/// The most that [`InputStream::peek`] is asked for by any reader.
pub(crate) const MAX_PEEK: usize = 1 << 20;
const CHUNK: usize = 1 << 17;
/// State a decoder may hold: xz at its highest standard preset needs 65 MiB to decode.
#[cfg(not(target_family = "wasm"))]
const DECODER_MEMORY: u64 = 256 << 20;
/// `windowLog` 27: 128 MiB, the limit of the zstd command line without `--long`.
#[cfg(not(target_family = "wasm"))]
const ZSTD_WINDOW_LOG: u32 = 27;

/// How an input was compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Not at all.
    Plain,
    /// gzip, one or several members.
    Gzip,
    /// xz, one or several streams.
    Xz,
    /// Zstandard, one or several frames.
    Zstd,
}

/// Asks whoever reads a file to stop soon. Clones are the same request.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Not asked yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A file whose bytes are hashed as they are read.
struct Tapped {
    file: File,
    hasher: blake3::Hasher,
}

struct Tap(Arc<Mutex<Tapped>>);

impl Read for Tap {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut tapped = locked(&self.0);
        let n = tapped.file.read(buffer)?;
        tapped.hasher.update(&buffer[..n]);
        Ok(n)
    }
}

/// Whether a file can be read to its end, which a pipe has not.
fn is_whole(file: &File) -> bool {
    #[cfg(not(target_family = "wasm"))]
    return file.metadata().is_ok_and(|m| m.is_file());
    #[cfg(target_family = "wasm")]
    return file.is_whole();
}

/// A reader that has panicked leaves what it had read.
fn locked(tapped: &Mutex<Tapped>) -> MutexGuard<'_, Tapped> {
    tapped.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream with look-ahead.
pub(crate) struct InputStream {
    inner: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Unread bytes are `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Bytes of the decompressed stream before `start`.
    offset: u64,
    ended: bool,
    failure: Option<io::Error>,
    stop: Stop,
    tapped: Option<Arc<Mutex<Tapped>>>,
    pub(crate) compression: Compression,
}

impl InputStream {
    pub(crate) fn open(path: &Path) -> Result<InputStream, TrafficError> {
        InputStream::new(Box::new(file(path)?)).map_err(|source| TrafficError::Open { path: path.into(), source })
    }

    /// Opens a file that ends early once `stop` is set, and whose bytes are hashed for
    /// [`InputStream::content`].
    pub(crate) fn open_watched(path: &Path, stop: &Stop) -> Result<InputStream, TrafficError> {
        let tapped = Arc::new(Mutex::new(Tapped { file: file(path)?, hasher: blake3::Hasher::new() }));
        let input = InputStream::new(Box::new(Tap(tapped.clone())));
        let input = input.map_err(|source| TrafficError::Open { path: path.into(), source })?;
        Ok(InputStream { stop: stop.clone(), tapped: Some(tapped), ..input })
    }

    /// The BLAKE3 hash, in hex, of all bytes of the file, as they lie there; of a pipe, which can be
    /// read but once, of those that were read.
    ///
    /// # Errors
    /// [`TrafficError::Stopped`]; a file that cannot be read to its end is hashed up to there.
    pub(crate) fn content(&mut self) -> Result<Option<String>, TrafficError> {
        let Some(tapped) = &self.tapped else { return Ok(None) };
        let mut tapped = locked(tapped);
        if is_whole(&tapped.file) {
            let mut buffer = vec![0; CHUNK];
            while !self.stop.is_set() {
                match tapped.file.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(n) => _ = tapped.hasher.update(&buffer[..n]),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        }
        if self.stop.is_set() {
            return Err(TrafficError::Stopped);
        }
        Ok(Some(tapped.hasher.finalize().to_hex().to_string()))
    }

    /// Looks at the first bytes and puts the right decoder in front.
    pub(crate) fn new(mut raw: Box<dyn Read + Send>) -> io::Result<InputStream> {
        let mut magic = Vec::with_capacity(6);
        (&mut raw).take(6).read_to_end(&mut magic)?;
        let compression = match magic.as_slice() {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0] => Compression::Xz,
            // A Zstandard frame, or a skippable frame in front of one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            _ => Compression::Plain,
        };
        let whole = Cursor::new(magic).chain(raw);
        let inner: Box<dyn Read + Send> = match compression {
            Compression::Plain => Box::new(whole),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(CHUNK, whole))),
            Compression::Xz | Compression::Zstd => decoder(compression, BufReader::with_capacity(CHUNK, whole))?,
        };
        Ok(InputStream {
            inner,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset: 0,
            ended: false,
            failure: None,
            stop: Stop::new(),
            tapped: None,
            compression,
        })
    }

    /// Bytes of the decompressed stream that have been consumed.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The unread bytes, at least `want` of them unless the stream ends first.
    #[inline]
    pub(crate) fn peek(&mut self, want: usize) -> &[u8] {
        debug_assert!(want <= MAX_PEEK);
        if self.end - self.start < want && !self.ended {
            self.fill(want);
        }
        &self.buffer[self.start..self.end]
    }

    /// Passes over `n` bytes that have been peeked at.
    #[inline]
    pub(crate) fn consume(&mut self, n: usize) {
        let n = n.min(self.end - self.start);
        self.start += n;
        self.offset += n as u64;
    }

    /// Passes over `n` bytes; false if the stream ends first.
    pub(crate) fn skip(&mut self, mut n: u64) -> bool {
        loop {
            let here = (self.end - self.start) as u64;
            let step = here.min(n);
            self.consume(step as usize);
            n -= step;
            if n == 0 {
                return true;
            }
            if self.peek(1).is_empty() {
                return false;
            }
        }
    }

    /// That the input has no known format: what it starts with, or why it cannot be read.
    pub(crate) fn unknown(&mut self, name: String, wanted: &'static str, allowed: &'static str) -> TrafficError {
        let head = self.peek(8).to_vec();
        let found = match (self.failure.take(), head.is_empty()) {
            (Some(failure), true) => format!("what cannot be read: {}", self.broken(&failure)),
            (Some(failure), false) => format!("{}, and then {}", first_bytes(&head), self.broken(&failure)),
            (None, _) => first_bytes(&head),
        };
        TrafficError::Format { name, wanted, found, allowed }
    }

    /// What the system or the decoder says, and what helps.
    fn broken(&self, failure: &io::Error) -> String {
        let stream = |remedy: &str| format!("the {} stream breaks here: {failure}{remedy}", self.compression.name());
        match self.compression {
            Compression::Plain => format!("reading fails: {failure}"),
            Compression::Xz if wants_memory(failure) => {
                stream(" (a decoder may take 256 MiB: pack it with a smaller dictionary, as xz -9 does)")
            }
            Compression::Zstd if wants_memory(failure) => {
                stream(" (a window may have 128 MiB: pack it with zstd --long=27 or less)")
            }
            _ => stream(""),
        }
    }

    /// Adds the failure that ended the stream, if one did, to `damage`. Called at the end.
    pub(crate) fn report_failure(&mut self, damage: &mut Damage) {
        if let Some(failure) = self.failure.take() {
            let offset = self.offset + (self.end - self.start) as u64;
            damage.add(DamageKind::Compression, offset, || self.broken(&failure));
        }
    }

    #[cold]
    fn fill(&mut self, want: usize) {
        if self.start + want > self.buffer.len() {
            // Bytes are moved once for at least `want` that are consumed.
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            let room = (2 * want).max(CHUNK);
            if self.buffer.len() < room {
                self.buffer.resize(room, 0);
            }
        }
        // An input that is stopped ends: its reader says so, since what it has is then a part.
        self.ended |= self.stop.is_set();
        while self.end - self.start < want && !self.ended {
            match self.inner.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.ended = true;
                    self.failure = Some(e);
                }
            }
        }
    }
}

/// A decoder of xz or else of Zstandard.
#[cfg(not(target_family = "wasm"))]
fn decoder(compression: Compression, packed: impl BufRead + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    if compression == Compression::Xz {
        let stream = liblzma::stream::Stream::new_stream_decoder(DECODER_MEMORY, liblzma::stream::CONCATENATED)
            .map_err(io::Error::other)?;
        return Ok(Box::new(liblzma::read::XzDecoder::new_stream(packed, stream)));
    }
    let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG)?;
    Ok(Box::new(decoder))
}

/// The libraries of both are C, which is not compiled for a browser.
#[cfg(target_family = "wasm")]
fn decoder(compression: Compression, _: impl BufRead) -> io::Result<Box<dyn Read + Send>> {
    Err(io::Error::other(format!(
        "it is packed with {}, which is not read in a browser: unpack it, or pack it with gzip",
        compression.name()
    )))
}

/// Whether a decoder would need more memory than it may have, as both libraries put it.
fn wants_memory(failure: &io::Error) -> bool {
    let text = failure.to_string().to_ascii_lowercase();
    text.contains("memory")
}

/// The text of a file of at most `most` bytes.
pub(crate) fn text_of(path: &Path, most: u64) -> Result<String, TrafficError> {
    let mut text = String::new();
    let read = file(path)?.take(most + 1).read_to_string(&mut text);
    read.map_err(|source| TrafficError::Open { path: path.into(), source })?;
    if text.len() as u64 > most {
        let (name, most) = (path.display().to_string(), format!("{} MiB of text", most >> 20));
        return Err(TrafficError::TooMuch { name, at: "its end".into(), most, remedy: "give the file that was meant" });
    }
    Ok(text)
}

/// The bytes of a file that [`keep`](crate::keep) was given.
#[cfg(target_family = "wasm")]
type File = crate::page_files::PageFile;

#[cfg(target_family = "wasm")]
fn file(path: &Path) -> Result<File, TrafficError> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "the page was not given it");
    crate::page_files::open(path).ok_or_else(|| TrafficError::Open { path: path.into(), source: missing() })
}

#[cfg(not(target_family = "wasm"))]
fn file(path: &Path) -> Result<File, TrafficError> {
    let failed = |source| TrafficError::Open { path: path.into(), source };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(failed(io::Error::other("it is a directory, a file is wanted")));
    }
    Ok(file)
}

impl Compression {
    /// The field's word.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Plain => "plain",
            Compression::Gzip => "gzip",
            Compression::Xz => "xz",
            Compression::Zstd => "zstd",
        }
    }
}

/// The first bytes of an input in hex, for messages.
pub(crate) fn first_bytes(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "nothing: it is empty".into();
    }
    let hex: Vec<String> = bytes.iter().take(8).map(|b| format!("{b:02x}")).collect();
    format!("bytes {}", hex.join(" "))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    pub(crate) fn xz(data: &[u8]) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    pub(crate) fn all_of(data: Vec<u8>) -> (Vec<u8>, Damage) {
        let mut input = InputStream::new(Box::new(Cursor::new(data))).unwrap();
        let (mut all, mut damage) = (Vec::new(), Damage::default());
        loop {
            let bytes = input.peek(1).to_vec();
            if bytes.is_empty() {
                break;
            }
            input.consume(bytes.len());
            all.extend(bytes);
        }
        assert_eq!(input.offset(), all.len() as u64);
        input.report_failure(&mut damage);
        (all, damage)
    }

    #[test]
    fn every_compression_is_found_by_its_magic_and_gives_the_same_bytes() {
        let data: Vec<u8> = (0..300_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        for packed in [data.clone(), gzip(&data), xz(&data), zstd::encode_all(&data[..], 1).unwrap()] {
            assert!(all_of(packed) == (data.clone(), Damage::default()));
        }
    }

    #[test]
    fn members_and_streams_that_follow_each_other_are_one_input() {
        for pack in [gzip, xz, |d: &[u8]| zstd::encode_all(d, 1).unwrap()] {
            let (all, damage) = all_of([pack(b"one"), pack(b""), pack(b"two")].concat());
            assert_eq!((all.as_slice(), damage.count), (&b"onetwo"[..], 0));
        }
    }

    #[test]
    fn a_cut_stream_gives_what_came_before_and_one_finding() {
        let data: Vec<u8> = (0..300_000u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect();
        for packed in [gzip(&data), xz(&data), zstd::encode_all(&data[..], 1).unwrap()] {
            let (all, damage) = all_of(packed[..packed.len() / 2].to_vec());
            assert!(data.starts_with(&all) && all.len() < data.len());
            assert_eq!(damage.count, 1);
            assert_eq!((damage.first[0].kind, damage.first[0].offset), (DamageKind::Compression, all.len() as u64));
        }
    }

    #[test]
    fn skip_says_whether_the_stream_was_long_enough() {
        let mut input = InputStream::new(Box::new(Cursor::new(vec![7; 500_000]))).unwrap();
        assert!(input.skip(499_999));
        assert_eq!(input.offset(), 499_999);
        assert!(!input.skip(2));
        assert!(input.peek(1).is_empty());
    }
}
