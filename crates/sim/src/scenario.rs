//! What is simulated: a scenario in TOML, its presets, overrides and errors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use functions::upf::SessionLoad;
use functions::{CopySpec, ForwardSpec, FragmentSpec, NatSpec, SocketSpec, UpfSpec, WorkSpec};
use machine::buffer::{BufferSpec, PacketBuffer};
use machine::cache::{CacheSpec, PrefetcherSpec, Replacement};
use machine::cores::CoreSpec;
use machine::dram::policy::Page;
use machine::dram::{DramSpec, PagePolicy};
use machine::memory::{
    ApplicationSpec, CopyEngineSpec, CopyTableSpec, Hierarchy, LlcSpec, MAX_CORES, MemorySpec, SocketsSpec,
    StackedTablesSpec, TlbSpec,
};
use machine::nic::ServerLayout;
use machine::nic::{MempoolSpec, NicSpec, PipelineSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traffic::{ArrivalSpec, FlowSpec, MixSpec, PayloadSpec, PhaseSpec, SizeSpec, SourceSpec};
use units::{Addr, LINE_BYTES, PacketRate, Rate};

use crate::applications::{CheckSpec, ClassificationSpec, FilterSpec, InspectionSpec, LookupSpec};
use crate::clos::{self, ClosSpec};
use crate::files::{FILES, FileSetting};
use crate::neighbours::NeighbourSpec;
use crate::recorded::TraceSpec;
use crate::resolve::{Resolved, as_error, resolve, unbuildable};
use crate::steer::PolicySpec;

/// Why a scenario cannot be run: where, what came, what is allowed, what to do.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The text is not TOML.
    #[error("{origin}: not TOML: {message}")]
    Syntax {
        /// The file.
        origin: String,
        /// The parser's words, with line and column.
        message: String,
    },
    /// A key or value that cannot be.
    #[error("{origin}: {path}: {message}")]
    Value {
        /// The file.
        origin: String,
        /// Where in the scenario.
        path: String,
        /// What is wrong and what is allowed.
        message: String,
    },
    /// A preset nobody ships.
    #[error("{origin}: {path} = {name:?}: no such preset: {known}")]
    Preset {
        /// The file.
        origin: String,
        /// Where in the scenario.
        path: String,
        /// What was asked for.
        name: String,
        /// What there is, and the nearest name.
        known: String,
    },
    /// Several of these.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<ScenarioError>),
    /// The machine cannot be built.
    #[error("{0}")]
    Machine(#[from] machine::MachineError),
    /// The traffic cannot be made.
    #[error("{0}")]
    Traffic(#[from] traffic::TrafficError),
    /// The function cannot be built.
    #[error("function.forward: {0}")]
    Function(#[from] functions::FunctionError),
    /// The user plane function or its sessions cannot be.
    #[error("function.upf: {0}")]
    UserPlane(functions::FunctionError),
    /// Another function cannot be built.
    #[error("{path}: {source}")]
    Application {
        /// Where in the scenario.
        path: &'static str,
        /// Why.
        source: functions::FunctionError,
    },
    /// The user ended it before there was any result.
    #[error("stopped while loading the {during}: nothing was simulated yet, so there is no result")]
    Stopped {
        /// What was being loaded.
        during: String,
    },
    /// Results could not be written.
    #[error("{path}: {message}")]
    Output {
        /// Where to.
        path: String,
        /// Why not.
        message: String,
    },
}

impl ScenarioError {
    /// The setting that it is about, where it is about one.
    fn path(&self) -> Option<&str> {
        match self {
            ScenarioError::Value { path, .. } => Some(path),
            ScenarioError::Machine(e) => Some(&e.path),
            _ => None,
        }
    }

    /// Whether it is about one of `paths`, or about what is in it.
    fn concerns(&self, paths: &[String]) -> bool {
        let Some(own) = self.path() else { return false };
        paths.iter().any(|path| own == *path || own.starts_with(&format!("{path}.")))
    }
}

/// What is wrong with a scenario.
struct Found<'a> {
    origin: &'a str,
    errors: Vec<ScenarioError>,
}

impl Found<'_> {
    fn add(&mut self, path: impl Into<String>, message: String) {
        self.errors.push(ScenarioError::Value { origin: self.origin.into(), path: path.into(), message });
    }

    fn take<T, E: Into<ScenarioError>>(&mut self, checked: Result<T, E>) {
        self.errors.extend(checked.err().map(Into::into));
    }
}

/// Simulated time of a run, at most: far below what 64 bits of picoseconds hold.
const LONGEST_RUN_S: f64 = 1e6;
/// The longest frame with preamble and gap.
const MOST_FRAME_BYTES: u32 = 1538;

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
    /// What made packets carry, for functions that look at it; nothing but headers when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadSpec>,
    /// Times of other rates and sizes that follow each other, and begin again after the last; the load is their mean.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseSpec>,
}

impl TrafficSpec {
    /// Whether `profile` is the path of a file, and not the name of a shipped one.
    pub fn profile_is_a_file(&self) -> bool {
        let is_file = |name| FileSetting::of("traffic.profile").is_some_and(|setting| setting.is_file(name));
        self.profile.as_deref().is_some_and(is_file)
    }

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

/// What is done to each packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FunctionSpec {
    /// Which function.
    #[serde(skip_serializing_if = "is_default")]
    pub kind: FunctionKind,
    /// IP forwarding.
    pub forward: ForwardingSpec,
    /// The user plane function of a 5G core.
    #[serde(skip_serializing_if = "is_default")]
    pub upf: UserPlaneSpec,
    /// A copy of each packet into a guest's buffers before it is forwarded, as vhost makes it; none when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopySpec>,
    /// The header check.
    #[serde(skip_serializing_if = "is_default")]
    pub check: CheckSpec,
    /// Classification by rules.
    #[serde(skip_serializing_if = "is_default")]
    pub classify: ClassificationSpec,
    /// Route lookup without anything else.
    #[serde(skip_serializing_if = "is_default")]
    pub lookup: LookupSpec,
    /// Fragmentation.
    #[serde(skip_serializing_if = "is_default")]
    pub fragment: FragmentSpec,
    /// Inspection of payloads.
    #[serde(skip_serializing_if = "is_default")]
    pub inspect: InspectionSpec,
    /// Source network address translation. Made packets and those of captures come in on the inside.
    #[serde(skip_serializing_if = "is_default")]
    pub nat: NatSpec,
    /// The packet filter.
    #[serde(skip_serializing_if = "is_default")]
    pub firewall: FilterSpec,
    /// Made work.
    #[serde(skip_serializing_if = "is_default")]
    pub work: WorkSpec,
    /// A recorded program.
    #[serde(skip_serializing_if = "is_default")]
    pub trace: TraceSpec,
    /// The functions of a chain, in their order; any but `upf` and `chain`. Each is set as if it stood alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<FunctionKind>,
    /// TCP payloads are copied to sockets and to the application before a packet is forwarded, as in a proxy in user
    /// space; they are not when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<SocketSpec>,
}

impl FunctionSpec {
    /// Tables of functions that are not among those that run, and yet say something.
    fn unused(&self) -> Vec<&'static str> {
        let says = [
            ("upf", FunctionKind::Upf, !is_default(&self.upf)),
            ("check", FunctionKind::Check, !is_default(&self.check)),
            ("classify", FunctionKind::Classify, !is_default(&self.classify)),
            ("lookup", FunctionKind::Lookup, !is_default(&self.lookup)),
            ("fragment", FunctionKind::Fragment, !is_default(&self.fragment)),
            ("inspect", FunctionKind::Inspect, !is_default(&self.inspect)),
            ("nat", FunctionKind::Nat, !is_default(&self.nat)),
            ("firewall", FunctionKind::Firewall, !is_default(&self.firewall)),
            ("work", FunctionKind::Work, !is_default(&self.work)),
            ("trace", FunctionKind::Trace, !is_default(&self.trace)),
        ];
        let unused = says.into_iter().filter(|(_, kind, says)| *says && !self.has(*kind));
        unused.map(|(table, ..)| table).collect()
    }
}

/// A packet function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FunctionKind {
    /// IP forwarding, set by `function.forward`.
    #[default]
    Forward,
    /// The user plane function of a 5G core, set by `function.upf`.
    Upf,
    /// The header check, set by `function.check`.
    Check,
    /// Classification, set by `function.classify`.
    Classify,
    /// Route lookup, set by `function.lookup` and the routes of `function.forward`.
    Lookup,
    /// The time to live less one.
    Ttl,
    /// Fragmentation, set by `function.fragment`.
    Fragment,
    /// Inspection of payloads, set by `function.inspect`.
    Inspect,
    /// Address translation, set by `function.nat`.
    Nat,
    /// A packet filter, set by `function.firewall`.
    Firewall,
    /// Made work: so many instructions and loads over so much memory, set by `function.work`.
    Work,
    /// A recorded program: what it did to memory is done again, set by `function.trace`.
    Trace,
    /// Several functions one after the other, named by `function.chain`.
    Chain,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The user plane function: its sessions, and whose traffic there is. Of a capture that is replayed, frames to UEs are
