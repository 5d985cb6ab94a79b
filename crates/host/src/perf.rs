//! Events of the kernel's perf: cores' and the uncore's, named as the perf tool names them (`uncore_imc_0/cas_count_read/`).
//!
//! A unit (PMU) says in sysfs where the bits of a term go and which processors it is read on; an event that it names is a list of
//! terms. Left out: scaling of events that share a counter, since the few that are wanted here have one each. Source:
//! Linux, Documentation/ABI/testing/sysfs-bus-event_source-devices-*.

use std::collections::BTreeMap;
use std::io;

use perf_event::events::{Event, Raw};
use perf_event::{Builder, Counter};

use crate::{CpuList, HostError, Tree};

/// Where units are described, below `/sys`.
const DEVICES: &str = "bus/event_source/devices";

/// An event as the kernel takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct PerfEvent {
    /// As it was asked for.
    pub name: String,
    /// The unit's type.
    pub unit: u32,
    /// `config`, `config1` and `config2`.
    pub config: [u64; 3],
    /// Processors that the unit is read on; none for events of cores, which are read where the core is.
    pub cpus: Vec<u32>,
    /// What a count stands for in bytes, where the unit says so (`64` or `6.103515625e-5MiB`).
    pub bytes: Option<f64>,
}

/// Units whose names begin with `prefix`, sorted.
///
/// # Errors
/// The kernel has no perf.
pub fn units(sys: &dyn Tree, prefix: &str) -> Result<Vec<String>, HostError> {
    let list = sys.list(DEVICES).map_err(|e| absent("perf", &e))?;
    Ok(list.into_iter().map(|(name, _)| name).filter(|n| n.starts_with(prefix)).collect())
}

/// Finds an event: `unit/term,term=value/`; a unit that ends in `*` stands for all that begin so.
///
/// # Errors
/// No such unit or term, with those there are.
pub fn resolve(sys: &dyn Tree, name: &str) -> Result<Vec<PerfEvent>, HostError> {
    let form = || {
        HostError::form("perf event", name, "a form such as uncore_imc_*/cas_count_read/ or cpu/event=0x2e,umask=0x41/")
    };
    let (unit, terms) = name.split_once('/').ok_or_else(form)?;
    let terms = terms.strip_suffix('/').ok_or_else(form)?;
    let found = match unit.strip_suffix('*') {
        Some(prefix) => units(sys, prefix)?,
        None => units(sys, unit)?.into_iter().filter(|n| n == unit).collect(),
    };
    if found.is_empty() {
        let known = units(sys, "")?.join(", ");
        return Err(HostError::Key { path: DEVICES.into(), key: unit.into(), known });
    }
    found.iter().map(|unit| resolve_one(sys, name, unit, terms)).collect()
}

fn resolve_one(sys: &dyn Tree, name: &str, unit: &str, terms: &str) -> Result<PerfEvent, HostError> {
    let folder = format!("{DEVICES}/{unit}");
    let read = |file: &str| sys.read(&format!("{folder}/{file}"));
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let kind = read("type").ok().and_then(|t| number(&t));
    let kind = kind.ok_or_else(|| HostError::form(format!("{folder}/type"), "nothing", "the unit's number"))?;
    let cpus = read("cpumask").ok().and_then(|t| t.parse::<CpuList>().ok()).map(|l| l.0.into_iter().collect());
    let mut config = [0; 3];
    let mut bytes = None;
    // A name stands for terms, which may be overridden by those that follow it.
    let mut todo: Vec<(String, Option<String>)> = Vec::new();
    for term in terms.split(',').filter(|t| !t.is_empty()) {
        let (key, value) = term.split_once('=').map_or((term, None), |(k, v)| (k, Some(v.to_string())));
        match (&value, read(&format!("events/{key}"))) {
            (None, Ok(text)) => {
                let inner = text
                    .trim()
                    .split(',')
                    .map(|t| t.split_once('=').map_or((t, None), |(k, v)| (k, Some(v.to_string()))));
                todo.extend(inner.map(|(k, v)| (k.to_string(), v)));
                bytes = scale(read(&format!("events/{key}.scale")).ok(), read(&format!("events/{key}.unit")).ok());
            }
            _ => todo.push((key.to_string(), value)),
        }
    }
    for (key, value) in todo {
        let value = value.unwrap_or_else(|| "1".into());
        let hex = value.strip_prefix("0x").map(|h| u64::from_str_radix(h, 16));
        let value = hex.unwrap_or_else(|| value.parse()).map_err(|_| HostError::form(name, &value, "a number"))?;
        let format = match (read(&format!("format/{key}")), key.as_str()) {
            (Ok(format), _) => format,
            (Err(_), "config" | "config1" | "config2") => format!("{key}:0-63"),
            (Err(_), _) => {
                let list = |of: &str| sys.list(&format!("{folder}/{of}")).unwrap_or_default();
                let known = [list("events"), list("format")].concat();
                let known =
                    known.into_iter().map(|(n, _)| n).filter(|n| !n.contains('.')).collect::<Vec<_>>().join(", ");
                return Err(HostError::Key { path: folder, key, known });
            }
        };
        place(&format, value, &mut config)
            .ok_or_else(|| HostError::form(format!("{folder}/format/{key}"), &format, "bits of config"))?;
    }
    Ok(PerfEvent { name: format!("{unit}/{terms}/"), unit: kind, config, cpus: cpus.unwrap_or_default(), bytes })
}

