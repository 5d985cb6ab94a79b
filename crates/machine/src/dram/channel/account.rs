//! What is counted and kept: counts, latencies, how requests found their banks, and all commands if asked for.

use ::stats::Histogram;
use serde::{Deserialize, Serialize};
use units::Ps;

use super::queues::RowOutcome;
use crate::dram::checker::Issued;
use crate::dram::counters::Counters;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::dram) struct BusAccount {
    pub counters: Counters,
    /// Of reads and of writes, in clocks.
    pub latency: [Histogram; 2],
    /// By bank, hits, misses and conflicts.
    pub heat: Vec<[u64; 3]>,
    pub log: Option<Vec<Issued>>,
}

impl BusAccount {
    pub(super) fn new(banks: usize) -> BusAccount {
        BusAccount {
            counters: Counters::default(),
            latency: [Histogram::new(), Histogram::new()],
            heat: vec![[0; 3]; banks],
            log: None,
        }
    }

    /// The first column command of a request.
    #[inline(always)]
    pub(super) fn begun(&mut self, bank: usize, class: RowOutcome, write: bool) {
        self.heat[bank][class as usize] += 1;
        if write {
            self.counters.writes += 1;
        } else {
            self.counters.reads += 1;
        }
    }

    /// The end of a request.
    #[inline(always)]
    pub(super) fn finished(&mut self, write: bool, clocks: u32) {
        self.latency[usize::from(write)].record(Ps(u64::from(clocks)));
    }
}
