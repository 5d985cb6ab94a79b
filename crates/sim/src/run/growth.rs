//! What receive rings held more at the end of a run than at its beginning.
//!
//! Rings take in an overload until they are full, so that a run that ends before has lost nothing, or less than a longer one. What came to a
//! core and was not taken stands in its ring: by so much more came than it can take. A core that just keeps up has a queue that wanders, as far
//! as the root of the packets that came; more than that is no chance.
//!
//! **Left out**: what waits elsewhere, in the NIC's memory, in transmit rings and before a GPU.

use crate::server::Server;

/// Of full bursts, which come and go.
const BURSTS: f64 = 2.0;
/// Standard deviations of what comes to a core, as Poisson's: of 64 cores that just keep up one in some hundreds is further off.
const WANDERS: f64 = 4.0;

/// The growth of receive rings, and of software queues, over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RingGrowth {
    /// The core of whose packets the largest share was left.
    pub core: usize,
    /// Packets that its ring held more at the last arrival than at the first.
    pub packets: u64,
    /// These over the packets that came to it; 0 where that may be chance.
    pub share: f64,
    /// The least share that is no chance, of the core to which most came.
    pub least: f64,
    /// Packets that all rings together held more.
    pub all: i64,
}

impl RingGrowth {
    /// Whether a ring was on its way to overflow.
    pub fn is_overload(&self) -> bool {
        self.share > 0.0
    }
}

/// What each core has taken, and what its ring holds.
#[derive(Clone, Debug)]
pub(super) struct RingLevels(Vec<(u64, u64)>);

impl RingLevels {
    pub(super) fn of(server: &Server) -> RingLevels {
        let taken = server.cores().into_iter().map(|core| core.packets);
        RingLevels(taken.zip(server.waiting()).collect())
    }

    /// Between this state and a later one, of cores that take bursts of `burst`; none where packets come in bursts of their own, or the
    /// system stalls cores, after which rings are full or empty by chance.
    pub(super) fn growth(&self, server: &Server, burst: u64) -> Option<RingGrowth> {
        if !server.is_steady() || server.has_stalls() {
            return None;
        }
        let mut found = RingGrowth { least: 1.0, ..RingGrowth::default() };
        for (core, (from, to)) in self.0.iter().zip(RingLevels::of(server).0).enumerate() {
            found.all += to.1 as i64 - from.1 as i64;
            let came = ((to.0 + to.1).saturating_sub(from.0 + from.1)).max(1) as f64;
            let least = (BURSTS * burst as f64 + WANDERS * came.sqrt()) / came;
            let packets = to.1.saturating_sub(from.1);
            let share = packets as f64 / came;
            found.least = found.least.min(least);
            if share > least.max(found.share) {
                found = RingGrowth { core, packets, share, ..found };
            }
        }
        Some(found)
    }
}