/// taken out of their tunnels, as they were when they reached the core; without `sessions` its UEs get one each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UserPlaneSpec {
    /// A file of sessions. Without one they are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<PathBuf>,
    /// Made sessions.
    pub load: SessionLoad,
    /// The share of made packets that are uplink.
    pub uplink: f64,
    /// How packets are processed.
    pub processing: UpfSpec,
}

impl Default for UserPlaneSpec {
    fn default() -> Self {
        // Assumed: users' acknowledgements and uploads against their downloads.
        UserPlaneSpec { sessions: None, load: SessionLoad::default(), uplink: 0.3, processing: UpfSpec::default() }
    }
}

/// IP forwarding: which routes, and how they are looked up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ForwardingSpec {
    /// A routing table: MRT or a list of prefixes, also compressed. Without one a table is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<PathBuf>,
    /// IPv4 prefixes of a made table, with the prefix lengths of a real full table.
    pub prefixes: u32,
    /// Next hops of a made table, or of a list without next hops.
    pub next_hops: u32,
    /// How lookups are done.
    pub lookup: ForwardSpec,
}

impl Default for ForwardingSpec {
    fn default() -> Self {
        ForwardingSpec {
            table: None,
            prefixes: traffic::Table::FULL_IPV4 as u32,
            next_hops: 64,
            lookup: ForwardSpec::default(),
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
    /// A title for people.
    #[serde(default)]
    pub name: String,
    /// Cores that forward packets, each with a receive queue of its own unless there is a `pipeline`.
    pub cores: u32,
    /// Each core.
    pub core: CoreSpec,
    /// First-level data cache of each core.
    pub l1: CacheSpec,
    /// Second-level cache of each core.
    pub l2: CacheSpec,
    /// Address translation of each core; free when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tlb: Option<TlbSpec>,
    /// What each core's L2 asks for before it is wanted; nothing when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetcher: Option<PrefetcherSpec>,
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
    /// One of so many sets of the LLC is followed, and other lines do as followed ones of their kind did: a power
    /// of two up to 64. 1, or left out: all are. See `wirespeed sampling`.
    #[serde(default = "all_sets", skip_serializing_if = "is_all_sets")]
    pub sampling: u32,
    /// Classes of service of the LLC by number, 0 to 15: which ways each may fill, and which cores and neighbours are in it.
    /// Packet cores that none names are in class 1, or in class 2 where they work on what others have received; neighbours
    /// are in class 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clos: BTreeMap<String, ClosSpec>,
    /// Several sockets: which cores, the NIC and memory are on, and the links between them. One when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets: Option<SocketsSpec>,
}

fn all_sets() -> u32 {
    1
}

fn is_all_sets(one_in: &u32) -> bool {
    *one_in == 1
}

impl MachineSpec {
    /// The memory system with DRAM that answers at once, for whoever does not wait for controllers.
    pub fn memory_at_once(&self) -> MemorySpec {
        let mut memory = self.memory();
        memory.dram.controller = None;
        memory
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
    /// Regions that there are not, sockets with what is modelled for one.
    pub(crate) fn place(&self, memory: &mut Hierarchy, layout: &ServerLayout) -> Result<(), machine::MachineError> {
        memory.tables_at(Addr(layout.bytes()));
        if let Some(tlb) = &self.tlb {
            memory.map_pages(tlb, layout.extents(), "machine")?;
        }
        if let Some(sockets) = &self.sockets {
            memory.on_sockets(sockets, &self.memory_at_once(), layout.extents(), "machine")?;
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
    /// Packets offered before measurement begins. Left out: as many as it takes, by MSER-5, for the sojourn to
    /// settle, but at least a tenth of `packets` and until every mbuf has been used, and at most `packets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u64>,
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
    pub search: Option<Search>,
    /// Packets of each trial of a search. Left out: as many as it takes for an overload by
    /// `search_resolution` to fill all receive rings and the NIC's packet memory, and at least 200000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_packets: Option<u64>,
    /// The search ends when its interval is narrower than this share of the line rate.
    pub search_resolution: f64,
    /// Loss that `pdr` accepts.
    pub loss_limit: f64,
}

impl Default for RunSpec {
    fn default() -> Self {
        RunSpec {
            packets: 1_000_000,
            warmup: None,
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
        // Without a warm-up that is given up to as many packets as are measured come before.
        let packets = self.packets as f64 + self.warmup.unwrap_or(self.packets) as f64;
        let seconds = packets / per_second;
        (seconds > LONGEST_RUN_S).then(|| {
            format!(
                "{packets:.0} packets may take {seconds:.1e} s: allowed are {LONGEST_RUN_S:.0e} s of simulated time (raise the rate, \
                 or lower run.packets and run.warmup)"
            )
        })
    }

    fn check(&self, found: &mut Found) {
        if !(1_000..=1_000_000_000_000).contains(&self.packets) {
            found.add("run.packets", format!("{}: allowed are 1000 to 1e12", self.packets));
        }
        if let Some(n) = self.warmup.filter(|n| *n > 1_000_000_000_000) {
            found.add("run.warmup", format!("{n}: allowed are 0 to 1e12"));
        }
        for (i, x) in self.curve.iter().enumerate().filter(|(_, x)| !(**x > 0.0 && **x <= 1.0)) {
            found.add(format!("run.curve[{i}]"), format!("{x}: allowed is a share of line rate, above 0 up to 1"));
        }
        if self.curve.len() > 1000 {
            found.add("run.curve", format!("{} points: allowed are up to 1000", self.curve.len()));
        }
        for (path, n) in [("run.curve_packets", Some(self.curve_packets)), ("run.search_packets", self.search_packets)]
        {
            if let Some(n) = n.filter(|n| !(1_000..=1_000_000_000).contains(n)) {
                found.add(path, format!("{n}: allowed are 1000 to 1e9"));
            }
        }
        if !(self.search_resolution >= 1e-5 && self.search_resolution <= 0.5) {
            found.add("run.search_resolution", format!("{}: allowed are 1e-5 to 0.5", self.search_resolution));
        }
        if !(self.loss_limit >= 0.0 && self.loss_limit < 1.0) {
            found.add("run.loss_limit", format!("{}: allowed is a share of 0 to less than 1", self.loss_limit));
        }
    }
}

/// What is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Search {
    /// The highest rate without loss (no-drop rate).
    Ndr,
    /// The highest rate with a loss of at most `loss_limit` (partial-drop rate).
    Pdr,
}

/// A shipped file.
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! presets {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(Preset { name: $name, text: include_str!(concat!("../../../presets/", $folder, "/", $name, ".toml")) }),*]
    };
}

/// Shipped machines; the first is the default.
pub const MACHINES: &[Preset] = presets!(
    "machines": "xeon-gold-6140", "xeon-e5-2697a-v4", "epyc-7402p", "xeon-platinum-8163", "xeon-platinum-8380",
    "xeon-platinum-8480", "2x-xeon-gold-6140", "2x-xeon-platinum-8380",
);
/// Shipped scenarios; the first is the demo.
pub const SCENARIOS: &[Preset] = presets!(
    "scenarios": "forwarding", "forwarding-64b", "forwarding-one-core", "upf", "upf-pipeline", "vhost", "socket", "classify",
    "inspect", "nat", "router-chain",
);

impl Preset {
    /// The first line of its comment.
    pub fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
    }
}

/// What the command line says beyond the scenario file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `path=value`, the value in TOML or a bare string.
    pub set: Vec<String>,
    /// Replays this capture instead of the scenario's traffic.
    pub capture: Option<PathBuf>,
    /// Routes by this table.
    pub table: Option<PathBuf>,
    /// In place of `run.seed`.
    pub seed: Option<u64>,
    /// In place of `run.search`.
    pub search: Option<Search>,
}

impl Overrides {
    /// That nothing is said twice: by an option and by a setting, or by two settings that exclude each other.
    fn check(&self) -> Result<(), ScenarioError> {
        let paths: Vec<&str> = self.set.iter().map(|set| set.split('=').next().unwrap_or_default().trim()).collect();
        let by_profile = paths.contains(&"traffic.profile");
        let said = [
            ("--capture", self.capture.is_some(), "traffic.capture"),
            ("--capture", self.capture.is_some(), "traffic.profile"),
            ("--table", self.table.is_some(), "function.forward.table"),
            ("--seed", self.seed.is_some(), "run.seed"),
            ("--search", self.search.is_some(), "run.search"),
            ("--set traffic.profile", by_profile, "traffic.capture"),
        ];
        match said.into_iter().find(|(_, given, path)| *given && paths.contains(path)) {
            Some((option, _, path)) => Err(ScenarioError::Value {
                origin: "--set".into(),
                path: path.into(),
                message: format!("given with {option}: allowed is one of them (remove the other)"),
            }),
            None => Ok(()),
        }
    }
}

impl Scenario {
    /// Reads a scenario: the machine preset, then the text, then the overrides, each over what came
    /// before. Relative paths in the text are relative to `origin`'s folder.
    ///
    /// # Errors
    /// See [`ScenarioError`]; every message names the path in the scenario.
    pub fn read(text: &str, origin: &str, overrides: &Overrides) -> Result<Scenario, ScenarioError> {
        let mut own: toml::Table = toml::from_str(text).map_err(|e| ScenarioError::Syntax {
            origin: origin.into(),
            message: e.to_string().trim_end().to_string(),
        })?;
        refuse_counted_masks(text, origin)?;
        let folder = Path::new(origin).parent().unwrap_or(Path::new(""));
        for setting in FILES {
            setting.beside(&mut own, folder);
        }
        let before = own.clone();
        overrides.check()?;
        let shipped = find(SCENARIOS, origin).is_some();
        let mut replaced = Vec::new();
        if let Some(capture) = &overrides.capture {
            let traffic = table(&mut own, "traffic");
            replaced = drop_made_traffic(traffic, shipped);
            traffic.insert("capture".into(), capture.to_string_lossy().into_owned().into());
        }
        // A capture comes before what is said beside it, in whatever order.
        let is_capture = |set: &&String| set.split('=').next().is_some_and(|path| path.trim() == "traffic.capture");
        let (captures, others): (Vec<&String>, Vec<&String>) = overrides.set.iter().partition(is_capture);
        for set in captures.into_iter().chain(others) {
            replaced.extend(apply(&mut own, set, shipped)?);
        }
        if own.get("neighbours").is_some_and(toml::Value::is_table) {
            return Err(ScenarioError::Value {
                origin: origin.into(),
                path: "neighbours".into(),
                message: "one table: a list of them is wanted (write [[neighbours]] above each)".into(),
            });
        }
        for section in ["traffic", "function", "machine", "nic", "mempool", "run"] {
            if let Some(value) = own.get(section).filter(|v| !v.is_table()) {
                return Err(ScenarioError::Value {
                    origin: origin.into(),
                    path: section.into(),
                    message: format!("{value}: a table of settings is wanted (write [{section}] above them)"),
                });
            }
        }
        if let Some(path) = &overrides.table {
            let forward = table(table(&mut own, "function"), "forward");
            forward.insert("table".into(), path.to_string_lossy().into_owned().into());
        }
        if let Some(seed) = overrides.seed {
            let seed = i64::try_from(seed).map_err(|_| ScenarioError::Value {
                origin: "--seed".into(),
                path: "run.seed".into(),
                message: format!("{seed}: allowed are 0 to {}", i64::MAX),
            })?;
            table(&mut own, "run").insert("seed".into(), seed.into());
        }
        if let Some(search) = overrides.search {
            let name = if search == Search::Ndr { "ndr" } else { "pdr" };
            table(&mut own, "run").insert("search".into(), name.into());
        }
        let title = title(&before, &own, origin);
        let name = match get_mut(&mut own, &["machine", "preset"]) {
            None => MACHINES[0].name.to_string(),
            Some(toml::Value::String(name)) => name.clone(),
            Some(other) => {
                return Err(ScenarioError::Value {
                    origin: origin.into(),
                    path: "machine.preset".into(),
                    message: format!("{other}: a name is wanted, one of {}", names(MACHINES).join(", ")),
                });
            }
        };
        let text = match find(MACHINES, &name) {
            Some(preset) => preset.text.to_string(),
            None if name.ends_with(".toml") => crate::own_machine::text(origin, &name)?,
            None => {
                return Err(ScenarioError::Preset {
                    origin: origin.into(),
                    path: "machine.preset".into(),
                    known: known(&names(MACHINES), &name),
                    name,
                });
            }
        };
        refuse_counted_masks(&text, &name)?;
        let mut merged: toml::Table = toml::from_str(&text)
            .map_err(|e| ScenarioError::Syntax { origin: name.clone(), message: e.to_string() })?;
        let keeps_name = get_mut(&mut own, &["machine", "name"]).is_some();
        let touches_machine = own.get("machine").is_some();
        let slower = clock_alone(&mut own);
        let ways = ways_of(&mut own).filter(|_| get_mut(&mut own, &["machine", "llc", "size"]).is_none());
        let keeps_pool = get_mut(&mut own, &["mempool", "size"]).is_some();
        let usual = merged.clone();
        if let Some(toml::Value::String(standard)) = get_mut(&mut own, &["machine", "dram", "standard"]) {
            apply_standard(&mut merged, standard).map_err(|e| ScenarioError::Value {
                origin: origin.into(),
                path: "machine.dram.standard".into(),
                message: e,
            })?;
        }
        let looks_ahead = get_mut(&mut own, &["machine", "core", "lookahead"]).is_some();
        merge(&mut merged, own);
        if !looks_ahead && get_mut(&mut merged, &["machine", "dram", "controller"]).is_some() {
            // Cores that look ahead need answers at once.
            table(table(&mut merged, "machine"), "core").insert("lookahead".into(), "0 ns".into());
        }
        let moved = ways.and_then(|ways| fit_size(&mut merged, &usual, ways));
        let grown = if keeps_pool { None } else { grow_pool(&mut merged) };
        table(&mut merged, "machine").insert("preset".into(), name.into());
        if let Some(title) = title {
            merged.insert("name".into(), title.into());
        }

        let not_a_number = not_a_number(&merged);
        let value = |path: String, message: String| ScenarioError::Value { origin: origin.into(), path, message };
        let Resolved { scenario, faults } = resolve(merged, &usual);
        let paths: Vec<String> = faults.iter().map(|(path, _)| path.clone()).collect();
        let mut errors: Vec<ScenarioError> = faults.into_iter().map(|(path, message)| value(path, message)).collect();
        if let Some(scenario) = &scenario {
            // What follows from a value that was replaced is nobody's mistake.
            let mut found = scenario.check(origin);
            found.retain(|error| !error.concerns(&paths));
            errors.append(&mut found);
            let machine = unbuildable(scenario, &usual).into_iter().map(ScenarioError::Machine);
            let known: Vec<String> = errors.iter().filter_map(ScenarioError::path).map(String::from).collect();
            errors.extend(machine.filter(|error| !error.concerns(&paths) && !error.concerns(&known)));
        }
        if let Some(path) = not_a_number
            && errors.is_empty()
        {
            errors.push(value(path, "nan: a number is wanted".into()));
        }
        as_error(errors)?;
        let Some(mut scenario) = scenario else {
            return Err(value(String::new(), "it cannot be read".into()));
        };
        if !keeps_name && touches_machine {
            scenario.machine.name = machine_name(&scenario.machine, &usual);
        }
        scenario.replaced.extend(moved.into_iter().chain(grown).chain(slower));
        // A shipped scenario's traffic is nobody's choice.
        if !shipped && !replaced.is_empty() {
            let list = replaced.join(", ");
            scenario.replaced.push(format!("the capture takes the place of what {origin} says of traffic: {list}"));
        }
        Ok(scenario)
    }

