//! A memory reference, and the regions that it may lie in.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One memory reference of a packet function: 16 bytes, so that a burst's references stay in the
/// host's L1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Ref {
    /// Bytes from the start of the region.
    pub offset: u64,
    /// The memory that is touched.
    pub region: RegionId,
    /// The static place in the function.
    pub site: u16,
    /// How many bytes, at least 1.
    pub bytes: u16,
    /// What is done.
    pub access: Access,
    /// How many references back the address came from, 0 if from none or more than 255 ago: it
    /// tells a pointer chase from misses that can overlap.
    pub dep: u8,
}

impl Ref {
    /// A load of `bytes` bytes at `offset` of `region`, from place `site`.
    #[inline]
    pub const fn load(region: RegionId, offset: u64, bytes: u16, site: u16) -> Ref {
        Ref { offset, region, site, bytes, access: Access::Load, dep: 0 }
    }

    /// A store of `bytes` bytes at `offset` of `region`, from place `site`.
    #[inline]
    pub const fn store(region: RegionId, offset: u64, bytes: u16, site: u16) -> Ref {
        Ref { offset, region, site, bytes, access: Access::Store, dep: 0 }
    }

    /// The same reference, whose address came from the reference `dep` back.
    #[inline]
    pub const fn after(self, dep: u8) -> Ref {
        Ref { dep, ..self }
    }

    /// The same reference with another kind of access.
    #[inline]
    pub const fn with_access(self, access: Access) -> Ref {
        Ref { access, ..self }
    }
}

/// What a reference does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Access {
    /// The core waits for the data when something depends on it.
    Load,
    /// Retires into the store buffer.
    Store,
    /// A hint: nothing waits for it.
    Prefetch,
    /// A locked read-modify-write: drains the store buffer.
    Atomic,
    /// A device writes memory (receive).
    DmaWrite,
    /// A device reads memory (transmit).
    DmaRead,
}

impl Access {
    /// Whether the line is modified.
    #[inline]
    pub const fn writes(self) -> bool {
        matches!(self, Access::Store | Access::Atomic | Access::DmaWrite)
    }

    /// Whether a device, not a core, makes the access.
    #[inline]
    pub const fn is_dma(self) -> bool {
        matches!(self, Access::DmaWrite | Access::DmaRead)
    }
}

/// A piece of memory that a function names: a table, the packet, its mbuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct RegionId(pub u16);

impl RegionId {
    /// The current packet, from the first byte of its Ethernet header.
    pub const PACKET: RegionId = RegionId(0);
    /// The current packet's mbuf header.
    pub const MBUF: RegionId = RegionId(1);
    /// The first region a function may number itself.
    pub const FIRST_TABLE: RegionId = RegionId(16);

    /// Numbers of mappings begin here.
    const MAPPING_SHIFT: u32 = 14;

    /// The region, whose number is below 16384, as the process that has it at its mapping `number`, 1 to 3, refers to
    /// it: memory that processes share has the same lines in each, and pages of its own. A layout places it by its
    /// [`RegionId::bare`] number.
    ///
    /// # Panics
    /// Other numbers, and a region that is one already.
    pub const fn shared(self, number: u8) -> RegionId {
        assert!(1 <= number && number <= 3 && self.mapping() == 0);
        RegionId(self.0 | (number as u16) << Self::MAPPING_SHIFT)
    }

    /// The number of [`RegionId::shared`], 0 where the region is not.
    #[inline(always)]
    pub const fn mapping(self) -> u8 {
        (self.0 >> Self::MAPPING_SHIFT) as u8
    }

    /// The region, whichever mapping it is referred to by.
    #[inline]
    pub const fn bare(self) -> RegionId {
        RegionId(self.0 & ((1 << Self::MAPPING_SHIFT) - 1))
    }

    /// Whether the region moves with the packet.
    #[inline]
    pub const fn is_of_packet(self) -> bool {
        self.0 < Self::FIRST_TABLE.0
    }
}

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            RegionId::PACKET => f.write_str("packet"),
            RegionId::MBUF => f.write_str("mbuf"),
            RegionId(n) => write!(f, "region {n}"),
        }
    }
}

/// A table that a function declares, so that a layout can place it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionSpec {
    /// Its number, [`RegionId::FIRST_TABLE`] or more, unique within a chain of functions.
    pub id: RegionId,
    /// The field's word for it: "tbl24".
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether all cores share one copy.
    pub sharing: Sharing,
}

/// Who has a copy of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One copy for all cores.
    Shared,
    /// A copy for each core.
    PerCore,
}
