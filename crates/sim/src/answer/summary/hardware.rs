//! Of the summary: what the machine counted, from the end of warm-up on.
//!
//! A counter is a field of its component's counters, with the words that describe it. It is in the summary, in the
//! summary's schema and in Python's types by standing there, unless it is skipped; what is derived from several stands here.

use std::collections::BTreeMap;

use functions::upf::FlowCounters;
use machine::buffer::BufferCounters;
use machine::dram::stats::{ChannelLoad, Shares};
use machine::dram::{CommandReport, ControllerSetting, DramCounters, Energy, PagePolicy};
use machine::memory::{
    ApplicationCounters, ApplicationSpec, ClassCounters, CopyCounters, CopyEngineSpec, EngineCounters, IommuCounters,
    LevelCounters, SnoopCounters, SocketCounters, StackedCounters, TailCounters, Ways,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use units::{LINE_BYTES, Ps};

use super::packets::{self, Times};
use crate::answer::hot::room;
use crate::answer::rates::{dram_bandwidth, energy_model};
use crate::run::simulate::Measured;
use crate::scenario::clos::{ClosSpec, number};
use crate::scenario::{NeighbourKind, NeighbourSpec, Scenario};
use crate::server::CoreCounters;
use crate::server::control_plane::ControlCounters;
use crate::server::neighbours::NeighbourCounters;
use crate::server::owners::ApplicationFound;
use crate::server::storage::StorageCounters;

/// Misses over lookups; not a number without any.
pub(super) fn miss_rate(level: &LevelCounters) -> f64 {
    level.misses as f64 / level.lookups() as f64
}

/// One level of the memory system. For DDIO a hit is a device write in place; for DMA reads it is a read that a cache
/// served. A line of a packet that a device has written is a `first touch` where a core's load or store comes for it first, and a
/// `first prefetch` where a prefetch does, the core's own or its prefetcher's: a hit if a cache still has the line. It is one of the two,
/// once: a load behind a prefetch is neither. Lines that nobody asks for, and what devices write to an L2, are neither, and with
/// several sockets or tails of receive queues none is counted.
#[derive(Serialize, JsonSchema)]
pub struct LevelSummary {
    /// `L1d`, `L2`, `LLC`, `DDIO`, `first touch`, `first prefetch` or `DMA read`.
    name: &'static str,
    #[serde(flatten)]
    counters: LevelCounters,
    /// Hits over lookups.
    #[schemars(with = "Option<f64>")]
    hit_rate: f64,
}

pub(super) fn levels(measured: &Measured) -> Vec<LevelSummary> {
    let c = &measured.counts.memory;
    let levels = [
        ("L1d", c.l1),
        ("L2", c.l2),
        ("LLC", c.llc),
        ("DDIO", c.dma_write),
        ("first touch", c.first_touch),
        ("first prefetch", c.first_prefetch),
        ("DMA read", c.dma_read),
    ];
    let level = |(name, counters): (&'static str, LevelCounters)| {
        let hit_rate = counters.hits as f64 / counters.lookups() as f64;
        LevelSummary { name, counters, hit_rate }
    };
    levels.into_iter().map(level).collect()
}

/// What one kind of core asked of the LLC.
#[derive(Serialize, JsonSchema)]
pub struct LlcByCores {
    /// `receiving` (all, where there is no pipeline) or `working`.
    cores: &'static str,
    /// Lookups of the LLC.
    lookups: u64,
    /// Misses over lookups.
    miss_rate: f64,
}

/// Of each kind of core that made any lookup.
pub(super) fn llc_by_cores(measured: &Measured) -> Vec<LlcByCores> {
    let kinds = ["receiving", "working"].into_iter().zip(&measured.counts.classes);
    kinds
        .filter(|(_, l)| l.lookups() > 0)
        .map(|(cores, l)| LlcByCores { cores, lookups: l.lookups(), miss_rate: miss_rate(l) })
        .collect()
}

/// Bytes of the LLC at the end, by who has brought them in.
#[derive(Serialize, JsonSchema)]
pub struct LlcBytes {
    /// Devices.
    devices: u64,
    /// Cores that receive.
    receiving: u64,
    /// Cores that work on what others have received.
    working: u64,
    /// All others.
    others: u64,
}

impl LlcBytes {
    pub(super) fn of(measured: &Measured) -> LlcBytes {
        let [devices, receiving, working, others] = measured.counts.llc_lines.map(|lines| lines * LINE_BYTES);
        LlcBytes { devices, receiving, working, others }
    }
}

/// A class of service that is set, and what all who are in it did.
#[derive(Serialize, JsonSchema)]
pub struct ClassSummary {
    /// Its number.
    clos: u8,
    /// Its mask of ways.
    ways: Option<u32>,
    /// Cores that it names.
    cores: Vec<u32>,
    /// Neighbours that it names.
    neighbours: Vec<String>,
    /// Lookups of the LLC.
    llc_lookups: u64,
    /// Misses over lookups.
    #[schemars(with = "Option<f64>")]
    llc_miss_rate: f64,
    /// Bytes that it has brought in and are there at the end.
    llc_bytes: u64,
}

/// Each class that is set, by its number; none where none is.
pub(super) fn classes_of_service(scenario: &Scenario, measured: &Measured) -> Option<Vec<ClassSummary>> {
    let classes = &scenario.machine.clos;
    let one = |(key, class): (&String, &ClosSpec)| {
        let clos = number(key)?;
        let ClassCounters { llc, lines } = measured.counts.clos[usize::from(clos)];
        Some(ClassSummary {
            clos,
            ways: class.ways.lowest(key, scenario.machine.llc.ways).ok().map(|mask| mask.0),
            cores: class.cores.clone(),
            neighbours: class.neighbours.clone(),
            llc_lookups: llc.lookups(),
            llc_miss_rate: miss_rate(&llc),
            llc_bytes: lines * LINE_BYTES,
        })
    };
    // By number: 10 comes behind 2.
    let mut sorted: Vec<_> = classes.iter().collect();
    sorted.sort_by_key(|(key, _)| number(key));
    (!classes.is_empty()).then(|| sorted.into_iter().filter_map(one).collect())
}

/// What the copy table did. All counts are of lines but `searches`.
#[derive(Serialize, JsonSchema)]
pub struct CopyTable {
    #[serde(flatten)]
    counters: CopyCounters,
}

impl CopyTable {
    pub(super) fn of(scenario: &Scenario, measured: &Measured) -> Option<CopyTable> {
        scenario.machine.copy_table.as_ref().map(|_| CopyTable { counters: measured.counts.copies })
    }
}

/// What the copy engine did. Its device accesses count in the levels `DDIO` and `DMA read`.
#[derive(Serialize, JsonSchema)]
pub struct CopyEngineSummary {
    /// `non-temporal`, `dma` or `controller`.
    by: &'static str,
    #[serde(flatten)]
    counters: EngineCounters,
}

impl CopyEngineSummary {
    pub(super) fn of(scenario: &Scenario, measured: &Measured) -> Option<CopyEngineSummary> {
        let by = match scenario.machine.copy_engine.as_ref()? {
            CopyEngineSpec::NonTemporal => "non-temporal",
            CopyEngineSpec::Dma { .. } => "dma",
            CopyEngineSpec::Controller { .. } => "controller",
        };
        Some(CopyEngineSummary { by, counters: measured.counts.engine })
    }
}

/// One direction of a link between sockets.
#[derive(Serialize, JsonSchema)]
pub struct LinkSummary {
    /// The socket that it leaves.
    from: u32,
    /// The socket that it leads to.
    to: u32,
    /// Bandwidth, that of messages without data included.
    gb_per_s: f64,
    /// Share of time that it was busy.
    busy: f64,
    /// Time that messages waited for those before them.
    waited_ns: f64,
}

/// What went between sockets.
#[derive(Serialize, JsonSchema)]
pub struct Sockets {
    #[serde(flatten)]
    counters: SocketCounters,
    /// Each direction of each link.
    links: Vec<LinkSummary>,
}

impl Sockets {
    pub(super) fn of(measured: &Measured) -> Option<Sockets> {
        let counters = measured.counts.sockets.clone()?;
        let span = measured.counts.span.as_secs();
        let links = counters.links.iter().map(|(from, to, link)| LinkSummary {
            from: *from,
            to: *to,
            gb_per_s: link.bytes as f64 / span / 1e9,
            busy: link.busy.as_secs() / span,
            waited_ns: link.waited.as_ns(),
        });
        Some(Sockets { links: links.collect(), counters })
    }
}

/// What snooping did.
#[derive(Serialize, JsonSchema)]
pub struct SnoopingSummary {
    #[serde(flatten)]
    counters: SnoopCounters,
}

impl SnoopingSummary {
    pub(super) fn of(measured: &Measured) -> Option<SnoopingSummary> {
        measured.counts.snooping.map(|counters| SnoopingSummary { counters })
    }
}

/// What was done at the LLC for an application that it tells apart (`machine.applications`).
#[derive(Serialize, JsonSchema)]
pub struct LlcApplication {
    /// Its name.
    of: String,
    /// Slices that hold only its lines at the end; null: what everyone has.
    slices: Option<u32>,
    /// Ways that it is held to; null: all.
    ways: Option<u32>,
    /// Lookups of the LLC.
    llc_lookups: u64,
    /// Misses over lookups.
    #[schemars(with = "Option<f64>")]
    llc_miss_rate: f64,
    /// Skipped over all L2 misses.
    #[schemars(with = "Option<f64>")]
    skipped_share: f64,
    /// Whether it skips the LLC at the end.
    skips: bool,
    #[serde(flatten)]
    counters: ApplicationCounters,
}

pub(super) fn applications(scenario: &Scenario, measured: &Measured) -> Vec<LlcApplication> {
    let one = |((name, spec), found): ((&String, &ApplicationSpec), &ApplicationFound)| {
        let counters = found.counters;
        let lookups = counters.llc.lookups();
        LlcApplication {
            of: name.clone(),
            slices: found.end.slices,
            ways: spec.ways.map(Ways::count),
            llc_lookups: lookups,
            llc_miss_rate: miss_rate(&counters.llc),
            skipped_share: counters.skipped as f64 / (counters.skipped + lookups) as f64,
            skips: found.end.skips,
            counters,
        }
    };
    scenario.machine.applications.iter().zip(&measured.counts.applications).map(one).collect()
}

/// What the IOMMU did that translates addresses of devices (`machine.iommu`).
#[derive(Serialize, JsonSchema)]
pub struct IommuSummary {
    /// Bytes of a page.
    page_bytes: u64,
    #[serde(flatten)]
    counters: IommuCounters,
    /// Hits of the IO-TLB over lookups.
    #[schemars(with = "Option<f64>")]
    hit_rate: f64,
    /// Mean time of a walk, its loads among it.
    #[schemars(with = "Option<f64>")]
    walk_ns: f64,
}

impl IommuSummary {
    pub(super) fn of(scenario: &Scenario, measured: &Measured) -> Option<IommuSummary> {
        let (spec, counters) = scenario.machine.iommu.as_ref().zip(measured.counts.iommu)?;
        Some(IommuSummary {
            page_bytes: spec.page.bytes(),
            hit_rate: counters.hits as f64 / (counters.hits + counters.misses) as f64,
            walk_ns: counters.walked.as_ns() / counters.misses as f64,
            counters,
        })
    }
}

/// What the stacked DRAM did that holds tables (`machine.stacked`).
#[derive(Serialize, JsonSchema)]
pub struct StackedTables {
    /// What lies there.
    holds: Vec<String>,
    /// Its channels.
    channels: u32,
    /// Banks of a channel.
    banks: u32,
    #[serde(flatten)]
    counters: StackedCounters,
    /// Share of reads that began while another bank of their channel was busy.
    #[schemars(with = "Option<f64>")]
    interleaved_share: f64,
    /// Mean time that a read waited for a bank.
    #[schemars(with = "Option<f64>")]
    bank_wait_ns: f64,
    /// Share of time that banks were busy.
    busy: f64,
}

impl StackedTables {
    pub(super) fn of(scenario: &Scenario, measured: &Measured) -> Option<StackedTables> {
        let (spec, counters) = scenario.machine.stacked.as_ref().zip(measured.counts.stacked)?;
        let sockets = scenario.machine.sockets.as_ref().map_or(1, |sockets| sockets.count);
        let banks = f64::from(spec.memory.channels * spec.memory.banks * sockets);
        Some(StackedTables {
            holds: spec.holds.clone(),
            channels: spec.memory.channels,
            banks: spec.memory.banks,
            interleaved_share: counters.interleaved as f64 / counters.reads as f64,
            bank_wait_ns: counters.waited.as_ns() / counters.reads as f64,
            busy: counters.busy.as_secs() / (measured.counts.span.as_secs() * banks),
            counters,
        })
    }
}

/// DRAM accesses by what they met in the row buffer, and how the data bus spent its time.
#[derive(Serialize, JsonSchema)]
pub struct DramSummary {
    #[serde(flatten)]
    counters: DramCounters,
    /// Bandwidth, reads and writes.
    bandwidth_gb_per_s: f64,
    /// What all channels can move.
    peak_gb_per_s: f64,
    /// Shares of the data buses' time: `data` and `idle`; with `machine.dram.controller` also `turnaround`, `bank_group`
    /// (bursts of one bank group are further apart), `row_miss`, `bank_conflict` and `refresh`.
    share: BusShares,
    /// What controllers at the level of commands did; missing without `machine.dram.controller`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DramControllers")]
    controllers: Option<DramControllers>,
    /// DRAM energy over `sent_packets`; null where the currents of the devices are not known (`machine.dram.currents` or
    /// `standard`).
    energy_nj_per_packet: Option<f64>,
    /// Why energy is not known; null where it is.
    energy_missing: Option<String>,
    /// DRAM energy by cause; null where it is not known.
    energy_nj: Option<DramEnergy>,
}

/// Of the data buses' time.
#[derive(Serialize)]
#[serde(untagged)]
enum BusShares {
    /// Of DRAM that answers at once.
    Simple {
        data: f64,
        idle: f64,
    },
    Controllers(Shares),
}

impl JsonSchema for BusShares {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BusShares".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        BTreeMap::<String, f64>::json_schema(generator)
    }
}

