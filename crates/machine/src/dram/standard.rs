//! What a DRAM standard says, as data: organisation, commands, timings, constraint rows, currents.
//!
//! A row reads "`next` may not come earlier than `clocks` after `prev` where both meet at `level`";
//! `clocks` is a sum of timing names and numbers (`CWL + BL + WR`). The engine compiles the rows,
//! the checker and the clock-by-clock reference read them as they stand, so a standard is changed
//! in one place.
//!
//! Left out: auto-precharge (a precharge takes its own command), posted CAS, power-down and
//! self-refresh, fine-granularity refresh of all banks, half-clock commands of HBM3, and what LPDDR5
//! sends between commands that are modelled (DEVIATIONS.md).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::MachineError;

/// What goes over the command bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DramCommand {
    /// Open a row.
    Act,
    /// Close a bank's row.
    Pre,
    /// Column read.
    Rd,
    /// Column write.
    Wr,
    /// Close all rows of a rank.
    PreAll,
    /// Refresh all banks of a rank.
    Ref,
    /// Refresh one bank.
    RefBank,
    /// Close the bank of one index in every bank group of a rank (PREsb of DDR5).
    PreSame,
    /// Refresh the bank of one index in every bank group of a rank (REFsb of DDR5).
    RefSame,
}

impl DramCommand {
    /// All commands.
    pub const ALL: [DramCommand; 9] = [
        DramCommand::Act,
        DramCommand::Pre,
        DramCommand::Rd,
        DramCommand::Wr,
        DramCommand::PreAll,
        DramCommand::Ref,
        DramCommand::RefBank,
        DramCommand::PreSame,
        DramCommand::RefSame,
    ];

    /// Whether it moves data.
    #[inline]
    pub fn is_column(self) -> bool {
        matches!(self, DramCommand::Rd | DramCommand::Wr)
    }

    /// Whether it addresses a whole rank.
    #[inline]
    pub fn is_rank_wide(self) -> bool {
        matches!(self, DramCommand::PreAll | DramCommand::Ref)
    }

    /// Whether it addresses the bank of one index in every bank group of a rank.
    #[inline]
    pub fn is_same_bank(self) -> bool {
        matches!(self, DramCommand::PreSame | DramCommand::RefSame)
    }

    /// The command by whose name rows call it: closing several banks is a precharge of each.
    #[inline]
    pub fn in_rows(self) -> DramCommand {
        if matches!(self, DramCommand::PreAll | DramCommand::PreSame) { DramCommand::Pre } else { self }
    }
}

/// Where two commands have to meet for a row to hold between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimingScope {
    /// Same bank.
    Bank,
    /// Same bank group.
    Group,
    /// Same rank.
    Rank,
    /// Same channel, different ranks.
    OtherRank,
}

/// A minimum distance between commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Any of these, then ...
    pub prev: Vec<DramCommand>,
    /// ... any of these, ...
    pub next: Vec<DramCommand>,
    /// ... that meet here, ...
    pub level: TimingScope,
    /// ... are this many clocks apart: names of timings and numbers, with `+` and `-` between them.
    pub clocks: String,
    /// Counts from the latest `prev` (1) or from the `window`th latest (4 for tFAW).
    #[serde(default = "one")]
    pub window: usize,
}

fn one() -> usize {
    1
}

/// Supply voltage and currents of a device, for energy per command.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Currents {
    /// Devices that work together on a command.
    pub devices: u32,
    /// Volts.
    pub vdd: f64,
    /// Activate and precharge in turn, one bank; all currents are in mA.
    pub idd0: f64,
    /// All banks closed, standby.
    pub idd2n: f64,
    /// A row open, standby.
    pub idd3n: f64,
    /// Burst read.
    pub idd4r: f64,
    /// Burst write.
    pub idd4w: f64,
    /// Refresh.
    pub idd5: f64,
}

