//! The pool of mbufs that all cores share, and the caches of it that each core has.

use std::collections::VecDeque;

use packet::{USUAL_FRAME_BYTES, USUAL_FRAME_LINES};
use probe::{Access, Probe, Ref};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{CoreId, LINE_BYTES, Size};

use super::{MBUF_STRIDE, POOL_CACHE, POOL_RING};
use crate::MachineError;

/// In which order free mbufs come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MempoolKind {
    /// DPDK's default `ring_mp_mc`: the mbuf free for longest, which is the coldest.
    #[default]
    Fifo,
    /// DPDK's `stack`: the mbuf freed last, which is the hottest.
    Lifo,
}

/// Where in its mbuf a packet begins, other than behind the usual headroom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PacketStart {
    /// So many lines later at the most that its first line is in the slice of the LLC that is nearest to the core whose queue it
    /// is in (CacheDirector; Farshin et al., EuroSys 2019, "Make the most out of last level cache in Intel processors"). The driver
    /// sets it as it posts the mbuf, which takes no instruction more than without.
    NearSlice(u32),
    /// So many lines later with each mbuf, through eight places (`rx-data-stagger` of knod's mlx5e).
    Stagger(u32),
}

impl PacketStart {
    /// Places of [`PacketStart::Stagger`].
    pub const PLACES: u32 = 8;

    /// Lines by which a packet begins later, at the most.
    pub fn most(self) -> u32 {
        match self {
            PacketStart::NearSlice(lines) => lines,
            PacketStart::Stagger(lines) => lines.saturating_mul(PacketStart::PLACES - 1),
        }
    }
}

/// A pool of mbufs that all cores share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MempoolSpec {
    /// Mbufs.
    pub size: u32,
    /// Free mbufs that each core keeps for itself; 0 turns the per-core caches off.
    pub cache: u32,
    /// In which order free mbufs come back.
    #[serde(default)]
    pub kind: MempoolKind,
    /// Whether free mbufs start in random order, as after a long time in use, and not by address.
    #[serde(default)]
    pub shuffled: bool,
    /// Bytes from one mbuf to the next, whole lines, 2048 B to 64 KiB: 37 lines, as `rte_mempool` makes them of data rooms of
    /// 2 KiB, when left out; 4096 B where each frame has a page, 2048 B where it has half of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<Size>,
    /// Where in its mbuf a packet begins, so that its first line is near its core, or mbufs begin in different channels and sets:
    /// `{near_slice = 8}`, `{stagger = 1}`. Behind the usual headroom when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<PacketStart>,
}

/// Bytes of an element before its packet, and of the longest frame without options, whole lines.
const MBUF_BEFORE_DATA: u64 = 64 + packet::MBUF_HEADER_BYTES + packet::MBUF_HEADROOM_BYTES;
const LONGEST_FRAME: u64 = USUAL_FRAME_LINES as u64 * LINE_BYTES;

/// Half a page, as Linux' drivers part theirs.
const LEAST_STRIDE: u64 = 2048;

impl MempoolSpec {
    /// Bytes from one mbuf to the next.
    pub fn stride(&self) -> u64 {
        self.element.map_or(MBUF_STRIDE, |size| size.bytes())
    }
}

