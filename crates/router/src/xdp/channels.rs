//! How many receive queues an interface has: an AF_XDP socket has the frames of one of them.
//!
//! A channel is a queue with its interrupt; frames come by those for receiving, and by those for both ways.
//!
//! Source: Linux, include/uapi/linux/ethtool.h, `struct ethtool_channels`; Documentation/ABI/testing/sysfs-class-net-queues.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

/// Asks for channels (`ETHTOOL_GCHANNELS`).
const GET_CHANNELS: u32 = 0x3c;

#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    /// Receiving, sending, other, both ways: at most, and now.
    most: [u32; 4],
    now: [u32; 4],
}

/// A request about interface `name`, to be filled by the kernel.
pub(super) fn request(name: &str) -> libc::ifreq {
    // SAFETY: all zero is a value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays 0.
    for (to, &from) in request.ifr_name.iter_mut().zip(name.as_bytes().iter().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request
}

/// The receive queues of interface `name`; none where neither its driver nor the system says.
pub(super) fn receive_queues(name: &str) -> Option<u32> {
    by_driver(name).or_else(|| by_system(name)).filter(|&queues| queues > 0)
}

fn by_driver(name: &str) -> Option<u32> {
    let asking = UnixDatagram::unbound().ok()?;
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    let mut request = request(name);
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: a request with a name that ends with 0, and room for the answer, which outlives the call.
    let asked = unsafe { libc::ioctl(asking.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    let [receive, _, _, both] = channels.now;
    (asked == 0).then_some(receive + both)
}

/// Of the network that `/sys` was mounted in.
fn by_system(name: &str) -> Option<u32> {
    let queues = std::fs::read_dir(format!("/sys/class/net/{name}/queues")).ok()?;
    let receive = queues.flatten().filter(|queue| queue.file_name().as_encoded_bytes().starts_with(b"rx-"));
    u32::try_from(receive.count()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_knows_of_loopback_and_nobody_of_what_is_not_there() {
        // Its driver has no channels.
        assert_eq!(receive_queues("lo"), Some(1));
        assert_eq!(receive_queues("nowhere0"), None);
    }
}
