//! Where packets come from: a capture, a generator, a network interface.

use packet::Packet;

use crate::RouterError;

/// What a source has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A packet, whose `arrival` counts from the start of the run.
    Packet,
    /// Nothing yet: ask again.
    NotYet,
    /// Nothing any more.
    End,
}

/// Gives packets in order of arrival.
pub trait Source {
    /// Fills `packet` with the next packet, if there is one.
    ///
    /// # Errors
    /// It cannot be read.
    fn next(&mut self, packet: &mut Packet) -> Result<Next, RouterError>;

    /// Whether packets arrive when they do, not when `arrival` says.
    fn is_live(&self) -> bool {
        false
    }

    /// Packets that came and could not be taken, if that is known.
    fn missed(&mut self) -> Option<u64> {
        None
    }
}

impl Source for traffic::Source {
    fn next(&mut self, packet: &mut Packet) -> Result<Next, RouterError> {
        Ok(if traffic::Source::next(self, packet) { Next::Packet } else { Next::End })
    }
}

impl Source for traffic::Capture {
    fn next(&mut self, packet: &mut Packet) -> Result<Next, RouterError> {
        Ok(if traffic::Capture::next(self, packet) { Next::Packet } else { Next::End })
    }
}

#[cfg(target_os = "linux")]
pub use interface::Interface;

#[cfg(target_os = "linux")]
mod interface {
    use std::io;
    use std::mem::{size_of, zeroed};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use packet::Packet;
    use units::Ps;

    use super::{Next, Source};
    use crate::RouterError;

    /// The longest frame that is taken.
    const FRAME_BYTES: usize = 1 << 16;

    /// A raw socket on a network interface (AF_PACKET): frames as they come, and frames sent as they are.
    ///
    /// Frames that this host sends by the interface are passed over: a router does not route what it sends.
    pub struct Interface {
        name: String,
        socket: Arc<OwnedFd>,
        buffer: Vec<u8>,
        start: Instant,
        stop: Arc<AtomicBool>,
        taken: u64,
    }

    impl Interface {
        /// Opens interface `name`; [`Source::next`] gives [`Next::End`] once `stop` is set.
        ///
        /// # Errors
        /// There is no such interface, or no right to raw sockets.
        pub fn open(name: &str, stop: Arc<AtomicBool>) -> Result<Interface, RouterError> {
            let failed = |doing, source: io::Error| {
                let hint = match source.raw_os_error() {
                    Some(libc::EPERM) => ": raw sockets need CAP_NET_RAW (run as root, or setcap cap_net_raw+ep)",
                    _ => "",
                };
                RouterError::Interface { name: name.into(), doing, source, hint }
            };
            let text = std::ffi::CString::new(name)
                .map_err(|_| failed("it has no such name", io::Error::from(io::ErrorKind::InvalidInput)))?;
            // SAFETY: a string that ends with 0.
            let index = unsafe { libc::if_nametoindex(text.as_ptr()) };
            if index == 0 {
                return Err(failed("looking it up", io::Error::last_os_error()));
            }
            let protocol = (libc::ETH_P_ALL as u16).to_be();
            // SAFETY: plain integers.
            let socket = unsafe {
                libc::socket(
                    libc::AF_PACKET,
                    libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
                    i32::from(protocol),
                )
            };
            if socket < 0 {
                return Err(failed("opening a raw socket", io::Error::last_os_error()));
            }
            // SAFETY: a new descriptor, owned by nobody else.
            let socket = unsafe { OwnedFd::from_raw_fd(socket) };
            // SAFETY: all zero is a value of it.
            let mut address: libc::sockaddr_ll = unsafe { zeroed() };
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = protocol;
            address.sll_ifindex = index as i32;
            // SAFETY: an address of this length.
            let bound = unsafe {
                libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32)
            };
            if bound < 0 {
                return Err(failed("binding to it", io::Error::last_os_error()));
            }
            Ok(Interface {
                name: name.into(),
                socket: Arc::new(socket),
                buffer: vec![0; FRAME_BYTES],
                start: Instant::now(),
                stop,
                taken: 0,
            })
        }

        /// The same socket, to send by.
        pub fn sender(&self) -> crate::sink::InterfaceSink {
            crate::sink::InterfaceSink::new(self.name.clone(), self.socket.clone())
        }
    }

    impl Source for Interface {
        fn next(&mut self, packet: &mut Packet) -> Result<Next, RouterError> {
            loop {
                // SAFETY: all zero is a value of it.
                let mut from: libc::sockaddr_ll = unsafe { zeroed() };
                let mut from_bytes = size_of::<libc::sockaddr_ll>() as u32;
                // SAFETY: a buffer and an address of these lengths.
                let came = unsafe {
                    libc::recvfrom(
                        self.socket.as_raw_fd(),
                        self.buffer.as_mut_ptr().cast(),
                        self.buffer.len(),
                        libc::MSG_TRUNC,
                        (&raw mut from).cast(),
                        &raw mut from_bytes,
                    )
                };
                if came < 0 {
                    let error = io::Error::last_os_error();
                    return match error.kind() {
                        io::ErrorKind::WouldBlock if self.stop.load(Ordering::Relaxed) => Ok(Next::End),
                        io::ErrorKind::WouldBlock => Ok(Next::NotYet),
                        io::ErrorKind::Interrupted => continue,
                        _ => Err(RouterError::Interface {
                            name: self.name.clone(),
                            doing: "receiving",
                            source: error,
                            hint: "",
                        }),
                    };
                }
                if from.sll_pkttype == libc::PACKET_OUTGOING {
                    continue;
                }
                let bytes = came as usize;
                packet.set_frame(&self.buffer[..bytes.min(self.buffer.len())], bytes as u32);
                packet.id = units::PacketId(self.taken);
                packet.arrival = Ps(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX / 1000) * 1000);
                self.taken += 1;
                return Ok(Next::Packet);
            }
        }

        fn is_live(&self) -> bool {
            true
        }

        fn missed(&mut self) -> Option<u64> {
            let mut counts = [0u32; 2];
            let mut bytes = size_of_val(&counts) as u32;
            // SAFETY: `struct tpacket_stats`, two integers: packets and drops, of this length.
            let got = unsafe {
                libc::getsockopt(
                    self.socket.as_raw_fd(),
                    libc::SOL_PACKET,
                    libc::PACKET_STATISTICS,
                    counts.as_mut_ptr().cast(),
                    &raw mut bytes,
                )
            };
            (got == 0).then(|| u64::from(counts[1]))
        }
    }
}
