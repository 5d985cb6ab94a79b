//! Software queues from receiving cores to working ones.

use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PacketId;

use super::SW_QUEUE;
use crate::MachineError;

/// How packets pass from cores that receive to cores that work: cores 0 to `rx_cores` - 1 poll the NIC, read the
/// headers, and hand each packet to the worker that its flow hashes to, through a software queue a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineSpec {
    /// Cores that receive; the rest of `machine.cores` work.
    pub rx_cores: u32,
    /// Entries of each worker's queue, a power of two of which one stays empty, as in DPDK's `rte_ring`.
    #[serde(default = "entries")]
    pub queue: u32,
    /// Lines of each packet that a receiving core reads to choose the worker.
    #[serde(default = "one")]
    pub header_lines: u32,
    /// What decides the worker.
    #[serde(default)]
    pub spread: Spread,
    /// Instructions that a receiving core spends on a packet, driver and queue not counted (assumed).
    #[serde(default = "instructions")]
    pub instructions: u32,
    /// Private misses that a receiving core has under way at a time, 1 to 256: fewer than its hardware could, where one read
    /// waits for another in ways that the program's references do not tell of. Left out: `machine.core.outstanding`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<u32>,
}

/// What decides which worker a packet goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Addresses and ports of the frame, as RSS: of tunnelled packets those of the tunnel.
    #[default]
    Flow,
    /// The user's address: the inner source of a packet in GTP-U, the destination of any other. All that a user
    /// sends and gets is one worker's, so that no two workers share a user's state.
    User,
}

fn entries() -> u32 {
    PipelineSpec::QUEUE
}

fn one() -> u32 {
    1
}

fn instructions() -> u32 {
    60
}

impl PipelineSpec {
    /// Entries of a worker's queue where none are given.
    pub const QUEUE: u32 = 1024;

    /// The memory that the queues of all workers take.
    pub fn region(&self, cores: u32) -> RegionSpec {
        let bytes = u64::from(cores) * queue_bytes(self.queue);
        RegionSpec { id: SW_QUEUE, name: "software queues".into(), bytes, sharing: Sharing::Shared }
    }

    /// Checks the ranges. `path` is where the specification stands in the scenario.
    ///
    /// # Errors
    /// No core left to work, or a value outside its range.
    pub fn check(&self, path: &str, cores: u32) -> Result<(), MachineError> {
        let error = |field: &str, came: u32, allowed: String, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came.to_string(), allowed, remedy.into()))
        };
        if self.rx_cores == 0 || self.rx_cores >= cores {
            let allowed = format!("1 <= rx_cores < machine.cores, here {cores}");
            return error("rx_cores", self.rx_cores, allowed, "leave a core to work, or remove the pipeline");
        }
        if !(64..=1 << 20).contains(&self.queue) || !self.queue.is_power_of_two() {
            return error("queue", self.queue, "a power of two, 64 to 1048576".into(), "rte_ring_create wants that");
        }
        MachineError::check_header_lines(path, self.header_lines, 0)?;
        if self.instructions > 1_000_000 {
            return error("instructions", self.instructions, "0 to 1000000".into(), "give those of one packet");
        }
        if let Some(misses) = self.outstanding.filter(|n| !(1..=256).contains(n)) {
            return error("outstanding", misses, "1 to 256".into(), "leave it out for machine.core.outstanding");
        }
        Ok(())
    }
}

/// Bytes of the memory of a queue with `entries` entries.
const fn queue_bytes(entries: u32) -> u64 {
    ENTRIES + entries as u64 * ENTRY_BYTES
}

/// Producer and consumer head and tail of `struct rte_ring`, each on lines of its own; the entries follow.
const PRODUCER: u64 = 0;
const CONSUMER: u64 = 128;
const ENTRIES: u64 = 256;
const ENTRY_BYTES: u64 = 8;

/// Instructions of an operation on a queue, and of each packet in it (assumed).
const CALL_INSTRUCTIONS: u32 = 30;
const PACKET_INSTRUCTIONS: u32 = 4;
const SITE_CHOOSE: u16 = 50_020;
const SITE_PUT: u16 = 50_030;
const SITE_TAKE: u16 = 50_040;

/// The positions of a worker's software queue, and the references that using it makes: those of an `rte_ring`
/// with one consumer (`lib/ring/rte_ring_elem_pvt.h`). What is queued is the server's.
///
/// All queues lie in [`SW_QUEUE`], one after the other.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct SoftQueue {
    base: u64,
    entries: u64,
    put: u64,
    taken: u64,
}

impl SoftQueue {
    /// The empty queue of worker `index`.
    pub fn new(spec: &PipelineSpec, index: u32) -> SoftQueue {
        let base = u64::from(index) * queue_bytes(spec.queue);
        SoftQueue { base, entries: u64::from(spec.queue), put: 0, taken: 0 }
    }

    /// Packets in the queue.
    pub fn len(&self) -> usize {
        (self.put - self.taken) as usize
    }

