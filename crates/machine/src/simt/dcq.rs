//! The delay commit queue: warps finish in any order and commit in the order of their arrival.
//!
//! An entry is allocated when a warp is issued; a look-up table gives a finished warp's entry. Only what is at the
//! head commits, and its entry is free then. With the table the hardware needs no search (figure 2 of the paper).
//!
//! **Source**: Zhu, Deng, Chen, DAC 2011, section 3.2.2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::MachineError;

/// The queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DcqSpec {
    /// Entries: warps that are issued and not yet committed.
    pub entries: u32,
    /// Warps that commit in a clock.
    pub commits: u32,
}

/// Issued warps in order, and which of them are finished.
#[derive(Clone, Debug)]
pub struct DelayCommitQueue {
    /// A ring: the warp of each entry, and whether it is finished.
    entries: Vec<(u32, bool)>,
    head: usize,
    used: usize,
    /// Core and slot to entry.
    table: Vec<Option<u32>>,
    slots: usize,
    /// The most entries that were in use at a time.
    most: usize,
}

impl DelayCommitQueue {
    /// An empty queue for `cores` cores of `slots` warps each.
    ///
    /// # Errors
    /// No entries, or no commits.
    pub fn new(spec: &DcqSpec, cores: usize, slots: usize) -> Result<DelayCommitQueue, MachineError> {
        for (field, value) in [("entries", spec.entries), ("commits", spec.commits)] {
            if !(1..=1 << 20).contains(&value) {
                let remedy = "the paper has 1024 entries";
                return Err(MachineError::new(
                    format!("dcq.{field}"),
                    value.to_string(),
                    "1 to 1048576",
                    remedy.into(),
                ));
            }
        }
        Ok(DelayCommitQueue {
            entries: vec![(0, false); spec.entries as usize],
            head: 0,
            used: 0,
            table: vec![None; cores * slots],
            slots,
            most: 0,
        })
    }

    /// Whether no entry is free.
    pub fn is_full(&self) -> bool {
        self.used == self.entries.len()
    }

    /// The most entries that were in use at a time.
    pub fn most(&self) -> usize {
        self.most
    }

    /// `warp` is issued to a slot of a core and takes the next entry; false, and nothing happens, if there is none.
    pub fn allocate(&mut self, warp: u32, core: u32, slot: u32) -> bool {
        if self.is_full() {
            return false;
        }
        let entry = (self.head + self.used) % self.entries.len();
        self.entries[entry] = (warp, false);
        self.table[core as usize * self.slots + slot as usize] = Some(entry as u32);
        self.used += 1;
        self.most = self.most.max(self.used);
        true
    }

    /// The warp in that slot is finished; false if the table has no entry for it.
    pub fn finish(&mut self, core: u32, slot: u32) -> bool {
        let Some(entry) = self.table[core as usize * self.slots + slot as usize].take() else { return false };
        self.entries[entry as usize].1 = true;
        true
    }

    /// Whether the head could commit.
    pub fn is_due(&self) -> bool {
        self.used > 0 && self.entries[self.head].1
    }

    /// The warp at the head, if it is finished; its entry is free then.
    pub fn commit(&mut self) -> Option<u32> {
        if !self.is_due() {
            return None;
        }
        let (warp, _) = std::mem::take(&mut self.entries[self.head]);
        self.head = (self.head + 1) % self.entries.len();
        self.used -= 1;
        Some(warp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeSet, VecDeque};

    fn queue(entries: u32, slots: usize) -> DelayCommitQueue {
        DelayCommitQueue::new(&DcqSpec { entries, commits: 1 }, 1, slots).unwrap()
    }

    #[test]
    fn a_finished_warp_waits_for_those_before_it() {
        let mut dcq = queue(4, 4);
        assert!(dcq.allocate(10, 0, 0) && dcq.allocate(11, 0, 1));
        assert!(dcq.finish(0, 1));
        assert_eq!(dcq.commit(), None);
        assert!(dcq.finish(0, 0));
        assert_eq!((dcq.commit(), dcq.commit(), dcq.commit()), (Some(10), Some(11), None));
        assert!(!dcq.finish(0, 0), "an entry is found once");
    }

    #[test]
    fn a_full_queue_takes_no_warp_until_its_head_commits() {
        let mut dcq = queue(2, 4);
        assert!(dcq.allocate(0, 0, 0) && dcq.allocate(1, 0, 1));
        assert!(dcq.is_full() && !dcq.allocate(2, 0, 2));
        dcq.finish(0, 1);
        assert!(!dcq.allocate(2, 0, 2));
        dcq.finish(0, 0);
        assert_eq!(dcq.commit(), Some(0));
        assert!(dcq.allocate(2, 0, 2));
        assert_eq!(dcq.most(), 2);
    }

    proptest! {
        /// Random finishing orders, queues that wrap: against a list that is searched.
        #[test]
        fn dcq_matches_naive(entries in 1u32..9, steps in prop::collection::vec((0usize..3, 0usize..8), 0..400)) {
            let mut dcq = queue(entries, 8);
            let (mut order, mut running, mut finished) = (VecDeque::new(), Vec::new(), BTreeSet::new());
            let (mut warp, mut committed) = (0u32, Vec::new());
            for (what, n) in steps {
                match what {
                    0 => {
                        let slot = (0..8u32).find(|s| !running.iter().any(|&(_, r)| r == *s));
                        if let Some(slot) = slot {
                            let room = order.len() < entries as usize;
                            prop_assert_eq!(dcq.allocate(warp, 0, slot), room);
                            if room {
                                order.push_back(warp);
                                running.push((warp, slot));
                                warp += 1;
                            }
                        }
                    }
                    1 if !running.is_empty() => {
                        let (w, slot) = running.swap_remove(n % running.len());
                        prop_assert!(dcq.finish(0, slot));
                        finished.insert(w);
                    }
                    _ => {
                        let due = order.front().copied().filter(|w| finished.contains(w));
                        prop_assert_eq!(dcq.commit(), due);
                        if let Some(w) = due {
                            order.pop_front();
                            committed.push(w);
                        }
                    }
                }
            }
            prop_assert!(committed.iter().copied().eq(0..committed.len() as u32), "in order, each once");
        }
    }
}
