//! A table of flows in front of the rules: what the walk of a session's rules has found for a flow is remembered, and
//! its next packet takes it from there.
//!
//! **Computes** the places of a flow's forwarding, QoS and usage rules. A flow is the tunnel endpoint identifier (0
//! downlink), UE, far end, ports, protocol and QoS flow of a user's packet: all that a rule can ask for, so that what
//! was found once is what the walk would find again, as long as the session is as it was. Each entry has the generation of
//! its session; one that is not the session's is a miss, and is written anew. A bucket has 8 entries, no two with one
//! signature. A flow that finds none free takes the one used longest ago, so the table is bounded and stays full.
//!
//! **References**: to look, a load of the bucket's line of signatures and times, and of the entry's line where a signature
//! fits; with it the session's generation, 4 bytes. To keep a flow in time a store of 4 bytes; to enter one, 64, 2 and 4.
//!
//! **Region**: `upf_flows`, for each core one: a line for each bucket, behind them 8 lines of entries a bucket.
//!
//! Left out: ageing by time (a lifetime of seconds is longer than what is simulated), volumes and TCP states by flow,
//! flows that the control plane is told of, and prefetching of entries.
//!
//! **Source**: tables of each worker and generations are those of UPG-VPP (`upf-plugin/upf/flow/flowtable.h`: up to 4,000,000
//! flows a worker, 192 bytes each); that a signature leads to an entry which has the full key, in buckets of 8, is
//! DPDK's `rte_hash` (`lib/hash/rte_cuckoo_hash.h`); that the flow is looked for before anything else, and that an old one
//! gives way, is the exact match cache of Open vSwitch (`lib/dpif-netdev-private-dfc.h`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::headers::Parsed;
use super::lines::{IS_V4, NONE};

/// Entries of a bucket.
pub(super) const WAYS: usize = 8;
pub(super) const TAG_BYTES: u64 = 2;
pub(super) const USED_OFFSET: u64 = 16;
pub(super) const USED_BYTES: u64 = 4;
const LINE: u64 = 64;
/// Times are kept in units of 2^20 ps, about a microsecond.
const USED_SHIFT: u32 = 20;
/// No flow has this signature.
const FREE: u16 = 0;

/// What a flow table has done, of all cores together.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    derive_more::AddAssign,
    derive_more::Sub,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub struct FlowCounters {
    /// Packets whose flow was there and as its session is.
    pub hits: u64,
    /// Packets whose flow was not.
    pub misses: u64,
    /// Of the misses, those whose flow was there but older than its session's latest change.
    pub stale: u64,
    /// Flows that had to leave for another.
    pub evictions: u64,
}

/// Where the rules lie that a packet is treated by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct FlowRules {
    pub(super) session: u32,
    pub(super) far: u32,
    pub(super) qers: [u32; 2],
    pub(super) urrs: [u32; 2],
}

impl FlowRules {
    pub(super) const NOTHING: FlowRules = FlowRules { session: NONE, far: NONE, qers: [NONE; 2], urrs: [NONE; 2] };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct FlowKey {
    remote: u128,
    ue: u64,
    teid: u32,
    ports: (u16, u16),
    what: u32,
}

#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
#[repr(C, align(64))]
struct FlowTags {
    signatures: [u16; WAYS],
    used: [u32; WAYS],
}

#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
#[repr(C, align(64))]
struct FlowEntry {
    remote: u128,
    ue: u64,
    teid: u32,
    ports: (u16, u16),
    what: u32,
    generation: u32,
    found: FlowRules,
}

/// Where a flow is, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlowSlot {
    pub(super) bucket: u32,
    pub(super) way: u32,
}

#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct FlowTable {
    tags: Vec<FlowTags>,
    entries: Vec<FlowEntry>,
    pub(super) counters: FlowCounters,
}

impl FlowKey {
    #[inline(always)]
    fn of(parsed: &Parsed) -> FlowKey {
        // Rules and sessions look at the prefix of an IPv6 UE only.
        let ue = if parsed.what & IS_V4 != 0 { parsed.ue as u64 } else { (parsed.ue >> 64) as u64 };
        FlowKey { remote: parsed.remote, ue, teid: parsed.teid, ports: parsed.ports, what: parsed.what }
    }
}

/// The finaliser of MurmurHash3.
#[inline(always)]
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// The hash of a packet's flow.
#[inline(always)]
pub(super) fn hash(parsed: &Parsed) -> u64 {
    let key = FlowKey::of(parsed);
    let ports = u64::from(key.ports.0) << 16 | u64::from(key.ports.1);
    let a = mix(key.ue ^ u64::from(key.what) << 32);
    let b = mix(a ^ (key.remote as u64).rotate_left(32) ^ (key.remote >> 64) as u64);
    mix(b ^ u64::from(key.teid) << 32 ^ ports)
}

