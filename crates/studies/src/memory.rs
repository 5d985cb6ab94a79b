//! A cache chain or a DRAM on its own: settings as a command line has them and a trace of requests in, one
//! JSON document out.
//!
//! Nothing is modelled here: the machine's rooms simulate, this one reads settings, and says in words
//! where a memory's bandwidth went.

use machine::MachineError;
use machine::cache::{
    self, CacheSpec, HitCounts, LevelClassSpec, LevelSpec, PrefetcherSpec, Replacement, WriteHitPolicy, WriteMiss,
};
use machine::dram::hmc::{self, CubeSpec};
use machine::dram::map::{AddressMap, Decoder};
use machine::dram::policy::{ControllerSpec, Refresh};
use machine::dram::presets;
use machine::dram::simulate::{self as dram, DramRecordOptions, REQUEST_BYTES, RequestArrivals};
use machine::dram::standard::Standard;
use machine::dram::stats::{DramReport, Latencies};
use machine::memory::{Inclusion, SliceHash, WireTopology};
use serde_json::{Value, json};
use traffic::RequestTrace;
use units::{Clos, DEVICE, LINE_BYTES, Ps, Size, Span};

use sim::scenario::{ScenarioError, known};

/// The map of a DRAM for which none is given, high to low: lines go round robin over channels, then
/// through a row. Parts that a standard has once take no bits.
pub const USUAL_MAP: &str = "row rank bank group column channel";

/// When requests are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// The next one in every clock, until it is accepted.
    Saturated,
    /// One every so many clocks.
    Every(u64),
    /// At the clocks of the trace.
    Trace,
}

impl Offered {
    /// `saturated`, `every=20` or `trace`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Offered, MachineError> {
        match text.split_once('=') {
            None if text == "saturated" => Ok(Offered::Saturated),
            None if text == "trace" => Ok(Offered::Trace),
            Some(("every", gap)) => match gap.parse() {
                Ok(0) | Err(_) => {
                    Err(no("offered", text, "every= and clocks, 1 or more", "one request every so many clocks"))
                }
                Ok(gap) => Ok(Offered::Every(gap)),
            },
            _ => Err(no(
                "offered",
                text,
                "saturated, every=CLOCKS or trace",
                "trace takes the clocks that the trace has",
            )),
        }
    }
}

/// Settings of a DRAM as texts; what is left out is the usual one.
#[derive(Clone, Debug, Default)]
pub struct DramSettings<'a> {
    /// Name of a preset; where it comes from, if its text is given.
    pub preset: &'a str,
    /// A standard of one's own, as TOML.
    pub standard: Option<&'a str>,
    /// Parts from high to low, `row bank group column`; the same after `permuted:`; or fields as TOML.
    pub map: Option<&'a str>,
    /// The file that the map comes from, for errors.
    pub map_file: Option<&'a str>,
    /// `saturated`, `every=20`, `trace`.
    pub offered: Option<&'a str>,
    /// Entries of the queue.
    pub queue: Option<u32>,
    /// `fr-fcfs`, `fr-fcfs=CAP`, `fcfs`, `fcfs=PREFETCH`, `batch=direction/SIZE/PREFETCH`, `batch=bank-parity/..`.
    pub order: Option<&'a str>,
    /// `mixed`, `drain=QUEUE/HIGH/LOW`.
    pub writes: Option<&'a str>,
    /// `open`, `closed`, `adaptive=CLOCKS`.
    pub page: Option<&'a str>,
    /// `all-bank`, `per-bank`, `same-bank`, `off`.
    pub refresh: Option<&'a str>,
    /// Channels in place of the preset's.
    pub channels: Option<u32>,
    /// MT/s in place of the preset's: [`Standard::at_rate`].
    pub speed: Option<u32>,
}

/// A DRAM that was found to be sound.
#[derive(Clone, Debug)]
pub struct CheckedDram {
    /// Of a cube its vaults'.
    standard: Standard,
    cube: Option<CubeSpec>,
    /// Of a cube: the shipped one's name, or that of the file that changes it.
    cube_name: String,
    map: AddressMap,
    map_text: String,
    controller: ControllerSpec,
    offered: Offered,
    offered_text: String,
}

/// What a DRAM did.
#[derive(Clone, Debug)]
pub struct DramResult {
    /// The documented object, but for what the host took.
    pub document: Value,
    /// By request, the clock after its last data.
    pub completions: Vec<u64>,
    /// By request, the clock in which it was accepted; empty unless asked for.
    pub accepted: Vec<u64>,
}

impl CheckedDram {
    /// Judges settings.
    ///
    /// # Errors
    /// A preset nobody ships, TOML that is none, settings that contradict themselves or each other.
    pub fn new(settings: &DramSettings) -> Result<CheckedDram, ScenarioError> {
        let cube = cube(settings.preset, settings.standard)?;
        let standard = match &cube {
            Some(cube) => of_cube(cube, settings)?,
            None => changed(standard(settings.preset, settings.standard)?, settings)?,
        };
        let text = settings.map.unwrap_or(USUAL_MAP);
        let text = if settings.channels.is_some() { with_channel(text, &standard) } else { text.into() };
        let map = map(&standard, &text, settings.map_file)?;
        let offered_text = settings.offered.unwrap_or("saturated");
        let mut controller = match &cube {
            Some(cube) => cube.controller,
            None => ControllerSpec { page: standard.page, refresh: standard.refresh, ..ControllerSpec::default() },
        };
        if let Some(queue) = settings.queue {
            controller.queue = queue;
        }
        if let Some(text) = settings.order {
            controller.order = text.parse()?;
        }
        if let Some(text) = settings.writes {
            controller.writes = text.parse()?;
        }
        if let Some(text) = settings.page {
            controller.page = text.parse()?;
        }
        if let Some(text) = settings.refresh {
            controller.refresh = text.parse()?;
        }
        Ok(CheckedDram {
            map_text: if text.contains('=') { "fields".into() } else { text.trim().to_string() },
            map,
            controller,
            offered: Offered::parse(offered_text)?,
            offered_text: offered_text.into(),
            cube_name: match &cube {
                Some(cube) if *cube != CubeSpec::default() => settings.preset.into(),
                _ => CUBE.into(),
            },
            cube: cube.map(|cube| CubeSpec { controller, ..cube }),
            standard,
        })
    }

    /// Runs a trace through it.
    ///
    /// # Errors
    /// A controller that the standard does not go with, addresses beyond the device, clocks of a trace
    /// that has none.
    pub fn simulate(&self, requests: &RequestTrace, accepted: bool) -> Result<DramResult, ScenarioError> {
        let arrivals = match self.offered {
            Offered::Saturated => RequestArrivals::Saturated,
            Offered::Every(gap) => RequestArrivals::Every(gap),
            Offered::Trace if requests.clocks.is_empty() => {
                let allowed = "a trace whose requests have clocks";
                let remedy = "write a clock behind each address, or offer saturated or every=CLOCKS";
                return Err(no("offered", "trace, which has no clocks", allowed, remedy).into());
            }
            Offered::Trace => RequestArrivals::At(&requests.clocks),
        };
        let trace = dram::DramTrace { addresses: &requests.addresses, writes: &requests.writes, arrivals };
        if let Some(cube) = &self.cube {
            return self.simulate_cube(cube, requests, &trace, accepted);
        }
        let record = DramRecordOptions { accepted, commands: false };
        let outcome = dram::simulate(&self.standard, &self.map, &self.controller, &trace, record)?;
        let document = self.document(requests, &outcome.report);
        Ok(DramResult { document, completions: outcome.completions, accepted: outcome.accepted })
    }

    /// A cube's document is that of its vaults but for times, which begin and end at the links, and the peak, which is
    /// what links and vaults allow of this mix of reads and writes.
    fn simulate_cube(
        &self,
        cube: &CubeSpec,
        requests: &RequestTrace,
        trace: &dram::DramTrace,
        accepted: bool,
    ) -> Result<DramResult, ScenarioError> {
        let outcome = hmc::simulate(cube, &self.map, trace)?;
        let clock = cube.clock();
        let mut document = self.document(requests, &outcome.vaults);
        let stores = requests.writes.iter().filter(|&&write| write).count() as u64;
        let peak = cube.peak_bytes_per_s(requests.addresses.len() as u64 - stores, stores);
        let end = outcome.completions.iter().max().copied().unwrap_or(Ps::ZERO);
        let [to, from] = outcome.link_shares;
        document["preset"] = self.cube_name.clone().into();
        document["clocks"] = end.0.div_ceil(clock.0).into();
        document["seconds"] = end.as_secs().into();
        document["bandwidth_gb_per_s"] = (outcome.bytes_per_s / 1e9).into();
        document["peak_gb_per_s"] = (peak / 1e9).into();
        document["peak_share"] = if requests.addresses.is_empty() { 0.0 } else { outcome.bytes_per_s / peak }.into();
        document["read_latency_clk"] = latencies_in(&outcome.read_latency, clock.0 as f64);
        document["write_latency_clk"] = latencies_in(&outcome.write_latency, clock.0 as f64);
        document["links"] = json!({
            "links": cube.links,
            "lanes": cube.lanes,
            "lane_gbps": cube.lane_gbps,
            "tags": cube.tags,
            "requests_share": to,
            "answers_share": from,
            "vaults_peak_gb_per_s": self.standard.peak_bytes_per_s() / 1e9,
        });
        let mut explanation = self.explanation(&outcome.vaults, outcome.bytes_per_s, requests);
        if to.max(from) > 0.9 {
            // The vaults idle for want of requests or of a way back, whatever is offered.
            explanation.retain(|cause| !cause.contains(IDLE));
            let (way, share) = if to > from { ("requests", to) } else { ("answers", from) };
            explanation.insert(
                0,
                format!(
                    "the links are the limit: {:.0} % of their time goes to flits of {way}, and {} links of {} lanes at \
                     {} Gb/s carry {:.0} GB/s of this mix of reads and writes, where the vaults have {:.0} GB/s",
                    100.0 * share,
                    cube.links,
                    cube.lanes,
                    cube.lane_gbps,
                    peak / 1e9,
                    self.standard.peak_bytes_per_s() / 1e9,
                ),
            );
        }
        document["explanation"] = explanation.into();
        let completions = outcome.completions.iter().map(|at| at.0.div_ceil(clock.0)).collect();
        let sent = if accepted { outcome.sent.iter().map(|at| at.0 / clock.0).collect() } else { Vec::new() };
        Ok(DramResult { document, completions, accepted: sent })
    }

