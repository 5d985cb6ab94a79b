//! DIR-24-8 and its extension to IPv6.
//!
//! **Computes** the longest-prefix match of an address. `tbl24` has an entry for each value of the
//! first 24 bits. An entry is a next hop, nothing, or the number of a group of 256 entries in
//! `tbl8`, one for each value of the next 8 bits, which for IPv6 may lead on to further groups.
//!
//! **References per packet**: IPv4 best 1 (tbl24), worst 2 (tbl24, then tbl8, which depends on it);
//! IPv6 best 1, worst 14 (tbl24, then 13 dependent tbl8 entries).
//!
//! **Regions**: tbl24 of 2^24 entries (32 MiB with entries of 2 bytes, 64 MiB with 4); tbl8 of 256
//! entries a group, as many groups as the long prefixes need.
//!
//! Entries of 2 bytes number 32767 next hops and 32768 groups: half the cache lines and half the
//! pages for the same table. Routes are kept in an ordered map beside the tables (the RIB): an
//! update writes exactly the addresses that no longer prefix covers, and a removal finds the route
//! that takes over.
//!
//! Left out: concurrent readers during an update (DPDK publishes an entry atomically); here an
//! update has exclusive access. Where a copy of the tables has readers, [`Dir24::follow`] has each update tell what it writes.
//!
//! **Source**: P. Gupta, S. Lin, N. McKeown, "Routing Lookups in Hardware at Memory Access Speeds",
//! IEEE INFOCOM 1998, section 2 (DIR-24-8-BASIC). The chain of tbl8 groups for IPv6 is that of
//! DPDK's `lib/lpm/rte_lpm6`.
//!
//! **See also** `forward`, which interleaves the lookups of a burst.

use std::collections::BTreeMap;
use std::fmt::Debug;

use probe::RegionId;

use super::NextHop;
use super::table::{PagedArray, Pages, PlainInteger};
use crate::FunctionError;

/// DIR-24-8 for IPv4 with entries of type `E`, `u16` or `u32`.
pub type Dir24_8<E> = Dir24<u32, E>;
/// The same for IPv6: up to 14 levels, entries of 4 bytes.
pub type Lpm6 = Dir24<u128, u32>;

/// What the update of a route writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutePlace {
    /// The table.
    pub region: RegionId,
    /// Where in it.
    pub offset: u64,
    /// How much.
    pub bytes: u32,
    /// Bytes of an entry.
    pub entry: u8,
}

/// Equal entries that an update has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRun {
    /// Whether they are of tbl8.
    pub is_tbl8: bool,
    /// Whether they are a group of tbl8 that no entry led to before: it is linked after.
    pub is_fresh: bool,
    /// The first one's place.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// Each of them.
    pub entry: u32,
}

const TBL24_ENTRIES: usize = 1 << 24;
/// Entries of a group of tbl8.
pub const GROUP_ENTRIES: usize = 256;
/// Levels of the longest address: 24 bits, then 13 times 8.
const MAX_LEVELS: usize = 14;

/// An address: `u32` for IPv4, `u128` for IPv6.
pub trait IpAddress: Copy + Ord + Debug + private::Sealed {
    /// Bits of an address.
    const BITS: u8;
    /// The table's name for errors: "tbl8".
    const TBL8: &'static str;
    /// The address with all bits after the first `len` cleared.
    fn network(self, len: u8) -> Self;
    /// The address with all bits after the first `len` set.
    fn last(self, len: u8) -> Self;
    /// The next address, unless this is the last.
    fn next(self) -> Option<Self>;
    /// The address before, unless this is the first.
    fn previous(self) -> Option<Self>;
    /// The bits that select an entry: the first 24 on level 0, the next 8 on each further level.
    fn index(self, level: usize) -> usize;
    /// `count` bits from bit `from` on, which is below [`IpAddress::BITS`]; behind the last bit there are zeros.
    fn bits(self, from: u8, count: u8) -> usize;
    /// The address with `bits` or-ed in at the `count` bits from bit `from` on, as [`IpAddress::bits`] reads them.
    fn with_bits(self, from: u8, count: u8, bits: usize) -> Self;
}

