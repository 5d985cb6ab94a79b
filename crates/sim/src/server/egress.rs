//! The way out: the NIC reads descriptors and packets, and sends them.

use machine::memory::DmaTarget;
use machine::nic::{TX_RING, TxQueue};
use stats::{Attribution, Reason};
use units::{Addr, CoreId, Line, PacketId, PortId, Ps};

use super::functional::Device;
use super::lives::LifeStage;
use super::{Departure, DepartureObserver, PRIORITY_NIC, PacketFate, Server, ServerEvent, lines, placing};

/// What a core hands to the NIC at the end of a burst.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct TxBurst {
    pub(super) core: usize,
    pub(super) at: Ps,
    /// What reading the descriptors waited for memory, and of that for its translation.
    pub(super) in_memory: Ps,
    pub(super) translated: Ps,
    /// What doorbell, descriptors and the requests for them take on an idle link.
    pub(super) crossing: Ps,
    pub(super) packets: Vec<Leaving>,
}

/// What a batch's packets have in common: its core, when it was handed over, and what its descriptors waited for memory,
/// and of that for their translation.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct HandedOver {
    pub(super) core: usize,
    pub(super) at: Ps,
    pub(super) in_memory: Ps,
    pub(super) translated: Ps,
    /// See [`TxBurst::crossing`].
    pub(super) crossing: Ps,
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Leaving {
    pub(super) id: PacketId,
    pub(super) arrival: Ps,
    pub(super) frame_bytes: u32,
    /// As it leaves.
    pub(super) sent_bytes: u32,
    /// See [`Packet::moved`].
    pub(super) moved: i32,
    pub(super) port: PortId,
    pub(super) mbuf: u32,
    pub(super) attribution: Attribution,
    /// What its addresses took to be translated when it was read.
    pub(super) translated: Ps,
    /// What is read of it takes so long on an idle link; nothing where it came with its descriptor.
    pub(super) crossing: Ps,
}

impl Server {
    /// Core `i` hands `packets` to the NIC, which comes for them.
    pub(super) fn hand_to_nic(&mut self, i: usize, packets: Vec<Leaving>) {
        if packets.is_empty() {
            return;
        }
        let now = self.engine.now();
        self.cores[i].tx.iter_mut().for_each(TxQueue::rung);
        let batch =
            TxBurst { core: i, at: now, in_memory: Ps::ZERO, translated: Ps::ZERO, crossing: Ps::ZERO, packets };
        let slot = match self.nic.free_batches.pop() {
            Some(slot) => {
                self.nic.batches[slot] = Some(batch);
                slot
            }
            None => {
                self.nic.batches.push(Some(batch));
                self.nic.batches.len() - 1
            }
        };
        // The doorbell crosses, then the read request.
        self.engine.schedule(now + self.nic.down.latency() * 2, PRIORITY_NIC, ServerEvent::ReadDescriptors(slot));
    }

    /// The NIC reads descriptors; the answer lets it ask for the packets.
    pub(super) fn read_descriptors(&mut self, slot: usize) {
        let Some(batch) = &mut self.nic.batches[slot] else { return };
        let now = self.engine.now();
        let core = batch.core as u16;
        let (count, descriptor) = (batch.packets.len() as u64, u64::from(self.nic.driver.tx_descriptor));
        self.nic.lines.clear();
        for packet in &batch.packets {
            let offset = self.cores[batch.core].tx[usize::from(packet.port.0)].fetch();
            let (first, count) = lines(self.layout.address(TX_RING, offset, core), descriptor);
            self.nic.lines.extend((0..count).map(|k| Line(first.0 + k)));
        }
        // A line holds several.
        self.nic.lines.sort_unstable();
        self.nic.lines.dedup();
        self.memory.open();
        let mut read = now;
        for &line in &self.nic.lines {
            read = read.max(self.memory.read_descriptors(line, now));
        }
        let read = self.memory.close(read);
        batch.translated = self.memory.translated();
        // A line at a time.
        let requests = self.nic.lines.len() as u64;
        self.nic.up.request(now, requests);
        // The doorbell, two requests, and the descriptors between them.
        batch.crossing = self.nic.down.latency() * 3 + self.nic.down.unloaded_in(count * descriptor, requests);
        let crossed = self.nic.down.transfer_in(now, count * descriptor, requests);
        self.descriptors_read(slot, crossed, read);
    }