/// DRAM energy by cause.
#[derive(Serialize, JsonSchema)]
pub struct DramEnergy {
    /// All of it.
    total: f64,
    #[serde(flatten)]
    causes: Energy,
}

impl DramSummary {
    pub(super) fn of(scenario: &Scenario, measured: &Measured) -> DramSummary {
        let d = measured.counts.dram;
        let data =
            d.bus_busy.as_secs() / (measured.counts.span.as_secs() * f64::from(scenario.machine.dram_channels()));
        let controllers = measured.controllers.as_ref().zip(scenario.machine.dram.controller.as_ref());
        let energy = energy_model(scenario).map(|model| model.of(&measured.counts.dram_work));
        let sent = measured.counts.sent;
        DramSummary {
            counters: d,
            bandwidth_gb_per_s: dram_bandwidth(measured) / 1e9,
            peak_gb_per_s: measured.dram_peak / 1e9,
            share: match controllers {
                Some((found, _)) => BusShares::Controllers(found.report.shares),
                None => BusShares::Simple { data, idle: 1.0 - data },
            },
            controllers: controllers
                .map(|(found, setting)| DramControllers::of(found, setting, scenario.machine.dram.page)),
            energy_nj_per_packet: energy.as_ref().ok().filter(|_| sent > 0).map(|energy| energy.total() / sent as f64),
            energy_missing: energy.as_ref().err().cloned(),
            energy_nj: energy.ok().map(|causes| DramEnergy { total: causes.total(), causes }),
        }
    }
}

