//! Packets, a source of them, and a sink that keeps them: what the tests of backends set up.

use functions::{Forward, PacketFunction, Verdict};
use packet::{Packet, internet_checksum};
use probe::Null;
use router::RouterError;
use router::sink::FrameSink;
use router::source::{FrameSource, NextFrame};
use units::{PacketId, PortId, Ps};

/// Packet `number`: its identification and source say which it is; its destination, time to live and checksum differ, so
/// that verdicts do.
pub fn packet(number: u64) -> Packet {
    let dst = [[10, 9, 9, 9], [10, 1, 2, 7], [10, 1, 2, 200], [8, 8, 8, 8], [224, 0, 0, 5]][number as usize % 5];
    let ttl = if number % 7 == 3 { 1 } else { 64 };
    let mut header = vec![0x45, 0, 0, 40, (number >> 8) as u8, number as u8, 0, 0, ttl, 17, 0, 0, 192, 0];
    header.extend([(number >> 24) as u8, (number >> 16) as u8]);
    header.extend(dst);
    let sum = internet_checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    if number % 11 == 5 {
        header[10] ^= 0x40;
    }
    let mut frame = vec![0xee; 12];
    frame.extend([8, 0]);
    frame.extend(header);
    frame.extend([0; 20]);
    let mut packet = Packet { id: PacketId(number), arrival: Ps(number * 1_000_000), ..Packet::default() };
    packet.set_frame(&frame, frame.len() as u32);
    packet
}

/// Packets from `next` to before `end`.
pub struct Made {
    pub next: u64,
    pub end: u64,
}

impl FrameSource for Made {
    fn next(&mut self, out: &mut Packet) -> Result<NextFrame, RouterError> {
        if self.next == self.end {
            return Ok(NextFrame::End);
        }
        *out = packet(self.next);
        self.next += 1;
        Ok(NextFrame::Packet)
    }
}

/// Keeps what left.
#[derive(Default)]
pub struct Kept(pub Vec<(Packet, PortId)>);

impl FrameSink for Kept {
    fn send(&mut self, packet: &Packet, port: PortId) -> Result<(), RouterError> {
        self.0.push((packet.clone(), port));
        Ok(())
    }
}

/// What should have left of packets 0 to before `packets`.
pub fn expected(mut forward: Forward, packets: u64) -> Vec<(Packet, PortId)> {
    let mut burst: Vec<Packet> = (0..packets).map(packet).collect();
    let mut verdicts = Vec::new();
    forward.process_burst(Ps::ZERO, &mut burst, &mut Null, &mut verdicts);
    let sent = burst.into_iter().zip(verdicts).filter_map(|(packet, verdict)| match verdict {
        Verdict::Forward { port } => Some((packet, port)),
        Verdict::Drop(_) => None,
    });
    sent.collect()
}