/// A table entry: a next hop, no route, or the number of a group. `u16` or `u32`.
///
/// The top bit says "group"; the other bits are the group's number, or the next hop's plus 1, or 0
/// for no route.
#[allow(private_bounds)]
pub trait FibEntry: Copy + PartialEq + Debug + Default + PlainInteger + private::Sealed {
    /// Bytes of an entry.
    const BYTES: u8;
    /// The top bit.
    const GROUP: u32;
    /// The value of `bits`, which fit.
    fn from_bits(bits: u32) -> Self;
    /// The entry as a number.
    fn bits(self) -> u32;
    /// Whether it leads to a group.
    #[inline(always)]
    fn is_group(self) -> bool {
        self.bits() & Self::GROUP != 0
    }
    /// The group it leads to. Meaningful if [`FibEntry::is_group`].
    #[inline(always)]
    fn group(self) -> usize {
        (self.bits() & !Self::GROUP) as usize
    }
    /// The next hop it holds. Meaningful unless [`FibEntry::is_group`].
    #[inline(always)]
    fn next_hop(self) -> Option<NextHop> {
        NextHop::from_payload(self.bits())
    }
    /// The largest next hop.
    const MAX_NEXT_HOP: u32 = Self::GROUP - 2;
    /// How many groups can be numbered.
    const MAX_GROUPS: usize = Self::GROUP as usize;
}

mod private {
    pub trait Sealed {}
    impl Sealed for u16 {}
    impl Sealed for u32 {}
    impl Sealed for u128 {}
}

impl FibEntry for u16 {
    const BYTES: u8 = 2;
    const GROUP: u32 = 1 << 15;
    #[inline(always)]
    fn from_bits(bits: u32) -> u16 {
        bits as u16
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        u32::from(self)
    }
}

impl FibEntry for u32 {
    const BYTES: u8 = 4;
    const GROUP: u32 = 1 << 31;
    #[inline(always)]
    fn from_bits(bits: u32) -> u32 {
        bits
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        self
    }
}

macro_rules! address {
    ($int:ty, $tbl8:literal) => {
        impl IpAddress for $int {
            const BITS: u8 = <$int>::BITS as u8;
            const TBL8: &'static str = $tbl8;
            #[inline]
            fn network(self, len: u8) -> $int {
                self & !<$int>::MAX.checked_shr(u32::from(len)).unwrap_or(0)
            }
            #[inline]
            fn last(self, len: u8) -> $int {
                self | <$int>::MAX.checked_shr(u32::from(len)).unwrap_or(0)
            }
            #[inline]
            fn next(self) -> Option<$int> {
                self.checked_add(1)
            }
            #[inline]
            fn previous(self) -> Option<$int> {
                self.checked_sub(1)
            }
            #[inline(always)]
            fn index(self, level: usize) -> usize {
                let below = <$int>::BITS as usize - depth(level) as usize;
                let entries = if level == 0 { TBL24_ENTRIES } else { GROUP_ENTRIES };
                (self >> below) as usize & (entries - 1)
            }
            #[inline(always)]
            fn bits(self, from: u8, count: u8) -> usize {
                ((self << from) >> (<$int as IpAddress>::BITS - count)) as usize
            }
            #[inline]
            fn with_bits(self, from: u8, count: u8, bits: usize) -> $int {
                let top = (bits as $int) << (<$int as IpAddress>::BITS - count);
                self | top >> from
            }
        }
    };
}

address!(u32, "tbl8");
address!(u128, "tbl8_v6");

/// Bits that are decided once an entry of `level` is chosen.
#[inline(always)]
const fn depth(level: usize) -> u8 {
    24 + 8 * level as u8
}

/// How much a [`Dir24`] reserves, and on which pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dir24Spec {
    /// Groups of tbl8; left out, what the routes need and a quarter more, in a power of two.
    pub groups: Option<u32>,
    /// The pages of both tables.
    pub pages: Pages,
}

/// A longest-prefix-match table over addresses `A` with entries `E`.
///
/// Invariant: an entry leads to a group exactly if there is a route longer than the entry's depth
/// under it, and every group number in an entry is below the capacity of `tbl8`.
pub struct Dir24<A, E> {
    tbl24: PagedArray<E>,
    tbl8: PagedArray<E>,
    /// Groups given back.
    free: Vec<u32>,
    /// Groups given back that a reader of a copy may still be in.
    resting: Vec<u32>,
    /// Groups from this on were never used.
    unused: usize,
    /// What was written since it was last asked, if somebody follows.
    written: Option<Vec<EntryRun>>,
    rib: BTreeMap<(A, u8), NextHop>,
}

impl<A, E> Debug for Dir24<A, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let used = self.unused - self.free.len() - self.resting.len();
        f.debug_struct("Dir24").field("routes", &self.rib.len()).field("groups", &used).finish_non_exhaustive()
    }
}