    /// Checks what no single component can, and each component: all that is wrong.
    fn check(&self, origin: &str) -> Vec<ScenarioError> {
        let mut found = Found { origin, errors: Vec::new() };
        self.check_traffic(&mut found);
        // Before what hangs on it: a pool for so many cores would be blamed.
        let cores = self.machine.cores;
        let cores_fit = (1..=MAX_CORES).contains(&cores);
        if !cores_fit {
            let allowed = format!("{cores}: allowed are 1 to {MAX_CORES} (simulated cores, not those of this host)");
            found.add("machine.cores", allowed);
        }
        self.run.check(&mut found);
        self.check_function(&mut found);
        self.check_machine(&mut found);
        if cores_fit {
            self.check_server(&mut found);
        }
        found.errors
    }

    fn check_traffic(&self, found: &mut Found) {
        let t = &self.traffic;
        let rates = [
            ("load", t.load.is_some()),
            ("rate", t.rate.is_some()),
            ("packet_rate", t.packet_rate.is_some()),
            ("speed", t.speed.is_some()),
        ];
        let given: Vec<_> = rates.iter().filter(|r| r.1).map(|r| r.0).collect();
        if given.len() > 1 {
            let given = given.join(" and ");
            found.add("traffic", format!("{given} given: allowed is one of them (remove the others)"));
        }
        let made = [
            ("profile", t.profile.is_some()),
            ("sizes", t.sizes.is_some()),
            ("mix", t.mix.is_some()),
            ("flows", t.flows.is_some()),
            ("payload", t.payload.is_some()),
            ("phases", !t.phases.is_empty()),
        ];
        for (key, _) in made.into_iter().filter(|(_, given)| *given && t.capture.is_some()) {
            let remedy = "a capture brings its own packets";
            let message = format!("given with traffic.capture: allowed is one of them (remove the other; {remedy})");
            found.add(format!("traffic.{key}"), message);
        }
        if let Some(load) = t.load
            && !(load > 0.0 && load <= 1.0)
        {
            found.add("traffic.load", format!("{load}: allowed is a share of line rate, above 0 up to 1"));
        }
        if let Some(speed) = t.speed {
            if t.capture.is_none() {
                let message = "only a capture has timestamps (set traffic.capture, or give load or rate)";
                found.add("traffic.speed", message.into());
            }
            if !(speed > 0.0 && speed <= 1e9) {
                found.add("traffic.speed", format!("{speed}: allowed is above 0 up to 1e9"));
            }
        }
        self.check_span(found);
    }

