//! What is simulated, and what cannot be.

use machine::MachineError;
use machine::stacked::{BankTiming, SkipLogic, SkipSpec, StackedSpec};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use units::Ps;

/// A system of cores, caches, slices and stacked DRAM, and the applications on it.
///
/// The default is the paper's: section V-C, with rates scaled so that the stacked DRAM serves 8 M requests/s a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SlicesSpec {
    /// What stands between L2 and memory.
    pub architecture: Architecture,
    /// What is assumed where the text is open.
    pub reading: PaperReading,
    /// Cores of the system, C_sys.
    pub cores: u32,
    /// LLC slices of the system, L_sys.
    pub slices: u32,
    /// Bytes of a cache line, B.
    pub line_bytes: u32,
    /// Bytes of a table entry, b.
    pub entry_bytes: u32,
    /// Sizes and speeds of the caches.
    pub caches: Caches,
    /// The stacked DRAM.
    pub dram: StackedSpec,
    /// Packets in the system at most, K: waiting and worked on.
    pub limit: u32,
    /// Packets that a core works on at a time; 1 is a blocking core.
    pub outstanding: u32,
    /// How slices are shared out where several applications run.
    pub isolation: Isolation,
    /// Reading the packet's header from the packet buffer before the lookup; not timed if left out.
    pub header_read: Option<HeaderRead>,
    /// Who runs here. Their cores are assigned in order.
    pub applications: Vec<Application>,
    /// Packets that are measured.
    pub requests: u64,
    /// Lengthens the warm-up.
    pub warmup_factor: u32,
}

/// What stands between L2 and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// LLC slices, a queue each.
    #[default]
    Proposed,
    /// One LLC with one queue.
    SharedLlc,
    /// Nothing.
    NoLlc,
}

/// What is assumed where the text is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PaperReading {
    /// Where in the table the popular entries are.
    pub ranks: Ranks,
    /// What a hit in L2 does to the line there.
    pub l2_hit: OnHit,
    /// What a hit in the LLC does to the line there.
    pub llc_hit: OnHit,
    /// All slices hold what the shared LLC holds, as one LRU, and are servers only; else each has its own lines.
    pub pooled: bool,
}

impl Default for PaperReading {
    fn default() -> PaperReading {
        PaperReading { ranks: Ranks::Shuffled, l2_hit: OnHit::Copy, llc_hit: OnHit::Copy, pooled: false }
    }
}

/// Where in the table the popular entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ranks {
    /// Anywhere: a line holds entries of random popularity.
    Shuffled,
    /// In order of decreasing popularity.
    Contiguous,
}

/// What a hit in L2 or LLC does to the line there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnHit {
    /// It is copied to L1 and stays.
    Copy,
    /// It moves to L1.
    Move,
}

/// A level of caches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlicesLevel {
    /// Bytes; lines that fit count.
    pub bytes: u64,
    /// Ways of a set; 0 is fully associative.
    #[serde(default)]
    pub ways: u32,
    /// Lookups it serves, in millions a second.
    pub per_us: f64,
}

/// Sizes and speeds of the caches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Caches {
    /// A core's first level.
    pub l1: SlicesLevel,
    /// A core's second level.
    pub l2: SlicesLevel,
    /// An LLC slice.
    pub slice: SlicesLevel,
    /// The shared LLC.
    pub shared: SlicesLevel,
    /// Exponential service times; fixed ones if false.
    pub exponential: bool,
}

impl Default for Caches {
    /// Section V-C, with mu = 8 M/s: mu_L1 = 100, mu_L2 = 50 and mu_LLC = 10 times that.
    fn default() -> Caches {
        let level = |bytes, per_us| SlicesLevel { bytes, ways: 0, per_us };
        Caches {
            l1: level(128, 800.0),
            l2: level(512, 400.0),
            slice: level(146, 80.0),
            shared: level(4096, 80.0),
            exponential: true,
        }
    }
}

/// How slices are shared out where several applications run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// An application owns slices: its lines are placed so that they hash to these only (slice-aware placement).
    #[default]
    Slices,
    /// All applications use all slices and compete: noisy neighbours.
    Shared,
    /// All applications use all slices, and each fills its share of every slice's ways only (Intel CAT). Applications have tables of
    /// their own, so a hit is never in another's ways.
    Ways,
}

/// Reading a packet's header from the packet buffer, in a DRAM of its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeaderRead {
    /// Channels of the packet buffer, each first come first served.
    pub channels: u32,
    /// What a read takes, ns.
    pub read_ns: f64,
}

