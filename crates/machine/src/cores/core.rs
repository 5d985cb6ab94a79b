use std::collections::VecDeque;

use probe::{Access, Event, Layout, Placed, Probe, Record, Request, Requests};
use stats::{Attribution, Path, Reason};
use units::{Addr, Clos, CoreId, Line, LockId, PacketId, Ps, Ticket};

use super::{CoreModel, CoreSpec};
use crate::{Lookup, MachineError, Memory, Reply, Response};

/// Where a packet of the current burst lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstPacket {
    /// The packet.
    pub id: PacketId,
    /// Its mbuf header.
    pub mbuf: Addr,
    /// Its first data byte.
    pub data: Addr,
}

/// Why [`Core::step`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The burst is complete at this time.
    Done(Ps),
    /// The core needs shared memory at this time: step again once that is the present.
    At(Ps),
    /// A controller has to answer first: see [`Core::complete`].
    Wait,
    /// The core wants a lock from this time on: see [`Core::grant`].
    Lock(LockId, Ps),
    /// The core gives a lock back at this time. Step again.
    Unlock(LockId, Ps),
}

/// A core that replays a recorded burst. See the module header of `cores`.
#[derive(Clone, Debug)]
pub struct Core {
    id: CoreId,
    clos: Clos,
    in_order: bool,
    /// Picoseconds an instruction takes, in 1/1024.
    instruction_ps_x1024: u64,
    rob: u64,
    pending_limit: usize,

    /// What is replayed; filled by whoever runs the function.
    pub record: Record,
    burst: Vec<BurstPacket>,
    cursor: usize,
    /// Time charged to each packet of the burst, and last to none of them.
    own: Vec<Attribution>,
    started: Ps,

    /// Instructions dispatched.
    instructions: u64,
    /// The packet whose events are dispatched, as an index into `burst`.
    dispatching: usize,
    front_end: Ps,
    /// Instruction time dispatched since the last item.
    owed_work: Ps,
    /// Slots given out: one a request.
    slots: u64,
    /// When each of the last slots is done, [`UNKNOWN`] while it is not known.
    done: Box<[u64; SLOTS]>,
    /// The last slot of each of the last references.
    reference_slot: Box<[u64; REFERENCES]>,
    references: u64,
    /// Not yet retired, in program order; empty while everything dispatched is known.
    items: VecDeque<Item>,
    /// Retired references within the reorder buffer: instruction and time.
    history: VecDeque<(u64, Ps)>,
    retired: Ps,
    /// The packet whose work retires.
    retiring: usize,
    /// Slots that stand for several, with those that they stand for.
    joins: Vec<(u64, std::ops::Range<u64>)>,
    /// Private misses that still wait for their turn.
    pending: Vec<Fetch>,
    /// Private misses under way, one a line fill buffer.
    buffers: Vec<Buffer>,
    /// When the last of them has its data.
    latest_fill: Ps,
    requests: Requests,
}

const SLOTS: usize = 1024;
const REFERENCES: usize = 256;
const UNKNOWN: u64 = u64::MAX;

#[derive(Clone, Debug)]
enum Item {
    Reference { slot: u64, work: Ps, instruction: u64, path: Path, wait: Option<Wait> },
    Begin { work: Ps, packet: usize },
    End { work: Ps },
}

/// A private hit whose data or address are not there yet.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// The slot that has to be done first.
    on: u64,
    /// The data come with that slot: nothing is added to it.
    same_line: bool,
    dispatched: Ps,
    latency: Ps,
}

/// A private miss that has not gone out.
#[derive(Clone, Debug)]
struct Fetch {
    slot: u64,
    request: Request,
    lookup: Lookup,
    /// When the instruction was dispatched.
    dispatched: Ps,
    /// The slot its address comes from.
    after: Option<u64>,
    /// Not before this (a controller was full).
    not_before: Ps,
    /// A retiring instruction waits for the data.
    blocks: bool,
    ticket: Option<Ticket>,
}

#[derive(Clone, Copy, Debug)]
struct Buffer {
    line: Line,
    until: Ps,
    slot: u64,
    path: Path,
}

