//! A run as a person asks for it: names and files in, a report and notes out.

mod queues;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use functions::classify::RuleSearch;
use functions::inspect::{Method, Pattern};
use functions::lookup::Structure;
use functions::{ChecksumCheck, Forward, ForwardSpec, FragmentSpec, Inspect, Lookup, NextHop};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use traffic::{FilterRules, PatternSelection, SignatureStrings, Table};
use units::PacketRate;

use crate::backend::Commit;
use crate::program::Methods;
use crate::route::RouteReport;
use crate::source::{XdpCopy, XdpMode};
use crate::split::BackendShare;
use crate::{RouterError, RouterProgram};

/// Packets of a generator where nobody says how many.
const MADE_PACKETS: u64 = 1_000_000;
/// Prefixes and next hops of the table where nobody names one.
const MADE_TABLE: (usize, u32) = (200_000, 500);
/// Rules and strings where nobody names any.
const MADE_RULES: usize = 1_000;
const MADE_STRINGS: usize = 2_000;
/// Next hops that entries of two bytes can tell apart.
const NEXT_HOPS: u32 = 32_000;

/// Threads that had a CPU for less of the time are said to have waited for one.
const ENOUGH_CPU: f64 = 0.9;
/// CPU time of shorter runs is that of their start.
const SHORTEST_RUN_S: f64 = 0.01;

/// What does the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Threads with the packet functions.
    #[default]
    Cpu,
    /// A GPU.
    Cuda,
    /// A GPU if there is one, or else threads.
    Auto,
    /// The GPU's kernel on threads: to try the protocol, not for speed.
    Twin,
    /// Threads and a GPU, by measured cost or a share.
    #[serde(rename = "cpu+cuda")]
    CpuCuda,
    /// Threads and the GPU's kernel on threads: to try the split, not for speed.
    #[serde(rename = "cpu+twin")]
    CpuTwin,
}

impl Choice {
    /// Whether it is two backends.
    fn is_split(self) -> bool {
        matches!(self, Choice::CpuCuda | Choice::CpuTwin)
    }

    /// Whether a GPU may do the work.
    fn has_gpu(self) -> bool {
        matches!(self, Choice::Cuda | Choice::Auto | Choice::CpuCuda)
    }
}

/// What is done with each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FunctionName {
    /// IP forwarding.
    #[default]
    Forward,
    /// The header check alone.
    Check,
    /// Route lookup alone.
    Lookup,
    /// The time to live alone.
    Ttl,
    /// Classification by rules.
    Classify,
    /// Inspection of payloads for strings.
    Inspect,
    /// Fragmentation.
    Fragment,
}

impl FunctionName {
    const ALL: [(&'static str, FunctionName); 7] = [
        ("forward", FunctionName::Forward),
        ("check", FunctionName::Check),
        ("lookup", FunctionName::Lookup),
        ("ttl", FunctionName::Ttl),
        ("classify", FunctionName::Classify),
        ("inspect", FunctionName::Inspect),
        ("fragment", FunctionName::Fragment),
    ];
}

/// Functions one after the other, their names with commas between: one, if there is no comma.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct FunctionNames(pub Vec<FunctionName>);

impl Default for FunctionNames {
    fn default() -> FunctionNames {
        FunctionNames(vec![FunctionName::default()])
    }
}

impl From<FunctionName> for FunctionNames {
    fn from(one: FunctionName) -> FunctionNames {
        FunctionNames(vec![one])
    }
}

impl TryFrom<String> for FunctionNames {
    type Error = RouterError;
    fn try_from(names: String) -> Result<FunctionNames, RouterError> {
        let named = |name: &str| FunctionName::ALL.iter().find(|(own, _)| *own == name.trim()).map(|&(_, name)| name);
        let found: Option<Vec<FunctionName>> = names.split(',').map(named).collect();
        let allowed = "must be of forward, check, lookup, ttl, classify, inspect and fragment, with commas between those of a chain";
        found.map(FunctionNames).ok_or(RouterError::Setting { what: "function", came: names, allowed })
    }
}

impl FunctionNames {
    /// Whether there is something to gather: it is one function of headers.
    pub(crate) fn gathers(&self, structure: Option<Structure>) -> bool {
        match self.0[..] {
            [FunctionName::Forward | FunctionName::Check | FunctionName::Ttl] => true,
            [FunctionName::Lookup] => structure.unwrap_or_default() == Structure::Dir24,
            _ => false,
        }
    }