impl HeaderRead {
    /// What a read takes of a channel.
    pub fn taken(&self) -> Ps {
        Ps((self.read_ns * 1e3).round() as u64)
    }
}

/// An application: its cores, slices, table and load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Application {
    /// Cores assigned to it, C.
    pub cores: u32,
    /// Slices assigned to it, L; under way isolation its part of the ways is slices / all slices; not used where slices are
    /// shared.
    pub slices: u32,
    /// Offered load as a share of what all channels serve without interleaving, rho.
    pub rho: f64,
    /// Entries of its table, N.
    pub entries: u64,
    /// Exponent of the popularity of entries.
    pub alpha: f64,
    /// Skip the LLC by its measured miss rate; never if left out.
    pub skip: Option<SkipSpec>,
    /// Lines that leave L2 without having been used again are not put into the LLC.
    pub bypass: bool,
}

impl Default for Application {
    fn default() -> Application {
        Application { cores: 28, slices: 28, rho: 0.7, entries: 20_000, alpha: 0.83, skip: None, bypass: false }
    }
}

impl Default for SlicesSpec {
    fn default() -> SlicesSpec {
        SlicesSpec {
            architecture: Architecture::Proposed,
            reading: PaperReading::default(),
            cores: 28,
            slices: 28,
            line_bytes: 64,
            entry_bytes: 2,
            caches: Caches::default(),
            dram: StackedSpec::default(),
            limit: 100,
            outstanding: 1,
            isolation: Isolation::Slices,
            header_read: None,
            applications: vec![Application::default()],
            requests: 1_000_000,
            warmup_factor: 1,
        }
    }
}

/// Why a system cannot be simulated: where, what came, what is allowed, what to do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SlicesError {
    /// The text is not a specification.
    #[error("{0}")]
    Text(String),
    /// A setting that cannot be.
    #[error("{path} = {came}: allowed is {allowed} ({remedy})")]
    Setting {
        /// Path in the specification.
        path: String,
        /// The value that came.
        came: String,
        /// What is allowed.
        allowed: String,
        /// What to do.
        remedy: String,
    },
    /// A part of the machine cannot be built.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A closed form that cannot be.
    #[error(transparent)]
    Queue(#[from] queueing::QueueError),
}

/// The most lines that all tables may have together: lines are numbers below 2^31.
const MOST_LINES: u64 = 1 << 31;

/// Reads JSON. Errors tell the path, not the place in a text that nobody wrote.
pub(super) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, SlicesError> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let inner = e.inner().to_string();
        let is_syntax = e.inner().is_syntax() || e.inner().is_eof();
        let told = if is_syntax { &*inner } else { inner.rsplit_once(" at line ").map_or(&*inner, |(told, _)| told) };
        SlicesError::Text(if is_syntax { told.into() } else { format!("{}: {told}", e.path()) })
    })
}

impl SlicesSpec {
    /// Reads a specification from JSON or, failing that, TOML text.
    ///
    /// # Errors
    /// Unknown fields and wrong types, with their path; see [`SlicesSpec::check`] for the rest.
    pub fn read(text: &str) -> Result<SlicesSpec, SlicesError> {
        let spec: SlicesSpec = if text.trim_start().starts_with('{') {
            from_json(text)?
        } else {
            let toml = toml::Deserializer::parse(text).map_err(|e| SlicesError::Text(e.to_string()))?;
            serde_path_to_error::deserialize(toml)
                .map_err(|e| SlicesError::Text(format!("{}: {}", e.path(), e.inner().message())))?
        };
        spec.check()?;
        Ok(spec)
    }

    /// Entries of a line, B/b.
    pub fn entries_per_line(&self) -> u64 {
        u64::from(self.line_bytes / self.entry_bytes.max(1)).max(1)
    }

    /// Lines of an application's table.
    pub fn lines(&self, application: &Application) -> u64 {
        application.entries.div_ceil(self.entries_per_line())
    }

    /// Lines that fit into a level.
    pub fn lines_of(&self, level: &SlicesLevel) -> usize {
        (level.bytes / u64::from(self.line_bytes.max(1))) as usize
    }

    /// Slices that an application's lines are placed over: its own, or all where these are not told apart.
    pub fn slices_of(&self, application: &Application) -> u32 {
        if self.isolation == Isolation::Slices { application.slices } else { self.slices }
    }

    /// Slices of the proposed architecture that have lines of anybody.
    pub fn slices_in_use(&self) -> u32 {
        let own = self.applications.iter().map(|a| a.slices).sum();
        if self.isolation == Isolation::Slices { self.slices.min(own) } else { self.slices }
    }

