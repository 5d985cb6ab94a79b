//! Output: queues, the scheduler, reads block by block, and the slots of the transmit FIFO.

use super::{NOBODY, NetworkProcessor, ThreadPhase, Watched, place};
use crate::buffer::NotHeld;
use crate::microengines::ClassScheduling;

impl<W: Watched> NetworkProcessor<'_, W> {
    /// A packet goes to the end of its queue.
    pub(super) fn append(&mut self, slot: u16) {
        let queue = usize::from(self.slots[usize::from(slot)].queue);
        let fifo = &mut self.queues[queue];
        if fifo.head == NOBODY {
            fifo.head = slot;
        } else {
            self.slots[usize::from(fifo.tail)].next = slot;
        }
        fifo.tail = slot;
        let port = queue / (self.spec.queues / self.spec.ports) as usize;
        self.ports[port].backlog += 1;
        self.lanes_wanted |= self.port_lanes[port];
        self.wake_output();
    }

    /// Wakes an output thread that has nothing to do, if there is something.
    #[inline]
    fn wake_output(&mut self) {
        if self.idle != 0 && self.lanes_free & self.lanes_wanted != 0 {
            let idle = self.idle.trailing_zeros() as u16;
            self.idle &= !(1 << idle);
            let thread = self.inputs + idle;
            self.take_slot(thread);
            let seen = self.stop_polling(thread);
            self.wheel.schedule(seen, thread);
        }
    }

    /// An output thread looks for the next slot to fill, or polls until there is one.
    fn select(&mut self, thread: u16) {
        if self.lanes_free & self.lanes_wanted == 0 {
            self.threads[place(thread)].phase = ThreadPhase::Idle;
            self.idle |= 1 << (thread - self.inputs);
            self.start_polling(thread);
            return;
        }
        self.take_slot(thread);
        self.chosen(thread);
    }

    /// An output thread takes a slot, in turns, and the next block of its port's packet.
    fn take_slot(&mut self, thread: u16) {
        let ready = self.lanes_free & self.lanes_wanted;
        let lane = (ready.rotate_right(self.next_lane).trailing_zeros() + self.next_lane) % 64;
        self.next_lane = lane + 1;
        self.lanes_free &= !(1 << lane);
        let number = usize::from(self.lanes[lane as usize]);
        let mut references = self.spec.software.select;
        if self.ports[number].slot == NOBODY {
            self.dequeue(number);
            references += self.spec.software.queue;
        }
        let cell = self.cell;
        let port = &mut self.ports[number];
        let bytes = self.slots[usize::from(port.slot)].bytes;
        let state = &mut self.threads[place(thread)];
        (state.slot, state.at, state.lane) = (port.slot, port.taken, lane as u16);
        state.block = (self.spec.transmit.block * cell).min(bytes - port.taken);
        port.taken += state.block;
        if port.taken == bytes {
            port.slot = NOBODY;
            if port.backlog == 0 {
                self.lanes_wanted &= !self.port_lanes[number];
            }
        }
        (state.phase, state.left) = (ThreadPhase::Select, references);
    }

    /// Gives a port, which has something queued, its next packet.
    fn dequeue(&mut self, number: usize) {
        let classes = self.spec.queues / self.spec.ports;
        let port = &mut self.ports[number];
        let start = if self.spec.classes == ClassScheduling::Strict { 0 } else { port.next_class };
        for k in 0..classes {
            let class = (start + k) % classes;
            let fifo = &mut self.queues[number * classes as usize + class as usize];
            if fifo.head != NOBODY {
                (port.slot, port.taken) = (fifo.head, 0);
                fifo.head = self.slots[usize::from(fifo.head)].next;
                port.next_class = (class + 1) % classes;
                port.backlog -= 1;
                self.watched.leaves(self.slots[usize::from(port.slot)].work);
                return;
            }
        }
    }

    /// An output thread has chosen, after the references that this takes.
    pub(super) fn chosen(&mut self, thread: u16) {
        let issue = self.spec.software.issue;
        let state = &mut self.threads[place(thread)];
        if state.left > 0 {
            state.left -= 1;
            self.reference(thread, issue);
            return;
        }
        state.phase = ThreadPhase::Post;
        // Each cell behind the first takes an instruction of its own.
        let behind = (state.block - 1) >> self.cell_shift;
        let ticks = issue + behind * issue;
        let at = self.compute(thread, ticks);
        self.wheel.schedule(at, thread);
    }

    /// The reads of a block go out together.
    pub(super) fn post(&mut self, thread: u16) {
        if !self.caches.is_empty() {
            self.refill(thread);
            return;
        }
        let cell = self.cell;
        let state = self.threads[place(thread)];
        let (mut at, end) = (state.at, state.at + state.block);
        let mut count = 0;
        while at < end {
            let piece = cell.min(end - at);
            let addr = self.addr(&self.slots[usize::from(state.slot)], at);
            self.submit(thread, addr, piece, false);
            at += piece;
            count += 1;
        }
        let state = &mut self.threads[place(thread)];
        (state.phase, state.outstanding) = (ThreadPhase::Reading, count);
    }

    pub(super) fn hand_over(&mut self, thread: u16) {
        self.threads[place(thread)].phase = ThreadPhase::Handshake;
        let fill = self.spec.software.fill;
        let at = self.compute(thread, fill) + u64::from(self.spec.transmit.handshake);
        self.wheel.schedule(at, thread);
    }

    /// The transmit FIFO has the block, and the thread is free.
    pub(super) fn handed_over(&mut self, thread: u16) {
        let state = self.threads[place(thread)];
        let cells = (state.block + self.cell - 1) >> self.cell_shift;
        let at = self.wheel.now() + self.drain * u64::from(cells);
        self.wheel.schedule(at, self.others + state.lane);
        let slot = &mut self.slots[usize::from(state.slot)];
        slot.pending -= state.block;
        if slot.pending == 0 {
            self.threads[place(thread)].phase = ThreadPhase::Release;
            self.reference(thread, self.spec.software.issue);
            return;
        }
        self.select(thread);
    }

    /// A packet's memory is free again.
    pub(super) fn release(&mut self, thread: u16) -> Result<(), NotHeld> {
        let slot = self.threads[place(thread)].slot;
        let packet = &self.slots[usize::from(slot)];
        self.buffer.free(packet.bytes, &packet.cells)?;
        self.sent += 1;
        self.sent_bytes += u64::from(packet.bytes);
        self.in_flight_sum += u64::from(self.spec.in_flight) - self.free_slots.len() as u64;
        self.free_slots.push(slot);
        if let Some(waiting) = self.waiting.pop_front() {
            let seen = self.stop_polling(waiting);
            self.wheel.schedule(seen, waiting);
        }
        self.select(thread);
        Ok(())
    }

    /// A slot of the transmit FIFO is empty.
    pub(super) fn drained(&mut self, lane: u16) {
        self.lanes_free |= 1 << lane;
        self.wake_output();
    }
}
