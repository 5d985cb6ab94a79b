//! Captures as a stream of packets.
//!
//! A [`Capture`] finds out the compression and the format by magic (or, for TSH and ERF, which have
//! none, by whether the first records make sense as such), and gives packets that start with an
//! Ethernet header. Memory is constant: one look-ahead buffer of at most 1 MiB.
//!
//! Why own readers rather than `pcap-parser`: a damaged record must not end the capture. After one,
//! a reader here looks for the next place where two consecutive records make sense, and it knows
//! the offset of everything it leaves out; a parser that owns the buffer gives up at the first error.
//!
//! # Time
//! `arrival` is picoseconds since the capture's first packet. A step back of up to a second is
//! disorder (several interfaces, several queues): the packet arrives with the latest one before it.
//! A larger one is a new clock (captures that were joined): time goes on from there. Both are
//! counted. Arrivals stop growing at [`LATEST_ARRIVAL`].

mod erf;
mod pcap;
mod pcapng;
mod tsh;

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::time::Duration;

use packet::Packet;
use serde::Serialize;
use units::{PacketId, Ps};

use crate::damage::{Damage, DamageKind};
use crate::error::TrafficError;
use crate::input::{Compression, InputStream, Stop};
use crate::link;

/// The most bytes of one record that are read: libpcap's `MAXIMUM_SNAPLEN`.
pub const MAX_STORED_BYTES: usize = 262_144;
/// Where a capture's clock stops: 106 days, so that a simulator may still add to it.
pub const LATEST_ARRIVAL: Ps = Ps(u64::MAX / 2);

/// A single gap of more than this share of the whole time is no traffic but a break, or a step of the clock.
const LONGEST_GAP_SHARE: f64 = 0.5;
/// How far a reader looks for the next sound record before it gives the rest up.
const RESYNC_BYTES: u64 = 64 << 20;
const PS_PER_SECOND: i128 = 1_000_000_000_000;
const FORMATS: &str = "pcap, pcapng, TSH, ERF";

/// A capture file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureFormat {
    /// libpcap with microseconds, nanoseconds, or the longer records of Kuznetzov's patch.
    Pcap,
    /// pcapng.
    Pcapng,
    /// NLANR's Time Sequenced Headers: 44-byte records.
    Tsh,
    /// Endace's Extensible Record Format.
    Erf,
}

impl CaptureFormat {
    /// The field's word.
    pub fn name(self) -> &'static str {
        match self {
            CaptureFormat::Pcap => "pcap",
            CaptureFormat::Pcapng => "pcapng",
            CaptureFormat::Tsh => "TSH",
            CaptureFormat::Erf => "ERF",
        }
    }
}

/// What a capture has given so far; complete once [`Capture::next`] has returned false.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaptureReport {
    /// The format.
    pub format: CaptureFormat,
    /// The compression.
    pub compression: Compression,
    /// Records that were whole.
    pub records: u64,
    /// Packets that were given out.
    pub packets: u64,
    /// Records by link type (numbers of the tcpdump group's registry).
    pub link_types: BTreeMap<u32, u64>,
    /// Records of link types that are not read, by link type.
    pub unsupported: BTreeMap<u32, u64>,
    /// Records too short for their own link header.
    pub too_short: u64,
    /// Steps back in time of up to a second.
    pub disordered: u64,
    /// Steps back in time of more than a second.
    pub clock_jumps: u64,
    /// Damage.
    pub damage: Damage,
}

/// One record as its format has it; its bytes are the next `stored` of the input.
struct CaptureRecord {
    /// Since the format's epoch.
    time_ps: i128,
    link: u32,
    /// The original length without FCS, as the record says it.
    wire: u32,
    stored: usize,
    /// Bytes to pass over before and after the stored ones.
    lead: usize,
    trail: usize,
}

enum Format {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
    Tsh(tsh::Tsh),
    Erf(erf::Erf),
}

/// A capture that is being read.
pub struct Capture {
    name: String,
    input: InputStream,
    format: Format,
    clock: Clock,
    report: CaptureReport,
    /// The first packet, read when the capture was opened.
    first: Option<Packet>,
    ended: bool,
}

impl Capture {
    /// Opens a file.
    ///
    /// # Errors
    /// The file cannot be read, has no known format, or has no usable packet.
    pub fn open(path: impl AsRef<Path>) -> Result<Capture, TrafficError> {
        let path = path.as_ref();
        Capture::start(InputStream::open(path)?, path.display().to_string())
    }

    /// As [`Capture::open`], of a file that ends early once `stop` is set and is hashed.
    pub(crate) fn open_watched(path: &Path, stop: &Stop) -> Result<Capture, TrafficError> {
        let opened = Capture::start(InputStream::open_watched(path, stop)?, path.display().to_string());
        if stop.is_set() { Err(TrafficError::Stopped) } else { opened }
    }

