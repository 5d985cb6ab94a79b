//! Kernels that stay: a task is a warp's packets at most, which a core posts by writing to the ring of tasks, and nothing is launched.
//!
//! Integrated: warps poll the ring's entries in their L2, which a core's store takes from there, and the first that a warp does is to load
//! its entries. A poll that finds nothing takes what a hit in the L2 takes. Packets and verdicts are where cores have them.
//!
//! Discrete: a [dispatcher](machine::simt::dispatcher) asks over the bus for tasks, round after round. A warp that has a task loads the lines
//! of its packets that its function reads, all at once, and has them beside it from then on; at its end those that it has changed are
//! stored over the bus, and a verdict of each packet. The ways there and back are what `word` takes beyond a hit in the LLC.
//!
//! Tasks are committed in the order in which they were posted. While the FIFO is full the last task fills, whatever its time.
//!
//! **Left out**: registers for more of a packet than its headers; a loop over a payload that crosses the bus several times; how many loads
//! there may be under way on the bus, requests for them, and that lines come slower over it than large copies; what polls that find
//! nothing ask of the server's memory, and that a round reads entries when it sees them, not when it ends; issue slots of polling;
//! an integrated warp's wait for its last stores.

use std::collections::VecDeque;

use machine::memory::AgentMemory;
use machine::simt::batch::Results;
use machine::simt::{Dispatcher, FinishedWarp, OwnMemory, PersistentKernel, Shaders};
use units::{Clos, LINE_BYTES, Line, Ps, Rate};

use super::super::{DepartureObserver, PRIORITY_NIC, Server, ServerEvent};
use super::{CopyWay, GpuBatch, GpuCounters, GpuPacket, GpuTurn, ServerGpu, part_of_packet, read, runs_of, write};
use crate::scenario::Scenario;
use crate::scenario::gpus::{GpuMemory, ServerGpuSpec, VERDICT_BYTES};

/// A task that is posted and not back.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct PostedTask {
    batch: GpuBatch,
    /// The core and slot of its warp, once it has one.
    place: Option<(usize, u32)>,
    is_complete: bool,
    is_back: bool,
}

/// What persistent kernels have beside what those have that are launched.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct PersistentTasks {
    kernel: PersistentKernel,
    /// Of a discrete one.
    dispatcher: Option<Dispatcher>,
    /// When it looks next; [`Ps::MAX`] if it has nothing to look for.
    looks: Ps,
    /// In the order of their numbers, which are consecutive from `first` on.
    tasks: VecDeque<PostedTask>,
    first: u64,
    /// Tasks before these numbers are on the GPU, have a warp, and are committed.
    seen: u64,
    started: u64,
    committed: u64,
    /// When the bus is free again, to the GPU and from it: it is busy until then.
    to_gpu: Ps,
    from_gpu: Ps,
    /// A way over the bus, and from a commit until its stores are at the server's memory, which a hit in the LLC ends.
    way: Ps,
    tell: Ps,
    /// Clocks of a poll that finds nothing, of an integrated one.
    poll: u64,
    /// A dispatcher's time for a task when it always finds as many as it can.
    a_task: Ps,
    complete: Vec<FinishedWarp>,
    /// Slots of warps and those that are taken; entries of the FIFO; and for how long they were taken, up to a time.
    slots: u64,
    taken: u64,
    entries: u64,
    slots_taken: u128,
    entries_taken: u128,
    since: Ps,
}

impl PersistentTasks {
    pub(super) fn new(scenario: &Scenario, spec: &ServerGpuSpec, shaders: &Shaders) -> PersistentTasks {
        let (discrete, bus) = (spec.attached == GpuMemory::Discrete, &spec.dispatcher);
        PersistentTasks {
            kernel: PersistentKernel::default(),
            dispatcher: discrete.then(|| Dispatcher::new(bus, spec.shaders.frequency)),
            looks: Ps::MAX,
            tasks: VecDeque::new(),
            first: 0,
            seen: 0,
            started: 0,
            committed: 0,
            to_gpu: Ps::ZERO,
            from_gpu: Ps::ZERO,
            way: Ps(bus.word.ps().since(scenario.machine.llc.latency.ps()).0 / 2),
            tell: bus.tell.ps().since(scenario.machine.llc.latency.ps()),
            poll: shaders.memory().unloaded_hit() + u64::from(spec.shaders.pipeline),
            a_task: Ps(bus.full_round().0 / u64::from(bus.most)),
            complete: Vec::new(),
            slots: shaders.slots().into(),
            taken: 0,
            entries: spec.fifo.into(),
            slots_taken: 0,
            entries_taken: 0,
            since: Ps::ZERO,
        }
    }