impl<A: IpAddress, E: FibEntry> Dir24<A, E> {
    /// A table of `routes`, each an address, a prefix length and a next hop. Bits after the length
    /// are ignored, a length above the address's bits means all of them, and of equal prefixes the
    /// last counts.
    ///
    /// # Errors
    /// A next hop that `E` cannot hold, more groups than reserved or numbered, no memory.
    pub fn new(routes: impl IntoIterator<Item = (A, u8, NextHop)>, spec: Dir24Spec) -> Result<Self, FunctionError> {
        let checked = routes.into_iter().map(|(addr, len, next_hop)| {
            let len = len.min(A::BITS);
            Self::check_next_hop(next_hop).map(|_| ((addr.network(len), len), next_hop))
        });
        let rib: BTreeMap<(A, u8), NextHop> = checked.collect::<Result<Vec<_>, _>>()?.into_iter().collect();
        let needed = groups_needed(&rib);
        let roomy = (needed + needed / 4).max(GROUP_ENTRIES).next_power_of_two().min(E::MAX_GROUPS);
        let capacity = spec.groups.map_or(roomy, |groups| groups as usize);
        if needed > capacity || capacity > E::MAX_GROUPS {
            return Err(FunctionError::GroupsFull { table: A::TBL8, needed, capacity, max: E::MAX_GROUPS });
        }
        let mut table = Dir24 {
            tbl24: PagedArray::zeroed(TBL24_ENTRIES, spec.pages, "tbl24")?,
            tbl8: PagedArray::zeroed(capacity * GROUP_ENTRIES, spec.pages, A::TBL8)?,
            free: Vec::new(),
            resting: Vec::new(),
            unused: 0,
            written: None,
            rib: BTreeMap::new(),
        };
        // Shorter prefixes first: each write then overwrites exactly what it is more specific than.
        let mut by_length: [Vec<(A, NextHop)>; 129] = [const { Vec::new() }; 129];
        for (&(addr, len), &next_hop) in &rib {
            by_length[usize::from(len)].push((addr, next_hop));
        }
        for (len, routes) in (0u8..).zip(&by_length) {
            for &(addr, next_hop) in routes {
                table.open(addr, len);
                table.fill(0, 0, addr, addr.last(len), E::from_bits(next_hop.payload()));
            }
        }
        table.rib = rib;
        Ok(table)
    }

    /// Adds or replaces the route to `addr`/`len`, and returns the next hop it replaced.
    ///
    /// # Errors
    /// As [`Dir24::new`]; the table is then unchanged.
    pub fn add(&mut self, addr: A, len: u8, next_hop: NextHop) -> Result<Option<NextHop>, FunctionError> {
        let len = len.min(A::BITS);
        let addr = addr.network(len);
        Self::check_next_hop(next_hop)?;
        let needed = self.groups_to_open(addr, len);
        let capacity = self.group_capacity();
        let used = self.groups() + self.resting.len();
        if used + needed > capacity {
            return Err(FunctionError::GroupsFull {
                table: A::TBL8,
                needed: used + needed,
                capacity,
                max: E::MAX_GROUPS,
            });
        }
        self.open(addr, len);
        let replaced = self.rib.insert((addr, len), next_hop);
        self.write_uncovered(addr, len, E::from_bits(next_hop.payload()));
        Ok(replaced)
    }

    /// Removes the route to `addr`/`len`, gives its addresses to the longest shorter prefix that
    /// covers it, and returns its next hop; [`None`] if there was no such route.
    pub fn remove(&mut self, addr: A, len: u8) -> Option<NextHop> {
        let len = len.min(A::BITS);
        let addr = addr.network(len);
        let removed = self.rib.remove(&(addr, len))?;
        let covering = (0..len).rev().find_map(|shorter| self.rib.get(&(addr.network(shorter), shorter)));
        let entry = E::from_bits(covering.map_or(0, |next_hop| next_hop.payload()));
        self.write_uncovered(addr, len, entry);
        self.close(addr, len);
        Some(removed)
    }

    /// The next hop of exactly `addr`/`len`, not of what covers it.
    pub fn route(&self, addr: A, len: u8) -> Option<NextHop> {
        let len = len.min(A::BITS);
        self.rib.get(&(addr.network(len), len)).copied()
    }

