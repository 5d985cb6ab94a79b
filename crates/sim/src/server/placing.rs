//! Where what the NIC receives goes, and lines of packets that are given up once nobody reads them again.

use machine::memory::{Consumer, DeadLines, DmaTarget, Hierarchy, TargetsSpec};
use machine::nic::{PacketStart, RxQueues, ServerLayout};
use probe::Probe;
use schemars::JsonSchema;
use serde::Serialize;
use units::{Addr, LINE_BYTES, Line, Ps};

use super::{CoreInput, Server, ServerCore, lines};
use crate::scenario::Scenario;

const SITE_DROP: u16 = 61_030;

/// What became of received packets beside the LLC's I/O ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, derive_more::Sub, Serialize, serde::Deserialize, JsonSchema)]
pub struct PlacingCounters {
    /// Buffers that the NIC took of another core's ring than that of the core that the packet was for.
    pub foreign_buffers: u64,
    /// Packets that waited in the NIC's memory, for want of a descriptor or of a credit of their flow.
    pub held_packets: u64,
    /// Packets that found no credit of their flow, or others of it waiting.
    pub uncredited_packets: u64,
    /// Packets of which the payload stayed in the NIC.
    pub kept_packets: u64,
    /// Lines that the NIC wrote to an L2.
    pub l2_lines: u64,
    /// Lines that it wrote past the caches, as it was told to.
    pub memory_lines: u64,
    /// Lines that cores gave up because they were dead, and that a cache had.
    pub dropped_lines: u64,
    /// Those of them that were modified, and would have been written back.
    pub spared_writebacks: u64,
}

/// Packets whose lines are to be given up.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct DeadPackets {
    /// By mbuf: the packet that was written there last, and its lines.
    written: Vec<(u64, u32)>,
}

impl DeadPackets {
    /// Those of `scenario`; none where lines are not given up.
    pub(super) fn of(scenario: &Scenario) -> Option<Box<DeadPackets>> {
        let written = || vec![(u64::MAX, 0); scenario.mempool.size as usize];
        scenario.nic.drop_dead.then(|| Box::new(DeadPackets { written: written() }))
    }
}

/// Where packets begin in their mbufs, if not behind the usual headroom.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct PacketStarts {
    how: PacketStart,
    /// By mbuf: so many lines later.
    later: Vec<u16>,
}

impl PacketStarts {
    /// Those of `scenario`.
    pub(super) fn of(scenario: &Scenario) -> Option<Box<PacketStarts>> {
        let how = scenario.mempool.start?;
        Some(Box::new(PacketStarts { how, later: vec![0; scenario.mempool.size as usize] }))
    }
}

/// The first byte of the packet in `mbuf`.
#[inline]
pub(super) fn data(layout: &ServerLayout, starts: Option<&PacketStarts>, mbuf: u32) -> Addr {
    let later = starts.map_or(0, |starts| u64::from(starts.later[mbuf as usize]));
    Addr(layout.data(mbuf).0 + later * LINE_BYTES)
}

impl ServerCore {
    /// The receive queues of one that receives.
    pub(super) fn rx(&mut self) -> Option<&mut RxQueues> {
        match &mut self.input {
            CoreInput::Nic(rx) => Some(rx),
            CoreInput::Queue(..) => None,
        }
    }

    pub(super) fn consumer(&self) -> Consumer {
        Consumer { core: self.core.id(), clos: self.core.clos() }
    }
}

/// Writes `count` lines of a packet from `first` on, of which `before` were written already.
pub(super) fn write_packet(
    memory: &mut Hierarchy,
    targets: &TargetsSpec,
    consumer: Consumer,
    counters: &mut PlacingCounters,
    (before, first, count): (u64, Line, u64),
    now: Ps,
) -> Ps {
    let header = u64::from(targets.header_lines).saturating_sub(before).min(count);
    let parts = [(targets.header, first, header), (targets.payload, Line(first.0 + header), count - header)];
    let mut at = now;
    for (target, first, count) in parts.into_iter().filter(|part| part.2 > 0) {
        at = at.max(write(memory, target, consumer, counters, (first, count), now));
    }
    at
}

