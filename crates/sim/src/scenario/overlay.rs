//! Settings over settings: a machine's, a file's own, those of the command line; and what moves with what.

use std::path::Path;

use machine::dram::DramPart;
use machine::nic::{Holders, PipelineSpec};
use toml::de::{DeTable, DeValue};

use super::error::ScenarioError;
use super::exclusions;
use super::presets::{SCENARIOS, find, known};
use super::resolve::resolve;
use super::spec::MachineSpec;

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
    let is_mask = takes_ways(path) && ["0b", "0x"].iter().any(|radix| value.to_ascii_lowercase().starts_with(radix));
    if !is_mask {
        refuse_counted_masks(&format!("{path} = {value}"), "--set")?;
    }
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
    for (depth, key) in front.iter().enumerate() {
        let next = at.entry(*key).or_insert_with(|| toml::Table::new().into());
        if is_named(&front[..=depth].join(".")) {
            open_name(next);
        }
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

/// Where a driver's table stands.
pub(super) const DRIVER: &str = "nic.driver";
/// Where a program's table stands.
pub(super) const PROGRAM: &str = "function.program";
/// And the GPU.
pub(super) const GPU: &str = "machine.gpu";

/// Whether a name may stand for the table at `path`.
fn is_named(path: &str) -> bool {
    [DRIVER, PROGRAM, GPU].contains(&path)
}

/// Makes the table of the name that stands for it.
pub(super) fn open_name(value: &mut toml::Value) {
    if let toml::Value::String(name) = value {
        let name = toml::Value::String(std::mem::take(name));
        *value = toml::Table::from_iter([("preset".to_string(), name)]).into();
    }
}

/// Settings in the order in which they are applied: beside a part's name its settings hold in whatever order they were given, and so
/// the first name comes first. A later one replaces all that came before it.
pub(super) fn names_first<'a>(sets: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    fn path(set: &str) -> &str {
        set.split('=').next().unwrap_or_default().trim()
    }
    let (mut first, mut rest): (Vec<&String>, Vec<&String>) = (Vec::new(), Vec::new());
    for set in sets {
        let again = first.iter().any(|earlier| path(earlier) == path(set));
        if is_named(path(set)) && !again { &mut first } else { &mut rest }.push(set);
    }
    first.extend(rest);
    first
}

/// Drops what says what made packets are, because a capture brings its own; gives what it dropped as `key = value`. A
/// capture also has its own gaps, so that those of a `shipped` scenario go, too; those of a user's file are meant.
pub(super) fn drop_made_traffic(traffic: &mut toml::Table, shipped: bool) -> Vec<String> {
    let keys = of_a_profile().chain(shipped.then_some("arrivals"));
    keys.filter_map(|key| traffic.remove(key).map(|value| format!("{key} = {value}"))).collect()
}

pub(super) fn merge(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(base)), toml::Value::Table(over)) => merge(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
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

pub(super) fn table<'a>(parent: &'a mut toml::Table, key: &str) -> &'a mut toml::Table {
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

/// Keys of `traffic` that say what made packets are.
fn of_a_profile() -> impl Iterator<Item = &'static str> {
    exclusions::all()
        .filter(|pair| pair.other == exclusions::CAPTURE)
        .filter_map(|pair| pair.one.path.strip_prefix("traffic."))
}

/// Refuses a mask of ways that is written as a number: it reads as the number that it is, and would be taken for a count. Paths are
/// those of a scenario, with whatever stands before them, as in a study.
///
/// # Errors
/// The first such setting in `text`; what is no TOML has none.
pub fn refuse_counted_masks(text: &str, origin: &str) -> Result<(), ScenarioError> {
    let found = DeTable::parse(text).ok().and_then(|table| mask_in_table(table.get_ref(), text, ""));
    match found {
        None => Ok(()),
        Some((path, value)) => Err(ScenarioError::Value {
            origin: origin.into(),
            path,
            message: format!("{value}: a bare number is how many ways (write a mask as text: \"{value}\")"),
        }),
    }
}

