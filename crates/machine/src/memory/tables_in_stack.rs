//! Tables in a stacked DRAM of their own, behind the LLC: a copy on every channel, split over its banks, and the distributor
//! ([`crate::stacked`]). Packets and everything else stay in the DRAM that the machine has.
//!
//! Each socket has such a memory with all of it, so that reads stay at their socket and a write goes to all of them.
//!
//! A table that is written has to be written on every channel. Writes are posted: they take banks, and nobody waits for them.
//!
//! Source: T. Korikawa, A. Kawabata, F. He, E. Oki, IEEE Access 8, 2020, section III.

use std::ops::Range;

use engine::Seed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Path, Reason};
use units::{Line, Ps};

use super::fabric::Fabric;
use super::home::Home;
use crate::MachineError;
use crate::stacked::{BankTurn, Stacked, StackedSpec};

/// What lies in stacked DRAM, and in which.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StackedTablesSpec {
    /// Whose memory: `tables` for all of the packet function's, one of its regions by name, `neighbours`, or one of these by
    /// name.
    pub holds: Vec<String>,
    /// The stacked DRAM.
    pub memory: StackedSpec,
}

impl Default for StackedTablesSpec {
    /// All tables, in the paper's memory.
    fn default() -> StackedTablesSpec {
        StackedTablesSpec { holds: vec!["tables".into()], memory: StackedSpec::default() }
    }
}

/// What a stacked DRAM has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Sub, Serialize, Deserialize, JsonSchema)]
pub struct StackedCounters {
    /// Lines read.
    pub reads: u64,
    /// Lines written, each on every channel.
    pub writes: u64,
    /// Reads that began while another bank of their channel was busy.
    #[serde(skip)]
    pub interleaved: u64,
    /// Time that reads waited for a bank.
    #[serde(skip)]
    pub waited: Ps,
    /// Time that banks were busy, those of all copies together.
    #[serde(skip)]
    pub busy: Ps,
}

crate::whole!(whole: StackedCounters { reads, writes, interleaved, waited, busy });

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TablesInStack {
    /// Of each socket.
    memories: Vec<Stacked>,
    link: Ps,
    ranges: Vec<Range<u64>>,
    #[serde(with = "whole")]
    counters: StackedCounters,
}

impl TablesInStack {
    /// The lines of `ranges`, at each of `sockets`. `path` is where the specification stands.
    ///
    /// # Errors
    /// A memory that cannot be or that nothing is in.
    pub(super) fn new(
        spec: &StackedTablesSpec,
        ranges: Vec<Range<u64>>,
        sockets: usize,
        seed: Seed,
        path: &str,
    ) -> Result<TablesInStack, MachineError> {
        if spec.holds.is_empty() {
            let remedy = "leave machine.stacked out to have no stacked DRAM";
            return Err(MachineError::new(format!("{path}.holds"), "[]", "one name or more", remedy.into()));
        }
        // Each draws its own service times.
        let of = |socket| Stacked::new(&spec.memory, &format!("{path}.memory"), Seed(seed.0.wrapping_add(socket)));
        let memories = (0..sockets as u64).map(of).collect::<Result<Vec<_>, _>>()?;
        Ok(TablesInStack { memories, link: spec.memory.link(), ranges, counters: StackedCounters::default() })
    }

    pub(super) fn counters(&self) -> StackedCounters {
        self.counters
    }

    #[cfg(test)]
    pub(super) fn bank_of(&self, line: Line) -> usize {
        self.memories[0].bank_of(line)
    }
}

impl Home for TablesInStack {
    #[inline]
    fn has(&self, line: Line) -> bool {
        self.ranges.iter().any(|range| range.contains(&line.0))
    }

    fn read(&mut self, line: Line, at: Ps, fabric: &mut Fabric, path: &mut Path) -> Ps {
        let arrives = at + self.link;
        let memory = &mut self.memories[fabric.here()];
        let BankTurn { begin, done, free } = memory.serve(memory.bank_of(line), arrives);
        let c = &mut self.counters;
        c.reads += 1;
        c.interleaved = self.memories.iter().map(Stacked::interleaved).sum();
        c.waited += begin - arrives;
        c.busy += free - begin;
        path.push(Reason::Interconnect, self.link * 2);
        path.push(Reason::BankBusy, begin - arrives);
        path.push(Reason::RowMiss, done - begin);
        done + self.link
    }

    fn write(&mut self, line: Line, at: Ps, fabric: &mut Fabric) -> Ps {
        let ways = fabric.send_to_others(at);
        self.counters.writes += 1;
        for (memory, way) in self.memories.iter_mut().zip(ways) {
            let bank = memory.bank_of(line);
            self.counters.busy += memory.write_all(bank, at + way + self.link);
        }
        at + self.link
    }

    fn set_untimed(&mut self, untimed: bool) {
        self.memories.iter_mut().for_each(|memory| memory.set_untimed(untimed));
    }
}
