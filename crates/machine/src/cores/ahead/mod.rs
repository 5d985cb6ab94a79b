mod hits;

use probe::{Access, Act, CopyLoop, Layout, Ref, Request, Requests, Script};
use stats::{Path, Reason};
use units::{CoreId, Line, Ps};

use super::burst::{Burst, BurstPacket, Step};
use super::fills::{FillBuffers, For, L1Port};
use super::{CoreModel, CoreSpec};
use crate::memory::Translation;
use crate::{Lookup, MachineError, Memory, Reply, Served};
use hits::Bases;

/// A core that runs ahead of the others by up to a fixed time, over memory that answers at once. See the
/// module header of `cores`.
///
/// Misses go out in program order, each with the time at which it would go out, so everything
/// dispatched has retired before the next event is looked at and nothing has to be kept for later.
#[derive(Clone, Debug)]
pub struct Ahead {
    pub(super) in_order: bool,
    /// Picoseconds an instruction takes, in 1/1024.
    pub(super) instruction_ps_x1024: u64,
    pub(super) rob: u64,
    /// What the dispatch of as many instructions takes at least, however they are cut up and each cut rounded down.
    pub(super) rob_time: Ps,
    store_buffer: usize,
    lookahead: Ps,
    /// Whether lines that the prefetcher asks for may wait.
    prefetches_wait: bool,

    pub(super) burst: Burst,
    /// The instructions before the next act are dispatched.
    pub(super) worked: bool,
    pub(super) instructions: u64,
    pub(super) front_end: Ps,
    /// Instruction time dispatched and not yet retired.
    pub(super) owed_work: Ps,
    /// When each of the last references is done.
    pub(super) done: Box<[Ps; REFERENCES]>,
    pub(super) references: usize,
    pub(super) history: History,
    /// When the last miss goes out.
    last_out: Ps,
    /// When stores and prefetches that wait for a line fill buffer go out.
    waiting: Vec<Ps>,
    /// Lines that the prefetcher has asked for may wait for a free buffer.
    awaiting: bool,
    pub(super) fills: FillBuffers,
    pub(super) l1_port: L1Port,
    pub(super) bases: Bases,
    /// Page walks under way: the page, its bits, and when the translation is there.
    walks: Vec<(u64, u32, Ps)>,
    requests: Requests,
}

pub(super) const REFERENCES: usize = 256;

/// Retired references within the reorder buffer: instruction and time, oldest first, in a ring.
#[derive(Clone, Debug)]
pub(super) struct History {
    ring: Box<[(u64, Ps)]>,
    first: usize,
    next: usize,
    /// The instruction that has to wait for the first of them.
    pub(super) end: u64,
}

impl History {
    fn new(rob: u64) -> History {
        // One entry an instruction at most, of which `rob` are kept.
        let ring = vec![(0, Ps::ZERO); (rob as usize + 2).next_power_of_two()];
        History { ring: ring.into(), first: 0, next: 0, end: u64::MAX }
    }

    fn clear(&mut self) {
        (self.first, self.next, self.end) = (0, 0, u64::MAX);
    }

    #[inline(always)]
    fn at(&mut self, index: usize) -> &mut (u64, Ps) {
        let last = self.ring.len() - 1;
        &mut self.ring[index & last]
    }

    /// A reference of `instruction` has retired at `time`. Those of one stretch of instructions count as one.
    #[inline(always)]
    pub(super) fn push(&mut self, instruction: u64, time: Ps, rob: u64) {
        if self.next != self.first {
            let newest = self.next - 1;
            let newest = self.at(newest);
            if newest.0 == instruction {
                newest.1 = time;
                return;
            }
        } else {
            self.end = instruction + rob;
        }
        let next = self.next;
        *self.at(next) = (instruction, time);
        self.next += 1;
    }

    /// When the first reference has retired; it leaves the reorder buffer.
    #[inline]
    pub(super) fn pop(&mut self, rob: u64) -> Ps {
        let first = self.first;
        let time = self.at(first).1;
        self.first += 1;
        let first = self.first;
        self.end = if first == self.next { u64::MAX } else { self.at(first).0 + rob };
        time
    }
}

/// When an address is there, and what a wait for it is charged to.
#[derive(Clone, Copy, Debug)]
struct Address {
    at: Ps,
    reason: Reason,
}

