//! Where what a device writes goes: the LLC's I/O ways, a core's L2, or memory; and lines that are given up once they are dead.
//!
//! A write to L2 is what a steering tag of PCIe's TPH asks for (PCI Express Base 4.0, section 6.17), as AMD's SDCI has it, and what IDIO
//! does with headers (Alian et al., MICRO 2022, "IDIO: network-driven, inbound network data orchestration on server processors"). It
//! makes the line modified there, as if the core had written it, and what it pushes out goes where victims of that L2 go. An inclusive
//! LLC gets the line, too. Left out: a bound on what devices may fill of an L2, and the pressure by which IDIO decides.
//!
//! A dead line is one whose content nobody reads again. Giving it up takes it out of all caches and spares its write-back
//! (Vemmou, Cho, Daglis, MICRO 2022, "Patching up network data leaks with Sweeper"; IDIO's self-invalidating buffers). What is read there
//! afterwards, before it is written, is whatever memory has. Left out: who may do so.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Cbm, Clos, CoreId, Line, Ps};

use super::llc::{FillRule, Requester, Spot};
use super::{ALL_WAYS, Hierarchy, Inclusion, Private, llc};
use crate::MachineError;

/// Where a device's write goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DmaTarget {
    /// Where it finds the line, or into the I/O ways of the LLC, as far as there are any.
    #[default]
    Llc,
    /// Into the L2 of the core whose queue the packet is in.
    L2,
    /// Past all caches.
    Memory,
}

/// Where the parts of what a NIC has received go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TargetsSpec {
    /// Descriptors, or completions, also of what was sent.
    pub descriptors: DmaTarget,
    /// The first lines of a packet.
    pub header: DmaTarget,
    /// How many these are, 1 to 24.
    pub header_lines: u32,
    /// The lines behind them.
    pub payload: DmaTarget,
}

impl Default for TargetsSpec {
    fn default() -> TargetsSpec {
        TargetsSpec { descriptors: DmaTarget::Llc, header: DmaTarget::Llc, header_lines: 1, payload: DmaTarget::Llc }
    }
}

impl TargetsSpec {
    /// Checks the ranges. `path` is where it stands in the scenario.
    ///
    /// # Errors
    /// A value outside its range.
    pub fn check(&self, path: &str) -> Result<(), MachineError> {
        MachineError::check_header_lines(path, self.header_lines, 1)
    }
}

/// For whom a device writes.
#[derive(Clone, Copy, Debug)]
pub struct Consumer {
    /// The core whose queue it is.
    pub core: CoreId,
    /// Its class of service.
    pub clos: Clos,
}

/// Dead lines that were given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadLines {
    /// Those that a cache had.
    pub cached: u64,
    /// Those of them that were not written back for it.
    pub dirty: u64,
}

impl Hierarchy {
    /// As [`Hierarchy::dma_write`], of lines that go to `target` for `consumer`.
    pub fn dma_write_to(&mut self, target: DmaTarget, consumer: Consumer, first: Line, count: u64, now: Ps) -> Ps {
        if target == DmaTarget::Llc {
            return self.dma_write(first, count, now);
        }
        if target == DmaTarget::Memory {
            return self.dma_write_past(first, count, now);
        }
        self.note_received(first, count, false);
        self.translate_for_device(first, count, now);
        self.enter(Requester::Device);
        self.for_each_line(first, count, |memory, line, spot| memory.write_to_l2(line, spot, consumer, now))
    }

    /// As [`Hierarchy::dma_write`], of a device for which direct cache access is off: past all caches, whatever the I/O ways are.
    /// What a cache has of the lines is gone.
    pub fn dma_write_past(&mut self, first: Line, count: u64, now: Ps) -> Ps {
        self.note_received(first, count, true);
        self.translate_for_device(first, count, now);
        self.enter(Requester::Device);
        let past = FillRule { ways: Cbm(0), age: self.io_age, owner: llc::DEVICES };
        self.for_each_line(first, count, |memory, line, spot| memory.write_from_device(line, spot, past, now))
    }

    /// Which of `choices` lines from `first` on is in the slice of the LLC nearest to `core`, the first of several.
    pub fn nearest_line(&mut self, core: CoreId, first: Line, choices: u64) -> u64 {
        self.enter(Requester::Core(core));
        self.llc.nearest(core, first, choices)
    }

    /// When the write of `line` into the consumer's L2 is done.
    fn write_to_l2(&mut self, line: Line, spot: Spot, consumer: Consumer, now: Ps) -> Ps {
        let (mut at, held) = self.claim_for_device(line, spot, now);
        let io = FillRule { ways: self.io_ways, age: self.io_age, owner: llc::DEVICES };
        let share = self.share_of(consumer.clos);
        let rule = if io.ways.0 == 0 { share } else { io };
        let includes = self.inclusion == Inclusion::Inclusive;
        let fabric = &self.behind.fabric;
        let afar = fabric.socket_of(consumer.core) != fabric.here();
        let found = if includes && !afar {
            let there = self.llc.has(spot);
            at = self.fill_or_write(line, spot, rule, at).1;
            there
        } else {
            self.llc.remove(spot).is_some()
        };
        self.counters.dma_write.count(found || held);
        self.enter(Requester::Core(consumer.core));
        if includes && afar {
            // The LLC beside that L2 includes it: what stayed in the NIC's would be older than what the core writes.
            at = self.fill_or_write(line, self.llc.spot(line), rule, at).1;
        }
        let Private { l2, .. } = &mut self.cores[usize::from(consumer.core.0)];
        if let Ok(Some(victim)) = l2.fill(line, ALL_WAYS, true, true) {
            self.settle_victim(&victim, consumer.core, share, at);
        }
        self.directory.insert(line, consumer.core);
        self.enter(Requester::Device);
        at + self.l2_latency
    }

    /// Core `core` gives up `count` lines from `first` on, which are dead: see the module header.
    pub fn give_up(&mut self, core: CoreId, first: Line, count: u64, now: Ps) -> DeadLines {
        let mut dead = DeadLines::default();
        self.enter(Requester::Core(core));
        for line in (first.0..first.0 + count).map(Line) {
            let spot = self.llc.spot(line);
            let at = self.llc.take_in(spot, Requester::Core(core), now).at;
            if self.copies.is_some() {
                self.before_write(line, at);
            }
            let elsewhere = self.has_sockets() && self.others_have(line);
            if elsewhere {
                self.claim(line, at);
            }
            if self.behind.tails.is_some() {
                self.behind.supersede(line);
            }
            let private = self.invalidate_private(line);
            let shared = self.llc.remove(spot);
            dead.cached += u64::from(private.is_some() || shared.is_some() || elsewhere);
            dead.dirty += u64::from(private == Some(true) || shared == Some(true));
        }
        dead
    }
}
