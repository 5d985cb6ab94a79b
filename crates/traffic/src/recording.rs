//! Recordings of programs: the memory references that a program made for each packet.
//!
//! Three formats, told by the first line, plain or compressed:
//!
//! - `probe`: what `wirespeed_probe.h` writes, a line an event, after the line `wirespeed-probe 1`: see [`probe`];
//! - `lackey`: what valgrind's `--tool=lackey --trace-mem=yes` prints;
//! - `dynamorio`: what drmemtrace's view tool prints.
//!
//! The last two know nothing of packets: the program marks them by accesses to addresses that no program has otherwise, which
//! `wirespeed_probe.h` makes: see [`marks`]. Instructions are counted where the tool tells of them.
//!
//! References to the bytes of the packet at hand, and to its mbuf, are told from all others, so that they can be made to
//! another packet. All other addresses become [`RecordedRegion`]s: those that the program has named, and for the rest one for
//! each stretch of memory that was touched.
//!
//! A recording stands for a program, so it is taken as a whole or not at all: the first line that is wrong is an error
//! with its number. A packet that is begun and not ended at the end of the file is left out, and counted.

mod marks;
mod probe;
mod stretches;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::accesses::{AccessLine, Touched, dynamorio, lackey};
use crate::error::TrafficError;
use crate::grow::push;
use crate::input::{Compression, InputStream, Stop};
use crate::lines::Lines;
use marks::Marks;
use stretches::stretches;

/// How a recording is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordingFormat {
    /// Events of `wirespeed_probe.h`.
    Probe,
    /// valgrind's lackey.
    Lackey,
    /// drmemtrace's view tool.
    Dynamorio,
}

impl RecordingFormat {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            RecordingFormat::Probe => "probe",
            RecordingFormat::Lackey => "lackey",
            RecordingFormat::Dynamorio => "dynamorio",
        }
    }

    fn of(line: &str) -> Option<RecordingFormat> {
        let mut words = line.split_ascii_whitespace();
        let (first, second) = (words.next()?, words.next());
        match (first, second) {
            (probe::MAGIC, _) => Some(RecordingFormat::Probe),
            ("I" | "L" | "S" | "M", Some(at)) if at.contains(',') => Some(RecordingFormat::Lackey),
            ("Output", Some("format:")) => Some(RecordingFormat::Dynamorio),
            _ if first.starts_with("==") => Some(RecordingFormat::Lackey),
            _ if line.contains("byte(s) @ 0x") || line.contains("<marker") => Some(RecordingFormat::Dynamorio),
            _ => None,
        }
    }

    fn expected(self) -> &'static str {
        match self {
            RecordingFormat::Probe => probe::EXPECTED,
            RecordingFormat::Lackey => "`I|L|S|M HEXADDRESS,BYTES`, as in ` L 1ffe08,8`, or a line of valgrind's",
            RecordingFormat::Dynamorio => "`... read|write N byte(s) @ 0xADDRESS ...` or another line of the view tool",
        }
    }
}

/// What a program did for packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// How it was written.
    pub format: RecordingFormat,
    /// How that was compressed.
    pub compression: Compression,
    /// Memory other than packets.
    pub regions: Vec<RecordedRegion>,
    /// Packets in their order, at least one.
    pub packets: Vec<RecordedPacket>,
    /// What was done for them, one packet after the other.
    pub steps: Vec<RecordedStep>,
    /// References that were made for no packet, and left out.
    pub outside: u64,
    /// References to a packet's headroom.
    pub headroom: u64,
    /// Whether the last packet is left out, because the recording ends within it.
    pub unfinished: bool,
    /// The BLAKE3 hash of the file, in hex, where one was read.
    pub content: Option<String>,
}

/// Memory that a program has used for more than one packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedRegion {
    /// As the program calls it, or where it lies.
    pub name: String,
    /// Its first address: a multiple of 64 unless another region ends on the same line.
    pub base: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Whether cores share one. Where the program does not say: whether nothing was stored there.
    pub shared: bool,
    /// Whether the program has named it.
    pub named: bool,
}

/// A packet that a program has worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedPacket {
    /// Bytes of the frame.
    pub bytes: u32,
    /// Its first step; they end where the next packet's begin.
    pub first: usize,
    /// Instructions after its last reference.
    pub tail: u32,
    /// Whether the program dropped it.
    pub dropped: bool,
}

/// One reference, and the instructions before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedStep {
    /// Instructions since the reference before.
    pub work: u32,
    /// What is done.
    pub kind: RecordedKind,
    /// Where.
    pub place: RecordedPlace,
    /// How many bytes, 1 to 65535, all in the same place.
    pub bytes: u16,
    /// Which place in the program: numbered in the order in which they come first.
    pub site: u16,
    /// How many references back, of the same packet, its address came from; 0 for none.
    pub dep: u8,
}

