//! Receive and transmit queues: which lines a driver touches for each packet, in order.

use std::collections::VecDeque;

use packet::Packet;
use probe::{Access, Probe, Ref, RegionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{CoreId, LINE_BYTES, PacketId, Ps};

use super::driver_spec::{DriverSpec, MOST_BULK, Reclaim, TxCompletions};
use super::mempool::Mempool;
use super::rings::{RING_LOCK, RxRings, SharedRing, filled};
use super::{NicSpec, POOL, RX_COMPLETIONS, RX_RING, RX_SW_RING, TX_COMPLETIONS, TX_RING, TX_SW_RING};

/// Of a received packet in a compressed session: 8 in a slot of 64 (`mlx5_mini_cqe8`).
const MINI_COMPLETION_BYTES: u64 = 8;

const SITE_RX: u16 = 50_000;
const SITE_POST: u16 = 50_010;
const SITE_TX: u16 = 61_000;
const SITE_FREE: u16 = 61_010;

/// What a driver does to a fresh mbuf when it posts it to a receive descriptor.
///
/// `struct rte_mbuf` begins with the address of its buffer; `refcnt`, `data_off`, `nb_segs` and `port` follow in the same
/// line, and `next` begins the second one. Whatever it is, the fields of a received packet are written to the first line
/// once the packet is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Refill {
    /// Nothing: the buffer's address follows from the mbuf's. mlx5's vector path in DPDK 19.02, and until 19.11 on
    /// machines that are not x86 (`mlx5_rx_replenish_bulk_mbuf`).
    #[default]
    Computed,
    /// It reads the address in the first line: the vector paths of i40e, ice, iavf and ixgbe (`*_rxq_rearm`), and mlx5's
    /// since DPDK 20.02.
    Read,
    /// It reads the address and writes the fields beside it, and `next` in the second line: the scalar paths of i40e and
    /// ice that take mbufs in bulk (`*_rx_alloc_bufs`).
    Written,
}

impl Refill {
    pub(super) fn is_computed(&self) -> bool {
        *self == Refill::Computed
    }

    /// References to a fresh mbuf.
    const fn references(self) -> usize {
        match self {
            Refill::Computed => 0,
            Refill::Read => 1,
            Refill::Written => 3,
        }
    }

    /// The references to fresh `mbuf`, whose number was loaded `dep` references before.
    fn touch(self, mbuf: u32, stride: u64, dep: u8, probe: &mut impl Probe) {
        let base = u64::from(mbuf) * stride;
        match self {
            Refill::Computed => {}
            Refill::Read => probe.touch(Ref::load(POOL, base, 16, SITE_POST + 2).after(dep)),
            Refill::Written => {
                probe.touch(Ref::store(POOL, base + 16, 8, SITE_POST + 3).after(dep));
                probe.touch(Ref::store(POOL, base + 64, 8, SITE_POST + 4).after(dep + 1));
                probe.touch(Ref::load(POOL, base, 16, SITE_POST + 2).after(dep + 2));
            }
        }
    }
}

/// A packet in memory: what a core takes from its ring.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Received {
    /// The packet with its bytes.
    pub packet: Packet,
    /// The mbuf that holds it.
    pub mbuf: u32,
    /// When the core could see it.
    pub visible: Ps,
    /// How much of the time since arrival was the memory system's, not PCIe's.
    pub dma_memory: Ps,
    /// How much of it was the NIC's: the wait for its packet rate and its queue's, and its pipeline.
    pub in_nic: Ps,
    /// What its addresses took to be translated.
    pub translated: Ps,
    /// What it takes to cross an idle PCIe link.
    pub crossing: Ps,
    /// Which of its core's receive queues it is in.
    pub queue: u16,
    /// Where the descriptor of its buffer is, counted in descriptors from the start of that one's ring.
    pub slot: u64,
}

/// A receive queue: descriptors posted by the driver, used by the NIC in order.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct RxQueue {
    descriptors: u64,
    /// The queues of a core lie one after the other.
    base: u64,
    /// Whose buffers its packets go into.
    rings: RxRings,
    /// Arrivals that it holds, at most, and the first place of its own among those of its core.
    deliveries: u64,
    first_delivery: u64,
    posted: VecDeque<u32>,
    /// The descriptor the NIC uses next, the arrival that it tells of next.
    nic_next: u64,
    delivered: u64,
    /// The arrival the driver reads next, the descriptor it posts next.
    read_next: u64,
    post_next: u64,
    /// Used, as far as the driver knows, and not posted again.
    to_post: usize,
    ready: VecDeque<Received>,
    spare: Vec<u32>,
    /// Where those are in a shared ring.
    slots: Vec<u64>,
    refill: Refill,
    driver: DriverSpec,
    /// Bytes from one mbuf to the next.
    stride: u64,
}

impl RxQueue {
    /// Queue number `number` of a core as `nic` has it, all descriptors posted with mbufs of `pool`, which lie `stride` bytes apart; [`None`] if the
    /// pool has too few.
    pub fn new(nic: &NicSpec, number: u32, stride: u64, core: CoreId, pool: &mut Mempool) -> Option<RxQueue> {
        let posted = if nic.rings == RxRings::Shared { Vec::new() } else { filled(nic, core, pool)? };
        let deliveries = u64::from(nic.deliveries());
        Some(RxQueue {
            descriptors: u64::from(nic.rx_descriptors),
            base: u64::from(nic.rx_descriptors) * u64::from(number),
            rings: nic.rings,
            deliveries,
            first_delivery: deliveries * u64::from(number),
            posted: posted.into(),
            nic_next: 0,
            delivered: 0,
            read_next: 0,
            post_next: u64::from(nic.rx_descriptors),
            to_post: 0,
            ready: VecDeque::new(),
            spare: Vec::new(),
            slots: Vec::new(),
            refill: nic.refill,
            driver: nic.driver.clone(),
            stride,
        })
    }

