//! Which buffers a packet goes into: those of its queue, those of one ring that all cores share, or those of any core.
//!
//! [`RxRings::Shared`] is ShRing (Pismenny, Morrison, Tsafrir, OSDI 2023): cores take buffers from one ring, arrivals are told in
//! completions of each core, and who posts holds a lock, for a refill at a time. A descriptor is free again as soon as its
//! packet was read, whichever comes first (assumed, as of a shared receive queue). Left out: going back to rings of one's own while memory
//! has bandwidth to spare.
//!
//! [`RxRings::Bisected`] is rxBisect (the same authors, OSDI 2025): each core has a ring of empty buffers and a ring of arrivals. The NIC
//! takes a buffer of the core that the packet is for, or else of the next one that has any, and tells of it in the arrivals of
//! the core that the packet is for. Left out: what it takes a core to see that buffers of its ring were used.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{CoreId, LINE_BYTES, LockId};

use super::NicSpec;
use super::mempool::Mempool;

/// Whose buffers received packets go into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RxRings {
    /// Those of the queue that the packet is for.
    #[default]
    Private,
    /// Those of one ring of `rx_descriptors`, which all cores post to under a lock and take from (ShRing).
    Shared,
    /// Those of the core that the packet is for, or else of any other: each has a ring of `rx_descriptors` for empty buffers and
    /// one of `deliveries` for arrivals (rxBisect).
    Bisected,
}

impl RxRings {
    pub(super) fn is_private(&self) -> bool {
        *self == RxRings::Private
    }

    /// Rings of empty buffers of `receiving` cores.
    pub fn count(self, receiving: u32) -> u32 {
        if self == RxRings::Shared { receiving.min(1) } else { receiving }
    }
}

/// The lock of the shared ring, away from those of functions.
pub(super) const RING_LOCK: LockId = LockId(u32::MAX);

/// Bytes behind the driver's array of a shared ring: its lock and the number that is posted next.
pub(super) const RING_HEAD_BYTES: u64 = LINE_BYTES;

/// The mbufs that a ring of `nic` starts with: those that `core` takes at once or, where the first core fills all rings, those that
/// this takes one by one, whose cache goes down from the last mbuf of each refill. [`None`] if there are too few.
pub(super) fn filled(nic: &NicSpec, core: CoreId, pool: &mut Mempool) -> Option<Vec<u32>> {
    let n = nic.rx_descriptors as usize;
    let mut posted = Vec::with_capacity(n);
    let all = if nic.driver.filled_by_first {
        (0..n).all(|_| pool.get_bulk(CoreId(0), 1, &mut posted, &mut probe::Null))
    } else {
        pool.get_bulk(core, n, &mut posted, &mut probe::Null)
    };
    all.then_some(posted)
}

/// The ring of empty buffers that all cores share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SharedRing {
    pub(super) descriptors: u64,
    /// By descriptor and mbuf.
    pub(super) posted: VecDeque<(u64, u32)>,
    pub(super) post_next: u64,
    /// Where its lock is, in the driver's array.
    pub(super) head: u64,
}

impl SharedRing {
    /// That of `nic`, filled with mbufs of `pool`; [`None`] if the pool has too few.
    pub fn new(nic: &NicSpec, pool: &mut Mempool) -> Option<SharedRing> {
        let mbufs = filled(nic, CoreId(0), pool)?;
        let descriptors = u64::from(nic.rx_descriptors);
        let head = (descriptors * u64::from(nic.driver.rx_entry)).next_multiple_of(LINE_BYTES);
        Some(SharedRing { descriptors, posted: (0..).zip(mbufs).collect(), post_next: descriptors, head })
    }

    /// Mbufs that wait in it, the one that is used last before the others.
    pub fn posted_mbufs(&self) -> impl ExactSizeIterator<Item = u32> {
        self.posted.iter().rev().map(|&(_, mbuf)| mbuf)
    }

    /// Descriptors that the NIC can use.
    pub fn posted(&self) -> usize {
        self.posted.len()
    }

    /// The NIC takes a descriptor: where it is in the ring, and its mbuf; [`None`] if all are used.
    pub fn take(&mut self) -> Option<(u64, u32)> {
        self.posted.pop_front()
    }
}