/// What a reference does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedKind {
    /// A load.
    Load,
    /// A store.
    Store,
    /// A prefetch.
    Prefetch,
    /// A locked read-modify-write.
    Atomic,
    /// A copy from there to `place`.
    CopyFrom(RecordedPlace),
}

/// Where a reference goes: an offset in bytes, and in what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedPlace {
    /// The packet at hand, from the first byte of its frame.
    Packet(u32),
    /// Its mbuf header.
    Mbuf(u16),
    /// A region, by its index.
    Region(u16, u64),
}

/// Memory of packets and steps: 8 million references, or 17 million packets without any.
const MOST_BYTES: usize = 512 << 20;
const PACKET_BYTES: usize = size_of::<RecordedPacket>() * 5 / 4;
const STEP_BYTES: usize = size_of::<RecordedStep>() * 5 / 4;
/// A layout places every region.
const MOST_NAMED: usize = 4096;
/// Bytes of the name of a region.
const MOST_NAME: usize = 4096;
/// `struct rte_mbuf`.
const MBUF_BYTES: u64 = 128;
const WHAT: &str = "a recording of a program";
const ALLOWED: &str = "what wirespeed_probe.h writes, what valgrind --tool=lackey --trace-mem=yes prints, what DynamoRIO's \
                       view tool prints";

impl Recording {
    /// Reads a file, and hashes it; gives up soon after `stop` is set.
    ///
    /// # Errors
    /// A file that cannot be read or decompressed to its end, no known format, a line that is not of the format or does
    /// not fit what came before, no packet, [`TrafficError::Stopped`].
    pub fn open_until(path: impl AsRef<Path>, stop: &Stop) -> Result<Recording, TrafficError> {
        let path = path.as_ref();
        read(InputStream::open_watched(path, stop)?, &path.display().to_string())
    }

    /// As [`Recording::open_until`], without end.
    ///
    /// # Errors
    /// As [`Recording::open_until`].
    pub fn open(path: impl AsRef<Path>) -> Result<Recording, TrafficError> {
        Recording::open_until(path, &Stop::new())
    }

    /// Reads from memory; `name` is for messages.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<Recording, TrafficError> {
        let input = InputStream::new(Box::new(std::io::Cursor::new(bytes)))
            .map_err(|source| TrafficError::Open { path: name.into(), source })?;
        read(input, name)
    }

    /// The steps of packet `index`.
    pub fn steps_of(&self, index: usize) -> &[RecordedStep] {
        let end = self.packets.get(index + 1).map_or(self.steps.len(), |next| next.first);
        self.packets.get(index).map_or(&[], |packet| &self.steps[packet.first..end])
    }

    /// Instructions of all packets; 0 where the recording does not tell.
    pub fn instructions(&self) -> u64 {
        let tails = self.packets.iter().map(|p| u64::from(p.tail)).sum::<u64>();
        tails + self.steps.iter().map(|s| u64::from(s.work)).sum::<u64>()
    }
}

fn read(mut input: InputStream, name: &str) -> Result<Recording, TrafficError> {
    let compression = input.compression;
    let mut tape = RecordingTape::default();
    let mut format = None;
    let mut marks = Marks::default();
    let mut lines = Lines::new(&mut input, name);
    while let Some(line) = lines.next_line()? {
        if line.starts_with('#') {
            continue;
        }
        let known = match format {
            Some(known) => known,
            None => match RecordingFormat::of(&line) {
                Some(RecordingFormat::Probe) => {
                    probe::first_line(&line).map_err(|expected| lines.error(shown(&line), expected))?;
                    format = Some(RecordingFormat::Probe);
                    continue;
                }
                Some(told) => *format.insert(told),
                None => {
                    return Err(TrafficError::Format {
                        name: name.into(),
                        wanted: WHAT,
                        found: format!("`{}`", shown(&line)),
                        allowed: ALLOWED,
                    });
                }
            },
        };
        let access = match known {
            RecordingFormat::Probe => {
                probe::event(&line, &mut tape).map_err(|expected| lines.error(shown(&line), expected))?;
                None
            }
            RecordingFormat::Lackey => Some(lackey(line.as_bytes())),
            RecordingFormat::Dynamorio => Some(dynamorio(line.as_bytes())),
        };
        if let Some(access) = access {
            let access = access.ok_or_else(|| lines.error(shown(&line), known.expected()))?;
            marks.access(access, &mut tape).map_err(|expected| lines.error(shown(&line), expected))?;
        }
        if tape.bytes() > MOST_BYTES {
            let (packets, steps) = (tape.packets.len(), tape.steps.len());
            let most =
                format!("{} MiB of a recording, here {packets} packets with {steps} references", MOST_BYTES >> 20);
            return Err(lines.too_much(most, "record fewer packets: a run repeats them"));
        }
    }
    lines.finish("recording", "packet", format.is_none())?;
    let format = format.unwrap_or(RecordingFormat::Probe);
    if tape.packets.is_empty() {
        return Err(TrafficError::Trace { name: name.into(), why: tape.without_packets(format) });
    }
    tape.finish(format, compression, input.content()?, name)
}

