//! The parts of a scenario, with everything filled in.

use std::collections::BTreeMap;
use std::path::PathBuf;

use machine::buffer::BufferSpec;
use machine::cache::{CacheSpec, PrefetcherSpec};
use machine::cores::CoreSpec;
use machine::dram::DramSpec;
use machine::memory::{
    ApplicationSpec, CopyEngineSpec, CopyTableSpec, Hierarchy, IommuSpec, LlcSpec, MemorySpec, SocketsSpec,
    StackedTablesSpec, TlbSpec,
};
use machine::nic::{Holders, Mempool, MempoolSpec, NicSpec, PipelineSpec, RxRings, ServerLayout};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traffic::{ArrivalSpec, CaptureDestinations, FlowSpec, MixSpec, PayloadSpec, PhaseSpec, SizeSpec, SourceSpec};
use units::{Addr, PacketRate, Ps, Rate};

use super::clos::ClosSpec;
use super::error::ScenarioError;
use super::functions::{FunctionKind, FunctionSpec};
use super::gpus::ServerGpuSpec;
use super::neighbours::NeighbourSpec;
use super::policy::PolicySpec;

/// Simulated time of a run, at most: far below what 64 bits of picoseconds hold.
const LONGEST_RUN_S: f64 = 1e6;

/// A scenario with everything filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// A title for people.
    #[serde(default)]
    pub name: String,
    /// What arrives and when.
    #[serde(default)]
    pub traffic: TrafficSpec,
    /// What is done to each packet.
    #[serde(default)]
    pub function: FunctionSpec,
    /// Cores, caches and DRAM.
    pub machine: MachineSpec,
    /// Ports, rings and PCIe.
    pub nic: NicSpec,
    /// Packet buffers.
    pub mempool: MempoolSpec,
    /// Where the NIC places packets, in a buffer of its own; in their mbufs when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<BufferSpec>,
    /// How packets pass from receiving to working cores; every core does both when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineSpec>,
    /// Who sets the ways of the LLC while packets go through; nobody when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySpec>,
    /// Other programs on cores of their own: a control plane, tenants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<NeighbourSpec>,
    /// How long and how often.
    #[serde(default)]
    pub run: RunSpec,
    /// What the command line took out of the scenario's own file, in words.
    #[serde(skip)]
    pub(crate) replaced: Vec<String>,
}

impl Scenario {
    /// Cores that poll a queue of the NIC.
    pub fn receiving_cores(&self) -> u32 {
        self.pipeline.as_ref().map_or(self.machine.cores, |p| p.rx_cores)
    }

    /// Each of them.
    pub(crate) fn receiving_core(&self) -> CoreSpec {
        let own = self.pipeline.as_ref().and_then(|p| p.outstanding);
        let core = &self.machine.core;
        CoreSpec { outstanding: own.unwrap_or(core.outstanding), ..core.clone() }
    }

    /// Takes out the names of parts, since all that they say is in the scenario, and times that are nothing, which are the same left
    /// out.
    pub(crate) fn forget_parts(&mut self) {
        let (core, nic) = (&mut self.machine.core, &mut self.nic);
        self.machine.processor = None;
        (nic.model, nic.driver.preset, self.function.program.preset) = (None, None, None);
        if let Some(gpu) = &mut self.machine.gpu {
            gpu.preset = None;
        }
        for time in [&mut core.packet_stall, &mut core.burst_stall, &mut nic.doorbell, &mut nic.doorbell_interval] {
            *time = time.filter(|time| time.ps() > Ps::ZERO);
        }
    }

    /// How often each instruction is taken, in parts of [`probe::Script::WHOLE`], where the scenario says how many a packet takes in
    /// all: so often that those of a full burst come to it.
    pub(crate) fn instruction_parts(&self) -> Option<u64> {
        let program = Some(&self.function.program).filter(|_| self.function.kind == FunctionKind::Program)?;
        let burst = self.nic.burst;
        let counted = program.counted(burst) + self.nic.driver.instructions(burst) + f64::from(Mempool::INSTRUCTIONS);
        Some((program.instructions? / counted.max(1.0) * probe::Script::WHOLE as f64).round() as u64)
    }

    /// That the pool has too few mbufs to fill all rings, since cores keep some for themselves.
    pub(crate) fn pool_too_small(&self) -> ScenarioError {
        let (size, most) = (self.mempool.size, self.holders().most());
        let message = format!(
            "{size}: some mbufs stay in the caches of cores, so that not all rings are filled: allowed are {most} or more, with which none is \
             ever without (set that, shorter rings, or mempool.cache=0)"
        );
        ScenarioError::Value { origin: "scenario".into(), path: "mempool.size".into(), message }
    }

