//! Identifiers: lines, addresses, cores, classes, masks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes in a cache line, everywhere in the project.
pub const LINE_BYTES: u64 = 64;

macro_rules! id {
    ($(#[$doc:meta] $name:ident($inner:ty);)*) => {$(
        #[$doc]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}

id! {
    /// A number of bytes.
    Bytes(u64);
    /// A physical byte address.
    Addr(u64);
    /// A physical line number: the byte address divided by [`LINE_BYTES`].
    Line(u64);
    /// A core, from 0.
    CoreId(u16);
    /// A class of service (resctrl: CLOSID).
    Clos(u8);
    /// An Ethernet port, from 0.
    PortId(u16);
    /// A receive or transmit queue of a port, from 0.
    QueueId(u16);
    /// A lock of a packet function.
    LockId(u32);
    /// A packet, numbered in order of arrival within a run.
    PacketId(u64);
    /// A request that a controller has accepted and not yet answered.
    Ticket(u64);
}

impl Addr {
    /// The line this address lies in.
    #[inline]
    pub const fn line(self) -> Line {
        Line(self.0 / LINE_BYTES)
    }
}

impl Line {
    /// The address of the line's first byte.
    #[inline]
    pub const fn addr(self) -> Addr {
        Addr(self.0 * LINE_BYTES)
    }
}

/// Classes of service that there may be, as on processors with CAT.
pub const CLASSES: u8 = 16;

/// Who makes a request in a trace that no core makes, whose class of service stands there otherwise: a device, by DMA.
pub const DEVICE: u8 = u8::MAX;

/// A capacity bit mask: bit `i` allows fills into way `i`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cbm(pub u32);

impl Cbm {
    /// The lowest `ways` ways; 32 or more give all 32.
    #[inline]
    pub const fn low(ways: u32) -> Cbm {
        Cbm(if ways >= 32 { u32::MAX } else { (1 << ways) - 1 })
    }

    /// `ways` ways starting at way `first`.
    #[inline]
    pub const fn span(first: u32, ways: u32) -> Cbm {
        Cbm(((Cbm::low(ways).0 as u64) << first) as u32)
    }

    /// How many ways the mask allows.
    #[inline]
    pub const fn ways(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the set bits are one run. An empty mask is not.
    #[inline]
    pub const fn is_contiguous(self) -> bool {
        // Adding the lowest set bit carries through one run and leaves no other bit of the mask.
        let lowest = self.0 & self.0.wrapping_neg();
        self.0 != 0 && self.0.wrapping_add(lowest) & self.0 == 0
    }

    /// Whether way `way` may be filled.
    #[inline]
    pub const fn allows(self, way: u32) -> bool {
        self.0 >> way & 1 == 1
    }
}

impl fmt::Display for Cbm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0b{:b}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_masks_are_one_run_of_bits() {
        for mask in [0b1, 0b110, 0b1111_0000, u32::MAX, 1 << 31] {
            assert!(Cbm(mask).is_contiguous(), "{mask:b}");
        }
        for mask in [0, 0b101, 0b1_0000_0001] {
            assert!(!Cbm(mask).is_contiguous(), "{mask:b}");
        }
    }

    #[test]
    fn span_is_low_shifted() {
        assert_eq!(Cbm::span(9, 2), Cbm(0b110_0000_0000));
        assert_eq!(Cbm::span(0, 32), Cbm(u32::MAX));
        assert_eq!(Cbm::span(31, 4), Cbm(1 << 31));
    }
}