/// A DRAM standard with its timings: everything the controller has to know of the devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Standard {
    /// Name of the preset.
    pub name: String,
    /// Where the numbers come from.
    pub source: String,
    /// Clock of the command bus; all timings count its periods.
    pub clock_mhz: u32,
    /// Transfers of a data pin in a clock: 2 of double data rate, 8 where the data clock is four times as fast.
    #[serde(default = "two", skip_serializing_if = "is_two")]
    pub transfers: u32,
    /// Independent channels (pseudo-channels, vaults).
    pub channels: u32,
    /// Ranks of a channel.
    pub ranks: u32,
    /// Bank groups of a rank; 1 where the standard has none.
    pub groups: u32,
    /// Banks of a group.
    pub banks: u32,
    /// Rows of a bank.
    pub rows: u32,
    /// Bytes of a row over the channel's width.
    pub row_bytes: u32,
    /// Bytes of one column command.
    pub access_bytes: u32,
    /// Row and column commands have a bus each (HBM).
    pub split_command_bus: bool,
    /// When rows are closed where nobody says so.
    #[serde(default = "open", skip_serializing_if = "is_open")]
    pub page: Page,
    /// How rows are refreshed where nobody says so, with controllers on their own.
    #[serde(default = "all_bank", skip_serializing_if = "is_all_bank")]
    pub refresh: Refresh,
    /// Clocks on the command bus, by command; 1 where not named.
    #[serde(default)]
    pub command_clocks: BTreeMap<DramCommand, u32>,
    /// In clocks, by JEDEC's names without the `t`.
    pub timings: BTreeMap<String, u32>,
    /// The constraints.
    pub constraints: Vec<Row>,
    /// Of one device, where they are known.
    #[serde(default)]
    pub currents: Option<Currents>,
}

fn open() -> Page {
    Page::Open
}

fn is_open(page: &Page) -> bool {
    *page == Page::Open
}

fn two() -> u32 {
    2
}

fn is_two(transfers: &u32) -> bool {
    *transfers == 2
}

fn all_bank() -> Refresh {
    Refresh::AllBank
}

fn is_all_bank(refresh: &Refresh) -> bool {
    *refresh == Refresh::AllBank
}

/// Timings that every standard has: the engine and the closed forms use them by name.
const REQUIRED: [&str; 9] = ["BL", "CL", "CWL", "RCD", "RP", "RAS", "RC", "REFI", "RFC"];

