//! Audits a list of commands against a standard's rows.
//!
//! It reads the rows as they stand, keeps the latest clocks of every row at every place, and shares
//! nothing with the engine, so that an error there shows here.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::standard::{DramCommand, Standard, TimingScope};
use crate::MachineError;

/// A command on a channel's bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issued {
    /// The clock in which it goes out.
    pub clock: u64,
    /// What it is.
    pub command: DramCommand,
    /// The bank of the channel, `(rank * groups + group) * banks + bank`; of a command to several the
    /// first one.
    pub bank: u32,
    /// The row of an activate, and the open one of a column command; else 0.
    pub row: u32,
}

/// Audits one channel's commands in the order in which they went out.
#[derive(Clone, Debug)]
pub struct Checker {
    standard: Standard,
    distance: Vec<u64>,
    /// By constraint and place at its level, the latest clocks, oldest first.
    seen: Vec<Vec<VecDeque<u64>>>,
    open: Vec<Option<u32>>,
    /// By bus: clocks before this are taken. All commands use the first one where it is shared.
    bus_free: [u64; 2],
    data_free: u64,
    refreshed: Vec<u64>,
    /// By rank, the indices whose same-bank refresh the others have not followed yet.
    ahead: Vec<u64>,
    /// Refreshes may be late by eight intervals (JESD79-4, refresh postponing).
    refresh_limit: Option<u64>,
    data_delay: [u64; 3],
}

impl Checker {
    /// An auditor of a channel that has done nothing yet; `refreshes` says whether it has to.
    ///
    /// # Errors
    /// As [`Standard::check`].
    pub fn new(standard: &Standard, refreshes: bool) -> Result<Checker, MachineError> {
        standard.check()?;
        let banks = standard.banks_per_channel() as usize;
        let distance =
            standard.constraints.iter().map(|row| standard.clocks(row).map(u64::from)).collect::<Result<_, _>>()?;
        let t = |name| standard.timing(name).map(u64::from);
        Ok(Checker {
            distance,
            seen: vec![vec![VecDeque::new(); banks]; standard.constraints.len()],
            open: vec![None; banks],
            bus_free: [0; 2],
            data_free: 0,
            refreshed: vec![0; banks],
            ahead: vec![0; standard.ranks as usize],
            refresh_limit: if refreshes { Some(9 * t("REFI")?) } else { None },
            data_delay: [t("CL")?, t("CWL")?, t("BL")?],
            standard: standard.clone(),
        })
    }

    /// Takes the next command, or says which rule it breaks.
    ///
    /// # Errors
    /// The rule and the numbers.
    pub fn issue(&mut self, issued: Issued) -> Result<(), String> {
        self.permits(issued)?;
        let Issued { clock, command, bank, row } = issued;
        let bus = self.bus(command);
        self.bus_free[bus] = clock + u64::from(self.standard.bus_clocks(command));
        if command.is_column() {
            self.data_free = self.data(issued).1;
        }
        let touched = self.banks(command, bank);
        for (i, constraint) in self.standard.constraints.iter().enumerate() {
            if constraint.prev.contains(&command.in_rows()) {
                let mut places: Vec<usize> =
                    touched.clone().map(|b| place(&self.standard, constraint.level, b)).collect();
                places.dedup();
                for place in places {
                    let clocks = &mut self.seen[i][place];
                    clocks.push_back(clock);
                    if clocks.len() > constraint.window {
                        clocks.pop_front();
                    }
                }
            }
        }
        for b in touched {
            match command {
                DramCommand::Act => self.open[b as usize] = Some(row),
                DramCommand::Pre | DramCommand::PreAll | DramCommand::PreSame => self.open[b as usize] = None,
                DramCommand::Ref | DramCommand::RefBank | DramCommand::RefSame => self.refreshed[b as usize] = clock,
                DramCommand::Rd | DramCommand::Wr => {}
            }
        }
        if command == DramCommand::RefSame {
            let (rank, index) = self.turn(bank);
            let ahead = &mut self.ahead[rank];
            *ahead |= 1 << index;
            if ahead.count_ones() == self.standard.banks {
                *ahead = 0;
            }
        }
        Ok(())
    }

