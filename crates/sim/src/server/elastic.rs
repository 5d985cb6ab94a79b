//! Memory of the NIC for packets that find no descriptor: they wait there, in the order of their queue, and are not lost.
//!
//! CEIO (Liu et al., SIGCOMM 2025) gives flows credits for buffers that the LLC can hold, keeps what has none in the NIC's DRAM, and has it
//! fetched as credits come back. Here the credits are the descriptors of a ring: as many as the LLC is to hold, and back once
//! the driver posts them. A packet behind one that waits, waits too, so that a queue stays in order. Left out: credits that
//! flows take from each other, and the bandwidth of the NIC's DRAM.

use std::collections::VecDeque;

use machine::nic::ElasticSpec;
use packet::Packet;
use units::Ps;

use super::rings::CommonRings;
use super::{DepartureObserver, Loss, PRIORITY_NIC, Server, ServerEvent};
use crate::scenario::Scenario;

/// Packets that wait in the NIC's memory.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Elastic {
    memory: u64,
    fetch: Ps,
    bytes: u64,
    /// By queue: those that wait, and how many of them are being fetched.
    queues: Vec<(VecDeque<Packet>, usize)>,
    /// Where the next round of fetches begins.
    turn: usize,
}

impl Elastic {
    /// That of `scenario`; none where such packets are lost.
    pub(super) fn of(scenario: &Scenario) -> Option<Box<Elastic>> {
        let ElasticSpec { memory, fetch } = scenario.nic.elastic.as_ref()?;
        let queues = scenario.receiving_cores() * scenario.nic.queues_per_core;
        Some(Box::new(Elastic {
            memory: memory.bytes(),
            fetch: fetch.ps(),
            bytes: 0,
            queues: vec![(VecDeque::new(), 0); queues as usize],
            turn: 0,
        }))
    }

    /// Whether packets of queue `queue`, of all, wait.
    pub(super) fn waits(&self, queue: usize) -> bool {
        !self.queues[queue].0.is_empty()
    }

    /// Whether any wait.
    pub(super) fn holds(&self) -> bool {
        self.bytes > 0
    }
}

impl Server {
    /// `packet` of queue `queue`, of all, has no descriptor: it waits in the NIC's memory, or is lost where there is none or no room.
    pub(super) fn hold_or_lose(
        &mut self,
        packet: Packet,
        queue: usize,
        loss: Loss,
        observer: &mut impl DepartureObserver,
    ) {
        let bytes = u64::from(packet.frame_bytes);
        match &mut self.nic.elastic {
            Some(elastic) if elastic.bytes + bytes <= elastic.memory => {
                elastic.bytes += bytes;
                elastic.queues[queue].0.push_back(packet);
                self.nic.placing.held_packets += 1;
                self.fetch_held();
            }
            _ => self.lose(packet, queue / self.nic.queues_per_core, loss, observer),
        }
    }

    /// Descriptors that the NIC can use for queue `queue`, of all, and that no fetch under way will take.
    fn free_descriptors(&mut self, queue: usize) -> usize {
        let (core, own) = (queue / self.nic.queues_per_core, queue % self.nic.queues_per_core);
        let fetches = self.nic.elastic.as_ref().map_or(0, |elastic| match self.nic.common.as_deref() {
            None => elastic.queues[queue].1,
            Some(_) => elastic.queues.iter().map(|held| held.1).sum(),
        });
        let posted = match self.nic.common.as_deref() {
            Some(CommonRings::Shared(ring)) => ring.posted(),
            Some(CommonRings::Bisected(_)) => {
                let of = |core: &mut super::ServerCore| core.rx().map_or(0, |rx| rx.queues().map(|q| q.posted()).sum());
                self.cores.iter_mut().map(of).sum()
            }
            None => self.cores[core].rx().map_or(0, |rx| rx.queue(own).posted()),
        };
        posted.saturating_sub(fetches)
    }

    /// The NIC fetches packets that wait, as far as there are descriptors for them.
    pub(super) fn fetch_held(&mut self) {
        let Some(elastic) = self.nic.elastic.as_deref().filter(|elastic| elastic.holds()) else { return };
        let (n, first, at) = (elastic.queues.len(), elastic.turn, self.engine.now() + elastic.fetch);
        for queue in (0..n).map(|k| (first + k) % n) {
            let free = self.free_descriptors(queue);
            let Some(elastic) = &mut self.nic.elastic else { return };
            let (held, fetches) = &mut elastic.queues[queue];
            let more = free.min(held.len() - *fetches);
            *fetches += more;
            elastic.turn = if more > 0 { (queue + 1) % n } else { elastic.turn };
            for _ in 0..more {
                self.engine.schedule(at, PRIORITY_NIC, ServerEvent::Fetched(queue));
            }
        }
    }

    /// The packet of queue `queue`, of all, that was held for longest is there.
    pub(super) fn fetched(&mut self, queue: usize) {
        let (core, own) = (queue / self.nic.queues_per_core, queue % self.nic.queues_per_core);
        let Some(elastic) = &mut self.nic.elastic else { return };
        let (held, fetches) = &mut elastic.queues[queue];
        *fetches -= 1;
        let Some(packet) = held.pop_front() else { return };
        let bytes = u64::from(packet.frame_bytes);
        match self.take_buffer(core, own) {
            Ok(buffer) => {
                if let Some(elastic) = &mut self.nic.elastic {
                    elastic.bytes -= bytes;
                }
                self.cross(packet, core, own, buffer);
            }
            // Somebody else's packet has taken it.
            Err(_) => {
                if let Some(elastic) = &mut self.nic.elastic {
                    elastic.queues[queue].0.push_front(packet);
                }
            }
        }
        self.fetch_held();
    }
}
