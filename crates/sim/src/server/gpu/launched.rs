//! Batches that are launched: a kernel each, which begins when its packets are where it finds them, and kernels run one after the other.

use machine::memory::AgentMemory;
use machine::simt::batch::Results;
use machine::simt::{KernelStep, OwnMemory, WARP};
use units::{Clos, CoreId, LINE_BYTES, Line, Ps};

use super::super::{DepartureObserver, PRIORITY_NIC, Server, ServerEvent, lines};
use super::{CopyWay, GpuBatch, GpuPacket, GpuTurn, SLOT_LINES, ServerGpu, part_of_packet, read, runs_of, write};
use crate::scenario::gpus::{GpuMemory, VERDICT_BYTES};

impl ServerGpu {
    /// Batches that have left the queue and not come back.
    fn under_way(&self) -> usize {
        let one = |batch: &Option<GpuBatch>| usize::from(batch.is_some());
        one(&self.copying)
            + self.copied.len()
            + one(&self.running)
            + self.executed.len()
            + one(&self.returning)
            + one(&self.returned)
    }

    /// Merges the lanes of `batch` into the programs of its warps, and begins its kernel at `now`.
    fn begin(&mut self, batch: &GpuBatch, now: Ps) {
        self.code.clear();
        self.shaders.memory_mut().forget_l1();
        let warps: Vec<_> = batch.packets.chunks(WARP).map(|packets| self.merge(packets, false)).collect();
        self.kernel.begin(warps.into_iter(), self.block, now.0.div_ceil(self.period.0));
    }
}