    fn document(&self, requests: &RequestTrace, report: &DramReport) -> Value {
        let (peak, shares) = (self.standard.peak_bytes_per_s(), report.shares);
        let stores = requests.writes.iter().filter(|&&write| write).count();
        json!({
            "schema": "wirespeed.dram/1",
            "preset": self.standard.name,
            "map": self.map_text,
            "map_fields": self.map.fields,
            "controller": self.controller,
            "offered": self.offered_text,
            "requests": requests.addresses.len(),
            "reads": requests.addresses.len() - stores,
            "writes": stores,
            "clocks": report.clocks,
            "clock_mhz": self.standard.clock_mhz,
            "seconds": report.clocks as f64 / (f64::from(self.standard.clock_mhz) * 1e6),
            "bytes": report.bytes,
            "bandwidth_gb_per_s": report.bytes_per_s / 1e9,
            "peak_gb_per_s": peak / 1e9,
            "peak_share": report.bytes_per_s / peak,
            "bandwidth_split": {
                "data": shares.data,
                "turnaround": shares.turnaround,
                "bank_group": shares.bank_group,
                "row_miss": shares.row_miss,
                "bank_conflict": shares.bank_conflict,
                "refresh": shares.refresh,
                "idle": shares.idle,
            },
            "links": Value::Null,
            "explanation": self.explanation(report, report.bytes_per_s, requests),
            "read_latency_clk": latencies(&report.read_latency),
            "write_latency_clk": latencies(&report.write_latency),
            "row_hits": report.row_hits,
            "row_misses": report.row_misses,
            "row_conflicts": report.row_conflicts,
            "forwarded": report.forwarded,
            "activates": report.activates,
            "refreshes": report.refreshes,
            "drain_switches": report.drain_switches,
            "energy_nj": report.energy.map(|e| json!({
                "total": e.total(),
                "activate": e.activate,
                "read": e.read,
                "write": e.write,
                "refresh": e.refresh,
                "background": e.background,
            })),
            "channels": self.channels(report),
            "banks": self.banks(report),
            "most_over_mean": {
                "channel": most_over_mean(report.heat.chunks(self.standard.banks_per_channel() as usize).map(requests_of)),
                "bank": most_over_mean(report.heat.iter().map(|bank| requests_of(std::slice::from_ref(bank)))),
            },
        })
    }

    /// Each channel: requests that its devices served, and what its data bus did.
    fn channels(&self, report: &DramReport) -> Value {
        let banks = report.heat.chunks(self.standard.banks_per_channel() as usize);
        let channels = report.channels.iter().zip(banks).map(|(channel, banks)| {
            json!({
                "requests": requests_of(banks),
                "row_hits": banks.iter().map(|[hits, ..]| hits).sum::<u64>(),
                "bursts": channel.bursts,
                "data": channel.data,
                "idle": channel.idle,
            })
        });
        channels.collect()
    }

    /// Each bank, channel by channel: where it is, requests, and the share of the time in which the bus carried its data.
    fn banks(&self, report: &DramReport) -> Value {
        let s = &self.standard;
        let burst = s.timings.get("BL").copied().unwrap_or(1) * s.bursts(REQUEST_BYTES);
        let banks = report.heat.iter().enumerate().map(|(place, bank)| {
            let (i, [hits, misses, conflicts]) = (place as u32, bank);
            let requests = requests_of(std::slice::from_ref(bank));
            json!({
                "channel": i / s.banks_per_channel(),
                "rank": i / (s.groups * s.banks) % s.ranks,
                "group": i / s.banks % s.groups,
                "bank": i % s.banks,
                "requests": requests,
                "row_hits": hits,
                "row_misses": misses,
                "row_conflicts": conflicts,
                "data": (requests * u64::from(burst)) as f64 / report.clocks.max(1) as f64,
            })
        });
        banks.collect()
    }

    /// Where the bandwidth went, the greatest loss first: why, with this standard's numbers, and what to try.
    fn explanation(&self, report: &DramReport, bytes_per_s: f64, requests: &RequestTrace) -> Vec<String> {
        let t = |name: &str| self.standard.timings.get(name).copied().unwrap_or(0);
        let shares = report.shares;
        let gap = self.standard.column_gap();
        let groups = if self.standard.groups > 1 && gap > t("BL") {
            format!(
                "bursts of one bank group start at least tCCD_L = {gap} clocks apart and a burst takes {}, so one group \
                 alone reaches {:.0} % of peak; let lines that follow each other go to different groups, as with the \
                 map `{}`",
                t("BL"),
                100.0 * f64::from(t("BL")) / f64::from(gap),
                self.interleaved(),
            )
        } else {
            "bursts of one bank are further apart than they are long; spread lines over banks".into()
        };
        let causes = [
            (shares.bank_group, "waiting between bursts of a bank group", groups),
            (
                shares.turnaround,
                "turning the data bus between reads and writes",
                "the bus idles at each change of direction; gather writes and drain them together, as with \
                 writes = drain=32/24/8"
                    .into(),
            ),
            (
                shares.row_miss,
                "opening rows",
                format!(
                    "a closed row takes tRCD = {} clocks to open; map lines that follow each other to one row, or keep \
                     rows open (page = open)",
                    t("RCD")
                ),
            ),
            (
                shares.bank_conflict,
                "closing one row to open another",
                format!(
                    "a bank opens another row every tRC = {} clocks at best; spread rows that are used together over \
                     more banks: a permuted map, more ranks or channels; a longer queue finds more banks at work",
                    t("RC")
                ),
            ),
            (shares.refresh, "refresh", self.why_refresh()),
            (shares.idle, if report.overloaded_channel().is_some() { UNEVEN } else { IDLE }, self.why_idle(report)),
        ];
        // Less than this is not worth a change.
        const WORTH: f64 = 0.01;
        let mut causes: Vec<_> = causes.into_iter().filter(|(share, ..)| *share >= WORTH).collect();
        causes.sort_by(|a, b| b.0.total_cmp(&a.0));
        let causes = causes.into_iter().map(|(share, what, why)| format!("{:.1} % {what}: {why}", 100.0 * share));
        self.all_carried(bytes_per_s, requests).into_iter().chain(causes).collect()
    }

    /// What a refresh takes, and of what.
    fn why_refresh(&self) -> String {
        let t = |name: &str| self.standard.timings.get(name).copied().unwrap_or(0);
        if self.controller.refresh == Refresh::SameBank {
            return format!(
                "a refresh takes a bank of each group for tRFCsb = {} of every tREFI2 = {} clocks, and keeps the rows of the \
                 others closed for tREFSBRD = {} clocks, {} times in tREFI2",
                t("RFC_SB"),
                t("REFI2"),
                t("REFSBRD"),
                self.standard.banks,
            );
        }
        if self.controller.refresh == Refresh::PerBank {
            let (takes, every) = (t("RFC_B"), t("REFI"));
            return format!(
                "a refresh takes a bank for tRFCpb = {takes} of every tREFI = {every} clocks; others work meanwhile"
            );
        }
        let advice = match &self.standard.timings {
            has if has.contains_key("RFC_B") => "with refresh = per-bank the other banks work meanwhile",
            has if has.contains_key("RFC_SB") => {
                "with refresh = same-bank the other banks of each group work meanwhile"
            }
            _ => "refresh per bank is not modelled for this standard, so only other channels or ranks work meanwhile",
        };
        format!("a refresh takes tRFC = {} of every tREFI = {} clocks; {advice}", t("RFC"), t("REFI"))
    }

