//! DRAM: two shells. This file's [`Dram`] answers in arrival order; the modules below model every
//! command ([`simulate`] for whole traces, [`controller`] request by request, [`hmc`] for a cube).
//!
//! [`Dram`] is DRAM channels with row buffers, answered in arrival order.
//!
//! Models channels, banks with an open row each (or closed behind each line), column, activate and precharge
//! times, the data bus, and all-bank refresh. Requests reserve bank and bus in the order in which
//! they arrive (FCFS); writes are posted and take the same resources. A channel takes a write in once it has fewer than
//! [`POSTED`] before it, which whoever waits for that may ask. Left out: command-bus contention, tFAW and tRRD, read/write
//! turnaround, bank groups, reordering.
//!
//! Lines go round robin over channels; within a channel the address is row | bank | column with the
//! bank bits XORed with the low row bits (Zhang, Zhu, Zhang, MICRO 2000), as server controllers do,
//! so that strides of a row do not all meet in one bank.

use std::hint::select_unpredictable;

mod channel;
pub mod checker;
mod commanded;
mod counters;
pub mod energy;
pub mod hmc;
pub mod map;
mod part;
pub mod policy;
pub mod presets;
mod rate;
mod setting;
pub mod simulate;
pub mod standard;
pub mod stats;

pub use commanded::{CommandReport, Commanded, FinishedRead};
pub use energy::{Energy, EnergyEvents, EnergyModel};
pub use part::DramPart;
pub use setting::{ControllerSetting, LinkSetting, SERVER_MAP};

use ::stats::{Path, Reason};
use probe::Request;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{LINE_BYTES, Line, Ps, Size, Span};

use crate::divisor::Divisor;
use crate::{MachineError, Response, Served};

/// Writes that a channel has before one more is held up (assumed: as many as two write queues).
pub(crate) const POSTED: usize = 64;

/// DRAM behind the LLC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DramSpec {
    /// The part whose organisation and timings the fields below have where nothing else is said: a shipped standard by its name
    /// (`wirespeed presets --kind dram`), a file of one's own that ends in `.toml` (`wirespeed presets ddr4-2400u` prints one
    /// to begin with), or a table that says the same. Of stacks (HBM, HMC) there is one; modules are on the machine's channels,
    /// each of which DDR5 makes two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard: Option<DramPart>,
    /// The shipped standard whose currents the devices have, for their energy; if left out that of `standard`. Without
    /// either, or where that standard has no currents, energy is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currents: Option<String>,
    /// Whether rows stay open after a line.
    #[serde(default)]
    pub page: PagePolicy,
    /// Channels, lines interleaved over them.
    pub channels: u32,
    /// Banks of a channel, over all ranks and bank groups; a power of two. How many ranks there are follows from them.
    pub banks: u32,
    /// Bytes of a row over the channel's width.
    pub row: Size,
    /// Column command to first data.
    pub t_cl: Span,
    /// Activate to column command.
    pub t_rcd: Span,
    /// Precharge to activate.
    pub t_rp: Span,
    /// Activate to precharge.
    pub t_ras: Span,
    /// A line on the data bus.
    pub t_burst: Span,
    /// Between refreshes.
    pub t_refi: Span,
    /// A refresh.
    pub t_rfc: Span,
    /// Controller, queues and wires, both ways together, apart from the DRAM itself.
    pub overhead: Span,
    /// An ideal: every line finds its row open. Columns, buses, turnarounds and refreshes keep their times; opening and
    /// closing rows takes neither time nor energy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_hits: bool,
    /// Controllers at the level of commands in place of banks that are reserved in order of arrival; needs `standard`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerSetting>,
}

/// Whether rows stay open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PagePolicy {
    /// Until another row of the bank is wanted.
    #[default]
    Open,
    /// A line's row closes behind it, as in the vaults of HMC.
    Closed,
}

impl std::fmt::Display for PagePolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            PagePolicy::Open => "open",
            PagePolicy::Closed => "closed",
        })
    }
}

impl DramSpec {
    /// Organisation and timings of a shipped standard, with the controller's `overhead`. A line takes as many column
    /// commands as it needs.
    ///
    /// # Errors
    /// No standard of that name, or one that lacks a timing.
    pub fn of_standard(name: &str, overhead: Span) -> Result<DramSpec, MachineError> {
        DramSpec::of_part(&DramPart::from(name), overhead)
    }