impl MempoolSpec {
    /// Checks the ranges and that the program can start: each ring of `holders` filled, a burst in hand.
    ///
    /// # Errors
    /// A value outside its range, or a pool too small, with the inequality and its numbers.
    pub fn check(&self, path: &str, holders: &Holders) -> Result<(), MachineError> {
        if self.size > 1 << 24 {
            return Err(MachineError::new(
                format!("{path}.size"),
                self.size.to_string(),
                "at most 16777216 mbufs",
                "2 KiB each".into(),
            ));
        }
        // DPDK: RTE_MEMPOOL_CACHE_MAX_SIZE.
        if self.cache > 512 {
            return Err(MachineError::new(
                format!("{path}.cache"),
                self.cache.to_string(),
                "0 to 512",
                "DPDK's limit".into(),
            ));
        }
        let stride = self.stride();
        if !(LEAST_STRIDE..=1 << 16).contains(&stride) || !stride.is_multiple_of(LINE_BYTES) {
            return Err(MachineError::new(
                format!("{path}.element"),
                self.element.unwrap_or_default().to_string(),
                format!("a multiple of 64 B from {LEAST_STRIDE} B to 64 KiB"),
                "an mbuf has 320 B before its data, and half a page holds frames of up to 1728 B".into(),
            ));
        }
        let room = (stride - MBUF_BEFORE_DATA).saturating_sub(LONGEST_FRAME) / LINE_BYTES;
        if let Some(start) = self.start
            && !(1..=room).contains(&start.most().into())
        {
            let place = match start {
                PacketStart::NearSlice(_) => "near_slice",
                PacketStart::Stagger(_) => "stagger",
            };
            let came = format!("{} lines later at the most", start.most());
            let remedy = format!(
                "a frame of {USUAL_FRAME_BYTES} B has to fit behind it: take fewer lines or a larger mempool.element"
            );
            return Err(MachineError::new(format!("{path}.start.{place}"), came, format!("1 to {room} lines"), remedy));
        }
        let Holders { receiving, rings, rx_descriptors, burst, .. } = holders;
        let least = holders.least();
        if u64::from(self.size) < least {
            let allowed = if rings == receiving {
                format!(
                    "cores x (nic.rx_descriptors + nic.burst) <= {path}.size, here {receiving} x ({rx_descriptors} + {burst}) = {least}"
                )
            } else {
                format!(
                    "nic.rx_descriptors + cores x nic.burst <= {path}.size, here {rx_descriptors} + {receiving} x {burst} = {least}"
                )
            };
            return Err(MachineError::new(
                format!("{path}.size"),
                self.size.to_string(),
                allowed,
                "enlarge the pool or shorten the rings".into(),
            ));
        }
        Ok(())
    }
}

/// What can hold mbufs of a pool at one time. The sum is DPDK's in `l3fwd` (`NB_MBUF`), but for what that leaves out: a cache
/// is emptied only when it has half as much again as its size (`CACHE_FLUSHTHRESH_MULTIPLIER`), and software queues hold
/// mbufs, too. In a pipeline only cores that work send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holders {
    /// All cores of the program.
    pub cores: u32,
    /// Those that receive; all but in a pipeline.
    pub receiving: u32,
    /// Receive rings: one each of these, or one of them all.
    pub rings: u32,
    /// Ports, to each of which each sending core has a transmit queue.
    pub ports: u32,
    /// Descriptors of a receive ring.
    pub rx_descriptors: u32,
    /// Arrivals of a core that hold no descriptor: with rings for them apart.
    pub arrivals: u32,
    /// Descriptors of a transmit queue.
    pub tx_descriptors: u32,
    /// Packets of a burst.
    pub burst: u32,
    /// What a core keeps for itself.
    pub cache: u32,
    /// Entries of a working core's software queue.
    pub queue: u32,
    /// Packets that a GPU has.
    pub offloaded: u32,
}

impl Holders {
    fn working(&self) -> u64 {
        u64::from(self.cores.saturating_sub(self.receiving))
    }

    /// Mbufs in receive rings.
    pub fn received(&self) -> u64 {
        self.posted() + u64::from(self.receiving) * u64::from(self.arrivals)
    }

    fn posted(&self) -> u64 {
        u64::from(self.rings) * u64::from(self.rx_descriptors)
    }

    /// Mbufs in software queues.
    pub fn queued(&self) -> u64 {
        self.working() * u64::from(self.queue)
    }

    /// Mbufs in transmit queues.
    pub fn sent(&self) -> u64 {
        let sending = if self.working() == 0 { self.cores.into() } else { self.working() };
        (sending * u64::from(self.ports)).saturating_mul(self.tx_descriptors.into())
    }

    /// Mbufs of packets that cores work on.
    pub fn in_hand(&self) -> u64 {
        u64::from(self.cores) * u64::from(self.burst)
    }

    /// Mbufs in the cores' caches.
    pub fn cached(&self) -> u64 {
        (u64::from(self.cores) * u64::from(self.cache)).saturating_mul(3) / 2
    }

    /// With so many mbufs no driver ever finds the pool empty.
    pub fn most(&self) -> u64 {
        [self.received(), self.queued(), self.sent(), self.in_hand(), self.cached(), self.offloaded.into()]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// With so many the program can start: each ring filled, a burst in hand.
    pub fn least(&self) -> u64 {
        self.posted() + u64::from(self.receiving) * u64::from(self.burst)
    }

    /// A pool for them: [`Holders::most`], to the next power of two; [`None`] where that is no number.
    pub fn pool(&self) -> Option<u64> {
        self.most().checked_next_power_of_two()
    }
}

/// The pool: which mbufs are free, and where the next one comes from.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Mempool {
    kind: MempoolKind,
    common: VecDeque<u32>,
    size: u32,
    cache_size: usize,
    caches: Vec<Vec<u32>>,
    /// Positions in the shared ring, which decide the lines touched.
    head: u64,
    tail: u64,
}