    /// Packets that arrive, in millions a second: rho S mu of all applications.
    pub fn offered_per_us(&self) -> f64 {
        self.applications.iter().map(|a| a.rho).sum::<f64>() * self.capacity_per_us()
    }

    /// What all channels serve without interleaving, S mu, in millions a second.
    pub fn capacity_per_us(&self) -> f64 {
        let a_channel = match self.dram.resolve("dram") {
            Ok(BankTiming::Rates { means, .. }) => means.first().map_or(0.0, |mean| 1e6 / mean.0 as f64),
            Ok(BankTiming::Device { cycle, .. }) => 1e6 / cycle.0 as f64,
            Err(_) => 0.0,
        };
        f64::from(self.dram.channels) * a_channel
    }

    /// Whether everything can be.
    ///
    /// # Errors
    /// More cores or slices than the system has, none where some are needed, slices without a line or a table with fewer
    /// lines than slices, rates, loads and sizes out of range.
    pub fn check(&self) -> Result<(), SlicesError> {
        within("cores", self.cores.into(), 1, 256, "give the cores of the system")?;
        within("slices", self.slices.into(), 0, 256, "give the LLC slices of the system")?;
        within("limit", self.limit.into(), 1, 1_000_000, "give the most packets in the system, K")?;
        within("outstanding", self.outstanding.into(), 1, 64, "give the packets that a core works on at a time")?;
        within("entry_bytes", self.entry_bytes.into(), 1, 4096, "give the bytes of a table entry")?;
        within("line_bytes", self.line_bytes.into(), 1, 4096, "give the bytes of a cache line")?;
        within("requests", self.requests, 1_000, 1 << 40, "below 1,000 there is nothing to average")?;
        within("warmup_factor", self.warmup_factor.into(), 1, 1_000, "give a factor of the warm-up")?;
        if !self.line_bytes.is_multiple_of(self.entry_bytes) {
            let remedy = "an entry may not lie on two lines";
            return bad("line_bytes", self.line_bytes.to_string(), "a multiple of entry_bytes", remedy);
        }
        self.dram.resolve("dram")?;
        let c = &self.caches;
        for (name, level) in [("l1", c.l1), ("l2", c.l2), ("slice", c.slice), ("shared", c.shared)] {
            if !(level.per_us > 1e-3 && level.per_us < 1e6) {
                let path = format!("caches.{name}.per_us");
                return bad(&path, level.per_us.to_string(), "0.001 to 1000000", "give millions of lookups a second");
            }
            let lines = self.lines_of(&level);
            if lines as u64 > MOST_LINES / 32 {
                return bad(
                    &format!("caches.{name}.bytes"),
                    level.bytes.to_string(),
                    "up to 2^26 lines",
                    "make it smaller or its lines larger",
                );
            }
            if level.ways > 0 && !lines.is_multiple_of(level.ways as usize) {
                let allowed = format!("a divisor of its {lines} lines, or 0");
                return bad(&format!("caches.{name}.ways"), level.ways.to_string(), &allowed, "sets have equal ways");
            }
        }
        let needs = self.architecture == Architecture::Proposed;
        let (used, path) = if needs { (c.slice, "slice") } else { (c.shared, "shared") };
        let pooled = needs && self.reading.pooled;
        if self.architecture != Architecture::NoLlc && !pooled && self.lines_of(&used) == 0 {
            let allowed = format!("{} and more", self.line_bytes);
            let remedy = "a cache holds a line at least: the architecture no_llc is the one without";
            return bad(&format!("caches.{path}.bytes"), used.bytes.to_string(), &allowed, remedy);
        }
        if let Some(read) = self.header_read {
            within("header_read.channels", read.channels.into(), 1, 64, "give the channels of the packet buffer")?;
            if !(read.read_ns >= 0.0 && read.read_ns < 1e6) {
                return bad("header_read.read_ns", read.read_ns.to_string(), "0 to 1000000", "give nanoseconds");
            }
        }
        self.check_applications()
    }

