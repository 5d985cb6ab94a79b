//! The core that replays a recorded burst, in order or within a window.

mod hits;
mod warm;

use std::collections::VecDeque;

use probe::{Access, Act, CopyLoop, Layout, Ref, Request, Requests, Script};
use stats::{Attribution, Path, Reason};
use units::{Addr, Clos, CoreId, Line, Ps, Ticket};

use super::burst::{Burst, BurstPacket, CoreStep};
use super::fills::{FillBuffers, For, L1Port};
use super::history::History;
use super::{CoreModel, CoreSpec};
use crate::memory::Translation;
use crate::{MachineError, Memory, PrivateLookup, Reply, Response, Served};
use hits::Bases;

/// A core that replays a recorded burst. See the module header of `cores`.
#[derive(Clone, Debug)]
pub struct Core {
    id: CoreId,
    pub(super) in_order: bool,
    /// Picoseconds an instruction takes, in 1/1024.
    pub(super) instruction_ps_x1024: u64,
    pub(super) rob: u64,
    /// What the dispatch of as many instructions takes at least, however they are cut up and each cut rounded down.
    pub(super) rob_time: Ps,
    pending_limit: usize,

    pub(super) burst: Burst,
    /// The instructions before the next act are dispatched.
    pub(super) worked: bool,

    /// Instructions dispatched.
    pub(super) instructions: u64,
    pub(super) front_end: Ps,
    /// Instruction time dispatched since the last item.
    pub(super) owed_work: Ps,
    /// Instructions to come that an engine has saved: software's, of lines that it has copied.
    saved: u32,
    /// Slots given out: one a request.
    pub(super) slots: u64,
    /// The first of the reference that is dispatched.
    first_slot: u64,
    /// When each of the last slots is done, [`UNKNOWN`] while it is not known.
    pub(super) done: Box<[u64; SLOTS]>,
    /// The last slot of each of the last references.
    pub(super) reference_slot: Box<[u64; REFERENCES]>,
    pub(super) references: u64,
    /// Not yet retired, in program order; empty while everything dispatched is known.
    items: VecDeque<Item>,
    /// The number of the first of them, counted from the first ever queued.
    first_item: u64,
    /// What the data of each item that is a private miss pass through, by number modulo [`ITEMS`].
    paths: Box<[Path; ITEMS]>,
    /// Instructions from this one on do not fit into the reorder buffer, or nothing does.
    window_end: u64,
    /// A copy by an engine before whose answer nothing more is dispatched.
    held_by: Option<u64>,
    /// Slots from this one on are still needed under their old number.
    slots_end: u64,
    /// Page walks under way: the page, its bits, and the slot that is done with the translation.
    walks: Vec<(u64, u32, u64)>,
    /// Private hits among the items whose data or address are not there yet, in program order.
    waits: Vec<Wait>,
    /// Retired references within the reorder buffer.
    pub(super) history: History,
    /// Slots that stand for several, with those that they stand for.
    joins: Vec<(u64, std::ops::Range<u64>)>,
    /// Private misses that still wait for their turn.
    pending: Vec<Fetch>,
    /// Private misses that a controller has.
    out: Vec<Fetch>,
    /// Nothing that a controller has is answered before this.
    bound: Ps,
    /// The earliest time at which one of them may go out; [`Ps::MAX`] if that is not known of any.
    next_ready: Ps,
    /// Which, as an index into `pending`.
    next: usize,
    /// The prefetcher may have asked for lines.
    prefetches: bool,
    /// Whether such lines may wait, and whether some do.
    prefetches_wait: bool,
    awaiting: bool,
    /// When the last miss went out, or a full window had room again.
    last_out: Ps,
    pub(super) fills: FillBuffers,
    pub(super) l1_port: L1Port,
    bases: Bases,
    requests: Requests,
}

state::state!(Core {
    values: [
        worked,
        instructions,
        front_end,
        owed_work,
        saved,
        slots,
        first_slot,
        references,
        items,
        first_item,
        window_end,
        held_by,
        slots_end,
        walks,
        waits,
        joins,
        pending,
        out,
        bound,
        next_ready,
        next,
        prefetches,
        awaiting,
        last_out
    ],
    arrays: [done, reference_slot, paths],
    parts: [burst, history, fills, l1_port, bases],
    built: [id, in_order, instruction_ps_x1024, rob, rob_time, pending_limit, prefetches_wait, requests],
});

pub(super) const SLOTS: usize = 2048;
pub(super) const REFERENCES: usize = 256;
const UNKNOWN: u64 = u64::MAX;
/// Of what is done for an instruction that does not wait for it.
const NO_ITEM: u64 = u64::MAX;
/// The most items at a time.
const ITEMS: usize = 512;
/// The most requests of a reference: the lines of the largest frame.
const REQUESTS: usize = 160;
/// The most slots that a reference may take: each request may walk four levels of page tables, the walk its latency,
/// a store retires behind it, and one stands for all.
/// Nothing is dispatched when fewer are left before one that something waits for.
const SLOTS_OF_A_REFERENCE: u64 = 8 * REQUESTS as u64;
// What is left is for a window's references: as many as the largest reorder buffers hold, walks included.
const _: () = assert!(SLOTS as u64 >= SLOTS_OF_A_REFERENCE + 512);

/// What retires in program order.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct Item {
    /// When its data are there, [`UNKNOWN`] while that is not known.
    at: u64,
    /// The instruction it belongs to.
    instruction: u64,
    /// Instruction time before it.
    work: Ps,
    /// No slot before this one belongs to it.
    slot: u64,
    kind: RetireKind,
}

#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
enum RetireKind {
    /// A private hit whose address needs no translation: whose, and its latency in picoseconds.
    Hit(Reason, u32),
    /// A reference whose data come along its path, and what the wait for its address is charged to.
    Path(Reason),
    /// A store's translation.
    Translation,
    /// From here on the work is for this packet of the burst, or for none.
    Owner(u32),
}

/// What has become of an attempt to dispatch.
enum Dispatched {
    Something,
    /// What is older comes first.
    Nothing,
    /// Something outside comes first, or nothing is left.
    Outside(CoreStep),
}