impl Ahead {
    /// A core at rest.
    ///
    /// # Errors
    /// A value of the specification outside its range.
    pub fn new(spec: &CoreSpec, id: CoreId, path: &str) -> Result<Ahead, MachineError> {
        spec.check(path)?;
        let rob = u64::from(spec.rob);
        let instruction_ps_x1024 = (spec.cpi * spec.period().0 as f64 * 1024.0).round() as u64;
        Ok(Ahead {
            in_order: spec.model == CoreModel::InOrder,
            instruction_ps_x1024,
            rob,
            rob_time: Ps(((rob * instruction_ps_x1024) >> 10).saturating_sub(rob)),
            store_buffer: spec.store_buffer as usize,
            lookahead: spec.lookahead.ps(),
            prefetches_wait: spec.waiting_prefetches.is_some(),
            burst: Burst::new(id),
            worked: false,
            instructions: 0,
            front_end: Ps::ZERO,
            owed_work: Ps::ZERO,
            done: Box::new([Ps::ZERO; REFERENCES]),
            references: 0,
            history: History::new(rob),
            last_out: Ps::ZERO,
            waiting: Vec::new(),
            awaiting: false,
            fills: FillBuffers::new(spec),
            l1_port: L1Port::new(spec),
            bases: Bases::UNKNOWN,
            walks: Vec::new(),
            requests: Requests::new(),
        })
    }

    /// As [`super::Core::start`].
    pub fn start(&mut self, burst: impl IntoIterator<Item = BurstPacket>, at: Ps) {
        self.burst.start(burst, at);
        self.bases.forget_packet();
        self.worked = false;
        self.fills.forget(at);
        self.front_end = at;
        self.last_out = at;
        self.owed_work = Ps::ZERO;
        self.history.clear();
        self.waiting.clear();
        self.walks.clear();
    }

    /// Instructions replayed so far.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// As [`super::Core::grant`].
    pub fn grant(&mut self, at: Ps) {
        self.burst.charge(at, Reason::Lock);
        self.front_end = self.front_end.max(self.burst.retired);
    }

    /// As [`super::Core::step`].
    pub fn step<M: Memory, L: Layout>(&mut self, memory: &mut M, layout: &L, horizon: Ps) -> Step {
        let script = std::mem::take(&mut self.burst.script);
        let step = self.replay(&script, memory, layout, horizon);
        self.burst.script = script;
        step
    }

    #[inline(always)]
    fn replay<M: Memory, L: Layout>(&mut self, script: &Script, memory: &mut M, layout: &L, horizon: Ps) -> Step {
        let limit = Ps(horizon.0.saturating_add(self.lookahead.0));
        loop {
            // What waits goes out at a reference once it can, which replaying hits does not look at.
            if !self.awaiting {
                self.replay_hits(script, memory, layout, limit);
            }
            let Some(step) = script.step(self.burst.cursor) else { break };
            if !std::mem::take(&mut self.worked) {
                self.work(step.instructions());
            }
            if let Some(r) = step.reference() {
                let source = self.source(&r);
                let done = match layout.place_line(&r, &self.burst.placed()) {
                    Some(addr)
                        if r.access != Access::Atomic
                            && !self.awaiting
                            && memory.repeat(self.burst.placed.core, addr.line(), r.access.writes()) =>
                    {
                        self.repeat(r.access, addr.line(), source, memory.private_latency(Served::L1))
                    }
                    _ if self.dispatch() > limit => return self.pause(),
                    Some(addr) => {
                        let request = Request::new(&r, &self.burst.placed, addr, r.bytes.max(1));
                        self.request(&request, source, memory)
                    }
                    None => self.touch_lines(&r, source, memory, layout),
                };
                self.done_at(done);
                self.burst.cursor += 1;
                continue;
            }
            let (act, next) = script.act(self.burst.cursor);
            match act {
                Act::Copy { src, dst } => {
                    // What no copy engine takes is loads and stores.
                    let apart = memory.takes_whole_copies();
                    let begun = self.burst.copying.take();
                    if apart && begun.is_none() && self.copy_by_engine(&src, &dst, memory, layout) {
                        self.burst.cursor = next;
                        continue;
                    }
                    let mut copy = begun.unwrap_or(CopyLoop::new(src, dst));
                    if let Some((load, store)) = copy.next() {
                        if apart || !self.copy_by_engine(&load, &store, memory, layout) {
                            for r in [load, store] {
                                let done = self.touch_lines(&r, self.source(&r), memory, layout);
                                self.done_at(done);
                            }
                        }
                        self.burst.copying = Some(copy);
                        if self.dispatch() > limit {
                            return self.pause();
                        }
                        self.worked = true;
                        continue;
                    }
                }
                Act::Begin(packet) => {
                    self.retire_work();
                    self.burst.retiring = self.burst.begin(packet);
                    self.bases.forget_packet();
                }
                Act::End => {
                    self.retire_work();
                    self.burst.retiring = self.burst.end();
                    self.bases.forget_packet();
                }
                Act::Lock(lock) | Act::Unlock(lock) => {
                    self.drain();
                    // Locks are taken in order of time.
                    if self.burst.retired > horizon {
                        self.worked = true;
                        return Step::At(self.burst.retired);
                    }
                    self.burst.cursor = next;
                    return match act {
                        Act::Lock(_) => Step::Lock(lock, self.burst.retired),
                        _ => Step::Unlock(lock, self.burst.retired),
                    };
                }
                Act::Touch(_) | Act::Nothing => {}
            }
            self.burst.cursor = next;
        }
        self.work(script.trailing());
        self.drain();
        Step::Done(self.burst.retired)
    }