    pub(crate) fn has(&self, one: FunctionName) -> bool {
        self.0.contains(&one)
    }
}

/// How a GPU is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuMode {
    /// A kernel that stays, packets in host memory.
    #[default]
    ZeroCopy,
    /// A kernel that stays, packets in the GPU's memory.
    Resident,
    /// A kernel a batch, one at a time.
    Batch,
    /// A kernel a batch, in three streams.
    Streams,
    /// A kernel a batch, copies and kernel as one graph.
    Graph,
}

/// A run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouterSpec {
    /// What does the work.
    pub backend: Choice,
    /// How a GPU is used.
    pub mode: GpuMode,
    /// Of threads and a GPU, the share of packets that go to the GPU, 0 to 1, in whole batches; by measured cost if left out.
    pub share: Option<f64>,
    /// What is done with each packet.
    pub function: FunctionNames,
    /// How rules are searched; linear if left out.
    pub search: Option<RuleSearch>,
    /// How payloads are searched.
    pub method: Method,
    /// By what routes are looked up; DIR-24-8 if left out.
    pub structure: Option<Structure>,
    /// Bytes of the largest IP packet that the next links carry; 1500 if left out.
    pub mtu: Option<u32>,
    /// Rules for classification, in the form of ClassBench; made ones if left out.
    pub rules: Option<PathBuf>,
    /// A table of strings for inspection; made ones if left out.
    pub patterns: Option<PathBuf>,
    /// A capture to route. Without it and without an interface traffic is made.
    pub capture: Option<PathBuf>,
    /// The profile of traffic that is made.
    pub profile: Option<String>,
    /// A network interface to receive from.
    pub interface: Option<String>,
    /// MiB of a ring that is shared with the kernel, by which the interface's packets come; a call each if left out. With AF_XDP,
    /// of each queue's memory; 16 if left out.
    pub ring_mib: Option<u32>,
    /// Receive and send by AF_XDP, with the program in or behind the driver.
    pub xdp: Option<XdpMode>,
    /// Who carries frames to the memory that AF_XDP shares.
    pub xdp_copy: XdpCopy,
    /// Threads that receive and send, each with a queue or socket, and workers, of its own; 1 if left out.
    pub queues: Option<u32>,
    /// Whether each thread is pinned to a CPU, near the interface's NIC as far as there are any: who receives and sends, workers, and
    /// the twin's. What threads a GPU's driver has is its own.
    pub pin: bool,
    /// A prefix table; a made one if left out.
    pub table: Option<PathBuf>,
    /// Ports of the router: next hop `n` is reached by port `n` modulo this. 4 if left out.
    pub ports: Option<u16>,
    /// A capture to write.
    pub out: Option<PathBuf>,
    /// Whether forwarded packets are sent by the interface that they came from.
    pub reflect: bool,
    /// Workers; as many as there are cores, less one, if left out. With 0 and backend `cpu` who receives and sends works as well: run to
    /// completion, a core a queue.
    pub threads: Option<u32>,
    /// Whether packets leave in the order in which they came.
    pub ordered: bool,
    /// Where a kernel that stays keeps what it has done, if packets are ordered; in the device's memory if left out.
    pub commit: Option<Commit>,
    /// Warps a shader core of a GPU's kernel that stays; if left out as many as fit, up to one a task of the ring.
    pub warps_per_core: Option<u32>,
    /// Packets that are waited for; 32 if left out.
    pub batch: Option<u32>,
    /// And how long, in microseconds; two warp arrival times as estimated if left out.
    pub timeout_us: Option<f64>,
    /// Packets a second to offer, in millions, or as a person writes a rate; as fast as they go if left out.
    #[serde(deserialize_with = "offered")]
    pub mpps: Option<f64>,
    /// Times as fast as the capture's own timestamps.
    pub speed: Option<f64>,
    /// Packets after which to end.
    pub packets: Option<u64>,
    /// Seconds after which to end.
    pub seconds: Option<f64>,
    /// Whether IPv4 header checksums are verified.
    pub verify_checksum: bool,
    /// Seconds after which a backend that does not answer is given up; 5 if left out.
    pub deadline_s: Option<f64>,
    /// The GPU driver's library.
    pub driver: Option<String>,
    /// Which GPU.
    pub device: i32,
    /// Seed of what is made.
    pub seed: u64,
}

/// A rate: a number of Mpps, or one with its unit.
fn offered<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Rate {
        Mpps(f64),
        Written(String),
    }
    Ok(match Option::<Rate>::deserialize(from)? {
        None => None,
        Some(Rate::Mpps(mpps)) => Some(mpps),
        Some(Rate::Written(text)) => {
            let rate: PacketRate = text.parse().map_err(|e| D::Error::custom(format!("mpps = {text}: {e}")))?;
            Some(rate.mpps())
        }
    })
}

