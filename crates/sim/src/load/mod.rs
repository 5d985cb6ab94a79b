//! What runs need before they can simulate: routing tables, the functions built from them, traffic. Scenarios that
//! share an input share what was made of it: within a call always, from call to call through a [`Stock`].
//!
//! Loading has a thread of its own, so that a caller who is asked to stop hears it while a large file is
//! read; a reader that waits for a pipe is left behind.

mod applications;
pub mod recorded;
pub(crate) mod user_plane;

#[cfg(not(target_family = "wasm"))]
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
#[cfg(not(target_family = "wasm"))]
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
#[cfg(not(target_family = "wasm"))]
use std::thread;
#[cfg(not(target_family = "wasm"))]
use std::time::Duration;

use functions::{Forward, Function, NextHop, Socket, Vhost};
use machine::buffer::BufferAllocation;
use packet::Prefix;
use schemars::JsonSchema;
use serde::Serialize;
use traffic::{Blueprint, Compression, Damage, SourceSpec, Stop, Table, TableFormat};

use units::Size;

use crate::load::applications::LoadedFunction;
use crate::load::user_plane::UserPlane;
use crate::scenario::files::file_name;
use crate::scenario::{
    ForwardingSpec, FunctionKind, FunctionSpec, LEAST_PACKETS, Scenario, ScenarioError, UserPlaneSpec,
};

/// Made tables are the same whatever the seed of a run: a router's routes do not change with the
/// traffic.
const TABLE_SEED: u64 = 24;
/// Things of a kind that a [`Stock`] keeps: a full table and its lookup structure take 100 MiB.
const KEPT: usize = 3;
/// Between two looks at whether to stop.
#[cfg(not(target_family = "wasm"))]
const EVERY: Duration = Duration::from_millis(50);

/// A scenario and what was loaded for it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The packet function; clones share its tables.
    pub function: Function,
    /// Where packets come from.
    pub blueprint: Arc<Blueprint>,
    /// The routing table it was built from.
    pub routing: Arc<Routing>,
    /// What was assumed or found in the input, in words.
    pub notes: Vec<String>,
    /// The files that decide over the result, by their content.
    pub inputs: Vec<InputFile>,
}

/// A routing table's facts.
#[derive(Clone, Debug)]
pub struct Routing {
    /// The file's name, or what was made.
    pub source: String,
    /// How it was written.
    pub format: TableFormat,
    /// How that was compressed.
    pub compression: Compression,
    /// Routes in use, by family.
    pub routes: (usize, usize),
    /// Entries for a prefix that had a route already.
    pub duplicates: u64,
    /// What could not be read.
    pub damage: Damage,
    notes: Vec<String>,
    content: Option<String>,
}

impl Routing {
    /// Of `routes` routes in use, of `table`.
    pub(crate) fn of(spec: &ForwardingSpec, table: &Table, routes: (usize, usize)) -> Routing {
        let mut notes = Vec::new();
        if !table.damage.is_empty() {
            notes.push(format!("the routing table is damaged: {}", table.damage));
        }
        let hops = spec.next_hops;
        let without = table.routes.iter().filter(|r| r.next_hop.is_none()).count();
        if without > 0 {
            notes.push(format!("{without} routes have no next hop: each got one of {hops} by a hash of its prefix"));
        }
        Routing {
            source: match &spec.table {
                Some(path) => file_name(path),
                None => format!("made, {} prefixes", spec.prefixes),
            },
            format: table.format,
            compression: table.compression,
            routes,
            duplicates: table.duplicates,
            damage: table.damage.clone(),
            notes,
            content: table.content.clone(),
        }
    }