    /// The NIC takes a descriptor for a packet: its number and the mbuf; [`None`] if all are used.
    pub fn take_descriptor(&mut self) -> Option<(u64, u32)> {
        let taken = self.take_posted()?;
        self.deliver();
        Some(taken)
    }

    /// The NIC takes a descriptor for a packet of this queue or of another: its number and the mbuf; [`None`] if all are used.
    pub fn take_posted(&mut self) -> Option<(u64, u32)> {
        let mbuf = self.posted.pop_front()?;
        let descriptor = self.nic_next;
        self.nic_next += 1;
        // Its place may be posted to at once: the packet is told of elsewhere.
        self.to_post += usize::from(self.rings == RxRings::Bisected);
        Some((descriptor, mbuf))
    }

    /// The NIC will tell of a packet here: as which arrival.
    pub fn deliver(&mut self) -> u64 {
        self.delivered += 1;
        self.delivered - 1
    }

    /// Whether an arrival more can be told of.
    pub fn has_room(&self) -> bool {
        self.delivered - self.read_next < self.deliveries
    }

    /// The NIC has written a packet and its descriptor. Packets come in the order of their
    /// descriptors.
    pub fn complete(&mut self, received: Received) {
        self.ready.push_back(received);
    }

    /// When the oldest packet became visible.
    pub fn oldest(&self) -> Option<Ps> {
        self.ready.front().map(|r| r.visible)
    }

    /// Packets in the ring.
    pub fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// What its packets have waited by `now`, summed.
    pub fn waited(&self, now: Ps) -> Ps {
        self.ready.iter().map(|received| now.since(received.visible)).sum()
    }

    /// Descriptors that the NIC can use.
    pub fn posted(&self) -> usize {
        self.posted.len()
    }

    /// Mbufs that wait in descriptors for packets to come, the one that is used last before the others.
    pub fn posted_mbufs(&self) -> impl ExactSizeIterator<Item = u32> {
        self.posted.iter().rev().copied()
    }

    /// Mbufs in descriptors: for packets to come, on their way, and with packets that wait; those about to be posted
    /// are among them.
    pub fn held(&self) -> u64 {
        (self.posted.len() + self.spare.len() + self.ready.len()) as u64 + self.in_flight()
    }

    /// The offset of descriptor `number` in its ring.
    pub fn offset(&self, number: u64) -> u64 {
        self.at(number) * u64::from(self.driver.rx_descriptor)
    }

    /// Where descriptor `number` is, counted in descriptors from the start of the core's rings.
    pub fn at(&self, number: u64) -> u64 {
        self.base + number % self.descriptors
    }

    /// The offset of the completion of packet `number` in a ring of its own; [`None`] where the NIC writes to the descriptor.
    pub fn completion_offset(&self, number: u64) -> Option<u64> {
        let bytes = u64::from(self.driver.rx_completion);
        let each = if self.driver.compressed { MINI_COMPLETION_BYTES } else { bytes };
        (bytes > 0).then_some(self.told_at(number) * each)
    }

    /// Where the NIC tells of arrival `number`, counted from the start of those of the core.
    fn told_at(&self, number: u64) -> u64 {
        self.first_delivery + number % self.deliveries
    }

    /// The driver takes up to `burst` packets visible at `now` and appends them to `out`.
    pub fn receive(&mut self, now: Ps, burst: usize, out: &mut Vec<Received>, probe: &mut impl Probe) {
        probe.work(SITE_RX, self.driver.call_instructions);
        let mut taken = 0;
        while taken < burst
            && self.oldest().is_some_and(|visible| visible <= now)
            && let Some(received) = self.ready.pop_front()
        {
            let (at, told_at) = (self.at(self.read_next), self.told_at(self.read_next));
            let id = received.packet.id;
            probe.begin(id);
            let driver = &self.driver;
            match self.completion_offset(self.read_next) {
                None => probe.touch(Ref::load(RX_RING, at * u64::from(driver.rx_descriptor), 16, SITE_RX)),
                Some(offset) if driver.compressed => {
                    probe.touch(Ref::load(RX_COMPLETIONS, offset, MINI_COMPLETION_BYTES as u16, SITE_RX));
                    if driver.returns_slots {
                        // The owner in the last byte of each slot that the session covers.
                        let slot = (told_at + 1) * u64::from(driver.rx_completion) - 1;
                        probe.touch(Ref::store(RX_COMPLETIONS, slot, 1, SITE_RX + 3));
                    }
                }
                Some(offset) => probe.touch(Ref::load(RX_COMPLETIONS, offset, driver.rx_completion as u16, SITE_RX)),
            }
            let entry = u64::from(driver.rx_entry);
            let buffer = match self.rings {
                RxRings::Private => Some(at),
                RxRings::Shared => Some(received.slot),
                // The arrival names its buffer.
                RxRings::Bisected => None,
            };
            if let Some(at) = buffer {
                probe.touch(Ref::load(RX_SW_RING, at * entry, entry as u16, SITE_RX + 1));
            }
            // Receive fields of the mbuf: lengths, port, hash, packet type.
            probe.touch(Ref::store(RegionId::MBUF, 16, 48, SITE_RX + 2).after(1));
            probe.work(SITE_RX + 2, driver.rx_instructions);
            probe.end(id);
            self.read_next += 1;
            self.to_post += usize::from(self.rings != RxRings::Bisected);
            taken += 1;
            out.push(received);
        }
    }