impl Core {
    /// A core at rest.
    ///
    /// # Errors
    /// A value of the specification outside its range.
    pub fn new(spec: &CoreSpec, id: CoreId, path: &str) -> Result<Core, MachineError> {
        spec.check(path)?;
        let idle = Buffer { line: Line(u64::MAX), until: Ps::ZERO, slot: 0, path: Path::default() };
        Ok(Core {
            id,
            clos: Clos(0),
            in_order: spec.model == CoreModel::InOrder,
            instruction_ps_x1024: (spec.cpi * spec.period().0 as f64 * 1024.0).round() as u64,
            rob: u64::from(spec.rob),
            pending_limit: spec.store_buffer as usize,
            record: Record::new(),
            burst: Vec::new(),
            cursor: 0,
            own: Vec::new(),
            started: Ps::ZERO,
            instructions: 0,
            dispatching: 0,
            front_end: Ps::ZERO,
            owed_work: Ps::ZERO,
            slots: 0,
            done: Box::new([0; SLOTS]),
            reference_slot: Box::new([0; REFERENCES]),
            references: 0,
            items: VecDeque::new(),
            history: VecDeque::new(),
            retired: Ps::ZERO,
            retiring: 0,
            joins: Vec::new(),
            pending: Vec::new(),
            buffers: vec![idle; spec.outstanding as usize],
            latest_fill: Ps::ZERO,
            requests: Requests::new(),
        })
    }

    /// Which core it is.
    pub fn id(&self) -> CoreId {
        self.id
    }

    /// Puts the core's requests into a class of service.
    pub fn set_clos(&mut self, clos: Clos) {
        self.clos = clos;
    }

    /// Begins to replay `record` at `at` for the packets of `burst`.
    pub fn start(&mut self, burst: impl IntoIterator<Item = BurstPacket>, at: Ps) {
        debug_assert!(self.items.is_empty() && self.pending.is_empty(), "the last burst is complete");
        self.burst.clear();
        self.burst.extend(burst);
        self.cursor = 0;
        self.own.clear();
        self.own.resize(self.burst.len() + 1, Attribution::default());
        self.started = at;
        self.front_end = at;
        self.retired = at;
        self.owed_work = Ps::ZERO;
        self.history.clear();
        self.dispatching = self.burst.len();
        self.retiring = self.burst.len();
    }

    /// Instructions replayed so far.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// What the burst's time went to for packet `index`: its own work by reason, the work for
    /// others as [`Reason::Burst`]. Sums exactly to the burst's duration.
    pub fn attribution(&self, index: usize) -> Attribution {
        let mut own = self.own[index];
        own.charge(Reason::Burst, (self.retired - self.started).since(own.total()));
        own
    }

    /// What the whole burst's time went to.
    pub fn burst_attribution(&self) -> Attribution {
        self.own.iter().fold(Attribution::default(), |sum, own| &sum + own)
    }

    /// Hands over the answer to a request that a controller had.
    pub fn complete(&mut self, ticket: Ticket, response: &Response) {
        if let Some(at) = self.pending.iter().position(|f| f.ticket == Some(ticket)) {
            let fetch = self.pending.swap_remove(at);
            self.answer(&fetch, response.at, &response.path);
        }
    }

    /// The lock that [`Step::Lock`] asked for is the core's from `at` on.
    pub fn grant(&mut self, at: Ps) {
        let wait = at.since(self.retired);
        self.own[self.retiring].charge(Reason::Lock, wait);
        self.retired += wait;
        self.front_end = self.front_end.max(self.retired);
    }

    /// Replays on, until the burst is complete or something outside is needed.
    ///
    /// `now` is the simulation's present. Shared memory may be used up to `horizon`, the time of the
    /// next event elsewhere.
    pub fn step<M: Memory, L: Layout>(&mut self, memory: &mut M, layout: &L, now: Ps, horizon: Ps) -> Step {
        loop {
            while self.may_dispatch() {
                match self.record.event(self.cursor) {
                    Some((event, next)) => {
                        if let Event::Lock(lock) | Event::Unlock(lock) = event {
                            if !self.items.is_empty() || !self.pending.is_empty() {
                                break;
                            }
                            self.cursor = next;
                            self.retire_work();
                            return match event {
                                Event::Lock(_) => Step::Lock(lock, self.retired),
                                _ => Step::Unlock(lock, self.retired),
                            };
                        }
                        if matches!(event, Event::Touch(r) if r.access == Access::Atomic)
                            && !(self.items.is_empty() && self.pending.is_empty())
                        {
                            break;
                        }
                        self.cursor = next;
                        self.dispatch(event, memory, layout, now, horizon);
                    }
                    None if self.items.is_empty() && self.pending.is_empty() => {
                        self.retire_work();
                        // The last stores may have gone out later than the last instruction retired.
                        let wait = now.since(self.retired);
                        self.own[self.retiring].charge(Reason::Mshr, wait);
                        self.retired += wait;
                        return Step::Done(self.retired);
                    }
                    None => break,
                }
            }
            let Some((at, ready)) = self.next_fetch() else {
                if self.retire_items() {
                    continue;
                }
                return Step::Wait;
            };
            if ready > horizon {
                return Step::At(ready);
            }
            self.issue(at, ready, memory);
            self.retire_items();
        }
    }