    /// See [`InputStream::content`].
    pub(crate) fn content(&mut self) -> Result<Option<String>, TrafficError> {
        self.input.content()
    }

    /// Reads from `read`; `name` is for messages.
    ///
    /// # Errors
    /// As [`Capture::open`].
    pub fn new(read: impl Read + Send + 'static, name: &str) -> Result<Capture, TrafficError> {
        let failed = |source: io::Error| TrafficError::Open { path: name.into(), source };
        Capture::start(InputStream::new(Box::new(read)).map_err(failed)?, name.into())
    }

    /// Reads from memory; `name` is for messages.
    ///
    /// # Errors
    /// As [`Capture::open`].
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<Capture, TrafficError> {
        Capture::new(Cursor::new(bytes), name)
    }

    fn start(mut input: InputStream, name: String) -> Result<Capture, TrafficError> {
        let format = match Format::detect(&mut input) {
            Some(format) => format,
            None => return Err(input.unknown(name, "a capture", FORMATS)),
        };
        let report = CaptureReport {
            format: format.kind(),
            compression: input.compression,
            records: 0,
            packets: 0,
            link_types: BTreeMap::new(),
            unsupported: BTreeMap::new(),
            too_short: 0,
            disordered: 0,
            clock_jumps: 0,
            damage: Damage::default(),
        };
        let mut capture = Capture { name, input, format, clock: Clock::default(), report, first: None, ended: false };
        let mut packet = Packet::default();
        if !capture.read(&mut packet) {
            return Err(TrafficError::NothingUsable {
                name: capture.name,
                format: capture.report.format.name(),
                what: "packet",
                why: capture.report.why_nothing(),
            });
        }
        capture.first = Some(packet);
        Ok(capture)
    }

    /// Fills `packet` with the next packet, reusing its memory: `id`, `arrival`, `data`,
    /// `frame_bytes` and the layers. False at the end, when the packet is left as it was.
    #[inline]
    pub fn next(&mut self, packet: &mut Packet) -> bool {
        if let Some(first) = self.first.take() {
            *packet = first;
            return true;
        }
        self.read(packet)
    }

    fn read(&mut self, packet: &mut Packet) -> bool {
        if self.ended {
            return false;
        }
        let Capture { input, report, format, clock, .. } = self;
        loop {
            let record = match format {
                Format::Pcap(f) => f.next(input, &mut report.damage),
                Format::Pcapng(f) => f.next(input, &mut report.damage),
                Format::Tsh(f) => f.next(input, &mut report.damage),
                Format::Erf(f) => f.next(input, &mut report.damage),
            };
            let Some(record) = record else {
                self.ended = true;
                input.report_failure(&mut report.damage);
                return false;
            };
            let offset = input.offset();
            let length = record.lead + record.stored;
            let there = input.peek(length + record.trail);
            if there.len() < length {
                let came = there.len().saturating_sub(record.lead);
                report.damage.add(DamageKind::Truncated, offset, || {
                    format!("the input ends {came} bytes into a record's {} bytes", record.stored)
                });
                let rest = there.len();
                input.consume(rest);
                continue;
            }
            let data = &there[record.lead..length];
            let used = Use::of(&record, data, packet);
            input.consume(length + record.trail);
            report.records += 1;
            *report.link_types.entry(record.link).or_default() += 1;
            match used {
                Use::Unsupported => {
                    let count = report.unsupported.entry(record.link).or_default();
                    *count += 1;
                    if *count == 1 {
                        report.damage.add(DamageKind::Unsupported, offset, || {
                            format!("unsupported {}: its packets are skipped", link::link_name(record.link))
                        });
                    }
                }
                Use::TooShort => report.too_short += 1,
                Use::Packet => {
                    packet.id = PacketId(report.packets);
                    packet.arrival = clock.arrival(record.time_ps, report);
                    report.packets += 1;
                    return true;
                }
            }
        }
    }

    /// When its first packet was captured, since 1970; none where its clock says that that was before.
    pub fn begun(&self) -> Option<Duration> {
        let ps = u128::try_from(self.clock.first?).ok()?;
        let (seconds, rest) = (ps / PS_PER_SECOND as u128, ps % PS_PER_SECOND as u128);
        Some(Duration::new(u64::try_from(seconds).ok()?, (rest / 1000) as u32))
    }

    /// Why the times of the packets so far make no sense as one clock; [`None`] if they do. `gaps` has seen all of them.
    pub(crate) fn clock_trouble(&self, gaps: &Gaps) -> Option<String> {
        let span = self.clock.latest;
        let jumps = self.report.clock_jumps;
        let years = span as f64 / PS_PER_SECOND as f64 / (365.25 * 86_400.0);
        match gaps.packets {
            0 | 1 => Some("one packet has no rate".into()),
            _ if jumps > 0 => Some(format!("{jumps} steps back of more than a second")),
            _ if span == 0 && self.clock.first == Some(0) => Some("all of them are 0".into()),
            _ if span == 0 => Some("all of them are the same".into()),
            _ if gaps.last >= LATEST_ARRIVAL => Some(format!("they span {years:.1} years")),
            2 => None,
            _ if gaps.longest.0 as f64 > gaps.last.0 as f64 * LONGEST_GAP_SHARE => Some(format!(
                "one gap of {:.3} s is more than half of all the time, {:.3} s",
                gaps.longest.as_secs(),
                gaps.last.as_secs()
            )),
            _ => None,
        }
    }

