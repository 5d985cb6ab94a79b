//! The short way of a replay: references that L1 or L2 serve while nothing is under way.

use probe::{Access, Act, Layout, RegionId, Script};
use stats::Reason;
use units::{Addr, LINE_BYTES, Line, Ps};

use super::{Core, REFERENCES, SLOTS};
use crate::cores::burst::Burst;
use crate::{Memory, Served};

/// Where the regions of a layout begin for a core and the packet it works on, as far as that is known.
#[derive(Clone, Debug)]
pub(super) struct Bases([u64; 64]);

impl state::State for Bases {
    fn write(&self, to: &mut state::Writer) -> Result<(), state::StateError> {
        to.array(&self.0)
    }

    fn read(&mut self, from: &mut state::Reader) -> Result<(), state::StateError> {
        from.array(&mut self.0)
    }
}

/// Of a region that does not lie in one piece, or was not asked for. References to it take the long way.
pub(super) const NOWHERE: u64 = u64::MAX;

impl Bases {
    pub(super) const UNKNOWN: Bases = Bases([NOWHERE; 64]);

    #[inline(always)]
    fn of(&self, region: RegionId) -> u64 {
        self.0.get(usize::from(region.0)).copied().unwrap_or(NOWHERE)
    }

    /// The packet whose references come next is another one.
    pub(super) fn forget_packet(&mut self) {
        (self.0[usize::from(RegionId::PACKET.0)], self.0[usize::from(RegionId::MBUF.0)]) = (NOWHERE, NOWHERE);
    }

    /// Where `region` begins; [`NOWHERE`] if references to it take the long way.
    #[inline(always)]
    pub(super) fn find<L: Layout>(&mut self, region: RegionId, layout: &L, burst: &Burst) -> u64 {
        match self.of(region) {
            NOWHERE => {
                self.set(region, layout.base(region, &burst.placed()));
                self.of(region)
            }
            base => base,
        }
    }

    /// Where the packet lies whose references come next.
    #[inline(always)]
    pub(super) fn find_packet<L: Layout>(&mut self, layout: &L, burst: &Burst) {
        for region in [RegionId::PACKET, RegionId::MBUF] {
            self.set(region, layout.base(region, &burst.placed()));
        }
    }

    #[inline(always)]
    fn set(&mut self, region: RegionId, base: Option<Addr>) {
        if let Some(entry) = self.0.get_mut(usize::from(region.0)) {
            *entry = base.map_or(NOWHERE, |addr| addr.0);
        }
    }
}

/// What has been spent on what has retired: charged to whoever retires when that changes.
#[derive(Default)]
struct Spent {
    work: Ps,
    l1: Ps,
    l2: Ps,
    /// Waits for addresses.
    address: Ps,
}

impl Spent {
    #[inline(always)]
    fn hit(&mut self, from_l2: bool, time: Ps) {
        if from_l2 {
            self.l2 += time;
        } else {
            self.l1 += time;
        }
    }

    #[inline(always)]
    fn charge(self, burst: &mut Burst, l1: Reason, l2: Reason) {
        burst.charge_all([(Reason::Core, self.work), (l1, self.l1), (l2, self.l2), (Reason::Mshr, self.address)]);
    }
}

