//! The lives of chosen packets: where each is at any time from its first bit to its last, and what its bursts fetched meanwhile.
//!
//! A life is one span behind the other, so that its spans sum to it. It is kept until its packet ends, and longer if that is one of those
//! that were asked for: the slowest, those that were in a ring when it lost a packet, or one in so many. Of a stretch without time nothing is
//! written down, and of packets that were inside when writing began neither.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use machine::memory::FetchRecord;
use machine::{Response, Served};
use serde::Serialize;
use stats::Path;
use units::{CoreId, PacketId, Ps, Ticket};

use super::cores::InBurst;
use super::{PacketFate, Server};
use crate::scenario::LifeSpec;

/// Packets of a ring that are kept for a loss, the latest of it.
const BEFORE_A_LOSS: usize = 64;

/// Where a packet is during a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LifeStage {
    /// On the wire that it comes by, to its last bit.
    WireIn,
    /// In the NIC, until it begins to cross PCIe.
    NicIn,
    /// On PCIe, to the host.
    PcieIn,
    /// Before the host has credits for it.
    Credits,
    /// Being written to the LLC or to DRAM.
    MemoryWrite,
    /// In a receive ring, or in a software queue between cores.
    Queue,
    /// With the GPU, and back from it.
    Gpu,
    /// In a burst of a core.
    Core,
    /// In a transmit ring: doorbell and descriptors cross PCIe.
    TxRing,
    /// On its way to the NIC: memory, and PCIe.
    PcieOut,
    /// In the NIC, until it can be sent.
    NicOut,
    /// Behind others for its port.
    TxQueue,
    /// On the wire that it leaves by.
    WireOut,
}

/// Why a packet is among the chosen ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyChosen {
    /// One of the slowest.
    Slowest,
    /// It was in a ring that lost a packet, or is that packet.
    Loss,
    /// One in so many.
    Every,
}

/// A time of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LifeSpan {
    /// Where it is.
    pub stage: LifeStage,
    /// From when on, in picoseconds.
    pub from: Ps,
    /// Until when.
    pub to: Ps,
    /// The core, or the one whose ring it is in; none on wires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<u16>,
    /// In a burst: which of the trace's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
}

/// A packet's life.
#[derive(Clone, Debug, Serialize)]
pub struct PacketLife {
    /// Which packet, as in the table of packets.
    pub packet: u64,
    /// Why it is told of.
    pub chosen: Vec<WhyChosen>,
    /// Bytes of its frame without FCS.
    pub frame_bytes: u32,
    /// `sent`, `rejected` or what it was lost for.
    pub fate: String,
    /// The port it left by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Last bit in to first bit out, in picoseconds; 0 if it did not leave.
    pub sojourn: Ps,
    /// One behind the other.
    pub spans: Vec<LifeSpan>,
}

/// A reference that the private caches of a core did not serve.
#[derive(Clone, Debug, Serialize)]
pub struct LifeFetch {
    /// The line's number.
    pub line: u64,
    /// `load`, `store` or `prefetch`.
    pub access: String,
    /// The slice of the LLC.
    pub slice: u32,
    /// When the LLC was asked, in picoseconds.
    pub from: Ps,
    /// When the answer came.
    pub to: Ps,
    /// Who gave it: `llc`, `snoop`, `dram`, `engine`.
    pub served: String,
    /// What it waited for, in order: reasons and picoseconds.
    pub path: Vec<(&'static str, Ps)>,
}

/// A burst of a core that had a chosen packet.
#[derive(Clone, Debug, Serialize)]
pub struct LifeBurst {
    /// Its number.
    pub burst: u64,
    /// The core.
    pub core: u16,
    /// When it began, in picoseconds.
    pub from: Ps,
    /// When it was complete.
    pub to: Ps,
    /// Packets of it.
    pub packets: usize,
    /// What it fetched from beyond the private caches.
    pub fetches: Vec<LifeFetch>,
}

/// A packet that was lost.
#[derive(Clone, Debug, Serialize)]
pub struct LostMoment {
    /// Which.
    pub packet: u64,
    /// When, in picoseconds.
    pub at: Ps,
    /// Of which core.
    pub core: u16,
    /// For want of what.
    pub reason: &'static str,
}

/// What was asked for.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lives {
    /// WhyChosen packets, in the order of their arrival.
    pub packets: Vec<PacketLife>,
    /// Their bursts, in the order of their ends.
    pub bursts: Vec<LifeBurst>,
    /// The losses whose rings were looked at.
    pub losses: Vec<LostMoment>,
}

/// A life under way.
#[derive(Clone, Debug)]
struct Living {
    frame_bytes: u32,
    core: u16,
    until: Ps,
    spans: Vec<LifeSpan>,
    bursts: Vec<Arc<BurstRecord>>,
    at_loss: bool,
}