    /// Of a function that does not route: `source` says what it has instead.
    pub(crate) fn none(source: String) -> Routing {
        Routing {
            source,
            format: TableFormat::Synthetic,
            compression: Compression::Plain,
            routes: (0, 0),
            duplicates: 0,
            damage: Damage::default(),
            notes: Vec::new(),
            content: None,
        }
    }
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InputFile {
    /// What it is for: capture, profile, table.
    pub kind: &'static str,
    /// Its name without folders.
    pub name: String,
    /// The BLAKE3 hash of its content, in hex; of a profile, as it is written out.
    pub blake3: String,
}

/// What was made for earlier scenarios, for later ones: whoever runs many of them one after the other loads a table
/// once. Of each kind the few used last are kept. A file is known by its path: one that changes is not read again.
#[derive(Debug, Default)]
pub struct Stock(Mutex<Shelves>);

impl Stock {
    /// With nothing in it.
    pub fn new() -> Stock {
        Stock::default()
    }
}

/// Routes by file, number of made prefixes, and number of next hops.
type TableKey = (Option<PathBuf>, u32, u32);

#[derive(Debug, Default)]
struct Shelves {
    tables: Shelf<TableKey, Table>,
    routings: Shelf<(ForwardingSpec, u16), (Forward, Arc<Routing>)>,
    blueprints: Shelf<(SourceSpec, TableKey), Blueprint>,
    user_planes: Shelf<(UserPlaneSpec, SourceSpec), UserPlane>,
    applications: Shelf<(FunctionSpec, u16), LoadedFunction>,
}

/// What has been made so far, by what it was made of; the one used last comes last.
#[derive(Debug)]
struct Shelf<K, V>(Vec<(K, Arc<V>)>);

impl<K, V> Default for Shelf<K, V> {
    fn default() -> Shelf<K, V> {
        Shelf(Vec::new())
    }
}

impl<K: PartialEq, V> Shelf<K, V> {
    fn get(&mut self, key: K, make: impl FnOnce(&K) -> Result<V, ScenarioError>) -> Result<Arc<V>, ScenarioError> {
        if let Some(at) = self.0.iter().position(|(k, _)| *k == key) {
            let found = self.0.remove(at);
            let made = found.1.clone();
            self.0.push(found);
            return Ok(made);
        }
        let made = Arc::new(make(&key)?);
        self.0.push((key, made.clone()));
        Ok(made)
    }

