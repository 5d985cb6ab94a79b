//! VPP's statistics segment: counters of interfaces in memory that VPP shares, read without a word to its workers.
//!
//! A socket of sequenced packets hands out a file. In it a header has the version of the layout (2), the address at which VPP has it,
//! an epoch, a mark while VPP changes the layout, and a directory of named counters. Vectors have their length eight bytes before
//! them. The file is read and not mapped: whatever it holds, and if it shrinks meanwhile, a read fails and nothing else does. Source:
//! VPP, `src/vlib/stats/shared.h` and `src/vpp-api/python/vpp_papi/vpp_stats.py`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

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

/// A program that answers more slowly hangs.
const PATIENCE: Duration = Duration::from_millis(500);
/// So often a layout that changes is read again: VPP changes it in microseconds, when an interface comes or goes. After that the
/// counters of this interval are missing, no more.
const TRIES: u32 = 100;
/// Of a directory; each interface has some twenty entries.
const MOST_ENTRIES: u64 = 1 << 18;
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
    set_socket_timeout(&peer, Timeout::Recv, Some(PATIENCE)).map_err(fault)?;
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
        self.consistently(|| {
            let directory = self.directory()?;
            let names = self.names(self.entry(&directory, IF_NAMES, NAMES)?)?;
            let mut own = Vec::new();
            for interface in interfaces {
                own.push(names.iter().position(|name| name == interface).ok_or_else(|| HostError::Key {
                    path: format!("{} {IF_NAMES}", self.name),
                    key: interface.clone(),
                    known: listed(names.iter().filter(|name| !name.is_empty())),
                })?);
            }
            let received = self.sum(self.entry(&directory, IF_RX, COMBINED)?, &own, 2)?;
            let sent = self.sum(self.entry(&directory, IF_TX, COMBINED)?, &own, 2)?;
            let mut totals = PortTotals {
                received: received[0],
                received_bytes: received[1],
                sent: sent[0],
                sent_bytes: sent[1],
                lost: 0,
            };
            for counter in lost {
                let of = self.entry(&directory, &format!("/if/{counter}"), SIMPLE)?;
                totals.lost = totals.lost.wrapping_add(self.sum(of, &own, 1)?[0]);
            }
            Ok(totals)
        })
    }

    /// What is read while VPP does not change the layout.
    fn consistently<T>(&self, read: impl Fn() -> Result<T, HostError>) -> Result<T, HostError> {
        for _ in 0..TRIES {
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
        let entry = directory.get(path).ok_or_else(|| HostError::Key {
            path: self.name.clone(),
            key: path.into(),
            known: listed(directory.keys().filter(|key| key.starts_with("/if/"))),
        })?;
        if entry.kind != kind {
            let allowed = format!("kind {kind}: 2 are counters, 3 counters of packets and bytes, 4 names");
            return Err(HostError::form(format!("{} {path}", self.name), &format!("kind {}", entry.kind), allowed));
        }
        Ok(*entry)
    }

    fn directory(&self) -> Result<BTreeMap<String, StatsEntry>, HostError> {
        let bytes = self.vector(self.number(DIRECTORY)?, ENTRY, MOST_ENTRIES)?;
        let of = |entry: &[u8]| {
            let name = entry[ENTRY_NAME..].split(|byte| *byte == 0).next().unwrap_or_default();
            let value = u64::from_le_bytes(entry[ENTRY_VALUE..ENTRY_NAME].try_into().unwrap_or_default());
            let kind = u32::from_le_bytes(entry[..4].try_into().unwrap_or_default());
            (String::from_utf8_lossy(name).into_owned(), StatsEntry { kind, value })
        };
        Ok(bytes.chunks_exact(ENTRY).map(of).collect())
    }

    fn names(&self, entry: StatsEntry) -> Result<Vec<String>, HostError> {
        let mut names = Vec::new();
        for at in numbers(&self.vector(entry.value, 8, MOST_INTERFACES)?) {
            // An interface that was deleted has none.
            let name = if at == 0 { Vec::new() } else { self.vector(at, 1, MOST_NAME)? };
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            names.push(String::from_utf8_lossy(name).into_owned());
        }
        Ok(names)
    }

    /// Over threads, the sum of the `width` numbers of each of these interfaces.
    fn sum(&self, entry: StatsEntry, interfaces: &[usize], width: usize) -> Result<[u64; 2], HostError> {
        let mut sum = [0u64; 2];
        for thread in numbers(&self.vector(entry.value, 8, MOST_THREADS)?) {
            let cells = numbers(&self.vector(thread, 8 * width, MOST_INTERFACES)?).collect::<Vec<_>>();
            for interface in interfaces {
                // A vector is no longer than the highest interface that has counted.
                let Some(cell) = cells.chunks_exact(width).nth(*interface) else { continue };
                for (sum, more) in sum.iter_mut().zip(cell) {
                    *sum = sum.wrapping_add(*more);
                }
            }
        }
        Ok(sum)
    }

    /// The elements of a vector at an address of VPP's.
    fn vector(&self, address: u64, element: usize, most: u64) -> Result<Vec<u8>, HostError> {
        let wrong = |came: String| {
            HostError::form(self.name.as_str(), &came, "an address within the segment, and a vector that ends in it")
        };
        // VPP has none where nothing was counted yet.
        if address == 0 {
            return Ok(Vec::new());
        }
        let at = address.checked_sub(self.base).filter(|at| *at >= 8).ok_or_else(|| wrong(format!("{address:#x}")))?;
        let n = u64::from(u32::from_le_bytes(self.bytes_at(at - 8)?));
        let size = self.bytes.size().map_err(|e| self.fault(e))?;
        let length = n.checked_mul(element as u64).filter(|_| n <= most);
        let is_within = |length: &u64| at.checked_add(*length).is_some_and(|end| end <= size);
        let length = length.filter(is_within).ok_or_else(|| wrong(format!("{n} elements at {at:#x}")))?;
        let mut bytes = vec![0; length as usize];
        self.bytes.read_exact_at(&mut bytes, at).map_err(|e| self.fault(e))?;
        Ok(bytes)
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

/// Names for a message.
fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let all: Vec<&str> = names.map(String::as_str).collect();
    let more = if all.len() > MOST_LISTED { format!(", and {} more", all.len() - MOST_LISTED) } else { String::new() };
    format!("{}{more}", all[..all.len().min(MOST_LISTED)].join(", "))
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Write};
    use std::os::fd::AsFd;

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
        assert_eq!(error("eth1", "rx-miss"), "made /if/names: there is no \"eth1\"; there are local0, eth0");
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