    /// Packets that the NIC has taken descriptors for and not yet written.
    pub fn in_flight(&self) -> u64 {
        self.delivered - self.read_next - self.ready.len() as u64
    }

    /// Whether descriptors are without mbufs for want of free ones.
    pub fn is_starved(&self) -> bool {
        self.to_post >= self.driver.rx_bulk as usize
    }

    /// Whether a starved queue can be filled again.
    pub fn can_refill(&self, core: CoreId, pool: &Mempool) -> bool {
        pool.has(core, self.driver.rx_bulk as usize)
    }

    /// The driver posts fresh mbufs for descriptors it has read, `driver.rx_bulk` at a time. They reach the NIC
    /// with [`RxQueue::doorbell`]. They go to `shared`, where there is such a ring. Gives the mbufs that it wanted and the pool did not have.
    pub fn refill(
        &mut self,
        core: CoreId,
        pool: &mut Mempool,
        mut shared: Option<&mut SharedRing>,
        probe: &mut impl Probe,
    ) -> usize {
        let bulk = self.driver.rx_bulk as usize;
        let (descriptor, entry) = (u64::from(self.driver.rx_descriptor), u64::from(self.driver.rx_entry));
        let head = shared.as_ref().map(|ring| Ref::load(RX_SW_RING, ring.head, 8, SITE_POST + 5));
        let mut locked = false;
        while self.to_post >= bulk {
            let before = self.spare.len();
            if !pool.get_bulk(core, bulk, &mut self.spare, probe) {
                break;
            }
            let takes = !locked && head.is_some();
            if let Some(head) = head.filter(|_| takes) {
                probe.lock(RING_LOCK);
                probe.touch(head.with_access(Access::Atomic));
                locked = true;
            }
            let posts = self.spare.len() - before;
            for i in 0..posts {
                let mbuf = self.spare[before + i];
                let at = match shared.as_deref_mut() {
                    Some(ring) => {
                        let at = ring.post_next % ring.descriptors;
                        ring.post_next += 1;
                        self.slots.push(at);
                        at
                    }
                    None => self.at(self.post_next),
                };
                // The pool's last references load the numbers, one each: that of this mbuf or the next is so far back.
                let number = bulk + i * (self.refill.references() + 1) + usize::from(takes);
                self.refill.touch(mbuf, self.stride, number as u8, probe);
                probe.touch(Ref::store(RX_SW_RING, at * entry, entry as u16, SITE_POST));
                probe.touch(Ref::store(RX_RING, at * descriptor, 16, SITE_POST + 1));
                self.post_next += 1;
            }
            probe.work(SITE_POST, self.driver.post_instructions * bulk as u32);
            self.to_post -= bulk;
        }
        if let Some(head) = head.filter(|_| locked) {
            probe.touch(head.with_access(Access::Store));
            probe.unlock(RING_LOCK);
        }
        if self.to_post >= bulk { self.to_post } else { 0 }
    }

    /// Whether mbufs wait for the doorbell.
    pub fn is_refilled(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Whether a doorbell has to be rung for them: a store to the NIC.
    pub fn rings(&self) -> bool {
        self.is_refilled() && self.driver.rx_doorbell
    }

    /// The tail register, or `shared`'s, is written: what was refilled is the NIC's.
    pub fn doorbell(&mut self, shared: Option<&mut SharedRing>) {
        match shared {
            Some(ring) => ring.posted.extend(self.slots.drain(..).zip(self.spare.drain(..))),
            None => self.posted.extend(self.spare.drain(..)),
        }
    }
}

impl Default for Received {
    fn default() -> Self {
        Received {
            packet: Packet::default(),
            mbuf: 0,
            visible: Ps::ZERO,
            dma_memory: Ps::ZERO,
            in_nic: Ps::ZERO,
            translated: Ps::ZERO,
            crossing: Ps::ZERO,
            queue: 0,
            slot: 0,
        }
    }
}

/// Packets of which the NIC tells at once that they were sent.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct Told {
    /// The number behind the last one's in its queue.
    end: u64,
    /// Where it is told, in bytes from the start of the queue's core's ring.
    offset: u64,
    /// When the driver may see it.
    at: Ps,
}

/// A transmit queue of a core and port.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct TxQueue {
    descriptors: usize,
    /// The queues of a core's ports lie one after the other.
    port: u64,
    /// The descriptor the NIC reads next.
    fetched: u64,
    /// Mbufs handed to the NIC.
    sent: VecDeque<u32>,
    /// Entries of `sent` that were given back to the pool since the first one.
    first: u64,
    next: u64,
    /// Packets that the NIC has read since the first one, and where bursts end that it tells of one by one.
    read: u64,
    ends: VecDeque<u64>,
    /// What it has told of packets that are not yet given back, and how often it has told of any.
    told: VecDeque<Told>,
    tellings: u64,
    fast_free: bool,
    driver: DriverSpec,
}

