//! The rings that kernel and process share, and the memory that frames lie in.
//!
//! A ring has a producer's and a consumer's count, each written by one side: whoever reads the other's count acquires, whoever
//! publishes its own releases. Entries lie at a count modulo the ring's size, a power of two.
//!
//! Source: Linux, include/uapi/linux/if_xdp.h; net/xdp/xsk_queue.h, which says how counts are ordered.

use std::io;
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

/// Memory of the process that it gives back at the end.
pub(super) struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is this value's alone, apart from the kernel; nothing of it depends on the thread.
unsafe impl Send for Mapping {}
// SAFETY: it hands out a pointer; whoever uses it says who may.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory in whole pages.
    pub(super) fn anonymous(bytes: usize) -> io::Result<Mapping> {
        Mapping::new(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1, 0)
    }

    fn new(bytes: usize, flags: i32, file: i32, offset: libc::off_t) -> io::Result<Mapping> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, wherever the kernel wants it.
        let at = unsafe { libc::mmap(null_mut(), bytes, rights, flags, file, offset) };
        match NonNull::new(at.cast::<u8>()) {
            Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => Ok(Mapping { at, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn at(&self) -> NonNull<u8> {
        self.at
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nobody else has.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// One of a socket's four rings, by the number of the option that makes it.
#[derive(Clone, Copy)]
pub(super) enum RingKind {
    /// Chunks for the kernel to fill.
    Fill,
    /// Chunks that were sent.
    Completion,
    /// Frames that came.
    Rx,
    /// Frames to send.
    Tx,
}

impl RingKind {
    fn option(self) -> i32 {
        match self {
            RingKind::Fill => libc::XDP_UMEM_FILL_RING,
            RingKind::Completion => libc::XDP_UMEM_COMPLETION_RING,
            RingKind::Rx => libc::XDP_RX_RING,
            RingKind::Tx => libc::XDP_TX_RING,
        }
    }

    fn place(self) -> libc::off_t {
        match self {
            RingKind::Fill => libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t,
            RingKind::Completion => libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t,
            RingKind::Rx => libc::XDP_PGOFF_RX_RING,
            RingKind::Tx => libc::XDP_PGOFF_TX_RING,
        }
    }

    fn offsets(self, all: &libc::xdp_mmap_offsets) -> &libc::xdp_ring_offset {
        match self {
            RingKind::Fill => &all.fr,
            RingKind::Completion => &all.cr,
            RingKind::Rx => &all.rx,
            RingKind::Tx => &all.tx,
        }
    }
}

/// An end of a ring of `T`.
pub(super) struct Ring<T> {
    memory: Mapping,
    offsets: [usize; 4],
    entries: u32,
    /// This side's count, and how much of it the kernel sees.
    own: u32,
    told: u32,
    /// The kernel's count when it was last looked at.
    other: u32,
    of: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Asks the kernel for the ring of `entries` entries, and maps it.
    pub(super) fn open(socket: &OwnedFd, kind: RingKind, entries: u32) -> io::Result<Ring<T>> {
        super::set(socket, kind.option(), &entries)?;
        // SAFETY: all zero is a value of it.
        let mut all: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
        super::get(socket, libc::XDP_MMAP_OFFSETS, &mut all)?;
        let found = kind.offsets(&all);
        let offsets = [found.producer, found.consumer, found.flags, found.desc].map(|offset| offset as usize);
        let bytes = offsets[3] + entries as usize * size_of::<T>();
        let memory = Mapping::new(bytes, libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd(), kind.place())?;
        Ok(Ring { memory, offsets, entries, own: 0, told: 0, other: 0, of: PhantomData })
    }

    /// A ring whose other side a test is.
    #[cfg(test)]
    pub(super) fn made(entries: u32) -> Ring<T> {
        let offsets = [0, 64, 128, 192];
        let memory = Mapping::anonymous(offsets[3] + entries as usize * size_of::<T>()).expect("memory");
        Ring { memory, offsets, entries, own: 0, told: 0, other: 0, of: PhantomData }
    }

    /// What the other side does: the count of the producer or the consumer, and an entry.
    #[cfg(test)]
    pub(super) fn tell(&self, producer: bool, count: u32) {
        self.word(usize::from(!producer)).store(count, Ordering::Release);
    }

    #[cfg(test)]
    pub(super) fn set(&self, count: u32, value: T) {
        // SAFETY: within the mapping; the test knows that this side does not read it.
        unsafe { self.entry(count).write(value) };
    }

    fn word(&self, which: usize) -> &AtomicU32 {
        // SAFETY: the kernel says where in the mapping its words are, which are aligned and live as long as `self`.
        unsafe { AtomicU32::from_ptr(self.memory.at.as_ptr().add(self.offsets[which]).cast()) }
    }

    fn entry(&self, count: u32) -> *mut T {
        let place = (count & (self.entries - 1)) as usize;
        // SAFETY: within the mapping, which has room for all entries behind this offset.
        unsafe { self.memory.at.as_ptr().add(self.offsets[3]).cast::<T>().add(place) }
    }

    /// Whether the kernel asks for a call before it goes on.
    pub(super) fn wants_wakeup(&self) -> bool {
        self.word(2).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Writes the next entry, if there is room; the kernel sees it after [`Ring::publish`].
    pub(super) fn push(&mut self, value: T) -> bool {
        if self.own.wrapping_sub(self.other) >= self.entries {
            self.other = self.word(1).load(Ordering::Acquire);
            if self.own.wrapping_sub(self.other) >= self.entries {
                return false;
            }
        }
        // SAFETY: an entry that the kernel has consumed, as its count says.
        unsafe { self.entry(self.own).write(value) };
        self.own = self.own.wrapping_add(1);
        true
    }

    /// Entries that were written and that the kernel does not yet see.
    pub(super) fn unpublished(&self) -> u32 {
        self.own.wrapping_sub(self.told)
    }

    /// The kernel sees what was written.
    pub(super) fn publish(&mut self) {
        self.told = self.own;
        self.word(0).store(self.own, Ordering::Release);
    }

    /// Entries that the kernel has not consumed.
    pub(super) fn unconsumed(&self) -> u32 {
        self.told.wrapping_sub(self.word(1).load(Ordering::Acquire))
    }

    /// Whether all that is known of is read: the next read looks for more.
    pub(super) fn is_spent(&self) -> bool {
        self.own == self.other
    }

    /// Reads the next entry, if there is one; the kernel may write it again after [`Ring::release`].
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.own == self.other {
            self.other = self.word(0).load(Ordering::Acquire);
            if self.own == self.other {
                return None;
            }
        }
        // SAFETY: an entry that the kernel has published, as its count says, and that is still ours.
        let value = unsafe { self.entry(self.own).read() };
        self.own = self.own.wrapping_add(1);
        Some(value)
    }

    /// What was read is the kernel's again.
    pub(super) fn release(&mut self) {
        self.told = self.own;
        self.word(1).store(self.own, Ordering::Release);
    }
}
