//! The functions of a router other than forwarding alone: what a scenario says of them, and how they are built from it.

use std::path::{Path, PathBuf};

use functions::classify::Search;
use functions::firewall::FirewallForm;
use functions::inspect::{Method, Pattern};
use functions::lookup::Structure;
use functions::{
    Chain, ChecksumCheck, Classify, ClassifySpec, Firewall, FirewallSpec, Fragment, Function, FunctionError,
    HeaderCheck, Inspect, InspectSpec, Lookup, Nat, Template, Ttl, Work,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traffic::{PatternSelection, Rules, SignatureStrings, Stop, Table};

use crate::load::{InputFile, Routing, build as forwarding, routes};
use crate::scenario::{FunctionKind, FunctionSpec, ScenarioError};
use crate::summary::file_name;

/// Made rules and strings are the same whatever the seed of a run, as made tables are.
const RULES_SEED: u64 = 31;
const PATTERNS_SEED: u64 = 32;
const MOST_MADE: u32 = 1_000_000;

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
    pub search: Search,
    /// Whether packets that no rule matches are dropped.
    pub drop_unmatched: bool,
}

impl Default for ClassificationSpec {
    fn default() -> ClassificationSpec {
        ClassificationSpec { rules: None, made: 1000, search: Search::default(), drop_unmatched: false }
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

/// A function and what is to be said about it.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) function: Function,
    pub(crate) routing: std::sync::Arc<Routing>,
    pub(crate) notes: Vec<String>,
    pub(crate) inputs: Vec<InputFile>,
}

impl Application {
    /// Builds what `spec` says, for `ports` ports and with `table` as routes.
    ///
    /// # Errors
    /// A file that cannot be read or used, a function that cannot be.
    pub(crate) fn build(
        spec: &FunctionSpec,
        ports: u16,
        table: &Table,
        stop: &Stop,
    ) -> Result<Application, ScenarioError> {
        let mut made = Application {
            function: Function::Chain(Chain::default()),
            routing: Routing::none("no routes".into()).into(),
            notes: Vec::new(),
            inputs: Vec::new(),
        };
        let failed = |path: &'static str| move |e: FunctionError| ScenarioError::Application { path, source: e };
        let mut members = Vec::new();
        for &kind in spec.members() {
            members.push(made.member(kind, spec, ports, table, stop)?);
        }
        made.function = match (spec.kind, members.pop()) {
            (FunctionKind::Chain, Some(last)) => {
                members.push(last);
                Function::Chain(Chain::new(members).map_err(failed("function.chain"))?)
            }
            (_, Some(one)) => one,
            (_, None) => Function::Chain(Chain::default()),
        };
        Ok(made)
    }

    fn member(
        &mut self,
        kind: FunctionKind,
        spec: &FunctionSpec,
        ports: u16,
        table: &Table,
        stop: &Stop,
    ) -> Result<Function, ScenarioError> {
        let failed = |path: &'static str| move |e: FunctionError| ScenarioError::Application { path, source: e };
        Ok(match kind {
            FunctionKind::Forward => {
                let (forward, routing) = forwarding(&spec.forward, ports, table)?;
                self.routing = routing;
                Function::Forward(forward)
            }
            FunctionKind::Lookup => {
                let routes = routes(&spec.forward, table);
                let lookup = Lookup::new(routes, ports, spec.lookup.structure).map_err(failed("function.lookup"))?;
                self.routing = Routing::of(&spec.forward, table, lookup.routes()).into();
                Function::Lookup(lookup)
            }
            FunctionKind::Check => Function::HeaderCheck(HeaderCheck::new(spec.check.checksum, ports)),
            FunctionKind::Ttl => Function::Ttl(Ttl::new(ports)),
            FunctionKind::Fragment => {
                Function::Fragment(Fragment::new(&spec.fragment, ports).map_err(failed("function.fragment"))?)
            }
            FunctionKind::Nat => Function::Nat(Nat::new(&spec.nat).map_err(failed("function.nat"))?),
            FunctionKind::Classify => {
                let c = &spec.classify;
                let rules = self.rules(c.rules.as_deref(), c.made, ("rules", "classified by"), table, stop)?;
                let how = ClassifySpec { search: c.search, drop_unmatched: c.drop_unmatched };
                Function::Classify(Classify::new(&rules.rules, &how, ports).map_err(failed("function.classify"))?)
            }
            FunctionKind::Firewall => {
                let f = &spec.firewall;
                let rules = self.rules(f.rules.as_deref(), f.made, ("templates", "filtered by"), table, stop)?;
                let templates = rules.rules.iter().map(|rule| Template::from_rule(rule, f.permit));
                let templates = templates.collect::<Result<Vec<_>, _>>().map_err(failed("function.firewall"))?;
                // Packets leave by the other port of a pair.
                let how =
                    FirewallSpec { form: f.form, deny_by_default: f.deny_by_default, ports: ports.next_multiple_of(2) };
                Function::Firewall(Firewall::new(&templates, &how).map_err(failed("function.firewall"))?)
            }
            FunctionKind::Inspect => {
                let i = &spec.inspect;
                let strings = match &i.patterns {
                    Some(path) => SignatureStrings::open_until(path, stop)?,
                    None => SignatureStrings::made(PATTERNS_SEED, i.made as usize),
                };
                self.read("patterns", i.patterns.as_deref(), strings.content.as_deref());
                let select = strings.select(&i.select);
                let source = source_of(i.patterns.as_deref());
                self.notes.push(format!("payloads are searched for {} strings, {source}", select.len()));
                let patterns: Vec<Pattern> =
                    select.into_iter().map(|(bytes, nocase)| Pattern { bytes, nocase }).collect();
                let how = InspectSpec { method: i.method, depth: i.depth, drop: i.drop };
                Function::Inspect(Inspect::new(&patterns, &how, ports).map_err(failed("function.inspect"))?)
            }
            FunctionKind::Work => Function::Work(Work::new(&spec.work, ports).map_err(failed("function.work"))?),
            FunctionKind::Trace => {
                let in_chain = spec.kind == FunctionKind::Chain;
                let (trace, content, notes) = spec.trace.build(ports, in_chain, stop)?;
                self.read("recording", spec.trace.file.as_deref(), content.as_deref());
                self.notes.extend(notes);
                Function::Trace(trace)
            }
            // Checked where the scenario is read.
            FunctionKind::Chain | FunctionKind::Upf => Function::Chain(Chain::default()),
        })
    }

    fn rules(
        &mut self,
        path: Option<&Path>,
        made: u32,
        (kind, verb): (&'static str, &str),
        table: &Table,
        stop: &Stop,
    ) -> Result<Rules, ScenarioError> {
        let rules = match path {
            Some(path) => Rules::open_until(path, stop)?,
            None => Rules::made(RULES_SEED, made as usize, table),
        };
        self.read(kind, path, rules.content.as_deref());
        self.notes.push(format!("packets are {verb} {} rules, {}", rules.rules.len(), source_of(path)));
        Ok(rules)
    }

    fn read(&mut self, kind: &'static str, path: Option<&Path>, content: Option<&str>) {
        if let (Some(path), Some(content)) = (path, content) {
            self.inputs.push(InputFile { kind, name: file_name(path), blake3: content.into() });
        }
    }
}

fn source_of(path: Option<&Path>) -> String {
    path.map_or_else(|| "made".into(), file_name)
}