#[derive(Debug)]
struct BurstRecord {
    burst: u64,
    core: u16,
    from: Ps,
    to: Ps,
    packets: usize,
    fetches: Vec<FetchRecord>,
}

/// Writes lives down.
#[derive(Clone, Debug)]
pub(super) struct LifeWriter {
    spec: LifeSpec,
    under_way: BTreeMap<u64, Living>,
    /// By core, of its burst under way.
    fetches: Vec<Vec<FetchRecord>>,
    /// Answers of controllers that came after their burst's end: none is waited for then.
    heard: Vec<FetchRecord>,
    bursts: u64,
    slowest: BinaryHeap<Reverse<(Ps, u64)>>,
    ended: BTreeMap<u64, (Living, PacketFate, Ps, Vec<WhyChosen>)>,
    losses: Vec<LostMoment>,
}

impl LifeWriter {
    fn new(spec: LifeSpec, cores: usize) -> LifeWriter {
        LifeWriter {
            spec,
            under_way: BTreeMap::new(),
            fetches: vec![Vec::new(); cores],
            heard: Vec::new(),
            bursts: 0,
            slowest: BinaryHeap::new(),
            ended: BTreeMap::new(),
            losses: Vec::new(),
        }
    }

    /// A packet's last bit has arrived at `at`, after `wire` on it; it is for `core`.
    pub(super) fn arrives(&mut self, packet: PacketId, frame_bytes: u32, core: usize, at: Ps, wire: Ps) {
        let first = LifeSpan { stage: LifeStage::WireIn, from: at.since(wire), to: at, core: None, burst: None };
        let core = core as u16;
        let living = Living { frame_bytes, core, until: at, spans: vec![first], bursts: Vec::new(), at_loss: false };
        self.under_way.insert(packet.0, living);
    }

    /// It is in `stage` until `to`.
    pub(super) fn goes_on(&mut self, packet: PacketId, stage: LifeStage, to: Ps) {
        self.span(packet, stage, to, None);
    }

    fn span(&mut self, packet: PacketId, stage: LifeStage, to: Ps, burst: Option<&Arc<BurstRecord>>) {
        let Some(life) = self.under_way.get_mut(&packet.0) else { return };
        if to > life.until {
            let core = match (stage, burst) {
                (_, Some(burst)) => Some(burst.core),
                (LifeStage::Queue | LifeStage::TxRing, None) => Some(life.core),
                _ => None,
            };
            life.spans.push(LifeSpan { stage, from: life.until, to, core, burst: burst.map(|burst| burst.burst) });
            life.until = to;
        }
        life.bursts.extend(burst.cloned());
    }

    /// Core `i`'s burst of these packets, which were in these stages before, ends at `to`; it began at `from`.
    fn burst(&mut self, i: usize, packets: impl ExactSizeIterator<Item = (PacketId, LifeStage)>, from: Ps, to: Ps) {
        self.sort_in();
        let fetches = std::mem::take(&mut self.fetches[i]);
        self.bursts += 1;
        let (burst, core) = (self.bursts, i as u16);
        let record = Arc::new(BurstRecord { burst, core, from, to, packets: packets.len(), fetches });
        for (packet, before) in packets {
            if let Some(life) = self.under_way.get_mut(&packet.0) {
                life.core = core;
            }
            self.span(packet, before, from, None);
            self.span(packet, LifeStage::Core, to, Some(&record));
        }
    }

    /// What was heard goes to the cores that asked.
    fn sort_in(&mut self) {
        for record in self.heard.drain(..) {
            if let Some(fetches) = self.fetches.get_mut(usize::from(record.core.0)) {
                fetches.push(record);
            }
        }
    }

    fn answered(&mut self, core: CoreId, ticket: Ticket, response: &Response) {
        self.sort_in();
        let Some(fetches) = self.fetches.get_mut(usize::from(core.0)) else { return };
        if let Some(record) = fetches.iter_mut().rev().find(|record| record.answer == Err(ticket)) {
            record.answer = Ok((response.at, response.served, response.path));
        }
    }