    /// Leaves the `most` that were used last.
    fn keep(&mut self, most: usize) {
        let over = self.0.len().saturating_sub(most);
        self.0.drain(..over);
    }
}

#[cfg(not(target_family = "wasm"))]
enum LoadNews {
    /// What is being loaded.
    At(String),
    Done(thread::Result<Result<Vec<Loaded>, ScenarioError>>),
}

/// Loads what `scenarios` need and is not in `stock`. `tell` gets a few words on what is under way; once it returns
/// `false` loading ends.
///
/// # Errors
/// Input that cannot be read, a function that cannot be built, [`ScenarioError::Stopped`].
#[cfg(not(target_family = "wasm"))]
pub fn load(
    scenarios: &[Scenario],
    stock: &Arc<Stock>,
    tell: &mut dyn FnMut(&str) -> bool,
) -> Result<Vec<Loaded>, ScenarioError> {
    let (give, take) = channel();
    let stop = Stop::new();
    let (asked, scenarios, stock) = (stop.clone(), scenarios.to_vec(), stock.clone());
    thread::spawn(move || {
        let done = catch_unwind(AssertUnwindSafe(|| {
            // What a panic left is whole: things are put on a shelf when they are made.
            let mut shelves = stock.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody takes it if the user has left.
            let news = &mut |what| _ = give.send(LoadNews::At(what));
            let loaded = load_all(&scenarios, &mut shelves, &asked, news);
            shelves.keep(KEPT);
            loaded
        }));
        // Nobody takes it if the user has left.
        let _ = give.send(LoadNews::Done(done));
    });
    let mut at = String::new();
    loop {
        match take.recv_timeout(EVERY) {
            Ok(LoadNews::At(now)) => at = now,
            Ok(LoadNews::Done(Ok(loaded))) => return loaded,
            Ok(LoadNews::Done(Err(panic))) => resume_unwind(panic),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(ScenarioError::Stopped { during: at }),
        }
        if !tell(&at) {
            stop.set();
            return Err(ScenarioError::Stopped { during: at });
        }
    }
}

/// The same where there are no threads: `tell` hears of each input before it is read.
///
/// # Errors
/// As with threads.
#[cfg(target_family = "wasm")]
pub fn load(
    scenarios: &[Scenario],
    stock: &Arc<Stock>,
    tell: &mut dyn FnMut(&str) -> bool,
) -> Result<Vec<Loaded>, ScenarioError> {
    let stop = Stop::new();
    let mut shelves = stock.0.lock().unwrap_or_else(PoisonError::into_inner);
    let news = &mut |what: String| {
        if !tell(&what) {
            stop.set();
        }
    };
    let loaded = load_all(scenarios, &mut shelves, &stop, news);
    shelves.keep(KEPT);
    loaded
}

impl Shelves {
    fn keep(&mut self, most: usize) {
        self.tables.keep(most);
        self.routings.keep(most);
        self.blueprints.keep(most);
        self.user_planes.keep(most);
        self.applications.keep(most);
    }
}

fn load_all(
    scenarios: &[Scenario],
    shelves: &mut Shelves,
    stop: &Stop,
    news: &mut dyn FnMut(String),
) -> Result<Vec<Loaded>, ScenarioError> {
    let mut at = |what: String| {
        news(what);
        if stop.is_set() { Err(ScenarioError::Stopped { during: String::new() }) } else { Ok(()) }
    };
    let Shelves { tables, routings, blueprints, user_planes, applications } = shelves;
    let mut all = Vec::with_capacity(scenarios.len());
    for scenario in scenarios {
        if scenario.function.kind == FunctionKind::Upf {
            let key = (scenario.function.upf.clone(), scenario.traffic.source());
            let users = user_planes.get(key, |(spec, source)| {
                at("sessions".into())?;
                UserPlane::load(spec, source, stop)
            })?;
            all.push(users.loaded(scenario));
            continue;
        }
        let spec = &scenario.function.forward;
        let table_key = (spec.table.clone(), spec.prefixes, spec.next_hops);
        let table = tables.get(table_key.clone(), |(path, prefixes, next_hops)| {
            Ok(match path {
                Some(path) => {
                    at(format!("routing table {}", file_name(path)))?;
                    Table::open_until(path, stop)?
                }
                None => {
                    at("made routing table".into())?;
                    Table::synthetic(TABLE_SEED, *prefixes as usize, *next_hops)
                }
            })
        })?;
        let source = scenario.traffic.source();
        if scenario.function.kind != FunctionKind::Forward {
            let key = (scenario.function.clone(), scenario.nic.ports);
            let application = applications.get(key, |(spec, ports)| {
                at("rules, strings and tables of the function".into())?;
                LoadedFunction::build(spec, *ports, &table, stop)
            })?;
            let blueprint = blueprints.get((source, table_key), |(source, _)| {
                at(describe(source))?;
                Ok(Blueprint::new_until(source, Some(&table), stop)?)
            })?;
            let routing = application.routing.clone();
            let mut inputs = inputs(scenario, &blueprint, &routing);
            inputs.extend(application.inputs.iter().cloned());
            let mut notes = notes(scenario, &blueprint, &routing);
            notes.extend(application.notes.iter().cloned());
            let headers_only = scenario.traffic.capture.is_none() && scenario.traffic.payload.is_none();
            if scenario.function.has(FunctionKind::Inspect) && headers_only {
                notes.push(
                    "made packets have no payload but their first bytes, zeros: --set traffic.payload=text gives them one"
                        .into(),
                );
            }
            all.push(Loaded { function: application.function.clone(), blueprint, routing, notes, inputs });
            continue;
        }
        let built = routings.get((spec.clone(), scenario.nic.ports), |(spec, ports)| {
            at("lookup structure".into())?;
            build(spec, *ports, &table)
        })?;
        let blueprint = blueprints.get((source, table_key), |(source, _)| {
            at(describe(source))?;
            Ok(Blueprint::new_until(source, Some(&table), stop)?)
        })?;
        let routing = built.1.clone();
        let function = match (&scenario.function.copy, &scenario.function.socket) {
            (Some(copy), _) => Function::Vhost(Vhost::new(copy, built.0.clone())?),
            (None, Some(socket)) => Function::Socket(Socket::new(socket, built.0.clone())?),
            (None, None) => Function::Forward(built.0.clone()),
        };
        let inputs = inputs(scenario, &blueprint, &routing);
        let notes = notes(scenario, &blueprint, &routing);
        all.push(Loaded { function, blueprint, routing, notes, inputs });
    }
    scenarios.iter().zip(&all).try_for_each(|(scenario, loaded)| frames_fit(scenario, &loaded.blueprint))?;
    Ok(all)
}

/// A packet buffer refuses longer frames one by one; if it is known before that there are any, that is an error.
fn frames_fit(scenario: &Scenario, blueprint: &Blueprint) -> Result<(), ScenarioError> {
    let Some(buffer) = &scenario.buffer else { return Ok(()) };
    let (longest, frame) = (buffer.longest.bytes(), u64::from(blueprint.longest_frame()));
    if frame <= longest {
        return Ok(());
    }
    let page = match buffer.allocation {
        BufferAllocation::Fixed | BufferAllocation::Piecewise
            if buffer.page.map_or(buffer.allocation.usual_page(), Size::bytes) < frame =>
        {
            let page = Size::from_bytes(frame.next_power_of_two());
            format!(" and buffer.page=\"{page}\"")
        }
        _ => String::new(),
    };
    Err(ScenarioError::Value {
        origin: "scenario".into(),
        path: "buffer.longest".into(),
        message: format!(
            "{longest} bytes, the traffic has frames of {frame} bytes without check sequence: allowed are {frame} bytes or more \
             (--set buffer.longest=\"{frame} B\"{page}, or shorter frames)"
        ),
    })
}

/// Traffic in a few words.
fn describe(source: &SourceSpec) -> String {
    match (&source.capture, &source.profile) {
        (Some(path), _) => format!("capture {}", file_name(path)),
        (None, Some(profile)) => format!("profile {}", file_name(Path::new(profile))),
        (None, None) => "traffic".into(),
    }
}

/// Forwarding by the routes of `table`.
pub(crate) fn build(
    spec: &ForwardingSpec,
    ports: u16,
    table: &Table,
) -> Result<(Forward, Arc<Routing>), ScenarioError> {
    let forwarding = Forward::new(routes(spec, table), ports, &spec.lookup)?;
    let routing = Routing::of(spec, table, forwarding.routes());
    Ok((forwarding, Arc::new(routing)))
}

/// The routes of `table`. Next hops that entries cannot hold share the last one that they can: a file's numbers are
/// indices, so there are never as many.
pub(crate) fn routes<'a>(spec: &ForwardingSpec, table: &'a Table) -> impl Iterator<Item = (Prefix, NextHop)> + use<'a> {
    let (hops, is_given) = (spec.next_hops, spec.default_route);
    // The table's own go last, so that a default route of its own stands.
    let everywhere = [Prefix::V4 { addr: 0, len: 0 }, Prefix::V6 { addr: 0, len: 0 }];
    let default = everywhere.into_iter().filter(move |_| is_given).filter_map(|to| Some((to, NextHop::new(0)?)));
    default.chain(table.routes.iter().filter_map(move |r| {
        let class = r.next_hop.unwrap_or_else(|| spread(r.prefix) % hops);
        NextHop::new(class).map(|hop| (r.prefix, hop))
    }))
}