impl TxQueue {
    /// An empty queue of port `port`, as `nic` has it.
    pub fn new(nic: &NicSpec, port: u16) -> TxQueue {
        TxQueue {
            descriptors: nic.tx_descriptors as usize,
            port: port.into(),
            fetched: 0,
            sent: VecDeque::new(),
            first: 0,
            next: 0,
            read: 0,
            ends: VecDeque::new(),
            told: VecDeque::new(),
            tellings: 0,
            fast_free: nic.fast_free,
            driver: nic.driver.clone(),
        }
    }

    /// Where descriptor `number` is, counted in descriptors from the start of the core's ring.
    fn at(&self, number: u64) -> u64 {
        let descriptors = self.descriptors as u64;
        descriptors * self.port + number % descriptors
    }

    /// Mbufs that the queue holds.
    pub fn held(&self) -> usize {
        self.sent.len()
    }

    /// Whether the driver looks for mbufs to give back.
    fn wants_back(&self, bulk: usize) -> bool {
        self.sent.len() >= bulk
            && match self.driver.reclaim {
                Reclaim::Full => self.descriptors - self.sent.len() < bulk,
                Reclaim::Done => true,
            }
    }

    /// Where the driver looks whether the NIC has sent packet `number`, and what tells of it.
    fn look(&self, told: Option<&Told>, number: u64) -> Ref {
        if self.driver.tx_completion_to != TxCompletions::Descriptor {
            let offset = told.map_or_else(|| self.completion_at(), |told| told.offset);
            return Ref::load(TX_COMPLETIONS, offset, 4, SITE_FREE);
        }
        let last = self.at(told.map_or(number, |told| told.end - 1));
        Ref::load(TX_RING, last * u64::from(self.driver.tx_descriptor), 8, SITE_FREE)
    }

    /// The driver gives mbufs that the NIC has told of back to the pool, `driver.tx_bulk` at a time: once fewer descriptors than
    /// that are free, or whenever there are so many. Appends them to `gone`.
    pub fn reclaim(
        &mut self,
        now: Ps,
        core: CoreId,
        pool: &mut Mempool,
        stride: u64,
        gone: &mut Vec<u32>,
        probe: &mut impl Probe,
    ) {
        let bulk = self.driver.tx_bulk as usize;
        let entry = u64::from(self.driver.tx_entry);
        while self.wants_back(bulk) {
            // Told in order: the last one tells for all.
            let last = self.first + bulk as u64 - 1;
            let told = self.told.iter().find(|told| told.end > last);
            let done = told.is_some_and(|told| told.at <= now);
            if !done && self.driver.reclaim == Reclaim::Done {
                return;
            }
            probe.touch(self.look(told, last));
            if !done {
                return;
            }
            let mut back = [0u32; MOST_BULK];
            for (mbuf, sent) in back.iter_mut().zip(self.sent.drain(..bulk)) {
                *mbuf = sent;
                let at = self.descriptors as u64 * self.port + self.first % self.descriptors as u64;
                probe.touch(Ref::load(TX_SW_RING, at * entry, entry as u16, SITE_FREE + 1));
                self.first += 1;
                let base = u64::from(sent) * stride;
                if self.driver.rewrites_freed {
                    probe.touch(Ref::store(POOL, base, LINE_BYTES as u16, SITE_FREE + 4).after(1));
                } else if !self.fast_free {
                    // `rte_pktmbuf_prefree_seg`: `refcnt` in the mbuf's first line and `next` in the second, where `pool`
                    // was, too, until DPDK 20.08.
                    probe.touch(Ref::load(POOL, base + 18, 2, SITE_FREE + 2).after(1));
                    if self.driver.freed_lines > 1 {
                        probe.touch(Ref::load(POOL, base + 72, 8, SITE_FREE + 3).after(2));
                    }
                }
            }
            while self.told.front().is_some_and(|told| told.end <= self.first) {
                self.told.pop_front();
            }
            probe.work(SITE_FREE, self.driver.free_instructions * bulk as u32);
            pool.put_bulk(core, &back[..bulk], probe);
            gone.extend_from_slice(&back[..bulk]);
        }
    }

    /// The driver puts `mbuf` with `packet`, of `bytes` bytes, into the queue; `false` if it is full.
    pub fn send(&mut self, packet: PacketId, bytes: u32, mbuf: u32, probe: &mut impl Probe) -> bool {
        if self.sent.len() >= self.descriptors {
            return false;
        }
        let at = self.at(self.next);
        let driver = &self.driver;
        let (descriptor, entry) = (u64::from(driver.tx_descriptor), u64::from(driver.tx_entry));
        probe.begin(packet);
        probe.touch(Ref::load(RegionId::MBUF, 0, 16, SITE_TX));
        probe.touch(Ref::load(RegionId::MBUF, 36, 8, SITE_TX + 1));
        let copied = driver.tx_copied.min(bytes);
        if copied > 0 {
            probe.touch(Ref::load(RegionId::PACKET, 0, copied as u16, SITE_TX + 4).after(2));
        }
        probe.touch(Ref::store(TX_RING, at * descriptor, descriptor as u16, SITE_TX + 2));
        probe.touch(Ref::store(TX_SW_RING, at * entry, entry as u16, SITE_TX + 3));
        probe.work(SITE_TX, driver.tx_instructions);
        probe.end(packet);
        self.sent.push_back(mbuf);
        self.next += 1;
        true
    }

    /// Whether a packet of `bytes` bytes is in its descriptor, so that the NIC does not read it.
    pub fn is_copied(&self, bytes: u32) -> bool {
        bytes <= self.driver.tx_copied
    }