/// Where a request's address comes from, and what a wait for it is charged to.
#[derive(Clone, Copy, Debug)]
struct AddressSource {
    after: Option<u64>,
    reason: Reason,
}

/// A private hit whose data or address are not there yet.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct Wait {
    item: u64,
    slot: u64,
    /// Slots that its address comes from, while that is not known.
    address: [Option<u64>; 2],
    line: AwaitedLine,
    /// Not before this: when it was dispatched, or what is known of its address.
    from: Ps,
    latency: Ps,
}

/// The data of a line that a hit waits for, by the slot that it was asked for last.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
enum AwaitedLine {
    /// They are there.
    There,
    /// They come at this time. The slot may be out of use by then.
    Coming(u64, Ps),
    /// The slot is not done.
    Asked(u64),
}

/// A private miss that has not gone out, or whose answer is not known.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Fetch {
    slot: u64,
    /// The item that retires with its data; stores and prefetches have none.
    item: Option<u64>,
    /// Whose buffer it needs.
    by: For,
    request: Request,
    /// What a copy engine is to copy `request`'s line to.
    copy_to: Option<Request>,
    lookup: PrivateLookup,
    /// When the instruction was dispatched.
    dispatched: Ps,
    /// The slot its address comes from.
    after: Option<u64>,
    /// Not before this: its address is known then, or a controller has room.
    not_before: Ps,
    ticket: Option<Ticket>,
    /// How long it waited before it went out.
    waited: Ps,
}

impl Fetch {
    /// The line whose data its answer brings, to the core or to where an engine copies.
    fn brings(&self) -> Option<Line> {
        brought(self.copy_to.as_ref().unwrap_or(&self.request), &self.lookup)
    }

    /// A line comes in from beyond the private caches: not for a copy by an engine, nor where the line is there and only has
    /// to be the core's own.
    fn enters(&self) -> bool {
        self.copy_to.is_none() && !self.lookup.upgrade
    }
}

/// The line whose data the answer to `request` brings; none where it is there and only has to be the core's own.
#[inline(always)]
fn brought(request: &Request, lookup: &PrivateLookup) -> Option<Line> {
    (!lookup.upgrade).then(|| request.addr.line())
}

impl Core {
    /// A core at rest.
    ///
    /// # Errors
    /// A value of the specification outside its range.
    pub fn new(spec: &CoreSpec, id: CoreId, path: &str) -> Result<Core, MachineError> {
        spec.check(path)?;
        let rob = u64::from(spec.rob);
        let instruction_ps_x1024 = (spec.cpi * spec.period().0 as f64 * 1024.0).round() as u64;
        Ok(Core {
            id,
            in_order: spec.model == CoreModel::InOrder,
            instruction_ps_x1024,
            rob,
            rob_time: Ps(((rob * instruction_ps_x1024) >> 10).saturating_sub(rob)),
            pending_limit: spec.store_buffer as usize,
            burst: Burst::new(id),
            worked: false,
            instructions: 0,
            front_end: Ps::ZERO,
            owed_work: Ps::ZERO,
            saved: 0,
            slots: 0,
            done: Box::new([0; SLOTS]),
            reference_slot: Box::new([0; REFERENCES]),
            references: 0,
            items: VecDeque::with_capacity(ITEMS),
            first_item: 0,
            paths: Box::new([Path::default(); ITEMS]),
            window_end: u64::MAX,
            held_by: None,
            slots_end: u64::MAX,
            first_slot: 0,
            walks: Vec::new(),
            waits: Vec::new(),
            history: History::new(rob),
            joins: Vec::new(),
            pending: Vec::new(),
            out: Vec::new(),
            bound: Ps::MAX,
            next_ready: Ps::MAX,
            next: 0,
            prefetches: false,
            prefetches_wait: spec.waiting_prefetches.is_some(),
            awaiting: false,
            last_out: Ps::ZERO,
            fills: FillBuffers::new(spec),
            l1_port: L1Port::new(spec),
            bases: Bases::UNKNOWN,
            requests: Requests::new(),
        })
    }

    /// What is replayed; filled by whoever runs the function.
    pub fn script(&mut self) -> &mut Script {
        &mut self.burst.script
    }

    /// The 64-byte cells of the packets of the next burst that do not lie in one piece, packet by packet; filled
    /// before [`Core::start`].
    pub fn cells(&mut self) -> &mut Vec<Addr> {
        &mut self.burst.cells
    }

    /// Which core it is.
    pub fn id(&self) -> CoreId {
        self.id
    }

    /// Its class of service.
    pub fn clos(&self) -> Clos {
        self.burst.placed.clos
    }

    /// Puts the core's requests into a class of service.
    pub fn set_clos(&mut self, clos: Clos) {
        self.burst.placed.clos = clos;
    }

    /// Begins to replay the script at `at` for the packets of `burst`.
    pub fn start(&mut self, burst: impl IntoIterator<Item = BurstPacket>, at: Ps) {
        debug_assert!(self.is_drained(), "the last burst is complete");
        self.burst.start(burst, at);
        self.bases.forget_packet();
        self.worked = false;
        self.fills.forget(at);
        self.front_end = at;
        self.last_out = at;
        self.owed_work = Ps::ZERO;
        self.saved = 0;
        self.history.clear();
        self.walks.clear();
    }

    /// Instructions replayed so far.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// What so many instructions take if they wait for nothing.
    pub fn time_of(&self, instructions: u64) -> Ps {
        Ps((instructions * self.instruction_ps_x1024) >> 10)
    }

    /// What the burst's time went to for packet `index`: its own work by reason, the work for
    /// others as [`stats::Reason::Burst`]. Sums exactly to the burst's duration.
    pub fn attribution(&self, index: usize) -> Attribution {
        self.burst.attribution(index)
    }

    /// What the whole burst's time went to.
    pub fn burst_attribution(&self) -> Attribution {
        self.burst.total()
    }