/// What is recorded, with addresses where regions are to come: a [`RecordedPlace::Region`] has its address as its offset until all
/// regions are known.
#[derive(Debug, Default)]
struct RecordingTape {
    /// By their base; no two overlap.
    named: BTreeMap<u64, RecordedRegion>,
    packets: Vec<RecordedPacket>,
    steps: Vec<RecordedStep>,
    /// The packet at hand.
    open: Option<OpenPacket>,
    /// Places in the program, by what the recording calls them.
    sites: std::collections::HashMap<u64, u16>,
    outside: u64,
    headroom: u64,
    begun: u64,
}

#[derive(Clone, Copy, Debug)]
struct OpenPacket {
    data: u64,
    mbuf: u64,
    bytes: u32,
    first: usize,
    work: u64,
}

impl RecordingTape {
    /// What it takes, as it grows.
    fn bytes(&self) -> usize {
        self.packets.len() * PACKET_BYTES + self.steps.len() * STEP_BYTES
    }

    /// A region that the program names.
    fn region(&mut self, base: u64, bytes: u64, shared: bool, name: &str) -> Result<(), String> {
        if bytes == 0 || base.checked_add(bytes).is_none() {
            return Err("a region of at least one byte that ends below 2^64".into());
        }
        // None of those there overlaps another: the last that begins below its end is the only one that may reach into it.
        if let Some((_, before)) = self.named.range(..base + bytes).next_back().filter(|(_, r)| base < r.base + r.bytes)
        {
            return Err(format!(
                "a region that does not overlap those before: {:?} is at {:x}",
                before.name, before.base
            ));
        }
        if self.named.len() >= MOST_NAMED {
            return Err(format!("at most {MOST_NAMED} regions: name what matters"));
        }
        self.named.insert(base, RecordedRegion { name: name.into(), base, bytes, shared, named: true });
        Ok(())
    }

    fn begin(&mut self, bytes: u64, data: u64, mbuf: u64) -> Result<(), String> {
        if self.open.is_some() {
            return Err("the end of the packet before: packets do not nest".into());
        }
        let longest = u64::from(u16::MAX);
        if !(1..=longest).contains(&bytes) {
            return Err(format!("a packet of 1 to {longest} bytes"));
        }
        self.begun += 1;
        self.open = Some(OpenPacket { data, mbuf, bytes: bytes as u32, first: self.steps.len(), work: 0 });
        Ok(())
    }

    fn end(&mut self, dropped: bool) -> Result<(), String> {
        let open = self.open.take().ok_or("the beginning of a packet: none is at hand")?;
        let tail = u32::try_from(open.work).map_err(|_| MOST_WORK)?;
        push(&mut self.packets, RecordedPacket { bytes: open.bytes, first: open.first, tail, dropped });
        Ok(())
    }

    fn work(&mut self, instructions: u64) {
        if let Some(open) = &mut self.open {
            open.work = open.work.saturating_add(instructions);
        }
    }

    /// A reference; with `from` a copy.
    fn touch(&mut self, kind: RecordedKind, at: Touched, from: Option<u64>, site: u64, dep: u64) -> Result<(), String> {
        if !(1..=u64::from(u16::MAX)).contains(&at.bytes) || at.address.checked_add(at.bytes).is_none() {
            return Err("1 to 65535 bytes that end below 2^64".into());
        }
        let Some(open) = &mut self.open else {
            self.outside += 1;
            return Ok(());
        };
        let before = (self.steps.len() - open.first) as u64;
        if dep > before.min(255) {
            return Err(format!("0 to {} references back: so many came before in this packet", before.min(255)));
        }
        let work = u32::try_from(std::mem::take(&mut open.work)).map_err(|_| MOST_WORK)?;
        let open = *open;
        let (place, bytes) = self.place(&open, at);
        let kind = match (kind, from) {
            (_, Some(from)) => {
                let came = self.place(&open, Touched { address: from, bytes: at.bytes });
                RecordedKind::CopyFrom(came.0)
            }
            (kind, None) => kind,
        };
        let next = self.sites.len() as u16;
        let site = if self.sites.len() < usize::from(u16::MAX) {
            *self.sites.entry(site).or_insert(next)
        } else {
            self.sites.get(&site).copied().unwrap_or(u16::MAX)
        };
        let step = RecordedStep { work, kind, place, bytes, site, dep: dep as u8 };
        push(&mut self.steps, step);
        Ok(())
    }

