//! What receive rings held more at the end of a run than at its beginning.
//!
//! Rings take in an overload until they are full, so that a run that ends before has lost nothing, or less than a longer one. What came to a
//! core and was not taken stands in its ring: by so much more came than it can take.

use crate::server::Server;

/// More than so many bursts in a ring are no burst that has just come.
const BURSTS: u64 = 2;
/// A smaller share of what came to a core is none: the default of `run.search_resolution`.
const SHARE: f64 = 0.005;

/// The growth of receive rings, and of software queues, over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RingGrowth {
    /// The core of whose packets the largest share was left.
    pub core: usize,
    /// Packets that its ring held more at the last arrival than at the first.
    pub packets: u64,
    /// These over the packets that came to it; 0 where that is a few bursts that came together, or next to nothing.
    pub share: f64,
    /// Packets that all rings together held more.
    pub all: u64,
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

    /// Between this state and a later one, of cores that take bursts of `burst`; none where packets come in bursts of their own, after
    /// which rings are full or empty by chance.
    pub(super) fn growth(&self, server: &Server, burst: u64) -> Option<RingGrowth> {
        if !server.is_steady() {
            return None;
        }
        let mut found = RingGrowth::default();
        for (core, (from, to)) in self.0.iter().zip(RingLevels::of(server).0).enumerate() {
            let packets = to.1.saturating_sub(from.1);
            found.all += packets;
            let came = (to.0 + to.1).saturating_sub(from.0 + from.1);
            let share = packets as f64 / came.max(1) as f64;
            if packets > BURSTS * burst && share > SHARE.max(found.share) {
                found = RingGrowth { core, packets, share, ..found };
            }
        }
        Some(found)
    }
}
