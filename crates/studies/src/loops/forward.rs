//! What `dpdk-testpmd` does with packets between virtual devices, on one core.
//!
//! - `null`: each device makes packets by copying one that is always there into an mbuf, and takes packets by copying
//!   them onto it. Two streams: from the first to the second, and back.
//! - `memif`: null → memif ⇄ memif → null. The sender copies a packet into a slot of the shared ring, the receiver from
//!   there into an mbuf of its own. Four streams.
//!
//! Packets are 37 lines apart in the pool (object header, mbuf, headroom, data room, and what DPDK adds to spread
//! objects over channels). Mbufs come and go by the pool of the NIC model (`machine::nic::Mempool`). The null driver
//! frees packet by packet, memif takes and frees by bursts (DPDK 22.11, `drivers/net/null`, `drivers/net/memif`).
//!
//! The memory of memif's rings is shared: the process, or the device, at either end has a mapping of its own.
//!
//! Work besides references is `instructions` a packet and stream, which is calibrated. Left out: mbuf chains, and the
//! time in which rings are refilled by other processes.

use machine::nic::{Mempool, MempoolKind, MempoolSpec};
use probe::{Probe, Ref, RegionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{CoreId, LINE_BYTES};

use super::{COPY_INSTRUCTIONS, LoopMachine, Timed, copy_lines, value};
use sim::scenario::{MachineSpec, ScenarioError};

/// Forwarding by testpmd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TestpmdSpec {
    /// Between which devices.
    pub devices: Devices,
    /// Bytes of a packet, 64 to 1920.
    pub size: u64,
    /// Slots of a memif ring.
    pub descriptors: u64,
    /// Packets that are taken at a time.
    pub burst: u64,
    /// Mbufs.
    pub pool: u32,
    /// Mbufs that the core keeps for itself.
    pub cache: u32,
    /// In which order mbufs come back.
    pub order: MempoolKind,
    /// Instructions a packet and stream, besides copies and the pool.
    pub instructions: u32,
}

impl Default for TestpmdSpec {
    fn default() -> TestpmdSpec {
        TestpmdSpec {
            devices: Devices::Memif,
            size: 1500,
            descriptors: 1024,
            burst: 32,
            pool: 8192,
            cache: 250,
            order: MempoolKind::Fifo,
            // Assumed, until it is calibrated: a receive and a transmit of a software driver.
            instructions: 60,
        }
    }
}

/// Virtual devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Devices {
    /// null ⇄ null.
    Null,
    /// null → memif ⇄ memif → null.
    Memif,
}

impl TestpmdSpec {
    /// Bytes of the pool, or of a ring's slots.
    pub(super) fn largest(&self) -> u64 {
        (u64::from(self.pool) * STRIDE).max(self.descriptors * SLOT)
    }

    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        let within = |path: &str, came: u64, low: u64, high: u64| {
            if (low..=high).contains(&came) {
                return Ok(());
            }
            Err(value(path, format!("{came}: allowed are {low} to {high}")))
        };
        within("size", self.size, 64, 1920)?;
        within("descriptors", self.descriptors, 32, 1 << 14)?;
        within("burst", self.burst, 1, 512)?;
        within("cache", self.cache.into(), 0, 512)?;
        within("instructions", self.instructions.into(), 0, 100_000)?;
        let least = 2 * self.burst + 3 * u64::from(self.cache) / 2 + 32;
        within("pool", self.pool.into(), least, 1 << 22)
    }
}

/// An mbuf and its object header: header, two lines of mbuf, two of headroom, data.
const STRIDE: u64 = 37 * LINE_BYTES;
const HEADER: u64 = LINE_BYTES;
const DATA: u64 = 5 * LINE_BYTES;
const SLOT: u64 = 2048;
const DESCRIPTOR: u64 = 16;
const MBUFS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 2);
const PACKETS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 3);
/// Descriptors of both rings, then slots of both.
const RINGS: [RegionId; 2] = [RegionId(RegionId::FIRST_TABLE.0 + 4), RegionId(RegionId::FIRST_TABLE.0 + 5)];
const SLOTS: [RegionId; 2] = [RegionId(RegionId::FIRST_TABLE.0 + 8), RegionId(RegionId::FIRST_TABLE.0 + 9)];
/// A device's number of the mapping by which it has the rings.
const MAPPINGS: [u8; 2] = [1, 2];
/// Head and tail of a ring, before its descriptors, on lines of their own.
const ENTRIES: u64 = 2 * LINE_BYTES;
const BURST_INSTRUCTIONS: u32 = 60;
const MEASURED: u64 = 20_000;
/// A pool that is much larger than all caches need not come round: it is as cold the first time.
const TIMES_LLC: u64 = 2;