/// Whether the setting at `path` takes ways as a count or as a mask.
fn takes_ways(path: &str) -> bool {
    let keys: Vec<&str> = path.split('.').collect();
    matches!(
        keys.as_slice(),
        [.., "machine", "llc", "core_ways" | "io_ways" | "inclusive_ways"]
            | [.., "machine", "clos" | "applications", _, "ways"]
    )
}

fn mask_in_table(table: &DeTable, text: &str, at: &str) -> Option<(String, String)> {
    table.iter().find_map(|(key, value)| {
        let key = key.get_ref();
        let path = if at.is_empty() { key.to_string() } else { format!("{at}.{key}") };
        mask_in_value(value, text, &path)
    })
}

fn mask_in_value(value: &toml::Spanned<DeValue>, text: &str, path: &str) -> Option<(String, String)> {
    match value.get_ref() {
        DeValue::Table(table) => mask_in_table(table, text, path),
        DeValue::Array(values) => values.iter().find_map(|value| mask_in_value(value, text, path)),
        DeValue::Integer(number) if number.radix() != 10 && takes_ways(path) => {
            Some((path.to_string(), text.get(value.span()).unwrap_or_default().to_string()))
        }
        _ => None,
    }
}

/// A module has one channel, or two of half its width; stacks have 16 and more.
const MODULE_CHANNELS: u32 = 2;

/// Gives a machine the DRAM of a part. Its controller stays, and where the part is one of modules so do its channels, each as
/// many as a module has (two with DDR5). A stack brings its own.
pub(super) fn apply_standard(merged: &mut toml::Table, part: &DramPart) -> Result<(), String> {
    if let DramPart::Shipped(name) = part
        && !machine::dram::presets::NAMES.contains(&name.as_str())
    {
        let known = known(&machine::dram::presets::NAMES, name);
        return Err(format!("{name:?}: no such standard: {known}, or a file that ends in .toml"));
    }
    let dram = table(table(merged, "machine"), "dram");
    let overhead = match dram.get("overhead").cloned().map(toml::Value::try_into::<units::Span>) {
        Some(Ok(overhead)) => overhead,
        _ => units::Span::from_ns(0.0),
    };
    let spec = machine::dram::DramSpec::of_part(part, overhead).map_err(|e| e.to_string())?;
    let mut own = toml::Table::try_from(&spec).map_err(|e| e.to_string())?;
    let before = i64::from(channels_of_a_module(dram));
    // Those of the devices that it replaces.
    dram.remove("currents");
    dram.remove("standard");
    if spec.channels <= MODULE_CHANNELS
        && let Some(toml::Value::Integer(channels)) = dram.get("channels")
    {
        own.insert("channels".into(), (channels / before * i64::from(spec.channels)).into());
    }
    merge(dram, own);
    Ok(())
}

/// Channels of a module of the DIMMs that `dram` has: of its part, or of the one whose devices they are.
fn channels_of_a_module(dram: &toml::Table) -> u32 {
    let named = ["standard", "currents"].iter().find_map(|key| dram.get(*key));
    let part = named.and_then(|part| part.clone().try_into::<DramPart>().ok());
    let spec = part.and_then(|part| machine::dram::DramSpec::of_part(&part, units::Span::from_ns(0.0)).ok());
    spec.map_or(1, |spec| spec.channels).clamp(1, MODULE_CHANNELS)
}

