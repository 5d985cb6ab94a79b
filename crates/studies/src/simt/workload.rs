//! Recorded lanes: each packet of a trace once through its function.

use std::path::PathBuf;

use ::traffic::{Blueprint, Load, SourceSpec, Table};
use engine::Seed;
use functions::classify::RuleSearch;
use functions::inspect::Method;
use functions::lookup::Structure;
use functions::{
    Chain, ChecksumCheck, Classify, ClassifySpec, Forward, ForwardSpec, Fragment, FragmentSpec, Function, HeaderCheck,
    Inspect, InspectSpec, Lookup, LookupMode, NextHop, PacketFunction, Ttl, Verdict,
};
use machine::simt::{KernelSpec, LaneRecorder, Lanes};
use packet::{Packet, Prefix};
use probe::Record;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use units::{PacketRate, Ps};

use super::payload::StringsSpec;
use super::rules::RulesSpec;
use super::wrong;
use sim::ScenarioError;

/// What is done to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SimtApplication {
    /// The header check, with the checksum summed up by the function.
    CheckHeader,
    /// Route lookup by DIR-24-8.
    Lookup,
    /// Time to live and checksum.
    DecTtl,
    /// Check, lookup, time to live and Ethernet addresses in one.
    Forward,
    /// The first of many rules that matches, one rule after the other.
    Classify,
    /// The same by tuple space.
    ClassifyTupleSpace,
    /// Strings in payloads, by Bloom filters.
    Inspect,
    /// The same by an automaton.
    InspectAhoCorasick,
    /// Packets above the MTU are cut.
    Fragment,
}

impl SimtApplication {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            SimtApplication::CheckHeader => "check_header",
            SimtApplication::Lookup => "lookup",
            SimtApplication::DecTtl => "dec_ttl",
            SimtApplication::Forward => "forward",
            SimtApplication::Classify => "classify",
            SimtApplication::ClassifyTupleSpace => "classify_tuple_space",
            SimtApplication::Inspect => "inspect",
            SimtApplication::InspectAhoCorasick => "inspect_aho_corasick",
            SimtApplication::Fragment => "fragment",
        }
    }

    /// Whether a packet is changed: then frames go back over PCIe, else verdicts.
    pub const fn writes(self) -> bool {
        matches!(self, SimtApplication::DecTtl | SimtApplication::Forward | SimtApplication::Fragment)
    }
}

/// The routing table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RoutesSpec {
    /// A file; else a table is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// IPv4 routes of a table that is made.
    pub prefixes: usize,
    /// Next hops of a table that is made.
    pub next_hops: u32,
}

impl Default for RoutesSpec {
    fn default() -> RoutesSpec {
        RoutesSpec { file: None, prefixes: Table::FULL_IPV4, next_hops: 64 }
    }
}

/// A function, its tables, and the packets that it is recorded on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// What is done.
    pub application: SimtApplication,
    /// What is done then with what that has not dropped, in this order, by the same kernel; up to 5 applications.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<SimtApplication>,
    /// What a lane holds.
    pub kernel: KernelSpec,
    /// The packets.
    #[serde(default)]
    pub traffic: SourceSpec,
    /// How many packets are recorded; runs take them in turn.
    pub packets: usize,
    /// The routing table.
    #[serde(default)]
    pub routes: RoutesSpec,
    /// The rules of classification.
    #[serde(default)]
    pub rules: RulesSpec,
    /// The strings of inspection.
    #[serde(default)]
    pub strings: StringsSpec,
    /// Fragmentation.
    #[serde(default)]
    pub fragment: FragmentSpec,
}