    /// The driver rings the doorbell for what it has put into the queue, if that is anything.
    pub fn rung(&mut self) {
        let latest = self.ends.back().copied().unwrap_or(self.read);
        if self.driver.tx_completion_every == 0 && self.next > latest {
            self.ends.push_back(self.next);
        }
    }

    /// Where the next completion goes, where it goes to no descriptor.
    fn completion_at(&self) -> u64 {
        let (places, bytes) = self.driver.tx_completions(self.descriptors as u32);
        let places = places.max(1);
        (places * self.port + self.tellings % places) * bytes
    }

    /// The NIC has read the oldest packet it had not read. Where it tells of this one and those before it now: the region and the
    /// offset of what it writes, of [`DriverSpec::tx_completion`] bytes, which the driver may see after [`TxQueue::told`].
    pub fn read(&mut self) -> Option<(RegionId, u64)> {
        self.read += 1;
        let tells = match self.driver.tx_completion_every {
            0 => {
                let ends = self.ends.front() == Some(&self.read);
                ends && self.ends.pop_front().is_some()
            }
            every => self.read.is_multiple_of(u64::from(every)),
        };
        if !tells {
            return None;
        }
        if self.driver.tx_completion_to != TxCompletions::Descriptor {
            return Some((TX_COMPLETIONS, self.completion_at()));
        }
        // To the end of the last packet's descriptor, as far as the ring goes back.
        let end = (self.at(self.read - 1) + 1) * u64::from(self.driver.tx_descriptor);
        let first = self.descriptors as u64 * self.port * u64::from(self.driver.tx_descriptor);
        Some((TX_RING, end.saturating_sub(self.driver.tx_completion.into()).max(first)))
    }

    /// The driver may see from `at` on that what the NIC has read was sent.
    pub fn told(&mut self, at: Ps) {
        let at = self.told.back().map_or(at, |last| last.at.max(at));
        self.told.push_back(Told { end: self.read, offset: self.completion_at(), at });
        self.tellings += 1;
    }

    /// The NIC reads the next descriptor: its offset in the core's ring.
    pub fn fetch(&mut self) -> u64 {
        let at = self.at(self.fetched);
        self.fetched += 1;
        at * u64::from(self.driver.tx_descriptor)
    }
}

#[cfg(test)]
mod tests {
    use super::super::MBUF_STRIDE;
    use super::super::mempool::{MempoolKind, MempoolSpec};
    use super::super::tests::nic_of;
    use super::*;
    use probe::{Null, ProbeEvent, Record};

    fn nic(refill: Refill, fast_free: bool) -> NicSpec {
        NicSpec { refill, fast_free, ..nic_of(64) }
    }

    fn pool(size: u32) -> Mempool {
        Mempool::new(
            &MempoolSpec { size, cache: 0, kind: MempoolKind::Fifo, shuffled: false, element: None, start: None },
            1,
        )
    }

    #[test]
    fn a_ring_without_posted_descriptors_refuses_and_recovers_after_the_doorbell() {
        let mut pool = pool(1000);
        let mut rx = RxQueue::new(&nic(Refill::Computed, false), 0, MBUF_STRIDE, CoreId(0), &mut pool).unwrap();
        for i in 0..64 {
            let (number, mbuf) = rx.take_descriptor().unwrap();
            assert_eq!((number, mbuf), (i, i as u32));
            rx.complete(Received { mbuf, ..Received::default() });
        }
        assert!(rx.take_descriptor().is_none());
        let mut out = Vec::new();
        rx.receive(Ps::ZERO, 33, &mut out, &mut Null);
        assert_eq!(rx.refill(CoreId(0), &mut pool, None, &mut Null), 0);
        assert!(rx.take_descriptor().is_none(), "not before the doorbell");
        rx.doorbell(None);
        assert_eq!(rx.take_descriptor(), Some((64, 64)));
        assert_eq!((rx.waiting(), rx.posted()), (31, 31));
    }

    #[test]
    fn a_ring_starves_while_the_pool_is_empty() {
        let mut pool = pool(64);
        let mut rx = RxQueue::new(&nic(Refill::Computed, false), 0, MBUF_STRIDE, CoreId(0), &mut pool).unwrap();
        let mut out = Vec::new();
        for _ in 0..40 {
            let (_, mbuf) = rx.take_descriptor().unwrap();
            rx.complete(Received { mbuf, ..Received::default() });
        }
        rx.receive(Ps::ZERO, 40, &mut out, &mut Null);
        assert_eq!(rx.refill(CoreId(0), &mut pool, None, &mut Null), 40);
        assert!(rx.is_starved() && !rx.can_refill(CoreId(0), &pool));
        let mbufs: Vec<u32> = out.iter().map(|r| r.mbuf).collect();
        pool.put_bulk(CoreId(0), &mbufs, &mut Null);
        assert!(rx.can_refill(CoreId(0), &pool));
        assert_eq!(rx.refill(CoreId(0), &mut pool, None, &mut Null), 0);
        assert!(!rx.is_starved());
    }

    #[test]
    fn packets_that_are_not_visible_yet_stay() {
        let mut pool = pool(100);
        let mut rx = RxQueue::new(&nic(Refill::Computed, false), 0, MBUF_STRIDE, CoreId(0), &mut pool).unwrap();
        for visible in [10, 20] {
            rx.complete(Received { visible: Ps(visible), ..Received::default() });
        }
        let mut out = Vec::new();
        rx.receive(Ps(15), 32, &mut out, &mut Null);
        assert_eq!((out.len(), rx.oldest()), (1, Some(Ps(20))));
    }

