//! A NIC's memory, as the processor sees it through PCIe.
//!
//! A load crosses the link and comes back, a store is posted. nicmem (Pismenny, Liss, Morrison, Tsafrir, ASPLOS 2022) leaves payload
//! there. A window is uncached: here a core keeps a line that it has loaded until the NIC writes another packet there
//! ([`Hierarchy::forget`]), so that only its first look at a line costs. Left out: the link's bandwidth, and that loads of a core
//! wait for each other.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use stats::{Path, Reason};
use units::{Line, Ps};

use super::Hierarchy;
use super::fabric::Fabric;
use super::home::Home;
use super::llc::Requester;

/// See the module header.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct NicWindow {
    lines: Range<u64>,
    read: Ps,
}

impl NicWindow {
    pub(super) fn new(lines: Range<u64>, read: Ps) -> NicWindow {
        NicWindow { lines, read }
    }
}

impl Home for NicWindow {
    #[inline]
    fn has(&self, line: Line) -> bool {
        self.lines.contains(&line.0)
    }

    fn read(&mut self, _: Line, at: Ps, _: &mut Fabric, path: &mut Path) -> Ps {
        path.push(Reason::Pcie, self.read);
        at + self.read
    }

    fn write(&mut self, _: Line, at: Ps, _: &mut Fabric) -> Ps {
        at
    }

    // Nothing of it takes turns.
    fn set_untimed(&mut self, _: bool) {}
}

impl Hierarchy {
    /// No cache has the `count` lines from `first` on any more: their memory has other content from `now` on, which nobody has
    /// seen. Copies by pointer of what was there are made before.
    pub fn forget(&mut self, first: Line, count: u64, now: Ps) {
        self.enter(Requester::Device);
        for line in (first.0..first.0 + count).map(Line) {
            if self.copies.is_some() {
                self.before_write(line, now);
            }
            self.invalidate_private(line);
            self.llcs_mut().for_each(|llc| {
                let spot = llc.spot(line);
                llc.remove(spot);
            });
        }
    }
}
