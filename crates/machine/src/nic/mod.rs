//! The NIC and its driver: ports, PCIe, receive-side scaling, descriptor rings, mempools.
//!
//! The driver's descriptor, ring, pool and mbuf accesses are real references, pushed through the
//! probe in the order in which DPDK 22.11's i40e and mempool libraries make them
//! (`drivers/net/i40e/i40e_rxtx.c`, `lib/mempool/rte_mempool.h`), but for what is done to a fresh mbuf,
//! which [`NicSpec::refill`] says, and for what a [`DriverSpec`] says of another driver, its instructions among it.

mod doorbell;
mod driver;
mod driver_spec;
mod flow_credits;
mod layout;
mod mempool;
mod pcie;
mod queue;
mod rings;
mod rss;
mod rx_queues;

pub use doorbell::Doorbells;
pub use driver::{Received, Refill, RxQueue, TxQueue};
pub use driver_spec::{DriverSpec, Reclaim, TxCompletions};
pub use flow_credits::{CreditKey, FlowCredits, FlowCreditsSpec};
pub use layout::{MBUF_STRIDE, ServerLayout};
pub use mempool::{Holders, Mempool, MempoolKind, MempoolSpec, PacketStart};
pub use pcie::{Credits, PcieLink, PcieSpec};
pub use queue::{PipelineSpec, SoftQueue, Spread, choose_worker};
pub use rings::{RxRings, SharedRing};
pub use rss::{RSS_KEY, Toeplitz};
pub use rx_queues::RxQueues;

use probe::RegionId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{LINE_BYTES, Ps, Rate, Size, Span};

use crate::MachineError;
use crate::memory::{MOST_CACHED, TargetsSpec};

/// Receive descriptors of the core's queue.
pub const RX_RING: RegionId = RegionId(2);
/// The driver's array of posted mbufs.
pub const RX_SW_RING: RegionId = RegionId(3);
/// Transmit descriptors of the core's queues.
pub const TX_RING: RegionId = RegionId(4);
/// The driver's array of mbufs being sent.
pub const TX_SW_RING: RegionId = RegionId(5);
/// The core's cache of free mbufs.
pub const POOL_CACHE: RegionId = RegionId(6);
/// The ring (or stack) of free mbufs that all cores share.
pub const POOL_RING: RegionId = RegionId(7);
/// All mbufs, by address in the pool: for mbufs of other packets than the current one.
pub const POOL: RegionId = RegionId(8);
/// The software queues between receiving and working cores.
pub const SW_QUEUE: RegionId = RegionId(9);

/// The packets' data, where an allocator places them in place of mbufs.
pub const PACKET_BUFFER: RegionId = RegionId(10);

/// What other programs on the machine work on.
pub const NEIGHBOURS: RegionId = RegionId(11);

/// The memory of the NIC that payload stays in, as cores see it.
pub const NIC_WINDOW: RegionId = RegionId(14);

/// Counters of packet cores that another program reads: lines of each core.
pub const STATISTICS: RegionId = RegionId(13);

/// Completions of the core's receive queue, where the NIC has a ring of its own for them.
pub const RX_COMPLETIONS: RegionId = RegionId(12);

/// Completions of what the core's transmit queues have sent, where the NIC has a ring of its own for them.
pub const TX_COMPLETIONS: RegionId = RegionId(15);