    /// That the last packet comes before simulated time ends.
    fn check_span(&self, found: &mut Found) {
        let t = &self.traffic;
        let bits = f64::from(MOST_FRAME_BYTES) * 8.0;
        let line = self.nic.rate.gbps() * 1e9;
        let (path, per_second) = match (t.load, t.rate, t.packet_rate) {
            (Some(load), ..) => ("traffic.load", load * line / bits),
            (_, Some(rate), _) => ("traffic.rate", rate.gbps() * 1e9 / bits),
            (.., Some(rate)) => ("traffic.packet_rate", rate.mpps() * 1e6),
            _ => return,
        };
        if let Some(message) = self.run.outlasts_time(per_second) {
            found.add(path, message);
        }
    }

    fn check_function(&self, found: &mut Found) {
        let f = &self.function.forward;
        if !(1..=4_000_000).contains(&f.prefixes) {
            found.add("function.forward.prefixes", format!("{}: allowed are 1 to 4000000", f.prefixes));
        }
        if !(1..=1_000_000).contains(&f.next_hops) {
            found.add("function.forward.next_hops", format!("{}: allowed are 1 to 1000000", f.next_hops));
        }
        if let Err((path, message)) = self.function.check_applications() {
            found.add(path, message);
        }
        let (copy, socket) = (&self.function.copy, &self.function.socket);
        for (path, checked) in [
            ("function.copy", copy.as_ref().map(|copy| copy.check("function.copy"))),
            ("function.socket", socket.as_ref().map(|socket| socket.check("function.socket"))),
        ] {
            if checked.is_some() && self.function.kind != FunctionKind::Forward {
                found.add(path, "goes with forwarding only (remove it, or function.kind)".into());
            }
            if let Some(Err(e)) = checked {
                let (path, message) = match e {
                    functions::FunctionError::Value { path, came, allowed } => (path, format!("{came}: {allowed}")),
                    other => (path.into(), other.to_string()),
                };
                found.add(path, message);
            }
        }
        if copy.is_some() && socket.is_some() {
            found.add("function", "copy and socket given: allowed is one of them (remove the other)".into());
        }
        if self.function.kind == FunctionKind::Upf {
            let u = &self.function.upf;
            found.take(u.load.check("load").map_err(ScenarioError::UserPlane));
            if !(0.0..=1.0).contains(&u.uplink) {
                found.add("function.upf.uplink", format!("{}: allowed is a share of 0 to 1", u.uplink));
            }
        }
    }

    fn check_machine(&self, found: &mut Found) {
        let m = &self.machine;
        found.take(m.memory().check_times("machine"));
        found.take(m.core.check("machine.core"));
        found.take(m.dram.energy("machine.dram"));
        let lookahead = m.core.lookahead;
        if m.dram.controller.is_some() && lookahead.ps() > units::Ps::ZERO {
            found.add(
                "machine.core.lookahead",
                format!(
                    "{lookahead} with machine.dram.controller: allowed is 0 ns (leave it out; a core that looks ahead \
                     needs DRAM that answers at once)"
                ),
            );
        }
        if m.dram.controller.is_some() && m.copy_engine.is_some() {
            found.add(
                "machine.copy_engine",
                "with machine.dram.controller: allowed is one of them (remove the other; a copy table goes with \
                 controllers)"
                    .into(),
            );
        }
        let beside_tails = [
            ("sampling", m.sampling > 1),
            ("sockets", m.sockets.is_some()),
            ("copy_table", m.copy_table.is_some()),
            ("copy_engine", m.copy_engine.is_some()),
            ("applications", !m.applications.is_empty()),
        ];
        if let Some((field, _)) = beside_tails.into_iter().find(|(_, given)| *given && self.nic.cache_cells > 0) {
            let message =
                format!("{} with machine.{field}: allowed is one of them (remove the other)", self.nic.cache_cells);
            found.add("nic.cache_cells", message);
        }
        if let Some(sockets) = &m.sockets {
            let one_socket = [(!m.applications.is_empty(), "applications"), (m.stacked.is_some(), "stacked")];
            for (_, field) in one_socket.into_iter().filter(|(given, _)| *given) {
                let message =
                    "with machine.sockets: allowed is one of them (remove the other; it is modelled for one socket)";
                found.add(format!("machine.{field}"), message.into());
            }
            found.take(sockets.check("machine.sockets"));
        }
    }

    fn check_server(&self, found: &mut Found) {
        found.take(self.nic.check("nic"));
        if let Some(pipeline) = &self.pipeline {
            found.take(pipeline.check("pipeline", self.machine.cores));
        }
        if let Some(policy) = &self.policy
            && let Err((field, message)) = policy.check(self.machine.llc.ways)
        {
            found.add(format!("policy.{field}"), message);
        }
        for (i, neighbour) in self.neighbours.iter().enumerate() {
            if let Err((field, message)) = neighbour.check() {
                found.add(format!("neighbours[{i}].{field}"), message);
            }
        }
        if let Err((path, message)) = clos::check(self) {
            found.add(path, message);
        }
        found.take(self.mempool.check("mempool", self.receiving_cores(), self.nic.rx_descriptors, self.nic.burst));
        if let Some(buffer) = &self.buffer {
            if buffer.cell.bytes() < LINE_BYTES {
                let allowed = "allowed are 64 B or more (a server's memory works in lines)";
                found.add("buffer.cell", format!("{}: {allowed}", buffer.cell));
            } else {
                found.take(PacketBuffer::new(buffer, "buffer", |_| 0));
            }
        }
    }

    /// Settings that do nothing here, in words.
    pub(crate) fn idle_settings(&self) -> Vec<String> {
        let f = &self.function;
        let mut idle = self.replaced.clone();
        if f.forward.table.is_some() && ![FunctionKind::Forward, FunctionKind::Lookup].into_iter().any(|k| f.has(k)) {
            let made = self.traffic.capture.is_none() && f.kind != FunctionKind::Upf;
            let left = if made { "it only says where made packets go" } else { "it has nothing to do" };
            idle.push(format!("function.forward.table: this function has no routes, so {left}"));
        }
        let copies =
            f.copy.is_some() || f.socket.is_some() || f.has(FunctionKind::Fragment) || f.has(FunctionKind::Trace);
        let m = &self.machine;
        let given = [("machine.copy_table", m.copy_table.is_some()), ("machine.copy_engine", m.copy_engine.is_some())];
        let without_copies = given.into_iter().filter(|(_, given)| *given && !copies);
        idle.extend(without_copies.map(|(path, _)| {
            format!("{path} has nothing to do: this function copies nothing (function.copy and function.socket copy packets)")
        }));
        let (llc, usual) = (&m.llc, LlcSpec::USUAL_AGES);
        let by_age = matches!(llc.replacement, Replacement::Age | Replacement::AgeRandom);
        for (key, class) in &m.clos {
            if class.cores.is_empty() && class.neighbours.is_empty() && !matches!(key.as_str(), "0" | "1" | "2") {
                idle.push(format!(
                    "machine.clos.{key} has nothing to do: nobody is in it (give it cores or neighbours)"
                ));
            }
        }
        if !by_age && (llc.core_age, llc.io_age) != usual {
            idle.push(
                "machine.llc.core_age and io_age have nothing to do: only machine.llc.replacement = \"age\" or \"age_random\" \
                 looks at them"
                    .into(),
            );
        }
        if self.nic.cache_cells > 0
            && llc.io_ways.count() != 0
            && self.nic.output_block.is_none()
            && self.policy.is_none()
        {
            idle.push(
                "nic.cache_cells has nothing to do: the LLC's I/O ways take what the NIC writes, and it reads each packet in one \
                 go (machine.llc.io_ways = 0 has it written past the LLC, nic.output_block has queues take turns)"
                    .into(),
            );
        }
        let dram = &self.machine.dram;
        let closes = dram.page != PagePolicy::Open
            || dram.controller.as_ref().is_some_and(|c| c.page.is_some_and(|page| page != Page::Open));
        if dram.all_hits && closes {
            idle.push(
                "machine.dram.page and controller.page have nothing to do: with machine.dram.all_hits every row is open".into(),
            );
        }
        idle.extend(f.unused().into_iter().map(|table| {
            let kind = toml::Value::try_from(f.kind).map_or_else(|_| String::new(), |kind| kind.to_string());
            format!(
                "function.{table} has nothing to do: function.kind is {kind}, and no member of its chain is set by it"
            )
        }));
        if llc.core_ways.is_some() && self.policy.is_some() {
            idle.push("machine.llc.core_ways has nothing to do: the policy sets the ways of all classes".into());
        }
        idle
    }

