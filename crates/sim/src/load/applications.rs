//! The functions of a router other than forwarding alone: what a scenario says of them, and how they are built from it.

use std::path::Path;

use functions::inspect::Pattern;
use functions::{
    Chain, Classify, ClassifySpec, Firewall, FirewallSpec, Fragment, Function, FunctionError, HeaderCheck, Inspect,
    InspectSpec, Lookup, Nat, Program, Template, Ttl, Work,
};
use traffic::{FilterRules, SignatureStrings, Stop, Table};

use crate::load::{InputFile, Routing, build as forwarding, routes};
use crate::scenario::files::file_name;
use crate::scenario::{FunctionKind, FunctionSpec, ScenarioError};

/// Made rules and strings are the same whatever the seed of a run, as made tables are.
const RULES_SEED: u64 = 31;
const PATTERNS_SEED: u64 = 32;

/// A function and what is to be said about it.
#[derive(Debug)]
pub(crate) struct LoadedFunction {
    pub(crate) function: Function,
    pub(crate) routing: std::sync::Arc<Routing>,
    pub(crate) notes: Vec<String>,
    pub(crate) inputs: Vec<InputFile>,
}

impl LoadedFunction {
    /// Builds what `spec` says, for `ports` ports and with `table` as routes.
    ///
    /// # Errors
    /// A file that cannot be read or used, a function that cannot be.
    pub(crate) fn build(
        spec: &FunctionSpec,
        ports: u16,
        table: &Table,
        stop: &Stop,
    ) -> Result<LoadedFunction, ScenarioError> {
        let mut made = LoadedFunction {
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
            FunctionKind::Program => {
                let (forward, routing) = match spec.program.table {
                    None => (None, self.routing.clone()),
                    Some(_) => {
                        let (forward, routing) = forwarding(&spec.forward, ports, table)?;
                        (Some(forward), routing)
                    }
                };
                self.routing = routing;
                let program = Program::new(&spec.program, routes(&spec.forward, table), forward, ports);
                Function::Program(program.map_err(failed("function.program"))?)
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
    ) -> Result<FilterRules, ScenarioError> {
        let rules = match path {
            Some(path) => FilterRules::open_until(path, stop)?,
            None => FilterRules::made(RULES_SEED, made as usize, table),
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
