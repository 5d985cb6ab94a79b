//! What is done to each packet: the functions' part of a scenario.

use std::path::PathBuf;

use functions::classify::RuleSearch;
use functions::firewall::FirewallForm;
use functions::inspect::Method;
use functions::lookup::Structure;
use functions::trace::{Dependence, Pick};
use functions::upf::SessionLoad;
use functions::{
    ChecksumCheck, CopySpec, ForwardSpec, FragmentSpec, NatSpec, ProgramSpec, SocketSpec, UpfSpec, WorkSpec,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traffic::PatternSelection;

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
    /// A program as its source describes it; a shipped one by its name.
    #[serde(skip_serializing_if = "is_default")]
    pub program: ProgramSpec,
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
    pub(super) fn unused(&self) -> Vec<&'static str> {
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
            ("program", FunctionKind::Program, !is_default(&self.program)),
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
    /// A program as its source describes it, set by `function.program` and the routes of `function.forward`.
    Program,
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
    /// Whether packets that no route of the table covers go by one to everywhere, the first next hop's, in place of being rejected.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub default_route: bool,
    /// How lookups are done.
    pub lookup: ForwardSpec,
}

impl Default for ForwardingSpec {
    fn default() -> Self {
        ForwardingSpec {
            table: None,
            prefixes: traffic::Table::FULL_IPV4 as u32,
            next_hops: 64,
            default_route: false,
            lookup: ForwardSpec::default(),
        }
    }
}

/// The header check as a function of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CheckSpec {
    /// Who verifies the IPv4 header checksum.
    pub checksum: ChecksumCheck,
}

impl Default for CheckSpec {
    fn default() -> CheckSpec {
        CheckSpec { checksum: ChecksumCheck::Software }
    }
}

/// Classification: which rules, and how they are searched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClassificationSpec {
    /// A file of rules in the form of ClassBench, also compressed. Without one they are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<PathBuf>,
    /// Made rules, for networks of the routing table; 1 to 1000000.
    pub made: u32,
    /// How rules are searched.
    pub search: RuleSearch,
    /// Whether packets that no rule matches are dropped.
    pub drop_unmatched: bool,
}

impl Default for ClassificationSpec {
    fn default() -> ClassificationSpec {
        ClassificationSpec { rules: None, made: 1000, search: RuleSearch::default(), drop_unmatched: false }
    }
}

/// Route lookup as a function of its own; its routes are those of `function.forward`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LookupSpec {
    /// By which structure.
    pub structure: Structure,
}

/// Inspection: which strings, and how payloads are searched for them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InspectionSpec {
    /// A table of strings (`sid enabled nocase fast_pattern length pattern_hex` with tabs between), also compressed. Without
    /// one they are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patterns: Option<PathBuf>,
    /// Made strings; 1 to 1000000.
    pub made: u32,
    /// Which strings of the table are taken.
    pub select: PatternSelection,
    /// How payloads are searched.
    pub method: Method,
    /// Bytes of each payload that are inspected; 0 for all.
    pub depth: u32,
    /// Whether a packet with an occurrence is dropped, at the first one.
    pub drop: bool,
}

impl Default for InspectionSpec {
    fn default() -> InspectionSpec {
        InspectionSpec {
            patterns: None,
            made: 2000,
            select: PatternSelection::default(),
            method: Method::default(),
            depth: 0,
            drop: false,
        }
    }
}

/// The packet filter: which templates, and how they are looked through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FilterSpec {
    /// A file of rules in the form of ClassBench, also compressed, whose flags are not looked at. Without one they are
    /// made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<PathBuf>,
    /// Made rules, for networks of the routing table; 1 to 1000000.
    pub made: u32,
    /// Whether what matches passes, or is dropped.
    pub permit: bool,
    /// Whether packets that no rule matches are dropped.
    pub deny_by_default: bool,
    /// How rules are looked through.
    pub form: FirewallForm,
}

