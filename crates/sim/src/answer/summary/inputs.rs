//! Of the summary: what a run was given, what was wrong with it, and what was decided on the way.

use schemars::JsonSchema;
use serde::Serialize;
use traffic::{DamageCount, TableFormat};

use super::traffic_id;
use crate::answer::model_error::MeasuredParts;
use crate::answer::verdict::warmup_text;
use crate::load::Routing;
use crate::run::RunResult;
use crate::run::steer::ControlInterval;
use crate::run::warm::WarmUp;
use crate::scenario::PolicyKind;
use crate::scenario::files::file_name;

/// What was cut at the start, and why.
#[derive(Serialize, JsonSchema)]
pub struct WarmUpSummary {
    #[serde(flatten)]
    cut: WarmUp,
    /// All that in words.
    why: String,
}

impl WarmUpSummary {
    pub(super) fn of(cut: &WarmUp) -> WarmUpSummary {
        WarmUpSummary { cut: cut.clone(), why: warmup_text(cut) }
    }
}

/// The policy that set the LLC's ways, and what came of it.
#[derive(Serialize, JsonSchema)]
pub struct PolicySummary {
    /// Which it is.
    #[schemars(with = "String")]
    kind: PolicyKind,
    /// How often it decides.
    interval_ns: f64,
    /// Decisions that changed something.
    changes: usize,
    /// Ways of devices at the end.
    io_ways: Option<u32>,
    /// Ways of the LLC.
    ways: u32,
    /// Its intervals from the first packet on.
    intervals: Vec<ControlInterval>,
}

impl PolicySummary {
    pub(super) fn of(result: &RunResult) -> Option<PolicySummary> {
        let spec = result.scenario.policy.as_ref()?;
        let intervals = &result.measured.control;
        Some(PolicySummary {
            kind: spec.kind,
            interval_ns: spec.interval.ps().as_ns(),
            changes: intervals.iter().filter(|i| i.decided_io_ways.is_some_and(|ways| ways != i.io_ways)).count(),
            io_ways: intervals.last().map(|i| i.decided_io_ways.unwrap_or(i.io_ways)),
            ways: result.scenario.machine.llc.ways,
            intervals: intervals.clone(),
        })
    }
}

/// Something in the input that could not be used.
#[derive(Serialize, JsonSchema)]
pub struct FindingSummary {
    /// Bytes from the start of the (decompressed) input.
    offset: u64,
    /// What came and what was expected; of a text with its line.
    what: String,
}

/// What could not be read of an input.
#[derive(Serialize, JsonSchema)]
pub struct DamageSummary {
    /// The first findings.
    damage: Vec<FindingSummary>,
    /// How many there are.
    damage_count: u64,
    /// How many of each kind, with the first of it.
    damage_by_kind: Vec<DamageCount>,
    /// Bytes that were skipped to find the next readable record.
    damage_skipped_bytes: u64,
}

impl DamageSummary {
    fn of(damage: &traffic::Damage) -> DamageSummary {
        let finding = |f: &traffic::DamageFinding| FindingSummary { offset: f.offset, what: f.what.clone() };
        DamageSummary {
            damage: damage.first.iter().map(finding).collect(),
            damage_count: damage.count,
            damage_by_kind: damage.by_kind.clone(),
            damage_skipped_bytes: damage.skipped_bytes,
        }
    }
}

/// Where the packets came from. What is wrong with them is of captures.
#[derive(Serialize, JsonSchema)]
pub struct TrafficSummary {
    /// Runs with equal ones see the same packets at the same times.
    id: String,
    /// The capture or the profile.
    source: String,
    /// How packets come, in words: at equal gaps, Poisson, in bursts.
    arrivals: &'static str,
    /// Flows that there are at a time, of made traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    flows: Option<u64>,
    /// Mean frame with FCS.
    mean_frame_bytes: f64,
    /// Packets of a capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    packets_in_file: Option<u64>,
    #[serde(flatten)]
    damage: Option<DamageSummary>,
}

impl TrafficSummary {
    pub(super) fn of(result: &RunResult) -> TrafficSummary {
        let spec = &result.scenario.traffic;
        let source = match spec.capture.as_deref().map(file_name) {
            Some(name) => format!("capture {name}"),
            None => format!("profile {}", spec.profile.as_deref().unwrap_or("isp")),
        };
        TrafficSummary {
            id: traffic_id(result),
            source,
            arrivals: result.arrivals,
            flows: result.flows,
            mean_frame_bytes: result.mean_frame_bytes,
            packets_in_file: result.capture.as_ref().map(|report| report.packets),
            damage: result.capture.as_ref().map(|report| DamageSummary::of(&report.damage)),
        }
    }
}

/// The routing table, and what was wrong with it.
#[derive(Serialize, JsonSchema)]
pub struct RoutingTable {
    /// The file's name, or what was made.
    source: String,
    /// How it was written.
    #[schemars(with = "String")]
    format: TableFormat,
    /// How that was compressed.
    #[schemars(with = "String")]
    compression: traffic::Compression,
    /// Entries for a prefix that had a route already.
    duplicates: u64,
    #[serde(flatten)]
    damage: DamageSummary,
}

impl RoutingTable {
    pub(super) fn of(routing: &Routing) -> RoutingTable {
        RoutingTable {
            source: routing.source.clone(),
            format: routing.format,
            compression: routing.compression,
            duplicates: routing.duplicates,
            damage: DamageSummary::of(&routing.damage),
        }
    }
}

/// Routes in use.
#[derive(Serialize, JsonSchema)]
pub struct Routes {
    /// Of IPv4.
    pub(super) ipv4: usize,
    /// Of IPv6.
    pub(super) ipv6: usize,
}

/// The machine of the scenario.
#[derive(Serialize, JsonSchema)]
pub struct MachineSummary {
    /// The shipped machine or file that it is made of.
    preset: Option<String>,
    /// Its title.
    name: String,
    /// The processor or architecture whose core it has: what the processor stands on and an instruction's cycles are from. Null where that
    /// is the scenario's own.
    core: Option<String>,
    /// The shipped NIC, or the file of one's own.
    nic: Option<String>,
    /// The shipped driver.
    driver: Option<String>,
    /// Cores that run the packet function.
    cores: u32,
    /// Their frequency.
    core_ghz: f64,
    /// Ports of the NIC.
    ports: u16,
    /// Descriptors of a receive queue.
    rx_descriptors: u32,
    /// How many ways of the LLC devices may fill; 0: no DDIO.
    io_ways: u32,
}

impl MachineSummary {
    pub(super) fn of(result: &RunResult) -> MachineSummary {
        let scenario = &result.scenario;
        let parts = MeasuredParts::of(scenario);
        MachineSummary {
            preset: scenario.machine.preset.clone(),
            name: scenario.machine.name.clone(),
            core: parts.core.map(Into::into),
            nic: parts.nic.map(Into::into),
            driver: parts.driver.map(Into::into),
            cores: scenario.machine.cores,
            core_ghz: scenario.machine.core.frequency.ghz(),
            ports: scenario.nic.ports,
            rx_descriptors: scenario.nic.rx_descriptors,
            io_ways: scenario.machine.llc.io_ways.count(),
        }
    }
}