    /// Hands over the answer to a request that a controller had.
    pub fn complete(&mut self, ticket: Ticket, response: &Response) {
        if let Some(at) = self.out.iter().position(|f| f.ticket == Some(ticket)) {
            let fetch = self.out.swap_remove(at);
            let mut path = Path::default();
            path.push(Reason::Mshr, fetch.waited);
            path.extend(&response.path);
            let was_full = self.window_end == 0 || self.slots >= self.slots_end;
            self.fills.complete(fetch.brings(), response.at, fetch.slot, &path);
            self.known(&fetch, response.at, &path);
            self.retire_items();
            self.update_limits();
            if was_full && self.has_room() {
                // Room comes with this answer, not earlier, and nothing retires meanwhile.
                self.front_end = self.front_end.max(response.at);
                self.last_out = self.last_out.max(response.at);
            }
        }
    }

    /// The lock that [`CoreStep::Lock`] asked for is the core's from `at` on.
    pub fn grant(&mut self, at: Ps) {
        self.burst.charge(at, Reason::Lock);
        self.front_end = self.front_end.max(self.burst.retired);
    }

    /// Replays on, until the burst is complete or something outside is needed.
    ///
    /// `now` is the simulation's present. Shared memory may be used up to `horizon`, the time of the
    /// next event elsewhere. Regions stay where `layout` has them, but for those that move with packets.
    pub fn step<M: Memory, L: Layout>(&mut self, memory: &mut M, layout: &L, now: Ps, horizon: Ps) -> CoreStep {
        let script = std::mem::take(&mut self.burst.script);
        let step = self.replay(&script, memory, layout, now, horizon);
        self.burst.script = script;
        step
    }

    #[inline(always)]
    fn replay<M: Memory, L: Layout>(
        &mut self,
        script: &Script,
        memory: &mut M,
        layout: &L,
        now: Ps,
        horizon: Ps,
    ) -> CoreStep {
        self.bound = if self.out.is_empty() { Ps::MAX } else { memory.next_answer() };
        loop {
            // Nothing dispatched later can go out before a reference whose turn has come.
            // What is dispatched after an answer may not look into the caches before it is known.
            while self.front_end < self.next_ready.min(self.bound) && self.has_room() {
                if self.prefetches {
                    self.prefetch(memory, horizon);
                    continue;
                }
                if self.has_nothing_older() && self.saved == 0 {
                    self.replay_hits(script, memory, layout);
                }
                match self.dispatch(script, memory, layout, now, horizon) {
                    Dispatched::Something => {}
                    Dispatched::Nothing => break,
                    Dispatched::Outside(step) => return step,
                }
            }
            if let Some(step) = self.go_on(memory, horizon) {
                return step;
            }
        }
    }

    /// Dispatches the instructions before the next act, or the act.
    #[inline(always)]
    fn dispatch<M: Memory, L: Layout>(
        &mut self,
        script: &Script,
        memory: &mut M,
        layout: &L,
        now: Ps,
        horizon: Ps,
    ) -> Dispatched {
        let step = script.step(self.burst.cursor);
        let at_end = step.is_none();
        let instructions = step.map_or(script.trailing(), probe::ScriptStep::instructions);
        if instructions > 0 && !self.worked {
            let saved = self.saved.min(instructions);
            self.saved -= saved;
            let instructions = instructions - saved;
            let time = Ps((u64::from(instructions) * self.instruction_ps_x1024) >> 10);
            self.instructions += u64::from(instructions);
            self.front_end += time;
            self.owed_work += time;
            self.worked = true;
            // There may be no room for more now.
            return Dispatched::Something;
        }
        if at_end {
            if !self.is_drained() {
                return Dispatched::Nothing;
            }
            self.drain();
            // It does not end before the present.
            self.burst.charge(now, Reason::Mshr);
            return Dispatched::Outside(CoreStep::Done(self.burst.retired));
        }
        let (act, next) = script.act(self.burst.cursor);
        match act {
            Act::Touch(r) => {
                if r.access == Access::Atomic && !self.is_drained() {
                    return Dispatched::Nothing;
                }
                self.touch(&r, memory, layout, now, horizon);
            }
            Act::Copy { src, dst } => {
                if !self.copy(src, dst, memory, layout, now, horizon) {
                    return Dispatched::Something;
                }
            }
            Act::Begin(packet) => {
                let index = self.burst.begin(packet);
                self.bases.forget_packet();
                self.change_owner(index);
            }
            Act::End => {
                let none = self.burst.end();
                self.bases.forget_packet();
                self.change_owner(none);
            }
            Act::Lock(_) | Act::Unlock(_) if !self.is_drained() => return Dispatched::Nothing,
            Act::Lock(lock) | Act::Unlock(lock) => {
                self.drain();
                // Locks are taken in order of time.
                if self.burst.retired > horizon {
                    return Dispatched::Outside(CoreStep::At(self.burst.retired));
                }
                self.burst.cursor = next;
                self.worked = false;
                return Dispatched::Outside(match act {
                    Act::Lock(_) => CoreStep::Lock(lock, self.burst.retired),
                    _ => CoreStep::Unlock(lock, self.burst.retired),
                });
            }
            Act::Nothing => {}
        }
        self.burst.cursor = next;
        self.worked = false;
        Dispatched::Something
    }

    /// Dispatches a pair of a copy, or all of it where an engine takes it; says whether nothing of it is left.
    #[inline(always)]
    fn copy<M: Memory, L: Layout>(
        &mut self,
        src: Ref,
        dst: Ref,
        memory: &mut M,
        layout: &L,
        now: Ps,
        horizon: Ps,
    ) -> bool {
        // What no copy engine takes is loads and stores.
        let apart = memory.takes_whole_copies();
        let begun = self.burst.copying.take();
        if apart && begun.is_none() && self.copy_by_engine(&src, &dst, memory, layout) {
            return true;
        }
        let mut copy = begun.unwrap_or(CopyLoop::new(src, dst));
        let Some((load, store)) = copy.next() else { return true };
        if apart || !self.copy_by_engine(&load, &store, memory, layout) {
            self.touch(&load, memory, layout, now, horizon);
            self.touch(&store, memory, layout, now, horizon);
        }
        self.burst.copying = Some(copy);
        false
    }

