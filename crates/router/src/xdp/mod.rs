//! Packets of a network interface by AF_XDP: rings over memory that the kernel and this process share, a socket a queue.
//!
//! A program at the interface ([`program`]) hands the frames of a queue to the queue's socket, before the kernel's stack sees
//! them. The process gives the kernel chunks to fill, takes filled ones, gives it frames to send, and has their chunks back: four
//! rings ([`rings`]), and no call a frame. Half of the memory is for receiving, half for sending, so source and sink share nothing
//! but the socket.
//!
//! - **Native or generic.** The program runs in the driver where the driver has XDP, or else behind it, in the stack.
//! - **Zero-copy or copy.** A driver that can puts frames into this memory itself; or else the kernel copies them.
//! - **Wakeups.** The kernel says when it wants a call (`XDP_USE_NEED_WAKEUP`): at most one a batch, 32 frames where it copies.
//! - **Time.** The program writes the monotonic clock beside each frame: that is when it arrived.
//! - **Losses** are the kernel's count: no chunk was free or a frame longer than one, or the receive ring was full.
//! - **The end** waits until the kernel has given back the chunk of each frame that was to leave: before that a driver that reads
//!   frames out of this memory may not have sent it, and never will once the socket is closed. What does not come back counts as not sent.
//!
//! Left out: the NIC's own timestamps and VLAN tags that it takes out of frames (both need kernel functions that a driver has
//! or has not), frames longer than a chunk, memory that several sockets share.
//!
//! Source: Linux, Documentation/networking/af_xdp.rst.

mod channels;
mod program;
mod rings;

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use packet::Packet;
use units::{PacketId, PortId};

use self::program::{Attach, STAMP_BYTES, SocketMap};
use self::rings::{Mapping, Ring, RingKind};
use crate::RouterError;
use crate::interface::{LOOK_EVERY, epoch, since};
use crate::sink::FrameSink;
use crate::source::{FrameSource, NextFrame, XdpCopy, XdpMode};

/// Bytes of a chunk: a page, the most that the kernel takes. What the kernel and the program put before a frame lies in it, too.
const CHUNK_BYTES: usize = 4096;
/// The kernel's own room before a frame (`XDP_PACKET_HEADROOM`).
const HEADROOM_BYTES: usize = 256;
/// Chunks that are given back to the kernel at once.
const GIVE_BACK: u32 = 64;
/// Frames of which the kernel is told at once.
const SEND_AT_ONCE: u32 = 32;
/// How long a queue may be taken by a socket that has just been closed: the kernel lets go of it a little later,
/// by a work queue that a loaded host lets wait.
const LETTING_GO: Duration = Duration::from_secs(3);
/// How long the end waits for frames that the kernel has not said are sent.
const LAST_FRAMES: Duration = Duration::from_millis(200);

/// Sockets of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpSocketSpec {
    /// Queues of the interface, from 0 on.
    pub queues: u32,
    /// MiB of a socket's memory, a power of two: half of it for frames that came, half for frames to send.
    pub mib: u32,
    /// Where the program runs.
    pub mode: XdpMode,
    /// Who carries frames.
    pub copy: XdpCopy,
}

impl XdpSocketSpec {
    /// One queue with so many MiB, the program and the copies as the driver has them.
    pub fn new(mib: u32) -> XdpSocketSpec {
        XdpSocketSpec { queues: 1, mib, mode: XdpMode::Auto, copy: XdpCopy::Auto }
    }

    fn check(&self) -> Result<(), RouterError> {
        let wrong = |what, came: u32, allowed| Err(RouterError::Setting { what, came: came.to_string(), allowed });
        if !(1..=1024).contains(&self.queues) {
            return wrong("queues", self.queues, "allowed are 1 to 1024");
        }
        if !(1..=1024).contains(&self.mib) || !self.mib.is_power_of_two() {
            return wrong("ring_mib", self.mib, "with AF_XDP allowed are powers of two, 1 to 1024 MiB");
        }
        Ok(())
    }
}

