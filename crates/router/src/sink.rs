//! Where packets go: a capture, a network interface, nowhere.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use functions::Verdict;
use packet::Packet;
use units::PortId;

use crate::RouterError;

/// Takes packets that leave the router.
pub trait FrameSink {
    /// `packet` leaves by `port`.
    ///
    /// # Errors
    /// It cannot be written.
    fn send(&mut self, packet: &Packet, port: PortId) -> Result<(), RouterError>;

    /// Those of `packets` leave whose verdict says so, each by its port; each has its verdict in the same place.
    ///
    /// # Errors
    /// As [`FrameSink::send`].
    fn send_burst(&mut self, packets: &[Packet], verdicts: &[Option<Verdict>]) -> Result<(), RouterError> {
        for (packet, verdict) in packets.iter().zip(verdicts) {
            if let Some(Verdict::Forward { port }) = verdict {
                self.send(packet, *port)?;
            }
        }
        Ok(())
    }

    /// What was sent until now need not wait for more: a turn of egress is over.
    ///
    /// # Errors
    /// It cannot be sent.
    fn flush(&mut self) -> Result<(), RouterError> {
        Ok(())
    }

    /// Packets for which there was no room; after the end also those of which it is not known that they were sent.
    fn refused(&self) -> u64 {
        0
    }

    /// Nothing more leaves.
    ///
    /// # Errors
    /// What was kept back cannot be written.
    fn finish(&mut self) -> Result<(), RouterError> {
        Ok(())
    }
}

/// Keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl FrameSink for Nowhere {
    fn send(&mut self, _: &Packet, _: PortId) -> Result<(), RouterError> {
        Ok(())
    }

    fn send_burst(&mut self, _: &[Packet], _: &[Option<Verdict>]) -> Result<(), RouterError> {
        Ok(())
    }
}

/// A capture in the pcap format, with nanoseconds. A packet's time is that of its arrival, so that captures of two runs can
/// be compared byte by byte.
pub struct PcapSink {
    path: PathBuf,
    epoch: Duration,
    out: BufWriter<File>,
}

impl PcapSink {
    /// Creates the file, or replaces it. `epoch` is since 1970 the time that arrival 0 stands for.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &Path, epoch: Duration) -> Result<PcapSink, RouterError> {
        let failed = |source| RouterError::File { path: path.into(), source };
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        // Magic of nanoseconds, version 2.4, no offset, no accuracy, longest record, Ethernet.
        for word in [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, traffic::MAX_STORED_BYTES as u32, 1] {
            out.write_all(&u32::to_le_bytes(word)).map_err(failed)?;
        }
        Ok(PcapSink { path: path.into(), epoch, out })
    }
}

impl FrameSink for PcapSink {
    fn send(&mut self, packet: &Packet, _: PortId) -> Result<(), RouterError> {
        let time = self.epoch.saturating_add(Duration::from_nanos(packet.arrival.0 / 1000));
        // The format has 32 bits: later than 2106 is then.
        let seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        let head = [seconds, time.subsec_nanos(), packet.data.len() as u32, packet.frame_bytes];
        let mut write = || {
            for word in head {
                self.out.write_all(&word.to_le_bytes())?;
            }
            self.out.write_all(&packet.data)
        };
        write().map_err(|source| RouterError::File { path: self.path.clone(), source })
    }

    fn finish(&mut self) -> Result<(), RouterError> {
        self.out.flush().map_err(|source| RouterError::File { path: self.path.clone(), source })
    }
}

#[cfg(target_os = "linux")]
pub use interface::InterfaceSink;

#[cfg(target_os = "linux")]
pub use crate::xdp::XdpSink;

#[cfg(target_os = "linux")]
mod interface {
    use std::io;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::sync::Arc;

    use packet::Packet;
    use units::PortId;

    use super::FrameSink;
    use crate::RouterError;

    /// Sends by a network interface: see [`crate::source::RawSocket::sender`] and [`crate::source::PacketRing::sender`].
    pub struct InterfaceSink {
        name: String,
        socket: Arc<OwnedFd>,
        /// Frames that the interface had no room for.
        refused: u64,
    }

    impl InterfaceSink {
        pub(crate) fn new(name: String, socket: Arc<OwnedFd>) -> InterfaceSink {
            InterfaceSink { name, socket, refused: 0 }
        }
    }

    impl FrameSink for InterfaceSink {
        fn send(&mut self, packet: &Packet, _: PortId) -> Result<(), RouterError> {
            loop {
                // SAFETY: a buffer of this length.
                let sent =
                    unsafe { libc::send(self.socket.as_raw_fd(), packet.data.as_ptr().cast(), packet.data.len(), 0) };
                if sent >= 0 {
                    return Ok(());
                }
                let error = io::Error::last_os_error();
                match (error.kind(), error.raw_os_error()) {
                    (io::ErrorKind::Interrupted, _) => continue,
                    // A full queue loses the packet, as it does in any router.
                    (io::ErrorKind::WouldBlock, _) | (_, Some(libc::ENOBUFS)) => {
                        self.refused += 1;
                        return Ok(());
                    }
                    _ => {
                        let name = self.name.clone();
                        return Err(RouterError::Interface { name, doing: "sending", source: error, hint: "" });
                    }
                }
            }
        }

        fn refused(&self) -> u64 {
            self.refused
        }
    }
}