    /// When what gave the address of `r` is done.
    #[inline(always)]
    fn source(&self, r: &Ref) -> Ps {
        match usize::from(r.dep) {
            0 => Ps::ZERO,
            dep => self.done[self.references.wrapping_sub(dep) % REFERENCES],
        }
    }

    /// The reference is done at `at`.
    #[inline(always)]
    fn done_at(&mut self, at: Ps) {
        self.done[self.references % REFERENCES] = at;
        self.references = self.references.wrapping_add(1);
    }

    #[inline(always)]
    fn work(&mut self, instructions: u32) {
        let time = Ps((u64::from(instructions) * self.instruction_ps_x1024) >> 10);
        self.instructions += u64::from(instructions);
        self.front_end += time;
        self.owed_work += time;
    }

    /// When the next instruction is dispatched.
    #[inline(always)]
    fn dispatch(&mut self) -> Ps {
        if self.in_order {
            self.front_end = self.front_end.max(self.burst.retired + self.owed_work);
        } else {
            self.wait_for_room();
        }
        self.front_end
    }

    /// The next act comes when others have had their turn.
    fn pause(&mut self) -> Step {
        self.worked = true;
        Step::At(self.front_end)
    }

    /// A reference to the line that L1 has used last: when its data are there.
    #[inline(always)]
    fn repeat(&mut self, access: Access, line: Line, source: Ps, (reason, latency): (Reason, Ps)) -> Ps {
        self.dispatch();
        if matches!(access, Access::Store | Access::Prefetch) {
            return self.front_end;
        }
        self.hit(line, Address { at: source, reason: Reason::Mshr }, reason, latency)
    }

    /// Dispatches a reference that may make any number of requests: when all of them are done. One that a
    /// layout sends nowhere passes on what it depends on itself.
    #[inline(never)]
    fn touch_lines<M: Memory, L: Layout>(&mut self, r: &Ref, source: Ps, memory: &mut M, layout: &L) -> Ps {
        let mut requests = std::mem::take(&mut self.requests);
        requests.clear();
        layout.place(r, &self.burst.placed(), &mut requests);
        let mut done = if requests.is_empty() { source } else { Ps::ZERO };
        for request in &requests {
            done = done.max(self.request(request, source, memory));
        }
        self.requests = requests;
        done
    }

    /// Dispatches a copy that an engine takes, within lines or as a whole; says whether one does. It retires, as a
    /// load, once the engine says.
    #[inline(never)]
    fn copy_by_engine<M: Memory, L: Layout>(&mut self, load: &Ref, store: &Ref, memory: &mut M, layout: &L) -> bool {
        let placed = &self.burst.placed();
        let whole = memory.takes_whole_copies();
        if whole && !placed.cells.is_empty() {
            return false;
        }
        // Of what lies in one piece the first byte says where.
        let first = |r: &Ref| Ref { bytes: if whole { 1 } else { r.bytes }, ..*r };
        let (Some(src), Some(dst)) =
            (layout.place_line(&first(load), placed), layout.place_line(&first(store), placed))
        else {
            return false;
        };
        let src = Request::new(load, placed, src, load.bytes);
        let dst = Request::new(store, placed, dst, store.bytes);
        if !memory.takes_copy(&src, &dst) {
            return false;
        }
        self.dispatch();
        let wanted = self.front_end.max(self.source(load));
        let out = wanted.max(self.fills.free_from(For::Core));
        let Reply::Done(response) = memory.copy(&src, &dst, out) else {
            debug_assert!(false, "memory that answers at once");
            return false;
        };
        self.last_out = self.last_out.max(out);
        let mut path = Path::of(Reason::Mshr, out - wanted);
        path.extend(&response.path);
        self.fills.insert(For::Core, dst.addr.line(), response.at, 0, &path);
        self.retire_work();
        if response.at > self.burst.retired {
            self.burst.charge_path(response.at, &path, Reason::Mshr);
        }
        self.remember();
        if memory.copies_hold() {
            self.front_end = self.front_end.max(response.at);
        }
        // The load and the store.
        self.done_at(response.at);
        self.done_at(response.at);
        true
    }