    /// Where an access goes, as far as it is known, and how many of its bytes are there.
    fn place(&mut self, open: &OpenPacket, at: Touched) -> (RecordedPlace, u16) {
        let Touched { address, bytes } = at;
        let within = |base: u64, long: u64| address.checked_sub(base).filter(|&offset| offset < long);
        let clipped = |offset: u64, long: u64| bytes.min(long - offset) as u16;
        let long = u64::from(open.bytes);
        if let Some(offset) = within(open.data, long) {
            return (RecordedPlace::Packet(offset as u32), clipped(offset, long));
        }
        if open.mbuf != 0 {
            if let Some(offset) = within(open.mbuf, MBUF_BYTES) {
                return (RecordedPlace::Mbuf(offset as u16), clipped(offset, MBUF_BYTES));
            }
            // Behind the header and before the data: what a program puts before the packet.
            if address >= open.mbuf && address < open.data {
                self.headroom += 1;
                return (RecordedPlace::Packet(0), clipped(0, long));
            }
        }
        (RecordedPlace::Region(0, address), bytes as u16)
    }

    fn without_packets(&self, format: RecordingFormat) -> String {
        let how = match format {
            RecordingFormat::Probe => "WIRESPEED_BEGIN and WIRESPEED_END",
            _ => "WIRESPEED_BEGIN and WIRESPEED_END, of a program compiled with -DWIRESPEED_PROBE_MARKS",
        };
        let found = match (self.begun, self.outside) {
            (0, 0) => "nothing was recorded".to_string(),
            (0, outside) => format!("it has {outside} references, none of them within a packet"),
            _ => "it ends within its first packet".to_string(),
        };
        format!("not a single packet in it: {found} (expected is what {how} write)")
    }

    fn finish(
        mut self,
        format: RecordingFormat,
        compression: Compression,
        content: Option<String>,
        name: &str,
    ) -> Result<Recording, TrafficError> {
        let unfinished = self.open.take();
        if let Some(open) = &unfinished {
            self.steps.truncate(open.first);
        }
        let touched = self.steps.iter().flat_map(touched);
        let named = self.named.into_values().collect();
        let regions = stretches(named, touched).map_err(|why| TrafficError::Trace { name: name.into(), why })?;
        let find = |address: u64| {
            let index = regions.partition_point(|r| r.base <= address).saturating_sub(1);
            let region = &regions[index];
            let offset = (address - region.base).min(region.bytes - 1);
            (RecordedPlace::Region(index as u16, offset), region.bytes - offset)
        };
        for step in &mut self.steps {
            if let RecordedPlace::Region(_, at) = step.place {
                let (place, room) = find(at);
                (step.place, step.bytes) = (place, u64::from(step.bytes).min(room) as u16);
            }
            if let RecordedKind::CopyFrom(RecordedPlace::Region(_, at)) = step.kind {
                let (place, room) = find(at);
                (step.kind, step.bytes) = (RecordedKind::CopyFrom(place), u64::from(step.bytes).min(room) as u16);
            }
        }
        Ok(Recording {
            format,
            compression,
            regions,
            packets: self.packets,
            steps: self.steps,
            outside: self.outside,
            headroom: self.headroom,
            unfinished: unfinished.is_some(),
            content,
        })
    }
}

/// The addresses of a step that is not resolved, their bytes, and whether it stores there.
fn touched(step: &RecordedStep) -> impl Iterator<Item = (u64, u64, bool)> {
    let bytes = u64::from(step.bytes);
    let stores = !matches!(step.kind, RecordedKind::Load | RecordedKind::Prefetch);
    let to = if let RecordedPlace::Region(_, at) = step.place { Some((at, bytes, stores)) } else { None };
    let from = match step.kind {
        RecordedKind::CopyFrom(RecordedPlace::Region(_, at)) => Some((at, bytes, false)),
        _ => None,
    };
    to.into_iter().chain(from)
}

const MOST_WORK: &str = "at most 4294967295 instructions between two references";

/// The start of a line, for messages.
fn shown(line: &str) -> String {
    const MOST: usize = 60;
    let text: String = line.chars().take(MOST).flat_map(char::escape_debug).collect();
    if line.chars().nth(MOST).is_some() { text + "..." } else { text }
}

/// A load and a store for what does both.
fn accesses(line: AccessLine) -> impl Iterator<Item = (RecordedKind, Touched)> {
    let (first, second) = match line {
        AccessLine::Load(at) => (Some((RecordedKind::Load, at)), None),
        AccessLine::Store(at) => (Some((RecordedKind::Store, at)), None),
        AccessLine::Modify(at) => (Some((RecordedKind::Load, at)), Some((RecordedKind::Store, at))),
        AccessLine::Nothing | AccessLine::Fetch(_) => (None, None),
    };
    first.into_iter().chain(second)
}

#[cfg(test)]
mod tests;