/// Buckets for `entries` flows.
pub(super) fn buckets(entries: u32) -> u64 {
    match entries {
        0 => 0,
        n => u64::from(n).div_ceil(WAYS as u64).next_power_of_two(),
    }
}

/// Bytes of a table of so many buckets.
pub(super) fn bytes(buckets: u64) -> u64 {
    buckets * (1 + WAYS as u64) * LINE
}

impl From<u32> for FlowSlot {
    fn from(place: u32) -> FlowSlot {
        FlowSlot { bucket: place / WAYS as u32, way: place % WAYS as u32 }
    }
}

impl From<FlowSlot> for u32 {
    fn from(slot: FlowSlot) -> u32 {
        slot.bucket * WAYS as u32 + slot.way
    }
}

impl FlowSlot {
    /// Where the line of signatures of the slot's bucket lies in the region.
    #[inline(always)]
    pub(super) fn tags(self) -> u64 {
        u64::from(self.bucket) * LINE
    }

    /// Where its entry lies, in a region of so many buckets.
    #[inline(always)]
    pub(super) fn entry(self, buckets: u64) -> u64 {
        (buckets + u64::from(self.bucket) * WAYS as u64 + u64::from(self.way)) * LINE
    }
}

impl FlowTable {
    pub(super) fn new(buckets: u64) -> FlowTable {
        let found = FlowRules::NOTHING;
        let entry = FlowEntry { remote: 0, ue: 0, teid: 0, ports: (0, 0), what: 0, generation: 0, found };
        FlowTable {
            tags: vec![FlowTags { signatures: [FREE; WAYS], used: [0; WAYS] }; buckets as usize],
            entries: vec![entry; buckets as usize * WAYS],
            counters: FlowCounters::default(),
        }
    }

    pub(super) fn buckets(&self) -> u64 {
        self.tags.len() as u64
    }

    /// The bucket of a flow, and its signature there.
    #[inline(always)]
    fn home(&self, hash: u64) -> (usize, u16) {
        (hash as usize & (self.tags.len() - 1), ((hash >> 48) as u16).max(FREE + 1))
    }

    /// The slot's bucket of a flow, to be prefetched.
    #[inline(always)]
    pub(super) fn bucket(&self, hash: u64) -> FlowSlot {
        FlowSlot { bucket: self.home(hash).0 as u32, way: 0 }
    }

    /// Where a bucket lies in the host's memory, to prefetch it.
    #[inline(always)]
    pub(super) fn address(&self, slot: FlowSlot) -> *const u8 {
        self.tags.as_ptr().wrapping_add(slot.bucket as usize).cast()
    }

    /// The entry to compare with, if one has the flow's signature.
    #[inline(always)]
    pub(super) fn signed(&self, hash: u64) -> Option<FlowSlot> {
        let (bucket, signature) = self.home(hash);
        let way = self.tags.get(bucket)?.signatures.iter().position(|&s| s == signature)?;
        Some(FlowSlot { bucket: bucket as u32, way: way as u32 })
    }

    /// What is remembered of the packet's flow, and the generation it is of, if the slot is that flow's.
    #[inline(always)]
    pub(super) fn look(&self, slot: FlowSlot, parsed: &Parsed) -> Option<(FlowRules, u32)> {
        let entry = self.entries.get(slot.bucket as usize * WAYS + slot.way as usize)?;
        (entry.key() == FlowKey::of(parsed)).then_some((entry.found, entry.generation))
    }

    /// A packet of the slot's flow has come.
    #[inline(always)]
    pub(super) fn keep(&mut self, slot: FlowSlot, now: u64) {
        if let Some(tags) = self.tags.get_mut(slot.bucket as usize) {
            tags.used[slot.way as usize % WAYS] = (now >> USED_SHIFT) as u32;
        }
    }