impl Default for FilterSpec {
    fn default() -> FilterSpec {
        FilterSpec { rules: None, made: 100, permit: false, deny_by_default: false, form: FirewallForm::default() }
    }
}

const MOST_MADE: u32 = 1_000_000;

impl FunctionSpec {
    /// The functions that packets go through, in their order.
    pub fn members(&self) -> &[FunctionKind] {
        match self.kind {
            FunctionKind::Chain => &self.chain,
            _ => std::slice::from_ref(&self.kind),
        }
    }

    /// Whether `kind` is among them.
    pub fn has(&self, kind: FunctionKind) -> bool {
        self.members().contains(&kind)
    }

    /// Whether one of them looks routes up in DIR-24-8.
    pub(crate) fn has_dir24(&self) -> bool {
        let by_lookup = self.has(FunctionKind::Lookup) && self.lookup.structure == Structure::Dir24;
        self.has(FunctionKind::Forward) || by_lookup
    }

    /// Checks what the functions themselves do not: a path in the scenario and what is wrong there.
    pub(crate) fn check_applications(&self) -> Result<(), (&'static str, String)> {
        let made = [
            ("function.classify.made", self.classify.made),
            ("function.inspect.made", self.inspect.made),
            ("function.firewall.made", self.firewall.made),
        ];
        if let Some((path, n)) = made.into_iter().find(|(_, n)| !(1..=MOST_MADE).contains(n)) {
            return Err((path, format!("{n}: allowed are 1 to {MOST_MADE}")));
        }
        if self.has(FunctionKind::Trace) {
            self.trace.check()?;
        }
        if self.kind == FunctionKind::Chain {
            if self.chain.is_empty() {
                let example = "function.chain = [\"check\", \"classify\", \"lookup\", \"ttl\"]";
                return Err((
                    "function.chain",
                    format!("it is empty: allowed are 1 to 16 functions (write {example})"),
                ));
            }
            if self.chain.len() > 16 {
                return Err(("function.chain", format!("{} functions: allowed are 1 to 16", self.chain.len())));
            }
            if let Some(kind) = self.chain.iter().find(|k| matches!(k, FunctionKind::Chain | FunctionKind::Upf)) {
                let name = if *kind == FunctionKind::Upf { "upf" } else { "chain" };
                return Err((
                    "function.chain",
                    format!("{name:?} cannot stand in a chain: allowed is any other function"),
                ));
            }
        }
        Ok(())
    }
}

/// A recorded program: which, and how its packets stand for others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TraceSpec {
    /// What the program did: events of `wirespeed_probe.h`, or a trace of valgrind's lackey or DynamoRIO's view tool with
    /// its marks; also compressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Which recorded packet stands for a packet.
    pub pick: Pick,
    /// Recorded packets that are left out at the beginning: those for which the program was not yet warm.
    pub skip: u32,
    /// What addresses wait for.
    pub dependence: Dependence,
    /// Instructions of each reference where the recording tells of none, itself included; 1 to 1000.
    pub instructions_per_reference: f64,
}

impl Default for TraceSpec {
    fn default() -> TraceSpec {
        TraceSpec {
            file: None,
            pick: Pick::default(),
            skip: 0,
            dependence: Dependence::default(),
            // Assumed: compiled integer code touches memory with every second to fourth instruction.
            instructions_per_reference: 3.0,
        }
    }
}

impl TraceSpec {
    /// Checks what can be checked without the recording: a path in the scenario and what is wrong there.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.file.is_none() {
            let message = "a recording is wanted (set function.trace.file; what wirespeed_probe.h writes is one)";
            return Err(("function.trace.file", message.into()));
        }
        let n = self.instructions_per_reference;
        if !(1.0..=1000.0).contains(&n) {
            return Err(("function.trace.instructions_per_reference", format!("{n}: allowed are 1 to 1000")));
        }
        Ok(())
    }
}
