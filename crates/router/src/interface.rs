//! Packets of a network interface (AF_PACKET): by a call each, or by a ring that the kernel and this process share.
//!
//! The ring is TPACKET_V3: blocks of many frames, each as long as it is. The kernel fills a block and hands it over when it is
//! full or when a timeout has passed since it was begun; this process gives it back once it has read it. So a frame costs no
//! call, memory is bounded by the ring, and what finds no room is counted by the kernel. The price is delay where traffic is
//! sparse: a frame waits in its block for up to the timeout. Frames carry the time at which they arrived, so that wait counts
//! as delay.
//!
//! The kernel takes the outermost VLAN tag out of a frame, on most interfaces, and tells it beside the frame; both sources put
//! it back, or else a router would send on what it received in a VLAN without its tag.
//!
//! Several sockets or rings of an interface share its frames by flow (PACKET_FANOUT): [`FanoutGroup`].
//!
//! Left out: a ring to send by, promiscuous reception.
//!
//! Source: Linux, Documentation/networking/packet_mmap.rst, and packet(7).

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use packet::Packet;
use units::Ps;

use crate::RouterError;
use crate::sink::InterfaceSink;
use crate::source::{FrameSource, NextFrame};

/// The longest frame that is taken by a call.
const FRAME_BYTES: usize = 1 << 16;
/// Where a VLAN tag is in a frame, and its bytes.
const TAG_AT: usize = 12;
const TAG_BYTES: usize = 4;
/// The EtherType of a tag, where the kernel does not tell it (IEEE 802.1Q).
const TPID: u16 = 0x8100;
/// How often a ring without packets looks whether its interface is still there.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A raw socket that is bound to an interface.
struct Bound {
    name: String,
    socket: Arc<OwnedFd>,
    /// Since the beginning, as the kernel forgets what it has told.
    missed: u64,
}

impl Bound {
    /// A socket that receives nothing yet.
    fn open(name: &str) -> Result<(Bound, i32), RouterError> {
        let text = std::ffi::CString::new(name)
            .map_err(|_| failed(name, "it has no such name", io::Error::from(io::ErrorKind::InvalidInput)))?;
        // SAFETY: a string that ends with 0.
        let index = unsafe { libc::if_nametoindex(text.as_ptr()) };
        if index == 0 {
            return Err(failed(name, "looking it up", io::Error::last_os_error()));
        }
        // Without a protocol it receives nothing, or else frames of all interfaces would come until it is bound.
        // SAFETY: plain integers.
        let socket =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(failed(name, "opening a raw socket", io::Error::last_os_error()));
        }
        // SAFETY: a new descriptor, owned by nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        Ok((Bound { name: name.into(), socket: Arc::new(socket), missed: 0 }, index as i32))
    }

    /// Frames come from here on.
    fn bind(&self, index: i32) -> Result<(), RouterError> {
        // SAFETY: all zero is a value of it.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index;
        // SAFETY: an address of this length.
        let bound = unsafe {
            libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32)
        };
        if bound < 0 {
            return Err(failed(&self.name, "binding to it", io::Error::last_os_error()));
        }
        Ok(())
    }

    fn set<T>(&self, option: i32, value: &T, doing: &'static str) -> Result<(), RouterError> {
        self.set_at(libc::SOL_PACKET, option, value, doing)
    }

    fn set_at<T>(&self, level: i32, option: i32, value: &T, doing: &'static str) -> Result<(), RouterError> {
        // SAFETY: a value of this length; what it points to outlives the call.
        let set = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                level,
                option,
                std::ptr::from_ref(value).cast(),
                size_of::<T>() as u32,
            )
        };
        if set < 0 {
            return Err(failed(&self.name, doing, io::Error::last_os_error()));
        }
        Ok(())
    }

    fn missed(&mut self) -> Option<u64> {
        // Packets, drops, and of a ring how often it was full: the kernel writes as much as there is room for.
        let mut counts = [0u32; 3];
        let mut bytes = size_of_val(&counts) as u32;
        // SAFETY: room of this length.
        let got = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                counts.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        self.missed += if got == 0 { u64::from(counts[1]) } else { return None };
        Some(self.missed)
    }

    fn sender(&self) -> InterfaceSink {
        InterfaceSink::new(self.name.clone(), self.socket.clone())
    }
}

/// Sockets that share an interface's frames: each frame comes to one of them, and those of a flow to the same (PACKET_FANOUT).
#[derive(Debug, Default)]
pub struct FanoutGroup(Mutex<Option<i32>>);

