//! What a controller decides: order, writes, pages, refresh.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::standard::{DramCommand, Standard};
pub use super::standard::{Page, Refresh};
use crate::MachineError;

/// A channel's controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControllerSpec {
    /// Entries of the queue; of reads alone where writes have their own. One more request waits in
    /// the ingress register.
    pub queue: u32,
    /// Which request is served next.
    pub order: Order,
    /// Where writes wait.
    pub writes: Writes,
    /// When rows are closed.
    pub page: Page,
    /// How rows are refreshed.
    pub refresh: Refresh,
}

impl Default for ControllerSpec {
    /// Open pages, FR-FCFS without cap over one queue of 32, all-bank refresh.
    fn default() -> ControllerSpec {
        ControllerSpec {
            queue: 32,
            order: Order::FrFcfs { cap: 0 },
            writes: Writes::Mixed,
            page: Page::Open,
            refresh: Refresh::AllBank,
        }
    }
}

/// Which request is served next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// Row hits first, then the oldest (Rixner et al., ISCA 2000).
    FrFcfs {
        /// Hits of a bank that may pass its oldest request, for each time its row is opened; 0 is no cap.
        cap: u32,
    },
    /// In order of arrival.
    Fcfs {
        /// Requests behind the one whose data are on the bus whose rows are opened ahead (row
        /// prefetch). 0 opens a row when the data before have passed; another one may be closed earlier.
        prefetch: u32,
    },
    /// Two queues in turn, each for up to `size` requests while they hit the open row (Hasan,
    /// Chandra, Vijaykumar, ISCA 2003).
    Batch {
        /// What tells the queues apart.
        by: BatchBy,
        /// Requests of a batch; 1 alternates strictly.
        size: u32,
        /// Requests behind the one whose data are on the bus whose rows are opened ahead (row
        /// prefetch). 0 opens a row when the data before have passed; another one may be closed earlier.
        prefetch: u32,
    },
}

/// What tells the two queues of [`Order::Batch`] apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BatchBy {
    /// Reads and writes.
    Direction,
    /// Odd and even banks.
    BankParity,
}

/// Where writes wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Writes {
    /// With the reads, in one queue.
    Mixed,
    /// In a queue of their own, which is drained from `high` entries down to `low`, and when there are
    /// no reads. A read of a line that it holds is answered from it. Only with [`Order::FrFcfs`].
    Drain {
        /// Entries.
        queue: u32,
        /// A drain starts at this many.
        high: u32,
        /// And ends at this many if reads wait.
        low: u32,
    },
}

/// Entries a queue can have: slot numbers fit into a byte.
pub(super) const MOST_ENTRIES: u32 = 128;

impl ControllerSpec {
    pub(super) fn check(&self, standard: &Standard) -> Result<(), MachineError> {
        let error = |field: &str, came: String, allowed: &str, remedy: &str| {
            Err(MachineError::new(format!("dram.controller.{field}"), came, allowed, remedy.into()))
        };
        let writes = if let Writes::Drain { queue, .. } = self.writes { queue } else { 0 };
        if self.queue == 0 || self.queue.saturating_add(writes) > MOST_ENTRIES {
            let came = format!("{} with {writes} for writes", self.queue);
            return error("queue", came, &format!("1 to {MOST_ENTRIES} together"), "32 is common");
        }
        if let Writes::Drain { queue, high, low } = self.writes {
            if !(low < high && high <= queue) {
                let came = format!("queue {queue}, high {high}, low {low}");
                return error("writes", came, "low < high <= queue", "a drain has to start and to end");
            }
            if !matches!(self.order, Order::FrFcfs { .. }) {
                let came = format!("a drain with {:?}", self.order);
                return error("writes", came, "a drain with fr-fcfs", "ordered service takes writes in turn");
            }
        }
        if let Order::Batch { size: 0, .. } = self.order {
            return error("order", "batch of size 0".into(), "1 or more", "1 alternates strictly");
        }
        if let Page::Adaptive { timeout } = self.page
            && !(Page::LEAST_TIMEOUT..=Page::GREATEST_TIMEOUT).contains(&timeout)
        {
            let allowed = format!("{} to {} clocks", Page::LEAST_TIMEOUT, Page::GREATEST_TIMEOUT);
            return error("page", format!("timeout of {timeout} clocks"), &allowed, "start with 128");
        }
        self.refresh.check(standard)
    }
}

impl Refresh {
    /// The name of the time between two refreshes of a bank.
    pub(super) fn interval_name(self) -> &'static str {
        if self == Refresh::SameBank { "REFI2" } else { "REFI" }
    }

    /// Refreshes that make up one of every bank of the unit that takes them.
    pub(super) fn turns(self, standard: &Standard) -> u32 {
        match self {
            Refresh::Off | Refresh::AllBank => 1,
            Refresh::PerBank => standard.banks_per_channel(),
            Refresh::SameBank => standard.banks,
        }
    }

    /// Whether the standard has this refresh, and a bank serves requests between two of them.
    fn check(self, standard: &Standard) -> Result<(), MachineError> {
        let (command, timings, allowed) = match self {
            Refresh::Off | Refresh::AllBank => return Ok(()),
            Refresh::PerBank => (DramCommand::RefBank, &["RFC_B"][..], "standards with RFC_B and RREFD"),
            Refresh::SameBank => (
                DramCommand::RefSame,
                &["RFC_SB", "REFSBRD", "REFI2"][..],
                "standards with bank groups and RFC_SB, REFSBRD and REFI2, as those of DDR5",
            ),
        };
        let lacks = timings.iter().any(|&name| !standard.timings.contains_key(name));
        if lacks || (self == Refresh::SameBank && standard.groups == 1) {
            let came = format!("{self} refresh of {}", standard.name);
            let remedy = "use all-bank refresh".into();
            return Err(MachineError::new("dram.controller.refresh", came, allowed, remedy));
        }
        let (interval, turns) = (standard.timing(self.interval_name())?, self.turns(standard));
        standard.check_refresh(command, (interval / turns).max(1) * turns)
    }
}