    /// Why data buses had nothing to do.
    fn why_idle(&self, report: &DramReport) -> String {
        if let Some((number, channel)) = report.overloaded_channel() {
            return format!(
                "the channels are not used evenly: channel {number} has {:.1} % of the bursts, where {:.1} % would be even, and \
                 no time left; requests for it hold up those behind them; let lines that are used together go to different \
                 channels, by a map that has the channel lower or permutes it",
                100.0 * report.share_of(&channel),
                100.0 / report.channels.len() as f64,
            );
        }
        match self.offered {
            Offered::Saturated => {
                "before the first and after the last request of the trace, and while a channel's queue is \
                                   empty since others are full"
                    .into()
            }
            _ => "no request is waiting: the offered load, not the memory, is the limit".into(),
        }
    }

    /// Says so where requests come at a rate of their own, and all of it is carried: the memory is not the limit then,
    /// whatever single requests wait for.
    fn all_carried(&self, bytes_per_s: f64, requests: &RequestTrace) -> Option<String> {
        let n = requests.addresses.len();
        let (clocks, gap) = match self.offered {
            Offered::Saturated => return None,
            Offered::Every(gap) => (gap as f64 * n as f64, gap as f64),
            Offered::Trace => {
                let span = (requests.clocks.last()? - requests.clocks.first()?) as f64;
                (span * n as f64 / (n as f64 - 1.0), span / (n as f64 - 1.0))
            }
        };
        let offered = n as f64 * f64::from(REQUEST_BYTES) * f64::from(self.standard.clock_mhz) * 1e6 / clocks;
        // The last requests end after the last one was offered.
        if !(offered.is_finite() && n > 1 && bytes_per_s >= 0.99 * offered) {
            return None;
        }
        Some(format!(
            "all that is offered is carried: {:.2} GB/s, a request every {gap:.1} clocks. The memory is not the limit; \
             what follows is what single requests wait for",
            offered / 1e9,
        ))
    }

    /// The usual map with bank groups below columns.
    fn interleaved(&self) -> String {
        let s = &self.standard;
        let counts = [("row", 2), ("rank", s.ranks), ("bank", s.banks), ("column", 2), ("group", 2)];
        let parts = counts.into_iter().chain([("channel", s.channels)]).filter(|(_, count)| *count > 1);
        parts.map(|(name, _)| name).collect::<Vec<_>>().join(" ")
    }
}

/// Requests that these banks served.
fn requests_of(banks: &[[u64; 3]]) -> u64 {
    banks.iter().flatten().sum()
}

/// How uneven a load is: the greatest over the mean, 1 where all are the same; null where there is none.
fn most_over_mean(loads: impl Iterator<Item = u64> + Clone) -> Value {
    let (most, count, sum) = (loads.clone().max().unwrap_or(0), loads.clone().count(), loads.sum::<u64>());
    if sum == 0 { Value::Null } else { (most as f64 * count as f64 / sum as f64).into() }
}

/// The latencies in clocks of so many picoseconds.
fn latencies_in(l: &Latencies, clock: f64) -> Value {
    let clocks = |ps: u64| (ps as f64 / clock).ceil() as u64;
    latencies(&Latencies {
        mean: l.mean / clock,
        p50: clocks(l.p50),
        p90: clocks(l.p90),
        p99: clocks(l.p99),
        p999: clocks(l.p999),
        max: clocks(l.max),
        ..*l
    })
}

fn latencies(l: &Latencies) -> Value {
    if l.n == 0 {
        return Value::Null;
    }
    json!({ "n": l.n, "mean": l.mean, "p50": l.p50, "p90": l.p90, "p99": l.p99, "p999": l.p999, "max": l.max })
}

/// Where errors say that an address is beyond the device.
pub const ADDRESSES: &str = "dram.trace.addresses";

/// The shipped cube: [`CubeSpec::default`].
pub const CUBE: &str = "hmc-2.1";

/// The shipped cube, whose text can be changed.
pub fn shipped_cube() -> CubeSpec {
    CubeSpec::default()
}

/// The cause of a data bus without data where no request waits.
const IDLE: &str = "nothing to do";
/// What it has to do where one channel holds the others up.
const UNEVEN: &str = "of the channels' time idle behind one that is full";

/// A cube, if `name` is the shipped one's, or `text`, which comes from `name`, has vaults.
///
/// # Errors
/// Links and vaults that contradict themselves.
fn cube(name: &str, text: Option<&str>) -> Result<Option<CubeSpec>, ScenarioError> {
    let Some(text) = text else { return Ok((name == CUBE).then(CubeSpec::default)) };
    if !toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("vaults")) {
        return Ok(None);
    }
    let cube: CubeSpec = toml::from_str(text).map_err(|e| no_file(text, name, "a cube", &e))?;
    cube.check()?;
    Ok(Some(cube))
}

/// A shipped standard, or the one in `text`, which comes from `name`.
///
/// # Errors
/// A name nobody ships; TOML that is no standard; numbers that contradict each other.
pub fn standard(name: &str, text: Option<&str>) -> Result<Standard, ScenarioError> {
    let standard: Standard = match text {
        Some(text) => toml::from_str(text).map_err(|e| no_file(text, name, "a DRAM standard", &e))?,
        None => presets::preset(name).ok_or_else(|| ScenarioError::Preset {
            origin: "dram".into(),
            path: "preset".into(),
            name: name.into(),
            known: if name == CUBE {
                format!("that is a cube with its links; its vaults are {CUBE}-vault")
            } else {
                known(&presets::NAMES.into_iter().chain([CUBE]).collect::<Vec<_>>(), name)
            },
        })?,
    };
    standard.check()?;
    Ok(standard)
}

/// A standard at the rate and with the channels that settings ask for.
///
/// # Errors
/// A rate far from its own; channels that are no power of two; timings that contradict each other.
fn changed(standard: Standard, settings: &DramSettings) -> Result<Standard, ScenarioError> {
    let mut standard = match settings.speed {
        Some(rate) => standard.at_rate(rate, "speed")?,
        None => standard,
    };
    if let Some(channels) = settings.channels {
        if !(channels.is_power_of_two() && channels <= 64) {
            let remedy = "address bits select the channel: leave it out for the preset's";
            return Err(no("channels", &channels.to_string(), "a power of two up to 64", remedy).into());
        }
        standard.channels = channels;
    }
    Ok(standard)
}

/// The vaults of a cube, which neither rate nor channels change: the links would stay as they are.
///
/// # Errors
/// Settings that do.
fn of_cube(cube: &CubeSpec, settings: &DramSettings) -> Result<Standard, ScenarioError> {
    for (path, given) in [("channels", settings.channels), ("speed", settings.speed)] {
        if let Some(given) = given {
            let remedy = "wirespeed presets hmc-2.1 > cube.toml prints links and vaults, to change";
            return Err(no(path, &format!("{given} with a cube"), "a standard that is no cube", remedy).into());
        }
    }
    Ok(cube.vaults.clone())
}

/// A map in parts that names no channel, where there are several: lines go round robin over them.
fn with_channel(text: &str, standard: &Standard) -> String {
    if text.contains('=') || text.contains("channel") || standard.channels == 1 {
        return text.into();
    }
    format!("{} channel", text.trim_end())
}

/// The shipped standards, by name.
pub fn standards() -> impl Iterator<Item = (&'static str, Standard)> {
    presets::NAMES.into_iter().filter_map(|name| Some((name, presets::preset(name)?)))
}

/// What is wrong with a text that should be `what`: no TOML at all, or TOML of something else.
fn no_file(text: &str, origin: &str, what: &str, error: &toml::de::Error) -> ScenarioError {
    if toml::from_str::<toml::Table>(text).is_err() {
        return ScenarioError::Syntax { origin: origin.into(), message: error.to_string() };
    }
    let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
    no(&format!("{origin}:{line}"), error.message(), what, "`wirespeed presets` prints shipped files, to change").into()
}

fn map(standard: &Standard, text: &str, file: Option<&str>) -> Result<AddressMap, ScenarioError> {
    if text.contains('=') || file.is_some() {
        let what = "a map: [[fields]] with part, bits and, if need be, xor";
        let map: AddressMap = toml::from_str(text).map_err(|e| no_file(text, file.unwrap_or("map"), what, &e))?;
        Decoder::new(&map, standard)?;
        return Ok(map);
    }
    Ok(AddressMap::of_parts(standard, text)?)
}

/// A level of caches with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLevel {
    /// `L1`, unless it has another one.
    pub name: String,
    /// The level.
    pub spec: LevelSpec,
    /// How its slices are wired, if that is told: a ring or a mesh. Cores and devices are where slice 0 is.
    pub wires: Option<WireTopology>,
}

const LEVEL: &str = "[NAME=]SIZE/WAYS[:OPTION]..., as in 32KiB/8 or L3=16MiB/16:srrip";

const OPTIONS: [&str; 31] = [
    "lru",
    "fifo",
    "mru",
    "tree-plru",
    "random",
    "srrip",
    "age",
    "age-random",
    "non-inclusive",
    "inclusive",
    "victim",
    "write-back",
    "write-through",
    "write-allocate",
    "write-validate",
    "write-around",
    "next-line",
    "stride",
    "stream",
    "ways",
    "store-is-no-use",
    "writeback-fetch",
    "keep-on-hit",
    "admit-copies",
    "slices",
    "hash",
    "ring",
    "mesh",
    "io",
    "io-age",
    "class1 to class15",
];