impl FanoutGroup {
    /// Binds `socket`, which takes nothing until it is one of the group: or else a frame came to two.
    fn bind(&self, socket: &Bound, index: i32) -> Result<(), RouterError> {
        const ASKING: &str = "sharing its frames between sockets (PACKET_FANOUT)";
        let nothing = [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }];
        let filter = libc::sock_fprog { len: 1, filter: nothing.as_ptr().cast_mut() };
        socket.set_at(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter, ASKING)?;
        socket.bind(index)?;
        let mut group = self.0.lock().map_err(|_| RouterError::Panicked { backend: "fanout" })?;
        let hash = libc::PACKET_FANOUT_HASH as i32;
        match *group {
            Some(id) => socket.set(libc::PACKET_FANOUT, &(id | hash << 16), ASKING)?,
            None => {
                let own = libc::PACKET_FANOUT_FLAG_UNIQUEID as i32;
                socket.set(libc::PACKET_FANOUT, &((hash | own) << 16), ASKING)?;
                let (mut told, mut bytes) = (0i32, size_of::<i32>() as u32);
                let (file, at) = (socket.socket.as_raw_fd(), (&raw mut told).cast());
                // SAFETY: room of this length.
                if unsafe { libc::getsockopt(file, libc::SOL_PACKET, libc::PACKET_FANOUT, at, &raw mut bytes) } < 0 {
                    return Err(failed(&socket.name, ASKING, io::Error::last_os_error()));
                }
                *group = Some(told & 0xffff);
            }
        }
        socket.set_at(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32, ASKING)
    }
}

fn failed(name: &str, doing: &'static str, source: io::Error) -> RouterError {
    let hint = match source.raw_os_error() {
        Some(libc::EPERM) => ": raw sockets need CAP_NET_RAW (run as root, or setcap cap_net_raw+ep)",
        Some(libc::ENETDOWN) => ": it is down or gone (ip link set <name> up)",
        Some(libc::ENOMEM) => ": take a smaller ring, or none",
        _ => "",
    };
    RouterError::Interface { name: name.into(), doing, source, hint }
}

/// Puts the frame into `packet`, of which `bytes` were on the wire, with the tag that the kernel has taken out of it.
fn set_frame(packet: &mut Packet, frame: &[u8], bytes: u32, tag: Option<[u16; 2]>, buffer: &mut Vec<u8>) {
    match tag {
        Some([tpid, tci]) if frame.len() >= TAG_AT => {
            buffer.clear();
            buffer.extend_from_slice(&frame[..TAG_AT]);
            buffer.extend_from_slice(&tpid.to_be_bytes());
            buffer.extend_from_slice(&tci.to_be_bytes());
            buffer.extend_from_slice(&frame[TAG_AT..]);
            packet.set_frame(buffer, bytes + TAG_BYTES as u32);
        }
        _ => packet.set_frame(frame, bytes),
    }
}

/// The tag beside a frame whose status is `status`.
fn tag_of(status: u32, tci: u16, tpid: u16) -> Option<[u16; 2]> {
    let tpid = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { tpid } else { TPID };
    (status & libc::TP_STATUS_VLAN_VALID != 0).then_some([tpid, tci])
}

/// Since 1970 the time of `at`, which was a while ago.
pub(crate) fn epoch(at: Instant) -> Option<Duration> {
    SystemTime::now().duration_since(UNIX_EPOCH).ok()?.checked_sub(at.elapsed())
}

pub(crate) fn since(start: Instant, at: Instant) -> Ps {
    Ps(u64::try_from(at.saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX / 1000).saturating_mul(1000))
}

/// A raw socket on a network interface: frames as they come, a call each, and frames sent as they are.
///
/// Frames that this host sends by the interface are passed over: a router does not route what it sends.
pub struct RawSocket {
    bound: Bound,
    buffer: Vec<u8>,
    tagged: Vec<u8>,
    start: Instant,
    stop: Arc<AtomicBool>,
    taken: u64,
}

/// Room for what the kernel tells beside a frame, aligned as it wants.
#[repr(C, align(8))]
struct Beside([u8; 64]);

impl RawSocket {
    /// Opens interface `name`; [`FrameSource::next`] gives [`NextFrame::End`] once `stop` is set.
    ///
    /// # Errors
    /// There is no such interface, or no right to raw sockets.
    pub fn open(name: &str, stop: Arc<AtomicBool>) -> Result<RawSocket, RouterError> {
        RawSocket::open_in(name, stop, None)
    }

