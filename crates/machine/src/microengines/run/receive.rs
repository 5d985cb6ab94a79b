//! Input threads: packets' software, memory, writes, and the way into the queues.

use super::{NOBODY, NetworkProcessor, PacketSlot, Thread, ThreadPhase, Watched, place};
use crate::microengines::wheel::ENTITIES;
use crate::microengines::{Op, PacketWork, ThreadStep};

impl<W: Watched> NetworkProcessor<'_, W> {
    /// An input thread takes the next packet.
    pub(super) fn take(&mut self, thread: u16) {
        let index = (self.taken % self.workload.works.len() as u64) as usize;
        let work = self.workload.works[index];
        let state = &mut self.threads[place(thread)];
        state.phase = ThreadPhase::Software;
        state.at = work.steps.0;
        state.left = index as u32;
        state.slot = NOBODY;
        self.flows[usize::from(thread)] = work.flow;
        self.sequences[usize::from(thread)] = self.taken;
        self.taken += 1;
        let receive = self.spec.software.receive;
        self.reference(thread, receive);
    }

    #[inline]
    fn work(&self, index: u32) -> PacketWork {
        self.workload.works[index as usize]
    }

    pub(super) fn software(&mut self, thread: u16) {
        let state = self.threads[place(thread)];
        let work = self.work(state.left);
        if state.at == work.steps.1 {
            if work.port.is_none() {
                self.discarded += 1;
                // Whoever waits for this packet's place in its flow may go on.
                self.sequences[usize::from(thread)] = u64::MAX;
                self.release_followers(self.flows[usize::from(thread)]);
                self.take(thread);
                return;
            }
            self.threads[place(thread)].phase = ThreadPhase::Allocate;
            let mut at = self.compute(thread, self.spec.software.issue);
            for _ in 0..self.spec.software.allocate {
                at = self.sram(at);
            }
            self.wheel.schedule(at, thread);
            return;
        }
        let ThreadStep { ticks, op } = self.workload.steps[state.at as usize];
        self.threads[place(thread)].at += 1;
        let issued = self.compute(thread, ticks);
        match op {
            Op::Compute => self.wheel.schedule(issued, thread),
            Op::Sram => {
                let at = self.sram(issued);
                self.wheel.schedule(at, thread);
            }
            Op::Lock(lock) => {
                let at = self.sram(issued);
                let lock = &mut self.locks[(lock % self.spec.sram.locks) as usize];
                if lock.held {
                    lock.waiting.push_back(thread);
                } else {
                    lock.held = true;
                    self.wheel.schedule(at, thread);
                }
            }
            Op::Unlock(lock) => {
                let at = self.sram(issued);
                let lock = &mut self.locks[(lock % self.spec.sram.locks) as usize];
                match lock.waiting.pop_front() {
                    Some(next) => self.wheel.schedule(at, next),
                    None => lock.held = false,
                }
                self.wheel.schedule(at, thread);
            }
        }
    }

    pub(super) fn allocate(&mut self, thread: u16) {
        // Packets of a flow take memory in their order: one that has memory and waits for an earlier one of its flow,
        // which waits for memory, would wait for itself.
        if self.earlier(thread, |other| other.slot == NOBODY) {
            self.threads[place(thread)].phase = ThreadPhase::Behind;
            self.behind += 1;
            return;
        }
        let work = self.work(self.threads[place(thread)].left);
        let Some(slot) = self.free_slots.pop() else {
            self.stalls[0] += 1;
            self.waiting.push_back(thread);
            self.start_polling(thread);
            return;
        };
        let mut cells = std::mem::take(&mut self.slots[usize::from(slot)].cells);
        cells.clear();
        if self.caches.is_empty() && !self.buffer.allocate(work.bytes, &mut cells) {
            self.slots[usize::from(slot)].cells = cells;
            self.free_slots.push(slot);
            self.stalls[1] += 1;
            self.waiting.push_back(thread);
            self.start_polling(thread);
            return;
        }
        let per_port = self.spec.queues / self.spec.ports;
        let queue = u32::from(work.port.unwrap_or(0)) * per_port + work.flow % per_port;
        let state = &mut self.threads[place(thread)];
        self.slots[usize::from(slot)] = PacketSlot {
            work: state.left,
            bytes: work.bytes,
            queue: queue as u16,
            cells,
            next: NOBODY,
            pending: work.bytes,
        };
        (state.slot, state.at, state.outstanding) = (slot, 0, 0);
        self.release_followers(work.flow);
        self.next_write(thread);
    }

    /// The next write of a packet: where it starts, and how many bytes. The first 64 bytes go out as two halves,
    /// because the header has been modified in registers.
    #[inline]
    pub(super) fn piece(&self, slot: &PacketSlot, at: u32) -> u32 {
        let cell = self.cell;
        let half = cell / 2;
        let most = if at < cell { half.max(1) } else { cell };
        most.min(slot.bytes - at)
    }

    /// Has the next write issued, or waits for one to end, or goes on to the queue.
    pub(super) fn next_write(&mut self, thread: u16) {
        let state = self.threads[place(thread)];
        let done = state.at >= self.slots[usize::from(state.slot)].bytes;
        if done && state.outstanding == 0 {
            self.threads[place(thread)].phase = ThreadPhase::Enqueue;
            self.threads[place(thread)].left = self.spec.software.queue.saturating_sub(1);
            self.reference(thread, self.spec.software.issue);
            return;
        }
        if done || u32::from(state.outstanding) >= self.spec.receive_slots {
            self.threads[place(thread)].phase = ThreadPhase::Blocked;
            return;
        }
        // The head's first half comes with the packet, its second half follows at once.
        let behind = state.at > 0 && state.at & (self.cell - 1) == 0;
        let mut at = self.compute(thread, if behind { self.spec.software.cell } else { self.spec.software.issue });
        let phase = if self.caches.is_empty() {
            ThreadPhase::Issue
        } else {
            at += u64::from(self.spec.sram.latency);
            ThreadPhase::Cached
        };
        self.threads[place(thread)].phase = phase;
        self.wheel.schedule(at, thread);
    }

    pub(super) fn issue(&mut self, thread: u16) {
        let state = self.threads[place(thread)];
        let slot = &self.slots[usize::from(state.slot)];
        let bytes = self.piece(slot, state.at);
        let addr = self.addr(slot, state.at);
        let state = &mut self.threads[place(thread)];
        state.at += bytes;
        state.outstanding += 1;
        self.submit(thread, addr, bytes, true);
        self.next_write(thread);
    }

    /// A packet is complete in memory: after the references that this takes it goes into its queue, unless an earlier one
    /// of its flow is still on its way.
    pub(super) fn enqueue(&mut self, thread: u16) {
        let state = self.threads[place(thread)];
        if state.left > 0 {
            self.threads[place(thread)].left -= 1;
            self.reference(thread, self.spec.software.issue);
            return;
        }
        if self.earlier(thread, |_| true) {
            self.threads[place(thread)].phase = ThreadPhase::Behind;
            self.behind += 1;
            return;
        }
        self.append(state.slot);
        self.sequences[usize::from(thread)] = u64::MAX;
        self.release_followers(self.flows[usize::from(thread)]);
        self.take(thread);
    }

    /// Whether an input thread that `counts` has an earlier packet of the same flow.
    fn earlier(&self, thread: u16, counts: impl Fn(&Thread) -> bool) -> bool {
        let (flow, sequence) = (self.flows[usize::from(thread)], self.sequences[usize::from(thread)]);
        // Nearly always the thread itself is the only one with its flow, which a look at the flows alone shows.
        let same = self.flows.iter().filter(|other| **other == flow).count();
        same > 1
            && (0..self.flows.len())
                .any(|i| self.flows[i] == flow && self.sequences[i] < sequence && counts(&self.threads[i % ENTITIES]))
    }

    /// Threads whose packet waited for an earlier one of its flow look again.
    fn release_followers(&mut self, flow: u32) {
        if self.behind == 0 {
            return;
        }
        for follower in 0..self.inputs {
            let state = &mut self.threads[place(follower)];
            if state.phase == ThreadPhase::Behind && self.flows[usize::from(follower)] == flow {
                if state.slot == NOBODY {
                    state.phase = ThreadPhase::Allocate;
                } else {
                    (state.phase, state.left) = (ThreadPhase::Enqueue, 0);
                }
                self.behind -= 1;
                let now = self.wheel.now();
                self.wheel.schedule(now, follower);
            }
        }
    }
}