    /// Cores that poll a queue of the NIC.
    pub fn receiving_cores(&self) -> u32 {
        self.pipeline.as_ref().map_or(self.machine.cores, |p| p.rx_cores)
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

/// A module has one channel, or two of half its width; stacks have 16 and more.
const MODULE_CHANNELS: u32 = 2;

/// Gives a machine the DRAM of a shipped standard. Its controller stays, and where the standard is one of modules so do
/// its channels, each as many as a module has (two with DDR5). A stack brings its own.
fn apply_standard(merged: &mut toml::Table, name: &str) -> Result<(), String> {
    if !machine::dram::presets::NAMES.contains(&name) {
        return Err(format!("{name:?}: no such standard: {}", known(&machine::dram::presets::NAMES, name)));
    }
    let dram = table(table(merged, "machine"), "dram");
    let overhead = match dram.get("overhead").cloned().map(toml::Value::try_into::<units::Span>) {
        Some(Ok(overhead)) => overhead,
        _ => units::Span::from_ns(0.0),
    };
    let spec = machine::dram::DramSpec::of_standard(name, overhead).map_err(|e| e.to_string())?;
    let mut own = toml::Table::try_from(&spec).map_err(|e| e.to_string())?;
    // Those of the devices that it replaces.
    dram.remove("currents");
    if spec.channels <= MODULE_CHANNELS
        && let Some(toml::Value::Integer(channels)) = dram.get("channels")
    {
        own.insert("channels".into(), (channels * i64::from(spec.channels)).into());
    }
    merge(dram, own);
    Ok(())
}

/// The path of a value that is no number, if there is one. Checks see the settings that take part; this sees all, since a
/// scenario that has one somewhere does not equal itself.
fn not_a_number(table: &toml::Table) -> Option<String> {
    fn within(value: &toml::Value) -> Option<String> {
        match value {
            toml::Value::Float(x) => x.is_nan().then(String::new),
            toml::Value::Array(values) => {
                values.iter().enumerate().find_map(|(at, value)| Some(format!("[{at}]{}", within(value)?)))
            }
            toml::Value::Table(table) => not_a_number(table).map(|path| format!(".{path}")),
            _ => None,
        }
    }
    table.iter().find_map(|(key, value)| Some(format!("{key}{}", within(value)?)))
}

/// Refuses a mask of ways that is written as a number: it reads as the number that it is, and would be taken for a count.
///
/// # Errors
/// The first such setting in `text`, which is TOML.
pub fn refuse_counted_masks(text: &str, origin: &str) -> Result<(), ScenarioError> {
    match text.lines().find_map(counted_mask) {
        None => Ok(()),
        Some((path, value)) => Err(ScenarioError::Value {
            origin: origin.into(),
            path,
            message: format!("{value}: a bare number is how many ways (write a mask as text: \"{value}\")"),
        }),
    }
}

/// The key that ends in `ways` and its mask, where a line has one.
fn counted_mask(line: &str) -> Option<(String, String)> {
    const KEY: &str = "ways";
    let line = line.split('#').next().unwrap_or(line);
    line.match_indices(KEY).find_map(|(at, _)| {
        let value = line[at + KEY.len()..].trim_start_matches(['"', ' ', '\t']).strip_prefix('=')?.trim_start();
        let end = value.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(value.len());
        let start = line[..at].rfind(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c))).map_or(0, |n| n + 1);
        let mask = value.starts_with("0b") || value.starts_with("0x");
        mask.then(|| (line[start..at + KEY.len()].to_string(), value[..end].to_string()))
    })
}

/// The ways that settings give the LLC.
fn ways_of(settings: &mut toml::Table) -> Option<u32> {
    get_mut(settings, &["machine", "llc", "ways"])?.as_integer().and_then(|n| u32::try_from(n).ok())
}

/// An LLC of other ways than `usual` has keeps its sets, and so has another size: what is to be said about it.
fn fit_size(merged: &mut toml::Table, usual: &toml::Table, ways: u32) -> Option<String> {
    let mut usual = usual.clone();
    let before = ways_of(&mut usual).filter(|before| *before > 0 && *before != ways)?;
    let size = get_mut(&mut usual, &["machine", "llc", "size"])?.clone().try_into::<units::Size>().ok()?;
    let bytes = size.bytes() / u64::from(before) * u64::from(ways);
    let fitted = units::Size::from_bytes(bytes);
    *get_mut(merged, &["machine", "llc", "size"])? = toml::Value::String(fitted.to_string());
    Some(format!(
        "machine.llc.ways = {ways}: the sets stay, so the LLC has {} in place of {} (set machine.llc.size, too, for another \
         one; to hold cores to some ways, as CAT does, set machine.llc.core_ways)",
        mib(bytes),
        mib(size.bytes()),
    ))
}

fn mib(bytes: u64) -> String {
    let text = format!("{:.2}", bytes as f64 / f64::from(1 << 20));
    format!("{} MiB", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Makes a preset's pool as large as more cores, longer rings or software queues want it: by the sum that DPDK's l3fwd
/// takes of what can hold mbufs, to the next power of two. A pool that stayed as it is would starve, and what was
/// asked for would not be seen.
fn grow_pool(merged: &mut toml::Table) -> Option<String> {
    let mut number = |path: &[&str]| {
        get_mut(merged, path).and_then(|v| v.as_integer()).and_then(|n| u64::try_from(n).ok()).filter(|&n| n < 1 << 24)
    };
    let cores = number(&["machine", "cores"]).unwrap_or(0);
    let receiving = number(&["pipeline", "rx_cores"]).unwrap_or(cores).min(cores);
    let queued = match number(&["pipeline", "rx_cores"]) {
        Some(_) => {
            (cores - receiving).saturating_mul(number(&["pipeline", "queue"]).unwrap_or(PipelineSpec::QUEUE.into()))
        }
        None => 0,
    };
    let sent = number(&["nic", "ports"]).unwrap_or(0).saturating_mul(number(&["nic", "tx_descriptors"]).unwrap_or(0));
    let held = [
        receiving.saturating_mul(number(&["nic", "rx_descriptors"]).unwrap_or(0)),
        cores.saturating_mul(sent),
        cores.saturating_mul(number(&["mempool", "cache"]).unwrap_or(0)),
        queued,
    ];
    let wanted = held.into_iter().fold(0, u64::saturating_add);
    let size = get_mut(merged, &["mempool", "size"])?;
    let before = size.as_integer().and_then(|n| u64::try_from(n).ok()).filter(|n| *n < wanted)?;
    let grown = i64::try_from(wanted.checked_next_power_of_two()?).ok()?;
    *size = toml::Value::Integer(grown);
    Some(format!(
        "mempool.size is {grown} in place of the machine's {before}: rings, queues and caches hold up to {wanted} mbufs (set it for \
         another one)"
    ))
}

/// The name of a machine, with what of it is another than its preset, `usual`, has.
fn machine_name(machine: &MachineSpec, usual: &toml::Table) -> String {
    let mut changes = Vec::new();
    if let Some(preset) = resolve(usual.clone(), usual).scenario
        && let (Ok(was), Ok(is)) = (toml::Table::try_from(&preset.machine), toml::Table::try_from(machine))
    {
        changed("", &was, &is, &mut changes);
    }
    // A standard brings its timings with it.
    let by_standard = changes.iter().any(|(path, _)| path == "dram.standard");
    changes.retain(|(path, _)| {
        !["name", "preset"].contains(&path.as_str())
            && (!by_standard || path == "dram.standard" || !path.starts_with("dram."))
    });
    let with = if changes.is_empty() { "" } else { " with " };
    format!("{}{with}{}", machine.name, listed(&changes))
}

/// The first of some changes, and how many more there are.
fn listed(changes: &[(String, String)]) -> String {
    let named: Vec<String> =
        changes.iter().take(NAMED_CHANGES).map(|(path, value)| format!("{path}={value}")).collect();
    let more = changes.len().saturating_sub(NAMED_CHANGES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

/// Says so where a core has another frequency and its caches, whose latencies are times, have not.
fn clock_alone(own: &mut toml::Table) -> Option<String> {
    get_mut(own, &["machine", "core", "frequency"])?;
    let kept = |cache: &str, own: &mut toml::Table| get_mut(own, &["machine", cache, "latency"]).is_none();
    (kept("l1", own) && kept("l2", own)).then(|| {
        "machine.core.frequency: the latencies of L1 and L2 stay the times that the machine has (set machine.l1.latency and \
         machine.l2.latency to keep their cycles)"
            .into()
    })
}

/// The shipped file of that name.
pub fn find(presets: &'static [Preset], name: &str) -> Option<&'static Preset> {
    presets.iter().find(|p| p.name == name)
}

fn names(presets: &[Preset]) -> Vec<&'static str> {
    presets.iter().map(|p| p.name).collect()
}

/// What there is, nearest first if one is near.
pub fn known(names: &[&str], wanted: &str) -> String {
    let list = format!("there are {}", names.join(", "));
    match nearest(names, wanted) {
        Some(near) => format!("did you mean {near}? {list}"),
        None => list,
    }
}

fn nearest<'a>(names: &[&'a str], wanted: &str) -> Option<&'a str> {
    let scored = names.iter().map(|&n| (strsim::jaro_winkler(n, wanted), n));
    scored.filter(|(score, _)| *score > 0.75).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, n)| n)
}

/// Keys of `traffic` that say what made packets are.
const OF_A_PROFILE: [&str; 6] = ["profile", "sizes", "mix", "flows", "payload", "phases"];
/// Changes that a title names.
const NAMED_CHANGES: usize = 3;