    /// As [`RawSocket::open`], as one of a group.
    ///
    /// # Errors
    /// As [`RawSocket::open`].
    pub fn open_in(name: &str, stop: Arc<AtomicBool>, group: Option<&FanoutGroup>) -> Result<RawSocket, RouterError> {
        let (bound, index) = Bound::open(name)?;
        bound.set(libc::PACKET_AUXDATA, &1i32, "asking for VLAN tags")?;
        group.map_or_else(|| bound.bind(index), |group| group.bind(&bound, index))?;
        let buffer = vec![0; FRAME_BYTES];
        Ok(RawSocket { bound, buffer, tagged: Vec::new(), start: Instant::now(), stop, taken: 0 })
    }

    /// The same socket, to send by.
    pub fn sender(&self) -> InterfaceSink {
        self.bound.sender()
    }

    /// The tag that the kernel tells beside a frame.
    fn tag(message: &libc::msghdr) -> Option<[u16; 2]> {
        // SAFETY: the message was received, and its control buffer is as long as the kernel says and still there.
        unsafe {
            let mut head = libc::CMSG_FIRSTHDR(message);
            while let Some(control) = head.as_ref() {
                if control.cmsg_level == libc::SOL_PACKET && control.cmsg_type == libc::PACKET_AUXDATA {
                    let told: libc::tpacket_auxdata =
                        libc::CMSG_DATA(head).cast::<libc::tpacket_auxdata>().read_unaligned();
                    return tag_of(told.tp_status, told.tp_vlan_tci, told.tp_vlan_tpid);
                }
                head = libc::CMSG_NXTHDR(message, head);
            }
        }
        None
    }
}

impl FrameSource for RawSocket {
    fn next(&mut self, packet: &mut Packet) -> Result<NextFrame, RouterError> {
        loop {
            // SAFETY: all zero is a value of both.
            let (mut from, mut message): (libc::sockaddr_ll, libc::msghdr) = unsafe { (zeroed(), zeroed()) };
            let mut beside = Beside([0; 64]);
            let mut part = libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: self.buffer.len() };
            message.msg_name = (&raw mut from).cast();
            message.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = beside.0.as_mut_ptr().cast();
            message.msg_controllen = beside.0.len() as _;
            // SAFETY: buffers of these lengths, which outlive the call.
            let came = unsafe { libc::recvmsg(self.bound.socket.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) };
            if came < 0 {
                let error = io::Error::last_os_error();
                return match error.kind() {
                    io::ErrorKind::WouldBlock if self.stop.load(Ordering::Relaxed) => Ok(NextFrame::End),
                    io::ErrorKind::WouldBlock => Ok(NextFrame::NotYet),
                    io::ErrorKind::Interrupted => continue,
                    _ => Err(failed(&self.bound.name, "receiving", error)),
                };
            }
            if from.sll_pkttype == libc::PACKET_OUTGOING {
                continue;
            }
            let (bytes, tag) = (came as usize, RawSocket::tag(&message));
            let frame = &self.buffer[..bytes.min(self.buffer.len())];
            set_frame(packet, frame, bytes as u32, tag, &mut self.tagged);
            packet.id = units::PacketId(self.taken);
            packet.arrival = since(self.start, Instant::now());
            self.taken += 1;
            return Ok(NextFrame::Packet);
        }
    }

    fn is_live(&self) -> bool {
        true
    }

    fn epoch(&self) -> Option<Duration> {
        epoch(self.start)
    }

    fn missed(&mut self) -> Option<u64> {
        self.bound.missed()
    }
}

/// A ring of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSpec {
    /// MiB of all blocks: what the kernel may keep of packets that this process has not yet read.
    pub mib: u32,
    /// Milliseconds after which the kernel hands over a block that is not full.
    pub timeout_ms: u32,
}

impl RingSpec {
    /// A ring of so many MiB, whose blocks wait for a millisecond, or a tick of the kernel's timer where that is
    /// longer (4 ms at 250 Hz).
    pub fn new(mib: u32) -> RingSpec {
        RingSpec { mib, timeout_ms: 1 }
    }

    fn check(&self) -> Result<(), RouterError> {
        let wrong = |what, came: u32, allowed| Err(RouterError::Setting { what, came: came.to_string(), allowed });
        if !(1..=1024).contains(&self.mib) {
            return wrong("ring_mib", self.mib, "allowed are 1 to 1024 MiB");
        }
        if !(1..=1000).contains(&self.timeout_ms) {
            return wrong("ring timeout", self.timeout_ms, "allowed are 1 to 1000 ms");
        }
        Ok(())
    }
}