/// A stable hash of a prefix (the 64-bit finaliser of MurmurHash3).
fn spread(prefix: Prefix) -> u32 {
    let mut x = match prefix {
        Prefix::V4 { addr, len } => u64::from(addr) << 8 | u64::from(len),
        Prefix::V6 { addr, len } => (addr >> 64) as u64 ^ addr as u64 ^ u64::from(len) << 56,
    };
    x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (x ^ x >> 33) as u32
}

fn inputs(scenario: &Scenario, blueprint: &Blueprint, routing: &Routing) -> Vec<InputFile> {
    let table = scenario.function.forward.table.as_deref();
    files(scenario, blueprint, ("table", table, routing.content.as_deref()))
}

/// The files of a scenario's traffic, and another.
pub(crate) fn files(
    scenario: &Scenario,
    blueprint: &Blueprint,
    other: (&'static str, Option<&Path>, Option<&str>),
) -> Vec<InputFile> {
    let traffic = &scenario.traffic;
    let profile = traffic.profile.as_deref().map(Path::new).filter(|_| traffic.profile_is_a_file());
    let files = [
        ("capture", traffic.capture.as_deref(), blueprint.content()),
        ("profile", profile, blueprint.content()),
        other,
    ];
    let file = |(kind, path, hash): (&'static str, Option<&Path>, Option<&str>)| {
        Some(InputFile { kind, name: file_name(path?), blake3: hash?.to_string() })
    };
    files.into_iter().filter_map(file).collect()
}

/// What is to be said about traffic, whatever the function.
pub(crate) fn traffic_notes(scenario: &Scenario, blueprint: &Blueprint) -> Vec<String> {
    let mut notes = blueprint.notes().to_vec();
    if let Some(packets) = blueprint.capture_report().map(|r| r.packets).filter(|&n| n > 0)
        && scenario.run.packets > packets
    {
        let times = scenario.run.packets as f64 / packets as f64;
        let one = if packets < LEAST_PACKETS {
            format!("a run has {LEAST_PACKETS} packets at least")
        } else {
            format!("--set run.packets={packets} measures one round")
        };
        notes.push(format!(
            "the capture has {packets} packets, repeated {times:.0} times: caches see the flows of a short stretch again and again; {one}"
        ));
    }
    let round = scenario.traffic.phases.iter().map(|phase| phase.time.ps().as_secs()).sum::<f64>();
    let pps = blueprint.packets_per_second(&scenario.traffic.offered(scenario.nic.rate));
    if let Ok(packets) = pps.map(|pps| (round * pps).ceil())
        && packets > scenario.run.packets as f64
    {
        notes.push(format!(
            "run.packets = {} end within the first round of traffic.phases, which has {packets}: what is measured is not \
             the load's mean; --set run.packets={packets} measures one round, as run.search_packets={packets} does in a search",
            scenario.run.packets
        ));
    }
    notes
}

fn notes(scenario: &Scenario, blueprint: &Blueprint, routing: &Routing) -> Vec<String> {
    let mut notes = routing.notes.clone();
    notes.extend(traffic_notes(scenario, blueprint));
    let is_owned = scenario.machine.applications.values().any(|application| application.slices.is_some());
    if is_owned && scenario.machine.llc.hash != machine::memory::SliceHash::default() {
        notes.push(
            "machine.llc.hash is not used: where applications own slices, each line is placed by itself in those of its owner"
                .into(),
        );
    }
    let sums = blueprint.checksums();
    let bad = [(sums.zero, "0"), (sums.wrong, "wrong")];
    for (n, what) in bad.into_iter().filter(|(n, _)| *n > 0) {
        let of = sums.headers;
        notes.push(match scenario.function.forward.lookup.checksum {
            functions::ChecksumCheck::Nic => format!(
                "the IPv4 header checksum is {what} in {n} of {of} packets of the capture: they are forwarded as if it \
                 were right, since the NIC is taken to have checked it (function.forward.lookup.checksum = \"nic\")"
            ),
            functions::ChecksumCheck::Software => format!(
                "the IPv4 header checksum is {what} in {n} of {of} packets of the capture: the function rejects them as \
                 bad_checksum. Captures are often published with erased checksums, or taken before the sending \
                 network card fills them in; --set function.forward.lookup.checksum=nic forwards them"
            ),
        });
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Overrides;

    fn scenario(set: &[&str]) -> Scenario {
        let set = set.iter().map(|text| (*text).to_string()).collect();
        let overrides = Overrides { set, capture: None, table: None, seed: None, search: None };
        Scenario::read("function.forward.prefixes = 1000", "<test>", &overrides).unwrap()
    }

    #[test]
    fn what_a_stock_has_is_not_made_again() {
        let stock = Arc::new(Stock::new());
        let load = |s: &Scenario| load(std::slice::from_ref(s), &stock, &mut |_| true).unwrap().remove(0);
        let first = load(&scenario(&[]));
        let again = load(&scenario(&["traffic.load=0.2", "run.seed=2"]));
        assert!(Arc::ptr_eq(&first.routing, &again.routing) && Arc::ptr_eq(&first.blueprint, &again.blueprint));
        let other = load(&scenario(&["function.forward.next_hops=3"]));
        assert!(!Arc::ptr_eq(&first.routing, &other.routing));
    }

    #[test]
    fn a_stock_keeps_what_was_used_last() {
        let mut shelf = Shelf::default();
        for key in [1, 2, 1, 3, 4] {
            shelf.get(key, |k| Ok(*k)).unwrap();
        }
        shelf.keep(3);
        assert_eq!(shelf.0.iter().map(|(k, _)| *k).collect::<Vec<_>>(), [1, 3, 4]);
    }
}
