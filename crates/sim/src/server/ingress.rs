//! The way in: from the wire through the NIC and PCIe into memory.

use machine::memory::DmaTarget;
use machine::nic::{RX_COMPLETIONS, RX_RING, Received};
use packet::{Packet, layers};
use units::{Addr, LINE_BYTES, Line, PacketId, Ps};

use super::cores::CoreInput;
use super::lives::LifeStage;
use super::rings::TakenBuffer;
use super::{DepartureObserver, Loss, PRIORITY_NIC, PacketFate, Server, ServerEvent, placing, unsent};

#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Crossing {
    pub(super) received: Received,
    pub(super) buffer: TakenBuffer,
    pub(super) core: usize,
    /// What is written: the packet, and its descriptor or completion.
    pub(super) bytes: u64,
    /// Of that the packet, which the NIC's packet memory holds.
    pub(super) held: u64,
}

impl Server {
    /// Draws the next packet and schedules the arrival of its last bit. The line carries one packet
    /// at a time.
    pub(super) fn draw_arrival(&mut self) {
        self.more = self.offered < self.offer && self.source.next(&mut self.next);
        if self.more {
            let first_bit = (self.source_from + self.next.arrival.since(self.left_out)).max(self.wire_free);
            self.wire_free = first_bit + self.wire.time_for(self.next.wire_bytes());
            self.engine.schedule(self.wire_free, PRIORITY_NIC, ServerEvent::Arrival);
        } else {
            // What an emptied packet had in it is no part of the state.
            self.next = Packet::default();
        }
    }

    pub(super) fn arrival(&mut self, observer: &mut impl DepartureObserver) {
        if self.offered >= self.offer {
            self.more = false;
            return;
        }
        let now = self.engine.now();
        let mut packet = self.spare.pop().unwrap_or_default();
        std::mem::swap(&mut packet, &mut self.next);
        packet.id = PacketId(self.offered);
        packet.arrival = now;
        packet.moved = 0;
        self.offered += 1;
        self.inside += 1;
        let queue = match self.receiving * self.nic.queues_per_core {
            1 => 0,
            _ => self.nic.rss.queue(layers(&packet.data).ok().map(|l| l.hashed()).as_ref()),
        };
        self.cores[queue / self.nic.queues_per_core].counters.offered += 1;
        if let Some(lives) = &mut self.lives {
            let wire = self.wire.time_for(packet.wire_bytes());
            lives.arrives(packet.id, packet.frame_bytes, queue / self.nic.queues_per_core, now, wire);
        }
        if self.nic.held_bytes(now) + u64::from(packet.frame_bytes) > self.nic.fifo_bytes {
            self.lose(packet, queue / self.nic.queues_per_core, Loss::NicFifoFull, observer);
        } else if let Some(intake) = &mut self.nic.intake {
            if let Some(at) = intake.push(packet, queue, now) {
                self.engine.schedule(at, PRIORITY_NIC, ServerEvent::Intake);
            }
        } else {
            self.take_in(packet, queue, observer);
        }
        self.draw_arrival();
    }

    /// The NIC takes in a packet that has waited, if it is time.
    pub(super) fn intake_turn(&mut self, observer: &mut impl DepartureObserver) {
        let now = self.engine.now();
        let Some(intake) = &mut self.nic.intake else { return };
        let (taken, next) = intake.pop(now);
        if let Some(at) = next {
            self.engine.schedule(at, PRIORITY_NIC, ServerEvent::Intake);
        }
        if let Some((packet, queue)) = taken {
            self.take_in(packet, queue, observer);
        }
    }

    /// The NIC takes a descriptor of queue `queue` for `packet` and sends both over PCIe, or loses it.
    pub(super) fn take_in(&mut self, packet: Packet, of_all: usize, observer: &mut impl DepartureObserver) {
        let (core, queue) = (of_all / self.nic.queues_per_core, of_all % self.nic.queues_per_core);
        let (waits, flow) = self.admit(&packet, of_all);
        if waits {
            return self.hold_or_lose(packet, (of_all, flow), Loss::NoRxDescriptor, observer);
        }
        if self.scattered.as_mut().is_some_and(|s| !s.allocate(packet.frame_bytes)) {
            return self.lose(packet, core, Loss::NoBuffer, observer);
        }
        match self.take_buffer(core, queue) {
            Ok(buffer) => {
                self.take_credit(packet.id, flow);
                self.cross(packet, core, queue, buffer);
            }
            Err(loss) => self.hold_or_lose(packet, (of_all, flow), loss, observer),
        }
    }