    /// What can hold mbufs.
    pub fn holders(&self) -> Holders {
        let (receiving, rings) = (self.receiving_cores(), self.nic.rings);
        let queues = if rings == RxRings::Shared { 1 } else { self.nic.queues_per_core };
        let arrivals = if rings == RxRings::Bisected { self.nic.deliveries().saturating_mul(queues) } else { 0 };
        Holders {
            cores: self.machine.cores,
            receiving,
            rings: rings.count(receiving),
            ports: self.nic.ports.into(),
            rx_descriptors: self.nic.rx_descriptors.saturating_mul(queues),
            arrivals,
            tx_descriptors: self.nic.tx_descriptors,
            burst: self.nic.burst,
            cache: self.mempool.cache,
            queue: self.pipeline.as_ref().map_or(0, |p| p.queue),
            offloaded: self.machine.gpu.as_ref().map_or(0, ServerGpuSpec::most_packets),
        }
    }

    /// As TOML, with everything filled in.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_else(|e| format!("# not representable: {e}\n"))
    }

    /// The JSON Schema of a scenario file: nothing is required, since presets fill in.
    pub fn schema() -> String {
        let mut schema = serde_json::to_value(schemars::schema_for!(Scenario)).unwrap_or_default();
        relax(&mut schema);
        if let Some(object) = schema.as_object_mut() {
            object.insert("title".into(), "wirespeed scenario".into());
        }
        serde_json::to_string_pretty(&schema).unwrap_or_default()
    }
}

/// Drops `required` where a machine preset fills in: in the specifications of the machine.
fn relax(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(map) => {
            map.remove("required");
            map.values_mut().for_each(relax);
        }
        serde_json::Value::Array(list) => list.iter_mut().for_each(relax),
        _ => {}
    }
}

/// What arrives and when. At most one of `load`, `rate`, `packet_rate` and `speed`; without any,
/// `load` is 0.5.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrafficSpec {
    /// Offered load as a share of the port's line rate, above 0 up to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Offered bit rate on the wire (L1, with preamble and gap).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Offered packet rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_rate: Option<PacketRate>,
    /// The capture's own timestamps, this many times as fast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// A shipped profile (isp, imix, min64) or the path of a profile file; isp by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The path of a capture to replay, in place of a profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<PathBuf>,
    /// When packets arrive, in place of the profile's or the capture's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<ArrivalSpec>,
    /// How long frames are, in place of the profile's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<SizeSpec>,
    /// Protocols, in place of the profile's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix: Option<MixSpec>,
    /// Flows and destinations, in place of the profile's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<FlowSpec>,
    /// How often a capture is replayed; as often as packets are wanted by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Whose addresses a capture's packets go to: `routed` replaces those that the routing table has no route to.
    #[serde(skip_serializing_if = "CaptureDestinations::are_captured")]
    pub destinations: CaptureDestinations,
    /// What made packets carry, for functions that look at it; nothing but headers when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadSpec>,
    /// Times of other rates and sizes that follow each other, and begin again after the last; the load is their mean.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseSpec>,
}

impl TrafficSpec {
    /// The traffic without its rate.
    pub fn source(&self) -> SourceSpec {
        SourceSpec {
            profile: self.profile.clone(),
            capture: self.capture.clone(),
            arrivals: self.arrivals.clone(),
            sizes: self.sizes.clone(),
            mix: self.mix,
            flows: self.flows.clone(),
            rounds: self.rounds,
            destinations: self.destinations,
            payload: self.payload,
            phases: self.phases.clone(),
        }
    }

    /// The rate.
    pub fn offered(&self, line: Rate) -> traffic::Load {
        if let Some(rate) = self.rate {
            traffic::Load::L1(rate)
        } else if let Some(rate) = self.packet_rate {
            traffic::Load::Packets(rate)
        } else if let Some(speed) = self.speed {
            traffic::Load::Timestamps(speed)
        } else {
            traffic::Load::LineShare { share: self.load.unwrap_or(0.5), line }
        }
    }
}