/// A NIC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NicSpec {
    /// The NIC, in place of the machine preset's: a shipped one (`wirespeed presets --kind nic`), or the path of a file of one's own,
    /// which ends in `.toml`. Its link to the host is no faster than the processor's. Rings and bursts stay the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Ports: packets come in by the first and leave by all, next hop n by port n modulo their number.
    pub ports: u16,
    /// Line rate of a port.
    pub rate: Rate,
    /// Receive descriptors of each queue.
    pub rx_descriptors: u32,
    /// Whose buffers received packets go into. Cores share them only where completions lie in rings of their own.
    #[serde(default, skip_serializing_if = "RxRings::is_private")]
    pub rings: RxRings,
    /// With `rings = "bisected"`: arrivals that each queue holds, 32 to 65536; four times its descriptors when left out (assumed).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<u32>,
    /// Where what it has received goes: to the LLC as far as that has I/O ways when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<TargetsSpec>,
    /// Memory of the NIC, in which packets wait that find no descriptor, and are fetched once there is one; they are lost when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic: Option<ElasticSpec>,
    /// Memory of the NIC in which payload stays, so that only headers cross PCIe; payload goes to the host when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_memory: Option<PayloadMemorySpec>,
    /// Cores give up the lines of each packet, without a write-back, before its mbuf is free again: an instruction a line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drop_dead: bool,
    /// Receive queues of each core that receives, which it polls in turn, 1 to 16.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub queues_per_core: u32,
    /// Transmit descriptors of each queue; there is a queue a core and port.
    pub tx_descriptors: u32,
    /// Descriptors that the NIC takes in a ring at the most: 65536 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_descriptors: Option<u32>,
    /// Packets a core takes at most from its ring at once.
    pub burst: u32,
    /// What the driver does to a fresh mbuf when it posts it to a receive descriptor.
    #[serde(default, skip_serializing_if = "Refill::is_computed")]
    pub refill: Refill,
    /// The driver frees sent mbufs without a look at each (`RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE`: all are of one pool and
    /// nobody else holds them). Otherwise it reads the first two lines of each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fast_free: bool,
    /// Its driver.
    #[serde(default, skip_serializing_if = "DriverSpec::is_default")]
    pub driver: DriverSpec,
    /// The NIC takes in, and sends, one packet in so much time: its packet or message rate; left out: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_interval: Option<Span>,
    /// A receive queue takes one packet in so much time, and in what its bytes take on the link beside; left out: as the link
    /// has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_interval: Option<Span>,
    /// From a packet's last bit to its first write on PCIe; nothing when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_pipeline: Option<Span>,
    /// From when a packet is read to its first bit; nothing when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_pipeline: Option<Span>,
    /// What a doorbell takes a core, which is a store that no cache takes; nothing when left out. The driver rings one for each
    /// refill of its receive queue, and one for each port that a burst goes to, at the end of the burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doorbell: Option<Span>,
    /// From one doorbell of a core to its next one at least, since such stores go to a device one by one; none when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doorbell_interval: Option<Span>,
    /// Lines of a packet that the NIC reads of a transmit queue before it reads of the next one that has something to send.
    /// When left out it asks for each packet of a batch in one go, as soon as the descriptors are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_block: Option<u32>,
    /// Lines of SRAM for each receive queue, which what the NIC writes past the LLC fills before it goes to DRAM together,
    /// and for each transmit queue, of which blocks fetch so many at least, be it of several packets; 0 is without.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_cells: u32,
    /// Packet memory in front of PCIe.
    pub fifo: Size,
    /// The host link.
    pub pcie: PcieSpec,
}

/// The NIC's own memory for payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PayloadMemorySpec {
    /// How large it is; what finds no room goes to the host as usual.
    pub size: Size,
    /// Lines of a packet that go to the host, 1 to 24.
    pub header_lines: u32,
    /// What it takes a core to read a line of the rest.
    pub read: Span,
}

impl Default for PayloadMemorySpec {
    /// Assumed: vendors do not publish what a NIC's SRAM has to spare, and a read through PCIe takes about a microsecond.
    fn default() -> PayloadMemorySpec {
        PayloadMemorySpec { size: Size::from_bytes(1 << 20), header_lines: 2, read: Span::from_ns(1000.0) }
    }
}

impl PayloadMemorySpec {
    fn check(&self, path: &str) -> Result<(), MachineError> {
        let error = |field: &str, came: String, allowed: &str, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        MachineError::check_header_lines(path, self.header_lines, 1)?;
        if self.read.ps() > LONGEST {
            return error("read", self.read.to_string(), "at most 1 ms", "PCIe answers within microseconds");
        }
        Ok(())
    }
}