    /// Whether the reorder buffer and the store buffer have room.
    #[inline]
    fn may_dispatch(&self) -> bool {
        if self.items.is_empty() {
            return self.pending.len() < self.pending_limit;
        }
        let oldest = match self.items.front() {
            Some(Item::Reference { instruction, .. }) => *instruction,
            _ => self.instructions,
        };
        !self.in_order
            && self.instructions - oldest < self.rob
            && self.pending.len() < self.pending_limit
            && self.items.len() < SLOTS / 4
    }

    fn dispatch<M: Memory, L: Layout>(&mut self, event: Event, memory: &mut M, layout: &L, now: Ps, horizon: Ps) {
        match event {
            Event::Work { instructions, .. } => {
                let time = Ps((u64::from(instructions) * self.instruction_ps_x1024) >> 10);
                self.instructions += u64::from(instructions);
                self.front_end += time;
                self.owed_work += time;
            }
            Event::Touch(r) => {
                let mut requests = std::mem::take(&mut self.requests);
                requests.clear();
                layout.place(&r, &self.placed(), &mut requests);
                let after = (r.dep != 0 && u64::from(r.dep) <= self.references)
                    .then(|| self.reference_slot[((self.references - u64::from(r.dep)) % REFERENCES as u64) as usize])
                    .filter(|&slot| self.slots - slot < SLOTS as u64);
                let first = self.slots;
                for request in &requests {
                    self.request(*request, after, memory, now, horizon);
                }
                // A reference over two lines is done with the later of them; one that a layout sends
                // nowhere passes on what it depends on itself.
                let last = match requests.len() {
                    0 => after.unwrap_or(first),
                    1 => first,
                    _ => self.join(first),
                };
                if requests.is_empty() && after.is_none() {
                    self.slots += 1;
                    self.set_done(last, 0);
                }
                self.reference_slot[(self.references % REFERENCES as u64) as usize] = last;
                self.references += 1;
                self.requests = requests;
            }
            Event::Copy { src, dst } => {
                // Without a copy engine a copy is loads and stores.
                let mut expanded = Record::new();
                CopyLoop(&mut expanded).copy(src, dst);
                for event in expanded.iter() {
                    self.dispatch(event, memory, layout, now, horizon);
                }
            }
            Event::Begin(packet) => {
                let index = self.index_of(packet);
                self.dispatching = index;
                let work = std::mem::take(&mut self.owed_work);
                self.retire_or_queue(Item::Begin { work, packet: index });
            }
            Event::End(_) => {
                self.dispatching = self.burst.len();
                let work = std::mem::take(&mut self.owed_work);
                self.retire_or_queue(Item::End { work });
            }
            Event::Latch { .. } | Event::Lock(_) | Event::Unlock(_) => {}
        }
    }

