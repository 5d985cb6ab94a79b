//! IP prefixes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An IPv4 or IPv6 prefix. Host bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prefix {
    /// `addr`/`len`, `len` at most 32.
    V4 {
        /// The network address.
        addr: u32,
        /// Leading bits that count.
        len: u8,
    },
    /// `addr`/`len`, `len` at most 128.
    V6 {
        /// The network address.
        addr: u128,
        /// Leading bits that count.
        len: u8,
    },
}

/// Why a text is not a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// Not an address.
    #[error("{0:?} is not an IPv4 or IPv6 address or prefix (for example 192.0.2.0/24 or 2001:db8::/32)")]
    Address(String),
    /// Too long.
    #[error("{text:?} has prefix length {len:?}: allowed are 0 to {max}")]
    Length {
        /// The whole text.
        text: String,
        /// What came.
        len: String,
        /// The longest of its family.
        max: u8,
    },
}

impl Prefix {
    /// The prefix that `addr` lies in, host bits cleared; [`None`] if `len` is over 32.
    pub const fn v4(addr: u32, len: u8) -> Option<Prefix> {
        match len {
            0 => Some(Prefix::V4 { addr: 0, len }),
            1..=32 => Some(Prefix::V4 { addr: addr & (u32::MAX << (32 - len)), len }),
            _ => None,
        }
    }

    /// The prefix that `addr` lies in, host bits cleared; [`None`] if `len` is over 128.
    pub const fn v6(addr: u128, len: u8) -> Option<Prefix> {
        match len {
            0 => Some(Prefix::V6 { addr: 0, len }),
            1..=128 => Some(Prefix::V6 { addr: addr & (u128::MAX << (128 - len)), len }),
            _ => None,
        }
    }

    /// Leading bits that count.
    pub const fn prefix_len(&self) -> u8 {
        match *self {
            Prefix::V4 { len, .. } | Prefix::V6 { len, .. } => len,
        }
    }

    /// Whether `addr` lies in the prefix; never across families.
    pub fn contains(&self, addr: IpAddr) -> bool {
        match (*self, addr) {
            (Prefix::V4 { len, .. }, IpAddr::V4(a)) => Prefix::v4(a.into(), len) == Some(*self),
            (Prefix::V6 { len, .. }, IpAddr::V6(a)) => Prefix::v6(a.into(), len) == Some(*self),
            _ => false,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Prefix::V4 { addr, len } => write!(f, "{}/{len}", Ipv4Addr::from(addr)),
            Prefix::V6 { addr, len } => write!(f, "{}/{len}", Ipv6Addr::from(addr)),
        }
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// `address/length`, or an address alone, which stands for itself.
    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let (addr, len) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let addr: IpAddr = addr.parse().map_err(|_| PrefixError::Address(text.into()))?;
        let max = if addr.is_ipv4() { 32 } else { 128 };
        let bad = |len: &str| PrefixError::Length { text: text.into(), len: len.into(), max };
        let len = match len {
            None => max,
            Some(l) => l.parse().map_err(|_| bad(l))?,
        };
        let prefix = match addr {
            IpAddr::V4(a) => Prefix::v4(a.into(), len),
            IpAddr::V6(a) => Prefix::v6(a.into(), len),
        };
        prefix.ok_or_else(|| bad(&len.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_bits_are_cleared() {
        assert_eq!("10.1.2.3/8".parse::<Prefix>().unwrap().to_string(), "10.0.0.0/8");
        assert_eq!("2001:db8::1/32".parse::<Prefix>().unwrap().to_string(), "2001:db8::/32");
        assert_eq!("10.1.2.3".parse::<Prefix>().unwrap().prefix_len(), 32);
        assert_eq!("10.1.2.3/0".parse::<Prefix>().unwrap().to_string(), "0.0.0.0/0");
    }

    #[test]
    fn errors_name_what_came_and_what_is_allowed() {
        let error = |text: &str| text.parse::<Prefix>().unwrap_err().to_string();
        assert_eq!(error("10.0.0.0/33"), "\"10.0.0.0/33\" has prefix length \"33\": allowed are 0 to 32");
        assert_eq!(error("::/129"), "\"::/129\" has prefix length \"129\": allowed are 0 to 128");
        assert_eq!(error("::/x"), "\"::/x\" has prefix length \"x\": allowed are 0 to 128");
        assert!(error("10.0.0/8").contains("is not an IPv4 or IPv6 address"));
    }

    #[test]
    fn a_prefix_contains_its_addresses_only() {
        let p: Prefix = "192.0.2.0/24".parse().unwrap();
        assert!(p.contains("192.0.2.255".parse().unwrap()));
        assert!(!p.contains("192.0.3.0".parse().unwrap()));
        assert!(!p.contains("::c000:2ff".parse().unwrap()));
        let p: Prefix = "2001:db8::/33".parse().unwrap();
        assert!(p.contains("2001:db8:7fff:ffff::1".parse().unwrap()));
        assert!(!p.contains("2001:db8:8000::".parse().unwrap()) && !p.contains("2001:db7:7fff::1".parse().unwrap()));
        assert!(!p.contains("32.1.13.184".parse().unwrap()));
    }

    #[test]
    fn every_length_of_a_family_is_one_and_none_beyond() {
        for len in 0..=u8::MAX {
            // Ones above the host bits, by another way than shifting.
            let ones = |bits: u8, of: u32| (0..bits).fold(0u128, |all, bit| all | 1 << (of - 1 - u32::from(bit)));
            let v4 = (len <= 32).then(|| Prefix::V4 { addr: ones(len.min(32), 32) as u32, len });
            assert_eq!(Prefix::v4(u32::MAX, len), v4);
            let v6 = (len <= 128).then(|| Prefix::V6 { addr: ones(len.min(128), 128), len });
            assert_eq!(Prefix::v6(u128::MAX, len), v6);
        }
        assert_eq!("2001:db8::1".parse(), Ok(Prefix::V6 { addr: 0x2001_0db8 << 96 | 1, len: 128 }));
    }
}
