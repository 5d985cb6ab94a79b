//! The functional way through a burst: its references in program order, without time.
//!
//! Caches, translations and prefetchers see what they see in detail, in the order in which the instructions stand. There are no
//! windows, buffers or waits, and nothing is charged to its packets.

use probe::{Access, Act, CopyLoop, Layout, Ref, Request, Script};
use units::{LINE_BYTES, Line, Ps};

use super::Core;
use super::hits::{NOWHERE, turn};
use crate::memory::Warming;

impl Core {
    /// Makes all references of the burst that [`Core::start`] has begun, at about `now`. It is complete then, and has taken no
    /// time. Locks are granted to whoever asks.
    pub fn warm<L: Layout>(&mut self, memory: &mut Warming<'_>, layout: &L, now: Ps) {
        let script = std::mem::take(&mut self.burst.script);
        loop {
            self.warm_hits(&script, memory, layout);
            let Some(step) = script.step(self.burst.cursor) else { break };
            self.instructions += u64::from(step.instructions());
            let (act, next) = script.act(self.burst.cursor);
            match act {
                Act::Touch(r) => self.warm_touch(&r, memory, layout, now),
                Act::Copy { src, dst } => self.warm_copy(src, dst, memory, layout, now),
                // Whose work it is decides where the packet's references go.
                Act::Begin(_) | Act::End => {
                    turn(act, &mut self.burst);
                    self.bases.forget_packet();
                }
                Act::Lock(_) | Act::Unlock(_) | Act::Nothing => {}
            }
            self.burst.cursor = next;
        }
        self.instructions += u64::from(script.trailing());
        self.burst.script = script;
    }

    /// Goes on from the cursor as long as the private caches serve all references, as [`Core::replay_hits`].
    #[inline(always)]
    fn warm_hits<L: Layout>(&mut self, script: &Script, memory: &mut Warming<'_>, layout: &L) {
        let Core { burst, bases, .. } = self;
        let (mut instructions, mut cursor) = (0, burst.cursor);
        let (mut l1_hits, mut l2_hits) = (0, 0);
        {
            let Some(mut levels) = memory.private_levels(burst.placed.core) else { return };
            while let Some(step) = script.step(cursor) {
                let Some((access, region, offset, bytes, _)) = step.simple() else {
                    if turn(script.act(cursor).0, burst).is_none() {
                        break;
                    }
                    bases.find_packet(layout, burst);
                    instructions += u64::from(step.instructions());
                    cursor += 1;
                    continue;
                };
                let base = bases.find(region, layout, burst);
                let addr = base.wrapping_add(offset);
                if base == NOWHERE || addr % LINE_BYTES + u64::from(bytes.max(1)) > LINE_BYTES {
                    break;
                }
                let (line, write) = (Line(addr / LINE_BYTES), access == Access::Store);
                match levels.repeats(line, write).then_some(true).or_else(|| levels.use_l1(line, write)) {
                    Some(true) => l1_hits += 1,
                    None if levels.use_l2(line, write) => l2_hits += 1,
                    _ => break,
                }
                instructions += u64::from(step.instructions());
                cursor += 1;
            }
        }
        burst.cursor = cursor;
        self.instructions += instructions;
        memory.count_private_hits(l1_hits, l2_hits);
    }

    fn warm_touch<L: Layout>(&mut self, r: &Ref, memory: &mut Warming<'_>, layout: &L, now: Ps) {
        let placed = &self.burst.placed();
        if let Some(addr) = layout.place_line(r, placed) {
            memory.access(&Request::new(r, placed, addr, r.bytes.max(1)), now);
            return;
        }
        let mut requests = std::mem::take(&mut self.requests);
        requests.clear();
        layout.place(r, placed, &mut requests);
        for request in &requests {
            memory.access(request, now);
        }
        self.requests = requests;
    }

    /// By an engine, where one takes it, and by loads and stores.
    fn warm_copy<L: Layout>(&mut self, src: Ref, dst: Ref, memory: &mut Warming<'_>, layout: &L, now: Ps) {
        let whole = memory.takes_whole_copies();
        if whole && self.warm_copy_by_engine(&src, &dst, true, memory, layout, now) {
            return;
        }
        for (load, store) in CopyLoop::new(src, dst) {
            if whole || !self.warm_copy_by_engine(&load, &store, false, memory, layout, now) {
                self.warm_touch(&load, memory, layout, now);
                self.warm_touch(&store, memory, layout, now);
            }
        }
    }

    fn warm_copy_by_engine<L: Layout>(
        &mut self,
        load: &Ref,
        store: &Ref,
        whole: bool,
        memory: &mut Warming<'_>,
        layout: &L,
        now: Ps,
    ) -> bool {
        let Some((src, dst)) = self.copy_requests(load, store, whole, layout) else { return false };
        if !memory.takes_copy(&src, &dst) {
            return false;
        }
        memory.copy(&src, &dst, now);
        true
    }
}