    /// Whether a command may go out now.
    ///
    /// # Errors
    /// The rule it breaks, and the numbers.
    pub fn permits(&self, issued: Issued) -> Result<(), String> {
        let Issued { clock, command, bank, row } = issued;
        let at = |rule: String| Err(format!("clock {clock}: {command:?} to bank {bank}: {rule}"));
        if clock < self.bus_free[self.bus(command)] {
            return at(format!("command bus is taken until {}", self.bus_free[self.bus(command)]));
        }
        for b in self.banks(command, bank) {
            let open = self.open[b as usize];
            let fine = match command {
                DramCommand::Act | DramCommand::Ref | DramCommand::RefBank | DramCommand::RefSame => open.is_none(),
                DramCommand::Rd | DramCommand::Wr => open == Some(row),
                DramCommand::Pre | DramCommand::PreAll | DramCommand::PreSame => true,
            };
            if !fine {
                return at(format!("bank {b} has {open:?} open, row is {row}"));
            }
            if let Some(limit) = self.refresh_limit
                && clock > self.refreshed[b as usize] + limit + self.data_delay.iter().sum::<u64>()
                && matches!(command, DramCommand::Act | DramCommand::Rd | DramCommand::Wr)
            {
                return at(format!("bank {b} was refreshed last at {}", self.refreshed[b as usize]));
            }
        }
        if command == DramCommand::RefSame {
            let (rank, index) = self.turn(bank);
            if self.ahead[rank] >> index & 1 == 1 {
                return at(format!("bank {index} of each group again before all others (JESD79-5, REFsb)"));
            }
        }
        if command.is_column() {
            let (start, _) = self.data(issued);
            if start < self.data_free {
                return at(format!("data from {start}, the bus is taken until {}", self.data_free));
            }
        }
        for (i, constraint) in self.standard.constraints.iter().enumerate() {
            if !constraint.next.contains(&command.in_rows()) {
                continue;
            }
            for b in self.banks(command, bank) {
                let here = place(&self.standard, constraint.level, b);
                let places = match constraint.level {
                    TimingScope::OtherRank => (0..self.standard.ranks as usize).filter(|&r| r != here).collect(),
                    _ => vec![here],
                };
                for place in places {
                    let clocks = &self.seen[i][place];
                    let Some(&since) = clocks.front().filter(|_| clocks.len() == constraint.window) else { continue };
                    if clock < since + self.distance[i] {
                        return at(format!(
                            "{} = {} after {:?} at {since} ({:?})",
                            constraint.clocks, self.distance[i], constraint.prev, constraint.level
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// The row that a bank has open.
    pub fn open_row(&self, bank: u32) -> Option<u32> {
        self.open[bank as usize]
    }

    fn bus(&self, command: DramCommand) -> usize {
        usize::from(self.standard.split_command_bus && command.is_column())
    }

    /// First clock of its data and the first one after them.
    fn data(&self, issued: Issued) -> (u64, u64) {
        let [read, write, burst] = self.data_delay;
        let start = issued.clock + if issued.command == DramCommand::Rd { read } else { write };
        (start, start + burst)
    }

    /// The rank of a bank, and the bank's index in its group.
    fn turn(&self, bank: u32) -> (usize, u32) {
        ((bank / (self.standard.groups * self.standard.banks)) as usize, bank % self.standard.banks)
    }

    fn banks(&self, command: DramCommand, bank: u32) -> std::iter::StepBy<std::ops::Range<u32>> {
        let per_rank = self.standard.groups * self.standard.banks;
        let first = bank / per_rank * per_rank;
        if command.is_rank_wide() {
            (first..first + per_rank).step_by(1)
        } else if command.is_same_bank() {
            (first + bank % self.standard.banks..first + per_rank).step_by(self.standard.banks as usize)
        } else {
            (bank..bank + 1).step_by(1)
        }
    }
}

/// Number of the bank, group or rank in which a bank lies.
fn place(standard: &Standard, level: TimingScope, bank: u32) -> usize {
    let size = match level {
        TimingScope::Bank => 1,
        TimingScope::Group => standard.banks,
        TimingScope::Rank | TimingScope::OtherRank => standard.groups * standard.banks,
    };
    (bank / size) as usize
}