    /// `packet` of queue `queue` of core `core` crosses PCIe into `buffer`.
    pub(super) fn cross(&mut self, packet: Packet, core: usize, queue: usize, buffer: TakenBuffer) {
        let now = self.engine.now();
        let mbuf = buffer.mbuf;
        self.choose_start(core, mbuf);
        if let Some(scattered) = &mut self.scattered {
            scattered.give(mbuf);
        }
        let bytes = u64::from(packet.frame_bytes - self.keep_payload(mbuf, packet.frame_bytes, now));
        let told_at = self.told_at(core, queue, &buffer);
        let told = (self.nic.driver.written(), self.nic.driver.begins_write(told_at.0));
        let crossing = self.nic.up.unloaded_with(bytes, told);
        let crossed = self.nic.up.transfer_with(now, bytes, told);
        self.nic.leaves(bytes, told.0, crossed);
        let at = crossed + self.nic.rx_pipeline;
        let (held, bytes) = (bytes, bytes + told.0);
        let in_nic = now - packet.arrival + self.nic.rx_pipeline;
        if let Some(lives) = &mut self.lives {
            lives.goes_on(packet.id, LifeStage::NicIn, now);
            lives.goes_on(packet.id, LifeStage::PcieIn, at);
        }
        let (queue, slot) = (queue as u16, buffer.slot);
        let received = Received { packet, mbuf, visible: at, in_nic, crossing, queue, slot, ..Received::default() };
        self.nic.crossing.push_back(Crossing { received, buffer, core, bytes, held });
        self.engine.schedule(at, PRIORITY_NIC, ServerEvent::DmaWrite);
    }

    /// Where the NIC tells the driver of a packet that is in `buffer`, of queue `queue` of core `core`: in the completion, or in the
    /// descriptor where there are none.
    fn told_at(&self, core: usize, queue: usize, buffer: &TakenBuffer) -> Addr {
        let CoreInput::Nic(rx) = &self.cores[core].input else { return self.descriptor_at(buffer) };
        match rx.queue(queue).completion_offset(buffer.number) {
            Some(offset) => self.layout.address(RX_COMPLETIONS, offset, core as u16),
            None => self.descriptor_at(buffer),
        }
    }

    fn descriptor_at(&self, buffer: &TakenBuffer) -> Addr {
        self.layout.address(RX_RING, buffer.slot * u64::from(self.nic.driver.rx_descriptor), buffer.ring)
    }

    /// `packet` is lost before a core has it.
    pub(super) fn lose(&mut self, packet: Packet, core: usize, loss: Loss, observer: &mut impl DepartureObserver) {
        self.lost += 1;
        self.cores[core].counters.lost += 1;
        self.inside -= 1;
        if let Some(scattered) = &mut self.scattered {
            scattered.take_back();
        }
        let ended = (packet.id, packet.arrival, packet.frame_bytes, PacketFate::Lost(loss));
        unsent(ended, core, self.engine.now(), &mut self.lives, observer);
        self.spare.push(packet);
    }

    /// Writes the packets that have crossed PCIe while there are credits for them.
    pub(super) fn dma_writes(&mut self, observer: &mut impl DepartureObserver) {
        while self.nic.stalled > 0
            && let Some((bytes, held)) = self.nic.crossing.front().map(|crossing| (crossing.bytes, crossing.held))
        {
            if let Err(at) = self.nic.credits.take(self.engine.now(), bytes) {
                self.wait_for_credits(at);
                return;
            }
            self.nic.stalled -= 1;
            self.nic.stalled_bytes -= held;
            let Some(crossing) = self.nic.crossing.pop_front() else { return };
            match self.dma_write(crossing, observer) {
                Some(visible) => self.nic.credits.give_back(bytes, visible),
                None => self.nic.credits.keep(bytes),
            }
        }
    }

    /// Writes a packet and its descriptor; when both are in memory, if that is known now.
    pub(super) fn dma_write(&mut self, crossing: Crossing, observer: &mut impl DepartureObserver) -> Option<Ps> {
        let Crossing { mut received, buffer, core, bytes, .. } = crossing;
        let now = self.engine.now();
        let ring = self.descriptor_at(&buffer);
        // The NIC has fetched descriptors ahead, a line at a time.
        if ring.0.is_multiple_of(LINE_BYTES) {
            self.nic.up.ask(now, LINE_BYTES);
            self.nic.down.transfer(now, LINE_BYTES);
            self.memory.read_descriptors(ring.line(), now);
            self.memory.translated();
        }
        let told = self.told_at(core, received.queue.into(), &buffer);
        self.note_written(received.mbuf, received.packet.id.0, received.packet.frame_bytes);
        self.memory.open();
        let start = self.data(received.mbuf);
        let host = self.host_lines(received.mbuf, start, received.packet.frame_bytes.into());
        let mut before = 0;
        let consumer = self.cores[core].consumer();
        let (memory, placing) = (&mut self.memory, &mut self.nic.placing);
        let mut write = |first: Line, count| {
            observer.packet_lines(first, count, true);
            let Some(targets) = &self.nic.targets else { return memory.dma_write_packet(core, first, count, now) };
            let part = (before, first, count);
            before += count;
            placing::write_packet(memory, targets, consumer, placing, part, now)
        };
        let written = match &self.scattered {
            None => write(host.0, host.1),
            Some(scattered) => {
                let runs = scattered.runs(received.mbuf, 0, u64::from(received.packet.frame_bytes));
                runs.map(|(first, count)| write(first, count)).max().unwrap_or(now)
            }
        };
        let of_descriptors = self.nic.targets.as_ref().map_or(DmaTarget::Llc, |targets| targets.descriptors);
        let told =
            placing::write(&mut self.memory, of_descriptors, consumer, &mut self.nic.placing, (told.line(), 1), now);
        let written = written.max(told);
        let written = self.memory.close(written);
        received.translated = self.memory.translated();
        self.written(core, received, bytes, written)
    }
}