/// The title of a scenario of which settings were changed: what it was, and what is another now; none where nothing is,
/// or where it was given a title of its own. How much is run and how often is no other scenario.
fn title(before: &toml::Table, after: &toml::Table, origin: &str) -> Option<String> {
    if before.get("name") != after.get("name") {
        return None;
    }
    let mut changes = Vec::new();
    changed("", before, after, &mut changes);
    changes.retain(|(path, _)| !path.starts_with("run."));
    if changes.is_empty() {
        return None;
    }
    let own = before.get("name").and_then(toml::Value::as_str).unwrap_or_default();
    // A shipped title tells of shipped traffic.
    let replaced = changes.iter().any(|(path, _)| path == "traffic.capture") && find(SCENARIOS, origin).is_some();
    let base = if replaced || own.is_empty() { origin } else { own };
    Some(format!("{base} ({})", listed(&changes)))
}

/// What `after` has otherwise than `before`, by path; what it lacks has been replaced. Of a file the name alone.
fn changed(prefix: &str, before: &toml::Table, after: &toml::Table, found: &mut Vec<(String, String)>) {
    let none = toml::Table::new();
    for (key, is) in after {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        let was = before.get(key);
        match is.as_table() {
            // An empty table is no setting by itself, but asks for its defaults where there was none: `copy_table = {}`.
            Some(is) if is.is_empty() && was.is_none() => found.push((path, "{}".into())),
            Some(is) => changed(&path, was.and_then(toml::Value::as_table).unwrap_or(&none), is, found),
            None if was != Some(is) => found.push((path, written(is))),
            None => {}
        }
    }
}

fn written(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) if text.contains(['/', '\\']) => {
            Path::new(text).file_name().map_or(text.clone(), |name| name.to_string_lossy().into_owned())
        }
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Appends the nearest right name to serde's message about an unknown one.
pub fn with_nearest(message: &str) -> String {
    // TOML's words end with the path, which the error has already.
    let message = message.trim_end();
    let message = message.rsplit_once("\nin `").map_or(message, |(front, _)| front).trim_end();
    // What serde calls by the names of Rust's types.
    if let Some((came, expected)) = message.strip_prefix("invalid value: ").and_then(|it| it.split_once(", expected "))
    {
        let most = match expected {
            "u8" => Some(u32::from(u8::MAX)),
            "u16" => Some(u32::from(u16::MAX)),
            "u32" => Some(u32::MAX),
            _ => None,
        };
        let allowed = most.map_or(expected.into(), |most| format!("0 to {most}"));
        return format!("{}: allowed are {allowed}", came.trim_start_matches("integer ").replace('`', ""));
    }
    if let Some((came, expected)) = message.strip_prefix("invalid type: ").and_then(|it| it.split_once(", expected ")) {
        let wanted = match expected {
            "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
            "i8" | "i16" | "i32" | "i64" => "a whole number",
            "f32" | "f64" => "a number",
            other if other.starts_with("struct ") => "a table of settings",
            other => other,
        };
        return format!("{}: {wanted} is wanted", came.replace('`', ""));
    }
    if message == "missing field `retires`" {
        return "`retires` is missing: allowed are sync, sync-bypass and async (when the instruction that starts the copy retires)".into();
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown ")
        && let Some(wanted) = quoted.next()
        && let allowed = quoted.collect::<Vec<_>>()
        && let Some(near) = nearest(&allowed, wanted)
    {
        return format!("{message} (did you mean `{near}`?)");
    }
    message.to_string()
}

fn table<'a>(parent: &'a mut toml::Table, key: &str) -> &'a mut toml::Table {
    let entry = parent.entry(key).or_insert_with(|| toml::Table::new().into());
    if !entry.is_table() {
        // A wrong kind of value is reported by the schema; here it only must not be in the way.
        *entry = toml::Table::new().into();
    }
    match entry {
        toml::Value::Table(table) => table,
        _ => unreachable!("made a table above"),
    }
}

/// The value at a path of keys.
pub fn get_mut<'a>(parent: &'a mut toml::Table, path: &[&str]) -> Option<&'a mut toml::Value> {
    let (last, front) = path.split_last()?;
    let mut at = parent;
    for key in front {
        at = at.get_mut(*key)?.as_table_mut()?;
    }
    at.get_mut(*last)
}