/// Levels from the core on, as in `32KiB/8,1MiB/16,16MiB/16:srrip:victim`.
///
/// Options are a replacement (`lru`, `fifo`, `mru`, `tree-plru`, `random`, `srrip`, `age=AGE`, `age-random=AGE`: the age,
/// 0 to 3, at which lines come in), an inclusion
/// (`non-inclusive`, `inclusive`, `victim`), what stores do (`write-back`, `write-through`; where they miss
/// `write-allocate`, `write-validate`, `write-around`), a prefetcher (`next-line=DEGREE`, `stride=DEGREE`,
/// `stream=DEGREE`), `ways=MASK`, the ways that may be filled, and `class1=MASK` to `class15=MASK`, those of other classes of
/// service, `io=MASK` and `io-age=AGE` of devices at the last level, `slices=N`, `hash=HASH` (`xor-fold`, `modulo`, `intel`,
/// `mixed`) and the wires between slices (`ring`, `mesh=COLUMNS`), and what some simulators do and hardware does not
/// (`store-is-no-use`, `writeback-fetch`, `keep-on-hit`, `admit-copies`).
///
/// # Errors
/// A text that is not of this form; sizes that the ways do not divide into sets; two options that say different things
/// of the same, or two levels of a name.
pub fn levels(text: &str) -> Result<Vec<NamedLevel>, MachineError> {
    let mut all: Vec<NamedLevel> = Vec::new();
    for (i, level) in text.split(',').enumerate() {
        let level = one_level(i, level.trim())?;
        if let Some(first) = all.iter().position(|l| l.name == level.name) {
            let came = format!("{}, as levels[{first}]", level.name);
            return Err(no(&format!("levels[{i}].name"), &came, "a name of its own", "results are told by name"));
        }
        all.push(level);
    }
    Ok(all)
}

fn one_level(i: usize, text: &str) -> Result<NamedLevel, MachineError> {
    let path = format!("levels[{i}]");
    let mut options = text.split(':');
    let head = options.next().unwrap_or_default();
    let (name, head) = head.split_once('=').map_or((None, head), |(name, rest)| (Some(name.trim()), rest));
    let example = "a size, its ways, and what else there is to say";
    let Some((size, ways)) = head.split_once('/') else {
        return Err(no(&path, text, LEVEL, example));
    };
    let size: Size = size.parse().map_err(|e: units::QuantityError| no(&path, size, &e.to_string(), example))?;
    let ways: u32 = ways.trim().parse().map_err(|_| no(&path, ways, "a number of ways, 1 to 32", example))?;
    let sets = CacheSpec { size, ways, latency: Span::from_ns(0.0) }.sets(&path)?;
    let mut spec = LevelSpec::new(sets, ways);
    let mut wires = None;
    let mut given: Vec<(&str, &str)> = Vec::new();
    // Other classes have what class 0 has, where they are not told something else.
    let (last, first): (Vec<&str>, Vec<&str>) = options.map(str::trim).partition(|option| class_of(option).is_some());
    for option in first.into_iter().chain(last) {
        one_option(&mut spec, &mut wires, &path, option)?;
        let about = subject(option.split_once('=').map_or(option, |(name, _)| name));
        if let Some((_, before)) = given.iter().find(|(subject, _)| *subject == about) {
            let came = format!("{before} and {option}");
            return Err(no(&path, &came, &format!("one {about}"), "the second would take the place of the first"));
        }
        given.push((about, option));
    }
    if i == 0 && given.iter().any(|&(_, option)| option == "inclusive") {
        return Err(no(&path, "inclusive", "inclusive of levels below another", "the first level has none above it"));
    }
    if spec.slices == 1
        && let Some((_, option)) = given.iter().find(|(about, _)| matches!(*about, "wires" | "hash"))
    {
        return Err(no(&path, option, "an option of a level with slices", "add slices=N, or leave it out"));
    }
    let has_ages = matches!(spec.replacement, Replacement::Age | Replacement::AgeRandom);
    if !has_ages && let Some((_, option)) = given.iter().find(|(about, _)| *about == "io-age") {
        return Err(no(&path, option, "an option of a level with ages", "add age or age-random, or leave it out"));
    }
    Ok(NamedLevel { name: name.map_or_else(|| format!("L{}", i + 1), str::to_string), spec, wires })
}

/// The class of service that an option is about, but class 0.
fn class_of(option: &str) -> Option<usize> {
    let (name, _) = option.split_once('=').unwrap_or((option, ""));
    (1..16).find(|class| name.strip_prefix("class").is_some_and(|n| n == class.to_string()))
}

/// What an option is about, of which a level has one.
fn subject(name: &str) -> &str {
    match name {
        "lru" | "fifo" | "mru" | "tree-plru" | "random" | "srrip" | "age" | "age-random" => "replacement",
        "non-inclusive" | "inclusive" | "victim" => "inclusion",
        "write-back" | "write-through" => "what stores do",
        "write-allocate" | "write-validate" | "write-around" => "what stores do that miss",
        "next-line" | "stride" | "stream" => "prefetcher",
        "ring" | "mesh" => "wires",
        other => other,
    }
}

/// Options that take a value.
const WITH_VALUE: [&str; 11] =
    ["age", "age-random", "next-line", "stride", "stream", "ways", "slices", "hash", "mesh", "io", "io-age"];

fn one_option(
    spec: &mut LevelSpec,
    wires: &mut Option<WireTopology>,
    path: &str,
    text: &str,
) -> Result<(), MachineError> {
    // Their entries are those that hardware tables usually have; the degree is what decides.
    const ENTRIES: u32 = 256;
    const DISTANCE: u32 = 16;
    const STREAMS: u32 = 16;
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let usual = machine::cache::OLDEST - 1;
    let mask = |example: &str| {
        let digits = value.strip_prefix("0x");
        let mask = digits.map_or_else(|| value.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok());
        mask.ok_or_else(|| no(path, text, &format!("{name}=MASK, as in {name}={example}"), "a bit for each way"))
    };
    let age = || {
        let wrong = || no(path, text, "an age of 0 to 3, as in age=2", "3 is the first to go; a hit makes a line 0");
        value.parse().ok().filter(|&age| age <= machine::cache::OLDEST).ok_or_else(wrong)
    };
    let all_ways = units::Cbm::low(spec.ways).0;
    if let Some(class) = class_of(text) {
        let of_zero = spec.classes.first().copied().unwrap_or(LevelClassSpec { ways: all_ways, age: usual });
        if spec.classes.len() <= class {
            spec.classes.resize(class + 1, of_zero);
        }
        spec.classes[class] = LevelClassSpec { ways: mask("0xf0")?, ..of_zero };
        return Ok(());
    }
    if OPTIONS.contains(&name) && text.contains('=') && !WITH_VALUE.contains(&name) {
        return Err(no(path, text, name, "it takes no value"));
    }
    let degree = || {
        let wrong = || no(path, text, "a prefetcher with a degree, as in next-line=1", "1 to 63 lines");
        value.parse::<u32>().map_err(|_| wrong())
    };
    if one_word(spec, name) {
        return Ok(());
    }
    match name {
        "age" | "age-random" => {
            spec.replacement = if name == "age" { Replacement::Age } else { Replacement::AgeRandom };
            let age = if value.is_empty() { usual } else { age()? };
            let ways = spec.classes.first().map_or(all_ways, |class| class.ways);
            spec.classes = vec![LevelClassSpec { ways, age }];
        }
        "next-line" => spec.prefetcher = Some(PrefetcherSpec::NextLine { degree: degree()? }),
        "stride" => spec.prefetcher = Some(PrefetcherSpec::Stride { degree: degree()?, entries: ENTRIES }),
        "stream" => {
            let (degree, distance, streams) = (degree()?, DISTANCE, STREAMS);
            spec.prefetcher = Some(PrefetcherSpec::Stream { degree, distance, streams });
        }
        "ways" => {
            let age = spec.classes.first().map_or(usual, |class| class.age);
            spec.classes = vec![LevelClassSpec { ways: mask("0x0f")?, age }];
        }
        "io" => spec.io = Some(LevelClassSpec { ways: mask("0x3")?, age: spec.io.map_or(usual, |io| io.age) }),
        "io-age" => spec.io = Some(LevelClassSpec { ways: spec.io.map_or(all_ways, |io| io.ways), age: age()? }),
        "slices" => {
            let wrong = || no(path, text, "slices=N, 1 to 64", "servers have a slice a core");
            spec.slices = value.parse().map_err(|_| wrong())?;
        }
        "hash" => {
            let words = SliceHash::ALL.map(SliceHash::word);
            spec.hash = SliceHash::ALL.into_iter().find(|hash| hash.word() == value).ok_or_else(|| {
                let [rest @ .., last] = words;
                let allowed = format!("hash={} or {last}", rest.join(", "));
                no(path, text, &allowed, "which slice has a line")
            })?;
        }
        "ring" => *wires = Some(WireTopology::Ring),
        "mesh" => {
            let wrong = || no(path, text, "mesh=COLUMNS, 1 to 64", "slices of a row");
            let columns = value.parse().ok().filter(|columns| (1..=64).contains(columns));
            *wires = Some(WireTopology::Mesh { columns: columns.ok_or_else(wrong)? });
        }
        "exclusive" => {
            return Err(no(path, text, &OPTIONS.join(", "), "a level that has what the one above gave up is a victim"));
        }
        _ => {
            return Err(no(path, text, &OPTIONS.join(", "), "options stand behind the ways, with colons between them"));
        }
    }
    Ok(())
}