    /// The NIC reads a packet, and the driver sees at 4 ps what it tells of.
    fn read(tx: &mut TxQueue) {
        if tx.read().is_some() {
            tx.told(Ps(4));
        }
    }

    #[test]
    fn the_nic_tells_of_what_is_sent_by_count_or_by_burst_in_descriptors_or_in_a_ring() {
        // Bursts of 5, 3 and 8 packets, by the second port's queue of 64 descriptors: where, and after how many.
        let told = |driver: DriverSpec| {
            let mut tx = TxQueue::new(&with(driver), 1);
            let mut found = Vec::new();
            for burst in [5u64, 3, 8] {
                (0..burst).for_each(|i| assert!(tx.send(PacketId(i), 60, 0, &mut Null)));
                // Of a queue that nothing was put into no doorbell is rung.
                tx.rung();
                tx.rung();
                for _ in 0..burst {
                    if let Some((region, offset)) = tx.read() {
                        tx.told(Ps(tx.read));
                        found.push((region, offset, tx.read));
                    }
                }
            }
            found
        };
        let base = || DriverSpec { tx_completion_every: 4, ..DriverSpec::default() };
        let own = 64 * 16;
        let expected = |last: [u64; 4]| last.map(|last| (TX_RING, own + (last - 1) * 16, last)).to_vec();
        assert_eq!(told(base()), expected([4, 8, 12, 16]));
        // Four descriptors are written back together.
        let lines = told(DriverSpec { tx_completion: 64, ..base() });
        assert_eq!(lines, [4, 8, 12, 16].map(|last| (TX_RING, own + (last - 4) * 16, last)));
        // A burst each: to the last descriptor, as far back as the ring goes, or to a ring with a slot for each descriptor.
        let bursts = DriverSpec { tx_completion_every: 0, ..base() };
        assert_eq!(told(bursts.clone()), expected([5, 8, 16, 16])[..3]);
        let back = told(DriverSpec { tx_completion: 128, ..bursts.clone() });
        assert_eq!(back.iter().map(|told| told.1).collect::<Vec<_>>(), [own, own, own + 128]);
        let ring = told(DriverSpec { tx_completion_to: TxCompletions::Ring, tx_completion: 64, ..bursts });
        assert_eq!(ring, [(0, 5), (1, 8), (2, 16)].map(|(slot, last)| (TX_COMPLETIONS, (64 + slot) * 64, last)));
        let ring = told(DriverSpec { tx_completion_to: TxCompletions::Ring, tx_completion: 64, ..base() });
        assert_eq!(ring, [0, 1, 2, 3].map(|slot| (TX_COMPLETIONS, (16 + slot) * 64, 4 * slot + 4)));
        // One place a port, in a line of its own.
        let head = told(DriverSpec { tx_completion_to: TxCompletions::Head, tx_completion: 4, ..base() });
        assert_eq!(head, [4, 8, 12, 16].map(|last| (TX_COMPLETIONS, 64, last)));
    }

    #[test]
    fn what_is_told_goes_round_with_its_ring() {
        // 160 packets through the second port's 64 descriptors, in bursts of 16.
        let told = |driver: DriverSpec| {
            let (mut pool, mut tx) = (pool(200), TxQueue::new(&with(driver), 1));
            let mut found = Vec::new();
            for _ in 0..10 {
                let mut mbufs = Vec::new();
                assert!(pool.get_bulk(CoreId(0), 16, &mut mbufs, &mut Null));
                tx.reclaim(Ps(4), CoreId(0), &mut pool, MBUF_STRIDE, &mut Vec::new(), &mut Null);
                mbufs.iter().for_each(|&mbuf| assert!(tx.send(PacketId(0), 60, mbuf, &mut Null)));
                tx.rung();
                for _ in 0..16 {
                    if let Some((region, offset)) = tx.read() {
                        tx.told(Ps(4));
                        found.push((region, offset));
                    }
                }
            }
            found
        };
        let base =
            || DriverSpec { reclaim: Reclaim::Done, tx_bulk: 16, tx_completion_every: 32, ..DriverSpec::default() };
        assert_eq!(told(base()), [31, 63, 31, 63, 31].map(|at| (TX_RING, (64 + at) * 16)));
        let ring = DriverSpec { tx_completion_to: TxCompletions::Ring, tx_completion: 64, ..base() };
        assert_eq!(told(ring), [0, 1, 0, 1, 0].map(|slot| (TX_COMPLETIONS, (2 + slot) * 64)));
    }

    #[test]
    fn a_full_ring_of_the_least_length_always_has_a_bulk_that_was_told_of() {
        for (tx_bulk, tx_completion_every) in
            [(24, 64), (32, 48), (50, 40), (35, 32), (64, 64), (32, 4), (8, 0), (1, 1)]
        {
            for reclaim in [Reclaim::Full, Reclaim::Done] {
                let driver = DriverSpec { tx_bulk, tx_completion_every, reclaim, ..DriverSpec::default() };
                let least = driver.least_tx_descriptors();
                let mut tx = TxQueue::new(&NicSpec { tx_descriptors: least, ..with(driver) }, 0);
                let (mut pool, mut sent) = (pool(400), 0);
                for _ in 0..2_000 {
                    tx.reclaim(Ps(4), CoreId(0), &mut pool, MBUF_STRIDE, &mut Vec::new(), &mut Null);
                    let mut mbuf = Vec::new();
                    assert!(pool.get_bulk(CoreId(0), 1, &mut mbuf, &mut Null));
                    match tx.send(PacketId(0), 60, mbuf[0], &mut Null) {
                        true => sent += 1,
                        false => pool.put_bulk(CoreId(0), &mbuf, &mut Null),
                    }
                    tx.rung();
                    while tx.read < tx.next {
                        read(&mut tx);
                    }
                }
                assert_eq!(sent, 2_000, "{tx_bulk}, {tx_completion_every}, {reclaim:?}: {least}");
            }
        }
    }