    /// Remembers what was found for the packet's flow: in the entry that has its signature, or in a free one, or in that
    /// of the flow that was used longest ago, of several in the first.
    #[inline(always)]
    pub(super) fn enter(
        &mut self,
        hash: u64,
        parsed: &Parsed,
        found: FlowRules,
        generation: u32,
        now: u64,
    ) -> FlowSlot {
        let (bucket, signature) = self.home(hash);
        let tags = &mut self.tags[bucket];
        let place = |wanted: u16| tags.signatures.iter().position(|&s| s == wanted);
        let oldest = || (0..WAYS).min_by_key(|&way| tags.used[way]).unwrap_or(0);
        let way = place(signature).or_else(|| place(FREE)).unwrap_or_else(oldest);
        let FlowKey { remote, ue, teid, ports, what } = FlowKey::of(parsed);
        let entry = &mut self.entries[bucket * WAYS + way];
        if tags.signatures[way] != FREE && entry.key() != FlowKey::of(parsed) {
            self.counters.evictions += 1;
        }
        *entry = FlowEntry { remote, ue, teid, ports, what, generation, found };
        (tags.signatures[way], tags.used[way]) = (signature, (now >> USED_SHIFT) as u32);
        FlowSlot { bucket: bucket as u32, way: way as u32 }
    }
}

impl FlowEntry {
    #[inline(always)]
    fn key(&self) -> FlowKey {
        FlowKey { remote: self.remote, ue: self.ue, teid: self.teid, ports: self.ports, what: self.what }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bucket_and_an_entry_are_a_line_each() {
        assert_eq!((size_of::<FlowTags>(), size_of::<FlowEntry>()), (64, 64));
        assert_eq!(std::mem::offset_of!(FlowTags, used) as u64, USED_OFFSET);
        assert_eq!([0, 1, 8, 9, 64, 65].map(buckets), [0, 1, 1, 2, 8, 16]);
    }

    fn packet(n: u32) -> Parsed {
        Parsed { remote: u128::from(n % 3), ue: u128::from(n / 3), teid: n & 1, what: IS_V4, ..Parsed::default() }
    }

    fn found(n: u32) -> FlowRules {
        FlowRules { session: n, far: n + 1, qers: [n, NONE], urrs: [NONE, n] }
    }

    /// A flow, its signature, what was found, the generation, and when it was used.
    type Remembered = (u32, u16, FlowRules, u32, u64);

    /// A bucket as a list of flows with what is remembered of each, in the order of its slots.
    #[derive(Default)]
    struct Naive {
        slots: [Option<Remembered>; WAYS],
        evictions: u64,
    }

    proptest! {
        /// One bucket or two, and signatures that fall together: each flow's hash is given.
        #[test]
        fn flow_table_matches_naive(
            size in 1u64..3,
            hashes in prop::collection::vec((0u64..2, 0u16..12), 40),
            ops in prop::collection::vec((0u8..3, 0usize..40, 0u32..3), 0..400),
        ) {
            let size = size.next_power_of_two();
            let mut table = FlowTable::new(size);
            let mut naive: Vec<Naive> = (0..size).map(|_| Naive::default()).collect();
            for (t, (op, n, generation)) in ops.into_iter().enumerate() {
                let now = (t as u64 / 3) << USED_SHIFT;
                let (low, high) = hashes[n];
                let (hash, signature) = (u64::from(high) << 48 | low, high.max(1));
                let bucket = &mut naive[(low % size) as usize];
                let n = n as u32;
                let there = bucket.slots.iter().position(|s| s.is_some_and(|s| s.0 == n));
                let slot = table.signed(hash).filter(|&s| table.look(s, &packet(n)).is_some());
                prop_assert_eq!(slot.map(|s| s.way as usize), there);
                let expected = there.and_then(|i| bucket.slots[i]).map(|s| (s.2, s.3));
                prop_assert_eq!(slot.and_then(|s| table.look(s, &packet(n))), expected);
                match (op, there) {
                    (0, Some(i)) => {
                        table.keep(slot.unwrap(), now);
                        bucket.slots[i].as_mut().unwrap().4 = now;
                    }
                    (0, None) => {}
                    _ => {
                        let same = bucket.slots.iter().position(|s| s.is_some_and(|s| s.1 == signature));
                        let free = bucket.slots.iter().position(Option::is_none);
                        let oldest = (0..WAYS).min_by_key(|&i| bucket.slots[i].map_or(0, |s| s.4)).unwrap();
                        let at = same.or(free).unwrap_or(oldest);
                        bucket.evictions += u64::from(bucket.slots[at].is_some_and(|s| s.0 != n));
                        bucket.slots[at] = Some((n, signature, found(n + u32::from(op)), generation, now));
                        let slot = table.enter(hash, &packet(n), found(n + u32::from(op)), generation, now);
                        prop_assert_eq!(slot, FlowSlot { bucket: (low % size) as u32, way: at as u32 });
                    }
                }
                prop_assert_eq!(table.counters.evictions, naive.iter().map(|b| b.evictions).sum::<u64>());
            }
        }
    }
}