    /// What goes on while nothing is dispatched: the private miss whose turn it is goes out, or what is known retires. A
    /// step where something outside comes first.
    #[inline(always)]
    fn go_on<M: Memory>(&mut self, memory: &mut M, horizon: Ps) -> Option<CoreStep> {
        let ready = self.next_ready;
        if ready > self.front_end && self.front_end >= self.bound && self.has_room() {
            return Some(CoreStep::At(self.front_end));
        }
        if ready == Ps::MAX {
            if !self.retire_items() {
                return Some(CoreStep::Wait);
            }
            self.update_window();
        } else if ready > horizon || ready >= self.bound {
            return Some(CoreStep::At(ready));
        } else {
            let was_full = self.window_end == 0 || self.slots >= self.slots_end;
            self.issue(self.next, ready, memory);
            self.retire_items();
            self.update_limits();
            if was_full {
                // Room in the store buffer or the window comes with this request, not earlier.
                self.front_end = self.front_end.max(ready);
            }
        }
        None
    }

    /// Whether an instruction more may be dispatched.
    #[inline(always)]
    fn has_room(&self) -> bool {
        self.instructions < self.window_end && self.slots < self.slots_end
    }

    /// Whether what comes next waits for nothing but its address and its own data.
    #[inline(always)]
    fn has_nothing_older(&self) -> bool {
        self.is_drained() && self.out.is_empty() && !self.awaiting
    }

    /// Whether everything dispatched has retired and gone out.
    #[inline(always)]
    fn is_drained(&self) -> bool {
        self.items.is_empty() && self.pending.is_empty()
    }

    /// Brings the limits of dispatch up to date with what waits.
    fn update_limits(&mut self) {
        (self.next_ready, self.next) = (Ps::MAX, 0);
        for (i, fetch) in self.pending.iter().enumerate() {
            // Of those that wait for a free buffer the oldest goes first.
            let order = (self.ready(fetch), fetch.slot);
            if order.0 < self.next_ready
                || order.0 == self.next_ready && order.0 != Ps::MAX && order.1 < self.pending[self.next].slot
            {
                (self.next_ready, self.next) = (order.0, i);
            }
        }
        self.update_window();
    }

    /// Misses that have not gone out.
    fn waiting(&self, by: For) -> usize {
        self.pending.iter().filter(|fetch| fetch.by == by).count()
    }

    #[inline]
    fn update_window(&mut self) {
        self.window_end = match self.items.front() {
            _ if self.held_by.is_some() => 0,
            _ if self.pending.len() >= self.pending_limit && self.waiting(For::Core) >= self.pending_limit => 0,
            None => u64::MAX,
            Some(_) if self.in_order || self.items.len() > ITEMS - REQUESTS => 0,
            Some(oldest) => oldest.instruction + self.rob,
        };
        let waiting = self.pending.iter().chain(&self.out);
        let waited_for = waiting.map(|f| f.slot).chain(self.items.front().map(|i| i.slot));
        self.slots_end = waited_for.min().map_or(u64::MAX, |oldest| oldest + SLOTS as u64 - SLOTS_OF_A_REFERENCE);
    }

    /// Dispatches a reference.
    #[inline(always)]
    fn touch<M: Memory, L: Layout>(&mut self, r: &Ref, memory: &mut M, layout: &L, now: Ps, horizon: Ps) {
        self.prefetches |= self.awaiting;
        self.first_slot = self.slots;
        let after = self.slot_before(r);
        let last = match layout.place_line(r, &self.burst.placed()) {
            Some(addr) => {
                let write = r.access.writes();
                if r.access == Access::Atomic || self.in_order || !memory.repeat(self.id, addr.line(), write) {
                    let request = Request::new(r, &self.burst.placed, addr, r.bytes.max(1));
                    self.request(&request, after, memory, now, horizon);
                } else {
                    let first = self.slots;
                    self.slots += 1;
                    self.wait_for_room();
                    if matches!(r.access, Access::Store | Access::Prefetch) {
                        self.set_done(first, self.front_end.0);
                    } else {
                        let address = AddressSource { after, reason: Reason::Mshr };
                        self.hit(addr.line(), first, address, memory.private_latency(Served::L1));
                    }
                }
                // Its translation may have taken slots before it.
                self.slots - 1
            }
            None => self.touch_lines(r, after, memory, layout, now, horizon),
        };
        self.reference_slot[(self.references % REFERENCES as u64) as usize] = last;
        self.references += 1;
    }

    /// The slot that `r`'s address comes from.
    #[inline(always)]
    fn slot_before(&self, r: &Ref) -> Option<u64> {
        match u64::from(r.dep) {
            0 => None,
            dep if dep > self.references => None,
            dep => {
                let slot = self.reference_slot[((self.references - dep) % REFERENCES as u64) as usize];
                (self.slots - slot < SLOTS as u64).then_some(slot)
            }
        }
    }

    /// Dispatches a copy that an engine takes, within lines or as a whole; says whether one does. It retires, as a
    /// load, once the engine says.
    #[inline(never)]
    fn copy_by_engine<M: Memory, L: Layout>(&mut self, load: &Ref, store: &Ref, memory: &mut M, layout: &L) -> bool {
        let whole = memory.takes_whole_copies();
        let Some((request, dst)) = self.copy_requests(load, store, whole, layout) else { return false };
        if !memory.takes_copy(&request, &dst) {
            return false;
        }
        let after = self.slot_before(load);
        if self.in_order {
            self.front_end = self.front_end.max(self.burst.retired + self.owed_work);
        } else {
            self.wait_for_room();
        }
        let slot = self.slots;
        self.slots += 1;
        self.first_slot = slot;
        let source = self.source(after);
        let fetch = Fetch {
            slot,
            item: Some(self.next_item()),
            by: For::Core,
            request,
            copy_to: Some(dst),
            lookup: PrivateLookup::default(),
            dispatched: self.front_end,
            after: after.filter(|_| source == UNKNOWN),
            not_before: Ps(if source == UNKNOWN { 0 } else { source }),
            ticket: None,
            waited: Ps::ZERO,
        };
        self.set_done(slot, UNKNOWN);
        self.queue(UNKNOWN, RetireKind::Path(Reason::Mshr));
        let ready = self.ready(&fetch);
        if ready < self.next_ready {
            (self.next_ready, self.next) = (ready, self.pending.len());
        }
        self.pending.push(fetch);
        self.held_by = memory.copies_hold().then_some(slot);
        self.saved += memory.copy_saves(u32::from(store.bytes));
        self.update_window();
        // The load and the store.
        for _ in 0..2 {
            self.reference_slot[(self.references % REFERENCES as u64) as usize] = slot;
            self.references += 1;
        }
        true
    }