    fn placed(&self) -> Placed<'static> {
        let nowhere = BurstPacket { id: PacketId(0), mbuf: Addr(0), data: Addr(0) };
        let packet = self.burst.get(self.dispatching).unwrap_or(&nowhere);
        Placed { packet: packet.id, core: self.id, clos: self.clos, mbuf: packet.mbuf, data: packet.data, cells: &[] }
    }

    /// Stage by stage, a function works on the packets of a burst in order: the next one is looked
    /// at first.
    fn index_of(&self, packet: PacketId) -> usize {
        let n = self.burst.len();
        let first = if self.dispatching >= n { 0 } else { self.dispatching };
        (0..n).map(|i| (first + i) % n).find(|&i| self.burst[i].id == packet).unwrap_or(n)
    }

    fn request<M: Memory>(&mut self, request: Request, after: Option<u64>, memory: &mut M, now: Ps, horizon: Ps) {
        let slot = self.slots;
        self.slots += 1;
        if self.in_order || request.access == Access::Atomic {
            // Nothing older is under way: `may_dispatch` and `step` have seen to that.
            self.front_end = self.front_end.max(self.retired + self.owed_work);
        } else {
            while let Some(&(instruction, retired)) = self.history.front()
                && instruction + self.rob <= self.instructions
            {
                self.front_end = self.front_end.max(retired);
                self.history.pop_front();
            }
        }
        let dispatched = self.front_end;
        let blocks = !matches!(request.access, Access::Store | Access::Prefetch);
        let lookup = memory.lookup(&request);
        let line = request.addr.line();
        let source = after.map_or(0, |slot| self.done[(slot % SLOTS as u64) as usize]);
        let work = std::mem::take(&mut self.owed_work);
        let instruction = self.instructions;

        if let Some(served) = lookup.hit {
            if lookup.has_victims() {
                memory.settle(&lookup, &request, now);
            }
            if !blocks {
                self.set_done(slot, dispatched.0);
                self.owed_work = work;
                return;
            }
            let (reason, latency) = memory.private_latency(served);
            let mut arrives = Ps(dispatched.0.max(if source == UNKNOWN { 0 } else { source })) + latency;
            if source != UNKNOWN && self.latest_fill <= arrives && self.pending.is_empty() && self.items.is_empty() {
                // Nothing is under way: what most references meet.
                self.set_done(slot, arrives.0);
                self.charge_work(work);
                if arrives > self.retired {
                    let wait = arrives - self.retired;
                    let own = &mut self.own[self.retiring];
                    own.charge(reason, wait.min(latency));
                    own.charge(Reason::Mshr, wait.since(latency));
                    self.retired = arrives;
                }
                self.remember(instruction);
                return;
            }
            let mut path = Path::of(reason, latency);
            // The tag is there, but the data may still be on their way, or not even asked for.
            let mut wait = (source == UNKNOWN).then_some(after).flatten().map(|on| Wait {
                on,
                same_line: false,
                dispatched,
                latency,
            });
            if let Some(buffer) = self.buffers.iter().find(|b| b.line == line && b.until > arrives) {
                (arrives, path) = (buffer.until, buffer.path);
            } else if let Some(fetch) = self.pending.iter().find(|f| f.request.addr.line() == line) {
                wait = Some(Wait { on: fetch.slot, same_line: true, dispatched, latency });
            }
            self.set_done(slot, if wait.is_some() { UNKNOWN } else { arrives.0 });
            self.retire_or_queue(Item::Reference { slot, work, instruction, path, wait });
            return;
        }

        let fetch = Fetch {
            slot,
            request,
            lookup,
            dispatched,
            after: (source == UNKNOWN).then_some(after).flatten(),
            not_before: Ps(if source == UNKNOWN { 0 } else { source }),
            blocks,
            ticket: None,
        };
        self.set_done(slot, UNKNOWN);
        if blocks {
            self.items.push_back(Item::Reference { slot, work, instruction, path: Path::default(), wait: None });
        } else {
            self.owed_work = work;
        }
        // Nothing dispatched later can go out earlier than this one if it need not wait.
        let now = self.pending.is_empty() && dispatched <= horizon;
        let now = now && self.ready(&fetch) == Some(dispatched) && self.buffer_free() <= dispatched;
        self.pending.push(fetch);
        if now {
            self.issue(0, dispatched, memory);
            self.retire_items();
        }
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

    #[inline]
    fn set_done(&mut self, slot: u64, at: u64) {
        self.done[(slot % SLOTS as u64) as usize] = at;
    }

    /// When a fetch may go out, [`None`] while its address is not known or a controller has it.
    #[inline]
    fn ready(&self, fetch: &Fetch) -> Option<Ps> {
        if fetch.ticket.is_some() {
            return None;
        }
        let source = match fetch.after {
            Some(slot) => match self.done[(slot % SLOTS as u64) as usize] {
                UNKNOWN => return None,
                at => Ps(at),
            },
            None => Ps::ZERO,
        };
        Some(fetch.dispatched.max(source).max(fetch.not_before))
    }

    /// When a line fill buffer is free.
    #[inline]
    fn buffer_free(&self) -> Ps {
        self.buffers.iter().map(|b| b.until).min().unwrap_or(Ps::ZERO)
    }

    /// The fetch that goes out next, as an index into `pending`, and when.
    fn next_fetch(&self) -> Option<(usize, Ps)> {
        if self.pending.is_empty() {
            return None;
        }
        let free = self.buffer_free();
        let ready = self.pending.iter().enumerate().filter_map(|(i, f)| Some((self.ready(f)?.max(free), f.slot, i)));
        ready.min().map(|(at, _, i)| (i, at))
    }

    /// Sends the fetch at index `at` of `pending` out at time `now`.
    fn issue<M: Memory>(&mut self, at: usize, now: Ps, memory: &mut M) {
        let fetch = &self.pending[at];
        match memory.fetch(&fetch.request, &fetch.lookup, now) {
            Reply::Done(response) => {
                let fetch = self.pending.swap_remove(at);
                let wanted = fetch.dispatched.max(fetch.not_before);
                let mut path = Path::default();
                path.push(Reason::Mshr, now.since(wanted));
                path.extend(&response.path);
                self.answer(&fetch, response.at, &path);
            }
            Reply::Pending(ticket) => self.pending[at].ticket = Some(ticket),
            // At least a picosecond on, or the core would ask for ever.
            Reply::Retry(at_time) => self.pending[at].not_before = at_time.max(now + Ps(1)),
        }
    }

    /// The data of `fetch` are there at `at`.
    fn answer(&mut self, fetch: &Fetch, at: Ps, path: &Path) {
        self.set_done(fetch.slot, at.0);
        self.latest_fill = self.latest_fill.max(at);
        if let Some(buffer) = self.buffers.iter_mut().min_by_key(|b| b.until) {
            *buffer = Buffer { line: fetch.request.addr.line(), until: at, slot: fetch.slot, path: *path };
        }
        if !self.joins.is_empty() {
            self.resolve_joins();
        }
        // What waits for it comes later in program order, so one pass resolves whole chains; a join
        // that a hit of the pass completes resolves with the next answer or below.
        self.resolve_waits(fetch, path);
        if !self.joins.is_empty() {
            self.resolve_joins();
            self.resolve_waits(fetch, path);
        }
    }

    fn resolve_waits(&mut self, fetch: &Fetch, path: &Path) {
        for item in &mut self.items {
            if let Item::Reference { slot, path: item_path, wait, .. } = item {
                if *slot == fetch.slot && fetch.blocks {
                    *item_path = *path;
                } else if let Some(w) = *wait
                    && let Some(source) = known(self.done[(w.on % SLOTS as u64) as usize])
                {
                    let mut done = Ps(source).max(w.dispatched + w.latency);
                    if !w.same_line {
                        done = done.max(Ps(source) + w.latency);
                    }
                    if let Some(b) = self.buffers.iter().find(|b| b.slot == w.on && w.same_line) {
                        *item_path = b.path;
                    }
                    self.done[(*slot % SLOTS as u64) as usize] = done.0;
                    *wait = None;
                }
            }
        }
    }

    #[inline]
    fn retire_or_queue(&mut self, item: Item) {
        if self.items.is_empty() && self.try_retire(&item) {
            return;
        }
        self.items.push_back(item);
    }

    /// Retires what can be; says whether anything was.
    fn retire_items(&mut self) -> bool {
        let mut any = false;
        while let Some(item) = self.items.pop_front() {
            if !self.try_retire(&item) {
                self.items.push_front(item);
                break;
            }
            any = true;
        }
        any
    }

    #[inline]
    fn try_retire(&mut self, item: &Item) -> bool {
        match item {
            Item::Reference { slot, work, instruction, path, .. } => {
                let done = self.done[(slot % SLOTS as u64) as usize];
                if done == UNKNOWN {
                    return false;
                }
                self.charge_work(*work);
                let own = &mut self.own[self.retiring];
                if done > self.retired.0 {
                    // Beyond the reference's own path lies the wait for its address.
                    path.charge_tail(Ps(done) - self.retired, Reason::Mshr, own);
                    self.retired = Ps(done);
                }
                self.remember(*instruction);
            }
            Item::Begin { work, packet } => {
                self.charge_work(*work);
                self.retiring = *packet;
            }
            Item::End { work } => {
                self.charge_work(*work);
                self.retiring = self.burst.len();
            }
        }
        true
    }

    /// The reorder buffer has room for an instruction `rob` later once this one has retired.
    #[inline]
    fn remember(&mut self, instruction: u64) {
        if self.in_order {
            return;
        }
        // References of one stretch of instructions retire together for this purpose.
        match self.history.back_mut() {
            Some(last) if last.0 == instruction => last.1 = self.retired,
            _ => self.history.push_back((instruction, self.retired)),
        }
    }

    #[inline]
    fn charge_work(&mut self, work: Ps) {
        self.own[self.retiring].charge(Reason::Core, work);
        self.retired += work;
    }

    /// Retires the instructions after the last reference.
    fn retire_work(&mut self) {
        let work = std::mem::take(&mut self.owed_work);
        self.charge_work(work);
    }
}

#[inline]
fn known(done: u64) -> Option<u64> {
    (done != UNKNOWN).then_some(done)
}

/// Turns a copy into the loads and stores of a copy loop.
struct CopyLoop<'a>(&'a mut Record);

impl probe::Probe for CopyLoop<'_> {
    fn touch(&mut self, r: probe::Ref) {
        self.0.touch(r);
    }
}
