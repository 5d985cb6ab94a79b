//! What a NIC takes for a packet that it receives: of all, its packet rate; of a queue, a time and what the bytes take on the link.
//!
//! Packets of a queue are taken in as they came, and those of a queue that is busy do not hold up others. They wait in the NIC's
//! packet memory, which loses what finds it full.

use std::collections::VecDeque;

use machine::nic::{NicSpec, PcieLink};
use packet::Packet;
use units::{Ps, Rate, Span};

/// Packets that have arrived and that the NIC has not taken in.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Intake {
    packet_interval: Ps,
    queue_interval: Option<Ps>,
    rate: Rate,
    max_payload: u64,
    overhead: u64,
    /// Bytes that the NIC writes for a packet beside its own.
    beside: u64,
    /// When the NIC is free, and when each queue is.
    free: Ps,
    queues: Vec<Ps>,
    /// By queue.
    waiting: Vec<VecDeque<Packet>>,
    /// Of those that wait.
    bytes: u64,
    /// When its next turn is scheduled.
    due: Ps,
}

impl Intake {
    /// That of `nic` with `queues` queues; none where it takes no time.
    pub(super) fn of(nic: &NicSpec, queues: u32) -> Option<Intake> {
        if nic.packet_interval.is_none() && nic.queue_interval.is_none() {
            return None;
        }
        Some(Intake {
            packet_interval: nic.packet_interval.map_or(Ps::ZERO, Span::ps),
            queue_interval: nic.queue_interval.map(Span::ps),
            rate: nic.pcie.rate,
            max_payload: nic.pcie.max_payload.into(),
            overhead: nic.pcie.overhead.into(),
            beside: nic.driver.written(),
            free: Ps::ZERO,
            queues: vec![Ps::ZERO; queues as usize],
            waiting: vec![VecDeque::new(); queues as usize],
            bytes: 0,
            due: Ps::MAX,
        })
    }

    /// Bytes of packets that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the next one is taken in, and of which queue: of those that could be, the one that came first.
    fn next(&self) -> Option<(Ps, usize)> {
        let heads = self.waiting.iter().enumerate().filter_map(|(queue, waiting)| Some((queue, waiting.front()?.id)));
        heads
            .map(|(queue, id)| ((self.free.max(self.queues[queue]), id), queue))
            .min()
            .map(|((at, _), queue)| (at, queue))
    }

    /// When a turn has to be scheduled, where none is that is as early.
    fn turn(&mut self, now: Ps) -> Option<Ps> {
        let at = self.next()?.0.max(now);
        let earlier = at < self.due;
        self.due = self.due.min(at);
        earlier.then_some(at)
    }

    /// `packet` has arrived for `queue`; when a turn has to be scheduled for it.
    pub(super) fn push(&mut self, packet: Packet, queue: usize, now: Ps) -> Option<Ps> {
        self.bytes += u64::from(packet.frame_bytes);
        self.waiting[queue].push_back(packet);
        self.turn(now)
    }

    /// The turn at `now`: the packet that is taken in, with its queue, and when another turn has to be scheduled.
    pub(super) fn pop(&mut self, now: Ps) -> (Option<(Packet, usize)>, Option<Ps>) {
        if now != self.due {
            return (None, None);
        }
        self.due = Ps::MAX;
        let taken = self.next().filter(|(at, _)| *at <= now).and_then(|(_, queue)| {
            let packet = self.waiting[queue].pop_front()?;
            self.bytes -= u64::from(packet.frame_bytes);
            self.free = now + self.packet_interval;
            if let Some(interval) = self.queue_interval {
                let bytes = u64::from(packet.frame_bytes) + self.beside;
                let on_link = PcieLink::with_headers(bytes, self.max_payload, self.overhead);
                self.queues[queue] = now + interval + self.rate.time_for(on_link);
            }
            Some((packet, queue))
        });
        (taken, self.turn(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::PacketId;

    fn intake(packet_interval: u64, queue_interval: Option<u64>, queues: usize) -> Intake {
        Intake {
            packet_interval: Ps(packet_interval),
            queue_interval: queue_interval.map(Ps),
            rate: Rate::from_gbps(64.0),
            max_payload: 256,
            overhead: 24,
            beside: 0,
            free: Ps::ZERO,
            queues: vec![Ps::ZERO; queues],
            waiting: vec![VecDeque::new(); queues],
            bytes: 0,
            due: Ps::MAX,
        }
    }

    /// When packets of 104 bytes, which come at once, each for the next queue, are taken in.
    fn times(mut intake: Intake, packets: usize) -> Vec<u64> {
        let queues = intake.queues.len();
        let mut at = None;
        for i in 0..packets {
            let packet = Packet { id: PacketId(i as u64), frame_bytes: 104, ..Packet::default() };
            at = intake.push(packet, i % queues, Ps(7)).or(at);
        }
        assert_eq!(intake.bytes(), 104 * packets as u64);
        let mut times = Vec::new();
        while let Some(now) = at {
            let (taken, next) = intake.pop(now);
            if let Some((packet, queue)) = taken {
                assert_eq!(packet.id.0 as usize % queues, queue);
                times.push(now.0);
            }
            at = next;
        }
        assert_eq!(intake.bytes(), 0);
        times
    }

    #[test]
    fn packets_go_in_at_the_rate_of_the_nic_or_of_their_queue() {
        assert_eq!(times(intake(10, None, 1), 3), [7, 17, 27]);
        // 128 bytes at 8 bytes/ns are 16 ns beside the 5 of the queue.
        assert_eq!(times(intake(0, Some(5_000), 1), 3), [7, 21_007, 42_007]);
        // Two queues take turns, and the NIC takes two at a time.
        assert_eq!(times(intake(10, Some(5_000), 2), 4), [7, 17, 21_007, 21_017]);
    }

    #[test]
    fn a_busy_queue_does_not_hold_up_another_and_a_turn_that_was_overtaken_is_none() {
        let mut intake = intake(0, Some(5_000), 2);
        let packet = |id| Packet { id: PacketId(id), frame_bytes: 104, ..Packet::default() };
        assert_eq!(intake.push(packet(0), 0, Ps(7)), Some(Ps(7)));
        assert_eq!(intake.pop(Ps(7)).0.map(|(_, queue)| queue), Some(0));
        assert_eq!(intake.push(packet(1), 0, Ps(8)), Some(Ps(21_007)));
        assert_eq!(intake.push(packet(2), 1, Ps(9)), Some(Ps(9)));
        let (taken, next) = intake.pop(Ps(9));
        assert_eq!((taken.map(|(packet, _)| packet.id.0), next), (Some(2), Some(Ps(21_007))));
        assert_eq!(intake.pop(Ps(21_007)).0.map(|(packet, _)| packet.id.0), Some(1));
        assert!(matches!(intake.pop(Ps(21_007)), (None, None)), "it was scheduled twice");
    }
}