    /// A packet has ended at `at`.
    pub(super) fn ends(&mut self, packet: PacketId, fate: PacketFate, sojourn: Ps, at: Ps) {
        let Some(mut life) = self.under_way.remove(&packet.0) else { return };
        if let PacketFate::Lost(reason) = fate
            && self.losses.len() < self.spec.losses as usize
        {
            life.at_loss = true;
            let same = self.under_way.values_mut().rev().filter(|other| other.core == life.core);
            same.take(BEFORE_A_LOSS).for_each(|other| other.at_loss = true);
            self.losses.push(LostMoment { packet: packet.0, at, core: life.core, reason: reason.name() });
        }
        let mut chosen = Vec::new();
        if self.spec.slowest > 0 && matches!(fate, PacketFate::Sent(_)) {
            self.slowest.push(Reverse((sojourn, packet.0)));
            chosen.push(WhyChosen::Slowest);
            if self.slowest.len() > self.spec.slowest as usize
                && let Some(Reverse((_, faster))) = self.slowest.pop()
            {
                if faster == packet.0 {
                    chosen.clear();
                } else {
                    self.is_no_slowest(faster);
                }
            }
        }
        chosen.extend(life.at_loss.then_some(WhyChosen::Loss));
        chosen.extend(self.spec.every.is_some_and(|n| packet.0.is_multiple_of(n)).then_some(WhyChosen::Every));
        if !chosen.is_empty() {
            self.ended.insert(packet.0, (life, fate, sojourn, chosen));
        }
    }

    fn is_no_slowest(&mut self, packet: u64) {
        if let Some((.., chosen)) = self.ended.get_mut(&packet) {
            chosen.retain(|why| *why != WhyChosen::Slowest);
            if chosen.is_empty() {
                self.ended.remove(&packet);
            }
        }
    }

    fn lives(self) -> Lives {
        let mut bursts: BTreeMap<u64, Arc<BurstRecord>> = BTreeMap::new();
        let packets = self.ended.into_iter().map(|(packet, (life, fate, sojourn, chosen))| {
            bursts.extend(life.bursts.iter().map(|burst| (burst.burst, burst.clone())));
            let (fate, port) = match fate {
                PacketFate::Sent(port) => ("sent", Some(port.0)),
                PacketFate::Rejected(_) => ("rejected", None),
                PacketFate::Lost(loss) => (loss.name(), None),
            };
            let (fate, frame_bytes) = (fate.to_string(), life.frame_bytes);
            PacketLife { packet, chosen, frame_bytes, fate, port, sojourn, spans: life.spans }
        });
        let packets = packets.collect();
        Lives { packets, bursts: bursts.values().map(|burst| burst.told()).collect(), losses: self.losses }
    }
}

impl BurstRecord {
    fn told(&self) -> LifeBurst {
        let fetches = self.fetches.iter().filter_map(|record| {
            let (to, served, path) = record.answer.as_ref().ok()?;
            Some(LifeFetch {
                line: record.line.0,
                access: format!("{:?}", record.access).to_lowercase(),
                slice: record.slice,
                from: record.at,
                to: *to,
                served: name_of(*served).to_string(),
                path: Path::iter(path).map(|(reason, time)| (reason.name(), time)).collect(),
            })
        });
        let (burst, core, from, to, packets) = (self.burst, self.core, self.from, self.to, self.packets);
        LifeBurst { burst, core, from, to, packets, fetches: fetches.collect() }
    }
}

fn name_of(served: Served) -> &'static str {
    match served {
        Served::L1 => "l1",
        Served::L2 => "l2",
        Served::Llc => "llc",
        Served::Snoop => "snoop",
        Served::Dram => "dram",
        Served::Engine => "engine",
    }
}

impl Server {
    /// Writes down the lives of packets that arrive from now on.
    pub fn write_lives(&mut self, spec: &LifeSpec) {
        self.memory.keep_records(true);
        self.lives = Some(Box::new(LifeWriter::new(spec.clone(), self.cores.len())));
    }

    /// What was written down, of the chosen packets; none where nothing was. Nothing more is written.
    pub fn take_lives(&mut self) -> Option<Lives> {
        self.memory.keep_records(false);
        self.lives.take().map(|writer| writer.lives())
    }

    /// The burst of core `i` ends.
    #[inline]
    pub(super) fn write_burst(&mut self, i: usize, now: Ps) {
        let Some(lives) = &mut self.lives else { return };
        self.memory.take_records(&mut lives.heard);
        let worker = &self.cores[i];
        if worker.in_detail {
            let back = |entry: &InBurst| entry.before.is_some() && i < self.receiving;
            let before = |entry| if back(entry) { LifeStage::Gpu } else { LifeStage::Queue };
            let packets = worker.packets.iter().zip(&worker.in_burst).map(|(packet, entry)| (packet.id, before(entry)));
            lives.burst(i, packets, worker.started, now);
        }
    }

    /// A controller has answered core `core`.
    #[inline]
    pub(super) fn write_answer(&mut self, core: CoreId, ticket: Ticket, response: &Response) {
        if let Some(lives) = &mut self.lives {
            self.memory.take_records(&mut lives.heard);
            lives.answered(core, ticket, response);
        }
    }
}
