//! Addresses that a packet on a wire can come from or go to.

/// Whether `addr` is an address that a packet on a wire can come from or go to: not 0/8, 127/8, 169.254/16 or 224/3
/// (RFC 1812 5.3.7, RFC 3927 7). Private addresses are: routers carry them.
#[inline(always)]
pub const fn is_unicast_v4(addr: u32) -> bool {
    // Less one, 0/8 wraps above all others: one comparison tells it and 224/3.
    !((addr.wrapping_sub(1 << 24) >= 223 << 24) | (addr >> 24 == 127) | (addr >> 16 == 0xa9fe))
}

/// Whether `addr` is an address that a router may forward from and to: not unspecified, loopback, multicast or
/// link-local (RFC 4291 2.5-2.7).
#[inline(always)]
pub const fn is_unicast_v6(addr: u128) -> bool {
    addr > 1 && addr >> 120 != 0xff && addr >> 118 != 0x3fa
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn special_ranges_are_left_out_to_their_very_ends() {
        for (addr, unicast) in [
            ("0.255.255.255", false),
            ("1.0.0.0", true),
            ("126.255.255.255", true),
            ("127.0.0.0", false),
            ("127.255.255.255", false),
            ("128.0.0.0", true),
            ("169.253.255.255", true),
            ("169.254.0.0", false),
            ("169.254.255.255", false),
            ("169.255.0.0", true),
            ("223.255.255.255", true),
            ("224.0.0.0", false),
            ("255.255.255.255", false),
        ] {
            assert_eq!(is_unicast_v4(addr.parse::<Ipv4Addr>().unwrap().into()), unicast, "{addr}");
        }
        for (addr, unicast) in [
            ("::", false),
            ("::1", false),
            ("::2", true),
            ("fe7f:ffff::", true),
            ("fe80::", false),
            ("febf:ffff::", false),
            ("fec0::", true),
            ("feff::", true),
            ("ff00::", false),
        ] {
            assert_eq!(is_unicast_v6(addr.parse::<Ipv6Addr>().unwrap().into()), unicast, "{addr}");
        }
    }
}