/// The path of a value that is no number, if there is one. Checks see the settings that take part; this sees all, since a
/// scenario that has one somewhere does not equal itself.
pub(super) fn not_a_number(table: &toml::Table) -> Option<String> {
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

/// The ways that settings give the LLC.
pub(super) fn ways_of(settings: &mut toml::Table) -> Option<u32> {
    get_mut(settings, &["machine", "llc", "ways"])?.as_integer().and_then(|n| u32::try_from(n).ok())
}

/// An LLC of other ways than `usual` has keeps its sets, and so has another size: what is to be said about it.
pub(super) fn fit_size(merged: &mut toml::Table, usual: &toml::Table, ways: u32) -> Option<String> {
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

/// A preset's count of ways for devices that an LLC of `ways` has not is all of them: what is to be said about it.
pub(super) fn fit_io_ways(merged: &mut toml::Table, ways: u32) -> Option<String> {
    let io = get_mut(merged, &["machine", "llc", "io_ways"])?;
    let before = io.as_integer().filter(|before| *before > i64::from(ways))?;
    *io = toml::Value::Integer(ways.into());
    Some(format!("machine.llc.io_ways is {ways} in place of the machine's {before}: the LLC has no more ways"))
}

pub(super) fn mib(bytes: u64) -> String {
    let text = format!("{:.2}", bytes as f64 / f64::from(1 << 20));
    format!("{} MiB", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Makes a preset's pool as large as more cores, longer rings or software queues want it, to the next power of two. A pool
/// that stayed as it is would starve, and what was asked for would not be seen. A GPU has at most `offloaded` packets.
pub(super) fn grow_pool(merged: &mut toml::Table, offloaded: u32) -> Option<String> {
    let rings = get_mut(merged, &["nic", "rings"]).and_then(|v| v.as_str()).unwrap_or_default().to_string();
    let mut number = |path: &[&str]| {
        get_mut(merged, path).and_then(|v| v.as_integer()).and_then(|n| u32::try_from(n).ok()).filter(|&n| n < 1 << 24)
    };
    let cores = number(&["machine", "cores"]).unwrap_or(0);
    let pipelined = number(&["pipeline", "rx_cores"]);
    let receiving = pipelined.unwrap_or(cores).min(cores);
    let queues = number(&["nic", "queues_per_core"]).unwrap_or(1);
    let descriptors = number(&["nic", "rx_descriptors"]).unwrap_or(0);
    let deliveries = number(&["nic", "deliveries"]).unwrap_or(4 * descriptors);
    let (rings, queues, arrivals) = match rings.as_str() {
        "shared" => (receiving.min(1), 1, 0),
        "bisected" => (receiving, queues, deliveries.saturating_mul(queues)),
        _ => (receiving, queues, 0),
    };
    let holders = Holders {
        cores,
        receiving,
        rings,
        ports: number(&["nic", "ports"]).unwrap_or(0),
        rx_descriptors: descriptors.saturating_mul(queues),
        arrivals,
        tx_descriptors: number(&["nic", "tx_descriptors"]).unwrap_or(0),
        burst: number(&["nic", "burst"]).unwrap_or(0),
        cache: number(&["mempool", "cache"]).unwrap_or(0),
        queue: pipelined.map_or(0, |_| number(&["pipeline", "queue"]).unwrap_or(PipelineSpec::QUEUE)),
        offloaded,
    };
    let wanted = holders.most();
    let size = get_mut(merged, &["mempool", "size"])?;
    let before = size.as_integer().and_then(|n| u64::try_from(n).ok()).filter(|n| *n < wanted)?;
    let grown = i64::try_from(holders.pool()?).ok()?;
    *size = toml::Value::Integer(grown);
    Some(format!(
        "mempool.size is {grown} in place of the machine's {before}: rings, queues, bursts and caches hold up to {wanted} mbufs (set it for \
         another one)"
    ))
}

/// The title of a scenario of which settings were changed: what it was, and what is another now; none where nothing is,
/// or where it was given a title of its own. How much is run and how often is no other scenario.
pub(super) fn title(before: &toml::Table, after: &toml::Table, origin: &str) -> Option<String> {
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
    // A title that tells of changes is of a result: of what is changed again only the last is told, and first.
    let is_setting = |path: &str| [before, after].iter().any(|settings| has(settings, path));
    let (base, mut told, more) = told_changes(base, is_setting);
    told.retain(|(path, _)| !changes.iter().any(|(again, _)| again == path));
    changes.append(&mut told);
    Some(format!("{base} ({})", listed(&changes, more)))
}

/// Whether settings have that path.
fn has(settings: &toml::Table, path: &str) -> bool {
    match path.split_once('.') {
        Some((table, rest)) => {
            settings.get(table).and_then(toml::Value::as_table).is_some_and(|table| has(table, rest))
        }
        None => settings.contains_key(path),
    }
}

/// A title without the changes that [`title`] has put at its end, those that it names, and how many more there are.
fn told_changes(title: &str, is_setting: impl Fn(&str) -> bool) -> (&str, Vec<(String, String)>, usize) {
    let nothing = (title, Vec::new(), 0);
    let Some(open) = title.strip_suffix(')') else { return nothing };
    // What is in brackets before is the title's own, and a value may have some.
    let found = open.rmatch_indices(" (").find_map(|(at, _)| Some((at, changes_in(&open[at + 2..], &is_setting)?)));
    found.map_or(nothing, |(at, (changes, more))| (&title[..at], changes, more))
}

/// The changes that [`listed`] wrote, and how many more; [`None`] for other words.
fn changes_in(text: &str, is_setting: impl Fn(&str) -> bool) -> Option<(Vec<(String, String)>, usize)> {
    let (named, more) = match text.strip_suffix(" more").and_then(|text| text.rsplit_once(" and ")) {
        Some((named, more)) => (named, more.parse().ok()?),
        None => (text, 0),
    };
    let mut found: Vec<(String, String)> = Vec::new();
    for part in named.split(", ") {
        match (part.split_once('='), found.last_mut()) {
            // A list has commas, too.
            (_, Some((_, value))) if is_open(value) => *value = format!("{value}, {part}"),
            (Some((path, value)), _) if is_setting(path) => found.push((path.into(), value.into())),
            _ => return None,
        }
    }
    Some((found, more))
}

/// Whether a value has a bracket that does not end.
fn is_open(value: &str) -> bool {
    let count = |brackets: [char; 2]| value.matches(brackets).count();
    count(['[', '{']) > count([']', '}'])
}

/// What `after` has otherwise than `before`, by path; what it lacks has been replaced. Of a file the name alone.
pub(super) fn changed(prefix: &str, before: &toml::Table, after: &toml::Table, found: &mut Vec<(String, String)>) {
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

pub(super) fn written(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) if text.contains(['/', '\\']) => {
            Path::new(text).file_name().map_or(text.clone(), |name| name.to_string_lossy().into_owned())
        }
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Changes that a title names.
const NAMED_CHANGES: usize = 3;

/// The name of a machine, with what of it is another than its preset, `usual`, has: the NIC, where that is another, and settings.
pub(super) fn machine_name(machine: &MachineSpec, usual: &toml::Table, nic: Option<&str>) -> String {
    let mut changes = Vec::new();
    // A part goes by its name.
    let told = |machine: &MachineSpec| {
        let mut told = machine.clone();
        told.dram.standard = told.dram.standard.map(|part| DramPart::from(part.name()));
        toml::Table::try_from(&told)
    };
    if let Some(preset) = resolve(usual.clone(), usual).scenario
        && let (Ok(was), Ok(is)) = (told(&preset.machine), told(machine))
    {
        changed("", &was, &is, &mut changes);
    }
    // A standard brings its timings with it.
    let by_standard = changes.iter().any(|(path, _)| path == "dram.standard");
    changes.retain(|(path, _)| {
        !["name", "preset", "processor"].contains(&path.as_str())
            && (!by_standard || path == "dram.standard" || !path.starts_with("dram."))
    });
    let nic = nic.map(|name| Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned());
    let listed = Some(listed(&changes, 0)).filter(|_| !changes.is_empty());
    let told: Vec<String> = nic.into_iter().chain(listed).collect();
    let with = if told.is_empty() { "" } else { " with " };
    format!("{}{with}{}", machine.name, told.join(", "))
}

/// The first of some changes, and how many more there are, beside `unnamed`.
fn listed(changes: &[(String, String)], unnamed: usize) -> String {
    let named: Vec<String> =
        changes.iter().take(NAMED_CHANGES).map(|(path, value)| format!("{path}={value}")).collect();
    let more = changes.len().saturating_sub(NAMED_CHANGES) + unnamed;
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}