/// Cores, caches and DRAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// The machine that fills in what is left out, here and in `nic` and `mempool`: a shipped one, or the path of a
    /// file of one's own, which ends in `.toml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The processor, with its usual DIMMs, in place of the preset's: a shipped one (`wirespeed presets --kind processor`), an
    /// architecture that the scenario fills in, or the path of a file of one's own, which ends in `.toml`. What the preset says
    /// itself, such as `cores`, stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// A title for people.
    #[serde(default)]
    pub name: String,
    /// Cores that forward packets, each with a receive queue of its own unless there is a `pipeline`.
    pub cores: u32,
    /// Each core.
    pub core: CoreSpec,
    /// First-level data cache of each core. Its latency may be in cycles of the core (`"4 cycles"`).
    pub l1: CacheSpec,
    /// Second-level cache of each core. Its latency may be in cycles of the core (`"14 cycles"`).
    pub l2: CacheSpec,
    /// Address translation of each core; free when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tlb: Option<TlbSpec>,
    /// Translation of devices' addresses: an IO-TLB and walks. They need none when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iommu: Option<IommuSpec>,
    /// What each core's L2 asks for before it is wanted; nothing when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetcher: Option<PrefetcherSpec>,
    /// What it asks for where cores stream through memory (`wirespeed memory curve`) and no `prefetcher` is given. A packet's lines are few
    /// and far between: there it changes rates by 1 % and takes up to half again as long to simulate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_prefetcher: Option<PrefetcherSpec>,
    /// The shared last-level cache.
    pub llc: LlcSpec,
    /// DRAM.
    pub dram: DramSpec,
    /// A copy table beside the LLC, which makes copies of whole lines by pointers; copies are loads and stores when
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_table: Option<CopyTableSpec>,
    /// Who else makes copies: non-temporal stores, a DMA engine, an engine in the memory controller; not with a copy
    /// table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_engine: Option<CopyEngineSpec>,
    /// Whose lines the LLC tells apart, for slices or ways of their own, skipping, bypass: by name `tables` (all memory of
    /// the packet function), one of its regions, `neighbours`, or one of these; nobody's when left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub applications: BTreeMap<String, ApplicationSpec>,
    /// Tables in a stacked DRAM of their own, a copy a channel; in `dram` with all else when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacked: Option<StackedTablesSpec>,
    /// Classes of service of the LLC by number, 0 to 15: which ways each may fill, and which cores and neighbours are in it.
    /// Packet cores that none names are in class 1, or in class 2 where they work on what others have received; neighbours
    /// are in class 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clos: BTreeMap<String, ClosSpec>,
    /// Several sockets: which cores, the NIC and memory are on, and the links between them. One when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets: Option<SocketsSpec>,
    /// A GPU that packets go to, in batches: a shipped one's name, or a table; none when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<ServerGpuSpec>,
}

impl MachineSpec {
    /// The memory system with DRAM that answers at once, for whoever does not wait for controllers.
    pub fn memory_at_once(&self) -> MemorySpec {
        let mut memory = self.memory();
        memory.dram.controller = None;
        memory
    }

    /// The memory system as cores see it that stream through it.
    pub fn memory_of_streams(&self) -> MemorySpec {
        MemorySpec { prefetcher: self.prefetcher.or(self.stream_prefetcher), ..self.memory() }
    }

    /// The bytes of a page of the region `name` of `group`.
    pub(crate) fn page_of(&self, group: &str, name: &str) -> u64 {
        self.tlb.as_ref().map_or(4096, |tlb| tlb.alignment(group, name))
    }

    /// What the packet buffer begins with a multiple of: a page, and a pair of halves where a controller's map has some.
    pub(crate) fn buffer_alignment(&self, group: &str, name: &str) -> u64 {
        let page = self.page_of(group, name);
        let halves = self.dram.controller.as_ref().and_then(|controller| controller.halves);
        halves.map_or(page, |halves| {
            let pair = 2 * halves.bytes().max(1);
            let (mut divisor, mut left) = (page, pair);
            while left > 0 {
                (divisor, left) = (left, divisor % left);
            }
            page / divisor * pair
        })
    }

    /// Puts `memory` where the machine says: page tables, pages of regions, sockets.
    ///
    /// # Errors
    /// Regions that there are not, what excludes sockets.
    pub(crate) fn place(&self, memory: &mut Hierarchy, layout: &ServerLayout) -> Result<(), machine::MachineError> {
        memory.tables_at(Addr(layout.bytes()));
        if let Some(tlb) = &self.tlb {
            memory.map_pages(tlb, layout.extents(), "machine")?;
        }
        if let Some(sockets) = &self.sockets {
            memory.on_sockets(sockets, &self.memory(), layout.extents(), "machine")?;
        }
        if let Some(iommu) = &self.iommu {
            memory.translate_devices(iommu, Addr(layout.bytes()), "machine.iommu")?;
        }
        Ok(())
    }

    /// The channels of all sockets.
    pub(crate) fn dram_channels(&self) -> u32 {
        self.dram.channels * self.sockets.as_ref().map_or(1, |sockets| sockets.count)
    }

    /// The memory system.
    pub fn memory(&self) -> MemorySpec {
        MemorySpec {
            l1: self.l1.clone(),
            l2: self.l2.clone(),
            tlb: self.tlb.clone(),
            prefetcher: self.prefetcher,
            waiting_prefetches: self.core.waiting_prefetches.unwrap_or(0),
            llc: self.llc.clone(),
            dram: self.dram.clone(),
            copy_table: self.copy_table.clone(),
            copy_engine: self.copy_engine.clone(),
        }
    }
}