/// Instructions of taking or giving an mbuf by the per-core cache, and of an operation on the
/// shared ring (assumed; `rte_mempool_do_generic_get` inlined is about as long).
const CACHE_INSTRUCTIONS: u32 = 3;
const RING_INSTRUCTIONS: u32 = 40;
/// A pointer.
const ENTRY_BYTES: u64 = 8;
/// Producer and consumer head and tail of `struct rte_ring`, each on lines of its own.
const CONSUMER: u64 = 128;
const PRODUCER: u64 = 0;
/// The entries follow.
const ENTRIES: u64 = 256;
const SITE_CACHE: u16 = 60_001;
const SITE_RING: u16 = 60_002;

impl Mempool {
    /// Instructions of taking an mbuf and giving it back, where the core's cache has it.
    pub const INSTRUCTIONS: u32 = 2 * CACHE_INSTRUCTIONS;

    /// All mbufs free, in address order.
    pub fn new(spec: &MempoolSpec, cores: u32) -> Mempool {
        Mempool {
            kind: spec.kind,
            common: (0..spec.size).collect(),
            size: spec.size,
            cache_size: spec.cache as usize,
            caches: vec![Vec::with_capacity(spec.cache as usize * 2 + 64); cores as usize],
            head: 0,
            tail: u64::from(spec.size),
        }
    }

    /// Puts the free mbufs in random order; `draw` gives a number below its argument.
    pub fn shuffle(&mut self, mut draw: impl FnMut(usize) -> usize) {
        // Durstenfeld's: each order is equally likely.
        for last in (1..self.common.len()).rev() {
            self.common.swap(last, draw(last + 1));
        }
    }

    /// Free mbufs, in the caches and in common.
    pub fn free(&self) -> u64 {
        (self.common.len() + self.caches.iter().map(Vec::len).sum::<usize>()) as u64
    }

    /// Free mbufs, those that were used last before the others; `posted` are those in receive rings, in that order, too, which
    /// are among them: a FIFO pool's are those that were free for longest, a LIFO pool's were used last.
    pub fn by_use(&self, posted: impl Iterator<Item = u32>) -> Vec<u32> {
        let cached = self.caches.iter().flat_map(|cache| cache.iter().rev().copied());
        let common = self.common.iter().rev().copied();
        match self.kind {
            MempoolKind::Fifo => cached.chain(common).chain(posted).collect(),
            MempoolKind::Lifo => cached.chain(posted).chain(common).collect(),
        }
    }

    /// Whether `n` mbufs are there for `core`: in its cache and in common, not in the caches of others.
    pub fn has(&self, core: CoreId, n: usize) -> bool {
        n <= self.common.len() + self.caches[usize::from(core.0)].len()
    }

    /// Bytes of the shared ring, for the layout.
    pub fn ring_bytes(&self) -> u64 {
        ENTRIES + (u64::from(self.size) + 1).next_power_of_two() * ENTRY_BYTES
    }

    /// Takes up to `n` free mbufs for `core` and appends them to `out`: all of them or none, as
    /// `rte_mempool_get_bulk` does.
    pub fn get_bulk(&mut self, core: CoreId, n: usize, out: &mut Vec<u32>, probe: &mut impl Probe) -> bool {
        let at = usize::from(core.0);
        if self.cache_size == 0 {
            if n > self.common.len() {
                return false;
            }
            self.take_common(n, out, probe);
            return true;
        }
        if self.caches[at].len() < n {
            // Refill so that the cache is full after this request, as rte_mempool does.
            let wanted = n - self.caches[at].len() + self.cache_size;
            let wanted = if wanted <= self.common.len() { wanted } else { n - self.caches[at].len() };
            if wanted > self.common.len() {
                return false;
            }
            let mut cache = std::mem::take(&mut self.caches[at]);
            self.take_common(wanted, &mut cache, probe);
            self.caches[at] = cache;
        }
        let cache = &mut self.caches[at];
        for _ in 0..n {
            let Some(mbuf) = cache.pop() else { return false };
            probe.touch(Ref::load(POOL_CACHE, cache.len() as u64 * ENTRY_BYTES, ENTRY_BYTES as u16, SITE_CACHE));
            out.push(mbuf);
        }
        probe.work(SITE_CACHE, CACHE_INSTRUCTIONS * n as u32);
        true
    }