    /// The NIC reads packets and sends them in order.
    pub(super) fn read_packets(&mut self, slot: usize, observer: &mut impl DepartureObserver) {
        let Some(batch) = self.nic.batches[slot].take() else { return };
        self.nic.free_batches.push(slot);
        let now = self.engine.now();
        let TxBurst { core, at, in_memory, translated, crossing, packets } = batch;
        let handed = HandedOver { core, at, in_memory, translated, crossing };
        for mut packet in packets {
            if let Some(lives) = &mut self.lives {
                lives.goes_on(packet.id, LifeStage::TxRing, now);
            }
            let bytes = u64::from(packet.sent_bytes);
            // It came with its descriptor: nothing is read for it.
            let copied = self.cores[core].tx[usize::from(packet.port.0)].is_copied(packet.sent_bytes);
            let start = Addr(self.data(packet.mbuf).0.saturating_add_signed(packet.moved.into()));
            let bytes = bytes.saturating_sub(self.kept(packet.mbuf).into());
            packet.crossing = if copied { Ps::ZERO } else { self.nic.down.unloaded(bytes) };
            let (first, count) = lines(start, bytes);
            if self.nic.output.is_some() {
                let runs = match &self.scattered {
                    _ if copied => Vec::new(),
                    None => vec![(first, count, true)],
                    Some(scattered) => scattered.to_send(packet.mbuf, packet.moved, start, bytes),
                };
                self.read_in_blocks(packet, handed, if copied { 0 } else { bytes }, runs.into_iter());
                continue;
            }
            self.memory.open();
            let at = match &self.scattered {
                _ if copied => now,
                None => {
                    observer.packet_lines(first, count, false);
                    self.memory.dma_read(first, count, now)
                }
                Some(scattered) => {
                    // What was put before the packet is in the mbuf's headroom.
                    let (before, after) = (packet.moved.min(0).unsigned_abs(), packet.moved.max(0) as u64);
                    let mut at = now;
                    if before > 0 {
                        let (first, count) = lines(start, before.into());
                        at = self.memory.dma_read(first, count, now);
                    }
                    for (first, count) in scattered.runs(packet.mbuf, after, bytes - u64::from(before).min(bytes)) {
                        observer.packet_lines(first, count, false);
                        at = at.max(self.memory.dma_read(first, count, now));
                    }
                    at
                }
            };
            let at = self.memory.close(at);
            packet.translated = self.memory.translated();
            let crossed = if copied {
                now
            } else {
                self.nic.up.ask(now, bytes);
                self.nic.down.transfer(now, bytes)
            };
            self.read(packet, handed, crossed, at, observer);
        }
    }

    /// When the NIC has a packet that is read at `read`: as its packet rate allows.
    pub(super) fn paced(&mut self, read: Ps) -> Ps {
        if self.nic.packet_interval == Ps::ZERO {
            return read;
        }
        let at = self.nic.next_read.max(read);
        self.nic.next_read = at + self.nic.packet_interval;
        at
    }

    /// The NIC has read a packet of core `i` for port `port` at `read`, and tells the driver of it and of those before it, if it is
    /// time.
    fn tell_sent(&mut self, i: usize, port: usize, read: Ps) {
        let Some((region, offset)) = self.cores[i].tx[port].read() else { return };
        let (now, bytes) = (self.engine.now(), u64::from(self.nic.driver.tx_completion));
        let (first, count) = lines(self.layout.address(region, offset, i as u16), bytes);
        // It goes between what is received, and what memory takes for it is not waited for.
        let crossing = self.nic.up.unloaded(bytes);
        self.nic.up.transfer(now, bytes);
        let target = self.nic.targets.as_ref().map_or(DmaTarget::Llc, |targets| targets.descriptors);
        let consumer = self.cores[i].consumer();
        self.memory.open();
        let written = placing::write(&mut self.memory, target, consumer, &mut self.nic.placing, (first, count), now);
        if let Err(transaction) = self.memory.close(written) {
            self.expect_nothing(transaction);
        }
        self.memory.translated();
        self.cores[i].tx[port].told(read.max(now) + crossing);
    }

    /// Sends a packet that crossed PCIe at `crossed`, what it waited for memory apart.
    pub(super) fn send(
        &mut self,
        packet: Leaving,
        batch: HandedOver,
        crossed: Ps,
        memory: Ps,
        observer: &mut impl DepartureObserver,
    ) {
        if let Some(scattered) = &mut self.scattered {
            scattered.free(packet.mbuf);
        }
        self.release_payload(packet.mbuf);
        let memory = self.coarse.device(Device::Read, memory + packet.translated);
        let read = self.paced(crossed + memory);
        let port = usize::from(packet.port.0);
        let first_bit = (read + self.nic.tx_pipeline).max(self.nic.port_free[port]);
        let wire = u64::from(packet.sent_bytes) + packet::ETHERNET_FCS_BYTES;
        let wire = wire.max(packet::MIN_FRAME_BYTES) + packet::ETHERNET_OVERHEAD_BYTES;
        self.nic.port_free[port] = first_bit + self.wire.time_for(wire);
        self.tell_sent(batch.core, port, read);
        let mut attribution = packet.attribution;
        let in_memory = memory + batch.in_memory;
        let translated = in_memory.min(packet.translated + batch.translated);
        attribution.charge(Reason::DmaMemory, in_memory - translated);
        attribution.charge(Reason::Iommu, translated);
        let ready = read + self.nic.tx_pipeline;
        let in_nic = ready - crossed - memory;
        attribution.charge(Reason::Nic, in_nic);
        let on_link = ready - batch.at - in_memory - in_nic;
        let idle = (batch.crossing + packet.crossing).min(on_link);
        attribution.charge(Reason::Pcie, idle);
        attribution.charge(Reason::PcieQueue, on_link - idle);
        attribution.charge(Reason::TxQueue, first_bit - ready);
        self.last_departure = self.last_departure.max(first_bit);
        self.inside -= 1;
        self.sent += 1;
        if let Some(lives) = &mut self.lives {
            let gone = self.nic.port_free[port];
            let stages = [(LifeStage::PcieOut, read), (LifeStage::NicOut, ready), (LifeStage::TxQueue, first_bit)];
            stages.into_iter().chain([(LifeStage::WireOut, gone)]).for_each(|(s, to)| lives.goes_on(packet.id, s, to));
            lives.ends(packet.id, PacketFate::Sent(packet.port), first_bit - packet.arrival, first_bit);
        }
        observer.departure(&Departure {
            packet: packet.id,
            arrival: packet.arrival,
            frame_bytes: packet.frame_bytes,
            core: CoreId(batch.core as u16),
            fate: PacketFate::Sent(packet.port),
            sojourn: first_bit - packet.arrival,
            attribution: &attribution,
        });
    }
}