/// Lanes, and the bytes of each packet.
#[derive(Clone, Debug)]
pub struct SimtWorkload {
    /// The streams.
    pub lanes: Lanes,
    /// Sectors that tables take.
    pub table_sectors: u32,
    /// Of each lane's packet: bytes of the frame.
    pub bytes: Vec<u32>,
    /// Packets that the function dropped.
    pub dropped: u64,
    /// Of a chain, by member: its name, the recorded packets that came to it, and those that it dropped.
    pub members: Vec<(&'static str, u64, u64)>,
    /// What was assumed, in words.
    pub notes: Vec<String>,
}

/// Packets that may be recorded.
const MOST_PACKETS: usize = 1 << 20;
/// Applications that may follow the first, as many as a chain of the router has.
const MOST_THEN: usize = 5;
/// Ports of the router: the paper's is not told; only what a verdict says depends on it.
const PORTS: u16 = 16;

impl SimtWorkload {
    /// Records a workload.
    ///
    /// # Errors
    /// Traffic or tables that cannot be read, functions that cannot be built.
    pub fn new(spec: &WorkloadSpec, seed: u64) -> Result<SimtWorkload, ScenarioError> {
        if !(1..=MOST_PACKETS).contains(&spec.packets) {
            return Err(wrong("workload.packets", spec.packets, &format!("1 to {MOST_PACKETS}")));
        }
        if spec.then.len() > MOST_THEN {
            return Err(wrong(
                "workload.then",
                format!("{} applications", spec.then.len()),
                &format!("up to {MOST_THEN}"),
            ));
        }
        // What follows would see the first fragment only.
        let chain: Vec<SimtApplication> = std::iter::once(spec.application).chain(spec.then.iter().copied()).collect();
        if chain[..chain.len() - 1].contains(&SimtApplication::Fragment) {
            return Err(wrong("workload.then", "an application behind fragment", "fragment as the last"));
        }
        let table = match &spec.routes.file {
            Some(file) => Table::open(file)?,
            None => Table::synthetic(seed, spec.routes.prefixes, spec.routes.next_hops.max(1)),
        };
        let mut packets = packets(&spec.traffic, &table, spec.packets, seed)?;
        let mut rng = Seed(seed).stream("simt.workload");
        let mut functions = Vec::with_capacity(chain.len());
        for &application in &chain {
            functions.push(function(application, spec, &table, &mut packets, &mut rng)?);
        }
        let mut workload = match functions.len() {
            1 => record(functions.remove(0), &packets)?.0,
            _ => {
                let (workload, function) = record(Chain::new(functions)?, &packets)?;
                let shares = chain.iter().zip(function.shares());
                let members = shares.map(|(of, share)| (of.name(), share.packets, share.dropped)).collect();
                SimtWorkload { members, ..workload }
            }
        };
        if !table.damage.is_empty() {
            workload.notes.push(format!("the routing table is damaged: {}", table.damage));
        }
        Ok(workload)
    }
}

/// The function of an application; `packets` become those that it has something to do with.
fn function(
    application: SimtApplication,
    spec: &WorkloadSpec,
    table: &Table,
    packets: &mut [Packet],
    rng: &mut Pcg64,
) -> Result<Function, ScenarioError> {
    Ok(match application {
        SimtApplication::Classify | SimtApplication::ClassifyTupleSpace => {
            let rules = spec.rules.rules(rng)?;
            spec.rules.aim(&rules, packets, rng);
            let linear = application == SimtApplication::Classify;
            let search = if linear { RuleSearch::Linear } else { RuleSearch::TupleSpace };
            Function::Classify(Classify::new(&rules, &ClassifySpec { search, drop_unmatched: false }, PORTS)?)
        }
        SimtApplication::Inspect | SimtApplication::InspectAhoCorasick => {
            let patterns = spec.strings.patterns(rng)?;
            spec.strings.fill(&patterns, packets, rng);
            let bloom = application == SimtApplication::Inspect;
            let method = if bloom { Method::Bloom } else { Method::AhoCorasick };
            let inspect = InspectSpec { method, depth: spec.strings.depth, drop: false };
            Function::Inspect(Inspect::new(&patterns, &inspect, PORTS)?)
        }
        SimtApplication::Fragment => Function::Fragment(Fragment::new(&spec.fragment, PORTS)?),
        SimtApplication::CheckHeader => Function::HeaderCheck(HeaderCheck::new(ChecksumCheck::Software, PORTS)),
        SimtApplication::DecTtl => Function::Ttl(Ttl::new(PORTS)),
        SimtApplication::Lookup => Function::Lookup(Lookup::new(routes(table), PORTS, Structure::Dir24)?),
        SimtApplication::Forward => {
            let spec = ForwardSpec {
                prefetch: false,
                lookup: LookupMode::Single,
                checksum: ChecksumCheck::Software,
                ..ForwardSpec::default()
            };
            Function::Forward(Forward::new(routes(table), PORTS, &spec)?)
        }
    })
}

fn routes(table: &Table) -> impl Iterator<Item = (Prefix, NextHop)> + '_ {
    table.routes.iter().filter_map(|route| {
        let class = route.next_hop.unwrap_or(0);
        Some((route.prefix, NextHop::new(class)?))
    })
}

fn packets(spec: &SourceSpec, table: &Table, count: usize, seed: u64) -> Result<Vec<Packet>, ScenarioError> {
    let blueprint = Blueprint::new(spec, Some(table))?;
    let mut source = blueprint.source(seed, &Load::Packets(PacketRate::from_mpps(1.0)))?;
    let (mut packets, mut packet) = (Vec::new(), Packet::default());
    while packets.len() < count && source.next(&mut packet) {
        packets.push(packet.clone());
    }
    if packets.is_empty() {
        return Err(wrong("workload.traffic", "no packet", "a capture with packets, or a profile"));
    }
    Ok(packets)
}

/// Runs `function` once a packet and keeps what it does; gives the function back.
fn record<F: PacketFunction>(mut function: F, packets: &[Packet]) -> Result<(SimtWorkload, F), ScenarioError> {
    let regions = function.regions();
    let Some(mut recorder) = LaneRecorder::new(&regions) else {
        let bytes: u64 = regions.iter().map(|region| region.bytes).sum();
        return Err(wrong("workload", format!("{} needs tables of {bytes} B", function.name()), "32 GiB of tables"));
    };
    let (mut burst, mut verdicts, mut dropped) = ([Packet::default()], Vec::new(), 0);
    // Functions are compiled for the probe of all studies.
    let mut record = Record::new();
    for packet in packets {
        burst[0].clone_from(packet);
        verdicts.clear();
        record.clear();
        function.process_burst(Ps::ZERO, &mut burst, &mut record, &mut verdicts);
        record.replay(&mut recorder);
        recorder.end_lane();
        dropped += u64::from(matches!(verdicts.first(), Some(Verdict::Drop(_))));
    }
    let table_sectors = recorder.table_sectors();
    let bytes = packets.iter().map(|packet| packet.frame_bytes).collect();
    let (lanes, members, notes) = (recorder.into_lanes(), Vec::new(), Vec::new());
    Ok((SimtWorkload { lanes, table_sectors, bytes, dropped, members, notes }, function))
}