    fn check_applications(&self) -> Result<(), SlicesError> {
        let needs = self.architecture == Architecture::Proposed;
        within("applications", self.applications.len() as u64, 1, 64, "give one at least")?;
        if needs && self.isolation != Isolation::Slices {
            within("slices", self.slices.into(), 1, 256, "all applications use them")?;
        }
        if needs && self.isolation == Isolation::Ways && self.reading.pooled {
            let remedy = "a pool has no ways to share out: set reading.pooled = false";
            return bad("isolation", "ways".into(), "slices or shared with reading.pooled", remedy);
        }
        let (mut cores, mut slices, mut lines) = (0u64, 0u64, 0u64);
        for (n, a) in self.applications.iter().enumerate() {
            let at = |field: &str| format!("applications[{n}].{field}");
            let left = u64::from(self.cores).saturating_sub(cores);
            left_for(&at("cores"), "cores", a.cores, left, self.cores, "an application runs on a core at least")?;
            if needs && self.isolation != Isolation::Shared {
                let left = u64::from(self.slices).saturating_sub(slices);
                let remedy = "an application has a slice at least: the architecture no_llc is the one without";
                left_for(&at("slices"), "slices", a.slices, left, self.slices, remedy)?;
            }
            if !(a.rho > 0.0 && a.rho <= 100.0) {
                return bad(&at("rho"), a.rho.to_string(), "above 0, up to 100", "it is a share of what memory serves");
            }
            if !(0.0..=5.0).contains(&a.alpha) {
                return bad(&at("alpha"), a.alpha.to_string(), "0 to 5", "0 is uniform, 1 is Zipf's law");
            }
            within(&at("entries"), a.entries, 1, 1 << 36, "give the entries of the table")?;
            let has = self.lines(a);
            let over = self.slices_of(a);
            if needs && has < u64::from(over) {
                let remedy = format!("slices {} to {} would never hold a line", has + 1, over);
                let allowed = format!("{} and more", u64::from(over - 1) * self.entries_per_line() + 1);
                return bad(&at("entries"), a.entries.to_string(), &allowed, &remedy);
            }
            if let Some(skip) = &a.skip {
                SkipLogic::new(skip, 0, &at("skip"))?;
            }
            let ways = self
                .caches
                .slice
                .ways
                .max(self.lines_of(&self.caches.slice) as u32 * u32::from(self.caches.slice.ways == 0));
            if needs && self.isolation == Isolation::Ways && ways * a.slices < self.slices {
                let remedy = format!("{} ways of each slice come to less than one for it", ways);
                return bad(&at("slices"), a.slices.to_string(), "enough for a way", &remedy);
            }
            cores += u64::from(a.cores);
            slices += u64::from(a.slices);
            lines += has;
        }
        within("applications: lines of all tables", lines, 1, MOST_LINES - 2, "shrink tables or enlarge lines")
    }

    /// What a reader should know of a specification that is sound.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.architecture != Architecture::Proposed {
            return notes;
        }
        let all = self.slices;
        for (n, a) in self.applications.iter().enumerate() {
            if self.isolation == Isolation::Shared && a.slices != all {
                let own = a.slices;
                notes.push(format!(
                    "applications[{n}].slices = {own} is not used: with isolation = shared all {all} slices are everyone's"
                ));
            }
            let (lines, slices) = (self.lines(a), u64::from(self.slices_of(a)));
            if slices > 0 && !lines.is_multiple_of(slices) {
                let least = lines / slices;
                notes.push(format!(
                    "applications[{n}]: {slices} slices do not divide {lines} lines: some have {least}, some {} of them",
                    least + 1
                ));
            }
        }
        notes
    }

    pub(super) fn mean(level: &SlicesLevel) -> Ps {
        Ps((1e6 / level.per_us).round() as u64)
    }
}

fn bad(path: &str, came: String, allowed: &str, remedy: &str) -> Result<(), SlicesError> {
    let (path, allowed, remedy) = (path.to_string(), allowed.to_string(), remedy.to_string());
    Err(SlicesError::Setting { path, came, allowed, remedy })
}

/// Of the system's cores or slices an application has one at least, and no more than those before it have left.
fn left_for(path: &str, what: &str, value: u32, left: u64, all: u32, none: &str) -> Result<(), SlicesError> {
    if (1..=left).contains(&value.into()) {
        return Ok(());
    }
    let allowed = match left {
        0 => format!("nothing: the {all} {what} of the system are given away"),
        left => format!("1 to {left}"),
    };
    let remedy = format!(
        "the system has {what} = {all} for all applications together: give this or others fewer, or the system more"
    );
    bad(path, value.to_string(), &allowed, if value == 0 { none } else { &remedy })
}

fn within(path: &str, value: u64, least: u64, most: u64, remedy: &str) -> Result<(), SlicesError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    bad(path, value.to_string(), &format!("{least} to {most}"), remedy)
}