impl Standard {
    /// A timing by JEDEC's name without the `t`.
    ///
    /// # Errors
    /// It is not in [`Standard::timings`].
    pub fn timing(&self, name: &str) -> Result<u32, MachineError> {
        self.timings.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = self.timings.keys().map(String::as_str).collect();
            self.error("timings", format!("no {name}"), &known.join(", "), format!("add {name} in clocks"))
        })
    }

    /// What a row's text comes to.
    ///
    /// # Errors
    /// An unknown name, something that is neither name nor number, a negative sum.
    pub fn clocks(&self, row: &Row) -> Result<u32, MachineError> {
        let (mut sum, mut sign) = (0i64, 1i64);
        for word in row.clocks.split_whitespace() {
            match word {
                "+" => sign = 1,
                "-" => sign = -1,
                _ => {
                    let value = match word.parse::<u32>() {
                        Ok(number) => number,
                        Err(_) => self.timing(word)?,
                    };
                    sum += sign * i64::from(value);
                }
            }
        }
        u32::try_from(sum).map_err(|_| {
            self.error(
                "constraints",
                format!("{:?} to {:?}: {} = {sum}", row.prev, row.next, row.clocks),
                "sums of 0 or more",
                "a distance cannot be negative: check the timings it names".into(),
            )
        })
    }

    /// Banks of a channel, over ranks and groups.
    pub fn banks_per_channel(&self) -> u32 {
        self.ranks * self.groups * self.banks
    }

    /// Bytes of the whole device.
    pub fn capacity(&self) -> u64 {
        u64::from(self.channels)
            * u64::from(self.banks_per_channel())
            * u64::from(self.rows)
            * u64::from(self.row_bytes)
    }

    /// Clocks a command takes on its bus.
    pub fn bus_clocks(&self, command: DramCommand) -> u32 {
        self.command_clocks.get(&command).copied().unwrap_or(1)
    }

    /// Clocks between two column reads of the same bank.
    pub fn column_gap(&self) -> u32 {
        let name = if self.timings.contains_key("CCD_L") { "CCD_L" } else { "CCD_S" };
        self.timings.get(name).copied().unwrap_or(0)
    }

    /// The data buses' peak over all channels, in bytes a second: `access_bytes / (tBL tCK)`.
    pub fn peak_bytes_per_s(&self) -> f64 {
        f64::from(self.channels) * f64::from(self.access_bytes) * f64::from(self.clock_mhz) * 1e6
            / f64::from(self.timings.get("BL").copied().unwrap_or(1).max(1))
    }

    /// Column commands that a request of `bytes` takes.
    pub fn bursts(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.access_bytes).max(1)
    }

    /// A read that meets an idle channel and a closed bank, in clocks from the activate to the end
    /// of `bursts` bursts: `tRCD + (bursts - 1) tCCD_L + tCL + tBL`.
    pub fn unloaded_read(&self, bursts: u32) -> u32 {
        let t = |name| self.timings.get(name).copied().unwrap_or(0);
        t("RCD") + (bursts - 1) * self.column_gap() + t("CL") + t("BL")
    }

    /// Whether numbers agree with each other.
    ///
    /// # Errors
    /// Counts that are no powers of two, timings that are missing or contradict each other, rows
    /// that name unknown timings.
    pub fn check(&self) -> Result<(), MachineError> {
        self.check_organisation()?;
        self.check_timings()?;
        self.check_pairs()?;
        if let Some(currents) = &self.currents {
            self.check_currents(currents)?;
        }
        self.check_constraints()?;
        self.check_refresh(DramCommand::Ref, self.timings.get("REFI").copied().unwrap_or(0))
    }

    fn check_organisation(&self) -> Result<(), MachineError> {
        let counts = [
            ("transfers", self.transfers, 16),
            ("channels", self.channels, 64),
            ("ranks", self.ranks, 8),
            ("groups", self.groups, 16),
            ("banks", self.banks, 64),
            ("rows", self.rows, 1 << 24),
            ("row_bytes", self.row_bytes, 1 << 20),
            ("access_bytes", self.access_bytes, 1 << 10),
        ];
        for (field, count, most) in counts {
            if !count.is_power_of_two() || count > most {
                return Err(self.error(
                    field,
                    count.to_string(),
                    &format!("a power of two up to {most}"),
                    "address bits select it".into(),
                ));
            }
        }
        if self.banks_per_channel() > 64 {
            return Err(self.error(
                "banks",
                format!(
                    "{} ranks x {} groups x {} banks = {}",
                    self.ranks,
                    self.groups,
                    self.banks,
                    self.banks_per_channel()
                ),
                "at most 64 banks of a channel",
                "use more channels or fewer ranks".into(),
            ));
        }
        if self.ranks * self.groups > 16 {
            return Err(self.error(
                "groups",
                format!("{} ranks x {} groups = {}", self.ranks, self.groups, self.ranks * self.groups),
                "at most 16 bank groups of a channel",
                "use more channels or fewer ranks".into(),
            ));
        }
        if self.row_bytes < self.access_bytes {
            return Err(self.error(
                "row_bytes",
                format!("{} with access_bytes = {}", self.row_bytes, self.access_bytes),
                "at least access_bytes",
                "a column command stays in its row".into(),
            ));
        }
        if !(1..=100_000).contains(&self.clock_mhz) {
            return Err(self.error(
                "clock_mhz",
                self.clock_mhz.to_string(),
                "1 to 100000",
                "the command clock: half the data rate of DDR".into(),
            ));
        }
        Ok(())
    }

    /// Timings that are missing, 0, or beyond any.
    fn check_timings(&self) -> Result<(), MachineError> {
        for name in REQUIRED {
            if self.timing(name)? == 0 && name != "CWL" {
                return Err(self.error(
                    &format!("timings.{name}"),
                    "0".into(),
                    "1 clock or more",
                    "look it up in the data sheet".into(),
                ));
            }
        }
        if let Some((name, value)) = self.timings.iter().find(|&(_, &value)| value > 1 << 20) {
            return Err(self.error(
                &format!("timings.{name}"),
                value.to_string(),
                "at most 1048576 clocks",
                "timings are in clocks, not in picoseconds".into(),
            ));
        }
        Ok(())
    }

    /// Timings that contradict each other.
    fn check_pairs(&self) -> Result<(), MachineError> {
        // Each pair: the first may not be less than the second.
        let pairs = [
            ("RAS", "RCD", "a row stays open until its column command"),
            ("RC", "RAS", "a bank's cycle holds its open time"),
            ("CCD_L", "CCD_S", "one bank group is not faster than two"),
            ("CCD_S", "BL", "bursts may not overlap on the data bus"),
            ("RRD_L", "RRD_S", "one bank group is not faster than two"),
            ("FAW", "RRD_S", "four activates take no less than two"),
            ("WTR_L", "WTR_S", "one bank group is not faster than two"),
            ("REFI", "RFC", "refresh would take all the time"),
            ("REFI2", "RFC_SB", "refresh would take all the time"),
        ];
        for (more, less, why) in pairs {
            if let (Some(&a), Some(&b)) = (self.timings.get(more), self.timings.get(less))
                && (a < b || (less.starts_with("RFC") && a == b))
            {
                return Err(self.error(
                    &format!("timings.{more}"),
                    format!("{a} with {less} = {b}"),
                    &format!("{more} of at least {less}"),
                    why.into(),
                ));
            }
        }
        Ok(())
    }

    fn check_constraints(&self) -> Result<(), MachineError> {
        for row in &self.constraints {
            self.clocks(row)?;
            if !(1..=8).contains(&row.window) {
                return Err(self.error(
                    "constraints",
                    format!("{:?} to {:?}: window {}", row.prev, row.next, row.window),
                    "windows of 1 to 8",
                    "1 counts from the latest command".into(),
                ));
            }
            if row.window > 1
                && (row.level != TimingScope::Rank || row.prev != [DramCommand::Act] || row.next != [DramCommand::Act])
            {
                return Err(self.error(
                    "constraints",
                    format!("{:?} to {:?} at {:?}: window {}", row.prev, row.next, row.level, row.window),
                    "windows over activates of a rank",
                    "tFAW is the one window that standards have".into(),
                ));
            }
        }
        Ok(())
    }

    /// The most clocks that rows at these levels put between one of `prev` and one of `next`, windows apart.
    fn most_between(
        &self,
        levels: &[TimingScope],
        prev: &[DramCommand],
        next: &[DramCommand],
    ) -> Result<u32, MachineError> {
        let mut most = 0;
        for row in &self.constraints {
            if levels.contains(&row.level)
                && row.window == 1
                && row.prev.iter().any(|c| prev.contains(c))
                && row.next.iter().any(|c| next.contains(c))
            {
                most = most.max(self.clocks(row)?);
            }
        }
        Ok(most)
    }

    /// Whether a bank that is refreshed by `refresh` every `interval` clocks serves something in between: else requests
    /// would wait for ever.
    ///
    /// # Errors
    /// It does not, with the clocks that it takes.
    pub(super) fn check_refresh(&self, refresh: DramCommand, interval: u32) -> Result<(), MachineError> {
        const WITHIN: [TimingScope; 3] = [TimingScope::Bank, TimingScope::Group, TimingScope::Rank];
        let names = RefreshTimings::of(refresh, self);
        let longest = |prev: &[DramCommand], next: &[DramCommand]| self.most_between(&WITHIN, prev, next);
        let most_bus = DramCommand::ALL.iter().map(|&c| self.bus_clocks(c)).max().unwrap_or(1);
        if names.turns > 1 {
            self.check_turns(refresh, &names, interval, most_bus)?;
        }
        let close = longest(&[DramCommand::Act, DramCommand::Rd, DramCommand::Wr], &[DramCommand::Pre])?;
        let precharge = longest(&[DramCommand::Pre], &[refresh])?;
        let refreshed = longest(&[refresh], &[DramCommand::Act])?;
        let open = longest(&[DramCommand::Act], &[DramCommand::Rd, DramCommand::Wr])?;
        // Each of the four commands may find the bus taken by another one.
        let bus = 4 * most_bus;
        let least = [close, precharge, refreshed, open, bus].into_iter().map(u64::from).sum::<u64>();
        if u64::from(interval) >= least {
            return Ok(());
        }
        let refi = u32::try_from(least).unwrap_or(u32::MAX).next_multiple_of(names.turns);
        let every = names.every;
        Err(self.error(
            &format!("timings.{every}"),
            self.came(every, names.takes),
            &format!(
                "{every} of at least {refi}: {close} until a row may be closed, {precharge} to close it, {refreshed} to \
                 refresh, {open} to open a row, and {bus} for the commands"
            ),
            "between two refreshes a bank has to serve a request".into(),
        ))
    }

    /// Whether banks that are refreshed in turns let the others work: between two refreshes another bank has to open a
    /// row, and a refresh has to have ended before the next one of those that go one by one falls due.
    fn check_turns(
        &self,
        refresh: DramCommand,
        names: &RefreshTimings,
        interval: u32,
        most_bus: u32,
    ) -> Result<(), MachineError> {
        let others = [TimingScope::Group, TimingScope::Rank];
        let after = self.most_between(&others, &[refresh], &[DramCommand::Act])?;
        let before = self.most_between(&others, &[DramCommand::Act], &[refresh])?;
        let again = match refresh {
            DramCommand::RefSame => self.most_between(&others, &[refresh], &[refresh])?,
            _ => 0,
        };
        let slot = (after + before).max(again) + 2 * most_bus;
        if interval / names.turns >= slot {
            return Ok(());
        }
        let (every, turns, of) = (names.every, names.turns, names.of);
        let needs = if again > after + before {
            format!("{again} from a refresh to the next one")
        } else {
            format!("{after} from a refresh to a row of another bank, {before} to the next refresh")
        };
        Err(self.error(
            &format!("timings.{every}"),
            self.came(every, if again > after + before { names.takes } else { names.others }),
            &format!(
                "{every} of at least {}: {needs}, and {} for the commands, for each of {turns} {of}",
                u64::from(slot) * u64::from(turns),
                2 * most_bus,
            ),
            "between two refreshes another bank has to open a row".into(),
        ))
    }

    /// A timing beside another one, for errors.
    fn came(&self, name: &str, with: &str) -> String {
        let clocks = |name: &str| self.timings.get(name).copied().unwrap_or(0);
        format!("{} with {with} = {}", clocks(name), clocks(with))
    }

    /// # Errors
    /// Numbers that no data sheet has, or that come to energies below zero.
    fn check_currents(&self, c: &Currents) -> Result<(), MachineError> {
        if !(1..=64).contains(&c.devices) {
            return Err(self.error(
                "currents.devices",
                c.devices.to_string(),
                "1 to 64",
                "as many as share a command: 8 of x8 on 64 bits".into(),
            ));
        }
        let all = [
            ("vdd", c.vdd, 10.0),
            ("idd0", c.idd0, 1e5),
            ("idd2n", c.idd2n, 1e5),
            ("idd3n", c.idd3n, 1e5),
            ("idd4r", c.idd4r, 1e5),
            ("idd4w", c.idd4w, 1e5),
            ("idd5", c.idd5, 1e5),
        ];
        for (name, value, most) in all {
            if !(value > 0.0 && value <= most) {
                let unit = if name == "vdd" { "volts" } else { "mA" };
                return Err(self.error(
                    &format!("currents.{name}"),
                    value.to_string(),
                    &format!("above 0, up to {most} {unit}"),
                    "look it up in the data sheet".into(),
                ));
            }
        }
        // A command's energy is what it takes above standby, which may not be less than nothing.
        let t = |name: &str| f64::from(self.timings.get(name).copied().unwrap_or(0));
        let standby = (c.idd3n * t("RAS") + c.idd2n * (t("RC") - t("RAS"))) / t("RC").max(1.0);
        let pairs = [
            ("idd0", c.idd0, "standby over a row cycle", standby),
            ("idd4r", c.idd4r, "idd3n", c.idd3n),
            ("idd4w", c.idd4w, "idd3n", c.idd3n),
            ("idd5", c.idd5, "idd3n", c.idd3n),
        ];
        for (name, value, below, least) in pairs {
            if value < least {
                return Err(self.error(
                    &format!("currents.{name}"),
                    format!("{value} with {below} = {least:.1}"),
                    &format!("{name} of at least {below}"),
                    "a command takes no less than standby does".into(),
                ));
            }
        }
        Ok(())
    }

    fn error(&self, field: &str, came: String, allowed: &str, remedy: String) -> MachineError {
        MachineError::new(format!("dram.{}.{field}", self.name), came, allowed, remedy)
    }
}

