//! SRAM before the packet buffer: the last lines that the NIC has written of each receive queue, which go to DRAM together.
//!
//! Models the input half of ADAPT (Hasan, Chandra, Vijaykumar, ISCA 2003, section 4.5: the tails of queues; the heads are
//! the NIC's own, where it reads ahead). It lies beside the LLC, on the way of what devices write past it, and is coherent:
//! a core that misses everywhere else gets a line from it in the LLC's time, and takes the line over to write it; what the
//! NIC reads of it to send is not wanted again and never goes to DRAM; what the LLC writes back takes the place of what it
//! has. Lines that the LLC's I/O ways take in do not come here. Left out: its own port, which is taken to keep up.

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Line, Ps};

use super::Hierarchy;
use crate::MachineError;

/// Lines of a queue at the most.
pub const MOST_CACHED: u32 = 4096;

/// What has become of the lines that tails were given. The sum of all but `to_cores` and what they still hold is `written`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Sub, Serialize, Deserialize, JsonSchema)]
pub struct TailCounters {
    /// By the NIC into them.
    pub written: u64,
    /// To DRAM: together with others of their queue, or by themselves before a copy engine in the memory controller reads
    /// them there or a part of them is written past the caches.
    pub gathered: u64,
    /// Given up as the NIC read them to send them, from here or from a cache that had them, too.
    pub bypassed: u64,
    /// Taken over by a core or the LLC, or written anew.
    pub replaced: u64,
    /// Loads of cores and reads of DMA engines that they have answered; the line stays until it is written.
    pub to_cores: u64,
}

/// See the module header.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tails {
    cells: usize,
    queues: Vec<Vec<Line>>,
    /// By line: whose it is.
    #[serde(serialize_with = "units::arrays::in_order")]
    held: FxHashMap<u64, u32>,
    /// Whose packet the present request of a device writes.
    queue: Option<u32>,
    /// The present reads of a device are a copy engine's, which sends nothing.
    copies: bool,
    /// Lines that went to DRAM by [`Hierarchy::hold`] and [`Hierarchy::clean_tail`], for tests.
    #[cfg(test)]
    #[serde(skip)]
    pub(super) log: Vec<Line>,
    counters: TailCounters,
}

impl Tails {
    /// Whether a queue's tail has `line`.
    #[inline]
    pub(super) fn has(&self, line: Line) -> bool {
        self.held.contains_key(&line.0)
    }

    /// `line` is out of date.
    pub(super) fn supersede(&mut self, line: Line) {
        let held = self.remove(line);
        self.counters.replaced += u64::from(held);
    }

    /// A core has got a line, which stays unless the core is to write it.
    pub(super) fn answered(&mut self, write: bool) {
        self.counters.to_cores += u64::from(!write);
    }

    fn remove(&mut self, line: Line) -> bool {
        let Some(queue) = self.held.remove(&line.0) else { return false };
        self.queues[queue as usize].retain(|held| *held != line);
        true
    }
}

impl Hierarchy {
    /// Has `queues` receive queues keep the last `cells` lines each before they go to DRAM.
    ///
    /// # Errors
    /// More lines than [`MOST_CACHED`]. `path` is where `cells` stands in the scenario.
    pub fn hold_tails(&mut self, cells: u32, queues: u32, path: &str) -> Result<(), MachineError> {
        if cells > MOST_CACHED {
            let remedy = "the paper has 4".into();
            return Err(MachineError::new(path, cells.to_string(), format!("0 to {MOST_CACHED} lines"), remedy));
        }
        self.behind.tails = (cells > 0).then(|| {
            Box::new(Tails {
                cells: cells as usize,
                queues: vec![Vec::with_capacity(cells as usize); queues as usize],
                held: FxHashMap::default(),
                queue: None,
                copies: false,
                #[cfg(test)]
                log: Vec::new(),
                counters: TailCounters::default(),
            })
        });
        Ok(())
    }

    /// As [`Hierarchy::dma_write`], of a packet of receive queue `queue`.
    pub fn dma_write_packet(&mut self, queue: usize, first: Line, count: u64, now: Ps) -> Ps {
        if let Some(tails) = &mut self.behind.tails {
            tails.queue = Some(queue as u32);
        }
        let at = self.dma_write(first, count, now);
        if let Some(tails) = &mut self.behind.tails {
            tails.queue = None;
        }
        at
    }

    /// What the tails of receive queues have done; [`None`] without them.
    pub fn tails(&self) -> Option<TailCounters> {
        self.behind.tails.as_ref().map(|tails| tails.counters)
    }

    /// Lines that the tails of receive queues have.
    pub fn tail_lines(&self) -> u64 {
        self.behind.tails.as_ref().map_or(0, |tails| tails.held.len() as u64)
    }

    /// Puts `line`, written by a device past the LLC, into its queue's tail: when it is there, and those that it fills up
    /// are before their channels; [`None`] if it goes to DRAM by itself.
    pub(super) fn hold(&mut self, line: Line, at: Ps) -> Option<Ps> {
        let tails = self.behind.tails.as_deref_mut()?;
        let queue = tails.queue?;
        let lines = &mut tails.queues[queue as usize];
        lines.push(line);
        tails.held.insert(line.0, queue);
        tails.counters.written += 1;
        if lines.len() < tails.cells {
            return Some(at);
        }
        let mut full = std::mem::take(lines);
        for line in &full {
            tails.held.remove(&line.0);
        }
        tails.counters.gathered += full.len() as u64;
        #[cfg(test)]
        tails.log.extend(&full);
        let there = full.iter().map(|&line| self.behind.write(line, at).1).fold(at, Ps::max);
        full.clear();
        if let Some(tails) = &mut self.behind.tails {
            tails.queues[queue as usize] = full;
        }
        Some(there)
    }

    /// As [`Hierarchy::dma_read`], by a DMA engine: what it copies is wanted again.
    pub(super) fn dma_read_to_copy(&mut self, first: Line, count: u64, now: Ps) -> Ps {
        if let Some(tails) = &mut self.behind.tails {
            tails.copies = true;
        }
        let at = self.dma_read(first, count, now);
        if let Some(tails) = &mut self.behind.tails {
            tails.copies = false;
        }
        at
    }

    /// DRAM gets what a tail has of `line`, asked for at `now`, which gives it up: when DRAM has it.
    pub(super) fn clean_tail(&mut self, line: Line, now: Ps) -> Ps {
        let Some(tails) = self.behind.tails.as_deref_mut() else { return now };
        if !tails.remove(line) {
            return now;
        }
        tails.counters.gathered += 1;
        #[cfg(test)]
        tails.log.push(line);
        self.at_socket(self.behind.fabric.socket_of_nic(), now, |memory, at| memory.behind.write(line, at).0)
    }

    /// Whether a device gets `line` from a tail. What the NIC sends is not wanted again, unless copies of it are.
    #[inline]
    pub(super) fn bypasses(&mut self, line: Line) -> bool {
        if self.copies.as_ref().is_some_and(|copies| copies.table.is_source(line)) {
            return false;
        }
        let Some(tails) = &mut self.behind.tails else { return false };
        if tails.copies {
            let held = tails.held.contains_key(&line.0);
            tails.counters.to_cores += u64::from(held);
            return held;
        }
        let held = tails.remove(line);
        tails.counters.bypassed += u64::from(held);
        held
    }

    /// The NIC, and not a copy engine, sends `line`, which a cache has.
    pub(super) fn is_sent(&mut self, line: Line) {
        if self.behind.tails.as_ref().is_some_and(|tails| !tails.copies) {
            self.bypasses(line);
        }
    }
}
