//! What a memory system takes over from another one that is warm already.
//!
//! Machines that differ in a ring, some ways or a few cores hold much the same lines once they are warm. One that begins with what
//! the other one's LLC holds has the rest to settle, in place of everything. What it takes over is where it starts and not what it
//! ends with: whoever warms it up goes on until its own state has settled.
//!
//! Taken over are lines of the LLC, with who brought them and whether they are dirty, in the order in which they were used, each
//! into the ways that its class or the devices have here. Private caches, TLBs, tables and rows fill within a few thousand
//! packets and begin empty.

use units::{Clos, Line};

use super::Hierarchy;
use super::llc::{DEVICES, FillRule};

impl Hierarchy {
    /// Fills its empty LLCs with what those of `other` hold; `place` says where a line lies here, if anywhere. Returns how many
    /// lines came.
    pub fn take_over(&mut self, other: &Hierarchy, place: impl Fn(Line) -> Option<Line>) -> u64 {
        let mut all = Vec::new();
        for (socket, llc) in other.llcs().enumerate() {
            let placed = llc.residents().into_iter().filter_map(|each| {
                let line = place(each.line)?;
                let share = match each.owner {
                    DEVICES => FillRule { ways: self.io_ways, age: each.age, owner: DEVICES },
                    owner => FillRule { age: each.age, ..self.share_of(Clos(owner)) },
                };
                Some((socket, line, share, each))
            });
            all.extend(placed);
        }
        let mut taken = 0;
        for (socket, line, share, each) in all {
            let Some(share) = self.admitted(line, share) else { continue };
            let Some(llc) = self.llcs_mut().nth(socket) else { continue };
            let spot = llc.spot(line);
            taken += u64::from(!llc.has(spot) && llc.keep(spot, share, &each));
        }
        taken
    }
}