/// Bytes of a block: room for a frame of any length.
const BLOCK_BYTES: usize = 256 << 10;
/// Frames lie in a block as long as they are; the kernel wants a length all the same.
const FRAME_STEP: usize = 2048;

/// A network interface by a ring that the kernel shares.
pub struct PacketRing {
    bound: Bound,
    memory: NonNull<u8>,
    blocks: usize,
    /// The block that is read or waited for.
    block: usize,
    /// Frames of it that are left, 0 if it is still the kernel's; and where the next one is.
    left: u32,
    at: usize,
    /// When it was taken over, by both clocks: the kernel tells times of day.
    taken_over: (Instant, Duration),
    arrived: Option<Instant>,
    looked: Instant,
    tagged: Vec<u8>,
    start: Instant,
    stop: Arc<AtomicBool>,
    taken: u64,
}

// SAFETY: the memory is this value's alone, apart from the kernel, and nothing of it depends on the thread.
unsafe impl Send for PacketRing {}

impl PacketRing {
    /// Opens interface `name`; [`FrameSource::next`] gives [`NextFrame::End`] once `stop` is set and no block that
    /// the kernel has handed over is left.
    ///
    /// # Errors
    /// There is no such interface, no right to raw sockets, no memory for the ring.
    pub fn open(name: &str, spec: &RingSpec, stop: Arc<AtomicBool>) -> Result<PacketRing, RouterError> {
        PacketRing::open_in(name, spec, stop, None)
    }

    /// As [`PacketRing::open`], as one of a group.
    ///
    /// # Errors
    /// As [`PacketRing::open`].
    pub fn open_in(
        name: &str,
        spec: &RingSpec,
        stop: Arc<AtomicBool>,
        group: Option<&FanoutGroup>,
    ) -> Result<PacketRing, RouterError> {
        spec.check()?;
        let (bound, index) = Bound::open(name)?;
        let blocks = ((spec.mib as usize) << 20) / BLOCK_BYTES;
        let version = libc::tpacket_versions::TPACKET_V3 as i32;
        bound.set(libc::PACKET_VERSION, &version, "asking for a ring of blocks (TPACKET_V3)")?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME_STEP as u32,
            tp_frame_nr: (blocks * BLOCK_BYTES / FRAME_STEP) as u32,
            tp_retire_blk_tov: spec.timeout_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        bound.set(libc::PACKET_RX_RING, &request, "asking for the ring's memory")?;
        // SAFETY: a new mapping of the ring, which has this length.
        let memory = unsafe {
            libc::mmap(
                null_mut(),
                blocks * BLOCK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                bound.socket.as_raw_fd(),
                0,
            )
        };
        let memory = match NonNull::new(memory.cast::<u8>()) {
            Some(memory) if memory.as_ptr().cast() != libc::MAP_FAILED => memory,
            _ => return Err(failed(name, "mapping the ring", io::Error::last_os_error())),
        };
        let now = Instant::now();
        let ring = PacketRing {
            bound,
            memory,
            blocks,
            block: 0,
            left: 0,
            at: 0,
            taken_over: (now, Duration::ZERO),
            arrived: None,
            looked: now,
            tagged: Vec::new(),
            start: now,
            stop,
            taken: 0,
        };
        group.map_or_else(|| ring.bound.bind(index), |group| group.bind(&ring.bound, index))?;
        Ok(ring)
    }

    /// The same socket, to send by.
    pub fn sender(&self) -> InterfaceSink {
        self.bound.sender()
    }

