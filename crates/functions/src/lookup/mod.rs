//! Longest-prefix match: from a destination address to a next hop.
//!
//! [`Dir24_8`] is what forwarding uses for IPv4 and [`Lpm6`] for IPv6, two instances of one
//! structure, [`Dir24`]; [`Poptrie`] is for both. [`Naive`] answers the same questions slowly: it is their twin in
//! tests. [`Lookup`] is the lookup as a function of its own.

mod dir24;
mod naive;
mod poptrie;
mod route;
mod table;

pub(crate) use dir24::prefetch;
pub use dir24::{Dir24, Dir24_8, Dir24Spec, EntryRun, FibEntry, GROUP_ENTRIES, IpAddress, Lpm6, RoutePlace};
pub use naive::Naive;
pub use poptrie::{Poptrie, PoptrieNode};
pub use route::{Lookup, LookupTables, Structure};
pub use table::Pages;

use std::num::NonZeroU32;

/// A next hop, numbered from 0 to [`NextHop::MAX`].
///
/// An `Option<NextHop>` takes 4 bytes; no route is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct NextHop(NonZeroU32);

impl NextHop {
    /// The largest number: entries keep one bit for their kind and one value for "no route".
    pub const MAX: u32 = (1 << 31) - 2;

    /// Next hop `id`; [`None`] above [`NextHop::MAX`].
    #[inline]
    pub const fn new(id: u32) -> Option<NextHop> {
        if id > NextHop::MAX {
            return None;
        }
        NextHop::from_payload(id + 1)
    }

    /// Its number.
    #[inline]
    pub const fn id(self) -> u32 {
        self.0.get() - 1
    }

    /// What an entry holds: 0 for no route, the number plus 1 otherwise.
    #[inline(always)]
    pub(crate) const fn from_payload(payload: u32) -> Option<NextHop> {
        match NonZeroU32::new(payload) {
            Some(payload) => Some(NextHop(payload)),
            None => None,
        }
    }

    #[inline(always)]
    pub(crate) const fn payload(self) -> u32 {
        self.0.get()
    }
}

impl From<u16> for NextHop {
    fn from(id: u16) -> NextHop {
        NextHop(NonZeroU32::MIN.saturating_add(u32::from(id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_hops_have_a_niche_for_no_route() {
        assert_eq!(size_of::<Option<NextHop>>(), 4);
        assert_eq!(NextHop::new(0).map(NextHop::id), Some(0));
        assert_eq!(NextHop::new(NextHop::MAX).map(NextHop::id), Some(NextHop::MAX));
        assert_eq!(NextHop::new(NextHop::MAX + 1), None);
        assert_eq!(NextHop::from(65_535).id(), 65_535);
    }
}
