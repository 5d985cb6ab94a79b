//! Lines on their way to the L2 of an integrated GPU that the server's memory answers for later, and the warps that wait for them.
//!
//! Where the clock at which a line is there is not known yet, a cache has a [mark](is_later) in its place. An answer puts clocks in
//! the place of marks, and says when each warp has the line.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use units::{Ps, Ticket};

/// A clock from here on is a mark.
const MARKS: u64 = 1 << 63;

/// Whether a clock is not known yet.
#[inline(always)]
pub(super) fn is_later(clock: u64) -> bool {
    clock >= MARKS
}

/// A resident warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WarpPlace {
    pub core: u32,
    pub slot: u32,
}

/// See the module header.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct LaterLines {
    lines: Vec<LaterLine>,
    free: Vec<u32>,
    #[serde(serialize_with = "units::arrays::in_order")]
    by_ticket: FxHashMap<u64, u32>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct LaterLine {
    /// Its place in the L2, if it has one.
    pub place: Option<usize>,
    /// When the server's memory was asked, and the clock at which the L2 was.
    pub asked: Ps,
    pub found: u64,
    pub waiting: Vec<WaitingWarp>,
}

/// A warp that waits for a line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct WaitingWarp {
    pub warp: WarpPlace,
    /// Of which L1 its core is.
    pub of_core: u32,
    /// It has the line no sooner.
    pub from: u64,
    /// Where in its L1 the line goes because of it.
    pub l1: Option<usize>,
}

impl LaterLines {
    /// A line that comes under `ticket`: its mark.
    pub(super) fn begin(&mut self, ticket: Ticket, place: Option<usize>, asked: Ps, found: u64) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.lines.push(LaterLine::default());
            self.lines.len() as u32 - 1
        });
        let line = &mut self.lines[index as usize];
        (line.place, line.asked, line.found) = (place, asked, found);
        self.by_ticket.insert(ticket.0, index);
        MARKS | u64::from(index)
    }

    /// `warp` waits for the line with this mark.
    pub(super) fn wait(&mut self, mark: u64, warp: WaitingWarp) {
        self.lines[(mark & !MARKS) as usize].waiting.push(warp);
    }

    /// From when on the line with this mark may be had in an L1, where it goes to `place`.
    pub(super) fn in_l1_from(&self, mark: u64, of_core: u32, place: usize) -> u64 {
        let waiting = &self.lines[(mark & !MARKS) as usize].waiting;
        let bringer = waiting.iter().find(|waiting| waiting.l1 == Some(place) && waiting.of_core == of_core);
        bringer.map_or(0, |bringer| bringer.from)
    }

    /// The line that was to come under `ticket`, and its mark, which stands for it no more.
    pub(super) fn end(&mut self, ticket: Ticket) -> Option<(u64, LaterLine)> {
        let index = self.by_ticket.remove(&ticket.0)?;
        self.free.push(index);
        Some((MARKS | u64::from(index), std::mem::take(&mut self.lines[index as usize])))
    }
}