/// Latencies of reads from the controllers' door and back, waiting before it included.
#[derive(Serialize, JsonSchema)]
pub struct ReadLatency {
    #[serde(flatten)]
    times: Times,
    /// How many.
    n: u64,
    /// 90 % are not longer.
    #[schemars(with = "f64")]
    p90: Option<f64>,
}

/// Shares of time for which packets were on a cube's links.
#[derive(Serialize, JsonSchema)]
pub struct CubeLinks {
    /// Requests.
    to: f64,
    /// Answers.
    from: f64,
}

/// What controllers at the level of commands did.
#[derive(Serialize, JsonSchema)]
pub struct DramControllers {
    /// Where a line lies.
    map: String,
    /// Entries of a channel's queue.
    queue: u32,
    /// Which request is next.
    order: String,
    /// Where writes wait.
    writes: String,
    /// When rows are closed.
    page: String,
    /// Which refresh is used.
    refresh: String,
    /// Latencies of reads from the controllers' door and back, waiting before it included.
    read_latency_ns: ReadLatency,
    /// Reads answered from the write queue.
    forwarded: u64,
    /// Rows opened.
    activates: u64,
    /// Refresh commands.
    refreshes: u64,
    /// Starts and ends of write drains.
    drain_switches: u64,
    /// Shares of time for which packets were on a cube's links; null without a cube.
    links: Option<CubeLinks>,
    /// Each channel.
    channels: Vec<ChannelLoad>,
    /// Row hits, misses and conflicts of each bank, channel by channel.
    banks: Vec<[u64; 3]>,
}