    /// Whether no packet is in the queue.
    pub fn is_empty(&self) -> bool {
        self.put == self.taken
    }

    /// Packets that still fit.
    pub fn room(&self) -> usize {
        self.entries as usize - 1 - self.len()
    }

    fn entry(&self, number: u64) -> u64 {
        self.base + ENTRIES + number % self.entries * ENTRY_BYTES
    }

    /// A receiving core puts `n` packets, for which there is room, into the queue.
    pub fn put(&mut self, n: usize, probe: &mut impl Probe) {
        probe.touch(Ref::load(SW_QUEUE, self.base + CONSUMER, 8, SITE_PUT));
        probe.touch(Ref::store(SW_QUEUE, self.base + PRODUCER, 8, SITE_PUT + 1));
        for _ in 0..n {
            probe.touch(Ref::store(SW_QUEUE, self.entry(self.put), ENTRY_BYTES as u16, SITE_PUT + 2));
            self.put += 1;
        }
        probe.touch(Ref::store(SW_QUEUE, self.base + PRODUCER, 8, SITE_PUT + 3));
        probe.work(SITE_PUT, CALL_INSTRUCTIONS + PACKET_INSTRUCTIONS * n as u32);
    }

    /// The worker takes `n` packets, which are there, out of the queue.
    pub fn take(&mut self, n: usize, probe: &mut impl Probe) {
        probe.touch(Ref::load(SW_QUEUE, self.base + PRODUCER, 8, SITE_TAKE));
        for _ in 0..n {
            probe.touch(Ref::load(SW_QUEUE, self.entry(self.taken), ENTRY_BYTES as u16, SITE_TAKE + 1));
            self.taken += 1;
        }
        probe.touch(Ref::store(SW_QUEUE, self.base + CONSUMER, 8, SITE_TAKE + 2));
        probe.work(SITE_TAKE, CALL_INSTRUCTIONS + PACKET_INSTRUCTIONS * n as u32);
    }
}

/// A receiving core reads the headers of `packet`, of `bytes` bytes, to choose its worker.
pub fn choose_worker(spec: &PipelineSpec, packet: PacketId, bytes: u32, probe: &mut impl Probe) {
    probe.begin(packet);
    // Where the data are, and how many, stands in the mbuf.
    probe.touch(Ref::load(RegionId::MBUF, 0, 16, SITE_CHOOSE));
    for line in 0..u64::from(spec.header_lines).min(u64::from(bytes.div_ceil(64))) {
        probe.touch(Ref::load(RegionId::PACKET, line * 64, 8, SITE_CHOOSE + 1).after(line.min(200) as u8 + 1));
    }
    probe.work(SITE_CHOOSE, spec.instructions);
    probe.end(packet);
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe::Count;

    fn spec() -> PipelineSpec {
        PipelineSpec {
            rx_cores: 1,
            queue: 64,
            header_lines: 2,
            spread: Spread::Flow,
            instructions: 60,
            outstanding: None,
        }
    }

    #[test]
    fn a_queue_holds_one_less_than_its_entries_and_goes_round() {
        let mut queue = SoftQueue::new(&spec(), 3);
        let mut count = Count::default();
        for round in 0..10 {
            assert_eq!((queue.room(), queue.is_empty()), (63, true), "round {round}");
            queue.put(63, &mut count);
            assert_eq!((queue.room(), queue.len()), (0, 63));
            queue.take(63, &mut count);
        }
        // Put: the consumer's tail, the producer's head and tail, and an entry a packet.
        assert_eq!(count.refs(), 10 * (3 + 63 + 2 + 63));
        assert_eq!(queue.entry(65), 3 * queue_bytes(64) + 256 + 8);
    }

    #[test]
    fn headers_are_read_as_far_as_the_packet_goes() {
        let mut count = Count::default();
        choose_worker(&spec(), PacketId(1), 60, &mut count);
        choose_worker(&spec(), PacketId(2), 65, &mut count);
        assert_eq!(count.refs(), 2 + 3);
    }

    #[test]
    fn impossible_pipelines_are_refused() {
        let bad = |change: fn(&mut PipelineSpec)| {
            let mut spec = spec();
            change(&mut spec);
            spec.check("pipeline", 4).unwrap_err().to_string()
        };
        assert_eq!(
            bad(|s| s.rx_cores = 4),
            "pipeline.rx_cores = 4: allowed is 1 <= rx_cores < machine.cores, here 4 (leave a core to work, or remove the pipeline)"
        );
        assert!(bad(|s| s.queue = 100).starts_with("pipeline.queue = 100: allowed is a power of two"));
        assert!(bad(|s| s.outstanding = Some(0)).starts_with("pipeline.outstanding = 0: allowed is 1 to 256"));
        assert!(bad(|s| s.header_lines = 25).starts_with("pipeline.header_lines = 25: allowed is 0 to 24"));
    }
}