pub(super) fn run(spec: &TestpmdSpec, machine: &MachineSpec, bench: &mut LoopMachine) -> Result<Timed, ScenarioError> {
    let mut forwarder = Forwarder::new(spec);
    let lines = spec.size.div_ceil(LINE_BYTES) + 3;
    let capacity = (machine.llc.size.bytes() + machine.l2.size.bytes()) / LINE_BYTES;
    let enough = TIMES_LLC * capacity / lines;
    let ring = 2 * spec.descriptors;
    let warmup = (2 * u64::from(spec.pool)).max(2 * ring).min(enough.max(2 * ring)).max(2 * spec.burst);
    let mut iterate = |until: u64, bench: &mut LoopMachine| {
        let (mut through, mut dropped) = (0, 0);
        while through + dropped < until {
            let (sent, lost) = forwarder.iteration(bench.core.script());
            bench.replay();
            through += sent;
            dropped += lost;
            // Each iteration takes a burst from both null devices; what is not through is dropped or in a ring.
            if sent + lost == 0 && forwarder.is_stuck() {
                break;
            }
        }
        (through, dropped)
    };
    iterate(warmup, bench);
    let (from, reads) = (bench.now, bench.memory.dram().counters().reads);
    let (through, dropped) = iterate(MEASURED, bench);
    let share = through as f64 / (through + dropped).max(1) as f64;
    Ok(bench.timed(from, reads, through, share))
}

struct Forwarder {
    spec: TestpmdSpec,
    pool: Mempool,
    rings: [RingIndices; 2],
    held: Vec<u32>,
    starved: bool,
}

#[derive(Clone, Copy, Default)]
struct RingIndices {
    head: u64,
    tail: u64,
}

impl Forwarder {
    fn new(spec: &TestpmdSpec) -> Forwarder {
        let pool = MempoolSpec {
            size: spec.pool,
            cache: spec.cache,
            kind: spec.order,
            shuffled: false,
            element: None,
            start: None,
        };
        Forwarder {
            spec: spec.clone(),
            pool: Mempool::new(&pool, 1),
            rings: [RingIndices::default(); 2],
            held: Vec::new(),
            starved: false,
        }
    }

    fn is_stuck(&self) -> bool {
        self.starved
    }

    /// All streams once, in the order of their receiving devices: packets that left by a null device, and those lost.
    fn iteration(&mut self, probe: &mut impl Probe) -> (u64, u64) {
        match self.spec.devices {
            Devices::Null => {
                let mut sent = 0;
                for stream in 0..2 {
                    self.make(stream, probe);
                    sent += self.take(1 - stream, probe);
                }
                (sent, 0)
            }
            Devices::Memif => {
                let (mut sent, mut lost) = (0, 0);
                self.make(0, probe);
                lost += self.send(0, probe);
                self.receive(1, probe);
                sent += self.take(0, probe);
                self.receive(0, probe);
                sent += self.take(1, probe);
                self.make(1, probe);
                lost += self.send(1, probe);
                (sent, lost)
            }
        }
    }

    /// A null device makes a burst.
    fn make(&mut self, device: u64, probe: &mut impl Probe) {
        let n = self.spec.burst as usize;
        self.held.clear();
        self.starved = !self.pool.get_bulk(CoreId(0), n, &mut self.held, probe);
        probe.work(10, BURST_INSTRUCTIONS);
        for &mbuf in &self.held {
            self.fresh(mbuf, probe);
            copy_lines(probe, (PACKETS, device * 4096), (MBUFS, data(mbuf)), self.spec.size, 12, COPY_INSTRUCTIONS);
            probe.work(14, self.spec.instructions);
        }
    }

    /// A null device takes what is held: copied onto its packet, freed one by one.
    fn take(&mut self, device: u64, probe: &mut impl Probe) -> u64 {
        let held = std::mem::take(&mut self.held);
        probe.work(20, BURST_INSTRUCTIONS);
        for &mbuf in &held {
            probe.touch(Ref::load(MBUFS, header(mbuf), 8, 21));
            copy_lines(
                probe,
                (MBUFS, data(mbuf)),
                (PACKETS, 16_384 + device * 4096),
                self.spec.size,
                22,
                COPY_INSTRUCTIONS,
            );
            self.free(&[mbuf], probe);
            probe.work(24, self.spec.instructions);
        }
        let sent = held.len() as u64;
        self.held = held;
        self.held.clear();
        sent
    }

