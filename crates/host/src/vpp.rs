//! VPP's statistics segment: counters of interfaces in memory that VPP shares, read without a word to its workers.
//!
//! A socket of sequenced packets hands out a file. In it a header has the version of the layout (2), the address at which VPP has it,
//! an epoch, a mark while VPP changes the layout, and a directory of named counters. Vectors have their length eight bytes before
//! them. The file is read and not mapped: whatever it holds, and if it shrinks meanwhile, a read fails and nothing else does. Source:
//! VPP, `src/vlib/stats/shared.h` and `src/vpp-api/python/vpp_papi/vpp_stats.py`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix};
use rustix::net::{SocketFlags, SocketType, connect, recvmsg, socket_with};

use crate::{HostError, PortTotals};

/// Bytes that stay where they are, as a file's or a text's of a test.
pub trait SegmentBytes: Send {
    /// Fills `into` from `offset` on.
    ///
    /// # Errors
    /// Fewer bytes are there; as the system's.
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;
    /// How many there are.
    ///
    /// # Errors
    /// As the system's.
    fn size(&self) -> io::Result<u64>;
}

impl SegmentBytes for File {
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, into, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl SegmentBytes for Vec<u8> {
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let from = usize::try_from(offset).ok();
        let end = from.and_then(|from| from.checked_add(into.len()));
        let bytes = from.zip(end).and_then(|(from, end)| self.get(from..end)).ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(bytes);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

/// A segment whose layout is known.
pub struct StatsSegment<B> {
    bytes: B,
    name: String,
    /// Where its start is in VPP's memory.
    base: u64,
}

/// What a directory says of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StatsEntry {
    kind: u32,
    value: u64,
}

/// Version of the layout.
const LAYOUT: u64 = 2;
/// Places in the header.
const BASE: u64 = 8;
const EPOCH: u64 = 16;
const IN_PROGRESS: u64 = 24;
const DIRECTORY: u64 = 32;
/// An entry of the directory: a kind, eight bytes by the kind, a name of 128 bytes that ends in 0.
const ENTRY: usize = 144;
const ENTRY_VALUE: usize = 8;
const ENTRY_NAME: usize = 16;
/// Kinds of entries: packets by thread and interface, packets and bytes by both, names.
const SIMPLE: u32 = 2;
const COMBINED: u32 = 3;
const NAMES: u32 = 4;

/// Interfaces' names by number.
const IF_NAMES: &str = "/if/names";
/// Received and sent packets and bytes.
const IF_RX: &str = "/if/rx";
const IF_TX: &str = "/if/tx";

/// A program that answers more slowly hangs; a layout that changes for so long is not read.
const PATIENCE: Duration = Duration::from_millis(500);
/// So often a layout that changes is read again: VPP changes it in microseconds, when an interface comes or goes. After that the
/// counters of this interval are missing, no more.
const TRIES: u32 = 100;
/// Of a directory; each interface has some twenty entries.
const MOST_ENTRIES: u64 = 1 << 18;
/// Entries that are read at once: all of the longest directory would be 38 MB, and the unit may take 64.
const PIECE: u64 = 1 << 10;
const MOST_THREADS: u64 = 1 << 10;
const MOST_INTERFACES: u64 = 1 << 16;
const MOST_NAME: u64 = 1 << 8;
/// Names that a message lists, at most.
const MOST_LISTED: usize = 20;

/// The segment of the VPP that listens at `socket` (`/run/vpp/stats.sock`).
///
/// # Errors
/// No such socket, no permission, no file in the answer, another layout.
pub fn connect_to(socket: &Path) -> Result<StatsSegment<File>, HostError> {
    let name = socket.display().to_string();
    let fault = |e: Errno| HostError::system("connecting to", name.as_str(), e.into());
    let peer = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(fault)?;
    // Connecting waits as long as sending may, where VPP's main thread is busy and those who wait before us are many.
    for which in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&peer, which, Some(PATIENCE)).map_err(fault)?;
    }
    connect(&peer, &SocketAddrUnix::new(socket).map_err(fault)?).map_err(fault)?;
    let file = received_file(&peer).map_err(|e| HostError::system("reading", name.as_str(), e.into()))?;
    let file = file.ok_or_else(|| HostError::form(name.as_str(), "no file", "VPP's answer, which has one"))?;
    StatsSegment::open(File::from(file), name)
}