    /// The same of a part, which may be one's own.
    ///
    /// # Errors
    /// A name that nobody ships, or timings that are missing.
    pub fn of_part(part: &DramPart, overhead: Span) -> Result<DramSpec, MachineError> {
        let unknown = || {
            MachineError::new(
                "machine.dram.standard",
                part.name().to_string(),
                presets::NAMES.join(", "),
                "see wirespeed presets --kind dram".into(),
            )
        };
        let standard = part.standard().ok_or_else(unknown)?;
        let clock_ns = 1e3 / f64::from(standard.clock_mhz);
        let span = |timing: &str| Ok(Span::from_ns(f64::from(standard.timing(timing)?) * clock_ns));
        let bursts = LINE_BYTES.div_ceil(u64::from(standard.access_bytes)) as f64;
        Ok(DramSpec {
            standard: Some(part.clone()),
            currents: None,
            page: if standard.page == policy::Page::Closed { PagePolicy::Closed } else { PagePolicy::Open },
            channels: standard.channels,
            banks: standard.banks_per_channel(),
            row: Size::from_bytes(standard.row_bytes.into()),
            t_cl: span("CL")?,
            t_rcd: span("RCD")?,
            t_rp: span("RP")?,
            t_ras: span("RAS")?,
            t_burst: Span::from_ns(f64::from(standard.timing("BL")?) * clock_ns * bursts),
            t_refi: span("REFI")?,
            t_rfc: span("RFC")?,
            overhead,
            all_hits: false,
            controller: None,
        })
    }
}

/// What a DRAM has done.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Add, derive_more::Sub, Serialize, Deserialize, JsonSchema,
)]
pub struct DramCounters {
    /// Lines read.
    pub reads: u64,
    /// Lines written.
    pub writes: u64,
    /// Found their row open.
    pub row_hits: u64,
    /// Found the bank closed.
    pub row_misses: u64,
    /// Found another row open.
    pub row_conflicts: u64,
    /// Data-bus time in use, over all channels.
    #[serde(skip)]
    pub bus_busy: Ps,
}