    /// Dispatches a request whose address comes from what is done at `source`: when its data are there.
    #[inline(never)]
    fn request<M: Memory>(&mut self, request: &Request, source: Ps, memory: &mut M) -> Ps {
        self.dispatch();
        if request.access == Access::Atomic {
            self.front_end = self.front_end.max(self.burst.retired + self.owed_work).max(self.last_out);
        }
        let waits = !matches!(request.access, Access::Store | Access::Prefetch);
        let address = match memory.translate(request) {
            Translation::Free if self.walks.is_empty() => Address { at: source, reason: Reason::Mshr },
            translation => {
                let (address, translated) = self.translated(request, source, translation, memory);
                if let (Access::Store, Some(at)) = (request.access, translated) {
                    self.retire_translated(at);
                }
                address
            }
        };
        self.access(request, address, waits, memory)
    }

    /// A store retires before its line is there, but not before its address is translated: until then it may fault.
    #[inline(never)]
    fn retire_translated(&mut self, at: Ps) {
        self.retire_work();
        if at > self.burst.retired {
            self.burst.charge(at, Reason::Tlb);
            self.remember();
        }
    }

    /// Looks into the private caches and goes on from there: when the data are there. The instruction retires
    /// with them if it `waits`.
    #[inline]
    fn access<M: Memory>(&mut self, request: &Request, address: Address, waits: bool, memory: &mut M) -> Ps {
        let lookup = memory.lookup(request);
        if lookup.hit != Some(Served::L1) && !lookup.upgrade {
            self.front_end = self.l1_port.enter(self.front_end);
        }
        let prefetches = lookup.prefetches || self.awaiting;
        let Some(served) = lookup.hit else {
            let done = self.miss(request, &lookup, address, waits, For::Core, memory);
            if prefetches {
                self.prefetch(memory);
            }
            return done;
        };
        if lookup.has_victims() {
            memory.settle(&lookup, request, self.front_end);
        }
        if prefetches {
            self.prefetch(memory);
        }
        let (reason, latency) = memory.private_latency(served);
        if waits {
            self.hit(request.addr.line(), address, reason, latency)
        } else if request.access == Access::Load {
            // A table entry of a page walk.
            let arrives = self.front_end.max(address.at) + latency;
            self.fills.under_way(request.addr.line(), arrives).map_or(arrives, |(until, _)| until)
        } else {
            self.front_end
        }
    }

    /// A private hit of an instruction that waits for its data: when they are there.
    #[inline(always)]
    fn hit(&mut self, line: Line, address: Address, reason: Reason, latency: Ps) -> Ps {
        let arrives = self.front_end.max(address.at) + latency;
        self.retire_work();
        // The tag is there, but the data may still be on their way.
        if let Some((until, path)) = self.fills.under_way(line, arrives) {
            if until > self.burst.retired {
                self.burst.charge_path(until, path, Reason::Mshr);
            }
            self.remember();
            return until;
        }
        if arrives > self.burst.retired {
            self.burst.charge_hit(arrives, reason, latency, address.reason);
        }
        self.remember();
        arrives
    }

    /// A reference that the private caches do not serve: when its data are there.
    #[inline]
    fn miss<M: Memory>(
        &mut self,
        request: &Request,
        lookup: &Lookup,
        address: Address,
        waits: bool,
        by: For,
        memory: &mut M,
    ) -> Ps {
        let wanted = self.front_end.max(address.at);
        let free = wanted.max(self.fills.free_from(by));
        // For a line that is there and only has to be its own nothing comes in.
        let out = if lookup.upgrade { free } else { self.fills.take_turn(free) };
        let response = match memory.fetch(request, lookup, out) {
            Reply::Done(response) => response,
            // Nothing can be waited for here: the server gives cores of this kind no controller.
            Reply::Pending(_) => {
                debug_assert!(false, "memory that answers at once");
                return out;
            }
        };
        self.last_out = self.last_out.max(out);
        let mut path = response.path;
        if out > wanted {
            path = Path::of(Reason::Mshr, out - wanted);
            path.extend(&response.path);
        }
        self.fills.insert(by, request.addr.line(), response.at, 0, &path);
        if waits {
            self.retire_work();
            if response.at > self.burst.retired {
                self.burst.charge_path(response.at, &path, address.reason);
            }
            self.remember();
        } else if out > self.front_end && by == For::Core {
            self.wait_in_store_buffer(out);
        }
        response.at
    }

