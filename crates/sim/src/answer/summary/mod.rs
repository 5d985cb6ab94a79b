//! A run as one JSON document, `wirespeed.run/1`: what the command line prints and reports draw.
//!
//! [`Summary`] says what is in it: its JSON Schema, the table of fields in the documentation and Python's types are made
//! from the fields here and the words above them.

mod gpu;
mod hardware;
mod inputs;
mod packets;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value, json};
use stats::Reason;

pub(crate) use packets::{IntervalSummary, series};

use crate::answer::hot::HotRing;
use crate::answer::rates::{MeasuredRates, is_stationary};
use crate::answer::stalls::StallsSummary;
use crate::answer::verdict::{RunVerdict, verdict};
use crate::load::InputFile;
use crate::run::sampling::Sampling;
use crate::run::{RunResult, Trial};
use crate::scenario::{FunctionKind, Scenario};
use crate::server::Loss;
use crate::server::placing::PlacingCounters;
use gpu::GpuSummary;
use hardware::{
    ClassSummary, CopyEngineSummary, CopyTable, CoreSummary, DramSummary, FlowTableSummary, IommuSummary, LevelSummary,
    LlcApplication, LlcByCores, LlcBytes, Member, MempoolSummary, NeighbourSummary, NicCache, PacketBufferSummary,
    Pcie, SnoopingSummary, Sockets, StackedTables,
};
use inputs::{MachineSummary, PolicySummary, Routes, RoutingTable, TrafficSummary, WarmUpSummary};
use packets::{CurvePoint, PacketClass, SearchSummary, Sojourn};

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the time of packets is charged to, in the order in which a packet meets it, each with what of the machine that is.
pub fn reasons() -> Vec<(&'static str, &'static str)> {
    Reason::ALL.into_iter().map(|reason| (reason.name(), reason.family().name())).collect()
}

/// Hashes the resolved scenario, its seed included, the content of the files it names, and the version: equal ids,
/// equal results. Where the files lie and what they are called does not matter. A run near a machine that was warm has another id
/// than one from nothing.
pub fn run_id(result: &RunResult) -> String {
    let near = result.near.as_ref().map_or_else(String::new, |near| format!("\nnear {near}"));
    hash(&format!("{VERSION}\n{}{near}", by_content(result).to_toml()))
}

/// The scenario without its titles, and with the hash of each file's content in place of its path.
fn by_content(result: &RunResult) -> Scenario {
    let mut scenario = result.scenario.clone();
    scenario.name.clear();
    scenario.machine.name.clear();
    scenario.rename_files(|setting, _| {
        let read = result.inputs.iter().find(|file| file.kind == setting.kind)?;
        Some(read.blake3.as_str().into())
    });
    // All that a part or a file of a machine says is in the scenario.
    scenario.forget_parts();
    if scenario.machine.preset.as_deref().is_some_and(|name| name.ends_with(".toml")) {
        scenario.machine.preset = None;
    }
    scenario
}

/// Identifies the packets that a run is measured by: two runs with equal ids see the same ones at the
/// same times, if as many were offered.
pub fn traffic_id(result: &RunResult) -> String {
    let s = &by_content(result);
    let traffic = toml::to_string(&s.traffic).unwrap_or_default();
    let forward = &s.function.forward;
    let users = match s.function.kind {
        FunctionKind::Upf => toml::to_string(&s.function.upf).unwrap_or_default(),
        _ => String::new(),
    };
    let sampled = result.measured.sampling.as_ref().filter(|sampling| sampling.timed_in_full.is_none());
    let sampling =
        sampled.map(|s| format!("{} {} {}", s.windows, s.window_packets, s.window_warmup)).unwrap_or_default();
    hash(&format!(
        "{traffic}\n{users}{sampling}{} {} {} {} {:e} {:?} {} {}",
        s.run.seed,
        s.run.packets,
        result.measured.warmup.packets,
        s.nic.rate,
        result.load,
        forward.table,
        forward.prefixes,
        forward.next_hops,
    ))
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_string()
}