    /// `counters` with those of its own, up to `now`.
    pub(super) fn counters(&self, counters: GpuCounters, now: Ps) -> GpuCounters {
        let time = u128::from(now.since(self.since).0);
        let slots = self.slots_taken + time * u128::from(self.taken);
        let entries = self.entries_taken + time * self.tasks.len() as u128;
        // A copy that is booked keeps the bus busy until its end.
        GpuCounters {
            copying_in: counters.copying_in.since(self.to_gpu.since(now)),
            copying_back: counters.copying_back.since(self.from_gpu.since(now)),
            busy: Ps((slots / u128::from(self.slots.max(1))) as u64),
            posted: Ps((entries / u128::from(self.entries.max(1))) as u64),
            ..counters
        }
    }

    /// What is taken is about to change.
    fn count(&mut self, now: Ps) {
        let time = u128::from(now.since(self.since).0);
        self.slots_taken += time * u128::from(self.taken);
        self.entries_taken += time * self.tasks.len() as u128;
        self.since = now;
    }

    /// Whether no more tasks can be posted.
    pub(super) fn is_full(&self) -> bool {
        self.tasks.len() as u64 >= self.entries
    }

    fn task(&mut self, number: u64) -> Option<&mut PostedTask> {
        self.tasks.get_mut(number.checked_sub(self.first)? as usize)
    }
}

impl Server {
    /// A turn of persistent kernels.
    pub(super) fn task_turn(&mut self, turn: GpuTurn, observer: &mut impl DepartureObserver) {
        match turn {
            GpuTurn::Poll => self.poll(),
            GpuTurn::Seen(number) => {
                if let Some(own) = self.gpu.as_mut().and_then(|gpu| gpu.persistent.as_mut()) {
                    own.seen = own.seen.max(number);
                }
                self.start_tasks();
            }
            GpuTurn::Fetch(number) => self.fetch(number, observer),
            GpuTurn::Fetched(number) => {
                self.start_warp(number);
                self.resume_warps();
            }
            GpuTurn::Complete => self.complete_tasks(),
            GpuTurn::Write(number) => self.write_task(number, observer),
            GpuTurn::Written(number) => self.task_is_back(number),
            _ => {}
        }
    }

    /// Tasks that wait are posted as long as the FIFO has room for them.
    pub(super) fn post_tasks(&mut self) {
        let now = self.engine.now();
        let Some(gpu) = &mut self.gpu else { return };
        let (clock, period) = (gpu.clock(now), gpu.period.0);
        let Some(own) = &mut gpu.persistent else { return };
        own.count(now);
        while (own.tasks.len() as u64) < own.entries {
            if gpu.waiting.is_empty() && gpu.overdue && !gpu.filling.packets.is_empty() {
                gpu.overdue = false;
                let batch = gpu.filling.close(now);
                gpu.counters.close(&batch, true);
                gpu.waiting.push_back(batch);
            }
            let Some(batch) = gpu.waiting.pop_front() else { break };
            match &mut own.dispatcher {
                Some(dispatcher) => dispatcher.post(batch.packets.len() as u32, clock),
                None => {
                    let seen = Ps((clock / own.poll + 1) * own.poll * period);
                    let turn = GpuTurn::Seen(batch.number + 1);
                    self.engine.schedule(seen, PRIORITY_NIC, ServerEvent::Gpu(turn));
                }
            }
            own.tasks.push_back(PostedTask { batch, place: None, is_complete: false, is_back: false });
        }
        self.look_for_tasks();
    }