    /// The path or name it was opened with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What has been found so far.
    pub fn report(&self) -> &CaptureReport {
        &self.report
    }
}

enum Use {
    Packet,
    TooShort,
    Unsupported,
}

impl Use {
    #[inline]
    fn of(record: &CaptureRecord, data: &[u8], packet: &mut Packet) -> Use {
        if link::normalise(record.link, data, record.wire, packet) {
            Use::Packet
        } else if link::is_supported(record.link) {
            Use::TooShort
        } else {
            Use::Unsupported
        }
    }
}

impl CaptureReport {
    fn why_nothing(&self) -> String {
        let mut why = match self.records {
            0 => "it has no whole record".to_string(),
            n => format!("of {n} records none can be used"),
        };
        if self.too_short > 0 {
            why += &format!(", {} too short for their link header", self.too_short);
        }
        if !self.damage.is_empty() {
            why += &format!("; {}", self.damage);
        }
        why
    }
}

impl Format {
    fn detect(input: &mut InputStream) -> Option<Format> {
        if let Some(pcap) = pcap::Pcap::detect(input) {
            return Some(Format::Pcap(pcap));
        }
        if let Some(pcapng) = pcapng::Pcapng::detect(input) {
            return Some(Format::Pcapng(pcapng));
        }
        if let Some(erf) = erf::Erf::detect(input) {
            return Some(Format::Erf(erf));
        }
        tsh::Tsh::detect(input).map(Format::Tsh)
    }

    fn kind(&self) -> CaptureFormat {
        match self {
            Format::Pcap(_) => CaptureFormat::Pcap,
            Format::Pcapng(_) => CaptureFormat::Pcapng,
            Format::Tsh(_) => CaptureFormat::Tsh,
            Format::Erf(_) => CaptureFormat::Erf,
        }
    }
}

/// What tells whether the times of packets are those of one clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gaps {
    pub(crate) packets: u64,
    pub(crate) last: Ps,
    longest: Ps,
}

impl Gaps {
    #[inline]
    pub(crate) fn see(&mut self, arrival: Ps) {
        self.packets += 1;
        self.longest = self.longest.max(arrival.since(self.last));
        self.last = arrival;
    }
}

/// Turns record times into arrivals.
#[derive(Default)]
struct Clock {
    /// The record time that arrival 0 stands for.
    base: Option<i128>,
    /// The first record's time.
    first: Option<i128>,
    latest: i128,
}

impl Clock {
    fn arrival(&mut self, time: i128, report: &mut CaptureReport) -> Ps {
        self.first.get_or_insert(time);
        let base = *self.base.get_or_insert(time);
        let mut since = time.saturating_sub(base);
        if since < self.latest {
            if self.latest - since > PS_PER_SECOND {
                report.clock_jumps += 1;
                self.base = Some(time.saturating_sub(self.latest));
            } else {
                report.disordered += 1;
            }
            since = self.latest;
        }
        self.latest = since;
        Ps(u64::try_from(since).unwrap_or(u64::MAX).min(LATEST_ARRIVAL.0))
    }
}

/// The place of the next sound record: the smallest `n >= 1` at which `sound` holds for the bytes
/// from there on. `sound` gets at least `need` bytes unless the input ends; it says whether a
/// record starts there. Consumes up to that place, or up to where the search ends.
pub(crate) fn resync(
    input: &mut InputStream,
    damage: &mut Damage,
    need: usize,
    mut sound: impl FnMut(&[u8], bool) -> bool,
) -> bool {
    let start = input.offset();
    let mut found = false;
    input.consume(1);
    while !found && input.offset() - start < RESYNC_BYTES {
        let bytes = input.peek(need);
        let at_end = bytes.len() < need;
        let last = if at_end { bytes.len() } else { bytes.len() - need + 1 };
        let place = (0..last).find(|&at| sound(&bytes[at..], at_end));
        found = place.is_some();
        let step = place.unwrap_or(last);
        input.consume(step);
        if at_end && !found {
            break;
        }
    }
    damage.skipped_bytes += input.offset() - start;
    found
}

fn u16_at(data: &[u8], at: usize, big: bool) -> Option<u16> {
    let bytes = *data.get(at..)?.first_chunk()?;
    Some(if big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
}

fn u32_at(data: &[u8], at: usize, big: bool) -> Option<u32> {
    let bytes = *data.get(at..)?.first_chunk()?;
    Some(if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
}