/// The NIC's own memory for packets that wait for descriptors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ElasticSpec {
    /// How large it is.
    pub memory: Size,
    /// From when there is a descriptor for a packet until that comes out of the memory.
    pub fetch: Span,
    /// What the memory takes in and gives out, one behind the other; any rate when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Credits of each flow, without which its packets wait in this memory, descriptors or not; when left out they wait for
    /// descriptors alone, queue by queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credits: Option<FlowCreditsSpec>,
}

impl Default for ElasticSpec {
    /// BlueField-3 has 16 GiB of DDR5 (its product brief). The time is assumed: a read of the NIC's own DRAM behind its switch.
    fn default() -> ElasticSpec {
        ElasticSpec { memory: Size::from_bytes(1 << 34), fetch: Span::from_ns(1500.0), rate: None, credits: None }
    }
}

impl ElasticSpec {
    fn check(&self, path: &str) -> Result<(), MachineError> {
        let error = |field: &str, came: String, allowed: &str, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        if self.fetch.ps() > LONGEST {
            let remedy = "memory beside a NIC answers within microseconds";
            return error("fetch", self.fetch.to_string(), "at most 1 ms", remedy);
        }
        if let Some(rate) = self.rate.filter(|rate| !(1.0..=100_000.0).contains(&rate.gbps())) {
            let remedy = "two channels of DDR5-5200 have 666 Gbps; leave it out for any rate";
            return error("rate", rate.to_string(), "1 Gbps to 100 Tbps", remedy);
        }
        self.credits.as_ref().map_or(Ok(()), |credits| credits.check(&format!("{path}.credits")))
    }
}

/// Of a ring, whatever the NIC.
const MOST_DESCRIPTORS: u32 = 1 << 16;

/// Of a doorbell, and of what a NIC takes for a packet.
const LONGEST: Ps = Ps::from_ns(1_000_000);

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn one() -> u32 {
    1
}

fn is_one(n: &u32) -> bool {
    *n == 1
}

impl NicSpec {
    /// Doorbells a packet, in whole bursts to one port.
    pub fn doorbells(&self) -> f64 {
        let burst = f64::from(self.burst.max(1));
        // No more than one a burst is for posted mbufs, however few a time.
        let posted = if self.driver.rx_doorbell { 1.0 / burst.max(self.driver.rx_bulk.into()) } else { 0.0 };
        1.0 / burst + posted
    }

    /// Bytes of the link that a packet of `received` bytes takes to the host and from it where `sent` are sent of it, in whole bursts
    /// to one port, which fill lines of descriptors, with so many doorbells a packet: what [`PcieLink`] carries in the mean.
    pub fn link_bytes(&self, received: u64, sent: u64, doorbells: f64) -> [f64; 2] {
        let (driver, overhead, line) = (&self.driver, f64::from(self.pcie.overhead), LINE_BYTES as f64);
        let data =
            |bytes| PcieLink::with_headers(bytes, self.pcie.max_payload.into(), self.pcie.overhead.into()) as f64;
        let told = driver.written() as f64;
        // Headers of completions, of lines of descriptors each way, and of requests for what is sent.
        let completions = if driver.begins_write(1) { 1.0 } else { told / line };
        let (posted, to_send) = (f64::from(driver.rx_descriptor) / line, f64::from(driver.tx_descriptor) / line);
        let is_read = sent > u64::from(driver.tx_copied);
        let requests = if is_read { sent.div_ceil(self.pcie.max_read()) } else { 0 };
        let together = if driver.tx_completion_every > 0 { driver.tx_completion_every } else { self.burst.max(1) };
        let of_sent = data(driver.tx_completion.into()) / f64::from(together);
        let to_host = data(received) + told + of_sent + overhead * (completions + posted + to_send + requests as f64);
        let read = if is_read { data(sent) } else { 0.0 };
        let rung = (PcieLink::DOORBELL_BYTES as f64 + overhead) * doorbells;
        [to_host, read + (line + overhead) * (posted + to_send) + rung]
    }