    /// The routes, ordered by address, then length.
    pub fn routes(&self) -> impl Iterator<Item = (A, u8, NextHop)> + '_ {
        self.rib.iter().map(|(&(addr, len), &next_hop)| (addr, len, next_hop))
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.rib.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.rib.is_empty()
    }

    /// Groups of tbl8 in use.
    pub fn groups(&self) -> usize {
        self.unused - self.free.len() - self.resting.len()
    }

    /// From now on [`Dir24::written`] tells what updates write, and groups that are given back rest until
    /// [`Dir24::end_rest`].
    pub fn follow(&mut self) {
        self.written.get_or_insert_default();
    }

    /// What was written since it was last asked, in the order in which readers of a copy may see it.
    pub fn written(&mut self) -> Vec<EntryRun> {
        self.written.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Nobody is left in a group that was given back: they may be used again. How many.
    pub fn end_rest(&mut self) -> usize {
        let rested = self.resting.len();
        self.free.append(&mut self.resting);
        rested
    }

    /// Whether a group was given back that may not be used again.
    pub fn rests(&self) -> bool {
        !self.resting.is_empty()
    }

    /// Groups of tbl8 that are reserved.
    pub fn group_capacity(&self) -> usize {
        self.tbl8.len() / GROUP_ENTRIES
    }

    /// tbl24 and tbl8 as they lie in memory, tbl8 with groups that no entry leads to.
    pub fn entries(&self) -> (&[E], &[E]) {
        (self.tbl24.as_slice(), self.tbl8.as_slice())
    }

    /// What the update of each route writes, in the order of [`Dir24::routes`]: its entries of tbl24, which is region `tbl24`, or of
    /// its group of tbl8, which is the next one. Those that a longer prefix covers are among them, as an update looks at them.
    pub fn route_places(&self, tbl24: RegionId) -> impl Iterator<Item = RoutePlace> + '_ {
        let width = u64::from(E::BYTES);
        self.routes().map(move |(addr, len, _)| {
            let (mut at, mut entry, mut level) = (Self::tbl24_index(addr), self.first(addr), 0);
            while usize::from(len) > 24 + 8 * level
                && let Some((group, next)) = self.step(entry, addr, level + 1)
            {
                (at, entry, level) = (group, next, level + 1);
            }
            let entries = 1_u64 << (24 + 8 * level).saturating_sub(len.into()).min(24);
            let region = RegionId(tbl24.0 + u16::from(level > 0));
            RoutePlace { region, offset: at as u64 * width, bytes: (entries * width) as u32, entry: E::BYTES }
        })
    }

    /// Bytes of tbl24.
    pub fn tbl24_bytes(&self) -> u64 {
        size_of_val(self.tbl24.as_slice()) as u64
    }

    /// Bytes of tbl8 as reserved.
    pub fn tbl8_bytes(&self) -> u64 {
        size_of_val(self.tbl8.as_slice()) as u64
    }

    /// Which entry of tbl24 `addr` selects.
    #[inline(always)]
    pub fn tbl24_index(addr: A) -> usize {
        addr.index(0)
    }

    /// The entry of tbl24 that `addr` selects: the first step of a lookup.
    #[inline(always)]
    pub fn first(&self, addr: A) -> E {
        // SAFETY: an index of level 0 is below 2^24, the length of tbl24.
        unsafe { self.tbl24.get(addr.index(0)) }
    }

    /// Asks for the line of tbl24 that a lookup of `addr` reads first.
    #[inline(always)]
    pub fn prefetch(&self, addr: A) {
        prefetch(self.tbl24.address(addr.index(0)));
    }

    #[inline(always)]
    fn tbl8_index(entry: E, addr: A, level: usize) -> usize {
        entry.group() * GROUP_ENTRIES + addr.index(level)
    }

    /// The step of a lookup from `entry`, found for `addr` on the level before `level`; [`None`]
    /// unless it leads to a group. With the entry comes its index in tbl8.
    #[inline(always)]
    pub fn step(&self, entry: E, addr: A, level: usize) -> Option<(usize, E)> {
        if !entry.is_group() || depth(level) > A::BITS {
            return None;
        }
        let at = Self::tbl8_index(entry, addr, level);
        // An entry of another table may name a group that this one lacks.
        self.tbl8.as_slice().get(at).map(|&entry| (at, entry))
    }

    /// The next hop of the longest prefix that contains `addr`.
    #[inline(always)]
    pub fn lookup(&self, addr: A) -> Option<NextHop> {
        let mut entry = self.first(addr);
        let mut level = 1;
        while entry.is_group() {
            // SAFETY: the entry is this table's own, so its group is below the capacity of tbl8, and
            // by the invariant a route longer than its depth exists: `level` is a level of `A`.
            entry = unsafe { self.tbl8.get(Self::tbl8_index(entry, addr, level)) };
            level += 1;
        }
        entry.next_hop()
    }

    fn check_next_hop(next_hop: NextHop) -> Result<(), FunctionError> {
        if next_hop.id() > E::MAX_NEXT_HOP {
            let (next_hop, max) = (next_hop.id(), E::MAX_NEXT_HOP);
            return Err(FunctionError::NextHop { next_hop, entry_bytes: E::BYTES, max });
        }
        Ok(())
    }

    /// Writes equal entries.
    fn put(&mut self, is_tbl8: bool, is_fresh: bool, first: usize, count: usize, entry: E) {
        let table = if is_tbl8 { &mut self.tbl8 } else { &mut self.tbl24 };
        table.as_mut_slice()[first..first + count].fill(entry);
        if let Some(written) = &mut self.written {
            written.push(EntryRun { is_tbl8, is_fresh, first, count, entry: entry.bits() });
        }
    }

    fn entry_at(&self, level: usize, at: usize) -> E {
        if level == 0 { self.tbl24.as_slice()[at] } else { self.tbl8.as_slice()[at] }
    }

    /// How many groups `open` would take.
    fn groups_to_open(&self, addr: A, len: u8) -> usize {
        let (mut level, mut at) = (0, addr.index(0));
        while depth(level) < len {
            let entry = self.entry_at(level, at);
            if !entry.is_group() {
                return usize::from(len - depth(level)).div_ceil(8);
            }
            level += 1;
            at = Self::tbl8_index(entry, addr, level);
        }
        0
    }

    /// Makes sure that groups lead down to the level on which a prefix of `len` bits ends. There
    /// must be room: see `groups_to_open`.
    fn open(&mut self, addr: A, len: u8) {
        let (mut level, mut at) = (0, addr.index(0));
        while depth(level) < len {
            let mut entry = self.entry_at(level, at);
            if !entry.is_group() {
                let group = self.free.pop().map_or(self.unused, |group| group as usize);
                self.unused = self.unused.max(group + 1);
                self.put(true, true, group * GROUP_ENTRIES, GROUP_ENTRIES, entry);
                entry = E::from_bits(E::GROUP | group as u32);
                self.put(level > 0, false, at, 1, entry);
            }
            level += 1;
            at = Self::tbl8_index(entry, addr, level);
        }
    }

    /// After a route of `len` bits is gone: gives back the groups on its way that no other route
    /// needs. Their entries are all equal then.
    fn close(&mut self, addr: A, len: u8) {
        let mut way = [0; MAX_LEVELS];
        let (mut level, mut at) = (0, addr.index(0));
        while depth(level) < len {
            way[level] = at;
            let entry = self.entry_at(level, at);
            level += 1;
            at = Self::tbl8_index(entry, addr, level);
        }
        for level in (0..level).rev() {
            let bits = depth(level);
            let (first, last) = (addr.network(bits), addr.last(bits));
            if self.rib.range((first, bits + 1)..=(last, A::BITS)).next().is_some() {
                return;
            }
            let group = self.entry_at(level, way[level]).group();
            let below = self.tbl8.as_slice()[group * GROUP_ENTRIES];
            self.put(level > 0, false, way[level], 1, below);
            if self.written.is_some() { self.resting.push(group as u32) } else { self.free.push(group as u32) }
        }
    }

    /// Writes `entry` for the addresses of `addr`/`len` that no longer prefix covers.
    fn write_uncovered(&mut self, addr: A, len: u8, entry: E) {
        let last = addr.last(len);
        if len == A::BITS {
            return self.fill(0, 0, addr, last, entry);
        }
        let mut from = addr;
        let mut after = (addr, len + 1);
        while let Some((&(child, child_len), _)) = self.rib.range(after..=(last, A::BITS)).next() {
            if let Some(before) = child.previous().filter(|&before| before >= from) {
                self.fill(0, 0, from, before, entry);
            }
            match child.last(child_len).next() {
                Some(next) if next <= last => (from, after) = (next, (next, 0)),
                _ => return,
            }
        }
        self.fill(0, 0, from, last, entry);
    }

    /// Writes `entry` for the addresses `from..=to`, which lie under the node of `level` whose
    /// entries start at `base`. Where the range begins or ends inside an entry, a group lies below
    /// it: a longer route is there.
    fn fill(&mut self, level: usize, base: usize, from: A, to: A, entry: E) {
        let bits = depth(level);
        let (mut first, mut end) = (base + from.index(level), base + to.index(level) + 1);
        if from != from.network(bits) {
            self.fill_below(level, first, from, to.min(from.last(bits)), entry);
            first += 1;
        }
        if to != to.last(bits) && first < end {
            end -= 1;
            self.fill_below(level, end, from.max(to.network(bits)), to, entry);
        }
        if first < end {
            self.put(level > 0, false, first, end - first, entry);
        }
    }

    fn fill_below(&mut self, level: usize, at: usize, from: A, to: A, entry: E) {
        let above = self.entry_at(level, at);
        debug_assert!(above.is_group(), "part of an entry is written, so a longer route is below it");
        if above.is_group() {
            self.fill(level + 1, above.group() * GROUP_ENTRIES, from, to, entry);
        }
    }
}