/// Writes `count` lines from `first` on to `target`.
pub(super) fn write(
    memory: &mut Hierarchy,
    target: DmaTarget,
    consumer: Consumer,
    counters: &mut PlacingCounters,
    (first, count): (Line, u64),
    now: Ps,
) -> Ps {
    match target {
        DmaTarget::Llc => {}
        DmaTarget::L2 => counters.l2_lines += count,
        DmaTarget::Memory => counters.memory_lines += count,
    }
    memory.dma_write_to(target, consumer, first, count, now)
}

impl Server {
    /// The first byte of the packet in `mbuf`.
    pub(super) fn data(&self, mbuf: u32) -> Addr {
        data(&self.layout, self.nic.starts.as_deref(), mbuf)
    }

    /// Says where the packet of core `core` in `mbuf` begins.
    pub(super) fn choose_start(&mut self, core: usize, mbuf: u32) {
        let Some(starts) = &mut self.nic.starts else { return };
        let first = self.layout.data(mbuf).line();
        let later = match starts.how {
            PacketStart::NearSlice(most) => {
                self.memory.nearest_line(self.cores[core].core.id(), first, u64::from(most) + 1)
            }
            PacketStart::Stagger(lines) => u64::from(mbuf % PacketStart::PLACES * lines),
        };
        starts.later[mbuf as usize] = later as u16;
    }

    /// Which packet `mbuf` has from now on, if that is asked for.
    pub(super) fn note_written(&mut self, mbuf: u32, packet: u64, frame_bytes: u32) {
        if let Some(dead) = &mut self.nic.dead {
            let bytes = frame_bytes - self.nic.memory.as_ref().map_or(0, |memory| memory.kept(mbuf));
            let (_, count) = lines(data(&self.layout, self.nic.starts.as_deref(), mbuf), bytes.into());
            dead.written[mbuf as usize] = (packet, count as u32);
        }
    }

    /// Core `i` gives up the lines of packets that have left, and in its script those of `freed`, which end in its burst.
    pub(super) fn drop_dead(&mut self, i: usize, freed: &[u32], now: Ps) {
        let Some(dead) = &self.nic.dead else { return };
        let mut work = 0;
        for &mbuf in freed.iter().chain(&self.gone) {
            work += dead.written[mbuf as usize].1;
        }
        let ends = freed.iter().map(|&mbuf| (mbuf, dead.written[mbuf as usize].0)).collect();
        let gone = std::mem::take(&mut self.gone);
        for &mbuf in &gone {
            self.give_up(i, mbuf, None, now);
        }
        self.gone = gone;
        let worker = &mut self.cores[i];
        worker.core.script().work(SITE_DROP, work);
        worker.dead = ends;
    }

    /// The burst of core `i` is over: it has given up what ended in it, but for mbufs that have another packet by now.
    pub(super) fn drop_ended(&mut self, i: usize, now: Ps) {
        for (mbuf, packet) in std::mem::take(&mut self.cores[i].dead) {
            self.give_up(i, mbuf, Some(packet), now);
        }
    }

    fn give_up(&mut self, i: usize, mbuf: u32, packet: Option<u64>, now: Ps) {
        let Some(dead) = &mut self.nic.dead else { return };
        let (written, count) = &mut dead.written[mbuf as usize];
        if packet.is_some_and(|packet| packet != *written) {
            return;
        }
        let count = u64::from(std::mem::take(count));
        let (core, first) = (self.cores[i].core.id(), self.data(mbuf).line());
        let DeadLines { cached, dirty } = self.memory.give_up(core, first, count, now);
        self.nic.placing.dropped_lines += cached;
        self.nic.placing.spared_writebacks += dirty;
    }
}