    /// Arrivals that a receive queue holds.
    pub fn deliveries(&self) -> u32 {
        match self.rings {
            RxRings::Bisected => self.deliveries.unwrap_or(self.rx_descriptors.saturating_mul(4).min(1 << 16)),
            RxRings::Private | RxRings::Shared => self.rx_descriptors,
        }
    }

    fn check_rings(&self, path: &str) -> Result<(), MachineError> {
        let error = |field: &str, came: &str, allowed: &str, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came.to_string(), allowed.to_string(), remedy.into()))
        };
        if !self.rings.is_private() && self.driver.rx_completion == 0 {
            let came = if self.rings == RxRings::Shared { "shared" } else { "bisected" };
            let allowed =
                "private where the NIC tells of a packet in its descriptor, which lies in another core's ring";
            return error("rings", came, allowed, "take a driver with completions, such as nic.driver = \"mlx5\"");
        }
        match self.deliveries {
            Some(_) if self.rings != RxRings::Bisected => {
                error("deliveries", "given", "with rings = \"bisected\"", "leave it out")
            }
            Some(n) if !(self.burst.max(32)..=1 << 16).contains(&n) => {
                let allowed = format!("{} to 65536", self.burst.max(32));
                error("deliveries", &n.to_string(), &allowed, "it holds at least a burst")
            }
            _ => Ok(()),
        }
    }

    fn check_descriptors(&self, path: &str) -> Result<(), MachineError> {
        let most = self.most_descriptors.unwrap_or(MOST_DESCRIPTORS);
        for (field, value, bulk) in [
            ("rx_descriptors", self.rx_descriptors, self.driver.rx_bulk),
            ("tx_descriptors", self.tx_descriptors, self.driver.least_tx_descriptors()),
        ] {
            let least = self.burst.max(32).max(bulk);
            let remedy = if value > most && self.most_descriptors.is_some() {
                "the NIC takes no longer rings: take fewer, or more queues (nic.queues_per_core)"
            } else {
                "a ring holds at least a burst, what the driver refills and frees at a time, and what the NIC tells of at once"
            };
            if !(least..=most).contains(&value) {
                let (path, allowed) = (format!("{path}.{field}"), format!("{least} to {most}"));
                return Err(MachineError::new(path, value.to_string(), allowed, remedy.into()));
            }
        }
        Ok(())
    }

    /// Checks the ranges. `path` is where the specification stands in the scenario.
    ///
    /// # Errors
    /// A value outside its range, a ring smaller than a burst, or one that the NIC does not take.
    pub fn check(&self, path: &str) -> Result<(), MachineError> {
        let error = |field: &str, came: String, allowed: &str, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        if !(1..=64).contains(&self.ports) {
            return error("ports", self.ports.to_string(), "1 to 64", "give the server's port count");
        }
        if !(0.001..=10_000.0).contains(&self.rate.gbps()) {
            return error("rate", self.rate.to_string(), "1 Mbps to 10 Tbps", "give the line rate of a port");
        }
        if !(1..=16).contains(&self.queues_per_core) {
            let remedy = "a queue more than a core keeps busy brings nothing";
            return error("queues_per_core", self.queues_per_core.to_string(), "1 to 16", remedy);
        }
        if !(1..=1024).contains(&self.burst) {
            return error("burst", self.burst.to_string(), "1 to 1024", "DPDK applications take 32");
        }
        self.driver.check(&format!("{path}.driver"), self.refill)?;
        if let Some(most) = self.most_descriptors.filter(|most| !(32..=MOST_DESCRIPTORS).contains(most)) {
            let (allowed, remedy) = (format!("32 to {MOST_DESCRIPTORS}"), "give what the NIC's driver allows");
            return error("most_descriptors", most.to_string(), &allowed, remedy);
        }
        self.check_descriptors(path)?;
        self.check_rings(path)?;
        if let Some(targets) = &self.targets {
            targets.check(&format!("{path}.targets"))?;
        }
        if let Some(memory) = &self.payload_memory {
            memory.check(&format!("{path}.payload_memory"))?;
        }
        if let Some(elastic) = &self.elastic {
            elastic.check(&format!("{path}.elastic"))?;
        }
        let remedy = "a store over PCIe takes less than a microsecond, and so does a NIC";
        for (field, time) in [
            ("doorbell", self.doorbell),
            ("doorbell_interval", self.doorbell_interval),
            ("packet_interval", self.packet_interval),
            ("queue_interval", self.queue_interval),
            ("rx_pipeline", self.rx_pipeline),
            ("tx_pipeline", self.tx_pipeline),
        ] {
            if let Some(time) = time.filter(|time| time.ps() > LONGEST) {
                return error(field, time.to_string(), "at most 1 ms", remedy);
            }
        }
        if let Some(block) = self.output_block
            && !(1..=1024).contains(&block)
        {
            let remedy = "1 has queues take turns line by line, 1024 packet by packet; leave it out for no turns";
            return error("output_block", block.to_string(), "1 to 1024 lines", remedy);
        }
        if self.cache_cells > MOST_CACHED {
            let remedy = "the paper that proposes it has 4";
            return error("cache_cells", self.cache_cells.to_string(), &format!("0 to {MOST_CACHED} lines"), remedy);
        }
        if self.fifo.bytes() < 2048 {
            return error("fifo", self.fifo.to_string(), "at least 2048 B", "it must hold the longest frame");
        }
        self.pcie.check(&format!("{path}.pcie"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A NIC of one port with rings of so many descriptors.
    pub(crate) fn nic_of(descriptors: u32) -> NicSpec {
        let pcie = PcieSpec {
            rate: Rate::from_gbps(100.0),
            max_payload: 256,
            overhead: 24,
            latency: Span::from_ns(250.0),
            credits: None,
            max_read: None,
        };
        NicSpec {
            model: None,
            ports: 1,
            rate: Rate::from_gbps(100.0),
            rx_descriptors: descriptors,
            rings: RxRings::Private,
            deliveries: None,
            targets: None,
            payload_memory: None,
            drop_dead: false,
            elastic: None,
            queues_per_core: 1,
            tx_descriptors: descriptors,
            most_descriptors: None,
            burst: 32,
            refill: Refill::Computed,
            fast_free: false,
            driver: DriverSpec::default(),
            packet_interval: None,
            queue_interval: None,
            rx_pipeline: None,
            tx_pipeline: None,
            doorbell: None,
            doorbell_interval: None,
            output_block: None,
            cache_cells: 0,
            fifo: Size::from_bytes(1 << 19),
            pcie,
        }
    }

    #[test]
    fn a_ring_that_the_nic_does_not_take_is_refused_with_what_it_takes() {
        let of = |descriptors, most_descriptors| NicSpec { most_descriptors, ..nic_of(descriptors) }.check("nic");
        assert_eq!((of(4096, Some(4096)), of(65536, None)), (Ok(()), Ok(())));
        assert_eq!(
            of(8192, Some(4096)).unwrap_err().to_string(),
            "nic.rx_descriptors = 8192: allowed is 32 to 4096 \
             (the NIC takes no longer rings: take fewer, or more queues (nic.queues_per_core))"
        );
        assert!(
            of(16, Some(4096))
                .unwrap_err()
                .to_string()
                .ends_with("(a ring holds at least a burst, what the driver refills and frees at a time, and what the NIC tells of at once)")
        );
        assert!(
            of(64, Some(16)).unwrap_err().to_string().starts_with("nic.most_descriptors = 16: allowed is 32 to 65536")
        );
    }
}
