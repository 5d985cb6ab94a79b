//! What a NIC takes for a packet that it receives: of all, its packet rate; of a queue, a time and what the bytes take on the link.
//!
//! Packets are taken in as they came: one whose queue is busy holds up those behind it, as in a NIC with one buffer. They wait in
//! its packet memory, which loses what finds it full.

use std::collections::VecDeque;

use machine::nic::NicSpec;
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
    waiting: VecDeque<(Packet, usize)>,
    /// Of those that wait.
    bytes: u64,
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
            waiting: VecDeque::new(),
            bytes: 0,
        })
    }

    /// Bytes of packets that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the next one is taken in.
    fn next(&self) -> Option<Ps> {
        self.waiting.front().map(|(_, queue)| self.free.max(self.queues[*queue]))
    }

    /// `packet` has arrived for `queue`; when it is taken in, if it is the only one.
    pub(super) fn push(&mut self, packet: Packet, queue: usize, now: Ps) -> Option<Ps> {
        self.bytes += u64::from(packet.frame_bytes);
        self.waiting.push_back((packet, queue));
        if self.waiting.len() > 1 {
            return None;
        }
        self.next().map(|at| at.max(now))
    }

    /// The oldest one is taken in at `now`: with its queue, and when the next one is.
    pub(super) fn pop(&mut self, now: Ps) -> Option<(Packet, usize, Option<Ps>)> {
        let (packet, queue) = self.waiting.pop_front()?;
        self.bytes -= u64::from(packet.frame_bytes);
        self.free = now + self.packet_interval;
        if let Some(interval) = self.queue_interval {
            let bytes = u64::from(packet.frame_bytes) + self.beside;
            let on_link = bytes + bytes.div_ceil(self.max_payload) * self.overhead;
            self.queues[queue] = now + interval + self.rate.time_for(on_link);
        }
        let next = self.next().map(|at| at.max(now));
        Some((packet, queue, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    /// When packets of 104 bytes, which come at once, each for the next queue, are taken in.
    fn times(mut intake: Intake, packets: usize) -> Vec<u64> {
        let queues = intake.queues.len();
        let mut at = None;
        for i in 0..packets {
            let packet = Packet { frame_bytes: 104, ..Packet::default() };
            at = at.or(intake.push(packet, i % queues, Ps(7)));
        }
        assert_eq!(intake.bytes(), 104 * packets as u64);
        let mut times = Vec::new();
        while let Some(now) = at {
            times.push(now.0);
            at = intake.pop(now).and_then(|(.., next)| next);
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
}
