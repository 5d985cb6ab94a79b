//! What the standard says, compiled: the least distances between commands, by where they meet, and who meets where.
//!
//! Distances between two commands of requests are raised into clocks as the first goes out ([`super::clocks`]). Those
//! before and after a refresh are rules, looked at only around refreshes ([`super::refresh`]).

use super::{BANKS, KINDS, RD, WR};
use crate::MachineError;
use crate::dram::standard::{DramCommand, Standard, TimingScope};
use serde::{Deserialize, Serialize};

/// A rule between kinds of commands that is looked at only around refreshes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct RefreshRule {
    pub prev: DramCommand,
    pub next: DramCommand,
    pub level: TimingScope,
    pub clocks: u32,
}

/// Distances that reach beyond a bank: `(next, offset of the first bank group's lanes)`.
type WideDistances = Vec<(usize, usize)>;

/// Distances to each bank group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct GroupDistances<const G: usize>(#[serde(with = "units::arrays")] pub [u32; G]);

/// A standard's distances. `G` is the number of bank groups over all ranks, or a little more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TimingTable<const G: usize> {
    /// Between commands to one bank, by kinds: the first, then the second.
    pub same_bank: [[u32; 4]; 4],
    /// By kind of command.
    pub wide: [WideDistances; 4],
    /// What [`TimingTable::wide`] points to: distances to each bank group.
    pub lanes: Vec<GroupDistances<G>>,
    /// From an activate to the fourth one after it.
    pub faw: u32,
    pub rules: Vec<RefreshRule>,
    /// Clocks on the command bus, by kind of command.
    pub on_bus: [u32; 4],
    /// Row and column commands have a bus each.
    pub split: bool,
    /// From a column command to its data, of reads and of writes.
    pub delay: [u32; 2],
    pub burst: u32,
    pub rfc: u32,
    /// How long a same-bank refresh takes its banks, and keeps data of rows from coming that other banks open after it.
    pub same_bank_rfc: u32,
    pub held: u32,
    /// From a read to a write of the same rank, and back.
    pub turn: [u32; 2],
    pub column_gap: u32,
    /// Column commands of a request.
    pub bursts: u8,
    pub banks: usize,
    /// Of them, of a bank group.
    pub group_banks: usize,
    pub ranks: usize,
    #[serde(with = "units::arrays")]
    pub group_of: [u8; BANKS],
    #[serde(with = "units::arrays")]
    pub rank_of: [u8; BANKS],
    /// By bank group.
    #[serde(with = "units::arrays")]
    pub rank_of_group: [u8; G],
}

/// Between kinds of commands that meet in a bank group, in a rank, and in different ranks.
type Reach = [[[u32; 3]; 4]; 4];

impl<const G: usize> TimingTable<G> {
    pub fn new(standard: &Standard, request_bytes: u32) -> Result<TimingTable<G>, MachineError> {
        let t = |name| standard.timing(name);
        let banks = standard.banks_per_channel() as usize;
        let per_rank = (standard.groups * standard.banks) as usize;
        let mut timing = TimingTable {
            same_bank: [[0; 4]; 4],
            wide: Default::default(),
            lanes: Vec::new(),
            faw: 0,
            rules: Vec::new(),
            on_bus: KINDS.map(|command| standard.bus_clocks(command)),
            split: standard.split_command_bus,
            delay: [t("CL")?, t("CWL")?],
            burst: t("BL")?,
            rfc: t("RFC")?,
            same_bank_rfc: standard.timings.get("RFC_SB").copied().unwrap_or(0),
            held: standard.timings.get("REFSBRD").copied().unwrap_or(0) + t("RCD")?,
            turn: [0; 2],
            column_gap: standard.column_gap(),
            bursts: standard.bursts(request_bytes) as u8,
            banks,
            group_banks: standard.banks as usize,
            ranks: standard.ranks as usize,
            group_of: [0; BANKS],
            rank_of: [0; BANKS],
            rank_of_group: std::array::from_fn(|g| (g / standard.groups as usize) as u8),
        };
        for b in 0..banks {
            timing.group_of[b] = (b / standard.banks as usize) as u8;
            timing.rank_of[b] = (b / per_rank) as u8;
        }
        let reach = timing.compile(standard)?;
        timing.turn = [reach[RD][WR][0].max(reach[RD][WR][1]), reach[WR][RD][0].max(reach[WR][RD][1])];
        timing.spread(&reach, (standard.ranks * standard.groups) as usize);
        Ok(timing)
    }

    /// Sorts a standard's rows: into those of one bank, the window, rules around refreshes, and what reaches further.
    fn compile(&mut self, standard: &Standard) -> Result<Reach, MachineError> {
        let mut reach = Reach::default();
        for row in &standard.constraints {
            let clocks = standard.clocks(row)?;
            if row.window > 1 {
                self.faw = clocks;
                continue;
            }
            for &prev in &row.prev {
                for &next in &row.next {
                    let (Some(p), Some(n)) = (kind_of(prev), kind_of(next)) else {
                        self.rules.push(RefreshRule { prev, next, level: row.level, clocks });
                        continue;
                    };
                    let into: &mut u32 = match row.level {
                        TimingScope::Bank => &mut self.same_bank[p][n],
                        TimingScope::Group => &mut reach[p][n][0],
                        TimingScope::Rank => &mut reach[p][n][1],
                        TimingScope::OtherRank => &mut reach[p][n][2],
                    };
                    *into = clocks.max(*into);
                }
            }
        }
        Ok(reach)
    }

    /// Lays out what a command to each bank group keeps away from every other one.
    fn spread(&mut self, reach: &Reach, groups: usize) {
        for (p, reach) in reach.iter().enumerate() {
            for (n, &[group, rank, other]) in reach.iter().enumerate() {
                if group.max(rank).max(other) == 0 {
                    continue;
                }
                self.wide[p].push((n, self.lanes.len()));
                for g in 0..groups {
                    let ranks = &self.rank_of_group;
                    self.lanes.push(GroupDistances(std::array::from_fn(|o| {
                        if o >= groups {
                            0
                        } else if ranks[o] != ranks[g] {
                            other
                        } else if o == g {
                            group.max(rank)
                        } else {
                            rank
                        }
                    })));
                }
            }
        }
    }

    /// How long a refresh is charged for.
    pub fn refreshed_after(&self, refresh: DramCommand) -> u32 {
        match refresh {
            DramCommand::RefSame => self.same_bank_rfc,
            _ => self.rfc,
        }
    }

    /// The banks that are so.
    pub fn those(&self, are: impl Fn(usize) -> bool) -> u64 {
        (0..self.banks).filter(|&b| are(b)).fold(0, |mask, b| mask | 1 << b)
    }

    /// Banks that meet one of `target` at a level: a bank, a rank, or a bank of each of its bank groups.
    pub fn near(&self, level: TimingScope, target: u64) -> u64 {
        let first = target.trailing_zeros() as usize;
        match level {
            TimingScope::Bank => target,
            TimingScope::Group if target.count_ones() == 1 => self.those(|b| self.group_of[b] == self.group_of[first]),
            TimingScope::Group | TimingScope::Rank => self.those(|b| self.rank_of[b] == self.rank_of[first]),
            TimingScope::OtherRank => self.those(|b| self.rank_of[b] != self.rank_of[first]),
        }
    }
}

/// The place of a command among those that requests take.
pub(super) fn kind_of(command: DramCommand) -> Option<usize> {
    KINDS.iter().position(|&kind| kind == command)
}