    #[test]
    fn the_driver_looks_for_what_is_sent_where_the_nic_tells_of_it() {
        let looks = |driver: DriverSpec, sent: usize| {
            let mut pool = pool(200);
            let mut tx = TxQueue::new(&with(DriverSpec { reclaim: Reclaim::Done, tx_bulk: 8, ..driver }), 0);
            let mut mbufs = Vec::new();
            assert!(pool.get_bulk(CoreId(0), 64, &mut mbufs, &mut Null));
            for burst in mbufs[..sent].chunks(12) {
                burst.iter().for_each(|&mbuf| assert!(tx.send(PacketId(0), 60, mbuf, &mut Null)));
                tx.rung();
                burst.iter().for_each(|_| read(&mut tx));
            }
            let mut record = Record::default();
            tx.reclaim(Ps(4), CoreId(0), &mut pool, MBUF_STRIDE, &mut Vec::new(), &mut record);
            let found = references(&record);
            let looked = found.iter().filter(|r| [TX_RING, TX_COMPLETIONS].contains(&r.region));
            (looked.map(|r| r.offset).collect::<Vec<_>>(), tx.held())
        };
        let bursts = DriverSpec { tx_completion_every: 0, ..DriverSpec::default() };
        // Bursts of 12 packets, of which 8 at a time are given back: the first two bulks are told of with the first two bursts.
        assert_eq!(looks(bursts.clone(), 24), (vec![11 * 16, 23 * 16, 23 * 16], 0));
        let ring = DriverSpec { tx_completion_to: TxCompletions::Ring, tx_completion: 64, ..bursts };
        assert_eq!(looks(ring, 24), (vec![0, 64, 64], 0));
        // One of 16 tells of two bulks, and what comes behind it is not told of.
        let sixteen = DriverSpec { tx_completion_every: 16, ..DriverSpec::default() };
        assert_eq!(looks(sixteen, 30), (vec![15 * 16, 15 * 16], 14));
    }

    #[test]
    fn mbufs_come_back_lazily_and_only_when_read() {
        let mut pool = pool(200);
        let mut tx = TxQueue::new(&nic(Refill::Computed, false), 1);
        let mut mbufs = Vec::new();
        assert!(pool.get_bulk(CoreId(0), 64, &mut mbufs, &mut Null));
        for (i, &mbuf) in mbufs.iter().enumerate() {
            assert!(tx.send(PacketId(i as u64), 60, mbuf, &mut Null));
        }
        assert!(!tx.send(PacketId(99), 60, 0, &mut Null), "full");
        // The queue of the second port lies behind that of the first.
        assert_eq!([tx.fetch(), tx.fetch()], [64 * 16, 65 * 16]);
        let mut gone = Vec::new();
        tx.reclaim(Ps(5), CoreId(0), &mut pool, 2368, &mut gone, &mut Null);
        assert_eq!(tx.held(), 64, "nothing read yet");
        (0..40).for_each(|_| read(&mut tx));
        tx.reclaim(Ps(5), CoreId(0), &mut pool, 2368, &mut gone, &mut Null);
        assert_eq!((tx.held(), pool.free()), (32, 136 + 32));
        assert_eq!(gone, mbufs[..32]);
    }

    fn references(record: &Record) -> Vec<Ref> {
        let touched = record.iter().filter_map(|event| match event {
            ProbeEvent::Touch(r) => Some(r),
            _ => None,
        });
        touched.collect()
    }

    /// Lines of mbufs that a refill touches, and whether it writes them, by mbuf and line.
    fn refilled(refill: Refill) -> Vec<(u64, u64, bool)> {
        let mut pool = pool(1000);
        let mut rx = RxQueue::new(&nic(refill, false), 0, MBUF_STRIDE, CoreId(0), &mut pool).unwrap();
        for _ in 0..32 {
            let (_, mbuf) = rx.take_descriptor().unwrap();
            rx.complete(Received { mbuf, ..Received::default() });
        }
        rx.receive(Ps::ZERO, 32, &mut Vec::new(), &mut Null);
        let mut record = Record::default();
        assert_eq!(rx.refill(CoreId(0), &mut pool, None, &mut record), 0);
        let refs = references(&record);
        for (i, r) in refs.iter().enumerate().filter(|(_, r)| r.region == POOL) {
            // The address comes from the pool's ring of free mbufs.
            assert_eq!(refs[i - usize::from(r.dep)].region, super::super::POOL_RING, "{i}");
        }
        let touched = refs.iter().filter(|r| r.region == POOL);
        touched.map(|r| (r.offset / MBUF_STRIDE, r.offset % MBUF_STRIDE / 64, r.access == Access::Store)).collect()
    }