    /// Takes `n` mbufs, which must be there, out of the shared ring or stack.
    fn take_common(&mut self, n: usize, out: &mut Vec<u32>, probe: &mut impl Probe) {
        self.ring_access(self.head, n, CONSUMER, Access::Load, probe);
        self.head += n as u64;
        for _ in 0..n {
            let mbuf = match self.kind {
                MempoolKind::Fifo => self.common.pop_front(),
                MempoolKind::Lifo => self.common.pop_back(),
            };
            out.extend(mbuf);
        }
    }

    /// Gives `mbufs` back.
    pub fn put_bulk(&mut self, core: CoreId, mbufs: &[u32], probe: &mut impl Probe) {
        let at = usize::from(core.0);
        for &mbuf in mbufs {
            if self.cache_size > 0 {
                let depth = self.caches[at].len() as u64;
                probe.touch(Ref::store(POOL_CACHE, depth * ENTRY_BYTES, ENTRY_BYTES as u16, SITE_CACHE));
            }
            self.caches[at].push(mbuf);
        }
        probe.work(SITE_CACHE, CACHE_INSTRUCTIONS * mbufs.len() as u32);
        // Flushed at one and a half times the size (CACHE_FLUSHTHRESH_MULTIPLIER), down to the size.
        if self.caches[at].len() * 2 > self.cache_size * 3 {
            let surplus = self.caches[at].len() - self.cache_size;
            self.ring_access(self.tail, surplus, PRODUCER, Access::Store, probe);
            self.tail += surplus as u64;
            let cache = &mut self.caches[at];
            self.common.extend(cache.drain(self.cache_size..));
        }
    }