/// Puts the bits of a value where a format (`config:0-7,21`) says, lowest first.
fn place(format: &str, value: u64, config: &mut [u64; 3]) -> Option<()> {
    let (which, ranges) = format.trim().split_once(':')?;
    let which = match which {
        "config" => 0,
        "config1" => 1,
        "config2" => 2,
        _ => return None,
    };
    let mut rest = value;
    for range in ranges.split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        for bit in from..=to.min(63) {
            config[which] = config[which] & !(1 << bit) | (rest & 1) << bit;
            rest >>= 1;
        }
    }
    Some(())
}

fn scale(factor: Option<String>, unit: Option<String>) -> Option<f64> {
    let factor: f64 = factor?.trim().parse().ok()?;
    match unit.as_deref().map(str::trim) {
        Some("MiB") => Some(factor * 1_048_576.0),
        Some("Bytes") => Some(factor),
        _ => None,
    }
}

/// Events that are being counted.
pub struct Counting {
    counters: Vec<(Counter, f64)>,
    name: String,
}

struct PerfAttributes(PerfEvent);

impl Event for PerfAttributes {
    fn update_attrs(self, attr: &mut perf_event_open_sys::bindings::perf_event_attr) {
        let [config, config1, config2] = self.0.config;
        Raw::new(config).config1(config1).config2(config2).update_attrs(attr);
        attr.type_ = self.0.unit;
    }
}

impl Counting {
    /// Begins to count, events of cores on `cpus`, others where their unit is read.
    ///
    /// # Errors
    /// A typed reason: no permission, no such event on this processor, no perf.
    pub fn start(events: &[PerfEvent], cpus: &[u32]) -> Result<Counting, HostError> {
        let mut counters = Vec::new();
        for event in events {
            let on = if event.cpus.is_empty() { cpus } else { &event.cpus };
            for cpu in on {
                let mut builder = Builder::new(PerfAttributes(event.clone()));
                builder.any_pid().one_cpu(*cpu as usize).include_kernel().include_hv();
                let mut counter = builder.build().map_err(|e| absent(&event.name, &e))?;
                counter.enable().map_err(|e| absent(&event.name, &e))?;
                counters.push((counter, event.bytes.unwrap_or(1.0)));
            }
        }
        Ok(Counting { counters, name: events.iter().map(|e| e.name.as_str()).collect::<Vec<_>>().join(" + ") })
    }

    /// The sum of all, in bytes where the unit says what a count stands for.
    ///
    /// # Errors
    /// As the system's.
    pub fn read(&mut self) -> Result<u64, HostError> {
        let mut sum = 0.0;
        for (counter, bytes) in &mut self.counters {
            sum += counter.read().map_err(|e| HostError::system("reading", &self.name, e))? as f64 * *bytes;
        }
        Ok(sum as u64)
    }
}

/// What perf offers: units by what they belong to, for `doctor`.
///
/// # Errors
/// The kernel has no perf.
pub fn offered(sys: &dyn Tree) -> Result<BTreeMap<String, usize>, HostError> {
    let mut kinds = BTreeMap::new();
    for unit in units(sys, "")? {
        let kind = unit.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_').to_string();
        *kinds.entry(kind).or_insert(0) += 1;
    }
    Ok(kinds)
}

fn absent(what: &str, e: &io::Error) -> HostError {
    use rustix::io::Errno;
    let (why, remedy) = match e.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ACCESS | Errno::PERM) => {
            ("no permission", "run as root, or lower /proc/sys/kernel/perf_event_paranoid")
        }
        Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP | Errno::INVAL) => {
            ("this machine has no such event", "virtual machines rarely have any; name another, or leave it out")
        }
        Some(Errno::NOSYS) => ("the kernel has no perf", "a kernel with CONFIG_PERF_EVENTS"),
        _ => ("it cannot be opened", "see the system's message"),
    };
    HostError::Absent { what: what.into(), why: format!("{why} ({e})"), remedy: remedy.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_a_term_go_where_the_format_says() {
        let mut config = [0; 3];
        place("config:0-7,21", 0x1ff, &mut config).unwrap();
        assert_eq!(config[0], 0xff | 1 << 21);
        place("config1:4-5", 3, &mut config).unwrap();
        assert_eq!(config[1], 0x30);
        place("config:0-7", 1, &mut config).unwrap();
        assert_eq!(config[0], 1 | 1 << 21, "a later term overrides");
        assert_eq!(place("elsewhere:0", 1, &mut config), None);
    }

    #[test]
    fn a_scale_is_in_bytes() {
        let bytes = |f: &str, u: &str| scale(Some(f.into()), Some(u.into()));
        assert_eq!(bytes("6.103515625e-5\n", "MiB\n"), Some(64.0));
        assert_eq!(bytes("1", "Joules"), None);
    }

    #[test]
    fn an_event_of_software_counts_here_or_says_why_not() {
        let sys = crate::Files::new("/sys");
        let Ok(found) = resolve(&sys, "software/config=0x3/") else { return };
        match Counting::start(&found, &[0]) {
            Ok(mut counting) => assert!(counting.read().is_ok()),
            Err(why) => assert!(matches!(why, HostError::Absent { .. }), "{why}"),
        }
        let error = resolve(&sys, "uncore_nothing/x/").unwrap_err().to_string();
        assert!(error.contains("there are ") && error.contains("software"), "{error}");
    }
}