/// What came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Routed {
    /// The packet function.
    pub function: String,
    /// Workers on the CPU, of all queues; none on a GPU.
    pub threads: Option<u32>,
    /// Threads that received and sent.
    pub queues: u32,
    /// Whether packets left in the order in which they came.
    pub ordered: bool,
    /// IPv4 and IPv6 routes.
    pub routes: (usize, usize),
    /// What was assumed, or done instead of what was asked.
    pub notes: Vec<String>,
    /// What was measured.
    #[serde(flatten)]
    pub report: RouteReport,
}

/// Runs it.
///
/// # Errors
/// Settings, files, traffic, tables or a GPU that cannot be used; a backend that fails.
pub fn run(spec: &RouterSpec) -> Result<Routed, RouterError> {
    run_until(spec, &AtomicBool::new(false))
}

/// As [`run`], and ends soon after `stop` is set, with what was routed by then.
///
/// # Errors
/// As [`run`].
pub fn run_until(spec: &RouterSpec, stop: &AtomicBool) -> Result<Routed, RouterError> {
    let mut notes = Vec::new();
    judge(spec)?;
    let routes = spec.function.has(FunctionName::Forward) || spec.function.has(FunctionName::Lookup);
    let made = spec.capture.is_none() && spec.interface.is_none();
    let rules = spec.function.has(FunctionName::Classify) && spec.rules.is_none();
    let table = match routes || made || rules || spec.table.is_some() {
        true => table(spec.table.as_ref(), spec.seed, spec.capture.is_some(), &mut notes)?,
        // Nobody looks at it.
        false => Table::synthetic(spec.seed, 1, 1),
    };
    let checksum = if spec.verify_checksum { ChecksumCheck::Software } else { ChecksumCheck::Nic };
    let sources = ProgramSources {
        functions: &spec.function,
        methods: Methods { search: spec.search, method: spec.method, structure: spec.structure, mtu: spec.mtu },
        rules: spec.rules.as_ref(),
        patterns: spec.patterns.as_ref(),
        ports: spec.ports.unwrap_or(4),
        checksum,
        seed: spec.seed,
    };
    let (program, routes) = program(&sources, &table, &mut notes)?;
    let (report, threads, queues) = queues::run(spec, &program, &table, stop, &mut notes)?;
    // The twin's dispatcher is no worker, and never sleeps either.
    let dispatchers = u32::from(matches!(spec.backend, Choice::Twin | Choice::CpuTwin));
    notes.extend(threads.and_then(|threads| starved(&report, threads + queues + dispatchers)));
    if report.cut > 0 {
        notes.push(format!("of {} packets only the first {} bytes were inspected", report.cut, program.frame_bytes()));
    }
    for told in &report.split {
        let Some(error) = &told.failed else { continue };
        let BackendShare { backend, redone, lost, .. } = told;
        notes.push(format!(
            "{backend} was given up: {error}; {redone} of its packets were done by others, {lost} were lost"
        ));
    }
    Ok(Routed { function: program.name(), threads, queues, ordered: spec.ordered, routes, notes, report })
}

/// That the threads had no CPU for much of the time, if that was so. None of them ever sleeps: what is missing others had.
fn starved(report: &RouteReport, threads: u32) -> Option<String> {
    let wanted = report.run_s * f64::from(threads);
    let share = report.cpu_s / wanted;
    (report.run_s >= SHORTEST_RUN_S && share < ENOUGH_CPU).then(|| {
        format!(
            "{threads} threads, workers and ingress, had a CPU for {:.0} % of the time ({:.3} of {wanted:.3} CPU-seconds): rate and \
             delay are those of a busy host, or of more threads than cores",
            100.0 * share,
            report.cpu_s
        )
    })
}