fn merge(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(base)), toml::Value::Table(over)) => merge(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Drops what says what made packets are, because a capture brings its own; gives what it dropped as `key = value`. A
/// capture also has its own gaps, so that those of a `shipped` scenario go, too; those of a user's file are meant.
fn drop_made_traffic(traffic: &mut toml::Table, shipped: bool) -> Vec<String> {
    let keys = OF_A_PROFILE.iter().chain(shipped.then_some(&"arrivals"));
    keys.filter_map(|key| traffic.remove(*key).map(|value| format!("{key} = {value}"))).collect()
}

/// Applies `path=value`; gives what else was taken out for it.
pub fn apply(scenario: &mut toml::Table, set: &str, shipped: bool) -> Result<Vec<String>, ScenarioError> {
    let error = |path: &str, message: &str| ScenarioError::Value {
        origin: "--set".into(),
        path: path.into(),
        message: message.into(),
    };
    let (path, value) = set
        .split_once('=')
        .ok_or_else(|| error(set, "a path and a value are wanted, for example machine.llc.ways=8"))?;
    let path = path.trim();
    let keys: Vec<&str> = path.split('.').collect();
    let Some((last, front)) = keys.split_last().filter(|_| keys.iter().all(|k| !k.is_empty())) else {
        return Err(error(path, "not a path of names with dots between, such as machine.llc.ways"));
    };
    let value = value.trim();
    // A bare word such as `min64` or `40 Gbps` is a string, and so is a mask where a bare number is a count.
    let is_mask = last.ends_with("ways") && (value.starts_with("0b") || value.starts_with("0x"));
    refuse_counted_masks(value, "--set")?;
    let parsed = toml::from_str::<toml::Table>(&format!("v = {value}")).ok().and_then(|mut t| t.remove("v"));
    let parsed = parsed.filter(|_| !is_mask).map(|parsed| match parsed {
        // `1e6` is how many write a million.
        toml::Value::Float(x) if value.contains(['e', 'E']) && x.fract() == 0.0 && x.abs() < 9e15 => {
            toml::Value::Integer(x as i64)
        }
        other => other,
    });
    let value = parsed.unwrap_or_else(|| toml::Value::String(value.into()));
    let mut at = scenario;
    for key in front {
        let next = at.entry(*key).or_insert_with(|| toml::Table::new().into());
        at = next
            .as_table_mut()
            .ok_or_else(|| error(path, "a part of the path before the last is a value, not a table"))?;
    }
    // A capture and a profile replace each other, with what belongs to a profile.
    let mut replaced = Vec::new();
    if front == ["traffic"] && *last == "capture" {
        replaced = drop_made_traffic(at, shipped);
    } else if front == ["traffic"] && *last == "profile" {
        at.remove("capture");
    }
    // A rate replaces whatever rate the scenario has.
    const RATES: [&str; 4] = ["load", "rate", "packet_rate", "speed"];
    if front == ["traffic"] && RATES.contains(last) {
        RATES.iter().for_each(|r| {
            at.remove(*r);
        });
    }
    at.insert((*last).into(), value);
    Ok(replaced)
}

#[cfg(test)]
mod tests {
    use machine::memory::Ways;

    use super::*;

    fn read(text: &str, set: &[&str]) -> Result<Scenario, ScenarioError> {
        let set = set.iter().map(|s| s.to_string()).collect();
        Scenario::read(text, "test.toml", &Overrides { set, ..Overrides::default() })
    }

    #[test]
    fn every_shipped_machine_and_scenario_is_valid() {
        for machine in MACHINES {
            let s = read(&format!("[machine]\npreset = {:?}", machine.name), &[]).unwrap();
            machine::memory::Hierarchy::new(&s.machine.memory(), s.machine.cores, "machine").unwrap();
            assert!(!s.machine.name.is_empty());
            assert!(machine.title().len() > 10, "{}", machine.name);
        }
        for scenario in SCENARIOS {
            read(scenario.text, &[]).unwrap();
            assert!(scenario.title().len() > 10, "{}", scenario.name);
        }
    }

    #[test]
    fn a_title_tells_what_was_changed_and_whose_traffic_it_is() {
        let forwarding = find(SCENARIOS, "forwarding").unwrap().text;
        let name = |text: &str, origin: &str, set: &[&str], capture: Option<&str>| {
            let set = set.iter().map(|s| s.to_string()).collect();
            let overrides = Overrides { set, capture: capture.map(PathBuf::from), ..Overrides::default() };
            Scenario::read(text, origin, &overrides).unwrap().name
        };
        let shipped = name(forwarding, "forwarding", &[], None);
        assert_eq!(name(forwarding, "forwarding", &["run.packets=5000", "run.seed=3"], None), shipped);
        let changed = name(forwarding, "forwarding", &["machine.llc.ways=8", "traffic.rate=40 Gbps"], None);
        assert_eq!(changed, format!("{shipped} (machine.llc.ways=8, traffic.rate=40 Gbps)"));
        assert_eq!(name(forwarding, "forwarding", &[], Some("a/b.pcap")), "forwarding (traffic.capture=b.pcap)");
        assert_eq!(name("name = \"mine\"", "mine.toml", &[], Some("b.pcap")), "mine (traffic.capture=b.pcap)");
        assert_eq!(name(forwarding, "forwarding", &["name=other", "nic.burst=8"], None), "other");
        let switched = name(forwarding, "forwarding", &["machine.copy_table={}"], None);
        assert_eq!(switched, format!("{shipped} (machine.copy_table={{}})"));
        let many = ["nic.burst=8", "nic.ports=1", "nic.fifo=1 MiB", "mempool.cache=64"];
        assert!(name(forwarding, "forwarding", &many, None).ends_with(" and 1 more)"));
    }

    #[test]
    fn a_capture_and_a_profile_are_one_or_the_other() {
        let read = |text: &str, set: &[&str], capture: Option<&str>| {
            let set = set.iter().map(|s| s.to_string()).collect();
            let overrides = Overrides { set, capture: capture.map(PathBuf::from), ..Overrides::default() };
            Scenario::read(text, "own.toml", &overrides).map(|s| s.traffic).map_err(|e| e.to_string())
        };
        let both =
            "given with traffic.capture: allowed is one of them (remove the other; a capture brings its own packets)";
        for (set, key) in [
            ("traffic.sizes={fixed=\"64 B\"}", "sizes"),
            ("traffic.payload=text", "payload"),
            ("traffic.phases=[{time=\"1 ms\"}]", "phases"),
        ] {
            assert_eq!(read("", &[set], Some("b.pcap")).unwrap_err(), format!("own.toml: traffic.{key}: {both}"));
        }
        let text = "traffic = { capture = \"b.pcap\", profile = \"imix\" }";
        assert_eq!(read(text, &[], None).unwrap_err(), format!("own.toml: traffic.profile: {both}"));
        // What comes later replaces what the file has.
        let own = "traffic = { profile = \"imix\", payload = \"text\", phases = [{ time = \"1 ms\" }] }";
        assert!(read(own, &[], Some("b.pcap")).unwrap().phases.is_empty());
        let found = read("traffic = { profile = \"imix\" }", &["traffic.capture=b.pcap"], None).unwrap();
        assert_eq!((found.profile, found.capture), (None, Some("b.pcap".into())));
        let found = read("traffic = { capture = \"b.pcap\" }", &["traffic.profile=imix"], None).unwrap();
        assert_eq!((found.profile, found.capture), (Some("imix".into()), None));
        assert!(read("", &["traffic.arrivals=poisson"], Some("b.pcap")).unwrap().arrivals.is_some());
    }

    #[test]
    fn a_capture_keeps_the_gaps_of_a_users_file_and_tells_what_it_takes_the_place_of() {
        let read = |origin: &str, set: &[&str], capture: Option<&str>| {
            let text = "traffic = { profile = \"imix\", flows = { count = 5 }, arrivals = \"poisson\" }";
            let set = set.iter().map(|s| s.to_string()).collect();
            let overrides = Overrides { set, capture: capture.map(PathBuf::from), ..Overrides::default() };
            Scenario::read(text, origin, &overrides).unwrap()
        };
        for (set, capture) in [(&[][..], Some("b.pcap")), (&["traffic.capture=b.pcap"], None)] {
            let own = read("mine.toml", set, capture);
            assert!(own.traffic.arrivals.is_some());
            let notes = own.idle_settings();
            assert!(notes[0].contains("mine.toml") && notes[0].contains("profile = \"imix\", flows = {"), "{notes:?}");
            let shipped = read("forwarding", set, capture);
            assert!(shipped.traffic.arrivals.is_none());
            assert_eq!(shipped.idle_settings(), Vec::<String>::new());
        }
    }

    #[test]
    fn what_is_said_twice_is_refused() {
        let read = |overrides: Overrides| Scenario::read("", "own.toml", &overrides).unwrap_err().to_string();
        let set = |set: &[&str]| Overrides { set: set.iter().map(|s| s.to_string()).collect(), ..Overrides::default() };
        for (overrides, path, option) in [
            (
                Overrides { table: Some("a".into()), ..set(&["function.forward.table=b"]) },
                "function.forward.table",
                "--table",
            ),
            (Overrides { seed: Some(3), ..set(&["run.seed=4"]) }, "run.seed", "--seed"),
            (Overrides { search: Some(Search::Ndr), ..set(&["run.search=pdr"]) }, "run.search", "--search"),
            (set(&["traffic.capture=a.pcap", "traffic.profile=isp"]), "traffic.capture", "--set traffic.profile"),
        ] {
            let allowed = "allowed is one of them (remove the other)";
            assert_eq!(read(overrides), format!("--set: {path}: given with {option}: {allowed}"));
        }
    }

    #[test]
    fn a_table_without_a_lookup_is_told_of() {
        let idle = |set: &[&str]| read("", set).unwrap().idle_settings();
        assert_eq!(idle(&["function.forward.table=t"]), Vec::<String>::new());
        assert!(
            idle(&["function.forward.table=t", "function.kind=nat"])[0].ends_with("only says where made packets go")
        );
        let left = idle(&["function.forward.table=t", "function.kind=nat", "traffic.capture=a.pcap"]);
        assert!(left[0].ends_with("it has nothing to do"));
    }

    #[test]
    fn what_is_modelled_for_one_socket_is_refused_with_several() {
        let two = "machine.sockets={count=2, hop=\"60 ns\", rate=\"166 Gbps\"}";
        read("", &[two]).unwrap();
        for (set, field) in [("machine.applications={tables={}}", "applications"), ("machine.stacked={}", "stacked")] {
            let error = read("", &[two, set]).unwrap_err().to_string();
            assert!(error.contains(&format!("machine.{field}: with machine.sockets")), "{error}");
        }
    }

    #[test]
    fn a_copy_engine_without_copies_is_told_of() {
        let idle = |set: &[&str]| read("", set).unwrap().idle_settings();
        assert_eq!(idle(&[]), Vec::<String>::new());
        assert!(idle(&["machine.copy_table={}"])[0].starts_with("machine.copy_table has nothing to do"));
        assert!(idle(&["machine.copy_engine={by=\"dma\"}"])[0].starts_with("machine.copy_engine has nothing to do"));
        assert_eq!(idle(&["machine.copy_table={}", "function.copy={}"]), Vec::<String>::new());
    }

    #[test]
    fn ages_and_masks_that_nobody_looks_at_are_told_of() {
        let idle = |set: &[&str]| read("", set).unwrap().idle_settings();
        assert!(idle(&["machine.llc.core_age=1"])[0].starts_with("machine.llc.core_age and io_age have nothing to do"));
        assert!(idle(&["machine.llc.io_age=0"])[0].starts_with("machine.llc.core_age and io_age have nothing to do"));
        assert!(idle(&["machine.llc.io_age=0", "machine.llc.replacement=age"]).is_empty());
        assert!(idle(&["machine.llc.io_age=0", "machine.llc.replacement=age_random"]).is_empty());
        assert!(idle(&["machine.llc.core_ways=2"]).is_empty());
    }

    #[test]
    fn the_energy_of_every_machine_is_known_or_its_standard_has_no_currents() {
        for machine in MACHINES {
            let s = read("", &[&format!("machine.preset={}", machine.name)]).unwrap();
            let named = s.machine.dram.of_currents().unwrap_or_else(|| panic!("{} names no currents", machine.name));
            let standard = machine::dram::presets::preset(named).unwrap();
            let known = s.machine.dram.energy("machine.dram").unwrap().is_some();
            assert_eq!(known, standard.currents.is_some(), "{}", machine.name);
            assert_eq!(known, !named.starts_with("ddr5"), "{}", machine.name);
        }
    }

    #[test]
    fn controllers_need_no_more_than_a_standard_and_read_back_equal() {
        let s = read("", &["machine.dram.standard=ddr4-3200aa", "machine.dram.controller.order=fcfs"]).unwrap();
        assert_eq!(read(&s.to_toml(), &[]).unwrap(), s);
        machine::memory::Hierarchy::new(&s.machine.memory(), 1, "machine").unwrap();
    }

    #[test]
    fn what_is_resolved_reads_back_equal() {
        let s = read("[traffic]\nrate = \"40 Gbps\"", &["machine.llc.ways=8", "nic.rx_descriptors=256"]).unwrap();
        assert_eq!((s.machine.llc.ways, s.nic.rx_descriptors), (8, 256));
        // The preset's two I/O ways of eleven are the top two of eight; a mask that is given stays.
        assert_eq!(s.machine.llc.io_ways.highest("", 8), Ok(units::Cbm(0b1100_0000)));
        // 8 of 11 ways of 24.75 MiB; it is told of.
        assert_eq!(s.machine.llc.size, "18 MiB".parse().unwrap());
        assert!(s.idle_settings().iter().any(|note| note.contains("18 MiB in place of 24.75 MiB")));
        let sized = read("", &["machine.llc.ways=8", "machine.llc.size=22.5 MiB"]).unwrap();
        assert_eq!(sized.machine.llc.size, "22.5 MiB".parse().unwrap());
        let given = read("", &["machine.llc.ways=8", "machine.llc.io_ways=0b11"]).unwrap();
        assert_eq!(given.machine.llc.io_ways, Ways::Mask(units::Cbm(0b11)));
        assert_eq!(read(&s.to_toml(), &[]).unwrap().to_toml(), s.to_toml());
    }

    #[test]
    fn ways_of_cores_are_counted_as_cat_counts_them() {
        let ways = |set: &str| read("", &[set]).map(|s| s.machine.llc.core_ways.unwrap()).map_err(|e| e.to_string());
        assert_eq!(ways("machine.llc.core_ways=8"), Ok(Ways::Count(8)));
        assert_eq!(ways("machine.llc.core_ways=0b110"), Ok(Ways::Mask(units::Cbm(0b110))));
        assert!(ways("machine.llc.core_ways=2047").unwrap_err().contains("write a mask as text: \"0x7ff\""));
        for text in [
            "[machine.llc]\ncore_ways = 0b11",
            "machine.llc.core_ways = 0x3 # two",
            "[machine]\nllc = { slices = 18, \"core_ways\" = 0b11 }",
            "machine.llc.io_ways = 0b11",
            "[machine.clos.1]\nways = 0xf",
        ] {
            let error = read(text, &[]).unwrap_err().to_string();
            assert!(error.contains("ways: 0") && error.contains("a bare number is how many ways"), "{error}");
        }
        assert!(read("", &["machine.clos.1={ways=0b11}"]).unwrap_err().to_string().contains("a bare number"));
        let all = read("", &["machine.llc.core_ways=8"]).unwrap();
        assert_eq!((all.machine.llc.size, all.machine.llc.ways), (read("", &[]).unwrap().machine.llc.size, 11));
        assert_eq!(read(&all.to_toml(), &[]).unwrap(), all);
    }

    #[test]
    fn all_faults_are_told_at_once() {
        let text = "[machine]\ncores = \"many\"\n[machine.llc]\nwyas = 3\n[traffic]\nload = 3.0\nspeed = 2.0\n[run]\n\
                    packets = \"20 parsecs\"\nloss_limit = 2.0\n[nic]\nburst = 0\nrate = \"100 apples\"\n";
        let error = read(text, &[]).unwrap_err().to_string();
        for path in
            ["machine.cores", "machine.llc.wyas", "traffic", "traffic.load", "traffic.speed", "run.packets", "nic.rate"]
        {
            assert!(error.lines().any(|line| line.contains(&format!(" {path}: "))), "{path} is not in:\n{error}");
        }
        assert!(error.contains(" run.loss_limit: 2") && error.contains("nic.burst = 0"), "{error}");
        // What was well said stays well said.
        assert!(!error.contains("mempool") && error.lines().count() < 12, "{error}");
    }

    #[test]
    fn what_the_machine_cannot_be_built_of_is_told_in_the_same_round() {
        let text = "[machine.llc]\nslices = 65\nio_ways = 12\ncore_ways = \"0b101\"\n[machine.l2]\nways = 0\n\
                    [traffic]\nload = 3.0\n";
        let error = read(text, &[]).unwrap_err().to_string();
        for path in
            ["traffic.load", "machine.llc.slices", "machine.llc.io_ways", "machine.llc.core_ways", "machine.l2.ways"]
        {
            assert!(error.contains(path), "{path} in {error}");
        }
    }

    #[test]
    fn a_number_out_of_range_is_told_what_is_allowed() {
        let error = read("[nic]\nburst = -8\n", &[]).unwrap_err().to_string();
        assert_eq!(error, "test.toml: nic.burst: -8: allowed are 0 to 4294967295");
    }

    #[test]
    fn counts_and_shares_are_read_as_people_write_them() {
        let s =
            read("[run]\npackets = \"20k\"", &["run.warmup=1M", "traffic.load=50 %", "nic.rx_descriptors=1k"]).unwrap();
        assert_eq!((s.run.packets, s.run.warmup, s.traffic.load), (20_000, Some(1_000_000), Some(0.5)));
        assert_eq!(s.nic.rx_descriptors, 1000);
        assert_eq!(read("", &["traffic.rate=80 Gbit/s"]).unwrap().traffic.rate, Some(Rate::from_gbps(80.0)));
        assert!(read("", &["traffic.rate=80"]).unwrap_err().to_string().contains("\"80\" is not a bit rate"));
    }

    #[test]
    fn what_rust_calls_a_struct_is_called_a_table() {
        let error = read("", &["machine.sockets=2"]).unwrap_err().to_string();
        assert!(error.contains("integer 2: a table of settings is wanted"), "{error}");
    }

    #[test]
    fn times_that_cannot_be_are_refused() {
        let error = |set: &str| read("", &[set]).unwrap_err().to_string();
        for field in ["llc.latency", "llc.interval", "llc.snoop", "dram.t_cl", "dram.t_burst", "dram.overhead"] {
            let found = error(&format!("machine.{field}=1000 s"));
            assert!(found.contains(&format!("machine.{field} = ")) && found.contains("at most 1 ms"), "{found}");
        }
        assert!(error("traffic.load=1e-12").contains("traffic.load: 2000000 packets may take"));
        assert!(read("", &["traffic.load=1e-6"]).is_ok());
    }

    #[test]
    fn a_presets_pool_grows_with_what_holds_mbufs() {
        let size = |set: &[&str]| read("", set).unwrap().mempool.size;
        assert_eq!(size(&[]), 16_384, "what the preset says");
        assert_eq!(size(&["machine.cores=1"]), 16_384, "it does not shrink");
        // 8 x (1024 + 2 x 1024 + 256) = 26,624; 4 x (4096 + 2 x 1024 + 256) = 25,600.
        assert_eq!(size(&["machine.cores=8"]), 32_768);
        assert_eq!(size(&["nic.rx_descriptors=4096"]), 32_768);
        // 1024 + 8 x (2 x 1024 + 256) + 7 x 4096 = 48,128.
        let queues = ["machine.cores=8", "pipeline.rx_cores=1", "pipeline.queue=4096"];
        assert_eq!(size(&queues), 65_536);
        assert_eq!(size(&["machine.cores=8", "mempool.size=20000"]), 20_000, "what is given stays");
    }

    #[test]
    fn errors_have_a_path_and_the_nearest_name() {
        let error = |text: &str, set: &[&str]| read(text, set).unwrap_err().to_string();
        insta::assert_snapshot!(
            [
                error("", &["machine.llc.wyas=8"]),
                error("", &["machin.llc.ways=8"]),
                error("", &["machine.llc.size=33 parsecs"]),
                error("", &["machine.llc.size=-1"]),
                error("", &["machine.cores=many"]),
                error("", &["traffic.load=1.5"]),
                error("[traffic]\nload = 0.5\nrate = \"1 Gbps\"", &[]),
                error("[machine]\npreset = \"xeon-gold-6410\"", &[]),
                error("", &["traffic.speed=2"]),
                error("", &["mempool.size=100"]),
                error("", &["nic.rx_descriptors=16"]),
                error("", &["nonsense"]),
                error("", &["run.packets.x=1"]),
                error("[traffic", &[]),
                error("", &["run.packets=10"]),
                error("machine = 3", &[]),
                error("", &["machine.dram.standard=ddr4-3200"]),
                error("", &["machine.dram.controller.order=lifo", "machine.dram.standard=ddr4-2400u"]),
                error("", &["machine.dram.currents=ddr4-2666"]),
                error("", &["machine.cores=0"]),
                error("", &["machine.cores=9999"]),
                error("[neighbours]\nname = \"x\"\n", &[]),
                error("", &["machine.copy_engine={by=\"controller\"}"]),
                error("", &["machine.dram.controller={}", "machine.core.lookahead=50 ns"]),
            ]
            .join("\n")
        );
    }

    #[test]
    fn a_standard_gives_its_organisation_and_timings_and_leaves_the_controller() {
        let of = |set: &[&str]| read("", set).unwrap().machine.dram;
        let usual = of(&[]);
        let ddr5 = of(&["machine.dram.standard=ddr5-4800b"]);
        assert_eq!((ddr5.channels, ddr5.overhead), (2 * usual.channels, usual.overhead));
        // 64 bytes over half a module's width at 4800 MT/s.
        assert_eq!(ddr5.t_burst.ps(), units::Ps(3333));
        let hbm = of(&["machine.dram.standard=hbm3-6400", "machine.dram.t_cl=20 ns", "machine.dram.channels=16"]);
        assert_eq!((hbm.channels, hbm.t_cl.ps()), (16, units::Ps::from_ns(20)));
        assert_eq!(of(&["machine.dram.standard=hmc-2.1-vault"]).page, machine::dram::PagePolicy::Closed);
    }

    #[test]
    fn a_rate_on_the_command_line_replaces_the_scenarios() {
        let s = read("[traffic]\nload = 0.5", &["traffic.rate=\"10 Gbps\""]).unwrap();
        assert_eq!((s.traffic.load, s.traffic.rate), (None, Some(Rate::from_gbps(10.0))));
    }
}