/// Options that are one word; says whether `name` is among them.
fn one_word(spec: &mut LevelSpec, name: &str) -> bool {
    match name {
        "lru" => spec.replacement = Replacement::Lru,
        "fifo" => spec.replacement = Replacement::Fifo,
        "mru" => spec.replacement = Replacement::Mru,
        "tree-plru" => spec.replacement = Replacement::TreePlru,
        "random" => spec.replacement = Replacement::Random,
        "srrip" => spec.replacement = Replacement::Srrip,
        "non-inclusive" => spec.inclusion = Inclusion::NonInclusive,
        "inclusive" => spec.inclusion = Inclusion::Inclusive,
        "victim" => spec.inclusion = Inclusion::Victim,
        "write-back" => spec.write = WriteHitPolicy::Back,
        "write-through" => spec.write = WriteHitPolicy::Through,
        "write-allocate" => spec.write_miss = WriteMiss::Fetch,
        "write-validate" => spec.write_miss = WriteMiss::Validate,
        "write-around" => spec.write_miss = WriteMiss::Around,
        "store-is-no-use" => spec.use_on_store = false,
        "writeback-fetch" => spec.writeback_miss = WriteMiss::Fetch,
        "keep-on-hit" => spec.keep_on_hit = true,
        "admit-copies" => spec.admit_copies = true,
        _ => return false,
    }
    true
}

/// The static place of each request, where the trace has them.
fn sites(requests: &RequestTrace) -> Option<&[u16]> {
    (!requests.sites.is_empty()).then_some(&requests.sites[..])
}

/// A trace as caches take it.
fn cache_trace<'a>(requests: &'a RequestTrace, is_write: Option<&'a [bool]>) -> cache::CacheTrace<'a> {
    let origins = (!requests.origins.is_empty()).then_some(&requests.origins[..]);
    cache::CacheTrace { addresses: &requests.addresses, is_write, sites: sites(requests), class: Clos(0), origins }
}

/// The documented object of a trace through `levels`, but for what the host took. `seed` is for random
/// replacement.
///
/// # Errors
/// Levels that contradict themselves or each other; addresses that are spread too widely.
pub fn simulate_cache(levels: &[NamedLevel], requests: &RequestTrace, seed: u64) -> Result<Value, MachineError> {
    let specs: Vec<LevelSpec> = levels.iter().map(|level| level.spec.clone()).collect();
    let is_write = (!requests.writes.is_empty()).then_some(&requests.writes[..]);
    let trace = cache_trace(requests, is_write);
    let counts = cache::simulate(&specs, &trace, seed)?;
    let by_devices =
        counts.dma_writes.hits + counts.dma_writes.misses + counts.dma_reads.hits + counts.dma_reads.misses;
    let of_devices = counts.dma_writes.hits + counts.dma_writes.misses;
    let stores = requests.writes.iter().filter(|&&write| write).count() as u64 - of_devices;
    let found = |found: &HitCounts| json!({ "hits": found.hits, "misses": found.misses });
    let slices = |at: usize, level: &NamedLevel| -> Value {
        let of = counts.slices.get(at).map_or(&[][..], Vec::as_slice);
        let slice = |(slice, found): (usize, &HitCounts)| {
            let hops = level.wires.map(|wires| wires.hops(level.spec.slices, 0, slice as u32));
            json!({ "hits": found.hits, "misses": found.misses, "hops": hops })
        };
        of.iter().enumerate().map(slice).collect()
    };
    let mean_hops = |at: usize, level: &NamedLevel| {
        let wires = level.wires?;
        let of = counts.slices.get(at)?.iter().enumerate();
        let (all, hops) = of.fold((0, 0), |(all, hops), (slice, found)| {
            let n = found.hits + found.misses;
            (all + n, hops + n * u64::from(wires.hops(level.spec.slices, 0, slice as u32)))
        });
        (all > 0).then(|| hops as f64 / all as f64)
    };
    let classes = counts.classes.iter().enumerate().filter(|(_, of)| of.iter().any(|f| f.hits + f.misses > 0));
    let classes: Value = classes
        .map(|(class, of)| {
            let of: Value = levels
                .iter()
                .zip(of)
                .map(|(level, f)| json!({ "name": level.name, "hits": f.hits, "misses": f.misses }))
                .collect();
            json!({ "class": class, "levels": of })
        })
        .collect();
    let of_levels: Value = levels
        .iter()
        .zip(&counts.levels)
        .enumerate()
        .map(|(at, (level, c))| {
            let (hits, misses) = (c.loads.hits + c.stores.hits, c.loads.misses + c.stores.misses);
            let rate = (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64);
            json!({
                "name": level.name,
                "bytes": level.spec.sets * u64::from(level.spec.ways) * LINE_BYTES,
                "sets": level.spec.sets,
                "ways": level.spec.ways,
                "replacement": level.spec.replacement,
                "hits": hits,
                "misses": misses,
                "hit_rate": rate,
                "loads": { "hits": c.loads.hits, "misses": c.loads.misses },
                "stores": { "hits": c.stores.hits, "misses": c.stores.misses },
                "writebacks_in": { "hits": c.writebacks_in.hits, "misses": c.writebacks_in.misses },
                "evictions": c.evictions,
                "writebacks": c.writebacks,
                "invalidations": c.invalidations,
                "prefetches": c.prefetches,
                "useful_prefetches": c.useful_prefetches,
                "slices": slices(at, level),
                "mean_hops": mean_hops(at, level),
            })
        })
        .collect();
    Ok(json!({
        "schema": "wirespeed.cache/1",
        "accesses": requests.addresses.len(),
        "loads": requests.addresses.len() as u64 - by_devices - stores,
        "stores": stores,
        "dma_writes": found(&counts.dma_writes),
        "dma_reads": found(&counts.dma_reads),
        "classes": classes,
        "levels": of_levels,
        "memory_reads": counts.memory_reads,
        "memory_writes": counts.memory_writes,
        "memory_bytes": (counts.memory_reads + counts.memory_writes) * u64::from(REQUEST_BYTES),
        "notes": without_effect(levels, &requests.origins),
    }))
}

/// Which masks and ages no access of the trace is concerned by, in words.
fn without_effect(levels: &[NamedLevel], origins: &[u8]) -> Vec<String> {
    let has = |origin: u8| origins.contains(&origin) || (origin == 0 && origins.is_empty());
    let remedy = "the trace tells who it is by a word behind each line of the format rw";
    let mut notes = Vec::new();
    for (i, level) in levels.iter().enumerate() {
        if level.spec.io.is_some() && !has(DEVICE) {
            notes.push(format!(
                "levels[{i}].io has no effect: no access of the trace is of a device ({remedy}, io, or by io= of simulate_cache)"
            ));
        }
        for (class, spec) in level.spec.classes.iter().enumerate().skip(1) {
            if *spec != level.spec.classes[0] && !has(class as u8) {
                notes.push(format!(
                    "levels[{i}].class{class} has no effect: no access of the trace is of that class ({remedy}, class={class}, or by \
                     classes= of simulate_cache)"
                ));
            }
        }
    }
    notes
}

/// As [`simulate_cache`], from one of every `one_in` sets of each level: estimates, each with the half-width at 95 %
/// that chance of the draw gives it.
///
/// # Errors
/// As [`simulate_cache`]; a sample of fewer than 2 groups of sets; a prefetcher.
pub fn sample_cache(
    levels: &[NamedLevel],
    requests: &RequestTrace,
    one_in: u64,
    seed: u64,
) -> Result<Value, MachineError> {
    let specs: Vec<LevelSpec> = levels.iter().map(|level| level.spec.clone()).collect();
    let all = cache::sample_groups(&specs)?;
    let groups = all / one_in.max(1);
    if one_in == 0 || groups < 2 {
        let most = all / 2;
        return Err(no(
            "sample",
            &one_in.to_string(),
            &format!("1 to {most}: sets are drawn in {all} groups, the greatest common divisor of the levels' sets"),
            if most > 0 { "take more of the sets" } else { "choose numbers of sets with a common divisor" },
        ));
    }
    let is_write = (!requests.writes.is_empty()).then_some(&requests.writes[..]);
    let trace = cache_trace(requests, is_write);
    let (sampled, _) = cache::simulate_sample(&specs, &trace, groups, seed)?;
    let of_levels: Value = levels
        .iter()
        .zip(&sampled)
        .map(|(level, s)| {
            let estimate = |of: &cache::Sampled| json!({ "value": of.value, "half_width": of.half_width });
            json!({
                "name": level.name,
                "bytes": level.spec.sets * u64::from(level.spec.ways) * LINE_BYTES,
                "sets": level.spec.sets,
                "ways": level.spec.ways,
                "replacement": level.spec.replacement,
                "hits": s.hits.value.round() as u64,
                "misses": s.misses.value.round() as u64,
                "hit_rate": (s.hits.value + s.misses.value > 0.0).then_some(1.0 - s.miss_ratio.value),
                "hit_rate_half_width": s.miss_ratio.half_width,
                "evictions": s.evictions.value.round() as u64,
                "writebacks": s.writebacks.value.round() as u64,
                "estimates": {
                    "hits": estimate(&s.hits),
                    "misses": estimate(&s.misses),
                    "evictions": estimate(&s.evictions),
                    "writebacks": estimate(&s.writebacks),
                },
            })
        })
        .collect();
    let stores = requests.writes.iter().filter(|&&write| write).count();
    Ok(json!({
        "schema": "wirespeed.cache/1",
        "accesses": requests.addresses.len(),
        "loads": requests.addresses.len() - stores,
        "stores": stores,
        "sample": { "one_in": one_in, "groups": groups, "of": all },
        "levels": of_levels,
    }))
}