impl<E: FibEntry> Dir24<u32, E> {
    /// Looks up each address of `addrs` into the same place of `out`, as many as the shorter of
    /// the two has, and returns how many.
    ///
    /// The loads of a batch are issued before any of them is looked at, so that their misses
    /// overlap; long prefixes, which are rare, are followed afterwards.
    #[inline]
    pub fn lookup_bulk(&self, addrs: &[u32], out: &mut [Option<NextHop>]) -> usize {
        const BATCH: usize = 32;
        let n = addrs.len().min(out.len());
        for (addrs, out) in addrs[..n].chunks(BATCH).zip(out[..n].chunks_mut(BATCH)) {
            let mut any = 0;
            for (&addr, out) in addrs.iter().zip(out.iter_mut()) {
                let entry = self.first(addr);
                any |= entry.bits();
                *out = NextHop::from_payload(entry.bits());
            }
            if any & E::GROUP != 0 {
                for (&addr, out) in addrs.iter().zip(out.iter_mut()) {
                    let entry = E::from_bits(out.map_or(0, NextHop::payload));
                    if entry.is_group() {
                        // SAFETY: the entry is this table's own, so its group is below the capacity.
                        let below = unsafe { self.tbl8.get(Self::tbl8_index(entry, addr, 1)) };
                        *out = below.next_hop();
                    }
                }
            }
        }
        n
    }
}