    /// The requests of a copy within lines, or of a `whole` one; [`None`] if they do not lie in one piece.
    #[inline]
    fn copy_requests<L: Layout>(&self, load: &Ref, store: &Ref, whole: bool, layout: &L) -> Option<(Request, Request)> {
        let placed = &self.burst.placed();
        if whole && !placed.cells.is_empty() {
            return None;
        }
        // Of what lies in one piece the first byte says where.
        let first = |r: &Ref| Ref { bytes: if whole { 1 } else { r.bytes }, ..*r };
        let src = layout.place_line(&first(load), placed)?;
        let dst = layout.place_line(&first(store), placed)?;
        Some((Request::new(load, placed, src, load.bytes), Request::new(store, placed, dst, store.bytes)))
    }

    /// Dispatches a reference that may make any number of requests, and gives the slot that is done
    /// when all of them are.
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "split from `touch`, which is inlined")]
    fn touch_lines<M: Memory, L: Layout>(
        &mut self,
        r: &Ref,
        after: Option<u64>,
        memory: &mut M,
        layout: &L,
        now: Ps,
        horizon: Ps,
    ) -> u64 {
        let mut requests = std::mem::take(&mut self.requests);
        requests.clear();
        layout.place(r, &self.burst.placed(), &mut requests);
        debug_assert!(
            requests.len() <= REQUESTS,
            "{r:?} makes {} requests: make it several references",
            requests.len()
        );
        let first = self.slots;
        for request in &requests {
            self.request(request, after, memory, now, horizon);
        }
        // A reference over two lines is done with the later of them; one that a layout sends
        // nowhere passes on what it depends on itself.
        let last = match (requests.len(), after) {
            (0, Some(after)) => after,
            (0, None) => {
                self.slots += 1;
                self.set_done(first, 0);
                first
            }
            (1, _) => self.slots - 1,
            _ => self.join(first),
        };
        self.requests = requests;
        last
    }

    #[inline(never)]
    fn request<M: Memory>(&mut self, request: &Request, after: Option<u64>, memory: &mut M, now: Ps, horizon: Ps) {
        if self.in_order || request.access == Access::Atomic {
            // Nothing older waits: `update_window` and `step` have seen to that.
            self.front_end = self.front_end.max(self.burst.retired + self.owed_work);
            if request.access == Access::Atomic {
                self.front_end = self.front_end.max(self.last_out);
                // All that is older has retired by then.
                self.history.clear();
            }
        } else {
            self.wait_for_room();
        }
        let waits = !matches!(request.access, Access::Store | Access::Prefetch);
        match memory.translate(request) {
            Translation::Free if self.walks.is_empty() => {
                let address = AddressSource { after, reason: Reason::Mshr };
                self.access(request, address, waits, memory, now, horizon);
            }
            translation => {
                let (address, translated) = self.translated(request, after, translation, memory, now, horizon);
                if let (Access::Store, Some(slot)) = (request.access, translated) {
                    self.retire_translated(slot);
                }
                self.access(request, address, waits, memory, now, horizon);
            }
        }
    }

    /// A store retires before its line is there, but not before its address is translated: until then it may fault.
    #[inline(never)]
    fn retire_translated(&mut self, translated: u64) {
        let (slot, item, at) = (self.slots, self.next_item(), self.source(Some(translated)));
        self.slots += 1;
        self.set_done(slot, at);
        if at == UNKNOWN {
            let address = [Some(translated), None];
            self.waits.push(Wait { item, slot, address, line: AwaitedLine::There, from: Ps::ZERO, latency: Ps::ZERO });
        }
        self.queue(at, RetireKind::Translation);
    }

    /// Looks into the private caches and goes on from there. The instruction retires with the data
    /// if it `waits` for them.
    #[inline]
    fn access<M: Memory>(
        &mut self,
        request: &Request,
        address: AddressSource,
        waits: bool,
        memory: &mut M,
        now: Ps,
        horizon: Ps,
    ) {
        let slot = self.slots;
        self.slots += 1;
        let lookup = memory.lookup(request);
        if lookup.hit != Some(Served::L1) && !lookup.upgrade {
            self.front_end = self.l1_port.enter(self.front_end);
        }
        self.prefetches |= lookup.prefetches;
        let Some(served) = lookup.hit else {
            self.miss(request, &lookup, slot, address, waits, For::Core, memory, horizon);
            return;
        };
        if lookup.has_victims() {
            memory.settle(&lookup, request, now);
        }
        if waits {
            self.hit(request.addr.line(), slot, address, memory.private_latency(served));
        } else if request.access == Access::Load {
            // A table entry of a page walk.
            let latency = memory.private_latency(served).1;
            self.pass_on(slot, Some(request.addr.line()), address.after, latency);
        } else {
            self.set_done(slot, self.front_end.0);
        }
    }

    /// Sends out a line that the prefetcher asks for if a line fill buffer is free; else all that it has asked for waits or
    /// is dropped.
    #[inline(never)]
    fn prefetch<M: Memory>(&mut self, memory: &mut M, horizon: Ps) {
        if self.in_order {
            self.front_end = self.front_end.max(self.burst.retired);
        }
        let free = if self.fills.are_apart() {
            // A queue of its own does not wait for misses that went before; those that wait for the port are in it.
            self.fills.free_ahead(self.front_end) > self.waiting(For::Prefetcher)
        } else {
            self.pending.is_empty() && self.fills.free_from(For::Prefetcher) <= self.front_end
        };
        let free = free && self.last_out <= self.front_end;
        let next = if free { memory.next_prefetch(self.id) } else { None };
        let Some((request, lookup)) = next else {
            self.prefetches = false;
            self.awaiting = self.prefetches_wait && !free;
            return;
        };
        let slot = self.slots;
        self.slots += 1;
        let address = AddressSource { after: None, reason: Reason::Mshr };
        self.miss(&request, &lookup, slot, address, false, For::Prefetcher, memory, horizon);
    }

    /// Makes a translation that is not at hand, or waits for one under way: what the request's address
    /// waits for, and the slot of the translation if it has to be waited for.
    #[inline(never)]
    fn translated<M: Memory>(
        &mut self,
        request: &Request,
        mut after: Option<u64>,
        translation: Translation,
        memory: &mut M,
        now: Ps,
        horizon: Ps,
    ) -> (AddressSource, Option<u64>) {
        match translation {
            Translation::Free => {
                let Core { walks, done, front_end, .. } = self;
                walks.retain(|&(.., slot)| done[(slot % SLOTS as u64) as usize] > front_end.0);
                let same = walks.iter().find(|&&(page, bits, _)| request.page(bits) == page);
                let Some(&(.., walk)) = same else { return (AddressSource { after, reason: Reason::Mshr }, None) };
                let Some(own) = after else {
                    return (AddressSource { after: Some(walk), reason: Reason::Tlb }, Some(walk));
                };
                let (walked, there) = (self.source(Some(walk)), self.source(Some(own)));
                let reason = if walked > there || walked == UNKNOWN { Reason::Tlb } else { Reason::Mshr };
                let both = self.slots;
                self.slots += 1;
                self.set_done(both, walked.max(there));
                if walked.max(there) == UNKNOWN {
                    let (address, from) = ([Some(walk), Some(own)], self.front_end);
                    self.waits.push(Wait {
                        item: NO_ITEM,
                        slot: both,
                        address,
                        line: AwaitedLine::There,
                        from,
                        latency: Ps::ZERO,
                    });
                }
                return (AddressSource { after: Some(both), reason }, Some(walk));
            }
            Translation::Wait(latency) => {
                let slot = self.slots;
                self.slots += 1;
                self.pass_on(slot, None, after, latency);
                after = Some(slot);
            }
            Translation::Walk(walk) => {
                for &addr in walk.entries() {
                    let slot = self.slots;
                    let entry = Request { addr, bytes: 8, access: Access::Load, ..*request };
                    self.access(&entry, AddressSource { after, reason: Reason::Tlb }, false, memory, now, horizon);
                    after = Some(slot);
                }
                if walk.latency() > Ps::ZERO {
                    let slot = self.slots;
                    self.slots += 1;
                    self.pass_on(slot, None, after, walk.latency());
                    after = Some(slot);
                }
                if let Some(slot) = after {
                    let (page, bits) = (request.page(walk.page_bits()), walk.page_bits());
                    // Of a page that was walked for before the latest walk counts.
                    self.walks.retain(|&(other, of, _)| (other, of) != (page, bits));
                    self.walks.push((page, bits, slot));
                }
            }
        }
        (AddressSource { after, reason: Reason::Tlb }, after)
    }

    /// `slot` is done `latency` after dispatch and after `after`, and with the data of `line`, which
    /// may still be on their way.
    fn pass_on(&mut self, slot: u64, line: Option<Line>, after: Option<u64>, latency: Ps) {
        let source = self.source(after);
        let at = match self.wait(NO_ITEM, slot, line, after, latency) {
            Some(wait) => {
                self.waits.push(wait);
                UNKNOWN
            }
            None => {
                let arrives = Ps(self.front_end.0.max(source)) + latency;
                let coming = line.and_then(|line| self.fills.under_way(line, arrives));
                coming.map_or(arrives, |(until, _)| until).0
            }
        };
        self.set_done(slot, at);
    }

    /// What is dispatched waits if it is not known when its address or the data of its `line` are there. `after` is the slot
    /// that its address comes from.
    #[inline]
    fn wait(&self, item: u64, slot: u64, line: Option<Line>, after: Option<u64>, latency: Ps) -> Option<Wait> {
        let source = self.source(after);
        let asked = line.and_then(|line| self.asked(line));
        if asked.is_none() && source != UNKNOWN {
            return None;
        }
        let from = Ps(self.front_end.0.max(if source == UNKNOWN { 0 } else { source }));
        let coming = || line.and_then(|line| self.fills.coming(line, from + latency));
        let line = match asked {
            Some(slot) => AwaitedLine::Asked(slot),
            None => coming().map_or(AwaitedLine::There, |(slot, until)| AwaitedLine::Coming(slot, until)),
        };
        let address = [after.filter(|_| source == UNKNOWN), None];
        Some(Wait { item, slot, address, line, from, latency })
    }

    /// The next instruction is dispatched when that `rob` before it has retired.
    #[inline(always)]
    fn wait_for_room(&mut self) {
        while self.instructions >= self.history.end {
            self.front_end = self.front_end.max(self.history.pop(self.rob));
        }
    }

    /// A private hit of an instruction that waits for its data.
    #[inline(always)]
    fn hit(&mut self, line: Line, slot: u64, address: AddressSource, (reason, latency): (Reason, Ps)) {
        let source = self.source(address.after);
        if source == UNKNOWN || !self.is_drained() || !self.out.is_empty() || address.reason != Reason::Mshr {
            self.queue_hit(line, slot, address, source, reason, latency);
            return;
        }
        let arrives = Ps(self.front_end.0.max(source)) + latency;
        if self.fills.under_way(line, arrives).is_some() {
            self.queue_hit(line, slot, address, source, reason, latency);
            return;
        }
        self.set_done(slot, arrives.0);
        let work = std::mem::take(&mut self.owed_work);
        self.burst.charge_work(work);
        if arrives > self.burst.retired {
            self.burst.charge_hit(arrives, reason, latency, Reason::Mshr);
        }
        self.remember(self.instructions);
    }

    /// The slot that `line` was asked for last, if its answer is not known.
    #[inline]
    fn asked(&self, line: Line) -> Option<u64> {
        let asked = self.pending.iter().chain(&self.out).filter(|fetch| fetch.brings() == Some(line));
        let last = asked.map(|fetch| fetch.slot).max()?;
        self.fills.slot_for(line).is_none_or(|known| known < last).then_some(last)
    }

    #[inline(always)]
    fn source(&self, after: Option<u64>) -> u64 {
        after.map_or(0, |slot| self.done[(slot % SLOTS as u64) as usize])
    }

    /// A private hit that may have to wait: something older, its address or its data may be missing.
    #[inline(never)]
    fn queue_hit(&mut self, line: Line, slot: u64, address: AddressSource, source: u64, reason: Reason, latency: Ps) {
        let item = self.next_item();
        let mut kind = RetireKind::Hit(reason, latency.0 as u32);
        if address.reason != Reason::Mshr {
            self.paths[(item % ITEMS as u64) as usize] = Path::of(reason, latency);
            kind = RetireKind::Path(address.reason);
        }
        let mut at = UNKNOWN;
        if let Some(wait) = self.wait(item, slot, Some(line), address.after, latency) {
            self.waits.push(wait);
        } else {
            let arrives = Ps(self.front_end.0.max(source)) + latency;
            at = arrives.0;
            // The tag is there, but the data may still be on their way.
            if let Some((until, path)) = self.fills.under_way(line, arrives) {
                self.paths[(item % ITEMS as u64) as usize] = *path;
                (at, kind) = (until.0, RetireKind::Path(Reason::Mshr));
            }
        }
        self.set_done(slot, at);
        self.queue(at, kind);
    }

    /// The number of the item that is queued next.
    #[inline(always)]
    fn next_item(&self) -> u64 {
        self.first_item + self.items.len() as u64
    }

    /// Appends an item that is done at `at`, or retires it at once.
    #[inline(always)]
    fn queue(&mut self, at: u64, kind: RetireKind) {
        let work = std::mem::take(&mut self.owed_work);
        let item = Item { at, instruction: self.instructions, work, slot: self.first_slot, kind };
        if self.items.is_empty() && at != UNKNOWN {
            self.retire(&item);
            self.first_item += 1;
            return;
        }
        self.items.push_back(item);
        if self.items.len() == 1 || self.items.len() > ITEMS - REQUESTS {
            self.update_window();
        }
    }

    /// A reference that the private caches do not serve.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "split from `access`")]
    fn miss<M: Memory>(
        &mut self,
        request: &Request,
        lookup: &PrivateLookup,
        slot: u64,
        address: AddressSource,
        waits: bool,
        by: For,
        memory: &mut M,
        horizon: Ps,
    ) {
        let source = self.source(address.after);
        let dispatched = self.front_end;
        let mut fetch = Fetch {
            slot,
            item: waits.then(|| self.next_item()),
            by,
            request: *request,
            copy_to: None,
            lookup: *lookup,
            dispatched,
            after: address.after.filter(|_| source == UNKNOWN),
            not_before: Ps(if source == UNKNOWN { 0 } else { source }),
            ticket: None,
            waited: Ps::ZERO,
        };
        // Nothing dispatched later can go out earlier than this one if it need not wait.
        if source <= dispatched.0
            && self.pending.is_empty()
            && dispatched <= horizon
            && dispatched < self.bound
            && self.fills.free_from(by) <= dispatched
            && (!fetch.enters() || self.fills.turn(dispatched) == dispatched)
        {
            self.last_out = dispatched;
            if fetch.enters() {
                self.fills.take_turn(dispatched);
            }
            match memory.fetch(request, lookup, dispatched) {
                Reply::Done(response) => {
                    self.set_done(slot, response.at.0);
                    self.fills.insert(by, brought(request, lookup), response.at, slot, &response.path);
                    if let Some(item) = fetch.item {
                        self.paths[(item % ITEMS as u64) as usize] = response.path;
                        self.queue(response.at.0, RetireKind::Path(address.reason));
                    }
                    return;
                }
                Reply::Pending(ticket) => {
                    fetch.ticket = Some(ticket);
                    self.bound = self.bound.min(memory.next_answer());
                }
            }
        }
        self.set_done(slot, UNKNOWN);
        if waits {
            self.queue(UNKNOWN, RetireKind::Path(address.reason));
        }
        if fetch.ticket.is_some() {
            self.fills.reserve(by, slot);
            self.out.push(fetch);
            self.update_window();
            return;
        }
        let ready = self.ready(&fetch);
        if ready < self.next_ready {
            (self.next_ready, self.next) = (ready, self.pending.len());
        }
        self.pending.push(fetch);
        self.update_window();
    }

    /// A slot that is done when all slots from `first` on are.
    fn join(&mut self, first: u64) -> u64 {
        let (slot, range) = (self.slots, first..self.slots);
        self.slots += 1;
        let latest = range.clone().map(|s| self.done[(s % SLOTS as u64) as usize]).max().unwrap_or(0);
        self.set_done(slot, latest);
        if latest == UNKNOWN {
            self.joins.push((slot, range));
        }
        slot
    }

    /// Resolves joins whose parts are all known by now.
    fn resolve_joins(&mut self) {
        let done = &mut self.done;
        self.joins.retain(|(slot, range)| {
            let latest = range.clone().map(|s| done[(s % SLOTS as u64) as usize]).max().unwrap_or(0);
            done[(slot % SLOTS as u64) as usize] = latest;
            latest == UNKNOWN
        });
    }

    #[inline(always)]
    fn set_done(&mut self, slot: u64, at: u64) {
        self.done[(slot % SLOTS as u64) as usize] = at;
    }

    /// When a fetch may go out, [`Ps::MAX`] while its address is not known or no buffer is known to become free.
    #[inline]
    fn ready(&self, fetch: &Fetch) -> Ps {
        let source = self.source(fetch.after);
        if source == UNKNOWN {
            return Ps::MAX;
        }
        let free = fetch.dispatched.max(Ps(source)).max(fetch.not_before).max(self.fills.free_from(fetch.by));
        if fetch.enters() { self.fills.turn(free) } else { free }
    }

    /// Sends the fetch at index `at` of `pending` out at time `now`.
    fn issue<M: Memory>(&mut self, at: usize, now: Ps, memory: &mut M) {
        self.last_out = now;
        let fetch = &self.pending[at];
        if fetch.enters() {
            self.fills.take_turn(now);
        }
        let reply = match &fetch.copy_to {
            None => memory.fetch(&fetch.request, &fetch.lookup, now),
            Some(dst) => memory.copy(&fetch.request, dst, now),
        };
        match reply {
            Reply::Done(response) => {
                let fetch = self.pending.swap_remove(at);
                let mut path = Path::default();
                path.push(Reason::Mshr, now.since(self.wanted(&fetch)));
                path.extend(&response.path);
                self.answer(&fetch, response.at, &path);
            }
            Reply::Pending(ticket) => {
                let mut fetch = self.pending.swap_remove(at);
                (fetch.ticket, fetch.waited) = (Some(ticket), now.since(self.wanted(&fetch)));
                self.fills.reserve(fetch.by, fetch.slot);
                self.out.push(fetch);
                self.bound = self.bound.min(memory.next_answer());
            }
        }
    }

    /// From when on `fetch` could have gone out if there had been room.
    fn wanted(&self, fetch: &Fetch) -> Ps {
        fetch.dispatched.max(Ps(self.source(fetch.after))).max(fetch.not_before)
    }

    /// The data of `fetch` are there at `at`.
    fn answer(&mut self, fetch: &Fetch, at: Ps, path: &Path) {
        self.fills.insert(fetch.by, fetch.brings(), at, fetch.slot, path);
        self.known(fetch, at, path);
    }

    /// It is known when the data of `fetch` are there.
    fn known(&mut self, fetch: &Fetch, at: Ps, path: &Path) {
        self.set_done(fetch.slot, at.0);
        if self.held_by == Some(fetch.slot) {
            self.held_by = None;
            self.front_end = self.front_end.max(at);
        }
        if let Some(number) = fetch.item
            && let Some(item) = self.items.get_mut((number - self.first_item) as usize)
        {
            item.at = at.0;
            self.paths[(number % ITEMS as u64) as usize] = *path;
        }
        if !self.joins.is_empty() {
            self.resolve_joins();
        }
        // What waits for it comes later in program order, so one pass resolves whole chains; a join
        // that a hit of the pass completes resolves with the next answer or below.
        self.resolve_waits();
        if !self.joins.is_empty() {
            self.resolve_joins();
            self.resolve_waits();
        }
    }

    fn resolve_waits(&mut self) {
        let Core { waits, done, items, fills, first_item, paths, .. } = self;
        waits.retain(|w| {
            let when = |slot: u64| done[(slot % SLOTS as u64) as usize];
            let addresses = w.address.iter().flatten().map(|&slot| when(slot));
            let Some(address) = known(addresses.fold(w.from.0, u64::max)) else { return true };
            let (line, slot) = match w.line {
                AwaitedLine::There => (0, None),
                AwaitedLine::Coming(slot, until) => (until.0, Some(slot)),
                AwaitedLine::Asked(slot) => (when(slot), Some(slot)),
            };
            let Some(line) = known(line) else { return true };
            let arrives = Ps(address) + w.latency;
            let at = arrives.max(Ps(line));
            done[(w.slot % SLOTS as u64) as usize] = at.0;
            if let Some(item) = items.get_mut(w.item.wrapping_sub(*first_item) as usize) {
                item.at = at.0;
                if at > arrives
                    && let Some(path) = slot.and_then(|slot| fills.path_of(slot))
                {
                    item.kind = RetireKind::Path(Reason::Mshr);
                    paths[(w.item % ITEMS as u64) as usize] = path;
                }
            }
            false
        });
    }

    /// What is dispatched from here on is done for packet `index` of the burst, or for none.
    #[inline(always)]
    fn change_owner(&mut self, index: usize) {
        if self.items.is_empty() {
            let work = std::mem::take(&mut self.owed_work);
            self.burst.charge_work(work);
            self.burst.retiring = index;
        } else {
            self.queue(0, RetireKind::Owner(index as u32));
        }
    }

    /// Retires what can be; says whether anything was.
    fn retire_items(&mut self) -> bool {
        let before = self.first_item;
        while let Some(&item) = self.items.front()
            && item.at != UNKNOWN
        {
            self.retire(&item);
            self.items.pop_front();
            self.first_item += 1;
        }
        self.first_item > before
    }

    /// Retires the first item.
    #[inline(always)]
    fn retire(&mut self, item: &Item) {
        let burst = &mut self.burst;
        burst.charge_work(item.work);
        let at = Ps(item.at);
        match item.kind {
            RetireKind::Owner(index) => {
                burst.retiring = index as usize;
                return;
            }
            RetireKind::Hit(reason, latency) if at > burst.retired => {
                burst.charge_hit(at, reason, Ps(u64::from(latency)), Reason::Mshr);
            }
            RetireKind::Path(address) if at > burst.retired => {
                burst.charge_path(at, &self.paths[(self.first_item % ITEMS as u64) as usize], address);
            }
            RetireKind::Translation if at > burst.retired => burst.charge(at, Reason::Tlb),
            // It held nothing up.
            RetireKind::Translation => return,
            _ => {}
        }
        self.remember(item.instruction);
    }

    /// The reorder buffer has room for an instruction `rob` later once this one has retired.
    #[inline(always)]
    fn remember(&mut self, instruction: u64) {
        // What has retired by the earliest time at which the instruction `rob` later can be dispatched holds up nothing.
        let holds_up = instruction < self.instructions || self.burst.retired > self.front_end + self.rob_time;
        if !self.in_order && holds_up {
            self.history.push(instruction, self.burst.retired, self.rob);
        }
    }

    /// Retires the instructions after the last reference. Stores may have gone out later than the
    /// last instruction retired.
    fn drain(&mut self) {
        let work = std::mem::take(&mut self.owed_work);
        self.burst.charge_work(work);
        self.burst.charge(self.last_out, Reason::Mshr);
        if !self.l1_port.is_free() {
            // Stores that L2 serves were dispatched when their lines could enter L1.
            self.burst.charge(self.front_end, Reason::Mshr);
        }
    }
}

#[inline]
fn known(done: u64) -> Option<u64> {
    (done != UNKNOWN).then_some(done)
}
