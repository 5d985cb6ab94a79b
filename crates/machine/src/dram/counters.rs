//! What a channel counts.

use serde::{Deserialize, Serialize};

use super::energy::EnergyEvents;
use super::standard::Standard;

/// What the data bus's time is charged to when it carries no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// It changes direction.
    Turnaround,
    /// Two bursts of one bank group are further apart than they are long (tCCD_L), or two of a bank.
    BankGroup,
    /// A row is opened in a closed bank.
    RowMiss,
    /// A row is closed and another one opened.
    BankConflict,
    /// Refresh, from the clock in which it fell due.
    Refresh,
    /// There was nothing to do.
    Idle,
}

/// How many there are.
pub(super) const GAPS: usize = Gap::Idle as usize + 1;

/// Counts of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counters {
    pub reads: u64,
    pub writes: u64,
    pub forwarded: u64,
    pub columns: [u64; 2],
    pub activates: u64,
    pub precharges: u64,
    pub refreshes: u64,
    /// Of these, of one bank.
    pub bank_refreshes: u64,
    /// Of these, of the same bank in every bank group.
    pub same_bank_refreshes: u64,
    pub switches: u64,
    pub gaps: [u64; GAPS],
    /// Clocks with a row open.
    pub open_clocks: u64,
}

impl Counters {
    /// What took energy in so many clocks of channels.
    pub fn work(&self, standard: &Standard, clocks: u64) -> EnergyEvents {
        let ns = 1e3 / f64::from(standard.clock_mhz);
        let burst = f64::from(standard.timings.get("BL").copied().unwrap_or(1)) * ns;
        EnergyEvents {
            activates: self.activates,
            reading: self.columns[0] as f64 * burst,
            writing: self.columns[1] as f64 * burst,
            refreshes: self.rank_refreshes(standard),
            open: self.open_clocks as f64 * ns,
            time: clocks as f64 * ns,
        }
    }

    /// Refreshes as whole ones of a rank: each part counts by its share of the rows.
    fn rank_refreshes(&self, standard: &Standard) -> f64 {
        let whole = self.refreshes - self.bank_refreshes - self.same_bank_refreshes;
        let clocks = |name: &str| f64::from(standard.timings.get(name).copied().unwrap_or(0));
        // All rows are refreshed once in a refresh window, however often a command comes for it.
        let same_bank = clocks("REFI2") / (clocks("REFI") * f64::from(standard.banks));
        whole as f64
            + self.bank_refreshes as f64 / f64::from(standard.groups * standard.banks)
            + self.same_bank_refreshes as f64 * same_bank
    }

    /// What was counted since `before`, an earlier state of the same counters.
    pub fn since(&self, before: &Counters) -> Counters {
        Counters {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            forwarded: self.forwarded - before.forwarded,
            columns: std::array::from_fn(|i| self.columns[i] - before.columns[i]),
            activates: self.activates - before.activates,
            precharges: self.precharges - before.precharges,
            refreshes: self.refreshes - before.refreshes,
            bank_refreshes: self.bank_refreshes - before.bank_refreshes,
            same_bank_refreshes: self.same_bank_refreshes - before.same_bank_refreshes,
            switches: self.switches - before.switches,
            // Idle time of `before` may not be charged yet: what is idle since the last data makes up for it.
            gaps: std::array::from_fn(|i| self.gaps[i].wrapping_sub(before.gaps[i])),
            open_clocks: self.open_clocks.saturating_sub(before.open_clocks),
        }
    }
}
