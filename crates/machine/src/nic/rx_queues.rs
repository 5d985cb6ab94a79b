//! The receive queues of a core, which it polls in turn.

use probe::Probe;
use units::{CoreId, Ps};

use super::mempool::Mempool;
use super::{NicSpec, Received, RxQueue, SharedRing};

/// Receive queues of a core. What a poll takes is of one queue.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct RxQueues {
    queues: Vec<RxQueue>,
    /// The one that was polled last.
    polled: usize,
}

impl RxQueues {
    /// As many queues as `nic` gives a core, all descriptors posted with mbufs of `pool`, which lie `stride` bytes apart; [`None`]
    /// if the pool has too few.
    pub fn new(nic: &NicSpec, stride: u64, core: CoreId, pool: &mut Mempool) -> Option<RxQueues> {
        let queues: Option<Vec<RxQueue>> =
            (0..nic.queues_per_core).map(|number| RxQueue::new(nic, number, stride, core, pool)).collect();
        Some(RxQueues { queues: queues?, polled: 0 })
    }

    /// One of them.
    pub fn queue(&self, number: usize) -> &RxQueue {
        &self.queues[number]
    }

    /// All of them.
    pub fn queues(&self) -> impl Iterator<Item = &RxQueue> {
        self.queues.iter()
    }

    /// One of them.
    pub fn queue_mut(&mut self, number: usize) -> &mut RxQueue {
        &mut self.queues[number]
    }

    /// The NIC takes a descriptor of a queue: see [`RxQueue::take_descriptor`].
    pub fn take_descriptor(&mut self, queue: usize) -> Option<(u64, u32)> {
        self.queues[queue].take_descriptor()
    }

    /// The NIC takes a descriptor of any queue for another's packet: where it is, and the mbuf. See [`RxQueue::take_posted`].
    pub fn take_any_posted(&mut self) -> Option<(u64, u32)> {
        self.queues.iter_mut().find_map(|rx| {
            let (number, mbuf) = rx.take_posted()?;
            Some((rx.at(number), mbuf))
        })
    }

    /// The NIC has written a packet of the queue that it names.
    pub fn complete(&mut self, received: Received) {
        self.queues[usize::from(received.queue)].complete(received);
    }

    /// When the oldest packet of any queue became visible.
    pub fn oldest(&self) -> Option<Ps> {
        self.queues.iter().filter_map(RxQueue::oldest).min()
    }

    /// Packets in the rings.
    pub fn waiting(&self) -> usize {
        self.queues.iter().map(RxQueue::waiting).sum()
    }

    /// What the packets in the rings have waited by `now`, summed.
    pub fn waited(&self, now: Ps) -> Ps {
        self.queues.iter().map(|queue| queue.waited(now)).sum()
    }

    /// Mbufs in descriptors: see [`RxQueue::held`].
    pub fn held(&self) -> u64 {
        self.queues.iter().map(RxQueue::held).sum()
    }

    /// The driver takes up to `burst` packets of the next queue that has any visible at `now`: see [`RxQueue::receive`]. Polls of
    /// queues without any take no time of their own.
    pub fn receive(&mut self, now: Ps, burst: usize, out: &mut Vec<Received>, probe: &mut impl Probe) {
        let n = self.queues.len();
        let turns = (1..=n).map(|turn| (self.polled + turn) % n);
        let has = |number: &usize| self.queues[*number].oldest().is_some_and(|visible| visible <= now);
        self.polled = turns.clone().find(has).unwrap_or((self.polled + 1) % n);
        self.queues[self.polled].receive(now, burst, out, probe);
    }

    /// The driver posts fresh mbufs to the queue that was polled, and to others that an empty pool has left without: see
    /// [`RxQueue::refill`].
    pub fn refill(
        &mut self,
        core: CoreId,
        pool: &mut Mempool,
        mut shared: Option<&mut SharedRing>,
        probe: &mut impl Probe,
    ) -> usize {
        let lacking = self.queues.iter_mut().filter(|rx| rx.is_starved());
        lacking.map(|rx| rx.refill(core, pool, shared.as_deref_mut(), probe)).sum()
    }

    /// Whether a doorbell has to be rung for what was refilled.
    pub fn rings(&self) -> bool {
        self.queues.iter().any(RxQueue::rings)
    }

    /// What was refilled is the NIC's.
    pub fn doorbell(&mut self, mut shared: Option<&mut SharedRing>) {
        self.queues.iter_mut().for_each(|rx| rx.doorbell(shared.as_deref_mut()));
    }

    /// Whether no packet is there, and none can come, for want of mbufs; `shared` is the ring that they come from, if all share one.
    pub fn is_dry(&self, shared: Option<&SharedRing>) -> bool {
        shared.is_none_or(|ring| ring.posted() == 0)
            && self.queues.iter().all(|rx| rx.posted() == 0 && rx.is_starved() && rx.in_flight() == 0)
    }