impl DramControllers {
    fn of(found: &CommandReport, setting: &ControllerSetting, page: PagePolicy) -> DramControllers {
        let (report, spec, latency) = (&found.report, setting.spec(page), &found.read_latency);
        DramControllers {
            map: setting.map.clone(),
            queue: spec.queue,
            order: spec.order.to_string(),
            writes: spec.writes.to_string(),
            page: spec.page.to_string(),
            refresh: spec.refresh.to_string(),
            read_latency_ns: ReadLatency {
                times: Times::of(latency),
                n: latency.n(),
                p90: latency.quantile(0.9).map(Ps::as_ns),
            },
            forwarded: report.forwarded,
            activates: report.activates,
            refreshes: report.refreshes,
            drain_switches: report.drain_switches,
            links: found.links.map(|[to, from]| CubeLinks { to, from }),
            channels: report.channels.clone(),
            banks: report.heat.clone(),
        }
    }
}

/// What went over PCIe, each way.
#[derive(Serialize, JsonSchema)]
pub struct Pcie {
    /// Payload towards the host.
    to_host_gbps: f64,
    /// Payload from the host.
    from_host_gbps: f64,
    /// The same towards the host with framing and headers, and what the NIC asks for what it reads.
    to_host_link_gbps: f64,
    /// The same from the host with framing and headers.
    from_host_link_gbps: f64,
    /// What the link carries each way, framing and headers included.
    rate_gbps: f64,
}