/// How long and how often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunSpec {
    /// Packets offered after warm-up.
    pub packets: u64,
    /// Packets offered before measurement begins. Left out: as many as it takes, without time, for caches, accesses
    /// to DRAM and packet buffers to settle, at most 8 times `packets`, rising to 32 times from 80,000 on; and then, in detail, a tenth of `packets` or
    /// as many as it takes for the sojourn to settle, at most `packets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u64>,
    /// Times windows of the run alone. Left out: all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingSpec>,
    /// Writes down the lives of some packets of the run, one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<LifeSpec>,
    /// Every random draw follows from it.
    pub seed: u64,
    /// Loads, as shares of the line rate, at which the curve of carried over offered rate is measured
    /// too, with `curve_packets` packets each.
    pub curve: Vec<f64>,
    /// Packets of each point of the curve.
    pub curve_packets: u64,
    /// Searches for the highest rate without loss (ndr) or with a loss of at most `loss_limit`
    /// (pdr), as RFC 2544 section 26.1, instead of running at the given rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<RateSearch>,
    /// Packets of each trial of a search. Left out: as many as it takes for an overload by
    /// `search_resolution` to fill all receive rings and the NIC's packet memory, and at least 200000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_packets: Option<u64>,
    /// The search ends when its interval is narrower than this share of the line rate.
    pub search_resolution: f64,
    /// Loss that `pdr` accepts.
    pub loss_limit: f64,
}

/// Windows that are timed, at equal distances from a random start. Between them packets go through the machine without
/// time, which keeps caches, rings and tables as they would be; or they are left out, and the machine stays as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SamplingSpec {
    /// How many.
    pub windows: u32,
    /// Packets of each.
    pub packets: u64,
    /// Packets in detail before each, which are not measured.
    pub warmup: u64,
    /// Packets without time before those, at most: what comes before them is left out. By default as many as receive rings hold
    /// where any packet is as likely as any other at any time, and else all (captures, phases, bursts, MMPP, a policy).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untimed: Option<u64>,
    /// Most half-width of the mean sojourn, as a share of it: where windows differ by more, all of the run is timed.
    pub error: f64,
}

/// Whose lives are written down: where each packet is at any time, and what its bursts fetch from beyond the private caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LifeSpec {
    /// So many of the slowest packets.
    pub slowest: u32,
    /// Of so many losses, the first of the run: the packet, and up to 64 that its core's rings and NIC held then.
    pub losses: u32,
    /// Each packet whose number this divides. Left out: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
}

impl LifeSpec {
    /// The most packets that are written down for each reason.
    pub const MOST: u32 = 10_000;
    /// The most losses, of which each keeps up to 65 packets.
    pub const MOST_LOSSES: u32 = 150;
}

impl Default for LifeSpec {
    fn default() -> Self {
        LifeSpec { slowest: 20, losses: 2, every: None }
    }
}

impl SamplingSpec {
    /// The fewest windows that half-widths are told from.
    pub const LEAST: u32 = 30;

    /// Packets of all windows.
    pub(crate) fn measured(&self) -> u64 {
        u64::from(self.windows).saturating_mul(self.packets)
    }

    /// Packets in detail for each window.
    pub(crate) fn length(&self) -> u64 {
        self.warmup.saturating_add(self.packets)
    }
}

impl Default for SamplingSpec {
    fn default() -> Self {
        SamplingSpec { windows: 100, packets: 2_000, warmup: 1_000, untimed: None, error: 0.03 }
    }
}

impl Default for RunSpec {
    fn default() -> Self {
        RunSpec {
            packets: 1_000_000,
            warmup: None,
            sampling: None,
            trace: None,
            seed: 1,
            curve: Vec::new(),
            curve_packets: 100_000,
            search: None,
            search_packets: None,
            search_resolution: 0.005,
            loss_limit: 0.001,
        }
    }
}

impl RunSpec {
    /// Says so where packets at so many a second come later than simulated time holds.
    pub(crate) fn outlasts_time(&self, per_second: f64) -> Option<String> {
        // A warm-up that is not given may take nine times as many packets as are measured: ten times as long as this is still
        // within what time can hold.
        let packets = self.packets as f64 + self.warmup.unwrap_or(self.packets) as f64;
        let seconds = packets / per_second;
        (seconds > LONGEST_RUN_S).then(|| {
            format!(
                "{packets:.0} packets may take {seconds:.1e} s: allowed are {LONGEST_RUN_S:.0e} s of simulated time (raise the rate, \
                 or lower run.packets and run.warmup)"
            )
        })
    }
}

/// What is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateSearch {
    /// The highest rate without loss (no-drop rate).
    Ndr,
    /// The highest rate with a loss of at most `loss_limit` (partial-drop rate).
    Pdr,
}
