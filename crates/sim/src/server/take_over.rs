//! A server that begins with what another one's caches hold: see [`machine::memory`].
//!
//! Both are of one scenario but for some settings. What lies in a region that both have lies at the same place in it. Mbufs go by
//! how long they have been free: the one that was used last stands for the one that will be used last here, so that a pool that
//! gives back the coldest mbuf finds it as cold as there.

use serde::{Deserialize, Serialize};
use units::{Clos, CoreId};

use super::{CoreInput, Server};

/// What came along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenOver {
    /// Lines of the LLC.
    pub lines: u64,
    /// Mbufs that stand for one of the other's.
    pub mbufs: u64,
}

impl Server {
    /// Takes over what the caches of `other`, which is warm, hold, of tables only where `same_tables` says that both have the same;
    /// this one has done nothing yet.
    pub fn take_over(&mut self, other: &Server, same_tables: bool) -> TakenOver {
        let (here, there) = (self.mbufs_by_use(), other.mbufs_by_use());
        let mut names = vec![None; other.mbufs as usize];
        for (&mbuf, &stands_for) in here.iter().zip(&there) {
            if let Some(name) = names.get_mut(stands_for as usize) {
                *name = Some(mbuf);
            }
        }
        let mbufs =
            if self.layout.mbuf_stride() == other.layout.mbuf_stride() { here.len().min(there.len()) } else { 0 };
        let place = self.layout.moved(&other.layout, &names, same_tables);
        let clos: Vec<Clos> = self.cores.iter().map(|core| core.core.clos()).collect();
        let of_core = |core: CoreId| clos.get(usize::from(core.0)).copied().unwrap_or_default();
        let lines = self.memory.take_over(&other.memory, place, of_core);
        TakenOver { lines, mbufs: mbufs as u64 }
    }

    /// All mbufs, those that were used last before the others.
    fn mbufs_by_use(&self) -> Vec<u32> {
        let rings = self.cores.iter().filter_map(|core| match &core.input {
            CoreInput::Nic(rx) => Some(rx.queues()),
            CoreInput::Queue(..) => None,
        });
        let shared = self.nic.common.as_ref().and_then(|common| common.shared());
        let shared = shared.map(|ring| ring.posted_mbufs().collect::<Vec<u32>>()).unwrap_or_default();
        let mut rings: Vec<_> = rings.flatten().map(|rx| rx.posted_mbufs()).collect();
        // Rings go round side by side; those that hold more begin first.
        let longest = rings.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
        let mut posted = Vec::new();
        for left in (1..=longest).rev() {
            posted.extend(rings.iter_mut().filter(|ring| ring.len() >= left).filter_map(Iterator::next));
        }
        let free = self.pool.by_use(posted.into_iter().chain(shared));
        let mut in_hand = vec![true; self.mbufs as usize];
        for &mbuf in &free {
            in_hand[mbuf as usize] = false;
        }
        let in_hand = (0..self.mbufs as u32).filter(|&mbuf| in_hand[mbuf as usize]);
        in_hand.chain(free.iter().copied()).collect()
    }
}