    /// The dispatcher looks when it has something to look for.
    fn look_for_tasks(&mut self) {
        let now = self.engine.now();
        let Some(gpu) = &mut self.gpu else { return };
        let period = gpu.period.0;
        let Some(PersistentTasks { dispatcher: Some(dispatcher), looks, .. }) = &mut gpu.persistent else { return };
        let next = Ps(dispatcher.next().saturating_mul(period)).max(now);
        if dispatcher.next() != u64::MAX && next < *looks {
            *looks = next;
            self.engine.schedule(next, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::Poll));
        }
    }

    /// The dispatcher looks: it reads entries of the ring that the server's memory has, or those that it has read are on the GPU.
    fn poll(&mut self) {
        let now = self.engine.now();
        let Some(gpu) = &mut self.gpu else { return };
        let clock = gpu.clock(now);
        let Some(own) = gpu.persistent.as_mut().filter(|own| own.looks == now) else { return };
        own.looks = Ps::MAX;
        let Some(dispatcher) = &mut own.dispatcher else { return };
        dispatcher.advance(clock);
        let from = own.seen;
        while dispatcher.published(clock).is_some() {
            own.seen += 1;
        }
        gpu.counters.dispatching += Ps(own.a_task.0 * (own.seen - from));
        let Some(own) = &gpu.persistent else { return };
        let batches = own.tasks.range((from - own.first) as usize..(own.seen - own.first) as usize);
        let read_of: Vec<_> = batches.flat_map(|task| gpu.ring_lines(&task.batch, &self.layout, false)).collect();
        if !read_of.is_empty() {
            self.memory.open();
            let mut translated = Ps::ZERO;
            for run in read_of {
                read(&mut self.memory, run, now, &mut translated);
            }
            self.close_copy(CopyWay::Ring, translated);
        }
        self.start_tasks();
        self.look_for_tasks();
    }

    /// Tasks that are on the GPU get slots, as far as there are.
    fn start_tasks(&mut self) {
        let now = self.engine.now();
        while let Some(gpu) = &mut self.gpu {
            let clock = gpu.clock(now);
            let Some(own) = gpu.persistent.as_mut().filter(|own| own.started < own.seen) else { break };
            let Some(place) = own.kernel.reserve(&mut gpu.shaders, clock) else { break };
            own.count(now);
            own.taken += 1;
            let (number, way, discrete) = (own.started, own.way, own.dispatcher.is_some());
            own.started += 1;
            let Some(task) = own.task(number) else { break };
            (task.place, task.batch.started) = (Some(place), now);
            if discrete {
                self.engine.schedule(now + way, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::Fetch(number)));
            } else {
                let packets = std::mem::take(&mut task.batch.packets);
                gpu.place(&packets, &self.layout, self.scattered.as_deref());
                if let Some(task) = gpu.persistent.as_mut().and_then(|own| own.task(number)) {
                    task.batch.packets = packets;
                }
                self.start_warp(number);
            }
        }
        self.resume_warps();
    }

    /// The loads of the packets of task `number` are at the server's memory.
    fn fetch(&mut self, number: u64, observer: &mut impl DepartureObserver) {
        let (bytes, mut translated) = (self.lines_of_task(number, 0), Ps::ZERO);
        let now = self.engine.now();
        self.memory.open();
        let mut until = now;
        for &(first, count) in &bytes {
            observer.packet_lines(first, count, false);
            until = until.max(read(&mut self.memory, (first, count), now, &mut translated));
        }
        let awaited = self.close_copy(CopyWay::Fetch(number), translated);
        let Some(gpu) = &mut self.gpu else { return };
        let link = gpu.spec.link;
        let Some(own) = &mut gpu.persistent else { return };
        let time = over_bus(link, &bytes);
        gpu.counters.copying_in += time;
        own.to_gpu = own.to_gpu.max(now) + time;
        let until = until.max(own.to_gpu) + own.way;
        let Some(task) = own.task(number) else { return };
        task.batch.until = until;
        if awaited == 0 {
            self.engine.schedule(until, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::Fetched(number)));
        }
    }

    /// Memory has answered what a task has asked for over the bus: it is done at `at`.
    pub(super) fn task_copied(&mut self, way: CopyWay, at: Ps) {
        let now = self.engine.now();
        let Some(own) = self.gpu.as_mut().and_then(|gpu| gpu.persistent.as_mut()) else { return };
        let over_bus = own.way;
        let (number, at, turn) = match way {
            CopyWay::Fetch(number) => (number, at + over_bus, GpuTurn::Fetched(number)),
            CopyWay::Write(number) => (number, at, GpuTurn::Written(number)),
            _ => return,
        };
        let until = own.task(number).map_or(now, |task| task.batch.until);
        self.engine.schedule(until.max(at).max(now), PRIORITY_NIC, ServerEvent::Gpu(turn));
    }

    /// The lines of the packets of task `number` that its function loads (`which` 0), or stores to (1).
    fn lines_of_task(&mut self, number: u64, which: usize) -> Vec<(Line, u64)> {
        let Some(own) = self.gpu.as_mut().and_then(|gpu| gpu.persistent.as_mut()) else { return Vec::new() };
        let Some(task) = own.task(number) else { return Vec::new() };
        let mut found = Vec::new();
        for GpuPacket { received, task, .. } in &task.batch.packets {
            for (from, bytes) in runs_of(task.lanes.packet_lines(0)[which]) {
                part_of_packet(&mut found, &self.layout, self.scattered.as_deref(), received.mbuf, (from, bytes));
            }
        }
        found
    }

    /// The warp of task `number` has what it needs, and begins.
    fn start_warp(&mut self, number: u64) {
        let now = self.engine.now();
        let Some(gpu) = &mut self.gpu else { return };
        let (clock, discrete) = (gpu.clock(now), gpu.spec.attached == GpuMemory::Discrete);
        let ServerGpu { persistent: Some(own), shaders, code, .. } = &mut **gpu else { return };
        own.kernel.make_room(shaders, code);
        let Some(task) = own.task(number) else { return };
        (task.batch.copied, task.batch.begun) = (now, now);
        let Some((core, slot)) = task.place else { return };
        let packets = std::mem::take(&mut task.batch.packets);
        let (program, at) = gpu.merge(&packets, discrete);
        gpu.shaders.memory_mut().forget_l1_of(core);
        gpu.shaders.start(core, slot, program, at, number as u32, &gpu.code, clock);
        if let Some(task) = gpu.persistent.as_mut().and_then(|own| own.task(number)) {
            task.batch.packets = packets;
        }
    }

    /// Warps go on, unless some are complete of which nobody knows yet.
    pub(super) fn resume_warps(&mut self) {
        let now = self.engine.now();
        let Some(gpu) = &mut self.gpu else { return };
        let is_known = gpu.persistent.as_ref().is_some_and(|own| own.complete.is_empty());
        let next = gpu.shaders.next();
        if !is_known || next == u64::MAX {
            return;
        }
        let turn = gpu.time(next).max(now);
        if turn < gpu.turn {
            gpu.turn = turn;
            self.engine.schedule(turn, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::Kernel));
        }
    }

    /// Warps go on until somebody else has something to do, memory answers, or some are complete.
    pub(super) fn run_warps(&mut self) {
        let now = self.engine.now();
        let horizon = self.engine.peek().unwrap_or(Ps::MAX);
        let Some(gpu) = &mut self.gpu else { return };
        let until = horizon.max(now).0 / gpu.period.0;
        let may_go = |clock: u64| clock <= until;
        let ServerGpu { persistent, shaders, code, tables, places, agent, recorder, counters, .. } = &mut **gpu;
        let Some(PersistentTasks { kernel, complete, .. }) = persistent else { return };
        let step = if places.is_empty() {
            kernel.step(shaders, code, &mut OwnMemory, may_go, complete)
        } else {
            let packets = recorder.table_sectors().div_ceil(2);
            let (memory, llc, core) = (&mut self.memory, &mut counters.llc, *agent);
            // Whose warps poll what cores write is coherent.
            let (clos, next_answer, coherent) = (Clos(0), Ps::MAX, true);
            let mut shared = AgentMemory { memory, core, clos, coherent, tables, packets, places, llc, next_answer };
            kernel.step(shaders, code, &mut shared, may_go, complete)
        };
        let Ok(clock) = step else { unreachable!("functions that have a form for a warp take no locks") };
        gpu.turn = Ps::MAX;
        if gpu.persistent.as_ref().is_some_and(|own| own.complete.is_empty()) {
            return self.resume_warps();
        }
        let at = gpu.time(clock).max(now);
        self.engine.schedule(at, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::Complete));
    }

    /// Warps are complete: their slots are free, and tasks are committed in order.
    fn complete_tasks(&mut self) {
        let now = self.engine.now();
        let Some(gpu) = &mut self.gpu else { return };
        let clock = gpu.clock(now);
        let Some(own) = &mut gpu.persistent else { return };
        own.count(now);
        for FinishedWarp { core, slot, tag } in std::mem::take(&mut own.complete) {
            gpu.shaders.release(core, slot, clock);
            own.taken -= 1;
            let at = tag.wrapping_sub(own.first as u32);
            if let Some(task) = own.tasks.get_mut(at as usize) {
                (task.batch.finished, task.is_complete) = (now, true);
            }
        }
        while let Some(own) = self.gpu.as_mut().and_then(|gpu| gpu.persistent.as_mut()) {
            let (number, discrete) = (own.committed, own.dispatcher.is_some());
            let Some(task) = own.task(number).filter(|task| task.is_complete) else { break };
            task.batch.back_from = now;
            own.committed += 1;
            if discrete {
                self.send_back(number);
            } else {
                self.task_is_back(number);
            }
        }
        self.start_tasks();
    }

    /// What task `number` has changed, and its verdicts, go over the bus.
    fn send_back(&mut self, number: u64) {
        let now = self.engine.now();
        let frames = self.gpu.as_ref().is_some_and(|gpu| gpu.results == Results::Frames);
        let changed = if frames { self.lines_of_task(number, 1) } else { Vec::new() };
        let Some(gpu) = &mut self.gpu else { return };
        let link = gpu.spec.link;
        let Some(own) = &mut gpu.persistent else { return };
        let verdicts = own.task(number).map_or(0, |task| task.batch.packets.len() as u64) * VERDICT_BYTES;
        let time = over_bus(link, &changed) + link.time_for(verdicts);
        gpu.counters.copying_back += time;
        own.from_gpu = own.from_gpu.max(now) + time;
        let at = own.from_gpu + own.tell;
        self.engine.schedule(at, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::Write(number)));
    }

    /// The stores of task `number` are at the server's memory.
    fn write_task(&mut self, number: u64, observer: &mut impl DepartureObserver) {
        let now = self.engine.now();
        let frames = self.gpu.as_ref().is_some_and(|gpu| gpu.results == Results::Frames);
        let changed = if frames { self.lines_of_task(number, 1) } else { Vec::new() };
        let Some(gpu) = &self.gpu else { return };
        let Some(own) = &gpu.persistent else { return };
        let at = number.saturating_sub(own.first) as usize;
        let verdicts = own.tasks.get(at).map(|task| &task.batch);
        let verdicts = verdicts.map_or(Vec::new(), |batch| gpu.ring_lines(batch, &self.layout, true));
        let (mut until, mut translated) = (now, Ps::ZERO);
        self.memory.open();
        for &(first, count) in &changed {
            observer.packet_lines(first, count, true);
        }
        for run in changed.into_iter().chain(verdicts) {
            until = until.max(write(&mut self.memory, run, now, &mut translated));
        }
        let awaited = self.close_copy(CopyWay::Write(number), translated);
        let Some(own) = self.gpu.as_mut().and_then(|gpu| gpu.persistent.as_mut()) else { return };
        if let Some(task) = own.task(number) {
            task.batch.until = until;
        }
        if awaited == 0 {
            self.engine.schedule(until, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::Written(number)));
        }
    }

    /// The server sees what task `number` has come to: it is handed back, behind those before it.
    fn task_is_back(&mut self, number: u64) {
        let now = self.engine.now();
        let Some(own) = self.gpu.as_mut().and_then(|gpu| gpu.persistent.as_mut()) else { return };
        if let Some(task) = own.task(number) {
            task.is_back = true;
        }
        while let Some(own) = self.gpu.as_mut().and_then(|gpu| gpu.persistent.as_mut())
            && own.tasks.front().is_some_and(|task| task.is_back)
        {
            own.count(now);
            own.first += 1;
            if let Some(task) = own.tasks.pop_front() {
                self.hand_back(task.batch);
            }
        }
        self.post_tasks();
    }
}

/// What lines take on a bus, at the rate of large copies.
fn over_bus(link: Rate, runs: &[(Line, u64)]) -> Ps {
    let lines: u64 = runs.iter().map(|&(_, count)| count).sum();
    link.time_for(lines * LINE_BYTES)
}