/// What the kernel's end of a socket counted of frames that it could not give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpLosses {
    /// No chunk was free, or the frame was longer than one.
    pub no_chunk: u64,
    /// The receive ring was full.
    pub ring_full: u64,
    /// Of those without a chunk: how often the fill ring was empty.
    pub fill_ring_empty: u64,
    /// Descriptors to send that the kernel refused.
    pub refused_descriptors: u64,
}

/// An interface with the program attached, until this and all its sockets are gone.
pub struct XdpInterface {
    name: String,
    index: u32,
    spec: XdpSocketSpec,
    attached: Arc<Attached>,
}

struct Attached {
    sockets: SocketMap,
    mode: Attach,
    /// Its descriptor keeps the program at the interface.
    _link: OwnedFd,
}

fn failed(name: &str, doing: &'static str, source: io::Error) -> RouterError {
    let hint = match (doing, source.raw_os_error()) {
        (_, Some(libc::EPERM | libc::EACCES)) => {
            ": AF_XDP needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF (run as root, or setcap \
             cap_net_raw,cap_net_admin,cap_bpf+ep)"
        }
        (OPENING, Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT)) => {
            ": this kernel is without CONFIG_XDP_SOCKETS; take a ring (TPACKET_V3) or a raw socket"
        }
        (LOADING | MAPPING, Some(libc::EINVAL | libc::ENOSYS)) => {
            ": Linux 5.9 or newer is needed; take a ring (TPACKET_V3)"
        }
        (ATTACHING, Some(libc::EBUSY | libc::EEXIST)) => {
            ": it has another XDP program (ip link shows it); end its owner, or ip link set <name> xdp off"
        }
        (ATTACHING, Some(libc::EINVAL | libc::EOPNOTSUPP)) => {
            ": its driver has no XDP in this mode and at this MTU, or Linux is older than 5.9; take the generic mode, or a \
             ring (TPACKET_V3)"
        }
        (BINDING, Some(libc::EBUSY)) => ": another socket has this queue; end its owner, or take fewer queues",
        (BINDING, Some(libc::EINVAL)) => {
            ": it has no such queue, or none for XDP (ethtool -l <name>); take fewer queues"
        }
        (BINDING, Some(libc::EOPNOTSUPP)) => ": its driver has no zero-copy mode; let the kernel copy",
        (MEMORY, Some(libc::ENOBUFS | libc::ENOMEM)) => ": more than may be locked (ulimit -l); take less memory",
        (_, Some(libc::ENETDOWN | libc::ENODEV | libc::ENXIO)) if doing != LOOKING => {
            ": it is down or gone (ip link set <name> up)"
        }
        _ => "",
    };
    RouterError::Interface { name: name.into(), doing, source, hint }
}

const LOOKING: &str = "looking it up";
const OPENING: &str = "opening an AF_XDP socket";
const MAPPING: &str = "making a map of sockets";
const LOADING: &str = "loading the XDP program";
const ATTACHING: &str = "attaching the XDP program";
const MEMORY: &str = "registering memory for frames";
const RINGS: &str = "making its rings";
const BINDING: &str = "binding to its queue";
const REDIRECTING: &str = "redirecting its queue";
const RECEIVING: &str = "receiving";
const SENDING: &str = "sending";