/// The documented object that describes one run. Where no packet was measured, numbers that cannot be known are null.
#[derive(Serialize, JsonSchema)]
pub struct Summary {
    /// `wirespeed.run/1`; changes when a field changes its meaning.
    schema: &'static str,
    /// Hash of the resolved scenario with its seed, of the content of the files it names, and of the version: equal ids,
    /// equal results, on any machine and wherever the files lie.
    run_id: String,
    /// The seed that it was run with.
    seed: u64,
    /// The program's version.
    version: &'static str,
    /// The program's commit.
    commit: String,
    /// The scenario's title.
    name: String,
    /// Whether Ctrl-C ended the run early.
    partial: bool,
    /// The answer in words.
    verdict: RunVerdict,
    /// Packets that were measured, after warm-up and in windows where the run is sampled: carried, `lost` and `rejected`. 0 where the run was stopped before; then the machine's
    /// counts below are of no packet, and terminal and report show none.
    packets: u64,
    /// Packets sent in the time for which the machine's counts are, up to the last arrival, whenever they arrived: energy a packet is over
    /// this. Of those that were carried some left later, from rings that had filled.
    sent_packets: u64,
    /// Packets that receiving cores took from their rings in that time: counts of the machine a packet are over this.
    taken_packets: u64,
    /// Packets offered before warm-up was over.
    warmup_packets: u64,
    /// What was cut at the start, and why.
    warmup: WarmUpSummary,
    /// How the run was sampled; null where all of it was to be timed.
    sampling: Option<Sampling>,
    /// Whether what was measured shows no trend; null where too few packets were sent to tell.
    stationary: Option<bool>,
    /// What the ring of a core held more at the last arrival than at the first, over the packets that came to it: the largest share of
    /// all cores, 0 where that may be chance. Null of windows, of traffic that comes in bursts, and where the system stalls cores.
    ring_growth: Option<f64>,
    /// Offered rate over the measured time.
    offered_mpps: f64,
    /// Carried rate over the measured time.
    carried_mpps: f64,
    /// Offered rate on the wire.
    offered_gbps: f64,
    /// Carried rate on the wire.
    carried_gbps: f64,
    /// Offered rate of frames with FCS.
    offered_l2_gbps: f64,
    /// Carried rate of frames with FCS.
    carried_l2_gbps: f64,
    /// Line rate of a port.
    line_rate_gbps: f64,
    /// Offered share of it.
    load: f64,
    /// Lost over offered packets.
    loss: f64,
    /// Half-width of its interval at 95 %.
    #[schemars(with = "Option<f64>")]
    loss_half_width: f64,
    /// The upper end of its interval at 95 %; with none lost 3/`packets`.
    loss_upper_95: f64,
    /// Dropped packets by reason, losses and rejections; see below.
    #[schemars(with = "BTreeMap<String, u64>")]
    drops: Map<String, Value>,
    /// Whether each of these is `lost` or `rejected`.
    #[schemars(with = "BTreeMap<String, String>")]
    drop_kinds: Map<String, Value>,
    /// Packets lost for want of a resource.
    lost: u64,
    /// Packets rejected by the function's verdict.
    rejected: u64,
    /// Time from the last bit received to the first bit sent of carried packets.
    sojourn_ns: Sojourn,
    /// Mean nanoseconds a packet by reason; they sum to `sojourn_ns.mean`.
    #[schemars(with = "BTreeMap<String, f64>")]
    attribution_ns: Map<String, Value>,
    /// A few words for each reason.
    #[schemars(with = "BTreeMap<String, String>")]
    attribution_labels: Map<String, Value>,
    /// By frame size.
    classes: Vec<PacketClass>,
    /// Pairs of nanoseconds and the share of packets that took at most that.
    #[schemars(with = "Vec<[f64; 2]>")]
    sojourn_cdf: Vec<(f64, f64)>,
    /// The levels of the memory system.
    levels: Vec<LevelSummary>,
    /// The LLC by the kind of core; empty where classes of service name cores or neighbours.
    llc_by_cores: Vec<LlcByCores>,
    /// Each class of service that is set, and all who are in it; null without `machine.clos`.
    clos: Option<Vec<ClassSummary>>,
    /// What the copy table did; null without one.
    copy_table: Option<CopyTable>,
    /// What the copy engine did; null without one.
    copy_engine: Option<CopyEngineSummary>,
    /// What went between sockets; null of one socket.
    sockets: Option<Sockets>,
    /// What snooping did; null without `machine.llc.coherence = "snoop"`, where a directory knows who has a line.
    snooping: Option<SnoopingSummary>,
    /// What was done at the LLC for each application that it tells apart.
    applications: Vec<LlcApplication>,
    /// What the IOMMU did; null without `machine.iommu`.
    iommu: Option<IommuSummary>,
    /// What the stacked DRAM did that holds tables; null without `machine.stacked`.
    stacked: Option<StackedTables>,
    /// DRAM.
    dram: DramSummary,
    /// PCIe.
    pcie: Pcie,
    /// Each core.
    cores: Vec<CoreSummary>,
    /// The ring or software queue that gets more than its share and loses, while others of its stage have time left; null where none is.
    hot_ring: Option<HotRing>,
    /// What the system's stalls cost; null without `machine.core.stalls`, and where they come so often that the run has them: its own
    /// loss and sojourn are then with them.
    stalls: Option<StallsSummary>,
    /// The pool of packet buffers.
    mempool: MempoolSummary,
    /// What the allocator of `[buffer]` did; null where packets lie in their mbufs.
    packet_buffer: Option<PacketBufferSummary>,
    /// What the NIC's SRAM for the tails of receive queues did; null without `nic.cache_cells`.
    nic_cache: Option<NicCache>,
    /// What became of received packets beside the LLC's I/O ways; null without `nic.rings`, `nic.targets` and `nic.drop_dead`.
    placing: Option<PlacingCounters>,
    /// The run at other loads.
    curve: Vec<CurvePoint>,
    /// The run by intervals of simulated time.
    series: Vec<IntervalSummary>,
    /// What the policy that sets the LLC's ways saw and did; null without one.
    policy: Option<PolicySummary>,
    /// The search; null without one.
    search: Option<SearchSummary>,
    /// Where the packets came from.
    traffic: TrafficSummary,
    /// The machine.
    machine: MachineSummary,
    /// What each function of a chain did, in its order; null of a function alone.
    members: Option<Vec<Member>>,
    /// What the user plane's flow tables did; null without `function.upf.processing.flow_table`.
    flow_table: Option<FlowTableSummary>,
    /// What each other program on the machine did.
    neighbours: Vec<NeighbourSummary>,
    /// What the GPU did that packets went over; null without `machine.gpu`.
    gpu: Option<GpuSummary>,
    /// Bytes of the LLC at the end, by who has brought them in.
    llc_bytes: LlcBytes,
    /// Routes in use.
    routes: Routes,
    /// The routing table.
    table: RoutingTable,
    /// The files that decide over the result.
    inputs: Vec<InputFile>,
    /// What was assumed or found in the input, in words.
    notes: Vec<String>,
    /// Means of consecutive batches of packets for `carried_mpps`, `loss`, `dram_energy` (nJ a packet sent, where it is
    /// known), the sojourn's `mean` and each reason: what comparisons test.
    #[schemars(with = "BTreeMap<String, Vec<f64>>")]
    batches: Map<String, Value>,
    /// What the host took to simulate. Of all fields only this one, `load_s` and `packets_per_wall_s` differ between two runs
    /// with the same `run_id`.
    wall_s: f64,
    /// What the host took to load tables and traffic.
    load_s: f64,
    /// Simulated time after warm-up.
    simulated_s: f64,
    /// Packets simulated, warm-up included.
    simulated_packets: u64,
    /// Packets simulated a second of the host.
    packets_per_wall_s: f64,
}