    /// The references of an operation on `n` entries of the shared ring.
    fn ring_access(&self, from: u64, n: usize, end: u64, access: Access, probe: &mut impl Probe) {
        let entry = |i: u64| {
            let at = match self.kind {
                MempoolKind::Fifo => i % (u64::from(self.size) + 1).next_power_of_two(),
                // A stack's top moves down with gets and up with puts.
                MempoolKind::Lifo => (self.common.len() as u64 + i).saturating_sub(from + n as u64),
            };
            ENTRIES + at * ENTRY_BYTES
        };
        probe.touch(Ref::load(POOL_RING, end, 8, SITE_RING).with_access(Access::Atomic));
        for i in from..from + n as u64 {
            probe.touch(Ref::load(POOL_RING, entry(i), ENTRY_BYTES as u16, SITE_RING).with_access(access));
        }
        probe.touch(Ref::store(POOL_RING, end + 4, 4, SITE_RING));
        probe.work(SITE_RING, RING_INSTRUCTIONS + n as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe::{Count, Null};
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn spec(kind: MempoolKind, cache: u32) -> MempoolSpec {
        MempoolSpec { size: 2000, cache, kind, shuffled: false, element: None, start: None }
    }

    #[test]
    fn shuffling_keeps_every_mbuf_once() {
        let mut pool = Mempool::new(&spec(MempoolKind::Fifo, 0), 1);
        let mut state = 1usize;
        pool.shuffle(|n| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % n
        });
        let mut taken = Vec::new();
        assert!(pool.get_bulk(CoreId(0), 2000, &mut taken, &mut probe::Null));
        assert!(taken.windows(2).filter(|w| w[1] == w[0] + 1).count() < 20);
        taken.sort_unstable();
        assert_eq!(taken, (0..2000).collect::<Vec<u32>>());
    }

    proptest! {
        #[test]
        fn mbufs_are_never_lost_or_given_twice(
            lifo in any::<bool>(), cache in 0u32..=300,
            ops in prop::collection::vec((0u16..3, 1usize..70, any::<bool>()), 1..300),
        ) {
            let kind = if lifo { MempoolKind::Lifo } else { MempoolKind::Fifo };
            let mut pool = Mempool::new(&spec(kind, cache), 3);
            let mut held: Vec<u32> = Vec::new();
            for (core, n, get) in ops {
                if get {
                    let before = held.len();
                    if !pool.get_bulk(CoreId(core), n, &mut held, &mut Null) {
                        prop_assert_eq!(held.len(), before);
                    }
                } else {
                    let n = n.min(held.len());
                    let back: Vec<u32> = held.drain(..n).collect();
                    pool.put_bulk(CoreId(core), &back, &mut Null);
                }
                prop_assert_eq!(held.iter().collect::<HashSet<_>>().len(), held.len());
                prop_assert_eq!(pool.free() + held.len() as u64, 2000);
            }
        }
    }

    #[test]
    fn a_fifo_walks_the_whole_pool_and_a_lifo_reuses_the_same_mbufs() {
        for (kind, distinct) in [(MempoolKind::Fifo, 2000), (MempoolKind::Lifo, 32)] {
            let mut pool = Mempool::new(&spec(kind, 0), 1);
            let mut seen: HashSet<u32> = HashSet::new();
            for _ in 0..200 {
                let mut out = Vec::new();
                assert!(pool.get_bulk(CoreId(0), 32, &mut out, &mut Null));
                seen.extend(&out);
                pool.put_bulk(CoreId(0), &out, &mut Null);
            }
            assert_eq!(seen.len(), distinct);
        }
    }

    #[test]
    fn the_per_core_cache_keeps_off_the_shared_ring() {
        let mut pool = Mempool::new(&spec(MempoolKind::Fifo, 256), 1);
        let mut count = Count::default();
        let mut out = Vec::new();
        for _ in 0..1000 {
            out.clear();
            assert!(pool.get_bulk(CoreId(0), 32, &mut out, &mut count));
            pool.put_bulk(CoreId(0), &out, &mut count);
        }
        assert!(count.by_access[Access::Atomic as usize] <= 2);
    }

    const NONE: Holders = Holders {
        cores: 0,
        receiving: 0,
        rings: 0,
        ports: 0,
        rx_descriptors: 0,
        arrivals: 0,
        tx_descriptors: 0,
        burst: 0,
        cache: 0,
        queue: 0,
        offloaded: 0,
    };

    #[test]
    fn whatever_holds_mbufs_is_counted_once() {
        let all = Holders {
            cores: 5,
            receiving: 2,
            rings: 2,
            ports: 4,
            rx_descriptors: 1 << 10,
            arrivals: 0,
            tx_descriptors: 1 << 9,
            burst: 32,
            cache: 256,
            queue: 1 << 11,
            offloaded: 0,
        };
        let pipeline = 2 * 1024 + 3 * 2048 + 3 * 4 * 512 + 5 * 32 + 5 * 384;
        assert_eq!((all.most(), all.pool(), all.least()), (pipeline, Some(32768), 2 * 1056));
        let alone = Holders { receiving: 5, rings: 5, ..all };
        assert_eq!(alone.most(), 5 * (1024 + 4 * 512 + 32 + 384));
        let shared = Holders { rings: 1, ..alone };
        assert_eq!((alone.most() - shared.most(), shared.least()), (4 * 1024, 1024 + 5 * 32));
        let apart = Holders { arrivals: 100, ..alone };
        assert_eq!((apart.most() - alone.most(), apart.least()), (5 * 100, alone.least()));
        let huge = Holders { cores: u32::MAX, tx_descriptors: u32::MAX, ports: u32::MAX, ..all };
        assert_eq!((huge.most(), huge.pool()), (u64::MAX, None));
    }

    #[test]
    fn a_cache_holds_half_as_much_again_as_its_size_and_no_more() {
        let mut pool = Mempool::new(&spec(MempoolKind::Fifo, 200), 1);
        let mut held = Vec::new();
        assert!(pool.get_bulk(CoreId(0), 1500, &mut held, &mut Null));
        let most = held.chunks(25).map(|back| {
            pool.put_bulk(CoreId(0), back, &mut Null);
            pool.caches[0].len() as u64
        });
        assert_eq!(most.max(), Some(Holders { cores: 1, cache: 200, ..NONE }.cached()));
    }

    #[test]
    fn an_element_is_half_a_page_at_least_and_whole_lines() {
        let checked = |bytes| {
            let spec = MempoolSpec { element: Some(Size::from_bytes(bytes)), ..spec(MempoolKind::Fifo, 0) };
            spec.check("mempool", &NONE).map_err(|error| error.to_string())
        };
        assert_eq!([2048, 2368, 4096, 1 << 16].map(|bytes| checked(bytes).is_ok()), [true; 4]);
        for bytes in [1984, 2050, (1 << 16) + 64] {
            let error = checked(bytes).unwrap_err();
            assert!(error.starts_with("mempool.element = ") && error.contains("from 2048 B to 64 KiB"), "{error}");
        }
    }

    #[test]
    fn a_pool_that_cannot_start_is_told_the_inequality() {
        let holders = Holders { cores: 4, receiving: 4, rings: 4, rx_descriptors: 512, burst: 32, ..NONE };
        let error = spec(MempoolKind::Fifo, 0).check("mempool", &holders).unwrap_err().to_string();
        assert_eq!(
            error,
            "mempool.size = 2000: allowed is cores x (nic.rx_descriptors + nic.burst) <= mempool.size, \
             here 4 x (512 + 32) = 2176 (enlarge the pool or shorten the rings)"
        );
    }
}