/// The first file that a peer hands over.
fn received_file(peer: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut text = [0; 64];
    recvmsg(peer, &mut [IoSliceMut::new(&mut text)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    // Others that came with it are closed.
    Ok(files.flatten().next())
}

impl<B: SegmentBytes> StatsSegment<B> {
    /// Reads the header.
    ///
    /// # Errors
    /// Another layout than version 2.
    pub fn open(bytes: B, name: String) -> Result<StatsSegment<B>, HostError> {
        let mut segment = StatsSegment { bytes, name, base: 0 };
        let version = segment.number(0)?;
        if version != LAYOUT {
            let allowed = "version 2 of the statistics segment's layout";
            return Err(HostError::form(segment.name, &version.to_string(), allowed));
        }
        segment.base = segment.number(BASE)?;
        Ok(segment)
    }

    /// Totals of the interfaces of these names together; `lost` are the simple counters of theirs that are losses, `rx-miss` for
    /// `/if/rx-miss`.
    ///
    /// # Errors
    /// A name that is not there, with those that are; a segment that is damaged, or changes all the time.
    pub fn totals(&self, interfaces: &[String], lost: &[String]) -> Result<PortTotals, HostError> {
        let losses: Vec<String> = lost.iter().map(|counter| format!("/if/{counter}")).collect();
        let wanted: Vec<&str> = [IF_NAMES, IF_RX, IF_TX].into_iter().chain(losses.iter().map(String::as_str)).collect();
        self.consistently(|| {
            let directory = self.directory(&wanted)?;
            let own = self.places(self.entry(&directory, IF_NAMES, NAMES)?, interfaces)?;
            let received = self.sum(self.entry(&directory, IF_RX, COMBINED)?, &own, 2)?;
            let sent = self.sum(self.entry(&directory, IF_TX, COMBINED)?, &own, 2)?;
            let mut totals = PortTotals {
                received: received[0],
                received_bytes: received[1],
                sent: sent[0],
                sent_bytes: sent[1],
                lost: 0,
            };
            for counter in &losses {
                let of = self.entry(&directory, counter, SIMPLE)?;
                totals.lost = totals.lost.wrapping_add(self.sum(of, &own, 1)?[0]);
            }
            Ok(totals)
        })
    }

    /// What is read while VPP does not change the layout.
    fn consistently<T>(&self, read: impl Fn() -> Result<T, HostError>) -> Result<T, HostError> {
        let begun = Instant::now();
        for _ in 0..TRIES {
            if begun.elapsed() >= PATIENCE {
                break;
            }
            let epoch = self.number(EPOCH)?;
            if self.number(IN_PROGRESS)? == 0 {
                let outcome = read();
                // What was read while the layout changed may be anything, an error too.
                if self.number(EPOCH)? == epoch && self.number(IN_PROGRESS)? == 0 {
                    return outcome;
                }
            }
            std::thread::yield_now();
        }
        Err(HostError::form(self.name.as_str(), "a layout that changes all the time", "one that stays for a moment"))
    }

    fn entry(&self, directory: &BTreeMap<String, StatsEntry>, path: &str, kind: u32) -> Result<StatsEntry, HostError> {
        let Some(entry) = directory.get(path) else {
            let mut known = FirstNames::default();
            self.each_entry(|name, _| {
                if name.starts_with(b"/if/") {
                    known.add(name)
                }
            })?;
            return Err(HostError::Key { path: self.name.clone(), key: path.into(), known: known.to_string() });
        };
        if entry.kind != kind {
            let allowed = format!("kind {kind}: 2 are counters, 3 counters of packets and bytes, 4 names");
            return Err(HostError::form(format!("{} {path}", self.name), &format!("kind {}", entry.kind), allowed));
        }
        Ok(*entry)
    }

    /// The entries of these names, as far as they are there.
    fn directory(&self, wanted: &[&str]) -> Result<BTreeMap<String, StatsEntry>, HostError> {
        let mut found = BTreeMap::new();
        self.each_entry(|name, entry| {
            if let Some(name) = wanted.iter().find(|w| w.as_bytes() == name) {
                found.insert((*name).to_string(), entry);
            }
        })?;
        Ok(found)
    }

    /// The whole directory, a piece at a time.
    fn each_entry(&self, mut each: impl FnMut(&[u8], StatsEntry)) -> Result<(), HostError> {
        let Some((at, n)) = self.place(self.number(DIRECTORY)?, ENTRY, MOST_ENTRIES)? else { return Ok(()) };
        let mut piece = vec![0; PIECE.min(n) as usize * ENTRY];
        for first in (0..n).step_by(PIECE as usize) {
            let bytes = &mut piece[..PIECE.min(n - first) as usize * ENTRY];
            self.bytes.read_exact_at(bytes, at + first * ENTRY as u64).map_err(|e| self.fault(e))?;
            for entry in bytes.chunks_exact(ENTRY) {
                let value = u64::from_le_bytes(entry[ENTRY_VALUE..ENTRY_NAME].try_into().unwrap_or_default());
                let kind = u32::from_le_bytes(entry[..4].try_into().unwrap_or_default());
                each(text_of(&entry[ENTRY_NAME..]), StatsEntry { kind, value });
            }
        }
        Ok(())
    }

    /// The numbers of these interfaces: of several with a name that of the first.
    fn places(&self, entry: StatsEntry, interfaces: &[String]) -> Result<Vec<usize>, HostError> {
        let mut found = vec![None; interfaces.len()];
        let mut known = FirstNames::default();
        for (number, at) in numbers(&self.vector(entry.value, 8, MOST_INTERFACES)?).enumerate() {
            // An interface that was deleted has none.
            let name = if at == 0 { Vec::new() } else { self.vector(at, 1, MOST_NAME)? };
            let name = text_of(&name);
            if !name.is_empty() {
                known.add(name);
            }
            for (found, wanted) in found.iter_mut().zip(interfaces) {
                if found.is_none() && wanted.as_bytes() == name {
                    *found = Some(number);
                }
            }
        }
        let place = |(found, wanted): (Option<usize>, &String)| {
            found.ok_or_else(|| HostError::Key {
                path: format!("{} {IF_NAMES}", self.name),
                key: wanted.clone(),
                known: known.to_string(),
            })
        };
        found.into_iter().zip(interfaces).map(place).collect()
    }

    /// Over threads, the sum of the `width` numbers of each of these interfaces.
    fn sum(&self, entry: StatsEntry, interfaces: &[usize], width: usize) -> Result<[u64; 2], HostError> {
        let mut sum = [0u64; 2];
        for thread in numbers(&self.vector(entry.value, 8, MOST_THREADS)?) {
            let Some((at, n)) = self.place(thread, 8 * width, MOST_INTERFACES)? else { continue };
            // A vector is no longer than the highest interface that has counted.
            for interface in interfaces.iter().map(|i| *i as u64).filter(|interface| *interface < n) {
                for (i, sum) in sum.iter_mut().enumerate().take(width) {
                    *sum = sum.wrapping_add(self.number(at + 8 * (interface * width as u64 + i as u64))?);
                }
            }
        }
        Ok(sum)
    }

    /// The elements of a vector at an address of VPP's.
    fn vector(&self, address: u64, element: usize, most: u64) -> Result<Vec<u8>, HostError> {
        let Some((at, n)) = self.place(address, element, most)? else { return Ok(Vec::new()) };
        let mut bytes = vec![0; n as usize * element];
        self.bytes.read_exact_at(&mut bytes, at).map_err(|e| self.fault(e))?;
        Ok(bytes)
    }

    /// Where a vector at an address of VPP's is, and how many elements it has; none where VPP has no vector.
    fn place(&self, address: u64, element: usize, most: u64) -> Result<Option<(u64, u64)>, HostError> {
        let wrong = |came: String| {
            HostError::form(self.name.as_str(), &came, "an address within the segment, and a vector that ends in it")
        };
        // VPP has none where nothing was counted yet.
        if address == 0 {
            return Ok(None);
        }
        let at = address.checked_sub(self.base).filter(|at| *at >= 8).ok_or_else(|| wrong(format!("{address:#x}")))?;
        let n = u64::from(u32::from_le_bytes(self.bytes_at(at - 8)?));
        let size = self.bytes.size().map_err(|e| self.fault(e))?;
        let length = n.checked_mul(element as u64).filter(|_| n <= most);
        let is_within = |length: &u64| at.checked_add(*length).is_some_and(|end| end <= size);
        length.filter(is_within).ok_or_else(|| wrong(format!("{n} elements at {at:#x}")))?;
        Ok(Some((at, n)))
    }

    fn number(&self, at: u64) -> Result<u64, HostError> {
        self.bytes_at(at).map(u64::from_le_bytes)
    }

    fn bytes_at<const N: usize>(&self, at: u64) -> Result<[u8; N], HostError> {
        let mut bytes = [0; N];
        self.bytes.read_exact_at(&mut bytes, at).map_err(|e| self.fault(e))?;
        Ok(bytes)
    }

    fn fault(&self, e: io::Error) -> HostError {
        HostError::system("reading", self.name.as_str(), e)
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
}

/// What comes before the first 0.
fn text_of(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Names for a message: the first by the alphabet, and how many there are.
#[derive(Default)]
struct FirstNames {
    first: BTreeSet<Vec<u8>>,
    all: usize,
}

impl FirstNames {
    fn add(&mut self, name: &[u8]) {
        self.all += 1;
        self.first.insert(name.to_vec());
        if self.first.len() > MOST_LISTED {
            self.first.pop_last();
        }
    }
}

impl fmt::Display for FirstNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.first.iter().map(|name| String::from_utf8_lossy(name)).collect();
        f.write_str(&names.join(", "))?;
        match self.all - names.len() {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Write};
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};

    use proptest::prelude::*;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, accept, bind, listen, sendmsg};

    use super::*;

    const AT: u64 = 0x1_3000_0000;

    /// A segment as VPP lays it out.
    struct Made(Vec<u8>);

    impl Made {
        fn new() -> Made {
            let mut made = Made(vec![0; 64]);
            made.set(0, LAYOUT);
            made.set(BASE, AT);
            made.set(EPOCH, 7);
            made
        }

        fn set(&mut self, at: u64, value: u64) {
            self.0[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
        }

        /// A vector; gives its address.
        fn vector(&mut self, n: usize, bytes: &[u8]) -> u64 {
            self.0.extend((n as u64).to_le_bytes());
            let at = self.0.len() as u64;
            self.0.extend(bytes);
            self.0.resize(self.0.len().next_multiple_of(8), 0);
            AT + at
        }

        fn numbers(&mut self, width: usize, numbers: &[u64]) -> u64 {
            let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
            self.vector(numbers.len() / width, &bytes)
        }

        fn directory(&mut self, entries: &[(u32, u64, &str)]) {
            let mut bytes = Vec::new();
            for (kind, value, name) in entries {
                let mut entry = [0; ENTRY];
                entry[..4].copy_from_slice(&kind.to_le_bytes());
                entry[8..16].copy_from_slice(&value.to_le_bytes());
                entry[16..16 + name.len()].copy_from_slice(name.as_bytes());
                bytes.extend(entry);
            }
            let at = self.vector(entries.len(), &bytes);
            self.set(DIRECTORY, at);
        }

        /// Two threads and three interfaces, of which one was deleted.
        fn with_interfaces() -> Made {
            let mut made = Made::new();
            let [local, nic] =
                ["local0", "eth0"].map(|name| made.vector(name.len() + 1, format!("{name}\0").as_bytes()));
            let names = made.numbers(1, &[local, 0, nic]);
            let threads = [[1, 64, 0, 0, 10, 1_000], [0, 0, 9, 9, 20, 3_000]].map(|cells| made.numbers(2, &cells));
            let rx = made.numbers(1, &threads);
            let short = made.numbers(2, &[5, 500]);
            let sent = made.numbers(2, &[0, 0, 0, 0, 3, 300]);
            let tx = made.numbers(1, &[short, sent]);
            let miss = made.numbers(1, &[0, 0, 4]);
            let rx_miss = made.numbers(1, &[miss, miss]);
            let entries = [
                (1, 5, "/sys/heartbeat"),
                (NAMES, names, IF_NAMES),
                (COMBINED, rx, IF_RX),
                (COMBINED, tx, IF_TX),
                (SIMPLE, rx_miss, "/if/rx-miss"),
                // Nothing has counted yet.
                (SIMPLE, 0, "/if/rx-no-buf"),
            ];
            made.directory(&entries);
            made
        }

        fn totals(self, interfaces: &[&str], lost: &[&str]) -> Result<PortTotals, String> {
            let own = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
            let segment = StatsSegment::open(self.0, "made".into()).map_err(|e| e.to_string())?;
            segment.totals(&own(interfaces), &own(lost)).map_err(|e| e.to_string())
        }
    }

    const EXPECTED: PortTotals = PortTotals { received: 30, received_bytes: 4_000, sent: 3, sent_bytes: 300, lost: 8 };

    #[test]
    fn counters_of_interfaces_are_summed_over_threads() {
        assert_eq!(Made::with_interfaces().totals(&["eth0"], &["rx-miss", "rx-no-buf"]), Ok(EXPECTED));
        let both = Made::with_interfaces().totals(&["eth0", "local0"], &[]).unwrap();
        assert_eq!((both.received, both.sent, both.lost), (31, 8, 0));
    }

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        let error = |interface, lost| Made::with_interfaces().totals(&[interface], &[lost]).unwrap_err();
        assert_eq!(error("eth1", "rx-miss"), "made /if/names: there is no \"eth1\"; there are eth0, local0");
        assert!(error("eth0", "rx-oops").contains("no \"/if/rx-oops\"; there are /if/names, /if/rx, "));
        assert!(error("eth0", "rx").contains("made /if/rx: \"kind 3\" came where kind 2"));
        let mut other = Made::with_interfaces();
        other.set(0, 1);
        assert!(other.totals(&[], &[]).unwrap_err().contains("version 2 of"));
    }

    #[test]
    fn a_layout_that_changes_is_not_believed() {
        let mut made = Made::with_interfaces();
        made.set(IN_PROGRESS, 1);
        assert!(made.totals(&["eth0"], &[]).unwrap_err().contains("changes all the time"));
    }

    /// A segment that notes how it is read.
    struct WatchedSegment {
        bytes: Vec<u8>,
        longest: Arc<AtomicUsize>,
        epochs: Arc<AtomicUsize>,
        /// What each look at the directory takes; the layout changes meanwhile, if it takes anything.
        slow: Duration,
    }

    impl SegmentBytes for WatchedSegment {
        fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
            self.longest.fetch_max(into.len(), Ordering::Relaxed);
            SegmentBytes::read_exact_at(&self.bytes, into, offset)?;
            if offset == EPOCH {
                let looks = self.epochs.fetch_add(1, Ordering::Relaxed);
                if !self.slow.is_zero() {
                    into.copy_from_slice(&(looks as u64).to_le_bytes());
                }
            }
            if offset == DIRECTORY {
                std::thread::sleep(self.slow);
            }
            Ok(())
        }

        fn size(&self) -> io::Result<u64> {
            SegmentBytes::size(&self.bytes)
        }
    }

    fn watched(made: Made, slow: Duration) -> (StatsSegment<WatchedSegment>, Arc<AtomicUsize>, Arc<AtomicUsize>) {
        let (longest, epochs) = (Arc::default(), Arc::default());
        let bytes = WatchedSegment { bytes: made.0, longest: Arc::clone(&longest), epochs: Arc::clone(&epochs), slow };
        (StatsSegment::open(bytes, "made".into()).unwrap(), longest, epochs)
    }

    #[test]
    fn a_long_directory_is_read_in_pieces() {
        let mut made = Made::with_interfaces();
        let segment = StatsSegment::open(made.0.clone(), "made".into()).unwrap();
        let own = segment.directory(&[IF_NAMES, IF_RX, IF_TX, "/if/rx-miss"]).unwrap();
        // At both sides of the places where a piece ends, and as the very last.
        let last = 3 * PIECE as usize + 6;
        let at = [0, PIECE as usize - 1, PIECE as usize, last];
        let others: Vec<String> = (0..=last).map(|i| format!("/if/other-{i:04}")).collect();
        let mut entries: Vec<_> = others.iter().map(|name| (SIMPLE, 0, name.as_str())).collect();
        for (at, (name, entry)) in at.into_iter().zip(&own) {
            entries[at] = (entry.kind, entry.value, name.as_str());
        }
        made.directory(&entries);
        let (segment, longest, _) = watched(made, Duration::ZERO);
        assert_eq!(segment.totals(&["eth0".into()], &["rx-miss".into()]).unwrap(), EXPECTED);
        assert_eq!(longest.load(Ordering::Relaxed), PIECE as usize * ENTRY, "no more at once");
        let why = segment.totals(&["eth0".into()], &["oops".into()]).unwrap_err().to_string();
        let (listed, more) = why.rsplit_once(", and ").unwrap();
        assert_eq!(more, format!("{} more", last + 1 - MOST_LISTED));
        assert!(listed.contains("there are /if/names, /if/other-0001, ") && listed.len() < 500, "{why}");
    }

    #[test]
    fn a_layout_that_changes_slowly_is_given_up_after_a_while() {
        let slow = PATIENCE / 20;
        let (segment, _, epochs) = watched(Made::with_interfaces(), slow);
        let why = segment.totals(&["eth0".into()], &[]).unwrap_err().to_string();
        assert!(why.contains("changes all the time"), "{why}");
        // Each try looks at the epoch twice, and takes as long as it sleeps at least.
        assert!(epochs.load(Ordering::Relaxed) <= 2 * 20, "{epochs:?}");
    }

    #[test]
    fn a_vpp_that_accepts_nobody_is_waited_for_no_longer_than_for_an_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stats.sock");
        let server = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        bind(&server, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&server, 0).unwrap();
        let (told, answers) = mpsc::channel();
        // A thread of its own: one that hangs for ever is to fail the test.
        std::thread::spawn(move || {
            for _ in 0..3 {
                let _ = told.send(connect_to(&path).err().map(|why| why.to_string()));
            }
        });
        let next = || answers.recv_timeout(20 * PATIENCE).expect("it hangs").expect("nobody answers");
        let [first, second, third] = [next(), next(), next()];
        assert!(first.starts_with("reading"), "one finds room in the queue: {first}");
        assert!([second, third].iter().all(|why| why.starts_with("connecting to")), "the queue is full");
        drop(server);
    }

    #[test]
    fn addresses_and_lengths_out_of_the_segment_are_refused() {
        for address in [1, AT - 1, AT + 7, AT + (1 << 40), u64::MAX] {
            let mut made = Made::with_interfaces();
            made.set(DIRECTORY, address);
            assert!(made.totals(&["eth0"], &[]).is_err(), "{address:#x}");
        }
        let mut made = Made::with_interfaces();
        let directory = made.0[DIRECTORY as usize..DIRECTORY as usize + 8].try_into().unwrap();
        made.set(u64::from_le_bytes(directory) - AT - 8, u64::from(u32::MAX));
        assert!(made.totals(&["eth0"], &[]).unwrap_err().contains("elements at"));
    }

    #[test]
    fn a_segment_comes_through_a_socket_as_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stats.sock");
        let server = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        bind(&server, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&server, 4).unwrap();
        let thread = std::thread::spawn(move || {
            for hands_over in [true, false] {
                let peer = accept(&server).unwrap();
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(&Made::with_interfaces().0).unwrap();
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                let files = [file.as_fd()];
                assert!(!hands_over || control.push(SendAncillaryMessage::ScmRights(&files)));
                sendmsg(&peer, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
            }
        });
        let segment = connect_to(&path).unwrap();
        assert_eq!(segment.totals(&["eth0".into()], &["rx-miss".into()]).unwrap(), EXPECTED);
        let why = connect_to(&path).err().expect("it hands over nothing").to_string();
        assert!(why.contains("no file"), "{why}");
        thread.join().unwrap();
    }

    proptest! {
        #[test]
        fn damaged_segments_never_panic(at in 0usize..1200, value: u64, cut in 0usize..1400) {
            let mut made = Made::with_interfaces();
            let at = at.min(made.0.len() - 8);
            made.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
            // A mark of change costs its patience.
            made.set(IN_PROGRESS, 0);
            made.0.truncate(cut);
            let _ = made.totals(&["eth0"], &["rx-miss"]);
        }
    }
}