impl Pcie {
    pub(super) fn of(scenario: &Scenario, measured: &Measured) -> Pcie {
        let gbps = |bytes: u64| bytes as f64 * 8.0 / measured.counts.span.as_secs() / 1e9;
        Pcie {
            to_host_gbps: gbps(measured.counts.pcie_bytes.0),
            from_host_gbps: gbps(measured.counts.pcie_bytes.1),
            to_host_link_gbps: gbps(measured.counts.pcie_carried.0),
            from_host_link_gbps: gbps(measured.counts.pcie_carried.1),
            rate_gbps: scenario.nic.pcie.rate.gbps(),
        }
    }
}

/// One core: shares of time, and its work per packet.
#[derive(Serialize, JsonSchema)]
pub struct CoreSummary {
    /// Its number.
    core: usize,
    #[serde(flatten)]
    counters: CoreCounters,
    /// Whether it polls queues of the NIC; others take packets from a software queue.
    receives: bool,
    /// Packets that waited in its receive rings or software queue, on average over time.
    ring_packets: f64,
    /// The same as a share of what those hold.
    ring_full: f64,
    /// Share of time in bursts.
    busy: f64,
    /// Share of time in which it looked for packets in vain.
    polling: f64,
    /// Packets of a burst, on average.
    #[schemars(with = "Option<f64>")]
    packets_per_burst: f64,
    /// Instructions a packet, polling in vain not counted.
    #[schemars(with = "Option<f64>")]
    instructions_per_packet: f64,
    /// Busy cycles a packet.
    #[schemars(with = "Option<f64>")]
    cycles_per_packet: f64,
    /// What they are spent on: cycles a packet by reason, of bursts that are over.
    #[schemars(with = "BTreeMap<String, f64>")]
    cycles: Map<String, Value>,
}