/// All channels of a memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dram {
    timing: ReservedTiming,
    /// Of a channel, for refreshes.
    ranks: u32,
    page: PagePolicy,
    /// Of a row's number; none where all rows are one, which is always open.
    row_bits: u32,
    /// The row that is open after a refresh.
    after_refresh: Option<u32>,
    interleave: Divisor,
    lines_per_row: Divisor,
    banks_per_channel: u32,
    /// Its logarithm.
    bank_bits: u32,
    channels: Vec<ReservedChannel>,
    /// Those of the first channel, then those of the next.
    banks: Vec<ReservedBank>,
    /// When the last [`POSTED`] writes of each channel have passed, those of the first channel, then those of the next.
    posted: Vec<Ps>,
    /// When the channel of the last write has taken that in.
    accepted: Ps,
    /// But for the time of the buses, which the lines tell.
    counters: DramCounters,
    /// Nothing waits, and nothing takes a bank or a bus.
    #[serde(skip)]
    untimed: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct ReservedTiming {
    cl: Ps,
    rcd: Ps,
    rp: Ps,
    ras: Ps,
    burst: Ps,
    refi: Ps,
    rfc: Ps,
    overhead: Ps,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ReservedChannel {
    /// When the latest request was made.
    latest: Ps,
    bus_free: Ps,
    /// For how long a row has been open, up to `open_until`.
    open: Ps,
    open_until: Ps,
    /// The refresh interval that was last looked at, and from when to when in it no refresh stops commands.
    epoch: u64,
    quiet: (Ps, Ps),
    /// Where the next write's place in `posted` is.
    next_posted: usize,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct ReservedBank {
    /// The next column command may go out.
    ready: Ps,
    /// The open row may be closed.
    precharge_from: Ps,
    row: Option<u32>,
    /// Refreshes seen: a row opened before the latest one is closed.
    epoch: u64,
}

impl ReservedChannel {
    /// The refresh interval of `column` is the one that was last looked at. The first refresh comes after one interval.
    #[cold]
    fn look_at(&mut self, column: Ps, t: &ReservedTiming) {
        self.epoch = column.0 / t.refi.0;
        let start = Ps(self.epoch * t.refi.0);
        self.quiet = (if self.epoch > 0 { start + t.rfc } else { Ps::ZERO }, start + t.refi);
    }
}

/// The later of two times of which nobody can foretell which it is, without a branch.
#[inline(always)]
pub(crate) fn later<T: PartialOrd>(a: T, b: T) -> T {
    select_unpredictable(a > b, a, b)
}

/// Where a line lies: its channel, its bank among those of all channels, and its row there.
struct BankLocation {
    channel: usize,
    bank: usize,
    row: u32,
}

impl Dram {
    /// Builds the channels.
    ///
    /// # Errors
    /// Counts of 0, banks that are no power of two, a row smaller than a line, times that
    /// contradict each other.
    pub fn new(spec: &DramSpec, path: &str) -> Result<Dram, MachineError> {
        let error = |field: &str, came: String, allowed: &str, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        if !(1..=256).contains(&spec.channels) {
            return error("channels", spec.channels.to_string(), "1 to 256", "give the socket's channel count");
        }
        if !spec.banks.is_power_of_two() || spec.banks > 1024 {
            return error(
                "banks",
                spec.banks.to_string(),
                "a power of two up to 1024",
                "multiply ranks, bank groups and banks",
            );
        }
        // Lines have numbers of 32 bits.
        let row = spec.row.bytes();
        if row < LINE_BYTES || !row.is_multiple_of(LINE_BYTES) || row / LINE_BYTES > u64::from(u32::MAX) {
            let allowed = "a multiple of 64 B below 256 GiB";
            return error("row", spec.row.to_string(), allowed, "DDR4 x8 devices have 8 KiB over 64 bits");
        }
        if spec.t_ras.ps() < spec.t_rcd.ps() {
            return error(
                "t_ras",
                format!("{} with t_rcd = {}", spec.t_ras, spec.t_rcd),
                "t_ras of at least t_rcd",
                "a row must stay open until its column command",
            );
        }
        if spec.t_burst.ps() == Ps::ZERO {
            return error("t_burst", spec.t_burst.to_string(), "more than 0", "8 transfers at the data rate");
        }
        if spec.t_rfc.ps() >= spec.t_refi.ps() {
            return error(
                "t_rfc",
                format!("{} with t_refi = {}", spec.t_rfc, spec.t_refi),
                "less than t_refi",
                "refresh would take all the time",
            );
        }
        spec.energy(path)?;
        let devices = spec.devices();
        let open = spec.all_hits.then_some(0);
        Ok(Dram {
            ranks: devices.map_or(1, |standard| spec.ranks(&standard)),
            timing: ReservedTiming {
                cl: spec.t_cl.ps(),
                rcd: spec.t_rcd.ps(),
                rp: spec.t_rp.ps(),
                ras: spec.t_ras.ps(),
                burst: spec.t_burst.ps(),
                refi: spec.t_refi.ps(),
                rfc: spec.t_rfc.ps(),
                overhead: spec.overhead.ps(),
            },
            page: if spec.all_hits { PagePolicy::Open } else { spec.page },
            row_bits: if spec.all_hits { 0 } else { u32::MAX },
            after_refresh: open,
            interleave: Divisor::new(spec.channels),
            lines_per_row: Divisor::new((row / LINE_BYTES) as u32),
            banks_per_channel: spec.banks,
            bank_bits: spec.banks.trailing_zeros(),
            channels: vec![
                ReservedChannel {
                    latest: Ps::ZERO,
                    bus_free: Ps::ZERO,
                    open: Ps::ZERO,
                    open_until: Ps::ZERO,
                    epoch: 0,
                    quiet: (Ps::ZERO, spec.t_refi.ps()),
                    next_posted: 0,
                };
                spec.channels as usize
            ],
            posted: vec![Ps::ZERO; spec.channels as usize * POSTED],
            accepted: Ps::ZERO,
            banks: vec![ReservedBank { row: open, ..ReservedBank::default() }; (spec.channels * spec.banks) as usize],
            counters: DramCounters::default(),
            untimed: false,
        })
    }

    /// What it has done so far.
    pub fn counters(&self) -> DramCounters {
        let lines = self.counters.reads + self.counters.writes;
        DramCounters { bus_busy: self.timing.burst * lines, ..self.counters }
    }

    /// What it has done up to `now` that takes energy.
    pub fn work(&self, now: Ps) -> EnergyEvents {
        let (c, channels) = (&self.counters, self.channels.len() as u64);
        let open = |channel: &ReservedChannel| channel.open.since(channel.open_until.since(now)).as_ns();
        let burst = self.timing.burst.as_ns();
        EnergyEvents {
            activates: c.row_misses + c.row_conflicts,
            reading: c.reads as f64 * burst,
            writing: c.writes as f64 * burst,
            refreshes: (now.0 / self.timing.refi.0 * channels * u64::from(self.ranks)) as f64,
            open: self.channels.iter().map(open).sum(),
            time: now.as_ns() * channels as f64,
        }
    }

    /// The data buses' peak, in bytes a second.
    pub fn peak_bytes_per_s(&self) -> f64 {
        self.channels.len() as f64 * LINE_BYTES as f64 / self.timing.burst.as_secs()
    }

    /// The latency of a read that meets an idle memory and a closed bank.
    pub fn unloaded_miss(&self) -> Ps {
        let t = &self.timing;
        let opened = if self.row_bits == 0 { Ps::ZERO } else { t.rcd };
        t.overhead + opened + t.cl + t.burst
    }

    /// Serves a line at `now`: when its data have passed, and what for.
    pub fn line(&mut self, line: Line, write: bool, now: Ps) -> Response {
        let mut path = Path::default();
        let at = self.reserve(line, write, now, |reason, time| path.push(reason, time));
        Response { at, served: Served::Dram, path }
    }

    /// As [`Dram::line`], for those who do not ask what for.
    #[inline]
    pub(crate) fn post(&mut self, line: Line, write: bool, now: Ps) -> Ps {
        self.reserve(line, write, now, |_, _| {})
    }

    /// Writes lines, each at its time: when the channels have taken them in, at the latest.
    pub(crate) fn write_all(&mut self, lines: &[(Line, Ps)]) -> Ps {
        let mut accepted = Ps::ZERO;
        for &(line, at) in lines {
            self.reserve(line, true, at, |_, _| {});
            accepted = accepted.max(self.accepted);
        }
        accepted
    }

    /// When the channel of the last write has taken that in; it may long have been so.
    pub(crate) fn accepted(&self) -> Ps {
        self.accepted
    }

    /// Where a line is.
    #[inline(always)]
    fn place(&self, line: Line) -> BankLocation {
        let (within, channel) = self.interleave.divide(line.0 as u32);
        let row_and_bank = self.lines_per_row.divide(within).0;
        let row = row_and_bank >> self.bank_bits;
        let bank = (row_and_bank ^ row) & (self.banks_per_channel - 1);
        let bank = (channel << self.bank_bits | bank) as usize;
        BankLocation { channel: channel as usize, bank, row: row & self.row_bits }
    }

    /// Serves a line and hands each part of its time to `part`, in order.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, line: Line, write: bool, now: Ps, mut part: impl FnMut(Reason, Ps)) -> Ps {
        if self.untimed {
            self.accepted = Ps::ZERO;
            return self.touch(line, write, now);
        }
        let BankLocation { channel: number, bank, row } = self.place(line);
        let (channel, bank) = (&mut self.channels[number], &mut self.banks[bank]);
        let t = &self.timing;
        // A request out of turn waits as if it came with the latest: those made before it are served before it,
        // but not at a later time.
        channel.latest = later(channel.latest, now);
        let out_of_turn = channel.latest - now;
        let arrived = channel.latest + t.overhead;
        let mut at = later(arrived, bank.ready);
        let busy = at - arrived;
        // Refresh stops commands, so what counts is when the column command of a row hit could go:
        // not before the bus has room for its data.
        let column = later(at, channel.bus_free.since(t.cl));
        let mut refresh = Ps::ZERO;
        if column < channel.quiet.0 || column >= channel.quiet.1 {
            channel.look_at(column, t);
            if column < channel.quiet.0 {
                refresh = channel.quiet.0 - at;
                at = channel.quiet.0;
            }
        }
        let epoch = channel.epoch;
        if bank.epoch != epoch {
            bank.epoch = epoch;
            bank.row = self.after_refresh;
        }
        let (reason, command) = match bank.row {
            Some(open) => {
                let hit = open == row;
                let activate = later(at, bank.precharge_from) + t.rp;
                bank.precharge_from = select_unpredictable(hit, bank.precharge_from, activate + t.ras);
                self.counters.row_hits += u64::from(hit);
                self.counters.row_conflicts += u64::from(!hit);
                select_unpredictable(hit, (Reason::RowHit, at), (Reason::RowConflict, activate + t.rcd))
            }
            None => {
                self.counters.row_misses += 1;
                // A row that was closed behind its line may still be closing.
                let activate = match self.page {
                    PagePolicy::Open => at,
                    PagePolicy::Closed => at.max(bank.precharge_from + t.rp),
                };
                bank.precharge_from = activate + t.ras;
                // With open pages some row stays open up to the next refresh.
                let shut = match self.page {
                    PagePolicy::Open => channel.quiet.1,
                    PagePolicy::Closed => activate + t.ras,
                };
                channel.open += shut.since(activate.max(channel.open_until));
                channel.open_until = channel.open_until.max(shut);
                (Reason::RowMiss, activate + t.rcd)
            }
        };
        bank.row = match self.page {
            PagePolicy::Open => Some(row),
            PagePolicy::Closed => None,
        };
        let data = command + t.cl;
        let start = later(data, channel.bus_free);
        // The column command goes out when the bus will be free for its data.
        bank.ready = start.since(t.cl) + t.burst;
        channel.bus_free = start + t.burst;
        if write {
            let oldest = &mut self.posted[number * POSTED + channel.next_posted];
            self.accepted = oldest.since(out_of_turn);
            *oldest = channel.bus_free;
            channel.next_posted = (channel.next_posted + 1) % POSTED;
        }
        *(if write { &mut self.counters.writes } else { &mut self.counters.reads }) += 1;
        part(Reason::DramPath, t.overhead);
        part(Reason::Refresh, refresh);
        part(Reason::BankBusy, busy);
        part(Reason::Bus, start - data);
        part(reason, data - at + t.burst);
        channel.bus_free - out_of_turn
    }
}

impl Dram {
    /// Whether lines are served at once from now on: rows are opened and counted as by [`Dram::line`], and nothing waits or
    /// takes up a bank or a bus. Time goes on, since refreshes close rows.
    pub fn set_untimed(&mut self, untimed: bool) {
        self.untimed = untimed;
    }

    /// A line is used at `now`: when its data have passed if nothing is in the way.
    #[inline(never)]
    fn touch(&mut self, line: Line, write: bool, now: Ps) -> Ps {
        let BankLocation { channel, bank, row } = self.place(line);
        let (channel, bank) = (&mut self.channels[channel], &mut self.banks[bank]);
        // Who comes late finds what the refresh has left.
        if now >= channel.quiet.1 {
            channel.look_at(now, &self.timing);
        }
        if bank.epoch != channel.epoch {
            bank.epoch = channel.epoch;
            bank.row = self.after_refresh;
        }
        let counters = &mut self.counters;
        *match bank.row {
            Some(open) if open == row => &mut counters.row_hits,
            Some(_) => &mut counters.row_conflicts,
            None => &mut counters.row_misses,
        } += 1;
        bank.row = match self.page {
            PagePolicy::Open => Some(row),
            PagePolicy::Closed => None,
        };
        *(if write { &mut counters.writes } else { &mut counters.reads }) += 1;
        now + self.timing.overhead + self.timing.cl + self.timing.burst
    }

    /// Serves the line of `request`, made at `now`, which never decreases from call to call.
    pub fn access(&mut self, request: &Request, now: Ps) -> Response {
        self.line(request.addr.line(), request.access.writes(), now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec() -> DramSpec {
        let ns = Span::from_ns;
        DramSpec {
            standard: None,
            currents: None,
            page: PagePolicy::Open,
            channels: 1,
            banks: 16,
            row: Size::from_bytes(8192),
            t_cl: ns(14.0),
            t_rcd: ns(14.0),
            t_rp: ns(14.0),
            t_ras: ns(32.0),
            t_burst: ns(3.0),
            t_refi: ns(7800.0),
            t_rfc: ns(350.0),
            overhead: ns(20.0),
            all_hits: false,
            controller: None,
        }
    }

    fn latency(dram: &mut Dram, line: u64, at: u64) -> (u64, Reason) {
        let now = Ps::from_ns(at);
        let r = dram.line(Line(line), false, now);
        assert_eq!(r.path.total(), r.at - now);
        (((r.at - now).0) / 1000, r.path.iter().last().unwrap().0)
    }

    #[test]
    fn hit_miss_and_conflict_take_their_closed_forms() {
        let mut dram = Dram::new(&spec(), "dram").unwrap();
        assert_eq!(dram.unloaded_miss(), Ps::from_ns(51));
        assert_eq!(latency(&mut dram, 0, 0), (51, Reason::RowMiss));
        assert_eq!(latency(&mut dram, 1, 200), (37, Reason::RowHit));
        // Row 1 of the same bank: bank index 1 ^ row 1 = 0.
        let same_bank = 16 * 128 + 128;
        assert_eq!(latency(&mut dram, same_bank, 400), (65, Reason::RowConflict));
        let c = dram.counters();
        assert_eq!((c.row_hits, c.row_misses, c.row_conflicts, c.reads), (1, 1, 1, 3));
    }

    #[test]
    fn a_row_may_not_close_before_t_ras() {
        let mut dram = Dram::new(&spec(), "dram").unwrap();
        latency(&mut dram, 0, 0);
        // Activated at 20, so closed at 52 at the earliest although the bank is ready at 37.
        let conflict = dram.line(Line(16 * 128 + 128), false, Ps::from_ns(18));
        assert_eq!(conflict.at, Ps::from_ns(52 + 14 + 14 + 14 + 3));
    }

    #[test]
    fn closed_pages_pay_for_a_row_each_time_and_wait_for_the_last_to_close() {
        let mut dram = Dram::new(&DramSpec { page: PagePolicy::Closed, ..spec() }, "dram").unwrap();
        assert_eq!(latency(&mut dram, 0, 0), (51, Reason::RowMiss));
        // Activated at 20, closing from 52, closed at 66: a line that comes at 30 is activated then.
        assert_eq!(latency(&mut dram, 1, 30), (66 + 14 + 14 + 3 - 30, Reason::RowMiss));
        assert_eq!(latency(&mut dram, 2, 400), (51, Reason::RowMiss));
    }

    #[test]
    fn every_standard_has_its_peak_and_its_unloaded_latency() {
        for name in presets::NAMES {
            let standard = presets::preset(name).unwrap();
            let spec = DramSpec::of_standard(name, Span::from_ns(30.0)).unwrap();
            let mut dram = Dram::new(&spec, "dram").unwrap();
            let (bl, mhz) = (f64::from(standard.timing("BL").unwrap()), f64::from(standard.clock_mhz));
            let peak = f64::from(standard.access_bytes) * mhz * 1e6 / bl * f64::from(standard.channels);
            assert!((dram.peak_bytes_per_s() / peak - 1.0).abs() < 1e-3, "{name}");
            let clocks = standard.timing("RCD").unwrap() + standard.timing("CL").unwrap();
            let lines = f64::from(64u32.div_ceil(standard.access_bytes));
            let ns = (f64::from(clocks) + bl * lines) * 1e3 / mhz + 30.0;
            assert!((dram.line(Line(0), false, Ps::ZERO).at.as_ns() - ns).abs() < 0.01, "{name}");
        }
    }

    #[test]
    fn refresh_blocks_and_closes_rows() {
        let mut dram = Dram::new(&spec(), "dram").unwrap();
        latency(&mut dram, 0, 0);
        let (during, reason) = latency(&mut dram, 0, 7800);
        assert_eq!((during, reason), (350 + 31, Reason::RowMiss));
    }

    /// What [`Dram::post`] does in one channel, each time from the refresh interval of the column command on.
    #[derive(Default)]
    struct Naive {
        latest: u64,
        bus: u64,
        banks: [NaiveBank; 16],
        /// When each write has passed.
        written: Vec<u64>,
        counters: DramCounters,
    }

    #[derive(Clone, Copy, Default)]
    struct NaiveBank {
        ready: u64,
        precharge: u64,
        row: Option<u64>,
        epoch: u64,
    }

    impl Naive {
        fn post(&mut self, spec: &DramSpec, line: u64, write: bool, now: u64) -> u64 {
            let ps = |span: Span| span.ps().0;
            let (row, rows) = (line / 128 / 16, line / 128);
            let bank = &mut self.banks[((rows ^ row) % 16) as usize];
            self.latest = self.latest.max(now);
            let mut at = (self.latest + ps(spec.overhead)).max(bank.ready);
            let column = at.max(self.bus.saturating_sub(ps(spec.t_cl)));
            let (epoch, into) = (column / ps(spec.t_refi), column % ps(spec.t_refi));
            if epoch > 0 && into < ps(spec.t_rfc) {
                at = column - into + ps(spec.t_rfc);
            }
            if bank.epoch != epoch {
                (bank.epoch, bank.row) = (epoch, None);
            }
            let closed = spec.page == PagePolicy::Closed;
            let command = if bank.row == Some(row) {
                self.counters.row_hits += 1;
                at
            } else {
                let activate = match bank.row {
                    Some(_) => at.max(bank.precharge) + ps(spec.t_rp),
                    None if closed => at.max(bank.precharge + ps(spec.t_rp)),
                    None => at,
                };
                *(if bank.row.is_some() { &mut self.counters.row_conflicts } else { &mut self.counters.row_misses }) +=
                    1;
                bank.precharge = activate + ps(spec.t_ras);
                activate + ps(spec.t_rcd)
            };
            bank.row = (!closed).then_some(row);
            let start = (command + ps(spec.t_cl)).max(self.bus);
            bank.ready = start.saturating_sub(ps(spec.t_cl)) + ps(spec.t_burst);
            self.bus = start + ps(spec.t_burst);
            self.counters.bus_busy += spec.t_burst.ps();
            self.written.extend(write.then_some(self.bus));
            *(if write { &mut self.counters.writes } else { &mut self.counters.reads }) += 1;
            self.bus - (self.latest - now)
        }

        /// When the last write, which came at `now`, has fewer than 64 before it.
        fn accepted(&self, now: u64) -> u64 {
            let before = self.written.len().checked_sub(65).map_or(0, |i| self.written[i]);
            before.saturating_sub(self.latest - now)
        }
    }

    proptest! {
        /// Lines that come, also out of turn, around refreshes that are often and long, or take no time.
        #[test]
        fn dram_matches_naive(
            lines in prop::collection::vec((0u64..1 << 15, any::<bool>(), -400i64..900), 1..300),
            (refi, rfc, closed) in (60u64..2000, 0.0f64..1.0, any::<bool>()),
        ) {
            let page = if closed { PagePolicy::Closed } else { PagePolicy::Open };
            let t_rfc = Span::from_ns((refi as f64 * rfc).floor());
            let spec = DramSpec { t_refi: Span::from_ns(refi as f64), t_rfc, page, ..spec() };
            let (mut dram, mut naive, mut now) = (Dram::new(&spec, "dram").unwrap(), Naive::default(), 0i64);
            for (line, write, later) in lines {
                now = (now + later).max(0);
                let at = Ps::from_ns(now as u64);
                prop_assert_eq!(dram.post(Line(line), write, at).0, naive.post(&spec, line, write, at.0));
                if write {
                    prop_assert_eq!(dram.accepted().0, naive.accepted(at.0));
                }
                prop_assert_eq!(dram.counters(), naive.counters);
            }
        }
    }

    #[test]
    fn a_stream_saturates_the_data_bus() {
        let mut dram = Dram::new(&spec(), "dram").unwrap();
        let n = 100_000;
        let end = (0..n).map(|i| dram.line(Line(i), false, Ps::ZERO).at).max().unwrap();
        // Row misses of other banks hide behind transfers; refresh does not, nor does the reopening after it.
        let share = Ps(n * 3000).as_secs() / end.as_secs();
        assert!((0.93..0.96).contains(&share), "{share}");
    }

    #[test]
    fn contradictions_are_named() {
        let bad = |change: fn(&mut DramSpec)| {
            let mut s = spec();
            change(&mut s);
            Dram::new(&s, "machine.dram").unwrap_err().to_string()
        };
        assert_eq!(
            bad(|s| s.t_ras = Span::from_ns(10.0)),
            "machine.dram.t_ras = 10 ns with t_rcd = 14 ns: allowed is t_ras of at least t_rcd \
             (a row must stay open until its column command)"
        );
        assert!(bad(|s| s.banks = 12).starts_with("machine.dram.banks = 12: allowed is a power of two"));
        assert!(bad(|s| s.channels = 0).starts_with("machine.dram.channels = 0"));
        let row = "machine.dram.row = 256 GiB: allowed is a multiple of 64 B below 256 GiB";
        assert!(bad(|s| s.row = Size::from_bytes(1 << 38)).starts_with(row));
        let widest = DramSpec { row: Size::from_bytes((1 << 38) - 64), ..spec() };
        assert!(Dram::new(&widest, "machine.dram").is_ok());
    }
}