/// The document; `commit` names the build's commit. What is not finite is null.
pub fn summary(result: &RunResult, commit: &str) -> Value {
    // No field is a map with keys that are no text.
    serde_json::to_value(Summary::of(result, commit)).unwrap_or_default()
}

/// Points of a curve that are no part of the document, as those are in it.
pub fn points(trials: &[Trial]) -> Value {
    serde_json::to_value(trials.iter().map(CurvePoint::of).collect::<Vec<_>>()).unwrap_or_default()
}

/// The JSON Schema of the document.
pub fn schema() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Summary>();
    serde_json::to_string_pretty(&schema).unwrap_or_default()
}

impl Summary {
    fn of(result: &RunResult, commit: &str) -> Summary {
        let (scenario, measured) = (&result.scenario, &result.measured);
        let m = &measured.measure;
        let loss = m.loss().estimate();
        let rates = MeasuredRates::of(m);
        let drops = || m.lost.iter().chain(&m.rejected);
        let named = scenario.machine.clos.values().any(|class| !class.cores.is_empty() || !class.neighbours.is_empty());
        Summary {
            schema: "wirespeed.run/1",
            run_id: run_id(result),
            seed: scenario.run.seed,
            version: VERSION,
            commit: commit.into(),
            name: scenario.name.clone(),
            partial: result.partial,
            verdict: verdict(result),
            packets: m.offered.packets,
            sent_packets: measured.counts.sent,
            taken_packets: measured.counts.taken(scenario.receiving_cores()),
            warmup_packets: measured.warmup.packets,
            warmup: WarmUpSummary::of(&measured.warmup),
            sampling: measured.sampling.clone(),
            stationary: is_stationary(m),
            ring_growth: m.growth.map(|growth| growth.share),
            offered_mpps: rates.mpps(&m.offered),
            carried_mpps: rates.mpps(&m.carried),
            offered_gbps: rates.gbps(&m.offered),
            carried_gbps: rates.gbps(&m.carried),
            offered_l2_gbps: rates.l2_gbps(&m.offered),
            carried_l2_gbps: rates.l2_gbps(&m.carried),
            line_rate_gbps: scenario.nic.rate.gbps(),
            load: result.load,
            loss: loss.value,
            loss_half_width: loss.half_width,
            loss_upper_95: loss.upper,
            drops: drops().map(|(name, n)| (name.to_string(), json!(n))).collect(),
            drop_kinds: drops().map(|(name, _)| (name.to_string(), json!(drop_kind(name)))).collect(),
            lost: m.lost.values().sum(),
            rejected: m.rejected.values().sum(),
            sojourn_ns: Sojourn::of(m),
            attribution_ns: packets::attribution(&m.attribution, m.sojourn.n()),
            attribution_labels: Reason::ALL.iter().map(|r| (r.name().into(), json!(r.label()))).collect(),
            classes: packets::classes(m),
            sojourn_cdf: packets::cdf(m.sojourn.histogram()),
            levels: hardware::levels(measured),
            // Classes tell kinds of cores apart only where nobody has put cores or neighbours into others.
            llc_by_cores: if named { Vec::new() } else { hardware::llc_by_cores(measured) },
            clos: hardware::classes_of_service(scenario, measured),
            copy_table: CopyTable::of(scenario, measured),
            copy_engine: CopyEngineSummary::of(scenario, measured),
            sockets: Sockets::of(measured),
            snooping: SnoopingSummary::of(measured),
            applications: hardware::applications(scenario, measured),
            iommu: IommuSummary::of(scenario, measured),
            stacked: StackedTables::of(scenario, measured),
            dram: DramSummary::of(scenario, measured),
            pcie: Pcie::of(scenario, measured),
            hot_ring: HotRing::of(result),
            cores: hardware::cores(scenario, measured),
            stalls: StallsSummary::of(result),
            mempool: MempoolSummary::of(scenario, measured),
            packet_buffer: PacketBufferSummary::of(scenario, measured),
            nic_cache: NicCache::of(scenario, measured),
            placing: measured.counts.placing,
            curve: result.curve.iter().map(CurvePoint::of).collect(),
            series: series(scenario, m),
            policy: PolicySummary::of(result),
            search: result.search.as_ref().map(|found| SearchSummary::of(result, found)),
            traffic: TrafficSummary::of(result),
            machine: MachineSummary::of(result),
            members: hardware::members(measured),
            flow_table: FlowTableSummary::of(scenario, measured),
            neighbours: hardware::neighbours(scenario, measured),
            gpu: GpuSummary::of(scenario, measured),
            llc_bytes: LlcBytes::of(measured),
            routes: Routes { ipv4: result.routing.routes.0, ipv6: result.routing.routes.1 },
            table: RoutingTable::of(&result.routing),
            inputs: result.inputs.clone(),
            notes: result.notes.clone(),
            batches: packets::batches(scenario, m),
            wall_s: result.wall_s,
            load_s: result.load_s,
            simulated_s: measured.counts.span.as_secs(),
            simulated_packets: measured.simulated,
            packets_per_wall_s: measured.simulated as f64 / result.run_wall_s,
        }
    }
}

/// Whether a drop is for want of a resource ("lost") or a function's verdict ("rejected").
pub fn drop_kind(name: &str) -> &'static str {
    if Loss::ALL.iter().any(|loss| loss.name() == name) { "lost" } else { "rejected" }
}