fn judge(spec: &RouterSpec) -> Result<(), RouterError> {
    let clash = |what, came: &str, allowed| Err(RouterError::Setting { what, came: came.into(), allowed });
    if spec.capture.is_some() && spec.interface.is_some() {
        return clash("interface", spec.interface.as_deref().unwrap_or(""), "not together with a capture");
    }
    if spec.profile.is_some() && (spec.capture.is_some() || spec.interface.is_some()) {
        return clash("profile", spec.profile.as_deref().unwrap_or(""), "not together with a capture or an interface");
    }
    if let Some(mib) = spec.ring_mib.filter(|_| spec.interface.is_none()) {
        return clash("ring_mib", &mib.to_string(), "only with an interface to receive from");
    }
    if spec.xdp.is_some() && spec.interface.is_none() {
        return clash("xdp", "true", "only with an interface to receive from");
    }
    if spec.xdp_copy != XdpCopy::Auto && spec.xdp.is_none() {
        return clash("xdp_copy", "set", "only with AF_XDP (xdp)");
    }
    judge_queues(spec)?;
    if let Some(share) = spec.share.filter(|_| !spec.backend.is_split()) {
        return clash("share", &share.to_string(), "only with two backends, cpu+cuda or cpu+twin");
    }
    if spec.reflect && spec.interface.is_none() {
        return clash("reflect", "true", "only with an interface to receive from");
    }
    if spec.reflect && spec.out.is_some() {
        return clash("reflect", "true", "packets go to an interface or to a capture: leave one out");
    }
    if let Some(speed) = spec.speed.filter(|_| spec.capture.is_none()) {
        return clash("speed", &speed.to_string(), "only with a capture, whose timestamps it scales");
    }
    if let Some(mpps) = spec.mpps.filter(|_| spec.speed.is_some() || spec.interface.is_some()) {
        return clash("mpps", &mpps.to_string(), "not together with a speed or an interface");
    }
    if spec.threads == Some(0) && !matches!(spec.backend, Choice::Cpu | Choice::Auto) {
        return clash("threads", "0", "only with backend cpu, where who receives and sends works as well");
    }
    let (gpu, stays) = (spec.backend.has_gpu(), matches!(spec.mode, GpuMode::ZeroCopy | GpuMode::Resident));
    if let Some(warps) = spec.warps_per_core.filter(|_| !(gpu && stays)) {
        return clash("warps_per_core", &warps.to_string(), "only with a GPU and a kernel that stays");
    }
    if let Some(commit) = spec.commit {
        let came = Commit::ALL.into_iter().find(|&(_, own)| own == commit).map_or("", |(name, _)| name);
        if !spec.ordered || !commit.is_ordered() {
            return clash("commit", came, "device or host, and only where packets are ordered");
        }
        if !(spec.backend == Choice::Twin || gpu && stays && !spec.backend.is_split()) {
            return clash(
                "commit",
                came,
                "only with a kernel that stays, alone: of two backends the host keeps the order",
            );
        }
    }
    if spec.ports == Some(0) {
        return clash("ports", "0", "allowed are 1 and more");
    }
    Ok(())
}

fn judge_queues(spec: &RouterSpec) -> Result<(), RouterError> {
    let Some(queues) = spec.queues.filter(|&queues| queues != 1) else { return Ok(()) };
    let clash = |allowed| Err(RouterError::Setting { what: "queues", came: queues.to_string(), allowed });
    match () {
        () if !(1..=1024).contains(&queues) => clash("allowed are 1 to 1024"),
        () if spec.interface.is_none() => clash("more than one only with an interface to receive from"),
        () if spec.out.is_some() => clash("a capture is written by one thread: leave one out"),
        () if spec.backend != Choice::Cpu => clash("more than one only with backend cpu: each has workers of its own"),
        () if spec.threads.is_some_and(|threads| threads != 0 && threads < queues) => {
            clash("each wants a worker: as many threads, or more; or 0, where each works itself")
        }
        () => Ok(()),
    }
}

pub(crate) fn seconds(what: &'static str, value: f64) -> Result<Duration, RouterError> {
    let allowed = "must be a number above 0, up to a billion seconds";
    let sound = value.is_finite() && value > 0.0 && value <= 1e9;
    let bad = || RouterError::Setting { what, came: value.to_string(), allowed };
    sound.then(|| Duration::from_secs_f64(value)).ok_or_else(bad)
}

/// The table of that file, or a made one.
pub(crate) fn table(
    path: Option<&PathBuf>,
    seed: u64,
    captured: bool,
    notes: &mut Vec<String>,
) -> Result<Table, RouterError> {
    if let Some(path) = path {
        let table = Table::open(path)?;
        if !table.damage.is_empty() {
            notes.push(format!("{}: {}", path.display(), table.damage));
        }
        return Ok(table);
    }
    let (prefixes, next_hops) = MADE_TABLE;
    let odd = if captured { "; a capture's destinations need not be in it: --table names a real one" } else { "" };
    notes.push(format!("a made table of {prefixes} IPv4 prefixes{odd}"));
    Ok(Table::synthetic(seed, prefixes, next_hops))
}