pub(super) fn cores(scenario: &Scenario, measured: &Measured) -> Vec<CoreSummary> {
    let ghz = scenario.machine.core.frequency.ghz();
    let one = |(core, c): (usize, &CoreCounters)| {
        let (packets, busy) = (c.packets as f64, c.busy.as_secs() / measured.counts.span.as_secs());
        let receives = core < scenario.receiving_cores() as usize;
        let ring_packets = c.waited.as_secs() / measured.counts.span.as_secs();
        CoreSummary {
            core,
            counters: *c,
            receives,
            ring_packets,
            ring_full: ring_packets / room(scenario, receives),
            busy,
            polling: 1.0 - busy,
            packets_per_burst: packets / c.bursts as f64,
            instructions_per_packet: c.instructions as f64 / packets,
            cycles_per_packet: c.busy.as_ns() * ghz / packets,
            cycles: packets::cycles(&c.spent, ghz, c.packets),
        }
    };
    measured.counts.cores.iter().enumerate().map(one).collect()
}

/// The pool of packet buffers.
#[derive(Serialize, JsonSchema)]
pub struct MempoolSummary {
    /// Its mbufs.
    size: u32,
    /// Whether drivers found it empty.
    starved: bool,
    /// Mbufs that drivers wanted in vain, counted at each try.
    rx_nombuf: u64,
}

impl MempoolSummary {
    pub(super) fn of(scenario: &Scenario, measured: &Measured) -> MempoolSummary {
        let rx_nombuf = measured.counts.cores.iter().map(|c| c.rx_nombuf).sum();
        MempoolSummary { size: scenario.mempool.size, starved: rx_nombuf > 0, rx_nombuf }
    }
}

/// What the allocator of `[buffer]` did.
#[derive(Serialize, JsonSchema)]
pub struct PacketBufferSummary {
    /// Which allocator it is.
    allocation: &'static str,
    /// The buffer's memory.
    size_bytes: u64,
    /// The longest packet that it is built for.
    longest_bytes: u64,
    #[serde(flatten)]
    counters: BufferCounters,
    /// The share of the memory taken that holds no byte of a packet, averaged over the grants.
    fragmentation: f64,
}

impl PacketBufferSummary {
    pub(super) fn of(scenario: &Scenario, measured: &Measured) -> Option<PacketBufferSummary> {
        let (spec, counters) = scenario.buffer.as_ref().zip(measured.counts.buffer)?;
        Some(PacketBufferSummary {
            allocation: spec.allocation.name(),
            size_bytes: spec.size.bytes(),
            longest_bytes: spec.longest.bytes(),
            fragmentation: counters.fragmentation(),
            counters,
        })
    }
}

/// What became of the lines that the NIC wrote past the LLC into its SRAM for the tails of receive queues.
#[derive(Serialize, JsonSchema)]
pub struct NicCache {
    /// Lines of a queue.
    cells: u32,
    #[serde(flatten)]
    counters: TailCounters,
}

impl NicCache {
    pub(super) fn of(scenario: &Scenario, measured: &Measured) -> Option<NicCache> {
        measured.counts.tails.map(|counters| NicCache { cells: scenario.nic.cache_cells, counters })
    }
}

/// What one function of a chain did.
#[derive(Serialize, JsonSchema)]
pub struct Member {
    /// Its name.
    name: &'static str,
    /// Packets that came to it.
    packets: u64,
    /// Packets that it dropped.
    dropped: u64,
    /// Its references, prefetches not counted.
    references: u64,
    /// Its share of the chain's.
    reference_share: f64,
    /// Its instructions.
    instructions: u64,
    /// Its share of the chain's.
    instruction_share: f64,
}

/// What each member of a chain did; none of a function alone.
pub(super) fn members(measured: &Measured) -> Option<Vec<Member>> {
    let sum = |of: fn(&functions::MemberTotals) -> u64| measured.counts.members.iter().map(of).sum::<u64>() as f64;
    let (references, instructions) = (sum(|m| m.seen.references), sum(|m| m.seen.instructions));
    let member = |m: &functions::MemberTotals| Member {
        name: m.name,
        packets: m.packets,
        dropped: m.dropped,
        references: m.seen.references,
        reference_share: m.seen.references as f64 / references,
        instructions: m.seen.instructions,
        instruction_share: m.seen.instructions as f64 / instructions,
    };
    (!measured.counts.members.is_empty()).then(|| measured.counts.members.iter().map(member).collect())
}

