//! What a memory system takes over from another one that is warm already.
//!
//! Machines that differ in a ring, some ways or a few cores hold much the same lines once they are warm. One that begins with what
//! the other one's LLC holds has the rest to settle, in place of everything. What it takes over is where it starts and not what it
//! ends with: whoever warms it up goes on until its own state has settled.
//!
//! Taken over are lines of the LLC, with who brought them and whether they are dirty, in the order in which they were used, each
//! into the ways that its class or the devices have here. Then each core that both have brings what its L2 held, in that order,
//! too, the functional way: behind a victim LLC those lines are nowhere else. L1, TLBs and rows fill within some hundred
//! packets and begin empty, as copy tables and stacked tables do.

use probe::{Access, Request};
use units::{Addr, Clos, CoreId, LINE_BYTES, Line};

use super::Hierarchy;
use super::llc::{DEVICES, FillRule};

impl Hierarchy {
    /// Fills its empty LLCs and L2s with what those of `other` hold; `place` says where a line lies here, if anywhere, and `clos` the
    /// class of each core. Returns how many lines came into the LLCs.
    pub fn take_over(
        &mut self,
        other: &Hierarchy,
        place: impl Fn(Line) -> Option<Line>,
        clos: impl Fn(CoreId) -> Clos,
    ) -> u64 {
        let mut all = Vec::new();
        for (socket, llc) in other.llcs().enumerate() {
            let placed = llc.residents().into_iter().filter_map(|each| {
                let line = place(each.line)?;
                let share = match each.owner {
                    DEVICES => {
                        let moved = self.inclusive_ways.filter(|ways| ways.0 >> each.way & 1 == 1);
                        FillRule { ways: moved.unwrap_or(self.io_ways), age: self.io_age, owner: DEVICES }
                    }
                    owner => self.share_of(Clos(owner)),
                };
                let share = FillRule { age: each.age.unwrap_or(share.age), ..share };
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
        let mut warming = self.warm();
        for (core, private) in other.cores.iter().enumerate().take(warming.cores()) {
            let core = CoreId(core as u16);
            private.l2.residents(|_, each| {
                let Some(line) = place(each.line) else { return };
                let access = if each.dirty { Access::Store } else { Access::Load };
                let addr = Addr(line.0 * LINE_BYTES);
                warming.bring(&Request { addr, bytes: 8, site: 0, access, clos: clos(core), core, mapping: 0 });
            });
        }
        taken
    }
}