    /// The head of the block.
    fn head(&self) -> NonNull<libc::tpacket_hdr_v1> {
        let at = self.block * BLOCK_BYTES + std::mem::offset_of!(libc::tpacket_block_desc, hdr);
        // SAFETY: `block` is below `blocks`, so this lies in the mapping; blocks are aligned to pages.
        unsafe { self.memory.add(at).cast() }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: an aligned word of the mapping, which lives as long as `self`; the kernel reads and writes it whole.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.head().as_ptr()).block_status) }
    }

    /// Takes over the block if the kernel has handed it over.
    fn take_over(&mut self) -> bool {
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the block is ours until its status is given back.
        let head = unsafe { self.head().read() };
        (self.left, self.at) = (head.num_pkts, head.offset_to_first_pkt as usize);
        let of_day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.taken_over = (Instant::now(), of_day);
        true
    }

    /// The block is the kernel's again.
    fn give_back(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.block = (self.block + 1) % self.blocks;
    }

    /// The next frame of the block: its head, where it lies, and whether this host sent it.
    fn frame(&mut self) -> Result<(libc::tpacket3_hdr, &[u8], bool), RouterError> {
        let broken = |name: &str| failed(name, "reading the ring", io::Error::from(io::ErrorKind::InvalidData));
        let (heads, address) = (size_of::<libc::tpacket3_hdr>(), size_of::<libc::sockaddr_ll>());
        // The address of the sender lies behind the head, aligned.
        let from = heads.next_multiple_of(libc::TPACKET_ALIGNMENT);
        if self.at + from + address > BLOCK_BYTES {
            return Err(broken(&self.bound.name));
        }
        // SAFETY: within the block, as was just seen, which is ours.
        let (head, sender) = unsafe {
            let at = self.memory.add(self.block * BLOCK_BYTES + self.at);
            (
                at.cast::<libc::tpacket3_hdr>().read_unaligned(),
                at.add(from).cast::<libc::sockaddr_ll>().read_unaligned(),
            )
        };
        let (begin, bytes) = (self.at + usize::from(head.tp_mac), head.tp_snaplen as usize);
        if begin + bytes > BLOCK_BYTES {
            return Err(broken(&self.bound.name));
        }
        self.left -= 1;
        self.at += head.tp_next_offset as usize;
        // SAFETY: within the block, which is ours until `self` is borrowed again.
        let frame =
            unsafe { std::slice::from_raw_parts(self.memory.add(self.block * BLOCK_BYTES + begin).as_ptr(), bytes) };
        Ok((head, frame, sender.sll_pkttype == libc::PACKET_OUTGOING))
    }

    /// What is wrong with the interface, which nobody else tells where no call is made.
    fn look(&mut self) -> Result<(), RouterError> {
        let now = Instant::now();
        if now - self.looked < LOOK_EVERY {
            return Ok(());
        }
        self.looked = now;
        let (mut error, mut bytes) = (0i32, size_of::<i32>() as u32);
        // SAFETY: room of this length.
        let got = unsafe {
            libc::getsockopt(
                self.bound.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut error).cast(),
                &raw mut bytes,
            )
        };
        if got == 0 && error != 0 {
            return Err(failed(&self.bound.name, "receiving", io::Error::from_raw_os_error(error)));
        }
        Ok(())
    }
}

impl FrameSource for PacketRing {
    fn next(&mut self, packet: &mut Packet) -> Result<NextFrame, RouterError> {
        loop {
            if self.left == 0 && !self.take_over() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(NextFrame::End);
                }
                self.look()?;
                return Ok(NextFrame::NotYet);
            }
            // A block that the timeout has handed over may be empty.
            if self.left > 0 {
                let (instant, of_day) = self.taken_over;
                let mut tagged = std::mem::take(&mut self.tagged);
                let (head, frame, own) = self.frame()?;
                if !own {
                    let told = &head.hv1;
                    let tag = tag_of(head.tp_status, told.tp_vlan_tci as u16, told.tp_vlan_tpid);
                    set_frame(packet, frame, head.tp_len, tag, &mut tagged);
                    let then = Duration::new(u64::from(head.tp_sec), head.tp_nsec);
                    // A clock that was put back makes a frame one that has just come.
                    let arrived = instant.checked_sub(of_day.saturating_sub(then)).unwrap_or(instant);
                    // Where the clock was put back, or this thread aside between its two clocks, none came before the last.
                    let arrived = arrived.max(self.arrived.unwrap_or(arrived));
                    self.arrived = Some(arrived);
                    packet.id = units::PacketId(self.taken);
                    packet.arrival = since(self.start, arrived);
                    self.taken += 1;
                }
                self.tagged = tagged;
                if self.left == 0 {
                    self.give_back();
                }
                if own {
                    continue;
                }
                return Ok(NextFrame::Packet);
            }
            self.give_back();
        }
    }

    fn is_live(&self) -> bool {
        true
    }

    fn epoch(&self) -> Option<Duration> {
        epoch(self.start)
    }

    fn arrived(&self) -> Option<Instant> {
        self.arrived
    }

    fn missed(&mut self) -> Option<u64> {
        self.bound.missed()
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: the mapping of `open`, which nobody else has.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.blocks * BLOCK_BYTES) };
    }
}