/// What a function is made of.
pub(crate) struct ProgramSources<'a> {
    pub(crate) functions: &'a FunctionNames,
    pub(crate) methods: Methods,
    pub(crate) rules: Option<&'a PathBuf>,
    pub(crate) patterns: Option<&'a PathBuf>,
    pub(crate) ports: u16,
    pub(crate) checksum: ChecksumCheck,
    pub(crate) seed: u64,
}

/// The functions, and how many IPv4 and IPv6 routes they have.
pub(crate) fn program(
    spec: &ProgramSources<'_>,
    table: &Table,
    notes: &mut Vec<String>,
) -> Result<(RouterProgram, (usize, usize)), RouterError> {
    let functions = spec.functions;
    let clash = |what, came: String, allowed| Err(RouterError::Setting { what, came, allowed });
    if let Some(path) = spec.rules.filter(|_| !functions.has(FunctionName::Classify)) {
        return clash("rules", path.display().to_string(), "only with the function classify");
    }
    if let Some(search) = spec.methods.search.filter(|_| !functions.has(FunctionName::Classify)) {
        return clash("search", format!("{search:?}"), "only with the function classify");
    }
    if let Some(structure) = spec.methods.structure.filter(|_| !functions.has(FunctionName::Lookup)) {
        return clash("structure", format!("{structure:?}"), "only with the function lookup: forward has DIR-24-8");
    }
    if let Some(mtu) = spec.methods.mtu.filter(|_| !functions.has(FunctionName::Fragment)) {
        return clash("mtu", mtu.to_string(), "only with the function fragment");
    }
    if let Some(path) = spec.patterns.filter(|_| !functions.has(FunctionName::Inspect)) {
        return clash("patterns", path.display().to_string(), "only with the function inspect");
    }
    let (mut members, mut routes) = (Vec::new(), (0, 0));
    for &function in &functions.0 {
        let (member, found) = member(function, spec, table, notes)?;
        routes = (routes.0.max(found.0), routes.1.max(found.1));
        members.push(member);
    }
    Ok((RouterProgram::chain(members)?, routes))
}

fn member(
    function: FunctionName,
    spec: &ProgramSources<'_>,
    table: &Table,
    notes: &mut Vec<String>,
) -> Result<(RouterProgram, (usize, usize)), RouterError> {
    let &ProgramSources { ports, checksum, seed, methods, .. } = spec;
    let routes = || {
        (0u32..)
            .zip(&table.routes)
            .filter_map(|(i, route)| Some((route.prefix, NextHop::new(route.next_hop.unwrap_or(i) % NEXT_HOPS)?)))
    };
    Ok(match function {
        FunctionName::Forward => {
            let forward = Forward::new(routes(), ports, &ForwardSpec { checksum, ..ForwardSpec::default() })?;
            let routes = forward.routes();
            (RouterProgram::forward(forward), routes)
        }
        FunctionName::Lookup => {
            let lookup = Lookup::new(routes(), ports, methods.structure.unwrap_or_default())?;
            let routes = lookup.routes();
            (RouterProgram::lookup(lookup, ports), routes)
        }
        FunctionName::Check => (RouterProgram::check(checksum, ports), (0, 0)),
        FunctionName::Ttl => (RouterProgram::ttl(ports), (0, 0)),
        FunctionName::Fragment => {
            (RouterProgram::fragment(methods.mtu.unwrap_or(FragmentSpec::default().mtu), ports)?, (0, 0))
        }
        FunctionName::Classify => {
            let rules = match spec.rules {
                Some(path) => FilterRules::open(path)?,
                None => {
                    notes.push(format!("{MADE_RULES} made rules: --rules names real ones"));
                    FilterRules::made(seed, MADE_RULES, table)
                }
            };
            (RouterProgram::classify(&rules.rules, &methods.classify(), ports)?, (0, 0))
        }
        FunctionName::Inspect => {
            let strings = match spec.patterns {
                Some(path) => SignatureStrings::open(path)?,
                None => {
                    notes.push(format!("{MADE_STRINGS} made strings: --patterns names real ones"));
                    SignatureStrings::made(seed, MADE_STRINGS)
                }
            };
            let taken = strings.select(&PatternSelection::default()).into_iter();
            let patterns: Vec<Pattern> = taken.map(|(bytes, nocase)| Pattern { bytes, nocase }).collect();
            (RouterProgram::inspect(Inspect::new(&patterns, &methods.inspect(), ports)?, ports), (0, 0))
        }
    })
}

/// Workers where nobody says how many: a core is left for ingress and egress.
pub(crate) fn workers() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32).saturating_sub(1).max(1)
}
