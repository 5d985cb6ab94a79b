//! Calls of the kernel that no library offers safely: statistics of a network interface's driver, and values of BPF maps. Each
//! writes into room of a size that is known here, whatever the kernel is told.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Most statistics of an interface that are asked for: drivers with hundreds of queues have some thousands.
pub(crate) const MOST_STATISTICS: usize = 1 << 14;
/// Room for so many: the kernel writes as many as the driver has by then, and queues may have been added since it was asked.
const ROOM: usize = MOST_STATISTICS * 8;
/// Bytes of a statistic's name.
pub(crate) const NAME_BYTES: usize = 32;

// Linux, include/uapi/linux/ethtool.h.
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETH_SS_STATS: u32 = 1;

/// `struct ifreq` with a pointer in its union.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    data: *mut libc::c_void,
    rest: [u8; 16],
}

/// Words of 8 bytes, and what of them a command begins with.
fn words(n: usize, head: [u32; 3]) -> Vec<u64> {
    let mut words = vec![0u64; n];
    words[0] = u64::from(head[0]) | u64::from(head[1]) << 32;
    words[1] = u64::from(head[2]);
    words
}

/// Hands a command to an interface's driver.
///
/// # Safety
/// The kernel writes no more than `words` has room for.
unsafe fn ethtool(interface: &str, words: &mut [u64]) -> io::Result<()> {
    let mut request = InterfaceRequest { name: [0; libc::IFNAMSIZ], data: words.as_mut_ptr().cast(), rest: [0; 16] };
    if interface.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.name[..interface.len()].copy_from_slice(interface.as_bytes());
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the request is laid out as the kernel's, its name ends in 0, and both it and the words live until the call is over.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Linux, include/uapi/linux/sockios.h.
const SIOCETHTOOL: u32 = 0x8946;

/// How many statistics an interface's driver has.
pub(crate) fn statistics_count(interface: &str) -> io::Result<usize> {
    // Command, reserved, mask of sets; then a number for the set.
    let mut asked = words(4, [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_STATS]);
    // SAFETY: one bit of the mask is set, for which the kernel writes one number of four bytes behind the mask.
    unsafe { ethtool(interface, &mut asked)? };
    // The kernel clears the bits of sets that there are not.
    Ok(if asked[1] == 0 { 0 } else { (asked[2] & 0xffff_ffff) as usize })
}

/// Names of statistics, 32 bytes each; at most [`MOST_STATISTICS`].
pub(crate) fn statistics_names(interface: &str) -> io::Result<Vec<u8>> {
    let mut asked = words(2 + ROOM * NAME_BYTES / 8, [ETHTOOL_GSTRINGS, ETH_SS_STATS, 0]);
    // SAFETY: there is room for eight times as many names as are asked for anywhere.
    unsafe { ethtool(interface, &mut asked)? };
    let n = asked[1] & 0xffff_ffff;
    let bytes: Vec<u8> = asked.iter().flat_map(|word| word.to_le_bytes()).collect();
    let names = 12..12 + NAME_BYTES * (n as usize).min(MOST_STATISTICS);
    Ok(bytes[names].to_vec())
}

/// Values of statistics; at most [`MOST_STATISTICS`].
pub(crate) fn statistics_values(interface: &str, n: usize) -> io::Result<Vec<u64>> {
    let n = n.min(MOST_STATISTICS);
    let mut asked = words(2 + ROOM, [ETHTOOL_GSTATS, n as u32, 0]);
    // SAFETY: there is room for eight times as many values as are asked for.
    unsafe { ethtool(interface, &mut asked)? };
    let n = (asked[0] >> 32) as usize;
    Ok(asked[1..1 + n.min(MOST_STATISTICS)].to_vec())
}

/// What the kernel says of a BPF map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapInfo {
    /// 2 is an array, 6 one by processor (`enum bpf_map_type`).
    pub kind: u32,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// How many there are.
    pub entries: u32,
}

/// Most bytes of a map's value.
pub(crate) const MOST_VALUE_BYTES: u32 = 1 << 10;
/// No kernel has more processors (`NR_CPUS`).
const MOST_CPUS: usize = 1 << 13;

// Linux, include/uapi/linux/bpf.h.
const BPF_MAP_LOOKUP_ELEM: i32 = 1;
const BPF_OBJ_GET: i32 = 7;
const BPF_OBJ_GET_INFO_BY_FD: i32 = 15;
const BPF_F_RDONLY: u64 = 1 << 3;

/// The call `bpf`, with as much of its argument as these commands look at.
///
/// # Safety
/// Addresses in `argument` are of what lives and has the room that the command writes to.
unsafe fn bpf(command: i32, argument: &mut [u64; 4]) -> io::Result<i32> {
    let size = size_of_val(argument) as u32;
    // SAFETY: the argument has the size that is told.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, argument.as_mut_ptr(), size) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as i32) }
}

/// A pinned map, for reading.
pub(crate) fn map_at(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut argument = [path.as_ptr() as u64, BPF_F_RDONLY << 32, 0, 0];
    // SAFETY: the path ends in 0 and lives until the call is over; nothing is written.
    let file = unsafe { bpf(BPF_OBJ_GET, &mut argument)? };
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// What it is.
pub(crate) fn map_info(map: &OwnedFd) -> io::Result<MapInfo> {
    let mut info = [0u32; 5];
    let size = size_of_val(&info) as u64;
    let mut argument = [map.as_raw_fd() as u64 | size << 32, info.as_mut_ptr() as u64, 0, 0];
    // SAFETY: the kernel writes as many bytes as it is told that there is room for.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut argument)? };
    let [kind, _, key_bytes, value_bytes, entries] = info;
    Ok(MapInfo { kind, key_bytes, value_bytes, entries })
}

/// The value at a number: of a map by processor one after the other, rounded up to eight bytes each, and zeros behind the last.
pub(crate) fn map_value(map: &OwnedFd, key: u32) -> io::Result<Vec<u8>> {
    let info = map_info(map)?;
    if info.key_bytes != 4 || info.value_bytes > MOST_VALUE_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut value = vec![0u8; (info.value_bytes as usize).next_multiple_of(8) * MOST_CPUS];
    let mut argument = [map.as_raw_fd() as u64, &raw const key as u64, value.as_mut_ptr() as u64, 0];
    // SAFETY: the key has the map's four bytes, and there is room for the value of every processor that a kernel can have.
    unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &mut argument)? };
    Ok(value)
}