/// Groups that the routes of an ordered map need: one for each distinct entry with a longer route
/// below it.
fn groups_needed<A: IpAddress>(rib: &BTreeMap<(A, u8), NextHop>) -> usize {
    let mut latest: [Option<A>; MAX_LEVELS] = [None; MAX_LEVELS];
    let mut groups = 0;
    for &(addr, len) in rib.keys() {
        for (level, latest) in latest.iter_mut().enumerate().take_while(|&(level, _)| depth(level) < len) {
            // Routes under one entry follow each other in the map.
            let network = addr.network(depth(level));
            if *latest != Some(network) {
                *latest = Some(network);
                groups += 1;
            }
        }
    }
    groups
}

/// Asks for the line of `address` in all cache levels. Any address is allowed.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not fault.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use packet::Prefix;
    use proptest::prelude::*;

    use super::*;
    use crate::lookup::Naive;

    trait Family: IpAddress {
        fn ip(self) -> IpAddr;
        fn prefix(self, len: u8) -> Prefix;
    }
    impl Family for u32 {
        fn ip(self) -> IpAddr {
            Ipv4Addr::from(self).into()
        }
        fn prefix(self, len: u8) -> Prefix {
            Prefix::v4(self, len).unwrap()
        }
    }
    impl Family for u128 {
        fn ip(self) -> IpAddr {
            Ipv6Addr::from(self).into()
        }
        fn prefix(self, len: u8) -> Prefix {
            Prefix::v6(self, len).unwrap()
        }
    }

    type Change<A> = (A, u8, Option<u16>);

    /// Applies the changes to both, and after each compares the answers on both sides of every
    /// boundary of every prefix that ever was: between boundaries answers do not change.
    fn compare<A: Family, E: FibEntry>(start: &[(A, u8, u16)], changes: &[Change<A>]) {
        let mut naive = Naive::new();
        let routes = start.iter().map(|&(addr, len, id)| (addr, len, NextHop::from(id)));
        let spec = Dir24Spec { groups: Some(200), pages: Pages::Huge };
        let mut fast = Dir24::<A, E>::new(routes.clone(), spec).unwrap();
        routes.for_each(|(addr, len, next_hop)| {
            naive.insert(addr.prefix(len), next_hop);
        });
        let touched = start.iter().map(|&(a, len, _)| (a, len)).chain(changes.iter().map(|&(a, len, _)| (a, len)));
        let keys: Vec<A> = touched
            .flat_map(|(addr, len)| {
                let (first, last) = (addr.network(len), addr.last(len));
                [Some(first), first.previous(), Some(last), last.next()].into_iter().flatten()
            })
            .collect();
        let agree = |fast: &Dir24<A, E>, naive: &Naive| {
            for &key in &keys {
                assert_eq!(fast.lookup(key), naive.lookup(key.ip()), "{}", key.ip());
            }
            assert_eq!(fast.len(), naive.len());
            assert_eq!(fast.groups(), groups_needed(&fast.rib), "no group is kept longer than needed");
        };
        agree(&fast, &naive);
        for &(addr, len, change) in changes {
            match change {
                Some(id) => {
                    let next_hop = NextHop::from(id);
                    assert_eq!(fast.add(addr, len, next_hop).unwrap(), naive.insert(addr.prefix(len), next_hop));
                }
                None => assert_eq!(fast.remove(addr, len), naive.remove(addr.prefix(len))),
            }
            agree(&fast, &naive);
        }
        // Without routes the tables are as at the start.
        let left: Vec<_> = fast.routes().map(|(addr, len, _)| (addr, len)).collect();
        left.iter().for_each(|&(addr, len)| {
            fast.remove(addr, len);
        });
        assert!(keys.iter().all(|&key| fast.lookup(key).is_none()));
        assert_eq!(fast.groups(), 0);
    }

    /// Addresses close to each other, so that prefixes nest and share groups.
    fn v4() -> impl Strategy<Value = u32> {
        prop_oneof![
            (0u32..4, 0u32..4).prop_map(|(a, b)| 0xc000_0200 + (a << 6) + b),
            (0u32..4).prop_map(|a| 0xc000_0000 + (a << 8)),
            Just(0),
            Just(u32::MAX),
            any::<u32>(),
        ]
    }

    fn v6() -> impl Strategy<Value = u128> {
        let base = 0x2001_0db8_u128 << 96;
        prop_oneof![
            (0u32..128, 0u128..2).prop_map(move |(bit, b)| base | (b << bit)),
            (0u32..16).prop_map(move |byte| base | (0x55 << (8 * byte))),
            Just(0),
            Just(u128::MAX),
            any::<u128>(),
        ]
    }

    fn change<A: Debug>(addr: impl Strategy<Value = A>, bits: u8) -> impl Strategy<Value = Change<A>> {
        let len = prop_oneof![0..=bits, Just(0), 20..=bits, Just(24), Just(bits)];
        (addr, len, prop::option::weighted(0.6, 0u16..5))
    }

    fn route<A: Debug>(addr: impl Strategy<Value = A>, bits: u8) -> impl Strategy<Value = (A, u8, u16)> {
        (addr, 0..=bits, 0u16..5)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(80))]

        #[test]
        fn dir24_8_matches_naive(
            start in prop::collection::vec(route(v4(), 32), 0..12),
            changes in prop::collection::vec(change(v4(), 32), 0..40),
        ) {
            // A change of a prefix that is already there must happen often: draw it from few.
            compare::<u32, u16>(&start, &changes);
            compare::<u32, u32>(&start, &changes);
        }

        #[test]
        fn lpm6_matches_naive(
            start in prop::collection::vec(route(v6(), 128), 0..5),
            changes in prop::collection::vec(change(v6(), 128), 0..12),
        ) {
            compare::<u128, u32>(&start, &changes);
        }

        #[test]
        fn removing_what_was_added_restores_the_covering_route(
            nested in prop::collection::vec((0u8..=32, 0u16..9), 1..20),
            addr in any::<u32>(),
            order in any::<u64>(),
        ) {
            let mut changes: Vec<Change<u32>> = nested.iter().map(|&(len, id)| (addr, len, Some(id))).collect();
            let mut removals: Vec<Change<u32>> = nested.iter().map(|&(len, _)| (addr, len, None)).collect();
            let middle = order as usize % removals.len();
            removals.rotate_left(middle);
            changes.extend(removals);
            compare::<u32, u16>(&[], &changes);
        }

        #[test]
        fn bulk_matches_single(
            start in prop::collection::vec(route(v4(), 32), 0..40),
            keys in prop::collection::vec(v4(), 0..100),
            room in 0usize..100,
        ) {
            let routes = start.iter().map(|&(addr, len, id)| (addr, len, NextHop::from(id)));
            let table = Dir24_8::<u16>::new(routes, Dir24Spec { groups: None, pages: Pages::Huge }).unwrap();
            let mut out = vec![None; room];
            let n = table.lookup_bulk(&keys, &mut out);
            prop_assert_eq!(n, keys.len().min(room));
            for (&key, &answer) in keys.iter().zip(&out) {
                prop_assert_eq!(answer, table.lookup(key));
            }
        }
    }

    #[test]
    fn the_ends_of_the_address_space_are_routed() {
        let hop = NextHop::from;
        let ends = [(0, 0, hop(1)), (0, 32, hop(2)), (u32::MAX, 32, hop(3)), (u32::MAX, 1, hop(4))];
        let table = Dir24_8::<u16>::new(ends, Dir24Spec::default()).unwrap();
        let answers = [0, 1, u32::MAX >> 1, 1 << 31, u32::MAX - 1, u32::MAX].map(|a| table.lookup(a).map(NextHop::id));
        assert_eq!(answers, [Some(2), Some(1), Some(1), Some(4), Some(4), Some(3)]);
    }

    #[test]
    fn the_largest_next_hop_of_an_entry_fits_and_the_next_does_not() {
        let max = NextHop::new(32_766).unwrap();
        let over = NextHop::new(32_767).unwrap();
        let mut table = Dir24_8::<u16>::new([(0, 0, max)], Dir24Spec::default()).unwrap();
        assert_eq!(table.lookup(7), Some(max));
        assert_eq!(
            table.add(0, 8, over),
            Err(FunctionError::NextHop { next_hop: 32_767, entry_bytes: 2, max: 32_766 })
        );
        assert_eq!(table.lookup(7), Some(max));
        let wide = Dir24_8::<u32>::new([(0, 0, NextHop::new(NextHop::MAX).unwrap())], Dir24Spec::default()).unwrap();
        assert_eq!(wide.lookup(7).map(NextHop::id), Some(NextHop::MAX));
    }

    #[test]
    fn a_copy_that_follows_has_the_same_entries_and_no_group_is_used_again_before_its_rest_ends() {
        let hop = NextHop::from;
        let routes = [(0x0a00_0000, 8, hop(1)), (0x0a01_0280, 25, hop(2))];
        let spec = Dir24Spec { groups: Some(4), pages: Pages::Huge };
        let mut table = Dir24_8::<u32>::new(routes, spec).unwrap();
        let mut copy = [table.entries().0.to_vec(), table.entries().1.to_vec()];
        table.follow();
        let mut follow = |table: &mut Dir24_8<u32>| {
            let written = table.written();
            for run in &written {
                copy[usize::from(run.is_tbl8)][run.first..run.first + run.count].fill(run.entry);
            }
            assert!(copy[0] == table.entries().0 && copy[1] == table.entries().1);
            written
        };
        table.add(0x0a02_0380, 26, hop(3)).unwrap();
        let written = follow(&mut table);
        // The group, the entry that leads to it, and the route's own entries: in this order.
        let seen: Vec<_> = written.iter().map(|run| (run.is_tbl8, run.is_fresh, run.count)).collect();
        assert_eq!(seen, [(true, true, 256), (false, false, 1), (true, false, 64)]);
        table.add(0x0a00_0000, 9, hop(4)).unwrap();
        table.remove(0x0a01_0280, 25).unwrap();
        follow(&mut table);
        assert_eq!((table.groups(), table.rests()), (1, true));
        // Of four groups one is used and one rests: two are left.
        table.add(1, 32, hop(5)).unwrap();
        table.add(1 << 24, 32, hop(5)).unwrap();
        assert!(table.add(2 << 24, 32, hop(5)).is_err());
        assert_eq!(table.end_rest(), 1);
        table.add(2 << 24, 32, hop(5)).unwrap();
        follow(&mut table);
        assert_eq!(table.lookup(0x0a01_0290), Some(hop(4)));
    }

    #[test]
    fn without_a_free_group_an_addition_changes_nothing() {
        let spec = Dir24Spec { groups: Some(1), pages: Pages::Base };
        let hop = NextHop::from(1);
        let mut table = Dir24_8::<u16>::new([(0, 25, hop)], spec).unwrap();
        let full = FunctionError::GroupsFull { table: "tbl8", needed: 2, capacity: 1, max: 32_768 };
        assert_eq!(table.add(1 << 24, 25, hop), Err(full));
        assert_eq!((table.lookup(1 << 24), table.len(), table.groups()), (None, 1, 1));
        // A second long prefix under the same entry needs no further group.
        assert_eq!(table.add(128, 32, hop), Ok(None));
        assert_eq!(table.remove(0, 25), Some(hop));
        assert_eq!(table.remove(128, 32), Some(hop));
        assert_eq!(table.add(1 << 24, 25, hop), Ok(None));
    }
}