/// By which names a standard says how often and how long it is refreshed.
struct RefreshTimings {
    /// The time between two refreshes of a bank.
    every: &'static str,
    /// How long one takes.
    takes: &'static str,
    /// After which other banks may open a row.
    others: &'static str,
    /// Refreshes that make up one of every bank, and what each is of.
    turns: u32,
    of: &'static str,
}

impl RefreshTimings {
    fn of(refresh: DramCommand, standard: &Standard) -> RefreshTimings {
        let names = |every, takes, others, turns, of| RefreshTimings { every, takes, others, turns, of };
        match refresh {
            DramCommand::RefBank => names("REFI", "RFC_B", "RREFD", standard.banks_per_channel(), "banks"),
            DramCommand::RefSame => names("REFI2", "RFC_SB", "REFSBRD", standard.banks, "banks of a group"),
            _ => names("REFI", "RFC", "RFC", 1, "ranks"),
        }
    }
}

/// When rows are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Page {
    /// When another row of the bank is wanted: lazy precharge.
    Open,
    /// When no waiting request wants it: eager precharge.
    Closed,
    /// When no waiting request has wanted it for a while. The while of a bank doubles when the row
    /// that was closed is the next one wanted, and halves when another one is; between 16 and 4096
    /// clocks (assumed).
    Adaptive {
        /// The first while, in clocks.
        timeout: u32,
    },
}

impl Page {
    pub(super) const LEAST_TIMEOUT: u32 = 16;
    pub(super) const GREATEST_TIMEOUT: u32 = 4096;

    pub(super) fn timeout(self) -> u32 {
        if let Page::Adaptive { timeout } = self { timeout } else { 0 }
    }
}

/// How rows are refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Refresh {
    /// Not at all.
    Off,
    /// A rank at a time, every tREFI; ranks take turns. As soon as it is due nothing else goes to the
    /// rank.
    AllBank,
    /// A bank at a time, every tREFI over the number of banks, round robin, while others work.
    PerBank,
    /// The bank of one index in every bank group of a rank at a time, every tREFI2 over the banks of a group, while those
    /// of other indices work; ranks take turns. For DDR5, whose fine granularity refreshes a bank every tREFI2.
    SameBank,
}