fn no(path: &str, came: &str, allowed: &str, remedy: &str) -> MachineError {
    MachineError { path: path.into(), came: came.into(), allowed: allowed.into(), remedy: remedy.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(text: &str) -> RequestTrace {
        RequestTrace::from_bytes(text.into(), "t", None).unwrap()
    }

    fn dram(settings: DramSettings) -> Result<CheckedDram, String> {
        CheckedDram::new(&DramSettings { preset: "ddr4-2400u", ..settings }).map_err(|e| e.to_string())
    }

    #[test]
    fn levels_are_read_as_they_are_written() {
        let all = levels("32KiB/8, L2=1MiB/16:srrip:next-line=2,LLC=16MiB/16:victim:ways=0x0ff0").unwrap();
        let names: Vec<&str> = all.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["L1", "L2", "LLC"]);
        assert_eq!((all[0].spec.sets, all[0].spec.ways), (64, 8));
        assert_eq!(all[1].spec.replacement, Replacement::Srrip);
        assert_eq!(all[1].spec.prefetcher, Some(PrefetcherSpec::NextLine { degree: 2 }));
        assert_eq!((all[2].spec.inclusion, all[2].spec.classes[0].ways), (Inclusion::Victim, 0xff0));
    }

    #[test]
    fn levels_that_are_wrong_say_where_and_what_is_allowed() {
        let wrong = |text: &str| {
            let read = levels(text);
            read.and_then(|all| simulate_cache(&all, &requests("R 40"), 0)).unwrap_err().to_string()
        };
        for (text, expected) in [
            ("32KiB", "levels[0] = 32KiB: allowed is [NAME=]SIZE/WAYS[:OPTION]..., as in 32KiB/8 or L3=16MiB/16:srrip"),
            ("32KiB/8,1MiB/0", "levels[1].ways = 0: allowed is 1 to 32 ways"),
            ("1000/3", "levels[0].size = "),
            ("32KiB/8:lruu", "levels[0] = lruu: allowed is lru, fifo, mru, "),
            ("32KiB/8:ways=0", "levels[0].classes[0].ways = 0b0: allowed is at least one way"),
            ("32KiB/8:ways=0x100", "levels[0].classes[0].ways = 0b100000000: allowed is bits of 0b11111111"),
            ("32KiB/8:next-line", "levels[0] = next-line: allowed is a prefetcher with a degree"),
            ("32KiB/8:victim", "levels[0].inclusion = victim: allowed is levels below another"),
            ("32KiB/8:inclusive", "levels[0] = inclusive: allowed is inclusive of levels below another"),
            ("32KiB/8:lru:srrip", "levels[0] = lru and srrip: allowed is one replacement"),
            ("32KiB/8,64KiB/8:stride=1:stream=2", "levels[1] = stride=1 and stream=2: allowed is one prefetcher"),
            ("32KiB/8:ways=1:ways=3", "levels[0] = ways=1 and ways=3: allowed is one ways"),
            ("A=32KiB/8,A=64KiB/8", "levels[1].name = A, as levels[0]: allowed is a name of its own"),
            ("L2=32KiB/8,64KiB/8", "levels[1].name = L2, as levels[0]: allowed is a name of its own"),
            ("32KiB/8:lru=5", "levels[0] = lru=5: allowed is lru"),
            ("32KiB/8:victim=1", "levels[0] = victim=1: allowed is victim"),
            ("32KiB/8:age=4", "levels[0] = age=4: allowed is an age of 0 to 3, as in age=2"),
            ("32KiB/8:slices=3", "levels[0].slices = 3 with 64 sets: allowed is a divisor of the sets"),
            ("32KiB/8:slices=x", "levels[0] = slices=x: allowed is slices=N, 1 to 64"),
            (
                "32KiB/8:slices=4:hash=md5",
                "levels[0] = hash=md5: allowed is hash=xor-fold, modulo, intel, mixed or even",
            ),
            ("32KiB/8:hash=intel", "levels[0] = hash=intel: allowed is an option of a level with slices"),
            ("32KiB/8:mesh=3", "levels[0] = mesh=3: allowed is an option of a level with slices"),
            ("32KiB/8:slices=4:ring:mesh=2", "levels[0] = ring and mesh=2: allowed is one wires"),
            ("32KiB/8:io=0x3,1MiB/16", "levels[0].io = a setting: allowed is the last level only"),
            ("32KiB/8:io=0x100", "levels[0].io.ways = 0b100000000: allowed is bits of 0b11111111"),
            ("32KiB/8:io=most", "levels[0] = io=most: allowed is io=MASK, as in io=0x3"),
            ("32KiB/8:class2=0", "levels[0].classes[2].ways = 0b0: allowed is at least one way"),
            ("32KiB/8:class2=1:class2=3", "levels[0] = class2=1 and class2=3: allowed is one class2"),
            ("32KiB/8:class16=1", "levels[0] = class16=1: allowed is lru, fifo, "),
            ("32KiB/8:class01=1", "levels[0] = class01=1: allowed is lru, fifo, "),
            ("32KiB/8:lru:io-age=0", "levels[0] = io-age=0: allowed is an option of a level with ages"),
            ("32KiB/8,1MiB/16:exclusive", "levels[1] = exclusive: allowed is lru, fifo, "),
        ] {
            let got = wrong(text);
            assert!(got.starts_with(expected), "{got}");
        }
    }

    #[test]
    fn devices_classes_and_slices_are_counted_apart() {
        // A device's ring of 4 lines a set beside a core's table of as many, in one way each and in all.
        let mut text = String::new();
        for i in 0..4000u64 {
            text +=
                &format!("W {:x} io\nR {:x} class=1\nR {:x}\n", i % 256 * 64, (1 << 20) + i % 256 * 64, i % 64 * 64);
        }
        let of = |text_of_levels: &str| simulate_cache(&levels(text_of_levels).unwrap(), &requests(&text), 0).unwrap();
        let apart = of("LLC=32KiB/8:class1=0xf0:ways=0x0c:io=0x03:slices=4:hash=modulo:ring");
        assert_eq!((&apart["accesses"], &apart["loads"], &apart["stores"]), (&12_000.into(), &8_000.into(), &0.into()));
        let number =
            |d: &Value, at: &str| d.pointer(at).and_then(Value::as_u64).unwrap_or_else(|| panic!("{at} of {d}"));
        // Four lines a set for class 1 and four ways: they stay once they are there.
        assert_eq!(number(&apart, "/classes/1/levels/0/misses"), 256);
        assert_eq!((number(&apart, "/classes/1/class"), number(&apart, "/classes/1/levels/0/hits")), (1, 4000 - 256));
        let all = of("LLC=32KiB/8");
        assert!(number(&all, "/dma_writes/hits") != number(&apart, "/dma_writes/hits"));
        assert!(all["levels"][0]["slices"].as_array().unwrap().is_empty() && all["levels"][0]["mean_hops"].is_null());
        // A quarter each, at 0, 1, 2 and 1 hops.
        assert_eq!(
            (0..4).map(|i| number(&apart, &format!("/levels/0/slices/{i}/hops"))).collect::<Vec<_>>(),
            [0, 1, 2, 1]
        );
        assert_eq!(apart["levels"][0]["mean_hops"], 1.0);
        let off = of("LLC=32KiB/8:io=0");
        assert_eq!(number(&off, "/dma_writes/hits") + number(&off, "/dma_writes/misses"), 4000);
        assert!(number(&off, "/memory_writes") >= 4000 && number(&all, "/memory_writes") < 4000);
        // In a mesh of two columns slice 3 is two hops away.
        let mesh = of("LLC=32KiB/8:slices=4:mesh=2:hash=modulo");
        assert_eq!(number(&mesh, "/levels/0/slices/3/hops"), 2);
        assert_eq!(apart["notes"], json!([]));
        let alone = of("LLC=32KiB/8:class2=1:class1=3:io=3");
        assert!(
            alone["notes"][0].as_str().unwrap().starts_with("levels[0].class2 has no effect"),
            "{}",
            alone["notes"]
        );
        assert_eq!(alone["notes"].as_array().unwrap().len(), 1);
        let cores = simulate_cache(&levels("32KiB/8:class2=0xff:io=3").unwrap(), &requests("R 40"), 0).unwrap();
        assert!(cores["notes"][0].as_str().unwrap().starts_with("levels[0].io has no effect"), "{}", cores["notes"]);
        assert_eq!(cores["notes"].as_array().unwrap().len(), 1, "class 2 has what class 0 has");
        let sampled = sample_cache(&levels("32KiB/8").unwrap(), &requests(&text), 8, 0).unwrap_err().to_string();
        assert!(sampled.starts_with("origins = devices and classes of service in a sample of sets"), "{sampled}");
    }

    #[test]
    fn settings_of_a_dram_that_are_wrong_say_where_and_what_is_allowed() {
        let wrong = |settings| {
            dram(settings).and_then(|d| d.simulate(&requests("R 40"), false).map_err(|e| e.to_string())).unwrap_err()
        };
        let usual = DramSettings::default;
        for (settings, expected) in [
            (DramSettings { offered: Some("every=0"), ..usual() }, "offered = every=0: allowed is every= and clocks"),
            (
                DramSettings { offered: Some("most"), ..usual() },
                "offered = most: allowed is saturated, every=CLOCKS or",
            ),
            (DramSettings { offered: Some("trace"), ..usual() }, "offered = trace, which has no clocks: allowed is"),
            (DramSettings { order: Some("lifo"), ..usual() }, "order = lifo: allowed is fr-fcfs, "),
            (
                DramSettings { writes: Some("drain=8/9/1"), ..usual() },
                "dram.controller.writes = queue 8, high 9, low 1",
            ),
            (DramSettings { writes: Some("drain=8"), ..usual() }, "writes = drain=8: allowed is mixed or drain="),
            (DramSettings { page: Some("adaptive"), ..usual() }, "page = adaptive: allowed is open, closed or"),
            (DramSettings { refresh: Some("never"), ..usual() }, "refresh = never: allowed is all-bank, "),
            (
                DramSettings { queue: Some(0), ..usual() },
                "dram.controller.queue = 0 with 0 for writes: allowed is 1 to",
            ),
            (DramSettings { map: Some("row bank"), ..usual() }, "dram.ddr4-2400u.map = group of 0 bits"),
            (
                DramSettings { map: Some("row|banks"), ..usual() },
                "dram.ddr4-2400u.map = \"banks\": allowed is channel, ",
            ),
            (DramSettings { map: Some("fields = ["), ..usual() }, "map: not TOML: "),
            (
                DramSettings { map: Some("fields = 3"), ..usual() },
                "map:1 = invalid type: integer `3`, expected a sequence: allowed is a map: [[fields]] with part, bits",
            ),
            (
                DramSettings {
                    map: Some("[[fields]]\npart = \"vault\"\nbits = [6]"),
                    map_file: Some("m.toml"),
                    ..usual()
                },
                "m.toml:2 = unknown variant `vault`, expected one of `channel`, ",
            ),
        ] {
            let got = wrong(settings);
            assert!(got.starts_with(expected), "{got}");
        }
        let beyond = dram(usual()).unwrap().simulate(&requests("R 40\nR fffffffffff"), false).unwrap_err().to_string();
        assert!(beyond.starts_with("dram.trace.addresses = [1] = 0xfffffffffff: allowed is below"), "{beyond}");
    }

    #[test]
    fn ages_are_read_with_masks_in_either_order() {
        for text in ["32KiB/8:age=3:ways=0x0f", "32KiB/8:ways=0x0f:age=3"] {
            let spec = &levels(text).unwrap()[0].spec;
            assert_eq!(spec.replacement, Replacement::Age);
            assert_eq!(spec.classes, [LevelClassSpec { ways: 0x0f, age: 3 }]);
        }
        assert_eq!(levels("32KiB/8:age-random").unwrap()[0].spec.classes[0].age, 2);
    }

    #[test]
    fn strides_of_two_places_are_told_apart_by_the_program_counter() {
        // Two streams of four lines a step in turn: no stride of one place is that of the next access.
        let view: String = (0..4_000u64)
            .map(|i| {
                let (pc, at) =
                    if i % 2 == 0 { (0x40_1000, 0x10_0000 + i * 128) } else { (0x40_1008, 0x4000_0000 - i * 256) };
                format!("{i} {i}: W0.T3 read         8 byte(s) @ 0x{at:016x} by PC 0x{pc:x}\n")
            })
            .collect();
        let lackey: String = (0..4_000u64)
            .map(|i| {
                let (pc, at) =
                    if i % 2 == 0 { (0x40_1000, 0x10_0000 + i * 128) } else { (0x40_1008, 0x4000_0000 - i * 256) };
                format!("I  {pc:08x},3\n L {at:x},8\n")
            })
            .collect();
        for text in [view, lackey] {
            let mut with = requests(&text);
            let count = |requests: &RequestTrace| {
                let found = simulate_cache(&levels("32KiB/8:stride=4").unwrap(), requests, 0).unwrap();
                found["levels"][0]["useful_prefetches"].as_u64().unwrap()
            };
            assert!(count(&with) > 3_000, "{}", count(&with));
            with.sites.clear();
            assert!(count(&with) < 100, "{}", count(&with));
        }
    }

    #[test]
    fn a_low_load_that_is_carried_is_no_fault_of_the_memory() {
        let text: String = (0..5_000u64).map(|i| format!("R {:x}\n", i * 0x4_2040 % (1 << 30))).collect();
        let of = |offered| {
            let low = dram(DramSettings { offered: Some(offered), ..DramSettings::default() }).unwrap();
            low.simulate(&requests(&text), false).unwrap().document["explanation"][0].as_str().unwrap().to_string()
        };
        assert!(of("every=40").starts_with("all that is offered is carried: 1.92 GB/s, a request every 40.0 clocks"));
        assert!(!of("saturated").starts_with("all that is offered"));
        assert!(!of("every=1").starts_with("all that is offered"));
    }

    #[test]
    fn a_cube_is_limited_by_its_links_and_its_vaults_close_their_rows() {
        let stream: String = (0..60_000u64).map(|i| format!("R {:x}\n", i * 64)).collect();
        let of = |preset| {
            let settings = DramSettings { preset, ..DramSettings::default() };
            CheckedDram::new(&settings).unwrap().simulate(&requests(&stream), true).unwrap()
        };
        let (cube, vaults) = (of(CUBE), of("hmc-2.1-vault"));
        let number = |d: &Value, key: &str| d[key].as_f64().unwrap();
        let peak = |d: &Value| number(d, "peak_gb_per_s").round();
        assert_eq!(cube.document["preset"], CUBE);
        assert_eq!((peak(&cube.document), peak(&vaults.document)), (160.0, 320.0));
        assert!(number(&cube.document, "bandwidth_gb_per_s") > 150.0);
        assert!(cube.document["explanation"][0].as_str().unwrap().starts_with("the links are the limit: "));
        for found in [&cube, &vaults] {
            assert_eq!(found.document["controller"]["page"], "closed");
        }
        assert_eq!((vaults.document["links"].is_null(), number(&cube.document["links"], "links")), (true, 4.0));
        // Times are of the links: from a request's first flit to the answer's last.
        let latency = cube.document["read_latency_clk"]["mean"].as_f64().unwrap();
        let spans = cube.completions.iter().zip(&cube.accepted).map(|(done, sent)| (done - sent) as f64);
        assert!((spans.sum::<f64>() / 60_000.0 - latency).abs() < 2.0);
        // The same as a file; another number of links halves what they carry.
        let file = toml::to_string(&CubeSpec::default()).unwrap();
        let two = file.replace("links = 4", "links = 2");
        let settings = |text| DramSettings { preset: "mine.toml", standard: Some(text), ..DramSettings::default() };
        let same = CheckedDram::new(&settings(&file)).unwrap().simulate(&requests(&stream), false).unwrap();
        assert_eq!((same.completions, &same.document["preset"]), (cube.completions.clone(), &CUBE.into()));
        let half = CheckedDram::new(&settings(&two)).unwrap().simulate(&requests(&stream), false).unwrap();
        assert_eq!((peak(&half.document), &half.document["preset"]), (80.0, &"mine.toml".into()));
        let none = file.replace("links = 4", "links = 0");
        assert!(
            CheckedDram::new(&settings(&none))
                .unwrap_err()
                .to_string()
                .starts_with("dram.hmc.links = 0: allowed is 1 to 8")
        );
    }

    fn document(settings: DramSettings, text: &str) -> Value {
        CheckedDram::new(&settings).unwrap().simulate(&requests(text), false).unwrap().document
    }

    #[test]
    fn channels_and_speed_stand_in_place_of_the_presets() {
        let lines = |count: u64| (0..count).map(|i| format!("R {:x}\n", i * 64)).collect::<String>();
        let usual = || DramSettings { preset: "ddr5-4800b", ..DramSettings::default() };
        let peak = |d: &Value| d["peak_gb_per_s"].as_f64().unwrap();
        let of = |settings| document(settings, &lines(4000));
        let two = of(usual());
        for channels in [1, 4, 64] {
            let other = of(DramSettings { channels: Some(channels), ..usual() });
            assert_eq!(other["channels"].as_array().unwrap().len() as u32, channels);
            assert!((peak(&other) / peak(&two) - f64::from(channels) / 2.0).abs() < 1e-12);
        }
        // A map that names no channel has lines go round robin over them, as one that names it last.
        let map = |text| DramSettings { map: Some(text), channels: Some(4), ..usual() };
        let (without, with) = (of(map("row bank column group")), of(map("row bank column group channel")));
        assert_eq!(without, with);
        assert_eq!(with["most_over_mean"]["channel"], 1.0);
        // The same at another rate as the preset that is shipped for it; beyond all of them a name that says so.
        let faster = of(DramSettings { speed: Some(6400), ..usual() });
        assert_eq!(faster, of(DramSettings { preset: "ddr5-6400b", ..usual() }));
        let none = of(DramSettings { speed: Some(5200), ..usual() });
        assert_eq!((&none["preset"], &none["clock_mhz"]), (&"ddr5-4800b@5200".into(), &2600.into()));
        for (settings, expected) in [
            (DramSettings { channels: Some(3), ..usual() }, "channels = 3: allowed is a power of two up to 64"),
            (DramSettings { speed: Some(10_000), ..usual() }, "speed = 10000: allowed is 2400 to 9600 MT/s"),
            (
                DramSettings { preset: CUBE, channels: Some(4), ..usual() },
                "channels = 4 with a cube: allowed is a standard",
            ),
            (
                DramSettings { preset: CUBE, speed: Some(2400), ..usual() },
                "speed = 2400 with a cube: allowed is a standard",
            ),
            (
                DramSettings { preset: "ddr4-2400u", refresh: Some("same-bank"), ..usual() },
                "dram.controller.refresh = same-bank refresh of ddr4-2400u: allowed is standards with bank groups and RFC_SB",
            ),
        ] {
            let got = CheckedDram::new(&settings).and_then(|d| d.simulate(&requests("R 40"), false));
            let got = got.unwrap_err().to_string();
            assert!(got.starts_with(expected), "{got}");
        }
    }

    #[test]
    fn loads_of_channels_and_banks_add_up_to_the_whole() {
        // Three of four lines in even channels, few banks, some writes.
        let text: String = (0..20_000u64)
            .map(|i| {
                let line = if i % 4 == 0 { 2 * i + 1 } else { 2 * i };
                format!("{} {:x}\n", if i % 5 == 0 { 'W' } else { 'R' }, (line * 64 + i % 7 * (1 << 24)) % (1 << 30))
            })
            .collect();
        for preset in ["ddr5-5600b", "lpddr5x-8533", "hbm2-2000", "ddr4-2400u"] {
            let d = document(DramSettings { preset, ..DramSettings::default() }, &text);
            let list = |key: &str| d[key].as_array().unwrap().clone();
            let sum = |list: &[Value], key: &str| list.iter().map(|each| each[key].as_u64().unwrap()).sum::<u64>();
            let (channels, banks) = (list("channels"), list("banks"));
            for loads in [&channels, &banks] {
                assert_eq!(sum(loads, "requests"), 20_000, "{preset}");
                assert_eq!(sum(loads, "row_hits"), d["row_hits"].as_u64().unwrap());
            }
            let per_channel = banks.len() / channels.len();
            for (number, (channel, banks)) in channels.iter().zip(banks.chunks(per_channel)).enumerate() {
                assert!(banks.iter().all(|bank| bank["channel"] == number));
                assert_eq!(channel["requests"], sum(banks, "requests"));
                let busy: f64 = banks.iter().map(|bank| bank["data"].as_f64().unwrap()).sum();
                assert!((busy - channel["data"].as_f64().unwrap()).abs() < 1e-9, "{preset}: {busy} {channel}");
            }
            for (key, loads) in [("channel", &channels), ("bank", &banks)] {
                let most = loads.iter().map(|each| each["requests"].as_u64().unwrap()).max().unwrap();
                let expected = most as f64 / (20_000.0 / loads.len() as f64);
                assert!((d["most_over_mean"][key].as_f64().unwrap() - expected).abs() < 1e-9, "{preset} {key}");
            }
        }
        let none = dram(DramSettings::default())
            .unwrap()
            .simulate(&RequestTrace::new(Vec::new(), Vec::new(), Vec::new()), false)
            .unwrap()
            .document;
        assert!(none["most_over_mean"]["channel"].is_null() && none["most_over_mean"]["bank"].is_null());
    }

    #[test]
    fn what_refresh_takes_is_told_with_the_numbers_of_its_kind() {
        let random: String =
            (0..60_000u64).map(|i| format!("R {:x}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 39 << 6)).collect();
        let found = |preset, refresh| {
            let d = document(DramSettings { preset, refresh, channels: Some(1), ..DramSettings::default() }, &random);
            let said = d["explanation"].as_array().unwrap().iter().filter_map(Value::as_str);
            (d["controller"]["refresh"].clone(), said.filter(|cause| cause.contains(" refresh: ")).collect::<String>())
        };
        let (usual, all) = found("ddr5-5600b", None);
        assert_eq!(usual, "all-bank");
        assert!(
            all.contains("tRFC = 826 of every tREFI = 10920 clocks; with refresh = same-bank the other banks"),
            "{all}"
        );
        let (_, same) = found("ddr5-5600b", Some("same-bank"));
        assert!(
            same.contains("tRFCsb = 364 of every tREFI2 = 5460 clocks") && same.contains("tREFSBRD = 84"),
            "{same}"
        );
        assert_eq!(found("lpddr5x-8533", None).0, "per-bank");
    }

    #[test]
    fn one_full_channel_of_many_is_not_called_an_idle_memory() {
        // Every 32nd line: one of HBM3's 32 channels has them all.
        let lines = |stride: u64| (0..30_000).map(|i| format!("R {:x}\n", i * 64 * stride)).collect::<String>();
        let (one, all) = (lines(32), lines(1));
        let first = |addresses: &str| {
            let settings = DramSettings { preset: "hbm3-6400", ..DramSettings::default() };
            let found = CheckedDram::new(&settings).unwrap().simulate(&requests(addresses), false).unwrap();
            found.document["explanation"][0].as_str().unwrap_or_default().to_string()
        };
        let found = first(&one);
        assert!(found.contains("behind one that is full: the channels are not used evenly: channel"), "{found}");
        assert!(found.contains("has 100.0 % of the bursts, where 3.1 % would be even"), "{found}");
        assert!(!first(&all).contains("evenly"), "{}", first(&all));
    }

    #[test]
    fn a_shipped_standard_reads_back_as_it_was_written() {
        for (name, shipped) in standards() {
            assert!(map(&shipped, USUAL_MAP, None).is_ok(), "{name}");
            let text = toml::to_string(&shipped).unwrap();
            assert_eq!(standard("file", Some(&text)).unwrap(), shipped);
        }
        // A standard's own word on its pages, whatever its name.
        let mine = toml::to_string(&presets::hmc_vault()).unwrap().replace("name = \"hmc", "name = \"mine");
        let settings = DramSettings { preset: "mine.toml", standard: Some(&mine), ..DramSettings::default() };
        assert_eq!(CheckedDram::new(&settings).unwrap().controller.page, machine::dram::policy::Page::Closed);
        let opened = mine.replace("page = \"closed\"", "");
        assert_ne!(opened, mine);
        let settings = DramSettings { standard: Some(&opened), ..settings };
        assert_eq!(CheckedDram::new(&settings).unwrap().controller.page, machine::dram::policy::Page::Open);
        let shipped = toml::to_string(&presets::ddr4_2400u()).unwrap();
        let contradiction = shipped.replace("RAS = ", "RAS = 0 #");
        assert!(standard("file", Some(&contradiction)).unwrap_err().to_string().contains("timings.RAS"));
    }

    #[test]
    fn a_stream_in_one_bank_group_is_told_so() {
        let text: String = (0..20_000).map(|i| format!("R {:x}\n", i * 64)).collect();
        let result = dram(DramSettings::default()).unwrap().simulate(&requests(&text), false).unwrap();
        let first = result.document["explanation"][0].as_str().unwrap();
        assert!(first.contains("tCCD_L = 6") && first.contains("`row bank column group`"), "{first}");
        let split = result.document["bandwidth_split"].as_object().unwrap();
        let sum: f64 = split.values().map(|share| share.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9);
        let better = DramSettings { map: Some("row bank column group"), ..DramSettings::default() };
        let better = dram(better).unwrap().simulate(&requests(&text), false).unwrap();
        let share = |d: &Value| d["peak_share"].as_f64().unwrap();
        assert!(share(&result.document) < 0.76 && share(&better.document) > 0.9);
    }
}