    #[test]
    fn a_fresh_mbuf_is_left_alone_read_or_written_as_the_drivers_path_has_it() {
        assert_eq!(refilled(Refill::Computed), []);
        // The ring took mbufs 0 to 63; the pool gives the next.
        assert_eq!(refilled(Refill::Read), (64..96).map(|mbuf| (mbuf, 0, false)).collect::<Vec<_>>());
        let written = (64..96).flat_map(|mbuf| [(mbuf, 0, true), (mbuf, 1, true), (mbuf, 0, false)]);
        assert_eq!(refilled(Refill::Written), written.collect::<Vec<_>>());
    }

    fn with(driver: DriverSpec) -> NicSpec {
        NicSpec { driver, ..nic_of(64) }
    }

    /// Region, offset and whether it is written, of what a burst of `n` packets touches when it is received.
    fn received(driver: DriverSpec, n: usize) -> Vec<(u16, u64, bool)> {
        let mut pool = pool(1000);
        let mut rx = RxQueue::new(&with(driver), 0, MBUF_STRIDE, CoreId(0), &mut pool).unwrap();
        for _ in 0..n {
            let (_, mbuf) = rx.take_descriptor().unwrap();
            rx.complete(Received { mbuf, ..Received::default() });
        }
        let mut record = Record::default();
        rx.receive(Ps::ZERO, n, &mut Vec::new(), &mut record);
        let rings = [RX_RING, RX_COMPLETIONS];
        let refs = references(&record).into_iter().filter(|r| rings.contains(&r.region));
        refs.map(|r| (r.region.0, r.offset, r.access == Access::Store)).collect()
    }

    #[test]
    fn a_completion_is_a_line_of_its_own_or_one_of_eight_in_a_line() {
        let (ring, completions) = (RX_RING.0, RX_COMPLETIONS.0);
        let descriptor = DriverSpec { rx_descriptor: 16, ..DriverSpec::default() };
        assert_eq!(received(descriptor.clone(), 2), [(ring, 0, false), (ring, 16, false)]);
        let completion = DriverSpec { rx_completion: 64, ..descriptor };
        assert_eq!(
            (completion.written(), received(completion.clone(), 2)),
            (64, vec![(completions, 0, false), (completions, 64, false)])
        );
        let compressed = DriverSpec { compressed: true, ..completion };
        assert_eq!(
            (compressed.written(), received(compressed.clone(), 2)),
            (8, vec![(completions, 0, false), (completions, 8, false)])
        );
        // The owner is the last byte of each slot that the session stands for.
        let returned = received(DriverSpec { returns_slots: true, ..compressed }, 2);
        let expected = [(0, false), (63, true), (8, false), (127, true)];
        assert_eq!(returned, expected.map(|(at, written)| (completions, at, written)));
    }

    #[test]
    fn a_driver_that_reclaims_what_is_done_holds_what_is_under_way_and_less_than_a_bulk() {
        let mut pool = pool(200);
        let mut tx = TxQueue::new(&with(DriverSpec { reclaim: Reclaim::Done, ..DriverSpec::default() }), 0);
        let mut mbufs = Vec::new();
        assert!(pool.get_bulk(CoreId(0), 60, &mut mbufs, &mut Null));
        for (i, &mbuf) in mbufs.iter().enumerate() {
            assert!(tx.send(PacketId(i as u64), 60, mbuf, &mut Null));
        }
        (0..40).for_each(|_| read(&mut tx));
        let mut record = Record::default();
        tx.reclaim(Ps(3), CoreId(0), &mut pool, MBUF_STRIDE, &mut Vec::new(), &mut record);
        assert_eq!((tx.held(), references(&record).len()), (60, 0), "none is read yet");
        tx.reclaim(Ps(5), CoreId(0), &mut pool, MBUF_STRIDE, &mut Vec::new(), &mut record);
        assert_eq!((tx.held(), pool.free()), (28, 140 + 32));
    }

    #[test]
    fn what_is_copied_into_the_descriptor_is_read_by_the_core() {
        let read = |copied, bytes| {
            let mut tx =
                TxQueue::new(&with(DriverSpec { tx_copied: copied, tx_descriptor: 64, ..DriverSpec::default() }), 0);
            let mut record = Record::default();
            assert!(tx.send(PacketId(0), bytes, 0, &mut record));
            let data = references(&record).iter().filter(|r| r.region == RegionId::PACKET).map(|r| r.bytes).collect();
            (data, tx.is_copied(bytes), tx.fetch())
        };
        assert_eq!(read(0, 60), (Vec::<u16>::new(), false, 0));
        assert_eq!(read(18, 60), (vec![18], false, 0));
        assert_eq!(read(64, 60), (vec![60], true, 0));
    }

    #[test]
    fn a_fast_free_looks_at_no_mbuf() {
        let looks = |fast_free| {
            let mut pool = pool(200);
            let mut tx = TxQueue::new(&nic(Refill::Computed, fast_free), 0);
            let mut mbufs = Vec::new();
            assert!(pool.get_bulk(CoreId(0), 64, &mut mbufs, &mut Null));
            for (i, &mbuf) in mbufs.iter().enumerate() {
                assert!(tx.send(PacketId(i as u64), 60, mbuf, &mut Null));
                read(&mut tx);
            }
            let mut record = Record::default();
            tx.reclaim(Ps(5), CoreId(0), &mut pool, MBUF_STRIDE, &mut Vec::new(), &mut record);
            assert_eq!((tx.held(), pool.free()), (32, 136 + 32));
            references(&record).iter().filter(|r| r.region == POOL).count()
        };
        assert_eq!((looks(false), looks(true)), (64, 0));
    }
}
