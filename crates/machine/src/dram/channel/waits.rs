//! What requests wait for, as far as the data bus tells: what it had done when one came, and when its data begin.

use crate::dram::counters::{GAPS, Gap};
use serde::{Deserialize, Serialize};

/// What a data bus did while a request waited for it, in clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::dram) struct BusWaits {
    /// Nothing, for a refresh.
    pub refresh: u32,
    /// Nothing, as it turned around.
    pub turnaround: u32,
    /// Nothing, as rows were opened and closed.
    pub row: u32,
    /// It had other requests' data, or kept the distance between columns of a bank group.
    pub data: u32,
}

/// The data bus when a request came.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct BusAtArrival {
    gaps: [u64; GAPS],
    data_end: u64,
}

/// By request number, what the bus had done when it came; kept where it is not [`None`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct BusWatch(Option<Vec<BusAtArrival>>);

impl BusWatch {
    pub fn start(&mut self) {
        self.0 = Some(Vec::new());
    }

    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    #[inline(never)]
    pub fn came(&mut self, id: usize, gaps: &[u64; GAPS], data_end: u64) {
        let Some(watched) = &mut self.0 else { return };
        if watched.len() <= id {
            watched.resize(id + 1, BusAtArrival::default());
        }
        watched[id] = BusAtArrival { gaps: *gaps, data_end };
    }

    /// What the bus did from the acceptance of `id` in clock `accepted` to `begin`, when its own last data begin.
    #[inline(never)]
    pub fn waits(&self, id: usize, accepted: u64, gaps: &[u64; GAPS], begin: u64) -> BusWaits {
        let Some(seen) = self.0.as_ref().and_then(|watched| watched.get(id)) else { return BusWaits::default() };
        let gap = |gap: Gap| gaps[gap as usize].saturating_sub(seen.gaps[gap as usize]);
        let charged: u64 = gaps.iter().zip(&seen.gaps).map(|(now, then)| now.saturating_sub(*then)).sum();
        let clocks = |n: u64| n.min(u64::from(u32::MAX)) as u32;
        BusWaits {
            refresh: clocks(gap(Gap::Refresh)),
            turnaround: clocks(gap(Gap::Turnaround)),
            row: clocks(gap(Gap::RowMiss) + gap(Gap::BankConflict)),
            data: clocks(
                // What was promised when it came, and what came since.
                seen.data_end.saturating_sub(accepted)
                    + begin.saturating_sub(seen.data_end).saturating_sub(charged)
                    + gap(Gap::BankGroup),
            ),
        }
    }
}