impl Core {
    /// Replays from the cursor on as long as the private caches serve all references; nothing older waits.
    ///
    /// What it does to a reference is what the stages of one that waits do, without going through them. State that each
    /// reference changes is written back at the end.
    #[inline(always)]
    pub(super) fn replay_hits<M: Memory, L: Layout>(&mut self, script: &Script, memory: &mut M, layout: &L) {
        let (l1_reason, l1_latency) = memory.private_latency(Served::L1);
        let (l2_reason, l2_latency) = memory.private_latency(Served::L2);
        let port_free = self.l1_port.is_free();
        let Core { burst, history, done, reference_slot, fills, bases, .. } = self;
        let Some(mut levels) = memory.private_levels(burst.placed.core) else { return };
        let (in_order, rob, rob_time, ps_x1024) = (self.in_order, self.rob, self.rob_time, self.instruction_ps_x1024);
        let (mut instructions, mut front_end, mut owed) = (self.instructions, self.front_end, self.owed_work);
        let (mut retired, mut references, mut slot) = (burst.retired, self.references, self.slots);
        let (mut worked, mut cursor) = (self.worked, burst.cursor);
        let mut spent = Spent::default();
        let (mut served, mut l2_hits) = (0, 0);
        while let Some(step) = script.step(cursor) {
            let before = step.instructions();
            if !worked && before != 0 {
                let time = Ps((u64::from(before) * ps_x1024) >> 10);
                instructions += u64::from(before);
                front_end += time;
                owed += time;
            }
            worked = true;
            let Some((access, region, offset, bytes, dep)) = step.simple() else {
                let Some(index) = turn(script.act(cursor).0, burst) else { break };
                spent.work += owed;
                retired += owed;
                owed = Ps::ZERO;
                std::mem::take(&mut spent).charge(burst, l1_reason, l2_reason);
                burst.retiring = index;
                bases.find_packet(layout, burst);
                (worked, cursor) = (false, cursor + 1);
                continue;
            };
            let base = bases.find(region, layout, burst);
            if base == NOWHERE {
                break;
            }
            let addr = base + offset;
            if addr % LINE_BYTES + u64::from(bytes.max(1)) > LINE_BYTES {
                break;
            }
            let line = Line(addr / LINE_BYTES);
            if in_order {
                front_end = front_end.max(retired + owed);
            } else {
                while instructions >= history.end {
                    front_end = front_end.max(history.pop(rob));
                }
            }
            let source = source(references, dep.into(), slot, done, reference_slot);
            let start = front_end.max(source);
            let (waits, write) = (access == Access::Load, access == Access::Store);
            let (mut latency, mut from_l2) = (l1_latency, false);
            if !levels.repeats(line, write) {
                match levels.use_l1(line, write) {
                    Some(true) => {}
                    // The port into L1 has its turns on the long way.
                    None if port_free && levels.use_l2(line, write) => {
                        (latency, from_l2) = (l2_latency, true);
                        l2_hits += 1;
                    }
                    _ => break,
                }
            }
            served += 1;
            let mut at = front_end;
            if waits {
                at = start + latency;
                spent.work += owed;
                retired += owed;
                owed = Ps::ZERO;
                // The tag is there, but the data may still be on their way.
                if let Some((until, path)) = fills.under_way(line, at) {
                    at = until;
                    if until > retired {
                        burst.charge_tail(path, until - retired);
                        retired = until;
                    }
                } else if at > retired {
                    let wait = at - retired;
                    spent.hit(from_l2, wait.min(latency));
                    spent.address += wait.since(latency);
                    retired = at;
                }
                if !in_order && retired > front_end + rob_time {
                    history.push(instructions, retired, rob);
                }
            }
            done[(slot % SLOTS as u64) as usize] = at.0;
            reference_slot[(references % REFERENCES as u64) as usize] = slot;
            (slot, references) = (slot + 1, references + 1);
            (worked, cursor) = (false, cursor + 1);
        }
        memory.count_private_hits(served - l2_hits, l2_hits);
        spent.charge(burst, l1_reason, l2_reason);
        (burst.retired, burst.cursor) = (retired, cursor);
        (self.instructions, self.front_end, self.owed_work) = (instructions, front_end, owed);
        (self.references, self.slots, self.worked) = (references, slot, worked);
    }
}

/// Whose work comes next, if `act` says so.
#[inline(always)]
pub(super) fn turn(act: Act, burst: &mut Burst) -> Option<usize> {
    match act {
        Act::Begin(packet) => Some(burst.begin(packet)),
        Act::End => Some(burst.end()),
        _ => None,
    }
}

/// When what gave the address of the next reference, `dep` references back (0 for none), is done.
#[inline(always)]
fn source(references: u64, dep: u64, slots: u64, done: &[u64; SLOTS], reference_slot: &[u64; REFERENCES]) -> Ps {
    if dep == 0 || dep > references {
        return Ps::ZERO;
    }
    let slot = reference_slot[((references - dep) % REFERENCES as u64) as usize];
    Ps(if slots - slot < SLOTS as u64 { done[(slot % SLOTS as u64) as usize] } else { 0 })
}