    /// What does not wait for its data waits in the store buffer until it goes out at `out`; if that is
    /// full, dispatch waits too.
    #[inline(never)]
    fn wait_in_store_buffer(&mut self, out: Ps) {
        let front_end = self.front_end;
        self.waiting.retain(|&at| at > front_end);
        self.waiting.push(out);
        if self.waiting.len() >= self.store_buffer
            && let Some(&first) = self.waiting.iter().min()
        {
            self.front_end = first;
        }
    }

    /// The next instruction is dispatched when that `rob` before it has retired.
    #[inline(always)]
    fn wait_for_room(&mut self) {
        while self.instructions >= self.history.end {
            self.front_end = self.front_end.max(self.history.pop(self.rob));
        }
    }

    /// The last reference has retired: the reorder buffer has room for an instruction `rob` later.
    #[inline(always)]
    fn remember(&mut self) {
        // What has retired by the earliest time at which the instruction `rob` later can be dispatched holds up nothing.
        if !self.in_order && self.burst.retired > self.front_end + self.rob_time {
            self.history.push(self.instructions, self.burst.retired, self.rob);
        }
    }

    #[inline(always)]
    fn retire_work(&mut self) {
        let work = std::mem::take(&mut self.owed_work);
        self.burst.charge_work(work);
    }

    /// Sends out lines that the prefetcher asks for while buffers are free; the rest waits or is dropped. A queue of its
    /// own does not wait for misses that went before.
    #[inline(never)]
    fn prefetch<M: Memory>(&mut self, memory: &mut M) {
        let earliest = if self.fills.are_apart() { Ps::ZERO } else { self.last_out };
        self.awaiting = self.prefetches_wait;
        while self.fills.free_from(For::Prefetcher).max(earliest) <= self.front_end {
            let Some((request, lookup)) = memory.next_prefetch(self.burst.placed.core) else {
                self.awaiting = false;
                break;
            };
            let address = Address { at: Ps::ZERO, reason: Reason::Mshr };
            self.miss(&request, &lookup, address, false, For::Prefetcher, memory);
        }
    }

    /// Makes a translation that is not at hand, or waits for one under way: when the address is there, and when the
    /// translation is if it has to be waited for.
    #[inline(never)]
    fn translated<M: Memory>(
        &mut self,
        request: &Request,
        source: Ps,
        translation: Translation,
        memory: &mut M,
    ) -> (Address, Option<Ps>) {
        let at = match translation {
            Translation::Free => {
                let front_end = self.front_end;
                self.walks.retain(|&(.., until)| until > front_end);
                let same = self.walks.iter().find(|&&(page, bits, _)| request.page(bits) == page);
                let translated = same.map(|&(.., until)| until);
                match translated {
                    Some(until) if until > source => until,
                    _ => return (Address { at: source, reason: Reason::Mshr }, translated),
                }
            }
            Translation::Wait(latency) => self.front_end.max(source) + latency,
            Translation::Walk(walk) => {
                let mut at = source;
                for &addr in walk.entries() {
                    let entry = Request { addr, bytes: 8, access: Access::Load, ..*request };
                    at = self.access(&entry, Address { at, reason: Reason::Tlb }, false, memory);
                }
                at += walk.latency();
                let (page, bits) = (request.page(walk.page_bits()), walk.page_bits());
                // Of a page that was walked for before the latest walk counts.
                self.walks.retain(|&(other, of, _)| (other, of) != (page, bits));
                self.walks.push((page, bits, at));
                at
            }
        };
        (Address { at, reason: Reason::Tlb }, Some(at))
    }

    /// Retires the instructions after the last reference. Stores may have gone out later than the
    /// last instruction retired.
    fn drain(&mut self) {
        self.retire_work();
        self.burst.charge(self.last_out, Reason::Mshr);
        if !self.l1_port.is_free() {
            // Stores that L2 serves were dispatched when their lines could enter L1.
            self.burst.charge(self.front_end, Reason::Mshr);
        }
    }
}