impl Server {
    /// Core `i` launches so many batches, one after the other, once it has launched those before; or posts them, where kernels stay.
    pub(in crate::server) fn launch(&mut self, i: usize, batches: u32) {
        let now = self.engine.now();
        let Some(gpu) = &self.gpu else { return };
        if gpu.persistent.is_some() {
            return self.post_tasks();
        }
        let call = gpu.spec.call.ps();
        for _ in 0..batches {
            let (took, clean) = self.flush_batch(i);
            let worker = &mut self.cores[i];
            let from = worker.busy_until.max(now);
            worker.busy_until = (from + call + took).max(clean);
            worker.counters.busy += worker.busy_until - from;
            self.engine.schedule(worker.busy_until, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::Launched));
        }
    }

    /// For a GPU that is not coherent, core `i` flushes what the kernel of the batch that it launches loads and stores: packets' lines,
    /// and those of the ring. What its instructions take, and when memory has all.
    ///
    /// All of it is asked for at once, though the core takes its time for each line.
    fn flush_batch(&mut self, i: usize) -> (Ps, Ps) {
        let now = self.engine.now();
        let Some(gpu) = self.gpu.as_mut().filter(|gpu| !gpu.is_coherent()) else { return (Ps::ZERO, Ps::ZERO) };
        let Some(batch) = gpu.waiting.iter_mut().find(|batch| !batch.flushed) else { return (Ps::ZERO, Ps::ZERO) };
        batch.flushed = true;
        let mut runs = Vec::new();
        for GpuPacket { received, task, .. } in &batch.packets {
            let [loaded, stored] = task.lanes.packet_lines(0);
            for (from, bytes) in runs_of(loaded | stored) {
                part_of_packet(&mut runs, &self.layout, self.scattered.as_deref(), received.mbuf, (from, bytes));
            }
        }
        let at = gpu.waiting.iter().rposition(|batch| batch.flushed);
        if let Some(batch) = at.and_then(|at| gpu.waiting.get(at)) {
            for verdicts in [false, true] {
                runs.extend(gpu.ring_lines(batch, &self.layout, verdicts));
            }
        }
        let each = gpu.spec.flush.ps();
        let (mut count, mut clean) = (0, now);
        for (first, lines) in runs {
            count += lines;
            clean = clean.max(self.memory.flush(CoreId(i as u16), first, lines, now));
        }
        if let Some(gpu) = &mut self.gpu {
            gpu.counters.flushed += count;
            if let Some(batch) = at.and_then(|at| gpu.waiting.get_mut(at)) {
                batch.clean = clean;
            }
        }
        (Ps(each.0 * count), clean)
    }

    /// The L2 of a GPU that is not coherent gives up its lines at the end of a kernel; whether that is still to be waited for.
    pub(super) fn empties_l2(&mut self) -> bool {
        let now = self.engine.now();
        let Some(gpu) = self.gpu.as_mut().filter(|gpu| !gpu.is_coherent()) else { return false };
        let agent = gpu.agent;
        let Some(batch) = gpu.running.as_mut().filter(|batch| !batch.emptied) else { return false };
        batch.emptied = true;
        let mut until = self.memory.empty_agent(agent, now);
        // A line of verdicts may be another batch's, too: a core that has read it lets go of it before it reads again.
        let reader = batch.packets.first().map_or(0, |packet| packet.core);
        let Some(batch) = &gpu.running else { return false };
        for (first, count) in gpu.ring_lines(batch, &self.layout, true) {
            until = until.max(self.memory.flush(CoreId(reader as u16), first, count, now));
        }
        if until > now {
            self.engine.schedule(until, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::KernelDone));
        }
        until > now
    }

    /// Batches go on to where there is room for them.
    pub(super) fn move_batches(&mut self) {
        let now = self.engine.now();
        let Some(gpu) = &mut self.gpu else { return };
        let discrete = gpu.spec.attached == GpuMemory::Discrete;
        let copy = gpu.spec.copy.ps();
        if gpu.executed.front().is_some() && gpu.returning.is_none() && gpu.returned.is_none() {
            let Some(mut batch) = gpu.executed.pop_front() else { return };
            (batch.at, batch.until, batch.back_from) = (0, now, now);
            if discrete {
                gpu.returning = Some(batch);
                self.engine.schedule(now + copy, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::CopyBack));
            } else {
                gpu.returned = Some(batch);
                self.engine.schedule(now, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::Back));
            }
        }
        if gpu.ready > 0 && gpu.copying.is_none() && gpu.under_way() < gpu.spec.streams() as usize {
            gpu.ready -= 1;
            let Some(mut batch) = gpu.waiting.pop_front() else { return };
            let next_goes = gpu.overdue && gpu.waiting.is_empty() && !gpu.filling.packets.is_empty();
            (batch.started, batch.until) = (now, now);
            if discrete {
                gpu.copying = Some(batch);
                self.engine.schedule(now + copy, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::CopyIn));
            } else {
                batch.copied = now;
                gpu.copied.push_back(batch);
            }
            if next_goes {
                self.close_late();
            }
        }
        let Some(gpu) = &mut self.gpu else { return };
        if gpu.running.is_none()
            && let Some(mut batch) = gpu.copied.pop_front()
        {
            batch.begun = now;
            // At a clock, so that none is done before its time.
            let first = gpu.time(gpu.clock((now + gpu.spec.launch.ps()).max(batch.clean)));
            if !discrete {
                gpu.place(&batch.packets, &self.layout, self.scattered.as_deref());
            }
            gpu.begin(&batch, first);
            gpu.running = Some(batch);
            gpu.turn = first;
            self.engine.schedule(first, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::Kernel));
        }
    }

    /// The copy engine reads the next packet of the batch that goes to the GPU, or all have been.
    pub(super) fn copy_in(&mut self, observer: &mut impl DepartureObserver) {
        let now = self.engine.now();
        let Some(gpu) = &mut self.gpu else { return };
        let Some(mut batch) = gpu.copying.take() else { return };
        self.memory.open();
        let mut translated = Ps::ZERO;
        if batch.at == 0 {
            for (first, count) in gpu.ring_lines(&batch, &self.layout, false) {
                batch.until = batch.until.max(read(&mut self.memory, (first, count), now, &mut translated));
            }
        }
        let Some(packet) = batch.packets.get(batch.at) else {
            batch.awaited += self.close_copy(CopyWay::In, translated);
            let Some(gpu) = &mut self.gpu else { return };
            if batch.awaited > 0 {
                batch.stalled = true;
                gpu.copying = Some(batch);
                return;
            }
            if batch.until > now {
                let until = batch.until;
                gpu.copying = Some(batch);
                self.engine.schedule(until, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::CopyIn));
                return;
            }
            batch.copied = now;
            gpu.counters.copying_in += now - batch.started;
            gpu.copied.push_back(batch);
            return;
        };
        let bytes = u64::from(packet.frame_bytes);
        let mbuf = packet.received.mbuf;
        let runs: Vec<(Line, u64)> = match &self.scattered {
            None => vec![lines(self.layout.data(mbuf), bytes)],
            Some(scattered) => scattered.runs(mbuf, 0, bytes).collect(),
        };
        for (first, count) in runs {
            observer.packet_lines(first, count, false);
            batch.until = batch.until.max(read(&mut self.memory, (first, count), now, &mut translated));
        }
        batch.awaited += self.close_copy(CopyWay::In, translated);
        let Some(gpu) = &mut self.gpu else { return };
        let clock = gpu.clock(now);
        let base = gpu.recorder.table_sectors().div_ceil(2) + packet.slot * SLOT_LINES;
        let count = (bytes.div_ceil(LINE_BYTES) as u32).min(SLOT_LINES);
        gpu.shaders.memory_mut().device(base, count, true, clock);
        batch.at += 1;
        let next = now + gpu.spec.link.time_for(bytes);
        batch.until = batch.until.max(next);
        gpu.copying = Some(batch);
        self.engine.schedule(next, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::CopyIn));
    }

    /// The copy engine writes the next packet of the batch that comes back, or all have been.
    pub(super) fn copy_back(&mut self, observer: &mut impl DepartureObserver) {
        let now = self.engine.now();
        let Some(gpu) = &mut self.gpu else { return };
        let Some(mut batch) = gpu.returning.take() else { return };
        let frames = gpu.results == Results::Frames;
        self.memory.open();
        let mut translated = Ps::ZERO;
        let packet = batch.packets.get(batch.at).filter(|_| frames);
        let (next, done) = match packet {
            Some(packet) => {
                let (bytes, mbuf) = (u64::from(packet.received.packet.frame_bytes), packet.received.mbuf);
                let runs: Vec<(Line, u64)> = match &self.scattered {
                    None => vec![lines(self.layout.data(mbuf), bytes)],
                    Some(scattered) => scattered.runs(mbuf, 0, bytes).collect(),
                };
                for (first, count) in runs {
                    observer.packet_lines(first, count, true);
                    batch.until = batch.until.max(write(&mut self.memory, (first, count), now, &mut translated));
                }
                let base = gpu.recorder.table_sectors().div_ceil(2) + packet.slot * SLOT_LINES;
                let count = (bytes.div_ceil(LINE_BYTES) as u32).min(SLOT_LINES);
                let clock = gpu.clock(now);
                gpu.shaders.memory_mut().device(base, count, false, clock);
                batch.at += 1;
                (now + gpu.spec.link.time_for(bytes), false)
            }
            None => {
                for (first, count) in gpu.ring_lines(&batch, &self.layout, true) {
                    batch.until = batch.until.max(write(&mut self.memory, (first, count), now, &mut translated));
                }
                (now + gpu.spec.link.time_for(batch.packets.len() as u64 * VERDICT_BYTES), true)
            }
        };
        batch.until = batch.until.max(next);
        batch.awaited += self.close_copy(CopyWay::Back, translated);
        let Some(gpu) = &mut self.gpu else { return };
        if done {
            let (until, awaited) = (batch.until, batch.awaited);
            batch.stalled = awaited > 0;
            gpu.returned = Some(batch);
            if awaited == 0 {
                self.come_back(until);
            }
        } else {
            gpu.returning = Some(batch);
            self.engine.schedule(next, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::CopyBack));
        }
    }

    /// The batch that was copied back is there at `until`.
    pub(super) fn come_back(&mut self, until: Ps) {
        self.engine.schedule(until, PRIORITY_NIC, ServerEvent::Gpu(GpuTurn::Back));
    }

    /// The kernel goes on until somebody else has something to do, or memory answers.
    pub(super) fn run_kernel(&mut self) {
        let now = self.engine.now();
        let horizon = self.engine.peek().unwrap_or(Ps::MAX);
        let Some(gpu) = &mut self.gpu else { return };
        let period = gpu.period.0;
        let until = horizon.max(now).0 / period;
        let may_go = |clock: u64| clock <= until;
        let ServerGpu { spec, kernel, shaders, code, tables, places, agent, recorder, counters, .. } = &mut **gpu;
        let step = if places.is_empty() {
            kernel.step(shaders, code, &mut OwnMemory, may_go)
        } else {
            let packets = recorder.table_sectors().div_ceil(2);
            let (memory, llc, core) = (&mut self.memory, &mut counters.llc, *agent);
            // Its class is that of everyone else.
            let (clos, next_answer, coherent) = (Clos(0), Ps::MAX, spec.coherent);
            let mut shared = AgentMemory { memory, core, clos, coherent, tables, packets, places, llc, next_answer };
            kernel.step(shaders, code, &mut shared, may_go)
        };
        gpu.turn = Ps::MAX;
        let (at, turn) = match step {
            // An answer will tell.
            Ok(KernelStep::At(u64::MAX)) => return,
            Ok(KernelStep::At(clock)) => {
                gpu.turn = gpu.time(clock).max(now);
                (gpu.turn, GpuTurn::Kernel)
            }
            Ok(KernelStep::Done(clock)) => (gpu.time(clock).max(now), GpuTurn::KernelDone),
            Err(_) => unreachable!("functions that have a form for a warp take no locks"),
        };
        self.engine.schedule(at, PRIORITY_NIC, ServerEvent::Gpu(turn));
    }
}