    /// A memif sends what is held into ring `ring`: how many found no slot, which testpmd frees.
    fn send(&mut self, ring: usize, probe: &mut impl Probe) -> u64 {
        let (entries, slots) = rings_of(ring, ring);
        let held = std::mem::take(&mut self.held);
        let RingIndices { head, tail } = self.rings[ring];
        let fits = (self.spec.descriptors - (head - tail)).min(held.len() as u64);
        probe.touch(Ref::load(entries, LINE_BYTES, 8, 30));
        probe.work(30, BURST_INSTRUCTIONS);
        for (i, &mbuf) in (0..fits).zip(&held) {
            let slot = (head + i) % self.spec.descriptors;
            probe.touch(Ref::load(entries, ENTRIES + slot * DESCRIPTOR, 16, 31));
            probe.touch(Ref::load(MBUFS, header(mbuf), 8, 32));
            copy_lines(probe, (MBUFS, data(mbuf)), (slots, slot * SLOT), self.spec.size, 33, COPY_INSTRUCTIONS);
            probe.touch(Ref::store(entries, ENTRIES + slot * DESCRIPTOR, 16, 35));
            probe.work(35, self.spec.instructions);
        }
        probe.touch(Ref::store(entries, 0, 8, 36));
        self.rings[ring].head += fits;
        self.free(&held, probe);
        let lost = held.len() as u64 - fits;
        self.held = held;
        self.held.clear();
        lost
    }

    /// A memif takes up to a burst out of ring `ring`.
    fn receive(&mut self, ring: usize, probe: &mut impl Probe) {
        let (entries, slots) = rings_of(1 - ring, ring);
        let RingIndices { head, tail } = self.rings[ring];
        let n = (head - tail).min(self.spec.burst);
        probe.touch(Ref::load(entries, 0, 8, 40));
        probe.work(40, BURST_INSTRUCTIONS);
        self.held.clear();
        if n == 0 || !self.pool.get_bulk(CoreId(0), n as usize, &mut self.held, probe) {
            return;
        }
        let held = std::mem::take(&mut self.held);
        for (i, &mbuf) in (0..n).zip(&held) {
            let slot = (tail + i) % self.spec.descriptors;
            probe.touch(Ref::load(entries, ENTRIES + slot * DESCRIPTOR, 16, 41));
            self.fresh(mbuf, probe);
            copy_lines(probe, (slots, slot * SLOT), (MBUFS, data(mbuf)), self.spec.size, 42, COPY_INSTRUCTIONS);
            probe.work(44, self.spec.instructions);
        }
        probe.touch(Ref::store(entries, LINE_BYTES, 8, 45));
        self.held = held;
        self.rings[ring].tail += n;
    }

    /// An mbuf that was just taken: both of its lines are written.
    fn fresh(&self, mbuf: u32, probe: &mut impl Probe) {
        probe.touch(Ref::store(MBUFS, header(mbuf), 32, 11));
        probe.touch(Ref::store(MBUFS, header(mbuf) + LINE_BYTES, 16, 11));
    }

    /// Mbufs go back: the pool's pointer and the next segment are on the second line.
    fn free(&mut self, mbufs: &[u32], probe: &mut impl Probe) {
        for &mbuf in mbufs {
            probe.touch(Ref::load(MBUFS, header(mbuf) + LINE_BYTES, 16, 25));
        }
        self.pool.put_bulk(CoreId(0), mbufs, probe);
    }
}

/// Ring `ring`'s descriptors and slots as device `device` has them.
fn rings_of(device: usize, ring: usize) -> (RegionId, RegionId) {
    let mapping = MAPPINGS[device];
    (RINGS[ring].shared(mapping), SLOTS[ring].shared(mapping))
}

fn header(mbuf: u32) -> u64 {
    u64::from(mbuf) * STRIDE + HEADER
}

fn data(mbuf: u32) -> u64 {
    u64::from(mbuf) * STRIDE + DATA
}