/// What the user plane's flow tables did, all cores together.
#[derive(Serialize, JsonSchema)]
pub struct FlowTableSummary {
    /// Flows that a core has room for.
    flows_per_core: u64,
    #[serde(flatten)]
    counters: FlowCounters,
    /// Hits over packets.
    #[schemars(with = "Option<f64>")]
    hit_rate: f64,
}

impl FlowTableSummary {
    pub(super) fn of(scenario: &Scenario, measured: &Measured) -> Option<FlowTableSummary> {
        let counters = measured.counts.flow_tables?;
        let flows_per_core = scenario.function.upf.processing.flow_capacity();
        let hit_rate = counters.hits as f64 / (counters.hits + counters.misses) as f64;
        Some(FlowTableSummary { flows_per_core, counters, hit_rate })
    }
}

/// What a control plane did.
#[derive(Serialize, JsonSchema)]
pub struct ControlSummary {
    /// Readings of all packet cores' counters.
    readings: u64,
    /// Routes written.
    updates: u64,
    /// Routes written a second.
    updates_per_s: f64,
    /// Lines of tables written.
    lines: u64,
    /// Copies that other cores gave up for that.
    invalidated: u64,
    /// Lines that it took from another core's private caches.
    taken: u64,
}

impl ControlSummary {
    fn of(did: &ControlCounters, seconds: f64) -> ControlSummary {
        let ControlCounters { readings, updates, lines, invalidated, taken } = *did;
        ControlSummary { readings, updates, updates_per_s: updates as f64 / seconds, lines, invalidated, taken }
    }
}

/// What a storage device did.
#[derive(Serialize, JsonSchema)]
pub struct StorageSummary {
    /// What it wrote into memory.
    written_gbps: f64,
    /// Its writes, by line, of lines that a cache had, over all: 0 with direct cache access off, but for what cores have still.
    #[schemars(with = "Option<f64>")]
    write_hit_rate: f64,
    /// Blocks that cores read a second.
    blocks_read_per_s: f64,
}

impl StorageSummary {
    fn of(did: &StorageCounters, seconds: f64) -> StorageSummary {
        StorageSummary {
            written_gbps: did.bytes as f64 * 8e-9 / seconds,
            write_hit_rate: 1.0 - miss_rate(&did.writes),
            blocks_read_per_s: did.read as f64 / seconds,
        }
    }
}

/// What another program on the machine did.
#[derive(Serialize, JsonSchema)]
pub struct NeighbourSummary {
    /// Its name.
    name: String,
    /// Cores that it runs on.
    cores: u32,
    /// The memory that it works on.
    working_set_bytes: u64,
    /// Its references.
    references_per_s: f64,
    /// Lookups of the LLC.
    llc_lookups: u64,
    /// Misses over lookups.
    #[schemars(with = "Option<f64>")]
    llc_miss_rate: f64,
    /// What it did as a control plane; null of other programs.
    control: Option<ControlSummary>,
    /// What its device did; of storage devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<StorageSummary>,
}

pub(super) fn neighbours(scenario: &Scenario, measured: &Measured) -> Vec<NeighbourSummary> {
    let seconds = measured.counts.span.as_secs();
    let one = |(spec, did): (&NeighbourSpec, &NeighbourCounters)| NeighbourSummary {
        name: spec.name.clone(),
        cores: spec.cores,
        working_set_bytes: match spec.kind {
            NeighbourKind::Storage => spec.storage_bytes(),
            _ => spec.working_set.bytes(),
        },
        references_per_s: did.references as f64 / seconds,
        llc_lookups: did.llc.lookups(),
        llc_miss_rate: miss_rate(&did.llc),
        control: (spec.kind == NeighbourKind::Control).then(|| ControlSummary::of(&did.control, seconds)),
        storage: (spec.kind == NeighbourKind::Storage).then(|| StorageSummary::of(&did.storage, seconds)),
    };
    scenario.neighbours.iter().zip(&measured.counts.neighbours).map(one).collect()
}