fn set<T>(socket: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    let (at, bytes) = (std::ptr::from_ref(value).cast(), size_of::<T>() as u32);
    // SAFETY: a value of this length.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, at, bytes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn get<T>(socket: &OwnedFd, option: i32, value: &mut T) -> io::Result<()> {
    let mut bytes = size_of::<T>() as u32;
    let at = std::ptr::from_mut(value).cast();
    // SAFETY: room of this length, of integers, of which any bytes are values.
    match unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, at, &raw mut bytes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl XdpInterface {
    /// Loads the program and attaches it to interface `name`. Until a queue has a socket its frames are the kernel's.
    ///
    /// # Errors
    /// There is no such interface, no right to do it, an old kernel, another XDP program, a driver without the mode.
    pub fn open(name: &str, spec: &XdpSocketSpec) -> Result<XdpInterface, RouterError> {
        spec.check()?;
        let text = std::ffi::CString::new(name)
            .map_err(|_| failed(name, "it has no such name", io::Error::from(io::ErrorKind::InvalidInput)))?;
        // SAFETY: a string that ends with 0.
        let index = unsafe { libc::if_nametoindex(text.as_ptr()) };
        if index == 0 {
            return Err(failed(name, LOOKING, io::Error::last_os_error()));
        }
        let sockets = SocketMap::new(spec.queues).map_err(|e| failed(name, MAPPING, e))?;
        let program = sockets.program().map_err(|e| failed(name, LOADING, e))?;
        let attach = |mode| program::link(&program, index, mode).map(|link| (link, mode));
        let made = match spec.mode {
            XdpMode::Native => attach(Attach::Native),
            XdpMode::Generic => attach(Attach::Generic),
            XdpMode::Auto => attach(Attach::Native).or_else(|native| match native.raw_os_error() {
                Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOMEM | libc::ERANGE) => attach(Attach::Generic),
                _ => Err(native),
            }),
        };
        let (link, mode) = made.map_err(|e| failed(name, ATTACHING, e))?;
        let attached = Arc::new(Attached { sockets, mode, _link: link });
        Ok(XdpInterface { name: name.into(), index, spec: *spec, attached })
    }

    /// Whether the program runs in the driver.
    pub fn is_native(&self) -> bool {
        self.attached.mode == Attach::Native
    }

    /// The queues by which frames come, of which those without a socket keep theirs for the kernel; none where nobody says.
    pub fn receive_queues(&self) -> Option<u32> {
        channels::receive_queues(&self.name)
    }

    /// The socket of `queue`, and what sends by it. Its memory is of the node on which the calling thread runs.
    /// [`FrameSource::next`] gives [`NextFrame::End`] once `stop` is set and nothing is left in the ring.
    ///
    /// # Errors
    /// The queue has a socket, or there is none of that number; no memory; no zero-copy mode where that is asked for.
    pub fn socket(&self, queue: u32, stop: Arc<AtomicBool>) -> Result<(XdpSocket, XdpSink), RouterError> {
        if queue >= self.spec.queues {
            let allowed = "must be below the number of queues that the interface was opened with";
            return Err(RouterError::Setting { what: "queue", came: queue.to_string(), allowed });
        }
        let failed = |doing, e| failed(&self.name, doing, e);
        // SAFETY: plain integers.
        let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(failed(OPENING, io::Error::last_os_error()));
        }
        // SAFETY: a new descriptor, owned by nobody else.
        let socket = Arc::new(unsafe { OwnedFd::from_raw_fd(socket) });
        let chunks = ((self.spec.mib as usize) << 20) / CHUNK_BYTES;
        let memory = Arc::new(Mapping::anonymous(chunks * CHUNK_BYTES).map_err(|e| failed(MEMORY, e))?);
        let region = libc::xdp_umem_reg {
            addr: memory.at().as_ptr() as u64,
            len: memory.bytes() as u64,
            chunk_size: CHUNK_BYTES as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(&socket, libc::XDP_UMEM_REG, &region).map_err(|e| failed(MEMORY, e))?;
        let half = chunks as u32 / 2;
        let made = |e| failed(RINGS, e);
        let mut fill = Ring::open(&socket, RingKind::Fill, half).map_err(made)?;
        let completion = Ring::open(&socket, RingKind::Completion, half).map_err(made)?;
        let (rx, tx) = (
            Ring::open(&socket, RingKind::Rx, half).map_err(made)?,
            Ring::open(&socket, RingKind::Tx, half).map_err(made)?,
        );
        for chunk in 0..half {
            fill.push(u64::from(chunk) * CHUNK_BYTES as u64);
        }
        fill.publish();
        self.bind(&socket, queue).map_err(|e| failed(BINDING, e))?;
        self.attached.sockets.put(queue, &socket).map_err(|e| failed(REDIRECTING, e))?;
        let (name, start) = (self.name.clone(), Instant::now());
        let mut options = libc::xdp_options { flags: 0 };
        get(&socket, libc::XDP_OPTIONS, &mut options).map_err(|e| failed(BINDING, e))?;
        let zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
        let asking = UnixDatagram::unbound().map_err(|e| failed(OPENING, e))?;
        let free = (half..2 * half).map(|chunk| u64::from(chunk) * CHUNK_BYTES as u64).collect();
        let sink = XdpSink {
            name: name.clone(),
            socket: socket.clone(),
            memory: memory.clone(),
            _attached: self.attached.clone(),
            tx,
            completion,
            chunks: half,
            free,
            // Where the kernel copies, the frame's end gives its chunk back; a driver may want to be called for that.
            completes_by_call: zero_copy,
            refused: 0,
        };
        let source = XdpSocket {
            name,
            socket,
            memory,
            _attached: self.attached.clone(),
            zero_copy,
            fill,
            rx,
            clock: both_clocks(),
            seen: start,
            arrived: None,
            looked: start,
            asking,
            stop,
            taken: 0,
        };
        Ok((source, sink))
    }

    fn bind(&self, socket: &OwnedFd, queue: u32) -> io::Result<()> {
        let copy = match (self.attached.mode, self.spec.copy) {
            // Behind the driver the kernel can only copy. A driver may have zero-copy all the same, and would then be given
            // chunks that nobody fills.
            (Attach::Generic, XdpCopy::Auto) | (_, XdpCopy::Copy) => libc::XDP_COPY,
            (Attach::Native, XdpCopy::Auto) => 0,
            (Attach::Generic, XdpCopy::ZeroCopy) => return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            (Attach::Native, XdpCopy::ZeroCopy) => libc::XDP_ZEROCOPY,
        };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP | copy,
            sxdp_ifindex: self.index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        let bytes = size_of::<libc::sockaddr_xdp>() as u32;
        let begun = Instant::now();
        loop {
            // SAFETY: an address of this length.
            if unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EBUSY) || begun.elapsed() > LETTING_GO {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// One moment, also in nanoseconds of the clock that the program reads, which is [`Instant`]'s, too: within a microsecond, unless
/// the thread is kept from its CPU all the while.
fn both_clocks() -> (Instant, u64) {
    let read = || {
        // SAFETY: all zero is a value of it.
        let mut time: libc::timespec = unsafe { std::mem::zeroed() };
        let before = Instant::now();
        // SAFETY: it writes to what outlives the call.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        let apart = before.elapsed();
        (apart, before + apart / 2, time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    };
    let (_, instant, ns) = (0..10).map(|_| read()).min_by_key(|&(apart, ..)| apart).unwrap_or_else(read);
    (instant, ns)
}

/// Frames of one queue.
pub struct XdpSocket {
    name: String,
    socket: Arc<OwnedFd>,
    memory: Arc<Mapping>,
    _attached: Arc<Attached>,
    zero_copy: bool,
    fill: Ring<u64>,
    rx: Ring<libc::xdp_desc>,
    /// One moment by both clocks.
    clock: (Instant, u64),
    arrived: Option<Instant>,
    /// When the ring was last looked at: what is in it came before.
    seen: Instant,
    looked: Instant,
    /// By which the interface's state is asked for: an AF_XDP socket answers no such questions.
    asking: UnixDatagram,
    stop: Arc<AtomicBool>,
    taken: u64,
}

impl XdpSocket {
    /// Whether the driver itself puts frames into the memory.
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// What the kernel could not give, since the beginning.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn losses(&self) -> Result<XdpLosses, RouterError> {
        // SAFETY: all zero is a value of it.
        let mut counts: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        get(&self.socket, libc::XDP_STATISTICS, &mut counts)
            .map_err(|e| failed(&self.name, "asking for its counts", e))?;
        Ok(XdpLosses {
            no_chunk: counts.rx_dropped,
            ring_full: counts.rx_ring_full,
            fill_ring_empty: counts.rx_fill_ring_empty_descs,
            refused_descriptors: counts.rx_invalid_descs + counts.tx_invalid_descs,
        })
    }

    /// When the frame at `at` came, if the program could write that down; the place is clear for the next frame.
    fn stamp(&self, at: usize) -> Option<Instant> {
        let before = at.checked_sub(STAMP_BYTES).filter(|_| at % CHUNK_BYTES >= STAMP_BYTES)?;
        // SAFETY: within the memory, in a chunk that is ours until it is given back.
        let told = unsafe { self.memory.at().add(before).cast::<u64>() };
        // SAFETY: as above; a frame may begin anywhere.
        let ns = unsafe { told.read_unaligned() };
        // SAFETY: as above.
        unsafe { told.write_unaligned(0) };
        let (instant, then) = self.clock;
        let came = match ns.checked_sub(then) {
            _ if ns == 0 => return None,
            Some(later) => instant + Duration::from_nanos(later),
            None => instant.checked_sub(Duration::from_nanos(then - ns))?,
        };
        Some(came.min(self.seen))
    }

    /// Nothing came: the kernel has all chunks back, is called if it wants to be, and the interface is looked at now and then.
    fn idle(&mut self) -> Result<NextFrame, RouterError> {
        self.give_back();
        if self.stop.load(Ordering::Relaxed) {
            return Ok(NextFrame::End);
        }
        if self.fill.wants_wakeup() {
            // SAFETY: no buffer; the call only wakes the driver.
            unsafe {
                libc::recvfrom(
                    self.socket.as_raw_fd(),
                    std::ptr::null_mut(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                )
            };
        }
        let now = Instant::now();
        if now - self.looked >= LOOK_EVERY {
            self.looked = now;
            self.look()?;
        }
        Ok(NextFrame::NotYet)
    }

    fn look(&self) -> Result<(), RouterError> {
        let mut request = channels::request(&self.name);
        // SAFETY: a request with a name that ends with 0, which the kernel fills.
        let asked = unsafe { libc::ioctl(self.asking.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) };
        if asked < 0 {
            return Err(failed(&self.name, RECEIVING, io::Error::last_os_error()));
        }
        // SAFETY: the kernel has written this field.
        let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
        if flags & libc::IFF_UP == 0 {
            return Err(failed(&self.name, RECEIVING, io::Error::from_raw_os_error(libc::ENETDOWN)));
        }
        Ok(())
    }

    fn give_back(&mut self) {
        if self.fill.unpublished() > 0 {
            self.rx.release();
            self.fill.publish();
        }
    }
}

impl FrameSource for XdpSocket {
    fn next(&mut self, packet: &mut Packet) -> Result<NextFrame, RouterError> {
        let spent = self.rx.is_spent();
        let Some(frame) = self.rx.pop() else { return self.idle() };
        if spent {
            self.seen = Instant::now();
        }
        let (at, bytes) = (frame.addr as usize, frame.len as usize);
        if at.checked_add(bytes).is_none_or(|end| end > self.memory.bytes()) {
            return Err(failed(&self.name, RECEIVING, io::Error::from(io::ErrorKind::InvalidData)));
        }
        // SAFETY: within the memory, in a chunk that is ours until it is given back.
        let data = unsafe { std::slice::from_raw_parts(self.memory.at().add(at).as_ptr(), bytes) };
        packet.set_frame(data, frame.len);
        self.arrived = self.stamp(at);
        // As many chunks are out as the fill ring has entries.
        self.fill.push((at - at % CHUNK_BYTES) as u64);
        if self.fill.unpublished() >= GIVE_BACK {
            self.give_back();
        }
        packet.id = PacketId(self.taken);
        packet.arrival = since(self.clock.0, self.arrived.unwrap_or(self.seen));
        self.taken += 1;
        Ok(NextFrame::Packet)
    }

    fn is_live(&self) -> bool {
        true
    }

    fn epoch(&self) -> Option<Duration> {
        epoch(self.clock.0)
    }

    fn arrived(&self) -> Option<Instant> {
        self.arrived
    }

    fn missed(&mut self) -> Option<u64> {
        self.losses().ok().map(|losses| losses.no_chunk + losses.ring_full)
    }
}

/// Sends by one queue.
pub struct XdpSink {
    name: String,
    socket: Arc<OwnedFd>,
    memory: Arc<Mapping>,
    _attached: Arc<Attached>,
    tx: Ring<libc::xdp_desc>,
    completion: Ring<u64>,
    /// Chunks of this side, and those in which nothing waits to be sent.
    chunks: u32,
    free: Vec<u64>,
    /// Whether the kernel may have to be called before it gives chunks back, with nothing left in the ring.
    completes_by_call: bool,
    refused: u64,
}

impl XdpSink {
    /// Takes back the chunks of what was sent.
    fn reclaim(&mut self) {
        let before = self.free.len();
        while let Some(chunk) = self.completion.pop() {
            self.free.push(chunk - chunk % CHUNK_BYTES as u64);
        }
        if self.free.len() > before {
            self.completion.release();
        }
    }

    /// Frames that are written, and of which the kernel has not said that they are sent.
    fn outstanding(&self) -> u32 {
        self.chunks - self.free.len() as u32
    }

    /// Tells the kernel of what is written, and calls it as often as it wants: where it copies it sends 32 a call.
    fn kick(&mut self) -> Result<(), RouterError> {
        if self.tx.unpublished() > 0 {
            self.tx.publish();
        }
        let mut left = self.tx.unconsumed();
        while left > 0 && self.tx.wants_wakeup() {
            self.wake()?;
            let now = self.tx.unconsumed();
            // It goes no further now: what is left goes with the next call.
            if std::mem::replace(&mut left, now) == now {
                break;
            }
        }
        Ok(())
    }

    /// Calls the kernel for chunks that it has not given back, if there may be any.
    fn urge(&mut self) -> Result<(), RouterError> {
        self.kick()?;
        if self.completes_by_call && self.outstanding() > 0 && self.tx.unconsumed() == 0 && self.tx.wants_wakeup() {
            self.wake()?;
        }
        self.reclaim();
        Ok(())
    }

    fn wake(&mut self) -> Result<(), RouterError> {
        // SAFETY: no buffer; the call only wakes the driver.
        let sent = unsafe {
            libc::sendto(self.socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
        };
        let error = if sent < 0 { io::Error::last_os_error() } else { return Ok(()) };
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS) => Ok(()),
            // The kernel took this one, and the interface's queue had no room for it.
            Some(libc::EBUSY) => {
                self.refused += 1;
                Ok(())
            }
            _ => Err(failed(&self.name, SENDING, error)),
        }
    }
}

impl FrameSink for XdpSink {
    fn send(&mut self, packet: &Packet, _: PortId) -> Result<(), RouterError> {
        if self.free.is_empty() {
            self.urge()?;
        }
        let bytes = packet.data.len();
        let fits = (1..=CHUNK_BYTES - HEADROOM_BYTES).contains(&bytes);
        let Some(chunk) = fits.then(|| self.free.pop()).flatten() else {
            self.refused += 1;
            return Ok(());
        };
        // SAFETY: a chunk of this side's half, which the kernel does not have, and in which the frame has room.
        unsafe {
            let to = self.memory.at().as_ptr().add(chunk as usize);
            std::ptr::copy_nonoverlapping(packet.data.as_ptr(), to, bytes);
        }
        // As many chunks are out as the ring has entries.
        self.tx.push(libc::xdp_desc { addr: chunk, len: bytes as u32, options: 0 });
        if self.tx.unpublished() >= SEND_AT_ONCE {
            self.kick()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RouterError> {
        if self.tx.unpublished() > 0 || self.tx.unconsumed() > 0 {
            self.kick()?;
        }
        self.reclaim();
        Ok(())
    }

    fn refused(&self) -> u64 {
        self.refused
    }

    fn finish(&mut self) -> Result<(), RouterError> {
        let begun = Instant::now();
        loop {
            self.urge()?;
            let left = self.outstanding();
            if left == 0 {
                return Ok(());
            }
            if begun.elapsed() > LAST_FRAMES {
                self.refused += u64::from(left);
                return Ok(());
            }
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests;