#[cfg(test)]
mod tests {
    use super::super::{LoopSpec, SETS, run};
    use super::*;
    use machine::nic::{POOL_CACHE, POOL_RING};
    use probe::Count;
    use sim::{Overrides, Scenario};

    fn rate(spec: TestpmdSpec) -> Timed {
        let set = ["machine.llc.size=1.375 MiB", "machine.llc.slices=1", "machine.l2.size=256 KiB"];
        let set = set.iter().map(|s| s.to_string()).collect();
        let machine = Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).unwrap().machine;
        run(&machine, &LoopSpec::Forward(spec), 1).unwrap()
    }

    #[test]
    fn a_packet_is_copied_twice_between_null_devices_and_four_times_by_memif() {
        for (devices, copies) in [(Devices::Null, 2), (Devices::Memif, 4)] {
            let spec = TestpmdSpec { devices, size: 1500, pool: 2048, ..TestpmdSpec::default() };
            let mut forwarder = Forwarder::new(&spec);
            let mut first = Count::default();
            forwarder.iteration(&mut first);
            let (mut count, mut sent) = (Count::default(), 0);
            for _ in 0..100 {
                sent += forwarder.iteration(&mut count).0;
            }
            assert_eq!(sent, 6400);
            let stores = count.by_access[probe::Access::Store as usize] as f64 / sent as f64;
            let lines = (24 * copies) as f64;
            assert!(stores > lines && stores < lines + 10.0, "{stores} stores a packet, {lines} lines");
        }
    }

    #[test]
    fn no_two_regions_share_an_address() {
        let own = [MBUFS, PACKETS, RINGS[0], RINGS[1], SLOTS[0], SLOTS[1], POOL_RING, POOL_CACHE];
        let mut places: Vec<u64> = own.iter().map(|each| u64::from(each.0) % SETS).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), own.len());
    }

    #[test]
    fn a_cold_pool_costs_and_a_per_core_cache_makes_it_hot_again() {
        let null = TestpmdSpec { devices: Devices::Null, ..TestpmdSpec::default() };
        let hot = rate(TestpmdSpec { pool: 256, cache: 0, ..null.clone() });
        let cold = rate(TestpmdSpec { pool: 16_384, cache: 0, ..null.clone() });
        let cached = rate(TestpmdSpec { pool: 16_384, cache: 32, ..null.clone() });
        let lifo = rate(TestpmdSpec { pool: 16_384, cache: 0, order: MempoolKind::Lifo, ..null });
        assert!(cold.ns > 1.5 * hot.ns, "{} and {}", cold.ns, hot.ns);
        assert!(cold.dram_reads > 20.0 && hot.dram_reads < 1.0, "{} and {}", cold.dram_reads, hot.dram_reads);
        assert!(cached.ns < 1.1 * hot.ns && lifo.ns < 1.1 * hot.ns, "{} and {}", cached.ns, lifo.ns);
    }

    /// Half as many pages as descriptors in each of two rings, each at two mappings: with 512 descriptors 1,024 pages.
    #[test]
    fn rings_on_more_pages_than_the_tlb_holds_cost_walks_of_both_ends() {
        let tlb = "machine.tlb={page=\"2 MiB\",l1_entries=64,l1_ways=4,l2_entries=768,l2_ways=12,l2_latency=\"2 ns\",\
                   walk_cache=16,walk_latency=\"0 ns\",shared_walk_latency=\"100 ns\"}";
        // In order, so that nothing hides a walk.
        let set = vec!["machine.core.model=\"in_order\"".into(), tlb.into()];
        let machine = Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).unwrap().machine;
        let packet = |descriptors| {
            let spec = TestpmdSpec { descriptors, size: 64, pool: 2048, ..TestpmdSpec::default() };
            run(&machine, &LoopSpec::Forward(spec), 1).unwrap().ns
        };
        // A packet has half a page in the mapping of its sender, and half of one in its receiver's.
        let walks = packet(512) - packet(128);
        assert!((99.0..110.0).contains(&walks), "{walks} ns");
    }

    #[test]
    fn a_ring_shorter_than_a_burst_loses_what_does_not_fit() {
        let short = rate(TestpmdSpec { descriptors: 128, burst: 512, ..TestpmdSpec::default() });
        assert!((short.through - 0.25).abs() < 0.02, "{}", short.through);
        assert_eq!(rate(TestpmdSpec { descriptors: 512, burst: 512, ..TestpmdSpec::default() }).through, 1.0);
    }
}