    /// Whether a starved queue can be filled again.
    pub fn can_refill(&self, core: CoreId, pool: &Mempool) -> bool {
        self.queues.iter().any(|rx| rx.is_starved() && rx.can_refill(core, pool))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::nic_of;
    use super::super::{DriverSpec, MBUF_STRIDE, MempoolKind, MempoolSpec, RX_RING, RxRings};
    use super::*;
    use probe::{ProbeEvent, Record};

    #[test]
    fn queues_are_polled_in_turn_and_lie_one_behind_the_other() {
        let spec =
            MempoolSpec { size: 1000, cache: 0, kind: MempoolKind::Fifo, shuffled: false, element: None, start: None };
        let mut pool = Mempool::new(&spec, 1);
        let nic = NicSpec { queues_per_core: 3, ..nic_of(64) };
        let mut rx = RxQueues::new(&nic, MBUF_STRIDE, CoreId(0), &mut pool).unwrap();
        assert_eq!((rx.held(), pool.free()), (3 * 64, 1000 - 3 * 64));
        for (queue, visible) in [(0, 30), (2, 20), (2, 40), (1, 900)] {
            let (_, mbuf) = rx.take_descriptor(queue).unwrap();
            rx.complete(Received { mbuf, queue: queue as u16, visible: Ps(visible), ..Received::default() });
        }
        assert_eq!((rx.oldest(), rx.waiting()), (Some(Ps(20)), 4));
        let mut taken = |now: u64, burst| {
            let (mut out, mut record) = (Vec::new(), Record::default());
            rx.receive(Ps(now), burst, &mut out, &mut record);
            let ring = record.iter().filter_map(|event| match event {
                ProbeEvent::Touch(r) if r.region == RX_RING => Some(r.offset / 32),
                _ => None,
            });
            (out.iter().map(|r| r.queue).collect::<Vec<_>>(), ring.collect::<Vec<_>>())
        };
        // Queue 1 has nothing yet; queue 2 is next, and after it queue 0.
        assert_eq!(taken(100, 1), (vec![2], vec![128]));
        assert_eq!(taken(100, 4), (vec![0], vec![0]));
        assert_eq!(taken(100, 4), (vec![2], vec![129]));
        assert_eq!(taken(100, 4), (vec![], vec![]));
        assert_eq!(taken(900, 4), (vec![1], vec![64]));
    }

    #[test]
    fn one_core_fills_all_rings_side_by_side_where_each_by_itself_leaves_what_its_cache_took() {
        let spec =
            MempoolSpec { size: 1000, cache: 64, kind: MempoolKind::Fifo, shuffled: false, element: None, start: None };
        let filled = |filled_by_first| {
            let mut pool = Mempool::new(&spec, 2);
            let driver = DriverSpec { filled_by_first, ..DriverSpec::default() };
            let nic = NicSpec { driver, ..nic_of(128) };
            let rings = [0, 1].map(|core| RxQueues::new(&nic, MBUF_STRIDE, CoreId(core), &mut pool).unwrap());
            assert_eq!(pool.free(), 1000 - 2 * 128);
            rings.map(|ring| ring.queue(0).posted_mbufs().collect::<Vec<u32>>())
        };
        // Each takes 128 + 64, of which it posts the last, that one first.
        assert_eq!(filled(false), [(64..192).collect::<Vec<u32>>(), (256..384).collect()]);
        // A refill brings the one that is wanted and 64 more, of which the last is posted first, too.
        let mut posted: Vec<u32> = (0..4).flat_map(|refill| (refill * 65..(refill + 1) * 65).rev()).collect();
        posted.truncate(256);
        posted[..128].reverse();
        posted[128..].reverse();
        assert_eq!(filled(true), [&posted[..128], &posted[128..]]);
    }

    #[test]
    fn a_ring_is_filled_from_a_pool_that_has_just_as_many() {
        let spec =
            MempoolSpec { size: 160, cache: 64, kind: MempoolKind::Fifo, shuffled: false, element: None, start: None };
        let driver = DriverSpec { filled_by_first: true, ..DriverSpec::default() };
        let nic = |descriptors| NicSpec { driver: driver.clone(), ..nic_of(descriptors) };
        for (descriptors, enough) in [(128, true), (160, true), (192, false)] {
            let rx = RxQueues::new(&nic(descriptors), MBUF_STRIDE, CoreId(0), &mut Mempool::new(&spec, 1));
            assert_eq!(rx.is_some(), enough, "{descriptors}");
        }
    }

    #[test]
    fn cores_post_to_one_ring_under_its_lock_and_read_their_own_arrivals() {
        let spec =
            MempoolSpec { size: 1000, cache: 0, kind: MempoolKind::Fifo, shuffled: false, element: None, start: None };
        let mut pool = Mempool::new(&spec, 2);
        let driver = DriverSpec { rx_completion: 64, ..DriverSpec::default() };
        let nic = NicSpec { rings: RxRings::Shared, driver, ..nic_of(128) };
        let mut shared = SharedRing::new(&nic, &mut pool).unwrap();
        let mut cores = [0, 1].map(|core| RxQueues::new(&nic, MBUF_STRIDE, CoreId(core), &mut pool).unwrap());
        assert_eq!((shared.posted(), pool.free(), cores[0].held()), (128, 1000 - 128, 0));
        // Packets for the second core alone, in whatever order buffers come.
        for _ in 0..40 {
            let (slot, mbuf) = shared.take().unwrap();
            cores[1].queue_mut(0).deliver();
            cores[1].complete(Received { mbuf, slot, ..Received::default() });
        }
        let mut record = Record::default();
        let mut out = Vec::new();
        cores[1].receive(Ps::ZERO, 40, &mut out, &mut record);
        assert_eq!(cores[1].refill(CoreId(1), &mut pool, Some(&mut shared), &mut record), 0);
        let locks: Vec<_> =
            record.iter().filter(|e| matches!(e, ProbeEvent::Lock(_) | ProbeEvent::Unlock(_))).collect();
        assert_eq!((locks.len(), shared.posted(), cores[1].rings()), (2, 88, true));
        cores[1].doorbell(Some(&mut shared));
        // What is less than a bulk waits for more.
        assert_eq!((shared.posted(), cores[0].rings()), (120, false));
        assert!((0..120).filter_map(|_| shared.take()).map(|(_, mbuf)| mbuf).eq(40..160));
    }
}
