//! The program that hands an interface's frames to AF_XDP sockets, and the link by which it is attached.
//!
//! Some instructions are assembled here, and given to the kernel by bpf(2): no compiler and no library is needed, neither at
//! build nor on the machine. The program writes the time into the eight bytes before the frame, and redirects it to the socket of
//! its queue. A queue without a socket keeps its frames: the kernel's stack has them. The link belongs to a descriptor, so the
//! program leaves the interface when the process ends, however it ends.
//!
//! Source: Linux, include/uapi/linux/bpf.h; bpf(2); Documentation/networking/af_xdp.rst.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Bytes before a frame that have the time at which it came: nanoseconds of the monotonic clock.
pub(super) const STAMP_BYTES: usize = 8;

/// Commands, types and flags of bpf(2).
const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const PROG_LOAD: i32 = 5;
const LINK_CREATE: i32 = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const SKB_MODE: u32 = 1 << 1;
const DRV_MODE: u32 = 1 << 2;

/// Helpers that the program calls, and what it returns for a queue without a socket.
const KTIME_GET_NS: i32 = 5;
const REDIRECT_MAP: i32 = 51;
const ADJUST_META: i32 = 54;
const XDP_PASS: i32 = 2;

/// Where fields are in the program's context (`struct xdp_md`).
const DATA: i16 = 0;
const DATA_META: i16 = 8;
const QUEUE: i16 = 16;

/// How a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attach {
    /// In the driver.
    Native,
    /// Behind it, in the kernel's stack: any driver.
    Generic,
}

/// An instruction: code, destination and source register, offset, constant.
fn instruction(code: u8, to: u8, from: u8, offset: i16, constant: i32) -> u64 {
    let bytes = u64::from(code) | u64::from(to | from << 4) << 8 | u64::from(offset as u16) << 16;
    bytes | u64::from(constant as u32) << 32
}

/// The program, whose map of sockets has the descriptor `map`.
fn instructions(map: i32) -> [u64; 17] {
    const MOV: u8 = 0xb7;
    const MOV_REGISTER: u8 = 0xbf;
    const ADD: u8 = 0x07;
    const LOAD_WORD: u8 = 0x61;
    const STORE: u8 = 0x7b;
    const CALL: u8 = 0x85;
    const JUMP_UNLESS_ZERO: u8 = 0x55;
    const JUMP_ABOVE: u8 = 0x2d;
    const LOAD_CONSTANT: u8 = 0x18;
    const EXIT: u8 = 0x95;
    /// Of a constant that it is a map's descriptor.
    const OF_MAP: u8 = 1;
    [
        instruction(MOV_REGISTER, 6, 1, 0, 0),
        instruction(MOV, 2, 0, 0, -(STAMP_BYTES as i32)),
        instruction(CALL, 0, 0, 0, ADJUST_META),
        // Where there is no room for the time, the frame goes without: to `redirect`.
        instruction(JUMP_UNLESS_ZERO, 0, 0, 7, 0),
        instruction(CALL, 0, 0, 0, KTIME_GET_NS),
        instruction(LOAD_WORD, 2, 6, DATA_META, 0),
        instruction(LOAD_WORD, 1, 6, DATA, 0),
        instruction(MOV_REGISTER, 3, 2, 0, 0),
        instruction(ADD, 3, 0, 0, STAMP_BYTES as i32),
        instruction(JUMP_ABOVE, 3, 1, 1, 0),
        instruction(STORE, 2, 0, 0, 0),
        // redirect:
        instruction(LOAD_WORD, 2, 6, QUEUE, 0),
        instruction(LOAD_CONSTANT, 1, OF_MAP, 0, map),
        0,
        instruction(MOV, 3, 0, 0, XDP_PASS),
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

fn bpf<T>(command: i32, attributes: &T) -> io::Result<i64> {
    // SAFETY: attributes of this length, whose pointers are to what outlives the call; the kernel writes to none of them.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}

fn descriptor<T>(command: i32, attributes: &T) -> io::Result<OwnedFd> {
    let made = bpf(command, attributes)?;
    // SAFETY: a new descriptor, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(made as i32) })
}

/// Sockets by queue.
pub(super) struct SocketMap(OwnedFd);

impl SocketMap {
    pub(super) fn new(queues: u32) -> io::Result<SocketMap> {
        #[repr(C)]
        struct Attributes {
            kind: u32,
            key_bytes: u32,
            value_bytes: u32,
            entries: u32,
        }
        descriptor(MAP_CREATE, &Attributes { kind: MAP_TYPE_XSKMAP, key_bytes: 4, value_bytes: 4, entries: queues })
            .map(SocketMap)
    }

    /// No map.
    #[cfg(test)]
    pub(super) fn none() -> SocketMap {
        SocketMap(std::fs::File::open("/dev/null").expect("a file").into())
    }

    /// From now on frames of `queue` are `socket`'s.
    pub(super) fn put(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        #[repr(C)]
        struct Attributes {
            map: u32,
            unused: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let value = socket.as_raw_fd();
        let (key, value) = (std::ptr::from_ref(&queue) as u64, std::ptr::from_ref(&value) as u64);
        bpf(MAP_UPDATE, &Attributes { map: self.0.as_raw_fd() as u32, unused: 0, key, value, flags: 0 }).map(|_| ())
    }

    /// The program that redirects to these sockets.
    pub(super) fn program(&self) -> io::Result<OwnedFd> {
        #[repr(C)]
        struct Attributes {
            kind: u32,
            count: u32,
            instructions: u64,
            license: u64,
            log_level: u32,
            log_bytes: u32,
            log: u64,
            kernel: u32,
            flags: u32,
            name: [u8; 16],
            interface: u32,
            attach: u32,
        }
        let code = instructions(self.0.as_raw_fd());
        let license = c"Apache-2.0";
        let mut name = [0; 16];
        name[..9].copy_from_slice(b"wirespeed");
        descriptor(
            PROG_LOAD,
            &Attributes {
                kind: PROG_TYPE_XDP,
                count: code.len() as u32,
                instructions: code.as_ptr() as u64,
                license: license.as_ptr() as u64,
                log_level: 0,
                log_bytes: 0,
                log: 0,
                kernel: 0,
                flags: 0,
                name,
                interface: 0,
                attach: ATTACH_XDP,
            },
        )
    }
}

/// Attaches `program` to the interface of that index, for as long as the link is kept.
pub(super) fn link(program: &OwnedFd, interface: u32, attach: Attach) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        program: u32,
        interface: u32,
        attach: u32,
        flags: u32,
    }
    let flags = match attach {
        Attach::Native => DRV_MODE,
        Attach::Generic => SKB_MODE,
    };
    let program = program.as_raw_fd() as u32;
    descriptor(LINK_CREATE, &Attributes { program, interface, attach: ATTACH_XDP, flags })
}
